"""What is computed twice is computed once (specs/lower.md, "simplify").

Two expressions are one if they are the same operation, of the same type, on the same device, applied to operands that
are one; constants are one by dtype, shape and bytes. An expression that acts is only itself. The one that stays stands
in a scope around the other: in its function, and not in another branch. What can fail may be shared too, for a step
that has succeeded does not fail again. Names stay: of two variables the outer one.

What an annotation stands on is not placed yet, and two expressions that look alike may be wanted on two devices: a
function with annotations stays as it is until devices are planned.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from assay.semantics import graph
from assay.semantics.bits import digest
from assay.semantics.devices import VirtualDevice
from assay.semantics.graph.effects import is_opaque
from assay.semantics.graph.functions import as_function, open_nodes
from assay.semantics.graph.nodes import ATOMS
from assay.semantics.graph.scopes import Forest
from assay.semantics.module import Module
from assay.semantics.operator import Operator
from assay.semantics.scalar import Expr as Scalar
from assay.semantics.tensor.calls import calls_extern
from assay.semantics.types import same_type
from assay.semantics.walk import post_order

Key = tuple[Any, ...]


def common_subexpressions(module: Module) -> Module:
    """Every graph function with equal expressions shared. Marked functions (primitive, compiler) stay as they are."""
    return Sharing(module).run()


class Sharing:
    """Shares. What makes two nodes one, and where one may stand for the other, are methods: so tests can plant
    faults."""

    def __init__(self, module: Module) -> None:
        self.module = module

    def run(self) -> Module:
        """Share in each function of the module but opaque ones."""
        return self.module.with_(**{n: self.function(d) for n, d in self.module.graphs.items() if not is_opaque(d)})

    def function(self, function: graph.Function) -> graph.Function:
        """Share in one function; one that still has device annotations stays as it is."""
        order = open_nodes(function)
        return function if self.unplaced(order) else as_function(_Walk(self, function, order).run())

    # --- the rules ---------------------------------------------------------------------------------------------------

    def unplaced(self, order: list[graph.Expr]) -> bool:
        """Whether a node still is an annotation, so that it is not yet known where values live."""
        return any(isinstance(n, graph.OnDevice) for n in order)

    def what(self, node: graph.Expr) -> Key | None:
        """What a node does, but for its operands, its type and its device; None if it is only itself."""
        if graph.acts(node):
            return None
        match node:
            case graph.Constant():
                return ("constant", digest(node.data))
            case graph.GlobalVar() | graph.ExternFunc():
                return (type(node).__name__, node.name)
            case graph.Constructor():
                return ("constructor", node.data, node.name)
            case graph.Call():
                op = node.op.name if isinstance(node.op, Operator) else ""
                return ("call", op, _attr(dict(node.attrs)), *map(id, node.type_args))
            case graph.CallTIR() if not calls_extern(self.module.kernel(node.func)):
                return ("call_tir", node.func, _attr(node.scalars))
            case graph.TupleGetItem():
                return ("field", node.index)
            case graph.ShapeExpr():
                return ("shape", _attr(node.dims))
            case graph.Tuple() | graph.MatchCast() | graph.ShapeOf():
                return (type(node).__name__,)
            case _:
                return None

    def place(self, node: graph.Expr) -> VirtualDevice:
        """Two nodes are one only where they live in one place."""
        return node.device

    def serves(self, forest: Forest, at: int, scope: int) -> bool:
        """Whether what stands in the scope `at` may be used in `scope`."""
        return forest.inside(scope, at)


@dataclass(eq=False)
class _Class:
    """Equal expressions, in the order in which they were met."""

    nodes: list[graph.Expr] = field(default_factory=list)
    names: list[graph.Let] = field(default_factory=list)
    """The bindings that name one of them."""


class _Walk:
    def __init__(self, rules: Sharing, root: graph.Function, order: list[graph.Expr]) -> None:
        self.rules, self.root, self.order = rules, root, order
        self.forest = Forest()
        self.home: dict[int, int] = {id(root): self.forest.add()}
        """For each node the innermost scope around its uses."""
        self.body: dict[int, int] = {}
        """For each let the scope in which its variable stands."""
        for node in reversed(order):  # every user of a node comes before it
            self.enter(node)
        self.classes: list[_Class] = []
        self.of: dict[int, int] = {}
        self.known: dict[Key, list[tuple[graph.Expr, int]]] = {}

    def enter(self, node: graph.Expr) -> None:
        scope = self.home[id(node)]
        add = self.forest.add
        match node:
            case _ if is_opaque(node):
                pass
            case graph.Function():
                self.use(node.body, add(scope))
            case graph.Let():
                self.body[id(node)] = add(scope)
                # a function may use its own variable
                self.use(node.value, add(self.body[id(node)]) if isinstance(node.value, graph.Function) else scope)
                self.use(node.body, self.body[id(node)])
            case graph.If() | graph.Match():
                self.use(node.children[0], scope)
                for branch in node.children[1:]:
                    self.use(branch, add(scope))
            case _:
                for child in node.children:
                    self.use(child, scope)

    def use(self, node: graph.Expr, scope: int) -> None:
        known = self.home.get(id(node))
        self.home[id(node)] = scope if known is None else self.forest.around(known, scope)

    def run(self) -> graph.Expr:
        lets = {n.var: n for n in self.order if isinstance(n, graph.Let)}
        for node in self.order:
            if isinstance(node, graph.Var) and node in lets and id(lets[node].value) in self.of:
                let = lets[node]
                if node.device == let.value.device and same_type(node.type, let.value.type):
                    self.of[id(node)] = self.of[id(let.value)]
                    continue
            self.number(node)
        for node in reversed(self.order):  # outer bindings first
            if isinstance(node, graph.Let) and self.of.get(id(node.var)) == self.of[id(node.value)]:
                self.classes[self.of[id(node.value)]].names.append(node)
        for found in self.classes:
            found.nodes.sort(key=lambda n: self.forest.depth[self.home[id(n)]])
        stands = {id(n): self.instead(n, lets.get(n) if isinstance(n, graph.Var) else None) for n in self.order}
        new: dict[int, graph.Expr] = {}

        def parts(node: graph.Expr) -> list[graph.Expr]:
            return [] if is_opaque(node) else [stands[id(c)] for c in node.children]

        for node in post_order(self.order[-1], parts):
            made = node if is_opaque(node) else node.with_children([new[id(c)] for c in parts(node)])
            gone = isinstance(node, graph.Let) and stands.get(id(node.var), node.var) is not node.var
            new[id(node)] = made.body if gone and isinstance(made, graph.Let) else made
        return new[id(self.root)]

    def number(self, node: graph.Expr) -> None:
        what = self.rules.what(node) if not isinstance(node, (graph.Var, graph.Function)) else None
        if what is None:
            self.of[id(node)] = self.add(node)
            return
        key = (what, self.rules.place(node), *(self.of[id(c)] for c in node.children))
        alike = self.known.setdefault(key, [])
        found = next((n for other, n in alike if same_type(other.type, node.type)), None)
        if found is None:
            found = self.add(node)
            alike.append((node, found))
        else:
            self.classes[found].nodes.append(node)
        self.of[id(node)] = found

    def add(self, node: graph.Expr) -> int:
        self.classes.append(_Class([node]))
        return len(self.classes) - 1

    def instead(self, node: graph.Expr, own: graph.Let | None) -> graph.Expr:
        """What stands for a node: a variable of an outer binding, an equal node further out, or itself. `own` is the
        binding of a variable."""
        if isinstance(node, (graph.Let, graph.Function)) or isinstance(node, ATOMS) and not isinstance(node, graph.Var):
            return node
        found = self.classes[self.of[id(node)]]
        scope = self.home[id(node if own is None else own)]
        for let in found.names:
            if self.rules.serves(self.forest, self.body[id(let)], scope):
                return let.var
        for other in found.nodes if not isinstance(node, graph.Var) else ():
            if self.rules.serves(self.forest, self.home[id(other)], scope):
                return other
        return node


def _attr(value: Any) -> Any:
    """An attribute as something to compare: numbers with their types, floats by their bits, dims by their
    expressions."""
    if isinstance(value, dict):
        return tuple((k, _attr(v)) for k, v in sorted(value.items()))
    if isinstance(value, (tuple, list)):
        return ("tuple", *map(_attr, value))
    if isinstance(value, Scalar):
        return ("dim", id(value))
    return (type(value).__name__, value.hex() if isinstance(value, float) else str(value))
