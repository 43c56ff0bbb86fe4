"""Scalers and linear models of ai.onnx.ml, on any number of rows, beside ONNX Runtime."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import TensorProto, helper

from assay.interp import graph
from assay.lower.frontends.onnx.model import import_onnx
from assay.semantics.errors import AssayError
from tests.lower.frontends.onnx.onnx_cases import Array, floats

WEIGHTS = floats(3, 4)


def _model(op: str, outputs: tuple[int, ...] = (TensorProto.FLOAT,), **attrs: Any) -> onnx.ModelProto:
    names = [f"y{i}" for i in range(len(outputs))]
    node = helper.make_node(op, ["x"], names, domain="ai.onnx.ml", **attrs)
    given = [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["rows", 4])]
    made = [helper.make_tensor_value_info(n, of, None) for n, of in zip(names, outputs, strict=True)]
    sets = [helper.make_opsetid("ai.onnx.ml", 1), helper.make_opsetid("", 17)]
    return helper.make_model(helper.make_graph([node], "g", given, made), opset_imports=sets, ir_version=8)


def _linear(**more: Any) -> dict[str, Any]:
    return {"coefficients": WEIGHTS.reshape(-1).tolist(), "intercepts": [0.5, -1.0, 2.0], **more}


BOTH = (TensorProto.INT64, TensorProto.FLOAT)
MODELS = {
    "scaler": _model("Scaler", offset=[0.5, 1, -1, 2], scale=[2.0, 3, 0.5, 1]),
    "scaler of one number": _model("Scaler", offset=[0.5], scale=[2.0]),
    "regressor": _model("LinearRegressor", targets=3, **_linear()),
    "classifier": _model("LinearClassifier", BOTH, classlabels_ints=[7, -2, 5], **_linear()),
    "softmax": _model("LinearClassifier", BOTH, classlabels_ints=[7, -2, 5], **_linear(post_transform="SOFTMAX")),
    "logistic": _model("LinearClassifier", BOTH, classlabels_ints=[0, 1, 2], **_linear(post_transform="LOGISTIC")),
    "L1": _model("Normalizer", norm="L1"),
    "L2": _model("Normalizer", norm="L2"),
    "imputer": _model("Imputer", imputed_value_floats=[1.0, 2, 3, 4], replaced_value_float=float("nan")),
    "imputer of a number": _model("Imputer", imputed_value_floats=[9.0], replaced_value_float=0.0),
}


def _ours(model: onnx.ModelProto, x: Array) -> dict[str, Array]:
    return graph.run(import_onnx(model, evaluate=graph.evaluate), {"x": x})


@pytest.mark.parametrize("rows", [0, 1, 7])
@pytest.mark.parametrize("name", MODELS)
def test_as_the_runtime_has_it(name: str, rows: int) -> None:
    """Zeros and a NaN among the features: a row of zeros has no norm, and what is missing is either."""
    x = floats(rows, 4)
    x[3:4] = 0
    if "imputer" in name:
        x[1:2, 2:] = np.nan
    session = onnxruntime.InferenceSession(MODELS[name].SerializeToString(), providers=["CPUExecutionProvider"])
    wanted = dict(zip([o.name for o in session.get_outputs()], session.run(None, {"x": x}), strict=True))
    found = _ours(MODELS[name], x)
    assert found.keys() == wanted.keys()
    for n, array in wanted.items():
        assert found[n].dtype == array.dtype
        np.testing.assert_allclose(found[n], array, rtol=2e-6, atol=1e-6)


@pytest.mark.parametrize(
    "model,said",
    [
        (_model("Scaler", offset=[1.0, 2], scale=[1.0]), r"offset has 2 numbers.*onnx\.C12"),
        (_model("LinearRegressor", targets=2, **_linear()), r"12 coefficients and 3 intercepts for 2.*onnx\.C12"),
        (_model("LinearRegressor", targets=3, **_linear(post_transform="PROBIT")), r"PROBIT.*onnx\.C14"),
        (_model("LinearClassifier", BOTH, classlabels_ints=[0, 1], coefficients=[1.0] * 4), r"one row.*onnx\.C14"),
        (_model("Normalizer", norm="MAX"), r"norm MAX.*onnx\.C14"),
    ],
)
def test_what_is_not_taken_is_said(model: onnx.ModelProto, said: str) -> None:
    with pytest.raises(AssayError, match=said):
        _ours(model, floats(2, 4))
