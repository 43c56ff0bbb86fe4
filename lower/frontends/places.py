"""Words of a text and where they stand, for readers of texts that are not Python's (specs/lower.md, "Import").

A place is an offset in characters; what is wrong there is said with the line, and a caret below.
"""

from __future__ import annotations

from bisect import bisect_right
from itertools import accumulate
from typing import NamedTuple

from assay.semantics.errors import Invalid, Span
from assay.semantics.text.source import Source


class Token(NamedTuple):
    """A word: its kind, its text, and where it starts and ends in the text, in characters."""

    kind: str
    text: str
    start: int
    end: int


class Places:
    """A text whose places are offsets; failures show the line."""

    def __init__(self, source: Source) -> None:
        self.source = source
        self.text = source.text
        self.starts = [0, *accumulate(len(line) + 1 for line in source.lines)]

    def at(self, offset: int) -> tuple[int, int]:
        """Line and column of an offset, both from 1."""
        line = min(bisect_right(self.starts, offset), len(self.source.lines))
        return line, offset - self.starts[line - 1] + 1

    def span(self, offset: int, place: str = "") -> Span:
        """The span of an offset: file, place, line and column."""
        line, column = self.at(offset)
        return Span(self.source.file, place, line, column)

    def failure(self, kind: type[Invalid], start: int, end: int, message: str, label: str) -> Invalid:
        """A failure of the words from `start` to `end`; only the first line of them is shown."""
        line, column = self.at(start)
        last = min(end, self.starts[line] - 1 if line < len(self.starts) else end)
        return self.source.failure(kind, line, column, column + max(last - start, 1), message, label)

    def shown(self, wrong: Invalid, line: int, column: int) -> Invalid:
        """A failure that has a place in this text, with its line and a caret below."""
        return type(wrong)(
            f"{wrong.message}\n{self.source.excerpt(line, column, column + 1)}", where=wrong.where, label=wrong.label
        )


class TokenCursor:
    """A place in a list of words, the last of which is the end."""

    def __init__(self, places: Places, tokens: list[Token]) -> None:
        self.places = places
        self.tokens = tokens
        self.at = 0

    @property
    def next(self) -> Token:
        """The next word, which stays."""
        return self.tokens[self.at]

    def ahead(self, count: int) -> Token:
        """The word `count` places ahead, or the end."""
        return self.tokens[min(self.at + count, len(self.tokens) - 1)]

    def take(self) -> Token:
        """The next word, and go on past it; the end is never passed."""
        token = self.tokens[self.at]
        if token.kind != "end":
            self.at += 1
        return token

    def when(self, text: str) -> bool:
        """Whether the next word is this sign or name; it is taken then."""
        token = self.tokens[self.at]
        if token.text == text and token.kind in ("sign", "name"):
            self.at += 1
            return True
        return False
