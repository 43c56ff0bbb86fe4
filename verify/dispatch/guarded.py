"""Memory that shows what a kernel has written (specs/verify.md, "Kernels for unknown sizes")."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod
from typing import Any

import numpy as np

from assay.semantics.dtypes import DType

Array = np.ndarray[Any, Any]
GUARD = 4096
"""Bytes before and behind an output."""
_PATTERN: Array = np.random.default_rng(1).integers(2, 256, GUARD, np.uint8)


@dataclass(eq=False)
class GuardedOutput:
    """An output of a size that a shape function gave, between zones that must stay as they are. Before the kernel runs
    it is full of bytes by chance: what is not written does not have the value that it must."""

    whole: Array
    array: Array

    @classmethod
    def make(cls, shape: Sequence[int], of: DType) -> GuardedOutput:
        """Memory for an output."""
        nbytes = prod(shape) * of.itemsize
        whole: Array = np.resize(_PATTERN, nbytes + 2 * GUARD + 64)
        start = GUARD + -(whole.ctypes.data + GUARD) % 64
        return cls(whole, whole[start : start + nbytes].view(of.numpy).reshape(tuple(shape)))

    def written_outside(self) -> int:
        """How many bytes around it have changed."""
        start = self.array.ctypes.data - self.whole.ctypes.data if self.array.size else GUARD
        stop = start + self.array.nbytes
        before = np.resize(_PATTERN, self.whole.size)
        changed = self.whole != before
        changed[start:stop] = False
        return int(np.count_nonzero(changed))
