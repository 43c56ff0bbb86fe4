"""A model evaluated piece by piece, each on exact inputs (specs/verify.md, "Pieces").

Intervals grow through a deep model until they exclude nothing. Here each window begins anew with arrays, which are what
the windows before gave by our definition; so its intervals are those of a shallow program.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import onnx
from onnx import TypeProto, numpy_helper

from assay.interp.graph import evaluate, run
from assay.interp.values import Value
from assay.lower.frontends.onnx.model import import_onnx
from assay.semantics.errors import Invalid, Trap, Unsupported
from assay.semantics.graph import Constant, Expr, Var
from assay.semantics.walk import post_order
from assay.verify.backends.protocol import Subject
from assay.verify.judge.pieces import Dataflow, Piece, Window
from assay.verify.oracle import Expected
from assay.verify.oracle.walk import places

Array = np.ndarray[Any, Any]
Tensors = Mapping[str, Array]


@dataclass(frozen=True)
class Case:
    """A piece as a program of its own, the inputs that a backend gets, and what may come of them."""

    subject: Subject
    inputs: Tensors
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
        alone = False
        hidden: Collection[str] = ()
        for k, tensors in given.items():
            if k in self.stopped:
                continue
            try:
                if subject is None or alone:
                    subject, alone = self.subject(piece, tensors)
                    hidden = _unseen(subject, [n for n in wanted if n not in piece.outputs])
                cases[k], made[k] = _evaluated(subject, tensors, [n for n in wanted if n not in hidden])
                made[k] |= self._hidden(piece, tensors, hidden)
            except (Trap, Unsupported) as why:
                self.stopped[k] = f"{self.flow.title(piece)}: {why}"
                cases.pop(k, None)
        return cases, made

    def subject(self, piece: Piece, given: Tensors) -> tuple[Subject, bool]:
        """A piece as a program of its own, and whether it is that of these tensors alone. What is known before a run
        is a constant of it; so are, in the module, whole numbers among its inputs where sizes of results depend on
        them."""
        types = {n: type_of(given[n]) for n in piece.inputs}
        known = {n: numpy_helper.from_array(given[n], n) for n in piece.inputs if n in self.flow.settled}
        model = self.flow.model_of(piece, types, known)
        try:
            return self._imported(model, model), False
        except Invalid:
            numbers = {n: given[n] for n in piece.inputs if n not in known and _may_be_size(given[n])}
            if not numbers:
                raise
            stored = {n: numpy_helper.from_array(a, n) for n, a in numbers.items()}
            found = self._imported(self.flow.model_of(piece, types, known | stored), model)
            return replace(found, values=numbers), True

    def _imported(self, model: onnx.ModelProto, shown: onnx.ModelProto) -> Subject:
        tensors: dict[str, Expr] = {}
        return Subject(import_onnx(model, evaluate=evaluate, source=self.source, tensors=tensors), shown, tensors)

    def _hidden(self, piece: Piece, given: Tensors, names: Collection[str]) -> dict[str, Array]:
        """Tensors that the run of a piece does not show where they are made, as outputs of a run of their own."""
        if not names:
            return {}
        part = self.flow.piece_to(names, piece.inputs)
        values = {n: given[n] for n in part.inputs}
        known = {n: numpy_helper.from_array(a, n) for n, a in values.items() if _may_be_size(a)}
        model = self.flow.model_of(part, {n: type_of(a) for n, a in values.items()}, known)
        module = self._imported(model, model).module
        made = run(module, {p.name: values[p.name] for p in module.main.params})
        return {n: np.asarray(made[n]) for n in names}


def run_showing(subject: Subject, inputs: Tensors, names: Collection[str]) -> dict[str, Any]:
    """The outputs of a run by our definition, and those of the named tensors that it shows where they are made."""
    where = places(subject.module, {n: subject.tensors[n] for n in names if n in subject.tensors})
    made: dict[str, Any] = {}

    def seen(node: Expr, result: Value) -> None:
        for name, index in where.get(id(node), ()):
            made[name] = result[index] if index is not None and isinstance(result, tuple) else result

    made.update(run(subject.module, inputs, observe=seen))
    return made


def _evaluated(subject: Subject, given: Tensors, wanted: Collection[str]) -> tuple[Case, dict[str, Array]]:
    """A piece as a case, and tensors that it makes, by our definition."""
    inputs = {p.name: given[p.name] for p in subject.module.main.params}
    made = run_showing(subject, inputs, wanted)
    values = {n: np.asarray(made[n]) if n in made else _known(subject.tensors[n], given) for n in wanted}
    theirs = {i.name: given[i.name] for i in subject.model.graph.input}
    return Case(subject, theirs, Expected(subject.module, inputs)), values


def _unseen(subject: Subject, names: Iterable[str]) -> frozenset[str]:
    """Those that a run does not show where they are made: results of choices and loops, and what only the reader of a
    constant would need."""
    main, tensors = subject.module.main, subject.tensors
    made = places(subject.module, tensors)
    run = {t for node in post_order(main.body) for t, _ in made.get(id(node), ())}
    plain = {n for n, e in tensors.items() if isinstance(e, Constant) or e in main.params}
    return frozenset(n for n in names if n not in run and n not in plain)


def _known(node: Expr, given: Tensors) -> Array:
    """What an input or a constant is."""
    if isinstance(node, Constant):
        return node.data
    assert isinstance(node, Var), node
    return given[node.name]


MOST_SIZES = 1024
"""Elements of a tensor of whole numbers that may be sizes."""


def _may_be_size(array: Array) -> bool:
    return array.dtype.kind in "iub" and array.size <= MOST_SIZES


def type_of(array: Array) -> TypeProto:
    """What ONNX calls the type of an array."""
    of = onnx.helper.np_dtype_to_tensor_dtype(array.dtype)
    return onnx.helper.make_tensor_type_proto(of, array.shape)
