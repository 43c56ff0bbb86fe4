"""Creation: values from attributes and shapes alone (specs/semantics.md, "Creation")."""

from __future__ import annotations

from math import isfinite
from typing import Any

import numpy as np

from assay.semantics.dtypes import INT64, DType, dtype
from assay.semantics.operator import Attr, Attrs, Example, Operator
from assay.semantics.ops.sizes import is_dim
from assay.semantics.scalar import simplify
from assay.semantics.types import TensorType


def number_fits(value: object, of: DType) -> bool:
    """Whether a Python number is one of `of`: a float dtype takes any and rounds it, the others take no other value."""
    if not isinstance(value, (bool, int, float)):
        return False
    if of.is_float:
        return isinstance(value, float) or abs(value) < 2**1023
    return isfinite(value) and value == int(value) and of.min <= value <= of.max


def fitted_scalar(value: float, of: DType) -> Any:
    """A number that fits, as a NumPy scalar of `of`."""
    with np.errstate(all="ignore"):
        return np.asarray(value).astype(of.numpy)[()]


def _full_type(attrs: Attrs, types: tuple[TensorType, ...]) -> TensorType:
    shape, fill = attrs["shape"], attrs["fill_value"]
    FULL.require(
        isinstance(shape, tuple) and all(map(is_dim, shape)), "C1", f"shape is {shape!r}; a tuple of sizes is wanted"
    )
    of = dtype(attrs["dtype"])
    FULL.require(number_fits(fill, of), "C2", f"fill_value is {fill!r}, which is no number of {of}")
    return TensorType(tuple(map(simplify, shape)), of)


def _full(attrs: Attrs) -> Any:
    of = dtype(attrs["dtype"])
    return np.full(attrs["shape"], fitted_scalar(attrs["fill_value"], of), of.numpy)


FULL = Operator(
    "full",
    "A tensor whose elements are all one number, rounded to the dtype",
    (),
    "creation",
    _full_type,
    _full,
    "exact",
    (
        Example((), {"shape": (2, 3), "fill_value": 1.5, "dtype": "float32"}),
        Example((), {"shape": (), "fill_value": -7, "dtype": "int8"}),
        Example((), {"shape": (0, 3), "fill_value": 0.1, "dtype": "float16"}),
        Example((), {"shape": (4,), "fill_value": True, "dtype": "bool"}),
    ),
    attrs={
        "shape": Attr("the sizes of the result"),
        "fill_value": Attr("the number"),
        "dtype": Attr("the name of its dtype", "float32"),
    },
    constraints={
        "C1": "shape is a tuple of sizes",
        "C2": "fill_value is a number; for an integer or bool dtype one that the dtype has",
    },
    source="TVM relax.op.full; ONNX ConstantOfShape, docs/Operators.md",
)


def _shape_of_type(attrs: Attrs, types: tuple[TensorType, ...]) -> TensorType:
    return TensorType((types[0].ndim,), INT64)


SHAPE_OF = Operator(
    "shape_of",
    "The sizes of the operand's axes as a vector of int64",
    ("x",),
    "creation",
    _shape_of_type,
    lambda attrs, x: np.array(x.shape, np.int64),
    "exact",
    (Example((((2, 3, 5), "float32"),)), Example((((), "int8"),))),
    source="ONNX Shape, docs/Operators.md; TVM relax.op.shape_of",
)

TABLE: tuple[Operator, ...] = (FULL, SHAPE_OF)
