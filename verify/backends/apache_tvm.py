"""Apache TVM on the CPU, by way of its ONNX importer (specs/verify.md, "Backends")."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from assay.lower.frontends.onnx.outside import with_data_inside
from assay.semantics.errors import Invalid, Unsupported
from assay.verify.app.foreign import Raised
from assay.verify.backends.protocol import Array, Prepared, Subject, cannot, crashed, run_failed, with_outputs
from assay.verify.backends.tvm_pipelines import LONGEST, CompileFailed, Step, compile_plan, plan_of, steps_of

INTERNAL = "InternalError"
"""What TVM raises where an invariant of its own is broken, by its documentation."""


@dataclass(frozen=True)
class Tvm:
    """TVM with passes and pipelines of its own, by a list of their names; without one the pipeline that `tvm.compile`
    takes by default, which fuses nothing. Initializers become constants."""

    name: str
    steps: tuple[Step, ...] = ()

    @classmethod
    def named(cls, name: str, variant: str) -> Tvm:
        """The backend `tvm:LIST`. Invalid (backend.C3): the list is not of its form."""
        return cls(name, steps_of(variant))

    def prepare(self, subject: Subject, wanted: Sequence[str]) -> Prepared:
        """Import and compile the model with TVM. Invalid: TVM is not installed (backend.C1), cannot do it
        (backend.C2), or has no such passes (backend.C3)."""
        try:
            import tvm
            from tvm.relax.frontend.onnx import from_onnx
        except ImportError:
            raise Invalid("the backend tvm is not installed; pip install 'assay[tvm]'", label="backend.C1") from None
        names = list(wanted)
        params = [p.name for p in subject.module.main.params]
        device, target = tvm.cpu(), tvm.target.Target("llvm")
        plan = plan_of(self.steps, target)
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # of its checks, which it goes on after
                module = from_onnx(with_outputs(with_data_inside(subject.model), names), keep_params_in_input=False)
        except Exception as wrong:
            # its importer raises whatever it likes
            raise self._failed(Raised(wrong), "its importer of ONNX") from wrong
        try:
            machine = compile_plan(module, plan, target)
        except CompileFailed as failed:
            raise self._failed(failed.raised, failed.part) from failed

        def run(inputs: Mapping[str, Array]) -> dict[str, Array]:
            try:
                given = [tvm.runtime.tensor(np.array(inputs[n], order="C"), device) for n in params]
                result: Any = machine["main"](*given)
                results = list(result) if type(result).__name__ in ("Array", "list", "tuple") else [result]
                arrays = [np.asarray(r.numpy()) if hasattr(r, "numpy") else None for r in results]
            except Exception as wrong:
                if type(wrong).__name__ == INTERNAL:
                    raise self._failed(Raised(wrong), "its machine") from wrong
                raise run_failed(self.name, wrong) from wrong
            odd = [type(r).__name__ for r in results if not hasattr(r, "numpy")]
            if odd or len(results) != len(names):  # a shape is no tensor in TVM
                got = f"a {odd[0]}, which is no tensor" if odd else f"{len(results)} tensors for {len(names)}"
                raise cannot(self.name, f"it returns {got}")
            return {n: a for n, a in zip(names, arrays, strict=True) if a is not None}

        return run

    def _failed(self, raised: Raised, where: str) -> Unsupported:
        """What to raise where a part of TVM fails: it crashed if it calls that a fault of its own. The place is the
        last one that TVM shows, often in its C++: one pass fails in several ways."""
        if raised.kind == INTERNAL:
            return crashed(self.name, raised, f"{where}, {raised.place_in('')}")
        return cannot(self.name, f"{where} fails: {str(raised)[:LONGEST]}")
