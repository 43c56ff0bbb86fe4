"""How far integers can reach inside a kernel (specs/lower.md, "c").

Interval arithmetic over scalar expressions, sharpened by the conditions that hold where the expression stands. The
printer leaves out a check only where this module shows that it cannot fail, and computes in 32 bits only where this
module shows that 32 bits hold every intermediate value.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from itertools import count, product

import numpy as np

from assay.semantics.dtypes import BOOL, DType
from assay.semantics.scalar import COMPARISONS, Apply, Cast, Const, Expr, Load, Var, operation
from assay.semantics.walk import post_order

Interval = tuple[int, int]
Terms = tuple[tuple[int, int], ...]
"""A linear form without its constant: (atom, factor) pairs in order of the atom's number."""

QUOTIENTS = ("floordiv", "floormod", "truncdiv", "truncmod")
SHIFTS = ("shl", "shr")

MOST_TERMS = 12
"""A linear form with more terms than this counts as an atom, so that the work stays linear."""


@dataclass(frozen=True)
class Known:
    """What is known of an integer or bool value: its bounds, and its linear form if no step of it can wrap."""

    low: int
    high: int
    terms: Terms | None = None
    constant: int = 0

    @property
    def is_single(self) -> bool:
        return self.low == self.high


@dataclass(frozen=True)
class Fact:
    """`low` <= sum of `terms` <= `high`, None where there is no bound."""

    terms: Terms
    low: int | None
    high: int | None


def dtype_interval(of: DType) -> Interval:
    return int(of.min), int(of.max)


def _within(low: int, high: int, of: DType) -> bool:
    return of.min <= low and high <= of.max


class Ranges:
    """The bounds of variables in scope and the conditions that hold; both change as the printer walks the body."""

    def __init__(self) -> None:
        self.variables: dict[Var, Interval] = {}
        self.facts: list[Fact] = []
        self._atoms: dict[Expr, int] = {}
        self._numbers = count()

    def bind(self, var: Var, known: Known) -> Callable[[], None]:
        """Open the scope of a variable with those bounds; call the result to close it."""
        outer = self.variables.get(var)
        self.variables[var] = known.low, known.high
        if outer is not None:
            self._atoms.clear()  # what was said of the other variable says nothing of this one

        def close() -> None:
            if outer is None:
                del self.variables[var]
            else:
                self._atoms.clear()
                self.variables[var] = outer

        return close

    # --- expressions ---------------------------------------------------------------------------------------------

    def analyse(self, root: Expr) -> dict[int, Known]:
        """What is known of each integer and bool node below `root`, by identity."""
        known: dict[int, Known] = {}
        for node in post_order(root):
            if node.dtype.is_float:
                continue
            found = self._node(node, known)
            known[id(node)] = self._sharpen(found) if self.facts and found.terms else found
        return known

    def _sharpen(self, k: Known) -> Known:
        low, high = k.low, k.high
        negated = tuple((a, -f) for a, f in k.terms or ())
        for fact in self.facts:
            if fact.terms == k.terms:
                below, above = fact.low, fact.high
            elif fact.terms == negated:
                below = None if fact.high is None else -fact.high
                above = None if fact.low is None else -fact.low
            else:
                continue
            low = low if below is None else max(low, below + k.constant)
            high = high if above is None else min(high, above + k.constant)
        # a contradiction means that this place is never reached; any bounds are right there
        return Known(low, high, k.terms, k.constant) if low <= high else k

    def _atom(self, node: Expr) -> Terms:
        if node not in self._atoms:
            self._atoms[node] = next(self._numbers)
        return ((self._atoms[node], 1),)

    def _node(self, node: Expr, known: Mapping[int, Known]) -> Known:
        match node:
            case Const():
                value = int(node.value)
                return Known(value, value, (), value)
            case _ if always_traps(node, known):
                return Known(0, 0)  # never a value; any bounds are right
            case Var():
                low, high = self.variables.get(node, dtype_interval(node.dtype))
                return Known(low, high, self._atom(node))
            case Cast() if not node.arg.dtype.is_float:
                k = known[id(node.arg)]
                if node.dtype is BOOL:
                    return Known(int(k.low > 0 or k.high < 0), int(k.low != 0 or k.high != 0))
                return k if _within(k.low, k.high, node.dtype) else Known(*dtype_interval(node.dtype))
            case Apply() if all(id(a) in known for a in node.args):
                return self._apply(node, known)
            case _:
                return Known(*dtype_interval(node.dtype))

    def _apply(self, node: Apply, known: Mapping[int, Known]) -> Known:
        args = [known[id(a)] for a in node.args]
        if all(a.is_single for a in args):
            values = [e.dtype.numpy.type(a.low) for e, a in zip(node.args, args, strict=True)]
            with np.errstate(all="ignore"):
                value = int(operation(node.op).meaning(*values))
            return Known(value, value, (), value)
        if node.dtype is BOOL:
            return self._contradiction(node, known) or _truth(node, args)
        low, high = _reach(node, args)
        if not _within(low, high, node.dtype):
            return Known(*dtype_interval(node.dtype))
        if any(a.terms is None for a in args):
            return Known(low, high)
        form = _linear(node.op, args)
        if form is not None and len(form[0]) <= MOST_TERMS:
            return Known(low, high, *form)
        return Known(low, high, self._atom(node))

    # --- conditions ----------------------------------------------------------------------------------------------

    def assume(self, condition: Expr, holds: bool) -> None:
        """Add what follows from `condition` being `holds`. Reads of memory are left out: memory changes."""
        known = self.analyse(condition)
        stack = [(condition, holds)]
        while stack:
            node, positive = stack.pop()
            if not isinstance(node, Apply):
                continue
            if node.op == "not":
                stack.append((node.args[0], not positive))
            elif node.op == ("and" if positive else "or"):
                stack += [(a, positive) for a in node.args]
            else:
                fact = _fact(node, positive, known)
                self.facts += [fact] if fact is not None else []

    @staticmethod
    def _contradiction(node: Apply, known: Mapping[int, Known]) -> Known | None:
        """What two comparisons of one form decide together: both at once where that cannot be, or one where it must."""
        if node.op not in ("and", "or"):
            return None
        a, b = (_fact(arg, node.op == "and", known) for arg in node.args)
        if a is None or b is None or a.terms != b.terms:
            return None
        low = max((x for x in (a.low, b.low) if x is not None), default=None)
        high = min((x for x in (a.high, b.high) if x is not None), default=None)
        if low is None or high is None or low <= high:
            return None
        value = int(node.op == "or")
        return Known(value, value)


def _fact(node: Expr, positive: bool, known: Mapping[int, Known]) -> Fact | None:
    """What a comparison of integers says where it is `positive`; None for another node, or one that says nothing."""
    if not isinstance(node, Apply) or node.op not in COMPARISONS or not node.args[0].dtype.is_integer:
        return None
    a, b = known[id(node.args[0])], known[id(node.args[1])]
    if a.terms is None or b.terms is None:
        return None
    op = node.op if positive else {"lt": "ge", "le": "gt", "gt": "le", "ge": "lt", "eq": "ne", "ne": "eq"}[node.op]
    terms = _sum(a.terms, b.terms, -1)
    gap = b.constant - a.constant  # the terms compare with this as a compares with b
    match op:
        case "lt":
            return Fact(terms, None, gap - 1)
        case "le":
            return Fact(terms, None, gap)
        case "gt":
            return Fact(terms, gap + 1, None)
        case "ge":
            return Fact(terms, gap, None)
        case "eq":
            return Fact(terms, gap, gap)
        case _:
            return None


def _sum(x: Terms, y: Terms, factor: int) -> Terms:
    total = dict(x)
    for atom, k in y:
        total[atom] = total.get(atom, 0) + factor * k
    return tuple(sorted((a, k) for a, k in total.items() if k))


def _linear(op: str, args: list[Known]) -> tuple[Terms, int] | None:
    """The linear form of a sum or of a multiple; None for anything else."""
    terms = [a.terms or () for a in args]
    match op:
        case "add" | "sub":
            sign = 1 if op == "add" else -1
            return _sum(terms[0], terms[1], sign), args[0].constant + sign * args[1].constant
        case "neg":
            return _sum((), terms[0], -1), -args[0].constant
        case "mul" if not terms[0]:
            return _sum((), terms[1], args[0].constant), args[0].constant * args[1].constant
        case "mul" if not terms[1]:
            return _sum((), terms[0], args[1].constant), args[0].constant * args[1].constant
        case _:
            return None


def _reach(node: Apply, args: list[Known]) -> Interval:
    """Bounds of an integer operation before any wrapping."""
    if node.op == "select":
        c, a, b = args
        chosen = [x for x, taken in ((a, c.high == 1), (b, c.low == 0)) if taken]
        return min(x.low for x in chosen), max(x.high for x in chosen)
    whole = dtype_interval(node.dtype)
    a = args[0]
    b = args[-1]
    match node.op:
        case "add":
            return a.low + b.low, a.high + b.high
        case "sub":
            return a.low - b.high, a.high - b.low
        case "mul":
            corners = [x * y for x, y in product((a.low, a.high), (b.low, b.high))]
            return min(corners), max(corners)
        case "neg":
            return -a.high, -a.low
        case "abs":
            corners = [abs(a.low), abs(a.high)]
            return (0 if a.low <= 0 <= a.high else min(corners)), max(corners)
        case "min":
            return min(a.low, b.low), min(a.high, b.high)
        case "max":
            return max(a.low, b.low), max(a.high, b.high)
        case op if op in QUOTIENTS and b.low >= 0 and b.high > 0:
            return _divide(node.op, a, Known(max(b.low, 1), b.high))  # 0 has trapped
        case "bitand" if a.low >= 0 or b.low >= 0:
            return 0, min(x.high for x in (a, b) if x.low >= 0)
        case "shl" if b.low >= 0 and b.high < 64:
            corners = [x << y for x, y in product((a.low, a.high), (b.low, b.high))]
            return min(corners), max(corners)
        case "shr" if b.low >= 0:
            corners = [x >> y for x, y in product((a.low, a.high), (b.low, b.high))]
            return min(corners), max(corners)
        case _:
            return whole


def _divide(op: str, a: Known, b: Known) -> Interval:
    """Bounds of a quotient or remainder by a positive divisor."""
    match op:
        case "floordiv":
            corners = [x // y for x, y in product((a.low, a.high), (b.low, b.high))]
            return min(corners), max(corners)
        case "truncdiv":
            corners = [abs(x) // y * (1 if x >= 0 else -1) for x, y in product((a.low, a.high), (b.low, b.high))]
            return min(corners), max(corners)
        case "floormod":
            return (a.low, a.high) if a.low >= 0 and a.high < b.low else (0, b.high - 1)
        case _:
            return max(min(a.low, 0), 1 - b.high), min(max(a.high, 0), b.high - 1)


def _truth(node: Apply, args: list[Known]) -> Known:
    """Bounds of a bool operation: decided where the operands' bounds decide it."""
    a, b = args[0], args[-1]
    same = len(args) == 2 and (node.args[0] is node.args[1])
    low, high = 0, 1
    if node.op in COMPARISONS and a.terms and a.terms == b.terms:  # one form: only the constants differ
        a, b = Known(a.constant, a.constant), Known(b.constant, b.constant)
    match node.op:
        case "lt":
            low, high = int(a.high < b.low), int(a.low < b.high and not same)
        case "le":
            low, high = int(a.high <= b.low or same), int(a.low <= b.high)
        case "gt":
            low, high = int(a.low > b.high), int(a.high > b.low and not same)
        case "ge":
            low, high = int(a.low >= b.high or same), int(a.high >= b.low)
        case "eq":
            low = int(same or (a.is_single and b.is_single and a.low == b.low))
            high = int(a.low <= b.high and b.low <= a.high)
        case "ne":
            low = int(a.low > b.high or b.low > a.high)
            high = int(not same and not (a.is_single and b.is_single and a.low == b.low))
        case "and" | "min":
            low, high = min(a.low, b.low), min(a.high, b.high)
        case "or" | "max":
            low, high = max(a.low, b.low), max(a.high, b.high)
        case "not":
            low, high = 1 - a.high, 1 - a.low
        case "select":
            low, high = _reach(node, args)
        case _:
            pass
    return Known(low, high)


def always_traps(node: Expr, known: Mapping[int, Known]) -> bool:
    """Whether every evaluation of the node itself traps, given what is known of its operands."""
    match node:
        case Load():
            bounds = zip(node.buffer.static_shape, node.indices, strict=True)
            return any(known[id(e)].high < 0 or known[id(e)].low >= n for n, e in bounds)
        case Apply(op=op, args=(_, b)) if op in QUOTIENTS:
            return known[id(b)].low == known[id(b)].high == 0
        case Apply(op=op, args=(_, b)) if op in SHIFTS:
            return known[id(b)].high < 0 or known[id(b)].low >= 8 * node.dtype.itemsize
        case _:
            return False


def exact(node: Apply, known: Mapping[int, Known]) -> bool:
    """Whether an integer operation never leaves its dtype, so that plain C arithmetic is right."""
    args = [known[id(a)] for a in node.args]
    low, high = _reach(node, args)
    return _within(low, high, node.dtype)
