"""One file that holds the files of a certificate (specs/verify.md; specs/vm.md, "File").

    pack_folder(folder, path)           # a directory, as one file
    Packed(path)                 # as `assay.verify.app.sealed.Sealed` is of a directory

Twelve bytes say what it is, 32 are the SHA-256 of all that follows: a table of names with the lengths of their
contents, and these, each at a multiple of 64 bytes. There is one way to write it, and no other is read.
"""

from __future__ import annotations

import hashlib
import mmap
import os
import struct
from io import BytesIO
from pathlib import Path

from assay.semantics.errors import Invalid
from assay.semantics.files import open_regular
from assay.semantics.store import ArrayReader

MAGIC = b"\x89ASSAY\r\n"
VERSION = 1
SUFFIX = ".assay"
ALIGNMENT = 64
HEAD = len(MAGIC) + 4 + 32
MOST = 1_000
"""Members of a file at most."""
LONGEST = 200
"""Bytes of a name at most."""
CHUNK = 1 << 22


def is_packed(path: Path) -> bool:
    """Whether a file is one of these: by its name, or because it begins so."""
    if path.suffix == SUFFIX:
        return True
    try:
        with open_regular(path) as file:
            return file.read(len(MAGIC)) == MAGIC
    except OSError:
        return False


def pack_folder(folder: Path, path: Path) -> None:
    """Write the regular files below a directory as one file."""
    names = sorted(p.relative_to(folder).as_posix() for p in folder.rglob("*") if p.is_file())
    table = _table([(n, (folder / n).stat().st_size) for n in names])
    with path.open("w+b") as file:
        file.write(_head(b"\0" * 32) + table)
        for name in names:
            file.write(b"\0" * (-file.tell() % ALIGNMENT))
            with (folder / name).open("rb") as part:
                while data := part.read(CHUNK):
                    file.write(data)
        file.seek(HEAD)
        digest = hashlib.sha256()
        while data := file.read(CHUNK):
            digest.update(data)
        file.seek(0)
        file.write(_head(digest.digest()))


def _head(digest: bytes) -> bytes:
    return MAGIC + struct.pack("<I", VERSION) + digest


def _table(members: list[tuple[str, int]]) -> bytes:
    """How many there are, then each name and how long its contents are."""
    rows = (struct.pack("<H", len(n.encode())) + n.encode() + struct.pack("<Q", size) for n, size in members)
    return struct.pack("<I", len(members)) + b"".join(rows)


class Packed:
    """A file that holds files. Invalid: it cannot be read (packed.C1), is none (packed.C2), has changed (packed.C3), or
    is not written as `pack_folder` writes it (packed.C4)."""

    def __init__(self, path: Path) -> None:
        self.path = path
        try:
            with open_regular(path) as file:
                size = os.fstat(file.fileno()).st_size
                if size:
                    self.data = memoryview(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ))
                else:
                    self.data = memoryview(b"")
        except FileNotFoundError:
            raise self._no("no such file", "packed.C1") from None
        except (OSError, ValueError) as wrong:
            why = wrong.strerror if isinstance(wrong, OSError) else wrong
            raise self._no(f"cannot be read: {why}", "packed.C1") from None
        if self.data[: len(MAGIC)] != MAGIC:
            raise self._no("is no file that assay build --vm made", "packed.C2")
        if len(self.data) < HEAD:
            raise self._no(f"ends at byte {len(self.data)}, inside of its head", "packed.C4")
        (version,) = struct.unpack_from("<I", self.data, len(MAGIC))
        if version != VERSION:
            raise self._no(f"is of version {version}, and {VERSION} is read: build it again", "packed.C2")
        if hashlib.sha256(self.data[HEAD:]).digest() != self.data[HEAD - 32 : HEAD]:
            raise self._no("has changed since it was made: its bytes do not have their SHA-256", "packed.C3")
        self.places = self._places()
        self.names = frozenset(self.places)

    def _no(self, message: str, label: str) -> Invalid:
        return Invalid(message, where=str(self.path), label=label)

    def _places(self) -> dict[str, tuple[int, int]]:
        """Where each member begins, and its length."""
        at = HEAD

        def number(form: str, what: str) -> int:
            nonlocal at
            if at + struct.calcsize(form) > len(self.data):
                raise self._no(f"byte {at}: the file ends inside of {what}", "packed.C4")
            (found,) = struct.unpack_from(form, self.data, at)
            at += struct.calcsize(form)
            return int(found)

        count = number("<I", "its table")
        if count > MOST:
            raise self._no(f"byte {HEAD}: {count} members, and {MOST} are the most", "packed.C4")
        members: list[tuple[str, int]] = []
        for _ in range(count):
            began, length = at, number("<H", "its table")
            said = bytes(self.data[at : at + length])
            if length > LONGEST or not said.isascii() or not said.decode("ascii").isprintable() or len(said) < length:
                raise self._no(f"byte {began}: this is no name", "packed.C4")
            at += length
            members.append((said.decode("ascii"), number("<Q", "its table")))
        if [n for n, _ in members] != sorted({n for n, _ in members}):
            raise self._no("the names of its members are not in order, each once", "packed.C4")
        found: dict[str, tuple[int, int]] = {}
        for name, length in members:
            begin = at + -at % ALIGNMENT
            if begin + length > len(self.data):
                raise self._no(f"{name} would end at byte {begin + length}, the file ends before", "packed.C4")
            if any(self.data[at:begin]):
                raise self._no(f"byte {at}: what lies between two members is not 0", "packed.C4")
            found[name] = (begin, length)
            at = begin + length
        if at != len(self.data):
            raise self._no(f"byte {at}: the members end here, and the file does not", "packed.C4")
        return found

    def view(self, name: str) -> memoryview:
        """The bytes of a member, not copied. Invalid (packed.C4): there is none of that name."""
        if name not in self.places:
            raise self._no(f"has no {name}", "packed.C4")
        begin, length = self.places[name]
        return self.data[begin : begin + length]

    def open(self, name: str) -> BytesIO:
        """A member as a file."""
        return BytesIO(self.view(name))

    def read(self, name: str) -> bytes:
        """The bytes of a member."""
        return bytes(self.view(name))

    def text(self, name: str) -> str:
        """A member as text. Invalid (packed.C4): it is no UTF-8."""
        try:
            return self.read(name).decode("utf-8")
        except UnicodeDecodeError as wrong:
            at = self.places[name][0] + wrong.start
            raise self._no(f"byte {at}: {name} is no UTF-8: {wrong.reason}", "packed.C4") from None

    def digest(self, name: str) -> str:
        """The SHA-256 of a member, in hexadecimal."""
        return hashlib.sha256(self.view(name)).hexdigest()

    def arrays(self, name: str) -> ArrayReader:
        """The tensors of a member."""
        return ArrayReader(self.path / name, data=self.view(name))
