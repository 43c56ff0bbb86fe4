"""The nodes of scalar expressions: how they are built, and their text (specs/semantics.md, "Scalars").

A `Buffer` stands here too, for an expression may read one of its elements and its sizes are expressions.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import numpy as np

from assay.semantics.dtypes import BOOL, INT64, DType, dtype, size_in_bytes
from assay.semantics.errors import Crash, Invalid, Trap
from assay.semantics.scalar.arithmetic import FLOAT_OF, operation, rounded
from assay.semantics.walk import TreeNode, commas, occurrences, spelled


@dataclass(frozen=True, eq=False, repr=False)
class Expr(TreeNode["Expr"]):
    """Base of scalar expressions; compared by identity (`same` compares structure)."""

    dtype: DType

    def __add__(self, other: Number) -> Expr:
        return apply("add", self, other)

    def __radd__(self, other: Number) -> Expr:
        return apply("add", other, self)

    def __sub__(self, other: Number) -> Expr:
        return apply("sub", self, other)

    def __rsub__(self, other: Number) -> Expr:
        return apply("sub", other, self)

    def __mul__(self, other: Number) -> Expr:
        return apply("mul", self, other)

    def __rmul__(self, other: Number) -> Expr:
        return apply("mul", other, self)

    def __truediv__(self, other: Number) -> Expr:
        return apply("div", self, other)

    def __rtruediv__(self, other: Number) -> Expr:
        return apply("div", other, self)

    def __floordiv__(self, other: Number) -> Expr:
        return apply("floordiv", self, other)

    def __rfloordiv__(self, other: Number) -> Expr:
        return apply("floordiv", other, self)

    def __mod__(self, other: Number) -> Expr:
        return apply("floormod", self, other)

    def __neg__(self) -> Expr:
        return apply("neg", self)

    def __lt__(self, other: Number) -> Expr:
        return apply("lt", self, other)

    def __le__(self, other: Number) -> Expr:
        return apply("le", self, other)

    def __gt__(self, other: Number) -> Expr:
        return apply("gt", self, other)

    def __ge__(self, other: Number) -> Expr:
        return apply("ge", self, other)

    def __bool__(self) -> bool:
        raise Crash(f"the truth of a symbolic expression was asked for: {self}")

    def __repr__(self) -> str:
        return show(self)


Number: TypeAlias = Expr | int | float | bool
Dim: TypeAlias = Expr | int
"""A dimension: a number, or an int64 expression over named symbols (rule M4)."""


@dataclass(frozen=True, eq=False, repr=False)
class Var(Expr):
    """A named unknown: a symbolic dim, a loop variable, a let-bound scalar. Two Vars are equal if they are one."""

    name: str

    def __init__(self, name: str, dtype: DType = INT64) -> None:
        object.__setattr__(self, "name", name)
        object.__setattr__(self, "dtype", dtype)


@dataclass(frozen=True, eq=False, repr=False)
class Const(Expr):
    """A literal. `value` is a NumPy scalar of exactly `dtype`, so NaN payloads and the sign of zero stay."""

    value: Any


@dataclass(frozen=True, eq=False, repr=False)
class Apply(Expr):
    """An operation of `OPERATIONS` on operands."""

    parts = "*args"
    op: str
    args: tuple[Expr, ...]

    def rebuilt(self, children: Sequence[Expr]) -> Expr:
        """The same operation on other operands; its dtype follows from theirs."""
        return apply(self.op, *children)


@dataclass(frozen=True, eq=False, repr=False)
class Cast(Expr):
    """A conversion of value: to float rounds to nearest even, to integer truncates and traps out of range (M5)."""

    parts = "arg"
    arg: Expr

    def rebuilt(self, children: Sequence[Expr]) -> Expr:
        """The same conversion of another operand."""
        return cast(children[0], self.dtype)


@dataclass(frozen=True, eq=False)
class Buffer:
    """A dense row-major array in memory; compared by identity. `scope` is its storage scope, "" where that
    is left open: then it is that of the memory which the buffer is given (rule M6.23).

    `notes` are what TVM says of it besides, such as its alignment: kept for its text, without meaning here.
    """

    name: str
    shape: tuple[Dim, ...]
    dtype: DType
    scope: str = "global"
    notes: Mapping[str, Any] = field(default_factory=dict)

    def __getitem__(self, indices: Number | tuple[Number, ...]) -> Load:
        return Load(self.dtype, self, as_indices(self, indices))

    @property
    def static_shape(self) -> tuple[int, ...]:
        """The shape in numbers; Invalid (tensor.C1) where a dim is symbolic."""
        shape = tuple(d for d in self.shape if isinstance(d, int))
        if len(shape) != len(self.shape):
            raise Invalid(f"buffer {self.name} has symbolic dims", label="tensor.C1")
        return shape

    @property
    def nbytes(self) -> int:
        """The bytes that it takes; Invalid (tensor.C1) where a dim is symbolic."""
        return size_in_bytes(self.static_shape, self.dtype)

    def __repr__(self) -> str:
        return f"{self.name}: Buffer(({', '.join(map(show, self.shape))}), {self.dtype})"


def as_expr(dim: Number) -> Expr:
    """A dim or an index as an int64 expression."""
    return cast(dim, INT64) if isinstance(dim, Expr) else const(dim)


def as_indices(buffer: Buffer, indices: Number | tuple[Number, ...]) -> tuple[Expr, ...]:
    """Indices as int64 expressions; Invalid unless there is one for each dimension."""
    given = indices if isinstance(indices, tuple) else (indices,)
    if len(given) != len(buffer.shape):
        raise Invalid(
            f"buffer {buffer.name} has {len(buffer.shape)} dimensions, {len(given)} indices given",
            label="tensor.C2",
        )
    return tuple(map(as_expr, given))


@dataclass(frozen=True, eq=False, repr=False)
class Load(Expr):
    """The element of a buffer at indices, one int64 index for each dimension."""

    parts = "*indices"
    buffer: Buffer
    indices: tuple[Expr, ...]


@dataclass(frozen=True, eq=False, repr=False)
class Choice(Expr):
    """`then` where `condition` holds, else `otherwise`. Lazy: the other one is not evaluated and so cannot trap.

    TVM's `if_then_else` and its `and` and `or` are this; `select`, and our `and` and `or`, evaluate every operand.
    `as_select`: it was written as TVM's `Select`, which is lazy where a branch can fail.
    """

    parts = "condition then otherwise"
    condition: Expr
    then: Expr
    otherwise: Expr
    as_select: bool = False

    def rebuilt(self, children: Sequence[Expr]) -> Expr:
        """A choice between other parts."""
        return choice(*children, as_select=self.as_select)


# --- construction ------------------------------------------------------------------------------------------------


def const(value: Number | Any, of: DType | str = INT64) -> Const:
    """The literal `value` of dtype `of`; Invalid where an integer dtype does not have it."""
    of = dtype(of)
    number: Any = value.value if isinstance(value, Const) else value
    if not of.is_integer:
        return Const(of, rounded(np.asarray(number), of)[()])
    try:
        whole = int(number)
    except (OverflowError, ValueError):  # an infinity, NaN
        whole = 0
    if whole != number or not of.min <= whole <= of.max:
        raise Invalid(f"{number} does not fit {of}", label="scalar.C2")
    return Const(of, of.numpy.type(whole))


def _lift(args: Sequence[Number]) -> tuple[Expr, ...]:
    typed = [a.dtype for a in args if isinstance(a, Expr) and a.dtype is not BOOL]
    like = typed[0] if typed else (BOOL if any(isinstance(a, Expr) for a in args) else INT64)
    return tuple(a if isinstance(a, Expr) else const(a, like) for a in args)


def apply(op: str, *args: Number) -> Expr:
    """The typed application of `op`. Python numbers take the dtype of the other operand (int64 if there is none).

    Constant integer operands are folded, but where one as wide as a size wraps; x+0, x*1, x*0 and the like vanish for
    integers, but not an x that may trap; nothing is done to floats.
    """
    row = operation(op)
    exprs = _lift(args)
    if len(exprs) != row.arity:
        raise Invalid(f"{op} takes {row.arity} operands, {len(exprs)} given", label="scalar.C3")
    data = exprs[1:] if op == "select" else exprs
    if op == "select" and exprs[0].dtype is not BOOL:
        raise Invalid(f"select: the condition is {exprs[0].dtype}, not bool", label="scalar.C4")
    first = data[0].dtype
    if any(a.dtype is not first for a in data):
        names = ", ".join(str(a.dtype) for a in data)
        raise Invalid(f"{op}: operands of one dtype expected, got {names}", label="scalar.C5")
    if first.kind not in row.kinds or (op in FLOAT_OF and first.bits != FLOAT_OF[op].bits):
        raise Invalid(f"{op} is not defined on {first}", label="scalar.C6")
    if row.result == "bool":
        result = BOOL
    elif row.result == "bits":
        result = FLOAT_OF[op] if op in FLOAT_OF else dtype(f"int{first.bits}")
    else:
        result = first
    if first.is_integer:
        folded = _fold_integers(op, exprs, result)
        if folded is not None:
            return folded
    return Apply(result, op, exprs)


def _fold_integers(op: str, args: tuple[Expr, ...], result: DType) -> Expr | None:
    if all(isinstance(a, Const) for a in args) and operation(op).result != "bits":
        try:
            with np.errstate(over="ignore"):
                value = operation(op).meaning(*(a.value for a in args if isinstance(a, Const)))
        except Trap:
            return None
        if leaves_range(op, [a.value for a in args if isinstance(a, Const)], value):
            return None  # where it stands for a size, there is none
        return Const(result, np.asarray(value).astype(result.numpy)[()])
    if len(args) == 2:
        a, b = args
        left = int(a.value) if isinstance(a, Const) else None
        right = int(b.value) if isinstance(b, Const) else None
        match op:
            case "add" if left == 0:
                return b
            case "add" | "sub" if right == 0:
                return a
            case "mul" if left == 1:
                return b
            case "mul" | "floordiv" | "truncdiv" if right == 1:
                return a
            case "mul" if left == 0 and _is_small_and_total(b) or right == 0 and _is_small_and_total(a):
                return const(0, result)
            case "floormod" | "truncmod" if right == 1 and _is_small_and_total(a):
                return const(0, result)
    return None


def leaves_range(op: str, args: Sequence[Any], value: Any) -> bool:
    """Whether `value`, what `op` gives on signed integers as wide as a size may be, 32 bits or 64, has wrapped."""
    if not operation(op).has("wraps") or np.asarray(value).dtype not in (np.int32, np.int64):
        return False
    return int(operation(op).meaning(*map(int, args))) != int(value)


def _is_small_and_total(expr: Expr) -> bool:
    """Whether an expression of few nodes has a value, whatever is in memory; larger ones are not looked at."""
    return not any(i == 64 or step_may_fail(node) for i, node in enumerate(occurrences(expr)))


def step_may_fail(node: Expr) -> bool:
    """Whether this step, its operands given, reads memory, divides, shifts, or converts to a whole number."""
    match node:
        case Load() | Choice():
            return True
        case Apply():
            return operation(node.op).has("shifts") or may_trap(node)
        case Cast():
            return node.arg.dtype.is_float and node.dtype.is_integer
        case _:
            return False


def neutral(op: str, of: DType) -> Const:
    """The number of a dtype that changes nothing as an operand of an operation that associates, but for the sign of a
    zero to which it is added."""
    unit = operation(op).unit
    if unit is None:
        raise Crash(f"{op} has no neutral element")
    if not np.isinf(unit):
        return const(of.max if unit == -1 and of.kind == "uint" else unit, of)
    end = const(unit, of) if of.is_float else None
    return end if end is not None and np.isinf(end.value) else const(of.max if unit > 0 else of.min, of)


def may_trap(node: Apply) -> bool:
    """Whether this is a division or a shift, and not by a literal by which it never traps."""
    row, last = operation(node.op), node.args[-1]
    return bool(row.fails) and not (isinstance(last, Const) and not row.fails_at(last.value, last.dtype.bits))


def cast(arg: Number, to: DType | str) -> Expr:
    """`arg` converted to `to`; nothing where it has that dtype already."""
    to = dtype(to)
    (arg,) = _lift([arg])
    return arg if arg.dtype is to else Cast(to, arg)


def reinterpret(arg: Expr, to: DType | str) -> Expr:
    """The bits of `arg` as `to`; Invalid where the two are not of one width."""
    to = dtype(to)
    if arg.dtype is to:
        return arg
    if arg.dtype.bits != to.bits or BOOL in (arg.dtype, to):
        raise Invalid(f"{arg.dtype} and {to} have no bits in common", label="scalar.C6")
    if isinstance(arg, Const):
        return Const(to, np.asarray(arg.value).view(to.numpy)[()])
    whole = apply("bits_of", arg) if arg.dtype.is_float else cast(arg, f"int{to.bits}")
    if to.is_float:
        return apply("float_of" if to.name == "float64" else f"{to}_of", whole)
    return cast(whole, to)


def select(condition: Number, then: Number, otherwise: Number) -> Expr:
    """`then` where `condition` holds, else `otherwise`; both are evaluated, and may trap."""
    (condition,) = _lift([condition])
    then, otherwise = _lift([then, otherwise])
    return apply("select", condition, then, otherwise)


def choice(condition: Number, then: Number, otherwise: Number, *, as_select: bool = False) -> Expr:
    """`then` where `condition` holds, else `otherwise`; only one of the two is evaluated."""
    (condition,) = _lift([condition])
    then, otherwise = _lift([then, otherwise])
    if condition.dtype is not BOOL:
        raise Invalid(f"if_then_else: the condition is {condition.dtype}, not bool", label="scalar.C4")
    if then.dtype is not otherwise.dtype:
        raise Invalid(
            f"if_then_else: operands of one dtype expected, got {then.dtype}, {otherwise.dtype}", label="scalar.C5"
        )
    return Choice(then.dtype, condition, then, otherwise, as_select)


def both(a: Expr, b: Expr) -> Expr:
    """TVM's `and`: `b` is evaluated only where `a` holds."""
    return choice(a, b, const(False, BOOL))


def either(a: Expr, b: Expr) -> Expr:
    """TVM's `or`: `b` is evaluated only where `a` does not hold."""
    return choice(a, const(True, BOOL), b)


# --- text --------------------------------------------------------------------------------------------------------


def show(expr: Number) -> str:
    """The expression as TVMScript writes it."""
    return spelled(expr, _pieces) if isinstance(expr, Expr) else str(expr)


def _pieces(node: Expr) -> list[Expr | str]:
    """What a node is written as: its text around its operands."""
    match node:
        case Var():
            return [node.name]
        case Const():
            return [str(node.value) if node.dtype in (INT64, BOOL) else f"T.{node.dtype}({node.value})"]
        case Apply():
            symbol = operation(node.op).symbol
            if symbol and len(node.args) == 2:
                return ["(", node.args[0], f" {symbol} ", node.args[1], ")"]
            if symbol:
                return [f"({symbol}", node.args[0], ")"]
            return [f"T.{node.op}(", *commas(node.args), ")"]
        case Cast():
            return [f'T.Cast("{node.dtype}", ', node.arg, ")"]
        case Load():
            return [f"{node.buffer.name}[", *commas(node.indices), "]"]
        case Choice():
            return ["T.if_then_else(", *commas(node.children), ")"]
        case _:
            raise Crash(f"no such scalar node: {type(node).__name__}")
