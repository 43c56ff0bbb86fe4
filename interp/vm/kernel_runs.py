"""Tensor functions on the memory of bytecode (rules M7, M8; specs/interp.md; specs/vm.md, "Calls")."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Literal, TypeAlias

from assay.interp import tensor
from assay.interp.binding import Array, bind_dims, hidden_symbols, shape_at
from assay.interp.device_access import NOTHING, of_call
from assay.interp.graph.memory_limits import memory_traps
from assay.interp.shadow import ShadowMemory
from assay.interp.values import Event, Externs
from assay.interp.vm.storage import Tensor
from assay.interp.windows import check_alignment
from assay.semantics.bytecode import InvokeKernel
from assay.semantics.devices import ANYWHERE
from assay.semantics.errors import Invalid, Trap
from assay.semantics.module import Module
from assay.semantics.scalar import Var
from assay.semantics.tensor import Buffer, PrimFunc
from assay.semantics.tensor.calls import calls_of

Execute: TypeAlias = Callable[..., Sequence[Array]] | Literal["definition"]


class Kernels:
    """Runs the tensor functions of a module."""

    def __init__(self, module: Module, execute: Execute, externs: Externs, trace: list[Event]) -> None:
        self.module = module
        self.execute = execute
        self.externs = externs
        self.trace = trace
        self.hidden: dict[PrimFunc, tuple[Var, ...]] = {}
        self.opened: dict[PrimFunc, PrimFunc] = {}

    def run(
        self,
        call: InvokeKernel,
        reads: Sequence[Tensor],
        writes: Sequence[Tensor],
        scratch: Sequence[Tensor],
        scalars: Sequence[int],
        hidden: Sequence[int],
    ) -> list[Array]:
        """Run a call; the arrays that it wrote. Traps as the machine of planned programs does, and where the sizes that
        were computed for its results are not those that it makes."""
        func = self.module.kernel(call.kernel)
        if func not in self.hidden:
            self.hidden[func] = hidden_symbols(func)
        self.check_counts(func, reads, writes, scratch, scalars, hidden)
        given = set(map(id, (t.storage for t in reads)))
        for t in (*writes, *scratch):
            if t.is_read_only:
                raise Trap("store to constant", f"{t.slot.name} is written, and is read-only", label="machine.T6")
            if id(t.storage) in given and any(t.slot.name == r.slot.name and t.storage is r.storage for r in reads):
                raise Trap("clobbered", f"{t.slot.name} is read and written by the same call", label="machine.T7")
        tensors = [*reads, *writes, *scratch]
        pairs = list(zip([*func.params, *func.allocations][: len(tensors)], tensors, strict=True))
        func, own = self.sized(func, pairs, scalars, hidden)
        across = NOTHING
        if call.device != ANYWHERE or any(t.storage.device != ANYWHERE for t in tensors):
            across = of_call(call.device, func, [(b, t.slot) for b, t in pairs])
        for b, t in pairs:
            check_alignment(b, t.slot.offset or 0)
        for t in reads:
            t.storage.region.check(t.slot, "read")
        more: Mapping[str, Any] = {}
        if calls_of(func):
            more = {"functions": self.module.kernels, "externs": self.externs, "trace": self.trace}
        if self.execute == "definition":
            homes = {b: (t.slot, t.storage.region) for b, t in pairs}
            memory = ShadowMemory(func, homes, set(func.outputs), across)
            tensor.run(func, [t.array() for t in reads], scalars=own, memory=memory, **more)
            across.check()
            for t in reads:
                t.storage.region.check(t.slot, "read while the call writes")
        else:
            across.check()
            self.whole(func, reads, writes, scratch, own, more)
        return [t.array() for t in writes]

    def whole(
        self,
        func: PrimFunc,
        reads: Sequence[Tensor],
        writes: Sequence[Tensor],
        scratch: Sequence[Tensor],
        scalars: Sequence[Any],
        more: Mapping[str, Any],
    ) -> None:
        """Run a tensor function as a whole. It may write any byte of its results at any time, so they take their bytes
        first: what it reads has to be elsewhere."""
        for t in (*writes, *scratch):
            t.storage.region.write(t.slot)
        for t in (*reads, *writes, *scratch):
            t.storage.region.check(t.slot, "in use by the call")
        for t in scratch:
            t.storage.region.spoil(t.slot)
        taken = [_locked(t.array()) for t in reads]
        made = [t.array() for t in writes]
        with memory_traps():
            if func.attrs.get("host") is True or self.execute == "definition":
                # host functions are short, and each run may bring other sizes: not worth compiling
                for to, found in zip(made, tensor.run(func, taken, scalars=scalars, **more), strict=True):
                    to[...] = found
                return
            if scalars:
                more = {**more, "scalars": scalars}
            if scratch:
                more = {**more, "scratch": [t.array() for t in scratch]}
            self.execute(func, taken, outputs=made, **more)

    def sized(
        self, func: PrimFunc, pairs: Sequence[tuple[Buffer, Tensor]], scalars: Sequence[int], hidden: Sequence[int]
    ) -> tuple[PrimFunc, Sequence[int]]:
        """The function and all its scalars. Traps where what it is handed is not what it takes, or where the memory for
        what it makes is of other sizes than it says (row J3)."""
        symbols = self.hidden[func]
        if symbols:
            func = self.opened.setdefault(func, replace(func, scalars=(*func.scalars, *symbols)))
            scalars = (*scalars, *hidden)
        try:
            dims = bind_dims(func, [t.array() for _, t in pairs[: len(func.inputs)]], scalars)
        except Invalid as wrong:
            raise Trap("shape", wrong.message, label="call.T2") from None
        for b, t in pairs[len(func.inputs) :]:
            try:
                shape = shape_at(b, dims)
            except Invalid:
                if b in func.outputs:
                    raise
                continue  # an allocation over sizes of the call itself
            if t.type.dtype is not b.dtype or t.shape != shape:
                what = f"{func.name} makes {b.name} of shape {shape}, {b.dtype}, and {t.slot.name} is {t.type}"
                raise Trap("shape", what, label="vm.T1")
        return func, scalars

    def check_counts(
        self,
        func: PrimFunc,
        reads: Sequence[Tensor],
        writes: Sequence[Tensor],
        scratch: Sequence[Tensor],
        scalars: Sequence[int],
        hidden: Sequence[int],
    ) -> None:
        """Invalid unless a call has what its function takes."""
        counts = (
            ("inputs", len(func.inputs), len(reads)),
            ("outputs", func.num_outputs, len(writes)),
            ("allocations", len(func.allocations) if scratch else 0, len(scratch)),
            ("scalars", len(func.scalars), len(scalars)),
            ("further sizes", len(self.hidden[func]), len(hidden)),
        )
        for what, expected, given in counts:
            if expected != given:
                raise Invalid(f"{func.name} has {expected} {what}, the call {given}", label="vm.C7")


def _locked(array: Array) -> Array:
    view = array.view()
    view.flags.writeable = False
    return view
