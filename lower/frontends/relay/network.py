"""Relay operators: products, convolutions, pooling and normalisation (specs/lower.md, "Relay")."""

from __future__ import annotations

from typing import Any

from assay.lower.frontends.relay.build import MISSING, Attrs, Relay, Row, make_row
from assay.semantics.graph import Expr
from assay.semantics.scalar import simplify
from assay.semantics.text.relax.nn import LAYOUTS, spread

# --- products -----------------------------------------------------------------------------------------------------


def _turned(b: Relay, x: Expr) -> Expr:
    """The last two axes changed about."""
    rank = b.tensor(x).ndim
    return b.call("permute_dims", x, axes=(*range(rank - 2), rank - 1, rank - 2))


def _product(b: Relay, x: Expr, y: Expr, out_dtype: Any) -> Expr:
    """The matrix product in a dtype; the sizes that are summed over agree."""
    x, y = b.cast(x, out_dtype), b.cast(y, out_dtype)
    inner = [b.tensor(x).shape[-1], b.tensor(y).shape[-2]]
    size = next((d for d in inner if isinstance(d, int)), inner[0])
    x, y = b.agree(x, b.tensor(x).ndim - 1, size), b.agree(y, b.tensor(y).ndim - 2, size)
    return b.call("matmul", x, y)


def _rank(b: Relay, x: Expr, least: int, most: int | None = None) -> None:
    rank = b.tensor(x).ndim
    if rank < least or (most is not None and rank > most):
        raise b.wrong(f"{x.type} has {rank} axes, {'at least ' if most is None else ''}{least} are taken")


def _dense(b: Relay, x: Expr, w: Expr, units: Any, out_dtype: Any, **_: Any) -> Expr:
    """x times the transpose of w, whose rows are the units."""
    _rank(b, x, 1)
    _rank(b, w, 2, 2)
    if units is not None:
        w = b.agree(w, 0, units)
    return _product(b, x, _turned(b, w), out_dtype)


def _matmul(b: Relay, x: Expr, y: Expr, out_dtype: Any, transpose_a: Any, transpose_b: Any, **_: Any) -> Expr:
    _rank(b, x, 2)
    _rank(b, y, 2, 2)
    x, y = (_turned(b, v) if turn else v for v, turn in ((x, transpose_a), (y, transpose_b)))
    return _product(b, x, y, out_dtype)


def _batch_matmul(b: Relay, x: Expr, y: Expr, out_dtype: Any, transpose_a: Any, transpose_b: Any, **_: Any) -> Expr:
    _rank(b, x, 3, 3)
    _rank(b, y, 3, 3)
    x, y = (_turned(b, v) if turn else v for v, turn in ((x, transpose_a), (y, transpose_b)))
    x, y = b.together(x, y, keep=2)
    return b.sized(_product(b, x, y, out_dtype))


def _bias_add(b: Relay, x: Expr, bias: Expr, axis: int) -> Expr:
    t = b.tensor(x)
    axis = b.axis(axis, t.ndim)
    _rank(b, bias, 1, 1)
    x, bias = _fitting(b, x, axis, bias)
    return b.call("add", x, b.call("reshape", bias, shape=(b.tensor(x).shape[axis], *(1,) * (t.ndim - axis - 1))))


# --- convolution and pooling --------------------------------------------------------------------------------------


def _conv(rank: int) -> Row:
    plain, kernel = LAYOUTS[rank]

    def make(b: Relay, args: list[Any], a: Attrs) -> Expr:
        x, w = args
        layout, order = a["data_layout"] or plain, a["kernel_layout"] or kernel
        _rank(b, x, rank + 2, rank + 2)
        _rank(b, w, rank + 2, rank + 2)
        if sorted(layout) != sorted(plain) or sorted(order) != sorted(kernel):
            raise b.unsupported(f"layouts {layout!r} and {order!r}; orders of {plain} and {kernel} are handled,")
        for letter, wanted in (("O", a["channels"]), *zip(kernel[2:], _listed(b, a["kernel_size"], rank), strict=True)):
            if wanted is not None:
                w = b.agree(w, order.index(letter), wanted)
        groups, channel, depth = a["groups"], layout.index("C"), order.index("I")
        there, given = b.tensor(x).shape[channel], b.tensor(w).shape[depth]
        if isinstance(there, int) and not isinstance(given, int) and there % groups == 0:
            w = b.agree(w, depth, there // groups)
        elif not (isinstance(there, int) and isinstance(given, int)):  # else the convolution's own rule says it
            x = b.agree(x, channel, simplify(given * groups))
        keys = ("strides", "padding", "dilation")
        attrs = {k: a[k] if isinstance(a[k], int) else b.ints(a[k]) for k in keys}
        return b.relax(
            f"nn.conv{rank}d", [x, w], **attrs, groups=groups, data_layout=layout, kernel_layout=order,
            out_layout=a["out_layout"] or layout, out_dtype=a["out_dtype"],
        )  # fmt: skip

    attrs = {
        "strides": 1, "padding": 0, "dilation": 1, "groups": 1, "channels": None, "kernel_size": None,
        "data_layout": plain, "kernel_layout": kernel, "out_layout": "", "out_dtype": "",
        "auto_scheduler_rewritten_layout": "", "meta_schedule_original_shape": None,
    }  # fmt: skip
    return Row({"data": MISSING, "weight": MISSING}, attrs, make)


def _listed(b: Relay, value: Any, rank: int) -> tuple[int | None, ...]:
    return (None,) * rank if value is None else spread(b.ints(value), rank)


def _pool(kind: str, rank: int) -> Row:
    plain = LAYOUTS[rank][0]

    def make(b: Relay, args: list[Any], a: Attrs) -> Expr:
        keys = ("pool_size", "strides", "padding", "dilation")
        attrs = {k: a[k] if isinstance(a[k], int) else b.ints(a[k]) for k in keys}
        return b.relax(
            f"nn.{kind}_pool{rank}d", args, **attrs, ceil_mode=a["ceil_mode"], count_include_pad=a["count_include_pad"],
            layout=a["layout"] or plain, out_layout=a["out_layout"] or None,
        )  # fmt: skip

    attrs = {
        "pool_size": MISSING, "strides": 1, "padding": 0, "dilation": 1, "layout": plain, "out_layout": "",
        "ceil_mode": False, "count_include_pad": False,
    }  # fmt: skip
    return Row({"data": MISSING}, attrs, make)


def _whole_pool(kind: str, rank: int, **sizes: Any) -> Row:
    """One window over everything, or as many as are asked for, side by side."""
    plain = LAYOUTS[rank][0]

    def make(b: Relay, x: Expr, layout: str, out_layout: str, output_size: Any = None) -> Expr:
        layout = layout or plain
        if sorted(layout) != sorted(plain) or (out_layout or layout) != layout:
            raise b.unsupported(f"layout {layout!r} to {out_layout!r}")
        _rank(b, x, rank + 2, rank + 2)
        axes = [layout.index(c) for c in plain[2:]]
        sizes = [b.tensor(x).shape[a] for a in axes]
        wanted = (1,) * rank if output_size is None else tuple(output_size)
        if not wanted:
            return x
        wanted = spread(wanted, rank)
        if all(n == 1 for n in wanted):
            return b.call("mean" if kind == "avg" else "max", x, axis=tuple(sorted(axes)), keepdims=True)
        each = [b.known(s, "an axis") // n for s, n in zip(sizes, wanted, strict=True)]
        if any(e * n != s for e, n, s in zip(each, wanted, sizes, strict=True)):
            raise b.unsupported(f"axes of {sizes} made {wanted}")
        return b.relax(f"nn.{kind}_pool{rank}d", [x], pool_size=tuple(each), strides=tuple(each), layout=layout)

    return make_row("data", make, layout=plain, out_layout="", **sizes)


# --- normalisation ------------------------------------------------------------------------------------------------


def _fitting(b: Relay, x: Expr, axis: int, *params: Expr) -> list[Expr]:
    """The tensor, and parameters that have one element for each of its axis."""
    for p in params:
        _rank(b, p, 1, 1)
    sizes = [b.tensor(x).shape[axis], *(b.tensor(p).shape[0] for p in params)]
    size = next((d for d in sizes if isinstance(d, int)), sizes[0])
    return [b.agree(x, axis, size), *(b.agree(p, 0, size) for p in params)]


def _batch_norm(b: Relay, x: Expr, *params: Expr, axis: int, center: Any, scale: Any, **more: Any) -> Expr:
    """The form for inference: the mean and the variance are passed on."""
    axis = b.axis(axis, b.tensor(x).ndim)
    flags = {"center": bool(center), "scale": bool(scale), "training": False}
    return b.relax("nn.batch_norm", _fitting(b, x, axis, *params), axis=axis, **flags, **more)


def _layer_norm(b: Relay, x: Expr, *params: Expr, axis: int, center: Any, scale: Any, **more: Any) -> Expr:
    rank = b.tensor(x).ndim
    axis = b.axis(axis, rank)
    attrs = {"axes": (axis,), "center": bool(center), "scale": bool(scale), **more}
    if axis == rank - 1:
        return b.relax("nn.layer_norm", _fitting(b, x, axis, *params), **attrs)
    return b.relax("nn.instance_norm", _fitting(b, x, axis, *params), channel_axis=axis, **attrs)


def _channel_norm(op: str, **groups: Any) -> Row:
    """A normalization over all axes but the first and that of the channels, maybe of groups of these."""

    def make(b: Relay, x: Expr, *params: Expr, axis: int, center: Any, scale: Any, **more: Any) -> Expr:
        rank = b.tensor(x).ndim
        axis = b.axis(axis, rank)
        axes = tuple(a for a in range(1, rank) if a != axis)
        flags = {"center": bool(center), "scale": bool(scale)}
        return b.relax(op, _fitting(b, x, axis, *params), channel_axis=axis, axes=axes, **flags, **more)

    return make_row("data gamma beta", make, axis=1, **_LIKE_BATCH, **groups)


def _l2_normalize(b: Relay, x: Expr, eps: float, axis: Any) -> Expr:
    along = None if axis is None or axis == () else b.ints(axis)
    total = b.call("sum", b.call("multiply", x, x), axis=along, keepdims=True)
    return b.call("divide", x, b.call("sqrt", b.call("maximum", total, b.like(x, eps))))


def _lrn(b: Relay, x: Expr, size: int, axis: int, bias: float, alpha: float, beta: float) -> Expr:
    if axis != 1 or size % 2 == 0:
        raise b.unsupported(f"axis={axis} and size={size}; axis 1 and an odd size are handled,")
    return b.call("nn.lrn", x, size=size, alpha=alpha, beta=beta, bias=bias)


def _flat_softmax(name: str) -> Row:
    return make_row("data", lambda b, x, *, axis: b.call(name, x, axis=b.axis(axis, b.tensor(x).ndim)), axis=-1)


_LIKE_BATCH: dict[str, Any] = {"epsilon": 1e-5, "center": True, "scale": True}
_ADVICE: dict[str, Any] = {"auto_scheduler_rewritten_layout": "", "meta_schedule_original_shape": None}

ROWS: dict[str, Row] = {
    "nn.dense": make_row("data weight", _dense, units=None, out_dtype="", **_ADVICE),
    "nn.matmul": make_row(
        "data weight", _matmul, units=None, out_dtype="", transpose_a=False, transpose_b=False, **_ADVICE
    ),
    "nn.batch_matmul": make_row("x y", _batch_matmul, out_dtype="", transpose_a=False, transpose_b=True, **_ADVICE),
    "nn.bias_add": make_row("data bias", _bias_add, axis=1),
    **{f"nn.conv{rank}d": _conv(rank) for rank in LAYOUTS},
    **{f"nn.{kind}_pool{rank}d": _pool(kind, rank) for kind in ("max", "avg") for rank in LAYOUTS},
    **{f"nn.global_{kind}_pool{rank}d": _whole_pool(kind, rank) for kind in ("max", "avg") for rank in LAYOUTS},
    **{
        f"nn.adaptive_{kind}_pool{rank}d": _whole_pool(kind, rank, output_size=())
        for kind in ("max", "avg")
        for rank in LAYOUTS
    },
    "nn.softmax": _flat_softmax("nn.softmax"),
    "nn.log_softmax": _flat_softmax("nn.log_softmax"),
    "nn.batch_norm": make_row("data gamma beta moving_mean moving_var", _batch_norm, axis=1, **_LIKE_BATCH),
    "nn.layer_norm": make_row("data gamma beta", _layer_norm, axis=-1, **_LIKE_BATCH),
    "nn.instance_norm": _channel_norm("nn.instance_norm"),
    "nn.group_norm": _channel_norm("nn.group_norm", num_groups=MISSING),
    "nn.l2_normalize": make_row("data", _l2_normalize, eps=MISSING, axis=None),
    "nn.lrn": make_row("data", _lrn, size=5, axis=1, bias=2.0, alpha=1e-5, beta=0.75),
    "nn.dropout": make_row("data", lambda b, x, *, rate: b.relax("nn.dropout", [x], rate=rate), rate=0.5),
}
