"""What operators and functions of the text do to scalars (specs/semantics.md, "Text")."""

from __future__ import annotations

import ast
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeAlias

from assay.semantics.dtypes import BOOL, FLOAT32, DType
from assay.semantics.scalar import OPERATIONS, Const, Expr, apply, both, cast, choice, const, either, operation
from assay.semantics.scalar.intrinsics import INTRINSICS

Value: TypeAlias = "Expr | int | float | bool"
"""An expression, or a plain number that has no dtype yet."""

BINARY: dict[type[ast.AST], str] = {
    ast.Add: "add", ast.Sub: "sub", ast.Mult: "mul", ast.Div: "div", ast.FloorDiv: "floordiv", ast.Mod: "floormod",
    ast.BitAnd: "bitand", ast.BitOr: "bitor", ast.BitXor: "bitxor", ast.LShift: "shl", ast.RShift: "shr",
    ast.Eq: "eq", ast.NotEq: "ne", ast.Lt: "lt", ast.LtE: "le", ast.Gt: "gt", ast.GtE: "ge",
}  # fmt: skip
"""Python's operators by what they are in a tree of it."""

FUNCTIONS: dict[str, str] = {
    **{n: n for n in INTRINSICS}, "Add": "add", "Sub": "sub", "Mul": "mul", "Div": "div",
    "Min": "min", "min": "min", "Max": "max", "max": "max", "EQ": "eq", "NE": "ne", "LT": "lt",
    "LE": "le", "GT": "gt", "GE": "ge", "Not": "not", "And": "&&", "Or": "||", "bitwise_and": "bitand",
    "BitwiseAnd": "bitand", "bitwise_or": "bitor", "BitwiseOr": "bitor", "bitwise_xor": "bitxor",
    "BitwiseXor": "bitxor", "bitwise_not": "~", "BitwiseNot": "~", "Select": "select",
    "if_then_else": "if_then_else", "likely": "likely", "ceildiv": "ceildiv", "neg": "neg",
}  # fmt: skip
"""TVM's functions of scalars by name. The values are scalar operations, or special cases of `apply`."""


@dataclass(frozen=True)
class Operations:
    """Applies operations. A plain number takes the dtype of the other operand, alone that of `integer` or float32."""

    integer: DType

    def typed(self, value: Value, of: DType | None = None) -> Expr:
        """An expression for a value that may still be a plain number."""
        if isinstance(value, Expr):
            return value
        if of is not None:
            return const(value, of)
        return const(value, BOOL if isinstance(value, bool) else self.integer if isinstance(value, int) else FLOAT32)

    def condition(self, value: Value) -> Expr:
        """A value as a bool expression: a number holds where it is not 0."""
        if not isinstance(value, Expr):
            return const(bool(value), BOOL)
        return value if value.dtype is BOOL else apply("ne", value, 0)

    def binary(self, op: str, a: Value, b: Value) -> Value:
        """An operation on two values; on two plain numbers a plain number, where Python computes the same."""
        if not isinstance(a, Expr) and not isinstance(b, Expr):
            return _python(op, a, b) if _in_python(op) else self.apply(op, [self.typed(a), self.typed(b)])
        return self.apply(op, [a, b])

    def apply(self, op: str, args: list[Value]) -> Value:
        """The application of an operation, or of a special case in the table of functions, to values."""
        match op:
            case "&&" | "||":
                return (both if op == "&&" else either)(*map(self.condition, args))
            case "likely":
                return args[0]
            case "~":
                x = self.typed(args[0])
                if x.dtype is BOOL:
                    return apply("not", x)
                return apply("bitxor", x, const(-1 if x.dtype.kind == "int" else x.dtype.max, x.dtype))
            case "if_then_else":
                then, otherwise = self.matched(args[1:])
                return choice(self.condition(args[0]), then, otherwise)
            case "ceildiv":
                a, b = self.matched(args)
                return (a + b - 1) // b
            case "q_multiply_shift" | "q_multiply_shift_per_axis":
                return INTRINSICS[op]([self.typed(a) for a in args])
            case "ldexp" if len(args) == 2:
                return INTRINSICS[op]([self.typed(a, of) for a, of in zip(args, (FLOAT32, None), strict=True)])
        exprs = self.matched(args)
        if op in INTRINSICS:
            return INTRINSICS[op](exprs)
        if op in ("bitand", "bitor") and exprs and all(e.dtype is BOOL for e in exprs):
            op = op.removeprefix("bit")
        if op == "div" and exprs and exprs[0].dtype.is_integer:
            op = "truncdiv"
        return apply(op, *exprs)

    def matched(self, args: Sequence[Value]) -> list[Expr]:
        """Operands of one dtype: plain numbers take that of the others, narrower ones the widest."""
        typed = [a.dtype for a in args if isinstance(a, Expr)]
        if not typed:
            of = FLOAT32 if any(isinstance(a, float) for a in args) else None
            return [self.typed(a, of) for a in args]
        widest = typed[0]
        for t in typed[1:]:
            widest = _wider(widest, t)
        if any(isinstance(a, float) for a in args) and not widest.is_float:
            widest = FLOAT32
        return [self.converted(a, widest) for a in args]

    def converted(self, value: Value, of: DType) -> Expr:
        """A value brought to dtype `of` where that is the wider one; else it stays, for the operation to refuse."""
        if not isinstance(value, Expr):
            return const(value, of)
        if value.dtype is of or _wider(value.dtype, of) is not of:
            return value  # what does not fit together is reported by the operation
        return const(value, of) if isinstance(value, Const) and of.is_integer else cast(value, of)


def _in_python(op: str) -> bool:
    """Whether Python itself does this to two plain numbers, and cannot fail at it."""
    row = OPERATIONS.get(op)
    return row is not None and (row.has("compares") or (row.has("wraps") and not row.fails))


def _python(op: str, a: int | float | bool, b: int | float | bool) -> Value:
    result: int | float | bool = operation(op).meaning(a, b)
    if isinstance(result, int) and result.bit_length() > 64:
        raise OverflowError
    return result


def _wider(a: DType, b: DType) -> DType:
    """The dtype that operands of two dtypes are brought to; the first where there is none."""
    if a.is_float != b.is_float and BOOL not in (a, b):
        return a if a.is_float else b
    if a.kind == b.kind and b.bits > a.bits:
        return b
    return a
