"""A small network as a planned program, for the tests of the generated C."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Any

import numpy as np

from assay.lower.c import CSource
from assay.semantics.dtypes import FLOAT32
from assay.semantics.module import Module
from assay.semantics.scalar import apply, const
from assay.semantics.tensor import (
    Allocate,
    Buffer,
    PrimFunc,
    Var,
    loops,
    seq,
    store,
    when,
)
from assay.semantics.types import TensorType
from assay.verify.c.tools import STRICT, find_compiler
from tests.lower.memory.planned import Array, interpreted, planned

IMAGE, WEIGHT = (1, 3, 7, 6), (4, 3, 3, 2)
RESULT = (1, 4, 4, 6)


def conv(name: str = "conv2d") -> PrimFunc:
    """Stride (2, 1), padding (1, 1) in front: the accumulator is workspace, the padding a condition."""
    x, w, b = Buffer("x", IMAGE, FLOAT32), Buffer("w", WEIGHT, FLOAT32), Buffer("b", (4,), FLOAT32)
    out = Buffer("out", RESULT, FLOAT32)

    def one(n: Var, c: Var, h: Var, v: Var) -> Any:
        acc = Buffer("acc", (), FLOAT32)

        def add(ic: Var, kh: Var, kv: Var) -> Any:
            i, j = h * 2 + kh - 1, v + kv - 1
            inside = apply("and", apply("and", i >= 0, i < IMAGE[2]), apply("and", j >= 0, j < IMAGE[3]))
            return when(inside, store(acc, (), acc[()] + x[n, ic, i, j] * w[c, ic, kh, kv]))

        total = seq(store(acc, (), 0.0), loops("ic kh kv", WEIGHT[1:], add), store(out, (n, c, h, v), acc[()] + b[c]))
        return Allocate(acc, total)

    return PrimFunc(name, (x, w, b, out), 1, loops("n c h v", RESULT, one), {"operator": "nn.conv2d"})


def relu(name: str = "relu") -> PrimFunc:
    x, out = Buffer("x", RESULT, FLOAT32), Buffer("out", RESULT, FLOAT32)
    body = loops("n c h v", RESULT, lambda *i: store(out, i, apply("max", x[i], const(0, FLOAT32))))
    return PrimFunc(name, (x, out), 1, body)


def softmax_rows(name: str = "rows") -> PrimFunc:
    """With a row of workspace and exp: large scratch, and a transcendental function."""
    x, out = Buffer("x", RESULT, FLOAT32), Buffer("out", RESULT, FLOAT32)
    row, total = Buffer("row", (6,), FLOAT32), Buffer("total", (), FLOAT32)

    def rows(n: Var, c: Var, h: Var) -> Any:
        fill = loops("v", (6,), lambda v: store(row, v, apply("exp", x[n, c, h, v])))
        add = loops("v", (6,), lambda v: store(total, (), total[()] + row[v]))
        divide = loops("v", (6,), lambda v: store(out, (n, c, h, v), row[v] / total[()]))
        return seq(store(total, (), 0.0), fill, add, divide)

    return PrimFunc(name, (x, out), 1, Allocate(row, Allocate(total, loops("n c h", RESULT[:3], rows))))


RNG = np.random.default_rng(3)
W = RNG.normal(size=WEIGHT).astype(np.float32)
B = np.array([0.1, -0.0, np.inf, 1e-42], np.float32)
X = RNG.normal(size=IMAGE).astype(np.float32)


def network(weights: Array = W) -> Module:
    steps = [
        (conv(), ["data", "w:0", "bias"], ["t0"]),
        (relu(), ["t0"], ["t1"]),
        (softmax_rows(), ["t1"], ["prob"]),
    ]
    return planned(steps, {"data": TensorType(IMAGE, FLOAT32)}, ["prob"], {"w:0": weights, "bias": B})


def expected(x: Array = X) -> Array:
    value: Array = x
    for kernel, more in ((conv(), (W, B)), (relu(), ()), (softmax_rows(), ())):
        result = interpreted(kernel, [value, *more])
        assert isinstance(result, tuple)
        (value,) = result
    return value


def compile_strictly(source: CSource, directory: Path, *flags: str) -> str:
    """What the compiler says with all warnings on; empty if nothing."""
    source.write(directory)
    command = [*find_compiler(), *STRICT, *flags, "-c", f"{source.name}.c", "-o", "out.o"]
    return subprocess.run(command, cwd=directory, capture_output=True, text=True, check=False).stderr
