"""The choices that stand in expressions (specs/semantics.md, "Blocks")."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from assay.semantics.scalar import Choice, Expr
from assay.semantics.walk import fold, post_order


def outermost(exprs: Iterable[Expr]) -> list[Choice]:
    """The choices that stand in no other one."""
    found: dict[Choice, None] = {}
    for e in exprs:
        for node in post_order(e, lambda n: () if isinstance(n, Choice) else n.children):
            if isinstance(node, Choice):
                found[node] = None
    return list(found)


def put(exprs: Sequence[Expr], by: dict[Choice, Expr]) -> list[Expr]:
    """Expressions with choices replaced, those within others left alone."""

    def made(node: Expr, parts: list[Expr]) -> Expr:
        return by[node] if isinstance(node, Choice) and node in by else node.with_children(parts)

    return [fold(root, made, lambda n: () if n in by else n.children) for root in exprs]


def choices_in(exprs: Iterable[Expr]) -> int:
    """How many choices there are, each counted once in each expression."""
    return sum(isinstance(node, Choice) for e in exprs for node in post_order(e))
