"""Schedule primitives: a tensor function's loops in another form, each step with its side condition (specs/lower.md,
"loops").

A step gives the same bits as before wherever the function does not trap, or is refused: `Invalid` and `Unsupported`
name the accesses in the way. Only `rfactor` changes the order of additions, and says so. `assay.verify.equivalence`
knows nothing of the side conditions, and checks the result.

    s = schedule(matmul).split("i", 32).split("j", 32).reorder("i_o", "j_o", "k", "i_i", "j_i").vectorize("j_i")
    s.func
"""

from __future__ import annotations

from dataclasses import dataclass

from assay.lower.loops import cache, nests
from assay.lower.loops.layout import Layout, relayout
from assay.lower.loops.rewriting import names, plain_function
from assay.semantics.tensor import PrimFunc


@dataclass(frozen=True, eq=False)
class Schedule:
    """A function and what can be done to its loops; each method gives a new one. Loops are named as `loops` lists
    them."""

    func: PrimFunc

    @property
    def loops(self) -> tuple[str, ...]:
        """The loops in program order; the second that is called `i` is `i#1`."""
        return tuple(names(self.func))

    def split(self, loop: str, factor: int, names: tuple[str, str] | None = None) -> Schedule:
        """Cut a loop into an outer one and an inner one of `factor` iterations."""
        return Schedule(nests.split_loop(self.func, loop, factor, names))

    def fuse(self, outer: str, inner: str, name: str | None = None) -> Schedule:
        """Make one loop of two that are directly nested."""
        return Schedule(nests.fuse_loops(self.func, outer, inner, name))

    def reorder(self, *loops: str) -> Schedule:
        """Nest the loops in this order, outermost first."""
        return Schedule(nests.reorder(self.func, *loops))

    def unroll(self, loop: str) -> Schedule:
        """Write the body out once for each iteration."""
        return Schedule(nests.unroll(self.func, loop))

    def peel(self, loop: str, count: int) -> Schedule:
        """Make the first `count` iterations a loop of their own, before the others."""
        return Schedule(nests.peel(self.func, loop, count))

    def fission(self, loop: str, at: int = 1) -> Schedule:
        """Cut a loop in two, whose bodies are the statements before and from `at`."""
        return Schedule(nests.fission(self.func, loop, at))

    def merge(self, first: str, second: str, depth: int = 1) -> Schedule:
        """Make one loop of two that follow each other, and so with the `depth` - 1 loops inside them."""
        return Schedule(nests.merge(self.func, first, second, depth))

    def parallelize(self, loop: str) -> Schedule:
        """Mark a loop as parallel."""
        return Schedule(nests.mark(self.func, loop, "parallel"))

    def vectorize(self, loop: str) -> Schedule:
        """Mark a loop as vectorized."""
        return Schedule(nests.mark(self.func, loop, "vectorized"))

    def serialize(self, loop: str) -> Schedule:
        """Mark a loop as serial again."""
        return Schedule(nests.mark(self.func, loop, "serial"))

    def cache_read(self, buffer: str, at: str, scope: str = "global") -> Schedule:
        """Copy what a loop's body reads of a buffer into memory of its own, in a memory scope."""
        return Schedule(cache.cache_read(self.func, buffer, at, scope))

    def cache_write(self, buffer: str, at: str, scope: str = "global") -> Schedule:
        """Let a loop's body write into memory of its own, in a memory scope, and copy that to the buffer."""
        return Schedule(cache.cache_write(self.func, buffer, at, scope))

    def layout(self, buffer: str, layout: Layout) -> Schedule:
        """A constant, or a parameter that is only read, in another layout (`assay.lower.loops.layout`)."""
        return Schedule(relayout(self.func, buffer, layout))

    def rfactor(self, loop: str, factor: int) -> Schedule:
        """Promises "reassociated", not the same bits."""
        return Schedule(cache.rfactor(self.func, loop, factor))


def schedule(func: PrimFunc) -> Schedule:
    """A schedule of `func`, written in plain nodes: blocks are loops with guards, names of indices are put in place."""
    return Schedule(plain_function(func))
