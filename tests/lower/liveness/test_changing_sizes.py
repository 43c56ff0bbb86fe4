"""Sizes that an arm or an iteration tells (specs/lower.md, "liveness"), and what is wrong with one is seen by the
checks of values and of room, by the machine and beside the C."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest

from assay.interp import graph, machine
from assay.lower.c import emit
from assay.lower.c.sizes import EntrySizes
from assay.lower.liveness import find_lives
from assay.lower.pool import plan_pools as pool
from assay.semantics.dtypes import FLOAT32
from assay.semantics.errors import Invalid, Trap, Unsupported
from assay.semantics.graph import Call, GlobalVar, call, function, var
from assay.semantics.graph.limits import with_limits
from assay.semantics.instance import measured_of
from assay.semantics.module import Assertion, Item, Loop, Measure, Module
from assay.semantics.rules import check_program as check_rules
from assay.semantics.scalar import Dim, Var
from assay.semantics.size_facts import facts_at
from assay.semantics.steps import Branch, Continue
from assay.semantics.text.module_text import parse
from assay.semantics.types import TensorType
from assay.verify.c.compiled import compile_c
from assay.verify.compare import Comparison
from assay.verify.evidence import Context
from assay.verify.pool import check as check_pool, check_places
from assay.verify.trials.planned import module_at
from tests.lower.liveness.changing_programs import PROGRAMS, text_of
from tests.lower.liveness.liveness_programs import lowered
from tests.lower.liveness.test_measured_sizes import refuted, with_slot, with_steps


def made(name: str, **rooms: int) -> tuple[Module, Module]:
    """The module before liveness, and with lives; with room for so much, where that is said."""
    module = parse(text_of(name))
    module = module.with_(main=with_limits(module.main, {n: (0, most) for n, most in rooms.items()}))
    before = lowered(module)
    return before, find_lives(before)


def inputs(module: Module, size: int, other: int) -> list[dict[str, np.ndarray]]:
    """Inputs of two sizes, with every choice of booleans."""
    found: list[dict[str, np.ndarray]] = [{}]
    for i, p in enumerate(p for p in module.main.params):
        of = p.type
        shape = [d if isinstance(d, int) else (size, other)[d.name in ("m", "y")] for d in of.shape]  # type: ignore[attr-defined]
        if not shape and of.dtype.name == "bool":  # type: ignore[attr-defined]
            found = [{**f, p.name: np.array(b)} for f in found for b in (True, False)]
        else:
            drawn = np.random.default_rng(i).integers(0, 5, shape).astype(of.dtype.numpy)  # type: ignore[attr-defined]
            found = [{**f, p.name: drawn} for f in found]
    return found


@pytest.mark.row("J15", "J13")
@pytest.mark.parametrize("name", PROGRAMS)
def test_the_checks_hold_and_machine_and_c_run_as_the_graph(name: str) -> None:
    before, live = made(name)
    assert not refuted(before, live)
    check_rules(live.program, live)
    planned = pool(live)
    assert check_places(planned)[0].holds and check_pool(live, planned, Context()).holds
    compiled = compile_c(emit(planned, "changing"), reproducible=True)
    for sizes in ((0, 0), (1, 1), (0, 3), (3, 1), (2, 5)):
        for given in inputs(before, *sizes):
            try:
                want = list(graph.run(before, given).values())
            except (Trap, Invalid):
                assert name == "agreeing"
                with pytest.raises(Trap):
                    machine.run(planned, given)
                with pytest.raises(Invalid, match="BAD_SIZE"):
                    compiled.run(given)
                continue
            for found in (machine.run(planned, given), compiled.run(given)):
                got = list(found.values())
                assert all(a.shape == b.shape and np.array_equal(a, b) for a, b in zip(want, got, strict=True)), sizes


@pytest.mark.parametrize(("rooms", "top"), [({"grow.n": 6}, 4), ({}, 1024)])
def test_there_is_room_for_so_much_and_no_more(rooms: dict[str, int], top: int) -> None:
    """What is declared, or 1024 more than at first; one more ends the run of the machine and of the C. The machine is
    slow, so the greater one is run by the C alone."""
    _, live = made("growing", **rooms)
    planned = pool(live)
    compiled = compile_c(emit(planned, "room"), reproducible=True)
    given = {"top": np.int32(top), "x": np.ones((2, 1), np.int32)}
    by_c = compiled.run(given)
    assert next(iter(by_c.values())).shape == (top + 2, 1)
    given["top"] = np.int32(top + 1)
    if rooms:
        (got,) = machine.run(planned, {**given, "top": np.int32(top)}).values()
        assert got.shape == (top + 2, 1)
        with pytest.raises(Trap) as found:
            machine.run(planned, given)
        assert (found.value.kind, found.value.label) == ("memory", "machine.T13")
    with pytest.raises(Invalid, match="ROOM_BAD_SIZE"):
        compiled.run(given)


def test_room_for_a_size_that_there_is_not() -> None:
    with pytest.raises(Invalid, match="no size q: the inputs have p, and a run tells grow.n") as found:
        made("growing", q=6)
    assert found.value.label == "limits.C5"


# --- planted ---------------------------------------------------------------------------------------------------------


def measures(live: Module) -> list[tuple[int, Measure]]:
    return [(i, s) for i, s in enumerate(live.program.steps) if isinstance(s, Measure)]


def with_measure(live: Module, which: int, change: Callable[[Measure], Item | None]) -> Module:
    at, step = measures(live)[which]
    changed = change(step)
    assert changed is not None
    steps: list[Item] = list(live.program.steps)
    steps[at] = changed
    return with_steps(live, steps)


def valued(change: Callable[[Dim], Dim]) -> Callable[[Measure], Measure]:
    return lambda m: replace(m, values=tuple(map(change, m.values)))


def other_values(live: Module) -> Module:
    """The sizes of the arms change places."""
    (i, one), (j, other), *_ = measures(live)
    steps: list[Item] = list(live.program.steps)
    steps[i], steps[j] = replace(one, values=other.values), replace(other, values=one.values)
    return with_steps(live, steps)


def stays(live: Module) -> Module:
    """The size is told to the next iteration as it is in this one."""
    (at, step) = measures(live)[-1]
    here = measures(live)[1][1].symbols
    steps: list[Item] = list(live.program.steps)
    steps[at] = replace(step, values=tuple(here))
    return with_steps(live, steps)


def unlimited(live: Module) -> Module:
    return live.with_(main=replace(live.program, limits=()))


def other_limit(live: Module) -> Module:
    limits = tuple((v, low, (high or 0) + 1) for v, low, high in live.program.limits)
    return live.with_(main=replace(live.program, limits=limits))


def no_room(live: Module) -> Module:
    slot = next(s for s in live.program.slots.values() if s.room is not None and s.place == "workspace")
    assert slot.room is not None
    return with_slot(live, replace(slot, room=slot.room - slot.type.dtype.itemsize))


def carried_elsewhere(live: Module) -> Module:
    """The loop says that its variable is handed over in what it names."""
    steps: list[Item] = list(live.program.steps)
    at, loop = next((i, s) for i, s in enumerate(steps) if isinstance(s, Loop))
    steps[at] = replace(loop, carried=tuple(n.removesuffix(".next") for n in loop.carried))
    return with_steps(live, steps)


def below_nothing(live: Module) -> Module:
    """A size that nobody reads gets a value below 0: the graph does not end there."""
    at, step = measures(live)[0]
    steps: list[Item] = list(live.program.steps)
    spare = replace(step, symbols=(*step.symbols, Var("spare")), values=(*step.values, -1), most=(*step.most, 4))
    return with_steps(live, [*steps[:at], spare, *steps[at + 1 :]])


CHOICES = (
    other_values,
    lambda m: with_measure(m, 0, valued(lambda d: d + 1)),
    lambda m: with_measure(m, 1, valued(lambda d: 0)),
    lambda m: with_measure(m, 0, lambda s: Assertion(((s.values[0], s.values[0]),))),
    no_room,
)
LOOPS = (
    stays,
    lambda m: with_measure(m, 0, valued(lambda d: d + 1)),
    lambda m: with_measure(m, 1, valued(lambda d: d + 1)),
    lambda m: with_measure(m, 2, valued(lambda d: d + 1)),
    lambda m: with_measure(m, 2, lambda s: Assertion(((s.values[0], s.values[0]),))),
    unlimited,
    other_limit,
    no_room,
    carried_elsewhere,
    below_nothing,
)


@pytest.mark.parametrize(
    ("name", "fault"), [*(("choice", f) for f in CHOICES), *(("growing", f) for f in LOOPS)]
)  # fmt: skip
def test_a_wrong_size_is_refuted(name: str, fault: Callable[[Module], Module]) -> None:
    before, live = made(name, **({} if name == "choice" else {"grow.n": 6}))
    assert not refuted(before, live)
    assert refuted(before, fault(live))


def test_a_size_is_at_most_the_same_at_all_places() -> None:
    _, live = made("choice")
    odd = with_measure(live, 1, lambda m: replace(m, most=tuple(d + 1 for d in m.most)))
    with pytest.raises(Invalid) as found:
        check_rules(odd.program, odd)
    assert found.value.label == "program.C13"
    odd = with_measure(live, 1, lambda m: replace(m, values=()))
    with pytest.raises(Invalid) as found:
        check_rules(odd.program, odd)
    assert found.value.label == "program.C13"


def test_what_was_said_of_a_size_ends_where_it_gets_another_value() -> None:
    """By another measure, in an arm, in an iteration."""
    a, b = Var("a"), Var("b")
    said, again = Assertion(((a, b),)), Measure("", (a,), (9,), values=(b + 1,))
    facts = facts_at([said, said, again, said])
    assert facts[1].equal(a, b) and facts[2].equal(a, b)
    assert not facts[3].equal(a, b) and facts[3].equal(a, b + 1)
    facts = facts_at([said, Branch("c", 3, 3), again, said])
    assert facts[2].equal(a, b) and not facts[3].equal(a, b) and not facts[3].equal(a, b + 1)
    facts = facts_at([said, Loop(5), said, again, Continue(), said])
    assert not facts[2].equal(a, b) and facts[4].equal(a, b + 1)
    facts = facts_at([Measure("", (a,), (9,), values=(a + 1,)), said])
    assert not facts[1].equal(a, a + 1)


@pytest.mark.parametrize(
    ("right", "wrong"),
    [
        ("found[0] = ", "found[0] = 1 + "),  # another size is told
        ("    if (found[0] < 0 ||", "    if (found[0] < 4 ||"),  # small ones are refused
    ],
)
def test_c_of_other_sizes_is_seen(right: str, wrong: str) -> None:
    assert not compared("growing", lambda text: text.replace(right, wrong))


def test_c_that_tells_a_size_once_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    """What depends on a size is computed where it gets its first value, and not where it gets another."""
    assert compared("growing")
    right = EntrySizes.is_told

    def once(sizes: EntrySizes, dim: Dim, index: int) -> bool:
        step, _ = sizes.measures[index]
        first = min(i for i, (s, _) in sizes.measures.items() if s.symbols == step.symbols)
        return index == first and right(sizes, dim, index)

    monkeypatch.setattr(EntrySizes, "is_told", once)
    assert not compared("growing")


def compared(name: str, change: Callable[[str], str] = lambda text: text) -> bool | None:
    """Whether the C does what the machine does."""
    before, live = made(name)
    planned = pool(live)
    source = emit(planned, "changing")
    changed = change(source.source)
    given = {"top": np.int32(3), "x": np.ones((2, 1), np.int32)}
    c = replace(source, source=changed)
    return Comparison(before, module_at(planned, given), c, compile_c(c, reproducible=False), given).run()[1].holds


def test_a_size_of_a_choice_is_at_most_that_of_its_arms() -> None:
    """And so much room there is: no limit of the program."""
    _, live = made("choice")
    (most,) = measured_of(live.program).values()
    assert not live.program.limits and str(most)


def test_a_size_that_nothing_tells_is_refused() -> None:
    """A declared result speaks of a size that no value has, so what it asks cannot be asserted."""
    q, of = Var("q"), TensorType((Var("n"),), FLOAT32)
    x, y = var("x", of), var("y", of)
    declared = TensorType((q * 2,), FLOAT32)
    inner = function([y], call("negative", y), declared)
    called = Call(of, GlobalVar(inner.type, "inner"), (x,))
    with pytest.raises(Unsupported) as found:
        find_lives(lowered(Module({"main": function([x], called, of), "inner": inner})))
    assert found.value.label == "liveness.C11"
