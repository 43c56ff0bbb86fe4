"""Apache TVM on the CPU, by way of its ONNX importer (specs/verify.md, "Backends")."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from assay.semantics.errors import Invalid
from assay.verify.app.foreign import Raised
from assay.verify.backends.protocol import Array, Prepared, Subject, cannot, crashed, run_failed, with_outputs


@dataclass(frozen=True)
class Tvm:
    """One of TVM's pipelines for the CPU: the one that `tvm.compile` takes by default, which fuses nothing, or that of
    its target, which folds constants and fuses. Initializers become constants."""

    name: str
    of_target: bool = False

    def prepare(self, subject: Subject, wanted: Sequence[str]) -> Prepared:
        """Import and compile the model with TVM. Invalid: TVM is not installed (backend.C1) or cannot do it
        (backend.C2)."""
        try:
            import tvm
            from tvm import relax
            from tvm.relax.frontend.onnx import from_onnx
        except ImportError:
            raise Invalid("the backend tvm is not installed; pip install 'assay[tvm]'", label="backend.C1") from None
        names = list(wanted)
        params = [p.name for p in subject.module.main.params]
        device = tvm.cpu()
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # of its checks, which it goes on after
                module = from_onnx(with_outputs(subject.model, names), keep_params_in_input=False)
            target = tvm.target.Target("llvm")
            if self.of_target:
                with target:
                    pipeline = relax.get_default_pipeline(target)
                built = tvm.compile(module, target, relax_pipeline=pipeline)
            else:
                built = tvm.compile(module, target)
            machine = relax.VirtualMachine(built, device)
        except tvm.error.InternalError as wrong:  # a broken invariant of TVM's own, by its documentation
            raise crashed(self.name, Raised(wrong)) from wrong
        except Exception as wrong:
            # its importer and passes raise whatever they like
            raise cannot(self.name, wrong) from wrong

        def run(inputs: Mapping[str, Array]) -> dict[str, Array]:
            try:
                arrays = [np.array(inputs[n], order="C") for n in params]
                given = [tvm.runtime.tensor(a, device) for a in arrays]
                result: Any = machine["main"](*given)
            except tvm.error.InternalError as wrong:
                raise crashed(self.name, Raised(wrong)) from wrong
            except Exception as wrong:
                raise run_failed(self.name, wrong) from wrong
            results = list(result) if type(result).__name__ in ("Array", "list", "tuple") else [result]
            odd = [type(r).__name__ for r in results if not hasattr(r, "numpy")]
            if odd or len(results) != len(names):  # a shape is no tensor in TVM
                got = f"a {odd[0]}, which is no tensor" if odd else f"{len(results)} tensors for {len(names)}"
                raise cannot(self.name, f"it returns {got}")
            return {n: np.asarray(r.numpy()) for n, r in zip(names, results, strict=True)}

        return run
