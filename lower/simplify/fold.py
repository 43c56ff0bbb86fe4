"""What is constant becomes a constant (specs/lower.md, "simplify").

A call whose operands are all constant is replaced by its value. The evaluator is handed in: folding runs the
interpreter, under its rules. What may be folded, and where the constant lives, `assay.lower.constants.foldable` says. A
variable keeps its name: its binding gets the value. A binding that only folded calls used goes.

Annotations are seen through, and stay where they stand. What they and the fields of operands say about the result is
said by the new constant; where that is contradictory, the call stays. Where a branch that is known to be taken, or a
constant, stands in place of more, a module in A-normal form may need `to_anf` again.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from assay.lower.constants.foldable import SMALL, home, is_static, may_evaluate, may_grow
from assay.lower.simplify.value_device import device_of_value
from assay.semantics import graph
from assay.semantics.devices import ANYWHERE, VirtualDevice
from assay.semantics.errors import Trap, Unpredictable
from assay.semantics.graph import constant
from assay.semantics.graph.effects import acts, can_fail, is_opaque
from assay.semantics.graph.functions import as_function, open_nodes
from assay.semantics.module import Module
from assay.semantics.operator import Operator
from assay.semantics.types import ShapeType, TensorType, same_type

Value = Any
"""An array, or a tuple of values."""
Evaluate = Callable[[graph.Expr, Module], Value]
"""Gives the value of a closed expression; Trap or Unpredictable where a run would. `assay.interp.graph.evaluate` is
one."""


def fold_constants(module: Module, evaluate: Evaluate) -> Module:
    """Every graph function with what is constant folded. Marked functions (primitive, compiler) stay as they are."""
    return Folding(module, evaluate).run()


@dataclass(eq=False)
class _Known:
    """A value that is known, and what is said about where it lives; None: what is said is contradictory."""

    value: Value
    said: VirtualDevice | None


class Folding:
    """Folds. What is folded, where a value lives and what stays around it are methods: so tests can plant faults."""

    small = SMALL

    def __init__(self, module: Module, evaluate: Evaluate) -> None:
        self.module, self.evaluate = module, evaluate

    def run(self) -> Module:
        """Fold in each function of the module but opaque ones."""
        return self.module.with_(**{n: self.function(d) for n, d in self.module.graphs.items() if not is_opaque(d)})

    def function(self, function: graph.Function) -> graph.Function:
        """Fold in one function."""
        return as_function(_Walk(self, function).run())

    # --- the rules ---------------------------------------------------------------------------------------------------

    def device(self, node: graph.Expr, operands: list[VirtualDevice | None]) -> VirtualDevice | None:
        """Where the constant in place of `node` lives; None: nowhere would do."""
        return home(node, operands, self.module)

    def wrapper(self, node: graph.OnDevice, value: graph.Expr) -> graph.Expr:
        """An annotation around its folded operand."""
        return node.with_children([value])

    def constant(
        self, node: graph.Expr, value: Value, device: VirtualDevice, held: Callable[[graph.Expr], graph.Expr]
    ) -> graph.Expr:
        """The constant for a folded node; `held` gives the value of a variable that a let binds."""
        return replace(constant(value), device=device, span=node.span)

    def operands(self, node: graph.Expr) -> Sequence[graph.Expr]:
        """What must be known for a node to be evaluated."""
        return node.children

    def can_fold(self, node: graph.Expr, operands: list[Value]) -> bool:
        """Whether a node whose operands are known may be evaluated now."""
        return may_evaluate(node, self.module) and may_grow(node, map(_bytes, operands), self.small)

    def taken(self, node: graph.If, condition: Value) -> graph.Expr | None:
        """The branch that is taken, where it can stand for the whole; else None."""
        branch = node.then if bool(condition) else node.otherwise
        alike = same_type(branch.type, node.type) and not isinstance(branch, graph.OnDevice)
        return branch if alike and node.device in (ANYWHERE, device_of_value(branch)) else None


@dataclass(eq=False)
class _Walk:
    """One walk over a function, operands first."""

    rules: Folding
    root: graph.Function
    bound: dict[graph.Var, graph.Expr] = field(default_factory=dict)
    """For the variable of a let its value, through variables that name variables."""
    known: dict[int, _Known] = field(default_factory=dict)
    new: dict[int, graph.Expr] = field(default_factory=dict)
    """What stands for a node that is not folded."""
    made: dict[int, graph.Expr] = field(default_factory=dict)
    """The constants for nodes that are folded and still used."""
    silent: dict[int, bool] = field(default_factory=dict)
    """Whether nobody can tell if a node and what it needs are evaluated."""
    needed: set[graph.Var] = field(default_factory=set)
    """Variables that are still used."""
    uses: Counter[int] = field(default_factory=Counter)

    def run(self) -> graph.Expr:
        order = open_nodes(self.root)
        for n in reversed(order):  # the outer of two lets comes first
            if isinstance(n, graph.Let):
                known = isinstance(n.value, graph.Var) and n.value in self.bound
                self.bound[n.var] = self.bound[n.value] if known and isinstance(n.value, graph.Var) else n.value
        for node in order:
            self.uses.update(id(self.held(c)) for c in node.children)
        for node in order:
            self.step(node)
            for c in node.children:  # a weight and its transpose need not both stay
                held = id(self.held(c))
                self.uses[held] -= 1
                if not self.uses[held]:
                    self.known.pop(held, None)
        return self.new[id(self.root)]

    def held(self, node: graph.Expr) -> graph.Expr:
        """The node under which what is known of `node` is kept: for a variable that of its binding's value."""
        return self.bound.get(node, node) if isinstance(node, graph.Var) else node

    def of(self, node: graph.Expr) -> _Known | None:
        """What is known of a node that was met, or of a variable."""
        found = self.known.get(id(self.held(node)))
        if found is not None and isinstance(node, graph.Var) and found.said is not None:
            at = found.said
            value = self.held(node)
            if isinstance(value, graph.OnDevice) and value.constrain_body:
                at = value.wanted  # directly the value of a let: said of the variable too (rule M8)
            return _Known(found.value, at.join(node.device))
        return found

    def expr(self, node: graph.Expr) -> graph.Expr:
        """What stands for an operand of a node that is not folded."""
        if id(node) in self.new:
            found = self.new[id(node)]
        else:
            known = self.known[id(node)]
            if id(node) not in self.made:
                assert known.said is not None
                self.made[id(node)] = self.rules.constant(node, known.value, known.said, self.held)
            found = self.made[id(node)]
        if isinstance(found, graph.Var):
            self.needed.add(found)
        return found

    def stay(self, node: graph.Expr) -> None:
        self.new[id(node)] = node if is_opaque(node) else node.with_children([self.expr(c) for c in node.children])

    def step(self, node: graph.Expr) -> None:
        parts = () if isinstance(node, graph.Function) else node.children
        module = self.rules.module
        self.silent[id(node)] = not acts(node) and not can_fail(node, module) and all(self.silent[id(c)] for c in parts)
        match node:
            case graph.Constant():
                self.known[id(node)] = _Known(node.data, node.device)
                self.new[id(node)] = node
            case graph.GlobalVar() if node.name in module.constants:
                self.known[id(node)] = _Known(module.constants[node.name], node.device)
                self.new[id(node)] = node
            case graph.Var():
                self.new[id(node)] = node
            case graph.Let():
                self.let(node)
            case graph.OnDevice():
                inner = self.of(node.value)
                if inner is not None and inner.said is not None:
                    at = inner.said
                    if node.constrain_result:
                        at = node.wanted
                    elif node.constrain_body:
                        at = ANYWHERE
                    self.known[id(node)] = _Known(inner.value, at.join(node.device))
                self.new[id(node)] = self.rules.wrapper(node, self.expr(node.value))
            case graph.If() if (condition := self.of(node.condition)) is not None:
                branch = self.rules.taken(node, condition.value)
                if branch is None:
                    self.stay(node)
                    return
                self.new[id(node)] = self.expr(branch)
                self.silent[id(node)] = self.silent[id(branch)]
                found = self.of(branch)
                if found is not None:
                    self.known[id(node)] = found
            case graph.ShapeOf() if (
                self.unneeded(node.value) and isinstance(node.type, ShapeType) and is_static(node.value)
            ):
                self.new[id(node)] = graph.ShapeExpr(node.type, node.type.dims, device=node.device, span=node.span)
                self.silent[id(node)] = True
            case graph.Tuple():
                fields = [self.of(f) for f in node.fields]
                if all(f is not None for f in fields):  # projections of it are folded; it stays itself
                    values = tuple(f.value for f in fields if f is not None)
                    self.known[id(node)] = _Known(
                        values, self.rules.device(node, [f.said for f in fields if f is not None])
                    )
                self.stay(node)
            case _:
                self.fold(node)

    def let(self, node: graph.Let) -> None:
        value = node.value
        body = self.expr(node.body)
        folded = id(value) not in self.new
        if folded and node.var not in self.needed:
            self.new[id(node)] = body
        else:
            self.new[id(node)] = node.with_children([self.expr(value), body])
        known = self.of(node.body)
        if known is not None and self.silent[id(value)]:
            self.known[id(node)] = known

    def fold(self, node: graph.Expr) -> None:
        """A call, a projection or a cast: folded where its operands are known."""
        value, operands = self.value(node)
        at = self.rules.device(node, [k.said for k in operands]) if value is not None else None
        if value is None or at is None:
            self.stay(node)
            return
        self.known[id(node)] = _Known(value, at)
        self.silent[id(node)] = True
        if isinstance(value, tuple):
            self.stay(node)

    def value(self, node: graph.Expr) -> tuple[Value | None, list[_Known]]:
        """The value of a node, None where it has none now, and what it is made of."""
        if is_shape_of(node) and self.unneeded(node.children[0]) and is_static(node.children[0]):
            of = node.children[0].type
            assert isinstance(of, TensorType)
            return np.array(of.static_shape, np.int64), []
        wanted = self.rules.operands(node)
        found = [self.of(c) for c in wanted] if not isinstance(node, graph.Function) else [None]
        operands = [k for k in found if k is not None]
        if len(operands) != len(found):
            return None, []
        if isinstance(node, graph.TupleGetItem):
            return operands[0].value[node.index], operands
        if not self.rules.can_fold(node, [k.value for k in operands]):
            return None, []
        literals = {id(c): _literal(k.value, c) for k, c in zip(operands, wanted, strict=True)}
        try:
            value = self.rules.evaluate(
                node.with_children([literals.get(id(c), c) for c in node.children]), self.rules.module
            )
        except (Trap, Unpredictable):
            return None, []
        return (value if isinstance(value, tuple) else np.asarray(value)), operands

    def unneeded(self, node: graph.Expr) -> bool:
        """Whether a node need not be evaluated here: it is a name of what was evaluated, or silent."""
        return isinstance(node, graph.Var) or self.silent[id(node)]


def is_shape_of(node: graph.Expr) -> bool:
    """Whether a node is the sizes of a tensor, by the operator."""
    return isinstance(node, graph.Call) and isinstance(node.op, Operator) and node.op.name == "shape_of"


def _bytes(value: Value) -> int:
    return sum(map(_bytes, value)) if isinstance(value, tuple) else int(np.asarray(value).nbytes)


def _literal(value: Value, of: graph.Expr) -> graph.Expr:
    """A value as an expression of the type of what it is the value of."""
    if not isinstance(value, tuple):
        return constant(value)
    return graph.Tuple(of.type, tuple(map(constant, value)))
