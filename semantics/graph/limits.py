"""What a person declares of a function's sizes (specs/semantics.md, "Memory planning").

    R.func_attr({"tir_var_upper_bound": {"n": 64}, "tir_var_lower_bound": {"n": 1}})

These are the attributes of TVM's Relax. Whoever plans memory relies on them; a planned program refuses other sizes.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TypeAlias

from assay.semantics.errors import Invalid
from assay.semantics.graph.nodes import Function
from assay.semantics.scalar import Var as Symbol
from assay.semantics.types import symbols

UPPER, LOWER = "tir_var_upper_bound", "tir_var_lower_bound"
ROOMS = "room_for"
"""The attribute that says how great sizes may be that only a run tells, such as that of a tensor which a loop makes
longer: a plan has room for so much."""

Limits: TypeAlias = tuple[tuple[Symbol, int, int | None], ...]
"""A symbol, the least value that it may have, and the greatest; None: no greatest is declared."""


def declared_limits(function: Function) -> Limits:
    """The limits of the symbols in a function's parameters of which something is declared, in their order.

    A symbol without a lower bound is 0 or more, as every dim is. Invalid: the attribute is no dict from names to
    integers of 0 or more (limits.C1), a name is that of no symbol, or of several (limits.C2), a lower bound is above
    the upper one (limits.C3).
    """
    upper, lower = _bounds(function, UPPER), _bounds(function, LOWER)
    by_name: dict[str, dict[Symbol, None]] = {}
    for p in function.params:
        for s in symbols(p.type):
            by_name.setdefault(s.name, {})[s] = None
    for attribute, given in ((UPPER, upper), (LOWER, lower)):
        for name in given:
            if len(by_name.get(name, ())) != 1:
                which = f"two of them are called {name}" if name in by_name else f"none is called {name}"
                told = f"; there are {', '.join(by_name) or 'none'}"
                raise Invalid(
                    f"{attribute} is about the symbols in the types of the parameters, and {which}{told}",
                    where=function.span,
                    label="limits.C2",
                )
    found = []
    for name, those in by_name.items():
        if name in upper or name in lower:
            low, high = lower.get(name, 0), upper.get(name)
            if high is not None and low > high:
                raise Invalid(
                    f"{name} is declared to be at least {low} and at most {high}: no size is both",
                    where=function.span,
                    label="limits.C3",
                )
            found.append((next(iter(those)), low, high))
    return tuple(found)


def declared_rooms(function: Function) -> dict[str, int]:
    """The greatest values of sizes that only a run tells, by name, as far as they are declared. Invalid: the attribute
    is no dict from names to integers of 0 or more (limits.C1)."""
    return _bounds(function, ROOMS)


def with_limits(function: Function, bounds: Mapping[str, tuple[int | None, int | None]]) -> Function:
    """The function with more declared of its symbols, by name: the least and the greatest value, None for what is not
    said. What is no symbol of a parameter is a size that a run tells, and begins at 0. Invalid: what `declared_limits`
    says, and another least value for such a size (limits.C4)."""
    if not bounds:
        return function
    attrs = dict(function.attrs)
    given = {s.name for p in function.params for s in symbols(p.type)}
    for name, (low, _) in bounds.items():
        if name not in given and low:
            told = ", ".join(sorted(given)) or "none"
            what = (
                f"{name} is no size of the inputs, which have {told}; one that a run tells has a greatest value, 0..N"
            )
            raise Invalid(what, where=function.span, label="limits.C4")
    for attribute, end, own in ((LOWER, 0, True), (UPPER, 1, True), (ROOMS, 1, False)):
        said = {name: n for name, ends in bounds.items() if (name in given) is own and (n := ends[end]) is not None}
        if said:
            attrs[attribute] = {**attrs.get(attribute, {}), **said}
    made = replace(function, attrs=attrs)
    declared_limits(made)
    return made


def _bounds(function: Function, attribute: str) -> dict[str, int]:
    given = function.attrs.get(attribute, {})
    if isinstance(given, Mapping):
        wrong = [(n, k) for n, k in given.items() if not isinstance(n, str) or type(k) is not int or k < 0]
        if not wrong:
            return dict(given)
        said = f"{wrong[0][0]!r}: {wrong[0][1]!r}"
    else:
        said = repr(given)
    raise Invalid(
        f"{attribute} has {said}; it is a dict from names of symbols to integers of 0 or more, such as {{'n': 64}}",
        where=function.span,
        label="limits.C1",
    )
