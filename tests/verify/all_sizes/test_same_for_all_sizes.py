"""Fused tensor functions against their calls for all sizes, and planted ones (specs/verify.md, "fuse")."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from assay.lower.legalize.kernels.common import nest
from assay.semantics.dtypes import FLOAT32
from assay.semantics.scalar import Expr, Var, apply, const, select
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


def test_a_workspace_that_is_too_small_is_refused() -> None:
    one = Buffer("one", (1,), FLOAT32)

    def rows(i: Expr) -> Stmt:
        keep = nest("j", (M,), lambda j: store(one, 0, X[i, j] + Y[i, j]))
        return seq(keep, nest("j", (M,), lambda j: store(OUT, (i, j), apply("max", one[0], 0.0))))

    assert not same_for_all_sizes(CALLS, func(Allocate(one, nest("i", (N,), rows)))).holds


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
