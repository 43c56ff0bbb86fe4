"""`specs/grammar.md` in step with the parser: every example is read, and no word of the parser is missing."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from assay.semantics.errors import Invalid
from assay.semantics.module import Module
from assay.semantics.text.module_text import parse
from tests.docs.grammar import FOLDERS, PAGE, SIGNS, grammar_page, missing_words
from tests.docs.grammar_parts import INNER, PRODUCTIONS, Production
from tests.places import ROOT

ALL = [p for productions in PRODUCTIONS.values() for p in productions]


@pytest.mark.parametrize("production", ALL, ids=lambda p: p.name)
def test_the_example_of_a_production_is_read(production: Production) -> None:
    assert isinstance(parse(production.example), Module)
    with pytest.raises(Invalid):
        parse(production.example.replace("def ", "def 1", 1))


def test_no_word_of_the_parser_is_missing() -> None:
    assert missing_words(ROOT, grammar_page(), INNER) == []


def test_a_new_word_of_the_parser_is_missed(tmp_path: Path) -> None:
    for folder in FOLDERS:
        shutil.copytree(ROOT / folder, tmp_path / folder, dirs_exist_ok=True)
    page, parser = grammar_page(), tmp_path / "semantics" / "text" / "graph" / "parser.py"
    text = parser.read_text("utf-8")
    assert missing_words(tmp_path, page, INNER) == []
    parser.write_text(text.replace('parts=("A", "names")', 'parts=("A", "planted")'), "utf-8")
    assert missing_words(tmp_path, page, INNER) == ["parser.py: planted"]
    assert missing_words(ROOT, page, [*INNER, "nowhere"]) == ["no word of the parser: nowhere"]


def test_the_tables_are_whole() -> None:
    text = (ROOT / PAGE).read_text("utf-8")
    assert all(f"`{sign}`".replace("|", "\\|") in text for sign in SIGNS.values())
    assert "- `R.nn.softmax(data; axis=-1)`" in text and "| `T.axis.spatial` | spatial |" in text
