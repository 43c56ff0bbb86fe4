"""What tiles are worth in C: products and convolutions of the tiled strategy beside the plain kernels: `make bench`.

The order of the additions of each element stays, so the results are the same bits (rule M10). CPU seconds; the ratio is
asserted, never a time.
"""

from __future__ import annotations

import time

import numpy as np
import pytest
from rich.console import Console
from rich.table import Table

from assay.lower.c import emit
from assay.lower.legalize.kernels import build
from assay.semantics.dtypes import FLOAT32
from assay.semantics.graph import Call, call, var
from assay.semantics.tensor import PrimFunc
from assay.semantics.types import TensorType
from assay.verify.c.compiled import compile_c
from assay.verify.c.tools import STRICT
from tests.lower.loops.strategies import tiled
from tests.lower.memory.planned import Array, alone

CASES: dict[str, tuple[str, list[tuple[int, ...]], dict[str, object]]] = {
    "matmul 256": ("matmul", [(256, 256), (256, 256)], {}),
    "matmul 512": ("matmul", [(512, 512), (512, 512)], {}),
    "conv 64x56x56x64, 3x3": ("nn.conv2d", [(1, 64, 56, 56), (64, 64, 3, 3)], {"padding": (1, 1, 1, 1)}),
    "conv 128x28x28x128, 3x3": ("nn.conv2d", [(1, 128, 28, 28), (128, 128, 3, 3)], {"padding": (1, 1, 1, 1)}),
}


def timed(func: PrimFunc, data: dict[str, Array]) -> tuple[float, Array]:
    """The best CPU seconds of some runs, and the result."""
    compiled = compile_c(emit(alone(func), "one"), reproducible=True, flags=(*STRICT, "-O3", "-march=native"))
    times = []
    for _ in range(5):
        start = time.process_time()
        result = compiled.run(data, fill=0)["out"]
        times.append(time.process_time() - start)
    return min(times), result


@pytest.mark.bench
def test_tiles_make_c_faster() -> None:
    table = Table("kernel", "plain, CPU s", "tiled, CPU s", "ratio", title="the C of one kernel, -O3 -march=native")
    ratios = []
    for name, (op, shapes, attrs) in CASES.items():
        types = tuple(TensorType(s, FLOAT32) for s in shapes)
        use = call(op, *(var(f"x{k}", t) for k, t in enumerate(types)), **attrs)
        assert isinstance(use, Call)
        plain, fast = build(op, use.attrs, types, use.type, "kernel"), tiled(use, "kernel")
        assert fast is not None
        rng = np.random.default_rng(1)
        data = {b.name: rng.standard_normal(b.static_shape).astype(np.float32) for b in plain.inputs}
        before, was = timed(plain, data)
        after, now = timed(fast, data)
        assert was.tobytes() == now.tobytes()
        ratios.append(before / after)
        table.add_row(name, f"{before:.4f}", f"{after:.4f}", f"{before / after:.2f}")
    Console(width=100).print(table)
    assert max(ratios) >= 1.2
