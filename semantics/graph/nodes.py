"""The nodes of the graph IR (rule M2; specs/semantics.md, "Graph IR").

Nodes are immutable and compared by identity. Each carries its type, which the constructors in
`assay.semantics.graph` derive from the parts, a virtual device and a source span.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, TypeAlias

import numpy as np

from assay.semantics.devices import ANYWHERE, VirtualDevice
from assay.semantics.errors import Span
from assay.semantics.operator import Operator
from assay.semantics.scalar import Dim
from assay.semantics.types import FuncType, Type
from assay.semantics.walk import post_order


@dataclass(frozen=True, eq=False, repr=False)
class Expr:
    """Base of graph expressions; compared by identity."""

    type: Type
    device: VirtualDevice = field(default=ANYWHERE, kw_only=True)
    span: Span | None = field(default=None, kw_only=True)

    @property
    def children(self) -> Sequence[Expr]:
        """The parts of the node, in the order in which `with_children` takes them."""
        return ()

    def with_children(self, children: Sequence[Expr]) -> Expr:
        """The same node around other parts; itself where all parts are the same objects."""
        return self

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.type}>"


@dataclass(frozen=True, eq=False, repr=False)
class Unary(Expr):
    """Base of expressions with one part."""

    value: Expr

    @property
    def children(self) -> Sequence[Expr]:
        """The one part, `value`."""
        return (self.value,)

    def with_children(self, children: Sequence[Expr]) -> Expr:
        """The same node around another `value`."""
        return self if children[0] is self.value else replace(self, value=children[0])


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
class ExternFunc(Expr):
    """A function outside the language, by name, of a function type; it is handed to the interpreter."""

    name: str


@dataclass(frozen=True, eq=False, repr=False)
class Constructor(Expr):
    """A constructor of an algebraic data type of the module: a total function of the fields."""

    data: str
    name: str


@dataclass(frozen=True, eq=False, repr=False)
class Call(Expr):
    """An operator, or an expression of function type, applied to arguments.

    `type_args` say what the callee's type parameters stand for where the arguments do not.
    """

    op: Operator | Expr
    args: tuple[Expr, ...]
    attrs: Mapping[str, Any] = field(default_factory=dict)
    type_args: tuple[Type, ...] = ()

    @property
    def children(self) -> Sequence[Expr]:
        """The callee, if it is an expression, and the arguments."""
        return (self.op, *self.args) if isinstance(self.op, Expr) else self.args

    def with_children(self, children: Sequence[Expr]) -> Expr:
        """The same call of other parts."""
        if _same_parts(children, self.children):
            return self
        if isinstance(self.op, Expr):
            return replace(self, op=children[0], args=tuple(children[1:]))
        return replace(self, args=tuple(children))


@dataclass(frozen=True, eq=False, repr=False)
class CallTIR(Expr):
    """A tensor function of the module, by name, applied to arguments; it fills fresh tensors of the result's type.

    `scalars` are the values of the tensor function's scalar parameters.
    """

    func: str
    args: tuple[Expr, ...]
    scalars: tuple[Dim, ...] = ()

    @property
    def children(self) -> Sequence[Expr]:
        """The arguments."""
        return self.args

    def with_children(self, children: Sequence[Expr]) -> Expr:
        """The same call with other arguments."""
        return self if _same_parts(children, self.args) else replace(self, args=tuple(children))


@dataclass(frozen=True, eq=False, repr=False)
class Tuple(Expr):
    """Several values as one."""

    fields: tuple[Expr, ...]

    @property
    def children(self) -> Sequence[Expr]:
        """The fields."""
        return self.fields

    def with_children(self, children: Sequence[Expr]) -> Expr:
        """A tuple of the same type with other fields."""
        return self if _same_parts(children, self.fields) else replace(self, fields=tuple(children))


@dataclass(frozen=True, eq=False, repr=False)
class TupleGetItem(Unary):
    """Field `index`, from 0, of the tuple `value`."""

    index: int


@dataclass(frozen=True, eq=False)
class Dataflow:
    """The mark of a dataflow block: lets that follow one another and carry the same mark. Nothing in it acts."""


@dataclass(frozen=True, eq=False, repr=False)
class Let(Expr):
    """`var` names the value of `value` in `body`; the value comes first (rule M3).

    A function may use its own variable inside `value`: that is recursion. The symbols of the value's type that have no
    value yet are bound in `body` (rule M4).
    """

    var: Var
    value: Expr
    body: Expr
    dataflow: Dataflow | None = field(default=None, kw_only=True)

    @property
    def children(self) -> Sequence[Expr]:
        """The value, then the body."""
        return (self.value, self.body)

    def with_children(self, children: Sequence[Expr]) -> Expr:
        """The same variable, with another value and body."""
        if _same_parts(children, self.children):
            return self
        return replace(self, value=children[0], body=children[1])


def let_chain(expr: Expr) -> tuple[list[Let], Expr]:
    """The lets that an expression begins with, in order, and what stands behind them: its result."""
    lets: list[Let] = []
    while isinstance(expr, Let):
        lets.append(expr)
        expr = expr.body
    return lets, expr


@dataclass(frozen=True, eq=False, repr=False)
class If(Expr):
    """`then` where the bool scalar `condition` holds, else `otherwise`; only the taken branch is demanded."""

    condition: Expr
    then: Expr
    otherwise: Expr

    @property
    def children(self) -> Sequence[Expr]:
        """The condition and both branches."""
        return (self.condition, self.then, self.otherwise)

    def with_children(self, children: Sequence[Expr]) -> Expr:
        """A branch of the same type, with other parts."""
        if _same_parts(children, self.children):
            return self
        condition, then, otherwise = children
        return replace(self, condition=condition, then=then, otherwise=otherwise)


@dataclass(frozen=True, eq=False, repr=False)
class RefCreate(Unary):
    """A fresh mutable cell that holds `value`. An action: two evaluations make two cells."""


@dataclass(frozen=True, eq=False, repr=False)
class RefRead(Expr):
    """What the cell holds now. An action."""

    ref: Expr

    @property
    def children(self) -> Sequence[Expr]:
        """The reference."""
        return (self.ref,)

    def with_children(self, children: Sequence[Expr]) -> Expr:
        """A read of another reference."""
        return self if children[0] is self.ref else replace(self, ref=children[0])


@dataclass(frozen=True, eq=False, repr=False)
class RefWrite(Expr):
    """The cell holds `value` from now on; the result is the empty tuple. An action."""

    ref: Expr
    value: Expr

    @property
    def children(self) -> Sequence[Expr]:
        """The reference, then the value."""
        return (self.ref, self.value)

    def with_children(self, children: Sequence[Expr]) -> Expr:
        """A write with another reference and value."""
        return self if _same_parts(children, self.children) else replace(self, ref=children[0], value=children[1])


@dataclass(frozen=True, eq=False, repr=False)
class Print(Expr):
    """`values` are appended to the trace of effects (rule M1), with `format`; the result is the empty tuple."""

    values: tuple[Expr, ...]
    format: str = ""

    @property
    def children(self) -> Sequence[Expr]:
        """The values."""
        return self.values

    def with_children(self, children: Sequence[Expr]) -> Expr:
        """The same print of other values."""
        return self if _same_parts(children, self.values) else replace(self, values=tuple(children))


@dataclass(frozen=True, eq=False, repr=False)
class AssertOp(Expr):
    """Traps unless the bool scalar `condition` holds, showing `values` by `format`; the result is the empty tuple."""

    condition: Expr
    values: tuple[Expr, ...]
    format: str = ""

    @property
    def children(self) -> Sequence[Expr]:
        """The condition, then the values."""
        return (self.condition, *self.values)

    def with_children(self, children: Sequence[Expr]) -> Expr:
        """The same assertion with other parts."""
        if _same_parts(children, self.children):
            return self
        return replace(self, condition=children[0], values=tuple(children[1:]))


@dataclass(frozen=True, eq=False, repr=False)
class MatchCast(Unary):
    """`value`, as a value of the node's type: traps where a dim differs. Rank and dtype agree by the static rules."""


@dataclass(frozen=True, eq=False, repr=False)
class ShapeExpr(Expr):
    """A shape as a value: dims over symbols that have values here."""

    dims: tuple[Dim, ...]


@dataclass(frozen=True, eq=False, repr=False)
class ShapeOf(Unary):
    """The shape of a tensor, as a value."""


@dataclass(frozen=True, eq=False, repr=False)
class OnDevice(Unary):
    """`value`, with a word on where it lives: it changes no value (rule M8).

    With `constrain_body` the operand lives on `wanted`, with `constrain_result` the result does. A user's annotation
    constrains the operand only, so that a copy may follow; a fixed one constrains both; one that constrains neither
    lets a copy stand here. The constraint of the node's own field `device` is one on the result.
    """

    wanted: VirtualDevice
    constrain_body: bool = True
    constrain_result: bool = False


@dataclass(frozen=True, eq=False)
class Wildcard:
    """Matches everything."""

    @property
    def children(self) -> Sequence[Pattern]:
        """Nothing: it has no fields."""
        return ()


@dataclass(frozen=True, eq=False)
class Bind:
    """Matches everything and names it in the clause's body."""

    var: Var

    @property
    def children(self) -> Sequence[Pattern]:
        """Nothing: it has no fields."""
        return ()


@dataclass(frozen=True, eq=False)
class Made:
    """Matches what `constructor` made of fields that match."""

    constructor: Constructor
    fields: tuple[Pattern, ...]

    @property
    def children(self) -> Sequence[Pattern]:
        """The patterns of the constructor's fields."""
        return self.fields


@dataclass(frozen=True, eq=False)
class Fields:
    """Matches a tuple whose fields match."""

    fields: tuple[Pattern, ...]

    @property
    def children(self) -> Sequence[Pattern]:
        """The patterns of the tuple's fields."""
        return self.fields


Pattern: TypeAlias = Wildcard | Bind | Made | Fields


@dataclass(frozen=True, eq=False)
class Clause:
    """A case of a match: where `pattern` matches and none before it did, `body` is the value."""

    pattern: Pattern
    body: Expr

    @property
    def vars(self) -> list[Var]:
        """The variables that the pattern binds, left to right."""
        return [p.var for p in post_order(self.pattern) if isinstance(p, Bind)]


@dataclass(frozen=True, eq=False, repr=False)
class Match(Expr):
    """The body of the first clause whose pattern matches `value`; only that body is demanded.

    A `partial` match traps where no clause matches; the clauses of another cover every value.
    """

    value: Expr
    clauses: tuple[Clause, ...]
    partial: bool = False

    @property
    def children(self) -> Sequence[Expr]:
        """The value, then the body of each clause."""
        return (self.value, *(c.body for c in self.clauses))

    def with_children(self, children: Sequence[Expr]) -> Expr:
        """The same patterns, with another value and other bodies."""
        if _same_parts(children, self.children):
            return self
        clauses = tuple(replace(c, body=b) for c, b in zip(self.clauses, children[1:], strict=True))
        return replace(self, value=children[0], clauses=clauses)


@dataclass(frozen=True, eq=False, repr=False)
class Function(Expr):
    """A function of the graph language; a closure over the variables that it does not bind."""

    params: tuple[Var, ...]
    body: Expr
    attrs: Mapping[str, Any] = field(default_factory=dict)

    @property
    def func_type(self) -> FuncType:
        """The node's type, as the function type that it is."""
        assert isinstance(self.type, FuncType)
        return self.type

    @property
    def children(self) -> Sequence[Expr]:
        """The body; parameters bind and are no parts."""
        return (self.body,)

    def with_children(self, children: Sequence[Expr]) -> Expr:
        """The same function with another body."""
        return self if children[0] is self.body else replace(self, body=children[0])

    @property
    def result_type(self) -> Type:
        """The type of what a call gives."""
        return self.func_type.result


def _same_parts(a: Sequence[Expr], b: Sequence[Expr]) -> bool:
    return len(a) == len(b) and all(x is y for x, y in zip(a, b, strict=True))


ATOMS = (Var, GlobalVar, ExternFunc, Constructor)
"""Names: what A-normal form leaves as an operand."""
LEAVES = (*ATOMS, Constant, ShapeExpr)
"""Expressions without parts, which are the same evaluation however many nodes they are."""


def bound_by(node: Expr) -> Sequence[Var]:
    """The variables that a node binds."""
    match node:
        case Let():
            return (node.var,)
        case Function():
            return node.params
        case Match():
            return [v for c in node.clauses for v in c.vars]
        case _:
            return ()
