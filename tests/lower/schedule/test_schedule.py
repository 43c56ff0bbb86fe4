"""The order of the calls: never worse, the same values, and exact where it says so."""

from __future__ import annotations

import os
import random
import subprocess
import sys

import numpy as np
import pytest
from hypothesis import given, settings

from assay.interp import graph, vector
from assay.lower import schedule as lower_schedule
from assay.lower.anf import to_anf
from assay.lower.frontends.onnx.model import import_onnx
from assay.lower.legalize.kernels import build
from assay.lower.liveness import find_lives
from assay.lower.schedule import find_order, schedule
from assay.lower.schedule.reduce import reduced_blocks
from assay.lower.schedule.search import Puzzle, beam, best_order, search
from assay.lower.schedule.task_graph import TaskGraph, peak
from assay.semantics.alias import bindings
from assay.semantics.dtypes import BOOL, FLOAT32, INT64
from assay.semantics.errors import Invalid
from assay.semantics.graph import CallTIR, Expr, call, call_tir, function, get, if_, let, tuple_of, var
from assay.semantics.graph.effects import can_fail, kernel_can_trap
from assay.semantics.memory import lower_bound
from assay.semantics.module import Module
from assay.semantics.rules import check as check_rules
from assay.semantics.scalar import Var as Symbol
from assay.semantics.types import TensorType
from assay.verify.app.stages import lowering_passes
from assay.verify.schedule import check_call_order
from tests.lower.schedule.scheduling import least_of_orders, least_of_sets, modules, random_work, series_parallel
from tests.lower.wired import wired
from tests.scale import MANY

F = TensorType((3,), FLOAT32)


def before_schedule(module: Module) -> Module:
    for name, run in lowering_passes(vector.run).items():
        if name == "schedule":
            break
        module = module if name == "fuse" else run(module)
    return module


def live_bytes(module: Module) -> int:
    """The peak as chapters liveness and pool have it."""
    return lower_bound(find_lives(module, whole=True).program.placed("workspace"))


def check_order(work: TaskGraph, order: list[int]) -> None:
    place = {c: i for i, c in enumerate(order)}
    assert sorted(order) == list(range(len(work.need)))
    assert all(place[p] < place[c] for c in order for p in work.before[c])


# --- modules ------------------------------------------------------------------------------------------------------


@pytest.mark.row("A25")
@settings(deadline=None)
@given(modules(6))
def test_the_best_of_all_orders(module: Module) -> None:
    """Values and traps stay; the peaks are liveness's; the order is as good as the best of all, laid out one by one."""
    source = before_schedule(module)
    target = schedule(source)
    check_rules(target)
    claim = target.main.attrs["schedule"]
    assert claim["before"] == live_bytes(source) and claim["after"] == live_bytes(target)
    traps = {n for n, k in source.kernels.items() if kernel_can_trap(k)}
    assert claim["after"] == claim["bound"] == least_of_orders(find_lives(source, whole=True).program, traps)
    inputs = {"x": np.array([1, 2, 3], np.float32), "i": np.array([0, 0])}
    got, want = graph.run(target, inputs), graph.run(source, inputs)
    assert {n: a.tobytes() for n, a in got.items()} == {n: a.tobytes() for n, a in want.items()}

    def trapping(of: Module) -> list[str]:
        return [v.name for v, c in bindings(of.main) if isinstance(c, CallTIR) and c.func in traps]

    assert trapping(source) == trapping(target)


def test_a_branch_that_shrinks_runs_before_one_that_grows() -> None:
    """Two long branches end in a small sum each: one after the other instead of side by side."""
    x = var("x", TensorType((3,), FLOAT32))
    wide = [call("concat", x, x, x, x, axis=0) for _ in range(3)]
    names = [var(f"w{i}", w.type) for i, w in enumerate(wide)]
    ends = [call("sum", n, axis=(0,), keepdims=True) for n in names]
    body: Expr = call("add", call("add", ends[0], ends[1]), ends[2])
    for n, w in reversed(list(zip(names, wide, strict=True))):
        body = let(n, w, body)
    source = before_schedule(Module({"main": function([x], body)}))
    claim = schedule(source).main.attrs["schedule"]
    assert claim == {"before": 3 * 48 + 4, "after": 48 + 4 + 4, "bound": 48 + 4 + 4}


def test_a_call_that_reads_a_field_waits_for_no_other_field() -> None:
    """The bytes of a field are there before the tuple is; so its name must be, too."""
    x = var("x", F)
    both = tuple_of(call("exp", x), call("negative", x))
    sums = [call("sum", get(both, i), axis=(0,), keepdims=False) for i in range(2)]
    source = before_schedule(Module({"main": function([x], tuple_of(*sums))}))
    target = schedule(source)
    check_rules(target)
    assert target.main.attrs["schedule"] == {"before": 24, "after": 12, "bound": 12}
    assert check_call_order(source, target).holds


def test_an_order_that_is_best_stays_as_it_is() -> None:
    x = var("x", F)
    source = before_schedule(Module({"main": function([x], call("exp", call("nn.relu", call("exp", x))))}))
    target = schedule(source)
    assert target.main.body is source.main.body
    assert target.main.attrs["schedule"] == {"before": 24, "after": 24, "bound": 24}


def test_what_cannot_be_planned_is_left_alone() -> None:
    x, c = var("x", F), var("c", TensorType((), BOOL))
    module = Module({"main": function([x, c], if_(c, call("exp", x), x)), "other": function([x], x)})
    normal = to_anf(module)
    assert schedule(normal) is normal


@pytest.mark.row("A25")
def test_what_traps_for_sizes_alone_may_move_where_sizes_are_known() -> None:
    """A window that does not fit known sizes is refused before anything runs."""
    attrs = {"strides": (1,), "padding": (0, 0), "dilation": (1,), "groups": 1}
    for n, may in ((9, False), (Symbol("n", INT64), True)):
        x, w = var("x", TensorType((1, 2, n), FLOAT32)), var("w", TensorType((3, 2, 5), FLOAT32))
        node = call("nn.conv1d", x, w, **attrs)
        assert can_fail(node, Module({})) == may
    assert can_fail(call("take", var("x", F), var("i", TensorType((2,), INT64)), axis=0), Module({}))
    with pytest.raises(Invalid, match="does not fit"):
        call("nn.conv1d", var("x", TensorType((1, 2, 4), FLOAT32)), var("w", TensorType((3, 2, 5), FLOAT32)), **attrs)


@pytest.mark.row("A25")
def test_no_call_and_a_result_that_is_read() -> None:
    x = var("x", F)
    assert schedule(Module({"main": function([x], x)})).main.attrs["schedule"]["after"] == 0
    e = var("e", F)
    body = let(e, call_tir("exp", [x], F), e)
    kernel = build("exp", {}, (F,), F, "exp")
    assert schedule(Module({"main": function([x], body), "exp": kernel})).main.attrs["schedule"]["after"] == 0


# --- work ---------------------------------------------------------------------------------------------------------


@pytest.mark.row("A25")
@pytest.mark.parametrize("near", [3, 5, 99])
def test_exact_on_small_graphs(near: int) -> None:
    better = 0
    for seed in range(150):
        rng = random.Random(f"{near} {seed}")
        some = random_work(rng, rng.randint(1, 10), near)
        found = find_order(some)
        check_order(some, found.order)
        assert found.after == peak(some, found.order) == found.bound == least_of_sets(some), seed
        better += found.after < found.before
    assert better > 10, "the graphs must have something to gain"


@pytest.mark.parametrize("effort", [0, 10, 60])
def test_without_effort_still_no_worse_and_no_false_claim(effort: int) -> None:
    short = 0
    for seed in range(150):
        rng = random.Random(seed)
        some = random_work(rng, rng.randint(6, 10), 5)
        found = find_order(some, effort)
        check_order(some, found.order)
        assert found.bound <= least_of_sets(some) <= found.after == peak(some, found.order) <= found.before
        short += found.bound < found.after
    assert short > 0, "some graph must need more effort than that"


@pytest.mark.row("A25")
def test_series_parallel_graphs_need_no_search(monkeypatch: pytest.MonkeyPatch) -> None:
    """The reductions alone leave a chain, however large the graph; small ones agree with brute force."""
    chains: list[bool] = []

    def spy(puzzle: Puzzle, *rest: int) -> object:
        chains.append(all(len(b) <= 1 for b in (*puzzle.before, *puzzle.after)))
        return best_order(puzzle, *rest)

    monkeypatch.setattr(lower_schedule, "best_order", spy)
    small = 0
    for seed in range(250):
        some = series_parallel(random.Random(seed), 3 if seed < 200 else 8)
        found = find_order(some)
        check_order(some, found.order)
        assert found.after == found.bound == peak(some, found.order)
        if len(some.need) <= 12:
            small += 1
            assert found.after == least_of_sets(some), seed
    assert small > 50 and len(chains) > 20 and all(chains)


def test_both_directions_and_the_beam_agree_with_brute_force() -> None:
    for seed in range(150):
        some = random_work(random.Random(seed), 8, 5)
        blocks = reduced_blocks(some, [[c] for c in range(8)], lambda c: False)
        puzzle, groups = blocks.puzzle(0, 0)
        want = least_of_sets(some)
        for backward in (False, True):
            for found in (search(puzzle, 0, 10**9, 10**6, backward), beam(puzzle, 0, 10**9, 10**6, 10**9, backward)):
                assert found.order is not None
                order = [c for b in found.order for c in groups[b]]
                check_order(some, order)
                assert peak(some, order) == want == found.peak, (seed, backward)


def test_a_search_that_ends_early_keeps_a_true_bound() -> None:
    some = random_work(random.Random(3), 10, 99)
    puzzle, _ = reduced_blocks(some, [[c] for c in range(10)], lambda c: False).puzzle(0, 0)
    want = least_of_sets(some)
    for effort in range(60):
        found = search(puzzle, 0, 10**9, effort)
        assert found.bound <= want
        assert found.order is None or found.peak == want


def test_a_window_around_the_peak(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where a segment is too large for the search, windows still help."""
    monkeypatch.setattr(lower_schedule, "MOST_SEARCHED", 0)
    better = 0
    for seed in range(40):
        some = random_work(random.Random(seed), 40, 8)
        found = find_order(some)
        check_order(some, found.order)
        assert found.after == peak(some, found.order) <= found.before
        better += found.after < found.before
    assert better > 10


# --- size and sameness --------------------------------------------------------------------------------------------


def graph_of(rows: list[list[int]]) -> TaskGraph:
    """A call for each row, which makes one tensor and reads those of the calls in the row."""
    rng = random.Random(0)
    size = [rng.randrange(1, 100) for _ in rows]
    readers: list[list[int]] = [[] for _ in rows]
    for c, row in enumerate(rows):
        for t in row:
            readers[t].append(c)
    makes = [[i] if readers[i] else [] for i in range(len(rows))]
    return TaskGraph([var(f"v{i}", F) for i in range(len(rows))], size[:], makes, rows, size, readers, rows)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "count", "exact"),
    [
        ("chain", MANY, True),
        ("residual", MANY, True),
        ("towers", MANY, True),
        ("star", MANY, True),
        ("window", 3_000, False),
        ("apart", MANY, True),
    ],
)
def test_large_graphs_end_soon(name: str, count: int, exact: bool) -> None:
    rng = random.Random(0)
    rows: list[list[int]] = [[]]
    for i in range(1, count):
        match name:
            case "chain":
                rows.append([i - 1])
            case "residual":
                rows.append([i - 3, i - 1] if i % 3 == 0 else [i - 1])
            case "towers":
                rows.append([0] if i < 3 else [i - 2] if i < count - 1 else [i - 2, i - 1])
            case "star":
                rows.append([0] if i < count - 1 else list(range(1, count - 1)))
            case "window":
                rows.append(sorted({rng.randrange(max(0, i - 50), i) for _ in range(2)}))
            case _:
                rows.append([])
    some = graph_of(rows)
    found = find_order(some)
    check_order(some, found.order)
    assert found.bound <= found.after == peak(some, found.order) <= found.before
    assert (found.after == found.bound) == exact


@pytest.mark.slow
def test_a_module_with_many_calls() -> None:
    x = var("x", F)
    names = [var(f"v{i}", F) for i in range(MANY)]
    body: Expr = names[-1]
    for i in reversed(range(len(names))):
        body = let(names[i], call_tir("exp", [names[i - 1] if i else x], F), body)
    module = Module({"main": function([x], body), "exp": build("exp", {}, (F,), F, "exp")})
    assert schedule(module).main.attrs["schedule"] == {"before": 24, "after": 24, "bound": 24}


PROGRAM = """
from assay.interp import graph
from assay.lower.frontends.onnx.model import import_onnx
from tests.lower.schedule.test_schedule import before_schedule
from assay.lower.schedule import schedule
from assay.semantics.alias import bindings
from tests.lower.wired import wired
module = import_onnx(wired("er", 0, nodes=16, cells=2, channels=2, size=4), evaluate=graph.evaluate)
main = schedule(before_schedule(module)).main
print(main.attrs["schedule"], [v.name for v, _ in bindings(main)])
"""


def test_the_same_in_every_process() -> None:
    found = set()
    for seed in ("0", "1", "2"):
        env = {**os.environ, "PYTHONHASHSEED": seed, "PYTHONPATH": os.pathsep.join(p for p in sys.path if p)}
        found.add(
            subprocess.run([sys.executable, "-c", PROGRAM], env=env, check=True, capture_output=True, text=True).stdout
        )
    assert len(found) == 1


@pytest.mark.row("A25")
@pytest.mark.parametrize(("kind", "seed"), [("ws", 1), ("er", 4)])
def test_randomly_wired_cells_get_smaller(kind: str, seed: int) -> None:
    model = wired(kind, seed, nodes=16, cells=2, channels=2, size=4)
    source = before_schedule(import_onnx(model, evaluate=graph.evaluate))
    target = schedule(source)
    claim = target.main.attrs["schedule"]
    assert claim["bound"] == claim["after"] < claim["before"]
    inputs = {"x": np.random.default_rng(0).standard_normal((1, 2, 4, 4)).astype(np.float32)}
    assert graph.run(source, inputs)["y"].tobytes() == graph.run(target, inputs)["y"].tobytes()
