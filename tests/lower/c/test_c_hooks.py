"""Hooks around device work: every order of calls and failures, against a plain account of what has to happen."""

from __future__ import annotations

import ctypes
from collections.abc import Collection, Iterator
from dataclasses import replace
from itertools import combinations
from pathlib import Path

import numpy as np
import pytest

from assay.interp import vector
from assay.lower.c import CSource, Interface, emit
from assay.lower.c.convention import device_name, find_devices
from assay.lower.liveness import find_lives
from assay.semantics.builder import Builder, tensor
from assay.semantics.devices import ANYWHERE, VirtualDevice
from assay.semantics.dtypes import FLOAT32
from assay.semantics.errors import Trap
from assay.semantics.graph import Call
from assay.semantics.module import Module, Program
from assay.semantics.types import TensorType
from assay.semantics.walk import rewrite
from assay.verify.app.stages import lowering_passes
from assay.verify.c.compiled import compile_c
from assay.verify.c.tools import STANDARD, STRICT
from assay.verify.liveness.program import check_program
from tests.lower.c.c_calls import Row, arguments, build
from tests.lower.c.sanitized import run_sanitized
from tests.lower.devices.memory_access import check_memory_access
from tests.lower.memory.planned import lanes, planned

pytestmark = pytest.mark.row("A16")

NPU, OTHER, DSP = VirtualDevice("npu", 0), VirtualDevice("npu", 3, scope="global.l2"), VirtualDevice(target="dsp -v2")
PLACES = (NPU, NPU, ANYWHERE, DSP, OTHER, NPU)
WHERE = ["npu0", "npu0", "", "dsp0", "npu3", "npu0"]
HANDLE = 0x5A
X = np.array([1, 2], np.float32)


def module(places: tuple[VirtualDevice, ...] = PLACES) -> Module:
    """y = x + 1 + 1 ..., a kernel and a device for each step."""
    names = ["x", *(f"t{i}" for i in range(1, len(places))), "y"]
    steps = [
        (lanes(f"k{i}", [FLOAT32], FLOAT32, 2, lambda v: v + 1.0), [names[i]], [names[i + 1]])
        for i in range(len(places))
    ]
    made = planned(steps, {"x": TensorType((2,), FLOAT32)}, ["y"])
    on = tuple(replace(s, device=d) for s, d in zip(made.program.steps, places, strict=True))
    return made.with_(main=replace(made.program, steps=on))


def account(where: list[str], failing: Collection[str]) -> tuple[list[str], str]:
    """What has to happen, event by event, and the event whose status comes back ("" if none fails)."""
    log: list[str] = []
    first: list[str] = []

    def event(name: str) -> bool:
        log.append(name)
        if name in failing:
            first.append(name)
        return name not in failing

    devices = list(dict.fromkeys(w for w in where if w))
    active: list[str] = []
    for d in devices:
        if not event(f"activate {d}"):
            break
        active.append(d)
    else:
        now = ""
        for i, w in enumerate([*where, ""]):
            if now and w != now:
                close, now = f"close {now}", ""
                if not event(close):
                    break
            if i == len(where):
                break
            if w and not now:
                if not event(f"open {w}"):
                    break
                now = w
            if not event(f"k{i}"):
                break
        if now:
            event(f"close {now}")
    for d in reversed(active):
        event(f"deactivate {d}")
    return log, (first or [""])[0]


def stub(source: CSource, steps: int) -> Iterator[str]:
    """Hooks and kernels that write down that they are called, with which handle, and fail where they are told to."""
    yield f"""#include "m.h"
#include <string.h>
#include <stdio.h>
extern char logged[8192];
extern char failing[8192];
char logged[8192];
char failing[8192];

static int event(const char *what, const char *device, int id, const void *handle)
{{
    char name[64];
    char key[80];
    const char *at;
    sprintf(name, id < 0 ? "%s" : "%s %s%d", what, device, id);
    strcat(logged, name);
    strcat(logged, handle == (const void *){HANDLE} ? ";" : " with another handle;");
    sprintf(key, ";%s=", name);
    at = strstr(failing, key);
    return at == NULL ? 0 : 300 + (int)(at - failing);
}}
"""
    for c in dict.fromkeys(d.c for d in source.devices):
        for verb in ("activate", "open", "close", "deactivate"):
            yield (
                f'int m_device_{c}_{verb}(void *handle, int32_t id) {{ return event("{verb}", "{c}", id, handle); }}\n'
            )
    packed = "(void *handle, const struct assay_value *args, int32_t count, struct assay_value *result)"
    for i in range(steps):
        match source.interface:
            case Interface.UNPACKED:
                yield f"int m_k_k{i}(const float *x0, float *out, void *handle)\n{{\n    (void)x0;\n    (void)out;\n"
            case Interface.C_PACKED:
                yield f"int m_p_k{i}{packed}\n{{\n    (void)args;\n    (void)count;\n    (void)result;\n"
            case Interface.PACKED:
                yield f"static int k{i}{packed}\n{{\n    (void)args;\n    (void)count;\n    (void)result;\n"
        yield f'    return event("k{i}", "", -1, handle);\n}}\n'
    rows = "".join(f'{{"m_p_k{i}", k{i}, (void *){HANDLE}}}, ' for i in range(steps))
    if source.interface is Interface.PACKED:
        yield (
            f"extern const struct assay_function_row rows[];\nconst struct assay_function_row rows[] = {{{rows}{{NULL,"
            " NULL, NULL}};\n"
        )


def obeys(source: CSource, program: Program, where: list[str], directory: Path, most: int = 2) -> int:
    """Assert that the entry does what the account says, for every set of at most `most` events that fail; how many
    runs."""
    source.write(directory)
    (directory / "stub.c").write_text("".join(stub(source, len(program.steps))))
    library = build(directory, ["m.c", "stub.c"], *(f"-DM_EXTERNAL_K{i}" for i in range(len(program.steps))))
    logged = (ctypes.c_char * 8192).in_dll(library, "logged")
    failing = (ctypes.c_char * 8192).in_dll(library, "failing")
    call = arguments(source, X)
    if source.interface is Interface.PACKED:
        call.args[call.count].code, call.args[call.count].pointer = (
            4,
            ctypes.addressof((Row * 1).in_dll(library, "rows")),
        )
    every, _ = account(where, ())
    runs = 0
    for count in range(most + 1):
        for chosen in combinations(sorted(set(every)), count):
            logged.value, text = b"", ";".join(["", *(f"{name}=" for name in chosen)])
            failing.value = text.encode()
            if source.interface is Interface.UNPACKED:
                status = library.m_run(*(ctypes.c_void_p(t.data) for t in call.tensors), ctypes.c_void_p(HANDLE))
            else:
                status = call.run(library, HANDLE, call.count + (source.interface is Interface.PACKED))
            want, first = account(where, chosen)
            assert logged.value.decode().split(";")[:-1] == want, chosen
            assert status == (300 + text.index(f";{first}=") if first else 0), chosen
            runs += 1
    return runs


# --- the order of calls ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("interface", Interface)
def test_hooks_stand_around_the_steps_whatever_fails(tmp_path: Path, interface: Interface) -> None:
    """Two devices of one name, one of another, a step on none; each event fails, alone and with each other one."""
    made = module()
    assert obeys(emit(made, "m", interface=interface), made.program, WHERE, tmp_path) > 100


def test_steps_without_a_device_run_on_the_one_that_is_asked_for(tmp_path: Path) -> None:
    made = module((ANYWHERE, NPU, VirtualDevice(id=0, scope="global")))
    source = emit(made, "m", device="cpu")
    assert obeys(source, made.program, ["cpu0", "npu0", "cpu0"], tmp_path) > 30
    plain = emit(module((ANYWHERE, ANYWHERE)), "m")
    assert plain.devices == () and "handle" not in plain.source and "device_" not in plain.source + plain.header


def test_the_account_itself() -> None:
    """Some cases by hand, for the tests lean on it."""
    assert account(["a", "a", "", "b"], ()) == (
        # fmt: skip
        [
            "activate a",
            "activate b",
            "open a",
            "k0",
            "k1",
            "close a",
            "k2",
            "open b",
            "k3",
            "close b",
            "deactivate b",
            "deactivate a",
        ],
        "",
    )
    assert account(["a", "b"], ["activate b", "deactivate a"]) == (
        ["activate a", "activate b", "deactivate a"],
        "activate b",
    )
    assert account(["a", "b"], ["open a"]) == (
        ["activate a", "activate b", "open a", "deactivate b", "deactivate a"],
        "open a",
    )
    assert account(["a"], ["k0", "close a"]) == (["activate a", "open a", "k0", "close a", "deactivate a"], "k0")
    assert account(["a", ""], ["close a"]) == (["activate a", "open a", "k0", "close a", "deactivate a"], "close a")


FAULTS = {
    "a kernel's status is ignored": ("status = m_k_k0(", "(void)m_k_k0("),
    "the result of activate is ignored": ("status = m_device_npu_activate(handle, 0);",
        "(void)m_device_npu_activate(handle, 0);"),
    "the result of open is ignored": ("status = m_device_npu_open(handle, 0);", "(void)m_device_npu_open(handle, 0);"),
    "the result of close is ignored": ("status = m_first(status, m_device_dsp_close(handle, 0));",
        "(void)m_device_dsp_close(handle, 0);"),
    "the result of deactivate is ignored": ("status = m_first(status, m_device_npu_deactivate(handle, 3));",
        "(void)m_device_npu_deactivate(handle, 3);"),
    "the last status wins": ("return (one != M_OK) ? one : other;", "return (other != M_OK) ? other : one;"),
    "closed twice": ("status = m_first(status, m_device_dsp_close(handle, 0));",
        (
            "status = m_first(status, m_device_dsp_close(handle, 0)); status = m_first(status, "
            "m_device_dsp_close(handle, 0));"
        )),
    "not closed after an error": ("            status = m_first(status, m_device_dsp_close(handle, 0));",
        "            if (status == M_OK) status = m_device_dsp_close(handle, 0);"),
    "not deactivated after an error": ("if (active > 0) {", "if (active > 0 && status == M_OK) {"),
    "deactivated though never activated": ("active += (status == M_OK) ? 1 : 0;", "active += 1;"),
    "deactivated in the order of activation": (
        "if (active > 2) {\n        status = m_first(status, m_device_npu_deactivate(handle, 3)",
        "if (active > 0) {\n        status = m_first(status, m_device_npu_deactivate(handle, 3)"),
    "closed though not opened": ("m_device_dsp_open(handle, 0);\n        if (status == M_OK) {",
        "m_device_dsp_open(handle, 0);\n        {"),
    "another device's number": ("m_device_npu_open(handle, 3)", "m_device_npu_open(handle, 0)"),
    "another handle": ("m_device_npu_open(handle, 3)", "m_device_npu_open(workspace, 3)"),
    "goes on after an error": ("    if (status == M_OK) { /* step 2 */", "    { /* step 2 */"),
}  # fmt: skip


@pytest.mark.parametrize("fault", FAULTS)
def test_planted_faults_of_hooks_are_seen(tmp_path: Path, fault: str) -> None:
    made = module()
    source = emit(made, "m")
    old, new = FAULTS[fault]
    assert old in source.source
    with pytest.raises(AssertionError):
        obeys(replace(source, source=source.source.replace(old, new)), made.program, WHERE, tmp_path)


# --- what `assay check` holds the entry to --------------------------------------------------------------------------


def test_runs_of_the_checks_hold_the_hooks_to_their_order() -> None:
    """The stand-ins for the hooks that compiled and sanitized runs bring."""
    for interface in (Interface.UNPACKED, Interface.PACKED):
        source = emit(module(), "m", interface=interface)
        assert compile_c(source, reproducible=True, flags=(*STRICT, "-O0")).run({"x": X})["y"].tolist() == [7, 8]
    source = emit(module(), "m")
    assert run_sanitized(source, {"x": X})["y"].tolist() == [7, 8]
    for fault in ("closed twice", "another device's number"):
        wrong = replace(source, source=source.source.replace(*FAULTS[fault]))
        for run in (
            compile_c(wrong, reproducible=True, flags=STANDARD).run,
            lambda inputs, wrong=wrong: run_sanitized(wrong, inputs),
        ):
            with pytest.raises(Trap, match="hooks of its devices") as caught:
                run({"x": X})
            assert (caught.value.kind, caught.value.label) == ("hooks", "compiled.T7")


# --- where the devices come from ------------------------------------------------------------------------------------


def annotated() -> Module:
    """A model whose calls are on devices: relu on none, exp on the npu, the sum on the dsp."""
    b = Builder()
    with b.function("main", x=tensor(2, 3)) as f:
        b.result(b.add(b.exp(b.nn.relu(f.x)), b.nn.relu(f.x)))
    made = b.module()
    places = {"exp": NPU, "add": VirtualDevice("dsp", 0)}
    main = rewrite(
        made.main, lambda n: replace(n, device=places[n.op.name]) if isinstance(n, Call) and n.op.name in places else n
    )  # type: ignore[arg-type, union-attr, type-var]
    return made.with_(main=main)  # type: ignore[arg-type]


def test_devices_of_calls_reach_the_hooks() -> None:
    """Through every stage; a program that forgets them is refused."""
    made = annotated()
    for stage in lowering_passes(vector.run).values():
        made = stage(made)
    by_kernel = {s.kernel.split("_")[-1]: s.device.type for s in made.program.calls}
    assert (
        by_kernel["exp"] == "npu"
        and by_kernel["add"] == "dsp"
        and check_memory_access(made.program, made.kernels).holds
    )
    text = emit(made, "m")
    assert {d.name for d in text.devices} == {"npu", "dsp"}
    assert "exp (exp) " in text.header and " on npu:0" in text.header
    x = np.linspace(-1, 1, 6, dtype=np.float32).reshape(2, 3)
    got = compile_c(text, reproducible=True).run({"x": x})
    nowhere = tuple(replace(s, device=ANYWHERE) for s in made.program.steps)
    plain = emit(made.with_(main=replace(made.program, steps=nowhere)), "m")
    want = compile_c(plain, reproducible=True).run({"x": x})
    assert plain.devices == () and all(np.array_equal(got[n], want[n]) for n in want)


@pytest.mark.parametrize("wrong", [ANYWHERE, VirtualDevice("dsp", 0, "dsp", "global")])
def test_a_program_on_other_devices_is_refused(wrong: VirtualDevice) -> None:
    stages = lowering_passes(vector.run)
    made = annotated()
    for name in stages:
        if name == "liveness":
            break
        made = stages[name](made)
    lives = find_lives(made, whole=True)
    assert check_program(made, lives).holds
    steps = tuple(replace(s, device=wrong) if s.kernel == "exp" else s for s in lives.program.steps)
    refused = check_program(made, lives.with_(main=replace(lives.program, steps=steps)))
    assert not refused.holds and "runs on" in refused.detail


def test_names_of_devices() -> None:
    cases = [
        (NPU, "npu"),
        (VirtualDevice(target="llvm -mcpu=native"), "cpu"),
        (VirtualDevice(scope="global"), ""),
        (ANYWHERE, ""),
        # fmt: skip
        (VirtualDevice("cuda", target="cuda"), "cuda"),
        (VirtualDevice(target='{"keys": ["cpu"], "kind": "c"}'), "cpu"),
        (DSP, "dsp"),
    ]
    assert [device_name(d) for d, _ in cases] == [n for _, n in cases]


def test_regions_and_names() -> None:
    """Devices of one name share hooks; names that are one in C do not."""
    names = ("a.b", "a b", "a.b", "1", "int")
    made = module(tuple(VirtualDevice(n, i) for i, n in enumerate(names)))
    devices = find_devices(made.program, "")
    assert [(d.c, d.id) for d in devices.all] == [("a_b", 0), ("a_b_2", 1), ("a_b", 2), ("v1", 3), ("int_", 4)]
    assert [list(r) for _, r in find_devices(module().program, "").regions()] == [[0, 1], [2], [3], [4], [5]]
    source = emit(made, "m")
    assert (
        source.header.count("int m_device_a_b_open(void *handle, int32_t id);") == 1 and "id is 0 or 2" in source.header
    )
    assert compile_c(source, reproducible=True).run({"x": X})["y"].tolist() == [6, 7]
