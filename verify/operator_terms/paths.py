"""What is known of data in one run of a value, used in its terms (specs/verify.md, "legalize").

A value may ask of its data, "is there a -0 among them?", and take a shorter way where there is none. Each answer is a
run of its own. What was answered says more of the terms: of an open maximum of no zeros which one it is.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

from assay.semantics.dtypes import BOOL, DTYPES, DType
from assay.semantics.scalar.arithmetic import OPERATIONS
from assay.semantics.walk import Worklist, needed_first
from assay.verify.equivalence.order import UndecidedTrace
from assay.verify.operator_terms.array import Array, TermRun
from assay.verify.operator_terms.exact import OPEN, ExactTerms

MOST_REBUILT = 60_000
"""Terms that are made anew for one run of a value."""


BLIND = ("add", "sub", "mul", "neg", "abs", "max", "min", "larger", "smaller", "sqrt", "select", "else")
"""Operations in which another sign of a zero operand gives at most another sign of a zero."""
SETTLING = ("exp", "eq", "ne", "lt", "le")
"""Operations that give the same of zeros of both signs."""

OF_BITS = ("bits_of", "signbit")
"""What differs of two NaNs: a literal NaN stands for any, so these are left of what was there."""
OF_NAN = ("exp", "log", "tanh", "erf", "sigmoid", "sin", "cos", "tan", "sinh", "cosh", "asinh", "atan")
"""Functions that are not computed of literals here, and give NaN of NaN."""


def resolved_numbers(run: TermRun, numbers: Array, blind: bool = False, real: bool = False) -> Array:
    """The terms with what the answers of the run say put in: equal to the given ones for all data with these
    answers. With `blind` but for signs of zeros; with `real` as functions of real numbers, with inverses for
    divisors."""
    flat = numbers.reshape(-1)
    if not run.asked and not (blind or real):
        return numbers
    found = _Known(run, real).rebuilt(flat, blind)
    return np.array([found[int(n), blind] for n in flat], np.int64).reshape(numbers.shape)


def known_numbers(run: TermRun, numbers: Array, facts: dict[int, bool], given: dict[int, int]) -> Array:
    """The terms where these conditions hold or do not, and what is `given` another term is that."""
    known = _Known(run, False)
    known.facts.update(facts)
    known.given = given
    found = known.rebuilt(numbers, False)
    return np.array([found[int(n), False] for n in numbers], np.int64)


def always_traps(run: TermRun, traps: Array) -> bool:
    """Whether, with the answers of the run, one of these assertions fails whatever the data are."""
    held = [(a, True) for name, _, a, b in (node(run.terms, int(n)) for n in traps) if _is_sure(run, name, b)]
    if any(condition == run.terms.false for condition, _ in held):
        return True
    known = _Known(run, False)
    known.facts = facts_of_way(run.terms, held)
    asked = np.array([n for n, _ in run.asked], np.int64)
    found = known.rebuilt(asked, False)
    truth = {True: run.terms.true, False: run.terms.false}
    return any(found[n, False] == truth[not holds] for n, holds in run.asked)


def never_traps(run: TermRun, traps: Array) -> Array:
    """Of these traps the assertions that hold with the answers of the run."""
    parts = [node(run.terms, int(n)) for n in traps]
    conditions = [a if name == "trap assert" else run.terms.false for name, _, a, _ in parts]
    return np.asarray(resolved_numbers(run, np.array(conditions, np.int64)) == run.terms.true)


def _is_sure(run: TermRun, name: str, guard: int) -> bool:
    return name == "trap assert" and guard == run.terms.true


def facts_of_way(terms: ExactTerms, asked: Iterable[tuple[int, bool]]) -> dict[int, bool]:
    """The conditions that hold or do not, taken apart where `and`, `or` and `not` allow."""
    facts: dict[int, bool] = {}
    work = Worklist(asked)
    for number, holds in work:
        if number in facts:
            continue
        facts[number] = holds
        name, _, a, b = node(terms, number)
        if name == "not":
            work.add([(a, not holds)])
        elif name == ("and" if holds else "or"):
            work.add([(a, holds), (b, holds)])
    return facts


def node(terms: ExactTerms, number: int) -> tuple[str, DType | None, int, int]:
    """A term taken apart: its operation, "" of a leaf, the dtype and the operands."""
    code, a, b = (int(x) for x in terms.parts(number))
    name, of = terms.names[code] if code else ("", None)
    return name, of, a, b


class _Known:
    def __init__(self, run: TermRun, real: bool) -> None:
        self.terms, self.real = run.terms, real
        self.codes, self.left, self.right = (x.tolist() for x in run.terms.parts(np.arange(run.terms.count)))
        self.facts = facts_of_way(run.terms, run.asked)
        self.not_minus = {t for n, holds in self.facts.items() if not holds and (t := self._minus_zero(n))}
        """Terms that are not -0."""
        self.not_zero = {t for n, holds in self.facts.items() if not holds and (t := self._is_zero_test(n))}
        """Terms that are no zero."""
        self.given: dict[int, int] = {}
        """Terms that are other terms here."""
        self.signed: dict[int, int] = {}
        self.new: dict[tuple[int, bool], int] = {}
        """By the old term, and whether the sign of a zero matters where it stands."""

    def node(self, number: int) -> tuple[str, DType | None, int, int]:
        """A term taken apart."""
        if number >= len(self.codes):
            return node(self.terms, number)
        name, of = self.terms.names[self.codes[number]]
        return name, of, self.left[number], self.right[number]

    def _is_zero_test(self, number: int) -> int:
        """x of a term x == 0, else 0."""
        name, _, a, b = self.node(number)
        if name == "eq":
            for x, y in ((a, b), (b, a)):
                if y in self.terms.values and self.terms.values[y][1] == 0:
                    return x
        return 0

    def _signed_zero(self, number: int) -> tuple[int, bool]:
        """x, and whether it is -0, of a term that says that it is a zero of one sign; else 0."""
        name, _, a, b = self.node(number)
        if name != "and":
            return 0, False
        for x, y in ((a, b), (b, a)):
            of = self._is_zero_test(x)
            sign, _, inner, _ = self.node(y)
            minus = sign == "signbit"
            if sign == "not":
                sign, _, inner, _ = self.node(inner)
            if of and sign == "signbit" and inner == of:
                return of, minus
        return 0, False

    def _minus_zero(self, number: int) -> int:
        of, minus = self._signed_zero(number)
        return of if minus else 0

    def rebuilt(self, roots: Array, blind: bool) -> dict[tuple[int, bool], int]:
        """The new terms of what the roots are made of."""
        for number, sign in needed_first([(int(n), blind) for n in np.unique(roots)], self._needs):
            if len(self.new) > MOST_REBUILT:
                raise UndecidedTrace(f"more than {MOST_REBUILT} terms with what is known of data put in")
            self.new[number, sign] = self._decided(number) or self._made(number, sign)
        return self.new

    def _decided(self, number: int) -> int:
        """The new term where it takes none of its operands: of a condition that is known, or a maximum whose zeros are
        given their signs; else 0."""
        if number in self.given:
            return self.given[number]
        if number in self.facts:
            return self.terms.true if self.facts[number] else self.terms.false
        if number not in self.signed:
            self.signed[number] = self._signed(number)
        return self.signed[number]

    def _needs(self, at: tuple[int, bool]) -> list[tuple[int, bool]]:
        return [] if self._decided(at[0]) else self._parts(*at)

    def _parts(self, number: int, blind: bool) -> list[tuple[int, bool]]:
        """The operands, and whether the sign of a zero matters in each."""
        name, _, a, b = self.node(number)
        if not name:
            return []
        if name in SETTLING:
            sides = (True, True)
        elif name == "div":
            sides = (blind, False)
        else:
            sides = (blind and name in BLIND,) * 2
        return [(a, sides[0]), (b, sides[1])]

    def _made(self, number: int, blind: bool) -> int:
        terms = self.terms
        name, of, a, b = self.node(number)
        if not name:
            return number
        left, right = (self.new[p] for p in self._parts(number, blind))
        if name in OPEN and of is not None:
            if blind:
                return int(terms.apply(OPEN[name], of, of, left, right))
            return self._extreme(number, name, of, left, right)
        if name == "select":
            assert of is not None
            _, _, then, otherwise = self.node(right)
            return int(terms.select(of, left, then, otherwise))
        if name == "div" and self.real and of is not None:
            inverse = terms.intern(terms.code("inverse", of), right)
            return int(terms.apply("mul", of, of, left, inverse))
        if name in OF_NAN and of is not None and self._is_nan(left):
            return left
        if (left, right) == (a, b) or (name in OF_BITS and self._is_nan(left)):
            return number
        if name.startswith("cast ") and of is not None:
            return int(terms.cast(DTYPES[name.removeprefix("cast ")], of, left))
        if name in OPERATIONS and of is not None:
            to = BOOL if OPERATIONS[name].result == "bool" else of
            return int(terms.apply(name, of, to, left, *((right,) if OPERATIONS[name].arity == 2 else ())))
        return int(terms.intern(terms.code(name, of), left, right))

    def _is_nan(self, number: int) -> bool:
        return number in self.terms.values and bool(np.isnan(self.terms.values[number][1]))

    def _extreme(self, number: int, name: str, of: Any, left: int, right: int) -> int:
        """An open maximum or minimum: the table's where it is no zero, or no operand is -0."""
        sure = all(self.terms.unsigned_zero[n] or n in self.not_minus for n in (left, right))
        if number in self.not_zero or sure:
            made = int(self.terms.closed[number])
            if sure:
                self.not_minus.add(made)
            return made
        return int(self.terms.open_extreme(name, of, left, right))

    def _signed(self, number: int) -> int:
        """The table's maximum where a term is an open one M whose zero is given its sign: if M == 0, +0 where one of
        the elements is +0, else -0; else M. And the same of a minimum; 0 where it is no such term."""
        outer, of, condition, pair = self.node(number)
        if outer != "select":
            return 0
        _, _, signs, plain = self.node(pair)
        tested = self._is_zero_test(condition)
        name, choice, some, sides = self.node(signs)
        if not tested or tested != plain or name != "select" or choice is not of:
            return 0
        _, _, plus, minus = self.node(sides)
        zeros = [self.terms.values[n][1] for n in (plus, minus) if n in self.terms.values]
        if len(zeros) != 2 or any(zeros) or np.signbit(zeros[0]) or not np.signbit(zeros[1]):
            return 0
        return self._table_extreme(plain, some)

    def _table_extreme(self, plain: int, some: int) -> int:
        for name, op in OPEN.items():
            leaves = self._leaves(plain, (name, op))
            what, inner = some, name == "smaller"
            if inner:
                negated, _, what, _ = self.node(some)
                if negated != "not":
                    continue
            told = [self._signed_zero(n) for n in self._leaves(what, ("or",))]
            wanted = {n for n in leaves if not self._never_zero(n)}
            if {n for n, _ in told} == wanted and all(minus == inner for _, minus in told):
                return int(self.terms.closed[plain]) or plain
        return 0

    def _never_zero(self, number: int) -> bool:
        return number in self.terms.values and self.terms.values[number][1] != 0

    def _leaves(self, number: int, names: tuple[str, ...]) -> list[int]:
        found: dict[int, None] = {}
        work = Worklist([number])
        for n in work:
            name, _, a, b = self.node(n)
            if name in names:
                work.add([a, b])
            else:
                found[n] = None
        return list(found)
