"""What is said of a backend: of each tensor, of each set of inputs, and in all (specs/verify.md, "judge")."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from assay.interp.values import plain
from assay.semantics.bounds import Bounded
from assay.semantics.dtypes import dtype
from assay.verify.evidence import listed, plural
from assay.verify.exits import OF_OUTCOME, Exit
from assay.verify.judge.histograms import by_bound, by_ulps
from assay.verify.judge.spread import Distance
from assay.verify.oracle import Verdict, Worst
from assay.verify.oracle.verdict import compared_by_outcome, element_number, ulp

Array = np.ndarray[Any, Any]

GRAVEST = (
    "wrong", "implausible", "died", "late", "undecided", "refused", "unpredictable", "open", "right",
)  # fmt: skip
"""Of several verdicts on one backend, the first of these that is among them."""
SAYS_NOTHING = ("unpredictable", "undecided", "refused")
"""Verdicts that say nothing of a backend where the inputs were made for it."""

FURTHEST_SHOWN = 5


@dataclass(frozen=True)
class TensorError:
    """How far a tensor is from the middle of what is allowed, in units in the last place of its dtype there: at the
    worst element `index`, beside the bound at that element (inf where it excludes nothing), and on average. `differs`
    counts the elements of other bits where only one value is allowed."""

    tensor: str
    index: tuple[int, ...]
    got: Any
    middle: Any
    error: float
    bound: float
    mean: float
    differs: int
    size: int
    times: float | None = None
    """How many times the spread of correct runs it is off where that is most; None where there is no spread."""
    reference: str = "definition"
    """What it is compared with: the middle of the definition's bounds or, where these exclude nothing, of correct
    runs, or our own run alone."""
    histogram: Sequence[int] = ()
    """How many elements are in each of `BINS`."""
    shares: Sequence[int] = ()
    """How many of those whose bound excludes something are in each of `SHARES`; none where there are none."""
    furthest: Sequence[tuple[tuple[int, ...], Any, Any, float]] = ()
    """The elements that are furthest off: where, what is there, the middle, and the error."""


def tensor_error(tensor: str, allowed: Any, got: Any) -> TensorError | None:
    """The error of a tensor; None where it is not of the shape and dtype that it must have, or is no tensor."""
    allowed = allowed if isinstance(allowed, Bounded) else plain(allowed)
    if not isinstance(allowed, (Bounded, np.ndarray)) or not isinstance(got, np.ndarray):
        return None
    of = allowed.of if isinstance(allowed, Bounded) else dtype(allowed.dtype)
    if got.shape != allowed.shape or got.dtype != of.numpy or not got.size:
        return None
    want = allowed.value if isinstance(allowed, Bounded) else allowed.astype(np.float64)
    radius = allowed.radius if isinstance(allowed, Bounded) else np.zeros(want.shape)
    nothing = allowed.vacuous if isinstance(allowed, Bounded) else np.zeros(want.shape, bool)
    with np.errstate(all="ignore"):
        have = got.astype(np.float64)
        unit = ulp(want, of)
        same = (have == want) | (np.isnan(have) & np.isnan(want))
        off = np.where(same, 0.0, np.abs(have - want) / unit)
        off = np.where(np.isnan(off), np.inf, off)
    at = tuple(int(i) for i in np.unravel_index(int(np.argmax(off)), off.shape))
    bound = float("inf") if nothing[at] else float(radius[at] / unit[at])
    finite = off[np.isfinite(off)]
    far = np.argsort(-off, axis=None, kind="stable")[:FURTHEST_SHOWN]
    places = [tuple(int(i) for i in np.unravel_index(int(f), off.shape)) for f in far if off.flat[f] > 0]
    return TensorError(
        tensor, at, element_number(got[at], of), element_number(want[at], of), float(off[at]),
        bound, float(finite.mean()) if finite.size else float("inf"),
        int(np.count_nonzero(~same & (radius == 0))), got.size, histogram=by_ulps(off), shares=by_bound(allowed, got),
        furthest=[(i, element_number(got[i], of), element_number(want[i], of), float(off[i])) for i in places],
    )  # fmt: skip


@compared_by_outcome
@dataclass(frozen=True)
class ShownTensor:
    """The verdict on a tensor that a backend shows, on the operands that it shows: by what operator it is made, by
    which layer it was judged, and its error."""

    tensor: str
    maker: str
    outcome: str
    layer: str
    error: TensorError | None


@dataclass(frozen=True)
class PieceFinding:
    """What is said of one piece of the model on one set of inputs."""

    title: str
    nodes: tuple[str, ...]
    sample: str
    verdict: Verdict


@compared_by_outcome
@dataclass(frozen=True)
class SampleVerdict:
    """The verdict on one set of inputs. `rests` is what it rests on: "bounds" of the whole program, "tensors" that the
    backend showed, "pieces" of the model, "failure" where it failed as it may, or "" where nothing is said. `errors`
    are those of the outputs."""

    sample: str
    outcome: str
    rests: str
    detail: str
    worst: Worst | None = None
    culprit: str = ""
    layer: str = ""
    rule: str = ""
    """Where something is wrong: the rule that is broken, and what the standard calls the operators."""
    errors: Sequence[TensorError] = ()
    distances: Sequence[Distance] = ()
    pieces: Sequence[PieceFinding] = ()
    judged: int = 0
    """How many tensors were judged on the backend's own operands."""
    tensors: Sequence[ShownTensor] = ()
    """Every tensor that the backend shows, where that was asked for."""

    def of_output(self, tensor: str) -> str:
        """The verdict on one output: that on the set of inputs, but where this is of something else."""
        if self.outcome not in ("wrong", "implausible"):
            return self.outcome
        if self.worst is not None and self.worst.tensor == tensor:
            return self.outcome
        error = next((e for e in self.errors if e.tensor == tensor), None)
        if self.worst is not None and all(e.tensor != self.worst.tensor for e in self.errors):
            return self.outcome  # what is wrong is within the model: no output is known to be right
        if error is not None and error.error > error.bound:
            return "wrong"
        if any(d.tensor == tensor and d.implausible for d in self.distances):
            return "implausible"
        if error is not None and np.isfinite(error.bound):
            return "right"
        return self.outcome if self.worst is None else "undecided"  # no number is wrong: a shape is, or a piece


@compared_by_outcome
@dataclass
class BackendVerdict:
    """All that is said of one backend. `refused` is why it was not judged, with an outcome of its own."""

    name: str
    samples: list[SampleVerdict] = field(default_factory=list)
    ended: str = ""
    """"refused", "died" or "late" where it gave nothing; "undecided" where nothing of it can be judged."""
    why: str = ""
    seconds: float = 0.0
    unseen: str = ""
    """What the runs could not show of what it keeps from run to run."""
    hidden: str | None = None
    """Why intermediate tensors are not to be had, where they are not; "" where that was refused."""
    proved: str = ""
    """Of a second program: what is proved, which needs no runs."""
    around: str = ""
    """The nodes that have no meaning here, around which it was judged."""

    @property
    def outcome(self) -> str:
        """The gravest verdict. Sets of inputs that were made for it and say nothing count where no other says
        anything."""
        if self.ended or self.proved:
            return self.ended or "right"
        found = self._gravest
        return "undecided" if self.around and found in GOOD else found

    @property
    def _gravest(self) -> str:
        telling = [s for s in self.samples if s.outcome not in SAYS_NOTHING or s.sample.startswith(("given", "random"))]
        return gravest_of(s.outcome for s in telling or self.samples)

    @property
    def silent(self) -> list[SampleVerdict]:
        """The sets of inputs on which nothing could be told."""
        return [s for s in self.samples if s.outcome in SAYS_NOTHING]

    @property
    def exit(self) -> Exit:
        """The exit code of a command that found only this."""
        return OF_OUTCOME[self.outcome]

    def closing(self) -> str:
        """The verdict in plain words: on what it rests, on how many sets of inputs, and on which nothing could be
        told."""
        if self.ended:
            return f"{self.name} {_ENDED[self.ended]}: {self.why}"
        outcome = self.outcome
        if self.proved:
            return f"{self.name} is right: {self.proved}"
        if outcome in GOOD:
            return f"{self.name} is {self._good()}"
        if self._gravest in GOOD:
            return (
                f"{self.name} is undecided: nothing says the meaning of {self.around}; around that it is {self._good()}"
            )
        there = [s for s in self.samples if s.outcome == outcome]
        first, of = there[0], plural(len(self.samples), "set")
        on = f"on {len(there)} of {of} of inputs ({listed([s.sample for s in there])})"
        where = f", in {first.culprit}" if first.culprit else ""
        rule = f" ({first.rule})" if first.rule else ""
        rest = [s.sample for s in self.samples if s.outcome in GOOD]
        silent = [s.sample for s in self.silent if s.outcome != outcome]
        more = f"; right on {listed(rest)}" if rest else ""
        more += f"; nothing could be told on {listed(silent)}" if silent else ""
        more += f"; not judged is what has no meaning here: {self.around}" if self.around else ""
        return f"{self.name} {_SAID[outcome]} {on}{where}: {first.detail}{rule}{_WHY.get(outcome, '')}{more}"

    @property
    def limits(self) -> str:
        """What is not known of one that is right, in words behind what is."""
        hidden = f"; its intermediate tensors are not to be had: {self.hidden}" if self.hidden else ""
        keeps = f"; not shown is whether it keeps something from run to run: {self.unseen}" if self.unseen else ""
        return hidden + keeps

    def _good(self) -> str:
        """The same of one that is right."""
        good = [s for s in self.samples if s.outcome in GOOD]
        by: dict[str, list[str]] = {}
        for s in good:
            by.setdefault(s.rests, []).append(s.sample)
        each = len(by) > 1
        how = "; ".join(f"by {RESTS[r]}{f' on {listed(names)}' if each else ''}" for r, names in by.items())
        opened = next((s for s in good if s.outcome == "open"), None)
        but = f", but for what the standard leaves open, on {opened.sample}: {opened.detail}" if opened else ""
        said = f"; nothing could be told on {listed([s.sample for s in self.silent])}" if self.silent else ""
        why = f": {self.silent[0].detail}" if self.silent else ""
        among = len(self.samples)
        on = f"{len(good)} of {plural(among, 'set')}" if len(good) < among else plural(among, "set")
        return f"right on {on} of inputs, {how}{but}{said}{why}{self.limits}"


GOOD = ("right", "open")
_ENDED = {"undecided": "is undecided", "refused": "refuses this model", "died": "died", "late": "took too long"}
_SAID = {
    "wrong": "is wrong", "implausible": "is implausible", "died": "died", "late": "took too long",
    "refused": "refuses to run", "undecided": "is undecided", "unpredictable": "cannot be compared",
}  # fmt: skip
_WHY = {
    "implausible": "; no rule is known to be broken: this rests on how far correct runs lie apart",
    "undecided": "; nothing known is broken, and not enough is known to say right",
    "unpredictable": "; the program itself decides so on these inputs, whoever runs it",
}
RESTS = {
    "bounds": "bounds of the whole program", "tensors": "every tensor that it shows",
    "pieces": "pieces of the model that together hold every edge, and outputs within the spread of correct runs",
    "recorded": "each tensor that was recorded, given those before it",
    "shared": "pieces between tensors that both programs have, and outputs within the spread of correct runs",
    "failure": "failing where the program may fail",
    "": "nothing",
}  # fmt: skip
"""What a verdict rests on, in words."""


def gravest_of(outcomes: Iterable[str]) -> str:
    """The gravest of several verdicts; "right" of none."""
    found = set(outcomes)
    return next((o for o in GRAVEST if o in found), "right")


def verdict_data(found: Any) -> Any:
    """A verdict as plain data, for JSON: numbers that JSON does not have as texts."""
    if hasattr(found, "__dataclass_fields__"):
        return {n: verdict_data(getattr(found, n)) for n in found.__dataclass_fields__}
    if isinstance(found, Mapping):
        return {str(k): verdict_data(v) for k, v in found.items()}
    if isinstance(found, (list, tuple)):
        return [verdict_data(v) for v in found]
    if isinstance(found, (float, np.floating)) and not np.isfinite(found):
        return str(float(found))
    return found.item() if isinstance(found, np.generic) else found
