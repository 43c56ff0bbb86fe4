"""Each small function in emitted C beside the scalar arithmetic (specs/verify.md, "Trials").

The compiled library runs every helper that the text defines on a table of operands: special values, ends of ranges,
what lies at ties of a rounding and beside it, all of them together with all; every number where an operand has 16 bits.
What it must give is said here by the scalar operations of rule M5, by NumPy's own types or by whole numbers, never by
C. Transcendental functions are run as the reproducible build has them, bit for bit, and as their users have them, with
the platform's libm, within the bound of the operation.

A helper is known by its text with that of all that it calls: what has been shown once in a process is not shown again.
"""

from __future__ import annotations

import ctypes
import hashlib
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

import ml_dtypes
import numpy as np

from assay.lower.c import CSource
from assay.semantics.bounds import UFUNCS, Bounded, contains, erf
from assay.semantics.dtypes import DTYPES, DType
from assay.semantics.scalar import OPERATIONS, TRANSCENDENTAL, convert
from assay.semantics.walk import reached
from assay.verify.evidence import listed
from assay.verify.trials.data import distinct_numbers, special_values
from assay.verify.trials.kernels import different

Array = np.ndarray[Any, Any]
CTYPES = {f"{k}{b}_t": f"{k}{b}" for k in ("int", "uint") for b in (8, 16, 32, 64)} | {
    "float": "float32",
    "double": "float64",
}
SHORT = {"f16": "float16", "bf16": "bfloat16", "f32": "float32", "f64": "float64"}
NARROW = {
    of.kind[0] + of.name.removeprefix(of.kind).replace("_", ""): of
    for of in DTYPES.values()
    if of.bits < 8 and of.kind != "bool" or of.is_float and of.bits == 8
}
"""Dtypes of which an element is the lowest bits of a byte, by what their helpers are called: `f8e4m3fn`, `i4`."""
NUMPY = {
    "pow": "power", "asin": "arcsin", "acos": "arccos", "atan": "arctan", "atan2": "arctan2", "asinh": "arcsinh",
    "acosh": "arccosh", "atanh": "arctanh",
}  # fmt: skip
OTHERS = ("overlap", "rotate", "sha256_block", "sha256")
"""Helpers that take no numbers one by one; they have tables of their own."""
ENTRY = r"check|first|find_plan|print|measure_\d+"
"""Functions of the entry: the runs of the whole program are about these."""


@dataclass(frozen=True)
class Helper:
    """A function that the C defines: its name without the prefix, C types, and its text with that of what it calls."""

    name: str
    result: str
    params: tuple[str, ...]
    text: str


def helpers_of(source: CSource) -> list[Helper]:
    """The small functions that stand in the text of the C, kernels not among them."""
    prefix = re.escape(source.name)
    pattern = rf"^static (\w+) {prefix}_(\w+)\(([^)]*)\)\n\{{\n(.*?)^\}}\n"
    found = [(m[2], m[1], m[3], m[0]) for m in re.finditer(pattern, source.source, re.MULTILINE | re.DOTALL)]
    # kernels, wrappers and tables begin with a letter and an underscore
    found = [f for f in found if not re.match(r"[a-z]_", f[0]) and not re.fullmatch(ENTRY, f[0])]
    texts = {name: text.replace(f"{source.name}_", "@").replace(f"{source.macro}_", "@") for name, _, _, text in found}
    return [
        Helper(
            name,
            result,
            tuple(p.rsplit(" ", 1)[0].strip() if "*" not in p else p for p in params.split(", ")),
            _whole(name, texts),
        )
        for name, result, params, _ in found
    ]


def _whole(name: str, texts: Mapping[str, str]) -> str:
    found = reached([name], lambda n: [i for i in re.findall(r"@(\w+)\(", texts[n]) if i in texts])
    return "".join(texts[n] for n in found)


_passed: set[str] = set()
"""Digests of what has been shown in this process."""


class HelperTrials:
    """The helpers of one C text, and what the library must be compiled with to try them."""

    def __init__(self, source: CSource) -> None:
        self.source = source
        self.all = [h for h in helpers_of(source) if h.name not in OTHERS]
        self.apart = [h for h in helpers_of(source) if h.name in OTHERS]
        self.unknown = [h.name for h in self.all if _reference(h) is None]
        self.new = [h for h in self.all if _digest(h) not in _passed and _reference(h) is not None]
        self.done = False

    def text(self) -> str:
        """C that calls them, for the end of the file that includes the source."""
        name, macro = self.source.name, self.source.macro
        made = [_loop(f"{name}_{h.name}", f"assay_try_{h.name}", h.result, h.params) for h in self.new]
        natives = [h for h in self.new if _transcendental(h) and f"#ifdef {macro}_REPRODUCIBLE" in self.source.source]
        if natives:
            made.append(f"\n#undef {macro}_REPRODUCIBLE\n")
        for h in natives:
            own = re.search(
                rf"^static \w+ {re.escape(name)}_{h.name}\([^)]*\)\n\{{\n.*?^\}}\n",
                self.source.source,
                re.MULTILINE | re.DOTALL,
            )
            if own is None or f"#ifdef {macro}_REPRODUCIBLE" not in own[0]:
                continue
            made.append("\n" + own[0].replace(f"{name}_{h.name}(", f"assay_native_{h.name}(", 1))
            made.append(_loop(f"assay_native_{h.name}", f"assay_trylibm_{h.name}", h.result, h.params))
        if any(h.name == "sha256" for h in self.apart):
            made.append(_SHA256.replace("@", f"{name}_"))
        if any(h.name == "overlap" for h in self.apart):
            made.append(_OVERLAP.replace("@", f"{name}_"))
        return "".join(made)

    def run(self, library: ctypes.CDLL) -> str | None:
        """Which helper is wrong, and where; they are run once."""
        if self.done:
            return None
        for h in self.new:
            wrong = _try(h, library)
            if wrong:
                return f"helper {self.source.name}_{h.name}: {wrong}"
            _passed.add(_digest(h))
        for h in self.apart:
            if h.name in _APART and (wrong := _APART[h.name](library)):
                return f"helper {self.source.name}_{h.name}: {wrong}"
        self.done = True
        return None

    def __str__(self) -> str:
        count = len(self.all) + len(self.apart) - len(self.unknown)
        if not count and not self.unknown:
            return ""
        said = f"{count} helper{'s' if count != 1 else ''} of the C beside the scalar operations"
        return said + (f"; not {listed(self.unknown)}, which have no meaning there" if self.unknown else "")


def _digest(h: Helper) -> str:
    return hashlib.sha256(f"{h.result}{h.params}{h.text}".encode()).hexdigest()


def _loop(function: str, name: str, result: str, params: Sequence[str]) -> str:
    given = "".join(f", const {p} *p{i}" for i, p in enumerate(params))
    words = ", ".join(f"p{i}[i]" for i in range(len(params)))
    return (
        f"\nvoid {name}(size_t n, {result} *out{given});\nvoid {name}(size_t n, {result} *out{given})\n{{\n    size_t"
        f" i;\n    for (i = 0; i < n; ++i) {{\n        out[i] = {function}({words});\n    }}\n}}\n"
    )


# --- what is wanted ----------------------------------------------------------------------------------------------

Reference = Callable[..., Array]


def _transcendental(h: Helper) -> DType | None:
    """The dtype of a transcendental function with two definitions."""
    op, _, of = h.name.rpartition("_")
    return DTYPES[SHORT[of]] if op in TRANSCENDENTAL and of in SHORT else None


def _reference(h: Helper) -> tuple[Reference, Callable[..., Any] | None] | None:
    """What a helper must give, and the operands for which that is said (None: all)."""
    op, _, of = h.name.rpartition("_")
    types = [CTYPES.get(t.removeprefix("const ")) for t in (h.result, *h.params)]
    if None in types:
        return None
    result = DTYPES[str(types[0])]
    if h.name in TRANSCENDENTAL:
        return lambda *a: np.asarray(TRANSCENDENTAL[h.name].meaning(*a)), None
    short = _transcendental(h)
    if short is not None:
        # the helper computes in C's float: operands are numbers of the dtype, and so is the result
        return (
            lambda *a: np.asarray(TRANSCENDENTAL[op].meaning(*(x.astype(short.numpy) for x in a))).astype(result.numpy),
            None,
        )
    match re.fullmatch(r"(.*?)_([iuf])(32|64)", h.name), h.name:
        case re.Match() as m, _ if row := OPERATIONS.get(_NAMED.get(str(m[1]), str(m[1]))):
            inside = (lambda a, b: ~row.fails_at(b, 8 * b.dtype.itemsize)) if row.fails else None
            return lambda *a: np.asarray(row.meaning(*a)), inside
        case _, "bits_f32" | "bits_f64" | "bits_of":
            return lambda a: a.view(result.numpy), None
        case _, "f32" | "f64" | "float_of":
            return lambda a: a.view(result.numpy), None
        case _, "load_f16":
            return lambda a: a.view(np.float16).astype(np.float32), None
        case _, "load_bf16":
            return lambda a: (a.astype(np.uint32) << 16).view(np.float32), None
        case _, "store_f16" | "store_bf16":
            return lambda a: a.astype(DTYPES[SHORT[of]].numpy).view(np.uint16), None
        case _, "round_f16" | "round_bf16":
            return lambda a: a.astype(DTYPES[SHORT[of]].numpy).astype(np.float32), None
        case _, "odd_f64" | "odd_i64" | "odd_u64":
            return _to_odd, None
    if op in ("load", "store", "round", "wrap") and of in NARROW:
        return _narrow(op, NARROW[of], result), None
    if re.fullmatch(r"u(32|64)_of_i(32|64)", h.name):
        return lambda a: a.astype(result.numpy), None
    if re.fullmatch(r"[iu](8|16|32|64)_of_f(32|64)", h.name):
        # a helper may return more bits than it keeps: what is beyond the dtype of its name is never asked
        to = DTYPES[("int" if h.name[0] == "i" else "uint") + h.name[1 : h.name.index("_")]]
        return lambda a: np.asarray(convert(a, to)).astype(
            result.numpy
        ), lambda a: (np.trunc(a) >= float(to.min)) & (np.trunc(a) < float(to.max) + 1.0)
    return None


def _narrow(op: str, of: DType, result: DType) -> Reference:
    """What reads, writes and rounds the elements of a narrow dtype."""
    if op == "load":
        return lambda a: (a & ((1 << of.bits) - 1)).astype(np.uint8).view(of.numpy).astype(result.numpy)
    if op == "store":
        return lambda a: a.astype(of.numpy).view(np.uint8)
    return lambda a: a.astype(of.numpy).astype(result.numpy)


_NAMED = {"div": "floordiv", "mod": "floormod"}
"""The operations of helpers that are not called what their operation is."""


def _to_odd(values: Array) -> Array:
    """Numbers as float32, rounded to odd: cut off towards zero, and the last bit set where that lost something."""
    found = np.empty(values.shape, np.float32)
    for i, v in enumerate(values.tolist()):
        if isinstance(v, float) and not np.isfinite(v):
            found[i] = v
            continue
        with np.errstate(all="ignore"):
            near = (
                np.float32(v)
                if isinstance(v, float)
                else np.float32(
                    float(np.ldexp(float(abs(v) >> s), s)) if (s := max(0, abs(v).bit_length() - 53)) else float(abs(v))
                )
            )
        if not isinstance(v, float):
            near = -near if v < 0 else near
        exact: Any = float(near) if isinstance(v, float) or np.isinf(near) else int(near)
        if abs(exact) > abs(v):
            near = np.nextafter(near, np.float32(0))
        lost = exact != v
        found[i] = np.uint32(int(near.view(np.uint32)) | 1).view(np.float32) if lost else near
    return found


# --- operands ----------------------------------------------------------------------------------------------------


@cache
def operand_table(of: str) -> Array:
    """Operands of a type, each alone: what is special, random bit patterns, and what lies at ties of narrower types."""
    t = DTYPES[of]
    rng = np.random.default_rng(29)
    if t.bits <= 16:
        return np.arange(1 << t.bits, dtype=np.uint32).astype(f"u{t.itemsize}").view(t.numpy)
    bits = f"u{t.itemsize}"
    whole = (
        rng.integers(0, 1 << t.bits, 256, np.uint64, endpoint=False)
        if t.bits < 64
        else rng.integers(0, 2**64 - 1, 256, np.uint64, endpoint=True)
    )
    found = [special_values(t), whole.astype(bits).view(t.numpy)]
    if t.is_float:
        found.append(_beside_halves(t))
        found.append(
            np.array(
                [s * (2.0**e + d) for e in (7, 8, 15, 16, 31, 32, 63, 64) for d in (-1, -0.5, 0, 0.5) for s in (1, -1)]
            ).astype(t.numpy)
        )
        found.append((rng.standard_normal(512) * 2.0 ** rng.integers(-30, 31, 512)).astype(t.numpy))
    else:
        with np.errstate(all="ignore"):
            found.append(
                np.array([(1 << e) + d for e in range(t.bits) for d in (-1, 0, 1)], object)
                .astype(np.uint64, casting="unsafe")
                .astype(bits)
                .view(t.numpy)
                if t.bits < 64
                else np.array([((1 << e) + d) % 2**64 for e in range(64) for d in (-1, 0, 1)], np.uint64).view(t.numpy)
            )
    return distinct_numbers(np.concatenate(found))


def _beside_halves(t: DType) -> Array:
    """Numbers of 16 bits and less, the middles between neighbours, and what lies next to those."""
    found: list[Array] = []
    for narrow in (of for of in NARROW.values() if of.is_float):
        every = np.arange(1 << narrow.bits, dtype=np.uint8).view(narrow.numpy).astype(np.float64)
        every = np.unique(every[np.isfinite(every)])
        middle = np.concatenate([every, (every[1:] + every[:-1]) / 2, every[-1:] * 1.25]).astype(t.numpy)
        found += [middle, np.nextafter(middle, np.inf), np.nextafter(middle, -np.inf)]
    for of in (np.dtype(np.float16), np.dtype(ml_dtypes.bfloat16)):
        some = np.arange(0, 0x8000, 3 if t.bits == 32 else 61, dtype=np.uint16)
        some = np.concatenate(
            [
                some,
                some | np.uint16(0x8000),
                np.array([0, 1, 2, 0x3FF, 0x400, 0x7BFE, 0x7BFF, 0x7F7E, 0x7F7F], np.uint16),
            ]
        )
        with np.errstate(all="ignore"):
            low, high = (x.view(of).astype(np.float64) for x in (some, some + np.uint16(1)))
            middle = ((low + high) / 2).astype(t.numpy)
            middle = middle[np.isfinite(middle)]
            found += [middle, np.nextafter(middle, np.inf), np.nextafter(middle, -np.inf), low.astype(t.numpy)]
    return np.concatenate(found)


@cache
def pairs(a: str, b: str) -> tuple[Array, Array]:
    """Operands of two types together: all of what is special with all, and as many others."""
    rng = np.random.default_rng(31)
    sides = []
    for of in (a, b):
        t = DTYPES[of]
        more = operand_table(of)
        sides.append(distinct_numbers(np.concatenate([special_values(t), more[rng.integers(0, len(more), 48)]])))
    x, y = np.meshgrid(*sides, indexing="ij")
    return np.ascontiguousarray(x.reshape(-1)), np.ascontiguousarray(y.reshape(-1))


def operands(h: Helper) -> Iterator[tuple[Array, ...]]:
    """The operands that a helper is tried on: its type's table, or pairs; fewer for 16-bit transcendental functions."""
    types = [CTYPES[p.removeprefix("const ")] for p in h.params]
    short = _transcendental(h)
    made: tuple[Array, ...] = pairs(types[0], types[1]) if len(types) == 2 else (operand_table(types[0]),)
    if short is not None and short.bits == 16:
        with np.errstate(all="ignore"):
            few = [
                operand_table(short.name) if len(types) == 1 else distinct_numbers(x.astype(short.numpy))[:256]
                for x in made
            ]
        made = tuple(
            np.ascontiguousarray(x.reshape(-1))
            for x in np.meshgrid(*(x.astype(np.float32) for x in few), indexing="ij")
        )
    yield made


def _try(h: Helper, library: ctypes.CDLL) -> str | None:
    known = _reference(h)
    assert known is not None
    reference, domain = known
    for given in operands(h):
        with np.errstate(all="ignore"):
            if domain is not None:
                inside = domain(*given)
                given = tuple(np.ascontiguousarray(x[inside]) for x in given)
            wanted = reference(*given)
        got = _called(library, f"assay_try_{h.name}", wanted.dtype, given)
        if h.name.startswith("store_"):  # the bits of any NaN are a NaN's
            key = h.name.removeprefix("store_")
            of = NARROW.get(key) or DTYPES[SHORT[key]]
            if of.is_float and of.bits >= 8:
                wanted, got = wanted.view(of.numpy), got.view(of.numpy)
        wrong = _first(wanted, got, given)
        if wrong:
            return wrong
        short = _transcendental(h)
        if short is None or not hasattr(library, f"assay_trylibm_{h.name}"):
            continue
        got = _called(library, f"assay_trylibm_{h.name}", wanted.dtype, given)
        wrong = _outside(h.name.rpartition("_")[0], short, given, got)
        if wrong:
            return f"with the platform's libm: {wrong}"
    return None


def _called(library: ctypes.CDLL, name: str, of: Any, given: Sequence[Array]) -> Array:
    out = np.empty(given[0].shape, of)
    addresses = [ctypes.c_void_p(x.ctypes.data) for x in (out, *given)]
    function = getattr(library, name)
    function.restype = None
    function(ctypes.c_size_t(out.size), *addresses)
    return out


def _first(wanted: Array, got: Array, given: Sequence[Array]) -> str | None:
    if different(wanted, got) is None:
        return None
    for i in range(wanted.size):
        if different(wanted[i : i + 1], got[i : i + 1]):
            return f"of {', '.join(str(x[i]) for x in given)} it gives {got[i]}, must be {wanted[i]}"
    return None


def _outside(op: str, of: DType, given: Sequence[Array], got: Array) -> str | None:
    """Where a function of libm lies outside of the operation's bound; None where no bound is known."""
    function: Any = erf if op == "erf" else getattr(np, NUMPY.get(op, op), None)
    if function is not erf and function not in UFUNCS:
        return None
    with np.errstate(all="ignore"):
        allowed = function(*(Bounded.exact(x.astype(of.numpy)) for x in given))
        inside = contains(allowed, got.astype(of.numpy))
    if inside.all():
        return None
    i = int(np.flatnonzero(~inside)[0])
    low, high = allowed.interval()
    return f"of {', '.join(str(x[i]) for x in given)} it gives {got[i]}, allowed is [{low[i]}, {high[i]}]"


# --- what takes memory -------------------------------------------------------------------------------------------

_SHA256 = """
void assay_try_sha256(size_t n, const unsigned char *data, uint32_t *state);
void assay_try_sha256(size_t n, const unsigned char *data, uint32_t *state)
{
    @sha256(data, n, state);
}
"""
_OVERLAP = """
int assay_try_overlap(const void *a, size_t m, const void *b, size_t n);
int assay_try_overlap(const void *a, size_t m, const void *b, size_t n)
{
    return @overlap(a, m, b, n);
}
"""


def _sha256(library: ctypes.CDLL) -> str | None:
    data = np.random.default_rng(5).integers(0, 256, 260, np.uint8)
    for n in range(len(data)):
        state = np.zeros(8, np.uint32)
        library.assay_try_sha256(
            ctypes.c_size_t(n), ctypes.c_void_p(data.ctypes.data), ctypes.c_void_p(state.ctypes.data)
        )
        if state.astype(">u4").tobytes() != hashlib.sha256(data[:n].tobytes()).digest():
            return f"it gives another digest of {n} bytes than SHA-256"
    return None


def _overlap(library: ctypes.CDLL) -> str | None:
    base = 1 << 20
    for a in range(base, base + 6):
        for b in range(base, base + 6):
            for m in range(4):
                for n in range(4):
                    wanted = bool(set(range(a, a + m)) & set(range(b, b + n)))
                    got = library.assay_try_overlap(
                        ctypes.c_void_p(a), ctypes.c_size_t(m), ctypes.c_void_p(b), ctypes.c_size_t(n)
                    )
                    if bool(got) != wanted:
                        return f"of [{a}, {a + m}) and [{b}, {b + n}) it gives {got}"
    return None


_APART: dict[str, Callable[[ctypes.CDLL], str | None]] = {"sha256": _sha256, "overlap": _overlap}
