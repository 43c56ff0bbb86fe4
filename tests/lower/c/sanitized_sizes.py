"""Generated C whose sizes are arguments under the sanitizers: one program, run at many sizes.

Every buffer is an allocation of exactly as many bytes as it takes at the sizes of a run, the workspace of as many as
the code says, each byte 0xff before.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from assay.lower.c import CSource
from assay.semantics.files import on_disk
from assay.verify import children
from assay.verify.c import tools
from assay.verify.c.calls import caller
from assay.verify.c.tools import Array
from tests.lower.c.sanitized import BLOCKS, SANITIZE, run_program


@contextmanager
def sanitized_program(source: CSource) -> Iterator[Program]:
    """The program, compiled, as long as its folder is there."""
    with on_disk(), children.folder() as temporary:
        place = Path(temporary)
        source.write(place)
        (place / "main.c").write_text(_main(source), encoding="ascii")
        (place / "call.c").write_text(caller(source), encoding="ascii")
        posix, files = "-D_POSIX_C_SOURCE=200112L", [f"{source.name}.c", "call.c", "main.c"]
        words = [*tools.STANDARD, *SANITIZE, posix, *tools.defines(source, True), *files]
        tools.run_compiler(words, place / "main", place)
        yield Program(source, place)


class Program:
    """A compiled program."""

    def __init__(self, source: CSource, place: Path) -> None:
        self.source, self.place = source, place

    def run(self, inputs: Mapping[str, Array]) -> dict[str, Array]:
        """As `Compiled.run`; a report of a sanitizer is a Trap of kind "sanitizer"."""
        sizes = self.source.values({n: a.shape for n, a in inputs.items()})
        source = self.source.at(sizes, [0] * len(self.source.workspaces))
        for i, array in enumerate(tools.check_inputs(source, inputs)):
            (self.place / f"input_{i}.bin").write_bytes(tools.raw(array).tobytes())
        words = [str(n) for n in (*sizes, *(a.nbytes for a in (*source.inputs, *source.outputs)))]
        failure = tools.status_error(source, run_program(self.place / "main", self.place, 60.0, words))
        if failure is not None:
            raise failure
        made = [(self.place / f"output_{i}.bin").read_bytes() for i in range(len(source.outputs))]
        return {a.slot: tools.output_array(a, data) for a, data in zip(source.outputs, made, strict=True)}


def _main(source: CSource) -> str:
    """The program around the model: sizes, and the bytes of inputs and outputs, as its arguments."""
    sizes, inputs, outputs = len(source.sizes), len(source.inputs), len(source.outputs)
    spaces = len(source.workspaces)
    lines = [BLOCKS.replace("@", source.name), "int assay_sizes(const int64_t *sizes, size_t *bytes);\n"]
    lines.append("\nint main(int count, char **words)\n{\n    int status;\n    size_t i;\n")
    lines.append(f"    int64_t sizes[{sizes}];\n    size_t spaces[{spaces + 1}];\n")
    lines.append(f"    void *blocks[{sizes + inputs + outputs + spaces}];\n")
    lines.append(f"    if (count != {1 + sizes + inputs + outputs}) {{\n        return 6;\n    }}\n")
    lines.append(f"    for (i = 0; i < {sizes}u; ++i) {{\n        sizes[i] = strtoll(words[1 + i], NULL, 10);\n")
    lines.append("        blocks[i] = &sizes[i];\n    }\n    status = assay_sizes(sizes, spaces);\n")
    lines.append('    if (status != 0) {\n        printf("%d\\n", status);\n        return 0;\n    }\n')
    at = sizes
    for kind, arguments in (("input", source.inputs), ("output", source.outputs)):
        for i, a in enumerate(arguments):
            size = f"(size_t)strtoll(words[{1 + at}], NULL, 10), {a.type.dtype.itemsize}"
            made = f'from_file("input_{i}.bin", {size})' if kind == "input" else f"block({size})"
            lines.append(f"    blocks[{at}] = {made};\n")
            at += 1
    for i, w in enumerate(source.workspaces):
        lines.append(f"    blocks[{at}] = block(spaces[{i}], {source.macro}_{w.macro}_ALIGN);\n")
        at += 1
    lines.append("    status = assay_call(blocks);\n")
    for i in range(outputs):
        place = sizes + inputs + i
        size = f"(size_t)strtoll(words[{1 + place}], NULL, 10)"
        lines.append(f'    to_file("output_{i}.bin", blocks[{place}], {size});\n')
    lines.append(f"    for (i = {sizes}u; i < {at}u; ++i) {{\n        free(blocks[i]);\n    }}\n")
    lines.append('    printf("%d\\n", status);\n    return 0;\n}\n')
    return "".join(lines)
