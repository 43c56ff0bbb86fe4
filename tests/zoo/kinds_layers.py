"""Faults of layers: activations, masks, normalizations, pools, recurrent cells, branches, and what is kept of a run."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from onnx import NodeProto

from tests.zoo.edit import Edit, Facts, attribute
from tests.zoo.kinds import Params, Site, kind

# --- activations --------------------------------------------------------------------------------------------------

INSTEAD = {
    "Relu": ("Identity", "LeakyRelu"),
    "LeakyRelu": ("Relu", "PRelu"),
    "Clip": ("Relu",),
    "HardSwish": ("Swish", "Relu"),
    "HardSigmoid": ("Sigmoid",),
    "Sigmoid": ("HardSigmoid",),
    "Tanh": ("Clip", "HardSigmoid"),
    "Gelu": ("Swish", "Relu"),
}
"""What is taken for an activation."""


def _activations(f: Facts) -> Iterator[Site]:
    for n in f.nodes(*INSTEAD):
        if n.op_type != "Clip" or np.max(f.values[n.input[0]]) > 6:
            for other in INSTEAD[n.op_type]:
                yield Site(n.name, {"by": other})


@kind("activation", "another activation is computed: Relu for LeakyRelu, Swish for Gelu", _activations)
def activation(e: Edit, node: NodeProto, p: Params) -> None:
    x = node.input[0]
    match p["by"]:
        case "Swish":
            sigmoid = e.add("Sigmoid", e.add("Mul", x, e.constant(1.702, np.float32)))
            e.become(node, "Mul", x, sigmoid)
        case "PRelu":
            e.become(node, "LeakyRelu", x, alpha=0.01)
        case "Clip":
            e.become(node, "Clip", x, e.constant(-1, np.float32), e.constant(1, np.float32))
        case "LeakyRelu":
            e.become(node, "LeakyRelu", x, alpha=0.01)
        case other:
            e.become(node, other, x)


def _gelus(f: Facts) -> Iterator[Site]:
    for n in f.nodes("Gelu", "Erf"):
        yield Site(n.name)


@kind("gelu-formula", "the formula with tanh stands for the error function, or the other way round", _gelus)
def gelu_formula(e: Edit, node: NodeProto, p: Params) -> None:
    if node.op_type == "Gelu":
        e.set(node, approximate="none" if attribute(node, "approximate", b"none") == b"tanh" else "tanh")
        return
    x = node.input[0]  # erf(x) by tanh(sqrt(2/pi) (y + 0.044715 y^3)) with y = sqrt(2) x
    y = e.add("Mul", x, e.constant(2**0.5, np.float32))
    cube = e.add("Mul", e.add("Mul", y, e.add("Mul", y, y)), e.constant(0.044715, np.float32))
    e.become(node, "Tanh", e.add("Mul", e.add("Add", y, cube), e.constant((2 / np.pi) ** 0.5, np.float32)))


def _unary(f: Facts) -> Iterator[Site]:
    for n in f.nodes("Neg", "Sqrt", "Reciprocal", "Sigmoid", "Tanh", "Erf"):
        yield Site(n.name)


@kind("step-skipped", "an elementwise operator is left out", _unary)
def step_skipped(e: Edit, node: NodeProto, p: Params) -> None:
    e.become(node, "Identity", node.input[0])


# --- masks and branches -------------------------------------------------------------------------------------------


def _masks(f: Facts) -> Iterator[tuple[NodeProto, int]]:
    """Nodes that mask scores, and which operand is the mask."""
    for n in f.nodes("Add", "Where"):
        for i, name in enumerate(n.input):
            value = np.asarray(f.values[name])
            by_sum = n.op_type == "Add" and np.size(value) > 1 and f.is_real(name) and value.min() < -1e3
            if by_sum and any(r.op_type == "Softmax" for r in f.readers[n.output[0]]):
                yield n, i
            if n.op_type == "Where" and i == 0 and value.ndim > 1:
                yield n, i


def _shifted(f: Facts) -> Iterator[Site]:
    for n, i in _masks(f):
        for by in (1, -1):
            value = np.asarray(f.values[n.input[i]])
            if not np.array_equal(value[..., 1:], value[..., :-1]):
                yield Site(n.name, {"operand": i, "axis": value.ndim - 1, "by": by})
    for n in f.nodes("Trilu"):
        yield Site(n.name, {"k": 0})
        yield Site(n.name, {"k": 2})


@kind("mask-shift", "a mask is off by one", _shifted)
def mask_shift(e: Edit, node: NodeProto, p: Params) -> None:
    if node.op_type == "Trilu":
        node.input[1] = e.constant(p["k"], np.int64)
        return
    mask = node.input[p["operand"]]
    if node.op_type == "Where":
        as_number = e.shifted(e.add("Cast", mask, to=1), p["axis"], p["by"])
        node.input[p["operand"]] = e.add("Cast", as_number, to=9)
    else:
        node.input[p["operand"]] = e.shifted(mask, p["axis"], p["by"])


def _missing(f: Facts) -> Iterator[Site]:
    for n, i in _masks(f):
        yield Site(n.name, {"kept": 1 if n.op_type == "Where" else 1 - i})
    for n in f.nodes("Trilu"):
        yield Site(n.name, {"kept": -1})


@kind("mask-missing", "a mask does nothing", _missing)
def mask_missing(e: Edit, node: NodeProto, p: Params) -> None:
    if p["kept"] < 0:
        e.become(node, "Mul", node.input[0], e.constant(0, np.float32))
        return
    kept = e.add("Add", node.input[p["kept"]], e.constant(0, np.float32))
    if node.op_type == "Where":  # in the shape of all three
        zeros = e.add("Mul", e.add("Cast", node.input[0], to=1), e.constant(0, np.float32))
        kept = e.add("Add", kept, zeros)
    e.become(node, "Identity", kept)


def _branches(f: Facts) -> Iterator[Site]:
    for n in f.nodes("Where", "If"):
        yield Site(n.name)


@kind("branch", "the other branch is taken", _branches)
def branch(e: Edit, node: NodeProto, p: Params) -> None:
    node.input[0] = e.add("Not", node.input[0])


# --- normalizations, pools, recurrent cells -----------------------------------------------------------------------


def _batch_norms(f: Facts) -> Iterator[Site]:
    for n in f.nodes("BatchNormalization"):
        for what in ("mean", "variance", "scale"):
            yield Site(n.name, {"what": what})


@kind("batch-norm", "a normalization is folded without its mean, its scale, or the root of its variance", _batch_norms)
def batch_norm(e: Edit, node: NodeProto, p: Params) -> None:
    scale, mean, variance = node.input[1], node.input[3], node.input[4]
    match p["what"]:
        case "mean":
            node.input[3] = e.add("Mul", mean, e.constant(0, np.float32))
        case "variance":
            node.input[4] = e.add("Mul", variance, variance)
        case _:
            zeros = e.add("Mul", scale, e.constant(0, np.float32))
            node.input[1] = e.add("Add", zeros, e.constant(1, np.float32))


def _uncentred(f: Facts) -> Iterator[Site]:
    for n in f.nodes("LayerNormalization"):
        yield Site(n.name, {"epsilon": attribute(n, "epsilon", 1e-5)})


@kind("norm-uncentred", "a normalization does not take the mean off", _uncentred)
def norm_uncentred(e: Edit, node: NodeProto, p: Params) -> None:
    from tests.zoo.kinds_layout import normalized

    normalized(e, node, p["epsilon"], centred=False)


def _pools(f: Facts) -> Iterator[Site]:
    for n in f.nodes("AveragePool"):
        if sum(attribute(n, "pads", [])):
            yield Site(n.name, {"count_include_pad": 1 - attribute(n, "count_include_pad", 0)})


@kind("pool-count", "an average counts the padding, or does not", _pools)
def pool_count(e: Edit, node: NodeProto, p: Params) -> None:
    e.set(node, **p)


def _cells(f: Facts) -> Iterator[Site]:
    for n in f.nodes("LSTM", "GRU"):
        gates = 4 if n.op_type == "LSTM" else 3
        for what in ("gates", "state", "reset" if n.op_type == "GRU" else "output"):
            yield Site(n.name, {"what": what, "gates": gates, "width": attribute(n, "hidden_size")})


@kind("cell", "a recurrent cell mixes up its gates, or forgets its first state, or resets at another place", _cells)
def cell(e: Edit, node: NodeProto, p: Params) -> None:
    match p["what"]:
        case "state":
            node.input[5] = ""
        case "reset":
            e.set(node, linear_before_reset=1 - attribute(node, "linear_before_reset", 0))
        case what:
            order = list(range(p["gates"]))
            a, b = (0, 1) if what == "gates" else (2, 3)
            order[a], order[b] = order[b], order[a]
            w = p["width"]
            parts = [e.slice(node.input[1], 1, g * w, (g + 1) * w) for g in order]
            node.input[1] = e.add("Concat", *parts, axis=1)


# --- what is kept of a run: `state.py` runs these -----------------------------------------------------------------


def _results(f: Facts) -> Iterator[Site]:
    for n in f.nodes(
        "MatMul", "Conv", "Gemm", "Softmax", "LayerNormalization", "Add", "Mul", "Relu", "Concat", "LSTM", "GRU",
        "GlobalAveragePool", "ReduceMean", "Transpose", "Gather", "BatchNormalization",
    ):  # fmt: skip
        if not np.array_equal(f.values[n.output[0]], f.others[n.output[0]]):
            yield Site(n.name, {"tensor": n.output[0]})


@kind("stale", "a tensor has the value of the run before", _results, shows="second")
def stale(e: Edit, node: NodeProto, p: Params) -> None:
    """Nothing changes in the model: the tensor is replaced while it runs."""


@kind("not-cleared", "what the run before has left is added to a result", _results, shows="second")
def not_cleared(e: Edit, node: NodeProto, p: Params) -> None:
    """Nothing changes in the model: the tensor is replaced while it runs."""
