"""What a function's body does besides give a value, in the order of evaluation (specs/verify.md, "Bisimulation").

A body's *events* are the steps that can fail, when they are first demanded on a path, its actions, and for each branch
taken the events inside. Each event is a number of the table that source and target share, so two bodies do the same
exactly if the numbers of their events are equal. A step that has succeeded on a path cannot fail there again: it is no
event the second time. The walk expands what several branches share, as running would; it stops at a budget.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from assay.semantics.graph import Expr, Fields, Function, If, Let, Made, Match, Pattern, Var, show_head
from assay.semantics.graph.effects import acts, can_fail
from assay.semantics.module import Module
from assay.semantics.walk import Worklist, post_order
from assay.verify.value_numbering.nesting import Nesting, Part, UndecidedNumbering, is_atom
from assay.verify.value_numbering.terms import Table


@dataclass(eq=False)
class Budget:
    """How many more steps a proof may take."""

    steps: int

    def spend(self, steps: int, node: Expr) -> None:
        """Take steps off; UndecidedNumbering if there are none left."""
        self.steps -= steps
        if self.steps < 0:
            at = f" at {node.span}" if node.span else ""
            raise UndecidedNumbering(f"too many paths share what can fail, {show_head(node)}{at} among it")


@dataclass(eq=False)
class BodyEvents:
    """The events of a body, as one number; what was evaluated on which path; and the paths to each scope inside."""

    events: int = -1
    demands: Counter[tuple[int, int]] = field(default_factory=Counter)
    """By path and number."""
    paths: dict[Part, list[int]] = field(default_factory=dict)
    nodes: dict[int, Expr] = field(default_factory=dict)
    """For each event that fails or acts the node."""


def root_path(table: Table) -> int:
    """The number of the path to a function's own body."""
    return table.number("path")


def inner_path(table: Table, outer: int, node: int, part: int) -> int:
    """A path is a number too: the path around it, the number of the node that branches, and which branch."""
    return table.number("path", outer, node, part)


def walk_body(
    function: Function,
    nest: Nesting,
    module: Module,
    table: Table,
    at: Callable[[Expr], int],
    action: Callable[[Expr], tuple[Any, ...]],
    budget: Budget,
    spans: bool,
) -> BodyEvents:
    """Walk the body of a function whose nodes have numbers, which `at` gives; inner functions are not entered.

    `action` says what an action does and to what. With `spans`, an event's place is part of it.
    """
    found = BodyEvents()
    path = [root_path(table)]
    found.paths[id(function), 0] = [path[0]]
    seen: set[int] = set()
    done: set[int] = set()
    undo: list[tuple[list[int], list[int]]] = [([], [])]
    lists: list[list[int]] = [[]]
    closed: list[int] = []

    def known(number: int) -> bool:
        """Whether a value was folded: it is constant, or several constants."""
        parts = table.keys[number][1] if table.keys[number][0] == "tuple" else (number,)
        return all(n in table.constants for n in parts)

    def fail(number: int, node: Expr) -> None:
        if number not in done and not known(number):
            done.add(number)
            undo[-1][1].append(number)
            event(("fail", number), node)

    def event(key: tuple[Any, ...], node: Expr) -> None:
        number = table.number(*key, node.span if spans and key[0] != "branch" else None)
        lists[-1].append(number)
        found.nodes.setdefault(number, node)

    def open_(node: Expr, part: int) -> None:
        path.append(inner_path(table, path[-1], at(node), part))
        found.paths.setdefault((id(node), part), []).append(path[-1])
        undo.append(([], []))
        lists.append([])

    def close() -> None:
        nodes, numbers = undo.pop()
        seen.difference_update(nodes)
        done.difference_update(numbers)
        closed.append(table.number("events", *lists.pop()))
        path.pop()

    def leave(node: Expr) -> None:
        if not isinstance(node, Let) and not is_atom(node):
            found.demands[path[-1], at(node)] += 1
        match node:
            case If() | Match():
                parts = len(node.children) - 1
                inside = tuple(closed[-parts:])
                del closed[-parts:]
                if any(len(table.keys[e]) > 1 for e in inside):
                    event(("branch", scrutiny(node, at(node.children[0]), table), inside), node)
            case Let() | Function():
                pass
            case _ if acts(node):
                event(("act", action(node)), node)
            case _ if can_fail(node, module):
                fail(at(node), node)
            case _:
                pass

    work = Worklist([function.body])
    for node in work:
        if id(node) not in nest.late or id(node) in seen or isinstance(node, Var):
            continue
        budget.spend(1, node)
        seen.add(id(node))
        undo[-1][0].append(id(node))
        work.on_leave(leave, node)
        match node:
            case If() | Match():
                for i, body in reversed(list(enumerate(node.children[1:], 1))):
                    work.on_leave(close)
                    work.add([body])
                    work.on_leave(open_, node, i)
                if isinstance(node, Match) and node.partial:
                    work.on_leave(lambda m: fail(cover(m, at(m.value), table), m), node)
                work.add(node.children[:1])
            case Function():
                pass
            case _:
                work.add(node.children)
    found.events = table.number("events", *lists.pop())
    return found


def patterns(node: Match) -> tuple[str, ...]:
    """The patterns as text; names do not matter, and whatever matches everything is one."""

    def one(p: Pattern) -> str:
        match p:
            case Made():
                return f"{p.constructor.data}.{p.constructor.name}/{len(p.fields)}"
            case Fields():
                return f"/{len(p.fields)}"
            case _:
                return "_"

    return tuple(" ".join(map(one, post_order(c.pattern))) for c in node.clauses)


def scrutiny(node: If | Match, value: int, table: Table) -> int:
    """What decides which branch is taken."""
    return table.number("which", value, *(patterns(node) if isinstance(node, Match) else ()))


def cover(node: Match, value: int, table: Table) -> int:
    """The step of a partial match that fails where no clause matches."""
    return table.number("cover", value, *patterns(node))
