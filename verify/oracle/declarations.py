"""What a backend declares of itself, and the oracle accepts (specs/verify.md, "Verdict")."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np

from assay.semantics.bounds import Bounded
from assay.semantics.dtypes import DType, dtype
from assay.semantics.errors import Invalid

NAME = "kept-wider"
Width = Literal["", "wide", "any"]
"""What is computed within an operator, where it overflows: not asked; all of it is held in a wider dtype; or some of
it, nobody knows what."""


@dataclass(frozen=True)
class Accepts:
    """Properties beyond rule M9.

    `flushes`: subnormal numbers are taken for zero, operands and results, all or none. `splits`: float32 factors of
    contractions are taken as two bfloat16 parts each, and the product of the lesser parts is left out; each product is
    off by a part of its magnitude, and whole numbers are no longer exact. `tf32`: float32 factors of contractions are
    cut or rounded to the 11 bits of TF32. `sums`: sums, of products too, of float32 or float16 elements are rounded to
    bfloat16 at each step. What these three allow is in `assay.verify.oracle.products`. `wider`: tensors of 16 bits may
    be held in float32 between operators (M9.11), which every backend may do unless it is excluded; a run that is
    judged so `holds`. `within` is how a run is judged in which something overflows within an operator
    (`assay.verify.oracle.inner_overflow`).
    """

    flushes: bool = False
    splits: bool = False
    tf32: bool = False
    sums: bool = False
    wider: bool = True
    holds: bool = False
    within: Width = ""

    @staticmethod
    def of(declared: Any) -> Accepts:
        """What a backend declares: an `Accepts`, nothing, a name of `FREEDOMS`, several, or by names whether each is
        taken. Invalid (backend.C4): there is no such freedom, or it is none of these."""
        if declared is None or isinstance(declared, Accepts):
            return declared or EVERYTHING_KEPT
        names = [declared] if isinstance(declared, str) else declared
        taken = dict(names) if isinstance(names, Mapping) else _all_true(names)
        for name, is_taken in taken.items():
            if name not in FREEDOMS or not isinstance(is_taken, bool):
                raise Invalid(f"it accepts {name!r}; there is {', '.join(FREEDOMS)}", label="backend.C4")
        return EVERYTHING_KEPT._with(taken)

    @property
    def shortens(self) -> bool:
        """Whether products, or their sums, need not be those of M9."""
        return self.splits or self.tf32 or self.sums

    @property
    def by_name(self) -> dict[str, bool]:
        """Whether each of `FREEDOMS` is taken; `of` makes the same of it."""
        return {name: getattr(self, field) for name, field in FREEDOMS.items()}

    def excluding(self, names: Collection[str]) -> Accepts:
        """The same without the rights of these names; Invalid (cli.C6) for a name of none."""
        for name in names:
            if name not in RIGHTS:
                raise Invalid(f"--exclude {name}: no right has this name; there is {', '.join(RIGHTS)}", label="cli.C6")
        return self._with(dict.fromkeys(names, False))

    def _with(self, taken: Mapping[str, bool]) -> Accepts:
        fields: dict[str, Any] = {FREEDOMS[name]: is_taken for name, is_taken in taken.items()}
        return replace(self, **fields)


def _all_true(names: Any) -> dict[Any, bool]:
    if not isinstance(names, Iterable) or isinstance(names, bytes):
        raise Invalid(
            f"it accepts a {type(names).__name__}; names are wanted, of {', '.join(FREEDOMS)}", label="backend.C4"
        )
    return dict.fromkeys(names, True)


FREEDOMS = {NAME: "wider", "flushes": "flushes", "splits": "splits", "tf32": "tf32", "bf16-sums": "sums"}
"""What a backend may declare by its name, and which field of `Accepts` that is."""
RIGHTS = tuple(FREEDOMS)
"""What may be excluded."""
EVERYTHING_KEPT = Accepts()


def flushed(array: Any) -> Any:
    """An array with zero, of the same sign, for every subnormal number."""
    of = dtype(array.dtype)
    if not of.is_float:
        return array
    with np.errstate(all="ignore"):
        small = np.abs(array.astype(np.float64)) < of.smallest_normal
    return np.where(small, np.copysign(of.numpy.type(0), array), array)


def is_subnormal(array: Any) -> Any:
    """Where the elements are subnormal and not zero."""
    of: DType = dtype(array.dtype)
    size = np.abs(np.asarray(array).astype(np.float64))
    return (size > 0) & (size < of.smallest_normal) if of.is_float else np.zeros(size.shape, bool)


def open_subnormals(x: Bounded, more: float = 0.0) -> Bounded:
    """Intervals that hold zero too where they hold subnormal numbers; `more` is what flushing within may add."""
    if not x.of.is_float:
        return x
    radius = np.where(np.isfinite(x.value), x.radius + more, x.radius)
    low, high = x.value - radius, x.value + radius
    least = x.of.smallest_normal
    touched = np.isfinite(radius) & (low < least) & (high > -least) & ~((low == 0) & (high == 0))
    return x if more == 0 and not touched.any() else holding_zero(Bounded(x.value, radius, x.of), touched)


STEPS = frozenset("asin asinh atan atanh erf nn.gelu nn.gelu_tanh sin sinh tan tanh".split())
"""Functions that are near 0 there and are computed in steps: what is flushed in these moves a result by a few of the
smallest normal numbers."""


def with_steps(name: str, x: Bounded) -> Bounded:
    """What an operator gives of numbers, with what is flushed in its steps."""
    if name not in STEPS or not x.of.is_float:
        return x
    return Bounded(x.value, x.radius + np.where(np.isfinite(x.value), 4 * x.of.smallest_normal, 0.0), x.of)


def one_of_many(x: Bounded, among: Any) -> Bounded:
    """What is chosen of numbers by comparing: of subnormal ones, which are then equal, any."""
    some = among if isinstance(among, Bounded) else Bounded.exact(np.asarray(among))
    least = x.of.smallest_normal
    low, high = some.value - some.radius, some.value + some.radius
    if not ((low < least) & (high > -least) & ~((low == 0) & (high == 0))).any():
        return x
    touched = np.isfinite(x.radius) & (x.value - x.radius < least) & (x.value + x.radius > -least)
    return Bounded(np.where(touched, 0.0, x.value), np.where(touched, np.maximum(least, x.radius), x.radius), x.of)


def holding_zero(x: Bounded, where: Any) -> Bounded:
    """Intervals that hold zero too at some places."""
    where = where & np.isfinite(x.radius) & np.isfinite(x.value)
    if not where.any():
        return x
    low, high = x.value - x.radius, x.value + x.radius
    low, high = np.where(where, np.minimum(low, 0.0), low), np.where(where, np.maximum(high, 0.0), high)
    middle = low / 2 + high / 2
    value = np.where(where, middle, x.value)
    return Bounded(value, np.where(where, np.maximum(high - middle, middle - low) * (1 + 2.0**-50), x.radius), x.of)
