"""What a planned program does: steps, choices, loops and what a run is asked, in their order (specs/semantics.md).

`flow` goes through the text of a program, `walk` through one run of it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias

from assay.semantics.devices import ANYWHERE, VirtualDevice
from assay.semantics.errors import Span
from assay.semantics.scalar import Dim, Var


@dataclass(frozen=True)
class Step:
    """A call of a tensor function on slots, in the order of its parameters; `scratch` backs its allocations.

    `device` is where the call runs, as far as that is said (rule M8). `phases` is the number of positions that it
    takes: those of the tensor function (`assay.semantics.tensor.phases`), or 1 where nothing needs them. `in_place` are
    pairs (number of a written slot, number of a read one): the two lie in the same bytes. `scalars` are its scalar
    arguments, `dims` what the symbols in the shapes of its parameters are here, both over the symbols in the program's
    types.
    """

    kernel: str
    reads: tuple[str, ...]
    writes: tuple[str, ...]
    scratch: tuple[str, ...] = ()
    span: Span | None = None
    device: VirtualDevice = ANYWHERE
    phases: int = 1
    in_place: tuple[tuple[int, int], ...] = ()
    scalars: tuple[Dim, ...] = ()
    dims: tuple[tuple[Var, Dim], ...] = ()


@dataclass(frozen=True)
class Branch:
    """A choice between two runs of steps, by a boolean slot of rank 0, at index `i` of a program's steps: those from
    `i + 1` up to `then` if it is true, those from `then` up to `end` if not. Both go on at `end`."""

    condition: str
    then: int
    end: int
    span: Span | None = None
    writes = scratch = ()
    """A choice writes no slot and needs no workspace."""
    phases = 1
    """The one position at which the condition is read."""

    @property
    def reads(self) -> tuple[str, ...]:
        """The slot of the condition."""
        return (self.condition,)


@dataclass(frozen=True)
class Assertion:
    """Sizes that have to be equal where it stands among the steps, or the run ends in a trap `shape` (match_cast.T1).

    `sizes` are pairs of dims over the symbols in the program's types: what was found, and what it has to be.
    """

    sizes: tuple[tuple[Dim, Dim], ...]
    span: Span | None = None
    reads = writes = scratch = ()
    """It looks at sizes alone: it reads and writes no slot and needs no workspace."""
    phases = 1
    """The one position at which it is asked."""


@dataclass(frozen=True)
class Measure:
    """Here symbols get their values: the elements of a slot of int64, or, where `slot` is "", the dims `values`. Behind
    it they are sizes.

    A symbol gets a value at several places where an arm or an iteration says what a size is: then all at once with the
    others of the same places. `most` are the greatest values that there is room for, over the sizes that are known when
    a run begins. A run traps where one is negative (size.T1), or greater: match_cast.T1 where the assertion for which
    that is the most comes next, machine.T13 where it is the program's own limit.
    """

    slot: str
    symbols: tuple[Var, ...]
    most: tuple[Dim, ...]
    span: Span | None = None
    values: tuple[Dim, ...] = ()
    writes = scratch = ()
    """It writes no slot and needs no workspace."""
    phases = 1
    """The one position at which the slot is read."""

    @property
    def reads(self) -> tuple[str, ...]:
        """The slot with the sizes, if there is one."""
        return (self.slot,) if self.slot else ()


@dataclass(frozen=True)
class Require:
    """A slot of one boolean that has to hold where it stands, or the run ends in a trap "assertion" (assert_op.T1). Its
    message is `format`, where each {} is what a slot of `shown` holds."""

    condition: str
    shown: tuple[str, ...] = ()
    format: str = ""
    span: Span | None = None
    writes = scratch = ()
    """It writes no slot and needs no workspace."""
    phases = 1
    """The one position at which the slots are read."""

    @property
    def reads(self) -> tuple[str, ...]:
        """The slot of the condition, then those that are shown."""
        return (self.condition, *self.shown)


@dataclass(frozen=True)
class PrintValues:
    """What the slots `shown` hold where it stands is told to whoever runs the program, by `format`: each {} is one of
    them."""

    shown: tuple[str, ...]
    format: str = ""
    span: Span | None = None
    writes = scratch = ()
    """It writes no slot and needs no workspace."""
    phases = 1
    """The one position at which the slots are read."""

    @property
    def reads(self) -> tuple[str, ...]:
        """The slots that are shown."""
        return self.shown


@dataclass(frozen=True)
class Loop:
    """A run of steps that may begin anew, at index `i` of a program's steps: those from `i + 1` up to `end`. Behind the
    last of them it is left, but a `Continue` inside leads back to the first.

    `carried` are the slots that hold the loop's variables whenever it begins, in the order of the variables of the
    function that it is; "" for one that nothing reads. They are filled before, and filled anew before each `Continue`.
    What else an iteration reads it has written itself, or nothing in the loop writes it.
    """

    end: int
    carried: tuple[str, ...] = ()
    span: Span | None = None
    reads = writes = scratch = ()
    """Where it begins it uses no slot."""
    phases = 1
    """The one position at which each iteration begins."""


@dataclass(frozen=True)
class Continue:
    """Here the innermost loop around begins anew. It is the last that runs in the iteration."""

    span: Span | None = None
    reads = writes = scratch = ()
    """It uses no slot."""
    phases = 1
    """The one position from which it goes back."""


Item: TypeAlias = Step | Branch | Assertion | Measure | Require | PrintValues | Loop | Continue
"""What a program is a sequence of."""


def title(item: Item) -> str:
    """An item in a few words, for messages."""
    match item:
        case Step():
            return item.kernel
        case Branch():
            return f"the choice by {item.condition}"
        case Assertion():
            return "the assertion on sizes"
        case Measure():
            return f"the measure of {', '.join(v.name for v in item.symbols)}"
        case Require():
            return f"the assertion on {item.condition}"
        case PrintValues():
            return f"the print of {', '.join(item.shown) or repr(item.format)}"
        case Loop():
            return "the loop"
        case Continue():
            return "the next iteration"


Event: TypeAlias = tuple[Literal["step", "if", "else", "end", "loop", "continue", "leave"], int]


def flow(steps: Sequence[Item]) -> Iterator[Event]:
    """The text of a program with its nesting, by index: each item that is not nested; of each branch where its arms
    begin and where they end; of each loop where it begins, begins anew and is left. They must be nested."""
    inner: list[tuple[int, int, bool]] = []
    """Of each branch and loop around: its index, where what is being read of it ends, whether that is a first arm."""
    for i in range(len(steps) + 1):
        while inner:
            index, until, taken = inner[-1]
            if until != i:
                break
            inner.pop()
            around = steps[index]
            if isinstance(around, Loop):
                yield "leave", index
            elif taken:
                assert isinstance(around, Branch)
                yield "else", index
                inner.append((index, around.end, False))
            else:
                yield "end", index
        if i == len(steps):
            break
        match steps[i]:
            case Branch(then=then):
                yield "if", i
                inner.append((i, then, True))
            case Loop(end=end):
                yield "loop", i
                inner.append((i, end, False))
            case Continue():
                yield "continue", i
            case Step() | Assertion() | Measure() | Require() | PrintValues():
                yield "step", i


def walk(steps: Sequence[Item], choose: Callable[[int, Branch], bool]) -> Iterator[int]:
    """The items of one run of a program, by number, in their order: at each branch `choose` says whether the first arm
    runs, once the branch has been given."""
    around: list[tuple[int, int, int | None]] = []
    """Of each first arm and each loop that is running: where it ends, where one goes on then, where the loop begins."""
    number = 0
    while True:
        while around and number == around[-1][0]:
            number = around.pop()[1]
        if number == len(steps):
            return
        step = steps[number]
        yield number
        match step:
            case Branch():
                taken = choose(number, step)
                if taken:
                    around.append((step.then, step.end, None))
                number = number + 1 if taken else step.then
            case Loop():
                around.append((step.end, step.end, number))
                number += 1
            case Continue():
                while (begin := around.pop()[2]) is None:
                    pass
                number = begin
            case _:
                number += 1
