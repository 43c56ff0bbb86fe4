"""Functions are parsed by themselves, so that two configurations share them: that changes no tree."""

from __future__ import annotations

from typing import Any

import pytest
from pycparser.c_generator import CGenerator

from assay.verify.c.reading.parse import CFile, _parsed, parsed_alone, read_file
from assay.verify.c.reading.preprocess import NotRead, Preprocessor
from tests.verify.c.reading_programs import texts

F = "int f(int x)\n{\nreturn x;\n}\n"


def read(text: str) -> CFile:
    return read_file("f.h", "", text, {})


def said(node: Any) -> str:
    return str(CGenerator().visit(node))


def test_each_function_is_what_it_is_in_the_whole_file() -> None:
    _, source = texts()["net"]
    parsed_alone.cache_clear()
    macros = {"__STDC_VERSION__": "199901L"}
    found = read_file("net.h", source.header, source.source, macros)
    reader = Preprocessor({"net.h": source.header})
    reader.define("__STDC_VERSION__", "199901L")
    whole = {n.decl.name: n for n in _parsed(reader.run(source.source)).ext if type(n).__name__ == "FuncDef"}
    assert {n: said(f.tree) for n, f in found.functions.items()} == {n: said(t) for n, t in whole.items()}
    assert parsed_alone.cache_info().currsize == len(whole) > 5
    again = read_file("net.h", source.header, source.source, macros)
    assert all(again.functions[n].tree is f.tree for n, f in found.functions.items())


def test_a_name_of_a_type_in_a_body_is_one() -> None:
    """By itself, `(t)-x` would be a difference."""
    text = "int f(int x)\n{\nreturn (t)-x;\n}\n"
    assert "return t - x" in said(read(f"int t;\n{text}").functions["f"].tree)
    assert "(t) (-x)" in said(read(f"typedef int t;\n{text}").functions["f"].tree)


@pytest.mark.parametrize(
    "text",
    [
        f"static int\n{F}".replace("int f", "f"),  # its type is on the line before
        f"static\n{F}",
        f"int g(int x)\n{{\nif (x)\n{{\n}}\nreturn x;\n}}\n{F}",  # braces of a body begin lines
        f"struct s {{\n{F}int a;\n}};\n",  # inside of something else
        f"int a =\n{F};\n",
        F.replace("}", "}}\n{\n}"),
        F + F,
        F.replace("return x;", "return (x;"),
    ],
)
def test_what_is_no_function_by_itself_is_not_read(text: str) -> None:
    assert "f" in read(F).functions
    with pytest.raises(NotRead):
        read(text)
