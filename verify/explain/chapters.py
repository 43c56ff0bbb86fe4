"""The chapters as data: headings, numbered rules and rows of tables, each with its text (specs/verify.md, "explain").

The chapters stand beside the rooms: in a checkout as `specs/`, in an installation as `assay/specs`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from assay.semantics.errors import EnvironmentFailure

CHAPTERS = ("semantics", "interp", "lower", "verify", "vm", "glossary")
"""The pages that are looked through for headings, rules and rows."""
GUIDES = "guides"
"""The folder of pages that are shown as a whole, by their titles."""
HEADING = re.compile(r"^(#+) (.+?)\s*$")
RULE = re.compile(r'^- (?:<a id="[^"]*"></a>)?(?:\*\*)?([A-Z]\d+(?:\.\d+)?[a-z]?)\b')
PARAGRAPH = re.compile(r"^\*\*([A-Z]\d+)\b")
ROW = re.compile(r"^\|(.+)\|\s*$")


@dataclass(frozen=True)
class Passage:
    """A piece of a chapter: what it is ("section", "rule", "row"; "guide": a whole page), by which name, where, and its
    Markdown."""

    kind: str
    name: str
    page: str
    anchor: str
    text: str

    @property
    def where(self) -> str:
        """The place in the project, such as specs/semantics.md#m7.2."""
        return f"specs/{self.page}" + (f"#{self.anchor}" if self.anchor else "")


def chapters_folder() -> Path:
    """The folder of the chapters. EnvironmentFailure (explain.C2): this installation has none."""
    found = Path(__file__).resolve().parents[2] / "specs"
    if not (found / "semantics.md").is_file():
        raise EnvironmentFailure("this installation has no chapters: assay/specs is missing", label="explain.C2")
    return found


def page_text(name: str) -> str:
    """The text of a page below specs/; "" where it is not there."""
    path = chapters_folder() / name
    return path.read_text(encoding="utf-8") if path.is_file() else ""


@cache
def passages() -> tuple[Passage, ...]:
    """All pieces of all chapters, in their order."""
    found: list[Passage] = []
    for chapter in CHAPTERS:
        lines = page_text(f"{chapter}.md").splitlines()
        found += _sections(f"{chapter}.md", lines)
        found += _rules(f"{chapter}.md", lines)
        found += _rows(f"{chapter}.md", lines)
    for path in sorted((chapters_folder() / GUIDES).glob("*.md")):
        text = path.read_text(encoding="utf-8")
        title = text.partition("\n")[0].removeprefix("# ")
        found.append(Passage("guide", title, f"{GUIDES}/{path.name}", "", text))
    return tuple(found)


def anchor_of(heading: str) -> str:
    """The anchor of a heading where a page is shown: lower case, blanks as hyphens, no other signs."""
    return re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-")


def _headings(lines: list[str]) -> Iterator[tuple[int, int, str]]:
    """Line, depth and text of each heading; code is left out."""
    code = False
    for i, line in enumerate(lines):
        code ^= line.startswith("```")
        if not code and (found := HEADING.match(line)):
            yield i, len(found.group(1)), found.group(2)


def _sections(name: str, lines: list[str]) -> Iterator[Passage]:
    heads = list(_headings(lines))
    for k, (start, depth, text) in enumerate(heads):
        stop = next((i for i, d, _ in heads[k + 1 :] if d <= depth), len(lines))
        if depth > 1:
            yield Passage("section", text, name, anchor_of(text), "\n".join(lines[start:stop]))


def _rules(name: str, lines: list[str]) -> Iterator[Passage]:
    """Items and paragraphs that begin with a number, each to its end."""
    under = ""
    heads = {i: text for i, _, text in _headings(lines)}
    for i, line in enumerate(lines):
        under = heads.get(i, under)
        if found := RULE.match(line):
            stop = next(
                (k for k in range(i + 1, len(lines)) if not lines[k].startswith("  ") or not lines[k].strip()), None
            )
        elif found := PARAGRAPH.match(line):
            stop = next((k for k in range(i + 1, len(lines)) if not lines[k].strip()), None)
        else:
            continue
        number = found.group(1)
        anchor = number.lower() if "<a id=" in line else anchor_of(under)
        yield Passage("rule", number, name, anchor, "\n".join(lines[i:stop]).replace(f'<a id="{anchor}"></a>', ""))


def _rows(name: str, lines: list[str]) -> Iterator[Passage]:
    """Rows of tables by the words of their first cell, each as a list of what the columns say."""
    under = ""
    heads = {i: text for i, _, text in _headings(lines)}
    for i, line in enumerate(lines):
        under = heads.get(i, under)
        if not ROW.match(line) or i < 2:
            continue
        top = i
        while top and ROW.match(lines[top - 1]):
            top -= 1
        if i < top + 2:
            continue
        heads_of, cells = ([c.strip() for c in re.split(r"(?<!\\)\|", one)[1:-1]] for one in (lines[top], line))
        cell = cells[0]
        said = [f"- {head}: {c}" if head else f"- {c}" for head, c in zip(heads_of, cells, strict=False) if c]
        for word in dict.fromkeys([cell, *cell.split(", ")]):
            plain = word.strip("` *")
            if plain:
                yield Passage("row", plain, name, anchor_of(under), "\n".join(said))
