"""Single lines of tensor functions as they are read: stores, scalars and declarations (specs/semantics.md, "Text")."""

from __future__ import annotations

import ast
from dataclasses import replace
from functools import partial
from typing import TypeAlias

from assay.semantics import tensor
from assay.semantics.dtypes import DTYPES, INT32, INT64, DType
from assay.semantics.errors import Span
from assay.semantics.scalar import Const, Expr, Load, Var, apply, cast, const, simplify
from assay.semantics.tensor.places import dense_strides
from assay.semantics.text.scalars import EXTERNAL, vector_type
from assay.semantics.text.tensor.blocks import BlockReader, Opener, let_stmt
from assay.semantics.text.tensor.buffers import BufferReader
from assay.semantics.text.tensor.calls import CallReader
from assay.semantics.text.tensor.context import FunctionContext

Item: TypeAlias = "tensor.Stmt | Opener | None"
"""What a line becomes: a statement, a declaration for the lines below it, or nothing of its own."""

BUFFER = ("shape", "dtype", "data", "strides", "elem_offset", "scope", "align", "offset_factor")
_ALLOCATION = ("shape", "dtype", "scope")
_MEMORY = {"alloc_buffer": "global", "alloc_local": "local", "alloc_shared": "shared", "allocate": "global"}

TRAPS = ("assertion", "out of bounds", "division by zero", "shape", "shift", "cast", "unwritten read")
"""Kinds of trap that an assertion may name as its own."""


class LineReader:
    """Reads statements that have no statements inside."""

    def __init__(self, context: FunctionContext, buffers: BufferReader, blocks: BlockReader, calls: CallReader) -> None:
        self.context = context
        self.source, self.names, self.scalars = context.source, context.names, context.scalars
        self.function, self.heads = context.function, context.heads
        self.buffers, self.blocks, self.calls = buffers, blocks, calls
        self.cells: set[tensor.Buffer] = set()
        """Scalars in memory."""

    def scalar_type(self, node: ast.expr | None) -> DType | None:
        """The dtype of an annotation such as `T.int64`, or `"int64"` in older texts."""
        name = None if node is None else self.context.member(node)
        if name in DTYPES and not (isinstance(node, ast.Call) and node.args):
            return DTYPES[name]
        return DTYPES["bool"] if name == "boolean" else None

    def assertion(self, node: ast.Assert) -> tensor.Stmt:
        """`assert c, "text"`, or `assert c, ("RuntimeError", ["text"])`; a kind that is none of a trap is an assertion.

        A third part of the tuple are the values that the message shows."""
        kind, message = "assertion", ""
        values: list[ast.expr] = []
        match node.msg:
            case None:
                pass
            case ast.Constant(value=str(text)):
                message = text
            case ast.Tuple(elts=[ast.Constant(value=str(name)), ast.List(elts=parts)]):
                kind = name if name in TRAPS else "assertion"
                message = "".join(self.context.string(p) for p in parts)
            case ast.Tuple(elts=[ast.Constant(value=str(name)), ast.List(elts=parts), ast.List(elts=values)]):
                kind = name if name in TRAPS else "assertion"
                message = "".join(self.context.string(p) for p in parts)
            case _:
                raise self.source.error(node.msg, 'a message is "text" or ("kind", ["text"])', "text.C4")
        shown = tuple(self.scalars.expr(v) for v in values)
        return tensor.Assert(self.context.condition(node.test), message, kind, shown, span=self.source.span(node))

    def call(self, node: ast.Expr, call: ast.Call) -> Item:
        """Reads a call that is a line by itself: a statement, what opens a scope, or None where it only declares."""
        name = self.context.member(call)
        span = self.source.span(node)
        match name:
            case None if (callee := self.calls.function_of_module(call.func)) is not None:
                return self.calls.called(call, callee, call.args, False, span)
            case None:
                return tensor.Evaluate(self.scalars.expr(call), span=span)
            case "call_packed" | "call_cpacked" | "call_extern" | "call_pure_packed" | "call_pure_extern":
                return self.calls.external(call, name, span)
            case "assume":
                return tensor.Assert(
                    self.context.condition(self.context.arguments(call, ("condition",))["condition"]),
                    "T.assume",
                    span=span,
                )
            case "func_attr":
                if len(self.heads) != 1:
                    raise self.source.error(call, "T.func_attr stands in the function itself", "text.C13")
                self.function.attrs.update(self.context.dictionary(call))
                return None
            case "attr":
                return self.blocks.pragma(call, span)
            case "evaluate":
                given = self.context.arguments(call, ("value",))
                if "value" not in given:
                    raise self.source.error(call, "T.evaluate takes one value", "text.C5")
                if isinstance(given["value"], ast.Call) and (self.context.member(given["value"]) or "").startswith(
                    "call_"
                ):
                    return self.call(node, given["value"])
                value = given["value"]
                lanes = self.scalars.each_lane(self.scalars.lanes_of(value), lambda: self.scalars.expr(value))
                return tensor.seq(*(tensor.Evaluate(e, span=span) for e in lanes))
            case "Assert":
                given = self.context.arguments(call, ("condition", "message"))
                if len(given) != 2:
                    raise self.source.error(call, "T.Assert takes a condition and a message", "text.C5")
                return tensor.Assert(
                    self.context.condition(given["condition"]), self.context.string(given["message"]), span=span
                )
            case "buffer_store":
                given = self.context.arguments(call, ("buffer", "value", "indices"))
                if len(given) != 3:
                    raise self.source.error(call, "T.buffer_store takes a buffer, a value and indices", "text.C5")
                target = ast.copy_location(ast.Subscript(given["buffer"], given["indices"]), call)
                if isinstance(target.slice, ast.List):
                    target.slice = ast.copy_location(ast.Tuple(target.slice.elts), target.slice)
                return self.store(node, target, given["value"])
            case _ if self.blocks.block_line(name, call):
                return None
            case _:
                return tensor.Evaluate(self.scalars.expr(call), span=span)

    def assign(self, node: ast.stmt, target: ast.expr, value: ast.expr) -> Item:
        """Reads an assignment: a store, a scalar or a declaration; None where it only declares."""
        if isinstance(target, ast.Subscript):
            return self.store(node, target, value)
        names = target.elts if isinstance(target, (ast.Tuple, ast.List)) else [target]
        if isinstance(value, ast.Call) and self.blocks.axis(value, names):
            return None
        if not isinstance(target, ast.Name):
            raise self.source.error(target, "a name or an element of a buffer expected", "text.C4")
        if isinstance(value, ast.Call):
            member = self.context.member(value)
            if member is not None:
                opener = self.declaration(value, member, target.id, self.source.span(node))
                if opener is not None:
                    return opener
                if member in DTYPES and not value.args and not value.keywords or member in ("var", "Var"):
                    self.buffers.symbol(target.id)
                    return None
            elif isinstance(value.func, ast.Attribute) and value.func.attr == "view":
                return self.reshaped(target.id, value, self.source.span(node))
        known = self.names.get(target.id)
        if isinstance(known, tensor.Buffer) and known in self.scalars.packed and known.shape[:-1] == (1,):
            return self.store(node, self.only(target), value)
        if isinstance(known, tensor.Buffer) and known.shape == (1,):
            item = self.converted(self.scalars.value(value), known.dtype)
            return tensor.Store(known, (const(0, INT32),), item, span=self.source.span(node))
        if isinstance(value, ast.Name) and isinstance(self.names.get(value.id), tensor.Buffer):
            self.names.declare(target.id, self.names[value.id])
            return None
        return self.scalar(node, target.id, self.scalars.operations.typed(self.scalars.value(value)))

    def annotated(self, node: ast.AnnAssign, target: ast.Name) -> Item:
        """`x: T.let[T.int64] = value` names a value; `x: T.int64 = value` is a scalar in memory."""
        note = node.annotation
        if isinstance(note, ast.Subscript) and self.context.member(note.value) == "let":
            of, lanes = self.scalar_type(note.slice), vector_type(self.context.member(note.slice) or "")
            if lanes is not None and node.value is not None:
                return self.vector(node, target.id, *lanes, node.value)
            if of is None or node.value is None:
                raise self.source.error(node, "x: T.let[T.dtype] = value expected", "text.C4")
            value = self.converted(self.scalars.value(node.value), of)
            var = Var(target.id, of)
            self.names.declare(target.id, var)
            return partial(let_stmt, var, value, self.source.span(node))
        of, lanes = self.scalar_type(note), vector_type(self.context.member(note) or "")
        if lanes is not None:
            return self.vector_cell(node, target, *lanes, node.value)
        if of is None:
            raise self.source.error(note, "the dtype of a scalar expected, such as T.int64", "text.C4")
        first = None if node.value is None else self.converted(self.scalars.value(node.value), of)
        return self.scalar(node, target.id, first, of)

    def vector(self, node: ast.stmt, name: str, of: DType, lanes: int, value: ast.expr) -> Opener:
        """`x: T.let[T.float32x4] = value`: a name for each lane."""
        values = self.scalars.each_lane(lanes, lambda: self.converted(self.scalars.value(value), of))
        vars = [Var(f"{name}_{k}", of) for k in range(lanes)]
        self.scalars.vectors[name] = tuple(vars)
        span = self.source.span(node)

        def opener(body: tensor.Stmt) -> tensor.Stmt:
            for var, e in zip(reversed(vars), reversed(values), strict=True):
                body = let_stmt(var, e, span, body)
            return body

        return opener

    def vector_cell(
        self, node: ast.AnnAssign, target: ast.Name, of: DType, lanes: int, value: ast.expr | None
    ) -> Opener:
        """`x: T.float32x4 = value`: a vector in memory."""
        buffer = self.buffers.packed(
            tensor.Buffer(target.id, (1, lanes), of, "local", {"dims": ("int32", "int32")}), lanes
        )
        read = (
            None
            if value is None
            else self.scalars.each_lane(lanes, lambda: self.converted(self.scalars.value(value), of))
        )
        self.names.declare(target.id, buffer)
        zero, span = const(0, INT32), self.source.span(node)
        stores = [tensor.Store(buffer, (zero, const(k, INT32)), v, span=span) for k, v in enumerate(read or [])]
        return lambda rest: tensor.Allocate(
            buffer, tensor.seq(*([tensor.store_lanes(stores)] if stores else []), rest), span=span
        )

    def only(self, name: ast.Name) -> ast.Subscript:
        """The only element of a buffer, written as its name."""
        return ast.copy_location(ast.Subscript(name, ast.copy_location(ast.Constant(0), name)), name)

    def scalar(self, node: ast.stmt, name: str, value: Expr | None, of: DType | None = None) -> Item:
        """`x = value`: apache-tvm 0.27 means a scalar in memory, earlier versions a name for a value."""
        if value is None or self.function.is_new or self.function.assigned[name] > 1:
            return self.cell(node, name, value, of)
        var = Var(name, value.dtype)
        self.names.declare(name, var)
        return partial(let_stmt, var, value, self.source.span(node))

    def cell(self, node: ast.stmt, name: str, value: Expr | None, of: DType | None = None) -> Item:
        """A scalar in memory: made by its first assignment, stored to by the others."""
        span, zero = self.source.span(node), const(0, INT32)
        known = self.names.get(name)
        if of is None and isinstance(known, Load) and known.buffer in self.cells and value is not None:
            return tensor.Store(known.buffer, (zero,), self.converted(value, known.dtype), span=span)
        of = of or (value.dtype if value is not None else INT64)
        buffer = tensor.Buffer(name, (1,), of, "local", {"dims": ("int32",)})
        self.cells.add(buffer)
        self.names.declare(name, Load(of, buffer, (zero,)))
        first = () if value is None else (tensor.Store(buffer, (zero,), value, span=span),)
        return lambda rest: tensor.Allocate(buffer, tensor.seq(*first, rest), span=span)

    def store(self, node: ast.stmt, target: ast.Subscript, value: ast.expr) -> tensor.Stmt:
        """Reads a store to an element, or to each lane of a vector."""
        lanes = self.scalars.lanes_of(target.slice) * self.scalars.lanes_in(target.value)
        if lanes > 1:
            stores = self.scalars.each_lane(lanes, lambda: self.store_one(node, target, value))
            return tensor.store_lanes([s for s in stores if isinstance(s, tensor.Store)])
        return self.store_one(node, target, value)

    def store_one(self, node: ast.stmt, target: ast.Subscript, value: ast.expr) -> tensor.Stmt:
        """Reads a store to one element."""
        place = self.scalars.expr(target)
        assert isinstance(place, Load)
        if isinstance(value, ast.Call) and self.context.member(value) in EXTERNAL and self.scalars.lanes == 1:
            return self.calls.stored(value, place)
        return tensor.Store(
            place.buffer,
            place.indices,
            self.converted(self.scalars.value(value), place.dtype),
            span=self.source.span(node),
        )

    def converted(self, value: Expr | int | float | bool, of: DType) -> Expr:
        """A value as `of`, as TVM converts what is stored."""
        if isinstance(value, Expr) and not isinstance(value, Const):
            return cast(value, of)
        if isinstance(value, Const) and value.dtype is of:
            return value
        number = value.value if isinstance(value, Const) else value
        return const(int(number) if of.is_integer else number, of)

    def declaration(self, call: ast.Call, name: str, bound: str, span: Span) -> Opener | None:
        """What `bound = T.name(...)` declares; None where it is no declaration."""
        match name:
            case "sblock_alloc_buffer":
                head = self.heads[-1]
                given = self.context.arguments(call, BUFFER)
                buffer = self.buffers.placed(bound, call, given)
                head.allocated.append(buffer)
                self.names.declare(bound, buffer)
                return _nothing
            case "alloc_buffer" | "alloc_local" | "alloc_shared" | "allocate":
                given = self.context.arguments(call, _ALLOCATION)
                buffer = self.buffers.placed(
                    bound, call, {k: v for k, v in given.items() if k != "condition"}, _MEMORY[name]
                )
                self.names.declare(bound, buffer)
                return partial(_allocate, buffer, span)
            case "allocate_const":
                constant = self.buffers.constant(bound, call)
                self.names.declare(bound, constant.buffer)
                return lambda body: replace(constant, body=body, span=span)
            case "decl_buffer" | "Buffer" | "buffer_decl":
                given = self.context.arguments(call, BUFFER)
                pointer = given.get("data")
                if isinstance(pointer, ast.Name) and pointer.id in self.function.handles:
                    del given["data"]
                    self.declare_param(self.buffers.spread(bound, call, given), self.function.handles.pop(pointer.id))
                    return _nothing
                if "data" in given:
                    return self.alias(bound, call, self.buffers.memory(given["data"]), given, span)
                buffer = self.buffers.placed(bound, call, given)
                self.names.declare(bound, buffer)
                return partial(_allocate, buffer, span)
            case "match_buffer":
                given = self.context.arguments(call, ("buffer", *BUFFER))
                whole = given.pop("buffer", None)
                if isinstance(whole, ast.Name) and whole.id in self.function.handles:
                    place = self.function.handles.pop(whole.id)
                    self.declare_param(self.buffers.spread(bound, call, given), place)
                    return _nothing
                if whole is None or len(self.heads) < 2:
                    raise self.source.error(
                        call,
                        "T.match_buffer takes a handle of the function, or part of a buffer in a block",
                        "text.C13",
                    )
                view = self.buffers.match(bound, call, {"buffer": whole, **given})
                self.heads[-1].views.append(view)
                self.names.declare(bound, view.buffer)
                return _nothing
            case _:
                return None

    def declare_param(self, spread: tuple[tensor.Buffer, tensor.View | None], place: int | None = None) -> None:
        """A parameter, in its place among those whose handles are still unmatched."""
        buffer, window = spread
        params = self.function.params
        if place is None:
            params.append(buffer)
        else:
            params.insert(place - sum(p < place for p in self.function.handles.values()), buffer)
        if window is not None:
            self.function.windows.append(window)
        self.names.declare(buffer.name, buffer if window is None else window.buffer)

    def alias(self, name: str, call: ast.Call, source: tensor.Buffer, given: dict[str, ast.expr], span: Span) -> Opener:
        """Reads a declared view of `source`, and gives what puts it around the statements that follow."""
        view = self.buffers.view(name, call, source, given)
        self.names.declare(name, view.buffer)
        return lambda body: tensor.Alias(view, body, span=span)

    def reshaped(self, name: str, call: ast.Call, span: Span) -> Opener:
        """`B = A.view(4, 4)`: the same memory in another shape; `A.view("int32")`: as other numbers."""
        assert isinstance(call.func, ast.Attribute)
        source = self.buffers.memory(call.func.value)
        sizes, names = (
            list(call.args),
            [a for a in call.args if isinstance(a, ast.Constant) and isinstance(a.value, str)],
        )
        if call.keywords or len(names) > 1 or (names and sizes[-1] is not names[0]):
            raise self.source.unsupported(call, "A.view takes sizes, or a dtype", "text.C11")
        lanes = self.scalars.packed.get(source, 1)
        plain = f"{source.dtype.name}x{lanes}" if lanes > 1 else source.dtype.name
        of = sizes.pop() if names else ast.copy_location(ast.Constant(plain), call)
        if not sizes:
            return self.reread(name, call, source, of, span)
        shape = ast.copy_location(ast.Tuple(sizes), call)
        return self.alias(name, call, source, {"shape": shape, "dtype": of}, span)

    def reread(self, name: str, call: ast.Call, source: tensor.Buffer, of: ast.expr, span: Span) -> Opener:
        """The same memory as numbers of another dtype; of another width there are more or fewer in the last
        dimension."""
        dtype, lanes = self.buffers.numbers(of)
        self.buffers.check_bytes(name, dtype, source, call)
        outer = 1 if source in self.scalars.packed else 0
        shape, own, other = source.shape[: len(source.shape) - outer], source.dtype.itemsize, dtype.itemsize
        if own != other:
            if not shape:
                raise self.source.unsupported(
                    call, f"{source.name} has no last dimension to count {dtype} in", "text.C11"
                )
            whole = shape[-1] * own if isinstance(shape[-1], int) else apply("mul", shape[-1], own)
            last = whole // other if isinstance(whole, int) else simplify(apply("floordiv", whole, other))
            shape = (*shape[:-1], last)
        dims = source.notes.get("dims")
        notes = {} if dims is None else {"dims": (*dims[: len(shape)], *(["int32"] if lanes > 1 else []))}
        made = tensor.Buffer(name, (*shape, lanes) if lanes > 1 else shape, dtype, source.scope, notes)
        if lanes > 1:
            self.scalars.packed[made] = lanes
        view = tensor.View(made, source, const(0), dense_strides(made.shape))
        self.names.declare(name, made)
        return lambda body: tensor.Alias(view, body, span=span)


def _nothing(body: tensor.Stmt) -> tensor.Stmt:
    return body


def _allocate(buffer: tensor.Buffer, span: Span, body: tensor.Stmt) -> tensor.Stmt:
    return tensor.Allocate(buffer, body, span=span)
