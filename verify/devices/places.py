"""Every operand is where its consumer runs: rules D1 to D9, as conditions on a planned module (specs/verify.md,
"devices").

In a planned module every value has its device written on it, so that each rule is a comparison of two neighbours. Only
of a function that is a value it is not written where its parameters are: those are found by uniting what is one.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from assay.semantics import graph
from assay.semantics.bits import digest
from assay.semantics.compilation import CompilationConfig
from assay.semantics.devices import GLOBAL, VirtualDevice
from assay.semantics.errors import Crash
from assay.semantics.graph.effects import is_copy, is_opaque
from assay.semantics.graph.functions import open_nodes
from assay.semantics.graph.nodes import bound_by
from assay.semantics.graph.scopes import function_scopes
from assay.semantics.module import Module
from assay.semantics.operator import Operator
from assay.semantics.types import FuncType, ShapeType, flatten
from assay.verify.devices.annotations import Broken
from assay.verify.devices.cells import DeviceCells, Domain


def misplaced_values(module: Module, config: CompilationConfig) -> Iterator[Broken]:
    """The rules that a planned module breaks, with the nodes that do."""
    check = _Conditions(module, config)
    for d in module.definitions.values():
        if isinstance(d, graph.Function):
            yield from check.function(d)
    yield from check.broken


@dataclass(eq=False)
class _Conditions:
    module: Module
    config: CompilationConfig
    cells: DeviceCells = field(default_factory=DeviceCells)
    domains: dict[int, Domain] = field(default_factory=dict)
    broken: list[Broken] = field(default_factory=list)

    @property
    def host(self) -> VirtualDevice:
        """Where the host is, in its main memory."""
        return self.config.host.default(VirtualDevice(scope=GLOBAL))

    def domain(self, of: graph.Expr) -> Domain:
        """Where a value is. That of a function is written on it for its result; its parameters have cells of their
        own."""
        if isinstance(of, graph.GlobalVar) and isinstance(
            target := self.module.definitions.get(of.name), graph.Function
        ):
            of = target
        if not isinstance(of.type, FuncType):
            return self.cells.cell(of.device)
        if id(of) not in self.domains:
            self.domains[id(of)] = self.cells.fresh(of.type, of.device)
        return self.domains[id(of)]

    def same(self, a: Domain, b: Domain, verdict: str, detail: str, node: graph.Expr) -> None:
        """Two domains are one, or `verdict` is broken."""
        wrong = self.cells.unite(a, b)
        if wrong is not None:
            what = f"{graph.show_head(node)}: {detail}: {wrong[0]} and {wrong[1]}"
            self.broken.append(Broken(verdict, what, node.span))

    def one(self, a: graph.Expr, b: graph.Expr, verdict: str, detail: str, node: graph.Expr) -> None:
        self.same(self.domain(a), self.domain(b), verdict, detail, node)

    # --- rules ---

    def function(self, root: graph.Function) -> Iterator[Broken]:
        copies: dict[tuple[object, ...], graph.Expr] = {}
        scopes = function_scopes(root)
        order = open_nodes(root)
        named = {id(n.value) for n in order if isinstance(n, graph.Let)}
        for node in order:
            for n in (*bound_by(node), node):
                if not n.device.is_full:
                    yield Broken("open", f"{graph.show_head(n)} is on {n.device}, which leaves something open", n.span)
            if isinstance(node, graph.OnDevice):
                yield Broken("left", f"{graph.show_head(node)}: an annotation is left", node.span)
            if is_copy(node, self.module):
                (of,) = node.children
                if of.device == node.device:
                    yield Broken("idle copy", f"{graph.show_head(node)}: from {of.device} to where it is", node.span)
                owner = scopes.owner.get(id(node))
                other = copies.setdefault((*_value(of), of.device, node.device, id(owner)), node)
                if other is not node and not {id(other), id(node)} <= named:  # a let keeps its own
                    yield Broken("double copy", f"{graph.show_head(of)} is copied twice to {node.device}", node.span)
            else:
                yield from self.local(node)

    def local(self, node: graph.Expr) -> Iterator[Broken]:  # noqa: C901  (a case for each kind of node)
        if isinstance(node.type, ShapeType) and node.device != self.host:
            what = f"{graph.show_head(node)} is a shape on {node.device}; shapes are on {self.host}"
            yield Broken("host", what, node.span)
        match node:
            case graph.OnDevice() | graph.ShapeOf():
                pass  # the one is broken anyway, the other does not look into its operand
            case graph.Function() if is_opaque(node):
                for p in node.params:
                    if p.device.place != node.device.place:
                        what = f"{p.name} of a primitive function on {node.device} is on {p.device}"
                        yield Broken("function", what, node.span)
                written: Domain = (*map(self.domain, node.params), self.cells.fresh(node.result_type, node.device))
                self.same(self.domain(node), written, "function", "what it is and its parts", node)
            case graph.Function():
                self.same(self.domain(node), self.written(node), "function", "what it is and its parts", node)
            case graph.Let():
                self.one(node.var, node.value, "let", f"variable {node.var.name} and its value", node)
                self.one(node, node.body, "let", "it and its body", node)
            case graph.TupleGetItem():
                self.one(node, node.value, "projection", "the field and the tuple", node)
            case graph.MatchCast() if isinstance(node.type, ShapeType) and not isinstance(node.value.type, ShapeType):
                yield from self.on_host(node, (node.value,))
            case graph.MatchCast():
                self.one(node, node.value, "match_cast", "it and its operand", node)
            case graph.Tuple():
                for i, f in enumerate(node.fields):
                    self.one(node, f, "tuple", f"it and its field {i}", node)
            case graph.RefCreate():
                self.one(node, node.value, "reference", "it and its content", node)
            case graph.RefRead():
                self.one(node, node.ref, "reference", "what is read and the reference", node)
            case graph.RefWrite():
                self.one(node.ref, node.value, "reference", "it and what is written", node)
            case graph.If():
                yield from self.on_host(node, (node.condition,))
                self.one(node, node.then, "branch", "it and its first branch", node)
                self.one(node, node.otherwise, "branch", "it and its second branch", node)
            case graph.Match():
                for c in node.clauses:
                    self.one(node, c.body, "branch", "it and a clause", node)
                    for v in c.vars:
                        self.one(v, node.value, "match", f"{v.name} and what is matched", node)
            case graph.Print():
                yield from self.on_host(node, node.values)
            case graph.AssertOp():
                yield from self.on_host(node, node.children)
            case graph.CallTIR():
                yield from self.tensor_call(node)
            case graph.Call() if isinstance(node.op, Operator):
                for i, a in enumerate(node.args):
                    if node.op.view and i == 0 and a.device != node.device:
                        what = f"{graph.show_head(node)} is on {node.device}, its operand on {a.device}"
                        yield Broken("view", what, node.span)
                    elif a.device.place != node.device.place:
                        yield self.far(node, i, a)
            case graph.Call():
                self.call(node)
            case _ if node.children:
                raise Crash(f"no rule for {type(node).__name__}")

    def far(self, node: graph.Expr, index: int, operand: graph.Expr) -> Broken:
        where = f"runs on {node.device.place}, operand {index} is on {operand.device}"
        return Broken("operand", f"{graph.show_head(node)} {where}", node.span)

    def on_host(self, node: graph.Expr, values: Sequence[graph.Expr]) -> Iterator[Broken]:
        for v in values:
            if v.device != self.host:
                what = f"{graph.show_head(node)} looks at a value on {v.device}; the host is {self.host}"
                yield Broken("host", what, node.span)

    def written(self, of: graph.Function) -> Domain:
        """The domain of a function as its parts say it."""
        return (*map(self.domain, of.params), self.domain(of.body))

    def call(self, node: graph.Call) -> None:
        callee = node.op
        assert isinstance(callee, graph.Expr)
        if isinstance(callee, (graph.ExternFunc, graph.Constructor)):
            for i, a in enumerate(node.args):
                self.one(node, a, "tuple", f"it and its field {i}", node)
            return
        found = self.domain(callee)
        assert not isinstance(found, int)
        for i, (p, a) in enumerate(zip(found, node.args, strict=False)):
            self.same(p, self.domain(a), "call", f"parameter and argument {i}", node)
        self.same(found[-1], self.domain(node), "call", "the function's result and the call", node)

    def tensor_call(self, node: graph.CallTIR) -> Iterator[Broken]:
        kernel = self.module.kernel(node.func)
        for i, a in enumerate(node.args):
            if a.device.place != node.device.place:
                yield self.far(node, i, a)
        inside = [a.device.scope for a in node.args for _ in flatten(a.type)]
        made = [node.device.scope for _ in flatten(node.type)]
        for scope, b in zip([*inside, *made], kernel.params, strict=True):
            if b.scope not in ("", scope):
                yield Broken("scope", f"{graph.show_head(node)}: {b.name} is in {b.scope}, given {scope}", node.span)


def _value(of: graph.Expr) -> tuple[object, ...]:
    """What equal values have in common that need not be computed to be equal: constants of one name or of the same
    contents, and projections of one value at one index."""
    steps: list[object] = []
    while isinstance(of, graph.TupleGetItem):
        steps.append(of.index)
        of = of.value
    match of:
        case graph.GlobalVar():
            return of.name, *steps
        case graph.Constant():
            return digest(of.data), *steps
        case _:
            return id(of), *steps
