"""Whether a second program means what the first does (specs/verify.md, "Two programs").

It is equal by proof, or it is judged as a backend is: what it gives by our definition, within the bounds of the first
and the spread of its correct runs; then piece by piece between tensors that both programs have by one name. A name may
mean something else in the second program, so what differs there is told, and is wrong only if an output is.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from assay.interp.graph import run
from assay.semantics.errors import Invalid
from assay.semantics.leaves import output_leaves
from assay.semantics.module import Module
from assay.semantics.types import Type, same_type
from assay.verify.backends.protocol import Prepared, Subject, cannot
from assay.verify.evidence import listed
from assay.verify.judge.between import note, pieces_between, verdict_between
from assay.verify.judge.by_pieces import Coverage, JudgedInPieces
from assay.verify.judge.outcome import PieceFinding
from assay.verify.judge.pieces import Dataflow
from assay.verify.judge.piecewise import Piecewise, Tensors, run_showing
from assay.verify.oracle.declarations import EVERYTHING_KEPT, Accepts
from assay.verify.simplify import differs

Array = np.ndarray[Any, Any]
ROUNDS = 8
"""How often tensors that differ are taken for other ones of the same name, and larger pieces are judged."""


@dataclass(eq=False)
class SecondProgram:
    """A program as a backend: what it gives by our definition."""

    name: str
    subject: Subject
    accepts: Accepts = EVERYTHING_KEPT
    rests: str = "shared"
    once: bool = False

    @cached_property
    def flow(self) -> Dataflow:
        """Its nodes."""
        return Dataflow(self.subject.model)

    def prepare(self, subject: Subject, wanted: Sequence[str]) -> Prepared:
        """Give a function that runs it. Unsupported: more than outputs is wanted (backend.C2)."""
        if set(wanted) - set(subject.outputs):
            raise cannot(self.name, "only outputs are comparable")

        def act(inputs: Mapping[str, Array]) -> dict[str, Any]:
            return dict(run(self.subject.module, inputs))

        return act

    def shown(self, inputs: Mapping[str, Array]) -> dict[str, Array]:
        """Its tensors by name on some inputs, those that a run shows where they are made, and its outputs."""
        made = run_showing(self.subject, inputs, self.subject.tensors)
        return {n: v for n, v in made.items() if isinstance(v, np.ndarray)}

    def judge_between(self, run: Piecewise, sample: str, judged: JudgedInPieces, k: int, is_wrong: bool) -> None:
        """Judge what it gives between tensors that both programs have."""
        judge_second(run, sample, judged, k, self, is_wrong)


def require_same_interface(first: Subject, second: Subject, name: str) -> None:
    """Invalid (judge.C3): inputs or outputs are not the same by name and type."""
    for what, one, two in (
        ("input", _inputs(first.module), _inputs(second.module)),
        ("output", _outputs(first), _outputs(second)),
    ):
        there = listed([f"{n}: {t}" for n, t in one.items()], 8)
        for n in (*one, *two):
            if n not in two:
                raise Invalid(f"{name} has no {what} {n!r}; the first program has {there}", label="judge.C3")
            if n not in one:
                raise Invalid(f"{name} has an {what} {n!r} more; the first program has {there}", label="judge.C3")
            if not same_type(one[n], two[n]):
                raise Invalid(
                    f"the {what} {n!r} of {name} is {two[n]}, and that of the first program {one[n]}", label="judge.C3"
                )


def _inputs(module: Module) -> dict[str, Type]:
    return {p.name: p.type for p in module.main.params}


def _outputs(of: Subject) -> dict[str, Type]:
    return dict(output_leaves(of.module.main))


def unproved(first: Subject, second: Subject) -> str:
    """Why it is not proved that two programs of one interface give the same for every input; "" where it is."""
    one, two = first.module.main, second.module.main
    by_name = {p.name: p for p in two.params}
    params = tuple(by_name[p.name] for p in one.params)
    two = replace(two, params=params, type=replace(two.func_type, params=tuple(p.type for p in params)))
    if list(_outputs(first)) != list(_outputs(second)):
        return "their outputs are in another order"
    return differs(one, first.module, two, second.module)


# --- pieces -----------------------------------------------------------------------------------------------------------


def comparable(first: Dataflow, second: Dataflow, shared: Collection[str]) -> list[str]:
    """Those of the shared tensors, all outputs among them, between which pieces of both programs stand side by side:
    the second makes each of them from nothing but what the first makes it from."""
    kept = dict.fromkeys(n for n in first.makers if n in shared)
    again = True
    while again:
        again = False
        for name in list(kept):
            if name not in kept:
                continue
            reads, given = {*first.piece_to([name], kept).inputs}, _given(second, name, kept)
            if given <= reads:
                continue
            # a larger piece of the first may read what the second does; else the tensor stands for something else
            spare = [n for n in reads - given if n in kept] or [name] * (name not in first.results) or [*given - reads]
            dropped = [n for n in spare if n in kept and n not in first.results]
            again = again or bool(dropped)
            for n in dropped:
                del kept[n]
    return list(kept)


def _given(flow: Dataflow, name: str, known: Collection[str]) -> set[str]:
    if name not in flow.makers:
        return {name} - {*flow.stored}
    return {*flow.piece_to([name], known).inputs}


def judge_second(
    run: Piecewise, sample: str, judged: JudgedInPieces, k: int, second: SecondProgram, is_wrong: bool
) -> None:
    """Judge what a second program gave on one set of inputs between tensors that both have by one name. The first that
    differs is named. It is wrong if outputs are, which may be known, or are found to be in larger pieces without the
    names that differ."""
    flow, coverage = run.flow, judged.found[k]
    shown = second.shown(run.inputs[k])
    shared = {
        n for n in shown if n in flow.results or n in flow.makers and n in second.flow.makers and n not in flow.settled
    }
    first: PieceFinding | None = None
    for i in range(ROUNDS):
        kept = comparable(flow, second.flow, shared)
        here: Tensors = {n: shown[n] for n in kept}
        found = [(p, verdict_between(run, judged, k, p, here)) for p in pieces_between(flow, kept)]
        odd = {n for p, v in found if v is not None and v.outcome == "wrong" for n in p.outputs} - flow.results
        if odd:
            piece, verdict = next((p, v) for p, v in found if v is not None and not odd.isdisjoint(p.outputs))
            first = first or note(flow, Coverage(), piece, sample, verdict)
            shared -= odd
            if not is_wrong and i < ROUNDS - 1:
                continue
        for piece, told in found:
            if told is not None and (told.outcome != "wrong" or not flow.results.isdisjoint(piece.outputs)):
                note(flow, coverage, piece, sample, told)
        break
    if first is not None and (coverage.wrong or is_wrong):
        coverage.wrong.insert(0, first)
    elif first is not None and coverage.missing(flow):
        coverage.unsure.insert(0, first)
