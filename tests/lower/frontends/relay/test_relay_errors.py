"""What is wrong in a Relay text is said with its line and a caret (row R26)."""

from __future__ import annotations

import random
import re
from pathlib import Path

import numpy as np
import pytest

from assay.interp.graph import run
from assay.lower.frontends.relay import is_relay, parse_relay
from assay.semantics.errors import AssayError, Invalid, Unsupported

pytestmark = pytest.mark.row("R26")

ADDED = '{"root": 1, "nodes": [{"type_key": ""}, {"keys": ["tir.Add"], "data": [2]}, {"data": [3]}, {"attrs": {}}]}'

CASES = [
    ("def @main() { $ }", "relay.C1", "$ }", "'$' is no part of Relay"),
    ('def @main() { cast(1, dtype="int32) }', "relay.C1", '"int32', "quotation mark"),
    ("def @main() { 1 } /* more", "relay.C1", "/* more", "*/ is missing"),
    ("#[unknown]\ndef @main() { 1 }", "relay.C1", "#[unknown]", "#[unknown] is not known"),
    ('#[version = "0.0.9"]\ndef @main() { 1 }', "relay.C2", "#[version", "version 0.0.9"),
    ("v0.1.0\ndef @main() { 1 }", "relay.C2", "0.1.0", "version 0.1.0"),
    ("def @main( { 1 }", "relay.C3", "{ 1", "a name such as %x expected, found '{'"),
    ("def @main() { add(1 2) }", "relay.C3", "2)", "')' or ',' expected, found '2'"),
    ("def @main() { let x = 1; x }", "relay.C3", "x = 1", "a name such as %x expected"),
    ("def @main() { let @x = 1; 1 }", "relay.C3", "@x", "a name such as %x expected"),
    ("def @main() { let %x = 1 %x }", "relay.C3", "%x }", "';' expected, found '%x'"),
    ("def @main() { 1; }", "relay.C3", "}", "an expression expected"),
    ("def main() { 1 }", "relay.C3", "main", "@main"),
    ("def @main() { 1 } 2", "relay.C3", "2", "a definition or the end of the text expected"),
    ("let %x = 1; def @main() { 1 }", "relay.C3", "let", "a definition expected"),
    ("def @main() { if (True) { 1 } }", "relay.C3", "}", "'else' expected"),
    ("def @main() { ref(1, 2) }", "relay.C3", "ref", "ref takes 1 operands, 2 given"),
    ("def @main() { -%x }", "relay.C3", "%x", "a number expected after -"),
    ("def @main(%x: Tensor[(2), float32) { %x }", "relay.C3", ") {", "']' expected"),
    ("def @main(%x: [2]) { %x }", "relay.C3", "[2]", "a type expected"),
    ("def @main() { sum(1, axis=) }", "relay.C3", ") }", "the value of an attribute expected"),
    ("def @main() { sum(1, axis=1, axis=2) }", "relay.C3", "axis=2", "given twice"),
    ("def @main() { meta[relay.Constant][0] }", "relay.C4", "meta", "show_meta_data=True"),
    ("def @main() { 1 }\n#[metadata]\n{}", "relay.C4", "#[metadata]", "not of the form"),
    (
        'def @main() { meta[relay.Constant][0] }\n#[metadata]\n{"root": 0, "nodes": [{"data": []}]}',
        "relay.C4", "meta", "0 of relay.Constant",
    ),
    ("def @main(%x: Foo) { %x }", "relay.C5", "Foo", "no type is called Foo"),
    ("type L[A] { N }\ndef @main(%x: L) { %x }", "relay.C5", "L) {", "L takes 1 type arguments, 0 given"),
    ("type L { N }\ntype L { M }", "relay.C5", "L { M", "two data types are called L"),
    ("type L { N }\ntype M { N }", "relay.C5", "N }", "two constructors are called N"),
    ("def @f() { 1 }\ndef @f() { 2 }", "relay.C5", "@f() { 2", "two definitions are called f"),
    ("def @main(%x: int32, %x: int32) { 1 }", "relay.C5", "int32) {", "two parameters are called %x"),
    ("def @main() { match (1) { Foo(%x) => %x } }", "relay.C5", "Foo", "perhaps"),
    ("def @main() { 32768i16 }", "relay.C6", "32768i16", "no number of int16"),
    ("def @main() { 1i7 }", "relay.C6", "1i7", "no number of int7"),
    ("def @main() { 1f7 }", "relay.C6", "1f7", "there is no float7"),
    ("def @main() { 3.40283e+38f32 }", "relay.C6", "3.40283e+38f32", "no number of float32"),
    ("def @main(%x: List[Tensor[(?), float32]]) { %x }", "relay.C7", "?", "cannot be left open"),
    ("def @main(%x: Tensor[(2), int8x4]) { %x }", "relay.C8", "int8x4", "the dtype int8x4"),
    ("def @main(%x: Tensor[(meta[tir.Any][0]), int8]) { %x }", "relay.C7", "meta",
        "a size that stands in the metadata"),
    (
        f"def @main() {{ meta[tir.Add][0] }}\n#[metadata]\n{ADDED}",
        "relay.C9", "meta", "tir.Add in the section metadata",
    ),
    ("def @main() { %0 }", "relay.C10", "%0", "%0 is not bound before"),
    ("def @main() { %x }", "relay.C10", "%x", "%x is not bound here"),
    ("def @main() { if (True) { let %x = 1; %x } else { %x } }", "relay.C10", "%x } }", "%x is not bound here"),
    ("type L { N }\ntype List { M }\ndef @main() { @foo(1) }", "relay.C10", "@foo", "no function @foo; it has @main"),
    ("def @main() { foo.bar(1) }", "relay.C12", "foo.bar", "the operator foo.bar is not handled"),
    ("def @main(%x) { %x }", "relay.C13", "%x)", "the type of %x is not told"),
    ("def @f(%n: int32) { @f(%n) }\ndef @main() { @f(1) }", "relay.C13", "@f",
        "the result of a function that calls itself"),
    ("def @main() { @id }", "relay.C13", "@id", "what A stands for is not told"),
    ("def @main() { let %f = add; 1 }", "relay.C14", "add", "add as a value"),
    ("def @main() { if (1) { 2 } else { 3 } }", "if.C1", "if (1", "not a bool scalar"),
    ("def @main() { if (True) { 2 } else { 3f } }", "if.C2", "if (T", "branches are"),
    ("def @main() { (1, 2).5 }", "tuple.C1", "(1, 2)", "no field 5"),
    ("def @f(%x: int32) -> int32 { %x }\ndef @main() { @f(1f) }", "call.C7", "@f(1f)", "argument 0 is"),
    ("def @f(%x: int32) -> int32 { %x }\ndef @main() { @f() }", "call.C6", "@f()", "takes 1 arguments"),
    ("def @f(%x: int32) -> float32 { %x }", "func.C1", "@f", "declared result"),
    ("def @main() { match (1, 2) { (%a, %b, %c) => 1 } }", "match.C3", "(%a, %b, %c)", "the pattern is matched with"),
    ("def @main() { match (Cons(1, Nil)) { Cons(%a) => 1 } }", "match.C4", "Cons(%a)",
        "cons has 2 fields, the pattern 1"),
    ("def @main() { match (Cons(1, Nil)) { Cons(%a, _) => 1 } }", "match.C5", "match", "do not cover every value"),
    ("def @main() { match (1) { } }", "match.C1", "match", "no clause"),
    ("def @main() { ref_read(1) }", "ref.C1", "ref_read", "not a reference"),
]  # fmt: skip
CASES = [(t, label, at, "is no constructor" if said == "perhaps" else said) for t, label, at, said in CASES]


@pytest.mark.parametrize(("text", "label", "at", "said"), CASES, ids=[f"{c[1]}-{i}" for i, c in enumerate(CASES)])
def test_a_mistake_is_shown_where_it_is(text: str, label: str, at: str, said: str) -> None:
    with pytest.raises(Invalid) as wrong:
        parse_relay(text, "bug.relay")
    error = wrong.value
    assert error.label == label, str(error)
    assert said in error.message, str(error)
    head, line, caret = error.message.split("\n")[:3]
    assert head and re.fullmatch(r" *\^~*", caret)
    assert line[caret.index("^") :].startswith(at[:1]), str(error)
    assert at.split("\n")[0][:8] in line[caret.index("^") :], str(error)
    number, column = re.fullmatch(r"bug\.relay:(\d+):(\d+)", str(error.where)).groups()  # type: ignore[union-attr]
    assert text.split("\n")[int(number) - 1][int(column) - 1 :].startswith(at[:4])


def test_what_is_not_handled_is_told_from_what_is_wrong() -> None:
    for text, label, _, _ in CASES:
        if label in ("relay.C2", "relay.C8", "relay.C9", "relay.C12", "relay.C14"):
            with pytest.raises(Unsupported):
                parse_relay(text)


def test_only_relay_is_taken_for_relay() -> None:
    for text in (
        '#[version = "0.0.5"]\ndef @main() {}',
        "v0.0.4\n",
        "// a\n/* b /* c */ */ fn (%x) {}",
        "\ufefftype L { N }",
    ):
        assert is_relay(text)
    for text in (
        "",
        "from tvm.script import ir as I\n",
        "def main():\n    pass\n",
        "\x08\x07onnx",
        "/* never ends",
        "// only",
    ):
        assert not is_relay(text)


PROGRAMS = sorted(Path(__file__).with_name("programs").glob("*.relay"))


def test_no_damage_to_a_text_is_a_fault_of_ours() -> None:
    """Words of good programs, left out, doubled, or in each other's place: the text is refused or means something."""
    rng = random.Random(5)
    refused = read = 0
    for path in PROGRAMS:
        words = re.findall(r'"[^"\n]*"|[%@]?[\w.]+|\s+|.', path.read_text(encoding="utf-8"), re.DOTALL)
        for _ in range(12):
            damaged = list(words)
            i, j = rng.randrange(len(words)), rng.randrange(len(words))
            match rng.randrange(4):
                case 0:
                    del damaged[i]
                case 1:
                    damaged[i : i + 1] = [words[i], words[j]]
                case 2:
                    damaged[i] = words[j]
                case _:
                    damaged[i], damaged[j] = damaged[j], damaged[i]
            try:
                parse_relay("".join(damaged))
                read += 1
            except Invalid as wrong:
                assert wrong.label and wrong.where is not None, "".join(damaged)
                refused += 1
    assert refused > 100 and read > 20


def test_a_trap_names_its_line() -> None:
    module = parse_relay("def @main(%n: int32) {\n  let %m = %n - 1;\n  divide(%n, %m)\n}", "bug.relay")
    with pytest.raises(AssayError) as trapped:
        run(module, {"n": np.int32(1)})
    assert str(trapped.value.where) == "bug.relay:3:3"
