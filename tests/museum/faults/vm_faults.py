"""Faults that a compiler to bytecode has had or could have: each a change of what the right one makes.

Those of the virtual machine of Relay are in the project's facts: memory that was planned again too early (PR 7361),
arguments that are not compared with the declared type, sizes of results that are never compared.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

from assay.semantics import bytecode as vm
from assay.semantics.bytecode import Bytecode, Instruction
from assay.semantics.module import Module
from assay.semantics.scalar import Var
from assay.semantics.types import TensorType
from tests.museum.judges import bytecode
from tests.museum.planted import PlantedFault, size_of_made
from tests.verify.vm.bytecode_programs import Change, compiled, edited, exchanged, places, program, put, without_kills

CALL, TENSOR, STORAGE = vm.InvokeKernel, vm.AllocateTensor, vm.AllocateStorage
REGISTERS, STORAGES, VALUES, EVENTS = "registers", "storages", "values", "order of events"


def fault(
    name: str, of: str, layer: str, change: Change, said: str, *, kills: bool = True, known: str = ""
) -> PlantedFault:
    """A change of the bytecode of a program; without kills where these would be found before it."""

    def right(source: Module) -> Module:
        made = compiled(of)
        return made if kills else made.with_(main=without_kills(made.bytecode))

    def wrong(source: Module) -> Module:
        made = right(source)
        return made.with_(main=change(made.bytecode))

    shown = None if kills else right  # that what the compiler makes is accepted is a test of its own
    made = partial(program, of)
    return PlantedFault(name, f"vm: {layer}", (bytecode,), made, wrong, shown, said, known=known, size=size_of_made)


def after(kind: type[Instruction], more: Instruction, which: int = 0, function: str = "main") -> Change:
    """One more instruction behind another."""
    return edited(kind, lambda i: [i, more], which, function)


def before(kind: type[Instruction], more: Instruction, which: int = 0, function: str = "main") -> Change:
    """One more instruction before another."""
    return edited(kind, lambda i: [more, i], which, function)


def dropped(kind: type[Instruction], which: int = 0, function: str = "main") -> Change:
    """An instruction is left out."""
    return edited(kind, lambda i: [], which, function)


def target(which: int, to: int) -> Change:
    """A jump goes elsewhere."""
    return edited(vm.JumpUnless, lambda i: replace(i, target=to), which)


def both(*changes: Change) -> Change:
    """Several changes, one after another."""

    def apply(code: Bytecode) -> Bytecode:
        for change in changes:
            code = change(code)
        return code

    return apply


def one(kind: type[Instruction], which: int = 0, inside: str = "main", /, **new: Any) -> Change:
    """An instruction with other values in some fields; a function makes the value of the one that is there."""

    def change(i: Instruction) -> Instruction:
        made = {k: v(getattr(i, k)) if callable(v) else v for k, v in new.items()}
        found: Instruction = replace(i, **made)  # type: ignore[arg-type]
        return found

    return edited(kind, change, which, inside)


def flipped(of: tuple[int, ...]) -> tuple[int, ...]:
    """In the other order."""
    return of[::-1]


def fewer(of: tuple[int, ...]) -> tuple[int, ...]:
    """One less."""
    return of[:1]


def same_as(kind: type[Instruction], name: str, function: str = "main") -> Change:
    """The first instruction of a kind has in a field what the second has."""

    def apply(code: Bytecode) -> Bytecode:
        other = code.functions[function].body[places(code, function, kind)[1]]
        return one(kind, 0, function, **{name: getattr(other, name)})(code)

    return apply


def returned_early(code: Bytecode) -> Bytecode:
    """The last instruction is left out."""
    return put(code, "main", list(code.main.body[:-1]))


def in_place_of(of: int, other: int) -> Change:
    """A tensor is laid into the storage of another."""

    def apply(code: Bytecode) -> Bytecode:
        at, there = (places(code, "main", TENSOR)[k] for k in (of, other))
        body = list(code.main.body)
        home, moved = body[there], body[at]
        assert isinstance(home, vm.AllocateTensor) and isinstance(moved, vm.AllocateTensor)
        body[at] = replace(moved, storage=home.storage)
        return put(code, "main", body)

    return apply


def resized(which: int, change: Callable[[Var, Var], object], function: str = "main") -> Change:
    """A storage of another size, made of the first two sizes of main."""

    def apply(code: Bytecode) -> Bytecode:
        n, m = code.main.sizes[:2]
        return edited(STORAGE, lambda i: replace(i, nbytes=change(n, m)), which, function)(code)

    return apply


def viewed(code: Bytecode) -> Bytecode:
    """A view with two axes exchanged."""
    (n,) = code.main.sizes

    def change(i: vm.ViewTensor) -> vm.ViewTensor:
        return replace(i, type=TensorType((2, n, 2), i.type.dtype))

    return edited(vm.ViewTensor, change)(code)


def from_the_wrong_axis(code: Bytecode) -> Bytecode:
    """A size is bound by another axis than the one that it is."""

    def change(i: vm.MatchType) -> vm.MatchType:
        assert isinstance(i.type, TensorType)
        return replace(i, type=TensorType(i.type.shape[::-1], i.type.dtype))

    return edited(vm.MatchType, change, 3)(code)


def stale(code: Bytecode) -> Bytecode:
    """A closure is handed another size than the one that it inherits."""
    (n,) = code.main.sizes
    return edited(vm.MakeClosure, lambda i: replace(i, sizes=(n * 2,)))(code)


FAULTS = (
    # registers
    fault(
        "a register is killed before it is read", "chain", REGISTERS, before(CALL, vm.Kill((0,))), "was killed on a way"
    ),
    fault(
        "a register is killed on one way only",
        "choice",
        REGISTERS,
        after(vm.Move, vm.Kill((11,))),
        "was killed on a way",
    ),
    fault("a jump skips an arm", "choice", REGISTERS, target(0, 31), "which has no value on some way"),
    fault("a jump goes back", "choice", REGISTERS, target(0, 2), "a function has no loops"),
    fault("a function has no return", "chain", REGISTERS, returned_early, "runs on behind the last instruction"),
    fault(
        "a call with too few arguments",
        "calls",
        REGISTERS,
        one(vm.InvokeFunction, arguments=fewer),
        "takes 2 arguments, with 1",
        known="R (PR 4129)",
    ),
    fault(
        "a closure with a value too few",
        "closures",
        REGISTERS,
        one(vm.MakeClosure, captured=fewer),
        "captures 1 values for main.f, which takes 2",
    ),
    # storages
    fault(
        "a storage is used again by what reads it",
        "chain",
        STORAGES,
        in_place_of(1, 0),
        "which it reads",
        kills=False,
        known="P#7361",
    ),
    fault(
        "a storage is used again before the last read",
        "chain",
        STORAGES,
        in_place_of(2, 1),
        "register 5 (b)",
        kills=False,
        known="P#7361",
    ),
    fault(
        "a result lies in the storage of another result",
        "chain",
        STORAGES,
        in_place_of(4, 3),
        "over register 9 (d), which is read behind it",
        kills=False,
        known="P#7361",
    ),
    fault(
        "a view keeps its bytes",
        "views",
        STORAGES,
        in_place_of(1, 0),
        "over register 3 (a), which is read behind it",
        kills=False,
        known="P#7361",
    ),
    fault(
        "a storage is a byte too small",
        "effects",
        STORAGES,
        one(STORAGE, 1, nbytes=3),
        "ends inside its storage is not shown: its bytes 0 to 4 of 3",
    ),
    fault(
        "a storage of the size of another axis", "sizes", STORAGES, resized(1, lambda n, m: n * n * 4), "is not shown"
    ),
    fault(
        "a storage of a lower bound", "sizes", STORAGES, resized(0, lambda n, m: n * 4), "is not shown", known="P#18663"
    ),
    fault(
        "a storage larger than its tensors", "sizes", STORAGES, resized(0, lambda n, m: (n + m) * 99), "allocates more"
    ),
    fault(
        "a tensor that is not aligned",
        "chain",
        STORAGES,
        one(TENSOR, 0, offset=2),
        "lays elements of 4 bytes at 2",
    ),
    fault("a tensor that nothing fills", "chain", STORAGES, dropped(CALL, 1), "a tensor that nothing has filled"),
    fault(
        "a tensor that is filled twice",
        "chain",
        STORAGES,
        one(CALL, 2, writes=(3,)),
        "a second time",
        kills=False,
    ),
    # values
    fault("two registers are exchanged", "chain", VALUES, one(CALL, 3, reads=flipped), "runs subtract on b, c where"),
    fault("another register is returned", "chain", VALUES, one(vm.MakeTuple, 0, fields=(7, 11)), "gives", kills=False),
    fault(
        "the arms of a choice are exchanged",
        "choice",
        VALUES,
        both(one(CALL, 0, kernel="add"), one(CALL, 2, kernel="subtract")),
        "runs add on x, y where the source runs subtract on x, y",
    ),
    fault(
        "a choice leaves the value of the other arm", "choice", VALUES, one(vm.Move, 0, of=1), "runs sqrt", kills=False
    ),
    fault(
        "another constructor is asked for",
        "made",
        VALUES,
        one(vm.JumpUnlessMade, 0, "less", constructor="two"),
        "chooses by v being two where the source chooses by v being one",
    ),
    fault("another field", "made", VALUES, one(vm.GetField, 2, "less", index=0), "runs subtract on a_1, a_1 where"),
    fault("the fields of a value exchanged", "made", VALUES, one(vm.MakeData, 0, fields=flipped), "calls global less"),
    fault(
        "captured values exchanged",
        "closures",
        VALUES,
        one(vm.MakeClosure, 0, captured=flipped),
        "runs subtract on y, x where the source runs subtract on x, y",
    ),
    fault("another closure is called", "closures", VALUES, one(vm.InvokeClosure, 0, closure=4), "calls g on z"),
    fault("another function is called", "calls", VALUES, one(vm.InvokeFunction, 1, function="up"), "calls global up"),
    fault(
        "a tail call of another function",
        "calls",
        VALUES,
        one(vm.ReturnCall, 0, "down", function="up"),
        "calls global up",
    ),
    fault(
        "a tail call with a stale argument",
        "calls",
        VALUES,
        one(vm.ReturnCall, 0, "down", arguments=(0, 1)),
        "calls global down on i, x",
        kills=False,
    ),
    fault("scalars exchanged", "sizes", VALUES, one(CALL, 1, scalars=flipped), "runs full"),
    fault(
        "another constant",
        "calls",
        VALUES,
        lambda code: one(
            vm.LoadConstant, 0, "down", name=code.functions["down"].body[places(code, "down", vm.LoadConstant)[1]].name
        )(code),
        "runs less on i",
    ),
    fault("a view of another shape", "views", VALUES, viewed, "gives"),
    fault("a size of another axis", "casts", VALUES, from_the_wrong_axis, "checks sizes", known="R (PR 4129)"),
    fault("a closure over another size", "closures", VALUES, stale, "the size n is not handed over to main.f"),
    fault(
        "a copy between devices is left out",
        "devices",
        VALUES,
        both(one(CALL, 2, reads=(2,)), dropped(CALL, 1)),
        "reads a tensor that is on cuda:0",
        kills=False,
    ),
    fault(
        "a storage on another device",
        "devices",
        VALUES,
        lambda code: one(STORAGE, 0, device=code.main.body[places(code, "main", STORAGE)[1]].device)(code),
        "runs on cuda:0 and writes a tensor that is on cpu:0",
    ),
    # what happens, and when
    fault(
        "a print is dropped",
        "effects",
        EVENTS,
        dropped(vm.PrintRegisters),
        "prints 'y {}' of y where the source prints",
    ),
    fault(
        "two prints are exchanged",
        "effects",
        EVENTS,
        exchanged((vm.PrintRegisters, 0), (vm.PrintRegisters, 1)),
        "prints 'y {}' of y where",
    ),
    fault(
        "a print of other values",
        "effects",
        EVENTS,
        one(vm.PrintRegisters, 0, shown=(1, 0)),
        "prints 'x {} y {}' of y, x",
    ),
    fault("an assertion is left out", "effects", EVENTS, dropped(vm.RequireTrue), "where the source asserts"),
    fault(
        "a reference is read too late",
        "effects",
        EVENTS,
        exchanged((vm.ReadReference, 0), (vm.WriteReference, 0)),
        "writes the reference",
    ),
    fault(
        "a value is not compared with its type",
        "casts",
        EVENTS,
        dropped(vm.MatchType, 2),
        "where the source checks sizes (match_cast.T1",
        known="R",
    ),
    fault(
        "an argument is not compared with its type",
        "closures",
        EVENTS,
        dropped(vm.MatchType, 0, "main.f"),
        "where the source checks sizes (func.T2",
        known="R+T",
    ),
    fault(
        "a trap of another name",
        "made",
        EVENTS,
        one(vm.Fail, 0, "less", label="match.T2"),
        "ends in a trap match (match.T2)",
    ),
)
