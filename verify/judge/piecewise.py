"""A model evaluated piece by piece, each on exact inputs (specs/verify.md, "Pieces").

Intervals grow through a deep model until they exclude nothing. Here each window begins anew with arrays, which are what
the windows before gave by our definition; so its intervals are those of a shallow program.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import onnx
from onnx import TypeProto, numpy_helper

from assay.interp.graph import evaluate
from assay.interp.values import plain
from assay.lower.frontends.onnx.model import import_onnx
from assay.semantics.bounds import Bounded
from assay.semantics.errors import Invalid, Trap, Unpredictable, Unsupported
from assay.semantics.graph import Constant, Expr, Var
from assay.semantics.module import Module
from assay.verify.backends.protocol import Subject
from assay.verify.judge.pieces import Dataflow, Piece, Window
from assay.verify.oracle import Expected
from assay.verify.oracle.walk import RecordingRun, places

Array = np.ndarray[Any, Any]
Tensors = Mapping[str, Array]


@dataclass(frozen=True)
class Case:
    """A piece as a program of its own, and what may come of it on one set of inputs."""

    subject: Subject
    expected: Expected


@dataclass(eq=False)
class Piecewise:
    """A model, and the sets of inputs on which it is evaluated, all of one size."""

    flow: Dataflow
    inputs: Sequence[Tensors]
    source: str = ""
    live: list[dict[str, Array]] = field(init=False)
    """The tensors that windows to come are given, of each set of inputs."""
    stopped: dict[int, str] = field(default_factory=dict)
    """The sets of inputs on which the run has ended, by their place, and why."""

    def __post_init__(self) -> None:
        self.live = [dict(given) for given in self.inputs]

    def steps(self, windows: Sequence[Window]) -> Iterator[tuple[Window, Mapping[int, Case]]]:
        """Each window as a case of each set of inputs. Tensors that no later window reads are forgotten."""
        last = {name: i for i, window in enumerate(windows) for name in window.piece.inputs}
        for i, window in enumerate(windows):
            own = {n for at in window.cell for n in self.flow.nodes[at].output if last.get(n, -1) > i}
            cases, made = self.evaluated(window.piece, dict(enumerate(self.live)), own)
            yield window, cases
            for k, live in enumerate(self.live):
                live.update(made.get(k, {}))
                for name in [n for n in live if last.get(n, -1) <= i]:
                    del live[name]

    def evaluated(
        self, piece: Piece, given: Mapping[int, Tensors], wanted: Collection[str] = ()
    ) -> tuple[dict[int, Case], dict[int, dict[str, Array]]]:
        """A piece on the tensors of each set of inputs on which the run goes on, and the `wanted` ones that it
        makes."""
        cases: dict[int, Case] = {}
        made: dict[int, dict[str, Array]] = {}
        subject: Subject | None = None
        for k, tensors in given.items():
            if k in self.stopped:
                continue
            try:
                if subject is None or subject.module.main.attrs.get("of"):
                    subject = self.subject(piece, tensors, wanted)
                cases[k], made[k] = _evaluated(subject, tensors, wanted)
            except (Trap, Unpredictable, Unsupported) as why:
                self.stopped[k] = f"{self.flow.title(piece)}: {why}"
                cases.pop(k, None)
        return cases, made

    def subject(self, piece: Piece, given: Tensors, wanted: Collection[str]) -> Subject:
        """A piece as a program of its own. What is known before a run is a constant of it. Where the type of a result
        depends on what an input holds, the module is of that value alone, and its main has the attribute `of`."""
        types = {n: _type(given[n]) for n in piece.inputs}
        known = {n: numpy_helper.from_array(given[n], n) for n in piece.inputs if n in self.flow.settled}
        values = {n: given[n] for n in piece.inputs if n not in known}
        model = self.flow.model_of(piece, types, known)
        module, tensors = self._imported(model, values)
        hidden = [n for n in wanted if n not in piece.outputs and not _is_seen(module, tensors, n)]
        if hidden:  # results of choices and loops are seen as outputs alone
            model = self.flow.model_of(piece, types, known, hidden)
            module, tensors = self._imported(model, values)
        return Subject(module, model, tensors)

    def _imported(self, model: onnx.ModelProto, values: Tensors) -> tuple[Module, dict[str, Expr]]:
        tensors: dict[str, Expr] = {}
        try:
            return import_onnx(model, evaluate=evaluate, source=self.source, tensors=tensors), tensors
        except Invalid:
            tensors.clear()
            module = import_onnx(model, evaluate=evaluate, source=self.source, tensors=tensors, values=values)
            return module.with_(main=replace(module.main, attrs={**module.main.attrs, "of": True})), tensors


def _evaluated(subject: Subject, given: Tensors, wanted: Collection[str]) -> tuple[Case, dict[str, Array]]:
    where = places(subject.module, {n: subject.tensors[n] for n in wanted if n in subject.tensors})
    expected = Expected(subject.module, {p.name: given[p.name] for p in subject.module.main.params})
    walk = expected.walk = RecordingRun(subject.module, where)
    possible = expected.possible
    if isinstance(possible, (Trap, Unpredictable)):
        raise possible
    values = {**walk.ours, **{n: v for n, v in possible.items() if n in wanted}}
    made = {n: as_array(values[n]) if n in values else _known(subject.tensors[n], given) for n in wanted}
    walk.ours.clear()
    return Case(subject, expected), made


def _is_seen(module: Module, tensors: Mapping[str, Expr], name: str) -> bool:
    node = tensors.get(name)
    return isinstance(node, (Constant, Var)) or (node is not None and bool(places(module, {name: node})))


def _known(node: Expr, given: Tensors) -> Array:
    """What an input or a constant is."""
    if isinstance(node, Constant):
        return node.data
    assert isinstance(node, Var)
    return given[node.name]


def as_array(value: Any) -> Array:
    """One of the values that are right: the middle of each interval, as the dtype has it."""
    value = plain(value)
    if not isinstance(value, Bounded):
        return np.asarray(value)
    middle = value.value
    if not value.of.is_float:
        low, _ = value.interval()
        middle = np.ceil(low)
    with np.errstate(all="ignore"):
        return np.asarray(middle.astype(value.of.numpy))


def _type(array: Array) -> TypeProto:
    of = onnx.helper.np_dtype_to_tensor_dtype(array.dtype)
    return onnx.helper.make_tensor_type_proto(of, array.shape)
