"""What each way to run kernels of unknown sizes costs, over streams of sizes as they come: `make bench`.

A stream of requests is run by each way from nothing: the sum has compiling and the comparison of first uses in it. All
times are seconds of the processor, the compiler's too, which other work on the machine changes least. Time for one
call is the median of the last half. Memory is what the peak of the process's resident memory grows by over the whole
stream: code, workspace and what the runs themselves hold; the compiler is another process, and not in it. Beside them
stands ONNX Runtime, whose session is made in the sum too. Each way has a process of its own, one after another, and
all of them several rounds: the best counts. The default way takes at most 1.5 times what the best of the others
takes; results are the same bits.
"""

from __future__ import annotations

import gc
import os
import re
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from importlib.util import find_spec
from multiprocessing import get_context
from multiprocessing.connection import Connection
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
import onnx
import pytest
from rich.console import Console
from rich.table import Table

from assay.interp import graph
from assay.lower.frontends.onnx.model import import_onnx
from assay.verify.app.kernels.run import _lowered
from assay.verify.dispatch.choice import parse_choices
from assay.verify.dispatch.dispatcher import Dispatcher
from assay.verify.dispatch.objects import KernelCompiler
from assay.verify.dispatch.program import DispatchedProgram
from tests.bench.test_symbolic_c import Make, stored, wide_attention, wide_perceptron

Array = np.ndarray[Any, Any]
WORST = 1.5
"""The default way, by the best of the others."""
ROUNDS = 2


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
    """What a stream has cost by one way: seconds in all and for one call, of them compiling; bytes of the kernels that
    are loaded at the end, and by which the peak of resident memory has grown."""

    total: float
    call: float
    compiling: float
    kernels: int
    code: int
    results: list[bytes]
    memory: int = 0


def processor() -> float:
    """Seconds of the processor that this process has taken, and those that it started."""
    return time.process_time() + compiler()


def compiler() -> float:
    """Seconds of the processor that the processes have taken which this one started."""
    return sum(os.times()[2:4])


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
    started, before_all = processor(), compiler()
    program.beforehand()
    calls, results = [], []
    for k, point in enumerate(points):
        if way == "recorded" and k == len(points) // 2:  # the first run of the stream is over
            dispatcher.recording.turn()
            program.beforehand()
        before = time.process_time()
        made = program.run(point)
        calls.append(time.process_time() - before)
        results.append(b"".join(np.asarray(a).tobytes() for a in made.values()))
    total = dispatcher.statistics.total
    spent = processor() - started
    last = median(calls[len(calls) // 2 :])
    code = sum(k.nbytes for k in dispatcher.objects.values())
    return Cost(spent, last, compiler() - before_all, total.counts["compiled"], code, results)


def runtime(model: onnx.ModelProto, points: Sequence[Mapping[str, Array]]) -> Cost:
    import onnxruntime as ort

    options = ort.SessionOptions()
    options.intra_op_num_threads = 1
    started = processor()
    session = ort.InferenceSession(model.SerializeToString(), options)
    ready = processor() - started
    calls = []
    for point in points:
        before = time.process_time()
        session.run(None, dict(point))
        calls.append(time.process_time() - before)
    return Cost(processor() - started, median(calls[len(calls) // 2 :]), ready, 0, 0, [])


def resident(name: str) -> int:
    """Bytes of resident memory that the system counts for this process: `VmRSS` now, `VmHWM` at most."""
    found = re.search(rf"{name}:\s*(\d+) kB", Path("/proc/self/status").read_text())
    assert found is not None
    return int(found[1]) << 10


def by_itself(measure: Callable[[], Cost]) -> Cost:
    """What a stream costs in a process of its own, with the memory that it takes."""

    def inside(out: Connection) -> None:
        gc.collect()
        Path("/proc/self/clear_refs").write_text("5")  # the peak is what there is now
        before = resident("VmRSS")
        made = measure()
        out.send(replace(made, memory=resident("VmHWM") - before))

    forked = get_context("fork")
    there, here = forked.Pipe(duplex=False)
    child = forked.Process(target=inside, args=(here,))
    child.start()
    here.close()
    try:
        made: Cost = there.recv()
    finally:
        child.join()
    return made


def best_of_rounds(measures: Mapping[str, Callable[[], Cost]]) -> dict[str, Cost]:
    """Each way's best round; the ways take turns."""
    rounds = [{way: by_itself(measure) for way, measure in measures.items()} for _ in range(ROUNDS)]
    return {way: min((r[way] for r in rounds), key=lambda c: c.total) for way in measures}


@pytest.mark.bench
@pytest.mark.parametrize("name", STREAMS)
def test_the_default_is_nearly_the_best(name: str) -> None:
    stream = STREAMS[name]
    model = stream.make()
    module = _lowered(import_onnx(model, evaluate=graph.evaluate), parse_choices("auto"))
    points = inputs(model, stream.sizes)
    measures = {way: partial(dispatched, module, way, points) for way in (*COMMON, *stream.ways)}
    if find_spec("onnxruntime") is not None:
        measures["onnxruntime"] = partial(runtime, model, points)
    costs = best_of_rounds(measures)
    title = f"{name}, {len(points)} requests"
    table = Table("way", "in all", "for a call", "compiling", "kernels", "code", "memory", title=title)
    for way, c in costs.items():
        row = (
            f"{c.total:.2f} s",
            f"{c.call * 1e3:.2f} ms",
            f"{c.compiling:.2f} s",
            str(c.kernels),
            f"{c.code >> 10} KiB",
            f"{c.memory / (1 << 20):.1f} MiB",
        )
        table.add_row(way, *row)
    Console(width=120).print(table)
    costs.pop("onnxruntime", None)
    auto = costs.pop("auto")
    assert all(c.results == auto.results for c in costs.values())
    best = min(costs.values(), key=lambda c: c.total)
    assert auto.total <= WORST * best.total
