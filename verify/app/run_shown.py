"""What is told of a run: lines on the terminal, or plain data for `--json` (specs/verify.md, "Command line")."""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from assay.interp.values import Cell, Closure, CodeClosure, Data, External, Maker, Shape, Value, described, render
from assay.semantics.bits import quiet
from assay.semantics.dtypes import dtype
from assay.semantics.errors import Invalid
from assay.semantics.walk import Worklist
from assay.verify.app.program_run import ProgramRun, by_name
from assay.verify.app.size_choice import told_failing
from assay.verify.app.terminal import Screen
from assay.verify.border.values import from_value, to_arrays
from assay.verify.trials.sizes import Sizes

Array = np.ndarray[Any, Any]


def run_lines(done: ProgramRun) -> Iterator[str]:
    """What is printed of a run: inputs, effects in order, results."""
    for name, value in done.inputs.items():
        yield f"{name} = {headline(value)}"
    for event in done.trace:
        if event.kind == "print":
            yield f"print: {render(event.name, event.values)}"
        else:
            yield f"call {event.name}: {render('', event.values)}"
    for name, value in done.results.items():
        yield f"{name}: {headline(value)}"
        yield from (f"    {line}" for line in body(value))


def tell_run(done: ProgramRun, out: Screen) -> None:
    """Print what a run showed; raises its trap, which is told after what came before it."""
    if said := sizes_told(done):
        Screen(stderr=True).print(f"assay: {said}")
    for line in run_lines(done):
        out.print(line)
    if done.trap is not None:
        raise done.trap


def sizes_told(done: ProgramRun) -> str:
    """Which sizes were chosen, or that none fits; "" where there was nothing to choose."""
    if done.failing:
        return f"at none of the sizes tried does it run: {told_failing(done.failing)}; the first of these runs:"
    if not done.chosen:
        return ""
    sizes = ", ".join(f"{name} = {n}" for name, n in done.chosen.items())
    far = "comes to its first call of an extern" if done.stopped else "runs"
    said = f"sizes chosen: {sizes}, the first tried at which it {far}; others with --dim"
    if done.redrawn:
        said += f"; the inputs are those of --seed {done.seed}, the first on which what it asserts holds"
    return said


def headline(value: Value) -> str:
    """The type of a value; for a tensor the digest of its bytes too."""
    match value:
        case np.ndarray() | np.generic():
            array = np.asarray(value)
            return f"Tensor({tuple(array.shape)}, {element_type(array)}) {digest(array)[:16]}"
        case tuple():
            return f"a tuple of {len(value)}"
        case Shape():
            return f"Shape{tuple(value.dims)}"
        case _:
            return kind(value)


def kind(value: Value) -> str:
    """What a value is, in a few words for a message."""
    match value:
        case Closure() | CodeClosure() | External() | Maker():
            return "a function"
        case Cell():
            return "a reference"
        case Data():
            return f"a {value.type}"
        case _:
            return described(value)


def body(root: Value) -> Iterator[str]:
    """The numbers of a value, long ones abbreviated; the parts of tuples, data and references one after another."""
    work = Worklist[tuple[str, Value, int]]([("", root, 0)])
    for shown, (head, value, depth) in enumerate(work, 1):
        pad = "  " * depth
        if shown > 200:
            yield f"{pad}..."
            return
        if head:
            yield f"{pad}{head}{headline(value)}"
        match value:
            case np.ndarray() | np.generic():
                array = np.asarray(value)
                text = np.array2string(array, threshold=32, edgeitems=3, separator=", ", max_line_width=100)
                yield from (pad + line for line in text.splitlines())
            case tuple():
                work.add((f".{i}: ", v, depth + 1) for i, v in enumerate(value))
            case Data():
                yield f"{pad}{value.constructor}"
                work.add((f".{i}: ", v, depth + 1) for i, v in enumerate(value.fields))
            case Cell():
                work.add([("holds ", value.value, depth + 1)])
            case _:
                pass


# --- as data -----------------------------------------------------------------------------------------------------

MOST_VALUES = 64
"""A tensor of no more elements is written with them."""


def answer_run(done: ProgramRun, answer: dict[str, Any]) -> None:
    """Add what a run showed to the answer of its command; raises its trap."""
    answer.update(run_data(done))
    answer["holds"] = done.trap is None
    if done.trap is not None:
        raise done.trap


def run_data(done: ProgramRun) -> dict[str, Any]:
    """A run by stable keys. Values are by the names that they have in files; a number that JSON does not have is a
    text, such as "inf"."""
    return {
        "function": done.name,
        "sizes": dict(done.sizes),
        "chosen": list(done.chosen),
        "drawn": done.seed,
        **({"failing": [_failing(why, points) for why, points in done.failing.items()]} if done.failing else {}),
        "inputs": list(_values(done, done.inputs)),
        "effects": [
            {"kind": "print", "text": render(e.name, e.values)}
            if e.kind == "print"
            else {"kind": "call", "name": e.name, "text": render("", e.values)}
            for e in done.trace
        ],
        "outputs": list(_values(done, done.results)),
        **({"trap": done.trap.kind} if done.trap is not None else {}),
    }


def _failing(why: str, points: Sequence[Sizes]) -> dict[str, Any]:
    return {"why": why, "sizes": [by_name(p) for p in points]}


def _values(done: ProgramRun, values: Mapping[str, Value]) -> Iterator[dict[str, Any]]:
    for name, value in values.items():
        try:
            arrays = to_arrays({name: from_value(value, done.module)})
        except Invalid:  # it has no form as arrays
            yield {"name": name, "kind": kind(value), "text": [headline(value), *body(value)]}
            continue
        yield from (tensor_data(n, a) for n, a in arrays.items())


def tensor_data(name: str, array: Array) -> dict[str, Any]:
    """A tensor: its elements too, if they are few."""
    found = {"name": name, "dtype": element_type(array), "shape": list(array.shape), "digest": digest(array)}
    if array.size <= MOST_VALUES:
        elements = np.empty(array.size, object)
        elements[:] = [_in_json(v) for v in array.reshape(-1)]
        found["values"] = elements.reshape(array.shape).tolist()
    return found


def _in_json(element: Any) -> Any:
    if isinstance(element, str | np.bool_):
        return element if isinstance(element, str) else bool(element)
    number = float(element) if dtype(element.dtype).is_float else int(element)
    return number if math.isfinite(number) else str(number)


def element_type(array: Array) -> str:
    """What the elements of an array are called."""
    return "string" if array.dtype.kind == "O" else str(dtype(array.dtype))


def digest(array: Array) -> str:
    """SHA-256 of the elements: of their bytes in row-major order, or of strings as JSON. Every NaN
    is one (rule M5.5)."""
    if array.dtype.kind == "O":
        return hashlib.sha256(json.dumps(array.tolist()).encode()).hexdigest()
    said = quiet(array) if dtype(array.dtype).is_float else array
    return hashlib.sha256(np.ascontiguousarray(said).tobytes()).hexdigest()
