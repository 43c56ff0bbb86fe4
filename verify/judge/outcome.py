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
from assay.verify.judge.spread import Distance
from assay.verify.oracle import Verdict, Worst
from assay.verify.oracle.verdict import element_number

Array = np.ndarray[Any, Any]

GRAVEST = (
    "wrong", "implausible", "died", "late", "undecided", "refused", "unpredictable", "open", "right",
)  # fmt: skip
"""Of several verdicts on one backend, the first of these that is among them."""
SAYS_NOTHING = ("unpredictable", "undecided")


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
    runs."""


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
        unit = np.ones(want.shape)
        if of.is_float:
            size = np.maximum(np.abs(want), of.smallest_normal)
            unit = np.where(np.isfinite(size), np.exp2(np.floor(np.log2(size))) * 2 * of.unit_roundoff, 1.0)
        same = (have == want) | (np.isnan(have) & np.isnan(want))
        off = np.where(same, 0.0, np.abs(have - want) / unit)
        off = np.where(np.isnan(off), np.inf, off)
    at = tuple(int(i) for i in np.unravel_index(int(np.argmax(off)), off.shape))
    bound = float("inf") if nothing[at] else float(radius[at] / unit[at])
    finite = off[np.isfinite(off)]
    return TensorError(
        tensor, at, element_number(got[at], of), element_number(want[at], of), float(off[at]),
        bound, float(finite.mean()) if finite.size else float("inf"),
        int(np.count_nonzero(~same & (radius == 0))), got.size,
    )  # fmt: skip


@dataclass(frozen=True)
class PieceFinding:
    """What is said of one piece of the model on one set of inputs."""

    title: str
    nodes: tuple[str, ...]
    sample: str
    verdict: Verdict


@dataclass(frozen=True)
class SampleVerdict:
    """The verdict on one set of inputs. `rests` is what it rests on: "bounds" of the whole program, "tensors" that the
    backend showed, "pieces" of the model, or "" where nothing is said. `errors` are those of the outputs."""

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


@dataclass
class BackendVerdict:
    """All that is said of one backend. `refused` is why it was not judged, with an outcome of its own."""

    name: str
    samples: list[SampleVerdict] = field(default_factory=list)
    ended: str = ""
    """"refused", "died" or "late" where it gave nothing."""
    why: str = ""
    seconds: float = 0.0

    @property
    def outcome(self) -> str:
        """The gravest verdict. Sets of inputs that were made for it and say nothing count where no other says
        anything."""
        if self.ended:
            return self.ended
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
        """The verdict in plain words."""
        if self.ended:
            return f"{self.name} {_ENDED[self.ended]}: {self.why}"
        found = {o: [s for s in self.samples if s.outcome == o] for o in GRAVEST}
        worst = next((found[o][0] for o in ("wrong", "implausible", "died") if found[o]), None)
        if worst is not None:
            where = f", in {worst.culprit}" if worst.culprit else ""
            rule = f" ({worst.rule})" if worst.rule else ""
            return f"{self.name} is {worst.outcome} on the inputs {worst.sample!r}{where}: {worst.detail}{rule}"
        good = [s.sample for s in self.samples if s.outcome in ("right", "open")]
        if self.outcome in ("right", "open"):
            but = f"; nothing could be told on {listed([s.sample for s in self.silent])}" if self.silent else ""
            how = ", ".join(dict.fromkeys(_RESTS[s.rests] for s in self.samples if s.outcome in ("right", "open")))
            of = "" if self.outcome == "right" else ", but for elements that the standard leaves open"
            return f"{self.name} is right on {plural(len(good), 'set')} of inputs{of}, by {how}{but}"
        first = next(s for s in self.samples if s.outcome == self.outcome)
        return f"{self.name} is {self.outcome} on the inputs {first.sample!r}: {first.detail}"


_ENDED = {"refused": "refuses this model", "died": "died", "late": "took too long"}
_RESTS = {
    "bounds": "bounds of the whole program", "tensors": "every tensor that it shows",
    "pieces": "pieces that together hold every edge", "": "nothing",
}  # fmt: skip


def gravest_of(outcomes: Iterable[str]) -> str:
    """The gravest of several verdicts; "right" of none."""
    found = set(outcomes)
    return next((o for o in GRAVEST if o in found), "right")


def as_data(found: Any) -> Any:
    """A verdict as plain data, for JSON: numbers that JSON does not have as texts."""
    if hasattr(found, "__dataclass_fields__"):
        return {n: as_data(getattr(found, n)) for n in found.__dataclass_fields__}
    if isinstance(found, Mapping):
        return {str(k): as_data(v) for k, v in found.items()}
    if isinstance(found, (list, tuple)):
        return [as_data(v) for v in found]
    if isinstance(found, (float, np.floating)) and not np.isfinite(found):
        return str(float(found))
    return found.item() if isinstance(found, np.generic) else found
