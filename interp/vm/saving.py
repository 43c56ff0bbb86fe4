"""A call of bytecode that is saved as a function of it (row R27; specs/interp.md, "Session")."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

import numpy as np

from assay.interp.binding import Array
from assay.interp.values import Shape, Value
from assay.interp.vm.limits import check_limits
from assay.semantics.bytecode import BytecodeFunction, Instruction, LoadConstant, MakeShape, MakeTuple, ReturnCall
from assay.semantics.errors import Invalid
from assay.semantics.graph.matching import instantiate
from assay.semantics.module import Module
from assay.semantics.names import unused
from assay.semantics.scalar import Dim, Var as Symbol
from assay.semantics.types import Type, TypeVar, symbols
from assay.semantics.walk import post_order


def with_saved_call(
    module: Module, saved: str, function: str, made: Mapping[str, Value], sizes: Mapping[Symbol, int]
) -> Module:
    """The executable with a function `saved`, which takes what is not in `made` and calls the function on that and on
    these values, which become constants. `sizes` are those that the values tell. Invalid (session.C5): a value that no
    module can hold."""
    entry = module.bytecode.entry(function)
    known: dict[Symbol | TypeVar, Dim | Type] = dict(sizes.items())
    left = [n for n in entry.inputs if n not in made]
    check_limits(entry.function, sizes)
    told = {s for n in left for s in symbols(entry.inputs[n])}
    for size, _, _ in entry.function.limits:
        if size not in sizes and size not in told:
            what = f"{function} is built for some values of {size.name} alone, which nobody tells who calls {saved}"
            raise Invalid(what, label="vm.C12")
    writer = _Writer(module, saved, len(left))
    place = {n: i for i, n in enumerate(left)} | {n: writer.value(v, n) for n, v in made.items()}
    result = instantiate(entry.function.result, known)
    body = (*writer.body, ReturnCall(function, tuple(place[n] for n in entry.inputs), result))
    own = BytecodeFunction(
        saved,
        tuple(instantiate(entry.inputs[n], known) for n in left),
        result,
        writer.registers,
        body,
        type_params=entry.function.type_params,
        names=dict(enumerate(left)),
        limits=tuple(limit for limit in entry.function.limits if limit[0] not in sizes),
    )
    code = replace(module.bytecode, functions={**module.bytecode.functions, saved: own})
    return replace(module.with_(main=code), constants={**module.constants, **writer.constants})


@dataclass
class _Writer:
    """The instructions that put values into registers."""

    module: Module
    saved: str
    registers: int
    body: list[Instruction] = field(default_factory=list)
    constants: dict[str, Array] = field(default_factory=dict)

    def value(self, value: Value, name: str) -> int:
        """The register that holds a value, of which nothing of the caller's is kept."""
        made: dict[int, int] = {}
        for part in post_order(value, lambda v: v if isinstance(v, tuple) else ()):
            to = self.registers
            match part:
                case tuple():
                    self.body.append(MakeTuple(to, tuple(made[id(p)] for p in part)))
                case Shape():
                    self.body.append(MakeShape(to, part.dims, any_sign=True))
                case np.ndarray():
                    self.body.append(LoadConstant(to, self.constant(part, name)))
                case _:
                    what = f"input {name!r} holds {type(part).__name__}, which a module cannot hold"
                    raise Invalid(what, label="session.C5")
            made[id(part)] = to
            self.registers += 1
        return made[id(value)]

    def constant(self, array: Array, name: str) -> str:
        """The name of a new constant."""
        code = self.module.bytecode
        taken = (self.module.constants, self.module.definitions, code.late, self.constants)
        found = unused(f"{self.saved}_{name}", *taken)
        self.constants[found] = array.copy()
        return found
