"""Operators that place elements elsewhere, or make them from none, in index notation (specs/semantics.md, "Index
notation")."""

from __future__ import annotations

from collections.abc import Sequence

from assay.semantics.dtypes import INT64, UINT64
from assay.semantics.indexed.fold import folded, stepped
from assay.semantics.indexed.meaning import Asked, Meaning, Use, all_of, stretched
from assay.semantics.ops.sizes import FAR, from_end, larger, smaller
from assay.semantics.scalar import Dim, Expr, Number, apply, as_expr, cast, choice, const, select, simplify
from assay.semantics.scalar.expression import Buffer


def _permuted(use: Use, *i: Expr) -> Expr:
    rank, axes = len(i), use.attrs["axes"]
    order = [a % rank for a in axes] if axes is not None else list(range(rank))[::-1]
    return use.x[tuple(i[order.index(a)] for a in range(rank))]


def _concat(use: Use, *i: Expr) -> Expr:
    """The operand in which the index falls, counted from where that begins."""
    axis: int = use.attrs["axis"] % len(i)
    starts: list[Dim] = [0]
    for x in use.operands[:-1]:
        starts.append(simplify(x.shape[axis] + starts[-1]))

    def part(x: Buffer, start: Dim) -> Expr:
        return x[tuple(at - start if a == axis else at for a, at in enumerate(i))]

    *first, last = zip(use.operands, starts, strict=True)
    made = part(*last)
    for x, start in reversed(first):
        made = choice(i[axis] < simplify(x.shape[axis] + start), part(x, start), made)
    return made


def _split(use: Use, *i: Expr) -> Expr:
    axis: int = use.attrs["axis"] % len(i)
    start: Dim = 0
    for before in use.results[: use.result]:
        start = simplify(before.shape[axis] + start)
    return use.x[tuple(at + start if a == axis else at for a, at in enumerate(i))]


def _sliced(use: Use, *i: Expr) -> Expr:
    at: list[Number] = list(i)
    attrs, x = use.attrs, use.x
    strides = attrs["strides"] if attrs["strides"] is not None else (1,) * len(attrs["axes"])
    for axis, begin, stride in zip(attrs["axes"], attrs["begin"], strides, strict=True):
        a = axis % len(x.shape)
        at[a] = i[a] * stride + _first(x.shape[a], simplify(begin), stride)
    return x[tuple(at)]


def _first(size: Dim, begin: Dim, stride: int) -> Dim:
    """Where a slice begins: `begin`, from the end where it is negative, and never outside."""
    low, high = (0, size) if stride > 0 else (-1, simplify(size - 1))
    if isinstance(begin, int) and abs(begin) >= FAR:
        return high if begin > 0 else low
    return larger(smaller(from_end(begin, size), high), low)


# --- places that are data ----------------------------------------------------------------------------------------


def _from_front(index: Expr, size: Dim) -> Expr:
    """An index that counts from the end where it is negative."""
    at = cast(index, INT64)
    return select(at < 0, at + size, at)


def _inside(index: Expr, size: Dim) -> Expr:
    """That an index is one of an axis, from either end."""
    if index.dtype is UINT64:
        return index < cast(as_expr(size), UINT64) if not isinstance(size, int) else index < size
    at = cast(index, INT64)
    return apply("and", at >= simplify(size * -1), at < size)


def _take(use: Use, *i: Expr) -> Expr:
    x, indices = use.operands
    axis: int = use.attrs["axis"] % len(x.shape)
    last = axis + len(indices.shape)
    return x[(*i[:axis], _from_front(indices[i[axis:last]], x.shape[axis]), *i[last:])]


def _take_asks(use: Use) -> Sequence[Asked]:
    x, indices = use.operands
    size = x.shape[use.attrs["axis"] % len(x.shape)]
    return [Asked(indices.shape, lambda *j: _inside(indices[j], size))]


def _gather(use: Use, *i: Expr) -> Expr:
    x, indices = use.operands
    last, depth = len(indices.shape) - 1, indices.shape[-1]
    assert isinstance(depth, int)
    places = [_from_front(indices[(*i[:last], k)], x.shape[k]) for k in range(depth)]
    return x[(*places, *i[last:])]


def _gather_asks(use: Use) -> Sequence[Asked]:
    x, indices, *_ = use.operands
    depth = indices.shape[-1]
    assert isinstance(depth, int)

    def one(k: int) -> Asked:
        return Asked(indices.shape[:-1], lambda *j: _inside(indices[(*j, k)], x.shape[k]))

    return [one(k) for k in range(depth)]


def _scatter(use: Use, *i: Expr) -> Expr:
    """What is there, and then each update in row-major order whose place this is."""
    x, indices, updates = use.operands
    last, depth = len(indices.shape) - 1, indices.shape[-1]
    assert isinstance(depth, int)

    def update(acc: Expr, *j: Expr) -> Expr:
        places = [_from_front(indices[(*j[:last], k)], x.shape[k]) for k in range(depth)]
        here = all_of(*(apply("eq", p, at) for p, at in zip((*places, *j[last:]), i, strict=True)))
        how, new = use.attrs["reduction"], updates[j]
        return choice(here, new if how == "none" else apply(how, acc, new), acc)

    return stepped("j", updates.shape, update, x[i])


# --- around ------------------------------------------------------------------------------------------------------


def _padded(use: Use, *i: Expr) -> Expr:
    x, mode, rank = use.x, use.attrs["mode"], len(i)
    before, after = use.attrs["pad_width"][:rank], use.attrs["pad_width"][rank:]
    at = [k - b for k, b in zip(i, before, strict=True)]
    grown = [b > 0 or a > 0 for b, a in zip(before, after, strict=True)]
    if mode == "constant":
        inside = [t for k, n, g in zip(at, x.shape, grown, strict=True) if g for t in (k >= 0, k < n)]
        fill = const(use.attrs["pad_value"], x.dtype)
        return choice(all_of(*inside), x[tuple(at)], fill) if inside else x[tuple(at)]
    moved = _clamped if mode == "edge" else _mirrored
    return x[tuple(moved(k, n) if g else k for k, n, g in zip(at, x.shape, grown, strict=True))]


def _clamped(k: Expr, size: Dim) -> Expr:
    return apply("min", apply("max", k, 0), simplify(size - 1))


def _mirrored(k: Expr, size: Dim) -> Expr:
    """k as mirrored at the first and the last element, as often as needed."""
    if isinstance(size, int) and size == 1:
        return const(0)
    period = simplify((size - 1) * 2)
    if isinstance(period, Expr):
        period = larger(period, 1)
    within = k % period
    return apply("min", within, period - within)


def _leaves_enough(use: Use) -> list[Expr]:
    """That no axis is cropped by more than it has, and that enough is left to mirror, or an edge to repeat."""
    x, mode, rank = use.x, use.attrs["mode"], len(use.x.shape)
    needs = []
    for a, size in enumerate(x.shape):
        before, after = use.attrs["pad_width"][a], use.attrs["pad_width"][a + rank]
        if isinstance(size, Expr):
            left, most = size + (min(before, 0) + min(after, 0)), max(before, after, 0)
            needs += [left >= 0] if min(before, after) < 0 else []
            needs += [left > (most if mode == "reflect" else 0)] if most and mode != "constant" else []
    return needs


# --- from none ---------------------------------------------------------------------------------------------------


def _shape_of(use: Use, i: Expr) -> Expr:
    sizes = [as_expr(d) for d in use.x.shape]
    made: Expr = sizes[-1] if sizes else const(0)
    for k in reversed(range(len(sizes) - 1)):
        made = choice(apply("eq", i, k), sizes[k], made)
    return made


# --- running totals ----------------------------------------------------------------------------------------------


def _running(op: str) -> Meaning:
    def element(use: Use, *i: Expr) -> Expr:
        x, axis = use.x, use.attrs["axis"] % len(i)
        size, exclusive, reverse = x.shape[axis], use.attrs["exclusive"], use.attrs["reverse"]
        k = size - 1 - i[axis] if reverse else i[axis]

        def at(m: Number) -> Expr:
            return x[tuple((size - 1 - m if reverse else m) if a == axis else p for a, p in enumerate(i))]

        if exclusive:
            return folded(op, "m", [k], at, x.dtype, {"add": 0, "mul": 1}[op])
        return folded(op, "m", [k], lambda m: at(m + 1), x.dtype, at(const(0)))

    return Meaning(element)


TABLE: dict[str, Meaning] = {
    "permute_dims": Meaning(_permuted),
    "broadcast_to": Meaning(lambda use, *i: stretched(use.x, i, use.out.shape)),
    "device_copy": Meaning(lambda use, *i: use.x[i]),
    "strided_slice": Meaning(_sliced),
    "concat": Meaning(_concat),
    "split": Meaning(_split),
    "take": Meaning(_take, asks=_take_asks),
    "gather_nd": Meaning(_gather, asks=_gather_asks),
    "scatter_nd": Meaning(_scatter, asks=_gather_asks),
    "nn.pad": Meaning(_padded, _leaves_enough),
    "arange": Meaning(lambda use, i: cast(i, use.out.dtype)),
    "full": Meaning(lambda use, *i: const(use.attrs["fill_value"], use.out.dtype)),
    "shape_of": Meaning(_shape_of),
    "cumsum": _running("add"),
    "cumprod": _running("mul"),
}
