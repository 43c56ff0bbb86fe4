"""Models with unknown sizes as exporters write them, through `assay check` without a word about sizes."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import onnx
import pytest

from tests.exported.test_exported import STORED
from tests.verify.app.test_cli import assay

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = pytest.mark.row("J11")

FAST = {"sk_logistic"}
"""Those of the stored models that the default suite takes; the detector takes a minute."""

OPEN = {
    **dict.fromkeys(("sk_bayes", "sk_network"), 5),  # ONNX Runtime refuses to pick features of no rows
    "lstm_traced_17": 1,  # ONNX Runtime aborts where the batch is empty
}
"""Stored models that do not end with 0, and what they end with."""


def require_certificate(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is built, and what was built is found again."""
    assert assay(monkeypatch, "build", path, "-o", path.parent / "out" / path.stem) == 0
    assert assay(monkeypatch, "verify", path.parent / "out" / path.stem) == 0


@pytest.mark.parametrize(
    "path",
    [pytest.param(p, id=p.stem, marks=() if p.stem in FAST else pytest.mark.campaign) for p in STORED],
)
def test_stored_models_go_through(
    path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("onnxruntime", reason="onnxruntime is not installed")
    if path.stem not in FAST:
        copied = tmp_path / path.name
        copied.write_bytes(path.read_bytes())
        require_certificate(copied, monkeypatch)
    capsys.readouterr()
    assert assay(monkeypatch, "check", path, "--backend", "onnxruntime") == OPEN.get(path.stem, 0)
    table = " ".join(capsys.readouterr().out.split())
    assert "for all " in table and "compare tested" in table and "onnxruntime" in table, table


def exports() -> Iterator[tuple[str, onnx.ModelProto]]:
    """The networks by both exporters, one set of operators each."""
    import torch

    from tests.exported.export import EXPORTS

    for name, way, opset in EXPORTS:
        if opset in (17, 20):
            torch.manual_seed(0)
            yield f"{name}_{way.__name__}_{opset}", way(name, opset)


@pytest.mark.campaign
def test_what_pytorch_exports_goes_through(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """All lines hold, and the backend is wrong on none; it may stay undecided where a row of a mask is empty, and die
    where nothing is in a batch."""
    for extra in ("torch", "transformers", "onnxruntime"):
        pytest.importorskip(extra, reason=f"{extra} is not installed")
    ended: dict[str, int] = {}
    for name, model in exports():
        path = tmp_path / f"{name}.onnx"
        onnx.save(model, path)
        ended[name] = assay(monkeypatch, "check", path, "--backend", "onnxruntime")
        table = " ".join(capsys.readouterr().out.split())
        died = table.count("FAILS") == 1 and "onnxruntime died" in table
        assert "compare tested" in table and ("FAILS" not in table or died), (name, table)
        assert ended[name] == 1 if died else ended[name] in (0, 5), (name, ended[name])
        require_certificate(path, monkeypatch)
        capsys.readouterr()
    assert sum(e == 0 for e in ended.values()) > 0.7 * len(ended), ended
