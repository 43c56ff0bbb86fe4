"""The options of `assay run` about kernels (specs/verify.md, "Kernels for unknown sizes")."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class KernelOptions:
    """The options of `assay run` that are about kernels, as they were given."""

    kernels: str | None
    store: Path | None = None
    cache: int = 256
    stream: Sequence[str] = ()
    repeat: int = 1
    threads: int = 1
    is_written: bool = False
    """Whether the results go to a file, which has those of one run."""
