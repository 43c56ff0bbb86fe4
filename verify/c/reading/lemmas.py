"""What is shown once of operations on floats, by z3 in its theory of IEEE 754 (specs/verify.md, "c")."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, TypeAlias

import z3

from assay.verify.c.reading.terms import Term
from assay.verify.proof_texts import keep_question

Formula: TypeAlias = Any
SORTS = {"f32": z3.Float32, "f64": z3.Float64}
LEMMA_EFFORT = 20_000_000
COMPARISONS = {"flt": z3.fpLT, "fle": z3.fpLEQ, "feq": z3.fpEQ}


@dataclass
class Lemmas:
    """The lemmas that were asked for, and whether they hold."""

    shown: dict[tuple[Any, ...], str] = field(default_factory=dict)

    def extreme(self, condition: Term, a: Term, b: Term) -> str:
        """Whether `a` where a comparison of the two holds, else `b`, is their minimum or maximum: fmin, fmax, or ""."""
        if condition.op not in COMPARISONS or {condition.args[0], condition.args[1]} != {a, b} or a is b:
            return ""
        constants = tuple(t.args[0] if t.op == "float" else "" for t in (a, b))
        key = (condition.op, condition.args[0] is a, constants, a.sort)
        if key not in self.shown:
            x, y = (_value(t, name) for t, name in ((a, "x"), (b, "y")))
            first, second = (x, y) if condition.args[0] is a else (y, x)
            chosen = z3.If(COMPARISONS[condition.op](first, second), x, y)
            self.shown[key] = next((op for op in EXTREMES if is_valid(chosen == EXTREMES[op](x, y))), "")
        return self.shown[key]


def _value(term: Term, name: str) -> Formula:
    sort = SORTS[term.sort]()
    if term.op != "float":
        return z3.FP(name, sort)
    text = term.args[0]
    return z3.fpNaN(sort) if text == "NaN" else z3.FPVal(float.fromhex(text), sort)


def _least(x: Formula, y: Formula) -> Formula:
    """NaN if either is, and -0 below +0: the row `min` of the scalar table."""
    zeros = z3.And(z3.fpIsZero(x), z3.fpIsZero(y))
    less = z3.If(zeros, z3.fpIsNegative(x), z3.fpLT(x, y))
    return z3.If(z3.fpIsNaN(x), x, z3.If(z3.fpIsNaN(y), y, z3.If(less, x, y)))


def _greatest(x: Formula, y: Formula) -> Formula:
    """The row `max`."""
    zeros = z3.And(z3.fpIsZero(x), z3.fpIsZero(y))
    more = z3.If(zeros, z3.fpIsPositive(x), z3.fpGT(x, y))
    return z3.If(z3.fpIsNaN(x), x, z3.If(z3.fpIsNaN(y), y, z3.If(more, x, y)))


EXTREMES = {"fmin": _least, "fmax": _greatest}


def is_valid(goal: Formula) -> bool:
    """Whether a goal holds for all values of what it names. Asked once in a process: no model changes what it says."""
    text = goal.sexpr()
    wrong = z3.Not(goal)
    if text not in _held:
        solver = z3.Solver()
        solver.set("rlimit", LEMMA_EFFORT)
        solver.add(wrong)
        _held[text] = bool(solver.check() == z3.unsat)
    if _held[text]:
        keep_question("what a helper function computes", [wrong])
    return _held[text]


_held: dict[str, bool] = {}
