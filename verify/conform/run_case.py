"""`assay run FILE.py --case NAME` (specs/verify.md, "Programs with cases")."""

from __future__ import annotations

from pathlib import Path

from assay.verify.app.run_shown import run_lines
from assay.verify.app.terminal import Screen
from assay.verify.app.text_run import run_text
from assay.verify.border.inputs import save
from assay.verify.border.values import to_arrays
from assay.verify.conform.definition import faults_of
from assay.verify.conform.reader import read_program
from assay.verify.exits import Exit


def run_named_case(path: Path, name: str, output: Path | None, out: Screen) -> Exit:
    """Run a case on its inputs, show what comes of it, and compare that with what the case expects; the exit code.
    Invalid: the text is wrong, or has no such case (case.C6)."""
    program = read_program(path)
    case = program.case(name)
    done = run_text(program.module, program.function(case), to_arrays(case.inputs), 0, {})
    for line in run_lines(done):
        out.print(line)
    if done.trap is not None:
        out.print(str(done.trap))
    elif output is not None:
        save(output, done.outputs)
    faults = faults_of(program, case)
    for fault in faults:
        out.print(f"{case.where}: {fault}")
    out.print(f"case {name}: {'not as expected' if faults else 'as expected'}")
    return Exit.WRONG if faults else Exit.HOLDS
