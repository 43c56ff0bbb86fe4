"""An ONNX model with tensors at its border (specs/verify.md, "Inputs").

What is lowered, or run by a backend, takes and gives tensors. So a sequence or optional value that goes in is made
inside, of inputs that are its parts; one that goes out is taken apart inside. How many parts there are is what this run
has.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import onnx
from onnx import GraphProto, NodeProto, TensorProto, helper

from assay.lower.frontends.onnx.containers import inside_option
from assay.lower.frontends.onnx.inner_nodes import nodes_of
from assay.lower.frontends.onnx.interface import declared_type, is_container, is_map_rows
from assay.semantics.errors import Invalid
from assay.semantics.types import Type
from assay.verify.app.onnx_run import run_values
from assay.verify.border.values import LENGTH, NONE, form, from_arrays, to_arrays

Array = np.ndarray[Any, Any]


def with_tensors_only(
    model: onnx.ModelProto,
    given: Mapping[str, Array],
    dims: Mapping[str, int],
    seed: int,
    source: str,
    *,
    all_given: bool = False,
) -> tuple[onnx.ModelProto, dict[str, Array]]:
    """The model itself where nothing but tensors goes in and out. Else one whose inputs and outputs are called as in a
    file, with as many parts as in `given`, and as the definition gives on these inputs. And what is given for its
    inputs. Invalid (input.C6): a sequence or optional value is not given; with `all_given` it is empty."""
    stored = {t.name for t in model.graph.initializer}
    inside = [i for i in model.graph.input if not i.type.HasField("tensor_type") and i.name not in stored]
    outside = [o for o in model.graph.output if is_container(o.type)]
    if not inside and not outside:
        return model, dict(given)
    types = {i.name: declared_type(f"input {i.name!r}", i.type) for i in inside}
    own = {n for n in given if any(n == t or n.startswith(f"{t}.") for t in types)} - {
        i.name for i in model.graph.input if i.name not in types
    }
    values = from_arrays({n: given[n] for n in own}, types)
    for name, of in types.items():
        if name in values:
            continue
        if not all_given:
            raise Invalid(
                f"input {name!r} is {of}, which has no random values: give it with --inputs ({form(name, of)})",
                label="input.C6",
            )
        values[name] = None if inside_option(of) is not None else []
        given = {**given, **to_arrays({name: values[name]})}
    results = run_values(model, given, dims, seed, source)
    made = onnx.ModelProto()
    made.CopyFrom(model)
    border = _Border(made.graph)
    for i in inside:
        border.take(i, values[i.name])
    for o in outside:
        border.give(o.name, results[o.name])
    border.done()
    parts = {i.name for i in made.graph.input}
    return made, {n: a for n, a in given.items() if n in parts or n not in own}


def containers(model: onnx.ModelProto) -> dict[str, Type]:
    """The outputs that are sequences or optional values, but not of maps."""
    held = [o for o in model.graph.output if is_container(o.type) and not is_map_rows(o.type)]
    return {o.name: declared_type(f"output {o.name!r}", o.type) for o in held}


class _Border:
    def __init__(self, graph: GraphProto) -> None:
        self.graph = graph
        self.before: list[NodeProto] = []
        self.after: list[NodeProto] = []
        self.inputs = {i.name: [i] for i in graph.input}
        self.outputs = {o.name: [o] for o in graph.output}
        self.names = {n for node in nodes_of(graph) for n in (*node.input, *node.output)} | {
            *self.inputs,
            *self.outputs,
        }

    def take(self, info: onnx.ValueInfoProto, value: Any) -> None:
        """What goes in under that name is made of parts."""
        name, of = info.name, info.type
        self.inputs[name] = []
        if of.HasField("optional_type"):
            if value is None:
                self.before.append(helper.make_node("Optional", [], [name], type=of.optional_type.elem_type))
                return
            held = self.fresh(name)
            if isinstance(value, list):
                self.sequence(
                    name, value, of.optional_type.elem_type.sequence_type.elem_type.tensor_type.elem_type, held
                )
                self.before.append(helper.make_node("Optional", [held], [name]))
            else:
                self.tensor(name, name, value)
                self.before.append(helper.make_node("Optional", [name], [held]))
                for node in nodes_of(self.graph):
                    for i, n in enumerate(node.input):
                        if n == name:
                            node.input[i] = held
        else:
            self.sequence(name, value, of.sequence_type.elem_type.tensor_type.elem_type, name)

    def sequence(self, name: str, items: list[Any], element: int, made: str) -> None:
        for i, item in enumerate(items):
            self.tensor(name, f"{name}.{i}", item)
        parts = [f"{name}.{i}" for i in range(len(items))]
        self.before.append(
            helper.make_node("SequenceConstruct", parts, [made])
            if parts
            else helper.make_node("SequenceEmpty", [], [made], dtype=element)
        )

    def tensor(self, of: str, name: str, array: Array) -> None:
        element = helper.np_dtype_to_tensor_dtype(np.asarray(array).dtype)
        self.inputs[of].append(helper.make_tensor_value_info(name, element, np.shape(array)))

    def give(self, name: str, value: Any) -> None:
        """What goes out under that name is taken apart."""
        self.outputs[name] = []
        of = next(o for o in self.graph.output if o.name == name).type
        held = name
        if of.HasField("optional_type"):
            if value is None:
                has = self.fresh(name)
                self.after.append(helper.make_node("OptionalHasElement", [name], [has]))
                self.after.append(helper.make_node("Not", [has], [f"{name}.{NONE}"]))
                self.result(name, f"{name}.{NONE}", TensorProto.BOOL)
                return
            held = self.fresh(name)
            if not isinstance(value, list):
                self.after.append(helper.make_node("OptionalGetElement", [held], [name]))
                for node in nodes_of(self.graph):
                    for names in (node.input, node.output):
                        for i, n in enumerate(names):
                            if n == name:
                                names[i] = held
                self.result(name, name, helper.np_dtype_to_tensor_dtype(value.dtype))
                return
            self.after.append(helper.make_node("OptionalGetElement", [name], [held]))
        for i, item in enumerate(value):
            at = self.fresh(name)
            place = helper.make_tensor(at, TensorProto.INT64, [], [i])
            self.after.append(helper.make_node("Constant", [], [at], value=place))
            self.after.append(helper.make_node("SequenceAt", [held, at], [f"{name}.{i}"]))
            self.result(name, f"{name}.{i}", helper.np_dtype_to_tensor_dtype(item.dtype))
        self.after.append(helper.make_node("SequenceLength", [held], [f"{name}.{LENGTH}"]))
        self.result(name, f"{name}.{LENGTH}", TensorProto.INT64)

    def result(self, of: str, name: str, element: int) -> None:
        self.outputs[of].append(onnx.ValueInfoProto(name=name, type=helper.make_tensor_type_proto(element, None)))

    def fresh(self, name: str) -> str:
        while name in self.names:
            name += "_"
        self.names.add(name)
        return name

    def done(self) -> None:
        """The graph with what was made around its own nodes."""
        nodes = [*self.before, *self.graph.node, *self.after]
        for field, infos in ((self.graph.input, self.inputs), (self.graph.output, self.outputs)):
            flat = [i for parts in infos.values() for i in parts]
            del field[:]
            field.extend(flat)
        del self.graph.node[:]
        self.graph.node.extend(nodes)
