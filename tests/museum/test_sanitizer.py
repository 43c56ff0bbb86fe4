"""Every planted fault is reported, by the definition and by the vector interpreter alike (specs/interp.md,
"Tensor")."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, Literal

import numpy as np
import pytest

from assay.interp import tensor, vector
from assay.interp.machine import run as run_machine
from assay.semantics.dtypes import FLOAT32, dtype
from assay.semantics.errors import Span, Trap
from assay.semantics.module import Module, Program, Slot, Step
from assay.semantics.scalar import Expr, Var, const
from assay.semantics.tensor import Allocate, Assert, Buffer, Evaluate, For, If, PrimFunc, Stmt, loops, seq, store
from assay.semantics.tensor.rules import check_prim_func
from assay.semantics.text.module_text import parse
from assay.semantics.types import TensorType
from tests.museum.sanitizer_faults import FAULTS, FILL, HEAD

X = np.arange(8, dtype=np.float32)
INPUTS = [X, np.arange(16, dtype=np.float32).reshape(4, 4), np.arange(8, dtype=np.int32)]
CASES = [(kind, k, body) for kind, bodies in FAULTS.items() for k, body in enumerate(bodies)]
NUMBERS = ("division by zero", "shift", "cast")
"""They are reported of the element that the number is computed for, if it is."""
UNFILLED = ("unwritten read", "unwritten output")


def reported(run: Callable[..., Any], func: PrimFunc, inputs: Sequence[Any] = INPUTS) -> Trap:
    with pytest.raises(Trap) as caught:
        run(func, inputs)
    return caught.value


def test_there_are_ten_of_each_class() -> None:
    assert all(len(bodies) == len(set(bodies)) == 10 for bodies in FAULTS.values()) and len(LIFETIME) == 10


@pytest.mark.parametrize(("kind", "k", "body"), CASES, ids=[f"{kind} {k}" for kind, k, _ in CASES])
def test_a_planted_fault_is_reported(kind: str, k: int, body: str) -> None:
    text = HEAD + "".join(f"    {line}\n" for line in ((FILL if kind not in UNFILLED else "") + body).splitlines())
    (func,) = parse(text, "fault.py").kernels.values()
    check_prim_func(func)
    found = reported(tensor.run, func)
    assert found.kind == kind, found
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


@pytest.mark.parametrize("way", ["lanes", "straight"])
def test_what_the_fast_ways_say_themselves(way: Literal["lanes", "straight"], monkeypatch: pytest.MonkeyPatch) -> None:
    """Where the definition takes too long to name the trap, the report is theirs."""
    monkeypatch.setattr(vector, "RETRACE", 0)
    same = 0
    for kind, _, body in CASES:
        text = HEAD + "".join(f"    {line}\n" for line in ((FILL if kind not in UNFILLED else "") + body).splitlines())
        (func,) = parse(text, "fault.py").kernels.values()
        if vector.compile_function(func, INPUTS, (), (way,)).way == way:
            found, defined = reported(partial(vector.run, ways=(way,)), func), reported(tensor.run, func)
            assert found.right and found.message.endswith(f"; {found.right}"), found
            assert found.kind == kind or way == "lanes", found  # lanes of a later iteration may come first
            assert found.label == "tensor.T7" or found.buffer != defined.buffer or found.right == defined.right, (
                found,
                defined,
            )
            same += parts_of(found) == parts_of(defined)
    assert same >= {"lanes": 25, "straight": 60}[way], same


@pytest.mark.parametrize(
    "without",
    [
        {"right": ""},
        {"buffer": ""},
        {"buffer": "x"},
        {"index": None},
        {"index": (3,)},
        {"iteration": ()},
        {"iteration": (("j", 8),)},
    ],
)
def test_a_report_that_leaves_something_out_is_seen(without: dict[str, Any]) -> None:
    text = HEAD + "    for i in range(9):\n        o[i] = x[0]\n"
    (func,) = parse(text, "fault.py").kernels.values()
    found = reported(tensor.run, func)
    assert isinstance(found.where, Span)
    is_complete(found, "out of bounds", text, found.where.line)
    with pytest.raises(AssertionError):
        is_complete(found.but(**without), "out of bounds", text, found.where.line)


def _pieces(words: str) -> list[str]:
    """`o[1] i=2` names an element; the other words stand as they are."""
    found: list[str] = []
    for word in words.split():
        if found and found[-1].count("[") > found[-1].count("]"):
            found[-1] += f" {word}"
        else:
            found.append(word)
    return found


def test_a_condition_that_shares_parts_is_not_written_out() -> None:
    total: Expr = A[0]
    for _ in range(200):
        total = total + total
    func = PrimFunc("f", (A, OUT), 1, seq(FILLED, Assert(total < 0.0, "no")))
    for found in (reported(run, func, [X[:4]]) for run in (tensor.run, vector.run)):
        assert found.right == "the condition must hold"


# --- lifetime: no text can say it, for names end with their scope -------------------------------------------------

A, OUT, GONE = Buffer("x", (4,), FLOAT32), Buffer("out", (4,), FLOAT32), Buffer("gone", (4,), FLOAT32)
V = Var("v")
FILLED = loops("i", (4,), lambda i: store(OUT, i, A[i]))
USE = Evaluate(GONE[0])
WRITE = store(GONE, 0, A[0])


def alive(body: Stmt) -> Stmt:
    return Allocate(GONE, seq(loops("i", (4,), lambda i: store(GONE, i, A[i])), body))


LIFETIME: dict[str, Stmt] = {
    "read, never allocated": USE,
    "written, never allocated": WRITE,
    "read after its end": seq(alive(USE), USE),
    "written after its end": seq(alive(USE), WRITE),
    "read before its beginning": seq(USE, alive(USE)),
    "read in the other branch": If(A[0] > 1.0, alive(USE), USE),
    "read by the next iteration": For(V, const(3), seq(If(V > 0, USE), alive(USE))),
    "read by a parallel loop after its end": seq(alive(USE), For(V, const(4), store(OUT, V, GONE[V]), "parallel")),
    "its element is an index": seq(alive(USE), store(OUT, 0, A[0] + GONE[3])),
    "read as a condition": seq(alive(USE), If(GONE[1] > 0.0, FILLED)),
}


@pytest.mark.parametrize("name", LIFETIME)
def test_use_outside_lifetime(name: str) -> None:
    func = PrimFunc("f", (A, OUT), 1, seq(FILLED, LIFETIME[name]))
    found = reported(tensor.run, func, [X[:4]])
    assert found.kind == "use outside lifetime" and found.buffer == "gone" and found.right, found
    assert [v for v, _ in found.iteration] == (["v"] if "loop" in name or "next iteration" in name else []), found
    assert str(reported(vector.run, func, [X[:4]])) == str(found)


# --- alignment inside a planned program ---------------------------------------------------------------------------


@pytest.mark.parametrize("execute", ["definition", "vector"])
@pytest.mark.parametrize(("offset", "wrong"), [(0, False), (64, False), (32, True), (16, True)])
def test_a_slot_is_aligned_as_its_buffer_says(execute: Any, offset: int, wrong: bool) -> None:
    """The parameter declares 64 bytes; the slot asks for 16 only."""
    x, y = Buffer("x", (4,), FLOAT32), Buffer("y", (4,), FLOAT32, notes={"align": "64"})
    copy = PrimFunc("copy", (x, y), 1, loops("i", (4,), lambda i: store(y, i, x[i])))
    back = PrimFunc("back", (x, OUT), 1, loops("i", (4,), lambda i: store(OUT, i, x[i])))
    of = TensorType((4,), dtype("float32"))
    slots = {
        "a": Slot("a", of, "input", ((0, 2),), 16),
        "t": Slot("t", of, "workspace", ((0, 2),), 16, offset),
        "b": Slot("b", of, "output", ((0, 2),), 16),
    }
    program = Program(
        slots, (Step("copy", ("a",), ("t",)), Step("back", ("t",), ("b",))), ("a",), ("b",), sizes={"workspace": 128}
    )
    module = Module({"copy": copy, "back": back, "main": program})
    given: dict[str, Any] = {"execute": "definition"} if execute == "definition" else {}
    if wrong:
        with pytest.raises(Trap) as caught:
            run_machine(module, {"a": X[:4]}, **given)
        assert caught.value.kind == "misaligned" and "y" in caught.value.message
    else:
        assert (run_machine(module, {"a": X[:4]}, **given)["b"] == X[:4]).all()
