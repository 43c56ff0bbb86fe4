"""Scalar expressions as text: what is read, and that what is printed is read back bit for bit."""

from __future__ import annotations

import ast
from typing import Any

import numpy as np
import pytest

from assay.semantics.dtypes import BOOL, DTYPES, FLOAT32, INT32, INT64, dtype
from assay.semantics.errors import Unsupported
from assay.semantics.scalar import (
    Apply,
    Const,
    Expr,
    Load,
    Var,
    apply,
    both,
    cast,
    choice,
    const,
    either,
    evaluate,
    same,
    select,
)
from assay.semantics.tensor import Buffer
from assay.semantics.text.scalars import ScalarParser
from assay.semantics.text.scalars.printer import ScalarPrinter
from assay.semantics.text.source import Source
from tests.scale import MANY

X = Buffer("x", (4,), FLOAT32)


@pytest.mark.parametrize("of", DTYPES)
def test_literals_of_every_dtype_are_read_back_bit_for_bit(of: str) -> None:
    d = dtype(of)
    if d is BOOL:
        values = [Const(d, np.bool_(b)) for b in (True, False)]
    elif d.is_integer:
        values = [const(v, d) for v in (int(d.min), 0, 1, int(d.max))]
    else:
        bits = np.random.default_rng(0).integers(0, 2 ** min(d.bits, 63), 200, dtype=np.uint64)
        values = [Const(d, v) for v in bits.astype(f"u{d.itemsize}").view(d.numpy)]
        with np.errstate(all="ignore"):
            values += [const(v, d) for v in (0.0, -0.0, 1.0, np.nan, np.inf, -np.inf, d.smallest_subnormal)]
    for v in values:
        for plain in (None, INT32, INT64):
            text = ScalarPrinter({}, plain).text(v)
            assert same(scalar(text, integer=plain or INT32), v), text


@pytest.mark.parametrize("value", [INT32.min, -1, 0, 5])
def test_the_negative_of_a_number_is_read_back(value: int) -> None:
    """Not as a number without a dtype: that of the least one does not fit."""
    node = Apply(INT32, "neg", (const(int(value), INT32),))
    text = ScalarPrinter({}, INT32).text(node)
    assert evaluate(scalar(text), {}) == evaluate(node, {}), text


def scalar(text: str, names: dict[str, Expr | Buffer] | None = None, integer: Any = INT32) -> Expr:
    source = Source.of(text, "expr.py")
    (line,) = source.parse().body
    assert isinstance(line, ast.Expr)
    return ScalarParser(source, names or {}, integer).expr(line.value)


N, K, P = Var("n"), Var("k", INT32), Var("p", BOOL)
Y = Buffer("y", (4, 4), FLOAT32)
SCOPE: dict[str, Expr | Buffer] = {"n": N, "k": K, "p": P, "x": X, "y": Y}
READ: list[tuple[str, Expr]] = [
    ("n + 1", N + 1),
    ("1 - n", 1 - N),
    ("k + n", cast(K, INT64) + N),
    ("n * 2 - k // 3", N * 2 - cast(K // 3, INT64)),
    ("n % -2", N % const(-2)),
    ("x[n] + 1", X[N] + 1),
    ("x[0] * 0.5", Load(FLOAT32, X, (const(0, INT32),)) * 0.5),
    ("n + 0.5", cast(N, FLOAT32) + 0.5),
    ("y[n, n]", Y[N, N]),
    ("(1 + 2) * 3", const(9, INT32)),
    ("1.5", const(1.5, FLOAT32)),
    ("True", const(True, BOOL)),
    ("1 < n", const(1) < N),
    ("0 <= n < 4", both(const(0) <= N, N < 4)),
    ("p and n < 4 or not p", either(both(P, N < 4), apply("not", P))),
    ("p & (n < 4)", apply("and", P, N < 4)),
    ("p | p", apply("or", P, P)),
    ("~n", apply("bitxor", N, -1)),
    ("~p", apply("not", P)),
    (
        "n << 2 >> n & 3 ^ n | 1",
        apply("bitor", apply("bitxor", apply("bitand", apply("shr", apply("shl", N, 2), N), 3), N), 1),
    ),
    ("-x[n]", -X[N]),
    ("+n", N),
    ("n if p else 0", choice(P, N, 0)),
    ("T.if_then_else(n < 4, x[n], 0)", choice(N < 4, X[N], const(0, FLOAT32))),
    ("T.Select(p, 1, n)", select(P, const(1), N)),
    ("T.max(n, 3)", apply("max", N, 3)),
    ("min(n, k)", apply("min", N, cast(K, INT64))),
    ("T.truncdiv(n, 3)", apply("truncdiv", N, 3)),
    ("T.Div(n, 3)", apply("truncdiv", N, 3)),
    ("T.Div(x[n], 3)", X[N] / 3),
    ("T.Mod(n, 3)", apply("truncmod", N, 3)),
    ("T.floordiv(n, 3) + T.FloorMod(n, 3)", N // 3 + N % 3),
    ("T.Add(T.Mul(n, 2), 1)", N * 2 + 1),
    ("T.And(p, T.Or(p, p))", both(P, either(P, P))),
    ("T.likely(n < 3)", N < 3),
    ("T.ceildiv(n, 4)", (N + 4 - 1) // 4),
    ("T.Cast('int8', x[n])", cast(X[N], "int8")),
    ("T.cast(n, 'float16')", cast(N, "float16")),
    ("x[n].astype('float64')", cast(X[N], "float64")),
    ("T.int64(k)", cast(K, INT64)),
    ("T.i8(3)", const(3, "int8")),
    ("T.uint8(255)", const(255, "uint8")),
    ("T.float32('-inf')", const(-np.inf, FLOAT32)),
    ("T.bool(1)", const(True, BOOL)),
    ("T.max_value('int8') - T.min_value('int8')", const(-1, "int8")),
    ("T.max_value('float16')", const(65504, "float16")),
    ("T.infinity('float32')", const(np.inf, FLOAT32)),
    ("T.IntImm('int64', 5)", const(5)),
    ("T.reinterpret('float32', T.uint32(0x3f800000))", const(1, FLOAT32)),
    ("T.reinterpret('int64', T.float64(1.0))", const(0x3FF0000000000000)),
    ("T.sigmoid(x[n]) + T.rsqrt(x[n])", apply("sigmoid", X[N]) + apply("rsqrt", X[N])),
    ("T.nearbyint(T.fabs(x[n]))", apply("rint", apply("abs", X[N]))),
    ("tir.pow(x[n], 2.0)", apply("pow", X[N], 2.0)),
    ("T.s_tir.exp(x[n])", apply("exp", X[N])),
]


@pytest.mark.parametrize(("text", "wanted"), READ, ids=[t for t, _ in READ])
def test_scalars_are_read(text: str, wanted: Expr) -> None:
    got = scalar(text, SCOPE)
    assert same(got, wanted), f"{got}, wanted {wanted}"
    names: dict[Any, str] = {N: "n", K: "k", P: "p", X: "x", Y: "y"}
    again = ScalarPrinter(names).text(got)
    assert same(scalar(again, SCOPE), got), again


@pytest.mark.parametrize("op", ["sub", "mul"])
def test_an_operation_on_two_literals_is_not_put_together_by_the_reader(op: str) -> None:
    node = Apply(INT32, op, (const(-(2**31), INT32), const(2**31 - 1, INT32)))
    assert same(scalar(ScalarPrinter({}).text(node)), node)


def test_deep_expressions_are_printed_and_long_ones_read() -> None:
    total: Expr = N
    for _ in range(MANY):
        total = total + X[N].indices[0] * 3  # type: ignore[attr-defined]
    assert ScalarPrinter({N: "n"}).text(total).count("+") == MANY
    wide = scalar(" + ".join(["n * k"] * 700), SCOPE)
    assert isinstance(wide, Apply)
    doubled: Expr = N
    for _ in range(100):
        doubled = doubled + doubled
    with pytest.raises(Unsupported) as caught:  # each use is printed: 2**100 of them
        ScalarPrinter({N: "n"}).text(doubled)
    assert caught.value.label == "text.C9"
