"""Programs that trap, by kind: what the sanitizer must report of each (rule M7; specs/interp.md, "Tensor").

The definition and the vector interpreter must say the same of it.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest

from assay.interp import tensor, vector
from assay.semantics.errors import Span, Trap
from assay.semantics.tensor import PrimFunc
from assay.semantics.tensor.rules import check_prim_func
from assay.semantics.text.module_text import parse
from tests.museum.planted import Judge, PlantedFault, size
from tests.museum.sanitizer_programs import FILL, HEAD, PROGRAMS

X = np.arange(8, dtype=np.float32)
INPUTS = [X, np.arange(16, dtype=np.float32).reshape(4, 4), np.arange(8, dtype=np.int32)]
NUMBERS = ("division by zero", "shift", "cast")
"""They are reported of the element that the number is computed for, if it is."""
LABELS = {
    "carried dependence": ("tensor.T9",),
    "undeclared access": ("tensor.T10",),
}
"""The rule that each program of a kind breaks, where it is one."""
UNFILLED = ("unwritten read", "unwritten output")


def reported(run: Callable[..., Any], func: PrimFunc, inputs: Sequence[Any] = INPUTS) -> Trap:
    with pytest.raises(Trap) as caught:
        run(func, inputs)
    return caught.value


def is_complete(found: Trap, kind: str, text: str, line: int) -> None:
    """A report has everything that there is to be said: buffer, index, iteration, and what would have been right."""
    assert found.right and found.message.endswith(f"; {found.right}"), found
    whole = kind in ("misaligned", "shape") or found.label in ("tensor.T12", "tensor.T14")
    if kind in NUMBERS:
        target = re.match(r" *(\w+)\[", text.splitlines()[line - 1])
        assert found.buffer == (target[1] if target else ""), found
    else:
        assert found.buffer and re.search(rf"\b{found.buffer}\b", found.message), found
        assert found.index is not None or whole, found
    if found.index is not None:
        assert f"{found.buffer}[{', '.join(map(str, found.index))}]" in found.message, found
    assert [v for v, _ in found.iteration] == loops_around(text, line), found
    shown = ", ".join(f"{v}={n}" for v, n in found.iteration)
    assert not shown or f", in iteration {shown}; " in found.message, found


def loops_around(text: str, line: int) -> list[str]:
    """The variables of the `for` statements around a line of a text, outermost first."""
    lines, found = text.splitlines()[:line], list[str]()
    depth = len(lines[-1]) - len(lines[-1].lstrip()) if lines else 0
    for before in reversed(lines):
        inside = len(before) - len(before.lstrip())
        if inside < depth:
            depth = inside
            loop = re.match(r" *for ([\w, ]+) in ", before)
            found = [*(loop[1].split(", ") if loop else []), *found]
    return found


def parts_of(trap: Trap) -> tuple[Any, ...]:
    return trap.what, trap.right, trap.buffer, trap.index, trap.iteration, trap.where


def _pieces(words: str) -> list[str]:
    """`o[1] i=2` names an element; the other words stand as they are."""
    found: list[str] = []
    for word in words.split():
        if found and found[-1].count("[") > found[-1].count("]"):
            found[-1] += f" {word}"
        else:
            found.append(word)
    return found


def text_of(kind: str, body: str) -> str:
    """The whole text of a program."""
    return HEAD + "".join(f"    {line}\n" for line in ((FILL if kind not in UNFILLED else "") + body).splitlines())


def function(kind: str, body: str) -> PrimFunc:
    (func,) = parse(text_of(kind, body), "fault.py").kernels.values()
    return func


def is_reported(kind: str, body: str) -> None:
    """Both interpreters report the fault, completely, at the line that is marked."""
    text, func = text_of(kind, body), function(kind, body)
    check_prim_func(func)
    found = reported(tensor.run, func)
    assert found.kind == kind and found.label in LABELS.get(kind, (found.label,)), found
    again = reported(vector.run, func)
    assert (again.kind, str(again), parts_of(again)) == (found.kind, str(found), parts_of(found))
    lines = text.splitlines()
    marked = next(n for n, line in enumerate(lines, 1) if "# here" in line or "# before" in line)
    line = lines[marked - 1]
    words = line.split("# here" if "# here" in line else "# before")[1]
    if kind == "unwritten output":  # of the whole function
        assert found.where == "f"
    elif "# here" in line:
        assert isinstance(found.where, Span) and found.where.line == marked, found
    else:
        assert isinstance(found.where, Span) and found.where.line < marked, found
    head, _, iteration = words.strip().partition("i=")
    parts = [*_pieces(head), *([f"i={iteration}"] if iteration else [])]
    assert all(p in found.message for p in parts), (parts, found.message)
    is_complete(found, kind, text, found.where.line if isinstance(found.where, Span) else 0)


def traps(kind: str) -> Judge:
    """All ten programs of a kind trap with it."""

    def judge(source: list[PrimFunc], made: list[str]) -> str | None:
        for body in made:
            is_reported(kind, body)
        return f"trap: {kind}"

    return judge


def sizes(source: list[PrimFunc], made: list[str]) -> str:
    counts = [int(size(func).split()[0]) for func in source]
    return f"{min(counts)} to {max(counts)} statements"


def fault(kind: str, bodies: list[str]) -> PlantedFault:
    return PlantedFault(
        f"{kind}, ten programs",
        f"trap: {kind}",
        (traps(kind),),
        lambda: [function(kind, body) for body in bodies],
        lambda _: bodies,
        size=sizes,
    )


FAULTS: tuple[PlantedFault, ...] = tuple(fault(kind, bodies) for kind, bodies in PROGRAMS.items())
