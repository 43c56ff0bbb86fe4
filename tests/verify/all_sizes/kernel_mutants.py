"""Random changes of kernels, and whether a run at some sizes sees one: for tests that nothing false is proved."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from assay.interp import tensor as interpreter
from assay.semantics.dtypes import INT64
from assay.semantics.errors import Invalid, Trap
from assay.semantics.scalar import Apply, Choice, Const, Expr, Load, Var, apply, const, evaluate_dim, select
from assay.semantics.tensor import For, PrimFunc, Seq, Stmt, Store, program_order
from assay.semantics.walk import post_order, rewrite

Change = Callable[[Expr], Expr | None]


def _number(rng: random.Random) -> Change:
    def change(node: Expr) -> Expr | None:
        if not isinstance(node, Const) or node.dtype.name == "bool":
            return None
        if node.dtype.is_integer:
            value = int(node.value) + rng.choice([-1, 1, 2])
            return const(value, node.dtype) if node.dtype.min <= value <= node.dtype.max else None
        return const(rng.choice([0.0, -0.0, 1.0, float("-inf"), float("inf"), float("nan")]), node.dtype)

    return change


OTHERS = {
    "add": ["sub", "max"], "sub": ["add"], "mul": ["add", "max"], "max": ["min", "add"], "min": ["max"], "lt": ["le"],
    "le": ["lt"], "gt": ["ge", "lt"], "ge": ["gt"], "eq": ["ne", "le"], "and": ["or"], "exp": ["tanh"], "div": ["mul"],
    "floordiv": ["truncdiv", "floormod"], "floormod": ["floordiv"],
}  # fmt: skip


def _operation(rng: random.Random) -> Change:
    def change(node: Expr) -> Expr | None:
        if not isinstance(node, Apply):
            return None
        if node.op == "select":
            return select(node.args[0], node.args[2], node.args[1])
        if len(node.args) == 2 and node.op in ("sub", "div", "lt", "floordiv") and rng.random() < 0.5:
            return apply(node.op, node.args[1], node.args[0])
        return apply(rng.choice(OTHERS[node.op]), *node.args) if node.op in OTHERS else None

    return change


def _variable(rng: random.Random, names: list[Var]) -> Change:
    def change(node: Expr) -> Expr | None:
        if not isinstance(node, Var) or node.dtype is not INT64:
            return None
        other = rng.choice([*names, None])
        return node + rng.choice([-1, 1]) if other is None else other if other is not node else None

    return change


def _element(rng: random.Random) -> Change:
    def change(node: Expr) -> Expr | None:
        if not isinstance(node, Load) or len(node.indices) < 2:
            return None
        order = list(node.indices)
        a, b = rng.sample(range(len(order)), 2)
        order[a], order[b] = order[b], order[a]
        return replace(node, indices=tuple(order))

    return change


def _arms(node: Expr) -> Expr | None:
    return replace(node, then=node.otherwise, otherwise=node.then) if isinstance(node, Choice) else None


def mutated(func: PrimFunc, rng: random.Random) -> PrimFunc | None:
    """The function with one random change; None where none was found."""
    statements = list(program_order(func.body))
    if rng.random() < 0.2:
        return _dropped(func, statements, rng)
    names = [s.var for s in statements if isinstance(s, For)]
    change = rng.choice([_number(rng), _operation(rng), _variable(rng, names), _element(rng), _arms])
    spots: list[tuple[Stmt, Expr, Expr]] = []
    for s in statements:
        for e in s.expressions:
            for n in post_order(e):
                try:
                    new = change(n)
                except Invalid:
                    new = None
                if new is not None and new.dtype is n.dtype:
                    spots.append((s, n, new))
    if not spots:
        return None
    where, old, new = rng.choice(spots)

    def put(e: Expr) -> Expr:
        return rewrite(e, lambda n: new if n is old else n)

    def stmt(s: Stmt) -> Stmt:
        return s if s is not where else _with(s, put)

    try:
        return replace(func, body=_rewritten(func.body, where, lambda s: _with(s, put)))
    except Invalid:
        return None


def _with(s: Stmt, put: Callable[[Expr], Expr]) -> Stmt:
    if isinstance(s, Store):
        return replace(s, indices=tuple(map(put, s.indices)), value=put(s.value))
    if isinstance(s, For):
        return replace(s, extent=put(s.extent))
    return replace(s, condition=put(s.condition)) if hasattr(s, "condition") else s


def _rewritten(body: Stmt, where: Stmt, change: Callable[[Stmt], Stmt]) -> Stmt:
    if body is where:
        body = change(body)
        return body
    parts = [_rewritten(c, where, change) for c in body.children]
    return body.with_children(parts)


def _dropped(func: PrimFunc, statements: list[Stmt], rng: random.Random) -> PrimFunc | None:
    several = [s for s in statements if isinstance(s, Seq) and len(s.body) > 1]
    if not several:
        return None
    s = rng.choice(several)
    k = rng.randrange(len(s.body))
    if rng.random() < 0.5:
        rest = (*s.body[:k], *s.body[k + 1 :])
    else:
        j = rng.randrange(len(s.body))
        swapped = list(s.body)
        swapped[j], swapped[k] = swapped[k], swapped[j]
        rest = tuple(swapped)
    return replace(func, body=_rewritten(func.body, s, lambda _: Seq(rest)))


def outcome(func: PrimFunc, sizes: Mapping[Var, int], seed: int) -> Any:
    """What a function gives at some sizes, or the kind of its trap."""
    rng = np.random.default_rng(seed)
    operands = []
    for b in func.inputs:
        shape = [evaluate_dim(d, sizes) for d in b.shape]
        if b.dtype.is_float:
            data = rng.choice([0.0, -0.0, 1.5, -2.25, 3.0, 0.1, float("nan"), float("inf"), -7.0], shape)
        else:
            data = rng.integers(-3 if b.dtype.kind == "int" else 0, 4 if b.dtype.kind != "bool" else 2, shape)
        operands.append(np.asarray(data).astype(b.dtype.numpy))
    scalars = [v.dtype.numpy.type(sizes[v]) for v in func.scalars]
    try:
        with np.errstate(all="ignore"):
            made = interpreter.run(func, operands, limit=200_000, scalars=scalars)
    except Trap as trap:
        return trap.kind
    return [np.where(a != a, 0, a).tobytes() + (a != a).tobytes() for a in map(np.asarray, made)]
