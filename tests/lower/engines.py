"""Engines and tables for the tests of partition."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from assay.interp import graph
from assay.interp.graph.engines import EngineRegion
from assay.lower.partition import Composite
from assay.lower.rewriting.pattern import anything, constant, op
from assay.semantics.module import Module

Array = np.ndarray[Any, Any]

LINEAR = Composite("npu.linear", op("add")(op("matmul")(anything(), constant()), constant()))
MATMUL = Composite("npu.matmul", op("matmul"))
ADD = Composite("npu.add", op("add"))
RELU = Composite("npu.relu", op("nn.relu"))
TABLE = [LINEAR, MATMUL, ADD, RELU]


class Npu:
    """An engine that evaluates a region by its definition, and remembers what it was handed."""

    def __init__(self) -> None:
        self.calls: list[str] = []
        self.constants: list[Array] = []

    def __call__(self, region: EngineRegion, args: Sequence[Array]) -> Any:
        self.calls.append(region.symbol)
        self.constants += region.constants.values()
        given = {p.name: a for p, a in zip(region.function.params, args, strict=True)}
        found = tuple(graph.run(Module({"main": region.function}), given).values())
        return found[0] if len(found) == 1 else found


class Wrong(Npu):
    """Its relu lets small negative numbers through."""

    def __call__(self, region: EngineRegion, args: Sequence[Array]) -> Any:
        found = super().__call__(region, args)
        uses_relu = any(f.attrs["composite"] == "npu.relu" for f in region.composites)
        return np.where(found == 0, np.float32(-1e-3), found) if uses_relu and not isinstance(found, tuple) else found
