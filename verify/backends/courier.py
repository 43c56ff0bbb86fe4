"""The process that carries requests to a backend on another machine, and answers back: `python -m
assay.verify.backends.courier ADDRESS SECONDS` (specs/verify.md, "On another machine").

It is asked over pipes, as the process of a backend is, and is trusted no more. Dask's messages hold pickles; here none
of them is unpickled that names anything but bytes, so what the other side sends runs nothing.
"""

from __future__ import annotations

import asyncio
import io
import os
import pickle
import secrets
import struct
import sys
import time
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass, field
from importlib import import_module
from typing import IO, Any

from assay.verify.backends import remote
from assay.verify.backends.channel import HEAD, Garbled, lengths, pack
from assay.verify.backends.talking import BEGINNING

FIRST = 5.0
"""Seconds until somebody must be there."""
RETURN = 60.0
"""The same where somebody was there before: a worker comes back, or its scheduler."""
LARGEST = (1 << 32) - (1 << 16)
"""Bytes of a request: Dask's messages hold no more in one piece."""
MOST = 1 << 34


class Refuses(pickle.Unpickler):
    """Reads pickles of bytes and of what Python reads without a name; no other."""

    def find_class(self, module: str, name: str) -> Any:
        """The class bytes and its like."""
        if module == "builtins" and name in ("bytes", "bytearray", "memoryview"):
            return {"bytes": bytes, "bytearray": bytearray, "memoryview": memoryview}[name]
        raise pickle.UnpicklingError(f"it names {module}.{name}, and bytes are due")


def refusing(data: Any, *, buffers: Iterable[Any] = ()) -> Any:
    """In place of Dask's function that unpickles."""
    return Refuses(io.BytesIO(data), buffers=buffers).load()


def of_said_lengths(message: bytes) -> bytes:
    """A message that has the lengths that it says; or one that says that it has not."""
    try:
        if HEAD.size + sum(lengths(message[: HEAD.size], MOST)) == len(message):
            return message
    except (struct.error, Garbled):
        pass
    return pack(("garbled", "what the worker answers has not the lengths that it says"))


def running(address: Any, worker: Any) -> str:
    """The address of a worker that runs, by what a scheduler says of it; "" of any other, and of what is none."""
    runs = isinstance(worker, dict) and worker.get("status", "running") == "running"
    return address if isinstance(address, str) and runs else ""


class Unreachable(Exception):
    """Nobody answers, or not as a Dask scheduler with a worker that has Assay; why, and what to do."""


class Lost(Exception):
    """Somebody has answered before, and does not any more."""


@dataclass
class Courier:
    """The way to one worker behind a scheduler's address, which is found when it is first wanted and again when it is
    lost."""

    address: str
    seconds: float
    connect: Callable[..., Awaitable[Any]]
    options: dict[str, Any]
    name: str = field(default_factory=lambda: secrets.token_hex(8))
    comm: Any = None
    worker: str = ""
    was_there: bool = False

    async def answer(self, request: bytes) -> bytes:
        """The answer to a request, as a message."""
        try:
            if len(request) > LARGEST:
                return pack(("invalid", f"{len(request)} bytes do not cross to {self.address}", "backend.C2", True))
            await self.reach()
            return await self.asked(request)
        except Unreachable as why:
            return pack(("absent", str(why)))
        except Lost as why:
            return pack(("lost", str(why)))

    async def reach(self) -> None:
        """Find the scheduler and a worker. Unreachable: they do not come."""
        if self.worker and self.worker in await self.present():
            return
        end = time.monotonic() + (RETURN if self.was_there else FIRST)
        while True:
            try:
                workers = await self.workers(max(1.0, end - time.monotonic()))
                if workers:
                    self.worker, self.was_there = workers[os.getpid() % len(workers)], True
                    return
                why = f"the scheduler has no worker; start one there: dask worker {self.address}"
            except Lost as lost:
                why = str(lost)
            except OSError as wrong:
                first = str(wrong).partition("\n")[0]
                why = f"no scheduler answers ({first}); start one there: dask scheduler, and dask worker {self.address}"
            if time.monotonic() > end:
                raise Unreachable(why)
            await asyncio.sleep(0.2)

    async def present(self) -> list[str]:
        """The workers that are there; none where the scheduler is gone."""
        try:
            return await self.workers(5.0)
        except (OSError, Lost):
            return []

    async def workers(self, timeout: float) -> list[str]:
        """The addresses of the workers that run. OSError: no connection can be had."""
        if self.comm is None:
            self.comm = await self.connect(self.address, timeout=timeout, **self.options)
        found = await self.said({"op": "identity", "reply": True}, timeout + 10)
        match found:
            case {"type": "Scheduler", "workers": dict(workers)}:
                return sorted(filter(None, (running(a, w) for a, w in workers.items())))
        raise Unreachable("who answers is no scheduler; give the address of the scheduler, not of a worker")

    async def asked(self, request: bytes) -> bytes:
        """What the worker answers. Lost: it ends before. Unreachable: it has no such Assay."""
        patience = self.seconds + BEGINNING + 30
        found = await self.run(remote.exchange, remote.own_version(), self.name, request, self.seconds, MOST, patience)
        match found:
            case {"status": "OK", "result": bytes() | bytearray() | memoryview() as message}:
                return of_said_lengths(bytes(message))
            case {"status": "error", "exception_text": str(text)} if "No module named 'assay'" in text:
                raise Unreachable(f"Assay is not installed at the worker {self.worker}; install it there")
            case {"status": "error", "exception_text": str(text)} if "assay.verify.backends" in text:
                ours = remote.own_version()
                raise Unreachable(f"Assay at the worker {self.worker} is not that from here, {ours}: {text[:200]}")
            case {"exception_text": str(text)}:
                self.worker = ""
                raise Lost(f"the worker at {self.address} has ended or cannot be reached: {text[:200]}")
            case _:
                return pack(("garbled", "the worker answers what is no message"))

    async def run(self, function: Callable[..., Any], *arguments: Any) -> Any:
        """What Dask says of a function of ours that the worker calls with all arguments but the last, in so many
        seconds. It crosses as its name."""
        *given, patience = arguments
        message = {
            "op": "run", "function": pickle.dumps(function), "args": pickle.dumps(tuple(given)), "kwargs": None,
            "wait": True,
        }  # fmt: skip
        return await self.said({"op": "proxy", "msg": message, "worker": self.worker, "reply": True}, patience)

    async def said(self, message: dict[str, Any], seconds: float) -> Any:
        """What the scheduler says to a message. Lost: it says nothing, or what cannot be read."""
        try:
            await self.comm.write(message)
            return await asyncio.wait_for(self.comm.read(), seconds)
        except TimeoutError:
            self.cut()
            raise Lost(f"no answer from {self.address} in {seconds:g} seconds") from None
        except OSError:
            self.cut()
            raise Lost(f"the worker at {self.address}, or its scheduler, has ended") from None
        except Exception as wrong:  # noqa: BLE001  (whatever reading of strange bytes raises)
            self.cut()
            raise Lost(f"what {self.address} says cannot be read: {str(wrong)[:200]}") from None

    def cut(self) -> None:
        """Begin anew the next time."""
        if self.comm is not None:
            self.comm.abort()
        self.comm, self.worker = None, ""

    async def end(self) -> None:
        """Tell the worker that nothing more comes."""
        if self.worker and self.comm is not None:
            await self.run(remote.end, self.name, 2.0)


def courier_for(address: str, seconds: float) -> Courier | str:
    """A courier; or why none can be."""
    try:
        unpickling: Any = import_module("distributed.protocol.pickle")
        comm: Any = import_module("distributed.comm")
        security: Any = import_module("distributed.security")
        settings: Any = import_module("dask.config")
    except ImportError:
        return "Dask is not installed here; pip install 'assay[cluster]'"
    unpickling.loads = refusing
    settings.set({"distributed.scheduler.allowed-imports": []})  # what Dask would import where a message names it
    options = security.Security().get_connection_args("client") if not address.startswith("tcp:") else {}
    return Courier(address, seconds, comm.connect, options)


def carry(requests: IO[bytes], answers: IO[bytes], address: str, seconds: float) -> None:
    """Carry one request after another until there are no more."""
    courier = courier_for(address, seconds)
    with asyncio.Runner() as loop:
        while head := requests.read(HEAD.size):
            request = head + b"".join(map(requests.read, lengths(head, sys.maxsize)))
            if isinstance(courier, str):
                answers.write(pack(("absent", courier)))
            else:
                answers.write(loop.run(courier.answer(request)))
            answers.flush()
        if isinstance(courier, Courier):
            loop.run(courier.end())


def main() -> None:
    """Answer requests on standard input until it ends; what Dask says goes to standard error."""
    with os.fdopen(os.dup(0), "rb") as requests, os.fdopen(os.dup(1), "wb") as answers:
        os.dup2(2, 1)
        carry(requests, answers, sys.argv[1], float(sys.argv[2]))


if __name__ == "__main__":
    main()
