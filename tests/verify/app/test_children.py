"""Whatever ends a run, no child and no temporary folder outlives it: an interrupt, SIGTERM, SIGKILL; in a compiler, in
a backend."""

from __future__ import annotations

import contextlib
import gc
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import Any

import onnx
import pytest

from assay.verify import children
from assay.verify.app.cli import main
from tests.models import mesh

ENDS = {signal.SIGINT: 130, signal.SIGTERM: 143, signal.SIGHUP: 143, signal.SIGKILL: -signal.SIGKILL}


def until(what: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 15
    while not what():
        assert time.monotonic() < deadline, "waited for 15 seconds"
        time.sleep(0.01)


def command(*words: object) -> int:
    """`assay` in a process that is forked from this one: its number."""
    pid = os.fork()
    if pid:
        return pid
    code = 99
    signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell's background jobs begin with it ignored
    signal.signal(signal.SIGHUP, signal.SIG_DFL)  # so do those of nohup
    signal.alarm(120)  # whatever else goes wrong, nobody waits for this process without end
    try:
        sys.argv = ["assay", *map(str, words)]
        main()
    except SystemExit as done:
        code = int(done.code or 0)
    finally:
        os._exit(code)


def descendants(pid: int) -> set[int]:
    """Those whose session was begun by a child of `pid`, but for its guard, which goes when its work is done."""
    found = set()
    for entry in Path("/proc").iterdir():
        try:
            row = (entry / "stat").read_text().rpartition(")")[2].split()
            guard = b"trap" in (entry / "cmdline").read_bytes()
        except (OSError, NotADirectoryError):
            continue
        if int(row[1]) == pid and not guard:
            found.add(int(entry.name))
    return found


def is_gone(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
    except OSError:
        return True


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where temporary folders go."""
    (tmp_path / "t").mkdir()
    monkeypatch.setenv("TMPDIR", str(tmp_path / "t"))
    monkeypatch.setattr("tempfile.tempdir", None)
    onnx.save(mesh(4), tmp_path / "m.onnx")
    return tmp_path


def end(pid: int, number: signal.Signals, place: Path, others: set[int]) -> None:
    os.kill(pid, number)
    _, status = os.waitpid(pid, 0)
    assert os.waitstatus_to_exitcode(status) == ENDS[number]
    until(lambda: all(map(is_gone, others)) and not list((place / "t").iterdir()))


@pytest.mark.parametrize("number", ENDS)
def test_in_a_compiler(number: signal.Signals, place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    compiler = place / "compiler"
    compiler.write_text(f"#!/bin/sh\nsleep 600 &\necho $$ $! > {place}/new; mv {place}/new {place}/pids\nwait\n")
    compiler.chmod(0o755)
    monkeypatch.setenv("CC", str(compiler))
    pid = command("check", place / "m.onnx")
    until((place / "pids").exists)
    assert list((place / "t").iterdir()), "there is something to remove"
    end(pid, number, place, {int(n) for n in (place / "pids").read_text().split()})


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
def test_in_a_backend(number: signal.Signals, place: Path) -> None:
    pid = command("check", place / "m.onnx", "--backend", "reference")
    found: set[int] = set()

    def started() -> bool:
        for p in descendants(pid):
            with contextlib.suppress(OSError):  # one that has ended since, such as a compiler
                if b"backends.child" in Path(f"/proc/{p}/cmdline").read_bytes():
                    found.add(p)
        return bool(found)

    until(started)
    end(pid, number, place, found)


def test_a_child_that_leaves_others_behind(place: Path) -> None:
    """One that ends by itself, and well: what it started ends too."""
    done = children.run_child(["/bin/sh", "-c", "sleep 600 > /dev/null 2> /dev/null & echo $!"], seconds=60.0)
    assert done.returncode == 0
    until(lambda: is_gone(int(done.stdout)))


def test_the_guard_ends_what_this_run_started_and_nothing_else(place: Path) -> None:
    """Whether or not the run has noted it yet: planted, a child that nobody has noted."""
    other = subprocess.Popen(["sleep", "600"], start_new_session=True, env={children.MARK: "1-0123456789abcdef"})
    pid = os.fork()
    if pid == 0:
        mine = children.start(["sleep", "600"])
        (place / "mine").write_text(str(mine.pid))
        os.kill(os.getpid(), signal.SIGKILL)
    os.waitpid(pid, 0)
    until(lambda: is_gone(int((place / "mine").read_text())))
    time.sleep(0.5)
    assert other.poll() is None
    other.kill()
    other.wait()


@pytest.mark.filterwarnings(
    "ignore::pytest.PytestUnraisableExceptionWarning", "ignore::ResourceWarning"
)  # pipes of a Popen that was interrupted
def test_an_interrupt_at_any_moment_leaves_nothing(tmp_path: Path) -> None:
    """Each line that is run when a folder is made and a child runs in it is interrupted once."""

    def work() -> None:
        with children.nothing_left(), children.folder() as place:
            (place / "file").write_text("")
            children.run_child(["/bin/sh", "-c", "exit"], seconds=60.0)

    work()  # the guard is there
    before, moments = set(children._folders), 0
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("tempfile.tempdir", str(tmp_path))
        while interrupted(work, moments):
            moments += 7  # a stride that meets no period of the loops in it
            assert not children._children and children._folders <= before and not list(tmp_path.iterdir()), moments
    assert moments > 300
    gc.collect()  # those pipes, while nobody minds


def interrupted(work: Callable[[], None], moment: int) -> bool:
    """Whether `work` has so many lines that it was interrupted."""
    left = moment

    def trace(frame: FrameType, event: str, _: Any) -> Any:
        nonlocal left
        if event == "line":
            left -= 1
            if left == -1:
                children.interrupt(KeyboardInterrupt())
        return trace

    old = sys.gettrace()
    sys.settrace(trace)
    try:
        work()
    except KeyboardInterrupt:
        return True
    finally:
        sys.settrace(old)
    return left < 0


def test_a_child_that_nobody_waits_for_yet_leaves_no_pipe_open() -> None:
    """An interrupt comes between its start and who waits for it."""
    begun: list[subprocess.Popen[bytes]] = []
    with pytest.raises(KeyboardInterrupt), children.nothing_left():
        begun.append(children.begin_child(["sleep", "600"]))
        raise KeyboardInterrupt
    (child,) = begun
    assert child.returncode == -signal.SIGKILL
    assert child.stdout is not None and child.stdout.closed
    assert child.stderr is not None and child.stderr.closed
