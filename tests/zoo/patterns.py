"""What backends fuse: chains of nodes that become one kernel, so that nothing between them is ever stored."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from onnx import NodeProto

from tests.zoo.edit import Facts

ACTIVATIONS = "Relu|Clip|LeakyRelu|HardSwish|HardSigmoid|Gelu|Tanh|Sigmoid"
CHAINS = (
    # products with what follows
    "MatMul Add", f"MatMul Add {ACTIVATIONS}", "MatMul Add Div Erf Add Mul Mul", f"MatMul {ACTIVATIONS}",
    "MatMul Add Add", "MatMul Add Reshape", "Gemm Reshape", "Gemm Reshape Add", "Gemm Tanh", "Reshape Gemm Reshape",
    "Gemm Reshape Pow Mul Add Mul Tanh Add Mul", f"Gemm Reshape {ACTIVATIONS}", "Pow Mul Add Mul Tanh Add Mul",
    "Div Erf Add Mul Mul", "Sigmoid Mul", "Sigmoid Mul Mul", "MatMul Sigmoid Mul", "MatMul Sigmoid Mul Mul",
    # attention
    "MatMul Mul|Div Add|Where Softmax", "MatMul Mul|Div Softmax", "MatMul Add Softmax", "Mul|Div Add|Where Softmax",
    "MatMul Mul|Div Add|Where Softmax MatMul", "MatMul Mul|Div Softmax MatMul", "Softmax MatMul",
    "Softmax MatMul Transpose Reshape", "Transpose MatMul", "Reshape Transpose", "Transpose Reshape",
    "MatMul Add Reshape Transpose", "MatMul Reshape Transpose", "MatMul Transpose Reshape MatMul Add",
    "Unsqueeze Expand Reshape", "Slice Neg Concat Mul Add", "Neg Concat Mul Add", "Slice Concat Mul Add",
    "Sub Mul Add Softmax", "Expand Trilu", "Slice Slice", "Gather Transpose Unsqueeze Add",
    # normalizations
    "Add LayerNormalization", "Add Add LayerNormalization", "LayerNormalization MatMul",
    "LayerNormalization Reshape Gemm", "Sub Pow ReduceMean Add Sqrt Div Mul Add",
    "ReduceMean Sub Pow ReduceMean Add Sqrt Div", "Div Mul Add", "Pow ReduceMean Add Sqrt Div|Reciprocal Mul Mul",
    "Pow ReduceMean Add Sqrt", "Mul Mul MatMul", "Gather Add LayerNormalization", "Gather Add", "Gather Gemm Tanh",
    "Gather Gemm", "LayerNormalization Transpose MatMul", "Transpose LayerNormalization",
    "LayerNormalization MatMul Add Gelu", "Mul Transpose Add", "RMSNormalization MatMul", "LayerNormalization Gather",
    "LayerNormalization ReduceMean",
    # convolutions
    "Conv BatchNormalization", f"Conv BatchNormalization {ACTIVATIONS}", "Conv BatchNormalization Add",
    "Conv BatchNormalization Add Relu", f"Conv {ACTIVATIONS}", "Conv Add", "Conv Add Relu", f"{ACTIVATIONS} Conv",
    "BatchNormalization Relu Conv", "BatchNormalization Relu", "Concat BatchNormalization Relu", "Conv Relu Concat",
    "Conv Relu Conv", "GlobalAveragePool Conv Relu", "Conv HardSigmoid Mul", "Conv Tanh Mul", "Conv Sigmoid Mul",
    "GlobalAveragePool Flatten", "GlobalAveragePool Flatten Gemm", "Flatten Gemm", "ReduceMean Gemm",
    "ReduceMean ReduceMean", "Concat Reshape Transpose Reshape", "Reshape Transpose Reshape",
    "Slice Conv BatchNormalization Relu", "Slice Concat", "Resize Concat", "ConvTranspose Concat", "Concat Conv",
    "Conv Transpose", "Conv Reshape Transpose", "MaxPool Conv", "Relu MaxPool", "AveragePool Conv",
    "Clip Conv BatchNormalization Clip", "Add Relu", "Conv Concat", "BatchNormalization Relu AveragePool",
    "Relu GlobalAveragePool", "Transpose Add", "Reshape Transpose Concat",
    # quantized, recurrent
    "DequantizeLinear Conv Relu QuantizeLinear", "DequantizeLinear Conv QuantizeLinear", "Conv QuantizeLinear",
    "Relu QuantizeLinear DequantizeLinear", "DequantizeLinear Conv", "Add Relu QuantizeLinear",
    "QuantizeLinear DequantizeLinear", "Transpose LSTM", "LSTM Transpose Reshape", "GRU Transpose Reshape",
    "GRU Transpose Reshape Add", "LayerNormalization GRU", "Reshape LSTM", "If Add", "Add LogSoftmax",
)  # fmt: skip
"""Operators one after the other, each reading a result of the one before; `|` stands between what may be there."""


@dataclass(frozen=True)
class Chain:
    """Nodes that are fused, and the tensors between them, which are not stored then."""

    ops: str
    nodes: tuple[str, ...]
    inner: tuple[str, ...]


def chains(f: Facts) -> Iterator[Chain]:
    """Every place where a backend would fuse: what is between is read by the chain's nodes alone, and no output."""
    for pattern in CHAINS:
        ops = [frozenset(o.split("|")) for o in pattern.split()]
        for node in f.model.graph.node:
            if node.op_type in ops[0] and node.output[0] not in f.constants:
                yield from _from(f, ops, (node,))


def _from(f: Facts, ops: list[frozenset[str]], path: tuple[NodeProto, ...]) -> Iterator[Chain]:
    if len(path) == len(ops):
        inner = [o for n in path[:-1] for o in n.output if o and f.readers.get(o)]
        names = {n.name for n in path}
        if all(o not in f.outputs and all(r.name in names for r in f.readers[o]) for o in inner):
            yield Chain(" ".join(n.op_type for n in path), tuple(n.name for n in path), tuple(inner))
        return
    for made in path[-1].output:
        for reader in f.readers.get(made, []):
            if reader.op_type in ops[len(path)] and reader not in path:
                yield from _from(f, ops, (*path, reader))
