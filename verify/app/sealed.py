"""A directory that came from a stranger (specs/verify.md, "Certificate").

Only regular files in it and in the one folder that it may have are read, by names that are not paths: no link is
followed, nothing waits, and nothing outside of it is opened.
"""

from __future__ import annotations

import errno
import hashlib
import os
import stat
import weakref
from io import BufferedReader
from pathlib import Path

from assay.semantics.errors import EnvironmentFailure, Invalid
from assay.semantics.store import ArrayReader

MOST = 1_000
"""Names in a directory that are looked at."""


class Sealed:
    """A directory and its folder. Invalid (certificate.C1, certificate.C4): there is none, or it has anything else in
    it."""

    def __init__(self, directory: Path, folder: str) -> None:
        self.directory, self.folder = directory, folder
        if not hasattr(os, "O_DIRECTORY"):
            raise EnvironmentFailure(
                "the directory of a certificate is read by handles, so that no link leads out of it, and this system"
                " has none; the one file of `build --vm` can be verified here",
                where=str(directory),
                label="certificate.C7",
            )
        try:
            self.root = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
            weakref.finalize(self, os.close, self.root)
            self.inner = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=self.root)
            weakref.finalize(self, os.close, self.inner)
        except FileNotFoundError:
            raise Invalid(
                "no certificate here; assay build makes one", where=str(directory), label="certificate.C1"
            ) from None
        except (OSError, ValueError) as wrong:
            raise self._unreadable(wrong, "") from None
        self.names = frozenset((*self._files(self.root, ""), *self._files(self.inner, f"{folder}/")))

    def _files(self, handle: int, before: str) -> list[str]:
        found = []
        for name in os.listdir(handle)[: MOST + 1]:
            mode = os.stat(name, dir_fd=handle, follow_symlinks=False).st_mode
            if before or name != self.folder:
                if not stat.S_ISREG(mode):
                    kind = (
                        "a link" if stat.S_ISLNK(mode) else "a directory" if stat.S_ISDIR(mode) else "no regular file"
                    )
                    raise Invalid(
                        f"is {kind}; a certificate has regular files alone",
                        where=str(self.directory / before / name),
                        label="certificate.C4",
                    )
                found.append(before + name)
        if len(found) > MOST:
            raise Invalid(f"has more than {MOST} files", where=str(self.directory / before), label="certificate.C4")
        return found

    def open(self, name: str) -> BufferedReader:
        """One of `names`. Invalid (certificate.C4): it cannot be read."""
        before, _, last = name.rpartition("/")
        try:
            if name not in self.names:
                raise FileNotFoundError(errno.ENOENT, "there is no such file")
            flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
            handle = os.open(last, flags, dir_fd=self.inner if before else self.root)
        except OSError as wrong:
            raise self._unreadable(wrong, name) from None
        if not stat.S_ISREG(os.fstat(handle).st_mode):  # it was one when the names were read
            os.close(handle)
            raise self._unreadable(OSError(errno.EINVAL, "is no regular file"), name)
        return os.fdopen(handle, "rb")

    def read(self, name: str) -> bytes:
        """The bytes of a file of the directory."""
        with self.open(name) as file:
            return file.read()

    def text(self, name: str) -> str:
        """A text of the directory. Invalid (certificate.C4): it is no UTF-8."""
        try:
            return self.read(name).decode("utf-8")
        except UnicodeDecodeError as wrong:
            raise Invalid(
                f"is no UTF-8: {wrong.reason} at byte {wrong.start}",
                where=str(self.directory / name),
                label="certificate.C4",
            ) from None

    def digest(self, name: str) -> str:
        """The SHA-256 of a file, in hexadecimal."""
        with self.open(name) as file:
            return hashlib.file_digest(file, "sha256").hexdigest()

    def arrays(self, name: str) -> ArrayReader:
        """The tensors of a file."""
        return ArrayReader(self.directory / name, self.open(name))

    def _unreadable(self, wrong: OSError | ValueError, name: str) -> Invalid:
        why = wrong.strerror if isinstance(wrong, OSError) else wrong
        return Invalid(f"cannot be read: {why}", where=str(self.directory / name), label="certificate.C4")
