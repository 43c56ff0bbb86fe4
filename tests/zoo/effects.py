"""How large the effect of each fault is, beside the spread of correct runs.

The unit is the standard deviation of an output over SEEDS adversarial runs, pooled over its elements: what one correct
implementation and another are apart. A fault whose outputs lie within INSIDE of it cannot be told from a correct run by
the outputs of the whole model.
"""

from __future__ import annotations

import csv
from collections.abc import Collection
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from onnx import ModelProto, helper

from assay.semantics.module import Module
from assay.verify.backends.ort import OnnxRuntime
from assay.verify.backends.protocol import Backend, Subject, subject_of_model
from assay.verify.oracle.adversarial import Adversary
from tests.zoo import models
from tests.zoo.edit import read_by
from tests.zoo.faults import Fault, facts
from tests.zoo.faulty import FaultyBackend
from tests.zoo.kinds import KINDS

Array = np.ndarray[Any, Any]
TABLE = Path(__file__).with_name("effects.csv")
SEEDS = 16
INSIDE = 8.0
BASE = OnnxRuntime("onnxruntime:none", "ORT_DISABLE_ALL", threads=1)
"""Without fusions of its own: one of them mends a fault (a division the wrong way round in a normalization)."""


@dataclass(frozen=True)
class Effect:
    """`most` and `rms`: how far the outputs are from a correct run, in spreads, at the worst element and on average, of
    the output where that is largest. `piece`: the change of the results of the fault's own nodes, on the tensors of the
    run, as a share of the largest element. `on` is the data it was measured on."""

    id: str
    on: str
    most: float
    rms: float
    piece: float

    @property
    def inside(self) -> bool:
        """Whether the outputs say nothing."""
        return self.most <= INSIDE


def data(model: ModelProto, on: str) -> list[dict[str, Array]]:
    """Inputs of the runs, the last of which is looked at: ordinary; with a NaN in each; or others before."""
    runs = [models.inputs(model, 0)]
    if on == "second":
        return [models.inputs(model, 1), *runs]
    if on == "nan":
        for value in runs[0].values():
            if value.dtype.kind == "f":
                value.reshape(-1)[value.size // 2] = np.nan
    return runs


@cache
def spread(name: str) -> dict[str, float]:
    """The pooled standard deviation of each output over adversarial runs on ordinary inputs."""
    model = models.model(name)
    subject, given = subject_of_model(model), models.inputs(model, 0)
    runs = [Adversary(seed).prepare(subject, subject.outputs)(given) for seed in range(SEEDS)]
    return {o: float(np.sqrt(np.mean(np.var([r[o] for r in runs], axis=0, dtype=np.float64)))) for o in subject.outputs}


def last_run(backend: Backend, model: ModelProto, runs: list[dict[str, Array]]) -> dict[str, Array]:
    """The outputs of the last of several runs."""
    subject = Subject(Module({}), model)
    run = backend.prepare(subject, subject.outputs)
    return [run(given) for given in runs][-1]


def effect(fault: Fault) -> Effect:
    """Measure one fault."""
    model, on = models.model(fault.model), KINDS[fault.kind].shows
    runs = data(model, on)
    right, wrong = last_run(BASE, model, runs), last_run(FaultyBackend(BASE, fault), model, runs)
    most = rms = 0.0
    for name, size in spread(fault.model).items():
        far = difference(right[name], wrong[name]) / size
        most, rms = max(most, float(far.max())), max(rms, float(np.sqrt(np.mean(far**2))))
    return Effect(fault.id, on, most, rms, effect_on_piece(fault))


def difference(right: Array, wrong: Array) -> Array:
    """How far apart elements are: infinitely if one alone is a NaN."""
    with np.errstate(invalid="ignore"):
        far = np.abs(right.astype(np.float64) - wrong.astype(np.float64))
    both = np.isnan(right) & np.isnan(wrong)
    return np.where(both, 0.0, np.where(np.isnan(far), np.inf, far))


# --- a piece ------------------------------------------------------------------------------------------------------


def piece(name: str, nodes: Collection[str]) -> ModelProto:
    """These nodes of a model as a model: what they read is its inputs, but for weights; its outputs are what others
    read, or the model gives."""
    known = facts(name)
    kept = [n for n in known.model.graph.node if n.name in nodes]
    made = {o for n in kept for o in n.output if o}
    read = dict.fromkeys(i for n in kept for i in read_by(n) if i not in made)
    stored = [i for i in known.model.graph.initializer if i.name in read]
    constants = [n for n in known.model.graph.node if n.op_type == "Constant" and n.output[0] in read]
    inputs = [i for i in read if i not in known.constants]
    outputs = [o for o in made if o in known.outputs or any(r.name not in nodes for r in known.readers.get(o, []))]

    def declared(tensor: str) -> Any:
        value = np.asarray(known.values[tensor])
        return helper.make_tensor_value_info(tensor, helper.np_dtype_to_tensor_dtype(value.dtype), list(value.shape))

    graph = helper.make_graph(
        [*constants, *kept], name, [declared(i) for i in inputs], [declared(o) for o in sorted(outputs)], stored
    )
    model = known.model
    return helper.make_model(graph, opset_imports=model.opset_import, ir_version=model.ir_version)


def runs_of_piece(name: str, of: ModelProto, on: str) -> list[dict[str, Array]]:
    """The inputs of a piece, as tensors of runs of the whole model."""
    known = facts(name)
    from_runs = [known.others, known.values] if on == "second" else [known.values]
    runs = [{i.name: np.array(values[i.name]) for i in of.graph.input} for values in from_runs]
    if on == "nan":
        for value in runs[-1].values():
            if value.dtype.kind == "f":
                value.reshape(-1)[value.size // 2] = np.nan
    return runs


def effect_on_piece(fault: Fault) -> float:
    """How much the fault changes the results of its own nodes, and of all that read what must not be shown, as a share
    of the largest element."""
    readers = facts(fault.model).readers
    of = piece(fault.model, (*fault.nodes, *(r.name for i in fault.inner for r in readers[i])))
    runs = runs_of_piece(fault.model, of, KINDS[fault.kind].shows)
    right, wrong = last_run(BASE, of, runs), last_run(FaultyBackend(BASE, fault), of, runs)
    shares = [0.0]
    for name, value in right.items():
        finite = np.abs(value[np.isfinite(value)]) if value.dtype.kind == "f" else np.abs(value.astype(np.float64))
        largest = float(finite.max()) if finite.size else 1.0
        shares.append(float(difference(value, wrong[name]).max()) / (largest or 1.0))
    return max(shares)


# --- the table ----------------------------------------------------------------------------------------------------


def write(effects: list[Effect]) -> None:
    """Write the table."""
    with TABLE.open("w", newline="") as rows:
        out = csv.writer(rows, lineterminator="\n")
        out.writerow(["id", "on", "most", "rms", "piece", "inside"])
        for e in effects:
            out.writerow([e.id, e.on, *(f"{v:.3g}" for v in (e.most, e.rms, e.piece)), "yes" if e.inside else "no"])


def read() -> list[Effect]:
    """The effects of the table."""
    with TABLE.open(newline="") as rows:
        return [
            Effect(r["id"], r["on"], float(r["most"]), float(r["rms"]), float(r["piece"])) for r in csv.DictReader(rows)
        ]
