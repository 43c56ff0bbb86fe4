"""Running Python code that a user brings: passes, tables, engines and functions for externs (specs/verify.md, "Optional
passes").

    with foreign(lambda raised: Invalid(f"{name} raised {raised}", label="passes.C4")):
        made = own(module)

Such code may raise, print or end whatever it likes. Here alone it is turned into a labelled failure.
"""

from __future__ import annotations

import pkgutil
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, redirect_stdout, suppress
from pathlib import Path
from typing import Any

from assay.interp.values import Value
from assay.semantics.errors import AssayError, EnvironmentFailure, Invalid, Trap, Unpredictable
from assay.verify.app.spending import Stop, Terminated

INTERRUPTS: tuple[type[BaseException], ...] = (KeyboardInterrupt, Stop, Terminated)
"""What ends a command from outside of the code that happens to run."""
REFUSALS: tuple[type[AssayError], ...] = (Invalid, EnvironmentFailure)
"""Failures of Assay that say by themselves what is wrong."""


@contextmanager
def foreign(refused: Callable[[str], AssayError], passing: tuple[type[AssayError], ...] = REFUSALS) -> Iterator[None]:
    """What is raised in here, but an interrupt and `passing`, is the failure that `refused` makes of its class and
    text, in one line; `sys.exit` too. What is printed goes to standard error, for standard output may have to be one
    JSON object."""
    try:
        with redirect_stdout(sys.stderr):
            yield
    except (*INTERRUPTS, *passing):
        raise
    except BaseException as wrong:  # noqa: BLE001  it is not our code, and may raise anything
        raise refused(_in_one_line(wrong)) from None


def _in_one_line(wrong: BaseException) -> str:
    """The class of an exception, and its text where it has one that can be had."""
    text = ""
    with suppress(Exception, SystemExit, GeneratorExit):
        text = " ".join(str(wrong).split())
    return f"{type(wrong).__name__}: {text}" if text else type(wrong).__name__


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
