"""A backend is asked, and what it does is an outcome of pytest: refusals are skipped, crashes fail (specs/verify.md,
"Backends")."""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np
import onnx
import pytest

from assay.semantics.errors import Invalid, Trap
from assay.verify.backends.functions import as_backend
from assay.verify.backends.in_process import InProcess
from assay.verify.backends.protocol import OUTCOMES, Array, Prepared, Subject, call_prepared, subject_of_model
from assay.verify.backends.registry import backend as named
from assay.verify.oracle import Oracle, judge_backend, oracle_of
from assay.verify.oracle.data import KINDS
from assay.verify.oracle.verdict import Verdict


@dataclass(frozen=True)
class Asked:
    """A backend with a program. Each method ends the test where the backend refuses or crashes."""

    who: InProcess
    subject: Subject

    @property
    def oracle(self) -> Oracle:
        """The oracle of the program, with the freedoms that the backend declares."""
        return oracle_of(self.subject, self.who.accepts)

    def inputs(self, seed: int = 0) -> dict[str, Array]:
        """Ordinary inputs."""
        return self.oracle.inputs("random", seed)

    def prepared(self, wanted: Sequence[str] | None = None) -> Prepared:
        """The backend prepared for the outputs, or for the tensors `wanted`."""
        __tracebackhide__ = True
        with as_outcomes():
            return self.who.prepare(self.subject, self.subject.outputs if wanted is None else wanted)

    def ran(self, run: Prepared, inputs: Mapping[str, Array]) -> dict[str, Any]:
        """What a prepared backend gives; it gets copies."""
        __tracebackhide__ = True
        with as_outcomes():
            return call_prepared(self.who.name, run, inputs)

    def require_right(self, inputs: Mapping[str, Array], outputs: Mapping[str, Any], when: str = "") -> None:
        """Fail where the oracle calls outputs wrong, or knows nothing of them."""
        __tracebackhide__ = True
        require_right(self.oracle.judge(inputs, outputs), when)

    def judged(self, inputs: Mapping[str, Array]) -> Verdict:
        """The verdict on the backend on these inputs."""
        __tracebackhide__ = True
        with as_outcomes():
            return judge_backend(self.subject, self.who, inputs)

    def judged_on_all_kinds(self) -> None:
        """Fail where the backend is wrong on any kind of data; skip where nothing was found right on any."""
        __tracebackhide__ = True
        verdicts = [self.judged(self.oracle.inputs(kind)) for kind in KINDS]
        for kind, verdict in zip(KINDS, verdicts, strict=True):
            if verdict.outcome == "wrong":
                pytest.fail(f"on {kind} inputs: {verdict}")
        if not any(v.outcome in ("right", "open") for v in verdicts):
            pytest.skip(f"nothing could be decided: {verdicts[0]}")


def asked(who: InProcess, model: onnx.ModelProto) -> Asked:
    """A backend with a model."""
    return Asked(who, subject_of_model(model))


def resolved(backend: Any) -> InProcess:
    """The backend that an author names: an object, a class, a function or a name, in this process. The test fails where
    it is none."""
    __tracebackhide__ = True
    with as_outcomes():
        if isinstance(backend, str):
            return InProcess(named(backend))
        return InProcess(as_backend(backend, "`backend`", getattr(backend, "__name__", "backend")))


def require_right(verdict: Verdict, when: str = "") -> None:
    """Fail where a verdict is not right."""
    __tracebackhide__ = True
    if verdict.outcome not in ("right", "open"):
        pytest.fail(f"{when}: {verdict}" if when else str(verdict))


@contextmanager
def as_outcomes() -> Iterator[None]:
    """A refusal in here skips the test, and a crash or a broken promise fails it. Warnings of arithmetic are silent."""
    __tracebackhide__ = True
    try:
        with warnings.catch_warnings(), np.errstate(all="ignore"):
            warnings.simplefilter("ignore")
            yield
    except Trap as trap:
        pytest.fail(f"fails where it must not: {trap}")
    except Invalid as wrong:
        if OUTCOMES.get(wrong.label) == "refused" or wrong.label == "backend.C1":
            pytest.skip(wrong.message)
        pytest.fail(str(wrong))
