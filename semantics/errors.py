"""The three failures of rule M1, which never mix, and what nobody can tell (specs/semantics.md, "Observation").

*Invalid* is said before anything runs, *Trap* is a run that fails as the rules say, *Crash* cannot happen.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Span:
    """A place in somebody's source: the file or model, and what in it (a node's name, or line and column)."""

    source: str
    place: str = ""
    line: int = 0
    column: int = 0

    def __str__(self) -> str:
        at = f":{self.line}:{self.column}" if self.line else ""
        return f"{self.source}{at}" + (f" ({self.place})" if self.place else "")


class AssayError(Exception):
    """Base of the three failures.

    `message` says what is wrong and what would be right; `where` says where; `label` names the broken rule, such as
    `concat.C2`, as it stands in specs/.
    """

    def __init__(self, message: str, *, where: Span | str | None = None, label: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.where = where
        self.label = label

    def __str__(self) -> str:
        head = f"{self.where}: " if self.where else ""
        return f"{head}{self.message}" + (f" [{self.label}]" if self.label else "")

    def at(self, where: Span | str | None) -> AssayError:
        """The same failure with a place, unless it has one already."""
        if self.where is None:
            self.where = where
        return self


class Invalid(AssayError):
    """The program or its input is ill-formed; nothing has run."""


class Unsupported(Invalid):
    """Well-formed, but outside what this stage handles yet; the message names the construct and the stage."""


class Unpredictable(AssayError):
    """No useful set of results can be given, for the reason that is said (rule M1.3): neither the program nor the run is
    wrong. A comparison is waived, and that is reported."""


class Trap(AssayError):
    """The run failed as the rules say. `kind` is one of the names listed in specs/semantics.md, "Traps"."""

    def __init__(
        self, kind: str, message: str, *, where: Span | str | None = None, label: str = ""
    ) -> None:
        super().__init__(message, where=where, label=label)
        self.kind = kind

    def __str__(self) -> str:
        return f"trap ({self.kind}): {super().__str__()}"


class Crash(AssayError):
    """A fault in Assay itself: this cannot happen for a valid module."""
