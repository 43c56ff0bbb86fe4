"""Sizes at which a program runs, where nobody gives them: found by running it (specs/verify.md, "Sizes that are
tried").

`check` takes several such choices, `run` the first of the same.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from math import prod
from typing import Generic, TypeVar

from assay.lower.simplify.settle import BREAKS_A_RULE
from assay.semantics import budget
from assay.semantics.advice import about_sizes
from assay.semantics.errors import BudgetSpent, Invalid, Trap
from assay.semantics.graph import AssertOp, Function
from assay.semantics.memory import Bounds
from assay.semantics.module import Module
from assay.semantics.scalar import Dim, Var as Symbol, evaluate_dim
from assay.semantics.types import TensorType, TupleType, Type, symbols
from assay.semantics.walk import post_order
from assay.verify.trials.fitting import facts_of, fitting_sizes
from assay.verify.trials.sizes import Sizes, first_to_try, sizes_to_try, told_at, told_by_reason, told_point

Run = TypeVar("Run")

MOST_SIZES = 8
"""Choices of sizes that are run."""
DRAWS = 8
"""How often inputs are drawn until what a program asserts of them holds."""
MOST_ELEMENTS = 1 << 21
"""While no run is found, sizes at which a tensor is larger are passed over once some were tried: a program that traps
whatever its sizes are is not waited for."""
TOO_LARGE = "larger than what is tried where nothing smaller runs"
MOST_TOLD = 4
"""So many choices of sizes that fail alike are named, and so many reasons."""


@dataclass
class SizeChoice(Generic[Run]):
    """Sizes for symbols within bounds. `at` makes a run at some and says how it traps, if it does; Invalid: no run has
    these sizes. `module` is the program, where it can be had without sizes: sizes at which its casts hold are among
    those that are tried. `fixed` are symbols that have numbers.
    """

    symbols: Sequence[Symbol]
    bounds: Bounds
    at: Callable[[Sizes], tuple[Run, Trap | None]]
    module: Module | None = None
    fixed: Sizes = field(default_factory=dict)
    without: Invalid | None = None
    """Why the program cannot be had without sizes. What is refused alike with sizes is not about them."""
    runs: dict[tuple[int, ...], Run] = field(default_factory=dict)
    trapping: dict[str, tuple[Sizes, Run]] = field(default_factory=dict)
    """The first run that ended by each trap."""
    wrong: list[Invalid] = field(default_factory=list)
    """Why sizes are those of no run."""
    failing: dict[str, list[Sizes]] = field(default_factory=dict)
    """The sizes that were tried in vain, by the reason."""

    asked: list[Sizes] = field(default_factory=list)
    """Sizes at which the casts of the program hold: they are tried even where they are large."""

    def excluded(self, sizes: Sizes) -> str | None:
        """Why the program does not run at some sizes; None if it does."""
        try:
            with budget.while_doing(told_at(sizes)):
                run, trap = self.at(sizes)
        except Invalid as wrong:
            self.wrong.append(wrong)
            if self.without is not None and say_the_same([wrong, self.without]):
                raise
            why = wrong.message.rpartition(BREAKS_A_RULE)[2]
        else:
            if trap is None:
                self.runs[tuple(sizes.values())] = run
                return None
            why = f"it traps on the inputs tried: {trap}"
            self.trapping.setdefault(why, (sizes, run))
        self.failing.setdefault(why, []).append(sizes)
        return why

    def fitting(self, fixed: Sizes) -> Iterator[Sizes]:
        """Sizes at which what the program casts holds."""
        all_of_them = (*self.symbols, *self.fixed)
        if self.module is not None and facts_of(self.module, all_of_them):
            for sizes in fitting_sizes(self.module, all_of_them, MOST_SIZES, {**self.fixed, **fixed}):
                self.asked.append(sizes)
                yield sizes

    def all(self) -> tuple[list[Run], list[tuple[Sizes, str]]]:
        """Runs at the sizes that are tried, and sizes of interest at which there is none, with the reasons."""
        try:
            found = sizes_to_try(self.symbols, self.bounds, self.small, MOST_SIZES, self.fitting)
        except BudgetSpent:
            if self.runs or not self.trapping:
                raise
            return [], []
        return [self.runs[tuple(s.values())] for s in found.points], list(found.excluded)

    def first(self) -> Run | None:
        """The first of those runs, without making the others; None if there is none that is not large."""
        try:
            found = first_to_try(self.symbols, self.bounds, self.small, self.fitting)
        except BudgetSpent:
            if not self.trapping:
                raise
            return None
        return None if found is None else self.runs[tuple(found.values())]

    def small(self, sizes: Sizes) -> str | None:
        """Why the program does not run at some sizes, or is not tried: they are large, and no others served."""
        if self.runs or not self.failing or sizes in self.asked or self.elements(sizes) <= MOST_ELEMENTS:
            return self.excluded(sizes)
        return TOO_LARGE

    def elements(self, sizes: Sizes) -> int:
        """How many elements the largest tensor has of which main says so, at some sizes; the product of the sizes where
        the program cannot be had without them."""
        if self.module is None:
            return prod(max(1, n) for n in sizes.values())
        return max((_product(shape, {**self.fixed, **sizes}) for shape in self.shapes), default=0)

    @cached_property
    def shapes(self) -> list[Sequence[Dim]]:
        """The shapes in main that speak of nothing but these symbols."""
        known = {*self.symbols, *self.fixed}
        nodes = [] if self.module is None else [*self.module.main.params, *post_order(self.module.main.body)]
        parts = [t for n in nodes for t in post_order(n.type, lambda t: t.children if isinstance(t, TupleType) else ())]
        found = {str(t): t for t in parts if isinstance(t, TensorType)}
        return [t.shape for t in found.values() if set(symbols(t)) <= known]

    def told(self, left_out: Sequence[tuple[Sizes, str]]) -> list[str]:
        """That there is no run at some sizes, by the reason."""
        not_run = {*self.trapping, TOO_LARGE}
        told = told_by_reason(left_out)
        return [f"{'not run at' if why in not_run else 'no run has'} {sizes}: {why}" for sizes, why in told]

    def none_found(self, said: str, types: Sequence[Type]) -> Invalid:
        """What is told where no run has any of the sizes. What is wrong at all of them alike is not about sizes."""
        if self.wrong and not self.trapping and say_the_same(self.wrong):
            return self.wrong[0]
        return Invalid(
            f"no sizes were found at which the program can run: {said}; {about_sizes(self.symbols, types)}",
            label="input.C6",
        )


def _product(shape: Sequence[Dim], sizes: Sizes) -> int:
    try:
        return prod(evaluate_dim(d, sizes) for d in shape)
    except Trap:
        return 0  # no run has these sizes, which is what is said of them


def drawn(
    attempt: Callable[[int], tuple[Run, Trap | None]], seed: int, some_missing: bool
) -> tuple[Run, int, Trap | None]:
    """A run on inputs drawn by a seed, that seed, and how the run traps, if it does: of several draws the first for
    which what the program asserts holds, else the first. There is one draw where no input is missing."""
    found: list[tuple[Run, int, Trap | None]] = []
    for at in range(seed, seed + (DRAWS if some_missing else 1)):
        run, trap = attempt(at)
        found.append((run, at, trap))
        if trap is None or trap.kind != "assertion":
            return found[-1]
    return found[0]


def say_the_same(wrong: Sequence[Invalid]) -> bool:
    """Whether refusals say the same."""
    return len({(w.message, w.label) for w in wrong}) == 1


def told_failing(failing: Mapping[str, Sequence[Sizes]]) -> str:
    """Sizes that were tried in vain, by the reason: a few of each kind by name."""
    said = []
    for why, points in list(failing.items())[:MOST_TOLD]:
        more = f" and {len(points) - MOST_TOLD} more" if len(points) > MOST_TOLD else ""
        said.append(f"at {' or '.join(map(told_point, points[:MOST_TOLD]))}{more}: {why}")
    if len(failing) > MOST_TOLD:
        said.append(f"and {len(failing) - MOST_TOLD} other reasons")
    return "; ".join(said)


def asserts(module: Module) -> bool:
    """Whether a program asserts something of values."""
    bodies = [d.body for d in module.definitions.values() if isinstance(d, Function)]
    return any(isinstance(n, AssertOp) for body in bodies for n in post_order(body))


def has_shape_at(of: Type | None, shape: Sequence[int], sizes: Sizes) -> bool:
    """Whether a tensor type has a shape at some sizes; so does a type without symbols, whose values are the same at
    all."""
    if not isinstance(of, TensorType) or not symbols(of):
        return True
    return tuple(evaluate_dim(d, sizes) for d in of.shape) == tuple(shape)
