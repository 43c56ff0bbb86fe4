"""What a module demands of devices: rules D1 to D9 of specs/lower.md, "devices", for one part of a device.

The two parts, place and scope, are demanded apart, so this runs once for each. A *tie* makes two domains one. A *use*
is a value wanted in a domain: where it is elsewhere, a copy of it is made. A *pull* says that two domains had better
be one: what a use pulls together is solved together.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import NamedTuple

from assay.lower.devices.domains import Domains
from assay.lower.devices.scopes import Signature, infer_scopes, open_parameters
from assay.semantics import graph
from assay.semantics.compilation import CompilationConfig
from assay.semantics.devices import ANYWHERE, GLOBAL, VirtualDevice
from assay.semantics.graph.effects import is_copy, is_opaque
from assay.semantics.graph.functions import open_nodes
from assay.semantics.graph.nodes import LEAVES
from assay.semantics.module import Module
from assay.semantics.operator import Operator
from assay.semantics.tensor.copying import DEVICE_COPY
from assay.semantics.types import ShapeType, TensorType, TupleType, Type, flatten
from assay.semantics.walk import post_order


class DevicePart(Enum):
    """The two parts of a device that are planned apart."""

    PLACE = "place"
    SCOPE = "scope"

    def of(self, device: VirtualDevice) -> VirtualDevice:
        """The part of a device."""
        if device is ANYWHERE:
            return device
        return device.place if self is DevicePart.PLACE else VirtualDevice(scope=device.scope)


class Said(NamedTuple):
    """A value of a domain lives there, as a node says."""

    domain: int
    device: VirtualDevice
    node: graph.Expr
    why: str = ""
    """The rule that says it, where nobody wrote it."""


class DomainUse(NamedTuple):
    """The value by this number, of so many tensors, which is in one domain, is wanted in another one."""

    value: int
    tensors: int
    at: int
    wanted: int


class OperandPlace(NamedTuple):
    """An operand: the node, by identity, and the number of its child."""

    node: int
    child: int


@dataclass(eq=False)
class LocalDomains:
    """The domains of one definition: of nodes by identity, and of leaves that are elsewhere at each use."""

    domains: dict[int, int] = field(default_factory=dict)
    leaves: dict[OperandPlace, int] = field(default_factory=dict)
    wanted: dict[OperandPlace, int] = field(default_factory=dict)
    """Where an operand is wanted; one that is not named here is taken where it is."""
    source: dict[OperandPlace, int] = field(default_factory=dict)
    """Where that operand is, copies apart."""
    really: dict[int, tuple[int, int]] = field(default_factory=dict)
    """For annotations, and projections of them, the value and the domain that stand for them where no copy is
    needed."""
    fixed: set[int] = field(default_factory=set)
    """The annotations that hold for both sides."""


@dataclass(eq=False)
class Constraints:
    """All that a module demands of one part of devices. `apart` are the operands, by definition, that are copied to
    another place anyway: they demand nothing of the scope."""

    module: Module
    config: CompilationConfig
    part: DevicePart
    apart: Mapping[str, set[OperandPlace]] = field(default_factory=dict)
    domains: Domains = field(default_factory=Domains)
    said: list[Said] = field(default_factory=list)
    uses: list[DomainUse] = field(default_factory=list)
    pulls: list[tuple[int, int]] = field(default_factory=list)
    busy: list[int] = field(default_factory=list)
    """The domains of what is computed, or given by a function: the host's looking at it does not move it."""
    local: dict[str, LocalDomains] = field(default_factory=dict)
    globals: dict[str, int] = field(default_factory=dict)
    tensors: Tensors = field(default_factory=lambda: Tensors())
    scopes: dict[str, Signature] = field(default_factory=dict)
    """The scopes of the parameters of tensor functions that leave some open, as far as their bodies say."""
    _values: dict[object, int] = field(default_factory=dict)
    _here: LocalDomains = field(default_factory=LocalDomains)
    _apart: set[OperandPlace] = field(default_factory=set)
    looks: int = -1
    """Where the host looks at values."""

    def __post_init__(self) -> None:
        self.looks = self.domains.new()
        if self.part is DevicePart.SCOPE and any(map(open_parameters, self.module.kernels.values())):
            self.scopes = infer_scopes(self.module.kernels)
        functions = dict(sorted(self.module.graphs.items()))
        for name, d in functions.items():
            self.globals[name] = self.domains.of_type(d.type)
            self.said = [Said(self.looks, self.host, d, "what the host looks at is on the host")]
        for name, d in functions.items():
            self._here = self.local[name] = LocalDomains()
            self._apart = self.apart.get(name, set())
            order = open_nodes(d)
            self._find_fixed(order)
            for node in order:
                self._node(node)
                for i, child in enumerate(node.children):
                    if isinstance(child, LEAVES) and self.is_floating(child):
                        self._operand(node, i)
            self._tie(self.globals[name], self._here.domains[id(d)], "a function and its name", d)

    @property
    def host(self) -> VirtualDevice:
        """The part of the host's device that is constrained here: its place, or the global scope."""
        return self.config.host.place if self.part is DevicePart.PLACE else VirtualDevice(scope=GLOBAL)

    # --- the words in which the rules are said ---

    def _tie(self, a: int, b: int, why: str, node: graph.Expr) -> None:
        self.domains.tie(a, b, why, node)

    def _say(self, domain: int, device: VirtualDevice, node: graph.Expr, why: str = "") -> None:
        wanted = self.part.of(device)
        if wanted != ANYWHERE:
            self.said.append(Said(self.domains.home(domain), wanted, node, why))

    def _value(self, *key: object) -> int:
        return self._values.setdefault((id(self._here), *key), len(self._values))

    def _of(self, node: graph.Expr) -> int:
        """The domain of a node that was met before, or of a variable."""
        known = self._here.domains
        if id(node) not in known:
            known[id(node)] = self.domains.of_type(node.type)
            self._say(known[id(node)], node.device, node)
            if isinstance(node.type, ShapeType):
                self._say(known[id(node)], self.host, node, "a shape lives on the host")
        return known[id(node)]

    def is_floating(self, node: graph.Expr) -> bool:
        """Whether a leaf is where it is used, at each use anew: a constant that is not placed, and what is outside."""
        match node:
            case graph.Constant():
                return self.part.of(node.device) == ANYWHERE
            case graph.GlobalVar() if node.name in self.module.constants:
                return self.part.of(self.constant(node)) == ANYWHERE
            case graph.ExternFunc() | graph.Constructor():
                return True
            case _:
                return False

    def constant(self, node: graph.GlobalVar) -> VirtualDevice:
        """Where a constant of the table is said to be, by the node and by the table."""
        return node.device.join(self.module.info(node.name).device) or node.device

    def _operand(self, node: graph.Expr, index: int) -> int:
        """The domain of a child."""
        child = node.children[index]
        if not self.is_floating(child):
            return self._of(child)
        at = OperandPlace(id(node), index)
        if at not in self._here.leaves:
            outside = isinstance(child, (graph.ExternFunc, graph.Constructor))
            self._here.leaves[at] = self.domains.new() if outside else self.domains.of_type(child.type)
            self._say(self._here.leaves[at], child.device, child)
        return self._here.leaves[at]

    def _use(self, node: graph.Expr, index: int, wanted: int, why: str, pulls: bool = True) -> None:
        """`node` wants a child in a domain: copied there if it can be and must be."""
        child = node.children[index]
        at, tensors = self._operand(node, index), self.tensors(child.type)
        if tensors is None or self.is_floating(child):
            self._tie(at, wanted, why, node)
            return
        self._demand(node, index, wanted)
        if pulls and OperandPlace(id(node), index) not in self._apart:
            self.pulls.append((at, wanted))

    def _demand(self, node: graph.Expr, index: int, wanted: int) -> None:
        """A child is copied where it is not where it is wanted. What is copied is not an annotation, but its
        operand."""
        child, place = node.children[index], OperandPlace(id(node), index)
        value, really = self._here.really.get(id(child)) or (
            self._value(place) if self.is_floating(child) else self._numbered(child),
            self._operand(node, index),
        )
        self._here.wanted[place], self._here.source[place] = wanted, really
        if place not in self._apart:
            self.uses.append(DomainUse(value, self.tensors(child.type) or 0, really, wanted))

    def _numbered(self, of: graph.Expr) -> int:
        """The number of a value: two projections of one value at one index are one, however often they are written."""
        steps: list[int] = []
        while isinstance(of, graph.TupleGetItem) and id(of.value) not in self._here.really:
            steps.append(of.index)
            of = of.value
        number = self._value(id(of))
        for index in reversed(steps):
            number = self._value(number, index)
        return number

    def _same(self, node: graph.Expr, index: int, domain: int, why: str) -> None:
        """A child is where `domain` is; a copy is made only behind an annotation that lets one stand there, in one part
        of devices or in the other."""
        child = node.children[index]
        at = self._operand(node, index)
        self._tie(domain, at, why, node)
        if id(child) in self._here.really or (
            isinstance(child, graph.OnDevice) and self.tensors(child.type) is not None
        ):
            self._demand(node, index, at)

    # --- rules ---

    def _find_fixed(self, order: list[graph.Expr]) -> None:
        """A user's annotation of what a let names, or of what a function gives, holds for both sides."""
        for node in order:
            match node:
                case graph.Let():
                    value = node.value
                case graph.Function() if not is_opaque(node):
                    value = _given(node)
                case _:
                    continue
            if isinstance(value, graph.OnDevice) and value.constrain_body:
                self._here.fixed.add(id(value))

    def _node(self, node: graph.Expr) -> None:  # noqa: C901  (a case for each kind of node)
        if self.is_floating(node):
            return
        match node:
            case graph.GlobalVar() if node.name in self.globals:
                self._here.domains[id(node)] = self.globals[node.name]
                self._say(self.globals[node.name], node.device, node)
                return
            case graph.GlobalVar() if node.name in self.module.constants:
                self._say(self._of(node), self.constant(node), node)
            case graph.Function():
                self._function(node)
                return
        here = self._of(node)
        match node:
            case graph.OnDevice():
                self._annotation(node, here)
            case graph.Let():
                self._same(node, 0, self._of(node.var), "a variable and its value")
                self._same(node, 1, here, "a let and its body")
            case graph.TupleGetItem():
                self._projection(node, here)
            case graph.MatchCast():
                if isinstance(node.type, ShapeType) and not isinstance(node.value.type, ShapeType):
                    self._looks(node, 0)
                else:
                    self._same(node, 0, here, "a value and what it is matched with")
            case graph.Tuple():
                for i in range(len(node.fields)):
                    self._use(node, i, here, "a tuple and its fields")
            case graph.RefCreate():
                self._use(node, 0, here, "a reference and its content")
            case graph.RefRead():
                self._same(node, 0, here, "a reference and its content")
            case graph.RefWrite():
                self._use(node, 1, self._operand(node, 0), "a reference and its content")
            case graph.If():
                self._looks(node, 0)
                for i in (1, 2):
                    self._use(node, i, here, "an if and its branches")
            case graph.Match():
                for c in node.clauses:
                    for v in c.vars:
                        self._same(node, 0, self._of(v), "what is matched and its parts")
                for i in range(1, len(node.clauses) + 1):
                    self._use(node, i, here, "a match and its clauses")
            case graph.Print() | graph.AssertOp():
                for i in range(len(node.children)):
                    self._looks(node, i)
            case graph.CallTIR():
                self._call_tir(node, here)
            case graph.Call() if isinstance(node.op, Operator):
                self._operator(node, node.op, here)
            case graph.Call():
                self._call(node, here)
            case graph.Var() | graph.Constant() | graph.GlobalVar() | graph.ShapeOf() | _:
                pass

    def _looks(self, node: graph.Expr, index: int) -> None:
        """The host looks at a value (D7). That does not pull what the value is computed from to the host
        (rule M8.6)."""
        if self.is_floating(node.children[index]):
            self._say(self._operand(node, index), self.host, node, "what the host looks at is on the host")
            return
        self._use(node, index, self.looks, "what the host looks at", pulls=False)

    def _annotation(self, node: graph.OnDevice, here: int) -> None:
        inside = self._operand(node, 0)
        body, result = node.constrain_body, node.constrain_result
        if body:
            self._say(inside, node.wanted, node)
        if result:
            self._say(here, node.wanted, node)
        leaf = self.is_floating(node.value)
        anywhere = leaf and not (body and self.part.of(node.wanted) != ANYWHERE)
        if (body and result) or anywhere or id(node) in self._here.fixed or self.tensors(node.type) is None:
            self._same(node, 0, here, "an annotation and its operand")
            return
        really = self._here.really
        value = self._value(id(node) if leaf else id(node.value))
        if id(node.value) in really and not body:
            really[id(node)] = really[id(node.value)]
        else:
            if id(node.value) in really:  # an annotation of an annotation: there the copy stands
                self._demand(node, 0, inside)
                value = self._value(id(node))
            really[id(node)] = value, inside
        if not body and not result:
            self.pulls.append((inside, here))

    def _projection(self, node: graph.TupleGetItem, here: int) -> None:
        self._tie(here, self._operand(node, 0), "a projection and its tuple", node)
        if id(node.value) not in self._here.really:
            return
        value, really = self._here.really[id(node.value)]
        value = self._value(value, node.index)
        if node.device == ANYWHERE:
            self._here.really[id(node)] = value, really
        else:  # it says itself where it is: the copy stands behind it
            self.uses.append(DomainUse(value, self.tensors(node.type) or 0, really, here))

    def _operator(self, node: graph.Call, op: Operator, here: int) -> None:
        if op.name != DEVICE_COPY:
            self.busy.append(here)
        for i in range(len(node.args)):
            if op.name == DEVICE_COPY:
                if self.is_floating(node.args[i]):
                    self._tie(self._operand(node, i), here, "a constant and its copy", node)
            elif self.part is DevicePart.PLACE or op.view:
                self._use(node, i, here, f"{op.name} and its operands")

    def _call(self, node: graph.Call, here: int) -> None:
        callee = self._operand(node, 0)
        if isinstance(node.op, graph.ExternFunc):
            self.busy.append(here)
        for i in range(len(node.args)):
            self._use(node, i + 1, self.domains.param(callee, i), "an argument and its parameter")
        result = "the result of a local function, where one of the module would get an instance for each device"
        of = result if isinstance(node.op, graph.Var) else "the function's result"
        self._tie(here, self.domains.result(callee), f"a call and {of}", node)

    def _call_tir(self, node: graph.CallTIR, here: int) -> None:
        kernel = self.module.kernel(node.func)
        if is_copy(node, self.module):
            return
        self.busy.append(here)
        if self.part is DevicePart.PLACE:
            for i in range(len(node.args)):
                self._use(node, i, here, f"{node.func} and its operands")
            return
        scopes = self.scopes.get(node.func, [b.scope for b in kernel.params])
        buffers = iter(zip(kernel.params, scopes, strict=True))
        for i, a in enumerate(node.args):
            own = [b for _, b in zip(flatten(a.type), buffers, strict=False)]
            if any(scope for _, scope in own):
                wanted = self.domains.new()
                for _, scope in own:
                    self._say(wanted, VirtualDevice(scope=scope), node)
                self._use(node, i, wanted, f"{node.func} and its parameter {own[0][0].name}")
        for _, scope in buffers:
            self._say(here, VirtualDevice(scope=scope), node)

    def _function(self, node: graph.Function) -> None:
        params = [self._of(p) for p in node.params]
        result = self.domains.of_type(node.func_type.result)
        made = self.domains.function(node.func_type, params, result)
        self._here.domains[id(node)] = made
        if is_opaque(node):  # D9: it runs at one place, and its body is not looked at
            self._say(result, node.body.device, node)
            if self.part is DevicePart.PLACE:
                for p in params:
                    self._tie(
                        self.domains.home(p),
                        self.domains.home(result),
                        "what a primitive function takes and gives",
                        node,
                    )
        elif id(_given(node)) in self._here.fixed:
            self._same(node, 0, result, "a function's result and its body")
        else:
            self._use(node, 0, result, "a function's result and its body")
        self.busy.append(self.domains.home(result))
        self._say(made, node.device, node)


def _given(function: graph.Function) -> graph.Expr:
    """What a function gives: its body, behind lets."""
    return graph.let_chain(function.body)[1]


class Tensors:
    """How many tensors a value of a type is made of; None for what cannot be copied: all but tensors and tuples of
    tensors. Each part of a type is looked at once (rule M8.7)."""

    def __init__(self) -> None:
        self._known: dict[int, tuple[Type, int | None]] = {}

    def __call__(self, of: Type) -> int | None:
        """Count the tensors of a type, remembering each type seen; None if it cannot be copied."""
        if isinstance(of, TensorType):
            return 1
        if id(of) not in self._known:
            root: Type = of
            for t in post_order(root, self._parts):
                counts = [self._known[id(p)][1] for p in self._parts(t, True)]
                whole = None if None in counts else sum(c or 0 for c in counts)
                count = 1 if isinstance(t, TensorType) else whole if isinstance(t, TupleType) else None
                self._known[id(t)] = (t, count)
        return self._known[id(of)][1]

    def _parts(self, of: Type, known: bool = False) -> tuple[Type, ...]:
        if not isinstance(of, TupleType) or (not known and id(of) in self._known):
            return ()
        return of.fields
