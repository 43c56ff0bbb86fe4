"""Files that are written whole or not at all (specs/verify.md, "Command line")."""

from __future__ import annotations

import errno
import os
import tempfile
from pathlib import Path
from typing import Any

from assay.semantics.files import cannot_write, written_at
from assay.verify import children


def require_file_place(path: Path) -> None:
    """Invalid (output.C1): no file can be written there. It is asked before the long work, not behind it."""
    try:
        place = written_at(path)
        if not place.parent.is_dir():
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT))
    except OSError as wrong:
        raise cannot_write(wrong, path) from None


def replace_text(path: Path, text: str) -> None:
    """Write a text file whole or not at all. Invalid (output.C1): it cannot be written."""
    replace_file(path, lambda temporary: temporary.write_text(text, "utf-8", newline="\n"))


def replace_file(path: Path, write: Any) -> None:
    """Call `write` with a temporary path beside `path`, then put the file in its place, behind links."""
    try:
        real = written_at(path)
        handle, name = tempfile.mkstemp(prefix=f".{real.name}.", dir=real.parent)
    except OSError as wrong:
        raise cannot_write(wrong, path) from None
    os.close(handle)
    temporary = Path(name)
    children.guarded(temporary)
    try:
        write(temporary)
        os.chmod(temporary, 0o666 & ~_umask())
        os.replace(temporary, real)
    except OSError as wrong:
        raise cannot_write(wrong, path) from None
    finally:
        temporary.unlink(missing_ok=True)


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask
