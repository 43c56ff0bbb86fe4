"""Whether what is read is still in its bytes (specs/verify.md, "vm").

Where something is written into a tensor, no other tensor may have bytes of it of which anything may still be read: by
what is read from then on on some way, through whatever register, and by what a reference may hold. Whether each tensor
lies inside its storage is asked where sizes are known (`assay.verify.vm.rooms`).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from assay.semantics import bytecode as vm
from assay.verify.vm.aliases import Aliases, At, Things
from assay.verify.vm.flow import Flow
from assay.verify.vm.rooms import are_apart
from assay.verify.vm.wrong import at, register


def check_storage(flows: Mapping[str, Flow]) -> str | None:
    """What is wrong with the storages of some function, if anything."""
    aliases = Aliases(flows)
    for flow in flows.values():
        for place, i in enumerate(flow.order):
            of = flow.function.body[i]
            if isinstance(of, vm.InvokeKernel):
                wrong = next(_Write(flow, place, of, aliases).losses(), None)
                if wrong is not None:
                    return f"{at(flow.function, i)} {wrong}"
    return None


class _Write:
    """What a call of a tensor function writes, at a place in the order of the flow."""

    def __init__(self, flow: Flow, place: int, of: vm.InvokeKernel, aliases: Aliases) -> None:
        self.flow, self.place, self.of = flow, place, of
        self.function = flow.function
        self.all = aliases.at[self.function.name]
        self.filled = aliases.filled[self.function.name]
        self.now = self.all[flow.order[place]]

    def losses(self) -> Iterator[str]:
        """What is lost by it, and may be read yet."""
        function, of, now = self.function, self.of, self.now
        made = (*of.writes, *of.scratch)
        live = self.flow.live_after(self.flow.order[self.place])
        later = sorted(r for r in live if isinstance(r, int) and r not in made)
        for k, w in enumerate(made):
            own = _tensors(now.of((w,)))
            for r in (*of.reads, *later):
                when = "which it reads" if r in of.reads else "which is read behind it"
                for where in self.shared(own, _tensors(now.of((r,)))):
                    yield f"writes {register(function, w)} over {register(function, r)}, {when}: {where}"
            for where in self.shared(own, _tensors(now.kept)):
                yield f"writes {register(function, w)} over what a reference may hold: {where}"
            for v in made[k + 1 :]:
                for other in _tensors(now.of((v,))):
                    if where := _shared(function, own, other, self.all):
                        yield f"writes {register(function, w)} and {register(function, v)} into the same bytes: {where}"

    def shared(self, own: frozenset[int], others: frozenset[int]) -> Iterator[str]:
        """Where other tensors in which something may be share bytes with what is written."""
        for other in sorted(others - own):
            if self.filled.get(("tensor", other), self.place) < self.place:
                if where := _shared(self.function, own, other, self.all):
                    yield where


def _tensors(things: Things) -> frozenset[int]:
    return frozenset(n for kind, n in things if kind == "tensor")


def _shared(function: vm.BytecodeFunction, ones: frozenset[int], other: int, all_: Mapping[int, At]) -> str:
    """Where one of some tensors and another may share bytes; "" if nowhere."""
    for one in ones:
        a, b = function.body[one], function.body[other]
        assert isinstance(a, vm.AllocateTensor) and isinstance(b, vm.AllocateTensor)
        homes = [all_[i].lies.get(t.storage, frozenset()) for i, t in ((one, a), (other, b))]
        both = sorted(n for kind, n in homes[0] & homes[1] if kind == "storage")
        if both and (one == other or not are_apart(a, b)):
            return f"both lie in the storage of instruction {both[0]}"
    return ""
