"""The vector interpreter of the tensor IR: the definition's results bit for bit, whole loops at a time (rule M10).

A loop runs as lanes of NumPy arrays only where its iterations were shown independent, whatever its kind says: by affine
forms, by z3 where these do not tell. Other loops stay loops, so that reductions keep their order; where they are most
of the work the function becomes straight-line Python, and what that cannot say is run by the definition. Every access
is checked: in bounds and definitely written, once for all where that is shown from the indices, otherwise on the run.
See specs/interp.md, "Vector", and `assay.interp.vector.plan` and `assay.interp.vector.straight` for how.

    (c,) = run(matmul, [a, b])
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias
from weakref import WeakKeyDictionary

import numpy as np

from assay.interp import tensor
from assay.interp.binding import Array, bind_dims, bind_scalars, check_shape, shape_at
from assay.interp.values import Event, Externs
from assay.interp.vector.blocks import Unplanned
from assay.interp.vector.building import build
from assay.interp.vector.emit import Kernel, compile_plan
from assay.interp.vector.independence import Asking
from assay.interp.vector.plan import Plan, lanes_pay, make_plan
from assay.interp.vector.regions import analyse
from assay.interp.vector.straight import compile_straight
from assay.semantics.errors import Crash, Invalid, Trap, Unsupported
from assay.semantics.scalar import Var
from assay.semantics.tensor import Buffer, PrimFunc
from assay.semantics.tensor.blocks import without_blocks
from assay.semantics.tensor.calls import calls_extern, calls_of, without_calls

MOST_VERSIONS = 64
"""Choices of dims of one function whose code is kept; the oldest goes first."""
RETRACE = 200_000
"""A run that traps is repeated by the definition for this many statements, so that it names the first trap."""

Way: TypeAlias = Literal["lanes", "straight"]
WAYS: tuple[Way, ...] = ("lanes", "straight")


@dataclass(frozen=True, eq=False)
class Compiled:
    """A function at given dims: its kernel, its source and which way it runs; or, without a kernel, the definition
    does.

    `reason` says why no way, or not the first of those allowed, was taken.
    """

    kernel: Kernel | None
    source: str
    reason: str = ""
    way: Way | None = None
    allocations: tuple[Buffer, ...] = ()
    """The buffers for which the kernel takes memory: without its blocks a function can need more than it says."""


_compiled: WeakKeyDictionary[PrimFunc, dict[tuple[Any, ...], Compiled]] = WeakKeyDictionary()


def run(
    func: PrimFunc,
    inputs: Sequence[Array],
    *,
    outputs: Sequence[Array] | None = None,
    scratch: Sequence[Array] | None = None,
    scalars: Sequence[Any] = (),
    functions: Mapping[str, PrimFunc] | None = None,
    externs: Externs | None = None,
    trace: list[Event] | None = None,
    ways: tuple[Way, ...] = WAYS,
) -> tuple[Array, ...]:
    """The outputs of `func` on `inputs` and `scalars`, as `assay.interp.tensor.run` defines them, bit for bit (but for
    NaN payloads).

    Given `outputs` are filled and returned; `scratch` is memory for the function's allocations, in program order. Both
    must be C-contiguous and of the right shapes and dtypes, and must not overlap the inputs. `functions`, `externs` and
    `trace` are for calls, as in the definition, which runs what calls an extern or itself. Invalid and Trap as in
    the definition. A trap is the definition's own if that is reached within `RETRACE` statements; beyond, it may be
    another one of the function's traps. `ways` are those that may be taken; with none of them the definition runs
    (rule M10.1).
    """
    dims = bind_dims(func, inputs, scalars)
    if outputs is None:
        outputs = [np.empty(shape_at(b, dims), b.dtype.numpy) for b in func.outputs]
    else:
        outputs = list(outputs)
    _check_given(func, outputs, scratch, dims)
    flat = _without_calls(func, functions or {})
    compiled = (
        Compiled(None, "", "it calls an extern or itself")
        if flat is None
        else _version(flat, dims if flat is func else bind_dims(flat, inputs, scalars), scalars, ways)
    )
    try:
        if compiled.kernel is None or flat is None:
            results = tensor.run(func, inputs, scalars=scalars, functions=functions, externs=externs, trace=trace)
            return _copy(results, outputs)
        given = dict(zip(func.allocations, scratch, strict=False)) if scratch else {}
        memory = [given.get(b) for b in compiled.allocations]
        with np.errstate(all="ignore"):
            compiled.kernel([np.asarray(a, order="C") for a in inputs], outputs, memory)
        return tuple(outputs)
    except Trap as trap:
        if compiled.kernel is None:
            raise
        try:
            # the kernel may meet traps in another order than the definition does
            tensor.run(func, inputs, scalars=scalars, limit=RETRACE, functions=functions)
        except tensor.Unfinished:
            raise trap.at(func.name) from None
        raise Crash(f"{func.name}: the kernel traps where the definition does not: {trap}") from trap


def compile_function(
    func: PrimFunc, inputs: Sequence[Array], scalars: Sequence[Any] = (), ways: tuple[Way, ...] = WAYS
) -> Compiled:
    """How `func` runs on inputs of these shapes. It is compiled once for each binding of its symbolic dims and
    scalars."""
    return _version(func, bind_dims(func, inputs, scalars), scalars, ways)


def _version(func: PrimFunc, dims: Mapping[Var, int], scalars: Sequence[Any], ways: tuple[Way, ...]) -> Compiled:
    """The function compiled for these dims and scalars."""
    values = bind_scalars(func, scalars)
    versions = _compiled.setdefault(func, {})
    key = (ways, *dims.values(), *(x.tobytes() for x in values.values()))
    found = versions.get(key)
    if found is None:
        found = versions[key] = _compile(func, dims, values, ways)
        while len(versions) > MOST_VERSIONS:
            versions.pop(next(iter(versions)), None)
    return found


def _compile(func: PrimFunc, dims: Mapping[Var, int], values: Mapping[Var, Any], ways: tuple[Way, ...]) -> Compiled:
    """Lanes where they pay, else straight-line code, else lanes all the same; else nothing, with every reason."""
    reasons: dict[str, None] = {}
    plan: Plan | None = None
    try:
        plain = without_blocks(func)
    except Unsupported as reason:
        return Compiled(None, "", str(reason))
    if "lanes" in ways:
        try:
            blocks = build(plain, dims, values)
            plan = make_plan(blocks, analyse(blocks, Asking(blocks)))
        except (Unplanned, Unsupported) as reason:
            reasons[str(reason)] = None
    if "straight" in ways and (plan is None or not lanes_pay(plan)):
        if plan is not None:
            reasons["too few lanes"] = None
        try:
            blocks = build(plain, dims, values, split=False)
            kernel, source = compile_straight(blocks, analyse(blocks, Asking(blocks)))
            return Compiled(kernel, source, "; ".join(reasons), "straight", plain.allocations)
        except (Unplanned, Unsupported) as reason:
            reasons[str(reason)] = None
    if plan is None:
        return Compiled(None, "", "; ".join(reasons))
    kernel, source = compile_plan(plan)
    return Compiled(kernel, source, way="lanes", allocations=plain.allocations)


_calls: WeakKeyDictionary[PrimFunc, bool] = WeakKeyDictionary()
_flat: WeakKeyDictionary[PrimFunc, tuple[dict[str, PrimFunc], PrimFunc | None]] = WeakKeyDictionary()


def _without_calls(func: PrimFunc, functions: Mapping[str, PrimFunc]) -> PrimFunc | None:
    """`func` without calls; None where only the definition can run it."""
    if func not in _calls:
        _calls[func] = bool(calls_of(func))
    if not _calls[func]:
        return func
    found = _flat.get(func)
    if found is None or any(functions.get(n) is not f for n, f in found[0].items()):
        try:
            plain = without_calls(func, functions)
            found = dict(functions), None if calls_extern(plain) else plain
        except Unsupported:
            found = dict(functions), None
        _flat[func] = found
    return found[1]


def _copy(results: Sequence[Array], outputs: Sequence[Array]) -> tuple[Array, ...]:
    for given, result in zip(outputs, results, strict=True):
        np.copyto(given, result)
    return tuple(outputs)


def _check_given(
    func: PrimFunc, outputs: Sequence[Array], scratch: Sequence[Array] | None, dims: Mapping[Var, int]
) -> None:
    """Invalid unless the arrays to be filled are as many as needed, contiguous, writable and of the right types."""
    if len(outputs) != func.num_outputs:
        raise Invalid(f"{func.name} has {func.num_outputs} outputs, {len(outputs)} arrays given", label="argument.C6")
    given = list(zip(func.outputs, outputs, strict=True))
    if scratch is not None:
        wanted = func.allocations
        if len(scratch) != len(wanted):
            raise Invalid(
                f"{func.name} allocates {len(wanted)} buffers, {len(scratch)} arrays given", label="argument.C7"
            )
        given += zip(wanted, scratch, strict=True)
    for buffer, array in given:
        check_shape(func, buffer, array, dims)
        if not array.flags.c_contiguous or not array.flags.writeable:
            raise Invalid(
                f"{func.name}: the array for {buffer.name} must be C-contiguous and writable", label="argument.C8"
            )
