"""Work for the tests of campaigns: a worker that dies, one that hangs, and planted faults."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from assay.interp import graph
from assay.semantics.dtypes import dtype
from assay.semantics.graph import Call
from assay.semantics.module import Module
from assay.semantics.operator import Operator
from assay.semantics.types import TensorType
from assay.semantics.walk import post_order
from assay.verify.fuzz.targets import Result, Values, from_verdict
from assay.verify.fuzz.worker import ExampleReport, Task
from assay.verify.oracle import Oracle


def deadly(task: Task) -> Iterator[ExampleReport]:
    """Right for most examples; number 3 ends the process, 5 takes for ever."""
    for number in task.numbers:
        if number == 3:
            os.kill(os.getpid(), signal.SIGSEGV)
        if number == 5:
            time.sleep(1000)
        report = ExampleReport((number,))
        report.kinds["right"] += 1
        yield report


@dataclass(frozen=True)
class Off:
    """A backend whose softmax is off by one in a hundred, and that is right in all else."""

    name: str = "off"

    def judge(self, module: Module, inputs: Mapping[str, Any]) -> Result:
        def look(node: Any, value: Any) -> Any:
            if isinstance(node, Call) and isinstance(node.op, Operator) and node.op.name == "nn.softmax":
                return (
                    np.asarray(value * value.dtype.type(1.01)).astype(value.dtype)
                    if dtype(value.dtype).is_float
                    else None
                )
            return None

        outputs = graph.run(module, inputs, observe=look)
        return from_verdict(Oracle(module).judge(inputs, outputs))


def operators(module: Module) -> set[str]:
    return {n.op.name for n in post_order(module.main) if isinstance(n, Call) and isinstance(n.op, Operator)}


def greedy(task: Task) -> Iterator[ExampleReport]:
    """Right for most examples; number 1 takes memory for ever."""
    for number in task.numbers:
        held: list[Any] = []
        while number == 1:
            held.append(np.ones(1 << 22))
        report = ExampleReport((number,))
        report.kinds["right"] += 1
        yield report


def dies(model: Any, inputs: Mapping[str, Any]) -> dict[str, Any]:
    """A backend, as its author would write it, whose process ends."""
    os._exit(7)


TAKES = ("add", "multiply", "subtract", "nn.relu", "matmul", "reshape", "concat", "exp", "sum", "nn.softmax")


@dataclass(frozen=True)
class Picky:
    """Right, but it refuses most operators, 16-bit floats, and sums that keep their axes."""

    name: str = "picky"
    takes: tuple[str, ...] = TAKES

    def judge(self, module: Module, inputs: Mapping[str, Any]) -> Result:
        for f in module.graphs.values():
            for n in post_order(f):
                if isinstance(n, Call) and isinstance(n.op, Operator):
                    narrow = any(isinstance(t, TensorType) and t.dtype.bits == 16 for t in (a.type for a in n.args))
                    if n.op.name not in self.takes or narrow or (n.op.name == "sum" and n.attrs["keepdims"]):
                        return Result("refused", "backend.C2", "", f"no {n.op.name}")
        return Values().judge(module, inputs)
