"""The oracle of one module (specs/verify.md, "Verdict")."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import replace
from functools import cached_property
from typing import Any

import numpy as np

from assay.semantics.errors import Trap, Unpredictable
from assay.semantics.graph import Expr, Let, TupleGetItem
from assay.semantics.left_open.entries import BY_NAME
from assay.semantics.module import Module
from assay.semantics.walk import post_order
from assay.verify.evidence import plural
from assay.verify.oracle import excess_precision, inner_overflow
from assay.verify.oracle.data import Kind, make_inputs
from assay.verify.oracle.declarations import EVERYTHING_KEPT, Accepts
from assay.verify.oracle.excess_precision import has_narrow
from assay.verify.oracle.expected import Expected, Possible
from assay.verify.oracle.findings import TensorFinding
from assay.verify.oracle.flushing import UNDECLARED, FlushingRun, may_meet_subnormals
from assay.verify.oracle.layers import BITWISE, DOT, ELEMENTWISE, GRAPH, INTEGERS, LAYERS, REBASED
from assay.verify.oracle.left_open import Node, Silence
from assay.verify.oracle.tensor_names import Named
from assay.verify.oracle.verdict import Verdict, differing
from assay.verify.oracle.walk import BoundedRun, OpenWalk, Places, places

Array = np.ndarray[Any, Any]
UNDECIDED = ("bounds.C1", "bounds.C2", "bounds.C4")
"""Labels of decisions that intervals leave open: then no implementation is wrong to decide either way."""


class Oracle:
    """Judges outputs of one module. `tensors` are tensors by name, as nodes of its main, and `makers` what people call
    the operators that make them; `accepts` is what the judged implementation declares of itself."""

    def __init__(
        self,
        module: Module,
        tensors: Mapping[str, Expr] | None = None,
        seed: int = 0,
        accepts: Accepts = EVERYTHING_KEPT,
        makers: Mapping[str, str] | None = None,
        nodes: Mapping[str, Node] | None = None,
        collected: Iterable[str] = (),
        known: dict[object, Expected] | None = None,
    ) -> None:
        self.module = module
        self.tensors = dict(tensors or {})
        self.seed = seed
        self.accepts = accepts
        self.makers = dict(makers or {})
        self.nodes = dict(nodes or {})
        self.collected = frozenset(collected)
        self.known = known
        """Where there is such a table, what may come of inputs is kept in it, for whoever is judged on the same."""

    @cached_property
    def named(self) -> Named:
        """The module's tensors by name, with where they are made."""
        return Named(self.tensors, places(self.module, self.tensors), self.nodes, self.collected)

    @property
    def places(self) -> Places:
        """Which tensors each node makes."""
        return self.named.places

    def expected(self, inputs: Mapping[str, Array] | Expected, flushing: bool = False) -> Expected:
        """What may come of these inputs. Where it is computed already it can be given in their place."""
        if isinstance(inputs, Expected):
            if (inputs.accepts, inputs.flushing) == (self.accepts, flushing) and inputs.module is self.module:
                if (self.nodes and not inputs.named.nodes) or self.collected - inputs.named.collected:
                    inputs.named = self.named
                    vars(inputs).pop("opened", None)
                return inputs
            beside = inputs if inputs.module is self.module else None
            return Expected(self.module, inputs.inputs, self.accepts, flushing, self.named, inputs.follows, beside)
        key = (flushing, _bits_of(inputs)) if self.known is not None else None
        if self.known is None or key is None or key[1] is None:
            return Expected(self.module, inputs, self.accepts, flushing, self.named)
        return self.known.setdefault(key, Expected(self.module, inputs, self.accepts, flushing, self.named))

    def inputs(
        self, kind: Kind = "random", seed: int | None = None, dims: Mapping[str, int] | None = None,
        given: Mapping[str, Array] | None = None,
    ) -> dict[str, Array]:  # fmt: skip
        """Inputs for main by name (see `assay.verify.oracle.data`), those that are given among them; symbolic dims that
        neither `dims` nor they say get primes."""
        return make_inputs(self.module, kind, self.seed if seed is None else seed, dims or {}, given)

    def judge(
        self,
        inputs: Mapping[str, Array] | Expected,
        outputs: Mapping[str, Any] | Trap,
        intermediates: Mapping[str, Array] | None = None,
    ) -> Verdict:
        """The verdict on outputs by name, or on a run that failed. `intermediates` are the backend's own tensors, by
        the names in `tensors`: each operator is judged on those that it read, and the first that is wrong is named.
        Invalid where the inputs are not what main takes."""
        theirs = intermediates or {}
        expected = self.expected(inputs)
        verdict, rebased = self._judge(expected, outputs, theirs)
        if verdict.outcome == "wrong":
            verdict = self._with_zeros(expected, outputs, theirs, verdict, rebased)
        if verdict.outcome != "wrong" or self.accepts.within:
            return verdict
        rebased = {} if self.accepts.flushes else rebased
        told = verdict
        for accepts, said in self._other_rights():
            oracle = Oracle(self.module, self.tensors, self.seed, accepts, self.makers, self.nodes)
            if not accepts.holds and oracle._is_wrong_too(inputs, theirs, rebased):
                continue
            found = oracle.judge(inputs, outputs, intermediates)
            if found.outcome in ("right", "open", "undecided"):
                return replace(found, detail=f"{found.detail}; {said}")
            if accepts.holds and verdict.culprit not in (None, found.culprit):
                told = replace(found, detail=f"{found.detail}; {said}")  # what was named is right so, and is not named
        return told

    def _with_zeros(
        self, expected: Expected, outputs: Mapping[str, Any] | Trap, theirs: Mapping[str, Array], strict: Verdict,
        rebased: Mapping[str, TensorFinding],
    ) -> Verdict:  # fmt: skip
        """The verdict where subnormal numbers may be taken for zeros, on a run that is wrong where they are kept: what
        is wrong beside that is named. Where a backend does not declare it that is wrong too, and said."""
        if isinstance(outputs, Trap):
            return strict
        arrays = (*expected.inputs.values(), *theirs.values())
        if not self.accepts.flushes and not may_meet_subnormals(arrays, strict.worst):
            return strict
        verdict, found = self._judge(self.expected(expected, True), outputs, theirs, rebased)
        if self.accepts.flushes:
            return verdict
        if verdict.outcome in ("right", "open"):
            return replace(strict, detail=f"{strict.detail}; nothing else is wrong: {UNDECLARED}")
        if verdict.outcome == "wrong" and any(f.flushed for f in found.values()):
            return replace(verdict, detail=f"{verdict.detail}; beside that {UNDECLARED}")
        return strict  # what is not decided so may be wrong by itself

    def _other_rights(self) -> Iterator[tuple[Accepts, str]]:
        """By what else what is wrong is judged, and how a verdict that rests on it says so."""
        if self.has_parts:
            yield replace(self.accepts, within="wide"), inner_overflow.SAID
        if self.accepts.wider and not self.accepts.holds and has_narrow(self.module):
            yield replace(self.accepts, holds=True), excess_precision.SAID
        if self.has_parts:
            yield replace(self.accepts, within="any"), inner_overflow.SAID

    @cached_property
    def has_parts(self) -> bool:
        """Whether operators of the model are several of ours."""
        return bool(inner_overflow.parts_of(self.module))

    def _is_wrong_too(
        self, inputs: Mapping[str, Array] | Expected, theirs: Mapping[str, Array], before: Mapping[str, TensorFinding]
    ) -> bool:
        """Whether the first tensor that is wrong by fewer rights is wrong by these rights too, on the operands that the
        backend gave: then nothing else needs to be judged by them."""
        wrong = next((n for n, f in before.items() if f.wrong), None)
        if wrong is None or self.has_lets:
            return False
        expected = self.expected(inputs)
        theirs = {n: theirs[n] for n in before}
        found, _ = self._rebase(expected, theirs, self._nodes_of(before, {wrong}))
        if wrong in found and found[wrong].may_be_excused:
            found = self._excused(expected, theirs, {**before, **found}, {wrong})
        return wrong in found and bool(found[wrong].wrong)

    @cached_property
    def has_lets(self) -> bool:
        """Whether main gives names to values: then nothing in it can be evaluated before what names it."""
        return any(isinstance(n, Let) for n in post_order(self.module.main))

    def _nodes_of(self, found: Iterable[str], asked: Set[str]) -> dict[str, Expr] | None:
        """The calls that make the tensors that are asked for, in the order in which they were found; None for all of
        them."""
        if self.has_lets:
            return None
        made = {n: self.tensors[n] for n in found if n in asked}
        return {n: e.value if isinstance(e, TupleGetItem) else e for n, e in made.items()}

    def _judge(
        self, expected: Expected, outputs: Mapping[str, Any] | Trap, theirs: Mapping[str, Array],
        before: Mapping[str, TensorFinding] | None = None,
    ) -> tuple[Verdict, Mapping[str, TensorFinding]]:  # fmt: skip
        """The verdict, and the findings on the backend's own tensors; `before` are those where subnormal numbers are
        kept."""
        possible = expected.possible
        if isinstance(outputs, Trap):
            return _failed(expected, outputs), {}
        if isinstance(possible, Trap):
            return Verdict("unpredictable", "", f"the program itself fails on these inputs, {possible}"), {}
        rebased, stopped = self._rebase(expected, theirs, before=before) if theirs else ({}, "")
        if any(f.may_be_excused for f in rebased.values()):
            rebased = self._excused(expected, theirs, rebased)
        return self._concluded(expected, outputs, theirs, rebased, stopped), rebased

    def _concluded(
        self, expected: Expected, outputs: Mapping[str, Any], theirs: Mapping[str, Array],
        rebased: Mapping[str, TensorFinding], stopped: str,
    ) -> Verdict:  # fmt: skip
        """The verdict on outputs, with the findings on the backend's own tensors and why there are no more of these."""
        possible = expected.possible
        found = expected.findings(outputs)
        missing = [n for n in self.module.main.attrs.get("outputs", ()) if n not in outputs]
        if missing:
            return Verdict("wrong", BITWISE, f"output {missing[0]} is missing", judged=len(rebased))
        if any(f.may_be_excused for f in found.values()) and not isinstance(expected.opened[1], Unpredictable):
            found = expected.excused(found, outputs)
        wrong = next((f for f in found.values() if f.wrong), None)
        culprit = next((f for f in rebased.values() if f.wrong), None)
        if culprit is not None:
            maker = self.makers.get(culprit.tensor) or (culprit.by.name if culprit.by is not None else "an operator")
            # an output that is the tensor itself is not told twice
            also = wrong is not None and wrong.wrong != culprit.wrong
            detail = culprit.wrong + (f"; output {wrong.wrong}" if wrong is not None and also else "")
            name = f"{maker}, tensor {culprit.tensor}"
            return Verdict("wrong", culprit.layer, detail, culprit.worst, name, len(rebased))
        if wrong is not None and wrong.may_be_excused and isinstance(expected.opened[1], Unpredictable):
            wrong = self._of_what_is_shown(expected, outputs, theirs)
            if wrong is None:
                return Verdict("unpredictable", GRAPH, str(expected.opened[1]), judged=len(rebased))
        if wrong is not None:
            return Verdict("wrong", wrong.layer, f"output {wrong.wrong}", wrong.worst, judged=len(rebased))
        why = f"; errors that hang together were not followed to the end: {expected.unfollowed}"
        unfollowed = why if expected.unfollowed else ""
        return self._not_wrong(possible, found, rebased, outputs, theirs, stopped, unfollowed)

    def _rebase(
        self, expected: Expected, theirs: Mapping[str, Array], asked: Mapping[str, Expr] | None = None,
        before: Mapping[str, TensorFinding] | None = None,
    ) -> tuple[dict[str, TensorFinding], str]:  # fmt: skip
        """Findings on the backend's own tensors, or on those that are asked for, and why there are no more of them if
        the run stopped."""
        walk = BoundedRun(self.module, self.places, theirs, self.accepts, asked=asked)
        if expected.flushing:
            kept = before if before is not None else self._rebase(self.expected(expected), theirs, asked)[0]
            walk = FlushingRun(self.module, self.places, theirs, self.accepts, asked=asked, before=kept)
        try:
            walk.run(expected.inputs)
        except (Trap, Unpredictable) as why:
            return walk.findings, str(why)
        return walk.findings, ""

    def _excused(
        self, expected: Expected, theirs: Mapping[str, Array], found: Mapping[str, TensorFinding],
        only: Set[str] | None = None,
    ) -> dict[str, TensorFinding]:  # fmt: skip
        """Findings on the backend's own tensors, those that are wrong judged by what a standard leaves open too, or
        those `only`."""
        # what was found right is not computed again; of what the standard's own nodes read it counts if it is open
        those = only or {n for n, f in found.items() if f.may_be_excused}
        asked = self._nodes_of(found, self.named.beside(those))
        theirs = {
            n: a for n, a in theirs.items() if a.dtype != object and (asked is None or n in found)
        }  # a sequence in place of a tensor, of which nothing comes
        nodes = self.named.openings(self.module, expected.inputs, theirs, self.accepts, asked)
        silence = Silence(nodes, nodes=self.named.nodes)
        walk = OpenWalk(
            self.module, self.places, theirs, self.accepts, before=found, silence=silence, asked=asked,
        )  # fmt: skip
        try:
            walk.run(expected.inputs)
        except (Trap, Unpredictable):
            pass  # as in the run before, which said so
        return {name: walk.findings.get(name, f) for name, f in found.items()}

    def _of_what_is_shown(
        self, expected: Expected, outputs: Mapping[str, Any], theirs: Mapping[str, Array]
    ) -> TensorFinding | None:
        """What is wrong with outputs as results of their own operators, on what is shown of their operands: where a run
        decides by an element that a standard leaves open, no more can be said of it."""
        shown = {**{n: a for n, a in outputs.items() if isinstance(a, np.ndarray)}, **theirs}
        found = self._excused(expected, shown, self._rebase(expected, shown)[0])
        return next((f for f in found.values() if f.wrong), None)

    def _not_wrong(
        self, possible: Possible, found: Mapping[str, TensorFinding], rebased: Mapping[str, TensorFinding],
        outputs: Mapping[str, Any],
        theirs: Mapping[str, Array], stopped: str, unfollowed: str,
    ) -> Verdict:  # fmt: skip
        """Right, if every output is: inside an interval that says something, or, bit for bit, what a chain of operators
        gave that were each found right."""
        names = list(found) or list(self.module.main.attrs.get("outputs", ())) or list(outputs)
        left = [n for n in names if n not in found or found[n].open]
        chained = bool(rebased) and not stopped
        left = [n for n in left if not (chained and _is_chained(n, rebased, outputs, theirs))]
        said = []
        if rebased:
            said.append(f"{plural(len(rebased), 'tensor')} right on the backend's own operands")
        if stopped:
            said.append(f"the rest was not judged so: {stopped}")
        if isinstance(possible, Unpredictable):
            said.append(f"the graph's bounds are waived: {possible}")
        for layer in LAYERS:  # an interval that excludes nothing is no bound, and nothing is inside of it
            here = [f for f in found.values() if f.layer == layer and f.open + f.excused < max(f.size, 1)]
            said += [f"{plural(len(here), 'output')} {_SAID[layer]}{_but_for(here)}"] if here else []
        unknown = sum(f.open for f in found.values())
        if unknown:
            of = plural(sum(f.size for f in found.values()), "element")
            said.append(
                f"nothing is known of {unknown} of {of}: the graph's intervals there exclude nothing, or leave a"
                f" decision open{unfollowed}"
            )
        silent = dict.fromkeys(e for f in (*rebased.values(), *found.values()) for e in f.silent)
        if silent:
            made = {name: (call, i) for call, names in self.places.items() for name, i in names}
            once = {
                made.get(name, name): f for name, f in rebased.items()
            }  # a tensor that has two names is counted once
            excused = sum(f.excused for f in once.values()) or sum(f.excused for f in found.values())
            called = " ".join(f"{maker.split()[0]}(" for maker in self.makers.values())
            entries = "; ".join(f"{e}: {BY_NAME[e].condition} ({BY_NAME[e].source_of(called)})" for e in silent)
            said.append(f"{plural(excused, 'element')} as the standard leaves open: {entries}")
        zeros = sum(f.flushed for f in rebased.values()) or sum(f.flushed for f in found.values())
        if zeros:
            said.append(
                f"{plural(zeros, 'element')} as it takes subnormal numbers for zeros, which it declares (flushes)"
            )
        detail = "; ".join(said)
        if not left and silent:
            return Verdict("open", REBASED if rebased else GRAPH, detail, judged=len(rebased))
        if not left:
            weakest = max((f.layer for f in found.values()), key=LAYERS.index, default=BITWISE)
            return Verdict("right", REBASED if rebased else weakest, detail, judged=len(rebased))
        if isinstance(possible, Unpredictable) and possible.label not in UNDECIDED:
            return Verdict("unpredictable", GRAPH, detail, judged=len(rebased))
        return Verdict("undecided", GRAPH, detail, judged=len(rebased))


_SAID = {
    BITWISE: "bit for bit",
    INTEGERS: "bit for bit, for all sums are exact",
    ELEMENTWISE: "within the ulps of their operator",
    DOT: "within the roundings of their sums",
    GRAPH: "inside the graph's bounds",
    REBASED: "",
}


def _but_for(found: Sequence[TensorFinding]) -> str:
    """What of these results is not as their layer says."""
    excused, zeros, nans = (sum(getattr(f, what) for f in found) for what in ("excused", "zeros", "nans"))
    exact = found[0].layer in (BITWISE, INTEGERS)
    left = [f"{plural(excused, 'element')} left open"] if excused else []
    left += [f"the sign of {plural(zeros, 'zero')}, which is free there"] if zeros and exact else []
    left += [f"the bits of {nans} NaN"] if nans else []
    return f", but for {' and '.join(left)}" if left else ""


def _bits_of(inputs: Mapping[str, Any]) -> object:
    """What tells inputs from others, bit for bit; None where one of them is no array of numbers."""
    if any(not isinstance(v, np.ndarray) or v.dtype == object for v in inputs.values()):
        return None
    return frozenset((n, str(v.dtype), v.shape, v.tobytes()) for n, v in inputs.items())


def _failed(expected: Expected, trap: Trap) -> Verdict:
    """The verdict on a run that failed. One of no kind fits any."""
    possible = expected.possible
    if isinstance(possible, Trap):
        said = "" if trap.kind else f"; it says no more than: {trap.message}"
        if trap.kind in ("", possible.kind):
            return Verdict("right", BITWISE, f"fails as it must: {possible}{said}")
        return Verdict("wrong", BITWISE, f"fails with {trap}, must fail with {possible}")
    if isinstance(possible, Unpredictable):
        return Verdict("undecided" if possible.label in UNDECIDED else "unpredictable", "", str(possible))
    allows = expected.may_fail
    if allows is not None:
        why = f"{allows.name}: {allows.condition} ({allows.source})"
        return Verdict("open", BITWISE, f"fails, as the standard leaves open, {why}: {trap.message}")
    if expected.opened[0].entries:
        return Verdict("undecided", "", f"fails with {trap}, where the standard leaves open what comes of an element")
    return Verdict("wrong", BITWISE, f"fails where it must not: {trap}")


def _is_chained(
    name: str, rebased: Mapping[str, TensorFinding], outputs: Mapping[str, Any], theirs: Mapping[str, Array]
) -> bool:
    """Whether the output is, bit for bit, a tensor that was found right, and nothing was left open there."""
    if name not in rebased or rebased[name].open or name not in outputs:
        return False
    given, own = np.asarray(outputs[name]), np.asarray(theirs[name])
    return given.shape == own.shape and given.dtype == own.dtype and not differing(own, given).any()
