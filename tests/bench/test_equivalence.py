"""Equality of kernels with their scheduled forms, for all inputs, beside z3 on the same question: `make bench`.

z3 gets what one would write without an evaluator of terms: additions and multiplications as unknown functions, all
loops unrolled. An operation is one that the definition would do in one run of both functions. CPU seconds; the ratio is
asserted, never a time.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import pytest
import z3
from rich.console import Console
from rich.table import Table

from assay.lower.legalize.kernels import build
from assay.lower.loops import schedule
from assay.semantics.dtypes import FLOAT32
from assay.semantics.tensor import PrimFunc
from assay.semantics.types import TensorType
from assay.verify.equivalence import BIT_EXACT, REAL, REASSOCIATED, Notion, equivalent

Pair = tuple[PrimFunc, PrimFunc]


def kernel(op: str, *shapes: tuple[int, ...], out: tuple[int, ...], **attrs: Any) -> PrimFunc:
    return build(op, attrs, tuple(TensorType(s, FLOAT32) for s in shapes), TensorType(out, FLOAT32), "kernel")


def matmul(n: int) -> Pair:
    func = kernel("matmul", (n, n), (n, n), out=(n, n))
    s = schedule(func).fission("i0").split("i0#1", 8).split("j0#1", 8).split("k", 8)
    return func, s.reorder("i0_o", "j0_o", "k_o", "i0_i", "k_i", "j0_i").vectorize("j0_i").func


def partial(n: int) -> Pair:
    func = kernel("matmul", (n, n), (n, n), out=(n, n))
    return func, schedule(func).rfactor("k", 4).func


def conv(c: int, h: int, o: int) -> Pair:
    func = kernel(
        "nn.conv2d",
        (1, c, h, h),
        (o, c, 3, 3),
        out=(1, o, h, h),
        strides=(1, 1),
        padding=(1, 1, 1, 1),
        dilation=(1, 1),
        groups=1,
    )
    return func, schedule(func).split("o", 4).split("i0#1", 8).reorder("c", "k0", "i0_o", "k1").func


def softmax(n: int) -> Pair:
    func = kernel("nn.softmax", (n, n), out=(n, n), axis=-1)
    return func, schedule(func).split("o0", 16).split("k0#1", 32).func


def layer_norm(n: int) -> Pair:
    func = kernel("nn.layer_norm", (n, n), (n,), (n,), out=(n, n), axes=(-1,))
    s = schedule(func)
    return func, s.split(s.loops[0], 16).func


def z3_matmul(n: int, tile: int) -> float:
    """CPU seconds to build both sums of every element and to have z3 say that none differs."""
    start = time.process_time()
    sort = z3.DeclareSort("F")
    add, mul = z3.Function("add", sort, sort, sort), z3.Function("mul", sort, sort, sort)
    zero = z3.Const("zero", sort)
    a, b = ([[z3.Const(f"{w}{i}_{j}", sort) for j in range(n)] for i in range(n)] for w in "ab")
    goals = []
    for i in range(n):
        for j in range(n):
            one = two = zero
            for k in range(n):
                one = add(one, mul(a[i][k], b[k][j]))
            for ko in range(0, n, tile):
                for k in range(ko, min(n, ko + tile)):
                    two = add(two, mul(a[i][k], b[k][j]))
            goals.append(one != two)
    solver = z3.Solver()
    solver.add(z3.Or(goals))
    assert solver.check() == z3.unsat
    return time.process_time() - start


CASES: dict[str, tuple[Callable[[], Pair], str, Notion, int]] = {
    "matmul 64": (lambda: matmul(64), "terms", BIT_EXACT, 4 * 64**3),
    "matmul 128": (lambda: matmul(128), "terms", BIT_EXACT, 4 * 128**3),
    "matmul 64, partial sums": (lambda: partial(64), "terms", REASSOCIATED, 4 * 64**3),
    "conv 16x32x32x16, 3x3": (lambda: conv(16, 32, 16), "terms", BIT_EXACT, 4 * 16 * 16 * 9 * 32**2),
    "softmax 512x512": (lambda: softmax(512), "terms", BIT_EXACT, 10 * 512**2),
    "layer norm 512x512": (lambda: layer_norm(512), "terms", BIT_EXACT, 14 * 512**2),
    "matmul 512": (lambda: matmul(512), "words", BIT_EXACT, 4 * 512**3),
    "matmul 512, partial sums": (lambda: partial(512), "words", REAL, 4 * 512**3),
    "conv 64x56x56x64, 3x3": (lambda: conv(64, 56, 64), "words", BIT_EXACT, 4 * 64 * 64 * 9 * 56**2),
    "softmax 512x512, words": (lambda: softmax(512), "words", BIT_EXACT, 10 * 512**2),
}


@pytest.mark.bench
def test_tens_of_times_faster_than_z3() -> None:
    theirs = z3_matmul(16, 8)
    source, target = matmul(16)
    equivalent(source, target)
    start = time.process_time()
    assert equivalent(source, target).holds(BIT_EXACT)
    ours = time.process_time() - start
    table = Table("functions", "shown", "by", "CPU s", "operations/s", title="equal for all inputs")
    for name, (make, how, notion, work) in CASES.items():
        source, target = make()
        start = time.process_time()
        verdict = equivalent(source, target, method=how)
        seconds = time.process_time() - start
        assert verdict.notion is notion, f"{name}: {verdict}"
        table.add_row(name, notion.name.lower().replace("_", "-"), how, f"{seconds:.2f}", f"{work / seconds:,.0f}")
    for name, seconds in (("matmul 16", ours), ("matmul 16, z3", theirs)):
        table.add_row(
            name, "bit-exact", "z3" if "z3" in name else "terms", f"{seconds:.3f}", f"{4 * 16**3 / seconds:,.0f}"
        )
    Console(width=100).print(table)
    assert theirs >= 20 * ours
