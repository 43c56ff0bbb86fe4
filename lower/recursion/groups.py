"""Functions that call one another, and which of these calls are the last thing that they do (specs/lower.md,
"recursion")."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NoReturn, TypeAlias

from assay.semantics.analyses.variables import called
from assay.semantics.errors import Span, Unsupported
from assay.semantics.graph import Call, Expr, Function, GlobalVar, If, Let, Match, Var, let_chain
from assay.semantics.graph.effects import is_opaque
from assay.semantics.walk import Worklist, components, post_order

Members: TypeAlias = tuple[tuple[str, Function], ...]


@dataclass(frozen=True, eq=False)
class RecursiveGroup:
    """Functions by name; `own` says which of them an operand names, by its number."""

    members: Members
    own: Callable[[Expr], int | None]

    def title(self, between: str = " and ") -> str:
        """The functions for people."""
        return between.join(n for n, _ in self.members)

    def callee(self, node: Expr) -> int | None:
        """Which function of the group a node calls."""
        return self.own(node.op) if isinstance(node, Call) and isinstance(node.op, Expr) else None

    @cached_property
    def calling(self) -> set[int]:
        """The nodes that are such a call, or have one inside, by identity; parts of functions inside too."""
        found: set[int] = set()
        for _, f in self.members:
            for node in post_order(f.body):
                if self.callee(node) is not None or any(id(c) in found for c in node.children):
                    found.add(id(node))
        return found

    def needs_frames(self) -> bool:
        """Whether a call of the group is not the last thing that its function does."""
        tails = {id(n) for _, f in self.members for n in tail_calls(f.body)}
        calls = (n for _, f in self.members for n in post_order(f.body) if self.callee(n) is not None)
        return any(id(n) not in tails for n in calls)

    def refuse(self, why: str, where: Span | None, label: str) -> NoReturn:
        """Unsupported: a recursion that cannot be cut into parts."""
        raise Unsupported(
            f"{self.title()}: recursion with more to do behind a call is planned with a stack of frames, but {why}; it"
            " is run by the virtual machine (--vm)",
            where=where,
            label=label,
        )


def tail_calls(body: Expr) -> Iterator[Call]:
    """The calls that are the last thing that a function in A-normal form does."""
    work = Worklist([body])
    for chain in work:
        lets, result = let_chain(chain)
        last: Expr = lets[-1].value if lets and lets[-1].var is result else result
        match last:
            case If():
                work.add((last.then, last.otherwise))
            case Let():
                work.add((last,))
            case Call():
                yield last
            case _:
                pass


def local_group(name: str, var: Var, function: Function) -> RecursiveGroup:
    """The group of a function inside of another one, which its variable names."""
    return RecursiveGroup(((name, function),), lambda op: 0 if op is var else None)


def module_group(names: Sequence[str], functions: Mapping[str, Function]) -> RecursiveGroup:
    """The group of functions of the module."""

    def own(op: Expr) -> int | None:
        return names.index(op.name) if isinstance(op, GlobalVar) and op.name in names else None

    return RecursiveGroup(tuple((n, functions[n]) for n in names), own)


def circles(functions: Mapping[str, Function]) -> list[tuple[str, ...]]:
    """The functions that call one another, those that are called before those that call them."""
    graphs = {n: d for n, d in functions.items() if not is_opaque(d)}
    calls = {n: [c for c in called(d).functions if c in graphs] for n, d in graphs.items()}
    return [c for c in components(calls) if len(c) > 1 or c[0] in calls[c[0]]]


def require_cuttable(group: RecursiveGroup) -> None:
    """Unsupported: calls of the group where no cut can be, its functions handed on as values, type parameters."""
    for _, f in group.members:
        if f.func_type.type_params:
            group.refuse("it has type parameters", f.span, "recursion.C1")
        for node in post_order(f.body):
            if isinstance(node, Function | Match) and id(node) in group.calling:
                what = "a function inside of it" if isinstance(node, Function) else "a match"
                group.refuse(f"{what} calls it", node.span, "recursion.C1")
            parts = node.args if isinstance(node, Call) else node.children
            named = next((c for c in parts if isinstance(c, Var | GlobalVar) and group.own(c) is not None), None)
            if named is not None:
                group.refuse("it is handed on as a value", node.span or named.span, "recursion.C1")
