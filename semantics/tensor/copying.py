"""Tensor functions that copy (rule M8; specs/semantics.md, "M8 Devices").

Only a copy may read memory of another device than the one it runs on. A tensor function says by its attribute
"operator" that it is a `device_copy`; that is believed only if its text shows it.
"""

from __future__ import annotations

from collections.abc import Sequence
from weakref import WeakKeyDictionary

from assay.semantics.errors import Invalid
from assay.semantics.scalar import Dim, Expr, Load, provably_equal, show
from assay.semantics.tensor import Assert, Buffer, For, If, LetStmt, PrimFunc, Seq, Store, loads, program_order
from assay.semantics.tensor.blocks import without_blocks
from assay.semantics.tensor.calls import size_of

DEVICE_COPY = "device_copy"

_known: WeakKeyDictionary[PrimFunc, str] = WeakKeyDictionary()


def claims_copy(func: PrimFunc) -> bool:
    """Whether a tensor function says that it is a device_copy."""
    return func.attrs.get("operator") == DEVICE_COPY


def no_copy(func: PrimFunc) -> str:
    """Why a tensor function is no plain copy of one input; empty if it is one.

    A plain copy has one input and one output, of one dtype and size. All that it does is to store elements of the input
    at their own places in the output, in loops and under conditions that read no memory. That each element is stored
    is for the run to check, as of every output.
    """
    found = _known.get(func)
    if found is None:
        found = _known[func] = _reason(func)
    return found


def is_device_copy(func: PrimFunc) -> bool:
    """Whether a tensor function may read across: it says that it is a device_copy, and is one."""
    return claims_copy(func) and not no_copy(func)


def check_copy(func: PrimFunc) -> None:
    """Invalid (copy.C1) if a tensor function says that it is a device_copy, and is none."""
    if claims_copy(func) and (why := no_copy(func)):
        raise Invalid(
            f"{func.name} says that it is a device_copy, but {why}: it must store each element of its one input at the"
            " same place of its one output, and do nothing else",
            label="copy.C1",
        )


def _reason(func: PrimFunc) -> str:
    if len(func.inputs) != 1 or func.num_outputs != 1:
        return f"it has {len(func.inputs)} inputs and {func.num_outputs} outputs"
    x, y = func.params
    if x.dtype is not y.dtype:
        return f"{x.name} is {x.dtype}, {y.name} is {y.dtype}"
    if not provably_equal(size_of(x.shape), size_of(y.shape)):
        return f"{x.name} and {y.name} have other numbers of elements"
    for stmt in program_order(without_blocks(func).body):
        values: Sequence[Expr] = stmt.expressions
        match stmt:
            case Seq() | For() | If() | LetStmt() | Assert():
                pass
            case Store() if stmt.buffer is y:
                value = stmt.value
                if not isinstance(value, Load) or value.buffer is not x:
                    return f"it stores {show(value)} to {y.name}"
                if not _one_place(x, value.indices, y, stmt.indices):
                    return f"it stores {show(value)} at {show(y[stmt.indices])}"
                values = (*value.indices, *stmt.indices)
            case _:
                return f"there is {type(stmt).__name__} in it"
        if any(loads(v) for v in values):
            return "what it does depends on data"
    return ""


def _one_place(x: Buffer, at: Sequence[Dim], y: Buffer, to: Sequence[Dim]) -> bool:
    """Whether two elements have one place in row-major order."""
    if len(at) == len(to) and all(map(provably_equal, x.shape[1:], y.shape[1:])):
        return all(map(provably_equal, at, to))
    return provably_equal(_place(x, at), _place(y, to))


def _place(buffer: Buffer, indices: Sequence[Dim]) -> Dim:
    found: Dim = 0
    for n, i in zip(buffer.shape, indices, strict=True):
        found = found * n + i
    return found
