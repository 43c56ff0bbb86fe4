"""The graph IR: expressions over tensors, with sharing by identity (rule M2; specs/semantics.md, "Graph IR").

The nodes are in `assay.semantics.graph.nodes`; here are the constructors that derive a node's type from its parts and
check them. A node with two parents is one evaluation.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from assay.semantics.bits import fixed
from assay.semantics.devices import ANYWHERE, VirtualDevice
from assay.semantics.dtypes import BOOL, INT64, dtype
from assay.semantics.errors import Invalid, Span
from assay.semantics.graph.matching import compatible, instantiate as instantiate, join, match_types
from assay.semantics.graph.nodes import (
    AssertOp as AssertOp,
    Bind as Bind,
    Call as Call,
    CallTIR as CallTIR,
    Clause as Clause,
    Constant as Constant,
    Constructor as Constructor,
    Dataflow as Dataflow,
    Expr as Expr,
    ExternFunc as ExternFunc,
    Fields as Fields,
    Function as Function,
    GlobalVar as GlobalVar,
    If as If,
    Let as Let,
    Made as Made,
    Match as Match,
    MatchCast as MatchCast,
    OnDevice as OnDevice,
    Pattern as Pattern,
    Print as Print,
    RefCreate as RefCreate,
    RefRead as RefRead,
    RefWrite as RefWrite,
    ShapeExpr as ShapeExpr,
    ShapeOf as ShapeOf,
    Tuple as Tuple,
    TupleGetItem as TupleGetItem,
    Var as Var,
    Wildcard as Wildcard,
    bound_by,
    let_chain as let_chain,
)
from assay.semantics.operator import Operator
from assay.semantics.ops import operator
from assay.semantics.scalar import Dim, Var as Symbol, evaluate_dim, show, without_value
from assay.semantics.types import (
    UNIT,
    DataDef,
    DataType,
    FuncType,
    RefType,
    ShapeType,
    TensorType,
    TupleType,
    Type,
    TypeVar,
    dims,
    flatten,
    same_type,
    with_dims,
)
from assay.semantics.walk import Worklist, post_order

# --- construction, with types ------------------------------------------------------------------------------------


def var(name: str, type: Type) -> Var:
    """A fresh variable: no other Var is equal to it, whatever its name."""
    return Var(type, name)


def constant(data: Any, of: str | None = None, span: Span | None = None) -> Constant:
    """A tensor literal; `of` names its dtype where `data` is not a NumPy array. An array that can be written is copied:
    what is done to it later changes no program."""
    array = fixed(np.asarray(data, dtype=None if of is None else dtype(of).numpy))
    return Constant(TensorType(array.shape, dtype(array.dtype)), array, span=span)


def call(
    op: Operator | str | Expr, *args: Expr, type_args: Sequence[Type] = (), span: Span | None = None, **attrs: Any
) -> Call:
    """`op` applied to `args`, typed. `op` is an operator, its name, or an expression of function type.

    `type_args` say what the callee's type parameters stand for; without them the arguments say it.
    """
    if isinstance(op, str):
        op = operator(op)
    try:
        if isinstance(op, Operator):
            op.check_operands(len(args))
            filled = op.check_attrs(attrs)
            made = Call(op.type_rule(filled, _tensors(op, args)), op, args, filled, span=span)
            require_sizes(made)
            return made
        if attrs:
            raise Invalid("a call of a function takes no attributes", label="call.C2")
        result = _applied(op.type, [a.type for a in args], type_args)
        return Call(result, op, args, {}, tuple(type_args), span=span)
    except Invalid as e:
        raise e.at(span) from None


def _tensors(op: Operator, args: Sequence[Expr]) -> tuple[TensorType, ...]:
    types: list[TensorType] = []
    for i, arg in enumerate(args):
        if not isinstance(arg.type, TensorType):
            raise Invalid(f"{op.name}: operand {i} is {arg.type}, not a tensor", label="call.C4")
        types.append(arg.type)
    return tuple(types)


def _applied(func: Type, args: Sequence[Type], type_args: Sequence[Type]) -> Type:
    """The result type of a call: parameters' symbols take the arguments' dims (rule M4)."""
    if not isinstance(func, FuncType):
        raise Invalid(f"called expression is {func}, not a function", label="call.C5")
    if len(func.params) != len(args):
        raise Invalid(f"function takes {len(func.params)} arguments, {len(args)} given", label="call.C6")
    if type_args and len(type_args) != len(func.type_params):
        raise Invalid(f"function takes {len(func.type_params)} type arguments, {len(type_args)} given", label="call.C9")
    bound: dict[Symbol | TypeVar, Dim | Type] = dict(zip(func.type_params, type_args, strict=False))
    match_types(func.params, args, bound, func.type_params)
    for t in func.type_params:
        if t not in bound:
            raise Invalid(f"no argument says what {t} is: give type_args", label="call.C10")
    return instantiate(func.result, bound, fresh=True)


def call_tir(
    func: str, args: Sequence[Expr], result: Type, span: Span | None = None, scalars: Sequence[Dim] = ()
) -> CallTIR:
    """A call of the module's tensor function `func`; `result` is the type of the tensors that it fills."""
    return CallTIR(result, func, tuple(args), tuple(scalars), span=span)


def extern(name: str, params: Sequence[Type], result: Type, pure: bool = False) -> ExternFunc:
    """A function outside the language. Calls of one that is not `pure` are in the trace of effects (rule M1)."""
    return ExternFunc(FuncType(tuple(params), result, pure=pure), name)


def constructor(data: DataDef, name: str) -> Constructor:
    """The constructor `name` of a data type, as a function of its fields."""
    if name not in data.constructors:
        known = ", ".join(data.constructors)
        raise Invalid(f"{data.name} has no constructor {name}; it has {known}", label="data.C1")
    type_ = FuncType(data.constructors[name], data.type, type_params=data.type_params)
    return Constructor(type_, data.name, name)


def tuple_of(*fields: Expr, span: Span | None = None) -> Tuple:
    """A tuple of these fields."""
    return Tuple(TupleType(tuple(f.type for f in fields)), fields, span=span)


def get(value: Expr, index: int, span: Span | None = None) -> TupleGetItem:
    """Field `index`, from 0, of a tuple; Invalid (tuple.C1) where there is none."""
    if not isinstance(value.type, TupleType) or not 0 <= index < len(value.type.fields):
        raise Invalid(f"no field {index} in {value.type}", where=span, label="tuple.C1")
    return TupleGetItem(value.type.fields[index], value, index, span=span)


def let(var: Var, value: Expr, body: Expr, span: Span | None = None, dataflow: Dataflow | None = None) -> Let:
    """`body` with `var` bound to `value`; Invalid (let.C1) where their types differ."""
    if not same_type(var.type, value.type):
        raise Invalid(f"{var.name} is {var.type}, but its value is {value.type}", where=span, label="let.C1")
    return Let(body.type, var, value, body, span=span, dataflow=dataflow)


def if_(condition: Expr, then: Expr, otherwise: Expr, span: Span | None = None) -> If:
    """Dims in which the branches may differ are unknown in the result: fresh symbols."""
    _condition(condition, span)
    try:
        return If(join([then.type, otherwise.type]), condition, then, otherwise, span=span)
    except Invalid:
        raise Invalid(f"branches are {then.type} and {otherwise.type}", where=span, label="if.C2") from None


def _condition(condition: Expr, span: Span | None) -> None:
    t = condition.type
    if not (isinstance(t, TensorType) and t.shape == () and t.dtype is BOOL):
        raise Invalid(f"the condition is {t}, not a bool scalar", where=span, label="if.C1")


def function(
    params: Sequence[Var],
    body: Expr,
    result: Type | None = None,
    *,
    type_params: Sequence[TypeVar] = (),
    pure: bool | None = None,
    span: Span | None = None,
    **attrs: Any,
) -> Function:
    """A function. A declared `result` is checked against the body's type, never silently replaced (rule M4).

    `pure` is found from the body where it is not given; a function declared pure must not act (rule M2.6).
    """
    if result is not None and not compatible(result, body.type, [p.type for p in params], type_params):
        raise Invalid(f"declared result {result}, but the body is {body.type}", where=span, label="func.C1")
    inert = not any(acts(n) for n in post_order(body, lambda n: () if isinstance(n, Function) else n.children))
    if pure and not inert:
        raise Invalid("a function that is declared pure acts", where=span, label="func.C2")
    types = tuple(p.type for p in params)
    type_ = FuncType(types, result or body.type, type_params=tuple(type_params), pure=inert if pure is None else pure)
    return Function(type_, tuple(params), body, attrs, span=span)


def ref(value: Expr, span: Span | None = None) -> RefCreate:
    """A fresh mutable cell that holds `value`."""
    return RefCreate(RefType(value.type), value, span=span)


def read(ref: Expr, span: Span | None = None) -> RefRead:
    """What the cell `ref` holds; Invalid where `ref` is no reference."""
    return RefRead(_cell(ref, span), ref, span=span)


def write(ref: Expr, value: Expr, span: Span | None = None) -> RefWrite:
    """A write of `value` to the cell `ref`; Invalid (ref.C2) where the cell is of another type."""
    if not same_type(_cell(ref, span), value.type):
        raise Invalid(f"{value.type} is written to {ref.type}", where=span, label="ref.C2")
    return RefWrite(UNIT, ref, value, span=span)


def _cell(ref: Expr, span: Span | None) -> Type:
    if not isinstance(ref.type, RefType):
        raise Invalid(f"{ref.type} is not a reference", where=span, label="ref.C1")
    return ref.type.value


def print_(*values: Expr, format: str = "", span: Span | None = None) -> Print:
    """A print of `values`, by `format`; its result is the empty tuple."""
    return Print(UNIT, values, format, span=span)


def assert_op(condition: Expr, *values: Expr, format: str = "", span: Span | None = None) -> AssertOp:
    """A trap unless `condition`, a bool scalar, holds; its result is the empty tuple."""
    _condition(condition, span)
    return AssertOp(UNIT, condition, values, format, span=span)


def match_cast(value: Expr, type: Type, span: Span | None = None) -> MatchCast:
    """`value` as `type`: the same ranks and dtypes, with dims that a run compares. New symbols are bound by it.

    A vector of int64 can be taken as a shape of as many sizes."""
    given = value.type
    if (
        isinstance(type, ShapeType)
        and isinstance(given, TensorType)
        and given.dtype is INT64
        and given.shape == (len(type.dims),)
    ):
        return MatchCast(type, value, span=span)
    if not compatible(type, value.type):
        raise Invalid(f"{value.type} cannot be {type}", where=span, label="match_cast.C1")
    return MatchCast(type, value, span=span)


def on_device(
    value: Expr,
    device: VirtualDevice = ANYWHERE,
    *,
    constrain_body: bool = True,
    constrain_result: bool = False,
    span: Span | None = None,
) -> OnDevice:
    """`value`, which lives on `device`; a copy may follow. See `OnDevice`."""
    return OnDevice(value.type, value, device, constrain_body, constrain_result, span=span)


def device_copy(value: Expr, to: VirtualDevice = ANYWHERE, span: Span | None = None) -> Expr:
    """A tensor's elements on the device `to`: what alone crosses from one device to another."""
    return replace(call(operator("device_copy"), value, span=span), device=to)


def shape(*dims: Dim, span: Span | None = None) -> ShapeExpr:
    """A shape as a value, of these dims."""
    return ShapeExpr(ShapeType(dims), dims, span=span)


def shape_of(value: Expr, span: Span | None = None) -> ShapeOf:
    """The shape of a tensor as a value; Invalid (shape_of.C1) where `value` is no tensor."""
    if not isinstance(value.type, TensorType):
        raise Invalid(f"{value.type} has no shape", where=span, label="shape_of.C1")
    return ShapeOf(ShapeType(value.type.shape), value, span=span)


def match(value: Expr, *clauses: tuple[Pattern, Expr], partial: bool = False, span: Span | None = None) -> Match:
    """The clauses in order. A match that is not `partial` must cover every value: `assay.semantics.rules` checks it."""
    if not clauses:
        raise Invalid("a match has no clause", where=span, label="match.C1")
    for pattern, _ in clauses:
        _check_pattern(pattern, value.type, span)
    try:
        result = join([body.type for _, body in clauses])
    except Invalid:
        got = ", ".join(str(body.type) for _, body in clauses)
        raise Invalid(f"the clauses are {got}", where=span, label="match.C2") from None
    return Match(result, value, tuple(Clause(p, b) for p, b in clauses), partial, span=span)


def _check_pattern(pattern: Pattern, of: Type, span: Span | None) -> None:
    work = Worklist([(pattern, of)])
    for pattern, of in work:
        types: Sequence[Type]
        match pattern:
            case Wildcard():
                continue
            case Bind():
                types = (pattern.var.type,)
                if not same_type(pattern.var.type, of):
                    raise Invalid(
                        f"{pattern.var.name} is {pattern.var.type}, matched with {of}", where=span, label="match.C3"
                    )
                continue
            case Fields():
                if not isinstance(of, TupleType):
                    raise Invalid(f"a tuple pattern is matched with {of}", where=span, label="match.C3")
                types = of.fields
            case Made():
                made = pattern.constructor
                if not isinstance(of, DataType) or of.name != made.data:
                    raise Invalid(f"{made.name} of {made.data} is matched with {of}", where=span, label="match.C3")
                types = field_types(made, of)
        if len(types) != len(pattern.fields):
            raise Invalid(f"a pattern has {len(pattern.fields)} fields for {len(types)}", where=span, label="match.C4")
        work.add(zip(pattern.fields, types, strict=True))


def field_types(made: Constructor, of: DataType) -> tuple[Type, ...]:
    """The fields of a constructor at the type arguments of `of`."""
    assert isinstance(made.type, FuncType)
    if len(made.type.type_params) != len(of.args):
        raise Invalid(
            f"{of.name} takes {len(made.type.type_params)} type arguments, {len(of.args)} given", label="data.C2"
        )
    bound: dict[Symbol | TypeVar, Dim | Type] = dict(zip(made.type.type_params, of.args, strict=True))
    return tuple(instantiate(t, bound) for t in made.type.params)


# --- reading -----------------------------------------------------------------------------------------------------


def acts(node: Expr) -> bool:
    """Whether evaluating the node itself is an action: its place in the order can be observed (rule M1)."""
    match node:
        case RefCreate() | RefRead() | RefWrite() | Print() | AssertOp():
            return True
        case Call() if isinstance(node.op, Expr):
            return isinstance(node.op.type, FuncType) and not node.op.type.pure
        case _:
            return False


def free_variables(expr: Expr) -> list[Var]:
    """Variables used but not bound inside `expr`, in order of first occurrence."""
    bound: set[Var] = set()
    used: dict[Var, None] = {}
    for node in post_order(expr):
        bound.update(bound_by(node))
        if isinstance(node, Var):
            used[node] = None
    return [v for v in used if v not in bound]


def dims_at(of: Type, env: Mapping[Symbol, int]) -> Type:
    """`of` with every dim a number; Invalid for what is not tensors and tuples of them."""
    flatten(of)
    return with_dims(of, lambda d: evaluate_dim(d, env))


def require_sizes(node: Expr) -> None:
    """Invalid (graph.C13): a size in the type of `node` is a number that none has (rule M4.1)."""
    for t in node.type.fields if isinstance(node.type, TupleType) else (node.type,):
        for d in dims(t):
            if isinstance(d, int) and not 0 <= d < 1 << 63:
                raise Invalid(f"{show_head(node)}: {d} is no size: 0 to 2**63 - 1 are", label="graph.C13")
            if why := without_value(d):
                raise Invalid(f"{show_head(node)}: {show(d)} is no size: {why}", label="graph.C13")


def show_head(node: Expr) -> str:
    """One line that names a node: what it does, and its type."""
    match node:
        case Var() | GlobalVar() | ExternFunc() | Constructor():
            return f"{node.name}: {node.type}"
        case Call():
            op = node.op
            named = (Operator, Var, GlobalVar, ExternFunc, Constructor)
            name = op.name if isinstance(op, named) else type(op).__name__.lower()
            attrs = ", ".join(f"{k}={_show_attr(v)}" for k, v in node.attrs.items())
            return f"{name}({attrs}): {node.type}"
        case CallTIR():
            return f"call_tir({node.func}): {node.type}"
        case _:
            return f"{type(node).__name__.lower()}: {node.type}"


def _show_attr(value: Any) -> str:
    if isinstance(value, tuple):
        return "(" + ", ".join(map(_show_attr, value)) + ")"
    return str(value)
