"""A tensor function at given dims as blocks of items: what the vector interpreter plans over (specs/interp.md,
"Vector").

`assay.interp.vector.building` makes them. Every loop variable and every allocation has an identity of its own.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

from assay.interp.binding import Array
from assay.semantics.errors import Span
from assay.semantics.integers.affine import Affine
from assay.semantics.integers.ranges import Interval
from assay.semantics.scalar import Expr, Var
from assay.semantics.tensor import Buffer
from assay.semantics.walk import Worklist


class Unplanned(Exception):
    """The function is outside what is vectorised, for the given reason: the definition runs it."""


@dataclass(eq=False)
class Loop:
    """`body` for `var` from 0 below `extent`, a constant `trip` if that is known; `most` bounds it from above."""

    var: Var
    extent: Expr
    form: Affine | None
    trip: int | None
    most: int | None
    kind: str
    body: Block
    independent: bool = False
    """Whether it was shown that no two iterations touch a common element that one writes."""
    span: Span | None = None


@dataclass(eq=False)
class Branch:
    """`then` where `condition` holds, else `otherwise`."""

    condition: Expr
    then: Block
    otherwise: Block
    span: Span | None = None


@dataclass(eq=False)
class Repeat:
    """`body` as long as `condition` holds."""

    condition: Expr
    body: Block
    span: Span | None = None


@dataclass(eq=False)
class Bind:
    """`var` names `value` from here on."""

    var: Var
    value: Expr
    span: Span | None = None


@dataclass(eq=False)
class Fresh:
    """`buffer` exists from here on: unwritten, or with `data`. `number` counts the function's allocations."""

    buffer: Buffer
    number: int = -1
    data: Array | None = None


@dataclass(eq=False)
class Write:
    """The element of `buffer` at `indices` becomes `value`."""

    buffer: Buffer
    indices: tuple[Expr, ...]
    value: Expr
    span: Span | None = None


@dataclass(eq=False)
class Check:
    """Traps with `message` unless `condition` holds."""

    condition: Expr
    message: str
    kind: str
    span: Span | None = None


@dataclass(eq=False)
class Drop:
    """`value` is computed and dropped."""

    value: Expr
    span: Span | None = None


Item: TypeAlias = Loop | Branch | Repeat | Bind | Fresh | Write | Check | Drop
Block: TypeAlias = list[Item]


@dataclass(eq=False)
class Blocks:
    """A tensor function as blocks, its buffers with numbers for dims, and the ranges of its loop variables."""

    name: str
    inputs: tuple[Buffer, ...]
    outputs: tuple[Buffer, ...]
    body: Block
    ranges: dict[Var, Interval] = field(default_factory=dict)
    constants: dict[Buffer, Array] = field(default_factory=dict)


def expressions(item: Item) -> tuple[Expr, ...]:
    """The scalar expressions that stand in an item itself, in the order of their evaluation."""
    match item:
        case Loop():
            return (item.extent,)
        case Branch() | Repeat() | Check():
            return (item.condition,)
        case Bind() | Drop():
            return (item.value,)
        case Write():
            return (*item.indices, item.value)
        case Fresh():
            return ()


def inner(item: Item) -> tuple[Block, ...]:
    """The blocks inside an item."""
    match item:
        case Loop() | Repeat():
            return (item.body,)
        case Branch():
            return (item.then, item.otherwise)
        case _:
            return ()


def walk(block: Block) -> Iterator[Item]:
    """Every item of a block and inside it, in the order of the text."""
    work = Worklist(block)
    for item in work:
        yield item
        work.add(i for part in inner(item) for i in part)


def depth_of(block: Block) -> int:
    """How deep blocks are nested."""
    deepest, work = 0, Worklist([(block, 1)])
    for part, depth in work:
        deepest = max(deepest, depth)
        work.add((b, depth + 1) for item in part for b in inner(item))
    return deepest


@dataclass(frozen=True, eq=False)
class Step:
    """What is around an access: a loop, a binding before it, or a branch and which way it went."""

    item: Loop | Bind | Branch
    holds: bool = True


Place: TypeAlias = tuple[Sequence[Step], tuple[Expr, ...]]
"""An access: what is around it, outermost first, and its indices."""
