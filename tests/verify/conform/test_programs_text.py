"""The texts of programs with cases: what is read, what is refused and where, and what is written."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, strategies as st

from assay.semantics.dtypes import DTYPES
from assay.semantics.errors import Invalid
from assay.verify.conform.definition import faults_of
from assay.verify.conform.printer import show_program
from assay.verify.conform.programs import TRAPS, ProgramText
from assay.verify.conform.reader import parse_program
from assay.verify.oracle.verdict import differing
from tests.places import ROOT, SPECS

HEAD = """n = TypeVar("n")


@I.ir_module
class Module:
    @R.function
    def main(x: R.Tensor((n, 2), dtype="{0}"), y: R.Tensor((2,), dtype="{0}")) -> R.Tensor((n, 2), dtype="{0}"):
        return R.add(x, y)


"""


def read(case: str, of: str = "int32") -> ProgramText:
    return parse_program(HEAD.format(of) + case, "sums.py")


def inputs(text: str, of: str = "int32") -> Any:
    """The input x of one row or more, as it is written."""
    program = read(f'A.case("a", inputs={{"x": {text}, "y": [0, 0]}}, expect=A.trap("shape"))', of)
    return program.cases["a"].inputs["x"]


def same(one: Any, other: Any) -> bool:
    one, other = np.asarray(one), np.asarray(other)
    return bool(
        one.dtype == other.dtype and one.shape == other.shape and not differing(one, other, one.dtype.kind != "b").any()
    )


# --- what is read -----------------------------------------------------------------------------------------------------


def test_the_example_of_the_chapter() -> None:
    chapter = (SPECS / "verify.md").read_text("utf-8").partition("\n## Programs with cases\n")[2]
    text = chapter.partition("```python\n")[2].partition("```")[0]
    program = parse_program(text)
    assert list(program.cases) == ["signs", "by_zero", "least_by_minus_one"]
    assert {n: faults_of(program, c) for n, c in program.cases.items()} == {n: [] for n in program.cases}
    assert program.cases["signs"].source == "by hand: -7 = 2 * -4 + 1"
    assert program.cases["by_zero"].expected.trap == "division by zero"
    assert program.cases["least_by_minus_one"].expected.open["output_0"].tolist() == [True, False]
    assert program.title.startswith("The quotient of whole numbers")


@pytest.mark.parametrize(
    ("of", "text", "rows"),
    [
        ("int32", "[[1, -2], [0x7F, A.max]]", [[1, -2], [127, 2**31 - 1]]),
        ("int32", "A.full((3, 2), A.min)", [[-(2**31)] * 2] * 3),
        ("int64", "A.arange((2, 2))", [[0, 1], [2, 3]]),
        ("uint64", "A.arange((1, 2), 18446744073709551614)", [[2**64 - 2, 2**64 - 1]]),
        ("int8", "A.arange((2, 2), start=3, step=-2)", [[3, 1], [-1, -3]]),
        ("float32", "A.arange((2, 2), 0.5, 0.25)", [[0.5, 0.75], [1.0, 1.25]]),
        ("float32", "A.cycle((2, 2), [nan, -inf, -0.0])", [[np.nan, -np.inf], [-0.0, np.nan]]),
        ("float32", "A.full((0, 2), 0)", np.zeros((0, 2))),
        ("float32", '[[float("nan"), -float("inf")]]', [[np.nan, -np.inf]]),
        ("float32", '[["0x1.8p-3", "-0x1p-149"]]', [[0.1875, -(2.0**-149)]]),
        ("float32", "[[0.1, 16777216]]", [[np.float32(0.1), 2.0**24]]),
        ("float16", "[[A.max, A.subnormal]]", [[65504.0, 2.0**-24]]),
        ("bfloat16", "[[1.0078125, -A.normal]]", [[1.0078125, -(2.0**-126)]]),
        ("float8_e4m3fn", "[[448.0, nan]]", [[448.0, np.nan]]),
        ("float8_e5m2", "[[inf, -57344.0]]", [[np.inf, -57344.0]]),
    ],
)
def test_tensors(of: str, text: str, rows: Any) -> None:
    wanted = np.asarray(rows)
    assert same(inputs(text, of), wanted.astype(DTYPES[of].numpy))


def test_parts_of_values() -> None:
    text = """
@R.function
def main(p: R.Tuple(R.Tensor((2,), "int32"), R.Tensor((), "bool")), s: R.Shape([3])) -> R.Tuple(
    R.Tensor((2,), "int32"), R.Tuple(R.Tensor((), "bool"), R.Tensor((2,), "int32"))
):
    return (p[0], (p[1], p[0]))


A.case("a", inputs={"p": ([1, 2], True), "s": [3]}, expect={"output_0": [1, 2], "output_1": (True, [1, 2])})
A.case("b", inputs={"p": ([1, 2], True), "s": [3]}, expect={"output_0": [1, 2], "output_1": (True, [1, 3])})
"""
    program = parse_program(text)
    assert faults_of(program, program.cases["a"]) == []
    (fault,) = faults_of(program, program.cases["b"])
    assert fault == "output_1.1 element (1,): expected is 3, the definition gives 2"
    assert show_program(parse_program(show_program(program))) == show_program(program)


# --- what is refused --------------------------------------------------------------------------------------------------

GOOD = 'A.case("a", inputs={"x": [[1, 2]], "y": [1, 2]}, expect={"output_0": [[2, 4]]})'
WRONG = [
    ("case.C1", '"y": [1, 2]}', '"y": [1, 2]}, colour=3', "3", "a case takes inputs, expect"),
    ("case.C1", ', expect={"output_0": [[2, 4]]}', "", "A.case", "a case is A.case("),
    ("case.C1", '{"x": [[1, 2]], "y": [1, 2]}', "[1]", "[1]", "the inputs by name"),
    ("case.C1", "A.case", "A.kase", "A.kase", "A.kase has no place here"),
    ("case.C1", "A.case", "print(A.case", "A.case", "a statement of its own"),
    ("case.C1", "[[2, 4]]}", "[[2, 4]]}, meaning=1", "1", "True or False is wanted"),
    ("case.C1", '{"output_0": [[2, 4]]}', 'A.trap("shape"), meaning=True', "True", "meaning is said of results"),
    ("case.C1", "[[2, 4]]}", "A.within()}", "A.within()", "A.within takes the result"),
    ("case.C2", '"a"', '"a b"', '"a b"', "letters, digits"),
    ("case.C3", '"y"', '"z"', '"z"', "'z' is no input; there are x, y"),
    ("case.C3", ', "y": [1, 2]', "", "{", "the input 'y' is missing"),
    ("case.C3", '"output_0": [[2, 4]]', "", "{}", "the result 'output_0' is missing"),
    ("case.C3", '"output_0"', '"out"', '"out"', "'out' is no result; there are output_0"),
    ("case.C4", "[[1, 2]]", "[1, 2]", "1", "a list is wanted here: the tensor has 2 axes"),
    ("case.C4", "[[1, 2]]", "[[1, 2], [3]]", "[3]", "1 elements where the lists before have 2"),
    ("case.C4", "[[1, 2]]", "[[1, 2, 3]]", "[[1, 2, 3]]", "axis 1 of input 'x' is 3, expected 2"),
    ("case.C4", "[[2, 4]]", "[[2, 4], [2, 4]]", "[[2, 4], [2, 4]]", "axis 0 of result 'output_0' is 2, expected 1"),
    ("case.C4", "[[1, 2]]", "[]", "[]", "write A.full((0, 0, ), 0)"),
    ("case.C4", "[[1, 2]]", "[[1, 2.0]]", "2.0", "a whole number of int32"),
    ("case.C4", "[[1, 2]]", "[[1, 2147483648]]", "2147483648", "does not fit int32"),
    ("case.C4", "[[1, 2]]", "[[1, True]]", "True", "a number of int32 is wanted"),
    ("case.C4", "[[1, 2]]", "[[1, nan]]", "nan", "a whole number of int32"),
    ("case.C4", "[[1, 2]]", "[[1, x]]", "x", "a number of int32 is wanted"),
    ("case.C4", "[[1, 2]]", "[[1, A.normal]]", "A.normal", "there is no A.normal of int32"),
    ("case.C4", "[[1, 2]]", "[[1, A.open]]", "A.open", "only an element of a result is open"),
    ("case.C4", "[[1, 2]]", "A.full((1,), 3)", "(1,)", "1 sizes; the tensor has 2 axes"),
    ("case.C4", "[[1, 2]]", "A.full((1, 2))", "A.full((1, 2))", "A.full takes (shape, value)"),
    ("case.C4", "[[1, 2]]", "A.full(2, 3)", "2", "a shape is wanted"),
    ("case.C4", "[[1, 2]]", "A.full((99999, 99999), 3)", "A.full((99999, 99999), 3)", "a tensor of a case has at most"),
    ("case.C4", "[[1, 2]]", "A.arange((1, 2), 2147483647)", "A.arange((1, 2), 2147483647)", "does not fit int32"),
    ("case.C4", "[[1, 2]]", "A.cycle((1, 2), [])", "[]", "A.cycle takes the list"),
    ("case.C5", '{"output_0": [[2, 4]]}', 'A.trap("boom")', '"boom"', "no trap is called so"),
    ("text.C16", "[[2, 4]]}", '[[2, 4]]}, function="g"', '"g"', "no function g"),
]


@pytest.mark.parametrize(("label", "old", "new", "at", "said"), WRONG, ids=[f"{w[0]}-{w[2][:20]}" for w in WRONG])
def test_what_is_wrong_is_said_with_its_place(label: str, old: str, new: str, at: str, said: str) -> None:
    read(GOOD)
    text = GOOD.replace(old, new, 1)
    with pytest.raises(Invalid, match=re.escape(said)) as wrong:
        read(text + ")" * (text.count("(") - text.count(")")))
    assert wrong.value.label == label
    where = str(wrong.value.where)
    line, column = map(int, where.removeprefix("sums.py:").split(":"))
    assert line == HEAD.count("\n") + 1
    assert text[column - 1 :].startswith(at)
    assert "^" in wrong.value.message


@pytest.mark.parametrize(
    ("of", "number", "said"),
    [
        ("float32", "16777217", "is no number of float32; the nearest is 16777216.0"),
        ("float32", '"0x1.0000001p0"', "is no number of float32"),
        ("float32", '"1.5"', "is no hexadecimal float"),
        ("float32", "1e39", "is no number of float32, which goes from"),
        ("bfloat16", "0.1", "0.1 is no number of bfloat16; the nearest is 0.10009765625"),
        ("float8_e4m3fn", "17.0", "17.0 is no number of float8_e4m3fn; the nearest is 16.0"),
        ("float8_e4m3fn", "inf", "inf is no number of float8_e4m3fn"),
        ("float16", "A.arange((2, 2), 2047)", "A.arange: 2049.0 is no number of float16"),
        ("float64", "A.arange((2, 2), 0, 0.1)", "A.arange would not be exact"),
        ("float32", "A.arange((1, 2), 0, 0.1)", "A.arange: 0.1 is no number of float32"),
        ("float32", "A.arange((1, 2), inf)", "A.arange counts from a finite number"),
    ],
)
def test_numbers_that_a_type_does_not_have(of: str, number: str, said: str) -> None:
    with pytest.raises(Invalid, match=re.escape(said)) as wrong:
        inputs(number if number.startswith("A.") else f"[[{number}, 0]]", of)
    assert wrong.value.label == "case.C4"


def test_two_cases_of_one_name() -> None:
    with pytest.raises(Invalid, match=r"two cases are called a") as wrong:
        read(f"{GOOD}\n{GOOD}")
    assert wrong.value.label == "case.C2"


def test_a_case_that_is_not_there() -> None:
    with pytest.raises(Invalid, match=r"there is no case 'b'; there are a") as wrong:
        read(GOOD).case("b")
    assert wrong.value.label == "case.C6"


def test_the_kinds_of_traps() -> None:
    table = (SPECS / "semantics.md").read_text("utf-8").partition("\n## Traps\n")[2].partition("\n| kind | when |\n")[2]
    kinds = re.findall(r"^\| ([a-z ]+) \|", table.partition("\n\n")[0], re.MULTILINE)
    assert sorted(TRAPS) == sorted(kinds)
    page = (SPECS / "labels.md").read_text("utf-8")
    rows = page.partition("## Kinds of traps")[2].splitlines()
    raised = {row.split(" | ")[0].removeprefix("| ") for row in rows if row.endswith(".py |")} - {"hooks"}
    assert "cast" in raised
    assert raised <= set(TRAPS), "a kind of trap that no case can expect"


# --- what is written --------------------------------------------------------------------------------------------------


@st.composite
def tensors(draw: st.DrawFn) -> tuple[str, Any]:
    """A tensor of two axes, the last of size 2: any bits of any type, or all the same, or counted."""
    of = DTYPES[draw(st.sampled_from(sorted(DTYPES)))]
    rows = draw(st.integers(0, 6))
    count = rows * 2
    match draw(st.sampled_from(["bits", "same", "counted"])):
        case "bits":
            data = draw(st.binary(min_size=count * of.itemsize, max_size=count * of.itemsize))
            array = np.frombuffer(data, np.uint8)
            if of.kind == "bool":
                array = array % 2
            elif of.bits < 8 and of.is_integer:
                array = (array.astype(np.int64) % (1 << of.bits) + int(of.min)).astype(np.int8)
                return of.name, array.astype(of.numpy).reshape(rows, 2)
            elif of.bits < 8:
                array = array % (1 << of.bits)
            return of.name, array.view(of.numpy).reshape(rows, 2)
        case "same":
            return of.name, np.full((rows, 2), draw(st.sampled_from([0, 1]))).astype(of.numpy)
        case _:
            return of.name, (np.arange(count) % 2 if of.bits < 8 else np.arange(count)).astype(of.numpy).reshape(
                rows, 2
            )


@given(tensors())
def test_what_is_written_is_read_again(case: tuple[str, Any]) -> None:
    of, array = case
    head = HEAD.format(of).replace("R.add(x, y)", "x")
    none, two = f"A.full((0, 2), {_zero(of)})", f"[{_zero(of)}, {_zero(of)}]"
    base = parse_program(f'{head}A.case("a", inputs={{"x": {none}, "y": {two}}}, expect={{"output_0": {none}}})')
    first = base.cases["a"]
    first.inputs["x"] = array  # type: ignore[index]
    first.expected.results["output_0"] = array  # type: ignore[index]
    text = show_program(base)
    again = parse_program(text)
    assert same(again.cases["a"].inputs["x"], array)
    assert same(again.cases["a"].expected.results["output_0"], array)
    assert show_program(again) == text


def _zero(of: str) -> str:
    return "False" if of == "bool" else "1" if of == "float8_e8m0fnu" else "0"


def test_all_that_a_case_says_is_written() -> None:
    text = '''"""A title
of two lines, with \\\\ and \\"\\"\\" in it."""
''' + HEAD.format("int8") + '''
A.case(
    "a",
    inputs={"x": [[127, 2]], "y": [1, 2]},
    expect={"output_0": [[A.open, 4]]},
    function="main",
    source="by 'hand' and \\"foot\\"",
)
A.case("b", inputs={"x": A.full((9, 2), 1), "y": [1, 2]}, expect={"output_0": A.within(A.cycle((9, 2), [2, 3]))})
A.case("c", inputs={"x": [[127, 2]], "y": [1, 2]}, expect={"output_0": [[-128, 4]]}, meaning=True)
A.case("d", inputs={"x": [[127, 2]], "y": [1, 2]}, expect=A.trap("shape"))
'''  # fmt: skip
    program = parse_program(text)
    written = show_program(program)
    again = parse_program(written)
    assert show_program(again) == written
    assert again.title == program.title == 'A title\nof two lines, with \\ and """ in it.'
    for name, case in program.cases.items():
        other = again.cases[name]
        assert (case.meaning, case.function, case.source) == (other.meaning, other.function, other.source)
        assert (case.expected.trap, case.expected.within) == (other.expected.trap, other.expected.within)
        assert {n: m.tolist() for n, m in case.expected.open.items()} == {
            n: m.tolist() for n, m in other.expected.open.items()
        }
    assert '"x": A.full((9, 2), 1)' in written


def test_programs_of_ours_are_written_and_read_again() -> None:
    for path in sorted((ROOT / "verify" / "conform" / "programs").rglob("*.py")):
        written = show_program(parse_program(path.read_text("utf-8"), str(path)))
        assert show_program(parse_program(written)) == written, path


def test_a_byte_order_mark_and_line_ends(tmp_path: Path) -> None:
    from assay.verify.conform.reader import read_program

    (tmp_path / "m.py").write_bytes(b"\xef\xbb\xbf" + (HEAD.format("int32") + GOOD).replace("\n", "\r\n").encode())
    assert list(read_program(tmp_path / "m.py").cases) == ["a"]
