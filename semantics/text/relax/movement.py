"""Relax operators: views, and the same elements at other places (specs/semantics.md, "Text")."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from typing import Any

import numpy as np

from assay.semantics.dtypes import INT64, dtype
from assay.semantics.errors import Invalid
from assay.semantics.graph import Call, Expr
from assay.semantics.ops.common import normalize_axis
from assay.semantics.ops.sizes import ceil_div, product
from assay.semantics.scalar import Const, Dim, Expr as Scalar, apply, simplify
from assay.semantics.text.relax.build import (
    MISSING,
    Build,
    RelaxCall,
    Row,
    Shape,
    as_list,
    direct,
    make_row,
    plain,
)

# --- views --------------------------------------------------------------------------------------------------------


def _reshape(b: Build, x: Expr, shape: Any) -> Expr:
    dims = list(b.shape(shape))
    for i, d in enumerate(dims):
        if isinstance(d, int) and d == 0 and i < b.tensor(x).ndim and 0 not in b.tensor(x).shape:
            dims[i] = b.tensor(x).shape[i]  # as in ONNX: 0 keeps the size
    return b.call("reshape", x, shape=tuple(dims))


def _squeeze(b: Build, x: Expr, axis: Any) -> Expr:
    axes = b.axes(axis)
    if axes is None:
        axes = tuple(i for i, d in enumerate(b.tensor(x).shape) if isinstance(d, int) and d == 1)
    return b.call("squeeze", x, axis=axes)


def _expand_dims(b: Build, x: Expr, axis: Any) -> Expr:
    b.tensor(x)
    return b.call("expand_dims", x, axis=b.axes(axis))


def _flatten(b: Build, x: Expr) -> Expr:
    return b.call("reshape", x, shape=(product(b.tensor(x).shape),))


def _batch_flatten(b: Build, x: Expr) -> Expr:
    first, *rest = b.tensor(x).shape
    return b.call("reshape", x, shape=(first, product(rest)))


def _broadcast_to(b: Build, x: Expr, shape: Any) -> Expr:
    b.tensor(x)
    return b.call("broadcast_to", x, shape=b.shape(shape))


# --- joining and cutting ------------------------------------------------------------------------------------------


def _concat(b: Build, tensors: Any, axis: int | None) -> Expr:
    parts = b.tensors(tensors)
    if axis is None:
        return b.call("concat", *(_flatten(b, p) for p in parts), axis=0)
    return b.call("concat", *parts, axis=axis)


def _stack(b: Build, tensors: Any, axis: int) -> Expr:
    parts = b.tensors(tensors)
    axis = normalize_axis("R.stack", axis, b.tensor(parts[0]).ndim + 1)
    return b.call("concat", *(b.call("expand_dims", p, axis=(axis,)) for p in parts), axis=axis)


def _split(b: Build, x: Expr, indices_or_sections: Any, axis: int) -> Expr:
    t, cuts = b.tensor(x), indices_or_sections
    size = t.shape[normalize_axis("R.split", axis, t.ndim)]
    sections: list[Dim]
    if isinstance(cuts, int):
        if cuts < 1:
            raise Invalid(f"R.split into {cuts} sections", label="relax.C3")
        each = ceil_div(size, cuts)
        sections = [each] * (cuts - 1)
        sections.append(simplify(size - each * (cuts - 1)))
        if isinstance(sections[-1], int) and sections[-1] < 0:
            raise b.unsupported(f"an axis of {size} in {cuts} sections")
    else:
        ends = [min(c, size) if isinstance(c, int) and isinstance(size, int) else apply("min", c, size) for c in cuts]
        sections = [simplify(q - p) for p, q in pairwise([0, *ends, size])]
    return b.call("split", x, sections=tuple(sections), axis=axis)


def _strided_slice(b: Build, x: Expr, axes: Any, begin: Any, end: Any, strides: Any, *, assume_inbound: Any) -> Expr:
    b.tensor(x)
    places = [_places(b, v) for v in (axes, begin, end)]
    steps = None if strides is None else _places(b, strides)
    return b.call("strided_slice", x, axes=places[0], begin=places[1], end=places[2], strides=steps)


def _places(b: Build, value: Any) -> tuple[Dim, ...]:
    if isinstance(value, Expr):
        return b.shape(value)
    value = plain(value)
    if isinstance(value, int):
        return (value,)
    if isinstance(value, tuple) and all(isinstance(v, (int, Scalar)) for v in value):
        return value
    raise Invalid(f"R.{b.name} takes tuples of integers", label="relax.C3")


def _flip(b: Build, x: Expr, axis: int) -> Expr:
    b.tensor(x)
    return b.call("strided_slice", x, axes=(axis,), begin=(-1,), end=(-(2**63),), strides=(-1,))


def _take(b: Build, x: Expr, indices: Any, axis: int | None, mode: str) -> Expr:
    if axis is None:
        if b.tensor(x).ndim != 1:
            x = _flatten(b, x)
        axis = 0
    if not isinstance(indices, Expr):
        indices = b.constant(b.number(indices), INT64)
    size = b.tensor(x).shape[normalize_axis("R.take", axis, b.tensor(x).ndim)]
    if mode in ("clip", "wrap"):
        if not isinstance(size, int):
            raise b.unsupported(f"mode {mode!r} and an axis of unknown size")
        if mode == "clip":
            indices = b.call("clip", indices, min=0, max=size - 1)
        else:
            whole = b.call("floor_divide", indices, b.like(indices, size))
            indices = b.call("subtract", indices, b.call("multiply", whole, b.like(indices, size)))
    elif mode != "fast":
        raise b.unsupported(f"mode {mode!r}")
    return b.call("take", x, indices, axis=axis)


# --- repetition ---------------------------------------------------------------------------------------------------


def _tile(b: Build, x: Expr, repeats: Any) -> Expr:
    times = b.axes(repeats) or ()
    shape = b.tensor(x).shape
    rank = max(len(times), len(shape))
    counts = (1,) * (rank - len(times)) + times
    sizes: tuple[Dim, ...] = (1,) * (rank - len(shape)) + shape
    parts = b.call("reshape", x, shape=tuple(d for s in sizes for d in (1, s)))
    wide = b.call("broadcast_to", parts, shape=tuple(d for n, s in zip(counts, sizes, strict=True) for d in (n, s)))
    return b.call("reshape", wide, shape=tuple(simplify(s * n) for n, s in zip(counts, sizes, strict=True)))


def _repeat(b: Build, x: Expr, repeats: Any, axis: int | None) -> Expr:
    if axis is None:
        x, axis = _flatten(b, x), 0
    shape = b.tensor(x).shape
    axis = normalize_axis("R.repeat", axis, len(shape))
    wide = (*shape[: axis + 1], repeats, *shape[axis + 1 :])
    parts = b.call("broadcast_to", b.call("expand_dims", x, axis=(axis + 1,)), shape=wide)
    return b.call("reshape", parts, shape=(*shape[:axis], simplify(shape[axis] * repeats), *shape[axis + 1 :]))


def _triangle(lower: bool) -> Row:
    def make(b: Build, x: Expr, diagonal: Any) -> Expr:
        k = b.number(diagonal)
        rows, columns = b.tensor(x).shape[-2:]
        if not isinstance(rows, int) or not isinstance(columns, int):
            raise b.unsupported("axes of unknown size")
        inside = (np.tri(rows, columns, k) if lower else 1 - np.tri(rows, columns, k - 1)).astype(bool)
        return b.call("where", b.constant(inside, dtype("bool")), x, b.like(x, 0))

    return make_row({"x": MISSING, "k": 0}, make)


def _one_hot(b: Build, indices: Expr, on: Any, off: Any, depth: int, axis: int) -> Expr:
    t = b.tensor(indices)
    axis = normalize_axis("R.one_hot", axis, t.ndim + 1)
    places = np.arange(depth).reshape(tuple(-1 if i == axis else 1 for i in range(t.ndim + 1)))
    hits = b.call("equal", b.call("expand_dims", indices, axis=(axis,)), b.constant(places, t.dtype))
    return b.call("where", hits, *(_scalar(b, v) for v in (on, off)))


def _scalar(b: Build, value: Any) -> Expr:
    """A scalar operand as a tensor of its own dtype."""
    if isinstance(value, Expr):
        return value
    if isinstance(value, Const):
        return b.constant(value.value, value.dtype)
    return b.constant(b.number(value), INT64 if isinstance(value, int) else dtype("float32"))


def _pad(b: Build, x: Expr, pad_width: Any, pad_mode: str, pad_value: Any) -> Expr:
    of, mode = b.tensor(x).dtype, {"replicate": "edge"}.get(pad_mode, pad_mode)
    if mode not in ("constant", "reflect", "edge"):
        raise b.unsupported(f"pad_mode {mode!r}")
    value = float(pad_value) if isinstance(pad_value, str) else pad_value  # TVM writes "-inf"
    if of.is_integer and isinstance(value, float) and value.is_integer():
        value = int(value)
    return b.call("nn.pad", x, pad_width=(*pad_width[0::2], *pad_width[1::2]), mode=mode, pad_value=value)


ROWS: dict[str, Row] = {
    "reshape": make_row("x shape", _reshape),
    "squeeze": make_row("x", _squeeze, axis=None),
    "expand_dims": make_row("x", _expand_dims, axis=MISSING),
    "flatten": make_row("x", _flatten),
    "nn.batch_flatten": make_row("data", _batch_flatten),
    "permute_dims": direct("x", "permute_dims", axes=None),
    "broadcast_to": make_row("x shape", _broadcast_to),
    "concat": make_row("tensors", _concat, axis=0),
    "stack": make_row("tensors", _stack, axis=0),
    "split": make_row("x", _split, indices_or_sections=MISSING, axis=0),
    "strided_slice": make_row("x axes begin end strides?", _strided_slice, assume_inbound=False),
    "flip": make_row("data", _flip, axis=MISSING),
    "take": make_row("x indices", _take, axis=None, mode="fast"),
    "tile": make_row("data", _tile, repeats=MISSING),
    "repeat": make_row("data", _repeat, repeats=MISSING, axis=None),
    "tril": _triangle(True),
    "triu": _triangle(False),
    "one_hot": make_row("indices on_value off_value", _one_hot, depth=MISSING, axis=-1),
    "nn.pad": make_row("data", _pad, pad_width=MISSING, pad_mode="constant", pad_value=0.0),
}


# --- writing ------------------------------------------------------------------------------------------------------


def _write_reshape(node: Call) -> RelaxCall | None:
    shape = node.attrs["shape"]
    if any(isinstance(d, int) and d <= 0 for d in shape):
        return None
    return RelaxCall("reshape", (*node.args, Shape(shape)))


def _write_split(node: Call) -> RelaxCall | None:
    sections = node.attrs["sections"]
    if not all(isinstance(s, int) for s in sections):
        return None
    cuts: Any = len(sections)
    if any(s != sections[0] for s in sections):
        cuts = np.cumsum(sections)[:-1].tolist()
    return RelaxCall("split", node.args, {"indices_or_sections": cuts, "axis": node.attrs["axis"]})


def _write_slice(node: Call) -> RelaxCall | None:
    a = node.attrs
    if a["strides"] is None or not all(isinstance(v, int) for k in ("axes", "begin", "end") for v in a[k]):
        return None
    if not a["axes"]:
        return None
    places = (a["axes"], a["begin"], a["end"], a["strides"])
    return RelaxCall("strided_slice", (*node.args, *places), {"assume_inbound": False})


def _write_pad(node: Call) -> RelaxCall | None:
    a, n = node.attrs, len(node.attrs["pad_width"]) // 2
    if a["mode"] not in ("constant", "reflect") or type(a["pad_value"]) is not float or abs(a["pad_value"]) == np.inf:
        return None
    if a["pad_value"] != a["pad_value"] or _of_integers(node):
        return None
    widths = [w for i in range(n) for w in (a["pad_width"][i], a["pad_width"][i + n])]
    return RelaxCall("nn.pad", node.args, {"pad_width": widths, "pad_value": a["pad_value"], "pad_mode": a["mode"]})


def _of_integers(node: Call) -> bool:
    return Build("nn.pad", None).tensor(node.args[0]).dtype.is_integer


def _write_axes(name: str, attr: str) -> Callable[[Call], RelaxCall]:
    return lambda node: RelaxCall(name, node.args, {attr: as_list(node.attrs[attr])})


WRITERS: dict[str, Callable[[Call], RelaxCall | None]] = {
    "reshape": _write_reshape,
    "squeeze": _write_axes("squeeze", "axis"),
    "expand_dims": _write_axes("expand_dims", "axis"),
    "permute_dims": _write_axes("permute_dims", "axes"),
    "broadcast_to": lambda node: RelaxCall("broadcast_to", (*node.args, Shape(node.attrs["shape"]))),
    "concat": lambda node: RelaxCall("concat", (tuple(node.args),), {"axis": node.attrs["axis"]}),
    "split": _write_split,
    "strided_slice": _write_slice,
    "take": lambda node: (
        None
        if node.attrs["near"] or node.attrs["either"]
        else RelaxCall("take", node.args, {"axis": node.attrs["axis"], "mode": "fast"})
    ),
    "nn.pad": _write_pad,
}
