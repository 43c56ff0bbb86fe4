"""Two faults as compilers have had them, for `make demo-fault`: one in a pass, and one in a backend.

`by_variance` writes batch norms out and forgets a square root; `shuffled` takes the two sizes of a channel shuffle for
each other. What they make has the right shapes, and numbers that look like any others.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import onnx
from onnx import numpy_helper

from assay.lower.passes import function_pass
from assay.lower.rewriting import rewrite_matches
from assay.lower.rewriting.pattern import anything, op
from assay.semantics.graph import Call, Expr, call

X, SCALE, SHIFT, MEAN, VARIANCE = (anything() for _ in range(5))


def _written_out(found: Mapping[Any, Expr], at: Expr) -> Expr:
    """(x - mean) / (variance + epsilon) * scale + shift: the denominator should be a square root."""
    assert isinstance(at, Call)
    mean, variance, scale, shift = (
        call("reshape", found[p], shape=(1, -1, 1, 1)) for p in (MEAN, VARIANCE, SCALE, SHIFT)
    )
    return call("add", call("multiply", call("divide", call("subtract", found[X], mean), variance), scale), shift)


by_variance = function_pass(
    lambda f: rewrite_matches(f, op("nn.batch_norm")(X, SCALE, SHIFT, MEAN, VARIANCE), _written_out)
)


def shuffled(model: onnx.ModelProto, inputs: Mapping[str, np.ndarray]) -> Any:
    """ONNX Runtime behind a compiler of ours, for which groups of channels and channels of a group are one thing."""
    import onnxruntime

    shapes = {t.name: t for t in model.graph.initializer}
    for node in model.graph.node:
        if node.op_type == "Reshape" and len(shape := numpy_helper.to_array(shapes[node.input[1]])) == 5:
            wrong = shape[[0, 2, 1, 3, 4]]
            shapes[node.input[1]].CopyFrom(numpy_helper.from_array(wrong, node.input[1]))
    session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    return session.run(None, dict(inputs))
