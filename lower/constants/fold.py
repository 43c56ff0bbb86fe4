"""Constant folding: what has a constant value becomes a constant (specs/lower.md, "constants").

The value is computed by the evaluator that the caller hands in: folding runs the interpreter, there is no second truth.
What may be folded, and where the constant lives, `assay.lower.constants.foldable` says. After this no name of a
constant is left, for each use is of the table; folding of graph functions (`assay.lower.simplify.fold`) keeps names.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np

from assay.lower.constants.foldable import home, is_static, may_evaluate, may_grow
from assay.semantics import graph
from assay.semantics.devices import ANYWHERE, VirtualDevice
from assay.semantics.dtypes import dtype
from assay.semantics.errors import Trap, Unpredictable
from assay.semantics.graph.effects import is_opaque
from assay.semantics.graph.functions import as_function, open_nodes, open_parts
from assay.semantics.module import Module
from assay.semantics.operator import Operator
from assay.semantics.tensor import PrimFunc
from assay.semantics.tensor.calls import without_calls
from assay.semantics.types import TensorType, TupleType, Type
from assay.semantics.walk import post_order

Array = np.ndarray[Any, Any]
Evaluate = Callable[[PrimFunc, Sequence[Array]], Sequence[Array]]
"""Runs a tensor function."""


@dataclass(frozen=True, eq=False)
class KnownTensor:
    """A tensor whose elements are known, where it lives, and its name in the module's table if it has one."""

    array: Array
    device: VirtualDevice
    name: str = ""


Value: TypeAlias = "KnownTensor | tuple[Value, ...]"


def fold_function(function: graph.Function, module: Module, evaluate: Evaluate) -> graph.Function:
    """The function, at every depth, with constants for what has a constant value. Functions that are marked as
    primitive or for another compiler stay. The function itself where nothing is folded."""
    if is_opaque(function):
        return function
    folding = _Folding(function, module.resolved(), evaluate)
    folding.run()
    return folding.rewritten()


class _Folding:
    def __init__(self, function: graph.Function, module: Module, evaluate: Evaluate) -> None:
        self.function, self.module, self.evaluate = function, module, evaluate
        self.order = open_nodes(function)
        self.left = Counter(id(c) for n in self.order for c in open_parts(n))
        """How many of its uses are not folded."""
        self.names: dict[int, list[graph.Var]] = {}
        for n in self.order:
            if isinstance(n, graph.Let):
                self.left[id(n.value)] -= not isinstance(n.value, graph.Var)
                self.names.setdefault(id(n.value), []).append(n.var)
        self.folded: set[int] = set()
        self.held: dict[int, Value] = {}
        self.flat: dict[str, PrimFunc] = {}

    def run(self) -> None:
        for node in self.order:
            value = self.value(node)
            if value is None:
                continue
            for part in (node, *self.names.get(id(node), ())):
                self.folded.add(id(part))
                # what is named is used by its name: an operand is let go after its last use, so that a weight and its
                # transpose need not both stay
                if self.left[id(part)] > 0:
                    self.held[id(part)] = _on(value, part.device) if isinstance(part, graph.Var) else value
            # another name of a name is a use of it, and goes with it
            for used in (
                node.children if not isinstance(node, graph.Var) else [node] * len(self.names.get(id(node), ()))
            ):
                self.left[id(used)] -= 1
                if self.left[id(used)] <= 0:
                    self.held.pop(id(used), None)

    def value(self, node: graph.Expr) -> Value | None:
        match node:
            case graph.Constant():
                return KnownTensor(node.data, node.device)
            case graph.Var():
                return self.held.get(id(node))
            case graph.GlobalVar():
                found = self.module.constants.get(node.name)
                if found is None:
                    return None
                return KnownTensor(found, both_or(self.module.info(node.name).device, node.device), node.name)
            case graph.Tuple() | graph.TupleGetItem() | graph.OnDevice() | graph.Call() | graph.CallTIR():
                args = [self.held.get(id(c)) for c in node.children]
                given = [a for a in args if a is not None]
                if len(given) < len(args) or not is_static(node):
                    return None
                return self.computed(node, given)
            case _:
                return None

    def computed(self, node: graph.Expr, args: list[Value]) -> Value | None:
        match node:
            case graph.Tuple():
                # one inside another has no form in which its parts are names
                return None if any(isinstance(a, tuple) for a in args) else tuple(args)
            case graph.TupleGetItem():
                whole = args[0]
                assert isinstance(whole, tuple)
                return _on(whole[node.index], node.device)
            case graph.OnDevice():
                said = node.wanted if node.constrain_body or node.constrain_result else ANYWHERE
                return _on(_on(args[0], said), node.device)
        tensors = [a for a in args if isinstance(a, KnownTensor)]
        if len(tensors) < len(args) or not may_evaluate(node, self.module):
            return None
        device = home(node, [a.device for a in tensors], self.module)
        arrays = [a.array for a in tensors]
        if device is None or not may_grow(node, [a.nbytes for a in arrays]):
            return None
        try:
            made = self.called(node, arrays)
        except (Trap, Unpredictable):
            return None
        if made is None:
            return None
        known = tuple(KnownTensor(a, device) for a in made)
        return known[0] if isinstance(node.type, TensorType) else known

    def called(self, node: graph.Expr, arrays: Sequence[Array]) -> Sequence[Array] | None:
        match node:
            case graph.Call() if isinstance(node.op, Operator):
                return [np.asarray(node.op.value(node.attrs, *arrays))]
            case graph.CallTIR() if not node.scalars:
                return tuple(self.evaluate(self.kernel(node.func), arrays))
            case _:
                return None

    def kernel(self, name: str) -> PrimFunc:
        """A tensor function with what it calls written out: the evaluator is handed nothing else."""
        if name not in self.flat:
            self.flat[name] = without_calls(self.module.kernel(name), self.module.kernels)
        return self.flat[name]

    # --- the new function ----------------------------------------------------------------------------------------

    def rewritten(self) -> graph.Function:
        new: dict[int, graph.Expr] = {}
        root: graph.Expr = self.function
        for node in post_order(root, self.entered):
            new[id(node)] = self.changed(node, new)
        return as_function(new[id(self.function)])

    def entered(self, node: graph.Expr) -> Sequence[graph.Expr]:
        if id(node) in self.folded:
            return ()
        if isinstance(node, graph.Let) and id(node.var) in self.folded:
            return (node.body,)
        return open_parts(node)

    def changed(self, node: graph.Expr, new: dict[int, graph.Expr]) -> graph.Expr:
        if isinstance(node, (graph.Constant, graph.GlobalVar)):
            return node
        if isinstance(node, graph.Let) and id(node.var) in self.folded:
            value = self.held.get(id(node.var))
            if not isinstance(value, tuple):
                return new[id(node.body)]
            # a tuple of constants is no constant: it is bound where one is still used
            return node.with_children([_written(value, node.value), new[id(node.body)]])
        if id(node) in self.folded:
            held = self.held[id(node)]
            return node if isinstance(node, graph.Var) and isinstance(held, tuple) else _written(held, node)
        inside = open_parts(node)
        return node.with_children([new[id(c)] for c in inside]) if inside else node


def both_or(one: VirtualDevice, other: VirtualDevice) -> VirtualDevice:
    """What satisfies both; the second, which is said of the use, where nothing does."""
    joined = one.join(other)
    return other if joined is None else joined


def _on(value: Value, device: VirtualDevice) -> Value:
    """A value that is also said to live somewhere. A copy of a constant is that constant elsewhere."""
    if device == ANYWHERE:
        return value
    if isinstance(value, tuple):
        return tuple(_on(v, device) for v in value)
    return KnownTensor(value.array, both_or(value.device, device), value.name)


def _written(value: Value, at: graph.Expr) -> graph.Expr:
    """A known value as an expression in place of another."""

    def leaf(known: KnownTensor) -> graph.Expr:
        of = TensorType(known.array.shape, dtype(known.array.dtype))
        if known.name:
            return graph.GlobalVar(of, known.name, device=known.device, span=at.span)
        return graph.Constant(of, known.array, device=known.device, span=at.span)

    def whole(v: Value, of: Type) -> graph.Expr:
        if isinstance(v, KnownTensor):
            return leaf(v)
        assert isinstance(of, TupleType)
        fields = tuple(whole(x, t) for x, t in zip(v, of.fields, strict=True))  # as deep as a type, not as a program
        return graph.Tuple(of, fields, device=at.device, span=at.span)

    return whole(value, at.type)
