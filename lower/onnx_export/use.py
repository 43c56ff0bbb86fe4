"""One use of an operator, as the rules of export see it (specs/lower.md, "Export")."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np

from assay.lower.frontends.onnx.tensors import ONNX_NAMES
from assay.lower.onnx_export.dims import Sizes
from assay.lower.onnx_export.writer import Value, Writer, accepts, element_type_number
from assay.semantics.dtypes import FLOAT32, INT32, UINT8, DType
from assay.semantics.errors import Unsupported
from assay.semantics.scalar import Dim
from assay.semantics.types import TensorType, Type


@dataclass(frozen=True, eq=False)
class ExportedCall:
    """An operator with its attributes, the tensors and types of its operands, and the type of its result."""

    writer: Writer
    sizes: Sizes
    name: str
    attrs: Mapping[str, Any]
    args: tuple[Value, ...]
    types: tuple[TensorType, ...]
    result: Type

    # --- operands and results

    @property
    def type(self) -> TensorType:
        """The result's type, of an operator that gives one tensor."""
        assert isinstance(self.result, TensorType)
        return self.result

    @property
    def dtype(self) -> DType:
        """The element type of the first operand."""
        return self.types[0].dtype

    @property
    def rank(self) -> int:
        """The rank of the first operand."""
        return self.types[0].ndim

    def axis(self, name: str = "axis") -> int:
        """An attribute that is an axis of the first operand, counted from the front."""
        given: int = self.attrs[name]
        return given % self.rank if self.rank else 0

    # --- nodes

    def op(self, op: str, *inputs: Value | None, of: DType | None = None, **attrs: Any) -> Value:
        """One node; its result has the element type of the first operand if no other is given."""
        if of is None:
            assert inputs[0] is not None
            of = inputs[0].dtype
        return self.writer.node(op, inputs, [of], attrs)[0]

    def ops(self, op: str, *inputs: Value | None, of: Sequence[DType], **attrs: Any) -> list[Value]:
        """One node with several results."""
        return self.writer.node(op, inputs, of, attrs)

    def cast(self, x: Value, to: DType) -> Value:
        """Cast a value, unless it has that dtype."""
        return x if x.dtype is to else self.op("Cast", x, of=to, to=element_type_number(to))

    def carried(self, op: str, *inputs: Value, of: DType | None = None, wide: DType = INT32, **attrs: Any) -> Value:
        """A node whose operands are cast to a wider integer where ONNX's operator does not take their own type: sums,
        products, bits and order are those of the narrow type when the result is cast back."""
        narrow = inputs[0].dtype
        if accepts(op, 0, narrow) or narrow.is_float or narrow.bits >= wide.bits:
            return self.op(op, *inputs, of=of, **attrs)
        cast = [self.cast(x, wide) if x.dtype is narrow else x for x in inputs]
        made = self.op(op, *cast, of=of or wide, **attrs)
        return made if of is not None else self.cast(made, narrow)

    def carrier(self, op: str, x: Value) -> tuple[Value, Callable[[Value], Value]]:
        """The elements of `x` in a type that ONNX's operator moves, and the way back: narrow types as a byte."""
        of = x.dtype
        if accepts(op, 0, of) or of.name not in ONNX_NAMES:
            return x, lambda v: v
        if of.is_float and of.bits == 8:
            bits = self.op("BitCast", x, of=UINT8, to=element_type_number(UINT8))
            return bits, lambda v: self.op("BitCast", v, of=of, to=element_type_number(of))
        wide = FLOAT32 if of.is_float else INT32
        return self.cast(x, wide), lambda v: self.cast(v, of)

    def moved(self, op: str, x: Value, *more: Value, **attrs: Any) -> Value:
        """A node that only moves the elements of its first operand."""
        carried, back = self.carrier(op, x)
        return back(self.op(op, carried, *more, **attrs))

    # --- constants and sizes

    def number(self, value: Any, of: DType | None = None) -> Value:
        """A scalar, rounded to the element type (by default the first operand's)."""
        return self.writer.constant(np.asarray(value), of or self.dtype)

    def ints(self, numbers: Sequence[int]) -> Value:
        """A constant int64 vector."""
        return self.writer.ints(numbers)

    def dims(self, shape: Sequence[Dim]) -> Value:
        """A vector of int64 with the sizes."""
        return self.sizes.vector(self.writer, shape)

    def shaped(self, x: Value, shape: Sequence[Dim]) -> Value:
        """`x` in another shape."""
        return self.op("Reshape", x, self.dims(shape), allowzero=1)

    def is_single(self, value: float) -> bool:
        """Whether a number that passes through a float32 attribute of ONNX is the same in the element type."""
        to = self.dtype.numpy
        with np.errstate(over="ignore"):
            return bool(np.asarray(np.float32(value)).astype(to) == np.asarray(float(value)).astype(to))

    def unsupported(self, message: str) -> Unsupported:
        """The failure (`onnx_export.C2`) for a use of this operator that ONNX cannot say."""
        return Unsupported(f"{self.name}: {message}", label="onnx_export.C2")


Results: TypeAlias = Value | Sequence[Value]
Rule: TypeAlias = Callable[[ExportedCall], Results]
