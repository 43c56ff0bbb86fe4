"""Attention of com.microsoft beside ONNX Runtime, over the forms of its operands."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest

pytest.importorskip("onnxruntime")

from assay.interp import graph
from assay.lower.frontends.onnx.model import import_onnx
from assay.lower.frontends.onnx.operators import DOMAINS
from assay.semantics.errors import AssayError, Trap
from tests.lower.frontends.onnx.attention_cases import ATTENTION, CACHE, INPUT, KV2, PACKED, Q4, _grouped
from tests.lower.frontends.onnx.onnx_cases import agree, floats, with_types
from tests.lower.frontends.onnx.test_onnx_contrib import MS, case
from tests.verify.app.test_cli import assay


@pytest.mark.parametrize("name", ATTENTION)
def test_attention_as_the_runtime_has_it(name: str) -> None:
    """Within the bounds, or equal where nothing is rounded."""
    agree(*ATTENTION[name])


@pytest.mark.parametrize("name", PACKED)
def test_packed_operands_are_the_same_apart(name: str) -> None:
    made = []
    for model, inputs in PACKED[name]:
        module = import_onnx(with_types(model), evaluate=graph.evaluate)
        made.append(graph.run(module, inputs)["y0"])
    np.testing.assert_array_equal(*made)


@pytest.mark.parametrize(
    "name,attr,value",
    [
        ("Attention, a scale", "scale", 0.3003),
        ("Attention, a mask of keys, another filter", "mask_filter_value", 0.0),
        ("Attention, unidirectional", "unidirectional", 0),
        ("MultiHeadAttention, unidirectional", "unidirectional", 0),
        ("RotaryEmbedding", "interleaved", 1),
        ("GroupQueryAttention, a window", "local_window_size", 3),
        ("GroupQueryAttention, capped", "softcap", 0.5005),
    ],
)
def test_another_attribute_is_told_apart(name: str, attr: str, value: float, monkeypatch: pytest.MonkeyPatch) -> None:
    """The planted fault: a rule that takes an attribute a thousandth too large, or not at all."""
    op = name.partition(",")[0]
    rule = DOMAINS[MS][op]
    monkeypatch.setitem(DOMAINS[MS], op, lambda node: rule(node.with_(attrs={**node.attrs, attr: value})))
    with pytest.raises(AssertionError, match="theirs"):
        agree(*ATTENTION[name])


@pytest.mark.parametrize(
    "made,said",
    [
        (case("Attention", *INPUT, num_heads=3), r"qkv_hidden_sizes.*onnx\.C12"),
        (case("Attention", *INPUT, num_heads=2, do_rotary=1), r"do_rotary.*onnx\.C14"),
        (case("Attention", *INPUT, np.int32([1, 2, 3]), num_heads=2), r"a mask of.*onnx\.C14"),
        (case("MultiHeadAttention", floats(2, 3, 8), num_heads=2), r"key is missing.*onnx\.C12"),
        (case("MultiHeadAttention", floats(2, 3, 8), floats(2, 3, 8), num_heads=2), r"value is missing.*onnx\.C12"),
        (_grouped(Q4, *KV2, smooth_softmax=1), r"smooth_softmax.*onnx\.C14"),
    ],
)
def test_forms_of_attention_that_are_not_taken(made: Any, said: str) -> None:
    with pytest.raises(AssayError, match=said):
        import_onnx(with_types(made[0]), evaluate=graph.evaluate)


def test_a_batch_with_padding_stops_the_run() -> None:
    """GroupQueryAttention does not say what is there then."""
    model, inputs = _grouped(Q4[:, :1], KV2[0][:, :1], KV2[1][:, :1], *CACHE, total=3)
    module = import_onnx(with_types(model), evaluate=graph.evaluate)
    graph.run(module, inputs)
    with pytest.raises(Trap, match="a batch is not filled"):
        graph.run(module, {**inputs, "x5": np.int32([2, 1])})


@pytest.mark.slow
def test_attention_is_judged_and_lowered_by_commands(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    onnx.save(with_types(ATTENTION["Attention, a mask of keys"][0]), tmp_path / "a.onnx")
    assert assay(monkeypatch, "judge", tmp_path / "a.onnx", "--backend", "onnxruntime") == 0
    assert "onnxruntime is right" in capsys.readouterr().out
    assert assay(monkeypatch, "check", tmp_path / "a.onnx") == 0
