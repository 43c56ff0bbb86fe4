"""The sets of inputs: floats of 8 bits have every code, and what becomes one has every code and every tie."""

from __future__ import annotations

import numpy as np
import onnx
import pytest

from assay.semantics.dtypes import DTYPES, FLOAT32
from assay.semantics.graph import call, function, var
from assay.semantics.module import Module
from assay.semantics.types import TensorType
from assay.verify.backends import subject_of_model
from assay.verify.judge.samples import cast_to_small, input_sets, special_sets
from assay.verify.oracle.data import between_codes, codes, every_code, is_small

SMALL = tuple(of for of in DTYPES.values() if is_small(of))


@pytest.mark.parametrize("name", [of.name for of in SMALL])
def test_every_code_is_there_as_often_as_there_is_room(name: str) -> None:
    of, rng = DTYPES[name], np.random.default_rng(0)
    count = 1 << of.bits
    made = every_code(rng, (3, count), of)
    assert made.dtype == of.numpy and made.shape == (3, count)
    assert np.bincount(made.view(np.uint8).reshape(-1)).tolist() == [3] * count
    few = every_code(rng, (count // 2 + 1,), of)
    assert len(np.unique(few.view(np.uint8))) == few.size, "none twice"
    assert every_code(rng, (0, 4), of).shape == (0, 4) and every_code(rng, (), of).shape == ()
    ties, values = np.unique(between_codes(rng, (count,), of)), codes(of).astype(np.float64)
    there = np.unique(values[np.isfinite(values)])
    assert len(ties) == len(there) - 1 and not np.isin(ties, there).any()


def test_what_is_cast_to_eight_bits_has_every_code_and_what_is_between() -> None:
    x, y = var("x", TensorType((16, 20), FLOAT32)), var("y", TensorType((16, 20), FLOAT32))
    e5m2 = DTYPES["float8_e5m2"]
    cast = call("astype", call("reshape", x, shape=(320,)), dtype="float8_e5m2")
    again = call("reshape", call("astype", cast, dtype="float32"), shape=(16, 20))
    module = Module({"main": function([x, y], call("add", again, y))})
    assert {n: of.name for n, of in cast_to_small(module).items()} == {"x": "float8_e5m2"}
    sets = {s.name: s.inputs["x"] for s in input_sets(module, {}, ("random", "specials", "ties"), 1, 0)}
    met = set(sets["specials"].astype(e5m2.numpy).view(np.uint8).reshape(-1).tolist())
    assert len(met) >= 250, "but for NaNs of other bits, which become one"
    back = sets["ties"].astype(e5m2.numpy).astype(np.float64)
    assert (back != sets["ties"]).all() and len(np.unique(sets["ties"])) > 240
    assert len(np.unique(sets["random"].astype(e5m2.numpy).view(np.uint8))) < 100


def test_an_input_of_eight_bits_has_every_code_among_specials() -> None:
    x = var("x", TensorType((16, 16), DTYPES["float8_e4m3fn"]))
    module = Module({"main": function([x], call("astype", x, dtype="float32"))})
    assert cast_to_small(module) == {}, "it is one already"
    sets = {s.name: s.inputs["x"] for s in input_sets(module, {}, ("random", "specials"), 1, 0)}
    assert len(np.unique(sets["specials"].view(np.uint8))) == 256


@pytest.mark.parametrize("shape", [(3, 9), (8, 8), (2, 64)])
def test_special_sets_hold_every_special_number(shape: tuple[int, ...]) -> None:
    x = onnx.helper.make_tensor_value_info("x", 1, shape)
    y = onnx.helper.make_tensor_value_info("y", 1, shape)
    graph = onnx.helper.make_graph([onnx.helper.make_node("Neg", ["x"], ["y"])], "g", [x], [y])
    made = onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 17)], ir_version=8)
    for seed in range(8):
        found = next(input_sets(subject_of_model(made).module, {}, ["specials"], 1, seed)).inputs["x"]
        assert np.isnan(found).any() and (found == np.inf).any() and (found == -np.inf).any()
        assert np.signbit(found[found == 0]).any() and np.isfinite(found).any()


def test_small_inputs_hold_all_that_is_special_in_several_sets() -> None:
    for size, sets in ((1, 4), (3, 4), (8, 2), (16, 1)):
        x = var("x", TensorType((size,), FLOAT32))
        module = Module({"main": function([x], call("negative", x))})
        made = [s for s in input_sets(module, {}, ("random", "specials"), 1, 0) if s.kind == "specials"]
        assert 1 <= len(made) <= 6 and len({s.name for s in made}) == len(made)
        held = np.concatenate([s.inputs["x"] for s in made])
        assert np.isnan(held).any() and {np.inf, -np.inf} <= set(held.tolist())
        assert (np.signbit(held) & (held == 0)).any()
        given = {"x": np.ones(size, np.float32), "n": np.arange(2)}
        like = list(special_sets(given, 0))
        assert len(like) == sets and all(s.inputs["n"] is given["n"] for s in like)
        assert np.isnan(np.concatenate([s.inputs["x"] for s in like])).any()
    assert list(special_sets({"n": np.arange(2)}, 0)) == []
