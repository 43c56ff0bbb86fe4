"""Exit codes, the same in every command (specs/verify.md, "Command line")."""

from __future__ import annotations

from collections.abc import Iterable
from enum import IntEnum

from assay.semantics.errors import AssayError, Crash, EnvironmentFailure, Invalid, Trap, Unpredictable


class Exit(IntEnum):
    """The exit codes of a command."""

    HOLDS = 0
    """Everything that was asked for holds."""
    WRONG = 1
    """Something does not hold; or a program that was only run has trapped."""
    UNUSABLE = 2
    """The input cannot be used, a backend that is not installed among it."""
    FAULT = 3
    """A fault in Assay."""
    UNKNOWN = 4
    """A proof has neither been found nor refuted."""
    UNDECIDED = 5
    """Nothing known is broken, and not enough is known to say right; or nothing could be compared."""
    ENVIRONMENT = 6
    """The surroundings failed, or a budget is spent."""
    INTERRUPTED = 130
    """By Ctrl-C."""
    TERMINATED = 143
    """By SIGTERM or SIGHUP, and cleaned up."""


_GRAVEST_FIRST = (
    Exit.INTERRUPTED, Exit.TERMINATED, Exit.FAULT, Exit.ENVIRONMENT, Exit.UNUSABLE, Exit.WRONG, Exit.UNKNOWN,
    Exit.UNDECIDED, Exit.HOLDS,
)  # fmt: skip

OF_OUTCOME = {
    "right": Exit.HOLDS,
    "open": Exit.HOLDS,
    "undecided": Exit.UNDECIDED,
    "implausible": Exit.WRONG,
    "wrong": Exit.WRONG,
    "unpredictable": Exit.UNDECIDED,
    "refused": Exit.UNDECIDED,
    "died": Exit.WRONG,
    "late": Exit.WRONG,
}
"""The exit code of each verdict on somebody's run."""


def gravest(codes: Iterable[Exit]) -> Exit:
    """The code of a run of several parts: 3, 6, 2, 1, 4, 5, 0, whichever of them comes first. HOLDS where there are
    none."""
    found = set(codes)
    return next((code for code in _GRAVEST_FIRST if code in found), Exit.HOLDS)


def of_error(error: AssayError | MemoryError) -> Exit:
    """The code of a command that an error ends."""
    match error:
        case Crash():
            return Exit.FAULT
        case EnvironmentFailure() | MemoryError():
            return Exit.ENVIRONMENT
        case Trap():
            return Exit.ENVIRONMENT if error.kind == "memory" else Exit.WRONG
        case Unpredictable():
            return Exit.UNDECIDED
        case Invalid():
            return Exit.UNUSABLE
    return Exit.UNUSABLE
