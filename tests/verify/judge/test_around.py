"""A model with an operator that has no meaning here is judged around it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import onnx
import onnx.parser
import pytest
from onnx import helper, numpy_helper

from assay.lower.frontends.onnx.known import without_meaning
from assay.semantics.errors import Invalid
from assay.verify.api.judge import judge
from assay.verify.backends import Subject, backend
from assay.verify.backends.protocol import Prepared, cannot
from assay.verify.judge.around import Cut
from assay.verify.judge.outcome import BackendVerdict

W = np.random.default_rng(0).standard_normal((8, 8)).astype(np.float32)


def model(*middle: tuple[str, str, str], rows: int | str = "N") -> onnx.ModelProto:
    """A product, nodes of a domain of nobody, a product and a softmax."""
    nodes = [helper.make_node("MatMul", ["x", "w"], ["m"])]
    nodes += [helper.make_node(op, [read], [made], domain="my.domain") for op, read, made in middle]
    nodes += [helper.make_node("MatMul", [middle[-1][2], "w"], ["t"]), helper.make_node("Softmax", ["t"], ["y"])]
    x, y = (helper.make_tensor_value_info(n, 1, [rows, 8]) for n in "xy")
    graph = helper.make_graph(nodes, "g", [x], [y], [numpy_helper.from_array(W, "w")])
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid("my.domain", 1)]
    return helper.make_model(graph, opset_imports=opsets, ir_version=9)


ONE = (("Squash", "m", "c"),)
TWO = (("Squash", "m", "c"), ("Squash", "c", "d"))


@dataclass
class Theirs:
    """Runs the model by NumPy; `shows` intermediate tensors or not, and may be `wrong` in
    the softmax, `odd` in that its results of that are others in each run, or know no Squash."""

    shows: bool = True
    wrong: bool = False
    odd: bool = False
    squashes: bool = True
    name: str = "theirs"
    runs: int = 0

    def prepare(self, subject: Subject, wanted: Sequence[str]) -> Prepared:
        if not self.shows and list(wanted) != subject.outputs:
            raise cannot(self.name, "it shows outputs only")
        if not self.squashes and without_meaning(subject.model):
            raise cannot(self.name, "no Squash")
        nodes = subject.model.graph.node

        def act(inputs: Mapping[str, Any]) -> dict[str, Any]:
            self.runs += 1
            known = {t.name: numpy_helper.to_array(t) for t in subject.model.graph.initializer} | dict(inputs)
            for node in nodes:
                (made,) = node.output
                a = [known[n] for n in node.input]
                if node.op_type == "Squash":
                    known[made] = np.tanh(a[0] * np.float32(self.runs if self.odd else 1))
                elif node.op_type == "Neg":
                    known[made] = -a[0]
                elif node.op_type == "MatMul":
                    known[made] = a[0] @ a[1]
                else:
                    shifted = np.exp(a[0] - a[0].max(axis=-1, keepdims=True))
                    known[made] = shifted / shifted.sum(axis=-1, keepdims=True) * np.float32(1.001 if self.wrong else 1)
            return {n: known[n] for n in wanted}

        return act


def only(who: Theirs, nodes: Sequence[tuple[str, str, str]] = ONE) -> BackendVerdict:
    (verdict,) = judge(model(*nodes), [who], kinds=["random"]).verdicts
    return verdict


@pytest.mark.parametrize("shows", [True, False])
@pytest.mark.parametrize("nodes", [ONE, TWO])
def test_the_rest_of_the_model_is_judged_and_the_line_says_around_what(
    shows: bool, nodes: Sequence[tuple[str, str, str]]
) -> None:
    right = only(Theirs(shows), nodes)
    assert right.outcome == "undecided" and int(right.exit) == 5
    assert f"Squash {nodes[-1][2]}; around that it is right on 2 sets" in right.closing()
    wrong = only(Theirs(shows, wrong=True), nodes)
    assert wrong.outcome == "wrong" and int(wrong.exit) == 1
    assert "in Softmax" in wrong.closing() and "not judged is what has no meaning here: Squash c" in wrong.closing()


def test_sizes_that_are_chosen_are_those_on_which_it_runs() -> None:
    class Fours(Theirs):
        def prepare(self, subject: Subject, wanted: Sequence[str]) -> Prepared:
            run = super().prepare(subject, wanted)

            def act(inputs: Mapping[str, Any]) -> dict[str, Any]:
                if "x" in inputs and len(inputs["x"]) != 1:
                    raise cannot(self.name, "one row is wanted")
                return run(inputs)

            return act

    found = judge(model(*ONE), [Fours()], kinds=["random"])
    assert found.chosen == {"N": 1} and "around that it is right" in found.verdicts[0].closing()


def test_one_that_gives_other_tensors_in_each_run_is_not_judged() -> None:
    verdict = only(Theirs(odd=True))
    assert verdict.outcome == "refused" and "another c in each run" in verdict.closing()


def test_results_of_them_that_stay_are_told() -> None:
    class Stays(Theirs):
        def prepare(self, subject: Subject, wanted: Sequence[str]) -> Prepared:
            run, kept = super().prepare(subject, wanted), {}

            def act(inputs: Mapping[str, Any]) -> dict[str, Any]:
                kept.update({} if kept else run(inputs))
                return dict(kept)

            return act

    made = model(*ONE)
    del made.graph.node[2:], made.graph.node[0]
    made.graph.node[0].input[0] = "x"
    made.graph.node.append(helper.make_node("Neg", ["c"], ["y"]))
    (verdict,) = judge(made, [Stays()], kinds=["random"]).verdicts
    assert "Squash c (which gives the same bits on all sets of inputs)" in verdict.closing()
    (verdict,) = judge(made, [Theirs()], kinds=["random"]).verdicts
    assert "same bits" not in verdict.closing()


def test_one_that_does_not_know_the_operator_either_refuses() -> None:
    verdict = only(Theirs(squashes=False))
    assert verdict.outcome == "refused"
    assert "no Squash; it has to give the results of what has no meaning here, Squash c" in verdict.closing()


def test_a_model_of_nothing_else_is_not_judged() -> None:
    made = model(*ONE)
    del made.graph.node[2:], made.graph.node[0]
    made.graph.node[0].input[0] = "x"
    made.graph.output[0].name = "c"
    (verdict,) = judge(made, [Theirs()], kinds=["random"]).verdicts
    assert (
        verdict.outcome == "undecided" and "nothing in it but what has no meaning here, Squash c" in verdict.closing()
    )


def test_what_is_misspelt_is_ill_formed() -> None:
    made = model(*ONE, rows=2)
    made.graph.node[0].op_type = "MatMull"
    made.graph.node[1].op_type, made.graph.node[1].domain = "Tanh", ""
    with pytest.raises(Invalid, match="unknown operator MatMull"):
        judge(made, [backend("numpy")])


def test_what_is_left_out() -> None:
    made = model(*TWO)
    assert without_meaning(made) == [1, 2]
    cut = Cut(made, [1, 2])
    assert (cut.tensors, cut.outputs) == (["c", "d"], ["y", "m"])
    body = helper.make_function("my.domain", "Squash", ["a"], ["b"], [helper.make_node("Mul", ["a", "a"], ["b"])],
                                [helper.make_opsetid("", 17)])  # fmt: skip
    made.functions.append(body)
    assert without_meaning(made) == []


HASH = "com.microsoft.MurmurHash3<positive = 0>"
SETS = '<ir_version: 9, opset_import: ["": 20, "ai.onnx.ml": 3, "com.microsoft": 1]>'


def test_strings_that_are_read_by_them_are_no_results() -> None:
    """In our module strings are numbers, and a backend shows strings. Where nothing else is left, nothing is judged."""
    strings = 'c = Constant<value_strings = ["a", "b"]>() e = Equal(x, c) i = Cast<to = 6>(e)'
    for body, said in (
        (f"y = {HASH}(x)", "there is nothing in it but"),
        (f"d = {HASH}(x) {strings} y = Add(d, i)", "around that it is right"),
    ):
        text = f"{SETS} g (string[2] x) => (int32[2] y) {{ {body} }}"
        found = judge(onnx.parser.parse_model(text), ["onnxruntime"], kinds=["random"]).verdicts[0]
        assert found.outcome == "undecided" and said in found.closing(), found.closing()


@dataclass
class Speller:
    """Runs an operator of nobody that makes strings of numbers, and what may follow it."""

    name: str = "speller"

    def prepare(self, subject: Subject, wanted: Sequence[str]) -> Prepared:
        def act(inputs: Mapping[str, Any]) -> dict[str, Any]:
            spelt = np.where(inputs["x"] > 0, "aa", "bb")
            known = {**inputs, "s": spelt, "y": np.where(spelt == "aa", 1, 2), "z": -inputs["x"]}
            return {n: known[n] for n in wanted}

        return act


def test_strings_that_they_make_stand_for_nothing_in_the_rest() -> None:
    """No number stands for a string that a run makes: where the rest reads it, nothing is judged."""
    text = SETS.replace("]>", ', "my.domain": 1]>') + " g (float[2] x) => (int64[2] y, float[2] z)"
    made = onnx.parser.parse_model(f"{text} {{ s = my.domain.Spell(x) z = Neg(x) y = {OF_LABELS}(s) }}")
    (verdict,) = judge(made, [Speller()], kinds=["random"]).verdicts
    said = "the rest reads strings, s, that come of what has no meaning here, Spell s"
    assert verdict.outcome == "undecided" and said in verdict.closing(), verdict.closing()


OF_LABELS = 'ai.onnx.ml.LabelEncoder<keys_strings = ["aa", "bb"], values_int64s = [1, 2]>'


@pytest.mark.parametrize(
    ("body", "outputs"),
    [
        (f"s = StringConcat(x, x) y = {OF_LABELS}(s)", "int64[2] y"),
        ('s, y = StringSplit<delimiter = " ">(x)', "int64[2] y"),
        (f'z = RegexFullMatch<pattern = "a">(x) y = {OF_LABELS}(x)', "int64[2] y, bool[2] z"),
        ('c = RegexFullMatch<pattern = "a">(x) z = Not(c) y = Where(c, x, w)', "string[2] y, bool[2] z"),
    ],
)
def test_what_reads_characters_has_a_meaning(body: str, outputs: str) -> None:
    made = onnx.parser.parse_model(f"{SETS} g (string[2] x, string[2] w) => ({outputs}) {{ {body} }}")
    assert without_meaning(made) == []
    found = judge(made, ["onnxruntime"], kinds=["random"])
    assert found.holds and [*found.texts] == ["x"], found.verdicts[0].closing()
