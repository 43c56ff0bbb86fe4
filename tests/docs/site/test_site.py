"""The site, built whole, in a real browser: search, anchors, a phone, dark mode. Skipped where the generator is not
installed (extra `docs`)."""

from __future__ import annotations

import functools
import threading
from collections.abc import Iterator
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from tests.browser import BROWSER, MISSING, Chromium, opened
from tests.docs.site.build import build_site, html_of
from tests.places import ROOT

pytestmark = [pytest.mark.peer, pytest.mark.slow]


class Quiet(SimpleHTTPRequestHandler):
    def log_message(self, format: str, *args: Any) -> None:
        pass


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    for name in ("sphinx", "myst_parser", "furo"):
        pytest.importorskip(name, reason="the site needs the extra docs")
    out = tmp_path_factory.mktemp("site")
    assert build_site(ROOT, out) == []
    return out


@pytest.fixture(scope="module")
def served(site: Path) -> Iterator[str]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(Quiet, directory=str(site)))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}/"
    server.shutdown()
    server.server_close()


@pytest.fixture
def browser(tmp_path: Path) -> Iterator[Chromium]:
    if BROWSER is None:
        pytest.skip(MISSING)
    with opened(tmp_path) as opened_one:
        opened_one.size(1280, 900)
        yield opened_one


def test_nothing_is_fetched_from_elsewhere(site: Path) -> None:
    for page in ("index.html", "operators/nn.softmax.html", "search.html"):
        text = (site / page).read_text("utf-8")
        assert 'src="http' not in text and 'rel="stylesheet" type="text/css" href="http' not in text


def test_the_search_finds_softmax(served: str, browser: Chromium) -> None:
    browser.visit(served)
    browser.ask("document.querySelector('input[name=q]').focus()")
    browser.keys(*"softmax", "Enter")
    browser.wait("document.querySelectorAll('#search-results li a').length > 5")
    first = browser.ask("document.querySelector('#search-results li a').getAttribute('href')")
    assert first.startswith("operators/nn.softmax.html")
    assert browser.wrong == []


def test_the_anchor_of_a_rule_works(served: str, browser: Chromium) -> None:
    browser.visit(f"{served}semantics.html#m7.2")
    top = "document.getElementById('m7.2').getBoundingClientRect().top"
    browser.wait(f"{top} >= 0 && {top} < 200")
    assert "M7.2" in browser.ask("document.getElementById('m7.2').parentElement.textContent")
    assert browser.ask("document.getElementById('m7.3') !== null")


def test_a_page_with_a_link_to_nowhere_is_found(tmp_path: Path) -> None:
    pytest.importorskip("furo", reason="the site needs the extra docs")
    other = "---\norphan: true\n---\n# B\n\n[up](index.md#a)\n"
    pages = {"index.md": "# A\n\n[b](b.md) [c](#gone)\n", "b.md": other}
    found = html_of(pages, tmp_path)
    assert len(found) == 1 and "gone" in found[0]
    assert len(html_of({**pages, "index.md": "# A\n\n[b](c.md)\n"}, tmp_path)) == 1


PAGES = ("index", "semantics", "verify", "labels", "grammar", "api", "operators/nn.softmax", "findings/index",
         "guides/bug", "scoreboard", "museum")  # fmt: skip


def test_a_phone_is_not_scrolled_sideways(served: str, browser: Chromium) -> None:
    browser.size(390, 844, phone=True)
    for page in PAGES:
        browser.visit(f"{served}{page}.html")
        assert browser.ask("Math.max(document.documentElement.scrollWidth, innerWidth)") == 390, page


def test_dark_mode(served: str, browser: Chromium) -> None:
    light = "getComputedStyle(document.body).backgroundColor"
    browser.visit(served)
    assert browser.ask(light) == "rgb(255, 255, 255)"
    browser.media(scheme="dark")
    browser.visit(served)
    dark = browser.ask(f"{light}.match(/[0-9]+/g).map(Number)")
    ink = browser.ask("getComputedStyle(document.body).color.match(/[0-9]+/g).map(Number)")
    assert max(dark[:3]) < 50 and min(ink[:3]) > 180
