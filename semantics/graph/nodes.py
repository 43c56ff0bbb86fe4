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
from assay.semantics.readable import Readable, readable_text
from assay.semantics.scalar import Dim
from assay.semantics.types import FuncType, Type
from assay.semantics.walk import TreeNode, post_order


@dataclass(frozen=True, eq=False, repr=False)
class Expr(Readable, TreeNode["Expr"]):
    """Base of graph expressions; compared by identity (rule M2.1)."""

    type: Type
    device: VirtualDevice = field(default=ANYWHERE, kw_only=True)
    span: Span | None = field(default=None, kw_only=True)

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.type}>"


@dataclass(frozen=True, eq=False, repr=False)
class Unary(Expr):
    """Base of expressions with one part."""

    parts = "value"
    value: Expr


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
    """A name of the module: a function, or a constant of its table (rule M2.7)."""

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

    def rebuilt(self, children: Sequence[Expr]) -> Expr:
        """The same call of other parts."""
        if isinstance(self.op, Expr):
            return replace(self, op=children[0], args=tuple(children[1:]))
        return replace(self, args=tuple(children))


@dataclass(frozen=True, eq=False, repr=False)
class CallTIR(Expr):
    """A tensor function of the module, by name, applied to arguments; it fills fresh tensors of the result's type.

    `scalars` are the values of the tensor function's scalar parameters.
    """

    parts = "*args"
    func: str
    args: tuple[Expr, ...]
    scalars: tuple[Dim, ...] = ()


@dataclass(frozen=True, eq=False, repr=False)
class Tuple(Expr):
    """Several values as one."""

    parts = "*fields"
    fields: tuple[Expr, ...]


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

    parts = "value body"
    var: Var
    value: Expr
    body: Expr
    dataflow: Dataflow | None = field(default=None, kw_only=True)


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

    parts = "condition then otherwise"
    condition: Expr
    then: Expr
    otherwise: Expr


@dataclass(frozen=True, eq=False, repr=False)
class RefCreate(Unary):
    """A fresh mutable cell that holds `value`. An action: two evaluations make two cells."""


@dataclass(frozen=True, eq=False, repr=False)
class RefRead(Expr):
    """What the cell holds now. An action."""

    parts = "ref"
    ref: Expr


@dataclass(frozen=True, eq=False, repr=False)
class RefWrite(Expr):
    """The cell holds `value` from now on; the result is the empty tuple. An action."""

    parts = "ref value"
    ref: Expr
    value: Expr


@dataclass(frozen=True, eq=False, repr=False)
class Print(Expr):
    """`values` are appended to the trace of effects (rule M1), with `format`; the result is the empty tuple."""

    parts = "*values"
    values: tuple[Expr, ...]
    format: str = ""


@dataclass(frozen=True, eq=False, repr=False)
class AssertOp(Expr):
    """Traps unless the bool scalar `condition` holds, showing `values` by `format`; the result is the empty tuple."""

    parts = "condition *values"
    condition: Expr
    values: tuple[Expr, ...]
    format: str = ""


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
    lets a copy stand here. The constraint of the node's own field `device` is one on the result (rule M8.4).
    """

    wanted: VirtualDevice
    constrain_body: bool = True
    constrain_result: bool = False


@dataclass(frozen=True, eq=False)
class Wildcard(TreeNode["Pattern"]):
    """Matches everything."""


@dataclass(frozen=True, eq=False)
class Bind(TreeNode["Pattern"]):
    """Matches everything and names it in the clause's body."""

    var: Var


@dataclass(frozen=True, eq=False)
class Made(TreeNode["Pattern"]):
    """Matches what `constructor` made of fields that match."""

    parts = "*fields"
    constructor: Constructor
    fields: tuple[Pattern, ...]


@dataclass(frozen=True, eq=False)
class Fields(TreeNode["Pattern"]):
    """Matches a tuple whose fields match."""

    parts = "*fields"
    fields: tuple[Pattern, ...]


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

    def rebuilt(self, children: Sequence[Expr]) -> Expr:
        """The same patterns, with another value and other bodies."""
        clauses = tuple(replace(c, body=b) for c, b in zip(self.clauses, children[1:], strict=True))
        return replace(self, value=children[0], clauses=clauses)


@dataclass(frozen=True, eq=False, repr=False)
class Function(Expr):
    """A function of the graph language; a closure over the variables that it does not bind."""

    parts = "body"
    params: tuple[Var, ...]
    body: Expr
    attrs: Mapping[str, Any] = field(default_factory=dict)

    def __repr__(self) -> str:
        """The function as text, of bounded length."""
        return readable_text(self)

    @property
    def func_type(self) -> FuncType:
        """The node's type, as the function type that it is."""
        assert isinstance(self.type, FuncType)
        return self.type

    @property
    def result_type(self) -> Type:
        """The type of what a call gives."""
        return self.func_type.result


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
