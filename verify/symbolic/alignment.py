"""Goals about where views begin, and what is assumed of where memory does (specs/verify.md, "Proofs for all sizes").

Memory begins at a multiple of what its buffer declares (rule M6.14): no tensor function can see to that, so it is an
assumption, and the report has it. Where a view begins follows from its offset.
"""

from __future__ import annotations

from collections.abc import Iterator
from math import lcm

import z3

from assay.semantics.scalar.smt import Term
from assay.semantics.tensor import Buffer
from assay.semantics.tensor.places import declared_number
from assay.verify.symbolic.events import Life, ViewWindow, root_of, views_below
from assay.verify.symbolic.function import Function
from assay.verify.symbolic.goals import Goal
from assay.verify.symbolic.instance import Instance, unravelled


def aligned(f: Function) -> Iterator[Goal]:
    """Every view begins at a multiple of its `align` in bytes, and of its `offset_factor` in elements."""
    for window in f.events.windows:
        buffer = window.view.buffer
        factor, align = declared_number(buffer, "offset_factor"), declared_number(buffer, "align")
        for number, unit, what in ((factor, buffer.dtype.itemsize, "elements"), (align, 1, "bytes")):
            if number is None:
                continue
            at = f.visit(window.site, window)
            begins = _first_byte(at.instance, window)
            if unit > 1:
                begins, _ = at.query.terms.divided(begins, z3.IntVal(unit))
            _, rest = at.query.terms.divided(begins, z3.IntVal(number))
            claim = f"{buffer.name} begins at a multiple of {number} {what} of its memory"
            yield at.goal("aligned", claim, [rest != 0], (buffer.name,))


def memory(f: Function) -> list[str]:
    """What is assumed of where memory begins."""
    needed: dict[Buffer, int] = {}
    begins: list[Life | ViewWindow] = [*f.events.lives, *f.events.windows]
    for frame, buffer in [*((None, b) for b in f.func.params), *((begin, begin.buffer) for begin in begins)]:
        align = declared_number(buffer, "align")
        if align is not None:
            root, _ = root_of(buffer, frame)
            needed[root] = lcm(align, needed.get(root, 1))
    return [
        f"the memory of {b.name} begins at a multiple of {n} bytes: a planned program is checked for it"
        for b, n in needed.items()
    ]


def _first_byte(instance: Instance, window: ViewWindow) -> Term:
    """The byte of the memory at which a view begins, as `assay.semantics.tensor.places.first_byte` has it in
    numbers."""
    terms, view = instance.query.terms, window.view
    byte = instance.value(view.offset, window.site) * view.buffer.dtype.itemsize
    for begin in views_below(view.source, window.parent):
        outer, site = begin.view, begin.site
        width = outer.buffer.dtype.itemsize
        flat, rest = terms.divided(byte, z3.IntVal(width))
        index = unravelled(terms, flat, [z3.If(d > 1, d, 1) for d in instance.shapes[begin]])
        place = instance.value(outer.offset, site)
        for i, s in zip(index, outer.strides, strict=True):
            place = place + i * instance.value(s, site)
        byte = place * width + rest
    return byte
