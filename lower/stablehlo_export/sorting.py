"""Orders and places that are found, as StableHLO's sort (specs/lower.md, "Export")."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from assay.lower.stablehlo_export.use import HloExportRule, HloResults, HloUse
from assay.lower.stablehlo_export.writer import HloValue
from assay.semantics.dtypes import INT32, INT64
from assay.semantics.ops.sizes import product
from assay.semantics.scalar import simplify

Before = Callable[[list[HloValue]], HloValue]
"""Whether the left element stands before the right one: of scalars, each operand's left and right one."""


def sorted_by(use: HloUse, xs: Sequence[HloValue], axis: int, before: Before) -> list[HloValue]:
    """The operands with the elements of an axis in an order; equal ones stay in theirs, but where a topk is not
    stable."""
    region = use.region([x.dtype for x in xs for _ in range(2)], lambda p: [before(p)])
    stable = "true" if use.attrs.get("stable", True) else "false"
    attrs = {"dimension": f"{axis} : i64", "is_stable": stable}
    return use.writer.op("stablehlo.sort", xs, [(x.shape, x.dtype) for x in xs], attrs, [region])


def below(use: HloUse, a: HloValue, b: HloValue) -> HloValue:
    """Whether a is smaller than b; NaN is larger than any number, and zeros are equal."""
    less = use.compared("LT", a, b)
    if not a.dtype.is_float:
        return less
    only = use.op("and", use.compared("EQ", a, a), use.compared("NE", b, b))
    return use.op("or", less, only)


def topk(use: HloUse) -> HloResults:
    """The first of all elements in order; of equal ones the first comes first, where the sort is stable."""
    (x,) = use.args
    axis, k = use.axis(), use.attrs["k"]
    use.number(x.shape[axis], "the axis that is sorted")
    line = use.line(INT64, x.shape, axis)
    if use.attrs["largest"]:
        found = sorted_by(use, [x, line], axis, lambda p: below(use, p[1], p[0]))
    else:
        found = sorted_by(use, [x, line], axis, lambda p: below(use, p[0], p[1]))
    return [use.cut(f, axis, 0, k) for f in found]


def nonzero(use: HloUse) -> HloResults:
    """The places of what is not zero stand first in a stable order; what is behind them is made 0."""
    (x,) = use.args
    size = simplify(product(x.shape))
    flat = use.shaped(x, (size,))
    there = use.compared("NE", flat, use.filled(0, flat))
    count = use.shaped(use.reduced("add", use.cast(there, INT64), [0]), (1,))
    missing = use.cast(use.op("not", there), INT32)
    line = use.line(INT64, (size,))
    _, places = sorted_by(use, [missing, line], 0, lambda p: below(use, p[0], p[1]))
    held = use.compared("LT", line, count)
    rows = []
    for axis, d in enumerate(x.shape):
        row = places
        if size != 0:
            row = use.op("divide", places, use.size(simplify(product(x.shape[axis + 1 :])), places))
            row = use.op("remainder", row, use.size(d, row))
        rows.append(use.shaped(use.select(held, row, use.filled(0, row)), (1, size)))
    found = use.joined(rows, 0) if rows else use.filled(0, line, (0, size))
    return [found, count]


def unique(use: HloUse) -> HloResults:
    """The rows in order, of which each that is not as the one before it begins a group. The places of groups are found
    by sorting again: a group stands where its first row is, in the order of rows or of first occurrence."""
    (x,) = use.args
    rows, columns = (use.number(d, "a size of the rows") for d in x.shape)
    line = use.line(INT64, (rows,))
    if not rows:
        return [line, line, line, use.filled(0, line, (1,))]
    parts = [use.shaped(use.cut(x, 1, k, k + 1), (rows,)) for k in range(columns)]
    *ordered, places = sorted_by(use, [*parts, line], 0, lambda p: _rows_below(use, p[: 2 * columns]))
    differ = use.filled(0, use.compared("LT", line, line), (rows - 1,))
    for column in ordered:
        differ = use.op("or", differ, _apart(use, use.cut(column, 0, 1, rows), use.cut(column, 0, 0, rows - 1)))
    starts = use.joined([use.filled(1, differ, (1,)), differ], 0)
    group = _counted(use, use.cast(starts, INT64), rows)
    last = use.shaped(use.cut(group, 0, rows - 1, rows), (1,))
    count = use.op("add", last, use.filled(1, last))
    # for each group, its first row and how many rows it has, by comparing all pairs
    same = use.op("compare", use.placed(group, (rows, rows), [1]), use.placed(line, (rows, rows), [0]), of=starts.dtype,
                  comparison_direction="#stablehlo<comparison_direction EQ>")  # fmt: skip
    counts = use.reduced("add", use.cast(same, INT64), [1])
    far = use.filled(rows, line, (rows, rows))
    first = use.reduced("min", use.select(same, use.placed(places, (rows, rows), [1]), far), [1])
    inverse = _put(use, group, places, rows)
    if not use.attrs["sorted"]:
        _, order = sorted_by(use, [first, line], 0, lambda p: below(use, p[0], p[1]))
        rank = _put(use, line, order, rows)
        first, counts = (_at(use, v, order, rows) for v in (first, counts))
        inverse = _at(use, rank, inverse, rows)
    held = use.compared("LT", line, count)
    return [
        use.select(held, first, use.filled(0, first)),
        inverse,
        use.select(held, counts, use.filled(0, counts)),
        count,
    ]


def _rows_below(use: HloUse, p: Sequence[HloValue]) -> HloValue:
    """Whether a row stands before another: by the first column in which they differ."""
    found = use.filled(0, use.compared("LT", p[0], p[0])) if p else use.filled(0, use.compared("LT", *_ones(use)))
    for k in reversed(range(0, len(p), 2)):
        a, b = p[k], p[k + 1]
        found = use.select(_apart(use, a, b), below(use, a, b), found)
    return found


def _ones(use: HloUse) -> tuple[HloValue, HloValue]:
    one = use.writer.filled(1, INT32, ())
    return one, one


def _apart(use: HloUse, a: HloValue, b: HloValue) -> HloValue:
    """Whether two elements differ; NaN is equal to itself."""
    found = use.compared("NE", a, b)
    if not a.dtype.is_float:
        return found
    both = use.op("and", use.compared("NE", a, a), use.compared("NE", b, b))
    return use.op("and", found, use.op("not", both))


def _counted(use: HloUse, starts: HloValue, rows: int) -> HloValue:
    """The number of starts up to each place, less one."""
    total = use.windowed("add", starts, [rows], [1], [1], [(rows - 1, 0)])
    return use.op("subtract", total, use.filled(1, total))


def _put(use: HloUse, values: HloValue, places: HloValue, rows: int) -> HloValue:
    """A vector that has each value at its place, the places being an order: the values sorted by them."""
    return sorted_by(use, [places, values], 0, lambda p: below(use, p[0], p[1]))[1]


def _at(use: HloUse, values: HloValue, places: HloValue, rows: int) -> HloValue:
    """The values at places."""
    hit = use.compared("EQ", use.placed(places, (rows, rows), [0]), use.line(INT64, (rows, rows), 1))
    wide = use.placed(values, (rows, rows), [1])
    return use.reduced("add", use.select(hit, wide, use.filled(0, wide)), [1])


TABLE: dict[str, HloExportRule] = {"nonzero": nonzero, "topk": topk, "unique": unique}
