"""The transcendental routines: specials, error against exact arithmetic, lanes against scalars, planted faults."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator
from decimal import Context, Decimal, localcontext
from typing import Any

import numpy as np
import pytest

from assay.semantics import scalar
from assay.semantics.dtypes import DTYPES, FLOAT64, DType, dtype
from assay.semantics.scalar import exponential, hyperbolic, transcendental, trigonometry
from assay.semantics.scalar.transcendental import BLOCK, ROUTINES, Routine
from tests.semantics.bounding import exact_functions

Array = np.ndarray[Any, Any]

PI = Decimal("3.14159265358979323846264338327950288419716939937510582097494459")
DIGITS = Context(prec=60)
INF, NAN = math.inf, math.nan
SPECIALS = [0.0, 5e-324, 2.2e-308, 2.3e-308, 1e-17, 0.3, 0.5, 0.75, 1 - 2**-53, 1.0, 1 + 2**-52, 1.5, 2.0, 3.0, 5.0]
SPECIALS += [6.0, 20.0, 22.5, 709.7, 709.8, 745.0, 746.0, 2.0**52 + 1, 2.0**53, 2.0**65, 1e300, 1.7e308, INF]
SPECIALS = [s * x for s in (1, -1) for x in SPECIALS] + [NAN]
"""Float64 numbers where a routine changes its behaviour."""


def call(name: str, *args: Any) -> Any:
    return scalar.operation(name).meaning(*args)


def same_bits(a: Any, b: Any) -> bool:
    """Equal, the sign of zero and any NaN included."""
    a, b = np.asarray(a), np.asarray(b)
    nan = np.isnan(a) & np.isnan(b)
    return a.dtype == b.dtype and bool(np.all(nan | ((a == b) & (np.signbit(a) == np.signbit(b)))))


# --- exact values -------------------------------------------------------------------------------------------------


def exact_tanh(x: Decimal) -> Decimal:
    if abs(x) < Decimal("1e-15"):
        return x - x * x * x / 3
    e = (2 * x).exp()
    return (e - 1) / (e + 1)


def exact_erf(x: Decimal) -> Decimal:
    term, total, square, n = x, x, x * x, 0
    while abs(term) > abs(total) * Decimal("1e-30") and abs(term) > Decimal("1e-400"):
        n += 1
        term *= -square / n
        total += term / (2 * n + 1)
    return total * 2 / PI.sqrt()


EXACT: dict[str, Callable[..., Decimal]] = {
    "exp": lambda x: x.exp(),
    "log": lambda x: x.ln(),
    "tanh": exact_tanh,
    "erf": exact_erf,
    "pow": lambda x, y: max(min(y * x.ln(), Decimal(800)), Decimal(-800)).exp(),
    "sin": exact_functions.sin,
    "cos": exact_functions.cos,
    "tan": exact_functions.tan,
    "asin": exact_functions.asin,
    "acos": exact_functions.acos,
    "atan": exact_functions.atan,
    "atan2": exact_functions.atan2,
    **{n: getattr(exact_functions, n) for n in ("sinh", "cosh", "asinh", "acosh", "atanh")},
}


def error(name: str, got: float, *args: float) -> float:
    """How far `got` is from the exact value, in units in the last place of the exact value."""
    with localcontext(DIGITS):
        exact = EXACT[name](*map(Decimal, args))
        nearest = float(exact)
        if math.isinf(nearest) or math.isinf(got):
            return 0.0 if nearest == got else INF
        return float(abs(Decimal(got) - exact) / Decimal(math.ulp(nearest)))


def worst(routine: Routine, *args: Array) -> float:
    results = routine(*args)
    return max(error(routine.name, *map(float, row)) for row in zip(results, *args, strict=True))


def samples(name: str, count: int, seed: int = 7) -> Iterator[tuple[Array, ...]]:
    """Operands from every region in which the routine behaves differently."""
    rng = np.random.default_rng(seed)

    def flat(low: float, high: float) -> Array:
        return rng.uniform(low, high, count)

    def wide(low: float, high: float) -> Array:
        return np.exp2(rng.uniform(low, high, count))

    def signed(x: Array) -> Array:
        return x * rng.choice([-1.0, 1.0], count)

    match name:
        case "exp":
            yield from ((flat(-0.4, 0.4),), (flat(-745, 709.7),), (flat(-746, -706),), (signed(wide(-60, 9)),))
        case "log":
            yield from ((flat(0.7, 1.42),), (1 + signed(wide(-52, -2)),), (wide(-1074, 1023),), (wide(-1074, -1021),))
        case "tanh":
            yield from ((flat(0, 0.75),), (flat(0.75, 2),), (flat(-22, 22),), (signed(wide(-1074, 4)),))
        case "erf":
            yield from ((flat(0, 1),), (flat(1, 2),), (flat(1, 1.1),), (flat(-6.5, 6.5),), (signed(wide(-1074, 2)),))
        case "pow":
            yield from ((flat(0, 10), flat(-10, 10)), (wide(-1074, 1023), flat(-1, 1)))
            yield from ((flat(0.5, 2), flat(-1100, 1100)),)
            yield from ((flat(0.704, 0.71), flat(1800, 2130)), (1 + signed(wide(-50, -2)), signed(wide(0, 50))))
        case "sin" | "cos" | "tan":
            yield from ((flat(-0.8, 0.8),), (flat(-20, 20),), (signed(wide(-2, 1023.9)),), (signed(wide(-1074, -1)),))
            # the float64 nearest to multiples of pi / 2, where all but the last bits cancel
            yield (
                np.array([float(exact_functions.pi() * k / 2) for k in (*range(1, 40), 10**6, 10**15, 3 * 10**200)]),
            )
            yield (np.array([6381956970095103 * 2.0**797, np.nextafter(0.5, 0), 0.5, math.pi / 4]),)
        case "asin" | "acos":
            yield from ((flat(-1, 1),), (flat(-0.5, 0.5),), (signed(1 - wide(-53, -1)),), (signed(wide(-1074, -1)),))
        case "atan":
            yield from ((flat(-3, 3),), (signed(wide(-4, 4)),), (signed(wide(-1074, 1023)),))
        case "sinh" | "cosh":
            yield from ((flat(-0.5, 0.5),), (flat(0.5, 2),), (flat(-45, 45),), (flat(-711, 711),))
            yield (signed(wide(-1074, 9)),)
        case "asinh":
            yield from ((flat(-1, 1),), (signed(wide(-30, 40)),), (signed(wide(-1074, 1023)),))
        case "acosh":
            yield from ((1 + wide(-52, 2),), (1 + wide(-5, 40),), (wide(1, 1023),))
        case "atanh":
            yield from ((flat(-1, 1),), (signed(1 - wide(-53, -1)),), (signed(wide(-1074, -1)),))
        case "atan2":
            yield from ((flat(-1, 1), flat(-1, 1)), (signed(wide(-100, 100)), signed(wide(-100, 100))))
            yield (signed(wide(-1074, -1000)), wide(-1, 60))


@pytest.mark.parametrize("name", ROUTINES)
def test_float64_results_are_within_the_stated_ulps(name: str) -> None:
    routine = ROUTINES[name]
    for args in samples(name, 500):
        assert worst(routine, *args) <= routine.ulps


@pytest.mark.parametrize(
    ("table", "name"),
    [("EXP", "exp"), ("LOG", "log"), ("LOG_TAIL", "pow"), ("TANH", "tanh"), ("ERF", "erf"), ("ERF_TAIL", "erf"),
     ("SINH", "sinh"), ("LOG", "asinh"), ("LOG", "acosh"), ("LOG", "atanh"), ("EXP", "cosh"),
     ("SIN", "sin"), ("COS", "cos"), ("SIN", "tan"), ("ATAN", "atan"), ("ATAN", "atan2"), ("ASIN", "asin"),
         ("ASIN", "acos")],
)  # fmt: skip
def test_a_planted_wrong_coefficient_is_found(table: str, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    homes = (exponential, transcendental, hyperbolic, trigonometry)
    home = next(m for m in homes if hasattr(m, table))
    make = next(found for m in homes if (found := getattr(m, f"_{name}_routine", None)))
    good = getattr(home, table)
    for k in range(len(good) - 3):
        bad = (*good[:k], good[k] * (1 + 2.0**-10), *good[k + 1 :])
        monkeypatch.setattr(home, table, bad)
        routine = make()
        assert max(worst(routine, *args) for args in samples(name, 100)) > routine.ulps, k


def test_a_planted_wrong_digit_of_the_reduction_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each digit of 2/pi matters for some exponent; digits are taken by eights, the last of which only rounds."""
    for k in range(0, len(trigonometry.DIGITS) - 3, 5):
        digits = list(trigonometry.DIGITS)
        digits[k] ^= 1 << 7
        monkeypatch.setattr(trigonometry, "DIGITS", tuple(digits))
        x = np.array([1.5 * 2.0**e for e in range(max(0, 32 * k - 40), min(1023, 32 * k + 60), 4)])
        assert worst(trigonometry._sin_routine(), x) > 1.0, k
        monkeypatch.undo()


def test_a_planted_wrong_low_part_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    for part in ("LN2_LOW", "TWO_THIRDS_LOW"):
        monkeypatch.setattr(exponential, part, getattr(exponential, part) * (1 + 2.0**-12))
        routine = exponential._pow_routine()
        assert max(worst(routine, *args) for args in samples("pow", 100)) > routine.ulps
        monkeypatch.undo()


# --- narrower dtypes ----------------------------------------------------------------------------------------------

REFERENCE: dict[str, Callable[..., Any]] = {
    "exp": np.exp,
    "log": np.log,
    "tanh": np.tanh,
    "erf": np.vectorize(math.erf, otypes=[np.float64]),
    "pow": np.power,
    "sin": np.sin,
    "cos": np.cos,
    "tan": np.tan,
    "asin": np.arcsin,
    "acos": np.arccos,
    "atan": np.arctan,
    "atan2": np.arctan2,
    "sinh": np.sinh,
    "cosh": np.cosh,
    "asinh": np.arcsinh,
    "acosh": np.arccosh,
    "atanh": np.arctanh,
}
"""Other implementations, good to a few float64 ulps: no error beside an ulp of a narrower dtype."""


def narrow_errors(name: str, of: DType, *args: Array) -> Array:
    """The errors in ulps of `of`; 0 where an overflow, an infinity or NaN agree."""
    got = call(name, *args).astype(np.float64)
    with np.errstate(all="ignore"):
        exact = REFERENCE[name](*(a.astype(np.float64) for a in args))
        digits = round(-math.log2(of.unit_roundoff))  # of the significand
        ulp = np.maximum(np.exp2(np.floor(np.log2(np.abs(exact))) + 1 - digits), of.smallest_subnormal)
        too_big = np.isinf(got) & (np.abs(exact) >= of.max) & (np.sign(got) == np.sign(exact))
        out = np.where(too_big | (got == exact) | (np.isnan(got) & np.isnan(exact)), 0, np.abs(got - exact) / ulp)
    return np.asarray(out)


@pytest.mark.parametrize("of", ["float16", "bfloat16"])
@pytest.mark.parametrize("name", [n for n, r in ROUTINES.items() if len(r.params) == 1])
def test_every_16_bit_operand(name: str, of: str) -> None:
    x = np.arange(2**16).astype(np.uint16).view(dtype(of).numpy)
    got = call(name, x)
    assert got.dtype == x.dtype
    errors = narrow_errors(name, dtype(of), x)
    assert np.all(errors <= 0.51), x[~(errors <= 0.51)]


@pytest.mark.parametrize("name", [n for n, r in ROUTINES.items() if len(r.params) == 1])
def test_float32_is_within_half_an_ulp(name: str) -> None:
    rng = np.random.default_rng(3)
    anything = rng.integers(0, 2**32, 20_000, dtype=np.uint32).view(np.float32)
    near = rng.uniform(-7, 7, 10_000).astype(np.float32)
    large = rng.uniform(-105, 90, 5_000).astype(np.float32)
    for x in (anything, near, large):
        errors = narrow_errors(name, dtype("float32"), x)
        assert np.all(errors <= 0.51), x[~(errors <= 0.51)]


@pytest.mark.parametrize("of", ["float16", "bfloat16", "float32"])
def test_narrow_powers_are_within_half_an_ulp(of: str) -> None:
    rng = np.random.default_rng(5)
    to = dtype(of).numpy
    with np.errstate(over="ignore"):
        for x, y in (
            (rng.uniform(0, 10, 10_000), rng.uniform(-5, 5, 10_000)),
            (rng.uniform(-4, 4, 10_000), rng.integers(-30, 30, 10_000)),
            (np.exp2(rng.uniform(-140, 120, 10_000)), rng.uniform(-2, 2, 10_000)),
        ):
            errors = narrow_errors("pow", dtype(of), x.astype(np.float32).astype(to), y.astype(np.float32).astype(to))
            assert np.all(errors <= 0.51)


def test_a_planted_error_of_a_narrow_result_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(REFERENCE, "exp", lambda x: np.exp(x) * (1 + 2.0**-13))
    x = np.linspace(-5, 5, 2000, dtype=np.float32)
    assert np.any(narrow_errors("exp", dtype("float32"), x) > 0.51)


def test_the_result_is_rounded_once() -> None:
    """exp(x) lies above the middle of two bfloat16, but float32 would round it to the middle."""
    for of in ("bfloat16", "float16"):
        to = dtype(of)
        step = 2 * to.unit_roundoff
        middle = 1 + step / 2
        assert float(scalar.convert(np.float64(middle), to)) == 1.0
        assert float(scalar.convert(np.float64(middle + 2.0**-40), to)) == 1 + step
        assert float(scalar.convert(np.float64(-middle - 2.0**-40), to)) == -1 - step
        assert float(scalar.const(middle + 2.0**-40, to).value) == 1 + step
    # 2**62 + 2**54 lies in the middle for bfloat16; float64 drops the 1
    assert float(scalar.convert(np.int64(2**62 + 2**54 + 1), dtype("bfloat16"))) == 2.0**62 + 2.0**55
    assert float(scalar.convert(np.int64(2**62 + 2**54), dtype("bfloat16"))) == 2.0**62
    assert float(scalar.convert(np.int64(5), dtype("bfloat16"))) == 5.0


# --- specials -----------------------------------------------------------------------------------------------------

TABLE: dict[str, list[tuple[float, float]]] = {
    "exp": [(0.0, 1.0), (-0.0, 1.0), (INF, INF), (-INF, 0.0), (NAN, NAN)],
    "log": [(1.0, 0.0), (0.0, -INF), (-0.0, -INF), (INF, INF), (-1.0, NAN), (-INF, NAN), (NAN, NAN)],
    "tanh": [(0.0, 0.0), (-0.0, -0.0), (INF, 1.0), (-INF, -1.0), (NAN, NAN)],
    "erf": [(0.0, 0.0), (-0.0, -0.0), (INF, 1.0), (-INF, -1.0), (NAN, NAN)],
    "sin": [(0.0, 0.0), (-0.0, -0.0), (INF, NAN), (-INF, NAN), (NAN, NAN)],
    "cos": [(0.0, 1.0), (-0.0, 1.0), (INF, NAN), (-INF, NAN), (NAN, NAN)],
    "tan": [(0.0, 0.0), (-0.0, -0.0), (INF, NAN), (-INF, NAN), (NAN, NAN)],
    "asin": [(0.0, 0.0), (-0.0, -0.0), (1.0, math.pi / 2), (-1.0, -math.pi / 2), (1.5, NAN), (-INF, NAN), (NAN, NAN)],
    "acos": [(1.0, 0.0), (-1.0, math.pi), (0.0, math.pi / 2), (1.5, NAN), (INF, NAN), (NAN, NAN)],
    "atan": [(0.0, 0.0), (-0.0, -0.0), (INF, math.pi / 2), (-INF, -math.pi / 2), (NAN, NAN)],
    "sinh": [(0.0, 0.0), (-0.0, -0.0), (INF, INF), (-INF, -INF), (NAN, NAN)],
    "cosh": [(0.0, 1.0), (-0.0, 1.0), (INF, INF), (-INF, INF), (NAN, NAN)],
    "asinh": [(0.0, 0.0), (-0.0, -0.0), (INF, INF), (-INF, -INF), (NAN, NAN)],
    "acosh": [(1.0, 0.0), (0.5, NAN), (0.0, NAN), (-INF, NAN), (INF, INF), (NAN, NAN)],
    "atanh": [(0.0, 0.0), (-0.0, -0.0), (1.0, INF), (-1.0, -INF), (1.5, NAN), (-INF, NAN), (NAN, NAN)],
}


@pytest.mark.parametrize("of", ["float16", "bfloat16", "float32", "float64"])
@pytest.mark.parametrize("name", TABLE)
def test_specials(name: str, of: str) -> None:
    to = dtype(of).numpy
    for x, wanted in TABLE[name]:
        assert same_bits(call(name, to.type(x)), to.type(wanted)), x
        assert same_bits(call(name, np.full((2, 3), x, to)), np.full((2, 3), wanted, to)), x


def test_overflow_and_underflow() -> None:
    assert call("exp", np.float64(709.7)) < INF == call("exp", np.float64(709.8))
    assert call("exp", np.float64(-745.0)) == 5e-324
    assert call("exp", np.float64(-745.2)) == 0
    assert call("exp", np.float32(-103.0)) == np.float32(1e-45)
    assert call("exp", np.float16(11.0)) == np.float16(59872)
    assert call("exp", np.float16(12.0)) == INF
    assert call("log", np.float64(5e-324)) == math.log(5e-324)
    for name in ("tanh", "erf"):
        assert call(name, np.float64(30.0)) == 1 == -call(name, np.float64(-1e300))
    assert call("tanh", np.float64(5e-324)) == 5e-324
    assert call("erf", np.float64(-5e-324)) == -5e-324


@pytest.mark.parametrize("of", ["float16", "bfloat16", "float32", "float64"])
def test_pow_on_specials_is_that_of_c99_annex_f(of: str) -> None:
    """Against the C library, on every pair of specials; results that are no special may differ by rounding."""
    to = dtype(of).numpy
    with np.errstate(all="ignore"):
        x, y = (np.array(v).astype(to) for v in zip(*itertools.product(SPECIALS, SPECIALS), strict=True))
        wanted = np.power(x.astype(np.float64), y.astype(np.float64))
    got = call("pow", x, y).astype(np.float64)
    special = np.isnan(wanted) | np.isinf(wanted) | (wanted == 0) | (np.abs(x) == 1) | (y == 0)
    assert same_bits(got[special], wanted[special])
    assert np.all(np.sign(got) * np.sign(wanted) >= 0, where=~special)
    assert np.array_equal(np.isnan(got), np.isnan(wanted))


@pytest.mark.parametrize("of", ["float16", "bfloat16", "float32", "float64"])
def test_atan2_on_specials_is_that_of_c99_annex_f(of: str) -> None:
    to = dtype(of).numpy
    with np.errstate(all="ignore"):
        y, x = (np.array(v).astype(to) for v in zip(*itertools.product(SPECIALS, SPECIALS), strict=True))
        wanted = np.arctan2(y.astype(np.float64), x.astype(np.float64)).astype(to).astype(np.float64)
    got = call("atan2", y, x).astype(np.float64)
    assert np.array_equal(np.isnan(got), np.isnan(wanted))
    there = ~np.isnan(wanted)
    assert np.array_equal(np.signbit(got[there]), np.signbit(wanted[there]))
    assert np.allclose(
        got[there], wanted[there], rtol=4 * dtype(of).unit_roundoff, atol=2 * dtype(of).smallest_subnormal
    )


def test_pow_rules_by_name() -> None:
    def power(x: float, y: float) -> float:
        return float(call("pow", np.float64(x), np.float64(y)))

    assert power(NAN, 0.0) == power(NAN, -0.0) == power(1.0, NAN) == power(-1.0, INF) == power(-1.0, -INF) == 1
    assert math.isnan(power(NAN, 1.0)) and math.isnan(power(2.0, NAN)) and math.isnan(power(-8.0, 1 / 3))
    assert power(-2.0, 3.0) == -8 and power(-2.0, 4.0) == 16 and power(-2.0, -1.0) == -0.5
    assert power(-0.0, -3.0) == -INF and power(-0.0, -2.0) == INF and power(0.0, -INF) == INF
    assert same_bits(np.float64(power(-0.0, 3.0)), np.float64(-0.0)) and power(-0.0, 0.5) == 0
    assert power(-INF, 3.0) == -INF and power(-INF, 2.5) == INF and power(0.5, -INF) == INF == power(-2.0, INF)
    assert power(3.0, 5.0) == 243 and power(10.0, 22.0) == 1e22 and power(2.0, -1074.0) == 5e-324
    assert power(-1.0, 2.0**53 - 1) == -1 and power(-1.0, 2.0**53) == 1


# --- lanes --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ROUTINES)
@pytest.mark.parametrize("of", ["bfloat16", "float32", "float64"])
def test_lanes_are_scalars_bit_for_bit(name: str, of: str) -> None:
    to = dtype(of).numpy
    rng = np.random.default_rng(1)
    with np.errstate(over="ignore"):
        x = np.concatenate([np.array(SPECIALS), rng.uniform(-3, 3, 20)]).astype(to)
    args = [x, np.roll(x, 7)][: len(ROUTINES[name].params)]
    lanes = call(name, *args)
    scalars = [call(name, *row) for row in zip(*args, strict=True)]
    assert all(np.ndim(s) == 0 and s.dtype == to for s in scalars)
    assert same_bits(lanes, np.array(scalars, to))


@pytest.mark.parametrize("shape", [(), (0,), (3, 0, 2), (2, 3, 5), (BLOCK,), (2, BLOCK // 2 + 3)])
def test_lanes_of_any_shape(shape: tuple[int, ...]) -> None:
    x = np.random.default_rng(2).uniform(0.1, 4, shape).astype(np.float32)
    for name in ROUTINES:
        args = [x] * len(ROUTINES[name].params)
        got = call(name, *args)
        assert got.shape == shape and got.dtype == np.float32
        one_by_one = [ROUTINES[name](*[v] * len(args)) for v in x.astype(np.float64).reshape(-1)[-40:]]
        assert same_bits(np.ravel(got)[-40:], np.array(one_by_one, np.float64).astype(np.float32))


def test_lanes_against_one_scalar() -> None:
    x = np.linspace(0.5, 2, 2 * BLOCK + 1)
    assert same_bits(call("pow", x, np.float64(-0.75)), call("pow", x, np.full_like(x, -0.75)))
    assert same_bits(call("pow", np.float64(1.0), x[:5]), np.ones(5))


def test_transposed_lanes() -> None:
    x = np.arange(12.0).reshape(3, 4).T
    assert same_bits(call("exp", x), call("exp", x.copy()))


@pytest.mark.parametrize("name", ROUTINES)
def test_no_bit_pattern_traps(name: str) -> None:
    rng = np.random.default_rng(11)
    args = [rng.integers(0, 2**64, 10_000, dtype=np.uint64).view(np.float64) for _ in ROUTINES[name].params]
    assert call(name, *args).shape == (10_000,)


# --- the programs -------------------------------------------------------------------------------------------------


def faults(routine: Routine) -> list[str]:
    """What would keep the C text of a routine from being right: an unknown name, operation or dtype; a dead binding."""
    known, used, found = set(routine.params), set(), []
    for var, value in (*routine.lets, (None, routine.result)):
        for node in scalar.post_order(value):
            match node:
                case scalar.Var():
                    used.add(node)
                    found += [f"{node} is not bound"] if node not in known else []
                case scalar.Apply():
                    found += [f"{node.op} is not exact"] if node.op not in scalar.OPERATIONS else []
                case scalar.Load():
                    found.append("a routine reads no memory")
            found += [f"a {node.dtype}"] if node.dtype.name not in ("float64", "int64", "bool") else []
        if var is not None:
            found += [f"{var} twice"] if var.name in {v.name for v in known} else []
            known.add(var)
    found += [f"{v} is never used" for v in known - used]
    return found


@pytest.mark.parametrize("name", ROUTINES)
def test_programs_are_straight_and_exact(name: str) -> None:
    routine = ROUTINES[name]
    assert faults(routine) == []
    assert routine.result.dtype is FLOAT64
    assert scalar.TRANSCENDENTAL[name].arity == len(routine.params)


def test_planted_faults_of_programs_are_found() -> None:
    x, y = scalar.Var("x", FLOAT64), scalar.Var("y", FLOAT64)
    one = scalar.const(1.0, FLOAT64)
    plans = {
        "not exact": Routine("f", (x,), (), scalar.apply("exp", x), 1.0, ""),
        "not bound": Routine("f", (x,), (), x + y, 1.0, ""),
        "never used": Routine("f", (x,), ((y, x + one),), x + one, 1.0, ""),
        "a float32": Routine("f", (x,), (), scalar.cast(scalar.cast(x, "float32"), FLOAT64), 1.0, ""),
        "twice": Routine("f", (x,), ((y, x + one), (scalar.Var("y", FLOAT64), y + one)), y + one, 1.0, ""),
    }
    for fault, routine in plans.items():
        assert any(fault in f for f in faults(routine)), fault


def test_the_table_of_scalar_operations_is_filled() -> None:
    assert set(scalar.TRANSCENDENTAL) == set(ROUTINES) >= {"exp", "log", "tanh", "erf", "pow", "sin", "atan2"}
    assert not set(scalar.TRANSCENDENTAL) & set(scalar.OPERATIONS)
    e = scalar.evaluate(scalar.apply("exp", scalar.const(1.0, "float32")), {})
    assert e == np.float32(math.e) and e.dtype == np.float32
    for name in ("float16", "float64", "float8_e5m2"):
        value = scalar.evaluate(scalar.apply("tanh", scalar.const(0.5, name)), {})
        assert np.asarray(value).dtype == DTYPES[name].numpy
