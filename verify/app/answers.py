"""The answer of a command as JSON: one object, whatever ends the command (specs/verify.md, "Command line").

Its first key, `format`, says of which command it is; `specs/answers.schema.json` says what each format has.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from assay.verify.exits import Exit

_open: list[dict[str, Any]] = []
_written: list[str] = []
"""What of this command's answers was written: that there is one, not two."""
_begun: list[str] = []
"""The command that runs; nothing where the command line is none."""


def begin(command: str) -> None:
    """A command of this name begins: its answers are of the format `assay-NAME-1`."""
    _begun[:] = [command]


@contextmanager
def answering(answer: dict[str, Any]) -> Iterator[None]:
    """What was found before something ends the work goes with it, for `write_failure`."""
    _open.append(answer)
    try:
        yield
    except BaseException as wrong:
        wrong.__dict__.setdefault("answer", answer)
        raise
    finally:
        _open.remove(answer)


def unfinished() -> dict[str, Any]:
    """The answer that is being worked on."""
    return _open[-1] if _open else {}


def write_answer(answer: Mapping[str, Any]) -> None:
    """The object, on standard output, its format first."""
    _written.append("")
    json.dump({"format": f"assay-{_begun[-1] if _begun else 'error'}-1", **answer}, sys.stdout, indent=1)
    sys.stdout.write("\n")


@contextmanager
def one_answer() -> Iterator[None]:
    """Within this a command ends by an exit code that its words were none that it takes, which was told on standard
    error; the object says so too, unless there is one."""
    _written.clear()
    _begun.clear()
    try:
        yield
    except SystemExit as done:
        if done.code == Exit.UNUSABLE and "--json" in sys.argv[1:] and not _written:
            write_answer({"holds": None, "error": "the command line is none that it takes", "exit": int(done.code)})
        raise


def write_failure(wrong: BaseException, text: str, code: int) -> None:
    """What was found before `wrong` ended the command, with `text` as its "error" and the exit code."""
    found: dict[str, Any] = wrong.__dict__.get("answer", {})
    holds = False if found.get("holds") is False else None
    write_answer({**found, "holds": holds, "error": text, "exit": code})
