"""The onnx package's own ReferenceEvaluator (specs/verify.md, "Backends")."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from assay.lower.frontends.onnx.outside import with_data_inside
from assay.verify.backends.protocol import Array, Prepared, Subject, cannot, run_failed, with_outputs


@dataclass(frozen=True)
class Reference:
    """ReferenceEvaluator. What it cannot do, and where a program fails, show as whatever its operators happen to
    raise."""

    name: str = "reference"

    def prepare(self, subject: Subject, wanted: Sequence[str]) -> Prepared:
        """Make an evaluator for the model. Invalid (backend.C2) if it refuses."""
        from onnx.reference import ReferenceEvaluator

        names = list(wanted)
        try:
            evaluator = ReferenceEvaluator(with_outputs(with_data_inside(subject.model), names))
        except Exception as wrong:
            raise cannot(self.name, wrong) from wrong

        def run(inputs: Mapping[str, Array]) -> dict[str, Any]:
            try:
                results = evaluator.run(names, dict(inputs))
            except NotImplementedError as wrong:
                raise cannot(self.name, wrong) from wrong
            except Exception as wrong:
                raise run_failed(self.name, wrong) from wrong
            assert isinstance(results, list)
            return {n: r if isinstance(r, list) else np.asarray(r) for n, r in zip(names, results, strict=True)}

        return run
