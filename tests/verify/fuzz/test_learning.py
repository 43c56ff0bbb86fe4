"""What a backend refuses is drawn less and less, not never; it is said, kept, and can be forgotten."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path

import pytest

from assay.semantics.errors import Invalid
from assay.semantics.ops import OPERATORS
from assay.verify.app.cli import main
from assay.verify.fuzz import targets
from assay.verify.fuzz.campaign import Campaign, Plan, round_end
from assay.verify.fuzz.cases import EXPLORES, Recipe, campaign_example
from assay.verify.fuzz.corpus import Corpus
from assay.verify.fuzz.learning import Learnt, evidence_of
from assay.verify.fuzz.worker import ExampleReport, Task, judge_examples
from tests.verify.fuzz.fuzz_targets import TAKES, Picky


class Backwards:
    """Tasks of a round done in this process, the last first: as several workers might."""

    def run(self, tasks: Iterable[Task]) -> Iterator[ExampleReport]:
        for task in [*tasks][::-1]:
            yield from judge_examples(task)


class Here:
    def run(self, tasks: Iterable[Task]) -> Iterator[ExampleReport]:
        for task in tasks:
            yield from judge_examples(task)


@pytest.fixture(autouse=True)
def picky(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(targets.OURS, "picky", Picky())


@pytest.mark.parametrize("seed", [0, 1])
def test_refusals_become_rare(seed: int) -> None:
    """88 of 98 operators are refused: of the first examples most are, of the second hundred less than a fifth."""
    refused: list[int] = []
    campaign = Campaign(
        Plan(("picky",), Recipe(), seed=seed, examples=200), None, lambda c: refused.append(c.done.kinds["refused"])
    )
    campaign.run(Here())
    assert refused[31] > 20 and refused[199] - refused[99] < 20
    avoided = set(campaign.standings["picky"].avoided)
    assert not avoided & set(TAKES) and len(avoided & set(OPERATORS)) > 75
    assert not {"float32", "int32", "int64"} & avoided
    # not never: some examples are made as if nothing were avoided
    recipe = campaign.recipe_of(0)
    bold = [campaign_example(recipe, seed, n) for n in range(1000, 1200)]
    there = sum(bool(set(c.operators) - set(TAKES)) for c in bold)
    assert 200 / EXPLORES / 3 < there < 200 / EXPLORES * 3


def test_what_is_refused_is_told_from_what_stands_beside_it() -> None:
    """float16 alone, and one attribute alone: neither the operator nor another element type is blamed."""
    campaign = Campaign(Plan(("picky",), Recipe(("add", "nn.relu", "sum"), 4, ()), examples=160), None)
    campaign.run(Here())
    avoided = campaign.standings["picky"].avoided
    assert "float16" in avoided and "bfloat16" in avoided and "sum with keepdims=True" in avoided
    assert not {"add", "nn.relu", "sum", "float32", "sum with axis"} & set(avoided)
    assert not any(t.startswith("add in float16") for t in avoided), "the element type says it already"
    (line,) = [x for x in campaign.standings["picky"].learnt.lines() if x.startswith("float16")]
    seen = campaign.standings["picky"].learnt.seen["float16"]
    assert line == f"float16 (refused {seen.refused} of {seen.met} times)" and seen.refused >= 4


def test_one_that_is_taken_lifts_it() -> None:
    learnt = Learnt()
    learnt.add([(("det", "det in float32"), True)] * 3)
    assert learnt.avoided == ("det",)
    learnt.add([(("det", "det in float32"), False)])
    assert learnt.avoided == ()
    learnt.add([(("det",), True)] * 20)
    assert learnt.avoided == ("det",), "the last twenty count"


def test_a_backend_that_takes_all_changes_nothing() -> None:
    campaign = Campaign(Plan(("values",), Recipe(("add", "nn.softmax", "concat"), 5, ()), examples=60), None)
    campaign.run(Here())
    standing = campaign.standings["values"]
    assert standing.avoided == () and standing.learnt.seen["add"].met > 5
    case = campaign_example(campaign.recipe_of(100), 0, 100)
    assert case.picks == campaign_example(campaign.plan.recipe, 0, 100).picks
    crash = targets.Result("crash", "", "", "")
    assert evidence_of(targets.target("values"), case, crash) == []


def test_examples_do_not_depend_on_who_is_faster(tmp_path: Path) -> None:
    """Done in another order, and in two runs with an end in the middle of a round: the same examples, the same results,
    the same knowledge."""
    whole = Campaign(Plan(("picky",), Recipe(), examples=120), Corpus(tmp_path / "whole"))
    whole.run(Here())
    other = Campaign(Plan(("picky",), Recipe(), examples=120), None)
    other.run(Backwards())
    assert other.done.kinds == whole.done.kinds
    mine, theirs = (c.standings["picky"] for c in (whole, other))
    assert theirs.learnt == mine.learnt and theirs.avoided == mine.avoided
    corpus = Corpus(tmp_path / "parts")
    for count in (30, 50, 40):
        part = Campaign(Plan(("picky",), Recipe(), examples=count), corpus)
        part.run(Here())
    assert part.done.kinds == whole.done.kinds and part.standings["picky"].learnt == mine.learnt
    assert part.done.operators == whole.done.operators
    assert [round_end(n) for n in (0, 7, 8, 40, 1_000)] == [8, 8, 16, 48, 1_128]


def test_it_is_kept_and_forgotten(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    corpus = Corpus(tmp_path)
    Campaign(Plan(("picky",), Recipe(), examples=128), corpus).run(Here())
    second = Campaign(Plan(("picky",), Recipe(), seed=1, examples=32), corpus)
    second.run(Here())
    assert second.done.kinds["refused"] < 16, "another seed begins with what is known"
    assert list(corpus.failures()) == []
    corpus.forget(["picky"])
    third = Campaign(Plan(("picky",), Recipe(), seed=1, examples=8), corpus)
    third.run(Here())
    assert third.judged == 8 and third.done.kinds["refused"] - second.done.kinds["refused"] > 5
    (tmp_path / "learnt-picky.json").write_text('{"add": [1, 2]}')
    with pytest.raises(Invalid) as said:
        corpus.learnt("picky")
    assert said.value.label == "fuzz.C2"
    with pytest.raises(SystemExit) as done:
        monkeypatch.setattr(sys, "argv", ["assay", "fuzz", "--backend", "values", "--forget"])
        main()
    assert done.value.code == 2 and "--corpus" in capsys.readouterr().err


def test_the_command_says_what_was_learnt(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """ONNX has no operator for what our reinterpret does to some element types: nobody can judge it."""
    options = ["--backend", "numpy", "--operators", "suppress,add", "--features", "", "--examples", "24", "--jobs", "1"]
    for more in ([], ["--json"]):
        monkeypatch.setattr(sys, "argv", ["assay", "fuzz", *options, *more])
        with pytest.raises(SystemExit) as done:
            main()
        assert done.value.code == 0
        out = capsys.readouterr().out
        if more:
            assert json.loads(out)["avoided"]["suppress"]["refused"] >= 2
        else:
            assert "not drawn any more: suppress (refused " in out


def test_a_backend_that_is_not_installed_is_told_at_once(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    class Absent:
        name = "picky"

        def judge(self, module: object, inputs: object) -> targets.Result:
            return targets.Result("refused", "backend.C1", "", "the backend picky is not installed")

    monkeypatch.setitem(targets.OURS, "picky", Absent())  # type: ignore[arg-type]
    campaign = Campaign(Plan(("picky",), Recipe(), examples=100), None)
    with pytest.raises(Invalid, match=r"not installed \[backend.C1\]"):
        campaign.run(Here())
    assert campaign.judged == 0 and campaign.given <= 2
