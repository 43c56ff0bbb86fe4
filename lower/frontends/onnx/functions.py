"""Functions: those that a model defines, and the bodies that ONNX gives for operators (specs/lower.md, "Import").

An operator without a rule of its own is translated by its body, where ONNX has one: HardSwish, Softplus, Selu, ...
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from typing import Any

import onnx.defs
from onnx import AttributeProto, FunctionProto, NodeProto, TypeProto, helper

from assay.lower.frontends.onnx.containers import any_dtype, element_dtype
from assay.lower.frontends.onnx.schema import given_attributes
from assay.lower.frontends.onnx.signatures import Schema
from assay.lower.frontends.onnx.tensors import number_of
from assay.semantics.errors import Invalid, Unsupported
from assay.semantics.graph import Expr
from assay.semantics.types import DataType, TensorType, Type
from assay.semantics.walk import Worklist, needed_first, reached


def body_of(schema: Schema, node: NodeProto, operands: Sequence[Expr | None]) -> FunctionProto:
    """This version of an operator in terms of others, as ONNX defines it; the schema says that it does.

    Some bodies depend on the call: which operands it has, their element types, its attributes. Unsupported (onnx.C14)
    where there is none for this call.
    """
    found: Any = onnx.defs.get_schema(schema.name, schema.version, schema.domain)  # its types leave these members out
    # Each body means the same, and says itself of which operator set its nodes are.
    if found.has_function:
        return _parsed(found.get_function_with_opset_version(max(found.function_opset_versions)), schema.name)
    types = [TypeProto().SerializeToString() if x is None else _type_proto(x.type) for x in operands]
    opset = max(found.context_dependent_function_opset_versions)
    made = found.get_context_dependent_function_with_opset_version(opset, node.SerializeToString(), types)
    body = _parsed(made, schema.name)
    if not body.node:
        raise Unsupported(f"{schema}: ONNX defines it by others, but not for these operands", label="onnx.C14")
    return body


@lru_cache(maxsize=256)
def _parsed(data: bytes, name: str) -> FunctionProto:
    body = FunctionProto()
    body.ParseFromString(data)
    if name == "AffineGrid":
        _squeeze_rows(body.node)
    if name == "Celu":
        _scalar_constants(body.node)
    return body


def _scalar_constants(nodes: Iterable[NodeProto]) -> None:
    """The body of Celu has alpha in a tensor of shape (1), by which a scalar gets an axis. Here it is a scalar. In all
    other bodies constants of that shape are indices, or meet tensors that have axes."""
    for n in nodes:
        for a in n.attribute:
            if n.op_type == "Constant" and a.t.dims == [1]:
                del a.t.dims[:]


def _squeeze_rows(nodes: Iterable[NodeProto]) -> None:
    """The body of AffineGrid takes rows of matrices [N, 1, 3] and drops axis 1 by a Squeeze without axes, which drops
    the first axis too where N is 1. Here it names the axis."""
    for n in nodes:
        if n.op_type == "Squeeze" and len(n.input) == 1:
            n.input.append("one_1d")
        for a in n.attribute:
            _squeeze_rows(a.g.node)


def _type_proto(of: Type) -> bytes:
    wraps: list[bool] = []
    while isinstance(of, DataType) and of.args:
        wraps.append(element_dtype(of) is not None)
        of = of.args[0]
    inner = of.dtype if isinstance(of, TensorType) else any_dtype(of)
    assert inner is not None  # by the schema
    shape = [d if isinstance(d, int) else None for d in of.shape] if isinstance(of, TensorType) else None
    made = helper.make_tensor_type_proto(number_of(inner), shape)
    for is_sequence in reversed(wraps):
        made = helper.make_sequence_type_proto(made) if is_sequence else helper.make_optional_type_proto(made)
    data: bytes = made.SerializeToString()
    return data


def with_references(node: NodeProto, attributes: Iterable[AttributeProto]) -> NodeProto:
    """The node with these attributes, where its own may refer to a function's."""
    copy = NodeProto()
    copy.CopyFrom(node)
    del copy.attribute[:]
    copy.attribute.extend(attributes)
    return copy


def bound_attributes(
    node: NodeProto,
    around: Mapping[str, AttributeProto] | None,
    names: Iterable[str],
    defaults: Iterable[AttributeProto],
) -> dict[str, AttributeProto]:
    """The attributes of a function for one call: those that the call gives, then the defaults.

    Invalid (onnx.C6) for one that the function does not have.
    """
    known = {*names, *(d.name for d in defaults)}
    found = {d.name: d for d in defaults}
    for name, attribute in given_attributes(node, around):
        if name not in known:
            raise Invalid(f"function {node.op_type!r} has no attribute {name!r}", label="onnx.C6")
        found[name] = AttributeProto()
        found[name].CopyFrom(attribute)
        found[name].name = name
    return found


Functions = Mapping[tuple[str, str, str], FunctionProto]


def nodes_made(nodes: Iterable[NodeProto], functions: Functions) -> int:
    """How many nodes the calls among `nodes` of a model's own functions make, those inside of one another among them.
    Each function is counted once, however often it is called. A call of what is being counted, which the import
    refuses, counts nothing."""
    sizes: dict[tuple[str, str, str], int] = {}
    called = {key: _calls(f.node, functions) for key, f in functions.items()}
    first = _calls(nodes, functions)
    for key in needed_first(first, called.__getitem__):
        sizes[key] = len(functions[key].node) + sum(sizes.get(k, 0) for k in called[key])
    return sum(sizes[k] for k in first)


def _calls(nodes: Iterable[NodeProto], functions: Functions) -> list[tuple[str, str, str]]:
    """The functions that nodes call, and nodes of the graphs inside of them, each as often as it is called."""
    found: list[tuple[str, str, str]] = []
    work = Worklist(nodes if functions else [])
    for node in work:
        key = ("" if node.domain == "ai.onnx" else node.domain, node.op_type, node.overload)
        if key in functions:
            found.append(key)
        work.add(n for a in node.attribute for g in (a.g, *a.graphs) for n in g.node)
    return found


def explain_missing(name: str, nodes: Sequence[NodeProto]) -> str:
    """Why a name has no value: nothing gives it, or a later node does, perhaps in a cycle."""
    giver = {o: n for n in reversed(nodes) for o in n.output if o}
    if name not in giver:
        return f"nothing gives {name!r}: no input, initializer or node has that name"

    def needs(at: str) -> Sequence[str]:
        return giver[at].input if at in giver else ()

    if name in reached(needs(name), needs):
        return f"{name!r} depends on itself: the graph has a cycle"
    return f"{name!r} is used before a later node gives it; nodes must stand in order"
