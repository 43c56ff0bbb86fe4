"""Assertions on values and prints are items of a program (specs/lower.md, "liveness"): they stand where they stood, on
the same way, and what is wrong with one is seen by the numbering, by the machine and beside the C."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from assay.interp import graph, machine
from assay.interp.values import Event, render
from assay.lower.c import CSource, Interface, emit
from assay.lower.liveness import find_lives
from assay.lower.pool import plan_pools as pool
from assay.semantics.dtypes import BOOL, FLOAT32
from assay.semantics.errors import Invalid, Trap
from assay.semantics.graph import assert_op, call, constant, function, if_, print_, var
from assay.semantics.module import Branch, Item, Module, PrintValues, Require
from assay.semantics.rules import check_program as check_rules
from assay.semantics.scalar import Var
from assay.semantics.types import TensorType
from assay.verify.c.compiled import compile_c
from assay.verify.compare import Comparison
from assay.verify.evidence import Context, Evidence
from assay.verify.liveness.lives import check_lives
from assay.verify.liveness.program import check_program
from assay.verify.pool import check as check_pool
from assay.verify.trials.planned import module_at
from tests.lower.liveness.liveness_programs import lets, lowered

UNIT = print_(var("a", TensorType((), FLOAT32))).type
FLAG = TensorType((), BOOL)


def speaking() -> Module:
    """Two prints, an assertion between them, and one in an arm."""
    x, c, d = var("x", TensorType((Var("n"), 2), FLOAT32)), var("c", FLAG), var("d", FLAG)
    y, z, r = (var(name, x.type) for name in "yzr")
    small = var("small", FLAG)
    below = call("astype", call("less", y, constant(np.float32(0))), dtype="int64")
    arm = lets(z, call("exp", y), var("_a", UNIT), assert_op(c, z, format="c at {}"))(z)
    body = lets(
        y, call("add", x, x),
        var("_0", UNIT), print_(y, c, format="y is {}, c is {}"),
        small, call("equal", call("sum", below, axis=None, keepdims=False), constant(np.int64(0))),
        var("_1", UNIT), assert_op(small, y, format="y is {}, below 0"),
        r, if_(d, arm, call("tanh", y)),
        var("_2", UNIT), print_(r, r, format=""),
    )(call("negative", r))  # fmt: skip
    return Module({"main": function([x, c, d], body)})


def made() -> tuple[Module, Module]:
    """The module before liveness, and with lives."""
    before = lowered(speaking())
    return before, find_lives(before)


def given(n: int = 2, *, c: bool = True, d: bool = True, least: float = 0.5) -> dict[str, np.ndarray]:
    x = np.linspace(least, 1, 2 * n).astype(np.float32).reshape(n, 2)
    return {"x": x, "c": np.array(c), "d": np.array(d)}


def with_steps(module: Module, steps: list[Item]) -> Module:
    return module.with_(main=replace(module.program, steps=tuple(steps)))


def places(module: Module, kind: type) -> list[int]:
    return [i for i, s in enumerate(module.program.steps) if isinstance(s, kind)]


@pytest.mark.parametrize(("n", "d"), [(0, True), (1, False), (3, True)])
def test_the_checks_hold_and_what_is_told_is_what_the_graph_tells(n: int, d: bool) -> None:
    before, live = made()
    evidence = check_program(before, live)
    assert evidence.holds and "2 assertions on values, 2 prints" in evidence.detail
    check_rules(live.program, live)
    planned = pool(live)
    assert check_pool(live, planned, Context()).holds
    inputs = given(n, d=d)
    trace: list[Event] = []
    (want,) = graph.run(before, inputs, trace=trace).values()
    told: list[tuple[str, list[np.ndarray]]] = []

    def see(index: int, step: object, arrays: dict[str, np.ndarray]) -> None:
        if isinstance(step, PrintValues):
            told.append((step.format, [arrays[name] for name in step.shown]))

    (got,) = machine.run(planned, inputs, observe=see).values()
    source = emit(planned, "speaks")
    seen: list[tuple[str, list[np.ndarray]]] = []
    formats = {p.step: p.format for p in source.prints}
    (native,) = (
        compile_c(source, reproducible=True, trace=True)
        .run(inputs, on_print=lambda step, shown: seen.append((formats[step], shown)))
        .values()
    )
    assert got.tobytes() == want.tobytes() == native.tobytes()
    for found in (told, seen):
        assert [(f, [a.tobytes() for a in v]) for f, v in found] == [
            (e.name, [np.asarray(a).tobytes() for a in e.values]) for e in trace
        ]
        assert [[a.shape for a in v] for _, v in found] == [[np.shape(a) for a in e.values] for e in trace]


@pytest.mark.parametrize("case", [{"c": False}, {"least": -0.5}])
def test_what_does_not_hold_ends_the_run(case: dict[str, float]) -> None:
    """With the same words in the graph and the machine, and with a status in C; not where the arm does not run."""
    before, live = made()
    planned = pool(live)
    compiled = compile_c(emit(planned, "speaks"), reproducible=False)
    inputs = given(**case)  # type: ignore[arg-type]
    runs = (lambda: graph.run(before, inputs), lambda: machine.run(planned, inputs))
    messages = []
    for run in runs:
        with pytest.raises(Trap) as found:
            run()
        assert (found.value.kind, found.value.label) == ("assertion", "assert_op.T1")
        messages.append(found.value.what)
    assert messages[1].endswith(messages[0])
    with pytest.raises(Trap, match="SPEAKS_TRAP_ASSERT"):
        compiled.run(inputs)
    compiled.run(given(c=False, d=False))
    machine.run(planned, given(c=False, d=False))


@pytest.mark.parametrize("interface", list(Interface))
def test_the_header_says_what_is_printed(interface: Interface, tmp_path: Path) -> None:
    """It is read again as it was, formats with any characters among them; without the macro nothing is called."""
    _, live = made()
    steps = list(live.program.steps)
    at = places(live, PrintValues)[0]
    odd = steps[at] = replace(steps[at], format='a "quoted" */ {} \n ?? ü {}')  # type: ignore[arg-type]
    source = emit(pool(with_steps(live, steps)), "speaks", interface=interface)
    compiled = compile_c(source, reproducible=True, directory=tmp_path)
    compiled.run(given())
    found = CSource.read(tmp_path, "speaks")
    assert found.prints == source.prints and found.prints[0].format == odd.format  # type: ignore[union-attr]
    assert [rank for _, rank in found.prints[0].shown] == [2, 0]
    assert render(odd.format, [1, 2])  # type: ignore[union-attr]


def test_the_hook_of_a_print_can_end_the_run() -> None:
    _, live = made()
    compiled = compile_c(emit(pool(live), "speaks"), reproducible=True, trace=True)

    def refuse(step: int, shown: object) -> None:
        raise KeyError(step)

    with pytest.raises(KeyError):
        compiled.run(given(), on_print=refuse)


def test_what_is_shown_or_asked_is_there() -> None:
    """The rules of programs refuse what is no slot, and no boolean."""
    _, live = made()
    told, asked = places(live, PrintValues)[0], places(live, Require)[0]
    steps = list(live.program.steps)
    for at, item, label in (
        (told, replace(steps[told], shown=("nothing",)), "program.C1"),  # type: ignore[arg-type]
        (asked, replace(steps[asked], shown=("nothing",)), "program.C1"),  # type: ignore[arg-type]
        (asked, replace(steps[asked], condition="x"), "program.C7"),  # type: ignore[arg-type]
    ):
        odd = with_steps(live, [*steps[:at], item, *steps[at + 1 :]])
        with pytest.raises(Invalid) as found:
            check_rules(odd.program, odd)
        assert found.value.label == label


# --- planted ---------------------------------------------------------------------------------------------------------


def without(kind: type, which: int) -> Callable[[Module], Module]:
    def fault(live: Module) -> Module:
        at = places(live, kind)[which]
        steps = [s for i, s in enumerate(live.program.steps) if i != at]
        return with_steps(live, [_moved(s, at, -1) for s in steps])

    return fault


def _moved(step: Item, at: int, by: int) -> Item:
    if not isinstance(step, Branch):
        return step
    return replace(step, then=step.then + by * (step.then > at), end=step.end + by * (step.end > at))


def changed(kind: type, which: int, **fields: object) -> Callable[[Module], Module]:
    def fault(live: Module) -> Module:
        at, steps = places(live, kind)[which], list(live.program.steps)
        steps[at] = replace(steps[at], **fields)  # type: ignore[arg-type]
        return with_steps(live, steps)

    return fault


def swapped(live: Module) -> Module:
    """The first print comes behind the first assertion."""
    steps, told, asked = list(live.program.steps), places(live, PrintValues)[0], places(live, Require)[0]
    steps.insert(asked, steps.pop(told))
    return with_steps(live, steps)


def twice(live: Module) -> Module:
    at, steps = places(live, PrintValues)[0], list(live.program.steps)
    return with_steps(live, [_moved(s, at, 1) for s in (*steps[:at], steps[at], *steps[at:])])


def on_both_ways(live: Module) -> Module:
    """The assertion in an arm stands before the choice."""
    steps, at = list(live.program.steps), places(live, Require)[1]
    choice = places(live, Branch)[0]
    item = replace(steps.pop(at), shown=())  # type: ignore[arg-type]
    branch = steps[choice]
    assert isinstance(branch, Branch)
    steps[choice] = replace(branch, then=branch.then - 1, end=branch.end - 1)
    steps.insert(choice, item)
    return with_steps(live, [_moved(s, choice, 1) if i > choice else s for i, s in enumerate(steps)])


FAULTS = {
    "a print left out": without(PrintValues, 0),
    "an assertion left out": without(Require, 0),
    "an assertion in an arm left out": without(Require, 1),
    "another condition": changed(Require, 0, condition="c"),
    "another value": changed(PrintValues, 1, shown=("x", "x")),
    "a value less": changed(Require, 0, shown=()),
    "another text": changed(PrintValues, 0, format="y was {}, c is {}"),
    "another message": changed(Require, 0, format=""),
    "another order": swapped,
    "told twice": twice,
    "asked on both ways": on_both_ways,
}


@pytest.mark.parametrize("fault", FAULTS.values(), ids=FAULTS)
def test_another_effect_is_refuted(fault: Callable[[Module], Module]) -> None:
    before, live = made()
    assert check_program(before, live).holds
    assert not check_program(before, fault(live)).holds


def test_what_is_shown_is_live_where_it_is_shown() -> None:
    _, live = made()
    (name,) = {s.shown[0] for s in live.program.steps if isinstance(s, PrintValues) and s.format}
    slot = live.program.slots[name]
    at = live.program.positions[places(live, PrintValues)[0]]
    short = replace(slot, live=((slot.start, at),))
    odd = live.with_(main=replace(live.program, slots={**live.program.slots, name: short}))
    assert check_lives(live.program, live.kernels).holds
    assert not check_lives(odd.program, odd.kernels).holds


RIGHT_AND_WRONG = {
    "an assertion is not asked": (" == 0) {", " == 7) {"),
    "it is asked the other way round": (" == 0) {", " != 0) {"),
    "a print is not told": ("status = speaks_print(", "status = 1 ? 0 : speaks_print("),
    "a print is told of another": ("const void *const[]){", "const void *const[]){(const unsigned char *)x + 4, "),
    "its sizes are others": ("(const int64_t[]){", "(const int64_t[]){1 + "),
    "it is told as another": ("speaks_print(1,", "speaks_print(9,"),
}


@pytest.mark.parametrize("name", RIGHT_AND_WRONG)
def test_c_that_tells_or_asks_otherwise_is_seen(name: str) -> None:
    before, live = made()
    planned = pool(live)
    source = emit(planned, "speaks")
    right, wrong = RIGHT_AND_WRONG[name]
    start = source.source.index("speaks_run(")
    body = source.source[start:].replace(right, wrong)
    assert body != source.source[start:]
    text = source.source[:start]
    inputs = given()

    def compared(c: CSource) -> Evidence:
        native = compile_c(c, reproducible=False, flags=("-O1",))
        return Comparison(before, module_at(planned, inputs), c, native, inputs).run()[1]

    assert compared(source).holds
    found = compared(replace(source, source=text + body))
    assert not found.holds and ("compiled.T9" in found.detail) == (name == "it is told as another")
