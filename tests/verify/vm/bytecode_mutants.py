"""Bytecode that is changed at random, one small change each: what a check must refuse, or what runs alike."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import fields, replace
from random import Random
from typing import Any

import numpy as np

from assay.interp.values import Cell, CodeClosure, Data, Event, External, Maker, Shape
from assay.interp.vm import run
from assay.semantics import bytecode as vm
from assay.semantics.bytecode import Bytecode, BytecodeFunction, Instruction
from assay.semantics.errors import BudgetSpent, Invalid, Trap
from assay.semantics.module import Module
from assay.semantics.scalar import Dim, Expr, Var, substitute, variables
from assay.semantics.types import Type, with_dims

Change = tuple[Bytecode, str]


def with_body(code: Bytecode, function: BytecodeFunction, body: list[Instruction]) -> Bytecode:
    """The code with another text of a function."""
    return replace(code, functions={**code.functions, function.name: replace(function, body=tuple(body))})


def moved(body: list[Instruction], at: int, by: int) -> list[Instruction]:
    """Instructions whose jumps go where they went before some were put in, or taken out, at a place."""
    return [
        replace(i, target=i.target + by)
        if isinstance(i, (vm.Jump, vm.JumpUnless, vm.JumpUnlessMade)) and i.target > at
        else i
        for i in body
    ]


def mutant(code: Bytecode, random: Random) -> Change | None:
    """The code with one change, and what it is; None where the change that was drawn cannot be made."""
    function = random.choice(list(code.functions.values()))
    body = list(function.body)
    k = random.randrange(len(body))
    if isinstance(body[k], vm.Kill) and random.randrange(4):
        return None  # most changes of kills change nothing that can be seen
    match random.randrange(8):
        case 0:
            made = moved([*body[:k], *body[k + 1 :]], k, -1)
            return with_body(code, function, made), f"{function.name}: {k} dropped, {body[k]}"
        case 1 if k + 1 < len(body):
            made = [*body[:k], body[k + 1], body[k], *body[k + 2 :]]
            return with_body(
                code, function, made
            ), f"{function.name}: {k} and {k + 1} exchanged, {body[k]}, {body[k + 1]}"
        case 2:
            to = random.randrange(len(body))
            made = moved([*body[:to], body[k], *body[to:]], to, 1)
            return with_body(code, function, made), f"{function.name}: {k} once more at {to}, {body[k]}"
        case _:
            found = changed(body[k], function, code, random)
            if found is None or found == body[k]:
                return None
            made = [*body[:k], found, *body[k + 1 :]]
            return with_body(code, function, made), f"{function.name}: {k} changed, {body[k]} to {found}"


def changed(of: Instruction, function: BytecodeFunction, code: Bytecode, random: Random) -> Instruction | None:
    """An instruction with another value in one of its fields."""
    names = [f.name for f in fields(of) if f.name != "span"]
    if not names:
        return None
    name = random.choice(names)
    value = getattr(of, name)
    other = _other(of, name, value, function, code, random)
    return None if other is None else replace(of, **{name: other})


REGISTERS = ("to", "of", "storage", "condition", "closure", "value")
MANY = ("fields", "captured", "registers", "reads", "writes", "scratch", "arguments", "shown")


def _other(
    of: Instruction, name: str, value: Any, function: BytecodeFunction, code: Bytecode, random: Random
) -> Any | None:
    if name in REGISTERS:
        return random.randrange(function.registers)
    if name in MANY and isinstance(value, tuple):
        return _registers(value, function, random)
    if name == "target":
        return random.randrange(len(function.body))
    if isinstance(value, bool):
        return not value
    if name == "function":
        return random.choice(list(code.functions))
    if name in ("kernel", "name", "constructor", "kind", "label", "format"):
        all_ = {getattr(i, name) for f in code.functions.values() for i in f.body if type(i) is type(of)}
        return random.choice([*sorted(all_), "other"])
    if name in ("index", "alignment", "itself"):
        return random.choice([0, 1, 2, 32, 128, (value or 0) + 1, (value or 0) - 1])
    if name in ("nbytes", "offset"):
        return _dim(value, function, random)
    if name in ("scalars", "hidden", "sizes", "dims") and value:
        i = random.randrange(len(value))
        return (*value[:i], _dim(value[i], function, random), *value[i + 1 :])
    if name == "binds":
        return random.choice([value[1:], value[::-1], (*value, *function.sizes[:1])])
    if name == "type" and isinstance(value, Type):
        return _type(value, function, random)
    return None


def _registers(value: tuple[int, ...], function: BytecodeFunction, random: Random) -> tuple[int, ...]:
    match random.randrange(4):
        case 0 if value:
            i = random.randrange(len(value))
            return (*value[:i], random.randrange(function.registers), *value[i + 1 :])
        case 1 if len(value) > 1:
            i = random.randrange(len(value) - 1)
            return (*value[:i], value[i + 1], value[i], *value[i + 2 :])
        case 2:
            return value[1:]
        case _:
            return (*value, random.randrange(function.registers))


def _dim(value: Any, function: BytecodeFunction, random: Random) -> Any:
    if value is None:
        return 0
    match random.randrange(4):
        case 0:
            return value + 1
        case 1:
            return value - 1
        case 2 if function.sizes and isinstance(value, Expr):
            by: dict[Var, Dim] = {random.choice(variables(value)): random.choice(function.sizes)}
            return substitute(value, by)
        case _:
            return random.choice([*function.sizes, 0, 1, value * 2])


def _type(value: Type, function: BytecodeFunction, random: Random) -> Type:
    count = 0

    def one(d: Dim) -> Dim:
        nonlocal count
        count += 1
        return d

    with_dims(value, one)
    chosen = random.randrange(max(count, 1))
    count = -1

    def change(d: Dim) -> Dim:
        nonlocal count
        count += 1
        found: Dim = _dim(d, function, random) if count == chosen else d
        return found

    return with_dims(value, change)


# --- what is seen of a run -------------------------------------------------------------------------------------------


def seen(module: Module, inputs: Mapping[str, Any], externs: Mapping[str, Callable[..., Any]] | None = None) -> object:
    """All that can be observed of a run: its results and its trace, or how it ends."""
    trace: list[Event] = []
    try:
        found = run(module, inputs, externs=externs or {}, trace=trace)
    except Trap as trap:
        return "trap", trap.kind, trap.label, _plain(trace)
    except (Invalid, BudgetSpent) as wrong:
        return "invalid", wrong.label
    return _plain(found), _plain(trace)


def _plain(value: Any) -> Any:
    """A value as something that can be compared."""
    match value:
        case np.ndarray() | np.generic():
            a = np.asarray(value)
            return (
                str(a.dtype),
                a.shape,
                np.where(a != a, a.dtype.type(0), a).tobytes() if a.dtype.kind == "f" else a.tobytes(),
            )
        case tuple() | list():
            return tuple(map(_plain, value))
        case dict():
            return tuple((k, _plain(v)) for k, v in value.items())
        case Shape():
            return value.dims
        case Data():
            return value.constructor, _plain(value.fields)
        case Cell():
            return "cell", _plain(value.value)
        case Event():
            return value.kind, value.name, _plain(value.values)
        case CodeClosure() | External() | Maker():
            return type(value).__name__
        case _:
            return repr(type(value))


def mutants(code: Bytecode, random: Random, count: int) -> Iterator[Change]:
    """So many changes of some code."""
    while count:
        found = mutant(code, random)
        if found is not None and found[0] != code:
            count -= 1
            yield found
