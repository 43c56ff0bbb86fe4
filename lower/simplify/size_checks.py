"""Assertions about sizes: what a program says of the shapes that it takes, such as JAX does of symbolic dimensions
(specs/lower.md, "simplify").
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from assay.lower.frontends.stablehlo.build import HloBuilder
from assay.semantics.graph import AssertOp, Call, Constant, Expr, Let, Tuple, TupleGetItem, Var
from assay.semantics.operator import Operator
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

    def about_sizes(self, node: AssertOp) -> bool:
        """Whether the condition is computed of nothing but sizes and constants."""
        leaves = (n for n in post_order(node.condition, self._parts) if not self._parts(n))
        return all(isinstance(n, Constant) or _is_shape(n) for n in leaves)

    def _parts(self, node: Expr) -> Sequence[Expr]:
        match node:
            case Var() if node in self.known.values:
                return (self.known.values[node],)
            case Call(op=Operator()) if not _is_shape(node):
                return node.args
            case Tuple() | TupleGetItem():
                return node.children
            case _:
                return ()


def _is_shape(node: Expr) -> bool:
    return isinstance(node, Call) and isinstance(node.op, Operator) and node.op.name == "shape_of"
