"""The guides of specs/guides/: their files and commands, run, give what they show (specs/verify.md, "Site")."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

import pytest

from tests.docs.guide import GuideCommand, GuideFile, agrees, followed, steps_of
from tests.places import SPECS

GUIDES = sorted((SPECS / "guides").glob("*.md"))
COMPILES = {"firmware.md", "certificate.md"}
"""Those that need a C compiler."""


@pytest.mark.parametrize("guide", GUIDES, ids=lambda p: p.stem)
def test_a_guide_says_what_happens(guide: Path, tmp_path: Path) -> None:
    if guide.name in COMPILES and shutil.which("cc") is None:
        pytest.skip("no C compiler")
    faults = followed(guide, tmp_path)
    assert not faults, "\n\n".join(faults)


def test_guides_import_the_surface_alone() -> None:
    for guide in GUIDES:
        assert not re.findall(r"^(?:from|import) assay\.\S*", guide.read_text("utf-8"), re.MULTILINE), guide.name


def test_guides_are_short() -> None:
    assert len(GUIDES) == 7
    for guide in GUIDES:
        assert len(guide.read_text("utf-8").splitlines()) <= 130, guide.name


def test_what_a_guide_is_made_of() -> None:
    text = '```python\n# a.py\nx = 1\n```\n\n```console\n$ one\nsaid\n$ two "three"\n```\n\n```text\nno step\n```\n'
    assert list(steps_of(text)) == [
        GuideFile("a.py", "# a.py\nx = 1\n"),
        GuideCommand("one", "said\n"),
        GuideCommand('two "three"', ""),
    ]
    with pytest.raises(ValueError, match="neither a file"):
        list(steps_of("```python\nx = 1\n```\n"))


def test_a_guide_that_says_something_else_is_found(tmp_path: Path) -> None:
    guide = tmp_path / "planted.md"
    text = "```text\n```\n\n```console\n$ echo one\n{}\n$ false\n$ echo $?\n{}\n```\n"
    guide.write_text(text.format("one", 1))
    assert followed(guide, tmp_path) == []
    for bad in (text.format("two", 1), text.format("", 1), text.format("one", 0)):
        guide.write_text(bad)
        assert len(followed(guide, tmp_path)) == 1, bad
    assert agrees("a ... d", "a b\nc d") and not agrees("a ... d", "a b c") and not agrees("a b", "a b c")
