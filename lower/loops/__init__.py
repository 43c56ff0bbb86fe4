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
        return Schedule(nests.split(self.func, loop, factor, names))

    def fuse(self, outer: str, inner: str, name: str | None = None) -> Schedule:
        return Schedule(nests.fuse(self.func, outer, inner, name))

    def reorder(self, *loops: str) -> Schedule:
        return Schedule(nests.reorder(self.func, *loops))

    def unroll(self, loop: str) -> Schedule:
        return Schedule(nests.unroll(self.func, loop))

    def peel(self, loop: str, count: int) -> Schedule:
        return Schedule(nests.peel(self.func, loop, count))

    def fission(self, loop: str, at: int = 1) -> Schedule:
        return Schedule(nests.fission(self.func, loop, at))

    def merge(self, first: str, second: str, depth: int = 1) -> Schedule:
        return Schedule(nests.merge(self.func, first, second, depth))

    def parallelize(self, loop: str) -> Schedule:
        return Schedule(nests.mark(self.func, loop, "parallel"))

    def vectorize(self, loop: str) -> Schedule:
        return Schedule(nests.mark(self.func, loop, "vectorized"))

    def serialize(self, loop: str) -> Schedule:
        return Schedule(nests.mark(self.func, loop, "serial"))

    def cache_read(self, buffer: str, at: str, scope: str = "global") -> Schedule:
        return Schedule(cache.cache_read(self.func, buffer, at, scope))

    def cache_write(self, buffer: str, at: str, scope: str = "global") -> Schedule:
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
