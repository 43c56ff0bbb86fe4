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
from dataclasses import dataclass
from math import lgamma, log, sqrt
from typing import Any

import numpy as np

from assay.interp import graph
from assay.interp.values import Value
from assay.semantics.bounding.model import NARROW_ULPS, ULPS
from assay.semantics.dtypes import DType, dtype
from assay.semantics.errors import Trap, Unpredictable
from assay.semantics.graph import Call, CallTIR
from assay.semantics.module import Module
from assay.semantics.operator import Operator
from assay.verify.oracle.dot import TERMS
from assay.verify.oracle.scaled_integers import MOVES

Array = np.ndarray[Any, Any]
Attrs = Mapping[str, Any]
RUNS = 8
"""Correct runs that are compared with."""
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
            return np.mean([r.astype(np.float64) for r in runs], axis=0) if runs else None

    def distance(self, name: str, got: Array) -> Distance | None:
        """How far a float output is from the correct runs; None where that says nothing: it is of whole numbers, has no
        element that is finite in all of them, or is of another shape."""
        runs = self.outputs.get(name, ())
        if not runs or got.shape != runs[0].shape or got.dtype != runs[0].dtype or not dtype(got.dtype).is_float:
            return None
        with np.errstate(all="ignore"):
            return _distance(name, np.stack([r.astype(np.float64) for r in runs]), got)


def _distance(name: str, runs: Array, got: Array) -> Distance | None:
    of = dtype(got.dtype)
    off = got.astype(np.float64)
    known = np.isfinite(runs).all(axis=0)
    if not known.any():
        return None
    middle = runs.mean(axis=0)
    each = np.where(known, runs - middle, 0.0)
    own = np.sqrt((each**2).sum(axis=0) / (len(runs) - 1))
    whole = sqrt(float((own[known] ** 2).mean()))
    ulp = of.unit_roundoff * np.maximum(np.abs(middle), of.smallest_normal)
    spread = np.maximum(np.maximum(own, whole / 4), ulp)
    far = np.abs(off - middle)
    far = np.where(known, np.where(np.isfinite(far), far, np.inf), 0.0)
    times = far / spread
    at = tuple(int(i) for i in np.unravel_index(int(np.argmax(times)), times.shape))
    most = max(float(np.abs(each).max()), float(ulp[at]))
    t = float(times[at]) / sqrt(1 + 1 / len(runs))
    return Distance(
        name, at, float(off[at]), float(middle[at]), float(spread[at]), float(times[at]), float(far[at]) / most,
        min(0.0, _log10_tail(t, len(runs) - 1) + log(2 * got.size, 10)),
    )  # fmt: skip


def _log10_tail(t: float, degrees: int) -> float:
    """The logarithm of a bound on the probability that Student's variable is above t > 0: its density there, times
    t / (degrees - 1), which is at least the tail's integral of a density that falls as t ** -(degrees + 1)."""
    if not np.isfinite(t):
        return -np.inf
    if t <= 0:
        return 0.0
    n = degrees
    density = lgamma((n + 1) / 2) - lgamma(n / 2) - 0.5 * log(n * np.pi) - (n + 1) / 2 * log(1 + t * t / n)
    return float((density + log((t * t + n) / (n * t))) / log(10))


def spread_of(module: Module, inputs: Mapping[str, Any], runs: int = RUNS, seed: int = 0) -> Spread:
    """The outputs of several correct runs of a module on one set of inputs."""
    found: dict[str, list[Array]] = {}
    for i in range(runs):
        try:
            made = graph.run(module, inputs, apply=Rounding(seed, i).apply if i else None)
        except (Trap, Unpredictable) as why:
            return Spread({}, runs, str(why))
        for name, value in made.items():
            if isinstance(value, np.ndarray):
                found.setdefault(name, []).append(value)
    return Spread({n: v for n, v in found.items() if len({a.shape for a in v}) == 1}, runs)


@dataclass
class Rounding:
    """One correct run: every rounding as M9 allows, by a seed. Every third run has all of an operator's roundings at
    one end."""

    seed: int
    run: int

    def __post_init__(self) -> None:
        self.rng = np.random.default_rng([self.seed, self.run])
        self.at_ends = self.run % 3 == 0

    def apply(self, node: Call | CallTIR, attrs: Attrs, args: Sequence[Value], ordinary: Callable[..., Value]) -> Value:
        """The result of a node, rounded in this run's own way. In a tensor function the order of operations is the
        meaning (rule M10), but a program that is judged calls operators."""
        op = node.op if isinstance(node, Call) and isinstance(node.op, Operator) else None
        if op is None or op.family in MOVES or op.bound.startswith("exact") or not _floats(args):
            return ordinary(*args)
        with np.errstate(all="ignore"):
            if op.name in TERMS:
                return self.moved(self.in_order(op, attrs, args, ordinary), 1.0)
            if op.family == "normalization":
                args = [self.moved(a, 1.0) for a in args]
                return self.moved(ordinary(*args), 4.0)
            return self.moved(ordinary(*args), _ulps(op, args))

    def in_order(self, op: Operator, attrs: Attrs, args: Sequence[Any], ordinary: Callable[..., Value]) -> Value:
        """A sum of products with its terms in another order."""
        match op.name:
            case "matmul" if args[0].shape[-1] > 1:
                a, b = args
                p = self.rng.permutation(a.shape[-1])
                return ordinary(np.take(a, p, a.ndim - 1), np.take(b, p, max(b.ndim - 2, 0)))
            case "sum" | "mean" if args[0].ndim:
                (x,) = args
                axes = range(x.ndim) if attrs["axis"] is None else attrs["axis"]
                for axis in axes:
                    x = np.take(x, self.rng.permutation(x.shape[axis]), axis)
                return ordinary(x)
            case name if name.startswith("nn.conv") and attrs["groups"] == 1 and args[1].shape[1] > 1:
                x, w, *bias = args
                p = self.rng.permutation(x.shape[1])
                return ordinary(x[:, p], w[:, p], *bias)
            case _:
                return self.moved(ordinary(*args), 1.0)

    def moved(self, value: Any, ulps: float) -> Any:
        """Numbers off by at most so many units in the last place; what is whole, or no number, stays: there it may be
        exact."""
        if isinstance(value, tuple):
            return tuple(self.moved(part, ulps) for part in value)
        if not isinstance(value, np.ndarray) or not dtype(value.dtype).is_float:
            return value
        of = dtype(value.dtype)
        place: Any = self.rng.choice((-1.0, 1.0)) if self.at_ends else self.rng.uniform(-1, 1, value.shape)
        off = value * (2 * ulps * of.unit_roundoff * place)
        wide = of.bits >= 32
        made = value + off.astype(value.dtype) if wide else (value.astype(np.float64) + off).astype(value.dtype)
        stays = (value == np.rint(value)) | ~np.isfinite(made)
        return np.where(stays, value, made)


def _floats(args: Sequence[Value]) -> bool:
    return all(isinstance(a, np.ndarray) for a in args) and any(
        isinstance(a, np.ndarray) and dtype(a.dtype).is_float for a in args
    )


def _ulps(op: Operator, args: Sequence[Any]) -> float:
    """Within how many units in the last place a correct result is."""
    of: DType = dtype(args[0].dtype)
    most = 4.0 if op.name in ULPS or op.family == "elementwise" and "formula" in op.bound else 1.0
    return min(most, NARROW_ULPS.get(of.bits, most)) if of.is_float else 1.0
