"""Models with unknown sizes as exporters write them: imported once, and run at several sizes beside ONNX Runtime."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import pytest

from assay.interp import graph
from assay.lower.frontends.onnx.model import import_onnx
from tests.exported.cases import CASES
from tests.exported.loops import MODELS

pytestmark = pytest.mark.row("J11")

STORED = sorted((Path(__file__).parent / "models").glob("*.onnx"))
"""Small ones, by NAME_EXPORTER_SET or NAME."""

NONE_OF = {"sk_bayes", "sk_network"}
"""ONNX Runtime refuses to pick features at no place, as these do of no rows."""


def require_agreement(model: onnx.ModelProto, name: str) -> None:
    """The model's sizes stay symbols, and at each choice of the case's sizes the outputs are those of the runtime."""
    case = CASES[name]
    module = import_onnx(model, evaluate=graph.evaluate)
    assert any(not p.type.is_static for p in module.main.params if p.type.ndim)  # type: ignore[union-attr]
    session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    for sizes in (case.example, *case.others):
        if name in NONE_OF and 0 in sizes.values():
            continue
        arrays = case.arrays(sizes)
        names = [o.name for o in session.get_outputs()]
        wanted = session.run(None, {i.name: arrays[i.name] for i in session.get_inputs()})
        found = graph.run(module, {p.name: arrays[p.name] for p in module.main.params})
        for n, array in zip(names, wanted, strict=True):
            assert found[n].dtype == array.dtype
            # of a loop without iterations ONNX does not say what the sizes of the elements are that there are none of
            assert found[n].shape == array.shape or (array.size == found[n].size == 0 and sizes.get("steps") == 0)
            np.testing.assert_allclose(
                found[n].reshape(array.shape), array, rtol=1e-4, atol=1e-5, err_msg=f"{sizes}, {n}"
            )


@pytest.mark.parametrize("name", MODELS)
def test_loops_choices_and_detection(name: str) -> None:
    require_agreement(MODELS[name](), name)


@pytest.mark.parametrize("path", STORED, ids=lambda p: p.stem)
def test_stored_models(path: Path) -> None:
    name = path.stem.rsplit("_", 2)[0] if path.stem.endswith(tuple("0123456789")) else path.stem
    require_agreement(onnx.load(path), name)


def test_a_model_that_is_changed_is_found() -> None:
    """A doubled row that is tripled: the comparison can fail."""
    model = MODELS["growing"]()
    body = next(n for n in model.graph.node if n.op_type == "Loop").attribute[0].g
    changed = onnx.ModelProto()
    changed.CopyFrom(model)
    next(n for n in body.node if n.op_type == "Add").op_type = "Mul"
    case = CASES["growing"]
    x = case.arrays(case.example)
    ours, other = (graph.run(import_onnx(m, evaluate=graph.evaluate), x)["y"] for m in (changed, model))
    assert ours.shape != other.shape or not np.allclose(ours, other)


@pytest.mark.campaign
def test_all_that_pytorch_exports() -> None:
    """Some 80 models by both exporters, several sets of operators each."""
    torch = pytest.importorskip("torch", reason="torch is not installed")
    pytest.importorskip("transformers", reason="transformers is not installed")
    from tests.exported.export import EXPORTS

    for name, way, opset in EXPORTS:
        torch.manual_seed(0)
        model = way(name, opset)
        if not (opset == 23 and name.startswith("llama")):  # the runtime refuses the exporter's RotaryEmbedding
            require_agreement(model, name)


@pytest.mark.campaign
def test_all_that_scikit_learn_exports() -> None:
    pytest.importorskip("skl2onnx", reason="skl2onnx is not installed")
    from tests.exported.learned import fitted, pipelines

    unknown = {"sk_boosting", "sk_forest", "sk_tree", "sk_svc", "sk_svr", "sk_neighbours"}
    for name, make in pipelines().items():
        if name not in unknown:
            require_agreement(fitted(make), name)
