"""Calls of functions by tensor functions as they are read (specs/semantics.md, "Text").

    cls.helper(A.data, B.data, n)                             # a tensor function of the module
    T.call_packed("f", A, T.address_of(B[4]), 3)              # an extern

A buffer is handed over whole, or from some element on; the latter is a view of it.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Sequence

from assay.semantics.dtypes import INT32, INT64, DType
from assay.semantics.errors import Span
from assay.semantics.scalar import Const, Dim, Expr, Load, apply, cast, const
from assay.semantics.tensor import Alias, Allocate, Buffer, Call, Stmt, View, seq
from assay.semantics.tensor.calls import from_element
from assay.semantics.tensor.places import dense_strides
from assay.semantics.text.scalars import EXTERNAL
from assay.semantics.text.tensor.blocks import Opener
from assay.semantics.text.tensor.buffers import BufferReader
from assay.semantics.text.tensor.context import FunctionContext
from assay.semantics.walk import Worklist

READ = 1
"""The access mask of T.tvm_access_ptr for what is only read."""


class CallReader:
    """Reads calls of tensor functions and externs, and the views that their arguments are."""

    def __init__(self, context: FunctionContext, buffers: BufferReader) -> None:
        self.context = context
        self.source, self.names, self.scalars = context.source, context.names, context.scalars
        self.scalars.external = self.returned
        self.buffers = buffers
        self.before: list[tuple[Buffer, Stmt]] = []
        """Calls of externs that the line that is read needs done before it, and the cells of their results."""

    def function_of_module(self, func: ast.expr) -> str | None:
        """`name` for `cls.name` and `Module.name`."""
        if not (isinstance(func, ast.Attribute) and isinstance(func.value, ast.Name)):
            return None
        owner = func.value.id
        return None if owner in self.names or owner in self.scalars.modules else func.attr

    def external(self, call: ast.Call, name: str, span: Span) -> Stmt:
        """`T.call_packed("f", ...)`, and `T.call_extern("dtype", "f", ...)`, whose result is dropped."""
        args = call.args[1:] if name.endswith("extern") else call.args
        if not args or call.keywords:
            raise self.source.error(call, f"T.{name} takes the name of a function and its arguments", "text.C5")
        return self.called(call, self.context.string(args[0]), args[1:], True, span)

    def returned(self, call: ast.Call) -> Expr:
        """What an extern returns: it is called before the statement that it stands in, and its result kept in a
        cell."""
        if self.scalars.lanes > 1:
            raise self.source.unsupported(call, "an extern gives one number; vectors are not handled", "text.C8")
        name = f"result_{len(self.before)}"
        cell = Buffer(name, (1,), self.result_dtype(call), "local", {"dims": ("int32",)})
        place = Load(cell.dtype, cell, (const(0, INT32),))
        self.before.append((cell, self.stored(call, place)))
        return place

    def result_dtype(self, call: ast.Call) -> DType:
        """The dtype that a `T.call_extern` says it returns."""
        if len(call.args) < 2 or call.keywords:
            raise self.source.error(
                call, "T.call_extern takes a dtype, the name of a function and its arguments", "text.C5"
            )
        return self.scalars.dtype_of(call.args[0], self.context.string(call.args[0]))

    def stored(self, call: ast.Call, place: Load) -> Stmt:
        """The call of an extern whose result is stored."""
        of = self.result_dtype(call)
        if of is not place.dtype:
            raise self.source.error(call, f"{of} is stored in {place.buffer!r}", "text.C6")
        return self.called(call, self.context.string(call.args[1]), call.args[2:], True, self.source.span(call), place)

    def after_calls(self, item: Stmt | Opener | None, node: ast.stmt) -> Stmt | Opener | None:
        """A statement, or a declaration, after the calls of externs that stand in it."""
        before, self.before = self.before, []
        if not before:
            return item
        lazy = _lazy(node, self.scalars.module_member)
        if lazy is not None:
            raise self.source.unsupported(lazy, "an extern may be called or not here; that is not handled", "text.C7")

        def around(rest: Stmt) -> Stmt:
            body = seq(*(call for _, call in before), rest)
            for cell, _ in reversed(before):
                body = Allocate(cell, body, span=self.source.span(node))
            return body

        if item is None or isinstance(item, Stmt):
            return around(seq() if item is None else item)
        return lambda rest: around(item(rest))

    def called(
        self, call: ast.Call, name: str, args: Sequence[ast.expr], extern: bool, span: Span, result: Load | None = None
    ) -> Stmt:
        """A call of `name`, inside the views that its arguments need."""
        if call.keywords:
            raise self.source.error(call, "the arguments of a call have no names", "text.C5")
        views: list[View] = []
        given = tuple(self.argument(a, views) for a in args)
        body: Stmt = Call(name, given, extern, result, span=span)
        for v in reversed(views):
            body = Alias(v, body, span=span)
        return body

    def argument(self, node: ast.expr, views: list[View]) -> Buffer | Expr | str:
        """Reads an argument: a string, a buffer or a number; a pointer into a buffer adds a view to `views`."""
        match node:
            case ast.Constant(value=str(text)):
                return text
            case ast.Name() if isinstance(self.names.get(node.id), Buffer):
                return self.buffers.memory(node)
            case ast.Attribute(attr="data"):
                return self.buffers.memory(node)
            case ast.Call() if self.context.member(node) == "tvm_stack_make_array" and node.args:
                return self.buffers.memory(node.args[0])
            case ast.Call(args=[ast.Subscript() as element]) if self.context.member(node) == "address_of":
                place = self.scalars.element(element, [self.context.integer(i) for i in _indices(element)])
                offset: Expr = const(0)
                for i, step in zip(place.indices, dense_strides(place.buffer.shape), strict=True):
                    offset = offset + (const(int(i.value)) if isinstance(i, Const) else cast(i, INT64)) * step
                return self.window(place.buffer, offset, None, False, views)
            case ast.Call(args=[_, data, offset_, extent, mask]) if self.context.member(node) == "tvm_access_ptr":
                size, access = self.scalars.expr(extent), self.scalars.expr(mask)
                length: Dim = int(size.value) if isinstance(size, Const) else cast(size, INT64)
                only = isinstance(access, Const) and int(access.value) == READ
                first = self.context.integer(offset_)
                first = const(int(first.value)) if isinstance(first, Const) else cast(first, INT64)
                lanes = self.scalars.packed.get(self.buffers.memory(data), 1)
                length = length * lanes if isinstance(length, int) else apply("mul", length, lanes)
                return self.window(self.buffers.memory(data), first * lanes, length, only, views)
            case _:
                return self.scalars.expr(node)

    def window(self, source: Buffer, offset: Expr, length: Dim | None, constant: bool, views: list[View]) -> Buffer:
        """A view of the elements from `offset` on, in row-major order."""
        made = from_element(source, offset, length, constant=constant)
        views.append(made)
        return made.buffer


def _lazy(root: ast.AST, member: Callable[[ast.expr], str | None]) -> ast.AST | None:
    """A call of an extern in an expression that may be left out."""
    work = Worklist([(root, False)])
    for node, lazy in work:
        name = member(node.func) if isinstance(node, ast.Call) else None
        if name in EXTERNAL and lazy:
            return node
        choice = isinstance(node, (ast.BoolOp, ast.IfExp)) or name in ("if_then_else", "Select", "And", "Or")
        work.add((c, lazy or choice) for c in ast.iter_child_nodes(node))
    return None


def _indices(node: ast.Subscript) -> list[ast.expr]:
    return list(node.slice.elts) if isinstance(node.slice, ast.Tuple) else [node.slice]
