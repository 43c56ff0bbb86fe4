"""A process that answers requests over pipes (specs/verify.md, "Backends").

What it says is bytes to whoever asks: lengths, a description and contents (`assay.verify.backends.channel`), and no
more of them than was said that may come.
"""

from __future__ import annotations

import os
import select
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import IO

from assay.semantics.files import on_disk
from assay.verify import children
from assay.verify.backends.channel import HEAD, lengths

CHILD = "assay.verify.backends.child"
"""The module that is a process in which backends run."""
BEGINNING = 120.0
"""Seconds that a process may take before a backend is asked anything."""

ENDING = 10.0
"""Seconds that a process may take to end, once it answers no more."""


class ProcessGone(Exception):
    """The process has ended: how, and its last words."""


@dataclass(eq=False)
class Talking:
    """A process of the Python that runs this, which is a `module` with `arguments`. It is started by `start`, and again
    after `close`. With `grace`, it may take so many seconds to end by itself."""

    module: str = CHILD
    arguments: Sequence[str] = ()
    grace: float = 0.0
    _process: subprocess.Popen[bytes] | None = field(default=None, init=False, repr=False)
    _errors: IO[bytes] | None = field(default=None, init=False, repr=False)

    @property
    def is_running(self) -> bool:
        """Whether there is a process, and it has not ended."""
        return self._process is not None and self._process.poll() is None

    def start(self) -> None:
        """Start it; one that was there is ended first."""
        self.close()
        path = os.pathsep.join(p or os.getcwd() for p in sys.path)
        with on_disk():
            self._errors = tempfile.TemporaryFile()
            self._process = children.start(
                [sys.executable, "-m", self.module, *self.arguments],
                stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self._errors, bufsize=0,
                env={**os.environ, "PYTHONPATH": path},
            )  # fmt: skip
        assert self._process.stdin is not None
        os.set_blocking(self._process.stdin.fileno(), False)

    def exchange(
        self, request: Sequence[bytes | memoryview], seconds: float, most: int
    ) -> tuple[bytearray, bytearray, bytearray]:
        """Send the parts of a request, and give the head, description and contents of the answer, of `most` bytes at
        most. ProcessGone: it ends before it has answered. TimeoutError: so many seconds are over. Garbled: a longer
        answer.
        """
        process = self._process
        assert process is not None
        deadline = time.monotonic() + seconds
        try:
            for part in request:
                _send(process, part, deadline)
            head = _receive(process, HEAD.size, deadline)
            description, contents = (_receive(process, size, deadline) for size in lengths(head, most))
            return head, description, contents
        except (BrokenPipeError, EOFError):
            raise ProcessGone(self._last_words(process, deadline)) from None

    def close(self) -> None:
        """End the process, if there is one."""
        process, self._process = self._process, None
        errors, self._errors = self._errors, None
        try:
            if process is not None:
                if self.grace and process.stdin is not None:
                    process.stdin.close()
                    with suppress(subprocess.TimeoutExpired):
                        process.wait(self.grace)
                children.end(process)
        finally:
            if errors is not None:
                errors.close()

    def _last_words(self, process: subprocess.Popen[bytes], deadline: float) -> str:
        """How the process has ended, and what it wrote last. One that lives on, and has closed the pipe over which it
        answers, is ended."""
        try:
            code = process.wait(min(ENDING, max(0.0, deadline - time.monotonic())))
            why = f"by signal {signal.Signals(-code).name}" if code < 0 else f"with exit code {code}"
        except subprocess.TimeoutExpired:
            children.end(process)
            why = "unheard: it had closed the pipe over which it answers, and was ended"
        said: list[str] = []
        if self._errors is not None:
            self._errors.seek(0)
            said = self._errors.read().decode("utf-8", "replace").strip().splitlines()
        return why + (f"; its last words: {said[-1][:200]}" if said else "")


def _send(process: subprocess.Popen[bytes], data: bytes | memoryview, deadline: float) -> None:
    assert process.stdin is not None
    left = memoryview(data)
    while left:
        _, ready, _ = select.select([], [process.stdin], [], max(0.0, deadline - time.monotonic()))
        if not ready:
            raise TimeoutError
        left = left[os.write(process.stdin.fileno(), left[: 1 << 16]) :]


def _receive(process: subprocess.Popen[bytes], size: int, deadline: float) -> bytearray:
    assert process.stdout is not None
    parts = bytearray()
    while len(parts) < size:
        ready, _, _ = select.select([process.stdout], [], [], max(0.0, deadline - time.monotonic()))
        if not ready:
            raise TimeoutError
        part = os.read(process.stdout.fileno(), min(size - len(parts), 1 << 20))
        if not part:
            raise EOFError
        parts += part
    return parts
