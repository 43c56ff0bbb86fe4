"""Sizes that a run measures have room for the most that they can be (specs/lower.md, "liveness"), and what is wrong
with one is seen by the checks of values and of room, by the machine and beside the C."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest

from assay.interp import graph, machine
from assay.lower.c import CSource, emit
from assay.lower.liveness import find_lives
from assay.lower.liveness.rooms import room_of
from assay.lower.liveness.slots import ROOM
from assay.lower.pool import plan_pools as pool
from assay.semantics.dtypes import BOOL, FLOAT32, INT64
from assay.semantics.errors import Invalid, Trap, Unsupported
from assay.semantics.graph import Expr, call, function, get, if_, let, match_cast, var
from assay.semantics.graph.limits import with_limits
from assay.semantics.module import Assertion, Branch, Item, Measure, Module, Slot
from assay.semantics.rules import check_program as check_rules
from assay.semantics.scalar import Var, apply
from assay.semantics.types import ShapeType, TensorType
from assay.verify.c.compiled import compile_c
from assay.verify.compare import Comparison
from assay.verify.evidence import Context
from assay.verify.liveness.measured import check_measured
from assay.verify.liveness.program import check_program
from assay.verify.pool import check as check_pool, check_places
from assay.verify.trials.planned import module_at
from tests.lower.liveness.liveness_programs import lowered

ONE = TensorType((1,), INT64)


def cut(x: Expr, count: Expr, name: str, then: Callable[[Expr], Expr]) -> Expr:
    """As many of the first elements of a vector as the one element of another says, in what follows."""
    size = Var(name)
    whole = var(f"whole_{name}", TensorType(x.type.shape, x.type.dtype))  # type: ignore[attr-defined]
    shape = var(f"shape_{name}", ShapeType((size,)))
    part = call("strided_slice", whole, axes=(0,), begin=(0,), end=(size,))
    exact = var(f"exact_{name}", TensorType((size,), whole.type.dtype))
    inner = let(exact, match_cast(part, exact.type), then(exact))
    return let(whole, x, let(shape, match_cast(count, shape.type), inner))


def told() -> Module:
    """The first elements of x, as many as k says, twice as large."""
    k, x = var("k", ONE), var("x", TensorType((Var("n"),), FLOAT32))
    return Module({"main": function([k, x], cut(x, k, "c", lambda e: call("add", e, e)))})


def counted() -> Module:
    """The negative elements of x, and those that are no zero, one behind the other."""
    x = var("x", TensorType((Var("n"),), FLOAT32))

    def places(of: Expr, name: str, then: Callable[[Expr], Expr]) -> Expr:
        found = var(f"found_{name}", call("nonzero", of).type)
        flat = call("reshape", get(found, 0), shape=x.type.shape)
        count = call("reshape", get(found, 1), shape=(1,))
        return let(found, call("nonzero", of), cut(flat, count, name, lambda e: then(call("take", x, e, axis=0))))

    def both(first: Expr) -> Expr:
        return places(x, "b", lambda second: call("concat", first, second, axis=0))

    return Module({"main": function([x], places(call("less", x, call("negative", x)), "a", both))})


def made(module: Module) -> tuple[Module, Module]:
    """The module before liveness, and with lives."""
    before = lowered(module)
    return before, find_lives(before)


def measures(module: Module) -> list[tuple[int, Measure]]:
    return [(i, s) for i, s in enumerate(module.program.steps) if isinstance(s, Measure)]


def with_steps(live: Module, steps: list[Item]) -> Module:
    return live.with_(main=replace(live.program, steps=tuple(steps)))


def with_slot(live: Module, slot: Slot) -> Module:
    return live.with_(main=replace(live.program, slots={**live.program.slots, slot.name: slot}))


def refuted(before: Module, live: Module) -> str:
    """Why the checks refuse a program; "" if they do not."""
    found = check_program(before, live)
    found = found if not found.holds else check_measured(live.program, live.kernels)
    return "" if found.holds else found.detail


@pytest.mark.parametrize("program", [told, counted])
def test_the_checks_hold_and_the_machine_runs_as_the_graph(program: Callable[[], Module]) -> None:
    before, live = made(program())
    assert not refuted(before, live)
    check_rules(live.program, live)
    planned = pool(live)
    assert check_places(planned)[0].holds and check_pool(live, planned, Context()).holds
    compiled = compile_c(emit(planned, "measured"), reproducible=True)
    for n in (0, 1, 5):
        for k in {0, n // 2, n}:
            x = np.linspace(-1, 1, n).astype(np.float32)
            given = {"x": x, "k": np.array([k], np.int64)}
            given = {p.name: given[p.name] for p in before.main.params}
            (want,) = graph.run(before, given).values()
            for found in (
                machine.run(planned, given),
                machine.run(planned, given, execute="definition"),
                compiled.run(given),
            ):
                (got,) = found.values()
                assert got.shape == want.shape and np.array_equal(got, want), (n, k)


@pytest.mark.parametrize(("k", "label"), [(-1, "size.T1"), (4, "match_cast.T1"), (2**40, "match_cast.T1")])
def test_a_size_that_cannot_be_ends_the_run(k: int, label: str) -> None:
    """Below 0, or more than there is; in the graph, the machine and the C."""
    before, live = made(told())
    planned = pool(live)
    given = {"k": np.array([k], np.int64), "x": np.ones(3, np.float32)}
    for run in (lambda: graph.run(before, given), lambda: machine.run(planned, given)):
        with pytest.raises(Trap) as found:
            run()
        assert found.value.label == label and found.value.kind == "shape"
    with pytest.raises(Invalid, match="MEASURED_BAD_SIZE"):
        compile_c(emit(planned, "measured"), reproducible=True).run(given)


@pytest.mark.parametrize(("declared", "most"), [({}, ROOM), ({"c": (0, 3)}, 3)])
def test_a_size_without_a_greatest_one_has_room_that_is_said(declared: dict[str, tuple[int, int]], most: int) -> None:
    size, k, x = Var("c"), var("k", ONE), var("x", TensorType((1,), FLOAT32))
    shape = var("shape", ShapeType((size,)))
    wide = call("broadcast_to", x, shape=(size,))
    main = function([k, x], let(shape, match_cast(k, shape.type), wide))
    before, live = made(Module({"main": with_limits(main, declared)}))
    assert not refuted(before, live) and [(low, high) for _, low, high in live.program.limits] == [(0, most)]
    planned = pool(live)
    compiled = compile_c(emit(planned, "wide"), reproducible=True)
    given = {"k": np.array([most]), "x": np.ones(1, np.float32)}
    for found in (machine.run(planned, given), compiled.run(given)):
        assert next(iter(found.values())).shape == (most,)
    given["k"] += 1
    with pytest.raises(Trap) as refused:
        machine.run(planned, given)
    assert refused.value.label == "machine.T13"
    with pytest.raises(Invalid, match="WIDE_BAD_SIZE"):
        compiled.run(given)


def test_each_arm_measures_for_itself() -> None:
    """The same size in both arms, told by two vectors."""
    c, k, j = var("c", TensorType((), BOOL)), var("k", ONE), var("j", ONE)
    x = var("x", TensorType((6,), FLOAT32))

    def arm(count: Expr, name: str) -> Expr:
        return cut(x, count, name, lambda e: call("sum", e))

    before, live = made(Module({"main": function([c, k, j, x], if_(c, arm(k, "s"), arm(j, "t")))}))
    assert len(measures(live)) == 2 and not refuted(before, live)
    planned = pool(live)
    for flag in (True, False):
        given = {"c": np.array(flag), "k": np.array([2]), "j": np.array([5]), "x": np.ones(6, np.float32)}
        (found,) = machine.run(planned, given).values()
        assert found == (2 if flag else 5)


def test_a_vector_of_something_else_tells_no_sizes() -> None:
    """The rules of programs refuse it, and so does the machine; and a measure that says less than it measures."""
    _, live = made(told())
    planned = pool(live)
    given = {"k": np.array([2], np.int64), "x": np.ones(3, np.float32)}
    (at, step), steps = measures(planned)[0], list(planned.program.steps)
    steps[at] = replace(step, slot="x")
    odd = with_steps(planned, steps)
    with pytest.raises(Invalid) as refused:
        check_rules(odd.program, odd)
    assert refused.value.label == "program.C13"
    with pytest.raises(Invalid) as found:
        machine.run(odd, given)
    assert found.value.label == "machine.C9"
    steps[at] = replace(step, most=())
    less = with_steps(planned, steps)
    with pytest.raises(Invalid) as refused:
        check_rules(less.program, less)
    assert refused.value.label == "program.C13"


# --- planted ---------------------------------------------------------------------------------------------------------


def in_an_arm(live: Module) -> Module:
    """What bounds the size is asserted on one way only."""
    steps = list(live.program.steps)
    at = next(i for i, s in enumerate(steps) if isinstance(s, Assertion))
    steps[at : at + 1] = [Branch("c", at + 2, at + 2), steps[at]]
    return with_steps(live, steps)


def never(live: Module) -> Module:
    return with_steps(live, [s for s in live.program.steps if not isinstance(s, Assertion)])


def too_great(live: Module) -> Module:
    at, step = measures(live)[0]
    steps = list(live.program.steps)
    steps[at] = replace(step, most=tuple(d + 1 for d in step.most))
    return with_steps(live, steps)


def too_small(live: Module) -> Module:
    at, step = measures(live)[0]
    steps = list(live.program.steps)
    steps[at] = replace(step, most=tuple(d - 1 for d in step.most))
    return with_steps(live, steps)


def too_early(live: Module) -> Module:
    at, step = measures(live)[0]
    steps = list(live.program.steps)
    return with_steps(live, [step, *steps[:at], *steps[at + 1 :]])


def left_out(live: Module) -> Module:
    return with_steps(live, [s for s in live.program.steps if not isinstance(s, Measure)])


def told_by_another(live: Module) -> Module:
    """Each of two sizes is measured by the vector of the other."""
    steps = list(live.program.steps)
    (i, one), (j, other) = measures(live)
    steps[i], steps[j] = replace(one, symbols=other.symbols), replace(other, symbols=one.symbols)
    return with_steps(live, steps)


def known_at_entry(live: Module) -> Module:
    """A size of an input is measured too."""
    (at, step), steps = measures(live)[0], list(live.program.steps)
    (size,) = live.program.slots["x"].type.shape
    assert isinstance(size, Var)
    steps.insert(at, replace(step, symbols=(size,)))
    return with_steps(live, steps)


def no_room(live: Module) -> Module:
    slot = next(s for s in live.program.slots.values() if s.room is not None and s.place == "workspace")
    assert slot.room is not None
    return with_slot(live, replace(slot, room=slot.room - slot.type.dtype.itemsize))


def room_of_itself(live: Module) -> Module:
    slot = next(s for s in live.program.slots.values() if s.room is not None)
    return with_slot(live, replace(slot, room=None))


FAULTS = (never, too_great, too_small, too_early, left_out, told_by_another, known_at_entry, no_room, room_of_itself)


@pytest.mark.parametrize("fault", FAULTS)
def test_a_wrong_measure_is_refuted(fault: Callable[[Module], Module]) -> None:
    before, live = made(counted())
    assert refuted(before, fault(live))


def test_an_assertion_on_one_way_bounds_nothing() -> None:
    _, live = made(told())
    assert check_measured(live.program, live.kernels).holds
    found = check_measured(in_an_arm(live).program, live.kernels)
    assert not found.holds and "does not follow" in found.detail


def test_the_machine_sees_a_room_that_is_too_small() -> None:
    """At the greatest size only."""
    _, live = made(told())
    slot = next(s for s in live.program.slots.values() if s.place == "output")
    planned = pool(with_slot(live, replace(slot, room=slot.room - 4)))  # type: ignore[operator]
    x = np.ones(3, np.float32)
    machine.run(planned, {"k": np.array([2]), "x": x})
    with pytest.raises(Trap) as found:
        machine.run(planned, {"k": np.array([3]), "x": x})
    assert found.value.label == "machine.T12"


def test_a_plan_keeps_the_room() -> None:
    _, live = made(told())
    planned = pool(live)
    slot = next(s for s in planned.program.slots.values() if s.place == "output")
    assert not check_pool(live, with_slot(planned, replace(slot, room=slot.room + 4)), Context()).holds  # type: ignore[operator]


@pytest.mark.parametrize(
    ("right", "wrong"),
    [
        ("*b = plan->", "*b = 1 + plan->"),  # another size is returned
        ("(int32_t)found[0];", "(int32_t)(found[0] - (found[0] > 0));"),  # another is computed with
        ("found[0] < 0", "found[0] < 1"),  # 0 is refused
    ],
)
def test_c_that_measures_otherwise_is_seen(right: str, wrong: str) -> None:
    source_module = counted()
    before, live = made(source_module)
    planned = pool(live)
    source = emit(planned, "measured")
    assert right in source.source
    odd = replace(source, source=source.source.replace(right, wrong))
    given = {"x": np.array([-1, 0, 2, 0, 3], np.float32)}

    def compared(c: CSource) -> bool | None:
        return Comparison(before, module_at(planned, given), c, compile_c(c, reproducible=False), given).run()[1].holds

    assert compared(source) and not compared(odd)


def test_a_size_of_which_it_is_not_seen_how_great_it_can_be_is_refused() -> None:
    c, n = Var("c"), Var("n")
    with pytest.raises(Unsupported) as found:
        room_of(TensorType((apply("floormod", c, n),), FLOAT32), {c: 8})
    assert found.value.label == "liveness.C10"
