"""Scalar expressions of the text format: the printer (specs/semantics.md, "Text").

    ScalarPrinter({n: "n", a: "A"}).text(expr)                # as TVM's own parser reads it

Every literal carries its dtype, but for whole numbers of the dtype `integer`, which the reader supposes. Parentheses
stand only where Python needs them. Reading gives the same expression again, bit for bit.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np

from assay.semantics.dtypes import BOOL, DTYPES, INT32, DType
from assay.semantics.errors import Crash, Unsupported
from assay.semantics.scalar import Apply, Cast, Choice, Const, Dim, Expr, Load, Var, operation
from assay.semantics.scalar.arithmetic import FLOAT_OF
from assay.semantics.scalar.failing import may_fail
from assay.semantics.tensor import Buffer
from assay.semantics.walk import occurrences

LONGEST = 2_000_000
"""Pieces of text in one expression. A shared node is printed at each use, so that text can be far larger than nodes."""

# Python's precedences, loosest first
COMMA, OR, AND, NOT, COMPARE, BITOR, BITXOR, BITAND, SHIFT, SUM, PRODUCT, SIGN, ATOM = range(13)

_LEVELS: dict[str, int] = {
    "+": SUM, "-": SUM, "*": PRODUCT, "/": PRODUCT, "//": PRODUCT, "%": PRODUCT, "&": BITAND, "|": BITOR,
    "^": BITXOR, "<<": SHIFT, ">>": SHIFT,
}  # fmt: skip

_CALLS: dict[str, str] = {"rint": "nearbyint", "select": "Select"}
"""Where TVM's name of a function is another."""

Piece: TypeAlias = "str | tuple[Expr, int]"
"""Text, or an expression that must bind at least as tightly as the number says."""


@dataclass(frozen=True)
class ScalarPrinter:
    """Prints expressions over variables and buffers that `names` has."""

    names: Mapping[Var | Buffer, str]
    integer: DType | None = INT32
    """The dtype of whole numbers that are printed without one."""
    cells: Collection[Buffer] = ()
    """Buffers of one element that are written as scalars."""

    def text(self, expr: Expr, precedence: int = COMMA) -> str:
        """The expression; in parentheses if it binds less tightly than `precedence`."""
        out: list[str] = []
        start: Piece = (expr, precedence)
        for piece in occurrences(start, lambda p: () if isinstance(p, str) else self._pieces(*p)):
            if isinstance(piece, str):
                out.append(piece)
            if len(out) > LONGEST:
                raise Unsupported(f"an expression of more than {LONGEST} words cannot be printed", label="text.C9")
        return "".join(out)

    def dim(self, dim: Dim, number: DType | None = None) -> str:
        """A dim of a shape; plain numbers of the dtype `number` if that is given."""
        if isinstance(dim, Expr):
            return self.text(dim)
        return str(dim) if number is self.integer else f"T.{number or 'int64'}({dim})"

    def name(self, of: Var | Buffer) -> str:
        """The name of a variable or buffer; Unsupported (text.C10) where nothing declares it."""
        found = self.names.get(of)
        if found is None:
            raise Unsupported(f"{of.name} is used where nothing declares it", label="text.C10")
        return found

    def _pieces(self, node: Expr, outer: int) -> Sequence[Piece]:
        match node:
            case Var():
                return [self.name(node)]
            case Const():
                text = literal_text(node, self.integer)
                return [f"({text})"] if text.startswith("-") and outer > PRODUCT else [text]
            case Cast():
                return [f'T.Cast("{node.dtype}", ', (node.arg, COMMA), ")"]
            case Load() if node.buffer in self.cells:
                return [self.name(node.buffer)]
            case Load():
                return [self.name(node.buffer), "[", *comma_separated(node.indices, "()"), "]"]
            case Choice(as_select=True):
                return ["T.Select(", *comma_separated(node.children), ")"]
            case Choice():
                return self._choice(node, outer)
            case Apply():
                return self._apply(node, outer)
            case _:
                raise Crash(f"no such scalar node: {type(node).__name__}")

    def _choice(self, node: Choice, outer: int) -> Sequence[Piece]:
        if _is(node.otherwise, False):
            return _within(outer, AND, [(node.condition, AND), " and ", (node.then, NOT)])
        if _is(node.then, True):
            return _within(outer, OR, [(node.condition, OR), " or ", (node.otherwise, AND)])
        return ["T.if_then_else(", *comma_separated(node.children), ")"]

    def _apply(self, node: Apply, outer: int) -> Sequence[Piece]:
        match node.op, node.args:
            case "bitxor", (a, Const(value=mask)) if int(mask) == (-1 if a.dtype.kind == "int" else a.dtype.max):
                return _within(outer, SIGN, ["~", (a, SIGN)])
            case "neg", (
                Const() as a,
            ):  # with its dtype: a plain number would be read as its negative, which there may not be
                return _within(outer, SIGN, [f"-{literal_text(a, None)}"])
            case "neg", (a,):
                return _within(outer, SIGN, ["-", (a, SIGN)])
            case "not", (a,):
                return _within(outer, NOT, ["not ", (a, NOT)])
            case "abs", (a,):
                return [f"T.{'fabs' if a.dtype.is_float else 'abs'}(", (a, COMMA), ")"]
            case "select", (c, *rest) if any(map(may_fail, rest)):
                # TVM's Select would be lazy here; that is how the reader knows
                return ["T.Select(T.likely(", (c, COMMA), "), ", *comma_separated(rest), ")"]
            case op, (a,) if op == "bits_of" or op in FLOAT_OF:
                return [f'T.reinterpret("{node.dtype}", ', (a, COMMA), ")"]
            case op, (a, b) if symbol := operation(op).symbol:
                level = _LEVELS.get(symbol, COMPARE)
                left = level + 1 if level == COMPARE else level  # a < b < c is something else
                # two plain numbers a reader would compute in integers without end
                first: Piece = literal_text(a, None) if isinstance(a, Const) and isinstance(b, Const) else (a, left)
                return _within(outer, level, [first, f" {symbol} ", (b, level + 1)])
            case op, args:
                return [f"T.{_CALLS.get(op, op)}(", *comma_separated(args), ")"]


def comma_separated(exprs: Sequence[Expr], none: str = "") -> list[Piece]:
    """Expressions with commas between; `none` if there are none."""
    if not exprs:
        return [none]
    return [piece for i, e in enumerate(exprs) for piece in ((", ", (e, COMMA)) if i else ((e, COMMA),))]


def _within(outer: int, level: int, pieces: Sequence[Piece]) -> Sequence[Piece]:
    return ["(", *pieces, ")"] if outer > level else pieces


def _is(node: Expr, value: bool) -> bool:
    return isinstance(node, Const) and node.dtype is BOOL and bool(node.value) is value


def literal_text(node: Const, plain: DType | None) -> str:
    """A literal, such as `T.float32(0.5)`; whole numbers of the dtype `plain` stand alone."""
    of = node.dtype
    if of is BOOL:
        return f"T.bool({bool(node.value)})"
    if of.is_integer:
        return str(int(node.value)) if of is plain else f"T.{of}({int(node.value)})"
    value = float(node.value)
    bits = np.asarray(node.value).tobytes()
    if np.isnan(value):
        if bits == np.asarray(np.nan).astype(of.numpy).tobytes():
            return f'T.{of}("nan")'
        carrier = DTYPES[f"uint{of.bits}"]  # a NaN with a payload or a sign
        return f'T.reinterpret("{of}", T.{carrier}({int(np.asarray(node.value).view(carrier.numpy))}))'
    if np.isinf(value):
        return f'T.{of}("{value}")'
    return f"T.{of}({value!r})"
