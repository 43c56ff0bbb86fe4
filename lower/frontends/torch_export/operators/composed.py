"""Compositions that other readers share, made by a call of ATen (specs/lower.md, "torch.export")."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from assay.lower.frontends.torch_export.node import AtenNode
from assay.semantics.composed.terms import Term
from assay.semantics.dtypes import DType
from assay.semantics.errors import Invalid
from assay.semantics.graph import Expr
from assay.semantics.scalar import Dim


@dataclass(frozen=True)
class AtenMaker:
    """A call as a `Maker`."""

    node: AtenNode

    def call(self, op: str, *args: Expr, **attrs: Any) -> Expr:
        """A call of an operator of ours."""
        return self.node.call(op, *args, **attrs)

    def constant(self, data: Any, of: DType, /) -> Expr:
        """A constant."""
        return self.node.constant(data, of)

    def shaped(self, x: Expr, shape: Sequence[Dim], /) -> Expr:
        """`x` in another shape."""
        return self.node.shaped(x, *shape)

    def cast(self, x: Expr, to: DType, /) -> Expr:
        """`x` in another dtype."""
        return self.node.cast(x, to)

    def wrong(self, message: str, /) -> Invalid:
        """What to raise where operands do not fit."""
        return self.node.wrong(message)


def term(node: AtenNode, x: Expr) -> Term:
    """A tensor of a formula."""
    return Term(AtenMaker(node), x)
