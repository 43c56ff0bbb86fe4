"""What the sanitizer says (rules M7, E26; specs/interp.md, "Tensor"): one function for each way to break a rule.

The definition, the vector interpreter and the machine take their reports from here, so that they say the same. Each has
the buffer and the index, where there are such, and what would have been right; who runs the loops adds the iteration,
and who has the statement its place.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import prod
from typing import Any, TypeAlias

import numpy as np

from assay.semantics.errors import Trap
from assay.semantics.scalar import Const, Expr, Var, show
from assay.semantics.tensor import Block, Buffer, Call, IterVar, View
from assay.semantics.tensor.calls import DEEPEST
from assay.semantics.walk import post_order

Array: TypeAlias = np.ndarray[Any, Any]
Index: TypeAlias = Sequence[Any]


def element(buffer: Buffer, index: Index, byte: int | None = None) -> str:
    """An element, or a byte of it, as messages name it."""
    name = f"{buffer.name}[{', '.join(str(int(i)) for i in index)}]"
    return name if byte is None else f"byte {byte} of {name}"


def at(buffer: Buffer, index: Index | None = None) -> dict[str, Any]:
    """What a report is about, as the fields of a `Trap`: a buffer, or an element of it."""
    return {"buffer": buffer.name, "index": None if index is None else tuple(map(int, index))}


# --- elements ----------------------------------------------------------------------------------------------------


def outside(buffer: Buffer, index: Index, axis: int, size: int) -> Trap:
    """tensor.T2: an index lies outside its dimension `axis`, which has `size` elements."""
    right = (
        f"dimension {axis} takes indices from 0 to {size - 1}"
        if size > 0
        else f"dimension {axis} has no elements to touch"
    )
    return Trap(
        "out of bounds",
        f"{element(buffer, index)}: index {int(index[axis])} is outside [0, {size}) in dimension {axis}",
        right=right,
        label="tensor.T2",
        **at(buffer, index),
    )


def outside_source(view: View, index: Index, flat: int, source_shape: Sequence[int]) -> Trap:
    """An element of a view that its source does not have."""
    own, source, size = view.buffer.name, view.source.name, prod(source_shape)
    return Trap(
        "out of bounds",
        f"{element(view.buffer, index)} is element {flat} of {source}, which has {size}",
        right=(
            f"{own} must lie in elements 0 to {size - 1} of {source}" if size else f"{source} has no elements to touch"
        ),
        label="tensor.T2",
        **at(view.buffer, index),
    )


def unwritten(buffer: Buffer, index: Index, byte: int | None = None) -> Trap:
    """tensor.T3: an element, or one `byte` of it, is read before anything was stored there."""
    return Trap(
        "unwritten read",
        f"{element(buffer, index, byte)} is read before it is written",
        right=f"store to it first: nothing has since {buffer.name} began",
        label="tensor.T3",
        **at(buffer, index),
    )


def unwritten_output(buffer: Buffer, written: Array) -> Trap:
    """An output of which not every element was written."""
    first = np.unravel_index(int(np.argmin(written)), written.shape)
    missing = int(written.size - np.count_nonzero(written))
    return Trap(
        "unwritten output",
        f"{missing} of {written.size} elements of output {buffer.name} were never written;"
        f" the first is {element(buffer, first)}",
        right="every element of an output must be stored to",
        label="tensor.T5",
        **at(buffer, first),
    )


def absent(buffer: Buffer) -> Trap:
    """tensor.T1: a buffer is used before it begins or after it ends."""
    return Trap(
        "use outside lifetime",
        f"buffer {buffer.name} does not exist here",
        right="use it inside the statement that allocates it",
        label="tensor.T1",
        **at(buffer),
    )


def read_only(buffer: Buffer, index: Index) -> Trap:
    """tensor.T4: a store to an element of an input or a constant."""
    return Trap(
        "store to constant",
        f"store to {element(buffer, index)}: {buffer.name} is read-only (an input or a constant)",
        right="store to an output, or to memory that the function allocates",
        label="tensor.T4",
        **at(buffer, index),
    )


def no_bool(buffer: Buffer, index: Index, byte: int) -> Trap:
    """tensor.T15: the byte of a bool element is neither 0 nor 1."""
    return Trap(
        "cast",
        f"{element(buffer, index)} is the byte {byte}",
        right="a bool is 0 or 1",
        label="tensor.T15",
        **at(buffer, index),
    )


# --- what loops and blocks claim ---------------------------------------------------------------------------------


def race(var: Var, other: int, now: int, buffer: Buffer, index: Index, byte: int | None = None) -> Trap:
    """tensor.T6: two iterations of a parallel loop touch one element, or one `byte` of it, and at least one writes."""
    return Trap(
        "race",
        f"iterations {other} and {now} of the loop over {var.name} both touch {element(buffer, index, byte)},"
        " and one writes it",
        right="each element must belong to one iteration of a parallel loop, or the loop be serial",
        label="tensor.T6",
        **at(buffer, index),
    )


def carried(var: Var, lane: int, now: int, how: str, buffer: Buffer, index: Index, byte: int | None = None) -> Trap:
    """`how` is what the two lanes do to the element."""
    return Trap(
        "carried dependence",
        f"lanes {lane} and {now} of the vectorized loop over {var.name}: {how} {element(buffer, index, byte)};"
        " at once that is not what it is one after another",
        right="the loop must be serial, or its lanes keep apart",
        label="tensor.T9",
        **at(buffer, index),
    )


def wrong_thread(names: Sequence[tuple[Buffer, Index]], var: Var) -> Trap:
    """`names` are the element as it was written, then as one of each view's source."""
    return Trap(
        "wrong scope",
        f"an iteration of the parallel loop over {var.name} stores to {element(*names[0])};"
        f" scope {names[-1][0].scope} is each thread's own",
        right="the buffer must begin inside the loop, or be in scope global",
        label="tensor.T12",
        **at(*names[0]),
    )


def undeclared(
    block: Block, names: Sequence[tuple[Buffer, Index]], write: bool, said: Mapping[Buffer, Sequence[object]]
) -> Trap:
    """`said` are the regions that the block declares, by buffer."""
    what, name = "writes" if write else "reads", element(*names[0])
    of = ", ".join(f"{b.name}[{box}]" for b, _ in names for box in said.get(b, ())) or f"nothing of {names[-1][0].name}"
    return Trap(
        "undeclared access",
        f"block {block.name} {what} {name}; it declares that it {what} {of}",
        right=f"the block must declare that it {what} {name}, or leave it alone",
        label="tensor.T10",
        **at(*names[0]),
    )


def outside_domain(block: Block, iterator: IterVar, value: Any, domain: range) -> Trap:
    """tensor.T8: a block's iterator gets a value that is not in its domain."""
    name = iterator.var.name
    return Trap(
        "assertion",
        f"block {block.name}: {name} = {value} is outside [{domain.start}, {domain.stop})",
        right=f"{name} must get a value of its domain, or the block's predicate leave it out",
        label="tensor.T8",
    )


# --- where buffers lie -------------------------------------------------------------------------------------------


def misaligned(buffer: Buffer, unit: str, place: int, claim: str, number: int) -> Trap:
    """A buffer that begins at element or byte `place`, where it claims a multiple of `number`."""
    below = place - place % number
    return Trap(
        "misaligned",
        f"{buffer.name} begins at {unit} {place} of its memory; {claim}={number} asks for a multiple of {number}",
        right=f"the nearest are {unit}s {below} and {below + number}",
        label="tensor.T11",
        **at(buffer),
    )


def other_scope(view: View, scope: str) -> Trap:
    """tensor.T12: a view is declared in another storage scope than the memory that it is a view of."""
    own, source = view.buffer, view.source
    return Trap(
        "wrong scope",
        f"{own.name} is declared in scope {own.scope}; the memory of {source.name} is in scope {scope}",
        right=f"{own.name} must be declared in scope {scope}",
        label="tensor.T12",
        **at(own),
    )


def unmatched(view: View, kind: str, message: str, low: int, high: int) -> Trap:
    """A region that a view does not match."""
    inside = kind == "out of bounds"
    return Trap(
        kind,
        f"{message}: {low} is more than {high}",
        right="the region must lie in its source" if inside else "the region and the buffer must have the same sizes",
        label="tensor.T14",
        **at(view.buffer),
    )


# --- devices -------------------------------------------------------------------------------------------------------


def wrong_device(what: str, right: str, buffer: Buffer | None = None, index: Index | None = None) -> Trap:
    """Memory of one device or scope is touched from another (rule M8)."""
    said = {} if buffer is None else at(buffer, index)
    touched = "" if buffer is None or index is None else f", touched as {element(buffer, index)}"
    return Trap("wrong device", what + touched, right=right, label="machine.T10", **said)


# --- numbers ------------------------------------------------------------------------------------------------------


def for_element(trap: Trap, buffer: Buffer, index: Index | None) -> Trap:
    """What goes wrong with numbers is reported of the element that they are computed for; no index: in an index of
    it."""
    if not trap.label.startswith("scalar."):
        return trap
    of = f"an index of {buffer.name}" if index is None else element(buffer, index)
    return trap.but(what=f"{trap.what}, computing {of}", **at(buffer, index))


# --- others ------------------------------------------------------------------------------------------------------


LONGEST = 60
"""Conditions of more nodes are not shown."""
RIGHT = {
    "out of bounds": "an index must lie in its dimension, and a view in its source",
    "misaligned": "it must begin at a multiple of that",
    "store to constant": "only outputs and memory that the function allocates may be stored to",
    "undeclared access": "the block must declare what it touches, or leave it alone",
    "wrong scope": "memory must be used in its own scope, and by the thread that it belongs to",
}
"""What would be right where a check says so that the lowering of blocks put there (specs/semantics.md, "Blocks")."""


def failed(kind: str, message: str, condition: Expr) -> Trap:
    """An assertion that does not hold (rule M6.17)."""
    never = "the sizes must agree" if kind == "shape" else "this must not be reached"
    right = RIGHT.get(kind) or (never if isinstance(condition, Const) else f"{_short(condition)} must hold")
    return Trap(kind, message, right=right, label="tensor.T7")


def _short(condition: Expr) -> str:
    """The text of a condition, unless that is long: with shared parts it may be longer than any memory holds."""
    size: dict[int, int] = {}
    for node in post_order(condition):
        size[id(node)] = 1 + sum(size[id(c)] for c in node.children)
    return show(condition) if size[id(condition)] <= LONGEST else "the condition"


def too_deep(node: Call) -> Trap:
    """tensor.T13: a call would put more than `DEEPEST` activations inside one another."""
    return Trap(
        "recursion",
        f"{node.function} is called {DEEPEST} activations deep",
        right=f"calls must end before there are more than {DEEPEST} inside one another",
        label="tensor.T13",
    )


def no_number(node: Call) -> Trap:
    """call.T1: an extern whose result is stored as a number returned something else."""
    assert node.result is not None
    of = node.result.dtype
    return Trap(
        "shape",
        f"{node.function} returns no {of}",
        right=f"it must return one number, which is then converted to {of}",
        label="call.T1",
        **at(node.result.buffer),
    )
