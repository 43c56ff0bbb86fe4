"""Values that no memory holds (trap `memory_traps`; specs/interp.md, "Graph").

A tensor larger than the machine's memory is refused before it is allocated: NumPy might give a view in its place, and
run for ever on that.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from math import prod
from typing import TypeAlias

from assay.semantics.budget import claim, exhausted
from assay.semantics.dtypes import DType
from assay.semantics.errors import BudgetSpent, Invalid, Span, Trap

RANKS = 64
"""NumPy's arrays have no more axes."""
_TEXTS = (
    "array is too big",
    "Maximum allowed dimension exceeded",
    "maximum supported dimension",
    "maximum allowed size",
)


def _room() -> int:
    """The bytes of memory that the machine has, or, where it does not say, what an address can reach."""
    try:
        found = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (AttributeError, ValueError, OSError):
        found = -1
    return found if found > 0 else 1 << 47


MEMORY_BYTES = _room()


Said: TypeAlias = Callable[[], str]
"""Names what is computed; asked only where it is told, for it takes longer than what is told of seldom."""


def require_budget(shape: Sequence[int], of: DType, what: Said, where: Span | None = None) -> None:
    """BudgetSpent where the whole run may not take that much more (specs/semantics.md, "Budgets")."""
    claim(prod(shape) * of.itemsize, lambda: f"{what()}, a tensor {of}{list(shape)},", where)


def too_large(shape: Sequence[int], of: DType) -> str | None:
    """Why no array has that shape and element type here, if none has."""
    if len(shape) > RANKS:
        return f"{len(shape)} axes, of at most {RANKS}"
    size = prod(shape) * of.itemsize
    if size > MEMORY_BYTES or any(n >= 1 << 63 for n in shape):
        return f"{size} bytes, of {MEMORY_BYTES} that this machine has"
    if prod(max(n, 1) for n in shape) * of.itemsize >= 1 << 63:  # it has no elements, but NumPy counts the other axes
        return f"the axes {tuple(shape)}, which NumPy does not count"
    return None


def require_memory(shape: Sequence[int], of: DType, what: str) -> None:
    """Invalid where an input of that shape cannot be made."""
    wrong = too_large(shape, of)
    require_budget(shape, of, lambda: what)
    if wrong is not None:
        raise Invalid(f"{what} would take {wrong}: give smaller sizes", label="input.C11")


@contextmanager
def memory_traps(what: Said = lambda: "the run", where: Span | None = None) -> Iterator[None]:
    """What runs within traps where memory runs out, or an array is asked for that cannot be. BudgetSpent where it is
    the budget that does not have it."""
    try:
        yield
    except BudgetSpent as counted:
        raise counted.at(where) from None
    except MemoryError as wrong:
        spent = exhausted(what(), str(wrong))
        if spent is not None:
            raise spent.at(where) from None
        raise Trap("memory", "there is not enough memory", label="memory.T1") from None
    except ValueError as wrong:
        if not any(text in str(wrong) for text in _TEXTS):
            raise
        raise Trap("memory", f"there is no such array: {wrong}", label="memory.T1") from None
