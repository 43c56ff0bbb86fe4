"""Values outside of a run: as Python has them, and as named arrays in a file (specs/verify.md, "Inputs").

Python has a tensor as an array, a tuple as a tuple, a sequence as a list, an optional value that holds nothing as None,
one that holds something as that. In a file the parts of a tuple `x` are `x.0`, `x.1` and so on, those of a sequence
too, with its length as `x.length`, which may be left out where there are elements; an optional value that holds nothing
is `x.none`, true.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from assay.interp.graph import call_closure
from assay.interp.values import Closure, Data, Shape, Value
from assay.lower.frontends.onnx.containers import any_dtype, any_tensor, inside_option
from assay.semantics.builder.prelude import LIST
from assay.semantics.dtypes import DTYPES, DType, dtype
from assay.semantics.errors import Invalid
from assay.semantics.graph import constant, function
from assay.semantics.module import Module
from assay.semantics.tasks import Task, run_task
from assay.semantics.types import DataType, ShapeType, TensorType, TupleType, Type
from assay.semantics.walk import Worklist
from assay.verify.evidence import listed

Array = np.ndarray[Any, Any]
LENGTH, NONE = "length", "none"
MOST_NAMED = 20
"""Inputs with a default that a message names: old exporters list every weight as one."""


def inside_list(of: Type) -> Type | None:
    """What a sequence holds; None for what is none."""
    return of.args[0] if isinstance(of, DataType) and of.name == LIST.name and of.args else None


# --- Python's form and that of a run


def to_value(given: Any, of: Type, what: str) -> Value:
    """What a caller gives for an input of type `of`, as a run takes it. Invalid (values.C1) where it is nothing of the
    kind."""
    return run_task(_to_value(given, of, what))


def _to_value(given: Any, of: Type, what: str) -> Task[Value]:
    if (inside := inside_option(of)) is not None:
        if given is None:
            return Data("Option", "none", ())
        held = yield _to_value(given, inside, what)
        return Data("Option", "some", (held,))
    if (inside := inside_list(of)) is not None:
        if not isinstance(given, (list, tuple)):
            raise Invalid(f"{what} is a {type(given).__name__}; a list is wanted: {of}", label="values.C1")
        value = Data("List", "nil", ())
        for item in reversed(given):
            head = yield _to_value(item, inside, what)
            value = Data("List", "cons", (head, value))
        return value
    if (element := any_dtype(of)) is not None:
        return _closed(given, element, what)
    match of:
        case TensorType():
            if given is None or isinstance(given, (list, tuple)):
                raise Invalid(f"{what} is {type(given).__name__}; an array is wanted", label="values.C1")
            return np.asarray(given)
        case TupleType():
            if not isinstance(given, (list, tuple)) or len(given) != len(of.fields):
                raise Invalid(
                    f"{what} is a {type(given).__name__}; {len(of.fields)} fields are wanted: {of}", label="values.C1"
                )
            fields: list[Value] = []
            for i, (v, t) in enumerate(zip(given, of.fields, strict=True)):
                fields.append((yield _to_value(v, t, f"{what}.{i}")))
            return tuple(fields)
        case ShapeType():
            return given
        case _:
            raise Invalid(f"{what} is of type {of}, which has no form outside", label="values.C1")


def _closed(given: Any, of: DType, what: str) -> Value:
    array = np.asarray(given)
    if array.dtype != of.numpy:
        raise Invalid(f"{what} holds a tensor of {array.dtype}; {of} is wanted", label="values.C1")
    return Data(any_tensor(of).name, f"rank{array.ndim}", (Closure(function([], constant(array)), None),))


def from_value(value: Value, module: Module, what: str = "the result") -> Any:
    """A result of a run of `module` as callers know it. Invalid (values.C2): it is or holds a function, a reference, or
    a value of a data type that has no form outside."""
    return run_task(_from_value(value, module, what))


def _from_value(value: Value, module: Module, what: str) -> Task[Any]:
    match value:
        case Data("List", "nil" | "cons"):
            items: list[Any] = []
            while value.fields:
                head, value = value.fields
                items.append((yield _from_value(head, module, what)))
            return items
        case Data("Option", "none"):
            return None
        case Data("Option", "some", (inner,)):
            found: Any = yield _from_value(inner, module, what)
            return found
        case Data(name, _, (Closure() as closure,)) if any_dtype(DataType(name, ())) is not None:
            held = call_closure(module, closure)
            return held if hasattr(held, "dtype") else np.asarray(held)  # intervals are no array
        case tuple():
            fields: list[Any] = []
            for part in value:
                fields.append((yield _from_value(part, module, what)))
            return tuple(fields)
        case Shape():
            return np.array(value.dims, np.int64)
        case np.ndarray() | np.generic():
            return np.asarray(value)
        case _ if hasattr(value, "dtype"):  # intervals, and what else stands for an array
            return value
        case _:
            held = f"a value of the data type {value.type}" if isinstance(value, Data) else "a function or a reference"
            raise Invalid(
                f"{what} holds {held}, which no file holds: tensors, shapes, tuples, lists and optional values have a"
                " form",
                label="values.C2",
            )


# --- Python's form and that of a file


def to_arrays(values: Mapping[str, Any]) -> dict[str, Array]:
    """The named arrays of values in Python's form. Invalid (parts.C1): two have one name."""
    found: dict[str, Array] = {}
    work = Worklist(values.items())
    for name, value in work:
        parts: list[tuple[str, Any]] = []
        match value:
            case None:
                name, value = f"{name}.{NONE}", np.array(True)
            case list() | tuple():
                parts = [(f"{name}.{i}", v) for i, v in enumerate(value)]
                if isinstance(value, list):
                    parts.append((f"{name}.{LENGTH}", np.array(len(value))))
            case Shape():
                value = np.array(value.dims, np.int64)
            case _:
                value = np.asarray(value)
        if isinstance(value, np.ndarray):
            if name in found:
                raise Invalid(f"{name} is the name of two tensors, one a part of a value: rename one", label="parts.C1")
            found[name] = value
        work.add(parts)
    return found


def from_arrays(arrays: Mapping[str, Array], types: Mapping[str, Type], what: str = "input") -> dict[str, Any]:
    """Of the inputs in `types`, or what else they are, those that are in `arrays`, in Python's form. Invalid: an array
    belongs to none (input.C1), an input is there in part only (values.C3), or an array cannot be of its type
    (values.C4)."""
    found: dict[str, Any] = {}
    used: set[str] = set()
    for name, of in types.items():
        reader = _Reader(arrays, set(), what)
        try:
            found[name] = run_task(reader.read(name, of))
        except _Missing as wrong:
            if reader.used:
                said = f"{what} {name!r} is {of}, and {wrong.args[0]} is missing; {form(name, of)}"
                raise Invalid(said, label="values.C3") from None
        used |= reader.used
    for name in arrays:
        if name not in used:
            raise unknown_input(name, types, {n: t for n, t in types.items() if not isinstance(t, TensorType)}, what)
    return found


def unknown_input(
    name: str, names: Iterable[str], others: Mapping[str, Type], what: str = "input", defaults: Sequence[str] = ()
) -> Invalid:
    """The error for an array that belongs to none of the inputs, or what else they are. `others` are those that are no
    tensors, `defaults` those that need not be given."""
    names = list(names)
    said = f"unknown {what} {name!r}; the {what}s are {', '.join(names) or 'none'}"
    said += "".join(
        f"; {n} is called '{n}:DTYPE' in a file, as in '{n}:float32'"
        for n in names
        if n.startswith(f"{name}:") and _has_ending(n)
    )
    if defaults:
        said += f"; with a default: {listed(defaults, MOST_NAMED)}"
    return Invalid("; ".join([said, *(form(n, t) for n, t in others.items())]), label="input.C1")


def form(name: str, of: Type) -> str:
    """What an input is called in a file, for messages."""
    if inside_option(of) is not None:
        return f"{name} is optional: {name}.{NONE}, true, where it holds nothing"
    if inside_list(of) is not None:
        return f"{name} is a sequence: {name}.0, {name}.1 and so on, or {name}.{LENGTH}, 0, where it is empty"
    if isinstance(of, TupleType):
        return f"{name} is a tuple: " + (", ".join(f"{name}.{i}" for i in range(len(of.fields))) or "of nothing")
    return f"{name} is {of}"


class _Missing(Exception):
    """An array is not there."""


@dataclass
class _Reader:
    """Reads one input, or what else it is; `used` are the names that it has read."""

    arrays: Mapping[str, Array]
    used: set[str]
    what: str = "input"

    def read(self, name: str, of: Type) -> Task[Any]:
        if (inside := inside_option(of)) is not None:
            if f"{name}.{NONE}" in self.arrays and bool(np.all(self.take(f"{name}.{NONE}"))):
                return None
            held: Any = yield self.read(name, inside)
            return held
        if (inside := inside_list(of)) is not None:
            items: list[Any] = []
            while self.has(f"{name}.{len(items)}"):
                items.append((yield self.read(f"{name}.{len(items)}", inside)))
            if f"{name}.{LENGTH}" in self.arrays or not items:
                said = self.take(f"{name}.{LENGTH}")
                if said.shape != () or int(said) != len(items):
                    raise Invalid(f"{name}.{LENGTH} is {said}, but there are {len(items)} elements", label="values.C3")
            return items
        if isinstance(of, TupleType):
            fields: list[Any] = []
            for i, t in enumerate(of.fields):
                fields.append((yield self.read(f"{name}.{i}", t)))
            return tuple(fields)
        wanted = of.dtype if isinstance(of, TensorType) else any_dtype(of)
        return self.take(name) if wanted is None else fitted(name, self.take(name), wanted, self.what)

    def has(self, name: str) -> bool:
        return name in self.arrays or any(n.startswith(f"{name}.") for n in self.arrays)

    def take(self, name: str) -> Array:
        if name not in self.arrays:
            raise _Missing(name)
        self.used.add(name)
        return self.arrays[name]


# --- element types that NumPy's files have no name for


def is_exotic(of: DType) -> bool:
    """Whether it is none of NumPy's own element types."""
    return of.numpy.isbuiltin != 1


STRINGS = "str"


def _has_ending(name: str) -> bool:
    """Whether a name by itself reads as one with an element type behind it: `y:bfloat16`, `y:bfloat16:float32`."""
    head, colon, tail = name.rpartition(":")
    while colon and (tail == STRINGS or tail in DTYPES and not is_exotic(DTYPES[tail])):
        head, colon, tail = head.rpartition(":")
    return bool(colon) and tail in DTYPES and is_exotic(DTYPES[tail])


def as_member(name: str, array: Array) -> tuple[str, Array]:
    """What the array `name` is called in a file, and what stands there. The element type is behind the name where
    NumPy's files have none of that type, or where the name would read as one with an element type behind it.
    `named_array` is the way back.
    """
    of = None if array.dtype.kind == "U" else dtype(array.dtype)
    if of is not None and is_exotic(of):
        return f"{name}:{of}", array.view(f"V{of.itemsize}")
    return f"{name}:{of or STRINGS}" if _has_ending(name) else name, array


def named_array(member: str, array: Array) -> tuple[str, Array]:
    """The name and the array of a member of a file. Invalid (values.C4): it is not of the element type behind its
    name."""
    head, colon, tail = member.rpartition(":")
    if colon and tail in DTYPES and is_exotic(DTYPES[tail]):
        return head, array_of_member(head, array, DTYPES[tail])
    if (tail in DTYPES or tail == STRINGS) and _has_ending(head):
        if tail != (STRINGS if array.dtype.kind == "U" else array.dtype.name):
            raise Invalid(f"{member} is {array.dtype}, and {tail} stands behind its name", label="values.C4")
        return head, array
    return member, array


def fitted(name: str, array: Array, of: DType, what: str = "input") -> Array:
    """The array, its bytes taken as `of` where the file could not say that they are. Invalid (values.C4): it is not of
    that element type, and NumPy alone cannot make one that is."""
    if not isinstance(array, np.ndarray) or array.dtype == of.numpy or not is_exotic(of):
        return array
    if array.dtype.kind == "V" and array.dtype.itemsize == of.itemsize:
        return array.view(of.numpy)
    raise Invalid(f"{what} {name!r} is {array.dtype}, expected {of}; {_how(name, of)}", label="values.C4")


def array_of_member(name: str, array: Array, of: DType) -> Array:
    """What an array under the name `NAME:DTYPE` is: bytes, the bits of floats as unsigned integers of their width, or
    numbers that are exactly numbers of that type. Invalid (values.C4): it is none of these."""
    if array.dtype.kind == "V" and array.dtype.itemsize == of.itemsize:
        return array.view(of.numpy)
    if of.is_float and array.dtype == np.dtype(f"u{of.itemsize}"):
        return array.view(of.numpy)
    whole = (
        f"if '{name}:{of}' is the whole name, call it"
        f" '{name}:{of}:{STRINGS if array.dtype.kind == 'U' else array.dtype}'"
    )
    if array.dtype.kind in "iuf" and (of.is_float or array.dtype.kind != "f"):
        with np.errstate(all="ignore"):
            made = array.astype(of.numpy)
            same = (made.astype(array.dtype) == array) | (array != array)
        if bool(np.all(same)):
            return made
        odd = array.reshape(-1)[int(np.argmin(same.reshape(-1)))]
        raise Invalid(
            f"{name}:{of} holds {odd}, which {of} does not have: round it first; {_how(name, of)}; {whole}",
            label="values.C4",
        )
    raise Invalid(f"{name}:{of} is {array.dtype}; {_how(name, of)}; {whole}", label="values.C4")


def _how(name: str, of: DType) -> str:
    if not of.is_float:
        return f"NumPy's files have no {of}: call the array '{name}:{of}' and give its numbers as int8 or uint8"
    return (
        f"NumPy's files have no {of}: call the array '{name}:{of}' and give its bits as uint{8 * of.itemsize}, or"
        " numbers that it has as float32"
    )
