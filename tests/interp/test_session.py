"""Inputs are set, the module is invoked, outputs are taken: each wrong name says which would be right."""

from __future__ import annotations

import numpy as np
import pytest

from assay.interp.graph.session import Session
from assay.semantics.dtypes import FLOAT32
from assay.semantics.errors import Invalid
from assay.semantics.graph import call, function, tuple_of, var
from assay.semantics.module import Module
from assay.semantics.types import TensorType

X, Y = (var(n, TensorType((2,), FLOAT32)) for n in "xy")
MAIN = function([X, Y], tuple_of(call("add", X, Y), call("subtract", X, Y)), outputs=("sum", "difference"))


@pytest.mark.row("R27", "J21")
def test_inputs_stay_set_between_calls() -> None:
    s = Session(Module({"main": MAIN}))
    s.set_inputs(np.float32([1, 2]), y=np.float32([3, 4]))
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
    s.set_inputs(np.zeros(2, np.float32), np.zeros(2, np.float32))
    s.invoke()
    for which in ("product", 2, -1):
        with pytest.raises(Invalid, match="sum, difference") as caught:
            s.output(which)
        assert caught.value.label == "session.C2"
