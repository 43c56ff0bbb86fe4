"""`assay conform`: planted backends, and what the scoreboard, JUnit, the badge and the exit code say of them."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import numpy as np
import onnx
import pytest

from assay.semantics.errors import Invalid, Unsupported
from assay.verify.app import answers
from assay.verify.app.terminal import Screen
from assay.verify.backends import BACKENDS, Backend, Isolated, Prepared, Subject, backend as backend_of
from assay.verify.conform import command
from assay.verify.conform.cases import NOT_JUDGED, CaseResult
from assay.verify.conform.command import ConformRequest, conform
from assay.verify.conform.judging import DISPUTED, FAULT, FORM, FORM_WRONG, judge_case
from assay.verify.conform.onnx_cases import RANDOM, OnnxCase, onnx_cases
from assay.verify.conform.program_cases import OURS, TextCase, text_cases
from assay.verify.conform.reader import parse_program
from assay.verify.conform.scoreboard import Scoreboard
from assay.verify.conform.worker import GONE, CaseReport, CaseTask, results_of
from assay.verify.exits import Exit
from assay.verify.fuzz.targets import Result
from assay.verify.fuzz.worker import ExampleReport, Failure, Task
from tests.inputs import read_npz
from tests.places import ROOT
from tests.verify.app.test_cli import assay
from tests.verify.conform import planted
from tests.verify.conform.planted import Planted, model_of

X = np.array([[1.0, -2.0, 3.0], [-4.0, 5.0, -6.0]], np.float32)
PLACE = "tests.verify.conform.planted"


def case(operator: str, inputs: Iterable[Any], outputs: Iterable[Any], **attrs: Any) -> OnnxCase:
    model = model_of(operator, **attrs).SerializeToString()
    return OnnxCase(f"node/test_{operator.lower()}", operator, model, ((tuple(inputs), tuple(outputs)),))


RELU = case("Relu", [X], [np.maximum(X, 0)])
CONCAT = case("Concat", [X, -X], [np.concatenate([X, -X], 1)], axis=1)
CASES = [CONCAT, RELU]


@dataclass
class Here:
    """Does tasks in this process, for a backend that is given; after some of them the user interrupts."""

    backend: Backend = planted.right
    most: int = 1000
    done: list[str] = field(default_factory=list)

    def run(self, tasks: Iterable[Task]) -> Iterator[ExampleReport]:
        for task in tasks:
            if len(self.done) == self.most:
                raise KeyboardInterrupt
            assert isinstance(task, CaseTask) and task.case is not None
            self.done.append(task.case.name)
            yield CaseReport(task.numbers, results=judge_case(task.case, {n: self.backend for n in task.backends}))

    def close(self) -> None: ...


@pytest.fixture(autouse=True)
def few(monkeypatch: pytest.MonkeyPatch) -> None:
    """ONNX's cases are two, which are made here; the tests below call the command without the command line."""
    answers.begin("conform")
    monkeypatch.setattr(command, "onnx_cases", lambda pattern: [c for c in CASES if pattern in c.name])


def request(**options: Any) -> ConformRequest:
    return ConformRequest(**{"backends": ["reference"], "suite": "onnx", **options})


def answer(capsys: pytest.CaptureFixture[str], workers: Any, **options: Any) -> tuple[Exit, dict[str, Any]]:
    code = conform(request(**options), Screen(), True, workers)
    return code, json.loads(capsys.readouterr().out)


# --- verdicts ---------------------------------------------------------------------------------------------------------


def test_a_right_backend(capsys: pytest.CaptureFixture[str]) -> None:
    code, found = answer(capsys, Here())
    assert (code, found["holds"], found["exit"]) == (0, True, 0)
    (board,) = found["backends"]
    assert board["counts"] == {"right": 2}
    assert board["operators"] == {"Concat": {"right": 1}, "Relu": {"right": 1}}
    assert board["line"].endswith("of 2 cases 2 right")
    assert found["stored"] == {}


@pytest.mark.parametrize(
    ("backend", "operator", "element", "got"),
    [(planted.off_by_an_axis, "Concat", (1, 5), -3.0), (planted.gives_nan, "Relu", (0, 0), None)],
)
def test_a_wrong_backend_is_named_with_its_worst_element(
    capsys: pytest.CaptureFixture[str], backend: Planted, operator: str, element: tuple[int, ...], got: float | None
) -> None:
    code, found = answer(capsys, Here(backend))
    assert (code, found["holds"]) == (1, False)
    (board,) = found["backends"]
    assert board["counts"] == {"right": 1, "wrong": 1}
    assert board["operators"][operator] == {"wrong": 1}
    (result,) = [r for r in board["results"] if r["verdict"] == "wrong"]
    assert result["case"] == f"node/test_{operator.lower()}"
    assert len(result["worst"]["index"]) == 2
    if got is None:
        assert result["worst"]["got"] == "nan"
        assert tuple(result["worst"]["index"]) == element
    assert "Relu" in result["culprit"] or "Concat" in result["culprit"]


def test_a_backend_that_refuses(capsys: pytest.CaptureFixture[str]) -> None:
    code, found = answer(capsys, Here(planted.refuses))
    assert (code, found["holds"]) == (5, None)
    assert found["backends"][0]["counts"] == {"right": 1, "refused": 1}
    assert "1 refused by the backend" in found["backends"][0]["line"]


# --- what is not judged -----------------------------------------------------------------------------------------------


def only(case: OnnxCase | TextCase, backend: Backend = planted.right) -> CaseResult:
    (found,) = judge_case(case, {"planted": backend})
    return found


def test_what_cannot_be_judged_is_not_blamed() -> None:
    missing = only(OnnxCase("real/test_x", "Conv", missing="x.onnx is not in the onnx package"), planted.gives_nan)
    assert (missing.verdict, missing.reason) == (NOT_JUDGED, "the model's file is missing")
    random = replace(RELU, model=model_of("RandomNormalLike").SerializeToString())
    found = only(random, planted.gives_nan)
    assert (found.verdict, found.reason) == (NOT_JUDGED, RANDOM)
    unknown = model_of("Relu")
    unknown.graph.node[0].op_type = "NoSuchThing"
    found = only(replace(RELU, model=unknown.SerializeToString()))
    assert found.verdict == NOT_JUDGED and found.reason.startswith("our import")


def test_a_fault_of_ours_is_not_blamed(monkeypatch: pytest.MonkeyPatch) -> None:
    from assay.verify.conform import judging

    monkeypatch.setattr(judging, "oracle_of", lambda subject: 1 // 0)
    found = only(RELU)
    assert (found.verdict, found.reason) == (NOT_JUDGED, FAULT)
    assert "ZeroDivisionError" in found.detail
    assert Scoreboard("planted", "", [found]).exit is Exit.FAULT


def test_stored_results_that_the_definition_refutes_are_counted_apart() -> None:
    odd = replace(RELU, sets=(((X,), (X,)),))
    found = only(odd)
    assert found.verdict == "right"
    assert found.stored.startswith("wrong") and "y element (1, 2) is -6.0" in found.stored
    disputed = only(odd, Planted("Relu", lambda a: X))
    assert (disputed.verdict, disputed.reason) == (NOT_JUDGED, DISPUTED)
    assert only(RELU).stored == ""


@dataclass(frozen=True)
class RefusesDefaults:
    """ONNX's reference, which refuses models in which an input has a default, or is wrong on them."""

    name: str = "planted"
    wrong: bool = False

    def prepare(self, subject: Subject, wanted: Sequence[str]) -> Prepared:
        if {i.name for i in subject.model.graph.input} & {t.name for t in subject.model.graph.initializer}:
            if self.wrong:
                return Planted("CumSum", lambda a: a + 1).prepare(subject, wanted)
            raise Unsupported("the backend planted cannot run this model: a default", label="backend.C2")
        return planted.right.prepare(subject, wanted)


def test_a_form_of_ours_that_is_refused_is_not_blamed() -> None:
    model = model_of("CumSum")
    model.graph.node[0].input.append("axis")
    model.graph.input.append(onnx.helper.make_tensor_value_info("axis", onnx.TensorProto.INT64, ()))
    sums = replace(RELU, model=model.SerializeToString(), sets=(((X, np.array(1)), (np.cumsum(X, 1),)),))
    found = only(sums, RefusesDefaults())
    assert (found.verdict, found.reason) == (NOT_JUDGED, FORM)
    assert only(sums).verdict == "right"
    assert only(sums, Planted("CumSum", lambda a: a + 1)).verdict == "wrong"
    found = only(sums, RefusesDefaults(wrong=True))
    assert (found.verdict, found.reason) == (NOT_JUDGED, FORM_WRONG)
    assert only(sums, Planted("CumSum", planted._refuse)).verdict == "refused"
    assert only(RELU, RefusesDefaults()).verdict == "right"


def test_a_lost_worker() -> None:
    lost = ExampleReport((0,), failures=[Failure(0, Result("died", "", "", "the worker's process was ended"), ())])
    (found,) = results_of(lost, RELU, ["planted"])
    assert (found.verdict, found.reason, found.detail) == (NOT_JUDGED, GONE, "the worker's process was ended")


def test_several_runs_of_a_case() -> None:
    two = replace(RELU, sets=(*RELU.sets, (((-X),), (np.maximum(-X, 0),))))

    def second(a: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
        return a if a[0, 0] == 1 else -a

    assert only(two).verdict == "right"
    assert only(two, Planted("Relu", second)).verdict == "wrong"


def test_what_a_person_reads(capsys: pytest.CaptureFixture[str]) -> None:
    odd = replace(CONCAT, name="node/test_odd", sets=((CONCAT.sets[0][0], (X,)),))
    missing = OnnxCase("real/test_x", "Conv", missing="not there")
    CASES.extend([odd, missing])
    try:
        assert conform(request(), Screen(width=120), False, Here(planted.gives_nan)) is Exit.WRONG
    finally:
        del CASES[2:]
    said = capsys.readouterr().out
    assert "wrong  reference  node/test_relu: y element (0, 0) is nan, allowed is 1.0" in said
    assert "the stored results of 1 case are none that our definition allows: no backend is blamed for these" in said
    lines = said.splitlines()
    assert lines[-1].endswith(
        "of 4 cases 2 right, 1 wrong, 1 could not be judged by us (1: the model's file is missing)"
    )
    assert [line.split() for line in lines if line.startswith("all")] == [["all", "2", "1", "1"]]


# --- going on ---------------------------------------------------------------------------------------------------------


def test_an_interrupted_run_goes_on(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, found = answer(capsys, Here(planted.gives_nan, most=1), resume=tmp_path)
    assert (code, found["interrupted"], found["wanted"]) == (130, True, 2)
    assert found["backends"][0]["counts"] == {"right": 1}
    with (tmp_path / "conform.jsonl").open("a") as file:
        file.write('{"case": "node/test_re')  # a line that was cut off
    second = Here(planted.gives_nan)
    code, found = answer(capsys, second, resume=tmp_path)
    assert second.done == ["node/test_relu"]
    assert (code, found["backends"][0]["counts"]) == (1, {"right": 1, "wrong": 1})
    third = Here()
    code, found = answer(capsys, third, resume=tmp_path)
    assert third.done == []
    assert (code, found["backends"][0]["counts"]) == (1, {"right": 1, "wrong": 1})
    assert found["backends"][0]["results"][1]["worst"]["got"] == "nan"


def test_a_directory_of_other_versions(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    conform(request(resume=tmp_path), Screen(), True, Here())
    monkeypatch.setattr(command, "version_of", lambda name: "0.1")
    with pytest.raises(Invalid, match=r"holds results of .*, and these are .*reference 0.1: give another") as wrong:
        conform(request(resume=tmp_path), Screen(), True, Here())
    assert wrong.value.label == "conform.C2"


@pytest.mark.parametrize("text", ["", "{}\n", "[]\n", '{"format": "assay-conform-1", "versions": 1}\n'])
def test_a_directory_of_something_else(tmp_path: Path, text: str) -> None:
    (tmp_path / "conform.jsonl").write_text(text)
    with pytest.raises(Invalid) as wrong:
        conform(request(resume=tmp_path), Screen(), True, Here())
    assert wrong.value.label == "conform.C2"


@pytest.mark.parametrize("change", [("verdict", "good"), ("seconds", "1"), ("colour", "red"), ("case", 1)])
def test_results_that_are_none(tmp_path: Path, change: tuple[str, Any]) -> None:
    conform(request(resume=tmp_path), Screen(), True, Here())
    head, first, *_ = (tmp_path / "conform.jsonl").read_text().splitlines()
    row = json.dumps({**json.loads(first), change[0]: change[1]})
    (tmp_path / "conform.jsonl").write_text(f"{head}\n{row}\n")
    with pytest.raises(Invalid, match="not a file of assay conform") as wrong:
        conform(request(resume=tmp_path), Screen(), True, Here())
    assert wrong.value.label == "conform.C2"


# --- options ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "label", "said"),
    [
        ({"suite": "nnx"}, "cli.C3", "no suite 'nnx'; there are onnx, assay and all"),
        ({"programs": [Path("x.py")]}, "cli.C3", "give one of the two"),
        ({"backends": []}, "cli.C3", "who is judged?"),
        ({"backends": ["reference", "numpy"], "badge": Path("b")}, "cli.C3", "--badge is of one backend"),
        ({"jobs": 0}, "cli.C3", "--jobs is 0"),
        ({"only": "("}, "cli.C3", "is no regular expression"),
        ({"only": "nothing_has_this"}, "conform.C1", "there is no case whose name has nothing_has_this"),
        ({"junit": Path("no/such/place.xml")}, "output.C1", "cannot write: No such file"),
        ({"badge": Path()}, "output.C1", "cannot write: "),
        ({"backends": ["nobody"]}, "backend.C3", "no backend 'nobody'"),
    ],
)
def test_options_that_do_not_go(options: dict[str, Any], label: str, said: str) -> None:
    here = Here()
    with pytest.raises(Invalid, match=said) as wrong:
        conform(request(**options), Screen(), True, here)
    assert wrong.value.label == label
    assert here.done == []


# --- programs of ours -------------------------------------------------------------------------------------------------


@cache
def our_programs() -> tuple[list[TextCase], dict[str, list[str]]]:
    """All of them, each run once: it takes seconds."""
    return text_cases([OURS])


def test_our_definition_meets_what_our_programs_expect() -> None:
    cases, faults = our_programs()
    assert {n: said for n, said in faults.items() if said} == {}
    assert len(faults) > len(cases) >= 250  # beside cases there are claims
    for one in cases:
        assert parse_program(one.text).case(one.case).source, f"{one.name} does not say where its expectation is from"


def test_numpy_is_right_on_our_programs() -> None:
    cases, _ = our_programs()
    found = [judge_case(c, {"numpy": backend_of("numpy")})[0] for c in cases]
    odd = {(r.case, r.verdict) for r in found if r.verdict not in ("right", "open", NOT_JUDGED)}
    overflows = {
        "cast_to_bfloat16/beyond_the_largest",
        "cast_to_float16/beyond_the_largest",
        "cast_to_float8/beyond_the_largest",
        "cast_to_float4/nan_and_too_large",
        "numbers/no_nan_no_infinity",
    }
    decides = {"bounds/not_decided", "observation/bounds_do_not_decide"}  # a branch that no bound decides (M9.4)
    assert odd == {(name, "undecided") for name in overflows | decides}  # what overflows, no bound excludes
    reasons = {r.reason for r in found if r.verdict == NOT_JUDGED}
    assert reasons <= {
        "a backend takes graph functions",
        "a backend takes a graph and its inputs alone",
        "ONNX has no word for the program",
    }
    traps = [r for r in found if r.detail.startswith("fails as it must")]
    assert len(traps) >= 10
    assert sum(r.verdict == "right" for r in found) >= 50


def test_a_program_whose_expectation_is_wrong(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text = (OURS / "tensors" / "permute.py").read_text().replace("[2, 6, 10]", "[2, 6, 11]")
    (tmp_path / "permute.py").write_text(text)
    options = {"programs": [tmp_path], "suite": "", "junit": tmp_path / "j.xml"}
    code, found = answer(capsys, Here(), backends=[], **options)
    assert (code, found["holds"]) == (1, False)
    ((name, (said,)),) = found["definition"]["refuted"].items()
    assert name == "permute/distinct_sizes"
    assert said.endswith("output_0 element (2, 0, 2): expected is 11, the definition gives 10")
    root = ElementTree.parse(tmp_path / "j.xml").getroot()
    assert [(s.get("name"), s.get("failures")) for s in root] == [("assay.definition", "1")]
    assert conform(request(backends=[], **options), Screen(width=120), False, Here()) is Exit.WRONG
    assert "it refutes 1, which is no backend's fault" in capsys.readouterr().out


def test_a_directory_without_programs(tmp_path: Path) -> None:
    with pytest.raises(Invalid, match="there is no program") as wrong:
        conform(request(programs=[tmp_path], suite=""), Screen(), True, Here())
    assert wrong.value.label == "conform.C1"


def test_a_program_without_cases(tmp_path: Path) -> None:
    text = (OURS / "tensors" / "permute.py").read_text().partition("A.case(")[0]
    (tmp_path / "m.py").write_text(text)
    with pytest.raises(Invalid, match="the program has no case") as wrong:
        conform(request(programs=[tmp_path / "m.py"], suite=""), Screen(), True, Here())
    assert wrong.value.label == "case.C6"


# --- ONNX's own -------------------------------------------------------------------------------------------------------


def test_all_of_onnx_cases_are_there() -> None:
    cases = onnx_cases()
    kinds = Counter(c.name.partition("/")[0] for c in cases)
    assert [*kinds] == ["node", "simple", "pytorch-operator", "pytorch-converted", "real"]
    assert len({c.name for c in cases}) == len(cases) > 2_000
    by_name = {c.name: c for c in cases}
    assert by_name["node/test_add"].operator == "Add"
    assert by_name["node/test_affine_grid_2d_expanded"].operator == "AffineGrid"
    wanted = (
        "node/test_cumsum_1d",  # an axis that is an input
        "node/test_sequence_insert_at_back",
        "node/test_optional_has_element_empty_optional_input",
        "node/test_string_concat",
        "node/test_top_k",
        "simple/test_sequence_model1",
    )
    for name in wanted:
        (found,) = judge_case(by_name[name], {"numpy": backend_of("numpy")})
        assert (found.verdict, found.stored) == ("right", ""), (name, found)


# --- the command ------------------------------------------------------------------------------------------------------


NAN = """
@R.function
def main(x: R.Tensor((2,), dtype="float32")) -> R.Tensor((2,), dtype="float32"):
    return R.nn.relu(x)


A.case("signs", inputs={"x": [1.0, -1.0]}, expect={"output_0": [1.0, 0.0]})
A.case("other", inputs={"x": [2.0, 3.0]}, expect={"output_0": [2.0, 3.5]})
"""


def test_the_command(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.chdir(ROOT)
    file = tmp_path / "relu.py"
    file.write_text(NAN)
    words = ["conform", file, "--backend", f"{PLACE}:gives_nan", "--jobs", "1", "--json", "--only", "signs"]
    assert assay(monkeypatch, *words, "--resume", tmp_path / "kept") == 1
    found = json.loads(capsys.readouterr().out)
    (board,) = found["backends"]
    (result,) = board["results"]
    assert (board["counts"], found["definition"]) == ({"wrong": 1}, {"cases": 1, "refuted": {}})
    assert (result["case"], result["operator"], result["culprit"].split(",")[0]) == ("relu/signs", "nn.relu", "Relu")
    assert len((tmp_path / "kept" / "conform.jsonl").read_text().splitlines()) == 2
    assert assay(monkeypatch, "conform", file) == 1
    said = capsys.readouterr().out
    assert f"refuted  relu/other: {file}:8:1: output_0 element (1,): expected is 3.5, the definition gives 3.0" in said


def test_a_backend_that_dies_or_is_late(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)
    with Isolated(f"{PLACE}:dies") as backend:
        assert only(RELU, backend).verdict == "died"
        assert only(CONCAT, backend).verdict == "right"
    with Isolated(f"{PLACE}:sleeps", 0.05) as backend:
        assert only(RELU, backend).verdict == "late"


def test_run_of_one_case(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "relu.py"
    file.write_text(NAN)
    assert assay(monkeypatch, "run", file, "--case", "signs", "--output", tmp_path / "o.npz") == 0
    said = capsys.readouterr().out
    assert "output_0: Tensor((2,), float32)" in said and said.endswith("case signs: as expected\n")
    assert read_npz(tmp_path / "o.npz")["output_0"].tolist() == [1.0, 0.0]
    assert assay(monkeypatch, "run", file, "--case", "other") == 1
    assert capsys.readouterr().out.endswith("the definition gives 3.0\ncase other: not as expected\n")
    assert assay(monkeypatch, "run", file, "--case", "third") == 2
    assert "there is no case 'third'; there are signs, other [case.C6]" in capsys.readouterr().err
    assert assay(monkeypatch, "run", file, "--case", "signs", "--seed", "1", "--dim", "n=2") == 2
    assert "--case runs a case of FILE.py" in capsys.readouterr().err
    trap = OURS / "numbers" / "floor_divide.py"
    assert assay(monkeypatch, "run", trap, "--case", "by_zero") == 0
    assert "trap (division by zero)" in capsys.readouterr().out


def test_a_backend_that_is_not_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(BACKENDS["onnxruntime"].__class__, "prepare", _not_installed)
    monkeypatch.setattr(command, "Isolated", _InThisProcess)
    with pytest.raises(Invalid) as wrong:
        conform(request(backends=["onnxruntime"]), Screen(), True)
    assert wrong.value.label == "backend.C1"


def _not_installed(self: Any, subject: Any, wanted: Any) -> Any:
    raise Invalid("the backend onnxruntime is not installed", label="backend.C1")


class _InThisProcess:
    def __init__(self, name: str, seconds: float) -> None:
        self.backend = BACKENDS[name]

    def require(self) -> None: ...

    require_installed = Isolated.require_installed

    def prepare(self, subject: Any, wanted: Any) -> Any:
        return self.backend.prepare(subject, wanted)

    def __enter__(self) -> _InThisProcess:
        return self

    def __exit__(self, *wrong: object) -> None: ...
