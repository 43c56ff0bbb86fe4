"""Sizes that the import cannot compare: the run finds whether one is 1, is equal to the other, or does not fit."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import pytest

from assay.semantics.errors import Invalid, Trap
from tests.lower.frontends.onnx.onnx_cases import F32, Array, chain, evaluated, floats, imported, ints, shape_of
from tests.models import model

pytestmark = pytest.mark.row("J11")

Shape = tuple[int | str, ...]


def _outputs(nodes: list[onnx.NodeProto], inputs: dict[str, tuple[Any, Shape]], **stored: Array) -> onnx.ModelProto:
    proto = model(nodes, inputs, {}, stored, 19)
    proto.graph.output.append(onnx.ValueInfoProto(name="y"))
    return proto


ADD = _outputs(chain(("Add", ["a", "b"], ["y"], {})), {"a": (F32, ("n", 3)), "b": (F32, ("m", "k"))})


@pytest.mark.parametrize("n,m,k", [(2, 2, 3), (1, 2, 3), (2, 1, 1), (1, 1, 1), (0, 1, 3), (1, 0, 3), (5, 5, 1)])
def test_a_run_decides_what_is_stretched(n: int, m: int, k: int) -> None:
    given = {"a": floats(n, 3), "b": floats(m, k)}
    np.testing.assert_array_equal(evaluated(ADD, given)["y"], given["a"] + given["b"])


@pytest.mark.parametrize("n,m,k", [(2, 3, 3), (2, 2, 2), (0, 2, 3)])
def test_a_run_in_which_sizes_do_not_fit_traps(n: int, m: int, k: int) -> None:
    with pytest.raises(Trap, match=r"match_cast\.T1"):
        evaluated(ADD, {"a": floats(n, 3), "b": floats(m, k)})


def test_numbers_that_do_not_fit_are_refused_at_once() -> None:
    with pytest.raises(Invalid, match=r"broadcast\.C1"):
        imported(ADD, dims={"k": 2})


def test_a_size_cut_at_a_number_is_equal_to_it() -> None:
    """Positions for at most 8 tokens: min(n, 8) is 1 only where n is, so nothing is stretched."""
    nodes = chain(
        ("Shape", ["x"], ["s"], {}),
        ("Slice", ["places", "zero", "s", "zero"], ["own"], {}),
        ("Add", ["x", "own"], ["y"], {}),
    )
    proto = _outputs(nodes, {"x": (F32, ("n",))}, places=floats(8), zero=ints(0))
    assert shape_of(imported(proto).body) == ("n",)
    for n in (0, 1, 5, 8):
        np.testing.assert_array_equal(evaluated(proto, {"x": floats(n)})["y"], floats(n) + floats(8)[:n])
    with pytest.raises(Trap, match=r"match_cast\.T1"):
        evaluated(proto, {"x": floats(9)})


def test_matrices_whose_inner_sizes_have_two_names() -> None:
    nodes = chain(("MatMul", ["a", "b"], ["y"], {}))
    proto = _outputs(nodes, {"a": (F32, ("p", 2, "n")), "b": (F32, ("q", "m", 3))})
    for p, q in ((2, 2), (1, 2), (2, 1)):
        a, b = floats(p, 2, 5), floats(q, 5, 3)
        np.testing.assert_allclose(evaluated(proto, {"a": a, "b": b})["y"], a @ b, rtol=1e-6)
    with pytest.raises(Trap, match=r"match_cast\.T1"):
        evaluated(proto, {"a": floats(2, 2, 4), "b": floats(2, 1, 3)})  # no broadcast here


def test_parts_whose_other_sizes_have_two_names() -> None:
    proto = _outputs(
        chain(("Concat", ["a", "b"], ["y"], {"axis": 0})), {"a": (F32, ("p", "n")), "b": (F32, ("q", "m"))}
    )
    given = {"a": floats(2, 5), "b": floats(3, 5)}
    np.testing.assert_array_equal(evaluated(proto, given)["y"], np.concatenate([given["a"], given["b"]]))
    with pytest.raises(Trap, match=r"match_cast\.T1"):
        evaluated(proto, {"a": floats(2, 5), "b": floats(3, 1)})


@pytest.mark.parametrize("n,m", [(6, 4), (5, 1), (5, 5), (0, 3)])
def test_a_missing_size_that_only_a_run_can_tell(n: int, m: int) -> None:
    """-1 beside a size of another input."""
    nodes = chain(
        ("Shape", ["b"], ["s"], {}),
        ("Concat", ["s", "rest"], ["to"], {"axis": 0}),
        ("Reshape", ["a", "to"], ["y"], {"allowzero": 1}),
    )
    proto = _outputs(nodes, {"a": (F32, ("n", 2)), "b": (F32, ("m",))}, rest=ints(-1))
    given = {"a": floats(n, 2), "b": floats(m)}
    np.testing.assert_array_equal(evaluated(proto, given)["y"], given["a"].reshape(m, n * 2 // m))
    with pytest.raises(Trap, match=r"match_cast\.T1"):
        evaluated(proto, {"a": floats(n + 1, 2), "b": floats(11)})


@pytest.mark.parametrize("n", [0, 1, 2, 3, 5, 8])
def test_a_quotient_of_sizes_is_rounded_towards_0(n: int) -> None:
    nodes = chain(
        ("Shape", ["x"], ["s"], {}),
        ("Sub", ["s", "three"], ["d"], {}),
        ("Div", ["d", "two"], ["half_"], {}),
        ("Add", ["half_", "two"], ["count"], {}),
        ("ConstantOfShape", ["count"], ["y"], {}),
    )
    proto = _outputs(nodes, {"x": (F32, ("n",))}, three=ints(3), two=ints(2))
    assert evaluated(proto, {"x": floats(n)})["y"].shape == (int((n - 3) / 2) + 2,)


@pytest.mark.parametrize("start,delta", [(0, 1), (2, 3), (-1, 2)])
def test_a_range_up_to_a_size_has_that_size(start: int, delta: int) -> None:
    nodes = chain(
        ("Shape", ["x"], ["s"], {}),
        ("Squeeze", ["s", "zero"], ["end"], {}),
        ("Range", ["start", "end", "delta"], ["y"], {}),
    )
    stored = {"zero": ints(0), "start": np.array(start), "delta": np.array(delta)}
    proto = _outputs(nodes, {"x": (F32, ("n",))}, **stored)
    assert "count" not in str(imported(proto).body.type)
    for n in (0, 1, 7):
        np.testing.assert_array_equal(evaluated(proto, {"x": floats(n)})["y"], np.arange(start, n, delta))


@pytest.mark.parametrize("mode", ["constant", "edge", "reflect", "wrap"])
@pytest.mark.parametrize("n,m", [(5, 3), (5, 4), (4, 7), (3, 3)])
def test_padding_up_to_a_size(mode: str, n: int, m: int) -> None:
    """Before the axis 1 element, after it as many as the other input is longer, and 1; where it is shorter, elements
    are cut off."""
    nodes = chain(
        ("Shape", ["x"], ["s"], {}),
        ("Shape", ["other"], ["t"], {}),
        ("Sub", ["t", "s"], ["d"], {}),
        ("Add", ["d", "one"], ["after"], {}),
        ("Concat", ["one", "after"], ["pads"], {"axis": 0}),
        ("Pad", ["x", "pads", *(["seven"] if mode == "constant" else [])], ["y"], {"mode": mode}),
    )
    inputs = {"x": (F32, ("n",)), "other": (F32, ("m",))}
    proto = _outputs(nodes, inputs, one=ints(1), seven=np.array(7, np.float32))
    x, after = floats(n), m - n + 1
    more: dict[str, Any] = {"constant_values": 7} if mode == "constant" else {}
    wanted = np.pad(x, (1, max(after, 0)), mode=mode, **more)[: 1 + n + after]  # type: ignore[call-overload]
    np.testing.assert_array_equal(evaluated(proto, {"x": x, "other": floats(m)})["y"], wanted)


def test_padding_by_a_size_with_a_value_that_only_a_run_knows() -> None:
    nodes = chain(
        ("Shape", ["x"], ["s"], {}),
        ("Concat", ["s", "s"], ["pads"], {"axis": 0}),
        ("Pad", ["x", "pads", "value"], ["y"], {}),
    )
    proto = _outputs(nodes, {"x": (F32, ("n",)), "value": (F32, ())})
    given = {"x": floats(3), "value": np.array(2.5, np.float32)}
    np.testing.assert_array_equal(evaluated(proto, given)["y"], np.pad(given["x"], 3, constant_values=2.5))


def test_the_best_of_as_many_as_an_input_says() -> None:
    """k is an input, and the run checks that there are as many elements."""
    proto = _outputs(chain(("TopK", ["x", "k"], ["y", "places"], {})), {"x": (F32, (2, "n")), "k": (np.int64, (1,))})
    x = floats(2, 5)
    for k in (0, 1, 5):
        got = evaluated(proto, {"x": x, "k": ints(k)})["y"]
        np.testing.assert_array_equal(got, -np.sort(-x, axis=1)[:, :k])
    with pytest.raises(Trap, match=r"match_cast\.T1"):
        evaluated(proto, {"x": x, "k": ints(6)})


def test_the_best_of_fewer_elements_than_there_are_sizes_for() -> None:
    """min(n, 3) of n elements always are there; 3 of n are not."""
    nodes = chain(
        ("Shape", ["x"], ["s"], {}), ("Min", ["s", "three"], ["k"], {}), ("TopK", ["x", "k"], ["y", "places"], {})
    )
    proto = _outputs(nodes, {"x": (F32, ("n",))}, three=ints(3))
    for n in (0, 1, 3, 7):
        np.testing.assert_array_equal(evaluated(proto, {"x": floats(n)})["y"], -np.sort(-floats(n))[:3])
    proto = _outputs(chain(("TopK", ["x", "three"], ["y", "places"], {})), {"x": (F32, ("n",))}, three=ints(3))
    with pytest.raises(Trap, match=r"match_cast\.T1"):
        evaluated(proto, {"x": floats(2)})
