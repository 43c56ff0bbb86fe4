"""One backend, what it is asked, and what it gave (specs/verify.md, "judge")."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property, partial
from typing import Any, TypeAlias

import numpy as np

from assay.semantics.errors import AssayError, Trap
from assay.verify.backends import Backend, Subject
from assay.verify.backends.protocol import OUTCOMES, Prepared, call_prepared
from assay.verify.judge.between import Told
from assay.verify.judge.by_pieces import Coverage
from assay.verify.judge.outcome import BackendVerdict, SampleVerdict
from assay.verify.judge.samples import Sample
from assay.verify.oracle import Accepts, Oracle, oracle_of
from assay.verify.oracle.trial import as_tensors, same_bits, tensors_of

Array = np.ndarray[Any, Any]
Outputs: TypeAlias = Mapping[str, Any] | AssayError
"""What a backend gives; or what it says instead: a trap, a refusal, how it crashed."""
Progress = Callable[[str, int, int], None]


@dataclass(eq=False)
class Candidate:
    """One backend, what it gave on each set of inputs, by the set's place, and what is said of it."""

    backend: Backend
    subject: Subject
    excluded: Collection[str] = ()
    outputs: list[Outputs] = field(default_factory=list)
    first: dict[int, SampleVerdict] = field(default_factory=dict)
    """What bounds of the whole and every tensor that it shows say."""
    pieces: dict[int, Coverage] = field(default_factory=dict)
    """What pieces show, where these are asked for."""
    doubts: dict[int, SampleVerdict] = field(default_factory=dict)
    """Where the whole is right and a tensor that it shows is wrong on those that it shows for its operands."""
    verdict: BackendVerdict = field(init=False)
    _prepared: Prepared | None = None
    _showing: Prepared | None = None

    def __post_init__(self) -> None:
        self.verdict = BackendVerdict(self.backend.name)

    @property
    def name(self) -> str:
        """The backend's name."""
        return self.backend.name

    @property
    def told(self) -> Told | None:
        """The backend, where it is judged by tensors that are known of it; None where it runs pieces."""
        return self.backend if isinstance(self.backend, Told) else None

    @cached_property
    def accepts(self) -> Accepts:
        """What it declares of itself, without the rights that are excluded."""
        return Accepts.of(getattr(self.backend, "accepts", None)).excluding(self.excluded)

    @cached_property
    def oracle(self) -> Oracle:
        """What judges it."""
        return oracle_of(self.subject, self.accepts)

    def prepare(self) -> None:
        """Prepare it for the model's outputs. Where it gives nothing, its verdict has ended with the reason."""
        began = time.perf_counter()
        try:
            self._prepared = self.backend.prepare(self.subject, self.subject.outputs)
        except Trap as trap:  # which it says of every run
            self._prepared = partial(_fail, trap)
        except AssayError as why:
            if why.label not in OUTCOMES:
                raise
            self.verdict.ended, self.verdict.why = OUTCOMES[why.label], why.message
        self.verdict.seconds = time.perf_counter() - began

    def run(self, samples: Sequence[Sample], progress: Progress) -> None:
        """Run it on all sets of inputs, in one preparation."""
        assert self._prepared is not None
        began = time.perf_counter()
        taken = samples[:1] if self.told is not None and self.told.once else samples
        for k, sample in enumerate(taken):
            progress(self.name, k, len(taken))
            try:
                self.outputs.append(call_prepared(self.name, self._prepared, sample.inputs))
            except AssayError as why:
                if why.label not in (*OUTCOMES, "backend.C8") and not isinstance(why, Trap):
                    raise
                self.outputs.append(why)
                if OUTCOMES.get(why.label) == "late":
                    break  # it would take as long on the other sets
        self._prepared = None
        self.verdict.seconds += time.perf_counter() - began

    def gave_again(self, k: int, earlier: int) -> bool:
        """Whether it gave the same bits on one set of inputs as on another."""
        one, other = self.outputs[k], self.outputs[earlier]
        if isinstance(one, AssayError) or isinstance(other, AssayError):
            return str(one) == str(other)
        return same_bits(one, other)

    def shown(self, sample: Sample) -> Mapping[str, Array]:
        """Every tensor that it shows on one set of inputs; nothing where it shows none, with the reason in its verdict
        where that is no refusal."""
        if self.told is not None:
            return self.told.shown(sample.inputs) if self.told.once else {}
        if self.verdict.hidden is not None:
            return {}
        try:
            self._showing = self._showing or self.backend.prepare(self.subject, tensors_of(self.subject))
            return as_tensors(call_prepared(self.name, self._showing, sample.inputs))
        except AssayError as why:
            if why.label not in (*OUTCOMES, "backend.C8") and not isinstance(why, Trap):
                raise
            self.verdict.hidden = "" if OUTCOMES.get(why.label) == "refused" else why.message
            return {}


def _fail(trap: Trap, inputs: Mapping[str, Array]) -> dict[str, Array]:
    raise trap
