"""Whether tensors lie inside their storages, for all sizes (specs/verify.md, "vm").

Each question is whether one size is at most another, for all values of the sizes that they are made of: each of which
is 0 or more, and of which holds what has been checked on the way. Most are seen at once; the others are put to z3 as
the plan of a pool is (`assay.verify.memory`), whose texts are kept.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from assay.semantics import bytecode as vm
from assay.semantics.integers.polynomials import Polynomials
from assay.semantics.integers.ranges import at_least
from assay.semantics.memory import BufferInfo, Place, Plan, Pool, Problem
from assay.semantics.ops.sizes import product
from assay.semantics.scalar import Dim, Expr, const, provably_equal, show, simplify
from assay.semantics.size_facts import SizeFacts
from assay.semantics.types import TensorType
from assay.verify.evidence import Evidence
from assay.verify.memory.symbolic import prove_symbolic
from assay.verify.vm.wrong import at


@dataclass(frozen=True)
class Room:
    """A tensor that has to lie inside its storage: where it begins and ends, how many bytes there are, and what is
    known of sizes there."""

    function: vm.BytecodeFunction
    index: int
    begin: Dim
    end: Dim
    size: Dim
    facts: SizeFacts
    natural: Sequence[Dim] = ()


def bytes_of(of: TensorType) -> Dim:
    """The bytes that a tensor takes."""
    return simplify(_expr(product(of.shape)) * of.dtype.itemsize)


def _expr(dim: Dim) -> Expr:
    return dim if isinstance(dim, Expr) else const(dim)


def is_natural(dim: Dim) -> bool:
    """Whether a size is 0 or more whatever the sizes are that it is made of: seen without a solver."""
    sizes = Polynomials({})
    return at_least(sizes.range(sizes.of(dim)), 0)


def are_apart(a: vm.AllocateTensor, b: vm.AllocateTensor) -> bool:
    """Whether two tensors of one storage share no byte, which is said only where both are in numbers."""
    spans = []
    for t in (a, b):
        begin, count = t.offset, bytes_of(t.type)
        if not isinstance(begin, int) or not isinstance(count, int):
            return False
        spans.append((begin, begin + count))
    (first, last), (other, end) = spans
    return last <= other or end <= first


def lies_within(room: Room, queries: dict[str, str]) -> str | None:
    """Why it is not shown that a tensor lies inside its storage; None where it is."""
    for what, more in (("begins before", room.begin), ("ends behind", simplify(_expr(room.size) - room.end))):
        if _natural(more, room):
            continue
        found = _solved(more, room, queries)
        if not found.holds:
            where = f"its bytes {show(room.begin)} to {show(room.end)} of {show(room.size)}"
            return f"that it {what.split()[0]} inside its storage is not shown: {where}: {found.detail}"
    return None


def _natural(dim: Dim, room: Room) -> bool:
    """Whether a size is seen to be 0 or more."""
    told = room.facts.rewritten(dim)
    return is_natural(dim) or is_natural(told) or any(provably_equal(told, d) for d in room.natural)


def _solved(dim: Dim, room: Room, queries: dict[str, str]) -> Evidence:
    """What z3 says of whether a size is 0 or more, given what is known."""
    both = [d for a, b in room.facts.equations for d in (simplify(_expr(a) - b), simplify(_expr(b) - a))]
    told = tuple(d for d in (*both, *room.natural) if isinstance(d, Expr))
    # so many bytes of none: a buffer without bytes that begins at 0 in a pool of that size
    problem = Problem((BufferInfo("it", 0, ((0, 1),), pools=("room",)),), (Pool("room", alignment=1),), {}, told)
    found, texts = prove_symbolic(problem, Plan({"it": Place("room", 0)}, {"room": dim}))
    queries.update({f"{room.function.name}.{room.index}.{n}": t for n, t in texts.items()})
    return found


def check_rooms(rooms: Sequence[Room], queries: dict[str, str]) -> str | None:
    """What is wrong with the places of tensors in their storages, if anything."""
    for room in rooms:
        if (wrong := lies_within(room, queries)) is not None:
            return f"{at(room.function, room.index)} {wrong}"
    return None
