"""Convolutions and poolings of unknown sizes in C: random ones, at several sizes beside the machine, bit for bit.

Paddings, strides, dilations, groups, ceil_mode; sizes 0, 1 and odd ones, and those at which no window fits, which trap
in both. Some run under the sanitizers, every buffer of just its bytes.
"""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import helper

from assay.interp import machine
from assay.interp.graph import evaluate
from assay.lower.c import emit
from assay.lower.frontends.onnx.model import import_onnx
from assay.semantics.errors import Invalid, Trap
from assay.semantics.module import Module
from assay.verify.app.stages import lowering_passes
from assay.verify.c.compiled import compile_c
from assay.verify.c.tools import FLAGS, STRICT, Array
from tests.lower.c.sanitized_sizes import sanitized_program
from tests.lower.memory.planned import same_bits
from tests.verify.whole.test_symbolic_sizes import model, weights

Result = dict[str, Array] | str
"""Outputs, or the kind of a trap, or that a dim would be below 0."""
SIZES = (0, 1, 2, 3, 5, 6, 8, 13)


def drawn(rng: random.Random) -> tuple[onnx.ModelProto, int, int]:
    """A model of one window operator, sometimes with another on top, how many channels it takes, and its rank."""
    rank, groups = rng.choice([1, 2, 2, 2, 3]), rng.choice([1, 1, 2, 3])
    window = [rng.choice([1, 2, 3, 3, 4, 5] if rank > 1 else [1, 2, 3, 5, 11, 20]) for _ in range(rank)]
    each = {
        "strides": [rng.choice([1, 1, 2, 3]) for _ in range(rank)],
        "dilations": [rng.choice([1, 1, 1, 2]) for _ in range(rank)],
        "pads": [rng.randint(0, (w - 1) if w < 4 else 2) for w in (*window, *window)],
    }
    op = rng.choice(["Conv", "Conv", "MaxPool", "AveragePool"])
    channels = groups * rng.choice([1, 2])
    given, names, attrs = [], ["x"], dict[str, Any](each)
    if op == "Conv":
        features, bias = groups * rng.choice([1, 2]), rng.random() < 0.5
        shapes: dict[str, tuple[int, ...]] = {"w": (features, channels // groups, *window)}
        given = weights(**shapes, **({"b": (features,)} if bias else {}))
        names, attrs["group"] = ["x", "w", *(["b"] if bias else [])], groups
    else:
        attrs |= {"kernel_shape": window, "ceil_mode": rng.randint(0, 1)}
        if op == "AveragePool":
            attrs["count_include_pad"] = rng.randint(0, 1)
            del attrs["dilations"]
    then = rng.choice(["", "Relu", "GlobalAveragePool"])
    nodes = [helper.make_node(op, names, ["t" if then else "y"], **attrs)]
    nodes += [helper.make_node(then, ["t"], ["y"])] if then else []
    shape: list[int | str] = ["batch", channels, *("depth", "height", "width")[3 - rank :]]
    return model(nodes, shape, [None] * (rank + 2), given), channels, rank


def lowered(of: onnx.ModelProto) -> Module:
    module = import_onnx(of, evaluate=evaluate)
    for stage in lowering_passes().values():
        module = stage(module)
    return module


def result(run: Any, given: dict[str, Array]) -> Result:
    try:
        return dict(run(given))
    except Trap as trap:
        return trap.kind
    except Invalid:
        return "a negative size"


def compare(seed: int, points: int, sanitized: bool) -> int:
    """How many loops of the C were carried into rows; what differs is an error."""
    rng = random.Random(seed)
    of, channels, rank = drawn(rng)
    module = lowered(of)
    source = emit(module, "m")
    compiled = compile_c(source, reproducible=True, flags=(*STRICT, "-O1") if seed % 2 else FLAGS)
    numbers = np.random.default_rng(seed)
    given: list[dict[str, Array]] = []
    for at in range(points):
        large = SIZES[4:] if at % 2 else SIZES
        shape = (rng.choice([0, 1, 2, 3]) if at else 2, channels, *(rng.choice(large) for _ in range(rank)))
        given.append({"x": numbers.standard_normal(shape).astype(np.float32)})
    wanted = [result(lambda x: machine.run(module, x), g) for g in given]
    for g, w in zip(given, wanted, strict=True):
        agree(result(compiled.run, g), w, f"seed {seed}, {g['x'].shape}")
    if sanitized:
        with sanitized_program(source) as program:
            for g, w in zip(given, wanted, strict=True):
                agree(result(program.run, g), w, f"seed {seed}, {g['x'].shape}, sanitized")
    return sum(not isinstance(w, str) for w in wanted)


def agree(found: Result, wanted: Result, where: str) -> None:
    if isinstance(wanted, str) or isinstance(found, str):
        assert found == wanted, where
    else:
        assert all(same_bits(found[k], wanted[k]) for k in wanted), where


def test_random_windows_are_the_machines_bits() -> None:
    ran = [compare(seed, 6, sanitized=seed % 4 == 0) for seed in range(5)]
    assert sum(ran) > 12, "most sizes run"


@pytest.mark.campaign
def test_many_random_windows_are_the_machines_bits() -> None:
    ran = [compare(seed, 12, sanitized=True) for seed in range(100, 500)]
    assert sum(ran) > 2000
