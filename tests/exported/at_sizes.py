"""A model lowered and compiled once, and compared at many sizes."""

from __future__ import annotations

from collections.abc import Mapping
from math import prod
from typing import Any

import numpy as np
import onnx

from assay.interp import graph, machine
from assay.semantics.errors import Invalid, Trap
from assay.semantics.scalar import Var as Symbol, evaluate_dim
from assay.semantics.types import TensorType, symbols
from assay.verify.app.check import Lowering
from assay.verify.app.judging import JudgedOutputs, judge_outputs
from assay.verify.app.stages import STAGES
from assay.verify.backends.isolated import Isolated
from assay.verify.border.inputs import complete
from assay.verify.c.compiled import compile_c
from assay.verify.c.tools import SizesRefused
from assay.verify.oracle import Expected
from assay.verify.trials.fitting import facts_of, fitting_sizes

Array = np.ndarray[Any, Any]

NOT_WRONG = {"right", "open", "refused", "undecided", "unpredictable", "died"}
"""Outcomes that say nothing against us; ONNX Runtime refuses to run, or ends its process, at some sizes of 0."""


class AtSizes:
    """A model with unknown sizes: what stands at the end of its lowering, and its C, which is compiled once.

    The tensor interpreter, which does one scalar operation after another, runs where the product of the sizes is at
    most `most`.
    """

    def __init__(self, lowering: Lowering, most: int = 64) -> None:
        self.lowering, self.most = lowering, most
        first, *others = STAGES
        self.imported = module = lowering.module(first.name, None)
        for stage in others:
            module = lowering.module(stage.name, module)
        self.planned = module
        self.free = tuple(dict.fromkeys(s for p in self.imported.main.params for s in symbols(p.type)))
        self.c = compile_c(lowering.c_source(module), reproducible=True)
        self.outcomes: dict[str, list[Mapping[str, int]]] = {}
        """What was found, by sizes."""

    def fitting(self, wanted: Mapping[str, int]) -> dict[str, int] | None:
        """Sizes that the model's own casts allow, as many of them as wanted as there can be; None: there are none."""
        sizes = {s: wanted[s.name] for s in self.free}
        facts = facts_of(self.imported, self.free)
        if not all(f.holds(dict(sizes)) for f in facts):
            for some in range(len(self.free) - 1, -1, -1):
                found = next(fitting_sizes(self.imported, self.free, 1, dict(list(sizes.items())[:some])), None)
                if found is not None:
                    sizes = found
                    break
            else:
                return None
        return {s.name: n for s, n in sizes.items()}

    def compare(self, sizes: Mapping[str, int], seed: int = 0, backend: Isolated | None = None) -> str:
        """What comes of the model at these sizes, as one word: it traps, has no such size, or is as ONNX Runtime was
        judged.

        The machine, the tensor interpreter and the C have the same bits, or trap alike, also where the model means
        nothing; what they give lies inside the bounds of the graph, and where they trap it traps.
        """
        found = self._compare(sizes, seed, backend)
        self.outcomes.setdefault(found, []).append(dict(sizes))
        return found

    def _compare(self, sizes: Mapping[str, int], seed: int, backend: Isolated | None) -> str:
        numbers = {s: sizes[s.name] for s in self.free}
        try:
            module, tensors = self.lowering.sized(self.imported, numbers)
        except Invalid:
            self.planned_program(self.zeros(numbers), sizes)
            return "no such size"
        inputs = complete(module.main, {}, seed)
        ran = self.planned_program(inputs, sizes)
        by_graph = outcome(lambda: graph.run(module, inputs))
        if isinstance(by_graph, str) or isinstance(ran, str):
            assert by_graph == ran, f"at {sizes} the graph: {by_graph}; the planned program: {ran}"
            return "traps"
        expected = Expected(module, inputs)
        names = module.main.attrs.get("outputs", ())
        outputs = {names[k]: ran[s] for k, s in enumerate(self.planned.program.outputs)}
        for name, value in outputs.items():
            assert value.shape == np.shape(by_graph[name]), (sizes, name, value.shape, np.shape(by_graph[name]))
        assert not isinstance(expected.possible, Trap), (sizes, expected.possible)
        if isinstance(expected.possible, dict):
            wrong = [f.wrong for f in expected.findings(outputs).values() if f.wrong]
            assert not wrong, f"outside of the graph's bounds at {sizes}: {wrong[0]}"
        assert isinstance(self.lowering.model, onnx.ModelProto)
        judged = JudgedOutputs("onnxruntime", self.lowering.model, sizes, backend=backend)
        _, evidence = judge_outputs(judged, expected, tensors)
        assert evidence.outcome in NOT_WRONG, f"onnxruntime at {sizes}: {evidence.detail}"
        return evidence.outcome

    def told(self) -> str:
        """How often which outcome was found, and at which sizes that are not right."""
        return ", ".join(
            f"{word} {len(found)}" + ("" if word == "right" else f" {[tuple(s.values()) for s in found]}")
            for word, found in self.outcomes.items()
        )

    def planned_program(self, inputs: Mapping[str, Array], sizes: Mapping[str, int]) -> dict[str, Array] | str:
        """What the planned program gives, which the machine, the tensor interpreter and the C agree about."""
        taken = {n: inputs[n] for n in self.planned.program.inputs}
        found = outcome(lambda: machine.run(self.planned, taken))
        others = {"the C": outcome(lambda: self.c.run(taken))}
        if prod(n or 1 for n in sizes.values()) <= self.most:
            others["the tensor interpreter"] = outcome(lambda: machine.run(self.planned, taken, execute="definition"))
        for who, got in others.items():
            assert same_bits(found, got), f"at {sizes} {who} gives {got}, the machine {found}"
        return found

    def zeros(self, numbers: Mapping[Symbol, int]) -> dict[str, Array]:
        """Inputs of which every element is 0, at sizes at which the model may mean nothing."""
        types = {p.name: p.type for p in self.imported.main.params}
        return {
            n: np.zeros([evaluate_dim(d, numbers) for d in t.shape], t.dtype.numpy)
            for n, t in types.items()
            if isinstance(t, TensorType)
        }


def outcome(run: Any) -> dict[str, Array] | str:
    """The outputs of a run by name, or the kind of the trap that it ends with."""
    try:
        found: dict[str, Array] = run()
        return found
    except Trap as trap:
        return trap.kind
    except SizesRefused:
        return "shape"
    except Invalid as wrong:
        if wrong.label != "instance.C3":  # that a dim is below 0 at these sizes, which in C is one of SizesRefused
            raise
        return "shape"


def same_bits(one: dict[str, Array] | str, other: dict[str, Array] | str) -> bool:
    """Whether two runs gave the same shapes and bits, every NaN as one; or trapped alike."""
    if isinstance(one, str) or isinstance(other, str):
        return one == other if isinstance(one, str) and isinstance(other, str) else False
    return one.keys() == other.keys() and all(
        np.shape(one[n]) == np.shape(other[n]) and _bits(one[n]) == _bits(other[n]) for n in one
    )


def _bits(array: Array) -> bytes:
    array = np.ascontiguousarray(array)
    if array.dtype.kind == "f":
        array = np.where(np.isnan(array), np.array(np.nan, array.dtype), array)
    return array.tobytes()
