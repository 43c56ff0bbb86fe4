"""What a program says of the sizes of a tensor function that it calls (specs/verify.md, "Proofs for all sizes").

A kernel that an operator became may be handed sizes as scalars. They are sizes of the program's inputs, not any
numbers.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from assay.semantics.graph import CallTIR
from assay.semantics.instance import sizes_of_call
from assay.semantics.module import Module
from assay.semantics.scalar import Dim, Expr, Var as Symbol, substitute, variables
from assay.semantics.tensor import Buffer, PrimFunc
from assay.semantics.tensor.calls import calls_of
from assay.semantics.types import TensorType, flatten, symbols
from assay.semantics.walk import post_order
from assay.verify.symbolic.function import Bounds, size_symbols


@dataclass(frozen=True)
class Callers:
    """What all calls of a tensor function agree on: its symbols that are always one symbol of an input of main, and the
    inputs whose sizes these are, in its symbols."""

    meant: Mapping[Symbol, Symbol] = field(default_factory=dict)
    inputs: tuple[Buffer, ...] = ()

    def bounds(self, given: Bounds) -> dict[str, tuple[int | None, int | None]]:
        """Bounds of sizes of the program, by their names, as bounds of those symbols that are always these sizes."""
        names: dict[str, set[str]] = {}
        for own, of in self.meant.items():
            names.setdefault(own.name, set()).add(of.name)
        return {own: given[name] for own, those in names.items() for name in those if len(those) == 1 and name in given}


def callers(kernel: PrimFunc, module: Module) -> Callers:
    """What the calls of a tensor function of a program agree on; nothing where another tensor function calls it."""
    if any(c.function == kernel.name for k in module.kernels.values() for c in calls_of(k)):
        return Callers()
    inputs = {s for p in module.main.params for s in symbols(p.type)}
    handed: dict[Symbol, set[Dim]] = {own: set() for own in size_symbols(kernel)}
    for function in module.graphs.values():
        for node in post_order(function.body):
            if isinstance(node, CallTIR) and node.func == kernel.name:
                at = sizes_of_call(node, kernel)
                for own, those in handed.items():
                    those.add(at.get(own, -1))
    meant: dict[Symbol, Symbol] = {}
    for own, those in handed.items():
        size = next(iter(those)) if len(those) == 1 else None
        if isinstance(size, Symbol) and size in inputs:
            meant[own] = size
    own_of = {of: own for own, of in meant.items()}
    if not any(s in meant for s in kernel.scalars):  # the sizes of its buffers are known to be sizes
        return Callers(meant)
    types = [(p.name, t) for p in module.main.params for t in flatten(p.type) if isinstance(t, TensorType)]
    there = [
        Buffer(name, tuple(_in_own(d, own_of) for d in t.shape), t.dtype)
        for name, t in types
        if (found := symbols(t)) and all(s in own_of for s in found)
    ]
    return Callers(meant, tuple(there))


def _in_own(dim: Dim, own_of: Mapping[Symbol, Symbol]) -> Dim:
    return substitute(dim, {v: own_of[v] for v in variables(dim)}) if isinstance(dim, Expr) else dim
