"""Inputs and outputs in files, and inputs made from a seed (specs/verify.md, "Inputs")."""

from __future__ import annotations

import os
import tempfile
import tokenize
import zipfile
import zlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from assay.interp.graph import check_inputs
from assay.interp.graph.room import require_room
from assay.semantics.dtypes import DTYPES, dtype
from assay.semantics.errors import Invalid
from assay.semantics.graph import Function
from assay.semantics.scalar import Var as Symbol
from assay.semantics.types import TensorType, symbols

Array = np.ndarray[Any, Any]


_BROKEN = (zipfile.BadZipFile, zlib.error, tokenize.TokenError)


def load(path: Path) -> dict[str, Array]:
    """The tensors of an .npz file by name."""
    try:
        with path.open("rb") as file:
            data = np.load(file, allow_pickle=False)
            if isinstance(data, np.ndarray):
                raise Invalid("one array where an .npz of named arrays is expected", where=str(path), label="input.C5")
            return dict(_named(n, data[n]) for n in data.files)
    except FileNotFoundError:
        raise Invalid("no such file", where=str(path), label="input.C5") from None
    except (OSError, ValueError, EOFError, KeyError, RuntimeError, SyntaxError, *_BROKEN) as wrong:
        raise Invalid(f"not an .npz of arrays: {wrong}", where=str(path), label="input.C5") from None


def _named(name: str, array: Array) -> tuple[str, Array]:
    """NumPy's format has no names for bfloat16 and its like: they travel as bytes, the dtype behind the name."""
    head, _, tail = name.rpartition(":")
    return (head, array.view(DTYPES[tail].numpy)) if array.dtype.kind == "V" and tail in DTYPES else (name, array)


def save(path: Path, arrays: Mapping[str, Array]) -> None:
    """Write an .npz; the file appears whole or not at all."""

    def write(to: Path) -> None:
        with zipfile.ZipFile(to, "w") as file:
            for name, array in arrays.items():
                of = dtype(array.dtype)
                exotic = array.dtype.kind == "V" or of.numpy.isbuiltin != 1
                with file.open(f"{name}:{of}.npy" if exotic else f"{name}.npy", "w", force_zip64=True) as entry:
                    plain = array.view(f"V{of.itemsize}") if exotic else array
                    np.lib.format.write_array(entry, np.asanyarray(plain), allow_pickle=False)

    replace_file(path, write)


def replace_text(path: Path, text: str) -> None:
    """Write a text file whole or not at all. Invalid (output.C1): it cannot be written."""
    replace_file(path, lambda temporary: temporary.write_text(text, "utf-8", newline="\n"))


def replace_file(path: Path, write: Any) -> None:
    """Call `write` with a temporary path beside `path`, then put the file in its place."""
    try:
        handle, name = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent or Path("."))
    except OSError as wrong:
        raise Invalid(f"cannot write: {wrong.strerror}", where=str(path), label="output.C1") from None
    os.close(handle)
    temporary = Path(name)
    try:
        write(temporary)
        os.chmod(temporary, 0o666 & ~_umask())
        os.replace(temporary, path)
    except OSError as wrong:
        raise Invalid(f"cannot write: {wrong.strerror}", where=str(path), label="output.C1") from None
    finally:
        temporary.unlink(missing_ok=True)


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask


def dims_of(main: Function, dims: Mapping[str, int]) -> dict[Symbol, int]:
    """Numbers for symbols of main's parameters, by their names. Invalid (check.C1): there is no symbol of that name."""
    known = {s.name: s for p in main.params for s in symbols(p.type)}
    for name in dims:
        if name not in known:
            raise Invalid(f"main has no symbolic dim {name}; it has {', '.join(known) or 'none'}", label="check.C1")
    return {known[name]: n for name, n in dims.items()}


def complete(main: Function, given: Mapping[str, Array], seed: int) -> dict[str, Array]:
    """`given`, and for each input that is missing random values: normal reals, small whole numbers, coin tosses."""
    rng = np.random.default_rng(seed)
    inputs = dict(given)
    for p in main.params:
        assert isinstance(p.type, TensorType)
        if p.name in inputs:
            continue
        if not p.type.is_static:
            raise Invalid(
                f"input {p.name!r} is {p.type}: give it with --inputs, or its sizes with --dim", label="input.C6"
            )
        shape, of = p.type.static_shape, p.type.dtype
        require_room(shape, of, f"input {p.name!r}")
        if of.is_float:
            inputs[p.name] = rng.standard_normal(shape, dtype=np.float32).astype(of.numpy)
        else:
            inputs[p.name] = rng.integers(0, 2, shape).astype(of.numpy)
    check_inputs(main, inputs)
    return inputs
