"""Elements chosen by tensors of places, and places found in tensors (specs/semantics.md, "Selection").

No operator's result has a shape that its operands' elements decide. Where a definition says so, the operator gives
room for the most there can be, zeros after what is there, and the count; what uses it takes the count as a size (M4.8).
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from assay.semantics.arrays import as_array, is_plain
from assay.semantics.bounding.model import gammas
from assay.semantics.bounds import Bounded, magnitude
from assay.semantics.dtypes import INT64, dtype
from assay.semantics.errors import Trap, Unpredictable
from assay.semantics.operator import Attr, Attrs, Example, Operator
from assay.semantics.ops.common import require_kind, same_dtype, show_shapes
from assay.semantics.ops.elementwise import extreme
from assay.semantics.ops.sizes import is_dim, product
from assay.semantics.ops.slicing import record
from assay.semantics.scalar import provably_equal, simplify
from assay.semantics.types import TensorType, TupleType


def decided_array(x: Any, what: str) -> Any:
    """Elements that decide, as a NumPy array; Unpredictable (bounds.C4) where bounds leave them open."""
    if not isinstance(x, Bounded):
        return np.asarray(x)
    if x.radius.any():
        raise Unpredictable(f"the bounds leave open {what}", label="bounds.C4")
    return x.raw.astype(x.of.numpy)


# --- arange -----------------------------------------------------------------------------------------------------------


def _arange_type(attrs: Attrs, types: tuple[TensorType, ...]) -> TensorType:
    size = attrs["size"]
    ARANGE.require(is_dim(size), "C1", f"size is {size!r}; a size is wanted")
    of = dtype(attrs["dtype"])
    require_kind("arange", of, ("int", "uint", "float"))
    return TensorType((simplify(size),), of)


ARANGE = Operator(
    "arange",
    "The numbers 0, 1, 2, ... of a dtype",
    (),
    "creation",
    _arange_type,
    lambda attrs: np.arange(attrs["size"]).astype(dtype(attrs["dtype"]).numpy),
    "exact: each number converted as `astype` does",
    (Example((), {"size": 5}), Example((), {"size": 3, "dtype": "float16"}), Example((), {"size": 0})),
    attrs={"size": Attr("how many numbers"), "dtype": Attr("the name of their dtype", "int64")},
    constraints={"C1": "size is a size"},
    source="ONNX Range, docs/Operators.md, with start 0 and delta 1; TVM relax.op.arange",
)

# --- gather_nd and scatter_nd -----------------------------------------------------------------------------------------


def _depth(op: Operator, x: TensorType, indices: TensorType) -> int:
    """How many axes of x the last axis of the indices speaks of."""
    require_kind(f"{op.name} with indices", indices.dtype, ("int",))
    depth = indices.shape[-1] if indices.ndim else None
    op.require(
        isinstance(depth, int) and depth <= x.ndim,
        "C1",
        f"indices are {indices}; their last axis must have a known size of at most {x.ndim}",
    )
    assert isinstance(depth, int)
    return depth


def _from_front(name: str, x: Any, indices: Any) -> Any:
    """Index tuples that are inside, counted from the front."""
    decided = decided_array(indices, "which elements are taken") if isinstance(indices, Bounded) else as_array(indices)
    taken = decided.astype(np.int64)
    sizes = np.array(x.shape[: taken.shape[-1]], np.int64)
    if np.any(outside := (taken < -sizes) | (taken >= sizes)):
        raise Trap("out of bounds", f"{name}: {_first_outside(taken, outside, sizes)}", label=f"{name}.T1")
    return np.where(taken < 0, taken + sizes, taken)


def _first_outside(taken: Any, outside: Any, sizes: Any) -> str:
    """The first index that is outside, in words."""
    if not is_plain(taken):
        return "an index is outside"
    first = tuple(np.argwhere(outside)[0])
    return f"index {taken[first]} into axis {first[-1]} of size {sizes[first[-1]]}"


def _places(name: str, x: Any, indices: Any) -> Any:
    """The row-major place in x of each index tuple's first element, as a vector."""
    taken = _from_front(name, x, indices)
    depth = taken.shape[-1]
    steps = np.array([int(np.prod(x.shape[a + 1 :], dtype=np.int64)) for a in range(depth)], np.int64)
    return (taken * steps).sum(axis=-1).reshape(-1)


def _spread(x: Any, indices: Any, places: Any) -> Any:
    """The places of all elements of the slices that begin at `places`, as a vector."""
    inner = int(np.prod(x.shape[indices.shape[-1] :], dtype=np.int64))
    return (places[:, None] + np.arange(inner)).reshape(-1)


def _gather_type(attrs: Attrs, types: tuple[TensorType, ...]) -> TensorType:
    x, indices = types
    return TensorType((*indices.shape[:-1], *x.shape[_depth(GATHER_ND, x, indices) :]), x.dtype)


def _gather(attrs: Attrs, x: Any, indices: Any) -> Any:
    taken, depth = _from_front("gather_nd", x, indices), indices.shape[-1]
    if not depth:
        return np.broadcast_to(x, (*indices.shape[:-1], *x.shape))
    return as_array(x[tuple(taken[..., k] for k in range(depth))])


GATHER_ND = record(
    "gather_nd",
    "The slices of x at index tuples: the last axis of indices holds a place for each of the first axes of x; negative"
    " ones count from the end, others outside trap",
    ("x", "indices"),
    _gather_type,
    _gather,
    "ONNX GatherND, docs/Operators.md, with batch_dims 0; TVM relax.op.gather_nd",
    (
        Example((((3, 4, 5), "float32"), ((2, 6, 2), "int64")), ranges={1: (-3, 3)}),
        Example((((3, 4), "int8"), ((5, 2), "int32")), ranges={1: (0, 3)}),
        Example((((3, 4), "float32"), ((2, 0), "int64"))),
    ),
    constraints={"C1": "the last axis of indices has a known size, at most the rank of x"},
    can_trap=True,
    family="selection",
)

REDUCTIONS: dict[str, Callable[[Any, Any], Any]] = {
    "none": lambda a, b: b,
    "add": lambda a, b: a + b,
    "mul": lambda a, b: a * b,
    "max": partial(extreme, "max"),
    "min": partial(extreme, "min"),
}


def _scatter_type(attrs: Attrs, types: tuple[TensorType, ...]) -> TensorType:
    x, indices, updates = types
    reduction = attrs["reduction"]
    SCATTER_ND.require(
        isinstance(reduction, str) and reduction in REDUCTIONS,
        "C2",
        f"reduction is {reduction!r}; it is one of {', '.join(REDUCTIONS)}",
    )
    same_dtype("scatter_nd", (x, updates))
    if reduction != "none":
        require_kind(f"scatter_nd with reduction {reduction}", x.dtype, ("int", "uint", "float"))
    wanted = (*indices.shape[:-1], *x.shape[_depth(SCATTER_ND, x, indices) :])
    SCATTER_ND.require(
        len(wanted) == updates.ndim and all(map(provably_equal, wanted, updates.shape)),
        "C3",
        f"updates are {updates}; the shape {show_shapes([wanted])} is wanted, a slice for each index tuple",
    )
    return x


def _scatter(attrs: Attrs, x: Any, indices: Any, updates: Any) -> Any:
    """In rounds: the first update of every place, then the second, and so on."""
    places = _spread(x, indices, _places("scatter_nd", x, indices))
    out, given = x.reshape(-1), updates.reshape(-1)
    order = np.argsort(places, kind="stable")
    new = np.r_[True, np.diff(places[order]) != 0][: len(order)]
    starts = np.flatnonzero(new)
    rank = np.arange(len(order)) - np.repeat(starts, np.diff(np.r_[starts, len(order)]))
    for r in range(int(rank.max(initial=-1)) + 1):
        turn = order[rank == r]
        source, touched = np.zeros(out.shape, np.int64), np.zeros(out.shape, bool)
        source[places[turn]], touched[places[turn]] = turn, True
        out = np.where(touched, REDUCTIONS[attrs["reduction"]](out, np.take(given, source)), out)
        if isinstance(out, np.ndarray):
            out = out.astype(x.dtype)  # ml_dtypes gives int8 for the extremes of narrow integers
    out = as_array(out).reshape(x.shape)
    return _in_any_order(attrs, out, x, indices, updates) if attrs["reduction"] in ("add", "mul") else out


def _in_any_order(attrs: Attrs, out: Any, x: Any, indices: Any, updates: Any) -> Any:
    """What a place and its updates make, which may meet there in any order, in a wider register: intervals grow by what
    a partial result may be rounded by, and say nothing where one may overflow of what is not infinite."""
    if not isinstance(out, Bounded) or not out.of.is_float:
        return out
    sizes = [magnitude(v) for v in (x, updates)]
    infinite = [~np.isfinite(v) for v in sizes]

    def met(how: str, one: Any, other: Any) -> Any:
        return _scatter({"reduction": how}, np.asarray(one, np.float64), indices, np.asarray(other, np.float64))

    terms = met("add", *(np.ones(v.shape) for v in sizes))
    if not (terms > 2).any():
        return out
    numbers = [np.where(bad, 0.0, v) for v, bad in zip(sizes, infinite, strict=True)]
    added = attrs["reduction"] == "add"
    size = met("add", *numbers) if added else met("mul", *(np.maximum(v, 1.0) for v in numbers))
    if added:
        off = gammas(terms.astype(np.int64) + 2, out.of) * size
    else:  # the factors below 1 may meet first, and what they make be rounded as a subnormal number
        least = met("mul", *(np.where(v > 0, np.minimum(v, 1.0), 1.0) for v in numbers))
        off = (least < out.of.smallest_normal) * (terms * 2 * out.of.smallest_subnormal * size)
    off = np.where((terms > 2) & np.isfinite(out.radius), off, 0.0)
    finite = met("max", *(v.astype(np.float64) for v in infinite)) == 0
    loose = (terms > 2) & finite & ~(size * (1 + 2.0**-8) < float(out.of.max))
    return Bounded(np.where(loose, 0.0, out.value), np.where(loose, np.inf, out.radius + off), out.of)


SCATTER_ND = record(
    "scatter_nd",
    "x with the slices at index tuples updated, in row-major order of the updates: replaced, or combined with what is"
    " there by a reduction; negative places count from the end, others outside trap",
    ("x", "indices", "updates"),
    _scatter_type,
    _scatter,
    "ONNX ScatterND, docs/Operators.md, where two updates of one place without reduction are not defined; the last"
    " holds here. TVM relax.op.scatter_nd",
    (
        Example((((3, 4), "float32"), ((5, 1), "int64"), ((5, 4), "float32")), ranges={1: (-3, 3)}),
        Example((((3, 4), "float32"), ((7, 2), "int64"), ((7,), "float32")), {"reduction": "add"}, {1: (-3, 3)}),
        Example((((3, 4), "float32"), ((7, 2), "int32"), ((7,), "float32")), {"reduction": "max"}, {1: (0, 3)}),
        Example((((3, 4), "int8"), ((2, 1), "int64"), ((2, 4), "int8")), {"reduction": "mul"}, {1: (0, 3)}),
    ),
    attrs={"reduction": Attr('what an update does: "none" replaces; "add", "mul", "max", "min" combine', "none")},
    constraints={
        "C1": "the last axis of indices has a known size, at most the rank of x",
        "C2": "reduction is none, add, mul, max or min",
        "C3": "updates hold a slice of x for each index tuple",
    },
    can_trap=True,
    family="selection",
)

# --- places that are found --------------------------------------------------------------------------------------------


def _nonzero_type(attrs: Attrs, types: tuple[TensorType, ...]) -> TupleType:
    (x,) = types
    return TupleType((TensorType((x.ndim, simplify(product(x.shape))), INT64), TensorType((1,), INT64)))


def _nonzero(attrs: Attrs, x: Any) -> tuple[Any, Any]:
    x = decided_array(x, "which elements are zero")
    found = np.argwhere(x != np.zeros((), x.dtype)).T
    out = np.zeros((x.ndim, x.size), np.int64)
    count = int(np.count_nonzero(x)) if x.ndim == 0 else found.shape[1]
    out[:, :count] = found
    return out, np.array([count], np.int64)


NONZERO = record(
    "nonzero",
    "The places of the elements that are not zero, in row-major order, a row for each axis; zeros after them; and their"
    " count",
    ("x",),
    _nonzero_type,
    _nonzero,
    "ONNX NonZero, docs/Operators.md; TVM relax.op.nonzero",
    (
        Example((((2, 3), "float32"),)),
        Example((((4,), "bool"),)),
        Example((((), "int32"),)),
        Example((((0, 2), "int8"),)),
    ),
    family="selection",
)


def _unique_type(attrs: Attrs, types: tuple[TensorType, ...]) -> TupleType:
    (x,) = types
    UNIQUE.require(x.ndim == 2, "C1", f"the operand is {x}; a matrix is wanted, whose rows are compared")
    UNIQUE.require(isinstance(attrs["sorted"], bool), "C2", f"sorted is {attrs['sorted']!r}; True or False is wanted")
    rows = TensorType((x.shape[0],), INT64)
    return TupleType((rows, rows, rows, TensorType((1,), INT64)))


def _unique(attrs: Attrs, x: Any) -> tuple[Any, ...]:
    x = decided_array(x, "which rows are equal")
    n = x.shape[0]
    # a column that says whether there is a number, then the number: NaN is last, and equals itself
    isnan = x != x
    columns = [
        c for k in range(x.shape[1]) for c in (isnan[:, k], np.where(isnan[:, k], np.zeros((), x.dtype), x[:, k]))
    ]
    ranks = np.zeros((n,), np.int64)
    for c in columns:
        pairs = ranks, np.unique(c, return_inverse=True)[1].reshape(-1)
        _, ranks = np.unique(pairs[0] * (n + 1) + pairs[1], return_inverse=True)
        ranks = ranks.reshape(-1)
    _, first, inverse, counts = np.unique(ranks, return_index=True, return_inverse=True, return_counts=True)
    if not attrs["sorted"]:
        order = np.argsort(first)
        first, counts, inverse = first[order], counts[order], np.argsort(order)[inverse.reshape(-1)]
    count = len(first)
    room = [np.zeros((n,), np.int64) for _ in range(2)]
    room[0][:count], room[1][:count] = first, counts
    return room[0], inverse.reshape(-1).astype(np.int64), room[1], np.array([count], np.int64)


UNIQUE = record(
    "unique",
    "The rows of a matrix without repetition: the place where each occurs first, ascending by the rows' elements or in"
    " the order of first occurrence; for each row of x its number among them; how often each occurs; how many they are."
    " Zeros after what is there. NaN is equal to itself and above all numbers",
    ("x",),
    _unique_type,
    _unique,
    "ONNX Unique, docs/Operators.md, of slices as rows; TVM relax.op.unique",
    (
        Example((((6, 1), "int8"),)),
        Example((((5, 2), "float32"),), {"sorted": False}),
        Example((((7, 1), "bool"),)),
        Example((((0, 2), "float32"),)),
    ),
    attrs={"sorted": Attr("whether the rows ascend; else they stay in the order of first occurrence", True)},
    constraints={"C1": "the operand is a matrix", "C2": "sorted is True or False"},
    family="selection",
)

TABLE: tuple[Operator, ...] = (ARANGE, GATHER_ND, SCATTER_ND, NONZERO, UNIQUE)
