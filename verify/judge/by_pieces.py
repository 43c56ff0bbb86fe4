"""Backends judged on the pieces of a model (specs/verify.md, "Pieces").

Each backend gets each window as a model of its own and shows its outputs only, so it makes of it what it makes of these
nodes in the whole. A window of which nothing can be said is judged in smaller pieces; one that is wrong too, until no
smaller one is wrong.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field

from assay.semantics.errors import AssayError, Trap
from assay.verify.backends import Backend
from assay.verify.backends.protocol import OUTCOMES, Prepared, Subject
from assay.verify.evidence import plural
from assay.verify.judge.outcome import PieceFinding
from assay.verify.judge.pieces import Dataflow, Piece, onnx_title
from assay.verify.judge.piecewise import Case, Piecewise, Tensors
from assay.verify.oracle import Accepts, Verdict, oracle_of
from assay.verify.oracle.layers import BITWISE
from assay.verify.oracle.trial import run_outputs

NARROWED = 3
"""How many wrong windows of one run are narrowed down; the others are named as they are."""

Progress = Callable[[int, int], None]


@dataclass
class Coverage:
    """What pieces have shown of one backend on one set of inputs."""

    nodes: set[int] = field(default_factory=set)
    edges: set[tuple[int, int]] = field(default_factory=set)
    """What lies in pieces that are right."""
    wrong: list[PieceFinding] = field(default_factory=list)
    unsure: list[PieceFinding] = field(default_factory=list)
    judged: int = 0
    opened: str = ""
    """What of the first piece is as the standard leaves open."""
    stopped: str = ""
    """Why it is not all of the model, "" where it is."""

    def add(self, flow: Dataflow, piece: Piece, found: PieceFinding, into: Collection[tuple[int, int]] = ()) -> None:
        """Keep what is said of a piece. What is right holds its nodes, the edges between them, and those `into` it."""
        verdict = found.verdict
        if verdict.outcome in ("right", "open"):
            self.nodes.update(piece.nodes)
            self.edges.update(flow.held(piece), into)
            if verdict.outcome == "open":
                self.opened = self.opened or f"{found.title}: {verdict.detail}"
            return
        to = self.wrong if verdict.outcome == "wrong" else self.unsure
        if all(found.nodes != f.nodes for f in to):
            to.append(found)

    def missing(self, flow: Dataflow) -> str:
        """What no piece has shown to be right, "" where that is nothing."""
        edges = sorted(flow.edges - self.edges)
        lone = [i for i in range(len(flow.nodes)) if i not in self.nodes]
        if lone:
            return f"{plural(len(lone), 'node')}, {onnx_title(flow.nodes[lone[0]])} among them"
        if edges:
            u, v = edges[0]
            pair = f"{onnx_title(flow.nodes[u])} with {onnx_title(flow.nodes[v])}"
            return f"{plural(len(edges), 'pair')} of neighbours together, {pair} among them"
        return ""


@dataclass(eq=False)
class JudgedInPieces:
    """One backend, and the sets of inputs, by their places, on which it is judged so."""

    backend: Backend
    accepts: Accepts
    found: dict[int, Coverage]


def judge_pieces(
    run: Piecewise, samples: Sequence[str], judged: Sequence[JudgedInPieces], progress: Progress = lambda i, n: None
) -> None:
    """Judge every window of a model, and fill what is found. `samples` are the names of the sets of inputs."""
    windows = list(run.flow.windows())
    for i, (window, cases) in enumerate(run.steps(windows)):
        progress(i, len(windows))
        for each in judged:
            _Window(run, samples, each).judge(window.piece, cases)


def right_alone(run: Piecewise, judged: JudgedInPieces, tensor: str, given: Tensors) -> bool:
    """Whether a backend is right on the node that makes a tensor, alone, on the tensors that are given; not, where one
    that the node reads is not among them, or nothing comes of it."""
    flow = run.flow
    if tensor not in flow.makers:
        return False
    node = flow.makers[tensor]
    constants = [flow.makers[n] for n in flow.reads[node] if n in flow.settled and n in flow.makers and n not in given]
    piece = flow.piece([node, *constants])
    if any(n not in given for n in piece.inputs):
        return False
    cases, _ = run.evaluated(piece, {0: given})
    return 0 in cases and _Window(run, (), judged).verdict(cases[0]).outcome in ("right", "open")


@dataclass(eq=False)
class _Window:
    run: Piecewise
    samples: Sequence[str]
    judged: JudgedInPieces
    prepared: dict[int, tuple[Subject, Prepared]] = field(default_factory=dict)
    """By the piece's subject, while the window is judged."""

    def judge(self, piece: Piece, cases: Mapping[int, Case]) -> None:
        """Judge a window on every set of inputs."""
        for k, coverage in self.judged.found.items():
            if k not in cases:
                continue
            verdict = self.verdict(cases[k])
            coverage.judged += 1
            told = verdict.outcome in ("right", "open")
            told |= verdict.outcome == "wrong" and len(coverage.wrong) >= NARROWED
            inner = None if told else self._inside(piece, k)
            if inner is None:
                self._add(coverage, piece, k, verdict)
            elif verdict.outcome == "wrong":
                self._narrow(coverage, piece, k, inner, verdict)
            else:
                self._decide(coverage, piece, k, inner, verdict)

    def verdict(self, case: Case) -> Verdict:
        """The verdict on the backend's outputs for a piece; "refused", or how it ended, where it gives none."""
        subject = case.subject
        try:
            if id(subject) not in self.prepared:
                self.prepared[id(subject)] = subject, self.judged.backend.prepare(subject, subject.outputs)
            outputs = run_outputs(self.judged.backend, self.prepared[id(subject)][1], case.expected, case.inputs)
        except AssayError as why:
            if why.label == "backend.C8":
                return Verdict("wrong", BITWISE, why.message)
            if why.label not in OUTCOMES and not isinstance(why, Trap):
                raise
            return Verdict("undecided", "", why.message)
        return oracle_of(case.subject, self.judged.accepts).judge(case.expected, outputs)

    def _inside(self, piece: Piece, k: int) -> Tensors | None:
        """All tensors of a window on one set of inputs."""
        flow = self.run.flow
        made = [n for i in piece.nodes for n in flow.nodes[i].output if n in flow.readers]
        _, found = self.run.evaluated(piece, {k: self.run.live[k]}, made)
        return {**self.run.live[k], **found[k]} if k in found else None

    def _part(self, part: Piece, k: int, inner: Tensors) -> Verdict | None:
        cases, _ = self.run.evaluated(part, {k: inner})
        return self.verdict(cases[k]) if k in cases else None

    def _narrow(self, coverage: Coverage, piece: Piece, k: int, inner: Tensors, verdict: Verdict) -> None:
        """Keep the smallest piece found that is wrong by itself."""
        found = True
        while found:
            found = False
            for part in self.run.flow.parts(piece):
                smaller = self._part(part, k, inner)
                if smaller is not None and smaller.outcome == "wrong":
                    piece, verdict, found = part, smaller, True
                    break
        self._add(coverage, piece, k, verdict)

    def _decide(self, coverage: Coverage, piece: Piece, k: int, inner: Tensors, verdict: Verdict) -> None:
        """Judge the parts of a piece of which nothing is known, and theirs."""
        flow = self.run.flow
        parts = list(flow.parts(piece))
        if not parts:
            self._add(coverage, piece, k, verdict)
        for part in parts:
            if set(part.nodes) <= coverage.nodes and flow.held(part) <= coverage.edges:
                continue
            found = self._part(part, k, inner)
            if found is None:
                return
            coverage.judged += 1
            if found.outcome in ("right", "open"):
                self._add(coverage, part, k, found)
            elif found.outcome == "wrong":
                self._narrow(coverage, part, k, inner, found)
            else:
                self._decide(coverage, part, k, inner, found)

    def _add(self, coverage: Coverage, piece: Piece, k: int, verdict: Verdict) -> None:
        flow = self.run.flow
        coverage.add(flow, piece, PieceFinding(flow.title(piece), flow.names(piece), self.samples[k], verdict))
