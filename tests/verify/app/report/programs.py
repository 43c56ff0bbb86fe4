"""Programs for the tests of reports: everything that a page can show, and many buffers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from assay.semantics.devices import VirtualDevice
from assay.semantics.dtypes import UINT8
from assay.semantics.errors import Span
from assay.semantics.memory import Interval, Pool
from assay.semantics.module import Branch, Program, Slot, Step
from assay.semantics.types import TensorType

HOSTILE = (
    "</title><script>alert(1)</script>",
    "\"'><img src=x onerror=alert(1)>",
    "a&amp;b",
    "\u202egnp\x00.",
    "long" * 50_000,
)
"""Names that somebody's model may have."""


def work(name: str, nbytes: int, live: Sequence[Interval], offset: int, pool: str = "", producer: str = "p") -> Slot:
    return Slot(name, TensorType((nbytes,), UINT8), "workspace", tuple(live), 1, offset, producer, pool)


def rich() -> Program:
    """Two pools, two devices, a choice, a step of three phases, a life with a gap, a buffer without bytes."""
    cpu, npu = VirtualDevice("cpu"), VirtualDevice("npu", 1, scope="shared")
    steps = (
        Step("load", ("x",), ("a", "flag"), ("s",), Span("m.onnx", "n0"), cpu),  # positions 0 to 2
        Branch("flag", 3, 5),  # 3
        Step("left", ("a",), ("b",), (), None, npu),  # 4
        Step("right", ("w",), ("c",), (), None, npu),  # 5
        Step("right", ("c",), ("b",), ("none",)),  # 6
        Step("store", ("b", "a"), ("y",), (), None, cpu),  # 7
    )
    steps = (replace(steps[0], phases=3), *steps[1:])
    caller = [
        Slot("x", TensorType((4,), UINT8), "input", ((0, 8),), 1, None, "the caller"),
        Slot("y", TensorType((4,), UINT8), "output", ((7, 8),), 1, None, "store"),
        Slot("w", TensorType((4,), UINT8), "constant", ((0, 8),), 1, 0, "the constant table"),
    ]
    slots = [
        *caller,
        work("a", 64, [(1, 5), (7, 8)], 0, producer="load"),
        work("flag", 1, [(2, 4)], 64),
        work("s", 32, [(0, 2)], 72),
        work("b", 40, [(4, 5), (6, 8)], 0, "fast"),
        work("c", 16, [(5, 7)], 48, "fast"),
        work("none", 0, [(6, 7)], 0),
    ]
    pools = (Pool("workspace"), Pool("fast", limit=128))
    return Program({s.name: s for s in slots}, steps, ("x",), ("y",), pools, {"workspace": 128, "fast": 64})


def hostile() -> Program:
    """Names, kernels and producers that would end an element, begin a script or fill the screen."""
    steps = [Step(n, (), (f"{n}{i}",), (), Span(n, n), VirtualDevice(n)) for i, n in enumerate(HOSTILE)]
    slots = {f"{n}{i}": work(f"{n}{i}", 8, [(i, i + 1)], 8 * i, n, n) for i, n in enumerate(HOSTILE)}
    return Program(slots, tuple(steps), (), (), tuple(Pool(n) for n in HOSTILE), dict.fromkeys(HOSTILE, 64))


def many(count: int) -> Program:
    """A chain of steps, each reading what the two before it have written; a plan in rows of 40 kB."""
    names = [f"/model/layers.{i // 10}/attention/MatMul_{i}_output" for i in range(count)]
    slots = {
        n: work(n, 1000 * (1 + i % 37), [(i, min(i + 3, count))], 40_000 * (i % 3), producer=f"matmul{i % 50}")
        for i, n in enumerate(names)
    }
    steps = [
        Step(
            f"fused_matmul_add_relu{i % 50}",
            tuple(names[max(0, i - 2) : i]),
            (n,),
            (),
            Span("model.onnx", f"/model/MatMul_{i}"),
        )
        for i, n in enumerate(names)
    ]
    return Program(slots, tuple(steps), (), (names[-1],), (Pool("workspace"),), {"workspace": 120_000})
