"""Trees, support vector machines, encoders and maps of ai.onnx.ml, as skl2onnx writes them, beside ONNX Runtime."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from assay.interp import graph
from assay.lower.frontends.onnx.model import import_onnx
from assay.lower.frontends.onnx.string_table import Strings, text_names
from assay.semantics.errors import AssayError, Trap
from tests.lower.frontends.onnx.onnx_cases import Array, floats

onnxruntime = pytest.importorskip("onnxruntime")
F, D, N, S = TensorProto.FLOAT, TensorProto.DOUBLE, TensorProto.INT64, TensorProto.STRING
KINDS = {F: np.float32, D: np.float64, N: np.int64}


def node_model(op: str, given: tuple[int, ...], made: tuple[int, ...], shape: Any = ("rows", 3), **attrs: Any) -> Any:
    """One node of ai.onnx.ml; inputs x0, x1, ... of these element types."""
    names = [f"x{i}" for i in range(len(given))], [f"y{i}" for i in range(len(made))]
    node = helper.make_node(op, *names, domain="ai.onnx.ml", **attrs)
    inputs = [helper.make_tensor_value_info(n, of, shape) for n, of in zip(names[0], given, strict=True)]
    outputs = [helper.make_tensor_value_info(n, of, None) for n, of in zip(names[1], made, strict=True)]
    sets = [helper.make_opsetid("ai.onnx.ml", 3), helper.make_opsetid("", 17)]
    return helper.make_model(helper.make_graph([node], "g", inputs, outputs), opset_imports=sets, ir_version=8)


def trees(
    kind: str, weights: list[float], targets: list[int], modes: str = "BRANCH_LEQ", **more: Any
) -> dict[str, Any]:
    """Two trees over three features: one of two levels, one of one, with five leaves, each with a vote."""
    nodes = [
        (0, 0, 0, 0.5, 1, 2),
        (0, 1, 1, -0.5, 3, 4),
        (0, 2, 0, 0.0, 0, 0),
        (0, 3, 0, 0.0, 0, 0),
        (0, 4, 0, 0.0, 0, 0),
    ]
    nodes += [(1, 0, 2, 0.25, 1, 2), (1, 1, 0, 0.0, 0, 0), (1, 2, 0, 0.0, 0, 0)]
    names = ("treeids", "nodeids", "featureids", "values", "truenodeids", "falsenodeids")
    attrs: dict[str, Any] = {f"nodes_{n}": list(c) for n, c in zip(names, zip(*nodes, strict=True), strict=True)}
    attrs["nodes_modes"] = [modes if n[4] else "LEAF" for n in nodes]
    leaves = [(0, 2), (0, 3), (0, 4), (1, 1), (1, 2)]
    attrs |= {f"{kind}_treeids": [t for t, _ in leaves], f"{kind}_nodeids": [n for _, n in leaves]}
    return {**attrs, f"{kind}_ids": targets, f"{kind}_weights": weights, **more}


VOTES = [0.5, 1.5, -2.0, 0.75, -1.0]
ONES = [0.25, 0.5, 0.125, 0.0625, 0.5]
THREE = {"classlabels_int64s": [7, -2, 5]}
VECTORS = {
    "coefficients": floats(2, 5).reshape(-1).tolist(), "rho": [0.1, -0.2, 0.3], "vectors_per_class": [2, 1, 2],
    "support_vectors": floats(5, 3).reshape(-1).tolist(), "kernel_params": [0.5, 0.25, 3.0],
    "classlabels_ints": [4, 2, 9],
}  # fmt: skip
PAIR = {
    "coefficients": [0.5, 1.0, -0.75, -0.75], "rho": [0.1], "vectors_per_class": [2, 2], "classlabels_ints": [4, 2],
    "support_vectors": floats(4, 3).reshape(-1).tolist(), "kernel_params": [0.5, 0.25, 3.0],
}  # fmt: skip
FLAT = {"kernel_type": "LINEAR", "kernel_params": [0.0, 0.0, 0.0]}
PLATT = {"prob_a": [-1.0], "prob_b": [0.2]}
MANY = [f"word {i}" for i in range(20)]

SAME = {
    "sum": node_model("TreeEnsembleRegressor", (F,), (F,), n_targets=1, **trees("target", VOTES, [0] * 5)),
    "of doubles": node_model("TreeEnsembleRegressor", (D,), (F,), n_targets=1, **trees("target", VOTES, [0] * 5)),
    "targets": node_model("TreeEnsembleRegressor", (F,), (F,), n_targets=2, **trees("target", VOTES, [0, 1, 0, 1, 1])),
    "average": node_model(
        "TreeEnsembleRegressor", (F,), (F,), n_targets=1,
        **trees("target", VOTES, [0] * 5, aggregate_function="AVERAGE")
    ),
    "min": node_model(
        "TreeEnsembleRegressor", (F,), (F,), n_targets=1, **trees("target", VOTES, [0] * 5, aggregate_function="MIN")
    ),
    "max and a base": node_model(
        "TreeEnsembleRegressor", (F,), (F,), n_targets=1,
        **trees("target", VOTES, [0] * 5, aggregate_function="MAX", base_values=[0.5]),
    ),
    "missing": node_model(
        "TreeEnsembleRegressor", (F,), (F,), n_targets=1,
        **trees("target", VOTES, [0] * 5, nodes_missing_value_tracks_true=[1, 0, 0, 0, 0, 1, 0, 0]),
    ),
    **{
        mode: node_model("TreeEnsembleRegressor", (F,), (F,), n_targets=1, **trees("target", VOTES, [0] * 5, mode))
        for mode in ("BRANCH_LT", "BRANCH_GTE", "BRANCH_GT", "BRANCH_EQ", "BRANCH_NEQ")
    },
    "classes": node_model("TreeEnsembleClassifier", (F,), (N, F), **trees("class", ONES, [0, 1, 2, 1, 0], **THREE)),
    "classes of whole numbers": node_model(
        "TreeEnsembleClassifier", (N,), (N, F), **trees("class", ONES, [0, 1, 2, 1, 0], **THREE)
    ),
    "softmax": node_model(
        "TreeEnsembleClassifier", (F,), (N, F),
        **trees("class", ONES, [0, 1, 2, 1, 0], post_transform="SOFTMAX", base_values=[0.5, 0.25, 0.0], **THREE),
    ),
    "votes for one of two": node_model(
        "TreeEnsembleClassifier", (F,), (N, F), **trees("class", ONES, [0] * 5, classlabels_int64s=[3, 8])
    ),
    "logistic of two": node_model(
        "TreeEnsembleClassifier", (F,), (N, F),
        **trees("class", VOTES, [0] * 5, classlabels_int64s=[3, 8], post_transform="LOGISTIC", base_values=[0.125]),
    ),
    "names of classes": node_model(
        "TreeEnsembleClassifier", (F,), (S, F),
        **trees("class", ONES, [0, 1, 2, 1, 0], classlabels_strings=["a", "é", "c"])
    ),
    **{
        f"regression {kernel}": node_model(
            "SVMRegressor", (F,), (F,), kernel_type=kernel, n_supports=4, rho=[0.5], coefficients=[0.5, 1, -1, 2],
            support_vectors=floats(4, 3).reshape(-1).tolist(), kernel_params=[0.5, 0.25, 3.0],
        )
        for kernel in ("LINEAR", "POLY", "RBF", "SIGMOID")
    },
    "one class": node_model(
        "SVMRegressor", (F,), (F,), rho=[-0.5], coefficients=[0.5, 1, -1], one_class=1, n_supports=0, **FLAT
    ),
    "three machines": node_model("SVMClassifier", (F,), (N, F), kernel_type="RBF", **VECTORS),
    "three rows": node_model(
        "SVMClassifier", (F,), (N, F), **FLAT, rho=[0.5], coefficients=floats(9).tolist(), classlabels_ints=[4, 2, 9]
    ),
    "two machines": node_model("SVMClassifier", (F,), (N, F), kernel_type="LINEAR", **PAIR),
    "two probabilities": node_model("SVMClassifier", (F,), (N, F), kernel_type="LINEAR", **PAIR, **PLATT),
    "three probabilities": node_model(
        "SVMClassifier", (F,), (N, F), kernel_type="POLY", prob_a=[-1.0, -0.5, -2.0], prob_b=[0.1, 0.2, 0.0], **VECTORS
    ),
    "hot": node_model("OneHotEncoder", (S,), (F,), cats_strings=["a", "b", "c"]),
    "hot numbers": node_model("OneHotEncoder", (N,), (F,), cats_int64s=[1, 5, -2]),
    "hot floats": node_model("OneHotEncoder", (F,), (F,), cats_int64s=[1, 0, -2]),
    "columns": node_model("FeatureVectorizer", (F, F), (F,), inputdimensions=[3, 3]),
    "numbers of words": node_model(
        "CategoryMapper", (S,), (N,), cats_strings=["a", "b"], cats_int64s=[9, 7], default_int64=-3
    ),
    "words of numbers": node_model(
        "CategoryMapper", (N,), (S,), cats_strings=["a", "b"], cats_int64s=[1, 2], default_string="?"
    ),
    "many words": node_model(
        "LabelEncoder", (S,), (N,), keys_strings=[*MANY, "a", "word 3"],
        values_int64s=[*range(20), 77, 99], default_int64=5
    ),
    "whole": node_model("Imputer", (N,), (N,), imputed_value_int64s=[10, 20, 30], replaced_value_int64=1),
}  # fmt: skip


def values(model: Any, rows: int) -> dict[str, Array]:
    found: dict[str, Array] = {}
    for k, info in enumerate(model.graph.input):
        of = info.type.tensor_type.elem_type
        if of == S:
            found[info.name] = np.array(["a", "b", "zzz", "word 3", "word 19", "c"] * rows, object)[: rows * 3].reshape(
                rows, 3
            )
        elif of == N:
            found[info.name] = np.random.default_rng(k).integers(-2, 6, (rows, 3))
        else:
            found[info.name] = floats(rows, 3).astype(KINDS[of]) + np.float32(k)
            found[info.name][1:2] = (0.5, -0.5, 0.25)  # just at the thresholds
    return found


def ours(model: Any, given: dict[str, Array]) -> dict[str, Array]:
    strings = Strings()
    module = import_onnx(model, evaluate=graph.evaluate, strings=strings)
    texts = {*text_names(model.graph.input), *text_names(model.graph.output)}
    made = graph.run(module, {n: strings.numbers(a) if n in texts else a for n, a in given.items()})
    return {n: strings.texts(a) if n in texts else a for n, a in made.items()}


def theirs(model: Any, given: dict[str, Array]) -> dict[str, Array]:
    session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    return dict(zip([o.name for o in session.get_outputs()], session.run(None, given), strict=True))


@pytest.mark.parametrize("name", SAME)
def test_models_as_the_runtime_has_them(name: str) -> None:
    for rows in (1, 9):
        given = values(SAME[name], rows)
        if name == "missing":
            given["x0"][3:6, 0] = np.nan
            given["x0"][5:, 1:] = np.nan
        found, wanted = ours(SAME[name], given), theirs(SAME[name], given)
        assert found.keys() == wanted.keys()
        for n, array in wanted.items():
            assert found[n].dtype == array.dtype and found[n].shape == array.shape
            if array.dtype.kind == "f":
                np.testing.assert_allclose(found[n], array, rtol=4e-6, atol=2e-6)
            else:
                assert found[n].tolist() == array.tolist()


@pytest.mark.parametrize(
    "model,said",
    [
        (node_model("TreeEnsembleClassifier", (F,), (N, F),
                    **trees("class", VOTES, [0] * 5, classlabels_int64s=[3, 8])),
         r"some weights below 0, 0 base values, post_transform NONE: runtimes do not agree.*onnx\.C14"),
        (node_model("TreeEnsembleClassifier", (F,), (N, F),
                    **trees("class", ONES, [0, 1, 0, 1, 1], classlabels_int64s=[3, 8])),
         r"leaves that vote for both.*onnx\.C14"),
        (node_model("TreeEnsembleRegressor", (F,), (F,), n_targets=1,
                    **{**trees("target", VOTES, [0] * 5), "nodes_truenodeids": [1, 3, 0, 0, 0, 9, 0, 0]}),
         r"name a node that is not there.*onnx\.C12"),
        (node_model("TreeEnsembleRegressor", (F,), (F,), n_targets=1,
                    **{**trees("target", VOTES, [0] * 5), "nodes_truenodeids": [1, 4, 0, 0, 0, 1, 0, 0]}),
         r"no root, or several.*onnx\.C12"),
        (node_model("TreeEnsembleRegressor", (F,), (F,), n_targets=1,
                    **{**trees("target", VOTES, [0] * 5), "nodes_featureids": [7] * 8}), r"feature that.*onnx\.C12"),
        (node_model("TreeEnsembleRegressor", (F,), (F,), n_targets=2,
                    **trees("target", VOTES, [0] * 5, aggregate_function="MIN")),
         r"do not vote for every target.*onnx\.C14"),
        (node_model("SVMClassifier", (F,), (N, F), **{**PAIR, "rho": [0.1, 0.2]}), r"2 rho.*onnx\.C12"),
        (node_model("SVMClassifier", (F,), (N, F), **{**PAIR, "coefficients": [1.0] * 4}), r"no coefficient below 0"),
        (node_model("FeatureVectorizer", (F,), (F,), inputdimensions=[2]), r"rows of 2 features.*onnx\.C12"),
        (node_model("OneHotEncoder", (S,), (F,), cats_int64s=[1]), r"no categories of the operand's kind.*onnx\.C12"),
    ],
)  # fmt: skip
def test_which_forms_are_not_taken_is_said(model: onnx.ModelProto, said: str) -> None:
    with pytest.raises(AssayError, match=said):
        ours(model, values(model, 2))


def test_a_category_that_is_not_there_may_trap() -> None:
    model = node_model("OneHotEncoder", (N,), (F,), cats_int64s=[1, 5], zeros=0)
    good = {"x0": np.array([[1, 5, 5]])}
    np.testing.assert_array_equal(ours(model, good)["y0"], theirs(model, good)["y0"])
    with pytest.raises(Trap, match=r"none of the categories"):
        ours(model, {"x0": np.array([[1, 5, 4]])})


def test_thresholds_that_are_doubles_are_compared_as_such() -> None:
    """A feature between the threshold and the float32 next to it."""
    attrs = trees("target", VOTES, [0] * 5)
    exact = np.array(attrs.pop("nodes_values"), np.float64) + 1e-12
    attrs["nodes_values_as_tensor"] = numpy_helper.from_array(exact, "v")
    x = np.array([[0.5 + 5e-13, 0, 0], [0.5 + 2e-12, 0, 0]])
    model = node_model("TreeEnsembleRegressor", (D,), (F,), n_targets=1, **attrs)
    assert ours(model, {"x0": x})["y0"].reshape(-1).tolist() == [-2.0 + 0.75, 0.5 + 0.75]
