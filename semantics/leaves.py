"""The tensors that go into and out of a function, by name (specs/semantics.md, "Modules").

A tensor that is a part of a tuple is called after the tuple and its place: `x.0`, `x.1.0`.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from assay.semantics.errors import Invalid
from assay.semantics.graph import Function
from assay.semantics.types import TupleType, Type
from assay.semantics.walk import occurrences

Leaves = list[tuple[str, Type]]


def leaves(name: str, of: Type) -> Leaves:
    """What is in a value of that type, left to right, by name: what is no tuple."""

    def inside(part: tuple[str, Type]) -> Leaves:
        at, t = part
        return [(f"{at}.{i}", field) for i, field in enumerate(t.fields)] if isinstance(t, TupleType) else []

    return [part for part in occurrences((name, of), inside) if not isinstance(part[1], TupleType)]


def input_leaves(function: Function) -> Leaves:
    """The parts of the parameters. Invalid (parts.C1): two have one name."""
    return _distinct([part for p in function.params for part in leaves(p.name, p.type)])


def output_leaves(function: Function) -> Leaves:
    """The parts of the results. Invalid (parts.C1): two have one name."""
    found = zip(output_names(function), _results(function), strict=True)
    return _distinct([part for name, of in found for part in leaves(name, of)])


def output_names(function: Function) -> Sequence[str]:
    """What the results are called."""
    return result_names(function, len(_results(function)))


def result_names(function: Function, count: int) -> Sequence[str]:
    """The names of `count` results: what the attribute `outputs` says, or output_0, output_1 and so on. Invalid
    (module.C5): it is no list of so many different texts."""
    names = function.attrs.get("outputs", ())
    is_list = isinstance(names, (tuple, list)) and all(isinstance(n, str) for n in names)
    if not is_list or (names and len(names) != count) or len({*names}) != len(names):
        want = f"a list with a text of its own for each result; results: {count}"
        raise Invalid(f"the attribute outputs is {names!r}, and must be {want}", label="module.C5")
    return names or [f"output_{i}" for i in range(count)]


def _results(function: Function) -> Sequence[Type]:
    of = function.result_type
    return of.fields if isinstance(of, TupleType) else (of,)


def _distinct(found: Leaves) -> Leaves:
    names: Iterable[str] = (name for name, _ in found)
    seen: set[str] = set()
    for name in names:
        if name in seen:
            raise Invalid(f"{name} is the name of two tensors, one a part of a tuple: rename one", label="parts.C1")
        seen.add(name)
    return found
