"""Which way the conditions in a tensor function go, and which comparisons meet a tie (specs/verify.md, "Trials").

The function is written once more with one output for each condition of a select, an if or a while: what it was, at each
iteration around it. So a run shows which sides were taken, on any operands, and the same text says where they stand. A
comparison of elements has an output for whether its sides were equal.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from math import prod
from typing import Any

import numpy as np

from assay.interp import vector
from assay.semantics.dtypes import DTYPES
from assay.semantics.errors import Trap, Unsupported
from assay.semantics.scalar import Apply, Const, Expr, Load, Var, apply, cast, const, operation, show
from assay.semantics.tensor import Buffer, Call, For, If, PrimFunc, Seq, Stmt, While, loops, program_order, store
from assay.semantics.tensor.blocks import without_blocks
from assay.semantics.walk import Worklist, fold, post_order

Array = np.ndarray[Any, Any]
SIDE = DTYPES["int8"]
UNSEEN = 2
MOST = 1 << 16
"""Iterations of all conditions together that are watched."""


@dataclass(eq=False)
class Sides:
    """The conditions of a tensor function, and the sides of each that no run has taken."""

    kernel: PrimFunc
    conditions: list[tuple[Expr, str]] = field(default_factory=list)
    unseen: set[tuple[int, bool]] = field(default_factory=set)
    watched: PrimFunc | None = None
    missed: list[str] = field(default_factory=list)
    """Conditions that cannot be watched."""
    ties: set[int] = field(default_factory=set)
    """Which of the conditions are that the sides of a comparison are equal: no run needs to go the other way."""

    @staticmethod
    def of(kernel: PrimFunc) -> Sides:
        """The conditions of a kernel; none are watched where it calls functions or its blocks cannot be removed."""
        made = Sides(kernel)
        try:
            flat = without_blocks(kernel)
        except Unsupported:
            return made
        if not any(isinstance(s, Call) for s in program_order(flat.body)):
            made.watch(flat)
        return made

    def watch(self, flat: PrimFunc) -> None:
        """Put in stores that show which way each condition goes; those that cannot be watched are `missed`."""
        before: dict[int, list[Stmt]] = {}
        buffers: list[Buffer] = []
        left = MOST
        work = Worklist[tuple[Stmt, tuple[tuple[Var, int], ...] | None]]([(flat.body, ())])
        for stmt, around in work:
            for condition, tie in (
                *((c, False) for c in conditions_of(stmt)),
                *((c, True) for c in comparisons_of(stmt)),
            ):
                at = f" at {stmt.span}" if stmt.span else ""
                text = f"{_cut(show(condition))} in {self.kernel.name}{at}"
                size = prod(n for _, n in around) if around is not None else left + 1
                if around is None or size > left:
                    self.missed.append(text)
                    continue
                left -= size
                buffer = Buffer(f"side{len(buffers)}", tuple(n for _, n in around), SIDE)
                buffers.append(buffer)
                self.ties |= {len(self.conditions)} if tie else set()
                self.conditions.append((condition, text))
                condition = apply("eq", *condition.args) if tie and isinstance(condition, Apply) else condition
                before.setdefault(id(stmt), []).append(
                    store(buffer, tuple(v for v, _ in around), cast(condition, SIDE))
                )
            inner = around
            if isinstance(stmt, For):
                known = isinstance(stmt.extent, Const) and stmt.start is None
                inner = (
                    (*around, (stmt.var, int(stmt.extent.value)))
                    if around is not None and isinstance(stmt.extent, Const) and known
                    else None
                )
            work.add([(c, inner) for c in stmt.children])
        if not buffers:
            return

        def watched(stmt: Stmt, parts: list[Stmt]) -> Stmt:
            made = stmt.with_children(parts)
            return Seq((*before[id(stmt)], made)) if id(stmt) in before else made

        blank = [
            loops(
                " ".join(f"w{k}" for k in range(len(b.shape))),
                b.shape,
                lambda *i, b=b: store(b, tuple(i), const(UNSEEN, SIDE)),
            )
            for b in buffers
        ]
        body = Seq((*blank, fold(flat.body, watched)))
        count = flat.num_outputs + len(buffers)
        self.watched = replace(
            flat, name=f"{flat.name} watched", params=(*flat.params, *buffers), num_outputs=count, body=body
        )
        self.unseen = {(k, side) for k in range(len(buffers)) for side in (True, False) if side or k not in self.ties}

    def see(self, operands: Sequence[Array]) -> None:
        """Note which ways the conditions go on operands on which the function does not trap."""
        if self.watched is None or not self.unseen:
            return
        try:
            with np.errstate(all="ignore"):
                made = vector.run(self.watched, operands)
        except Trap:  # it may read what the function itself reads only where a condition before it held
            return
        for k, found in enumerate(made[self.kernel.num_outputs :]):
            self.unseen -= {(k, side) for side in (True, False) if np.any(found == int(side))}

    def never(self) -> list[str]:
        """What no run has done, each with its place."""
        said = [
            f"{self.conditions[k][1]} was never {'true' if side else 'false'}"
            for k, side in sorted(self.unseen)
            if k not in self.ties
        ]
        return said + [f"{text} was not watched" for text in self.missed]

    def untied(self) -> list[str]:
        """The comparisons whose sides were equal in no run, each with its place."""
        return [self.conditions[k][1] for k, _ in sorted(self.unseen) if k in self.ties]


def conditions_of(stmt: Stmt) -> list[Expr]:
    """The conditions that a statement has itself, those of its parts not counted; constants are none."""
    found: dict[int, Expr] = {}
    if isinstance(stmt, (If, While)):
        found[id(stmt.condition)] = stmt.condition
    for root in stmt.expressions:
        for n in post_order(root):
            if isinstance(n, Apply) and n.op == "select":
                found[id(n.args[0])] = n.args[0]
    return [c for c in found.values() if not isinstance(c, Const)]


def comparisons_of(stmt: Stmt) -> list[Expr]:
    """The comparisons of elements in a statement that are made wherever it runs: those in a side of a select, or behind
    another truth, may stand there to guard what they read."""
    found: dict[int, Expr] = {}
    work = Worklist(stmt.expressions, id)
    for node in work:
        if (
            isinstance(node, Apply)
            and operation(node.op).has("compares")
            and any(isinstance(n, Load) for n in post_order(node))
        ):
            found[id(node)] = node
        guards = isinstance(node, Apply) and node.op in ("select", "and", "or")
        work.add(node.children[:1] if guards else node.children)
    return list(found.values())


def _cut(text: str, most: int = 60) -> str:
    return text if len(text) <= most else text[: most - 3] + "..."
