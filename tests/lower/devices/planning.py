"""What the tests of the device planner share: a cpu and a gpu, small programs, and what every plan must be."""

from __future__ import annotations

import random
from dataclasses import replace

from assay.lower.devices import plan_devices
from assay.semantics import graph as g
from assay.semantics.analyses.equality import first_difference
from assay.semantics.compilation import CompilationConfig
from assay.semantics.devices import ANYWHERE, VirtualDevice
from assay.semantics.dtypes import FLOAT32
from assay.semantics.graph import Call, Expr, Function, OnDevice, Var
from assay.semantics.graph.effects import is_opaque
from assay.semantics.graph.nodes import bound_by
from assay.semantics.module import Definition, Module
from assay.semantics.operator import Operator
from assay.semantics.rules import check
from assay.semantics.types import TensorType
from assay.semantics.walk import post_order

CPU, GPU = VirtualDevice("cpu", 0, "c"), VirtualDevice("cuda", 0, "cuda")
ON_CPU, ON_GPU = replace(CPU, scope="global"), replace(GPU, scope="global")
TEXTURE = replace(GPU, scope="global.texture")
CONFIG = CompilationConfig.make([CPU, GPU], default=GPU)
T = TensorType((2, 3), FLOAT32)


def x(name: str, device: VirtualDevice = ANYWHERE) -> Var:
    return Var(T, name, device=device)


def add(a: Expr, b: Expr) -> Expr:
    return g.call("add", a, b)


def neg(a: Expr) -> Expr:
    return g.call("negative", a)


def on(value: Expr, device: VirtualDevice, **how: bool) -> Expr:
    return g.on_device(value, device, **how)


def module(body: Expr, *params: Var, **others: Definition) -> Module:
    return Module({"main": g.function(params, body), **others})


def planned(of: Module, config: CompilationConfig | None = CONFIG) -> Module:
    """The plan: well-formed, full, its own plan, and the same in whatever order the definitions are."""
    check(of)
    plan = plan_devices(of, config)
    check(plan)
    for name, d in plan.definitions.items():
        if isinstance(d, Function):
            root: Expr = d
            for node in post_order(root, lambda n: () if is_opaque(n) else n.children):
                assert not isinstance(node, OnDevice)
                assert all(n.device.is_full for n in (node, *bound_by(node))), (
                    f"{name}: {g.show_head(node)} is on {node.device}"
                )
    assert first_difference(plan, plan_devices(plan, config)) is None
    names = [*of.definitions]
    random.Random(len(names)).shuffle(names)
    shuffled = replace(of, definitions={n: of.definitions[n] for n in names})
    assert first_difference(plan, plan_devices(shuffled, config)) is None
    return plan


def nodes(of: Module, name: str = "main") -> list[Expr]:
    found = of.definitions[name]
    assert isinstance(found, Function)
    root: Expr = found
    return list(post_order(root))


def copies(of: Module, name: str = "main") -> list[tuple[str, str, str]]:
    """The copies of a definition: what is copied, from where and to where."""
    found = []
    for n in nodes(of, name):
        if isinstance(n, Call) and isinstance(n.op, Operator) and n.op.name == "device_copy":
            (a,) = n.args
            found.append((g.show_head(a).split("(")[0].split(":")[0], str(a.device), str(n.device)))
    return found


def params(of: Module, name: str = "main") -> dict[str, str]:
    """Where the parameters of a definition are: the type of device, and the scope if it is not the main memory."""
    found = of.definitions[name]
    assert isinstance(found, Function)
    return {p.name: p.device.type + (f" {p.device.scope}" if p.device.scope != "global" else "") for p in found.params}
