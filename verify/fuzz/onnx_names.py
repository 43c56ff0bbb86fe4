"""Operators by ONNX's names: which of ours an ONNX operator is, and examples of those that none of ours is
(specs/verify.md, "Fuzzing").

What an operator of ours is in ONNX is read from its examples, exported: there is no second table. An ONNX operator that
no export has (ConvTranspose, GRU) is taken from ONNX's own examples, with other contents and element types.
"""

from __future__ import annotations

import warnings
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from functools import cache
from typing import Any

import numpy as np
import onnx
import onnx.defs
from onnx import numpy_helper

from assay.interp.graph import evaluate
from assay.lower.frontends.onnx.model import import_onnx
from assay.lower.onnx_export import export_onnx
from assay.semantics.dtypes import DTYPES, dtype
from assay.semantics.errors import AssayError, Invalid
from assay.semantics.graph import call, function, var
from assay.semantics.module import Module
from assay.semantics.ops import OPERATORS
from assay.semantics.types import TensorType
from assay.verify.strategies.choosing import Pick, one_of
from assay.verify.strategies.features import chosen
from assay.verify.strategies.values import an_array

Array = np.ndarray[Any, Any]
FLOATS = ("float32", "float64", "float16", "bfloat16")
MOST_SAID = 5


@cache
def exported() -> dict[str, frozenset[frozenset[str]]]:
    """Of each operator of ours, the sets of ONNX's operators that its examples are exported to."""
    found: dict[str, frozenset[frozenset[str]]] = {}
    for op in OPERATORS.values():
        made = set()
        for example in op.examples:
            params = [var(f"p{k}", TensorType(s, DTYPES[d])) for k, (s, d) in enumerate(example.operands)]
            try:
                model = export_onnx(Module({"main": function(params, call(op.name, *params, **example.attrs))}))
            except AssayError:
                continue  # ONNX has no word for this one
            made.add(frozenset(n.op_type for n in model.graph.node))
        found[op.name] = frozenset(made)
    return found


def ours(name: str) -> tuple[str, ...]:
    """The operators of ours that an ONNX operator is; those that need it, where it alone is none of ours."""
    alone = [n for n, sets in exported().items() if frozenset({name}) in sets]
    return tuple(alone or [n for n, sets in exported().items() if any(name in s for s in sets)])


def undeclared(declared: Collection[str]) -> tuple[str, ...]:
    """The operators of ours that cannot be said with those of ONNX that a backend declares."""
    plain = {*declared, "Constant", "Identity"}
    return tuple(n for n, sets in exported().items() if sets and not any(s <= plain for s in sets))


def chosen_operators(names: Iterable[str]) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """What names of operators mean, ours or ONNX's, each of which may end in *: operators of ours, and those of ONNX
    that none of ours is. Invalid (fuzz.C6): nobody has an operator of that name."""
    found: dict[str, None] = {}
    others: dict[str, None] = {}
    for name in names:
        known = _of_onnx()
        wanted = [n for n in known if n.startswith(name[:-1])] if name.endswith("*") else [name] * (name in known)
        mine = [n for n in OPERATORS if n.startswith(name[:-1])] if name.endswith("*") else [name] * (name in OPERATORS)
        if not wanted and not mine:
            near = _near(name)
            raise Invalid(
                f"no operator {name!r}, of ours or of ONNX" + (f"; near it: {', '.join(near)}" if near else ""),
                label="fuzz.C6",
            )
        found |= dict.fromkeys(chosen(mine))
        for n in wanted:
            of = () if n in OPERATORS else ours(n)
            found |= dict.fromkeys(of)
            if not of and n not in mine:
                others[n] = None
    return tuple(found), tuple(others)


@cache
def _of_onnx() -> tuple[str, ...]:
    return tuple(sorted({s.name for s in onnx.defs.get_all_schemas() if s.domain == ""}))


def _near(name: str) -> list[str]:
    """Names that are nearly so, whatever the case of their letters."""
    every = {n.lower().rpartition(".")[2]: n for n in (*OPERATORS, *_of_onnx())}
    plain = name.rstrip("*").lower().rpartition(".")[2]
    return [every[n] for n in get_close_matches(plain, list(every), MOST_SAID, 0.6)]


# --- examples of ONNX's own ---------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class OnnxExample:
    """A model of one operator, and inputs for it by name."""

    model: onnx.ModelProto
    inputs: dict[str, Array]


@cache
def examples_of(name: str) -> tuple[OnnxExample, ...]:
    """ONNX's own examples of an operator, those that can be imported. Invalid (fuzz.C7): there is none."""
    from onnx.backend.test.case.node import collect_testcases

    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")  # of the code that makes them
        cases = list(collect_testcases(None))
    found = []
    for case in cases:
        model = case.model
        if model is None or [n.op_type for n in model.graph.node] != [name] or not case.data_sets:
            continue
        given = case.data_sets[0][0]
        if all(isinstance(v, np.ndarray) and v.dtype.kind in "biuf" for v in given):
            inputs = {i.name: v for i, v in zip(model.graph.input, given, strict=False)}
            example = OnnxExample(_fixed(model, inputs), inputs)
            if imported(example.model) is not None:
                found.append(example)
    if not found:
        raise Invalid(
            f"no operator of ours is ONNX's {name}, and it has no example that can be imported", label="fuzz.C7"
        )
    return tuple(found)


def _fixed(model: onnx.ModelProto, inputs: dict[str, Array]) -> onnx.ModelProto:
    """The model with its whole numbers as initializers: sizes, axes and indices are not to be changed."""
    made = onnx.ModelProto()
    made.CopyFrom(model)
    made.graph.node[0].name = ""
    for info in list(made.graph.input):
        array = inputs.get(info.name)
        if array is not None and array.dtype.kind in "iu":
            made.graph.initializer.append(numpy_helper.from_array(array, info.name))
            made.graph.input.remove(info)
            del inputs[info.name]
    return made


def imported(model: onnx.ModelProto) -> Module | None:
    """The model as a module; None where it cannot be imported."""
    try:
        return import_onnx(model, evaluate=evaluate)
    except AssayError:
        return None


def varied_example(pick: Pick, examples: Sequence[OnnxExample]) -> OnnxExample:
    """One of the examples with other contents, and with another element type or without an attribute where it is still
    a model: the first example as it stands is the simplest."""
    example = one_of(pick, examples)
    model, inputs = example.model, example.inputs
    of = one_of(pick, FLOATS)
    if of != FLOATS[0]:
        model, inputs = _tried(example, _of_type(model, of), of)
    if pick(4) == 3 and (count := len(model.graph.node[0].attribute)):
        less = onnx.ModelProto()
        less.CopyFrom(model)
        del less.graph.node[0].attribute[pick(count)]
        less.graph.output[0].type.tensor_type.ClearField("shape")
        model = less if imported(less) is not None else model
    contents = {n: an_array(pick, v.shape, dtype(v.dtype)) for n, v in inputs.items()}
    return OnnxExample(model, contents)


def _tried(example: OnnxExample, model: onnx.ModelProto, of: str) -> tuple[onnx.ModelProto, dict[str, Array]]:
    to = DTYPES[of].numpy
    inputs = {n: v.astype(to) if v.dtype == np.float32 else v for n, v in example.inputs.items()}
    return (model, inputs) if imported(model) is not None else (example.model, example.inputs)


def _of_type(model: onnx.ModelProto, of: str) -> onnx.ModelProto:
    """The model with another element type in place of float32."""
    made = onnx.ModelProto()
    made.CopyFrom(model)
    for info in (*made.graph.input, *made.graph.output):
        if info.type.tensor_type.elem_type == onnx.TensorProto.FLOAT:
            info.type.tensor_type.elem_type = onnx.helper.np_dtype_to_tensor_dtype(DTYPES[of].numpy)
    return made
