"""The node models of the onnx package through TVM's importer: what its legalised modules mean here is what was
expected, or what TVM's own code computes as well. Where both are wrong the fault is TVM's; it has many in this suite.
"""

from __future__ import annotations

import copy
import warnings
from collections import Counter
from typing import Any

import numpy as np
import pytest
from onnx import numpy_helper

from assay.interp import graph
from assay.interp.values import Shape
from assay.lower.frontends.tvm import from_tvm
from assay.semantics import rules
from assay.semantics.errors import AssayError, Invalid, Trap, Unsupported
from tests.lower.frontends.tvm.tvm_models import compiled, flat, imported, relax, tvm

pytestmark = [pytest.mark.peer, pytest.mark.campaign]
PARTS = 6


def frozen(model: Any, arrays: list[Any]) -> tuple[Any, list[Any]]:
    """The model with sizes, axes and scalars stored in it, as models have them; and the inputs that are left."""
    model = copy.deepcopy(model)
    names = [i.name for i in model.graph.input]
    stored = {
        n: a for n, a in zip(names[1:], arrays[1:], strict=True) if a.ndim == 0 or (a.dtype == np.int64 and a.ndim == 1)
    }
    model.graph.initializer.extend(numpy_helper.from_array(a, n) for n, a in stored.items())
    left = [i for i in model.graph.input if i.name not in stored]
    del model.graph.input[:]
    model.graph.input.extend(left)
    return model, [a for n, a in zip(names, arrays, strict=True) if n not in stored]


def alike(a: Any, b: Any) -> bool:
    a, b = np.asarray(a), np.asarray(b)
    if a.shape != b.shape or a.dtype != b.dtype:
        return False
    if a.dtype.kind in "biu":
        return np.array_equal(a, b)
    return np.allclose(a.astype(np.float64), b.astype(np.float64), rtol=1e-3, atol=1e-5, equal_nan=True)


def judge(case: Any) -> str:
    """How a case ends. "other than TVM" is the one that must not be."""
    arrays, wanted = case.data_sets[0]
    if not all(isinstance(a, (np.ndarray, np.generic)) for a in (*arrays, *wanted)):
        return "no tensors"
    model, inputs = frozen(case.model, list(map(np.asarray, arrays)))
    try:
        with tvm.target.Target("llvm"):
            passes = [relax.backend.DispatchSortScan(), relax.transform.LegalizeOps()]
            source = imported(model)
            mod = tvm.transform.Sequential(passes)(source)
    except Exception:  # noqa: BLE001 TVM refuses by whatever its parts happen to raise
        return "refused by TVM"
    try:
        module = from_tvm(mod)
        rules.check(module)
        names = [p.name for p in module.main.params]
        got = flat(tuple(graph.run(module, dict(zip(names, inputs, strict=True))).values()))
    except (Unsupported, Invalid, Trap) as wrong:
        return "trap" if isinstance(wrong, Trap) else "refused by name"
    if any(isinstance(g, Shape) for g in got):
        return "shapes"
    if len(got) == len(wanted) and all(map(alike, got, wanted)):
        return "as expected"
    theirs = flat(compiled(source)(*inputs))
    return "as TVM" if len(theirs) == len(got) and all(map(alike, got, theirs)) else "other than TVM"


@pytest.mark.parametrize("part", range(PARTS))
def test_the_node_models_of_onnx(part: int) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        from onnx.backend.test.case.node import collect_testcases

        cases = collect_testcases(None)[part::PARTS]
        found: dict[str, list[str]] = {}
        for case in cases:
            try:
                found.setdefault(judge(case), []).append(case.name)
            except AssayError as wrong:
                raise AssertionError(f"{case.name}: {wrong}") from wrong
    counts = Counter({k: len(v) for k, v in found.items()})
    assert not found.get("other than TVM"), found
    assert counts["as expected"] > 100, counts
