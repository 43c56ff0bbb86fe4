"""Which scalar expressions are written alike (specs/semantics.md, "Scalars")."""

from __future__ import annotations

from typing import Any

from assay.semantics.dtypes import INT64
from assay.semantics.errors import Crash
from assay.semantics.scalar.expression import Apply, Cast, Choice, Const, Expr, Load, Number, Var, const
from assay.semantics.walk import post_order


class Interner:
    """Numbers expressions so that two get one number exactly if they have the same structure."""

    def __init__(self) -> None:
        self._table: dict[tuple[Any, ...], int] = {}
        self._number: dict[int, int] = {}
        self._seen: list[Expr] = []  # keeps what is numbered alive, so that no other node gets its identity

    def __call__(self, expr: Number) -> int:
        """The number of an expression's structure; a plain number counts as a literal of dtype int64 or float64."""
        if not isinstance(expr, Expr):
            expr = const(expr, INT64 if isinstance(expr, int) else "float64")
        number = self._number
        if id(expr) in number:
            return number[id(expr)]
        for node in post_order(expr, lambda n: () if id(n) in number else n.children):
            if id(node) in number:
                continue
            self._seen.append(node)
            args = tuple(number[id(c)] for c in node.children)
            head: tuple[Any, ...]
            match node:
                case Var():
                    head = ("var", node)
                case Const():
                    head = ("const", node.dtype.name, node.value.tobytes())
                case Apply():
                    head = ("apply", node.op, node.dtype.name)
                case Cast():
                    head = ("cast", node.dtype.name)
                case Load():
                    head = ("load", id(node.buffer))
                case Choice():
                    head = ("choice",)
                case _:
                    raise Crash(f"no such scalar node: {type(node).__name__}")
            number[id(node)] = self._table.setdefault((*head, *args), len(self._table))
        return number[id(expr)]
