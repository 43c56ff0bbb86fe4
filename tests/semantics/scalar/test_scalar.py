"""The meaning of scalar operations on every dtype, against Python's integers and exact fractions (rule M5)."""

from __future__ import annotations

import bisect
import itertools
import math
from collections.abc import Callable, Iterator
from fractions import Fraction
from functools import cache
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given, strategies as st

from assay.semantics.dtypes import DTYPES, DType, dtype
from assay.semantics.errors import Trap
from assay.semantics.scalar.arithmetic import FLOAT_OF, OPERATIONS, convert, operation

INTEGERS = [d for d in DTYPES.values() if d.is_integer]
FLOATS = [d for d in DTYPES.values() if d.is_float and d.bits >= 8]  # float4 has no NaN; it has tests of its own
NARROW = [d for d in FLOATS if d.bits <= 16 and d.name != "float8_e8m0fnu"]  # a scale: no sign, no zero
NAMES: Callable[[Any], str] = str


@pytest.fixture(autouse=True)
def _quiet() -> Iterator[None]:
    with np.errstate(all="ignore"):
        yield


def scalar(value: Any, of: DType) -> Any:
    """A NumPy scalar of exactly `of`."""
    return np.asarray(value).astype(of.numpy)[()]


def both(op: str, *args: Any) -> Any:
    """The operation's result on scalars, which is that on lanes."""
    meaning = operation(op).meaning
    alone = meaning(*args)
    lanes = meaning(*(np.array([a, a], a.dtype) for a in args))
    assert lanes.dtype == np.asarray(alone).dtype and lanes.shape == (2,)
    assert lanes[0].tobytes() == lanes[1].tobytes() == np.asarray(alone).tobytes() or np.isnan(alone)
    return alone


# --- integers -----------------------------------------------------------------------------------------------------


def wrap(value: int, of: DType) -> int:
    least = int(of.min)
    return (value - least) % (1 << of.bits) + least


def truncated(a: int, b: int) -> int:
    return abs(a) // abs(b) * (1 if (a < 0) == (b < 0) else -1)


REFERENCE: dict[str, Callable[..., int]] = {
    "add": lambda a, b: a + b,
    "sub": lambda a, b: a - b,
    "mul": lambda a, b: a * b,
    "floordiv": lambda a, b: a // b,
    "floormod": lambda a, b: a % b,
    "truncdiv": truncated,
    "truncmod": lambda a, b: a - b * truncated(a, b),
    "neg": lambda a: -a,
    "abs": abs,
    "min": min,
    "max": max,
    "bitand": lambda a, b: a & b,
    "bitor": lambda a, b: a | b,
    "bitxor": lambda a, b: a ^ b,
    "shl": lambda a, b: a << b,
    "shr": lambda a, b: a >> b,
    "eq": lambda a, b: a == b,
    "ne": lambda a, b: a != b,
    "lt": lambda a, b: a < b,
    "le": lambda a, b: a <= b,
    "gt": lambda a, b: a > b,
    "ge": lambda a, b: a >= b,
}


def test_every_integer_operation_has_a_reference() -> None:
    whole = {name for name, row in OPERATIONS.items() if set(row.kinds) & {"int", "uint"}}
    assert whole == {*REFERENCE, "select", *FLOAT_OF}


def values_of(of: DType) -> list[int]:
    """All numbers of a type of 4 or 2 bits; for the others those near the ends, near 0 and near the middle."""
    least, most = int(of.min), int(of.max)
    if of.bits < 8:
        return list(range(least, most + 1))
    edges = {
        least,
        least + 1,
        most,
        most - 1,
        0,
        1,
        2,
        3,
        7,
        most // 2,
        most // 2 + 1,
        of.bits - 1,
        of.bits,
        -1,
        -2,
        -7,
    }
    return sorted(v for v in edges if least <= v <= most)


@pytest.mark.parametrize("of", INTEGERS, ids=NAMES)
@pytest.mark.parametrize("op", REFERENCE)
def test_integers(op: str, of: DType) -> None:
    row = operation(op)
    traps = 0
    for args in itertools.product(values_of(of), repeat=row.arity):
        given_ = [scalar(a, of) for a in args]
        assert [int(g) for g in given_] == list(args)
        bad = op in ("floordiv", "floormod", "truncdiv", "truncmod") and args[1] == 0
        bad |= op in ("shl", "shr") and not 0 <= args[1] < of.bits
        if bad:
            traps += 1
            for form in (given_, [np.array([g]) for g in given_]):
                with pytest.raises(Trap) as caught:
                    row.meaning(*form)
                assert caught.value.label == ("scalar.T2" if op in ("shl", "shr") else "scalar.T1")
            continue
        got, want = both(op, *given_), REFERENCE[op](*args)
        if row.result == "bool":
            assert got.dtype == np.bool_ and bool(got) == want
        else:
            assert got.dtype == of.numpy, (op, args)
            assert int(got) == wrap(want, of), (op, args)
    assert bool(traps) == (op in ("floordiv", "floormod", "truncdiv", "truncmod", "shl", "shr"))


@pytest.mark.parametrize("of", [d for d in INTEGERS if d.kind == "int"], ids=NAMES)
def test_the_least_integer_by_minus_one_wraps(of: DType) -> None:
    least, minus = scalar(of.min, of), scalar(-1, of)
    for op in ("floordiv", "truncdiv"):
        assert int(both(op, least, minus)) == of.min
    for op in ("floormod", "truncmod"):
        assert int(both(op, least, minus)) == 0
    assert int(both("neg", least)) == int(both("abs", least)) == of.min


def test_one_bad_lane_traps() -> None:
    a, b = np.array([1, 2, 3]), np.array([1, 0, 1])
    for op, label in (("floordiv", "scalar.T1"), ("truncmod", "scalar.T1"), ("shl", "scalar.T2")):
        with pytest.raises(Trap, match=label.replace(".", r"\.")):
            operation(op).meaning(a, b if op != "shl" else b - 1)


@pytest.mark.parametrize("op", ["and", "or", "eq", "ne", "lt", "le", "gt", "ge", "min", "max"])
def test_bools(op: str) -> None:
    more: dict[str, Callable[..., int]] = {"and": lambda a, b: a and b, "or": lambda a, b: a or b}
    reference = {**REFERENCE, **more}[op]
    for a, b in itertools.product([False, True], repeat=2):
        got = both(op, np.bool_(a), np.bool_(b))
        assert got.dtype == np.bool_ and bool(got) == reference(a, b)
    assert bool(both("not", np.False_)) and not both("not", np.True_)


# --- floats -------------------------------------------------------------------------------------------------------


@cache
def table(of: DType) -> tuple[list[Fraction], list[int]]:
    """The finite numbers of a type of at most 16 bits in ascending order, and their bits; of zeros only +0."""
    bits = np.arange(1 << of.bits, dtype=np.uint16 if of.bits == 16 else np.uint8)
    values = bits.view(of.numpy).astype(np.float64)
    rows = {Fraction(v): int(b) for v, b in zip(values[::-1].tolist(), bits[::-1], strict=True) if math.isfinite(v)}
    order = sorted(rows)
    return order, [rows[v] for v in order]


def nearest(exact: Fraction, of: DType) -> Fraction | None:
    """`exact` rounded to nearest, ties to even; None where it overflows."""
    order, bits = table(of)
    at = bisect.bisect_left(order, exact)
    if at < len(order) and order[at] == exact:
        return exact
    top, step = order[-1], order[-1] - order[-2]
    if abs(exact) > top:
        # as if the exponent range went on: halfway to the next number is a tie, which the even one gets
        beyond = abs(exact) - top
        inside = beyond < step / 2 or (beyond == step / 2 and bits[-1] % 2 == 0)
        return (top if exact > 0 else -top) if inside else None
    low, high = order[at - 1], order[at]
    if exact - low != high - exact:
        return low if exact - low < high - exact else high
    return low if bits[at - 1] % 2 == 0 else high


def check_rounded(got: Any, exact: Fraction, of: DType) -> None:
    """`got` is `exact` rounded once."""
    want = nearest(exact, of)
    number = float(got)
    if want is None:
        assert not math.isfinite(number) and (math.isnan(number) or (number > 0) == (exact > 0))
    else:
        assert Fraction(number) == want, (got, exact, of)


def finite(of: DType, count: int, seed: int) -> list[Any]:
    """Random finite numbers of a narrow type, the extreme ones among them."""
    order, bits = table(of)
    rng = np.random.default_rng(seed)
    picks = {0, 1, len(order) - 1, len(order) // 2, len(order) // 2 + 1, *rng.integers(0, len(order), count).tolist()}
    raw = np.array([bits[i] for i in sorted(picks)], np.uint16 if of.bits == 16 else np.uint8)
    return list(rng.permutation(raw).view(of.numpy))


EXACT: dict[str, Callable[[Fraction, Fraction], Fraction]] = {
    "add": lambda a, b: a + b,
    "sub": lambda a, b: a - b,
    "mul": lambda a, b: a * b,
    "div": lambda a, b: a / b,
}


@pytest.mark.parametrize("of", NARROW, ids=NAMES)
@pytest.mark.parametrize("op", EXACT)
def test_narrow_floats_round_once(op: str, of: DType) -> None:
    for a, b in itertools.product(finite(of, 20, 1), finite(of, 20, 2)):
        if op == "div" and float(b) == 0:
            continue
        got = both(op, a, b)
        assert got.dtype == of.numpy
        check_rounded(got, EXACT[op](Fraction(float(a)), Fraction(float(b))), of)


@pytest.mark.parametrize("of", ["float32", "float64"])
@pytest.mark.parametrize("op", EXACT)
@given(data=st.data())
def test_wide_floats_round_once(op: str, of: str, data: st.DataObject) -> None:
    width = dtype(of).bits
    numbers = st.floats(width=32 if width == 32 else 64, allow_nan=False, allow_infinity=False)
    a, b = (scalar(data.draw(numbers), dtype(of)) for _ in range(2))
    if op == "div" and b == 0:
        return
    got = both(op, a, b)
    assert got.dtype == dtype(of).numpy
    exact = EXACT[op](Fraction(float(a)), Fraction(float(b)))
    if math.isinf(got):
        assert abs(exact) > Fraction(float(dtype(of).max))
        return
    here = Fraction(float(got))
    for other in (np.nextafter(got, got.dtype.type(np.inf)), np.nextafter(got, got.dtype.type(-np.inf))):
        if math.isfinite(other):
            assert abs(here - exact) <= abs(Fraction(float(other)) - exact)


@pytest.mark.parametrize("of", NARROW, ids=NAMES)
def test_unary_float_operations(of: DType) -> None:
    for x in finite(of, 200, 3):
        exact = Fraction(float(x))
        assert Fraction(float(both("neg", x))) == -exact
        assert Fraction(float(both("abs", x))) == abs(exact)
        for op, whole in (("floor", math.floor(exact)), ("ceil", math.ceil(exact)), ("rint", round(exact))):
            check_rounded(both(op, x), Fraction(whole), of)
        if exact >= 0:
            root = both("sqrt", x)
            wide = Fraction(math.isqrt(int(exact * 4**200)), 2**200)  # far more digits than it takes to tell a tie
            check_rounded(root, wide, of)
        else:
            assert math.isnan(both("sqrt", x))


SIGNED = [d for d in FLOATS if math.copysign(1, float(scalar(-0.0, d))) < 0]


def test_the_types_with_a_negative_zero() -> None:
    assert {d.name for d in FLOATS} - {d.name for d in SIGNED} == {
        "float8_e4m3b11fnuz", "float8_e4m3fnuz", "float8_e5m2fnuz", "float8_e8m0fnu"
    }  # fmt: skip


@pytest.mark.parametrize("of", SIGNED, ids=NAMES)
def test_the_sign_of_zero(of: DType) -> None:
    plus, minus, one = (scalar(v, of) for v in (0.0, -0.0, 1.0))
    negative: list[tuple[str, tuple[Any, ...], bool]] = [
        ("neg", (plus,), True), ("neg", (minus,), False), ("abs", (minus,), False),
        ("add", (minus, minus), True), ("add", (minus, plus), False), ("sub", (minus, plus), True),
        ("mul", (minus, one), True), ("mul", (minus, minus), False), ("div", (minus, one), True),
        ("sqrt", (minus,), True), ("floor", (minus,), True), ("rint", (scalar(-0.25, of),), True),
        ("ceil", (scalar(-0.5, of),), True), ("max", (plus, minus), False), ("max", (minus, plus), False),
        ("max", (minus, minus), True), ("min", (plus, minus), True), ("min", (minus, plus), True),
        ("min", (plus, plus), False),
    ]  # fmt: skip
    for op, args, sign in negative:
        got = both(op, *args)
        assert float(got) == 0 and np.signbit(got) == sign, (op, args)
    assert both("eq", plus, minus) and not both("lt", minus, plus)


@pytest.mark.parametrize("of", FLOATS, ids=NAMES)
def test_nan(of: DType) -> None:
    nan, one = scalar(math.nan, of), scalar(1.0, of)
    assert math.isnan(nan)
    for op in ("add", "sub", "mul", "div", "min", "max"):
        assert math.isnan(both(op, nan, one)) and math.isnan(both(op, one, nan)) and math.isnan(both(op, nan, nan))
    for op in ("neg", "abs", "sqrt", "floor", "ceil", "rint"):
        assert math.isnan(both(op, nan))
    for op in ("eq", "lt", "le", "gt", "ge"):
        assert not both(op, nan, one) and not both(op, one, nan) and not both(op, nan, nan)
    assert both("ne", nan, nan) and both("ne", nan, one)


@pytest.mark.parametrize("of", [d for d in FLOATS if math.isinf(float(scalar(math.inf, d)))], ids=NAMES)
def test_infinities(of: DType) -> None:
    inf, zero, one = (scalar(v, of) for v in (math.inf, 0.0, 1.0))
    assert float(both("div", one, zero)) == math.inf and float(both("div", -one, zero)) == -math.inf
    for op, args in (("sub", (inf, inf)), ("mul", (inf, zero)), ("div", (inf, inf)), ("div", (zero, zero))):
        assert math.isnan(both(op, *args))
    assert float(both("max", -inf, one)) == 1 and float(both("min", -inf, one)) == -math.inf
    for op in ("floor", "ceil", "rint", "sqrt", "abs"):
        assert float(both(op, inf)) == math.inf


@pytest.mark.parametrize("of", FLOATS, ids=NAMES)
def test_float_order(of: DType) -> None:
    numbers = [scalar(v, of) for v in (0.5, 1.0, 1.5, 4.0)]
    for a, b in itertools.product(numbers, repeat=2):
        for op in ("eq", "ne", "lt", "le", "gt", "ge"):
            assert bool(both(op, a, b)) == REFERENCE[op](float(a), float(b))
        assert float(both("min", a, b)) == min(float(a), float(b))
        assert float(both("max", a, b)) == max(float(a), float(b))


def test_subnormals_are_kept() -> None:
    for of in FLOATS:
        if of.name == "float8_e8m0fnu":
            continue
        tiny = scalar(of.smallest_subnormal, of)
        assert float(tiny) == of.smallest_subnormal > 0
        assert float(both("add", tiny, tiny)) == 2 * of.smallest_subnormal
        assert float(both("mul", tiny, scalar(1, of))) == of.smallest_subnormal
        assert float(both("mul", tiny, scalar(0.5, of))) == 0  # a tie; zero is even


@given(st.integers(0, 2**64 - 1))
@example(0x7FF0_0000_0000_0001)  # a signalling NaN
@example(0xFFF8_0000_0000_1234)
@example(1 << 63)
def test_bits(bits: int) -> None:
    whole = np.uint64(bits).view(np.int64)
    assert both("bits_of", both("float_of", whole)) == whole
    for name, of in FLOAT_OF.items():
        narrow = np.uint64(bits).astype(f"uint{of.bits}").view(f"int{of.bits}")
        value = both(name, narrow)
        assert np.asarray(value).dtype == of.numpy and both("bits_of", value) == narrow


def test_select() -> None:
    for of in DTYPES.values():
        one, zero = scalar(1, of), scalar(0 if of.name != "float8_e8m0fnu" else 2, of)
        meaning = operation("select").meaning
        assert meaning(np.True_, one, zero) == one and meaning(False, one, zero) == zero
        lanes = meaning(np.array([True, False]), np.array([one, one]), np.array([zero, zero]))
        assert lanes.dtype == of.numpy and lanes[0] == one and lanes[1] == zero


# --- conversion ---------------------------------------------------------------------------------------------------


def converted(value: Any, to: DType) -> Any:
    """`value` as `to`, alone and in lanes."""
    alone = convert(value, to)
    lanes = convert(np.array([value, value], value.dtype), to)
    assert lanes.dtype == np.asarray(alone).dtype == to.numpy
    assert lanes[1].tobytes() == np.asarray(alone).tobytes() or np.isnan(alone)
    return alone


@pytest.mark.parametrize("to", INTEGERS, ids=NAMES)
@pytest.mark.parametrize("of", [d for d in FLOATS if d.name != "float8_e8m0fnu"], ids=NAMES)
def test_float_to_integer(of: DType, to: DType) -> None:
    """Numbers around each end of the range, and what is next to them: truncated, or a trap."""
    around = [float(to.min), float(to.max), 0.0, 1.0, 2.0**31, 2.0**32, 2.0**53, 2.0**63, 2.0**64]
    seen = []
    for v in around:
        for w in (v, v - 1, v + 1, v + 0.5, v - 0.5, math.nextafter(v, math.inf), math.nextafter(v, -math.inf), -v):
            x = scalar(w, of)
            up = np.nextafter(x, scalar(4e4, of)) if of.bits >= 16 else x
            down = np.nextafter(x, scalar(-4e4, of)) if of.bits >= 16 else x
            seen += [x, up, down]
    seen += finite(of, 60, 4) if of.bits <= 16 else []
    outcomes = set()
    for x in seen:
        number = float(x)
        inside = math.isfinite(number) and to.min <= math.trunc(number) <= to.max
        outcomes.add(inside)
        if inside:
            assert int(converted(x, to)) == math.trunc(number)
        else:
            with pytest.raises(Trap) as caught:
                convert(x, to)
            assert (caught.value.kind, caught.value.label) == ("cast", "scalar.T3")
    assert True in outcomes


@pytest.mark.parametrize("to", INTEGERS, ids=NAMES)
def test_what_is_no_integer_traps(to: DType) -> None:
    for of in FLOATS:
        for v in (math.nan, math.inf, -math.inf):
            with pytest.raises(Trap, match=r"scalar\.T3"):
                convert(scalar(v, of) if not math.isnan(float(scalar(v, of))) else scalar(math.nan, of), to)
    with pytest.raises(Trap):
        convert(np.array([1.0, math.nan]), to)


@pytest.mark.parametrize("to", INTEGERS, ids=NAMES)
@pytest.mark.parametrize("of", INTEGERS, ids=NAMES)
def test_integer_to_integer_wraps(of: DType, to: DType) -> None:
    for v in values_of(of):
        assert int(converted(scalar(v, of), to)) == wrap(v, to)


def near_ties(of: DType) -> list[Fraction]:
    """Numbers halfway between neighbours, and a hair beside: wrong as soon as rounding is done twice."""
    order, _ = table(of)
    rng = np.random.default_rng(5)
    out = []
    for i in [0, len(order) - 2, len(order) // 2, *rng.integers(0, len(order) - 1, 150).tolist()]:
        tie = (order[i] + order[i + 1]) / 2
        out += [tie, *(Fraction(math.nextafter(float(tie), d)) for d in (math.inf, -math.inf))]
        out += [tie * (1 + Fraction(s, 2**30)) for s in (1, -1)]
    top, step = order[-1], order[-1] - order[-2]
    return [*out, *(s * (top + step * Fraction(n, 4)) for s in (1, -1) for n in range(5)), Fraction(10) ** 300]


@pytest.mark.parametrize("of", NARROW, ids=NAMES)
def test_float_to_narrow_float_rounds_once(of: DType) -> None:
    for exact in near_ties(of):
        x = np.float64(float(exact))
        check_rounded(converted(x, of), Fraction(float(x)), of)
        y = np.float32(x)
        if np.isfinite(y):
            check_rounded(converted(y, of), Fraction(float(y)), of)


@pytest.mark.parametrize("of", NARROW, ids=NAMES)
def test_narrow_float_to_wider_is_exact(of: DType) -> None:
    for x in finite(of, 100, 6):
        for to in (dtype("float32"), dtype("float64")):
            assert float(converted(x, to)) == float(x)


@pytest.mark.parametrize("to", NARROW, ids=NAMES)
@pytest.mark.parametrize("of", [*NARROW, *(d for d in INTEGERS if d.bits <= 16)], ids=NAMES)
def test_narrow_to_narrow_float_rounds_once(of: DType, to: DType) -> None:
    for x in finite(of, 30, 7) if of.is_float else [scalar(v, of) for v in values_of(of)]:
        check_rounded(converted(x, to), Fraction(float(x)), to)


@pytest.mark.parametrize("of", [d for d in INTEGERS if d.bits == 64], ids=NAMES)
@pytest.mark.parametrize("to", [d for d in NARROW if d.bits == 16], ids=NAMES)
@given(data=st.data())
def test_integer_to_narrow_float_rounds_once(of: DType, to: DType, data: st.DataObject) -> None:
    order, _ = table(to)
    base = int(data.draw(st.sampled_from(order[-300:])))
    v = data.draw(st.integers(-(2**8), 2**8).map(lambda d: base + d) | st.integers(int(of.min), int(of.max)))
    v = min(max(v, int(of.min)), int(of.max))
    check_rounded(converted(scalar(v, of), to), Fraction(v), to)


@given(st.integers(-(2**63), 2**63 - 1))
@example(2**24 + 1)
@example(2**62 + 2**38 + 1)
@example(2**63 - 1)
@example(-(2**63))
def test_int64_to_float_rounds_once(v: int) -> None:
    assert float(converted(np.int64(v), dtype("float64"))) == float(v)  # Python rounds to nearest even
    got = converted(np.int64(v), dtype("float32"))
    low, high = np.nextafter(got, np.float32(-np.inf)), np.nextafter(got, np.float32(np.inf))
    assert all(abs(int(got) - v) <= abs(int(o) - v) for o in (low, high))


@pytest.mark.parametrize("of", DTYPES.values(), ids=NAMES)
def test_bool_and_back(of: DType) -> None:
    assert bool(converted(np.True_, of)) and float(converted(np.True_, of)) == 1
    if of.name != "float8_e8m0fnu":
        assert float(converted(np.False_, of)) == 0
        assert not converted(scalar(0, of), dtype("bool"))
    if of in FLOATS:
        assert converted(scalar(0.5, of), dtype("bool")) and converted(scalar(math.nan, of), dtype("bool"))


def test_a_conversion_to_itself_keeps_every_bit() -> None:
    for of in FLOATS:
        nan = scalar(math.nan, of)
        assert convert(nan, of).tobytes() == nan.tobytes()
