"""What follows from facts by sums of multiples alone, without z3 (specs/verify.md, "For all sizes").

Most questions about places are of this kind: an index lies in its box, another is the same. Only "it follows" is ever
said; what is not seen here is asked of z3.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

from assay.semantics.dtypes import INT64
from assay.semantics.integers.linear import Form
from assay.semantics.scalar import Apply, Const, Expr, Load, Var, linear
from assay.semantics.walk import Worklist, post_order

Sum: TypeAlias = Form[int]
"""A sum of multiples of numbered parts, of which nothing is known but that each is a whole number."""
NEGATED = {"ge": "lt", "lt": "ge", "le": "gt", "gt": "le"}
TURNS = 3
"""How often bounds are taken from facts."""
Bound: TypeAlias = tuple[float, float]
NONE: Bound = (float("-inf"), float("inf"))


@dataclass
class LinearFacts:
    """Facts that are sums: those that are at least 0, and the bounds of parts that follow. `number` numbers expressions
    by their structure, `is_data` says of a variable whether it stands for data, whose arithmetic wraps."""

    number: Callable[[Expr], int]
    is_data: Callable[[Var], bool]
    least: list[Sum] = field(default_factory=list)
    solved: list[tuple[int, Sum]] = field(default_factory=list)
    """Parts that are another sum, by facts that are equations."""
    bounds: dict[int, Bound] = field(default_factory=dict)
    never: bool = False
    """Whether the facts exclude one another."""

    def take(self, facts: Iterable[Expr]) -> None:
        """Take facts over, as far as they are sums."""
        equal: list[Sum] = []
        for fact in _parts(facts):
            match self.relation(fact):
                case ("eq", total):
                    equal.append(total)
                case ("ge", total):
                    self.least.append(total)
        for total in equal:
            self.solve(self.plain(total))
        self.least = [self.plain(total) for total in self.least]
        for _ in range(TURNS):
            for total in self.least:
                self.narrow(total)
        self.never = self.never or any(self.most(total) < 0 for total in self.least)
        self.never = self.never or any(low > high for low, high in self.bounds.values())

    def follows(self, claim: Expr) -> bool:
        """Whether a claim is seen to hold wherever the facts do."""
        return self.never or all(self._follows(part) for part in _parts([claim]))

    def _follows(self, claim: Expr) -> bool:
        if isinstance(claim, Const):
            return bool(claim.value)
        match self.relation(claim):
            case ("eq", total):
                total = self.plain(total)
                return self.is_least(total) and self.is_least(total.plus(total, -2))
            case ("ge", total):
                return self.is_least(self.plain(total))
        return False

    def is_least(self, total: Sum) -> bool:
        """Whether a sum is at least 0: by the bounds of its parts, or as it is no less than one that is."""
        low = -self.most(total.plus(total, -2))
        return low >= 0 or any(-self.most(known.plus(total, -1)) >= 0 for known in self.least)

    # --- facts ---------------------------------------------------------------------------------------------------

    def relation(self, fact: Expr) -> tuple[str, Sum] | None:
        """A fact as a sum that is 0, or at least 0; None where it is none."""
        turned = isinstance(fact, Apply) and fact.op == "not"
        inner = fact.args[0] if turned and isinstance(fact, Apply) else fact
        if not isinstance(inner, Apply) or len(inner.args) != 2 or inner.args[0].dtype is not INT64:
            return None
        op = NEGATED.get(inner.op, "") if turned else inner.op
        if op not in ("eq", *NEGATED):
            return None
        sides = [self.sum(a) for a in inner.args]
        if sides[0] is None or sides[1] is None:
            return None
        a, b = sides[0], sides[1]
        if op in ("le", "lt"):
            a, b = b, a
        total = a.plus(b, -1)
        return ("eq" if op == "eq" else "ge"), (total.plus(Form({}, 1), -1) if op in ("lt", "gt") else total)

    def sum(self, expr: Expr) -> Sum | None:
        """An expression of sizes and indices as a sum; None where its arithmetic may wrap."""
        if any(isinstance(n, Load) or (isinstance(n, Var) and self.is_data(n)) for n in post_order(expr)):
            return None
        wrapped: list[int] = []
        form = linear(expr, wrapped)
        return (
            None
            if form is None or wrapped
            else Form.of({self.number(a): k for a, k in form.terms.items()}, form.constant)
        )

    def solve(self, total: Sum) -> None:
        """Take from an equation what one of its parts is."""
        part = next((a for a, k in total.terms.items() if abs(k) == 1), None)
        if part is None:
            if not total.terms:
                self.never = self.never or total.constant != 0
            else:
                self.least += [total, total.plus(total, -2)]
            return
        k = total.terms[part]
        rest = Form.of({a: -k * n for a, n in total.terms.items() if a != part}, -k * total.constant)
        self.solved = [(a, _put(known, part, rest)) for a, known in self.solved]
        self.solved.append((part, rest))

    def plain(self, total: Sum) -> Sum:
        """A sum without the parts that are others."""
        for part, rest in self.solved:
            total = _put(total, part, rest)
        return total

    def narrow(self, total: Sum) -> None:
        """Take from a sum that is at least 0 what it says of each of its parts."""
        for part, k in total.terms.items():
            others = self.most(Form({a: n for a, n in total.terms.items() if a != part}, total.constant))
            if others == float("inf"):
                continue
            low, high = self.bounds.get(part, NONE)
            edge = int(others)  # k * part >= -edge
            self.bounds[part] = (max(low, -(edge // k)), high) if k > 0 else (low, min(high, edge // -k))

    def most(self, total: Sum) -> float:
        """A number that a sum does not exceed."""
        found: float = total.constant
        for part, k in total.terms.items():
            end = self.bounds.get(part, NONE)[k > 0]
            if abs(end) == float("inf"):
                return float("inf")
            found += k * int(end)
        return found


def _parts(facts: Iterable[Expr]) -> Sequence[Expr]:
    """Facts, taken apart where all parts hold."""
    found: list[Expr] = []
    work = Worklist(facts)
    for fact in work:
        if isinstance(fact, Apply) and fact.op == "and":
            work.add(fact.args)
        else:
            found.append(fact)
    return found


def _put(total: Sum, part: int, rest: Sum) -> Sum:
    k = total.terms.get(part, 0)
    if not k:
        return total
    return Form.of({a: n for a, n in total.terms.items() if a != part}, total.constant).plus(rest, k)
