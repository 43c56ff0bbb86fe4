"""Files that a user names: regular ones, and nothing that waits (specs/semantics.md, "Files").

    with open_regular(path) as file: ...

A FIFO, a socket, a terminal or another device may never end, or never begin. Nothing is read from one: it is refused at
once. Every reader of a file that a person names, or that such a file names, opens it here.
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

from assay.semantics.errors import AssayError, EnvironmentFailure, Invalid

_KINDS = {
    stat.S_IFIFO: "a FIFO",
    stat.S_IFSOCK: "a socket",
    stat.S_IFCHR: "a device",
    stat.S_IFBLK: "a device",
    stat.S_IFDIR: "a directory",
}


_read: list[str] | None = None


@contextmanager
def recording() -> Iterator[list[str]]:
    """The paths of the files that are opened here meanwhile, each once, in order: a model and all that it names."""
    global _read
    before, _read = _read, []
    try:
        yield _read
    finally:
        _read = before


def open_regular(path: str | Path) -> BinaryIO:
    """The file, open for reading. OSError where it cannot be opened, or is no regular file: its `strerror` says why."""
    if _read is not None and str(path) not in _read:
        _read.append(str(path))
    handle = os.open(path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_CLOEXEC", 0))
    try:
        mode = os.fstat(handle).st_mode
        if not stat.S_ISREG(mode):
            kind = _KINDS.get(stat.S_IFMT(mode), "something else")
            raise OSError(errno.EINVAL, f"it is {kind}; give a regular file", str(path))
        return os.fdopen(handle, "rb")
    except BaseException:
        os.close(handle)
        raise


def read_bytes(path: str | Path) -> bytes:
    """All bytes of a regular file. OSError as `open_regular`."""
    with open_regular(path) as file:
        return file.read()


def read_text(path: str | Path, encoding: str = "utf-8") -> str:
    """The text of a regular file, line ends as they stand. OSError as `open_regular`; UnicodeDecodeError."""
    return read_bytes(path).decode(encoding)


def written_at(path: str | Path) -> Path:
    """Where a file of that name is written: behind links, also one to nothing yet. OSError where no regular file can be
    there: what is there is something else, and would be lost."""
    real = Path(os.path.realpath(path))
    try:
        mode = os.lstat(real).st_mode
    except FileNotFoundError:
        return real
    if stat.S_ISLNK(mode):
        raise OSError(errno.ELOOP, "it is a link that leads to itself", str(path))
    if not stat.S_ISREG(mode):
        kind = _KINDS.get(stat.S_IFMT(mode), "something else")
        behind = "a link to " if os.path.islink(path) else ""
        raise OSError(errno.EINVAL, f"it is {behind}{kind}; name a file", str(path))
    return real


def directory_at(path: str | Path) -> Path:
    """The directory of that name, behind links, which is made where there is none. OSError where there cannot be
    one."""
    real = Path(os.path.realpath(path))
    if real.is_symlink():
        raise OSError(errno.ELOOP, "it is a link that leads to itself", str(path))
    if real.exists() and not real.is_dir():
        raise OSError(errno.ENOTDIR, "it is no directory", str(path))
    real.mkdir(parents=True, exist_ok=True)
    return real


SURROUNDINGS = frozenset(
    getattr(errno, name)
    for name in (
        "ENOSPC", "EDQUOT", "EIO", "EROFS", "ENOMEM", "EMFILE", "ENFILE", "EAGAIN", "EPIPE", "ENOEXEC", "ESTALE",
        "ETXTBSY",
    )
    if hasattr(errno, name)
)  # fmt: skip
"""What goes wrong with files and processes whatever a person names."""


def cannot_write(wrong: OSError, path: Path, label: str = "output.C1") -> AssayError:
    """What to raise where a file that a person named cannot be written: the disk is full (EnvironmentFailure), or the
    name is no good (Invalid)."""
    kind = EnvironmentFailure if wrong.errno in SURROUNDINGS else Invalid
    return kind(f"cannot write: {wrong.strerror or wrong}", where=str(path), label=label)


@contextmanager
def on_disk() -> Iterator[None]:
    """Work with files of our own, in the directory for temporary files: that they cannot be written or run is said of
    the surroundings (output.C5)."""
    try:
        yield
    except OSError as wrong:
        at = f" {wrong.filename}" if wrong.filename else ""
        message = f"cannot work with temporary files{at}: {wrong.strerror or wrong}; TMPDIR says where they go"
        raise EnvironmentFailure(message, label="output.C5") from None
