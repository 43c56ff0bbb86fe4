"""Modules of TVM mean here what TVM computes: as imported, and after each pass of its two pipelines for the CPU."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import onnx
import pytest

from assay.interp import graph
from assay.lower.frontends.onnx.model import import_onnx
from assay.lower.frontends.tvm import from_tvm
from assay.semantics import rules
from assay.semantics.bounds import contains
from assay.semantics.errors import Trap, Unsupported
from assay.semantics.graph import Constant, Function
from assay.semantics.module import Module
from assay.semantics.scalar import Const, Expr, Load, const
from assay.semantics.tensor import For, PrimFunc, Stmt, Store
from assay.semantics.walk import post_order, rewrite
from assay.verify.compare import is_transcendental
from tests.lower.frontends.tvm.tvm_models import compiled, flat, imported, mobile_net, stages
from tests.models import small_cnn, transformer_block

pytestmark = pytest.mark.peer

MODELS: dict[str, tuple[Callable[[], onnx.ModelProto], tuple[int, ...]]] = {
    "cnn": (small_cnn, (1, 3, 12, 12)),
    "cnn, any batch": (lambda: small_cnn(batch="n"), (2, 3, 12, 12)),
    "mobile net": (mobile_net, (1, 3, 8, 8)),
    "mobile net, any batch": (lambda: mobile_net(batch="n"), (2, 3, 8, 8)),
    "transformer": (lambda: transformer_block(5, 8, 2), (1, 5, 8)),
    "transformer, any batch and length": (lambda: transformer_block("s", 8, 2, batch="b"), (3, 4, 8)),
}
FAST = {("cnn", "default"), ("mobile net, any batch", "cpu"), ("transformer, any batch and length", "default")}
CASES = [
    pytest.param(name, pipeline, marks=() if (name, pipeline) in FAST else pytest.mark.slow)
    for name in MODELS
    for pipeline in ("default", "cpu")
]
WHERE_IT_ENDS = "MakePackedAPI"


def inputs_of(shape: tuple[int, ...]) -> dict[str, Any]:
    return {"x": np.random.default_rng(7).standard_normal(shape).astype(np.float32)}


@pytest.mark.parametrize(("name", "pipeline"), CASES)
def test_every_stage_means_what_tvm_computes(name: str, pipeline: str) -> None:
    """Every stage, run here, and TVM's own code lie inside the bounds of the ONNX model; and if nothing transcendental
    is in it, a stage of tensor functions gives TVM's results bit for bit."""
    source, shape = MODELS[name]
    proto, x = source(), inputs_of(shape)
    mod = imported(proto)
    code = compiled(mod, pipeline)
    (want,) = flat(code(x["x"]))
    (allowed,) = graph.run(import_onnx(proto, evaluate=graph.evaluate), x, bounds=True).values()
    assert np.all(contains(allowed, want)) and np.max(allowed.radius) < 1e-2
    seen: list[str] = []
    for stage, after in stages(mod, code.snapshots):
        if WHERE_IT_ENDS in stage:
            break
        module = from_tvm(after)
        rules.check(module)
        (got,) = graph.run(module, x).values()
        assert np.all(contains(allowed, got)), stage
        if seen and not is_transcendental(module):
            assert got.tobytes() == want.tobytes(), stage
        seen.append(stage)
    passes = {
        "LegalizeOps",
        "CallTIRRewrite",
        "StaticPlanBlockMemory",
        "VMShapeLower",
        "tirx.FlattenBuffer",
        "tirx.StorageRewrite",
    }
    assert passes <= set(seen) and len(seen) > 15, seen


def test_transcendental_models_are_not_compared_bit_for_bit() -> None:
    """So that the test above says it of those that it is true of: the mobile net has nothing transcendental."""
    found = {n: is_transcendental(_legal(MODELS[n][0]())) for n in ("cnn", "mobile net", "transformer")}
    assert found == {"cnn": True, "mobile net": False, "transformer": True}


def _legal(proto: onnx.ModelProto) -> Module:
    code = compiled(imported(proto))
    return from_tvm(next(after for name, after in code.snapshots if name == "LegalizeOps"))


# --- planted faults ------------------------------------------------------------------------------------------------


def _every(change: Callable[[Stmt], Stmt], module: Module, name: str) -> Module:
    """The module with `change` applied to every statement of one tensor function."""
    func = module.kernel(name)
    return module.with_(**{name: replace(func, body=rewrite(func.body, change))})


def _weight(module: Module) -> Module:
    """One element of the largest constant is another number."""
    largest = max((n for n in post_order(module.main) if isinstance(n, Constant)), key=lambda c: c.data.size)
    data = largest.data.copy()
    data.flat[data.size // 2] += 0.25
    changed = rewrite(module.main, lambda n: replace(n, data=data) if n is largest else n)
    assert isinstance(changed, Function)
    return module.with_(main=changed)


def _index(module: Module) -> Module:
    """A convolution reads one element to the right of where it should."""

    def change(s: Stmt) -> Stmt:
        if isinstance(s, Store) and s.buffer.name == "conv2d_nchw":
            return replace(s, value=rewrite(s.value, _shifted))
        return s

    return _every(change, module, "conv2d")


def _shifted(e: Expr) -> Expr:
    if isinstance(e, Load) and e.buffer.name == "pad_temp":
        *most, last = e.indices
        return replace(e, indices=(*most, const(0) * last))
    return e


def _stride(module: Module) -> Module:
    """Every factor 2 in an index is 1: the window of a convolution moves by one."""

    def change(s: Stmt) -> Stmt:
        if not isinstance(s, Store):
            return s
        return replace(s, value=rewrite(s.value, two_to_one))

    def two_to_one(e: Expr) -> Expr:
        return const(1, e.dtype) if isinstance(e, Const) and e.dtype.is_integer and e.value == 2 else e

    return _every(change, module, "conv2d")


def _extent(module: Module) -> Module:
    """A reduction leaves out its last element."""

    def change(s: Stmt) -> Stmt:
        if isinstance(s, For) and s.var.name == "rx":
            return replace(s, extent=s.extent - 1)
        return s

    return _every(change, module, "conv2d")


@pytest.mark.parametrize("fault", [_weight, _index, _stride, _extent])
def test_a_planted_fault_is_outside_the_bounds(fault: Callable[[Module], Module]) -> None:
    proto, x = mobile_net(), inputs_of((1, 3, 8, 8))
    module = _legal(proto)
    (allowed,) = graph.run(import_onnx(proto, evaluate=graph.evaluate), x, bounds=True).values()
    assert np.all(contains(allowed, next(iter(graph.run(module, x).values()))))
    faulty = fault(module)
    try:
        wrong = not np.all(contains(allowed, next(iter(graph.run(faulty, x).values()))))
    except Trap as trap:  # what the block declares still says how it was
        wrong = trap.kind == "undeclared access"
    assert wrong


# --- what is refused ----------------------------------------------------------------------------------------------


def test_what_is_lowered_for_its_callers_is_refused_by_name() -> None:
    code = compiled(imported(mobile_net()))
    after = [m for n, m in stages(imported(mobile_net()), code.snapshots) if WHERE_IT_ENDS in n]
    with pytest.raises(Unsupported, match=r"function \w+: self_handle is a handle.*before MakePackedAPI.*tvm\.C18"):
        from_tvm(after[0])
    assert isinstance(_legal(mobile_net()).kernel("conv2d"), PrimFunc)
