"""A fault for each stage of the tour: each changes one thing in what the stage made of the model."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from assay.lower.c import CSource
from assay.semantics.devices import VirtualDevice
from assay.semantics.graph import Call, Expr, Let
from assay.semantics.module import Module, Program
from assay.semantics.operator import Operator
from assay.semantics.scalar import Apply
from assay.semantics.tensor import PrimFunc, Stmt, Store
from assay.semantics.walk import rewrite


def a_device_for_relu_alone(module: Module) -> Module:
    def change(node: Expr) -> Expr:
        return replace(node, device=VirtualDevice("cuda")) if _calls(node, "nn.relu") else node

    return _main(module, change)


def relu_forgotten(module: Module) -> Module:
    def change(node: Expr) -> Expr:
        match node:
            case Let(value=Call(args=(operand, *_)) as call) if _calls(call, "nn.relu"):
                return replace(node, value=operand)
        return node

    return _main(module, change)


def softmax_without_the_peak(module: Module) -> Module:
    def change(store: Store) -> Store:
        match store.value:
            case Apply(op="exp", args=(Apply(op="sub", args=(x, _)),)) as exp:
                return replace(store, value=replace(exp, args=(x,)))
        return store

    return _stores(module, "nn_softmax", change)


def bias_forgotten(module: Module) -> Module:
    def change(store: Store) -> Store:
        match store.value:
            case Apply(op="max", args=(Apply(op="add", args=(product, _)), zero)) as relu:
                return replace(store, value=replace(relu, args=(product, zero)))
        return store

    return _stores(module, "fused_matmul_add_nn_relu", change)


def one_weight_rounded(module: Module) -> Module:
    constants = {name: data.copy() for name, data in module.constants.items()}
    next(iter(constants.values())).flat[0] = 0.125
    return replace(module, constants=constants)


def peak_claimed_too_low(module: Module) -> Module:
    claim = {**module.main.attrs["schedule"], "before": 32, "after": 32, "bound": 32}
    main = replace(module.main, attrs={**module.main.attrs, "schedule": claim})
    return replace(module, definitions={**module.definitions, "main": main})


def live_range_too_short(module: Module) -> Module:
    def change(program: Program) -> Program:
        first = program.slots["lv4"]
        ((start, stop),) = first.live
        return replace(program, slots={**program.slots, first.name: replace(first, live=((start, stop - 1),))})

    return _program(module, change)


def two_buffers_in_one_place(module: Module) -> Module:
    def change(program: Program) -> Program:
        slots = {n: replace(s, offset=0) if s.is_pooled else s for n, s in program.slots.items()}
        return replace(program, slots=slots)

    return _program(module, change)


def division_by_one_more(source: CSource) -> CSource:
    assert " / " in source.source
    return replace(source, source=source.source.replace(" / ", " / 1.0001f / ", 1))


def _calls(node: Expr, name: str) -> bool:
    return isinstance(node, Call) and isinstance(node.op, Operator) and node.op.name == name


def _main(module: Module, change: Callable[[Expr], Expr]) -> Module:
    body: Expr = module.main
    return replace(module, definitions={**module.definitions, "main": rewrite(body, change)})


def _stores(module: Module, name: str, change: Callable[[Store], Store]) -> Module:
    """The module with each store of a tensor function changed."""
    kernel = module.definitions[name]
    assert isinstance(kernel, PrimFunc)
    body: Stmt = rewrite(kernel.body, lambda s: change(s) if isinstance(s, Store) else s)
    assert body is not kernel.body
    return replace(module, definitions={**module.definitions, name: replace(kernel, body=body)})


def _program(module: Module, change: Callable[[Program], Program]) -> Module:
    return replace(module, definitions={**module.definitions, "main": change(module.program)})
