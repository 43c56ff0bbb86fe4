"""An operator of the standard as a part of another one (specs/lower.md, "Import")."""

from __future__ import annotations

from typing import Any

from assay.lower.frontends.onnx.node import Node, Rule
from assay.lower.frontends.onnx.schema import schema_of
from assay.semantics.graph import Expr


def standard(node: Node, rule: Rule, name: str, opset: int, *inputs: Expr | None, **attrs: Any) -> Expr:
    """The first output of an operator of ai.onnx by its rule, with these operands and attributes; attributes of the
    node that it has too are taken from it."""
    schema = schema_of(name, "", opset)
    own = {k: node.attrs[k] for k in schema.kinds if node.attrs.get(k) is not None}
    values = {**{k: schema.defaults.get(k) for k in schema.kinds}, **own, **attrs}
    made = rule(node.with_(schema=schema, inputs=inputs, attrs=values, outputs=node.outputs[:1]))
    first = made if isinstance(made, Expr) else next(iter(made))  # type: ignore[arg-type]
    assert isinstance(first, Expr)
    return first
