"""Which arms of a program's choices never ran in some runs of its bytecode (specs/verify.md, "compare")."""

from __future__ import annotations

from collections.abc import Container, Iterator
from dataclasses import dataclass

from assay.semantics import bytecode as vm
from assay.semantics.errors import Span
from assay.verify.evidence import plural
from assay.verify.vm.flow import Flow, flow_of

Place = tuple[str, int]
"""An instruction: the function, and its number there."""


@dataclass(frozen=True)
class Arm:
    """One way behind a choice: where it begins, in words which one it is, and where the choice stands."""

    begins: Place
    which: str
    at: Span | str


def told_arms(code: vm.Bytecode, reached: Container[Place]) -> str:
    """Of how many arms how many never ran, and the first of these; which functions were never called."""
    arms = [a for f in code.functions.values() for a in arms_of(f)]
    never = [a for a in arms if a.begins not in reached]
    said = ""
    if never:
        first = never[0]
        said = f"; {len(never)} of {plural(len(arms), 'arm')} never ran, first {first.which} at {first.at}"
    elif arms:
        said = f"; {f'each of {len(arms)} arms' if len(arms) > 1 else 'the one arm'} ran"
    if uncalled := [n for n in code.functions if (n, 0) not in reached]:
        said += f"; {plural(len(uncalled), 'function')} never called, first {uncalled[0]}"
    return said


def arms_of(function: vm.BytecodeFunction) -> list[Arm]:
    """The arms of a function, in the order of its text; each place at which one begins once. Where a pattern does not
    fit, the next one is tried: only what stands behind all tests is an arm. A way that does nothing but fail is
    none."""
    flow = flow_of(function)
    found: dict[int, Arm] = {}
    for i in flow.order:
        for begins, which in _ways(function, i):
            if flow.returns(begins) and not _is_test(flow, begins, function.body[i]):
                where = function.body[i].span or f"instruction {i} of {function.name}"
                found.setdefault(begins, Arm((function.name, begins), which, where))
    return [found[b] for b in sorted(found)]


def _ways(function: vm.BytecodeFunction, index: int) -> Iterator[tuple[int, str]]:
    match function.body[index]:
        case vm.JumpUnless(target=target):
            yield from ((index + 1, "where the condition holds"), (target, "where the condition does not hold"))
        case vm.JumpUnlessMade(target=target, constructor=name):
            yield from ((index + 1, f"where {name} matches"), (target, f"where {name} does not match"))


def _is_test(flow: Flow, begins: int, of: vm.Instruction) -> bool:
    """Whether another test of the same match comes first."""
    body = flow.function.body
    while begins < len(body) and isinstance(body[begins], vm.Kill | vm.GetField):
        begins += 1
    return begins < len(body) and isinstance(body[begins], vm.JumpUnlessMade) and body[begins].span == of.span
