"""A backend is tried: what it is asked, and the verdict on all that it gives (specs/verify.md, "Verdict").

It runs on the inputs, on others of the same sizes in between, and on the first again, in one preparation: what it keeps
from run to run shows. Another preparation gives its intermediate tensors for the same runs, where it can give them.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, TypeAlias

import numpy as np
import onnx
import onnx.defs

from assay.interp import graph
from assay.lower.frontends.onnx.string_table import node_title
from assay.semantics.errors import AssayError, Invalid, Trap, Unsupported
from assay.semantics.left_open.entries import BY_OPERATOR
from assay.verify.backends.protocol import FAILED, FATAL, UNASKED, Backend, Prepared, Subject, as_tensor, call_prepared
from assay.verify.oracle.declarations import EVERYTHING_KEPT, Accepts
from assay.verify.oracle.expected import Expected
from assay.verify.oracle.judge import Oracle
from assay.verify.oracle.layers import BITWISE
from assay.verify.oracle.left_open import Node
from assay.verify.oracle.other_inputs import Between, find_between
from assay.verify.oracle.verdict import Verdict

Array = np.ndarray[Any, Any]
Outputs: TypeAlias = Mapping[str, Any] | Trap
"""What came of a run: tensors by name, or that it failed."""

BETWEEN = "on other inputs in between"
"""How a verdict on these begins."""
AGAIN = "in a second run"
"""How one on the first inputs again begins."""


@dataclass(frozen=True)
class Run:
    """One of the runs: what is said of it, on what, and what came out."""

    when: str
    expected: Expected
    outputs: Outputs
    theirs: Mapping[str, Array]


def judge_backend(
    subject: Subject,
    backend: Backend,
    inputs: Mapping[str, Array] | Expected,
    excluded: Collection[str] = (),
    others: bool = True,
    oracles: Oracles | None = None,
) -> Verdict:
    """Run a backend, and judge what it gives: its outputs; and, where it can be asked for every tensor of the model,
    each operator on the backend's own operands. What the backend declares of itself is its attribute `accepts`, if it
    has one; rights that are `excluded` are not granted.
    A backend that changes its inputs is wrong; so is one that is wrong on other inputs in between, or when it is asked
    again. A run that fails, by a Trap or by an exception, is right where the program must fail. What other inputs could
    not show is said beside what is right; without `others` it runs on those given alone. `oracles` are those of the
    subject, where several backends are judged on it. Raises what else the backend raises for the outputs, and Invalid
    where the inputs are not what main takes."""
    given = inputs.inputs if isinstance(inputs, Expected) else inputs
    graph.check_inputs(subject.module.main, given)
    accepts = Accepts.of(getattr(backend, "accepts", None)).excluding(excluded)
    oracle = oracle_of(subject, accepts) if oracles is None else oracles.of(accepts)
    unseen: list[str] = []
    hidden: list[str] = []
    try:
        verdict: Verdict | None = None
        for run in _runs(subject, backend, oracle, oracle.expected(inputs), unseen, hidden, others):
            found = oracle.judge(run.expected, run.outputs, run.theirs)
            if verdict is None or found.outcome == "wrong":
                verdict = found if not run.when else replace(found, detail=f"{run.when}, {found.detail}")
            elif found.outcome == "undecided" and not _is_own(run) and verdict.outcome in ("right", "open"):
                what = (
                    f"{run.when}, it gives other outputs than its own tensors, of which nothing is known;"
                    f" {found.detail}"
                )
                verdict = replace(found, detail=what)
            elif run.when and found.outcome not in ("right", "open"):
                unseen.append(f"{run.when}, {found}")
            if verdict.outcome == "wrong":
                break
    except Invalid as wrong:
        if wrong.label != "backend.C8":
            raise
        return Verdict("wrong", BITWISE, wrong.message)
    assert verdict is not None
    if hidden and verdict.outcome != "wrong":
        verdict = replace(verdict, detail=f"{verdict.detail}; its intermediate tensors are not to be had: {hidden[0]}")
    if not unseen or verdict.outcome not in ("right", "open"):
        return verdict
    said = "; ".join(unseen)
    return replace(
        verdict,
        detail=f"{verdict.detail}; not shown is whether it keeps something from run to run: {said}",
        unseen=said,
    )


def _runs(
    subject: Subject,
    backend: Backend,
    oracle: Oracle,
    first: Expected,
    unseen: list[str],
    hidden: list[str],
    on_others: bool,
) -> Iterator[Run]:
    """The runs that are judged: the first, that on other inputs, and the first again where it gives other bits. What
    these cannot show is put into `unseen`, and why intermediate tensors are not shown, where that was no refusal, into
    `hidden`."""
    prepared, outputs = _first_run(subject, backend, first)
    if isinstance(outputs, Trap):
        unseen.append("the program fails on these inputs")
        yield Run("", first, outputs, {})
        return
    found = find_between(oracle, first, outputs, subject.model) if on_others else Between(None)
    between = found.expected
    others = _if_taken(backend, prepared, between)
    if between is not None and others is None:
        found = Between(None, "it refuses other inputs")
    unseen += [found.unseen] if found.unseen else []
    again = _told_of(AGAIN, backend, prepared, first)
    shown, theirs = _shown(subject, backend, prepared, first, hidden)
    yield Run("", first, outputs, theirs)
    if between is not None and others is not None:
        own = _if_taken(backend, shown, between) if shown is not None else None
        yield Run(BETWEEN, between, others, as_tensors(own))
    if isinstance(again, Trap) or not same_bits(outputs, again):
        theirs = as_tensors(call_prepared(backend.name, shown, first.inputs)) if shown is not None else {}
        yield Run(AGAIN, first, again, theirs)


def _first_run(subject: Subject, backend: Backend, first: Expected) -> tuple[Prepared, Outputs]:
    """The prepared backend, and what came of the first inputs. One that fails already when it prepares says that of
    every run."""
    try:
        prepared = backend.prepare(subject, subject.outputs)
    except Trap as trap:
        return lambda inputs: {}, trap
    return prepared, run_outputs(backend, prepared, first)


def run_outputs(backend: Backend, run: Prepared, on: Expected, inputs: Mapping[str, Array] | None = None) -> Outputs:
    """What came of a run on the inputs, or on those that it takes where some of them are constants of the module. What
    it raised is a trap of no kind where the program itself fails. Raises what else it raises."""
    try:
        return call_prepared(backend.name, run, on.inputs if inputs is None else inputs)
    except Trap as trap:
        return trap
    except Unsupported as wrong:
        if not fails_as_may_be(wrong, on):
            raise
        return Trap("", wrong.message)


def fails_as_may_be(wrong: AssayError, on: Expected) -> bool:
    """Whether a run failed, in whatever way, where the program itself fails, or where it may."""
    return wrong.label in FAILED and (isinstance(on.possible, Trap) or on.may_fail is not None)


def _told_of(when: str, backend: Backend, run: Prepared, on: Expected) -> Outputs:
    """What came of a run that is not the first. A crash says when it was."""
    try:
        return run_outputs(backend, run, on)
    except Unsupported as wrong:
        if wrong.label in FATAL:
            wrong.told_of(when)
        raise


def _shown(
    subject: Subject, backend: Backend, prepared: Prepared, first: Expected, hidden: list[str]
) -> tuple[Prepared | None, dict[str, Array]]:
    """The backend prepared for every tensor of the model, and these; None where it cannot show them, as not every
    backend can. What it raises then, which nobody who only wants outputs would see, is put into `hidden`. Where all
    tensors are outputs it is `prepared` already: a compiler may take seconds."""
    try:
        wanted = tensors_of(subject)
        shown = prepared if wanted == [*subject.outputs] else backend.prepare(subject, wanted)
        return shown, as_tensors(call_prepared(backend.name, shown, first.inputs))
    except Trap as trap:
        hidden.append(str(trap))
    except Unsupported as wrong:
        if wrong.label in FATAL and wrong.label not in UNASKED:
            raise
        hidden += [wrong.message] if wrong.label != "backend.C2" else []
    return None, {}


def tensors_of(subject: Subject) -> list[str]:
    """The names of the tensors that the nodes of a model make, as far as they have a meaning of their own here. A
    constant is no result of anybody: it is one only where the model gives it."""
    nodes = subject.model.graph.node
    made = [(o, n.op_type == "Constant") for n in nodes for o in n.output if o and o in subject.tensors]
    return [o for o, constant in made if not constant or o in subject.outputs]


def _if_taken(backend: Backend, run: Prepared, on: Expected | None) -> Outputs | None:
    """What it gives on inputs that we chose; None where it refuses these: they are not the user's."""
    try:
        return _told_of(BETWEEN, backend, run, on) if on is not None else None
    except Unsupported as wrong:
        if wrong.label in FATAL:
            raise
        return None


def _is_own(run: Run) -> bool:
    """Whether its outputs are what it shows when it is asked for all tensors, as far as it can be."""
    given = {} if isinstance(run.outputs, Trap) else run.outputs
    return all(n not in run.theirs or same_bits({n: v}, {n: run.theirs[n]}) for n, v in given.items())


def same_bits(one: Mapping[str, Any], other: Mapping[str, Any]) -> bool:
    """Whether two runs gave the same bits."""
    if one.keys() != other.keys():
        return False
    return all(_bits(a) == _bits(other[n]) for n, a in one.items())


def _bits(value: Any) -> Any:
    return (
        list(map(_bits, value))
        if isinstance(value, list)
        else value is not None and (value.shape, value.dtype, value.tobytes())
    )


def as_tensors(given: Outputs | None) -> dict[str, Array]:
    """What a backend gives for tensors of the model, whatever it is; none where it failed."""
    return {} if given is None or isinstance(given, Trap) else {n: as_tensor(v) for n, v in given.items()}


@dataclass(eq=False)
class Oracles:
    """The oracles of one subject, one for each set of freedoms. Each keeps what may come of inputs, so that several
    backends on the same inputs need it once."""

    subject: Subject
    made: dict[Accepts, Oracle] = field(default_factory=dict)

    def of(self, accepts: Accepts) -> Oracle:
        """The oracle of whoever declares these freedoms."""
        if accepts not in self.made:
            self.made[accepts] = oracle_of(self.subject, accepts, {})
        return self.made[accepts]


def oracle_of(
    subject: Subject, accepts: Accepts = EVERYTHING_KEPT, known: dict[object, Expected] | None = None
) -> Oracle:
    """The oracle of a model, which calls operators as the model does."""
    makers = {o: node_title(n) for n in subject.model.graph.node for o in n.output}
    versions = {o.domain: o.version for o in subject.model.opset_import}
    nodes = {
        o: made
        for n in subject.model.graph.node
        if n.op_type in BY_OPERATOR
        and n.domain in ("", "ai.onnx")
        and (made := node_of(n, versions.get(n.domain, 1))) is not None
        for o in n.output
        if o
    }
    collected = [o for n in subject.model.graph.node for o in _collected(n)]
    return Oracle(
        subject.module, subject.tensors, accepts=accepts, makers=makers, nodes=nodes, collected=collected, known=known
    )


def _collected(node: onnx.NodeProto) -> Sequence[str]:
    """The results of a node that its loop collects: those behind the variables that an iteration hands on."""
    if node.op_type == "Loop":
        return list(node.output[max(len(node.input) - 2, 0) :])
    if node.op_type == "Scan":
        scanned = next((a.i for a in node.attribute if a.name == "num_scan_inputs"), len(node.input))
        return list(node.output[len(node.input) - scanned :])
    return ()


def node_of(node: onnx.NodeProto, version: int) -> Node | None:
    """A node with all its attributes, and the version of the standard since which it means that."""
    try:
        schema = onnx.defs.get_schema(node.op_type, version, "")
    except onnx.defs.SchemaError:
        return None
    defaults = {k: a.default_value for k, a in schema.attributes.items() if a.default_value.type}
    given = {**defaults, **{a.name: a for a in node.attribute}}
    attrs = {name: onnx.helper.get_attribute_value(a) for name, a in given.items()}
    return Node(node.op_type, {**attrs, "since": schema.since_version}, list(node.input), list(node.output))
