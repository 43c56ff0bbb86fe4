"""Inputs and outputs in files, and inputs made from a seed (specs/verify.md, "Inputs")."""

from __future__ import annotations

import tokenize
import zipfile
import zlib
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, BinaryIO, TypeAlias

import numpy as np
import onnx

from assay.interp.graph import check_inputs, evaluate
from assay.interp.graph.boundary import bind, given as as_value
from assay.interp.graph.memory_limits import require_memory
from assay.interp.values import Value
from assay.lower.frontends.onnx.interface import declared_inputs
from assay.lower.frontends.onnx.model import import_onnx
from assay.lower.frontends.onnx.string_table import text_names
from assay.lower.simplify.settle import with_dims_of_main
from assay.semantics.advice import about_sizes
from assay.semantics.dtypes import DType
from assay.semantics.errors import Invalid, Trap
from assay.semantics.files import open_regular
from assay.semantics.graph import Function
from assay.semantics.leaves import leaves
from assay.semantics.memory import Bounds, range_of
from assay.semantics.module import Module
from assay.semantics.scalar import Var as Symbol
from assay.semantics.types import TensorType, Type, symbols
from assay.semantics.walk import post_order
from assay.verify.border import npz
from assay.verify.border.files import replace_file
from assay.verify.border.values import as_member, form, from_arrays, named_array, to_value

Array = np.ndarray[Any, Any]
NamedBounds: TypeAlias = Mapping[str, tuple[int | None, int | None]]
"""The least and the greatest value of symbols by their names; None for no bound."""


LONGEST = 65_531
"""Bytes of a name: those that a zip has for one, without `.npy`."""
_BROKEN = (zipfile.BadZipFile, zlib.error, tokenize.TokenError)


def import_with(given: Mapping[str, Array], **how: Any) -> Module:
    """An ONNX model imported with the values of given inputs that a shape depends on: those that hold sizes, or where
    that fails others too. The module asserts that they hold that. `how` is what `import_onnx` takes."""
    try:
        return import_onnx(**how, values=given, only_sizes=True)
    except Invalid:
        if not given:
            raise
    return import_onnx(**how, values=given)


def load_npz(path: Path) -> dict[str, Array]:
    """The tensors of an .npz file by name."""
    try:
        with open_regular(path) as file:
            return load_opened(file, path)
    except FileNotFoundError:
        raise Invalid("no such file", where=str(path), label="input.C5") from None
    except OSError as wrong:
        raise Invalid(f"cannot be read: {wrong.strerror or wrong}", where=str(path), label="input.C5") from None


def load_opened(file: BinaryIO, path: Path) -> dict[str, Array]:
    """The tensors of an open .npz file by name; `path` is what it is called."""
    found: dict[str, Array] = {}
    try:
        data = np.load(file, allow_pickle=False)
        if isinstance(data, np.ndarray):
            raise Invalid("one array where an .npz of named arrays is expected", where=str(path), label="input.C5")
        for member in data.zip.namelist():  # `files` has two names for one where `y` and `y.npy` are there
            array = data[member]
            if not isinstance(array, np.ndarray):
                raise ValueError(f"the member {member!r} is no array")
            name, array = named_array(member.removesuffix(".npy"), array)
            if name in found:
                raise ValueError(f"there are two arrays {name!r}")
            found[name] = array
    except (
        OSError,
        ValueError,
        TypeError,
        EOFError,
        KeyError,
        RuntimeError,
        SyntaxError,
        NotImplementedError,
        *_BROKEN,
    ) as wrong:
        objects = "; strings are arrays of dtype str, not object" if "allow_pickle" in str(wrong) else ""
        raise Invalid(f"not an .npz of arrays: {wrong}{objects}", where=str(path), label="input.C5") from None
    return found


def save(path: Path, arrays: Mapping[str, Array]) -> None:
    """Write an .npz; the file appears whole or not at all. Invalid (output.C3): what no file of that form holds."""
    members = as_members(arrays)

    def write(to: Path) -> None:
        with to.open("wb") as file:
            npz.write_npz(file, members)

    replace_file(path, write)


def as_members(arrays: Mapping[str, Array]) -> dict[str, Array]:
    """Arrays as the members of an .npz. Invalid (output.C3): what no file of that form holds, as a string that ends
    with a NUL, which NumPy drops."""
    members: dict[str, Array] = {}
    for name, array in arrays.items():
        if array.dtype.kind == "O":
            if any(str(text).endswith("\0") for text in array.reshape(-1)):
                raise Invalid(
                    f"{name} holds a string that ends with a NUL, which NumPy's files drop", label="output.C3"
                )
            array = array.astype(np.str_)
        entry, plain = as_member(name, array)
        if "\0" in entry or len(entry.encode()) > LONGEST:
            raise Invalid(
                f"a name of an .npz is at most {LONGEST} bytes without a NUL, and {name[:40]!r} is none",
                label="output.C3",
            )
        members[entry] = plain
    return members


def dims_of(main: Function, dims: Mapping[str, int]) -> dict[Symbol, int]:
    """Numbers for symbols of main's parameters, by their names. Invalid (check.C1): there is no symbol of that name."""
    known = {s.name: s for p in main.params for s in symbols(p.type)}
    require_named(known, dims, "main")
    return {known[name]: n for name, n in dims.items()}


def sized(module: Module, dims: Mapping[str, int]) -> Module:
    """The module with numbers for symbols of its main. Invalid: there is no symbol of that name (check.C1); the program
    breaks a rule at these numbers."""
    return with_dims_of_main(module, dims_of(module.main, dims), evaluate) if dims else module


def traps_on(trap: Trap) -> Invalid:
    """The failure for inputs on which the model itself traps, so that nothing can be shown of anybody."""
    return Invalid(f"the model traps on these inputs, give others with --inputs: {trap}", label="input.C7")


def require_named(known: Iterable[str], asked: Iterable[str], of: str) -> None:
    """Invalid (check.C1): a name is asked for that is none of the known symbolic dims of something."""
    there = dict.fromkeys(known)
    for name in asked:
        if name not in there:
            raise Invalid(f"{of} has no symbolic dim {name}; it has {', '.join(there) or 'none'}", label="check.C1")


def inner_sizes(module: Module) -> set[str]:
    """What sizes are called that no parameter of main has: a run may tell them."""
    nodes = (n for f in module.graphs.values() for n in post_order(f.body))
    found = {s.name for n in nodes for s in symbols(n.type)} | {s.name for s in symbols(module.main.result_type)}
    return found - {s.name for p in module.main.params for s in symbols(p.type)}


def bounds_left(bounds: NamedBounds, sizes: Mapping[str, int]) -> dict[str, tuple[int | None, int | None]]:
    """The bounds of symbols that have no number. Invalid (cli.C2): a number is outside of its bounds."""
    for name in bounds:
        low, high = bounds[name]
        n = sizes.get(name)
        if n is not None and (n < (low or 0) or (high is not None and n > high)):
            ends = "..".join("" if end is None else str(end) for end in (low, high))
            raise Invalid(f"{name} is {n}, and --bound {name}={ends} excludes that", label="cli.C2")
    return {name: ends for name, ends in bounds.items() if name not in sizes}


def narrowed_bounds(
    names: Mapping[Symbol, str], declared: Bounds, bounds: NamedBounds, sizes: Mapping[Symbol, int]
) -> dict[Symbol, tuple[int, int | None]]:
    """What is declared of symbols, narrowed by bounds for their names. Invalid: no number is within (limits.C3); a
    symbol has one that is not (cli.C2)."""
    found: dict[Symbol, tuple[int, int | None]] = {}
    for symbol, name in names.items():
        low, high = range_of(declared, symbol)
        least, most = bounds.get(name, (None, None))
        low = max(low, least or 0)
        high = most if high is None else high if most is None else min(high, most)
        if high is not None and low > high:
            raise Invalid(f"{name} is to be at least {low} and at most {high}: no size is both", label="limits.C3")
        found[symbol] = (low, high)
        if symbol in sizes and name in bounds:
            bounds_left({name: bounds[name]}, {name: sizes[symbol]})
    return found


def symbol_names(types: Iterable[Type]) -> dict[Symbol, str]:
    """What the symbols in types are called."""
    return {s: s.name for t in types for s in symbols(t)}


def sizes_of(
    types: Mapping[str, Type], given: Mapping[str, Value], names: Mapping[Symbol, str], dims: Mapping[str, int]
) -> dict[Symbol, int]:
    """Numbers for the symbols in the types of inputs: those that `dims` has by their names, and those that the inputs
    given have. Invalid (input.C3, input.C4): what is given does not agree with its type, with another input or with
    `dims`.
    """
    sizes = {s: dims[name] for s, name in names.items() if name in dims}
    places = {s: f"--dim {s.name}" for s in sizes}
    bind([(types[n], v, f"input {n!r}") for n, v in given.items()], sizes, places)
    return sizes


def all_dims(model: onnx.ModelProto | Module, given: Mapping[str, Array], dims: Mapping[str, int]) -> dict[str, int]:
    """`dims`, and the other symbolic dims that the inputs given for a model have, by name. Raises what `sizes_of`
    does."""
    types: Mapping[str, Type]
    if isinstance(model, Module):
        types = {p.name: p.type for p in model.main.params}
        names = symbol_names(types.values())
    else:
        try:
            types, names = declared_inputs(model.graph)
        except Invalid:
            return dict(dims)  # the import says what is wrong
        texts = text_names(model.graph.input)  # of a string the shape counts alone
        given = {n: np.zeros(np.shape(a), np.int64) if n in texts else a for n, a in given.items() if n in types}
    sizes = sizes_of(types, as_values(given, types), names, dims)
    return {**{name: sizes[s] for s, name in names.items() if s in sizes}, **dims}


def as_values(given: Mapping[str, Array], types: Mapping[str, Type]) -> dict[str, Value]:
    """Inputs of these types, given by name as in a file, in the form that evaluation uses."""
    made = {n: to_value(v, types[n], f"input {n!r}") for n, v in from_arrays(given, types).items()}
    return {n: as_value(v, types[n], f"input {n!r}") for n, v in made.items()}


def complete(main: Function, given: Mapping[str, Array], seed: int) -> dict[str, Value]:
    """`given`, and for each input that is missing random values: normal reals, small whole numbers, coin tosses. Arrays
    are by name as in a file: those of parts of a value make that value."""
    rng = np.random.default_rng(seed)
    there = from_arrays(given, {p.name: p.type for p in main.params})
    inputs: dict[str, Value] = {}
    for p in main.params:
        if p.name in there:
            inputs[p.name] = to_value(there[p.name], p.type, f"input {p.name!r}")
            continue
        made: dict[str, Array] = {}
        for name, of in leaves(p.name, p.type):
            if not isinstance(of, TensorType):
                raise Invalid(
                    f"input {name!r} is {of}, which has no random values: give it with --inputs ({form(name, of)})",
                    label="input.C6",
                )
            if not of.is_static:
                itself = ", or the input itself with --inputs" if symbols(of) else ""
                raise Invalid(f"input {name!r} is {of}: {about_sizes(of.shape, [of])}{itself}", label="input.C6")
            made[name] = random_array(name, of.static_shape, of.dtype, rng)
        inputs |= from_arrays(made, {p.name: p.type})
    check_inputs(main, inputs)
    return inputs


def random_array(name: str, shape: tuple[int, ...], of: DType, rng: np.random.Generator) -> Array:
    """What an input is where none is given: normal reals, small whole numbers, coin tosses."""
    require_memory(shape, of, f"input {name!r}")
    if of.is_float:
        return rng.standard_normal(shape, dtype=np.float32).astype(of.numpy)
    return rng.integers(0, 2, shape).astype(of.numpy)
