"""A tensor function as machine code in this process (specs/verify.md, "Kernels for unknown sizes")."""

from __future__ import annotations

import _ctypes
import ctypes
import secrets
import time
import weakref
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from threading import Lock
from typing import Any

import numpy as np

from assay.lower.c.single import ENTRY, NAME, KernelSource, emit_kernel
from assay.semantics.errors import EnvironmentFailure
from assay.semantics.scalar import Var
from assay.semantics.tensor import PrimFunc
from assay.verify import children
from assay.verify.c import tools
from assay.verify.dispatch.store import KernelStore

Array = np.ndarray[Any, Any]
FLAGS = (*tools.FLAGS, f"-D{NAME.upper()}_REPRODUCIBLE", "-fPIC", "-shared")


@dataclass(eq=False)
class KernelObject:
    """A kernel that was compiled, and is loaded. `call` may run on many threads at once."""

    func: PrimFunc
    order: tuple[Var, ...]
    """All symbols and scalars that the function had before some were numbers."""
    source: KernelSource
    entry: Any
    nbytes: int
    seconds: float
    """What the compiler took; 0 where it was in the store."""
    stored: bool = False
    lock: Lock = field(default_factory=Lock)
    checked: bool = False
    """Whether its first use was compared."""

    def call(
        self, inputs: Sequence[Array], outputs: Sequence[Array], scratch: Sequence[Array], sizes: Mapping[Var, int]
    ) -> int:
        """Run it on dense arrays; the status."""
        roles = {"input": inputs, "output": outputs, "scratch": scratch}
        found = [roles[p.role][p.index].ctypes.data for p in self.source.parameters]
        numbers = [sizes[v] for v in self.source.sizes]
        return int(self.entry((ctypes.c_void_p * len(found))(*found), (ctypes.c_int64 * len(numbers))(*numbers)))

    def takes(self, sizes: Mapping[Var, int]) -> bool:
        """Whether it is for these sizes."""
        return all(low <= sizes[v] <= high for v, (low, high) in self.source.bounds.items())


@dataclass(eq=False)
class KernelCompiler:
    """Makes kernels. Objects that nobody holds any more are unloaded. Without a C compiler only those of the store can
    be had, and `missing` says why."""

    store: KernelStore | None = None
    place: Path = field(default_factory=children.new_folder)
    version: str | None = None
    missing: str = ""

    def __post_init__(self) -> None:
        weakref.finalize(self, children.remove_folder, self.place)
        try:
            self.version = f"{tools.command()}: {tools.version(self.place)}"
        except EnvironmentFailure as wrong:
            self.missing = str(wrong)

    def make(self, func: PrimFunc, order: tuple[Var, ...]) -> KernelObject:
        """The object of a function whose sizes may be numbers. Unsupported: it has no C. EnvironmentFailure: there is
        no compiler, and it is not stored."""
        started = time.perf_counter()
        source = emit_kernel(func)
        found = self.store.load(source.text, FLAGS, self.version) if self.store is not None else None
        if found is not None:
            return self.loaded(func, order, source, found, 0.0)
        if self.version is None:
            raise EnvironmentFailure(self.missing, label="compiled.C1")
        folder = self.place / secrets.token_hex(8)
        folder.mkdir()
        try:
            (folder / f"{NAME}.c").write_text(source.text, encoding="ascii")
            tools.run_compiler([*FLAGS, f"{NAME}.c"], folder / f"{NAME}.so", folder)
            found = (folder / f"{NAME}.so").read_bytes()
        finally:
            children.remove_folder(folder)
        seconds = time.perf_counter() - started
        if self.store is not None:
            self.store.save(source.text, FLAGS, self.version, found)
        return self.loaded(func, order, source, found, seconds)

    def loaded(
        self, func: PrimFunc, order: tuple[Var, ...], source: KernelSource, data: bytes, seconds: float
    ) -> KernelObject:
        """What was compiled, in this process; its file is not needed behind that."""
        path = self.place / f"{secrets.token_hex(8)}.so"
        path.write_bytes(data)
        try:
            library = ctypes.CDLL(str(path))
        except OSError as wrong:
            raise EnvironmentFailure(f"what was compiled cannot be loaded: {wrong}", label="compiled.C7") from None
        finally:
            path.unlink()
        entry = getattr(library, ENTRY)
        entry.restype = ctypes.c_int
        made = KernelObject(func, order, source, entry, len(data), seconds, stored=seconds == 0.0)
        weakref.finalize(made, _ctypes.dlclose, library._handle)
        return made
