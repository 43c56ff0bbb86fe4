"""What is wrong in the text of a tensor function: file, line, column, the line itself, and a caret below the place."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest
from hypothesis import given, settings, strategies as st

from assay.semantics.errors import Invalid, Span
from assay.semantics.text.source import Source
from tests.semantics.text.test_text_tensor import OLD, SPECIAL, printed, read, read_all

HEAD = "@T.prim_func\ndef f(a: T.Buffer((4,), 'float32'), o: T.Buffer((4,), 'float32')):\n"
WRONG: list[tuple[str, str, str, str]] = [
    # the lines below HEAD, the part that the caret stands under, words of the message, the label
    ("    o[0] = b[0]\n", "b", "nothing is called b here", "text.C3"),
    ("    o[0] = a\n", "a", "a is a buffer", "text.C4"),
    ("    o[0, 1] = 1.0\n", "o[0, 1]", "has 1 dimensions, 2 indices given", "text.C5"),
    ("    o[1.0] = 1.0\n", "o[1.0]", "an index is an integer, not float32", "text.C6"),
    ("    o[0] = a[0:2]\n", "0:2", "vectors of elements", "text.C8"),
    ("    o[0:2] = a[0:3]\n", "0:3", "2 lanes expected", "text.C6"),
    ("    o[0:T.Cast('int32', a[0])] = 1.0\n", "0:T.Cast('int32', a[0])", "a constant number of lanes", "text.C6"),
    ("    o[T.Ramp(0, 1, 2)] = T.Broadcast(a[0], 3)\n", "T.Broadcast(a[0], 3)", "2 lanes expected", "text.C8"),
    ("    o[0] = T.frobnicate(a[0])\n", "T.frobnicate", "T.frobnicate is not handled", "text.C7"),
    ("    o[0] = T.Broadcast(a[0], 4)\n", "T.Broadcast(a[0], 4)", "vectors are only stored as such", "text.C8"),
    ("    o[0] = T.Cast('float32x4', a[0])\n", "T.Cast('float32x4', a[0])", "vectors such as float32x4", "text.C8"),
    ("    o[0] = T.Cast('floaty', a[0])\n", "T.Cast('floaty', a[0])", "no such dtype: floaty", "text.C6"),
    ("    o[0] = 'word'\n", "'word'", "no scalar expression", "text.C4"),
    ("    o[0] = T.max(a[0])\n", "T.max(a[0])", "max takes 2 operands, 1 given", "scalar.C3"),
    ("    o[0] = a[0] + (1 < 2)\n", "a[0] + (1 < 2)", "", "scalar.C5"),
    ("    o[0] = T.if_then_else(1, 2)\n", "T.if_then_else(1, 2)", "takes 3 operands", "text.C5"),
    ("    o[0] = T.sqrt(1)\n", "T.sqrt(1)", "sqrt is not defined on int32", "scalar.C6"),
    ("    o[0] = a[99999999999999999999999999]\n", "a[99999999999999999999999999]", "does not fit int32", "scalar.C2"),
    ("    o[0] = math.sqrt(a[0])\n", "math", "nothing is called math", "text.C3"),
    ("    o[0] = sqrt(a[0])\n", "sqrt", "no function of scalars: sqrt", "text.C4"),
    ("    for i in a:\n        o[0] = 1.0\n", "a", "a loop runs over range", "text.C4"),
    (
        "    for i in T.thread_binding(4, thread='x'):\n        o[i] = 1.0\n",
        "T.thread_binding(4, thread='x')",
        "threads",
        "text.C7",
    ),
    ("    for i, j in T.grid(4):\n        o[i] = 1.0\n", "T.grid(4)", "2 extents expected, 1 given", "text.C5"),
    ("    for i, j in range(4):\n        o[i] = 1.0\n", "i, j", "one loop variable", "text.C5"),
    ("    for i in range(1.5):\n        o[i] = 1.0\n", "1.5", "", "text.C6"),
    ("    for i in range(1, 2, 3, 4):\n        o[i] = 1.0\n", "range(1, 2, 3, 4)", "start and stop", "text.C5"),
    ("    for i in range(4):\n        o[i] = 1.0\n    o[i] = 1.0\n", "i", "nothing is called i here", "text.C3"),
    (
        "    with T.sblock('b'):\n        v = T.axis.spatial(4)\n",
        "T.axis.spatial(4)",
        "a domain and a value",
        "text.C5",
    ),
    ("    v = T.axis.spatial(4, 0)\n", "T.axis.spatial(4, 0)", "T.axis stands in a block", "text.C13"),
    (
        "    with T.sblock('b'):\n        v, w = T.axis.remap('SR', [a])\n",
        "T.axis.remap('SR', [a])",
        "an S or R and a loop",
        "text.C5",
    ),
    (
        "    with T.sblock('b'):\n        v = T.axis.remap('S', [1 + 1])\n",
        "1 + 1",
        "a loop variable expected",
        "text.C13",
    ),
    ("    T.reads(a[0])\n", "T.reads(a[0])", "T.reads stands in a block", "text.C13"),
    ("    with T.init():\n        o[0] = 1.0\n", "with", "T.init() stands once, in a block", "text.C13"),
    ("    with T.sblock('b'):\n        T.reads(b[0])\n", "b", "nothing is called b here", "text.C3"),
    ("    with T.sblock('b'):\n        T.reads(a[0:4:2])\n", "2", "no steps", "text.C5"),
    ("    with T.sblock('b'):\n        T.writes(o[0, 0])\n", "o[0, 0]", "has 1 dimensions, 2 given", "text.C5"),
    (
        "    with T.sblock('b'):\n        T.func_attr({'a': 1})\n",
        "T.func_attr({'a': 1})",
        "in the function itself",
        "text.C13",
    ),
    ("    with open('x') as f:\n        pass\n", "open('x')", "with T.sblock", "text.C4"),
    (
        "    with T.attr({'thread_extent': 4}):\n        pass\n",
        "T.attr({'thread_extent': 4})",
        "thread_extent is not handled",
        "text.C7",
    ),
    ("    b = T.alloc_buffer((4,), 'float31')\n", "'float31'", "no such dtype: float31", "text.C6"),
    ("    b = T.alloc_buffer((-4,), 'float32')\n", "(-4,)", "negative", "text.C6"),
    ("    b = T.alloc_buffer((1.5,))\n", "1.5", "a dim is an integer", "text.C6"),
    ("    b = T.alloc_buffer(('n +',))\n", "'n +'", "no expression", "text.C6"),
    ("    b = T.alloc_buffer((4,), colour='red')\n", "'red'", "the argument colour", "text.C7"),
    ("    b = T.alloc_buffer((4,), strides=[2])\n", "2", "only dense buffers", "text.C11"),
    (
        "    b = T.decl_buffer((4,), 'int4', data=a.data)\n",
        "T.decl_buffer((4,), 'int4', data=a.data)",
        "numbers of 4 bits have no bytes",
        "text.C11",
    ),
    ("    b = T.alloc_buffer((4,), 'float32x4', strides=[2])\n", "[2]", "only such as lie side by side", "text.C11"),
    ("    b = T.alloc_buffer((4,), 'float32x4')\n    o[0] = b[1]\n", "b[1]", "an element is a vector here", "text.C8"),
    (
        "    b = T.alloc_buffer((4,), 'float32x4')\n    o[0:2] = b[1]\n",
        "b[1]",
        "2 lanes expected, each element has 4",
        "text.C6",
    ),
    (
        "    b = T.alloc_buffer((4,), 'float32x4')\n    o[0:4] = b[1, 2]\n",
        "b[1, 2]",
        "b has 1 dimensions, 2 indices given",
        "text.C5",
    ),
    ("    b = T.alloc_buffer((4,), 'float31x4')\n", "'float31x4'", "no such dtype", "text.C6"),
    ("    b = T.decl_buffer((4,), data=q.data)\n", "q", "nothing is called q here", "text.C3"),
    ("    b = T.match_buffer(a, (4,))\n", "T.match_buffer(a, (4,))", "takes a handle of the function", "text.C13"),
    ("    T.func_attr({'a': open})\n", "open", "nothing is called open", "text.C3"),
    ("    T.func_attr({'a': metadata['x'][0]})\n", "metadata['x'][0]", "show_meta=False", "text.C7"),
    ("    T.func_attr(1)\n", "T.func_attr(1)", "one dictionary expected", "text.C5"),
    ("    T.func_attr({'num_outputs': 3})\n", "", "num_outputs is a number from 0 to 2", "text.C12"),
    ("    assert a[0] < 1.0, 5\n", "5", "a message is", "text.C4"),
    ("    o[0] = yield\n", "yield", "no scalar expression", "text.C4"),
    ("    return a\n", "return a", "Return has no place", "text.C4"),
    ("    import os\n", "import os", "Import has no place", "text.C4"),
    ("    a[0], o[0] = 1, 2\n", "a[0], o[0]", "a name or an element", "text.C4"),
    ("    x: int = 1\n", "int", "the dtype of a scalar expected", "text.C4"),
    (
        "    c = T.allocate_const([1, 2], 'float32', [3])\n",
        "T.allocate_const([1, 2], 'float32', [3])",
        "2 literals do not fill",
        "text.C6",
    ),
    ("    while a[0] < 1.0:\n        pass\n    else:\n        pass\n", "pass", "while has no else", "text.C4"),
    ("    o[0] = T.reinterpret('int16', a[0])\n", "T.reinterpret('int16', a[0])", "no bits in common", "text.C6"),
    ("    o[0] = 1.0 +\n", "", "syntax: invalid syntax", "text.C2"),
    ("    o[0] = (1.0\n", "(", "'(' was never closed", "text.C2"),
    ("  o[0] = 1.0\n    o[1] = 1.0\n", "", "syntax: unexpected indent", "text.C2"),
    ("", "", "expected an indented block", "text.C2"),
]


@pytest.mark.parametrize(("lines", "part", "words", "label"), WRONG, ids=[w[0].strip() or "nothing" for w in WRONG])
def test_what_is_wrong_is_shown_in_its_line(lines: str, part: str, words: str, label: str) -> None:
    with pytest.raises(Invalid) as caught:
        read(HEAD + lines)
    wrong = caught.value
    assert wrong.label == label, str(wrong)
    assert words in wrong.message
    assert isinstance(wrong.where, Span) and wrong.where.source == "model.py"
    head, line, under = wrong.message.rsplit("\n", 2)
    source = Source.of(HEAD + lines)
    assert line == f"    {source.line(wrong.where.line)}" and head
    column = under.index("^")
    assert column == 4 + wrong.where.column - 1
    assert str(wrong).startswith(f"model.py:{wrong.where.line}:{wrong.where.column}: ")
    if part:
        assert line[column:].startswith(part)
        if not part.startswith("with"):
            assert under[column:] in ("^" + "~" * (len(part) - 1), "^")


PARAMETERS: list[tuple[str, str, str]] = [
    ("a", "is T.Buffer(...), T.handle or a scalar", "text.C12"),
    ("a: int", "is T.Buffer(...), T.handle or a scalar", "text.C12"),
    ("a: T.handle", "parameter a is a pointer that no buffer is matched to", "text.C7"),
    ("a: T.Buffer((q,))", "nothing is called q here", "text.C3"),
    ("a: T.Buffer((4,), 'float32', 'global')", "buffer a has memory of its own", "text.C5"),
    ("a: T.Buffer((4,), 'float32', strides=['s'], elem_offset=4)", "the offset of a is not 0", "text.C11"),
    ("a: T.int32, *b", "plain parameters only", "text.C12"),
    ("a: T.int32 = 3", "plain parameters only", "text.C12"),
]


@pytest.mark.parametrize(("params", "words", "label"), PARAMETERS)
def test_wrong_parameters(params: str, words: str, label: str) -> None:
    with pytest.raises(Invalid) as caught:
        read(f"@T.prim_func\ndef f({params}):\n    pass\n")
    assert caught.value.label == label and words in caught.value.message and isinstance(caught.value.where, Span)


def test_a_function_without_its_decorator_and_one_with_another() -> None:
    for text, label in (("def f():\n    pass\n", "text.C12"), ("@T.prim_func(1)\ndef f():\n    pass\n", "text.C5")):
        with pytest.raises(Invalid) as caught:
            read(text)
        assert caught.value.label == label


def test_ill_formed_functions_have_a_place_too() -> None:
    with pytest.raises(Invalid) as caught:
        read("n = TypeVar('n')\n@T.prim_func\ndef f(a: T.Buffer((4,), 'int64')):\n    a[0] = n\n")
    assert caught.value.label == "tensor.C8" and isinstance(caught.value.where, Span) and caught.value.where.line


def test_carets_stand_right_in_wide_and_in_long_lines() -> None:
    wide = "x = 'é𝄞ü' + wrong\n"
    source = Source.of(wide)
    node = source.parse().body[0]
    assert isinstance(node, ast.Assign) and isinstance(node.value, ast.BinOp)
    message = source.error(node.value.right, "no", "text.C3").message.split("\n")
    assert message[2].index("^") == message[1].index("wrong") and message[2].count("~") == 4
    tabs = Source.of("if 1:\n\tx = wrong\n")
    inner = tabs.parse().body[0].body[0].value  # type: ignore[attr-defined]
    assert tabs.error(inner, "no", "text.C3").message.split("\n")[2] == "    \t    ^~~~~"
    long = Source.of(f"x = [{'1, ' * 300}wrong, {'2, ' * 300}]\n")
    last = long.parse().body[0].value.elts[300]  # type: ignore[attr-defined]
    shown = long.error(last, "no", "text.C3").message.split("\n")
    assert len(shown[1]) < 200 and shown[1][shown[2].index("^") :].startswith("wrong")


@pytest.mark.parametrize(
    "text",
    ["x = 1\n    y = 2\n", "x = (\n", "x = \0\n", "é = 'unfinished\n", "(" * 500 + ")" * 500, "+".join(["x"] * 20_000)],
)
def test_no_python_is_invalid_not_a_crash(text: str) -> None:
    with pytest.raises(Invalid) as caught:
        Source.of(text, "bad.py").parse()
    assert caught.value.label == "text.C2" and isinstance(caught.value.where, Span) and caught.value.where.line >= 1


def test_files_that_cannot_be_read(tmp_path: Path) -> None:
    with pytest.raises(Invalid) as caught:
        Source.read(tmp_path / "none.py")
    assert caught.value.label == "text.C1"
    (tmp_path / "latin.py").write_bytes(b"x = '\xe9'\n")
    with pytest.raises(Invalid, match="not UTF-8 at byte 5"):
        Source.read(tmp_path / "latin.py")
    (tmp_path / "good.py").write_bytes(b"\xef\xbb\xbfx = 1\r\ny = 2\r\n")
    assert Source.read(tmp_path / "good.py").lines == ("x = 1", "y = 2", "")


@settings(max_examples=80, deadline=None)
@given(st.data())
def test_no_change_of_a_text_crashes_the_reader(data: st.DataObject) -> None:
    """A text with a piece cut out, doubled or replaced is read, or is Invalid in some line."""
    text = data.draw(
        st.sampled_from(
            [
                OLD.read_text(),
                *(
                    printed(SPECIAL[k])
                    for k in ("blocks that say everything", "views", "assertions", "declarations to the end")
                ),
            ]
        )
    )
    start = data.draw(st.integers(0, len(text)))
    stop = min(len(text), start + data.draw(st.integers(0, 12)))
    piece = data.draw(
        st.sampled_from(
            [
                "",
                text[start:stop] * 2,
                "0",
                "(",
                "None",
                "'x'",
                "a.b",
                "T",
                "*x",
                "-1",
                "[",
                ":",
                "\n",
                "lambda: 0",
                "{}",
                "1e999",
                "{1: 2}",
            ]
        )
    )
    try:
        read_all(text[:start] + piece + text[stop:])
    except Invalid as wrong:
        assert wrong.label and isinstance(wrong.where, Span), repr(wrong)
