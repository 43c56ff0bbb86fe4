"""Calls of one operator on arrays, data for them, and what onnxruntime makes of the same."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from assay.semantics.dtypes import dtype
from assay.semantics.graph import call, var
from assay.semantics.ops import operator
from assay.semantics.types import TensorType, TupleType


def compute(name: str, *arrays: Any, **attrs: Any) -> Any:
    """The value of a call, which has the type that its type rule says."""
    node = call(name, *(var(f"x{i}", TensorType(a.shape, dtype(a.dtype))) for i, a in enumerate(arrays)), **attrs)
    result = operator(name).value(node.attrs, *arrays)
    pairs = zip(result, node.type.fields, strict=True) if isinstance(node.type, TupleType) else [(result, node.type)]
    for value, type_ in pairs:
        assert isinstance(value, np.ndarray)
        assert isinstance(type_, TensorType)
        assert value.shape == type_.shape and dtype(value.dtype) is type_.dtype
    return result


def same(a: Any, b: Any) -> bool:
    """Equal bit for bit, but for what is in a NaN."""
    a, b = np.asarray(a), np.asarray(b)
    if a.shape != b.shape or a.dtype != b.dtype:
        return False
    if not dtype(a.dtype).is_float:
        return bool((a == b).all())
    both = np.isnan(a) & np.isnan(b)
    return bool((both | ((a == b) & (np.signbit(a) == np.signbit(b)))).all())


def sample(shape: tuple[int, ...], of: str, seed: int = 0, special: bool = False) -> np.ndarray[Any, Any]:
    """Small numbers; with `special` many of them NaN, infinite or a zero of either sign."""
    rng = np.random.default_rng(seed)
    kind = dtype(of)
    if not kind.is_float:
        bits = np.asarray(rng.integers(0, 2**64 - 1, shape, np.uint64, endpoint=True))
        return np.asarray((bits & np.uint64(1) if of == "bool" else bits.view(np.int64)).astype(kind.numpy))
    x = np.asarray(rng.standard_normal(shape) * 3)
    if special:
        odd = rng.choice(
            [np.nan, np.inf, -np.inf, 0.0, -0.0, -0.0, 1e-40], shape, p=[0.04, 0.04, 0.04, 0.1, 0.3, 0.3, 0.18]
        )
        x = np.where(rng.random(shape) < 0.8, odd, x)
    return x.astype(kind.numpy)


def onnxruntime_result(op: str, opset: int, inputs: list[Any], attrs: dict[str, Any]) -> Any:
    onnx = pytest.importorskip("onnx")
    ort = pytest.importorskip("onnxruntime")
    names = [f"x{i}" for i in range(len(inputs))]
    values = [
        onnx.helper.make_tensor_value_info(n, onnx.helper.np_dtype_to_tensor_dtype(x.dtype), x.shape)
        for n, x in zip(names, inputs, strict=True)
    ]
    out = onnx.helper.make_empty_tensor_value_info("y")
    graph = onnx.helper.make_graph([onnx.helper.make_node(op, names, ["y"], **attrs)], "g", values, [out])
    model = onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", opset)], ir_version=10)
    options = ort.SessionOptions()
    options.intra_op_num_threads = 1
    options.log_severity_level = 4
    session = ort.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
    return session.run(None, dict(zip(names, inputs, strict=True)))[0]
