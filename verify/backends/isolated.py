"""A backend in a process of its own, so that it may die (specs/verify.md, "Backends").

    with Isolated("onnxruntime", seconds=10.0) as backend:
        outcome = attempt(backend, subject, subject.outputs, inputs)

The process stays for the next program. One that dies or takes too long is replaced when it is next wanted.
"""

from __future__ import annotations

import os
import re
import select
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import count
from types import TracebackType
from typing import IO, Any

import onnx

from assay.lower.frontends.onnx.outside import files_of
from assay.semantics.errors import AssayError, Crash, EnvironmentFailure, Invalid, Trap, Unsupported
from assay.semantics.files import on_disk
from assay.semantics.types import TensorType
from assay.verify import children
from assay.verify.backends.channel import HEAD, Garbled, lengths, packed, unpack
from assay.verify.backends.protocol import (
    ABSENT,
    OUTCOMES,
    Array,
    Crashed,
    Crossed,
    Prepared,
    Subject,
    UnreadSubject,
    cannot,
    without_words,
)
from assay.verify.backends.registry import of_ours, require_known
from assay.verify.oracle.declarations import Accepts

LARGEST = 1 << 34
"""Bytes of the longest answer that is taken."""
BEGINNING = 120.0
"""Seconds that a process may take before a backend is asked anything."""
_LABEL = re.compile(r"[a-z_0-9.]{1,40}\.[A-Z][0-9]{1,3}")


@dataclass(eq=False)
class Isolated:
    """The backend of a name, in another process. `seconds` is how long one answer may take.

    Raises what the backend raises, and Unsupported where its process died (backend.C5), took too long (backend.C6), or
    answers what is no answer (backend.C9). The program goes there as its ONNX model, and only names, texts and arrays
    come back: the process is not trusted. A backend of another package is imported there, and not here.
    """

    name: str
    seconds: float = 60.0
    _process: subprocess.Popen[bytes] | None = field(default=None, init=False, repr=False)
    _errors: IO[bytes] | None = field(default=None, init=False, repr=False)
    _numbers: Any = field(default_factory=count, init=False, repr=False)

    @cached_property
    def accepts(self) -> Accepts:
        """The freedoms that the backend declares. Invalid: what has this name is no backend (backend.C4), or there is
        none of this name (backend.C3)."""
        if (ours := of_ours(self.name)) is not None:
            return Accepts.of(getattr(ours, "accepts", None))
        match self._ask(("describe", self.name)):
            case {"accepts": dict(said)}:
                try:
                    return Accepts.of(said)
                except Invalid as wrong:
                    raise self._garbled(wrong.message) from None
            case _:
                raise self._garbled("it does not say what it accepts")

    def require(self) -> None:
        """Invalid: there is no backend of this name (backend.C3), or who registers it gives none (backend.C4). One that
        cannot say it, because its process dies, is one."""
        require_known(self.name)
        try:
            _ = self.accepts
        except Invalid as wrong:
            if wrong.label not in OUTCOMES:
                raise

    def require_installed(self) -> None:
        """The same, and Invalid where its tool is not installed (backend.C1), or has not the passes that its name lists
        (backend.C3): it is asked for next to nothing. Whatever else it says to that, it says of any program too."""
        self.require()
        x, y = (onnx.helper.make_tensor_value_info(n, 1, [1]) for n in "xy")
        least = onnx.helper.make_graph([onnx.helper.make_node("Neg", ["x"], ["y"])], "least", [x], [y])
        model = onnx.helper.make_model(least, opset_imports=[onnx.helper.make_opsetid("", 13)], ir_version=8)
        try:
            self.prepare(UnreadSubject(model, {}), ["y"])
        except AssayError as why:
            if why.label in ABSENT:
                raise

    def prepare(self, subject: Subject, wanted: Sequence[str]) -> Prepared:
        """Prepare in the other process; a run prepares once more if that process has been replaced."""
        number = next(self._numbers)
        model = subject.model
        files = list(files_of(model))
        data, dims = model.SerializeToString(), dict(subject.dims)
        form = (self._text(subject), subject.original)
        why = without_words(model)
        if why and not form[0] and not (subject.original and getattr(of_ours(self.name), "takes_originals", False)):
            raise cannot(self.name, why)
        request = ("prepare", number, self.name, data, dims, list(wanted), files, *form)
        self._ask(request)
        most = _longest(subject, wanted)

        def run(inputs: Mapping[str, Array]) -> dict[str, Array]:
            answer = self._ask(("run", number, dict(inputs)), most)
            if answer is None:  # it is another process by now, or it has prepared much else
                self._ask(request)
                answer = self._ask(("run", number, dict(inputs)), most)
            if not isinstance(answer, dict) or any(isinstance(v, (bytes, bool, int, str)) for v in answer.values()):
                raise self._garbled("no tensors by name")
            return answer

        return Crossed(run)

    def _text(self, subject: Subject) -> str:
        """The module as text, where it is the program and the backend takes modules; else ""."""
        if not subject.is_exported or not getattr(of_ours(self.name), "takes_modules", False):
            return ""
        from assay.semantics.text.module_text import show

        return show(subject.module)

    def close(self) -> None:
        """End the process, if there is one."""
        process, self._process = self._process, None
        errors, self._errors = self._errors, None
        try:
            if process is not None:
                children.end(process)
        finally:
            for pipe in (errors, *((process.stdin, process.stdout) if process is not None else ())):
                if pipe is not None:
                    pipe.close()

    def __enter__(self) -> Isolated:
        return self

    def __exit__(self, kind: type[BaseException] | None, wrong: BaseException | None, at: TracebackType | None) -> None:
        self.close()

    def __del__(self) -> None:
        self.close()

    # --- talking

    def _ask(self, request: tuple[Any, ...], most: int = LARGEST) -> Any:
        """The answer to one request, of so many bytes at most."""
        process = self._running()
        match self._answer(process, request, self.seconds, most):
            case ("done", value):
                return value
            case ("invalid", str(message), str(label), bool(unsupported)):
                known = label if _LABEL.fullmatch(label) else ""
                raise (Unsupported if unsupported else Invalid)(message, label=known)
            case ("crashed", str(message), str(raised), str(place)):
                raise Crashed(message, raised, place)
            case ("trap", str(kind), str(message)):
                raise Trap(kind, message)
            case ("environment", str(message), str(label)) if of_ours(self.name) is not None:
                raise EnvironmentFailure(message, label=label)
            case ("crash", str(message)) if of_ours(self.name) is not None:
                raise Crash(f"the backend {self.name} in its process: {message}")
            case _:
                raise self._garbled("neither tensors nor a reason")

    def _answer(
        self, process: subprocess.Popen[bytes], request: tuple[Any, ...], seconds: float, most: int = LARGEST
    ) -> Any:
        """What the process answers, whatever that is."""
        deadline = time.monotonic() + seconds
        try:
            for part in packed(request):
                self._send(process, part, deadline)
            sizes = lengths(self._receive(process, HEAD.size, deadline), most)
            return unpack(*(self._receive(process, size, deadline) for size in sizes))
        except (BrokenPipeError, EOFError):
            raise self._died(process) from None
        except Garbled as wrong:
            raise self._garbled(str(wrong)) from None
        except TimeoutError:
            self.close()
            raise Unsupported(
                f"the backend {self.name} took more than {seconds:g} seconds, and was ended", label="backend.C6"
            ) from None

    def _garbled(self, why: str) -> Unsupported:
        """It says what the protocol does not allow; from then on nothing that it says can be understood."""
        self.close()
        return Unsupported(f"the process of backend {self.name} answers what is no answer: {why}", label="backend.C9")

    def _running(self) -> subprocess.Popen[bytes]:
        if self._process is not None and self._process.poll() is None:
            return self._process
        self.close()
        with on_disk():
            process = self._started()
        self._answer(process, ("hello",), BEGINNING)  # what our own imports take is not the backend's time
        return process

    def _started(self) -> subprocess.Popen[bytes]:
        self._errors = tempfile.TemporaryFile()
        path = os.pathsep.join(p or os.getcwd() for p in sys.path)
        self._process = children.start(
            [sys.executable, "-m", "assay.verify.backends.child"],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self._errors, bufsize=0,
            env={**os.environ, "PYTHONPATH": path},
        )  # fmt: skip
        assert self._process.stdin is not None
        os.set_blocking(self._process.stdin.fileno(), False)
        return self._process

    def _send(self, process: subprocess.Popen[bytes], data: bytes | memoryview, deadline: float) -> None:
        assert process.stdin is not None
        left = memoryview(data)
        while left:
            _, ready, _ = select.select([], [process.stdin], [], max(0.0, deadline - time.monotonic()))
            if not ready:
                raise TimeoutError
            left = left[os.write(process.stdin.fileno(), left[: 1 << 16]) :]

    def _receive(self, process: subprocess.Popen[bytes], size: int, deadline: float) -> bytearray:
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

    def _died(self, process: subprocess.Popen[bytes]) -> Unsupported:
        code = process.wait()
        why = f"by signal {signal.Signals(-code).name}" if code < 0 else f"with exit code {code}"
        said: list[str] = []
        if self._errors is not None:
            self._errors.seek(0)
            said = self._errors.read().decode("utf-8", "replace").strip().splitlines()
        self.close()
        last = f"; its last words: {said[-1][:200]}" if said else ""
        return Unsupported(f"the process of backend {self.name} died {why}{last}", label="backend.C5")


def _longest(subject: Subject, wanted: Sequence[str]) -> int:
    """How many bytes an answer with these tensors may have: some times what they have, as far as that is known."""
    if isinstance(subject, UnreadSubject):
        return LARGEST
    types = [subject.tensors[n].type if n in subject.tensors else None for n in wanted]
    sizes = [t.nbytes if isinstance(t, TensorType) and t.is_static else None for t in types]
    known = [size for size in sizes if size is not None]
    return LARGEST if len(known) < len(sizes) else min(LARGEST, (64 << 20) + 8 * sum(known))
