"""Outputs in the bytes of operands that are not needed any more (specs/lower.md, "in_place").

A step may compute an output in place of an input that it is the last to use, of as many bytes, if its tensor function
never reads an element of that input after the same element of the output was stored. Here that is read off the affine
indices; that it is so is proved anew, from the run itself, by `assay.verify.in_place`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from math import prod

from assay.lower.loops.dependence import Direction, LoopAccess, Nest
from assay.lower.loops.rewriting import plain_function
from assay.semantics.errors import Unsupported
from assay.semantics.memory import overlap
from assay.semantics.module import Module, Program, Slot, Step
from assay.semantics.scalar import Const, Var
from assay.semantics.tensor import INDEPENDENT, Buffer, For, PrimFunc, While, program_order
from assay.semantics.tensor.recast import is_bytewise

MOST_STEPS = 1 << 21
"""Tensors that more statements than this touch keep memory of their own: what is claimed is checked on each of them."""


def in_place(module: Module) -> Module:
    """The module with `Step.in_place` of its program: which outputs take the bytes of which inputs."""
    program = module.program
    known: dict[str, set[tuple[int, int]]] = {}
    steps = []
    for step, first in zip(program.steps, program.positions, strict=False):
        if isinstance(step, Step):
            if step.kernel not in known:
                known[step.kernel] = safe_pairs(module.kernel(step.kernel))
            step = replace(step, in_place=_taken(program, step, first, known[step.kernel]))
        steps.append(step)
    return module.with_(main=replace(program, steps=tuple(steps)))


def _taken(program: Program, step: Step, first: int, safe: set[tuple[int, int]]) -> tuple[tuple[int, int], ...]:
    """The pairs of a step, by output: each output and each operand in one of them at most."""
    found: list[tuple[int, int]] = []
    gone: set[str] = set()
    for k, made in enumerate(step.writes):
        for j, name in enumerate(step.reads):
            places = [n for n, other in enumerate(step.reads) if other == name]
            if name in gone or not all((k, n) in safe for n in places):
                continue
            if _fits(program.slots[made], program.slots[name], first, step.phases):
                found.append((k, j))
                gone.add(name)
                break
    return tuple(found)


def _fits(made: Slot, operand: Slot, first: int, phases: int) -> bool:
    """Whether both are tensors of the workspace, in one memory, of as many bytes, and live together, but in this step
    alone."""
    return (
        made.place == operand.place == "workspace"
        and made.device == operand.device
        and made.type.is_static
        and operand.type.is_static
        and made.nbytes == operand.nbytes > 0
        and operand.stop <= first + phases
        and made.start >= first
        and overlap(made.live, operand.live)
    )


def safe_pairs(func: PrimFunc) -> set[tuple[int, int]]:
    """The pairs (number of an output, number of an input) that may share their bytes, element by element.

    They have as many elements of one dtype, and no load of the input may see what a store to the output has left.
    What cannot be read off affine indices is not among them.
    """
    pairs = [
        (k, j)
        for k, y in enumerate(func.outputs)
        for j, x in enumerate(func.inputs)
        if x.dtype is y.dtype  # what C assumes of pointers to different types would be broken
        and all(isinstance(d, int) for d in (*x.shape, *y.shape))
        and x.nbytes == y.nbytes
        and x.nbytes
    ]
    if not pairs or any(isinstance(s, While) for s in program_order(func.body)):
        return set()
    if is_bytewise(func, {}):  # the plain nodes looked at below read copies, C reads the memory itself
        return set()
    try:
        func = plain_function(func)
        nest = Nest(func, func.body, read_only=True)
    except Unsupported:
        return set()
    return {(k, j) for k, j in pairs if _is_safe(nest, func.outputs[k], func.inputs[j])}


def _is_safe(nest: Nest, output: Buffer, operand: Buffer) -> bool:
    stores = [_flat(a) for a in nest.accesses if a.buffer is output and a.write]
    reads = [_flat(a) for a in nest.accesses if a.buffer is operand and not a.write]
    around = {a.place: a.loops for a in (*stores, *reads)}
    if sum(map(_runs, around.values())) > MOST_STEPS:
        return False
    return not any(_may_see(nest, s, r) for s in stores for r in reads)


def _runs(loops: Sequence[For]) -> int:
    """How often a statement in these loops runs; one without a number of iterations counts once."""
    return prod(int(f.extent.value) for f in loops if isinstance(f.extent, Const))


def _flat(access: LoopAccess) -> LoopAccess:
    """By its place in row-major order alone: the two buffers may differ in shape."""
    return replace(access, forms=access.forms[-1:])


def _may_see(nest: Nest, store: LoopAccess, read: LoopAccess) -> bool:
    """Whether the read may come after the store and find the same element."""
    before: dict[Var, Direction] = {}
    for loop, other in zip(store.loops, read.loops, strict=False):
        if loop is not other:
            break
        # iterations side by side: one that comes later may run first
        if not nest.apart(store, read, {**before, loop.var: "<"}) or (
            loop.kind in INDEPENDENT and not nest.apart(store, read, {**before, loop.var: ">"})
        ):
            return True
        before[loop.var] = "="
    # a statement evaluates before it stores
    return store.place < read.place and not nest.apart(store, read, before)
