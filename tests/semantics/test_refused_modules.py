"""Rules of modules that no text breaks, for its reader sees to them: each is broken by hand and named by its label."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from assay.interp.graph import engines
from assay.semantics import graph
from assay.semantics.alias import origins
from assay.semantics.builder.prelude import prelude_function, with_prelude
from assay.semantics.dtypes import FLOAT32
from assay.semantics.errors import AssayError
from assay.semantics.graph import call, call_tir, constant, function, let, var
from assay.semantics.module import Module, Program, Step
from assay.semantics.rules import check
from assay.semantics.store import decode
from assay.semantics.tensor import Buffer, PrimFunc, loops, store
from assay.semantics.tensor.rules import check_prim_func
from assay.semantics.text.module_text import parse
from assay.semantics.types import TensorType
from tests.interp.test_machine import STEPS, module as planned

V = TensorType((8,), FLOAT32)
X, Y = var("x", V), var("y", V)
A, B = (Buffer(n, (8,), FLOAT32) for n in ("a", "b"))
COPY = PrimFunc("copy", (A, B), 1, loops("i", (8,), lambda i: store(B, i, A[i])))


def with_program(**changes: Any) -> Module:
    """The planned program of the machine's tests, changed."""
    made = planned()
    main = made.definitions["main"]
    assert isinstance(main, Program)
    return made.with_(main=replace(main, **changes))


def steps(at: int, **changes: Any) -> Module:
    return with_program(steps=(*STEPS[:at], replace(STEPS[at], **changes), *STEPS[at + 1 :]))


def text(line: str) -> Module:
    head = "@I.ir_module\nclass M:\n    @R.function\n    def main(x: R.Tensor((5,), 'float32')):\n        return "
    return parse(head + line + "\n")


def stored(written: str) -> Module:
    no_arrays: Any = None  # the rows are refused before a tensor is read
    return decode(written, no_arrays)


def looked_up(expr: graph.Expr) -> Any:
    return origins(function([X], let(Y, call_tir("copy", [X], V), Y)))(expr)


def region(name: str) -> graph.Function:
    return function([X], X, compiler="npu", global_symbol=name)


BROKEN: dict[str, tuple[str, Callable[[], object]]] = {
    "no main": ("module.C1", lambda: Module({}).main),
    "no bytecode": ("module.C13", lambda: Module({}).bytecode),
    "an input without a slot": ("program.C1", lambda: check(with_program(inputs=("x", "nothing")))),
    "a step on no slot": ("program.C1", lambda: check(steps(0, reads=("nothing",)))),
    "a step of too few slots": ("program.C2", lambda: check(steps(1, scratch=()))),
    "a step with a scalar too many": ("program.C2", lambda: check(steps(0, scalars=(3,)))),
    "a step that writes an input": ("program.C4", lambda: check(steps(0, reads=("y",), writes=("x",)))),
    "an output as scratch": ("program.C4", lambda: check(steps(1, scratch=("z",)))),
    "a slot twice": ("program.C5", lambda: check(steps(0, writes=("x",)))),
    "more outputs than parameters": ("tensor.C6", lambda: check_prim_func(replace(COPY, num_outputs=3))),
    "two parameters of one name": (
        "tensor.C7", lambda: check_prim_func(replace(COPY, params=(A, replace(B, name="a"))))),
    "a group that is not there": (
        "module.C6", lambda: Module({"copy": COPY}).group(replace(COPY, attrs={"group": "nothing"})),
    ),
    "no function of the prelude": ("prelude.C1", lambda: prelude_function("nothing")),
    "a name of the prelude": ("prelude.C2", lambda: with_prelude(Module({"length": function([X], X)}))),
    "a stored number": ("store.C3", lambda: stored("3")),
    "another format": ("store.C3", lambda: stored('{"format": 0, "rows": []}')),
    "a constant outside the table": (
        "alias.C1", lambda: origins(function([X], let(Y, constant(np.zeros(8, np.float32)), Y))),
    ),
    "a call that has no name": ("alias.C4", lambda: looked_up(call("exp", X))),
    "a choice among calls": (
        "alias.C2", lambda: origins(function([X], let(Y, graph.if_(graph.constant(np.True_), X, X), Y))),
    ),
    "a Relax call that is not read": ("relax.C4", lambda: text('R.nn.pad(x, (1, 1), pad_mode="wrap")')),
    "two regions of one symbol": (
        "engine.C2",
        lambda: engines.attach(Module({"f": region("same"), "g": region("same")}),
            {"npu": lambda region: lambda *x: x}),
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", BROKEN)
def test_a_broken_rule_is_named(name: str) -> None:
    label, break_it = BROKEN[name]
    with pytest.raises(AssayError) as caught:
        break_it()
    assert caught.value.label == label, caught.value


def test_what_is_changed_is_right() -> None:
    check(planned())
    check_prim_func(COPY)
    assert with_program(steps=STEPS) == planned() or isinstance(STEPS[0], Step)
