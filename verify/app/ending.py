"""How a command ends that did not end by itself: one line, and the exit code (specs/verify.md, "Command line")."""

from __future__ import annotations

import signal
import sys
import traceback
from pathlib import Path

from assay.semantics.errors import AssayError, Crash
from assay.semantics.files import SURROUNDINGS
from assay.verify.app.answers import unfinished, write_failure
from assay.verify.app.spending import Terminated
from assay.verify.app.terminal import Screen
from assay.verify.exits import Exit, of_error


def fail(wrong: BaseException) -> Exit:
    """Say in one line what has ended the command; its exit code."""
    text, code = described_end(wrong)
    if "--json" in sys.argv[1:] and getattr(wrong, "label", "") != "output.C6":
        write_failure(wrong, text, code)
    Screen(stderr=True).print(f"assay: {text}")
    return code


def last_words(wrong: BaseException) -> None:
    """What is said where the process ends at once, with what was found so far."""
    wrong.__dict__.setdefault("answer", unfinished())
    fail(wrong)


def described_end(wrong: BaseException) -> tuple[str, Exit]:
    """What a person is told of what has ended a command, and the exit code."""
    ours = "this is a fault in Assay, please report it"
    match wrong:
        case Crash():
            return f"{ours}: {wrong}", Exit.FAULT
        case AssayError():
            return str(wrong), of_error(wrong)
        case MemoryError():
            return "not enough memory", of_error(wrong)
        case Terminated(number=signal.SIGINT) | KeyboardInterrupt():
            return "interrupted", Exit.INTERRUPTED
        case Terminated():
            return f"ended by {wrong}", Exit.TERMINATED
        case OSError() if wrong.errno in SURROUNDINGS:
            return f"{wrong.strerror}{f': {wrong.filename}' if wrong.filename else ''}", Exit.ENVIRONMENT
        case _:  # the last resort: a person gets a line, not a traceback
            frame = traceback.extract_tb(wrong.__traceback__)[-1]
            at = f"{Path(frame.filename).name}:{frame.lineno}"
            return f"{ours}: {type(wrong).__name__} at {at}: {wrong}", Exit.FAULT
