"""Whether a function of let chains evaluates what its source does, where and as often as it does (specs/verify.md,
"anf").

A total node belongs to the innermost scope around all its uses; what fails or acts, and what depends on it, belongs to
each path that demands it. So much work is allowed in each scope, and no more.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

from assay.semantics.graph import Expr, Function, If, Let, Match, TupleGetItem
from assay.semantics.graph.effects import is_opaque
from assay.semantics.walk import Worklist
from assay.verify.anf.shape import node_title
from assay.verify.value_numbering import GROWTH, STEPS, Numbered
from assay.verify.value_numbering.events import inner_path, root_path
from assay.verify.value_numbering.nesting import UndecidedNumbering, is_atom
from assay.verify.value_numbering.terms import Table

Place = tuple[int, int]
"""A scope: the number of the function (-1 for the outermost) and the path inside its body."""

TOP = -1


@dataclass(eq=False)
class Allowance:
    """What the source evaluates in each scope: how often, and in which order what is total comes first."""

    count: Counter[tuple[Place, int]] = field(default_factory=Counter)
    turns: dict[tuple[Place, int], list[int]] = field(default_factory=dict)
    distinct: Counter[int] = field(default_factory=Counter)
    where: dict[int, Place] = field(default_factory=dict)
    around: dict[Place, tuple[Expr, int] | None] = field(default_factory=dict)


def allowance(source: Numbered, table: Table) -> Allowance:
    """Count what a numbered source evaluates in each scope. UndecidedNumbering if too many paths lead to a node."""
    nest, of = source.nest, source.of
    found = Allowance()
    places: dict[int, list[Place]] = {}
    steps = STEPS + GROWTH * len(source.order)
    for scope, (node, part) in enumerate(nest.owner):  # outer scopes come first
        if isinstance(node, Let):
            continue
        if isinstance(node, Function):
            unit = TOP if node is source.function else of[id(node)]
            places[scope] = [(unit, root_path(table))]
            for (id_, which), paths in source.walks[id(node)].paths.items():
                if which:
                    places.setdefault(nest.parts[id_, which], []).extend((unit, p) for p in paths)
            for (path, number), n in source.walks[id(node)].demands.items():
                found.count[(unit, path), number] += n
                found.where.setdefault(number, (unit, path))
        elif id(node) not in nest.late:
            outer = places.get(nest.scope(node), [])
            places[scope] = [(u, inner_path(table, p, of[id(node)], part)) for u, p in outer]
            steps -= len(outer)
            if steps < 0:
                raise UndecidedNumbering(f"too many paths lead to {node_title(node)}")
    for scope, inside in places.items():
        node, part = nest.owner[scope]
        found.around.update((p, None if node is source.function else (node, part)) for p in inside)
    for turn, node in enumerate(source.order):
        if isinstance(node, Let) or is_atom(node) or node is source.function:
            continue
        number = of[id(node)]
        found.distinct[number] += 1
        for place in places.get(nest.scope(node), ()):
            steps -= 1
            if id(node) not in nest.late:
                found.count[place, number] += 1
                if not isinstance(node, TupleGetItem):  # it has the number of the field
                    found.turns.setdefault((place, number), []).append(turn)
                found.where[number] = place
            else:
                # what depends on a failure that has not happened may wait in the scope around its uses, too
                found.count[place, number] += 1
        if steps < 0:
            raise UndecidedNumbering(f"too many paths lead to {node_title(node)}")
    return found


def in_words(around: tuple[Expr, int] | None) -> str:
    """A scope for a message."""
    if around is None:
        return "the function's own chain"
    node, part = around
    match node:
        case Function():
            return f"the body of {node_title(node)}"
        case If():
            return f"the {('then', 'else')[part - 1]} branch of {node_title(node)}"
        case _:
            return f"clause {part - 1} of {node_title(node)}"


@dataclass(eq=False)
class _Chain:
    """A let chain being read: where it is, what it has bound, and the latest turn of what is total."""

    place: Place
    around: tuple[Expr, int] | None
    used: Counter[tuple[Place, int]]
    """How often something has been evaluated in this function, by scope; it is shared by the chains inside."""
    bound: list[int] = field(default_factory=list)
    turn: int = -1
    latest: Expr | None = None


def evaluation_fault(source: Numbered, target: Numbered, table: Table, ordered: bool) -> str | None:
    """Which binding of the target is work that the source does not do, or stands elsewhere, if one does."""
    allowed = allowance(source, table)
    visible: Counter[int] = Counter()
    top = _Chain((TOP, root_path(table)), None, Counter())
    work = Worklist[tuple[_Chain, Expr, int]]([(top, target.function.body, -1)])
    for chain, body, bind in work:
        if bind >= 0:  # a value is done, its branches too: from here on it is visible
            visible[bind] += 1
            chain.bound.append(bind)
        if not isinstance(body, Let):
            visible.subtract(chain.bound)
            continue
        node = body.value
        if is_atom(node):
            work.add([(chain, body.body, -1)])
            continue
        number = target.of[id(node)]
        wrong = _too_much(node, number, chain, allowed, visible) or (
            _out_of_turn(node, number, chain, allowed) if ordered else None
        )
        if wrong:
            return wrong
        work.add([(chain, body.body, number)])
        unit, path = chain.place
        match node:
            case If() | Match():
                work.add(
                    (_Chain((unit, inner_path(table, path, number, i)), (node, i), chain.used), part, -1)
                    for i, part in enumerate(node.children[1:], 1)
                )
            case Function() if not is_opaque(node):
                work.add([(_Chain((number, root_path(table)), (node, 0), Counter()), node.body, -1)])
            case _:
                pass
    return None


def _too_much(
    node: Expr,
    number: int,
    chain: _Chain,
    allowed: Allowance,
    visible: Counter[int],
) -> str | None:
    key = (chain.place, number)
    chain.used[key] += 1
    distinct = allowed.distinct[number]
    if not distinct:
        return f"{node_title(node)} is evaluated, in {in_words(chain.around)}; the source does not"
    if not allowed.count[key]:
        there = in_words(allowed.around.get(allowed.where.get(number, chain.place)))
        return f"{node_title(node)} is bound in {in_words(chain.around)}; the source evaluates it in {there}"
    for times, most in ((chain.used[key], allowed.count[key]), (visible[number] + 1, distinct)):
        if times > most:
            return f"{node_title(node)} is evaluated {times} times in {in_words(chain.around)}, {most} in the source"
    return None


def _out_of_turn(node: Expr, number: int, chain: _Chain, allowed: Allowance) -> str | None:
    turns = allowed.turns.get((chain.place, number), [])
    # where what is late has the same number, it is open which one this is
    clear = len(turns) == allowed.count[chain.place, number] and not isinstance(node, TupleGetItem)
    if clear and chain.used[chain.place, number] <= len(turns):
        turn = turns[chain.used[chain.place, number] - 1]
        if turn < chain.turn:
            assert chain.latest is not None
            return f"{node_title(node)} is bound after {node_title(chain.latest)}; the source evaluates it first"
        chain.turn, chain.latest = turn, node
    return None
