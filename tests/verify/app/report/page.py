"""A page as the tests read it: its rows, its shapes and its links, by Python's own parser of HTML."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from html.parser import HTMLParser

VOID = {"meta", "br", "path", "rect", "img", "input"}


@dataclass
class Shape:
    """A path of a picture: its attributes, the words of its title, and the class of the picture that it is in."""

    attrs: dict[str, str]
    plot: str
    title: str = ""

    @property
    def classes(self) -> list[str]:
        return self.attrs.get("class", "").split()


@dataclass
class Read:
    """What a page holds. `rows` are the texts of cells by the row's id, or by its first cell where it has none."""

    rows: dict[str, list[str]] = field(default_factory=dict)
    shapes: list[Shape] = field(default_factory=list)
    tags: Counter[str] = field(default_factory=Counter)
    attrs: list[tuple[str, str, str]] = field(default_factory=list)
    words: list[tuple[str, str]] = field(default_factory=list)

    @property
    def text(self) -> str:
        """All that can be read."""
        return "".join(words for _, words in self.words)

    def section(self, ident: str) -> str:
        """What can be read in the section of a name."""
        return "".join(words for section, words in self.words if section == ident)

    def shape(self, ident: str) -> Shape:
        (found,) = (s for s in self.shapes if s.attrs.get("id") == ident)
        return found


class _Parser(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.read = Read()
        self.cells: list[str] | None = None
        self.row = ""
        self.plot = ""
        self.inside: list[str] = []
        self.section = ""

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = {k: v or "" for k, v in attrs}
        self.read.tags[tag] += 1
        self.read.attrs += [(tag, k, v) for k, v in given.items()]
        match tag:
            case "tr":
                self.cells, self.row = [], given.get("id", "")
            case "td" | "th":
                assert self.cells is not None
                self.cells.append("")
            case "svg" if "plot" in given.get("class", "").split():
                self.plot = given["class"]
            case "path":
                self.read.shapes.append(Shape(given, self.plot))
            case "section":
                self.section = given.get("id", "")
        if tag not in VOID:
            self.inside.append(tag)

    def handle_endtag(self, tag: str) -> None:
        if tag == "tr" and self.cells is not None:
            self.read.rows[self.row or self.cells[0]] = self.cells
            self.cells = None
        if tag in self.inside:
            while self.inside.pop() != tag:
                pass

    def handle_data(self, data: str) -> None:
        where = self.inside[-1] if self.inside else ""
        if where == "title" and self.read.shapes:
            self.read.shapes[-1].title += data
        elif where not in ("script", "style"):
            self.read.words.append((self.section, data))
            if self.cells:
                self.cells[-1] += data


def read(page: str) -> Read:
    """The contents of a page."""
    parser = _Parser()
    parser.feed(page)
    parser.close()
    return parser.read
