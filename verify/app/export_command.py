"""`assay export MODEL -o FILE`: the program in another language, shown to mean the same (specs/verify.md, "export").

Exit codes: 0, what was written means the same; 1, it does not; 5, nothing could be compared.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from rich.markup import escape

from assay.lower.frontends.onnx.reading import read_model, tensors_of
from assay.lower.onnx_export import DataBeside, export_onnx
from assay.lower.simplify.size_checks import SizeChecks
from assay.lower.stablehlo_export import export_stablehlo
from assay.semantics.errors import Invalid
from assay.semantics.graph import AssertOp, Constant, Function, Let
from assay.semantics.module import Module
from assay.semantics.walk import post_order, pre_order
from assay.verify.api.programs import load
from assay.verify.app.answers import answering, write_answer
from assay.verify.app.terminal import Screen
from assay.verify.border.files import replace_file, require_file_place
from assay.verify.coming_back import came_back
from assay.verify.evidence import plural

MOST_INSIDE = 1 << 30
"""Bytes of constants that a model holds itself. A protocol buffer may have twice as many; what reads one wants room."""
LANGUAGES = {".mlir": "StableHLO", ".onnx": "ONNX"}
"""What is written, by the ending of the file."""


def export_file(source: Path, output: Path, dims: Mapping[str, int], seed: int, out: Screen, as_json: bool) -> int:
    """Write the program of a file as the ending of another one says, and say how what was written was shown to mean the
    same; the exit code. Invalid: no language has that ending (export.C1), or nothing can be written (output.C1)."""
    if output.suffix not in LANGUAGES:
        raise Invalid(
            f"-o {output}: {' or '.join(f'FILE{s} ({n})' for s, n in LANGUAGES.items())} is wanted; assay run --save"
            " writes TVMScript",
            label="export.C1",
        )
    require_file_place(output)
    if output.is_file() and output.samefile(source):
        raise Invalid(
            f"-o {output} is the program itself, which is not written over; give another file", label="export.C2"
        )
    module = load(source, dims=dims)
    require_own_data(module, source, output)
    written = write_in_language(module, output)
    evidence = came_back(module, load(output), seed)
    dropped = dropped_assertions(module, output.suffix)
    answer = {
        "model": str(source), "file": str(output), "language": LANGUAGES[output.suffix], "bytes": written,
        "holds": evidence.holds, "how": evidence.how, "detail": evidence.detail,
        "dropped_assertions": dropped,
    }  # fmt: skip
    if as_json:
        with answering(answer):
            write_answer(answer)
        return evidence.exit
    out.print(escape(f"{output}: {LANGUAGES[output.suffix]}, {written} bytes"))
    out.print(escape(f"read again: {evidence.word}, {evidence.detail}"))
    if dropped:
        named = f"{plural(len(dropped), 'assertion')}, such as {dropped[0]!r}"
        out.print(escape(f"not written: {named}; where the program traps on one, what was written does not"))
    return evidence.exit


def dropped_assertions(module: Module, ending: str) -> list[str]:
    """The messages of the assertions that a language has no word for: StableHLO, of what is no size; ONNX, of all."""
    found = []
    for function in module.resolved().graphs.values():
        nodes = [*post_order(function.body)]
        checks = SizeChecks(n for n in nodes if isinstance(n, Let))
        asserted = (n for n in nodes if isinstance(n, AssertOp) and not checks.hold(n))
        found += [n.format for n in asserted if ending == ".onnx" or not checks.about_sizes(n)]
    return found


def write_in_language(module: Module, output: Path) -> int:
    """Write a module in the language that the ending of a file says, whole or not at all; the bytes of what was
    written. Large constants of a model that would hold a GiB are beside it, in FILE.data."""
    if output.suffix == ".mlir":
        data = export_stablehlo(module).encode()
    elif constant_bytes(module) < MOST_INSIDE:
        data = export_onnx(module).SerializeToString()
    else:
        return write_with_data_beside(module, output)
    replace_file(output, lambda temporary: temporary.write_bytes(data))
    return len(data)


def require_own_data(module: Module, source: Path, output: Path) -> None:
    """Invalid (export.C2): large constants would be written over a file that the exported program reads, or that is not
    of an earlier export to the same place."""
    beside = data_beside(output)
    if output.suffix != ".onnx" or constant_bytes(module) < MOST_INSIDE or not beside.exists():
        return
    if any(beside.samefile(f) for f in data_files(source) if f.exists()):
        why = f"{source} reads"
    elif not any(beside.samefile(f) for f in data_files(output) if f.exists()):
        why = f"is not of {output}"
    else:
        return
    raise Invalid(
        f"-o {output}: large constants lie beside it in {beside.name}, which is there and {why}; give another file, or"
        " move that one",
        label="export.C2",
    )


def data_beside(output: Path) -> Path:
    """Where the large constants of a model lie, if not in it."""
    return output.with_name(f"{output.name}.data")


def data_files(path: Path) -> set[Path]:
    """The files in which a model says that its tensors are; none of what is no model of ONNX."""
    if path.suffix != ".onnx" or not path.is_file():
        return set()
    try:
        model = read_model(path).model
    except Invalid:
        return set()
    places = (e.value for t in tensors_of(model) for e in t.external_data if e.key == "location")
    return {path.parent / location for location in places if "\0" not in location}


def write_with_data_beside(module: Module, output: Path) -> int:
    """Write a module as an ONNX model, and its large constants in FILE.data; the bytes of both."""
    made: list[bytes] = []
    beside = data_beside(output)

    def write(temporary: Path) -> None:
        with temporary.open("wb") as file:
            made.append(export_onnx(module, beside=DataBeside(file, beside.name)).SerializeToString())

    replace_file(beside, write)
    replace_file(output, lambda temporary: temporary.write_bytes(made[0]))
    return len(made[0]) + beside.stat().st_size


def constant_bytes(module: Module) -> int:
    """The bytes of the constants of a module's functions."""
    functions = (d for d in module.definitions.values() if isinstance(d, Function))
    return sum(e.data.nbytes for f in functions for e in pre_order(f) if isinstance(e, Constant))
