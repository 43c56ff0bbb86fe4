"""The machine on choices, phases and pools (specs/interp.md, "Machine"): right plans run, planted faults are named."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from assay.interp import machine, vector
from assay.semantics.dtypes import BOOL, FLOAT32
from assay.semantics.errors import Invalid, Trap
from assay.semantics.memory import Pool
from assay.semantics.module import Branch, Module, Step, flow
from assay.semantics.rules import check_program
from assay.semantics.tensor import Allocate, Buffer, PrimFunc, loops, seq, store, when
from assay.semantics.tensor.phases import phases
from assay.semantics.types import TensorType
from tests.lower.memory.planned import Choose, lanes, moved, planned
from tests.scale import MANY

N = 16
F, B = TensorType((N,), FLOAT32), TensorType((), BOOL)
X = np.arange(N, dtype=np.float32)
UP = lanes("up", [FLOAT32], FLOAT32, N, lambda v: v + 1.0)
TWICE = lanes("twice", [FLOAT32], FLOAT32, N, lambda v: v * 2.0)
ADD = lanes("add", [FLOAT32, FLOAT32], FLOAT32, N, lambda a, b: a + b)


@pytest.fixture(params=[vector.run, "definition"], ids=["vector", "definition"])
def execute(request: pytest.FixtureRequest) -> Any:
    return request.param


def trap(wrong: Module, inputs: dict[str, Any], execute: Any) -> Trap:
    with pytest.raises(Trap) as caught:
        machine.run(wrong, inputs, execute=execute)
    return caught.value


# --- choices -----------------------------------------------------------------------------------------------------


def choosing() -> Module:
    """a = x + 1; r = (c ? (d ? 2a : a + 1) : a); y = a + r, with t in the second inner arm."""
    inner = Choose("d", [(TWICE, ["a"], ["r"])], [(UP, ["a"], ["t"]), (UP, ["t"], ["r"])])
    outer = Choose("c", [inner], [(TWICE, ["a"], ["u"]), (TWICE, ["u"], ["r"])])
    return planned([(UP, ["x"], ["a"]), outer, (ADD, ["a", "r"], ["y"])], {"x": F, "c": B, "d": B}, ["y"])


WANTED = {
    (True, True): lambda a: 2 * a,
    (True, False): lambda a: a + 2,
    (False, True): lambda a: 4 * a,
    (False, False): lambda a: 4 * a,
}
PATHS = {
    (True, True): [0, 3, 8],
    (True, False): [0, 4, 5, 8],
    (False, True): [0, 6, 7, 8],
    (False, False): [0, 6, 7, 8],
}


def inputs(c: bool, d: bool) -> dict[str, Any]:
    return {"x": X, "c": np.bool_(c), "d": np.bool_(d)}


@pytest.mark.parametrize(("c", "d"), WANTED)
def test_every_path_runs(c: bool, d: bool, execute: Any) -> None:
    seen: list[int] = []
    got = machine.run(choosing(), inputs(c, d), execute=execute, observe=lambda i, step, arrays: seen.append(i))
    assert (got["y"] == (X + 1) + WANTED[c, d](X + 1)).all()
    assert seen == PATHS[c, d]


def test_flow_tells_where_arms_begin_and_end() -> None:
    steps = choosing().program.steps
    assert list(flow(steps)) == [
        ("step", 0),
        ("if", 1),
        ("if", 2),
        ("step", 3),
        ("else", 2),
        ("step", 4),
        ("step", 5),
        # fmt: skip
        ("end", 2),
        ("else", 1),
        ("step", 6),
        ("step", 7),
        ("end", 1),
        ("step", 8),
    ]
    empty = (Branch("c", 1, 1), Branch("c", 3, 3), Step("k", (), ()))
    assert list(flow(empty)) == [("if", 0), ("else", 0), ("end", 0), ("if", 1), ("step", 2), ("else", 1), ("end", 1)]


@pytest.mark.parametrize("c", [True, False])
def test_arms_may_be_empty(c: bool, execute: Any) -> None:
    rows = [
        (UP, ["x"], ["y"]),
        Choose("c", [], [(TWICE, ["x"], ["y"])]),
        Choose("c", [], []),
        Choose("c", [Choose("c", [(UP, ["x"], ["y"])])]),
    ]
    got = machine.run(planned(rows, {"x": F, "c": B}, ["y"]), {"x": X, "c": np.bool_(c)}, execute=execute)
    assert (got["y"] == (X + 1 if c else 2 * X)).all()


def test_arms_share_bytes(execute: Any) -> None:
    """What one arm needs may lie where the other arm has its own; the path that is wrong is the only one that traps."""
    made = choosing()
    at = made.program.slots["t"].offset
    shared = moved(made, u={"offset": at})
    for c, d in WANTED:
        machine.run(shared, inputs(c, d), execute=execute)
    wrong = moved(made, u={"offset": made.program.slots["a"].offset})
    machine.run(wrong, inputs(True, False), execute=execute)
    got = trap(wrong, inputs(False, True), execute)
    assert got.kind == "clobbered" and "step 6 (twice)" in got.message and "slot u has overwritten it" in got.message


def test_a_result_that_one_arm_forgets(execute: Any) -> None:
    rows = [Choose("c", [(TWICE, ["x"], ["r"])], [(TWICE, ["x"], ["t"])]), (UP, ["r"], ["y"])]
    made = planned(rows, {"x": F, "c": B}, ["y"])
    machine.run(made, {"x": X, "c": np.True_}, execute=execute)
    got = trap(made, {"x": X, "c": np.False_}, execute)
    assert got.kind == "unwritten read" and "step 3 (up)" in got.message and "slot r" in got.message


def test_conditions_are_reads(execute: Any) -> None:
    x, out = Buffer("x", (N,), FLOAT32), Buffer("out", (), BOOL)
    is_zero = PrimFunc("test", (x, out), 1, store(out, (), x[0] < 1.0))
    rows = [(is_zero, ["x"], ["z"]), (UP, ["x"], ["a"]), Choose("z", [(TWICE, ["a"], ["y"])], [(UP, ["a"], ["y"])])]
    made = planned(rows, {"x": F}, ["y"])
    assert (machine.run(made, {"x": X}, execute=execute)["y"] == 2 * (X + 1)).all()
    assert (machine.run(made, {"x": X + 5}, execute=execute)["y"] == X + 7).all()
    got = trap(moved(made, a={"offset": 0}), {"x": X}, execute)
    assert got.kind == "clobbered" and "step 2 (the choice by z)" in got.message
    assert "byte 0 of slot z, 0 of the pool, is read as a condition but slot a has overwritten it" in got.message
    late = trap(moved(made, z={"live": ((0, 2),)}), {"x": X}, execute)
    assert late.kind == "use outside lifetime" and "at position 2, but is live only at [0, 2)" in late.message
    with pytest.raises(Invalid, match="a condition is one boolean") as caught:
        wrong = replace(made.program, steps=(*made.program.steps[:2], Branch("a", 4, 5), *made.program.steps[3:]))
        machine.run(made.with_(main=wrong), {"x": X}, execute=execute)
    assert caught.value.label == "machine.C6"


def test_lives_with_gaps(execute: Any) -> None:
    """A slot that is live in one arm and behind the choice is dead in the other."""
    made = choosing()
    life = ((3, 4), (5, 6), (7, 9))
    for c, d in WANTED:
        machine.run(moved(made, r={"live": life}), inputs(c, d), execute=execute)
    got = trap(moved(made, r={"live": ((3, 4), (7, 9))}), inputs(True, False), execute)
    assert got.kind == "use outside lifetime" and "is live only at [3, 4), [7, 9)" in got.message


def test_a_hundred_thousand_choices_inside_one_another() -> None:
    depth = MANY
    row: Any = (UP, ["x"], ["y"])
    steps = tuple(Branch("c", depth + 1, depth + 1) for _ in range(depth))
    made = planned([row], {"x": F, "c": B}, ["y"])
    lives = {n: replace(s, live=((0, depth + 1),)) for n, s in made.program.slots.items()}
    deep = made.with_(main=replace(made.program, slots=lives, steps=(*steps, *made.program.steps)))
    assert (machine.run(deep, {"x": X, "c": np.True_})["y"] == X + 1).all()
    assert trap(deep, {"x": X, "c": np.False_}, vector.run).kind == "unwritten output"


# --- phases ------------------------------------------------------------------------------------------------------


def two_phases() -> PrimFunc:
    """t = 2x, then y = t backwards: y may lie where x was."""
    x, y, t = (Buffer(n, (N,), FLOAT32) for n in ("x", "y", "t"))
    first = loops("i", (N,), lambda i: store(t, i, x[i] * 2.0))
    second = loops("i", (N,), lambda i: store(y, i, t[N - 1 - i]))
    return PrimFunc("turn", (x, y), 1, Allocate(t, seq(first, second)))


def phased() -> Module:
    """b = turn(a), where b has the bytes of a."""
    turn = two_phases()
    assert phases(turn).count == 2
    made = planned([(UP, ["x"], ["a"]), (turn, ["a"], ["b"]), (UP, ["b"], ["y"])], {"x": F}, ["y"], phased=True)
    return moved(
        made,
        a={"live": ((0, 2),)},
        b={"offset": made.program.slots["a"].offset, "live": ((2, 4),)},
        **{"1.0.t": {"live": ((1, 3),)}},
    )


@pytest.mark.row("U14")
def test_operands_of_one_step_share_bytes_at_different_phases(execute: Any) -> None:
    seen: dict[str, Any] = {}
    got = machine.run(
        phased(),
        {"x": X},
        execute=execute,
        observe=lambda i, s, arrays: seen.update({k: v.copy() for k, v in arrays.items()}),
    )
    assert (got["y"] == ((X + 1) * 2)[::-1] + 1).all()
    assert (seen["a"] == X + 1).all(), "what a step read is told as it was"


def test_operands_that_share_bytes_in_one_phase(execute: Any) -> None:
    made = phased()
    a = made.program.slots["a"].offset
    got = trap(moved(made, **{"1.0.t": {"offset": a}}), {"x": X}, execute)
    assert got.kind == "clobbered" and "step 1 (turn), position 1" in got.message and "overwritten it" in got.message
    if execute != "definition":
        assert "phase 0 of 2, position 1: " in got.message


def test_a_step_of_one_position_shares_nothing(execute: Any) -> None:
    made = phased()
    step = made.program.steps[1]
    assert isinstance(step, Step)
    once = replace(made.program, steps=(made.program.steps[0], replace(step, phases=1), made.program.steps[2]))
    lives = {n: replace(s, live=((0, 3),)) for n, s in once.slots.items()}
    got = trap(made.with_(main=replace(once, slots=lives)), {"x": X}, execute)
    assert got.kind == "clobbered" and "slot b has overwritten it" in got.message


def gone() -> Module:
    """t = 2x; u = t; y = u, z = x: y lies where t was, z where y was, which nobody reads."""
    x, y, z, t, u = (Buffer(n, (N,), FLOAT32) for n in "xyztu")

    def copy(to: Buffer, of: Any) -> Any:
        return loops("i", (N,), lambda i: store(to, i, of(i)))

    ends = Allocate(
        u, seq(Allocate(t, seq(copy(t, lambda i: x[i] * 2.0), copy(u, lambda i: t[i]))), copy(y, lambda i: u[i]))
    )
    func = PrimFunc("gone", (x, y, z), 2, seq(ends, copy(z, lambda i: x[i])))
    made = planned(
        [(func, ["x"], ["a", "b"]), (UP, ["a"], ["y"]), (UP, ["b"], ["z"])], {"x": F}, ["y", "z"], phased=True
    )
    uses = phases(func).uses
    assert [uses[b] for b in (t, u, y, z)] == [((0, 1),), ((0, 2),), ((1, 2),), ((2, 3),)]
    return made


def test_what_is_written_where_memory_of_the_kernel_was_is_there_behind_it(execute: Any) -> None:
    made = gone()
    (t,) = (n for n in made.program.slots if n.endswith(".t"))
    got = machine.run(moved(made, a={"offset": made.program.slots[t].offset}), {"x": X}, execute=execute)
    assert (got["y"] == 2 * X + 1).all()


def test_a_result_that_nobody_reads_may_be_overwritten_in_its_step(execute: Any) -> None:
    made = gone()
    dead = made.with_(main=replace(made.program, steps=(made.program.steps[0], made.program.steps[2]), outputs=("z",)))
    place = {"offset": made.program.slots["a"].offset}
    dead = moved(dead, a={"live": ((1, 2),)}, b={**place, "live": ((2, 4),)}, z={"live": ((3, 4),)})
    seen: dict[str, Any] = {}
    got = machine.run(
        dead,
        {"x": X},
        execute=execute,
        observe=lambda i, step, arrays: seen.update({k: v.copy() for k, v in arrays.items()}),
    )
    assert (got["z"] == X + 1).all() and (seen["b"] == X).all()
    assert trap(moved(made, b=place), {"x": X}, execute).kind == "clobbered", "here somebody reads it"


def test_lives_count_phases(execute: Any) -> None:
    got = trap(moved(phased(), b={"live": ((3, 4),)}), {"x": X}, execute)
    assert got.kind == "use outside lifetime" and "at position 2, but is live only at [3, 4)" in got.message
    made = phased()
    step = made.program.steps[1]
    assert isinstance(step, Step)
    wrong = replace(made.program, steps=(made.program.steps[0], replace(step, phases=3), made.program.steps[2]))
    with pytest.raises(Invalid, match="the step has 3 phases, turn has 2") as caught:
        machine.run(made.with_(main=wrong), {"x": X}, execute=execute)
    assert caught.value.label == "machine.C8"


# --- in place ----------------------------------------------------------------------------------------------------


def in_place(kernel: PrimFunc = UP) -> Module:
    """a = x + 1; b = kernel(a) in the bytes of a; y = b + b."""
    made = planned([(UP, ["x"], ["a"]), (kernel, ["a"], ["b"]), (ADD, ["b", "b"], ["y"])], {"x": F}, ["y"])
    second = replace(made.program.calls[1], in_place=((0, 0),))
    made = made.with_(main=replace(made.program, steps=(made.program.steps[0], second, made.program.steps[2])))
    return moved(made, a={"live": ((0, 2),)}, b={"offset": made.program.slots["a"].offset})


def backwards() -> PrimFunc:
    x, out = Buffer("x", (N,), FLOAT32), Buffer("out", (N,), FLOAT32)
    return PrimFunc("back", (x, out), 1, loops("i", (N,), lambda i: store(out, i, x[N - 1 - i])))


def test_an_output_in_the_bytes_of_an_input(execute: Any) -> None:
    seen: dict[str, Any] = {}
    got = machine.run(
        in_place(),
        {"x": X},
        execute=execute,
        observe=lambda i, s, arrays: seen.update({k: v.copy() for k, v in arrays.items()}),
    )
    assert (got["y"] == 2 * (X + 2)).all() and (seen["a"] == X + 1).all()
    made = in_place()
    not_allowed = replace(made.program, steps=tuple(replace(s, in_place=()) for s in made.program.calls))
    assert trap(made.with_(main=not_allowed), {"x": X}, execute).kind == "clobbered"
    half = trap(moved(made, b={"offset": 32, "alignment": 32}), {"x": X}, execute)
    assert half.kind == "clobbered", "only just the same bytes"


def test_an_output_in_the_bytes_of_an_input_that_is_read_afterwards() -> None:
    """The run of the definition sees each access."""
    got = trap(in_place(backwards()), {"x": X}, "definition")
    assert got.kind == "clobbered" and "is read as x[7] but slot b has overwritten it" in got.message
    made = in_place()
    late = replace(made.program, steps=(*made.program.steps[:2], replace(made.program.calls[2], reads=("b", "a"))))
    got = trap(moved(made.with_(main=late), a={"live": ((0, 3),)}), {"x": X}, "definition")
    assert got.kind == "clobbered" and "step 2 (add)" in got.message


# --- pools -------------------------------------------------------------------------------------------------------


def pooled() -> Module:
    """x in sram, a in dram at the same offset, y in dram behind it, w in a pool of constants."""
    made = planned([(UP, ["x"], ["a"]), (ADD, ["a", "w"], ["y"])], {"x": F}, ["y"], {"w": X})
    made = moved(made, {"sram": 64, "dram": 128, "flash": 128}, x={"pool": "sram", "offset": 0},
        a={"pool": "dram", "offset": 0},
                 y={"pool": "dram", "offset": 64}, w={"pool": "flash", "offset": 64})  # fmt: skip
    pools = (Pool("sram", limit=64), Pool("dram"), Pool("flash", "constant", read_only=True))
    return made.with_(main=replace(made.program, pools=pools))


@pytest.mark.row("U2", "U3", "U5")
def test_several_pools_with_inputs_and_outputs_in_them(execute: Any) -> None:
    assert (machine.run(pooled(), {"x": X}, execute=execute)["y"] == X + 1 + X).all()


@pytest.mark.row("U2", "U3", "U5")
@pytest.mark.parametrize(
    ("changes", "kind", "said"),
    [
        ({"a": {"pool": "sram"}}, "clobbered", "64 of the pool sram"),
        ({"y": {"offset": 0}}, "clobbered", "0 of the pool dram, is read while the step writes but slot y"),
        ({"a": {"offset": 64}}, "clobbered", "slot a"),
        ({"a": {"pool": "flash"}}, "store to constant", "slot a is written, but it is in the read-only pool flash"),
        ({"x": {"offset": 64}}, "out of bounds", "bytes [64, 128) of the pool sram, which has 64"),
        ({"w": {"offset": 128}}, "out of bounds", "of the pool flash, which has 128"),
        (
            {"y": {"alignment": 128, "offset": 0}},
            "misaligned",
            "asks for 128 bytes, the pool dram is aligned to 64 only",
        ),
    ],
)
def test_faults_name_the_pool(changes: dict[str, Any], kind: str, said: str, execute: Any) -> None:
    made = pooled()
    if changes.get("a", {}).get("pool") == "sram":
        made = moved(made, {"sram": 128, "dram": 128, "flash": 128}, x={"offset": 64}, a={"pool": "sram", "offset": 64})
        made = made.with_(main=replace(made.program, pools=(Pool("sram"), *made.program.pools[1:])))
    got = trap(moved(made, **changes), {"x": X}, execute)
    assert got.kind == kind and said in got.message


@pytest.mark.row("U2")
def test_a_pool_over_its_limit(execute: Any) -> None:
    made = pooled()
    got = trap(moved(made, {"sram": 65, "dram": 128, "flash": 128}), {"x": X}, execute)
    assert got.kind == "out of bounds" and "the pool sram has 65 bytes, its limit is 64" in got.message


def test_an_output_in_a_pool_is_read_at_the_exit(execute: Any) -> None:
    rows = [(UP, ["x"], ["y"]), (UP, ["x"], ["z"])]
    made = planned(rows, {"x": F}, ["y", "z"])
    right = moved(made, {"workspace": 128}, y={"offset": 0}, z={"offset": 64})
    assert (machine.run(right, {"x": X}, execute=execute)["z"] == X + 1).all()
    got = trap(moved(right, z={"offset": 32, "alignment": 32}), {"x": X}, execute)
    assert got.kind == "clobbered" and "at the end: byte 32 of slot y" in got.message


def test_constants_in_one_pool_may_not_overlap(execute: Any) -> None:
    made = planned([(ADD, ["v", "w"], ["y"])], {}, ["y"], {"v": X, "w": X})
    pools = (Pool("workspace"), Pool("flash", "constant", read_only=True))
    sizes = {"workspace": 0, "flash": 128}
    wrong = moved(
        made.with_(main=replace(made.program, pools=pools)),
        sizes,
        v={"pool": "flash", "offset": 0},
        w={"pool": "flash", "offset": 0},
    )
    got = trap(wrong, {}, execute)
    assert got.kind == "clobbered" and "constants v and w share byte 0 of the pool flash" in got.message


@pytest.mark.parametrize(
    ("change", "label"),
    [
        ({"pools": (Pool("sram"), Pool("sram"), Pool("flash", "constant"))}, "program.C8"),
        ({"pools": (Pool("flash", "constant"),)}, "program.C8"),
        ({"pools": (Pool("sram"), Pool("flash", "constant"))}, "program.C6"),
        ({"sizes": {"nowhere": 1}}, "program.C8"),
        ({"sizes": {"sram": -8}}, "program.C8"),
        ({"steps": (Step("up", ("x",), ("a",), phases=2),)}, "program.C9"),
        ({"steps": (Step("up", ("x",), ("a",), in_place=((0, 1),)),)}, "program.C10"),
        ({"steps": (Branch("x", 1, 1),)}, "program.C7"),
        ({"steps": (Branch("nothing", 1, 1),)}, "program.C7"),
    ],
)
def test_ill_formed_programs(change: dict[str, Any], label: str) -> None:
    made = pooled()
    check_program(made.program, made)
    with pytest.raises(Invalid) as caught:
        check_program(replace(made.program, **change), made)
    assert caught.value.label == label


# --- choices inside a kernel ---------------------------------------------------------------------------------------


def forked() -> PrimFunc:
    """if f: t = a; y = t, else: u = b; y = u. The temporaries of one arm may lie where the other arm's operand is."""
    f, a, b, y, t, u = Buffer("f", (), BOOL), *(Buffer(n, (N,), FLOAT32) for n in ("a", "b", "y", "t", "u"))

    def through(tmp: Buffer, of: Buffer) -> Any:
        fill = loops("i", (N,), lambda i: store(tmp, i, of[i]))
        return Allocate(tmp, seq(fill, loops("i", (N,), lambda i: store(y, i, tmp[N - 1 - i]))))

    return PrimFunc("fork", (f, a, b, y), 1, when(f[()], through(t, a), through(u, b)))


def forking() -> Module:
    rows = [(UP, ["x"], ["a"]), (TWICE, ["x"], ["b"]), (forked(), ["f", "a", "b"], ["c"]), (UP, ["c"], ["y"])]
    made = planned(rows, {"x": F, "f": B}, ["y"], phased=True)
    at = {n: s.offset for n, s in made.program.slots.items()}
    return moved(made, **{"2.0.t": {"offset": at["b"]}, "2.1.u": {"offset": at["a"]}})


@pytest.mark.parametrize("f", [True, False])
def test_arms_inside_a_kernel_share_bytes(f: bool, execute: Any) -> None:
    assert phases(forked()).count > 1
    got = machine.run(forking(), {"x": X, "f": np.bool_(f)}, execute=execute)
    assert (got["y"] == (X + 1 if f else 2 * X)[::-1] + 1).all()


def test_what_an_arm_inside_a_kernel_has_overwritten_is_not_whole_behind_it() -> None:
    made = forking()
    late = replace(made.program, steps=(*made.program.steps[:3], replace(made.program.calls[3], reads=("b",))))
    got = trap(made.with_(main=late), {"x": X, "f": np.True_}, vector.run)
    assert got.kind == "clobbered" and "slot 2.0.t has overwritten it" in got.message
