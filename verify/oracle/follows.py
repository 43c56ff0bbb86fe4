"""Where a run of a program with bounds follows how errors hang together (specs/verify.md, "Errors that are followed").

What an operand of a contraction is off by gets a symbol for each element, which all that is computed from it shares: a
contraction mixes errors, and where these are mixed again only their signs say what cancels. All else that rounds is the
own error of each element, for every reader anew.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from assay.interp.values import Value
from assay.semantics.bounding.affine import NARROW, Exhausted, Symbols
from assay.semantics.bounds import Bounded
from assay.semantics.graph import Call, CallTIR, Constant, Expr
from assay.semantics.operator import Operator
from assay.verify.oracle.scaled_integers import MOVES

LIMIT = 1 << 25
"""How many numbers the errors of one tensor may be: 128 MiB."""
BUDGET = 2.4e10
"""How many numbers may be computed for all of them: two or three seconds for each thousand million."""
LOST = 4
"""So many operands of contractions that may be off by a part of FAR of their largest element end it."""
FAR = 0.1
FOLDED = frozenset({"multiply", "divide", "negative", "nn.batch_norm"})
"""What may be folded into a contraction that reads it, and into another one that reads it too need not be."""


def symbols() -> Symbols:
    """No symbols yet."""
    return Symbols(LIMIT, BUDGET)


@dataclass
class Follows:
    """Gives the operands of contractions their symbols."""

    symbols: Symbols = field(default_factory=symbols)
    lost: int = 0

    def operands(self, node: Call | CallTIR, op: Operator | None, args: Sequence[Value]) -> Sequence[Value]:
        """The operands of a call, as it reads them."""
        if not isinstance(node, Call):
            return args
        if is_joined(op, args):
            return [self._joined(a, e) if isinstance(a, Bounded) else a for a, e in zip(args, node.args, strict=True)]
        if not mixes(op, args):
            return args
        return [
            self._named(a, shared=_is_stored(e)) if isinstance(a, Bounded) and not a.is_exact else a
            for a, e in zip(args, node.args, strict=True)
        ]

    def _joined(self, x: Bounded, made: Expr) -> Bounded:
        """An operand of a residual sum: with the symbols of the contractions that read it, if the sum takes in no step
        of it."""
        if not _is_stored(made) or _makes_sums(made):
            return self.symbols.named(x)
        if x.named is None:
            x.named = self.symbols.named(x)
        return x.named

    def _named(self, x: Bounded, shared: bool) -> Bounded:
        """The operand with symbols: the same ones for each contraction that reads it, if it is one value to all."""
        if shared and x.named is not None:
            return x.named
        largest = np.abs(x.value).max(initial=0.0, where=np.isfinite(x.value))
        self.lost += bool(np.median(x.radius) > FAR * largest)
        if self.lost == LOST:
            raise Exhausted("the roundings of its first layers may move the operands of later ones anywhere")
        named = self.symbols.named(x)
        if shared:
            x.named = named
        return named


def mixes(op: Operator | None, args: Sequence[Value]) -> bool:
    """Whether a call mixes errors that can be followed: a contraction, of what is not exact and not too large."""
    if op is None or op.family != "contraction":
        return False
    floats = [a for a in args if isinstance(a, Bounded) and a.of.is_float]
    return any(0 < a.size <= NARROW and not a.is_decided for a in floats)


def is_joined(op: Operator | None, args: Sequence[Value]) -> bool:
    """Whether a call adds two tensors of one shape that are both off, as a residual is added."""
    if op is None or op.name not in ("add", "subtract"):
        return False
    a, b = args
    if not isinstance(a, Bounded) or not isinstance(b, Bounded) or a is b or not a.of.is_float:
        return False
    return a.shape == b.shape and not (a.is_decided or b.is_decided)


def _maker(made: Expr) -> Expr:
    """What makes the elements of a tensor, before they are moved."""
    while isinstance(made, Call) and isinstance(made.op, Operator) and made.op.family in MOVES and made.args:
        made = made.args[0]
    return made


def _is_stored(made: Expr) -> bool:
    """Whether a tensor is one value to all contractions that read it: none can take in the step that makes it."""
    made = _maker(made)
    if isinstance(made, Call) and isinstance(made.op, Operator):
        return made.op.name not in FOLDED
    return isinstance(made, Constant)


def _makes_sums(made: Expr) -> bool:
    """Whether a tensor is of sums, which take up what is added to them."""
    made = _maker(made)
    if not isinstance(made, Call) or not isinstance(made.op, Operator):
        return True
    return made.op.name in ("add", "subtract") or made.op.family in ("contraction", "reduction")


def narrowed(wide: Value, by: Value) -> Value:
    """An output with the intervals of another run where these are narrower."""
    if isinstance(wide, tuple) and isinstance(by, tuple):
        return tuple(narrowed(w, b) for w, b in zip(wide, by, strict=True))
    if not isinstance(wide, Bounded) or not isinstance(by, Bounded) or not wide.of.is_float:
        return wide
    better = by.radius < wide.radius
    if not better.any():
        return wide
    made = Bounded(np.where(better, by.value, wide.value), np.where(better, by.radius, wide.radius), wide.of)
    made.free, made.narrow = wide.free, wide.narrow
    return made
