"""Arrays as an .npz in one form: the same arrays are the same bytes, whichever Python and NumPy write them
(specs/verify.md, "Inputs").

`zipfile` and `numpy.lib.format` leave open what their versions settle in different ways: the version that a reader
needs, whether sizes stand twice, spaces for a header to grow into. So both are written here: a zip of stored members
without dates, each an .npy of version 1.0, little-endian and in row-major order. Numbers that 32 bits cannot hold, and
no others, stand in zip64 fields.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Mapping
from typing import Any, Protocol

import numpy as np

from assay.semantics.bits import raw

Array = np.ndarray[Any, Any]

FULL = 0xFFFF_FFFF
"""What a field of 32 bits says where the number stands in a zip64 field."""
LEAST = FULL
"""The least number that stands there."""
_PLAIN, _ZIP64 = 20, 45
"""The versions of the form that a reader needs."""
_UNIX = 3 << 8
_UTF8 = 0x800
_DAY = 0x21
"""The first day that a zip can say, of 1980."""
_FILE = 0o600 << 16
"""Who may read and write what is unpacked."""


class Writable(Protocol):
    """Takes bytes, such as a file that is open for writing."""

    def write(self, data: Any, /) -> Any:
        """Write bytes."""
        ...


def write_npz(to: Writable, members: Mapping[str, Array]) -> None:
    """Write arrays, none of objects, under the names of their members without `.npy`."""
    at = 0
    directory = []
    for name, array in members.items():
        entry = f"{name}.npy".encode()
        array = array.astype(array.dtype.newbyteorder("<"), copy=False)
        header, data = _header(array), raw(array)
        crc, size = zlib.crc32(data, zlib.crc32(header)), len(header) + len(data)
        (stored,), extra = _fields(size)
        if extra:
            extra = _zip64(size, size)
        about = (_UTF8, 0, 0, _DAY, crc)
        local = (
            struct.pack("<4s5H3I2H", b"PK\3\4", _needed(extra), *about, stored, stored, len(entry), len(extra))
            + entry
            + extra
        )
        for part in (local, header, data):
            to.write(part)
        fields, extra = _fields(size, size, at)
        needed = _needed(extra)
        directory.append(
            struct.pack(
                "<4s6H3I5H2I",
                b"PK\1\2",
                _UNIX | needed,
                needed,
                *about,
                *fields[:2],
                len(entry),
                len(extra),
                0,
                0,
                0,
                _FILE,
                fields[2],
            )
            + entry
            + extra
        )
        at += len(local) + size
    to.write(b"".join(directory))
    to.write(_end(len(directory), sum(map(len, directory)), at))


def _header(array: Array) -> bytes:
    """What stands before the bytes of an array in an .npy, up to a multiple of 64."""
    about = f"{{'descr': {array.dtype.str!r}, 'fortran_order': False, 'shape': {array.shape!r}, }}"
    about += " " * (-(10 + len(about) + 1) % 64) + "\n"
    return struct.pack("<6sBBH", b"\x93NUMPY", 1, 0, len(about)) + about.encode("ascii")


def _fields(*numbers: int) -> tuple[list[int], bytes]:
    """The numbers in 32 bits, and the zip64 field with those that these cannot hold."""
    wide = [n for n in numbers if n >= LEAST]
    return [FULL if n >= LEAST else n for n in numbers], _zip64(*wide) if wide else b""


def _zip64(*numbers: int) -> bytes:
    return struct.pack(f"<HH{len(numbers)}Q", 1, 8 * len(numbers), *numbers)


def _needed(extra: bytes) -> int:
    return _ZIP64 if extra else _PLAIN


def _end(count: int, size: int, at: int) -> bytes:
    """The end of a zip whose directory has so many members and so many bytes, and begins at `at`."""
    wide = b""
    if count >= 0xFFFF or max(size, at) >= LEAST:
        wide = struct.pack("<4sQ2H2I4Q", b"PK\6\6", 44, _UNIX | _ZIP64, _ZIP64, 0, 0, count, count, size, at)
        wide += struct.pack("<4sIQI", b"PK\6\7", 0, at + size, 1)
    few = min(count, 0xFFFF)
    return wide + struct.pack("<4s4H2IH", b"PK\5\6", 0, 0, few, few, *_fields(size, at)[0], 0)
