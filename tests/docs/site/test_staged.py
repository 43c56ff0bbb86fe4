"""The pages of the site before they are HTML: their links, and the pages of what is no Markdown."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

import assay
from tests.docs.site.__main__ import main
from tests.docs.site.staged import staged
from tests.docs.site.surface import surface_page
from tests.places import ROOT


@pytest.fixture
def small(tmp_path: Path) -> Path:
    texts = {
        "README.md": "[a](specs/a.md#m1.1), [b](specs/a.md#a-b), [found](specs/findings), [code](x.py), [l](LICENSE)",
        "specs/a.md": '# A b\n\n<a id="m1.1"></a>[up](../README.md), [here](#m1.1), `[no](a.md)`\n\n    [code](a.md)\n',
        "specs/operators.md": "# Operators\n",
        "specs/findings/tool-1.md": "# tool 1\n[R.split(x, [3])](tool-1/01_tanh_of_nan.py)\n\n```\n[x](gone.md)\n```\n",
        "specs/findings/tool-1/01_tanh_of_nan.py": '"""Tanh."""\nprint(1)\n',
        "specs/devices/plain.txt": "one\n",
    }
    for name, text in texts.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    return tmp_path


def test_links_lead_to_pages_of_the_site(small: Path) -> None:
    pages = staged(small)
    first = '<a href="a.html#m1.1">a</a>, [b](a.md#a-b), [found](findings/index.md), code, l'
    assert pages["index.md"].splitlines()[0] == first
    assert '[up](index.md), <a href="a.html#m1.1">here</a>, `[no](a.md)`' in pages["a.md"]
    assert "    [code](a.md)" in pages["a.md"]
    assert "[R.split(x, [3])](tool-1/01_tanh_of_nan.md)" in pages["findings/tool-1.md"]
    assert "[x](gone.md)" in pages["findings/tool-1.md"]


def test_what_is_no_markdown_is_a_page(small: Path) -> None:
    pages = staged(small)
    assert "# tool-1: Tanh of nan" in pages["findings/tool-1/01_tanh_of_nan.md"]
    assert 'python\n"""Tanh."""\nprint(1)\n' in pages["findings/tool-1/01_tanh_of_nan.md"]
    assert "| [tool 1](tool-1.md) | 1 |" in pages["findings/index.md"]
    assert "## plain\n\n````text\none\n" in pages["devices.md"]


def test_every_page_of_the_project_is_on_the_site() -> None:
    pages = staged(ROOT)
    for path in (ROOT / "specs").rglob("*.md"):
        assert path.relative_to(ROOT / "specs").as_posix() in pages
    programs = list((ROOT / "specs" / "findings").glob("*/*.py"))
    assert programs and all(f"findings/{p.parent.name}/{p.stem}.md" in pages for p in programs)


def test_the_page_of_the_surface_has_every_name() -> None:
    page = surface_page()
    for name in assay.__all__:
        assert name == "__version__" or f"\n## {name}\n" in page
        said = getattr(assay, name).__doc__ if name not in ("__version__", "verify") else None
        assert said is None or said.strip().splitlines()[0] in page
    assert "```pycon\n>>> " in page and "label: str = ''" in page
    assert "assay.load(" in page and "'" not in page.partition("## load")[2].partition("```\n")[0]


def test_without_the_generator_it_says_what_to_install(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(sys.modules, "furo", None)
    assert main(["-o", str(tmp_path)]) == 2
    assert "pip install '.[docs]'" in capsys.readouterr().err and list(tmp_path.iterdir()) == []
