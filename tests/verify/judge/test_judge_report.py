"""`assay judge --report`: what stands on the page is what was found, and nothing in a model can break it."""

from __future__ import annotations

import json
from html.parser import HTMLParser
from pathlib import Path

import numpy as np
import onnx
import pytest

import assay
from assay.semantics.bounds import Bounded
from assay.semantics.dtypes import FLOAT32
from assay.verify.app.report.judged import node_words
from assay.verify.app.report.judged_tensors import tensor_table
from assay.verify.judge.histograms import BINS, SHARES, shares_text
from assay.verify.judge.outcome import BackendVerdict, SampleVerdict, tensor_error
from assay.verify.judge.pieces import Dataflow
from tests.verify.app.test_cli import assay as command
from tests.verify.judge.planted import Off, two_outputs


class Page(HTMLParser):
    """Tags in order, with their attributes; rows of tables as texts."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.rows: list[tuple[str | None, list[str]]] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        if tag == "tr":
            self.rows.append((dict(attrs).get("data-word"), []))
        if tag in ("td", "th") and self.rows:
            self.rows[-1][1].append("")

    def handle_data(self, data: str) -> None:
        if self.rows and self.rows[-1][1]:
            self.rows[-1][1][-1] += data


def test_the_page_has_every_tensor_with_its_verdict(tmp_path: Path) -> None:
    found = assay.judge(two_outputs(), Off(), kinds=["random"], page=tmp_path / "page")
    text = (tmp_path / "page" / "index.html").read_text("utf-8")
    page = Page(text)
    rows = {(r[0], r[1]): (word, r) for word, r in page.rows if word}
    assert {n for s, n in rows if s == "random"} == {"a", "b", "h", "t"}
    word, cells = rows["random", "b"]
    assert word == "wrong" and cells[2].startswith("Add") and "[0, 1]" in cells[10]
    assert {rows["random", n][0] for n in "ah"} == {"right"}
    assert html_words(page) == ["right", "right", "right", "wrong"]
    assert found.verdicts[0].closing() in text.replace("&#x27;", "'")
    data = json.loads((tmp_path / "page" / "report.json").read_text())
    (sample,) = [s for s in data["backends"][0]["samples"] if s["sample"] == "random"]
    assert {t["tensor"]: t["outcome"] for t in sample["tensors"]} == {
        "h": "right",
        "a": "right",
        "t": "right",
        "b": "wrong",
    }
    assert all(sum(t["error"]["histogram"]) == 6 for t in sample["tensors"])


def html_words(page: Page) -> list[str | None]:
    """The colours of the nodes."""
    return [a["class"] for t, a in page.tags if t == "rect" and a.get("rx")]


def test_nothing_is_fetched_and_no_name_is_code(tmp_path: Path) -> None:
    model = two_outputs()
    odd = '"><script src=http://x.y/z.js></script>'
    for node in model.graph.node:
        node.name = f"{node.name}{odd}"
        for names in (node.input, node.output):
            for i, name in enumerate(names):
                names[i] = odd if name == "h" else name
    assay.judge(model, ["numpy"], kinds="random", page=tmp_path)
    page = Page((tmp_path / "index.html").read_text("utf-8"))
    assert [a for t, a in page.tags if t in ("script", "link", "img", "iframe")] == [{}]
    assert not [a for _, a in page.tags if {"src", "onclick", "onload"} & a.keys()]
    assert {str(a["href"])[:2] for _, a in page.tags if "href" in a} == {"#t"}
    assert any(odd in cells[1] for word, cells in page.rows if word)


def test_nodes_have_the_verdict_of_the_piece_that_names_them(tmp_path: Path) -> None:
    x = {"x": np.ones((2, 3), np.float32)}
    made = assay.run(two_outputs(), x)
    found = assay.judge(two_outputs(), recorded={"a": made["a"], "b": made["b"] + 1} | x)
    flow = Dataflow(two_outputs())
    titles = [n.name for n in flow.nodes]
    words = dict(zip(titles, node_words(flow, found.verdicts[0]), strict=True))
    assert words == {"product": "none", "rectified": "right", "bent": "wrong", "sum": "wrong"}


def test_what_is_there_stays(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    onnx.save(two_outputs(), tmp_path / "m.onnx")
    np.savez(tmp_path / "in.npz", x=np.ones((2, 3), np.float32))
    np.savez(tmp_path / "out.npz", **assay.run(two_outputs(), {"x": np.ones((2, 3), np.float32)}))
    words = ["judge", tmp_path / "m.onnx", "--recorded", tmp_path / "out.npz", "--inputs", tmp_path / "in.npz"]
    for _ in range(2):  # a page of ours is replaced
        assert command(monkeypatch, *words, "--report", tmp_path / "page") == 0
    (tmp_path / "page" / "index.html").write_text("mine")
    assert command(monkeypatch, *words, "--report", tmp_path / "page") == 2
    assert "[report.C2]" in capsys.readouterr().err
    assert (tmp_path / "page" / "index.html").read_text() == "mine"


def test_a_histogram_counts_units_in_the_last_place() -> None:
    want = np.ones(7, np.float32)
    unit = np.float32(2.0**-23)
    got = want + unit * np.array([0, 1, 2, 3, 4, 5, 2**17], np.float32)
    error = tensor_error("x", want, got)
    assert error is not None
    counts = {i: c for i, c in enumerate(error.histogram) if c}
    assert len(error.histogram) == BINS and counts == {0: 1, 1: 1, 2: 1, 3: 2, 4: 1, BINS - 1: 1}
    assert [f[0] for f in error.furthest] == [(6,), (5,), (4,), (3,), (2,)]


def test_a_histogram_counts_parts_of_the_bound() -> None:
    want = np.ones(8)
    radius = np.array([0.0, 0.0, 0.5, 0.5, 0.5, 0.5, 0.5, 2.0])  # the last one excludes nothing
    got = np.array([1.0, 1.5, 1.0, 1.5, 1.25, 1.0 + 2**-20, 2.0, 1.5], np.float32)
    error = tensor_error("x", Bounded(want, radius, FLOAT32), got)
    assert error is not None
    counts = {name: c for name, c in shares_text(error.shares) if c}
    assert len(error.shares) == SHARES
    assert counts == {"no error": 2, "outside": 2, "up to 1": 1, "up to 0.5": 1, f"up to {2.0**-10:g}": 1}


def test_a_histogram_has_nothing_where_no_bound_says_anything() -> None:
    error = tensor_error("x", Bounded(np.ones(3), np.inf, FLOAT32), np.zeros(3, np.float32))
    assert error is not None and list(error.shares) == [] and sum(error.histogram) == 3
    sample = SampleVerdict("random", "undecided", "", "", errors=[error])
    (text,) = [t for t in tensor_table(0, BackendVerdict("b", [sample])) if t.startswith("<tr")]
    assert text.count("<svg") == 1 and 'class="bars ulps"' in text
    exact = tensor_error("i", np.array([1, 2], np.int32), np.array([1, 3], np.int32))
    assert exact is not None
    assert {n: c for n, c in shares_text(exact.shares) if c} == {"no error": 1, "outside": 1}


def test_what_is_outside_of_a_bound_is_what_is_wrong(tmp_path: Path) -> None:
    assay.judge(two_outputs(), Off(), kinds=["random"], page=tmp_path / "page")
    data = json.loads((tmp_path / "page" / "report.json").read_text())
    (sample,) = [s for s in data["backends"][0]["samples"] if s["sample"] == "random"]
    outside = {t["tensor"]: t["error"]["shares"][-1] for t in sample["tensors"] if t["error"]["shares"]}
    assert outside["b"] and not any(n for t, n in outside.items() if t != "b")
    page = Page((tmp_path / "page" / "index.html").read_text("utf-8"))
    assert sum(a.get("class") == "outside" for t, a in page.tags if t == "rect") == sum(map(bool, outside.values())) * 2


def test_several_backends_stand_beside_each_other(tmp_path: Path) -> None:
    assay.judge(two_outputs(), [Off(), "numpy"], kinds=["random"], page=tmp_path / "page")
    page = Page((tmp_path / "page" / "index.html").read_text("utf-8"))
    rows = {c[0]: [w.strip().split("\n")[0] for w in c[1:]] for word, c in page.rows if word is None and len(c) == 3}
    assert rows["tensor"][1] == "numpy" and rows["b"] == ["wrong", "right"] and rows["a"] == ["right", "right"]
    assert list(rows)[1] == "b"  # the gravest first
