"""All of ONNX's cases on the interpreter: nothing is wrong, and few are not judged."""

from __future__ import annotations

import json

import pytest

from assay.verify.app.answers import begin
from assay.verify.app.terminal import Screen
from assay.verify.conform.command import ConformRequest, conform


@pytest.mark.campaign
def test_numpy_on_all_of_onnx_cases(capsys: pytest.CaptureFixture[str]) -> None:
    begin("conform")
    conform(ConformRequest(backends=["numpy"], suite="onnx"), Screen(), True)
    found = json.loads(capsys.readouterr().out)
    (board,) = found["backends"]
    counts = board["counts"]
    assert board["cases"] > 2_000
    assert not counts.keys() & {"wrong", "died", "late"}
    assert counts["not judged"] <= 12
    assert counts["right"] + counts.get("open", 0) >= 0.98 * board["cases"]
    assert set(found["stored"]) <= {
        "node/test_averagepool_2d_ceil_last_window_starts_on_pad",  # to four digits
        "node/test_gridsample_bicubic",
        "node/test_roialign_aligned_true",
    }
