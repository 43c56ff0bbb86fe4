"""Uses that an operator must refuse: valid ones with one thing damaged (specs/verify.md, "Programs").

The damage follows from the operator's own record: the number of operands, an element type, a number of axes, a size, an
attribute that is missing, unknown, of another type, out of range or of another length. What the operator still takes is
no damage, and the next one is tried; an attribute that no operator has is always refused.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

from assay.semantics.dtypes import DTYPES
from assay.semantics.errors import Invalid
from assay.semantics.ops import operator
from assay.semantics.types import TensorType
from assay.verify.strategies.choosing import Pick, one_of
from assay.verify.strategies.kinds import COMMON
from assay.verify.strategies.operators import ValidUse, dtypes_of, varied
from assay.verify.strategies.recipes import fresh_use

SHARED = ("call.", "dtype.", "axis.", "broadcast.", "type.")
"""Labels of rules that operators share."""


@dataclass(frozen=True, eq=False)
class Refusal:
    """A use that is refused, what was done to it, and the label of the rule that it breaks."""

    use: ValidUse
    damage: str
    label: str


def refused(use: ValidUse) -> str | None:
    """The label of the rule that a use breaks; None for a valid one. What is not Invalid is raised."""
    try:
        assert use.result is not None
    except Invalid as wrong:
        return wrong.label
    return None


def a_refusal(name: str, pick: Pick, dtypes: Sequence[str] = COMMON) -> Refusal:
    """A use of an operator that breaks one of its rules."""
    use = fresh_use(name, pick, dtypes) if pick(2) == 0 else varied(operator(name), pick, dtypes)
    ways = list(WAYS)
    while ways:
        damage = ways.pop(pick(len(ways)))
        made = damage(pick, use)
        if made is None:
            continue
        what, damaged = made
        label = refused(damaged)
        if label is not None:
            return Refusal(damaged, what, label)
    damaged = replace(use, attrs={**use.attrs, "nonsense": 1})
    return Refusal(damaged, "an attribute that no operator has", refused(damaged) or "")


Damage = Callable[[Pick, ValidUse], tuple[str, ValidUse] | None]


def _count(pick: Pick, use: ValidUse) -> tuple[str, ValidUse] | None:
    given = use.operands
    if given and pick(2) == 0:
        return "an operand less", replace(use, operands=given[:-1])
    return "an operand more", replace(
        use, operands=(*given, given[0] if given else TensorType((2,), DTYPES["float32"]))
    )


def _dtype(pick: Pick, use: ValidUse) -> tuple[str, ValidUse] | None:
    if not use.operands:
        return None
    at = pick(len(use.operands))
    wrong = [n for n in DTYPES if n not in dtypes_of(use.operator.name)] if at == 0 else []
    of = DTYPES[one_of(pick, wrong or [n for n in COMMON if n != use.operands[at].dtype.name])]
    every = pick(2) == 1 and bool(wrong)
    types = (TensorType(t.shape, of) if every or k == at else t for k, t in enumerate(use.operands))
    return f"{'operands' if every else f'operand {at}'} of {of}", replace(use, operands=tuple(types))


def _rank(pick: Pick, use: ValidUse) -> tuple[str, ValidUse] | None:
    return _reshaped(pick, use, lambda s: s[1:] if s and pick(2) == 0 else () if pick(2) else (*s, 2), "another rank")


def _size(pick: Pick, use: ValidUse) -> tuple[str, ValidUse] | None:
    def changed(shape: tuple[Any, ...]) -> tuple[Any, ...]:
        if not shape:
            return (2,)
        at = pick(len(shape))
        return (*shape[:at], one_of(pick, (11, 0, 1)), *shape[at + 1 :])

    return _reshaped(pick, use, changed, "another size")


def _reshaped(
    pick: Pick, use: ValidUse, change: Callable[[tuple[Any, ...]], tuple[Any, ...]], what: str
) -> tuple[str, ValidUse] | None:
    if not use.operands:
        return None
    at = pick(len(use.operands))
    types = list(use.operands)
    types[at] = TensorType(change(types[at].shape), types[at].dtype)
    return f"{what} of operand {at}", replace(use, operands=tuple(types))


def _attribute(pick: Pick, use: ValidUse) -> tuple[str, ValidUse] | None:
    """One attribute replaced by what differs in type, range or length."""
    names = list(use.operator.attrs)
    if not names:
        return None
    name = one_of(pick, names)
    filled = use.operator.check_attrs(use.attrs)
    values = [v for v in wrong_values(filled[name]) if not _same(v, filled[name])]
    value = one_of(pick, values)
    return f"{name}={value!r}", replace(use, attrs={**use.attrs, name: value})


def _same(a: object, b: object) -> bool:
    return type(a) is type(b) and a == b


def wrong_values(value: Any) -> Iterator[Any]:
    """Values beside one: other numbers, other lengths, other types."""
    match value:
        case bool():
            yield from (1, None, "yes")
        case int():
            yield from (-1, value + 1, 100, -100, 0, 1.5, None, "0", True)
        case float():
            yield from (float("nan"), -1.0, "much", None, float("inf"))
        case str():
            yield from ("nonsense", "", None, 3)
        case tuple():
            yield from ((*value, 1), value[:-1], (), None, 1, ("a",))
            for at in range(len(value)):
                one = value[at]
                others: tuple[Any, ...] = (-1, 0, 100, one + 1, 1.5) if isinstance(one, int) else (None,)
                yield from ((*value[:at], other, *value[at + 1 :]) for other in others)
            if len(value) > 1:
                yield (value[0],) * len(value)
            if value:
                yield (-1,) * (len(value) + 1)
        case _:
            yield from (1.5, "nonsense", (0, 0), (9,), -1, float("nan"))


def _numbers(pick: Pick, use: ValidUse) -> tuple[str, ValidUse] | None:
    """All numbers of the tuples among the attributes drawn anew, and one axis made short: each may fit alone."""
    filled = use.operator.check_attrs(use.attrs)
    tuples = {k: v for k, v in filled.items() if isinstance(v, tuple) and v and all(isinstance(n, int) for n in v)}
    if not tuples:
        return None
    drawn = {k: tuple(one_of(pick, (2, 3, 1)) for _ in v) for k, v in tuples.items()}
    if not use.operands or not use.operands[0].ndim:
        return "other numbers", replace(use, attrs={**use.attrs, **drawn})
    first, *rest = use.operands
    shape = (*first.shape[:-1], 1 + pick(2))
    return "other numbers", replace(use, operands=(TensorType(shape, first.dtype), *rest), attrs={**use.attrs, **drawn})


def _missing(pick: Pick, use: ValidUse) -> tuple[str, ValidUse] | None:
    given = list(use.attrs)
    if not given:
        return None
    name = one_of(pick, given)
    return f"no {name}", replace(use, attrs={k: v for k, v in use.attrs.items() if k != name})


def _unknown(pick: Pick, use: ValidUse) -> tuple[str, ValidUse] | None:
    return "an attribute that no operator has", replace(use, attrs={**use.attrs, "nonsense": 1})


WAYS: tuple[Damage, ...] = (
    _size,
    _attribute,
    _attribute,
    _attribute,
    _numbers,
    _rank,
    _dtype,
    _count,
    _missing,
    _unknown,
)
