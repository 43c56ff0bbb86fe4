"""What a backend of another package may raise and declare: refusals, traps, crashes, freedoms, operators; in this
process and over the channel (specs/verify.md, "Backends")."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import parser

import assay
from assay.semantics.errors import Invalid
from assay.verify.app.judging import JudgedOutputs, judge_outputs
from assay.verify.backends import Died, Isolated, Ran, Refused, Trapped, attempt, backend, subject_of_model, talking
from assay.verify.backends.in_process import InProcess
from assay.verify.backends.protocol import Subject
from assay.verify.fuzz.targets import BackendTarget, judged
from assay.verify.oracle import Expected, judge_backend
from assay.verify.oracle.declarations import EVERYTHING_KEPT, Accepts
from tests.verify.backends.strangers import WAYS, Stranger, raising, way

X = np.arange(3, dtype=np.float32)
INSIDE, OUTSIDE = {"x": X, "i": np.array([0, 2])}, {"x": X, "i": np.array([0, 7])}


def gather() -> Subject:
    return subject_of_model(parsed("(float[3] x, int64[2] i) => (float[2] y) { y = Gather(x, i) }"))


def parsed(graph: str, opset: int = 17) -> onnx.ModelProto:
    head = f'<ir_version: 9, opset_import: ["" : {opset}, "com.acme" : 1]>'
    return parser.parse_model(f"{head}\ng {graph}")


def said(who: Any, inputs: dict[str, np.ndarray]) -> tuple[str, str]:
    """The outcome on a line of `assay check`, and what it says."""
    subject = gather()
    judging = JudgedOutputs("who", subject.model, backend=who)
    _, evidence = judge_outputs(judging, Expected(subject.module, inputs), subject.tensors)
    return evidence.outcome, evidence.detail


# name, where the program is fine, where it fails, what is said where it fails
VERDICTS = [
    ("right", "right", "right", "right raised IndexError: index 7 is out of bounds"),
    ("not_implemented", "refused", "refused", "cannot run this model: NotImplementedError: no Gather"),
    ("not_yet", "refused", "refused", "cannot run this model: NotYet: no Gather"),
    ("trap", "wrong", "right", "fails as it must: trap (out of bounds)"),
    ("other_trap", "wrong", "wrong", "fails with trap (cast): a number, must fail with trap (out of bounds)"),
    ("trap_of_no_kind", "wrong", "right", "it says no more than: an index"),
    ("run_failed", "wrong", "right", "it says no more than: RunFailed: an index"),
    ("crash", "died", "right", "crash raised AssertionError: of the compiler (strangers.py:"),
    ("exit", "died", "right", "exit raised SystemExit: enough"),
]


@pytest.mark.parametrize(("name", "fine", "failing", "words"), VERDICTS)
def test_what_a_stranger_raises(name: str, fine: str, failing: str, words: str) -> None:
    for inputs, outcome in ((INSIDE, fine), (OUTSIDE, failing)):
        found, detail = said(InProcess(way(name)), inputs)
        assert found == outcome, detail
        result = judged(BackendTarget(InProcess(way(name))), gather().module, {**inputs})
        assert result.kind == outcome, result
    assert words in detail
    if fine == "died":
        assert "at strangers.py:work" in judged(BackendTarget(InProcess(way(name))), gather().module, INSIDE).where


@pytest.fixture
def there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Isolated]:
    """A process for one of the strangers after another."""
    folder = tmp_path / "strange-1.0.dist-info"
    folder.mkdir()
    (folder / "METADATA").write_text("Metadata-Version: 2.1\nName: strange\nVersion: 1.0\n")
    (tmp_path / "strange_plugin.py").write_text(
        "from tests.verify.backends.strangers import WAYS, way\nfor n in WAYS:\n    globals()[n] = lambda n=n: way(n)\n"
    )
    rows = "".join(f"{n} = strange_plugin:{n}\n" for n in WAYS)
    (folder / "entry_points.txt").write_text(f"[assay.backends]\n{rows}")
    monkeypatch.syspath_prepend(tmp_path)
    with Isolated("right") as process:
        yield process


def test_the_same_over_the_channel(there: Isolated) -> None:
    for name, fine, failing, words in VERDICTS:
        there.name = name
        assert said(there, INSIDE)[0] == fine
        outcome, detail = said(there, OUTSIDE)
        assert outcome == failing and words in detail, detail
    there.name = "hard_exit"
    for inputs in (INSIDE, OUTSIDE):  # no exception: a program that must fail is no excuse
        outcome, detail = said(there, inputs)
        assert outcome == "died" and "died with exit code 7" in detail
    subject = gather()
    for name, expected in {
        "trap": Trapped("out of bounds", "an index"),
        "not_yet": Refused("the backend not_yet cannot run this model: NotYet: no Gather"),
    }.items():
        there.name = name
        assert attempt(there, subject, ["y"], INSIDE) == expected
    there.name = "crash"
    outcome_ = attempt(there, subject, ["y"], INSIDE)
    assert isinstance(outcome_, Died) and re.search(r"compiler \(strangers.py:[0-9]+ in work\)$", outcome_.reason)


def test_who_goes_on_and_cannot_be_heard_is_ended(there: Isolated, monkeypatch: pytest.MonkeyPatch) -> None:
    """It was waited for without end."""
    monkeypatch.setattr(talking, "ENDING", 0.2)
    there.name = "unheard"
    found = attempt(there, gather(), ["y"], INSIDE)
    assert isinstance(found, Died) and "it had closed the pipe over which it answers, and was ended" in found.reason
    there.name = "right"
    assert isinstance(attempt(there, gather(), ["y"], INSIDE), Ran)


def test_a_crash_for_intermediate_tensors_hides_them_and_is_said() -> None:
    """Who gives outputs that are right is judged by them."""

    class Naive(Stranger):
        def prepare(self, subject: Any, wanted: Any) -> Any:
            return lambda inputs: {n: {"y": np.take(inputs["x"], inputs["i"])}[n] for n in wanted}

    model = parsed("(float[3] x, int64[2] i) => (float[2] y) { z = Identity(x) y = Gather(z, i) }")
    verdict = judge_backend(subject_of_model(model), InProcess(Naive()), INSIDE)
    assert verdict.outcome == "right" and verdict.judged == 0
    assert "its intermediate tensors are not to be had: the backend stranger raised KeyError: 'z'" in verdict.detail


def test_a_later_run_that_fails() -> None:
    """A trap or a crash on other inputs, or when the first inputs come again, is no refusal."""

    def on(number: int, wrong: BaseException) -> Stranger:
        who = Stranger()
        who.work = lambda: raising(wrong)() if who.ran == number else None
        return who

    for number, when in ((2, "on other inputs in between"), (3, "in a second run")):
        verdict = judge_backend(gather(), InProcess(on(number, assay.Trap("", "lost"))), INSIDE)
        assert verdict.outcome == "wrong" and verdict.detail == f"{when}, fails where it must not: trap: lost"
        with pytest.raises(Invalid, match=rf"{when}: the backend stranger raised KeyError: 'lost'.*\[backend\.C10\]"):
            judge_backend(gather(), InProcess(on(number, KeyError("lost"))), INSIDE)


def test_a_module_that_is_missing_is_not_installed() -> None:
    class Lazy(Stranger):
        def prepare(self, subject: Any, wanted: Any) -> Any:
            import no_such_compiler  # type: ignore[import-not-found]

            return no_such_compiler

    with pytest.raises(Invalid, match=r"the backend stranger is not installed: .*no_such_compiler.*\[backend\.C1\]"):
        judge_backend(gather(), InProcess(Lazy()), INSIDE)


def test_a_trap_where_the_standard_leaves_open_what_comes_of_an_element() -> None:
    cast = subject_of_model(parsed("(float[2] x) => (int32[2] y) { y = Cast <to = 6> (x) }"))
    who = InProcess(Stranger(raising(assay.Trap("cast", "NaN"))))
    assert judge_backend(cast, who, {"x": np.float32([np.nan, 1])}).outcome == "undecided"
    assert judge_backend(cast, who, {"x": np.float32([2, 1])}).outcome == "wrong"


# --- onnxruntime and the others of ours ---------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["onnxruntime", "onnxruntime:none", "reference", "numpy", "c", "adversarial"])
def test_a_run_that_fails_as_it_must_is_right(name: str) -> None:
    if name.startswith("onnxruntime"):
        pytest.importorskip("onnxruntime")
    verdict = judge_backend(gather(), backend(name), OUTSIDE)
    assert verdict.outcome == "right" and "fails as it must: trap (out of bounds)" in verdict.detail
    if name.startswith("onnxruntime"):
        assert "it says no more than: the backend " in verdict.detail and "while running Gather" in verdict.detail


def test_a_run_of_onnxruntime_that_fails_where_it_must_not_is_a_refusal() -> None:
    """Nothing says whether it cannot run the program, or takes it for one that fails."""
    pytest.importorskip("onnxruntime")
    subject = gather()
    run = backend("onnxruntime").prepare(subject, ["y"])
    with pytest.raises(assay.Unsupported, match=r"onnxruntime fails on these inputs: .*Gather.*\[backend\.C11\]"):
        run(OUTSIDE)

    class Deaf:
        name = "deaf"

        def prepare(self, subject: Any, wanted: Any) -> Any:
            return lambda inputs: run(OUTSIDE)

    assert said(Deaf(), INSIDE)[0] == "refused"


# --- freedoms -----------------------------------------------------------------------------------------------------


def test_freedoms_by_name() -> None:
    assert Accepts.of(None) == Accepts.of([]) == EVERYTHING_KEPT == Accepts.of("kept-wider")
    assert Accepts.of(["flushes", "splits"]) == Accepts(flushes=True, splits=True)
    assert Accepts.of({"kept-wider": False}) == Accepts(wider=False)
    for accepts in (EVERYTHING_KEPT, Accepts(flushes=True, wider=False)):
        assert Accepts.of(accepts.by_name) == accepts and Accepts.of(accepts) is accepts
    assert Accepts.of(["flushes"]).excluding(["flushes", "kept-wider"]) == Accepts(wider=False)
    for odd, words in (
        (["fluhses"], "it accepts 'fluhses'; there is kept-wider, flushes, splits, tf32, bf16-sums"),
        (3, "a int; names"),
    ):
        with pytest.raises(Invalid, match=rf"{words}.*\[backend\.C4\]"):
            Accepts.of(odd)


def flushing(accepts: Any) -> InProcess:
    class Flushes:
        name = "flushes"

        def prepare(self, subject: Any, wanted: Any) -> Any:
            return lambda inputs: {"y": np.zeros_like(inputs["x"])}

    who = Flushes()
    who.accepts = accepts  # type: ignore[attr-defined]
    return InProcess(who)


def test_a_freedom_counts_and_is_taken_away() -> None:
    subject = subject_of_model(parsed("(float[2] x) => (float[2] y) { y = Relu(x) }"))
    inputs = {"x": np.float32([1e-40, 0])}
    assert judge_backend(subject, flushing(["flushes"]), inputs).outcome == "right"
    assert judge_backend(subject, flushing(["flushes"]), inputs, ["flushes"]).outcome == "wrong"
    assert judge_backend(subject, flushing(["splits"]), inputs).outcome == "wrong"
    with pytest.raises(Invalid, match=r"the backend flushes: it accepts 'flush'; there is .*\[backend\.C4\]"):
        judge_backend(subject, flushing(["flush"]), inputs)


# --- operators ----------------------------------------------------------------------------------------------------


def test_what_it_does_not_declare_is_refused_without_it() -> None:
    inner = """(float[2] x, bool c) => (float[2] y) {
        a = acme.Twice(x)
        y = If (c) <then_branch = t () => (float[2] p) { p = Neg(a) },
                    else_branch = e () => (float[2] q) { q = Abs(a) }>
    }"""
    text = inner.replace("acme.", "com.acme.")
    model = parsed(text)
    function = parser.parse_function('<opset_import: ["" : 17], domain: "com.acme"> Twice (v) => (w) { w = Add(v, v) }')
    model.functions.append(function)
    subject = subject_of_model(model)

    def refusal(**declared: Any) -> str:
        who = Stranger()
        vars(who).update(declared)
        outcome = attempt(InProcess(who), subject, ["y"], {"x": X[:2], "c": np.array(True)})
        assert who.ran == 0 or not isinstance(outcome, Refused)
        return outcome.reason if isinstance(outcome, Refused) else ""

    assert refusal(operators=["Add", "If", "Neg"]).endswith("cannot run this model: it does not take Abs")
    assert refusal(operators={"If"}).endswith("it does not take Neg, Abs, Add")
    assert refusal(operators={"ai.onnx::Add", "If", "Neg", "Abs"}) == "" == refusal(supports=lambda node: True)
    assert refusal(supports=lambda node: node.op_type != "If").endswith("it does not take If")
    model.functions.pop()
    foreign = Subject(subject.module, model, subject.tensors)
    outcome = attempt(InProcess(with_(operators=["If", "Neg", "Abs", "Twice"])), foreign, ["y"], {})
    assert isinstance(outcome, Refused) and outcome.reason.endswith("it does not take com.acme::Twice")


def with_(**declared: Any) -> Stranger:
    who = Stranger()
    vars(who).update(declared)
    return who


@pytest.mark.parametrize(
    ("declared", "words"),
    [
        ({"operators": "Add"}, "`operators` is 'Add'; names of operators are wanted"),
        ({"operators": [3]}, "names of operators are wanted"),
        ({"supports": 3}, "`supports` is no function"),
        ({"refuses": "NotYet"}, "`refuses` holds 'NotYet'; classes of exceptions are wanted"),
        ({"traps": [KeyError("k")]}, "`traps` holds KeyError"),
        ({"accepts": ["all"]}, "it accepts 'all'"),
    ],
)
def test_declarations_that_are_none(declared: dict[str, Any], words: str) -> None:
    with pytest.raises(Invalid, match=r"the backend stranger: ") as wrong:
        InProcess(with_(**declared)).prepare(gather(), ["y"])
    assert words in wrong.value.message and wrong.value.label == "backend.C4"
