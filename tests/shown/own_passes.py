"""Passes of one's own, as `--passes own[run=tests.shown.own_passes:NAME]` takes them, and a table for an engine."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from assay.interp.graph.engines import EngineRegion
from assay.lower.legalize import legalize
from assay.lower.loops import schedule
from assay.lower.passes import dataflow_pass, function_pass
from assay.lower.rewriting import extract, rewrite_matches
from assay.lower.rewriting.pattern import anything, constant as constants, match, op
from assay.semantics.graph import call, constant
from assay.semantics.module import Module
from tests.lower.engines import TABLE, Npu
from tests.lower.loops.strategies import tiled

__all__ = ["TABLE", "chosen", "extracted", "lazy", "npu", "off", "serial", "twice", "wrong"]

X = anything()
twice = function_pass(
    lambda f: rewrite_matches(f, op("add")(X, X), lambda found, at: call("multiply", found[X], constant(np.float32(2))))
)
"""x + x is x * 2."""
wrong = function_pass(lambda f: rewrite_matches(f, op("exp")(X), lambda found, at: call("tanh", found[X])))
"""exp is taken for tanh."""
extracted = function_pass(lambda f: extract(f, op("matmul")(op("exp")(X), constants()), "npu"))
"""A product by a constant is for another compiler, its operand too."""
lazy = dataflow_pass(lambda bindings, outputs: [(v, e) for v, e in bindings if match(op("tanh"), e) is None])
"""Dataflow blocks without calls of tanh."""


def npu(region: EngineRegion, args: Sequence[Any]) -> Any:
    """An engine that evaluates a region by its definition."""
    return Npu()(region, args)


def off(region: EngineRegion, args: Sequence[Any]) -> Any:
    """An engine that is off by a little."""
    return npu(region, args) + np.float32(0.1)


def chosen(module: Module) -> Module:
    """Operators lowered by a strategy: products in tiles, the others as usual."""
    return legalize(module, strategy=tiled)


def serial(module: Module) -> Module:
    """Tensor functions that compute tanh, element after element in strips of two that are vectorized."""
    made = {
        n: schedule(k).serialize("i0").split("i0", 2).vectorize("i0_i").parallelize("i0_o").func
        for n, k in module.kernels.items()
        if n.startswith("tanh")
    }
    return module.with_(**made)
