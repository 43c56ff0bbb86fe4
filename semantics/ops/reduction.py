"""Reductions: one value for all elements along some axes (specs/semantics.md, "Reduction").

In the tensor IR the elements are taken in row-major order of the reduced axes, each step rounded in the operator's
dtype. The value here is another member of the allowed set: NumPy's pairwise order and, for floats of less than 32
bits, a float32 accumulator that is rounded once.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from assay.semantics.arrays import as_array
from assay.semantics.bounds import Bounded
from assay.semantics.dtypes import dtype
from assay.semantics.errors import Trap
from assay.semantics.operator import Attr, Attrs, Example, Operator
from assay.semantics.ops.common import normalize_axes, require_kind
from assay.semantics.ops.sizes import is_int
from assay.semantics.scalar import ANY, NUMERIC, Dim
from assay.semantics.types import TensorType

Axes = tuple[int, ...] | None

ATTRS = {
    "axis": Attr("the axes that are reduced, negative ones counted from the end; None for all", None),
    "keepdims": Attr("whether a reduced axis stays, with size 1", False),
}
EXAMPLES = (
    Example((((2, 3, 5), "float32"),)),
    Example((((2, 3, 5), "float32"),), {"axis": (1,)}),
    Example((((2, 3, 5), "float32"),), {"axis": (-1, 0), "keepdims": True}),
    Example((((3, 2), "float32"),), {"axis": ()}),
    Example(((((), "float32")),)),
)
INTEGER_EXAMPLES = (Example((((3, 4), "int8"),), {"axis": (0,)}),)


# --- values -------------------------------------------------------------------------------------------------------


def accumulator(of: np.dtype[Any]) -> np.dtype[Any]:
    """The dtype in which an array of `of` is summed: rounded, or wrapped, once at the end where it is a wider one."""
    kind = dtype(of)
    if kind.is_float:
        return of if kind.bits >= 32 else np.dtype(np.float32)
    return of if kind.bits >= 8 else np.dtype(np.int64)


def total(x: Any, axis: Axes, keepdims: bool = False) -> Any:
    """The sum along some axes, starting from +0."""
    if isinstance(x, Bounded):
        return x.sum(axis=axis, keepdims=keepdims)
    result = np.sum(x, axis=axis, keepdims=keepdims, dtype=accumulator(x.dtype), initial=0)
    return as_array(result, x.dtype)


def _prod(x: Any, axis: Axes, keepdims: bool) -> Any:
    if isinstance(x, Bounded):
        return x.prod(axis=axis, keepdims=keepdims)
    result = np.prod(x, axis=axis, keepdims=keepdims, dtype=accumulator(x.dtype), initial=1)
    return as_array(result, x.dtype)


def _mean(x: Any, axis: Axes, keepdims: bool) -> Any:
    if isinstance(x, Bounded):
        return x.mean(axis=axis, keepdims=keepdims)
    wide = accumulator(x.dtype)
    result = np.sum(x, axis=axis, keepdims=keepdims, dtype=wide, initial=0)
    return as_array(result / wide.type(elements(x.shape, axis)), x.dtype)


def elements(shape: tuple[int, ...], axis: Axes) -> int:
    """How many elements each result of a reduction takes."""
    count = 1
    for a in range(len(shape)) if axis is None else axis:
        count *= shape[a]
    return count


def negative_zeros(x: Any) -> bool:
    """Whether an array holds -0: only then does NumPy's maximum or minimum leave a sign open."""
    return not isinstance(x, Bounded) and dtype(x.dtype).is_float and bool(np.any((x == 0) & np.signbit(x)))


def signed_zeros(result: Any, positive: Any) -> Any:
    """`result` with each zero +0 where `positive` holds, else -0."""
    zero = result.dtype.type(0)
    return np.where(result == 0, np.where(positive, zero, -zero), result)


def _extreme(name: str, x: Any, axis: Axes, keepdims: bool) -> Any:
    if 0 in [x.shape[a] for a in (range(x.ndim) if axis is None else axis)]:
        raise Trap("shape", f"{name} of no elements: an axis that is reduced has size 0", label=f"{name}.T1")
    reduce: Callable[..., Any] = np.max if name == "max" else np.min
    result = reduce(x, axis=axis, keepdims=keepdims)
    if isinstance(x, Bounded):
        return result
    result = as_array(result, x.dtype)  # 4-bit integers come out as int8
    if negative_zeros(x):
        # -0 is below +0 (rule M5): the larger zero is +0 where there is one, the smaller where there is no -0
        zero, sign = x == 0, np.signbit(x)
        if name == "max":
            positive = np.any(zero & ~sign, axis=axis, keepdims=keepdims)
        else:
            positive = ~np.any(zero & sign, axis=axis, keepdims=keepdims)
        result = signed_zeros(result, positive)
    return result


# --- records ------------------------------------------------------------------------------------------------------


def _reduction(
    name: str,
    doc: str,
    kinds: tuple[str, ...],
    value: Callable[[Any, Axes, bool], Any],
    bound: str,
    onnx: str,
    examples: tuple[Example, ...],
    empty: bool = True,
) -> Operator:
    constraints = {
        "C1": "axis is None or a tuple of integers",
        "C2": "keepdims is True or False",
    }
    if not empty:
        constraints["C3"] = "no reduced axis has size 0"

    def rule(attrs: Attrs, types: tuple[TensorType, ...]) -> TensorType:
        (x,) = types
        axis, keepdims = attrs["axis"], attrs["keepdims"]
        require_kind(name, x.dtype, kinds)
        op.require(
            axis is None or (isinstance(axis, tuple) and all(map(is_int, axis))),
            "C1",
            f"axis is {axis!r}; a tuple of integers such as (0, -1) is wanted, or None for all axes",
        )
        op.require(isinstance(keepdims, bool), "C2", f"keepdims is {keepdims!r}, not True or False")
        axes = normalize_axes(name, axis, x.ndim)
        if not empty:
            none = [a for a in axes if isinstance(x.shape[a], int) and x.shape[a] == 0]
            op.require(not none, "C3", f"axes {none} of {x} have size 0, and {name} of no elements has no value")
        kept: tuple[Dim, ...] = (1,) if keepdims else ()
        shape: tuple[Dim, ...] = ()
        for a, d in enumerate(x.shape):
            shape += kept if a in axes else (d,)
        return TensorType(shape, x.dtype)

    op = Operator(
        name, doc, ("x",), "reduction", rule,
        lambda attrs, x: value(x, attrs["axis"], attrs["keepdims"]),
        bound, examples, ATTRS, constraints,
        can_trap=not empty,
        source=f"ONNX {onnx}, docs/Operators.md; TVM relax.op.{name}",
    )  # fmt: skip
    return op


TABLE: tuple[Operator, ...] = (
    _reduction(
        "sum",
        "The sum of the elements along the reduced axes, 0 if there are none; integers wrap",
        NUMERIC,
        total,
        "(n - 1) unit roundoffs of the sum of magnitudes for n elements, in any order; integers exact",
        "ReduceSum",
        (*EXAMPLES, *INTEGER_EXAMPLES),
    ),
    _reduction(
        "mean",
        "The sum of the elements along the reduced axes, divided by their number; NaN if there are none",
        ("float",),
        _mean,
        "the bound of the sum, divided by the number of elements, and half an ulp; anything if there are none",
        "ReduceMean",
        EXAMPLES,
    ),
    _reduction(
        "prod",
        "The product of the elements along the reduced axes, 1 if there are none; integers wrap",
        NUMERIC,
        _prod,
        "(n - 1) unit roundoffs of the product's magnitude for n elements, in any order; integers exact",
        "ReduceProd",
        (*EXAMPLES, *INTEGER_EXAMPLES),
    ),
    _reduction(
        "max",
        "The largest element along the reduced axes; NaN if one is NaN; +0 is larger than -0",
        ANY,
        lambda x, axis, keepdims: _extreme("max", x, axis, keepdims),
        "exact",
        "ReduceMax",
        (*EXAMPLES, *INTEGER_EXAMPLES),
        empty=False,
    ),
    _reduction(
        "min",
        "The smallest element along the reduced axes; NaN if one is NaN; -0 is smaller than +0",
        ANY,
        lambda x, axis, keepdims: _extreme("min", x, axis, keepdims),
        "exact",
        "ReduceMin",
        (*EXAMPLES, *INTEGER_EXAMPLES),
        empty=False,
    ),
)
