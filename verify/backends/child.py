"""The process in which an isolated backend runs: `python -m assay.verify.backends.child` (specs/verify.md, "Backends").

It reads requests from its standard input and writes answers to its standard output, as `assay.verify.backends.channel`
says. What the backend prints goes to the standard error.
"""

from __future__ import annotations

import os
import sys
from typing import IO, Any

import onnx

from assay.semantics.errors import EnvironmentFailure, Invalid, Unsupported
from assay.verify.backends import BACKENDS, backend, subject_of_model
from assay.verify.backends.channel import HEAD, Garbled, lengths, pack, unpack
from assay.verify.backends.protocol import InProcess, Prepared, call_prepared

KEPT = 16
"""How many programs stay prepared."""


def main() -> None:
    """Answer requests on standard input until it ends; what backends print goes to standard error."""
    with os.fdopen(os.dup(0), "rb") as requests, os.fdopen(os.dup(1), "wb") as answers:
        os.dup2(2, 1)
        answer_requests(requests, answers)


def answer_requests(requests: IO[bytes], answers: IO[bytes]) -> None:
    """Answer one request after another until there are no more."""
    prepared: dict[int, tuple[str, Prepared]] = {}
    while head := requests.read(HEAD.size):
        request = unpack(*map(requests.read, lengths(head, sys.maxsize)))
        try:
            data = pack(("done", handle(request, prepared)))
        except Invalid as wrong:
            data = pack(("invalid", wrong.message, wrong.label, isinstance(wrong, Unsupported)))
        except Garbled as wrong:
            data = pack(("invalid", f"the backend gives what is no array: {wrong}", "backend.C7", False))
        except EnvironmentFailure as wrong:
            data = pack(("environment", wrong.message, wrong.label))
        except Exception as wrong:  # noqa: BLE001  (the parent says whose fault it is)
            data = pack(("crash", f"{type(wrong).__name__}: {wrong}"))
        answers.write(data)
        answers.flush()


def handle(request: tuple[Any, ...], prepared: dict[int, tuple[str, Prepared]]) -> Any:
    """Do one request: prepare a backend, or run a prepared one; None for a number that is not prepared any more."""
    match request:
        case ("prepare", number, name, data, dims, wanted):
            subject = subject_of_model(onnx.load_model_from_string(data), dims)
            while len(prepared) >= KEPT:
                del prepared[next(iter(prepared))]
            which = backend(name) if name in BACKENDS else InProcess(backend(name))
            prepared[number] = name, which.prepare(subject, wanted)
            return None
        case ("run", number, inputs):
            if number not in prepared:
                return None
            name, run = prepared[number]
            return call_prepared(name, run, inputs)


if __name__ == "__main__":
    main()
