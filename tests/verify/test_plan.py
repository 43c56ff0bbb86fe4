"""Memory plans: the planner's hold, and every wrong one is refuted by the sweep and by z3, with the buffers' names."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import replace

import pytest
from hypothesis import given, strategies as st

from assay.lower.pool import first_fit, lower_bound, place
from assay.semantics.dtypes import UINT8
from assay.semantics.module import Program, Slot, Step
from assay.semantics.types import TensorType
from assay.verify.plan import check_lives, neighbours, prove, sweep


def slot(name: str, size: int, start: int, stop: int, offset: int | None = None, alignment: int = 1) -> Slot:
    return Slot(name, TensorType((size,), UINT8), "workspace", ((start, stop),), alignment, offset, f"kernel_{name}")


def clash(slots: Sequence[Slot]) -> bool:
    """The obvious quadratic definition of a bad plan."""
    return any(
        a.start < b.stop and b.start < a.stop and a.offset < b.offset + b.nbytes and b.offset < a.offset + a.nbytes
        for i, a in enumerate(slots)
        for b in slots[:i]
        if a.offset is not None and b.offset is not None and a.nbytes and b.nbytes and a.start < a.stop and b.start < b.stop
    )


slots_strategy = st.lists(
    st.tuples(st.integers(0, 9), st.integers(0, 6), st.integers(0, 6), st.integers(0, 20)), max_size=8
).map(lambda rows: [slot(f"b{i}", n, min(a, b), max(a, b), at) for i, (n, a, b, at) in enumerate(rows)])


@given(slots_strategy)
def test_neighbours_find_every_clash(slots: list[Slot]) -> None:
    found = any(clash([a, b]) for a, b in neighbours(slots))
    assert found == clash(slots)


@given(slots_strategy)
def test_z3_agrees_with_the_quadratic_definition(slots: list[Slot]) -> None:
    evidence, _ = prove(slots, 100, "test")
    assert evidence.holds == (not clash(slots))


@given(slots_strategy, st.integers(1, 16))
def test_planned_slots_never_clash(slots: list[Slot], alignment: int) -> None:
    slots = [replace(s, alignment=alignment, offset=None) for s in slots]
    offsets, size = place(slots)
    placed = [replace(s, offset=offsets[s.name]) for s in slots]
    assert not clash(placed)
    assert all(s.offset is not None and s.offset % alignment == 0 and s.offset + s.nbytes <= size for s in placed)
    assert size >= lower_bound(slots)
    assert prove(placed, size, "test")[0].holds


def test_shared_byte_is_named() -> None:
    evidence, text = prove([slot("a", 10, 0, 2, 0), slot("b", 10, 1, 3, 9)], 20, "test")
    assert not evidence.holds
    assert "buffers a (kernel_a) and b (kernel_b) share byte 9" in evidence.detail
    assert "(check-sat)" in text


@pytest.mark.parametrize("bad", [slot("a", 10, 0, 2, 11), slot("a", 10, 0, 2, 3, 4), slot("a", 10, 0, 2, -4, 4), slot("a", 4, 0, 1, None)])
def test_misplaced_slot_is_named(bad: Slot) -> None:
    evidence, _ = prove([bad], 20, "test")
    assert not evidence.holds and "buffer a" in evidence.detail


def test_touching_lives_may_share() -> None:
    assert prove([slot("a", 10, 0, 2, 0), slot("b", 10, 2, 3, 0)], 10, "test")[0].holds


def chain(offsets: Sequence[int], size: int, lives: Sequence[tuple[int, int]] | None = None) -> Program:
    """x -> a -> b -> c, four bytes each."""
    lives = lives or [(0, 2), (1, 3), (2, 4)]
    slots = {
        "x": Slot("x", TensorType((4,), UINT8), "input", ((0, 9),), 1),
        **{n: slot(n, 4, *life, at) for n, life, at in zip("abc", lives, offsets, strict=True)},
    }
    steps = (Step("k0", ("x",), ("a",)), Step("k1", ("a",), ("b",)), Step("k2", ("b",), ("c",)), Step("k3", ("c",), ()))
    return Program(slots, steps, ("x",), (), sizes={"workspace": size})


def test_sweep_accepts_reuse() -> None:
    assert sweep(chain([0, 4, 0], 8)).holds
    assert check_lives(chain([0, 4, 0], 8)).holds


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
    assert prove(late.placed("workspace"), 8, "test")[0].holds
    assert "overwritten by c" in sweep(late).detail
    assert "buffer a" in check_lives(late).detail


def test_wrong_life_is_named() -> None:
    evidence = check_lives(chain([0, 4, 0], 8, [(0, 1), (1, 3), (2, 4)]))
    assert not evidence.holds and "buffer a (kernel_a) is live in [0, 1), but used in [0, 2)" in evidence.detail


def test_ten_thousand_buffers() -> None:
    """The query grows with neighbours, not with pairs."""
    rng = random.Random(7)
    slots = []
    for i in range(10_000):
        start = rng.randrange(5_000)
        slots.append(slot(f"b{i}", rng.randrange(1, 4096), start, start + rng.randrange(1, 9)))
    offsets, size = first_fit(sorted(slots, key=lambda s: s.start))
    placed = [replace(s, offset=offsets[s.name]) for s in slots]
    evidence, text = prove(placed, size, "test")
    assert evidence.holds
    assert text.count("(= bad ") < 6 * len(slots)
    worse = [replace(s, offset=0) if i == 4321 else s for i, s in enumerate(placed)]
    assert "b4321" in prove(worse, size, "test")[0].detail or placed[4321].offset == 0
