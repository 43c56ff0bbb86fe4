"""`assay run FILE.py`: a module written as text, TVMScript, Relay or StableHLO, or a program of torch.export, on inputs
from files or from a seed (specs/verify.md, "Command line").
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import onnx

from assay.interp import vector, vm
from assay.interp.graph import run
from assay.interp.graph.memory_limits import memory_traps
from assay.interp.graph.session import Session
from assay.interp.values import Event, Externs, Shape, Value
from assay.lower.constants.binding import with_given_constants
from assay.lower.frontends.onnx.model import load_model
from assay.lower.frontends.relay import is_relay, parse_relay
from assay.lower.frontends.stablehlo import is_stablehlo, parse_stablehlo
from assay.lower.frontends.torch_export import parse_torch_export
from assay.semantics.bytecode import EntryPoint
from assay.semantics.errors import Invalid, Trap
from assay.semantics.files import open_regular, read_bytes
from assay.semantics.graph import Function
from assay.semantics.memory import Bounds
from assay.semantics.module import Module
from assay.semantics.rules import check
from assay.semantics.scalar import Dim, Var as Symbol, evaluate_dim, show, variables
from assay.semantics.tasks import Task, run_task
from assay.semantics.tensor import PrimFunc
from assay.semantics.text.module_text import entry_name, parse
from assay.semantics.text.source import Source
from assay.semantics.types import ShapeType, TensorType, TupleType, Type
from assay.verify.app.executable import load
from assay.verify.app.packed import is_packed
from assay.verify.app.program_run import ProgramRun, by_name, first_run
from assay.verify.app.size_choice import SizeChoice, drawn
from assay.verify.border.inputs import (
    NamedBounds,
    as_values,
    narrowed_bounds,
    random_array,
    require_named,
    sizes_of,
    symbol_names,
)
from assay.verify.border.mlir_bytecode import MAGIC, bytecode_text, is_bytecode
from assay.verify.border.values import form, from_arrays, to_value
from assay.verify.trials.sizes import Sizes, declared_bounds, sizes_to_try

RELAY = (".relay", ".rly")
"""The names of files that hold Relay."""

STABLEHLO = (".mlir", ".stablehlo")
"""The names of files that hold StableHLO."""

TORCH_EXPORT = (".pt2",)
"""The names of files that `torch.export.save` writes."""

HEAD = 1 << 16
"""How many bytes of a file say whether it is Relay or StableHLO."""


def is_text(path: Path) -> bool:
    """Whether a file holds a module of ours, as text or as an executable: by its name, or because it begins as Relay or
    StableHLO does, or as an executable."""
    if path.suffix in (".py", *RELAY, *STABLEHLO, *TORCH_EXPORT) or is_packed(path):
        return True
    try:
        with open_regular(path) as file:
            head = file.read(HEAD)
    except OSError:
        return False
    if head.startswith(MAGIC):
        return True
    text = head.decode("utf-8", errors="replace")
    return is_relay(text) or is_stablehlo(text)


def load_text(path: Path, name: str | None = None) -> Module:
    """The module in a file, well-formed: a text, or an executable. `name` says which one is meant, where TVMScript or
    StableHLO has several."""
    if is_packed(path):
        if name is not None:
            raise Invalid("an executable is one module: --module is for TVMScript", label="cli.C3")
        return load(path)
    if path.suffix in TORCH_EXPORT:
        if name is not None:
            raise Invalid("a program of torch.export is one module: --module is for TVMScript", label="cli.C3")
        return parse_torch_export(export_bytes(path), str(path))
    if is_bytecode(path):
        return parse_stablehlo(bytecode_text(path), str(path), name)
    source = Source.read(path)
    if path.suffix in RELAY or (path.suffix != ".py" and is_relay(source.text)):
        if name is not None:
            raise Invalid("a Relay text is one module: --module is for TVMScript and StableHLO", label="cli.C3")
        return parse_relay(source.text, source.file)
    if path.suffix in STABLEHLO or (path.suffix != ".py" and is_stablehlo(source.text)):
        return parse_stablehlo(source.text, source.file, name)
    module = parse(source.text, source.file, name)
    check(module)
    return module


def export_bytes(path: Path) -> bytes:
    """The bytes of a file of torch.export. Invalid (torch_export.C1): it cannot be read."""
    try:
        return read_bytes(path)
    except OSError as wrong:
        message = f"cannot be read: {wrong.strerror or wrong}"
        raise Invalid(message, where=str(path), label="torch_export.C1") from None


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
    bounds: NamedBounds | None = None,
) -> ProgramRun:
    """Run a function of a module: `function`, `main`, or the only one. Inputs that are not given are random; what is
    given for a constant of the module's table stands in its place. Sizes that nothing gives are the first of those that
    `check` tries, within `bounds`, at which the function runs ("Sizes that are tried"). What a try prints is not
    shown, and no try calls an extern: where it comes to one, the sizes fit.
    """
    module, given, _ = with_given_constants(module, given)
    name, target = target_of(module, function)
    types = types_of(target)
    values = as_values(by_position(given, types), types)
    names = symbol_names(types.values())
    require_named(names.values(), [*dims, *(bounds or {})], name)
    fixed = sizes_of(types, values, names, dims)
    declared = input_bounds(target)
    within = narrowed_bounds(names, declared, bounds or {}, fixed)
    act = partial(_run, module, target, name, externs or {})

    free = [s for s in names if s not in fixed]
    if not free:
        return replace(act(_inputs(types, values, fixed, seed)), sizes=by_name(fixed), seed=seed)
    stopping = dict.fromkeys(externs or {}, _stop)

    def at(sizes: Sizes) -> tuple[ProgramRun, Trap | None]:
        def attempt(seed: int) -> tuple[ProgramRun, Trap | None]:
            inputs = _inputs(types, values, {**fixed, **sizes}, seed)
            try:
                done = _run(module, target, name, stopping, inputs)
            except _CameToExtern:
                return ProgramRun(module, name, inputs, stopped=True), None
            return done, done.trap

        done, drawn_at, trap = drawn(attempt, seed, len(values) < len(types))
        sizes_of_all = by_name({**fixed, **sizes})
        chosen = by_name(sizes)
        return replace(done, sizes=sizes_of_all, chosen=chosen, seed=drawn_at, redrawn=drawn_at != seed), trap

    facts = module.with_(main=target) if isinstance(target, Function) else None
    found = first_run(SizeChoice(free, within, at, facts, fixed), list(types.values()))
    if not found.stopped:
        return found
    whole = act(found.inputs)
    return replace(found, trace=whole.trace, results=whole.results, trap=whole.trap)


class _CameToExtern(Exception):
    """A try has come to the call of an extern."""


def _stop(*args: Value) -> Value:
    raise _CameToExtern


Target: TypeAlias = Function | PrimFunc | EntryPoint
"""What is run."""


def target_of(module: Module, function: str | None) -> tuple[str, Target]:
    """The function that is meant, and its name. Invalid: there is none of that name, or it is none that can be run."""
    if module.is_bytecode:
        return function or "main", module.bytecode.entry(function or "main")
    name = entry_name(module, function)
    target = module.definitions[name]
    if not isinstance(target, Function | PrimFunc):
        raise Invalid(f"{name} is no function that can be run", label="text.C16")
    return name, target


def by_position(given: Mapping[str, Any], types: Mapping[str, Type]) -> Mapping[str, Any]:
    """What is given, by name: arrays that NumPy has named by their position, arr_0 and so on, are the inputs in their
    order."""
    order = [f"arr_{i}" for i in range(len(given))]
    if set(given) != set(order) or any(n in types for n in order):
        return given
    if len(given) > len(types):
        raise Invalid(f"{len(given)} inputs are given, and there are {len(types)}", label="input.C1")
    return dict(zip(types, (given[n] for n in order), strict=False))


def input_bounds(target: Target) -> Bounds:
    """What is declared of the sizes of a function's inputs."""
    if isinstance(target, EntryPoint):
        return {size: (least, most) for size, least, most in target.function.limits}
    return declared_bounds(target) if isinstance(target, Function) else {}


def types_of(target: Target) -> dict[str, Type]:
    """The types of what a function takes, by name."""
    if isinstance(target, EntryPoint):
        return dict(target.inputs)
    if isinstance(target, Function):
        return {p.name: p.type for p in target.params}
    types: dict[str, Type] = {b.name: TensorType(b.shape, b.dtype) for b in target.inputs}
    return types | {s.name: TensorType((), s.dtype) for s in target.scalars}


def _run(module: Module, target: Target, name: str, externs: Externs, inputs: Mapping[str, Value]) -> ProgramRun:
    """One run on these inputs."""
    trace: list[Event] = []
    results: Mapping[str, Value] = {}
    trap: Trap | None = None
    try:
        if isinstance(target, Function):
            results = run(module, inputs, externs=externs, trace=trace, entry=target)
        elif isinstance(target, EntryPoint):
            results = vm.run(module, inputs, externs=externs, trace=trace, entry=name)
        else:
            arrays = [inputs[b.name] for b in target.inputs]
            with memory_traps():
                made = vector.run(
                    target,
                    arrays,
                    scalars=[inputs[s.name][()] for s in target.scalars],
                    functions=module.kernels,
                    externs=externs,
                    trace=trace,
                )
            results = {b.name: a for b, a in zip(target.outputs, made, strict=True)}
    except Trap as ended:
        trap = ended
    return ProgramRun(module, name, inputs, trace, results, trap)


def save_call(module: Module, function: str | None, saved: str, given: Mapping[str, Any]) -> Module:
    """The module with a call of a function saved as the function `saved`, on the inputs that are given."""
    name, target = target_of(module, function)
    if isinstance(target, PrimFunc):
        raise Invalid(f"{name} is no graph function: only a call of one is saved", label="cli.C3")
    types = types_of(target)
    there = from_arrays(by_position(given, types), types)
    values = {n: to_value(v, types[n], f"input {n!r}") for n, v in there.items()}
    session = Session(module)
    session.save_function(saved, name, **values)
    return session.module


# --- inputs ------------------------------------------------------------------------------------------------------


def run_inputs(
    types: Mapping[str, Type], given: Mapping[str, Any], seed: int, dims: Mapping[str, int]
) -> dict[str, Value]:
    """`given`, named as in a file, and for what is missing the random values that `complete` makes of the seed. `dims`
    are the sizes of symbolic dims, by name; others are the first that are tried anywhere."""
    values = as_values(given, types)
    names = symbol_names(types.values())
    require_named(names.values(), dims, "main")
    sizes = sizes_of(types, values, names, dims)
    missing = sizes_to_try((s for s in names if s not in sizes), most=1)
    return _inputs(types, values, {**missing.points[0], **sizes}, seed)


def _inputs(
    types: Mapping[str, Type], values: Mapping[str, Value], sizes: Mapping[Symbol, int], seed: int
) -> dict[str, Value]:
    rng = np.random.default_rng(seed)
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
