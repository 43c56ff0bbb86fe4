"""What TVM's DataflowUseInplaceCalls does wrong is named, from inside: a stage that is refused, and results that
differ."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

pytest.importorskip("tvm", reason="the peer apache-tvm is not installed")

from assay.verify.tvm import judge_passes
from assay.verify.tvm.passes import PassReport, repeated
from tests.verify.tvm.programs import IN_PLACE
from tests.verify.tvm.tvm_faults import program

pytestmark = [pytest.mark.peer]

X = np.array([0, 1, 2, 3], np.float32)


def dataflow(*lines: str) -> Any:
    body = "\n".join(f"            {line}" for line in lines)
    return program(
        '    @R.function\n    def main(x: R.Tensor((4,), "float32")) -> R.Tensor((4,), "float32"):\n'
        f"        with R.dataflow():\n{body}\n            R.output(e)\n        return e\n"
    )


def behind_in_place(*lines: str) -> PassReport:
    return judge_passes(dataflow(*lines), [X], IN_PLACE)


@pytest.mark.parametrize(
    ("part", "stage"),
    [
        (["b = R.astype(a, 'float32')"], "RewriteDataflowReshape"),
        (["b = R.broadcast_to(a, (4,))"], "RewriteDataflowReshape"),
        (["b = R.strided_slice(a, [0], [0], [4])"], "RewriteDataflowReshape"),
        (["b = R.concat((a,), axis=0)"], "RewriteDataflowReshape"),
        (["t = (a, x)", "b = t[0]"], "DataflowInsertInPlaceCalls"),
    ],
)
def test_memory_that_is_still_read_and_is_changed_is_named(part: list[str], stage: str) -> None:
    report = behind_in_place("a = R.exp(x)", part[0], "c = R.add(a, x)", *part[1:], "e = R.multiply(b, c)")
    first, last = report.first, report.verdicts[-1]
    assert first is not None and (first.name, first.how, first.why) == (stage, "refused", "tvm.P4")
    assert (last.name, last.how) == ("the compiled code", "changed") and "element (3,) is 532.94" in last.detail


def test_a_copy_that_is_read_before_the_change_is_left_alone() -> None:
    report = behind_in_place(
        "a = R.exp(x)", "b = R.astype(a, 'float32')", "d = R.maximum(b, x)", "c = R.add(a, x)", "e = R.multiply(d, c)"
    )
    assert report.holds and any(v.name == "DataflowInsertInPlaceCalls" for v in report.verdicts), report.first


def test_a_constant_that_is_changed_in_place_is_named_and_shows_in_the_second_run() -> None:
    report = behind_in_place("a = R.const([1.0, 1.0, 1.0, 1.0], 'float32')", "c = R.add(a, x)", "e = R.negative(c)")
    first, last = report.first, report.verdicts[-1]
    assert first is not None and (first.name, first.how, first.why) == (
        "DataflowInsertInPlaceCalls",
        "refused",
        "tvm.P8",
    )
    assert (last.name, last.how) == ("the compiled code", "changed")
    assert "a second run gives other results: result 0: element (1,) is -3.0, must be -2.0" in last.detail


def test_a_second_run_may_differ_in_the_bits_of_a_nan_alone() -> None:
    judged = behind_in_place("e = R.negative(x)").verdicts[-1]
    nan, other = np.array([0x7FC00000, 0x7FC00001], np.uint32).view(np.float32).reshape(2, 1)
    assert judged.how == "same" and repeated(judged, [nan], [other]) is judged
    assert repeated(judged, [np.float32([0.0])], [np.float32([-0.0])]).how == "changed"
