"""What a module demands of devices, derived from the source once more (rules D1 to D9; specs/verify.md, "devices").

A device has two parts that are demanded apart: the place (type, id, target) and the scope. A demand is either firm, two
values are at one, or a use: a value is wanted somewhere, and is copied there if it is elsewhere. Most uses pull: what
they connect is one component, in which all is the same unless the source contradicts itself.
"""

from __future__ import annotations

from collections.abc import Mapping, Set
from dataclasses import dataclass, field
from typing import Literal, TypeAlias

from assay.semantics import graph
from assay.semantics.compilation import CompilationConfig
from assay.semantics.devices import ANYWHERE, GLOBAL, VirtualDevice
from assay.semantics.graph.effects import is_copy, is_opaque
from assay.semantics.graph.functions import open_nodes
from assay.semantics.graph.nodes import bound_by
from assay.semantics.module import Module
from assay.semantics.operator import Operator
from assay.semantics.sets import DisjointSets
from assay.semantics.tensor import Alias, Block, Buffer, Call as TensorCall, PrimFunc, program_order
from assay.semantics.types import ShapeType, TensorType, TupleType, Type, flatten
from assay.semantics.walk import post_order
from assay.verify.devices.annotations import Broken
from assay.verify.devices.cells import DeviceCells, Domain, result

Part: TypeAlias = Literal["place", "scope"]


@dataclass(frozen=True)
class WantedValue:
    """A value, named by `key`, of so many tensors, is wanted where the cell `wanted` is; it is where `at` is. `place`
    is the operand: the node that wants it, by identity, and the number of its child."""

    key: tuple[int, ...]
    tensors: int
    at: int
    wanted: int
    place: tuple[int, int]


@dataclass(eq=False)
class Demands:
    """All that a module demands of one part of devices. What is in `apart`, operands, is copied anyway: they demand
    nothing."""

    module: Module
    config: CompilationConfig
    part: Part
    apart: Set[tuple[int, int]] = frozenset()
    cells: DeviceCells = field(default_factory=DeviceCells)
    domains: dict[int, Domain] = field(default_factory=dict)
    uses: list[WantedValue] = field(default_factory=list)
    pulls: list[tuple[int, int]] = field(default_factory=list)
    """Cells that had better be one."""
    seen: set[int] = field(default_factory=set)
    """Cells at which the host looks."""
    made: set[int] = field(default_factory=set)
    """Cells of what is computed, and of what functions give."""
    held: set[int] = field(default_factory=set)
    """Annotations on both sides of which a value is in one place."""
    constants: dict[int, Domain] = field(default_factory=dict)
    """Where a constant is that nobody placed, at each annotation of it."""
    broken: list[Broken] = field(default_factory=list)
    inner: dict[str, list[str]] = field(default_factory=dict)
    counts: dict[int, tuple[Type, int | None]] = field(default_factory=dict)
    """Types that were met, with how many tensors they are."""

    def __post_init__(self) -> None:
        for d in self.module.definitions.values():
            if isinstance(d, graph.Function):
                self.function(d)

    def of(self, device: VirtualDevice) -> VirtualDevice:
        """The part of a device that is looked at."""
        return device.place if self.part == "place" else VirtualDevice(scope=device.scope)

    @property
    def default(self) -> VirtualDevice:
        """Where a value is of which nothing is said."""
        return self.config.default.place if self.part == "place" else VirtualDevice(scope=GLOBAL)

    def whole(self, said: VirtualDevice) -> VirtualDevice:
        """What is said of a part, filled in."""
        return self.of(self.config.canonical(said))

    @property
    def host(self) -> VirtualDevice:
        """Where the host is."""
        return self.config.host.place if self.part == "place" else VirtualDevice(scope=GLOBAL)

    # --- where things are ---

    def domain(self, of: graph.Expr) -> Domain:
        """The domain of an expression, made on first use with what its node or type says."""
        if isinstance(of, graph.GlobalVar) and isinstance(
            target := self.module.definitions.get(of.name), graph.Function
        ):
            self.said(of, self.domain(target), of.device)
            return self.domain(target)
        if id(of) not in self.domains:
            self.domains[id(of)] = self.cells.fresh(of.type)
            self.said(of, self.domains[id(of)], self.written(of))
            if isinstance(of.type, ShapeType):
                self.said(of, self.domains[id(of)], self.host)
        return self.domains[id(of)]

    def written(self, of: graph.Expr) -> VirtualDevice:
        """What a node says of its value; of a constant of the table, the table too."""
        stored = self.module.info(of.name).device if isinstance(of, graph.GlobalVar) else ANYWHERE
        return of.device.join(stored) or of.device

    def said(self, node: graph.Expr, domain: Domain, device: VirtualDevice) -> None:
        """A value is on a device; of a function, its result is."""
        self.firm(node, result(domain), self.cells.cell(self.of(device)))

    def firm(self, node: graph.Expr, a: Domain, b: Domain) -> None:
        """Unite two domains; a contradiction is noted as broken."""
        wrong = self.cells.unite(a, b)
        if wrong is not None:
            what = f"{graph.show_head(node)} is on {wrong[0]} and on {wrong[1]}"
            self.broken.append(Broken("contradiction", what, node.span))

    def one(self, node: graph.Expr, index: int, domain: Domain) -> None:
        """A child of `node` is where `domain` is. Behind an annotation it may be a copy."""
        child = node.children[index]
        if not self.is_anywhere(child):
            self.firm(node, self.domain(child), domain)
            if isinstance(child, (graph.OnDevice, graph.TupleGetItem)) and self.tensors(child.type) is not None:
                self.wanted(node, index, domain)

    def use(self, node: graph.Expr, index: int, wanted: Domain, pulls: bool = True) -> None:
        """`node` wants a child somewhere."""
        child = node.children[index]
        if self.is_anywhere(child):
            return
        if not isinstance(wanted, int) or self.tensors(child.type) is None:
            self.firm(node, self.domain(child), wanted)
            return
        self.wanted(node, index, wanted)
        at = self.domain(child)
        if pulls and (id(node), index) not in self.apart and isinstance(at, int):
            self.pulls.append((at, wanted))

    def wanted(self, node: graph.Expr, index: int, wanted: Domain) -> None:
        """Note that an operand is used at a place, unless it is copied anyway."""
        child = node.children[index]
        key, at = self.real(child)
        if (id(node), index) not in self.apart and isinstance(at, int) and isinstance(wanted, int):
            self.uses.append(WantedValue(key, self.tensors(child.type) or 0, at, wanted, (id(node), index)))

    def real(self, of: graph.Expr) -> tuple[tuple[int, ...], Domain]:
        """The value that is copied where `of` is wanted, by a name for it, and where it is: not an annotation, but what
        it is about. Equal projections of one value are one value."""
        steps: list[int] = []
        value, top = of, of
        while True:
            if isinstance(value, graph.OnDevice) and id(value) not in self.held:
                if id(value) in self.constants:
                    return (id(value), *reversed(steps)), self.constants[id(value)]
                top = value = value.value
            elif isinstance(value, graph.TupleGetItem):
                steps.append(value.index)
                value = value.value
            else:
                return (id(value), *reversed(steps)), self.domain(top)

    def is_anywhere(self, value: graph.Expr) -> bool:
        """Whether a value is a constant that is not placed: it is one wherever it is used."""
        named = isinstance(value, graph.GlobalVar) and value.name in self.module.constants
        return (named or isinstance(value, graph.Constant)) and self.of(self.written(value)) == ANYWHERE

    # --- rules ---

    def function(self, root: graph.Function) -> None:
        """Note the demands of all nodes of a function."""
        order = open_nodes(root)
        for node in order:
            self.hold(node)
        for node in order:
            for v in bound_by(node):
                self.domain(v)
            if not self.is_anywhere(node) and not isinstance(node, (graph.ExternFunc, graph.Constructor)):
                self.node(node, self.domain(node))

    def hold(self, node: graph.Expr) -> None:
        """A user's annotation of all that a let names, or that a function gives, holds for both sides of it."""
        value: graph.Expr | None = None
        match node:
            case graph.Let():
                value = node.value
            case graph.Function() if not is_opaque(node):
                value = given(node)
            case graph.OnDevice():
                if (node.constrain_body and node.constrain_result) or self.tensors(node.type) is None:
                    self.held.add(id(node))
                if self.is_anywhere(node.value):  # it is where it is wanted, but where the annotation says where it is
                    self.constants[id(node)] = self.cells.fresh(node.type)
                    if not node.constrain_body or self.of(node.wanted) == ANYWHERE:
                        self.held.add(id(node))
            case _:
                pass
        if isinstance(value, graph.OnDevice) and value.constrain_body:
            self.held.add(id(value))

    def node(self, node: graph.Expr, domain: Domain) -> None:
        """Note the demands of one node, whose value is where `domain` says."""
        match node:
            case graph.OnDevice():
                self.annotation(node, domain)
            case graph.Function() if is_opaque(node):
                self.said(node, domain, node.body.device)
                self.made.add(result(domain))
                for p in node.params if self.part == "place" else ():
                    self.firm(node, result(self.domain(p)), result(domain))
                self.firm(node, domain, (*map(self.domain, node.params), self.cells.fresh(node.result_type)))
            case graph.Function():
                here = self.cells.fresh(node.result_type)
                self.made.add(result(here))
                if is_annotated(given(node)):
                    self.one(node, 0, here)
                else:
                    self.use(node, 0, here)
                self.firm(node, domain, (*map(self.domain, node.params), here))
            case graph.Let():
                self.one(node, 0, self.domain(node.var))
                self.one(node, 1, domain)
            case graph.TupleGetItem():
                self.firm(node, self.domain(node.value), domain)
            case graph.MatchCast():
                if isinstance(node.type, ShapeType) and not isinstance(node.value.type, ShapeType):
                    self.looked_at(node)
                else:
                    self.one(node, 0, domain)
            case graph.Tuple() | graph.RefCreate():
                self.all_at(node, domain)
            case graph.RefRead():
                self.one(node, 0, domain)
            case graph.RefWrite():
                self.use(node, 1, self.domain(node.ref))
            case graph.If():
                self.looked_at(node, 1)
                self.use(node, 1, domain)
                self.use(node, 2, domain)
            case graph.Match():
                for v in bound_by(node):
                    self.one(node, 0, self.domain(v))
                self.all_at(node, domain, first=1)
            case graph.Print() | graph.AssertOp():
                self.looked_at(node)
            case graph.CallTIR():
                self.tensor_call(node, domain)
            case graph.Call():
                self.call(node, domain)
            case _:
                pass

    def all_at(self, node: graph.Expr, domain: Domain, first: int = 0) -> None:
        """The node wants all children, from the one numbered `first` on, where `domain` is."""
        for i in range(first, len(node.children)):
            self.use(node, i, domain)

    def looked_at(self, node: graph.Expr, first: int | None = None) -> None:
        """The host looks at values, all or the `first`, in its main memory. What computes them need not be there."""
        for i in range(len(node.children[:first])):
            host = self.cells.cell(self.host)
            self.seen.add(host)
            self.use(node, i, host, pulls=False)

    def annotation(self, node: graph.OnDevice, domain: Domain) -> None:
        """Note what an annotation says of the value inside, of its own value, or of both."""
        inner = self.constants[id(node)] if id(node) in self.constants else self.domain(node.value)
        if node.constrain_body:
            self.said(node, inner, node.wanted)
        if node.constrain_result:
            self.said(node, domain, node.wanted)
        if id(node) in self.held:
            self.one(node, 0, domain)
            self.firm(node, inner, domain)
        elif (
            not node.constrain_body and not node.constrain_result and isinstance(inner, int) and isinstance(domain, int)
        ):
            self.pulls.append((inner, domain))

    def call(self, node: graph.Call, domain: Domain) -> None:
        """Note the demands of a call: operands where the callee's parameters are, the result where its result is."""
        if isinstance(node.op, (Operator, graph.ExternFunc)) and not is_copy(node, self.module):
            self.made.add(result(domain))
        if isinstance(node.op, Operator):
            if not is_copy(node, self.module) and (self.part == "place" or node.op.view):
                self.all_at(node, domain)
            return
        callee = result(domain) if isinstance(node.op, (graph.ExternFunc, graph.Constructor)) else self.domain(node.op)
        if isinstance(callee, int):  # all of what is outside, or comes out of a tuple, is in one place
            self.firm(node, callee, domain)
            for i in range(len(node.args)):
                self.use(node, i + 1, callee)
            return
        self.firm(node, callee[-1], domain)
        for i in range(len(node.args)):
            self.use(node, i + 1, callee[i])

    def tensor_call(self, node: graph.CallTIR, domain: Domain) -> None:
        """Note the demands of a call of a tensor function: one place for all, or the scopes of its parameters."""
        if is_copy(node, self.module):
            return
        self.made.add(result(domain))
        if self.part == "place":
            self.all_at(node, domain)
            return
        scopes = iter(self.scopes(node.func))
        for i, a in enumerate(node.args):
            said = [s for s in [next(scopes) for _ in flatten(a.type)] if s]
            for s in dict.fromkeys(said):
                self.use(node, i, self.cells.cell(VirtualDevice(scope=s)))
        for s in scopes:
            self.said(node, domain, VirtualDevice(scope=s))

    def scopes(self, name: str) -> list[str]:
        """The scopes of a tensor function's parameters; empty where they are open, even by what its body says."""
        if not self.inner:
            self.inner = scopes_inside(self.module.kernels)
        return self.inner[name]

    # --- what follows ---

    def components(self) -> list[list[int]]:
        """The cells, one of each class, in the components that attracting uses make of them."""
        sets = DisjointSets[int]()
        for a, b in self.pulls:
            sets.join(self.cells.find(a), self.cells.find(b))
        return sets.classes(dict.fromkeys(map(self.cells.find, range(len(self.cells.above)))))

    def settled(self, component: list[int]) -> VirtualDevice | None:
        """Where all of a component is, as far as the source says it: None if it says different things."""
        all_: VirtualDevice | None = ANYWHERE
        for c in component:
            all_ = None if all_ is None else all_.join(self.cells.at(c))
        return all_

    def shown_only(self, components: list[list[int]]) -> set[int]:
        """The numbers of the components that are there for the host to look at, and for nothing else: what leaves them
        is looked at, and nothing is computed in them."""
        number = {c: i for i, cells in enumerate(components) for c in cells}
        ends = [(number[self.cells.find(u.at)], u.wanted) for u in self.uses]
        leaves_ = {i for i, w in ends if w not in self.seen and number[self.cells.find(w)] != i}
        return {i for i, w in ends if w in self.seen} - leaves_ - {number[self.cells.find(c)] for c in self.made}

    def tensors(self, of: Type) -> int | None:
        """How many tensors a value of a type is made of; None where it cannot be copied from one device to another, for
        it is no tensor or tuple of tensors. Each part of a type is looked at once."""
        known, root = self.counts, of
        if isinstance(of, TensorType):
            return 1
        if id(of) not in known:
            for t in post_order(root, lambda t: t.fields if isinstance(t, TupleType) and id(t) not in known else ()):
                if id(t) not in known:
                    parts = [known[id(p)][1] for p in t.fields] if isinstance(t, TupleType) else []
                    whole = None if None in parts or not isinstance(t, TupleType) else sum(p or 0 for p in parts)
                    known[id(t)] = t, 1 if isinstance(t, TensorType) else whole
        return known[id(of)][1]

    def cell_of(self, node: graph.Expr) -> int | None:
        """The class of a value; None of a function, and of what the source does not have."""
        domain = self.domains.get(id(node))
        return self.cells.find(domain) if isinstance(domain, int) else None


def given(function: graph.Function) -> graph.Expr:
    """What is behind the lets of a function's body."""
    return graph.let_chain(function.body)[1]


def is_annotated(node: graph.Expr) -> bool:
    """Whether a node is an annotation of its operand."""
    return isinstance(node, graph.OnDevice) and node.constrain_body


def scopes_inside(kernels: Mapping[str, PrimFunc]) -> dict[str, list[str]]:
    """The scopes of the parameters of tensor functions: what they say, else what is said of a view of them, else what a
    function says to which they are handed. Asked again until nothing is new."""
    found = {name: [b.scope for b in k.params] for name, k in kernels.items()}
    open_ = [name for name, scopes in found.items() if "" in scopes]
    changed = bool(open_)
    while changed:
        changed = False
        for name in open_:
            root: dict[Buffer, int] = {b: i for i, b in enumerate(kernels[name].params)}
            for stmt in program_order(kernels[name].body):
                said: list[tuple[Buffer, str]] = []
                views = (stmt.view,) if isinstance(stmt, Alias) else stmt.views if isinstance(stmt, Block) else ()
                for v in views:
                    if v.source in root:
                        root[v.buffer] = root[v.source]
                        said.append((v.buffer, v.buffer.scope))
                if isinstance(stmt, TensorCall) and stmt.function in found:
                    said += zip(stmt.buffers, found[stmt.function], strict=False)
                for b, scope in said:
                    if scope and b in root and not found[name][root[b]]:
                        found[name][root[b]] = scope
                        changed = True
    return found
