"""Backends judged on a model, without a lowering (specs/verify.md, "judge")."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import onnx

from assay.interp.graph import run
from assay.semantics.bounds import Bounded
from assay.semantics.dtypes import dtype
from assay.semantics.errors import AssayError, Trap, Unpredictable
from assay.semantics.types import TensorType
from assay.verify.backends import Backend, Subject
from assay.verify.backends.protocol import OUTCOMES
from assay.verify.evidence import listed
from assay.verify.judge.by_pieces import Coverage, JudgedInPieces, judge_pieces, right_alone
from assay.verify.judge.candidate import Candidate, Progress
from assay.verify.judge.outcome import GOOD, BackendVerdict, PieceFinding, SampleVerdict, TensorError, tensor_error
from assay.verify.judge.pieces import Dataflow, onnx_title
from assay.verify.judge.piecewise import Piecewise
from assay.verify.judge.samples import Sample
from assay.verify.judge.spread import FEW, RUNS, CorrectRuns, Distance, Spread
from assay.verify.judge.tensors import shown_tensors
from assay.verify.judge.texts import told_in_strings
from assay.verify.oracle import Accepts, Expected, Verdict, oracle_of
from assay.verify.oracle.judge import UNDECIDED
from assay.verify.oracle.layers import BITWISE, DOT, ELEMENTWISE, GRAPH, INTEGERS
from assay.verify.oracle.other_inputs import find_between
from assay.verify.oracle.trial import BETWEEN as IN_BETWEEN, fails_as_may_be

Array = np.ndarray[Any, Any]

BETWEEN = "others"
"""Inputs that are run between the only ones that were given and these again."""
AGAIN = "again"
"""The set of inputs that is run a second time, after all others: what stays from run to run shows in it."""
MANY = 2e10
"""Errors are followed on further sets of inputs until that took so many numbers: a minute."""


@dataclass(eq=False)
class JudgeRun:
    """The judgement of several backends on one model and several sets of inputs of the same sizes."""

    subject: Subject
    samples: Sequence[Sample]
    backends: Sequence[Backend]
    source: str = ""
    seed: int = 0
    sound_only: bool = False
    detailed: bool = False
    """Whether every tensor that a backend shows is told."""
    excluded: Sequence[str] = ()
    others: bool = True
    """Whether other inputs are sought beside the only ones."""
    progress: Progress = lambda what, done, total: None
    correct: dict[tuple[int, bool], CorrectRuns] = field(default_factory=dict)
    follows: bool = True
    """Whether it is worth while to follow how errors hang together."""
    followed: dict[tuple[int, Accepts], Expected] = field(default_factory=dict)
    """What may come of sets of inputs where errors are followed."""
    known: dict[int, Expected] = field(default_factory=dict)
    """What may come of sets of inputs, by their place, as far as it is known."""
    unseen: str = ""
    """What the runs on other inputs cannot show of what a backend keeps from run to run."""

    def verdicts(self) -> Iterator[BackendVerdict]:
        """What is said of each backend, as soon as it is known: at once of those that give nothing, then of those that
        the whole decides, then of the others."""
        asked = [Candidate(b, self.subject, self.excluded) for b in self.backends]
        if self.others and len(self.samples) == 1 and not all(a.told and a.told.once for a in asked):
            self._find_others()
        for each in asked:
            each.verdict.unseen = "" if each.told else self.unseen
            each.prepare()
            if each.verdict.ended:
                yield each.verdict
        left = [a for a in asked if not a.verdict.ended]
        for each in left:
            each.run(self.runs, self.progress)
            self._whole(each)
            if not each.pieces:
                yield told_in_strings(self._composed(each), self.subject)
        cut = [a for a in left if a.pieces]
        self._in_pieces(cut)
        for each in cut:
            yield told_in_strings(self._composed(each), self.subject)

    @property
    def runs(self) -> list[Sample]:
        """The sets of inputs in the order in which they are run; the first comes once more at the end."""
        return [*self.samples, replace(self.samples[0], kind=AGAIN, run=0)]

    def _place(self, k: int) -> int:
        """The place of a set of inputs among those that differ: the last is the first again."""
        return k % len(self.samples)

    def _find_others(self) -> None:
        """Other inputs beside the only ones, for a run in between."""
        first = self.samples[0]
        oracle = oracle_of(self.subject)
        expected = self.known.setdefault(0, oracle.expected(first.inputs))
        if isinstance(expected.possible, Trap):
            self.unseen = "the program fails on these inputs"
            return
        found = find_between(oracle, expected, run(self.subject.module, first.inputs), self.subject.model)
        self.unseen = found.unseen
        if found.expected is not None:
            self.known[1] = found.expected
            self.samples = [first, Sample(BETWEEN, 0, found.expected.inputs)]

    # --- the whole

    def _whole(self, each: Candidate) -> None:
        """Judge what a backend gave, on each set of inputs, by bounds of the whole program and by every tensor that it
        shows; and say where pieces are asked for: of runs that are not decided, or wrong without a place."""
        for k, outputs in enumerate(each.outputs):
            sample = self.runs[k]
            if sample.kind == AGAIN and each.gave_again(k, 0):
                continue
            self.progress(f"bounds on {sample.name}", k, len(self.runs))
            found = each.first[k] = self._on(each, k, sample)
            lost = found.outcome == "wrong" and (not found.culprit or (each.told is not None and each.told.once))
            # that an output is not there is nothing that a piece could show
            lost &= isinstance(outputs, Mapping) and all(n in outputs for n in self.subject.outputs)
            doubted = k in each.doubts
            if found.outcome == "undecided" or doubted or lost:
                each.pieces[k] = Coverage()

    def _on(self, each: Candidate, k: int, sample: Sample) -> SampleVerdict:
        """The verdict on one set of inputs, by the whole."""
        outputs, oracle, place = each.outputs[k], each.oracle, self._place(k)
        expected = self.known[place] = oracle.expected(
            self.known.get(place) or Expected(self.subject.module, sample.inputs)
        )
        if isinstance(outputs, AssayError) and fails_as_may_be(outputs, expected):
            outputs = Trap("", outputs.message)
        if isinstance(outputs, Trap):
            return self._first(sample, oracle.judge(expected, outputs), expected, outputs)
        if isinstance(outputs, AssayError):
            return SampleVerdict(sample.name, OUTCOMES.get(outputs.label, "wrong"), "", outputs.message)
        shown = each.shown(sample)
        verdict = oracle.judge(expected, outputs, shown)
        found = self._first(sample, verdict, expected, outputs)
        if found.outcome == "wrong" and found.culprit and each.told is None:
            # what it shows need not be what it used: products may be added without a rounding, floats be wider inside
            whole = oracle.judge(expected, outputs)
            if whole.outcome in GOOD:
                each.doubts[k], found = found, self._first(sample, whole, expected, outputs)
            elif whole.outcome == "undecided" and self._right_alone(each, sample, verdict, shown):
                why = f"{found.culprit} does not follow from the tensors that it shows, and is right alone on these"
                found = replace(self._first(sample, whole, expected, outputs), detail=f"{whole.detail}; {why}")
        if not self.detailed:
            return found
        return replace(found, tensors=shown_tensors(oracle, expected, shown, verdict.outcome == "wrong"))

    def _right_alone(self, each: Candidate, sample: Sample, verdict: Verdict, shown: Mapping[str, Any]) -> bool:
        """Whether the node that is wrong by the tensors that a backend shows is right on these as a model of its own:
        then they are none that it used in the whole."""
        flow = Dataflow(self.subject.model, _sized(self.subject), self.subject.tensors)
        given = {**sample.inputs, **shown}
        judged = JudgedInPieces(each.backend, each.accepts, {})
        tensor = verdict.worst.tensor if verdict.worst is not None else ""
        return right_alone(Piecewise(flow, [given], self.source), judged, tensor, given)

    def _first(self, sample: Sample, verdict: Verdict, expected: Expected, outputs: Any) -> SampleVerdict:
        errors = errors_of(expected, outputs)
        outcome = verdict.outcome
        if outcome == "unpredictable" and isinstance(expected.possible, Unpredictable):
            outcome = "undecided" if expected.possible.label in UNDECIDED else outcome
        rests = "" if outcome not in GOOD else "tensors" if verdict.judged else "bounds"
        rests = "failure" if rests and isinstance(outputs, Trap) else rests
        return SampleVerdict(
            sample.name, outcome, rests, verdict.detail, verdict.worst, verdict.culprit or "", verdict.layer,
            errors=errors, judged=verdict.judged,
        )  # fmt: skip

    # --- pieces

    def _in_pieces(self, asked: Sequence[Candidate]) -> None:
        """Judge what the whole does not decide in pieces, each piece once for all backends."""
        places = sorted({k for a in asked for k in a.pieces})
        if not places:
            return
        flow = Dataflow(self.subject.model, _sized(self.subject), self.subject.tensors)
        pieces = Piecewise(flow, [self.runs[k].inputs for k in places], self.source)
        names = [self.runs[k].name for k in places]
        each = [
            (a, JudgedInPieces(a.backend, a.accepts, {places.index(k): c for k, c in a.pieces.items()})) for a in asked
        ]
        plain = [j for a, j in each if not a.told]
        if plain:
            judge_pieces(pieces, names, plain, lambda done, total: self.progress("pieces", done, total))
        for a, j in each:
            between = pieces if not a.told else Piecewise(flow, pieces.inputs, self.source)
            for k, coverage in j.found.items():
                if a.told:
                    a.told.judge_between(between, names[k], j, k, a.first[places[k]].outcome == "wrong")
                coverage.stopped = between.stopped.get(k, "")
        self.flow = flow

    # --- all together

    def _composed(self, each: Candidate) -> BackendVerdict:
        """The verdict on a backend, of the whole, of pieces and of correct runs."""
        for k, first in each.first.items():
            each.verdict.samples.append(self._of_sample(each, k, first))
        return each.verdict

    def _of_sample(self, each: Candidate, k: int, first: SampleVerdict) -> SampleVerdict:
        outputs, coverage = each.outputs[k], each.pieces.get(k)
        first = replace(first, rests=_rests(each, first.rests))
        made, far = first, None
        if isinstance(outputs, Mapping):
            runs = self._beside(each, k, first)
            spread, distances = self._distances(each, k, runs, outputs)
            if 1 < runs < RUNS and any(d.far for d in distances):
                spread, distances = self._distances(each, k, RUNS, outputs)
            far = max((d for d in distances if d.implausible), key=lambda d: d.times, default=None)
            errors = [_nearer(e, outputs, spread, distances) for e in first.errors]
            made = replace(first, errors=errors, distances=distances)
            if coverage is not None:
                made = self._with_pieces(made, coverage, _near(distances, spread), each.doubts.get(k))
                made = replace(made, rests=_rests(each, made.rests))
        if made.outcome == "wrong":
            piece = coverage.wrong[0] if coverage is not None and coverage.wrong else None
            return replace(made, rule=self._rule(made, piece))
        # what a standard leaves open, and products that are shortened, are further off than correct runs of ours are
        modelled = made.outcome in ("right", "undecided") and not each.accepts.shortens
        odd = self._implausible(each, k, far) if modelled and not self.sound_only else ""
        if odd or (made.outcome == "undecided" and isinstance(outputs, Mapping)):
            made = self._followed(each, k, made)
        if not odd or made.outcome == "wrong":
            return made
        return replace(made, outcome="implausible", rests="", detail=odd)

    def _beside(self, each: Candidate, k: int, first: SampleVerdict) -> int:
        """How many correct runs outputs are looked at beside: few at first; none where they can show nothing more, or
        ours alone where no bound says where the middle is. Where each tensor is right on the backend's own operands,
        other runs show no more than how far single operators are off: one set of inputs is enough for that."""
        exact = all(e.error == 0 for e in first.errors)
        decided = first.outcome in GOOD and (exact or self.sound_only or (first.rests == "tensors" and k > 0))
        if decided or (first.outcome == "wrong" and k not in each.pieces):
            return int(any(np.isinf(e.bound) for e in first.errors))
        return FEW

    def _distances(
        self, each: Candidate, k: int, runs: int, outputs: Mapping[str, Any]
    ) -> tuple[Spread, list[Distance]]:
        """How far outputs are from so many correct runs."""
        flushes = each.accepts.flushes and runs > 1
        spread = self._spread(k, runs, flushes) if runs else Spread({}, 0)
        arrays = {n: v for n, v in outputs.items() if isinstance(v, np.ndarray)}
        found = [spread.distance(n, v) for n, v in arrays.items()]
        odd = any(d is not None and not np.isfinite(d.got) for d in found)
        if odd and self.correct[self._place(k), flushes].may_overflow:  # the order of a sum decides that there
            found = [spread.distance(n, v, of_numbers=True) for n, v in arrays.items()]
        return spread, [d for d in found if d is not None]

    def _spread(self, k: int, runs: int, flushes: bool = False) -> Spread:
        """At least so many correct runs on a set of inputs; ours, and those of who may flush subnormal numbers."""
        k = self._place(k)
        if (k, flushes) not in self.correct:
            self.correct[k, flushes] = CorrectRuns(self.subject.module, self.runs[k].inputs, self.seed, flushes)
        if len(self.correct[k, flushes].made) < runs:
            self.progress(f"correct runs on {self.runs[k].name}", 0, 0)
        return self.correct[k, flushes].spread(runs)

    def _implausible(self, each: Candidate, k: int, far: Distance | None) -> str:
        """What is odd about outputs beside correct runs, "" where nothing is."""
        stale = self._stale(each, k)
        if far is None:
            return stale
        odds = f"at most one correct run in 10^{-far.log10_odds:.0f} would, were their errors normal"
        return "; ".join(filter(None, [str(far), odds, stale]))

    def _followed(self, each: Candidate, k: int, first: SampleVerdict) -> SampleVerdict:
        """The verdict by bounds that follow how errors hang together, which takes much longer; as it was, where these
        say nothing."""
        outputs, oracle = each.outputs[k], each.oracle
        if not self.follows or not isinstance(outputs, Mapping):
            return first
        key = self._place(k), oracle.accepts
        expected = self.followed.get(key)
        if expected is None and any(s.outcome == "wrong" for s in each.verdict.samples):
            return first  # nothing is graver, and it takes long
        if expected is None:
            self.progress(f"errors followed on {self.runs[k].name}", 0, 0)
            expected = oracle.expected(Expected(self.subject.module, self.runs[k].inputs, follows=True))
            self.followed[key] = expected
        verdict = oracle.judge(expected, outputs)
        numbers = sum(e.numbers for e in self.followed.values())
        self.follows &= not expected.unfollowed and numbers < MANY  # on other inputs it is as much
        if verdict.outcome not in (*GOOD, "wrong"):
            return first
        found = self._first(self.runs[k], verdict, expected, outputs)
        found = replace(found, distances=first.distances, pieces=first.pieces)
        return replace(found, rule=self._rule(found, None)) if found.outcome == "wrong" else found

    def _stale(self, each: Candidate, k: int) -> str:
        """What is odd where a backend gave the bits of earlier inputs again and the definition gives others: "" where
        nothing is."""
        for i in range(k):
            if self.runs[k].kind != AGAIN and each.gave_again(k, i):
                one, other = self._spread(i, 1), self._spread(k, 1)
                moved = [n for n, v in other.outputs.items() if n in one.outputs and _differ(one.outputs[n][0], v[0])]
                if moved:
                    return (
                        f"these are the bits that it gave on the inputs {self.runs[i].name!r}, and {listed(moved)} of"
                        f" the definition {'is' if len(moved) == 1 else 'are'} another there"
                    )
        return ""

    def _with_pieces(
        self, first: SampleVerdict, coverage: Coverage, near: str, doubt: SampleVerdict | None
    ) -> SampleVerdict:
        """The verdict on one set of inputs with what pieces show. `doubt` is the verdict by tensors that the backend
        shows, where outputs are within the bounds of the whole and one of these is wrong on its operands."""
        made = replace(first, pieces=[*coverage.wrong, *coverage.unsure])
        if first.outcome == "wrong" or coverage.wrong:
            places = listed([f.title for f in coverage.wrong])
            piece = coverage.wrong[0].verdict if coverage.wrong else None
            detail = piece.detail if piece is not None and first.outcome != "wrong" else first.detail
            worst = first.worst or (piece.worst if piece is not None else None)
            layer = first.layer if first.outcome == "wrong" or piece is None else piece.layer
            return replace(made, outcome="wrong", rests="", detail=detail, worst=worst, culprit=places, layer=layer)
        stopped, missing = coverage.stopped, coverage.missing(self.flow)
        if doubt is not None and (stopped or missing):
            return replace(doubt, errors=made.errors, distances=made.distances, pieces=made.pieces)
        if stopped or missing:
            return replace(made, detail=f"not shown to be right: {stopped or missing}; {first.detail}")
        detail = f"{coverage.judged} pieces that together hold every edge are right; outputs {near}"
        if doubt is not None:
            detail += f"; {doubt.culprit} does not follow from the tensors that it shows, and outputs need not"
        if coverage.opened:
            return replace(made, outcome="open", rests="pieces", detail=f"{detail}; {coverage.opened}")
        return replace(made, outcome="right", rests="pieces", detail=detail)

    def _rule(self, wrong: SampleVerdict, piece: PieceFinding | None) -> str:
        """The rule that is broken, and what the standard calls the operators in question."""
        model = self.subject.model
        versions = {o.domain: o.version for o in model.opset_import}
        found = [n for n in model.graph.node if piece is not None and onnx_title(n) in piece.nodes] or [
            n for n in model.graph.node if _tensor_of(wrong) in n.output
        ]
        names = dict.fromkeys(called for n in found if (called := _in_standard(n, versions)))
        # what has no worst element is of another type, or not there: no rule about values is broken
        rule = RULES.get(wrong.layer, "") if wrong.worst is not None or wrong.layer != BITWISE else ""
        return "; ".join(filter(None, [rule, listed([*names])]))


def errors_of(expected: Expected, outputs: Any) -> list[TensorError]:
    """The errors of outputs by name; none of what is no tensor of the right type, or where nothing can be expected."""
    if not isinstance(outputs, Mapping) or not isinstance(expected.possible, dict):
        return []
    found = (tensor_error(n, v, outputs.get(n)) for n, v in expected.possible.items())
    return [e for e in found if e is not None]


def _tensor_of(wrong: SampleVerdict) -> str | None:
    """The tensor that a verdict is about: that of the worst element, or, of one of another type, the one it names."""
    if wrong.worst is not None:
        return wrong.worst.tensor
    return wrong.culprit.rpartition(", tensor ")[2] or None


def _rests(each: Candidate, rests: str) -> str:
    """What a verdict rests on, of one who shows tensors by another way than a backend does."""
    return each.told.rests if each.told and rests in ("pieces", "tensors") else rests


RULES = {
    BITWISE: "M9.12: what is exact has one value", INTEGERS: "M9.12: sums of whole numbers are exact here",
    ELEMENTWISE: "M9.2: the units in the last place that its operator may be off",
    DOT: "M9.2: the roundings of its sums", GRAPH: "M9.3: the interval of the program",
}  # fmt: skip
"""By the layer that decided: the rule of specs/semantics.md that is broken."""


def _in_standard(node: onnx.NodeProto, versions: Mapping[str, int]) -> str:
    """What the standard calls a node's operator: its name, and the operator set that says what it means."""
    try:
        schema = onnx.defs.get_schema(node.op_type, versions.get(node.domain, 1), node.domain)
    except onnx.defs.SchemaError:
        return ""
    return f"ONNX {node.domain or ''}{'.' if node.domain else ''}{node.op_type}-{schema.since_version}"


def _nearer(error: TensorError, outputs: Any, spread: Spread, distances: Sequence[Distance]) -> TensorError:
    """The error of an output of which bounds say nothing, from the middle of correct runs."""
    times = next((d.times for d in distances if d.tensor == error.tensor), None)
    got, middle = outputs[error.tensor], spread.middle(error.tensor)
    if not np.isinf(error.bound) or middle is None or not dtype(got.dtype).is_float:
        return replace(error, times=times)
    made = tensor_error(error.tensor, Bounded(middle, np.inf, dtype(got.dtype)), got)
    made = replace(made or error, shares=error.shares)
    return replace(made, times=times, reference="correct runs" if times is not None else "our run")


def _sized(subject: Subject) -> frozenset[str]:
    """The tensors of a model whose sizes are numbers."""
    return frozenset(n for n, e in subject.tensors.items() if isinstance(e.type, TensorType) and e.type.is_static)


def _near(distances: Sequence[Distance], spread: Spread) -> str:
    if not distances:
        return f"have no spread to compare with{': ' + spread.stopped if spread.stopped else ''}"
    return f"within {max(d.times for d in distances):.2g} times the spread of {spread.runs} correct runs"


DIFFERING = 4
"""Elements of floats that the definition gives differently on two sets of inputs: that a backend gives all of them
alike is no accident."""


def _differ(one: Array, other: Array) -> bool:
    if one.shape != other.shape or one.dtype.kind in "biu":
        return False
    both_nan = np.isnan(one) & np.isnan(other)  # their bits are each implementation's own
    return int(np.count_nonzero((one != other) & ~both_nan)) >= DIFFERING


def of_the_whole(
    subject: Subject, backend: Backend, inputs: Mapping[str, Array], verdict: Verdict
) -> BackendVerdict | None:
    """What comes of a backend by the whole, or by pieces of it, where `verdict` calls one of several operators wrong on
    the operands that the backend shows: these need not be what it used, where it fuses. None where that is not so, or
    it is wrong all the same. On other inputs in between it is asked too where it is wrong on these."""
    if verdict.outcome != "wrong" or not verdict.culprit or len(subject.model.graph.node) < 2:
        return None
    try:
        sample, others = Sample("given", 0, inputs), verdict.detail.startswith(IN_BETWEEN)
        (found,) = JudgeRun(subject, [sample], [backend], sound_only=True, others=others).verdicts()
    except AssayError:
        return None
    return None if found.ended or found.outcome == "wrong" else found
