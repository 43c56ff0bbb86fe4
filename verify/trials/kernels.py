"""Tensor functions of operators on special values, ties, extremes, and on all numbers of small types (specs/verify.md,
"Trials")."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from assay.interp import vector
from assay.semantics.bounds import Bounded, contains
from assay.semantics.dtypes import dtype
from assay.semantics.errors import Trap
from assay.semantics.operator import Operator
from assay.semantics.tensor import PrimFunc
from assay.semantics.walk import Worklist
from assay.verify.evidence import listed
from assay.verify.trials.batch import Through, batched, stores, through, through_some
from assay.verify.trials.data import KINDS, Kind, constants_of, draw, ordinary, telling_numbers

Array = np.ndarray[Any, Any]
Operands = Sequence[Array]

ROWS = 2200
"""Runs of one enumeration where the operator must be asked for each by itself."""
BOUNDED_ROWS = 128
"""The same where it answers with intervals."""
SMALL = 1 << 14
"""Stores of a tensor function up to which every kind of operands is drawn by itself."""
LARGE = 1 << 22
"""Those from which on a function is not tried."""
EXACT = ("movement", "selection", "creation")
"""Families of operators that only choose among numbers."""
ASKED = 2000
"""Questions to an operator about where it traps."""
SAMPLES = 3
"""Operands on which the operator traps that the tensor function is run on: it must trap alike."""


@dataclass
class KernelTrials:
    """What the trials of some functions were, for the line."""

    functions: int = 0
    whole: bool = True
    """Whether all numbers of small types are to be tried."""
    through: int = 0
    """Functions of which all numbers of an operand, or all pairs, were tried."""
    part: list[str] = field(default_factory=list)
    """Those of small types for which these were too many."""
    large: list[str] = field(default_factory=list)
    """Those that are too large for any."""

    def add(self, other: KernelTrials) -> None:
        """Add the counts of other trials."""
        self.functions += other.functions
        self.through += other.through
        self.part += other.part
        self.large += other.large

    def __str__(self) -> str:
        said = f"{self.functions} on special values, ties and extremes"
        if self.through:
            said += f", {self.through} of them on all values of small types"
        if self.part:
            said += f" (not all of {listed(self.part)})"
        if self.large:
            said += f"; not {listed(self.large)}, too large for that"
        return said


def try_kernel(
    kernel: PrimFunc,
    op: Operator,
    attrs: Mapping[str, Any],
    seed: int,
    plain: Callable[[], Operands],
    tried: KernelTrials,
) -> str | None:
    """Where a tensor function gives what its operator does not allow, if it does. `plain` gives operands on which the
    operator does not trap, as far as they can be made."""
    run = _Run(kernel, op, attrs, plain)
    size = stores(kernel)
    if size > LARGE:
        tried.large.append(kernel.name)
        return None
    tried.functions += 1
    constants = constants_of(kernel)
    rng = np.random.default_rng([seed, 7])
    for kind in _kinds(op, size):
        wrong = run.kind(kind, rng, constants)
        if wrong:
            return f"on {kind}: {wrong}"
    types = [(b.static_shape, b.dtype) for b in kernel.inputs]
    if op.family == "elementwise" and size <= SMALL:
        numbers = {of: telling_numbers(of, constants) for _, of in types}
        for way in through_some(types, size, numbers):
            wrong = run.all_of(way, rng)
            if wrong:
                return f"on special values: {wrong}"
        run.complete = True
    meet = op.family in ("elementwise", "contraction")
    every = through(types, sum(int(np.prod(b.static_shape)) for b in kernel.outputs), meet)
    found = list(every) if tried.whole else []
    for way in found:
        wrong = run.all_of(way, rng)
        if wrong:
            return (
                f"on all values of operand{'s' if len(way.places) > 1 else ''} {' and '.join(map(str, way.places))}:"
                f" {wrong}"
            )
    if found:
        if run.complete:
            tried.through += 1
        else:
            tried.part.append(kernel.name)
    return None


def _kinds(op: Operator, size: int) -> Sequence[Kind]:
    """The kinds of operands that are drawn. The bounds of normalizations do not count what an intermediate loses in
    underflow and a large factor makes large again, so nothing huge or tiny is drawn for these."""
    if op.family == "normalization":
        return ("mild", "ties", "steep")
    if size <= SMALL:
        return KINDS
    return ("mixed",) if op.family == "elementwise" else ("specials", "ties")


class _Run:
    def __init__(self, kernel: PrimFunc, op: Operator, attrs: Mapping[str, Any], plain: Callable[[], Operands]) -> None:
        self.kernel, self.op, self.attrs, self.plain = kernel, op, attrs, plain
        self.complete = True
        self.exact = self.inexact = False
        """Whether the operator has answered with numbers: what it does then does not hang on the operands."""

    def value(self, operands: Operands) -> Any:
        """What the operator allows, a tuple; or its trap."""
        with np.errstate(all="ignore"):
            try:
                if self.exact:
                    exact = self.op.value(self.attrs, *operands)
                    return exact if isinstance(exact, tuple) else (exact,)
                found = self.op.value(self.attrs, *[lift(x) for x in operands])
                found = found if isinstance(found, tuple) else (found,)
                if any(is_inexact(f) for f in found):
                    self.inexact = True
                    return found
                exact = self.op.value(self.attrs, *operands)
                self.exact = self.op.family in EXACT
                return exact if isinstance(exact, tuple) else (exact,)
            except Trap as trap:
                return trap

    def kind(self, kind: Kind, rng: np.random.Generator, constants: Sequence[Any]) -> str | None:
        """One draw of a kind. Where the operator traps on it, integers, which may be indices, stay as plain ones."""
        tame: Operands | None = None
        for attempt in range(3):
            operands = [draw(b.dtype, b.static_shape, rng, kind, constants) for b in self.kernel.inputs]
            if attempt:
                tame = self.plain() if tame is None else tame
                keep = [attempt == 2 or not b.dtype.is_float for b in self.kernel.inputs]
                operands = [t if k else x for t, x, k in zip(tame, operands, keep, strict=True)]
            wanted, got = self.value(operands), kernel_outcome(self.kernel, operands)
            wrong = compare(wanted, got)
            if wrong or not isinstance(wanted, Trap):
                return wrong
        return None

    def all_of(self, way: Through, rng: np.random.Generator) -> str | None:
        every_row = self.op.family == "elementwise"
        count = way.count if every_row else min(way.count, ROWS if self.exact or not self.inexact else BOUNDED_ROWS)
        self.complete &= way.all and count == way.count
        wide = batched(self.kernel, count)
        if wide is None:
            self.complete = False
            return None
        made = way.make(count, rng)
        plain = self.plain() if self.op.can_trap else ()
        for i, b in enumerate(self.kernel.inputs):
            if i in made:
                continue
            if self.op.family == "normalization":
                made[i] = ordinary(b.dtype, (count, *b.static_shape), rng)
            elif not self.op.can_trap:
                made[i] = draw(b.dtype, (count, *b.static_shape), rng, "specials")
            elif b.dtype.is_float:
                made[i] = ordinary(b.dtype, (count, *b.static_shape), rng)
            else:
                made[i] = np.broadcast_to(plain[i], (count, *b.static_shape))
        operands: Operands = [made[i] for i in range(len(made))]
        if self.op.can_trap:
            wrong, operands = self.without_traps(operands, every_row, way.aligned and len(way.places) == len(made))
            if wrong or not len(operands[0]):
                return wrong
            operands = [x[np.arange(count) % len(x)] for x in operands]
        with np.errstate(all="ignore"):
            try:
                got = vector.run(wide, operands)
            except Trap as trap:
                return f"the operator gives a value, the kernel {trap}"
        if every_row:
            return compare(self.value(self.spread(operands)), got)
        for row in range(count):
            wrong = compare(self.value([x[row] for x in operands]), [g[row] for g in got])
            if wrong:
                return wrong
        return None

    def spread(self, operands: Operands) -> Operands:
        """Rows of operands for an elementwise operator: the axes in front of an operand of fewer follow the rows."""
        rank = max(x.ndim for x in operands)
        return [x.reshape((len(x), *(1,) * (rank - x.ndim), *x.shape[1:])) for x in operands]

    def without_traps(self, operands: Operands, every_row: bool, flat: bool) -> tuple[str | None, Operands]:
        """The rows on which the operator does not trap; where all operands have one shape, of those elements alone. On
        some of the others the tensor function must trap alike."""
        count = len(operands[0])
        if every_row and flat:
            shape, rows = operands[0].shape[1:], [x.reshape(-1) for x in operands]
            good = self.good(rows, len(rows[0]))
            some = np.flatnonzero(~good)[:: max(1, int((~good).sum()) // SAMPLES)][:SAMPLES]
            bad = [[np.full(shape, x[i]) for x in rows] for i in some]
            kept = np.flatnonzero(good)
            size = int(np.prod(shape))
            kept = kept[np.arange(-(-len(kept) // size) * size) % len(kept)] if len(kept) else kept
            left = [x[kept].reshape((-1, *shape)) for x in rows]
        else:
            spread = self.spread(operands) if every_row else operands
            good = (
                self.good(spread, count)
                if every_row
                else np.array([not isinstance(self.value([x[r] for x in operands]), Trap) for r in range(count)])
            )
            bad = [[x[i] for x in operands] for i in np.flatnonzero(~good)[:SAMPLES]]
            left = [x[good] for x in operands]
            self.complete &= bool(good.all())
        for one in bad:
            wrong = compare(self.value(one), kernel_outcome(self.kernel, one))
            if wrong:
                return wrong, left
        return None, left

    def good(self, rows: Operands, count: int) -> Array:
        """The rows on which an elementwise operator does not trap."""
        known = domain(self.op.name, self.attrs, rows)
        if known is not None:
            return np.asarray(known.reshape(count, -1).all(axis=1))
        found = np.ones(count, np.bool_)
        work = Worklist([(0, count)])
        for asked, (low, high) in enumerate(work, 1):
            if asked >= ASKED:
                found[low:high] = False
                self.complete = False
                continue
            with np.errstate(all="ignore"):
                try:
                    self.op.value(self.attrs, *[x[low:high] for x in rows])
                except Trap:
                    if high - low == 1:
                        found[low] = False
                    else:
                        work.add([((low + high) // 2, high), (low, (low + high) // 2)])
        return found


def domain(name: str, attrs: Mapping[str, Any], rows: Operands) -> Array | None:
    """The elements on which an elementwise operator does not trap, where that is known of it."""
    match name, rows:
        case (("left_shift" | "right_shift"), (_, b)):
            of = dtype(b.dtype)
            return np.asarray(np.logical_and(b >= 0, b.astype(np.float64) < of.bits))
        case (("floor_divide" | "truncate_divide" | "floor_mod" | "mod" | "fmod"), (_, b)) if not dtype(
            b.dtype
        ).is_float:
            return np.asarray(np.not_equal(b, 0))
        case _:
            return None


def kernel_outcome(kernel: PrimFunc, operands: Sequence[Array]) -> Any:
    """The results of a tensor function, or its trap."""
    try:
        with np.errstate(all="ignore"):
            return vector.run(kernel, operands)
    except Trap as trap:
        return trap


def lift(x: Array) -> Any:
    """An array of floats as exact bounds; others as they are."""
    return Bounded.exact(x) if dtype(x.dtype).is_float else x


def is_inexact(x: Any) -> bool:
    """Whether a value has bounds that are not single numbers."""
    return isinstance(x, Bounded) and not x.is_exact


def compare(wanted: Any, got: Any) -> str | None:
    """Where a result is not what is wanted: bit for bit but for NaN payloads, or inside the intervals; traps alike."""
    if isinstance(wanted, Trap) or isinstance(got, Trap):
        if isinstance(wanted, Trap) and isinstance(got, Trap) and wanted.kind == got.kind:
            return None
        one, other = (str(x) if isinstance(x, Trap) else "a value" for x in (wanted, got))
        return f"the operator gives {one}, the kernel {other}"
    for i, (w, g) in enumerate(zip(wanted, got, strict=True)):
        wrong = (
            outside_allowed(w, g) if is_inexact(w) else different(np.asarray(w.raw if isinstance(w, Bounded) else w), g)
        )
        if wrong:
            return f"result {i}: {wrong}"
    return None


def different(wanted: Array, got: Array) -> str | None:
    """The first element that differs in its bits; every NaN is one (rule M5)."""
    if wanted.shape != got.shape or wanted.dtype != got.dtype:
        return f"Tensor({got.shape}, {got.dtype}) instead of Tensor({wanted.shape}, {wanted.dtype})"
    bits = np.dtype(f"u{wanted.dtype.itemsize}")
    with np.errstate(all="ignore"):
        missing = np.isnan(wanted) & np.isnan(got) if dtype(wanted.dtype).is_float else np.zeros(got.shape, np.bool_)
    same = np.asarray(np.ascontiguousarray(wanted).view(bits) == np.ascontiguousarray(got).view(bits)).reshape(
        wanted.shape
    )
    same = same | missing
    if same.all():
        return None
    at = tuple(int(i) for i in np.argwhere(~same)[0])
    return (
        f"element {at} is {got[at]}, must be {wanted[at]} ({int(same.size - np.count_nonzero(same))} of {same.size}"
        " differ)"
    )


def outside_allowed(allowed: Bounded, got: Array) -> str | None:
    """The first element outside of its interval, and how many there are, as text; None if all are inside."""
    with np.errstate(all="ignore"):
        inside = contains(allowed, got)
    if bool(np.all(inside)):
        return None
    at = tuple(int(i) for i in np.argwhere(~inside)[0])
    low, high = allowed.interval()
    return (
        f"element {at} is {float(got[at])!r}, allowed is [{float(low[at])!r}, {float(high[at])!r}]"
        f" ({int((~inside).sum())} of {got.size} outside)"
    )
