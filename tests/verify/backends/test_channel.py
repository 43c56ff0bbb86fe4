"""What a backend's process sends is data: one that sends anything else has died, and runs nothing here."""

from __future__ import annotations

import json
import pickle
import random
import subprocess
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import onnx
import pytest

from assay.semantics.errors import Unsupported
from assay.verify.backends import child
from assay.verify.backends.channel import HEAD, Garbled, lengths, pack, unpack
from assay.verify.backends.isolated import Isolated
from assay.verify.backends.protocol import Died, attempt, subject_of_model
from tests.models import small_cnn
from tests.verify.app.test_cli import assay

HOSTILE = """
import os, stat

class Hostile:
    name = "hostile"

    def prepare(self, subject, wanted):
        data = open({payload!r}, "rb").read()
        for fd in range(3, 20):  # the pipe to the process that judges, wherever it is
            try:
                if stat.S_ISFIFO(os.fstat(fd).st_mode):
                    os.write(fd, data)
            except OSError:
                pass
        return lambda inputs: {{}}
"""


class Bomb:
    """Unpickled, it leaves a file."""

    def __init__(self, trace: Path) -> None:
        self.trace = trace

    def __reduce__(self) -> Any:
        return Path.touch, (self.trace,)


def message(description: bytes, contents: bytes = b"") -> bytes:
    return HEAD.pack(len(description), len(contents)) + description + contents


def pickled(trace: Path) -> bytes:
    data = pickle.dumps(("done", Bomb(trace)), protocol=5)
    return len(data).to_bytes(8, "big") + data


SENT = {
    "pickle": (pickled, "bytes; at most"),
    "pickle in the new envelope": (lambda trace: message(pickle.dumps(Bomb(trace))), "no JSON"),
    "length": (lambda _: HEAD.pack(1 << 20, 1 << 62), "at most 17179869184 are taken"),
    "depth": (lambda _: message(b"[" * 100_000), "no JSON"),
    "crash": (lambda _: message(json.dumps(["tuple", ["crash", "not mine"]]).encode()), "neither tensors nor a reason"),
    "shape": (
        lambda _: message(b'["tuple",["done",["array","float32",[4611686018427387904],4]]]', b"1234"),
        "a shape that no array has",
    ),
}


def test_a_process_that_sends_something_else(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "payload").write_bytes(pickled(tmp_path / "trace"))
    (tmp_path / "hostile_plugin.py").write_text(HOSTILE.format(payload=str(tmp_path / "payload")))
    folder = tmp_path / "hostile-1.0.dist-info"
    folder.mkdir()
    (folder / "METADATA").write_text("Metadata-Version: 2.1\nName: hostile\nVersion: 1.0\n")
    (folder / "entry_points.txt").write_text("[assay.backends]\nhostile = hostile_plugin:Hostile\n")
    monkeypatch.syspath_prepend(tmp_path)
    onnx.save(small_cnn(), tmp_path / "m.onnx")
    assert assay(monkeypatch, "check", tmp_path / "m.onnx", "--backend", "hostile", "--stop-after", "import") == 1
    said = " ".join(capsys.readouterr().out.split())
    assert "the process of backend hostile answers what is no answer: " in said and "bytes; at most" in said
    assert not (tmp_path / "trace").exists(), "what a backend sends must never be run"


@pytest.mark.parametrize("sent", SENT)
def test_answers_that_are_none(sent: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    make, says = SENT[sent]
    (tmp_path / "payload").write_bytes(make(tmp_path / "trace"))

    def begin(self: Isolated) -> None:
        command = ["sh", "-c", 'cat "$0"; exec cat >/dev/null', str(tmp_path / "payload")]
        pipes = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, bufsize=0)
        self._process._process = pipes

    monkeypatch.setattr(Isolated, "_meet", begin)
    with Isolated("hostile") as there:
        outcome = attempt(there, subject_of_model(small_cnn()), ["y"], {})
        assert isinstance(outcome, Died) and "answers what is no answer: " in outcome.reason and says in outcome.reason
        assert not there._process.is_running, "it is ended"
        with pytest.raises(Unsupported, match=r"answers what is no answer: .*backend\.C9"):
            there.prepare(subject_of_model(small_cnn()), ["y"])({})
    assert not (tmp_path / "trace").exists()


def there_and_back(value: Any) -> Any:
    data = pack(value)
    sizes = lengths(data[: HEAD.size], 1 << 30)
    at = HEAD.size + sizes[0]
    return unpack(data[HEAD.size : at], data[at:])


def test_all_values_cross() -> None:
    arrays = [np.arange(6, dtype=t).reshape(2, 3) for t in (np.float16, np.float64, np.uint8, np.int64, np.complex64)]
    arrays += [np.arange(4).astype(t) for t in (ml_dtypes.bfloat16, ml_dtypes.float8_e4m3fn, ml_dtypes.int4, np.bool_)]
    arrays += [np.zeros((3, 0, 2), np.float32), np.array(7, np.int32), np.arange(6).reshape(2, 3).T]
    for array in arrays:
        back = there_and_back(array)
        assert back.dtype == array.dtype and back.shape == array.shape and back.tobytes() == array.tobytes()
        assert back.flags.writeable or not back.size
    words = np.array([["a", "é\udcff"], ["", "x" * 100]], object)
    for texts in (words, words.astype(str), np.array([[b"a", b"b"]])):
        assert there_and_back(texts).tolist() == [
            [t.decode() if isinstance(t, bytes) else t for t in row] for row in texts.tolist()
        ]
    nested = {"s": [np.ones(2), None], "t": (np.zeros(1), (True, 3, "x")), "b": b"bytes"}
    back = there_and_back(nested)
    assert (
        back["s"][1] is None
        and back["t"][1] == (True, 3, "x")
        and back["b"] == b"bytes"
        and back["s"][0].tolist() == [1, 1]
    )
    for wrong in (object(), np.array([object()]), np.zeros(2, "M8[s]"), np.zeros(2, [("a", "i4")]), {1: 2}, 0.5):
        with pytest.raises(Garbled):
            pack(wrong)


def test_whatever_is_changed_is_a_value_or_garbled() -> None:
    whole = pack(
        ("done", {"y": np.arange(6, dtype=np.float32), "s": np.array(["a", "b"], object), "n": [(None, True)]})
    )
    size = HEAD.unpack(whole[: HEAD.size])[0]
    rng = random.Random(0)
    refused = 0
    for _ in range(3_000):
        data = bytearray(whole[HEAD.size :])
        for _ in range(rng.randint(1, 3)):
            data[rng.randrange(size)] = rng.choice(b'[]{}",:0123456789-eabtrunfls\xff')
        cut = rng.choice([len(data), rng.randrange(size, len(data))])
        try:
            unpack(data[:size], data[size:cut])
        except Garbled:
            refused += 1
    assert refused > 1_500


def test_programs_stay_prepared_as_far_as_their_models_fit(monkeypatch: pytest.MonkeyPatch) -> None:
    """The oldest go; the one that is prepared last stays, whatever its size."""
    model = onnx.helper.make_model(
        onnx.helper.make_graph(
            [onnx.helper.make_node("Neg", ["x"], ["y"])],
            "g",
            [onnx.helper.make_tensor_value_info("x", 1, [1])],
            [onnx.helper.make_tensor_value_info("y", 1, [1])],
        )
    ).SerializeToString()
    served = child.Served()
    for most, kept in ((len(model) * 3, [3, 4, 5]), (len(model) - 1, [5])):
        monkeypatch.setattr(child, "MOST", most)
        for number in range(6):
            served.prepared.pop(number, None)
            child.handle(("prepare", number, "numpy", model, {}, ["y"], [], "", b"", {}), served)
        assert sorted(served.prepared) == kept
    assert child.handle(("run", 0, {"x": np.ones(1, np.float32)}), served) is None
    assert child.handle(("run", 5, {"x": np.ones(1, np.float32)}), served)["y"] == -1
