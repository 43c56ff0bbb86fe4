"""How far integers can reach inside a kernel (specs/lower.md, "c").

Interval arithmetic over scalar expressions, sharpened by the conditions that hold where the expression stands. The
printer leaves out a check only where this module shows that it cannot fail, and computes in 32 bits only where this
module shows that 32 bits hold every intermediate value.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from itertools import count

import numpy as np

from assay.semantics.dtypes import BOOL
from assay.semantics.integers.linear import Form, combined
from assay.semantics.integers.ranges import (
    OPPOSITE,
    Interval,
    Range,
    closed,
    compare,
    dtype_range,
    fits_dtype,
    meet,
    plus,
    reach,
    scaled,
)
from assay.semantics.scalar import Apply, Cast, Const, Expr, Load, Var, operation
from assay.semantics.walk import Worklist, post_order, scoped

MOST_TERMS = 12
"""A linear form with more terms than this counts as an atom, so that the work stays linear."""


@dataclass(frozen=True)
class Known:
    """What is known of an integer or bool value: its bounds, and its form over numbered atoms if no step of it can
    wrap."""

    low: int
    high: int
    form: Form[int] | None = None

    @property
    def range(self) -> Interval:
        """The bounds, least first."""
        return self.low, self.high

    @property
    def is_single(self) -> bool:
        """Whether there is one value only."""
        return self.low == self.high


@dataclass(frozen=True)
class Fact:
    """Where a sum of multiples of atoms lies, whatever the constant of the form is."""

    form: Form[int]
    within: Range


class Ranges:
    """The bounds of variables in scope and the conditions that hold; both change as the printer walks the body."""

    def __init__(self) -> None:
        self.variables: dict[Var, Interval] = {}
        self.facts: list[Fact] = []
        self._atoms: dict[Expr, int] = {}
        self._numbers = count()

    def bind(self, var: Var, known: Known) -> Callable[[], None]:
        """Open the scope of a variable with those bounds; call the result to close it."""
        if var not in self.variables:
            return scoped(self.variables, var, known.range)
        self._atoms.clear()  # what was said of the other variable says nothing of this one
        leave = scoped(self.variables, var, known.range)

        def close() -> None:
            leave()
            self._atoms.clear()

        return close

    # --- expressions ---------------------------------------------------------------------------------------------

    def analyse(self, root: Expr) -> dict[int, Known]:
        """What is known of each integer and bool node below `root`, by identity."""
        known: dict[int, Known] = {}
        for node in post_order(root):
            if node.dtype.is_float:
                continue
            found = self._node(node, known)
            known[id(node)] = (
                self._sharpen(found) if self.facts and found.form is not None and found.form.terms else found
            )
        return known

    def _sharpen(self, k: Known) -> Known:
        assert k.form is not None
        found: Range = k.range
        opposite = k.form.scaled(-1)
        constant = k.form.constant, k.form.constant
        for fact in self.facts:
            if fact.form.terms == k.form.terms:
                found = meet(found, plus(fact.within, constant))
            elif fact.form.terms == opposite.terms:
                found = meet(found, plus(scaled(fact.within, -1), constant))
        low, high = closed(found) or k.range
        # a contradiction means that this place is never reached; any bounds are right there
        return Known(low, high, k.form) if low <= high else k

    def _atom(self, node: Expr) -> Form[int]:
        if node not in self._atoms:
            self._atoms[node] = next(self._numbers)
        return Form({self._atoms[node]: 1})

    def _node(self, node: Expr, known: Mapping[int, Known]) -> Known:
        match node:
            case Const():
                return _number(int(node.value))
            case _ if always_traps(node, known):
                return Known(0, 0)  # never a value; any bounds are right
            case Var():
                low, high = self.variables.get(node, dtype_range(node.dtype))
                return Known(low, high, self._atom(node))
            case Cast() if not node.arg.dtype.is_float:
                k = known[id(node.arg)]
                if node.dtype is BOOL:
                    return _decided(compare("ne", k.range))
                return k if fits_dtype(k.range, node.dtype) else Known(*dtype_range(node.dtype))
            case Apply() if all(id(a) in known for a in node.args):
                return self._apply(node, known)
            case _:
                return Known(*dtype_range(node.dtype))

    def _apply(self, node: Apply, known: Mapping[int, Known]) -> Known:
        args = [known[id(a)] for a in node.args]
        if all(a.is_single for a in args):
            values = [e.dtype.numpy.type(a.low) for e, a in zip(node.args, args, strict=True)]
            with np.errstate(all="ignore"):
                return _number(int(operation(node.op).meaning(*values)))
        if node.dtype is BOOL:
            return self._contradiction(node, known) or _truth(node, args)
        low, high = _reach(node, args)
        if not fits_dtype((low, high), node.dtype):
            return Known(*dtype_range(node.dtype))
        forms = [a.form for a in args if a.form is not None]
        if len(forms) < len(args):
            return Known(low, high)
        form = combined(node.op, forms)
        return Known(low, high, form if form is not None and len(form.terms) <= MOST_TERMS else self._atom(node))

    # --- conditions ----------------------------------------------------------------------------------------------

    def assume(self, condition: Expr, holds: bool) -> None:
        """Add what follows from `condition` being `holds`. Reads of memory are left out: memory changes."""
        known = self.analyse(condition)
        work = Worklist([(condition, holds)])
        for node, positive in work:
            if not isinstance(node, Apply):
                continue
            if node.op == "not":
                work.add([(node.args[0], not positive)])
            elif node.op == ("and" if positive else "or"):
                work.add((a, positive) for a in reversed(node.args))
            else:
                fact = _fact(node, positive, known)
                self.facts += [fact] if fact is not None else []

    @staticmethod
    def _contradiction(node: Apply, known: Mapping[int, Known]) -> Known | None:
        """What two comparisons of one form decide together: both at once where that cannot be, or one where it must."""
        if node.op not in ("and", "or"):
            return None
        a, b = (_fact(arg, node.op == "and", known) for arg in node.args)
        if a is None or b is None or a.form.terms != b.form.terms:
            return None
        both = closed(meet(a.within, b.within))
        return None if both is None or both[0] <= both[1] else _decided(node.op == "or")


def _fact(node: Expr, positive: bool, known: Mapping[int, Known]) -> Fact | None:
    """What a comparison of integers says where it is `positive`; None for another node, or one that says nothing."""
    if not isinstance(node, Apply) or not operation(node.op).has("compares") or not node.args[0].dtype.is_integer:
        return None
    a, b = (known[id(arg)].form for arg in node.args)
    if a is None or b is None:
        return None
    difference = a.plus(b, -1)
    gap = -difference.constant  # the terms compare with this as a compares with b
    within: dict[str, Range] = {
        "lt": (None, gap - 1), "le": (None, gap), "gt": (gap + 1, None), "ge": (gap, None), "eq": (gap, gap),
    }  # fmt: skip
    op = node.op if positive else OPPOSITE[node.op]
    return Fact(difference, within[op]) if op in within else None


def _number(value: int) -> Known:
    return Known(value, value, Form({}, value))


def _decided(truth: bool | None) -> Known:
    """A bool that is known, or not."""
    return Known(0, 1) if truth is None else _number(int(truth))


def _reach(node: Apply, args: list[Known]) -> Interval:
    """Bounds of an integer operation before any wrapping."""
    return closed(reach(node.op, [a.range for a in args])) or dtype_range(node.dtype)


def _truth(node: Apply, args: list[Known]) -> Known:
    """Bounds of a bool operation: decided where the operands' bounds decide it."""
    a, b = args[0], args[-1]
    if not operation(node.op).has("compares"):
        op = {"and": "min", "or": "max"}.get(node.op, node.op)
        found = reach("sub", [(1, 1), a.range]) if op == "not" else reach(op, [k.range for k in args])
        return Known(*(closed(found) or (0, 1)))
    difference = reach("sub", [a.range, b.range])
    if node.args[0] is node.args[1]:
        difference = 0, 0
    elif a.form is not None and b.form is not None and a.form.terms == b.form.terms:  # only the constants differ
        difference = (a.form.constant - b.form.constant,) * 2
    return _decided(compare(node.op, difference))


def always_traps(node: Expr, known: Mapping[int, Known]) -> bool:
    """Whether every evaluation of the node itself traps, given what is known of its operands."""
    match node:
        case Load():
            bounds = zip(node.buffer.static_shape, node.indices, strict=True)
            return any(known[id(e)].high < 0 or known[id(e)].low >= n for n, e in bounds)
        case Apply(op=op, args=(_, b)) if operation(op).has("divides"):
            return known[id(b)].low == known[id(b)].high == 0
        case Apply(op=op, args=(_, b)) if operation(op).has("shifts"):
            return known[id(b)].high < 0 or known[id(b)].low >= 8 * node.dtype.itemsize
        case _:
            return False


def never_overflows(node: Apply, known: Mapping[int, Known]) -> bool:
    """Whether an integer operation never leaves its dtype, so that plain C arithmetic is right."""
    return fits_dtype(_reach(node, [known[id(a)] for a in node.args]), node.dtype)
