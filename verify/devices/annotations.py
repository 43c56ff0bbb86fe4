"""What the source says of devices holds in the planned module (specs/verify.md, "devices").

Both modules are walked in step: they are equal but for devices. A value of the source that is annotated or copied is a
chain of requirements, the planned one a chain of places; the requirements must be met in their order.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import TypeAlias

from assay.semantics import graph
from assay.semantics.devices import ANYWHERE, VirtualDevice
from assay.semantics.errors import Span
from assay.semantics.graph.effects import is_opaque
from assay.semantics.graph.nodes import bound_by
from assay.semantics.walk import Worklist, ids
from assay.verify.devices.erase import Eraser, value_chain


@dataclass(frozen=True)
class Broken:
    """A rule that a planned module breaks: its name, what is wrong, and where."""

    verdict: str
    detail: str
    where: Span | None = None

    def __str__(self) -> str:
        return f"{self.verdict}: {self.detail}" + (f" ({self.where})" if self.where is not None else "")


Step: TypeAlias = tuple[list[graph.Expr], list[graph.Expr]]
"""A use of a value in the source and in the planned module: the value, and what is made of it up to the use."""


def in_step(pairs: Iterable[tuple[graph.Function, graph.Function]], old: Eraser, new: Eraser) -> Iterator[Step]:
    """All uses in functions that are equal but for devices, in both modules at once; each value before its parts."""
    walked: set[tuple[int, int]] = set()
    work = Worklist[tuple[graph.Expr, graph.Expr]](pairs, ids)
    for use in work:
        wanted, got = value_chain(use[0], old), value_chain(use[1], new)
        yield wanted, got
        a, b = wanted[0], got[0]
        if (id(a), id(b)) not in walked:
            walked.add((id(a), id(b)))
            work.add(zip(a.children, b.children, strict=True))


def lost_annotations(steps: Iterable[Step], old: Eraser, new: Eraser) -> Iterator[Broken]:
    """What the source says of devices and the planned module does not keep."""
    for wanted, got in steps:
        yield from _along(wanted, got, new)
        a, b = wanted[0], got[0]
        if is_free(a) and len(wanted) == 1 and len(got) > 1:
            yield Broken("constant", f"{graph.show_head(a)} is copied; it is a constant wherever it is used", a.span)
        written = any(id(n) in old.remade for n in wanted)  # by the user
        for field, whole in zip(got[1:], got, strict=False):
            if isinstance(field, graph.TupleGetItem) and id(whole) in new.remade and not written:
                yield Broken(
                    "projection", f"{graph.show_head(field)}: the tuple is copied for one field of it", field.span
                )
        for v, w in zip(bound_by(a), bound_by(b), strict=True):
            if not w.device.covers(v.device):
                yield _wrong(v, v.device, w.device)
        match a, b:
            case graph.Let(), graph.Let():
                yield from _fixed(a.value, b.var)
            case graph.Function(), graph.Function() if not is_opaque(a):
                yield from _fixed(graph.let_chain(a.body)[1], b.body)
            case _:
                pass


def _along(wanted: list[graph.Expr], got: list[graph.Expr], new: Eraser) -> Iterator[Broken]:
    """A chain of requirements against a chain of places: the value itself first, then what is made of it, in order.

    What an annotation says of its result alone draws the value there; where the user of it is elsewhere, nothing has to
    pass there.
    """
    needs: list[tuple[graph.Expr, VirtualDevice]] = [(wanted[0], wanted[0].device)]

    def also(node: graph.Expr, device: VirtualDevice) -> Iterator[Broken]:
        both = needs[-1][1].join(device)
        if both is None:
            yield Broken(
                "annotation", f"{graph.show_head(node)} is said to be on {needs[-1][1]} and on {device}", node.span
            )
        needs[-1] = (node, both or device)

    for node in wanted[1:]:
        match node:
            case graph.OnDevice():
                if node.constrain_body:
                    yield from also(node, node.wanted)
                if node.constrain_body and node.constrain_result:
                    yield from also(node, node.device)
                else:  # a copy may stand behind it, of which more is said
                    needs.append((node, ANYWHERE))
            case graph.TupleGetItem():
                yield from also(node, node.device)
            case _:
                needs.append((node, node.device))
    places = [n.device for n in got]
    if isinstance(got[0], graph.Tuple) and not places[0].covers(needs[0][1]):
        # a tuple that is written out is copied by writing it out again, of copies of its fields
        if all(any(n.device.covers(needs[0][1]) for n in value_chain(f, new)) for f in got[0].fields):
            places.insert(0, needs[0][1])
    at = 0
    for i, (node, need) in enumerate(needs):
        while i and at < len(places) and not places[at].covers(need):
            at += 1
        if at == len(places) or not places[at].covers(need):
            yield _wrong(node, need, places[0] if i == 0 else places[-1])
            return


def is_free(node: graph.Expr) -> bool:
    """Whether a node is a constant of which nothing is said."""
    return isinstance(node, graph.Constant) and node.device == ANYWHERE


def _fixed(value: graph.Expr, kept: graph.Expr) -> Iterator[Broken]:
    """A user's annotation that is the value of a let, or the body of a function, holds for what it names too."""
    if isinstance(value, graph.OnDevice) and value.constrain_body and not kept.device.covers(value.wanted):
        yield _wrong(value, value.wanted, kept.device)


def _wrong(node: graph.Expr, wanted: VirtualDevice, got: VirtualDevice) -> Broken:
    what = f"variable {node.name}" if isinstance(node, graph.Var) else graph.show_head(node)
    return Broken(
        "annotation",
        f"{what} is said to be on {wanted if wanted != ANYWHERE else 'any device'}, but is on {got}",
        node.span,
    )
