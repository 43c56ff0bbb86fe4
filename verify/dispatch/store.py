"""Compiled kernels that one process leaves to the next, in a directory (specs/verify.md, "Kernels for unknown sizes").

A shared object is code, and runs as whoever loads it. So the directory and every file in it have to belong to this
user, and nobody else may write there; links are not followed. A file names the C text and the compiler that it was made
of, and has the digest of its object: one that does not fit is made again, never loaded. What is loaded is a copy in a
folder of this process, so that nobody changes it between the check and the use. Files are written whole or not at all.
"""

from __future__ import annotations

import hashlib
import json
import os
import secrets
import stat
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from assay.semantics.errors import EnvironmentFailure, Invalid
from assay.semantics.strict_json import parse_json

FORMAT = "assay kernel 1"
LONGEST = 1 << 16
"""Bytes of the line that says what a file is."""
LARGEST = 1 << 28
"""Bytes of an object."""


def sha256(data: bytes) -> str:
    """SHA-256 in hexadecimal."""
    return hashlib.sha256(data).hexdigest()


@dataclass(frozen=True)
class KernelStore:
    """A directory of compiled kernels. Invalid (kernels.C3): it is not this user's own."""

    place: Path

    def __post_init__(self) -> None:
        if not hasattr(os, "geteuid"):
            raise EnvironmentFailure(
                "kernels that are stored are code that runs as you, and this system does not say whose a file is",
                where=str(self.place),
                label="kernels.C5",
            )
        try:
            self.place.mkdir(mode=0o700, parents=True, exist_ok=True)
            found = os.lstat(self.place)
        except FileExistsError:
            raise Invalid(
                "is no directory, and kernels are stored in one", where=str(self.place), label="kernels.C3"
            ) from None
        except OSError as wrong:
            raise Invalid(
                f"cannot be made: {wrong.strerror or wrong}", where=str(self.place), label="kernels.C3"
            ) from None
        if not stat.S_ISDIR(found.st_mode) or not _own(found):
            raise Invalid(
                "kernels that are stored are code that runs as you: the directory has to be yours, no link, and nobody"
                " else may write in it",
                where=str(self.place),
                label="kernels.C3",
            )

    def path(self, text: str, flags: tuple[str, ...]) -> Path:
        """The file of what these flags make of a C text."""
        return self.place / f"{sha256(chr(0).join((FORMAT, text, *flags)).encode())}.kernel"

    def load(self, text: str, flags: tuple[str, ...], compiler: str | None) -> bytes | None:
        """The object, if there is one that fits: of this very text and these flags, by this compiler. Where there is no
        compiler, None, it may be by any."""
        try:
            handle = os.open(self.path(text, flags), os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
        except OSError:
            return None
        found = os.fstat(handle)
        if not stat.S_ISREG(found.st_mode) or not _own(found) or found.st_size > LARGEST + LONGEST:
            os.close(handle)
            return None
        with os.fdopen(handle, "rb") as file:
            head, data = file.readline(LONGEST), file.read(LARGEST + 1)
        try:
            said = parse_json(head.decode("ascii"))
        except ValueError:
            return None
        wanted = {"format": FORMAT, "text": sha256(text.encode()), "flags": list(flags), "object": sha256(data)}
        if not isinstance(said, dict) or {k: v for k, v in said.items() if k != "compiler"} != wanted:
            return None
        return data if compiler is None or said.get("compiler") == compiler else None

    def save(self, text: str, flags: tuple[str, ...], compiler: str, data: bytes) -> None:
        """Add an object. Where it cannot be written it is not there: nothing needs it."""
        head = {
            "format": FORMAT,
            "text": sha256(text.encode()),
            "flags": list(flags),
            "compiler": compiler,
            "object": sha256(data),
        }
        path = self.path(text, flags)
        part = path.with_name(f".{path.name}.{secrets.token_hex(8)}")
        try:
            handle = os.open(part, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
            with os.fdopen(handle, "wb") as file:
                file.write(json.dumps(head).encode("ascii") + b"\n" + data)
                file.flush()
                os.fsync(handle)
            os.replace(part, path)
        except OSError:
            with suppress(OSError):
                part.unlink()


def _own(found: os.stat_result) -> bool:
    """Whether something is this user's, and nobody else may write it."""
    return found.st_uid == os.geteuid() and not found.st_mode & (stat.S_IWGRP | stat.S_IWOTH)
