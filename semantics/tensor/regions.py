"""What blocks declare of their accesses, and which of that is evident (rule M6.11; specs/semantics.md, "Tensor IR").

A block that says what it reads or writes touches nothing else, but for what begins inside it. A region counts under the
name that it was declared for: an access through a view is an access of the view's source too. What is declared as
written may be read as well: TVM's passes leave out the reads of what a reduction adds to. TVM's root block, which has
no iterators and two empty lists, says nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from assay.semantics import scalar
from assay.semantics.dtypes import INT64
from assay.semantics.integers.linear import Form, combined
from assay.semantics.integers.ranges import EVERYTHING
from assay.semantics.tensor.statements import Block
from assay.semantics.tensor.views import Region, View
from assay.semantics.tensor.within import Within
from assay.semantics.walk import post_order


def is_checked(block: Block, outermost: bool) -> bool:
    """Whether a block says anything of its accesses; `outermost`: whether it stands in no block that does."""
    if block.reads is None and block.writes is None:
        return False
    says_nothing = not block.reads and not block.writes and block.reads is not None and block.writes is not None
    return not (outermost and says_nothing and not block.iterators)


def concerned(region: Region) -> list[tuple[scalar.Expr, ...] | None]:
    """For each dimension the first index, and the one after the last if that is not just one more.

    None where nothing is to be checked: the whole of a dimension, for which bounds are checked anyway; what depends on
    memory, which may change; and what may trap.
    """
    found: list[tuple[scalar.Expr, ...] | None] = []
    for start, stop, n in zip(region.starts, region.stops, region.buffer.shape, strict=True):
        parts = (start,) if stop is None else (start, stop)
        whole = stop is not None and _constant(start) == 0 and _same_size(stop, n)
        found.append(parts if not whole and all(map(_is_sure, parts)) else None)
    return found


def uncovered(region: Region, indices: Sequence[scalar.Expr], within: Within) -> list[scalar.Expr]:
    """What must hold, and is not evident, for an element to lie in a region."""
    found: list[scalar.Expr] = []
    for i, parts in zip(indices, concerned(region), strict=True):
        if parts is None:
            continue
        start, stop = scalar.cast(parts[0], INT64), scalar.cast(parts[-1], INT64)
        at = scalar.cast(i, INT64)
        least = _least(i, parts[0], within)
        if len(parts) == 1:
            most = _least(parts[0], i, within)
            if least is None or least < 0 or most is None or most < 0:
                found.append(scalar.apply("eq", at, start))
            continue
        if least is None or least < 0:
            found.append(start <= at)
        most = _least(parts[1], i, within)
        if most is None or most < 1:
            found.append(at < stop)
    return found


@dataclass(frozen=True)
class AtMost:
    """That `low` is at most `high`, two int64 expressions, else a trap of that kind."""

    low: scalar.Expr
    high: scalar.Expr
    kind: str
    message: str

    def is_evident(self, within: Within) -> bool:
        """Whether it holds by the ranges and facts of `within`, so that a run needs no check."""
        least = _least(self.high, self.low, within)
        return scalar.provably_equal(self.low, self.high) or (least is not None and least >= 0)


def matching(view: View) -> list[AtMost]:
    """What must hold for a buffer to be a match of a region: the region lies in its source and has the buffer's
    shape."""
    region = view.region
    if region is None:
        return []
    found: list[AtMost] = []
    name = view.buffer.name
    skipped = len(region.starts) - len(view.buffer.shape)
    for k, (start, stop, n) in enumerate(zip(region.starts, region.stops, region.buffer.shape, strict=True)):
        first = _int64(start)
        last = first + 1 if stop is None else _int64(stop)
        size = scalar.const(1) if stop is None else simplified(last - first)
        outside = f"the region that {name} matches leaves dimension {k} of {region.buffer.name}"
        found += [
            AtMost(scalar.const(0), first, "out of bounds", outside),
            AtMost(last, _int64(n), "out of bounds", outside),
        ]
        wanted = _int64(view.buffer.shape[k - skipped]) if k >= skipped else scalar.const(1)
        differs = f"{name} has another size than dimension {k} of the region of {region.buffer.name} that it matches"
        found += [AtMost(wanted, size, "shape", differs), AtMost(size, wanted, "shape", differs)]
    return found


def _int64(e: scalar.Expr | int) -> scalar.Expr:
    return (
        scalar.const(int(e.value) if isinstance(e, scalar.Const) else e)
        if isinstance(e, (int, scalar.Const))
        else scalar.cast(e, INT64)
    )


def simplified(e: scalar.Expr) -> scalar.Expr:
    """The expression in its normal form."""
    made = scalar.simplify(e)
    return made if isinstance(made, scalar.Expr) else scalar.const(made)


def _is_sure(root: scalar.Expr) -> bool:
    """Whether an expression has a value, and the same one as long as its variables have theirs."""
    for node in post_order(root):
        match node:
            case scalar.Load() | scalar.Choice():
                return False
            case scalar.Cast() if not node.arg.dtype.is_integer:
                return False
            case scalar.Apply() if scalar.may_trap(node):
                return False
    return True


def _constant(e: scalar.Expr) -> int | None:
    return int(e.value) if isinstance(e, scalar.Const) else None


def _same_size(stop: scalar.Expr, size: scalar.Expr | int) -> bool:
    if isinstance(size, int):
        return _constant(stop) == size
    number = scalar.Interner()
    return number(stop) == number(size) or number(scalar.cast(stop, INT64)) == number(scalar.cast(size, INT64))


def _least(a: scalar.Expr, b: scalar.Expr, within: Within) -> int | None:
    """The least that `a - b` can be, as far as is evident."""
    number = scalar.Interner()
    if number(a) == number(b):
        return 0
    atoms: dict[int, scalar.Expr] = {}
    left, right = _form(a, number, atoms, within), _form(b, number, atoms, within)
    if left is None or right is None:
        return None
    return left.plus(right, -1).range(lambda k: within.interval(atoms[k]) or EVERYTHING)[0]


def _form(
    root: scalar.Expr, number: scalar.Interner, atoms: dict[int, scalar.Expr], within: Within
) -> Form[int] | None:
    """An integer expression as a sum of numbered atoms; None where a step of it may wrap."""
    forms: dict[int, Form[int]] = {}
    for node in post_order(root, lambda n: n.children if _is_sum(n) else ()):
        if within.interval(node) is None:
            return None
        match node:
            case scalar.Const():
                forms[id(node)] = Form({}, int(node.value))
            case scalar.Cast(arg=arg) if _is_sum(node):
                forms[id(node)] = forms[id(arg)]
            case scalar.Apply(op=op, args=args) if _is_sum(node):
                made = combined(op, [forms[id(a)] for a in args])
                if made is None:
                    return None
                forms[id(node)] = made
            case _:
                atoms[number(node)] = node
                forms[id(node)] = Form({number(node): 1})
    return forms[id(root)]


def _is_sum(node: scalar.Expr) -> bool:
    return (isinstance(node, scalar.Apply) and node.op in ("add", "sub", "mul")) or (
        isinstance(node, scalar.Cast) and node.arg.dtype.is_integer
    )
