"""`assay export MODEL -o FILE`: the program in another language, shown to mean the same (specs/verify.md, "export").

Exit codes: 0, what was written means the same; 1, it does not; 5, nothing could be compared.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

from rich.markup import escape

from assay.lower.onnx_export import export_onnx
from assay.lower.stablehlo_export import export_stablehlo
from assay.semantics.errors import Invalid
from assay.semantics.module import Module
from assay.verify.api.programs import load
from assay.verify.app.answers import answering, write_answer
from assay.verify.app.terminal import Screen
from assay.verify.coming_back import came_back

LANGUAGES = {".mlir": "StableHLO", ".onnx": "ONNX"}
"""What is written, by the ending of the file."""


def export_file(source: Path, output: Path, dims: Mapping[str, int], seed: int, out: Screen, as_json: bool) -> int:
    """Write the program of a file as the ending of another one says, and say how what was written was shown to mean the
    same; the exit code. Invalid: no language has that ending (export.C1), or there is no such directory (output.C1)."""
    if output.suffix not in LANGUAGES:
        raise Invalid(
            f"-o {output}: {' or '.join(f'FILE{s} ({n})' for s, n in LANGUAGES.items())} is wanted; assay run --save"
            " writes TVMScript",
            label="export.C1",
        )
    if not Path(os.path.realpath(output)).parent.is_dir():
        raise Invalid("cannot write: there is no such directory", where=str(output), label="output.C1")
    module = load(source, dims=dims)
    data = in_language(module, output.suffix)
    output.write_bytes(data)
    evidence = came_back(module, load(output), seed)
    answer = {
        "model": str(source), "file": str(output), "language": LANGUAGES[output.suffix], "bytes": len(data),
        "holds": evidence.holds, "how": evidence.how, "detail": evidence.detail,
    }  # fmt: skip
    if as_json:
        with answering(answer):
            write_answer(answer)
        return evidence.exit
    out.print(escape(f"{output}: {LANGUAGES[output.suffix]}, {len(data)} bytes"))
    out.print(escape(f"read again: {evidence.word}, {evidence.detail}"))
    return evidence.exit


def in_language(module: Module, suffix: str) -> bytes:
    """A module in the language of that ending, as the bytes of a file."""
    return export_stablehlo(module).encode() if suffix == ".mlir" else export_onnx(module).SerializeToString()
