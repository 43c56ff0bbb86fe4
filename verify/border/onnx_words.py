"""An ONNX model with numbers at its border in place of strings and maps (specs/verify.md, "Inputs").

What is lowered has no strings, and no file holds a map. So an input of strings takes their numbers in a table, from
which a LabelEncoder makes the strings inside; an output of strings gives such numbers; one that is a map for each
row, made by ZipMap, gives the matrix whose columns the map names; and an input that is a map takes a vector
(`assay.verify.border.map_inputs`). Inside of the model nothing changes.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import onnx
from onnx import AttributeProto, ModelProto, NodeProto, TensorProto, helper

from assay.lower.frontends.onnx.inner_nodes import nodes_of, nodes_of_model
from assay.lower.frontends.onnx.interface import is_map_rows
from assay.lower.frontends.onnx.model import COLUMNS, STRINGS
from assay.lower.frontends.onnx.operators.strings import makes_strings
from assay.lower.frontends.onnx.outside import without
from assay.lower.frontends.onnx.string_table import NUMBERS, text_names, texts_of
from assay.verify.app.onnx_run import require_strings, strings_met
from assay.verify.border.map_inputs import with_rows

Array = np.ndarray[Any, Any]
OTHER = "_any other string_"
"""What a number stands for that is none of a string."""
ML = "ai.onnx.ml"


@dataclass(frozen=True)
class WithNumbers:
    """A model with numbers at its border, what is given for it, and the table of its strings, by their numbers."""

    model: ModelProto
    given: dict[str, Any]
    strings: tuple[str, ...] = ()


def with_numbers_only(
    model: ModelProto,
    given: Mapping[str, Any],
    known: Sequence[str] = (),
    dims: Mapping[str, int] | None = None,
    source: str = "",
) -> WithNumbers:
    """The model itself where neither strings nor maps go in and out. `known` is a table that is to be kept; else it has
    the model's own strings, in their order there, those that are given, and those that the model makes of them, where
    an output is of strings. `dims` are its sizes by name, `source` is what messages call it. Invalid (values.C4): what
    is given for an input of strings is none. Unsupported (onnx.C13): strings are made of what is not given."""
    model, given = with_rows(model, given)
    stored = {t.name for t in model.graph.initializer}
    inside = [n for n in text_names(model.graph.input) if n not in stored]
    outside, maps = text_names(model.graph.output), _maps(model)
    if not inside and not outside and not maps:
        return WithNumbers(model, dict(given))
    made = without(model, {"graph"})
    made.graph.CopyFrom(model.graph)
    for node, place in maps:
        _as_matrix(made, node, place)
    if not inside and not outside:
        return WithNumbers(made, dict(given))
    taken = {n: np.asarray(given[n]) for n in inside if n in given}
    if known:
        table = tuple(known)
    else:
        for name, array in taken.items():
            require_strings(name, array)
        made_of = strings_met(model, given, dims or {}, source) if outside and makes_strings(model) else ()
        first = [*own_strings(model), *(str(s) for a in taken.values() for s in a.reshape(-1))]
        table = tuple(dict.fromkeys([*first, *made_of])) or ("",)
    codes = {n: numbers_of(table, a) for n, a in taken.items() if a.dtype.kind == "U"}
    border = _Border(made, table)
    for name in inside:
        border.take(name)
    for name in outside:
        border.give(name)
    border.done()
    _note(made, STRINGS, table)
    return WithNumbers(made, {**given, **codes}, table)


MOST_TOLD_WORDS = 12
"""Strings of a table that a line shows."""


def numbers_of(table: Sequence[str], strings: Array) -> Array:
    """The numbers of strings in a table; those that are not in it have the one behind."""
    places = {s: i for i, s in enumerate(table)}
    return np.array([places.get(str(s), len(table)) for s in strings.reshape(-1)], np.int64).reshape(strings.shape)


def strings_of(table: Sequence[str], numbers: Array) -> Array:
    """The strings that numbers stand for in a table."""
    words = [*table, OTHER]
    return np.array([words[min(int(n), len(table))] for n in numbers.reshape(-1)], np.str_).reshape(numbers.shape)


def text_tensors(model: ModelProto) -> set[str]:
    """The tensors of a model with numbers at its border that stand for strings there."""
    mappers = [n for n in model.graph.node if n.domain == ML and n.name.startswith(NUMBERS)]
    return {t for n in mappers for t in (*n.input, *n.output)}


def table_words(attrs: Mapping[str, Any]) -> list[str]:
    """What is said of a main function: for what the numbers stand that go in or out in place of strings, and the
    columns in place of maps."""
    strings, columns = attrs.get("strings", ()), attrs.get("columns", ())
    said = [f"{i} {s!r}" for i, s in enumerate(strings[:MOST_TOLD_WORDS])] + ["..."] * (len(strings) > MOST_TOLD_WORDS)
    told = [f"numbers for strings: {', '.join(said)}, {len(strings)} any other"] if strings else []
    return told + [f"a column for each key of {c}" for c in columns]


def _note(model: ModelProto, key: str, words: Sequence[str]) -> None:
    model.metadata_props.add(key=key, value=json.dumps(list(words)))


# --- maps


def _maps(model: ModelProto) -> list[tuple[int, str]]:
    """The nodes whose maps are outputs of the model, and nothing else; the others stay, and the import says why not."""
    declared = {o.name for o in model.graph.output if is_map_rows(o.type)}
    read = {n for node in nodes_of(model.graph) for n in node.input}
    return [
        (i, node.output[0])
        for i, node in enumerate(model.graph.node)
        if node.op_type == "ZipMap" and node.domain == ML and node.output[0] in declared - read
    ]


def _as_matrix(model: ModelProto, place: int, name: str) -> None:
    node = model.graph.node[place]
    attrs = {a.name: helper.get_attribute_value(a) for a in node.attribute}
    keys = [k.decode() for k in attrs.get("classlabels_strings", ())] or list(attrs.get("classlabels_int64s", ()))
    kept = helper.make_node("Identity", node.input, node.output, node.name)
    model.graph.node[place].CopyFrom(kept)
    for info in model.graph.output:
        if info.name == name:
            info.type.CopyFrom(helper.make_tensor_type_proto(TensorProto.FLOAT, None))
    _note(model, COLUMNS, [f"{name}: {', '.join(map(str, keys))}"])


# --- strings


def own_strings(model: ModelProto) -> Iterator[str]:
    """The strings that the model itself holds: labels, categories, keys, constants."""
    for tensor in model.graph.initializer:
        if tensor.data_type == TensorProto.STRING:
            yield from texts_of(tensor, f"initializer {tensor.name!r}").reshape(-1)
    for node in nodes_of_model(model):
        for given in node.attribute:
            yield from _of_attribute(given)


def _of_attribute(given: AttributeProto) -> Iterable[str]:
    if given.type == AttributeProto.TENSOR and given.t.data_type == TensorProto.STRING:
        yield from texts_of(given.t, f"attribute {given.name!r}").reshape(-1)
    elif given.name.endswith("_strings") or given.name in ("string_vocabulary", "pool_strings"):
        yield from (s.decode(errors="replace") for s in given.strings)
    elif given.name in ("default_string", "value_string"):
        yield given.s.decode(errors="replace")


class _Border:
    def __init__(self, model: ModelProto, table: Sequence[str]) -> None:
        self.model, self.graph, self.table = model, model.graph, table
        self.before: list[NodeProto] = []
        self.after: list[NodeProto] = []
        self.names = {n for node in nodes_of(self.graph) for n in (*node.input, *node.output)}
        self.names |= {v.name for v in (*self.graph.input, *self.graph.output)}

    def take(self, name: str) -> None:
        """What goes in under that name are numbers; the nodes read the strings that are made of them."""
        inner = self.fresh(name)
        self.before.append(self.mapper(name, inner, name, makes_strings=True))
        for node in nodes_of(self.graph):
            for i, n in enumerate(node.input):
                if n == name:
                    node.input[i] = inner
        self.numbers(info for info in self.graph.input if info.name == name)

    def give(self, name: str) -> None:
        """What goes out under that name are numbers of what is made under another."""
        inner = self.fresh(name)
        for node in nodes_of(self.graph):
            for names in (node.input, node.output):
                for i, n in enumerate(names):
                    if n == name:
                        names[i] = inner
        # an initializer or input that is an output too keeps its name
        own = inner if any(inner in node.output for node in self.graph.node) else name
        given = self.fresh(name) if own == name else name
        self.after.append(self.mapper(own, given, name, makes_strings=False))
        for info in self.graph.output:
            if info.name == name:
                info.name = given
        self.numbers(info for info in self.graph.output if info.name == given)

    def mapper(self, x: str, y: str, name: str, makes_strings: bool) -> NodeProto:
        """The node between strings and their numbers, for an input or an output of that name: a LabelEncoder, which
        more backends have than a CategoryMapper; the first version of ai.onnx.ml has no such one."""
        title, count = f"{NUMBERS}{name}", len(self.table)
        words, numbers = list(self.table), list(range(count))
        if any(o.domain == ML and o.version == 1 for o in self.model.opset_import):
            return helper.make_node(
                "CategoryMapper", [x], [y], title, domain=ML, cats_strings=words, cats_int64s=numbers,
                default_int64=count, default_string=OTHER,
            )  # fmt: skip
        how: dict[str, Any] = {"keys_strings": words, "values_int64s": numbers, "default_int64": count}
        if makes_strings:
            how = {"keys_int64s": numbers, "values_strings": words, "default_string": OTHER}
        return helper.make_node("LabelEncoder", [x], [y], title, domain=ML, **how)

    def numbers(self, infos: Iterable[onnx.ValueInfoProto]) -> None:
        for info in infos:
            info.type.tensor_type.elem_type = TensorProto.INT64

    def fresh(self, name: str) -> str:
        while name in self.names:
            name += "_"
        self.names.add(name)
        return name

    def done(self) -> None:
        nodes = [*self.before, *self.graph.node, *self.after]
        del self.graph.node[:]
        self.graph.node.extend(nodes)
        kept = [v for v in self.graph.value_info if v.name not in {n for m in self.after for n in m.input}]
        del self.graph.value_info[:]
        self.graph.value_info.extend(kept)
        if all(o.domain != ML for o in self.model.opset_import):
            self.model.opset_import.append(helper.make_opsetid(ML, 2))
