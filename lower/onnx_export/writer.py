"""Nodes, names and constants of the model that is being written (specs/lower.md, "Export")."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import Any, BinaryIO

import numpy as np
import onnx
from onnx import NodeProto, TensorProto, helper, numpy_helper

from assay.lower.export_walk import ExportedValue
from assay.lower.frontends.onnx.data_files import ALIGNMENT
from assay.lower.frontends.onnx.tensors import ONNX_NAMES, number_of
from assay.semantics.bits import raw
from assay.semantics.dtypes import INT64, DType, dtype
from assay.semantics.errors import Unsupported
from assay.semantics.names import unused
from assay.semantics.walk import Worklist

Array = np.ndarray[Any, Any]

OPSET = 26
"""The newest operator set that ONNX Runtime takes (1.31 refuses 27)."""
IR_VERSION = 13
MOST_BYTES = 2**31 - 1
"""What a protocol buffer may be large."""
LARGE = 1 << 16
"""Bytes from which on a constant is written beside the model, where there is a file for it."""


@dataclass(frozen=True, eq=False)
class Value(ExportedValue):
    """A tensor of the model. A shape is a vector of int64."""

    name: str
    dtype: DType


@dataclass(frozen=True)
class DataBeside:
    """The file for large constants beside a model, which the model calls `name`."""

    file: BinaryIO
    name: str

    def tensor(self, array: Array, name: str) -> TensorProto:
        """A tensor whose elements are in the file from now on."""
        self.file.write(bytes(-self.file.tell() % ALIGNMENT))
        little = array.astype(array.dtype.newbyteorder("<"), copy=False) if array.dtype.kind in "iuf" else array
        data = raw(little)
        place = {"location": self.name, "offset": self.file.tell(), "length": len(data)}
        self.file.write(data)
        number = element_type_number(dtype(array.dtype))
        tensor = TensorProto(name=name, dims=array.shape, data_type=number, data_location=TensorProto.EXTERNAL)
        for key, value in place.items():
            tensor.external_data.add(key=key, value=str(value))
        return tensor


@dataclass(eq=False)
class GraphBlock:
    """The graph, or a branch inside of another block."""

    nodes: list[NodeProto] = field(default_factory=list)
    own: set[str] = field(default_factory=set)
    """What its nodes give."""


class Writer:
    """What is written so far. Names are unique in the whole model: a branch sees all that is around it."""

    def __init__(self, reserved: Sequence[str], beside: DataBeside | None = None) -> None:
        self.beside = beside
        self.names = set(reserved)
        self.kept: set[str] = set()
        """Names that are kept for what the program calls so."""
        self.graphs = {"main"}
        self.blocks = [GraphBlock()]
        self.initializers: list[TensorProto] = []
        self._known: dict[tuple[Any, ...], Value] = {}
        self._stored: set[str] = set()
        self._bytes = 0

    @property
    def block(self) -> GraphBlock:
        """The innermost graph that is being written."""
        return self.blocks[-1]

    def name(self, wanted: str, kept: bool = False) -> str:
        """A name that nothing has yet: the wanted one, or that with a number. `kept` is one of those that are kept."""
        wanted = wanted or "t"
        if kept:
            self.kept.discard(wanted)
        name = unused(wanted, self.names, self.kept)
        self.names.add(name)
        return name

    def graph_name(self, wanted: str) -> str:
        """A name that no other graph of the model has: ONNX has a namespace for them, and some tools know a graph by
        its name alone."""
        name = unused(wanted, self.graphs)
        self.graphs.add(name)
        return name

    def node(
        self,
        op: str,
        inputs: Sequence[Value | None],
        dtypes: Sequence[DType],
        attrs: Mapping[str, Any] | None = None,
        block: GraphBlock | None = None,
    ) -> list[Value]:
        """A node of that operator; its results. Unsupported (onnx_export.C2) where ONNX's operator does not take these
        element types or give those."""
        for index, value in enumerate(inputs):
            if value is not None and not accepts(op, index, value.dtype):
                raise Unsupported(f"ONNX's {op} takes no {value.dtype}", label="onnx_export.C2")
        for of in dtypes:
            element_type_number(of)
        into = block or self.block
        results = [Value(self.name(op.lower()), of) for of in dtypes]
        names = [v.name for v in results]
        into.nodes.append(helper.make_node(op, ["" if v is None else v.name for v in inputs], names, **(attrs or {})))
        into.own.update(names)
        return results

    def rename(self, values: Sequence[Value], wanted: Sequence[str], since: int) -> list[Value]:
        """The results of nodes of this block since a place in it, under other names."""
        new = dict(zip((v.name for v in values), wanted, strict=True))
        work = Worklist(self.block.nodes[since:])
        for node in work:
            work.add(inner for a in node.attribute for inner in a.g.node)  # a branch sees what is around it
            for names in (node.input, node.output):
                for i, name in enumerate(names):
                    if name in new:
                        names[i] = new[name]
        self.block.own -= set(new)
        self.names -= set(new)
        self.block.own |= set(wanted)
        return [Value(new[v.name], v.dtype) for v in values]

    def constant(self, data: Any, of: DType | None = None, name: str = "") -> Value:
        """A tensor of the model; small ones that are equal are one, but for those that have a name."""
        array = np.asarray(data) if of is None else np.asarray(data).astype(of.numpy)
        of = dtype(array.dtype)
        element_type_number(of)
        key = (of, array.shape, array.tobytes()) if array.size <= 16 and not name else None
        if key is not None and key in self._known:
            return self._known[key]
        value = Value(self.name(name or "c"), of)
        self.initializers.append(self._tensor(array, value.name))
        self._stored.add(value.name)
        if key is not None:
            self._known[key] = value
        return value

    def _tensor(self, array: Array, name: str) -> TensorProto:
        if self.beside is not None and array.nbytes >= LARGE and dtype(array.dtype).bits >= 8:
            return self.beside.tensor(array, name)
        self._bytes += array.nbytes
        if self._bytes > MOST_BYTES:
            raise Unsupported(
                f"constants of more than {MOST_BYTES} bytes do not fit into one model", label="onnx_export.C6"
            )
        return numpy_helper.from_array(np.ascontiguousarray(array).reshape(array.shape), name)

    def ints(self, numbers: Sequence[int]) -> Value:
        """A vector of int64."""
        return self.constant(np.asarray(numbers, np.int64).reshape(len(numbers)), INT64)

    def count(self) -> int:
        """How many nodes have been written in all open graphs."""
        return sum(len(b.nodes) for b in self.blocks)


def element_type_number(of: DType) -> int:
    """The number of an element type in ONNX. Unsupported (onnx_export.C3) where it has none."""
    try:
        return number_of(of)
    except KeyError:
        raise Unsupported(f"ONNX has no element type {of}", label="onnx_export.C3") from None


@cache
def _allowed(op: str) -> tuple[tuple[frozenset[str], ...], bool]:
    """For each operand of an operator the types that it may have, and whether the last may be repeated."""
    schema = onnx.defs.get_schema(op, OPSET, "")
    variadic = bool(schema.inputs) and schema.inputs[-1].option == onnx.defs.OpSchema.FormalParameterOption.Variadic
    return tuple(frozenset(i.types) for i in schema.inputs), variadic


def accepts(op: str, index: int, of: DType) -> bool:
    """Whether an operator takes a tensor of that element type as its operand of that place."""
    allowed, variadic = _allowed(op)
    place = min(index, len(allowed) - 1) if variadic else index
    return of.name in ONNX_NAMES and f"tensor({ONNX_NAMES[of.name]})" in allowed[place]
