"""Convolution and matrix products of ONNX (specs/lower.md, "Import")."""

from __future__ import annotations

from collections.abc import Sequence

from assay.lower.frontends.onnx.node import Node, Rule, same_shape, tensor
from assay.semantics.graph import Expr
from assay.semantics.ops.common import show_shapes
from assay.semantics.scalar import Dim
from assay.semantics.types import TensorType


def image(node: Node) -> TensorType:
    """The type of the first operand, which has axes N, C and spatial ones."""
    x = tensor(node[0])
    if x.ndim < 3:
        raise node.wrong(f"operand {node.schema.operand(0).name} is {x}; axes N, C and at least one spatial are wanted")
    return x


def spatial_rank(node: Node) -> int:
    """How many spatial axes the first operand has; 1 to 3 are supported."""
    x = image(node)
    if x.ndim > 5:
        raise node.unsupported(f"{x.ndim - 2} spatial axes; 1 to 3 are supported")
    return x.ndim - 2


def per_axis(node: Node, name: str, rank: int) -> tuple[int, ...]:
    """An attribute with one positive number for each spatial axis; all 1 where it may be left out and is."""
    given: tuple[int, ...] = node.attrs.get(name) or (1,) * (0 if name in node.schema.required else rank)
    if len(given) != rank or any(g < 1 for g in given):
        raise node.wrong(f"{name} is {given}; {rank} positive integers are wanted")
    return given


def pads_of(node: Node, rank: int) -> tuple[int, ...]:
    """The attribute `pads`: before each spatial axis, then after each; 0 where it is left out."""
    given: tuple[int, ...] = node.attrs["pads"] or (0,) * (2 * rank)
    if len(given) != 2 * rank or any(p < 0 for p in given):
        raise node.wrong(f"pads is {given}; {2 * rank} integers of at least 0 are wanted")
    return given


AUTO_PAD = ("NOTSET", "SAME_UPPER", "SAME_LOWER", "VALID")


def padding(
    node: Node, kernel: Sequence[int], strides: Sequence[int], dilations: Sequence[int]
) -> tuple[tuple[int, ...], bool]:
    """The padding before each spatial axis and after each, and whether `auto_pad` decided it.

    SAME means ceil(size / stride) windows. The odd element goes to the end with SAME_UPPER, to the beginning with
    SAME_LOWER. (The text of AveragePool-11 has floor there; its attribute, later versions and runtimes have ceil.)
    """
    rank = len(kernel)
    given = pads_of(node, rank)
    mode = node.choice("auto_pad", *AUTO_PAD)
    if mode == "NOTSET":
        return given, False
    automatic = (0,) * (2 * rank)
    if mode != "VALID":
        sizes = tensor(node[0]).shape[2:]
        totals = [_same(node, *row) for row in zip(sizes, kernel, strides, dilations, strict=True)]
        less, more = tuple(t // 2 for t in totals), tuple(t - t // 2 for t in totals)
        automatic = less + more if mode == "SAME_UPPER" else more + less
    if any(given) and given != automatic:
        raise node.wrong(f"both pads {given} and auto_pad {mode}, which makes {automatic}; only one may be given")
    return automatic, True


def _same(node: Node, size: Dim, taps: int, stride: int, dilation: int) -> int:
    span = (taps - 1) * dilation + 1
    if isinstance(size, int):
        return max(0, (-(-size // stride) - 1) * stride + span - size)
    if stride == 1:
        return span - 1
    raise node.unsupported(
        f"auto_pad {node.attrs['auto_pad']} of an axis of size {size} with stride {stride}; give the size"
    )


def conv(node: Node) -> Expr:
    """Translate Conv of any number of spatial axes. Invalid if X, W and `kernel_shape` do not agree."""
    rank = spatial_rank(node)
    w = tensor(node[1])
    if w.ndim != rank + 2:
        raise node.wrong(f"operand W is {w}, operand X is {node[0].type}; {rank + 2} axes are wanted in both")
    kernel = node.attrs["kernel_shape"] or w.shape[2:]
    if not same_shape(kernel, w.shape[2:]):
        raise node.wrong(f"kernel_shape is {tuple(kernel)}, but operand W is {w}")
    sizes = tuple(k for k in kernel if isinstance(k, int))
    if len(sizes) != rank:
        raise node.unsupported(f"operand W is {w}; the sizes of the kernel must be numbers")
    strides, dilations = per_axis(node, "strides", rank), per_axis(node, "dilations", rank)
    pads, _ = padding(node, sizes, strides, dilations)
    operands = [node[0], node[1], *([node[2]] if node.has(2) else [])]
    return node.call(
        f"nn.conv{rank}d", *operands, strides=strides, padding=pads, dilation=dilations, groups=node.attrs["group"]
    )


def gemm(node: Node) -> Expr:
    """alpha * A' B' + beta * C, where A' and B' are A and B or their transposes."""
    a, b = (_matrix(node, i, t) for i, t in ((0, "transA"), (1, "transB")))
    y = _scaled(node, node.call("matmul", a, b), "alpha")
    if not node.has(2):
        return y
    c = node[2]
    if "broadcast" in node.attrs and not node.attrs["broadcast"] and not same_shape(tensor(c).shape, tensor(y).shape):
        raise node.wrong(f"operand C is {c.type}, A B is {y.type}, and broadcast is 0")
    made = node.call("add", y, _scaled(node, c, "beta"))
    if not same_shape(tensor(made).shape, tensor(y).shape):
        shapes = show_shapes([tensor(c).shape, tensor(y).shape])
        raise node.wrong(f"operand C does not broadcast to A B: shapes {shapes}")
    return made


def _matrix(node: Node, index: int, transposed: str) -> Expr:
    x = node[index]
    if tensor(x).ndim != 2:
        raise node.wrong(f"operand {node.schema.operand(index).name} is {x.type}; a matrix is wanted")
    return node.call("permute_dims", x, axes=(1, 0)) if node.attrs[transposed] else x


def _scaled(node: Node, x: Expr, factor: str) -> Expr:
    value = node.attrs[factor]
    if value == 1:
        return x
    of = tensor(x).dtype
    if not of.is_float and not float(value).is_integer():
        raise node.unsupported(f"{factor} is {value} for operands of {of}; a whole number is wanted")
    return node.call("multiply", x, value if of.is_float else int(value))


TABLE: dict[str, Rule] = {
    "Conv": conv,
    "Gemm": gemm,
    "MatMul": lambda node: node.call("matmul", node[0], node[1]),
}
