"""Sizes on which a program may run, by what it asserts of them (specs/verify.md, "Sizes that are tried").

A program that takes a past beside a mask for all of it runs on few sizes. What the import could not show, it asserts by
casts; the sizes that hold in these are found by trying small numbers one symbol after another.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from assay.lower.simplify.size_checks import SizeChecks
from assay.semantics import graph
from assay.semantics.errors import Trap
from assay.semantics.graph import AssertOp
from assay.semantics.graph.limits import declared_limits
from assay.semantics.module import Module
from assay.semantics.scalar import Dim, Expr, Var, evaluate_dim, provably_equal, variables
from assay.semantics.types import ShapeType, TensorType, Type
from assay.semantics.walk import post_order

NUMBERS = (2, 3, 5, 7, 1, 4, 6, 8, 9, 10, 0)
"""What a size is tried as, the most telling first; numbers that others have come last."""

LARGER = (16, 32, 64, 128)
"""What it is tried as at last: an image that is halved again and again has to be so large."""

MOST_TRIED = 20_000
"""How many partial choices are looked at."""


@dataclass(frozen=True)
class SizeRelation:
    """Two dims that a run finds equal, or fails."""

    found: Dim
    claimed: Dim

    @property
    def symbols(self) -> set[Var]:
        """What it speaks of."""
        return {v for d in (self.found, self.claimed) if isinstance(d, Expr) for v in variables(d)}

    def holds(self, at: dict[Var, int]) -> bool:
        """Whether it is so at numbers; a dim without a value makes the run fail."""
        try:
            return evaluate_dim(self.found, at) == evaluate_dim(self.claimed, at)
        except Trap:
            return False


class SizeAssertion:
    """What a program asserts of sizes, such as that one is at least 2."""

    def __init__(self, node: AssertOp, checks: SizeChecks) -> None:
        self.node, self.checks = node, checks
        self.symbols = checks.symbols(node)

    def holds(self, at: dict[Var, int]) -> bool:
        """Whether it is so at numbers; True where that is not known. A size without a value makes the run fail."""
        try:
            return self.checks.hold_at(self.node, at) is not False
        except Trap:
            return False


def facts_of(module: Module, about: Sequence[Var]) -> list[SizeRelation | SizeAssertion]:
    """What the casts and the assertions of `main` say of these symbols alone."""
    found: list[SizeRelation | SizeAssertion] = []
    nodes = list(post_order(module.main.body, lambda n: n.children))
    checks = SizeChecks(n for n in nodes if isinstance(n, graph.Let))
    for node in nodes:
        if isinstance(node, AssertOp) and checks.about_sizes(node):
            found.append(SizeAssertion(node, checks))
        if not isinstance(node, graph.MatchCast):
            continue
        given, wanted = _sizes(node.value.type), _sizes(node.type)
        if len(given) == len(wanted):
            pairs = zip(given, wanted, strict=True)
            found += [SizeRelation(d, w) for d, w in pairs if not provably_equal(d, w)]
    return [f for f in found if f.symbols and f.symbols <= set(about)]


def _sizes(of: Type) -> Sequence[Dim]:
    match of:
        case TensorType(shape=dims) | ShapeType(dims=dims):
            return dims
    return ()


def fitting_sizes(
    module: Module, about: Sequence[Var], most: int = 24, fixed: Mapping[Var, int] | None = None
) -> Iterator[dict[Var, int]]:
    """At most so many choices of numbers for the symbols, of which some are given, in which all facts of the module
    hold."""
    given = fixed or {}
    about = sorted(about, key=lambda s: s not in given)
    facts = facts_of(module, about)
    due = [[f for f in facts if s in f.symbols and f.symbols <= set(about[: k + 1])] for k, s in enumerate(about)]
    chosen: dict[Var, int] = {}

    limits = {s: (low, high) for s, low, high in declared_limits(module.main)}

    def numbers() -> Iterator[int]:
        """What the next symbol is tried as: small numbers, and the least that are declared to be possible."""
        if len(chosen) < len(given):
            return iter([given[about[len(chosen)]]])
        low, high = limits.get(about[len(chosen)], (0, None))
        more = dict.fromkeys([*NUMBERS, *(low + n for n in NUMBERS), *LARGER])
        some = [n for n in more if low <= n and (high is None or n <= high)]
        used = set(chosen.values())
        return iter([*(n for n in some if n not in used), *(n for n in some if n in used)])

    waiting = [numbers()] if about else []
    for _ in range(MOST_TRIED):
        if not waiting or not most:
            return
        symbol = about[len(waiting) - 1]
        chosen.pop(symbol, None)
        number = next(waiting[-1], None)
        if number is None:
            waiting.pop()
            continue
        chosen[symbol] = number
        if not all(f.holds(chosen) for f in due[len(waiting) - 1]):
            continue
        if len(waiting) == len(about):
            yield dict(chosen)
            most -= 1
        else:
            waiting.append(numbers())
