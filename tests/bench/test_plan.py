"""How small the planners' pools are, and what that takes: `make bench`.

The instances of google/minimalloc, from shared/data/minimalloc beside the repository, and one long program. A ratio is
the pool by the most bytes live at once; beside it stand CPU seconds. `exact` is asked for the capacity of each file.
"""

from __future__ import annotations

import random
import time

import pytest
from rich.console import Console
from rich.table import Table

from assay.lower.memory import PLANNERS, plan
from assay.semantics.memory import lower_bound
from tests.lower.memory_problems import BOUNDS, CAPACITY, good, layered, minimalloc, size
from tests.lower.test_memory_planners import check_sections

MINUTES = 3.0


@pytest.mark.bench
@pytest.mark.row("U11", "U22")
def test_pools_of_each_planner() -> None:
    table = Table("instance", "buffers", "bound", *PLANNERS, title="pool / most bytes live at once, CPU seconds")
    for column in table.columns[1:]:
        column.justify = "right"
    missed = []
    problems = {n: minimalloc(n) for n in BOUNDS} | {"long": layered(random.Random(1), 10_000)}
    for name, problem in problems.items():
        bound = lower_bound(problem.buffers)
        cells = []
        for planner in PLANNERS:
            capacity = CAPACITY if planner == "exact" and name in BOUNDS else None
            start = time.process_time()
            made = plan(problem, planner, capacity=capacity, time_limit=60 * MINUTES if capacity else None)
            seconds = time.process_time() - start
            assert (good if name in BOUNDS else check_sections)(problem, made) and made.bound == bound
            cells.append(f"{size(made) / bound:.3f} in {seconds:.2f}")
            missed += [name] * (capacity is not None and size(made) > capacity)
        table.add_row(name, str(len(problem.buffers)), str(bound), *cells)
    Console(width=140).print(table)
    assert missed == [], f"the capacity is not reached within {MINUTES} minutes"
