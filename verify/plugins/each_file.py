"""One command for each of several files, as pre-commit hands them over (specs/verify.md, "In somebody's CI").

python -m assay.verify.plugins.each_file judge --backend onnxruntime A.onnx B.onnx
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Sequence
from itertools import takewhile
from pathlib import Path

from assay.verify.exits import Exit, gravest

PROGRAMS = (".onnx", ".mlir", ".relax", ".relay", ".pt2")
"""What the files' names end with: the last arguments that do are files, and what stands before them is the command."""


def run_each(arguments: Sequence[str]) -> int:
    """Run the command for each file, each in a process of its own; the gravest exit code. That nothing is known to be
    wrong, and not enough to say right, is told and is no failure: nobody can mend it before a commit."""
    files = [*takewhile(lambda a: Path(a).suffix in PROGRAMS, reversed(arguments))][::-1]
    command = arguments[: len(arguments) - len(files)]
    codes = [subprocess.run([sys.executable, "-m", "assay", *command, f], check=False).returncode for f in files]
    return gravest(_counts(code) for code in codes)


def _counts(code: int) -> Exit:
    """What an exit code counts; the number of a signal is none of ours."""
    if code not in [*Exit]:
        return Exit.FAULT
    return Exit.HOLDS if code == Exit.UNDECIDED else Exit(code)


if __name__ == "__main__":
    sys.exit(run_each(sys.argv[1:]))
