"""Running Python code that a user brings: passes, tables, engines, backends and functions for externs (specs/verify.md,
"Optional passes").

    with foreign(lambda raised: Invalid(f"{name} raised {raised}", label="passes.C4")):
        made = own(module)

Such code may raise, print or end whatever it likes. Here alone it is turned into a labelled failure.
"""

from __future__ import annotations

import pkgutil
import sys
import traceback
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, redirect_stdout, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from assay.semantics.errors import AssayError, EnvironmentFailure, Invalid, Trap, Unpredictable
from assay.verify.app.spending import Stop, Terminated

if TYPE_CHECKING:
    from assay.interp.values import Value

INTERRUPTS: tuple[type[BaseException], ...] = (KeyboardInterrupt, Stop, Terminated)
"""What ends a command from outside of the code that happens to run."""
REFUSALS: tuple[type[AssayError], ...] = (Invalid, EnvironmentFailure)
"""Failures of Assay that say by themselves what is wrong."""


PLACE = 120
"""Characters of a place at most: functions of C++ have names of any length."""


@dataclass(frozen=True)
class Raised:
    """What strange code raised. As a text it is the class, and what the exception says where that can be had, in one
    line."""

    error: BaseException

    def __str__(self) -> str:
        return self._named(" ".join(self._text.split()))

    @property
    def kind(self) -> str:
        """The name of the exception's class."""
        return type(self.error).__name__

    @property
    def first_line(self) -> str:
        """The class, and the first line of what the exception says."""
        lines = self._text.strip().splitlines()
        return self._named(lines[0] if lines else "")

    @property
    def _text(self) -> str:
        with suppress(Exception, SystemExit, GeneratorExit):  # its text is strange code too
            return str(self.error)
        return ""

    def _named(self, text: str) -> str:
        return f"{self.kind}: {text}" if text else self.kind

    def place_in(self, package: str) -> str:
        """The last place in a package's own code that the exception came through, as `file.py:14 in function`; where
        there is none, the last one in the code of anybody but Assay; "" where there is none either."""
        others = owns = ""
        for frame, line in traceback.walk_tb(self.error.__traceback__):
            top = str(frame.f_globals.get("__name__", "")).partition(".")[0]
            place = f"{Path(frame.f_code.co_filename).name}:{line} in {frame.f_code.co_name}"[:PLACE]
            if top == package:
                owns = place
            elif top != "assay":
                others = place
        return owns or others


@contextmanager
def foreign(
    refused: Callable[[Raised], AssayError], passing: tuple[type[AssayError], ...] = REFUSALS
) -> Iterator[None]:
    """What is raised in here, but an interrupt and `passing`, is the failure that `refused` makes of it; `sys.exit`
    too. What is printed goes to standard error, for standard output may have to be one JSON object."""
    try:
        with redirect_stdout(sys.stderr):
            yield
    except (*INTERRUPTS, *passing):
        raise
    except BaseException as wrong:
        raise refused(Raised(wrong)) from wrong


def python_object(what: str, place: str) -> Any:
    """The Python object at MODULE:NAME, its module imported as Python would from the working directory. Invalid, which
    says `what` named it: it is not there, or its module cannot be imported."""
    with foreign(lambda raised: Invalid(f"{what}: {raised}", label="cli.C4")), _from_here():
        try:
            return pkgutil.resolve_name(place)
        except (ImportError, AttributeError, SyntaxError, ValueError, TypeError) as wrong:
            raise Invalid(f"{what}: {' '.join(str(wrong).split())}", label="cli.C4") from None


@contextmanager
def _from_here() -> Iterator[None]:
    """Modules of the working directory can be imported."""
    before = list(sys.path)
    sys.path.insert(0, str(Path.cwd()))
    try:
        yield
    finally:
        sys.path[:] = before


def load_externs(named: Iterable[str], option: str = "--extern") -> dict[str, Callable[..., Value]]:
    """The functions of `NAME=MODULE:FUNCTION` texts by name; NAME= may be left out where FUNCTION is called so.

    The module is imported as Python would from the working directory, so its code runs. Invalid where it or the
    function is not there."""
    found: dict[str, Callable[..., Value]] = {}
    for text in named:
        name, equals, place = text.rpartition("=")
        module, colon, path = place.partition(":")
        if not module or not path or not colon or (equals and not name):
            raise Invalid(f"{option} takes MODULE:FUNCTION or NAME=MODULE:FUNCTION, not {text!r}", label="cli.C4")
        value = python_object(f"{option} {text}", place)
        if not callable(value):
            raise Invalid(f"{option} {text}: {path} is {type(value).__name__}, no function", label="cli.C4")
        name = name or path.rpartition(".")[2]
        found[name] = _trapping(name, value)
    return found


def _trapping(name: str, act: Callable[..., Value]) -> Callable[..., Value]:
    """A user's function; what it raises is a trap of the run."""

    def call(*args: Value) -> Value:
        with foreign(
            lambda raised: Trap("extern", f"{name} raised {raised}", label="extern.T1"),
            (*REFUSALS, Trap, Unpredictable),
        ):
            return act(*args)

    return call
