"""Calls of functions by tensor functions as they are read (specs/semantics.md, "Text").

    cls.helper(A.data, B.data, n)                             # a tensor function of the module
    T.call_packed("f", A, T.address_of(B[4]), 3)              # an extern

A buffer is handed over whole, or from some element on; the latter is a view of it.
"""

from __future__ import annotations

import ast
from collections.abc import Sequence

from assay.semantics.dtypes import INT64
from assay.semantics.errors import Span
from assay.semantics.scalar import Const, Dim, Expr, cast, const
from assay.semantics.tensor import Alias, Buffer, Call, Stmt, View
from assay.semantics.tensor.calls import size_of
from assay.semantics.text.tensor_blocks import BlockLines

READ = 1
"""The access mask of T.tvm_access_ptr for what is only read."""


class Calls(BlockLines):
    """Reads calls."""

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
        return self.called(call, self.string(args[0]), args[1:], True, span)

    def called(self, call: ast.Call, name: str, args: Sequence[ast.expr], extern: bool, span: Span) -> Stmt:
        if call.keywords:
            raise self.source.error(call, "the arguments of a call have no names", "text.C5")
        views: list[View] = []
        given = tuple(self.argument(a, views) for a in args)
        body: Stmt = Call(name, given, extern, span=span)
        for v in reversed(views):
            body = Alias(v, body, span=span)
        return body

    def argument(self, node: ast.expr, views: list[View]) -> Buffer | Expr | str:
        match node:
            case ast.Constant(value=str(text)):
                return text
            case ast.Name() if isinstance(self.names.get(node.id), Buffer):
                return self.memory(node)
            case ast.Attribute(attr="data"):
                return self.memory(node)
            case ast.Call() if self.member(node) == "tvm_stack_make_array" and node.args:
                return self.memory(node.args[0])
            case ast.Call(args=[ast.Subscript() as element]) if self.member(node) == "address_of":
                place = self.scalars.element(element, [self.integer(i) for i in _indices(element)])
                offset: Expr = const(0)
                for i, step in zip(place.indices, self._dense(place.buffer.shape), strict=True):
                    offset = offset + (const(int(i.value)) if isinstance(i, Const) else cast(i, INT64)) * step
                return self.window(place.buffer, offset, None, False, views)
            case ast.Call(args=[_, data, offset_, extent, mask]) if self.member(node) == "tvm_access_ptr":
                size, access = self.scalars.expr(extent), self.scalars.expr(mask)
                length: Dim = int(size.value) if isinstance(size, Const) else cast(size, INT64)
                only = isinstance(access, Const) and int(access.value) == READ
                first = self.integer(offset_)
                first = const(int(first.value)) if isinstance(first, Const) else cast(first, INT64)
                return self.window(self.memory(data), first, length, only, views)
            case _:
                return self.scalars.expr(node)

    def window(self, source: Buffer, offset: Expr, length: Dim | None, constant: bool, views: list[View]) -> Buffer:
        """A view of the elements from `offset` on, in row-major order."""
        if length is None:
            total = size_of(source.shape)
            rest = (total if isinstance(total, Expr) else const(total)) - offset
            length = int(rest.value) if isinstance(rest, Const) else rest
        made = Buffer(f"{source.name}_from", (length,), source.dtype, source.scope)
        views.append(View(made, source, offset, (const(1),), constant=constant))
        return made


def _indices(node: ast.Subscript) -> list[ast.expr]:
    return list(node.slice.elts) if isinstance(node.slice, ast.Tuple) else [node.slice]
