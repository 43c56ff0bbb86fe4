"""A-normal form and its proof over sizes, in CPU microseconds for each node of the source: `make bench`.

Time grows linearly: a node of a program of 100,000 calls costs no more than a few times what one of 1,000 does (caches
and Python's garbage collector make up the rest). Ratios are asserted, never times.
"""

from __future__ import annotations

import gc
import time
from collections.abc import Callable
from functools import partial

import pytest
from rich.console import Console
from rich.table import Table

from assay.lower.anf import to_anf
from assay.lower.anf.bbnf import to_bbnf
from assay.semantics.graph import Expr
from assay.semantics.module import Module
from assay.semantics.walk import post_order
from assay.verify.anf import check_anf
from tests.lower.anf.anf_shapes import SHAPES

SIZES = (1_000, 10_000, 100_000)
FACTOR = 4


def cpu_seconds(run: Callable[[], object], repeats: int) -> float:
    """The best of several runs."""
    best = float("inf")
    for _ in range(repeats):
        gc.collect()
        start = time.process_time()
        run()
        best = min(best, time.process_time() - start)
    return best


def per_node(prepare: Callable[[Module], Callable[[], object]], shape: str) -> list[float]:
    """CPU microseconds for each node, by size, of what `prepare` gives for the program; no larger size where it
    fails."""
    found: list[float] = []
    for size in SIZES:
        if found and found[-1] > FACTOR * found[0]:
            break
        module = Module({"main": SHAPES[shape](size)})
        start: Expr = module.main
        nodes = sum(1 for _ in post_order(start))
        found.append(cpu_seconds(prepare(module), 3 if size < SIZES[-1] else 1) / nodes * 1e6)
    return found


def proof(module: Module) -> Callable[[], object]:
    """The proof that the pass's result is the source; the pass itself is not in it."""
    target = to_anf(module)

    def run() -> None:
        evidence = check_anf(module, target)
        assert evidence.holds, evidence.detail

    return run


def report(title: str, rows: dict[str, list[float]]) -> list[str]:
    """Print the table; the shapes in which a large program costs too much a node."""
    table = Table("shape", *(f"{s:,}" for s in SIZES), "largest / smallest", title=title)
    for column in table.columns[1:]:
        column.justify = "right"
    for shape, times in rows.items():
        left_out = ["-"] * (len(SIZES) - len(times))
        table.add_row(shape, *(f"{t:.1f}" for t in times), *left_out, f"{times[-1] / times[0]:.1f}")
    Console(width=100).print(table)
    return [shape for shape, times in rows.items() if times[-1] > FACTOR * times[0]]


@pytest.mark.bench
@pytest.mark.parametrize("form", [to_anf, to_bbnf], ids=["anf", "bbnf"])
def test_the_pass_is_linear(form: Callable[[Module], Module]) -> None:
    rows = {shape: per_node(lambda m: partial(form, m), shape) for shape in SHAPES}
    assert report(f"{form.__name__}, CPU microseconds for each node", rows) == []


@pytest.mark.bench
def test_the_proof_is_linear() -> None:
    rows = {shape: per_node(proof, shape) for shape in SHAPES}
    assert report("the proof of anf, CPU microseconds for each node", rows) == []
