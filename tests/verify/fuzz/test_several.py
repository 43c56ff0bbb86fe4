"""A campaign against several targets: each example is drawn and evaluated once, and what comes of it is kept for each
target by itself."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import pytest

from assay.semantics.errors import Invalid
from assay.semantics.ops import OPERATORS
from assay.verify.fuzz import targets
from assay.verify.fuzz.campaign import Campaign, Plan, replay_corpus
from assay.verify.fuzz.cases import Recipe
from assay.verify.fuzz.corpus import Corpus
from assay.verify.fuzz.targets import Result, Values
from assay.verify.fuzz.worker import ExampleReport, KnownFailure, Task, judge_examples, lost, merged_report
from assay.verify.oracle import expected
from assay.verify.oracle.walk import BoundedRun
from tests.verify.fuzz.fuzz_targets import TAKES, Off, Picky
from tests.verify.fuzz.test_fuzz import SMALL, Here, run

DIES = "tests.verify.fuzz.fuzz_targets:dies"
OTHER = ("negative", "abs", "maximum", "minimum", "transpose", "squeeze", "mean", "sigmoid", "tanh", "floor")
"""What the other picky target takes: nothing that the first does."""
TWO = ("good", "off")


@pytest.fixture(autouse=True)
def stubs(monkeypatch: pytest.MonkeyPatch) -> None:
    for stub in (Off(), Values("good"), Picky(), Picky("other", OTHER)):
        monkeypatch.setitem(targets.OURS, stub.name, stub)


class Killed(Here):
    """The campaign is killed after so many reports: what it would keep at its end is lost."""

    def __init__(self, most: int, campaign: Campaign) -> None:
        super().__init__(most)
        self.campaign = campaign

    def run(self, tasks: Iterable[Task]) -> Iterator[ExampleReport]:
        try:
            for report in super().run(tasks):
                yield report
                self.campaign._keep()
        except KeyboardInterrupt:
            self.campaign.corpus = None
            raise


def test_each_target_has_its_own_failures_and_counts(tmp_path: Path) -> None:
    """One of two is wrong: its failures alone are kept, and what is said of the other is what its own campaign says."""
    corpus = Corpus(tmp_path)
    both = Campaign(Plan(TWO, SMALL, examples=60), corpus)
    both.run(Here())
    good, off = (both.standings[n] for n in TWO)
    assert off.done.kinds["wrong"] > 5 and off.done.kinds["right"] > 5
    assert good.done.kinds["right"] > 50 and not good.done.kinds["wrong"] and not good.new
    assert {f.target for f in corpus.failures()} == {"off"} and len(off.new) == len(list(corpus.failures()))
    alone = Campaign(Plan(("off",), SMALL, examples=60), None)
    alone.run(Here())
    assert alone.done.kinds == off.done.kinds
    assert all(r.still for r in replay_corpus(corpus, *TWO)) and not list(replay_corpus(corpus, "good"))


@pytest.mark.parametrize("most", [20, 21])
def test_killed_and_resumed(tmp_path: Path, most: int) -> None:
    """Also between the two reports of one example: none is lost, and none is counted twice."""
    corpus = Corpus(tmp_path)
    first = Campaign(Plan(TWO, SMALL, examples=24, batch=4), corpus)
    with pytest.raises(KeyboardInterrupt):
        first.run(Killed(most, first))
    assert corpus.state(TWO)["examples"] == 10
    second = Campaign(Plan(TWO, SMALL, examples=14, batch=4), corpus)
    second.run(Here())
    whole = Campaign(Plan(TWO, SMALL, examples=24), None)
    whole.run(Here())
    assert second.before + second.judged == 24
    for name in TWO:
        assert second.standings[name].done.kinds == whole.standings[name].done.kinds
        assert sum(second.standings[name].done.kinds.values()) == 24
    assert corpus.state(["off"]) == {}, "a campaign against one of them alone is another one"


def test_nobody_starves_because_another_refuses() -> None:
    """Two that take nothing in common: what is drawn takes turns, so that each gets programs that it takes; and each
    learns of its own refusals."""
    campaign = Campaign(Plan(("other", "picky"), Recipe(), examples=200), None)
    early: dict[str, int] = {}

    def tell(c: Campaign) -> None:
        if c.judged == 100:
            early.update({n: s.done.kinds["right"] for n, s in c.standings.items()})

    campaign.tell = tell
    campaign.run(Here())
    for name, takes in (("other", OTHER), ("picky", TAKES)):
        standing = campaign.standings[name]
        assert standing.done.kinds["right"] - early[name] > 30, "of the fifty turns that it has in the second hundred"
        assert not set(standing.avoided) & set(takes) and len(set(standing.avoided) & set(OPERATORS)) > 60


def test_the_definition_runs_once_for_all(monkeypatch: pytest.MonkeyPatch) -> None:
    """Five backends on an example need the runs of one: on its inputs, and on those in between."""
    ran: list[object] = []

    class Counted(BoundedRun):
        def run(self, inputs: Any, *more: Any) -> Any:
            ran.append(inputs)
            return super().run(inputs, *more)

    monkeypatch.setattr(expected, "BoundedRun", Counted)
    latest = targets.Latest()
    several = [targets.BackendTarget(targets.backend("reference"), latest) for _ in range(5)]
    case = next(c for n in range(9) if (c := targets_case(n)).operators)
    counts = []
    for of in several:
        assert of.judge(case.program, case.inputs).kind == "right"
        counts.append(len(ran))
    assert counts[0] == 2 and counts == counts[:1] * 5


def targets_case(number: int) -> Any:
    from assay.verify.fuzz.cases import campaign_example

    return campaign_example(Recipe(("add", "multiply"), 3, ()), 0, number)


def test_one_that_dies_harms_nobody() -> None:
    """Of several each backend has a process of its own."""
    recipe = Recipe(("add", "multiply"), 3, ())
    task = Task(("numpy", DIES), recipe, 0, (1, 2), seconds=0.0)
    try:
        reports = list(judge_examples(task))
    finally:
        for process in targets._processes.values():
            process.close()
        targets._processes.clear()
    mine = merged_report([r for r in reports if r.target == "numpy"])
    theirs = merged_report([r for r in reports if r.target == DIES])
    assert mine.kinds == {"right": 2} and theirs.kinds == {"died": 2}, (mine, theirs)


def test_a_worker_that_is_gone_is_no_fault_of_several() -> None:
    (one,) = lost(Task(("off",), SMALL, 0, (3,)), 3, "was ended by SIGKILL", "")
    several = lost(Task(TWO, SMALL, 0, (3,)), 3, "was ended by SIGKILL", "")
    assert one.kinds == {"died": 1} and [r.kinds for r in several] == [{"crash": 1}] * 2
    assert [r.target for r in several] == list(TWO)
    assert Task(TWO, SMALL, 0, (3,)).longest(60.0) > 2 * Task(("off",), SMALL, 0, (3,)).longest(60.0)


def test_what_is_kept_is_not_made_simpler_again(tmp_path: Path) -> None:
    """A later campaign on the same corpus knows the failures that have a culprit, and makes no other of them."""
    case = targets_case(0)
    wrong, vague = Result("wrong", "graph", "Add", ""), Result("wrong", "graph", "", "")
    corpus = Corpus(tmp_path)
    for result in (wrong, vague):
        corpus.add("off", result, case, SMALL, 0, 0)
    campaign = Campaign(Plan(TWO, SMALL, examples=0), corpus)
    campaign.run(Here())
    assert campaign.standings["off"].known == {KnownFailure("off", wrong.key)} and not campaign.standings["good"].known


def test_what_explains_a_failure() -> None:
    """One without a culprit is explained by a kept one whose operators it has; another target's never."""
    wrong = Result("wrong", "graph", "", "")
    known = KnownFailure("off", wrong.key, ("add", "exp"))
    assert known.explains("off", wrong, ("add", "exp", "sum")) and not known.explains("off", wrong, ("add", "sum"))
    assert not known.explains("good", wrong, ("add", "exp"))
    assert not known.explains("off", Result("wrong", "graph", "Exp", ""), ("add", "exp"))


def test_the_command(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    who = ["--backend", "values", "--backend", "numpy", "--corpus", tmp_path]
    options = [*who, "--examples", 6, "--jobs", 1, "--operators", "add,nn.s*", "--features", ""]
    assert run(monkeypatch, *options, "--json") == 0
    data = json.loads(capsys.readouterr().out)
    assert [b["backend"] for b in data["backends"]] == ["numpy", "values"] and data["examples"] == 6
    assert all(sum(b["kinds"].values()) == 6 and b["holds"] for b in data["backends"])
    assert run(monkeypatch, *who, "--replay", "--json") == 0
    assert json.loads(capsys.readouterr().out)["backends"] == ["numpy", "values"]
    options[options.index(6)] = 0
    assert run(monkeypatch, *options) == 0
    said = capsys.readouterr().out.split("\n")
    assert said[0].startswith("6 examples by 2 targets") and any(x.startswith("numpy: ") for x in said)
    assert run(monkeypatch, "--backend", "values", "--backend", "nonsense") == 2
    (state,) = tmp_path.glob("campaign-*.json")
    state.write_text(state.read_text().replace('"values": {', '"nobody": {'))
    with pytest.raises(Invalid, match=r"it has no 'values' \[fuzz.C2\]"):
        Corpus(tmp_path).state(["numpy", "values"])
