"""Sizes in functions that call one another: one frame serves them all, so each has the same names for the same sizes
(specs/lower.md, "recursion")."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import replace

from assay.lower.recursion.groups import RecursiveGroup
from assay.lower.simplify.bind_params import with_sizes
from assay.semantics.graph import Call, Expr, Function
from assay.semantics.graph.bindings import introduced
from assay.semantics.graph.matching import Bound
from assay.semantics.scalar import Dim, Var as Symbol
from assay.semantics.telling import Apart
from assay.semantics.types import FuncType, Type, dims, same_type, symbols
from assay.semantics.walk import post_order


def with_shared_sizes(group: RecursiveGroup) -> RecursiveGroup:
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
    for _, f in group.members:
        own = dict.fromkeys(s for p in f.params for s in symbols(p.type))
        if len({find(s) for s in own}) < len(own):
            why = f"{_names(own)} of one function are one size of another"
            group.refuse(why, f.span, "recursion.C2")
    sizes: Bound = {s: find(s) for s in stands_for}
    return replace(group, members=tuple((n, with_sizes(f, sizes)) for n, f in group.members))


def _handed(group: RecursiveGroup) -> Iterator[tuple[Dim, Dim]]:
    """The sizes that calls inside of the group hand over, each with the size of the parameter."""
    for call, callee in calls(group):
        for p, a in zip(callee.params, call.args, strict=True):
            yield from zip(_sizes(a.type), _sizes(p.type), strict=True)


def _sizes(of: Type) -> list[Dim]:
    parts = post_order(of, lambda t: () if isinstance(t, FuncType) else t.children)
    return [d for t in parts for d in dims(t)]


def calls(group: RecursiveGroup) -> Iterator[tuple[Call, Function]]:
    """The calls inside of the group, each with the function that it calls."""
    for _, f in group.members:
        for node in post_order(f.body):
            k = group.callee(node)
            if k is not None:
                assert isinstance(node, Call)
                yield node, group.members[k][1]


def require_one_size(group: RecursiveGroup) -> None:
    """Unsupported: a call of the group with arguments of other sizes than those that its function began with, or a
    result of a size that its arguments do not tell."""
    results = [f.result_type for _, f in group.members]
    for (_, f), result in zip(group.members, results, strict=True):
        if not same_type(result, results[0]):
            words = Apart((results[0], result))
            why = f"its functions give {words.type(results[0])} and {words.type(result)}{words.note}"
            group.refuse(why, f.span, "recursion.C3")
    for call, callee in calls(group):
        for p, a in zip(callee.params, call.args, strict=True):
            if not same_type(p.type, a.type):
                words = Apart((p.type, a.type))
                group.refuse(
                    f"it is called with {words.type(a.type)} for {p.name}, {words.type(p.type)}: arguments keep the"
                    f" sizes that they began with{words.note}",
                    call.span,
                    "recursion.C2",
                )
        if not same_type(call.type, callee.result_type):
            words = Apart((callee.result_type, call.type))
            given = f"a call gives {words.type(call.type)}"
            why = f"{given} where {words.type(callee.result_type)} is declared{words.note}"
            group.refuse(why, call.span, "recursion.C2")
    told = told_inside(group)
    odd = [s for s in (*symbols(results[0]), *told) if s in told and (s in symbols(results[0]) or told[s] > 1)]
    if odd:
        why = f"{odd[0].name} is a size that a run tells, of its result or in several places"
        group.refuse(why, group.members[0][1].span, "recursion.C2")


def told_inside(group: RecursiveGroup) -> Counter[Symbol]:
    """The sizes that a run of the functions tells, and in how many places it does."""
    known = {s for _, f in group.members for p in f.params for s in symbols(p.type)}
    nodes = [n for _, f in group.members for n in post_order(f.body, lambda n: () if _is_function(n) else n.children)]
    return Counter(s for n in nodes for s in introduced(n) if s not in known)


def _is_function(node: Expr) -> bool:
    return isinstance(node, Function)


def _names(sizes: Iterable[Symbol]) -> str:
    return " and ".join(s.name for s in sizes)
