"""Whole programs as bytecode, beside the graph interpreter on the same lowered module: bit for bit, traps of one kind
at one place."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest

from assay.interp.graph import evaluate
from assay.lower.frontends.onnx.model import import_onnx
from assay.lower.vm import to_bytecode
from assay.semantics.bytecode import AllocateStorage, AllocateTensor
from assay.semantics.errors import AssayError
from assay.semantics.module import Module
from assay.verify.app.text_run import load_either
from assay.verify.strategies import values
from assay.verify.strategies.choosing import by_random
from assay.verify.strategies.features import EVERYTHING, LANGUAGE, Features
from assay.verify.strategies.graphs import a_module
from tests.interp.vm.vm_runs import difference, front
from tests.models import LightModel, light_models
from tests.verify.whole.size_programs import Sized, programs


def read(path: Path) -> Module:
    found = load_either(path)
    return import_onnx(found, evaluate=evaluate) if isinstance(found, onnx.ModelProto) else found


REFUSED = ("broadcast.C1", "call.C7", "onnx.C13", "relay.C12")
"""What no reader takes, or the static rules refuse, whoever runs it."""


@pytest.mark.row("J13", "J14", "J15", "J16", "J18")
@pytest.mark.parametrize("program", [p for p in programs() if p.says not in REFUSED], ids=lambda p: p.name)
def test_programs_of_unknown_sizes(program: Sized, tmp_path: Path) -> None:
    low = front(read(program.write(tmp_path)))
    code = to_bytecode(low)
    assert [d for r in program.runs if (d := difference(low, r.inputs, code=code))] == []


SMALL = "squeezenet"


@pytest.mark.parametrize(
    "model",
    [pytest.param(m, id=m.name, marks=[] if m.name == SMALL else [pytest.mark.campaign]) for m in light_models()],
)
def test_the_light_models(model: LightModel) -> None:
    low = front(read(model.path))
    code = to_bytecode(low)
    rng = np.random.default_rng(0)
    inputs = {p.name: rng.standard_normal(p.type.static_shape).astype(np.float32) for p in low.main.params}  # type: ignore[union-attr]
    assert difference(low, inputs, code=code) == ""
    body = code.bytecode.main.body
    storages, tensors = (sum(isinstance(i, of) for i in body) for of in (AllocateStorage, AllocateTensor))
    assert storages <= 14 < tensors  # memory is used again


def compared(seeds: range, size: int, features: Features, execute: Any = None) -> int:
    """How many random programs were run in both ways."""
    count = 0
    for seed in seeds:
        pick = by_random(random.Random(seed))
        module = a_module(pick, size, features)
        inputs = values.picked_inputs(pick, module)
        more = {} if execute is None else {"execute": execute}
        assert difference(front(module), inputs, **more) == "", f"seed {seed}"
        count += 1
    return count


@pytest.mark.parametrize(
    ("seeds", "size", "features"), [(range(25), 20, LANGUAGE), (range(8), 14, EVERYTHING)], ids=["language", "all"]
)
def test_random_programs(seeds: range, size: int, features: Features) -> None:
    assert compared(seeds, size, features) == len(seeds)


def test_random_programs_one_element_at_a_time() -> None:
    assert compared(range(40, 52), 16, LANGUAGE, "definition") == 12


@pytest.mark.campaign
@pytest.mark.parametrize("part", range(8))
def test_many_random_programs(part: int) -> None:
    assert compared(range(1000 + 500 * part, 1500 + 500 * part), 24, LANGUAGE) == 500
    assert compared(range(100 * part, 100 * part + 100), 16, EVERYTHING) == 100


def test_what_is_refused_is_refused_by_the_static_rules(tmp_path: Path) -> None:
    for program in programs():
        if program.says in REFUSED:
            with pytest.raises(AssayError) as wrong:
                front(read(program.write(tmp_path)))
            assert wrong.value.label == program.says
