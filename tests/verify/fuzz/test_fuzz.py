"""Campaigns: a planted fault is found, made simple, stored once and replayed; they resume; a worker's death is an
outcome."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Iterator
from importlib import import_module
from pathlib import Path

import pytest

from assay.semantics import budget
from assay.semantics.budget import Budget
from assay.semantics.errors import Crash, EnvironmentFailure, Invalid
from assay.verify.app.cli import main
from assay.verify.fuzz import targets
from assay.verify.fuzz.campaign import Campaign, Plan, replay_corpus
from assay.verify.fuzz.cases import SWITCHES, Recipe, again, campaign_example
from assay.verify.fuzz.corpus import Corpus
from assay.verify.fuzz.pool import Pool
from assay.verify.fuzz.targets import Result, judged, target, target_names
from assay.verify.fuzz.worker import ExampleReport, Task, judge_examples, merged_report, simplest
from tests.verify.fuzz.fuzz_targets import Fickle, Off, deadly, greedy, operators

SMALL = Recipe(("add", "nn.softmax", "multiply", "concat"), 8, ("branches", "names"))


class Here:
    """Tasks done in this process; an interrupt after so many reports."""

    def __init__(self, most: int | None = None) -> None:
        self.most = most
        self.done = 0

    def run(self, tasks: Iterable[Task]) -> Iterator[ExampleReport]:
        for task in tasks:
            for report in judge_examples(task):
                if self.most is not None and self.done >= self.most:
                    raise KeyboardInterrupt
                self.done += 1
                yield report


@pytest.fixture
def off(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(targets.OURS, "off", Off())


def test_a_fault_is_found_made_simple_and_kept_once(off: None, tmp_path: Path) -> None:
    """The softmax that is a little off: one failure, of a program with nothing else in it that matters."""
    corpus = Corpus(tmp_path / "corpus")
    campaign = Campaign(Plan(("off",), SMALL, examples=80), corpus)
    campaign.run(Here())
    assert campaign.done.kinds["wrong"] > 5
    assert campaign.done.kinds["right"] > 5
    stored = list(corpus.failures())
    assert 1 <= len(stored) == len(campaign.new) <= 4
    for failure in stored:
        module, inputs = failure.program()
        assert "nn.softmax" in operators(module)
        assert judged(target("off"), module, inputs).kind == "wrong"
    assert min(len(operators(f.program()[0])) for f in stored) == 1
    assert all(r.still for r in replay_corpus(corpus, "off"))


def test_replay_says_what_is_mended(off: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    corpus = Corpus(tmp_path)
    Campaign(Plan(("off",), SMALL, examples=40), corpus).run(Here())
    monkeypatch.setitem(targets.OURS, "off", targets.Values("off"))
    found = list(replay_corpus(corpus, "off"))
    assert found
    assert not any(r.still for r in found)
    assert list(replay_corpus(corpus, "values")) == []


def test_a_campaign_goes_on_where_it_ended(off: None, tmp_path: Path) -> None:
    """Interrupted and started again, it has judged each example once, and counts what was judged before."""
    corpus = Corpus(tmp_path)
    with pytest.raises(KeyboardInterrupt):
        Campaign(Plan(("off",), SMALL, examples=40, batch=8), corpus).run(Here(20))
    state = corpus.state(["off"])
    assert state["examples"] == 20 and state["next"] == 21 and state["open"] == [20]
    second = Campaign(Plan(("off",), SMALL, examples=20, batch=8), corpus)
    corpus.keep({**state, "seconds": 50}, {})
    second.run(Here())
    assert corpus.state(["off"])["seconds"] >= second.spent == 50
    whole = Campaign(Plan(("off",), SMALL, examples=40), Corpus(tmp_path / "other"))
    whole.run(Here())
    assert second.before + second.judged == 40
    assert second.done.kinds == whole.done.kinds and second.done.operators == whole.done.operators
    other = Campaign(Plan(("off",), SMALL, seed=1, examples=2), corpus)  # another campaign begins anew
    other.run(Here())
    assert other.before == 0


def test_an_example_is_its_number() -> None:
    """The same number makes the same program; its choices make it again; all switches come up."""
    seen: set[str] = set()
    recipe = Recipe(switches=SWITCHES)
    for number in range(60):
        case = campaign_example(recipe, 7, number)
        assert campaign_example(recipe, 7, number).picks == case.picks == again(recipe, case.picks).picks
        seen |= set(case.constructs)
    assert {"if", "call", "symbolic dim", "named constant"} <= seen
    assert campaign_example(recipe, 8, 0).picks != campaign_example(recipe, 7, 0).picks


@pytest.mark.parametrize("name", ["values", "numpy", "onnxruntime", "passes"])
def test_targets_judge(name: str) -> None:
    """Correct targets are right about simple programs, and every example has an outcome."""
    if name not in target_names():
        pytest.skip(f"there is no backend {name}")
    recipe = Recipe(("add", "multiply", "nn.relu", "concat", "reshape", "matmul"), 6, ("branches", "symbolic"))
    count = 6 if name == "passes" else 20
    report = merged_report(list(judge_examples(Task((name,), recipe, 0, tuple(range(count))))))
    assert sum(report.kinds.values()) == count
    assert report.kinds["right"] >= count // 2
    assert not report.failures, [(f.result, f.number) for f in report.failures]


def test_who_fails_once_is_kept_as_it_failed() -> None:
    """A campaign ended with a crash of ours where the simplest example was refused when it was asked again."""
    recipe = Recipe()
    case = campaign_example(recipe, 0, 3)
    picks, result = simplest(Fickle(), recipe, case, Result("wrong", "graph"), 5.0)
    assert len(picks) < len(case.picks) and result == Result("wrong", "graph")


def test_what_is_raised_is_a_crash() -> None:
    class Broken:
        name = "broken"

        def __init__(self, wrong: Exception) -> None:
            self.wrong = wrong

        def judge(self, module: object, inputs: object) -> Result:
            raise self.wrong

    case = campaign_example(SMALL, 0, 0)
    for wrong in (Crash("that"), KeyError("that"), Invalid("that", label="x.C1")):
        found = judged(Broken(wrong), case.module, case.inputs)
        assert found.kind == "crash" and found.failed and "that" in found.detail


def test_a_workers_death_is_an_outcome() -> None:
    """One example ends its process and one takes for ever; each has died, and all others are judged once."""
    pool = Pool(2, patience=1.0, work=deadly)
    try:
        tasks = [Task(("values",), SMALL, 0, tuple(range(a, a + 4)), seconds=0.0) for a in (0, 4)]
        report = merged_report(list(pool.run(tasks)))
    finally:
        pool.close()
    assert sorted(report.numbers) == list(range(8))
    assert report.kinds == {"right": 6, "died": 2}
    why = {f.number: f.result.where for f in report.failures}
    assert why[3] == "was ended by SIGSEGV" and why[5].startswith("took longer")


def test_a_worker_that_grows_is_ended() -> None:
    with budget.of(Budget(memory=300 << 20)):
        pool = Pool(1, patience=60.0, work=greedy)
    try:
        report = merged_report(list(pool.run([Task(("values",), SMALL, 0, (0, 1, 2), seconds=0.0)])))
    finally:
        pool.close()
    assert report.kinds == {"right": 2, "died": 1} and [f.number for f in report.failures] == [1]
    assert report.failures[0].result.where == "ended with code 1", (
        "it was ended by a limit of its own, long before its patience"
    )


def test_workers_that_never_begin(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A campaign does not start them for ever."""
    (tmp_path / "gone.py").write_text(
        "import multiprocessing, os\nif multiprocessing.current_process().name != 'MainProcess': os._exit(3)\ndef"
        " work(task): return ()\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr("assay.verify.fuzz.pool.MOST_IDLE", 0)
    pool = Pool(1, work=import_module("gone").work)
    try:
        with pytest.raises(EnvironmentFailure, match=r"before they have begun: the last ended with code 3 \[fuzz.C5\]"):
            list(pool.run([Task(("values",), SMALL, 0, (0,))]))
    finally:
        pool.close()


def test_unknown_names_are_refused(tmp_path: Path) -> None:
    with pytest.raises(Invalid) as said:
        target("nonsense")
    assert said.value.label == "fuzz.C1"
    (tmp_path / "file").write_text("")
    with pytest.raises(Invalid) as said:
        Corpus(tmp_path / "file" / "inside")
    assert said.value.label == "fuzz.C2"
    (tmp_path / "some.json").write_text("[]")
    with pytest.raises(Invalid) as said:
        list(Corpus(tmp_path).failures())
    assert said.value.label == "fuzz.C2"


def run(monkeypatch: pytest.MonkeyPatch, *args: object) -> int:
    monkeypatch.setattr(sys, "argv", ["assay", "fuzz", *map(str, args)])
    with pytest.raises(SystemExit) as done:
        main()
    return int(done.value.code or 0)


def test_command(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """One worker, a few examples, as JSON; a corpus that says how far it is; mistakes are said in one line."""
    options = [
        "--backend",
        "values",
        "--examples",
        12,
        "--jobs",
        1,
        "--operators",
        "add,nn.s*",
        "--features",
        "branches",
    ]
    assert run(monkeypatch, *options, "--corpus", tmp_path / "c", "--json") == 0
    data = json.loads(capsys.readouterr().out)
    assert (
        data["examples"] == 12
        and set(data["operators"]) <= {"add", "nn.softmax", "logical_not"}
        and data["per_second"] > 0
    )
    assert (tmp_path / "c" / "campaign-values.json").exists()
    assert run(monkeypatch, "--backend", "values", "--corpus", tmp_path / "c", "--replay") == 0
    for wrong in (
        ["--backend", "nonsense"],
        ["--backend", "values", "--operators", "nonsense"],
        ["--backend", "values", "--replay"],
    ):
        assert run(monkeypatch, *wrong) == 2
    assert "nonsense" in capsys.readouterr().err
