"""What overflows within an operator of ONNX need not do so (rule M9.2; specs/verify.md, "Verdict").

One operator of ONNX may be several of ours, each of which rounds and overflows in the dtype. An implementation computes
it in that dtype or a wider one: the squares in the root of their sum may be too large for the dtype where the root is
not.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import InitVar, dataclass, field
from typing import Any

import numpy as np

from assay.interp.values import Value
from assay.semantics.bounding.model import unit
from assay.semantics.bounds import Bounded
from assay.semantics.dtypes import FLOAT64
from assay.semantics.errors import Span
from assay.semantics.graph import Call, CallTIR, Constant, Expr, Function, Let, MatchCast, TupleGetItem, Var
from assay.semantics.module import Module
from assay.semantics.operator import Operator
from assay.semantics.walk import post_order
from assay.verify.oracle.declarations import Width
from assay.verify.oracle.excess_precision import is_narrow
from assay.verify.oracle.signs import carried_over

SAID = "what overflows within an operator need not in a wider dtype (M9.2)"


def parts_of(module: Module) -> frozenset[int]:
    """The calls, by identity, whose results the same node of an ONNX model reads: there they are within an operator."""
    roots = [d for d in module.definitions.values() if isinstance(d, Function)]
    bound = {id(n.var): n.value for d in roots for n in post_order(d) if isinstance(n, Let)}
    readers: dict[int, tuple[Call, set[Span | None]]] = {}
    for node in (n for d in roots for n in post_order(d)):
        if isinstance(node, (TupleGetItem, MatchCast)):
            continue  # seen through
        for child in (node.body,) if isinstance(node, Let) else node.children:
            made = _made(child, bound)
            if isinstance(made, Call):
                readers.setdefault(id(made), (made, set()))[1].add(_node(node))
    return frozenset(i for i, (call, by) in readers.items() if _node(call) is not None and _node(call) in by)


def _made(x: Expr, bound: Mapping[int, Expr]) -> Expr:
    """What gives a value, seen through names and fields."""
    while True:
        if isinstance(x, (TupleGetItem, MatchCast)):
            x = x.value
        elif isinstance(x, Var) and id(x) in bound:
            x = bound[id(x)]
        else:
            return x


def _node(x: Expr) -> Span | None:
    """The node of a model that a call of an operator was made for; None for what has lines, a text."""
    return (
        x.span
        if isinstance(x, Call) and isinstance(x.op, Operator) and x.span is not None and not x.span.line
        else None
    )


@dataclass
class Inside:
    """Results of one run, as the rest of their own node reads them."""

    module: InitVar[Module]
    width: Width
    watched: bool = False
    """Whether it is seen, in a run without a width, that a width would make anything else of it."""
    reached: bool = field(init=False, default=False)
    """Whether that is so."""
    parts: frozenset[int] = field(init=False)
    held: dict[int, tuple[Value, Value, Span | None]] = field(default_factory=dict)
    """By what is shown of it: that, the result, and the node."""

    def __post_init__(self, module: Module) -> None:
        self.parts = parts_of(module) if self.width or self.watched else frozenset()

    def read(self, node: Call | CallTIR, args: Sequence[Value]) -> list[Value]:
        """The operands of a call: those that are made within its own node as they are there, and its constants as they
        were before they had 16 bits."""
        here = _node(node) if self.width or self.watched else None
        if here is None:
            return list(args)
        own = [isinstance(e, Constant) and e.span == here for e in node.args]
        found = [self.held.get(id(a)) for a in args]
        return self._taken(args, [
            h[1] if h is not None and h[2] == here else _unrounded(a) if mine else a
            for a, h, mine in zip(args, found, own, strict=True)
        ])  # fmt: skip

    def made(
        self, node: Expr, op: Operator | None, attrs: Mapping[str, Any], args: Sequence[Value], result: Value
    ) -> tuple[Value, Value]:
        """A result as others see it, and as the rest of its node does."""
        if not self.width and (self.reached or not self.watched):
            return result, result
        own = result
        if op is not None and id(node) in self.parts:
            own = _unlimited(op, attrs, args, result, self.width or "any")
        shown = _within_range(own)
        if not self.width:
            self._taken(_parts(result), _parts(shown))
            return result, result
        return carried_over(result, shown), carried_over(result, own)

    def _taken(self, plain: Sequence[Value], held: Sequence[Value]) -> list[Value]:
        """What is gone on with: by the width, or, where that is only watched, as without one."""
        if self.width:
            return list(held)
        self.reached |= any(h is not p for p, h in zip(plain, held, strict=True))
        return list(plain)

    def hold(self, node: Expr, shown: Value, own: Value) -> Value:
        """What is shown of a result, remembered with what it is within its node."""
        if self.width and id(node) in self.parts and own is not shown:
            pairs = zip(_parts(shown), _parts(own), strict=True)
            self.held.update((id(s), (s, o, _node(node))) for s, o in pairs)
        return shown


def _parts(value: Value) -> Sequence[Value]:
    return value if isinstance(value, tuple) else (value,)


def _unlimited(op: Operator, attrs: Mapping[str, Any], args: Sequence[Value], made: Value, width: Width) -> Value:
    """A result within an operator that need not overflow: as it is in float64, with the error of its own dtype; or
    anything."""
    if not isinstance(made, Bounded) or not made.of.is_float:
        return made
    beyond = ~np.isfinite(made.value) | np.isinf(made.radius)
    if not beyond.any():
        return made  # with all that is known of its errors, here and below
    wide = op.value(attrs, *map(_in_float64, args))
    if not isinstance(wide, Bounded) or wide.of is not FLOAT64:
        return made
    floats = [a for a in args if isinstance(a, Bounded) and a.of.is_float]
    known = np.isfinite(wide.value) & np.isfinite(wide.radius)
    if width == "any":
        known |= all(bool(np.isfinite(a.value).all()) for a in floats)  # of nothing infinite, in any way of scaling it
    opened = beyond & known
    if not opened.any():
        return made
    if width == "any":
        return Bounded(np.where(opened, 0.0, made.value), np.where(opened, np.inf, made.radius), made.of)
    off = wide.radius + unit(made.of) * (np.abs(wide.value) + wide.radius)
    return Bounded(np.where(opened, wide.value, made.value), np.where(opened, off, made.radius), made.of)


def _unrounded(x: Value) -> Value:
    """A constant of 16 bits, such as an attribute, which ONNX has in float32."""
    if not isinstance(x, Bounded) or not is_narrow(x.of):
        return x
    return Bounded(x.value, x.radius + x.of.unit_roundoff * np.abs(x.value), x.of)


def _in_float64(x: Value) -> Value:
    if not isinstance(x, Bounded) or not x.of.is_float:
        return x
    return Bounded(x.value, 0 if x.is_exact else x.radius, FLOAT64, x.terms)


def _within_range(made: Value) -> Value:
    """A result as it is shown: what is too large for the dtype is rounded to it."""
    if isinstance(made, tuple):
        return tuple(map(_within_range, made))
    if not isinstance(made, Bounded) or not made.of.is_float or made.is_exact:
        return made
    high = np.abs(made.value) + made.radius
    return _in_float64(made).astype(made.of.numpy) if (np.isfinite(high) & (high > float(made.of.max))).any() else made
