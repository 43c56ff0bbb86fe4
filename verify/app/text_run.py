"""`assay run FILE.py`: a module written as text, TVMScript or Relay, on inputs from files or from a seed
(specs/verify.md, "Command line").

Sizes that are not given are small and different from one another, so that a wrong axis shows.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import onnx

from assay.interp import vector
from assay.interp.graph import run
from assay.interp.graph.memory_limits import memory_traps
from assay.interp.graph.session import Session
from assay.interp.values import Cell, Closure, Data, Event, External, Externs, Maker, Shape, Value, described, render
from assay.lower.constants.binding import with_given_constants
from assay.lower.frontends.onnx.model import load_model
from assay.lower.frontends.relay import is_relay, parse_relay
from assay.semantics.dtypes import dtype
from assay.semantics.errors import Invalid, Trap
from assay.semantics.files import open_regular
from assay.semantics.graph import Function
from assay.semantics.module import Module
from assay.semantics.rules import check
from assay.semantics.scalar import Dim, Var as Symbol, evaluate_dim, show, variables
from assay.semantics.tasks import Task, run_task
from assay.semantics.tensor import PrimFunc
from assay.semantics.text.module_text import entry_name, parse
from assay.semantics.text.source import Source
from assay.semantics.types import ShapeType, TensorType, TupleType, Type, symbols
from assay.semantics.walk import Worklist
from assay.verify.border.inputs import as_values, random_array, sizes_of, symbol_names
from assay.verify.border.values import form, from_arrays, from_value, to_arrays, to_value

RELAY = (".relay", ".rly")
"""The names of files that hold Relay."""

SIZES = (3, 5, 2, 7, 4, 6, 9, 8)
"""Sizes of symbolic dims, in an order that the seed shuffles."""


@dataclass(frozen=True, eq=False)
class TextRun:
    """What a run showed: its inputs, its effects, and its results or the trap that ended it."""

    module: Module
    name: str
    inputs: Mapping[str, Value]
    trace: Sequence[Event]
    results: Mapping[str, Value]
    trap: Trap | None

    @property
    def outputs(self) -> dict[str, np.ndarray[Any, Any]]:
        """The results as named arrays. Invalid: one has no form as arrays, such as a function."""
        return to_arrays({n: from_value(v, self.module, f"result {n!r}") for n, v in self.results.items()})


HEAD = 1 << 16
"""How many bytes of a file say whether it is Relay."""


def is_text(path: Path) -> bool:
    """Whether a file holds a module as text: by its name, or because it begins as Relay does."""
    if path.suffix in (".py", *RELAY):
        return True
    try:
        with open_regular(path) as file:
            head = file.read(HEAD)
    except OSError:
        return False
    return is_relay(head.decode("utf-8", errors="replace"))


def load_text(path: Path, name: str | None = None) -> Module:
    """The module in a file, well-formed. `name` says which one is meant, where TVMScript has several."""
    source = Source.read(path)
    if path.suffix in RELAY or (path.suffix != ".py" and is_relay(source.text)):
        if name is not None:
            raise Invalid("a Relay text is one module: --module is for TVMScript", label="cli.C3")
        return parse_relay(source.text, source.file)
    module = parse(source.text, source.file, name)
    check(module)
    return module


def load_either(path: Path) -> onnx.ModelProto | Module:
    """An ONNX model, or a module as text."""
    return load_text(path) if is_text(path) else load_model(path)


def run_text(
    module: Module,
    function: str | None,
    given: Mapping[str, Any],
    seed: int,
    dims: Mapping[str, int],
    externs: Externs | None = None,
) -> TextRun:
    """Run a function of a module: `function`, `main`, or the only one. Inputs that are not given are random; what is
    given for a constant of the module's table stands in its place."""
    module, given, _ = with_given_constants(module, given)
    name = entry_name(module, function)
    target = module.definitions[name]
    trace: list[Event] = []
    if isinstance(target, Function):
        types = {p.name: p.type for p in target.params}
    elif isinstance(target, PrimFunc):
        types = {b.name: TensorType(b.shape, b.dtype) for b in target.inputs}
        types |= {s.name: TensorType((), s.dtype) for s in target.scalars}
    else:
        raise Invalid(f"{name} is no function that can be run", label="text.C16")
    inputs = run_inputs(types, given, seed, dims)
    results: Mapping[str, Value] = {}
    trap: Trap | None = None
    try:
        if isinstance(target, Function):
            results = run(module, inputs, externs=externs, trace=trace, entry=target)
        else:
            arrays = [inputs[b.name] for b in target.inputs]
            with memory_traps():
                made = vector.run(
                    target,
                    arrays,
                    scalars=[inputs[s.name][()] for s in target.scalars],
                    functions=module.kernels,
                    trace=trace,
                )
            results = {b.name: a for b, a in zip(target.outputs, made, strict=True)}
    except Trap as ended:
        trap = ended
    return TextRun(module, name, inputs, trace, results, trap)


def save_call(module: Module, function: str | None, saved: str, given: Mapping[str, Any]) -> Module:
    """The module with a call of a function saved as the function `saved`, on the inputs that are given."""
    name = entry_name(module, function)
    target = module.definitions[name]
    if not isinstance(target, Function):
        raise Invalid(f"{name} is no graph function: only a call of one is saved", label="cli.C3")
    types = {p.name: p.type for p in target.params}
    values = {n: to_value(v, types[n], f"input {n!r}") for n, v in from_arrays(given, types).items()}
    session = Session(module)
    session.save_function(saved, name, **values)
    return session.module


# --- inputs ------------------------------------------------------------------------------------------------------


def run_inputs(
    types: Mapping[str, Type], given: Mapping[str, Any], seed: int, dims: Mapping[str, int]
) -> dict[str, Value]:
    """`given`, named as in a file, and for what is missing the random values that `complete` makes of the seed. `dims`
    are the sizes of symbolic dims, by name; for others the seed has sizes."""
    values = as_values(given, types)
    names = symbol_names(types.values())
    for n in dims:
        if n not in names.values():
            raise Invalid(
                f"no dim is called {n}; there are {', '.join(sorted({*names.values()})) or 'none'}", label="cli.C2"
            )
    sizes = sizes_of(types, values, names, dims)
    order = iter(np.random.default_rng(seed).permutation(len(SIZES)).tolist() * 8)
    for t in types.values():
        for s in symbols(t):
            if s not in sizes:
                sizes[s] = SIZES[next(order, 0)]
    rng = np.random.default_rng(seed)  # its own: `complete` draws no sizes
    return {n: values[n] if n in values else run_task(_random(n, t, rng, sizes)) for n, t in types.items()}


def _random(name: str, of: Type, rng: np.random.Generator, sizes: Mapping[Symbol, int]) -> Task[Value]:
    match of:
        case TensorType():
            shape = tuple(_size(name, d, sizes) for d in of.shape)
            return random_array(name, shape, of.dtype, rng)
        case ShapeType():
            return Shape(tuple(_size(name, d, sizes) for d in of.dims))
        case TupleType():
            fields: list[Value] = []
            for t in of.fields:
                fields.append((yield _random(name, t, rng, sizes)))
            return tuple(fields)
        case _:
            raise Invalid(
                f"input {name!r} is {of}, which has no random values: give it with --inputs ({form(name, of)}), or call"
                " another function",
                label="input.C6",
            )


def _size(name: str, dim: Dim, sizes: Mapping[Symbol, int]) -> int:
    if not isinstance(dim, int) and not all(v in sizes for v in variables(dim)):
        raise Invalid(f"a size of input {name!r} is unknown: give it with --dim", label="input.C6")
    try:
        size = evaluate_dim(dim, sizes)
    except Trap as trap:
        message = f"a size of input {name!r}, {show(dim)}, has no value: {trap.message}; give other sizes with --dim"
        raise Invalid(message, label="input.C6") from None
    if size < 0:
        raise Invalid(f"a size of input {name!r} would be {size}: give other sizes with --dim", label="input.C6")
    return size


# --- showing -----------------------------------------------------------------------------------------------------


def run_lines(done: TextRun) -> Iterator[str]:
    """What is printed of a run: inputs, effects in order, results."""
    for name, value in done.inputs.items():
        yield f"{name} = {headline(value)}"
    for event in done.trace:
        if event.kind == "print":
            yield f"print: {render(event.name, event.values)}"
        else:
            yield f"call {event.name}: {render('', event.values)}"
    for name, value in done.results.items():
        yield f"{name}: {headline(value)}"
        yield from (f"    {line}" for line in body(value))


def headline(value: Value) -> str:
    """The type of a value; for a tensor the digest of its bytes too."""
    match value:
        case np.ndarray() | np.generic():
            array = np.asarray(value)
            digest = hashlib.sha256(np.ascontiguousarray(array).tobytes()).hexdigest()[:16]
            return f"Tensor({tuple(array.shape)}, {dtype(array.dtype)}) {digest}"
        case tuple():
            return f"a tuple of {len(value)}"
        case Shape():
            return f"Shape{tuple(value.dims)}"
        case _:
            return kind(value)


def kind(value: Value) -> str:
    """What a value is, in a few words for a message."""
    match value:
        case Closure() | External() | Maker():
            return "a function"
        case Cell():
            return "a reference"
        case Data():
            return f"a {value.type}"
        case _:
            return described(value)


def body(root: Value) -> Iterator[str]:
    """The numbers of a value, long ones abbreviated; the parts of tuples, data and references one after another."""
    work = Worklist[tuple[str, Value, int]]([("", root, 0)])
    for shown, (head, value, depth) in enumerate(work, 1):
        pad = "  " * depth
        if shown > 200:
            yield f"{pad}..."
            return
        if head:
            yield f"{pad}{head}{headline(value)}"
        match value:
            case np.ndarray() | np.generic():
                array = np.asarray(value)
                text = np.array2string(array, threshold=32, edgeitems=3, separator=", ", max_line_width=100)
                yield from (pad + line for line in text.splitlines())
            case tuple():
                work.add((f".{i}: ", v, depth + 1) for i, v in enumerate(value))
            case Data():
                yield f"{pad}{value.constructor}"
                work.add((f".{i}: ", v, depth + 1) for i, v in enumerate(value.fields))
            case Cell():
                work.add([("holds ", value.value, depth + 1)])
            case _:
                pass
