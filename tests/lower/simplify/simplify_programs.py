"""Random small programs of which every value has its device: what comes out of planning. Operators on two devices, with
copies between, shared and named values, branches, tuples, constants, sizes on the host, functions, and what may trap.
"""

from __future__ import annotations

import random
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from assay.semantics import graph
from assay.semantics.builder import tensor
from assay.semantics.devices import VirtualDevice
from assay.semantics.graph import Call, Expr, Function, GlobalVar, Let, Var
from assay.semantics.module import Module
from assay.semantics.operator import Operator
from assay.semantics.walk import post_order, rewrite

HOST = VirtualDevice("cpu", 0, "c", "global")
CHIP = VirtualDevice("cuda", 0, "cuda", "global")
INT = tensor(3, of="int32")


def on(node: Any, device: VirtualDevice) -> Any:
    return replace(node, device=device)


def to(value: Expr, device: VirtualDevice) -> Expr:
    """The value on a device: itself, or a copy."""
    return value if value.device == device else graph.device_copy(value, device)


def param(name: str, device: VirtualDevice) -> Var:
    return Var(INT, name, device=device)


def placed(seed: int, size: int = 14) -> tuple[Module, Mapping[str, Any]]:
    """A well-formed module all of whose values have devices, and inputs."""
    rng = random.Random(seed)
    p, q = param("p", HOST), param("q", CHIP)
    helper = whole(graph.function([p, q], Maker(rng, [p, q]).body(3)))
    x, y = param("x", HOST), param("y", CHIP)
    main = whole(graph.function([x, y], Maker(rng, [x, y], helper).body(size)))
    inputs = {n: np.array([rng.randrange(-2, 3) for _ in range(3)], "int32") for n in "xy"}
    return Module({"helper": helper, "main": main}), inputs


def whole(function: Function) -> Function:
    """The function and its lets, where their results are."""

    def change(node: Expr) -> Expr:
        return on(node, node.body.device) if isinstance(node, Let) else node

    made = rewrite(function.body, change)
    return replace(function, body=made, device=HOST)


class Maker:
    """Makes a body from `values`, which are in scope."""

    def __init__(self, rng: random.Random, values: list[Expr], helper: Function | None = None) -> None:
        self.rng, self.values, self.helper = rng, values, helper
        self.lets: list[tuple[Var, Expr]] = []

    def body(self, size: int) -> Expr:
        for _ in range(size):
            d = self.device()
            self.keep(to(self.step(d), d))
        result: Expr = self.pick(self.device())
        for v, value in reversed(self.lets):
            result = graph.let(v, value, result)
        return result

    def device(self) -> VirtualDevice:
        return self.rng.choice([HOST, CHIP])

    def pick(self, device: VirtualDevice) -> Expr:
        return to(self.rng.choice(self.values[-5:]), device)

    def keep(self, value: Expr) -> None:
        if self.rng.random() < 0.6:
            var = param(f"v{len(self.lets)}", value.device)
            self.lets.append((var, value))
            value = var
        self.values.append(value)

    def call(self, op: str, device: VirtualDevice, *args: Expr, **attrs: Any) -> Expr:
        made: Expr = on(graph.call(op, *args, **attrs), device)
        return made

    def step(self, d: VirtualDevice) -> Expr:
        match self.rng.randrange(10):
            case 0 | 1 | 2:
                return self.call(self.rng.choice(["add", "subtract", "add"]), d, self.pick(d), self.pick(d))
            case 3:
                return self.call("floor_divide", d, self.pick(d), self.pick(d))
            case 4 | 5:
                return const(self.rng.randrange(3), d)
            case 6:
                pair = on(graph.tuple_of(self.pick(d), self.pick(d)), d)
                return replace(graph.get(pair, self.rng.randrange(2)), device=d)
            case 7:
                arms = [Maker(self.rng, list(self.values)).body(2) for _ in range(2)]
                return replace(graph.if_(self.condition(), *(to(a, d) for a in arms)), device=d)
            case 8 if self.helper is not None:
                f = on(GlobalVar(self.helper.type, "helper"), HOST)
                return replace(graph.call(f, self.pick(HOST), self.pick(CHIP)), device=self.helper.body.device)
            case _:
                size = self.call("shape_of", HOST, self.rng.choice(self.values))
                return self.call("broadcast_to", HOST, self.call("astype", HOST, size, dtype="int32"), shape=(3,))

    def condition(self) -> Expr:
        less = self.call("less", HOST, self.pick(HOST), self.pick(HOST))
        total = self.call("sum", HOST, self.call("astype", HOST, less, dtype="int32"), axis=None, keepdims=False)
        return self.call("less", HOST, total, on(graph.constant(np.int32(self.rng.randrange(3))), HOST))


def const(value: int, device: VirtualDevice) -> Expr:
    made: Expr = on(graph.constant(np.full(3, value, "int32")), device)
    return made


def crossings(module: Module) -> list[str]:
    """The operator calls that read another device than their own, but for copies."""
    found: list[str] = []
    for d in module.definitions.values():
        for n in post_order(d) if isinstance(d, Function) else ():
            if isinstance(n, Call) and isinstance(n.op, Operator) and n.op.name not in ("device_copy", "shape_of"):
                found += [
                    f"{n.op.name} at {n.device} reads {a.device}" for a in n.args if a.device.place != n.device.place
                ]
    return found
