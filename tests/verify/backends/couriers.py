"""A courier without Dask, for tests: `python -m tests.verify.backends.couriers ADDRESS SECONDS`.

What a scheduler and its one worker would say, it says itself, and the worker's work is done in its own process. Behind
the host of the address stands what goes wrong: `tcp://dies-3:1` is a worker that dies with the third answer.
"""

from __future__ import annotations

import asyncio
import os
import pickle
import sys
from collections.abc import Callable
from typing import Any

from assay.verify.backends import courier, remote
from assay.verify.backends.channel import HEAD


class Evil:
    """What makes a folder where it is unpickled."""

    def __init__(self, place: str) -> None:
        self.place = place

    def __reduce__(self) -> tuple[Callable[..., None], tuple[str]]:
        return os.mkdir, (self.place,)


NONSENSE: dict[str, Any] = {
    "list": ["tcp://worker:0"], "none": None, "number": {"tcp://worker:0": 7}, "address": {7: {"status": "running"}},
}  # fmt: skip
"""What a scheduler may say of its workers that says nothing."""


class Comm:
    """A connection to a scheduler with one worker, which comes back under another address."""

    answers = 0
    lives = 0

    def __init__(self, wrong: str, at: int) -> None:
        self.wrong, self.at = wrong, at
        self.message: dict[str, Any] = {}

    async def write(self, message: dict[str, Any]) -> None:
        self.message = message

    async def read(self) -> Any:
        """What the scheduler says to the message that was written."""
        if self.message["op"] == "identity":
            there = {} if self.wrong == "empty" else {f"tcp://worker:{Comm.lives}": {"status": "running"}}
            if self.wrong in NONSENSE:
                return {"type": "Scheduler", "workers": NONSENSE[self.wrong]}
            return {"type": "Worker" if self.wrong == "worker" else "Scheduler", "workers": there}
        assert self.message["worker"] == f"tcp://worker:{Comm.lives}"
        return await self.worked()

    async def worked(self) -> Any:
        """What the worker gives."""
        inner = self.message["msg"]
        function, given = pickle.loads(inner["function"]), pickle.loads(inner["args"])
        Comm.answers += 1
        if Comm.answers == self.at:
            match self.wrong:
                case "dies":
                    Comm.lives += 1
                    remote._end(given[1])
                    return {"status": "uncaught-error", "exception_text": "CommClosedError('in <TCP>')"}
                case "cut":
                    raise OSError("Connection reset by peer")
                case "unreadable":
                    return courier.refusing(pickle.dumps(Evil("never-made")))
                case "short":
                    return {"status": "OK", "result": HEAD.pack(10, 10)}
                case "odd":
                    return {"status": "OK", "result": 7}
        if self.wrong == "older":
            given = ("0.0.1", *given[1:])
        if self.wrong == "other":
            return {"status": "error", "exception_text": "AttributeError(module 'assay.verify.backends' has no remote)"}
        if self.wrong == "bare":
            return {"status": "error", "exception_text": "ModuleNotFoundError(\"No module named 'assay'\")"}
        return {"status": "OK", "result": await function(*given)}

    def abort(self) -> None:
        """End the connection."""


async def connect(address: str, timeout: float) -> Comm:
    """A connection to who is at an address. OSError: nobody is."""
    wrong, _, at = address.removeprefix("tcp://").partition(":")[0].partition("-")
    if wrong == "nobody":
        raise OSError("Timed out trying to connect")
    return Comm(wrong, int(at or 0))


def made(address: str, seconds: float) -> courier.Courier:
    """A courier to it."""
    return courier.Courier(address, seconds, connect, {})


if __name__ == "__main__":
    courier.courier_for, courier.FIRST = made, 0.1
    assert asyncio.iscoroutinefunction(connect) and len(sys.argv) == 3
    courier.main()
