"""The calling conventions of generated C: the same bits in each, every status checked and passed on."""

from __future__ import annotations

import ctypes
import re
import subprocess
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from assay.lower.c import CSource, Interface, emit
from assay.lower.c.names import text_literal
from assay.semantics.dtypes import DTYPES, FLOAT32, INT64
from assay.semantics.errors import Trap
from assay.semantics.module import Module
from assay.semantics.scalar import apply, cast
from assay.semantics.tensor import Assert, Buffer, PrimFunc, loops, seq, store
from assay.semantics.types import TensorType
from assay.verify.c.compiled import compile_c
from assay.verify.c.tools import STRICT, find_compiler, status_name
from tests.lower.c.c_calls import NONE, POINTER, Call, Function, arguments, build
from tests.lower.c.c_network import X, compile_strictly, expected, network
from tests.lower.c.sanitized import run_sanitized
from tests.lower.memory.planned import alone, lanes, planned, same_bits

pytestmark = pytest.mark.row("A15")

PACKED = (Interface.C_PACKED, Interface.PACKED)


# --- the same results ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("interface", "device"),
    [(Interface.UNPACKED, "npu"), (Interface.C_PACKED, ""), (Interface.PACKED, ""), (Interface.PACKED, "npu")],
)
def test_every_convention_gives_the_same_bits(interface: Interface, device: str) -> None:
    source = emit(network(), "net", inline_limit=0 if device else 1 << 20, interface=interface, device=device)
    assert same_bits(compile_c(source, reproducible=True, flags=(*STRICT, "-O2")).run({"data": X})["prob"], expected())


@pytest.mark.parametrize("interface", PACKED)
def test_packed_code_is_clean_under_the_sanitizers(interface: Interface) -> None:
    source = emit(network(), "net", inline_limit=0, interface=interface, device="npu")
    assert same_bits(run_sanitized(source, {"data": X}, reproducible=True)["prob"], expected())


@pytest.mark.parametrize("interface", Interface)
@pytest.mark.parametrize(
    "flags", [("-O2", "-fanalyzer"), ("-O1", "-DNET_TVM_FFI", "-DNET_EXTERNAL_CONV2D", "-DNET_EXTERNAL_ROWS")]
)
def test_no_warning(tmp_path: Path, interface: Interface, flags: tuple[str, ...]) -> None:
    said = compile_strictly(emit(network(), "net", interface=interface, device="npu"), tmp_path, *flags)
    assert said == "" or "-fanalyzer" in said.partition("\n")[0]  # a compiler without it


def test_odd_parameters() -> None:
    """No elements, no dims, every dtype that has C, an empty program."""
    x, out = Buffer("args", (0, 3), FLOAT32), Buffer("result", (), FLOAT32)
    body = seq(store(out, (), 2.0), loops("i j", (0, 3), lambda i, j: store(out, (), x[i, j])))
    for interface in PACKED:
        empty = compile_c(
            emit(alone(PrimFunc("", (x, out), 1, body)), "m", interface=interface),
            reproducible=True,
            flags=(*STRICT, "-O1"),
        )
        assert empty.run({"args": np.empty((0, 3), np.float32)})["result"] == 2.0
        nothing = emit(
            Module({"main": replace(network().program, steps=(), outputs=(), slots={}, inputs=())}),
            "m",
            interface=interface,
        )
        assert compile_c(nothing, reproducible=True, flags=(*STRICT, "-O1")).run({}) == {}
    names = ["bool", "float16", "bfloat16", "float64", *(f"{u}int{b}" for u in ("", "u") for b in (8, 16, 32, 64))]
    kernels = [lanes(f"same_{n}", [DTYPES[n]], DTYPES[n], 3, lambda v: v) for n in names]
    steps = [(k, [f"{n} in"], [f"{n} out"]) for k, n in zip(kernels, names, strict=True)]
    module = planned(steps, {f"{n} in": TensorType((3,), DTYPES[n]) for n in names}, [f"{n} out" for n in names])
    data = {f"{n} in": np.array([0, 1, 1]).astype(DTYPES[n].numpy) for n in names}
    for interface in PACKED:
        got = compile_c(emit(module, "m", interface=interface), reproducible=True, flags=(*STRICT, "-O1")).run(data)
        assert all(same_bits(got[f"{n} out"], data[f"{n} in"]) for n in names)


def test_the_header_says_the_convention(tmp_path: Path) -> None:
    for interface in Interface:
        source = emit(network(), "net", interface=interface, device='a "d" */')
        source.write(tmp_path)
        read = CSource.read(tmp_path, "net")
        assert (read.interface, read.device, read.devices) == (interface, 'a "d" */', source.devices)
        assert len(read.devices) == 1
    source = emit(network(), "net")
    source.write(tmp_path)
    read = CSource.read(tmp_path, "net")
    assert (read.interface, read.device, read.devices) == (Interface.UNPACKED, "", ())
    assert "handle" not in source.header and "ASSAY" not in source.header


@pytest.mark.parametrize("interface", PACKED)
def test_the_header_is_cplusplus_too(tmp_path: Path, interface: Interface) -> None:
    emit(network(), "net", interface=interface, device="npu").write(tmp_path)
    emit(network(), "other", interface=interface).write(tmp_path)
    (tmp_path / "user.cc").write_text('#include "net.h"\n#include "other.h"\nint main() { return NET_OK; }\n')
    done = subprocess.run(
        [*find_compiler(), "-Wall", "-fsyntax-only", "user.cc"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    if "cc1plus" in done.stderr:
        pytest.skip("no C++ compiler here")
    assert done.stderr == ""


# --- arguments of the packed entry ----------------------------------------------------------------------------------


@pytest.mark.parametrize("interface", PACKED)
def test_arguments_are_checked(tmp_path: Path, interface: Interface) -> None:
    """Each thing that can be wrong has a status of its own, and a text that names the argument."""
    source = emit(network(), "net", inline_limit=0, interface=interface)
    source.write(tmp_path)
    library = build(tmp_path, ["net.c"], "-DNET_REPRODUCIBLE")
    assert source.weights is not None
    names = {0: "data: float32[1][3][7][6]", 1: "prob: float32[1][4][4][6]",
        2: f"the workspace: uint8[{source.workspace_bytes}] or larger",
             3: f"the weights: uint8[{source.weights.nbytes}]"}  # fmt: skip
    good = arguments(source, X)
    assert good.run(library) == 0 and good.result.code == NONE and same_bits(good.outputs[0], expected())

    def no_tensor(call: Call, i: int) -> None:
        call.args[i].pointer = None

    def shape(call: Call, i: int) -> None:
        (ctypes.c_int64 * 4).from_address(call.tensors[i].shape or 0)[call.tensors[i].ndim - 1] -= 1

    def strides(call: Call, i: int) -> None:
        (ctypes.c_int64 * 4).from_address(call.tensors[i].strides or 0)[call.tensors[i].ndim - 1] = 2

    def put(field: str, value: Any, call: Call, i: int) -> None:
        setattr(call.tensors[i], field, value)

    def code(call: Call, i: int) -> None:
        call.args[i].code = POINTER

    wrong: list[tuple[str, Callable[[Call, int], None]]] = [
        ("WRONG_CODE", code), ("NULL_POINTER", no_tensor), ("WRONG_DEVICE", partial(put, "device_type", 2)),
        ("WRONG_DTYPE", partial(put, "code", 0)), ("WRONG_DTYPE", partial(put, "bits", 64)),
            ("WRONG_DTYPE", partial(put, "lanes", 2)),
        ("WRONG_RANK", partial(put, "ndim", 3)), ("WRONG_RANK", partial(put, "ndim", -1)),
            ("NULL_POINTER", partial(put, "shape", None)),
        ("WRONG_SHAPE", shape), ("WRONG_STRIDES", strides), ("NULL_POINTER", partial(put, "data", None)),
        ("MISALIGNED", partial(put, "byte_offset", 1)),
    ]  # fmt: skip
    for i in range(good.count):
        for status, change in wrong:
            if i == 3 and status == "MISALIGNED":
                continue  # below: this one is moved by the alignment of the blob
            call = arguments(source, X)
            change(call, i)
            before = call.outputs[0].copy()
            assert (call.status(library), call.text) == (status, names[i]), (i, status)
            assert same_bits(call.outputs[0], before), "nothing runs"
    for count in (0, good.count - 1, good.count + 2, -1):
        assert arguments(source, X).status(library, count=count) == "WRONG_COUNT"
    overlap = arguments(source, X)
    overlap.tensors[1].data = overlap.tensors[0].data
    assert overlap.status(library) == "OVERLAP"
    null = arguments(source, X)
    assert library.net_run(None, None, null.count, ctypes.byref(null.result)) == [*STATUS].index("NULL_POINTER")
    assert library.net_run(None, null.args, null.count, None) == [*STATUS].index("NULL_POINTER")


STATUS = [status_name(i) for i in range(18)]


def test_statuses_have_texts(tmp_path: Path) -> None:
    for interface in (Interface.UNPACKED, Interface.PACKED):
        source = emit(trapping(), "net", interface=interface)
        declared = source.header[source.header.index("enum net_status {") :]
        names = re.findall(r"^    NET_(\w+)", declared[: declared.index("}")], re.MULTILINE)
        count = len(names)
        place = tmp_path / interface
        place.mkdir()
        source.write(place)
        library = build(place, ["net.c"])
        library.net_status_text.restype = ctypes.c_char_p
        texts = [library.net_status_text(i) for i in range(-1, count + 1)]
        assert all(texts) and texts[0] == texts[-1] and len(set(texts)) == count + 1
        assert names == [status_name(i) for i in range(count)]


@pytest.mark.parametrize("interface", PACKED)
def test_larger_memory_other_strides_and_offsets_are_fine(tmp_path: Path, interface: Interface) -> None:
    """A workspace that is larger than needed, no strides, strides of dims of one element, data behind an offset."""
    source = emit(network(), "net", interface=interface)
    source.write(tmp_path)
    library = build(tmp_path, ["net.c"], "-DNET_REPRODUCIBLE")
    call = arguments(source, np.concatenate([np.zeros(3, np.float32), X.reshape(-1)]))
    call.tensors[0], keep = arguments(source, X).tensors[0], arguments(source, X)
    call.kept.append(keep)
    call.args[0].pointer = ctypes.addressof(call.tensors[0])
    shifted = np.concatenate([np.zeros(3, np.float32), X.reshape(-1)])
    call.kept.append(shifted)
    call.tensors[0].shape, call.tensors[0].strides = keep.tensors[0].shape, keep.tensors[0].strides
    (ctypes.c_int64 * 4).from_address(keep.tensors[0].strides or 0)[0] = 7
    call.tensors[0].data, call.tensors[0].byte_offset = shifted.ctypes.data, 12
    call.tensors[1].strides = None
    (ctypes.c_int64 * 1).from_address(call.tensors[2].shape or 0)[0] += 100
    assert call.status(library) == "OK" and same_bits(call.outputs[0], expected())


# --- failures of kernels --------------------------------------------------------------------------------------------


def trapping() -> Module:
    """Three kernels, of which the second asserts and the third casts and looks up."""
    x, out, table = Buffer("x", (3,), FLOAT32), Buffer("out", (3,), FLOAT32), Buffer("table", (3,), FLOAT32)
    first = lanes("first", [FLOAT32], FLOAT32, 3, lambda v: v + 1.0)
    check = PrimFunc(
        "check",
        (x, out),
        1,
        loops("k", (3,), lambda k: seq(Assert(apply("lt", x[k], 9.0), 'x is 9 or more: "??/"'), store(out, k, x[k]))),
    )
    take = PrimFunc("take", (x, table, out), 1, loops("k", (3,), lambda k: store(out, k, table[cast(x[k], INT64)])))
    return planned(
        [(first, ["x"], ["a"]), (check, ["a"], ["b"]), (take, ["b", "x"], ["y"])],
        {"x": TensorType((3,), FLOAT32)},
        ["y"],
    )


@pytest.mark.parametrize("interface", Interface)
def test_a_trap_is_a_status_with_a_message(interface: Interface) -> None:
    compiled = compile_c(emit(trapping(), "m", interface=interface), reproducible=True, flags=(*STRICT, "-O1"))
    good = np.array([0, 1, -1], np.float32)
    assert compiled.run({"x": good})["y"].tolist() == [1, -1, 0]
    for bad, kind, said in (
        (8.0, "assertion", 'check: assertion: x is 9 or more: "??/"'),
            (np.nan, "assertion", 'check: assertion: x is 9 or more: "??/"'),
        (5.0, "out of bounds", "take: out of bounds"), (-np.inf, "cast", "take: cast"),
    ):  # fmt: skip
        with pytest.raises(Trap) as caught:
            compiled.run({"x": np.array([0, bad, 1], np.float32)})
        assert caught.value.kind == kind
        assert caught.value.message.endswith(f": {said}") or interface is Interface.UNPACKED, caught.value.message


def test_text_literals(tmp_path: Path) -> None:
    """What a message may hold comes out of the compiler as it is, but for what is no printable ASCII."""
    texts = ["", "plain", '"q" \\n \\', "??/ ???/ ????=", "é\n", "%s"]
    rows = "".join(f"    {text_literal(t)},\n" for t in texts)
    (tmp_path / "t.c").write_text(
        f"extern const char *const texts[];\nconst char *const texts[] = {{\n{rows}}};\n", encoding="ascii"
    )
    library = build(tmp_path, ["t.c"], "-Wtrigraphs", "-trigraphs")
    got = (ctypes.c_char_p * len(texts)).in_dll(library, "texts")
    assert [g.decode() for g in got] == [*texts[:4], "\\xe9 ", "%s"]


COUNTING = """
#include "m.h"
#include <string.h>
extern int calls, fail;
extern void *seen;
int calls, fail;
void *seen;

static int work(void *handle)
{
    seen = handle;
    ++calls;
    return fail;
}
"""


def external(interface: Interface) -> str:
    """A kernel `check` of the user's: it counts its calls, keeps its handle, copies nothing, returns `fail`."""
    if interface is Interface.UNPACKED:
        body = (
            "int m_k_check(const float *x, float *out, void *handle)\n{\n    memcpy(out, x, 12);\n    return"
            " work(handle);\n}\n"
        )
        return COUNTING + body + "".join(
            f"int m_device_npu_{verb}(void *handle, int32_t id) {{ (void)handle; return id; }}\n"
            for verb in ("activate", "open", "close", "deactivate")
        )  # fmt: skip
    return COUNTING + (
        "int m_p_check(void *handle, const struct assay_value *args, int32_t count, struct assay_value *result)\n{\n"
        "    const struct assay_tensor *x = (const struct assay_tensor *)args[0].as.pointer;\n"
        "    const struct assay_tensor *out = (const struct assay_tensor *)args[1].as.pointer;\n"
        "    result->code = ASSAY_CODE_TEXT;\n    result->as.text = \"mine\";\n"
        "    if (count != 2 || x->ndim != 1 || x->shape[0] != 3 || out->strides[0] != 1) {\n        return -1;\n    }\n"
        "    memcpy(out->data, x->data, 12);\n    return work(handle);\n}\n"
    )  # fmt: skip


def stops(source: CSource, directory: Path) -> None:
    """Assert that a foreign kernel is called once, with the right handle, and that its failure ends the run at once."""
    source.write(directory)
    interface, outer = source.interface, 0x1234
    (directory / "mine.c").write_text(
        external(interface).replace("int m_p_check",
            "int m_p_check(void *, const struct assay_value *, int32_t, struct assay_value *);\nint m_p_check", 1)
        if interface is Interface.PACKED else external(interface)
    )  # fmt: skip
    library = build(directory, ["m.c", "mine.c"], "-DM_EXTERNAL_CHECK")
    calls, fail, seen = (
        t.in_dll(library, n) for t, n in ((ctypes.c_int, "calls"), (ctypes.c_int, "fail"), (ctypes.c_void_p, "seen"))
    )
    x = np.array([0, 1, -1], np.float32)

    def run() -> tuple[int, str | None, list[float]]:
        call = arguments(source, x)
        if interface is Interface.PACKED:
            call.table([("m_p_check", Function(("m_p_check", library)), 0x77)])
        if interface is Interface.UNPACKED:
            library.m_run.restype = ctypes.c_int
            status = library.m_run(*(ctypes.c_void_p(t.data) for t in call.tensors), ctypes.c_void_p(outer))
        else:
            status = call.run(library, outer, call.count + (interface is Interface.PACKED))
        return int(status), call.text, np.nan_to_num(call.outputs[0], nan=99).tolist()

    for status in (0, 300, -7, 1):
        calls.value, fail.value = 0, status
        got, text, output = run()
        assert got == status, "what failed is returned"
        assert output == ([99, 99, 99] if status else [1, -1, 0]), "and nothing runs behind it"
        assert text == ("mine" if status and interface is not Interface.UNPACKED else None)
        assert calls.value == 1 and seen.value == (0x77 if interface is Interface.PACKED else outer)


@pytest.mark.parametrize("interface", Interface)
def test_a_failing_kernel_stops_the_run(tmp_path: Path, interface: Interface) -> None:
    stops(emit(trapping(), "m", interface=interface, device="npu" if interface is Interface.UNPACKED else ""), tmp_path)


CALLS = {
    Interface.UNPACKED: "status = m_k_check(",
    Interface.C_PACKED: "status = m_p_check(",
    Interface.PACKED: 'status = m_call(functions, "m_p_check"',
}


@pytest.mark.parametrize("interface", Interface)
@pytest.mark.parametrize("fault", ["ignored", "changed", "handle", "twice"])
def test_planted_faults_of_calls_are_seen(tmp_path: Path, interface: Interface, fault: str) -> None:
    """A status that is ignored or changed; another handle; a second call."""
    source = emit(trapping(), "m", interface=interface, device="npu" if interface is Interface.UNPACKED else "")
    call = CALLS[interface]
    at = source.source.index(call)
    end = source.source.index(";", at) + 1
    text = source.source[at:end]
    match fault:
        case "ignored":
            new = f"(void){text.removeprefix('status = ')}"
        case "changed":
            new = f"{text} status = (status != M_OK) ? M_NULL_POINTER : M_OK;"
        case "handle":
            new = text.replace("handle", "NULL") if "handle" in text else text.replace("functions", "NULL")
        case _:
            new = f"{text} {text}"
    wrong = source.source[:at] + new + source.source[end:]
    with pytest.raises(AssertionError):
        stops(replace(source, source=wrong), tmp_path)
