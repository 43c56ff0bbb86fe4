"""What is wrong in a StableHLO text is said with its line and a caret."""

from __future__ import annotations

import random
import re
from pathlib import Path

import pytest

from assay.lower.frontends.stablehlo import is_stablehlo, parse_stablehlo, translate
from assay.lower.frontends.stablehlo.words import MOST_DEPTH
from assay.semantics.errors import AssayError, Invalid, Unsupported
from assay.semantics.text.module_text import show
from tests.verify.app.test_cli import assay

PROGRAMS = Path(__file__).parent / "programs"
T = "tensor<2xf32>"


def body(text: str, of: str = T) -> str:
    """A main of one parameter that gives %0."""
    return f"func.func @main(%x: {of}) -> {of} {{\n  {text}\n  return %0 : {of}\n}}"


CASES = [
    ("func.func @main() { ~ }", "stablehlo.C1", "~", "'~' is no part of StableHLO"),
    ('func.func @main() { "a\n" }', "stablehlo.C1", '"a', "no end on its line"),
    (body(f"%0 = stablehlo.add %x, %x {T}"), "stablehlo.C1", "tensor<", "an operation expected"),
    (body(f"%0 = stablehlo.add(%x, %x : {T}"), "stablehlo.C1", ": ", "')' expected"),
    (body(f'%0 = "stablehlo.add"(%x, %x) : ({T}, {T}) {T}'), "stablehlo.C1", "tensor<", "an operation expected"),
    (body("%0 = stablehlo.add %x, %x : tensor<2xfoo>"), "stablehlo.C1", "foo", "an element type expected"),
    (body(f"%0 = stablehlo.slice %x [0:2 : ({T}) -> {T}"), "stablehlo.C1", "(", "a whole number expected"),
    ("func.func @main() { return }\nfunc.func @main() { return }", "stablehlo.C1", "func", "two functions"),
    ("func.func @main(%x: tensor<2xf32>)", "stablehlo.C5", "func", "has no body"),
    (body(f"%0 = stablehlo.constant dense<{'1' * 301}> : {T}"), "stablehlo.C8", "1", "more than 300 digits"),
    (body(f"%0 = stablehlo.frobnicate %x : {T}"), "stablehlo.C3", "stablehlo.frobnicate", "frobnicate is not handled"),
    (body(f'%0 = "tosa.add"(%x, %x) : ({T}, {T}) -> {T}'), "stablehlo.C3", '"tosa', "those of stablehlo"),
    (body(f"%0 = stablehlo.custom_call @foo(%x) : ({T}) -> {T}"), "stablehlo.C3", "stablehlo.c", "custom call @foo"),
    (body(f'%0 = "stablehlo.all_gather"(%x) : ({T}) -> {T}'), "stablehlo.C3", '"stablehlo', "several processes"),
    (body(f'%0 = "stablehlo.rng"(%x) : ({T}) -> {T}'), "stablehlo.C3", '"stablehlo', "random numbers"),
    ("func.func @main(%x: tensor<2xcomplex<f32>>) { return }", "stablehlo.C4", "%x", "complex numbers: not handled"),
    ("func.func @main(%x: tensor<*xf32>) { return }", "stablehlo.C4", "%x", "unknown rank"),
    ("func.func @main(%x: tensor<2xf6E2M3FN>) { return }", "stablehlo.C4", "%x", "elements of type f6E2M3FN"),
    (body(f"%0 = stablehlo.add %x, %y : {T}"), "stablehlo.C5", "%y", "%y is not defined here"),
    (body(f"%0 = stablehlo.abs %x : {T}\n  %0 = stablehlo.abs %x : {T}"), "stablehlo.C5", "stablehlo.abs", "twice"),
    (body(f"%0 = func.call @f(%x) : ({T}) -> {T}"), "stablehlo.C5", "func.call", "no function @f"),
    (body(f"%0 = func.call @main(%x) : ({T}) -> {T}"), "stablehlo.C5", "func.call", "calls itself"),
    (body(f"%0 = stablehlo.add %x : {T}"), "stablehlo.C6", "stablehlo.add", "2 operands are wanted, not 1"),
    (body(f"%0 = stablehlo.not %x : {T}"), "stablehlo.C6", "stablehlo.not", "bool or int or uint is wanted"),
    (body("%0 = stablehlo.abs %x : tensor<3xf32>"), "stablehlo.C6", "stablehlo.abs", "the text says tensor<3xfloat32>"),
    (body(f"%0 = stablehlo.transpose %x, dims = [1] : ({T}) -> {T}"), "stablehlo.C6", "stablehlo.t", "from 0 to 0"),
    (body(f"%0 = stablehlo.reshape %x : ({T}) -> tensor<3xf32>"), "reshape.C2", "stablehlo.reshape", "one size"),
    (body(f'%0 = "stablehlo.iota"() : () -> {T}'), "stablehlo.C6", '"stablehlo', "iota_dimension is missing"),
    (body(f"%0 = stablehlo.constant dense<[1.0]> : {T}"), "stablehlo.C8", "[1.0]", "stand as (1,)"),
    (body(f"%0 = stablehlo.constant dense<[1.0, true]> : {T}"), "stablehlo.C8", "[1.0", "does not have"),
    (body(f'%0 = stablehlo.constant dense<"0x00"> : {T}'), "stablehlo.C8", '"0x00"', "1 bytes; 8 are wanted"),
    (body("%0 = stablehlo.constant dense<300> : tensor<2xi8>"), "stablehlo.C8", "300", "int8 does not have"),
    (body(f"%0 = stablehlo.convert %x : ({T}) -> tensor<2xf64>\n  %1 = chlo.bessel_i1e %0 : tensor<2xf64>"),
     "stablehlo.C7", "chlo.bessel_i1e", "elements of float64 is not handled"),
]  # fmt: skip


@pytest.mark.parametrize(("text", "label", "at", "message"), CASES, ids=range(len(CASES)))
def test_a_wrong_text_is_refused_at_its_place(text: str, label: str, at: str, message: str) -> None:
    with pytest.raises(Invalid) as told:
        parse_stablehlo(text, "bad.mlir")
    assert (told.value.label, message in told.value.message) == (label, True), str(told.value)
    line, caret = told.value.message.split("\n")[1:3]
    assert line[caret.index("^") :].startswith(at)
    assert re.match(r"bad\.mlir:\d+:\d+: ", str(told.value))


def test_the_command_line_says_it_and_exits_with_2(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "bad.mlir"
    path.write_text(CASES[10][0])
    for command in ("run", "check"):
        assert assay(monkeypatch, command, path) == 2
        told = capsys.readouterr().err
        assert "bad.mlir:2:8: the operation stablehlo.frobnicate is not handled" in told
        assert "%0 = stablehlo.frobnicate %x" in told and "[stablehlo.C3]" in told


# --- limits -----------------------------------------------------------------------------------------------------------


def test_brackets_inside_one_another_are_counted() -> None:
    deep = MOST_DEPTH + 1
    for nested in ("[" * deep + "]" * deep, "{a = " * deep + "1" + "}" * deep):
        with pytest.raises(Invalid, match="brackets inside one another") as told:
            parse_stablehlo(f"module attributes {{a = {nested}}} {{}}")
        assert told.value.label == "stablehlo.C2"


def test_deep_regions_are_read_without_recursion() -> None:
    depth = MOST_DEPTH // 3
    text = "func.func @main(%p: tensor<i1>, %x: tensor<f32>) -> tensor<f32> {\n"
    for k in range(depth):
        text += f'%a{k} = "stablehlo.if"(%p) ({{\n'
    text += "stablehlo.return %x : tensor<f32>\n"
    for k in reversed(range(depth)):
        text += "}, { stablehlo.return %x : tensor<f32> }) : (tensor<i1>) -> tensor<f32>\n"
        text += f"stablehlo.return %a{k} : tensor<f32>\n" if k else "return %a0 : tensor<f32>\n}"
    assert parse_stablehlo(text).main.params[0].name == "p"


def test_operations_of_calls_that_are_translated_each_time_are_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(translate, "MOST_OPERATIONS", 1000)
    of = "tensor<?xf32>"
    text = f"func.func @f0(%x: {of}) -> {of} {{ %0 = stablehlo.abs %x : {of}\n return %0 : {of} }}\n"
    for k in range(1, 30):
        call = f"%0 = call @f{k - 1}(%x) : ({of}) -> {of}\n %1 = call @f{k - 1}(%0) : ({of}) -> {of}\n"
        text += f"func.func @f{k}(%x: {of}) -> {of} {{ {call} return %1 : {of} }}\n"
    with pytest.raises(Unsupported, match="more than 1,000 operations") as told:
        parse_stablehlo(text)
    assert told.value.label == "stablehlo.C2"


def test_damaged_texts_are_refused_and_never_crash() -> None:
    rng = random.Random(1)
    texts = [p.read_text() for p in sorted(PROGRAMS.glob("*.mlir"))]
    words = re.compile(r"[A-Za-z_][\w.]*|\d+|[^\w\s]")
    for _ in range(60):
        text = rng.choice(texts)
        for _ in range(rng.randint(1, 3)):
            found = rng.choice(list(words.finditer(text)))
            other = rng.choice(
                ("", "0", "7", "-1", "true", "i32", "stablehlo.sort", "%x", rng.choice(words.findall(text)))
            )
            text = text[: found.start()] + other + text[found.end() :]
        try:
            parse_stablehlo(text)
        except AssayError as wrong:
            assert isinstance(wrong, Invalid), wrong


# --- what a file holds ------------------------------------------------------------------------------------------------

TWO = f"""module @one {{ {body(f"%0 = stablehlo.abs %x : {T}")} }}
// -----
{body(f"%0 = stablehlo.negate %x : {T}")}"""


def test_one_of_several_modules_is_chosen_by_name_or_number() -> None:
    for name in ("one", "1"):
        (call,) = [n for n in parse_stablehlo(TWO, name=name).main.params]
        assert call.name == "x"
    assert "negative" in repr(parse_stablehlo(TWO, name="2").main)
    for wrong in (None, "3"):
        with pytest.raises(Invalid, match="has the modules 1 to 2") as told:
            parse_stablehlo(TWO, "two.mlir", wrong)
        assert told.value.label == "stablehlo.C5"


def test_a_text_is_known_by_how_it_begins() -> None:
    assert is_stablehlo("// RUN: x\n\nmodule @a {}") and is_stablehlo('"builtin.module"() ({}) : () -> ()')
    assert (
        is_stablehlo("func.func private @f()") and not is_stablehlo("def @main() { 1 }") and not is_stablehlo("x = 1")
    )


def test_the_generic_form_means_the_same() -> None:
    short = body(f"%c = stablehlo.constant dense<[1.0, 2.0]> : {T}\n  %0 = stablehlo.add %x, %c : {T}")
    generic = f""""builtin.module"() <{{sym_name = "m"}}> ({{
  "func.func"() <{{function_type = ({T}) -> {T}, sym_name = "main"}}> ({{
  ^bb0(%x: {T}):
    %c = "stablehlo.constant"() <{{value = dense<[1.0, 2.0]> : {T}}}> : () -> {T}
    %0 = "stablehlo.add"(%x, %c) : ({T}, {T}) -> {T}
    "func.return"(%0) : ({T}) -> ()
  }}) : () -> ()
}}) : () -> ()"""
    first, second = (show(parse_stablehlo(t)) for t in (short, generic))
    assert first == second
