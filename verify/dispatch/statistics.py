"""What became of the kernels of a run: the table of `--kernels` (specs/verify.md, "Kernels for unknown sizes")."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from threading import Lock
from typing import Any

COUNTS = ("calls", "hits", "misses", "compiled", "stored", "evicted", "checked", "padded", "interpreted", "library")
"""What is counted of each function. A call is a hit, whose kernel was there, a miss, which had to have it made, or by
the interpreter, or by the library: calls are the sum of these four. Compiled and stored are kernels: made by the
compiler, or taken from the store, for a call or before the run. An evicted kernel is gone, and made again when it is
wanted. Checked are first uses that were compared: of a kernel, of padding at some sizes, of the library. Padded are
calls that were padded by themselves; of main, which has no calls, runs that were padded as a whole. The row for all is
the sum of the rows."""

ALWAYS = ("calls", "hits", "misses", "compiled", "evicted")


@dataclass
class FunctionStatistics:
    """The counts of one function, which way was chosen for it, and notes: what was refused, and why."""

    name: str
    way: str
    operator: str = ""
    counts: Counter[str] = field(default_factory=Counter)
    seconds: float = 0.0
    """What compiling took."""
    running: float = 0.0
    """What its calls took."""
    nbytes: int = 0
    """Bytes of all the objects that were made or loaded."""
    elements: int = 0
    """Elements of operands and results of padded calls, with the padding."""
    wasted: int = 0
    """Those of them that are padding."""
    notes: dict[str, None] = field(default_factory=dict)

    def data(self) -> dict[str, Any]:
        """By stable keys."""
        return {
            "function": self.name,
            "operator": self.operator,
            "way": self.way,
            **{n: self.counts[n] for n in COUNTS},
            "compile_seconds": round(self.seconds, 6),
            "run_seconds": round(self.running, 6),
            "object_bytes": self.nbytes,
            "padded_elements": self.elements,
            "wasted_elements": self.wasted,
            "notes": list(self.notes),
        }


@dataclass
class KernelStatistics:
    """The counts of all functions, from many threads, and notes on the run as a whole."""

    functions: dict[str, FunctionStatistics] = field(default_factory=dict)
    notes: dict[str, None] = field(default_factory=dict)
    lock: Lock = field(default_factory=Lock)

    def of(self, name: str, way: str, operator: str = "") -> FunctionStatistics:
        """The counts of a function."""
        with self.lock:
            return self.functions.setdefault(name, FunctionStatistics(name, way, operator))

    def count(self, of: FunctionStatistics, *what: str, **amounts: float) -> None:
        """Add one to some counts, and amounts to what adds up."""
        with self.lock:
            of.counts.update(what)
            for name, amount in amounts.items():
                setattr(of, name, getattr(of, name) + amount)

    def note(self, of: FunctionStatistics | None, text: str) -> None:
        """Something to be said of a function, or of the run."""
        with self.lock:
            (self.notes if of is None else of.notes)[text] = None

    @property
    def total(self) -> FunctionStatistics:
        """All of them together."""
        whole = FunctionStatistics("all", "")
        for f in self.functions.values():
            whole.counts += f.counts
            whole.seconds += f.seconds
            whole.running += f.running
            whole.nbytes += f.nbytes
            whole.elements += f.elements
            whole.wasted += f.wasted
        return whole

    def data(self) -> dict[str, Any]:
        """By stable keys."""
        return {
            "functions": [f.data() for f in self.functions.values()],
            "total": {k: v for k, v in self.total.data().items() if k not in ("function", "operator", "way", "notes")},
            "notes": list(self.notes),
        }

    def rows(self) -> Iterator[tuple[str, ...]]:
        """The table: a head, a row for each function, and one for all. What never happened has no column, but for what
        is always told; the way has one where there are several."""
        shown = [n for n in COUNTS if n in ALWAYS or self.total.counts[n]]
        ways = len({f.way for f in self.functions.values()}) > 1
        yield ("function", *(["way"] if ways else []), *shown, "waste", "compiling")
        for f in (*self.functions.values(), self.total):
            waste = f"{f.wasted / f.elements:.0%}" if f.elements else "0%"
            way = [f.way] if ways else []
            yield (f.name, *way, *(str(f.counts[n]) for n in shown), waste, f"{f.seconds:.2f} s")

    def said(self) -> Iterator[str]:
        """The notes, those of functions with their names."""
        yield from self.notes
        same: dict[str, list[str]] = {}
        for f in self.functions.values():
            for note in f.notes:
                same.setdefault(note, []).append(f.name)
        for note, names in same.items():
            more = f" and {len(names) - 3} more" if len(names) > 3 else ""
            yield f"{', '.join(names[:3])}{more}: {note}"
