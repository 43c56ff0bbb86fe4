"""Files in which tensors of models lie, mapped once (specs/lower.md, "Import")."""

from __future__ import annotations

import mmap
import os
from pathlib import Path
from weakref import WeakValueDictionary

from assay.semantics.files import open_regular

ALIGNMENT = 4096
"""Tensors begin at multiples of this, as ONNX recommends for files that are mapped."""


class DataFile(mmap.mmap):
    """A file that is mapped and cannot be written so. Arrays that are views of it keep it."""

    path: Path
    identity: tuple[int, ...] = ()
    """Which file of which state it was."""


_held: WeakValueDictionary[str, DataFile] = WeakValueDictionary()


def mapped_file(path: Path) -> DataFile:
    """The file, mapped once for as long as somebody holds it. OSError: it cannot be read. It is not empty."""
    with open_regular(path) as file:
        now = os.fstat(file.fileno())
        identity = (now.st_dev, now.st_ino, now.st_size, now.st_mtime_ns)
        found = _held.get(str(path))
        if found is None or found.identity != identity:
            found = _held[str(path)] = DataFile(file.fileno(), 0, access=mmap.ACCESS_READ)
            found.path, found.identity = path, identity
    return found


def held_bytes(location: str, offset: int, length: int) -> memoryview | None:
    """The bytes at a place of a file that is held, by its whole path; None where it is not, or is shorter."""
    found = _held.get(location)
    if found is None or offset + length > len(found):
        return None
    return memoryview(found)[offset : offset + length]


def is_held(location: str) -> bool:
    """Whether the file of that whole path is mapped here."""
    return location in _held
