"""Sums of products, reductions, windows and normalisations in index notation (specs/semantics.md, "Index notation")."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod

from assay.semantics.dtypes import FLOAT64
from assay.semantics.indexed.fold import folded, summed
from assay.semantics.indexed.meaning import Meaning, Use, all_of, stretched_index
from assay.semantics.ops.pooling import Axis
from assay.semantics.ops.sizes import floor_div, product
from assay.semantics.scalar import Dim, Expr, apply, as_expr, cast, choice, const, neutral, simplify
from assay.semantics.scalar.expression import Buffer

# --- sums of products --------------------------------------------------------------------------------------------


def _matmul(use: Use, *i: Expr) -> Expr:
    a, b = use.operands
    rows, columns = a.shape[-2:-1], b.shape[-1:] if len(b.shape) > 1 else ()
    batch = i[: len(i) - len(rows) - len(columns)]
    row, column = i[len(batch) : len(batch) + len(rows)], i[len(batch) + len(rows) :]
    to = use.out.shape[: len(batch)]
    at_a, at_b = stretched_index(a.shape[:-2], batch, to), stretched_index(b.shape[:-2], batch, to)
    return summed("k", a.shape[-1:], lambda k: a[(*at_a, *row, k)] * b[(*at_b, k, *column)], a.dtype)


def or_fill(x: Buffer, at: Sequence[Expr], fill: Expr, padded: Sequence[bool]) -> Expr:
    """The element of a tensor, or `fill` outside of it; only along axes that are `padded` it may be outside."""
    axes = zip(x.shape, at, padded, strict=True)
    inside = [t for n, p, may in axes if may for t in (p >= 0, p < n)]
    return choice(all_of(*inside), x[tuple(at)], fill) if inside else x[tuple(at)]


def _window(i: Sequence[Expr], k: Sequence[Expr], use: Use) -> tuple[Expr, ...]:
    """Where the window of a result reads for a place in the window."""
    strides, dilation, padding = use.attrs["strides"], use.attrs["dilation"], use.attrs["padding"]
    return tuple(a * s + b * d - p for a, s, b, d, p in zip(i, strides, k, dilation, padding, strict=False))


def _conv(use: Use, n: Expr, o: Expr, *i: Expr) -> Expr:
    x, w, *bias = use.operands
    groups: int = use.attrs["groups"]
    first = o // floor_div(w.shape[0], groups) * w.shape[1] if groups > 1 else const(0)
    zero, padded = const(0, x.dtype), (False, False, *[any(use.attrs["padding"])] * len(i))

    def term(c: Expr, *k: Expr) -> Expr:
        return or_fill(x, (n, first + c, *_window(i, k, use)), zero, padded) * w[(o, c, *k)]

    made = summed("c k", w.shape[1:], term, x.dtype)
    return made + bias[0][o] if bias else made


def _fits(use: Use) -> list[Expr]:
    """That a window fits along each axis."""
    return [as_expr(d) >= 1 for d in use.out.shape[2:] if isinstance(d, Expr)]


# --- reductions --------------------------------------------------------------------------------------------------


def _reduced_axes(use: Use) -> list[int]:
    rank = len(use.x.shape)
    return list(range(rank)) if use.attrs["axis"] is None else sorted(a % rank for a in use.attrs["axis"])


def _reduction(op: str, mean: bool = False) -> Callable[..., Expr]:
    def element(use: Use, *i: Expr) -> Expr:
        x, axes = use.x, _reduced_axes(use)
        kept = [a for a in range(len(x.shape)) if a not in axes]
        place = dict(zip(kept, (i[a] for a in kept) if use.attrs["keepdims"] else i, strict=True))

        def term(*k: Expr) -> Expr:
            at = {**place, **dict(zip(axes, k, strict=True))}
            return x[tuple(at[a] for a in range(len(x.shape)))]

        shape = [x.shape[a] for a in axes]
        made = folded(op, "k", shape, term, x.dtype, 0 if op == "add" else None)
        return over_count(made, product(shape)) if mean else made

    return element


def over_count(total: Expr, count: Dim) -> Expr:
    """total / count, in the dtype of the total."""
    return total / (float(count) if isinstance(count, int) else cast(cast(count, FLOAT64), total.dtype))


def _some(use: Use) -> list[Expr]:
    """That there is something along each axis that is reduced."""
    return [as_expr(d) >= 1 for a in _reduced_axes(use) if isinstance(d := use.x.shape[a], Expr)]


# --- windows -----------------------------------------------------------------------------------------------------


def _max_pool(use: Use, n: Expr, c: Expr, *i: Expr) -> Expr:
    x = use.x
    lowest, padded = neutral("max", x.dtype), (False, False, *[_is_padded(use)] * len(i))

    def term(*k: Expr) -> Expr:
        return or_fill(x, (n, c, *_window(i, k, use)), lowest, padded)

    return folded("max", "k", use.attrs["pool_size"], term, x.dtype)


def _is_padded(use: Use) -> bool:
    return any(use.attrs["padding"]) or bool(use.attrs["ceil_mode"])


def _avg_pool(use: Use, n: Expr, c: Expr, *i: Expr) -> Expr:
    x, window = use.x, use.attrs["pool_size"]
    zero, padded = const(0, x.dtype), (False, False, *[_is_padded(use)] * len(i))
    total = summed("k", window, lambda *k: or_fill(x, (n, c, *_window(i, k, use)), zero, padded), x.dtype)
    counts = [_counted(use, a, at) for a, at in enumerate(i)]
    fixed = prod(d for d in counts if isinstance(d, int))
    varying = [d for d in counts if isinstance(d, Expr)]
    if not varying:
        return total / float(fixed)
    count: Expr = const(fixed)
    for d in varying:
        count = count * d
    return total / cast(count, x.dtype)


def _counted(use: Use, axis: int, i: Expr) -> Dim:
    """How many positions of a window count along an axis: those within the tensor, or the padding too."""
    attrs, rank = use.attrs, len(use.x.shape) - 2
    before, after = attrs["padding"][axis], attrs["padding"][axis + rank]
    size, dilation = use.x.shape[2 + axis], attrs["dilation"][axis]
    window, stride = attrs["pool_size"][axis], attrs["strides"][axis]
    low, high = (-before, size + after) if attrs["count_include_pad"] else (0, size)
    if low == -before and not attrs["ceil_mode"] and (after == 0 or attrs["count_include_pad"]):
        return int(window)

    def ahead(edge: Dim) -> Expr:
        first: Expr = as_expr(simplify(edge + before)) - i * stride + (dilation - 1)
        return apply("floordiv", first, dilation)

    return apply("sub", apply("min", ahead(high), window), apply("max", ahead(low), 0))


def _pools(use: Use) -> list[Expr]:
    """That a window fits, that there is something along each axis, and that each window takes some of it."""
    needs = []
    for k, (count, size) in enumerate(zip(use.out.shape[2:], use.x.shape[2:], strict=True)):
        if isinstance(size, Expr):
            needs += [as_expr(count) >= 1, size >= 1]
            needs += [apply("ne", size, n) for n in range(2, use.attrs["dilation"][k]) if _missed(use, k, n)]
            needs += [size >= 2] if use.attrs["dilation"][k] > 1 and _missed(use, k, 1) else []
    return needs


def _missed(use: Use, axis: int, size: int) -> bool:
    """Whether some window over so many elements takes none that counts; only apart from one another they may."""
    axes = Axis(use.attrs, len(use.x.shape) - 2, axis)
    return axes.fault(size, bool(use.attrs.get("count_include_pad", False))) is not None


TABLE: dict[str, Meaning] = {
    "matmul": Meaning(_matmul),
    **{f"nn.conv{d}d": Meaning(_conv, _fits) for d in (1, 2, 3)},
    "sum": Meaning(_reduction("add")),
    "mean": Meaning(_reduction("add", mean=True)),
    "prod": Meaning(_reduction("mul")),
    "max": Meaning(_reduction("max"), _some),
    "min": Meaning(_reduction("min"), _some),
    **{f"nn.max_pool{d}d": Meaning(_max_pool, _pools) for d in (1, 2, 3)},
    **{f"nn.avg_pool{d}d": Meaning(_avg_pool, _pools) for d in (1, 2, 3)},
}
