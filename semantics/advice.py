"""What a message may advise about sizes that are not known: only what can be done
(specs/semantics.md, "M4 Dims")."""

from __future__ import annotations

from collections.abc import Iterable

from assay.semantics.scalar import Dim, show, variables, without_value
from assay.semantics.types import Type, symbols

MOST = 8
"""How many names a message lists."""


def about_sizes(unknown: Iterable[Dim], inputs: Iterable[Type]) -> str:
    """How the sizes in `unknown` get numbers. Only a symbol in the type of an input of main can be given one, by its
    name."""
    unknown = tuple(unknown)
    names = {v.name: None for d in unknown for v in variables(d)}
    there = {v.name: None for t in inputs for v in symbols(t)}
    can, cannot = [n for n in names if n in there], [n for n in names if n not in there]
    said = [f"the size {show(d)} has no value: {why}" for d in unknown if (why := without_value(d))][:1]
    said += (
        [f"give {' '.join(f'--dim {n}=4' for n in can[:MOST])}{' and so on' if can[MOST:] else ''}, or other numbers"]
        if can
        else []
    )
    if cannot:
        listed = ", ".join(cannot[:MOST]) + (" and others" if cannot[MOST:] else "")
        are = "is no size" if len(cannot) == 1 else "are no sizes"
        have = ", ".join([*there][:MOST]) or "none"
        said.append(f"{listed} {are} of main's inputs, so --dim cannot help (those are: {have})")
    return "; ".join(said)
