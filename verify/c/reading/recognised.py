"""Operations that a function of the file may be, and how that is shown (specs/verify.md, "c").

A name gives the candidates; a proof for all values of the parameters decides.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

import z3

from assay.semantics.scalar.transcendental import ROUTINES
from assay.semantics.walk import post_order
from assay.verify.c.reading.arith import Arithmetic
from assay.verify.c.reading.lemmas import COMPARISONS, EXTREMES, SORTS, Lemmas, is_valid
from assay.verify.c.reading.parse import CFunction
from assay.verify.c.reading.preprocess import NotRead
from assay.verify.c.reading.terms import Term

WIDTH = 132
"""Bits in which whole numbers are computed: no product of two of 64 bits leaves them."""
Needs = Callable[[Arithmetic, Sequence[Term]], list[Term]]


def _nothing(math: Arithmetic, args: Sequence[Term]) -> list[Term]:
    return []


@dataclass(frozen=True)
class PossibleOperation:
    """An operation: what it gives, and what must hold of its operands for it to be defined."""

    name: str
    build: Callable[[Arithmetic, Sequence[Term]], Term]
    needs: Needs = _nothing


def _extreme(op: str, sort: str) -> PossibleOperation:
    return PossibleOperation(f"{op} {sort}", lambda math, args: math.real_operation(op, sort, *args))


def _shr(bits: int) -> PossibleOperation:
    def needs(math: Arithmetic, args: Sequence[Term]) -> list[Term]:
        return [math.ge0(args[1]), math.compare("lt", args[1], math.whole(bits))]

    return PossibleOperation(f"shr {bits}", lambda math, args: math.fdiv(args[0], math.power(args[1])), needs)


@dataclass
class Recognised:
    """Shows that functions are operations. `routine` gives the term of a shared routine for its operands."""

    routine: Callable[[str, Arithmetic, Sequence[Term]], Term]
    reproducible: bool
    """Whether the operations of the tensor functions are the shared routines, bit for bit; else the platform's will
    do."""
    lemmas: Lemmas = field(default_factory=Lemmas)
    known: dict[str, PossibleOperation] = field(default_factory=dict)

    def candidates(self, function: CFunction, params: Sequence[Term]) -> Iterable[PossibleOperation]:
        """The operations that a function may be, by a hint in its name."""
        words = function.name.split("_")
        sorts = {p.sort for p in params} | {{"float": "f32", "double": "f64"}.get(function.result, "int")}
        found: list[PossibleOperation] = []
        if len(sorts) == 1 and len(params) == 2 and (sort := next(iter(sorts))) in SORTS:
            found += [_extreme(f"f{w}", sort) for w in ("min", "max") if w in words]
        if "shr" in words and len(params) == 2 and sorts == {"int"}:
            found += [_shr(64), _shr(32)]
        if len(sorts) == 1 and (sort := next(iter(sorts))) in SORTS:
            found += [self.transcendental(w, sort) for w in ROUTINES if w in words]
        self.known.update((c.name, c) for c in found)
        return found

    def transcendental(self, op: str, sort: str) -> PossibleOperation:
        """A function of <math.h> by its shared routine."""
        return PossibleOperation(f"{op} {sort}", lambda math, args: math.real_operation(op, sort, *args))

    def apply(self, name: str, math: Arithmetic, args: Sequence[Term]) -> Term:
        """What an operation gives; NotRead where it is not shown to be defined."""
        candidate = self.known[name]
        for condition in candidate.needs(math, args):
            if not math.facts.proves(condition):
                raise NotRead(f"{name} is not shown to be defined: {condition!r}")
        return candidate.build(math, args)

    def holds(self, candidate: PossibleOperation, math: Arithmetic, params: Sequence[Term], made: Term) -> bool:
        """Whether what a function gives is what the operation gives, for all values of its parameters."""
        wanted = candidate.build(math, params)
        if wanted is made:
            return True
        if wanted.op in ROUTINES:
            wide = [math.real_of("f64", p) for p in params]
            if self.reproducible and made is math.real_of(wanted.sort, math.real_operation(wanted.op, "f64", *wide)):
                return True  # that one was shown to be the routine, or it would have another name
            return made is math.real_of(wanted.sort, self.routine(wanted.op, math, wide))
        try:
            bits = BitTerms()
            if wanted.op in EXTREMES:
                x, y = (bits.real(bits.term(a), wanted.sort) for a in wanted.args)
                claim = bits.real(bits.term(made), wanted.sort) == EXTREMES[wanted.op](x, y)
            else:
                claim = bits.term(made) == bits.term(wanted)
            given = [bits.term(c) for c in candidate.needs(math, params)]
        except NotRead:
            return False
        return is_valid(z3.Implies(z3.And(*bits.known, *given), claim))


@dataclass
class BitTerms:
    """Terms in bits: floats as their bits, whole numbers in WIDTH bits."""

    made: dict[Term, Any] = field(default_factory=dict)
    known: list[Any] = field(default_factory=list)

    def term(self, root: Term) -> Any:
        """The formula of a term; NotRead where this has none."""
        for node in post_order(root, lambda t: t.children):
            if node not in self.made:
                self.made[node] = self._term(node, [self.made[c] for c in node.args if isinstance(c, Term)])
        return self.made[root]

    @staticmethod
    def real(bits: Any, sort: str) -> Any:
        """The float with some bits."""
        return z3.fpBVToFP(bits, SORTS[sort]())

    def _term(self, node: Term, args: list[Any]) -> Any:
        match node.op:
            case "unknown" if node.sort in SORTS:
                return z3.BitVec(node.args[0], 32 if node.sort == "f32" else 64)
            case "unknown" if node.sort == "int":
                made = z3.BitVec(node.args[0], WIDTH)
                low, high = (z3.BitVecVal(int(x), WIDTH) for x in node.within)
                self.known.append(z3.And(low <= made, made <= high))
                return made
            case "poly":
                total = z3.BitVecVal(0, WIDTH)
                for mono, c in node.args:
                    part = z3.BitVecVal(c, WIDTH)
                    for a in mono:
                        part = part * self.made[a]
                    total = total + part
                return total
            case "bits":
                return z3.ZeroExt(WIDTH - args[0].size(), args[0])
            case "of_bits":
                return z3.Extract(31 if node.sort == "f32" else 63, 0, args[0])
            case "band":
                return args[0] & args[-1]
            case "bor":
                return args[0] | args[-1]
            case "power":
                return z3.BitVecVal(1, WIDTH) << args[0]
            case "fdiv" if node.args[1].op == "power":
                return args[0] >> self.made[node.args[1].args[0]]
            case "wrap":
                _, low, bits = node.args
                part = z3.Extract(bits - 1, 0, args[0])
                return z3.SignExt(WIDTH - bits, part) if low else z3.ZeroExt(WIDTH - bits, part)
            case "ge0":
                return args[0] >= 0
            case "eq0":
                return args[0] == 0
            case "not":
                return z3.Not(args[0])
            case "and":
                return z3.And(*args)
            case "or":
                return z3.Or(*args)
            case "ite":
                return z3.If(*args)
            case op if op in COMPARISONS:
                a, b = (self.real(x, node.args[0].sort) for x in args)
                return COMPARISONS[op](a, b)
            case other:
                raise NotRead(f"no formula in bits of {other}")
