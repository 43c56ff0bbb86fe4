"""Values against types where they meet: at entry, on return, and where a size becomes known (rule M4; specs/interp.md,
"Graph").
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeAlias

import numpy as np

from assay.interp.values import Cell, Closure, CodeClosure, Data, External, Maker, Shape, Value
from assay.semantics import types
from assay.semantics.bounds import Bounded
from assay.semantics.dtypes import dtype
from assay.semantics.errors import Invalid
from assay.semantics.scalar import Dim, Var as Symbol, evaluate_dim, show, variables
from assay.semantics.tasks import Task, run_task
from assay.semantics.walk import Worklist

Path: TypeAlias = "tuple[Path, str] | str"
"""The way into a value, for messages: the way to the whole, and the step to the part."""
MOST = 40
"""How many steps of a path are shown."""


def shown(path: Path) -> str:
    """A path as text, its middle left out where it is long: input 'xs'.Cons.1.Cons.0"""
    steps: list[str] = []
    while not isinstance(path, str):
        path, step = path
        steps.append(step)
    if (count := len(steps)) > MOST:
        steps[MOST // 2 : -(MOST // 2)] = [f"({count - MOST} steps)"]
    return ".".join([path, *reversed(steps)])


def given(value: Any, of: types.Type, what: Path, lift: Callable[[Value], Value] = lambda v: v) -> Value:
    """What a caller gives for a value of type `of`, in the form that evaluation uses: arrays, tuples, shapes.

    Invalid, naming it by `what`, where it is nothing of the kind. `lift` is applied to every array.
    """
    return run_task(_given(value, of, what, lift))


def _given(value: Any, of: types.Type, what: Path, lift: Callable[[Value], Value]) -> Task[Value]:
    match of:
        case types.TensorType() if isinstance(value, Bounded):
            return value
        case types.TensorType():
            try:
                array = np.asarray(value)
                dtype(array.dtype)
            except (ValueError, Invalid):
                held = getattr(value, "dtype", None)
                if isinstance(held, np.dtype) and not held.isnative:
                    raise Invalid(
                        f"{shown(what)} is in the other byte order: give it as .astype('{held.newbyteorder('=')}')",
                        label="input.C3",
                    ) from None
                raise Invalid(f"{shown(what)} is no array of numbers, expected {of}", label="input.C3") from None
            return lift(array)
        case types.ShapeType() if isinstance(value, Shape):
            return value
        case types.ShapeType():
            value = value.tolist() if isinstance(value, np.ndarray) and value.ndim == 1 else value
            sizes = value if isinstance(value, (tuple, list)) else ()
            whole = [
                isinstance(d, (int, np.integer)) and not isinstance(d, bool) and 0 <= int(d) < 2**63 for d in sizes
            ]
            if not isinstance(value, (tuple, list)) or not all(whole):
                raise Invalid(f"{shown(what)} is {value!r}, expected sizes: {of}", label="input.C3")
            return Shape(tuple(int(d) for d in sizes))
        case types.TupleType() if isinstance(value, (tuple, list)) and len(value) == len(of.fields):
            fields: list[Value] = []
            for i, (v, t) in enumerate(zip(value, of.fields, strict=True)):
                fields.append((yield _given(v, t, (what, str(i)), lift)))
            return tuple(fields)
        case _:
            return value


def unsized(of: types.Type) -> types.Type:
    """`of` with nothing said about sizes: every dim is a symbol of its own."""
    return types.with_dims(of, lambda d: Symbol("_"))


Meeting: TypeAlias = tuple[types.Type, Value, Path]
"""A wanted type, the value given for it, and what that value is, for messages."""


def bind(meetings: Sequence[Meeting], symbols: dict[Symbol, int], places: dict[Symbol, str]) -> None:
    """Bind the symbols of the wanted types to the dims of the values; Invalid, with both values and both places, where
    they do not agree.

    A symbol takes its value from the first dim that is the symbol alone; all other dims are compared afterwards, so a
    dim may use a symbol that stands further on.
    """
    later: list[tuple[Dim, int, int, Path]] = []
    work = Worklist(meetings, lambda meeting: (id(meeting[0]), id(meeting[1])))
    for want, value, what in work:
        match want:
            case types.TensorType() if (
                hasattr(value, "shape") and dtype(value.dtype) is want.dtype and value.ndim == want.ndim
            ):
                sizes = zip(want.shape, value.shape, strict=True)
            case types.ShapeType() if isinstance(value, Shape) and len(value.dims) == len(want.dims):
                sizes = zip(want.dims, value.dims, strict=True)
            case types.TupleType():
                if not isinstance(value, tuple) or len(value) != len(want.fields):
                    raise Invalid(f"{shown(what)} is not {want}", label="input.C3")
                fields = zip(want.fields, value, strict=True)
                work.add((t, v, (what, str(i))) for i, (t, v) in enumerate(fields))
                continue
            case types.RefType() if isinstance(value, Cell):
                continue
            case types.FuncType() if isinstance(value, (Closure, CodeClosure, External, Maker)):
                continue
            case types.DataType() if isinstance(value, Data) and value.type == want.name:
                continue
            case types.ObjectType() | types.TypeVar():
                continue
            case _:
                raise Invalid(f"{shown(what)} is {type_of_value(value)}, expected {want}", label="input.C3")
        for axis, (d, n) in enumerate(sizes):
            if isinstance(d, Symbol) and d not in symbols:
                symbols[d], places[d] = int(n), f"axis {axis} of {shown(what)}"
            elif d is not n:
                later.append((d, int(n), axis, what))
    compare_sizes(later, symbols, places)


def compare_sizes(
    sizes: Sequence[tuple[Dim, int, int, Path]], symbols: Mapping[Symbol, int], places: Mapping[Symbol, str]
) -> None:
    """Invalid where a dim is not the size that a value has there. Each comes with its axis and what the value is."""
    for d, n, axis, what in sizes:
        if (d if isinstance(d, int) else symbols.get(d) if isinstance(d, Symbol) else None) == n:
            continue
        where = f"axis {axis} of {shown(what)}"
        unknown = [v.name for v in ([] if isinstance(d, int) else variables(d)) if v not in symbols]
        if unknown:
            raise Invalid(f"{where} is {show(d)}, but {unknown[0]} has no value", label="input.C6")
        if evaluate_dim(d, symbols) != n:
            raise Invalid(f"{where} is {n}, expected {expected(d, symbols, places)}", label="input.C4")


def type_of_value(value: Any) -> str:
    """A value's type, for messages."""
    if hasattr(value, "dtype"):
        return f"Tensor({tuple(value.shape)}, {value.dtype})"
    return f"a {type(value).__name__.lower()}"


def expected(d: Dim, symbols: Mapping[Symbol, int], places: Mapping[Symbol, str]) -> str:
    """The number that a dim should be, and why, for messages."""
    number = evaluate_dim(d, symbols)
    if isinstance(d, Symbol) and d in places:
        return f"{number}, the value of {d.name} by {places[d]}"
    return str(number) if isinstance(d, int) else f"{number} = {show(d)}"
