"""`repr` of modules and functions: their text, bounded in length and in cost, whatever they are."""

from __future__ import annotations

import time
from random import Random
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings

from assay.semantics.builder import Builder, tensor
from assay.semantics.dtypes import DTYPES
from assay.semantics.errors import Invalid
from assay.semantics.graph import Expr, call, constant, function, var
from assay.semantics.module import Module
from assay.semantics.tensor import AllocateConst, program_order
from assay.semantics.text.brief import MOST_LINES, shortened
from assay.semantics.text.module_text import parse, show
from assay.semantics.types import TensorType
from assay.verify.strategies import modules
from assay.verify.strategies.choosing import by_random
from assay.verify.strategies.features import EVERYTHING
from assay.verify.strategies.graphs import a_module

X = var("x", TensorType((4, 4), DTYPES["float32"]))


def chain(count: int) -> Module:
    e: Expr = X
    for _ in range(count):
        e = call("add", e, e)
    return Module({"main": function([X], e)})


def test_a_module_is_its_text() -> None:
    b = Builder()
    with b.function("main", x=tensor(2, 3)) as f:
        b.result(b.nn.relu(f.x))
    module = b.module()
    assert repr(module) == str(module)
    assert repr(module).startswith("@I.ir_module\nclass Module:\n") and "dtypes" not in repr(module)
    assert show(parse(repr(module))) == show(module)
    assert repr(module.main).startswith("@R.function\ndef function(x: ") and "R.nn.relu(x)" in repr(module.main)


def test_constants_are_left_out_with_their_types() -> None:
    data = np.random.default_rng(0).normal(size=(4, 64)).astype(np.float32)
    module = Module({"main": function([X], call("matmul", X, constant(data)))}, {"table": data})
    said = repr(module)
    assert said.count('A.stored("float32", (4, 64), ...)') == 2 and len(said) < 500
    with pytest.raises(Invalid, match="this constant has no meaning here"):
        parse(said)
    small = Module({"main": function([X], call("add", X, constant(np.full((1, 4), 2, np.float32))))})
    assert "[[2.0, 2.0, 2.0, 2.0]]" in repr(small)


def test_constants_of_tensor_functions_too() -> None:
    found = 0
    for seed in range(60):
        module = a_module(by_random(Random(seed)), 12, EVERYTHING)
        consts = [s for k in module.kernels.values() for s in program_order(k.body) if isinstance(s, AllocateConst)]
        found += len(consts)
        assert "# a module, one by one" not in repr(module)
    assert found


def test_a_huge_module_costs_little() -> None:
    begin = time.process_time()
    module = chain(40_000)
    made = time.process_time()
    said = repr(module)
    assert time.process_time() - made < made - begin and len(said) < 1_000, "it costs less than making it"
    assert "main: Callable" in said and "more than 10,000 nodes" in said


def test_a_long_one_says_how_much_is_left_out() -> None:
    lines = repr(chain(1_000)).split("\n")
    (gone,) = [x for x in lines if "lines are left out here" in x]
    whole = len(show(chain(1_000)).split("\n")) - 6  # without the imports, and the end
    left = int(gone.split()[2].replace(",", ""))
    assert len(lines) == MOST_LINES + 1 and len(lines) - 1 + left == pytest.approx(whole, abs=3)
    assert lines[0] == "@I.ir_module" and lines[-1].strip().startswith("return")
    assert shortened("x" * 1_000).endswith("# ... 500 characters")


@pytest.mark.parametrize(
    "module",
    [
        Module({"main": 3}),  # type: ignore[dict-item]
        Module(None),  # type: ignore[arg-type]
        Module({"main": function([X], X), "other": None}),  # type: ignore[dict-item]
        Module({"main": function([X], X)}, {"w": "no array"}),  # type: ignore[dict-item]
    ],
)
def test_what_is_ill_formed_is_shown_with_the_reason(module: Module) -> None:
    said = repr(module)
    assert said.startswith(("# a module, one by one: ", "# a module without a text: "))
    assert any(x in said for x in ("Unsupported", "AttributeError", "TypeError", "Invalid")), said


def test_a_planned_program_says_its_size() -> None:
    from assay.verify.app.stages import STAGES, lowering_passes

    made: Any = lowering_passes()
    module = Module({"main": function([X], call("nn.relu", X))})
    for stage in STAGES:
        module = made[stage.name](module) if stage.name in made else module
    assert "# main: a planned program, 1 steps, 2 slots" in repr(module) and "text.C18" in repr(module)


def test_a_falsifying_example_is_the_text() -> None:
    @settings(database=None, derandomize=True, report_multiple_bugs=False)
    @given(modules(operators=["nn.relu"]))
    def fails(module: Module) -> None:
        assert not module.definitions

    with pytest.raises(AssertionError) as caught:
        fails()
    said = "\n".join(caught.value.__notes__)
    assert "R.nn.relu(" in said and "TensorType" not in said and len(said.split("\n")) < 12, said
