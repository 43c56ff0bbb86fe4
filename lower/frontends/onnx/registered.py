"""Operators of other packages, by an entry point (specs/lower.md, "Import").

A package says what an operator of its own domain means by a record, an `assay.semantics.operator.Operator`: its type
rule, and its value in NumPy's functions, which gives its bound too. In its pyproject.toml:

    [project.entry-points."assay.operators"]
    swish = "my_package.for_assay:SWISH"

The record's field `onnx` is what models call it, `DOMAIN::NAME`; the entry stands for a record, or for several.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import TYPE_CHECKING, Any

from onnx import NodeProto, helper

from assay.semantics.errors import Invalid
from assay.semantics.operator import Operator

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

GROUP = "assay.operators"
"""The group of entry points by which a package registers operators."""


def registered(domain: str, name: str) -> Operator | None:
    """The record of an operator that is not the standard's; None where no package has one. Invalid (onnx.C15): a
    package registers what is no record, or two packages the same operator."""
    return _records().get(f"{domain}::{name}")


@cache
def _records() -> Mapping[str, Operator]:
    from importlib.metadata import entry_points  # it takes long to load

    found: dict[str, Operator] = {}
    for entry in entry_points(group=GROUP):
        for record in _loaded(entry):
            if record.onnx in found:
                raise Invalid(
                    f"the operator {record.onnx} is registered twice, once by {_said(entry)}", label="onnx.C15"
                )
            found[record.onnx] = record
    return found


def _loaded(entry: EntryPoint) -> list[Operator]:
    try:
        made = entry.load()
    except Exception as wrong:
        raise Invalid(f"{_said(entry)} does not load: {type(wrong).__name__}: {wrong}", label="onnx.C15") from wrong
    records = list(made) if isinstance(made, (list, tuple)) else [made]
    for record in records:
        if not isinstance(record, Operator) or record.onnx.count("::") != 1 or record.onnx.startswith("::"):
            raise Invalid(
                f"{_said(entry)} gives {record!r:.100}; an Operator whose `onnx` is DOMAIN::NAME is wanted",
                label="onnx.C15",
            )
    return records


def _said(entry: EntryPoint) -> str:
    package = entry.dist.name if entry.dist is not None else "?"
    return f"the operator {entry.name}, {entry.value} of {package},"


def node_values(node: NodeProto) -> dict[str, Any]:
    """The attributes of a node of a registered operator, as Python has them: bytes are texts, lists are tuples."""
    return {a.name: _plain(helper.get_attribute_value(a)) for a in node.attribute}


def _plain(value: Any) -> Any:
    return value.decode() if isinstance(value, bytes) else tuple(value) if isinstance(value, list) else value
