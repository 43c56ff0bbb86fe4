"""Devices in random programs: words on where things are, sprinkled over a module (specs/verify.md, "Programs").

Under `pick`, which chooses below n; 0 is always the simplest. Some say what cannot be: planning refuses those.
"""

from __future__ import annotations

from dataclasses import replace

from assay.semantics.compilation import CompilationConfig
from assay.semantics.devices import VirtualDevice
from assay.semantics.graph import Expr, Function, GlobalVar, Let, ShapeExpr, Var, device_copy
from assay.semantics.graph.nodes import Constructor, ExternFunc, OnDevice
from assay.semantics.module import Definition, Module
from assay.semantics.tensor import Buffer, PrimFunc
from assay.semantics.tensor.mapping import Mapper
from assay.semantics.types import FuncType, TensorType, TupleType
from assay.semantics.walk import post_order
from assay.verify.strategies.choosing import Pick

TWO = CompilationConfig.read(["cpu", "cuda"], default="cuda")
THREE = CompilationConfig.read(["cuda:0", "cuda:1", "cpu"], default="cuda:0")
HOST = CompilationConfig.read(["cpu", "cuda"])
CONFIGS = (TWO, HOST, THREE)
SCOPES = ("", "global", "global.texture")


def sprinkled(module: Module, config: CompilationConfig, pick: Pick, often: int = 12) -> Module:
    """A module with devices here and there, about one for every so many uses."""
    made: dict[str, Definition] = dict(module.definitions)
    for name, d in module.definitions.items():
        if isinstance(d, Function):
            made[name] = _Sprinkler(config, pick, often).function(d)
    return replace(module, definitions=made)


def scoped(module: Module, pick: Pick) -> Module:
    """Tensor functions whose parameters are in other scopes, or leave theirs open."""
    made: dict[str, Definition] = dict(module.definitions)
    for name, d in module.definitions.items():
        if isinstance(d, PrimFunc):
            out = SCOPES[pick(3)]
            scopes = [SCOPES[pick(3)] if i < len(d.inputs) else out for i in range(len(d.params))]
            new = {b: Buffer(b.name, b.shape, b.dtype, s, b.notes) for b, s in zip(d.params, scopes, strict=True)}
            mapper = Mapper(buffers=new)
            made[name] = replace(d, params=tuple(new.values()), body=mapper.run(d.body))
    return replace(module, definitions=made)


_KINDS = ((True, False),) * 4 + ((True, True), (False, False), (False, True), (True, False))
"""What an annotation constrains: its operand, its result."""


class _Sprinkler:
    def __init__(self, config: CompilationConfig, pick: Pick, often: int) -> None:
        self.config, self.pick, self.often = config, pick, often
        self.vars: dict[int, Var] = {}

    def device(self) -> VirtualDevice:
        full = self.config.devices[self.pick(len(self.config.devices))]
        match self.pick(8):
            case 0 | 1 | 2 | 3:
                return full
            case 4 | 5:
                return VirtualDevice(full.type)
            case 6:
                return replace(full, scope=SCOPES[1 + self.pick(2)])
            case _:
                return VirtualDevice(scope=SCOPES[1 + self.pick(2)])

    def function(self, root: Function) -> Function:
        made: dict[int, Expr] = {}
        for node in post_order(root):
            made[id(node)] = self.node(node.with_children([self.use(made[id(c)], node) for c in node.children]))
        found = made[id(root)]
        assert isinstance(found, Function)
        return found

    def node(self, node: Expr) -> Expr:
        """A node that says itself where it is, now and then. Variables stay: they are told apart by identity."""
        if isinstance(node, (Var, GlobalVar, Function, Constructor, ExternFunc, ShapeExpr)) or self.pick(
            6 * self.often
        ):
            return node
        return replace(node, device=self.device())

    def use(self, value: Expr, user: Expr) -> Expr:
        """A value as one user sees it: annotated or copied, now and then. What is called stays."""
        if isinstance(value.type, FuncType) or self.pick(self.often):
            return value
        if isinstance(user, Let) and self.pick(2):
            return value
        way = self.pick(8)
        if way == 7 and isinstance(value.type, TensorType):
            return device_copy(value, self.device())
        if not isinstance(value.type, (TensorType, TupleType)) and self.pick(3):
            return value
        body, result = _KINDS[way]
        return OnDevice(value.type, value, self.device(), body, result)
