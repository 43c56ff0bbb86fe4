"""Calls of functions by tensor functions, out of live TVM objects (rule M6.13; specs/lower.md, "tvm").

A tensor function of the module is called with buffers and scalars in TVM's order, here in ours: what it reads, what it
writes, scalars. A buffer may be handed over from some element on; that is a view of it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from assay.lower.frontends.tvm.accesses import inner, stores_and_views, viewed
from assay.lower.frontends.tvm.objects import Object, handle, op_name, prim_dtype, type_key, unique_name
from assay.lower.frontends.tvm.scalars import Scalars, function_name, subexpressions
from assay.semantics.errors import Invalid, Unsupported
from assay.semantics.scalar import Const, Dim, Expr, Load, as_expr, cast, const
from assay.semantics.tensor import Alias, Allocate, Buffer, Call, Stmt, View, seq
from assay.semantics.tensor.calls import from_element, size_of
from assay.semantics.tensor.places import strides_of
from assay.semantics.walk import Worklist, occurrences, reached

PACKED = ("tirx.tvm_call_packed", "tirx.tvm_call_cpacked", "tirx.call_extern", "tirx.call_pure_extern")
MEMORY = ("tirx.BufferType", "ir.PointerType")
"""Types of variables that are buffers, or pointers to their elements."""
READ = 1
"""The access mask of tvm_access_ptr for what is only read."""


class StatementReader(Protocol):
    """What the reading of a call asks of the reader of statements around it."""

    where: str
    scalars: Scalars
    names: set[str]
    roots: dict[int, tuple[Buffer, Expr]]

    @property
    def callee(self) -> Callable[[str], tuple[str, Sequence[int]]]:
        """Finds a tensor function's name and which of its parameters are outputs."""
        ...

    def unsupported(self, what: str) -> Unsupported:
        """The failure for what is not handled."""
        ...

    def buffer(self, o: Object) -> Buffer:
        """The buffer that a TVM buffer became."""
        ...


def is_invocation(o: Object) -> bool:
    """Whether an expression is a call of a tensor function or of an extern."""
    return type_key(o) == "ir.Call" and (type_key(o.op) == "ir.GlobalVar" or op_name(o.op) in PACKED)


def invocation(reader: StatementReader, o: Object, result: Load | None = None) -> Stmt:
    """The statement that a call is; `result` is where the number goes that an extern returns, if it is wanted."""
    views: list[View] = []
    given = [argument(reader, a, views) for a in o.args]
    if type_key(o.op) == "ir.GlobalVar":
        name, order = reader.callee(str(o.op.name_hint))
        if len(order) != len(given):
            raise Invalid(f"{name} takes {len(order)} arguments, {len(given)} are given", label="tvm.C8")
        body: Stmt = Call(name, tuple(given[k] for k in order))
    else:
        called, *handed = given
        if not isinstance(called, str):
            raise reader.unsupported("an extern whose name is no literal")
        body = Call(called, tuple(handed), extern=True, result=result)
    for v in reversed(views):
        body = Alias(v, body)
    return body


@dataclass
class Before:
    """The calls of externs that stand in the expressions of a statement: they are done before it."""

    reader: StatementReader
    calls: list[tuple[Buffer, Stmt]] = field(default_factory=list)

    def __call__(self, o: Object) -> Expr:
        """What the extern returns: the element of a cell."""
        reader = self.reader
        cell = Buffer(unique_name("result", reader.names), (1,), prim_dtype(o.ty, reader.where), "local")
        place = Load(cell.dtype, cell, (const(0),))
        self.calls.append((cell, invocation(reader, o, place)))
        return place

    def around(self, stmt: Stmt, o: Object) -> Stmt:
        """`stmt`, which TVM's statement `o` became, after its calls."""
        if not self.calls:
            return stmt
        lazy = any(is_lazy(e) for e in expressions(o))
        if lazy or type_key(o) not in HEADS:
            raise self.reader.unsupported("an extern that may be called or not, or again and again,")
        calls, self.calls = self.calls, []
        self.reader.scalars.done.clear()  # what is shared with other statements is another call there
        body = seq(*(call for _, call in calls), stmt)
        for cell, _ in reversed(calls):
            body = Allocate(cell, body)
        return body


HEADS = ("tirx.BufferStore", "tirx.Evaluate", "tirx.AssertStmt", "tirx.IfThenElse", "tirx.Bind")
"""Statements whose expressions are evaluated once, before anything else of them."""


def expressions(o: Object) -> list[Object]:
    """The expressions of such a statement."""
    match type_key(o):
        case "tirx.BufferStore":
            return [*o.indices, o.value]
        case "tirx.Evaluate" | "tirx.Bind":
            return [o.value]
        case "tirx.AssertStmt" | "tirx.IfThenElse":
            return [o.condition]
        case _:
            return []


def is_lazy(root: Object) -> bool:
    """Whether a call of an extern stands where it may be left out."""
    work = Worklist([(root, False)])
    for o, lazy in work:
        if type_key(o) == "ir.Call" and op_name(o.op) in PACKED and lazy:
            return True
        choice = type_key(o) in ("prim.And", "prim.Or", "prim.Select") or (
            type_key(o) == "ir.Call" and function_name(o) == "if_then_else"
        )
        work.add((p, lazy or choice) for p in subexpressions(o))
    return False


def argument(reader: StatementReader, o: Object, views: list[View]) -> Buffer | Expr | str:
    """What is handed over; what must exist for that is appended to `views`."""
    if type_key(o) == "ir.StringImm":
        return str(o.value)
    if type_key(o) == "ir.Var" and type_key(o.ty) in MEMORY:
        return reader.buffer(o)
    match op_name(o.op) if type_key(o) == "ir.Call" else None:
        case "tirx.buffer_data":
            return memory(reader, o, const(0), None, False, views)
        case "tirx.tvm_stack_make_array":
            return memory(reader, o.args[0], const(0), None, False, views)
        case "tirx.address_of":
            load = o.args[0]
            source = reader.buffer(load.source)
            offset: Expr = const(0)
            rank = len(source.shape) - (source in reader.scalars.packed)
            for i, step in zip(load.indices, strides_of(source.shape)[:rank], strict=True):
                offset = offset + reader.scalars.index(i) * as_expr(step)
            views.append(from_element(source, offset))
            return views[-1].buffer
        case "tirx.tvm_access_ptr":
            _, data, first, extent, mask = o.args
            only = type_key(mask) == "ir.IntImm" and int(mask.value) == READ
            return memory(reader, data, reader.scalars.index(first), reader.scalars.dim(extent), only, views)
        case _:
            return reader.scalars.expr(o)


def memory(
    reader: StatementReader, o: Object, offset: Expr, length: Dim | None, constant: bool, views: list[View]
) -> Buffer:
    """The memory behind `buffer_data`, from an element on. The data of a view are those of what it is a view of."""
    if type_key(o) != "ir.Call" or op_name(o.op) != "tirx.buffer_data":
        raise reader.unsupported(f"the memory of {type_key(o)}")
    (of,) = o.args
    source, base = reader.roots.get(handle(of), (reader.buffer(of), const(0)))
    if source is reader.buffer(of) and length is None:
        return source
    own = reader.buffer(of)
    if own.dtype is not source.dtype:  # the same bytes from their start on, as numbers of the view
        if not isinstance(base, Const) or int(base.value) != 0:
            raise reader.unsupported(f"the memory of {own!r}, a view of a part of {source!r},")
        count = size_of(source.shape) * source.dtype.itemsize // own.dtype.itemsize
        whole = Buffer(own.name, (count,), own.dtype, source.scope)
        views.append(View(whole, source, const(0), (const(1),)))
        source = whole
    lanes = reader.scalars.packed.get(own, 1)
    offset, length = offset * lanes, length if length is None or lanes == 1 else length * lanes
    views.append(from_element(source, base + cast(offset, base.dtype), length, constant=constant))
    return views[-1].buffer


def stored_through_calls(
    module: Mapping[str, Object], direct: Mapping[str, tuple[int, ...]]
) -> dict[str, tuple[int, ...]]:
    """The places of the buffer parameters that each function stores to, itself (`direct`) or by what it calls."""
    places = {n: {handle(p): i for i, p in enumerate(module[n].params)} for n in direct}
    handed: dict[tuple[str, int], list[tuple[str, int]]] = {}
    for name in direct:
        _, source = stores_and_views(module[name].body)
        for callee, args in calls_in(module[name].body):
            for k, at in enumerate(args):
                if (place := places[name].get(viewed(at, source))) is not None:
                    handed.setdefault((callee, k), []).append((name, place))
    stores = reached([(n, i) for n, own in direct.items() for i in own], lambda at: handed.get(at, ()))
    return {n: tuple(sorted(i for name, i in stores if name == n)) for n in direct}


def calls_in(root: Object) -> list[tuple[str, list[int]]]:
    """The calls of tensor functions in a body: whom, and the handle of the buffer that each argument is, or 0."""
    found: list[tuple[str, list[int]]] = []
    for o in occurrences(root, inner):
        if type_key(o) == "tirx.Evaluate" and type_key(o.value) == "ir.Call" and type_key(o.value.op) == "ir.GlobalVar":
            found.append((str(o.value.op.name_hint), [buffer_of(a) for a in o.value.args]))
    return found


def buffer_of(o: Object) -> int:
    """The handle of the buffer that an argument hands over; 0 for a scalar."""
    while True:
        match op_name(o.op) if type_key(o) == "ir.Call" else None:
            case "tirx.buffer_data" | "tirx.tvm_stack_make_array" | "tirx.address_of":
                o = o.args[0]
            case "tirx.tvm_access_ptr":
                o = o.args[1]
            case _:
                break
    if type_key(o) == "ir.TensorLoad":
        o = o.source
    return handle(o) if type_key(o) == "ir.Var" and type_key(o.ty) in MEMORY else 0


def parameter_order(params: Sequence[Object], outputs: Sequence[int]) -> list[int]:
    """The places of TVM's parameters in our order: buffers that are only read, those that are written, scalars."""
    buffers = [i for i, p in enumerate(params) if type_key(p.ty) in MEMORY]
    scalars = [i for i in range(len(params)) if i not in buffers]
    return [*(i for i in buffers if i not in outputs), *(i for i in buffers if i in outputs), *scalars]
