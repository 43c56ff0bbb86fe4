"""Parts of the graph for an engine: which ones, without cycles, and with the same meaning."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest

from assay.interp import graph
from assay.interp.graph import engines
from assay.interp.graph.engines import EngineRegion, regions
from assay.lower.anf import to_anf
from assay.lower.legalize import legalize
from assay.lower.partition import Composite, partition
from assay.lower.partition.merge import regions as merged
from assay.lower.rewriting.pattern import anything, op
from assay.semantics.builder import Builder, tensor
from assay.semantics.dtypes import FLOAT32, INT32
from assay.semantics.errors import Invalid, Trap
from assay.semantics.graph import (
    Call,
    Expr,
    Function,
    GlobalVar,
    Tuple,
    Var,
    call,
    constant,
    function,
    let,
    tuple_of,
    var,
)
from assay.semantics.module import Module
from assay.semantics.operator import Operator
from assay.semantics.rules import check
from assay.semantics.scalar import Var as Symbol
from assay.semantics.text.module_printer import show
from assay.semantics.text.module_text import parse
from assay.semantics.types import TensorType
from assay.semantics.walk import post_order, rewrite
from assay.verify.partition import check_engines, check_partition
from tests.lower.engines import ADD, LINEAR, RELU, TABLE, Npu, Wrong
from tests.observation import observe
from tests.scale import MANY

pytestmark = pytest.mark.row("R29")

T = TensorType((3, 3), FLOAT32)
X, Y = var("x", T), var("y", T)
W = np.arange(9, dtype=np.float32).reshape(3, 3) / 7
INPUTS = {
    "x": np.float32([[1, -2, 0.5], [3, 0, -1], [2, 2, -0.25]]),
    "y": np.float32([[0.5, 1, -3], [0, 2, 1], [1, -1, 0]]),
}


def anf(body: Expr, params: Sequence[Var] = (X, Y)) -> Module:
    return to_anf(Module({"main": function(params, body)}))


def linear(x: Expr, by: float = 1.0) -> Expr:
    return call("add", call("matmul", x, constant(W * np.float32(by))), constant(W[0]))


def composites(module: Module) -> list[list[str]]:
    return [[f.attrs["composite"] for f in r.composites] for r in regions(module)]


def right(source: Module, target: Module, engine: engines.Engine | None = None) -> None:
    """The partition is proved, its bodies mean what they did, and an engine that is right gives the same bits."""
    check(target)
    found = check_partition(source, target)
    assert found.holds and found.how == "proved", found.detail
    inputs = {p.name: INPUTS[p.name] for p in source.main.params}
    assert observe(source, inputs).difference(observe(target, inputs)) is None
    engine = engine or Npu()
    one, two = graph.run(source, inputs), engines.run(target, inputs, {"npu": engine})
    assert all(np.array_equal(a, b) for a, b in zip(one.values(), two.values(), strict=True))
    verdict = check_engines(target, {"npu": engine}, inputs)
    assert verdict.holds, verdict.detail


def test_composites_and_their_neighbours_are_one_region() -> None:
    source = anf(call("nn.relu", linear(call("nn.relu", linear(X, 2)))), [X])
    target = partition(source, "npu", TABLE)
    assert composites(target) == [["npu.linear", "npu.relu"] * 2]
    (region,) = regions(target)
    assert region.function.attrs == {"compiler": "npu", "global_symbol": "npu_0"}
    assert target.definitions["npu_0"] is region.function and len(region.function.params) == 1
    npu = Npu()
    right(source, target, npu)
    assert [np.shape(c) for c in npu.constants[:4]] == [(3, 3), (3,), (3, 3), (3,)], "its constants are handed over"
    assert not any(isinstance(n, Function) for n in post_order(target.main.body)), "nothing of it stays outside"


def test_each_composite_can_be_a_region() -> None:
    source = anf(call("nn.relu", linear(X)), [X])
    target = partition(source, "npu", TABLE, merge=False)
    assert composites(target) == [["npu.linear"], ["npu.relu"]]
    right(source, target)


def test_an_earlier_row_wins() -> None:
    source = anf(linear(X), [X])
    assert composites(partition(source, "npu", TABLE)) == [["npu.linear"]]
    assert composites(partition(source, "npu", TABLE[::-1])) == [["npu.matmul", "npu.add"]]


def test_a_condition_of_the_table() -> None:
    row = Composite("npu.add", op("add")(anything(), anything()), lambda found, at: "multiply" not in repr(at.children))
    refuse = Composite("npu.add", row.pattern, lambda found, at: False)
    source = anf(call("add", X, Y))
    assert composites(partition(source, "npu", [refuse])) == []
    assert composites(partition(source, "npu", [row])) == [["npu.add"]]


def test_a_diamond_is_not_a_cycle() -> None:
    """relu, then one way the engine can go and one it cannot, then add: a region around all would need its own
    result."""
    r = call("nn.relu", X)
    source = anf(call("add", call("negative", r), call("nn.relu", r)), [X])
    target = partition(source, "npu", TABLE)
    assert sorted(map(len, composites(target))) == [1, 2], "negative stands between two regions"
    right(source, target)


def test_a_diamond_within_is_one_region() -> None:
    r = call("nn.relu", X)
    source = anf(call("add", linear(r), call("nn.relu", r)), [X])
    target = partition(source, "npu", TABLE)
    assert len(composites(target)) == 1
    right(source, target)


def test_a_cycle_through_two_regions_is_none() -> None:
    """a feeds c through f, d feeds b through g: with a, b in one region and c, d in another each would need the
    other."""
    a, d = call("nn.relu", X), call("nn.relu", Y)
    b = call("add", a, call("exp", d))
    c = call("add", d, call("negative", a))
    source = anf(tuple_of(b, c))
    target = partition(source, "npu", TABLE)
    right(source, target)


def test_several_results() -> None:
    r = call("nn.relu", X)
    source = anf(tuple_of(call("add", r, Y), call("exp", r)))
    target = partition(source, "npu", TABLE)
    (region,) = regions(target)
    assert len(region.composites) == 2 and any(isinstance(n, Tuple) for n in post_order(region.function))
    right(source, target)


def test_what_a_composite_computes_on_its_way_and_others_use_is_no_part_of_it() -> None:
    m = call("matmul", X, constant(W))
    source = anf(tuple_of(call("add", m, constant(W[0])), call("exp", m)), [X])
    assert composites(partition(source, "npu", [LINEAR])) == []
    right(source, partition(source, "npu", TABLE))


def test_branches_are_parted_by_themselves() -> None:
    b = Builder()
    with b.function("main", x=tensor(3, 3)) as f:
        r = b.nn.relu(f.x)
        with b.if_(b.greater(b.sum(r), 1.0)) as branch:
            with branch.then():
                b.result(b.add(b.nn.relu(r), 1.0))
            with branch.otherwise():
                b.result(b.negative(r))
        b.result(branch.value)
    source = to_anf(b.module())
    target = partition(source, "npu", TABLE)
    assert sorted(map(len, composites(target))) == [1, 2]
    right(source, target)


def test_what_may_trap_or_acts_is_not_given_away() -> None:
    p, q = (var(n, TensorType((3,), INT32)) for n in "pq")
    source = to_anf(Module({"main": function([p, q], call("floor_divide", p, q))}))
    assert composites(partition(source, "npu", [Composite("npu.div", op("floor_divide"))])) == []


def test_symbolic_sizes_go_along() -> None:
    n = Symbol("n")
    a = var("x", TensorType((n, 3), FLOAT32))
    source = anf(call("nn.relu", linear(a)), [a])
    target = partition(source, "npu", TABLE)
    assert len(composites(target)) == 1
    right(source, target)


def test_regions_survive_text_and_legalize() -> None:
    source = anf(call("negative", call("nn.relu", linear(X))), [X])
    target = partition(source, "npu", TABLE)
    back = parse(show(target))
    assert composites(back) == composites(target)
    lowered = legalize(target)
    assert lowered.definitions["npu_0"] is target.definitions["npu_0"] and list(lowered.kernels) == ["negative"]
    one = engines.run(lowered, {"x": INPUTS["x"]}, {"npu": Npu()})
    assert np.array_equal(*(next(iter(r.values())) for r in (one, graph.run(source, {"x": INPUTS["x"]}))))


def test_two_rows_of_one_name_are_refused() -> None:
    with pytest.raises(Invalid) as caught:
        partition(anf(X, [X]), "npu", [ADD, ADD])
    assert caught.value.label == "partition.C1"


# --- merging -------------------------------------------------------------------------------------------------------


def is_acyclic(reads: Sequence[Sequence[int]], parts: Sequence[Sequence[int]]) -> bool:
    home = {i: k for k, part in enumerate(parts) for i in part}
    home |= {i: len(parts) + i for i in range(len(reads)) if i not in home}
    needs = {k: {home[j] for i, h in home.items() if h == k for j in reads[i]} - {k} for k in home.values()}
    while ready := [k for k, n in needs.items() if not n]:
        needs = {k: n - set(ready) for k, n in needs.items() if k not in ready}
    return not needs


def test_no_merge_makes_a_cycle() -> None:
    rng = np.random.default_rng(0)
    joined = 0
    for _ in range(300):
        size = int(rng.integers(2, 14))
        reads = [[int(j) for j in rng.choice(i, min(i, 2), replace=False)] if i else [] for i in range(size)]
        inside = [bool(b) for b in rng.integers(0, 3, size)]
        parts = merged(reads, inside)
        assert sorted(i for p in parts for i in p) == [i for i in range(size) if inside[i]]
        assert is_acyclic(reads, parts)
        joined += sum(len(p) > 1 for p in parts)
    assert joined > 100
    assert not is_acyclic([[], [0], [0, 1]], [[0, 2]]), "the test can fail"


def test_a_long_chain_is_one_region() -> None:
    count = MANY
    assert len(merged([[i - 1] if i else [] for i in range(count)], [True] * count)) == 1


# --- engines -------------------------------------------------------------------------------------------------------


def parted() -> Module:
    return partition(anf(call("nn.relu", call("exp", call("add", X, Y)))), "npu", TABLE)


def test_a_missing_engine_is_refused_before_anything_runs() -> None:
    with pytest.raises(Invalid, match="npu_0 is for the engine npu, which is not given") as caught:
        engines.run(parted(), INPUTS, {"other": Npu()})
    assert caught.value.label == "engine.C1"


def test_a_wrong_engine_is_found_and_named() -> None:
    verdict = check_engines(parted(), {"npu": Wrong()}, {k: -v - 20 for k, v in INPUTS.items()})
    assert verdict.holds, "exp is positive: the fault does not show"
    target = partition(anf(call("nn.relu", call("negative", call("exp", call("add", X, Y))))), "npu", TABLE)
    verdict = check_engines(target, {"npu": Wrong()}, INPUTS)
    assert not verdict.holds and "npu_1" in verdict.detail


@pytest.mark.parametrize(
    ("gives", "said"),
    [
        (lambda a: a[0][:2], "Tensor((2, 3), float32) instead of Tensor((3, 3), float32)"),
        (lambda a: a[0].astype(np.float64), "float64"),
        (lambda a: (a[0], a[0]), "2 results"),
    ],
)
def test_an_engine_that_gives_something_else_is_refused(gives: object, said: str) -> None:
    assert callable(gives)
    verdict = check_engines(parted(), {"npu": lambda region, args: gives(args)}, INPUTS)
    assert not verdict.holds and said in verdict.detail
    with pytest.raises((Trap, Invalid)):
        engines.run(parted(), INPUTS, {"npu": lambda region, args: gives(args)})


def test_an_engine_cannot_write_into_what_it_is_handed() -> None:
    def writes(region: EngineRegion, args: Sequence[np.ndarray]) -> np.ndarray:
        args[0][0] = 0
        return args[0]

    with pytest.raises(ValueError, match="read-only"):
        engines.run(parted(), INPUTS, {"npu": writes})


# --- faults --------------------------------------------------------------------------------------------------------


def test_wrong_partitions_are_refused() -> None:
    source = anf(call("subtract", call("nn.relu", call("add", X, Y)), Y))
    target = partition(source, "npu", [ADD, RELU])
    region = target.definitions["npu_0"]
    assert isinstance(region, Function)

    def first_sum(n: Expr) -> Expr:
        """The relu is left out: the region gives the sum."""
        return n.args[0] if isinstance(n, Call) and isinstance(n.op, Operator) and n.op.name == "nn.relu" else n

    without = replace(region, body=rewrite(region.body, first_sum))
    assert not check_partition(source, target.with_(npu_0=without)).holds
    renamed = replace(target, definitions={"main": target.main, "npu_9": region})
    assert not check_partition(source, renamed).holds
    params = target.main.params[::-1]
    assert not check_partition(source, target.with_(main=replace(target.main, params=params))).holds


def test_nothing_else_changes_with_a_partition() -> None:
    """A function of the source in place of which a region stands; another table of constants; another tensor
    function."""
    inner = function([X], call("exp", X))
    v = var("v", X.type)
    main = function([Y], let(v, call(GlobalVar(inner.type, "f"), Y), v))
    source = Module({"f": inner, "main": main}, {"c": np.ones(3, np.float32)})
    wrong = replace(function([X], call("negative", X)), attrs={"compiler": "npu", "global_symbol": "f"})
    found = check_partition(source, source.with_(f=wrong))
    assert not found.holds and "f has changed" in found.detail
    found = check_partition(source, replace(source, constants={"c": np.zeros(3, np.float32)}))
    assert not found.holds and "table of constants" in found.detail
