"""The process in which an isolated backend runs: `python -m assay.verify.backends.child` (specs/verify.md, "Backends").

It reads requests from its standard input and writes answers to its standard output, as `assay.verify.backends.channel`
says. What the backend prints goes to the standard error.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any

import onnx

from assay.lower.frontends.onnx.data_files import DataFile, mapped_file
from assay.lower.frontends.onnx.outside import size_of
from assay.semantics.errors import EnvironmentFailure, Invalid, Trap, Unsupported
from assay.semantics.files import on_disk
from assay.verify.backends import Backend, backend
from assay.verify.backends.channel import HEAD, Garbled, lengths, packed, unpack
from assay.verify.backends.in_process import InProcess
from assay.verify.backends.protocol import Crashed, Prepared, UnreadSubject, call_prepared
from assay.verify.backends.registry import of_ours
from assay.verify.oracle.declarations import EVERYTHING_KEPT, Accepts

KEPT = 16
"""How many programs stay prepared."""
MOST = 128 << 20
"""Bytes of their models beside the one that is prepared last: a session takes some times as much."""
LONGEST = 10_000
"""Characters of a text that says why something failed."""


def main() -> None:
    """Answer requests on standard input until it ends; what backends print goes to standard error."""
    with os.fdopen(os.dup(0), "rb") as requests, os.fdopen(os.dup(1), "wb") as answers:
        os.dup2(2, 1)
        answer_requests(requests, answers)


@dataclass(frozen=True)
class Readied:
    """A program that stays prepared: by the backend of a name, of a model of so many bytes, of which some are in
    files."""

    name: str
    run: Prepared
    size: int
    files: Sequence[DataFile]


@dataclass
class Served:
    """What the process holds: backends by name, and programs that stay prepared."""

    backends: dict[str, Backend] = field(default_factory=dict)
    prepared: dict[int, Readied] = field(default_factory=dict)

    def backend(self, name: str) -> Backend:
        """The backend of that name; one of another package is held to the protocol."""
        if name not in self.backends:
            ours = of_ours(name)
            self.backends[name] = InProcess(backend(name)) if ours is None else ours
        return self.backends[name]


def answer_requests(requests: IO[bytes], answers: IO[bytes]) -> None:
    """Answer one request after another until there are no more."""
    served = Served()
    while head := requests.read(HEAD.size):
        request = unpack(*map(requests.read, lengths(head, sys.maxsize)))
        try:
            parts = packed(("done", handle(request, served)))
        except Exception as wrong:  # noqa: BLE001  (the parent says whose fault it is)
            parts = packed(answer_of(wrong))
        answers.writelines(parts)
        answers.flush()
        del request, parts


def answer_of(wrong: Exception) -> tuple[str | bool, ...]:
    """What is said of a request that failed."""
    match wrong:
        case Crashed():
            return "crashed", wrong.message[:LONGEST], wrong.raised[:LONGEST], wrong.place[:LONGEST]
        case Trap():
            return "trap", wrong.kind[:LONGEST], wrong.message[:LONGEST]
        case Invalid():
            return "invalid", wrong.message[:LONGEST], wrong.label, isinstance(wrong, Unsupported)
        case Garbled():
            return "invalid", f"the backend gives what does not cross: {wrong}", "backend.C7", True
        case MemoryError():
            return (
                "invalid",
                f"the process of the backend has not enough memory: {wrong}"[:LONGEST],
                "backend.C11",
                True,
            )
        case EnvironmentFailure():
            return "environment", wrong.message[:LONGEST], wrong.label
    return "crash", f"{type(wrong).__name__}: {wrong}"[:LONGEST]


def handle(request: tuple[Any, ...], served: Served) -> Any:
    """Do one request: tell what a backend declares, prepare one, or run a prepared one; None for a number that is not
    prepared any more."""
    match request:
        case ("hello",):
            return None
        case ("describe", name):
            accepts: Accepts = getattr(served.backend(name), "accepts", EVERYTHING_KEPT)
            return {"accepts": accepts.by_name}
        case ("prepare", number, name, data, dims, wanted, paths, text, original, values):
            with on_disk():
                files = [mapped_file(Path(path)) for path in paths]
            model = onnx.load_model_from_string(data)
            size = size_of(model) + len(original)
            kept = served.prepared
            while len(kept) >= KEPT or (kept and sum(k.size for k in kept.values()) + size > MOST):
                del kept[next(iter(kept))]
            run = served.backend(name).prepare(UnreadSubject(model, dims, text, original, values), wanted)
            kept[number] = Readied(name, run, size, files)
            return None
        case ("run", number, inputs):
            if number not in served.prepared:
                return None
            one = served.prepared[number]
            return call_prepared(one.name, one.run, inputs, crossing=True)


if __name__ == "__main__":
    main()
