"""What was judged, and the verdict on one tensor (specs/verify.md, "Verdict")."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from assay.interp.values import Value, plain
from assay.semantics.operator import Operator
from assay.verify.oracle.verdict import Worst

Array = np.ndarray[Any, Any]


@dataclass(frozen=True)
class Applied:
    """An operator, and the operands that it was given; None for a tensor function that claims no operator."""

    op: Operator | None
    attrs: Mapping[str, Any]
    operands: Sequence[Value]
    name: str

    @cached_property
    def known(self) -> list[Array] | None:
        """The operands as arrays, if they are known exactly."""
        found = [plain(a) for a in self.operands]
        return found if all(isinstance(a, np.ndarray) for a in found) else None


@dataclass(frozen=True)
class TensorFinding:
    """The verdict on one tensor. `unknown` says which elements were not decided, None for none, of `size`; `excused` is
    how many are what only the standard's silence allows, by the entries `silent`."""

    tensor: str
    layer: str
    wrong: str = ""
    worst: Worst | None = None
    unknown: Array | None = None
    size: int = 0
    by: Applied | None = None
    allowed: Any = None
    """What was compared with, where something is wrong, or not decided in what is no float."""
    excused: int = 0
    silent: tuple[str, ...] = ()
    zeros: int = 0
    """How many zeros have the other sign, which is free there."""
    nans: int = 0
    """How many NaN have other bits, which are free."""
    flushed: int = 0
    """How many are what only taking subnormal numbers for zeros allows."""
    taken: Array | None = None
    """The tensor with those elements as they are where such numbers are kept."""

    @property
    def open(self) -> int:
        """How many elements were not decided."""
        return 0 if self.unknown is None else int(np.count_nonzero(self.unknown))

    @property
    def may_be_excused(self) -> bool:
        """Whether the standard may leave open what is wrong, or not decided."""
        return self.allowed is not None
