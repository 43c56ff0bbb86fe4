"""Tensor functions with blocks as C: the same bits as the definition, which runs the blocks themselves."""

from __future__ import annotations

from dataclasses import replace
from random import Random

import numpy as np
import pytest

from assay.interp import tensor
from assay.lower.c import emit
from assay.semantics.dtypes import FLOAT32, INT64, DType
from assay.semantics.errors import Invalid, Trap, Unsupported
from assay.semantics.scalar import Var, choice, const
from assay.semantics.tensor import Block, Buffer, Call, PrimFunc, seq, store
from assay.semantics.tensor.blocks import without_blocks
from assay.semantics.text.module_text import parse
from assay.semantics.types import TensorType
from assay.verify.c.compiled import compile_c
from assay.verify.c.tools import STRICT
from tests.interp.block_programs import random_blocks
from tests.lower.memory.planned import Array, alone, differing, planned, same_bits
from tests.museum.sanitizer_programs import FILL, HEAD, PROGRAMS


def runs(count: int) -> list[tuple[PrimFunc, list[Array], tuple[Array, ...]]]:
    """Random functions with blocks that run to their end, with inputs and results, each under a name of its own."""
    found: list[tuple[PrimFunc, list[Array], tuple[Array, ...]]] = []
    seed = 0
    while len(found) < count:
        seed += 1
        func, inputs = random_blocks(Random(seed))
        if without_blocks(func) is func:
            continue
        try:
            results = tensor.run(func, inputs)
        except Trap:
            continue
        found.append((replace(func, name=f"f{len(found)}"), inputs, results))
    return found


@pytest.mark.parametrize("level", ["-O0", "-O2"])
def test_random_blocks_in_c(level: str) -> None:
    cases = runs(30)
    steps, types, data = [], {}, {}
    for func, inputs, _ in cases:
        names = [f"{func.name}_{b.name}" for b in func.params]
        given = names[: len(func.inputs)]
        for name, b, array in zip(given, func.inputs, inputs, strict=True):
            types[name], data[name] = TensorType(b.static_shape, b.dtype), array
        steps.append((func, given, names[len(given) :]))
    outputs = [name for _, _, writes in steps for name in writes]
    compiled = compile_c(emit(planned(steps, types, outputs), "many"), reproducible=True, flags=(*STRICT, level))
    got = compiled.run(data, fill=0)
    for (func, _, results), (_, _, writes) in zip(cases, steps, strict=True):
        for name, want in zip(writes, results, strict=True):
            assert same_bits(got[name], want), f"{differing(got[name], want)}\n{func}\n{without_blocks(func)}"


def test_the_buffers_of_blocks_keep_their_places_in_the_plan() -> None:
    """A choice needs a cell of its own, which is no part of the plan and does not move the others."""
    x, y = Buffer("x", (4,), FLOAT32), Buffer("y", (1,), INT64)
    own, out = Buffer("own", (4,), FLOAT32), Buffer("out", (1,), FLOAT32)
    product = choice(x[0] < 1.0, x[y[0]], const(1, FLOAT32)) * choice(x[1] < 1.0, x[y[0]], const(2, FLOAT32))
    body = seq(store(own, 0, product), store(own, 3, product), store(out, 0, own[0] + own[3]))
    func = PrimFunc("f", (x, y, out), 1, Block("b", (), body, allocated=(own,)))
    compiled = compile_c(emit(alone(func), "one"), reproducible=True, flags=(*STRICT, "-O1"))
    got = compiled.run({"x": np.array([3, 0, 5, 7], "f4"), "y": np.array([3])}, fill=0)
    assert got["out"].tolist() == [14]
    with pytest.raises(Trap) as caught:
        compiled.run({"x": np.array([3, 0, 5, 7], "f4"), "y": np.array([4])}, fill=0)
    assert caught.value.kind == "out of bounds"


@pytest.mark.parametrize(("of", "given", "label"), [(INT64, (), "program.C2"), (FLOAT32, (1,), "c.C15")])
def test_scalar_parameters_that_no_c_has(of: DType, given: tuple[int, ...], label: str) -> None:
    out = Buffer("out", (1,), FLOAT32)
    module = alone(PrimFunc("f", (out,), 1, store(out, 0, 1.0), scalars=(Var("n", of),)))
    steps = tuple(replace(s, scalars=given) for s in module.program.calls)
    with pytest.raises(Invalid) as caught:
        emit(module.with_(main=replace(module.program, steps=steps)), "one")
    assert caught.value.label == label


CLAIMS = {  # one whose condition only the run can decide, where there is one
    "undeclared access": (1, 5),
    "misaligned": (4, 9),
    "shape": (7,),
    "wrong scope": (3,),
}


@pytest.mark.parametrize("kind", CLAIMS)
def test_broken_claims_are_reported_in_c(kind: str) -> None:
    """Regions, places and scopes of buffers: C traps as the definition does."""
    inputs = {"x": np.arange(8, dtype=np.float32), "m": np.ones((4, 4), np.float32), "ix": np.arange(8, dtype=np.int32)}
    for number in CLAIMS[kind]:
        text = HEAD + "".join(f"    {line}\n" for line in (FILL + PROGRAMS[kind][number]).splitlines())
        (func,) = parse(text, "fault.py").kernels.values()
        compiled = compile_c(emit(alone(func), "one"), reproducible=True, flags=(*STRICT, "-O1"))
        with pytest.raises(Trap) as caught:
            compiled.run(inputs, fill=0)
        assert caught.value.kind == kind, number


def test_calls_are_refused() -> None:
    out = Buffer("out", (1,), FLOAT32)
    with pytest.raises(Unsupported) as caught:
        emit(alone(PrimFunc("f", (out,), 1, Call("g", (out,)))), "one")
    assert caught.value.label == "tensor.C17"
