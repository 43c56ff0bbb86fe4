"""The pattern classes of TVM's own tensor functions are those that TVM gives them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from assay.lower.frontends.tvm import from_tvm
from assay.semantics.analyses.op_pattern import patterns
from tests.lower.frontends.tvm.tvm_models import relax

pytestmark = [pytest.mark.peer, pytest.mark.row("R23")]

op = relax.op
X = (1, 3, 8, 8)
Row = tuple[Callable[..., Any], list[tuple[int, ...]]]

ROWS: dict[str, Row] = {
    "relu": (op.nn.relu, [X]),
    "sigmoid": (op.sigmoid, [X]),
    "add": (op.add, [X, X]),
    "bias": (op.add, [X, (3, 1, 1)]),
    "broadcast": (lambda x: op.broadcast_to(x, (2, 3, 4)), [(3, 1)]),
    "transpose": (op.permute_dims, [X]),
    "reshape": (lambda x: op.reshape(x, (3, 64)), [X]),
    "concat": (lambda x, y: op.concat([x, y], axis=1), [X, X]),
    "split": (lambda x: op.split(x, 2, axis=2)[0], [X]),
    "slice": (lambda x: op.strided_slice(x, axes=[2], begin=[1], end=[6]), [X]),
    "sum": (lambda x: op.sum(x, axis=[1]), [X]),
    "max": (lambda x: op.max(x, axis=[2, 3]), [X]),
    "mean": (lambda x: op.mean(x, axis=[1]), [X]),
    "softmax": (op.nn.softmax, [X]),
    "matmul": (op.matmul, [(4, 5), (5, 6)]),
    "conv2d": (lambda x, w: op.nn.conv2d(x, w, padding=1), [X, (4, 3, 3, 3)]),
    "max_pool2d": (lambda x: op.nn.max_pool2d(x, pool_size=(2, 2)), [X]),
    "avg_pool2d": (lambda x: op.nn.avg_pool2d(x, pool_size=(2, 2)), [X]),
}


def annotated(row: Row) -> Any:
    """A module of one operator, legalised, with TVM's classes as attributes."""
    formula, shapes = row
    builder = relax.BlockBuilder()
    params = [relax.Var(f"x{i}", relax.TensorType(s, "float32")) for i, s in enumerate(shapes)]
    with builder.function("main", params):
        with builder.dataflow():
            result = builder.emit_output(builder.emit(formula(*params)))
        builder.emit_func_output(result)
    return relax.transform.AnnotateTIROpPattern()(relax.transform.LegalizeOps()(builder.get()))


@pytest.mark.parametrize("name", ROWS)
def test_the_class_is_tvms(name: str) -> None:
    theirs = annotated(ROWS[name])
    ours = from_tvm(theirs)
    count = 0
    for var, func in theirs.functions.items():
        if var.name_hint in ours.kernels:
            bare = ours.kernels[var.name_hint]
            found = patterns(replace(bare, attrs={k: v for k, v in bare.attrs.items() if k != "op_pattern"}))
            assert int(found.whole) == int(func.attrs["op_pattern"]), (name, var.name_hint)
            assert patterns(bare).whole == found.whole, "the attribute that TVM wrote says the same"
            count += 1
    assert count
