"""Large constants beside a text, in a file of their own (rows C10, R30; specs/semantics.md, "Text").

    write_module(module, Path("model.py"))      # model.py, and model.py.tensors where something is large
    read_module(Path("model.py"))               # the tensors are mapped, not copied

A constant of more than LARGEST bytes never stands in a text. Its place in the file does, with its SHA-256:
`A.stored("float32", (4096, 4096), 64, "ab12...")`, and once for the module `A.beside("model.py.tensors", 67108928)`,
the file and its size. Printed without a file it has no place, `None`; such a text can be read by people only.
"""

from __future__ import annotations

import hashlib
import os
import tempfile
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

from assay.semantics.bits import Array, raw
from assay.semantics.dtypes import BOOL, dtype
from assay.semantics.errors import Invalid
from assay.semantics.files import cannot_write, written_at
from assay.semantics.store import ArrayReader, ArrayWriter

LARGEST = 1 << 16
"""Bytes of the largest constant that stands in a text."""


class TensorWriter:
    """The large constants of one text, on their way into a file called `name`; each content is stored once."""

    def __init__(self, file: BinaryIO, name: str) -> None:
        self.name = name
        self.arrays = ArrayWriter(file)

    def stored(self, data: Array) -> str:
        """What stands in the text for a constant."""
        of, shape, offset, digest = self.arrays.add(data)["array"]
        return f'A.stored("{of}", {tuple(shape)}, {offset}, "{digest}")'

    @property
    def declaration(self) -> str:
        """What the text says of the file; empty where nothing is in it."""
        return f"A.beside({self.name!r}, {self.arrays.end})" if self.arrays.known else ""


def placeholder(data: Array) -> str:
    """What stands in a text without a file for a large constant: all but its place. The digest is that of its bytes."""
    digest = hashlib.sha256(raw(data)).hexdigest()
    return f'A.stored("{dtype(data.dtype)}", {tuple(data.shape)}, None, "{digest}")'


class TensorReader:
    """The tensors beside a text. Invalid: the file is not there, or has another size than the text says (text.C33)."""

    def __init__(self, folder: Path | None, name: str, nbytes: int) -> None:
        if Path(name).name != name or name in ("", ".", ".."):
            raise Invalid(f"{name!r} is no name of a file beside the text", label="text.C33")
        if folder is None:
            raise Invalid(
                f"large constants are in {name}: in which folder? parse(..., folder=...) says it", label="text.C33"
            )
        path = folder / name
        try:
            found = path.stat().st_size
            if found != nbytes:
                what = f"has {found} bytes, the text was written beside one of {nbytes}"
                raise Invalid(what, where=str(path), label="text.C33")
            self.arrays = ArrayReader(path)
        except OSError as wrong:
            what = f"the text's large constants are in this file, which cannot be read: {wrong.strerror or wrong}"
            raise Invalid(what, where=str(path), label="text.C33") from None


def stored(reader: TensorReader | None, of: Any, shape: Any, offset: Any, digest: Any) -> Array:
    """The array that `A.stored` means, mapped. Invalid: it has no place (text.C34), or other bytes than its digest says
    (store.C2), or lies outside the file (store.C1)."""
    numbers = isinstance(shape, (tuple, list)) and all(type(d) is int and d >= 0 for d in shape)
    if not (isinstance(of, str) and numbers and isinstance(digest, str) and (offset is None or type(offset) is int)):
        raise Invalid("A.stored takes a dtype, a shape, a place in the file and a SHA-256", label="text.C6")
    if offset is None:
        what = f"a constant {of}{list(shape)} was left out when this text was printed, for there was no file for it;"
        raise Invalid(f"{what} write_module writes both", label="text.C34")
    if reader is None:
        raise Invalid(
            "a constant is stored beside the text, but A.beside, which names the file, is missing", label="text.C34"
        )
    found = reader.arrays.get((of, tuple(shape), offset, digest))
    if dtype(of) is BOOL and found.size and found.view(np.uint8).max() > 1:
        raise Invalid("a constant of bool has bytes other than 0 and 1", label="text.C6")
    return found


def write_text(path: Path, text_of: Callable[[TensorWriter], str]) -> None:
    """Write the text that `text_of` makes, and what it stores beside it. Both files appear whole. Invalid where they
    cannot be written (output.C1)."""
    beside = path.with_name(f"{path.name}.tensors")
    try:
        written_at(path)
        handle, new = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.absolute().parent)
        try:
            with os.fdopen(handle, "wb") as file:
                writer = TensorWriter(file, beside.name)
                text = text_of(writer)
            if writer.declaration:
                os.chmod(new, 0o644)
                os.replace(new, beside)
            text_path = path.with_name(f".{path.name}.new")
            text_path.write_text(text, encoding="utf-8")
            os.replace(text_path, path)
        finally:
            with suppress(FileNotFoundError):
                os.unlink(new)
        if not writer.declaration:
            beside.unlink(missing_ok=True)
    except OSError as wrong:
        raise cannot_write(wrong, path) from None
