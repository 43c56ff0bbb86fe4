"""Other implementations whose outputs are judged (specs/verify.md, "Backends").

    subject = subject_of_model(onnx.load("model.onnx"))
    run = backend("onnxruntime").prepare(subject, subject.outputs)
    outputs = run(inputs)

A package of your own adds a backend by an entry point. In its pyproject.toml:

    [project.entry-points."assay.backends"]
    mine = "my_package.for_assay:Mine"

where `Mine` is a class whose instances have `name` and `prepare(subject, wanted)`, as `Backend` says, or a function of
a model and its inputs. `assay.verify.backends.kit` has tests for it.
"""

from __future__ import annotations

from assay.verify.backends.isolated import Isolated
from assay.verify.backends.protocol import (
    Array,
    Backend,
    Died,
    Outcome,
    Prepared,
    Ran,
    Refused,
    Subject,
    Trapped,
    attempt,
    subject_of_model,
    subject_of_module,
)
from assay.verify.backends.registry import BACKENDS, backend, names

__all__ = [
    "BACKENDS",
    "Array",
    "Backend",
    "Died",
    "Isolated",
    "Outcome",
    "Prepared",
    "Ran",
    "Refused",
    "Subject",
    "Trapped",
    "attempt",
    "backend",
    "names",
    "subject_of_model",
    "subject_of_module",
]
