"""Who is judged by `assay check --report`: every tensor with its verdict, at all sizes (specs/verify.md, "Report")."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import onnx.parser

import assay
from tests.verify.app.report.page import read
from tests.verify.judge.planted import Off, two_outputs

SIZED = """<ir_version: 8, opset_import: ["" : 17]>
g (float[N, 3] x) => (float[N, 3] b) { h = Relu(x)  b = Add(h, x) }"""


def test_backends_and_expected_outputs_have_a_section_each(tmp_path: Path) -> None:
    x = {"x": np.ones((2, 3), np.float32)}
    wrong = assay.run(two_outputs(), x)
    wrong["b"][1, 2] += 1
    found = assay.check(
        two_outputs(), x, backends=["numpy", Off()], expected=wrong, stop_after="legalize", page=tmp_path
    )
    assert found.verdicts == {"expected": "wrong", "numpy": "right", "off": "wrong"}
    data = json.loads((tmp_path / "report.json").read_text("utf-8"))
    assert [(b["name"], b["outcome"]) for b in data["judged"]] == list(found.verdicts.items())
    told = {b["name"]: b["samples"][0] for b in data["judged"]}
    assert {o["tensor"]: o["outcome"] for o in told["expected"]["outputs"]} == {"a": "right", "b": "wrong"}
    assert {t["tensor"]: t["outcome"] for t in told["off"]["tensors"]} == {
        "h": "right", "a": "right", "t": "right", "b": "wrong",
    }  # fmt: skip
    assert [n["what"] for n in data["graph"]["nodes"]] == ["matmul", "nn_relu", "tanh", "add"]
    assert all(n["known"] == "proved" and n["why"] for n in data["graph"]["nodes"])
    assert data["graph"]["edges"] == [[0, 1], [1, 2], [2, 3]]
    text = (tmp_path / "index.html").read_text("utf-8")
    got = read(text)
    assert "proved for every input" in got.section("graph") and "; proved, bit-exact" in text
    assert got.rows["b"] == ["b", "wrong", "right", "wrong"]  # each tensor by each backend


def test_sizes_are_sets_of_inputs_of_their_own(tmp_path: Path) -> None:
    model = onnx.parser.parse_model(SIZED)
    found = assay.check(model, backends="numpy", bounds={"N": (1, 4)}, stop_after="import", page=tmp_path)
    assert found.verdicts == {"numpy": "right"}
    (judged,) = json.loads((tmp_path / "report.json").read_text("utf-8"))["judged"]
    sizes = {s["sample"] for s in judged["samples"] if s["sample"].startswith("given")}
    assert judged["outcome"] == "right" and {"given at N = 1", "given at N = 4"} <= sizes
    assert all(s["tensors"] and s["outputs"][0]["shares"] for s in judged["samples"])


def test_without_a_page_nothing_is_kept(tmp_path: Path) -> None:
    found = assay.check(two_outputs(), backends=Off(), stop_after="import")
    assert found.verdicts == {"off": "wrong"} and not list(tmp_path.iterdir())
