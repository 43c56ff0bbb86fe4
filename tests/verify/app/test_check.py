"""The main job on real models, and on faults planted into each stage."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np
import onnx
import pytest

from assay.interp import vector
from assay.lower.c import emit
from assay.lower.pipeline import Pass
from assay.semantics.graph import CallTIR, Let
from assay.semantics.module import Module
from assay.semantics.walk import rewrite
from assay.verify.app.check import CheckRun, Line, Lowering
from assay.verify.app.judging import JudgedOutputs
from assay.verify.app.stages import lowering_passes
from assay.verify.c.compiled import compile_c
from tests.lower.c.sanitized import run_sanitized
from tests.models import LightModel, light_models, model, small_cnn, transformer_block


def run(model: onnx.ModelProto, **more: object) -> list[Line]:
    lowering = Lowering(model, "model", changed=more.pop("changed", {}), emitter=more.pop("emitter", emit))  # type: ignore[arg-type]
    return list(CheckRun(lowering, **more).lines())  # type: ignore[arg-type]


def failed(lines: list[Line]) -> Line:
    """The one line that does not hold; it is the last."""
    assert all(line.evidence.holds for line in lines[:-1])
    assert not lines[-1].evidence.holds, "the fault went unnoticed"
    return lines[-1]


SMALLEST = ("squeezenet",)
"""The light models of the default suite: one that saturates, and takes images of any size; as all weights of a layer
are one number, all outputs are equal whatever the image, and the stored ones are those of every size. The demo runs
another."""


def on_images(
    proto: onnx.ModelProto, given: dict[str, np.ndarray], size: int
) -> tuple[onnx.ModelProto, dict[str, np.ndarray]]:
    """A network without fixed sizes inside, and its input, on images of another size."""
    ((name, image),) = given.items()
    (declared,) = (i for i in proto.graph.input if i.name == name)
    for dim in declared.type.tensor_type.shape.dim[2:]:
        dim.dim_value = size
    return proto, {name: np.ascontiguousarray(image[:, :, :size, :size])}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("light", "image"),
    [
        *(pytest.param(m, 0, id=m.name, marks=pytest.mark.campaign) for m in light_models()),
        *(pytest.param(m, 48, id=f"{m.name} on small images") for m in light_models() if m.name in SMALLEST),
    ],
)
def test_light_models(light: LightModel, image: int) -> None:
    """Every line holds; the stored outputs and ONNX Runtime's lie inside the bounds."""
    proto, given = onnx.load(light.path), light.inputs
    if image:
        proto, given = on_images(proto, given, image)
    judged = [JudgedOutputs("expected", outputs=light.outputs)]
    try:
        import onnxruntime  # noqa: F401

        judged.append(JudgedOutputs("onnxruntime", model=proto))
    except ImportError:
        pass
    lines = run(proto, given=given, judged=judged)
    # weights all alike make logits of up to 1e21: what may be off there, softmax makes anything
    saturated = {"bvlc_alexnet", "inception_v1", "resnet50", "squeezenet", "vgg19", "zfnet512"}
    assert [line.evidence.detail for line in lines if line.evidence.holds is False] == []
    unknown = ["expected"] if light.name in saturated else []  # of given outputs alone nothing more can be known
    assert [line.stage for line in lines if line.evidence.holds is None] == unknown
    stages = [
        "import",
        "devices",
        "anf",
        "legalize",
        "fuse",
        "constants",
        "schedule",
        "liveness",
        "pool",
        "c",
        "compare",
        *(j.name for j in judged),
    ]
    assert [line.stage for line in lines] == stages
    (of_c,) = [line.evidence for line in lines if line.stage == "c"]
    assert of_c.how == "proved", of_c.detail  # read back, with its tables of weights and in every configuration
    pool = lines[stages.index("pool")].as_data()["data"]
    assert pool["pool_bytes"] == pool["lower_bound"], "no plan needs less"
    assert ("vacuous" in lines[10].did) == (light.name in saturated)


@pytest.mark.parametrize("erf", [True, False])
def test_transformer_block(erf: bool) -> None:
    pytest.importorskip("onnxruntime")
    proto = transformer_block(erf=erf)
    lines = run(proto, judged=[JudgedOutputs("onnxruntime", model=proto)])
    assert [line.evidence.detail for line in lines if not line.evidence.holds] == []
    assert len(lines) == 12


@pytest.mark.slow
@pytest.mark.peer
@pytest.mark.campaign
@pytest.mark.parametrize("name", ["squeezenet", "densenet121"])
def test_what_the_reference_evaluator_gets_wrong(name: str) -> None:
    """Known since onnx 1.23: Softmax before opset 13, and BatchNormalization 9, are evaluated by newer rules."""
    light = next(m for m in light_models() if m.name.endswith(name))
    proto = onnx.load(light.path)
    line = failed(run(proto, given=light.inputs, judged=[JudgedOutputs("reference", model=proto)]))
    assert line.stage == "reference"
    assert {"squeezenet": "Softmax", "densenet121": "BatchNormalization"}[name] in line.evidence.detail


@pytest.mark.slow
@pytest.mark.parametrize(
    "name", ["small_cnn", "transformer_block", pytest.param("shufflenet", marks=pytest.mark.campaign)]
)
def test_the_c_under_sanitizers(name: str) -> None:
    """The address and undefined-behaviour sanitizers find nothing, every buffer an allocation of exactly its size; and
    the outputs are those of the optimised library."""
    made = {"small_cnn": small_cnn, "transformer_block": transformer_block}
    proto = made[name]() if name in made else next(m.load() for m in light_models() if m.name == name)
    check = CheckRun(Lowering(proto, name))
    assert all(line.evidence.holds for line in check.lines())
    assert check.source is not None
    wanted = compile_c(check.source, reproducible=True).run(check.inputs)
    got = run_sanitized(check.source, check.inputs, reproducible=True, timeout=600)
    assert {n: a.tobytes() for n, a in got.items()} == {n: a.tobytes() for n, a in wanted.items()}


# --- planted faults ------------------------------------------------------------------------------------------------


def after(stage: str, fault: Callable[[Module], Module]) -> dict[str, Pass]:
    """The pass of a stage with a fault behind it."""
    return {stage: lambda module: fault(lowering_passes(vector.run)[stage](module))}


def test_wrong_pool_offset() -> None:
    def fault(module: Module) -> Module:
        program = module.program
        a, b = [s for s in program.placed("workspace") if s.nbytes and s.start <= 2 < s.stop or s.start == 2][:2]
        return module.with_(main=replace(program, slots={**program.slots, b.name: replace(b, offset=a.offset)}))

    line = failed(run(small_cnn(), changed=after("pool", fault)))
    assert line.stage == "pool" and "buffer" in line.evidence.detail


def test_wrong_lifetime() -> None:
    names = []

    def fault(module: Module) -> Module:
        program = module.program
        slot = next(s for s in program.placed("workspace") if s.stop - s.start > 1)
        names.append(slot.name)
        return module.with_(
            main=replace(
                program, slots={**program.slots, slot.name: replace(slot, live=((slot.start, slot.stop - 1),))}
            )
        )

    line = failed(run(small_cnn(), changed=after("liveness", fault)))
    assert line.stage == "liveness" and f"buffer {names[0]} " in line.evidence.detail


def test_dropped_dependency_in_the_graph() -> None:
    """A binding of the let chain reads its operand's operand: one operator is skipped."""

    def fault(module: Module) -> Module:
        main = module.main
        body = main.body
        while not (isinstance(body, Let) and isinstance(body.value, CallTIR) and "relu" in body.value.func):
            assert isinstance(body, Let)
            body = body.body
        skipped, instead = body.var, body.value.args[0]
        return module.with_(main=rewrite(main, lambda n: instead if n is skipped else n))

    line = failed(run(small_cnn(), changed=after("legalize", fault)))
    assert line.stage == "legalize" and "Relu" in line.evidence.detail or "relu" in line.evidence.detail


def test_dropped_dependency_in_the_program() -> None:
    def fault(module: Module) -> Module:
        program = module.program
        index = next(i for i, s in enumerate(program.steps) if "relu" in s.kernel)
        return module.with_(main=replace(program, steps=program.steps[:index] + program.steps[index + 1 :]))

    line = failed(run(small_cnn(), changed=after("liveness", fault)))
    assert line.stage == "liveness" and "nothing has written" in line.evidence.detail


def test_wrong_constant() -> None:
    def fault(module: Module) -> Module:
        name, array = next((n, a) for n, a in module.constants.items() if a.size > 4)
        changed = array.copy()
        changed.reshape(-1)[3] = np.nextafter(changed.reshape(-1)[3], np.float32(9))
        return replace(module, constants={**module.constants, name: changed})

    line = failed(run(small_cnn(), changed=after("constants", fault)))
    assert line.stage == "constants" and "a value that the source does not have" in line.evidence.detail


def two_outputs() -> onnx.ModelProto:
    nodes = [onnx.helper.make_node("Relu", ["x"], ["a"]), onnx.helper.make_node("Neg", ["x"], ["b"])]
    return model(nodes, {"x": (np.float32, [2, 3])}, {"a": (np.float32, [2, 3]), "b": (np.float32, [2, 3])})


@pytest.mark.parametrize("stage", ["anf", "legalize", "constants", "schedule"])
def test_swapped_output_names(stage: str) -> None:
    def fault(module: Module) -> Module:
        main = module.main
        return module.with_(main=replace(main, attrs={**main.attrs, "outputs": main.attrs["outputs"][::-1]}))

    assert failed(run(two_outputs(), changed=after(stage, fault))).stage == stage


def test_a_plan_that_changes_constants() -> None:
    def fault(module: Module) -> Module:
        changed = {
            n: np.nextafter(a, np.float32(9)) if a.dtype == np.float32 else a for n, a in module.constants.items()
        }
        return replace(module, constants=changed)

    for stage in ("schedule", "liveness", "pool"):
        line = failed(run(small_cnn(), changed=after(stage, fault)))
        assert line.stage == stage and "constants has changed" in line.evidence.detail


def test_constant_outputs() -> None:
    """Two outputs from one initializer, and a NaN among the constants."""
    w = np.array([[1, -np.nan, 2]], np.float32)
    nodes = [onnx.helper.make_node("Neg", ["w"], ["a"]), onnx.helper.make_node("Sqrt", ["a"], ["b"])]
    proto = model(nodes, {"x": (np.float32, [2])}, {"a": (np.float32, [1, 3]), "b": (np.float32, [1, 3])}, {"w": w})
    assert [line.evidence.detail for line in run(proto) if not line.evidence.holds] == []


def test_wrong_backend_names_the_first_operator(monkeypatch: pytest.MonkeyPatch) -> None:
    from assay.verify import backends

    pytest.importorskip("onnxruntime")

    class Wrong:
        name = "wrong"

        def prepare(self, subject: backends.Subject, wanted: Sequence[str]) -> backends.Prepared:
            changed = onnx.ModelProto()
            changed.CopyFrom(subject.model)
            node = next(n for n in changed.graph.node if n.op_type == "Relu")
            node.op_type = "Abs"
            return backends.backend("onnxruntime").prepare(replace(subject, model=changed), wanted)

    monkeypatch.setitem(backends.BACKENDS, "wrong", Wrong())
    proto = small_cnn()
    line = failed(run(proto, judged=[JudgedOutputs("wrong", model=proto)]))
    assert "Relu" in line.evidence.detail
