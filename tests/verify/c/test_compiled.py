"""The harness around generated C: what it runs, and that it sees what goes wrong. Faults are planted in the C text."""

from __future__ import annotations

import ctypes
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from assay.lower.c import CSource, emit
from assay.lower.c.tables import Blob
from assay.semantics.dtypes import BOOL, DTYPES, FLOAT32, INT32, INT64
from assay.semantics.errors import Crash, EnvironmentFailure, Invalid, Trap
from assay.semantics.module import Module
from assay.semantics.scalar import apply, cast
from assay.semantics.tensor import Assert, Buffer, PrimFunc, loops, seq, store
from assay.semantics.types import TensorType
from assay.verify.c import check_c
from assay.verify.c.compiled import Compiled, Look, begin_c, compile_c
from assay.verify.c.tools import STRICT, find_compiler, status_name
from tests.lower.c.sanitized import run_sanitized
from tests.lower.memory.planned import lanes, planned, same_bits

N = 11
X = np.linspace(-3, 3, N).astype(np.float32)
BIAS = np.arange(N).astype(np.float32)
TYPES = {"x": TensorType((N,), FLOAT32)}


def module() -> Module:
    """y = (x + x + bias) * bias, with one buffer in the workspace."""
    x, bias, out = (Buffer(n, (N,), FLOAT32) for n in ("x", "bias", "out"))
    first = PrimFunc("first", (x, bias, out), 1, loops("i", (N,), lambda i: store(out, i, x[i] + x[i] + bias[i])))
    second = PrimFunc("second", (x, bias, out), 1, loops("i", (N,), lambda i: store(out, i, x[i] * bias[i])))
    steps = [(first, ["x", "bias"], ["t"]), (second, ["t", "bias"], ["y"])]
    return planned(steps, TYPES, ["y"], {"bias": BIAS})


WANT = (X + X + BIAS) * BIAS


@pytest.fixture(scope="module")
def inline() -> Compiled:
    return compile_c(emit(module(), "m"), reproducible=True)


@pytest.fixture(scope="module")
def with_blob() -> Compiled:
    return compile_c(emit(module(), "m", inline_limit=0), reproducible=True)


def edited(source: CSource, old: str, new: str) -> CSource:
    assert old in source.source, source.source
    return replace(source, source=source.source.replace(old, new))


def address(array: Any) -> int:
    return int(array.ctypes.data)


# --- the way it should go -----------------------------------------------------------------------------------------


def test_run(inline: Compiled, with_blob: Compiled) -> None:
    for compiled in (inline, with_blob):
        for fill in (0xFF, 0):
            assert same_bits(compiled.run({"x": X}, fill=fill)["y"], WANT)
        assert same_bits(run_sanitized(compiled.source, {"x": X})["y"], WANT)


def test_inputs_may_be_strided(inline: Compiled) -> None:
    wide = np.zeros((N, 2), np.float32)
    wide[:, 0] = X
    assert same_bits(inline.run({"x": wide[:, 0]})["y"], WANT)


def test_a_given_directory_is_used_and_kept(tmp_path: Path) -> None:
    compiled = compile_c(emit(module(), "m", inline_limit=0), reproducible=False, directory=tmp_path)
    assert same_bits(compiled.run({"x": X})["y"], WANT)
    assert {"m.h", "m.c", "m.weights", "m.so"} <= {p.name for p in tmp_path.iterdir()}


def test_a_directory_of_its_own_goes_with_the_result() -> None:
    compiled = compile_c(emit(module(), "m"), reproducible=True)
    place = compiled.library.parent
    assert place.is_dir()
    del compiled
    assert not place.exists()


def test_large_weights_are_mapped_and_not_copied(with_blob: Compiled) -> None:
    assert isinstance(with_blob.weights, np.memmap)
    big = np.ones(3 << 20, np.float32)
    blob = Blob(((64, big),), 64 + big.nbytes + 4, 64)
    chunks = list(blob.chunks())
    assert all(len(c) <= 1 << 20 for c in chunks) and sum(map(len, chunks)) == blob.nbytes
    assert any(isinstance(c, memoryview) and c.obj is not None and np.shares_memory(np.asarray(c), big) for c in chunks)
    assert blob.tobytes()[:68] == bytes(64) + big[:1].tobytes() and blob.tobytes()[-4:] == bytes(4)


def test_a_run_can_be_watched(inline: Compiled) -> None:
    """After each step the memory of every slot can be looked at; a run that is not watched is as before."""
    program = module().program
    watched = compile_c(emit(module(), "m"), reproducible=True, trace=True)
    seen: list[Any] = []

    def look(step: int, at: Look) -> None:
        seen.append((step, at(program.slots["t"]).view(np.float32).copy(), at(program.slots["y"]).copy()))

    got = watched.run({"x": X}, on_step=look)["y"]
    assert [s[0] for s in seen] == [0, 1] and same_bits(seen[0][1], X + X + BIAS)
    assert set(seen[0][2]) == {0xFF} and same_bits(seen[1][2].view(np.float32), WANT) and same_bits(got, WANT)
    assert same_bits(watched.run({"x": X})["y"], WANT) and len(seen) == 2
    with pytest.raises(Crash, match="without trace"):
        inline.run({"x": X}, on_step=look)


def test_what_the_watcher_raises_is_raised() -> None:
    """Nothing can pass through C; it must not be lost either."""
    watched = compile_c(emit(module(), "m"), reproducible=True, trace=True)
    calls: list[int] = []

    def fail(step: int, at: Look) -> None:
        calls.append(step)
        raise Invalid("seen enough")

    with pytest.raises(Invalid, match="seen enough"):
        watched.run({"x": X}, on_step=fail)
    assert calls == [0]


# --- inputs -------------------------------------------------------------------------------------------------------


def test_inputs_that_do_not_fit_are_invalid(inline: Compiled) -> None:
    cases: list[tuple[dict[str, Any], str]] = [
        ({}, "compiled.C3"),
        ({"x": X, "z": X}, "compiled.C3"),
        ({"x": X[1:]}, "compiled.C4"),
        ({"x": X.astype(np.float64)}, "compiled.C4"),
    ]
    for inputs, label in cases:
        for run in (inline.run, lambda i: run_sanitized(inline.source, i)):
            with pytest.raises(Invalid) as caught:
                run(inputs)
            assert caught.value.label == label


# --- statuses -----------------------------------------------------------------------------------------------------


def test_pointers_are_checked(with_blob: Compiled) -> None:
    """NULL, alignment and overlap of every argument, as the header says."""
    weights = with_blob.weights
    assert weights is not None
    whole = np.zeros(4096, np.uint8)
    base = address(whole) + -address(whole) % 64
    good = [base, base + 512, base + 1024, address(weights)]  # x, y, workspace, weights
    assert with_blob.call(*good) == "OK"
    for i in range(4):
        assert with_blob.call(*(None if k == i else p for k, p in enumerate(good))) == "NULL_POINTER"
        assert with_blob.call(*(p + 2 if k == i else p for k, p in enumerate(good))) == "MISALIGNED"
    assert with_blob.call(good[0], good[1], good[2] + 4, good[3]) == "MISALIGNED"
    assert with_blob.call(good[0] + 4, *good[1:]) == "OK"
    size = N * 4
    overlaps = [
        (base + 512, base + 512, base + 1024, good[3]),
        (base + 512 - size + 4, base + 512, base + 1024, good[3]),
        (base + 1024 + 32, base + 512, base + 1024, good[3]),
        (base, base + 1024 + 40, base + 1024, good[3]),
    ]
    for pointers in overlaps:
        assert with_blob.call(*pointers) == "OVERLAP"
    assert with_blob.call(base + 512 - size, base + 512, base + 1024, good[3]) == "OK"


def test_weights_are_checked(with_blob: Compiled) -> None:
    check = with_blob.loaded.m_check_weights
    source = with_blob.source
    assert source.weights is not None
    data = np.frombuffer(bytearray(64) + source.weights.tobytes() + bytes(64), np.uint8)
    start = -address(data) % 64
    data[start : start + source.weights.nbytes] = np.frombuffer(source.weights.tobytes(), np.uint8)

    def status(at: int | None, count: int) -> str:
        return status_name(check(ctypes.c_void_p(at), ctypes.c_size_t(count)))

    at, count = address(data) + start, source.weights.nbytes
    assert status(at, count) == "OK"
    assert status(None, count) == "NULL_POINTER" and status(at + 4, count) == "MISALIGNED"
    assert status(at, count - 1) == "BAD_WEIGHTS"
    for byte in range(count):
        data[start + byte] ^= 1
        assert status(at, count) == "BAD_WEIGHTS"
        data[start + byte] ^= 1


@pytest.mark.parametrize("count", [0, 1, 55, 56, 63, 64, 65, 119, 120, 128, 100_003])
def test_the_digest_in_c_is_sha256(count: int) -> None:
    """Lengths around the edges of its padding; the digest itself comes from Python."""
    table = np.random.default_rng(count).integers(-128, 128, max(count, 1)).astype(np.int8)
    x, out = Buffer("x", table.shape, DTYPES["int8"]), Buffer("out", (), DTYPES["int8"])
    kernel = PrimFunc("first", (x, out), 1, store(out, (), x[0]))
    source = emit(planned([(kernel, ["c"], ["out"])], {}, ["out"], {"c": table}), "m", inline_limit=0)
    assert compile_c(source, reproducible=True).run({})["out"] == table[0]


def test_tampered_weights_are_invalid(tmp_path: Path) -> None:
    compiled = compile_c(emit(module(), "m", inline_limit=0), reproducible=True, directory=tmp_path)
    path = tmp_path / "m.weights"
    data = path.read_bytes()
    path.write_bytes(data[:-1] + bytes([data[-1] ^ 1]))
    with pytest.raises(Invalid, match="M_BAD_WEIGHTS") as caught:
        compiled.run({"x": X})
    assert caught.value.label == "compiled.C2"


def test_traps_are_reported_and_stop_the_run() -> None:
    """A kernel that traps; the one after it does not run."""
    x, out = Buffer("x", (N,), FLOAT32), Buffer("out", (N,), INT32)
    i, late = Buffer("i", (N,), INT32), Buffer("out", (N,), INT32)
    narrow = PrimFunc("narrow", (x, out), 1, loops("k", (N,), lambda k: store(out, k, cast(x[k], INT32))))
    after = PrimFunc("after", (i, late), 1, loops("k", (N,), lambda k: store(late, k, i[k])))
    compiled = compile_c(
        emit(planned([(narrow, ["x"], ["t"]), (after, ["t"], ["y"])], TYPES, ["y"]), "m"), reproducible=True
    )
    assert compiled.run({"x": X})["y"].tolist() == np.trunc(X).astype(int).tolist()
    for run in (compiled.run, lambda inputs: run_sanitized(compiled.source, inputs)):
        with pytest.raises(Trap, match="M_TRAP_CAST") as caught:
            run({"x": np.where(X > 2, np.float32(np.nan), X)})
        assert (caught.value.kind, caught.value.label) == ("cast", "compiled.T1")


def test_an_assertion_is_a_status() -> None:
    x, out = Buffer("x", (N,), FLOAT32), Buffer("out", (N,), FLOAT32)
    body = loops("k", (N,), lambda k: seq(Assert(apply("lt", x[k], 2.5), "too large"), store(out, k, x[k])))
    source = emit(planned([(PrimFunc("small", (x, out), 1, body), ["x"], ["y"])], TYPES, ["y"]), "m")
    assert "/* too large */" in source.source
    compiled = compile_c(source, reproducible=True)
    assert same_bits(compiled.run({"x": X - 1})["y"], X - 1)
    with pytest.raises(Trap) as caught:
        compiled.run({"x": X})
    assert caught.value.kind == "assertion"


def test_an_unknown_status_is_a_crash() -> None:
    with pytest.raises(Crash, match="no status"):
        status_name(99)


# --- planted faults -----------------------------------------------------------------------------------------------


def test_the_guards_see_a_write_past_an_output() -> None:
    """The bound of a loop, one too large."""
    source = emit(module(), "m")
    start = source.source.index("/* second */")
    wrong = replace(source, source=source.source[:start] + source.source[start:].replace(f"i < {N}", f"i < {N + 1}", 1))
    with pytest.raises(Trap, match="after output 'y'") as caught:
        compile_c(wrong, reproducible=True, flags=(*STRICT, "-O0", "-Wno-error")).run({"x": X})
    assert (caught.value.kind, caught.value.label) == ("out of bounds", "compiled.T3")
    with pytest.raises(Trap, match="AddressSanitizer|insufficient space") as caught:
        run_sanitized(wrong, {"x": X})
    assert (caught.value.kind, caught.value.label) == ("sanitizer", "compiled.T4")


def test_the_guards_see_a_slot_beyond_the_workspace() -> None:
    """An offset that the plan does not have. The static assert refuses it; without that the guards see it."""
    source = emit(module(), "m")
    end = source.workspace_bytes
    wrong = edited(source, "#define M_OFFSET_T 0u", f"#define M_OFFSET_T {end}u")
    with pytest.raises(Crash, match="negative"):
        compile_c(wrong, reproducible=True)
    blind = edited(wrong, "? 1 : -1]", "? 1 : 1]")
    with pytest.raises(Trap, match="after the workspace"):
        compile_c(blind, reproducible=True).run({"x": X})
    with pytest.raises(Trap, match="AddressSanitizer"):
        run_sanitized(blind, {"x": X})


def test_the_guards_see_a_write_before_a_buffer() -> None:
    wrong = edited(emit(module(), "m"), "out[i] =", "out[i - 1] =")
    with pytest.raises(Trap, match="before"):
        compile_c(wrong, reproducible=True, flags=(*STRICT, "-O0")).run({"x": X})
    with pytest.raises(Trap, match="AddressSanitizer"):
        run_sanitized(wrong, {"x": X})


def test_a_write_to_an_input_is_seen() -> None:
    wrong = edited(emit(module(), "m"), "out[i] =", "((float *)(uintptr_t)x)[i] = out[i] =")
    with pytest.raises(Trap, match="input 'x' was written to") as caught:
        compile_c(wrong, reproducible=True, flags=("-std=c99", "-O0")).run({"x": X})
    assert caught.value.label == "compiled.T2"


def test_an_unwritten_read_shows() -> None:
    """Workspace is NaN before the run, so a result that depends on it does too."""
    wrong = edited(emit(module(), "m"), "out[i] = x[i] + x[i]", "if (i != 3) out[i] = x[i] + x[i]")
    got = compile_c(wrong, reproducible=True, flags=("-std=c99", "-O1")).run({"x": X})["y"]
    assert np.isnan(got[3]) and same_bits(got[4:], WANT[4:])


def test_an_output_that_is_no_bool_is_seen() -> None:
    source = emit(planned([(lanes("less", [FLOAT32], BOOL, N, lambda v: v < 0.0), ["x"], ["y"])], TYPES, ["y"]), "m")
    assert compile_c(source, reproducible=True).run({"x": X})["y"].tolist() == (X < 0).tolist()
    wrong = edited(source, f"i < {N}", f"i < {N - 1}")
    with pytest.raises(Trap, match="no bool") as caught:
        compile_c(wrong, reproducible=True).run({"x": X})
    assert caught.value.label == "compiled.T6"


def test_undefined_behaviour_is_seen() -> None:
    """Plain signed addition where the generated code wraps."""
    kernel = lanes("inc", [INT32], INT32, 1, lambda v: v + 1)
    source = emit(planned([(kernel, ["x"], ["y"])], {"x": TensorType((1,), INT32)}, ["y"]), "m")
    most = np.array([2**31 - 1], np.int32)
    assert run_sanitized(source, {"x": most})["y"] == -(2**31)
    wrong = edited(source, "(int32_t)((uint32_t)x0[0] + (uint32_t)1)", "x0[0] + 1")
    with pytest.raises(Trap, match="signed integer overflow"):
        run_sanitized(wrong, {"x": most})


def test_an_endless_run_is_given_up() -> None:
    wrong = edited(emit(module(), "m"), "++i)", "i += 0)")
    with pytest.raises(Trap, match="no result after") as caught:
        run_sanitized(wrong, {"x": X}, timeout=1.0)
    assert (caught.value.kind, caught.value.label) == ("timeout", "compiled.T5")


# --- the compiler -------------------------------------------------------------------------------------------------


def test_an_error_of_the_compiler_is_a_crash() -> None:
    wrong = edited(emit(module(), "m"), "out[i] =", "oops[i] =")
    with pytest.raises(Crash, match="oops"):
        compile_c(wrong, reproducible=True)
    with pytest.raises(Crash, match="oops"):
        run_sanitized(wrong, {"x": X})


def test_what_is_begun_can_be_given_up_and_a_refusal_is_kept() -> None:
    source = emit(module(), "m")
    begun = begin_c(source, reproducible=True)
    assert begun.folder is not None and begun.folder.is_dir()
    begun.abandon()
    begun.abandon()
    assert not begun.folder.exists() and begun.compiler.child.returncode is not None
    bad = begin_c(edited(source, "return", "retrun"), reproducible=True)
    for _ in range(2):
        with pytest.raises(Crash, match="refused generated code"):
            bad.result()
    assert bad.folder is not None and not bad.folder.exists()
    good = begin_c(source, reproducible=True)
    assert good.result() is good.result()
    good.abandon()  # too late: the result has the folder
    assert same_bits(good.result().run({"x": X})["y"], WANT)


def test_that_text_does_not_compile_is_said_before_it_is_read_back(monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(*given: object) -> None:
        raise KeyError("planted: a reader that stumbles")

    planned_module, source = module(), emit(module(), "m")
    monkeypatch.setattr("assay.verify.c.reading.read_back", fails)
    _, evidence, compiled = check_c(edited(source, "return", "retrun"), planned_module)
    assert evidence.holds is False and compiled is None and "refused generated code" in evidence.detail
    with pytest.raises(KeyError, match="planted"):
        check_c(source, planned_module)


def test_a_warning_is_an_error() -> None:
    wrong = edited(emit(module(), "m"), "out[i] =", "int unused; out[i] =")
    with pytest.raises(Crash, match="unused"):
        compile_c(wrong, reproducible=True)


def test_the_compiler_is_chosen_by_cc(monkeypatch: pytest.MonkeyPatch) -> None:
    plain = find_compiler()
    monkeypatch.setenv("CC", f"{plain[0]} -DCHOSEN='a b'")
    assert find_compiler() == (plain[0], "-DCHOSEN=a b")
    monkeypatch.setenv("CC", "no-such-compiler -O2")
    with pytest.raises(EnvironmentFailure, match="no-such-compiler") as caught:
        find_compiler()
    assert caught.value.label == "compiled.C1"
    monkeypatch.delenv("CC")
    monkeypatch.setenv("PATH", "")
    with pytest.raises(EnvironmentFailure, match="cc, gcc, clang"):
        find_compiler()


def test_many_arguments() -> None:
    """More than a foreign call can have."""
    steps, types = [], {}
    for k in range(700):
        types[f"x{k}"] = TensorType((1,), INT64)
        steps.append((PrimFunc(f"k{k}", *_copy()), [f"x{k}"], [f"y{k}"]))
    compiled = compile_c(emit(planned(steps, types, [f"y{k}" for k in range(700)]), "m"), reproducible=True,
                         flags=(*STRICT, "-O0"))  # fmt: skip
    got = compiled.run({f"x{k}": np.array([k]) for k in range(700)})
    assert [int(got[f"y{k}"][0]) for k in range(700)] == list(range(700))


def _copy() -> tuple[tuple[Buffer, Buffer], int, Any]:
    x, out = Buffer("x", (1,), INT64), Buffer("out", (1,), INT64)
    return (x, out), 1, loops("i", (1,), lambda i: store(out, i, x[i]))
