"""The graph's operators as functions of PyTorch (specs/verify.md, "Backends").

Each takes the attributes, the result's type and the operands; all sizes are numbers. What PyTorch has no function for,
or only one with another meaning, is not in the table.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

import torch
from torch.nn import functional as F

from assay.semantics.dtypes import dtype
from assay.semantics.operator import Reasons
from assay.semantics.types import TensorType, Type

Attrs = Mapping[str, Any]
Rule: TypeAlias = Callable[..., Any]

UNARY = {
    "abs": torch.abs, "acos": torch.acos, "acosh": torch.acosh, "asin": torch.asin, "asinh": torch.asinh,
    "atan": torch.atan, "atanh": torch.atanh, "bitwise_not": torch.bitwise_not, "ceil": torch.ceil, "cos": torch.cos,
    "cosh": torch.cosh, "det": torch.linalg.det, "device_copy": torch.clone, "erf": torch.erf, "exp": torch.exp,
    "floor": torch.floor, "log": torch.log, "logical_not": torch.logical_not, "negative": torch.neg, "nn.gelu": F.gelu,
    "nn.relu": torch.relu, "reciprocal": torch.reciprocal, "round": torch.round, "sigmoid": torch.sigmoid,
    "sin": torch.sin, "sinh": torch.sinh, "sqrt": torch.sqrt, "tan": torch.tan, "tanh": torch.tanh,
}  # fmt: skip

BINARY = {
    "add": torch.add, "bitwise_and": torch.bitwise_and, "bitwise_or": torch.bitwise_or,
    "bitwise_xor": torch.bitwise_xor, "divide": torch.div, "equal": torch.eq, "fmod": torch.fmod,
    "greater": torch.gt, "greater_equal": torch.ge, "left_shift": torch.bitwise_left_shift, "less": torch.lt,
    "less_equal": torch.le, "logical_and": torch.logical_and, "logical_or": torch.logical_or,
    "logical_xor": torch.logical_xor, "matmul": torch.matmul, "maximum": torch.maximum, "minimum": torch.minimum,
    "multiply": torch.mul, "not_equal": torch.ne, "power": torch.pow, "right_shift": torch.bitwise_right_shift,
    "subtract": torch.sub, "where": torch.where,
}  # fmt: skip


def torch_dtype(name: str) -> torch.dtype:
    """PyTorch's dtype of this name; NotImplementedError if it has none."""
    found = getattr(torch, name, None)
    if not isinstance(found, torch.dtype):
        raise NotImplementedError(f"no element type {name}")
    return found


def _shape(of: Type) -> tuple[int, ...]:
    assert isinstance(of, TensorType)
    return of.static_shape


def _axes(attrs: Attrs, x: Any) -> tuple[int, ...]:
    return tuple(range(x.ndim)) if attrs["axis"] is None else tuple(attrs["axis"])


def _total(function: Callable[..., Any]) -> Rule:
    def rule(attrs: Attrs, of: Type, x: Any) -> Any:
        axes = _axes(attrs, x)
        return function(x, dim=axes, keepdim=attrs["keepdims"], dtype=x.dtype) if axes else x.clone()

    return rule


def _extreme(function: Callable[..., Any]) -> Rule:
    def rule(attrs: Attrs, of: Type, x: Any) -> Any:
        axes = _axes(attrs, x)
        return function(x, dim=axes, keepdim=attrs["keepdims"]) if axes else x.clone()

    return rule


def _product(attrs: Attrs, of: Type, x: Any) -> Any:
    for a in sorted((a % x.ndim for a in _axes(attrs, x)), reverse=True):
        x = torch.prod(x, dim=a, keepdim=attrs["keepdims"], dtype=x.dtype)
    return x.clone()


def _padded(x: Any, widths: tuple[int, ...], value: float) -> Any:
    """`widths` before each of the last axes, then after each."""
    half = len(widths) // 2
    pairs = [w for i in reversed(range(half)) for w in (widths[i], widths[half + i])]
    return F.pad(x, pairs, value=value)


def _conv(function: Callable[..., Any]) -> Rule:
    def rule(attrs: Attrs, of: Type, x: Any, w: Any, bias: Any = None) -> Any:
        return function(
            _padded(x, attrs["padding"], 0),
            w,
            bias,
            stride=attrs["strides"],
            dilation=attrs["dilation"],
            groups=attrs["groups"],
        )

    return rule


def _max_pool(function: Callable[..., Any]) -> Rule:
    def rule(attrs: Attrs, of: Type, x: Any) -> Any:
        if attrs["ceil_mode"]:
            raise NotImplementedError("pooling with ceil_mode counts windows in another way")
        whole = _padded(x, attrs["padding"], float("-inf") if x.is_floating_point() else torch.iinfo(x.dtype).min)
        return function(whole, attrs["pool_size"], stride=attrs["strides"], dilation=attrs["dilation"])

    return rule


def _average_pool(function: Callable[..., Any]) -> Rule:
    def rule(attrs: Attrs, of: Type, x: Any) -> Any:
        if attrs["ceil_mode"] or any(d != 1 for d in attrs["dilation"]):
            raise NotImplementedError("average pooling with ceil_mode or dilation")
        size, widths = attrs["pool_size"], attrs["padding"]
        if attrs["count_include_pad"] or not any(widths):
            return function(_padded(x, widths, 0), size, stride=attrs["strides"])
        before, after = widths[: len(size)], widths[len(size) :]
        if before != after or any(2 * w > n for w, n in zip(before, size, strict=True)):
            raise NotImplementedError("average pooling that does not count padding of two widths, or of half a window")
        return function(x, size, stride=attrs["strides"], padding=before, count_include_pad=False)

    return rule


def _batch_norm(attrs: Attrs, of: Type, x: Any, gamma: Any, beta: Any, mean: Any, var: Any) -> Any:
    axis = attrs["axis"] % x.ndim
    if x.ndim < 2:
        raise NotImplementedError("batch_norm of a vector")
    y = F.batch_norm(x.movedim(axis, 1), mean, var, gamma, beta, training=False, eps=attrs["epsilon"])
    return y.movedim(1, axis)


def _lrn(attrs: Attrs, of: Type, x: Any) -> Any:
    if attrs["size"] % 2 == 0:
        raise NotImplementedError("nn.lrn of an even size, whose window lies elsewhere in PyTorch")
    return F.local_response_norm(x, attrs["size"], attrs["alpha"], attrs["beta"], attrs["bias"])


def _layer_norm(attrs: Attrs, of: Type, x: Any, gamma: Any, beta: Any = None) -> Any:
    return F.layer_norm(x, x.shape[x.ndim - len(attrs["axes"]) :], gamma, beta, eps=attrs["epsilon"])


def _slice(attrs: Attrs, of: Type, x: Any) -> Any:
    """Steps backwards go by index, which PyTorch's slices do not."""
    steps = attrs["strides"] or (1,) * len(attrs["axes"])
    for axis, begin, end, step in zip(attrs["axes"], attrs["begin"], attrs["end"], steps, strict=True):
        places = list(range(x.shape[axis])[begin:end:step])
        x = torch.index_select(x, axis, torch.tensor(places, dtype=torch.int64))
    return x


def _take(attrs: Attrs, of: Type, x: Any, indices: Any) -> Any:
    axis = attrs["axis"] % x.ndim
    places = indices.to(torch.int64)
    places = torch.where(places < 0, places + x.shape[axis], places)
    found = torch.index_select(x, axis, places.reshape(-1))
    return found.reshape((*x.shape[:axis], *indices.shape, *x.shape[axis + 1 :]))


def _gather_nd(attrs: Attrs, of: Type, x: Any, indices: Any) -> Any:
    if not indices.shape[-1]:
        return x.expand(_shape(of)).clone()
    return x[indices.to(torch.int64).unbind(-1)]


REDUCED = {"mul": "prod", "max": "amax", "min": "amin"}


def _scatter_nd(attrs: Attrs, of: Type, x: Any, indices: Any, updates: Any) -> Any:
    """By index_put, which adds too; other reductions by scatter_reduce, on rows at one place each."""
    depth, how = indices.shape[-1], attrs["reduction"]
    places = indices.to(torch.int64).unbind(-1)
    if depth and how in ("none", "add"):
        return x.index_put(places, updates, accumulate=how == "add")
    outer, inner = x.shape[:depth], x.shape[depth:]
    row = torch.zeros(indices.shape[:-1], dtype=torch.int64)
    for place, size in zip(places, outer, strict=True):
        row = row * size + torch.where(place < 0, place + size, place)
    rows, given = x.reshape(outer.numel(), inner.numel()), updates.reshape(row.numel(), inner.numel())
    where = row.reshape(-1, 1).expand(given.shape)
    if how in REDUCED:
        return rows.scatter_reduce(0, where, given, REDUCED[how]).reshape(x.shape)
    return (rows.scatter_add if how == "add" else rows.scatter)(0, where, given).reshape(x.shape)


def _nonzero(attrs: Attrs, of: Type, x: Any) -> Any:
    return torch.nonzero_static(x, size=x.numel(), fill_value=0).T.contiguous(), torch.count_nonzero(x).reshape(1)


def _topk(attrs: Attrs, of: Type, x: Any) -> Any:
    """By a stable sort: PyTorch does not say which of equal elements its topk takes first."""
    found = torch.sort(x, dim=attrs["axis"], descending=attrs["largest"], stable=True)
    return tuple(part.narrow(attrs["axis"], 0, attrs["k"]).clone() for part in found)


def _pad(attrs: Attrs, of: Type, x: Any) -> Any:
    if attrs["mode"] != "constant":
        raise NotImplementedError(f"padding in mode {attrs['mode']} of any axes")
    return _padded(x, attrs["pad_width"], attrs["pad_value"])


def _divided(mode: str) -> Rule:
    return lambda attrs, of, a, b: torch.div(a, b, rounding_mode=mode)


def _running(function: Callable[..., Any], start: int) -> Rule:
    """One that leaves out each place's own element begins with `start`, and does without the last."""

    def rule(attrs: Attrs, of: Type, x: Any) -> Any:
        axis = attrs["axis"]
        y = function(x.flip([axis]) if attrs["reverse"] else x, axis, dtype=x.dtype)
        if attrs["exclusive"] and x.shape[axis]:
            y = torch.cat([torch.full_like(y.narrow(axis, 0, 1), start), y.narrow(axis, 0, x.shape[axis] - 1)], axis)
        return y.flip([axis]) if attrs["reverse"] else y

    return rule


def _ranks(
    rule: Callable[[Callable[..., Any]], Rule], name: str, functions: tuple[Callable[..., Any], ...]
) -> dict[str, Rule]:
    return {f"{name}{rank}d": rule(function) for rank, function in enumerate(functions, start=1)}


TABLE: dict[str, Rule] = {
    **{n: lambda attrs, of, *args, function=f: function(*args) for n, f in (UNARY | BINARY).items()},
    **_ranks(_conv, "nn.conv", (F.conv1d, F.conv2d, F.conv3d)),
    **_ranks(_max_pool, "nn.max_pool", (F.max_pool1d, F.max_pool2d, F.max_pool3d)),
    **_ranks(_average_pool, "nn.avg_pool", (F.avg_pool1d, F.avg_pool2d, F.avg_pool3d)),
    "arange": lambda attrs, of: torch.arange(attrs["size"]).to(torch_dtype(attrs["dtype"])),
    "astype": lambda attrs, of, x: x.to(torch_dtype(dtype(attrs["dtype"]).name)),
    "broadcast_to": lambda attrs, of, x: x.expand(_shape(of)).clone(),
    "clip": lambda attrs, of, x: (
        x.clone() if attrs["min"] is attrs["max"] is None else torch.clamp(x, attrs["min"], attrs["max"])
    ),
    "concat": lambda attrs, of, *xs: torch.cat(xs, attrs["axis"]),
    "cumprod": _running(torch.cumprod, 1),
    "cumsum": _running(torch.cumsum, 0),
    "expand_dims": lambda attrs, of, x: x.reshape(_shape(of)).clone(),
    "floor_divide": _divided("floor"),
    "full": lambda attrs, of: torch.full(_shape(of), attrs["fill_value"], dtype=torch_dtype(attrs["dtype"])),
    "gather_nd": _gather_nd,
    "max": _extreme(torch.amax),
    "mean": _total(torch.mean),
    "min": _extreme(torch.amin),
    "nn.batch_norm": _batch_norm,
    "nn.gelu_tanh": lambda attrs, of, x: F.gelu(x, approximate="tanh"),
    "nn.layer_norm": _layer_norm,
    "nn.leakyrelu": lambda attrs, of, x: F.leaky_relu(x, attrs["alpha"]),
    "nn.log_softmax": lambda attrs, of, x: torch.log_softmax(x, attrs["axis"]),
    "nn.lrn": _lrn,
    "nn.pad": _pad,
    "nn.softmax": lambda attrs, of, x: torch.softmax(x, attrs["axis"]),
    "nonzero": _nonzero,
    "permute_dims": lambda attrs, of, x: x.permute(attrs["axes"] or tuple(range(x.ndim))[::-1]).clone(),
    "prod": _product,
    "reinterpret": lambda attrs, of, x: x.view(torch_dtype(attrs["dtype"])).clone(),
    "reshape": lambda attrs, of, x: x.reshape(_shape(of)).clone(),
    "scatter_nd": _scatter_nd,
    "shape_of": lambda attrs, of, x: torch.tensor(list(x.shape), dtype=torch.int64),
    "split": lambda attrs, of, x: tuple(p.clone() for p in torch.split(x, list(attrs["sections"]), attrs["axis"])),
    "squeeze": lambda attrs, of, x: x.reshape(_shape(of)).clone(),
    "strided_slice": _slice,
    "sum": _total(torch.sum),
    "take": _take,
    "topk": _topk,
    "truncate_divide": _divided("trunc"),
}

UNSAID: Reasons = {
    ("dft",): "PyTorch's gives complex numbers",
    ("suppress",): "PyTorch has none",
    ("unique",): "the size of the result depends on data, which an exported program has not",
}
"""What is not in the table, and why."""
