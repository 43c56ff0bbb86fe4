"""What each way to run kernels of unknown sizes costs, over streams of sizes as they come: `make bench`.

A stream of requests is run by each way from nothing: the sum has compiling and the comparison of first uses in it. Time
for one call is the median of the last half. Beside them stands ONNX Runtime, whose session is made in the sum too. The
default way takes at most 1.5 times what the best of the others takes; results are the same bits.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import median
from typing import Any

import numpy as np
import onnx
import pytest
from rich.console import Console
from rich.table import Table

from assay.interp import graph
from assay.lower.frontends.onnx.model import import_onnx
from assay.verify.app.kernel_run import _lowered
from assay.verify.dispatch.choice import parse_choices
from assay.verify.dispatch.dispatcher import Dispatcher
from assay.verify.dispatch.objects import KernelCompiler
from assay.verify.dispatch.program import DispatchedProgram
from tests.bench.test_symbolic_c import Make, stored, wide_attention, wide_perceptron

Array = np.ndarray[Any, Any]
WORST = 1.5
"""The default way, by the best of the others."""


@dataclass(frozen=True)
class Stream:
    """A model, the sizes of its requests one after another, and the ways that name sizes."""

    make: Make
    sizes: Sequence[Mapping[str, int]]
    ways: tuple[str, ...]


def batches(count: int) -> list[dict[str, int]]:
    """Requests that a server has gathered: mostly few, sometimes as many as it takes."""
    rng = np.random.default_rng(1)
    return [{"batch": int(min(16, n))} for n in rng.geometric(0.25, count)]


def sentences(count: int) -> list[dict[str, int]]:
    """Sentences one by one: their lengths in words, about log-normal."""
    rng = np.random.default_rng(2)
    return [{"batch": 1, "seq": int(np.clip(n, 3, 60))} for n in rng.lognormal(2.8, 0.5, count)]


def images(count: int) -> list[dict[str, int]]:
    """Images of a few formats."""
    rng = np.random.default_rng(3)
    formats = [(32, 32), (32, 48), (48, 32), (64, 64)]
    return [
        {"batch": 1, "height": h, "width": w}
        for h, w in (formats[i] for i in rng.choice(4, count, p=(0.5, 0.2, 0.2, 0.1)))
    ]


STREAMS = {
    "batches of serving": Stream(
        wide_perceptron, batches(300), ("range:batch=1..16", "padded:batch=16", "buckets:batch=1,4,16")
    ),
    "sentence lengths": Stream(
        wide_attention, sentences(100), ("range:seq=12..24,batch=1..1", "padded:seq=60", "buckets:seq=16,32,60")
    ),
    "image sizes": Stream(stored("unet_traced_17"), images(60), ("padded:batch=2", "buckets:height=48,64,width=48,64")),
}
COMMON = ("interpreted", "generic", "specialized", "recorded", "auto")


@dataclass
class Cost:
    """What a stream has cost by one way: seconds in all and for one call, of them compiling, and bytes of code."""

    total: float
    call: float
    compiling: float
    kernels: int
    nbytes: int
    results: list[bytes]


def inputs(model: onnx.ModelProto, sizes: Sequence[Mapping[str, int]]) -> list[dict[str, Array]]:
    rng = np.random.default_rng(0)
    found = []
    for at in sizes:
        shapes = {
            i.name: [d.dim_value or at[d.dim_param] for d in i.type.tensor_type.shape.dim] for i in model.graph.input
        }
        found.append({n: np.asarray(rng.standard_normal(s)).astype(np.float32) for n, s in shapes.items()})
    return found


def dispatched(module: Any, way: str, points: Sequence[Mapping[str, Array]]) -> Cost:
    dispatcher = Dispatcher(parse_choices(way), KernelCompiler())
    dispatcher.horizon.total = len(points)
    program = DispatchedProgram(module, dispatcher)
    started = time.perf_counter()
    program.beforehand()
    calls, results = [], []
    for k, point in enumerate(points):
        if way == "recorded" and k == len(points) // 2:  # the first run of the stream is over
            dispatcher.recording.turn()
            program.beforehand()
        before = time.perf_counter()
        made = program.run(point)
        calls.append(time.perf_counter() - before)
        results.append(b"".join(np.asarray(a).tobytes() for a in made.values()))
    total = dispatcher.statistics.total
    spent = time.perf_counter() - started
    last = median(calls[len(calls) // 2 :])
    return Cost(spent, last, total.seconds, total.counts["compiled"], total.nbytes, results)


def runtime(model: onnx.ModelProto, points: Sequence[Mapping[str, Array]]) -> Cost:
    ort = pytest.importorskip("onnxruntime")
    options = ort.SessionOptions()
    options.intra_op_num_threads = 1
    started = time.perf_counter()
    session = ort.InferenceSession(model.SerializeToString(), options)
    ready = time.perf_counter() - started
    calls = []
    for point in points:
        before = time.perf_counter()
        session.run(None, dict(point))
        calls.append(time.perf_counter() - before)
    return Cost(time.perf_counter() - started, median(calls[len(calls) // 2 :]), ready, 0, 0, [])


@pytest.mark.bench
@pytest.mark.parametrize("name", STREAMS)
def test_the_default_is_nearly_the_best(name: str) -> None:
    stream = STREAMS[name]
    model = stream.make()
    module = _lowered(import_onnx(model, evaluate=graph.evaluate), parse_choices("auto"))
    points = inputs(model, stream.sizes)
    costs = {way: dispatched(module, way, points) for way in (*COMMON, *stream.ways)}
    table = Table(
        "way", "in all", "for a call", "compiling", "kernels", "code", title=f"{name}, {len(points)} requests"
    )
    for way, c in {**costs, "onnxruntime": runtime(model, points)}.items():
        row = (
            f"{c.total:.2f} s",
            f"{c.call * 1e3:.2f} ms",
            f"{c.compiling:.2f} s",
            str(c.kernels),
            f"{c.nbytes >> 10} KiB",
        )
        table.add_row(way, *row)
    Console(width=120).print(table)
    auto = costs.pop("auto")
    assert all(c.results == auto.results for c in costs.values())
    best = min(costs.values(), key=lambda c: c.total)
    assert auto.total <= WORST * best.total
