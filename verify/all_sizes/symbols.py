"""The examples of an operator with symbols in the place of their sizes (specs/verify.md, "For all sizes")."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import combinations

from assay.lower.legalize.kernels import build
from assay.lower.legalize.size_rules import with_size_rules
from assay.semantics.dtypes import dtype
from assay.semantics.errors import Crash, Invalid
from assay.semantics.operator import Attrs, Example, Operator
from assay.semantics.scalar import Apply, Const, Dim, Expr, Var
from assay.semantics.tensor import PrimFunc
from assay.semantics.types import TensorType, Type


@dataclass(frozen=True)
class SymbolicUse:
    """An operator at types with symbols: the operands' types, and the result's."""

    op: Operator
    attrs: Attrs
    operands: tuple[TensorType, ...]
    result: Type
    own: Mapping[Var, int]
    """What each symbol was in the example."""
    wide: bool = False
    """Whether windows are larger than small sizes."""

    def kernel(self) -> PrimFunc:
        """The operator's kernel at these types."""
        made = build(self.op.name, self.attrs, self.operands, self.result, "kernel")
        made = with_size_rules(made, self.op, self.attrs, self.operands, self.result)
        told = {d for t in self.operands for d in t.shape if isinstance(d, Var)}
        return replace(made, scalars=tuple(v for v in self.own if v not in told))


NAMES = "NMKPQRSTUVWXYZABCDEFGH"
SIZES = ("shape", "size")
"""Attributes that hold sizes."""


def symbolic_use(op: Operator, example: Example) -> SymbolicUse:
    """An example with as many of its sizes symbols as the operator's rules allow, and as many symbols. Sizes of 0 and 1
    stay."""
    trial = _Trial(op, example)
    numbers = sorted({d for d in trial.numbers if d > 1}, reverse=True)
    for n in numbers:
        trial.widen(trial.left((n,)), {n: 1})
    for n in reversed(numbers):
        for m in (d for d in numbers if d > n and d % n == 0):
            trial.widen(trial.left((n, m)), {n: 1, m: m // n})
        for g in factors(n):
            trial.widen(trial.left((n,)), {n: g})
    places = [p for p, d in enumerate(trial.numbers) if d > 1]
    for several in (1, 2):
        for group in combinations(places, several):
            n = trial.numbers[group[0]]
            for g in (1, *factors(n)) if all(trial.numbers[p] == n for p in group) else ():
                if trial.shared(group):
                    trial.widen(group, {n: g})
    return trial.found


def factors(n: int) -> list[int]:
    """The proper divisors of a number, the largest first."""
    return [g for g in range(n - 1, 1, -1) if n % g == 0]


class _Trial:
    """What an example's sizes are so far, and the operator at them."""

    def __init__(self, op: Operator, example: Example) -> None:
        self.op, self.example = op, example
        self.shapes = [shape for shape, _ in example.operands]
        self.attrs = op.check_attrs(example.attrs)
        self.sizes = [k for k in SIZES if k in self.attrs]
        """The attributes with sizes."""
        for k in self.sizes:
            value = self.attrs[k]
            self.shapes.append(tuple(value) if isinstance(value, (tuple, list)) else (value,))
        self.numbers = [d for shape in self.shapes for d in shape]
        self.dims: list[Dim] = list(self.numbers)
        self.symbols: list[Var] = []
        found = self.typed(self.dims)
        if found is None:
            raise Crash(f"{op.name} refuses its own example {example}")
        self.found = found

    def left(self, numbers: Sequence[int]) -> list[int]:
        """The places that hold one of these numbers still."""
        return [p for p, d in enumerate(self.dims) if isinstance(d, int) and d in numbers]

    def shared(self, group: Sequence[int]) -> bool:
        """Whether these places hold one thing, which is a number or stands in other places too."""
        first = self.dims[group[0]]
        others = [d for p, d in enumerate(self.dims) if p not in group]
        together = all(self.dims[p] is first or self.dims[p] == first for p in group if not isinstance(first, Expr))
        together = together and all(self.dims[p] is first for p in group if isinstance(first, Expr))
        return together and (isinstance(first, int) or any(d is first for d in others))

    def widen(self, places: Sequence[int], multiples: Mapping[int, int]) -> None:
        """Put multiples of a new symbol in some places, by the numbers that were there, if the operator takes them."""
        if not places:
            return
        symbol = Var(NAMES[len(self.symbols) % len(NAMES)])
        new = {n: symbol * k if k > 1 else symbol for n, k in multiples.items()}
        dims = list(self.dims)
        for p in places:
            dims[p] = new.get(self.numbers[p], dims[p])
        found = self.typed(dims)
        if found is not None:
            self.dims, self.found = dims, found
            self.symbols.append(symbol)

    def typed(self, dims: Sequence[Dim]) -> SymbolicUse | None:
        """The operator at these sizes; None where it refuses them."""
        rest = list(dims)
        shapes: list[tuple[Dim, ...]] = []
        for before in self.shapes:
            shapes.append(tuple(rest[: len(before)]))
            rest = rest[len(before) :]
        count = len(self.example.operands)
        attrs = dict(self.attrs)
        for name, shape in zip(self.sizes, shapes[count:], strict=True):
            attrs[name] = shape if isinstance(attrs[name], (tuple, list)) else shape[0]
        operands = tuple(TensorType(s, dtype(of)) for s, (_, of) in zip(shapes, self.example.operands, strict=False))
        try:
            own = {v: n // k for d, n in zip(dims, self.numbers, strict=True) for v, k in _multiple(d)}
            wide = self.op.family in ("pooling", "contraction", "normalization")
            use = SymbolicUse(self.op, attrs, operands, self.op.type_rule(attrs, operands), own, wide)
            use.kernel()
        except (Invalid, Crash, TypeError, AssertionError):
            return None
        return use


def _multiple(dim: Dim) -> list[tuple[Var, int]]:
    """The symbol of a dim, and what it is multiplied by."""
    match dim:
        case Var():
            return [(dim, 1)]
        case Apply(op="mul", args=(Var() as v, Const() as k)):
            return [(v, int(k.value))]
        case _:
            return []
