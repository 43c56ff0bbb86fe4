"""Other implementations whose outputs are judged (specs/verify.md, "Backends").

A backend takes an ONNX model and inputs by name, and gives every tensor that it is asked for, by name.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import onnx

from assay.semantics.errors import Invalid

Array = np.ndarray[Any, Any]
Backend = Callable[[onnx.ModelProto, Mapping[str, Array], Sequence[str]], dict[str, Array]]


def with_outputs(model: onnx.ModelProto, names: Sequence[str]) -> onnx.ModelProto:
    """The model with the tensors `names` as its outputs."""
    declared = {o.name: o for o in model.graph.output}
    changed = copy.deepcopy(model)
    del changed.graph.output[:]
    changed.graph.output.extend(declared.get(n, onnx.ValueInfoProto(name=n)) for n in names)
    return changed


def onnxruntime(model: onnx.ModelProto, inputs: Mapping[str, Array], names: Sequence[str]) -> dict[str, Array]:
    """ONNX Runtime on the CPU, with its default optimisations."""
    try:
        import onnxruntime as ort
    except ImportError:
        raise Invalid("the backend onnxruntime is not installed; pip install 'assay[ort]'", label="backend.C1") from None
    options = ort.SessionOptions()
    options.log_severity_level = 4
    try:
        session = ort.InferenceSession(
            with_outputs(model, names).SerializeToString(), options, providers=["CPUExecutionProvider"]
        )
        return dict(zip(names, session.run(list(names), dict(inputs)), strict=True))
    except Exception as wrong:
        # ONNX Runtime raises classes of its own for whatever it cannot do
        if type(wrong).__module__.startswith("onnxruntime") or isinstance(wrong, (RuntimeError, ValueError)):
            line = str(wrong).splitlines()[0] if str(wrong) else type(wrong).__name__
            raise Invalid(f"the backend onnxruntime cannot run this model: {line}", label="backend.C2") from None
        raise


def reference(model: onnx.ModelProto, inputs: Mapping[str, Array], names: Sequence[str]) -> dict[str, Array]:
    """The onnx package's own ReferenceEvaluator."""
    from onnx.reference import ReferenceEvaluator

    try:
        results = ReferenceEvaluator(with_outputs(model, names)).run(list(names), dict(inputs))
    except Exception as wrong:
        # it reports what it cannot do by whatever its operators happen to raise
        raise Invalid(
            f"the backend reference cannot run this model: {type(wrong).__name__}: {wrong}", label="backend.C2"
        ) from wrong
    return {n: np.asarray(r) for n, r in zip(names, results, strict=True)}


BACKENDS: dict[str, Backend] = {"onnxruntime": onnxruntime, "reference": reference}


def backend(name: str) -> Backend:
    """The backend of that name."""
    if name not in BACKENDS:
        raise Invalid(f"no backend {name!r}; there are {', '.join(BACKENDS)}", label="backend.C3")
    return BACKENDS[name]
