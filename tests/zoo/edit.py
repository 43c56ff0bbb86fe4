"""What is known of a model where a fault may be, and how a fault changes it."""

from __future__ import annotations

import copy
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from onnx import ModelProto, NodeProto, helper, numpy_helper

from assay.semantics.module import Module
from assay.verify.backends.ort import OnnxRuntime
from assay.verify.backends.protocol import Prepared, Subject
from tests.zoo import models

Array = np.ndarray[Any, Any]
PREFIX = "fault/"
"""How what a fault adds is called."""


def opset_of(model: ModelProto) -> int:
    """The version of ONNX's own operators."""
    return next(o.version for o in model.opset_import if o.domain in ("", "ai.onnx"))


def read_by(node: NodeProto) -> list[str]:
    """The tensors that a node reads, those of its branches too."""
    graphs = [a.g for a in node.attribute if a.HasField("g")]
    inside = {o for g in graphs for n in g.node for o in n.output}
    branched = [i for g in graphs for n in g.node for i in n.input if i not in inside]
    return [i for i in dict.fromkeys([*node.input, *branched]) if i]


@dataclass(frozen=True)
class Facts:
    """A model with the shapes of its tensors, from one run. Faults are looked for by it; they are applied without it,
    for a piece of the model must be enough."""

    model: ModelProto

    @cached_property
    def values(self) -> dict[str, Array]:
        """Every tensor on ordinary inputs, weights among them."""
        return self._run(0)

    @cached_property
    def others(self) -> dict[str, Array]:
        """Every tensor on other inputs."""
        return self._run(1)

    @cached_property
    def _session(self) -> Prepared:
        backend = OnnxRuntime("onnxruntime", "ORT_DISABLE_ALL", threads=1)
        return backend.prepare(Subject(Module({}), self.model), models.every_tensor(self.model))

    def _run(self, seed: int) -> dict[str, Array]:
        given = models.inputs(self.model, seed)
        stored = {i.name: numpy_helper.to_array(i) for i in self.model.graph.initializer}
        return stored | given | self._session(given)

    @cached_property
    def constants(self) -> frozenset[str]:
        """Tensors that are stored, and those of Constant nodes."""
        made = {n.output[0] for n in self.model.graph.node if n.op_type == "Constant"}
        return frozenset(made | {i.name for i in self.model.graph.initializer})

    @cached_property
    def producers(self) -> dict[str, NodeProto]:
        """The node that makes each tensor."""
        return {o: n for n in self.model.graph.node for o in n.output if o}

    @cached_property
    def named(self) -> dict[str, NodeProto]:
        """The nodes by name."""
        return {n.name: n for n in self.model.graph.node}

    @cached_property
    def order(self) -> dict[str, int]:
        """The place of each node, by its name."""
        return {n.name: i for i, n in enumerate(self.model.graph.node)}

    @cached_property
    def readers(self) -> dict[str, list[NodeProto]]:
        """The nodes that read each tensor."""
        found: dict[str, list[NodeProto]] = {}
        for node in self.model.graph.node:
            for name in read_by(node):
                found.setdefault(name, []).append(node)
        return found

    @cached_property
    def outputs(self) -> frozenset[str]:
        """The names of the model's outputs."""
        return frozenset(o.name for o in self.model.graph.output)

    def nodes(self, *ops: str) -> Iterator[NodeProto]:
        """The nodes of these operators whose first result holds real numbers."""
        for node in self.model.graph.node:
            if node.op_type in ops and self.is_real(node.output[0]):
                yield node

    def shape(self, tensor: str) -> tuple[int, ...]:
        """The tensor's shape; none where there is no tensor."""
        return tuple(np.shape(self.values[tensor])) if tensor else ()

    def is_real(self, tensor: str) -> bool:
        """Whether it is a tensor of float32."""
        return tensor in self.values and np.asarray(self.values[tensor]).dtype == np.float32

    def scalar(self, tensor: str) -> float | None:
        """The number that a stored tensor of one element is."""
        value = self.values.get(tensor)
        return float(np.reshape(value, -1)[0]) if tensor in self.constants and np.size(value) == 1 else None


def attribute(node: NodeProto, name: str, default: Any = None) -> Any:
    """The value of a node's attribute."""
    found = next((a for a in node.attribute if a.name == name), None)
    return default if found is None else helper.get_attribute_value(found)


class Edit:
    """A copy of a model that is being changed. Added nodes may stand anywhere: `done` puts them in order."""

    def __init__(self, model: ModelProto) -> None:
        self.model = copy.deepcopy(model)
        self.opset = opset_of(model)
        self._nodes = {n.name: n for n in self.model.graph.node}
        self._count = 0

    def node(self, name: str) -> NodeProto:
        """The node of that name. KeyError where there is none."""
        return self._nodes[name]

    def _name(self, hint: str) -> str:
        self._count += 1
        return f"{PREFIX}{hint}_{self._count}"

    def constant(self, value: Any, of: Any = None) -> str:
        """A new stored tensor."""
        name = self._name("c")
        self.model.graph.initializer.append(numpy_helper.from_array(np.array(value, of), name))
        return name

    def add(self, op: str, *inputs: str, result: str = "", **attrs: Any) -> str:
        """A new node; its result is called `result`, if that is given."""
        name = self._name(op)
        made = result or f"{name}_output_0"
        self.model.graph.node.append(helper.make_node(op, list(inputs), [made], name=name, **attrs))
        return made

    def hide(self, node: NodeProto, index: int = 0) -> tuple[str, str]:
        """Another name for a node's result, and the name that it had, which a new node has to make."""
        old = node.output[index]
        node.output[index] = self._name("hidden")
        return node.output[index], old

    def become(self, node: NodeProto, op: str, *inputs: str, **attrs: Any) -> None:
        """Make another operator of the node, with the same results."""
        node.op_type = op
        del node.input[:], node.attribute[:]
        node.input.extend(inputs)
        node.attribute.extend(helper.make_attribute(n, v) for n, v in attrs.items())

    def set(self, node: NodeProto, **attrs: Any) -> None:
        """Set attributes of the node."""
        kept = [a for a in node.attribute if a.name not in attrs]
        del node.attribute[:]
        node.attribute.extend([*kept, *(helper.make_attribute(n, v) for n, v in attrs.items())])

    def slice(self, x: str, axis: int, start: int, end: int, step: int = 1) -> str:
        """Part of a tensor along an axis."""
        return self.add("Slice", x, *(self.constant([v], np.int64) for v in (start, end, axis, step)))

    def rolled(self, x: str, axis: int, by: int = 1) -> str:
        """The tensor turned along an axis: its element 0 is the last one, or with -1 the other way round."""
        return self.add("Concat", self.slice(x, axis, -by, LAST), self.slice(x, axis, 0, -by), axis=axis)

    def shifted(self, x: str, axis: int, by: int) -> str:
        """The tensor moved by one along an axis; the element at the end stands twice."""
        if by > 0:
            return self.add("Concat", self.slice(x, axis, 0, 1), self.slice(x, axis, 0, -1), axis=axis)
        return self.add("Concat", self.slice(x, axis, 1, LAST), self.slice(x, axis, -1, LAST), axis=axis)

    def mean(self, x: str, axes: Sequence[int]) -> str:
        """The mean over axes, which stay."""
        if self.opset < 18:
            return self.add("ReduceMean", x, axes=list(axes), keepdims=1)
        return self.add("ReduceMean", x, self.constant(list(axes), np.int64), keepdims=1)

    def reshape(self, x: str, shape: Sequence[int], result: str = "") -> str:
        """The tensor in another shape."""
        return self.add("Reshape", x, self.constant(list(shape), np.int64), result=result)

    def through(self, x: str, of: int) -> str:
        """The numbers rounded to another element type and back."""
        return self.add("Cast", self.add("Cast", x, to=of), to=1)

    def done(self) -> ModelProto:
        """The changed model, its nodes in an order in which each stands behind what it reads."""
        made = {i.name for i in self.model.graph.input} | {i.name for i in self.model.graph.initializer}
        left = list(self.model.graph.node)
        ordered: list[NodeProto] = []
        inside = {o for n in left for o in n.output}
        while left:
            later = []
            for node in left:
                if all(i in made or i not in inside for i in read_by(node)):
                    ordered.append(node)
                    made.update(node.output)
                else:
                    later.append(node)
            if len(later) == len(left):
                raise ValueError(f"the fault makes a circle of {later[0].name}")
            left = later
        nodes = [copy.deepcopy(n) for n in ordered]
        del self.model.graph.node[:]
        self.model.graph.node.extend(nodes)
        del self.model.graph.value_info[:]
        return self.model


LAST = 2**63 - 1
"""Where a slice ends that goes to the end."""
