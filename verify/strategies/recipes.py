"""How operators are used on an operand that is at hand: what else they want, and which attributes fit it
(specs/verify.md, "Programs").

A recipe gets the type of one operand, with an element type and a number of axes that the operator takes, and completes
the use. None where nothing fits that operand.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from math import prod
from typing import Any

from assay.semantics.dtypes import BOOL, DTYPES, INT32, INT64
from assay.semantics.operator import Operator
from assay.semantics.ops import OPERATORS, operator
from assay.semantics.scalar import Dim
from assay.semantics.types import TensorType
from assay.verify.strategies.choosing import Pick, one_of
from assay.verify.strategies.kinds import COMMON, SIZES, a_rank, a_shape
from assay.verify.strategies.operators import Range, ValidUse, dtypes_of, varied
from assay.verify.strategies.windows import WINDOWS

Made = (
    tuple[Sequence[TensorType], Mapping[str, Any]] | tuple[Sequence[TensorType], Mapping[str, Any], Mapping[int, Range]]
)
Recipe = Callable[[Pick, TensorType], Made | None]


def a_use(name: str, pick: Pick, first: TensorType | None = None, dtypes: Sequence[str] = COMMON) -> ValidUse | None:
    """A valid use of an operator. `first` is an operand that shall be among its operands: the result is None where the
    operator has no use for it. Without it there always is a use; its element types are of `dtypes` where that can be.
    """
    op = operator(name)
    known = RECIPES.get(name)
    if known is None:
        return varied(op, pick, dtypes) if first is None else None
    least, most, recipe = known
    if first is None:
        wanted = [n for n in dtypes if n in dtypes_of(name)] or list(dtypes_of(name)) or ["float32"]
        of = DTYPES[wanted[0] if pick(2) == 0 else one_of(pick, wanted)]
        first = TensorType(a_shape(pick, a_rank(pick, least, most)), of)
    elif first.dtype.name not in dtypes_of(name) or not least <= first.ndim <= most:
        return None
    made = recipe(pick, first)
    use = None if made is None else ValidUse(op, tuple(made[0]), made[1], made[2] if len(made) > 2 else {})
    return use if use is not None and use.accepted else None


def fresh_use(name: str, pick: Pick, dtypes: Sequence[str] = COMMON) -> ValidUse:
    """A valid use of an operator on operands of its own."""
    return a_use(name, pick, None, dtypes) or varied(operator(name), pick, dtypes)


def _static(x: TensorType) -> tuple[int, ...] | None:
    return x.static_shape if x.is_static else None


def an_axis(pick: Pick, rank: int) -> int:
    """An axis, the first one first, counted from the end now and then."""
    axis = pick(rank)
    return axis - rank if pick(4) == 3 else axis


def some_axes(pick: Pick, rank: int) -> tuple[int, ...]:
    """Some axes, each once, in any order, counted from either end."""
    kept = [a for a in range(rank) if pick(2)]
    if pick(3) == 2:
        kept.reverse()
    return tuple(a - rank if pick(4) == 3 else a for a in kept)


# --- elementwise -------------------------------------------------------------------------------------------------


def partner(pick: Pick, x: TensorType) -> TensorType:
    """A type that broadcasts with x to x's shape."""
    shape: tuple[Dim, ...] = x.shape
    match pick(5):
        case 2:
            shape = ()
        case 3:
            shape = shape[pick(len(shape) + 1) :]
        case 4:
            shape = tuple(1 if pick(2) else d for d in shape)
        case _:
            pass
    return TensorType(shape, x.dtype)


def _unary(pick: Pick, x: TensorType) -> Made:
    return (x,), {}


def _binary(low: int | None = None) -> Recipe:
    def recipe(pick: Pick, x: TensorType) -> Made:
        other = partner(pick, x)
        if low is not None:
            return (x, other), {}, {1: (low, 7)}
        return ((x, other) if pick(2) == 0 else (other, x)), {}

    return recipe


def _where(pick: Pick, x: TensorType) -> Made:
    return (TensorType(partner(pick, x).shape, BOOL), x, partner(pick, x)), {}


def _clip(pick: Pick, x: TensorType) -> Made:
    low = one_of(pick, (0, None, 1) if x.dtype.kind == "uint" else (0, None, -1))
    return (x,), {"min": low, "max": one_of(pick, (6, None, 1))}


def _astype(pick: Pick, x: TensorType) -> Made:
    """Only casts that cannot trap: those of numbers that may not fit are the graph's business."""
    names = [n for n in COMMON if not (x.dtype.is_float and DTYPES[n].is_integer)]
    return (x,), {"dtype": one_of(pick, names)}


def _reinterpret(pick: Pick, x: TensorType) -> Made | None:
    names = [n for n in COMMON if DTYPES[n].bits == x.dtype.bits and n != "bool"]
    return ((x,), {"dtype": one_of(pick, names)}) if names else None


def _leaky(pick: Pick, x: TensorType) -> Made:
    return (x,), {"alpha": one_of(pick, (0.25, 0.01, 1.5, -0.5))}


# --- reductions and scans ----------------------------------------------------------------------------------------


def _reduce(pick: Pick, x: TensorType) -> Made:
    axis = one_of(pick, (None, "some"))
    return (x,), {"axis": None if axis is None else some_axes(pick, x.ndim), "keepdims": bool(pick(2))}


def _scan(pick: Pick, x: TensorType) -> Made:
    return (x,), {"axis": an_axis(pick, x.ndim), "exclusive": bool(pick(2)), "reverse": bool(pick(2))}


def _topk(pick: Pick, x: TensorType) -> Made | None:
    axis = an_axis(pick, x.ndim)
    size = x.shape[axis]
    if not isinstance(size, int):
        return None
    return (x,), {"axis": axis, "k": pick(size) + 1 if size else 0, "largest": pick(2) == 0}


# --- contraction and normalization -------------------------------------------------------------------------------


def _matmul(pick: Pick, x: TensorType) -> Made:
    n = one_of(pick, SIZES)
    if x.ndim == 1:
        return ((x, TensorType((x.shape[0], n), x.dtype)) if pick(2) == 0 else (x, x)), {}
    *batch, rows, inner = x.shape
    match pick(5):
        case 2:
            return (x, TensorType((inner,), x.dtype)), {}
        case 3:
            return (TensorType((n, rows), x.dtype), x), {}
        case 4:
            return (x, TensorType((*batch, inner, n), x.dtype)), {}
        case _:
            return (x, TensorType((inner, n), x.dtype)), {}


def _softmax(pick: Pick, x: TensorType) -> Made:
    return (x,), {"axis": -1 if pick(2) == 0 else an_axis(pick, x.ndim)}


def _batch_norm(pick: Pick, x: TensorType) -> Made:
    axis = 1 if x.ndim > 1 and pick(3) < 2 else an_axis(pick, x.ndim)
    each = TensorType((x.shape[axis],), x.dtype)
    epsilon = one_of(pick, (1e-5, 0.5, 1e-3))
    return (x, each, each, each, TensorType(each.shape, x.dtype)), {"axis": axis, "epsilon": epsilon}, {4: (0, 3)}


def _layer_norm(pick: Pick, x: TensorType) -> Made:
    count = 1 + pick(x.ndim)
    each = TensorType(x.shape[-count:], x.dtype)
    operands = (x, each, TensorType(each.shape, x.dtype))
    return operands[: 3 - pick(2)], {"axes": tuple(range(-count, 0)), "epsilon": one_of(pick, (1e-5, 0.25))}


def _lrn(pick: Pick, x: TensorType) -> Made:
    return (x,), {
        "size": 1 + pick(5),
        "alpha": one_of(pick, (1e-4, 0.5)),
        "beta": one_of(pick, (0.75, 0.25)),
        "bias": one_of(pick, (1.0, 2.0)),
    }


# --- movement ----------------------------------------------------------------------------------------------------


def _reshape(pick: Pick, x: TensorType) -> Made | None:
    shape = _static(x)
    if shape is None:
        return None
    left = prod(shape)
    new: list[int] = []
    while left > 1 and len(new) < 4:
        divisor = one_of(pick, [d for d in range(2, left + 1) if left % d == 0][::-1])
        new.append(divisor)
        left //= divisor
    new += [left] if left != 1 else []
    for _ in range(pick(2)):
        new.insert(pick(len(new) + 1), 1)
    if 0 not in new and pick(4) == 3 and new:
        new[pick(len(new))] = -1
    return (x,), {"shape": tuple(new)}


def _squeeze(pick: Pick, x: TensorType) -> Made:
    ones = [a for a, d in enumerate(x.shape) if isinstance(d, int) and d == 1 and pick(4) < 3]
    return (x,), {"axis": tuple(a - x.ndim if pick(4) == 3 else a for a in ones)}


def _expand(pick: Pick, x: TensorType) -> Made:
    count = 1 + pick(2)
    rank = x.ndim + count
    first = pick(rank)
    axes = (first, *((first + 1 + k) % rank for k in range(count - 1)))
    return (x,), {"axis": tuple(a - rank if pick(4) == 3 else a for a in axes)}


def _permute(pick: Pick, x: TensorType) -> Made:
    if pick(4) == 3:
        return (x,), {}
    left = list(range(x.ndim))
    axes = [left.pop(-1 if pick(2) == 0 else pick(len(left))) for _ in range(x.ndim)]
    return (x,), {"axes": tuple(axes)}


def _concat(pick: Pick, x: TensorType) -> Made:
    axis = an_axis(pick, x.ndim)
    others = []
    for _ in range(1 + pick(2)):
        shape = list(x.shape)
        shape[axis] = 1 + pick(4)
        others.append(x if pick(3) == 2 else TensorType(tuple(shape), x.dtype))
    return ((x, *others) if pick(3) < 2 else (*others, x)), {"axis": axis}


def _slice(pick: Pick, x: TensorType) -> Made | None:
    axes = some_axes(pick, x.ndim) or (0,)
    begin, end, strides = [], [], []
    for a in axes:
        n = x.shape[a]
        if not isinstance(n, int):
            return None
        step = one_of(pick, (1, 2, -1, 3, -2))
        first, last = pick(n + 1), n - pick(n + 1)
        first, last = (first, last) if step > 0 else (n - 1 - first, last - n - 1)
        begin.append(first if pick(3) < 2 else first - n)
        end.append(last if pick(3) < 2 else (2**63 - 1 if step > 0 else -(2**63)))
        strides.append(step)
    attrs: dict[str, Any] = {"axes": axes, "begin": tuple(begin), "end": tuple(end)}
    return (x,), attrs if all(s == 1 for s in strides) and pick(2) else {**attrs, "strides": tuple(strides)}


def _split(pick: Pick, x: TensorType) -> Made | None:
    axis = an_axis(pick, x.ndim)
    left = x.shape[axis]
    if not isinstance(left, int):
        return None
    sections = []
    for _ in range(1 + pick(2)):
        part = pick(left + 1)
        sections.append(part)
        left -= part
    return (x,), {"sections": (*sections, left), "axis": axis}


def _take(pick: Pick, x: TensorType) -> Made | None:
    axis = an_axis(pick, x.ndim)
    size = x.shape[axis]
    if not isinstance(size, int) or not size:
        return None
    indices = TensorType(a_shape(pick, pick(3)), INT64 if pick(3) < 2 else INT32)
    return (x, indices), {"axis": axis}, {1: (-size, size) if pick(2) else (0, size)}


def _pad(pick: Pick, x: TensorType) -> Made | None:
    shape = _static(x)
    if shape is None:
        return None
    mode = one_of(pick, ("constant", "edge", "reflect"))
    most = [3 if mode != "reflect" else max(1, min(n, 3)) for n in shape]
    width = [pick(m) for m in most] + [pick(m) for m in most]
    if mode == "constant" and shape and pick(4) == 3:
        at = pick(len(shape))
        width[at] = -pick(shape[at] + 1)
    if mode == "edge" and 0 in shape:
        return None
    value: float = one_of(pick, (0.0, 1.0) if not x.dtype.is_float else (0.0, 1.5))
    return (x,), {"pad_width": tuple(width), "mode": mode, "pad_value": value}


def _broadcast(pick: Pick, x: TensorType) -> Made:
    shape = [one_of(pick, SIZES) if isinstance(d, int) and d == 1 else d for d in x.shape]
    return (x,), {"shape": (*a_shape(pick, pick(3)), *shape)}


# --- selection ---------------------------------------------------------------------------------------------------


def _gather(pick: Pick, x: TensorType) -> Made | None:
    shape = _static(x)
    depth = pick(x.ndim) + 1
    if shape is None or not all(shape):
        return None
    least = min(shape[:depth])
    indices = TensorType((*a_shape(pick, pick(3)), depth), INT64 if pick(3) < 2 else INT32)
    return (x, indices), {}, {1: (-least, least) if pick(2) else (0, least)}


def _scatter(pick: Pick, x: TensorType) -> Made | None:
    found = _gather(pick, x)
    if found is None:
        return None
    indices = found[0][1]
    depth = indices.static_shape[-1]
    updates = TensorType((*indices.shape[:-1], *x.shape[depth:]), x.dtype)
    # two updates of one place: which one wins is not said, unless they are combined
    reductions: tuple[str, ...] = (
        ("add", "max", "min", "mul") if prod(indices.static_shape[:-1]) > 1 else ("none", "add")
    )
    if x.dtype is BOOL:
        reductions = ("none",) if reductions[0] == "none" else ("max", "min")
    return (x, indices, updates), {"reduction": one_of(pick, reductions)}, found[2]  # type: ignore[misc]


def _unique(pick: Pick, x: TensorType) -> Made:
    return (x,), {"sorted": pick(2) == 0}


def _full(pick: Pick, x: TensorType) -> Made | None:
    """No operands: the type at hand says what is made."""
    shape = _static(x)
    return None if shape is None else ((), {"shape": shape, "fill_value": pick(2), "dtype": x.dtype.name})


def _arange(pick: Pick, x: TensorType) -> Made | None:
    shape = _static(x)
    return (
        ((), {"size": shape[0] if shape else 3, "dtype": one_of(pick, ("int64", "int32", "float32"))})
        if shape is not None
        else None
    )


Known = tuple[int, int, Recipe]
"""The least and the greatest number of axes of the operand at hand, and the recipe."""


def _elementwise(op: Operator) -> Known | None:
    """The recipe of an elementwise operator without attributes, by the number of its operands."""
    if op.family != "elementwise" or op.required:
        return None
    low = min((r[0] for e in op.examples for r in e.ranges.values()), default=None)
    return {1: (0, 6, _unary), 2: (0, 6, _binary(low))}.get(len(op.operands))


RECIPES: dict[str, Known] = {name: known for name, op in OPERATORS.items() if (known := _elementwise(op)) is not None}
RECIPES |= {
    "where": (0, 6, _where), "clip": (0, 6, _clip), "astype": (0, 6, _astype), "reinterpret": (0, 6, _reinterpret),
    "nn.leakyrelu": (0, 6, _leaky), "device_copy": (0, 6, _unary), "nonzero": (0, 3, _unary),
    "shape_of": (0, 6, _unary),
    **dict.fromkeys(("sum", "mean", "prod", "max", "min"), (0, 6, _reduce)),
    **dict.fromkeys(("cumsum", "cumprod"), (1, 6, _scan)), "topk": (1, 6, _topk), "matmul": (1, 6, _matmul),
    **dict.fromkeys(("nn.softmax", "nn.log_softmax"), (1, 6, _softmax)), "nn.batch_norm": (1, 6, _batch_norm),
    "nn.layer_norm": (1, 6, _layer_norm), "nn.lrn": (2, 6, _lrn), "reshape": (0, 6, _reshape),
    "squeeze": (0, 6, _squeeze), "expand_dims": (0, 4, _expand), "permute_dims": (0, 6, _permute),
    "concat": (1, 6, _concat), "strided_slice": (1, 6, _slice), "split": (1, 6, _split), "take": (1, 5, _take),
    "nn.pad": (0, 6, _pad), "broadcast_to": (0, 3, _broadcast), "gather_nd": (1, 5, _gather),
    "scatter_nd": (1, 5, _scatter), "unique": (2, 2, _unique), "full": (0, 4, _full), "arange": (0, 1, _arange),
    **WINDOWS,
}  # fmt: skip
