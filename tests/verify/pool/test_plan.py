"""Memory plans of programs: the sweep on all paths, at all phases and in all pools, against the machine and the
proof."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import replace
from itertools import product
from math import lcm
from typing import Any

import numpy as np
import pytest
from hypothesis import given, strategies as st

from assay.interp import machine
from assay.lower.memory import plan as place
from assay.semantics.dtypes import BOOL, FLOAT32, UINT8
from assay.semantics.errors import Trap
from assay.semantics.memory import BufferInfo, Pool, Problem, lower_bound
from assay.semantics.module import Module, Program, Slot, Step
from assay.semantics.types import TensorType
from assay.verify.evidence import Evidence
from assay.verify.liveness.lives import check_lives
from assay.verify.memory import prove_plan
from assay.verify.pool import _Sweep, as_problem, check_pool, sweep
from tests.interp.test_machine_branches import UP, backwards, choosing, forking, in_place, phased, pooled
from tests.lower.memory.planned import Choose, Row, lanes, moved, planned


def slot(name: str, size: int, start: int, stop: int, offset: int | None = None, alignment: int = 1) -> Slot:
    return Slot(name, TensorType((size,), UINT8), "workspace", ((start, stop),), alignment, offset, f"kernel_{name}")


def proved(slots: Sequence[Slot], size: int) -> Evidence:
    """What z3 says of slots in one pool."""
    program = Program(
        {s.name: s for s in slots}, (), (), (), (Pool("workspace", alignment=lcm(*range(1, 17))),), {"workspace": size}
    )
    return prove_plan(*as_problem(program)).evidence


slots_strategy = st.lists(
    st.tuples(st.integers(0, 9), st.integers(0, 6), st.integers(0, 6), st.integers(0, 20)), max_size=8
).map(lambda rows: [slot(f"b{i}", n, min(a, b), max(a, b) + 1, at) for i, (n, a, b, at) in enumerate(rows)])


@given(slots_strategy, st.integers(1, 16))
def test_planned_slots_never_clash(slots: list[Slot], alignment: int) -> None:
    slots = [replace(s, alignment=alignment, offset=None) for s in slots]
    found = place(
        Problem(
            tuple(BufferInfo(s.name, s.nbytes, tuple((i, j) for i, j in s.live if i < j), s.alignment) for s in slots),
            (Pool("workspace", alignment=alignment),),
        )
    )
    offsets, size = {n: p.offset for n, p in found.places.items()}, found.sizes.get("workspace", 0)
    assert size >= lower_bound(slots)
    assert proved([replace(s, offset=offsets[s.name]) for s in slots], size).holds


@pytest.mark.parametrize(
    "bad", [slot("a", 10, 0, 2, 11), slot("a", 10, 0, 2, 3, 4), slot("a", 10, 0, 2, -4, 4), slot("a", 4, 0, 1, None)]
)
def test_misplaced_slot_is_named(bad: Slot) -> None:
    evidence = proved([bad], 20)
    assert not evidence.holds and "buffer a" in evidence.detail


def chain(offsets: Sequence[int], size: int, lives: Sequence[tuple[int, int]] | None = None) -> Program:
    """x -> a -> b -> c, four bytes each."""
    lives = lives or [(0, 2), (1, 3), (2, 4)]
    slots = {
        "x": Slot("x", TensorType((4,), UINT8), "input", ((0, 4),), 1),
        **{n: slot(n, 4, *life, at) for n, life, at in zip("abc", lives, offsets, strict=True)},
    }
    steps = (Step("k0", ("x",), ("a",)), Step("k1", ("a",), ("b",)), Step("k2", ("b",), ("c",)), Step("k3", ("c",), ()))
    return Program(slots, steps, ("x",), (), sizes={"workspace": size})


def test_sweep_accepts_reuse() -> None:
    assert sweep(chain([0, 4, 0], 8)).holds
    assert check_lives(chain([0, 4, 0], 8), {}).holds


def test_sweep_refuses_writing_over_what_is_read() -> None:
    evidence = sweep(chain([0, 2, 8], 12))
    assert not evidence.holds and "overwritten by b" in evidence.detail and "step 1 (k1)" in evidence.detail


def test_sweep_refuses_unwritten_bytes() -> None:
    program = chain([0, 4, 8], 12)
    dropped = replace(program, steps=program.steps[:1] + program.steps[2:])
    evidence = sweep(dropped)
    assert not evidence.holds and "unwritten" in evidence.detail and "buffer b" in evidence.detail


def test_sweep_catches_what_wrong_lives_hide() -> None:
    """The planner believed that a dies early: its own intervals are disjoint, the executed steps are not."""
    program = chain([0, 4, 0], 8)
    late = replace(program, steps=(*program.steps, Step("k4", ("a",), ())))
    late = replace(late, slots={**late.slots, "x": replace(late.slots["x"], live=((0, 5),))})
    assert proved(late.placed("workspace"), 8).holds
    assert "overwritten by c" in sweep(late).detail
    assert "buffer a" in check_lives(late, {}).detail


def test_wrong_life_is_named() -> None:
    evidence = check_lives(chain([0, 4, 0], 8, [(0, 1), (1, 3), (2, 4)]), {})
    assert (
        not evidence.holds
        and "buffer a (kernel_a) is live in [0, 1), but is between uses at position 1, in step 1 (k1)"
        in evidence.detail
    )


# --- choices, phases, pools ------------------------------------------------------------------------------------------


def verdict(module: Module) -> Evidence:
    return sweep(module.program, module.kernels)


def test_right_plans_hold() -> None:
    for made in (choosing(), phased(), pooled()):
        assert verdict(made).holds, verdict(made).detail
        assert check_pool(made)[0].holds, check_pool(made)[0].detail


def test_arms_may_share_bytes_and_what_is_live_in_one_may_not() -> None:
    made = choosing()
    shared = moved(made, u={"offset": made.program.slots["t"].offset})
    assert verdict(shared).holds
    over = moved(made, u={"offset": made.program.slots["a"].offset})
    assert "buffer a is overwritten by u while step 6 (twice) uses it" in verdict(over).detail


def test_a_slot_that_one_arm_overwrites_is_nobodys_behind_the_choice() -> None:
    made = choosing()
    t = moved(made, t={"offset": made.program.slots["a"].offset})
    rows = [*made.program.steps[:4], replace(made.program.steps[4], reads=("x",)), *made.program.steps[5:]]
    wrong = t.with_(main=replace(t.program, steps=tuple(rows)))
    assert "byte 0 of buffer a is not written by it on every path when step 8 (add)" in verdict(wrong).detail


def test_a_result_that_one_arm_forgets() -> None:
    made = choosing()
    steps = (*made.program.steps[:7], replace(made.program.steps[7], writes=("u2",)), *made.program.steps[8:])
    slots = {**made.program.slots, "u2": replace(made.program.slots["u"], name="u2", offset=256)}
    wrong = made.with_(main=replace(made.program, steps=steps, slots=slots, sizes={"workspace": 512}))
    assert "buffer r is not written by it on every path when step 8 (add)" in verdict(wrong).detail


def test_a_condition_is_read() -> None:
    made = choosing()
    wrong = moved(made, {"workspace": 512}, c={"offset": 0, "pool": "workspace", "alignment": 1})
    assert "byte 0 of buffer c is overwritten by a when step 1 (the choice by c) reads it" in verdict(wrong).detail


def test_bytes_are_shared_at_different_phases_only() -> None:
    made = phased()
    a = made.program.slots["a"].offset
    assert "while step 1 (turn) uses it" in verdict(moved(made, **{"1.0.t": {"offset": a}})).detail
    step = made.program.steps[1]
    assert isinstance(step, Step)
    coarse = replace(made.program, steps=(made.program.steps[0], replace(step, phases=1), made.program.steps[2]))
    assert "buffer a is overwritten by b" in sweep(coarse).detail


def test_arms_inside_a_kernel_share_bytes_and_what_they_overwrite_is_gone() -> None:
    made = forking()
    assert verdict(made).holds, verdict(made).detail
    late = replace(made.program, steps=(*made.program.steps[:3], replace(made.program.calls[3], reads=("b",))))
    assert "buffer b is overwritten by 2.0.t when step 3 (up)" in sweep(late, made.kernels).detail
    assert not check_pool(made)[0].holds, "lives that are too long are in conflict"


def test_pools_have_bytes_of_their_own() -> None:
    made = pooled()
    assert made.program.slots["x"].offset == made.program.slots["a"].offset, "in different pools"
    assert "while step 1 (add) uses it" in verdict(moved(made, y={"offset": 0})).detail
    assert "does not lie within the 64 bytes of the pool sram" in verdict(moved(made, x={"offset": 64})).detail
    evidence, queries = check_pool(made)
    assert evidence.holds and sorted(queries) == ["pool", "pool1", "pool2"]
    late = [*made.program.steps, Step("up", ("w",), ("a",))]
    over = moved(made.with_(main=replace(made.program, steps=tuple(late))), a={"offset": 64})
    assert "buffer a is overwritten by y" in verdict(over).detail or "y is overwritten by a" in verdict(over).detail


def test_an_output_in_a_pool_is_whole_at_the_exit() -> None:
    up = lanes("up", [FLOAT32], FLOAT32, 4, lambda v: v + 1.0)
    made = planned([(up, ["x"], ["y"]), (up, ["x"], ["z"])], {"x": TensorType((4,), FLOAT32)}, ["y", "z"])
    right = moved(made, {"workspace": 64}, y={"offset": 0, "alignment": 16}, z={"offset": 16, "alignment": 16})
    assert verdict(right).holds
    wrong = moved(right, z={"offset": 8, "alignment": 8})
    assert "byte 8 of buffer y is overwritten by z at the exit, where it is an output" in verdict(wrong).detail


def test_an_output_may_take_the_bytes_of_an_input_where_its_kernel_allows_that() -> None:
    made = in_place()
    evidence = check_pool(made)[0]
    assert verdict(made).holds and evidence.holds, evidence.detail
    wrong = check_pool(in_place(backwards()))[0]
    assert not wrong.holds and "step 1 (back): output out of back in place of x: element" in wrong.detail
    calls = made.program.calls
    for steps in (
        (calls[0], replace(calls[1], in_place=()), calls[2]),
        (*calls[:2], replace(calls[2], reads=("b", "a"))),
    ):
        changed = moved(made.with_(main=replace(made.program, steps=steps)), a={"live": ((0, 3),)})
        assert "buffer a is overwritten by b" in verdict(changed).detail
        assert not prove_plan(*as_problem(changed.program)).evidence.holds
    read_again = replace(made.program, steps=(*calls[:2], replace(calls[2], reads=("a", "a"))))
    after = moved(made.with_(main=read_again), a={"live": ((0, 3),)}, b={"live": ((1, 2),)})
    assert check_lives(after.program, after.kernels).holds and not verdict(after).holds
    assert not prove_plan(*as_problem(after.program)).evidence.holds, "a lives on when b is gone"
    half = moved(made, b={"offset": 32, "alignment": 32})
    assert not verdict(half).holds and not prove_plan(*as_problem(half.program)).evidence.holds
    third = planned(
        [(UP, ["x"], ["a"]), (UP, ["x"], ["c"]), (UP, ["a"], ["b"]), (UP, ["c"], ["d"]), (UP, ["b"], ["y"])],
        {"x": TensorType((16,), FLOAT32)},
        ["y"],
    )
    steps = tuple(replace(s, in_place=((0, 0),)) if s.writes == ("b",) else s for s in third.program.calls)
    over = moved(
        third.with_(main=replace(third.program, steps=steps)), a={"live": ((0, 3),)}, b={"offset": 0}, c={"offset": 0}
    )
    assert not verdict(over).holds and not prove_plan(*as_problem(over.program)).evidence.holds


KERNELS = [
    lanes(f"k{n}", [FLOAT32] * n, FLOAT32, 4, lambda *v: v[0] + 1.0 if len(v) == 1 else v[0] + v[1]) for n in (1, 2)
]


def random_plan(seed: int) -> tuple[Module, int]:
    """A program with choices, on bytes of which some are shared by chance; and how many conditions it has."""
    rng = random.Random(seed)
    names = ["x"]
    conditions = 0

    def rows(count: int, depth: int) -> list[Row | Choose]:
        nonlocal conditions
        found: list[Row | Choose] = []
        for _ in range(count):
            if depth and conditions < 4 and rng.random() < 0.4:
                conditions += 1
                name = f"c{conditions}"
                found.append(Choose(name, rows(rng.randrange(3), depth - 1), rows(rng.randrange(3), depth - 1)))
                continue
            kernel = rng.choice(KERNELS)
            reads = [rng.choice(names[-4:]) for _ in kernel.inputs]
            free = [n for n in names[1:] if n not in reads]
            made = rng.choice(free) if free and rng.random() < 0.4 else f"t{len(names)}"
            found.append((kernel, reads, [made]))
            names.append(made)
        return found

    body = rows(rng.randrange(2, 6), 2)
    types = {"x": TensorType((4,), FLOAT32), **{f"c{i + 1}": TensorType((), BOOL) for i in range(conditions)}}
    made = planned(body, types, [names[-1]])
    work = [s.name for s in made.program.placed("workspace")]
    changes: dict[str, dict[str, Any]] = {n: {"alignment": 4, "offset": 16 * i} for i, n in enumerate(work)}
    for n in work:
        if rng.random() < 0.3:
            changes[n]["offset"] = 4 * rng.randrange(4 * len(work) - 3)
    return moved(made, {"workspace": 16 * len(work)}, **changes), conditions


@pytest.mark.parametrize("start", range(0, 300, 100))
def test_the_sweep_and_the_machine_agree_on_all_paths(start: int) -> None:
    """The sweep refuses a program exactly if the machine traps on some path; what is proved never traps."""
    holds = refused = safe = 0
    for seed in range(start, start + 100):
        made, conditions = random_plan(seed)
        traps = []
        for bits in product([False, True], repeat=conditions):
            inputs = {"x": np.ones(4, np.float32), **{f"c{i + 1}": np.bool_(b) for i, b in enumerate(bits)}}
            try:
                machine.run(made, inputs)
            except Trap as trap:
                traps.append(trap.kind)
        said = verdict(made)
        assert said.holds == (not traps), (seed, said.detail, traps)
        assert set(traps) <= {"clobbered", "unwritten read", "unwritten output"}
        holds, refused = holds + said.holds, refused + (not said.holds)
        if prove_plan(*as_problem(made.program)).evidence.holds:
            safe += 1
            assert "clobbered" not in traps, seed
    assert holds > 10 and refused > 10 and safe > 5


def test_cells_say_what_bytes_say() -> None:
    """The sweep of the cells between ends of slots gives the words, byte by byte, of the definition on single bytes."""
    said = set()
    for seed in range(200):
        made, _ = random_plan(seed)
        program = made.program
        work = [s.name for s in program.placed("workspace")]
        odd = random.Random(seed)
        for n in work:  # at any byte: slots cut one another anywhere
            if odd.random() < 0.3:
                s = program.slots[n]
                shifted = replace(s, offset=odd.randrange(16 * len(work) - s.nbytes + 1))
                program = replace(program, slots={**program.slots, n: shifted})
        found = _Sweep(program, made.kernels).run()
        assert found == _Sweep(program, made.kernels, bytewise=True).run(), seed
        said.add(None if found is None else found.split(" of ")[0])
    assert None in said and len(said) > 8


def test_the_sweep_takes_no_memory_for_bytes() -> None:
    """A pool of a million gigabytes is as many cells as one of twelve bytes; what is wrong in it is named by its
    byte."""
    wide = 1 << 50
    program = chain([0, wide, 0], 2 * wide)
    big = {n: replace(s, type=TensorType((wide,), UINT8)) for n, s in program.slots.items()}
    whole = replace(program, slots=big)
    assert sweep(whole).holds and max(map(len, _Sweep(whole, {}).owners.owner.values())) <= 2
    moved_up = replace(big["b"], offset=wide - 5)
    evidence = sweep(replace(whole, slots={**big, "b": moved_up}, sizes={"workspace": 2 * wide}))
    assert evidence.holds is False and f"byte {wide - 5} of buffer a is overwritten by b" in evidence.detail
