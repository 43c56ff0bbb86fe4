"""What is wrong with bytecode, in words (specs/verify.md, "vm")."""

from __future__ import annotations

from assay.semantics import bytecode as vm


class Unsound(Exception):
    """Bytecode that does not hold together, or that is not the function that it comes from."""

    events: int | None = None
    """What had happened before, where that is known."""

    def inside(self, function: vm.BytecodeFunction, index: int, events: int) -> Unsound:
        """The same, of an instruction."""
        found = type(self)(f"{at(function, index)} {self}")
        found.events = events
        return found


class NotThere(Unsound):
    """A value that the source does not compute: what has made it another is what happened before."""


def at(function: vm.BytecodeFunction, index: int) -> str:
    """An instruction for a message: its function, its number, what it is, and its place in the source."""
    if index >= len(function.body):
        return f"{function.name}, at its end"
    instruction = function.body[index]
    place = f" at {instruction.span}" if instruction.span else ""
    return f"{function.name}, instruction {index} ({type(instruction).__name__}{place}):"


def register(function: vm.BytecodeFunction, number: vm.Register) -> str:
    """A register for a message, with what the source calls it."""
    name = function.names.get(number, "")
    return f"register {number}" + (f" ({name})" if name else "")


class Undecided(Exception):
    """The proof stops without an answer: a case that it does not treat."""
