"""Operations, names, types and constants of the StableHLO text that is written (specs/lower.md, "Export").

Everything stands in MLIR's generic form, which every reader of the language takes.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from math import prod
from typing import Any

import numpy as np

from assay.lower.export_walk import ExportedValue
from assay.semantics.budget import claim
from assay.semantics.dtypes import BOOL, DType
from assay.semantics.errors import Unsupported
from assay.semantics.scalar import Dim, provably_equal

Shape = tuple[Dim, ...]

MOST_OPERATIONS = 1_000_000
"""Functions that call each other can make more operations of a few than fit anywhere."""
MOST_BYTES = 2**31 - 1
"""Bytes of constants: a text holds two digits for each."""


@dataclass(frozen=True, eq=False)
class HloValue(ExportedValue):
    """A tensor of the text: its name, such as `%3`, its sizes and its element type."""

    name: str
    shape: Shape
    dtype: DType

    @property
    def rank(self) -> int:
        """How many axes it has."""
        return len(self.shape)

    @property
    def type(self) -> str:
        """Its type as the text says it."""
        return tensor_text(self.shape, self.dtype)


def element_text(of: DType) -> str:
    """The name of an element type in MLIR."""
    if of is BOOL:
        return "i1"
    if of.is_integer:
        return f"{'ui' if of.kind == 'uint' else 'i'}{of.bits}"
    if of.name.startswith("float8_"):
        return "f8" + of.name.removeprefix("float8_").upper()
    return {"bfloat16": "bf16", "float4_e2m1fn": "f4E2M1FN"}.get(of.name, f"f{of.bits}")


def tensor_text(shape: Sequence[Dim], of: DType) -> str:
    """A tensor type, such as `tensor<2x3xf32>`; a size that is no number is `?`."""
    return f"tensor<{''.join(f'{d}x' if isinstance(d, int) else '?x' for d in shape)}{element_text(of)}>"


def numbers_of(shape: Sequence[Dim]) -> tuple[int, ...] | None:
    """The sizes of a shape, if all are numbers."""
    numbers = tuple(d for d in shape if isinstance(d, int))
    return numbers if len(numbers) == len(shape) else None


def same_sizes(one: Sequence[Dim], two: Sequence[Dim]) -> bool:
    """Whether two shapes are shown to be the same."""
    return len(one) == len(two) and all(map(provably_equal, one, two))


def compare_text(direction: str) -> str:
    """The attribute of a comparison: EQ, NE, LT, LE, GT or GE."""
    return f"#stablehlo<comparison_direction {direction}>"


def ints_text(numbers: Sequence[int]) -> str:
    """An attribute that lists whole numbers."""
    return f"array<i64: {', '.join(map(str, numbers))}>" if numbers else "array<i64>"


def pairs_text(pairs: Sequence[tuple[int, int]]) -> str:
    """An attribute that has two numbers for each axis, such as padding."""
    rows = ", ".join(f"[{a}, {b}]" for a, b in pairs)
    return f"dense<{f'[{rows}]' if pairs else ''}> : tensor<{len(pairs)}x2xi64>"


@dataclass(eq=False)
class HloBlock:
    """A function or region that is being written: its lines, and the constants that it has already."""

    lines: list[str] = field(default_factory=list)
    known: dict[tuple[Any, ...], HloValue] = field(default_factory=dict)


class HloWriter:
    """What is written so far. Values have numbers; a region sees those of what is around it."""

    def __init__(self) -> None:
        self.blocks = [HloBlock()]
        self.functions: list[str] = []
        self.raised: dict[str, tuple[HloValue, Sequence[int]]] = {}
        """Tensors that only have axes of size 1 more than others: by their names these, and where their axes are."""
        self._numbers = 0
        self._bytes = 0

    @property
    def block(self) -> HloBlock:
        """The innermost region that is being written."""
        return self.blocks[-1]

    @contextmanager
    def within(self, block: HloBlock) -> Iterator[None]:
        """Write into one of the regions that are being written, before what is inside of it."""
        inner, self.blocks = self.blocks, self.blocks[: self.blocks.index(block) + 1]
        try:
            yield
        finally:
            self.blocks = inner

    def value(self, shape: Shape, of: DType) -> HloValue:
        """A value with a new name."""
        self._numbers += 1
        if self._numbers > MOST_OPERATIONS:
            raise Unsupported(
                f"the text would have more than {MOST_OPERATIONS} operations", label="stablehlo_export.C5"
            )
        return HloValue(f"%{self._numbers - 1}", shape, of)

    def op(
        self,
        name: str,
        args: Sequence[HloValue],
        types: Sequence[tuple[Shape, DType]],
        attrs: Mapping[str, str] | None = None,
        regions: Sequence[str] = (),
        notes: str = "",
    ) -> list[HloValue]:
        """One operation of that name; its results, of these types. Attributes and regions are texts, as are attributes
        that StableHLO does not know."""
        results = [self.value(*t) for t in types]
        said = ", ".join(f"{k} = {v}" for k, v in (attrs or {}).items())
        properties = f" <{{{said}}}>" if said else ""
        inside = f" ({', '.join(regions)})" if regions else ""
        noted = f" {{{notes}}}" if notes else ""
        left = f"{', '.join(r.name for r in results)} = " if results else ""
        given, made = ", ".join(a.type for a in args), ", ".join(r.type for r in results)
        given_names = ", ".join(a.name for a in args)
        right = made if len(results) == 1 else f"({made})"
        self.block.lines.append(f'{left}"{name}"({given_names}){properties}{inside}{noted} : ({given}) -> {right}')
        return results

    def constant(self, array: Any, of: DType) -> HloValue:
        """A constant; one that is equal to another in this block is that."""
        array = np.asarray(array, of.numpy)
        key = (of, array.shape, array.tobytes()) if array.size <= 16 else None
        if key is not None and key in self.block.known:
            return self.block.known[key]
        (made,) = self.op("stablehlo.constant", [], [(array.shape, of)], {"value": self._dense(array, of)})
        if key is not None:
            self.block.known[key] = made
        return made

    def filled(self, number: Any, of: DType, shape: tuple[int, ...]) -> HloValue:
        """A constant whose elements are all one number of the dtype."""
        array = np.asarray(number, of.numpy)
        key = (of, shape, array.tobytes(), "filled")
        if key not in self.block.known:
            said = f"dense<{_element(array[()], of)}> : {tensor_text(shape, of)}"
            if not prod(shape):
                said = f"dense<> : {tensor_text(shape, of)}"
            (self.block.known[key],) = self.op("stablehlo.constant", [], [(shape, of)], {"value": said})
        return self.block.known[key]

    def _dense(self, array: Any, of: DType) -> str:
        self._bytes += array.nbytes
        if self._bytes > MOST_BYTES:
            raise Unsupported(
                f"constants of more than {MOST_BYTES} bytes do not fit into one text", label="stablehlo_export.C5"
            )
        claim(8 * array.nbytes, "writing a constant")
        return f"dense<{dense_text(array, of)}> : {tensor_text(array.shape, of)}"


def dense_text(array: Any, of: DType) -> str:
    """The elements of an array: numbers where they are few or narrow, else their bytes."""
    if not array.size:
        return ""
    if array.size > 16 and of.bits >= 8 and of is not BOOL:
        little = array.astype(array.dtype.newbyteorder("<")) if array.dtype.kind in "iuf" else array
        return f'"0x{np.ascontiguousarray(little).tobytes().hex().upper()}"'
    texts = [_element(v, of) for v in array.reshape(-1)]
    for size in reversed(array.shape):
        texts = [f"[{', '.join(texts[k : k + size])}]" for k in range(0, len(texts), size)]
    return texts[0]


def _element(value: Any, of: DType) -> str:
    """A number; a float by its bits, which no reader rounds."""
    if of is BOOL:
        return "true" if value else "false"
    if of.is_integer:
        return str(int(value))
    bits = int(np.asarray(value, of.numpy).reshape(1).view(np.dtype(f"u{of.itemsize}"))[0])
    return f"0x{bits:0{max(1, of.bits // 4)}X}"
