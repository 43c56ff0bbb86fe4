"""A model with inputs that show something (specs/verify.md, "reduce")."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import onnx
from onnx import numpy_helper

from assay.interp import graph
from assay.lower.frontends.onnx.control import reads
from assay.semantics.errors import AssayError
from assay.semantics.graph import Expr
from assay.verify.backends import subject_of_model

Array = np.ndarray[Any, Any]


@dataclass(frozen=True)
class ReducedCase:
    """An ONNX model, and inputs by name. Initializers are inputs that the model brings along."""

    model: onnx.ModelProto
    inputs: Mapping[str, Array]

    @property
    def nodes(self) -> Sequence[onnx.NodeProto]:
        """The nodes of the model's graph."""
        return list(self.model.graph.node)

    @cached_property
    def initializers(self) -> dict[str, Array]:
        """The arrays that the model brings along, by name."""
        return {t.name: numpy_helper.to_array(t) for t in self.model.graph.initializer}

    @cached_property
    def values(self) -> dict[str, Array]:
        """What each tensor of the model is, by the definition, as far as that can run."""
        found = dict(self.inputs)
        try:
            subject = subject_of_model(self.model)
            names: dict[int, list[str]] = {}
            for name, node in subject.tensors.items():
                names.setdefault(id(node), []).append(name)

            def look(node: Expr, value: Any) -> None:
                found.update((n, value) for n in names.get(id(node), ()) if isinstance(value, np.ndarray))

            graph.run(subject.module, self.inputs, observe=look)
        except AssayError:
            pass  # what was computed before it failed can still be used
        return found | self.initializers

    @property
    def digest(self) -> bytes:
        """Equal for equal cases."""
        made = hashlib.sha256(self.model.SerializeToString(deterministic=True))
        for name, array in self.inputs.items():
            made.update(f"{name} {array.dtype} {array.shape} ".encode() + np.ascontiguousarray(array).tobytes())
        return made.digest()

    @property
    def size(self) -> tuple[int, int, int]:
        """How large the case is: the numbers of operators, attributes and elements, compared in this order."""
        arrays = (*self.inputs.values(), *self.initializers.values())
        return len(self.nodes), sum(len(n.attribute) for n in self.nodes), sum(a.size for a in arrays)


def rebuilt(
    case: ReducedCase,
    nodes: Iterable[onnx.NodeProto],
    outputs: Iterable[str],
    arrays: Mapping[str, Array],
) -> ReducedCase:
    """The case with other operators, outputs, and values of what is read. Inputs and initializers that nothing reads
    are gone; an array that was neither becomes an input."""
    kept = list(nodes)
    made = {o for n in kept for o in n.output}
    wanted = list(outputs)
    used = dict.fromkeys([*(r for n in kept for r in reads(n)), *wanted])
    given = [name for name in used if name not in made and name in arrays]
    graph_ = onnx.GraphProto(name=case.model.graph.name or "reduced")
    graph_.node.extend(kept)
    inputs = {}
    for name in given:
        array = arrays[name]
        if name in case.initializers:
            graph_.initializer.append(numpy_helper.from_array(array, name))
        else:
            inputs[name] = array
            graph_.input.append(_declared(name, array))
    graph_.output.extend(onnx.helper.make_empty_tensor_value_info(name) for name in wanted)
    model = onnx.ModelProto(ir_version=case.model.ir_version, producer_name="assay reduce")
    model.opset_import.extend(case.model.opset_import)
    model.functions.extend(case.model.functions)
    model.graph.CopyFrom(graph_)
    return ReducedCase(model, inputs)


def outputs_of(case: ReducedCase) -> list[str]:
    """The names of the model's outputs."""
    return [o.name for o in case.model.graph.output]


def tidy(case: ReducedCase) -> ReducedCase:
    """The case with short names, x0, x1 ... for what goes in, t0, t1 ... for what is made, and its outputs' types. A
    model with inner graphs or functions keeps its names."""
    if case.model.functions or any(a.HasField("g") or a.graphs for n in case.nodes for a in n.attribute):
        return case
    names: dict[str, str] = {"": ""}
    for name in (*(i.name for i in case.model.graph.input), *case.initializers):
        names.setdefault(name, f"x{len(names) - 1}")
    count = len(names)
    for node in case.nodes:
        for o in node.output:
            names.setdefault(o, f"t{len(names) - count}")
    nodes = []
    for node in case.nodes:
        changed = onnx.NodeProto()
        changed.CopyFrom(node)
        changed.name = ""
        changed.doc_string = ""
        for field in (changed.input, changed.output):
            renamed = [names[x] for x in field]
            del field[:]
            field.extend(renamed)
        nodes.append(changed)
    arrays = {names[n]: a for n, a in (*case.inputs.items(), *case.initializers.items())}
    named = ReducedCase(onnx.ModelProto(ir_version=case.model.ir_version, opset_import=case.model.opset_import), {})
    named.model.graph.initializer.extend(numpy_helper.from_array(a, names[n]) for n, a in case.initializers.items())
    made = rebuilt(named, nodes, [names[o] for o in outputs_of(case)], arrays)
    for output in made.model.graph.output:
        if output.name in made.values:
            output.CopyFrom(_declared(output.name, made.values[output.name]))
    return made


def _declared(name: str, array: Array) -> onnx.ValueInfoProto:
    element = onnx.helper.np_dtype_to_tensor_dtype(array.dtype)
    return onnx.helper.make_tensor_value_info(name, element, array.shape)
