"""A model read from a path, bytes or a protobuf object, and its header checked (specs/lower.md, "Import")."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import onnx
import onnx.defs
from google.protobuf.message import DecodeError  # type: ignore[import-untyped]
from onnx import FunctionProto, GraphProto, ModelProto, NodeProto, OperatorSetIdProto, TensorProto

from assay.lower.frontends.onnx.schema import printable, text
from assay.lower.frontends.onnx.tensors import external_bytes
from assay.semantics.errors import Invalid, Span, Unsupported, placed
from assay.semantics.files import read_bytes
from assay.semantics.walk import Worklist


@dataclass(frozen=True)
class Source:
    """A model and where it comes from. `folder` is None where it was not read from a file."""

    model: ModelProto
    name: str
    folder: Path | None
    opsets: Mapping[str, int]
    functions: Mapping[tuple[str, str, str], FunctionProto]


def read_model(model: str | Path | bytes | ModelProto, name: str = "") -> Source:
    """The model with its header checked; Invalid (onnx.C1, onnx.C2) where it is none or is too new.

    `name` is what messages call it: its file name, or that of its graph, unless given.
    """
    folder: Path | None = None
    match model:
        case ModelProto():
            proto = model
            name = name or printable(text(model.graph.name, "the graph's name")) or "model"
        case bytes():
            name = name or "model"
            proto = _parse(model, name)
        case _:
            path = Path(model)
            name, folder = name or path.name, path.parent
            proto = _parse(_bytes(path), name)
    with placed(name):
        return Source(proto, name, folder, _header(proto), _functions(proto))


def load_model(path: str | Path) -> ModelProto:
    """The model in a file as one object, data that lies beside it included.

    Invalid (onnx.C1, onnx.C2, onnx.C10) where the file, or one that it names, cannot be had.
    """
    source = read_model(path)
    for tensor in tensors_of(source.model):
        with placed(Span(source.name, text(tensor.name, "an initializer's name"))):
            put_inside(tensor, source.folder)
    return source.model


def put_inside(tensor: TensorProto, folder: Path | None) -> None:
    """Put the data of a tensor into it, where that is in a file. Invalid (onnx.C10) where it cannot be had."""
    if tensor.data_location != TensorProto.EXTERNAL:
        return
    name = text(tensor.name, "an initializer's name")
    data = bytes(external_bytes(tensor, f"initializer {name!r}", folder))
    tensor.raw_data = data
    tensor.ClearField("data_location")
    tensor.ClearField("external_data")


def tensors_of(model: ModelProto) -> Iterator[TensorProto]:
    """Every tensor in a model: initializers, attributes, those of graphs within graphs and of functions."""
    work = Worklist[GraphProto | NodeProto]([model.graph, *(n for f in model.functions for n in f.node)])
    for item in work:
        sparse = item.sparse_initializer if isinstance(item, GraphProto) else []
        if isinstance(item, GraphProto):
            yield from item.initializer
            work.add(item.node)
        for attribute in item.attribute if isinstance(item, NodeProto) else ():
            yield from (attribute.t, *attribute.tensors)
            sparse = [*sparse, attribute.sparse_tensor, *attribute.sparse_tensors]
            work.add((attribute.g, *attribute.graphs))
        yield from (t for s in sparse for t in (s.values, s.indices))


def _bytes(path: Path) -> bytes:
    try:
        return read_bytes(path)
    except (OSError, ValueError) as wrong:
        why = wrong.strerror if isinstance(wrong, OSError) else str(wrong)
        raise Invalid(f"cannot read the model {str(path)!r}: {why}", label="onnx.C1") from None


def _parse(data: bytes, name: str) -> ModelProto:
    proto = ModelProto()
    if not data:
        raise Invalid("not an ONNX model: there are no bytes in it", where=name, label="onnx.C1")
    try:
        proto.ParseFromString(data)
    except DecodeError:
        raise Invalid(
            f"not an ONNX model, or a truncated one: its {len(data)} bytes are no protobuf message ModelProto",
            where=name,
            label="onnx.C1",
        ) from None
    return proto


def _header(proto: ModelProto) -> dict[str, int]:
    """The operator sets by domain."""
    if not proto.HasField("graph") or not proto.ir_version:
        missing = "graph" if not proto.HasField("graph") else "ir_version"
        raise Invalid(f"not an ONNX model, or a truncated one: it has no {missing}", label="onnx.C1")
    if proto.ir_version > onnx.IR_VERSION:
        raise Unsupported(
            f"the model has IR version {proto.ir_version}; the installed onnx package knows up to {onnx.IR_VERSION}",
            label="onnx.C2",
        )
    if proto.ir_version < 3 and not proto.opset_import:
        return {"": 1}
    return opsets_of(proto.opset_import)


def opsets_of(imports: Iterable[OperatorSetIdProto]) -> dict[str, int]:
    """The operator sets that a model or a function names, by domain; ai.onnx is the domain without a name."""
    found: dict[str, int] = {}
    for entry in imports:
        domain = domain_of(entry.domain)
        if found.setdefault(domain, entry.version) != entry.version:
            raise Invalid(
                f"two operator sets of domain {domain or 'ai.onnx'!r} are imported: {found[domain]} and"
                f" {entry.version}",
                label="onnx.C2",
            )
    newest = onnx.defs.onnx_opset_version()
    if not 1 <= found.get("", 1) <= newest:
        raise Unsupported(
            f"the model imports operator set {found['']} of ai.onnx; the installed onnx package knows 1 to {newest}",
            label="onnx.C2",
        )
    return found


def domain_of(name: str) -> str:
    """The domain of an operator, where "" and "ai.onnx" are one."""
    name = text(name, "a domain")
    return "" if name == "ai.onnx" else name


def _functions(proto: ModelProto) -> dict[tuple[str, str, str], FunctionProto]:
    """The functions that the model defines, by domain, name and overload."""
    found: dict[tuple[str, str, str], FunctionProto] = {}
    for f in proto.functions:
        key = (domain_of(f.domain), text(f.name, "a function's name"), text(f.overload, "an overload"))
        if key in found:
            raise Invalid(f"function {key[1]!r} of domain {key[0]!r} is defined twice", label="onnx.C4")
        found[key] = f
    return found
