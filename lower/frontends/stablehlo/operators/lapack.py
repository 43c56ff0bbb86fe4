"""The routines of LAPACK that JAX calls on a CPU (specs/lower.md, "StableHLO").

`jax.numpy.linalg` is custom calls of them there: factors with a triangle (potrf), with pivots (getrf) and with
Householder's reflections (geqrf, orgqr), and triangular solves (trsm). Each is done as its reference does it without
blocks, on whole tensors. What is found by iteration (eigenvalues, singular values) is refused.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from assay.lower.frontends.stablehlo.node import HloNode, HloRule, tensor_of
from assay.lower.frontends.stablehlo.operators.solving import (
    MOST_ROWS,
    at,
    column,
    factored,
    mask,
    row,
    square,
    stood,
    substituted,
    swapped,
)
from assay.semantics import graph
from assay.semantics.dtypes import DTYPES, INT64
from assay.semantics.graph import Expr
from assay.semantics.ops.sizes import product
from assay.semantics.scalar import Dim, simplify


def flag(node: HloNode, name: str, yes: str, no: str) -> bool:
    """Whether a flag of the call, the code of a letter, is one of `yes`; Invalid (`stablehlo.C6`) for one of
    neither."""
    config: Any = node.attr("mhlo.backend_config")
    found = config.get(name) if isinstance(config, dict) else None
    if not isinstance(found, int) or found not in (yes + no).encode():
        raise node.wrong(f"{name} is {found}; the code of a letter of {yes + no} is wanted")
    return found in yes.encode()


def matrices(node: HloNode, a: Expr) -> tuple[list[Dim], int, int]:
    """The axes before the last two, and the rows and columns of matrices of floats."""
    of = tensor_of(a)
    sizes: tuple[Dim, ...] = (0, 0, *of.shape)
    *outer, m, n = sizes
    if of.ndim < 2 or not of.dtype.is_float or not isinstance(m, int) or not isinstance(n, int):
        raise node.wrong(f"the operand is {of}; matrices of floats are wanted")
    if max(m, n) > MOST_ROWS:
        raise node.unsupported(f"matrices of {m} rows and {n} columns; {MOST_ROWS} are the most")
    return outer[2:], m, n


def potrf(node: HloNode) -> list[Expr]:
    """The Cholesky factor in its triangle, the operand in the other; and the first row, from 1, whose minor is not
    positive, or 0."""
    node.operands(1)
    (a,) = node.args
    size, lower = square(node, a), flag(node, "uplo", "L", "U")
    outer = tensor_of(a).shape[:-2]
    made = factored(node, a if lower else swapped(node, a), size)
    info = node.stretched(node.constant(0, INT64), *outer)
    for k in range(size - 1, -1, -1):
        good = node.shaped(node.call("greater", at(node, made, k), 0), *outer)
        info = node.call("where", good, info, node.constant(k + 1, INT64))
    return [made if lower else swapped(node, made), node.cast(info, DTYPES["int32"])]


def getrf(node: HloNode) -> list[Expr]:
    """The triangles of P L U = a, L with ones on its diagonal; the row, from 1, that each row was exchanged with; and
    the first pivot that is 0, from 1, or 0."""
    node.operands(1)
    (a,) = node.args
    outer, m, n = matrices(node, a)
    rows, columns, of = stood(m), stood(n).T, tensor_of(a).dtype
    pivots: list[Expr] = []
    info = node.stretched(node.constant(0, INT64), *outer)
    for k in range(min(m, n)):
        sizes = node.call("where", mask(node, rows < k, True), node.constant(-1, of),
                          node.call("abs", column(node, a, k)))  # fmt: skip
        found = node.call("topk", node.shaped(sizes, *outer, m), k=1, axis=len(outer), largest=True, sorted=True)
        pivot = node.builder.named(graph.get(found, 1))
        pivots.append(node.call("add", pivot, 1))
        a = exchanged(node, a, k, pivot)
        none = node.call("equal", at(node, a, k), 0)
        first = node.call("logical_and", node.shaped(none, *outer), node.call("equal", info, 0))
        info = node.call("where", first, node.constant(k + 1, INT64), info)
        below = column(node, a, k)
        below = node.call("where", none, below, node.call("divide", below, at(node, a, k)))
        a = node.call("where", mask(node, rows > k, columns == k), below, a)
        less = node.call("subtract", a, node.call("multiply", column(node, a, k), row(node, a, k)))
        a = node.call("where", mask(node, rows > k, columns > k), less, a)
    int32 = DTYPES["int32"]
    order = node.call("concat", *pivots, axis=len(outer)) if len(pivots) > 1 else (pivots or [empty(node, outer)])[0]
    return [a, node.cast(order, int32), node.cast(info, int32)]


def empty(node: HloNode, outer: list[Dim]) -> Expr:
    """No pivots."""
    return node.stretched(node.constant(np.zeros(0), INT64), *outer, 0)


def exchanged(node: HloNode, a: Expr, k: int, other: Expr) -> Expr:
    """Matrices with row k and another one, which is a vector of one number for each, exchanged."""
    *outer, m, n = tensor_of(a).shape
    line = node.line(m)
    places = node.call("where", node.call("equal", line, k), other, line)
    places = node.call("where", node.call("equal", line, other), node.constant(k, INT64), places)
    starts = node.call("multiply", node.line(simplify(product(outer))), m)
    places = node.call("add", places, node.shaped(starts, *outer, 1))
    return node.call("take", node.shaped(a, simplify(product((*outer, m))), n), places, axis=0)


def geqrf(node: HloNode) -> list[Expr]:
    """R in the upper triangle, below it the vectors of the reflections whose product is Q, and their factors."""
    node.operands(1)
    (a,) = node.args
    outer, m, n = matrices(node, a)
    rows, columns, of = stood(m), stood(n).T, tensor_of(a).dtype
    rank, zero = len(outer) + 2, node.constant(0, of)
    factors: list[Expr] = []
    for k in range(min(m, n)):
        x, head = node.call("where", mask(node, rows >= k, True), column(node, a, k), zero), at(node, a, k)
        largest = node.call("max", node.call("abs", x), axis=(rank - 2,), keepdims=True)
        scale = node.call("where", node.call("equal", largest, 0), node.constant(1, of), largest)
        part = node.call("divide", x, scale)
        norm = node.call("sum", node.call("multiply", part, part), axis=(rank - 2,), keepdims=True)
        norm = node.call("multiply", scale, node.call("sqrt", norm))
        beta = node.call("where", node.call("less", head, 0), norm, node.call("negative", norm))
        below = node.call("where", mask(node, rows > k, True), column(node, a, k), zero)
        still = node.call("equal", node.call("max", node.call("abs", below), axis=(rank - 2,), keepdims=True), 0)
        beta = node.call("where", still, head, beta)
        factor = node.call("where", still, zero, node.call("divide", node.call("subtract", beta, head), beta))
        v = node.call("where", still, zero, node.call("divide", below, node.call("subtract", head, beta)))
        a = node.call("where", mask(node, True, columns > k), reflected(node, a, v, k, factor), a)
        a = node.call("where", mask(node, rows > k, columns == k), v, a)
        a = node.call("where", mask(node, rows == k, columns == k), beta, a)
        factors.append(node.shaped(factor, *outer, 1))
    taus = node.call("concat", *factors, axis=len(outer)) if len(factors) > 1 else factors[0] if factors else None
    return [a, node.cast(empty(node, outer), of) if taus is None else taus]


def reflected(node: HloNode, a: Expr, below: Expr, k: int, factor: Expr) -> Expr:
    """Matrices after the reflection by a vector of which row k is 1 and the rows below are given."""
    m, rank, of = tensor_of(a).static_shape[-2], tensor_of(a).ndim, tensor_of(a).dtype
    rows = stood(m)
    v = node.call("where", mask(node, rows == k, True), node.constant(1, of), below)
    along = node.call("sum", node.call("multiply", v, a), axis=(rank - 2,), keepdims=True)
    return node.call("subtract", a, node.call("multiply", v, node.call("multiply", factor, along)))


def orgqr(node: HloNode) -> Expr:
    """The first columns of the product of reflections, as `geqrf` leaves them."""
    node.operands(2)
    a, taus = node.args
    outer, m, n = matrices(node, a)
    count, of = tensor_of(taus).shape[-1] if tensor_of(taus).ndim else 0, tensor_of(a).dtype
    if not isinstance(count, int) or count > min(m, n) or tensor_of(taus).ndim != len(outer) + 1:
        raise node.wrong(f"the factors are {tensor_of(taus)}; at most {min(m, n)} for each matrix are wanted")
    q, rows = node.stretched(node.constant(np.eye(m, n), of), *outer, m, n), stood(m)
    for k in range(count - 1, -1, -1):
        below = node.call("where", mask(node, rows > k, True), column(node, a, k), node.constant(0, of))
        factor = node.shaped(node.cut(taus, len(outer), k, k + 1), *outer, 1, 1)
        q = reflected(node, q, below, k, factor)
    return q


def trsm(node: HloNode) -> Expr:
    """x where op(a) x = b, or x op(a) = b: of `a` only the triangle is read."""
    node.operands(2)
    a, b = node.args
    size = square(node, a)
    lower, left = flag(node, "uplo", "L", "U"), flag(node, "side", "L", "R")
    if not flag(node, "trans_x", "N", "TC"):
        a, lower = swapped(node, a), not lower
    if not left:
        a, b, lower = swapped(node, a), swapped(node, b), not lower
    x = substituted(node, a, b, size, lower, flag(node, "diag", "U", "N"))
    return x if left else swapped(node, x)


ROUTINES: dict[str, HloRule] = {"geqrf": geqrf, "getrf": getrf, "orgqr": orgqr, "potrf": potrf, "trsm": trsm}
LAPACK: dict[str, HloRule] = {f"lapack_{p}{name}_ffi": rule for p in "sd" for name, rule in ROUTINES.items()}
"""By the name of the custom call, for floats of 32 and of 64 bits."""
