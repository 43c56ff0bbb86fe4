"""Other processes and temporary folders, none of which outlives this process (specs/verify.md, "Budgets").

    with folder() as place: done = run([...], cwd=place, seconds=60.0)

Each child has a session of its own and is ended with all that it started. A guard, a shell that waits for the end of a
pipe, ends the children and removes the folders of a process that was killed or has crashed. Where there is no such
shell, as on Windows, or no /proc, as on macOS, what a killed process has started ends by itself or is left.
"""

from __future__ import annotations

import atexit
import os
import secrets
import shutil
import signal
import subprocess
import tempfile
import threading
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence, Set
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

MARK = "ASSAY_RUN"
"""The environment variable by which the guard knows those that this process has started, and what they have."""

_GUARD = """trap '' INT TERM HUP PIPE
mark=$1
shift
while IFS= read -r place; do set -- "$@" "$place"; done
for again in 1 2; do
    for found in $(grep -als "$mark" /proc/[0-9]*/environ); do
        pid=${found#/proc/}
        kill -9 "${pid%/environ}"
    done
    sleep 0.2 # one that was just being started
done
for place; do rm -rf -- "$place"; done
"""

CAN_FORK = hasattr(os, "fork") and hasattr(os, "killpg")
"""Whether this process can be forked."""


@dataclass
class Forked:
    """A child that was forked, with the names that `subprocess.Popen` has. `begun` is the memory that it had then, in
    bytes, which is its parent's until one of them writes to it."""

    pid: int
    returncode: int | None = None
    begun: int = 0


_guards: dict[int, subprocess.Popen[bytes]] = {}
"""The guard of each process: one that was forked has another than its parent."""
_TOKEN = secrets.token_hex(8)
_children: dict[int, subprocess.Popen[bytes] | Forked] = {}
_folders: set[Path] = set()
_held = 0
_waiting: list[BaseException] = []
"""The interrupts that came while something was done that has to be done to its end."""


def _mark() -> str:
    """What is in the environment of all that this process starts, and of nothing else."""
    return f"{os.getpid()}-{_TOKEN}"


def _guard() -> subprocess.Popen[bytes] | None:
    """The guard of this process, which is started where there is none; None without a shell of POSIX."""
    guard = _guards.get(os.getpid())
    if guard is None and hasattr(os, "killpg"):
        guard = subprocess.Popen(
            ["/bin/sh", "-c", _GUARD, "guard", f"{MARK}={_mark()}"], stdin=subprocess.PIPE, stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            bufsize=0, start_new_session=True, cwd="/",
            env={"PATH": os.environ.get("PATH", os.defpath)},
        )  # fmt: skip
        _guards[os.getpid()] = guard
        atexit.register(_dismiss, guard)
    return guard


def _dismiss(guard: subprocess.Popen[bytes]) -> None:
    """At an ordinary end there is nothing left to guard."""
    if _guards.get(os.getpid()) is guard:
        end_all()
        guard.kill()
        guard.wait()
        if guard.stdin is not None:
            guard.stdin.close()


def interrupt(wrong: BaseException) -> None:
    """Raise it; where something is done that may not be left half done (`uninterrupted`), raise it when that is done.
    What a handler of signals calls."""
    if not _held:
        raise wrong
    _waiting.append(wrong)


@contextmanager
def uninterrupted() -> Iterator[None]:
    """What is done within is done to its end, whatever interrupts it. Signals interrupt the main thread only."""
    global _held
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    _held += 1
    try:
        yield
    finally:
        _held -= 1
        if not _held and _waiting:
            wrong = _waiting[0]
            _waiting.clear()
            raise wrong


@contextmanager
def nothing_left() -> Iterator[None]:
    """Where this is left by an error or an interrupt, the children that were started within it and the folders that
    were made have ended: an interrupt may come between the making of one and the `try` that would end it."""
    children, folders = set(_children), set(_folders)
    try:
        yield
    except SystemExit:
        raise
    except BaseException:
        with uninterrupted():
            end_all(children, folders)
        raise


def new_folder(prefix: str = "assay-", parent: Path | None = None) -> Path:
    """A temporary folder, for `remove_folder`."""
    with uninterrupted():
        place = Path(tempfile.mkdtemp(prefix=prefix, dir=parent))
        _folders.add(place)
        guarded(place)
    return place


def guarded(place: Path) -> None:
    """A file or folder that goes if this process is killed."""
    guard = _guard()
    if "\n" not in str(place) and guard is not None and guard.stdin is not None:
        with suppress(BrokenPipeError, ValueError):  # it was killed, or this process is at its end
            guard.stdin.write(f"{place.absolute()}\n".encode("utf-8", "surrogateescape"))


def remove_folder(place: Path) -> None:
    """Delete a temporary folder with its contents; failures are ignored."""
    with uninterrupted():
        shutil.rmtree(place, ignore_errors=True)
        _folders.discard(place)


@contextmanager
def folder() -> Iterator[Path]:
    """A temporary folder that is gone behind this."""
    place = new_folder()
    try:
        yield place
    finally:
        remove_folder(place)


def start(words: Sequence[str], **options: Any) -> subprocess.Popen[bytes]:
    """A child in a session of its own, for `end`. Options as of `subprocess.Popen`."""
    _guard()
    env = {**(options.pop("env", None) or os.environ), MARK: _mark()}
    with uninterrupted():
        child = subprocess.Popen(words, start_new_session=True, env=env, **options)
        _children[child.pid] = child
    return child


def fork(life: Callable[[], None]) -> Forked:
    """A child that has all that this process has, does `life` and ends, in a session of its own; for `end`. Where this
    process is killed it ends when `life` does."""
    with uninterrupted(), warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # of other threads: they watch, and hold no lock for long
        pid = os.fork()
        if pid:
            _children[pid] = made = Forked(pid, begun=own_memory())
            return made
        code = 1
        try:
            os.setsid()
            signal.signal(signal.SIGINT, signal.SIG_IGN)
            for number in (signal.SIGTERM, signal.SIGHUP):
                signal.signal(number, signal.SIG_DFL)
            life()
            code = 0
        finally:
            os._exit(code)


def end(child: subprocess.Popen[bytes] | Forked) -> None:
    """End a child and all that it started, and close its pipes. One that has ended by itself may have left others
    behind."""
    with uninterrupted():
        if isinstance(child, subprocess.Popen):
            _close_pipes(child)
        if _children.pop(child.pid, None) is None and child.returncode is not None:
            return
        if isinstance(child, subprocess.Popen) and not hasattr(os, "killpg"):
            # no sessions: what it has started itself is left
            child.kill()
            child.wait()
            return
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(child.pid, signal.SIGKILL)
        if child.returncode is None:  # not `child.wait()`: an interrupt may have left its lock closed
            status = -signal.SIGKILL
            with suppress(ProcessLookupError, ChildProcessError):
                os.kill(child.pid, signal.SIGKILL)
                status = os.waitstatus_to_exitcode(os.waitpid(child.pid, 0)[1])
            child.returncode = status


def _close_pipes(child: subprocess.Popen[bytes]) -> None:
    """An interrupt may come between a child's start and who waits for it, and again behind its end."""
    for pipe in (child.stdin, child.stdout, child.stderr):
        if pipe is not None:
            with suppress(OSError, RuntimeError):  # it may stand in the middle of a write
                pipe.close()


def run_child(
    words: Sequence[str], *, seconds: float, cwd: Path | None = None, env: Mapping[str, str] | None = None
) -> subprocess.CompletedProcess[bytes]:
    """Run a command to its end, standard input empty; its exit code and all that it wrote.
    subprocess.TimeoutExpired."""
    return finish_child(begin_child(words, cwd=cwd, env=env), words, seconds=seconds)


def begin_child(
    words: Sequence[str], *, cwd: Path | None = None, env: Mapping[str, str] | None = None
) -> subprocess.Popen[bytes]:
    """Begin a command that runs beside this process, for `finish_child` or `end`."""
    return start(words, cwd=cwd, env=env, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE)


def finish_child(
    child: subprocess.Popen[bytes], words: Sequence[str], *, seconds: float
) -> subprocess.CompletedProcess[bytes]:
    """Wait for a command's end, as `run_child` does."""
    with child:
        try:
            out, err = child.communicate(timeout=seconds)
        finally:
            end(child)
    return subprocess.CompletedProcess(words, child.returncode, out, err)


def cores() -> int:
    """How many processes of one's own run side by side: the cores that this one may use, or, where that is not told,
    all."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def in_use() -> int:
    """The memory of all children and of what they started, in bytes, as far as it is told: of one that was forked what
    it has more than it began with."""
    if not _children:
        return 0
    sessions, total = dict(_children), 0
    for entry in os.listdir("/proc") if os.path.isdir("/proc") else ():
        if entry.isdecimal():
            session, used = _memory(entry)
            if session in sessions:
                begun = getattr(sessions[session], "begun", 0) if int(entry) == session else 0
                total += max(0, used - begun)
    return total


def _memory(entry: str) -> tuple[int, int]:
    """The session of a process, and the bytes that it has in memory; 0 where it is not told."""
    with suppress(OSError, ValueError, IndexError):
        with open(f"/proc/{entry}/stat", "rb") as file:
            row = file.read().rpartition(b")")[2].split()
        return int(row[3]), int(row[21]) * os.sysconf("SC_PAGE_SIZE")
    return 0, 0


def own_memory() -> int:
    """The memory of this process that is not a file's, in bytes; 0 where it is not told."""
    try:
        with open("/proc/self/statm", "rb") as file:
            row = file.read().split()
        return (int(row[1]) - int(row[2])) * os.sysconf("SC_PAGE_SIZE")
    except (OSError, ValueError, IndexError):
        return 0


def _forked() -> None:
    """A process that was forked has none of its parent's."""
    _children.clear()
    _folders.clear()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forked)


def end_all(but: Set[int] = frozenset(), keep: Set[Path] = frozenset()) -> None:
    """End every child `but` those and remove every folder that is not to be kept: this process, or its command, is
    about to end at once."""
    for pid, child in list(_children.items()):
        if pid not in but:
            end(child)
    for place in _folders - keep:
        remove_folder(place)
