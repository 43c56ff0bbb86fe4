"""The pages of the site, before a generator makes HTML of them (specs/verify.md, "Site").

A page of specs/ is taken as it is, but for its links: a link to a file that is no page of the site is text. What is no
Markdown becomes a page: the programs of findings, the cases of devices, and the docstrings of `import assay`.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping
from pathlib import Path, PurePosixPath

from tests.docs.site.surface import surface_page

TOP = {
    "README.md": "index.md",
    "CONTRIBUTING.md": "contributing.md",
    "CHANGELOG.md": "changelog.md",
    "SECURITY.md": "security.md",
    "specs/findings": "findings/index.md",
    "specs/devices": "devices.md",
    "specs/guides": "guides/judge.md",
}
"""Where on the site a file or folder of the project is, if its place does not say so."""

PARTS = {
    "First": ("commands", "tour", "guides/*", "api", "glossary"),
    "The definition": ("semantics", "interp", "lower", "verify", "vm", "grammar", "operators", "labels"),
    "What was found": ("findings/index", "scoreboard", "speed"),
    "The project": ("contributing", "changelog", "security", "rows", "museum", "mutants", "devices"),
}
"""What stands beside every page, under which heading."""

LINK = re.compile(
    r"(?P<code>`+)(?!`).*?(?P=code)|\[(?P<words>(?:[^\[\]`\n]|`[^`\n]*`|\[[^\[\]\n]*\])+)\]\((?P<to>[^)\s]+)\)"
)
ANCHOR = re.compile(r'<a id="([^"]+)"></a>')


def staged(root: Path) -> dict[str, str]:
    """The Markdown of every page of the site, by its place there. `root` is the top of the repository."""
    read = {_home(p.relative_to(root).as_posix()): p for p in _documents(root)}
    texts = {page: p.read_text("utf-8") for page, p in read.items()}
    made = {**_programs(root), "devices.md": _devices(root), "api.md": surface_page()}
    made["findings/index.md"] = _findings(texts)
    named = {page: set(ANCHOR.findall(text)) for page, text in texts.items()}
    known = {*texts, *made}
    for page, path in read.items():
        texts[page] = _linked(texts[page], path.relative_to(root).as_posix(), page, known, named)
    texts["operators.md"] += _toctree(("operators/*",))
    texts["index.md"] += "".join(_toctree(pages, caption) for caption, pages in PARTS.items())
    return {**texts, **made}


def _documents(root: Path) -> Iterator[Path]:
    yield from (root / name for name in TOP if name.endswith(".md") and (root / name).is_file())
    yield from sorted((root / "specs").rglob("*.md"))


def _home(path: str) -> str:
    """Where on the site a path of the project is."""
    path = path.rstrip("/")
    if path in TOP:
        return TOP[path]
    page = path.removeprefix("specs/")
    return page.removesuffix(".py") + ".md" if page.startswith("findings/") and page.endswith(".py") else page


def _toctree(pages: tuple[str, ...], caption: str = "") -> str:
    options = [":hidden:", *([f":caption: {caption}"] if caption else []), *[":glob:"]]
    return "\n\n" + "\n".join(["```{toctree}", *options, "", *(f"/{p}" for p in pages), "```"]) + "\n"


# --- links --------------------------------------------------------------------------------------------------------


def _linked(text: str, path: str, page: str, known: set[str], named: Mapping[str, set[str]]) -> str:
    """A page's text with its links as they are on the site; code is left alone."""

    def link(found: re.Match[str]) -> str:
        to, words = found["to"], found["words"]
        if to is None or ":" in to:
            return found.group()
        file, _, anchor = to.partition("#")
        whole = os.path.normpath(PurePosixPath(path).parent / file) if file else path
        goal = _home(whole)
        if goal not in known:
            return words
        near = os.path.relpath(goal, PurePosixPath(page).parent)
        if anchor in named.get(goal, ()):  # an anchor in the text, which is HTML and goes by its name alone
            return f'<a href="{near.removesuffix(".md")}.html#{anchor}">{words}</a>'
        return f"[{words}]({near}{'#' if anchor else ''}{anchor})"

    lines, fence = text.split("\n"), ""
    for i, line in enumerate(lines):
        mark = re.match(r" *(```+|~~~+)", line)
        if fence or mark:
            fence = "" if fence and mark and line.strip() == fence else fence or (mark[1] if mark else "")
        elif not line.startswith("    "):
            lines[i] = LINK.sub(link, line)
    return "\n".join(lines)


# --- pages of what is no Markdown ---------------------------------------------------------------------------------


def _programs(root: Path) -> dict[str, str]:
    """A page for each program of a finding: its title is the first line of its docstring, below is its text."""
    pages: dict[str, str] = {}
    for path in sorted((root / "specs" / "findings").glob("*/*.py")):
        text = path.read_text("utf-8").rstrip()
        title = path.stem.partition("_")[2].replace("_", " ").capitalize() or path.stem
        head = f"---\norphan: true\n---\n\n# {path.parent.name}: {title}\n\n"
        back = f"A program that shows it; the finding is one of [{path.parent.name}](../{path.parent.name}.md).\n\n"
        pages[_home(path.relative_to(root).as_posix())] = f"{head}{back}````python\n{text}\n````\n"
    return pages


def _devices(root: Path) -> str:
    """The cases of planning devices, one below the other."""
    head = "# Cases of devices\n\nWhat TVM's own table of tests has, each with what is given here and why.\n"
    cases = sorted((root / "specs" / "devices").glob("*.txt"))
    return head + "".join(f"\n## {p.stem}\n\n````text\n{p.read_text('utf-8').rstrip()}\n````\n" for p in cases)


def _findings(texts: Mapping[str, str]) -> str:
    """What was found in whom: each page of findings, with how many cases it has."""
    pages = [p for p in texts if p.startswith("findings/")]
    rows = []
    for page in pages:
        title = re.search(r"^# (.+)$", texts[page], re.MULTILINE)
        name, place = title[1] if title else page, page.removeprefix("findings/")
        programs = set(re.findall(rf"\({re.escape(place.removesuffix('.md'))}/\w+\.py\)", texts[page]))
        rows.append(f"| [{name}]({place}) | {len(programs)} |")
    return (
        "# Findings\n\nWhat was found in other tools, each with its smallest program, which says what is given and what"
        " is right.\nThe programs run as tests wherever the tool is installed.\n\n| in | programs |\n|---|---|\n"
        + "\n".join(rows) + "\n" + _toctree(tuple(p.removesuffix(".md") for p in pages))
    )  # fmt: skip
