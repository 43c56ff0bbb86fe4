"""`assay reduce` (specs/verify.md, "Command line")."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx

from assay.semantics.errors import Invalid, Unsupported
from assay.verify.app.terminal import Screen
from assay.verify.backends import Backend, subject_of_model
from assay.verify.backends.protocol import OUTCOMES
from assay.verify.evidence import plural
from assay.verify.exits import Exit
from assay.verify.oracle import Oracle
from assay.verify.oracle.data import KINDS, Kind
from assay.verify.reduce import ReducedCase, reduce
from assay.verify.reduce.finding import SOUGHT, CaseFinding, first_finding, shows
from assay.verify.reduce.standalone import make_directory, write_standalone

Array = np.ndarray[Any, Any]
USUAL: tuple[Kind, ...] = ("random", *(k for k in KINDS if k != "random"))
"""The kinds of data in the order in which they are tried."""


def reduce_model(
    model: onnx.ModelProto, backend: Backend, given: Mapping[str, Array], dims: Mapping[str, int], seed: int,
    limit: int,
    output: Path, console: Screen, *, kinds: Sequence[Kind] = USUAL, sought: Sequence[str] = SOUGHT, name: str = "",
    said: dict[str, Any] | None = None,
) -> int:  # fmt: skip
    """Find what is wrong, make it smaller, write the test, and say what was found: the exit code. Interrupted, it
    writes the smallest case so far. Inputs that are not given are of these `kinds`. What is open is looked for last,
    where it is `sought`: nothing is wrong then. What was found is put to `said` by stable keys too."""
    told: dict[str, Any] = {} if said is None else said
    make_directory(output)  # before the work begins
    subject = subject_of_model(model, dims)
    model = with_sizes(model, dims)  # what is made of it is imported again and again
    oracle = Oracle(subject.module, subject.tensors, seed)
    others: dict[str, dict[str, Array]] = {kind: oracle.inputs(kind, given=given) for kind in kinds}
    seen: list[str] = []
    try:
        begin = ReducedCase(model, others.pop(kinds[0]))
        grave = [w for w in sought if w != "open"]
        first = first_finding(begin, backend, others, seen, grave)
        if first is None and "open" in seen and "open" in sought:
            first = first_finding(begin, backend, others, None, ("open",))
    except Unsupported as wrong:
        if wrong.label not in OUTCOMES:
            raise
        console.print(f"refused: {wrong.message}")
        return _told(told, "refused", wrong.message, Exit.UNDECIDED)
    if first is None:
        counted = ", ".join(f"{n} {outcome}" for outcome, n in Counter(seen).items())
        line = f"{backend.name} is not wrong on these inputs: nothing to reduce ({counted})"
        console.print(line)
        return _told(told, "not wrong", line, Exit.HOLDS if {"right", "open"} & set(seen) else Exit.UNDECIDED)
    case, found = first
    before = case.size
    console.print(_line(found, case))
    smallest = case

    def progress(step: str, tries: int, now: ReducedCase) -> None:
        nonlocal smallest
        smallest = now
        status.update(f"{step}, {plural(tries, 'attempt')}: {_size(now)}")

    with console.status("reducing") as status:
        try:
            smallest = reduce(case, shows(backend, found), limit, progress)
        except KeyboardInterrupt:
            told["interrupted"] = True
            console.print("interrupted: this is the smallest case so far")
    again = first_finding(smallest, backend, {}, None, (found.kind,))
    if again is None:
        raise Invalid(
            f"{backend.name} does not do the same twice on the same inputs: nothing can be said of it",
            label="reduce.C2",
        )
    path = write_standalone(
        output, re.sub(r"\W+", "_", name) or _name(smallest, backend.name), smallest, backend.name, again[1]
    )
    console.print(f"{_sizes(before)} -> {_sizes(smallest.size)}: {path}")
    console.print(again[1].said)
    told.update(file=str(path), before=_counted(before), after=_counted(smallest.size))
    return _told(told, found.kind, again[1].said, Exit.HOLDS if found.kind == "open" else Exit.WRONG)


def _told(told: dict[str, Any], outcome: str, detail: str, code: Exit) -> Exit:
    """The code, put with what came of the case to what is told of it."""
    told.update(outcome=outcome, detail=detail, exit=int(code))
    return code


def _counted(size: tuple[int, int, int]) -> dict[str, int]:
    return dict(zip(("operators", "attributes", "elements"), size, strict=True))


def with_sizes(model: onnx.ModelProto, dims: Mapping[str, int]) -> onnx.ModelProto:
    """The model with numbers for symbolic dims, which are called as `import_onnx` calls them."""
    made = onnx.ModelProto()
    made.CopyFrom(model)
    for info in (*made.graph.input, *made.graph.output, *made.graph.value_info):
        for axis, dim in enumerate(info.type.tensor_type.shape.dim if info.type.HasField("tensor_type") else ()):
            name = dim.dim_param or f"{info.name}_{axis}"
            if not dim.HasField("dim_value") and name in dims:
                dim.dim_value = dims[name]
    return made


def _line(found: CaseFinding, case: ReducedCase) -> str:
    return f"{found.kind}: {found.said} ({_size(case)})"


def _size(case: ReducedCase) -> str:
    return _sizes(case.size)


def _sizes(size: tuple[int, int, int]) -> str:
    operators, attributes, elements = size
    return f"{plural(operators, 'operator')}, {plural(attributes, 'attribute')}, {plural(elements, 'element')}"


def _name(case: ReducedCase, backend: str) -> str:
    operators = "_".join(dict.fromkeys(n.op_type.lower() for n in case.nodes))
    return re.sub(r"\W+", "_", f"{backend}_{operators}")[:60].strip("_")
