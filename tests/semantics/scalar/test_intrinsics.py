"""TVM's functions of numbers: their values, and that text and live modules read them from one table."""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from assay.semantics.dtypes import DTYPES, dtype
from assay.semantics.errors import Invalid
from assay.semantics.scalar import Var, const, evaluate
from assay.semantics.scalar.intrinsics import INTRINSICS, ROWS, table
from assay.semantics.tensor import Store, program_order
from assay.semantics.text.module_text import parse
from tests.places import SPECS

WIDE = np.float64
POINTS = [
    0.0,
    -0.0,
    1.0,
    -1.0,
    0.5,
    -0.75,
    2.0,
    3.0,
    10.0,
    1e-3,
    -1e-3,
    1e-9,
    1e-30,
    20.0,
    -20.0,
    80.0,
    np.inf,
    -np.inf,
    np.nan,
]
REFERENCE: dict[str, Callable[..., Any]] = {
    "exp": np.exp, "exp2": np.exp2, "exp10": lambda x: np.power(10.0, x), "log": np.log, "log2": np.log2,
    "log10": np.log10, "log1p": np.log1p, "tanh": np.tanh, "sinh": np.sinh, "cosh": np.cosh,
    "erf": np.vectorize(math.erf, otypes=[WIDE]), "sqrt": np.sqrt, "rsqrt": lambda x: 1 / np.sqrt(x),
    "sigmoid": lambda x: 1 / (1 + np.exp(-x)), "sin": np.sin, "cos": np.cos, "tan": np.tan, "asin": np.arcsin,
    "acos": np.arccos, "atan": np.arctan, "asinh": np.arcsinh, "acosh": np.arccosh, "atanh": np.arctanh,
}  # fmt: skip
"""By the C library, in float64."""
EXACT: dict[str, Callable[..., Any]] = {
    "abs": np.abs, "floor": np.floor, "ceil": np.ceil, "trunc": np.trunc, "round": np.rint, "nearbyint": np.rint,
    "isnan": np.isnan, "isinf": np.isinf, "isfinite": np.isfinite,
}  # fmt: skip


def value(name: str, *args: Any) -> Any:
    vars = [Var(f"x{k}", dtype(np.asarray(a).dtype)) for k, a in enumerate(args)]
    return evaluate(INTRINSICS[name](vars), dict(zip(vars, args, strict=True)))


@pytest.mark.parametrize("of", ["float16", "float32", "float64"])
@pytest.mark.parametrize("name", REFERENCE)
def test_functions_of_floats(name: str, of: str) -> None:
    d = DTYPES[of]
    for x in POINTS:
        narrow = d.numpy.type(x)
        with np.errstate(all="ignore"):
            want = REFERENCE[name](WIDE(narrow))
            got = float(value(name, narrow))
            if np.isnan(want) or np.isinf(d.numpy.type(want)) or want == 0:
                assert np.array_equal(got, d.numpy.type(want), equal_nan=True), (name, x, got)
                continue
        ulp = max(np.spacing(np.abs(d.numpy.type(want))).astype(WIDE), d.smallest_subnormal)
        assert abs(got - want) <= (4 if of == "float64" or name in ("rsqrt", "sigmoid") else 1) * ulp, (
            name,
            x,
            got,
            want,
        )


@pytest.mark.parametrize("name", EXACT)
def test_exact_functions(name: str) -> None:
    for x in map(np.float32, [*POINTS, 2.5, -2.5, 3.5]):
        want = EXACT[name](x)
        got = value(name, x)
        assert np.array_equal(got, want, equal_nan=True) and np.signbit(got) == np.signbit(want), (name, x)


def test_a_sign_is_copied() -> None:
    for x in map(np.float32, POINTS[:-1]):
        for y in map(np.float32, POINTS[:-1]):
            got, want = value("copysign", x, y), np.copysign(x, y)
            assert got == want and np.signbit(got) == np.signbit(want)


@pytest.mark.parametrize("of", ["float16", "float32", "float64"])
@pytest.mark.parametrize("name", ["hypot", "atan2"])
def test_functions_of_two_floats(name: str, of: str) -> None:
    d = DTYPES[of]
    reference = {"hypot": np.hypot, "atan2": np.arctan2}[name]
    with np.errstate(all="ignore"):
        x, y = (
            g.ravel()
            for g in np.meshgrid(
                np.array([*POINTS, 1e200, 3e-310]).astype(d.numpy), np.array([*POINTS, -1e300, 1e-5]).astype(d.numpy)
            )
        )
        want = reference(x.astype(WIDE), y.astype(WIDE)).astype(d.numpy)
        got = value(name, x, y)
        assert np.array_equal(np.isnan(got), np.isnan(want)) and np.array_equal(np.isinf(got), np.isinf(want))
        there = np.isfinite(want)
        assert np.array_equal(np.signbit(got[there]), np.signbit(want[there]))
        assert np.all(np.abs(got[there].astype(WIDE) - want[there]) <= 2 * np.spacing(np.abs(want[there])).astype(WIDE))


@pytest.mark.parametrize("of", ["float16", "float32", "float64"])
def test_exact_functions_of_two(of: str) -> None:
    """fmod, the next number and scaling by a power of two are those of the C library."""
    d = DTYPES[of]
    rng = np.random.default_rng(4)
    some = rng.standard_normal(400) * np.exp2(rng.uniform(-30, 15, 400))
    with np.errstate(all="ignore"):
        x = np.concatenate([np.array([*POINTS, 1e308, 5e-324]), some]).astype(d.numpy)
        y = np.roll(x, 7)
        remainder = value("fmod", x, y)
        assert np.array_equal(remainder, np.fmod(x, y), equal_nan=True) and remainder.dtype == d.numpy
        beside = value("nextafter", x, y)
        assert np.array_equal(beside, np.nextafter(x, y), equal_nan=True)
        for n in (0, 1, -1, 5, -30, 130, 1000, 1024, -1022, -1074, -1100, 2098, -2200, 2**31 - 1, -(2**31)):
            scaled = value("ldexp", x, np.full(x.shape, n, np.int32))
            assert np.array_equal(scaled, np.ldexp(x.astype(WIDE), n).astype(d.numpy), equal_nan=True), n
        modulo = value("floormod", x, y)
        assert np.array_equal(modulo, x - np.floor(x / y) * y, equal_nan=True)


@pytest.mark.parametrize("of", ["float32", "float64"])
def test_fma_is_rounded_once(of: str) -> None:
    """No number is nearer to the exact sum; where all but the last bits cancel, too."""
    d = DTYPES[of]
    rng = np.random.default_rng(8)
    a, b = (rng.standard_normal(500).astype(d.numpy) for _ in range(2))
    c = (
        -(a * b) * (1 + rng.integers(-3, 3, 500) * 2 * d.unit_roundoff) * np.exp2(rng.choice([0, 0, 30, -30], 500))
    ).astype(d.numpy)
    got = value("fma", a, b, c)
    twice = a * b + c
    for x, y, z, r in zip(a, b, c, got, strict=True):
        exact = Fraction(float(x)) * Fraction(float(y)) + Fraction(float(z))
        away = [
            abs(Fraction(float(v)) - exact)
            for v in (np.nextafter(r, d.numpy.type(-np.inf)), r, np.nextafter(r, d.numpy.type(np.inf)))
        ]
        assert away[1] == min(away)
    assert np.any(got != twice), "two roundings would have passed"


def test_fma_on_specials() -> None:
    inf, nan = np.inf, np.nan
    rows = [
        (inf, 1, -inf, nan),
        (1e308, 10, -inf, -inf),
        (1e200, 1e200, 1, inf),
        (-0.0, 1, 0.0, 0.0),
        (0.0, -1, -0.0, -0.0),
    ]
    rows += [(1, 1, -1, 0.0), (inf, 0, 1, nan), (1, 1, nan, nan), (5e-324, 0.5, 0.0, 0.0), (1e200, -1e200, inf, inf)]
    with np.errstate(all="ignore"):
        for *given, want in rows:
            got = value("fma", *map(WIDE, given))
            assert np.array_equal(got, want, equal_nan=True) and (
                np.isnan(want) or np.signbit(got) == np.signbit(want)
            ), given


@pytest.mark.parametrize("of", ["int8", "uint8", "int16", "int32", "uint32", "int64", "uint64"])
def test_bits_are_counted(of: str) -> None:
    d = DTYPES[of]
    for n in (0, 1, 2, 3, 5, 100, int(d.max), int(d.max) // 3, int(d.min)):
        x = d.numpy.type(n)
        bits = f"{n % (1 << d.bits):0{d.bits}b}"
        assert value("popcount", x) == d.numpy.type(bits.count("1"))
        clz = value("clz", x)
        assert clz == len(bits) - len(bits.lstrip("0")) and clz.dtype == np.int32


@pytest.mark.parametrize(
    ("name", "want"),
    [("isnan", [False, False, True]), ("isinf", [False, True, False]), ("isfinite", [True, False, False])],
)
def test_kinds_of_numbers(name: str, want: list[bool]) -> None:
    """A whole number is finite."""
    assert value(name, np.array([1.0, -np.inf, np.nan], np.float32)).tolist() == want
    assert bool(value(name, np.array([0, -7, 127], np.int8))) == want[0]


def test_a_product_of_fixed_point_numbers() -> None:
    """What apache-tvm 0.27 gives for q_multiply_shift(x, 1395864371, 31, -2)."""
    given = [0, 1, -1, 255, 256, -(2**31), 2**31 - 1, 5, -5, 1000, -1000, 12345678, -12345678]
    wanted = [0, 0, 0, 41, 42, -348966093, 348966093, 1, -1, 162, -162, 2006173, -2006173]
    x = Var("x", DTYPES["int32"])
    e = INTRINSICS["q_multiply_shift"]([x, const(1395864371, "int32"), const(31, "int32"), const(-2, "int32")])
    assert [int(evaluate(e, {x: np.int32(n)})) for n in given] == wanted


def test_operands_are_checked() -> None:
    f, i = Var("f", DTYPES["float32"]), Var("i", DTYPES["int32"])
    n = const(31, "int32")
    shifted = [("q_multiply_shift", [i, i, *last]) for last in ((i, i), (n, i), (i, n))]
    for name, args in (("clz", [f]), ("exp2", [i]), ("log1p", [f, f]), *shifted):
        with pytest.raises(Invalid) as wrong:
            INTRINSICS[name](args)
        assert wrong.value.label in ("scalar.C3", "scalar.C6")


def test_text_reads_every_row() -> None:
    operand = {"float": "x[0]", "int": "i[0]", "uint": "i[0]"}
    lines = []
    for name, row in INTRINSICS.items():
        args = [operand[row.kinds[-1]]] * row.arity
        if name == "q_multiply_shift":
            args[2:] = ["31", "0"]
        if name == "q_multiply_shift_per_axis":
            args[4:] = ["31", "1", "1"]
        if name == "ldexp":
            args[1] = "i[0]"
        lines.append(f"    T.evaluate(T.{name}({', '.join(args)}))\n")
    head = "@T.prim_func\ndef f(x: T.Buffer((1,), 'float32'), i: T.Buffer((1,), 'int32')):\n"
    (func,) = parse(head + "".join(lines), "f.py").kernels.values()
    assert len(func.body.children) == len(INTRINSICS) and not any(
        isinstance(s, Store) for s in program_order(func.body)
    )


def test_the_chapter_has_the_table() -> None:
    chapter = (SPECS / "semantics.md").read_text(encoding="utf-8")
    assert table() in chapter, "put assay.semantics.scalar.intrinsics.table() into the section Intrinsics"
    assert table().count("\n") == len(ROWS) + 2 and len(INTRINSICS) == sum(len(row.names) for row in ROWS)
