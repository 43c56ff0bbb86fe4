"""The interpreter as a backend of ONNX's own tests (specs/verify.md, "ONNX backend").

    backend_test = onnx.backend.test.BackendTest(onnx_backend, __name__)

Values come in and go out as the runner has them: a tensor is a NumPy array, a sequence a list, an optional value that
holds nothing None, one that holds something that itself.

    >>> import onnx
    >>> model = onnx.load("model.onnx")
    >>> assay.onnx_backend.run_model(model, [numpy.ones((1, 3), "float32")])[0].tolist()
    [[0.0, 0.5]]
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import onnx
from onnx import ModelProto, NodeProto
from onnx.backend.base import Backend, BackendRep

from assay.interp import graph
from assay.lower.frontends.onnx.model import import_onnx
from assay.lower.frontends.onnx.string_table import Strings, text_names
from assay.semantics.errors import Invalid, Unsupported
from assay.semantics.module import Module
from assay.verify.border.onnx_defaults import with_given_defaults
from assay.verify.border.values import from_value, to_value

Array = np.ndarray[Any, Any]


class AssayRep(BackendRep):
    """A model that is ready to run: operands by position, results by position.

    A type of the result may depend on what an input holds. So a model that cannot be imported is imported again when
    there are inputs, with what they hold; it is then that what is wrong with it is raised.
    """

    def __init__(self, model: ModelProto) -> None:
        self.model = model
        self.initialized = {t.name for t in model.graph.initializer}
        self.inputs = [i.name for i in model.graph.input if i.name not in self.initialized]
        self.strings = Strings()
        self.texts = {*text_names(model.graph.input), *text_names(model.graph.output)}
        self.module: Module | None = None
        try:
            self.module = self._imported()
        except Invalid:
            if not self.inputs:
                raise

    def _imported(self, values: Mapping[str, Array] | None = None) -> Module:
        return import_onnx(self.model, evaluate=graph.evaluate, values=values, strings=self.strings, draws=0)

    def run(self, inputs: Any, **kwargs: Any) -> tuple[Any, ...]:
        """The results on `inputs`: a sequence by position, without those that have an initializer, or by name."""
        del kwargs
        given = _named(inputs, self.inputs)
        defaults = {
            n: np.asarray(v, str if n in self.texts else None) for n, v in given.items() if n in self.initialized
        }
        if defaults:
            taken = with_given_defaults(self.model, defaults, {}).model
            return AssayRep(taken).run({n: v for n, v in given.items() if n not in defaults})
        module = self.module
        if module is None:
            values = {n: np.asarray(v) for n, v in given.items() if isinstance(v, (np.ndarray, np.generic))}
            module = self._imported(values)
        types = {p.name: p.type for p in module.main.params}
        given = {n: self.strings.numbers(v) if n in self.texts else v for n, v in given.items()}
        run = {n: to_value(v, types[n], f"input {n!r}") if n in types else v for n, v in given.items()}
        found = {n: from_value(v, module, n) for n, v in graph.run(module, run).items()}
        return tuple(self.strings.texts(v) if n in self.texts else v for n, v in found.items())


def _named(inputs: Any, names: Sequence[str]) -> dict[str, Any]:
    if isinstance(inputs, Mapping):
        return dict(inputs)
    if isinstance(inputs, np.ndarray) or not isinstance(inputs, Sequence):
        inputs = [inputs]
    if len(inputs) > len(names):
        raise Invalid(f"{len(inputs)} inputs are given; the model has {len(names)}", label="onnx_backend.C2")
    return dict(zip(names, inputs, strict=False))


class AssayBackend(Backend):
    """`onnx.backend.base.Backend` over the interpreter."""

    @classmethod
    def prepare(cls, model: ModelProto, device: str = "CPU", **kwargs: Any) -> AssayRep:
        """Read a model for repeated runs. Unsupported (`onnx_backend.C3`) for a device but the CPU."""
        del kwargs
        if not cls.supports_device(device):
            raise Unsupported(f"device {device}; CPU is wanted", label="onnx_backend.C3")
        return AssayRep(model)

    @classmethod
    def run_model(cls, model: ModelProto, inputs: Any, device: str = "CPU", **kwargs: Any) -> tuple[Any, ...]:
        """Prepare the model and run it once."""
        return cls.prepare(model, device, **kwargs).run(inputs)

    @classmethod
    def run_node(
        cls,
        node: NodeProto,
        inputs: Any,
        device: str = "CPU",
        outputs_info: Sequence[tuple[Any, tuple[int, ...]]] | None = None,
        **kwargs: Any,
    ) -> tuple[Any, ...]:
        """One node; `opset_version` among `kwargs` says of which operator set it is, the newest without it."""
        del outputs_info
        opset = int(kwargs.pop("opset_version", onnx.defs.onnx_opset_version()))
        names = [n for n in node.input if n]
        given = _named(inputs, names)
        infos = [onnx.helper.make_value_info(n, _type_of(given[n])) for n in names]
        results = [onnx.helper.make_empty_tensor_value_info(o) for o in node.output if o]
        made = onnx.helper.make_graph([node], "node", infos, results)
        opsets = [onnx.helper.make_opsetid(node.domain, opset)]
        return cls.run_model(onnx.helper.make_model(made, opset_imports=opsets), given, device, **kwargs)

    @classmethod
    def supports_device(cls, device: str) -> bool:
        """Whether the device is the CPU."""
        return device == "CPU"


def _type_of(given: Any) -> onnx.TypeProto:
    if isinstance(given, (list, tuple)):
        inner = np.asarray(given[0]).dtype if given else np.dtype(np.float32)
        element = onnx.helper.make_tensor_type_proto(onnx.helper.np_dtype_to_tensor_dtype(inner), None)
        return onnx.helper.make_sequence_type_proto(element)
    array = np.asarray(given)
    return onnx.helper.make_tensor_type_proto(onnx.helper.np_dtype_to_tensor_dtype(array.dtype), array.shape)


prepare = AssayBackend.prepare
run_model = AssayBackend.run_model
run_node = AssayBackend.run_node
supports_device = AssayBackend.supports_device
