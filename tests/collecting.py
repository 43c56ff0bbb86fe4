"""How pytest collects hundreds of files: what one process has made of a file the others read.

A file of tests is compiled with its assertions rewritten, which takes most of a collection; what comes of it is kept as
bytecode. Workers that begin at the same file all compile all of them, side by side. So every second worker imports the
files from the last one on, before it collects: they meet in the middle, and each reads what the other has compiled.
"""

from __future__ import annotations

import importlib
import os
import sys
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path

from tests.places import ROOT


def keep_bytecode(place: Path) -> None:
    """Where the caller's Python is to write no bytecode beside files, it goes to a folder of its own: of this process,
    and of the hundreds that the tests start."""
    if sys.dont_write_bytecode and not os.environ.get("PYTHONPYCACHEPREFIX"):
        os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
        os.environ["PYTHONPYCACHEPREFIX"] = sys.pycache_prefix = str(place)
        sys.dont_write_bytecode = False


def from_behind(worker: str, count: int, asked: Sequence[str]) -> Iterator[str]:
    """The modules that a worker imports before it collects: those below the folders that were asked for, from the last
    one on; none where it is the only one, or an even one."""
    if count > 1 and int(worker.removeprefix("gw")) % 2:
        for folder in reversed([ROOT / a for a in asked if (ROOT / a).is_dir()]):
            for path in sorted(folder.rglob("test_*.py"), reverse=True):
                yield ".".join(path.relative_to(ROOT).with_suffix("").parts)


def import_from_behind(names: Iterator[str]) -> None:
    """Import some modules; what cannot be imported, or skips itself, pytest tells of when it collects."""
    from _pytest.outcomes import OutcomeException

    for name in names:
        with suppress(Exception, OutcomeException):
            importlib.import_module(name)
