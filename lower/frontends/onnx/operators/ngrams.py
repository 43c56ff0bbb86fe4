"""TfIdfVectorizer of ONNX over integers and strings: how often n-grams of a pool occur (specs/lower.md, "Import")."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from assay.lower.frontends.onnx.node import Node, Rule, tensor
from assay.semantics.dtypes import FLOAT32, INT64
from assay.semantics.graph import Expr


def vectorizer(node: Node) -> Expr:
    """For each column the n-grams of the pool that count there, their elements up to `max_skip_count` apart. Single
    elements have no distance, and count once."""
    x = tensor(node[0])
    pool = node.attrs.get("pool_int64s") or ()
    if texts := node.attrs.get("pool_strings"):
        pool = node.strings.numbers(texts).tolist()
    if bool(texts) != (node[0] in node.builder.texts) or not pool:
        raise node.wrong("a pool of strings for strings, or pool_int64s for integers, is wanted")
    if x.ndim not in (1, 2) or not isinstance(x.shape[-1], int):
        raise node.wrong(f"X is {x}; a vector or rows of a known size are wanted")
    mode = node.choice("mode", "TF", "IDF", "TFIDF")
    columns = node.attrs["ngram_indexes"]
    pools = _pools(node, pool)
    if sum(map(len, pools)) != len(columns) or min(columns, default=0) < 0:
        raise node.wrong(f"{sum(map(len, pools))} n-grams in the pool, but {len(columns)} places in ngram_indexes")
    rows = node.cast(node.shaped(node[0], (1, *x.shape) if x.ndim == 1 else x.shape), INT64)
    counts: list[Expr] = []
    used: list[int] = []
    first = 0
    for n, pool in enumerate(pools, start=1):
        if len(pool) and node.attrs["min_gram_length"] <= n <= node.attrs["max_gram_length"]:
            counts.append(_counted(node, rows, pool, 1 if n == 1 else node.attrs["max_skip_count"] + 1))
            used += columns[first : first + len(pool)]
        first += len(pool)
    width = max(columns, default=-1) + 1
    shape = (*x.shape[:-1], width)
    if not counts:
        return node.full(shape, 0.0, FLOAT32)
    whole = node.call("concat", *counts, axis=1) if len(counts) > 1 else counts[0]
    rows_of = node.call("permute_dims", whole, axes=(1, 0))
    none = node.full((width, tensor(rows).shape[0]), 0, INT64)
    places = node.constant(np.array(used, np.int64).reshape(-1, 1))
    summed = node.call("scatter_nd", none, places, rows_of, reduction="add")
    found = node.shaped(node.cast(node.call("permute_dims", summed, axes=(1, 0)), FLOAT32), shape)
    factor = node.constant(_weights(node, columns, width))
    if mode == "IDF":
        return node.call("where", node.call("greater", found, 0), factor, 0)
    return found if mode == "TF" else node.call("multiply", found, factor)


def _weights(node: Node, columns: Sequence[int], width: int) -> np.ndarray[Any, np.dtype[np.float32]]:
    """The weight of each column: that of the n-gram of the pool which counts there."""
    weights = node.attrs.get("weights") or [1.0] * len(columns)
    if len(weights) != len(columns):
        raise node.wrong(f"{len(weights)} weights for {len(columns)} n-grams; as many are wanted")
    found: dict[int, float] = {}
    for column, weight in zip(columns, weights, strict=True):
        if found.setdefault(column, weight) != weight:
            raise node.unsupported(f"n-grams of the weights {found[column]:g} and {weight:g} in the column {column}")
    return np.array([found.get(k, 0.0) for k in range(width)], np.float32)


def _pools(node: Node, pool: Sequence[int]) -> list[np.ndarray[tuple[int, int], np.dtype[np.int64]]]:
    """For each length the n-grams of that length, as rows."""
    starts = node.attrs["ngram_counts"]
    found = []
    for n, (a, b) in enumerate(zip(starts, (*starts[1:], len(pool)), strict=True), start=1):
        if not 0 <= a <= b <= len(pool) or (b - a) % n:
            raise node.wrong(f"ngram_counts is {starts}: {a} to {b} of {len(pool)} elements are no {n}-grams")
        found.append(np.array(pool[a:b], np.int64).reshape(-1, n))
    return found


def _counted(node: Node, rows: Expr, pool: np.ndarray[tuple[int, int], np.dtype[np.int64]], distances: int) -> Expr:
    """How often each n-gram occurs in each row, its elements at each of the distances."""
    batch, size = tensor(rows).shape
    assert isinstance(size, int)
    count, n = pool.shape
    total = node.full((batch, count), 0, INT64)
    for d in range(1, distances + 1):
        windows = size - d * (n - 1)
        if windows <= 0:
            break
        same: Expr | None = None
        for k in range(n):
            part = node.call("strided_slice", rows, axes=(1,), begin=(k * d,), end=(k * d + windows,), strides=(1,))
            part = node.call("expand_dims", part, axis=(2,))
            equal = node.call("equal", part, node.constant(pool[:, k].copy()))
            same = equal if same is None else node.call("logical_and", same, equal)
        assert same is not None
        total = node.call("add", total, node.call("sum", node.cast(same, INT64), axis=(1,), keepdims=False))
    return total


TABLE: dict[str, Rule] = {"TfIdfVectorizer": vectorizer}
