"""Whether two tensor functions are equal for all inputs at given sizes (specs/verify.md, "equivalence").

Both run over terms instead of numbers, and the terms of the outputs are compared. The strongest notion that holds is
named: bit-exact, reassociated (sums and products in another order), equal over the reals. Functions too large for
terms run over random words, and then the verdict gives the probability of an error. "Not shown" is never "wrong",
unless an input is given on which the interpreter shows it.

    equivalent(matmul, tiled).holds(BIT_EXACT)
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from enum import IntEnum
from math import prod
from typing import Any, TypeAlias

import numpy as np

from assay.interp import vector
from assay.semantics.errors import Invalid, Trap, Unsupported
from assay.semantics.scalar import Dim, Expr, Load, Var, evaluate_dim, variables
from assay.semantics.tensor import Buffer, PrimFunc
from assay.semantics.walk import post_order
from assay.verify.equivalence.evaluate import OutputTerms, outcome
from assay.verify.equivalence.meanings import LEAST_PRIME, PRIMES, Degree, Field, Fingerprint, Meaning, drawn_prime
from assay.verify.equivalence.normal import normal
from assay.verify.equivalence.order import UndecidedTrace
from assay.verify.equivalence.show import first_difference, show_term
from assay.verify.equivalence.terms import Terms
from assay.verify.equivalence.trace import trace_of
from assay.verify.equivalence.witness import Witness, find_witness
from assay.verify.equivalence.word_semantics import has_division, largest_literal, over_words, random_words

Array: TypeAlias = np.ndarray[Any, Any]


WORST = 1e-6
"""The largest probability of an error with which two functions are called equal."""
FIELDS = 3
"""Fields over which functions are compared."""
METHODS = ("any", "terms", "words")
MOST_ELEMENTS = 1 << 26
"""How many elements a function's parameters and allocations may have together: each becomes a word or a term."""


class Notion(IntEnum):
    """In which sense two functions are equal; the greater the stronger."""

    UNKNOWN = 0
    REAL = 1
    """As functions of real numbers, operations other than + - * / taken as unknown functions."""
    REASSOCIATED = 2
    """But for the order in which floats are added and multiplied, and added zeros."""
    BIT_EXACT = 3


UNKNOWN, REAL, REASSOCIATED, BIT_EXACT = Notion
TOLD = {
    UNKNOWN: "not shown equal",
    REAL: "equal over the reals",
    REASSOCIATED: "reassociated",
    BIT_EXACT: "bit-exact",
}
"""The same in words."""


@dataclass(frozen=True, eq=False)
class Difference:
    """The first element that differs: its terms, and the parts of them that make the difference."""

    element: str
    source: str
    target: str
    parts: tuple[str, str]

    def __str__(self) -> str:
        inner = "" if self.parts == (self.source, self.target) else f"; {self.parts[1]} instead of {self.parts[0]}"
        return f"{self.element} is {self.target}, was {self.source}{inner}"


@dataclass(frozen=True, eq=False)
class Equivalence:
    """The strongest notion that was shown, and how.

    `how` is "terms" (exact, every input) or "words" (random ones; `error` bounds the probability that this is wrong).
    `difference` says why it is no stronger one; `witness` is an input on which the results differ in bits, replayed.
    """

    notion: Notion
    how: str = "terms"
    error: float = 0.0
    difference: Difference | None = None
    witness: Witness | None = None
    reason: str = ""
    undecided: bool = False
    """Whether no notion was even tried: the functions are too large, or do what terms and words cannot follow."""

    def holds(self, notion: Notion = Notion.BIT_EXACT) -> bool:
        """Whether that notion, or a stronger one, was shown."""
        return self.notion >= notion > Notion.UNKNOWN

    def __str__(self) -> str:
        text = TOLD[self.notion]
        if self.how == "words" and self.notion:
            text += f", by random words (wrong with probability below {self.error:.0e})"
        more = [self.reason, str(self.difference or ""), str(self.witness or "")]
        return ": ".join([text, *(m for m in more if m)])


def equivalent(
    source: PrimFunc,
    target: PrimFunc,
    sizes: Mapping[str, Any] | None = None,
    *,
    weakest: Notion = Notion.REAL,
    seed: int = 0,
    method: str = "any",
) -> Equivalence:
    """Whether `target` gives the values of `source` for every input, wherever `source` does not trap.

    `sizes` gives symbolic dims, and integer scalar parameters that decide control, by name. Notions weaker than
    `weakest` are not tried. `method` "terms" or "words" allows only that one. Invalid where the two have not the
    same parameters, a size is missing, or there is no such method (`equivalence.C1`, `equivalence.C2`,
    `equivalence.C4`); Unsupported where there are more than `MOST_ELEMENTS` elements (`equivalence.C3`).
    """
    if method not in METHODS:
        known = ", ".join(map(repr, METHODS))
        raise Invalid(f"there is no method {method!r}; the methods are {known}", label="equivalence.C4")
    given = _Problem(source, target, dict(sizes or {}), seed)
    verdict, reason = None, ""
    if method != "words":
        try:
            verdict = _by_terms(given, weakest)
        except (UndecidedTrace, Unsupported) as undecided:
            reason = str(undecided)
    if verdict is None:
        verdict = Equivalence(UNKNOWN, undecided=True) if method == "terms" else _by_words(given, exact=True)
        if verdict.notion is UNKNOWN:
            verdict = replace(verdict, reason=reason or verdict.reason)
    elif verdict.difference is not None and verdict.notion is UNKNOWN and weakest is REAL and method == "any":
        by_words = _by_words(given, exact=False)
        if by_words.notion:
            return replace(by_words, difference=verdict.difference)
    if verdict.notion >= weakest:
        return verdict
    return replace(verdict, notion=UNKNOWN, witness=find_witness(source, target, given.sizes, seed))


class _Problem:
    """Both functions with the sizes of each by its own variables."""

    def __init__(self, source: PrimFunc, target: PrimFunc, sizes: dict[str, Any], seed: int) -> None:
        self.source, self.target, self.sizes, self.seed = source, target, sizes, seed
        self.of = {id(f): _bound(f, sizes) for f in (source, target)}
        kinds = [[self.kind(f, b) for b in f.params] for f in (source, target)]
        scalars = [[v.dtype for v in f.scalars] for f in (source, target)]
        if kinds[0] != kinds[1] or scalars[0] != scalars[1] or source.num_outputs != target.num_outputs:
            raise Invalid(
                f"{source.name} takes {kinds[0]}, {target.name} {kinds[1]}: no two functions of one interface",
                label="equivalence.C1",
            )
        places = [{v.name: k for k, v in enumerate(f.scalars) if v.name in sizes} for f in (source, target)]
        if places[0] != places[1]:
            raise Invalid(
                f"{source.name} and {target.name} take the scalars"
                f" {', '.join(sorted(places[0].keys() | places[1].keys()))} at different places, so one number for each"
                " name says nothing of both",
                label="equivalence.C1",
            )

        for f in (source, target):
            self.require_room(f)

    def require_room(self, f: PrimFunc) -> None:
        """Unsupported where the elements of a function are too many. What is allocated in other sizes is not
        counted."""
        numbers = {v: int(n) for v, n in self.of[id(f)].items() if v.dtype.is_integer}

        def at_least(dim: Dim) -> int:
            parts = post_order(dim) if isinstance(dim, Expr) else ()
            if any(isinstance(n, Load) or (isinstance(n, Var) and n not in numbers) for n in parts):
                return 0
            try:
                return max(evaluate_dim(dim, numbers), 0)
            except Trap:  # the run says so, if it gets there
                return 0

        elements = sum(prod(map(at_least, b.shape)) for b in (*f.params, *f.allocations))
        if elements > MOST_ELEMENTS:
            raise Unsupported(
                f"{f.name} has {elements} elements at these sizes, of at most {MOST_ELEMENTS} that are compared:"
                " give smaller sizes",
                label="equivalence.C3",
            )

    def shape(self, f: PrimFunc, b: Buffer) -> tuple[int, ...]:
        numbers = {v: int(n) for v, n in self.of[id(f)].items() if v.dtype.is_integer}
        found = tuple(evaluate_dim(d, numbers) for d in b.shape)
        if any(d < 0 for d in found):
            raise Invalid(f"{f.name}: {b.name} has no shape {found}", label="equivalence.C2")
        return found

    def kind(self, f: PrimFunc, b: Buffer) -> str:
        return f"{b.dtype}{list(self.shape(f, b))}"


def _bound(f: PrimFunc, sizes: Mapping[str, Any]) -> dict[Var, Any]:
    symbols = {v: None for b in f.params for d in b.shape for v in variables(d)}
    for v in symbols:
        if v.name not in sizes:
            raise Invalid(f"{f.name} needs a size for {v.name}", label="equivalence.C2")
    return {v: _number(v, sizes[v.name]) for v in (*symbols, *f.scalars) if v.name in sizes}


def _number(var: Var, value: Any) -> Any:
    whole = var.dtype.is_integer
    try:
        number = int(value) if whole else float(value)
        if whole and (number != value or not var.dtype.min <= number <= var.dtype.max):
            raise ValueError
    except (TypeError, ValueError, OverflowError):
        raise Invalid(f"{value!r} is no {var.dtype}, which {var.name} is", label="equivalence.C2") from None
    return var.dtype.numpy.type(number)


# --- terms -------------------------------------------------------------------------------------------------------


def _by_terms(given: _Problem, weakest: Notion) -> Equivalence:
    source, target = given.source, given.target
    terms = Terms()
    first = [terms.input(b.name, given.shape(source, b)) for b in source.inputs]
    scalars = [terms.input(v.name, ()) for v in source.scalars]
    found: list[OutputTerms] = []
    for f, said in ((source, f"{source.name} itself traps"), (target, f"{target.name} traps")):
        try:
            found.append(outcome(trace_of(f, given.of[id(f)]), terms, first, scalars))
        except Trap as trap:
            return Equivalence(UNKNOWN, reason=f"{said}: {trap}")
    was, now = found
    new = np.setdiff1d(now.traps, was.traps)
    if len(new):
        return Equivalence(
            UNKNOWN, reason=f"{target.name} may trap where {source.name} does not: {show_term(terms, new[0])}"
        )
    return _compare(given, terms, was, now, weakest)


def _compare(given: _Problem, terms: Terms, was: OutputTerms, now: OutputTerms, weakest: Notion) -> Equivalence:
    left, right = np.concatenate([*was.outputs]), np.concatenate([*now.outputs])
    if np.array_equal(left, right):
        return Equivalence(BIT_EXACT)
    apart = np.flatnonzero(left != right)
    difference = None
    for notion, floats in ((BIT_EXACT, False), (REASSOCIATED, True)):
        if notion < weakest:
            break
        both = normal(terms, np.concatenate([left[apart], right[apart]]), floats)
        same = both[: len(apart)] == both[len(apart) :]
        if same.all():
            return Equivalence(notion, difference=difference)
        apart = apart[~same]
        difference = _difference(given, terms, left, right, int(apart[0]))
    return Equivalence(UNKNOWN, difference=difference)


def _difference(given: _Problem, terms: Terms, left: Array, right: Array, place: int) -> Difference:
    at = place
    for b in given.source.outputs:
        shape = given.shape(given.source, b)
        if at < prod(shape):
            index = ", ".join(str(int(i)) for i in np.unravel_index(at, shape)) if shape else ""
            break
        at -= prod(shape)
    a, c = int(left[place]), int(right[place])
    inner = first_difference(terms, a, c)
    return Difference(
        f"{b.name}[{index}]",
        show_term(terms, a),
        show_term(terms, c),
        (show_term(terms, inner[0]), show_term(terms, inner[1])),
    )


# --- words -------------------------------------------------------------------------------------------------------


def _by_words(given: _Problem, exact: bool) -> Equivalence:
    """Over the field, the weaker claim, and then with `exact` by fingerprints."""
    try:
        rng = np.random.default_rng([given.seed, 7])
        if not all(_same_words(given, Field(drawn_prime(rng)), seed) for seed in range(FIELDS)):
            return Equivalence(UNKNOWN, "words", reason="values differ over a finite field")
        if exact and all(_same_words(given, Fingerprint(), seed) for seed in range(2)):
            return Equivalence(BIT_EXACT, "words", error=2.0**-60)
        quotients = has_division(given.source) or has_division(given.target)
        degree = max(
            int(r.max(initial=0)) for f in (given.source, given.target) for r in _run(f, given, Degree(quotients), None)
        )
        bits = (degree + 1) * (64 + max(map(largest_literal, (given.source, given.target))))
        error = (2 * degree / LEAST_PRIME + bits / 30 / PRIMES) ** FIELDS
        if error > WORST:
            return Equivalence(UNKNOWN, "words", reason=f"polynomials of degree {degree} are too much for the field")
        return Equivalence(REAL, "words", error=error)
    except (UndecidedTrace, Unsupported, Trap) as reason:
        return Equivalence(UNKNOWN, "words", reason=str(reason), undecided=True)


def _same_words(given: _Problem, meaning: Field | Fingerprint, seed: int) -> bool:
    was, now = (_run(f, given, meaning, seed) for f in (given.source, given.target))
    if isinstance(meaning, Field):
        was, now = (tuple(a % meaning.prime for a in of) for of in (was, now))
    return all(np.array_equal(a, b) for a, b in zip(was, now, strict=True))


def _run(f: PrimFunc, given: _Problem, meaning: Meaning, seed: int | None) -> tuple[Array, ...]:
    """The words of the outputs, on random words; without a seed on ones."""
    rng = np.random.default_rng([given.seed, seed or 0, 5])

    def words(shape: tuple[int, ...]) -> Array:
        if seed is None:
            return np.ones(shape, np.uint64)
        return random_words(shape, rng, isinstance(meaning, Field))

    inputs = [words(given.shape(f, b)) for b in f.inputs]
    if given.of[id(f)].keys() & set(f.scalars):
        raise UndecidedTrace("a scalar parameter decides control")
    return vector.run(over_words(f, meaning), inputs, scalars=[words(())[()] for _ in f.scalars])
