"""Choices from the graph to C: the proof of a program with branches, end to end, and every fault that it must
refuse."""

from __future__ import annotations

import random
from collections.abc import Mapping
from dataclasses import replace
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from assay.interp import graph, machine, vector
from assay.lower.c import emit
from assay.lower.liveness import find_lives
from assay.lower.pool import plan_pools
from assay.semantics.builder import Builder, tensor
from assay.semantics.dtypes import BOOL, FLOAT32, INT64
from assay.semantics.errors import Invalid, Trap
from assay.semantics.graph import Expr, call, call_tir, function, get, if_, let, match_cast, tuple_of, var
from assay.semantics.module import Branch, Module, Program, Step
from assay.semantics.rules import check as check_rules
from assay.semantics.scalar import apply
from assay.semantics.store import ArrayReader, ArrayWriter, decode, encode
from assay.semantics.types import TensorType
from assay.verify.app.stages import STAGES, lowering_passes
from assay.verify.c.compiled import compile_c
from assay.verify.compare import Comparison
from assay.verify.evidence import Context
from assay.verify.liveness.program import check_program
from assay.verify.pool import check_pool
from tests.interp.test_machine_branches import choosing, phased, pooled
from tests.lower.liveness.liveness_programs import Random, call_function, lowered
from tests.lower.memory.planned import apart, lanes

B, F, I = TensorType((), BOOL), TensorType((2, 3), FLOAT32), TensorType((2,), INT64)  # noqa: E741


def model() -> Module:
    """Choices inside choices, a function that chooses, called twice, a result that is a parameter in one arm."""
    b = Builder()
    with b.function("helper", x=tensor(2, 3)) as f:
        with b.if_(b.greater(b.sum(f.x), 1.0)) as inner:
            with inner.then():
                b.result(b.exp(f.x))
            with inner.otherwise():
                b.result(b.nn.relu(f.x))
        b.result(inner.value)
    helper = f
    with b.function("main", x=tensor(2, 3), w=tensor(2, 3)) as f:
        s = b.add(f.x, f.w)
        with b.if_(b.greater(b.sum(s), 0.0)) as outer:
            with outer.then():
                with b.if_(b.greater(b.sum(f.x), 0.0)) as inner:
                    with inner.then():
                        b.result(b.exp(s))
                    with inner.otherwise():
                        b.result(f.w)
                b.result(inner.value)
            with outer.otherwise():
                b.result(b.call(helper, b.call(helper, s)))
        b.result(b.add(outer.value, s))
    return b.module()


def bits(found: Mapping[str, Any]) -> list[bytes]:
    return [np.asarray(a).tobytes() for a in found.values()]


@pytest.mark.row("U15", "U18")
def test_a_model_with_choices_goes_through_every_stage_and_both_paths_are_bit_equal() -> None:
    stages = {s.name: s for s in STAGES}
    made = {"import": model()}
    before = made["import"]
    for name, run in lowering_passes(vector.run).items():
        made[name] = run(before)
        if name in stages:
            evidence = stages[name].check(before, made[name], Context())
            assert evidence.holds, (name, evidence.detail)
        before = made[name]
    last = made["pool"]
    assert sum(isinstance(s, Branch) for s in last.program.steps) == 4
    compiled = compile_c(emit(last, "m"), reproducible=True, trace=True)
    rng = np.random.default_rng(0)
    paths = set()
    for _ in range(30):
        x = {n: rng.standard_normal((2, 3)).astype(np.float32) for n in ("x", "w")}
        ran: list[int] = []
        steps: list[int] = []
        got = machine.run(last, x, observe=lambda i, step, arrays, ran=ran: ran.append(i))
        native = compiled.run(x, on_step=lambda i, look, steps=steps: steps.append(i))
        assert bits(got) == bits(native) == [np.asarray(graph.run(made["schedule"], x)["output_0"]).tobytes()]
        assert bits(machine.run(last, x, execute="definition")) == bits(got)
        assert ran == steps
        paths.add(tuple(ran))
    assert len(paths) >= 4, "the inputs take the paths"


@pytest.mark.parametrize("start", range(0, 60, 20))
def test_random_models_with_choices(start: int) -> None:
    branches = 0
    for seed in range(start, start + 20):
        source = lowered(Random(seed).module())
        made = plan_pools(find_lives(source))
        check_rules(made)
        evidence = check_program(source, made)
        assert evidence.holds, (seed, evidence.detail)
        evidence, _ = check_pool(made)
        assert evidence.holds, (seed, evidence.detail)
        branches += sum(isinstance(s, Branch) for s in made.program.steps)
        compiled = (
            compile_c(emit(made, "m"), reproducible=True, flags=("-std=c99", "-ffp-contract=off", "-O1"))
            if seed % 10 == 0
            else None
        )
        for one in all_inputs(made.program):
            want = bits(graph.run(source, one))
            assert bits(machine.run(made, one)) == want, seed
            if compiled is not None:
                assert bits(compiled.run(one)) == want, seed
    assert branches > 10


def all_inputs(program: Program) -> list[dict[str, Any]]:
    """Every combination of the conditions that are inputs, beside numbers."""
    rng = np.random.default_rng(1)
    types = {n: program.slots[n].type for n in program.inputs}
    flags = [n for n, t in types.items() if t.dtype is BOOL]
    numbers = {n: rng.standard_normal(t.static_shape).astype(t.dtype.numpy) for n, t in types.items() if n not in flags}
    return [
        {**numbers, **{n: np.bool_(v) for n, v in zip(flags, chosen, strict=True)}}
        for chosen in product([False, True], repeat=len(flags))
    ]


# --- faults ------------------------------------------------------------------------------------------------------


def traps() -> Module:
    """r, q = c ? (x // y, x) : (d ? x + y : x, y); z = r + q: x // y traps, and only where c holds."""
    div, add = (
        lanes(n, [INT64, INT64], INT64, 2, f)
        for n, f in (("div", lambda a, b: apply("floordiv", a, b)), ("add", lambda a, b: a + b))
    )
    x, y, c, d = var("x", I), var("y", I), var("c", B), var("d", B)

    def tir(kernel: str, *args: Expr) -> Expr:
        return call_tir(kernel, args, I)

    p, q, r, s = var("p", I), var("q", I), var("r", TensorTuple), var("s", I)
    then = let(p, tir("div", x, y), tuple_of(p, x))
    inner = if_(d, let(q, tir("add", x, y), q), x)
    otherwise = let(s, inner, tuple_of(s, y))
    a, b, z = var("a", I), var("b", I), var("z", I)
    body = let(r, if_(c, then, otherwise), let(a, get(r, 0), let(b, get(r, 1), let(z, tir("add", a, b), z))))
    return Module({"main": function([x, y, c, d], body), "div": div, "add": add})


TensorTuple = tuple_of(var("a", I), var("b", I)).type


def shown(program: Program) -> list[str]:
    return [s.kernel if isinstance(s, Step) else f"if {s.condition}" for s in program.steps]


@pytest.fixture
def sample() -> tuple[Module, Module]:
    source = traps()
    made = find_lives(source)
    assert check_program(source, made).holds, check_program(source, made).detail
    # the slots r.0 and r.1 get copies where an arm gives a parameter
    assert shown(made.program) == ["if c", "div", "copy0", "if d", "add", "copy0", "copy0", "add"]
    return source, made


def refused(sample: tuple[Module, Module], steps: list[Step | Branch]) -> str:
    source, made = sample
    changed = made.with_(main=replace(made.program, steps=tuple(steps)))
    evidence = check_program(source, changed)
    assert not evidence.holds
    return evidence.detail


def step(sample: tuple[Module, Module], i: int, **changes: Any) -> list[Step | Branch]:
    steps = list(sample[1].program.steps)
    steps[i] = replace(steps[i], **changes)
    return steps


def test_swapped_arms_are_refused(sample: tuple[Module, Module]) -> None:
    s = list(sample[1].program.steps)
    swapped = [Branch("c", 5, 7), Branch("d", 3, 4), s[4], s[5], s[6], s[1], s[2], s[7]]
    assert "does not get its value" in refused(sample, swapped)


def test_a_wrong_condition_is_refused(sample: tuple[Module, Module]) -> None:
    for i, other in ((0, "d"), (3, "c")):
        assert "does not get its value" in refused(sample, step(sample, i, condition=other))
    assert "reads nothing, which nothing has written" in refused(sample, step(sample, 0, condition="nothing"))


def test_a_dropped_step_or_copy_is_refused(sample: tuple[Module, Module]) -> None:
    whole = list(sample[1].program.steps)
    for gone in (1, 2, 4, 5, 6):
        steps = [
            replace(s, then=s.then - (s.then > gone), end=s.end - (s.end > gone)) if isinstance(s, Branch) else s
            for i, s in enumerate(whole) if i != gone
        ]  # fmt: skip
        assert refused(sample, steps)


def test_an_arm_that_writes_another_slot_is_refused(sample: tuple[Module, Module]) -> None:
    steps = sample[1].program.steps
    homes = steps[1].writes + steps[2].writes  # of the two results
    assert refused(sample, step(sample, 2, writes=(homes[0],)))
    assert refused(sample, step(sample, 5, writes=(homes[1],)))


def test_a_step_that_can_trap_stays_in_its_arm(sample: tuple[Module, Module]) -> None:
    """Moved before the choice, or doubled there, it gives the right values, and traps on paths that the graph does
    not."""
    s = list(sample[1].program.steps)
    moved = [s[1], Branch("c", 3, 7), s[2], Branch("d", 5, 6), *s[4:]]
    assert "a step that can trap, an assertion or a print is dropped" in refused(sample, moved)
    into = [Branch("c", 3, 8), s[1], s[2], Branch("d", 6, 7), s[4], replace(s[1], writes=("q",)), s[5], s[6], s[7]]
    extra = sample[1].program.slots["x"]
    source, made = sample
    slots = {**made.program.slots, "q": replace(extra, name="q", place="workspace")}
    evidence = check_program(source, made.with_(main=replace(made.program, steps=tuple(into), slots=slots)))
    assert "a step that can trap, an assertion or a print is dropped" in evidence.detail


def test_a_step_that_cannot_trap_may_be_moved_before_the_choice() -> None:
    x, c = var("x", F), var("c", B)
    source = lowered(Module({"main": function([x, c], if_(c, call("exp", x), call("nn.relu", x)))}))
    made = find_lives(source)
    branch, exp, relu = made.program.steps
    assert isinstance(exp, Step) and isinstance(relu, Step)
    slots = {**made.program.slots, "t": replace(made.program.slots[exp.writes[0]], name="t", place="workspace")}
    copy = find_lives(lowered(Module({"main": function([x], x)})))
    steps = (
        replace(exp, writes=("t",)),
        Branch("c", 3, 4),
        replace(copy.program.calls[0], reads=("t",), writes=exp.writes),
        relu,
    )
    changed = made.with_(**copy.kernels, main=replace(made.program, steps=steps, slots=slots))
    assert check_program(source, changed).holds


def test_arms_do_not_see_each_others_slots(sample: tuple[Module, Module]) -> None:
    source, made = sample
    steps = step(sample, 1, writes=("t",))
    steps[6] = replace(steps[6], reads=("t",))
    slots = {**made.program.slots, "t": replace(made.program.slots["x"], name="t", place="workspace")}
    evidence = check_program(source, made.with_(main=replace(made.program, steps=tuple(steps), slots=slots)))
    assert not evidence.holds and "step 6 (copy0) reads t, which nothing has written" in evidence.detail


def test_what_one_arm_alone_has_written_is_nobodys_behind_the_choice(sample: tuple[Module, Module]) -> None:
    source, made = sample
    first = made.program.steps[1]
    assert isinstance(first, Step)
    steps = step(sample, 1, writes=("t",))
    slots = {**made.program.slots, "t": replace(made.program.slots[first.writes[0]], name="t")}
    evidence = check_program(source, made.with_(main=replace(made.program, steps=tuple(steps), slots=slots)))
    assert not evidence.holds and f"step 7 (add) reads {first.writes[0]}, which nothing has written" in evidence.detail


@pytest.mark.parametrize("seed", range(0, 40, 10))
def test_no_changed_program_that_is_accepted_computes_something_else(seed: int) -> None:
    """Slots of single steps and conditions exchanged at random: what still is accepted gives the same on all paths."""
    rng = random.Random(seed)
    accepted = rejected = 0
    for number in range(seed, seed + 10):
        source = lowered(Random(number).module(5))
        made = find_lives(source)
        program = apart(made.program)
        for _ in range(12):
            changed = replace(program, steps=mutated(rng, program))
            module = made.with_(main=changed)
            try:
                check_rules(module)
            except Invalid:
                continue
            holds = check_program(source, module).holds
            accepted, rejected = accepted + holds, rejected + (not holds)
            for one in all_inputs(program) if holds else ():
                assert bits(machine.run(module, one)) == bits(graph.run(source, one)), number
    assert rejected > 10 and accepted > 0


def mutated(rng: random.Random, program: Program) -> tuple[Step | Branch, ...]:
    steps = list(program.steps)
    if not steps:
        return ()
    i = rng.randrange(len(steps))
    one = steps[i]
    if isinstance(one, Branch):
        flags = [n for n, s in program.slots.items() if s.type.dtype is BOOL and s.type.ndim == 0]
        steps[i] = (
            replace(one, condition=rng.choice(flags))
            if rng.random() < 0.7
            else replace(one, then=rng.randrange(i + 1, one.end + 1))
        )
        return tuple(steps)
    side = rng.choice(["reads", "writes"])
    names = list(getattr(one, side))
    if names:
        k = rng.randrange(len(names))
        of = program.slots[names[k]].type
        names[k] = rng.choice([n for n, s in program.slots.items() if str(s.type) == str(of)])
        steps[i] = replace(one, **{side: tuple(names)})
    return tuple(steps)


# --- what is seen through ----------------------------------------------------------------------------------------


def test_calls_of_functions_are_their_bodies() -> None:
    """The same function at two places, one in an arm; and a call that a program makes of another function is
    refused."""
    x, c, p, q = var("x", F), var("c", B), var("p", F), var("q", F)
    inner = function([p], call("exp", call("nn.relu", p)))
    other = function([q], call("exp", call("tanh", q)))
    body = call(
        "add",
        call_function("f", inner, x),
        if_(c, call_function("f", inner, call_function("g", other, x)), match_cast(x, F)),
    )
    source = lowered(Module({"main": function([x, c], body), "f": inner, "g": other}))
    made = find_lives(source)
    assert check_program(source, made).holds
    wrong = find_lives(lowered(Module({"main": function([x, c], body), "f": other, "g": inner})))
    assert not check_program(source, wrong).holds


def test_recursion_is_not_proved() -> None:
    """A function that never comes back is no program, whatever that does."""
    x = var("x", F)
    f = function([x], x)
    y = var("y", F)
    loop = function([y], call_function("main", f, y))
    evidence = check_program(Module({"main": loop}), find_lives(Module({"main": f})))
    assert not evidence.holds and "loop 0 has 1 variables" in evidence.detail


def test_a_choice_between_two_equal_values_is_that_value() -> None:
    x, c = var("x", F), var("c", B)
    source = lowered(Module({"main": function([x, c], if_(c, call("exp", x), call("exp", x)))}))
    straight = find_lives(lowered(Module({"main": function([x, c], call("exp", x))})))
    assert check_program(source, straight).holds


@pytest.mark.parametrize("width", [200, 2_000])
def test_many_choices(width: int) -> None:
    """In a row and inside one another: linear in the program."""
    x, c = var("x", F), var("c", B)
    body: Expr = x
    for _ in range(width):
        body = if_(c, call("exp", body), x)
    source = lowered(Module({"main": function([x, c], body)}))
    assert check_program(source, find_lives(source)).holds


def test_traps_of_a_kernel_are_told_on_their_path_only() -> None:
    made = plan_pools(find_lives(traps()))
    one: dict[str, Any] = {"x": np.array([4, 6]), "y": np.array([2, 0]), "d": np.True_}
    assert machine.run(made, {**one, "c": np.False_})["output_0"].tolist() == [8, 6]
    with pytest.raises(Trap) as caught:
        machine.run(made, {**one, "c": np.True_})
    assert "step 1 (div)" in caught.value.message


# --- running and storing -----------------------------------------------------------------------------------------


def test_machine_and_c_are_compared_step_by_step_on_the_path_that_is_taken() -> None:
    source = model()
    made = source
    for run in lowering_passes(vector.run).values():
        made = run(made)
    text = emit(made, "m")
    native = compile_c(text, reproducible=False)
    for sign in (1, -1):
        x = {n: np.full((2, 3), sign, np.float32) for n in ("x", "w")}
        said, evidence = Comparison(source, made, text, native, x).run()
        assert evidence.holds, evidence.detail
        assert "C bit for bit the machine's after each of" in evidence.detail and said.startswith("1 output")
    test = next(i for i, s in enumerate(made.program.steps) if isinstance(s, Branch))
    old = f"!= 0) {{ /* step {test} */"
    assert old in text.source
    wrong = replace(text, source=text.source.replace(old, old.replace("!=", "==")))
    _, evidence = Comparison(source, made, wrong, native, x).run()
    assert (
        not evidence.holds and "C takes step" in evidence.detail and "where the machine takes step" in evidence.detail
    )


def test_a_result_that_nobody_reads_is_not_compared_where_it_has_been_overwritten() -> None:
    x = var("x", TensorType((16,), FLOAT32))
    source = lowered(Module({"main": function([x], call("tanh", get(call("split", x, sections=(8, 8), axis=0), 1)))}))
    made = plan_pools(find_lives(source))
    first, second = (made.program.slots[n] for n in made.program.calls[0].writes)
    assert first.offset == second.offset, "in one place, one after the other"
    text = emit(made, "m")
    compared = Comparison(
        source, made, text, compile_c(text, reproducible=False), {"x": np.arange(16, dtype=np.float32)}
    )
    assert compared.run()[1].holds


def test_programs_with_choices_and_pools_are_stored_and_read_back(tmp_path: Path) -> None:
    for k, made in enumerate((choosing(), pooled(), phased())):
        with (tmp_path / f"{k}.bin").open("wb") as file:
            text = encode(made, ArrayWriter(file))
        read = decode(text, ArrayReader(tmp_path / f"{k}.bin"), "here").program
        assert (read.steps, read.pools, read.sizes) == (made.program.steps, made.program.pools, made.program.sizes)
        assert repr(read.slots) == repr(made.program.slots)
