"""Bytecode in the file of an executable: with its constants, or without those that are bound late (specs/verify.md;
specs/vm.md, "File")."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from assay.semantics import store
from assay.semantics.bits import frozen, raw
from assay.semantics.bytecode.decode import decode_bytecode
from assay.semantics.bytecode.encode import encode_bytecode
from assay.semantics.bytecode.listing import listing
from assay.semantics.dtypes import dtype
from assay.semantics.errors import Invalid
from assay.semantics.module import Module
from assay.semantics.rules import check
from assay.semantics.tensor import AllocateConst, program_order
from assay.semantics.text.module_printer import show
from assay.semantics.types import TensorType
from assay.verify import children
from assay.verify.app.packed import Packed, pack_folder
from assay.verify.border.files import replace_file

Array = np.ndarray[Any, Any]
CODE = "bytecode.bin"
BESIDE = "module.json"
TENSORS = "certificate/tensors.bin"


class Files(Protocol):
    """The files of a certificate, in a directory or in one file."""

    def read(self, name: str) -> bytes:
        """The bytes of one."""
        ...

    def text(self, name: str) -> str:
        """One as text."""
        ...


def late_names(module: Module) -> list[str]:
    """The constants of an executable that can be bound late: those that the code alone names, and of which nothing is
    said."""
    held = {s.index for d in module.kernels.values() for s in program_order(d.body) if isinstance(s, AllocateConst)}
    return [n for n in module.constants if n not in held and n not in module.infos]


def without_late(module: Module, late: Mapping[str, Any]) -> Module:
    """The executable without these constants, which are bound late."""
    if not late:
        return module
    types = {n: TensorType(a.shape, dtype(a.dtype)) for n, a in module.constants.items() if n in late}
    code = replace(module.bytecode, late=types)
    left = {n: a for n, a in module.constants.items() if n not in late}
    return replace(module.with_(main=code), constants=left)


def bound(module: Module, given: Mapping[str, Array]) -> Module:
    """The executable with constants for those that are bound late. Invalid: one is not such a constant (vm.C9), is
    missing (vm.C8), or is of another type (vm.C10)."""
    late = module.bytecode.late
    for name, array in given.items():
        if name not in late:
            raise Invalid(
                f"no constant {name!r} is bound late; those that are: {', '.join(late) or 'none'}", label="vm.C9"
            )
        found = TensorType(array.shape, dtype(array.dtype))
        if str(found) != str(late[name]):
            raise Invalid(f"the constant {name} is {late[name]}, {found} is given", label="vm.C10")
    missing = [n for n in late if n not in given]
    if missing:
        what = f"the constant {missing[0]} is bound late, and not given: give all with --constants"
        raise Invalid(what, label="vm.C8")
    order = [n for n in module.offsets if n in given or n in module.constants]
    both = {**module.constants, **{n: frozen(a) for n, a in given.items()}}
    kept = {n: both[n] for n in (*order, *(n for n in both if n not in order))}
    return replace(module.with_(main=replace(module.bytecode, late={})), constants=kept)


def digests(constants: Mapping[str, Array]) -> dict[str, str]:
    """SHA-256 of the elements of each."""
    return {n: hashlib.sha256(raw(a)).hexdigest() for n, a in constants.items()}


def written(module: Module, arrays: store.ArrayWriter) -> Iterator[tuple[str, bytes]]:
    """The files of an executable; its tensors go to `arrays`."""
    code, beside = encode_bytecode(module)
    yield CODE, code
    yield BESIDE, store.encode(beside, arrays).encode("utf-8")


def read(files: Files, arrays: store.ArrayReader, where: str) -> Module:
    """The executable in the files of one, well-formed. Invalid: it is not, or it is not written as `written` does."""
    text = files.text(BESIDE)
    module = decode_bytecode(
        files.read(CODE), store.decode_companion(text, arrays, f"{where}: {BESIDE}"), f"{where}: {CODE}"
    )
    with open(os.devnull, "wb") as nowhere:
        again = store.encode(encode_bytecode(module)[1], store.ArrayWriter(nowhere, arrays.elsewhere.keys()))
    if again != text:
        raise Invalid("is not written as assay build writes it", where=f"{where}: {BESIDE}", label="bytecode.C6")
    try:
        check(module)
    except Invalid as wrong:
        wrong.where = f"{where}: {wrong.where}" if wrong.where else where
        raise
    return module


def load(path: Path) -> Module:
    """The executable in a file."""
    files = Packed(path)
    return read(files, files.arrays(TENSORS), str(path))


def save_executable(module: Module, path: Path) -> None:
    """Write an executable that nothing is known of: without the modules that it was made of, and without evidence."""

    def packed(temporary: Path) -> None:
        with children.folder() as place:
            tensors = place / TENSORS
            tensors.parent.mkdir()
            with tensors.open("wb") as file:
                for name, data in written(module, store.ArrayWriter(file)):
                    (place / name).write_bytes(data)
            pack_folder(place, temporary)

    replace_file(path, packed)


def assembly(module: Module) -> str:
    """An executable as text for people: its constants, its bytecode, and what stands beside it."""
    table = [f"constant {n}: {TensorType(a.shape, dtype(a.dtype))}" for n, a in module.constants.items()]
    beside = replace(module, definitions={n: d for n, d in module.definitions.items() if n != "main"})
    return "\n".join([*table, *listing(module.bytecode), "", show(beside, brief=True)])
