"""Sizes as tensors: a symbol is measured where it is bound (specs/lower.md, "Export")."""

from __future__ import annotations

from collections.abc import Sequence

from assay.lower.onnx_export.writer import GraphBlock, Value, Writer
from assay.semantics.dtypes import BOOL, INT64
from assay.semantics.errors import Unsupported
from assay.semantics.scalar import Apply, Const, Dim, Expr, Var, simplify
from assay.semantics.types import ShapeType, TensorType, Type
from assay.semantics.walk import fold

_PLAIN = {"add": "Add", "sub": "Sub", "mul": "Mul", "min": "Min", "max": "Max", "truncdiv": "Div"}
_COMPARED = {"eq": "Equal", "lt": "Less", "le": "LessOrEqual", "gt": "Greater", "ge": "GreaterOrEqual"}


class Sizes:
    """The symbols of one activation of a function, and where each can be measured; those of the function around it."""

    def __init__(self, outer: Sizes | None = None) -> None:
        self._outer = outer
        self._from: dict[Var, tuple[Value, int, bool, GraphBlock]] = {}
        self._known: dict[Var, Value] = {}

    def bind(self, of: Type, value: Value, block: GraphBlock) -> None:
        """The symbols that stand alone in a type, which a value has here; the first place counts."""
        if isinstance(of, (TensorType, ShapeType)):
            dims = of.shape if isinstance(of, TensorType) else of.dims or ()
            for axis, d in enumerate(dims):
                if isinstance(d, Var) and d not in self._from:
                    self._from[d] = (value, axis, isinstance(of, ShapeType), block)

    def vector(self, writer: Writer, dims: Sequence[Dim]) -> Value:
        """A vector of int64 that holds the dims."""
        numbers = [d for d in map(simplify, dims) if isinstance(d, int)]
        if len(numbers) == len(dims):
            return writer.ints(numbers)
        parts = [self.one(writer, d) for d in dims]
        return parts[0] if len(parts) == 1 else writer.node("Concat", parts, [INT64], {"axis": 0})[0]

    def one(self, writer: Writer, d: Dim) -> Value:
        """A vector of one, the dim."""
        d = simplify(d)
        if isinstance(d, int):
            return writer.ints([d])
        return fold(d, lambda node, parts: self._node(writer, node, parts))

    def _node(self, writer: Writer, node: Expr, parts: Sequence[Value]) -> Value:
        match node:
            case Const():
                return writer.ints([int(node.value)])
            case Var():
                return self._symbol(writer, node)
            case Apply(op="neg"):
                return writer.node("Neg", parts, [INT64])[0]
            case Apply(op="floordiv"):
                rest = writer.node("Mod", parts, [INT64])[0]
                return writer.node("Div", [writer.node("Sub", [parts[0], rest], [INT64])[0], parts[1]], [INT64])[0]
            case Apply(op="floormod"):
                return writer.node("Mod", parts, [INT64])[0]
            case Apply(op="select"):
                return writer.node("Where", parts, [INT64])[0]
            case Apply(op=op) if op in _PLAIN:
                return writer.node(_PLAIN[op], parts, [INT64])[0]
            case Apply(op=op) if op in _COMPARED:
                return writer.node(_COMPARED[op], parts, [BOOL])[0]
            case _:
                raise Unsupported(
                    f"the size {node} is computed by what the export does not know", label="onnx_export.C4"
                )

    def _symbol(self, writer: Writer, symbol: Var) -> Value:
        at: Sizes | None = self
        while at is not None and symbol not in at._from:
            at = at._outer
        if at is None:
            raise Unsupported(
                f"the size {symbol.name} stands alone in no type where it could be measured", label="onnx_export.C4"
            )
        if symbol in at._known:
            return at._known[symbol]
        value, axis, is_shape, block = at._from[symbol]
        if is_shape:
            place = writer.ints([axis])
            made = writer.node("Gather", [value, place], [INT64], {"axis": 0}, block)[0]
        else:
            made = writer.node("Shape", [value], [INT64], {"start": axis, "end": axis + 1}, block)[0]
        at._known[symbol] = made
        return made
