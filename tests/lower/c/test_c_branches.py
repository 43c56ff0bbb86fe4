"""Choices, phases and pools in C: each path, each convention, hooks, workspaces that models share, and planted
faults."""

from __future__ import annotations

import ctypes
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from assay.interp import machine
from assay.lower.c import CSource, Interface, emit
from assay.semantics.devices import VirtualDevice
from assay.semantics.dtypes import BOOL, INT64
from assay.semantics.errors import Invalid, Trap
from assay.semantics.memory import Pool
from assay.semantics.module import Branch, Module, Step
from assay.semantics.scalar import apply
from assay.semantics.types import TensorType
from assay.verify.c.compiled import compile_c
from assay.verify.c.tools import STRICT
from tests.interp.test_machine_branches import PATHS, UP, WANTED, F, X, choosing, in_place, inputs, phased, pooled
from tests.lower.c.c_calls import aligned, build
from tests.lower.c.sanitized import run_sanitized
from tests.lower.memory.planned import Choose, lanes, moved, planned

B = TensorType((), BOOL)
PLAIN = (*STRICT, "-O0")


def agree(
    made: Module, given: list[dict[str, Any]], source: CSource | None = None, flags: tuple[str, ...] = PLAIN
) -> None:
    """C and the machine give the same bits on all of these inputs."""
    compiled = compile_c(source or emit(made, "m"), reproducible=True, flags=flags)
    for one in given:
        want, got = machine.run(made, one), compiled.run(one)
        assert {n: a.tobytes() for n, a in got.items()} == {n: a.tobytes() for n, a in want.items()}, one


# --- choices -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("interface", Interface)
def test_every_path_gives_the_bits_of_the_machine(interface: Interface) -> None:
    made = choosing()
    agree(made, [inputs(c, d) for c, d in WANTED], emit(made, "m", interface=interface))


def test_paths_under_the_sanitizers() -> None:
    source = emit(choosing(), "m")
    for c, d in [(True, False), (False, True)]:
        assert (run_sanitized(source, inputs(c, d))["y"] == X + 1 + WANTED[c, d](X + 1)).all()


def test_steps_that_run_are_traced() -> None:
    compiled = compile_c(emit(choosing(), "m"), reproducible=True, trace=True, flags=PLAIN)
    for c, d in WANTED:
        seen: list[int] = []
        compiled.run(inputs(c, d), on_step=lambda i, look, seen=seen: seen.append(i))
        assert seen == PATHS[c, d]


FAULTS = {
    "the arms are swapped": ("*d != 0", "*d == 0"),
    "another condition": ("*c != 0", "*d != 0"),
    "both arms run": ("    } else {", "    } {"),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_planted_faults_are_seen(fault: str) -> None:
    source = emit(choosing(), "m")
    assert FAULTS[fault][0] in source.source
    with pytest.raises(AssertionError):
        agree(
            choosing(), [inputs(c, d) for c, d in WANTED], replace(source, source=source.source.replace(*FAULTS[fault]))
        )


def test_a_trap_in_an_arm_is_a_status_of_that_path_only() -> None:
    root = lanes("check", [INT64], INT64, 2, lambda v: apply("floordiv", v, v))
    of = TensorType((2,), INT64)
    made = planned(
        [Choose("c", [(root, ["x"], ["y"])], [(lanes("same", [INT64], INT64, 2, lambda v: v + 1), ["x"], ["y"])])],
        {"x": of, "c": B},
        ["y"],
    )
    compiled = compile_c(emit(made, "m"), reproducible=True, flags=PLAIN)
    x = np.array([3, 0], np.int64)
    assert compiled.run({"x": x, "c": np.False_})["y"].tolist() == [4, 1]
    for run in (compiled.run, lambda given: machine.run(made, given)):
        with pytest.raises(Trap, match=r"(?i)div"):
            run({"x": x, "c": np.True_})


def test_a_condition_that_is_constant() -> None:
    flag = np.array(True)
    made = planned([Choose("k", [(UP, ["x"], ["a"])], []), (UP, ["a"], ["y"])], {"x": F}, ["y"], {"k": flag})
    for limit in (0, 1 << 20):
        agree(made, [{"x": X}], emit(made, "m", inline_limit=limit))


@pytest.mark.parametrize("depth", [10, 300])
def test_choices_inside_one_another(depth: int) -> None:
    """Deeper than C compilers have to nest blocks: then they are functions of their own."""
    body: list[Any] = [(UP, ["x"], ["y"])]
    for _ in range(depth):
        body = [Choose("c", body, [(UP, ["x"], ["t"]), (UP, ["t"], ["y"])]), (UP, ["y"], ["t"])]
    made = planned(body, {"x": F, "c": B}, ["y"])
    agree(made, [{"x": X, "c": np.True_}, {"x": X, "c": np.False_}])
    assert ("m_part_0" in emit(made, "m").source) == (depth > 60)


def test_empty_arms() -> None:
    rows: list[Any] = [
        (UP, ["x"], ["y"]),
        Choose("c", [], [(UP, ["x"], ["t"]), (UP, ["t"], ["y"])]),
        Choose("c", [], []),
        Choose("c", [Choose("d", [], [(UP, ["x"], ["t"])])]),
    ]
    made = planned(rows, {"x": F, "c": B, "d": B}, ["y"])
    agree(made, [inputs(c, d) for c, d in WANTED])


# --- hooks -------------------------------------------------------------------------------------------------------

LOG = """#include "m.h"
#include <string.h>
#include <stdio.h>
extern char logged[4096];
char logged[4096];
static int event(const char *what, const char *device)
{
    strcat(logged, what);
    strcat(logged, device);
    return 0;
}
"""


@pytest.mark.row("A16")
@pytest.mark.parametrize(
    ("c", "d", "wanted"),
    [
        (True, True, "open npu;close npu;open npu;close npu;open npu;close npu;"),
        (True, False, "open npu;close npu;open npu;close npu;open dsp;close dsp;open npu;close npu;"),
        (False, True, "open npu;close npu;open dsp;close dsp;open npu;close npu;"),
    ],
)
def test_an_arm_opens_and_closes_its_devices_itself(tmp_path: Path, c: bool, d: bool, wanted: str) -> None:
    """Steps on one device before a choice, in its arms and behind it: nothing stays open where the path divides."""
    npu, dsp = VirtualDevice("npu"), VirtualDevice("dsp")
    places = {0: npu, 3: npu, 4: npu, 5: dsp, 6: dsp, 7: dsp, 8: npu}
    made = choosing()
    steps = tuple(replace(s, device=places[i]) if isinstance(s, Step) else s for i, s in enumerate(made.program.steps))
    made = made.with_(main=replace(made.program, steps=steps))
    source = emit(made, "m")
    source.write(tmp_path)
    stub = LOG + "".join(
        f'int m_device_{c}_{v}(void *handle, int32_t id) {{ (void)handle; (void)id; return event("{v} ", "{c};"); }}\n'
        for c in ("npu", "dsp") for v in ("activate", "open", "close", "deactivate")
    )  # fmt: skip
    (tmp_path / "stub.c").write_text(stub)
    library = build(tmp_path, ["m.c", "stub.c"])
    logged = (ctypes.c_char * 4096).in_dll(library, "logged")
    y, workspace = aligned(64), aligned(source.workspace_bytes)
    flags = [np.array(v) for v in (c, d)]
    pointers = [X, *flags, y, workspace]
    assert library.m_run(*(ctypes.c_void_p(a.ctypes.data) for a in pointers), ctypes.c_void_p(None)) == 0
    around = ("activate npu;activate dsp;", "deactivate dsp;deactivate npu;")
    assert logged.value.decode() == around[0] + wanted + around[1]
    assert (y.view(np.float32) == X + 1 + WANTED[c, d](X + 1)).all()
    agree(made, [inputs(c, d)])


# --- phases ------------------------------------------------------------------------------------------------------


@pytest.mark.row("U14")
@pytest.mark.parametrize("flags", [PLAIN, (*STRICT, "-O3")], ids=["O0", "O3"])
def test_operands_that_share_bytes_at_different_phases(flags: tuple[str, ...]) -> None:
    source = emit(phased(), "m")
    agree(phased(), [{"x": X}], source, flags)
    (turn,) = re.findall(r"static int m_k_turn\(([^)]*)\)", source.source)
    (up,) = re.findall(r"static int m_k_up\(([^)]*)\)", source.source)
    assert [("restrict" in p) for p in turn.split(",")] == [False, False, True], "only the temporary is alone"
    assert up.count("restrict") == 2


@pytest.mark.parametrize("flags", [PLAIN, (*STRICT, "-O3")], ids=["O0", "O3"])
def test_an_output_in_the_bytes_of_an_input(flags: tuple[str, ...]) -> None:
    """Its kernel is the one that another step uses apart: neither pointer may be called alone."""
    source = emit(in_place(), "m")
    agree(in_place(), [{"x": X}], source, flags)
    (up,) = re.findall(r"static int m_k_up\(([^)]*)\)", source.source)
    assert "restrict" not in up


# --- pools -------------------------------------------------------------------------------------------------------


@pytest.mark.row("U2", "U3", "U5", "U13")
@pytest.mark.parametrize(("interface", "limit"), [(Interface.UNPACKED, 1 << 20), *((i, 0) for i in Interface)])
def test_several_pools(tmp_path: Path, interface: Interface, limit: int) -> None:
    """A pointer for each workspace, none for what lies there; constants of a pool are in the blob or in the source."""
    source = emit(pooled(), "m", interface=interface, inline_limit=limit)
    agree(pooled(), [{"x": X}], source)
    if interface is Interface.UNPACKED:
        assert (run_sanitized(source, {"x": X})["y"] == 2 * X + 1).all()
    source.write(tmp_path)
    read = CSource.read(tmp_path, "m")
    assert read.workspaces == source.workspaces
    assert repr((read.inputs, read.outputs)) == repr((source.inputs, source.outputs))
    assert [(w.name, w.pool, w.nbytes) for w in read.workspaces] == [
        ("workspace_sram", "sram", 64),
        ("workspace_dram", "dram", 128),
    ]
    assert [(a.workspace, a.offset) for a in (*read.inputs, *read.outputs)] == [
        ("workspace_sram", 0),
        ("workspace_dram", 64),
    ]
    if interface is Interface.UNPACKED:
        last = ", const void *weights" if limit == 0 else ""
        assert f"int m_run(void *workspace_sram, void *workspace_dram{last});" in source.header


@pytest.mark.row("U4", "U5")
def test_places_of_inputs_and_outputs_are_macros() -> None:
    header = emit(pooled(), "m").header
    assert "#define M_INPUT_X_OFFSET 0u\n#define M_INPUT_X_AT(workspace_sram)" in header
    assert "#define M_OUTPUT_Y_OFFSET 64u\n#define M_OUTPUT_Y_AT(workspace_dram)" in header
    assert "#define M_WORKSPACE_SRAM_BYTES 64u\n#define M_WORKSPACE_SRAM_ALIGN 64u\n" in header


@pytest.mark.parametrize("interface", Interface)
def test_workspaces_are_checked(interface: Interface) -> None:
    compiled = compile_c(emit(pooled(), "m", interface=interface), reproducible=True, flags=PLAIN)
    memory = aligned(512)
    at = memory.ctypes.data
    assert compiled.call(at, at + 64) == "OK"
    assert compiled.call(at, at + 32) == "MISALIGNED"
    assert compiled.call(at + 64, at) == "OVERLAP"
    assert compiled.call(at, None) == "NULL_POINTER"


def test_a_pool_in_which_nothing_lies_may_be_null() -> None:
    made = planned([(UP, ["x"], ["y"])], {"x": F}, ["y"])
    made = made.with_(main=replace(made.program, pools=(Pool("workspace"), Pool("more"))))
    compiled = compile_c(emit(made, "m"), reproducible=True, flags=PLAIN)
    y = aligned(64)
    assert compiled.call(X.ctypes.data, y.ctypes.data, None, None) == "OK" and (y.view(np.float32) == X + 1).all()


def test_a_step_that_reads_an_input_of_the_workspace_that_is_also_an_output() -> None:
    made = planned([(UP, ["x"], ["y"])], {"x": F}, ["x", "y", "y"])
    made = moved(made, {"workspace": 128}, x={"offset": 0}, y={"offset": 64})
    source = emit(made, "m")
    assert "int m_run(float *x_2, void *workspace);" in source.header
    got = compile_c(source, reproducible=True, flags=PLAIN).run({"x": X})
    assert (got["x"] == X).all() and (got["y"] == X + 1).all()


@pytest.mark.row("U4")
def test_two_models_share_one_workspace() -> None:
    """One after the other, and again: of the largest of their sizes; neither finds what the other has left."""
    first, second = choosing(), pooled()
    second = second.with_(main=replace(second.program, pools=(Pool("workspace"), second.program.pools[2])))
    second = moved(second, {"workspace": 192, "flash": 128}, x={"pool": "workspace"},
        a={"pool": "workspace", "offset": 64},
                   y={"pool": "workspace", "offset": 128})  # fmt: skip
    sources = [emit(m, n) for m, n in ((first, "one"), (second, "two"))]
    assert all("can share a workspace: one of the largest of their sizes" in s.header for s in sources)
    one, two = (compile_c(s, reproducible=True, flags=PLAIN) for s in sources)
    space = aligned(max(s.workspace_bytes for s in sources), max(s.alignment for s in sources))
    y = aligned(64)
    for c, d in WANTED:
        flags = [np.array(v) for v in (c, d)]
        assert one.call(X.ctypes.data, *(f.ctypes.data for f in flags), y.ctypes.data, space.ctypes.data) == "OK"
        assert (y.view(np.float32) == X + 1 + WANTED[c, d](X + 1)).all()
        at = {a.slot: slice(a.offset, a.offset + a.nbytes) for a in (*sources[1].inputs, *sources[1].outputs)}
        space[at["x"]] = X.view(np.uint8)
        assert two.call(space.ctypes.data) == "OK"
        assert (space[at["y"]].view(np.float32) == 2 * X + 1).all()


@pytest.mark.parametrize(
    ("changes", "label"),
    [
        ({"a": {"offset": 128}}, "c.C10"),
        ({"a": {"offset": -64}}, "c.C10"),
        ({"a": {"offset": None}}, "c.C9"),
        ({"a": {"offset": 8}}, "c.C11"),
        ({"a": {"alignment": 128}}, "c.C11"),
        ({"a": {"pool": "flash"}}, "c.C17"),
        ({"w": {"pool": "dram"}}, "c.C17"),
        ({"a": {"pool": "nowhere"}}, "program.C6"),
    ],
)
def test_plans_that_do_not_fit(changes: dict[str, Any], label: str) -> None:
    with pytest.raises(Invalid) as caught:
        emit(moved(pooled(), **changes), "m")
    assert caught.value.label == label


def test_a_pool_over_its_limit() -> None:
    with pytest.raises(Invalid, match="pool 'sram' has 128 bytes, its limit is 64"):
        emit(moved(pooled(), {"sram": 128, "dram": 128, "flash": 128}), "m")


def test_a_branch_out_of_its_arm_is_refused() -> None:
    made = choosing()
    steps = (made.program.steps[0], Branch("c", 5, 9), Branch("d", 4, 7), *made.program.steps[3:])
    with pytest.raises(Invalid) as caught:
        emit(made.with_(main=replace(made.program, steps=steps)), "m")
    assert caught.value.label == "program.C7"
