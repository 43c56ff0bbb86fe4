"""A plan written into the program: a full device on every expression, and copies where two ends differ (specs/lower.md,
"devices")."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from assay.lower.devices.constraints import Constraints, LocalDomains, OperandPlace
from assay.lower.devices.solve import Solution
from assay.semantics import graph
from assay.semantics.bits import digest
from assay.semantics.devices import GLOBAL, VirtualDevice
from assay.semantics.graph import (
    Call,
    Clause,
    Constant,
    Expr,
    Function,
    GlobalVar,
    Let,
    Match,
    OnDevice,
    Tuple,
    TupleGetItem,
    Var,
)
from assay.semantics.graph.effects import is_copy, is_opaque
from assay.semantics.graph.functions import as_function, open_nodes
from assay.semantics.graph.nodes import LEAVES
from assay.semantics.graph.patterns import with_variables
from assay.semantics.names import unused
from assay.semantics.ops import operator
from assay.semantics.tensor.copying import DEVICE_COPY
from assay.semantics.types import TupleType
from assay.semantics.walk import Worklist, rewrite


@dataclass(frozen=True, eq=False)
class Plan:
    """Both parts solved: what is wanted where, and where that is."""

    place: Constraints
    scope: Constraints
    places: Solution
    scopes: Solution
    _devices: dict[tuple[VirtualDevice, str], VirtualDevice] = field(default_factory=dict)

    def at(self, place: int, scope: int) -> VirtualDevice:
        """The full device of a place and a scope, each given by the number of its domain."""
        return self.device(self.places.at(place), self.scopes.at(scope).scope)

    def device(self, place: VirtualDevice, scope: str) -> VirtualDevice:
        """A place and a scope in one: one object for each, as there are few."""
        key = place, scope
        if key not in self._devices:
            self._devices[key] = replace(place, scope=scope)
        return self._devices[key]


def crossing(constraints: Constraints, places: Solution) -> dict[str, set[OperandPlace]]:
    """The operands of each definition that are copied from one place to another."""
    found: dict[str, set[OperandPlace]] = {}
    for name, local in constraints.local.items():
        found[name] = {p for p, wanted in local.wanted.items() if places.at(local.source[p]) != places.at(wanted)}
    return found


def capture(plan: Plan, name: str, function: Function) -> Function:
    """A definition with its part of the plan in it."""
    return _Capture(plan, plan.place.local[name], plan.scope.local[name]).run(function)


@dataclass(eq=False)
class _Capture:
    plan: Plan
    place: LocalDomains
    scope: LocalDomains
    new: dict[int, Expr] = field(default_factory=dict)
    """What stands for each node, where it is; for an annotation, what it annotates."""
    variables: dict[Var, Var] = field(default_factory=dict)
    leaves: dict[tuple[int, VirtualDevice], Expr] = field(default_factory=dict)
    copies: dict[tuple[object, VirtualDevice], Expr] = field(default_factory=dict)
    """What was copied, by the key of what stands for it, and where to."""
    named: set[int] = field(default_factory=set)
    """What lets name, and the copies that are that: two lets never share one, or A-normal form would be lost."""
    active: set[int] = field(default_factory=set)
    """What acts, or has a part that does: it is evaluated where it stands, and only there."""
    projections: dict[tuple[int, int], Expr] = field(default_factory=dict)
    lets: dict[int, Var] = field(default_factory=dict)
    names: set[str] = field(default_factory=set)

    def run(self, function: Function) -> Function:
        order = open_nodes(function)
        self.names = {n.name for n in order if isinstance(n, Var)}
        self.named = {id(n.value) for n in order if isinstance(n, Let)}
        for node in order:
            if self.plan.place.is_floating(node) or self.plan.scope.is_floating(node):
                continue
            self.new[id(node)] = self.node(node)
        return as_function(self.new[id(function)])

    def device(self, node: Expr) -> VirtualDevice:
        """Where the plan has a node."""
        return self.plan.at(self.place.domains[id(node)], self.scope.domains[id(node)])

    def variable(self, var: Var) -> Var:
        if var not in self.variables:
            device = self.device(var)
            self.variables[var] = var if var.device == device else replace(var, device=device)
        return self.variables[var]

    def node(self, node: Expr) -> Expr:
        if isinstance(node, Var):
            return self.variable(node)
        if is_opaque(node):
            assert isinstance(node, Function)
            return self.whole(node)
        if isinstance(node, LEAVES):
            return self.leaf(node, self.device(node))
        parts = [self.operand(node, i) for i in range(len(node.children))]
        if isinstance(node, OnDevice):
            return parts[0]
        made = node.with_children(parts)
        device = parts[0].device if isinstance(node, TupleGetItem) else self.device(node)
        if is_copy(node, self.plan.place.module):
            if parts[0].device == device:
                return parts[0]
            known = self.copies.get((_key(parts[0]), device))
            if known is not None and isinstance(node, Call) and not {id(node), id(known)} <= self.named:
                if id(node) in self.named:
                    self.named.add(id(known))
                return known
        match made:
            case Let():
                made = made if made.var is self.variable(made.var) else replace(made, var=self.variable(made.var))
            case Function():
                made = self.with_params(made)
            case Match():
                own = {v: self.variable(v) for c in made.clauses for v in c.vars}
                if any(v is not w for v, w in own.items()):
                    clauses = tuple(Clause(with_variables(c.pattern, self.variable), c.body) for c in made.clauses)
                    made = replace(made, clauses=clauses)
        made = made if made.device == device else replace(made, device=device)
        if isinstance(node, TupleGetItem):
            made = self.one(node, made, parts[0])
        if not isinstance(made, Function) and (graph.acts(made) or any(id(p) in self.active for p in parts)):
            self.active.add(id(made))
        if isinstance(node, TupleGetItem) and id(node) not in self.place.really:
            return self.copied(made, self.device(node))
        if is_copy(node, self.plan.place.module) and isinstance(node, Call):
            self.copies.setdefault((_key(parts[0]), device), made)
            if id(node) in self.named:
                self.named.add(id(made))
        return made

    def one(self, node: TupleGetItem, made: Expr, value: Expr) -> Expr:
        """The one projection of a value at an index, whoever writes it; but two lets do not share one."""
        known = self.projections.setdefault((id(value), node.index), made)
        if known is made or {id(node), id(known)} <= self.named:
            return made
        if id(node) in self.named:
            self.named.add(id(known))
        return known

    def with_params(self, function: Function) -> Function:
        params = tuple(map(self.variable, function.params))
        return function if _same(params, function.params) else replace(function, params=params)

    def whole(self, function: Function) -> Function:
        """A primitive function says where its parameters and its result are; its body stays."""
        device, function = self.device(function), self.with_params(function)
        body = rewrite(function.body, lambda n: self.variables.get(n, n) if isinstance(n, Var) else n)
        same = function.device == device and body is function.body
        return function if same else replace(function, body=body, device=device)

    def leaf(self, leaf: Expr, device: VirtualDevice) -> Expr:
        """A leaf on a device: one node for each that it is wanted on."""
        key = id(leaf), device
        if key not in self.leaves:
            self.leaves[key] = leaf if leaf.device == device else replace(leaf, device=device)
        return self.leaves[key]

    def operand(self, node: Expr, index: int) -> Expr:
        """A child where it is wanted."""
        child, at = node.children[index], OperandPlace(id(node), index)
        if at in self.place.leaves or at in self.scope.leaves:
            value = self.leaf(child, self.plan.at(*(_leaf(p, at, child) for p in (self.place, self.scope))))
        else:
            value = self.new[id(child)]
        if at not in self.place.wanted and at not in self.scope.wanted:
            return value
        here = value.device.place
        place = self.plan.places.at(self.place.wanted[at]) if at in self.place.wanted else here
        if at in self.scope.wanted:
            scope = self.plan.scopes.at(self.scope.wanted[at]).scope
        else:
            scope = value.device.scope if place == here or at in self.scope.leaves else GLOBAL
        return self.copied(value, self.plan.device(place, scope))

    def copied(self, value: Expr, to: VirtualDevice) -> Expr:
        """A value on a device. One copy serves all its users; of a tuple each tensor is copied by itself."""
        work = Worklist([(value, False)])
        for of, ready in work:
            if of.device == to or (_key(of), to) in self.copies:
                continue
            if not isinstance(of.type, TupleType):
                copy = graph.call(operator(DEVICE_COPY), of, span=of.span)
                self.copies[_key(of), to] = self.acting(replace(copy, device=to), of)
                continue
            bound = self.bound(of)
            fields = self.fields(bound or of)
            if not ready:
                work.add([*((f, False) for f in fields), (of, True)])
                continue
            parts = tuple(f if f.device == to else self.copies[_key(f), to] for f in fields)
            made: Expr = Tuple(of.type, parts, device=to, span=of.span)
            if bound is not None:
                made = Let(of.type, bound, of, made, device=to, span=of.span)
            self.copies[_key(of), to] = self.acting(made, of)
        return value if value.device == to else self.copies[_key(value), to]

    def acting(self, copy: Expr, of: Expr) -> Expr:
        """A copy of what acts acts too."""
        if id(of) in self.active:
            self.active.add(id(copy))
        return copy

    def bound(self, value: Expr) -> Var | None:
        """A name for a tuple that must be evaluated once before its fields are taken: it acts, or it has none."""
        acts = id(value) in self.active
        plain = isinstance(value, LEAVES) or (isinstance(value, Tuple) and not (acts and _has_constants(value)))
        if plain or (not acts and self.plan.place.tensors(value.type)):
            return None
        if id(value) not in self.lets:
            name = unused("copied", self.names)
            self.names.add(name)
            self.lets[id(value)] = Var(value.type, name, device=value.device)
        return self.lets[id(value)]

    def fields(self, value: Expr) -> tuple[Expr, ...]:
        """The fields of a tuple, where it is. A constant has no copies, but a tuple with one may be elsewhere."""
        if isinstance(value, Tuple) and not _has_constants(value):
            return value.fields
        assert isinstance(value.type, TupleType)
        return tuple(self.field(value, i) for i in range(len(value.type.fields)))

    def field(self, value: Expr, index: int) -> Expr:
        key = id(value), index
        if key not in self.projections:
            self.projections[key] = replace(graph.get(value, index, value.span), device=value.device)
        return self.projections[key]


def _key(of: Expr) -> object:
    """What is the same for nodes that are one value: of a constant every name, or its contents, where that is."""
    match of:
        case GlobalVar():
            return of.name, of.device
        case Constant():
            return digest(of.data), of.device
        case _:
            return id(of)


def _has_constants(of: Tuple) -> bool:
    return any(isinstance(f, (Constant, GlobalVar)) for f in of.fields)


def _leaf(local: LocalDomains, at: OperandPlace, child: Expr) -> int:
    found = local.leaves.get(at)
    return local.domains[id(child)] if found is None else found


def _same(a: Sequence[Var], b: Sequence[Var]) -> bool:
    return all(x is y for x, y in zip(a, b, strict=True))
