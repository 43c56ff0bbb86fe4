"""Random tensor functions: the C gives the bits of the definition, or the same trap."""

from __future__ import annotations

import random
from collections import Counter

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from assay.lower.c import emit
from assay.semantics.dtypes import BOOL, DTYPES, FLOAT32, DType
from assay.semantics.errors import Trap
from assay.semantics.scalar import Load
from assay.semantics.tensor import Buffer, PrimFunc, loops, store
from assay.verify.c.compiled import Compiled, compile_c
from assay.verify.c.tools import STRICT
from assay.verify.strategies.kernels import Kernels as Maker
from tests.lower.memory.planned import Array, alone, choosing, differing, interpreted, same_bits

SPECIAL = {
    "float": [0.0, -0.0, 1.0, -1.5, 2.5, np.inf, -np.inf, np.nan, 300.0, 1e-40],
    "int": [0, 1, -1, 2, 3, -2, 127, -128],
    "uint": [0, 1, 2, 3, 255, 200],
}


def values(shape: tuple[int, ...], of: DType, rng: np.random.Generator) -> Array:
    if of is BOOL:
        return rng.integers(0, 2, shape).astype(bool)
    with np.errstate(over="ignore"):
        return np.asarray(rng.choice(SPECIAL[of.kind], shape)).astype(of.numpy)


def compare(kernel: PrimFunc, compiled: Compiled, prefix: str, data: dict[str, Array]) -> str:
    """Run both; what came out, or an assertion with the kernel's text."""
    inputs = [data[f"{prefix}{b.name}"] for b in kernel.inputs]
    want = interpreted(kernel, inputs)
    try:
        got = compiled.run(data, fill=0)[f"{prefix}out"]
    except Trap as trap:
        assert isinstance(want, Trap), f"C traps ({trap}), the definition does not:\n{kernel}"
        assert trap.kind == want.kind, f"C: {trap}; the definition: {want}\n{kernel}"
        return trap.kind
    assert not isinstance(want, Trap), f"the definition traps ({want}), C does not:\n{kernel}"
    assert same_bits(got, want[0]), f"{differing(got, want[0])}\n{kernel}\n{inputs}"
    return "value"


def agree(seed: int, level: str) -> Counter[str]:
    """Many kernels in one library, each on several inputs; what came out, how often."""
    rng = random.Random(seed)
    kernels = [Maker(rng.randrange, "kernel").make() for _ in range(60)]
    module = choosing(kernels)
    compiled = compile_c(emit(module, "many"), reproducible=True, flags=(*STRICT, level))
    numbers = np.random.default_rng(seed)
    seen: Counter[str] = Counter()
    for _ in range(3):
        data = {a.slot: values(a.type.static_shape, a.type.dtype, numbers) for a in compiled.source.inputs}
        for at, kernel in enumerate(kernels):
            data["which"] = np.asarray(at)
            seen[compare(kernel, compiled, f"k{at}_", data)] += 1
    return seen


@pytest.mark.parametrize(("seed", "level"), [(0, "-O0"), (1, "-O2"), (2, "-O3")])
def test_random_kernels(seed: int, level: str) -> None:
    seen = agree(seed, level)
    assert seen["value"] > 90 and len(seen) > 3, seen  # most runs end with a value, and most kinds of trap occur


@settings(max_examples=25)
@given(st.data())
def test_any_kernel(data: st.DataObject) -> None:
    """The same with shrinking: a failure is shown as the smallest kernel that has it."""
    kernel = Maker(lambda n: data.draw(st.integers(0, n - 1)) if n > 1 else 0, "kernel").make()
    module = alone(kernel)
    compiled = compile_c(emit(module, "one"), reproducible=True, flags=(*STRICT, "-O1"))
    rng = np.random.default_rng(data.draw(st.integers(0, 99)))
    compare(kernel, compiled, "", {b.name: values(b.static_shape, b.dtype, rng) for b in kernel.inputs})


@pytest.mark.campaign
def test_many_random_kernels() -> None:
    for seed in range(100, 140):
        agree(seed, ("-O1", "-O2", "-O3")[seed % 3])


@pytest.mark.parametrize("of", ["uint32", "uint64"])
def test_indices_of_both_signs_in_one_access(of: str) -> None:
    """No compiler warns: what is in bounds is a signed number in C."""
    at, x, out = Buffer("at", (3,), DTYPES[of]), Buffer("x", (3, 2), FLOAT32), Buffer("out", (3,), FLOAT32)
    body = loops("i", (3,), lambda i: store(out, i, Load(FLOAT32, x, (at[i], i % 2))))
    kernel = PrimFunc("kernel", (at, x, out), 1, body)
    compiled = compile_c(emit(alone(kernel), "one"), reproducible=True, flags=(*STRICT, "-O1"))
    for index in ([2, 0, 1], [2, 3, 0]):
        data = {"at": np.array(index, DTYPES[of].numpy), "x": np.arange(6, dtype=np.float32).reshape(3, 2)}
        assert compare(kernel, compiled, "", data) == ("value" if max(index) < 3 else "out of bounds")
