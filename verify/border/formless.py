"""Results that no file holds as they are: data values, references and functions, by their parts (specs/verify.md,
"compare")."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from assay.interp.values import Cell, Closure, CodeClosure, Data, External, Maker, Shape, Value, contents
from assay.semantics.errors import Invalid
from assay.semantics.module import Module
from assay.semantics.walk import Worklist
from assay.verify.border.values import from_value, to_arrays

Array = np.ndarray[Any, Any]
FUNCTIONS = (Closure, CodeClosure, External, Maker)
TUPLE, DATA, CELL, SAME_CELL, FUNCTION, TENSOR = range(6)
"""What a part of a value is, in the array that says what its parts are."""


def outside(value: Value, module: Module) -> Any:
    """A result as callers know it, or, where it has no such form, as it is."""
    try:
        return from_value(value, module)
    except Invalid as wrong:
        if wrong.label != "values.C2":
            raise
        return value


def arrays_of(values: Mapping[str, Any], module: Module) -> dict[str, Array]:
    """Results, as `outside` gives them, as named arrays. What has no form stands in parts: the tensors of `x`, in
    order, are `x.0`, `x.1` and so on, and `x.form` says of each part what it is, with a number: how many fields a tuple
    has, which constructor made a data value, which reference it is. Nothing is told of functions."""
    found: dict[str, Array] = {}
    for name, value in values.items():
        found.update(_by_parts(name, value, module) if is_formless(value) else to_arrays({name: value}))
    return found


def is_formless(value: Any) -> bool:
    """Whether what `outside` gives is not in the form that callers know."""
    work = Worklist([value])
    for v in work:
        if isinstance(v, (Cell, Data, *FUNCTIONS)):
            return True
        if isinstance(v, tuple | list):
            work.add(v)
    return False


def functions_in(values: Mapping[str, Any]) -> list[str]:
    """The results that are or hold functions."""
    return [n for n, v in values.items() if is_formless(v) and any(isinstance(p, FUNCTIONS) for p, _ in _parts(v))]


def _parts(root: Value) -> Iterator[tuple[Value, int]]:
    """Every part of a value, wholes first, left to right; with the number of a reference, -1 where it is met first."""
    cells: dict[int, int] = {}
    work = Worklist[Value]([root])
    for value in work:
        if not isinstance(value, Cell):
            yield value, -1
            work.add(contents(value))
            continue
        known = cells.get(id(value))
        if known is None:
            cells[id(value)] = len(cells)
            work.add(contents(value))
        yield value, -1 if known is None else known


def _by_parts(name: str, root: Value, module: Module) -> dict[str, Array]:
    form: list[int] = []
    found: dict[str, Array] = {}
    for value, cell in _parts(root):
        match value:
            case tuple():
                form += [TUPLE, len(value)]
            case Data():
                form += [DATA, list(module.data(value.type).constructors).index(value.constructor)]
            case Cell():
                form += [SAME_CELL, cell] if cell >= 0 else [CELL, 0]
            case _ if isinstance(value, FUNCTIONS):
                form += [FUNCTION, 0]
            case _:
                form += [TENSOR, 0]
                held = value.dims if isinstance(value, Shape) else value
                found[f"{name}.{len(found)}"] = np.asarray(held, np.int64 if isinstance(value, Shape) else None)
    return {**found, f"{name}.form": np.array(form, np.int64)}
