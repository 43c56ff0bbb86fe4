"""Intervals that remember how errors hang together (specs/semantics.md, "Errors that hang together").

An interval forgets that what two results are off by comes of one rounding, so that in a deep program nothing is left of
it. A `Followed` array is a `Bounded` one that says more: each element is

    centre + sum over k of errors[k] * e_k, +- rest

where the symbols e_k, of magnitude 1 at most, are shared by all tensors of a run, and the rest is each element's own.
Every rule is: the rule of intervals, which says what the step itself rounds; the derivative, by which errors go on; and
a bound of what the derivative leaves out, over the operands' intervals. What has no rule here is an interval again.

New symbols stand for what a tensor is off by at one place (`Symbols.named`). The interval is the intersection of both.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from assay.semantics.bounding.core import Array, Bounded, Floats
from assay.semantics.bounding.model import U64
from assay.semantics.bounding.shared import COARSE, LARGEST, SMALLEST, Errors, summed
from assay.semantics.dtypes import FLOAT64

SLIP = 32 * U64
"""What a step computed in float64 may be off by, as a part of all magnitudes that are in it."""
WIDER = 1.5
"""An element whose form is so many times as wide as its interval is its interval."""


class Exhausted(Exception):
    """Errors are not followed any further; the message says why."""


@dataclass
class Symbols:
    """The symbols of a run. A tensor's errors take no more than `limit` numbers: where they would, those that matter
    least go into the rest. `budget` is how many numbers may be computed in all; Exhausted beyond."""

    limit: int = 1 << 24
    budget: float = float("inf")
    count: int = 0
    work: int = 0

    def spend(self, numbers: int) -> None:
        """So many numbers are computed."""
        self.work += numbers
        if self.work > self.budget:
            raise Exhausted(f"there are more than {self.budget:.0e} numbers to compute")

    def named(self, x: Bounded) -> Bounded:
        """`x` with symbols in place of its rest, one for each element; as it is, where these would be too many."""
        if x.size == 0 or x.size**2 > self.limit or not x.of.is_float or x.of is FLOAT64:
            return x
        rest = x.rest if isinstance(x, Followed) else x.radius
        new = np.flatnonzero((rest > 0) & (rest <= LARGEST))
        if not new.size:
            return x
        self.spend(new.size * x.size)
        old = x.kept(self.limit // x.size - new.size) if isinstance(x, Followed) else None
        rest = old.rest if old is not None else rest
        block = np.zeros((new.size, x.size), np.float32)
        block[np.arange(new.size), new] = rest.ravel()[new] * (1 + COARSE) + SMALLEST
        own = Errors(np.arange(self.count, self.count + new.size), block, x.shape)
        self.count += new.size
        left = np.where(rest <= LARGEST, 0.0, rest)
        if old is None:
            return Followed(x, self, own, x.value, left)
        left = left + COARSE * old.shared.reach + len(old.shared.ids) * SMALLEST
        return Followed(x, self, summed([old.shared, own]), old.centre, left)


class Followed(Bounded):
    """A `Bounded` with the errors that its elements share with others."""

    __slots__ = ("centre", "rest", "shared", "symbols")
    follows_errors = True

    def __init__(self, like: Bounded, symbols: Symbols, shared: Errors, centre: Floats, rest: Floats) -> None:
        """`like` is the interval."""
        super().__init__(like.value, like.radius, like.of, like.terms)
        self.narrow, self.given, self.free, self.rounding = like.narrow, like.given, like.free, like.rounding
        self.symbols, self.shared, self.centre, self.rest = symbols, shared, centre, rest

    def kept(self, most: int) -> Followed:
        """The same with so many symbols at most."""
        shared = self.shared
        if len(shared.ids) <= most:
            return self
        parts = (np.abs(shared.part(some)).reshape(some.stop - some.start, self.size) for some in shared.pieces())
        by_size = np.argsort(np.concatenate([part.sum(axis=1) for part in parts]))
        cut = len(by_size) - max(most, 0)
        least, stays = np.sort(by_size[:cut]), np.sort(by_size[cut:])
        gone = Errors(shared.ids[least], shared.part(least).reshape(len(least), self.size), self.shape)
        left = Errors(shared.ids[stays], shared.part(stays).reshape(len(stays), self.size), self.shape)
        self.symbols.spend(shared.size)
        off = COARSE * shared.reach + len(shared.ids) * SMALLEST
        return Followed(self, self.symbols, left, self.centre, self.rest + gone.reach + off)

    def widened(self, more: Any, terms: int | None = None) -> Bounded:
        """See `Bounded`."""
        return Followed(super().widened(more, terms), self.symbols, self.shared, self.centre, self.rest + more)

    def cut(self, value: Any, radius: Any) -> Bounded:
        """See `Bounded`."""
        return Followed(super().cut(value, radius), self.symbols, self.shared, self.centre, self.rest)

    def __array_ufunc__(self, ufunc: np.ufunc, method: str, *inputs: Any, **kwargs: Any) -> Any:
        made = super().__array_ufunc__(ufunc, method, *inputs, **kwargs)
        rule = RULES.get(ufunc)
        if rule is None or method != "__call__" or kwargs or not isinstance(made, Bounded):
            return made
        with np.errstate(all="ignore"):
            return rule(made, *inputs)

    def __array_function__(self, func: Any, types: Any, args: Any, kwargs: Any) -> Any:
        return self._followed(func, super().__array_function__(func, types, args, kwargs), args, kwargs)

    def by(self, of: Any, *args: Any, **kwargs: Any) -> Any:
        """See `Bounded`."""
        return self._followed(of, super().by(of, *args, **kwargs), (self, *args), kwargs)

    def _followed(self, func: Any, made: Any, args: Any, kwargs: Any) -> Any:
        rule = RULES.get(func)
        if rule is None or isinstance(made, Followed):
            return made
        with np.errstate(all="ignore"):
            return rule(made, *args, **kwargs)

    def placed(self, made: Bounded, move: Callable[[Array], Array]) -> Bounded:
        """See `Bounded`."""
        return self.at(made, np.asarray(move(np.arange(self.size).reshape(self.shape))))

    def at(self, made: Bounded, places: Array) -> Followed:
        """`made`, whose elements are those at flat `places`; below 0 stands an exact one of its own."""
        none = places < 0
        centre = np.where(none, made.value, self.centre.ravel()[places])
        rest = np.where(none, 0.0, self.rest.ravel()[places])
        return Followed(made, self.symbols, self.shared.at(places), centre, rest)

    def __getitem__(self, index: Any) -> Bounded:
        return self.placed(super().__getitem__(index), lambda a: a[index])


# --- a result of what its operands are -------------------------------------------------------------------------------

Part = tuple[Any, Bounded]
"""A derivative, and the operand that it is by."""


def form(x: Bounded) -> tuple[Floats, Floats, Floats]:
    """Centre, rest, and the sum of the shared errors of an operand."""
    if isinstance(x, Followed):
        return x.centre, x.rest, x.shared.reach
    return x.value, x.radius, np.zeros(x.shape)


def elementwise(made: Bounded, base: Any, parts: Sequence[Part], left: Any, exact: bool = False) -> Bounded:
    """`made`, the interval of a function of one element of each operand, with the errors that it has of them.

    For all operands in their intervals the function is `base`, plus each derivative times what its operand is off from
    its interval's middle, but for `left`. `exact` says that nothing is rounded.
    """
    if made.rounding is None and not exact:
        return made
    symbols = next(x.symbols for _, x in parts if isinstance(x, Followed))
    centre: Any = np.broadcast_to(np.asarray(base, np.float64), made.shape)
    rest: Any = np.asarray((0.0 if exact else made.rounding) + left)
    slip: Any = np.abs(centre)
    shared = []
    for by, x in parts:
        middle, own, reach = form(x)
        off = np.where(middle == x.value, 0.0, middle - x.value)
        centre = centre + by * off
        rest = rest + np.abs(by) * own
        slip = slip + np.abs(by) * (reach + x.radius + np.abs(off))
        if isinstance(x, Followed) and len(x.shared.ids):
            shared.append(_spread_to(x.shared, made.shape).times(by))
    rest = rest + SLIP * slip
    errors = summed(shared) if shared else Errors.none(made.shape)
    if shared and errors.base is not shared[0].base:
        symbols.spend(errors.size)
        rest = rest + COARSE * sum(e.reach for e in shared) + len(errors.ids) * SMALLEST
    rest = np.broadcast_to(rest, made.shape)
    return finished(made, symbols, errors, centre, rest)


def _spread_to(errors: Errors, shape: tuple[int, ...]) -> Errors:
    """The errors of elements that are repeated as NumPy broadcasts them."""
    if errors.shape == shape:
        return errors
    return errors.at(np.broadcast_to(np.arange(int(np.prod(errors.shape))).reshape(errors.shape), shape))


def finished(made: Bounded, symbols: Symbols, errors: Errors, centre: Any, rest: Any) -> Bounded:
    """`made`, with errors, and its interval no wider than these allow. Where they say less than the interval, or are no
    numbers, or something may overflow, the element is its interval."""
    reach = errors.reach
    wide = reach + rest
    worse = ~(wide <= WIDER * made.radius) | ~np.isfinite(centre + made.value + made.radius) | ~(reach <= LARGEST)
    if worse.any():
        errors = errors.without(worse)
        centre, rest = np.where(worse, made.value, centre), np.where(worse, made.radius, rest)
        wide = np.where(worse, made.radius, wide)
    value, radius = made.value, made.radius
    low, high = np.maximum(value - radius, centre - wide), np.minimum(value + radius, centre + wide)
    middle = low / 2 + high / 2
    half = (high / 2 - low / 2) * (1 + 8 * U64) + 8 * U64 * (np.abs(centre) + np.abs(value) + wide)
    better = (half < radius) & np.isfinite(middle) & (half >= 0)
    narrowed = Bounded(np.where(better, middle, value), np.where(better, half, radius), made.of, made.terms)
    narrowed.narrow, narrowed.rounding = made.narrow, made.rounding
    out = Followed(narrowed, symbols, errors, np.asarray(centre), np.asarray(rest))
    return out.kept(symbols.limit // max(1, out.size)) if errors.base.size > symbols.limit else out


RULES: dict[Any, Callable[..., Any]] = {}
"""For functions, what they make of errors: of the interval of the result, and of the arguments."""
