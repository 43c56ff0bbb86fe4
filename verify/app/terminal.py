"""What is printed, and where to (specs/verify.md, "Command line").

with streams(): ...        # a full or closed standard output is an EnvironmentFailure
Screen().print(text)       # what strangers wrote, cut, and without control characters
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, TextIO

from rich.console import Console
from rich.segment import Segment
from rich.text import Text

from assay.semantics.errors import EnvironmentFailure

LONGEST = 2_000
"""Characters of a message that are shown; a longer one is cut in the middle."""
NARROWEST, WIDEST = 20, 10_000


def printable(text: object, most: int = LONGEST) -> str:
    """A text for people: cut where it is long, and what is not printable as its escape. Names of files, models and
    tensors, and what backends say, come from strangers: none may fill the screen, or steer the terminal."""
    whole = str(text)
    if len(whole) > most:
        left = len(whole) - most
        whole = f"{whole[: most * 3 // 4]} ... ({left} characters more) ... {whole[-(most // 4) :]}"
    return printable_text(whole)


def printable_text(text: str) -> str:
    """A text with what is not printable, but ends of lines, as its escape."""
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() or c == "\n" else c.encode("unicode_escape").decode("ascii") for c in text)


class Screen(Console):
    """A console on which what strangers wrote is a text and nothing else: `print` takes lines, which it cuts, and no
    control character gets out of whatever is printed, tables too. A text stays as it is: a place such as `m.py:100:5`
    has no name of an emoji in it."""

    def __init__(self, **options: Any) -> None:
        super().__init__(**{"emoji": False, **options})

    def print(self, *objects: Any, **options: Any) -> None:
        """Print lines or renderables; text is escaped and cut, and never read as markup."""
        lines = [Text(printable(o)) if isinstance(o, str) else o for o in objects]
        super().print(*lines, **{"soft_wrap": isinstance(objects[0], str) if objects else None, **options})

    def render(self, renderable: Any, options: Any = None) -> Iterator[Segment]:
        """Render, with every character that cannot be printed escaped."""
        for part in super().render(renderable, options):
            plain = part.control or part.text.isprintable()
            yield part if plain else Segment(printable_text(part.text), part.style)


def cell(text: object, style: str = "") -> Text:
    """What strangers wrote, as a cell of a table."""
    return Text(printable(text), style)


class Stream:
    """A standard stream whose failures are said: `write` and `flush` raise EnvironmentFailure (output.C6) where it is
    full or closed, or nothing where `silent` (there is no place left to say it). The rest is the stream's own."""

    def __init__(self, inner: TextIO | None, *, silent: bool = False) -> None:
        self.there = inner is not None
        self.inner: Any = inner if inner is not None else open(os.devnull, "w", encoding="utf-8")
        self.silent = silent
        self.failed = False
        if getattr(self.inner, "errors", "") in ("strict", "surrogateescape") and hasattr(self.inner, "reconfigure"):
            self.inner.reconfigure(errors="backslashreplace")

    def write(self, text: str) -> int:
        """Write a text; EnvironmentFailure if the stream cannot be written to."""
        self._try(lambda: self.inner.write(text))
        return len(text)

    def writelines(self, lines: Any) -> None:
        """Write lines, as one text."""
        self.write("".join(lines))

    def flush(self) -> None:
        """Flush; EnvironmentFailure if the stream cannot be written to."""
        self._try(self.inner.flush)

    def _try(self, act: Any) -> None:
        if self.failed:
            return
        try:
            if not self.there or self.inner.closed:
                raise OSError("it is closed")
            act()
        except OSError as wrong:
            self.failed = True
            if not self.silent:
                why = "nobody reads it any more" if isinstance(wrong, BrokenPipeError) else wrong.strerror or wrong
                raise EnvironmentFailure(f"cannot write to the standard output: {why}", label="output.C6") from None

    def encodes(self, text: str) -> bool:
        """Whether all of a text has characters here."""
        try:
            text.encode(self.inner.encoding or "utf-8")
        except UnicodeEncodeError:
            return False
        return True

    def __getattr__(self, name: str) -> Any:
        return getattr(self.inner, name)


@contextmanager
def streams() -> Iterator[None]:
    """Standard output and error as `Stream`s, and a width that something fits into. What is left is written at the end:
    EnvironmentFailure (output.C6) where it cannot be."""
    for name in ("COLUMNS", "LINES"):
        said = os.environ.get(name, "")
        if said.isdecimal() and not NARROWEST <= (int(said) if len(said) < 10 else WIDEST + 1) <= WIDEST:
            del os.environ[name]  # 0 would print nothing, a billion a billion spaces
    _fill_descriptors()
    before = sys.stdout, sys.stderr
    out = Stream(sys.stdout)
    sys.stdout, sys.stderr = out, Stream(sys.stderr, silent=True)
    try:
        yield
        out.flush()
    finally:
        sys.stdout, sys.stderr = before
        if out.failed and out.inner is sys.__stdout__ and sys.__stdout__ is not None:
            _to_nowhere(sys.__stdout__)


def _fill_descriptors() -> None:
    """Where 0, 1 or 2 is closed, no file that is opened later may get that number, and be taken for a standard
    stream."""
    handle = os.open(os.devnull, os.O_RDWR)
    while handle <= 2:
        os.set_inheritable(handle, True)
        handle = os.open(os.devnull, os.O_RDWR)
    os.close(handle)


def _to_nowhere(stream: TextIO) -> None:
    """What is left in a stream's buffer must not fail again when Python ends."""
    try:
        os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())
    except (OSError, ValueError):
        return
