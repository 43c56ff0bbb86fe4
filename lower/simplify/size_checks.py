"""Assertions about sizes: what a program says of the shapes that it takes, such as JAX does of symbolic dimensions
(specs/lower.md, "simplify").
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import numpy as np

from assay.lower.frontends.onnx.contents import Contents, objects
from assay.lower.frontends.stablehlo.build import HloBuilder
from assay.lower.simplify.fold import is_shape_of
from assay.semantics.graph import AssertOp, Call, Constant, Expr, Let, Tuple, TupleGetItem, Var
from assay.semantics.operator import Operator
from assay.semantics.scalar import Var as Symbol, evaluate_dim, variables
from assay.semantics.types import symbols
from assay.semantics.walk import post_order


class SizeChecks:
    """What is known of the assertions in blocks whose lets are given."""

    def __init__(self, lets: Iterable[Let] = ()) -> None:
        self.known = HloBuilder()
        self.add(lets)

    def add(self, lets: Iterable[Let]) -> None:
        """More lets."""
        self.known.values.update((let.var, let.value) for let in lets)

    def hold(self, node: AssertOp) -> bool:
        """Whether the types show that the condition is true."""
        found = self.known.contents(node.condition)
        return found is not None and found.item() is True

    def hold_at(self, node: AssertOp, sizes: Mapping[Symbol, int]) -> bool | None:
        """Whether the condition is true at numbers for symbols; None where they do not tell."""
        found = _AtNumbers(sizes, self.known.values).contents(node.condition)
        told = found.item() if found is not None else None
        return told if isinstance(told, bool) else None

    def symbols(self, node: AssertOp) -> set[Symbol]:
        """The symbols of the shapes that the condition is computed of."""
        shapes = (n for n in post_order(node.condition, self._parts) if isinstance(n, Call) and is_shape_of(n))
        return {s for n in shapes for s in symbols(n.args[0].type)}

    def about_sizes(self, node: AssertOp) -> bool:
        """Whether the condition is computed of nothing but sizes and constants."""
        leaves = (n for n in post_order(node.condition, self._parts) if not self._parts(n))
        return all(isinstance(n, Constant) or is_shape_of(n) for n in leaves)

    def _parts(self, node: Expr) -> Sequence[Expr]:
        match node:
            case Var() if node in self.known.values:
                return (self.known.values[node],)
            case Call(op=Operator()) if not is_shape_of(node):
                return node.args
            case Tuple() | TupleGetItem():
                return node.children
            case _:
                return ()


class _AtNumbers(HloBuilder):
    """What tensors hold where symbols have numbers; nothing is named here, and the lets are those that it is given."""

    def __init__(self, sizes: Mapping[Symbol, int], values: dict[Var, Expr]) -> None:
        super().__init__()
        self.at, self.values = sizes, values

    def _derived(self, node: Expr) -> Contents | tuple[Contents, ...] | None:
        found = super()._derived(node)
        if not (isinstance(found, np.ndarray) and is_shape_of(node)):
            return found
        numbers = [evaluate_dim(d, self.at) if set(variables(d)) <= self.at.keys() else d for d in found.flat]
        return objects(numbers, found.shape)
