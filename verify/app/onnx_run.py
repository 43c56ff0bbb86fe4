"""`assay run MODEL.onnx`: a model on named arrays, by the definition of its operators (specs/verify.md, "Command
line")."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import onnx

from assay.interp import graph
from assay.lower.frontends.onnx.string_table import Strings, text_names
from assay.semantics.errors import Invalid
from assay.verify.border.inputs import complete, import_with
from assay.verify.border.values import from_value, to_arrays

Array = np.ndarray[Any, Any]


def run_onnx(
    model: onnx.ModelProto, given: Mapping[str, Array], dims: Mapping[str, int], seed: int, source: str
) -> dict[str, Array]:
    """The outputs as named arrays, on inputs as named arrays; those that are not given are random. Raises what
    `run_values` raises, and Invalid (parts.C1) where two outputs would have one name."""
    return to_arrays(run_values(model, given, dims, seed, source))


def run_values(
    model: onnx.ModelProto, given: Mapping[str, Array], dims: Mapping[str, int], seed: int, source: str
) -> dict[str, Any]:
    """The outputs by name, as Python has them. Raises what the import, the run and the forms of values raise, and
    Invalid (input.C6, values.C4) for strings that are missing, or are none."""
    strings = Strings()
    texts = text_names(model.graph.input)
    numbers = dict(given)
    for name in texts:
        if name in given:
            require_strings(name, given[name])
            numbers[name] = strings.numbers(given[name])

    module = import_with(given, model=model, evaluate=graph.evaluate, dims=dims, source=source, strings=strings)
    missing = [p.name for p in module.main.params if p.name in texts and p.name not in given]
    if missing:
        raise Invalid(
            f"input {missing[0]!r} is of strings: give it with --inputs, as an array of dtype str", label="input.C6"
        )
    outputs = graph.run(module, complete(module.main, numbers, seed))
    found = {n: from_value(v, module, f"output {n!r}") for n, v in outputs.items()}
    for name in text_names(model.graph.output):
        found[name] = strings.texts(found[name])
    return found


def require_strings(name: str, given: Array) -> None:
    """Invalid (values.C4): what is given for an input of strings is none."""
    if given.dtype.kind != "U":
        raise Invalid(
            f"input {name!r} is {given.dtype}; strings are wanted, as an array of dtype str", label="values.C4"
        )
