"""Memory beside the size of a model, and models that no protobuf message holds (specs/verify.md, "Large models")."""

from __future__ import annotations

import gc
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnx.reference
import pytest

import assay
from assay.lower.frontends.onnx import outside
from assay.verify import children
from assay.verify.api.programs import opened_outside
from assay.verify.app.judgement.judge_json import model_digest
from assay.verify.backends.protocol import Subject
from tests.places import ROOT
from tests.verify.judge.large_models import weight, with_weights, write_beside

pytest.importorskip("onnxruntime")
of_linux = pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="there is no /proc")
MOST = 3.0
"""Times its size that a model may take, in our process and in the backend's: as specs/verify.md says."""


def measured(narrow: Path, wide: Path, *how: str) -> dict[str, Any]:
    words = [sys.executable, "-m", "tests.verify.judge.large_models", str(narrow), str(wide), *how]
    env = {**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT), *sys.path]), "OMP_NUM_THREADS": "1"}
    found: dict[str, Any] = json.loads(subprocess.run(words, env=env, check=True, capture_output=True).stdout)
    return found


@pytest.fixture(scope="module")
def pair(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """A model of 16 weights of 8 by 8, and one of 64 MB."""
    narrow, wide = (tmp_path_factory.mktemp("model") / "m.onnx" for _ in range(2))
    onnx.save_model(with_weights(8, 16), narrow)
    onnx.save_model(with_weights(1024, 16), wide)
    return narrow, wide


@of_linux
def test_memory_is_a_small_multiple_of_the_models_size(pair: tuple[Path, Path]) -> None:
    found = measured(*pair)
    assert found["outcome"] == "right"
    assert found["ours"] <= MOST and found["child"] <= MOST, found


@of_linux
def test_weights_in_the_message_take_more(pair: tuple[Path, Path]) -> None:
    """The planted fault of the test above: copies, as there were."""
    found = measured(*pair, "inside")
    assert found["outcome"] == "right" and min(found["ours"], found["child"]) > MOST, found


# --- where weights are ----------------------------------------------------------------------------------------------


class Seen:
    """A backend of somebody else: it keeps the model that it is given, and is right."""

    name = "seen"

    def __init__(self) -> None:
        self.models: list[onnx.ModelProto] = []

    def prepare(self, subject: Subject, wanted: Sequence[str]) -> Any:
        self.models.append(subject.model)
        evaluator = onnx.reference.ReferenceEvaluator(subject.model)
        return lambda inputs: dict(zip(wanted, evaluator.run(list(wanted), dict(inputs)), strict=True))


@pytest.fixture
def little_inside(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(outside, "MOST_INSIDE", 1 << 18)


@pytest.mark.usefixtures("little_inside")
def test_data_beside_a_model_is_never_in_the_message(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The model is opened, cut in pieces, sent and run; nobody makes a message that holds a weight."""
    path = write_beside(tmp_path, 160, 8)
    before = sorted(p.name for p in tmp_path.iterdir())
    sizes: list[int] = []
    sent = onnx.ModelProto.SerializeToString

    def serialized(self: onnx.ModelProto, **how: Any) -> bytes:
        sizes.append(self.ByteSize())
        return sent(self, **how)

    monkeypatch.setattr(onnx.ModelProto, "SerializeToString", serialized)
    monkeypatch.setattr("assay.lower.frontends.onnx.tensors.open_regular", _nothing_is_read)
    found = assay.judge(path, "onnxruntime", kinds="random")
    assert found.verdicts[0].outcome == "right"
    assert sizes and max(sizes) < 160 * 160 * 4
    assert found.subject.files[0].path == tmp_path / "weights.bin"
    assert sorted(p.name for p in tmp_path.iterdir()) == before, "something is written beside it"


def _nothing_is_read(path: Path) -> Any:
    class Unread:
        """A file of which only the size is looked at."""

        def __enter__(self) -> Any:
            return self

        def __exit__(self, *wrong: object) -> None:
            self.file.close()

        def __init__(self) -> None:
            self.file = Path(path).open("rb")

        def fileno(self) -> int:
            return self.file.fileno()

    return Unread()


@pytest.mark.usefixtures("little_inside")
@pytest.mark.parametrize("how", ["inside", "beside"])
def test_other_peoples_backends_get_the_whole_model(tmp_path: Path, how: str) -> None:
    path = tmp_path / "m.onnx"
    if how == "inside":
        onnx.save_model(with_weights(160, 3), path)
    else:
        path = write_beside(tmp_path, 160, 3)
    seen = Seen()
    assert assay.judge(path, seen, kinds="random").verdicts[0].outcome == "right"
    assert {t.name: t.data_location for t in seen.models[0].graph.initializer} == {f"w{i}": 0 for i in range(3)}
    for i, tensor in enumerate(seen.models[0].graph.initializer):
        np.testing.assert_array_equal(onnx.numpy_helper.to_array(tensor), weight(160, i))


@pytest.mark.usefixtures("little_inside")
def test_a_wrong_weight_in_a_file_is_wrong(tmp_path: Path) -> None:
    """What is judged is the model whose weights are in the files, not a model of the same nodes."""
    write_beside(tmp_path, 160, 3)
    other = tmp_path / "other"
    other.mkdir()
    path = write_beside(other, 160, 3)
    with (other / "weights.bin").open("r+b") as file:
        file.seek(4 * 160 * 160 + 400)
        file.write(np.float32(3).tobytes())
    found = assay.judge(tmp_path / "model.onnx", second=path, kinds="random")
    assert found.verdicts[0].outcome == "wrong"
    assert assay.judge(path, "onnxruntime", kinds="random").verdicts[0].outcome == "right"


@pytest.mark.usefixtures("little_inside")
def test_a_digest_is_of_the_content_and_not_of_the_place(tmp_path: Path) -> None:
    onnx.save_model(with_weights(160, 3), tmp_path / "m.onnx")
    beside = write_beside(tmp_path, 160, 3)
    digests = []
    for path in (tmp_path / "m.onnx", tmp_path / "m.onnx", beside):
        light, _, files = opened_outside(path)
        assert isinstance(light, onnx.ModelProto) and files
        digests.append(model_digest(light))
    digests.append(model_digest(with_weights(160, 3)))
    assert len(set(digests)) == 1
    with (tmp_path / "weights.bin").open("r+b") as file:
        file.write(np.float32(3).tobytes())
    changed, _, files = opened_outside(beside)
    assert isinstance(changed, onnx.ModelProto) and files
    assert model_digest(changed) != digests[0]


# --- what is written is removed -------------------------------------------------------------------------------------


@pytest.mark.usefixtures("little_inside")
def test_a_file_that_is_written_is_gone_with_the_judgement(tmp_path: Path) -> None:
    onnx.save_model(with_weights(160, 3), tmp_path / "m.onnx")
    found = assay.judge(tmp_path / "m.onnx", "onnxruntime", kinds="random")
    (place,) = {f.path for f in found.subject.files}
    assert place.exists() and not place.is_relative_to(tmp_path)
    assert model_digest(found.subject.model) == model_digest(with_weights(160, 3)), "it is still all there"
    del found
    gc.collect()
    assert not place.parent.exists()


@pytest.mark.usefixtures("little_inside")
def test_nothing_is_left_where_a_model_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made = with_weights(160, 3)
    missing = made.graph.initializer.add(name="w3", data_type=1, dims=[1], data_location=onnx.TensorProto.EXTERNAL)
    missing.external_data.add(key="location", value="nowhere")
    onnx.save_model(made, tmp_path / "m.onnx")
    places: list[Path] = []
    new_folder = children.new_folder
    monkeypatch.setattr(children, "new_folder", lambda: places.append(new_folder()) or places[-1])
    with pytest.raises(assay.Invalid, match="'nowhere', which cannot be read"):
        opened_outside(tmp_path / "m.onnx")
    assert places and not places[0].exists()


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGKILL])
def test_nothing_is_left_of_a_run_that_is_interrupted(
    tmp_path: Path, pair: tuple[Path, Path], number: signal.Signals
) -> None:
    words = [sys.executable, "-m", "assay", "judge", str(pair[1]), "--backend", "onnxruntime", "--kinds", "random"]
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path), "TMPDIR": str(tmp_path), "OMP_NUM_THREADS": "1"}
    with subprocess.Popen(words, env=env, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as run:
        _until(lambda: any(tmp_path.glob("assay-*/tensors")))
        run.send_signal(number)
        run.wait()
    _until(lambda: not any(tmp_path.glob("assay-*")))  # ONNX Runtime leaves a file of its own


def _until(done: Any) -> None:
    end = time.monotonic() + 60
    while not done():
        assert time.monotonic() < end, "it takes too long"
        time.sleep(0.02)


# --- more than a message holds --------------------------------------------------------------------------------------


@of_linux
@pytest.mark.campaign
def test_a_model_of_more_than_two_gigabytes(tmp_path: Path) -> None:
    """Four weights of 600 MB."""
    wide = write_beside(tmp_path, 12_288, 4)
    assert (tmp_path / "weights.bin").stat().st_size > 1 << 31
    narrow = tmp_path / "narrow"
    narrow.mkdir()
    found = measured(write_beside(narrow, 8, 4), wide)
    assert found["outcome"] == "right"
    assert found["ours"] <= MOST and found["child"] <= MOST, found
