"""Rules, code and programs in step (specs/verify.md, "Rules in step"), and what the claims of programs are held to."""

from __future__ import annotations

import re
from dataclasses import replace
from functools import cache
from pathlib import Path

import numpy as np
import pytest

from assay.lower.c import emit
from assay.semantics.errors import Invalid
from assay.semantics.tensor import PrimFunc
from assay.verify.c.compiled import compile_c
from assay.verify.conform.claims import claim_faults
from assay.verify.conform.definition import faults_of, inputs_of
from assay.verify.conform.printer import show_program
from assay.verify.conform.program_cases import OURS
from assay.verify.conform.programs import ProgramText
from assay.verify.conform.reader import parse_program, read_program
from tests.docs.rules import Shown, citations, out_of_step, programs, rules
from tests.lower.memory.planned import alone
from tests.places import ROOT


@cache
def known() -> dict[str, str]:
    return rules(ROOT)


@cache
def shown() -> dict[str, list[Shown]]:
    return programs(ROOT)


def test_rules_code_and_programs_are_in_step() -> None:
    assert len(known()) >= 91
    assert out_of_step(known(), citations(ROOT), shown()) == []


def test_a_rule_without_code_or_without_programs_is_found() -> None:
    found = {"M1.1": ["errors.py:AssayError"], "M1.2": ["run.py:run"], "M8.8": ["x.py:f"]}
    named = {"M1.1": [Shown("a.py", "x", False)], "M1.2": [Shown("a.py", "y", False), Shown("a.py", "z", True)],
             "M7.7": [Shown("b.py", "w", True)]}  # fmt: skip
    assert out_of_step({"M1.1": "", "M1.2": "", "M1.3": ""}, found, named) == [
        "M1.1: no program names it that fails",
        "M1.3: no function cites it",
        "M1.3: no program names it that succeeds",
        "M1.3: no program names it that fails",
        "M8.8: cited by x.py:f, and there is no such rule",
        "M7.7: named by b.py, and there is no such rule",
    ]


def test_a_rule_without_its_anchor_is_found(tmp_path: Path) -> None:
    (tmp_path / "specs").mkdir()
    page = tmp_path / "specs" / "semantics.md"
    page.write_text('- <a id="m1.1"></a>M1.1 One.\n- M1.2 Two.\n')
    with pytest.raises(ValueError, match=r"rules without an anchor: M1\.2"):
        rules(tmp_path)
    page.write_text('- <a id="m1.1"></a>M1.1 One.\n- <a id="m1.1"></a>M1.2 Two.\n')
    with pytest.raises(ValueError, match=r"the anchor of M1\.2 is m1\.1"):
        rules(tmp_path)


def test_a_citation_is_found_in_docstrings_alone(tmp_path: Path) -> None:
    for room in ("semantics", "interp", "lower", "verify"):
        (tmp_path / room).mkdir()
    (tmp_path / "interp" / "a.py").write_text(
        '"""rule M1.1"""\ndef f():\n    """Steps (rules M1.2,\n    M1.3 and M6.12a)."""\n    x = 1  # rule M1.4\n'
    )
    assert citations(tmp_path) == {n: ["interp/a.py:f"] for n in ("M1.2", "M1.3", "M6.12a")}


def test_programs_that_the_chapter_names_are_there() -> None:
    files = {p.stem: p for p in (OURS / "rules").glob("*.py")}
    text = (ROOT / "specs" / "semantics.md").read_text(encoding="utf-8")
    named = set(re.findall(rf"`((?:{'|'.join(files)})/\w+)`", text))
    read_all = {stem: read_program(p) for stem, p in files.items()}
    there = {f"{stem}/{n}" for stem, q in read_all.items() for n in [*q.cases, *q.claims]}
    assert len(named) >= 25
    assert named - there == set()


# --- what a claim is held to ------------------------------------------------------------------------------------------

HEAD = """
@I.ir_module
class Module:
    @R.function
    def main(x: R.Tensor((2,), dtype="int32")) -> R.Tensor((2,), dtype="int32"):
        return R.add(x, x)

    @R.function
    def other(x: R.Tensor((2,), dtype="int32")) -> R.Tensor((2,), dtype="int32"):
        return R.add(x, R.add(x, x))

    @T.prim_func(s_tir=True)
    def f(x: T.Buffer((T.int64(1),), "int32"), o: T.Buffer((T.int64(1),), "int32")):
        assert x[0] > 0, ("RuntimeError", ["it is {}"], [x[0]])
        o[0] = 7 // x[0]

    @R.function(pure=False)
    def tells(x: R.Tensor((2,), dtype="int32")) -> R.Tensor((2,), dtype="int32"):
        _ = R.print(x, format="x is {}")
        return x

"""


def read(text: str) -> ProgramText:
    return parse_program(HEAD + text, "claims.py")


def faults(text: str) -> list[str]:
    program = read(text)
    (one,) = [*program.cases.values(), *program.claims.values()]
    return faults_of(program, one) if hasattr(one, "inputs") else claim_faults(program, one)


PLANTED = [
    ('A.case("a", inputs={"x": [1, 2]}, expect=A.wrong({"output_0": [2, 4]}))', "planted results are not"),
    ('A.case("a", inputs={"x": [1]}, function="f", expect=A.wrong({"o": [7]}))', "are those of the definition"),
    ('A.case("a", inputs={"x": [-1]}, function="f", expect=A.trap("assertion", says="it is 3"))', "does not say"),
    ('A.case("a", inputs={"x": [-1]}, function="f", expect=A.wrong({"o": [7]}))', "expected is other than a trap"),
    ('A.case("a", inputs={"x": [1, 2, 3]}, expect=A.invalid("input.C3"))', "expected is input.C3, and it is said"),
    ('A.case("a", inputs={"x": [1, 2]}, expect=A.invalid("input.C4"))', "expected is input.C4, and the run gives"),
    ('A.case("a", inputs={"x": [1, 2]}, expect=A.unpredictable())', "the definition says what comes of this"),
    ('A.case("a", inputs={"x": [1, 2]}, function="tells", expect={"output_0": [1, 2]}, prints=["x"])', "printed"),
    ('A.same("a", "main", "other")', "main and other differ"),
    ('A.differs("a", "main", "main", after="anf erased")', "main and main are equal"),
    ('A.refused("a", """@R.function\ndef main(x: R.Tensor((2,), "int32")):\n    return x\n""", label="text.C1")',
     "expected is text.C1, and the text is a program"),
    ('A.refused("a", """@R.function\ndef main(x: R.Tensor((2,), "int7")):\n    return x\n""", label="text.C1")',
     "expected is text.C1, and it is refused so"),
]  # fmt: skip


@pytest.mark.parametrize(("text", "said"), PLANTED, ids=[str(i) for i in range(len(PLANTED))])
def test_a_claim_that_does_not_hold_is_found(text: str, said: str) -> None:
    (found,) = faults(text)
    assert said in found


@pytest.mark.parametrize(
    ("text", "label", "said"),
    [
        ('A.case("a", inputs={"x": [1, 2]}, expect=A.invalid("no label"))', "case.C1", "is no label"),
        ('A.case("a", inputs={"x": [1, 2]}, expect=A.unpredictable(3))', "case.C1", "takes nothing"),
        ('A.case("a", inputs={"x": [1, 2]}, expect=A.wrong())', "case.C1", "A.wrong takes the planted results"),
        ('A.case("a", inputs={"x": [1, 2]}, expect=A.trap("shape"), rules="5.3")', "case.C1", "is no number of a rule"),
        ('A.case("a", inputs={"x": [1, 2]}, expect=A.trap("shape"), prints="x")', "case.C1", "the printed texts"),
        ('A.case("a", inputs={"x": [1, 2]}, expect=A.trap("shape"), offsets=[1])', "case.C1", "by name is wanted"),
        ('A.case("a", inputs={"x": [1, 2]}, expect=A.trap("shape"), externs={"g": "h"})', "text.C16", "no function h"),
        ('A.refused("a", "text")', "case.C1", "this is A.refused"),
        ('A.same("a", "main")', "case.C1", "this is A.same"),
        ('A.same("a", "main", "main", after="fuse")', "case.C1", "there is no 'fuse' here"),
        ('A.same("a", "main", "nobody")', "text.C16", "no function nobody"),
        ('A.same("a", "main", "main")\nA.differs("a", "main", "other")', "case.C2", "two cases are called a"),
    ],
)  # fmt: skip
def test_a_claim_of_another_form_is_refused(text: str, label: str, said: str) -> None:
    with pytest.raises(Invalid, match=re.escape(said)) as wrong:
        read(text)
    assert wrong.value.label == label


def test_a_slot_that_is_not_there() -> None:
    with pytest.raises(Invalid, match="there is no slot q that is placed") as wrong:
        faults('A.case("a", inputs={"x": [1, 2]}, expect={"output_0": [2, 4]}, offsets={"q": 0})')
    assert wrong.value.label == "case.C3"


def test_claims_are_written_and_read_again() -> None:
    text = '''
A.case("a", inputs={"x": [1, 2]}, expect=A.wrong({"output_0": [1, 1]}), rules="M5.2 vm.B3", source="s")
A.case("b", inputs={"x": [-1]}, function="f", expect=A.trap("assertion", says="it is -1"), externs={"g": "main"})
A.case("c", inputs={"x": [1, 2, 3]}, expect=A.invalid("input.C4"))
A.case("d", inputs={"x": [1, 2]}, expect=A.unpredictable())
A.case("e", inputs={"x": [1, 2]}, expect={"output_0": [2, 4]}, prints=["p"], offsets={"a": 64})
A.refused("f", """@R.function
def main(x): return x
""", label="text.C1", stage="anf devices", devices="llvm; cuda", rules="M1.1")
A.differs("g", "main", "other", after="anf", source="s")
'''
    program = read(text)
    again = parse_program(show_program(program))
    assert show_program(again) == show_program(program)
    for name, one in {**program.cases, **program.claims}.items():
        other = {**again.cases, **again.claims}[name]
        assert {k: v for k, v in vars(one).items() if k not in ("inputs", "expected", "where")} == {
            k: v for k, v in vars(other).items() if k not in ("inputs", "expected", "where")
        }
    assert again.cases["a"].expected.refuted and again.cases["b"].expected.says == "it is -1"


# --- what the programs say of C ---------------------------------------------------------------------------------------


def test_c_gives_what_the_programs_of_m10_expect() -> None:
    """The same bits in C, in the reproducible mode; what is planted is none of them."""
    program = read_program(OURS / "rules" / "reproducible.py")
    compiled = {}
    for case in program.cases.values():
        kernel = program.module.definitions[program.function(case)]
        if not isinstance(kernel, PrimFunc):
            continue
        inputs = inputs_of(program, case)
        if kernel.name not in compiled:
            compiled[kernel.name] = compile_c(emit(alone(replace(kernel, name="k")), "m"), reproducible=True)
        made = compiled[kernel.name].run({n: np.asarray(a) for n, a in inputs.items()})
        for name, expected in case.expected.results.items():
            same = made[name].tobytes() == np.asarray(expected, made[name].dtype).tobytes()
            assert same is not case.expected.refuted, case.name
    assert len(compiled) == 3
