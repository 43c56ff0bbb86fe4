"""How much the bounds of the zoo's outputs exclude, by intervals alone and with errors followed (specs/verify.md,
"Errors that are followed").

    python -m tests.zoo.bounds [MODEL ...]
"""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from assay.interp import graph
from assay.semantics.bounds import Bounded
from assay.verify.backends import subject_of_model
from assay.verify.oracle import Expected
from assay.verify.oracle.walk import BoundedRun
from tests.zoo import models


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
    """The row of a model on ordinary inputs."""
    model = models.model(name)
    module, inputs = subject_of_model(model).module, models.inputs(model)
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


def _floats(outputs: Mapping[str, Any]) -> Iterator[tuple[str, Bounded]]:
    return ((n, b) for n, b in outputs.items() if isinstance(b, Bounded))


def _part(outputs: Mapping[str, Any]) -> float:
    return 1 - float(np.mean(np.concatenate([b.vacuous.ravel() for _, b in _floats(outputs)])))


def main(names: Sequence[str]) -> None:
    """Print the table, and the time that each row took."""
    print("| model | says something, by intervals | followed | radius, of the largest element | ended early |")
    print("|---|---|---|---|---|")
    for name in names or models.names():
        row = measured(name)
        print(row, flush=True)
        print(f"{name}: {row.seconds[0]:.2f} s, then {row.seconds[1]:.2f} s", file=sys.stderr, flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
