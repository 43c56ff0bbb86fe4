"""Products and convolutions of ATen (specs/lower.md, "torch.export").

PyTorch: https://docs.pytorch.org/docs/stable/torch.html#blas-and-lapack-operations. Sums may be taken in any order; of
narrow floats they are in float32, and rounded once.
"""

from __future__ import annotations

from collections.abc import Sequence

from assay.lower.frontends.torch_export.node import AtenNode, AtenRule, aten_type
from assay.lower.frontends.torch_export.operators.composed import AtenMaker
from assay.lower.frontends.torch_export.operators.views import ViewRule
from assay.semantics.composed import equations
from assay.semantics.composed.transposed import transposed_convolution
from assay.semantics.dtypes import DTYPES
from assay.semantics.graph import Expr
from assay.semantics.scalar import Dim


def product_of(node: AtenNode, a: Expr, b: Expr) -> Expr:
    """The matrix product, in the dtype that ATen adds up in."""
    return node.call("matmul", node.work(a), node.work(b))


def matmul(*names: str) -> AtenRule:
    """The product of two tensors."""

    def rule(node: AtenNode) -> Expr:
        a, b = (node.tensor(n) for n in names)
        return node.cast(product_of(node, a, b), aten_type(a).dtype)

    return rule


def linear(node: AtenNode) -> Expr:
    """x times the transposed weight, plus the bias."""
    x, w = node.tensor("input"), node.tensor("weight")
    turned = node.permuted(w, (1, 0)) if aten_type(w).ndim == 2 else w
    y = product_of(node, x, turned)
    if node.has("bias"):
        y = node.call("add", y, node.work(node.tensor("bias")))
    return node.cast(y, aten_type(x).dtype)


def added(first: str, second: str, sum_of: int | None = None, outer: bool = False) -> AtenRule:
    """beta times self plus alpha times a product; self is not looked at where beta is 0."""

    def rule(node: AtenNode) -> Expr:
        a, b = node.work(node.tensor(first)), node.work(node.tensor(second))
        if outer:
            a, b = node.shaped(a, -1, 1), node.shaped(b, 1, -1)
        y = node.call("multiply" if outer else "matmul", a, b)
        if sum_of is not None:
            y = node.call("sum", y, axis=(sum_of,), keepdims=False)
        of = aten_type(y).dtype
        alpha, beta = node.get("alpha", 1), node.get("beta", 1)
        y = y if alpha == 1 else node.call("multiply", y, node.as_tensor(alpha, of))
        x = node.work(node.tensor())
        to = aten_type(node.tensor()).dtype
        if beta == 0:
            return node.cast(y, to)
        x = x if beta == 1 else node.call("multiply", x, node.as_tensor(beta, of))
        return node.cast(node.call("add", x, y), to)

    return rule


def outer(node: AtenNode) -> Expr:
    """Each element of one vector times each of another."""
    a, b = node.together(node.tensor(), node.tensor("vec2"))
    return node.call("multiply", node.shaped(a, *aten_type(a).shape, 1), node.shaped(b, 1, *aten_type(b).shape))


def int_product(node: AtenNode) -> Expr:
    """The product of matrices of int8, in int32."""
    return node.call("matmul", *(node.cast(node.tensor(n), DTYPES["int32"]) for n in ("self", "mat2")))


# --- einsum


def einsum(node: AtenNode) -> Expr:
    """Products summed over letters."""
    xs = node.tensors("tensors")
    made = equations.einsum(AtenMaker(node), str(node.get("equation")), [node.work(x) for x in xs])
    return node.cast(made, aten_type(xs[0]).dtype)


# --- convolution


def _batched(node: AtenNode, x: Expr, rank: int) -> tuple[Expr, bool]:
    """An input with its axis of items; whether it had one."""
    of = aten_type(x)
    return (x, True) if of.ndim == rank + 2 else (node.shaped(x, 1, *of.shape), False)


def convolution(node: AtenNode) -> Expr:
    """A convolution, or a transposed one."""
    given, w = node.tensor("input"), node.work(node.tensor("weight"))
    rank = aten_type(w).ndim - 2
    if not 1 <= rank <= 3:
        raise node.unsupported(f"weights of {rank + 2} axes")
    x, had = _batched(node, node.work(given), rank)
    bias = node.optional("bias")
    ones, zeros = (1,) * rank, (0,) * rank
    strides, dilation = (node.spatial(n, rank, ones) for n in ("stride", "dilation"))
    groups = node.whole("groups", 1)
    carried = None if bias is None else node.work(bias)
    if node.flag("transposed", node.name.startswith("conv_transpose")):
        before, extra = (node.spatial(n, rank, zeros) for n in ("padding", "output_padding"))
        after = [b - e for b, e in zip(before, extra, strict=True)]
        ins = aten_type(w).shape[0]
        if not isinstance(ins, int) or ins % groups:
            raise node.wrong(f"{ins} channels in {groups} groups")
        y = transposed_convolution(AtenMaker(node), x, w, carried, strides, dilation, groups, before, after)
    else:
        widths = _padding(node, rank, aten_type(w).shape[2:], dilation)
        more = [] if carried is None else [carried]
        y = node.call(f"nn.conv{rank}d", x, w, *more, strides=strides, padding=widths, dilation=dilation, groups=groups)
    y = node.cast(y, aten_type(given).dtype)
    return y if had else node.shaped(y, *aten_type(y).shape[1:])


def _padding(node: AtenNode, rank: int, kernel: Sequence[Dim], dilation: Sequence[int]) -> tuple[int, ...]:
    """How much is added before each axis, then after each: the same, but for the word `same`."""
    said = node.get("padding", [0])
    if said == "valid":
        return (0,) * (2 * rank)
    if said == "same":
        whole = [d * (k - 1) for k, d in zip(kernel, dilation, strict=True) if isinstance(k, int)]
        return (*(t // 2 for t in whole), *(t - t // 2 for t in whole))
    return node.spatial("padding", rank, (0,) * rank) * 2


TABLE: dict[str, AtenRule] = {
    "addbmm": added("batch1", "batch2", sum_of=0),
    "addmm": added("mat1", "mat2"),
    "addmv": added("mat", "vec"),
    "addr": added("vec1", "vec2", outer=True),
    "baddbmm": added("batch1", "batch2"),
    "bmm": matmul("self", "mat2"),
    "conv1d": convolution,
    "conv2d": convolution,
    "conv3d": convolution,
    "conv_transpose1d": convolution,
    "conv_transpose2d": convolution,
    "conv_transpose3d": convolution,
    "convolution": convolution,
    "dot": matmul("self", "tensor"),
    "_int_mm": int_product,
    "einsum": ViewRule(lambda node, x: [einsum(node)], sure=False, operand="tensors"),
    "ger": outer,
    "linear": linear,
    "matmul": matmul("self", "other"),
    "mm": matmul("self", "mat2"),
    "mv": matmul("self", "vec"),
    "outer": outer,
}
