"""Small C functions that generated kernels call (specs/lower.md, "c").

Each is written once, for the integer types by a pattern; `@` stands for the model's prefix, and before the name of
another one says that this is needed. A `Library` remembers which ones a model uses and prints those, each after what it
needs. None of them has undefined behaviour for any operand.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

from assay.lower.c import narrow
from assay.lower.c.externs import Externs
from assay.lower.c.names import ScopeNames
from assay.semantics.errors import Crash
from assay.semantics.walk import reached

_SIGNED = {
    "abs": """
static T @abs_S(T a)
{
    return (a < 0) ? (T)((U)0 - (U)a) : a;
}
""",
    "floordiv": """
static T @floordiv_S(T a, T b)
{
    const T q = (b == -1) ? (T)((U)0 - (U)a) : a / b;
    const T r = (b == -1) ? 0 : a % b;
    return (r != 0 && (r < 0) != (b < 0)) ? q - 1 : q;
}
""",
    "floormod": """
static T @floormod_S(T a, T b)
{
    const T r = (b == -1) ? 0 : a % b;
    return (r != 0 && (r < 0) != (b < 0)) ? r + b : r;
}
""",
    "truncdiv": """
static T @truncdiv_S(T a, T b)
{
    return (b == -1) ? (T)((U)0 - (U)a) : a / b;
}
""",
    "truncmod": """
static T @truncmod_S(T a, T b)
{
    return (b == -1) ? 0 : a % b;
}
""",
    "shr": """
static T @shr_S(T a, T b)
{
    return (a >= 0) ? a >> b : ~(~a >> b);
}
""",
}
# an operand that the compiler folds to 0, or to a shift that is too wide, is a warning unless it stands in a function
_SIMPLE = """
static T @OP_S(T a, T b)
{
    return a SIGN b;
}
"""
_TRUNCATE = """
static T @OP(SOURCE value)
{
    return (T)value;
}
"""
_ORDER = """
static T @OP_S(T a, T b)
{
    return (a SIGN b) ? a : b;
}
"""
# the two zeros are equal: of equal numbers the bits decide, and those of equal numbers differ for zeros only
_FLOAT_ORDER = """
static T @OP_S(T a, T b)
{
    U p;
    U q;
    T equal;
    memcpy(&p, &a, sizeof p);
    memcpy(&q, &b, sizeof q);
    p MERGE q;
    memcpy(&equal, &p, sizeof equal);
    const T one = (a SIGN b) ? a : b;
    const T other = (a != a) ? a : one;
    return (a == b) ? equal : other;
}
"""
_FROM_BITS = """
static T @S(U bits)
{
    T value;
    memcpy(&value, &bits, sizeof value);
    return value;
}
"""
_TO_BITS = """
static U @bits_S(T value)
{
    U bits;
    memcpy(&bits, &value, sizeof bits);
    return bits;
}
"""


def _typed(text: str, value: str, unsigned: str) -> str:
    """The pattern with its types: T for values, U for the unsigned integer of the same width."""
    return re.sub(r"\b[TU]\b", lambda found: value if found[0] == "T" else unsigned, text)


def _table() -> dict[str, str]:
    rows: dict[str, str] = {}
    for bits in ("32", "64"):
        signed, unsigned, real = f"int{bits}_t", f"uint{bits}_t", "float" if bits == "32" else "double"
        for op, text in _SIGNED.items():
            rows[f"{op}_i{bits}"] = _typed(text.replace("_S", f"_i{bits}"), signed, unsigned)
        rows[f"sub_f{bits}"] = _typed(_SIMPLE.replace("OP_S", f"sub_f{bits}").replace("SIGN", "-"), real, unsigned)
        for op, sign in (("div", "/"), ("mod", "%"), ("shl", "<<"), ("shr", ">>")):
            text = _SIMPLE.replace("OP_S", f"{op}_u{bits}").replace("SIGN", sign)
            rows[f"{op}_u{bits}"] = _typed(text, unsigned, unsigned)
        name = f"u{bits}_of_i{bits}"
        rows[name] = _typed(_TRUNCATE.replace("OP", name).replace("SOURCE", signed), unsigned, unsigned)
        for width in (8, 16, 32, 64):
            for letter, type_ in (("i", f"int{width}_t"), ("u", f"uint{width}_t")):
                name = f"{letter}{width}_of_f{bits}"
                rows[name] = _typed(_TRUNCATE.replace("OP", name).replace("SOURCE", real), type_, unsigned)
        for op, sign, merge in (("min", "<", "|="), ("max", ">", "&=")):
            for letter, type_ in (("i", signed), ("u", unsigned)):
                text = _ORDER.replace("OP_S", f"{op}_{letter}{bits}").replace("SIGN", sign)
                rows[f"{op}_{letter}{bits}"] = _typed(text, type_, unsigned)
            text = _FLOAT_ORDER.replace("OP_S", f"{op}_f{bits}").replace("SIGN", sign).replace("MERGE", merge)
            rows[f"{op}_f{bits}"] = _typed(text, real, unsigned)
        rows[f"f{bits}"] = _typed(_FROM_BITS.replace("S(", f"f{bits}("), real, unsigned)
        rows[f"bits_f{bits}"] = _typed(_TO_BITS.replace("_S", f"_f{bits}"), real, unsigned)
    return {**rows, **_FIXED, **dict(narrow.helpers()), "sha256": _SHA256}


_FIXED = {
    "byte": """
/* Where a byte of numbers is, counted from the lowest; `last` is one less than the bytes of a number. */
#if defined(__BYTE_ORDER__) && defined(__ORDER_BIG_ENDIAN__)
#if __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__
#define @byte(place, last) ((place) ^ (last))
#endif
#endif
#if !defined(@byte)
#define @byte(place, last) (place)
#endif
""",
    "bits_of": """
static int64_t @bits_of(double value)
{
    int64_t bits;
    memcpy(&bits, &value, sizeof bits);
    return bits;
}
""",
    "float_of": """
static double @float_of(int64_t bits)
{
    double value;
    memcpy(&value, &bits, sizeof value);
    return value;
}
""",
    "load_f16": """
/* The float16 with these bits. */
static float @load_f16(uint16_t half)
{
    const uint32_t sign = ((uint32_t)half & 0x8000u) << 16;
    const uint32_t magnitude = (uint32_t)half & 0x7fffu;
    if (magnitude >= 0x7c00u) {
        return @f32(sign | 0x7f800000u | ((magnitude & 0x3ffu) << 13));
    }
    if (magnitude >= 0x400u) {
        return @f32(sign | ((magnitude << 13) + 0x38000000u));
    }
    return (sign != 0u) ? -((float)magnitude * 0x1p-24f) : (float)magnitude * 0x1p-24f;
}
""",
    "store_f16": """
/* The bits of the float16 nearest to a number, ties to even. */
static uint16_t @store_f16(float value)
{
    const uint32_t bits = @bits_f32(value);
    const uint32_t sign = (bits >> 16) & 0x8000u;
    const uint32_t magnitude = bits & 0x7fffffffu;
    uint32_t half;
    if (magnitude > 0x7f800000u) {
        half = 0x7e00u;
    } else if (magnitude >= 0x477ff000u) {
        half = 0x7c00u;
    } else if (magnitude >= 0x38800000u) {
        half = (magnitude + 0xfffu + ((magnitude >> 13) & 1u) - 0x38000000u) >> 13;
    } else {
        half = @bits_f32(@f32(magnitude) + 0.5f) - 0x3f000000u; /* units of 2 to the -24 */
    }
    return (uint16_t)(sign | half);
}
""",
    "round_f16": """
static float @round_f16(float value)
{
    return @load_f16(@store_f16(value));
}
""",
    "load_bf16": """
/* The bfloat16 with these bits. */
static float @load_bf16(uint16_t half)
{
    return @f32((uint32_t)half << 16);
}
""",
    "store_bf16": """
/* The bits of the bfloat16 nearest to a number, ties to even. */
static uint16_t @store_bf16(float value)
{
    const uint32_t bits = @bits_f32(value);
    if ((bits & 0x7fffffffu) > 0x7f800000u) {
        return (uint16_t)((bits >> 16) | 0x40u);
    }
    return (uint16_t)((bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16);
}
""",
    "round_bf16": """
static float @round_bf16(float value)
{
    return @load_bf16(@store_bf16(value));
}
""",
    "odd_f64": """
/* A number as float, rounded to odd: rounding that to 16 bits is the same as rounding the number itself. */
static float @odd_f64(double value)
{
    const float near = (float)value;
    const uint32_t bits = @bits_f32(near);
    if (value != value || (double)near == value || (bits & 1u) != 0u) {
        return near;
    }
    if ((value < 0.0) ? (double)near < value : (double)near > value) {
        return @f32(bits - 1u);
    }
    return @f32(bits + 1u);
}
""",
    "odd_u64": """
/* An integer as float, rounded to odd. */
static float @odd_u64(uint64_t value)
{
    if (value >> 53 != 0u) {
        const uint64_t lost = ((value & 2047u) != 0u) ? 1u : 0u;
        return @odd_f64((double)((value >> 11) | lost) * 2048.0);
    }
    return @odd_f64((double)value);
}
""",
    "odd_i64": """
static float @odd_i64(int64_t value)
{
    return (value < 0) ? -@odd_u64((uint64_t)0 - (uint64_t)value) : @odd_u64((uint64_t)value);
}
""",
    "overlap": """
/* Whether two pieces of memory share a byte. */
static int @overlap(const void *a, size_t a_bytes, const void *b, size_t b_bytes)
{
    const uintptr_t p = (uintptr_t)a;
    const uintptr_t q = (uintptr_t)b;
    if (a_bytes == 0u || b_bytes == 0u) {
        return 0;
    }
    return (p < q) ? (size_t)(q - p) < a_bytes : (size_t)(p - q) < b_bytes;
}
""",
}

_SHA256 = """
static uint32_t @rotate(uint32_t x, unsigned int n)
{
    return (x >> n) | (x << (32u - n));
}

/* One block of 64 bytes of SHA-256 (FIPS 180-4). */
static void @sha256_block(uint32_t *state, const unsigned char *block)
{
    static const uint32_t k[64] = {
        0x428a2f98u, 0x71374491u, 0xb5c0fbcfu, 0xe9b5dba5u, 0x3956c25bu, 0x59f111f1u, 0x923f82a4u, 0xab1c5ed5u,
        0xd807aa98u, 0x12835b01u, 0x243185beu, 0x550c7dc3u, 0x72be5d74u, 0x80deb1feu, 0x9bdc06a7u, 0xc19bf174u,
        0xe49b69c1u, 0xefbe4786u, 0x0fc19dc6u, 0x240ca1ccu, 0x2de92c6fu, 0x4a7484aau, 0x5cb0a9dcu, 0x76f988dau,
        0x983e5152u, 0xa831c66du, 0xb00327c8u, 0xbf597fc7u, 0xc6e00bf3u, 0xd5a79147u, 0x06ca6351u, 0x14292967u,
        0x27b70a85u, 0x2e1b2138u, 0x4d2c6dfcu, 0x53380d13u, 0x650a7354u, 0x766a0abbu, 0x81c2c92eu, 0x92722c85u,
        0xa2bfe8a1u, 0xa81a664bu, 0xc24b8b70u, 0xc76c51a3u, 0xd192e819u, 0xd6990624u, 0xf40e3585u, 0x106aa070u,
        0x19a4c116u, 0x1e376c08u, 0x2748774cu, 0x34b0bcb5u, 0x391c0cb3u, 0x4ed8aa4au, 0x5b9cca4fu, 0x682e6ff3u,
        0x748f82eeu, 0x78a5636fu, 0x84c87814u, 0x8cc70208u, 0x90befffau, 0xa4506cebu, 0xbef9a3f7u, 0xc67178f2u};
    uint32_t w[64];
    uint32_t s[8];
    int i;
    for (i = 0; i < 16; ++i) {
        w[i] = ((uint32_t)block[4 * i] << 24) | ((uint32_t)block[4 * i + 1] << 16) | ((uint32_t)block[4 * i + 2] << 8) |
               (uint32_t)block[4 * i + 3];
    }
    for (i = 16; i < 64; ++i) {
        const uint32_t a = w[i - 15];
        const uint32_t b = w[i - 2];
        w[i] = w[i - 16] + w[i - 7] + (@rotate(a, 7u) ^ @rotate(a, 18u) ^ (a >> 3)) +
               (@rotate(b, 17u) ^ @rotate(b, 19u) ^ (b >> 10));
    }
    for (i = 0; i < 8; ++i) {
        s[i] = state[i];
    }
    for (i = 0; i < 64; ++i) {
        const uint32_t e = @rotate(s[4], 6u) ^ @rotate(s[4], 11u) ^ @rotate(s[4], 25u);
        const uint32_t a = @rotate(s[0], 2u) ^ @rotate(s[0], 13u) ^ @rotate(s[0], 22u);
        const uint32_t t = s[7] + e + ((s[4] & s[5]) ^ (~s[4] & s[6])) + k[i] + w[i];
        const uint32_t u = a + ((s[0] & s[1]) ^ (s[0] & s[2]) ^ (s[1] & s[2]));
        s[7] = s[6];
        s[6] = s[5];
        s[5] = s[4];
        s[4] = s[3] + t;
        s[3] = s[2];
        s[2] = s[1];
        s[1] = s[0];
        s[0] = t + u;
    }
    for (i = 0; i < 8; ++i) {
        state[i] += s[i];
    }
}

static void @sha256(const unsigned char *data, size_t bytes, uint32_t *state)
{
    static const uint32_t start[8] = {0x6a09e667u, 0xbb67ae85u, 0x3c6ef372u, 0xa54ff53au,
                                      0x510e527fu, 0x9b05688cu, 0x1f83d9abu, 0x5be0cd19u};
    unsigned char last[128];
    const size_t whole = bytes / 64u;
    const size_t rest = bytes % 64u;
    const size_t end = (rest < 56u) ? 64u : 128u;
    const uint64_t bits = (uint64_t)bytes * 8u;
    size_t i;
    memcpy(state, start, sizeof start);
    for (i = 0; i < whole; ++i) {
        @sha256_block(state, data + 64u * i);
    }
    memset(last, 0, sizeof last);
    memcpy(last, data + 64u * whole, rest);
    last[rest] = 0x80u;
    for (i = 0; i < 8u; ++i) {
        last[end - 1u - i] = (unsigned char)((bits >> (8u * i)) & 0xffu);
    }
    for (i = 0; i < end; i += 64u) {
        @sha256_block(state, last + i);
    }
}
"""

HELPERS = _table()
"""The text of each helper, those first that others call."""


def _called(name: str) -> list[str]:
    """The helpers that stand in the text of one."""
    return [n for n in re.findall(r"@(\w+)", HELPERS[name]) if n in HELPERS]


class Library:
    """The helpers and externs that a model uses, and the headers that they and the kernels need.

    What only reproducible builds need is kept apart, in `reproducible`, and printed under the macro.
    """

    def __init__(
        self, prefix: str, macro: str, names: ScopeNames | None = None, externs: Mapping[str, str] | None = None
    ) -> None:
        self.prefix = prefix
        self.macro = macro
        self.externs = Externs(prefix, externs or {})
        self.uses_math = False
        self.constants: dict[str, str] = {}
        """Constants of the module's table that stand in the source, and what names them in C."""
        self.outside: set[str] = set()
        """Constants of the table that are not in the source: kernels that hold them are handed a pointer."""
        self.used_constants: set[str] = set()
        """Those that kernels name themselves."""
        self._names = names or ScopeNames()
        self.reproducible = self if names else Library(prefix, macro, self._names)
        self._used: set[str] = set()
        self._functions: dict[str, str] = {}

    def top(self, kind: str, name: str) -> str:
        """A fresh name at the top of the file for something of a `kind` (one letter) called `name`."""
        return f"{self.prefix}_{self._names.fresh(f'{kind}_{name}')}"

    def locals(self) -> ScopeNames:
        """An empty scope inside a function; it never hides a name of the top of the file."""
        return ScopeNames(closed=(f"{self.prefix}_", f"{self.macro}_"))

    def use(self, name: str) -> str:
        """The C name of a helper; it and what it needs will be printed."""
        if name not in HELPERS:
            raise Crash(f"no such helper: {name}")
        self._used.update(reached([name], lambda n: () if n in self._used else _called(n)))
        return f"{self.prefix}_{name}"

    def math(self, name: str) -> str:
        """The name of a function of <math.h>, which will be included."""
        self.uses_math = True
        return name

    def add(self, name: str, text: str) -> None:
        """A function whose text is made elsewhere; it is printed after the helpers, in the order of addition."""
        self._functions[name] = text

    def has(self, name: str) -> bool:
        """Whether a helper or extern of this name is in use already."""
        return name in self._functions

    def text(self) -> Iterable[str]:
        """The functions in use, each after what it needs."""
        yield from self._helpers(self._used)
        only = self.reproducible
        if only._functions:
            yield f"\n#ifdef {self.macro}_REPRODUCIBLE\n"
            yield from only._helpers(only._used - self._used)
            yield from only._functions.values()
            yield "\n#endif\n"
        yield from self._functions.values()

    def _helpers(self, wanted: set[str]) -> Iterable[str]:
        for name, text in HELPERS.items():
            if name in wanted:
                yield text.replace("@", f"{self.prefix}_")
