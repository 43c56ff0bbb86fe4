"""What a notebook shows (specs/verify.md, "From Python")."""

from __future__ import annotations

import base64
import re
from html.parser import HTMLParser
from pathlib import Path
from xml.etree import ElementTree

import numpy as np
import onnx
import pytest
from onnx import parser

import assay
from assay.verify.api import notebook

ODD = "<script>alert(1)</script>&"


class Tags(HTMLParser):
    """Which elements a text opens, and that each is closed."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.seen: list[str] = []
        self.open: list[str] = []
        self.feed(text)
        assert not self.open

    def handle_starttag(self, tag: str, attrs: object) -> None:
        self.seen.append(tag)
        if tag != "img":
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag


@pytest.fixture
def odd_model(tmp_path: Path) -> Path:
    """A model whose names are a script."""
    model = parser.parse_model(
        '<ir_version: 8, opset_import: ["" : 18]> g (float[2] x) => (float[2] y) { y = Relu(x) }'
    )
    model.graph.node[0].output[0] = model.graph.output[0].name = ODD
    onnx.save(model, tmp_path / "m.onnx")
    return tmp_path / "m.onnx"


def test_a_module(odd_model: Path) -> None:
    text = assay.load(odd_model)._repr_html_()
    assert "relu" in text and Tags(text).seen == ["pre"]


def test_a_report(odd_model: Path) -> None:
    report = assay.check(
        odd_model, expected={ODD: np.float32([9, 9])}, inputs={"x": np.float32([1, 2])}, stop_after="import"
    )
    text = report._repr_html_()
    seen = Tags(text).seen
    assert "script" not in seen and seen.count("tr") == 1 + len(report.lines)
    assert "&lt;script&gt;" in text and "FAILS" in text and "DOES NOT HOLD" in text


def test_a_plan(tmp_path: Path) -> None:
    (tmp_path / "b.csv").write_text(f"id,lower,upper,size\n{ODD},0,2,8\nb,1,3,8\n")
    text = assay.plan(tmp_path / "b.csv", pools="p<b>=64")._repr_html_()
    assert Tags(text).seen == ["p", "span", "img"] and "p&lt;b&gt;: 16 bytes" in text
    (data,) = re.findall(r"base64,([^\"]*)", text)
    picture = ElementTree.fromstring(base64.b64decode(data))
    assert not [e for e in picture.iter() if e.tag.endswith("script")]
    refused = assay.plan(tmp_path / "b.csv", capacity=8)._repr_html_()
    assert "it does not fit the capacity" in refused


def test_a_large_plan_has_no_picture(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(notebook, "MOST_PICTURE", 10_000)
    rows = "".join(f"b{i},{i},{i + 1},8\n" for i in range(150))
    (tmp_path / "b.csv").write_text("id,lower,upper,size\n" + rows)
    text = assay.plan(tmp_path / "b.csv", planner="greedy-size")._repr_html_()
    assert "draw(path)" in text and len(text) < 1000
