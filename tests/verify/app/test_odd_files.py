"""A file that is no file: a FIFO, a directory, a device, a socket is refused at once, wherever a file is given."""

from __future__ import annotations

import os
import signal
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from tests.models import small_cnn
from tests.verify.app.test_cli import assay


@pytest.fixture(autouse=True)
def no_waiting() -> Iterator[None]:
    """Whoever waits for a FIFO is woken, and the test fails."""

    def late(*_: Any) -> None:
        raise TimeoutError("waited for a file that is no file")

    before = signal.signal(signal.SIGALRM, late)
    signal.alarm(30)
    yield
    signal.alarm(0)
    signal.signal(signal.SIGALRM, before)


def fifo(path: Path) -> Path:
    os.mkfifo(path)
    return path


def directory(path: Path) -> Path:
    path.mkdir()
    return path


def bound_socket(path: Path) -> Path:
    here = os.open(".", os.O_RDONLY)
    os.chdir(path.parent)  # a socket's path is short
    try:
        with socket.socket(socket.AF_UNIX) as made:
            made.bind(path.name)
    finally:
        os.fchdir(here)
        os.close(here)
    return path


def device(path: Path) -> Path:
    path.symlink_to("/dev/zero")
    return path


ODD = {"a FIFO": fifo, "a directory": directory, "a socket": bound_socket, "a device": device}


@pytest.mark.parametrize("kind", ODD)
@pytest.mark.parametrize(
    "command",
    [
        ("check", "odd.onnx"), ("check", "odd.py"), ("check", "odd.relay"), ("prove", "odd.onnx"),
        ("build", "odd.onnx", "-o", "out"), ("reduce", "odd.onnx", "--backend", "reference", "-o", "out"),
        ("run", "odd.onnx", "-o", "out.npz"), ("run", "good.onnx", "--inputs", "odd.npz", "-o", "out.npz"),
        ("check", "good.onnx", "--expected", "odd.npz"), ("plan", "odd.csv"),
    ],
    ids=" ".join,
)  # fmt: skip
def test_what_is_no_regular_file(
    command: tuple[str, ...],
    kind: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    onnx.save(small_cnn(), "good.onnx")
    ODD[kind](tmp_path / next(word for word in command if word.startswith("odd.")))
    assert assay(monkeypatch, *command) == 2
    said = capsys.readouterr().err
    assert said.count("\n") == 1 and (kind in said or kind == "a socket"), said  # a socket cannot even be opened


@pytest.mark.parametrize("inside", [False, True], ids=["a graph", "a branch"])
@pytest.mark.parametrize("kind", ODD)
def test_external_data_is_a_regular_file(
    kind: str, inside: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    beside = numpy_helper.from_array(np.ones(4, np.float32), "w")
    onnx.external_data_helper.set_external_data(beside, "odd.bin", 0, 16)
    beside.ClearField("raw_data")
    x, y, c = (
        helper.make_tensor_value_info(n, t, s)
        for n, t, s in (("x", 1, [4]), ("y", 1, [4]), ("c", TensorProto.BOOL, []))
    )
    if inside:
        arm = helper.make_graph(
            [helper.make_node("Add", ["x", "w"], ["z"])],
            "arm",
            [],
            [helper.make_tensor_value_info("z", 1, [4])],
            [beside],
        )
        nodes, held = [helper.make_node("If", ["c"], ["y"], then_branch=arm, else_branch=arm)], []
    else:
        nodes, held = [helper.make_node("Add", ["x", "w"], ["y"])], [beside]
    graph = helper.make_graph(nodes, "g", [x, c], [y], held)
    Path("m.onnx").write_bytes(
        helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8).SerializeToString()
    )
    ODD[kind](tmp_path / "odd.bin")
    assert assay(monkeypatch, "check", "m.onnx", "--backend", "reference") == 2
    said = capsys.readouterr().err
    assert "onnx.C10" in said and "outside" in said if kind == "a device" else "onnx.C10" in said, (
        said
    )  # the link leads out
