"""`assay.judge`: verdicts on backends that are right, and on planted faults (specs/verify.md, "judge")."""

from __future__ import annotations

import gc
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import onnx
import onnx.parser
import pytest

import assay
from assay.semantics.errors import Unsupported
from assay.verify.api.judge import judge
from assay.verify.backends import Isolated, Subject, backend, subject_of_model
from assay.verify.backends.protocol import Prepared, cannot
from assay.verify.judge.by_pieces import JudgedInPieces
from assay.verify.judge.candidate import Candidate
from assay.verify.judge.outcome import BackendVerdict, SampleVerdict
from assay.verify.judge.run import JudgeRun
from assay.verify.judge.samples import Sample
from assay.verify.oracle import follows
from tests.zoo import models


@dataclass(frozen=True)
class Fused:
    """The NumPy backend, which shows outputs only and, where it is given both nodes, computes Add and the node after it
    as one, wrongly: by a factor."""

    factor: float = 1.001
    first: str = "Add"
    second: str = "Div"
    name: str = "fused"

    def prepare(self, subject: Subject, wanted: Sequence[str]) -> Prepared:
        if set(wanted) - set(subject.outputs):
            raise cannot(self.name, "only outputs are shown")
        model = onnx.ModelProto()
        model.CopyFrom(subject.model)
        makers = {n.output[0]: n for n in model.graph.node}
        shown = {o.name for o in model.graph.output}
        for i, node in enumerate(model.graph.node):
            before = makers.get(node.input[0]) if node.input else None
            if node.op_type == self.second and before is not None and before.op_type == self.first:
                if before.output[0] not in shown:
                    made = f"{node.input[0]}_scaled"
                    factor = onnx.helper.make_tensor(f"{made}_by", 1, [], [self.factor])
                    model.graph.initializer.append(factor)
                    scaled = onnx.helper.make_node("Mul", [node.input[0], factor.name], [made])
                    node.input[0] = made
                    model.graph.node.insert(i, scaled)
                    break
        return backend("onnxruntime:none").prepare(subject_of_model(model), wanted)


@dataclass
class Stale:
    """The NumPy backend, which gives the outputs of its first run again."""

    name: str = "stale"
    shows: bool = True

    def prepare(self, subject: Subject, wanted: Sequence[str]) -> Prepared:
        if not self.shows and set(wanted) - set(subject.outputs):
            raise cannot(self.name, "it has outputs only")
        run = backend("numpy").prepare(subject, wanted)
        kept: dict[str, Any] = {}
        if not self.shows and len(subject.model.graph.node) < 100:
            return run  # pieces are right

        def act(inputs: Mapping[str, Any]) -> dict[str, Any]:
            kept.update({} if kept else run(inputs))
            return dict(kept)

        return act


@dataclass(frozen=True)
class OwnNaN:
    """The NumPy backend, whose NaN have their sign bit set."""

    name: str = "own_nan"

    def prepare(self, subject: Subject, wanted: Sequence[str]) -> Prepared:
        run = backend("numpy").prepare(subject, wanted)
        negative = np.array([0xFFC00000], np.uint32).view(np.float32)
        return lambda inputs: {n: np.where(np.isnan(v), negative, v) for n, v in run(inputs).items()}


@pytest.mark.parametrize(
    "name", ["mobilenetv2", *(pytest.param(n, marks=pytest.mark.campaign) for n in ("bert", "gpt2"))]
)
def test_a_right_backend_is_right_on_a_deep_model(name: str) -> None:
    found = judge(models.model(name), ["onnxruntime"], kinds=["random"])
    assert found.holds and found.verdicts[0].outcome == "right"


def test_a_fault_that_exists_only_after_fusion_is_named_to_its_nodes() -> None:
    found = judge(models.model("vit"), [Fused()], kinds=["random"])
    verdict = found.verdicts[0]
    assert verdict.outcome == "wrong"
    named = [n.split()[0] for n in verdict.samples[0].pieces[0].nodes]
    # the sum is read twice: in a smaller piece it is shown, and nothing is fused
    assert {"Add", "Div", "Mul"} <= set(named) and len(named) <= 8


def test_state_that_stays_from_run_to_run_is_wrong() -> None:
    found = judge(models.model("mixer"), [Stale()], kinds=["random", "integers"])
    assert [s.outcome for s in found.verdicts[0].samples] == ["right", "wrong"]


def test_state_that_stays_in_outputs_alone_is_implausible(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where no bound says anything of it."""
    monkeypatch.setattr(JudgeRun, "_followed", lambda self, each, k, first: first)
    found = judge(models.model("mixer"), [Stale(shows=False)], kinds=["random", "integers"])
    assert found.verdicts[0].outcome == "implausible"
    assert found.verdicts[0].samples[0].outcome == "right"
    assert "the bits that it gave on the inputs 'random'" in found.verdicts[0].closing()


def test_nan_again_is_nothing_odd() -> None:
    """Softmax of two sets of specials gives NaN alone, whose bits are each implementation's own."""
    proto = onnx.parser.parse_model(
        '<ir_version: 8, opset_import: ["": 17]> g (float[5] x) => (float[5] y) { y = Softmax(x) }'
    )
    found = judge(proto, [OwnNaN()], kinds=["specials"], seed=1)
    nans = [s for s in found.verdicts[0].samples if s.outcome == "right"]
    assert found.verdicts[0].outcome == "right" and len(nans) > 1, found.verdicts[0].closing()


def test_errors_are_followed_until_one_set_is_wrong() -> None:
    subject = subject_of_model(row_norm(1e-5))
    inputs = {"x": np.random.default_rng(0).standard_normal((4, 512), np.float32)}
    run = JudgeRun(subject, [Sample("given", 0, inputs)], [])
    each, first = Candidate(backend("numpy"), subject), SampleVerdict("given", "undecided", "", "")
    each.outputs.append(assay.run(subject.model, run.samples[0].inputs))
    each.verdict.samples.append(replace(first, outcome="wrong"))
    assert run._followed(each, 0, first) is first and not run.followed
    each.verdict.samples.clear()
    assert run._followed(each, 0, first).outcome == "right" and run.followed


@pytest.mark.parametrize("ends", ["verdict", "interrupted", "check"])
def test_the_process_of_a_backend_ends_with_the_command(ends: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """And its pipes are closed: else it is for the garbage collector, which closes them in any order."""
    monkeypatch.delattr(Isolated, "__del__")
    started: list[Isolated] = []
    begin = Isolated.begin

    def kept(who: Isolated) -> None:
        if not who._process.is_running:
            started.append(who)
        begin(who)

    monkeypatch.setattr(Isolated, "begin", kept)

    def stop(verdict: BackendVerdict) -> None:
        raise KeyboardInterrupt

    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always", ResourceWarning)
        if ends == "check":
            assert assay.check(row_norm(1e-5), backends="numpy", stop_after="import").verdicts == {"numpy": "right"}
        elif ends == "interrupted":
            with pytest.raises(KeyboardInterrupt):
                judge(row_norm(1e-5), "numpy", kinds=["random"], on_verdict=stop)
        else:
            assert judge(row_norm(1e-5), "numpy", kinds=["random"]).holds
        (who,) = started
        assert who._process._process is None and who._process._errors is None
        del who, started[:]
        gc.collect()
    assert not said, [str(w.message) for w in said]


def row_norm(epsilon: float) -> onnx.ModelProto:
    """A layer norm of single operators, of which the bounds of the whole say something."""
    x, y = (onnx.helper.make_tensor_value_info(n, 1, [4, 512]) for n in "xy")
    stored = [onnx.numpy_helper.from_array(np.array(v), n) for n, v in (("e", np.float32(epsilon)), ("last", [1]))]
    steps = (("ReduceMean", "x last", "mean"), ("Sub", "x mean", "d"), ("Mul", "d d", "dd"),
             ("ReduceMean", "dd last", "var"), ("Add", "var e", "v"), ("Sqrt", "v", "s"),
             ("Div", "d s", "y"))  # fmt: skip
    nodes = [onnx.helper.make_node(op, reads.split(), [made]) for op, reads, made in steps]
    graph = onnx.helper.make_graph(nodes, "norm", [x], [y], stored)
    return onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 18)])


@dataclass
class OtherEpsilon:
    """The NumPy backend, which takes another epsilon, and shows outputs only."""

    name: str = "epsilon"
    epsilon: float = 1e-6

    def prepare(self, subject: Subject, wanted: Sequence[str]) -> Prepared:
        if set(wanted) - set(subject.outputs):
            raise cannot(self.name, "it has outputs only")
        return backend("numpy").prepare(subject_of_model(row_norm(self.epsilon)), wanted)


def test_what_bounds_of_the_whole_allow_is_looked_at_beside_correct_runs() -> None:
    """The error of another epsilon is far within the bound of a cancelling variance."""
    x = {"x": (np.random.default_rng(0).standard_normal((4, 512)) / 2).astype(np.float32)}
    found = judge(row_norm(1e-5), [OtherEpsilon(), OtherEpsilon("kept", 1e-5)], x)
    assert [v.samples[0].outcome for v in found.verdicts] == ["implausible", "right"]
    sound = judge(row_norm(1e-5), [OtherEpsilon()], x, sound_only=True)
    assert sound.verdicts[0].samples[0].outcome == "right"


@dataclass
class Contracts:
    """x * w + b with one rounding, which shows the product rounded too; with `off` the sum is that of another product
    where the product is shown, and in a piece of both."""

    off: float = 0.0
    name: str = "contracts"

    def prepare(self, subject: Subject, wanted: Sequence[str]) -> Prepared:
        def act(inputs: Mapping[str, Any]) -> dict[str, Any]:
            known = {n: a.astype(np.float64) for n, a in inputs.items()}
            for node in subject.model.graph.node:
                a, b = (known[n] for n in node.input)
                known[node.output[0]] = a * b if node.op_type == "Mul" else a + b + self.off
            with np.errstate(over="ignore"):
                return {n: known[n].astype(np.float32) for n in wanted}

        return act


def test_tensors_that_are_shown_need_not_be_those_that_were_used() -> None:
    infos = [onnx.helper.make_tensor_value_info(n, 1, [8, 8]) for n in "xwby"]
    nodes = [onnx.helper.make_node("Mul", ["x", "w"], ["m"]), onnx.helper.make_node("Add", ["m", "b"], ["y"])]
    made = onnx.helper.make_model(
        onnx.helper.make_graph(nodes, "g", infos[:3], infos[3:]), opset_imports=[onnx.helper.make_opsetid("", 17)]
    )
    right, wrong = judge(made, [Contracts(), Contracts(1e-6, "off")], kinds=["random"]).verdicts
    assert right.outcome == "right" and {s.rests for s in right.samples} == {"pieces"}
    assert "Add, tensor y does not follow from the tensors that it shows" in right.samples[0].detail
    assert wrong.outcome == "wrong" and "Add" in wrong.closing()


@dataclass
class ComparesWider:
    """exp(x) > c of the number before it is rounded, which it shows rounded; with `tie` it takes equal for greater."""

    tie: bool = False
    name: str = "wider"

    def prepare(self, subject: Subject, wanted: Sequence[str]) -> Prepared:
        def act(inputs: Mapping[str, Any]) -> dict[str, Any]:
            known = dict(inputs)
            for node in subject.model.graph.node:
                a, *b = (known[n] for n in node.input)
                if node.op_type == "Exp":
                    known[node.output[0]] = np.exp(a.astype(np.float64))
                else:
                    known[node.output[0]] = a.astype(np.float32) >= b[0] if self.tie else a > b[0]
            return {n: a.astype(np.float32) if a.dtype == np.float64 else a for n in wanted for a in [known[n]]}

        return act


def test_a_decision_on_what_is_not_shown_is_undecided() -> None:
    """What is compared is another number than the tensor that is shown, which is equal to c. Planted: a comparison that
    is wrong on that tensor by itself."""
    text = """<ir_version: 8, opset_import: ["" : 17]>
        g (float[1] x, float[1] c) => (bool[1] y) { e = Exp(x) y = Greater(e, c) }"""
    given = {"x": np.ones(1, np.float32), "c": np.exp(np.ones(1)).astype(np.float32)}
    found = judge(
        onnx.parser.parse_model(text), [ComparesWider(), ComparesWider(tie=True, name="tie")], given, kinds="random"
    )
    first, tie = (v.samples[0] for v in found.verdicts)
    assert first.outcome == "undecided" and "is right alone on these" in first.detail
    assert tie.outcome == "wrong" and "Greater" in tie.culprit


def test_rights_that_are_excluded_are_excluded_in_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    met: list[bool] = []

    def seen(run: Any, samples: Any, judged: Sequence[JudgedInPieces], progress: Any) -> None:
        met.extend(j.accepts.wider for j in judged)

    monkeypatch.setattr("assay.verify.judge.run.judge_pieces", seen)
    monkeypatch.setattr(JudgeRun, "_followed", lambda self, each, k, first: first)  # which takes half a minute
    for excluded in ((), ("kept-wider",)):
        judge(models.model("mobilenetv2"), ["onnxruntime"], kinds=["random"], exclude=excluded)
    assert met == [True, False]


def test_sizes_are_chosen_and_named() -> None:
    x = onnx.helper.make_tensor_value_info("x", 1, ["batch", "width"])
    y = onnx.helper.make_tensor_value_info("y", 1, ["batch", "width"])
    graph = onnx.helper.make_graph([onnx.helper.make_node("Neg", ["x"], ["y"])], "g", [x], [y])
    found = judge(onnx.helper.make_model(graph), ["numpy"])
    assert found.chosen == {"batch": 2, "width": 7} and found.holds


def test_a_backend_that_refuses_is_told() -> None:
    class Refuses:
        name = "refuses"

        def prepare(self, subject: Subject, wanted: Sequence[str]) -> Prepared:
            raise cannot(self.name, "no")

    found = judge(models.model("lstm"), [Refuses()], kinds=["random"])
    assert found.verdicts[0].outcome == "refused" and found.holds is None


def test_an_unknown_kind_of_data_is_refused() -> None:
    with pytest.raises(assay.Invalid, match="no kind of data 'odd'"):
        judge(models.model("lstm"), ["numpy"], kinds=["odd"])


def test_outputs_beyond_the_spread_of_correct_runs_are_implausible(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(follows, "BUDGET", 1e6)  # errors that are followed further say nothing of this model either

    @dataclass(frozen=True)
    class Off:
        """Right on every piece, and off on the whole, where it optimises otherwise."""

        name: str = "off"

        def prepare(self, subject: Subject, wanted: Sequence[str]) -> Prepared:
            run = backend("numpy").prepare(subject, wanted)
            whole = len(subject.model.graph.node) > 100
            if set(wanted) - set(subject.outputs):
                raise cannot(self.name, "only outputs are shown")
            return lambda inputs: {n: v * np.float32(1.01) if whole else v for n, v in run(inputs).items()}

    model = models.model("shufflenet")  # of which the bounds exclude nothing
    found = judge(model, [Off()], kinds=["random"])
    assert found.verdicts[0].outcome == "implausible" and "times their spread" in found.verdicts[0].closing()
    assert judge(model, [Off()], kinds=["random"], sound_only=True).verdicts[0].outcome == "right"


def test_inputs_that_are_given_are_run_with_others_in_between() -> None:
    model = models.model("resnet18")
    found = judge(model, [Stale(), "numpy"], inputs=models.inputs(model))
    stale, right = found.verdicts
    assert [s.sample for s in stale.samples] == ["given", "others"] and [s.outcome for s in stale.samples][0] == "right"
    assert stale.outcome == "wrong" and right.outcome == "right"


def test_check_tells_of_a_deep_model_what_judge_does() -> None:
    model = models.model("resnet18")
    inputs = models.inputs(model)
    found = assay.check(model, inputs, backends=[Fused(second="Relu")], stop_after="import")
    assert found.verdicts == {"fused": "wrong"}
    assert ", in Add /layer2.0/Add, Relu /layer2.0/Relu_1, " in found.lines[1].evidence.detail


def test_a_model_that_runs_at_no_size_that_is_tried_asks_for_one() -> None:
    x = onnx.helper.make_tensor_value_info("x", 1, ["n"])
    y = onnx.helper.make_tensor_value_info("y", 1, [6, "m"])
    shape = onnx.numpy_helper.from_array(np.int64([6, 17]), "shape")
    graph = onnx.helper.make_graph([onnx.helper.make_node("Reshape", ["x", "shape"], ["y"])], "g", [x], [y], [shape])
    model = onnx.helper.make_model(graph)
    with pytest.raises(assay.Invalid, match="say them with --dim, for n") as wrong:
        judge(model, ["numpy"])
    assert wrong.value.label == "judge.C1"
    assert judge(model, ["numpy"], dims={"n": 102}).holds


def test_whole_numbers_are_of_every_kind_too() -> None:
    """A backend that gives zero whatever it gets, and one that keeps what it gave first, are right on zeros alone."""
    a, b, y = (onnx.helper.make_tensor_value_info(n, onnx.TensorProto.INT32, [3, 4]) for n in "aby")
    graph = onnx.helper.make_graph([onnx.helper.make_node("Mul", ["a", "b"], ["y"])], "g", [a, b], [y])
    model = onnx.helper.make_model(graph)

    @dataclass
    class Zeros:
        name: str = "zeros"

        def prepare(self, subject: Subject, wanted: Sequence[str]) -> Prepared:
            run = backend("numpy").prepare(subject, wanted)
            return lambda inputs: {n: v * (abs(v) > 1) for n, v in run(inputs).items()}

    found = judge(model, ["numpy", Zeros()])
    right, zeros = found.verdicts
    assert right.outcome in ("right", "open") and zeros.outcome == "wrong"
    held = {s.kind: s.inputs["a"] for s in found.samples}
    assert held["integers"].min() < 0 and np.abs(held["large"].astype(np.int64)).max() > 1 << 24
    assert {-(2**31), 2**31 - 1} & set(held["specials"].reshape(-1).tolist())


def test_specials_and_ties_hold_what_their_name_says() -> None:
    x, y = (onnx.helper.make_tensor_value_info(n, 1, [2, 2]) for n in "xy")
    graph = onnx.helper.make_graph([onnx.helper.make_node("Relu", ["x"], ["y"])], "g", [x], [y])
    found = judge(onnx.helper.make_model(graph), ["numpy"], runs=8).samples
    for sample in found:
        value = sample.inputs["x"]
        if sample.kind == "specials":
            assert not np.isfinite(value).all() or np.signbit(value[value == 0]).any()
    assert any((s.inputs["x"][:, 0] == s.inputs["x"][:, 1]).any() for s in found if s.kind == "ties")


def test_a_backend_that_takes_too_long_is_not_asked_again() -> None:
    @dataclass
    class Late:
        name: str = "late"
        runs: int = 0

        def prepare(self, subject: Subject, wanted: Sequence[str]) -> Prepared:
            def run(inputs: Mapping[str, Any]) -> dict[str, Any]:
                self.runs += 1
                raise Unsupported("took more than 1 second", label="backend.C6")

            return run

    late = Late()
    subject = subject_of_model(models.model("tcn"))
    inputs = models.inputs(subject.model)
    samples = [Sample("random", i, {n: a + np.float32(i) for n, a in inputs.items()}) for i in range(3)]
    found = {v.name: v for v in JudgeRun(subject, samples, [late, backend("numpy")]).verdicts()}
    assert late.runs == 1 and found["late"].outcome == "late" and found["numpy"].outcome == "right"


def test_a_mistake_that_no_size_mends_is_told_itself() -> None:
    x = onnx.helper.make_tensor_value_info("x", 1, ["n"])
    y = onnx.helper.make_tensor_value_info("y", 1, ["n"])
    graph = onnx.helper.make_graph([onnx.helper.make_node("Neg", ["x"], ["y"])], "g", [x], [y])
    for options in ({"inputs": {"z": np.ones(3, np.float32)}}, {"dims": {"m": 3}}):
        with pytest.raises(assay.Invalid) as wrong:
            judge(onnx.helper.make_model(graph), ["numpy"], **options)
        assert wrong.value.label != "judge.C1" and "no sizes were found" not in str(wrong.value)


def test_no_operator_is_blamed_for_an_output_that_is_left_out() -> None:
    """Each piece of one output is left without it too: the first of them was named, with the other's output."""

    class Forgetful:
        name = "forgetful"

        def prepare(self, subject: Subject, wanted: Sequence[str]) -> Prepared:
            if set(wanted) - set(subject.outputs):
                raise cannot(self.name, "only outputs are shown")
            run = backend("numpy").prepare(subject, wanted)
            return lambda inputs: dict([*run(inputs).items()][:-1])

    for outputs, left_out in (("a, float[3] b", "b"), ("b, float[3] a", "a")):
        text = f'<ir_version: 9, opset_import: ["": 20]> g (float[3] x, float[3] z) => (float[3] {outputs})'
        model = onnx.parser.parse_model(f"{text} {{ a = Add(x, z) b = Sub(x, z) }}")
        found = judge(model, [Forgetful()], kinds=["random"]).verdicts[0]
        assert found.outcome == "wrong"
        assert found.closing().endswith(f"of inputs (random, random 2): output {left_out} is missing")
