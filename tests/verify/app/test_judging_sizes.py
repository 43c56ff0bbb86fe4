"""A backend at each choice of sizes, as one line."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from assay.semantics.scalar import Var
from assay.semantics.text.module_text import parse
from assay.verify.app import judging_sizes
from assay.verify.app.judging import JudgedOutputs
from assay.verify.app.judging_sizes import JudgedThere, SizedRun, judged_there, together, with_ones
from assay.verify.evidence import Evidence, of_outcome
from assay.verify.exits import Exit

N = Var("n")
MODULE = parse("""
@I.ir_module
class Module:
    @R.function
    def main(x: R.Tensor((3,), "float32"), mask: R.Tensor((3,), "int64")) -> R.Tensor((3,), "float32"):
        with R.dataflow():
            y = R.multiply(x, R.astype(mask, dtype="float32"))
            R.output(y)
        return y
""")


def run_with(mask: list[int]) -> SizedRun:
    return SizedRun({N: 3}, MODULE, {}, {"x": np.ones(3, np.float32), "mask": np.array(mask)})


def judged(monkeypatch: pytest.MonkeyPatch, by: Mapping[str, str]) -> None:
    """A judge that goes by the mask alone."""

    def say(who: JudgedOutputs, expected: Any, tensors: Any) -> tuple[str, Evidence]:
        key = "".join(map(str, expected.inputs["mask"].tolist()))
        return f"judged {key}", of_outcome(by[key], f"detail {key}")

    monkeypatch.setattr(judging_sizes, "judge_outputs", say)


def test_undecided_on_drawn_whole_numbers_is_judged_with_ones(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    judged(monkeypatch, {"010": "undecided", "111": "right"})
    found = judged_there(JudgedOutputs("b"), run_with([0, 1, 0]), ())
    did, evidence = together([found], "at n = 3")
    assert evidence.exit is Exit.HOLDS and did == "judged 111 at n = 3"
    assert evidence.detail == (
        "detail 111; with 1 for whole numbers right at n = 3; undecided with those that were drawn: detail 010"
    )
    twice = together([found, replace(found, sizes={N: 5})], "at n = 3, 5")[1]
    assert twice.detail == (
        "detail 111; with 1 for whole numbers right at n = 3 and at n = 5; undecided with those that were drawn at the"
        " first of these 2 sizes: detail 010"
    )


@pytest.mark.parametrize(
    ("first", "second", "outcome"),
    [("undecided", "undecided", "undecided"), ("undecided", "wrong", "wrong"), ("wrong", "right", "wrong"),
     ("refused", "right", "refused"), ("unpredictable", "right", "unpredictable")],
)  # fmt: skip
def test_ones_excuse_nothing(first: str, second: str, outcome: str, monkeypatch: pytest.MonkeyPatch) -> None:
    judged(monkeypatch, {"010": first, "111": second})
    found = judged_there(JudgedOutputs("b"), run_with([0, 1, 0]), ())
    assert together([found], "at n = 3")[1].outcome == outcome


def test_what_was_given_stays_as_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    assert with_ones(run_with([0, 1, 0]), {"mask"}) is None and with_ones(run_with([1, 1, 1]), ()) is None
    judged(monkeypatch, {"010": "undecided"})
    assert judged_there(JudgedOutputs("b"), run_with([0, 1, 0]), {"mask"}).evidence.outcome == "undecided"


def test_each_verdict_is_told_with_its_sizes() -> None:
    found = [JudgedThere({N: n}, "", of_outcome("refused" if n == 0 else "right", f"at {n}")) for n in (2, 7, 0)]
    _, evidence = together(found, "at n = 0, 2, 7")
    assert evidence.exit is Exit.UNDECIDED
    assert evidence.detail == "at n = 0: at 0; of all (n): right at (2), (7); refused at (0)"
