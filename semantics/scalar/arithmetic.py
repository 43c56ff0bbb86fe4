"""The arithmetic of rule M5: what each scalar operation does to numbers (specs/semantics.md, "Scalars").

Each operation stands once, in `OPERATIONS`, written so that the same entry works on a NumPy scalar, on an array of
lanes and on anything else that overloads Python's operators (z3 terms, symbolic terms).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, Literal

import numpy as np

from assay.semantics.dtypes import DTYPES, DType, dtype
from assay.semantics.errors import Invalid, Trap

Property = Literal["divides", "shifts", "wraps", "compares", "commutes", "associates", "idempotent"]
"""`divides` and `shifts`: traps, by its second operand. `wraps`: what it gives on integers without end may leave
their dtype. `commutes`, `associates` and `idempotent` (an operand with itself gives that operand) hold bit for bit,
`associates` but for sums and products of floats."""


@dataclass(frozen=True)
class Operation:
    """One scalar operation: its operand kinds, the dtype of its result, its meaning on numbers and lanes, and the
    properties that passes and checks ask for; a test compares those with the meaning."""

    name: str
    arity: int
    kinds: tuple[str, ...]
    result: Literal["same", "bool", "bits"]
    meaning: Callable[..., Any]
    doc: str
    symbol: str = ""
    properties: tuple[Property, ...] = ()
    unit: int | float | None = None
    """What changes nothing as an operand: a number, -1 for all bits, or an infinity for the number at that end."""

    def has(self, wanted: Property) -> bool:
        """Whether the operation has a property."""
        return wanted in self.properties

    @property
    def fails(self) -> Literal["", "division by zero", "shift"]:
        """The kind of its trap; "" where it has none."""
        return "division by zero" if self.has("divides") else "shift" if self.has("shifts") else ""

    def fails_at(self, second: Any, width: int) -> Any:
        """Whether it traps by this second operand, a number or lanes; `width` is that of the dtype in bits."""
        return second == 0 if self.has("divides") else self.has("shifts") & ((second < 0) | (second >= width))


ANY = ("bool", "int", "uint", "float")
NUMERIC = ("int", "uint", "float")
WHOLE = ("int", "uint")


_WIDTHS: dict[Any, int] = {d.numpy: d.bits for d in DTYPES.values()}
_FLOATS = frozenset(d.numpy for d in DTYPES.values() if d.is_float)
_NARROW = tuple(d.numpy for d in DTYPES.values() if d.is_integer and d.bits < 8)


def _wrapped(meaning: Callable[..., Any]) -> Callable[..., Any]:
    """`meaning`, its result back in the operands' dtype: ml_dtypes gives int8 for some operations on narrow
    integers (rule M5.2)."""

    def wrapped(*args: Any) -> Any:
        result = meaning(*args)
        if isinstance(result, (np.ndarray, np.generic)) and result.dtype == np.int8 and args[0].dtype in _NARROW:
            return result.astype(args[0].dtype)
        return result

    return wrapped


def _any(condition: Any) -> bool:
    return bool(np.any(condition))


def divided_by_zero() -> Trap:
    """scalar.T1: an integer is divided by 0 (rule M5.3)."""
    return Trap("division by zero", "integer division by zero", right="the divisor must not be 0", label="scalar.T1")


def shifted_too_far(width: int) -> Trap:
    """scalar.T2: an integer of `width` bits is shifted by a negative number, or by `width` or more bits
    (rule M5.4)."""
    what = f"shift by less than 0 or by {width} or more bits"
    return Trap("shift", what, right=f"the shift must be by 0 to {width - 1} bits", label="scalar.T2")


def no_such_number(source: DType, to: DType) -> Trap:
    """A float for which an integer dtype has no number."""
    what, right = f"{source} value is NaN or out of the range of {to}", f"the value must be from {to.min} to {to.max}"
    return Trap("cast", what, right=right, label="scalar.T3")


def _checked_divisor(a: Any, b: Any) -> None:
    if _any(b == 0) and np.size(a):  # of no elements none is divided
        raise divided_by_zero()


def _floordiv(a: Any, b: Any) -> Any:
    _checked_divisor(a, b)
    return a // b


def _floormod(a: Any, b: Any) -> Any:
    _checked_divisor(a, b)
    return a % b


def _truncdiv(a: Any, b: Any) -> Any:
    _checked_divisor(a, b)
    q, r = a // b, a % b
    return q + ((r != 0) & ((a < 0) != (b < 0)))


def _truncmod(a: Any, b: Any) -> Any:
    return a - b * _truncdiv(a, b)


def _shift(a: Any, b: Any) -> None:
    width = _WIDTHS.get(getattr(a, "dtype", None), 64)
    if _any((b < 0) | (b >= width)) and np.size(a):
        raise shifted_too_far(width)


def _shl(a: Any, b: Any) -> Any:
    _shift(a, b)
    return a << b


def _shr(a: Any, b: Any) -> Any:
    _shift(a, b)
    return a >> b


def _select(c: Any, a: Any, b: Any) -> Any:
    """One of two values that are both there (rule M5.8)."""
    if isinstance(c, (bool, np.bool_)):
        return a if c else b
    return np.where(c, a, b)


def _bits_of(a: Any) -> Any:
    """The bits of a float (rule M5.11)."""
    a = np.asarray(a)
    if _WIDTHS.get(a.dtype) == 4:  # in a byte of its own, of which it has the lowest bits
        return a.view(np.uint8).astype(DTYPES["int4"].numpy)[()]
    return a.view(f"i{a.dtype.itemsize}")[()]


def _float_of(to: np.dtype[Any]) -> Callable[[Any], Any]:
    return lambda a: np.asarray(a).view(to)[()]


def _fmod(a: Any, b: Any) -> Any:
    """The remainder of floats (rule M5.9)."""
    of = np.asarray(a).dtype
    if of.isbuiltin == 1:
        return np.fmod(a, b)
    return np.fmod(np.asarray(a).astype(np.float32), np.asarray(b).astype(np.float32)).astype(of)[()]  # exact


def _fma(a: Any, b: Any, c: Any) -> Any:
    """a * b + c, rounded once; in 16 bits or fewer by way of float64 (rule M5.10)."""
    a, b, c = np.broadcast_arrays(a, b, c)
    of = a.dtype
    if of == np.float64:
        return np.array([_fma64(*row) for row in zip(a.flat, b.flat, c.flat, strict=True)], of).reshape(a.shape)[()]
    x, y, z = (v.astype(np.float64) for v in (a, b, c))
    product = np.asarray(x * y)  # exact
    total = np.asarray(product + z)
    part = total - product
    lost = (product - (total - part)) + (z - part)
    # rounded to odd: what float32 then makes of it is the sum rounded once
    exact = ~np.isfinite(total) | ~np.isfinite(lost) | (lost == 0)
    odd = (total.view(np.int64) & 1) == 1
    toward = np.where(lost > 0, np.inf, -np.inf)
    if of == np.float32:
        total = np.where(exact | odd, total, np.nextafter(total, toward))
    return rounded(total, dtype(of))[()]


def _fma64(a: Any, b: Any, c: Any) -> float:
    if not (np.isfinite(a) and np.isfinite(b) and np.isfinite(c)):
        return float(a * b + c) if np.isfinite(c) or not (np.isfinite(a) and np.isfinite(b)) else float(c)
    total = Fraction(float(a)) * Fraction(float(b)) + Fraction(float(c))
    if total == 0:
        exact = a == 0 or b == 0
        return float(a * b + c) if exact else 0.0
    try:
        return float(total)
    except OverflowError:
        return float(np.inf if total > 0 else -np.inf)


INF = float("inf")
GROUP: tuple[Property, ...] = ("commutes", "associates")
RING: tuple[Property, ...] = ("wraps", *GROUP)
QUOTIENT: tuple[Property, ...] = ("divides", "wraps")
LATTICE: tuple[Property, ...] = (*GROUP, "idempotent")


# The rows are the whole of the scalar arithmetic. Integers wrap; a float operation rounds once, to nearest even, in
# its own dtype; min and max propagate NaN and order -0 below +0.
def _max(a: Any, b: Any) -> Any:
    """The larger of two (rule M5.6)."""
    return np.where(a == b, np.where(np.signbit(a), b, a), np.maximum(a, b))[()] if _is_float(a) else np.maximum(a, b)


def _min(a: Any, b: Any) -> Any:
    """The smaller of two (rule M5.6)."""
    return np.where(a == b, np.where(np.signbit(a), a, b), np.minimum(a, b))[()] if _is_float(a) else np.minimum(a, b)


def _is_float(a: Any) -> bool:
    return np.asarray(a).dtype in _FLOATS


FLOAT_OF: dict[str, DType] = {
    "float_of" if d.name == "float64" else f"{d}_of": d for d in DTYPES.values() if d.is_float and d.bits >= 8
}
"""The operations that give the float with given bits; floats of 4 bits have none."""

OPERATIONS: dict[str, Operation] = {
    o.name: o
    for o in (
        Operation("add", 2, NUMERIC, "same", lambda a, b: a + b, "sum", "+", RING, 0),
        Operation("sub", 2, NUMERIC, "same", lambda a, b: a - b, "difference", "-", ("wraps",)),
        Operation("mul", 2, NUMERIC, "same", lambda a, b: a * b, "product", "*", RING, 1),
        Operation("div", 2, ("float",), "same", lambda a, b: a / b, "IEEE quotient", "/"),
        Operation("floordiv", 2, WHOLE, "same", _floordiv, "quotient rounded down; traps at 0", "//", QUOTIENT),
        Operation("floormod", 2, WHOLE, "same", _floormod, "remainder with the divisor's sign", "%", ("divides",)),
        Operation("truncdiv", 2, WHOLE, "same", _truncdiv, "quotient rounded to zero; traps at 0", "", QUOTIENT),
        Operation("truncmod", 2, WHOLE, "same", _truncmod, "remainder with the dividend's sign", "", ("divides",)),
        Operation("neg", 1, NUMERIC, "same", _wrapped(lambda a: -a), "negation", "-", ("wraps",)),
        Operation("abs", 1, NUMERIC, "same", _wrapped(lambda a: abs(a)), "magnitude", "", ("wraps",)),
        Operation(
            "min", 2, ANY, "same", _wrapped(_min), "the smaller; NaN if either is; -0 below +0", "", LATTICE, INF
        ),
        Operation(
            "max", 2, ANY, "same", _wrapped(_max), "the larger; NaN if either is; -0 below +0", "", LATTICE, -INF
        ),
        Operation("sqrt", 1, ("float",), "same", lambda a: np.sqrt(a), "correctly rounded square root"),
        Operation("rint", 1, ("float",), "same", lambda a: np.rint(a), "nearest integer, ties to even"),
        Operation("floor", 1, ("float",), "same", lambda a: np.floor(a), "rounded down"),
        Operation("ceil", 1, ("float",), "same", lambda a: np.ceil(a), "rounded up"),
        Operation("eq", 2, ANY, "bool", lambda a, b: a == b, "equal", "==", ("compares", "commutes")),
        Operation("ne", 2, ANY, "bool", lambda a, b: a != b, "not equal", "!=", ("compares", "commutes")),
        Operation("lt", 2, ANY, "bool", lambda a, b: a < b, "less", "<", ("compares",)),
        Operation("le", 2, ANY, "bool", lambda a, b: a <= b, "less or equal", "<=", ("compares",)),
        Operation("gt", 2, ANY, "bool", lambda a, b: a > b, "greater", ">", ("compares",)),
        Operation("ge", 2, ANY, "bool", lambda a, b: a >= b, "greater or equal", ">=", ("compares",)),
        Operation("and", 2, ("bool",), "same", lambda a, b: a & b, "both", "&", LATTICE, 1),
        Operation("or", 2, ("bool",), "same", lambda a, b: a | b, "either", "|", LATTICE, 0),
        Operation("not", 1, ("bool",), "same", lambda a: np.logical_not(a), "negation"),
        Operation("bitand", 2, WHOLE, "same", _wrapped(lambda a, b: a & b), "bitwise and", "&", LATTICE, -1),
        Operation("bitor", 2, WHOLE, "same", _wrapped(lambda a, b: a | b), "bitwise or", "|", LATTICE, 0),
        Operation("bitxor", 2, WHOLE, "same", _wrapped(lambda a, b: a ^ b), "bitwise exclusive or", "^", GROUP, 0),
        Operation(
            "shl", 2, WHOLE, "same", _wrapped(_shl), "shift left; traps at the width or more", "<<", ("shifts", "wraps")
        ),
        Operation(
            "shr", 2, WHOLE, "same", _wrapped(_shr), "shift right, arithmetic if signed; traps alike", ">>", ("shifts",)
        ),
        Operation("select", 3, ANY, "same", _select, "the second if the first holds, else the third; strict"),
        Operation("fmod", 2, ("float",), "same", _fmod, "exact remainder with the dividend's sign; NaN by 0"),
        Operation("fma", 3, ("float",), "same", _fma, "a * b + c rounded once; in 16 bits by way of float64"),
        Operation("bits_of", 1, ("float",), "bits", _bits_of, "the bits as a signed integer of the same width"),
        *(
            Operation(name, 1, ("int",), "bits", _float_of(d.numpy), f"the {d} with these bits, an int{d.bits}")
            for name, d in FLOAT_OF.items()
        ),
    )
}
"""Every operation that is exact or correctly rounded."""

TRANSCENDENTAL: dict[str, Operation] = {}
"""Operations whose value is *an* implementation within a bound; `assay.semantics.scalar.transcendental` fills this
table."""

DERIVED: dict[str, Operation] = {}
"""Operations that are short for an expression of others; `assay.semantics.scalar.derived` fills this table."""


def operation(name: str) -> Operation:
    """The record of the operation of that name; Invalid (scalar.C1) where there is none."""
    if name in OPERATIONS:
        return OPERATIONS[name]
    if name in TRANSCENDENTAL:
        return TRANSCENDENTAL[name]
    if name in DERIVED:
        return DERIVED[name]
    raise Invalid(f"unknown scalar operation {name}", label="scalar.C1")


def convert(value: Any, to: DType) -> Any:
    """`value` (NumPy scalar or lanes) as `to`: rule M5. Float to integer truncates; NaN and out of range trap
    (rule M5.7)."""
    value = np.asarray(value)
    source = dtype(value.dtype)
    if source is to:
        return value[()]
    if source.is_float and to.is_integer:
        whole = np.trunc(value.astype(np.float64))
        if _any(~((whole >= float(to.min)) & (whole < float(to.max) + 1.0))):
            raise no_such_number(source, to)
        return whole.astype(to.numpy)[()]
    return rounded(value, to)[()]


def rounded(value: Any, to: DType) -> Any:
    """The array `value` as `to`; to a float it is rounded once, to nearest even.

    ml_dtypes goes by way of float32 and so would round twice. What float32 cannot hold is handed over rounded to odd:
    that keeps on which side of every tie of a narrower type it lies.
    """
    if value.dtype in _NARROW and to.is_integer:
        value = value.astype(np.int8)  # ml_dtypes knows no way from one narrow type to another
    elif value.dtype.isbuiltin != 1 and to.numpy.isbuiltin != 1:
        value = value.astype(np.float32)  # the same; float32 holds every number of these types
    with np.errstate(all="ignore"):
        held = value.dtype.kind not in "fiu" or value.dtype.itemsize < 4 or value.dtype == np.float32
        if held or not to.is_float or to.numpy.isbuiltin == 1:
            return value.astype(to.numpy)
        wide = value.astype(np.float64)
        if value.dtype.kind in "iu":
            odd_float64 = ((value >> 11) | ((value & 2047) != 0)).astype(np.float64) * 2048.0
            wide = np.where(np.abs(wide) < 2.0**53, wide, odd_float64)
        near = wide.astype(np.float32)
        inside = np.where(np.abs(near) > np.abs(wide), np.nextafter(near, np.float32(0)), near)
        odd = (inside.view(np.uint32) | np.uint32(1)).view(np.float32)
        return np.where((near == wide) | np.isnan(wide), near, odd).astype(to.numpy)
