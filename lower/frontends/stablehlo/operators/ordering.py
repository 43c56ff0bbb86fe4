"""Orders that are read off the region of a sort (specs/lower.md, "StableHLO").

The region is done once on whole tensors, with one name for what is on its left and another for what is on its right.
Where it compares whole numbers that both sides make in one way, elements are ordered by these numbers: its keys.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass, field
from typing import Any

from assay.lower.frontends.stablehlo.build import Scope
from assay.lower.frontends.stablehlo.node import HloNode, tensor_of
from assay.semantics.graph import Call, Constant, Expr, Var
from assay.semantics.operator import Operator
from assay.semantics.tasks import Task
from assay.semantics.walk import reached

LEFT, RIGHT = "left", "right"
MOST_KEYS = 16


@dataclass(frozen=True)
class Key:
    """Whole numbers by which elements are ordered, and whether the largest come first."""

    of: Expr
    largest: bool


@dataclass
class Sides:
    """What a region computed: each value's number, the same for what both sides make in one way, and the sides that it
    is made of."""

    calls: dict[Expr, Call] = field(default_factory=dict)
    numbers: dict[Expr, Hashable] = field(default_factory=dict)
    made_of: dict[Expr, frozenset[str]] = field(default_factory=dict)
    known: dict[Hashable, int] = field(default_factory=dict)

    def add(self, var: Var, value: Expr) -> None:
        """Take in a binding, behind those of what it uses. What is no call of an operator is like nothing else."""
        if not isinstance(value, Call) or not isinstance(value.op, Operator):
            self.numbers[var] = var
            self.made_of[var] = frozenset({LEFT, RIGHT})
            return
        self.calls[var] = value
        said: Hashable = (value.op.name, repr(sorted(value.attrs.items())), *map(self.number, value.args))
        self.numbers[var] = self.known.setdefault(said, len(self.known))
        self.made_of[var] = frozenset[str]().union(*(self.made_of.get(a, frozenset()) for a in value.args))

    def number(self, x: Expr) -> Hashable:
        """A value's number. A constant is known by its elements; what stands outside of the region, by itself."""
        if isinstance(x, Constant):
            return x.data.dtype.name, x.data.shape, x.data.tobytes()
        return self.numbers.get(x, x)

    def mirrored(self, a: Expr, b: Expr) -> bool:
        """Whether `b` is made of the right side as `a` is of the left."""
        sides = self.made_of.get(a, frozenset()), self.made_of.get(b, frozenset())
        return sides == (frozenset({LEFT}), frozenset({RIGHT})) and self.number(a) == self.number(b)

    def call(self, x: Expr, *names: str) -> Sequence[Any]:
        """The operands of a value, where it is a call of one of these operators; else None twice."""
        found = self.calls.get(x)
        return found.args if found is not None and getattr(found.op, "name", "") in names else (None, None)

    def key(self, x: Expr) -> Key | None:
        """The key where `x` says whether the left one is below, or above, the right one."""
        for name in ("less", "greater"):
            a, b = self.call(x, name)
            if a is not None and tensor_of(a).dtype.is_integer:
                if self.mirrored(a, b):
                    return Key(a, name == "greater")
                if self.mirrored(b, a):
                    return Key(b, name == "less")
        return None

    def keys(self, before: Expr) -> list[Key] | None:
        """The keys of an order, the first one first: it compares one, or one and where that is equal the others."""
        found: list[Key] = []
        rest: Expr | None = before
        while rest is not None and len(found) < MOST_KEYS:
            key = self.key(rest)
            if key is not None:
                return [*found, key]
            first, also = self.call(rest, "logical_or")
            key = None if first is None else self.key(first)
            equal, rest = (None, None) if key is None else self.call(also, "logical_and")
            sides = (None, None) if equal is None else self.call(equal, "equal")
            if key is None or not self.across(key, *sides):
                return None
            found.append(key)
        return None

    def across(self, key: Key, a: Expr | None, b: Expr | None) -> bool:
        """Whether these are the key of each side."""
        if a is None or b is None or self.number(a) != self.number(key.of):
            return False
        return self.mirrored(a, b) or self.mirrored(b, a)


def known_order(node: HloNode, xs: Sequence[Expr]) -> Task[list[Key] | None]:
    """The keys by which the region of a sort orders elements; None where it is not seen to go by keys."""
    builder, sides = node.builder, Sides()
    outer, builder.scope = builder.scope, Scope()
    both: list[Expr] = []
    for k, x in enumerate(xs):
        for side in (LEFT, RIGHT):
            var = builder.named(x, side)
            sides.numbers[var], sides.made_of[var] = ("operand", k), frozenset({side})
            both.append(var)
    (before,) = yield node.run_region(0, both, True)
    made, builder.scope = builder.scope.bindings, outer
    for var, value in made[len(both) :]:
        sides.add(var, value)
    keys = sides.keys(before)
    if keys is None or any(tensor_of(k.of).shape != tensor_of(xs[0]).shape for k in keys):
        return None
    needed = reached([k.of for k in keys], lambda v: sides.calls[v].args if v in sides.calls else ())
    outer.bindings += [(var, value) for var, value in made if var in needed]
    return keys
