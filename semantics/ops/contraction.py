"""Contractions: matrix products and convolutions (specs/semantics.md, "Contraction").

In the tensor IR products are added one after another, each step rounded in the operator's dtype. The value here is
another member of the allowed set: BLAS's order and, for floats of less than 32 bits, a float32 accumulator that is
rounded once. A convolution is a matrix product of the weights with all windows of the input, a few rows at a time.
"""

from __future__ import annotations

from collections.abc import Callable
from math import prod
from typing import Any

import numpy as np

from assay.semantics.arrays import is_plain
from assay.semantics.bounds import widen, windows
from assay.semantics.dtypes import dtype
from assay.semantics.errors import Trap
from assay.semantics.operator import Attr, Attrs, Example, Operator
from assay.semantics.ops.common import broadcast_shapes, require_kind, same_dtype
from assay.semantics.ops.reduction import accumulator
from assay.semantics.ops.sizes import floor_div, is_int
from assay.semantics.scalar import NUMERIC, Dim, provably_equal, show, simplify
from assay.semantics.types import TensorType

BLOCK = 1 << 22
"""Elements of the matrix of windows that exist at a time."""

BOUND = (
    "(K + 8) unit roundoffs of the sum of magnitudes of the K products, in any order; the 8 are for a scale folded into"
    " the weights; integers exact"
)

# --- matmul ------------------------------------------------------------------------------------------------------


def matmul_product(a: Any, b: Any) -> Any:
    """numpy.matmul of arrays, intervals or terms, in their own dtype."""
    if not is_plain(a) or not is_plain(b):
        return np.matmul(a, b)
    of = dtype(a.dtype)
    if of.is_integer:
        return _whole_product(a, b)
    wide = accumulator(a.dtype)
    return np.asarray(np.matmul(a.astype(wide, copy=False), b.astype(wide, copy=False))).astype(a.dtype, copy=False)


def _whole_product(a: Any, b: Any) -> Any:
    """Integers wrap. Where all sums are exact in float64, BLAS adds them; that is many times as fast."""
    largest = [float(np.abs(x.astype(np.float64)).max(initial=0)) for x in (a, b)]
    if a.shape[-1] * largest[0] * largest[1] < 2.0**53:
        total = np.matmul(a.astype(np.float64), b.astype(np.float64))
        return np.asarray(total).astype(np.int64).astype(a.dtype)
    # modulo 2**64, unsigned ones too
    return np.asarray(np.matmul(a.astype(np.int64), b.astype(np.int64))).astype(a.dtype)


def _matmul_type(attrs: Attrs, types: tuple[TensorType, ...]) -> TensorType:
    a, b = types
    of = same_dtype("matmul", types)
    require_kind("matmul", of, NUMERIC)
    MATMUL.require(a.ndim > 0 and b.ndim > 0, "C1", f"operands are {a} and {b}; each needs an axis at least")
    inner_a, inner_b = a.shape[-1], b.shape[-2] if b.ndim > 1 else b.shape[0]
    MATMUL.require(
        provably_equal(inner_a, inner_b),
        "C2",
        f"the last axis of {a} is {show(inner_a)}, but the {'last but one' if b.ndim > 1 else 'only'} axis of {b}"
        f" is {show(inner_b)}",
    )
    batch = broadcast_shapes("matmul", [a.shape[:-2], b.shape[:-2]])
    return TensorType((*batch, *a.shape[-2:-1], *(b.shape[-1:] if b.ndim > 1 else ())), of)


MATMUL = Operator(
    "matmul",
    "The matrix product over the last axis of a and the last but one of b, the axes before these broadcast; an operand"
    " with one axis is a row in place of a, a column in place of b, and its axis of size 1 is dropped",
    ("a", "b"),
    "contraction",
    _matmul_type,
    lambda attrs, a, b: matmul_product(a, b),
    BOUND,
    (
        Example((((2, 3), "float32"), ((3, 5), "float32"))),
        Example((((7, 2, 3), "float32"), ((3, 5), "float32"))),
        Example((((7, 1, 2, 3), "float32"), ((4, 3, 5), "float32"))),
        Example((((3,), "float32"), ((3, 5), "float32"))),
        Example((((4, 2, 3), "float32"), ((3,), "float32"))),
        Example((((6,), "float32"), ((6,), "float32"))),
        Example((((2, 0), "float32"), ((0, 3), "float32"))),
        Example((((2, 3), "int8"), ((3, 5), "int8"))),
    ),
    constraints={"C1": "neither operand is a scalar", "C2": "the axes that are summed over have one size"},
    source="ONNX MatMul, docs/Operators.md; TVM relax.op.matmul; numpy.matmul",
)

# --- convolution -------------------------------------------------------------------------------------------------


def spatial_size(attrs: Attrs, axis: int, size: Dim, taps: Dim) -> Dim:
    """How many windows of `taps` elements there are along a spatial axis: floor((padded - span) / stride) + 1."""
    rank = len(attrs["strides"])
    padding = attrs["padding"][axis] + attrs["padding"][axis + rank]
    span = simplify((taps - 1) * attrs["dilation"][axis] + 1)
    stride: int = attrs["strides"][axis]
    return floor_div(simplify(simplify(size + (padding + stride)) - span), stride)


def _conv(name: str, attrs: Attrs, x: Any, w: Any, bias: Any = None) -> Any:
    """`x` has shape (N, C, *spatial), `w` (O, C / groups, *window) and `bias` (O,)."""
    images, sizes = x.shape[0], x.shape[2:]
    features, depth, *window = w.shape
    rank, groups = len(window), attrs["groups"]
    counts = [spatial_size(attrs, k, s, n) for k, (s, n) in enumerate(zip(sizes, window, strict=True))]
    plane = [p for p in counts if isinstance(p, int) and p >= 1]
    if len(plane) < rank:
        raise Trap("shape", f"{name}: a window {tuple(window)} does not fit {x.shape}", label=f"{name}.T1")
    padding = attrs["padding"]
    if any(padding):
        x = np.pad(x, [(0, 0), (0, 0), *zip(padding[:rank], padding[rank:], strict=True)])
    # (N, C, *plane, *window) as (N, groups, C / groups, *window, *plane): a view
    taps = windows(x, window, attrs["strides"], attrs["dilation"]).reshape((images, groups, depth, *plane, *window))
    taps = np.transpose(taps, (0, 1, 2, *range(3 + rank, 3 + 2 * rank), *range(3, 3 + rank)))
    terms = depth * prod(window)
    weights = w.reshape((groups, features // groups, terms))
    row = images * groups * terms * prod(plane[1:])
    step = max(1, BLOCK // max(1, row))
    parts = []
    for first in range(0, plane[0], step):
        part = taps[(slice(None),) * (3 + rank) + (slice(first, first + step),)]
        columns = part.reshape((images, groups, terms, prod(part.shape[3 + rank :])))
        parts.append(matmul_product(weights, columns))
    y = parts[0] if len(parts) == 1 else np.concatenate(parts, axis=-1)
    y = y.reshape((images, features, *plane))
    if bias is None:
        return y
    bias = bias.reshape((features, *(1,) * rank))
    # the sum may also start from the bias: then each of its steps rounds at the bias's size too
    return widen(y + bias, lambda: (bias,), roundings=terms)


def _numbers(value: object, count: int, least: int) -> bool:
    return isinstance(value, tuple) and len(value) == count and all(is_int(v, least) for v in value)


def _conv_rule(rank: int, name: str, require: Callable[[bool, str, str], None]) -> Callable[..., TensorType]:
    def rule(attrs: Attrs, types: tuple[TensorType, ...]) -> TensorType:
        x, w, *bias = types
        of = same_dtype(name, types)
        require_kind(name, of, NUMERIC)
        require(
            x.ndim == rank + 2 and w.ndim == rank + 2,
            "C1",
            f"x is {x} and w is {w}; {rank + 2} axes each are wanted: x[N, C, *spatial], w[O, C / groups, *window]",
        )
        for attr in ("strides", "dilation"):
            require(
                _numbers(attrs[attr], rank, 1),
                "C2",
                f"{attr} is {attrs[attr]!r}; a tuple of {rank} positive integers is wanted",
            )
        require(
            _numbers(attrs["padding"], 2 * rank, 0),
            "C3",
            f"padding is {attrs['padding']!r}; a tuple of {2 * rank} integers of at least 0 is wanted: those before"
            " each spatial axis, then those after",
        )
        groups = attrs["groups"]
        require(is_int(groups, 1), "C4", f"groups is {groups!r}; a positive integer is wanted")
        require(
            provably_equal(x.shape[1], simplify(w.shape[1] * groups)),
            "C5",
            f"x has {show(x.shape[1])} channels; w takes {show(w.shape[1])} for each of {groups} groups",
        )
        features = w.shape[0]
        whole = features % groups == 0 if isinstance(features, int) else _multiple(features, groups)
        require(whole, "C6", f"{show(features)} features do not divide into {groups} groups")
        if bias:
            require(
                bias[0].ndim == 1 and provably_equal(bias[0].shape[0], features),
                "C7",
                f"bias is {bias[0]}; one number for each of {show(features)} features is wanted",
            )
        shape: list[Dim] = [x.shape[0], features]
        for k, (size, taps) in enumerate(zip(x.shape[2:], w.shape[2:], strict=True)):
            count = spatial_size(attrs, k, size, taps)
            require(
                (not isinstance(count, int) or count >= 1) and not (isinstance(taps, int) and taps < 1),
                "C8",
                f"a window of {show(taps)} elements, {attrs['dilation'][k]} apart, does not fit axis {k + 2} of size"
                f" {show(size)} padded by {attrs['padding'][k]} and {attrs['padding'][k + rank]}",
            )
            shape.append(count)
        return TensorType(tuple(shape), of)

    return rule


def _multiple(dim: Dim, of: int) -> bool:
    """Whether a symbolic dim is a multiple of a number for all values of its symbols, as far as it can be shown."""
    return provably_equal(simplify(floor_div(dim, of) * of), dim)


def _convolution(rank: int) -> Operator:
    name = f"nn.conv{rank}d"
    spatial = f"{rank} spatial axes" if rank > 1 else "one spatial axis"
    op = Operator(
        name,
        f"The sum of the products of w with each window of x[N, C, ...] over {spatial}, for each of w's features, plus"
        " bias; x is padded with zeros, and the features of a group see the channels of that group only",
        ("x", "w", "bias?"),
        "contraction",
        _conv_rule(rank, name, lambda holds, label, message: op.require(holds, label, message)),
        lambda attrs, *operands: _conv(name, attrs, *operands),
        BOUND,
        _examples(rank),
        {
            "strides": Attr("the distance between the starts of neighbouring windows", (1,) * rank),
            "padding": Attr("the padding before each spatial axis, then that after each", (0,) * (2 * rank)),
            "dilation": Attr("the distance between neighbouring elements of a window", (1,) * rank),
            "groups": Attr("into how many groups channels and features are divided", 1),
        },
        {
            "C1": f"x and w have {rank + 2} axes",
            "C2": f"strides and dilation are {rank} positive integers each",
            "C3": f"padding is {2 * rank} integers, none negative",
            "C4": "groups is a positive integer",
            "C5": "x has groups times as many channels as w takes",
            "C6": "the number of features is a multiple of groups",
            "C7": "bias has one element for each feature",
            "C8": "windows are not empty, and at least one fits each spatial axis",
        },
        can_trap=True,
        source=f"ONNX Conv, docs/Operators.md; TVM relax.op.nn.conv{rank}d",
    )
    return op


def _examples(rank: int) -> tuple[Example, ...]:
    """Plain; biased, strided and padded unevenly; dilated; in groups; one channel for each group; a window of one."""
    size, window, images = (6, 7, 8)[:rank], (3, 2, 4)[:rank], 1 if rank == 3 else 2
    uneven = (1, 0, 2)[:rank] + (2, 1, 0)[:rank]

    def use(c: int, o: int, window: tuple[int, ...], bias: bool = False, of: str = "float32", **attrs: Any) -> Example:
        depth = c // attrs.get("groups", 1)
        shapes: list[tuple[int, ...]] = [(images, c, *size), (o, depth, *window)] + ([(o,)] if bias else [])
        return Example(tuple((s, of) for s in shapes), attrs)

    return (
        use(5, 6, window),
        use(5, 6, window, bias=True, strides=(2, 3, 1)[:rank], padding=uneven),
        use(5, 6, window, dilation=(2, 3, 1)[:rank], padding=uneven),
        use(10, 6, window, groups=2),
        use(4, 12, window, bias=True, groups=4, padding=uneven),
        use(9, 9, window, groups=9, strides=(2, 1, 3)[:rank]),
        use(3, 5, (1,) * rank),
        use(5, 6, window, of="int8"),
    )


TABLE: tuple[Operator, ...] = (MATMUL, *(_convolution(rank) for rank in (1, 2, 3)))
