"""Generated C under the address and undefined-behaviour sanitizers (specs/verify.md, "c").

A program of its own, every buffer an allocation of exactly its size, so that any byte beyond one is seen.
"""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path

from assay.lower.c import CSource
from assay.semantics.budget import patience
from assay.semantics.errors import Crash, Trap
from assay.semantics.files import on_disk
from assay.verify import children
from assay.verify.c import tools
from assay.verify.c.calls import caller
from assay.verify.c.tools import Array

SANITIZE = ("-O1", "-fsanitize=address,undefined,float-cast-overflow", "-fno-sanitize-recover=all")
SANITIZER_EXIT = 86


def run_sanitized(
    source: CSource,
    inputs: Mapping[str, Array],
    *,
    reproducible: bool = False,
    timeout: float = 60.0,
    directory: Path | None = None,
    externs: str = "",
) -> dict[str, Array]:
    """As `Compiled.run`, in a process of its own under the sanitizers, every buffer allocated to its exact size.

    A report of a sanitizer is a Trap of kind "sanitizer" with its first line; more than `timeout` seconds is a Trap
    too. `externs` as in `compile_c`.
    """
    arrays = tools.check_inputs(source, inputs)
    with on_disk(), children.folder() as temporary:
        place = Path(directory or temporary)
        source.write(place)
        (place / "main.c").write_text(_main(source), encoding="ascii")
        (place / "call.c").write_text(caller(source), encoding="ascii")
        for i, array in enumerate(arrays):
            (place / f"input_{i}.bin").write_bytes(tools.raw(array).tobytes())
        program = place / "main"
        posix = "-D_POSIX_C_SOURCE=200112L"
        files = [
            f"{source.name}.c",
            "call.c",
            "main.c",
            *tools.add_externs(source, externs, (*tools.STANDARD, *SANITIZE, posix), place),
        ]
        tools.run_compiler(
            [*tools.STANDARD, *SANITIZE, posix, *tools.defines(source, reproducible), *files], program, place
        )
        status = run_program(program, place, timeout)
        failure = tools.status_error(source, status)
        if failure is not None:
            raise failure
        made = [(place / f"output_{i}.bin").read_bytes() for i in range(len(source.outputs))]
        return {a.slot: tools.output_array(a, data) for a, data in zip(source.outputs, made, strict=True)}


def run_program(program: Path, place: Path, timeout: float, words: Sequence[str] = ()) -> int:
    """Run the program with some arguments; the status that it printed."""
    environment = {
        **os.environ,
        "ASAN_OPTIONS": f"detect_leaks=0:exitcode={SANITIZER_EXIT}",
        "UBSAN_OPTIONS": f"print_stacktrace=0:exitcode={SANITIZER_EXIT}",
    }
    try:
        # the sanitizers map far more than they use: the limit of memory that the system knows is not for them
        unlimited = ["/bin/sh", "-c", 'ulimit -S -d "$(ulimit -H -d)"; exec "$0" "$@"', str(program), *words]
        done = children.run_child(unlimited, cwd=place, env=environment, seconds=min(timeout, patience(timeout)))
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


BLOCKS = """#include "@.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int assay_call(void *const *p);

static void *block(size_t bytes, size_t align)
{
    void *memory = NULL;
    if (posix_memalign(&memory, align < sizeof(void *) ? sizeof(void *) : align, bytes) != 0) {
        exit(3);
    }
    memset(memory, 0xff, bytes);
    return memory;
}

static void load(const char *name, void *memory, size_t bytes)
{
    FILE *file = fopen(name, "rb");
    if (file == NULL || fread(memory, 1, bytes, file) != bytes) {
        exit(4);
    }
    fclose(file);
}

static void *from_file(const char *name, size_t bytes, size_t align)
{
    void *memory = block(bytes, align);
    load(name, memory, bytes);
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
    lines = [BLOCKS.replace("@", source.name), "int main(void)\n{\n    int status = 0;\n"]
    blocks: list[str] = []
    spaces = [w.name for w in source.workspaces]
    for w in source.workspaces:
        lines.append(f"    void *{w.name} = block({source.macro}_{w.macro}_BYTES, {source.macro}_{w.macro}_ALIGN);\n")
    for kind, arguments in (("input", source.inputs), ("output", source.outputs)):
        for i, a in enumerate(arguments):
            name, size = f"{kind}_{i}", f"{a.nbytes}, {a.type.dtype.itemsize}"
            if a.workspace:
                make = f"{source.macro}_{kind.upper()}_{a.macro}_AT({a.workspace})"
            else:
                made = f'from_file("{name}.bin", {size})' if kind == "input" else f"block({size})"
                make = f"({a.ctype} *){made}"
                blocks.append(name)
            lines.append(f"    {a.ctype} *{name} = {make};\n")
    blocks += spaces
    if source.weights is not None:
        size = f"{source.macro}_WEIGHTS_BYTES, {source.macro}_WEIGHTS_ALIGN"
        lines.append(f'    void *weights = from_file("{source.name}.weights", {size});\n')
        lines.append(f"    status = (int){source.name}_check_weights(weights, {source.macro}_WEIGHTS_BYTES);\n")
        blocks.append("weights")
    lines.append(f"    void *blocks[{len(blocks)}] = {{{', '.join(blocks)}}};\n")
    for i, a in enumerate(source.inputs):
        if a.workspace:
            lines.append(f'    load("input_{i}.bin", input_{i}, {a.nbytes});\n')
    lines.append("    if (status == 0) {\n        status = assay_call(blocks);\n    }\n")
    for i, a in enumerate(source.outputs):
        lines.append(f'    to_file("output_{i}.bin", output_{i}, {a.nbytes});\n')
    lines += [f"    free({b});\n" for b in blocks]
    lines.append('    printf("%d\\n", status);\n    return 0;\n}\n')
    return "".join(lines)
