"""Whether a kernel is its operator, for every input at given sizes (specs/verify.md, "legalize").

The operator's value runs on arrays of terms, the kernel over the same table of terms, and the results are compared as
those of two tensor functions are ("equivalence"): bit for bit, or up to the order of floats that are added and
multiplied, which rule M9 leaves open. Both may trap on the same data only.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias, TypeVar

import numpy as np

from assay.semantics.errors import Crash, Trap, Unsupported
from assay.semantics.operator import Attrs, Operator
from assay.semantics.tensor import PrimFunc
from assay.semantics.tensor.elementary import elementary_functions
from assay.semantics.walk import Worklist
from assay.verify.equivalence import BIT_EXACT, REAL, REASSOCIATED, UNKNOWN, Notion
from assay.verify.equivalence.evaluate import OutputTerms, outcome
from assay.verify.equivalence.normal import normal
from assay.verify.equivalence.order import UndecidedTrace
from assay.verify.equivalence.show import first_difference, show_term
from assay.verify.equivalence.trace import trace_of
from assay.verify.operator_terms import rules as rules, transform as transform
from assay.verify.operator_terms.array import TermArray, TermRun
from assay.verify.operator_terms.cases import equal_in_all_cases
from assay.verify.operator_terms.decided import TooManyValues, deciding_contents, first_asserts, with_contents
from assay.verify.operator_terms.exact import ExactTerms
from assay.verify.operator_terms.paths import always_traps, never_traps, resolved_numbers

Array: TypeAlias = np.ndarray[Any, Any]
Made = TypeVar("Made")

MOST_PATHS = 8
"""Runs of a value, one for each way to answer what it asks of its data."""


@dataclass(frozen=True)
class KernelProof:
    """The strongest notion in which a kernel was shown to be its operator, and why it is no stronger one."""

    notion: Notion
    reason: str = ""
    last_bits: bool = False
    """Whether it is no stronger one for nothing but the last bits of elementary functions, which are left open."""
    large: bool = False
    """Whether nothing was shown because there are too many cases."""

    @property
    def holds(self) -> bool:
        """Whether anything was shown."""
        return self.notion >= REAL

    def __str__(self) -> str:
        words = {BIT_EXACT: "proved bit-exact", REASSOCIATED: "proved, reassociated", REAL: "proved over the reals"}
        return words.get(self.notion, f"not shown: {self.reason}")


def prove_kernel(kernel: PrimFunc, op: Operator, attrs: Attrs) -> KernelProof:
    """Whether a kernel, whose sizes are numbers, gives the operator's value for every input, and traps where that
    does."""
    try:
        if kernel.scalars:
            raise UndecidedTrace("the kernel takes scalars")
        try:
            found, why = _proved(kernel, op, attrs), None
        except UndecidedTrace as undecided:
            found, why = None, undecided
        return found or _proved_by_contents(kernel, op, attrs, why)
    except (UndecidedTrace, Unsupported) as undecided:
        return KernelProof(UNKNOWN, str(undecided), large=isinstance(undecided, TooManyValues))
    except Trap as trap:
        return KernelProof(UNKNOWN, f"the kernel traps for all data: {trap.message}")


def _proved(kernel: PrimFunc, op: Operator, attrs: Attrs) -> KernelProof | None:
    """What is shown of all data at once; None where the data decide what the value does."""
    terms, shapes, first = _inputs(kernel)
    runs = list(_paths(kernel, op, attrs, terms, first, shapes))  # first: what has no rule is soon known
    decided = [(run, r) for run, r in runs if not isinstance(r, UndecidedTrace)]
    if len(decided) < len(runs):
        return None
    now = outcome(trace_of(kernel, {}), terms, first, [])
    notion, reason = BIT_EXACT, ""
    for run, results in decided:
        found = _compared(kernel, run, results, now)
        if not found.holds:
            return found
        if found.notion < notion:
            notion, reason = found.notion, found.reason
    if (names := elementary_functions(kernel)) and notion > REAL:
        # terms have one function of each name, and NumPy's are not the scalar rules'
        return KernelProof(REAL, f"the last bits of {', '.join(names)} may be others in NumPy", True)
    return KernelProof(notion, reason)


def _proved_by_contents(kernel: PrimFunc, op: Operator, attrs: Attrs, why: UndecidedTrace | None) -> KernelProof:
    """The same with each of the numbers that the operands that decide may hold; `why` the kernel is not seen without
    that, if it is not."""
    terms, shapes, first = _inputs(kernel)
    asserts = outcome(trace_of(first_asserts(kernel), {}), terms, first, []).traps
    weakest = KernelProof(BIT_EXACT)
    for run, results in _paths(kernel, op, attrs, terms, first, shapes):
        if isinstance(results, Trap):
            if not always_traps(run, asserts):
                return KernelProof(UNKNOWN, f"the value traps where the kernel need not: {results.message}")
            continue
        try:
            every = list(deciding_contents(run, kernel, first))
        except TooManyValues:
            raise
        except UndecidedTrace as unbounded:
            raise (results if isinstance(results, UndecidedTrace) else why or unbounded) from None
        for contents in every:
            found = _proved(*with_contents(kernel, op, contents), attrs)
            if found is None or not found.holds:
                held = ", ".join(f"{kernel.inputs[k].name} = {a.tolist()}" for k, a in contents.items())
                return KernelProof(UNKNOWN, f"{found.reason if found else results} ({held})")
            weakest = found if found.notion < weakest.notion else weakest
    return weakest


def _inputs(kernel: PrimFunc) -> tuple[ExactTerms, list[tuple[int, ...]], list[int]]:
    """A table, the shapes of the operands, and their first terms."""
    terms = ExactTerms()
    shapes = [tuple(int(d) for d in b.shape) for b in kernel.inputs]  # type: ignore[arg-type]
    return terms, shapes, [terms.input(b.name, s) for b, s in zip(kernel.inputs, shapes, strict=True)]


def _paths(
    kernel: PrimFunc, op: Operator, attrs: Attrs, terms: ExactTerms, first: Sequence[int], shapes: Sequence[Any]
) -> Iterator[tuple[TermRun, list[TermArray] | Trap | UndecidedTrace]]:
    """The value's results, or its trap, or why it has none, in a run for each way to answer what it asks of data."""

    def value(run: TermRun) -> list[TermArray] | UndecidedTrace:
        operands = [
            TermArray(run, start + np.arange(int(np.prod(s)), dtype=np.int64).reshape(s), b.dtype)
            for b, s, start in zip(kernel.inputs, shapes, first, strict=True)
        ]
        try:
            return value_terms(run, op, attrs, operands)
        except UndecidedTrace as undecided:
            return undecided

    return ways(terms, first, value)


def value_terms(run: TermRun, op: Operator, attrs: Attrs, operands: Sequence[Any]) -> list[TermArray]:
    """What an operator's value gives of arrays of terms. UndecidedTrace where it does what has no rule."""
    try:
        with np.errstate(all="ignore"):
            made = op.value(attrs, *operands)
    except (Crash, TypeError, AttributeError, ValueError) as unknown:
        raise UndecidedTrace(f"the value does what has no rule for terms: {unknown}") from None
    return [x if isinstance(x, TermArray) else run.array(x) for x in (made if isinstance(made, tuple) else (made,))]


def ways(
    terms: ExactTerms, first: Sequence[int], value: Callable[[TermRun], Made]
) -> Iterator[tuple[TermRun, Made | Trap]]:
    """What `value` gives, or its trap, in a run for each way to answer what it asks of data."""
    nothing: tuple[bool, ...] = ()
    waiting = Worklist([nothing])
    for count, given in enumerate(waiting):
        if count >= MOST_PATHS:
            raise UndecidedTrace(f"the value has more than {MOST_PATHS} ways through it")
        run = TermRun(terms, first, given)
        try:
            made: Made | Trap = value(run)
        except Trap as trap:
            made = trap
        answers = [holds for _, holds in run.asked]
        waiting.add((*answers[:k], False) for k in range(len(given), len(answers)) if answers[k])
        yield run, made


def _compared(kernel: PrimFunc, run: TermRun, results: Sequence[TermArray] | Trap, now: OutputTerms) -> KernelProof:
    """One run's results against the kernel's."""
    if isinstance(results, Trap):
        if always_traps(run, now.traps):
            return KernelProof(BIT_EXACT)
        return KernelProof(UNKNOWN, f"the value traps where the kernel need not: {results.message}")
    for r, b in zip(results, kernel.outputs, strict=True):
        if r.shape != tuple(b.shape) or r.of is not b.dtype:
            return KernelProof(UNKNOWN, f"the value is {r.of}{list(r.shape)}, the kernel gives {b}")
    wanted = np.concatenate([r.numbers.reshape(-1) for r in results])
    given = np.concatenate(now.outputs)
    traps = np.unique(np.concatenate([np.zeros(0, np.int64), *run.symbols.traps]))
    apart = np.setxor1d(traps, now.traps)
    more = np.isin(apart, now.traps)
    if not more.all() or not never_traps(run, apart).all():
        return KernelProof(UNKNOWN, f"one may trap where the other does not: {show_term(run.terms, int(apart[0]))}")
    return equal_terms(run, wanted, given)


def equal_terms(run: TermRun, wanted: Array, given: Array) -> KernelProof:
    """The strongest notion in which terms are equal, each to each, with the answers of the run."""
    exact = REASSOCIATED if run.in_any_order else BIT_EXACT
    order = "NumPy chooses the order of a sum" if run.in_any_order else ""
    apart = np.flatnonzero(wanted != given)
    if not len(apart):
        return KernelProof(exact, order)
    unlike = ~equal_in_all_cases(run, wanted[apart], given[apart])
    apart = apart[unlike]
    if not len(apart):
        return KernelProof(exact, order)
    both = np.concatenate([wanted[apart], given[apart]])
    why = ""
    for notion, floats in ((exact, False), (REASSOCIATED, True), (REAL, True)):
        both = resolved_numbers(run, both, floats and run.in_any_order, notion is REAL)
        left, right = np.split(normal(run.terms, both, floats), 2)
        same = left == right
        if same.all():
            return KernelProof(notion, why or order)
        both = np.concatenate([part[~same] for part in np.split(both, 2)])
        was, is_now = first_difference(run.terms, int(left[~same][0]), int(right[~same][0]))
        why = why or f"{show_term(run.terms, is_now)} instead of {show_term(run.terms, was)}"
    return KernelProof(UNKNOWN, why)
