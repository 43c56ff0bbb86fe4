"""How far correct runs of a program lie apart (specs/verify.md, "Plausible").

A sound interval holds the worst that all roundings together can do, which in a deep model is anything. What correct
implementations really give lies much nearer together. So the program is run several times, each time with roundings
that M9 allows: sums in another order, each rounding and elementary function off by as much as it may be, at random or
all at one end. Outputs that are many times further from the middle of these runs than the runs themselves are
implausible.

What is said of odds rests on a model: that the error of a correct run at an element is drawn as those of these runs
were, from a normal distribution of unknown spread; so its distance, in units of their spread, is Student's.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from math import lgamma, log, sqrt
from typing import Any, TypeAlias

import numpy as np

from assay.interp import graph
from assay.interp.values import Value
from assay.semantics.bounds import Bounded
from assay.semantics.dtypes import dtype
from assay.semantics.errors import Trap, Unpredictable
from assay.semantics.graph import Call, CallTIR
from assay.semantics.module import Module
from assay.semantics.operator import Operator
from assay.semantics.ops import OPERATORS
from assay.verify.oracle.adversarial import Attempt
from assay.verify.oracle.dot import TERMS, magnitudes
from assay.verify.oracle.products import hangs_on_order

Array = np.ndarray[Any, Any]
Attrs = Mapping[str, Any]
RUNS = 8
"""Correct runs that are compared with before something is called implausible."""
FEW = 2
"""Correct runs that are compared with first: what is no further off than these needs no more of them."""
MULTIPLE = 16.0
"""From how many times the spread on an output is implausible."""
FURTHEST = 4.0
"""And from how many times the distance of the furthest element of the furthest run."""


@dataclass(frozen=True)
class Distance:
    """How far an output is from correct runs: `times` their spread at the element `index`, and `furthest` times what
    their own furthest element is off; `log10_odds` bounds, under the model, how often a correct run is so far off."""

    tensor: str
    index: tuple[int, ...]
    got: float
    middle: float
    spread: float
    times: float
    furthest: float
    log10_odds: float

    @property
    def implausible(self) -> bool:
        """Whether it is beyond both multiples."""
        return self.times > MULTIPLE and self.furthest > FURTHEST

    @property
    def far(self) -> bool:
        """Whether it is beyond half of them: few correct runs do not say enough of it."""
        return self.times > MULTIPLE / 2 and self.furthest > FURTHEST / 2

    def __str__(self) -> str:
        correct = f"correct runs give {self.middle:.9g} +- {self.spread:.2g}"
        return f"{self.tensor} element {self.index} is {self.got:.9g}, {correct}: {self.times:.3g} times their spread"


@dataclass(frozen=True)
class Spread:
    """Outputs of correct runs on one set of inputs, by name; the first is that of our definition."""

    outputs: Mapping[str, Sequence[Array]]
    runs: int
    stopped: str = ""
    """Why there is nothing to compare with, where a run failed."""

    def middle(self, name: str) -> Array | None:
        """The middle of the correct runs of an output, None where there are none."""
        runs = self.outputs.get(name, ())
        with np.errstate(all="ignore"):
            return _middle(runs) if runs else None

    def distance(self, name: str, got: Array, of_numbers: bool = False) -> Distance | None:
        """How far a float output is from the correct runs; None where that says nothing: it is of whole numbers, has no
        element that is finite in all of them, is of another shape, or there are no two runs. `of_numbers`: elements of
        it that are no numbers say nothing."""
        runs = self.outputs.get(name, ())
        if len(runs) < 2 or got.shape != runs[0].shape or got.dtype != runs[0].dtype or not dtype(got.dtype).is_float:
            return None
        with np.errstate(all="ignore"):
            return _distance(name, runs, got, of_numbers)


def _middle(runs: Sequence[Array]) -> Array:
    """The mean of several arrays, in float64, of which few exist at a time."""
    total = runs[0].astype(np.float64)
    for r in runs[1:]:
        total = total + r.astype(np.float64)
    return np.asarray(total / len(runs))


def _distance(name: str, runs: Sequence[Array], got: Array, of_numbers: bool) -> Distance | None:
    of = dtype(got.dtype)
    off = got.astype(np.float64)
    known = np.logical_and.reduce([np.isfinite(r) for r in (*runs, *([got] if of_numbers else []))])
    if not known.any():
        return None
    middle = np.where(known, _middle(runs), 0.0)

    def from_middle(run: Array) -> Array:
        return np.where(known, run.astype(np.float64) - middle, 0.0)

    furthest = max(float(np.abs(from_middle(r)).max()) for r in runs)
    scale = furthest or 1.0  # squares may overflow
    own = np.zeros(middle.shape)
    for r in runs:
        own = own + (from_middle(r) / scale) ** 2
    own = scale * np.sqrt(own / (len(runs) - 1))
    whole = scale * sqrt(float(((own[known] / scale) ** 2).mean()))
    ulp = np.maximum(of.unit_roundoff * np.maximum(np.abs(middle), of.smallest_normal), of.smallest_subnormal)
    spread = np.maximum(np.maximum(own, whole / 4), ulp)
    far = np.abs(off - middle)
    far = np.where(known, np.where(np.isfinite(far), far, np.inf), 0.0)
    times = far / spread
    at = tuple(int(i) for i in np.unravel_index(int(np.argmax(times)), times.shape))
    most = max(furthest, float(ulp[at]))
    t = float(times[at]) / sqrt(1 + 1 / len(runs))
    return Distance(
        name, at, float(off[at]), float(middle[at]), float(spread[at]), float(times[at]), float(far[at]) / most,
        min(0.0, log10_tail(t, len(runs) - 1) + log(2 * got.size, 10)),
    )  # fmt: skip


def log10_tail(t: float, degrees: int) -> float:
    """The logarithm of a bound on the probability that Student's variable is above t: from t on its density, times
    x / t, has an integral in closed form. Of one degree of freedom the density is below 1 / (pi x^2)."""
    if not np.isfinite(t):
        return -np.inf
    if t <= 0:
        return 0.0
    n = degrees
    if n == 1:
        return min(0.0, -log(np.pi * t, 10))
    density = lgamma((n + 1) / 2) - lgamma(n / 2) - 0.5 * log(n * np.pi) - (n + 1) / 2 * log(1 + t * t / n)
    return min(0.0, float((density + log((t * t + n) / ((n - 1) * t))) / log(10)))


def spread_of(
    module: Module, inputs: Mapping[str, Any], runs: int = RUNS, seed: int = 0, flushes: bool = False
) -> Spread:
    """The outputs of several correct runs of a module on one set of inputs; of them, where somebody `flushes` subnormal
    numbers, each second does."""
    return CorrectRuns(module, inputs, seed, flushes).spread(runs)


@dataclass
class CorrectRuns:
    """Correct runs of a module on one set of inputs, as many as are asked for: the first is that of our definition."""

    module: Module
    inputs: Mapping[str, Any]
    seed: int = 0
    flushes: bool = False
    made: list[dict[str, Any]] = field(default_factory=list)
    stopped: str = ""
    scales: dict[int, Width] = field(default_factory=dict)

    def spread(self, runs: int = RUNS) -> Spread:
        """How far at least so many of them lie apart."""
        while len(self.made) < runs and not self.stopped:
            i = len(self.made)
            rounding = Rounding(self.module, self.seed, i, self.scales, self.flushes and i % 2 == 1)
            try:
                self.made.append(graph.run(self.module, self.inputs, apply=rounding.apply if i else self._first))
            except (Trap, Unpredictable) as why:
                self.stopped = str(why)
        if self.stopped:
            return Spread({}, runs, self.stopped)
        found: dict[str, list[Array]] = {}
        for made in self.made:
            for name, value in made.items():
                if isinstance(value, np.ndarray):
                    found.setdefault(name, []).append(value)
        return Spread({n: v for n, v in found.items() if len({a.shape for a in v}) == 1}, len(self.made))

    def _first(
        self, node: Call | CallTIR, attrs: Attrs, args: Sequence[Value], ordinary: Callable[..., Value]
    ) -> Value:
        """A node of the first run. Of a product whose order decides everything a few runs say nothing; nor of what is
        left of a number beside whole numbers, where it has none between them: that is what its division was off by."""
        op = node.op if isinstance(node, Call) and isinstance(node.op, Operator) else None
        arrays = [a for a in args if isinstance(a, np.ndarray)]
        if op is not None and len(arrays) == len(args) and hangs_on_order(op, attrs, arrays):
            self.stopped = f"{op.name}: in some orders of its factors a product vanishes or overflows midway"
        elif op is not None and op.name in WHOLE and any(_is_float(a) and _has_no_parts(a) for a in arrays):
            self.stopped = f"{op.name} of numbers whose neighbours lie a whole apart"
        return ordinary(*args)

    @cached_property
    def may_overflow(self) -> bool:
        """Whether a partial sum of an operator, or a result, comes near the end of its dtype: whether it is a number
        then hangs on the order, and a correct run may give none where these do."""
        found = False

        def apply(node: Call | CallTIR, attrs: Attrs, args: Sequence[Value], ordinary: Callable[..., Value]) -> Value:
            nonlocal found
            made = ordinary(*args)
            found = found or _nears_the_end(node.op if isinstance(node, Call) else None, attrs, args, made)
            return made

        try:
            graph.run(self.module, self.inputs, apply=apply)
        except (Trap, Unpredictable):
            return True
        return found


WHOLE = ("ceil", "floor", "round")
"""Operators that give whole numbers."""


def _has_no_parts(x: Array) -> bool:
    """Whether there is a number in it so large that no other lies between it and the next whole one."""
    return bool(np.any(np.isfinite(x) & (np.abs(x.astype(np.float64)) >= 0.5 / dtype(x.dtype).unit_roundoff)))


def _nears_the_end(op: Any, attrs: Attrs, args: Sequence[Value], made: Value) -> bool:
    """Whether the magnitudes of what an operator adds up, or a result of it, are above a quarter of the largest."""
    arrays = [a for a in args if isinstance(a, np.ndarray)]
    with np.errstate(all="ignore"):
        sizes = [np.abs(r.astype(np.float64)) for r in (made if isinstance(made, tuple) else (made,)) if _is_float(r)]
        if isinstance(op, Operator) and op.name in TERMS and len(arrays) == len(args) and _is_float(args[0]):
            sizes.append(magnitudes(op, attrs, [np.where(np.isfinite(a), a, a.dtype.type(0)) for a in arrays]))
    of = next((dtype(r.dtype) for r in (*arrays, made) if _is_float(r)), None)
    return of is not None and any(np.any((s >= float(of.max) / 4) & np.isfinite(s)) for s in sizes)


def _is_float(value: Any) -> bool:
    return isinstance(value, np.ndarray) and dtype(value.dtype).is_float


class Rounding(Attempt):
    """One correct run, by a seed: the adversary's, in which what a single rounding or an elementary function may be off
    is not computed element by element."""

    def __init__(self, module: Module, seed: int, run: int, scales: dict[int, Width], flush: bool = False) -> None:
        super().__init__(module, np.random.default_rng([seed, run]), flush)
        self.scales = scales
        """By the node's identity, how wide its operator's bound is."""
        self.node = 0

    def apply(self, node: Call | CallTIR, attrs: Attrs, args: Sequence[Value], ordinary: Callable[..., Value]) -> Value:
        """A node, rounded in this run's own way."""
        self.node = id(node)
        return super().apply(node, attrs, args, ordinary)

    def noisy(self, op: Operator, attrs: Attrs, args: Sequence[Array], ordinary: Callable[..., Value]) -> Any:
        """A result anywhere within the operator's bound, about."""
        if op.bound.startswith("exact"):
            return ordinary(*args)
        made = ordinary(*args)
        if not isinstance(made, np.ndarray) or not dtype(made.dtype).is_float or not dtype(args[0].dtype).is_float:
            return super().noisy(op, attrs, args, ordinary)
        ulps = SIMPLE.get(op.bound)
        if ulps is not None:
            return self.moved(made, np.abs(made), ulps, exact=ulps == ROUNDED)
        if self.node not in self.scales:
            self.scales[self.node] = _width(op.value(attrs, *(_exact(a) for a in args)), op.family == "elementwise")
        width = self.scales[self.node]
        if not isinstance(width, tuple):
            return self.moved(made, width, 0.5 / dtype(made.dtype).unit_roundoff)
        ulps, alone = width
        return self.moved(made, np.abs(made) if alone else _sizes(made), ulps)

    def pieces(self, size: int) -> list[Array]:
        """The places 0 to size - 1 in random order, in at most two pieces."""
        order = self.rng.permutation(size)
        cut = int(self.rng.integers(size)) if size > 1 else 0
        return [p for p in (order[:cut], order[cut:]) if p.size]

    def moved(self, value: Array, size: Any, ulps: float, exact: bool = True) -> Array:
        """Numbers off by at most so many units in the last place of numbers of that size; what is no number stays, and
        what is whole where that may be `exact`."""
        of = dtype(value.dtype)
        how = int(self.rng.integers(3))
        shape = value.shape
        place: Any = self.rng.random(shape, np.float32) * 2 - 1 if how else self.rng.choice((-1.0, 1.0), shape)
        place = self.rng.choice((-1.0, 1.0)) if how == 2 else place
        wide = value if of.bits >= 32 else value.astype(np.float32)
        made = (wide + size.astype(wide.dtype) * (2 * ulps * of.unit_roundoff * place)).astype(value.dtype)
        whole = (wide == np.rint(wide)) & (np.abs(wide) < 0.5 / of.unit_roundoff)  # above, there are no others
        stays = ~np.isfinite(made) | (whole if exact else wide == 0)
        return np.where(stays, value, made)


def _exact(array: Array) -> Any:
    return Bounded.exact(array) if dtype(array.dtype).is_float else array


def _sizes(value: Array) -> Array:
    """The magnitude of each element and the ordinary one of all."""
    size = np.abs(value.astype(np.float32))
    known = size[np.isfinite(size)]
    return np.asarray(size + (np.sqrt(np.mean(known * known)) if known.size else 0))


Width: TypeAlias = tuple[float, bool] | Array
"""Units in the last place of each element alone, or else of `_sizes`; or for each element how much it may be off."""


def _width(allowed: Any, elementwise: bool) -> Width:
    """How wide a bound is: of half of the elements it is no wider. Where it is much wider for some elements than for
    others, in units of their own, there are sums in it that cancel: then it is told in units of the ordinary ones. Of
    an elementwise operator it is then kept as it is: one element says nothing of another."""
    if not isinstance(allowed, Bounded):
        return 0.0, True
    with np.errstate(all="ignore"):
        unit = 2 * allowed.of.unit_roundoff
        alone = allowed.radius / (unit * np.abs(allowed.value))
        alone = alone[np.isfinite(alone)]
        if alone.size and np.quantile(alone, 0.95) <= CANCELS * np.median(alone):
            return float(np.median(alone)), True
        if elementwise:
            return np.where(np.isfinite(allowed.radius), allowed.radius, 0.0).astype(np.float32)
        beside = allowed.radius / (unit * _sizes(allowed.value))
        beside = beside[np.isfinite(beside)]
    return (float(np.median(beside)) if beside.size else 0.0), False


CANCELS = 8.0
"""How many times the median of an operator's bounds the widest are, in units of their own elements, where terms of it
cancel."""

ROUNDED = 1.0
"""Units in the last place that one rounding may be off."""
SIMPLE = {op.bound: ROUNDED for op in OPERATORS.values() if op.bound.startswith("one rounding")} | {
    op.bound: 4.0 for op in OPERATORS.values() if op.bound.startswith("4 ulp")
}
"""The bounds of operators that are a number of units in the last place of the result, and how many."""
