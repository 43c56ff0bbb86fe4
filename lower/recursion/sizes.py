"""Sizes in functions that call one another: one frame serves them all, so each has the same names for the same sizes
(specs/lower.md, "recursion")."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from assay.lower.recursion.groups import Group
from assay.lower.simplify.bind_params import with_sizes
from assay.semantics.analyses.variables import symbols_bound
from assay.semantics.graph import Call, Function
from assay.semantics.graph.matching import Bound
from assay.semantics.scalar import Dim, Var as Symbol
from assay.semantics.types import FuncType, Type, dims, same_type, symbols
from assay.semantics.walk import post_order


def with_shared_sizes(group: Group) -> Group:
    """The group in the symbols of its first function: where one calls another, a size of the other is a size of its
    own."""
    if len(group.members) == 1:
        return group
    stands_for: dict[Symbol, Symbol] = {}

    def find(s: Symbol) -> Symbol:
        while s in stands_for:
            s = stands_for[s]
        return s

    for mine, theirs in _handed(group):
        if isinstance(mine, Symbol) and isinstance(theirs, Symbol) and find(mine) is not find(theirs):
            stands_for[find(theirs)] = find(mine)
    if not stands_for:
        return group
    sizes: Bound = {s: find(s) for s in stands_for}
    return replace(group, members=tuple((n, with_sizes(f, sizes)) for n, f in group.members))


def _handed(group: Group) -> Iterator[tuple[Dim, Dim]]:
    """The sizes that calls inside of the group hand over, each with the size of the parameter."""
    for call, callee in calls(group):
        for p, a in zip(callee.params, call.args, strict=True):
            yield from zip(_sizes(a.type), _sizes(p.type), strict=True)


def _sizes(of: Type) -> list[Dim]:
    parts = post_order(of, lambda t: () if isinstance(t, FuncType) else t.children)
    return [d for t in parts for d in dims(t)]


def calls(group: Group) -> Iterator[tuple[Call, Function]]:
    """The calls inside of the group, each with the function that it calls."""
    for _, f in group.members:
        for node in post_order(f.body):
            k = group.callee(node)
            if k is not None:
                assert isinstance(node, Call)
                yield node, group.members[k][1]


def require_one_size(group: Group) -> None:
    """Unsupported: a call of the group with arguments of other sizes than those that its function began with, or a
    result of a size that its arguments do not tell."""
    results = [f.result_type for _, f in group.members]
    for (_, f), result in zip(group.members, results, strict=True):
        if not same_type(result, results[0]):
            group.refuse(f"its functions give {results[0]} and {result}", f.span, "recursion.C3")
    known = {s for _, f in group.members for p in f.params for s in symbols(p.type)}
    for call, callee in calls(group):
        for p, a in zip(callee.params, call.args, strict=True):
            if not same_type(p.type, a.type):
                group.refuse(
                    f"it is called with {a.type} for {p.name}, {p.type}: arguments keep the sizes that they began with",
                    call.span,
                    "recursion.C2",
                )
        if not same_type(call.type, callee.result_type):
            why = f"a call gives {call.type} where {callee.result_type} is declared"
            group.refuse(why, call.span, "recursion.C2")
    odd = [s for s in symbols(results[0]) if s not in known and s in _told_inside(group)]
    if odd:
        group.refuse(f"only a run tells {odd[0].name}, a size of its result", group.members[0][1].span, "recursion.C2")


def _told_inside(group: Group) -> set[Symbol]:
    return {s for _, f in group.members for s in symbols_bound(f.body)}
