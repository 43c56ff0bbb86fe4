"""Backends that are wrong in ways of their own, as another package brings them; and models to judge them on."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import helper, numpy_helper

from assay.verify.app.cli import main

PLUGIN = '''
import os, time
import numpy as np
from assay.verify.backends import backend
from assay.verify.backends.protocol import cannot

class Odd:
    def __init__(self, name, work, shows=True):
        self.name, self.work, self.shows = name, work, shows

    def prepare(self, subject, wanted):
        if list(wanted) != subject.outputs and not self.shows:
            raise cannot(self.name, "tensors that are no outputs")
        own = backend("numpy").prepare(subject, wanted)
        kept = []

        def run(inputs):
            right = own(inputs)
            kept.append(right)
            return self.work(right, kept, list(wanted) == subject.outputs, inputs)

        return run

def million(right, kept, outputs, inputs):
    return {n: np.full_like(v, 1e6) for n, v in right.items()}

def later(right, kept, outputs, inputs):
    return million(right, kept, outputs, inputs) if outputs and len(kept) > 1 and same(right, kept[0]) else right

def same(one, other):
    return all(np.array_equal(v, other[n]) for n, v in one.items())

def stale(right, kept, outputs, inputs):
    return kept[0] if outputs else right

def dies(right, kept, outputs, inputs):
    os.abort()

def sleeps(right, kept, outputs, inputs):
    time.sleep(60)

def refuses(right, kept, outputs, inputs):
    raise cannot("refuses", "no licence")

def saturates(right, kept, outputs, inputs):
    """Sums of int32 by way of a wider type, cut off at the ends of the range."""
    top = 2**31 - 1
    made = np.clip(inputs["x"].astype(np.int64).sum(-1), -top - 1, top).astype(np.int32)
    return {n: made + np.int32(n == "z") if n in "yz" else v for n, v in right.items()}

def seven(right, kept, outputs, inputs):
    return {n: np.where(v == saturates(right, kept, outputs, inputs)[n], v, 7).astype(v.dtype) for n, v in \
right.items()}

def saturates_and_more(right, kept, outputs, inputs):
    made = saturates(right, kept, outputs, inputs)
    return {n: np.concatenate([v[:-1], v[-1:] + 1]) for n, v in made.items()}

def x86(right, kept, outputs, inputs):
    """Powers in double; a cast of what int32 has not gives the least number."""
    with np.errstate(all="ignore"):
        power = np.power(inputs["a"].astype(float), inputs["b"].astype(float))
        fits = np.abs(power) < 2**31
        made = np.where(fits, np.where(fits, power, 0), -2**31).astype(np.int32)
    return {n: made if n == "y" else v for n, v in right.items()}

def zeros(right, kept, outputs, inputs):
    """Nothing is NaN, as of a maximum with 0 that is the second operand where one is NaN."""
    return {n: np.where(np.isnan(v), 0, v).astype(v.dtype) for n, v in right.items()}

MADE = {f.__name__: f for f in (zeros, million, later, stale, dies, sleeps, refuses, saturates, seven, \
saturates_and_more, x86)}
'''


def brought(folder: Path, patch: pytest.MonkeyPatch) -> None:
    """A distribution with the backends above, shown tensors or not (NAME_closed)."""
    text = PLUGIN + "for _n, _f in MADE.items():\n    globals()[_n + '_backend'] = lambda n=_n, f=_f: Odd(n, f)\n"
    text += "    globals()[_n + '_closed'] = lambda n=_n, f=_f: Odd(n + '_closed', f, shows=False)\n"
    (folder / "odd_plugin.py").write_text(text)
    info = folder / "odd-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: odd\nVersion: 1.0\n")
    names = [line.split("(")[0][4:] for line in PLUGIN.splitlines() if line.startswith("def ")]
    points = [f"{n} = odd_plugin:{n}_backend\n{n}_closed = odd_plugin:{n}_closed" for n in names if n != "same"]
    (info / "entry_points.txt").write_text("[assay.backends]\n" + "\n".join(points) + "\n")
    patch.syspath_prepend(folder)


def run(patch: pytest.MonkeyPatch, *args: object) -> int:
    """The exit code of the command."""
    patch.setattr(sys, "argv", ["assay", *map(str, args)])
    patch.setenv("COLUMNS", "400")
    with pytest.raises(SystemExit) as done:
        main()
    return int(done.value.code or 0)


def deep(layers: int = 5, n: int = 8) -> onnx.ModelProto:
    """Layers that stretch what they are given, and a quotient: the intervals exclude nothing there."""
    rng = np.random.default_rng(0)
    nodes, weights, last = [], [], "x"
    for i in range(layers):
        weights.append(numpy_helper.from_array((rng.standard_normal((n, n)) * 8).astype(np.float32), f"w{i}"))
        nodes += [helper.make_node("MatMul", [last, f"w{i}"], [f"m{i}"]), helper.make_node("Sin", [f"m{i}"], [f"t{i}"])]
        last = f"t{i}"
    nodes.append(helper.make_node("Reciprocal", [last], ["y"]))
    return made(nodes, {"x": (np.float32, [2, n])}, {"y": (np.float32, [2, n])}, weights)


def shallow() -> onnx.ModelProto:
    """One layer, whose intervals say much."""
    weight = numpy_helper.from_array(np.eye(3, 4, dtype=np.float32) + 1, "w")
    return made(
        [helper.make_node("MatMul", ["x", "w"], ["y"])],
        {"x": (np.float32, [2, 3])},
        {"y": (np.float32, [2, 4])},
        [weight],
    )


def sums(more: bool = False) -> onnx.ModelProto:
    """Sums of rows in int32; with `more`, one is added to each."""
    axes = [numpy_helper.from_array(np.array([1]), "axes"), numpy_helper.from_array(np.array(1, np.int32), "one")]
    nodes = [helper.make_node("ReduceSum", ["x", "axes"], ["y"], keepdims=0)]
    nodes += [helper.make_node("Add", ["y", "one"], ["z"])] * more
    return made(nodes, {"x": (np.int32, [3, 2])}, {"z" if more else "y": (np.int32, [3])}, axes[: 1 + more])


def made(nodes: list, inputs: dict, outputs: dict, weights: list | None = None, opset: int = 17) -> onnx.ModelProto:  # type: ignore[type-arg]
    """A model of nodes; inputs and outputs by name, each a dtype and a shape."""

    def values(given: dict) -> list[onnx.ValueInfoProto]:  # type: ignore[type-arg]
        return [
            helper.make_tensor_value_info(n, helper.np_dtype_to_tensor_dtype(np.dtype(t)), s)
            for n, (t, s) in given.items()
        ]

    graph = helper.make_graph(nodes, "g", values(inputs), values(outputs), weights or [])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=9)
