"""Every planted fault is reported, by the definition and by the vector interpreter alike (specs/interp.md,
"Tensor")."""

from __future__ import annotations

from functools import partial
from typing import Any, Literal

import pytest

from assay.interp import tensor, vector
from assay.interp.machine import run as run_machine
from assay.semantics.dtypes import FLOAT32, dtype
from assay.semantics.errors import Span, Trap
from assay.semantics.module import Module, Program, Slot, Step
from assay.semantics.scalar import Expr, Var, const
from assay.semantics.tensor import Allocate, Assert, Buffer, Evaluate, For, If, PrimFunc, Stmt, loops, seq, store
from assay.semantics.text.module_text import parse
from assay.semantics.types import TensorType
from tests.museum.catalogue import is_caught, planted
from tests.museum.faults.sanitizer_faults import INPUTS, X, function, is_complete, parts_of, reported
from tests.museum.planted import PlantedFault
from tests.museum.sanitizer_programs import HEAD, PROGRAMS


def test_there_are_ten_of_each_class() -> None:
    assert all(len(bodies) == len(set(bodies)) == 10 for bodies in PROGRAMS.values()) and len(LIFETIME) == 10


@planted("sanitizer_faults")
def test_a_planted_fault_is_reported(fault: PlantedFault) -> None:
    is_caught(fault)


@pytest.mark.parametrize("way", ["lanes", "straight"])
def test_what_the_fast_ways_say_themselves(way: Literal["lanes", "straight"], monkeypatch: pytest.MonkeyPatch) -> None:
    """Where the definition takes too long to name the trap, the report is theirs."""
    monkeypatch.setattr(vector, "RETRACE", 0)
    same = 0
    for kind, body in ((kind, body) for kind, bodies in PROGRAMS.items() for body in bodies):
        func = function(kind, body)
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
