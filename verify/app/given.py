"""What is given for a model: inputs, defaults and sizes (specs/verify.md, "Command line")."""

from __future__ import annotations

from typing import Any, TypeVar

import onnx

from assay.semantics.module import Module
from assay.verify.border.inputs import all_dims
from assay.verify.border.onnx_containers import with_tensors_only
from assay.verify.border.onnx_defaults import with_given_defaults

Program = TypeVar("Program", onnx.ModelProto, Module)


def with_inputs(
    model: Program, given: dict[str, Any], dims: dict[str, int], seed: int, name: str
) -> tuple[Program, dict[str, Any], dict[str, Any], dict[str, int]]:
    """A model with what is given for it: that in place of defaults stands in it, as do sequences and optional values;
    the rest; what stands in place of defaults; and its sizes, those that the inputs have among them."""
    defaults: dict[str, Any] = {}
    if isinstance(model, onnx.ModelProto):
        found = with_given_defaults(model, given, dims)
        defaults = found.defaults
        model, given = with_tensors_only(found.model, found.inputs, dims, seed, name)
    return model, given, defaults, all_dims(model, given, dims)
