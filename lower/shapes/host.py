"""Host functions: tensor functions that read sizes, write a segment of the shape heap, and check (specs/lower.md,
"shapes")."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

from assay.semantics import scalar
from assay.semantics.dtypes import INT64
from assay.semantics.errors import Span
from assay.semantics.graph import CallTIR, Expr, call_tir
from assay.semantics.tensor import Assert, Buffer, PrimFunc, Stmt, seq, store
from assay.semantics.types import UNIT, TensorType


@dataclass(eq=False)
class Host:
    """A host function that is being written: one int64 element of its result for each size that it stores.

    `number` tells dims of one structure from others.
    """

    number: scalar.Interner
    span: Span | None
    vectors: dict[Expr, Buffer] = field(default_factory=dict)
    """The graph's vectors of sizes that it reads, each of one tensor's axes."""
    stored: list[scalar.Dim] = field(default_factory=list)
    """The sizes of the segment, in order."""
    _slots: dict[int, scalar.Var] = field(default_factory=dict)
    """What stands for the slot of a size, by its structure, until the segment has its length."""
    _scalars: dict[int, tuple[scalar.Var, scalar.Dim]] = field(default_factory=dict)
    """The sizes that have slots already: they are handed over by value."""
    _steps: list[Callable[[Callable[[scalar.Expr], scalar.Expr], Buffer], Stmt]] = field(default_factory=list)

    @property
    def is_empty(self) -> bool:
        """Whether the function neither stores nor checks anything."""
        return not self._steps

    def axis(self, vector: Expr, axis: int) -> scalar.Expr:
        """An element of a vector of sizes."""
        assert isinstance(vector.type, TensorType)
        if vector not in self.vectors:
            self.vectors[vector] = Buffer(f"sizes{len(self.vectors)}", vector.type.shape, INT64)
        return self.vectors[vector][axis]

    def known(self, d: scalar.Dim) -> scalar.Expr:
        """A size that has a slot, of this segment or of an earlier one; or a number."""
        if isinstance(d, int):
            return scalar.const(d)
        key = self.number(d)
        if key in self._slots:
            return self._slots[key]
        if key not in self._scalars:
            self._scalars[key] = scalar.Var(f"s{len(self._scalars)}"), d
        return self._scalars[key][0]

    def computed(self, d: scalar.Expr) -> scalar.Expr:
        """A dim over sizes that have slots, as an expression over these."""
        return scalar.substitute(d, {v: self.known(v) for v in scalar.variables(d)})

    def store(self, d: scalar.Expr, value: scalar.Expr) -> None:
        """The size `d` gets a slot with that value."""
        slot = len(self.stored)
        self.stored.append(d)
        self._slots[self.number(d)] = scalar.Var(f"slot{slot}")
        self._steps.append(lambda final, out: replace(store(out, slot, final(value)), span=self.span))

    def require(self, condition: scalar.Expr, message: str, values: Sequence[scalar.Expr]) -> None:
        """A trap of kind `shape` unless `condition` holds; each {} of the message is one of `values`."""
        self._steps.append(
            lambda final, out: Assert(final(condition), message, "shape", tuple(map(final, values)), span=self.span)
        )

    def function(self, name: str) -> PrimFunc:
        """The tensor function: the vectors come in, the segment goes out, known sizes are scalars."""
        out = Buffer("heap", (len(self.stored),), INT64)
        slots: dict[scalar.Var, scalar.Expr | int | float] = {s: out[i] for i, s in enumerate(self._slots.values())}
        steps = tuple(make(lambda e: scalar.substitute(e, slots), out) for make in self._steps)
        outputs = (out,) if self.stored else ()
        params = (*self.vectors.values(), *outputs)
        scalars = tuple(v for v, _ in self._scalars.values())
        return PrimFunc(name, params, len(outputs), seq(*steps), {"host": True}, scalars)

    def call(self, name: str) -> CallTIR:
        """The call of the host function, whose result is an int64 vector, or the empty tuple if it stores nothing."""
        result = TensorType((len(self.stored),), INT64) if self.stored else UNIT
        return call_tir(name, list(self.vectors), result, self.span, [d for _, d in self._scalars.values()])


def expected(host: Host, d: scalar.Dim, place: str) -> tuple[str, list[scalar.Expr]]:
    """What a message says of the size that is wanted, and the values in it."""
    if isinstance(d, int):
        return str(d), []
    if isinstance(d, scalar.Var):
        return f"{{}}, the value of {d.name} by {place}", [host.known(d)]
    return f"{{}} = {scalar.show(d)}", [host.known(d)]
