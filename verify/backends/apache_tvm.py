"""Apache TVM on the CPU, by way of its ONNX importer (specs/verify.md, "Backends")."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from assay.semantics.errors import Invalid
from assay.verify.backends.protocol import Array, Prepared, Subject, cannot, with_outputs


@dataclass(frozen=True)
class Tvm:
    """One of TVM's pipelines for the CPU: the one that `tvm.compile` takes by default, which fuses nothing, or that of
    its target, which folds constants and fuses. Initializers become constants."""

    name: str
    of_target: bool = False

    def prepare(self, subject: Subject, wanted: Sequence[str]) -> Prepared:
        try:
            import tvm
            from tvm import relax
            from tvm.relax.frontend.onnx import from_onnx
        except ImportError:
            raise Invalid("the backend tvm is not installed; pip install 'assay[tvm]'", label="backend.C1") from None
        names = list(wanted)
        params = [i.name for i in subject.model.graph.input if i.name not in {t.name for t in subject.model.graph.initializer}]
        device = tvm.cpu()
        try:
            module = from_onnx(with_outputs(subject.model, names), keep_params_in_input=False)
            target = tvm.target.Target("llvm")
            if self.of_target:
                with target:
                    pipeline = relax.get_default_pipeline(target)
                built = tvm.compile(module, target, relax_pipeline=pipeline)
            else:
                built = tvm.compile(module, target)
            machine = relax.VirtualMachine(built, device)
        except Exception as wrong:
            # its importer and passes raise whatever they like
            raise cannot(self.name, wrong) from wrong

        def run(inputs: Mapping[str, Array]) -> dict[str, Array]:
            try:
                given = [tvm.runtime.tensor(np.ascontiguousarray(inputs[n]).reshape(np.shape(inputs[n])), device) for n in params]
                result: Any = machine["main"](*given)
            except Exception as wrong:
                raise cannot(self.name, wrong) from wrong
            results = [result] if len(names) == 1 and hasattr(result, "numpy") else list(result)
            return {n: np.asarray(r.numpy()) for n, r in zip(names, results, strict=True)}

        return run
