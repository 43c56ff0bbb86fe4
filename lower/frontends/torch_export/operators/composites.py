"""Operators that ATen composes of others (specs/lower.md, "torch.export").

A file holds a program as it was exported, these among its operators; in Python PyTorch takes them apart itself. Each is
composed as ATen does it (aten/src/ATen/native), so that what is rounded on the way is rounded here.
"""

from __future__ import annotations

from math import inf, pi

from assay.lower.frontends.torch_export.node import AtenNode, AtenRule, aten_type
from assay.lower.frontends.torch_export.operators import contraction, elementwise, integers, movement, reduction
from assay.lower.frontends.torch_export.operators.composed import AtenMaker
from assay.lower.frontends.torch_export.operators.elementwise import constant_like
from assay.lower.frontends.torch_export.operators.indexing import gather
from assay.lower.frontends.torch_export.operators.networks import Gates, gru_step, lstm_step, rnn_step
from assay.lower.frontends.torch_export.operators.reduction import norm
from assay.lower.frontends.torch_export.operators.views import diagonal
from assay.semantics.composed import equations
from assay.semantics.dtypes import FLOAT32, FLOAT64, INT64
from assay.semantics.graph import Expr
from assay.semantics.ops.common import broadcast_shapes
from assay.semantics.ops.sizes import product
from assay.semantics.scalar import Dim

# --- shapes and places


def at_least(node: AtenNode, x: Expr, rank: int) -> Expr:
    """A tensor of at least so many axes: a vector is a row; of three axes the last is new."""
    shape: list[Dim] = list(aten_type(x).shape)
    if len(shape) < min(rank, 2):
        shape = [*[1] * (min(rank, 2) - len(shape)), *shape]
    return node.shaped(x, *shape, *[1] * (rank - len(shape)))


def at_least_of(rank: int) -> AtenRule:
    """One tensor, or each of several."""

    def rule(node: AtenNode) -> Expr | list[Expr]:
        if "tensors" in node.args:
            return [at_least(node, x, rank) for x in node.tensors("tensors")]
        return at_least(node, node.tensor(), rank)

    return rule


def stacked(rank: int, axis: int) -> AtenRule:
    """Tensors of at least so many axes, one behind the other."""

    def rule(node: AtenNode) -> Expr:
        xs = [at_least(node, x, rank) for x in node.tensors("tensors")]
        along = 0 if aten_type(xs[0]).ndim == 1 else axis
        return movement.cat(node.with_(tensors=xs, dim=along))

    return rule


def column_stack(node: AtenNode) -> Expr:
    """Vectors as columns, matrices as they are, beside one another."""
    xs = node.tensors("tensors")
    wide = [node.shaped(x, product(aten_type(x).shape), 1) if aten_type(x).ndim < 2 else x for x in xs]
    return movement.cat(node.with_(tensors=wide, dim=1))


def meshgrid(node: AtenNode) -> list[Expr]:
    """Each vector along an axis of its own; with indexing "xy" the first two change places."""
    xs = node.tensors("tensors")
    order = list(range(len(xs)))
    if node.get("indexing", "ij") == "xy" and len(xs) > 1:
        order[:2] = [1, 0]
    sizes = [product(aten_type(x).shape) for x in xs]
    whole = [sizes[order.index(a)] for a in range(len(xs))]
    lines = [node.shaped(x, n) for x, n in zip(xs, sizes, strict=True)]
    return [node.stretched(node.along(x, a, len(xs)), *whole) for x, a in zip(lines, order, strict=True)]


def broadcast_tensors(node: AtenNode) -> list[Expr]:
    """All of the shape that they have together."""
    xs = node.tensors("tensors")
    shape = broadcast_shapes("broadcast_tensors", [aten_type(x).shape for x in xs])
    return [node.stretched(x, *shape) for x in xs]


def turned_over(*dims: int) -> AtenRule:
    """The other way round along axes."""
    return lambda node: movement.flip(node.with_(dims=list(dims)))


def rot90(node: AtenNode) -> Expr:
    """Turned by quarters in the plane of two axes, from the first to the second."""
    quarters, (one, two) = node.whole("k", 1) % 4, node.wholes("dims", [0, 1])
    rank = aten_type(node.tensor()).ndim
    one, two = one % rank, two % rank
    turned = movement.flip(node.with_(dims=[[], [two], [one, two], [one]][quarters])) if quarters else node.tensor()
    if quarters % 2 == 0:
        return turned
    axes = list(range(rank))
    axes[one], axes[two] = two, one
    return node.permuted(turned, axes)


def diag(node: AtenNode) -> Expr:
    """A vector as a diagonal, or the diagonal of a matrix."""
    x, offset = node.tensor(), node.whole("diagonal", 0)
    rank = aten_type(x).ndim
    if rank not in (1, 2):
        raise node.wrong(f"its operand is {x.type}; a vector or a matrix is wanted")
    if rank == 1:
        return movement.diag_embed(node.with_(offset=offset, dim1=-2, dim2=-1))
    return diagonal(node.with_(offset=offset, dim1=0, dim2=1), x)[0]


def trace(node: AtenNode) -> Expr:
    """The sum of a diagonal."""
    x = node.tensor()
    (line,) = diagonal(node.with_(offset=0, dim1=0, dim2=1), x)
    return reduction.TABLE["sum"](node.with_(self=line, dim=[0]))  # type: ignore[no-any-return]


def take_along_dim(node: AtenNode) -> Expr:
    """The elements at places along an axis; the other axes broadcast. Without an axis, of the row-major order."""
    x, index = node.tensor(), node.tensor("indices")
    if node.get("dim", None) is None:
        flat = [node.shaped(v, product(aten_type(v).shape)) for v in (x, index)]
        return gather(node.with_(self=flat[0], index=flat[1], dim=0))
    axis = node.axis(aten_type(x).ndim)

    def others(v: Expr) -> tuple[Dim, ...]:
        return tuple(1 if a == axis else d for a, d in enumerate(aten_type(v).shape))

    shape = broadcast_shapes("take_along_dim", [others(x), others(index)])
    x, index = (
        node.stretched(v, *(aten_type(v).shape[axis] if a == axis else d for a, d in enumerate(shape)))
        for v in (x, index)
    )
    return gather(node.with_(self=x, index=index, dim=axis))


def sum_to_size(node: AtenNode) -> Expr:
    """The sum over the axes along which a size was stretched to that of the operand."""
    x, wanted = node.tensor(), node.sizes("size")
    shape = aten_type(x).shape
    more = len(shape) - len(wanted)
    axes = [a for a, d in enumerate(shape) if a < more or (wanted[a - more] == 1 and d != 1)]
    y = reduction.TABLE["sum"](node.with_(self=x, dim=axes, keepdim=True)) if axes else x
    return node.shaped(y, *wanted)


# --- comparisons


def infinite(sign: float) -> AtenRule:
    """Whether it is one of the infinities."""

    def rule(node: AtenNode) -> Expr:
        x = node.tensor()
        return node.call("equal", x, sign) if aten_type(x).dtype.is_float else elementwise.never(node, x)

    return rule


def isclose(node: AtenNode) -> Expr:
    """Whether numbers are equal, or as near to one another as is allowed, in parts of the second."""
    a, b = node.together(node.tensor(), node.tensor("other"))
    rtol, atol = node.number("rtol", 1e-5), node.number("atol", 1e-8)
    close = node.call("equal", a, b)
    if node.flag("equal_nan") and aten_type(a).dtype.is_float:
        both = [node.call("not_equal", v, v) for v in (a, b)]
        close = node.call("logical_or", close, node.call("logical_and", *both))
    if not rtol and not atol:
        return close
    if not aten_type(a).dtype.is_float:
        a, b = (node.cast(v, FLOAT32) for v in (a, b))
    allowed = node.call("add", node.call("abs", node.call("multiply", b, rtol)), atol)
    apart = node.call("abs", node.call("subtract", a, b))
    near = node.call("logical_and", node.call("less", apart, inf), node.call("less_equal", apart, allowed))
    return node.call("logical_or", close, near)


def isin(node: AtenNode) -> Expr:
    """Whether an element is one of some."""
    given = [node.operand(next(n for n in names if n in node.args)) for names in _OF_ISIN]
    found = [v if isinstance(v, Expr) else node.as_tensor(v, node.promoted(*given)) for v in given]
    x, some = node.together(*found)
    count = product(aten_type(some).shape)
    shape = aten_type(x).shape
    same = node.call("equal", node.shaped(x, *shape, 1), node.shaped(some, count))
    many = node.call("sum", node.cast(same, INT64), axis=(len(shape),), keepdims=False)
    return node.call("equal" if node.flag("invert") else "not_equal", many, 0)


_OF_ISIN = (("elements", "element"), ("test_elements", "test_element"))

# --- sums and products


def without_nan(mean: bool) -> AtenRule:
    """The sum, or the mean, of what is no NaN."""

    def rule(node: AtenNode) -> Expr:
        x = node.tensor()
        if not aten_type(x).dtype.is_float:
            return reduction.TABLE["mean" if mean else "sum"](node)  # type: ignore[no-any-return]
        nan = node.call("not_equal", x, x)
        total: Expr = reduction.TABLE["sum"](
            node.with_(self=node.call("where", nan, node.constant(0, aten_type(x).dtype), x))
        )
        if not mean:
            return total
        there = node.cast(node.call("logical_not", nan), INT64)
        many: Expr = reduction.TABLE["sum"](node.with_(self=there, dtype=INT64))
        return node.call("divide", total, node.cast(many, aten_type(total).dtype))

    return rule


def inner_product(node: AtenNode) -> Expr:
    """The sums of products along the last axes."""
    a, b = node.tensor(), node.tensor("other")
    if not aten_type(a).ndim or not aten_type(b).ndim:
        return node.call("multiply", *node.together(a, b))
    letters = [chr(97 + k) for k in range(aten_type(a).ndim + aten_type(b).ndim - 1)]
    first, second = letters[: aten_type(a).ndim - 1], letters[aten_type(a).ndim - 1 : -1]
    text = f"{''.join(first)}{letters[-1]},{''.join(second)}{letters[-1]}->{''.join(first + second)}"
    return contraction.einsum(node.with_(equation=text, tensors=[a, b]))


def tensordot(node: AtenNode) -> Expr:
    """The sums of products along some axes of each."""
    a, b = node.tensor(), node.tensor("other")
    ranks = aten_type(a).ndim, aten_type(b).ndim
    over = [[d % r for d in node.wholes(n)] for n, r in zip(("dims_self", "dims_other"), ranks, strict=True)]
    if len(over[0]) != len(over[1]):
        raise node.wrong(f"its axes are {over[0]} and {over[1]}; as many of each are wanted")
    first = [chr(97 + k) for k in range(ranks[0])]
    second = [chr(97 + ranks[0] + k) for k in range(ranks[1])]
    for p, q in zip(*over, strict=True):
        second[q] = first[p]
    out = [c for c in first if c not in second] + [c for c in second if c not in first]
    text = f"{''.join(first)},{''.join(second)}->{''.join(out)}"
    return contraction.einsum(node.with_(equation=text, tensors=[a, b]))


def kron(node: AtenNode) -> Expr:
    """Each element of the first times the second."""
    a, b = node.together(node.tensor(), node.tensor("other"))
    rank = max(aten_type(a).ndim, aten_type(b).ndim)
    one, two = ([*[1] * (rank - aten_type(v).ndim), *aten_type(v).shape] for v in (a, b))
    a = node.shaped(a, *(s for d in one for s in (d, 1)))
    b = node.shaped(b, *(s for d in two for s in (1, d)))
    return node.shaped(node.call("multiply", a, b), *(product([p, q]) for p, q in zip(one, two, strict=True)))


def cross(node: AtenNode) -> Expr:
    """The cross product along an axis of size 3."""
    a, b = node.together(node.tensor(), node.tensor("other"))
    shape = broadcast_shapes("cross", [aten_type(v).shape for v in (a, b)])
    a, b = node.stretched(a, *shape), node.stretched(b, *shape)
    if node.get("dim", None) is None and node.name == "cross":
        axis = next((k for k, d in enumerate(shape) if d == 3), -1)
    else:
        axis = node.axis(len(shape), default=-1)
    if axis < 0 or shape[axis] != 3:
        raise node.wrong(f"its operands are {shape}; an axis of size 3 is wanted")
    one, two = ([node.cut(v, axis, k, k + 1) for k in range(3)] for v in (a, b))
    parts = []
    for k in range(3):
        i, j = (k + 1) % 3, (k + 2) % 3
        left, right = node.call("multiply", one[i], two[j]), node.call("multiply", one[j], two[i])
        parts.append(node.call("subtract", left, right))
    return node.call("concat", *parts, axis=axis)


def bilinear(node: AtenNode) -> Expr:
    """The products of two vectors with each matrix of the weights between them."""
    xs = [node.tensor("input1"), node.tensor("weight"), node.tensor("input2")]
    y = equations.einsum(AtenMaker(node), "...i,kij,...j->...k", [node.work(x) for x in xs])
    bias = node.optional("bias")
    y = y if bias is None else node.call("add", y, node.work(bias))
    return node.cast(y, aten_type(xs[0]).dtype)


# --- norms and distances


def cosine_similarity(node: AtenNode) -> Expr:
    """The sum of the products of what is divided by its length."""
    a, b = node.together(node.tensor("x1"), node.tensor("x2"), floats=True)
    shape = broadcast_shapes("cosine_similarity", [aten_type(v).shape for v in (a, b)])
    axis, eps = node.axis(len(shape), default=1), node.number("eps", 1e-8)
    parts = []
    for x in (a, b):
        x = node.stretched(x, *shape)
        long = node.call("maximum", norm(node, x, 2.0, (axis,), True), eps)
        parts.append(node.call("divide", x, long))
    return node.call("sum", node.call("multiply", *parts), axis=(axis,), keepdims=False)


def pairwise_distance(node: AtenNode) -> Expr:
    """The norm of the differences along the last axis, to each of which a small number is added."""
    a, b = node.together(node.tensor("x1"), node.tensor("x2"), floats=True)
    apart = node.call("add", node.call("subtract", a, b), node.number("eps", 1e-6))
    return norm(node, apart, node.number("p", 2.0), (aten_type(apart).ndim - 1,), node.flag("keepdim"))


def weight_norm(node: AtenNode) -> Expr:
    """Weights times what their norms, along all axes but one, are to be, divided by what they are."""
    v, g = node.tensor("v"), node.tensor("g")
    return node.call("multiply", v, node.call("divide", g, except_dim(node, v)))


def except_dim(node: AtenNode, v: Expr) -> Expr:
    """The norms along all axes but one; with -1 along all."""
    rank, dim = aten_type(v).ndim, node.whole("dim", 0)
    axes = tuple(a for a in range(rank) if dim == -1 or a != dim)
    return norm(node, v, float(node.whole("pow", 2)), axes, dim != -1)


def linalg_norm(node: AtenNode) -> Expr:
    """The norm of vectors, and of matrices as vectors; of matrices by another order, refused."""
    order, dims = node.get("ord", None), node.get("dim", None)
    rank = aten_type(node.tensor()).ndim
    axes = list(dims) if isinstance(dims, (list, tuple)) and dims else None
    if order not in (None, "fro") and (axes is None and rank > 1 or axes is not None and len(axes) > 1):
        raise node.unsupported(f"the order {order} of a matrix")
    power = order if isinstance(order, (int, float)) else 2
    return reduction.vector_norm(node.with_(ord=power, dim=axes))


# --- functions


def sinc(node: AtenNode) -> Expr:
    """sin(pi x) / (pi x), and 1 at 0."""
    x = node.cast(node.tensor(), node.promoted(node.tensor(), 1.0))
    turned = node.call("multiply", x, pi)
    zero = node.call("equal", x, 0.0)
    made = node.call("divide", node.call("sin", turned), node.call("where", zero, constant_like(node, 1, x), turned))
    return node.call("where", zero, constant_like(node, 1, x), made)


def float_power(node: AtenNode) -> Expr:
    """A power in float64."""
    given = {n: node.operand(n) for n in ("self", "exponent")}
    wide = {n: node.cast(v, FLOAT64) if isinstance(v, Expr) else v for n, v in given.items()}
    return integers.power_of_tensors(node.with_(**wide))  # type: ignore[no-any-return]


# --- cells of recurrent layers


def cell_step(step: Gates, states: int) -> AtenRule:
    """One step of a recurrent layer."""

    def rule(node: AtenNode) -> Expr | list[Expr]:
        hx = node.tensors("hx") if states > 1 else [node.tensor("hx")]
        inputs = node.call("matmul", node.tensor("input"), node.permuted(node.tensor("w_ih"), (1, 0)))
        bias = node.optional("b_ih")
        inputs = inputs if bias is None else node.call("add", inputs, bias)
        made = step(node, inputs, hx, node.tensor("w_hh"), node.optional("b_hh"))
        return made if states > 1 else made[0]

    return rule


TABLE: dict[str, AtenRule] = {
    "_weight_norm": weight_norm,
    "absolute": elementwise.TABLE["abs"],
    "atleast_1d": at_least_of(1),
    "atleast_2d": at_least_of(2),
    "atleast_3d": at_least_of(3),
    "bilinear": bilinear,
    "broadcast_tensors": broadcast_tensors,
    "column_stack": column_stack,
    "concatenate": movement.cat,
    "cosine_similarity": cosine_similarity,
    "cross": cross,
    "diag": diag,
    "dstack": stacked(3, 2),
    "fliplr": turned_over(1),
    "flipud": turned_over(0),
    "float_power": float_power,
    "frobenius_norm": linalg_norm,
    "gru_cell": cell_step(gru_step, 1),
    "hstack": stacked(1, 1),
    "inner": inner_product,
    "isclose": isclose,
    "isin": isin,
    "isneginf": infinite(-inf),
    "isposinf": infinite(inf),
    "kron": kron,
    "linalg_cross": cross,
    "linalg_norm": linalg_norm,
    "lstm_cell": cell_step(lstm_step, 2),
    "meshgrid": meshgrid,
    "msort": lambda node: reduction.sort(node.with_(dim=0))[0],
    "nanmean": without_nan(mean=True),
    "nansum": without_nan(mean=False),
    "negative": elementwise.TABLE["neg"],
    "norm_except_dim": lambda node: except_dim(node, node.tensor("v")),
    "pairwise_distance": pairwise_distance,
    "rnn_relu_cell": cell_step(rnn_step("nn.relu"), 1),
    "rnn_tanh_cell": cell_step(rnn_step("tanh"), 1),
    "rot90": rot90,
    "row_stack": stacked(2, 0),
    "sinc": sinc,
    "special_sinc": sinc,
    "sum_to_size": sum_to_size,
    "take_along_dim": take_along_dim,
    "tensordot": tensordot,
    "trace": trace,
    "vdot": lambda node: contraction.matmul("self", "other")(node),
    "vstack": stacked(2, 0),
}
