"""Fused tensor functions against their calls for all sizes, and planted ones (specs/verify.md, "fuse")."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from assay.lower.legalize.kernels.common import nest
from assay.semantics.dtypes import FLOAT32, INT32
from assay.semantics.scalar import Const, Expr, Var, apply, cast, const, select
from assay.semantics.tensor import Allocate, Buffer, PrimFunc, Stmt, seq, store
from assay.verify.all_sizes.same import same_for_all_sizes
from assay.verify.app.cli import main

N, M = Var("n"), Var("m")
X, Y, OUT = (Buffer(name, (N, M), FLOAT32) for name in ("x", "y", "out"))
MIDDLE = Buffer("middle", (N, M), FLOAT32)


def func(body: Stmt) -> PrimFunc:
    return PrimFunc("f", (X, Y, OUT), 1, body)


CALLS = func(
    Allocate(
        MIDDLE,
        seq(
            nest("i", (N, M), lambda *i: store(MIDDLE, i, X[i] + Y[i])),
            nest("i", (N, M), lambda *i: store(OUT, i, apply("max", MIDDLE[i], 0.0))),
        ),
    )
)


def fused(value: Callable[..., Expr]) -> PrimFunc:
    return func(nest("i", (N, M), lambda *i: store(OUT, i, value(*i))))


def test_a_fused_function_is_its_calls_for_all_sizes() -> None:
    assert same_for_all_sizes(CALLS, fused(lambda *i: apply("max", Y[i] + X[i], 0.0))).reason == ""


@pytest.mark.parametrize(
    "value",
    [
        lambda i, j: apply("max", X[i, select(apply("eq", M, 9), 0, j)] + Y[i, j], 0.0),
        lambda i, j: apply("max", X[i, j] - Y[i, j], 0.0),
        lambda i, j: apply("max", X[i, j], 0.0) + Y[i, j],
        lambda i, j: select(X[i, j] + Y[i, j] > 0, X[i, j] + Y[i, j], const(0.0, FLOAT32)),
    ],
    ids=["another column at one size", "another operation", "another order", "NaN taken for a number"],
)
def test_a_fused_function_that_is_not_its_calls(value: Callable[..., Expr]) -> None:
    assert not same_for_all_sizes(CALLS, fused(value)).holds


@pytest.mark.parametrize("bits", [0x7FC00000, 0xFFC00000, 0x7FC00001])
def test_the_bits_of_a_literal_nan_are_told(bits: int) -> None:
    out = Buffer("out", (N, M), INT32)

    def told(bits: int) -> PrimFunc:
        nan = Const(FLOAT32, np.uint32(bits).view(np.float32))
        chosen = lambda *i: apply("bits_of", select(X[i] > 0.0, nan, X[i]))  # noqa: E731
        return PrimFunc("f", (X, out), 1, nest("i", (N, M), lambda *i: store(out, i, chosen(*i))))

    assert same_for_all_sizes(told(0x7FC00000), told(bits)).holds is (bits == 0x7FC00000)


# --- a step that may trap, guarded so that it does not ----------------------------------------------------------------

WHOLE = Buffer("out", (N, M), INT32)


def held(x: Expr) -> Expr:
    """A number that int32 holds, or 0: the cast never traps."""
    return cast(select(apply("and", x > -2.0, x < 256.0), x, const(0.0, FLOAT32)), INT32)


def casting(*body: Stmt) -> PrimFunc:
    whole = seq(*body)
    return PrimFunc("f", (X, Y, WHOLE), 1, Allocate(MIDDLE, whole) if len(body) > 1 else whole)


SUMS = nest("i", (N, M), lambda *i: store(MIDDLE, i, X[i] + Y[i]))
CASTS = casting(SUMS, nest("i", (N, M), lambda *i: store(WHOLE, i, held(MIDDLE[i]))))


def test_a_guarded_cast_behind_a_sum_is_its_calls() -> None:
    assert same_for_all_sizes(CASTS, casting(nest("i", (N, M), lambda *i: store(WHOLE, i, held(X[i] + Y[i]))))).holds
    assert same_for_all_sizes(CASTS, CASTS).holds


@pytest.mark.parametrize(
    "body",
    [
        [nest("i", (N, M), lambda *i: store(WHOLE, i, cast(X[i] + Y[i], INT32)))],
        [nest("i", (N, M), lambda *i: store(WHOLE, i, held(X[i])))],
        [SUMS, nest("i", (N, M), lambda *i: store(WHOLE, i, held(MIDDLE[i]))),
         nest("i", (N, M), lambda *i: store(WHOLE, i, held(MIDDLE[i])))],
        [SUMS, nest("i", (N, M), lambda *i: store(MIDDLE, i, cast(cast(X[i], INT32), FLOAT32))),
         nest("i", (N, M), lambda *i: store(WHOLE, i, held(MIDDLE[i])))],
    ],
    ids=["a cast without its guard", "a cast of another number", "a cast that is done twice", "a cast for nothing"],
)  # fmt: skip
def test_a_cast_that_is_not_that_of_the_calls(body: list[Stmt]) -> None:
    assert not same_for_all_sizes(CASTS, casting(*body)).holds


def test_a_workspace_that_is_too_small_is_refused() -> None:
    one = Buffer("one", (1,), FLOAT32)

    def rows(i: Expr) -> Stmt:
        keep = nest("j", (M,), lambda j: store(one, 0, X[i, j] + Y[i, j]))
        return seq(keep, nest("j", (M,), lambda j: store(OUT, (i, j), apply("max", one[0], 0.0))))

    assert not same_for_all_sizes(CALLS, func(Allocate(one, nest("i", (N,), rows)))).holds


A, B, C = (Buffer(name, (4,), FLOAT32) for name in "abc")


def windowed(width: int, stride: int, length: int = 3, outside: Callable[[Expr], Expr] | None = None) -> PrimFunc:
    """A sum over a window of a padded row, in a workspace, and then something of it; the window is walked with
    `stride`, in a fold of `length` steps. `outside` adds a place of its own behind the fold."""
    row, total = Buffer("row", (width,), FLOAT32), Buffer("total", (4,), FLOAT32)

    def step(i: Expr, k: Expr) -> Stmt:
        return store(total, i, total[i] + row[i + k * stride])

    body = seq(
        nest("p", (width,), lambda p: store(row, p, 0.0)),
        nest("p", (4,), lambda p: store(row, p + 1, A[p])),
        nest("i", (4,), lambda i: store(total, i, 0.0)),
        nest("i", (4,), lambda i: nest("k", (length,), lambda k: step(i, k), "serial")),
        nest("i", (4,), lambda i: store(C, i, apply("max", total[i] + (outside(i) if outside else B[i]), 0.0))),
    )
    return PrimFunc("f", (A, B, C), 1, Allocate(row, Allocate(total, body)))


def test_a_place_in_a_fold_does_not_wrap_where_its_box_keeps_it_from_it() -> None:
    """What comes into a later store as a fold over a padded row has places of its own."""
    for stride in (1, 2):
        assert same_for_all_sizes(windowed(9, stride), windowed(9, stride)).reason == ""
    assert not same_for_all_sizes(windowed(9, 1), windowed(9, 2)).holds, "a dilation that is forgotten"


@pytest.mark.parametrize("length", [3, 0])
def test_what_stands_beside_a_fold_knows_nothing_of_its_box(length: int) -> None:
    """A number that wraps at one place alone; a fold over no place would imply anything."""

    fits, wrong = (windowed(9, 1, length, lambda i, n=n: cast(i * n, FLOAT32)) for n in (2**61, 2**62))
    assert same_for_all_sizes(fits, fits).reason == ""
    assert same_for_all_sizes(wrong, wrong).reason.endswith("may wrap")


MODEL = """
from tvm.script import ir as I
from tvm.script import relax as R

@I.ir_module
class Module:
    @R.function
    def main(x: R.Tensor(("n", 5), dtype="float32"), c: R.Tensor((5,), dtype="float32")):
        with R.dataflow():
            a = R.nn.relu(R.add(x, c))
            R.output(a)
        return a
"""


def test_the_line_of_fuse_says_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "model.py"
    path.write_text(MODEL, "utf-8")
    monkeypatch.setattr("sys.argv", ["assay", "check", str(path), "--stop-after", "fuse", "--json"])
    with pytest.raises(SystemExit):
        main()
    lines = {s["stage"]: s for s in json.loads(capsys.readouterr().out)["lines"]}
    assert lines["fuse"]["how"] == "proved" and "1 of them for all sizes" in lines["fuse"]["detail"]
    assert lines["legalize"]["how"] == "proved" and "2 of 2 for all sizes" in lines["legalize"]["detail"]
