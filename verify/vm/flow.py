"""The control flow of a function of bytecode, read off its jumps (specs/verify.md, "vm").

Instructions are nodes. What may be read later, and where the ways from a choice meet again, is found on this graph by
data flow: nothing of the compiler is asked.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from assay.semantics import bytecode as vm
from assay.semantics.graph.scopes import Forest
from assay.semantics.walk import needed_first
from assay.verify.vm.touched import Name, reads, writes
from assay.verify.vm.wrong import Unsound, at


@dataclass(eq=False)
class Flow:
    """Where each instruction goes on.

    Of an instruction that no way reaches nothing is said: it never runs.
    """

    function: vm.BytecodeFunction
    after: list[tuple[int, ...]]
    order: list[int]
    """Every instruction that can be reached, before all that come behind it on some way."""
    live: list[frozenset[Name]] = field(default_factory=list)
    """For each instruction what may be read from where it begins, before it is written anew."""
    meets: dict[int, int] = field(default_factory=dict)
    """For each instruction from which some way leads out of the function, and not into a failure, the next one through
    which every such way goes: the number of instructions stands for the exit."""

    @property
    def exit(self) -> int:
        """The number that stands for the exit."""
        return len(self.function.body)

    def live_after(self, index: int) -> frozenset[Name]:
        """What may be read once an instruction has ended."""
        return frozenset().union(*(self.live[s] for s in self.after[index]))

    def returns(self, index: int) -> bool:
        """Whether some way leads from an instruction out of the function, and not into a failure."""
        return index == self.exit or index in self.meets


def flow_of(function: vm.BytecodeFunction) -> Flow:
    """The control flow of a function; Unsound where it leads out of the text, or round."""
    body = function.body
    after = [_successors(function, i) for i in range(len(body))]
    found = Flow(function, after, _order(function, after))
    live: list[frozenset[Name]] = [frozenset()] * len(body)
    for i in reversed(found.order):
        behind = frozenset[Name]().union(*(live[s] for s in after[i]))
        live[i] = (behind - frozenset(writes(body[i]))) | frozenset(reads(body[i]))
    found.live = live
    _find_meets(found)
    return found


def _successors(function: vm.BytecodeFunction, index: int) -> tuple[int, ...]:
    """The instructions that may come next."""
    body = function.body
    match body[index]:
        case vm.Return() | vm.ReturnCall() | vm.ReturnCallClosure() | vm.Fail():
            return ()
        case vm.Jump(target=target):
            found: tuple[int, ...] = (target,)
        case vm.JumpUnless(target=target) | vm.JumpUnlessMade(target=target):
            found = (index + 1, target)
        case _:
            found = (index + 1,)
    for s in found:
        if not 0 <= s < len(body):
            where = "runs on behind the last instruction" if s == len(body) else f"jumps to {s}, where nothing is"
            raise Unsound(f"{at(function, index)} {where}")
    return found


def _order(function: vm.BytecodeFunction, after: Sequence[Sequence[int]]) -> list[int]:
    """What can be reached from the first instruction, each before those behind it; Unsound where a way leads round."""
    if not after:
        raise Unsound(f"{function.name} has no instructions")
    order = list(needed_first([0], lambda i: after[i]))[::-1]
    place = {index: k for k, index in enumerate(order)}
    for index in order:
        for following in after[index]:
            if place[following] <= place[index]:
                raise Unsound(f"{at(function, index)} leads back to instruction {following}: a function has no loops")
    return order


def _find_meets(of: Flow) -> None:
    """The tree of what every way out goes through, from the exit: of two ways the place where they meet."""
    tree = Forest()
    place = {of.exit: tree.add()}
    number = {place[of.exit]: of.exit}
    for i in reversed(of.order):
        if isinstance(of.function.body[i], vm.Return | vm.ReturnCall | vm.ReturnCallClosure):
            ways = [of.exit]
        else:
            ways = [s for s in dict.fromkeys(of.after[i]) if s in place]
        if not ways:
            continue
        meet = place[ways[0]]
        for s in ways[1:]:
            meet = tree.around(meet, place[s])
        of.meets[i] = number[meet]
        place[i] = tree.add(meet)
        number[place[i]] = i
