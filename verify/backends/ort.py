"""ONNX Runtime on the CPU, or on a GPU (specs/verify.md, "Backends")."""

from __future__ import annotations

import ctypes
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import prod
from typing import Any

import numpy as np

from assay.lower.frontends.onnx.outside import make_relative
from assay.lower.frontends.onnx.tensors import ONNX_NAMES, number_of
from assay.semantics.dtypes import DTYPES, dtype
from assay.semantics.errors import Invalid
from assay.verify.app.foreign import Raised
from assay.verify.backends.gpu import require_cuda
from assay.verify.backends.protocol import Array, Prepared, Subject, cannot, crashed, run_failed, with_outputs
from assay.verify.oracle.declarations import EVERYTHING_KEPT, Accepts

CPU = "CPUExecutionProvider"


@dataclass(frozen=True)
class OnnxRuntime:
    """ONNX Runtime with one of its levels of graph optimisation: all, extended, basic or none ("disable_all").

    `threads`: how many it may use, 0 for one for each core. Small programs are prepared much faster with one."""

    name: str
    level: str = "ORT_ENABLE_ALL"
    threads: int = 0
    provider: str = CPU
    """Which of its execution providers; what that one has not is computed by the CPU's."""
    accepts: Accepts = EVERYTHING_KEPT

    def prepare(self, subject: Subject, wanted: Sequence[str]) -> Prepared:
        """Make a session for the model. Invalid: not installed (backend.C1) or refused (backend.C2)."""
        try:
            import onnxruntime as ort
        except ImportError:
            raise Invalid(
                "the backend onnxruntime is not installed; pip install 'assay[judge]'", label="backend.C1"
            ) from None
        self._require_provider(ort.get_available_providers(), "there are {0}; pip install onnxruntime-gpu in its place")
        options = ort.SessionOptions()
        options.log_severity_level = 4
        options.intra_op_num_threads = self.threads
        options.graph_optimization_level = getattr(ort.GraphOptimizationLevel, self.level)
        names = list(wanted)
        model = with_outputs(subject.model, names)
        if (folder := make_relative(model)) is not None:
            options.add_session_config_entry("session.model_external_initializers_file_folder_path", str(folder))
        data: bytes = model.SerializeToString()
        del model
        try:
            session = ort.InferenceSession(data, options, providers=list(dict.fromkeys((self.provider, CPU))))
        except Exception as wrong:  # noqa: BLE001  (told apart by its class, and raised)
            raise self._failure(wrong) from None
        self._require_provider(session.get_providers(), "no device was found, and it took {0}")
        exotic = [v for v in (*session.get_inputs(), *session.get_outputs()) if v.type in EXOTIC]

        def run(inputs: Mapping[str, Array]) -> dict[str, Array]:
            try:
                given = {n: np.asarray(v) for n, v in inputs.items()}
                if not exotic:
                    return dict(zip(names, session.run(names, given), strict=True))
                values = session.run_with_ort_values(names, {n: _to_ort(ort, v) for n, v in given.items()})
                return {n: _from_ort(v) for n, v in zip(names, values, strict=True)}
            except Exception as wrong:  # noqa: BLE001  (told apart by its class, and raised)
                raise self._failure(wrong) from None

        return run

    def _require_provider(self, there: Sequence[str], why: str) -> None:
        """Invalid (backend.C1): the provider is not among these. ONNX Runtime itself would go on without a word."""
        if self.provider != CPU:
            require_cuda(self.name, self.provider in there, why.format(", ".join(there)))

    def _failure(self, wrong: Exception) -> Exception:
        """What an exception means, by its class, which is its status code. Of a node that fails while it runs nothing
        says whether the program must fail there or ONNX Runtime cannot run it. What is no exception of its own, nor one
        that its Python interface raises of arguments, is no answer of it."""
        of_its_own = type(wrong).__module__.startswith("onnxruntime")
        kind = type(wrong).__name__
        if of_its_own and kind in INTERNAL:
            return crashed(self.name, Raised(wrong), Raised(wrong).place_in(""))
        if of_its_own and kind != "NotImplemented" and "while running" in Raised(wrong).first_line:
            return run_failed(self.name, wrong)
        return cannot(self.name, wrong) if of_its_own or isinstance(wrong, (RuntimeError, ValueError)) else wrong


INTERNAL = ("EPFail", "EngineError")
"""Status codes of faults inside. RuntimeException is none: kernels raise it too of attributes that they do not
take."""


def _to_ort(ort: Any, array: Array) -> Any:
    """A value for ONNX Runtime. Element types that NumPy itself has not are handed over as bits."""
    of = dtype(array.dtype)
    if array.dtype.isbuiltin == 1:
        return ort.OrtValue.ortvalue_from_numpy(array)
    bits = np.ascontiguousarray(array).reshape(array.shape).view(np.uint16 if of.bits == 16 else np.uint8)
    return ort.OrtValue.ortvalue_from_numpy_with_onnx_type(bits, number_of(of))


def _from_ort(value: Any) -> Array:
    of = EXOTIC.get(value.data_type())
    if of is None:
        plain: Array = value.numpy()
        return plain
    shape = tuple(value.shape())
    size = prod(shape) * of.itemsize
    data = ctypes.string_at(value.data_ptr(), size) if size else b""
    return np.frombuffer(data, of.numpy).reshape(shape)


EXOTIC = {
    f"tensor({n})": DTYPES[d] for d, n in ONNX_NAMES.items() if DTYPES[d].numpy.isbuiltin != 1 and DTYPES[d].bits >= 8
}
"""Element types that ONNX Runtime's Python interface cannot hand over as arrays."""
