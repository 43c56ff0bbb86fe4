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
from assay.semantics.scalar import Apply, Cast, Const, Dim, Expr, Load, Var, operation, variables
from assay.semantics.scalar.structure import Interner
from assay.semantics.walk import Worklist, post_order, scoped

MOST_TERMS = 12
"""A linear form with more terms than this counts as an atom, so that the work stays linear."""
UNKNOWN = -(1 << 126), 1 << 126
"""Where an integer lies of which nothing is known."""
MOST_STEPS = 4
"""Inequalities that are added up to show another."""


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


@dataclass(frozen=True)
class Choice:
    """A choice between values as an atom: the number of its structure, and the variables in it."""

    structure: int
    variables: frozenset[Var]


class Ranges:
    """The bounds of variables in scope and the conditions that hold; both change as the printer walks the body."""

    def __init__(self) -> None:
        self.variables: dict[Var, Interval] = {}
        self.facts: list[Fact] = []
        self._laws: list[Fact] = []
        """What holds of quotients and extremes wherever they stand."""
        self._within: dict[int, Interval] = {}
        """Where the atoms lie."""
        self._atoms: dict[object, int] = {}
        """By variable, by operation and the forms of its operands, and a choice by its structure."""
        self._numbers = count()
        self._structure = Interner()

    def bind(self, var: Var, known: Known) -> Callable[[], None]:
        """Open the scope of a variable with those bounds; call the result to close it."""
        self._forget(var)
        leave = scoped(self.variables, var, known.range)

        def close() -> None:
            leave()
            self._forget(var)

        return close

    def _forget(self, var: Var) -> None:
        """What was said of a variable says nothing of it in another scope."""
        if var not in self._atoms:
            return
        gone = {self._atoms.pop(var)}
        for key in list(self._atoms):  # what is made of others comes behind them
            if isinstance(key, Choice):
                is_of = var in key.variables
            else:
                is_of = isinstance(key, tuple) and any(gone & f.terms.keys() for f in key[1:])
            if is_of:
                gone.add(self._atoms.pop(key))
        self._laws = [law for law in self._laws if not gone & law.form.terms.keys()]

    # --- expressions ---------------------------------------------------------------------------------------------

    def analyse(self, root: Expr) -> dict[int, Known]:
        """What is known of each integer and bool node below `root`, by identity."""
        known: dict[int, Known] = {}
        for node in post_order(root):
            if isinstance(node, Load):
                for d in node.buffer.shape:
                    if isinstance(d, Expr) and id(d) not in known:
                        known.update(self.analyse(d))
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

    def _atom(self, key: object, within: Callable[[], Interval]) -> Form[int]:
        if key not in self._atoms:
            self._atoms[key] = next(self._numbers)
            self._within[self._atoms[key]] = within()
        return Form({self._atoms[key]: 1})

    def _named(self, node: Apply, forms: list[Form[int]]) -> Form[int]:
        """An operation that is no sum as an atom: its value in unbounded integers, with what holds of it and of what it
        is made of, whatever holds where it stands."""
        key = node.op, *forms
        new = key not in self._atoms
        atom = self._atom(key, lambda: closed(reach(node.op, [self._interval(f) for f in forms])) or UNKNOWN)
        if new and node.op == "floordiv" and (forms[1].as_number or 0) > 0:
            rest = forms[0].plus(atom.scaled(forms[1].constant), -1)
            self._laws.append(_placed(rest, (0, forms[1].constant - 1)))
        elif new and node.op in ("max", "min"):
            some: Range = (0, None) if node.op == "max" else (None, 0)
            self._laws += [_placed(atom.plus(f, -1), some) for f in forms]
        return atom

    def _interval(self, form: Form[int]) -> Interval:
        """Where the bounds of its atoms put a form."""
        return closed(form.range(self._within.__getitem__)) or UNKNOWN

    # --- comparisons ---------------------------------------------------------------------------------------------

    def is_less(self, a: Known, b: Known) -> bool:
        """Whether one value is shown to be less than another, by their bounds or by adding up inequalities."""
        if a.high < b.low:
            return True
        if a.form is None or b.form is None:
            return False
        return self._most(a.form.plus(b.form, -1), MOST_STEPS) < 0

    def _most(self, form: Form[int], steps: int) -> int:
        """An upper bound of a sum that the bounds of its atoms, and up to `steps` inequalities added to it, give: the
        first below 0, else the least."""
        found = self._interval(form)[1]
        if found < 0 or not steps or not form.terms:
            return found
        facts = [f for f in (*self.facts, *self._laws) if len(f.form.terms) > 1]
        for atom in sorted(form.terms, reverse=True):  # what was named last is made of what was named before
            for fact in facts:
                f = fact.form.terms.get(atom)
                if f is None or form.terms[atom] % f:
                    continue
                times = form.terms[atom] // f
                end = fact.within[1 if times > 0 else 0]
                if end is not None:
                    rest = form.plus(fact.form, -times)
                    found = min(found, self._most(rest.of(rest.terms, rest.constant + times * end), steps - 1))
                    if found < 0:
                        return found
            if any(atom in fact.form.terms for fact in facts):
                break  # one order of taking them away is enough
        return found

    def _node(self, node: Expr, known: Mapping[int, Known]) -> Known:
        match node:
            case Const():
                return _number(int(node.value))
            case _ if always_traps(node, known):
                return Known(0, 0)  # never a value; any bounds are right
            case Var():
                low, high = self.variables.get(node, dtype_range(node.dtype))
                return Known(low, high, self._atom(node, lambda: (low, high)))
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
            if node.op == "select" and not any(isinstance(n, Load) for n in post_order(node)):
                return Known(
                    low,
                    high,
                    self._atom(Choice(self._structure(node), frozenset(variables(node))), lambda: (low, high)),
                )
            return Known(low, high)
        form = combined(node.op, forms)
        named = form is None or len(form.terms) > MOST_TERMS
        return Known(low, high, self._named(node, forms) if form is None or named else form)

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
    return Fact(difference.of(difference.terms, 0), within[op]) if op in within else None


def _placed(form: Form[int], within: Range) -> Fact:
    """That a form, its constant too, lies somewhere."""
    return Fact(form.of(form.terms, 0), plus(within, (-form.constant, -form.constant)))


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
            bounds = zip(node.buffer.shape, node.indices, strict=True)
            return any(known[id(e)].high < 0 or known[id(e)].low >= extent_of(n, known).high for n, e in bounds)
        case Apply(op=op, args=(_, b)) if operation(op).has("divides"):
            return known[id(b)].low == known[id(b)].high == 0
        case Apply(op=op, args=(_, b)) if operation(op).has("shifts"):
            return known[id(b)].high < 0 or known[id(b)].low >= node.dtype.bits
        case _:
            return False


def extent_of(dim: Dim, known: Mapping[int, Known]) -> Known:
    """What is known of a dim of a buffer that a node of an analysis loads from."""
    return known[id(dim)] if isinstance(dim, Expr) else _number(dim)


def never_overflows(node: Apply, known: Mapping[int, Known]) -> bool:
    """Whether an integer operation never leaves its dtype, so that plain C arithmetic is right."""
    return fits_dtype(_reach(node, [known[id(a)] for a in node.args]), node.dtype)
