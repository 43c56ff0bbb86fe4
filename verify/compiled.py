"""Generated C compiled and run (specs/verify.md, "Compiled").

`compile_c` builds a shared library and runs it in this process, on guarded memory: the workspace and the outputs are
full of garbage before, zones around every buffer are compared afterwards, and so are the inputs. `run_sanitized` builds
a program of its own under the address and undefined-behaviour sanitizers, every buffer an allocation of exactly its size.

    compiled = compile_c(emit(module, "lenet"), reproducible=True)
    outputs = compiled.run({"data": x})
"""

from __future__ import annotations

import ctypes
import os
import re
import shlex
import shutil
import subprocess
import tempfile
import weakref
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from assay.lower.c import CSource
from assay.lower.c_header import Argument
from assay.lower.c_kernel import TRAPS
from assay.semantics.dtypes import BOOL, dtype
from assay.semantics.errors import AssayError, Crash, Invalid, Trap
from assay.semantics.module import Slot

Array = np.ndarray[Any, Any]

STANDARD = ("-std=c99", "-ffp-contract=off")
"""What the generated C needs to keep its meaning."""
FLAGS = (*STANDARD, "-Wall", "-Wextra", "-Wpedantic", "-Werror", "-O3")
STRICT = (*FLAGS[:-1], "-Wconversion", "-Wshadow", "-Wcast-qual", "-Wmissing-prototypes")
"""All the warnings that generated C is free of; the level of optimisation is not among these."""
SANITIZE = ("-O1", "-fsanitize=address,undefined,float-cast-overflow", "-fno-sanitize-recover=all")

GUARD = 4096
"""Bytes on each side of a buffer that nobody may touch."""
SANITIZER_EXIT = 86

Look = Callable[[Slot], Array]
_HOOK = ctypes.CFUNCTYPE(None, ctypes.c_int)
_STATUS = ("OK", "NULL_POINTER", "MISALIGNED", "OVERLAP", "BAD_WEIGHTS")


def find_compiler() -> tuple[str, ...]:
    """The command of a C compiler: $CC, else cc, gcc or clang; Invalid where there is none."""
    chosen = os.environ.get("CC", "")
    for command in (chosen,) if chosen else ("cc", "gcc", "clang"):
        words = shlex.split(command)
        if words and shutil.which(words[0]):
            return tuple(words)
    what = f"the compiler {chosen!r} that CC names" if chosen else "a C compiler: none of cc, gcc, clang is there"
    raise Invalid(f"cannot find {what}; install one (Debian: apt install gcc) or set CC", label="compiled.C1")


def compile_c(
    source: CSource,
    *,
    reproducible: bool,
    trace: bool = False,
    directory: Path | None = None,
    flags: Sequence[str] = FLAGS,
) -> Compiled:
    """`source` as a library in this process, in `directory` or in a temporary one that lives as long as the result.

    With `reproducible` the transcendental functions are those of the interpreters; with `trace` a run can be watched
    step by step. Crash where C is not accepted.
    """
    place = Path(tempfile.mkdtemp(prefix="assay-")) if directory is None else directory
    compiled = Compiled(source, place / f"{source.name}.so")
    if directory is None:
        weakref.finalize(compiled, shutil.rmtree, place, ignore_errors=True)
    source.write(place)
    (place / "call.c").write_text(_trampoline(source), encoding="ascii")
    defines = [*_defines(source, reproducible), *([f"-D{source.macro}_TRACE"] if trace else [])]
    words = [*flags, "-fPIC", "-shared", *defines, f"{source.name}.c", "call.c"]
    _compile(words, compiled.library, place)
    return compiled


@dataclass(frozen=True, eq=False)
class Compiled:
    """A compiled model. `run` may be called from one thread at a time for each call's own memory."""

    source: CSource
    library: Path

    @cached_property
    def loaded(self) -> ctypes.CDLL:
        """The library in this process."""
        return ctypes.CDLL(str(self.library))

    @cached_property
    def weights(self) -> Array | None:
        """The large constants, mapped from their file and checked by the generated code."""
        if self.source.weights is None:
            return None
        path = self.library.with_name(f"{self.source.name}.weights")
        data: Array = np.memmap(path, np.uint8, "r") if path.stat().st_size else np.empty(0, np.uint8)
        check = getattr(self.loaded, f"{self.source.name}_check_weights")
        check.restype = ctypes.c_int
        self._raise(check(ctypes.c_void_p(data.ctypes.data), ctypes.c_size_t(data.size)))
        return data

    def run(
        self, inputs: Mapping[str, Array], *, fill: int = 0xFF, on_step: Callable[[int, Look], None] | None = None
    ) -> dict[str, Array]:
        """The outputs by slot name, on `inputs` by slot name; memory holds bytes `fill` (0xFF: NaN) before.

        `on_step` is called after each step with its number and a function that gives the bytes of a workspace or
        output slot; the library must have been compiled with `trace`.
        Invalid for inputs that do not fit; Trap where the code reports one or has written where it may not.
        """
        source = self.source
        arrays = check_inputs(source, inputs)
        weights = self.weights
        workspace = _Guarded("the workspace", source.workspace_bytes, source.alignment, fill)
        given = [_Guarded(f"input {a.slot!r}", a.nbytes, a.type.dtype.itemsize, fill) for a in source.inputs]
        made = [_Guarded(f"output {a.slot!r}", a.nbytes, a.type.dtype.itemsize, fill) for a in source.outputs]
        for block, array in zip(given, arrays, strict=True):
            block.bytes[:] = _raw(array)
        addresses = [b.address for b in (*given, *made, workspace)]
        blocks = {a.slot: b for a, b in zip(source.outputs, made, strict=True)}

        def look(slot: Slot) -> Array:
            if slot.place == "output":
                return blocks[slot.name].bytes
            assert slot.place == "workspace" and slot.offset is not None
            return workspace.bytes[slot.offset : slot.offset + slot.nbytes]

        if on_step is not None:
            hook = _HOOK(lambda step: on_step(step, look))
            ctypes.c_void_p.in_dll(self.loaded, "assay_hook").value = ctypes.cast(hook, ctypes.c_void_p).value
        status = self._enter(addresses if weights is None else [*addresses, weights.ctypes.data])
        for block in (*given, *made, workspace):
            block.check()
        for argument, block, array in zip(source.inputs, given, arrays, strict=True):
            if not np.array_equal(block.bytes, _raw(array)):
                raise Trap("store to constant", f"input {argument.slot!r} was written to", label="compiled.T2")
        self._raise(status)
        return {a.slot: _typed(a, b.bytes.tobytes()) for a, b in zip(source.outputs, made, strict=True)}

    def call(self, *addresses: int | None) -> str:
        """The entry on raw addresses, None for NULL; the name of the status without the model's prefix."""
        return status_name(self._enter(addresses))

    def _enter(self, addresses: Sequence[int | None]) -> int:
        call = self.loaded.assay_call
        call.restype = ctypes.c_int
        return int(call((ctypes.c_void_p * len(addresses))(*addresses)))

    def _raise(self, status: int) -> None:
        failure = status_error(self.source, status)
        if failure is not None:
            raise failure


def status_name(status: int) -> str:
    """A status without the model's prefix, such as OK or TRAP_CAST."""
    names = (*_STATUS, *(f"TRAP_{word}" for word in TRAPS.values()))
    if not 0 <= status < len(names):
        raise Crash(f"the generated code returned {status}, which is no status")
    return names[status]


def status_error(source: CSource, status: int) -> AssayError | None:
    """What a status means here; None for OK."""
    name = status_name(status)
    if name == "OK":
        return None
    for kind, word in TRAPS.items():
        if name == f"TRAP_{word}":
            return Trap(kind, f"{source.name}_run returned {source.macro}_{name}", label="compiled.T1")
    return Invalid(f"{source.name} returned {source.macro}_{name}", label="compiled.C2")


def check_inputs(source: CSource, inputs: Mapping[str, Array]) -> list[Array]:
    """The inputs in the order of the C function; Invalid unless they are just those, of the right types."""
    unknown = sorted(set(inputs) - {a.slot for a in source.inputs})
    if unknown:
        known = ", ".join(a.slot for a in source.inputs) or "none"
        raise Invalid(f"no input {unknown[0]!r}; the inputs are: {known}", label="compiled.C3")
    arrays = []
    for a in source.inputs:
        if a.slot not in inputs:
            raise Invalid(f"input {a.slot!r} is missing", label="compiled.C3")
        array = np.asarray(inputs[a.slot])
        if array.shape != a.type.static_shape or dtype(array.dtype) is not a.type.dtype:
            raise Invalid(
                f"input {a.slot!r} is Tensor({array.shape}, {array.dtype}), expected {a.type}", label="compiled.C4"
            )
        arrays.append(np.ascontiguousarray(array))
    return arrays


def run_sanitized(
    source: CSource,
    inputs: Mapping[str, Array],
    *,
    reproducible: bool = False,
    timeout: float = 60.0,
    directory: Path | None = None,
) -> dict[str, Array]:
    """As `Compiled.run`, in a process of its own under the sanitizers, every buffer allocated to its exact size.

    A report of a sanitizer is a Trap of kind "sanitizer" with its first line; more than `timeout` seconds is a Trap too.
    """
    arrays = check_inputs(source, inputs)
    with tempfile.TemporaryDirectory(prefix="assay-") as temporary:
        place = Path(directory or temporary)
        source.write(place)
        (place / "main.c").write_text(_main(source), encoding="ascii")
        for i, array in enumerate(arrays):
            (place / f"input_{i}.bin").write_bytes(_raw(array).tobytes())
        program = place / "main"
        posix = "-D_POSIX_C_SOURCE=200112L"
        files = [f"{source.name}.c", "main.c"]
        _compile([*STANDARD, *SANITIZE, posix, *_defines(source, reproducible), *files], program, place)
        status = _run_sanitized(program, place, timeout)
        failure = status_error(source, status)
        if failure is not None:
            raise failure
        made = [(place / f"output_{i}.bin").read_bytes() for i in range(len(source.outputs))]
        return {a.slot: _typed(a, data) for a, data in zip(source.outputs, made, strict=True)}


def _run_sanitized(program: Path, place: Path, timeout: float) -> int:
    """Run the program; the status that it printed."""
    environment = {
        **os.environ,
        "ASAN_OPTIONS": f"detect_leaks=0:exitcode={SANITIZER_EXIT}",
        "UBSAN_OPTIONS": f"print_stacktrace=0:exitcode={SANITIZER_EXIT}",
    }
    try:
        done = subprocess.run(
            [str(program)], cwd=place, env=environment, capture_output=True, timeout=timeout, check=False
        )
    except subprocess.TimeoutExpired:
        raise Trap("timeout", f"no result after {timeout} seconds", label="compiled.T5") from None
    errors = done.stderr.decode(errors="replace")
    report = re.search(r"(ERROR: \w+Sanitizer: .*|\S*runtime error: .*)", errors)
    if report:
        raise Trap("sanitizer", report[1].strip(), label="compiled.T4")
    if done.returncode != 0:
        first = errors.strip().splitlines()
        raise Crash(f"the sanitized program ended with {done.returncode}: {first[0] if first else 'no message'}")
    return int(done.stdout)


def _defines(source: CSource, reproducible: bool) -> list[str]:
    return [f"-D{source.macro}_REPRODUCIBLE"] if reproducible else []


def _compile(words: Sequence[str], output: Path, place: Path) -> None:
    """Run the compiler in `place`; Crash with its first error, for generated C is always accepted."""
    command = [*find_compiler(), *words, "-o", str(output.resolve()), "-lm"]
    done = subprocess.run(command, cwd=place, capture_output=True, check=False)
    if done.returncode != 0:
        lines = done.stderr.decode(errors="replace").splitlines()
        errors = [x for x in lines if "error" in x] or lines or [f"exit code {done.returncode}"]
        raise Crash(f"the C compiler refused generated code: {errors[0]}")


_PATTERN: Array = np.random.default_rng(0).integers(0, 256, GUARD, np.uint8)


class _Guarded:
    """Memory of exactly the given size between two zones that must stay as they are."""

    def __init__(self, what: str, size: int, alignment: int, fill: int) -> None:
        self.what = what
        whole: Array = np.empty(size + 2 * GUARD + alignment, np.uint8)
        start = GUARD + -(whole.ctypes.data + GUARD) % alignment
        self.bytes = whole[start : start + size]
        self.bytes[:] = fill
        self.address = whole.ctypes.data + start
        self.before = whole[start - GUARD : start]
        self.after = whole[start + size : start + size + GUARD]
        self.before[:] = self.after[:] = _PATTERN

    def check(self) -> None:
        """Trap if a zone was written to."""
        for side, zone in (("before", self.before), ("after", self.after)):
            touched = np.flatnonzero(zone != _PATTERN)
            if touched.size:
                far = int(GUARD - touched[-1] if side == "before" else touched[0] + 1)
                message = f"{touched.size} bytes {side} {self.what} were written to, the nearest {far} bytes off"
                raise Trap("out of bounds", message, label="compiled.T3")


def _raw(array: Array) -> Array:
    return array.reshape(-1).view(np.uint8) if array.size else np.empty(0, np.uint8)


def _typed(argument: Argument, data: bytes) -> Array:
    """The bytes of an output as an array."""
    of = argument.type.dtype
    flat = np.frombuffer(bytearray(data), np.uint8 if of is BOOL else of.numpy)
    if of is BOOL:
        if flat.size and flat.max() > 1:
            raise Trap("unwritten output", f"output {argument.slot!r} holds a byte that is no bool", label="compiled.T6")
        flat = flat.view(np.bool_)
    return flat.reshape(argument.type.static_shape)


def _trampoline(source: CSource) -> str:
    """The entry with its arguments in an array: there may be more of them than a foreign call can have."""
    types = [f"(const {a.ctype} *)" for a in source.inputs] + [f"({a.ctype} *)" for a in source.outputs]
    types += [""] if source.weights is None else ["", ""]
    args = ",\n        ".join(f"{t}p[{i}]" for i, t in enumerate(types))
    return (
        f'#include "{source.name}.h"\n\nint assay_call(void *const *p);\n\nint assay_call(void *const *p)\n{{\n'
        f"    return (int){source.name}_run(\n        {args});\n}}\n"
        f"\n#ifdef {source.macro}_TRACE\nvoid {source.name}_trace(int step);\nextern void (*assay_hook)(int step);\n"
        f"void (*assay_hook)(int step);\n\nvoid {source.name}_trace(int step)\n{{\n    assay_hook(step);\n}}\n#endif\n"
    )


_MAIN = """#include "@.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void *block(size_t bytes, size_t align)
{
    void *memory = NULL;
    if (posix_memalign(&memory, align < sizeof(void *) ? sizeof(void *) : align, bytes) != 0) {
        exit(3);
    }
    memset(memory, 0xff, bytes);
    return memory;
}

static void *from_file(const char *name, size_t bytes, size_t align)
{
    void *memory = block(bytes, align);
    FILE *file = fopen(name, "rb");
    if (file == NULL || fread(memory, 1, bytes, file) != bytes) {
        exit(4);
    }
    fclose(file);
    return memory;
}

static void to_file(const char *name, const void *memory, size_t bytes)
{
    FILE *file = fopen(name, "wb");
    if (file == NULL || fwrite(memory, 1, bytes, file) != bytes) {
        exit(5);
    }
    fclose(file);
}

"""


def _main(source: CSource) -> str:
    """The program around the model: inputs from files, outputs to files, the status on standard output."""
    lines = [_MAIN.replace("@", source.name), "int main(void)\n{\n    int status = 0;\n"]
    blocks: list[str] = []
    for kind, arguments in (("input", source.inputs), ("output", source.outputs)):
        for i, a in enumerate(arguments):
            name, size = f"{kind}_{i}", f"{a.nbytes}, {a.type.dtype.itemsize}"
            make = f'from_file("{name}.bin", {size})' if kind == "input" else f"block({size})"
            lines.append(f"    {a.ctype} *{name} = ({a.ctype} *){make};\n")
            blocks.append(name)
    lines.append(f"    void *workspace = block({source.macro}_WORKSPACE_BYTES, {source.macro}_WORKSPACE_ALIGN);\n")
    blocks.append("workspace")
    if source.weights is not None:
        size = f"{source.macro}_WEIGHTS_BYTES, {source.macro}_WEIGHTS_ALIGN"
        lines.append(f'    void *weights = from_file("{source.name}.weights", {size});\n')
        lines.append(f"    status = (int){source.name}_check_weights(weights, {source.macro}_WEIGHTS_BYTES);\n")
        blocks.append("weights")
    lines.append(f"    if (status == 0) {{\n        status = (int){source.name}_run({', '.join(blocks)});\n    }}\n")
    for i, a in enumerate(source.outputs):
        lines.append(f'    to_file("output_{i}.bin", output_{i}, {a.nbytes});\n')
    lines += [f"    free({b});\n" for b in blocks]
    lines.append('    printf("%d\\n", status);\n    return 0;\n}\n')
    return "".join(lines)
