"""A program with symbols, in numbers (specs/semantics.md, "Memory planning").

at(program, {n: 16})         # every type, size and offset as a number
sizes_of(types, shapes)      # the symbols' values, from the types and shapes of the inputs
run_dims(program)            # what is 0 or more in every run
run_bounds(program)          # where its symbols lie in every run
shape_in(step, kernel, b)    # the shape of a buffer of a kernel in one step
sizes_of_step(step, kernel)  # what the symbols of a kernel are in one step
sizes_of_call(call, kernel)  # the same in one call
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from assay.semantics.errors import Invalid
from assay.semantics.graph import CallTIR
from assay.semantics.integers.narrowing import narrowed
from assay.semantics.integers.polynomials import Polynomials
from assay.semantics.memory import Bounds, Place, chosen
from assay.semantics.module import Assertion, Item, Measure, Program, Slot, Step
from assay.semantics.scalar import (
    Apply,
    Const,
    Dim,
    Expr,
    Var,
    evaluate,
    evaluate_dim,
    show,
    simplify,
    substitute,
    variables,
)
from assay.semantics.tensor import Buffer, PrimFunc
from assay.semantics.types import TensorType, Type, flatten
from assay.semantics.walk import post_order

DIVISIONS = ("floordiv", "floormod", "truncdiv", "truncmod")
"""Operations that trap where their second operand is 0."""


def is_symbolic(program: Program) -> bool:
    """Whether sizes are not numbers when a run begins, but for those that it measures."""
    return program.plan is not None or bool(symbols_of(program))


def symbols_of(program: Program) -> tuple[Var, ...]:
    """The symbols in the types of a program's slots, in their order; those of the inputs come first. What a run
    measures is not among them."""
    order = [*(program.slots[n] for n in program.inputs), *program.slots.values()]
    measured = measured_of(program)
    found = {v: None for s in order for d in s.type.shape for v in variables(d)}
    return tuple(v for v in found if v not in measured)


def measured_of(program: Program) -> dict[Var, Dim]:
    """The symbols that a run measures, in the order of the text, and the greatest values that there is room for."""
    measures = (s for s in program.steps if isinstance(s, Measure))
    return {v: most for s in measures for v, most in zip(s.symbols, s.most, strict=False)}


def run_dims(program: Program) -> Iterator[Expr]:
    """What is 0 or more in every run, for `at` refuses other sizes: the dims of slots, and of each divisor in one, if
    that is never below 0, what it is more than 1."""
    polynomials = Polynomials(program.bounds)
    measured = measured_of(program)
    for dim in (d for s in program.slots.values() for d in s.type.shape if isinstance(d, Expr)):
        if any(v in measured for v in variables(dim)):
            continue
        yield dim
        for node in post_order(dim):
            if isinstance(node, Apply) and node.op in DIVISIONS and isinstance(divisor := node.args[1], Expr):
                least = polynomials.range(polynomials.of(divisor))[0]
                if least == 0:
                    yield divisor - 1


def run_bounds(program: Program) -> Bounds:
    """Where the symbols of a program lie in every run: within what is declared, and at no other sizes than `run_dims`
    allows."""
    return narrowed(program.bounds, run_dims(program))


def shape_in(step: Step, kernel: PrimFunc, buffer: Buffer) -> tuple[Dim, ...]:
    """The shape of a parameter or allocation of a step's kernel in this step. What the step does not say stays as it
    is."""
    if all(isinstance(d, int) for d in buffer.shape):
        return buffer.shape
    values = sizes_of_step(step, kernel)
    return tuple(replaced(d, values) for d in buffer.shape)


def sizes_of_step(step: Step, kernel: PrimFunc) -> dict[Var, Dim]:
    """What the symbols and scalars of a step's kernel are in this step, as far as it says."""
    return {**dict(zip(kernel.scalars, step.scalars, strict=False)), **dict(step.dims)}


def sizes_of_call(node: CallTIR, kernel: PrimFunc) -> dict[Var, Dim]:
    """What the symbols of a tensor function are in one call of it: its scalars, and the whole dims of its buffers."""
    return sizes_of_operands(kernel, node.scalars, (*(a.type for a in node.args), node.type))


def sizes_of_operands(kernel: PrimFunc, scalars: Iterable[Dim], types: Iterable[Type]) -> dict[Var, Dim]:
    """The same where a tensor function is handed these scalars, and tensors of these types for its parameters."""
    found: dict[Var, Dim] = dict(zip(kernel.scalars, scalars, strict=False))
    for buffer, of in zip(kernel.params, (t for each in types for t in flatten(each)), strict=False):
        for own, d in zip(buffer.shape, of.shape, strict=False):
            if isinstance(own, Var):
                found.setdefault(own, d)
    return found


def hidden_symbols(kernel: PrimFunc) -> tuple[Var, ...]:
    """The symbols that are dims of a tensor function's outputs only: whoever runs it hands them over as further
    scalars. The type of a call says what they are."""
    told = {v for b in kernel.inputs for d in b.shape for v in variables(d)} | set(kernel.scalars)
    found = dict.fromkeys(d for b in kernel.outputs for d in b.shape if isinstance(d, Var))
    return tuple(s for s in found if s not in told)


def replaced(dim: Dim, values: Mapping[Var, Dim]) -> Dim:
    """A dim with other dims for symbols; those that are not given stay."""
    if not isinstance(dim, Expr):
        return dim
    found = substitute(dim, {v: values[v] for v in variables(dim) if v in values})
    return int(found.value) if isinstance(found, Const) else simplify(found)


def at(program: Program, values: Mapping[Var, int]) -> Program:
    """The program at these values of its symbols; what a run measures stays open. Invalid: one has no value, or one
    outside of its limits; a dim is negative there."""
    for v, low, high in program.limits:
        n = values.get(v, low)
        if n < low or (high is not None and n > high):
            most = "" if high is None else f" and at most {high}"
            raise Invalid(f"{v.name} is {n}; the program is planned for at least {low}{most}", label="instance.C1")
    env = {v: np.int64(n) for v, n in values.items()}
    known: dict[int, Any] = {}  # places are made of one another
    measured = measured_of(program)

    def number(dim: Dim) -> int:
        try:
            return int(evaluate(dim, env, known=known))
        except Invalid as wrong:
            if wrong.label != "scalar.C7":
                raise
        free = next(v.name for v in variables(dim) if v not in values)
        raise Invalid(f"{free} in {show(dim)} has no value: no input has a dim that tells it", label="instance.C2")

    def size(dim: Dim) -> Dim:
        """A number, or over what the run measures."""
        if any(v in measured and v not in values for v in variables(dim)):
            return replaced(dim, values)
        return number(dim)

    plan = None if program.plan is None else chosen(program.plan, number)

    def slot(s: Slot) -> Slot:
        shape = tuple(size(d) for d in s.type.shape)
        if any(isinstance(n, int) and n < 0 for n in shape):
            told = ", ".join(
                f"{v.name} = {values[v]}" for v in symbols_of(replace(program, slots={s.name: s}, inputs=()))
            )
            raise Invalid(f"{s.name} is {s.type}, which has a negative dim with {told}", label="instance.C3")
        s = replace(s, type=TensorType(shape, s.type.dtype), room=None if s.room is None else number(s.room))
        place = plan.places.get(s.name) if plan is not None else None
        return s if place is None else replace(s, pool=place.pool, offset=number(place.offset))

    def item(s: Item) -> Item:
        made = item_with(s, size)
        return replace(made, most=tuple(map(number, made.most))) if isinstance(made, Measure) else made

    slots = {n: slot(s) for n, s in program.slots.items()}
    steps = tuple(map(item, program.steps))
    sizes = {n: number(d) for n, d in plan.sizes.items()} if plan is not None else program.sizes
    limits = tuple(one for one in program.limits if one[0] in measured)
    return replace(program, slots=slots, steps=steps, sizes=sizes, plan=None, limits=limits)


def item_with(item: Item, size: Callable[[Dim], Dim]) -> Item:
    """An item with other dims for its own."""
    match item:
        case Step():
            scalars, dims = tuple(map(size, item.scalars)), tuple((v, size(d)) for v, d in item.dims)
            return item if not scalars and not dims else replace(item, scalars=scalars, dims=dims)
        case Assertion():
            return replace(item, sizes=tuple((size(a), size(b)) for a, b in item.sizes))
        case Measure(values=values) if values:
            return replace(item, values=tuple(map(size, values)))
        case _:
            return item


def place_of(program: Program, slot: Slot) -> Place | None:
    """Where a slot lies in a pool: bytes from its start, which may be an expression; in the first arrangement. None: it
    lies in none, or has no offset yet."""
    if program.plan is not None and slot.name in program.plan.places:
        return program.plan.places[slot.name]
    return None if slot.offset is None or not slot.is_pooled else Place(program.pool_of(slot).name, slot.offset)


def input_types(program: Program) -> dict[str, TensorType]:
    """The types of a program's inputs by name, in their order."""
    return {n: program.slots[n].type for n in program.inputs}


def sizes_of(inputs: Mapping[str, TensorType], shapes: Mapping[str, Sequence[int]]) -> dict[Var, int]:
    """The value of every symbol that is a dim of an input by itself, from the inputs' types and shapes by name.

    Invalid: a shape has another rank, or a dim is not what its type says with these values (rule M4).
    """
    values: dict[Var, int] = {}
    for name, of in inputs.items():
        for d, n in zip(of.shape, shapes[name], strict=False):
            if isinstance(d, Var):
                values.setdefault(d, int(n))
    for name, of in inputs.items():
        given = tuple(int(n) for n in shapes[name])
        known = all(v in values for d in of.shape if isinstance(d, Expr) for v in variables(d))
        if len(given) != len(of.shape) or (known and tuple(evaluate_dim(d, values) for d in of.shape) != given):
            told = ", ".join(f"{v.name} = {n}" for v, n in values.items())
            raise Invalid(
                f"input {name!r} has the shape {given}, expected {of}" + (f" with {told}" if told else ""),
                label="input.C3",
            )
    return values
