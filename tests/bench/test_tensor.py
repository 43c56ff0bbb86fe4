"""Kernels on every interpreter of the tensor IR, beside xDSL's and StableHLO's, in one run: `make bench`.

The unit is a multiply-add (a comparison in pooling, an element's step in softmax) a CPU second. Ours all
check bounds, unwritten reads and races: the lanes of "vector" and "straight-line" Python with the definition's bits,
and the definition a second time on memory of which every byte has an owner. xDSL's interpreter runs the same loops in
scf, arith and memref, unchecked; StableHLO's the operator in C++. Data are whole numbers, so
that every order of additions gives the same bits. Ratios are asserted, never times.
"""

from __future__ import annotations

import importlib.util
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
from rich.console import Console
from rich.table import Table

from assay.interp import tensor, vector
from assay.interp.shadow import ShadowMemory, ShadowRegion, Slots
from assay.lower.legalize.kernels import build
from assay.semantics.dtypes import FLOAT32
from assay.semantics.graph import call, var
from assay.semantics.module import Program, Slot
from assay.semantics.tensor import PrimFunc
from assay.semantics.types import TensorType
from tests.bench import peers

Array = np.ndarray[Any, Any]


@dataclass(frozen=True)
class Case:
    """An operator on float32 tensors, its work in units, and StableHLO's text for it."""

    name: str
    operator: str
    attrs: dict[str, Any]
    shapes: tuple[tuple[int, ...], ...]
    units: int
    stablehlo: str
    exact: bool = True

    def kernel(self) -> PrimFunc:
        types = tuple(TensorType(s, FLOAT32) for s in self.shapes)
        e = call(self.operator, *(var(f"x{i}", t) for i, t in enumerate(types)), **self.attrs)
        assert isinstance(e.type, TensorType)
        return build(self.operator, e.attrs, types, e.type, self.name)


def convolution(x: str, w: str, out: str, padding: int, groups: int) -> str:
    return f"""
func.func @main(%x: tensor<{x}xf32>, %w: tensor<{w}xf32>) -> tensor<{out}xf32> {{
  %0 = stablehlo.convolution(%x, %w) dim_numbers = [b, f, 0, 1]x[o, i, 0, 1]->[b, f, 0, 1],
    window = {{stride = [1, 1], pad = [[{padding}, {padding}], [{padding}, {padding}]]}}
    {{batch_group_count = 1 : i64, feature_group_count = {groups} : i64}}
    : (tensor<{x}xf32>, tensor<{w}xf32>) -> tensor<{out}xf32>
  func.return %0 : tensor<{out}xf32>
}}"""


MATMUL = """
func.func @main(%a: tensor<64x64xf32>, %b: tensor<64x64xf32>) -> tensor<64x64xf32> {
  %0 = stablehlo.dot_general %a, %b, contracting_dims = [1] x [0]
    : (tensor<64x64xf32>, tensor<64x64xf32>) -> tensor<64x64xf32>
  func.return %0 : tensor<64x64xf32>
}"""
REDUCE = """%{0} = "stablehlo.reduce"(%{1}, %{2}) ({{
    ^bb0(%p: tensor<f32>, %q: tensor<f32>):
      %r = stablehlo.{3} %p, %q : tensor<f32>
      stablehlo.return %r : tensor<f32>
  }}) {{dimensions = array<i64: 1>}} : (tensor<32x128xf32>, tensor<f32>) -> tensor<32xf32>
  %{0}b = stablehlo.broadcast_in_dim %{0}, dims = [0] : (tensor<32xf32>) -> tensor<32x128xf32>"""
SOFTMAX = f"""
func.func @main(%x: tensor<32x128xf32>) -> tensor<32x128xf32> {{
  %zero = stablehlo.constant dense<0.0> : tensor<f32>
  %least = stablehlo.constant dense<0xFF800000> : tensor<f32>
  {REDUCE.format("m", "x", "least", "maximum")}
  %d = stablehlo.subtract %x, %mb : tensor<32x128xf32>
  %e = stablehlo.exponential %d : tensor<32x128xf32>
  {REDUCE.format("s", "e", "zero", "add")}
  %0 = stablehlo.divide %e, %sb : tensor<32x128xf32>
  func.return %0 : tensor<32x128xf32>
}}"""
POOL = """
func.func @main(%x: tensor<1x16x32x32xf32>) -> tensor<1x16x16x16xf32> {
  %least = stablehlo.constant dense<0xFF800000> : tensor<f32>
  %0 = "stablehlo.reduce_window"(%x, %least) ({
    ^bb0(%p: tensor<f32>, %q: tensor<f32>):
      %r = stablehlo.maximum %p, %q : tensor<f32>
      stablehlo.return %r : tensor<f32>
  }) {window_dimensions = array<i64: 1, 1, 2, 2>, window_strides = array<i64: 1, 1, 2, 2>}
    : (tensor<1x16x32x32xf32>, tensor<f32>) -> tensor<1x16x16x16xf32>
  func.return %0 : tensor<1x16x16x16xf32>
}"""

CASES = [
    Case("matmul", "matmul", {}, ((64, 64), (64, 64)), 64**3, MATMUL),
    Case(
        "conv2d",
        "nn.conv2d",
        {"padding": (1, 1, 1, 1)},
        ((1, 4, 16, 16), (8, 4, 3, 3)),
        8 * 256 * 36,
        convolution("1x4x16x16", "8x4x3x3", "1x8x16x16", 1, 1),
    ),
    Case(
        "depthwise",
        "nn.conv2d",
        {"padding": (1, 1, 1, 1), "groups": 16},
        ((1, 16, 16, 16), (16, 1, 3, 3)),
        16 * 256 * 9,
        convolution("1x16x16x16", "16x1x3x3", "1x16x16x16", 1, 16),
    ),
    Case("softmax", "nn.softmax", {}, ((32, 128),), 4 * 32 * 128, SOFTMAX, exact=False),
    Case(
        "max_pool2d", "nn.max_pool2d", {"pool_size": (2, 2), "strides": (2, 2)}, ((1, 16, 32, 32),), 16 * 256 * 4, POOL
    ),
]


def seconds(run: Callable[[], Array], repeats: int) -> tuple[float, Array]:
    """CPU seconds of the best of several runs, and the result."""
    best, result = float("inf"), np.zeros(0)
    for _ in range(repeats):
        start = time.process_time()
        result = run()
        best = min(best, time.process_time() - start)
    return best, result


def sanitized(func: PrimFunc, inputs: list[Array]) -> Array:
    """The definition on the machine's memory: every byte has an owner."""
    buffers = (*func.params, *func.allocations)
    slots = {
        b.name: Slot(b.name, TensorType(b.shape, b.dtype), "input" if b in func.inputs else "workspace", ((0, 1),), 64)
        for b in buffers
    }
    table = Slots.of(Program(slots, (), (), ()))
    homes = {}
    for b in buffers:
        slot = table[b.name]
        homes[b] = slot, ShadowRegion.make(b.name, slot.nbytes, table, np.zeros(1, np.uint8))
    for b, x in zip(func.inputs, inputs, strict=True):
        slot, region = homes[b]
        region.view(slot)[...] = x
        region.write(slot)
    (result,) = tensor.run(func, inputs, memory=ShadowMemory(func, homes, func.outputs))
    return result


def measure(case: Case) -> dict[str, float]:
    """Units a CPU second of each interpreter; every result is the definition's, bit for bit where it must be."""
    func = case.kernel()
    rng = np.random.default_rng(0)
    inputs = [rng.integers(-4, 5, s).astype(np.float32) for s in case.shapes]
    for way in vector.WAYS:
        vector.run(func, inputs, ways=(way,))  # compiled once, as in a model that calls it often
    found = {
        "vector": seconds(lambda: vector.run(func, inputs, ways=("lanes",))[0], 5),
        "straight-line": seconds(lambda: vector.run(func, inputs, ways=("straight",))[0], 3),
        "definition": seconds(lambda: tensor.run(func, inputs)[0], 1),
        "with owners": seconds(lambda: sanitized(func, inputs), 1),
    }
    if importlib.util.find_spec("xdsl"):
        found["xDSL"] = peers.xdsl(func, inputs)
    if importlib.util.find_spec("jaxlib"):
        found["StableHLO"] = peers.stablehlo(case.stablehlo, inputs)
    expected = found["definition"][1]
    for who, (_, result) in found.items():
        if case.exact or who in ("vector", "straight-line", "with owners"):
            assert result.tobytes() == expected.tobytes(), f"{case.name}: {who}"
        else:  # an exponential of a double, or of another library
            np.testing.assert_allclose(result, expected, rtol=1e-6, err_msg=f"{case.name}: {who}")
    return {who: case.units / t for who, (t, _) in found.items()}


@pytest.mark.bench
@pytest.mark.peer
def test_units_a_second() -> None:
    rows = {case.name: measure(case) for case in CASES}
    names = list(rows["matmul"])
    table = Table("kernel", *names, "vector / xDSL", title="operations a CPU second; ours check every access")
    for column in table.columns[1:]:
        column.justify = "right"
    for name, row in rows.items():
        ratio = f"{row['vector'] / row['xDSL']:,.0f}" if "xDSL" in row else "-"
        table.add_row(name, *(f"{row[n]:,.0f}" for n in names), ratio)
    Console(width=110).print(table)
    for name, row in rows.items():
        for peer in {"xDSL", "StableHLO"} & row.keys():
            assert row["vector"] >= (1000 if peer == "xDSL" and name == "matmul" else 10) * row[peer], (name, peer)
        assert row["straight-line"] >= 20 * row["definition"], name
