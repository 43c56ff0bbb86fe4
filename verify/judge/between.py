"""Pieces of a model between tensors that are known (specs/verify.md, "Recordings", "Two programs").

Of each known tensor the piece is the smallest one that makes it from other known tensors and the inputs. Given these,
its bounds are those of a shallow program, however deep the model is.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any, Protocol, runtime_checkable

import numpy as np

from assay.semantics.graph import Call
from assay.verify.backends.protocol import Prepared, Subject
from assay.verify.judge.by_pieces import Coverage, JudgedInPieces
from assay.verify.judge.outcome import PieceFinding
from assay.verify.judge.pieces import Dataflow, Piece, onnx_title
from assay.verify.judge.piecewise import Piecewise, Tensors
from assay.verify.oracle import Verdict, oracle_of

Array = np.ndarray[Any, Any]


@runtime_checkable
class Told(Protocol):
    """What is judged by tensors that are known of it, and runs no pieces: a recording, a second program. As a backend
    it keeps nothing from run to run. `rests` is what a verdict on it rests on, and `once` whether it is of one set of
    inputs, the first."""

    rests: str
    once: bool

    @property
    def name(self) -> str:
        """How a person calls it."""
        ...

    def prepare(self, subject: Subject, wanted: Sequence[str]) -> Prepared:
        """As a backend prepares."""
        ...

    def shown(self, inputs: Mapping[str, Array]) -> Mapping[str, Array]:
        """Its tensors on these inputs, by name."""
        ...

    def judge_between(self, run: Piecewise, sample: str, judged: JudgedInPieces, k: int, is_wrong: bool) -> None:
        """Judge the pieces between its tensors on one set of inputs; `is_wrong` where its outputs are known to be."""
        ...


def pieces_between(flow: Dataflow, known: Collection[str]) -> Iterator[Piece]:
    """The pieces that make the known tensors, in the order of the nodes that do; together they hold every node and,
    with what is known between them, every edge. `known` has all outputs."""
    for node in flow.nodes:
        names = [n for n in node.output if n in known]
        if names:
            yield flow.piece_to(names, known)


def between_title(flow: Dataflow, piece: Piece) -> str:
    """A piece for people: the tensor that it makes, of how many nodes, and from what."""
    last = onnx_title(flow.nodes[flow.makers[piece.outputs[0]]])
    if len(piece.nodes) == 1:
        return f"{last}, tensor {piece.outputs[0]}"
    given = [n for n in piece.inputs if n not in flow.settled]
    sources = ", ".join(given[:3]) + (f" and {len(given) - 3} more" if len(given) > 3 else "")
    return f"the {len(piece.nodes)} nodes from {sources or 'constants'} to {piece.outputs[0]} ({last})"


def judge_between(run: Piecewise, sample: str, judged: JudgedInPieces, k: int, shown: Tensors) -> None:
    """Judge what somebody's run gave on one set of inputs: each known tensor on those that it was made of."""
    for piece in pieces_between(run.flow, shown):
        verdict = verdict_between(run, judged, k, piece, shown)
        if verdict is not None:
            note(run.flow, judged.found[k], piece, sample, verdict)


def verdict_between(run: Piecewise, judged: JudgedInPieces, k: int, piece: Piece, shown: Tensors) -> Verdict | None:
    """The verdict on the tensors that a piece makes; None where our definition cannot say: so what is not right, where
    elements are taken at places that may be off, which a piece in ONNX's operators does not tell."""
    cases, _ = run.evaluated(piece, {k: {**run.inputs[k], **shown}})
    if k not in cases:
        return None
    case = cases[k]
    found = oracle_of(case.subject, judged.accepts).judge(case.expected, {n: shown[n] for n in piece.outputs})
    made = [n for v in piece.nodes for n in run.flow.nodes[v].output]
    return None if found.outcome == "wrong" and any(_takes_near(run.flow, n) for n in made) else found


def _takes_near(flow: Dataflow, name: str) -> bool:
    made = flow.shown.get(name) if isinstance(flow.shown, Mapping) else None
    return isinstance(made, Call) and bool(getattr(made.op, "name", "") == "take" and made.attrs["near"])


def note(flow: Dataflow, coverage: Coverage, piece: Piece, sample: str, verdict: Verdict) -> PieceFinding:
    """Keep what is said of a piece, and give it. With one that is right the edges are that lead into it from what is
    known."""
    coverage.judged += 1
    found = PieceFinding(between_title(flow, piece), flow.names(piece), sample, verdict)
    into = {(flow.makers[n], v) for v in piece.nodes for n in flow.reads[v] if n in flow.makers and n in piece.inputs}
    coverage.add(flow, piece, found, into)
    return found
