"""The graph IR: expressions over tensors, with sharing by identity (rule M2; specs/semantics.md, "Graph IR").

Nodes are immutable. Each carries its type, which the constructors (`call`, `let`, ...) derive from the parts, a
virtual device and a source span. A node with two parents is one evaluation.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from assay.semantics.dtypes import BOOL, dtype
from assay.semantics.errors import Invalid, Span
from assay.semantics.operator import Operator
from assay.semantics.ops import operator
from assay.semantics.scalar import (
    Dim,
    Expr as Scalar,
    Var as Symbol,
    evaluate_dim,
    provably_equal,
    show,
    simplify,
    substitute as substitute_scalar,
)
from assay.semantics.types import (
    ANYWHERE,
    FuncType,
    TensorType,
    TupleType,
    Type,
    VirtualDevice,
    flatten,
    replaced,
    same_type,
)
from assay.semantics.walk import post_order


@dataclass(frozen=True, eq=False, repr=False)
class Expr:
    """Base of graph expressions; compared by identity."""

    type: Type
    device: VirtualDevice = field(default=ANYWHERE, kw_only=True)
    span: Span | None = field(default=None, kw_only=True)

    @property
    def children(self) -> Sequence[Expr]:
        return ()

    def with_children(self, children: Sequence[Expr]) -> Expr:
        return self

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.type}>"


@dataclass(frozen=True, eq=False, repr=False)
class Var(Expr):
    """A parameter or a let-bound variable. Two Vars are equal if they are one; names are for people."""

    name: str


@dataclass(frozen=True, eq=False, repr=False)
class Constant(Expr):
    """A tensor literal; `data` is never written."""

    data: np.ndarray[Any, Any]


@dataclass(frozen=True, eq=False, repr=False)
class GlobalVar(Expr):
    """A name of the module: a function, or a constant of its table."""

    name: str


@dataclass(frozen=True, eq=False, repr=False)
class Call(Expr):
    """An operator, or an expression of function type, applied to arguments."""

    op: Operator | Expr
    args: tuple[Expr, ...]
    attrs: Mapping[str, Any] = field(default_factory=dict)

    @property
    def children(self) -> Sequence[Expr]:
        return (self.op, *self.args) if isinstance(self.op, Expr) else self.args

    def with_children(self, children: Sequence[Expr]) -> Expr:
        if _same_parts(children, self.children):
            return self
        if isinstance(self.op, Expr):
            return replace(self, op=children[0], args=tuple(children[1:]))
        return replace(self, args=tuple(children))


@dataclass(frozen=True, eq=False, repr=False)
class CallTIR(Expr):
    """A tensor function of the module, by name, applied to arguments; it fills fresh tensors of the result's type."""

    func: str
    args: tuple[Expr, ...]

    @property
    def children(self) -> Sequence[Expr]:
        return self.args

    def with_children(self, children: Sequence[Expr]) -> Expr:
        return self if _same_parts(children, self.args) else replace(self, args=tuple(children))


@dataclass(frozen=True, eq=False, repr=False)
class Tuple(Expr):
    fields: tuple[Expr, ...]

    @property
    def children(self) -> Sequence[Expr]:
        return self.fields

    def with_children(self, children: Sequence[Expr]) -> Expr:
        return self if _same_parts(children, self.fields) else replace(self, fields=tuple(children))


@dataclass(frozen=True, eq=False, repr=False)
class TupleGetItem(Expr):
    value: Expr
    index: int

    @property
    def children(self) -> Sequence[Expr]:
        return (self.value,)

    def with_children(self, children: Sequence[Expr]) -> Expr:
        return self if children[0] is self.value else replace(self, value=children[0])


@dataclass(frozen=True, eq=False, repr=False)
class Let(Expr):
    """`var` names the value of `value` in `body`; the value comes first (rule M3)."""

    var: Var
    value: Expr
    body: Expr

    @property
    def children(self) -> Sequence[Expr]:
        return (self.value, self.body)

    def with_children(self, children: Sequence[Expr]) -> Expr:
        if _same_parts(children, self.children):
            return self
        return replace(self, value=children[0], body=children[1])


@dataclass(frozen=True, eq=False, repr=False)
class If(Expr):
    """`then` where the bool scalar `condition` holds, else `otherwise`; only the taken branch is demanded."""

    condition: Expr
    then: Expr
    otherwise: Expr

    @property
    def children(self) -> Sequence[Expr]:
        return (self.condition, self.then, self.otherwise)

    def with_children(self, children: Sequence[Expr]) -> Expr:
        if _same_parts(children, self.children):
            return self
        condition, then, otherwise = children
        return replace(self, condition=condition, then=then, otherwise=otherwise)


@dataclass(frozen=True, eq=False, repr=False)
class Function(Expr):
    """A function of the graph language; a closure over the variables that it does not bind."""

    params: tuple[Var, ...]
    body: Expr
    attrs: Mapping[str, Any] = field(default_factory=dict)

    @property
    def children(self) -> Sequence[Expr]:
        return (self.body,)

    def with_children(self, children: Sequence[Expr]) -> Expr:
        return self if children[0] is self.body else replace(self, body=children[0])

    @property
    def result_type(self) -> Type:
        assert isinstance(self.type, FuncType)
        return self.type.result


def _same_parts(a: Sequence[Expr], b: Sequence[Expr]) -> bool:
    return len(a) == len(b) and all(x is y for x, y in zip(a, b, strict=True))


# --- construction, with types ------------------------------------------------------------------------------------


def var(name: str, type: Type) -> Var:
    return Var(type, name)


def constant(data: Any, of: str | None = None, span: Span | None = None) -> Constant:
    """A tensor literal; `of` names its dtype where `data` is not a NumPy array."""
    array = np.asarray(data, dtype=None if of is None else dtype(of).numpy)
    array = array.view()
    array.flags.writeable = False
    return Constant(TensorType(array.shape, dtype(array.dtype)), array, span=span)


def call(op: Operator | str | Expr, *args: Expr, span: Span | None = None, **attrs: Any) -> Call:
    """`op` applied to `args`, typed. `op` is an operator, its name, or an expression of function type."""
    if isinstance(op, str):
        op = operator(op)
    try:
        if isinstance(op, Operator):
            op.check_operands(len(args))
            filled = op.check_attrs(attrs)
            return Call(op.type_rule(filled, _tensors(op, args)), op, args, filled, span=span)
        if attrs:
            raise Invalid("a call of a function takes no attributes", label="call.C2")
        return Call(_applied(op.type, [a.type for a in args]), op, args, span=span)
    except Invalid as e:
        raise e.at(span) from None


def _tensors(op: Operator, args: Sequence[Expr]) -> tuple[TensorType, ...]:
    types: list[TensorType] = []
    for i, arg in enumerate(args):
        if not isinstance(arg.type, TensorType):
            raise Invalid(f"{op.name}: operand {i} is {arg.type}, not a tensor", label="call.C4")
        types.append(arg.type)
    return tuple(types)


def _applied(func: Type, args: Sequence[Type]) -> Type:
    """The result type of a call: parameters' symbols take the arguments' dims (rule M4)."""
    if not isinstance(func, FuncType):
        raise Invalid(f"called expression is {func}, not a function", label="call.C5")
    if len(func.params) != len(args):
        raise Invalid(f"function takes {len(func.params)} arguments, {len(args)} given", label="call.C6")
    bound: dict[Symbol, Dim] = {}
    for i, (want, got) in enumerate(zip(func.params, args, strict=True)):
        match_type(want, got, bound, f"argument {i}")
    return instantiate(func.result, bound)


def match_type(want: Type, got: Type, bound: dict[Symbol, Dim], what: str) -> None:
    """Bind the symbols of `want` so that it becomes `got`; Invalid, with both, where that cannot be."""
    rest = [(want, got, what)]
    while rest:
        want, got, what = rest.pop()
        match want, got:
            case TensorType(), TensorType():
                ok = want.dtype is got.dtype and want.ndim == got.ndim
                for w, g in zip(want.shape, got.shape, strict=False) if ok else ():
                    if isinstance(w, Symbol) and w not in bound:
                        bound[w] = g
                    else:
                        ok = ok and provably_equal(instantiate_dim(w, bound), g)
            case TupleType(), TupleType():
                ok = len(want.fields) == len(got.fields)
                parts = [(w, g, f"{what}.{i}") for i, (w, g) in enumerate(zip(want.fields, got.fields, strict=False))]
                rest += reversed(parts)
            case _:
                ok = same_type(want, got)
        if not ok:
            raise Invalid(f"{what} is {got}, expected {instantiate(want, bound)}", label="call.C7")


def instantiate_dim(dim: Dim, bound: Mapping[Symbol, Dim]) -> Dim:
    return simplify(substitute_scalar(dim, bound)) if isinstance(dim, Scalar) else dim


def instantiate(of: Type, bound: Mapping[Symbol, Dim]) -> Type:
    """`of` with symbols replaced by dims."""
    if not bound:
        return of
    return replaced(of, lambda t: TensorType(tuple(instantiate_dim(d, bound) for d in t.shape), t.dtype))


def call_tir(func: str, args: Sequence[Expr], result: Type, span: Span | None = None) -> CallTIR:
    return CallTIR(result, func, tuple(args), span=span)


def tuple_of(*fields: Expr, span: Span | None = None) -> Tuple:
    return Tuple(TupleType(tuple(f.type for f in fields)), fields, span=span)


def get(value: Expr, index: int, span: Span | None = None) -> TupleGetItem:
    if not isinstance(value.type, TupleType) or not 0 <= index < len(value.type.fields):
        raise Invalid(f"no field {index} in {value.type}", where=span, label="tuple.C1")
    return TupleGetItem(value.type.fields[index], value, index, span=span)


def let(var: Var, value: Expr, body: Expr, span: Span | None = None) -> Let:
    if not same_type(var.type, value.type):
        raise Invalid(
            f"{var.name} is {var.type}, but its value is {value.type}", where=span, label="let.C1"
        )
    return Let(body.type, var, value, body, span=span)


def if_(condition: Expr, then: Expr, otherwise: Expr, span: Span | None = None) -> If:
    t = condition.type
    if not (isinstance(t, TensorType) and t.shape == () and t.dtype is BOOL):
        raise Invalid(f"the condition is {t}, not a bool scalar", where=span, label="if.C1")
    if not same_type(then.type, otherwise.type):
        raise Invalid(
            f"branches are {then.type} and {otherwise.type}", where=span, label="if.C2"
        )
    return If(then.type, condition, then, otherwise, span=span)


def function(
    params: Sequence[Var], body: Expr, result: Type | None = None, **attrs: Any
) -> Function:
    """A function. A declared `result` is checked against the body's type, never silently replaced (rule M4)."""
    if result is not None and not same_type(result, body.type):
        raise Invalid(f"declared result {result}, but the body is {body.type}", label="func.C1")
    type_ = FuncType(tuple(p.type for p in params), result or body.type)
    return Function(type_, tuple(params), body, attrs)


# --- reading -----------------------------------------------------------------------------------------------------


def free_variables(expr: Expr) -> list[Var]:
    """Variables used but not bound inside `expr`, in order of first occurrence."""
    bound: set[Var] = set()
    used: dict[Var, None] = {}
    for node in post_order(expr):
        match node:
            case Var():
                used[node] = None
            case Let():
                bound.add(node.var)
            case Function():
                bound.update(node.params)
    return [v for v in used if v not in bound]


def dims_at(of: Type, env: Mapping[Symbol, int]) -> Type:
    """`of` with every dim a number; Invalid for a function, which is not data."""
    flatten(of)
    return replaced(of, lambda t: TensorType(tuple(evaluate_dim(d, env) for d in t.shape), t.dtype))


def show_head(node: Expr) -> str:
    """One line that names a node: what it does, and its type."""
    match node:
        case Var() | GlobalVar():
            return f"{node.name}: {node.type}"
        case Call():
            name = node.op.name if isinstance(node.op, (Operator, Var, GlobalVar)) else type(node.op).__name__.lower()
            attrs = ", ".join(f"{k}={_show_attr(v)}" for k, v in node.attrs.items())
            return f"{name}({attrs}): {node.type}"
        case CallTIR():
            return f"call_tir({node.func}): {node.type}"
        case _:
            return f"{type(node).__name__.lower()}: {node.type}"


def _show_attr(value: Any) -> str:
    if isinstance(value, tuple):
        return "(" + ", ".join(map(_show_attr, value)) + ")"
    return show(value) if isinstance(value, Scalar) else str(value)
