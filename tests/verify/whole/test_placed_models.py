"""Models of which one half is on another device, through every stage and its check, on memories of their own."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from itertools import count
from typing import Any

import numpy as np
import onnx
import pytest

from assay.interp import machine, vector
from assay.interp.graph import evaluate
from assay.lower.c import emit
from assay.lower.frontends.onnx.model import import_onnx
from assay.semantics.compilation import CompilationConfig
from assay.semantics.devices import GLOBAL, VirtualDevice
from assay.semantics.graph import Call, Expr, Function
from assay.semantics.module import Module, Step
from assay.semantics.operator import Operator
from assay.semantics.tensor.copying import is_device_copy
from assay.semantics.walk import post_order, rewrite
from assay.verify.app.stages import STAGES, lowering_passes
from assay.verify.c.compiled import compile_c
from assay.verify.evidence import Context
from tests.lower.memory.planned import same_bits
from tests.models import light_models, small_cnn, transformer_block
from tests.verify.app.test_check import on_images

CUDA = VirtualDevice("cuda")
CONFIG = CompilationConfig.read(["cpu", "cuda"], default="cpu")
CPU = VirtualDevice("cpu")
Where = Callable[[int, Call], VirtualDevice]


def annotated(module: Module, where: Where) -> Module:
    """The module with a device on each call of an operator, by its number."""
    number = count(0)

    def change(node: Expr) -> Expr:
        return replace(node, device=where(next(number), node)) if is_work(node) and isinstance(node, Call) else node

    root: Expr = module.main
    main = rewrite(root, change)
    assert isinstance(main, Function)
    return module.with_(main=main)


def is_work(node: Expr) -> bool:
    return isinstance(node, Call) and isinstance(node.op, Operator) and not node.op.view


def second_half(calls: int) -> Where:
    """The second half on the other device; what its relus and products make there in a texture."""

    def where(i: int, node: Call) -> VirtualDevice:
        assert isinstance(node.op, Operator)
        if i < calls // 2:
            return CPU
        return replace(CUDA, scope="global.texture") if node.op.name in ("nn.relu", "matmul") else CUDA

    return where


def alternating(calls: int) -> Where:
    """Every third call on the other device."""
    return lambda i, node: CUDA if i % 3 == 0 else CPU


def lowered(module: Module) -> Module:
    """A module through every stage, each with its check."""
    context = Context()
    checks = {s.name: s.check for s in STAGES}
    assert checks["import"](module, module, context).holds
    for name, stage in lowering_passes(vector.run, config=CONFIG).items():
        after = stage(module)
        evidence = checks[name](module, after, context)
        assert evidence.holds, (name, evidence.detail)
        module = after
    return module


def count_of(module: Module) -> int:
    root: Expr = module.main
    return sum(map(is_work, post_order(root)))


def holds(model: onnx.ModelProto, inputs: dict[str, Any], how: Callable[[int], Where], *, scopes: bool) -> Module:
    """Assert that the annotated model gives, on memories of its own and in C, what the model gives on one; the
    module."""
    source = import_onnx(model, evaluate=evaluate)
    plain = source
    for stage in lowering_passes(vector.run).values():
        plain = stage(plain)
    placed = lowered(annotated(source, how(count_of(source))))
    want = machine.run(plain, inputs)
    got = machine.run(placed, inputs)
    compiled = compile_c(emit(placed, "placed"), reproducible=True).run(inputs)
    for (name, one), other in zip(got.items(), want.values(), strict=True):
        assert same_bits(one, other) and same_bits(one, compiled[name]), name
    program = placed.program
    memories = {s.device for s in program.slots.values()}
    assert {d.type for d in memories} == {"cpu", "cuda"} and all(d.is_full for d in memories)
    assert ("global.texture" in {d.scope for d in memories}) == scopes
    assert len(program.pools) >= 2 and len({p.device for p in program.pools}) == len(program.pools)
    for step in program.steps:
        if isinstance(step, Step) and not is_device_copy(placed.kernel(step.kernel)):
            assert {program.slots[n].device.place for n in (*step.reads, *step.writes, *step.scratch)} == {
                step.device.place
            }
    assert program.host == replace(CONFIG.host, scope=GLOBAL)
    return placed


def numbers(module: onnx.ModelProto) -> dict[str, Any]:
    rng = np.random.default_rng(0)
    stored = {i.name for i in module.graph.initializer}
    found = {}
    for given in module.graph.input:
        if given.name not in stored:
            shape = [d.dim_value for d in given.type.tensor_type.shape.dim]
            found[given.name] = rng.standard_normal(shape).astype(np.float32)
    return found


@pytest.mark.row("V9", "V12", "V14", "V17")
@pytest.mark.parametrize("how", [second_half, alternating])
def test_a_network_in_halves(how: Callable[[int], Where]) -> None:
    for model in (small_cnn(), transformer_block(4, 8, 2)):
        holds(model, numbers(model), how, scopes=how is second_half)


@pytest.mark.row("V9", "V12", "V14", "V17")
def test_a_real_network_in_halves() -> None:
    model = next(m for m in light_models() if m.name == "squeezenet")
    proto, given = on_images(model.load(), model.inputs, 32)
    placed = holds(proto, given, second_half, scopes=True)
    assert sum(is_device_copy(placed.kernel(s.kernel)) for s in placed.program.calls) <= 3
