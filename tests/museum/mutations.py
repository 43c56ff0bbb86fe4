"""Small random damage to a program in A-normal form (specs/verify.md, "anf")."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from assay.semantics.graph import Clause, Expr, Function, If, Let, Match, Var
from assay.semantics.module import Module
from assay.semantics.walk import post_order

Pick = Callable[[int], int]


def mutated(module: Module, pick: Pick) -> tuple[str, Module] | None:
    """What was done, and the damaged module; None where this damage has no place in it."""
    main = module.main
    lets = [n for n in post_order(main) if isinstance(n, Let)]
    if not lets:
        return None
    moves = [_swap, _into_branch, _out_of_branch, _swap_bodies]
    damages = [_drop, _repeat, _retarget, _rename, _other_value, _result, *moves]
    damage = damages[pick(len(damages))]
    start = pick(len(lets))
    for let in [*lets[start:], *lets[:start]]:
        change = damage(let, main, pick)
        if change is not None:
            return damage.__name__, module.with_(main=rebuilt(main, let, change))
    return None


def rebuilt(root: Function, at: Expr, change: Callable[[Expr], Expr]) -> Function:
    """`root` with one node changed."""
    new: dict[int, Expr] = {}
    for node in post_order(root):
        made = node.with_children([new[id(c)] for c in node.children])
        new[id(node)] = change(made) if node is at else made
    result = new[id(root)]
    assert isinstance(result, Function)
    return result


def visible(let: Let, main: Function) -> list[Var]:
    """Variables that might be meant at a binding: all of the function, in order."""
    return [*main.params, *(n.var for n in post_order(main) if isinstance(n, Let) and n is not let)]


def _like(let: Let, var: Expr, main: Function) -> list[Var]:
    return [v for v in visible(let, main) if str(v.type) == str(var.type) and v is not var and v is not let.var]


Change = Callable[[Expr], Expr] | None


def _drop(let: Let, main: Function, pick: Pick) -> Change:
    """The binding goes."""
    return lambda n: n.body  # type: ignore[attr-defined]


def _swap(let: Let, main: Function, pick: Pick) -> Change:
    """Two bindings change places."""
    if not isinstance(let.body, Let):
        return None

    def change(n: Expr) -> Expr:
        assert isinstance(n, Let) and isinstance(n.body, Let)
        return replace(n.body, body=replace(n, body=n.body.body))

    return change


def _repeat(let: Let, main: Function, pick: Pick) -> Change:
    """What is bound is evaluated again."""
    if isinstance(let.value, (Var, If, Match, Function)):
        return None

    def change(n: Expr) -> Expr:
        assert isinstance(n, Let)
        again = Let(n.type, Var(n.var.type, n.var.name + "_again", device=n.var.device), replace(n.value), n.body)
        return replace(n, body=again)

    return change


def _retarget(let: Let, main: Function, pick: Pick) -> Change:
    """An operand is another variable of the type."""
    at = [i for i, c in enumerate(let.value.children) if isinstance(c, Var) and _like(let, c, main)]
    if not at or isinstance(let.value, (Function, Match)):
        return None
    i = at[pick(len(at))]
    if isinstance(let.value, If) and i > 0:
        return None
    others = _like(let, let.value.children[i], main)
    other = others[pick(len(others))]

    def change(n: Expr) -> Expr:
        assert isinstance(n, Let)
        return replace(n, value=n.value.with_children([other if j == i else c for j, c in enumerate(n.value.children)]))

    return change


def _into_branch(let: Let, main: Function, pick: Pick) -> Change:
    """A binding before an If moves into a branch."""
    if not (isinstance(let.body, Let) and isinstance(let.body.value, If)):
        return None

    def change(n: Expr) -> Expr:
        assert isinstance(n, Let) and isinstance(n.body, Let) and isinstance(n.body.value, If)
        branch = n.body.value
        return replace(n.body, value=replace(branch, then=replace(n, body=branch.then, type=branch.then.type)))

    return change


def _out_of_branch(let: Let, main: Function, pick: Pick) -> Change:
    """The first binding of a branch moves before the If."""
    if not isinstance(let.value, If):
        return None
    which = pick(2)
    if not isinstance(let.value.children[1 + which], Let):
        which = 1 - which
    if not isinstance(let.value.children[1 + which], Let):
        return None

    def change(n: Expr) -> Expr:
        assert isinstance(n, Let) and isinstance(n.value, If)
        first = n.value.children[1 + which]
        assert isinstance(first, Let)
        bodies = [first.body if i == 1 + which else c for i, c in enumerate(n.value.children)]
        return replace(first, body=replace(n, value=n.value.with_children(bodies)), type=n.type)

    return change


def _rename(let: Let, main: Function, pick: Pick) -> Change:
    """The variable gets the name of another; its uses stay."""
    others = visible(let, main)
    other = others[pick(len(others))]
    return lambda n: replace(n, var=Var(let.var.type, other.name, device=let.var.device))  # type: ignore[type-var]


def _swap_bodies(let: Let, main: Function, pick: Pick) -> Change:
    """Two branches or clauses change places."""
    if isinstance(let.value, If):

        def turn(n: Expr) -> Expr:
            assert isinstance(n, Let) and isinstance(n.value, If)
            return replace(n, value=replace(n.value, then=n.value.otherwise, otherwise=n.value.then))

        return turn
    if isinstance(let.value, Match):
        first, second, *rest = let.value.clauses

        def change(n: Expr) -> Expr:
            assert isinstance(n, Let) and isinstance(n.value, Match)
            a, b, *others = n.value.clauses
            clauses = (Clause(a.pattern, b.body), Clause(b.pattern, a.body), *others)
            return replace(n, value=replace(n.value, clauses=clauses))

        return change
    return None


def _other_value(let: Let, main: Function, pick: Pick) -> Change:
    """The variable names another value of the type."""
    others = _like(let, let.var, main)
    if not others:
        return None
    other = others[pick(len(others))]
    return lambda n: replace(n, value=other)  # type: ignore[type-var]


def _result(let: Let, main: Function, pick: Pick) -> Change:
    """A chain gives another value of the type."""
    if isinstance(let.body, Let):
        return None
    others = _like(let, let.body, main)
    if not others:
        return None
    other = others[pick(len(others))]
    return lambda n: replace(n, body=other)  # type: ignore[type-var]
