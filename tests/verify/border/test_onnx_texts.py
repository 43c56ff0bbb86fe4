"""Strings that move, that become numbers, and that the standard leaves open: beside ONNX Runtime, and in verdicts."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import onnx.parser
import pytest
from onnx import ModelProto

import assay as assay_api
from assay.interp.graph import evaluate
from assay.lower.frontends.onnx.model import import_onnx
from assay.lower.frontends.onnx.string_table import Strings
from assay.semantics.errors import Invalid, Unsupported
from assay.verify.api.judge import judge
from tests.verify.app.test_cli import assay

SETS = '<ir_version: 9, opset_import: ["": 20, "ai.onnx.ml": 3, "com.microsoft": 1]>'
GRAMS = 'mode = "{}", min_gram_length = 1, max_gram_length = {}, max_skip_count = 0, pool_strings = {}'


def model(inputs: str, outputs: str, body: str) -> ModelProto:
    return onnx.parser.parse_model(f"{SETS} g ({inputs}) => ({outputs}) {{ {body} }}")


def grams(mode: str, pool: str, starts: str, places: str, weights: str, most: int = 1) -> ModelProto:
    """A TfIdfVectorizer of a vector of strings."""
    given = GRAMS.format(mode, most, pool)
    body = f"y = TfIdfVectorizer<{given}, ngram_counts = {starts}, ngram_indexes = {places}, weights = {weights}>(x)"
    return model("string[N] x", "float[M] y", body)


def given(made: ModelProto, **inputs: Any) -> dict[str, Any]:
    return dict(assay_api.run(made, {n: np.array(v) for n, v in inputs.items()}))


UPPER, LOWER = (f'y = StringNormalizer<case_change_action = "{c}">(x)' for c in ("UPPER", "LOWER"))
AB = '["a", "b"]'
PARTS = "string[N, W] y, int64[N] n"


@pytest.mark.parametrize(
    ("made", "x", "wanted"),
    [
        (grams("IDF", AB, "[0]", "[1, 0]", "[10.0, 20.0]"), ["a", "a"], [0, 10]),
        (grams("TFIDF", AB, "[0]", "[1, 0]", "[10.0, 20.0]"), ["a", "a", "b"], [20, 20]),
        (grams("IDF", AB, "[0]", "[3, 1]", "[10.0, 20.0]"), ["b"], [0, 20, 0, 0]),
        (grams("TFIDF", AB, "[0]", "[0, 0]", "[2.0, 2.0]"), ["a", "b", "a"], [6]),
        (grams("TFIDF", '["a", "b", "a", "b"]', "[0, 2]", "[2, 0, 1]", "[3.0, 5.0, 7.0]", 2), ["a", "b"], [5, 7, 3]),
    ],
)  # fmt: skip
def test_a_weight_is_that_of_the_place_in_the_pool(made: ModelProto, x: list[str], wanted: list[float]) -> None:
    np.testing.assert_array_equal(given(made, x=x)["y"], np.array(wanted, np.float32))
    pytest.importorskip("onnxruntime")
    (verdict,) = judge(made, ["onnxruntime"], {"x": np.array(x)}).verdicts
    assert verdict.outcome == "right", verdict.closing()


def test_weights_that_do_not_fit() -> None:
    with pytest.raises(Invalid, match="1 weights for 2 n-grams"):
        given(grams("IDF", AB, "[0]", "[1, 0]", "[10.0]"), x=["a"])
    with pytest.raises(Unsupported, match="n-grams of the weights 1 and 2 in the column 0"):
        given(grams("IDF", AB, "[0]", "[0, 0]", "[1.0, 2.0]"), x=["a"])


def test_numerals_are_those_of_the_standard() -> None:
    to_float, to_int = (
        model("string[N] x", f"{t}[N] y", f"y = Cast<to = {k}>(x)") for t, k in (("float", 1), ("int64", 7))
    )
    texts = ["1", "-2.50", ".5", "3.", "1e-5", "+1E8", "INF", "-inf", "nan"]
    np.testing.assert_array_equal(given(to_float, x=texts)["y"], np.array(texts, np.float32))
    assert given(to_int, x=["12", "-3", "+4"])["y"].tolist() == [12, -3, 4]
    for text in ("1_0", "\u0663", "\u00a01", " 1", "0x10", "infinity", "1e", "", "one"):
        with pytest.raises(Invalid, match="is no number in plain representation"):
            given(to_float, x=[text])
        with pytest.raises(Invalid, match="is no whole number in plain representation"):
            given(to_int, x=[text])


@pytest.mark.parametrize(
    ("attrs", "text", "parts"),
    [
        ("maxsplit = 1", " a  b ", ["a", "b"]),
        ("maxsplit = 1", " a  b c ", ["a", "b c"]),
        ("maxsplit = 0", " a b ", ["a b"]),
        ('delimiter = ",", maxsplit = 1', " a,b,c ", [" a", "b,c "]),
        ("", " \t", []),
    ],
)
def test_whitespace_at_the_ends_is_left_out(attrs: str, text: str, parts: list[str]) -> None:
    found = given(
        model("string[N] x", PARTS, f"y, n = StringSplit<{attrs}>(x)" if attrs else "y, n = StringSplit(x)"), x=[text]
    )
    assert found["y"].tolist() == [parts] and found["n"].tolist() == [len(parts)]


IDENTITY = "{0} () => (string[K] {0}_) {{ {0}_ = Identity({1}) }}"
MOVED: Mapping[str, tuple[ModelProto, dict[str, Any], Any]] = {
    "a branch": (
        model("bool c, string[2] x, string[2] z", "string[2] y",
              f"y = If<then_branch = {IDENTITY.format('t', 'x')}, else_branch = {IDENTITY.format('e', 'z')}>(c)"),
        {"c": False, "x": ["a", "b"], "z": ["\u732b", ""]}, ["\u732b", ""],
    ),
    "a state of a loop, and what is collected": (
        model("int64 k, string[2] x", "string[2] y, bool[K, 2] z", """y, z = Loop<body = b (int64 i, bool go,
              string[2] s) => (bool g, string[2] t, bool[2] q) { g = Identity(go) t = Identity(s)
              q = Equal(s, x) }>(k, , x)"""),
        {"k": 3, "x": ["a", "\u00e9"]}, ["a", "\u00e9"],
    ),
    "what is scanned": (
        model("string[3, 2] x", "string[3, 2] y", """y = Scan<num_scan_inputs = 1, body = b (string[2] r)
              => (string[2] t) { t = Identity(r) }>(x)"""),
        {"x": [["a", "b"], ["", "c"], ["d", "a"]]}, [["a", "b"], ["", "c"], ["d", "a"]],
    ),
    "columns": (
        model("string[N, 3] x", "string[N, 2] y",
              "i = Constant<value_ints = [2, 0]>() y = ai.onnx.ml.ArrayFeatureExtractor(x, i)"),
        {"x": [["a", "b", "c"], ["", "e", "f"]]}, [["c", "a"], ["f", ""]],
    ),
    "one of two": (
        model("int64[2] i", "string[2, 3] y", """d = Constant<value_ints = [3]>()
              v = Constant<value_strings = ["no", "yes"]>() y = OneHot(i, d, v)"""),
        {"i": [2, 0]}, [["no", "no", "yes"], ["yes", "no", "no"]],
    ),
}  # fmt: skip


@pytest.mark.parametrize("what", MOVED)
def test_strings_go_through(what: str) -> None:
    made, inputs, wanted = MOVED[what]
    assert given(made, **inputs)["y"].tolist() == wanted
    pytest.importorskip("onnxruntime")
    report = judge(made, ["onnxruntime"], {n: np.array(v) for n, v in inputs.items()}, kinds="random")
    assert report.verdicts[0].outcome == "right", report.verdicts[0].closing()


def test_strings_in_one_branch_and_numbers_in_the_other_do_not_meet() -> None:
    """Where the condition is given, there is no other branch."""
    other = "e () => (int64[K] v) { v = Constant<value_ints = [1, 2]>() }"
    one = IDENTITY.format("t", "x")
    made = model("bool c, string[2] x", "string[2] y", f"y = If<then_branch = {one}, else_branch = {other}>(c)")
    assert given(made, c=True, x=["a", "b"])["y"].tolist() == ["a", "b"]
    with pytest.raises(Invalid, match="one branch gives strings as result 0, and the other numbers"):
        import_onnx(made, evaluate=evaluate, strings=Strings())


@pytest.mark.parametrize(
    ("body", "x", "recorded", "outcome", "said"),
    [
        (UPPER, ["ab\u00e9"], ["AB\u00c9"], "right", ""),
        (UPPER, ["ab\u00e9"], ["AB\u00e9"], "wrong", "is another string, allowed is 'AB\u00c9'"),
        (UPPER, ["stra\u00dfe"], ["STRA\u00dfE"], "undecided", "what '\u00df' is in the other case"),
        (LOWER, ["\u039f\u03a3"], ["\u03bf\u03c3"], "undecided", "what '\u03a3' is in the other"),
        (LOWER.replace(">", ', locale = "tr_TR">'), ["I"], ["\u0131"], "undecided", "what 'I' is in the other case"),
        (LOWER.replace(">", ', locale = "en_US">'), ["I"], ["\u0131"], "wrong", "allowed is 'i'"),
        ("f = Cast<to = 1>(x) y = Cast<to = 8>(f)", ["1"], ["1"], "undecided", "how a float is written"),
        ("f = Cast<to = 1>(x) y = Cast<to = 8>(f)", ["1"], ["1.0"], "right", ""),
        ("f = Cast<to = 7>(x) y = Cast<to = 8>(f)", ["1"], ["1.0"], "wrong", "allowed is '1'"),
        ('y, n = StringSplit<delimiter = ",">(x)', [""], [["a"]], "undecided", "how many parts an empty string has"),
        ("y, n = StringSplit(x)", ["a\u00a0b"], [["a", "c"]], "undecided", "whether '\\xa0' is whitespace"),
        ("y, n = StringSplit(x)", ["a\tb"], [["a", "c"]], "wrong", "is another string, allowed is 'b'"),
        ("y, n = StringSplit(x)", ["a\tb"], [["b", "a"]], "wrong", "element (0, 0) is 'b', allowed is 'a'"),
    ],
)  # fmt: skip
def test_what_the_standard_leaves_open_of_strings_is_not_wrong(
    body: str, x: list[str], recorded: list[Any], outcome: str, said: str
) -> None:
    """Strings that were recorded are compared as strings, and told."""
    rank = "N, W" if "Split" in body else "N"
    made = model("string[N] x", f"string[{rank}] y", body)
    (verdict,) = judge(made, (), {"x": np.array(x)}, recorded={"y": np.array(recorded)}).verdicts
    assert verdict.outcome == outcome and said in verdict.closing(), verdict.closing()


@pytest.mark.parametrize("keys", ['["a", "a"]', '["a", "b"]'])
def test_equal_keys_leave_open_which_counts(keys: str) -> None:
    made = model(
        "string[N] x", "int64[N] y", f"y = ai.onnx.ml.CategoryMapper<cats_strings = {keys}, cats_int64s = [10, 20]>(x)"
    )
    (verdict,) = judge(made, (), {"x": np.array(["a"])}, recorded={"y": np.array([20])}).verdicts
    assert verdict.outcome == ("undecided" if keys == '["a", "a"]' else "wrong"), verdict.closing()


def test_two_strings_of_one_number_leave_nothing_open() -> None:
    body = 'y = ai.onnx.ml.CategoryMapper<cats_strings = ["a", "b"], cats_int64s = [10, 10]>(x)'
    made = model("string[N] x", "int64[N] y", body)
    (verdict,) = judge(made, (), {"x": np.array(["a"])}, recorded={"y": np.array([20])}).verdicts
    assert verdict.outcome == "wrong", verdict.closing()


def test_no_rows_have_no_categories_that_are_missing() -> None:
    made = model(
        "int64[N, 1] x", "float[N, 1, 2] y", "y = ai.onnx.ml.OneHotEncoder<cats_int64s = [1, 2], zeros = 0>(x)"
    )
    assert given(made, x=np.zeros((0, 1), np.int64))["y"].shape == (0, 1, 2)
    assert given(made, x=np.array([[2]]))["y"].tolist() == [[[0, 1]]]


def test_many_strings_are_read() -> None:
    made = model("string[N] x", "string[N] y", 'y = StringNormalizer<case_change_action = "UPPER">(x)')
    texts = [f"t{i}" for i in range(3000)]
    assert given(made, x=texts)["y"].tolist() == [t.upper() for t in texts]


@pytest.mark.parametrize("command", ["run", "judge", "check"])
def test_what_is_no_text_is_refused(
    command: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    path, inputs = tmp_path / "m.onnx", tmp_path / "in.npz"
    onnx.save(model("string[N] x", "string[N] y", "y = Identity(x)"), path)
    np.savez(inputs, x=np.array(["a", "\ud800"]))
    more = ("--backend", "numpy") if command == "judge" else ()
    assert assay(monkeypatch, command, path, "--inputs", inputs, *more) == 2
    said = " ".join(capsys.readouterr().err.split())
    assert "input 'x' has '\\ud800', which is no text in UTF-8" in said, said


def test_two_programs_of_strings() -> None:
    """The numbers of the first one's strings are those of the second's."""
    first, other = (
        model(
            "string[N] x",
            "string[N] y",
            f'y = ai.onnx.ml.LabelEncoder<keys_strings = ["a", "b"], values_strings = ["{v}", "w"]>(x)',
        )
        for v in "vu"
    )
    (same,) = judge(first, second=first, inputs={"x": np.array(["a", "b", "c"])}).verdicts
    assert same.outcome == "right" and same.proved
    (differs,) = judge(first, second=other, inputs={"x": np.array(["a", "b", "c"])}).verdicts
    assert differs.outcome == "wrong" and "allowed is 'v'" in differs.closing(), differs.closing()


def test_strings_that_are_expected_and_those_of_the_reference(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The reference has no CategoryMapper. Its weights are those of columns (specs/findings)."""
    labels = 'keys_int64s = [1, 2], values_strings = ["a", "\u732b"], default_string = "?"'
    made = model("int64[N] x", "string[N] y", f"y = ai.onnx.ml.LabelEncoder<{labels}>(x)")
    (verdict,) = judge(made, ["reference"], {"x": np.array([2, 1, 5])}).verdicts
    assert verdict.outcome == "right", verdict.closing()
    (verdict,) = judge(
        grams("IDF", AB, "[0]", "[1, 0]", "[10.0, 20.0]"), ["reference"], {"x": np.array(["a"])}
    ).verdicts
    assert verdict.outcome == "wrong", verdict.closing()
    path, inputs, expected = (tmp_path / n for n in ("m.onnx", "in.npz", "out.npz"))
    onnx.save(made, path)
    np.savez(inputs, x=np.array([2, 1, 5]))
    for last, code in (("?", 0), ("!", 1)):
        np.savez(expected, y=np.array(["\u732b", "a", last]))
        assert assay(monkeypatch, "check", path, "--inputs", inputs, "--expected", expected) == code, (
            capsys.readouterr()
        )


def test_check_leaves_open_what_judge_does(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    path, inputs, expected = (tmp_path / n for n in ("m.onnx", "in.npz", "out.npz"))
    onnx.save(model("string[N] x", "string[N] y", UPPER), path)
    for text, given_as, said in (("stra\u00dfe", "STRA\u00dfE", "undecided"), ("ab", "aB", "wrong")):
        np.savez(inputs, x=np.array([text]))
        np.savez(expected, y=np.array([given_as]))
        code = assay(monkeypatch, "check", path, "--inputs", inputs, "--expected", expected)
        out = " ".join(capsys.readouterr().out.split())
        assert code == {"undecided": 5, "wrong": 1}[said] and said in out, out
