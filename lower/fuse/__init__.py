"""Calls of tensor functions that follow one another become one (row R23; specs/lower.md, "fuse").

fuse(module) = fuse_kernels(fuse_calls(module))
"""

from __future__ import annotations

from assay.lower.fuse.calls import fuse_calls
from assay.lower.fuse.groups import Limits
from assay.lower.fuse.kernels import fuse_kernels
from assay.semantics.module import Module

__all__ = ["Limits", "fuse", "fuse_calls", "fuse_kernels"]


def fuse(module: Module, limits: Limits | None = None) -> Module:
    """The module with groups of calls as single tensor functions, bit for bit the same."""
    return fuse_kernels(fuse_calls(module, limits))
