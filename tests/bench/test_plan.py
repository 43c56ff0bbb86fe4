"""How small the planners' pools are, and what that takes: `make bench`.

The instances of google/minimalloc, from shared/data/minimalloc beside the repository, pools that were cut up, and one
long program. A ratio is the pool by the most bytes live at once; beside it stand CPU seconds. `exact` is asked for the
capacity, in the first test with one seed for all, in the second with several for the public ones.
"""

from __future__ import annotations

import random
import time

import pytest
from rich.console import Console
from rich.table import Table

from assay.lower.memory import PLANNERS, plan
from assay.semantics.memory import lower_bound
from tests.lower.memory.memory_problems import BOUNDS, CAPACITY, CUTS, cut_up, good, layered, minimalloc, size
from tests.lower.memory.test_memory_planners import check_sections

MINUTES = 2.0
SEEDS = 5


@pytest.mark.bench
@pytest.mark.row("U11", "U22")
def test_pools_of_each_planner() -> None:
    table = Table("instance", "buffers", "bound", *PLANNERS, title="pool / most bytes live at once, CPU seconds")
    for column in table.columns[1:]:
        column.justify = "right"
    missed = []
    problems = {n: minimalloc(n) for n in BOUNDS} | {n: cut_up(n) for n in CUTS}
    problems["long"] = layered(random.Random(1), 10_000)
    for name, problem in problems.items():
        bound = lower_bound(problem.buffers)
        cells = []
        for planner in PLANNERS:
            capacity = CAPACITY if planner == "exact" and name != "long" else None
            start = time.process_time()
            made = plan(problem, planner, capacity=capacity, time_limit=60 * MINUTES if capacity else None)
            seconds = time.process_time() - start
            assert (check_sections if name == "long" else good)(problem, made) and made.bound == bound
            cells.append(f"{size(made) / bound:.3f} in {seconds:.2f}")
            missed += [name] * (capacity is not None and name in BOUNDS and size(made) > capacity)
        table.add_row(name, str(len(problem.buffers)), str(bound), *cells)
    Console(width=140).print(table)
    assert missed == [], f"the capacity is not reached within {MINUTES} minutes"


@pytest.mark.bench
@pytest.mark.row("U11")
def test_the_capacity_with_every_seed() -> None:
    seeds = [f"seed {k}" for k in range(SEEDS)]
    table = Table("instance", *seeds, title="exact: CPU seconds until the capacity is reached")
    missed = []
    for name in BOUNDS:
        problem, cells = minimalloc(name), list[str]()
        for seed in range(SEEDS):
            start = time.process_time()
            made = plan(problem, capacity=CAPACITY, time_limit=60 * MINUTES, seed=seed)
            cells.append(f"{time.process_time() - start:.2f}")
            if size(made) > CAPACITY:
                missed.append((name, seed))
        table.add_row(name, *cells)
    Console(width=140).print(table)
    assert missed == [], f"the capacity is not reached within {MINUTES} minutes"
