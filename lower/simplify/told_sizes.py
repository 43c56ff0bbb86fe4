"""Sizes that elements of tensors tell, where these elements hang on nothing but sizes that are numbers
(specs/lower.md, "simplify").

A program computes the padding of a pool from the sizes of its inputs, and measures it. Where the inputs have sizes that
are numbers, so has the pool.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from assay.lower.simplify.bind_params import with_sizes
from assay.lower.simplify.fold import Evaluate, is_shape_of
from assay.semantics import graph
from assay.semantics.errors import Trap, Unpredictable
from assay.semantics.graph import Expr, Function, Let, MatchCast, ShapeExpr, Var
from assay.semantics.graph.effects import acts
from assay.semantics.graph.matching import Bound
from assay.semantics.module import Module
from assay.semantics.scalar import Var as Symbol
from assay.semantics.types import ShapeType, TensorType
from assay.semantics.walk import post_order


def with_told_sizes(module: Module, evaluate: Evaluate) -> Module:
    """The module with numbers for the sizes that main measures and that are the same in every run; the same one where
    it measures none."""
    while True:
        nodes = list(post_order(module.main.body))
        casts = [n for n in nodes if isinstance(n, MatchCast) and isinstance(n.type, ShapeType)]
        lets = {n.var: n.value for n in nodes if isinstance(n, Let)}
        told = {id(c): numbers for c in casts if (numbers := _numbers(module, c, lets, evaluate)) is not None}
        if not told:
            return module
        main = _without(module.main, nodes, told)
        sizes: Bound = {}
        for cast in casts:
            if isinstance(cast.type, ShapeType) and id(cast) in told:
                sizes |= {d: n for d, n in zip(cast.type.dims, told[id(cast)], strict=True) if isinstance(d, Symbol)}
        module = module.with_(main=with_sizes(main, sizes))


def _numbers(module: Module, cast: MatchCast, lets: Mapping[Var, Expr], evaluate: Evaluate) -> list[int] | None:
    """What a cast measures; None where only a run tells it, or where the run fails."""
    closed = _closed(cast.value, lets)
    if isinstance(closed, ShapeExpr):
        found = [d for d in closed.dims if isinstance(d, int)]
        if len(found) < len(closed.dims):
            return None
    elif closed is not None and isinstance(closed.type, TensorType):
        try:
            found = np.asarray(evaluate(closed, module)).tolist()
        except (Trap, Unpredictable):
            return None
    else:
        return None
    assert isinstance(cast.type, ShapeType)
    pairs = zip(found, cast.type.dims, strict=True)
    return found if all(n >= 0 and (isinstance(d, Symbol) or d == n) for n, d in pairs) else None


def _closed(value: Expr, lets: Mapping[Var, Expr]) -> Expr | None:
    """An expression with the values of names in their place, and sizes that are known in that of `shape_of`; None where
    it reads a parameter, or acts."""

    def parts(node: Expr) -> Sequence[Expr]:
        if isinstance(node, Var):
            return (lets[node],) if node in lets else ()
        return () if _is_known_shape(node) or isinstance(node, Function) else node.children

    made: dict[int, Expr | None] = {}
    for node in post_order(value, parts):
        children = [made[id(c)] for c in parts(node)]
        known = [c for c in children if c is not None]
        if len(known) < len(children) or acts(node) or isinstance(node, Function):
            made[id(node)] = None
        elif isinstance(node, Var):
            made[id(node)] = known[0] if known else None
        elif _is_known_shape(node):
            of = node.children[0].type
            assert isinstance(of, TensorType)
            made[id(node)] = graph.constant(np.array(of.static_shape, np.int64), span=node.span)
        else:
            made[id(node)] = node.with_children(known)
    return made[id(value)]


def _is_known_shape(node: Expr) -> bool:
    return is_shape_of(node) and isinstance(of := node.children[0].type, TensorType) and of.is_static


def _without(main: Function, nodes: Sequence[Expr], told: Mapping[int, Sequence[int]]) -> Function:
    """Main with the shapes themselves in place of the casts, and without those that have a name that nobody reads."""
    read = {c for n in nodes for c in n.children if isinstance(c, Var)}
    new: dict[int, Expr] = {}
    for node in nodes:
        if isinstance(node, Let) and id(node.value) in told and node.var not in read:
            new[id(node)] = new[id(node.body)]
        elif id(node) in told:
            new[id(node)] = graph.shape(*told[id(node)], span=node.span)
        else:
            new[id(node)] = node.with_children([new[id(c)] for c in node.children])
    return replace(main, body=new[id(main.body)])
