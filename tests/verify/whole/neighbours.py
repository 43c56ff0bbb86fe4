"""ONNX's own node cases between neighbours: what comes in and what goes out is computed by another node.

A case alone has its tensors in the caller's memory; between neighbours they lie in the pool, where one may take the
bytes of another. The neighbour is a Where that takes the number as it is. `campaign` gives those that `check` calls
wrong, or ends on with a fault of ours.
"""

from __future__ import annotations

import warnings
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import ModelProto, TensorProto, ValueInfoProto, helper
from onnx.backend.test.loader import load_model_tests

from tests.verify.whole.command_trials import Trial, command

NUMBERS = {
    getattr(TensorProto, t)
    for t in ("FLOAT", "DOUBLE", "FLOAT16", "INT8", "INT16", "INT32", "INT64", "UINT8", "UINT16", "UINT32", "UINT64")
}
NEVER = "neighbour_never"


def between(model: ModelProto) -> ModelProto:
    """The model with a node before each input and behind each output of numbers."""
    made = ModelProto()
    made.CopyFrom(model)
    graph = made.graph
    kept = {i.name for i in graph.initializer}
    inside = {v.name: f"{v.name}_inside" for v in graph.input if _has_numbers(v) and v.name not in kept}
    written = {o for n in graph.node for o in n.output}
    inside |= {v.name: f"{v.name}_inside" for v in graph.output if _has_numbers(v) and v.name in written}
    before = [_same(graph, v, v.name, inside[v.name]) for v in graph.input if v.name in inside]
    after = [_same(graph, v, inside[v.name], v.name) for v in graph.output if v.name in inside and v.name in written]
    for node in graph.node:
        for names in (node.input, node.output):
            names[:] = [inside.get(n, n) for n in names]
    graph.input.append(helper.make_tensor_value_info(NEVER, TensorProto.BOOL, []))
    nodes = [*before, *graph.node, *after]
    del graph.node[:]
    graph.node.extend(nodes)
    return made


def _has_numbers(value: ValueInfoProto) -> bool:
    return value.type.HasField("tensor_type") and value.type.tensor_type.elem_type in NUMBERS


def _same(graph: Any, value: ValueInfoProto, name: str, to: str) -> Any:
    """A node that gives a tensor as it is, and does not know that it does."""
    other = f"{value.name}_other"
    if other not in {i.name for i in graph.initializer}:
        graph.initializer.append(helper.make_tensor(other, value.type.tensor_type.elem_type, [], [0]))
    return helper.make_node("Where", [NEVER, other, name], [to])


def campaign(folder: Path, most: int) -> Iterator[tuple[str, Trial]]:
    """What came of `most` cases of each set of operators, by the case's name."""
    seen: Counter[tuple[str, ...]] = Counter()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        cases = load_model_tests(kind="node")
    for number, case in enumerate(cases):
        operators = tuple(sorted({n.op_type for n in case.model.graph.node}))
        seen[operators] += 1
        if seen[operators] > most or not any(
            o.domain in ("", "ai.onnx") and o.version >= 9 for o in case.model.opset_import
        ):
            continue
        path, given = folder / "case.onnx", folder / "in.npz"
        onnx.save(between(case.model), path)
        arrays = dict(zip((v.name for v in case.model.graph.input), case.data_sets[0][0], strict=False)) | {
            NEVER: np.array(False)
        }
        np.savez(given, **{n: a for n, a in arrays.items() if isinstance(a, np.ndarray) and a.dtype.kind in "fiub"})
        yield case.name, command(number, ("check", str(path), "--inputs", str(given)))


def wrong(trial: Trial) -> str:
    """Why an end may not be: what cannot be taken yet is refused, a proof may be open."""
    return "" if trial.code in (0, 2, 4, 5) and "FAILS" not in trial.out else trial.wrong or f"exit {trial.code}"
