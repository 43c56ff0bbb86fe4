"""What the rows of the table of Relay operators are made of (specs/lower.md, "Relay").

Relay takes a size `?` to fit any other and checks it when the program runs. Here an operator's sizes are shown to be
equal, so a row says what the run is to check: `agree` that a size is another, `together` that it is another or 1.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from assay.lower.frontends.stretching import with_one_shape
from assay.semantics import graph
from assay.semantics.dtypes import BOOL, INT64
from assay.semantics.errors import Invalid, Unsupported
from assay.semantics.graph import Call, Constant, Expr, Tuple
from assay.semantics.operator import Operator
from assay.semantics.scalar import Apply as Choose, Dim, Expr as Scalar, Var as Symbol, provably_equal
from assay.semantics.text.relax import ops as relax_ops
from assay.semantics.text.relax.build import MISSING, Attrs, Build, Row, make_row, operands
from assay.semantics.types import TensorType, TupleType
from assay.semantics.walk import Worklist, post_order

__all__ = ["MISSING", "Attrs", "Relay", "Row", "relax", "make_row", "same"]


@dataclass(frozen=True)
class Relay(Build):
    """Makes the expressions for one Relay call."""

    def unsupported(self, what: str) -> Unsupported:
        """The failure (`relay.C12`) for something that this operator may do and is not handled."""
        return Unsupported(f"{self.name} with {what} is not handled", label="relay.C12")

    def wrong(self, what: str) -> Invalid:
        """The failure (`relay.C11`) for a call that the operator does not allow."""
        return Invalid(f"{self.name}: {what}", label="relay.C11")

    def relax(self, name: str, args: Sequence[Any], **attrs: Any) -> Expr:
        """What Relax's operator of that name means."""
        return relax_ops.row(name).make(self, list(args), {**relax_ops.row(name).attrs, **attrs})

    def known(self, size: Dim, what: str) -> int:
        """The size as a number; Unsupported if it is symbolic."""
        if not isinstance(size, int):
            raise self.unsupported(f"{what} of unknown size")
        return size

    def ints(self, value: Any) -> tuple[int, ...]:
        """A list of numbers of the text, or one alone."""
        given = value if isinstance(value, tuple) else (value,)
        if not all(isinstance(v, int) and not isinstance(v, bool) for v in given):
            raise self.wrong(f"{value!r} is no list of whole numbers")
        return given

    # --- sizes that a run checks -----------------------------------------------------------------------------------

    def agree(self, x: Expr, axis: int, size: Dim) -> Expr:
        """`x`, whose size along an axis must be `size`: shown, or checked by the run."""
        t = self.tensor(x)
        if provably_equal(t.shape[axis], size):
            return x
        shape = (*t.shape[:axis], size, *t.shape[axis + 1 :])
        return graph.match_cast(x, TensorType(shape, t.dtype), span=self.span)

    def together(self, *xs: Expr, keep: int = 0) -> tuple[Expr, ...]:
        """Operands that broadcast, but for their last `keep` axes: where a size is unknown it is that of the others, or
        1, and the run sees which."""
        if all(t.is_static for t in map(self.tensor, xs)):
            return xs
        return tuple(with_one_shape(self, xs, keep, self.span) or xs)

    def number_of(self, size: Dim, of: str = "int64") -> Expr:
        """A size as a scalar. A scalar repeated that often is never written out; it has the size."""
        wide = self.call("broadcast_to", self.constant(False, BOOL), shape=(size,))
        return self.cast(self.call("reshape", self.call("shape_of", wide), shape=()), of)

    def named(self, x: Expr) -> Expr:
        """A cast stands where it is made, once."""
        return x

    def sized(self, y: Expr) -> Expr:
        """`y` with a fresh symbol for every size that hangs on many choices, so that types stay short."""
        t = y.type
        if not isinstance(t, TensorType) or all(isinstance(d, (int, Symbol)) for d in t.shape):
            return y
        long = [isinstance(d, Scalar) and _choices(d) > CHOICES for d in t.shape]
        if not any(long):
            return y
        shape = tuple(Symbol("d") if c else d for c, d in zip(long, t.shape, strict=True))
        return graph.match_cast(y, TensorType(shape, t.dtype), span=self.span)

    def with_sizes(self, value: Any, made: Callable[[tuple[Dim, ...]], Expr]) -> Expr:
        """What `made` makes of the sizes that a tensor holds: before the run where they are known, else measured by
        it."""
        try:
            found = self.sizes_of(value)
        except Unsupported:
            t = self.tensor(value)
            count = t.shape[0] if t.ndim == 1 and t.dtype.is_integer else None
            if not isinstance(count, int):
                raise
            return self.measured(self.cast(value, INT64), count, made)
        return made(found)

    def sizes_of(self, value: Any) -> tuple[Dim, ...]:
        """The sizes that a tensor of sizes holds, where they are known before the run: a constant, or shape_of."""
        found: list[Dim] = []
        work = Worklist([value])
        for step, value in enumerate(work, 1):
            if step == SIZES:
                raise self.unsupported(f"sizes that are made in more than {SIZES:,} steps")
            name = value.op.name if isinstance(value, Call) and isinstance(value.op, Operator) else ""
            if name in ("astype", "reshape"):
                work.add(value.args[:1])
            elif name == "concat":
                work.add(value.args)
            elif name == "shape_of":
                found += self.tensor(value.args[0]).shape
            elif isinstance(value, Constant) and value.data.ndim <= 1:
                found += [int(v) for v in value.data.reshape(-1)]
            elif isinstance(value, Tuple) or isinstance(getattr(value, "type", None), TupleType):
                raise self.wrong("sizes are one tensor, not a tuple")
            else:
                raise self.unsupported("sizes that are computed while the program runs")
        return tuple(found)


SIZES = 10_000
"""Steps in which sizes may be made: a concatenation may name another twice, and that one a third."""


CHOICES = 2
"""Of how many choices the type of a result tells: its size has a name of its own where there are more."""


def _choices(d: Scalar) -> int:
    return sum(isinstance(n, Choose) and n.op == "select" for n in post_order(d))


# --- rows --------------------------------------------------------------------------------------------------------


def same(names: str, op: str, **attrs: Any) -> Row:
    """An operator that is ours, with attributes of the same names and meaning; operands broadcast."""

    def make(b: Relay, args: list[Any], given: Attrs) -> Expr:
        return b.sized(b.call(op, *b.together(*args), **given))

    return Row(operands(names), attrs, make)


def relax(names: str, op: str, **attrs: Any) -> Row:
    """An operator of Relax with attributes of the same names and meaning, and with defaults of its own."""

    def make(b: Relay, args: list[Any], given: Attrs) -> Expr:
        return b.relax(op, b.together(*args) if len(args) > 1 else args, **given)

    return Row(operands(names), attrs, make)
