"""Commands without what other systems do not have (specs/verify.md, "Platforms").

Python is started without the names that Windows, or macOS, does not have, in every child too. That shows which commands
do without them; it does not show that those systems' own ways work.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import onnx
import pytest
from onnx import TensorProto, helper

from tests.places import ROOT

WITHOUT_PROC = """
import builtins, io, os
def without(real):
    def opened(path, *given, **named):
        if isinstance(path, (str, bytes, os.PathLike)) and os.fsdecode(path).startswith("/proc"):
            raise FileNotFoundError(2, "No such file or directory", os.fsdecode(path))
        return real(path, *given, **named)
    return opened
builtins.open, io.open, os.listdir = without(open), without(io.open), without(os.listdir)
isdir = os.path.isdir
os.path.isdir = lambda path: not str(path).startswith("/proc") and isdir(path)
del os.sched_getaffinity, os.sched_setaffinity
"""
WITHOUT_POSIX = """
import asyncio, concurrent.futures, ctypes, importlib.metadata, inspect, logging, multiprocessing, multiprocessing.util
import pathlib, platform, selectors, shutil, signal, socket, subprocess, sys, tempfile, threading, uuid
import numpy
for name in ("fcntl", "grp", "pty", "pwd", "resource", "syslog", "termios", "tty"):
    sys.modules[name] = None
for home, names in (
    (os, "O_CLOEXEC O_DIRECTORY O_NOFOLLOW O_NONBLOCK chown fchmod fchown fork forkpty getegid geteuid getgid getpgid"
         " getpgrp getpriority getuid killpg mkfifo nice posix_fadvise posix_fallocate pread pwrite register_at_fork"
         " setpgid setpriority setsid sysconf uname wait wait3 wait4 waitid"),
    (signal, "SIGALRM SIGHUP SIGPIPE SIGQUIT SIGUSR1 SIGUSR2 alarm pthread_kill pthread_sigmask setitimer"),
):
    for name in names.split():
        delattr(home, name)
for name in ("SIGALRM", "SIGHUP", "SIGPIPE", "SIGQUIT", "SIGUSR1", "SIGUSR2"):
    signal.Signals._member_map_.pop(name)
"""
SYSTEMS = {"macos": WITHOUT_PROC, "windows": WITHOUT_PROC + WITHOUT_POSIX}


@pytest.fixture(params=sorted(SYSTEMS))
def system(request: pytest.FixtureRequest, tmp_path: Path) -> tuple[str, Path]:
    """A system, and a folder with a model and what Python is told when it starts."""
    (tmp_path / "sitecustomize.py").write_text(SYSTEMS[request.param])
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, [2, 3])
    y = helper.make_tensor_value_info("y", TensorProto.FLOAT, [2, 3])
    graph = helper.make_graph([helper.make_node("Relu", ["x"], ["y"])], "g", [x], [y])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    onnx.save(model, str(tmp_path / "m.onnx"))
    return request.param, tmp_path


def command(place: Path, *words: str) -> tuple[int, str]:
    """The exit code of a command there, and all that it wrote."""
    path = os.pathsep.join([str(place), str(ROOT / ".src")])
    done = subprocess.run(
        [sys.executable, "-m", "assay", *words], check=False, cwd=place, capture_output=True, text=True,
        env={**os.environ, "PYTHONPATH": path, "NO_COLOR": "1"}, timeout=300,
    )  # fmt: skip
    return done.returncode, done.stdout + done.stderr


@pytest.mark.slow
def test_a_model_is_judged(system: tuple[str, Path]) -> None:
    """In a process of its own, whose memory nobody tells."""
    code, said = command(system[1], "judge", "m.onnx", "--backend", "numpy", "--kinds", "random", "--memory", "4G")
    assert code == 0, said
    assert "numpy is right on" in said and "Traceback" not in said and "Error" not in said


@pytest.mark.slow
@pytest.mark.parametrize("system", ["windows"], indirect=True)
def test_a_model_is_lowered_and_its_certificate_verified(system: tuple[str, Path]) -> None:
    _, place = system
    code, said = command(place, "build", "m.onnx", "--vm", "-o", "m.assay", "--quiet")
    assert code == 0 and "Traceback" not in said, said
    assert command(place, "verify", "m.assay", "--quiet")[0] == 0
    code, said = command(place, "verify", str(place))
    assert code == 6 and "[certificate.C7]" in said, said
    code, said = command(place, "run", "m.onnx", "--kernels", "interpreted", "--kernel-store", "kept")
    assert code == 6 and "[kernels.C5]" in said, said


@pytest.mark.slow
@pytest.mark.parametrize("system", ["windows"], indirect=True)
def test_time_that_is_up_ends_a_run(system: tuple[str, Path]) -> None:
    code, said = command(system[1], "check", "m.onnx", "--timeout", "0.3")
    assert code == 6 and "[budget.C2]" in said and "Traceback" not in said, said
