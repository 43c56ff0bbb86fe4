"""Buffers, views, regions and attributes of tensor functions as they are read (specs/semantics.md, "Text")."""

from __future__ import annotations

import ast
from collections.abc import Mapping, MutableMapping
from math import prod
from typing import Any

import numpy as np

from assay.semantics.dtypes import FLOAT32, INT64, DType
from assay.semantics.scalar import Const, Dim, Expr, Var, cast, const, provably_equal
from assay.semantics.tensor import AllocateConst, Buffer, Region, Seq, View
from assay.semantics.tensor.places import declared_number, dense_strides, has_bytes, same_width, strides_of
from assay.semantics.text.constants_text import decoded
from assay.semantics.text.scalars import vector_type
from assay.semantics.text.tensor.context import FunctionContext

_ADVICE = (
    "align",
    "offset_factor",
    "annotations",
    "buffer_type",
    "axis_separators",
    "layout",
    "data_alignment",
    "allocated_addr",
)
"""Keywords of buffers that say nothing about what they hold; kept as text."""

_PLACES = ("shape", "dtype", "data", "strides", "elem_offset", "scope")


class BufferReader:
    """Reads what declares buffers, views and symbols, and regions of buffers."""

    def __init__(self, context: FunctionContext, symbols: MutableMapping[str, Var]) -> None:
        self.context = context
        self.source, self.names, self.scalars = context.source, context.names, context.scalars
        self.symbols = symbols
        self.local: dict[str, Var] = {}

    # --- symbols -------------------------------------------------------------------------------------------------

    def symbol(self, name: str) -> Var:
        """A symbol that no line has declared yet; the functions of a module share those that it declares."""
        if name not in self.local:
            self.local[name] = (
                self.symbols[name]
                if name in self.symbols
                else Var(name, self.context.function.declared.get(name, INT64))
            )
        if self.names.get(name) is not self.local[name]:
            self.names.declare(name, self.local[name])
        return self.local[name]

    def declare_quoted(self, node: ast.expr) -> ast.expr:
        """The expression in a string; a name that nothing stands for is a new symbol."""
        if not (isinstance(node, ast.Constant) and isinstance(node.value, str)):
            return node
        inside = self.scalars.quoted(node)
        if isinstance(inside, ast.Name) and inside.id not in self.names:
            self.symbol(inside.id)
        return inside

    def shape(self, node: ast.expr) -> tuple[tuple[Dim, ...], tuple[str, ...] | None]:
        """The dims, and the dtypes of their literals where not all are int64."""
        parts = node.elts if isinstance(node, (ast.Tuple, ast.List)) else [node]
        dims: list[Dim] = []
        dtypes: list[str] = []
        for part in parts:
            if isinstance(part, ast.Starred):
                raise self.source.error(part, "a dim is a whole number or an integer expression", "text.C6")
            expr = self.scalars.value(self.declare_quoted(part))
            typed = self.scalars.operations.typed(expr)
            if not typed.dtype.is_integer:
                raise self.source.error(part, f"a dim is an integer, not {typed.dtype}", "text.C6")
            dims.append(int(typed.value) if isinstance(typed, Const) else self.scalars.sized(part, typed))
            dtypes.append(typed.dtype.name if isinstance(typed, Const) else "int64")
        return tuple(dims), None if all(d == "int64" for d in dtypes) else tuple(dtypes)

    # --- buffers -------------------------------------------------------------------------------------------------

    def buffer(self, name: str, node: ast.AST, given: Mapping[str, ast.expr], scope: str = "global") -> Buffer:
        """The buffer that the arguments describe."""
        if "shape" not in given:
            raise self.source.error(node, f"buffer {name} has no shape", "text.C5")
        dims, dtypes = self.shape(given["shape"])
        of, lanes = self.numbers(given["dtype"]) if "dtype" in given else (FLOAT32, 1)
        if lanes > 1:
            dims, dtypes = (*dims, lanes), None if dtypes is None else (*dtypes, "int32")
        if "scope" in given:
            scope = self.context.string(given["scope"])
        notes: dict[str, Any] = {k: ast.unparse(v) for k, v in given.items() if k in _ADVICE}
        if dtypes is not None:
            notes["dims"] = dtypes
        for key, value in given.items():
            if key not in _ADVICE and key not in _PLACES:
                raise self.source.unsupported(value, f"the argument {key} of a buffer is not handled", "text.C7")
        if any(isinstance(d, int) and d < 0 for d in dims):
            raise self.source.error(given["shape"], f"buffer {name} has a negative dim", "text.C6")
        return self.packed(Buffer(name, dims, of, scope, notes), lanes)

    def numbers(self, node: ast.expr) -> tuple[DType, int]:
        """The dtype that a string names, and how many lanes there are of it."""
        text = self.context.string(node)
        of = vector_type(text)
        return of if of is not None and of[1] > 1 else (self.scalars.dtype_of(node, text), 1)

    def packed(self, buffer: Buffer, lanes: int) -> Buffer:
        """A buffer; one whose elements are vectors has their lanes as its last dimension (rule M6.21)."""
        if lanes > 1:
            self.scalars.packed[buffer] = lanes
            factor = declared_number(buffer, "offset_factor")
            if factor is not None:
                assert isinstance(buffer.notes, dict)
                buffer.notes["offset_factor"] = str(factor * lanes)
        return buffer

    def spread(self, name: str, node: ast.AST, given: Mapping[str, ast.expr]) -> tuple[Buffer, View | None]:
        """A parameter. One with constant strides or an offset that are not those of dense rows is a view: what is
        handed over is the flat memory up to its last element (rule M6.12a)."""
        numbers = [self.number(given[k]) for k in ("strides", "elem_offset") if k in given]
        plain = self.buffer(name, node, given)
        sizes = [d for d in plain.shape if isinstance(d, int)]
        if not numbers or None in numbers or len(sizes) != len(plain.shape) or 0 in sizes:
            return self.placed(name, node, given), None
        dense = [int(s) for s in strides_of(sizes) if isinstance(s, int)]
        lanes = self.scalars.packed.get(plain, 1)
        steps = (self.number(given["strides"]) if "strides" in given else None) or []
        steps = [*(s * lanes for s in steps), *([1] if lanes > 1 else [])] if steps else dense
        first = (self.number(given["elem_offset"]) or [0])[0] * lanes if "elem_offset" in given else 0
        if len(steps) != len(sizes) or (steps == dense and first == 0):
            return self.placed(name, node, given), None
        if first < 0 or any(s < 0 for s in steps):
            raise self.source.unsupported(node, f"{name} lies before the memory that is handed over", "text.C11")
        length = first + 1 + sum((n - 1) * s for n, s in zip(sizes, steps, strict=True))
        memory = Buffer(name, (length,), plain.dtype, plain.scope, {})
        return memory, View(plain, memory, const(first), tuple(map(const, steps)))

    def number(self, node: ast.expr) -> list[int] | None:
        """The whole numbers that an argument lists; None where one is a symbol."""
        parts = node.elts if isinstance(node, (ast.Tuple, ast.List)) else [node]
        if any(isinstance(p, ast.Constant) and isinstance(p.value, str) for p in parts):
            return None
        if any(isinstance(n, ast.Name) and n.id not in self.scalars.modules for p in parts for n in ast.walk(p)):
            return None
        values = [self.scalars.operations.typed(self.scalars.value(p)) for p in parts]
        return (
            [int(v.value) for v in values if isinstance(v, Const)]
            if all(isinstance(v, Const) for v in values)
            else None
        )

    def placed(self, name: str, node: ast.AST, given: Mapping[str, ast.expr], scope: str = "global") -> Buffer:
        """A buffer of its own: its offset is 0 and its strides are those of dense rows. Symbols for them are bound."""
        if "data" in given:
            raise self.source.error(given["data"], f"buffer {name} has memory of its own", "text.C5")
        plain = self.buffer(name, node, given, scope)
        notes = dict(plain.notes)
        if plain in self.scalars.packed:
            return self.dense_vectors(plain, given)
        if "elem_offset" in given:
            notes["elem_offset"] = self.implied(given["elem_offset"], 0, f"the offset of {name}")
        if "strides" in given:
            parts = given["strides"]
            steps = parts.elts if isinstance(parts, (ast.Tuple, ast.List)) else [parts]
            if steps and len(steps) != len(plain.shape):
                raise self.source.error(parts, f"{len(plain.shape)} strides expected, {len(steps)} given", "text.C5")
            dense = strides_of(plain.shape)
            notes["strides"] = tuple(
                self.implied(s, d, f"a stride of {name}") for s, d in zip(steps, dense, strict=bool(steps))
            )
        return Buffer(name, plain.shape, plain.dtype, plain.scope, notes)

    def dense_vectors(self, buffer: Buffer, given: Mapping[str, ast.expr]) -> Buffer:
        """A buffer of vectors with memory of its own, which is dense."""
        for key, wanted in (("elem_offset", [0]), ("strides", list(strides_of(buffer.shape[:-1])))):
            if key in given and self.number(given[key]) not in (wanted, []):
                message = f"{buffer.name} holds vectors: only such as lie side by side are handled"
                raise self.source.unsupported(given[key], message, "text.C11")
        return buffer

    def implied(self, node: ast.expr, value: Dim, what: str) -> str | Var:
        """What a buffer says of its own place, checked: the text of `value`, or a symbol that is bound to it."""
        part = self.declare_quoted(node)
        given = self.scalars.value(part)
        if isinstance(given, Var) and (given in self.local.values() or given in self.symbols.values()):
            expr = cast(value, given.dtype) if isinstance(value, Expr) else const(value, given.dtype)
            self.context.function.implied.setdefault(given, expr)
            return given
        same = provably_equal(given, value) if isinstance(given, (Expr, int)) else False
        if isinstance(given, Const) and isinstance(value, int):
            same = int(given.value) == value
        if not same:
            raise self.source.unsupported(node, f"{what} is not {value}: only dense buffers are handled", "text.C11")
        return ast.unparse(node)

    def view(self, name: str, node: ast.Call, source: Buffer, given: Mapping[str, ast.expr]) -> View:
        """`T.decl_buffer(..., data=A.data)`: another buffer in the same memory; with `read_only=True` one that is not
        written through."""
        given = dict(given)
        constant = "read_only" in given and self.context.truth(given.pop("read_only"))
        buffer = self.buffer(name, node, given, source.scope)
        self.check_bytes(name, buffer.dtype, source, node)
        notes = dict(buffer.notes)
        offset: Expr = const(0)
        lanes = self.scalars.packed.get(buffer, 1)
        if "elem_offset" in given:
            offset = self.scalars.expr(given["elem_offset"])
            offset = offset if lanes == 1 else cast(offset, INT64) * lanes
            if isinstance(offset, Const) and int(offset.value) == 0:
                notes["elem_offset"] = ast.unparse(given["elem_offset"])
                offset = const(0)
        strides = dense_strides(buffer.shape)
        if "strides" in given and isinstance(given["strides"], (ast.Tuple, ast.List)) and given["strides"].elts:
            parts = given["strides"].elts
            if len(parts) + (lanes > 1) != len(buffer.shape):
                raise self.source.error(
                    given["strides"], f"{len(buffer.shape) - (lanes > 1)} strides expected", "text.C5"
                )
            strides = tuple(self.scalars.expr(self.declare_quoted(p)) for p in parts)
            if lanes > 1:
                strides = (*(cast(s, INT64) * lanes for s in strides), const(1))
        made = Buffer(name, buffer.shape, buffer.dtype, buffer.scope, notes)
        if lanes > 1:
            self.scalars.packed[made] = lanes
        return View(made, source, offset, strides, constant=constant)

    def check_bytes(self, name: str, of: DType, source: Buffer, node: ast.AST) -> None:
        """Unsupported where memory cannot be seen as numbers of a dtype."""
        if not has_bytes(of, source.dtype):
            message = (
                f"{name} is {of} in the memory of {source.name}, which is {source.dtype}: numbers of 4 bits have no"
                " bytes"
            )
            raise self.source.unsupported(node, message, "text.C11")

    def match(self, name: str, node: ast.Call, given: Mapping[str, ast.expr]) -> View:
        """`T.match_buffer(A[0:4, j], ...)` in a block: a buffer that is a part of another."""
        region = self.region(given["buffer"])
        source = region.buffer
        if "shape" not in given:
            raise self.source.error(node, f"buffer {name} has no shape", "text.C5")
        own = {k: v for k, v in given.items() if k != "buffer"}
        buffer = self.buffer(name, node, own, source.scope)
        if not same_width(buffer.dtype, source.dtype):
            message = f"{name} is {buffer.dtype}, {source.name} is {source.dtype}, of another width"
            raise self.source.unsupported(node, message, "text.C11")
        lanes = self.scalars.packed.get(buffer, 1)
        if lanes != self.scalars.packed.get(source, 1):
            raise self.source.unsupported(node, f"{name} has not as many lanes as {source.name}", "text.C11")
        if len(buffer.shape) > len(source.shape):
            raise self.source.unsupported(node, f"{name} has more dimensions than {source.name}", "text.C11")
        steps = dense_strides(source.shape)
        offset: Expr = const(0)
        for start, step in zip(region.starts, steps, strict=True):
            offset = offset + cast(start, INT64) * step
        strides = steps[len(steps) - len(buffer.shape) :]
        notes = dict(buffer.notes)
        # what the matched buffer says of its place is so by construction; symbols for it cannot be used here
        for key in ("elem_offset", "strides"):
            if key in given:
                self._matched(given[key], [offset // lanes] if key == "elem_offset" else [s // lanes for s in strides])
        made = Buffer(name, buffer.shape, buffer.dtype, buffer.scope, notes)
        if lanes > 1:
            self.scalars.packed[made] = lanes
        return View(made, source, offset, strides, region)

    def _matched(self, node: ast.expr, values: list[Expr]) -> None:
        """Names in the place of a matched buffer stand for where it really lies."""
        parts = node.elts if isinstance(node, (ast.Tuple, ast.List)) else [node]
        for part, value in zip(parts, values, strict=False):
            inside = (
                self.scalars.quoted(part) if isinstance(part, ast.Constant) and isinstance(part.value, str) else part
            )
            if isinstance(inside, ast.Name):
                self.names.declare(inside.id, value)

    def memory(self, node: ast.expr) -> Buffer:
        """The buffer whose memory `A.data` (or the name of an allocation) is."""
        inner = node.value if isinstance(node, ast.Attribute) and node.attr == "data" else node
        if not isinstance(inner, ast.Name):
            raise self.source.unsupported(node, "this pointer is not handled; NAME.data is", "text.C7")
        found = self.names.get(inner.id)
        if found is None:
            raise self.source.error(inner, f"nothing is called {inner.id} here", "text.C3")
        if not isinstance(found, Buffer):
            raise self.source.error(inner, f"{inner.id} is no buffer", "text.C4")
        return found

    # --- regions, attributes -------------------------------------------------------------------------------------

    def regions(self, node: ast.Call) -> tuple[Region, ...]:
        """Reads the regions of `T.reads` or `T.writes`, listed or not."""
        parts: list[ast.expr] = []
        for a in node.args:
            parts += a.elts if isinstance(a, (ast.List, ast.Tuple)) else [a]
        return tuple(self.region(p) for p in parts)

    def region(self, node: ast.expr) -> Region:
        """`A[i, 0:4]`, or `A` for the whole of it."""
        if isinstance(node, ast.Name):
            whole = self.memory(node)
            return Region(whole, tuple(const(0) for _ in whole.shape), tuple(_expr(d) for d in whole.shape))
        if not isinstance(node, ast.Subscript) or not isinstance(node.value, ast.Name):
            raise self.source.error(node, "a region such as A[i, 0:4] expected", "text.C4")
        buffer = self.memory(node.value)
        parts = node.slice.elts if isinstance(node.slice, ast.Tuple) else [node.slice]
        lanes = self.scalars.packed.get(buffer, 1)
        rank = len(buffer.shape) - (lanes > 1)
        if len(parts) != rank:
            message = f"buffer {buffer.name} has {rank} dimensions, {len(parts)} given"
            raise self.source.error(node, message, "text.C5")
        starts: list[Expr] = []
        stops: list[Expr | None] = []
        for part, dim in zip(parts, buffer.shape[:rank], strict=True):
            if not isinstance(part, ast.Slice):
                starts.append(self.context.integer(part))
                stops.append(None)
                continue
            if part.step is not None:
                raise self.source.error(part.step, "a region has no steps", "text.C5")
            stop = _expr(dim) if part.upper is None else self.context.integer(part.upper)
            starts.append(const(0, stop.dtype) if part.lower is None else self.context.integer(part.lower))
            stops.append(stop)
        if lanes > 1:
            starts.append(const(0))
            stops.append(const(lanes))
        return Region(buffer, tuple(starts), tuple(stops))

    def constant(self, name: str, node: ast.Call) -> AllocateConst:
        """`T.allocate_const([1, 2], "int32", [2])`: a buffer and what it holds, around nothing yet.

        The data is a list of numbers, the bytes as text in base64, or None where `index` names a constant of the table.
        """
        given = self.context.arguments(node, ("data", "dtype", "shape"))
        for key in ("data", "dtype", "shape"):
            if key not in given:
                raise self.source.error(
                    node, f"T.allocate_const takes data, dtype and shape; {key} is missing", "text.C5"
                )
        own = ("data", "annotations", "index")
        buffer = self.buffer(name, node, {k: v for k, v in given.items() if k not in own})
        index = self.context.data(given["index"]) if "index" in given else ""
        annotations = self.context.data(given["annotations"]) if "annotations" in given else {}
        if not isinstance(index, str) or not isinstance(annotations, dict | None):
            raise self.source.error(
                node, "the index of a constant is a name, its annotations are a dictionary", "text.C4"
            )
        if any(isinstance(d, Expr) for d in buffer.shape):
            raise self.source.error(node, f"the dims of a constant are numbers, not those of {buffer}", "text.C6")
        data = self.contents(node, given["data"], buffer)
        if data is None and not index:
            raise self.source.error(node, "data, or the index of a constant of the module, is expected", "text.C5")
        return AllocateConst(buffer, data, Seq(()), index, annotations or {}, span=self.source.span(node))

    def contents(self, node: ast.Call, given: ast.expr, buffer: Buffer) -> np.ndarray[Any, Any] | None:
        """Reads the contents of a constant: encoded, or one literal for each element; None stays None."""
        match given:
            case ast.Constant(value=None):
                return None
            case ast.Constant(value=str(text)):
                with self.source.at(given):
                    return decoded(text, buffer.dtype, buffer.static_shape)
            case ast.List() | ast.Tuple():
                values = [self.scalars.expr(e, buffer.dtype) for e in given.elts]
                numbers = [v.value for v in values if isinstance(v, Const)]
                size = prod(buffer.static_shape)
                if len(numbers) != size:
                    raise self.source.error(node, f"{len(numbers)} literals do not fill {buffer}", "text.C6")
                array = np.array(numbers, buffer.dtype.numpy).reshape(buffer.static_shape)
                array.flags.writeable = False
                return array
            case _:
                raise self.source.error(given, "a list of numbers expected", "text.C4")


def _expr(dim: Dim) -> Expr:
    return dim if isinstance(dim, Expr) else const(dim)
