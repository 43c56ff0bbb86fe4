"""Backends of another package, as its author would write them: each raises, or gives, in a way of its own."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

import assay


class NotYet(Exception):
    """This package's own word for what it cannot."""


class RunFailed(Exception):
    """This package's own word for a program that fails."""


class Stranger:
    """Adds one to x, or does as `work` says."""

    refuses: Any = NotYet
    traps: Any = (RunFailed,)

    def __init__(self, work: Callable[[], Any] = lambda: None, name: str = "stranger") -> None:
        self.name, self.work, self.ran = name, work, 0

    def prepare(self, subject: Any, wanted: Sequence[str]) -> Callable[[Mapping[str, Any]], Any]:
        if list(wanted) != [o.name for o in subject.model.graph.output]:
            raise NotImplementedError("no intermediate tensors")
        return self.run

    def run(self, inputs: Mapping[str, Any]) -> dict[str, Any]:
        self.ran += 1
        self.work()
        return {"y": np.take(inputs["x"], inputs["i"])}


def raising(wrong: BaseException | type[BaseException]) -> Callable[[], Any]:
    def work() -> Any:
        raise wrong

    return work


def goes_on_unheard() -> None:
    """Closes all that it has been given, and goes on."""
    os.closerange(0, 100)
    time.sleep(600)


WAYS: dict[str, Callable[[], Any]] = {
    "not_implemented": raising(NotImplementedError("no Gather")),
    "not_yet": raising(NotYet("no Gather")),
    "trap": raising(assay.Trap("out of bounds", "an index")),
    "other_trap": raising(assay.Trap("cast", "a number")),
    "trap_of_no_kind": raising(assay.Trap("", "an index")),
    "run_failed": raising(RunFailed("an index")),
    "crash": raising(AssertionError("of the compiler")),
    "exit": raising(SystemExit("enough")),
    "hard_exit": lambda: os._exit(7),
    "unheard": goes_on_unheard,
    "right": lambda: None,
}


def way(name: str) -> Stranger:
    return Stranger(WAYS[name], name)
