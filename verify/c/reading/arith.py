"""Operations on terms, brought into one form (specs/verify.md, "c").

Each function gives a term that equals what is asked for, for all values that the facts allow. Both sides, C and
tensor functions, are built by them: so they are part of what is trusted, and every rule is one of arithmetic without
a width or of IEEE 754, where NaN has no payload.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from assay.semantics.walk import Worklist
from assay.verify.c.reading.facts import Facts
from assay.verify.c.reading.lemmas import Lemmas
from assay.verify.c.reading.terms import Term, TermTable, as_poly

REAL: dict[str, Any] = {"f32": np.float32, "f64": np.float64}
BITS: dict[str, Any] = {"f32": np.uint32, "f64": np.uint64}
FOLDED: dict[str, Any] = {
    "add": lambda a, b: a + b,
    "sub": lambda a, b: a - b,
    "mul": lambda a, b: a * b,
    "div": lambda a, b: a / b,
    "neg": lambda a: -a,
    "fabs": lambda a: abs(a),
    "sqrt": lambda a: np.sqrt(a),
    "floor": lambda a: np.floor(a),
    "ceil": lambda a: np.ceil(a),
    "rint": lambda a: np.rint(a),
}
"""Operations on floats that are exact or rounded once: of constants they are computed."""


@dataclass
class Arithmetic:
    """Builds terms. `facts` are those of the side that is read."""

    table: TermTable
    facts: Facts
    lemmas: Lemmas = field(default_factory=Lemmas)

    def assume(self, condition: Term) -> None:
        """A condition holds from here on."""
        parts = Worklist([condition])
        for one in parts:
            if one.op == "and":
                parts.add(one.args)
            elif one.op == "not" and one.args[0].op == "or":
                parts.add(self.negation(p) for p in one.args[0].args)
            elif one.op != "truth":
                self.facts.add(one)

    # --- whole numbers -------------------------------------------------------------------------------------------

    def whole(self, value: int) -> Term:
        """A whole number."""
        return self.table.whole(value)

    def add(self, a: Term, b: Term) -> Term:
        """a + b."""
        return self.table.total([(1, a), (1, b)])

    def sub(self, a: Term, b: Term) -> Term:
        """a - b."""
        return self.table.total([(1, a), (-1, b)])

    def mul(self, a: Term, b: Term) -> Term:
        """a * b."""
        return self.table.product(a, b)

    def wrap(self, a: Term, low: int, bits: int) -> Term:
        """The number from `low` on, of 2 to the `bits`, that is `a` up to a multiple of that."""
        size = 1 << bits
        least, most = self.facts.interval(a)
        if low <= least and most < low + size:
            return a
        if a.op == "ite":
            return self.choice(a.args[0], self.wrap(a.args[1], low, bits), self.wrap(a.args[2], low, bits))
        poly = {m: c % size for m, c in as_poly(a).items()}
        inner = [(m, c) for m, c in poly.items() if len(m) == 1 and m[0].op == "wrap" and m[0].args[2] >= bits]
        if inner:
            rest = {m: c for m, c in poly.items() if (m, c) not in inner}
            parts = [(c, m[0].args[0]) for m, c in inner]
            return self.wrap(self.table.total([*parts, (1, self.table.of_poly(rest))]), low, bits)
        products = [m for m in poly if len(m) > 1 and any(x.op == "wrap" and x.args[2] >= bits for x in m)]
        if products:
            total = self.table.of_poly({m: c for m, c in poly.items() if m not in products})
            for m in products:
                one = self.whole(poly[m])
                for x in m:
                    one = self.mul(one, x.args[0] if x.op == "wrap" and x.args[2] >= bits else x)
                total = self.add(total, one)
            return self.wrap(total, low, bits)
        whole = self.table.of_poly({m: c if c < size // 2 else c - size for m, c in poly.items()})
        least, most = self.facts.interval(whole)
        if low <= least and most < low + size:
            return whole
        if whole.is_constant:
            return self.whole((whole.value - low) % size + low)
        return self.table.term("wrap", (whole, low, bits), "int", (low, low + size - 1))

    def fdiv(self, a: Term, b: Term) -> Term:
        """The quotient rounded down; b is not 0."""
        if a.is_constant and b.is_constant and b.value:
            return self.whole(a.value // b.value)
        if b.is_constant and b.value == 1:
            return a
        if self._is_below(a, b):
            return self.whole(0)
        lead = next((c for m, c in a.args if m), 1) if a.op == "poly" else 1
        if lead < 0 and self.is_at_least(b, 1):  # one of the two ways to write it: a // b = -1 - (-1 - a) // b
            return self.sub(self.whole(-1), self.fdiv(self.sub(self.whole(-1), a), b))
        return self.table.term("fdiv", (a, b), "int")

    def fmod(self, a: Term, b: Term) -> Term:
        """The remainder of that, with the sign of the divisor."""
        if a.is_constant and b.is_constant and b.value:
            return self.whole(a.value % b.value)
        if b.is_constant and b.value == 1:
            return self.whole(0)
        return a if self._is_below(a, b) else self.table.term("fmod", (a, b), "int")

    def tdiv(self, a: Term, b: Term) -> Term:
        """The quotient rounded to zero; b is not 0. By -1 it is -a; `tquot` is the quotient by all others."""
        if self.is_at_least(a, 0) and self.is_at_least(b, 1):
            return self.fdiv(a, b)
        if a.is_constant and b.is_constant and b.value:
            size = abs(a.value) // abs(b.value)
            return self.whole(size if (a.value < 0) == (b.value < 0) else -size)
        quotient = self.table.term("tquot", (a, b), "int")
        return self.choice(self.eq0(self.add(b, self.whole(1))), self.mul(a, self.whole(-1)), quotient)

    def tmod(self, a: Term, b: Term) -> Term:
        """The remainder of that, with the sign of the dividend."""
        if self.is_at_least(a, 0) and self.is_at_least(b, 1):
            return self.fmod(a, b)
        remainder = self.table.term("trem", (a, b), "int")
        return self.choice(self.eq0(self.add(b, self.whole(1))), self.whole(0), remainder)

    def _is_below(self, a: Term, b: Term) -> bool:
        return self.facts.interval(a)[0] >= 0 and self.facts.interval(self.sub(b, a))[0] >= 1

    def is_at_least(self, a: Term, low: int) -> bool:
        """Whether a whole number is shown to be at least `low`."""
        return self.facts.interval(a)[0] >= low

    def imin(self, a: Term, b: Term) -> Term:
        """The smaller of two whole numbers."""
        if self.facts.interval(self.sub(b, a))[0] >= 0:
            return a
        if self.facts.interval(self.sub(a, b))[0] >= 0:
            return b
        return self.table.term("imin", tuple(sorted((a, b), key=lambda t: t.number)), "int")

    def imax(self, a: Term, b: Term) -> Term:
        """The larger of two whole numbers."""
        if self.facts.interval(self.sub(a, b))[0] >= 0:
            return a
        if self.facts.interval(self.sub(b, a))[0] >= 0:
            return b
        return self.table.term("imax", tuple(sorted((a, b), key=lambda t: t.number)), "int")

    def bitwise(self, op: str, a: Term, b: Term) -> Term:
        """The bits of two numbers put together, each with its sign without end."""
        if a.is_constant and b.is_constant:
            return self.whole({"band": a.value & b.value, "bor": a.value | b.value, "bxor": a.value ^ b.value}[op])
        for x, mask in ((a, b), (b, a)):
            if op == "band" and mask.is_constant and mask.value >= 0 and (mask.value + 1) & mask.value == 0:
                return self.fmod(x, self.whole(mask.value + 1))
        return self.table.term(op, tuple(sorted((a, b), key=lambda t: t.number)), "int")

    def power(self, by: Term) -> Term:
        """2 to a whole number that is not negative."""
        if by.is_constant:
            return self.whole(1 << by.value)
        return self.table.term("power", (by,), "int", (1, float("inf")))

    # --- conditions ----------------------------------------------------------------------------------------------

    def truth(self, value: bool) -> Term:
        """True or false."""
        return self.table.truth(value)

    def ge0(self, a: Term) -> Term:
        """Whether a whole number is at least 0."""
        low, high = self.facts.interval(a)
        if low >= 0 or high < 0:
            return self.truth(low >= 0)
        return self.table.term("ge0", (a,), "bool")

    def eq0(self, a: Term) -> Term:
        """Whether a whole number is 0."""
        low, high = self.facts.interval(a)
        if low > 0 or high < 0 or low == high == 0:
            return self.truth(low == high == 0)
        if a.op == "number":
            return self.negation(a.args[0])
        lead = next((c for _, c in a.args), 1) if a.op == "poly" else 1
        return self.table.term("eq0", (self.mul(a, self.whole(-1)) if lead < 0 else a,), "bool")

    def compare(self, op: str, a: Term, b: Term) -> Term:
        """A comparison of two whole numbers: lt, le, gt, ge, eq, ne."""
        match op:
            case "lt":
                return self.ge0(self.sub(self.sub(b, a), self.whole(1)))
            case "le":
                return self.ge0(self.sub(b, a))
            case "gt" | "ge":
                return self.compare("lt" if op == "gt" else "le", b, a)
            case "eq":
                return self.eq0(self.sub(a, b))
            case _:
                return self.negation(self.eq0(self.sub(a, b)))

    def compare_floats(self, op: str, a: Term, b: Term) -> Term:
        """A comparison of two floats, false where either is NaN, but ne."""
        match op:
            case "gt" | "ge":
                return self.compare_floats("lt" if op == "gt" else "le", b, a)
            case "ne":
                return self.negation(self.compare_floats("eq", a, b))
        if a.op == b.op == "float":
            x, y = (self.number_of(t) for t in (a, b))
            return self.truth(bool({"lt": x < y, "le": x <= y, "eq": x == y}[op]))
        return self.table.term(f"f{op}", (a, b), "bool")

    def negation(self, a: Term) -> Term:
        """Not a."""
        if a.op == "truth":
            return self.truth(not a.args[0])
        if a.op == "not":
            found: Term = a.args[0]
            return found
        if a.op == "ge0":
            return self.ge0(self.sub(self.whole(-1), a.args[0]))
        return self.table.term("not", (a,), "bool")

    def both(self, a: Term, b: Term) -> Term:
        """a and b."""
        if a.op == "truth":
            return b if a.args[0] else a
        if b.op == "truth":
            return a if b.args[0] else b
        return a if a is b else self.table.term("and", (a, b), "bool")

    def either(self, a: Term, b: Term) -> Term:
        """a or b."""
        if a.op == "truth":
            return a if a.args[0] else b
        if b.op == "truth":
            return b if b.args[0] else a
        return a if a is b else self.table.term("or", (a, b), "bool")

    def number(self, condition: Term) -> Term:
        """1 where a condition holds, else 0."""
        if condition.op == "truth":
            return self.whole(int(condition.args[0]))
        if condition.op == "not" and condition.args[0].op == "eq0":
            inner = condition.args[0].args[0]
            low, high = self.facts.interval(inner)
            if low >= 0 and high <= 1:
                found: Term = inner
                return found
        return self.table.term("number", (condition,), "int", (0, 1))

    def is_true(self, number: Term) -> Term:
        """Whether a number is not 0."""
        if number.sort != "int":
            return self.compare_floats("ne", number, self.real(number.sort, 0.0))
        return self.negation(self.eq0(number))

    def choice(self, condition: Term, a: Term, b: Term) -> Term:
        """a where a condition holds, else b."""
        if condition.op == "truth":
            return a if condition.args[0] else b
        if a is b:
            return a
        if condition.op == "not":
            return self.choice(condition.args[0], b, a)
        if a.op == "ite" and a.args[0] is condition:
            return self.choice(condition, a.args[1], b)
        if b.op == "ite" and b.args[0] is condition:
            return self.choice(condition, a, b.args[2])
        if a.sort == "int" and condition.op == "ge0":
            difference = condition.args[0]
            if difference in (self.sub(self.sub(b, a), self.whole(1)), self.sub(b, a)):
                return self.imin(a, b)
            if difference in (self.sub(self.sub(a, b), self.whole(1)), self.sub(a, b)):
                return self.imax(a, b)
        if a.sort in REAL:
            found = self.lemmas.extreme(condition, a, b)
            if found:
                return self.real_operation(found, a.sort, *self.in_order(a, b))
        if a.sort == "bool":
            if a.op == "truth":
                return self.either(condition, b) if a.args[0] else self.both(self.negation(condition), b)
            if b.op == "truth":
                return self.both(condition, a) if not b.args[0] else self.either(self.negation(condition), a)
        return self.table.term("ite", (condition, a, b), a.sort)

    # --- floats --------------------------------------------------------------------------------------------------

    def real(self, sort: str, value: float) -> Term:
        """A float, the nearest to `value`."""
        return self.real_of_bits(sort, int(np.asarray(REAL[sort](value)).view(BITS[sort])))

    def real_of_bits(self, sort: str, bits: int) -> Term:
        """The float with these bits; one NaN stands for all."""
        value = np.asarray(BITS[sort](bits)).view(REAL[sort])[()]
        return self.table.term("float", ("NaN" if np.isnan(value) else float(value).hex(), sort), sort)

    @staticmethod
    def number_of(term: Term) -> Any:
        """The float that a constant is."""
        text = term.args[0]
        return REAL[term.sort](float("nan") if text == "NaN" else float.fromhex(text))

    @staticmethod
    def in_order(a: Term, b: Term) -> tuple[Term, Term]:
        """Two operands in one order, for what commutes bit for bit."""
        return (a, b) if a.number <= b.number else (b, a)

    def real_operation(self, op: str, sort: str, *args: Term) -> Term:
        """An operation on floats, rounded in `sort`."""
        if op in FOLDED and all(a.op == "float" for a in args):
            with np.errstate(all="ignore"):
                return self.real(sort, FOLDED[op](*map(self.number_of, args)))
        if op in ("fmin", "fmax"):
            args = self.in_order(*args)
        return self.table.term(op, args, sort)

    def real_of(self, sort: str, a: Term) -> Term:
        """A number as a float of `sort`, rounded to nearest even."""
        if a.sort == sort:
            return a
        if a.sort == "int" and a.is_constant:
            with np.errstate(all="ignore"):
                return self.real(sort, _rounded(a.value, sort))
        if a.op == "float":
            with np.errstate(all="ignore"):
                return self.real(sort, self.number_of(a))
        return self.table.term("real", (a,), sort)

    def truncated(self, a: Term) -> Term:
        """The whole number that a float has before its point; only where it is one of the type that is wanted."""
        if a.op == "float" and np.isfinite(self.number_of(a)):
            return self.whole(int(self.number_of(a)))
        if a.op == "real" and a.args[0].sort == "f32" and a.sort == "f64":
            return self.truncated(a.args[0])  # float to double is exact
        return self.table.term("truncated", (a,), "int")

    def bits_of(self, a: Term) -> Term:
        """The bits of a float as a number that is not negative."""
        size = 32 if a.sort == "f32" else 64
        if a.op == "of_bits":
            found: Term = a.args[0]
            return found
        if a.op == "float" and a.args[0] != "NaN":
            return self.whole(int(np.asarray(self.number_of(a)).view(BITS[a.sort])))
        return self.table.term("bits", (a,), "int", (0, (1 << size) - 1))

    def of_bits(self, sort: str, bits: Term) -> Term:
        """The float with some bits."""
        if bits.is_constant:
            return self.real_of_bits(sort, bits.value)
        if bits.op == "bits" and bits.args[0].sort == sort:
            found: Term = bits.args[0]
            return found
        return self.table.term("of_bits", (bits,), sort)


def _rounded(value: int, sort: str) -> Any:
    """A whole number of at most 64 bits as a float, rounded once."""
    return (np.uint64(value) if value >= 2**63 else np.int64(value)).astype(REAL[sort])
