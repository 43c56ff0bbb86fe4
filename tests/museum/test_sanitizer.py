"""Every planted fault is reported, by the definition and by the vector interpreter alike (specs/interp.md, "Tensor")."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest

from assay.interp import tensor, vector
from assay.interp.machine import run as run_machine
from assay.semantics.dtypes import FLOAT32, dtype
from assay.semantics.errors import Span, Trap
from assay.semantics.module import Module, Program, Slot, Step
from assay.semantics.scalar import Var, const
from assay.semantics.tensor import Allocate, Buffer, Evaluate, For, If, PrimFunc, Stmt, loops, seq, store
from assay.semantics.tensor.rules import check_prim_func
from assay.semantics.text.module_text import parse
from assay.semantics.types import TensorType
from tests.museum.sanitizer_faults import FAULTS, FILL, HEAD

X = np.arange(8, dtype=np.float32)
INPUTS = [X, np.arange(16, dtype=np.float32).reshape(4, 4), np.arange(8, dtype=np.int32)]
CASES = [(kind, k, body) for kind, bodies in FAULTS.items() for k, body in enumerate(bodies)]
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
    assert (again.kind, str(again)) == (found.kind, str(found))
    lines = text.splitlines()
    marked = next(n for n, line in enumerate(lines, 1) if "# here" in line or "# before" in line)
    line = lines[marked - 1]
    words = line.split("# here" if "# here" in line else "# before")[1]
    if kind == "unwritten output":  # of the whole function
        assert found.where == "f"
    elif "# here" in line:
        assert isinstance(found.where, Span) and found.where.line == marked, found
    head, _, iteration = words.strip().partition("i=")
    parts = [*_pieces(head), *([f"i={iteration}"] if iteration else [])]
    assert all(p in found.message for p in parts), (parts, found.message)


def _pieces(words: str) -> list[str]:
    """`o[1] i=2` names an element; the other words stand as they are."""
    found: list[str] = []
    for word in words.split():
        if found and found[-1].count("[") > found[-1].count("]"):
            found[-1] += f" {word}"
        else:
            found.append(word)
    return found


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
    assert found.kind == "use outside lifetime" and "gone" in found.message
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
    program = Program(slots, (Step("copy", ("a",), ("t",)), Step("back", ("t",), ("b",))), ("a",), ("b",), sizes={"workspace": 128})
    module = Module({"copy": copy, "back": back, "main": program})
    given: dict[str, Any] = {"execute": "definition"} if execute == "definition" else {}
    if wrong:
        with pytest.raises(Trap) as caught:
            run_machine(module, {"a": X[:4]}, **given)
        assert caught.value.kind == "misaligned" and "y" in caught.value.message
    else:
        assert (run_machine(module, {"a": X[:4]}, **given)["b"] == X[:4]).all()
