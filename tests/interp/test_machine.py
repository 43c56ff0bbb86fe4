"""The machine (specs/interp.md, "Machine"): right plans run, and every planted fault of a plan is caught by name."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from assay.interp import machine, vector
from assay.semantics.dtypes import FLOAT32, INT64, UINT8, dtype
from assay.semantics.errors import Invalid, Trap
from assay.semantics.memory import Pool
from assay.semantics.module import Module, Program, Slot, Step
from assay.semantics.scalar import cast, const
from assay.semantics.tensor import Allocate, Buffer, Evaluate, PrimFunc, loops, seq, store, when
from assay.semantics.types import TensorType
from tests.interp.kernels import concat

Array = np.ndarray[Any, Any]


def unary(name: str, value: Any, n: int = 8) -> PrimFunc:
    x, out = Buffer("x", (n,), FLOAT32), Buffer("out", (n,), FLOAT32)
    return PrimFunc(name, (x, out), 1, loops("i", (n,), lambda i: store(out, i, value(x[i])), kind="parallel"))


def binary(name: str, n: int = 8) -> PrimFunc:
    a, b, out = (Buffer(k, (n,), FLOAT32) for k in ("a", "b", "out"))
    return PrimFunc(name, (a, b, out), 1, loops("i", (n,), lambda i: store(out, i, a[i] + b[i]), kind="parallel"))


def with_scratch() -> PrimFunc:
    """out = reversed x, by way of a workspace."""
    x, out, tmp = (Buffer(k, (8,), FLOAT32) for k in ("x", "out", "tmp"))
    fill = loops("i", (8,), lambda i: store(tmp, i, x[i]))
    back = loops("i", (8,), lambda i: store(out, i, tmp[const(7) - i]))
    return PrimFunc("reverse", (x, out), 1, Allocate(tmp, seq(fill, back)))


def slot(name: str, place: Any, start: int, stop: int, offset: int | None = None, **more: Any) -> Slot:
    of = TensorType(more.pop("shape", (8,)), more.pop("dtype", FLOAT32))
    return Slot(name, of, place, ((start, stop),), 32, offset, more.pop("producer", ""))


KERNELS = {
    "double": unary("double", lambda x: x * 2.0),
    "negate": unary("negate", lambda x: -x),
    "add": binary("add"),
    "reverse": with_scratch(),
}
SLOTS = [
    slot("x", "input", 0, 4),
    slot("w", "constant", 0, 4, 0),
    slot("b", "constant", 0, 4, 32),
    slot("a", "workspace", 0, 3, 0, producer="double"),
    slot("n", "workspace", 1, 2, 32),
    slot("s", "workspace", 1, 3, 64),
    slot("t", "workspace", 2, 3, 32),
    slot("y", "output", 2, 4),
    slot("z", "output", 3, 4),
]
STEPS = (
    Step("double", ("x",), ("a",)),
    Step("reverse", ("a",), ("s",), ("n",)),
    Step("reverse", ("s",), ("y",), ("t",)),
    Step("add", ("w", "y"), ("z",)),
)
CONSTANTS = {"w": np.arange(8, dtype=np.float32), "b": np.ones(8, np.float32)}
X = np.linspace(-1, 1, 8).astype(np.float32)


def module(
    slots: Mapping[str, dict[str, Any]] | None = None,
    steps: tuple[Step, ...] = STEPS,
    kernels: Mapping[str, PrimFunc] | None = None,
    more: tuple[Slot, ...] = (),
    **program: Any,
) -> Module:
    """The right program, with changes to its slots, steps or kernels."""
    table = {s.name: replace(s, **(slots or {}).get(s.name, {})) for s in (*SLOTS, *more)}
    made = Program(
        table,
        steps,
        ("x",),
        program.pop("outputs", ("y", "z")),
        (Pool("workspace", alignment=32),),
        {"workspace": program.pop("workspace_bytes", 96)},
    )
    return Module({"main": made, **KERNELS, **(kernels or {})}, CONSTANTS)


MODES: list[Any] = [vector.run, "definition"]


@pytest.fixture(params=MODES, ids=["vector", "definition"])
def execute(request: pytest.FixtureRequest) -> Any:
    return request.param


def trap(wrong: Module, execute: Any, inputs: Mapping[str, Array] | None = None) -> Trap:
    with pytest.raises(Trap) as caught:
        machine.run(wrong, {"x": X} if inputs is None else inputs, execute=execute)
    return caught.value


# --- right plans -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", [0, 1, 2])
def test_a_right_plan_runs(execute: Any, seed: int) -> None:
    got = machine.run(module(), {"x": X}, execute=execute, seed=seed)
    assert (got["y"] == X * 2).all()
    assert (got["z"] == CONSTANTS["w"] + X * 2).all()


def test_steps_are_observed(execute: Any) -> None:
    seen: list[tuple[int, str, dict[str, list[float]]]] = []

    def observe(number: int, step: Step, arrays: dict[str, Array]) -> None:
        seen.append((number, step.kernel, {k: v.tolist() for k, v in arrays.items()}))

    machine.run(module(), {"x": X}, execute=execute, observe=observe)
    assert [s[:2] for s in seen] == [(0, "double"), (1, "reverse"), (2, "reverse"), (3, "add")]
    assert seen[1][2] == {"a": (X * 2).tolist(), "s": (X * 2)[::-1].tolist()}


def test_inputs_and_outputs_may_be_one(execute: Any) -> None:
    got = machine.run(module(outputs=("x", "w", "a"), slots={"a": {"live": ((0, 9),)}}), {"x": X}, execute=execute)
    assert (got["x"] == X).all() and (got["w"] == CONSTANTS["w"]).all() and (got["a"] == X * 2).all()


def test_a_slot_may_be_read_twice_and_under_another_shape(execute: Any) -> None:
    """A reshape is no code: the kernel's parameter says how the bytes are read."""
    a, out = Buffer("a", (2, 4), FLOAT32), Buffer("out", (4, 2), FLOAT32)
    turn = PrimFunc("turn", (a, out), 1, loops("i j", (4, 2), lambda i, j: store(out, (i, j), a[j, i])))
    steps = (*STEPS[:2], Step("turn", ("s",), ("y",)), Step("add", ("y", "y"), ("z",)))
    got = machine.run(module(steps=steps, kernels={"turn": turn}), {"x": X}, execute=execute)
    assert (got["z"] == (X * 4)[::-1].reshape(2, 4).T.reshape(8)).all()


def test_other_dtypes_and_empty_slots(execute: Any) -> None:
    x, out = Buffer("x", (3,), UINT8), Buffer("out", (3,), INT64)
    widen = PrimFunc("widen", (x, out), 1, loops("i", (3,), lambda i: store(out, i, cast(x[i], INT64))))
    none = PrimFunc("none", (Buffer("o", (0, 2), FLOAT32),), 1, seq())
    slots = (
        slot("u", "input", 0, 2, shape=(3,), dtype=UINT8),
        slot("v", "workspace", 0, 2, 8, shape=(3,), dtype=INT64),
        slot("e", "workspace", 1, 2, 32, shape=(0, 2)),
    )
    steps = (Step("widen", ("u",), ("v",)), Step("none", (), ("e",)))
    table = {s.name: replace(s, alignment=8) for s in slots}
    program = Program(table, steps, ("u",), ("v", "e"), (Pool("workspace", alignment=8),), {"workspace": 32})
    got = machine.run(
        Module({"main": program, "widen": widen, "none": none}), {"u": np.array([1, 2, 255], np.uint8)}, execute=execute
    )
    assert got["v"].tolist() == [1, 2, 255] and got["e"].shape == (0, 2)


def test_memory_holds_garbage_that_depends_on_the_seed() -> None:
    """What a kernel leaves unwritten is not zero, and not the same in another run."""

    def lazy(func: PrimFunc, inputs: Any, *, outputs: Any, scratch: Any) -> Any:
        return outputs

    first, second = (machine.run(module(), {"x": X}, execute=lazy, seed=s)["z"] for s in (1, 2))
    assert first.tobytes() != second.tobytes()


def test_kernels_get_read_only_inputs_and_spoiled_scratch() -> None:
    def look(func: PrimFunc, inputs: Any, *, outputs: Any, scratch: Any) -> Any:
        assert all(not x.flags.writeable for x in inputs)
        assert all((s.view(np.uint8) == 0xA5).all() for s in scratch)
        return vector.run(func, inputs, outputs=outputs, scratch=scratch)

    machine.run(module(), {"x": X}, execute=look)


# --- planted faults ----------------------------------------------------------------------------------------------


def test_an_output_over_a_live_input_of_the_step(execute: Any) -> None:
    got = trap(module({"s": {"offset": 0}}), execute)
    assert (got.kind, got.label) == ("clobbered", "machine.T2") and "step 1 (reverse)" in got.message
    assert "slot a (filled by double)" in got.message and "slot s has overwritten it" in got.message


def test_scratch_over_a_live_slot(execute: Any) -> None:
    """The workspace of step 1 over its operand: overwritten before it is read, or while."""
    got = trap(module({"n": {"offset": 0}}), execute)
    assert got.kind == "clobbered" and "slot n has overwritten it" in got.message


def test_scratch_over_the_result_of_its_step(execute: Any) -> None:
    got = trap(module({"n": {"offset": 64}}), execute)
    assert got.kind == "clobbered" and ("slot s" in got.message and "slot n" in got.message)


def test_a_slot_overwritten_between_its_steps(execute: Any) -> None:
    """The first result is read by the last step, but step 2 has had its workspace there."""
    late = Step("add", ("a", "y"), ("z",))
    slots: dict[str, dict[str, Any]] = {
        "a": {"live": ((0, 4),), "offset": 64},
        "s": {"offset": 0},
        "t": {"offset": 64, "producer": "late"},
    }
    got = trap(module(slots, steps=(*STEPS[:3], late)), execute)
    assert got.kind == "clobbered" and "step 3 (add)" in got.message
    wanted = "byte 0 of slot a (filled by double), 64 of the pool, is read but slot t has overwritten it"
    assert wanted in got.message


def test_a_dropped_step(execute: Any) -> None:
    got = trap(
        module(
            steps=STEPS[1:],
            slots={
                "s": {"live": ((0, 4),)},
                "n": {"live": ((0, 3),)},
                "t": {"live": ((1, 3),)},
                "y": {"live": ((1, 4),)},
            },
        ),
        execute,
    )
    assert (got.kind, got.label) == ("unwritten read", "machine.T1") and "slot a (filled by double)" in got.message


def test_steps_in_another_order(execute: Any) -> None:
    free: dict[str, dict[str, Any]] = {s.name: {"live": ((0, 4),)} for s in SLOTS}
    got = trap(module(free, steps=(STEPS[0], STEPS[2], STEPS[1], STEPS[3])), execute)
    assert got.kind == "unwritten read" and "step 1 (reverse)" in got.message and "slot s" in got.message


def test_an_output_that_no_step_writes(execute: Any) -> None:
    got = trap(module(steps=STEPS[:3]), execute)
    assert got.kind == "unwritten output" and got.message.startswith("at the end: byte 0 of slot z")


def test_a_result_overwritten_before_the_end(execute: Any) -> None:
    slots = {"a": {"live": ((0, 4),), "offset": 32}, "s": {"offset": 64}, "n": {"offset": 0}, "t": {"offset": 32}}
    got = trap(module(slots, outputs=("a",)), execute)
    assert got.kind == "clobbered" and "at the end" in got.message and "slot t has overwritten it" in got.message


@pytest.mark.parametrize(
    ("name", "change"),
    [
        ("a", {"live": ((0, 1),)}),
        ("s", {"live": ((2, 4),)}),
        ("n", {"live": ((2, 3),)}),
        ("z", {"live": ((3, 3),)}),
        ("x", {"live": ((1, 4),)}),
    ],
)
def test_use_outside_of_a_life(name: str, change: dict[str, int], execute: Any) -> None:
    got = trap(module({name: change}), execute)
    assert (
        got.kind == "use outside lifetime"
        and f"slot {name} is used here, at position" in got.message
        and "but is live only at [" in got.message
    )


@pytest.mark.parametrize("offset", [65, 66, 68, 80])
def test_a_misaligned_slot(offset: int, execute: Any) -> None:
    got = trap(module({"s": {"offset": offset}}, workspace_bytes=256), execute)
    assert got.kind == "misaligned" and f"slot s at byte {offset} of the pool is not aligned to 32 bytes" in got.message


def test_an_alignment_below_the_elements(execute: Any) -> None:
    got = trap(module({"s": {"offset": 66, "alignment": 2}}, workspace_bytes=256), execute)
    assert got.kind == "misaligned"


@pytest.mark.parametrize("change", [{"offset": 96}, {"offset": -32}])
def test_a_slot_outside_of_the_pool(change: dict[str, int], execute: Any) -> None:
    got = trap(module({"s": change}), execute)
    assert (got.kind, got.label) == ("out of bounds", "machine.T4") and "of the pool, which has 96" in got.message


def test_a_pool_that_is_too_small(execute: Any) -> None:
    assert trap(module(workspace_bytes=95), execute).kind == "out of bounds"


@pytest.mark.parametrize("place", ["constant", "input"])
def test_a_step_that_writes_what_is_not_its_own(place: str, execute: Any) -> None:
    name = "b" if place == "constant" else "x"
    got = trap(module(steps=(Step("double", ("w",), (name,)), *STEPS)), execute)
    assert (got.kind, got.label) == ("store to constant", "machine.T6")
    assert f"slot {name} is written, but it is the program's {place}" in got.message


def test_constants_that_overlap(execute: Any) -> None:
    got = trap(module({"b": {"offset": 0}}), execute)
    assert (got.kind, got.label) == ("clobbered", "machine.T8")
    assert "constants w and b share byte 0 of the constant table" in got.message


def test_a_step_in_place(execute: Any) -> None:
    got = trap(module(steps=(STEPS[0], Step("negate", ("a",), ("a",)), *STEPS[2:])), execute)
    assert (got.kind, got.label) == ("clobbered", "machine.T7")
    assert "slot a is read and written by the same step" in got.message


def test_a_trap_of_a_kernel_names_its_step(execute: Any) -> None:
    x, out = Buffer("x", (8,), FLOAT32), Buffer("out", (8,), FLOAT32)
    body = loops("i", (8,), lambda i: store(out, i, x[i + 1]))
    got = trap(module(kernels={"double": PrimFunc("double", (x, out), 1, body)}), execute)
    assert got.kind == "out of bounds" and got.message.startswith("step 0 (double): x[8]: index 8 is outside")


def test_a_kernel_that_leaves_part_of_its_output(execute: Any) -> None:
    x, out = Buffer("x", (8,), FLOAT32), Buffer("out", (8,), FLOAT32)
    body = loops("i", (7,), lambda i: store(out, i, x[i]))
    got = trap(module(kernels={"double": PrimFunc("double", (x, out), 1, body)}), execute)
    assert got.kind in ("unwritten output", "unwritten read") and "step 0 (double)" in got.message


# --- the precise mode --------------------------------------------------------------------------------------------


def backwards() -> PrimFunc:
    x, out = Buffer("x", (8,), FLOAT32), Buffer("out", (8,), FLOAT32)
    return PrimFunc("negate", (x, out), 1, loops("i", (8,), lambda i: store(out, i, x[const(7) - i])))


def test_the_precise_mode_names_the_element_and_the_iteration() -> None:
    """A result in the operand's bytes, by a kernel that reads what it has overwritten."""
    steps = (STEPS[0], Step("negate", ("a",), ("s",)), *STEPS[2:])
    got = trap(module({"s": {"offset": 0}}, steps, {"negate": backwards()}), "definition")
    assert got.kind == "clobbered"
    assert "step 1 (negate): byte 12 of slot a (filled by double), 12 of the pool, is read as x[3]" in got.message
    assert (
        "slot s has overwritten it (both are live at position 1: they need bytes of their own), in iteration i=4"
        in got.message
    )


def test_a_step_that_overwrites_only_what_it_is_done_with_is_caught_after_it() -> None:
    """Each element is read before it is overwritten. That this kernel happens to do so is not the plan's to rely on."""
    steps = (STEPS[0], Step("negate", ("a",), ("s",)), *STEPS[2:])
    got = trap(module({"s": {"offset": 0}}, steps), "definition")
    assert got.kind == "clobbered" and "is read while the step writes but slot s has overwritten it" in got.message


def test_scratch_does_not_keep_what_an_earlier_step_left(execute: Any) -> None:
    """One slot is scratch of two steps; the kernel fills it only where its operand begins with a negative number."""
    x, out, tmp = (Buffer(k, (8,), FLOAT32) for k in ("x", "out", "tmp"))
    fill = when(x[0] < 0.0, loops("i", (8,), lambda i: store(tmp, i, x[i])))
    flip = loops("i", (8,), lambda i: store(out, i, -x[i]))
    odd = PrimFunc("reverse", (x, out), 1, Allocate(tmp, seq(fill, Evaluate(tmp[3]), flip)))
    steps = (*STEPS[:2], Step("reverse", ("s",), ("y",), ("n",)), STEPS[3])
    got = trap(module({"n": {"live": ((0, 4),)}}, steps, {"reverse": odd}), execute)
    assert got.kind == "unwritten read" and "step 2 (reverse)" in got.message


# --- ill-formed --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("wrong", "inputs", "label"),
    [
        (module(), {}, "input.C2"),
        (module(), {"x": X, "q": X}, "input.C1"),
        (module(), {"x": X[:4]}, "input.C3"),
        (module(), {"x": X.astype(np.float64)}, "input.C3"),
        (replace(module(), constants={"w": CONSTANTS["w"]}), {"x": X}, "machine.C1"),
        (module({"s": {"offset": None}}), {"x": X}, "machine.C2"),
        (module({"w": {"offset": None}}), {"x": X}, "machine.C2"),
        (module(steps=(Step("double", ("x", "x"), ("a",)),)), {"x": X}, "machine.C3"),
        (module(steps=(Step("reverse", ("x",), ("a",)),)), {"x": X}, "machine.C3"),
        (module(steps=(Step("double", ("x",), ("nowhere",)),)), {"x": X}, "machine.C4"),
        (module({"a": {"type": TensorType((8,), dtype("int32"))}}), {"x": X}, "machine.C5"),
        (module({"a": {"type": TensorType((9,), FLOAT32)}}, workspace_bytes=256), {"x": X}, "machine.C5"),
        (module(steps=(Step("what", ("x",), ("a",)),)), {"x": X}, "module.C3"),
        (Module({}), {"x": X}, "module.C2"),
    ],
)
def test_ill_formed_programs_and_inputs(wrong: Module, inputs: dict[str, Array], label: str, execute: Any) -> None:
    with pytest.raises(Invalid) as caught:
        machine.run(wrong, inputs, execute=execute)
    assert caught.value.label == label


def test_both_modes_agree_on_a_kernel_with_several_operands() -> None:
    func = concat()
    slots = {
        "a": slot("a", "input", 0, 1, shape=(3, 4)),
        "b": slot("b", "input", 0, 1, shape=(5, 4)),
        "out": slot("out", "output", 0, 1, shape=(8, 4)),
    }
    program = Program(
        slots,
        (Step("concat", ("a", "b"), ("out",)),),
        ("a", "b"),
        ("out",),
        (Pool("workspace", alignment=32),),
        {"workspace": 0},
    )
    made = Module({"main": program, "concat": func})
    rng = np.random.default_rng(0)
    data = {k: rng.standard_normal(slots[k].type.static_shape).astype(np.float32) for k in ("a", "b")}
    results = [machine.run(made, data, execute=e)["out"] for e in MODES]
    assert results[0].tobytes() == results[1].tobytes() == np.concatenate([data["a"], data["b"]]).tobytes()
