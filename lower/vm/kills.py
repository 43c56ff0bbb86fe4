"""Kills: on each path a register holds nothing behind the last instruction that reads it (specs/lower.md, "vm")."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

from assay.semantics.bytecode import (
    BytecodeFunction,
    Instruction,
    Jump,
    JumpUnless,
    JumpUnlessMade,
    Kill,
    Register,
    ends,
    reads,
    target,
    written,
)


def with_kills(function: BytecodeFunction) -> BytecodeFunction:
    """The function with kills. Where it is left nothing is killed: its registers go with it."""
    body = function.body
    at, behind = last_uses(body, range(len(function.parameters)))
    text: list[Instruction] = []
    places: list[int] = []
    for number, i in enumerate(body):
        places.append(len(text))
        _kill(text, at.get(number, ()))
        text.append(i)
        _kill(text, behind.get(number, ()))
    return replace(function, body=tuple(moved(text, places)))


def last_uses(
    body: Sequence[Instruction], parameters: Iterable[Register]
) -> tuple[dict[int, set[Register]], dict[int, set[Register]]]:
    """The registers that nothing reads any more, by number of the instruction: those that are dead when a jump, or the
    beginning, has come to it, and those that are behind it."""
    at: dict[int, set[Register]] = {}
    behind: dict[int, set[Register]] = {}
    targets = {t for i in body if (t := target(i)) is not None}
    alive_at: dict[int, frozenset[Register]] = {}
    alive: set[Register] = set()
    for number in range(len(body) - 1, -1, -1):
        i = body[number]
        used, to, goes = set(reads(i)), written(i), target(i)
        if goes is not None:
            there = alive_at[goes]
            before = used | there | (set() if ends(i) else alive)
            at.setdefault(goes, set()).update(before - there)
            if not ends(i):
                behind[number] = before - alive
            alive = before
        elif ends(i):
            alive = used
        else:
            if to is not None:
                used.add(to)
            behind[number] = used - alive
            alive |= used
            if to is not None and to not in reads(i):
                alive.discard(to)
        if number in targets:
            alive_at[number] = frozenset(alive)
    at.setdefault(0, set()).update(set(parameters) - alive)
    return at, behind


def moved(text: Iterable[Instruction], places: Sequence[int]) -> list[Instruction]:
    """Instructions whose jumps go where those to which they went stand now."""
    return [
        replace(i, target=places[i.target]) if isinstance(i, (Jump, JumpUnless, JumpUnlessMade)) else i for i in text
    ]


def _kill(text: list[Instruction], some: Iterable[Register]) -> None:
    registers = tuple(sorted(some))
    if registers:
        text.append(Kill(registers))
