"""What ONNX itself says of an operator: arity, attributes, element types, by version (specs/lower.md, "Import").

The facts come from the schemas in the onnx package; the checks and the messages are ours, because those of the
package's checker are long and name no node. Shapes are not looked at here: our own type rules decide on them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from typing import Any

import onnx.defs
from onnx import AttributeProto, NodeProto

from assay.lower.frontends.onnx.contrib import contrib_schemas
from assay.lower.frontends.onnx.signatures import Formal, Schema
from assay.lower.frontends.onnx.tensors import ONNX_NAMES
from assay.semantics.dtypes import DType
from assay.semantics.errors import Invalid, Unsupported

_KINDS = AttributeProto.AttributeType
_FIELDS = {
    "FLOAT": "f",
    "INT": "i",
    "STRING": "s",
    "TENSOR": "t",
    "GRAPH": "g",
    "TYPE_PROTO": "tp",
    "SPARSE_TENSOR": "sparse_tensor",
    "FLOATS": "floats",
    "INTS": "ints",
    "STRINGS": "strings",
}
_IGNORED = "consumed_inputs"
"""Version 1 told Caffe2's memory reuse with this attribute; it has no meaning."""


@lru_cache(maxsize=4096)
def schema_of(name: str, domain: str, opset: int) -> Schema:
    """The version of an operator that holds in an operator set; Invalid (onnx.C5) where there is none."""
    title = domain or "ai.onnx"
    if not onnx.defs.has(name, domain):
        if (added := contrib_schemas().get((domain, name))) is not None:
            return added
        where = f"domain {printable(title)}, operator set {opset}"
        raise Invalid(f"unknown operator {printable(name)} in {where}", label="onnx.C5")
    try:
        found: Any = onnx.defs.get_schema(name, opset, domain)  # its types leave members out
    except onnx.defs.SchemaError:
        history = onnx.defs.get_all_schemas_with_history()
        first = min(s.since_version for s in history if s.name == name and s.domain == domain)
        raise Invalid(
            f"unknown operator {name} in domain {title}, operator set {opset}: it is there from set {first} on",
            label="onnx.C5",
        ) from None
    if found.deprecated and not (found.has_function or found.has_context_dependent_function):
        raise Invalid(
            f"operator {name} was removed from domain {title} with operator set {found.since_version};"
            f" the model asks for set {opset}",
            label="onnx.C5",
        )
    option = onnx.defs.OpSchema.FormalParameterOption
    variables = {c.type_param_str for c in found.type_constraints}
    operands = tuple(
        Formal(
            p.name,
            p.option == option.Optional,
            p.type_str if p.type_str in variables and p.is_homogeneous else "",
            frozenset(p.types),
        )
        for p in found.inputs
    )
    return Schema(
        name,
        domain,
        found.since_version,
        operands,
        found.min_input,
        found.max_input,
        found.max_output,
        {k: str(a.type).rpartition(".")[2] for k, a in found.attributes.items()},
        frozenset(k for k, a in found.attributes.items() if a.required),
        {k: decode(a.default_value) for k, a in found.attributes.items() if a.default_value.type in _DECODED},
        tuple(a.default_value for a in found.attributes.values() if a.default_value.type in _DECODED),
        found.has_function or found.has_context_dependent_function,
    )


# --- attributes ---------------------------------------------------------------------------------------------------

_DECODED = {_KINDS.Value(k) for k in _FIELDS}


def text(value: str | bytes, what: str) -> str:
    """A string of the model; Invalid (onnx.C1) where its bytes are not UTF-8, which protobuf hands out unread."""
    if isinstance(value, str):
        return value
    try:
        return value.decode()
    except UnicodeDecodeError:
        raise Invalid(f"{what} is not UTF-8: {value[:40]!r}", label="onnx.C1") from None


def printable(name: str) -> str:
    """A name as it can stand in a line of a message."""
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in name[:200])


def decode(attribute: AttributeProto) -> Any:
    """The value of an attribute: a number, a string, a tuple of these, or a TensorProto."""
    kind = kind_of(attribute)
    value = getattr(attribute, _FIELDS[kind])
    what = f"attribute {attribute.name!r}"
    match kind:
        case "STRING":
            return text(value, what)
        case "STRINGS":
            return tuple(text(v, what) for v in value)
        case "FLOATS" | "INTS":
            return tuple(value)
        case _:
            return value


def kind_of(attribute: AttributeProto) -> str:
    """The attribute's kind; told by the field that is filled where the model is too old to say."""
    if attribute.type != AttributeProto.UNDEFINED:
        known = attribute.type in _KINDS.values()
        return _KINDS.Name(attribute.type) if known else f"number {attribute.type}"
    filled = {field.name for field, _ in attribute.ListFields()}
    return next((kind for kind, field in _FIELDS.items() if field in filled), "INTS")


def given_attributes(
    node: NodeProto, bound: Mapping[str, AttributeProto] | None
) -> Iterator[tuple[str, AttributeProto]]:
    """The attributes that a node gives, by name. One that refers to an attribute of the function around it is that; it
    is left out where the call of the function leaves that out. `bound` has those, None where there is no function:
    Invalid (onnx.C6) then."""
    for given in node.attribute:
        name = text(given.name, "an attribute's name")
        if not given.ref_attr_name:
            yield name, given
        elif bound is None:
            raise Invalid(f"attribute {name!r} refers to a function's, but there is no function", label="onnx.C6")
        elif given.ref_attr_name in bound:
            yield name, bound[given.ref_attr_name]


def attributes_of(node: NodeProto, schema: Schema, bound: Mapping[str, AttributeProto] | None) -> dict[str, Any]:
    """The node's attributes with the schema's defaults filled in; absent ones without default are None.

    `bound` has the attributes of the function around the node, None where there is no function. Invalid (onnx.C6) for
    an unknown, a missing, a doubled or a mistyped one.
    """
    values: dict[str, Any] = {name: schema.defaults.get(name) for name in schema.kinds}
    seen: set[str] = set()
    for name, attribute in given_attributes(node, bound):
        if name not in schema.kinds:
            known = ", ".join(schema.kinds) or "none"
            raise Invalid(f"{schema} has no attribute {name!r}; it has {known}", label="onnx.C6")
        if name in seen:
            raise Invalid(f"{schema}: attribute {name!r} is given twice", label="onnx.C6")
        seen.add(name)
        kind = kind_of(attribute)
        if kind != schema.kinds[name]:
            raise Invalid(
                f"{schema}: attribute {name!r} is of kind {kind}, {schema.kinds[name]} is wanted", label="onnx.C6"
            )
        if kind not in _FIELDS:
            raise Unsupported(f"{schema}: attribute {name!r} of kind {kind}", label="onnx.C6")
        values[name] = decode(attribute)
    missing = sorted(schema.required - seen - {_IGNORED})
    if missing:
        raise Invalid(f"{schema} needs the attribute {missing[0]!r}", label="onnx.C6")
    return values


# --- operands -----------------------------------------------------------------------------------------------------


def check_operands(schema: Schema, dtypes: Sequence[DType | str | None], outputs: int) -> None:
    """Invalid (onnx.C7) unless the operands are as many, and of such element types, as the schema asks.

    `dtypes` has None for an operand that is left out, and ONNX's name for the type of one that is no tensor.
    """
    given = len(dtypes)
    while given and dtypes[given - 1] is None:
        given -= 1
    if given > schema.most:
        raise Invalid(f"{schema} takes at most {schema.most} operands, {given} given", label="onnx.C7")
    for i in range(max(given, schema.least)):
        formal = schema.operand(i)
        if (i >= given or dtypes[i] is None) and not (formal.optional and i < len(schema.operands)):
            raise Invalid(f"{schema}: operand {formal.name} (number {i}) is missing", label="onnx.C7")
    if outputs > schema.outputs:
        raise Invalid(f"{schema} has at most {schema.outputs} outputs, {outputs} named", label="onnx.C7")
    bound: dict[str, tuple[DType | str, str]] = {}
    for i, of in enumerate(dtypes[:given]):
        if of is None:
            continue
        formal = schema.operand(i)
        name = of if isinstance(of, str) else f"tensor({ONNX_NAMES.get(of.name)})"
        if name not in formal.allowed:
            names = ", ".join(sorted(t[7:-1] for t in formal.allowed if t.startswith("tensor(")))
            raise Invalid(f"{schema}: operand {formal.name} is {of}, allowed are {names}", label="onnx.C7")
        if formal.variable:
            first, where = bound.setdefault(formal.variable, (of, formal.name))
            if first != of:
                raise Invalid(
                    f"{schema}: operands {where} and {formal.name} are {first} and {of}, one type is wanted",
                    label="onnx.C7",
                )
