"""How much the bounds of the zoo's outputs exclude, by intervals alone and with errors followed (specs/verify.md,
"Errors that are followed").

    python -m tests.zoo.bounds [MODEL ...]
    python -m tests.zoo.bounds --draw [ID ...]      # of the deep models that a seed draws
"""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from onnx import ModelProto

from assay.interp import graph
from assay.semantics.bounds import Bounded
from assay.verify.backends import subject_of_model
from assay.verify.oracle import Expected
from assay.verify.oracle.walk import BoundedRun
from tests.zoo import deep, models
from tests.zoo.deep import Deep


@dataclass(frozen=True)
class Row:
    """One model: the part of its outputs' elements of which intervals exclude something, before and after; the median
    radius after, as a part of the largest magnitude; seconds of the run with intervals, and of the other; why not."""

    model: str
    before: float
    after: float
    radius: float
    seconds: tuple[float, float]
    why: str

    def __str__(self) -> str:
        radius = f"{self.radius:.1g}" if self.after else "-"
        return f"| {self.model} | {self.before:.0%} | {self.after:.0%} | {radius} | {self.why} |"


def measured(name: str) -> Row:
    """The row of a model of the zoo on ordinary inputs."""
    return measured_model(name, models.model(name))


def measured_model(name: str, model: ModelProto, seed: int = 0) -> Row:
    """The row of a model on ordinary inputs of a seed."""
    module, inputs = subject_of_model(model).module, models.inputs(model, seed)
    began = time.process_time()
    before = BoundedRun(module).run(inputs)
    middle = time.process_time()
    expected = Expected(module, inputs, follows=True)
    after = expected.possible
    assert isinstance(after, dict)
    seconds = middle - began, time.process_time() - middle
    ours = graph.run(module, inputs)
    radii = [b.radius.ravel() / np.abs(np.asarray(ours[n])).max() for n, b in _floats(after)]
    radius = float(np.median(np.concatenate(radii)))
    return Row(name, _part(before), _part(after), radius, seconds, expected.unfollowed)


def by_intervals(model: ModelProto) -> float:
    """The part of the outputs' elements of which intervals alone exclude something."""
    return _part(BoundedRun(subject_of_model(model).module).run(models.inputs(model)))


def _floats(outputs: Mapping[str, Any]) -> Iterator[tuple[str, Bounded]]:
    return ((n, b) for n, b in outputs.items() if isinstance(b, Bounded))


def _part(outputs: Mapping[str, Any]) -> float:
    return 1 - float(np.mean(np.concatenate([b.vacuous.ravel() for _, b in _floats(outputs)])))


def drawn() -> tuple[list[Deep], list[Deep]]:
    """The first twenty of the draw of whose outputs intervals alone exclude nothing, and those before that they do."""
    counted: list[Deep] = []
    apart: list[Deep] = []
    for d in deep.read():
        if len(counted) < deep.COUNT:
            (apart if by_intervals(d.model()) else counted).append(d)
    return counted, apart


def main(words: Sequence[str]) -> None:
    """Print the table, and the time that each row took."""
    print("| model | says something, by intervals | followed | radius, of the largest element | ended early |")
    print("|---|---|---|---|---|")
    if "--draw" not in words:
        for name in words or models.names():
            _print(measured(name))
        return
    counted, apart = drawn()
    chosen = [d for d in counted if d.id in words or len(words) == 1]
    for d in chosen:
        _print(measured_model(f"{d.id} {d.variant}", d.model()))
    print("counted apart, because intervals say something:", ", ".join(d.id for d in apart) or "none")


def _print(row: Row) -> None:
    print(row, flush=True)
    print(f"{row.model}: {row.seconds[0]:.2f} s, then {row.seconds[1]:.2f} s", file=sys.stderr, flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
