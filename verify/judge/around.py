"""A model with operators that have no meaning here, judged around them (specs/verify.md, "judge")."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import onnx
from onnx import GraphProto, ModelProto

from assay.lower.frontends.onnx.control import reads
from assay.semantics.errors import AssayError, Trap
from assay.verify.backends import Backend, Subject
from assay.verify.backends.protocol import (
    OUTCOMES,
    Prepared,
    UnreadSubject,
    call_prepared,
    cannot,
    subject_of_model,
    with_outputs,
)
from assay.verify.evidence import listed
from assay.verify.judge.outcome import BackendVerdict
from assay.verify.judge.pieces import onnx_title
from assay.verify.judge.piecewise import type_of
from assay.verify.judge.run import JudgeRun
from assay.verify.judge.samples import Sample
from assay.verify.oracle.trial import same_bits

Array = np.ndarray[Any, Any]


@dataclass(frozen=True)
class Cut:
    """A model without some of its nodes: what these give is given to the rest, and what they read are results of it."""

    model: ModelProto
    places: Sequence[int]

    @property
    def title(self) -> str:
        """The nodes that are left out, for people."""
        return listed([onnx_title(self.model.graph.node[i]) for i in self.places])

    @property
    def tensors(self) -> list[str]:
        """What the nodes give that are left out."""
        return [o for i in self.places for o in self.model.graph.node[i].output if o]

    @property
    def outputs(self) -> list[str]:
        """The results of the rest: outputs of the model, and what is read by nodes that are left out."""
        graph, left = self.model.graph, {*self.places}
        made = {o for i, n in enumerate(graph.node) if i not in left for o in n.output if o}
        read = (n for i in self.places for n in graph.node[i].input)
        return list(dict.fromkeys(n for n in (*(o.name for o in graph.output), *read) if n in made))

    def words(self, values: Mapping[str, Array]) -> list[str]:
        """Those of these values that are strings, and are read by the rest: no number stands for what a run makes."""
        left = {*self.places}
        rest = (n for i, n in enumerate(self.model.graph.node) if i not in left)
        return sorted({t for n in rest for t in reads(n) if t in values and _is_text(values[t])})

    def inputs_only(self) -> ModelProto:
        """A model of the same inputs, which it gives as they are."""
        stored = {t.name for t in self.model.graph.initializer}
        inputs = [i for i in self.model.graph.input if i.name not in stored]
        graph = GraphProto(name="inputs")
        graph.input.extend(inputs)
        for i, value in enumerate(inputs):
            graph.node.append(onnx.helper.make_node("Identity", [value.name], [f"given_{i}"]))
            graph.output.append(onnx.ValueInfoProto(name=f"given_{i}", type=value.type))
        return onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 16)], ir_version=8)

    def rest(self, values: Mapping[str, Array], outputs: Sequence[str]) -> ModelProto:
        """The rest as a model, which takes tensors of the shapes of these values."""
        graph, left = self.model.graph, {*self.places}
        declared = {o.name: o for o in graph.output}
        made = GraphProto(name=graph.name or "rest")
        made.node.extend(n for i, n in enumerate(graph.node) if i not in left)
        made.initializer.extend(graph.initializer)
        made.sparse_initializer.extend(graph.sparse_initializer)
        made.input.extend(graph.input)
        made.input.extend(onnx.ValueInfoProto(name=n, type=type_of(v)) for n, v in values.items())
        made.output.extend(declared.get(n, onnx.ValueInfoProto(name=n)) for n in outputs)
        model = ModelProto(ir_version=self.model.ir_version, graph=made)
        model.opset_import.extend(self.model.opset_import)
        model.functions.extend(self.model.functions)
        return model


@dataclass(eq=False)
class Around:
    """A backend on the rest of a model: where it shows what the nodes give that are left out, it runs the whole, and
    tells the rest of that; else the rest as a model of its own. Pieces it runs as ever."""

    backend: Backend
    cut: Cut
    whole: Subject
    rest: Subject
    shows: bool

    @property
    def name(self) -> str:
        """The backend's name."""
        return self.backend.name

    @property
    def accepts(self) -> Any:
        """What the backend declares of itself."""
        return getattr(self.backend, "accepts", None)

    def prepare(self, subject: Subject, wanted: Sequence[str]) -> Prepared:
        """Prepare the whole for the rest, and anything else as it is. Unsupported (backend.C2) in a run: what the nodes
        give that are left out is not what it was."""
        if subject is not self.rest or not self.shows:
            return self.backend.prepare(subject, wanted)
        run = self.backend.prepare(self.whole, list(dict.fromkeys([*wanted, *self.cut.tensors])))
        own = [i.name for i in self.whole.model.graph.input]

        def act(inputs: Mapping[str, Array]) -> dict[str, Any]:
            made = run({n: inputs[n] for n in own if n in inputs})
            for n in self.cut.tensors:
                if n in inputs and not same_bits({n: made.get(n)}, {n: inputs[n]}):
                    raise cannot(self.name, f"it gives another {n} in each run, and nothing says what that may be")
            return {n: made[n] for n in wanted if n in made}

        return act


def judge_around(
    cut: Cut, sizes: Mapping[str, int], samples: Sequence[Sample], backends: Sequence[Backend], run: JudgeRun
) -> Iterator[BackendVerdict]:
    """The verdict on each backend, around the nodes that are left out, with the options of a run. On each set of inputs
    it is asked first for what these nodes give."""
    whole = UnreadSubject(cut.model, sizes)
    for backend in backends:
        verdict = BackendVerdict(backend.name, around=cut.title)
        try:
            prepared, shows = _showing(backend, whole, cut)
            given = [(s, _given(backend, prepared, s, cut)) for s in samples]
        except AssayError as why:
            if why.label not in OUTCOMES and not isinstance(why, Trap):
                raise
            verdict.ended = OUTCOMES.get(why.label, "refused")
            verdict.why = f"{why.message}; it has to give the results of what has no meaning here, {cut.title}"
            yield verdict
            continue
        if words := cut.words(given[0][1]):
            verdict.ended = "undecided"
            verdict.why = f"the rest reads strings, {listed(words)}, that come of what has no meaning here, {cut.title}"
            yield verdict
            continue
        given = [(s, {n: a for n, a in v.items() if not _is_text(a)}) for s, v in given]
        shapes = {n: v.shape for n, v in given[0][1].items()}
        alike = [replace(s, inputs={**s.inputs, **v}) for s, v in given if {n: a.shape for n, a in v.items()} == shapes]
        outputs = cut.outputs
        if outputs:
            rest = subject_of_model(cut.rest(given[0][1], outputs), sizes, run.source)
            # strings that the nodes read are numbers in our module, which no backend shows
            outputs = [n for n in outputs if n in rest.tensors]
        if not outputs:
            verdict.ended, verdict.why = (
                "undecided",
                f"there is nothing in it but what has no meaning here, {cut.title}",
            )
            yield verdict
            continue
        if len(outputs) < len(cut.outputs):
            rest = subject_of_model(cut.rest(given[0][1], outputs), sizes, run.source)
        who = Around(backend, cut, whole, rest, shows)
        judged = replace(run, subject=rest, samples=alike, backends=[who], others=False, correct={}, known={})
        for found in judged.verdicts():
            found.around = cut.title + (SAME if _stays(given, cut) else "")
            yield found


def _showing(backend: Backend, whole: Subject, cut: Cut) -> tuple[Prepared, bool]:
    """The backend prepared to give what the nodes give that are left out; beside the outputs, where it can."""
    try:
        return backend.prepare(whole, list(dict.fromkeys([*whole.outputs, *cut.tensors]))), True
    except AssayError as why:
        if OUTCOMES.get(why.label) != "refused":
            raise
    return backend.prepare(UnreadSubject(with_outputs(cut.model, cut.tensors), whole.dims), cut.tensors), False


SAME = " (which gives the same bits on all sets of inputs)"


def _stays(given: Sequence[tuple[Sample, Mapping[str, Array]]], cut: Cut) -> bool:
    """Whether the nodes that are left out gave the same bits on several sets of inputs, all of which differ."""
    own = [
        {i.name: np.asarray(s.inputs[i.name]) for i in cut.model.graph.input if i.name in s.inputs} for s, _ in given
    ]
    alike = len(given) > 1 and all(same_bits(v, given[0][1]) for _, v in given[1:])
    return alike and not any(same_bits(i, own[0]) for i in own[1:])


def _is_text(value: Array) -> bool:
    return value.dtype.kind in "OSTU"


def _given(backend: Backend, prepared: Prepared, sample: Sample, cut: Cut) -> dict[str, Array]:
    made: Mapping[str, Any] = call_prepared(backend.name, prepared, sample.inputs)
    missing = [n for n in cut.tensors if not isinstance(made.get(n), np.ndarray)]
    if missing:
        raise cannot(backend.name, f"it gives no tensor {listed(missing)}")
    return {n: made[n] for n in cut.tensors}
