"""What the tests of numeric rights share: a model, inputs and outputs through the command check."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import ModelProto

from tests.verify.app.test_cli import assay

Array = np.ndarray[Any, Any]


@pytest.fixture
def check(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., int]:
    """The exit code of `assay check MODEL --inputs --expected`, of a model, its inputs and outputs, and more
    options."""

    def run(proto: ModelProto, inputs: Mapping[str, Array], outputs: Mapping[str, Array], *more: object) -> int:
        model, given, expected = (tmp_path / name for name in ("m.onnx", "in.npz", "out.npz"))
        onnx.save(proto, model)
        np.savez(given, **inputs)
        np.savez(expected, **outputs)
        return assay(monkeypatch, "check", model, "--inputs", given, "--expected", expected, *more)

    return run
