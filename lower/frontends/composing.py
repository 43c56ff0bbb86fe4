"""What a function needs that composes an operator of ours from others (specs/lower.md, "StableHLO", "torch.export")."""

from __future__ import annotations

from typing import Any, Protocol

from assay.lower.frontends.stablehlo.build import HloBuilder
from assay.semantics.dtypes import DType
from assay.semantics.graph import Expr
from assay.semantics.scalar import Dim


class Composer(Protocol):
    """Who makes calls: an operation of StableHLO, or of torch.export."""

    builder: HloBuilder

    def call(self, op: str, *args: Any, **attrs: Any) -> Expr:
        """The call of an operator; a number is a constant of the dtype of the first tensor."""
        ...

    def constant(self, value: Any, of: DType) -> Expr:
        """A constant."""
        ...

    def cast(self, x: Expr, to: DType) -> Expr:
        """`x` in a dtype."""
        ...

    def amount(self, size: Dim) -> Expr:
        """A size as a scalar of int64."""
        ...
