"""Writes a program with its cases (specs/verify.md, "Programs with cases"). Reading it again gives the same program,
and writing that the same text."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from assay.interp.values import Shape
from assay.semantics.dtypes import DType, dtype
from assay.semantics.tasks import Task, run_task
from assay.semantics.text.graph.names import double_quoted
from assay.semantics.text.module_text import show as show_module
from assay.verify.conform.programs import Likeness, ProgramCase, ProgramText, RefusedText

Array = np.ndarray[Any, Any]

LONGEST = 8
"""A tensor of more elements is written in a short form where it has one."""
INDENT = "    "


def show_program(program: ProgramText) -> str:
    """The program as text."""
    title = f"{_title(program.title)}\n\n" if program.title else ""
    cases = "".join(f"\n\n{show_case(case)}" for case in program.cases.values())
    claims = "".join(f"\n\n{show_claim(claim)}" for claim in program.claims.values())
    return title + show_module(program.module) + cases + claims


def _title(text: str) -> str:
    body = text.replace("\\", "\\\\").replace('"""', '\\"\\"\\"')
    return f'"""{body}\n"""' if "\n" in body or body.endswith('"') else f'"""{body}"""'


def show_case(case: ProgramCase) -> str:
    """A case as text."""
    expected = case.expected
    lines = ["A.case(", f"{INDENT}{double_quoted(case.name)},", *_entries("inputs", case.inputs, {}, frozenset())]
    if expected.trap:
        says = f", says={double_quoted(expected.says)}" if expected.says else ""
        lines.append(f"{INDENT}expect=A.trap({double_quoted(expected.trap)}{says}),")
    elif expected.invalid:
        lines.append(f"{INDENT}expect=A.invalid({double_quoted(expected.invalid)}),")
    elif expected.unpredictable:
        lines.append(f"{INDENT}expect=A.unpredictable(),")
    else:
        results = _entries("expect", expected.results, expected.open, expected.within)
        if expected.refuted:
            results[0] = results[0].replace("expect={", "expect=A.wrong({", 1)
            results[-1] = results[-1].replace("}", "})")
        lines += results
    if case.meaning:
        lines.append(f"{INDENT}meaning=True,")
    for name, text in (("function", case.function), ("source", case.source), ("rules", " ".join(case.rules))):
        if text:
            lines.append(f"{INDENT}{name}={double_quoted(text)},")
    if case.prints is not None:
        lines.append(f"{INDENT}prints=[{', '.join(map(double_quoted, case.prints))}],")
    if case.externs:
        given = ", ".join(f"{double_quoted(n)}: {double_quoted(by)}" for n, by in case.externs.items())
        lines.append(f"{INDENT}externs={{{given}}},")
    if case.offsets:
        places = ", ".join(f"{double_quoted(n)}: {at}" for n, at in case.offsets.items())
        lines.append(f"{INDENT}offsets={{{places}}},")
    return "\n".join([*lines, ")", ""])


def show_claim(claim: RefusedText | Likeness) -> str:
    """A claim as text."""
    match claim:
        case RefusedText():
            body = claim.text.replace("\\", "\\\\").replace('"""', '\\"\\"\\"')
            lines = ["A.refused(", f"{INDENT}{double_quoted(claim.name)},", f'{INDENT}"""{body}""",']
            more = {"label": claim.label, "stage": " ".join(claim.stages)}
        case Likeness():
            names = ", ".join(map(double_quoted, (claim.name, claim.function, claim.other)))
            lines = [f"A.{'same' if claim.equal else 'differs'}(", f"{INDENT}{names},"]
            more = {"after": " ".join(claim.after)}
    more |= {"devices": claim.devices, "source": claim.source, "rules": " ".join(claim.rules)}
    lines += [f"{INDENT}{name}={double_quoted(text)}," for name, text in more.items() if text]
    return "\n".join([*lines, ")", ""])


def _entries(what: str, values: Mapping[str, Any], is_open: Mapping[str, Array], within: frozenset[str]) -> list[str]:
    if not values:
        return [f"{INDENT}{what}={{}},"]
    lines = [f"{INDENT}{what}={{"]
    for name, value in values.items():
        text = run_task(_value(value, name, is_open))
        text = f"A.within({text})" if name in within else text
        lines.append(f"{INDENT}{INDENT}{double_quoted(name)}: {text},")
    return [*lines, f"{INDENT}}},"]


def _value(value: Any, path: str, is_open: Mapping[str, Array]) -> Task[str]:
    match value:
        case None:
            return "None"
        case Shape():
            return str(list(value.dims))
        case tuple() if all(type(v) is int for v in value) and value:
            return str(list(value))  # a shape
        case tuple() | list():
            parts: list[str] = []
            for i, v in enumerate(value):
                parts.append((yield _value(v, f"{path}.{i}", is_open)))
            inside = ", ".join(parts)
            return f"[{inside}]" if isinstance(value, list) else f"({inside}{',' if len(parts) == 1 else ''})"
        case _:
            array = np.asarray(value)
            return _tensor(array, is_open.get(path, np.zeros(array.shape, bool)))


def _tensor(array: Array, mask: Array) -> str:
    of = dtype(array.dtype)
    if array.size == 0:
        if 0 in array.shape[:-1]:
            return f"A.full({_shape(array)}, {number_text(np.zeros((), of.numpy)[()], of)})"
        return _nested([], array.shape)
    if array.size > LONGEST and (short := _short(array, mask, of)) is not None:
        return short
    flat = ["A.open" if m else number_text(x, of) for x, m in zip(array.reshape(-1), mask.reshape(-1), strict=True)]
    return _nested(flat, array.shape)


def _short(array: Array, mask: Array, of: DType) -> str | None:
    """A.full or A.arange where that is the tensor."""
    if mask.any():
        return f"A.full({_shape(array)}, A.open)" if mask.all() else None
    flat = array.reshape(-1)
    first = number_text(flat[0], of)
    if len({number_text(x, of) for x in flat}) == 1:
        return f"A.full({_shape(array)}, {first})"
    if not of.is_integer:
        return None
    whole = [int(x) for x in flat]
    step = whole[1] - whole[0]
    if any(b - a != step for a, b in zip(whole, whole[1:], strict=False)):
        return None
    more = f", {first}, {step}" if step != 1 else f", {first}" if whole[0] else ""
    return f"A.arange({_shape(array)}{more})"


def _shape(array: Array) -> str:
    return str(tuple(array.shape))


def _nested(flat: list[str], shape: tuple[int, ...]) -> str:
    """Texts in lists of that shape, in which no axis but the last is empty."""
    if not shape:
        return flat[0]
    rows = [flat[i : i + shape[-1]] for i in range(0, len(flat), shape[-1] or 1)] if shape[-1] else None
    count = int(np.prod(shape[:-1]))
    items = [f"[{', '.join(row)}]" for row in rows] if rows is not None else ["[]"] * count
    for size in reversed(shape[:-1]):
        items = [f"[{', '.join(items[i : i + size])}]" for i in range(0, len(items), size)]
    return items[0]


def number_text(x: Any, of: DType) -> str:
    """A number in the shortest text that is read as it."""
    if of.kind == "bool":
        return str(bool(x))
    if of.is_integer:
        return str(int(x))
    value = float(x)
    if value != value or abs(value) == np.inf:
        return str(value)
    return str(x) if of.name in ("float32", "float16") else repr(value)
