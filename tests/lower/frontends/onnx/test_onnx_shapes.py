"""Sizes of a model that are computed, and sizes that are symbols."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto

from assay.interp import graph
from assay.lower.frontends.onnx.model import import_onnx
from assay.semantics.errors import Invalid, Unsupported
from assay.semantics.graph import Expr, Function, show_head
from assay.semantics.types import TensorType
from tests.lower.frontends.onnx.onnx_cases import (
    F32,
    Array,
    chain,
    evaluated,
    floats,
    imported,
    ints,
    operators,
    shape_of,
    tensor,
)
from tests.models import model, single

# --- computed and symbolic shapes ---------------------------------------------------------------------------------


def test_symbols_are_shared_by_name_and_bound_by_dims() -> None:
    nodes = chain(("Add", ["a", "b"], ["y"], {}))
    proto = model(nodes, {"a": (F32, ("n", 3)), "b": (F32, ("n", "m"))}, {"y": (F32, ("n", 3))})
    main = imported(proto, dims={"m": 3})
    a, b = (p.type for p in main.params)
    assert isinstance(a, TensorType) and isinstance(b, TensorType)
    assert a.shape[0] is b.shape[0]
    bound = imported(proto, dims={"m": 3, "n": 5})
    assert [shape_of(p) for p in bound.params] == [("5", "3"), ("5", "3")]


def test_a_size_without_a_name_gets_one() -> None:
    proto = single("Relu", 14, [floats(2, 3)])
    dims = proto.graph.input[0].type.tensor_type.shape.dim
    dims[0].ClearField("dim_value")
    dims[1].dim_value = -1  # as old converters have it
    assert shape_of(imported(proto).body) == ("x0_0", "x0_1")
    assert shape_of(imported(proto, dims={"x0_0": 7, "x0_1": 2}).body) == ("7", "2")


def symbolic(
    nodes: list[onnx.NodeProto], shape: tuple[Any, ...], stored: dict[str, Array] | None = None, **dims: int
) -> Function:
    proto = model(nodes, {"x": (F32, shape)}, {}, stored, 17)
    proto.graph.output.append(onnx.ValueInfoProto(name="y"))
    return imported(proto, dims=dims)


def test_reshape_by_the_exporters_idiom() -> None:
    """Nothing of the computation is left, where sizes are numbers and where they are not."""
    nodes = chain(
        ("Shape", ["x"], ["s"], {}),
        ("Gather", ["s", "zero"], ["n"], {"axis": 0}),
        ("Unsqueeze", ["n", "axis"], ["n1"], {}),
        ("Concat", ["n1", "four", "rest"], ["target"], {"axis": 0}),
        ("Reshape", ["x", "target"], ["y"], {}),
    )
    stored = {"zero": np.array(0), "axis": ints(0), "four": ints(4), "rest": ints(-1)}
    for dims, first in (({}, "n"), ({"n": 5}, "5")):
        main = symbolic(nodes, ("n", 3, 8), stored, **dims)
        assert shape_of(main.body) == (first, "4", "6")
        assert operators(main) == {"reshape": 1}


SIZES = {
    "a slice with a computed end": (
        chain(
            ("Shape", ["x"], ["s"], {"start": 0, "end": 1}),
            ("Div", ["s", "two"], ["half"], {}),
            ("Slice", ["x", "zero", "half", "zero"], ["y"], {}),
        ),
        ("n", "3"),
    ),
    "a product": (
        chain(
            ("Shape", ["x"], ["s"], {}),
            ("ReduceProd", ["s"], ["p"], {"keepdims": 1}),
            ("Reshape", ["x", "p"], ["y"], {}),
        ),
        ("(n * 6)",),
    ),
    "a sum": (
        chain(
            ("Shape", ["x"], ["s"], {}),
            ("ReduceSum", ["s"], ["p"], {"keepdims": 1}),
            ("ConstantOfShape", ["p"], ["y"], {}),
        ),
        ("((n * 2) + 3)",),
    ),
    "expand, where -1 stands for the size that is there": (
        chain(
            ("Shape", ["x"], ["s"], {}),
            ("Equal", ["s", "minus"], ["unset"], {}),
            ("Where", ["unset", "one", "s"], ["target"], {}),
            ("Expand", ["x", "target"], ["y"], {}),
        ),
        ("(n * 2)", "3"),
    ),
    "a tensor of a computed size": (
        chain(
            ("Shape", ["x"], ["s"], {}),
            ("Cast", ["s"], ["narrow"], {"to": TensorProto.INT32}),
            ("Cast", ["narrow"], ["wide"], {"to": TensorProto.INT64}),
            ("Sub", ["wide", "minus"], ["more"], {}),
            ("ConstantOfShape", ["more"], ["y"], {}),
        ),
        ("((n * 2) + 1)", "4"),
    ),
    "repeats": (
        chain(
            ("Shape", ["x"], ["s"], {}),
            ("Neg", ["s"], ["m"], {}),
            ("Neg", ["m"], ["r"], {}),
            ("Tile", ["x", "r"], ["y"], {}),
        ),
        ("((n * 2) * (n * 2))", "9"),
    ),
    "sizes taken apart and put together": (
        chain(
            ("Shape", ["x"], ["s"], {}),
            ("Split", ["s"], ["a", "b"], {}),
            ("Squeeze", ["a", "zero"], ["a0"], {}),
            ("Unsqueeze", ["a0", "zero"], ["a1"], {}),
            ("Max", ["b", "two"], ["b1"], {}),
            ("Concat", ["b1", "a1"], ["target"], {"axis": 0}),
            ("Reshape", ["x", "target"], ["y"], {}),
        ),
        ("3", "(n * 2)"),
    ),
    "the number of elements": (
        chain(
            ("Size", ["x"], ["c"], {}),
            ("Reshape", ["c", "one"], ["c1"], {}),
            ("Expand", ["c1", "one"], ["c2"], {}),
            ("Reshape", ["x", "c2"], ["y"], {}),
        ),
        ("(n * 6)",),
    ),
    "sizes in another order": (
        chain(
            ("Shape", ["x"], ["s"], {}),
            ("Slice", ["s", "minus", "least", "zero", "minus"], ["r"], {}),
            ("Gather", ["s", "swap"], ["g"], {}),
            ("Min", ["r", "g"], ["target"], {}),
            ("Reshape", ["x", "target"], ["y"], {}),
        ),
        ("3", "(n * 2)"),
    ),
}
STORED = {
    "zero": ints(0), "one": ints(1), "two": ints(2), "minus": ints(-1), "least": ints(-(2**63)), "swap": ints(1, 0),
}  # fmt: skip


@pytest.mark.parametrize("name", SIZES)
def test_sizes_are_followed_through(name: str) -> None:
    """x is two of the input after another, so that its size is no plain symbol."""
    nodes, shape = SIZES[name]
    doubled = chain(("Concat", ["half_", "half_"], ["x"], {"axis": 0}))
    proto = model([*doubled, *nodes], {"half_": (F32, ("n", 3))}, {}, STORED, 17)
    proto.graph.output.append(onnx.ValueInfoProto(name="y"))
    assert shape_of(imported(proto).body) == shape
    x = {"half_": floats(5, 3)}
    np.testing.assert_array_equal(evaluated(proto, x)["y"], evaluated(proto, x, dims={"n": 5})["y"])


@pytest.mark.parametrize(
    "nodes",
    [
        # whether n is 0 or 3, or more than 3, is open; so is a number that does not fit its type
        chain(("Cast", ["s"], ["b"], {"to": TensorProto.BOOL}), ("Where", ["b", "one", "two"], ["target"], {})),
        chain(("Equal", ["s", "three"], ["b"], {}), ("Where", ["b", "one", "two"], ["target"], {})),
        chain(("Less", ["s", "three"], ["b"], {}), ("Where", ["b", "one", "two"], ["target"], {})),
        chain(("Greater", ["s", "three"], ["b"], {}), ("Where", ["b", "one", "two"], ["target"], {})),
        chain(("Concat", ["s", "most"], ["c"], {"axis": 0}), ("Add", ["c", "one"], ["target"], {})),
        chain(("Gather", ["s", "s"], ["target"], {})),
        chain(("Slice", ["s", "zero", "s"], ["target"], {})),
    ],
)
def test_what_cannot_be_told_of_a_symbol_is_not_guessed(nodes: list[onnx.NodeProto]) -> None:
    stored = {**STORED, "three": ints(3), "most": ints(2**63 - 1)}
    ending = chain(("Reshape", ["x", "target"], ["y"], {}))
    with pytest.raises(Unsupported, match=r"only known when the model runs.*onnx\.C13"):
        symbolic([*chain(("Shape", ["x"], ["s"], {})), *nodes, *ending], ("n",), stored)


def test_comparisons_of_sizes_that_hold_for_every_value() -> None:
    """A size is at least 0: n + 1 is neither 0 nor less than 1, and 2n is no -1."""
    nodes = chain(
        ("Shape", ["x"], ["s"], {}),
        ("Sub", ["s", "minus"], ["more"], {}),
        ("Equal", ["more", "zero"], ["e"], {}),
        ("Less", ["more", "one"], ["l"], {}),
        ("GreaterOrEqual", ["more", "one"], ["g"], {}),
        ("LessOrEqual", ["more", "s"], ["k"], {}),
        ("Where", ["e", "two", "s"], ["a"], {}),
        ("Where", ["l", "two", "a"], ["b"], {}),
        ("Where", ["g", "b", "two"], ["c"], {}),
        ("Where", ["k", "two", "c"], ["target"], {}),
        ("ConstantOfShape", ["target"], ["y"], {}),
    )
    assert shape_of(symbolic(nodes, ("n",), STORED).body) == ("n",)


def test_a_size_that_only_the_run_knows_is_refused() -> None:
    nodes = chain(("Reshape", ["x", "shape"], ["y"], {}))
    proto = model(nodes, {"x": (F32, (2, 3)), "shape": (np.int64, (1,))}, {"y": (F32, (6,))})
    with pytest.raises(Unsupported, match=r"operand shape decides .* only known when the model runs.*onnx\.C13"):
        imported(proto)
    quotient = chain(
        ("Shape", ["x"], ["s"], {}),
        ("Cast", ["s"], ["f"], {"to": TensorProto.FLOAT}),
        ("Cast", ["f"], ["i"], {"to": TensorProto.INT64}),
        ("Reshape", ["x", "i"], ["y"], {}),
    )
    with pytest.raises(Unsupported, match=r"onnx\.C13"):
        symbolic(quotient, ("n", 3))
    assert shape_of(symbolic(quotient, ("n", 3), n=4).body) == ("4", "3")


def test_only_what_shapes_need_is_evaluated() -> None:
    asked: list[str] = []

    def evaluate(expr: Expr) -> Array:
        asked.append(show_head(expr))
        return np.asarray(graph.evaluate(expr))

    nodes = chain(
        ("Mul", ["w", "w"], ["square"], {}),
        ("Add", ["x", "square"], ["sum"], {}),
        ("Mul", ["two", "three"], ["six"], {}),
        ("Reshape", ["sum", "six"], ["y"], {}),
    )
    stored = {"w": floats(2, 3), "two": ints(2), "three": ints(3)}
    import_onnx(model(nodes, {"x": (F32, (2, 3))}, {"y": (F32, (6,))}, stored), evaluate=evaluate)
    assert asked == ["multiply(): Tensor((1), int64)"]


def test_a_size_that_has_no_value() -> None:
    nodes = chain(("Gather", ["sizes", "far"], ["n"], {}), ("Reshape", ["x", "n"], ["y"], {}))
    stored = {"sizes": ints(6), "far": ints(3)}
    with pytest.raises(Invalid, match=r"has no value: trap \(out of bounds\)"):
        imported(model(nodes, {"x": (F32, (2, 3))}, {"y": (F32, (6,))}, stored))


def test_a_size_computed_from_something_huge_is_refused() -> None:
    nodes = chain(
        ("ConstantOfShape", ["many"], ["huge"], {"value": tensor(ints(1))}),
        ("ReduceSum", ["huge"], ["n"], {}),
        ("ConstantOfShape", ["n"], ["y"], {}),
    )
    with pytest.raises(Unsupported, match="more than"):
        imported(model(nodes, {}, {"y": (F32, None)}, {"many": ints(2**40)}))
