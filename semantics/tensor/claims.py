"""What a function claims of its accesses, as checks before each of them (rules M6.11, M6.15; specs/semantics.md,
"Blocks")."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import reduce
from typing import TypeAlias

from assay.semantics import tensor
from assay.semantics.dtypes import BOOL
from assay.semantics.scalar import Expr, apply, const
from assay.semantics.scalar.expression import Buffer
from assay.semantics.tensor.places import is_kept, is_private
from assay.semantics.tensor.regions import is_checked, uncovered
from assay.semantics.tensor.views import Region, View
from assay.semantics.tensor.within import Within
from assay.semantics.walk import Worklist

Names: TypeAlias = Sequence[tuple[Buffer, Sequence[Expr]]]


@dataclass(frozen=True, eq=False)
class EnclosingBlocks:
    """The blocks that declare accesses around a place, innermost first, and what loops are around it."""

    block: tensor.Block | None = None
    outer: EnclosingBlocks | None = None
    blocks: int = 0
    threads: int = 0
    """How many parallel loops."""
    lanes: bool = False
    """Whether there is a vectorized one."""


NOTHING = EnclosingBlocks()


class Claims:
    """The claims of one function, and the checks that they become."""

    def __init__(self, func: tensor.PrimFunc, within: Within) -> None:
        self.within = within
        self.around: dict[int, EnclosingBlocks] = {}
        self.within_block: dict[int, EnclosingBlocks] = {}
        self.birth: dict[Buffer, EnclosingBlocks] = dict.fromkeys(func.params, NOTHING)
        """What is around a buffer when it begins: that does not concern it. Others are cells of the lowering."""
        self.movable: set[Buffer] = set()
        self.here = NOTHING
        self.any = False
        work = Worklist[tuple[tensor.Stmt, EnclosingBlocks]]([(func.body, NOTHING)])
        for stmt, outer in work:
            self.around[id(stmt)] = inner = outer
            match stmt:
                case tensor.Block():
                    if is_checked(stmt, outermost=outer.blocks == 0):
                        inner = EnclosingBlocks(stmt, outer, outer.blocks + 1, outer.threads, outer.lanes)
                        self.any = True
                    self.within_block[id(stmt)] = inner
                case tensor.For(kind="parallel"):
                    inner = EnclosingBlocks(None, outer, outer.blocks, outer.threads + 1, outer.lanes)
                case tensor.For(kind="vectorized"):
                    inner = EnclosingBlocks(None, outer, outer.blocks, outer.threads, True)
                case tensor.AllocateConst():
                    self.birth[stmt.buffer] = outer
                case tensor.Alias() if is_kept(stmt.view):
                    self.same_memory(stmt.view)
            for b in tensor.allocated(stmt):
                self.birth[b] = inner
                if isinstance(stmt, tensor.Block) or (isinstance(stmt, tensor.Allocate) and stmt.movable):
                    self.movable.add(b)
            for v in stmt.views if isinstance(stmt, tensor.Block) else ():
                if is_kept(v):
                    self.same_memory(v)
            work.add((s, inner) for s in stmt.children)

    def same_memory(self, view: View) -> None:
        """A view that stands for a memory as a whole is as old as that."""
        self.birth[view.buffer] = self.birth[view.source]
        if view.source in self.movable:
            self.movable.add(view.buffer)

    def at(self, stmt: tensor.Stmt) -> None:
        """What follows is evaluated by `stmt` itself."""
        self.here = self.around[id(stmt)]

    def inside(self, block: tensor.Block) -> None:
        """What follows is evaluated inside a block, before its parts."""
        self.here = self.within_block[id(block)]

    def checks(self, names: Names, write: bool) -> list[tensor.Stmt]:
        """What must hold before an element is touched; `names` as in `assay.interp.watching.Declared`."""
        root = names[-1][0]
        birth = self.birth.get(root, self.here)
        found: list[tensor.Stmt] = []
        if write and is_private(root) and root not in self.movable and self.here.threads > birth.threads:
            found.append(tensor.Assert(const(False, BOOL), f"{root.name} belongs to another thread", "wrong scope"))
        around: EnclosingBlocks | None = self.here
        while around is not None and around.blocks > birth.blocks:
            block = around.block
            around = around.outer
            said = None if block is None else block.writes if write else block.reads
            if block is None or said is None:
                continue
            ways = _ways(names, said, self.within)
            if not write and block.writes is not None:
                ways += _ways(names, block.writes, self.within)
            if all(ways):
                what = "write" if write else "read"
                condition = reduce(_either, [reduce(_both, w) for w in ways]) if ways else const(False, BOOL)
                message = f"block {block.name} does not declare that it {what}s this of {root.name}"
                found.append(tensor.Assert(condition, message, "undeclared access"))
        return found


def _ways(names: Names, said: Sequence[Region], within: Within) -> list[list[Expr]]:
    """For each region of an element's names, what must hold for it to lie there."""
    return [uncovered(r, indices, within) for b, indices in names for r in said if r.buffer is b]


def _both(a: Expr, b: Expr) -> Expr:
    return apply("and", a, b)


def _either(a: Expr, b: Expr) -> Expr:
    return apply("or", a, b)
