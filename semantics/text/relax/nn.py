"""Relax operators: products, convolutions, pooling and normalisation (specs/semantics.md, "Text")."""

from __future__ import annotations

from collections.abc import Callable
from math import sqrt
from typing import Any

import numpy as np

from assay.semantics.dtypes import BOOL
from assay.semantics.graph import Call, Expr
from assay.semantics.scalar import Dim
from assay.semantics.text.relax.build import (
    MISSING,
    Attrs,
    Build,
    RelaxCall,
    Row,
    as_list,
    direct,
    make_row,
    operands,
    same_relax_call,
)
from assay.semantics.text.relax.elementwise import deviation

# --- products -----------------------------------------------------------------------------------------------------


def _matmul(b: Build, x: Expr, y: Expr, out_dtype: Any) -> Expr:
    return b.call("matmul", b.cast(x, out_dtype), b.cast(y, out_dtype))


def _linear(b: Build, x: Expr, w: Expr, bias: Expr | None, out_dtype: Any) -> Expr:
    axes = tuple(range(b.tensor(w).ndim))
    y = _matmul(b, x, b.call("permute_dims", w, axes=(*axes[:-2], *reversed(axes[-2:]))), out_dtype)
    return y if bias is None else b.call("add", y, bias)


def _attention(
    b: Build, q: Expr, k: Expr, v: Expr, bias: Expr | None, scale: Any, causal_mask: Any, window_size: Any
) -> Expr:
    """softmax(q k^T * scale + bias) v over operands of shape (batch, sequence, head, depth)."""
    if window_size is not None:
        raise b.unsupported("window_size")
    queries, keys, values = (b.call("permute_dims", x, axes=(0, 2, 1, 3)) for x in (q, k, v))
    depth, rows, columns = b.tensor(q).shape[3], b.tensor(q).shape[1], b.tensor(k).shape[1]
    if not isinstance(depth, int):
        raise b.unsupported(f"a depth of unknown size, {depth}")
    scores = b.call("matmul", queries, b.call("permute_dims", keys, axes=(0, 1, 3, 2)))
    scores = b.call("multiply", scores, b.like(q, scale if scale is not None else 1 / sqrt(depth)))
    if bias is not None:
        scores = b.call("add", scores, bias)
    if causal_mask is not None:
        if not isinstance(rows, int) or not isinstance(columns, int):
            raise b.unsupported("a causal mask and sequences of unknown length")
        seen = np.tri(rows, columns, columns - rows if causal_mask == "BottomRight" else 0).astype(bool)
        scores = b.call("where", b.constant(seen, BOOL), scores, b.like(q, -np.inf))
    mixed = b.call("matmul", b.call("nn.softmax", scores, axis=-1), values)
    return b.call("permute_dims", mixed, axes=(0, 2, 1, 3))


# --- convolution and pooling --------------------------------------------------------------------------------------

LAYOUTS = {1: ("NCW", "OIW"), 2: ("NCHW", "OIHW"), 3: ("NCDHW", "OIDHW")}


def spread(value: Any, count: int) -> tuple[int, ...]:
    """One number for each spatial axis: one that stands for all, or one each."""
    given = (value,) if isinstance(value, int) else tuple(value)
    return given * count if len(given) == 1 else given


def padding(value: Any, count: int) -> tuple[int, ...]:
    """The padding before each spatial axis, then that after: one number for all, one for each axis, or all."""
    given = spread(value, count)
    return given * 2 if len(given) == count else given


def moved(b: Build, x: Expr, from_: str, to: str) -> Expr:
    """`x` with its axes, which the letters of a layout name, in another order."""
    if not from_ or from_ == to:
        return x
    if sorted(from_) != sorted(to):
        raise b.unsupported(f"layout {from_!r}; an order of {to} is handled,")
    return b.call("permute_dims", x, axes=tuple(from_.index(letter) for letter in to))


def _conv(rank: int) -> Row:
    plain, kernel = LAYOUTS[rank]

    def make(b: Build, args: list[Any], a: Attrs) -> Expr:
        x = moved(b, b.cast(args[0], a["out_dtype"]), a["data_layout"], plain)
        w = moved(b, b.cast(args[1], a["out_dtype"]), a["kernel_layout"], kernel)
        y = b.call(
            f"nn.conv{rank}d", x, w, strides=spread(a["strides"], rank), padding=padding(a["padding"], rank),
            dilation=spread(a["dilation"], rank), groups=a["groups"],
        )  # fmt: skip
        return moved(b, y, plain, a["out_layout"] or a["data_layout"])

    layouts = {"data_layout": plain, "kernel_layout": kernel, "out_layout": None, "out_dtype": None}
    return Row(operands("data weight"), {"strides": 1, "padding": 0, "dilation": 1, "groups": 1, **layouts}, make)


def _pool(kind: str, rank: int) -> Row:
    plain = LAYOUTS[rank][0]

    def make(b: Build, args: list[Any], a: Attrs) -> Expr:
        attrs = {
            "pool_size": spread(a["pool_size"], rank), "strides": spread(a["strides"], rank),
            "padding": padding(a["padding"], rank), "dilation": spread(a["dilation"], rank),
            "ceil_mode": bool(a["ceil_mode"]),
        }  # fmt: skip
        if kind == "avg":
            attrs["count_include_pad"] = bool(a["count_include_pad"])
        y = b.call(f"nn.{kind}_pool{rank}d", moved(b, args[0], a["layout"], plain), **attrs)
        return moved(b, y, plain, a["out_layout"] or a["layout"])

    default = kind == "avg" and rank != 2
    attrs = {
        "pool_size": 1, "strides": 1, "padding": 0, "dilation": 1, "ceil_mode": False, "count_include_pad": default,
        "layout": plain, "out_layout": None,
    }  # fmt: skip
    return Row(operands("data"), attrs, make)


def _adaptive(rank: int) -> Row:
    plain = LAYOUTS[rank][0]

    def make(b: Build, args: list[Any], a: Attrs) -> Expr:
        x = moved(b, args[0], a["layout"], plain)
        sizes = b.tensor(x).shape[2:]
        wanted = sizes if a["output_size"] is None else spread(a["output_size"], rank)
        if all(n == 1 for n in wanted):
            y: Expr = b.call("mean", x, axis=tuple(range(2, rank + 2)), keepdims=True)
        else:
            each: list[int] = []
            for size, n in zip(sizes, wanted, strict=True):
                if not isinstance(size, int) or not isinstance(n, int) or size % n:
                    raise b.unsupported(f"an axis of {size} made {n}")
                each.append(size // n)
            y = b.call(f"nn.avg_pool{rank}d", x, pool_size=tuple(each), strides=tuple(each))
        return moved(b, y, plain, a["out_layout"] or a["layout"])

    return Row(operands("data"), {"output_size": None, "layout": plain, "out_layout": None}, make)


# --- normalisation ------------------------------------------------------------------------------------------------


def _flag(b: Build, x: Expr, used: bool, neutral: float) -> Expr:
    """A scale or a shift, or what changes nothing where it is switched off."""
    t = b.tensor(x)
    return x if used else b.call("full", shape=t.shape, fill_value=neutral, dtype=t.dtype.name)


def _batch_norm(b: Build, args: list[Any], a: Attrs) -> Expr:
    x, gamma, beta, mean, var = args
    gamma, beta = _flag(b, gamma, a["scale"], 1.0), _flag(b, beta, a["center"], 0.0)
    rank = b.tensor(x).ndim
    axis = a["axis"] % rank if rank else 0
    new_mean, new_var = mean, var
    if a["training"]:
        others = tuple(i for i in range(rank) if i != axis)
        along = b.call("mean", x, axis=others)
        shape = tuple(-1 if i == axis else 1 for i in range(rank))
        centred = b.call("subtract", x, b.call("reshape", along, shape=shape))
        spread_ = b.call("mean", b.call("multiply", centred, centred), axis=others)
        m = a["momentum"]

        def mixed(old: Expr, new: Expr) -> Expr:
            return b.call("add", b.call("multiply", old, b.like(old, 1 - m)), b.call("multiply", new, b.like(new, m)))

        new_mean, new_var = mixed(mean, along), mixed(var, spread_)
        mean, var = along, spread_
    y = b.call("nn.batch_norm", x, gamma, beta, mean, var, axis=a["axis"], epsilon=a["epsilon"])
    return b.tuple_of(y, new_mean, new_var)


def _layer_norm(
    b: Build, x: Expr, gamma: Expr, beta: Expr, axes: Any, epsilon: float, center: bool, scale: bool
) -> Expr:
    rest = [beta] if center else []
    return b.call("nn.layer_norm", x, _flag(b, gamma, scale, 1.0), *rest, axes=b.axes(axes), epsilon=epsilon)


def _rms_norm(b: Build, x: Expr, weight: Expr, axes: Any, epsilon: float) -> Expr:
    square = b.call("mean", b.call("multiply", x, x), axis=b.axes(axes), keepdims=True)
    root = b.call("sqrt", b.call("add", square, b.like(x, epsilon)))
    return b.call("multiply", b.call("divide", x, root), weight)


def _standard(b: Build, x: Expr, axes: tuple[int, ...], epsilon: float) -> Expr:
    centred, variance = deviation(b, x, axes)
    return b.call("divide", centred, b.call("sqrt", b.call("add", variance, b.like(x, epsilon))))


def _scaled(b: Build, y: Expr, gamma: Expr, beta: Expr, axis: int, a: Attrs) -> Expr:
    shape = tuple(-1 if i == axis else 1 for i in range(b.tensor(y).ndim))
    if a["scale"]:
        y = b.call("multiply", y, b.call("reshape", gamma, shape=shape))
    return b.call("add", y, b.call("reshape", beta, shape=shape)) if a["center"] else y


def _instance_norm(b: Build, args: list[Any], a: Attrs) -> Expr:
    x, gamma, beta = args
    rank = b.tensor(x).ndim
    axes = tuple(i % rank for i in b.axes(a["axes"]) or ())
    return _scaled(b, _standard(b, x, axes, a["epsilon"]), gamma, beta, a["channel_axis"] % rank, a)


def _group_norm(b: Build, args: list[Any], a: Attrs) -> Expr:
    x, gamma, beta = args
    shape = b.tensor(x).shape
    channel, groups = a["channel_axis"] % len(shape), a["num_groups"]
    size = shape[channel]
    if not isinstance(size, int) or size % groups:
        raise b.unsupported(f"{size} channels in {groups} groups")
    parts: tuple[Dim, ...] = (*shape[:channel], groups, size // groups, *shape[channel + 1 :])
    axes = (channel + 1, *(i % len(shape) + (i % len(shape) > channel) for i in b.axes(a["axes"]) or ()))
    y = _standard(b, b.call("reshape", x, shape=parts), axes, a["epsilon"])
    return _scaled(b, b.call("reshape", y, shape=shape), gamma, beta, channel, a)


_SCALE = {"epsilon": 1e-05, "center": True, "scale": True}

ROWS: dict[str, Row] = {
    "matmul": make_row("x1 x2", _matmul, out_dtype=None),
    "linear": make_row("data weight bias?", _linear, out_dtype=None),
    **dict.fromkeys(
        ("nn.attention", "nn.attention_bias"),
        make_row("query key value bias?", _attention, scale=None, causal_mask=None, window_size=None),
    ),
    **{f"nn.conv{rank}d": _conv(rank) for rank in LAYOUTS},
    **{f"nn.{kind}_pool{rank}d": _pool(kind, rank) for kind in ("max", "avg") for rank in LAYOUTS},
    **{f"nn.adaptive_avg_pool{rank}d": _adaptive(rank) for rank in LAYOUTS},
    "nn.softmax": direct("data", "nn.softmax", axis=-1),
    "nn.log_softmax": direct("data", "nn.log_softmax", axis=-1),
    "nn.batch_norm": Row(
        operands("data gamma beta moving_mean moving_var"),
        {"axis": MISSING, **_SCALE, "momentum": 0.1, "training": True},
        _batch_norm,
    ),
    "nn.layer_norm": make_row("data gamma beta", _layer_norm, axes=MISSING, **_SCALE),
    "nn.rms_norm": make_row("data weight", _rms_norm, axes=-1, epsilon=1e-05),
    "nn.instance_norm": Row(
        operands("data gamma beta"), {"channel_axis": MISSING, "axes": MISSING, **_SCALE}, _instance_norm
    ),
    "nn.group_norm": Row(
        operands("data gamma beta"),
        {"num_groups": MISSING, "channel_axis": MISSING, "axes": MISSING, **_SCALE},
        _group_norm,
    ),
}


# --- writing ------------------------------------------------------------------------------------------------------


def _write_conv(rank: int) -> Callable[[Call], RelaxCall | None]:
    plain, kernel = LAYOUTS[rank]

    def write(node: Call) -> RelaxCall | None:
        if len(node.args) != 2:
            return None
        attrs = {k: as_list(node.attrs[k]) for k in ("strides", "padding", "dilation")}
        layouts = {"data_layout": plain, "kernel_layout": kernel, "out_layout": plain, "out_dtype": None}
        return RelaxCall(f"nn.conv{rank}d", node.args, {**attrs, "groups": node.attrs["groups"], **layouts})

    return write


def _write_pool(kind: str, rank: int) -> Callable[[Call], RelaxCall | None]:
    plain = LAYOUTS[rank][0]

    def write(node: Call) -> RelaxCall | None:
        attrs: dict[str, Any] = {k: as_list(node.attrs[k]) for k in ("pool_size", "strides", "dilation", "padding")}
        attrs["ceil_mode"] = node.attrs["ceil_mode"]
        attrs["count_include_pad"] = node.attrs.get("count_include_pad", False)
        return RelaxCall(f"nn.{kind}_pool{rank}d", node.args, {**attrs, "layout": plain, "out_layout": plain})

    return write


def _write_batch_norm(node: Call) -> RelaxCall | None:
    attrs = {"axis": node.attrs["axis"], "epsilon": node.attrs["epsilon"], "center": True, "scale": True}
    if not _finite(node.attrs["epsilon"]):
        return None
    return RelaxCall("nn.batch_norm", node.args, {**attrs, "momentum": 0.1, "training": False}, field=0)


def _write_layer_norm(node: Call) -> RelaxCall | None:
    if len(node.args) != 3 or not _finite(node.attrs["epsilon"]):
        return None
    attrs = {"axes": as_list(node.attrs["axes"]), "epsilon": node.attrs["epsilon"], "center": True, "scale": True}
    return RelaxCall("nn.layer_norm", node.args, attrs)


def _finite(value: Any) -> bool:
    return isinstance(value, float) and abs(value) < np.inf


WRITERS: dict[str, Callable[[Call], RelaxCall | None]] = {
    "matmul": lambda node: RelaxCall("matmul", node.args, {"out_dtype": None}),
    **{f"nn.conv{rank}d": _write_conv(rank) for rank in LAYOUTS},
    **{f"nn.{kind}_pool{rank}d": _write_pool(kind, rank) for kind in ("max", "avg") for rank in LAYOUTS},
    "nn.softmax": same_relax_call("nn.softmax"),
    "nn.log_softmax": same_relax_call("nn.log_softmax"),
    "nn.batch_norm": _write_batch_norm,
    "nn.layer_norm": _write_layer_norm,
}
