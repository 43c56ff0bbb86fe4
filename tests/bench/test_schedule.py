"""What another order of the calls saves: real models, and randomly wired networks: `make bench`.

The peak is the most bytes of workspace live at once, before and after; the bound is what no order is below (the
optimum where it equals the peak); the pools are those that the planner makes. The order is asserted to be never worse,
and strictly better on every randomly wired network of 32 nodes a cell.
"""

from __future__ import annotations

import time
from collections.abc import Iterator

import onnx
import pytest
from rich.console import Console
from rich.table import Table

from assay.interp import graph, vector
from assay.lower.frontends.onnx.model import import_onnx
from assay.lower.liveness import find_lives
from assay.lower.pool import plan_pools
from assay.semantics.module import Module
from assay.verify.app.stages import lowering_passes
from tests.lower.wired import wired
from tests.models import light_models

SEEDS = range(4)


def networks() -> Iterator[tuple[str, onnx.ModelProto]]:
    for light in light_models():
        if light.name in ("inception_v1", "densenet121", "shufflenet"):
            yield light.name, light.load()
    for kind in ("ws", "er"):
        for seed in SEEDS:
            yield f"{kind} 32 x 3, seed {seed}", wired(kind, seed)
    for kind in ("ws", "er"):
        yield f"{kind} 64 x 2, seed 0", wired(kind, 0, nodes=64, cells=2)


def pool(module: Module) -> int:
    return plan_pools(find_lives(module, whole=True)).program.workspace_bytes or 0


@pytest.mark.bench
@pytest.mark.row("A25")
def test_peaks_before_and_after() -> None:
    table = Table(
        "network",
        "calls",
        "peak before",
        "after",
        "bound",
        "ratio",
        "pool before",
        "after",
        "s",
        title="schedule, bytes",
    )
    for column in table.columns[1:]:
        column.justify = "right"
    worse, same = [], []
    for name, proto in networks():
        module = import_onnx(proto, evaluate=graph.evaluate)
        for stage, run in lowering_passes(vector.run).items():
            if stage == "schedule":
                break
            module = run(module)
        start = time.process_time()
        made = lowering_passes(vector.run)["schedule"](module)
        seconds = time.process_time() - start
        claim = made.main.attrs["schedule"]
        before, after, bound = claim["before"], claim["after"], claim["bound"]
        steps = len(find_lives(made, whole=True).program.steps)
        shown = "optimal" if bound == after else str(bound)
        table.add_row(
            name, str(steps), str(before), str(after), shown, f"{before / after:.3f}", str(pool(module)),
                str(pool(made)),
            f"{seconds:.2f}",
        )  # fmt: skip
        worse += [name] * (after > before)
        same += [name] * (after == before and " 32 x " in name)
    Console(width=120).print(table)
    assert worse == [], "an order got worse"
    assert same == [], "a randomly wired network must gain"
