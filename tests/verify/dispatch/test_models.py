"""Exported models by every way to run their kernels, as graphs and on the virtual machine, beside the C that is built
of them, bit for bit."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from hypothesis import Phase, given, settings, strategies as st

from assay.lower.c import emit
from assay.semantics.bits import quiet
from assay.semantics.errors import Invalid
from assay.semantics.scalar import Var
from assay.semantics.types import symbols
from assay.verify.api.run import ran
from assay.verify.app.kernels.run import _lowered, _module
from assay.verify.app.stages import TO_BYTECODE, lowering_passes
from assay.verify.c.compiled import compile_c
from assay.verify.dispatch.choice import parse_choices
from assay.verify.dispatch.dispatcher import Dispatcher
from assay.verify.dispatch.objects import KernelCompiler
from assay.verify.dispatch.program import DispatchedProgram, tensors_in
from tests.exported.test_exported_check import exports
from tests.places import ROOT

pytestmark = pytest.mark.row("J2", "J4", "J5", "J6", "J8", "J9")
MODELS = ROOT / "tests" / "exported" / "models"
WAYS = ("generic", "specialized", "range:batch=1..3,x_0=1..3", "padded:batch=4,x_0=4", "buckets:batch=4,2,2,x_0=8,2",
        "recorded", "auto", "interpreted")  # fmt: skip
SIZES: dict[str, list[dict[str, int]]] = {
    "sk_network": [{"x_0": 1}, {"x_0": 3}],
    "sk_polynomial": [{"x_0": 2}, {"x_0": 5}],
    "unet_traced_17": [{"batch": 1, "height": 8, "width": 6}, {"batch": 3, "height": 7, "width": 11}],
    "unet_resized_traced_17": [{"batch": 2, "height": 7, "width": 5}],
    "detector_traced_17": [{"batch": 1, "height": 8, "width": 8}],
    "lstm_traced_17": [{"batch": 1, "time": 3}, {"batch": 3, "time": 5}],
    "gru_two_ways_traced_17": [{"batch": 3, "time": 4}],
}


def outputs(values: Any) -> list[bytes]:
    """The bytes of all tensors; any NaN is any NaN (rule M5.5)."""
    found = [np.ascontiguousarray(a) for v in values for a in tensors_in(v)]
    return [(quiet(a) if a.dtype.kind in "fV" else a).tobytes() for a in found]


def check_model(path: Path, sizes: list[dict[str, int]], ways: tuple[str, ...]) -> None:
    module = _module(path, [], {"dims": {}})
    points = [dict(ran(path, None, at, {}, 0).inputs) for at in sizes]
    planned = module
    for run in lowering_passes().values():
        planned = run(planned)
    native = compile_c(emit(planned, "native"), reproducible=True)
    wanted = [outputs(native.run(p).values()) for p in points]
    virtual = module
    for run in lowering_passes(stages=TO_BYTECODE).values():
        virtual = run(virtual)
    forms = {"graph": _lowered(module, parse_choices("auto")), "bytecode": _lowered(virtual, parse_choices("auto"))}
    compiler = KernelCompiler()
    for way, form in product(ways, forms):
        program = DispatchedProgram(forms[form], Dispatcher(parse_choices(way), compiler))
        program.beforehand()
        with ThreadPoolExecutor(4) as pool:
            found = list(pool.map(program.run, points * 3))
        assert [outputs(f.values()) for f in found] == wanted * 3, f"{path.name} as {form} by {way}"


def test_a_model_by_some_ways() -> None:
    check_model(MODELS / "sk_network.onnx", SIZES["sk_network"], ("generic", "buckets:x_0=4"))


@pytest.mark.campaign
@pytest.mark.parametrize("name", SIZES)
def test_a_model_by_every_way(name: str) -> None:
    check_model(MODELS / f"{name}.onnx", SIZES[name], WAYS)


def drawn_sizes(path: Path, count: int) -> list[dict[str, int]]:
    """Sizes that Hypothesis draws, as many as there are, at which the model runs; 0 and 1 are among what is drawn. Some
    are left to the run, which finds numbers that fit the others: an export may have seven names for two sizes."""
    names = list(SIZES.get(path.stem, [{}])[0]) or [s.name for s in symbols_of_inputs(path)]
    found: list[dict[str, int]] = []

    @settings(max_examples=10 * count, phases=[Phase.generate], database=None, deadline=None)
    @given(st.fixed_dictionaries({n: st.sampled_from((None, 0, 1, 2, 3, 5, 7)) for n in names}))
    def draw(sizes: dict[str, int | None]) -> None:
        if len(found) < count:
            try:
                done = ran(path, None, {n: v for n, v in sizes.items() if v is not None}, {}, 0)
            except Invalid:
                return  # no run has these sizes
            if done.trap is None and not done.failing and dict(done.sizes) not in found:
                found.append(dict(done.sizes))

    draw()
    return found


def symbols_of_inputs(path: Path) -> list[Var]:
    types = [p.type for p in _module(path, [], {"dims": {}}).main.params]
    return list(dict.fromkeys(s for t in types for s in symbols(t)))


@pytest.mark.campaign
@pytest.mark.parametrize("name", SIZES)
def test_a_model_at_drawn_sizes(name: str) -> None:
    path = MODELS / f"{name}.onnx"
    sizes = drawn_sizes(path, 3)
    assert sizes
    check_model(path, sizes, WAYS)


@pytest.mark.campaign
def test_what_pytorch_exports_at_drawn_sizes(tmp_path: Path) -> None:
    for extra in ("torch", "transformers"):
        pytest.importorskip(extra, reason=f"{extra} is not installed")
    for name, model in exports():
        path = tmp_path / f"{name}.onnx"
        onnx.save(model, path)
        sizes = drawn_sizes(path, 2)
        assert sizes, name
        check_model(path, sizes, WAYS)
