"""Backends on another machine: what runs on a Dask worker there (specs/verify.md, "On another machine").

    NAME@tcp://HOST:8786

Whoever judges asks a courier (`assay.verify.backends.courier`), this asks the scheduler, this a worker, and this a
process beside it, which is the same as on one's own machine (`assay.verify.backends.child`). What goes all that way and
back are the messages of `assay.verify.backends.channel`.
"""

from __future__ import annotations

import asyncio
import threading
import time
from dataclasses import dataclass, field

from assay.semantics.errors import EnvironmentFailure
from assay.verify.backends.catalogue import OWN
from assay.verify.backends.channel import Garbled, pack
from assay.verify.backends.talking import BEGINNING, ProcessGone, Talking

IDLE = 600.0
"""Seconds after which a process ends of which nobody asks anything: who was served may have been killed."""
HELLO = pack(("hello",))


@dataclass
class ServedCourier:
    """The process that serves one courier, and when it was last asked."""

    process: Talking = field(default_factory=Talking)
    lock: threading.Lock = field(default_factory=threading.Lock)
    asked: float = field(default_factory=time.monotonic)


_served: dict[str, ServedCourier] = {}


def own_version() -> str:
    """The version of Assay that is installed here."""
    return OWN.version or "unknown"


async def exchange(theirs: str, courier: str, request: bytes, seconds: float, most: int) -> bytes:
    """What a worker does for a courier: the answer to a request, as a message; of a courier with another version of
    Assay, that it has this one. The worker goes on with what else it does."""
    if (ours := own_version()) != theirs:
        return pack(("absent", f"Assay there is {ours}, and {theirs} here: install the same on both"))
    return await asyncio.to_thread(answered, courier, request, seconds, most)


async def end(courier: str) -> None:
    """End what serves a courier."""
    await asyncio.to_thread(_end, courier)


def answered(courier: str, request: bytes, seconds: float, most: int) -> bytes:
    """What the process of a courier answers; or that it died, or was late and is ended."""
    _end_idle()
    one = _served.setdefault(courier, ServedCourier())
    with one.lock:
        one.asked = time.monotonic() + seconds
        process = one.process
        try:
            if not process.is_running:
                process.start()
                process.exchange([HELLO], BEGINNING, 1 << 20)
            return b"".join(process.exchange([request], seconds, most))
        except ProcessGone as how:
            said = "died", str(how)
        except TimeoutError:
            said = "late", ""
        except Garbled as wrong:
            said = "garbled", str(wrong)
        except (EnvironmentFailure, OSError) as wrong:
            said = "absent", f"no process can be had there: {wrong}"
        finally:
            one.asked = time.monotonic()
        process.close()
        return pack(said)


def _end(courier: str) -> None:
    one = _served.pop(courier, None)
    if one is not None:
        one.process.close()


def _end_idle() -> None:
    for courier, one in list(_served.items()):
        if time.monotonic() - one.asked > IDLE:
            _end(courier)
