"""Operators at symbolic sizes become kernels that take their sizes from their buffers, or as scalars."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from assay.interp.graph import run
from assay.lower.anf import to_anf
from assay.lower.legalize import legalize
from assay.lower.shapes import lower_shapes
from assay.semantics.builder import Builder, tensor
from assay.semantics.graph import Call, Expr, call, function, tuple_of, var
from assay.semantics.module import Module
from assay.semantics.operator import Operator
from assay.semantics.rules import check
from assay.semantics.scalar import Var as Symbol, evaluate_dim
from assay.semantics.types import TensorType
from assay.semantics.walk import post_order
from assay.verify.legalize import why_outside
from assay.verify.shapes import check_shapes

pytestmark = pytest.mark.row("R10", "U24")

n, m = Symbol("n"), Symbol("m")

CASES: dict[str, tuple[str, tuple[tuple[Any, ...], ...], dict[str, Any]]] = {
    "add": ("add", ((n, 1, 3), (m, 3)), {}),
    "relu": ("nn.relu", ((n, m),), {}),
    "matmul": ("matmul", ((n, m, 4), (4, m)), {}),
    "matmul over a symbol": ("matmul", ((3, n), (n, m)), {}),
    "sum": ("sum", ((n, 3, m),), {"axis": (1, 2)}),
    "mean": ("mean", ((n, 3, m),), {"axis": (1,)}),
    "max": ("max", ((2, n),), {"axis": (0,)}),
    "conv2d": ("nn.conv2d", ((n, 2, 5, 5), (4, 2, 3, 3)), {"padding": (1, 1, 1, 1)}),
    "grouped conv2d": ("nn.conv2d", ((n, 4, 5, 4), (4, 2, 3, 3)), {"groups": 2}),
    "max_pool2d": ("nn.max_pool2d", ((n, m, 6, 5),), {"pool_size": (3, 3), "padding": (1, 1, 1, 1)}),
    "avg_pool2d": ("nn.avg_pool2d", ((n, 3, 6, 5),), {"pool_size": (2, 2), "strides": (2, 2)}),
    "softmax": ("nn.softmax", ((n, m),), {"axis": -1}),
    "batch_norm": ("nn.batch_norm", ((n, 3, m), (3,), (3,), (3,), (3,)), {"axis": 1}),
    "layer_norm": ("nn.layer_norm", ((n, m, 5), (5,), (5,)), {"axes": (-1,)}),
    "lrn": ("nn.lrn", ((n, 6, m),), {"size": 3}),
    "permute_dims": ("permute_dims", ((n, 2, m),), {"axes": (2, 0, 1)}),
    "concat": ("concat", ((n, 2), (m, 2), (3, 2)), {"axis": 0}),
    "split": ("split", ((n, 5),), {"sections": (2, 3), "axis": 1}),
    "take": ("take", ((7, m), (n,)), {"axis": 0}),
    "strided_slice": ("strided_slice", ((n, 5),), {"axes": (1,), "begin": (1,), "end": (5,), "strides": (2,)}),
    "pad": ("nn.pad", ((n, 3),), {"pad_width": (0, 1, 2, 1)}),
    "reflect": ("nn.pad", ((n, 3),), {"pad_width": (0, 1, 0, 1), "mode": "reflect"}),
    "broadcast_to": ("broadcast_to", ((1, 3),), {"shape": (n + m, 3)}),
    "full": ("full", (), {"shape": (n, m * 2), "fill_value": 2.0}),
    "shape_of": ("shape_of", ((n, 3, m),), {}),
}


def module(name: str) -> Module:
    """The operator on parameters; x and y tell the sizes where its operands do not."""
    op, shapes, attrs = CASES[name]
    of = ["int64" if op == "take" and i == 1 else "float32" for i in range(len(shapes))]
    operands = [var(f"p{i}", tensor(*s, of=t)) for i, (s, t) in enumerate(zip(shapes, of, strict=True))]
    told = [var("x", tensor(n)), var("y", tensor(m))]
    return Module({"main": function([*told, *operands], call(op, *operands, **attrs))})


def values(of: Module, sizes: dict[Symbol, int], seed: int) -> dict[str, Any]:
    rng = np.random.default_rng(seed)
    made: dict[str, Any] = {}
    for p in of.main.params:
        assert isinstance(p.type, TensorType)
        shape = tuple(evaluate_dim(d, sizes) for d in p.type.shape)
        if p.type.dtype.is_float:
            made[p.name] = rng.uniform(0.5, 2, shape).astype(p.type.dtype.numpy)
        else:
            made[p.name] = rng.integers(-7, 7, shape).astype(p.type.dtype.numpy)
    return made


def compared(source: Module, sizes: dict[Symbol, int], *targets: Module) -> None:
    """Each target's results lie within the bounds of the source's operators."""
    given = values(source, sizes, 7)
    allowed = run(source, given, bounds=True)
    for target in targets:
        for name, got in run(target, given).items():
            assert why_outside(allowed[name], got) is None, (sizes, name)


def without_operators(of: Module) -> bool:
    root: Expr = of.main
    calls = [node for node in post_order(root) if isinstance(node, Call) and isinstance(node.op, Operator)]
    return all(isinstance(c.op, Operator) and c.op.view for c in calls)


@pytest.mark.parametrize("name", CASES)
def test_a_kernel_at_symbolic_sizes(name: str) -> None:
    source = module(name)
    target = legalize(to_anf(source))
    check(target)
    assert without_operators(target)
    explicit = lower_shapes(target)
    verdict = check_shapes(target, explicit)
    assert verdict.holds, verdict.detail
    for sizes in ({n: 2, m: 2}, {n: 1, m: 3}, {n: 4, m: 4}):
        compared(source, sizes, target, explicit)


def network() -> Module:
    """Convolution, pooling, a view over all but the batch, a dense layer, softmax; the batch is symbolic."""
    b = Builder()
    with b.function("main", x=tensor("batch", 3, 8, 8), w=tensor(4, 3, 3, 3), v=tensor(64, 5)) as f:
        h = b.nn.relu(b.nn.conv2d(f.x, f.w, padding=(1, 1, 1, 1)))
        p = b.nn.max_pool2d(h, pool_size=(2, 2), strides=(2, 2))
        assert isinstance(f.x.type, TensorType)
        b.result(b.nn.softmax(b.matmul(b.reshape(p, shape=(f.x.type.shape[0], 64)), f.v)))
    return b.module()


def test_a_model_with_a_symbolic_batch_runs_the_same() -> None:
    source = network()
    target = legalize(to_anf(source))
    explicit = lower_shapes(target)
    assert check_shapes(target, explicit).holds
    (batch,) = {s for p in source.main.params for s in _symbols(p.type)}
    for size in (1, 2, 5):
        compared(source, {batch: size}, target, explicit)
        given = values(source, {batch: size}, 3)
        # the same kernels, so the same bits
        assert np.array_equal(run(target, given)["output_0"], run(explicit, given)["output_0"])


def _symbols(of: Any) -> list[Symbol]:
    return [d for d in of.shape if isinstance(d, Symbol)]


def test_one_kernel_serves_all_calls_at_the_same_symbols() -> None:
    b = Builder()
    with b.function("main", x=tensor("n", 3)) as f:
        b.result(b.nn.relu(b.negative(b.nn.relu(f.x))))
    target = legalize(b.module())
    assert len(target.kernels) == 2


def test_symbols_of_one_name_are_not_one_symbol() -> None:
    """Two kernels that look alike: in the first the third dim is the first again, in the other the second."""
    twin = Symbol("n")
    x, y = var("x", tensor(n, twin, n)), var("y", tensor(n, twin, twin))
    source = Module({"main": function([x, y], tuple_of(call("nn.relu", x), call("nn.relu", y)))})
    target = legalize(to_anf(source))
    assert len(target.kernels) == 2
    given = {"x": np.ones((2, 3, 2), np.float32), "y": np.ones((2, 3, 3), np.float32)}
    for name, value in run(target, given).items():
        assert np.array_equal(value, run(source, given)[name])
