"""What is known of whole numbers at a place: intervals, conditions that hold, and z3 (specs/verify.md, "c")."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import reduce
from itertools import product
from typing import Any, TypeAlias

import z3

from assay.semantics.walk import post_order
from assay.verify.c.reading.terms import UNBOUNDED, Interval, Term
from assay.verify.proof_texts import never_hold

Formula: TypeAlias = Any
"""A term of z3."""
EFFORT = 2_000_000
"""The resource limit of one question to z3; what it does not decide by then is not known."""


@dataclass
class Facts:
    """Conditions that hold here. `within` are the intervals of atoms that follow from them."""

    conditions: list[Term] = field(default_factory=list)
    within: dict[Term, Interval] = field(default_factory=dict)
    asked: int = 0
    formulas: dict[Term, Formula] = field(default_factory=dict)
    """What z3 is told of terms, made once for all questions: it hangs on no fact."""
    bounds: dict[tuple[Term, Interval], list[Formula]] = field(default_factory=dict)
    """The same of where a term lies."""
    _known: dict[Term, Interval] = field(default_factory=dict)

    def copy(self) -> Facts:
        """The same facts, to be added to."""
        return Facts(list(self.conditions), dict(self.within), self.asked, self.formulas, self.bounds)

    def add(self, condition: Term) -> None:
        """A condition holds from here on."""
        self.conditions.append(condition)
        self.narrow(condition)

    def narrow(self, condition: Term) -> None:
        """Take from a condition on one atom what it says of its interval."""
        if condition.op == "not" and condition.args[0].op == "eq0":
            atom = condition.args[0].args[0]
            low, high = self.within.get(atom, atom.within)
            if low == 0:
                self.within[atom] = (1, high)
                self._known.clear()
        if condition.op != "ge0":
            return
        poly = dict(condition.args[0].args) if condition.args[0].op == "poly" else {(condition.args[0],): 1}
        constant = poly.pop((), 0)
        if len(poly) != 1:
            return
        ((mono, c),) = poly.items()
        if len(mono) != 1:
            return
        low, high = self.within.get(mono[0], mono[0].within)
        # c * atom + constant >= 0
        least, most = -(constant // c) if c > 0 else low, constant // -c if c < 0 else high
        self.within[mono[0]] = (max(low, least), min(high, most))
        self._known.clear()

    def interval(self, term: Term) -> Interval:
        """The least and the greatest number that a whole number may be here."""
        known = self._known
        if term not in known:
            for node in post_order(term, lambda t: () if t in known else t.children):
                if node not in known:
                    known[node] = self._interval(node) if node.sort == "int" else UNBOUNDED
        return known[term]

    def _interval(self, node: Term) -> Interval:
        if node.op == "poly":
            low: float = 0
            high: float = 0
            for mono, c in node.args:
                a, b = reduce(_times, (self._known[x] for x in mono), (c, c))
                low, high = low + a, high + b
            return (low, high)
        low, high = _by_operation(node, [self._known.get(c, UNBOUNDED) for c in node.children])
        a, b = self.within.get(node, node.within)
        return (max(low, a), min(high, b))

    def proves(self, condition: Term) -> bool:
        """Whether a condition is shown to hold here."""
        if condition.op == "truth":
            return bool(condition.args[0])
        if condition.op == "and":
            return all(self.proves(c) for c in condition.args)
        if condition in self.conditions:
            return True
        if condition.op == "ge0" and self.interval(condition.args[0])[0] >= 0:
            return True
        if condition.op == "not" and condition.args[0].op == "eq0":
            low, high = self.interval(condition.args[0].args[0])
            if low > 0 or high < 0:
                return True
        return self.follows(condition)

    def follows(self, condition: Term) -> bool:
        """Whether z3 finds that a condition follows from the facts."""
        self.asked += 1
        return Question(self).follows(condition)

    def same(self, a: Term, b: Term) -> bool:
        """Whether two terms are shown to be equal here."""
        if a is b:
            return True
        if a.sort != b.sort:
            return False
        self.asked += 1
        return Question(self).same(a, b)


def _times(a: Interval, b: Interval) -> Interval:
    ends = [0 if 0 in (x, y) else x * y for x, y in product(a, b)]
    return (min(ends), max(ends))


def _by_operation(node: Term, args: list[Interval]) -> Interval:
    """The interval of an atom from those of its operands."""
    match node.op, args:
        case "fdiv", [(low, high), (c, d)] if c > 0:
            ends = [_floor(x, y) for x in (low, high) for y in (c, d)]
            return (min(ends), max(ends))
        case "tquot", [(low, high), (c, d)]:
            return _quotient(low, high, c)
        case "trem", [(low, high), (c, d)]:
            most = max(abs(c), abs(d)) - 1
            return (max(min(low, 0), -most), min(max(high, 0), most))
        case "fmod", [_, (c, d)] if c > 0:
            return (0, d - 1)
        case "imin", [a, b]:
            return (min(a[0], b[0]), min(a[1], b[1]))
        case "imax", [a, b]:
            return (max(a[0], b[0]), max(a[1], b[1]))
        case "band", [a, *b] if max(a[0], *(x[0] for x in b)) >= 0:
            return (0, min(x[1] for x in (a, *b) if x[0] >= 0))
        case "bor" | "bxor", [a, *b] if min(a[0], *(x[0] for x in b)) >= 0:
            most = max(x[1] for x in (a, *b))
            return (0, most if most == float("inf") else (1 << int(most).bit_length()) - 1)
        case "ite", [_, a, b]:
            return (min(a[0], b[0]), max(a[1], b[1]))
        case "number", _:
            return (0, 1)
        case _:
            return UNBOUNDED


def _quotient(low: float, high: float, least: float) -> Interval:
    """Where a quotient to zero lies, by a divisor of at least `least` that is neither 0 nor -1."""
    down, up = min(low, 0), max(high, 0)
    if least >= 1:
        return (-_floor(-down, least), _floor(up, least))
    return (min(down, -_floor(up, 2)), max(up, _floor(-down, 2)))


def _floor(a: float, b: float) -> float:
    if a in (float("inf"), float("-inf")):
        return a
    return (0 if a >= 0 else -1) if b == float("inf") else int(a) // int(b)


@dataclass
class Question:
    """One question to z3: whole numbers are integers, what has no better term is an unknown function."""

    facts: Facts
    seen: set[Term] = field(default_factory=set)
    """The terms of which it is told where they lie."""
    known: list[Formula] = field(default_factory=list)

    def follows(self, condition: Term) -> bool:
        """Whether the condition holds wherever the facts do."""
        return self.refuted(z3.Not(self.formula(condition)))

    def same(self, a: Term, b: Term) -> bool:
        """Whether two terms are equal wherever the facts hold."""
        return self.refuted(self.formula(a) != self.formula(b))

    def refuted(self, goal: Formula) -> bool:
        """Whether the negation of a goal cannot hold."""
        given = [self.formula(c) for c in self.facts.conditions]
        for atom, (low, high) in self.facts.within.items():
            self.formula(atom)
            self.bound(atom, (low, high))
        return never_hold("", [*self.known, *given, goal], EFFORT)

    def bound(self, term: Term, within: Interval) -> None:
        """Where a whole number lies is known."""
        bounds = self.facts.bounds
        if (term, within) not in bounds:
            formula, (low, high) = self.facts.formulas[term], within
            bounds[term, within] = [formula >= int(low)] if low > float("-inf") else []
            bounds[term, within] += [formula <= int(high)] if high < float("inf") else []
        self.known += bounds[term, within]

    def formula(self, term: Term) -> Formula:
        """The formula of a term."""
        made = self.facts.formulas
        for node in post_order(term, lambda t: () if t in self.seen else t.children):
            if node not in self.seen:
                self.seen.add(node)
                if node not in made:
                    made[node] = self._formula(node, [made[c] for c in node.children])
                if node.sort == "int" and node.op != "poly":
                    self.bound(node, self.facts.interval(node))
        return made[term]

    def _formula(self, node: Term, args: list[Formula]) -> Formula:
        match node.op:
            case "poly":
                total = z3.IntVal(0)
                for mono, c in node.args:
                    total = total + reduce(lambda x, y: x * y, (self.facts.formulas[a] for a in mono), z3.IntVal(c))
                return total
            case "truth":
                return z3.BoolVal(node.args[0])
            case "ge0":
                return args[0] >= 0
            case "eq0":
                return args[0] == 0
            case "not":
                return z3.Not(args[0])
            case "and":
                return z3.And(*[self.facts.formulas[a] for a in node.args])
            case "or":
                return z3.Or(*[self.facts.formulas[a] for a in node.args])
            case "ite":
                return z3.If(*[self.facts.formulas[a] for a in node.args])
            case "imin":
                return z3.If(args[0] <= args[-1], args[0], args[-1])
            case "imax":
                return z3.If(args[0] >= args[-1], args[0], args[-1])
            case "number":
                return z3.If(args[0], z3.IntVal(1), z3.IntVal(0))
            case "fdiv" if node.args[1].is_constant and node.args[1].value > 0:
                return args[0] / args[1]
            case "tquot" if node.args[1].is_constant and node.args[1].value > 0:
                return z3.If(args[0] >= 0, args[0] / args[1], -(-args[0] / args[1]))
            case "trem" if node.args[1].is_constant and node.args[1].value > 0:
                return z3.If(args[0] >= 0, args[0] % args[1], -(-args[0] % args[1]))
            case "fmod" if node.args[1].is_constant and node.args[1].value > 0:
                return args[0] % args[1]
            case _:
                return self.unknown(node, args)

    def unknown(self, node: Term, args: list[Formula]) -> Formula:
        """A value of which nothing is known but that equal operations on equal operands give equal ones."""
        others = [a for a in node.args if not isinstance(a, Term)]
        name = f"{node.op} {node.sort} {' '.join(map(_named, others))}"
        if not node.children:
            return z3.Const(f"{name} {node.number}", _sort(node.sort))
        given = [self.facts.formulas[c] for c in node.args if isinstance(c, Term)]
        return z3.Function(name, *(g.sort() for g in given), _sort(node.sort))(*given)


def _named(part: Any) -> str:
    return str(getattr(part, "key", part))


def _sort(of: str) -> Any:
    return z3.IntSort() if of == "int" else z3.BoolSort() if of == "bool" else z3.DeclareSort(of)
