"""Programs of ours as cases of a suite (specs/verify.md, "Conformance")."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from assay.semantics.errors import Invalid, Unsupported
from assay.semantics.graph import Call, Expr
from assay.semantics.walk import post_order
from assay.verify.backends import subject_of_module
from assay.verify.conform.cases import SEVERAL, NotJudged, Posed
from assay.verify.conform.claims import claim_faults
from assay.verify.conform.definition import faults_of, inputs_of
from assay.verify.conform.programs import ProgramText
from assay.verify.conform.reader import parse_program, read_program

OURS = Path(__file__).parent / "programs"
"""The programs that come with Assay."""


@dataclass(frozen=True)
class TextCase:
    """One case of a program, which another process reads again."""

    name: str
    operator: str
    text: str
    file: str
    case: str
    suite: str = "assay"

    @property
    def digest(self) -> str:
        """A digest of the text."""
        return hashlib.sha256(self.text.encode()).hexdigest()[:16]

    def posed(self) -> list[Posed]:
        """Its only run. NotJudged: it has no form that a backend takes."""
        program = parse_program(self.text, self.file)
        case = program.case(self.case)
        module = program.with_entry(case)
        if module is None:
            raise NotJudged(
                "a backend takes graph functions", f"{program.function(case)} is none that can be handed on"
            )
        if case.offsets or case.externs or case.expected.invalid:
            raise NotJudged("a backend takes a graph and its inputs alone", "the case is about something else too")
        inputs = inputs_of(program, case)
        if not all(isinstance(v, np.ndarray) for v in inputs.values()):
            raise NotJudged("a backend takes tensors", "an input is a tuple, a shape, a list or an optional value")
        try:
            return [Posed(subject_of_module(module), inputs)]
        except Unsupported as wrong:
            raise NotJudged("ONNX has no word for the program", wrong.message) from None


def files_of(paths: Iterable[Path]) -> Iterator[Path]:
    """The files that are named, and those in directories. Invalid (conform.C1): a directory has none."""
    for path in paths:
        if not path.is_dir():
            yield path
            continue
        found = sorted(path.rglob("*.py"))
        if not found:
            raise Invalid("there is no program, FILE.py, in this directory", where=str(path), label="conform.C1")
        yield from found


def text_cases(paths: Sequence[Path], pattern: str = "") -> tuple[list[TextCase], dict[str, list[str]]]:
    """The cases of programs whose name holds `pattern`, and what of each our own definition does not meet. Invalid: a
    text is wrong, or has no case (case.C6)."""
    wanted = re.compile(pattern)
    found: list[TextCase] = []
    faults: dict[str, list[str]] = {}
    for path in files_of(paths):
        program = read_program(path)
        if not program.cases and not program.claims:
            raise Invalid("the program has no case", where=str(path), label="case.C6")
        text = path.read_text(encoding="utf-8-sig")
        for case in program.cases.values():
            name = f"{path.stem}/{case.name}"
            if wanted.search(name):
                found.append(TextCase(name, _operator(program), text, str(path), case.name))
                faults[name] = [f"{case.where}: {said}" for said in faults_of(program, case)]
        for claim in program.claims.values():
            name = f"{path.stem}/{claim.name}"
            if wanted.search(name):
                faults[name] = [f"{claim.where}: {said}" for said in claim_faults(program, claim)]
    return found, faults


def _operator(program: ProgramText) -> str:
    """The only operator that a program calls."""
    names = {
        n.op.name
        for f in program.module.graphs.values()
        for n in post_order(f)
        if isinstance(n, Call) and not isinstance(n.op, Expr)
    }
    return next(iter(names)) if len(names) == 1 else SEVERAL
