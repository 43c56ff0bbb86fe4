"""Graph modules as ONNX: exported, checked, imported again, and equal bit for bit; and what cannot be said."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from random import Random
from typing import Any

import numpy as np
import onnx
import pytest
from onnx.reference import ReferenceEvaluator

from assay.interp import graph
from assay.interp.graph import evaluate
from assay.lower.anf import to_anf
from assay.lower.frontends.onnx.model import import_onnx
from assay.lower.legalize import legalize
from assay.lower.onnx_export import OPSET, RULES, UNSAID, export_onnx
from assay.lower.onnx_export.use import ExportedCall
from assay.lower.onnx_export.writer import Value
from assay.semantics.builder import Builder, tensor
from assay.semantics.dtypes import BOOL, DTYPES, FLOAT32, INT32
from assay.semantics.errors import Invalid, Trap, Unsupported
from assay.semantics.graph import (
    Expr,
    GlobalVar,
    Var,
    call,
    constant,
    function,
    get,
    if_,
    let,
    match_cast,
    print_,
    tuple_of,
    var,
)
from assay.semantics.module import Module
from assay.semantics.operator import Example, Operator
from assay.semantics.ops import OPERATORS
from assay.semantics.scalar import Var as Symbol
from assay.semantics.types import ShapeType, TensorType
from assay.verify.backends.protocol import with_outputs
from assay.verify.strategies.choosing import by_random
from assay.verify.strategies.features import Features
from assay.verify.strategies.graphs import a_module
from assay.verify.strategies.values import REAL, picked_inputs, random_contents
from tests.scale import MANY

Array = np.ndarray[Any, Any]
OTHERS = ("bool", "int4", "uint8", "int16", "int64", "uint64", "float16", "bfloat16", "float64", "float8_e5m2")


def back(module: Module) -> Module:
    """The module exported, checked by onnx, and imported again."""
    model = export_onnx(module)
    onnx.checker.check_model(model, full_check=True)
    return import_onnx(model, evaluate=evaluate)


def same(module: Module, inputs: Mapping[str, Any]) -> None:
    """Both modules give the same bits, every NaN being one."""
    wanted, got = graph.run(module, inputs), graph.run(back(module), inputs)
    assert list(wanted) == list(got)
    for name in wanted:
        same_array(name, wanted[name], got[name])


def same_array(name: str, wanted: Any, got: Any) -> None:
    """The same bits, every NaN being one: NumPy's own assertion knows no NaN of bfloat16 or float8."""
    w, g = np.asarray(wanted), np.asarray(got)
    assert (w.dtype, w.shape) == (g.dtype, g.shape)
    there = w == w
    assert np.array_equal(there, g == g) and w[there].tobytes() == g[there].tobytes(), f"{name}: {w} and {g}"


def used(op: Operator, example: Example) -> tuple[Module, dict[str, Array]]:
    """One call of an operator, and operands for it."""
    params = [var(f"x{i}", TensorType(s, DTYPES[d])) for i, (s, d) in enumerate(example.operands)]
    module = Module({"main": function(params, call(op.name, *params, **example.attrs))})
    rng = np.random.default_rng(0)
    inputs: dict[str, Array] = {}
    for i, (p, (shape, d)) in enumerate(zip(params, example.operands, strict=True)):
        of = DTYPES[d]
        if i in example.ranges:
            drawn = rng.integers(*example.ranges[i], shape).astype(of.numpy)
        elif op.name.endswith("_shift") and i:
            drawn = rng.integers(0, min(4, of.bits), shape).astype(of.numpy)
        else:
            drawn = random_contents(rng, shape, of, REAL)
            if op.name in ("truncate_divide", "floor_divide") and i:
                drawn = np.where(drawn == 0, np.ones((), of.numpy), drawn)
        inputs[p.name] = np.asarray(drawn, of.numpy)
    return module, inputs


def test_every_operator_is_exported_or_listed_with_a_reason() -> None:
    assert set(RULES) | set(UNSAID) == set(OPERATORS)
    assert not set(RULES) & set(UNSAID)
    assert all(UNSAID.values())


@pytest.mark.parametrize("name", OPERATORS)
def test_an_operator_on_its_examples(name: str) -> None:
    """Each example, with its own element type and with others that the operator takes: the same bits, or a refusal
    that names ONNX's operator and the type. What is not narrow is never refused on the examples' own types."""
    op = OPERATORS[name]
    ran = 0
    for example in op.examples:
        first = next((d for _, d in example.operands if d != "bool"), "bool")
        for other in (first, *OTHERS):
            operands = tuple((s, other if d == first else d) for s, d in example.operands)
            try:
                module, inputs = used(op, replace(example, operands=operands))
            except Invalid:
                continue  # a type that the operator does not take
            try:
                same(module, inputs)
                ran += 1
            except Trap:
                assert op.can_trap
            except Unsupported as wrong:
                assert name in UNSAID or other != first
                assert wrong.label in ("onnx_export.C2", "onnx_export.C3")
    assert ran or name in UNSAID


KINDS = {
    "dataflow": Features(),
    "branches": Features(names=True, branches=True, named_constants=True),
    "symbolic": Features(names=True, branches=True, symbolic=True),
    "empty": Features(empty=True, names=True),
    "functions": Features(names=True, branches=True, functions=True, casts=True),
}


@pytest.mark.parametrize("kind", KINDS)
def test_random_programs(kind: str) -> None:
    ran = 0
    for seed in range(40):
        module = a_module(by_random(Random(seed)), 10, KINDS[kind])
        try:
            same(module, picked_inputs(by_random(Random(seed)), module))
            ran += 1
        except (Unsupported, Trap):
            pass
    assert ran >= (8 if kind == "functions" else 30)


def test_tensors_are_the_nodes_of_the_module() -> None:
    """What each tensor of the model holds is the value of the node that it is said to be."""
    compared = 0
    for seed in range(20):
        module = a_module(by_random(Random(seed)), 10, Features(names=True, branches=True))
        tensors: dict[str, Expr] = {}
        try:
            model = export_onnx(module, tensors)
        except Unsupported:
            continue
        inputs = picked_inputs(by_random(Random(seed)), module)
        values: dict[int, Any] = {}
        graph.run(module, inputs, observe=lambda node, value, values=values: values.__setitem__(id(node), value))
        made = [o for n in model.graph.node for o in n.output if o in tensors and id(tensors[o]) in values]
        got = graph.run(import_onnx(with_outputs(model, made), evaluate=evaluate), inputs) if made else {}
        for name in made:
            same_array(name, values[id(tensors[name])], got[name])
            compared += 1
    assert compared > 40


# --- faults -------------------------------------------------------------------------------------------------------


def _swapped(use: ExportedCall) -> Value:
    return use.op("Sub", *use.args[::-1])


def _unmoved(use: ExportedCall) -> Value:
    return use.op("Identity", *use.args) if use.rank < 2 else use.shaped(use.args[0], use.type.shape)


FAULTS = {
    "subtract": _swapped,
    "permute_dims": _unmoved,
    "maximum": lambda use: use.op("Min", *use.args),
    "floor_divide": lambda use: use.op("Div", *use.args),
    "concat": lambda use: use.op("Concat", *use.args[::-1], axis=use.axis()),
    "clip": lambda use: use.op("Clip", *use.args),
    "nn.pad": lambda use: use.op("Pad", use.args[0], use.ints(use.attrs["pad_width"]), mode=use.attrs["mode"]),
    "sum": lambda use: RULES["mean"](use),
    "left_shift": lambda use: RULES["right_shift"](use),
    "cumsum": lambda use: use.op("CumSum", use.args[0], use.number(use.axis(), DTYPES["int64"])),
    "nn.avg_pool2d": lambda use: RULES["nn.max_pool2d"](use),
    "nn.leakyrelu": lambda use: use.op("LeakyRelu", *use.args),
}


@pytest.mark.parametrize("name", FAULTS)
def test_a_wrong_rule_is_caught(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(RULES, name, FAULTS[name])
    caught = 0
    for example in OPERATORS[name].examples:
        try:
            same(*used(OPERATORS[name], example))
        except (AssertionError, Invalid, onnx.shape_inference.InferenceError):
            caught += 1
    assert caught


# --- forms --------------------------------------------------------------------------------------------------------


def test_names_types_and_operator_set() -> None:
    b = Builder()
    with b.function("main", x=tensor("n", 4), w=tensor(4, 3)) as f:
        product = b.matmul(f.x, f.w)
        b.result((b.nn.relu(product), b.shape_of(product), f.x))
    module = b.module()
    main = module.main
    module = module.with_(main=replace(main, attrs={**main.attrs, "outputs": ("y", "sizes", "same")}))
    tensors: dict[str, Expr] = {}
    model = export_onnx(module, tensors)
    assert [o.version for o in model.opset_import] == [OPSET]
    assert [i.name for i in model.graph.input] == ["x", "w"] and [o.name for o in model.graph.output] == [
        "y",
        "sizes",
        "same",
    ]
    assert model.graph.input[0].type.tensor_type.shape.dim[0].dim_param == "n"
    assert [n.op_type for n in model.graph.node] == ["MatMul", "Relu", "Shape", "Identity"]
    assert model.graph.node[0].output[0] == product.name and {"x", "w", product.name, "y", "sizes"} <= set(tensors)
    same(module, {"x": np.ones((2, 4), np.float32), "w": np.ones((4, 3), np.float32)})


def test_branches_share_and_capture() -> None:
    """What both branches and the rest use is computed once; what a branch alone uses, there."""
    x, c = var("x", TensorType((3,), FLOAT32)), var("c", TensorType((), BOOL))
    shared, own = call("exp", x), call("log", x)
    chosen = if_(c, tuple_of(call("add", shared, own), x), tuple_of(shared, call("negative", shared)))
    module = Module({"main": function([x, c], tuple_of(get(chosen, 0), get(chosen, 1), shared))})
    model = export_onnx(module)
    assert [n.op_type for n in model.graph.node][:2] == ["Exp", "If"] and model.graph.node[0].output[0] == "output_2"
    for side in (True, False):
        same(module, {"x": np.array([1, 2, 3], np.float32), "c": np.array(side)})


def test_each_branch_has_a_name_of_its_own() -> None:
    """Names of graphs are unique in a model; MNN calls a branch that has the name of the one around it without end."""
    x, c, d = var("x", TensorType((3,), FLOAT32)), var("c", TensorType((), BOOL)), var("d", TensorType((), BOOL))
    inner = if_(d, call("exp", x), call("log", x))
    module = Module({"main": function([x, c, d], if_(d, if_(c, inner, x), call("negative", x)))})
    graphs, found = [export_onnx(module).graph], list[str]()
    for g in graphs:
        found.append(g.name)
        graphs += [a.g for n in g.node for a in n.attribute if a.HasField("g")]
    assert len(found) == 7 and len(set(found)) == 7, found


def test_sizes_bound_in_a_branch_are_measured_in_each() -> None:
    n, m = Symbol("n"), Symbol("m")
    x, c = var("x", TensorType((n,), INT32)), var("c", TensorType((), BOOL))
    cast = match_cast(x, TensorType((m,), INT32))
    y = var("y", cast.type)
    body = let(y, cast, call("sum", call("full", shape=(m,), fill_value=2, dtype="int32")))
    module = Module(
        {"main": function([x, c], tuple_of(if_(c, body, constant(0, "int32")), call("multiply", body, body)))}
    )
    for side in (True, False):
        same(module, {"x": np.zeros(5, np.int32), "c": np.array(side)})


def test_sizes_from_a_vector() -> None:
    """A shape that a run reads from a tensor (rule M4.8)."""
    k = Symbol("k")
    v, x = var("v", TensorType((1,), DTYPES["int64"])), var("x", TensorType((), FLOAT32))
    cast = match_cast(v, ShapeType((k,)))
    module = Module(
        {
            "main": function(
                [v, x], let(var("s", cast.type), cast, call("sum", call("broadcast_to", x, shape=(k, k + 1))))
            )
        }
    )
    model = export_onnx(module)
    onnx.checker.check_model(model, full_check=True)
    (total,) = ReferenceEvaluator(model).run(None, {"v": np.array([3]), "x": np.array(2, np.float32)})
    assert total == 24


def test_tensor_functions_are_the_operators_that_they_claim() -> None:
    b = Builder()
    with b.function("main", x=tensor(2, 3)) as f:
        b.result(b.nn.softmax(b.add(f.x, f.x)))
    module = legalize(to_anf(b.module()))
    assert [n.op_type for n in export_onnx(module).graph.node] == ["Add", "Softmax"]
    same(module, {"x": np.ones((2, 3), np.float32)})


def test_functions_are_written_where_they_are_called() -> None:
    x, y, f = var("x", TensorType((3,), FLOAT32)), var("y", TensorType((3,), FLOAT32)), None
    helper = function([x], call("exp", x))
    a = var("a", TensorType((3,), FLOAT32))
    inner = function([y], call("add", y, a))
    f = var("f", inner.type)
    body = let(f, inner, call_of(f, call_of(GlobalVar(helper.type, "helper"), a)))
    module = Module({"main": function([a], body), "helper": helper})
    assert [n.op_type for n in export_onnx(module).graph.node] == ["Exp", "Add", "Identity"]
    same(module, {"a": np.array([1, 2, 3], np.float32)})


def call_of(callee: Expr, *args: Expr) -> Expr:
    return call(callee, *args)


SCALAR = TensorType((), INT32)


def _recursive() -> Module:
    x = var("x", SCALAR)
    of = function([x], x).type
    return Module({"main": function([x], call(GlobalVar(of, "main"), x))})


def _printing() -> Module:
    x = var("x", SCALAR)
    said = print_(x)
    return Module({"main": function([x], let(var("u", said.type), said, x))})


def _one(op: str, of: str, **attrs: Any) -> Module:
    x = var("x", TensorType((2, 2), DTYPES[of]))
    return Module({"main": function([x], call(op, x, **attrs))})


def _open_size() -> Module:
    n = Symbol("n")
    x = var("x", TensorType((n * 2,), FLOAT32))
    return Module({"main": function([x], call("full", shape=(n,), fill_value=1.0))})


def _tuple_parameter() -> Module:
    pair = tuple_of(var("x", SCALAR), var("y", SCALAR)).type
    p = Var(pair, "p")
    return Module({"main": function([p], get(p, 0))})


def _deep_branches() -> Module:
    x, c = var("x", SCALAR), var("c", TensorType((), BOOL))
    e: Expr = x
    for _ in range(40):
        e = if_(c, call("negative", e), x)
    return Module({"main": function([x, c], e)})


REFUSED = {
    "recursion": (_recursive, "onnx_export.C1", "calls itself"),
    "effects": (_printing, "onnx_export.C1", "no word for print"),
    "element type of an operator": (lambda: _one("exp", "float8_e5m2"), "onnx_export.C2", "Exp takes no float8_e5m2"),
    "element type": (
        lambda: _one("reshape", "float8_e3m4", shape=(4,)),
        "onnx_export.C3",
        "no element type float8_e3m4",
    ),
    "a size that stands nowhere alone": (_open_size, "onnx_export.C4", "size n"),
    "a tuple for a parameter": (_tuple_parameter, "onnx_export.C5", "a tensor is wanted"),
    "branches too deep": (_deep_branches, "onnx_export.C6", "branches lie 30 deep"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_onnx_cannot_say(case: str) -> None:
    make, label, message = REFUSED[case]
    with pytest.raises(Unsupported, match=message) as wrong:
        export_onnx(make())
    assert wrong.value.label == label


@pytest.mark.slow
def test_a_long_chain() -> None:
    x = var("x", TensorType((3,), FLOAT32))
    e: Expr = x
    for _ in range(MANY):
        e = call("negative", e)
    assert len(export_onnx(Module({"main": function([x], e)})).graph.node) == MANY
