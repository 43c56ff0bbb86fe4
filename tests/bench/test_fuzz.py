"""Programs generated and judged in a second of one core: `make bench`.

CPU seconds of one process. What a backend cannot run is not counted as judged, but its time is. The one figure here
that is asserted as a time: a campaign is worth its name from a hundred programs a second and core.
"""

from __future__ import annotations

import time
from collections import Counter

import pytest
from rich.console import Console

from assay.verify.fuzz.cases import Recipe, campaign_example
from assay.verify.fuzz.targets import judged, target

pytestmark = pytest.mark.bench
COUNT = 600
WANTED = 100


@pytest.mark.parametrize("name", ["values", "onnxruntime"])
def test_programs_a_second(name: str) -> None:
    """A hundred valid programs a second, generated, run and judged with bounds, of all operators."""
    recipe, of, kinds = Recipe(), target(name), Counter[str]()
    for number in range(20):  # caches, imports
        case = campaign_example(recipe, 1, number)
        judged(of, case.module, case.inputs)
    nodes, making, start = 0, 0.0, time.process_time()
    for number in range(COUNT):
        before = time.process_time()
        case = campaign_example(recipe, 0, number)
        making += time.process_time() - before
        kinds[judged(of, case.module, case.inputs).kind] += 1
        nodes += len(case.nodes)
    spent = time.process_time() - start
    count = COUNT - kinds["unsaid"] - kinds["refused"]
    Console().print(
        f"{name}: {count / spent:.0f} programs a second judged, {COUNT / making:.0f} made;"
        f" {nodes / COUNT:.1f} nodes each; {dict(kinds)}"
    )
    assert count / spent >= WANTED
    assert kinds["right"] > COUNT // 2
