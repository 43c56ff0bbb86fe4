"""Inputs of an ONNX model that are maps, as rows of numbers (specs/verify.md, "Inputs").

DictVectorizer and CastMap are what reads a map. The first looks for the keys of its vocabulary; the second takes the
values in the order of their keys, or each at the place that its key says. So an input that is a map takes the vector
that they would find, and in their place stands what makes it a row.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from numbers import Integral, Real
from typing import Any

import numpy as np
from onnx import GraphProto, ModelProto, NodeProto, TensorProto, helper

from assay.lower.frontends.onnx.inner_nodes import nodes_of
from assay.lower.frontends.onnx.model import COLUMNS
from assay.semantics.errors import Invalid
from assay.semantics.names import unused

Array = np.ndarray[Any, Any]
ML = "ai.onnx.ml"
CASTS = {b"TO_FLOAT": TensorProto.FLOAT, b"TO_INT64": TensorProto.INT64}
"""The element types that CastMap gives, but for strings."""
MOST_PLACES = 1 << 16
"""Places of a map whose keys are places: there is a column for each."""


@dataclass(frozen=True)
class MapInput:
    """An input that is a map."""

    name: str
    of: int
    """The element type of its values, of ONNX."""
    keys: tuple[Any, ...] | None
    """What stands for which place of the vector; None: the values in ascending order of their keys."""

    @property
    def column_words(self) -> str:
        """What is said of the vector's columns."""
        said = ", ".join(map(str, self.keys)) if self.keys is not None else "all of its own, in ascending order"
        return f"{self.name}: {said}"

    def vector(self, given: Any) -> Any:
        """The vector of what is given: itself, or that of a mapping. Invalid (values.C4): it has a key of no place,
        or a value that is no number of the map's element type."""
        if not isinstance(given, Mapping):
            return given
        of = helper.tensor_dtype_to_np_dtype(self.of)
        for key, value in given.items():
            if not isinstance(value, Real) or (of.kind in "iu" and value % 1 != 0):
                raise Invalid(f"{self.name}[{key!r}] is {value!r}; a number of {of} is wanted", label="values.C4")
            known = isinstance(key, Integral) if self.keys is None else key in self.keys
            if not known:
                raise Invalid(f"{self.name} has the key {key!r}; {self.column_words}", label="values.C4")
        keys = sorted(given) if self.keys is None else self.keys
        return np.array([given.get(k, 0) for k in keys], of)


def with_rows(model: ModelProto, given: Mapping[str, Any]) -> tuple[ModelProto, dict[str, Any]]:
    """The model with vectors for its maps, and what is given for it; itself where it has none that can be such.
    Invalid (values.C4): a map that is given has a key that the model does not take."""
    maps = _map_inputs(model.graph)
    if not maps:
        return model, dict(given)
    made = ModelProto()
    made.CopyFrom(model)
    _take_rows(made.graph, {m.name: m for m in maps})
    made.metadata_props.add(key=COLUMNS, value=json.dumps([m.column_words for m in maps]))
    return made, {**given, **{m.name: m.vector(given[m.name]) for m in maps if m.name in given}}


def _map_inputs(graph: GraphProto) -> list[MapInput]:
    """The inputs that are maps of numbers and that DictVectorizer and CastMap read alike; the import refuses others."""
    inner = [n for node in graph.node for a in node.attribute for g in (a.g, *a.graphs) for n in nodes_of(g)]
    read_inside = {n for node in inner for n in node.input}
    found = []
    for info in graph.input:
        if not info.type.HasField("map_type") or info.name in read_inside:
            continue
        of = info.type.map_type.value_type.tensor_type.elem_type
        keys = {_keys(node, info.type.map_type.key_type) for node in graph.node if info.name in node.input}
        if len(keys) == 1 and "" not in keys and of != TensorProto.STRING:
            found.append(MapInput(info.name, of, keys.pop()))
    return found


def _keys(node: NodeProto, of: int) -> Any:
    """The keys that a node takes from a map; None where it takes all; "" where it reads none, or in no known way."""
    attrs = {a.name: helper.get_attribute_value(a) for a in node.attribute}
    if node.domain != ML:
        return ""
    if node.op_type == "DictVectorizer":
        words = "string_vocabulary" if of == TensorProto.STRING else "int64_vocabulary"
        keys = tuple(k.decode() if isinstance(k, bytes) else k for k in attrs.get(words, ()))
        return keys if len(set(keys)) == len(keys) > 0 else ""
    if node.op_type != "CastMap" or attrs.get("cast_to", b"TO_FLOAT") not in CASTS:
        return ""
    if attrs.get("map_form", b"DENSE") == b"DENSE":
        return None
    places = attrs.get("max_map", 1)
    return tuple(range(places)) if 0 < places <= MOST_PLACES else ""


def _take_rows(graph: GraphProto, of: Mapping[str, MapInput]) -> None:
    """Let these inputs be vectors, and what reads them a row of the vector's numbers."""
    for info in graph.input:
        if info.name in of:
            keys = of[info.name].keys
            size = len(keys) if keys is not None else None
            info.type.CopyFrom(helper.make_tensor_type_proto(of[info.name].of, [size]))
    taken = {n for node in nodes_of(graph) for n in (*node.input, *node.output)}
    vectors = {v.name for v in (*graph.output, *graph.value_info) if len(v.type.tensor_type.shape.dim) == 1}
    nodes: list[NodeProto] = []
    for node in graph.node:
        if node.input and node.input[0] in of:
            nodes += _row(node, of[node.input[0]].of, taken, node.output[0] in vectors)
        else:
            nodes.append(node)
    del graph.node[:]
    graph.node.extend(nodes)


def _row(node: NodeProto, of: int, taken: set[str], is_vector: bool) -> Iterator[NodeProto]:
    """What stands for a node. The text of DictVectorizer says a vector; ONNX Runtime gives a row, and converters count
    on it: a row, where the model does not declare a vector."""
    (x, y), made = (node.input[0], node.output[0]), of
    attrs = {a.name: helper.get_attribute_value(a) for a in node.attribute}
    if node.op_type == "CastMap":
        made = CASTS[attrs.get("cast_to", b"TO_FLOAT")]
    if made != of:
        cast = _fresh(f"{y}_cast", taken)
        yield helper.make_node("Cast", [x], [cast], node.name, to=made)
        x = cast
    if is_vector:
        yield helper.make_node("Identity", [x], [y])
        return
    shape = _fresh(f"{y}_shape", taken)
    yield helper.make_node("Constant", [], [shape], value=helper.make_tensor("", TensorProto.INT64, [2], [1, -1]))
    yield helper.make_node("Reshape", [x, shape], [y])


def _fresh(name: str, taken: set[str]) -> str:
    found = unused(name, taken)
    taken.add(found)
    return found
