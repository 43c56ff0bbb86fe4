"""Sizes of one name told apart in messages (specs/semantics.md, "Modules").

Two symbols may both be called n. A message about both calls the second one n', and says that they are two.
"""

from __future__ import annotations

from collections.abc import Iterable

from assay.semantics import types
from assay.semantics.scalar import Dim, Expr, Var, show, substitute, variables
from assay.semantics.types import Type, show_type, with_dims
from assay.semantics.walk import post_order


class Apart:
    """Words for the types and the sizes of one message."""

    def __init__(self, of: Iterable[Type] = (), sizes: Iterable[Dim] = ()) -> None:
        inside = [d for root in of for t in post_order(root) for d in types.dims(t)]
        by_name: dict[str, dict[Var, None]] = {}
        for d in (*inside, *sizes):
            for v in variables(d):
                by_name.setdefault(v.name, {})[v] = None
        self.change: dict[Var, Dim] = {}
        told: list[str] = []
        for name, those in by_name.items():
            names = [name + "'" * k for k in range(len(those))]
            self.change.update((v, Var(n, v.dtype)) for v, n in zip(those, names, strict=True) if n != name)
            told += [" and ".join(names)] if len(names) > 1 else []
        self.note = (
            f" ({'; '.join(told)}: sizes of one name, of which nothing says that they are equal)" if told else ""
        )
        """What is said behind: which names are those of several sizes; "" if none is."""

    def renamed(self, of: Dim) -> Dim:
        """A size by its names here."""
        return substitute(of, self.change) if isinstance(of, Expr) and self.change else of

    def size(self, of: Dim) -> str:
        """A size, in words."""
        return show(self.renamed(of))

    def shape(self, some: Iterable[Dim]) -> str:
        """A shape: "(n, 4)"."""
        return "(" + ", ".join(map(self.size, some)) + ")"

    def type(self, of: Type) -> str:
        """A type, in words."""
        return show_type(with_dims(of, self.renamed) if self.change else of)
