"""apache-tvm judged from inside: after each pass and at each call of a kernel; each detector with a fault and a
twin."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest

pytest.importorskip("tvm", reason="the peer apache-tvm is not installed")


from assay.interp import tensor
from assay.interp.graph import evaluate
from assay.lower.frontends.onnx.model import import_onnx
from assay.lower.frontends.tvm import from_tvm
from assay.semantics.errors import Invalid, Trap
from assay.semantics.scalar import apply, const
from assay.semantics.tensor import Buffer, PrimFunc, loops, store
from assay.verify.app.answers import begin
from assay.verify.app.terminal import Screen
from assay.verify.tvm import PIPELINES, from_onnx, judge_kernels, judge_passes
from assay.verify.tvm.command import TvmRequest, judge_inside
from assay.verify.tvm.intervals import known_bounds, module_bounds
from assay.verify.tvm.meaning import beyond
from assay.verify.tvm.passes import Judge, verdicts
from assay.verify.tvm.peer import tvm_target
from assay.verify.tvm.watch import watch
from tests.models import small_cnn
from tests.museum.planted import PlantedFault
from tests.verify.tvm.campaign import TvmCampaign, node_cases
from tests.verify.tvm.detectors import DETECTORS, detect
from tests.verify.tvm.programs import IN_PLACE, alone, program as random_program
from tests.verify.tvm.tvm_faults import FAULTS, PLAIN, SAME, X, Y, pipeline, program, relax, texts
from tests.verify.tvm.wraps import trapping

pytestmark = [pytest.mark.peer]


@pytest.fixture(scope="module")
def cnn() -> tuple[Any, Any, Any]:
    model = small_cnn()
    x = np.random.default_rng(1).standard_normal((1, 3, 12, 12)).astype(np.float32)
    return from_onnx(model), import_onnx(model, evaluate=evaluate), x


@pytest.mark.slow
@pytest.mark.parametrize("name", PIPELINES)
def test_a_right_model_keeps_its_meaning(cnn: tuple[Any, Any, Any], name: str) -> None:
    mod, meant, x = cnn
    report = judge_passes(mod, [x], name, meant)
    assert report.holds and report.first is None, report.first
    hows = {v.name: v.how for v in report.verdicts}
    assert hows["the module"] == "begin" and hows["LegalizeOps"] == "rounded"
    assert {hows[n] for n in ("StaticPlanBlockMemory", "VMShapeLower", "tirx.StorageRewrite", "the compiled code")} == {
        "same"
    }
    calls = judge_kernels(mod, [x], name, flat=name == "cpu")
    assert calls.holds and not calls.flow and len(calls.verdicts) > 10
    assert {v.how for v in calls.verdicts} == {"right"}


@pytest.mark.slow
@pytest.mark.parametrize("fault", FAULTS, ids=lambda f: f"{f.layer}, {f.name}")
def test_a_detector_sees_its_fault_and_not_the_twin(fault: PlantedFault) -> None:
    assert fault.refused().layer == fault.layer
    assert fault.accepted() == []


def test_every_detector_has_a_fault() -> None:
    assert {f.layer[-1] for f in FAULTS} == {d.letter for d in DETECTORS} == set("abcdefgh")


def test_the_first_wrong_pass_and_its_function_are_named() -> None:
    report = judge_passes(program(PLAIN), [X, Y], pipeline("LegalizeOps", texts((" - ", " + "))))
    assert report.first is not None
    assert (report.first.name, report.first.how, report.first.function) == ("Planted", "changed", "subtract")
    assert "element (2,) is 294.0" in report.first.detail
    assert [v.name for v in report.verdicts if v.wrong] == ["Planted"], "a stage is blamed once"


def test_a_pass_over_kernels_is_judged_kernel_by_kernel() -> None:
    """The fault comes after the graph functions are compiled apart."""
    trace = watch(program(PLAIN))
    at = next(i for i, p in enumerate(trace.passed) if p.name == "s_tir.CanonicalizeLoop")
    for change, stage in ((SAME, None), (texts((" - ", " * ")), "Planted")):
        before = trace.passed[at].after
        planted = replace(trace.passed[at], name="Planted", before=before, after=change(before))
        passed = [*trace.passed[: at + 1], planted, *trace.passed[at + 1 :]]
        found = list(verdicts(replace(trace, passed=passed), Judge([X, Y])))
        first = next((v for v in found if v.wrong), None)
        assert (first.name if first else None) == stage
    assert first is not None and first.function == "subtract" and "call 0 of subtract" in first.detail


def test_a_wrong_kernel_and_an_overwritten_operand_are_told_apart() -> None:
    """The machine is given code whose kernel subtracts the wrong way round; and a plan that gives memory away too
    early."""
    mod = program(PLAIN)
    first = judge_kernels(
        mod,
        [X, Y],
        pipeline("StaticPlanBlockMemory", texts(("R.memory.alloc_tensor(storage1", "R.memory.alloc_tensor(storage"))),
    ).first
    assert first is not None and (first.index, first.name, first.how) == (1, "multiply", "overwritten")
    assert "operand 0 is not what call 0 of add left there; its memory was allocated anew" in first.detail
    assert judge_kernels(mod, [X, Y], pipeline("StaticPlanBlockMemory", SAME)).holds

    trace = watch(mod)
    other = watch(program(PLAIN.replace("R.subtract(b, a)", "R.subtract(a, b)")))
    trace.machine = other.machine
    from assay.verify.tvm.kernels import judge_calls

    wrong = judge_calls(trace, [X, Y]).first
    assert wrong is None or wrong.how in ("wrong", "overwritten")
    assert wrong is not None and wrong.name == "subtract"


EMPTY = """
    @R.function
    def main(x: R.Tensor((2, "n", 4), "float32")) -> R.Tensor((2, 1, 4), "float32"):
        with R.dataflow():
            y = R.prod(x, axis=[1], keepdims=True)
            R.output(y)
        return y
"""


def test_a_kernel_that_leaves_its_result_unwritten_is_wrong() -> None:
    """The reduction over nothing of a symbolic size, open in TVM as issue 19578."""
    x = np.zeros((2, 0, 4), np.float32)
    report = judge_passes(program(EMPTY), [x])
    assert report.first is not None and (report.first.name, report.first.why) == ("LegalizeOps", "unwritten output")
    first = judge_kernels(program(EMPTY), [x]).first
    assert first is not None and "never written" in first.detail


LOST = """
    @R.function
    def main(x: R.Tensor(("n",), "float32"), y: R.Tensor(("m",), "float32")) -> R.Tensor((), "float32"):
        n = T.int64()
        z = R.match_cast(y, R.Tensor((n,), "float32"))
        w = R.sum(z)
        return w
"""


@pytest.mark.parametrize(("name", "culprit"), [("default", "KillAfterLastUse"), ("cpu", "CanonicalizeTIRVariables")])
def test_the_pass_of_tvm_that_loses_a_check_is_named(name: str, culprit: str) -> None:
    x, y = np.ones(3, np.float32), np.ones(5, np.float32)
    first = judge_passes(program(LOST), [x, y], name).first
    assert first is not None and first.name == culprit and "no longer traps" in first.detail
    assert judge_passes(program(LOST), [x, x], name).holds


def test_a_pass_of_tvm_that_changes_its_input_is_named() -> None:
    found = detect(program(LOST), [np.ones(3, np.float32)] * 2)
    assert "tirx.AnnotateEntryFunc" in {f.stage for f in found if f.detector == "g"}


DEAD = """
    @R.function
    def main(x: R.Tensor((4,), "float32")) -> R.Tensor((4,), "float32"):
        a = R.add(x, x)
        v = R.reshape(a, (2, 2))
        b = R.multiply(x, x)
        c = R.subtract(b, x)
        d = R.multiply(c, b)
        return d
"""


def test_a_view_that_nobody_uses_is_no_overlap() -> None:
    """The planner gives the memory under a dead view away."""
    for name in PIPELINES:
        assert judge_passes(program(DEAD), [X], name).holds


@pytest.mark.parametrize("seed", [0, 1, 2])
def test_random_programs_have_what_they_say(seed: int) -> None:
    mod, arguments = random_program(seed, 60)
    text = mod.script()
    found = [
        w for w in ("match_cast", "if c", "call_tir_inplace", "reshape", "split", "concat", "R.Tuple") if w in text
    ]
    assert len(found) >= 5, text
    how, wrong = alone(seed, "default")
    assert how not in ("found", "died"), wrong


@pytest.mark.parametrize("of", ["uint8", "int8", "int32", "uint32", "int64", "uint64"])
@pytest.mark.parametrize("op", ["add", "sub", "mul"])
def test_wraps_are_seen_exactly(op: str, of: str) -> None:
    """Against Python's own whole numbers, at the ends of the range and around zero."""
    info = np.iinfo(of)
    row = sorted(
        {
            info.min,
            info.min + 1,
            -1 if info.min else 1,
            0,
            1,
            2,
            3,
            info.max // 2,
            info.max // 2 + 1,
            info.max - 1,
            info.max,
        }
    )
    a, b, c = (Buffer(n, (), of_type(of)) for n in "abc")
    func = PrimFunc("f", (a, b, c), 1, loops("", (), lambda: store(c, (), apply(op, a[()], b[()]))))
    watched = trapping(func)
    python = {"add": int.__add__, "sub": int.__sub__, "mul": int.__mul__}[op]
    for x in row:
        for y in row:
            wraps = not info.min <= python(x, y) <= info.max
            given = [np.array(x, of), np.array(y, of)]
            try:
                (got,) = tensor.run(watched, given)
            except Trap as trap:
                assert trap.kind == "wrap" and wraps, (x, y)
                continue
            assert not wraps and int(got) == python(x, y), (x, y)


def of_type(name: str) -> Any:
    return const(0, name).dtype


@pytest.mark.slow
def test_the_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "lost.py"
    file.write_text(
        "from tvm.script import ir as I, relax as R, tirx as T\n\n@I.ir_module\nclass Lost:" + LOST, "utf-8"
    )
    begin("check")  # whose option this is
    even = TvmRequest(file, True, True, dims={"n": 3, "m": 3})
    assert judge_inside(even, ["tvm"], Screen(), False) == 0
    assert "17 stages: 1 begin, 16 same" in capsys.readouterr().out
    odd = TvmRequest(file, True, False, dims={"n": 3, "m": 4})
    assert judge_inside(odd, ["tvm"], Screen(), True) == 1
    data = json.loads(capsys.readouterr().out)
    assert data["judged"][0]["first"] == "KillAfterLastUse" and not data["holds"]
    with pytest.raises(Invalid, match="--backend tvm"):
        judge_inside(odd, [], Screen(), False)
    model = tmp_path / "m.onnx"
    onnx.save(small_cnn(), model)
    assert judge_inside(TvmRequest(model, False, True), ["tvm"], Screen(), False) == 0
    assert "22 calls of kernels: 22 right" in capsys.readouterr().out


@pytest.mark.slow
def test_the_campaign_tells_the_frontend_from_the_passes() -> None:
    """Dropout's mask is of floats in TVM's import; the node is right otherwise."""
    campaign = TvmCampaign().run(node_cases("test_dropout_default"), 30, ["cpu"])
    assert {(f.case, f.stage) for f in campaign.found} >= {("test_dropout_default_mask", "the frontend")}
    assert campaign.counts["right"] >= 1


@pytest.mark.campaign
@pytest.mark.parametrize("seed", range(40))
def test_random_programs_keep_their_meaning(seed: int) -> None:
    mod, arguments = random_program(seed)
    assert isinstance(mod["main"], relax.Function)
    for name in (*PIPELINES, IN_PLACE):
        how, found = alone(seed, name)
        known = name == IN_PLACE and any(f.endswith(("[tvm.P4]", "[tvm.P8]")) for f in found)  # findings 17 to 19, 21
        assert how not in ("found", "died") or known, found


BRANCHES = """
    @R.function
    def main(c: R.Tensor((), "bool"), x: R.Tensor((4,), "float32")) -> R.Tensor((4,), "float32"):
        if c:
            b = R.multiply(x, x)
            r = R.add(b, x)
        else:
            b = R.subtract(x, x)
            r = R.multiply(b, x)
        return r
"""


def test_a_storage_of_one_branch_used_in_the_other_is_seen_without_a_run() -> None:
    """The machine would die."""
    mod, arguments = program(BRANCHES), [np.array(False), X]
    report = judge_passes(mod, arguments)
    assert report.first is not None and (report.first.name, report.first.why) == ("StaticPlanBlockMemory", "tvm.C10")
    assert "it is not run" in report.verdicts[-1].detail
    with pytest.raises(Invalid, match="not run"):
        judge_kernels(mod, arguments)


FLOATS = """
    @R.function
    def main(x: R.Tensor((3, 4), "float32")) -> R.Tensor((3, 4), "float32"):
        y = R.nn.softmax(x)
        return y
"""


def test_intervals_of_a_tensor_function_hold_what_is_right_and_not_what_is_wrong() -> None:
    x = np.random.default_rng(0).standard_normal((3, 4)).astype(np.float32)
    with tvm_target():
        module = from_tvm(relax.transform.LegalizeOps()(program(FLOATS)))
    allowed, why = module_bounds(module, [x])
    assert allowed is not None and not why
    wide = np.exp(x.astype(np.float64))
    right = (wide / wide.sum(1, keepdims=True)).astype(np.float32)
    assert beyond(allowed, [right]) is None
    for wrong in (right * np.float32(1 + 1e-5), right[::-1], np.full_like(right, np.nan)):
        assert beyond(allowed, [wrong]) is not None


def test_without_bounds_nothing_is_claimed() -> None:
    """The bits of a rounded number are not bounded: another rounding is undecided, another shape is not."""
    a, b, c = (Buffer(n, (2,), of_type(t)) for n, t in (("a", "float32"), ("b", "float32"), ("c", "int32")))
    func = PrimFunc("f", (a, b, c), 1, loops("i", (2,), lambda i: store(c, (i,), apply("bits_of", a[i] + b[i]))))
    allowed, why = known_bounds(func, [X[:2], Y[:2]])
    assert allowed is None and "bits_of" in why
    exact, _ = known_bounds(
        replace(func, body=loops("i", (2,), lambda i: store(c, (i,), apply("bits_of", a[i])))), [X[:2], Y[:2]]
    )
    assert exact is not None and exact[0].tolist() == X[:2].view(np.int32).tolist()
