"""Uses of ONNX operators, each for every version of the operator in a range of operator sets.

`agree` compares what the import of a model evaluates to with ONNX Runtime: integers and bools exactly, floats by the
intervals that every correct implementation must hit.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import Any

import numpy as np
import onnx.defs
from onnx import ModelProto, NodeProto, TensorProto, helper, numpy_helper

from assay.interp import graph
from assay.lower.frontends.onnx.model import import_onnx
from assay.semantics.bounds import Bounded, contains
from assay.semantics.graph import Call, Expr, Function
from assay.semantics.operator import Operator
from assay.semantics.rules import check
from assay.semantics.scalar import show
from assay.semantics.types import TensorType
from assay.semantics.walk import post_order
from tests.models import NEWEST_RELEASED, single

Array = np.ndarray[Any, Any]
F32 = np.float32
INT_MAX, INT_MIN = 2**63 - 1, -(2**63)


def floats(*shape: int, of: Any = np.float32, low: float = -3.0, high: float = 3.0) -> Array:
    """Numbers that depend on the shape alone, no two alike."""
    count = int(np.prod(shape))
    return np.random.default_rng(count).uniform(low, high, shape).astype(of)


def whole(*shape: int, of: Any = np.int64, low: int = -9, high: int = 10) -> Array:
    return np.random.default_rng(int(np.prod(shape)) + 1).integers(low, high, shape).astype(of)


def bools(*shape: int) -> Array:
    return np.random.default_rng(int(np.prod(shape)) + 2).integers(0, 2, shape).astype(bool)


def ints(*values: int) -> Array:
    return np.array(values, np.int64)


SPECIAL = np.array([0.0, -0.0, np.inf, -np.inf, np.nan, 1e-45, -1e-45, 3.4e38, -3.4e38, 0.5, 1.5, -2.5], np.float32)
"""Zeros, infinities, NaN, subnormals, the ends of the range, halves."""


@dataclass(frozen=True, eq=False)
class Case:
    """One node. Operands numbered in `constants` are initializers; the outputs are `outputs` many."""

    op: str
    opset: int
    inputs: Sequence[Array | None]
    attrs: Mapping[str, Any] = field(default_factory=dict)
    constants: Sequence[int] = ()
    outputs: int = 1
    version: int = 0
    note: str = ""

    def __str__(self) -> str:
        attrs = ",".join(f"{k}={v}" for k, v in self.attrs.items() if not isinstance(v, TensorProto))
        types = ",".join(f"{a.dtype}{list(a.shape)}" if a is not None else "-" for a in self.inputs)
        return f"{self.op}-{self.version}({types}{';' + attrs if attrs else ''}){self.note}"

    def model(self) -> ModelProto:
        return single(self.op, self.opset, self.inputs, self.attrs, constants=self.constants, outputs=self.outputs)

    def feed(self) -> dict[str, Array]:
        return {f"x{i}": np.asarray(a) for i, a in enumerate(self.inputs) if a is not None and i not in self.constants}


@cache
def every_version() -> dict[str, list[int]]:
    """The versions of each operator of ONNX's own domain."""
    found: dict[str, list[int]] = {}
    for schema in onnx.defs.get_all_schemas_with_history():
        if schema.domain == "":
            found.setdefault(schema.name, []).append(schema.since_version)
    return found


def versions(op: str, since: int, until: int) -> list[int]:
    """One operator set for each version of the operator that holds somewhere between the two."""
    every = every_version()[op]
    first = max(v for v in every if v <= since)
    return sorted({max(v, since) for v in every if first <= v <= until})


def cases(
    op: str,
    inputs: Sequence[Array | None],
    since: int = 7,
    until: int = NEWEST_RELEASED,
    *,
    constants: Sequence[int] = (),
    outputs: int = 1,
    note: str = "",
    **attrs: Any,
) -> Iterator[Case]:
    """A case for each version between two operator sets."""
    for opset in versions(op, since, until):
        version = onnx.defs.get_schema(op, opset, "").since_version
        yield Case(op, opset, inputs, attrs, constants, outputs, version, note)


def evaluated(model: ModelProto, feed: Mapping[str, Array], **options: Any) -> dict[str, Any]:
    """What the import of a model evaluates to, by output."""
    module = import_onnx(model, evaluate=graph.evaluate, **options)
    check(module)
    return graph.run(module, feed)


def imported(proto: ModelProto, **options: Any) -> Function:
    """The checked import of a model."""
    module = import_onnx(proto, evaluate=graph.evaluate, **options)
    check(module)
    return module.main


def operators(main: Function) -> Counter[str]:
    """How often each graph operator is called."""
    return Counter(n.op.name for n in post_order(main) if isinstance(n, Call) and isinstance(n.op, Operator))


def shape_of(expr: Expr) -> tuple[str, ...]:
    """The sizes of a tensor as text."""
    assert isinstance(expr.type, TensorType)
    return tuple(map(show, expr.type.shape))


def chain(*nodes: tuple[str, list[str], list[str], dict[str, Any]]) -> list[NodeProto]:
    """Nodes: operator, inputs, outputs, attributes."""
    return [helper.make_node(op, i, o, **attrs) for op, i, o, attrs in nodes]


def agree(model: ModelProto, feed: Mapping[str, Array]) -> None:
    """Our outputs and ONNX Runtime's are equal, or both within the bounds."""
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1  # threads that have nothing to do wait busily
    options.log_severity_level = 4
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    session = onnxruntime.InferenceSession(with_types(model).SerializeToString(), options, ["CPUExecutionProvider"])
    theirs = dict(zip([o.name for o in session.get_outputs()], session.run(None, dict(feed)), strict=True))
    module = import_onnx(model, evaluate=graph.evaluate)
    check(module)
    values, bounds = graph.run(module, feed), graph.run(module, feed, bounds=True)
    assert values.keys() == theirs.keys()
    for name, their in theirs.items():
        ours, bound = values[name], bounds[name]
        assert (ours.shape, ours.dtype) == (their.shape, their.dtype), name
        if isinstance(bound, Bounded):
            assert not bound.vacuous.any() or not np.isfinite(ours[bound.vacuous]).any(), (
                f"{name}: the bound says nothing"
            )
            assert contains(bound, ours).all(), f"{name}: ours {ours}"
            assert contains(bound, their).all(), f"{name}: ours {ours}\ntheirs {their}\nbound {bound.radius}"
        else:
            np.testing.assert_array_equal(ours, their, err_msg=name)


def with_types(model: ModelProto) -> ModelProto:
    """The model with the types of its outputs, which ONNX Runtime wants; they come from our own import."""
    module = import_onnx(model, evaluate=graph.evaluate)
    result = module.main.result_type
    fields = getattr(result, "fields", (result,))
    copy = ModelProto()
    copy.CopyFrom(model)
    for output, t in zip(copy.graph.output, fields, strict=True):
        number = helper.np_dtype_to_tensor_dtype(t.dtype.numpy)
        output.CopyFrom(
            helper.make_tensor_value_info(output.name, number, [d if isinstance(d, int) else None for d in t.shape])
        )
    return copy


def tensor(array: Any) -> TensorProto:
    """An attribute's tensor."""
    return numpy_helper.from_array(np.asarray(array), "value")
