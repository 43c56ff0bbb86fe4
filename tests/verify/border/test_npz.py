"""An .npz has one form, whichever Python and NumPy are there, and all of them read it."""

from __future__ import annotations

import hashlib
import io
import zipfile
import zlib

import ml_dtypes
import numpy as np
import pytest

from assay.verify.border import npz

ARRAYS = {
    "x": np.arange(6, dtype=np.float32).reshape(2, 3),
    "ü": np.array(True),
    "words": np.array([["a", "bcd"]]),
    "none": np.zeros((0, 2), np.int64),
    "b:bfloat16": np.ones(3, ml_dtypes.bfloat16).view("V2"),
    "turned": np.arange(6, dtype=">i2").reshape(2, 3).T,
    "same": np.broadcast_to(np.uint8(7), (4, 5)),
}


def written(members: dict[str, np.ndarray]) -> bytes:  # type: ignore[type-arg]
    file = io.BytesIO()
    npz.write_npz(file, members)
    return file.getvalue()


def test_the_form() -> None:
    """Byte for byte: what is written here is read by those who have other versions."""
    data = written({"x": np.array([1, 2], np.int16)})
    header = b"{'descr': '<i2', 'fortran_order': False, 'shape': (2,), }".ljust(117) + b"\n"
    member = b"\x93NUMPY\1\0\x76\0" + header + b"\1\0\2\0"
    assert len(member) == 132
    crc = zlib.crc32(member).to_bytes(4, "little")
    about = b"\x14\0\0\x08\0\0\0\0\x21\0" + crc + b"\x84\0\0\0\x84\0\0\0\5\0\0\0"
    local = b"PK\3\4" + about + b"x.npy"
    central = b"PK\1\2\x14\3" + about + bytes(6) + b"\0\0\x80\x01" + bytes(4) + b"x.npy"
    end = (
        b"PK\5\6\0\0\0\0\1\0\1\0"
        + len(central).to_bytes(4, "little")
        + (len(local) + 132).to_bytes(4, "little")
        + b"\0\0"
    )
    assert data == local + member + central + end
    assert (
        hashlib.sha256(written(ARRAYS)).hexdigest()
        == "cfa4d36bb00966fa0802872d1999d1bc0ec5c2852e0154ffdbb4ffee590daf81"
    )


@pytest.mark.parametrize("least", [npz.FULL, 0, 170, 600])
def test_everybody_reads_it(least: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """With zip64 fields for lesser numbers too: those that need them are in files that are too large for a test."""
    monkeypatch.setattr(npz, "LEAST", least)
    file = io.BytesIO(written(ARRAYS))
    with zipfile.ZipFile(file) as read:
        assert read.testzip() is None
        assert {i.compress_type for i in read.infolist()} == {zipfile.ZIP_STORED}
    file.seek(0)
    with np.load(file, allow_pickle=False) as found:
        assert list(found.files) == list(ARRAYS)
        for name, array in ARRAYS.items():
            assert found[name].shape == array.shape and found[name].dtype == array.dtype.newbyteorder("<")
            assert (found[name] == array).all()
