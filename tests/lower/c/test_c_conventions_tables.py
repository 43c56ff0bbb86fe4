"""Calling conventions of C: tables of functions, and models together with others."""

from __future__ import annotations

import ctypes
import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from assay.lower.c import Interface, emit
from assay.semantics.dtypes import INT32
from assay.verify.c.compiled import compile_c
from assay.verify.c.tools import STANDARD, find_compiler, status_name
from tests.lower.c.c_calls import NONE, Function, arguments, build
from tests.lower.c.c_network import RESULT, W, X, network
from tests.lower.c.test_c_conventions import PACKED, trapping
from tests.lower.memory.planned import alone, lanes, same_bits

pytestmark = pytest.mark.row("A15")


# --- tables of functions --------------------------------------------------------------------------------------------


def test_functions_are_looked_up_by_name(tmp_path: Path) -> None:
    """The caller's table comes first, its handle goes along; what is in no table is a status with the name."""
    source = emit(trapping(), "m", interface=Interface.PACKED)
    source.write(tmp_path)
    library = build(tmp_path, ["m.c"])
    x = np.array([0, 1, -1], np.float32)
    plain = arguments(source, x)
    handles: list[int | None] = []

    @Function  # type: ignore[untyped-decorator]
    def count(handle: int | None, args: Any, number: int, result: Any) -> int:
        handles.append(handle)
        return 400 if handle == 5 else 0

    plain.table([("m_p_other", count, 1)])
    assert plain.run(library, count=plain.count + 1) == 0 and handles == [] and plain.outputs[0].tolist() == [1, -1, 0]
    replaced = arguments(source, x)
    replaced.table([("m_p_check", count, 5), ("m_p_check", count, 6)])
    assert replaced.run(library, count=replaced.count + 1) == 400 and handles == [5]
    nothing = arguments(source, x)
    nothing.args[nothing.count].code = NONE
    assert nothing.run(library, count=nothing.count + 1) == 0
    nothing.args[nothing.count].code = 1
    assert (
        nothing.status(library, count=nothing.count + 1) == "WRONG_CODE"
        and nothing.text == "the table of functions: a pointer"
    )
    null = arguments(source, x)
    null.table([("m_p_take", Function(0), None)])
    assert null.status(library, count=null.count + 1) == "NO_FUNCTION" and null.text == "m_p_take"
    (tmp_path / "less").mkdir()
    source.write(tmp_path / "less")
    without = build(tmp_path / "less", ["m.c"], "-DM_EXTERNAL_FIRST")
    assert (call := arguments(source, x)).status(without) == "NO_FUNCTION" and call.text == "m_p_first"


@pytest.mark.parametrize("interface", PACKED)
def test_a_kernel_checks_its_own_arguments(tmp_path: Path, interface: Interface) -> None:
    """Whoever calls a kernel by its symbol or from the table."""
    source = emit(alone(lanes("twice", [INT32], INT32, 4, lambda v: v + v)), "m", interface=interface)
    source.write(tmp_path)
    library = build(tmp_path, ["m.c"])
    data = np.arange(4, dtype=np.int32)
    call = arguments(source, data)
    if interface is Interface.PACKED:
        kernel = Function.from_address(ctypes.addressof(ctypes.c_void_p.in_dll(library, "m_functions")) + 8)
    else:
        kernel = Function(("m_p_twice", library))
    assert kernel(None, call.args, 2, ctypes.byref(call.result)) == 0 and call.outputs[0].tolist() == [0, 2, 4, 6]
    assert status_name(kernel(None, call.args, 3, ctypes.byref(call.result))) == "WRONG_COUNT"
    call.tensors[1].bits = 64
    assert (
        status_name(kernel(None, call.args, 2, ctypes.byref(call.result))) == "WRONG_DTYPE"
        and call.text == "twice: out: int32[4]"
    )


# --- together with others -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("interface", Interface)
def test_two_models_in_one_program(tmp_path: Path, interface: Interface) -> None:
    """Both headers in one file, both objects in one library, each with its own weights; a model may be called assay."""
    models = [
        emit(network(), "assay", interface=interface, device="npu"),
        emit(network(W * np.float32(2)), "two", interface=interface, device="npu"),
    ]
    hooks = ""
    for m in models:
        m.write(tmp_path)
        hooks += "".join(
            f"int {m.name}_device_npu_{v}(void *handle, int32_t id) {{ (void)handle; return id; }}\n"
            for v in ("activate", "open", "close", "deactivate")
        )
    (tmp_path / "both.c").write_text(f'#include "assay.h"\n#include "two.h"\n{hooks}')
    library = build(tmp_path, ["assay.c", "two.c", "both.c"], "-DASSAY_REPRODUCIBLE", "-DTWO_REPRODUCIBLE")
    for m, weights in zip(models, (W, W * np.float32(2)), strict=True):
        call = arguments(m, X)
        if interface is Interface.UNPACKED:
            status = getattr(library, f"{m.name}_run")(*(ctypes.c_void_p(t.data) for t in call.tensors), None)
        else:
            status = call.run(library)
        want = compile_c(emit(network(weights), "one"), reproducible=True).run({"data": X})["prob"]
        assert status == 0 and call.outputs[0].shape == RESULT and same_bits(call.outputs[0], want)


@pytest.mark.parametrize("interface", PACKED)
def test_a_shared_library_has_the_names_that_tvm_ffi_looks_for(tmp_path: Path, interface: Interface) -> None:
    """Without a flag, for each of two models; it loads where tvm-ffi is not, and a failure is told by the status alone.
    A program has none of them."""
    for name in ("m", "two"):
        emit(trapping(), name, interface=interface).write(tmp_path)
    library = build(tmp_path, ["m.c", "two.c"])
    call = arguments(emit(trapping(), "m", interface=interface), np.array([0, 1, -1], np.float32))
    for name in ("m_run", "m", "main", "run", "two", "two_run"):
        assert call.run(library, name=f"__tvm_ffi_{name}") == 0 and call.outputs[0].tolist() == [1, -1, 0]
    call = arguments(emit(trapping(), "m", interface=interface), np.array([0, 9, -1], np.float32))
    assert call.run(library, name="__tvm_ffi_main") == -1
    subprocess.run([*find_compiler(), *STANDARD, "-fPIE", "-c", "m.c", "-o", "m.o"], cwd=tmp_path, check=True)
    assert b"__tvm_ffi" not in (tmp_path / "m.o").read_bytes()


@pytest.mark.peer
@pytest.mark.parametrize("interface", PACKED)
def test_tvm_ffi_loads_and_calls_it(tmp_path: Path, interface: Interface) -> None:
    tvm_ffi = pytest.importorskip("tvm_ffi", reason="tvm-ffi is not installed; pip install '.[tvm]'")
    source = emit(trapping(), "m", interface=interface)
    source.write(tmp_path)
    command = [*find_compiler(), *STANDARD, "-O1", "-fPIC", "-shared", "m.c", "-o", "m.so"]
    subprocess.run(command, cwd=tmp_path, check=True)
    loaded = tvm_ffi.load_module(str(tmp_path / "m.so"))
    assert all(loaded[name] is not None for name in ("main", "run", "m"))
    function = loaded["m_run"]
    workspace = np.zeros(source.workspace_bytes + 64, np.uint8)[-source.workspace_bytes or None :]
    call = arguments(source, np.array([0, 1, -1], np.float32))
    out = call.outputs[0]
    arrays = [np.array([0, 1, -1], np.float32), out, call.kept[2][2]]
    assert function(*map(tvm_ffi.from_dlpack, arrays)) is None and out.tolist() == [1, -1, 0]
    arrays[0] = np.array([0, 9, 1], np.float32)
    with pytest.raises(ValueError, match="an assertion of a kernel does not hold: check: assertion: x is 9 or more"):
        function(*map(tvm_ffi.from_dlpack, arrays))
    with pytest.raises(ValueError, match="more or fewer arguments"):
        function()
    with pytest.raises(ValueError, match=r"a tensor has other sizes than its parameter: x: float32\[3\]"):
        function(*map(tvm_ffi.from_dlpack, [workspace[:4].view(np.float32), *arrays[1:]]))
