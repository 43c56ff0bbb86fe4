"""Graph functions as wholes: walked and rewritten (specs/semantics.md, "Graph IR")."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from assay.semantics.graph.effects import is_opaque
from assay.semantics.graph.nodes import Expr, Function
from assay.semantics.walk import post_order, rewrite


def as_function(node: Expr) -> Function:
    """A node that is known to be a function."""
    assert isinstance(node, Function)
    return node


def rewrite_function(function: Function, change: Callable[[Expr], Expr]) -> Function:
    """A function with `change` applied to every node, parts first; what is shared stays shared. It stays a function."""
    root: Expr = function
    return as_function(rewrite(root, change))


def open_parts(node: Expr) -> Sequence[Expr]:
    """The parts of a node that passes look at: none of an opaque function."""
    return () if is_opaque(node) else node.children


def open_nodes(function: Function) -> list[Expr]:
    """The nodes of a function, parts before wholes, but for what is inside of opaque functions."""
    root: Expr = function
    return list(post_order(root, open_parts))
