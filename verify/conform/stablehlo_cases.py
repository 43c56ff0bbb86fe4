"""StableHLO files that hold their own comparisons, as cases (specs/verify.md, "Conformance").

    assay conform DIR        # FILE.mlir, or a directory of them

A file's `check` operations are assertions of the program, so a case is as expected where a run ends without a trap. A
function that takes inputs is run on drawn ones: each open size is 3, and so is each scalar whole number, which is such
a size where JAX wrote the text. What compares nothing and runs says so.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, TypeAlias

import numpy as np

from assay.interp.graph import run
from assay.lower.frontends.stablehlo import stablehlo_modules
from assay.semantics import graph
from assay.semantics.errors import BudgetSpent, Invalid, Trap, Unsupported
from assay.semantics.module import Module
from assay.semantics.text.source import Source
from assay.semantics.types import TensorType
from assay.semantics.walk import post_order
from assay.verify.app.answers import answering, write_answer
from assay.verify.app.junit import TestCase, write_junit
from assay.verify.app.terminal import Screen
from assay.verify.app.text_run import STABLEHLO
from assay.verify.evidence import plural
from assay.verify.exits import Exit

Outcome: TypeAlias = Literal["as expected", "runs", "not handled", "wrong"]
OUTCOMES: tuple[Outcome, ...] = ("as expected", "runs", "not handled", "wrong")
"""What comes of a file: its comparisons hold; it compares nothing, and is read and run; a part of it has no meaning
here; a comparison does not hold, a run fails, or the text is wrong."""
SIZE = 3
"""Every size that a file leaves open."""


@dataclass(frozen=True)
class FileResult:
    """What came of a file: the gravest outcome of its modules, and why."""

    file: str
    outcome: Outcome
    reasons: tuple[str, ...] = ()
    modules: int = 0
    good: int = 0
    """How many of its modules are as expected, or run."""


def stablehlo_files(paths: Sequence[Path]) -> list[Path]:
    """The StableHLO files among these paths and in these directories; none where one is another kind of program."""
    found: list[Path] = []
    for path in paths:
        inside = sorted(p for p in path.rglob("*") if p.suffix in STABLEHLO) if path.is_dir() else [path]
        if not inside or (path.is_dir() and any(path.rglob("*.py"))) or inside[0].suffix not in STABLEHLO:
            return []
        found += inside
    return found


def checked_file(path: Path, name: str) -> FileResult:
    """Run every function of every module of a file; of a module that has a main that one alone."""
    found: list[tuple[Outcome, str]] = []
    try:
        modules = stablehlo_modules(Source.read(path).text, name)
    except Unsupported as wrong:
        return FileResult(name, "not handled", (_said(wrong),))
    except Invalid as wrong:
        return FileResult(name, "wrong", (_said(wrong),))
    for _, make in modules:
        found.append(checked_module(make))
    worst = max(found, key=lambda f: OUTCOMES.index(f[0]), default=("wrong", "no module"))
    if worst[0] == "runs" and any(f[0] == "as expected" for f in found):
        worst = ("as expected", "")
    reasons = tuple(dict.fromkeys(why for outcome, why in found if outcome == worst[0] and why))
    return FileResult(name, worst[0], reasons, len(found), sum(f[0] in ("as expected", "runs") for f in found))


def checked_module(make: Any) -> tuple[Outcome, str]:
    """What came of a module, and why."""
    try:
        module: Module = make()
    except Unsupported as wrong:
        return "not handled", _said(wrong)
    except Invalid as wrong:
        return "wrong", _said(wrong)
    entries = [module.main] if "main" in module.definitions else list(module.graphs.values())
    compares = any(isinstance(n, graph.AssertOp) for f in module.graphs.values() for n in post_order(f))
    try:
        for entry in entries:
            run(module, drawn_inputs(entry), entry=entry)
    except (Trap, Invalid, BudgetSpent) as wrong:
        return "wrong", str(wrong).split("\n")[0]
    return ("as expected" if compares else "runs"), ""


def drawn_inputs(function: graph.Function) -> dict[str, Any]:
    """Inputs of a function, the same each time."""
    rng = np.random.default_rng(0)
    made: dict[str, Any] = {}
    for p in function.params:
        of = p.type
        if not isinstance(of, TensorType):
            raise Invalid(f"the parameter {p.name} is {of}; tensors are drawn", label="stablehlo.C7")
        shape = [d if isinstance(d, int) else SIZE for d in of.shape]
        if of.dtype.is_integer and not shape:
            value = np.asarray(SIZE)
        else:
            value = rng.standard_normal(shape) if of.dtype.is_float else rng.integers(0, 2, shape)
        made[p.name] = np.asarray(value).astype(of.dtype.numpy)
    return made


def _said(wrong: Invalid) -> str:
    """The message in one line, without the place."""
    return re.sub(r"^\S+:\d+:\d+: ", "", wrong.message.split("\n")[0]) + (f" [{wrong.label}]" if wrong.label else "")


def checked_files(paths: Sequence[Path], pattern: str = "") -> Iterator[FileResult]:
    """What came of each file whose name this expression finds."""
    for path in paths:
        name = f"{path.parent.name}/{path.name}" if path.parent.name else path.name
        if re.search(pattern, name):
            yield checked_file(path, name)


def conform_stablehlo(paths: Sequence[Path], pattern: str, junit: Path | None, out: Screen, as_json: bool) -> Exit:
    """Run the files, and show what came of them; the exit code. Invalid (conform.C1): there is none."""
    answer: dict[str, Any] = {}
    with answering(answer):
        results = list(checked_files(paths, pattern))
        if not results:
            raise Invalid(f"there is no file whose name has {pattern}", label="conform.C1")
    counts = Counter(r.outcome for r in results)
    code = Exit.WRONG if counts["wrong"] else Exit.UNDECIDED if counts["not handled"] else Exit.HOLDS
    if junit is not None:
        kinds = {"wrong": "refuted", "not handled": "not judged"}
        tests = (
            TestCase("assay.definition", r.file, kinds.get(r.outcome, "right"), "; ".join(r.reasons)) for r in results
        )
        write_junit(junit, "assay conform", tests)
    if as_json:
        holds = True if code is Exit.HOLDS else False if code is Exit.WRONG else None
        files = [{"file": r.file, "outcome": r.outcome, "reasons": list(r.reasons)} for r in results]
        write_answer({"holds": holds, "exit": code, "counts": counts_of(results), "files": files})
        return code
    for r in results:
        if r.outcome in ("wrong", "not handled"):
            part = f" ({r.good} of its {r.modules} modules pass)" if r.modules > 1 else ""
            out.print(f"{r.outcome}  {r.file}{part}: {'; '.join(r.reasons)}")
    out.print(counts_told(results))
    return code


def counts_of(results: Sequence[FileResult]) -> Mapping[str, int]:
    """How many files have each outcome."""
    counts = Counter(r.outcome for r in results)
    return {o: counts[o] for o in OUTCOMES}


def counts_told(results: Sequence[FileResult]) -> str:
    """The counts in words."""
    counts = counts_of(results)
    passed = counts["as expected"] + counts["runs"]
    return (
        f"our definition passes {passed:,} of {plural(len(results), 'file')}: {counts['as expected']:,} meet their own"
        f" comparisons, {counts['runs']:,} compare nothing, and are read and run; {counts['not handled']:,} are not"
        f" handled, {counts['wrong']:,} wrong"
    )
