"""Our vector interpreter beside xDSL's interpreter on one matmul of float32, in one run.

    python -m tests.bench.bench_matmul [size]

Both run the same loops, i over k over j, on the same numbers. Ours checks every access for bounds and initialisation,
and rounds every operation to float32; xDSL's does neither. CPU seconds. Without xDSL installed only ours is measured.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from typing import Any

import numpy as np
from rich.console import Console
from rich.table import Table

from assay.interp import tensor, vector
from tests.interp.kernels import conv2d, matmul

Array = np.ndarray[Any, Any]

MLIR = """
builtin.module {{
  func.func @matmul(%a: memref<{n}x{n}xf32>, %b: memref<{n}x{n}xf32>, %c: memref<{n}x{n}xf32>) {{
    %zero = arith.constant 0 : index
    %one = arith.constant 1 : index
    %n = arith.constant {n} : index
    %f0 = arith.constant 0.0 : f32
    scf.for %i = %zero to %n step %one {{
      scf.for %j = %zero to %n step %one {{
        memref.store %f0, %c[%i, %j] : memref<{n}x{n}xf32>
      }}
      scf.for %k = %zero to %n step %one {{
        scf.for %j = %zero to %n step %one {{
          %x = memref.load %a[%i, %k] : memref<{n}x{n}xf32>
          %y = memref.load %b[%k, %j] : memref<{n}x{n}xf32>
          %z = memref.load %c[%i, %j] : memref<{n}x{n}xf32>
          %p = arith.mulf %x, %y : f32
          %s = arith.addf %z, %p : f32
          memref.store %s, %c[%i, %j] : memref<{n}x{n}xf32>
        }}
      }}
    }}
    func.return
  }}
}}
"""


def cpu_seconds(run: Callable[[], object], repeat: int = 1) -> float:
    """The least of several runs."""
    times = []
    for _ in range(repeat):
        start = time.process_time()
        run()
        times.append(time.process_time() - start)
    return min(times)


def xdsl_matmul(a: Array, b: Array) -> Callable[[], Array]:
    """A call of xDSL's interpreter; ImportError where it is not installed."""
    from xdsl.context import Context
    from xdsl.dialects import arith, builtin, func, memref, scf
    from xdsl.interpreter import Interpreter
    from xdsl.interpreters import register_implementations
    from xdsl.interpreters.shaped_array import ShapedArray
    from xdsl.interpreters.utils.ptr import TypedPtr
    from xdsl.parser import Parser

    context = Context()
    for dialect in (builtin.Builtin, func.Func, arith.Arith, scf.Scf, memref.MemRef):
        context.load_dialect(dialect)
    module = Parser(context, MLIR.format(n=len(a))).parse_module()
    interpreter = Interpreter(module)
    register_implementations(interpreter, context)

    def run() -> Array:
        shape = [len(a), len(a)]
        x, y, z = (ShapedArray(TypedPtr.new_float32(v.ravel().tolist()), shape) for v in (a, b, np.zeros_like(a)))
        interpreter.call_op("matmul", (x, y, z))
        return np.array(z.data, np.float32).reshape(shape)

    return run


def main() -> None:
    size = int(sys.argv[1]) if len(sys.argv) > 1 else 64
    rng = np.random.default_rng(0)
    a, b = rng.standard_normal((2, size, size)).astype(np.float32)
    products = size**3
    rows: list[tuple[str, float, int]] = []

    func = matmul(size, size, size)
    first = cpu_seconds(lambda: vector.run(func, [a, b]))
    rows.append((f"matmul {size}: vector, and planning it", first, products))
    rows.append((f"matmul {size}: vector", cpu_seconds(lambda: vector.run(func, [a, b]), 5), products))
    rows.append((f"matmul {size}: definition", cpu_seconds(lambda: tensor.run(func, [a, b])), products))
    try:
        theirs = xdsl_matmul(a, b)
    except ImportError as missing:
        print(f"xDSL is not measured: {missing}", file=sys.stderr)
    else:
        results: list[Array] = []
        rows.append((f"matmul {size}: xDSL", cpu_seconds(lambda: results.append(theirs())), products))
        np.testing.assert_allclose(results[0], vector.run(func, [a, b])[0], rtol=1e-3, atol=1e-4)

    conv = conv2d(n=1, c=64, o=64, h=56, w=56, stride=1, groups=1)
    x, w = (rng.standard_normal(p.static_shape).astype(np.float32) for p in conv.inputs)
    vector.run(conv, [x, w])
    rows.append(("conv2d 64 to 64, 3x3 on 56x56: vector", cpu_seconds(lambda: vector.run(conv, [x, w]), 3), 64 * 64 * 9 * 56 * 56))

    ours = rows[1][1]
    table = Table("run", "CPU s", "million MAC/s", "times the vector's", title="one float32 kernel, interpreted")
    for column in table.columns[1:]:
        column.justify = "right"
    for name, seconds, macs in rows:
        ratio = f"{seconds / ours:,.0f}" if name.startswith("matmul") else ""
        table.add_row(name, f"{seconds:.5f}", f"{macs / seconds / 1e6:,.3f}", ratio)
    Console().print(table)


if __name__ == "__main__":
    main()
