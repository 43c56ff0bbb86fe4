"""The value of a scalar expression, one operation after another (specs/semantics.md, "Scalars")."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

import numpy as np

from assay.semantics.errors import Crash, Invalid
from assay.semantics.scalar.arithmetic import convert, operation
from assay.semantics.scalar.expression import Apply, Buffer, Cast, Choice, Const, Dim, Expr, Load, Number, Var


def evaluate(
    expr: Number,
    env: Mapping[Var, Any],
    load: Callable[[Buffer, tuple[Any, ...]], Any] | None = None,
    known: dict[int, Any] | None = None,
) -> Any:
    """The value of `expr` with variables from `env` and buffer elements from `load`: one operation after another.

    Works on NumPy scalars and, equally, on arrays of lanes (but for `Choice`, which takes one way). Sharing is
    respected: a shared node is computed once; also between expressions that are given one `known`, values of nodes by
    identity at this `env`.
    """
    if not isinstance(expr, Expr):
        return expr
    value: dict[int, Any] = {} if known is None else known
    with np.errstate(all="ignore"):
        for node in needed(expr, value):
            args = [value[id(c)] for c in node.children if id(c) in value]
            match node:
                case Const():
                    result = node.value
                case Var():
                    try:
                        result = env[node]
                    except KeyError:
                        raise Invalid(f"unbound scalar variable {node.name}", label="scalar.C7") from None
                case Apply():
                    result = operation(node.op).meaning(*args)
                case Cast():
                    result = convert(args[0], node.dtype)
                case Load():
                    if load is None:
                        raise Crash(f"{node} has no meaning without memory")
                    result = load(node.buffer, tuple(args))
                case Choice():
                    result = value[id(taken_branch(node, value))]
                case _:
                    raise Crash(f"no such scalar node: {type(node).__name__}")
            value[id(node)] = result
    return value[id(expr)]


def needed(root: Expr, value: Mapping[int, Any]) -> Iterator[Expr]:
    """The nodes whose values `root` needs, parts before wholes, left to right: all but what a `Choice` leaves out.

    The caller enters into `value`, by identity, the value of every node before it asks for the next one.
    """
    stack = [root]
    while stack:  # by hand: what a node needs depends on values that come on the way
        node = stack[-1]
        parts = node.children
        if isinstance(node, Choice):
            parts = [node.condition, taken_branch(node, value)] if id(node.condition) in value else [node.condition]
        missing = [c for c in parts if id(c) not in value]
        if missing:
            stack.extend(reversed(missing))
            continue
        stack.pop()
        if id(node) not in value:
            yield node


def taken_branch(node: Choice, value: Mapping[int, Any]) -> Expr:
    """The branch that is taken, once the value of the condition is there."""
    return node.then if value[id(node.condition)] else node.otherwise


def evaluate_dim(dim: Dim, env: Mapping[Var, int]) -> int:
    """The number that a dim stands for."""
    if isinstance(dim, int):
        return dim
    return int(evaluate(dim, {v: np.int64(n) for v, n in env.items()}))
