"""The documents: their tables render, their links lead somewhere, and a reference to a chapter's section is a link."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

from tests.places import ROOT

LINK = re.compile(r"\[[^\]\n]+\]\(([^)\s]+)\)")
PLAIN = re.compile(r'(?:\bchapter \w+|specs/\w+\.md), "|\bdesign, (?:section )?\d|\bissue \d\b')
"""References that a reader cannot follow: sections that are no links, and lists that are not in the project."""


def documents(root: Path) -> Iterator[Path]:
    """The documents that people read: at the top, and under specs/."""
    yield from (p for p in sorted(root.glob("*.md")) if p.name != "CHANGELOG.md")
    yield from sorted((root / "specs").rglob("*.md"))


def prose(page: Path) -> str:
    """A page without its code blocks; as many lines as the page."""
    text = page.read_text(encoding="utf-8")
    return re.sub(r"^```.*?^```", lambda m: "\n" * m.group().count("\n"), text, flags=re.MULTILINE | re.DOTALL)


def anchors(page: Path) -> set[str]:
    """The anchors that a page says, and those of its headings: lower case, blanks as hyphens, no other signs."""
    heads = re.findall(r"^#+ (.+?)\s*$", prose(page), re.MULTILINE)
    named = re.findall(r'<a id="([^"]+)"></a>', prose(page))
    return {*named, *(re.sub(r"[^\w\- ]", "", h.lower()).replace(" ", "-") for h in heads)}


def table_faults(page: Path) -> list[str]:
    """Tables that are shown as text: without a line under the head, glued to a paragraph, or with rows of other
    widths."""
    lines = prose(page).splitlines()
    faults: list[str] = []
    at = 0
    while at < len(lines):
        stop = at
        while stop < len(lines) and lines[stop].lstrip().startswith("|"):
            stop += 1
        if block := lines[at:stop]:
            widths = {len(re.split(r"(?<!\\)\|", line.strip())) for line in block}
            ruled = len(block) > 1 and re.fullmatch(r"\|[\s:|-]+\|", block[1].strip())
            if not ruled or len(widths) > 1 or (at and lines[at - 1].strip()):
                faults.append(f"{page.name}:{at + 1}: this table does not render")
        at = stop + 1
    return faults


def link_faults(page: Path) -> list[str]:
    """Links to a file or heading that is not there; references to sections that are no links."""
    faults: list[str] = []
    text = prose(page)
    for found in LINK.finditer(text):
        file, _, anchor = found.group(1).partition("#")
        if ":" in file:
            continue
        target = (page.parent / file) if file else page
        line = text.count("\n", 0, found.start()) + 1
        if not target.exists():
            faults.append(f"{page.name}:{line}: there is no {file}")
        elif anchor and anchor not in anchors(target):
            faults.append(f"{page.name}:{line}: {target.name} has no heading #{anchor}")
    bare = LINK.sub(lambda m: "." * len(m.group()), text)
    faults += [
        f"{page.name}:{bare.count(chr(10), 0, m.start()) + 1}: {m.group()!r} is no link" for m in PLAIN.finditer(bare)
    ]
    return faults


def path_faults(page: Path, root: Path) -> list[str]:
    """Files and folders that are named and not there; the pages of rows and faults name tests from tests/ on."""
    named = re.findall(r"`((?:semantics|interp|lower|verify|tests|specs)/[\w/.*-]*)`", prose(page))
    return [f"{page.name}: there is no {n}" for n in named if not [*root.glob(n), *(root / "tests").glob(n)]]


def test_paths_are_there() -> None:
    assert [f for page in documents(ROOT) for f in path_faults(page, ROOT)] == []


def test_planted_paths_are_found(tmp_path: Path) -> None:
    (tmp_path / "lower").mkdir()
    (tmp_path / "lower" / "anf.py").touch()
    page = tmp_path / "page.md"
    page.write_text("`lower/anf.py`, `lower/*.py`, `lower/<stage>`\n```\n`lower/gone.py`\n```\n")
    assert path_faults(page, tmp_path) == []
    page.write_text("`lower/gone.py` and `lower/anf.py`")
    assert path_faults(page, tmp_path) == ["page.md: there is no lower/gone.py"]


def test_tables_render() -> None:
    assert [f for page in documents(ROOT) for f in table_faults(page)] == []


def test_references_lead_somewhere() -> None:
    assert [f for page in documents(ROOT) for f in link_faults(page)] == []


def bare_rules(page: Path) -> list[str]:
    """Numbered rules that no link can lead to, or that share a number with another of the page."""
    found = re.findall(r'^- (?:<a id="([^"]*)"></a>)?(?:\*\*)?([A-Z]\d+(?:\.\d+)?[a-z]?)\b', prose(page), re.MULTILINE)
    numbers = [number for _, number in found]
    return [f"{page.name}: {n}" for anchor, n in found if anchor != n.lower() or numbers.count(n) > 1]


def test_rules_have_anchors() -> None:
    for name in ("semantics.md", "interp.md", "vm.md"):
        assert bare_rules(ROOT / "specs" / name) == []


def test_a_planted_rule_without_an_anchor_is_found(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text('- <a id="b1"></a>B1 One.\n- B2 Two.\n- <a id="b4"></a>B3 Three.\n- text\n')
    assert bare_rules(page) == ["page.md: B2", "page.md: B3"]


def test_planted_tables_are_found(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    good = "| a | b |\n| --- | --- |\n| 1 | 2 \\| 3 |\n"
    page.write_text(f"Text.\n\n{good}\n```\n| no table\n```\n")
    assert table_faults(page) == []
    for bad in (
        "| a | b | |---|---| | 1 | 2 |\n",
        f"Text.\n{good}",
        good + "| 1 | 2 | 3 |\n",
        "| a | b |\n| 1 | 2 |\n",
    ):
        page.write_text(bad)
        assert len(table_faults(page)) == 1, bad


def test_planted_references_are_found(tmp_path: Path) -> None:
    (tmp_path / "other.md").write_text("# M2 Graph `IR`\n")
    page = tmp_path / "page.md"
    page.write_text('# Here\n[a](other.md), [b](other.md#m2-graph-ir), [c](#here), [chapter x, "y"](other.md)\n')
    assert link_faults(page) == []
    for bad in ("[a](gone.md)", "[b](other.md#gone)", "[c](#gone)", 'chapter lower, "anf"', "(design, 2)", "issue 2"):
        page.write_text(bad)
        assert len(link_faults(page)) == 1, bad
