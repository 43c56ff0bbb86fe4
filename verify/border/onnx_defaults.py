"""Inputs of an ONNX model that have a default (specs/verify.md, "Inputs").

An initializer that has the name of an input is what that input is where none is given. What is given stands in the
model in its place, for the definition and for all that are judged: the rest of the model stays as it is, and what
has to be known before a run, a shape or an axis, is known. Old exporters list all weights as inputs, so a default that
is not given must stay the constant that it is.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, TensorShapeProto, TypeProto, numpy_helper

from assay.interp.graph.boundary import bind, given as as_value
from assay.lower.frontends.onnx.interface import NamedSizes, declared_type, input_type, is_container
from assay.lower.frontends.onnx.string_table import is_text, without_strings
from assay.verify.app.onnx_run import require_strings
from assay.verify.border.values import fitted, unknown_input

Array = np.ndarray[Any, Any]


@dataclass(frozen=True)
class Given:
    """A model in which what was given for inputs with a default stands in its place."""

    model: onnx.ModelProto
    inputs: dict[str, Array]
    """What is given for the other inputs."""
    defaults: dict[str, Array]
    """What was given for those, in the order of their names."""


def with_given_defaults(model: onnx.ModelProto, given: Mapping[str, Array], dims: Mapping[str, int]) -> Given:
    """`given` is by name as in a file. Invalid: a name is that of no input (input.C1), or what is given for an input
    with a default is not of its type (values.C4, input.C3, input.C4)."""
    infos = {i.name: i for i in model.graph.input if isinstance(i.name, str)}
    stored = {t.name: t for t in model.graph.initializer if t.name in infos}
    if not stored:
        return Given(model, dict(given), {})
    others = {
        n: declared_type(f"input {n!r}", i.type) for n, i in infos.items() if n not in stored and is_container(i.type)
    }
    for name in given:
        if name not in infos and not name.startswith(tuple(f"{n}." for n in others)):
            raise unknown_input(name, [n for n in infos if n not in stored], others, defaults=list(stored))
    symbols = NamedSizes(model.graph, dims)
    found = {n: _fitting(infos[n].type, stored[n], given[n], symbols) for n in sorted(stored) if n in given}
    if not found:
        return Given(model, dict(given), {})
    made = onnx.ModelProto()
    made.CopyFrom(model)
    for tensor in made.graph.initializer:
        if tensor.name in found:
            tensor.CopyFrom(_tensor(tensor.name, found[tensor.name]))
    return Given(made, {n: a for n, a in given.items() if n not in found}, found)


def _fitting(declared: TypeProto, stored: TensorProto, given: Array, symbols: NamedSizes) -> Array:
    """What is given instead of a default. It is of the declared type, and of any shape where that says none."""
    what = f"input {stored.name!r}"
    of = TypeProto()
    of.CopyFrom(declared)
    if not of.tensor_type.elem_type:
        of.tensor_type.elem_type = stored.data_type
    if not of.tensor_type.HasField("shape"):
        of.tensor_type.shape.dim.extend(TensorShapeProto.Dimension() for _ in given.shape)
    text = is_text(of)
    if text:
        require_strings(stored.name, given)
    wanted = input_type(stored.name, without_strings(of), symbols)
    array = given if text else fitted(stored.name, given, wanted.dtype)
    bind([(wanted, as_value(np.zeros(given.shape, np.int64) if text else array, wanted, what), what)], {}, {})
    return array


def _tensor(name: str, array: Array) -> TensorProto:
    if array.dtype.kind != "U":
        return numpy_helper.from_array(array, name)
    texts = [str(t).encode() for t in array.reshape(-1)]
    return TensorProto(name=name, data_type=TensorProto.STRING, dims=array.shape, string_data=texts)
