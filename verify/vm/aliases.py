"""What a register may lie in: which tensors of this run of the function its value may be made of (specs/verify.md,
"vm").

Forward over the control flow, joined where ways meet. Moves, views, tuples, fields, data, closures and references hand
on what they are made of. A call may give any of its arguments that its function may give: that is found for all
functions together, from nothing up, until nothing is added. Of a closure nothing is known: it may give its arguments
and what it captures.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from assay.semantics import bytecode as vm
from assay.verify.vm.flow import Flow

Thing = tuple[str, int]
"""A tensor or a storage, by the instruction that made it, or a parameter, by its number."""
Things = frozenset[Thing]
NOTHING: Things = frozenset()


@dataclass(frozen=True)
class Summary:
    """What a caller has to know of a function: the parameters that its value may lie in, and those that it may put
    into a reference."""

    gives: frozenset[int] = frozenset()
    keeps: frozenset[int] = frozenset()


@dataclass
class At:
    """What is known where an instruction begins."""

    lies: dict[vm.Register, Things] = field(default_factory=dict)
    kept: Things = NOTHING
    """What some reference may hold: it may be read at any time."""

    def joined(self, other: At) -> At:
        """Where two ways meet, what is so on either."""
        lies = {r: self.lies.get(r, NOTHING) | other.lies.get(r, NOTHING) for r in {*self.lies, *other.lies}}
        return At(lies, self.kept | other.kept)

    def of(self, registers: tuple[vm.Register, ...]) -> Things:
        """What some registers may lie in."""
        return NOTHING.union(*(self.lies.get(r, NOTHING) for r in registers))


class Aliases:
    """The aliases of all functions of an executable."""

    def __init__(self, flows: Mapping[str, Flow]) -> None:
        self.flows = flows
        self.summaries = dict.fromkeys(flows, Summary())
        self.at: dict[str, dict[int, At]] = {}
        self.filled: dict[str, dict[Thing, int]] = {name: {} for name in flows}
        """Of each function's tensors the first place, in the order of the flow, at which something is written there."""
        self.writing = any(isinstance(i, vm.WriteReference) for f in flows.values() for i in f.function.body)
        changed = True
        while changed:
            changed = False
            for name, flow in flows.items():
                found = self.follow(flow)
                if found != self.summaries[name]:
                    self.summaries[name] = found
                    changed = True

    def follow(self, flow: Flow) -> Summary:
        """What holds at each instruction of a function, by what is known of those that it calls."""
        function = flow.function
        here = {flow.order[0]: At({i: frozenset({("parameter", i)}) for i in range(len(function.parameters))})}
        gives, keeps = NOTHING, NOTHING
        filled = self.filled[function.name]
        for place, i in enumerate(flow.order):
            of, now = function.body[i], here[i]
            if isinstance(of, vm.InvokeKernel):
                for thing in now.of((*of.writes, *of.scratch)):
                    filled.setdefault(thing, place)
            match of:
                case vm.Return():
                    gives |= now.of((of.of,))
                case vm.ReturnCall() | vm.ReturnCallClosure():
                    result, kept = self.called(of, now)
                    gives, keeps = gives | result, keeps | kept
                case _:
                    behind = self.behind(i, of, now)
                    for s in flow.after[i]:
                        here[s] = here[s].joined(behind) if s in here else behind
                    keeps |= behind.kept
        self.at[function.name] = here
        parameters = [frozenset(n for kind, n in some if kind == "parameter") for some in (gives, keeps)]
        return Summary(*parameters)

    def behind(self, index: int, of: vm.Instruction, now: At) -> At:
        """What holds behind an instruction."""
        lies, kept = dict(now.lies), now.kept
        found = NOTHING
        match of:
            case vm.Kill():
                for r in of.registers:
                    lies.pop(r, None)
            case vm.AllocateStorage():
                found = frozenset({("storage", index)})
            case vm.AllocateTensor():
                found = frozenset({("tensor", index)})
            case vm.WriteReference():
                kept |= now.of((of.value,))
            case vm.ReadReference():
                found = now.of((of.of,)) | kept
            case vm.InvokeFunction() | vm.InvokeClosure() | vm.InvokeExtern():
                found, more = self.called(of, now)
                kept |= more
            case vm.ShapeOfTensor() | vm.ReadShape():
                pass
            case _ if vm.written(of) is not None:
                found = now.of(vm.reads(of))
        to = vm.written(of)
        if to is not None:
            lies[to] = found
        return At(lies, kept)

    def called(self, of: vm.Instruction, now: At) -> tuple[Things, Things]:
        """What a call may give, and what it may put into a reference."""
        if isinstance(of, vm.InvokeFunction | vm.ReturnCall):
            summary = self.summaries[of.function]
            given = [now.of((a,)) for a in of.arguments]
            return tuple(NOTHING.union(*(given[p] for p in of_)) for of_ in (summary.gives, summary.keeps))  # type: ignore[return-value]
        all_of_it = now.of(vm.reads(of))
        return all_of_it, all_of_it if self.writing else NOTHING
