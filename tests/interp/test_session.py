"""Inputs are set, the module is invoked, outputs are taken: each wrong name says which would be right."""

from __future__ import annotations

import numpy as np
import pytest

from assay.interp.graph.session import Session
from assay.semantics.dtypes import FLOAT32
from assay.semantics.errors import Invalid
from assay.semantics.graph import call, function, get, tuple_of, var
from assay.semantics.module import Module
from assay.semantics.rules import check
from assay.semantics.scalar import Var as Symbol
from assay.semantics.text.module_text import parse, show
from assay.semantics.types import FuncType, TensorType, TupleType

X, Y = (var(n, TensorType((2,), FLOAT32)) for n in "xy")
MAIN = function([X, Y], tuple_of(call("add", X, Y), call("subtract", X, Y)), outputs=("sum", "difference"))


@pytest.mark.row("R27", "J21")
def test_inputs_stay_set_between_calls() -> None:
    s = Session(Module({"main": MAIN}))
    s.set_input(0, np.float32([1, 2]))
    s.set_input("y", np.float32([3, 4]))
    s.invoke()
    assert s.output().tolist() == [4, 6] and s.output("difference").tolist() == [-2, -2]
    s.set_input("y", np.float32([0, 0]))
    assert s.output(0).tolist() == [4, 6], "the last call's"
    s.invoke()
    assert s.output(0).tolist() == [1, 2] and s.input_index("y") == 1


@pytest.mark.parametrize(
    ("label", "word", "use"),
    [
        ("input.C1", "x, y", lambda s: s.set_input("z", 1)),
        ("input.C1", "there are 2", lambda s: s.set_input(2, 1)),
        ("input.C3", "float64", lambda s: s.set_input("x", np.zeros(2))),
        ("input.C4", "expected 2", lambda s: s.set_input("x", np.zeros(3, np.float32))),
        ("input.C2", "missing input 'x'", lambda s: s.invoke()),
        ("session.C1", "invoked", lambda s: s.output()),
    ],
)
def test_what_is_refused(label: str, word: str, use: object) -> None:
    with pytest.raises(Invalid, match=word) as caught:
        use(Session(Module({"main": MAIN})))
    assert caught.value.label == label


def test_an_output_that_is_not_there() -> None:
    s = Session(Module({"main": MAIN}))
    for i in range(2):
        s.set_input(i, np.zeros(2, np.float32))
    s.invoke()
    for which in ("product", 2, -1):
        with pytest.raises(Invalid, match="sum, difference") as caught:
            s.output(which)
        assert caught.value.label == "session.C2"


N = Symbol("n")
A, B = var("a", TensorType((N,), FLOAT32)), var("b", TensorType((N,), FLOAT32))


@pytest.mark.row("R27")
def test_a_call_is_saved_as_a_function() -> None:
    """It takes what was not given, with the sizes that the others say; it keeps the values as they were."""
    s = Session(Module({"main": MAIN, "scale": function([A, B], call("multiply", A, B))}))
    x = np.float32([1, 2])
    s.save_function("warm", "main", x, y=np.float32([3, 4]))
    s.save_function("half", "scale", b=x)
    s.save_function("again", "half", np.float32([5, 5]))
    x[:] = 9
    check(s.module)
    s.invoke("warm")
    assert s.output(0).tolist() == [4, 6] and s.output(1).tolist() == [-2, -2]
    assert [str(p.type) for p in s.function("half").params] == ["Tensor((2), float32)"]
    s.invoke("half", np.float32([3, 4]))
    assert s.output().tolist() == [3, 8]
    s.invoke("again")
    assert s.output().tolist() == [5, 10]
    with pytest.raises(Invalid, match=r"input\.C4"):
        s.invoke("half", a=np.zeros(3, np.float32))
    other = Session(parse(show(s.module)))
    other.invoke("again")
    assert other.output().tolist() == [5, 10]


def test_a_saved_call_has_tuples_and_shapes() -> None:
    pair = var("p", TupleType((X.type, TupleType((X.type,)))))
    s = Session(Module({"main": function([pair], call("subtract", get(pair, 0), get(get(pair, 1), 0)))}))
    s.save_function("kept", "main", (np.float32([5, 5]), (np.float32([1, 2]),)))
    s.invoke("kept")
    assert s.output().tolist() == [4, 3]


@pytest.mark.parametrize(
    ("label", "use"),
    [
        ("session.C3", lambda s: s.save_function("f", "nothing")),
        ("session.C4", lambda s: s.save_function("main")),
        ("input.C1", lambda s: s.save_function("f", "main", z=1)),
        ("input.C1", lambda s: s.save_function("f", "main", 1, 2, 3)),
        ("input.C3", lambda s: s.save_function("f", "main", np.zeros(2))),
        ("input.C4", lambda s: s.save_function("f", "main", np.zeros(3, np.float32))),
        ("session.C3", lambda s: s.invoke("nothing")),
    ],
)
def test_a_call_that_cannot_be_saved(label: str, use: object) -> None:
    with pytest.raises(Invalid) as caught:
        use(Session(Module({"main": MAIN})))
    assert caught.value.label == label


def test_a_closure_cannot_be_saved() -> None:
    f = var("f", FuncType((X.type,), X.type))
    inner = function([X], call("negative", X))
    s = Session(Module({"main": function([], inner), "use": function([f, Y], call(f, Y))}))
    s.invoke()
    with pytest.raises(Invalid, match="Closure") as caught:
        s.save_function("kept", "use", s.output())
    assert caught.value.label == "session.C5"
