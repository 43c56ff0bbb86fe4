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
from assay.semantics.bounding.shared import COARSE, LARGEST, SMALLEST, Errors, is_order, summed
from assay.semantics.dtypes import FLOAT64

SLIP = 32 * U64
"""What a step computed in float64 may be off by, as a part of all magnitudes that are in it."""
WIDER = 1.5
"""An element whose form is so many times as wide as its interval is its interval."""


NARROW = 4096
"""A tensor of more elements gets no symbols."""


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
        if x.size == 0 or x.size > NARROW or x.size**2 > self.limit or not x.of.is_float or x.of is FLOAT64:
            return x
        joints = [j for j in x.joints if j.is_worth_it] if isinstance(x, Followed) else []
        together = sum((j.box for j in joints), np.zeros(x.shape))
        rest = np.maximum(x.rest - together, 0.0) if isinstance(x, Followed) else x.radius
        new = np.flatnonzero((rest > 0) & (rest <= LARGEST))
        if not new.size:
            return x
        old = x.kept(self.limit // x.size - new.size) if isinstance(x, Followed) else None
        if old is not None:
            rest = np.maximum(old.rest - together, 0.0) + SLIP * old.rest
        own = self._new(new, rest)
        left = np.where(rest <= LARGEST, 0.0, rest)
        if old is None:
            return Followed(x, self, own, x.value, left)
        left = left + COARSE * old.shared.reach + len(old.shared.ids) * SMALLEST
        return Followed(x, self, summed([old.shared, own]), old.centre, left + together, joints)

    def _new(self, places: Array, sizes: Floats) -> Errors:
        """A new symbol for each element at flat `places`, of that size."""
        self.spend(places.size * sizes.size)
        block = np.zeros((places.size, sizes.size), np.float32)
        block[np.arange(places.size), places] = sizes.ravel()[places] * (1 + COARSE) + SMALLEST
        self.count += places.size
        return Errors(np.arange(self.count - places.size, self.count), block, sizes.shape)

    def own(self, made: Bounded, sizes: Any) -> Errors:
        """New symbols for what each element of a result may be off by, where that matters and they are not too many."""
        few = made.size**2 <= self.limit and np.median(sizes) > MATTERS * np.median(made.radius)
        if not few:
            return Errors.none(made.shape)
        sizes = np.broadcast_to(sizes, made.shape)
        return self._new(np.flatnonzero((sizes > 0) & (sizes <= LARGEST)), sizes)


@dataclass(frozen=True, eq=False)
class Joint:
    """A part of the rests of a tensor's elements, which are not as large as they may be all at once: each is at most
    `box`, and the sum over a row (the last axis) of each over `size` at most `budget`, of shape (..., 1)."""

    box: Floats
    size: Floats
    budget: Floats

    def times(self, by: Any) -> Joint:
        """Of elements times a number each."""
        return Joint(self.box * np.abs(by), self.size * np.abs(by), self.budget)

    def reshaped(self, shape: tuple[int, ...]) -> Joint:
        """Of elements in other rows of the same length."""
        return Joint(self.box.reshape(shape), self.size.reshape(shape), self.budget.reshape(*shape[:-1], 1))

    @property
    def is_worth_it(self) -> bool:
        """Whether the budget says much more than the boxes."""
        return bool(np.median(self.budget) < 0.5 * self.box.shape[-1])

    def mixed(self, by: Floats) -> Floats:
        """The most that may come of it in a product of its rows with a matrix of numbers that are not negative."""
        cap = np.where(self.size > 0, self.box / np.where(self.size > 0, self.size, 1.0), 0.0)
        return np.minimum(
            np.matmul(self.box, by), budgeted(self.size[..., None] * by[..., None, :, :], cap, self.budget)
        )


JOINTS = 6
"""A tensor has no more of them; the first matter most."""
MANY = 1 << 22
"""So many terms of sums with a budget are looked at, and no more."""


def budgeted(gain: Floats, cap: Floats, budget: Floats) -> Floats:
    """The largest sum over k of gain[..., k, n] * t[k], for t of 0 to cap[..., k] that add up to the budget at most:
    what gains most takes all that it may."""
    if gain.size > MANY:
        return np.asarray(np.inf)
    order = np.argsort(-gain, axis=-2)
    caps = np.take_along_axis(np.broadcast_to(cap[..., None], gain.shape), order, axis=-2)
    left = budget[..., None] - (np.cumsum(caps, axis=-2) - caps)
    taken = np.clip(left + np.abs(budget[..., None]) * SLIP * cap.shape[-1], 0.0, caps)
    most = np.sum(np.take_along_axis(gain, order, axis=-2) * taken, axis=-2)
    return np.asarray(most * (1 + SLIP * cap.shape[-1]))


class Followed(Bounded):
    """A `Bounded` with the errors that its elements share with others."""

    __slots__ = ("centre", "joints", "rest", "shared", "symbols")
    follows_errors = True

    def __init__(
        self,
        like: Bounded,
        symbols: Symbols,
        shared: Errors,
        centre: Floats,
        rest: Floats,
        joints: Sequence[Joint] = (),
    ) -> None:
        """`like` is the interval; `joints` say more of the rest."""
        super().__init__(like.value, like.radius, like.of, like.terms)
        self.narrow, self.given, self.free, self.rounding = like.narrow, like.given, like.free, like.rounding
        self.symbols, self.shared, self.centre, self.rest = symbols, shared, centre, rest
        self.joints = tuple(joints)

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
        return Followed(self, self.symbols, left, self.centre, self.rest + gone.reach + off, self.joints)

    def widened(self, more: Any, terms: int | None = None) -> Bounded:
        """See `Bounded`."""
        return Followed(
            super().widened(more, terms), self.symbols, self.shared, self.centre, self.rest + more, self.joints
        )

    def cut(self, value: Any, radius: Any) -> Bounded:
        """See `Bounded`."""
        return Followed(super().cut(value, radius), self.symbols, self.shared, self.centre, self.rest, self.joints)

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
        same = bool(self.joints) and places.shape[-1:] == self.shape[-1:] and is_order(places, self.shape)
        joints = [j.reshaped(places.shape) for j in self.joints] if same else []
        return Followed(made, self.symbols, self.shared.at(places), centre, rest, joints)

    def squares(self) -> tuple[Floats, Floats]:
        """How far each element may be from the middle of its interval, by its form; and for each row along the last
        axis a bound of the sum of the squares of what its elements are off, each as a part of that."""
        own = self.rest + np.abs(self.centre - self.value)
        wide = self.shared.reach + own
        part = np.where(wide > 0, self.shared.reach / wide, 0.0)
        alone = np.sqrt(np.sum((own / np.where(wide > 0, wide, 1.0)) ** 2, axis=-1, keepdims=True))
        count = self.shape[-1]
        self.symbols.spend(self.shared.size * count // 64)
        together = np.sqrt(self.shared.squares) * np.max(part, axis=-1, keepdims=True) + alone
        return wide, np.minimum(np.nan_to_num(together**2 * (1 + SLIP), nan=count), count)

    def __getitem__(self, index: Any) -> Bounded:
        return self.placed(super().__getitem__(index), lambda a: a[index])


# --- a result of what its operands are -------------------------------------------------------------------------------

Part = tuple[Any, Bounded]
"""A derivative, and the operand that it is by."""


def second(made: Any, x: Bounded, by: Any, other: Bounded | None = None) -> Joint | None:
    """What is left out of a function of elements, `by` at most times the product of what two operands are off (the
    square, of one): no more than the boxes, and much less in all of a row. None where it does not matter."""
    other = x if other is None else other
    if not (isinstance(x, Followed) and isinstance(other, Followed)) or x.shape != other.shape or x.ndim == 0:
        return None
    if x.shape[-1] < 4 or not np.median(by * x.radius * other.radius) > MATTERS * np.median(made.radius):
        return None
    (wide, most), (other_wide, other_most) = x.squares(), other.squares()
    by = np.broadcast_to(by, x.shape)
    return Joint(by * x.radius * other.radius, by * wide * other_wide, np.sqrt(most * other_most))


def scaled_row(made: Bounded, x: Bounded, by: Floats) -> Joint | None:
    """What is left out of a row that is scaled as a whole: what each element is off times `by` at most, which has one
    number a row. None where it does not matter."""
    if not isinstance(x, Followed) or x.shape != made.shape or x.ndim == 0 or x.shape[-1] < 4:
        return None
    if not np.median(by * x.radius) > MATTERS * np.median(made.radius):
        return None
    wide, most = x.squares()
    return Joint(by * x.radius, by * wide, np.sqrt(x.shape[-1] * most))


MATTERS = 0.002
"""What is left out by less than this part of the radius is not looked at closely."""


def form(x: Bounded) -> tuple[Floats, Floats, Floats]:
    """Centre, rest, and the sum of the shared errors of an operand."""
    if isinstance(x, Followed):
        return x.centre, x.rest, x.shared.reach
    return x.value, x.radius, np.zeros(x.shape)


def elementwise(
    made: Bounded, base: Any, parts: Sequence[Part], left: Any, exact: bool = False, joint: Joint | None = None
) -> Bounded:
    """`made`, the interval of a function of one element of each operand, with the errors that it has of them.

    For all operands in their intervals the function is `base`, plus each derivative times what its operand is off from
    its interval's middle, but for `left`, of which `joint` says more. `exact` says that nothing is rounded.
    """
    if made.rounding is None and not exact:
        return made
    symbols = next(x.symbols for _, x in parts if isinstance(x, Followed))
    centre: Any = np.broadcast_to(np.asarray(base, np.float64), made.shape)
    rest: Any = np.asarray((0.0 if exact else made.rounding) + left)
    slip: Any = np.abs(centre)
    shared, joints = [], [] if joint is None else [joint]
    for by, x in parts:
        middle, own, reach = form(x)
        off = np.where(middle == x.value, 0.0, middle - x.value)
        centre = centre + by * off
        rest = rest + np.abs(by) * own
        slip = slip + np.abs(by) * (reach + x.radius + np.abs(off))
        if isinstance(x, Followed) and x.shape == made.shape:
            joints += [j.times(by) for j in x.joints]
        if isinstance(x, Followed) and len(x.shared.ids):
            shared.append(_spread_to(x.shared, made.shape).times(by))
    rest = rest + SLIP * slip
    errors = summed(shared) if shared else Errors.none(made.shape)
    if shared and errors.base is not shared[0].base:
        symbols.spend(errors.size)
        rest = rest + COARSE * sum(e.reach for e in shared) + len(errors.ids) * SMALLEST
    rest = np.broadcast_to(rest, made.shape)
    return finished(made, symbols, errors, centre, rest, joints)


def _spread_to(errors: Errors, shape: tuple[int, ...]) -> Errors:
    """The errors of elements that are repeated as NumPy broadcasts them."""
    if errors.shape == shape:
        return errors
    return errors.at(np.broadcast_to(np.arange(int(np.prod(errors.shape))).reshape(errors.shape), shape))


def finished(
    made: Bounded, symbols: Symbols, errors: Errors, centre: Any, rest: Any, joints: Sequence[Joint] = ()
) -> Bounded:
    """`made`, with errors, and its interval no wider than these allow. Where they say less than the interval, or are no
    numbers, or something may overflow, the element is its interval."""
    reach = errors.reach
    wide = reach + rest
    worse = ~(wide <= WIDER * made.radius) | ~np.isfinite(centre + made.value + made.radius) | ~(reach <= LARGEST)
    if worse.any():
        errors = errors.without(worse)
        centre, rest = np.where(worse, made.value, centre), np.where(worse, made.radius, rest)
        wide = np.where(worse, made.radius, wide)
        joints = [Joint(np.where(worse, 0.0, j.box), np.where(worse, 0.0, j.size), j.budget) for j in joints]
    value, radius = made.value, made.radius
    low, high = np.maximum(value - radius, centre - wide), np.minimum(value + radius, centre + wide)
    middle = low / 2 + high / 2
    half = (high / 2 - low / 2) * (1 + 8 * U64) + 8 * U64 * (np.abs(centre) + np.abs(value) + wide)
    better = (half < radius) & np.isfinite(middle) & (half >= 0)
    narrowed = Bounded(np.where(better, middle, value), np.where(better, half, radius), made.of, made.terms)
    narrowed.narrow, narrowed.rounding = made.narrow, made.rounding
    out = Followed(narrowed, symbols, errors, np.asarray(centre), np.asarray(rest), joints[:JOINTS])
    return out.kept(symbols.limit // max(1, out.size)) if errors.base.size > symbols.limit else out


RULES: dict[Any, Callable[..., Any]] = {}
"""For functions, what they make of errors: of the interval of the result, and of the arguments."""
WHOLES: dict[str, Callable[..., Any]] = {}
"""For functions that are a formula of several steps, what the function as a whole makes of errors: of the interval of
the formula's result, and of the operands."""


def as_a_whole(name: str, formula: Callable[..., Any], *operands: Any, **more: Any) -> Any:
    """What a formula gives of operands. Where their errors are followed the formula is evaluated on their intervals
    alone, and the errors are those of the function as a whole: steps would lose what hangs together between them."""
    if not any(isinstance(x, Followed) for x in operands):
        return formula(*operands)
    plain = [Bounded(x.value, x.radius, x.of) if isinstance(x, Followed) else x for x in operands]
    made = formula(*plain)
    if not isinstance(made, Bounded):
        return made
    with np.errstate(all="ignore"):
        found = WHOLES[name](made, *operands, **more) if isinstance(operands[0], Followed) else None
    return formula(*operands) if found is None else found
