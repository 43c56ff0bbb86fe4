"""What the builder refuses: each misuse has a label of its own."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from assay.interp.graph import run
from assay.semantics import graph
from assay.semantics.builder import Builder, tensor
from assay.semantics.builder.prelude import INT, LIST, cons
from assay.semantics.builder.te import compute
from assay.semantics.errors import Invalid
from assay.semantics.graph import Var
from assay.semantics.types import DataDef


def body(make: Callable[[Builder, Any], Any]) -> Callable[[Builder], Any]:
    """Within `main`, of one int32."""

    def built(b: Builder) -> Any:
        with b.function("main", x=INT) as f:
            b.result(make(b, f))
        return b.module()

    return built


def leaked(b: Builder, f: Any) -> Any:
    inside: list[Var] = []

    def branch() -> Var:
        inside.append(b.add(f.x, 1))
        return inside[0]

    b.choose(b.less(f.x, 0), branch, lambda: f.x)
    return inside[0]


def not_output(b: Builder, f: Any) -> Any:
    with b.dataflow():
        y = b.add(f.x, 1)
    return b.add(y, 1)


def half_an_if(b: Builder, f: Any) -> Any:
    with b.if_(b.less(f.x, 0)) as i:
        with i.then():
            b.result(f.x)
    return i.value


def acts_in_dataflow(b: Builder, f: Any) -> Any:
    with b.dataflow():
        b.print(f.x)
    return f.x


def two_results(b: Builder, f: Any) -> Any:
    b.result(f.x)
    return f.x


def after_the_result(b: Builder, f: Any) -> Any:
    b.result(f.x)
    return b.add(f.x, 1)


def early_value(b: Builder, f: Any) -> Any:
    with b.if_(b.less(f.x, 0)) as i:
        return i.value


def undeclared_recursion(b: Builder, f: Any) -> Any:
    with b.closure("loop", y=INT) as loop:
        b.result(loop(loop["y"]))
    return f.x


def in_a_function(b: Builder, f: Any) -> Any:
    with b.function("inner"):
        pass


def of_another_type(b: Builder) -> None:
    b.declare("main", [INT], tensor(2))
    body(lambda b, f: f.x)(b)


def twice(b: Builder) -> None:
    body(lambda b, f: f.x)(b)
    body(lambda b, f: f.x)(b)


def no_result(b: Builder) -> None:
    with b.function("main", x=INT):
        pass


def unclosed(b: Builder) -> None:
    with b.function("main", x=INT):
        b.module()


REFUSED: list[tuple[str, Callable[[Builder], Any]]] = [
    ("builder.C1", body(leaked)),
    ("builder.C1", body(not_output)),
    ("builder.C1", body(lambda b, f: graph.call("abs", graph.var("y", INT)))),
    ("builder.C1", body(lambda b, f: graph.if_(b.less(f.x, 0), graph.call("abs", graph.var("y", INT)), f.x))),
    ("builder.C2", no_result),
    ("builder.C2", body(two_results)),
    ("builder.C2", body(after_the_result)),
    ("builder.C3", body(lambda b, f: f.y)),
    ("builder.C4", body(undeclared_recursion)),
    ("builder.C5", body(early_value)),
    ("builder.C6", body(half_an_if)),
    ("builder.C7", body(lambda b, f: b.cases(f.x, ((cons, "a", "b"), lambda a, b: a)))),
    ("builder.C7", body(lambda b, f: b.cases(f.x, (3, lambda: f.x)))),
    ("builder.C8", body(in_a_function)),
    ("builder.C9", twice),
    ("builder.C9", lambda b: (b.data(LIST), b.data(DataDef("List", (), {})))),
    ("builder.C10", of_another_type),
    ("builder.C11", lambda b: (b.declare("f", [INT], INT), b.module())),
    ("builder.C11", lambda b: b.global_("f")),
    ("builder.C12", lambda b: b.add(graph.constant(1), 1)),
    ("builder.C12", unclosed),
    ("builder.C13", body(acts_in_dataflow)),
    ("builder.C13", body(lambda b, f: b.output(f.x))),
    ("builder.C14", body(lambda b, f: b.add(f.x, "one"))),
    ("builder.C15", body(lambda b, f: b.emit_tir(lambda a: a, f.x))),
    ("builder.C16", body(lambda b, f: b.nn.reluu(f.x))),
    ("te.C1", body(lambda b, f: b.emit_te(lambda a: a, f.x))),
    ("te.C2", body(lambda b, f: b.emit_te(lambda a: [compute((), lambda: a[()])] * 2, f.x))),
    ("te.C3", body(lambda b, f: b.emit_te(lambda a, c: compute((), lambda: a[()]), f.x))),
    ("te.C4", body(lambda b, f: b.emit_te(lambda a: compute((2,), lambda: a[()]), f.x))),
    ("te.C5", lambda b: compute((2,), lambda i: i)),
    ("if.C1", body(lambda b, f: b.choose(f.x, lambda: f.x, lambda: f.x))),
    ("call.C7", body(lambda b, f: b.call(graph.extern("g", [tensor(2)], INT), f.x))),  # type: ignore[list-item]
    ("let.C1", lambda b: graph.let(graph.var("v", INT), graph.constant(1.0), graph.constant(1))),
]


@pytest.mark.row("R3")
@pytest.mark.parametrize(("label", "make"), REFUSED)
def test_what_is_refused(label: str, make: Callable[[Builder], Any]) -> None:
    with pytest.raises(Invalid) as wrong:
        make(Builder())
    assert wrong.value.label == label and wrong.value.message


def test_after_an_error_the_scopes_are_closed() -> None:
    b = Builder()
    with pytest.raises(ZeroDivisionError):
        with b.function("main", x=INT) as f:
            with b.closure("inner"):
                b.choose(b.less(f.x, 0), lambda: 1 / 0, lambda: f.x)
    body(lambda b, f: f.x)(b)
    assert run(b.module(), {"x": np.int32(1)})["output_0"] == 1
