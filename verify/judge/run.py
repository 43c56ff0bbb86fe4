"""Backends judged on a model, without a lowering (specs/verify.md, "judge")."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import onnx

from assay.interp.graph import run
from assay.semantics.bounds import Bounded
from assay.semantics.dtypes import dtype
from assay.semantics.errors import AssayError, Trap, Unpredictable, Unsupported
from assay.semantics.types import TensorType
from assay.verify.backends import Backend, Subject
from assay.verify.backends.protocol import FAILED, FATAL, OUTCOMES, UNASKED, Prepared, as_tensor, call_prepared
from assay.verify.evidence import listed
from assay.verify.judge.between import judge_between
from assay.verify.judge.by_pieces import Coverage, JudgedInPieces, judge_pieces
from assay.verify.judge.outcome import BackendVerdict, PieceFinding, SampleVerdict, TensorError, tensor_error
from assay.verify.judge.pieces import Dataflow, onnx_title
from assay.verify.judge.piecewise import Piecewise
from assay.verify.judge.recorded import Recording
from assay.verify.judge.samples import Sample
from assay.verify.judge.spread import Distance, Spread, spread_of
from assay.verify.judge.tensors import shown_tensors
from assay.verify.judge.two_programs import SecondProgram, judge_second
from assay.verify.oracle import Accepts, Expected, Oracle, Verdict, oracle_of
from assay.verify.oracle.declarations import EVERYTHING_KEPT
from assay.verify.oracle.judge import UNDECIDED
from assay.verify.oracle.layers import BITWISE, DOT, ELEMENTWISE, GRAPH, INTEGERS
from assay.verify.oracle.other_inputs import find_between

Array = np.ndarray[Any, Any]
Outputs = Mapping[str, Any] | AssayError
"""What a backend gives; or what it says instead: a trap, a refusal, how it crashed."""
Progress = Callable[[str, int, int], None]

BETWEEN = "others"
"""Inputs that are run between the only ones that were given and these again."""
AGAIN = "again"
"""The set of inputs that is run a second time, after all others: what stays from run to run shows in it."""


@dataclass(eq=False)
class Judged:
    """One backend, and what it gave on each set of inputs."""

    backend: Backend
    verdict: BackendVerdict
    outputs: list[Outputs] = field(default_factory=list)
    oracle: Oracle | None = None

    @property
    def name(self) -> str:
        """The backend's name."""
        return self.backend.name

    @property
    def accepts(self) -> Accepts:
        """What it declares of itself."""
        found = getattr(self.backend, "accepts", EVERYTHING_KEPT)
        assert isinstance(found, Accepts)
        return found


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
    progress: Progress = lambda what, done, total: None
    spreads: dict[int, Spread] = field(default_factory=dict)
    follows: bool = True
    """Whether it is worth while to follow how errors hang together."""
    known: dict[int, Expected] = field(default_factory=dict)
    """What may come of sets of inputs, by their place, as far as it is known beforehand."""
    unseen: str = ""
    """What the runs on other inputs cannot show of what a backend keeps from run to run."""

    def verdicts(self) -> Iterator[BackendVerdict]:
        """What is said of each backend: at once of those that give nothing, then of the others in their order."""
        if len(self.samples) == 1 and not all(isinstance(b, Recording) for b in self.backends):
            self._find_others()
        judged = [Judged(b, BackendVerdict(b.name)) for b in self.backends]
        for each in judged:
            if not isinstance(each.backend, (Recording, SecondProgram)):  # these keep nothing
                each.verdict.unseen = self.unseen
            self._ask(each)
            if each.verdict.ended:
                yield each.verdict
        first: dict[tuple[int, int], SampleVerdict] = {}
        for k, sample in enumerate(self.runs):
            self._whole(k, sample, judged, first)
        coverage = self._in_pieces(judged, first)
        for i, each in enumerate(judged):
            for k in range(len(self.runs)):
                if (i, k) in first:
                    each.verdict.samples.append(self._composed(each, k, first[i, k], coverage.get((i, k))))
            if not each.verdict.ended:
                yield each.verdict

    @property
    def runs(self) -> list[Sample]:
        """The sets of inputs in the order in which they are run; the first comes once more at the end."""
        return [*self.samples, replace(self.samples[0], kind=AGAIN, run=0)]

    def _find_others(self) -> None:
        """Other inputs beside the only ones, for a run in between."""
        first = self.samples[0]
        oracle = oracle_of(self.subject)
        expected = self.known.setdefault(0, oracle.expected(first.inputs))
        ours = {} if isinstance(expected.possible, Trap) else run(self.subject.module, first.inputs)
        found = find_between(oracle, expected, ours)
        self.unseen = found.unseen
        if found.expected is not None:
            self.known[1] = found.expected
            self.samples = [first, Sample(BETWEEN, 0, found.expected.inputs)]

    # --- what backends give

    def _ask(self, each: Judged) -> None:
        """Run a backend on all sets of inputs, in one preparation."""
        began = time.perf_counter()
        try:
            prepared = each.backend.prepare(self.subject, self.subject.outputs)
        except AssayError as why:
            self._ended(each, why)
            return
        finally:
            each.verdict.seconds = time.perf_counter() - began
        runs = self.runs[:1] if isinstance(each.backend, Recording) else self.runs
        for k, sample in enumerate(runs):
            self.progress(each.name, k, len(runs))
            try:
                each.outputs.append(call_prepared(each.name, prepared, sample.inputs))
            except AssayError as why:
                if why.label not in (*OUTCOMES, "backend.C8") and not isinstance(why, Trap):
                    raise
                each.outputs.append(why)
                if OUTCOMES.get(why.label) == "late":
                    break  # it would take as long on the other sets
        each.verdict.seconds = time.perf_counter() - began

    def _ended(self, each: Judged, why: AssayError) -> None:
        if why.label not in OUTCOMES:
            raise why
        each.verdict.ended, each.verdict.why = OUTCOMES[why.label], why.message

    # --- the whole

    def _whole(
        self, k: int, sample: Sample, judged: Sequence[Judged], first: dict[tuple[int, int], SampleVerdict]
    ) -> None:
        """Judge the outputs of one set of inputs by bounds of the whole program and, where these say nothing, by every
        tensor that a backend shows."""
        self.progress(f"bounds on {sample.name}", k, len(self.runs))
        expected = self.known.get(k) or Expected(self.subject.module, sample.inputs)
        for i, each in enumerate(judged):
            outputs = each.outputs[k] if k < len(each.outputs) else None
            if outputs is None:
                continue
            if isinstance(outputs, AssayError) and not isinstance(outputs, Trap):
                first[i, k] = _without_outputs(sample, expected, outputs)
                continue
            if sample.kind == AGAIN and _same(outputs, each.outputs[0]):
                continue
            oracle = each.oracle = each.oracle or oracle_of(self.subject, each.accepts.excluding(self.excluded))
            expected = oracle.expected(expected)
            verdict = oracle.judge(expected, outputs)
            shown: Mapping[str, Array] = {}
            recorded = isinstance(each.backend, Recording)
            if (recorded or verdict.outcome in ("undecided", "wrong")) and not isinstance(outputs, Trap):
                shown = self._shown(each, sample)
                verdict = oracle.judge(expected, outputs, shown) if shown else verdict
            first[i, k] = self._first(sample, verdict, expected, outputs)
            if self.detailed and isinstance(outputs, Mapping):
                shown = shown or self._shown(each, sample)
                first[i, k] = replace(
                    first[i, k], tensors=shown_tensors(oracle, expected, shown, verdict.outcome == "wrong")
                )

    def _first(self, sample: Sample, verdict: Verdict, expected: Expected, outputs: Outputs) -> SampleVerdict:
        errors: list[TensorError] = []
        if isinstance(outputs, Mapping) and isinstance(expected.possible, dict):
            found = (tensor_error(n, v, outputs.get(n)) for n, v in expected.possible.items())
            errors = [e for e in found if e is not None]
        outcome = verdict.outcome
        if outcome == "unpredictable" and isinstance(expected.possible, Unpredictable):
            outcome = "undecided" if expected.possible.label in UNDECIDED else outcome
        rests = "" if outcome not in ("right", "open") else "tensors" if verdict.judged else "bounds"
        return SampleVerdict(
            sample.name, outcome, rests, verdict.detail, verdict.worst, verdict.culprit or "", verdict.layer,
            errors=errors,
        )  # fmt: skip

    def _shown(self, each: Judged, sample: Sample) -> Mapping[str, Array]:
        """Every tensor that a backend shows on one set of inputs; nothing where it shows none."""
        if isinstance(each.backend, Recording):
            return each.backend.tensors
        made = [o for n in self.subject.model.graph.node for o in n.output if o and o in self.subject.tensors]
        try:
            prepared: Prepared = each.backend.prepare(self.subject, made)
            return {n: as_tensor(v) for n, v in call_prepared(each.name, prepared, sample.inputs).items()}
        except (Unsupported, Trap) as why:
            if why.label in FATAL and why.label not in UNASKED:
                raise
            return {}

    # --- pieces

    def _in_pieces(
        self, judged: Sequence[Judged], first: Mapping[tuple[int, int], SampleVerdict]
    ) -> dict[tuple[int, int], Coverage]:
        """What pieces show of the runs that are not decided, or wrong without a place."""
        wanted = [
            (i, k) for (i, k), v in first.items()
            if v.outcome == "undecided"
            or (v.outcome == "wrong" and (not v.culprit or isinstance(judged[i].backend, Recording)))
        ]  # fmt: skip
        places = sorted({k for _, k in wanted})
        if not places:
            return {}
        flow = Dataflow(self.subject.model, _sized(self.subject))
        pieces = Piecewise(flow, [self.runs[k].inputs for k in places], self.source)
        each = [
            JudgedInPieces(j.backend, j.accepts, {places.index(k): Coverage() for b, k in wanted if b == i})
            for i, j in enumerate(judged)
        ]
        names = [self.runs[k].name for k in places]
        plain = [j for j in each if j.found and not isinstance(j.backend, (Recording, SecondProgram))]
        if plain:
            judge_pieces(pieces, names, plain, lambda done, total: self.progress("pieces", done, total))
        for j in each:
            wrong = {k for k in j.found if first[each.index(j), places[k]].outcome == "wrong"}
            self._between(Piecewise(flow, pieces.inputs, self.source), names, j, wrong)
        self.flow, self.stopped = flow, {places[k]: why for k, why in pieces.stopped.items()}
        return {(i, places[k]): c for i, j in enumerate(each) for k, c in j.found.items()}

    def _between(self, run: Piecewise, names: Sequence[str], judged: JudgedInPieces, wrong: Collection[int]) -> None:
        """Judge a recording or a second program between the tensors that are known of it."""
        for k, coverage in judged.found.items():
            if isinstance(judged.backend, Recording):
                judge_between(run, names[k], judged, k, judged.backend.tensors)
            elif isinstance(judged.backend, SecondProgram):
                judge_second(run, names[k], judged, k, judged.backend, k in wrong)
            coverage.stopped = run.stopped.get(k, "")

    def _spread(self, k: int) -> Spread:
        if k not in self.spreads:
            self.progress(f"correct runs on {self.runs[k].name}", 0, 0)
            self.spreads[k] = spread_of(self.subject.module, self.runs[k].inputs, seed=self.seed)
        return self.spreads[k]

    def _composed(self, each: Judged, k: int, first: SampleVerdict, coverage: Coverage | None) -> SampleVerdict:
        """The verdict on one set of inputs, of the whole, of the pieces and of correct runs."""
        outputs = each.outputs[k]
        if first.rests:
            first = replace(first, rests=_rests(each.backend, first.rests))
        if not isinstance(outputs, Mapping) or (coverage is None and not any(np.isinf(e.bound) for e in first.errors)):
            return replace(first, rule=self._rule(first, None) if first.outcome == "wrong" else "")
        # tensors that are each right on the backend's own operands are a correct run: it needs no others beside it
        alone = coverage is None and first.rests == "tensors"
        spread = spread_of(self.subject.module, self.runs[k].inputs, runs=1) if alone else self._spread(k)
        found = (spread.distance(n, v) for n, v in outputs.items() if isinstance(v, np.ndarray))
        distances = [d for d in found if d is not None]
        far = max((d for d in distances if d.implausible), key=lambda d: d.times, default=None)
        errors = [_beside(e, outputs, spread, distances) for e in first.errors]
        made = replace(first, errors=errors, distances=distances)
        if coverage is not None:
            made = self._with_pieces(made, k, coverage, _near(distances, spread))
            made = replace(made, rests=_rests(each.backend, made.rests))
        elif made.outcome == "wrong":
            made = replace(made, rule=self._rule(made, None))
        if made.outcome == "wrong":
            return made
        detail = "" if self.sound_only else self._implausible(each, k, far)
        if detail or made.outcome == "undecided":
            made = self._followed(each, k, made)
        if not detail or made.outcome == "wrong":
            return made
        return replace(made, outcome="implausible", rests="", detail=detail)

    def _implausible(self, each: Judged, k: int, far: Distance | None) -> str:
        """What is odd about outputs beside correct runs, "" where nothing is."""
        stale = self._stale(each, k)
        if far is None:
            return stale
        odds = f"at most one correct run in 10^{-far.log10_odds:.0f} would, were their errors normal"
        return "; ".join(filter(None, [str(far), odds, stale]))

    def _followed(self, each: Judged, k: int, first: SampleVerdict) -> SampleVerdict:
        """The verdict by bounds that follow how errors hang together, which takes much longer; as it was, where these
        say nothing."""
        outputs, oracle = each.outputs[k], each.oracle
        if not self.follows or not isinstance(outputs, Mapping) or oracle is None:
            return first
        self.progress(f"errors followed on {self.runs[k].name}", 0, 0)
        expected = oracle.expected(Expected(self.subject.module, self.runs[k].inputs, follows=True))
        verdict = oracle.judge(expected, outputs)
        self.follows &= not expected.unfollowed  # on other inputs it is as much
        if verdict.outcome not in ("right", "open", "wrong"):
            return first
        found = self._first(self.runs[k], verdict, expected, outputs)
        found = replace(found, distances=first.distances, pieces=first.pieces)
        return replace(found, rule=self._rule(found, None)) if found.outcome == "wrong" else found

    def _stale(self, each: Judged, k: int) -> str:
        """What is odd where a backend gave the bits of earlier inputs again and the definition gives others: "" where
        nothing is."""
        for i in range(k):
            if self.runs[k].kind != AGAIN and _same(each.outputs[i], each.outputs[k]):
                one, other = self._spread(i), self._spread(k)
                moved = [n for n, v in other.outputs.items() if n in one.outputs and _differ(one.outputs[n][0], v[0])]
                if moved:
                    return (
                        f"these are the bits that it gave on the inputs {self.runs[i].name!r}, and {listed(moved)} of"
                        f" the definition {'is' if len(moved) == 1 else 'are'} another there"
                    )
        return ""

    def _with_pieces(self, first: SampleVerdict, k: int, coverage: Coverage, near: str) -> SampleVerdict:
        """The verdict on one set of inputs with what pieces show."""
        made = replace(first, pieces=[*coverage.wrong, *coverage.unsure])
        if first.outcome == "wrong" or coverage.wrong:
            places = listed([f.title for f in coverage.wrong])
            piece = coverage.wrong[0].verdict if coverage.wrong else None
            detail = piece.detail if piece is not None and first.outcome != "wrong" else first.detail
            worst = first.worst or (piece.worst if piece is not None else None)
            layer = first.layer if first.outcome == "wrong" or piece is None else piece.layer
            made = replace(made, outcome="wrong", rests="", detail=detail, worst=worst, culprit=places, layer=layer)
            return replace(made, rule=self._rule(made, coverage.wrong[0] if coverage.wrong else None))
        stopped = coverage.stopped or self.stopped.get(k)
        missing = coverage.missing(self.flow)
        if stopped or missing:
            return replace(made, detail=f"not shown to be right: {stopped or missing}; {first.detail}")
        detail = f"{coverage.judged} pieces that together hold every edge are right; outputs {near}"
        if coverage.opened:
            return replace(made, outcome="open", rests="pieces", detail=f"{detail}; {coverage.opened}")
        return replace(made, outcome="right", rests="pieces", detail=detail)

    def _rule(self, wrong: SampleVerdict, piece: PieceFinding | None) -> str:
        """The rule that is broken, and what the standard calls the operators in question."""
        model = self.subject.model
        versions = {o.domain: o.version for o in model.opset_import}
        found = [n for n in model.graph.node if piece is not None and onnx_title(n) in piece.nodes] or [
            n for n in model.graph.node if wrong.worst is not None and wrong.worst.tensor in n.output
        ]
        names = dict.fromkeys(called for n in found if (called := _in_standard(n, versions)))
        return "; ".join(filter(None, [RULES.get(wrong.layer, ""), listed([*names])]))


def _rests(backend: Backend, rests: str) -> str:
    """What a verdict rests on, of one who shows tensors by another way than a backend does."""
    return getattr(backend, "rests", rests) if rests in ("pieces", "tensors") else rests


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


def _beside(error: TensorError, outputs: Any, spread: Spread, distances: Sequence[Distance]) -> TensorError:
    """The error of an output of which bounds say nothing, from the middle of correct runs."""
    times = next((d.times for d in distances if d.tensor == error.tensor), None)
    got, middle = outputs[error.tensor], spread.middle(error.tensor)
    if not np.isinf(error.bound) or middle is None or not dtype(got.dtype).is_float:
        return replace(error, times=times)
    made = tensor_error(error.tensor, Bounded(middle, np.inf, dtype(got.dtype)), got)
    return replace(made or error, times=times, reference="correct runs" if times is not None else "our run")


def _sized(subject: Subject) -> frozenset[str]:
    """The tensors of a model whose sizes are numbers."""
    return frozenset(n for n, e in subject.tensors.items() if isinstance(e.type, TensorType) and e.type.is_static)


def _without_outputs(sample: Sample, expected: Expected, why: AssayError) -> SampleVerdict:
    """The verdict on a run that gave nothing: right, where it failed and the program must fail."""
    if why.label in FAILED and isinstance(expected.possible, Trap):
        return SampleVerdict(sample.name, "right", "bounds", f"fails as it must: {expected.possible}")
    return SampleVerdict(sample.name, OUTCOMES.get(why.label, "wrong"), "", why.message)


def _near(distances: Sequence[Distance], spread: Spread) -> str:
    if not distances:
        return f"have no spread to compare with{': ' + spread.stopped if spread.stopped else ''}"
    return f"within {max(d.times for d in distances):.2g} times the spread of {spread.runs} correct runs"


DIFFERING = 4
"""Elements of floats that the definition gives differently on two sets of inputs: that a backend gives all of them
alike is no accident."""


def _differ(one: Array, other: Array) -> bool:
    moved = one.shape == other.shape and one.dtype.kind not in "biu"
    return moved and int(np.count_nonzero(one != other)) >= DIFFERING


def _same(one: Outputs | None, other: Outputs | None) -> bool:
    """Whether two runs gave the same bits."""
    if not isinstance(one, Mapping) or not isinstance(other, Mapping):
        return str(one) == str(other)
    return one.keys() == other.keys() and all(
        isinstance(v, np.ndarray)
        and isinstance(w := other[n], np.ndarray)
        and (v.shape, v.dtype, v.tobytes()) == (w.shape, w.dtype, w.tobytes())
        for n, v in one.items()
    )
