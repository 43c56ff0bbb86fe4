"""Tensors that a batch of trials can hold (specs/verify.md, "Trials").

NumPy has a limit of axes and counts no more bytes than int64 does, in an array without elements too, whose other axes
it multiplies. A batch has one axis more than a tensor; some functions of NumPy end the process where there are too
many.
"""

from __future__ import annotations

from collections.abc import Iterator
from math import prod
from typing import Any

from assay.interp.graph.memory_limits import RANKS
from assay.semantics.errors import Unsupported
from assay.semantics.graph import Expr, Function, show_head
from assay.semantics.module import Module
from assay.semantics.tensor import PrimFunc
from assay.semantics.types import TensorType, Type
from assay.semantics.walk import post_order

AXES = RANKS - 1
ELEMENTS = 1 << 48
"""What the axes of a tensor without elements may come to, but for those that are 0. Where there are elements, the
budget says what is too large."""


def require_countable(module: Module) -> None:
    """Unsupported (check.C2): a tensor of the module has more axes, or longer ones, than a batch of trials can have."""
    for name, d in module.definitions.items():
        if isinstance(d, PrimFunc):
            for buffer in (*d.params, *d.allocations):
                _look(buffer.shape, f"the buffer {buffer.name} of {name}", None)
        elif isinstance(d, Function):
            root: Expr = d
            for node in post_order(root):
                for of in _tensors(node.type):
                    _look(of.shape, show_head(node)[:60], node.span)


def _tensors(of: Type) -> Iterator[TensorType]:
    if isinstance(of, TensorType):
        yield of
        return
    for t in post_order(of):
        if isinstance(t, TensorType):
            yield t


def _look(shape: Any, what: str, where: Any) -> None:
    if len(shape) > AXES:
        wrong = (
            f"{len(shape)} axes; the checks try it out many times at once, in arrays of at most {AXES} axes and one for"
            " the trials"
        )
    elif 0 in shape and prod(d for d in shape if isinstance(d, int) and d) > ELEMENTS:
        wrong = f"the axes {tuple(shape)}, which are too long for the arrays of the checks' trials"
    else:
        return
    raise Unsupported(f"{what} has {wrong}", where=where, label="check.C2")
