"""A backend on another machine: `--backend NAME@tcp://HOST:8786` (specs/verify.md, "On another machine")."""

from __future__ import annotations

import asyncio
import json
import os
import pickle
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import numpy_helper, parser

from assay.semantics.errors import Invalid, Unsupported
from assay.verify.app.cli import main
from assay.verify.backends import Isolated, courier, isolated, remote, subject_of_model
from assay.verify.backends.catalogue import split_place, version_of
from assay.verify.backends.channel import HEAD, lengths, pack, unpack
from assay.verify.backends.courier import Refuses, of_said_lengths, refusing
from assay.verify.backends.registry import of_ours, require_known
from tests.verify.backends import couriers
from tests.verify.backends.couriers import Evil

INPUTS = {"x": np.array([[1, 2, 3]], np.float32)}


def small() -> onnx.ModelProto:
    text = "g (float[1,3] x) => (float[1,2] y) { m = MatMul(x, w) y = Relu(m) }"
    model = parser.parse_model(f'<ir_version: 8, opset_import: ["" : 13]>\n{text}')
    weights = np.array([[1, -1], [2, 0.5], [-3, 1]], np.float32)
    model.graph.initializer.append(numpy_helper.from_array(weights, "w"))
    return model


@pytest.fixture
def model(tmp_path: Path) -> Path:
    onnx.save(small(), tmp_path / "m.onnx")
    return tmp_path / "m.onnx"


@pytest.fixture
def without_dask(monkeypatch: pytest.MonkeyPatch) -> None:
    """The courier of `couriers.py` in place of ours."""
    monkeypatch.setattr(isolated, "COURIER", "tests.verify.backends.couriers")


def answer(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], *words: str) -> tuple[int, str, str]:
    """The exit code of a command, and what it wrote."""
    monkeypatch.setattr(sys, "argv", ["assay", *words])
    with pytest.raises(SystemExit) as done:
        main()
    out, err = capsys.readouterr()
    assert "Traceback" not in err
    return int(done.value.code or 0), out, err


def test_names_and_places() -> None:
    assert split_place("onnxruntime:none@tcp://host:8786") == ("onnxruntime:none", "tcp://host:8786")
    assert split_place("onnxruntime:none") == ("onnxruntime:none", "")
    assert of_ours("c:O0@tcp://host:8786") is of_ours("c:O0")
    assert version_of("onnxruntime@tcp://host:8786") == ""  # that of this machine says nothing
    require_known("mine:run@tls://host:8786")
    for name in ("numpy@tcp://host", "numpy@udp://host:1", "numpy@tcp://:1", "numpy@host:8786"):
        with pytest.raises(Invalid, match=r"8786.*backend\.C3"):
            require_known(name)


def test_nothing_that_comes_back_is_run(tmp_path: Path) -> None:
    """The planted fault is a pickle that makes a folder where it is read."""
    evil = pickle.dumps(Evil(str(tmp_path / "made")))
    with pytest.raises(pickle.UnpicklingError, match=r"it names posix.mkdir, and bytes are due"):
        refusing(evil)
    assert not (tmp_path / "made").exists()
    pickle.loads(evil)  # it would have
    assert (tmp_path / "made").exists()
    for harmless in (bytes, b"abc", ("x", 7, None), {"a": [1.5]}):
        assert refusing(pickle.dumps(harmless)) == harmless
    assert issubclass(Refuses, pickle.Unpickler)


def test_a_message_of_other_lengths_than_it_says() -> None:
    good = pack(("done", 1))
    assert of_said_lengths(good) == good
    for bad in (good + b"x", good[:-1], b"", HEAD.pack(1 << 60, 0)):
        made = of_said_lengths(bad)
        assert unpack(*_cut(made))[0] == "garbled"


def _cut(message: bytes) -> tuple[bytes, bytes]:
    description, _ = lengths(message[: HEAD.size], 1 << 20)
    return message[HEAD.size :][:description], message[HEAD.size + description :]


def test_only_of_another_machine_is_it_said_that_it_is_lost() -> None:
    """A process on this machine that says so says nothing."""
    for said, label in ((("late", ""), "C6"), (("lost", "x"), "C5"), (("died", "x"), "C5"), (("absent", "x"), "C12")):
        with pytest.raises((Invalid, Unsupported)) as caught:
            Isolated("numpy@tcp://h:1")._require_journey(said)
        assert caught.value.label == f"backend.{label}"
        Isolated("numpy")._require_journey(said)


def test_a_model_that_is_too_large_does_not_cross(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(isolated, "MOST_CARRIED", 20)
    with pytest.raises(Unsupported, match=r"no more than 2 GB of a model cross to another machine.*backend\.C2"):
        Isolated("numpy@tcp://h:1").prepare(subject_of_model(small()), ["y"])


@pytest.mark.row("R28", "J20")
def test_calls_by_way_of_a_worker(without_dask: None) -> None:
    """The program is compiled there, once, and called there."""
    with Isolated("c:O0@tcp://fine:1", 60.0) as there:
        there.require_installed()
        run = there.prepare(subject_of_model(small()), ["y", "m"])
        for factor in (1, 2):
            given = {n: v * np.float32(factor) for n, v in INPUTS.items()}
            assert run(given)["y"].tolist() == [[0, 3 * factor]] and run(given)["m"].tolist() == [
                [-4 * factor, 3 * factor]
            ]
    with Isolated("numpy@tcp://dies-4:1", 60.0) as there:  # hello, prepare, one run, and the next
        run = there.prepare(subject_of_model(small()), ["y"])
        assert run(INPUTS)["y"].tolist() == [[0, 3]]
        with pytest.raises(Unsupported, match=r"died: the worker at tcp://dies-4:1 has ended.*backend\.C5"):
            run(INPUTS)
        assert run(INPUTS)["y"].tolist() == [[0, 3]]  # it is there again, and has prepared again
        there.name = "nobody_has@tcp://dies-4:1"
        with pytest.raises(Invalid, match=r"at tcp://dies-4:1: no backend 'nobody_has'.*backend\.C3"):
            there.require_installed()
        there.name, there.seconds = "numpy@tcp://dies-4:1", 60.0


def asked(address: str, times: int = 1) -> list[tuple[str, ...]]:
    """What the courier answers to a request, again and again."""
    one = couriers.made(address, 60.0)

    async def all_of_them() -> list[tuple[str, ...]]:
        return [unpack(*_cut(await one.answer(pack(("hello",))))) for _ in range(times)]

    return asyncio.run(all_of_them())


@pytest.fixture
def alike(monkeypatch: pytest.MonkeyPatch) -> None:
    """A worker whose process answers alike, and nobody waits for whom there is not."""
    monkeypatch.setattr(remote, "answered", lambda *request: pack(("done", None)))
    monkeypatch.setattr(courier, "FIRST", 0.0)
    monkeypatch.setattr(couriers.Comm, "answers", 0)
    monkeypatch.setattr(couriers.Comm, "lives", 0)


def test_what_a_worker_may_answer(alike: None) -> None:
    """Each is an outcome of that request, and the next one is answered as it should be."""
    for wrong, tag, words in (
        ("dies-2", "lost", "the worker at tcp://dies-2:1 has ended or cannot be reached: CommClosedError('in <TCP>')"),
        ("cut-2", "lost", "the worker at tcp://cut-2:1, or its scheduler, has ended"),
        (
            "unreadable-2",
            "lost",
            "what tcp://unreadable-2:1 says cannot be read: it names posix.mkdir, and bytes are due",
        ),
        ("short-2", "garbled", "what the worker answers has not the lengths that it says"),
        ("odd-2", "garbled", "the worker answers what is no message"),
    ):
        couriers.Comm.answers = 0
        first, found, last = asked(f"tcp://{wrong}:1", 3)
        assert first == last == ("done", None) and found == (tag, words)


@pytest.mark.parametrize(
    ("place", "words"),
    [
        ("nobody", "no scheduler answers"),
        ("empty", "the scheduler has no worker; start one there: dask worker tcp://empty:1"),
        ("worker", "give the address of the scheduler, not of a worker"),
        ("list", "give the address of the scheduler, not of a worker"),
        ("none", "give the address of the scheduler, not of a worker"),
        ("number", "the scheduler has no worker"),
        ("address", "the scheduler has no worker"),
        ("bare", "Assay is not installed at the worker"),
        ("other", "Assay at the worker tcp://worker:0 is not that from here"),
        ("older", "here: install the same on both"),
    ],
)
def test_nobody_there(place: str, words: str, alike: None) -> None:
    ((tag, said),) = asked(f"tcp://{place}:1")
    assert tag == "absent" and words in said


def test_the_same_by_the_command_line(
    without_dask: None, model: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A worker that dies on one set of inputs: that one *died*, the others are judged, and the exit code is 1."""
    words = ("judge", str(model), "--json", "--backend", "numpy@tcp://dies-6:1", "--sound-only")
    code, out, _ = answer(monkeypatch, capsys, *words)
    (verdict,) = json.loads(out)["backends"]
    outcomes = [s["outcome"] for s in verdict["samples"]]
    assert code == 1 and outcomes.count("died") == 1 and outcomes.count("right") == len(outcomes) - 1


def test_nobody_there_by_the_command_line(
    without_dask: None, model: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    code, _, err = answer(monkeypatch, capsys, "judge", str(model), "--backend", "numpy@tcp://older:1")
    assert code == 2 and "numpy@tcp://older:1: Assay there is" in err and "[backend.C12]" in err


def test_without_the_extra(
    model: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    (tmp_path / "distributed.py").write_text("raise ImportError('none')")
    monkeypatch.syspath_prepend(tmp_path)
    code, _, err = answer(monkeypatch, capsys, "judge", str(model), "--backend", "numpy@tcp://h:1")
    assert code == 2 and "pip install 'assay[cluster]'" in err and "[backend.C12]" in err


def test_what_nobody_asks_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    """A courier that was killed says no more; its process ends when another one asks."""
    request = pack(("hello",))
    remote.answered("one", request, 60.0, 1 << 20)
    late = unpack(*_cut(remote.answered("one", pack(("describe", "numpy")), 1e-6, 1 << 20)))
    assert late == ("late", "")
    remote.answered("one", request, 60.0, 1 << 20)
    first = remote._served["one"].process
    monkeypatch.setattr(remote, "IDLE", -1.0)
    remote.answered("two", request, 60.0, 1 << 20)
    assert not first.is_running and set(remote._served) == {"two"}
    remote._end("two")
    assert not remote._served


# --- by Dask


def free_port() -> int:
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return int(one.getsockname()[1])


class Machine:
    """A scheduler and one worker on the loopback address, each a process."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.address = folder, f"tcp://127.0.0.1:{free_port()}"
        self.processes: dict[str, subprocess.Popen[bytes]] = {}

    def start(self, what: str) -> None:
        """Start the scheduler or the worker."""
        port = self.address.rpartition(":")[2]
        words = {
            "scheduler": ("scheduler", "--host", "127.0.0.1", "--port", port),
            "worker": ("worker", self.address, "--nworkers", "1", "--nthreads", "1", "--no-nanny"),
        }[what]
        path = os.pathsep.join(p or os.getcwd() for p in sys.path)
        self.processes[what] = subprocess.Popen(
            [sys.executable, "-m", "dask", *words, "--no-dashboard"], cwd=self.folder, start_new_session=True,
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, env={**os.environ, "PYTHONPATH": path},
        )  # fmt: skip

    def kill(self, what: str) -> None:
        """End one of them at once, with what it has started."""
        process = self.processes.pop(what)
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()


@pytest.fixture
def machine(tmp_path: Path) -> Iterator[Machine]:
    pytest.importorskip("distributed", reason="Dask is not installed; pip install 'assay[cluster]'")
    made = Machine(tmp_path)
    for what in ("scheduler", "worker"):
        made.start(what)
    try:
        yield made
    finally:
        for what in list(made.processes):
            made.kill(what)


SLOW = """
import os
import time

import numpy as np


def run(model, inputs):
    with open("begun", "a") as file:
        file.write("x")
    while os.path.exists("hold"):
        time.sleep(0.05)
    m = inputs["x"] @ np.array([[1, -1], [2, 0.5], [-3, 1]], np.float32)
    return {"y": np.maximum(m, 0)}
"""


def assay(*words: str, folder: Path) -> subprocess.Popen[str]:
    path = os.pathsep.join(p or os.getcwd() for p in sys.path)
    return subprocess.Popen(
        [sys.executable, "-m", "assay", *words], cwd=folder, text=True, stdout=subprocess.PIPE,
        stderr=subprocess.PIPE, env={**os.environ, "PYTHONPATH": path},
    )  # fmt: skip


def wait_for(what: Any, seconds: float = 60.0) -> None:
    end = time.monotonic() + seconds
    while not what():
        assert time.monotonic() < end, "it does not come"
        time.sleep(0.05)


@pytest.mark.peer
@pytest.mark.slow
@pytest.mark.row("R28")
@pytest.mark.parametrize("dying", [("worker",), ("scheduler", "worker")])
def test_what_dies_and_comes_back(machine: Machine, model: Path, tmp_path: Path, dying: tuple[str, ...]) -> None:
    """By the command line: a function that the worker's machine alone has; the worker, and its scheduler too, are
    killed while it runs, and come back. That set of inputs *died*, all others are judged, the exit code is 1."""
    (tmp_path / "slow.py").write_text(SLOW)
    (tmp_path / "hold").touch()
    (tmp_path / "here").mkdir()
    who = f"slow:run@{machine.address}"
    judging = assay("judge", str(model), "--backend", who, "--json", folder=tmp_path / "here")
    wait_for((tmp_path / "begun").exists)
    for what in dying:
        machine.kill(what)
    (tmp_path / "hold").unlink()
    for what in dying:
        machine.start(what)
    out, err = judging.communicate(timeout=120)
    (verdict,) = json.loads(out)["backends"]
    outcomes = [s["outcome"] for s in verdict["samples"]]
    assert judging.returncode == 1 and outcomes.count("died") == 1, (outcomes, err)
    assert outcomes.count("right") == len(outcomes) - 1 > 3


@pytest.mark.peer
@pytest.mark.slow
@pytest.mark.row("R28")
def test_every_command_takes_such_a_name(machine: Machine, model: Path, tmp_path: Path) -> None:
    who = f"numpy@{machine.address}"
    for words, said in (
        (("judge", str(model)), "is right on"),
        (("check", str(model), "--stop-after", "import"), "numpy@tcp:"),
        (("conform", "--suite", "onnx", "--only", "test_relu", "--jobs", "1"), "right"),
        (("fuzz", "--examples", "5", "--ops", "Relu,Add", "--jobs", "1"), "right"),
    ):
        done = assay(*words, "--backend", who, folder=tmp_path)
        out, err = done.communicate(timeout=120)
        assert done.returncode == 0 and said in out, (words, out, err)


@pytest.mark.peer
@pytest.mark.slow
def test_an_interrupt_ends_what_runs_there(machine: Machine, model: Path, tmp_path: Path) -> None:
    (tmp_path / "slow.py").write_text(SLOW)
    (tmp_path / "hold").touch()
    judging = assay("judge", str(model), "--backend", f"slow:run@{machine.address}", folder=tmp_path)
    wait_for((tmp_path / "begun").exists)
    judging.send_signal(signal.SIGINT)
    judging.communicate(timeout=30)
    assert judging.returncode == 130
