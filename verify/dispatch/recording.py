"""The sizes that a run has seen, for the next one (specs/verify.md, "Kernels for unknown sizes")."""

from __future__ import annotations

import json
import os
import secrets
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from threading import Lock
from typing import Any

from assay.semantics.errors import EnvironmentFailure, Invalid
from assay.semantics.files import read_text, written_at
from assay.semantics.scalar import Var
from assay.semantics.strict_json import parse_json

FORMAT = "assay sizes 1"
MOST = 4096
"""Choices of sizes that are kept of a function."""
LARGEST = 1 << 31


@dataclass
class RecordedSizes:
    """By the digest of a function the values of its symbols, in their order. What was there `before` is specialised;
    what is seen meanwhile is kept for later."""

    before: dict[str, dict[tuple[int, ...], None]] = field(default_factory=dict)
    now: dict[str, dict[tuple[int, ...], None]] = field(default_factory=dict)
    lock: Lock = field(default_factory=Lock)

    def seen(self, digest: str, order: Sequence[Var], sizes: Mapping[Var, int]) -> bool:
        """Whether sizes were recorded before; they are recorded now."""
        numbers = tuple(int(sizes[v]) for v in order)
        with self.lock:
            here = self.now.setdefault(digest, {})
            if len(here) < MOST:
                here[numbers] = None
            return numbers in self.before.get(digest, {})

    def of(self, name: str, digest: str, order: Sequence[Var]) -> list[dict[Var, int]]:
        """The sizes of a function that were recorded before. Invalid (kernels.C2): they are not as many as it has."""
        found = []
        for numbers in self.before.get(digest, {}):
            if len(numbers) != len(order):
                told = ", ".join(v.name for v in order) or "none"
                raise Invalid(
                    f"recorded sizes of {name} are {len(numbers)} numbers, and its sizes are {told}", label="kernels.C2"
                )
            found.append(dict(zip(order, numbers, strict=True)))
        return found

    def turn(self) -> None:
        """The first run is over: what it has seen was before."""
        with self.lock:
            for digest, some in self.now.items():
                self.before.setdefault(digest, {}).update(some)

    def read(self, path: Path) -> bool:
        """Take what a file has, if there is one. Invalid (kernels.C2): it is no such file."""
        try:
            said = parse_json(read_text(path, "ascii"))
        except FileNotFoundError:
            return False
        except (OSError, ValueError) as wrong:
            why = wrong.strerror if isinstance(wrong, OSError) else wrong
            raise Invalid(f"cannot be read: {why}", where=str(path), label="kernels.C2") from None
        if not isinstance(said, dict) or said.get("format") != FORMAT or not _is_table(said.get("sizes")):
            raise Invalid("this is no file of recorded sizes", where=str(path), label="kernels.C2")
        for digest, some in said["sizes"].items():
            self.before.setdefault(digest, {}).update(dict.fromkeys(map(tuple, some)))
        return True

    def write(self, path: Path) -> None:
        """Write what was seen, before and now, whole or not at all."""
        self.turn()
        text = json.dumps({"format": FORMAT, "sizes": {d: sorted(some) for d, some in self.before.items()}}, indent=1)
        part: Path | None = None
        try:
            real = written_at(path)
            part = real.with_name(f".{real.name}.{secrets.token_hex(8)}")
            part.write_text(text + "\n", "ascii")
            os.replace(part, real)
        except OSError as wrong:
            if part is not None:
                with suppress(OSError):
                    part.unlink()
            raise EnvironmentFailure(
                f"cannot be written: {wrong.strerror or wrong}", where=str(path), label="output.C2"
            ) from None


def _is_table(said: Any) -> bool:
    """Whether it has lists of sizes by name."""
    return isinstance(said, dict) and all(
        isinstance(some, list)
        and len(some) <= MOST
        and all(isinstance(row, list) and all(type(n) is int and 0 <= n < LARGEST for n in row) for row in some)
        for some in said.values()
    )
