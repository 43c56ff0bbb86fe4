"""The let chains of a function, each for a pass to look at by itself (specs/lower.md, "Passes").

A chain is the lets of one body: a function's, a branch's, a clause's. Functions that are marked as primitive or for
another compiler are not entered.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from assay.lower.passes import split_blocks
from assay.semantics.graph import Expr, Function, If, Let, Match, Var, let_chain
from assay.semantics.graph.effects import is_opaque
from assay.semantics.graph.functions import as_function
from assay.semantics.walk import Worklist, post_order

New: TypeAlias = Sequence[tuple[Let, Expr]]
"""Lets in their new order: one of the chain's, for its variable and its place in somebody's source, and its value."""


@dataclass(eq=False)
class Chain:
    """A let chain: its lets in order, and what stands at its end."""

    head: Expr
    lets: list[Let]
    end: Expr


class Chains:
    """The chains of one function, outer ones first; `escaping` are the variables that something else than a value of
    their own chain uses."""

    def __init__(self, root: Function) -> None:
        self.root = root
        self.chains: list[Chain] = []
        self.escaping: set[Var] = set()
        owner: dict[Var, int] = {}
        work = Worklist([root.body])
        for head in work:
            chain = Chain(head, *let_chain(head))
            owner.update((let.var, len(self.chains)) for let in chain.lets)
            self.chains.append(chain)
            for value in (*(n.value for n in chain.lets), chain.end):
                work.add(_bodies(value))
                plain = value is not chain.end and all(isinstance(c, Var) or not c.children for c in value.children)
                used = (
                    (value.children or (value,)) if plain else post_order(value, _others)
                )  # a name's value may be a name
                for node in used:
                    if isinstance(node, Var) and (not plain or owner.get(node) != len(self.chains) - 1):
                        self.escaping.add(node)

    def changed(self, new: Callable[[Chain], New]) -> Function:
        """The function with each chain as `new` says, which is asked for outer chains first."""
        instead = [new(c) for c in self.chains]
        done: dict[int, Expr] = {}

        def inside(value: Expr) -> Expr:
            if not _bodies(value):
                return value
            if isinstance(value, Let):
                return done[id(value)]
            return value.with_children([done.get(id(c), c) for c in value.children])

        for chain, lets in zip(reversed(self.chains), reversed(instead), strict=True):
            result = inside(chain.end)
            for old, value in reversed(lets):
                result = old.with_children([inside(value), result])
            done[id(chain.head)] = result
        return split_blocks(as_function(self.root.with_children([done[id(self.root.body)]])))


def _bodies(value: Expr) -> list[Expr]:
    """The let chains directly inside a value."""
    match value:
        case If():
            return [value.then, value.otherwise]
        case Match():
            return [c.body for c in value.clauses]
        case Function() if not is_opaque(value):
            return [value.body]
        case Let():
            return [value]
        case _:
            return []


def _others(value: Expr) -> Sequence[Expr]:
    """The parts of a value that are no let chains."""
    inner = {id(b) for b in _bodies(value)}
    return [c for c in value.children if id(c) not in inner]
