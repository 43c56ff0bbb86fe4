"""The generated C as a whole: its interface, its names, its constants, its plan, and what a compiler says to it."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from assay.lower.c import CSource, emit
from assay.semantics.dtypes import BOOL, DTYPES, FLOAT32, INT32, INT64
from assay.semantics.errors import Invalid, Unsupported
from assay.semantics.module import Module, Program, Step
from assay.semantics.scalar import apply, const
from assay.semantics.tensor import (
    AllocateConst,
    Buffer,
    Evaluate,
    PrimFunc,
    loops,
    seq,
    store,
)
from assay.semantics.types import TensorType
from assay.verify.c.compiled import compile_c
from assay.verify.c.tools import STANDARD, STRICT, find_compiler
from tests.lower.c.c_network import (
    IMAGE,
    RESULT,
    RNG,
    B,
    W,
    X,
    compile_strictly,
    conv,
    expected,
    network,
    relu,
    softmax_rows,
)
from tests.lower.c.sanitized import run_sanitized
from tests.lower.memory.planned import alone, interpreted, lanes, planned, same_bits
from tests.scale import MANY

# --- the whole way ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("limit", [1 << 20, 0])
@pytest.mark.parametrize("level", ["-O0", "-O2", "-O3"])
def test_a_network_gives_the_bits_of_the_interpreter(limit: int, level: str) -> None:
    source = emit(network(), "net", inline_limit=limit)
    assert (source.weights is None) == (limit > 0)
    got = compile_c(source, reproducible=True, flags=(*STRICT, level)).run({"data": X})
    assert same_bits(got["prob"], expected())


@pytest.mark.parametrize("limit", [1 << 20, 0])
def test_a_network_is_clean_under_the_sanitizers(limit: int) -> None:
    got = run_sanitized(emit(network(), "net", inline_limit=limit), {"data": X}, reproducible=True)
    assert same_bits(got["prob"], expected())


@pytest.mark.parametrize("flags", [("-O0",), ("-O3",), ("-O2", "-DNET_REPRODUCIBLE"), ("-O2", "-fanalyzer")])
def test_no_warning(tmp_path: Path, flags: Sequence[str]) -> None:
    for limit in (0, 1 << 20):
        said = compile_strictly(emit(network(), "net", inline_limit=limit), tmp_path, *flags)
        assert said == "" or "-fanalyzer" in said.partition("\n")[0]  # a compiler without it


def test_the_text_depends_on_the_module_alone() -> None:
    assert emit(network(), "net").source == emit(network(), "net").source


def test_no_allocation_no_state_no_recursion(tmp_path: Path) -> None:
    """The symbols of the object: three exported, none of data or bss, nothing called but libm and the memory
    functions."""
    source = emit(network(), "net", inline_limit=0)
    source.write(tmp_path)
    subprocess.run([*find_compiler(), *STANDARD, "-O2", "-c", "net.c"], cwd=tmp_path, check=True)
    rows = subprocess.run(["nm", "net.o"], cwd=tmp_path, capture_output=True, text=True, check=True).stdout.split("\n")
    symbols = {(line.split()[-2], line.split()[-1]) for line in rows if line}
    assert {name for kind, name in symbols if kind == "T"} == {"net_run", "net_check_weights", "net_status_text"}
    assert not {s for s in symbols if s[0] in "bBdDcC"}
    assert {name for kind, name in symbols if kind == "U"} <= {"expf", "memcpy", "memset", "memcmp", "__stack_chk_fail"}
    assert set(re.findall(r"#include <(.*)>", source.source)) == {"stddef.h", "stdint.h", "string.h", "math.h"}
    for word in ("goto", "union", "malloc", "static float", "static int32_t"):
        assert not re.search(rf"^\s*{word} \w+( =|\[|;)", source.source, re.MULTILINE)


def test_no_contraction_even_where_the_dialect_would_allow_it(tmp_path: Path) -> None:
    """In gnu mode gcc contracts a*b+c unless told otherwise; the source tells it."""
    emit(network(), "net").write(tmp_path)
    command = [*find_compiler(), "-std=gnu11", "-O3", "-march=haswell", "-S", "net.c", "-o", "net.s"]
    if subprocess.run(command, cwd=tmp_path, capture_output=True, check=False).returncode != 0:
        pytest.skip("this compiler has no -march=haswell")
    assert "vmul" in (tmp_path / "net.s").read_text() and "fmadd" not in (tmp_path / "net.s").read_text()


def test_fast_math_is_refused(tmp_path: Path) -> None:
    assert "IEEE" in compile_strictly(emit(network(), "net"), tmp_path, "-ffast-math")


def test_the_header_stands_alone_and_in_cplusplus(tmp_path: Path) -> None:
    source = emit(network(), "net", inline_limit=0)
    source.write(tmp_path)
    (tmp_path / "user.cc").write_text('#include "net.h"\n#include "net.h"\nint main() { return NET_OK; }\n')
    for command in (["-xc", "-std=c99", "-Wpedantic", "-Wall", "net.h"], ["-xc++", "-Wall", "user.cc"]):
        done = subprocess.run(
            [*find_compiler(), *command, "-fsyntax-only"], cwd=tmp_path, capture_output=True, text=True, check=False
        )
        if "cc1plus" in done.stderr:
            continue  # no C++ compiler here
        assert done.stderr == ""


# --- what the header says -----------------------------------------------------------------------------------------


def test_the_header_says_what_a_caller_must_know() -> None:
    module = network()
    source = emit(module, "net", inline_limit=0, digest="sha256:12ab")
    text = source.header
    assert f"#define NET_WORKSPACE_BYTES {module.program.workspace_bytes}u\n" in text
    assert source.workspace_bytes == module.program.workspace_bytes and source.alignment == 64
    assert "#define NET_WORKSPACE_ALIGN 64u\n" in text
    assert f"#define NET_WEIGHTS_BYTES {320 + B.nbytes}u\n" in text and source.weights is not None
    assert "#define NET_INPUT_DATA_ELEMENTS 126u" in text and "#define NET_OUTPUT_PROB_ELEMENTS 96u" in text
    assert "float32[1][3][7][6]" in text and "sha256:12ab" in text and source.weights_digest in text
    assert "-std=c99 -ffp-contract=off" in text and "conv2d (nn.conv2d) data, w:0, bias -> t0" in text
    for slot in module.program.placed("workspace"):
        assert re.search(
            rf"{slot.offset} \+ *{slot.nbytes} +{slot.start} to +{slot.stop}  {re.escape(slot.name)}\n", text
        )
    entry = "int net_run(const float *data, float *prob, void *workspace, const void *weights);"
    assert entry in text
    for word in ("OK = 0", "NULL_POINTER", "MISALIGNED", "OVERLAP", "BAD_WEIGHTS", "TRAP_ASSERT", "TRAP_CAST"):
        assert f"    NET_{word}" in text


def test_small_constants_stand_in_the_source_exactly() -> None:
    values = np.array([0.1, -0.0, 1.0, np.inf, -np.inf, np.nan, 1e-45, 3.4028235e38, 2.5], np.float32)
    for of in (
        FLOAT32,
        DTYPES["float64"],
        DTYPES["float16"],
        DTYPES["bfloat16"],
        BOOL,
        INT64,
        DTYPES["uint64"],
        DTYPES["int8"],
    ):
        if of.is_float:
            with np.errstate(over="ignore"):
                table = np.concatenate([values, np.array([1 / 3, of.smallest_subnormal, float(of.max)])]).astype(
                    of.numpy
                )
        else:
            table = np.array([0, 1, int(of.max), int(of.min), int(of.max) // 3], of.numpy)
        x, out = Buffer("c", table.shape, of), Buffer("out", table.shape, of)
        copy = PrimFunc("copy", (x, out), 1, loops("i", table.shape, lambda i, x=x, out=out: store(out, i, x[i])))
        for limit in (1 << 20, 0):
            source = emit(planned([(copy, ["c"], ["out"])], {}, ["out"], {"c": table}), "m", inline_limit=limit)
            assert same_bits(compile_c(source, reproducible=True, flags=(*STRICT, "-O1")).run({})["out"], table)


def test_constants_inside_a_kernel_are_tables() -> None:
    lut = Buffer("lut", (3,), FLOAT32)
    i = Buffer("i", (4,), INT64)
    out = Buffer("out", (4,), FLOAT32)
    body = loops("k", (4,), lambda k: store(out, k, lut[i[k]]))
    kernel = PrimFunc("take", (i, out), 1, AllocateConst(lut, np.array([0.5, np.nan, -2], np.float32), body))
    compiled = compile_c(emit(alone(kernel), "m"), reproducible=True, flags=(*STRICT, "-O2"))
    got = compiled.run({"i": np.array([2, 0, 1, 2])})["out"]
    assert same_bits(got, np.array([-2, 0.5, np.nan, -2], np.float32))
    big = replace(kernel, body=AllocateConst(Buffer("lut", (1 << 19,), FLOAT32), np.zeros(1 << 19, np.float32), body))
    with pytest.raises(Unsupported, match="table of constants") as caught:
        emit(alone(big), "m")
    assert caught.value.label == "c.C3"


@pytest.mark.parametrize("limit", [1 << 20, 0])
def test_what_is_written_can_be_read_back(tmp_path: Path, limit: int) -> None:
    names = ["data", 'a "b" */ ??/ \\ é', ""]
    x, out = Buffer("x", (2, 0), BOOL), Buffer("out", (), DTYPES["bfloat16"])
    kernel = PrimFunc("zero", (x, x, x, out), 1, store(out, (), 0.0))
    base = network()
    steps = [
        (conv(), ["data", "w:0", "bias"], ["t0"]),
        (relu(), ["t0"], ["t1"]),
        (softmax_rows(), ["t1"], ["prob"]),
        # fmt: skip
        (replace(kernel, params=(Buffer("p", (2, 0), BOOL), Buffer("q", (2, 0), BOOL), out)), names[1:], ["z/*"]),
    ]
    types = {"data": TensorType(IMAGE, FLOAT32), names[1]: TensorType((2, 0), BOOL), names[2]: TensorType((2, 0), BOOL)}
    module = planned(steps, types, ["prob", "z/*"], base.constants)
    source = emit(module, "my net", inline_limit=limit)
    source.write(tmp_path)
    read = CSource.read(tmp_path, "my net")
    assert (read.header, read.source, read.macro) == (source.header, source.source, "MY_NET")
    assert (read.workspace_bytes, read.alignment, read.weights_digest) == (
        source.workspace_bytes, source.alignment, source.weights_digest)  # fmt: skip
    for a, b in zip((*source.inputs, *source.outputs), (*read.inputs, *read.outputs), strict=True):
        assert (a.slot, a.name, a.macro, a.ctype, str(a.type)) == (b.slot, b.name, b.macro, b.ctype, str(b.type))
    empty = np.empty((2, 0), bool)
    data = {"data": X, names[1]: empty, names[2]: empty}
    got = compile_c(read, reproducible=True, directory=tmp_path).run(data)  # over the very files that are mapped
    assert same_bits(got["prob"], expected()) and got["z/*"] == 0
    if source.weights is not None:
        assert read.weights is not None and read.weights.tobytes() == source.weights.tobytes()


def test_files_that_are_not_what_was_written(tmp_path: Path) -> None:
    def refused() -> str:
        with pytest.raises(Invalid) as caught:
            CSource.read(tmp_path, "net")
        assert caught.value.label == "c.C13"
        return str(caught.value)

    assert "no such file" in refused()
    source = emit(network(), "net", inline_limit=0)
    source.write(tmp_path)
    weights = tmp_path / "net.weights"
    weights.write_bytes(weights.read_bytes()[1:])
    assert "the header says" in refused()
    weights.unlink()
    assert "net.weights" in refused()
    source.write(tmp_path)
    CSource.read(tmp_path, "net")
    for pattern in ("WORKSPACE_ALIGN", "with this", "Outputs:", " bytes, called"):
        (tmp_path / "net.h").write_text(source.header.replace(pattern, "?"))
        assert "not a header" in refused()
    (tmp_path / "net.h").write_text(source.header + "é", encoding="utf-8")
    assert "not a header" in refused()


# --- shapes of programs -------------------------------------------------------------------------------------------


def test_two_models_in_one_binary(tmp_path: Path) -> None:
    one = emit(network(), "one", inline_limit=0)
    two = emit(network(W * np.float32(2)), "two", inline_limit=0)
    one.write(tmp_path)
    two.write(tmp_path)
    calls = " && ".join(
        f"{m}_run(NULL, NULL, NULL, NULL) == {m.upper()}_NULL_POINTER"
        f" && {m}_check_weights(NULL, 0) == {m.upper()}_NULL_POINTER" for m in ("one", "two")
    )  # fmt: skip
    (tmp_path / "main.c").write_text(f'#include "one.h"\n#include "two.h"\nint main(void) {{ return !({calls}); }}\n')
    command = [*find_compiler(), *STANDARD, "-Wall", "-Werror", "one.c", "two.c", "main.c", "-o", "main", "-lm"]
    subprocess.run(command, cwd=tmp_path, check=True)
    subprocess.run([tmp_path / "main"], check=True)


def test_results_that_are_no_memory_of_their_own() -> None:
    """An input, a constant and one slot twice as results: each output is the caller's memory all the same."""
    base = planned([(relu(), ["x"], ["y"])], {"x": TensorType(RESULT, FLOAT32)}, ["y"], {"c": B})
    program = replace(base.program, outputs=("y", "y", "x", "c"))
    source = emit(base.with_(main=program), "m")
    assert len({a.name for a in source.outputs}) == 4
    x = RNG.normal(size=RESULT).astype(np.float32)
    compiled = compile_c(source, reproducible=True, flags=(*STRICT, "-O2"))
    got = compiled.run({"x": x})
    assert same_bits(got["y"], np.maximum(x, 0)) and same_bits(got["x"], x) and same_bits(got["c"], B)


def test_zero_sizes_and_rank_zero() -> None:
    x, out, nothing = Buffer("x", (0, 3), FLOAT32), Buffer("out", (), FLOAT32), Buffer("nothing", (3, 0), FLOAT32)
    body = seq(
        store(out, (), 2.0),
        loops("i j", (0, 3), lambda i, j: store(out, (), x[i, j])),
        loops("i j", (3, 0), lambda i, j: store(nothing, (i, j), 1.0)),
    )
    kernel = PrimFunc("empty", (x, out, nothing), 2, body)
    compiled = compile_c(emit(alone(kernel), "m"), reproducible=True, flags=(*STRICT, "-O2"))
    got = compiled.run({"x": np.empty((0, 3), np.float32)})
    assert got["out"] == 2.0 and got["nothing"].shape == (3, 0)
    sanitized = run_sanitized(compiled.source, {"x": np.empty((0, 3), np.float32)})
    assert sanitized["out"] == 2.0


def test_no_inputs_no_steps() -> None:
    empty = Module({"main": Program({}, (), (), (), sizes={"workspace": 0})})
    assert compile_c(emit(empty, "m"), reproducible=True, flags=(*STRICT, "-O2")).run({}) == {}


def test_a_kernel_in_place_is_not_restrict() -> None:
    """The same kernel, once in place: no pointer may promise to be alone."""
    k = lanes("twice", [FLOAT32], FLOAT32, 5, lambda v: v + v)
    apart = planned([(k, ["x"], ["t"]), (k, ["t"], ["y"])], {"x": TensorType((5,), FLOAT32)}, ["y"])
    assert "float *restrict out" in emit(apart, "m").source
    slots = dict(apart.program.slots)
    slots["u"] = replace(slots["t"], name="u", offset=slots["t"].offset)
    steps = (Step("twice", ("x",), ("t",)), Step("twice", ("t",), ("u",)), Step("twice", ("u",), ("y",)))
    inside = apart.with_(main=replace(apart.program, slots=slots, steps=steps))
    source = emit(inside, "m")
    assert "const float *x0, float *out)" in source.source
    x = np.arange(5, dtype=np.float32)
    assert same_bits(compile_c(source, reproducible=True).run({"x": x})["y"], 8 * x)


def test_loops_deeper_than_python_nests() -> None:
    """Thousands of statements in one another: no recursion anywhere."""
    out = Buffer("out", (), INT32)
    body: Any = store(out, (), const(7, INT32))
    for i in range(MANY):
        body = seq(Evaluate(const(i)), body)
    source = emit(alone(PrimFunc("deep", (out,), 1, body)), "m")
    assert compile_c(source, reproducible=True).run({})["out"] == 7


def test_long_expressions_are_cut() -> None:
    """A sum of three thousand terms: no compiler nests so deep."""
    x, out = Buffer("x", (1,), FLOAT32), Buffer("out", (1,), FLOAT32)
    total: Any = x[0]
    for k in range(3000):
        total = total * const(0.5, FLOAT32) + x[0] if k % 2 else total - x[0]
    kernel = PrimFunc("long", (x, out), 1, store(out, 0, total))
    data = np.array([0.3], np.float32)
    want = interpreted(kernel, [data])
    got = compile_c(emit(alone(kernel), "m"), reproducible=True, flags=(*STRICT, "-O1")).run({"x": data})["out"]
    assert isinstance(want, tuple) and same_bits(got, want[0])


def test_indices_of_large_buffers_are_64_bits_wide() -> None:
    """More than 2**31 elements; the C is only compiled, not run."""
    x, out = Buffer("x", (3, 1 << 30), DTYPES["int8"]), Buffer("out", (3,), DTYPES["int8"])
    body = loops("i", (3,), lambda i: store(out, i, x[i, (1 << 30) - 1]))
    source = emit(alone(PrimFunc("far", (x, out), 1, body)), "m")
    assert "(int64_t)i * 1073741824" in source.source
    near = emit(
        alone(PrimFunc("near", (Buffer("x", (3, 9), INT32), out), 1, loops("i", (3,), lambda i: store(out, i, 1)))), "m"
    )
    assert "int64_t" not in near.source[near.source.index("/* near */") :]


def test_checks_stand_only_where_they_are_needed() -> None:
    """Indices that the loops bound need none; an index from memory needs one."""
    assert "return NET_TRAP" not in emit(network(), "net").source
    i = Buffer("i", (4,), INT64)
    x, out = Buffer("x", (5,), FLOAT32), Buffer("out", (4,), FLOAT32)
    bare = PrimFunc("take", (i, x, out), 1, loops("k", (4,), lambda k: store(out, k, x[i[k]])))
    assert re.search(r"if \(t < 0 \|\| t >= 5\) \{\n +return M_TRAP_OUT_OF_BOUNDS;", emit(alone(bare), "m").source)
    clamped = PrimFunc(
        "take", (i, x, out), 1, loops("k", (4,), lambda k: store(out, k, x[apply("min", apply("max", i[k], 0), 4)]))
    )
    assert "return M_TRAP" not in emit(alone(clamped), "m").source


def test_narrow_numbers_are_shifted_as_wide_ones() -> None:
    """An int64 that fits 32 bits may be shifted by up to 63."""
    right, left = Buffer("right", (64,), INT64), Buffer("left", (64,), INT64)
    body = seq(
        loops("i", (64,), lambda i: store(right, i, apply("shr", 1000 - i * 40, i))),
        loops("i", (64,), lambda i: store(left, i, apply("shl", apply("floormod", i, 2), i))),
    )
    kernel = PrimFunc("shifts", (right, left), 2, body)
    want = interpreted(kernel, [])
    assert isinstance(want, tuple)
    for level in ("-O0", "-O2"):
        got = compile_c(emit(alone(kernel), "m"), reproducible=True, flags=(*STRICT, level)).run({})
        assert same_bits(got["right"], want[0]) and same_bits(got["left"], want[1])
