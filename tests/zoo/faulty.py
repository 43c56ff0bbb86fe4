"""A backend with a fault in it.

backend = FaultyBackend(OnnxRuntime("onnxruntime"), fault)
run = backend.prepare(subject, subject.outputs)     # refuses every other tensor, as backends that fuse do
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
from onnx import ModelProto, helper

from assay.verify.backends.protocol import Array, Backend, Prepared, Subject, cannot, with_outputs
from tests.zoo.edit import PREFIX, Edit
from tests.zoo.faults import STATE, Fault, apply


@dataclass(frozen=True)
class FaultyBackend:
    """A backend that runs the ONNX form of a program, with one miscompilation. With `outputs_only` it shows no tensor
    but the outputs of the model that it is given (backend.C2)."""

    base: Backend
    fault: Fault
    outputs_only: bool = True

    @property
    def name(self) -> str:
        """The name of the backend, and of its fault."""
        return f"{self.base.name}+{self.fault.id}"

    def prepare(self, subject: Subject, wanted: Sequence[str]) -> Prepared:
        """Prepare the model as it is miscompiled. Raises what the backend does; Unsupported (backend.C2) for tensors
        that are not shown."""
        hidden = [n for n in wanted if n not in subject.outputs]
        if self.outputs_only and hidden:
            raise cannot(self.name, f"it shows outputs only, and {hidden[0]} is none")
        model = apply(subject.model, self.fault, wanted)
        if model is None:
            return self.base.prepare(subject, wanted)
        if self.fault.kind in STATE:
            return Kept(self.base, subject, list(wanted), self.fault).run
        return self.base.prepare(replace(subject, model=model), wanted)


class Kept:
    """Runs of a model in which a tensor keeps something of the run before."""

    def __init__(self, base: Backend, subject: Subject, wanted: list[str], fault: Fault) -> None:
        self.tensor = fault.params["tensor"]
        self.adds = fault.kind == "not-cleared"
        self.wanted = wanted
        self.base, self.subject = base, subject
        self.kept: Array | None = None
        self.fed: Prepared | None = None
        names = list(dict.fromkeys([*wanted, self.tensor]))
        model = with_outputs(subject.model, names)
        self.now = base.prepare(replace(subject, model=model), names)

    def run(self, inputs: Mapping[str, Array]) -> dict[str, Array]:
        """A run; what the tensor holds at its end stays for the next."""
        found = self.now(inputs)
        before, current = self.kept, found[self.tensor]
        if before is None or before.shape != current.shape:
            self.kept = current
            return {n: found[n] for n in self.wanted}
        used = np.asarray(before + current, current.dtype) if self.adds else before
        self.kept = used if self.adds else current
        if self.fed is None:
            model = self._given(current)
            self.fed = self.base.prepare(replace(self.subject, model=model), self.wanted)
        return self.fed({**inputs, PREFIX + "kept": used})

    def _given(self, like: Array) -> ModelProto:
        """The model with an input in place of what its node makes."""
        edit = Edit(with_outputs(self.subject.model, self.wanted))
        node = next(n for n in edit.model.graph.node if self.tensor in n.output)
        _, name = edit.hide(node, list(node.output).index(self.tensor))
        edit.add("Identity", PREFIX + "kept", result=name)
        of = helper.np_dtype_to_tensor_dtype(like.dtype)
        edit.model.graph.input.append(helper.make_tensor_value_info(PREFIX + "kept", of, list(like.shape)))
        return edit.done()
