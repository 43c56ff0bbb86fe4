"""Products and convolutions of StableHLO (specs/lower.md, "StableHLO").

The order of additions is implementation-defined. Operands are converted to the type of the result first, so products
and sums are in it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from assay.lower.frontends.stablehlo.node import HloNode, HloRule, tensor_of
from assay.lower.frontends.stablehlo.operators.movement import backwards, spread
from assay.lower.frontends.stablehlo.operators.windows import padding
from assay.lower.frontends.stablehlo.syntax import Dialect
from assay.semantics.dtypes import BOOL, DTYPES, DType
from assay.semantics.graph import Expr
from assay.semantics.ops.sizes import floor_div, larger, never_negative, product
from assay.semantics.scalar import Dim, simplify

Axes = tuple[int, ...]


def numbers_of(node: HloNode, ranks: tuple[int, int]) -> tuple[Axes, Axes, Axes, Axes]:
    """The axes that both operands have, then those that are summed over: of the first, then of the second."""
    if "contracting_dims" in node.op.attrs or "batching_dims" in node.op.attrs:
        lists = [*node.op.attrs.get("batching_dims", ((), ())), *node.op.attrs.get("contracting_dims", ((), ()))]
    else:
        found = node.op.attrs.get("dot_dimension_numbers")
        fields = found.fields if isinstance(found, Dialect) else {}
        names = ("batching", "contracting")
        lists = [fields.get(f"{side}_{n}_dimensions", ()) for n in names for side in ("lhs", "rhs")]
    for k, axes in enumerate(lists):
        rank = ranks[k % 2]
        if not isinstance(axes, tuple) or not all(isinstance(a, int) and 0 <= a < rank for a in axes):
            raise node.wrong(f"the axes {axes} of a tensor of {rank} axes")
    lb, rb, lc, rc = lists
    if len(lb) != len(rb) or len(lc) != len(rc) or len({*lb, *lc}) != len(lb + lc) or len({*rb, *rc}) != len(rb + rc):
        raise node.wrong(f"batching axes {lb} x {rb} and contracting axes {lc} x {rc} do not fit")
    return lb, rb, lc, rc


def dot_general(node: HloNode) -> Expr:
    """The sum of products over the contracting axes."""
    node.operands(2)
    a, b = node.args
    if node.op.name == "stablehlo.dot":
        ranks = tensor_of(a).ndim, tensor_of(b).ndim
        if not all(1 <= r <= 2 for r in ranks):
            raise node.wrong(f"the operands are {a.type} and {b.type}; vectors and matrices are wanted")
        return product_of(node, a, b, ((), (), (ranks[0] - 1,), (0,)), node.result().dtype)
    return product_of(node, a, b, numbers_of(node, (tensor_of(a).ndim, tensor_of(b).ndim)), node.result().dtype)


def product_of(node: HloNode, a: Expr, b: Expr, numbers: tuple[Axes, Axes, Axes, Axes], to: DType) -> Expr:
    """The product of two tensors along axes."""
    lb, rb, lc, rc = numbers
    shapes = tensor_of(a).shape, tensor_of(b).shape
    wanted = list(shapes[1])
    for p, q in zip((*lb, *lc), (*rb, *rc), strict=True):
        wanted[q] = shapes[0][p]
    b = node.claimed(b, wanted)
    lm = tuple(k for k in range(len(shapes[0])) if k not in (*lb, *lc))
    rn = tuple(k for k in range(len(shapes[1])) if k not in (*rb, *rc))
    batch = [shapes[0][k] for k in lb]
    rows, columns = [shapes[0][k] for k in lm], [shapes[1][k] for k in rn]
    summed = product([shapes[0][k] for k in lc])
    work = DTYPES["int32"] if to is BOOL else to
    x = node.shaped(ordered(node, node.cast(a, work), (*lb, *lm, *lc)), *batch, product(rows), summed)
    y = node.shaped(ordered(node, node.cast(b, work), (*rb, *rc, *rn)), *batch, summed, product(columns))
    z = node.shaped(node.call("matmul", x, y), *batch, *rows, *columns)
    return node.cast(z, to)


def ordered(node: HloNode, x: Expr, axes: Sequence[int]) -> Expr:
    """`x` with its axes in that order."""
    return x if list(axes) == list(range(len(axes))) else node.call("permute_dims", x, axes=tuple(axes))


# --- convolution ------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Layout:
    """Where the axes of a convolution's operands and result are: batch, features, then the spatial ones."""

    x: Axes
    w: Axes
    y: Axes


def layout(node: HloNode) -> Layout:
    """What `dimension_numbers` say."""
    found: Any = node.attr("dimension_numbers")
    words = [
        w
        for w in (found if isinstance(found, tuple) else getattr(found, "words", ()))
        if w not in ("[", "]", "->", "x")
    ]
    groups: list[list[str]] = [[]]
    if isinstance(found, tuple):
        for w in words:
            groups.append([]) if w == "," else groups[-1].append(w)
    else:
        groups = split_groups(found)
    if len(groups) != 3:
        raise node.wrong("dimension_numbers are [b, 0, 1, f]x[0, 1, i, o]->[b, 0, 1, f] or such")
    made = [axes_in(node, g, first) for g, first in zip(groups, (("b", "f"), ("o", "i"), ("b", "f")), strict=True)]
    if len({len(m) for m in made}) != 1:
        raise node.wrong("dimension_numbers are of one rank")
    return Layout(*made)


def split_groups(found: Any) -> list[list[str]]:
    """The lists of names in `#stablehlo.conv<[...]x[...]->[...]>`."""
    groups: list[list[str]] = []
    for w in getattr(found, "words", ()):
        if w == "[":
            groups.append([])
        elif w not in ("]", ",", "x", "->") and groups:
            groups[-1].append(w)
    return groups


def axes_in(node: HloNode, names: Sequence[str], first: tuple[str, str]) -> Axes:
    """The axes of a list of names: the two named ones, then those with numbers."""
    wanted = (*first, *map(str, range(len(names) - 2)))
    if sorted(names) != sorted(wanted):
        raise node.wrong(f"dimension_numbers name {', '.join(names)}; {', '.join(wanted)} are wanted")
    return tuple(list(names).index(w) for w in wanted)


def convolution(node: HloNode) -> Expr:
    """The products of windows of the first operand with the second, added up."""
    dynamic = node.op.name == "stablehlo.dynamic_conv"
    node.operands(3 if dynamic else 2)
    where, to = layout(node), node.result().dtype
    x, w = (node.cast(ordered(node, e, axes), to) for e, axes in zip(node.args, (where.x, where.w), strict=False))
    if tensor_of(x).ndim != len(where.x) or tensor_of(w).ndim != len(where.x):
        raise node.wrong(f"dimension_numbers of {len(where.x)} axes for {node.args[0].type} and {node.args[1].type}")
    rank = len(where.x) - 2
    low, high = dynamic_padding(node, rank) if dynamic else padding(node, rank)
    lists = [node.ints(n, default=(1,) * rank) for n in ("window_strides", "lhs_dilation", "rhs_dilation")]
    if any(len(v) != rank or min(v, default=1) < 1 for v in lists):
        raise node.wrong(f"strides and dilations are positive numbers, one for each of {rank} axes")
    strides, base, dilation = lists
    turned = node.attr("window_reversal", (0,) * rank)
    if isinstance(turned, tuple) and len(turned) == rank:
        w = backwards(node, w, [k + 2 for k, t in enumerate(turned) if t])
    groups, batches = (node.number(n, default=1) for n in ("feature_group_count", "batch_group_count"))
    if min(groups, batches) < 1 or max(groups, batches) > 1 < min(groups, batches):
        raise node.wrong("feature_group_count and batch_group_count are positive, and one of them is 1")
    x = spread(node, x, 0, (0, 0, *low), (0, 0, *high), (0, 0, *(b - 1 for b in base)))
    if batches > 1:
        x, groups = grouped_batches(node, x, batches), batches
    y = convolved(node, x, w, strides, dilation, groups)
    return ordered(node, y, sorted(range(rank + 2), key=lambda k: where.y[k]))


def dynamic_padding(node: HloNode, rank: int) -> tuple[Axes, Axes]:
    """The padding that the third operand holds."""
    read = node.builder.dims(node.shaped(node.args[2], 2 * rank), "padding")
    known = [d for d in read if isinstance(d, int)]
    if len(known) != len(read):
        raise node.unsupported("a padding that only a run knows")
    return tuple(known[::2]), tuple(known[1::2])


def grouped_batches(node: HloNode, x: Expr, groups: int) -> Expr:
    """Images in groups, of which each has features of its own: [g * n, c, ...] as [n, g * c, ...]."""
    n, c, *rest = tensor_of(x).shape
    if isinstance(n, int) and n % groups:
        raise node.wrong(f"{n} images in {groups} groups")
    each: Dim = n // groups if isinstance(n, int) else simplify(n // groups)
    apart = node.shaped(x, groups, each, c, *rest)
    order = (1, 0, *range(2, len(rest) + 3))
    return node.shaped(node.call("permute_dims", apart, axes=order), each, simplify(c * groups), *rest)


def convolved(node: HloNode, x: Expr, w: Expr, strides: Axes, dilation: Axes, groups: int) -> Expr:
    """A convolution of [n, c, ...] by an operator of ours; without spatial axes one of size 1 is added."""
    rank = len(strides)
    (_, given, *_), (features, wanted, *window) = tensor_of(x).shape, tensor_of(w).shape
    if not (isinstance(given, int) and isinstance(wanted, int)):
        w = node.claimed(w, (features, floor_div(given, groups), *window))
    if rank > 3:
        raise node.unsupported(f"{rank} spatial axes")
    if rank == 0:
        x, w = (node.shaped(e, *tensor_of(e).shape, 1) for e in (x, w))
        y = node.call("nn.conv1d", x, w, groups=groups)
        return node.shaped(y, *tensor_of(y).shape[:2])
    batch, _, *sizes = tensor_of(x).shape
    over = [simplify(d - (k - 1) * step - 1) for d, k, step in zip(sizes, window, dilation, strict=True)]
    counts = [floor_div(larger(simplify(o + s), 0), s) for o, s in zip(over, strides, strict=True)]
    if 0 in counts:
        return node.stretched(node.constant(0, tensor_of(x).dtype), batch, features, *counts)
    short = [axis for axis, o in enumerate(over) if not never_negative(o)]
    for axis in short:  # such an axis may have no place for a window: there it is made longer
        shape = list(tensor_of(x).shape)
        shape[axis + 2] = larger(simplify(0 - over[axis]), 0)
        x = node.call("concat", x, node.stretched(node.constant(0, tensor_of(x).dtype), *shape), axis=axis + 2)
    y = node.call(f"nn.conv{rank}d", x, w, strides=strides, dilation=dilation, groups=groups)
    for axis in short:
        y = node.cut(y, axis + 2, 0, counts[axis])
    return y


TABLE: dict[str, HloRule] = {
    "stablehlo.convolution": convolution,
    "stablehlo.dot": dot_general,
    "stablehlo.dot_general": dot_general,
    "stablehlo.dynamic_conv": convolution,
}
