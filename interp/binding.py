"""What a tensor function is called with: shapes, dtypes and symbolic dims (rule M4; specs/interp.md, "Tensor")."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any, TypeAlias

import numpy as np

from assay.semantics.dtypes import dtype
from assay.semantics.errors import Invalid
from assay.semantics.instance import hidden_symbols as hidden_symbols
from assay.semantics.scalar import Var, const, evaluate_dim, show, variables
from assay.semantics.tensor import Buffer, PrimFunc

Array: TypeAlias = np.ndarray[Any, Any]


def check_names(wanted: Mapping[str, object], inputs: Collection[str]) -> None:
    """Invalid unless there is an input for each name of a program, which has the type that `wanted` says, and no
    other."""
    for name in inputs:
        if name not in wanted:
            raise Invalid(f"unknown input {name!r}; the inputs are {', '.join(wanted) or 'none'}", label="input.C1")
    for name, of in wanted.items():
        if name not in inputs:
            raise Invalid(f"missing input {name!r}: {of}", label="input.C2")


def bind_scalars(func: PrimFunc, scalars: Sequence[Any]) -> dict[Var, Any]:
    """The values of the scalar parameters, each of its dtype; Invalid where they are not as many or do not fit."""
    if len(scalars) != len(func.scalars):
        raise Invalid(f"{func.name} takes {len(func.scalars)} scalars, {len(scalars)} given", label="argument.C9")
    return {v: const(np.asarray(x)[()], v.dtype).value for v, x in zip(func.scalars, scalars, strict=True)}


def bind_dims(func: PrimFunc, inputs: Sequence[Array], scalars: Sequence[Any] = ()) -> dict[Var, int]:
    """The values of the symbolic dims of `func`'s parameters, from the inputs' shapes and from integer `scalars`.

    Invalid, naming the parameter, where `inputs` differ from them in number, dtype, rank or shape (rule M6.1).
    """
    if len(inputs) != len(func.inputs):
        raise Invalid(f"{func.name} takes {len(func.inputs)} inputs, {len(inputs)} given", label="argument.C1")
    dims: dict[Var, int] = {v: int(n) for v, n in bind_scalars(func, scalars).items() if v.dtype.is_integer}
    for buffer, array in zip(func.inputs, inputs, strict=True):
        if dtype(array.dtype) is not buffer.dtype or array.ndim != len(buffer.shape):
            got = f"{array.dtype} of rank {array.ndim}"
            raise Invalid(f"{func.name}: {buffer!r} expected, got {got}", label="argument.C2")
        for d, n in zip(buffer.shape, array.shape, strict=True):
            if isinstance(d, Var):
                dims.setdefault(d, int(n))
    for buffer, array in zip(func.inputs, inputs, strict=True):
        check_shape(func, buffer, array, dims)
    return dims


def check_shape(func: PrimFunc, buffer: Buffer, array: Array, dims: Mapping[Var, int]) -> None:
    """Invalid unless `array` has the buffer's dtype and its shape under `dims`."""
    want = shape_at(buffer, dims)
    if tuple(array.shape) != want or dtype(array.dtype) is not buffer.dtype:
        bound = ", ".join(f"{v.name} = {dims[v]}{_origin(func, v)}" for d in buffer.shape for v in variables(d))
        where = f" with {bound}" if bound else ""
        got = f"{array.dtype} of shape {tuple(array.shape)}"
        raise Invalid(f"{func.name}: {buffer!r}{where} expected, got {got}", label="argument.C3")


def _origin(func: PrimFunc, symbol: Var) -> str:
    """Where the value of a symbol comes from, for messages."""
    for b in func.inputs:
        if any(d is symbol for d in b.shape):
            return f" (by {b.name})"
    return ""


def shape_at(buffer: Buffer, dims: Mapping[Var, int]) -> tuple[int, ...]:
    """The buffer's shape as numbers; Invalid where a symbol is unbound or a dim is negative."""
    for d in buffer.shape:
        for v in () if isinstance(d, int) else variables(d):
            if v not in dims:
                raise Invalid(
                    f"buffer {buffer.name}: the dim {show(d)} needs {v.name}, which no input binds",
                    label="argument.C4",
                )
    shape = tuple(evaluate_dim(d, dims) for d in buffer.shape)
    if any(n < 0 for n in shape):
        raise Invalid(f"buffer {buffer.name} has a negative dim: {shape}", label="argument.C5")
    return shape
