"""A tensor function of an operator, and a use of the operator, at numbers for their symbols (specs/verify.md,
"legalize")."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from assay.semantics.errors import Invalid
from assay.semantics.graph import Call, call, var
from assay.semantics.graph.matching import Bound, instantiate
from assay.semantics.graph.sizes import sizes_in
from assay.semantics.instance import sizes_of_operands
from assay.semantics.memory import Bounds
from assay.semantics.operator import Operator
from assay.semantics.scalar import Dim, Expr, Interner, Var as Symbol, evaluate_dim, substitute
from assay.semantics.tensor import PrimFunc
from assay.semantics.types import TensorType, flatten, symbols
from assay.verify.trials.batch import stores
from assay.verify.trials.sizes import (
    Sizes,
    SizesToTry,
    claimed_attributes,
    kernel_at,
    numbers_in,
    sizes_to_try,
    told_point,
    told_sizes,
)

MOST = 1 << 22
"""Stores of a tensor function at sizes beyond which they are not tried."""


@dataclass(frozen=True)
class KernelUse:
    """A call of an operator that a tensor function stands for, what that is handed for its scalars, and what is
    declared of the symbols."""

    call: Call
    scalars: Sequence[Dim] = ()
    bounds: Bounds = field(default_factory=dict)
    agreed: bool = True
    """Whether all calls of the tensor function hand it the sizes that stand in the attributes that it claims."""

    @property
    def operator(self) -> Operator:
        """The operator that is called."""
        assert isinstance(self.call.op, Operator)
        return self.call.op

    @property
    def symbols(self) -> tuple[Symbol, ...]:
        """The symbols in the types of operands and results, in attributes and scalars."""
        types = [*(a.type for a in self.call.args), self.call.type]
        found = [s for t in types for s in symbols(t)]
        return tuple(dict.fromkeys([*found, *sizes_in(self.call.attrs.values()), *sizes_in(self.scalars)]))

    def at(self, sizes: Sizes) -> Call:
        """The call at numbers. Invalid: the operator's constraints exclude them, or a size is negative."""
        if not sizes:
            return self.call
        assert isinstance(self.call.op, Operator)
        bound: Bound = {s: n for s, n in sizes.items()}
        operands = []
        for i, a in enumerate(self.call.args):
            types = flatten(a.type)
            for t in types:
                if any(evaluate_dim(d, sizes) < 0 for d in t.shape):
                    raise Invalid(f"{t} has a negative size")
            operands.append(var(f"x{i}", instantiate(a.type, bound)))
        attrs = {k: numbers_in(v, sizes) for k, v in self.call.attrs.items()}
        return call(self.call.op.name, *operands, **attrs)

    def sizes_to_try(self, kernel: PrimFunc) -> SizesToTry:
        """The sizes at which the tensor function is checked; what the operator excludes, or is too large, is named. One
        whose sizes are numbers is checked at them."""
        if not self.symbols:
            return SizesToTry(({},))

        def excluded(sizes: Sizes) -> str | None:
            try:
                self.at(sizes)
                found = bound_symbols(kernel, self, sizes)
            except Invalid as wrong:
                return wrong.message
            return "too large to be tried" if stores(kernel, found) > MOST else None

        return sizes_to_try(self.symbols, self.bounds, excluded)


def bound_symbols(kernel: PrimFunc, use: KernelUse, sizes: Sizes) -> dict[Symbol, int]:
    """The numbers of a tensor function's own symbols where those of its use have `sizes`."""
    found = sizes_of_operands(kernel, use.scalars, (*(a.type for a in use.call.args), use.call.type))
    return {s: evaluate_dim(d, sizes) for s, d in found.items()}


def hands_claimed_sizes(kernel: PrimFunc, use: KernelUse) -> bool:
    """Whether the attributes that a tensor function claims in its own symbols are, with what a call hands it for them,
    those of the call."""
    own = claimed_attributes(kernel)
    if not any(True for _ in sizes_in(own.values())):
        return True
    found = sizes_of_operands(kernel, use.scalars, (*(a.type for a in use.call.args), use.call.type))
    number = Interner()

    def key(value: Any) -> Any:
        if isinstance(value, tuple):
            return tuple(map(key, value))
        return ("size", number(value)) if isinstance(value, Expr) else value

    def there(value: Any) -> Any:
        if isinstance(value, tuple):
            return tuple(map(there, value))
        return substitute(value, found) if isinstance(value, Expr) else value

    return all(key(there(v)) == key(use.call.attrs.get(k)) for k, v in own.items())


def instance_at(kernel: PrimFunc, use: KernelUse, sizes: Sizes) -> tuple[PrimFunc, Call]:
    """Both at numbers. Invalid: the tensor function takes or gives other tensors than its operator."""
    call = use.at(sizes)
    found = kernel_at(kernel, bound_symbols(kernel, use, sizes))
    wanted = [str(t) for of in (*(a.type for a in call.args), call.type) for t in flatten(of)]
    given = [str(TensorType(b.shape, b.dtype)) for b in found.params]
    if wanted != given:
        raise Invalid(f"it takes and gives {', '.join(given)}; its operator {', '.join(wanted)}")
    return found, call


@dataclass
class SizesTried:
    """At which sizes tensor functions were checked, for the line."""

    kernels: int = 0
    """Those with symbols."""
    points: list[Sizes] = field(default_factory=list)
    counts: set[int] = field(default_factory=set)
    excluded: dict[str, tuple[str, str]] = field(default_factory=dict)
    """Of sizes that were left out the first tensor function, and why."""

    def add(self, name: str, tried: SizesToTry) -> None:
        """Note what was tried of one tensor function that has symbols."""
        if tried.points == ({},):
            return
        self.kernels += 1
        self.points += tried.points
        self.counts.add(len(tried.points))
        for sizes, why in tried.excluded:
            self.excluded.setdefault(told_point(sizes), (name, why))

    def __str__(self) -> str:
        if not self.kernels:
            return ""
        count = max(self.counts)
        most = "up to " if len(self.counts) > 1 else ""
        said = f"at {most}{count} size{'s' if count != 1 else ''} ({told_sizes(self.points)})"
        by_reason: dict[str, list[str]] = {}
        for sizes, (name, why) in self.excluded.items():
            by_reason.setdefault(why, []).append(f"{name} not at {sizes}")
        return "; ".join([said, *(f"{', '.join(names)}: {why}" for why, names in by_reason.items())])

    @property
    def data(self) -> Mapping[str, Any]:
        """The same for programs."""
        if not self.kernels:
            return {}
        return {"sizes": told_sizes(self.points), "excluded": {at: why for at, (_, why) in self.excluded.items()}}
