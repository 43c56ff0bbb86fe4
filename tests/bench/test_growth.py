"""CPU time per node of `check`, stage by stage, as models grow: meshes and chains of 500 to 4,000 nodes: `make bench`.

Everything is to be near linear. A ratio is asserted, never a time: what a node costs in the largest model against the
cheapest of the others.
"""

from __future__ import annotations

import resource
from collections import defaultdict
from collections.abc import Callable

import pytest
from onnx import ModelProto
from rich.console import Console
from rich.table import Table

from assay.verify.app.check import CheckRun, Lowering
from tests.models import chain, mesh

SIZES = (500, 1000, 2000, 4000)
MOST = 3.0
"""How much dearer a node of the largest model may be. What grows as the square is dearer eight times over."""
LEAST = 2.0
"""CPU seconds below which a stage of the largest model is not looked at: caches and starts would decide."""


def cpu_seconds() -> float:
    """Of this process and of the children that have ended."""
    both = (resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    return sum(used.ru_utime + used.ru_stime for used in both)


def measure(model: ModelProto) -> dict[str, float]:
    """CPU seconds of each stage, its check included."""
    found, start = {}, cpu_seconds()
    for line in CheckRun(Lowering(model, "m")).lines():
        assert line.evidence.holds is not False, (line.stage, line.evidence)
        found[line.stage], start = cpu_seconds() - start, cpu_seconds()
    return found


@pytest.mark.bench
@pytest.mark.parametrize("of", [mesh, chain])
def test_every_stage_is_near_linear(of: Callable[[int], ModelProto]) -> None:
    measure(of(50))  # imports
    rows: dict[str, list[float]] = defaultdict(list)
    for size in SIZES:
        for stage, seconds in measure(of(size)).items():
            rows[stage].append(seconds)
    table = Table("stage", *map(str, SIZES), "ratio", title=f"{of.__name__}: CPU milliseconds per node")
    dear = {}
    for stage, seconds in rows.items():
        each = [s / n for s, n in zip(seconds, SIZES, strict=True)]
        ratio = each[-1] / min(each[:-1])
        table.add_row(stage, *(f"{1000 * e:.2f}" for e in each), f"{ratio:.1f}")
        if ratio > MOST and seconds[-1] > LEAST:
            dear[stage] = ratio
    Console(width=100).print(table)
    assert dear == {}
