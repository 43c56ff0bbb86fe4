"""Memory that is seen as numbers of several dtypes, in C: the bits of the definition, without a pointer of another
type."""

from __future__ import annotations

import re
from dataclasses import replace

import numpy as np
import pytest

from assay.lower.c import emit
from assay.semantics.errors import Trap
from assay.verify.c.compiled import compile_c
from assay.verify.c.tools import STRICT
from tests.interp.byte_programs import BODIES, TRAPS, Bytes, X, module
from tests.lower.c.sanitized import run_sanitized
from tests.lower.memory.planned import alone, choosing, same_bits


def test_the_bits_of_the_definition() -> None:
    """All bodies in one library, at two levels of optimisation: aliases of the wrong type would show in the second."""
    kernels = [replace(module(body).kernel("kernel"), name=f"k{i}") for i, (body, *_) in enumerate(BODIES.values())]
    source = emit(choosing(kernels), "many")
    # a pointer becomes one to bytes, and never one to anything else
    assert set(re.findall(r"= \((?:const )?(\w+) \*\)\w+;", source.source)) == {"uint8_t"}
    data = {f"k{i}_x": X for i in range(len(kernels))}
    for level in ("-O1", "-O3"):
        compiled = compile_c(source, reproducible=True, flags=(*STRICT, level))
        for i, (_, o, p) in enumerate(BODIES.values()):
            got = compiled.run({**data, "which": np.asarray(i)})
            assert same_bits(got[f"k{i}_o"], o) and same_bits(got[f"k{i}_p"], p), list(BODIES)[i]


@pytest.mark.parametrize("name", ["truth in bytes", "a view of a view"])
def test_under_the_sanitizers(name: str) -> None:
    body, o, p = BODIES[name]
    got = run_sanitized(emit(alone(module(body).kernel("kernel")), "one"), {"x": X})
    assert same_bits(got["o"], o) and same_bits(got["p"], p)


@pytest.mark.parametrize(
    "name", ["no truth", "no truth is stored", "beyond the end", "partly beyond the end", "what a block does not say"]
)
def test_c_traps_as_the_definition_does(name: str) -> None:
    body, kind, _ = TRAPS[name]
    compiled = compile_c(emit(alone(module(body).kernel("kernel")), "one"), reproducible=True, flags=(*STRICT, "-O1"))
    with pytest.raises(Trap) as caught:
        compiled.run({"x": X}, fill=0)
    assert caught.value.kind == kind


def test_random_views() -> None:
    made = [Bytes(seed) for seed in range(2000, 2020)]
    compiled = compile_c(emit(choosing([m.func for m in made]), "many"), reproducible=True, flags=(*STRICT, "-O2"))
    data = {f"k{i}_x": m.inputs() for i, m in enumerate(made)}
    for i, m in enumerate(made):
        got = compiled.run({**data, "which": np.asarray(i)})
        assert same_bits(got[f"k{i}_out"], m.expected(data[f"k{i}_x"])), m.func


def test_a_byte_at_the_wrong_place_is_seen() -> None:
    """Planted: the C takes the numbers for big-endian ones."""
    body, *_, p = BODIES["bytes of an input"]
    source = emit(alone(module(body).kernel("kernel")), "one")
    wrong = source.source.replace(
        "#define one_byte(place, last) (place)\n", "#define one_byte(place, last) ((place) ^ (last))\n"
    )
    assert wrong != source.source
    got = compile_c(replace(source, source=wrong), reproducible=True).run({"x": X})
    assert not same_bits(got["p"], p)
    assert same_bits(got["p"].reshape(-1, 4)[:, ::-1].reshape(-1), p)
