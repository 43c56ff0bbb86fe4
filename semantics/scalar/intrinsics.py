"""The functions of numbers that TVM has, as expressions of ours (specs/semantics.md, "Intrinsics").

A row says what a function means, how it is rounded and where it fails; the text format and the import of live modules
both read it. What stands in no row is refused by name.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from assay.semantics.dtypes import BOOL, FLOAT64, INT32, INT64, UINT64, dtype
from assay.semantics.errors import Invalid
from assay.semantics.scalar import Const, Expr, apply, cast, const, reinterpret, select

EXACT = "exact"
ONCE = "rounded once, to nearest even"
WIDE = "by way of float64: within 0.51 ulp up to 32 bits; the C library of a backend may be off by more (M9)"


@dataclass(frozen=True)
class Intrinsic:
    """A function: its names in TVM, how many operands of which kinds it takes, its meaning, rounding and failures."""

    names: tuple[str, ...]
    arity: int
    kinds: tuple[str, ...]
    build: Callable[..., Expr]
    rounding: str
    fails: str = ""

    def __call__(self, args: Sequence[Expr]) -> Expr:
        """The application; Invalid where the operands are not as many or not of these kinds."""
        name = self.names[0]
        if len(args) != self.arity:
            raise Invalid(f"{name} takes {self.arity} operands, {len(args)} given", label="scalar.C3")
        if args[0].dtype.kind not in self.kinds:
            raise Invalid(f"{name} is not defined on {args[0].dtype}", label="scalar.C6")
        return self.build(*args)


FLOAT = ("float",)
WHOLE = ("int", "uint")
NUMBER = ("int", "uint", "float")


def _op(name: str) -> Callable[..., Expr]:
    return lambda *args: apply(name, *args)


def _division(op: str) -> Callable[..., Expr]:
    return lambda a, b: division(op, a, b)


def _for_floats(name: str) -> Callable[[Expr], Expr]:
    """An operation that does nothing to whole numbers."""
    return lambda x: apply(name, x) if x.dtype.is_float else x


def _wide(of: Callable[[Expr], Expr]) -> Callable[[Expr], Expr]:
    """Computed in float64, rounded once to the operand's dtype."""
    return lambda x: cast(of(cast(x, FLOAT64)), x.dtype)


def _log1p(x: Expr) -> Expr:
    """Kahan's: the rounding of 1 + x is taken back by dividing by what was really added."""
    u = x + 1.0
    same = apply("eq", u, 1.0)
    ratio = apply("div", x, select(same, const(1.0, FLOAT64), u - 1.0))
    by_log = apply("log", u) * ratio
    return select(apply("or", same, apply("eq", u, np.inf)), x, by_log)


def _hypot(x: Expr, y: Expr) -> Expr:
    a, b = apply("abs", cast(x, FLOAT64)), apply("abs", cast(y, FLOAT64))
    infinite = apply("or", apply("eq", a, np.inf), apply("eq", b, np.inf))
    most = apply("max", a, b)
    scale = select(
        apply("gt", most, 2.0**500),
        const(2.0**-600, FLOAT64),
        select(apply("lt", most, 2.0**-400), const(2.0**600, FLOAT64), 1.0),
    )
    p, q = a * scale, b * scale
    return cast(select(infinite, const(np.inf, FLOAT64), apply("sqrt", p * p + q * q) / scale), x.dtype)


def _ldexp(x: Expr, n: Expr) -> Expr:
    """Of the powers of two that it is multiplied by, only the last one may round."""
    if not n.dtype.is_integer:
        raise Invalid(f"ldexp takes a whole number of powers, not {n.dtype}", label="scalar.C6")
    value, left = cast(x, FLOAT64), cast(n, INT64)
    for _ in range(2):
        low, high = left < -1022, left > 1023
        value = value * select(low, const(2.0**-969, FLOAT64), select(high, const(2.0**1023, FLOAT64), 1.0))
        left = left - select(low, const(-969), select(high, const(1023), const(0)))
    left = apply("max", apply("min", left, const(1023)), const(-1022))
    return cast(value * apply("float_of", apply("shl", left + 1023, 52)), x.dtype)


def _nextafter(x: Expr, y: Expr) -> Expr:
    of = x.dtype
    bits = apply("bits_of", x)
    step = select(apply("eq", apply("gt", y, x), apply("gt", x, 0.0)), const(1, bits.dtype), const(-1, bits.dtype))
    # from 0 to the least number with the sign of y
    least = reinterpret(const(1, bits.dtype), of)
    from_zero = select(apply("gt", y, 0.0), least, -least)
    moved = select(apply("eq", x, 0.0), from_zero, reinterpret(bits + step, of))
    unordered = apply("or", apply("ne", x, x), apply("ne", y, y))
    return select(unordered, x + y, select(apply("eq", x, y), y, moved))


def _copysign(x: Expr, y: Expr) -> Expr:
    zero = apply("eq", y, 0.0)
    negative = apply("lt", select(zero, apply("div", const(1.0, y.dtype), y), y), 0.0)
    size = apply("abs", x)
    return select(negative, -size, size)


def division(op: str, a: Expr, b: Expr) -> Expr:
    """floordiv, floormod, truncdiv and truncmod, which TVM has for floats too."""
    if not a.dtype.is_float:
        return apply(op, a, b)
    match op:
        case "floordiv":
            return apply("floor", apply("div", a, b))
        case "floormod":
            return a - apply("floor", apply("div", a, b)) * b
        case "truncmod":
            return apply("fmod", a, b)
        case _:
            return apply("trunc", apply("div", a, b))


def _bits(x: Expr) -> Expr:
    """The bits of a whole number, as uint64."""
    return cast(cast(x, dtype(f"uint{x.dtype.bits}")), UINT64)


def _count(x: Expr) -> Expr:
    """How many bits of a uint64 are set, as uint64."""

    def number(value: int) -> Expr:
        return const(value, UINT64)

    def part(e: Expr, by: int, mask: int) -> Expr:
        return apply("bitand", apply("shr", e, number(by)) if by else e, number(mask))

    pairs = x - part(x, 1, 0x5555555555555555)
    nibbles = part(pairs, 0, 0x3333333333333333) + part(pairs, 2, 0x3333333333333333)
    octets = apply("bitand", nibbles + apply("shr", nibbles, number(4)), number(0x0F0F0F0F0F0F0F0F))
    return apply("shr", octets * number(0x0101010101010101), number(56))


def _popcount(x: Expr) -> Expr:
    return cast(_count(_bits(x)), x.dtype)


def _clz(x: Expr) -> Expr:
    smeared = _bits(x)
    for by in (1, 2, 4, 8, 16, 32):
        smeared = apply("bitor", smeared, apply("shr", smeared, const(by, UINT64)))
    return const(x.dtype.bits, INT32) - cast(_count(smeared), INT32)


def _q_multiply_shift(x: Expr, y: Expr, q: Expr, s: Expr) -> Expr:
    if not (isinstance(q, Const) and isinstance(s, Const)) or x.dtype is not INT32 or y.dtype is not INT32:
        raise Invalid("q_multiply_shift takes two int32 numbers and two literals", label="scalar.C6")
    left, right = max(int(s.value), 0), max(-int(s.value), 0) + int(q.value)
    if left > 31 or not 1 <= right <= 62:
        raise Invalid(f"q_multiply_shift by {int(s.value)} of {int(q.value)} fractional bits", label="scalar.C6")
    product = cast(x, INT64) * (1 << left) * cast(y, INT64)
    return cast(apply("shr", product + (1 << (right - 1)), const(right)), INT32)


def _q_multiply_shift_per_axis(
    x: Expr, y: Expr, left: Expr, right: Expr, q: Expr, with_left: Expr, with_right: Expr
) -> Expr:
    if any(e.dtype is not INT32 for e in (x, y, left, right)):
        raise Invalid("q_multiply_shift_per_axis takes four int32 numbers", label="scalar.C6")
    if not (isinstance(q, Const) and isinstance(with_left, Const) and isinstance(with_right, Const)):
        raise Invalid("q_multiply_shift_per_axis takes three literals", label="scalar.C6")
    wide = cast(x, INT64)
    if with_left.value:
        wide = apply("shl", wide, cast(left, INT64))
    total = cast(right, INT64) + int(q.value) if with_right.value else const(int(q.value))
    half = apply("shl", const(1), total - 1)
    return cast(apply("shr", wide * cast(y, INT64) + half, total), INT32)


def _kinds_of_number(name: str, otherwise: bool) -> Callable[[Expr], Expr]:
    return lambda x: apply(name, x) if x.dtype.is_float else const(otherwise, BOOL)


ROWS: tuple[Intrinsic, ...] = (
    Intrinsic(("exp",), 1, FLOAT, _op("exp"), WIDE),
    Intrinsic(("exp2",), 1, FLOAT, lambda x: apply("pow", const(2.0, x.dtype), x), WIDE),
    Intrinsic(("exp10",), 1, FLOAT, lambda x: apply("pow", const(10.0, x.dtype), x), WIDE),
    Intrinsic(("log",), 1, FLOAT, _op("log"), WIDE),
    Intrinsic(("log2",), 1, FLOAT, _wide(lambda x: apply("log", x) * (1 / np.log(2.0))), WIDE),
    Intrinsic(("log10",), 1, FLOAT, _wide(lambda x: apply("log", x) * (1 / np.log(10.0))), WIDE),
    Intrinsic(("log1p",), 1, FLOAT, _wide(_log1p), WIDE),
    Intrinsic(("pow", "power"), 2, FLOAT, _op("pow"), WIDE),
    Intrinsic(("sin",), 1, FLOAT, _op("sin"), WIDE),
    Intrinsic(("cos",), 1, FLOAT, _op("cos"), WIDE),
    Intrinsic(("tan",), 1, FLOAT, _op("tan"), WIDE),
    Intrinsic(("asin",), 1, FLOAT, _op("asin"), WIDE),
    Intrinsic(("acos",), 1, FLOAT, _op("acos"), WIDE),
    Intrinsic(("atan",), 1, FLOAT, _op("atan"), WIDE),
    Intrinsic(("atan2",), 2, FLOAT, _op("atan2"), WIDE),
    Intrinsic(("tanh",), 1, FLOAT, _op("tanh"), WIDE),
    Intrinsic(("asinh",), 1, FLOAT, _op("asinh"), WIDE),
    Intrinsic(("acosh",), 1, FLOAT, _op("acosh"), WIDE),
    Intrinsic(("atanh",), 1, FLOAT, _op("atanh"), WIDE),
    Intrinsic(("hypot",), 2, FLOAT, _hypot, WIDE),
    Intrinsic(
        ("fma",), 3, FLOAT, _op("fma"), "rounded once; 16 bits by way of float64. A backend may round the product too"
    ),
    Intrinsic(("fmod",), 2, FLOAT, _op("fmod"), "exact; the dividend's sign; NaN by 0"),
    Intrinsic(("ldexp",), 2, FLOAT, _ldexp, ONCE),
    Intrinsic(("nextafter",), 2, FLOAT, _nextafter, EXACT),
    Intrinsic(("sinh",), 1, FLOAT, _op("sinh"), WIDE),
    Intrinsic(("cosh",), 1, FLOAT, _op("cosh"), WIDE),
    Intrinsic(("erf",), 1, FLOAT, _op("erf"), WIDE),
    Intrinsic(("sigmoid",), 1, FLOAT, _op("sigmoid"), "1 / (1 + exp(-x)), each step rounded"),
    Intrinsic(("sqrt",), 1, FLOAT, _op("sqrt"), ONCE),
    Intrinsic(("rsqrt",), 1, FLOAT, _op("rsqrt"), "1 / sqrt(x), each of the two rounded"),
    Intrinsic(("abs", "fabs"), 1, NUMBER, _op("abs"), EXACT, "the least integer stays what it is"),
    Intrinsic(("floor",), 1, NUMBER, _for_floats("floor"), "exact, down"),
    Intrinsic(("ceil",), 1, NUMBER, _for_floats("ceil"), "exact, up"),
    Intrinsic(("trunc",), 1, NUMBER, _for_floats("trunc"), "exact, to zero"),
    Intrinsic(
        ("round",), 1, NUMBER, _for_floats("round"), "exact, to nearest, ties to even, as apache-tvm 0.27 compiles it"
    ),
    Intrinsic(("nearbyint",), 1, NUMBER, _for_floats("rint"), "exact, to nearest, ties to even"),
    Intrinsic(("copysign",), 2, FLOAT, _copysign, EXACT, "the sign of a NaN is not observed and counts as +"),
    Intrinsic(("isnan",), 1, NUMBER, _kinds_of_number("isnan", False), EXACT),
    Intrinsic(("isinf",), 1, NUMBER, _kinds_of_number("isinf", False), EXACT),
    Intrinsic(("isfinite",), 1, NUMBER, _kinds_of_number("isfinite", True), EXACT),
    Intrinsic(
        ("FloorDiv", "floordiv"),
        2,
        NUMBER,
        _division("floordiv"),
        "exact, down; floats: floor(a / b)",
        "whole divisor 0 traps; least / -1 wraps",
    ),
    Intrinsic(
        ("FloorMod", "floormod"),
        2,
        NUMBER,
        _division("floormod"),
        "exact; the divisor's sign; floats: a - floor(a / b) * b",
        "whole divisor 0 traps",
    ),
    Intrinsic(("Div", "truncdiv"), 2, WHOLE, _op("truncdiv"), "exact, to zero", "divisor 0 traps; least / -1 wraps"),
    Intrinsic(
        ("Mod", "truncmod"),
        2,
        NUMBER,
        _division("truncmod"),
        "exact; the dividend's sign; floats: fmod",
        "whole divisor 0 traps",
    ),
    Intrinsic(
        ("LShift", "shift_left"), 2, WHOLE, _op("shl"), "exact, wraps", "by less than 0, or the width or more: traps"
    ),
    Intrinsic(("RShift", "shift_right"), 2, WHOLE, _op("shr"), "down; arithmetic if signed", "as shift_left"),
    Intrinsic(("popcount",), 1, WHOLE, _popcount, EXACT),
    Intrinsic(("clz",), 1, WHOLE, _clz, "exact; int32", "of 0 the width; what TVM compiles gives 31 for an int32 0"),
    Intrinsic(("q_multiply_shift",), 4, ("int",), _q_multiply_shift, "x * y * 2^(s - q), half up; steps in int64 wrap"),
    Intrinsic(
        ("q_multiply_shift_per_axis",),
        7,
        ("int",),
        _q_multiply_shift_per_axis,
        "x * 2^l * y * 2^-(q + r), half up; steps in int64 wrap",
        "as shift_left",
    ),
)

INTRINSICS: dict[str, Intrinsic] = {name: row for row in ROWS for name in row.names}


def table() -> str:
    """The page of intrinsics: a row of Markdown for each."""
    lines = ["| in TVM | on | result | where it fails |", "|---|---|---|---|"]
    for row in ROWS:
        lines.append(f"| {', '.join(row.names)} | {', '.join(row.kinds)} | {row.rounding} | {row.fails or '-'} |")
    return "\n".join(lines) + "\n"
