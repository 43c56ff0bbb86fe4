"""Sizes of tensors and storages, compared for all values of their symbols (specs/lower.md, "tvm")."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TypeAlias

from assay.semantics.scalar import Apply, Const, Dim, Expr, Interner, Var
from assay.semantics.walk import post_order

Polynomial: TypeAlias = dict[tuple[int, ...], int]
"""Factors of products of atoms; each atom is a number, and a product is sorted."""


def polynomial(expr: Dim, number: Interner) -> Polynomial:
    """`expr` as a sum of products; what is neither sum nor product is an atom."""
    if not isinstance(expr, Expr):
        return {(): expr} if expr else {}
    made: dict[int, Polynomial] = {}
    for node in post_order(
        expr, lambda n: n.children if isinstance(n, Apply) and n.op in ("add", "sub", "mul") else ()
    ):
        match node:
            case Const():
                made[id(node)] = {(): int(node.value)} if node.value else {}
            case Apply(op="add" | "sub" as op, args=(a, b)):
                sign = 1 if op == "add" else -1
                made[id(node)] = _plus(made[id(a)], {m: sign * k for m, k in made[id(b)].items()})
            case Apply(op="mul", args=(a, b)):
                made[id(node)] = times(made[id(a)], made[id(b)])
            case _:
                made[id(node)] = {(number(node),): 1}
    return made[id(expr)]


def _plus(a: Polynomial, b: Polynomial) -> Polynomial:
    total = dict(a)
    for m, k in b.items():
        total[m] = total.get(m, 0) + k
    return {m: k for m, k in total.items() if k}


def times(a: Polynomial, b: Polynomial) -> Polynomial:
    total: Polynomial = {}
    for m, j in a.items():
        for n, k in b.items():
            total = _plus(total, {tuple(sorted((*m, *n))): j * k})
    return total


def at_most(shape: Sequence[Dim], itemsize: int, nbytes: Dim, limits: Mapping[Var, int]) -> bool | None:
    """Whether a dense tensor takes at most `nbytes`, whatever its sizes are; None if that is not decided.

    `limits` are the largest values of symbols, as far as the program claims some.
    """
    number = Interner()
    need: Polynomial = {(): itemsize}
    for d in shape:
        need = times(need, polynomial(d, number))
    difference = _plus(polynomial(nbytes, number), {m: -k for m, k in need.items()})
    most = {number(v): n for v, n in limits.items()}
    low = 0
    for m, k in difference.items():
        if not m or k < 0:
            if any(a not in most for a in m):
                return None
            for a in m:
                k *= most[a]
            low += k
    if low >= 0:
        return True  # every other term is a product of sizes, with a factor above 0
    return False if not any(difference) else None
