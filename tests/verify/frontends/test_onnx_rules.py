"""The rules by which ONNX's operators are imported, proved to be the bodies that the standard gives (specs/verify.md,
"Import")."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from onnx import TensorProto, helper

from assay.lower.frontends.onnx.node import Node
from assay.lower.frontends.onnx.operators import DOMAINS
from assay.semantics.graph import Function
from assay.semantics.text.module_text import parse
from assay.verify.app.cli import main
from assay.verify.equivalence import BIT_EXACT, REAL, REASSOCIATED, UNKNOWN, Notion
from assay.verify.frontends.onnx_rules import RuleRow, known_rules, prove_rules
from assay.verify.operator_terms.graphs import prove_functions
from tests.verify.frontends.rule_table import made_table, rows

HEAD = """
from tvm.script import ir as I
from tvm.script import relax as R

@I.ir_module
class Module:
    @R.function
    def main({params}):
        with R.dataflow():
            out = {body}
            R.output(out)
        return out
"""
X = 'x: R.Tensor((3, 3), dtype="float32")'
N = 'x: R.Tensor((4,), dtype="int32")'


def function(params: str, body: str) -> Function:
    return parse(HEAD.format(params=params, body=body)).main


@pytest.mark.parametrize(
    ("params", "source", "target", "notion"),
    [
        (X, "R.nn.relu(x)", "R.maximum(x, R.const(0, 'float32'))", BIT_EXACT),
        (X, "R.add(x, x)", "R.multiply(x, R.const(2, 'float32'))", UNKNOWN),
        (X, "R.nn.leakyrelu(x, 0.1)",
         "R.where(R.less(x, R.const(0, 'float32')), R.multiply(x, R.const(0.1, 'float32')), x)", BIT_EXACT),
        (X, "R.nn.leakyrelu(x, 0.1)",
         "R.where(R.less(R.const(0, 'float32'), x), x, R.multiply(x, R.const(0.1, 'float32')))", BIT_EXACT),
        (X, "R.nn.leakyrelu(x, 0.1)",
         "R.where(R.less(R.const(1, 'float32'), x), x, R.multiply(x, R.const(0.1, 'float32')))", UNKNOWN),
        (X, "R.sum(x, axis=[1])", "R.sum(R.permute_dims(x), axis=[0])", REASSOCIATED),
        (X, "R.sum(x, axis=[1])", "R.sum(x, axis=[0])", UNKNOWN),  # other places, on a square
        (X, "R.divide(x, R.sum(x))", "R.multiply(x, R.divide(R.const(1, 'float32'), R.sum(x)))", REAL),
        (X, "R.where(R.less(x, R.const(0, 'float32')), x, R.exp(x))",
         "R.where(R.greater_equal(x, R.const(0, 'float32')), R.exp(x), x)", BIT_EXACT),  # NaN gives NaN in both
        (X, "R.where(R.less(x, R.const(0, 'float32')), x, R.const(1, 'float32'))",
         "R.where(R.greater_equal(x, R.const(0, 'float32')), R.const(1, 'float32'), x)", UNKNOWN),  # NaN does not
        (X, "R.where(R.less(x, R.const(0, 'float32')), x, R.exp(x))",
         "R.where(R.less_equal(x, R.const(0, 'float32')), x, R.exp(x))", UNKNOWN),  # at 0
        (N, "R.floor_divide(R.const(1, 'int32'), x)", "R.floor_divide(R.const(1, 'int32'), x)", BIT_EXACT),
        (N, "R.multiply(x, R.const(0, 'int32'))",
         "R.multiply(R.floor_divide(R.const(1, 'int32'), x), R.const(0, 'int32'))", UNKNOWN),  # it traps at 0
    ],
)  # fmt: skip
def test_functions_are_compared_for_every_input(params: str, source: str, target: str, notion: Notion) -> None:
    assert prove_functions(function(params, source), function(params, target)).notion == notion


@pytest.mark.parametrize(
    ("other", "why"),
    [
        (X.replace("3, 3", "3, 4"), "parameters are not the same"),
        (X.replace("x:", "y:"), "parameters are not the same"),
        (X.replace("3, 3", '3, "n"'), "parameters are not the same"),
    ],
)
def test_functions_of_other_parameters_are_not_compared(other: str, why: str) -> None:
    body = "R.nn.relu(y)" if other.startswith("y") else "R.nn.relu(x)"
    assert why in prove_functions(function(X, "R.nn.relu(x)"), function(other, body)).reason


# --- the standard's cases -----------------------------------------------------------------------------------------


def command(monkeypatch: pytest.MonkeyPatch, *args: str) -> int:
    monkeypatch.setattr("sys.argv", ["assay", *args])
    with pytest.raises(SystemExit) as stopped:
        main()
    return int(stopped.value.code or 0)


@pytest.mark.parametrize(
    ("name", "code", "said"),
    [
        ("Softmax", 0, "Softmax: of 14 cases, 14 proved for every input, at the sizes of the case"),
        ("Gelu", 4, "1.4142135"),
        ("Conv", 2, "ONNX has no case of 'Conv' with a body"),  # prove.C3
    ],
)
def test_the_command_proves_a_rule(
    name: str, code: int, said: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert command(monkeypatch, "prove", "--rule", name) == code
    found = capsys.readouterr()
    assert said in " ".join((found.out + found.err).split())


def test_the_command_proves_a_rule_as_json(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    assert command(monkeypatch, "prove", "--rule", "Elu", "--json") == 0
    found = json.loads(capsys.readouterr().out)
    assert found["rule"] == "Elu" and found["holds"] is True and len(found["cases"]) == 3
    assert found["said"].startswith("of 3 cases, 3 proved for every input")


def test_the_table_is_what_the_proofs_say() -> None:
    """The operators that are proved fast; the whole table is compared in the campaign."""
    known = known_rules()
    for name in ("Softmax", "ThresholdedRelu", "LessOrEqual", "Shrink", "Gelu"):
        (made,) = [r for r in made_table(prove_rules(name)) if r.bodies]
        assert made == known[made.operator]


@pytest.mark.campaign
def test_the_whole_table_is_what_the_proofs_say() -> None:
    assert {r.operator: r for r in rows()} == known_rules()


def test_the_command_tells_of_a_models_rules(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    x, y = (helper.make_tensor_value_info(n, TensorProto.FLOAT, [2, 3]) for n in "xy")
    nodes = [
        helper.make_node("Softmax", ["x"], ["a"]),
        helper.make_node("MatMul", ["a", "w"], ["b"]),
        helper.make_node("Softmax", ["b"], ["y"]),
    ]
    weight = helper.make_tensor("w", TensorProto.FLOAT, [3, 3], [1.0] * 9)
    graph = helper.make_graph(nodes, "rules", [x], [y], [weight])
    (tmp_path / "rules.onnx").write_bytes(
        helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)]).SerializeToString()
    )
    monkeypatch.setenv("COLUMNS", "200")
    assert command(monkeypatch, "prove", str(tmp_path / "rules.onnx"), "--rules") == 4
    said = " ".join(capsys.readouterr().out.replace("│", "").split())
    assert (
        "Softmax-13 2 proved to be the standard's body, up to order, for every input at the sizes of 14 cases" in said
    )
    assert "of 2 operators 1 proved to be the standard's body, 1 by" in said
    (tmp_path / "text.py").write_text("x", "utf-8")
    assert command(monkeypatch, "prove", str(tmp_path / "text.py"), "--rules") == 2
    graph = helper.make_graph([], "none", [x], [x])
    (tmp_path / "none.onnx").write_bytes(helper.make_model(graph).SerializeToString())
    assert command(monkeypatch, "prove", str(tmp_path / "none.onnx"), "--rules") == 2  # prove.C4


# --- planted faults -----------------------------------------------------------------------------------------------


def other_attribute(name: str, attribute: str, value: Any) -> Callable[[Node], Any]:
    """The rule of an operator, with another value for an attribute."""
    rule = DOMAINS[""][name]
    return lambda node: rule(replace(node, attrs={**node.attrs, attribute: value}))


@pytest.mark.parametrize(
    ("name", "wrong"),
    [
        ("LessOrEqual", DOMAINS[""]["Less"]),  # at what is equal
        ("Softmax", other_attribute("Softmax", "axis", 0)),
        ("LeakyRelu", other_attribute("LeakyRelu", "alpha", 0.10000001192092896)),
        ("ReduceL1", DOMAINS[""]["ReduceSum"]),  # of what is negative
        ("HardSigmoid", other_attribute("HardSigmoid", "beta", 0.25)),
    ],
)
def test_a_wrong_rule_is_not_proved(name: str, wrong: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(DOMAINS[""], name, wrong)
    assert not all(p.proof.holds for p in prove_rules(name))


def test_a_row_says_what_is_not_proved() -> None:
    assert known_rules()["Gelu-20"] == RuleRow("Gelu-20", 4, 0, 0, 4, known_rules()["Gelu-20"].reason)
    assert "1.4142135" in known_rules()["Gelu-20"].reason
