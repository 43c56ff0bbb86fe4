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
    for name, flow in flows.items():
        for i in flow.order:
            of = flow.function.body[i]
            if isinstance(of, vm.InvokeKernel):
                wrong = next(_overwritten(flow, i, of, aliases.at[name][i], aliases.at[name]), None)
                if wrong is not None:
                    return f"{at(flow.function, i)} {wrong}"
    return None


def _overwritten(flow: Flow, index: int, of: vm.InvokeKernel, now: At, all_: Mapping[int, At]) -> Iterator[str]:
    """What is lost by what a kernel writes, and may be read yet."""
    function = flow.function
    made = (*of.writes, *of.scratch)
    later = [r for r in sorted(r for r in flow.live_after(index) if isinstance(r, int)) if r not in made]
    for k, w in enumerate(made):
        own = _tensors(now.lies.get(w, frozenset()))
        for r in (*of.reads, *later):
            for other in _tensors(now.lies.get(r, frozenset())) - own:
                if ("tensor", other) in now.filled and (where := _shared(function, own, other, all_)):
                    when = "which it reads" if r in of.reads else "which is read behind it"
                    yield f"writes {register(function, w)} over {register(function, r)}, {when}: {where}"
        for other in _tensors(now.kept) - own:
            if where := _shared(function, own, other, all_):
                yield f"writes {register(function, w)} over what a reference may hold: {where}"
        for v in made[k + 1 :]:
            for other in _tensors(now.lies.get(v, frozenset())):
                if where := _shared(function, own, other, all_):
                    yield f"writes {register(function, w)} and {register(function, v)} into the same bytes: {where}"


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
