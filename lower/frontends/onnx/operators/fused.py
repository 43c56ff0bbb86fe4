"""Operators of com.microsoft on floats that ONNX Runtime's optimiser makes of others (specs/lower.md, "Import").

Each is what its documentation says, docs/ContribOperators.md of microsoft/onnxruntime, composed of ours.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import pi, sqrt

from assay.lower.frontends.onnx.node import Node, Refused, Result, Rule, tensor
from assay.lower.frontends.onnx.operators import contraction
from assay.lower.frontends.onnx.operators.composed import standard
from assay.lower.frontends.onnx.operators.normalization import layer_norm
from assay.semantics.composed.terms import Term
from assay.semantics.dtypes import FLOAT32, INT32
from assay.semantics.graph import Expr
from assay.semantics.scalar import Dim

# --- activations ------------------------------------------------------------------------------------------------------


def _gelu(node: Node, x: Expr) -> Expr:
    t = Term(node, x)
    return (t * 0.5 * (Term(node, node.call("erf", (t * sqrt(0.5)).expr)) + 1.0)).expr


def gelu(node: Node) -> Expr:
    """Translate Gelu: 0.5 x (1 + erf(x / sqrt 2))."""
    return _gelu(node, node[0])


def bias_gelu(node: Node) -> Expr:
    """Translate BiasGelu: Gelu of the sum."""
    return _gelu(node, node.call("add", node[0], node[1]))


def fast_gelu(node: Node) -> Expr:
    """Translate FastGelu: 0.5 x (1 + tanh(sqrt(2 / pi) (x + 0.044715 x^3))), of x plus a bias."""
    t = Term(node, node.call("add", node[0], node[1]) if node.has(1) else node[0])
    inner = (t + t * t * t * 0.044715) * sqrt(2 / pi)
    return (t * 0.5 * (Term(node, node.call("tanh", inner.expr)) + 1.0)).expr


def quick_gelu(node: Node) -> Expr:
    """Translate QuickGelu: x sigmoid(alpha x)."""
    t = Term(node, node[0])
    return (t * Term(node, node.call("sigmoid", (t * node.attrs["alpha"]).expr))).expr


def _activated(node: Node, x: Expr, params: Sequence[float]) -> Expr:
    """A result after the activation that a fused node names; none where it names none."""
    t = Term(node, x)
    match node.attrs.get("activation") or "":
        case "":
            return x
        case "Relu":
            return node.call("nn.relu", x)
        case "Tanh":
            return node.call("tanh", x)
        case "Sigmoid":
            return node.call("sigmoid", x)
        case "LeakyRelu":
            return (t * (params[0] if params else 0.01)).chosen(t < 0.0, t).expr
        case "HardSigmoid" if len(params) == 2:
            return node.call("clip", (t * params[0] + params[1]).expr, min=0.0, max=1.0)
        case "Clip" if len(params) == 2:
            return node.call("clip", x, min=params[0], max=params[1])
        case other:
            raise node.unsupported(f"activation {other} with {len(params)} parameters")


# --- products ---------------------------------------------------------------------------------------------------------


def _turned(node: Node, x: Expr, turn: bool) -> Expr:
    rank = tensor(x).ndim
    if not turn or rank < 2:
        return x
    return node.call("permute_dims", x, axes=(*range(rank - 2), rank - 1, rank - 2))


def fused_matmul(node: Node) -> Expr:
    """Translate FusedMatMul and TransposeMatMul: alpha times the product of the operands, the last two axes of each
    turned where it says so."""
    if node.attrs.get("transBatchA") or node.attrs.get("transBatchB"):
        raise node.unsupported("transBatchA or transBatchB; 0 is wanted")
    a, b = _turned(node, node[0], node.attrs["transA"]), _turned(node, node[1], node.attrs["transB"])
    made = node.call("matmul", a, b)
    return made if node.attrs["alpha"] == 1 else node.call("multiply", made, node.attrs["alpha"])


def fused_gemm(node: Node) -> Expr:
    """Translate FusedGemm: Gemm and an activation."""
    made = standard(node, contraction.TABLE["Gemm"], "Gemm", 13, *node.inputs)
    given = [node.attrs.get(f"activation_{k}") for k in ("alpha", "beta")]
    return _activated(node, made, [v for v in given if v is not None])


def fused_conv(node: Node) -> Expr:
    """Translate FusedConv: Conv, plus Z, and an activation."""
    made = standard(node, contraction.TABLE["Conv"], "Conv", 11, *node.inputs[:3])
    made = node.call("add", made, node[3]) if node.has(3) else made
    return _activated(node, made, node.attrs.get("activation_params") or ())


# --- normalization ----------------------------------------------------------------------------------------------------


def _layer_norm(node: Node, x: Expr, gamma: Expr, beta: Expr | None) -> Expr:
    return standard(node, layer_norm, "LayerNormalization", 17, x, gamma, beta, axis=-1)


def _rms_norm(node: Node, x: Expr, gamma: Expr) -> Expr:
    """x over the root of the mean of its squares on the last axis, in float32 at least, times gamma."""
    of = tensor(x).dtype
    wide = of if of.bits > 32 else FLOAT32
    t = Term(node, node.cast(x, wide))
    mean = node.call("mean", (t * t).expr, axis=(tensor(x).ndim - 1,), keepdims=True)
    made = t / (Term(node, mean) + node.attrs["epsilon"]).sqrt()
    by = tensor(gamma).dtype
    return node.call("multiply", node.cast(made.expr, by), gamma)


def simplified_layer_norm(node: Node) -> Sequence[Result]:
    """Translate SimplifiedLayerNormalization on the last axis."""
    if node.axis(tensor(node[0]).ndim) != tensor(node[0]).ndim - 1 or node.attrs["stash_type"] != 1:
        raise node.unsupported("an axis that is not the last, or a stash_type that is not 1")
    return [_rms_norm(node, node[0], node[1]), Refused("the inverse root of SimplifiedLayerNormalization")]


def _skipped(node: Node, bias: int) -> Expr:
    """input + skip + bias."""
    made = node.call("add", node[0], node[1])
    return node.named(node.call("add", made, node[bias]) if node.has(bias) else made)


_STATISTICS = Refused("mean and inverse deviation, which are for training")


def skip_layer_norm(node: Node) -> Sequence[Result]:
    """Translate SkipLayerNormalization: LayerNormalization of input + skip + bias; the sum is the fourth output."""
    total = _skipped(node, 4)
    return [_layer_norm(node, total, node[2], node.inputs[3] if node.has(3) else None), _STATISTICS, _STATISTICS, total]


def skip_simplified_layer_norm(node: Node) -> Sequence[Result]:
    """Translate SkipSimplifiedLayerNormalization: as SkipLayerNormalization, without the mean."""
    total = _skipped(node, 3)
    return [_rms_norm(node, total, node[2]), _STATISTICS, _STATISTICS, total]


def embed_layer_norm(node: Node) -> Sequence[Result]:
    """Translate EmbedLayerNormalization: the embeddings of words, positions and segments, added and normalised; how
    many of each row the mask keeps; the sum."""
    ids = tensor(node[0])
    total = node.call("take", node[2], node[0], axis=0)
    place = node[8] if node.has(8) else node.call("arange", size=ids.shape[1], dtype="int32")
    total = node.call("add", total, node.call("take", node[3], place, axis=0))
    if node.has(1) and node.has(4):
        total = node.call("add", total, node.call("take", node[4], node[1], axis=0))
    total = node.named(total)
    rows: tuple[Dim, ...] = ids.shape[:1]
    kept = node.call("sum", node[7], axis=(1,), keepdims=False) if node.has(7) else node.full(rows, 0, INT32)
    return [_layer_norm(node, total, node[5], node[6]), kept, total]


TABLE: dict[str, Rule] = {
    "BiasGelu": bias_gelu,
    "EmbedLayerNormalization": embed_layer_norm,
    "FastGelu": fast_gelu,
    "FusedConv": fused_conv,
    "FusedGemm": fused_gemm,
    "FusedMatMul": fused_matmul,
    "Gelu": gelu,
    "QuickGelu": quick_gelu,
    "SkipLayerNormalization": skip_layer_norm,
    "SkipSimplifiedLayerNormalization": skip_simplified_layer_norm,
    "TransposeMatMul": fused_matmul,
}
"""Of the domain com.microsoft."""
STANDARD: dict[str, Rule] = {"SimplifiedLayerNormalization": simplified_layer_norm}
"""Of the standard's domain, though not of the standard."""
