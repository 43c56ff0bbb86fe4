"""Relay operators: the same elements under another shape or at other places (specs/lower.md, "Relay")."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

from assay.lower.frontends.relay.build import MISSING, Relay, Row, make_row, relax
from assay.lower.frontends.stretching import stretched
from assay.semantics.dtypes import INT64
from assay.semantics.errors import Unsupported
from assay.semantics.graph import Expr
from assay.semantics.ops.sizes import floor_div, missing_dim, product, same_size
from assay.semantics.scalar import Dim, simplify

# --- views --------------------------------------------------------------------------------------------------------


def target(b: Relay, x: Expr, codes: tuple[Dim, ...], allowzero: bool) -> tuple[Dim, ...]:
    """The sizes that Relay's codes stand for: 0 keeps a size, -1 is what is missing, -2 is all that is left, -3 is two
    sizes as one, -4 is one size as the next two codes."""
    shape = b.tensor(x).shape
    out: list[Dim] = []
    missing: int | None = None
    at = 0
    rest = list(codes)

    def old() -> Dim:
        nonlocal at
        if at >= len(shape):
            raise b.wrong(f"newshape {codes} asks for more axes than {x.type} has")
        at += 1
        return shape[at - 1]

    while rest:
        code = rest.pop(0)
        if not isinstance(code, int) or code > 0 or (code == 0 and allowzero):
            out.append(code)
            at += 1
        elif code == 0:
            out.append(old())
        elif code == -1:
            if missing is not None:
                raise b.wrong(f"newshape {codes} leaves two sizes open")
            missing = len(out)
            out.append(-1)
            at += 1
        elif code == -2:
            out += shape[at:]
            at = len(shape)
        elif code == -3:
            out.append(simplify(old() * old()))
        elif code == -4 and len(rest) >= 2:
            size = old()
            pair: list[Dim] = [rest.pop(0), rest.pop(0)]
            out += _halves(b, size, pair, codes)
        else:
            raise b.wrong(f"newshape {codes}: {code} means nothing there")
    if missing is None:
        return tuple(out)
    others = [d for i, d in enumerate(out) if i != missing]
    size_there = missing_dim(shape, others)
    if size_there is None:
        size_there = _quotient(b, product(shape), product(others))
    out[missing] = size_there
    return tuple(out)


def _halves(b: Relay, size: Dim, pair: list[Dim], codes: tuple[Dim, ...]) -> list[Dim]:
    opens = [i for i, d in enumerate(pair) if isinstance(d, int) and d == -1]
    if len(opens) > 1 or any(isinstance(d, int) and (d == 0 or d < -1) for d in pair):
        raise b.wrong(f"newshape {codes}: -4 takes two sizes, of which one may be -1")
    for i in opens:
        pair[i] = _quotient(b, size, pair[1 - i])
    return pair


def _quotient(b: Relay, size: Dim, by: Dim) -> Dim:
    if isinstance(by, int):
        if by == 0 or (isinstance(size, int) and size % by):
            raise b.wrong(f"a size of {size} does not divide by {by}")
        return floor_div(size, by)
    return simplify((by * 0 + size) // by)


def reshaped(b: Relay, x: Expr, shape: tuple[Dim, ...]) -> Expr:
    """`x` under another shape; what algebra does not show of their sizes the run checks."""
    t = b.tensor(x)
    if same_size(t.shape, shape):
        return b.call("reshape", x, shape=shape)
    if t.is_static and all(isinstance(d, int) for d in shape):
        raise b.wrong(f"{t} has not as many elements as {shape}")
    flat = b.call("reshape", x, shape=(product(t.shape),))
    return b.call("reshape", b.agree(flat, 0, product(shape)), shape=shape)


def _reshape(b: Relay, x: Expr, newshape: Any, allowzero: Any, reverse: Any) -> Expr:
    if reverse:
        raise b.unsupported("reverse=True")
    return reshaped(b, x, target(b, x, b.ints(newshape), bool(allowzero)))


def _dyn_reshape(b: Relay, x: Expr, sizes: Expr, *, newshape: Any, allowzero: Any) -> Expr:
    try:
        return reshaped(b, x, target(b, x, b.sizes_of(sizes), bool(allowzero)))
    except Unsupported:
        return b.with_sizes(_resolved(b, x, sizes, bool(allowzero)), lambda dims: reshaped(b, x, dims))


def _resolved(b: Relay, x: Expr, codes: Expr, allowzero: bool) -> Expr:
    """The sizes that codes of the run stand for, as far as they are 0, -1 and sizes; the run refuses others."""
    of, by = b.tensor(x), b.tensor(codes)
    count = by.shape[0] if by.ndim == 1 and by.dtype.is_integer else None
    if not isinstance(count, int):
        raise b.unsupported(f"sizes that are {by}")
    wide, old = b.cast(codes, INT64), b.call("shape_of", x)
    zero, one = b.constant(0, INT64), b.constant(1, INT64)
    if not allowzero:
        kept = b.call("nn.pad", old, pad_width=(0, max(count - of.ndim, 0)), mode="constant", pad_value=0)
        kept = b.call("strided_slice", kept, axes=(0,), begin=(0,), end=(count,), strides=(1,))
        wide = b.call("where", b.call("equal", wide, zero), kept, wide)
    missing = b.call("equal", wide, b.constant(-1, INT64))
    others = b.call("prod", b.call("where", missing, one, wide), axis=None, keepdims=False)
    total = b.call("prod", old, axis=None, keepdims=False)
    rest = b.call("floor_divide", total, b.call("where", b.call("equal", others, zero), one, others))
    return b.call("where", missing, rest, wide)


def _reshape_like(b: Relay, x: Expr, y: Expr, lhs_begin: int, lhs_end: Any, rhs_begin: int, rhs_end: Any) -> Expr:
    left, right = b.tensor(x).shape, b.tensor(y).shape
    first, last = slice(lhs_begin, lhs_end).indices(len(left))[:2]
    return reshaped(b, x, (*left[:first], *right[slice(rhs_begin, rhs_end)], *left[max(first, last) :]))


def _squeeze(b: Relay, x: Expr, axis: Any) -> Expr:
    t = b.tensor(x)
    if axis is None:
        for size in t.shape:
            b.known(size, "axis=None and an axis")
        return b.relax("squeeze", [x])
    axes = tuple(b.axis(a, t.ndim) for a in b.ints(axis))
    for a in axes:
        x = b.agree(x, a, 1)
    return b.call("squeeze", x, axis=axes)


def _expand_dims(b: Relay, x: Expr, axis: int, num_newaxis: int) -> Expr:
    first = b.axis(axis, b.tensor(x).ndim + 1)
    return b.call("expand_dims", x, axis=tuple(range(first, first + num_newaxis)))


def _transpose(b: Relay, x: Expr, axes: Any) -> Expr:
    return b.call("permute_dims", x, axes=None if axes is None or axes == () else b.ints(axes))


def _layout_transform(b: Relay, x: Expr, src_layout: str, dst_layout: str) -> Expr:
    if sorted(src_layout) != sorted(dst_layout) or not src_layout.isalpha():
        raise b.unsupported(f"layouts {src_layout!r} and {dst_layout!r}; orders of the same axes are handled,")
    return b.call("permute_dims", x, axes=tuple(src_layout.index(c) for c in dst_layout))


# --- broadcasting --------------------------------------------------------------------------------------------------


def widened(b: Relay, x: Expr, shape: tuple[Dim, ...]) -> Expr:
    """Broadcast x to a shape, where a size that is known only at run time must be 1 or agree."""
    if b.tensor(x).ndim > len(shape):
        raise b.wrong(f"{x.type} has more axes than {len(shape)}")
    return b.call("broadcast_to", stretched(b, x, shape, b.span), shape=shape)


def _broadcast_to(b: Relay, x: Expr, sizes: Any, *, shape: Any, dtype: Any) -> Expr:
    if shape is not None:
        return widened(b, x, b.ints(shape))
    return b.with_sizes(sizes, lambda dims: widened(b, x, dims))


def _collapsed(b: Relay, x: Expr, shape: tuple[Dim, ...]) -> Expr:
    """The sum over the axes along which `shape` would be repeated to become that of `x`."""
    old = b.tensor(x).shape
    for d in (*old, *shape):
        b.known(d, "an axis")
    lead = len(old) - len(shape)
    if lead < 0:
        raise b.wrong(f"{x.type} has fewer axes than {shape}")
    kept = tuple(lead + i for i, d in enumerate(shape) if d == 1 and old[lead + i] != 1)
    y = b.call("sum", x, axis=(*range(lead), *kept), keepdims=True)
    return reshaped(b, y, shape)


def _collapse_sum_to(b: Relay, x: Expr, sizes: Any, *, shape: Any, dtype: Any) -> Expr:
    return _collapsed(b, x, b.sizes_of(sizes) if shape is None else b.ints(shape))


# --- joining and cutting ------------------------------------------------------------------------------------------


def _joined(b: Relay, parts: list[Expr], axis: int) -> list[Expr]:
    """Parts whose sizes agree in every other axis."""
    shapes = [b.tensor(p).shape for p in parts]
    for a in range(len(shapes[0])):
        if a != axis and all(len(s) == len(shapes[0]) for s in shapes):
            size = next((s[a] for s in shapes if isinstance(s[a], int)), shapes[0][a])
            parts = [b.agree(p, a, size) for p in parts]
    return parts


def _tensors(b: Relay, parts: Any) -> list[Expr]:
    if not (found := b.tensors(parts)):
        raise b.wrong("a tuple of at least one tensor is taken")
    return found


def _concatenate(b: Relay, parts: Any, axis: int) -> Expr:
    found = _tensors(b, parts)
    axis = b.axis(axis, b.tensor(found[0]).ndim)
    return b.call("concat", *_joined(b, found, axis), axis=axis)


def _stack(b: Relay, parts: Any, axis: int) -> Expr:
    return b.relax("stack", [tuple(_joined(b, _tensors(b, parts), -1))], axis=axis)


def _split(b: Relay, x: Expr, indices_or_sections: Any, axis: int) -> Expr:
    t = b.tensor(x)
    axis = b.axis(axis, t.ndim)
    size, cuts = t.shape[axis], indices_or_sections
    if isinstance(cuts, int):
        if cuts < 1 or (isinstance(size, int) and size % cuts):
            raise b.wrong(f"an axis of {size} does not divide into {cuts} equal parts")
        each = floor_div(size, cuts)
        return b.call("split", b.agree(x, axis, simplify(each * cuts)), sections=(each,) * cuts, axis=axis)
    sections = tuple(simplify(q - p) for p, q in pairwise([0, *b.ints(cuts), size]))
    if any(isinstance(s, int) and s < 0 for s in sections):
        raise b.wrong(f"an axis of {size} has no places {cuts} in rising order")
    return b.call("split", x, sections=sections, axis=axis)


def _strided_slice(b: Relay, x: Expr, begin: Any, end: Any, strides: Any, slice_mode: str, axes: Any) -> Expr:
    rank = b.tensor(x).ndim
    first, last = b.ints(begin), b.ints(end)
    steps = b.ints(strides) if strides is not None else ()
    along = tuple(b.axis(a, rank) for a in b.ints(axes)) if axes is not None else tuple(range(len(first)))
    if len(first) != len(last) or len(along) != len(first) or len(steps) > len(first) or len(along) > rank:
        raise b.wrong(f"begin has {len(first)} places, end {len(last)}, strides {len(steps)}, for {len(along)} axes")
    if slice_mode == "size":
        if any(n < 0 for n in first):
            ends = [b.known(b.tensor(x).shape[a], "a begin from the end of an axis") for a in along]
            first = tuple(n if n >= 0 else size + n for n, size in zip(first, ends, strict=True))
        last = tuple(2**63 - 1 if n < 0 else p + n for p, n in zip(first, last, strict=True))
        steps = ()
    elif slice_mode != "end":
        raise b.unsupported(f"slice_mode {slice_mode!r}")
    # one stride stands for the first axis alone, as in TVM; those that are missing are 1
    steps += (1,) * (len(first) - len(steps))
    return b.call("strided_slice", x, axes=along, begin=first, end=last, strides=steps)


def _slice_like(b: Relay, x: Expr, y: Expr, axes: Any) -> Expr:
    shape, like = b.tensor(x).shape, b.tensor(y).shape
    if axes is None or axes == ():
        along = tuple(range(len(like)))
    else:
        along = tuple(b.axis(a, len(shape)) for a in b.ints(axes))
    for a in along:
        if a >= len(like) or a >= len(shape):
            raise b.wrong(f"{x.type} and {y.type} have no axis {a} both")
        x = b.call("strided_slice", x, axes=(a,), begin=(0,), end=(like[a],), strides=(1,))
        x = b.agree(x, a, like[a])  # the run sees that there was as much
    return x


def _take(b: Relay, x: Expr, indices: Expr, axis: Any, mode: str, batch_dims: int) -> Expr:
    if batch_dims:
        raise b.unsupported(f"batch_dims={batch_dims}")
    if axis is None:
        x, axis = reshaped(b, x, (product(b.tensor(x).shape),)), 0
    size = b.tensor(x).shape[b.axis(axis, b.tensor(x).ndim)]
    if isinstance(size, int) or mode not in ("clip", "wrap"):
        return b.relax("take", [x, indices], axis=axis, mode=mode)
    count = b.number_of(size, b.tensor(indices).dtype.name)
    if mode == "clip":
        last = b.call("subtract", count, b.like(indices, 1))
        places = b.call("minimum", b.call("maximum", indices, b.like(indices, 0)), last)
    else:
        whole = b.call("floor_divide", indices, count)
        places = b.call("subtract", indices, b.call("multiply", whole, count))
    return b.call("take", x, places, axis=axis)


def _pad(b: Relay, x: Expr, value: Any, pad_width: Any, pad_mode: str, pad_value: Any) -> Expr:
    pairs = [b.ints(p) for p in pad_width]
    if len(pairs) != b.tensor(x).ndim or any(len(p) != 2 for p in pairs):
        raise b.wrong(f"pad_width is {pad_width}; two numbers for each axis of {x.type} are wanted")
    number = b.number(value) if value is not None else pad_value
    flat = tuple(n for p in pairs for n in p)
    return b.relax("nn.pad", [x], pad_width=flat, pad_mode=pad_mode, pad_value=number)


def _mirror_pad(b: Relay, x: Expr, mode: str, pad_width: Any) -> Expr:
    if mode != "REFLECT":
        raise b.unsupported(f"mode {mode!r}; REFLECT is handled,")
    return _pad(b, x, None, pad_width, "reflect", 0)


def _depth_to_space(b: Relay, x: Expr, block_size: int, layout: str, mode: str) -> Expr:
    x, n, c, h, w = _picture(b, x, layout)
    depth = _quotient(b, c, block_size**2)
    if mode == "DCR":
        parts: tuple[Dim, ...] = (n, block_size, block_size, depth, h, w)
        axes = (0, 3, 4, 1, 5, 2)
    else:
        parts, axes = (n, depth, block_size, block_size, h, w), (0, 1, 4, 2, 5, 3)
    y = b.call("permute_dims", reshaped(b, x, parts), axes=axes)
    return _from_picture(b, reshaped(b, y, (n, depth, simplify(h * block_size), simplify(w * block_size))), layout)


def _space_to_depth(b: Relay, x: Expr, block_size: int, layout: str) -> Expr:
    x, n, c, h, w = _picture(b, x, layout)
    rows, columns = _quotient(b, h, block_size), _quotient(b, w, block_size)
    y = b.call("permute_dims", reshaped(b, x, (n, c, rows, block_size, columns, block_size)), axes=(0, 3, 5, 1, 2, 4))
    return _from_picture(b, reshaped(b, y, (n, simplify(c * block_size**2), rows, columns)), layout)


def _upsampling(
    b: Relay, x: Expr, scale_h: float, scale_w: float, layout: str, method: str, align_corners: Any
) -> Expr:
    whole = float(scale_h).is_integer() and float(scale_w).is_integer()
    if method != "nearest_neighbor" or not whole or align_corners:
        asked = f"method {method!r}, scales {scale_h} and {scale_w}"
        raise b.unsupported(f"{asked}; nearest_neighbor and whole scales are handled,")
    y: Expr = _picture(b, x, layout)[0]
    for axis, times in ((2, scale_h), (3, scale_w)):
        y = b.relax("repeat", [y], repeats=int(times), axis=axis)
    return _from_picture(b, y, layout)


def _picture(b: Relay, x: Expr, layout: str) -> tuple[Expr, Dim, Dim, Dim, Dim]:
    """`x` as NCHW, and its sizes."""
    if layout not in ("NCHW", "NHWC") or b.tensor(x).ndim != 4:
        raise b.unsupported(f"layout {layout!r} of {x.type}")
    y: Expr = x if layout == "NCHW" else b.call("permute_dims", x, axes=(0, 3, 1, 2))
    n, c, h, w = b.tensor(y).shape
    return y, n, c, h, w


def _from_picture(b: Relay, y: Expr, layout: str) -> Expr:
    return y if layout == "NCHW" else b.call("permute_dims", y, axes=(0, 2, 3, 1))


ROWS: dict[str, Row] = {
    "reshape": make_row("data", _reshape, newshape=MISSING, allowzero=False, reverse=False),
    "dyn.reshape": make_row("data sizes", _dyn_reshape, newshape=None, allowzero=False),
    "reshape_like": make_row("data shape_like", _reshape_like, lhs_begin=0, lhs_end=None, rhs_begin=0, rhs_end=None),
    "squeeze": make_row("data", _squeeze, axis=None),
    "expand_dims": make_row("data", _expand_dims, axis=MISSING, num_newaxis=1),
    "transpose": make_row("data", _transpose, axes=None),
    "nn.batch_flatten": relax("data", "nn.batch_flatten"),
    "layout_transform": make_row("data", _layout_transform, src_layout=MISSING, dst_layout=MISSING),
    "broadcast_to": make_row("data shape?", _broadcast_to, shape=None, dtype=""),
    "dyn.broadcast_to": make_row("data shape", _broadcast_to, shape=None, dtype=""),
    "broadcast_to_like": make_row("data like", lambda b, x, y: widened(b, x, b.tensor(y).shape)),
    "collapse_sum_like": make_row("data like", lambda b, x, y: _collapsed(b, x, b.tensor(y).shape)),
    "collapse_sum_to": make_row("data sizes?", _collapse_sum_to, shape=None, dtype=""),
    "concatenate": make_row("data", _concatenate, axis=0),
    "stack": make_row("data", _stack, axis=0),
    "split": make_row("data", _split, indices_or_sections=MISSING, axis=0),
    "strided_slice": make_row(
        "data", _strided_slice, begin=MISSING, end=MISSING, strides=None, slice_mode="end", axes=None
    ),
    "slice_like": make_row("data shape_like", _slice_like, axes=None),
    "take": make_row("data indices", _take, axis=None, mode="clip", batch_dims=0),
    "reverse": relax("data", "flip", axis=MISSING),
    "tile": make_row("data", lambda b, x, *, reps: b.relax("tile", [x], repeats=b.ints(reps)), reps=MISSING),
    "repeat": relax("data", "repeat", repeats=MISSING, axis=None),
    "nn.pad": make_row("data value?", _pad, pad_width=MISSING, pad_mode="constant", pad_value=0.0),
    "nn.mirror_pad": make_row("data", _mirror_pad, mode="SYMMETRIC", pad_width=MISSING),
    "nn.depth_to_space": make_row("data", _depth_to_space, block_size=MISSING, layout="NCHW", mode="DCR"),
    "nn.space_to_depth": make_row("data", _space_to_depth, block_size=MISSING, layout="NCHW"),
    "nn.upsampling": make_row(
        "data", _upsampling, scale_h=1.0, scale_w=1.0, layout="NCHW", method="nearest_neighbor", align_corners=False
    ),
}  # fmt: skip
