"""The process in which an isolated backend runs: `python -m assay.verify.backends.child` (specs/verify.md, "Backends").

It reads requests from its standard input and writes answers to its standard output, each with its length before it. What
the backend prints goes to the standard error.
"""

from __future__ import annotations

import os
import pickle
from typing import IO, Any

import onnx

from assay.semantics.errors import Invalid, Unsupported
from assay.verify.backends import backend, subject_of_model
from assay.verify.backends.isolated import LENGTH
from assay.verify.backends.protocol import Prepared

KEPT = 16
"""How many programs stay prepared."""


def main() -> None:
    with os.fdopen(os.dup(0), "rb") as requests, os.fdopen(os.dup(1), "wb") as answers:
        os.dup2(2, 1)
        serve(requests, answers)


def serve(requests: IO[bytes], answers: IO[bytes]) -> None:
    """Answer one request after another until there are no more."""
    prepared: dict[int, Prepared] = {}
    while size := requests.read(LENGTH):
        request = pickle.loads(requests.read(int.from_bytes(size, "big")))
        try:
            answer: tuple[Any, ...] = ("done", handle(request, prepared))
        except Invalid as wrong:
            answer = ("invalid", wrong.message, wrong.label, isinstance(wrong, Unsupported))
        except Exception as wrong:  # noqa: BLE001  (the parent says whose fault it is)
            answer = ("crash", f"{type(wrong).__name__}: {wrong}")
        data = pickle.dumps(answer, protocol=5)
        answers.write(len(data).to_bytes(LENGTH, "big") + data)
        answers.flush()


def handle(request: tuple[Any, ...], prepared: dict[int, Prepared]) -> Any:
    match request:
        case ("prepare", number, name, data, dims, wanted):
            subject = subject_of_model(onnx.load_model_from_string(data), dims)
            while len(prepared) >= KEPT:
                del prepared[next(iter(prepared))]
            prepared[number] = backend(name).prepare(subject, wanted)
            return None
        case ("run", number, inputs):
            run = prepared.get(number)
            return None if run is None else run(inputs)


if __name__ == "__main__":
    main()
