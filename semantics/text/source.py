"""Source texts and what is wrong in them (specs/semantics.md, "Text").

Whatever a person wrote wrongly becomes `Invalid` with a file, a line and a column, and a message that shows the line
with a caret below the place. Every parser of the text format raises through a `Source`:

    source = Source.of(text, "model.py")
    tree = source.parse()                                     # an `ast.Module`; a SyntaxError is Invalid too
    raise source.error(node, "no such name: y", "text.C3")
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import NoReturn

from assay.semantics.digits import MOST
from assay.semantics.errors import Invalid, Span, Unsupported
from assay.semantics.files import read_text

_LONG = re.compile(rf"[0-9a-fA-F_]{{{MOST},}}")

WIDEST = 160
"""Of a longer source line only a part around the place is shown."""


@dataclass(frozen=True)
class Source:
    """A text, line by line, and the name of the file it came from."""

    file: str
    lines: tuple[str, ...]

    @staticmethod
    def of(text: str, file: str = "<text>") -> Source:
        """The source of a text. Only what ends a line for Python ends one here (not form feeds and the like)."""
        return Source(file, tuple(text.replace("\r\n", "\n").replace("\r", "\n").split("\n")))

    @staticmethod
    def read(path: Path) -> Source:
        """The source in a file; Invalid where there is none or it is not UTF-8."""
        try:
            return Source.of(read_text(path, "utf-8-sig"), str(path))
        except OSError as wrong:
            raise Invalid(f"cannot be read: {wrong.strerror or wrong}", where=str(path), label="text.C1") from None
        except UnicodeDecodeError as wrong:
            raise Invalid(f"is not UTF-8 at byte {wrong.start}", where=str(path), label="text.C1") from None

    @property
    def text(self) -> str:
        """The whole text."""
        return "\n".join(self.lines)

    def parse(self) -> ast.Module:
        """The text as Python's tree; Invalid where it is no Python."""
        try:
            tree = ast.parse(self.text, self.file)
        except SyntaxError as wrong:
            line, column = wrong.lineno or 1, max(wrong.offset or 1, 1)
            raise self.failure(Invalid, line, column, column, f"syntax: {wrong.msg}", "text.C2") from None
        except (RecursionError, MemoryError):
            raise Invalid(
                "nested too deeply for Python's parser", where=Span(self.file, "", 1, 1), label="text.C2"
            ) from None
        except ValueError as wrong:  # a NUL byte, a lone surrogate
            raise Invalid(f"syntax: {wrong}", where=Span(self.file, "", 1, 1), label="text.C2") from None
        self.require_numbers(tree)
        return tree

    def require_numbers(self, tree: ast.AST) -> None:
        """Invalid (text.C2): a whole number is so long that Python would not print it."""
        if _LONG.search(self.text):
            for node in ast.walk(tree):
                if isinstance(node, ast.Constant) and type(node.value) is int and node.value.bit_length() > 4 * MOST:
                    raise self.error(node, f"a number of more than {MOST} digits", "text.C2")

    def line(self, number: int) -> str:
        """A line by its number, which starts at 1."""
        return self.lines[number - 1] if 0 < number <= len(self.lines) else ""

    def column(self, line: int, offset: int) -> int:
        """The column, in characters from 1, of a place that `ast` gives in bytes of UTF-8 from 0."""
        return len(self.line(line).encode()[:offset].decode(errors="replace")) + 1

    def span(self, node: ast.AST, place: str = "") -> Span:
        """Where a node stands. `place` may say what it is, such as a function's name."""
        line = getattr(node, "lineno", 1)
        return Span(self.file, place, line, self.column(line, getattr(node, "col_offset", 0)))

    def error(self, node: ast.AST, message: str, label: str) -> Invalid:
        """What to raise for a wrong `node`."""
        return self._at(Invalid, node, message, label)

    def unsupported(self, node: ast.AST, message: str, label: str) -> Unsupported:
        """What to raise for a right `node` that is not handled."""
        failure = self._at(Unsupported, node, message, label)
        assert isinstance(failure, Unsupported)
        return failure

    @contextmanager
    def at(self, node: ast.AST) -> Iterator[None]:
        """Failures inside that have no place get that of `node`, and its line."""
        try:
            yield
        except Invalid as wrong:
            self.locate(wrong, node)

    def locate(self, wrong: Invalid, node: ast.AST) -> NoReturn:
        """Raise `wrong` again, with the place of `node` if it had none."""
        if wrong.where is not None:
            raise wrong
        raise self._at(type(wrong), node, wrong.message, wrong.label) from None

    def _at(self, kind: type[Invalid], node: ast.AST, message: str, label: str) -> Invalid:
        start = self.span(node)
        end_line = getattr(node, "end_lineno", None) or start.line
        end = self.column(end_line, getattr(node, "end_col_offset", None) or 0)
        if end_line != start.line:
            end = len(self.line(start.line).rstrip()) + 1
        if isinstance(node, (ast.FunctionDef, ast.ClassDef, ast.For, ast.While, ast.If, ast.With)):
            end = start.column  # the whole statement would be too much
        return self.failure(kind, start.line, start.column, end, message, label)

    def failure(self, kind: type[Invalid], line: int, column: int, end: int, message: str, label: str) -> Invalid:
        """A failure at columns `column` to `end` of a line, with the line and a caret below."""
        return kind(
            f"{message}\n{self.excerpt(line, column, end)}", where=Span(self.file, "", line, column), label=label
        )

    def excerpt(self, line: int, column: int, end: int) -> str:
        """The line, and below it a caret under `column` and tildes up to `end`."""
        text = self.line(line)
        first = 0
        if len(text) > WIDEST:
            first = max(0, min(column - 1 - WIDEST // 3, len(text) - WIDEST))
        shown = text[first : first + WIDEST]
        at = column - 1 - first
        # a tab stays a tab, so that the caret stands under its place however wide tabs are
        under = "".join("\t" if c == "\t" else " " for c in shown[:at].ljust(at))
        tail = "~" * max(0, min(end - 1 - first, len(shown)) - at - 1)
        return f"    {shown}\n    {under}^{tail}"
