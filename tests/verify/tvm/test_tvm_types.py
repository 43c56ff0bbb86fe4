"""The types that TVM derives beside ours, what has no value over nothing, and tensor functions that change an operand:
each with a twin of which nothing is said."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("tvm", reason="the peer apache-tvm is not installed")

from assay.lower.frontends.tvm import from_tvm
from assay.semantics.dtypes import DTYPES
from assay.semantics.types import TupleType
from assay.verify.app.terminal import Screen
from assay.verify.tvm import judge_kernels, judge_passes
from assay.verify.tvm.command import TvmRequest, judge_inside
from assay.verify.tvm.results import declared_results
from tests.verify.tvm.tvm_faults import HEAD, X, pipeline, program, texts

pytestmark = [pytest.mark.peer]


def main(result: str, *lines: str, x: str = '("n",), "float32"') -> str:
    body = "\n".join(f"        {line}" for line in lines)
    return f"\n    @R.function\n    def main(x: R.Tensor({x})){result}:\n{body}\n        return y\n"


DERIVED = main(
    "",
    "n = T.int64()",
    'y: R.Tensor(({size},), "float32") = R.add(x, x)',
)


def first_of(body: str, arguments: Sequence[Any], passes: Any = "default") -> tuple[str, str, str] | None:
    wrong = [v for v in judge_passes(program(body), arguments, passes).verdicts if v.wrong]
    assert len(wrong) <= 1, "a fault is told once"
    return (wrong[0].name, wrong[0].how, wrong[0].detail) if wrong else None


@pytest.mark.parametrize("n", [2, 3])
def test_a_type_that_tvm_has_for_a_value_is_compared_with_ours_as_the_module_comes(n: int) -> None:
    """n // 2 * 2 is n where n is even, so whether it is the size shows when it runs."""
    x = np.ones(n, np.float32)
    assert first_of(DERIVED.format(size="n"), [x]) is None
    found = first_of(DERIVED.format(size="n // 2 * 2"), [x])
    if n == 2:
        assert found is None
    else:
        assert found is not None and found[:2] == ("the module", "refused")
        assert "y, as TVM declares it" in found[2] and "is 3, expected 2" in found[2]


def test_a_fixed_type_that_is_not_ours_is_refused() -> None:
    fixed = main("", 'y: R.Tensor(({size},), "{of}") = R.add(x, x)', x='(4,), "float32"')
    assert first_of(fixed.format(size=4, of="float32"), [X]) is None
    for size, of in ((5, "float32"), (4, "float64")):
        found = first_of(fixed.format(size=size, of=of), [X])
        assert found is not None and found[:2] == ("the module", "refused") and "[tvm.C11]" in found[2]


def test_a_pass_that_changes_a_type_is_named() -> None:
    """After VMShapeLower sizes are no longer in types, so a pass before it."""
    body = main("", "n = T.int64()", "y = R.add(x, x)")
    wrong = texts(('y: R.Tensor((n,), dtype="float32") = R', 'y: R.Tensor((n // 2 * 2,), dtype="float32") = R'))
    x = np.ones(3, np.float32)
    found = first_of(body, [x], pipeline("DispatchSortScan", wrong))
    assert found is not None and found[:2] == ("Planted", "refused") and "expected 2" in found[2]
    assert first_of(body, [x], pipeline("DispatchSortScan", texts())) is None


@pytest.mark.parametrize("name", ["default", "cpu"])
def test_a_split_past_the_end_is_read_as_tvm_says_and_what_lowers_it_is_named(name: str) -> None:
    """Finding 15: types end where the tensor does, the kernel goes on."""
    body = main("", "y = R.split(x, [3, 6])")
    assert first_of(body, [np.ones(9, np.float32)], name) is None
    result = from_tvm(program(body)).main.body.type
    assert isinstance(result, TupleType) and len(result.fields) == 3
    for of in (body, body.replace('("n",)', "(4,)")):
        report = judge_passes(program(of), [np.ones(4, np.float32)], name)
        assert report.first is not None and report.first.name == "LegalizeOps", report.first
        wrong = [v.name for v in report.verdicts if v.wrong]
        assert wrong == ["LegalizeOps", "the compiled code"], "which ends in std::bad_alloc"


@pytest.mark.parametrize("op", ["max", "min"])
@pytest.mark.parametrize("size", ["0", '"n"'])
def test_a_maximum_of_nothing_is_judged(op: str, size: str) -> None:
    """Over a fixed size as over a symbolic one: the kernel leaves its result unwritten, and runs on."""
    body = main("", f"y = R.{op}(x, axis=[1])", x=f'(3, {size}), "float32"')
    report = judge_passes(program(body), [np.zeros((3, 0), np.float32)])
    assert report.verdicts[0].how == "begin" and f"{op} of no elements" in report.verdicts[0].detail
    assert report.first is not None and (report.first.name, report.first.why) == ("LegalizeOps", "unwritten output")
    if size == '"n"':
        assert judge_passes(program(body), [np.ones((3, 2), np.float32)]).holds
    calls = judge_kernels(program(body), [np.zeros((3, 0), np.float32)])
    assert calls.first is not None and "never written" in calls.first.detail


KERNEL = """
    @T.prim_func(private=True, s_tir=True)
    def half(A: T.Buffer((T.int64(4),), "float32"), B: T.Buffer((T.int64(4),), "float32")):
        for i in range(T.int64(4)):
            with T.sblock("b"):
                v = T.axis.spatial(T.int64(4), i)
                B[v] = A[v] * T.float32(0.5)
                A[v] = {value}

    @R.function
    def main(x: R.Tensor((4,), "float32")) -> R.Tensor((4,), "float32"):
        cls = Module
        a = R.add(x, x)
        b = R.{call}
        return b
"""
FRESH = 'call_tir(cls.half, (a,), out_ty=R.Tensor((4,), "float32"))'
IN_PLACE = (
    "call_tir_inplace(cls.half, (a,), inplace_indices=[0, -1],"
    ' out_ty=[R.Tensor((4,), "float32"), R.Tensor((4,), "float32")])[1]'
)


def test_a_kernel_that_changes_its_operand_is_noticed() -> None:
    """What nobody reads afterwards too; not where the call says so, or where the same bits are stored."""
    wrong = program(KERNEL.format(value="T.float32(7)", call=FRESH))
    first = judge_kernels(wrong, [X]).first
    assert first is not None and (first.index, first.name, first.how) == (1, "half", "wrong")
    assert "it changes its operand 0 in place, which is no result of the call: element (0,) is 7.0" in first.detail
    passes = judge_passes(wrong, [X])
    assert passes.first is not None and (passes.first.name, passes.first.why) == ("the module", "tvm.C5")
    for value, call in (("A[v]", FRESH), ("T.float32(7)", IN_PLACE)):
        right = program(KERNEL.format(value=value, call=call))
        assert [v.how for v in judge_kernels(right, [X]).verdicts] == ["right", "right"]


def test_what_a_module_says_of_results() -> None:
    assert declared_results([program(KERNEL.format(value="A[v]", call=FRESH))]) == {"half": frozenset({1})}
    assert declared_results([program(KERNEL.format(value="A[v]", call=IN_PLACE))]) == {"half": frozenset({0, 1})}


def test_a_module_that_is_not_read_is_not_called_right(tmp_path: Path) -> None:
    """Of the passes behind it something is known, of the first one nothing: exit code 5."""
    file = tmp_path / "m.py"
    for line, code in (("y = R.argmax(x, axis=0)", 5), ("y = R.max(x, axis=[0])", 0)):
        file.write_text(HEAD + main("", line), "utf-8")
        assert judge_inside(TvmRequest(file, True, False, inputs={"x": X}), ["tvm:default"], Screen(), False) == code


BYTES = """
    @R.function
    def main(x: R.Tensor((16, 16), "float8_e5m2")) -> R.Tensor((16, 16), "float32"):
        y = R.astype(x, "float32")
        return y
"""
TWICE = """
    @R.function
    def main(x: R.Tensor((16, 16), "float32")) -> R.Tensor((16, 16), "float32"):
        with R.dataflow():
            y = R.astype(x, "{of}")
            z = R.astype(y, "float32")
            R.output(z)
        return z
"""


def test_floats_of_eight_bits_have_every_code(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """TVM's own conversion is wrong on a few of them: normal numbers, which are most of the data, show nothing."""
    file = tmp_path / "m.py"
    file.write_text(HEAD + BYTES, "utf-8")
    assert judge_inside(TvmRequest(file, False, True), ["tvm:default"], Screen(), False) == 1
    assert "of 256 outside" in capsys.readouterr().out
    given = np.ones((16, 16), np.float32).astype(DTYPES["float8_e5m2"].numpy)
    assert judge_inside(TvmRequest(file, False, True, inputs={"x": given}), ["tvm:default"], Screen(), False) == 0


def test_a_conversion_that_is_left_out_is_wrong_in_the_kernel_too() -> None:
    """A number in the interval of a conversion to fewer bits is not yet a number of so few bits."""
    x = np.random.default_rng(0).standard_normal((16, 16)).astype(np.float32)
    body = TWICE.format(of="float8_e4m3fn")
    first = judge_kernels(program(body), [x], "cpu").first
    assert first is not None and "among numbers of float8_e4m3fn" in first.detail
    changed = [v.name for v in judge_passes(program(body), [x], "cpu").verdicts if v.wrong]
    assert changed == ["tirx.FP8ComputeLegalize", "the compiled code"], "a fault is told once"
    assert judge_kernels(program(TWICE.format(of="float16")), [x], "cpu").holds
