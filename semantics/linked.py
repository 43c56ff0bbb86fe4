"""Tensor functions that hold constant arguments of their calls (row C4; specs/semantics.md, "Constants").

The attribute `linked` of a tensor function says that the constants around its body, outermost first, are parameters of
another: {"function": its name, "places": their numbers among its inputs}. What the function claims to be, in its other
attributes, is said of that one.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TypeVar

from assay.semantics.bits import Array
from assay.semantics.errors import Invalid
from assay.semantics.scalar import Const, Expr, Var as Symbol, const
from assay.semantics.tensor import AllocateConst, PrimFunc, Stmt
from assay.semantics.tensor.mapping import Mapper, bound_buffers

LINKED = "linked"


@dataclass(frozen=True, eq=False)
class Linked:
    """What a linked function was: its name, which inputs are constants now, these, and the body inside them."""

    function: str
    places: tuple[int, ...]
    constants: tuple[AllocateConst, ...]
    body: Stmt

    @property
    def in_order(self) -> list[tuple[int, AllocateConst]]:
        """The constants with their numbers, the least first: each can be inserted there."""
        return sorted(zip(self.places, self.constants, strict=True), key=lambda pair: pair[0])


def linked(func: PrimFunc) -> Linked | None:
    """What a function says of the constants linked into it; None if it says nothing. Invalid where its body does not
    begin with so many constants, or the numbers are not those of inputs (`link.C2`)."""
    if LINKED not in func.attrs:
        return None
    said = func.attrs[LINKED]
    if not _is_claim(said):
        want = "a function by name and places, the numbers of its inputs"
        raise Invalid(f"the attribute linked of {func.name} is {said!r}, and must be {want}", label="link.C2")
    places = tuple(said["places"])
    constants: list[AllocateConst] = []
    body = func.body
    while len(constants) < len(places) and isinstance(body, AllocateConst):
        constants.append(body)
        body = body.body
    count = len(func.inputs) + len(places)
    if len(constants) < len(places) or len(set(places)) < len(places) or not all(0 <= p < count for p in places):
        what = f"{func.name} says that its inputs {', '.join(map(str, places))} are the constants around its body"
        raise Invalid(f"{what}, and has {len(constants)} there", label="link.C2")
    return Linked(said["function"], places, tuple(constants), body)


def _is_claim(said: object) -> bool:
    """Whether an attribute has a function's name and numbers of inputs."""
    if not isinstance(said, Mapping) or not isinstance(said.get("function"), str):
        return False
    places = said.get("places")
    return isinstance(places, (tuple, list)) and all(type(p) is int for p in places)


def unlinked(func: PrimFunc) -> PrimFunc:
    """The function that a linked one was: its constants are parameters. Itself where nothing is linked into it."""
    found = linked(func)
    if found is None:
        return func
    inputs = list(func.inputs)
    for place, stmt in found.in_order:
        inputs.insert(place, stmt.buffer)
    attrs = {k: v for k, v in func.attrs.items() if k != LINKED}
    return replace(func, name=found.function, params=(*inputs, *func.outputs), body=found.body, attrs=attrs)


T = TypeVar("T")


def with_linked(func: PrimFunc, given: Sequence[T], lift: Callable[[Array], T]) -> list[T]:
    """What a function is given, and the contents of its linked constants, each lifted, where they were parameters."""
    found = linked(func)
    whole = list(given)
    for place, stmt in found.in_order if found is not None else ():
        whole.insert(place, lift(stmt.contents))
    return whole


def in_numbers(old: PrimFunc, new: PrimFunc) -> PrimFunc:
    """A function in the sizes that the constants linked into another, `new`, fix."""
    found = linked(new)
    sizes: dict[Symbol, Expr] = {}
    for place, stmt in found.in_order if found is not None else ():
        inputs = unlinked(old).inputs
        if place < len(inputs):
            pairs = zip(inputs[place].shape, stmt.buffer.static_shape, strict=False)
            sizes.update((d, const(n, d.dtype)) for d, n in pairs if isinstance(d, Symbol))
    if not sizes:
        return old
    mapper = Mapper(vars=dict(sizes))
    for b in (*old.params, *bound_buffers(old.body)):
        shape = tuple(int(d.value) if isinstance(d, Const) else d for d in map(mapper.dim, b.shape))
        mapper.buffers[b] = type(b)(b.name, shape, b.dtype, b.scope, b.notes)
    made = [mapper.buffer(p) for p in old.params]
    return PrimFunc(old.name, tuple(made), old.num_outputs, mapper.run(old.body), old.attrs, old.scalars)
