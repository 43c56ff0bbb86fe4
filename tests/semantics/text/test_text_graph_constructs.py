"""Graph functions as text: every construct, and what is read (R4, R5)."""

from __future__ import annotations

import ast
import random
from dataclasses import replace

import numpy as np
import pytest

from assay.interp.graph import run
from assay.semantics import graph as g
from assay.semantics.analyses.equality import first_difference
from assay.semantics.builder.prelude import prelude
from assay.semantics.devices import VirtualDevice
from assay.semantics.dtypes import INT64
from assay.semantics.errors import Span
from assay.semantics.graph import Call, Dataflow, Expr, Function, Let, call, constant, function, let, var
from assay.semantics.module import Module
from assay.semantics.rules import check
from assay.semantics.text.module_text import parse, show, show_function
from assay.semantics.text.relax.ops import from_relax
from assay.semantics.types import FuncType, RefType, TensorType, TupleType, TypeVar
from assay.semantics.walk import post_order
from assay.verify.strategies.graphs import Maker
from tests.lower.anf import shared_programs
from tests.semantics.text.test_text_graph import B, F, V, body, identity, main_of

pytestmark = [pytest.mark.row("R4"), pytest.mark.row("R5")]


# --- constructs ---------------------------------------------------------------------------------------------------


def test_lets_are_assignments_and_nodes_are_in_the_graph() -> None:
    module = body(
        "lv = R.exp(x)",
        "with A.graph():",
        "    a = R.add(lv, lv)",
        "    b = R.multiply(a, R.exp(a))",
        "y = R.add(b, a)",
        "return y",
    )
    main = module.main
    assert isinstance(main.body, Let) and main.body.var.name == "lv"
    second = main.body.body
    assert isinstance(second, Let) and second.var.name == "y"
    value = second.value
    assert isinstance(value, Call) and value.children[1] is value.children[0].children[0]
    identity(module)


def test_every_node_knows_its_place() -> None:
    module = body("lv = R.exp(x)", "y = R.add(lv, R.exp(lv))", "return y")
    spans = {(n.op.name, n.span.line, n.span.column) for n in post_order(module.main) if isinstance(n, Call) and n.span}
    assert spans == {("exp", 5, 14), ("add", 6, 13), ("exp", 6, 23)}
    assert module.main.span == Span("m.py", "main", 4, 5)
    for made in (prelude(), *(shared_programs.program(seed)[0] for seed in range(10))):
        for f in parse(show(made)).definitions.values():
            if isinstance(f, Function):
                root: Expr = f
                assert all(n.span is not None and n.span.line for n in post_order(root))


def too_early(text: str) -> list[str]:
    """The names of a printed graph module that are used where nothing around has bound them."""
    found: list[str] = []

    def used(node: ast.AST, own: set[str], known: set[str]) -> None:
        names = [n.id for n in ast.walk(node) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Load)]
        found.extend(n for n in names if n in own and n not in known)

    def block(lines: list[ast.stmt], own: set[str], known: set[str]) -> set[str]:
        for s in lines:
            match s:
                case (
                    ast.Assign(targets=[target], value=value) | ast.AnnAssign(target=target, value=ast.expr() as value)
                ):
                    used(value, own, known)
                    known = known | {n.id for n in ast.walk(target) if isinstance(n, ast.Name)}
                case ast.If():
                    used(s.test, own, known)
                    known = block(s.body, own, known) & block(s.orelse, own, known)
                case ast.Match():
                    used(s.subject, own, known)
                    each = [
                        known | {n.name for n in ast.walk(c.pattern) if isinstance(n, ast.MatchAs) and n.name}
                        for c in s.cases
                    ]
                    known = set.intersection(*(block(c.body, own, k) for c, k in zip(s.cases, each, strict=True)))
                case ast.With():
                    known = block(s.body, own, known)
                case ast.FunctionDef():
                    known = known | {s.name}
                    block(s.body, own, known | {a.arg for a in s.args.args})
                case ast.Return(value=ast.expr() as value) | ast.Expr(value=value):
                    used(value, own, known)
                case _:
                    pass
        return known

    for of in (f for c in ast.parse(text).body if isinstance(c, ast.ClassDef) for f in c.body):
        if isinstance(of, ast.FunctionDef) and "R.function" in ast.unparse(of.decorator_list[0]):
            own = {n.id for n in ast.walk(of) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)}
            block(of.body, own, {a.arg for a in of.args.args})
    return found


def test_a_name_stands_before_all_its_uses_in_a_block_around_them() -> None:
    """A node that a branch, or an inner function, shares with what comes after it, is named before it."""
    p, q, v, w, z = var("p", F), var("q", B), var("v", F), var("w", F), var("z", F)
    shared, inner = call("exp", p), call("tanh", call("exp", p))
    closure = function([z], call("add", z, call("negative", inner)))
    f = var("f", closure.func_type)
    branch = g.if_(q, let(w, call("negative", shared), call("add", w, shared)), call(f, p))
    text = identity(main_of(let(f, closure, let(v, branch, call("add", call("add", v, shared), inner))), p, q))
    assert too_early(text) == []
    branches = (
        "        if q:\n            g = 1\n            v = g\n        else:\n            v = p\n        return v + g\n"
    )
    assert too_early("class M:\n    @R.function\n    def main(p, q):\n" + branches) == ["g"]
    seen = 0
    for seed in range(60):
        text = show(Maker(random.Random(seed).randrange, 60).module())
        assert too_early(text) == [], seed
        seen += "if " in text and "A.graph()" in text
    assert seen > 10


def test_what_an_inner_function_shares_and_needs_its_name() -> None:
    """It cannot be named before the function."""
    p, q, z = var("p", F), var("q", B), var("z", F)
    f = var("f", FuncType((F,), F))
    shared = call(f, p)
    identity(main_of(let(f, function([z], g.if_(q, z, shared)), call("add", shared, p)), p, q))


def test_branches_bind_one_name() -> None:
    module = body(
        "if c:",
        "    w = R.exp(x)",
        "    q = R.add(w, w)",
        "elif c:",
        "    q = x",
        "else:",
        "    q: R.Tensor((2, 3), 'float32') = R.negative(x)",
        "z = R.add(q, q)",
        "return z",
        params='x: R.Tensor((2, 3), "float32"), c: R.Tensor((), "bool")',
    )
    text = identity(module)
    assert "else:\n            if c:" in text
    (out,) = run(module, {"x": np.full((2, 3), 2.0, np.float32), "c": np.array(False)}).values()
    assert (out == -4).all()


def test_branches_may_return() -> None:
    module = body(
        "if c:",
        "    return x",
        "else:",
        "    y = R.exp(x)",
        "    return y",
        params='x: R.Tensor((2, 3), "float32"), c: R.Tensor((), "bool")',
    )
    assert isinstance(module.main.body, g.If)
    identity(module)


def test_closures_and_recursion() -> None:
    module = body(
        "@R.function",
        'def loop(i: R.Tensor((), "int64"), acc: R.Tensor((), "int64")) -> R.Tensor((), "int64"):',
        '    if R.less_equal(i, R.const(0, "int64")):',
        "        r = acc",
        "    else:",
        '        r = loop(R.subtract(i, R.const(1, "int64")), R.add(R.add(acc, i), k))',
        "    return r",
        'y = loop(n, R.const(0, "int64"))',
        "return y",
        params='n: R.Tensor((), "int64"), k: R.Tensor((), "int64")',
    )
    check(module)
    identity(module)
    (out,) = run(module, {"n": np.int64(4), "k": np.int64(10)}).values()
    assert out == 50


def test_effects_references_and_externs() -> None:
    module = body(
        'R.print(x, format="x is {}")',
        "r = A.ref(x)",
        "A.write(r, R.exp(A.read(r)))",
        'R.assert_op(c, x, format="bad {}")',
        'e = R.call_packed("far.away", x, ty_args=(R.Tensor((2, 3), "float32"),))',
        'p = R.call_pure_packed("near", e, ty_args=R.Tensor((5,), "int8"))',
        "v = A.read(r)",
        "return v",
        params='x: R.Tensor((2, 3), "float32"), c: R.Tensor((), "bool")',
        flags="(pure=False)",
    )
    check(module)
    assert 'R.print(x, format="x is {}")\n' in identity(module)
    kinds = [type(n).__name__ for n in post_order(module.main) if g.acts(n)]
    assert kinds == ["Print", "RefCreate", "RefRead", "RefWrite", "AssertOp", "Call", "RefRead"]
    trace: list[object] = []
    given = {"x": np.zeros((2, 3), np.float32), "c": np.array(True)}
    near = {"far.away": lambda a: a + 1, "near": lambda a: np.zeros(5, np.int8)}
    (out,) = run(module, given, externs=near, trace=trace).values()
    assert (out == 1).all() and len(trace) >= 2


def test_dataflow_blocks_keep_their_marks() -> None:
    module = body(
        "with R.dataflow():",
        "    a = R.exp(x)",
        "    b = R.add(a, a)",
        "    R.output(b)",
        "with R.dataflow():",
        "    d = R.exp(b)",
        "    R.output(d)",
        "e = R.exp(d)",
        "return e",
    )
    lets = [n for n in post_order(module.main) if isinstance(n, Let)]
    marks = [n.dataflow for n in reversed(lets)]
    assert isinstance(marks[0], Dataflow) and marks[0] is marks[1] and marks[2] is not marks[0] and marks[3] is None
    text = identity(module)
    assert text.count("with R.dataflow():") == 2 and "R.output(b)" in text and "R.output(d)" in text


def test_match_on_data_types() -> None:
    text = """
a = A.typevar("a")
@I.ir_module
class Module:
    @A.data(a)
    class Tree:
        Leaf = ()
        Node = (Tree[a], a, Tree[a])

    @R.function
    def total(t: Tree[R.Tensor((), "int64")]) -> R.Tensor((), "int64"):
        match t:
            case Tree.Leaf():
                r = R.const(0, "int64")
            case Tree.Node(Tree.Leaf(), v, _):
                r = v
            case Tree.Node(left, v, right):
                r = R.add(Module.total(left), R.add(v, Module.total(right)))
        return r

    @R.function
    def main(x: R.Tensor((), "int64")) -> R.Tensor((), "int64"):
        leaf = Tree.Leaf(type_args=(R.Tensor((), "int64"),))
        one = Tree.Node(leaf, x, leaf)
        two = Tree.Node(one, R.add(x, x), one)
        return Module.total(two)
"""
    module = parse(text)
    check(module)
    identity(module)
    (out,) = run(module, {"x": np.int64(3)}).values()
    assert out == 12


def test_type_parameters_and_higher_order_functions() -> None:
    text = """
a = A.typevar("a")
@I.ir_module
class Module:
    @R.function(type_params=(a,))
    def twice(f: R.Callable((a,), a, True), x: a) -> a:
        return f(f(x))

    @R.function
    def main(x: R.Tensor((2,), "float32")) -> R.Tensor((2,), "float32"):
        @R.function
        def double(y: R.Tensor((2,), "float32")) -> R.Tensor((2,), "float32"):
            return R.add(y, y)
        return Module.twice(double, x)
"""
    module = parse(text)
    check(module)
    identity(module)
    (out,) = run(module, {"x": np.ones(2, np.float32)}).values()
    assert (out == 4).all()


def test_virtual_devices_stay() -> None:
    gpu = VirtualDevice("cuda", 1, "sm_80", "global")
    x = replace(var("x", V), device=gpu)
    y = replace(call("negative", x), device=VirtualDevice(scope="shared"))
    v = replace(var("v", V), device=gpu)
    text = identity(main_of(let(v, y, call("add", v, constant(np.float32(1)))), x))
    assert 'A.devices({"cuda:1": ("cuda", 1, "sm_80", "global")})' in text
    assert 'A.on(R.Tensor((2,), dtype="float32"), "cuda:1")' in text


def test_virtual_devices_of_tvm() -> None:
    text = """
@I.ir_module
class Module:
    I.module_global_infos({"vdevice": [I.vdevice("llvm"), I.vdevice({"kind": "cuda", "tag": ""}, 0, "shared"), \
I.vdevice("cuda", 1)]})
    @R.function
    def main(x: R.Tensor((2,), "float32", "llvm:0"), y: R.Tensor((2,), "float32", "cuda:1:global")) -> R.Tensor((2,), \
"float32", "cuda:0"):
        z: R.Tensor((2,), dtype="float32", vdevice="cuda:0") = R.negative(y)
        return z
"""
    module = parse(text)
    x, y = module.main.params
    assert (x.device, y.device) == (VirtualDevice("", 0, "llvm", "global"), VirtualDevice("", 1, "cuda", "global"))
    assert isinstance(module.main.body, Let) and module.main.body.value.device == VirtualDevice("", 0, "cuda", "shared")
    identity(module)


def test_names_are_made_legal_and_kept() -> None:
    x, y, z = var("x.1", V), var("lambda", V), var("x_1", V)
    text = identity(main_of(call("add", call("add", x, y), z), x, y, z))
    assert '"x_1": "x.1"' in text and [p.name for p in parse(text).main.params] == ["x.1", "lambda", "x_1"]
    p = var("a", V)
    many = let(q := var("a", V), call("negative", p), let(r := var("a", V), call("negative", q), call("add", q, r)))
    identity(main_of(many, p))


def test_a_tensor_may_be_called_as_the_prefix_of_the_house() -> None:
    a = var("A", V)
    assert "def main(A: R.Tensor" in identity(main_of(call("exp", a), a))
    text = identity(main_of(call("add", call("exp", y := call("exp", a)), y), a))
    assert "def main(A_1: R.Tensor" in text and [p.name for p in parse(text).main.params] == ["A"]


def test_attributes_of_functions() -> None:
    x = var("x", V)
    attrs = {
        "primitive": True,
        "compiler": 'my "npu"\n',
        "outputs": ("y:0", "z"),
        "cost": float("inf"),
        "n": -3,
        "none": None,
    }
    made = replace(function([x], x), attrs=attrs)
    identity(Module({"main": made}))
    assert dict(parse(show(Module({"main": made}))).main.attrs) == attrs


def test_one_function_alone() -> None:
    x = var("x", V)
    inner = g.GlobalVar(FuncType((V,), V), "other")
    text = show_function(function([x], call(inner, x)), "f")
    back = parse(text)
    assert first_difference(back.definitions["f"], function([x], call(inner, x))) is None


def test_python_operators_on_tensors() -> None:
    module = body("y = -(x + x) * 2.0", "return y")
    (out,) = run(module, {"x": np.ones((2, 3), np.float32)}).values()
    assert (out == -4).all()


def test_relax_operators_that_are_several_of_ours() -> None:
    x = constant(np.array([[-1.0, 0.0, 2.0]], np.float32))
    for name, attrs, wanted in (
        ("square", {}, [[1, 0, 4]]),
        ("sign", {}, [[-1, 0, 1]]),
        ("flip", {"axis": 1}, [[2, 0, -1]]),
        ("nn.relu6", {}, [[0, 0, 2]]),
        ("tile", {"repeats": (2, 1)}, [[-1, 0, 2], [-1, 0, 2]]),
        ("argmax", {"axis": 1}, [2]),
        ("flatten", {}, [-1, 0, 2]),
    ):
        (out,) = run(main_of(from_relax(name, [x], attrs)), {}).values()
        assert out.tolist() == wanted, name


def test_types_that_a_cell_holds() -> None:
    f = TensorType((), INT64)
    r = var("r", RefType(TupleType((f, f))))
    identity(Module({"main": function([r], g.read(r))}))
    t = TypeVar("t")
    p = var("p", t)
    made: Function = function([p], p, type_params=[t])
    identity(Module({"main": made}))
