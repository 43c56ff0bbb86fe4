"""What Relax has besides operators, imported: control flow, functions, effects, sizes; and what is refused."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from assay.interp import graph, machine
from assay.interp.graph import run
from assay.interp.values import Event
from assay.lower.anf import to_anf
from assay.lower.frontends.onnx.model import import_onnx
from assay.lower.frontends.tvm import from_tvm
from assay.semantics import rules
from assay.semantics.bounds import contains
from assay.semantics.errors import Invalid, Trap, Unsupported
from assay.semantics.graph import Dataflow, Function, Let, MatchCast
from assay.semantics.module import Module
from assay.semantics.walk import post_order
from tests.lower.frontends.tvm.tvm_models import compiled, flat, imported, relax, stages, tvm
from tests.lower.memory.dynamic_programs import planned, pool, proof, runs_alike
from tests.models import small_cnn
from tests.scale import MANY

I = tvm.script.ir  # noqa: E741
R = tvm.script.relax
T = tvm.script.tirx

pytestmark = pytest.mark.peer
X = np.arange(6, dtype=np.float32).reshape(2, 3)


def checked(mod: Any) -> Module:
    module = from_tvm(mod)
    rules.check(module)
    return module


def both(mod: Any, *inputs: Any) -> list[Any]:
    """The results here, which are TVM's bit for bit."""
    module = checked(mod)
    names = [p.name for p in module.main.params]
    got = flat(tuple(graph.run(module, dict(zip(names, inputs, strict=True))).values()))
    want = flat(compiled(mod)(*inputs))
    assert [g.tobytes() for g in got] == [w.tobytes() for w in want]
    assert [(g.shape, g.dtype) for g in got] == [(w.shape, w.dtype) for w in want]
    return got


def after(mod: Any, *passes: str) -> Any:
    with tvm.target.Target("llvm"):
        for name in passes:
            mod = getattr(relax.transform, name, getattr(relax.backend, name, None))()(mod)
    return mod


TO_MEMORY = ("LegalizeOps", "ToNonDataflow", "RemovePurityChecking", "CallTIRRewrite", "StaticPlanBlockMemory")


@I.ir_module
class Branch:
    @R.function
    def main(x: R.Tensor(("n", 3), "float32"), c: R.Tensor((), "bool")) -> R.Tensor(("n", 3), "float32"):
        if c:
            y = R.add(x, x)
            z = R.multiply(y, y)
        else:
            z = R.negative(x)
        return z


@pytest.mark.row("R15")
@pytest.mark.parametrize("holds", [True, False])
def test_a_branch(holds: bool) -> None:
    (got,) = both(Branch, X, np.array(holds))
    assert got[1, 2] == (100 if holds else -5)


@I.ir_module
class Recursion:
    @R.function
    def factorial(x: R.Tensor((), "float32")) -> R.Tensor((), "float32"):
        c = R.less_equal(x, R.const(1.0, "float32"))
        if c:
            r = R.const(1.0, "float32")
        else:
            y = Recursion.factorial(R.subtract(x, R.const(1.0, "float32")))
            r = R.multiply(x, y)
        return r

    @R.function
    def main(x: R.Tensor((), "float32")) -> R.Tensor((), "float32"):
        y = Recursion.factorial(x)
        return y


@pytest.mark.row("R17")
def test_a_recursive_function() -> None:
    (got,) = both(Recursion, np.float32(5))
    assert got == 120


@I.ir_module
class Closure:
    @R.function
    def main(x: R.Tensor((2, 3), "float32"), y: R.Tensor((2, 3), "float32")) -> R.Tensor((2, 3), "float32"):
        @R.function
        def inner(z: R.Tensor((2, 3), "float32")) -> R.Tensor((2, 3), "float32"):
            w = R.subtract(z, y)
            return w

        r = inner(x)
        return r


def test_a_closure_before_and_after_it_is_lifted() -> None:
    lifted = relax.transform.LambdaLift()(Closure)
    assert "make_closure" in lifted.script()
    for mod in (Closure, lifted):
        (got,) = graph.run(checked(mod), {"x": X, "y": 2 * X}).values()
        assert got.tobytes() == (X - 2 * X).tobytes()


@I.ir_module
class Effects:
    @R.function(pure=False)
    def main(x: R.Tensor((2, 3), "float32"), c: R.Tensor((), "bool")) -> R.Tensor((2, 3), "float32"):
        _ = R.print(x, format="x is {}")
        y = R.call_packed("an.extern", x, ty_args=R.Tensor((2, 3), "float32"))
        z = R.call_pure_packed("a.pure", y, ty_args=R.Tensor((2, 3), "float32"))
        _1 = R.assert_op(c, z, format="z is {}")
        w = R.call_dps_packed("a.dps", (z,), out_ty=R.Tensor((2, 3), "float32"))
        return w


EXTERNS = {"an.extern": lambda v: v + 1, "a.pure": lambda v: v * 2, "a.dps": lambda v: -v}


def test_effects_keep_their_order() -> None:
    trace: list[Event] = []
    module = checked(Effects)
    (got,) = graph.run(module, {"x": X, "c": np.array(True)}, externs=EXTERNS, trace=trace).values()
    assert got.tobytes() == (-((X + 1) * 2)).tobytes()
    assert [(e.kind, e.name) for e in trace] == [("print", "x is {}"), ("extern", "an.extern")]
    with pytest.raises(Trap, match="z is"):
        graph.run(module, {"x": X, "c": np.array(False)}, externs=EXTERNS)


@I.ir_module
class Sizes:
    @R.function
    def main(s: R.Shape(["n", "m"]), x: R.Tensor(("n", 4), "float32")):
        n = T.int64()
        m = T.int64()
        a = R.full(R.shape([m, n + 1]), R.const(2.0, "float32"))
        c = R.strided_slice(x, axes=[0], begin=[1], end=[n - 1])
        d = R.reshape(x, R.shape([n * 4]))
        return (a, c, d)


def test_sizes_are_shared_by_graph_and_tensor_functions() -> None:
    """A size that only a result has is a scalar of the tensor function, whether TVM hands it over or not."""
    x = np.arange(20, dtype=np.float32).reshape(5, 4)
    mod = Sizes
    for name in ("", *TO_MEMORY):
        mod = after(mod, name) if name else mod
        a, c, d = graph.run(checked(mod), {"s": (5, 3), "x": x}).values()
        assert a.shape == (3, 6) and np.all(a == 2)
        assert c.tobytes() == x[1:4].tobytes() and d.tobytes() == x.reshape(20).tobytes()
    assert any(k.scalars for k in checked(after(Sizes, "LegalizeOps")).kernels.values())


@I.ir_module
class Limited:
    @R.function
    def main(x: R.Tensor(("n", 2), "float32")) -> R.Tensor(("n", 2), "float32"):
        R.func_attr({"tir_var_upper_bound": {"n": 4}})
        y = R.add(x, x)
        z = R.multiply(y, x)
        w = R.negative(z)
        return w


def test_a_claimed_limit_of_a_size_is_checked() -> None:
    """TVM's planner makes storages of that size; with a larger one it would write beyond them."""
    mod = after(Limited, *TO_MEMORY)
    assert "R.shape([32])" in mod.script()
    module = checked(mod)
    (got,) = graph.run(module, {"x": np.ones((4, 2), np.float32)}).values()
    assert got.tolist() == [[-2, -2]] * 4
    with pytest.raises(Trap, match="the size n is more than 4"):
        graph.run(module, {"x": np.ones((5, 2), np.float32)})


@pytest.mark.row("U21")
def test_a_claimed_limit_of_a_size_is_planned_for() -> None:
    """The attribute comes along: memory for the largest size, and no run of a larger one."""
    module = to_anf(checked(after(Limited, "LegalizeOps")))
    assert module.main.attrs["tir_var_upper_bound"] == {"n": 4}
    made = planned(module, ready=True)
    assert pool(made.program) == 96  # two of 32 bytes
    assert "for all n in 0 to 4" in proof(made).detail
    runs_alike(module, made, {"n": 1}, {"n": 4})
    with pytest.raises(Invalid, match="n is 5; the program is planned for at least 0 and at most 4"):
        machine.run(made, {"x": np.ones((5, 2), np.float32)})


@I.ir_module
class Cast:
    @R.function
    def main(x: R.Tensor(("n",), "float32"), y: R.Tensor(("m",), "float32")) -> R.Tensor(("n",), "float32"):
        n = T.int64()
        z = R.match_cast(y, R.Tensor((n,), "float32"))
        w = R.add(x, z)
        return w


def test_a_match_cast_compares_sizes() -> None:
    module = checked(Cast)
    assert any(isinstance(n, MatchCast) for n in post_order(module.main))
    one = np.ones(3, np.float32)
    assert graph.run(module, {"x": one, "y": one})["output_0"].tolist() == [2, 2, 2]
    with pytest.raises(Trap, match="4, expected 3"):
        graph.run(module, {"x": one, "y": np.ones(4, np.float32)})


@I.ir_module
class Lost:
    @R.function
    def main(x: R.Tensor(("n",), "float32"), y: R.Tensor(("m",), "float32")) -> R.Tensor((), "float32"):
        n = T.int64()
        z = R.match_cast(y, R.Tensor((n,), "float32"))
        w = R.sum(z)
        return w


def test_the_pass_that_changes_the_meaning_is_found() -> None:
    """A pass of TVM drops the comparison of sizes: what has to fail gives a number. Here one sees where that
    happens."""
    inputs = {"x": np.ones(3, np.float32), "y": np.ones(5, np.float32)}
    code = compiled(Lost)
    assert flat(code(*inputs.values())) == [5]
    meanings: dict[str, Any] = {}
    for name, mod in stages(Lost, code.snapshots):
        if "MakePackedAPI" in name:
            break
        try:
            (meanings[name],) = graph.run(checked(mod), inputs).values()
        except Trap as trap:
            meanings[name] = trap.kind
    order = list(meanings)
    first = order.index("KillAfterLastUse")
    assert [meanings[n] for n in order[:first]] == ["shape"] * first and first > 3
    assert {float(meanings[n]) for n in order[first:]} == {5}


PASSES = [
    "CanonicalizeBindings", "EliminateCommonSubexpr", "DeadCodeElimination", "FoldConstant", "Normalize",
    "LambdaLift", "DataflowUseInplaceCalls", "LiftTransformParams", "DecomposeOpsForInference", "AdjustMatmulOrder",
    "CombineParallelMatmul", "ReorderPermuteDimsAfterConcat", "RemoveUnusedOutputs", "TopologicalSort",
        "AnnotateTIROpPattern",
]  # fmt: skip


@pytest.mark.parametrize("legal", [False, True])
@pytest.mark.parametrize("name", PASSES)
def test_passes_of_no_pipeline_keep_the_meaning(name: str, legal: bool) -> None:
    proto = small_cnn(batch="n")
    x = {"x": np.random.default_rng(1).standard_normal((2, 3, 12, 12)).astype(np.float32)}
    mod = after(imported(proto), *(["LegalizeOps"] if legal else []))
    (want,) = graph.run(checked(mod), x).values()
    (got,) = graph.run(checked(after(mod, name)), x).values()
    if name in ("FoldConstant", "DecomposeOpsForInference") and not legal:
        # operators are kernels now, or other operators: the results are rounded elsewhere
        (allowed,) = graph.run(import_onnx(proto, evaluate=graph.evaluate), x, bounds=True).values()
        assert np.all(contains(allowed, got))
    else:
        assert got.tobytes() == want.tobytes()


@I.ir_module
class Devices:
    I.module_global_infos({"vdevice": [I.vdevice({"kind": "llvm"}, 0), I.vdevice({"kind": "llvm"}, 1)]})

    @R.function
    def main(x: R.Tensor((2, 3), "float32", "llvm:1")) -> R.Tensor((2, 3), "float32", "llvm:1"):
        y: R.Tensor((2, 3), "float32", "llvm:1") = R.add(x, x)
        z = R.to_vdevice(y, "llvm:0")
        w = R.to_vdevice(z, "llvm:1")
        return w


def test_devices_are_kept() -> None:
    main = checked(Devices).main
    devices = [main.params[0].device, *(n.var.device for n in post_order(main) if isinstance(n, Let))]
    assert [(d.type, d.id, d.scope) for d in devices] == [("cpu", n, "global") for n in (1, 1, 0, 1)]


@I.ir_module
class Several:
    @T.prim_func(private=True, s_tir=True)
    def two(a: T.Buffer((2, 3), "float32"), b: T.Buffer((2, 3), "float32"), c: T.Buffer((3, 2), "float32")):
        for i, j in T.grid(2, 3):
            with T.sblock("b"):
                vi, vj = T.axis.remap("SS", [i, j])
                b[vi, vj] = a[vi, vj] + T.float32(1)
        for i, j in T.grid(2, 3):
            with T.sblock("c"):
                vi, vj = T.axis.remap("SS", [i, j])
                c[vj, vi] = a[vi, vj] * T.float32(2)

    @T.prim_func(private=True, s_tir=True)
    def increase(a: T.Buffer((2, 3), "float32"), b: T.Buffer((2, 3), "float32")):
        for i, j in T.grid(2, 3):
            with T.sblock("b"):
                vi, vj = T.axis.remap("SS", [i, j])
                a[vi, vj] = a[vi, vj] + b[vi, vj]

    @R.function
    def main(x: R.Tensor((2, 3), "float32")):
        with R.dataflow():
            t = R.call_tir(Several.two, (x,), out_ty=[R.Tensor((2, 3), "float32"), R.Tensor((3, 2), "float32")])
            a = t[0]
            b = t[1]
            c = R.call_tir_inplace(Several.increase, (a, x), inplace_indices=[0], out_ty=R.Tensor((2, 3), "float32"))
            o = (c, b)
            R.output(o)
        return o


@pytest.mark.row("R2")
def test_several_results_and_one_in_place() -> None:
    c, b = both(Several, X)
    assert c.tobytes() == (2 * X + 1).tobytes() and b.tobytes() == (2 * X.T).tobytes()
    for count in range(1, len(TO_MEMORY) + 1):
        got = graph.run(checked(after(Several, *TO_MEMORY[:count])), {"x": X}).values()
        assert [v.tobytes() for v in got] == [c.tobytes(), b.tobytes()]


def test_a_dataflow_block_is_a_mark() -> None:
    lets = [n for n in post_order(checked(Several).main) if isinstance(n, Let)]
    assert len({n.dataflow for n in lets}) == 1 and all(isinstance(n.dataflow, Dataflow) for n in lets)
    plain = [n for n in post_order(checked(after(Several, "ToNonDataflow")).main) if isinstance(n, Let)]
    assert len(plain) == len(lets) and all(n.dataflow is None for n in plain)


def test_attributes_are_kept() -> None:
    assert checked(Branch).main.attrs["global_symbol"] == "main"
    mod = after(imported(small_cnn()), "LegalizeOps", "AnnotateTIROpPattern", "FoldConstant", "FuseOps")
    fused = [d for d in checked(mod).definitions.values() if isinstance(d, Function) and d.attrs.get("Primitive")]
    assert len(fused) > 3
    assert checked(after(Several, *TO_MEMORY)).main.attrs["relax.force_pure"]


# --- depth ---------------------------------------------------------------------------------------------------------


def chain(length: int) -> Any:
    """x + x, and so on, as one long block."""
    of = relax.TensorType((2,), "float32")
    x = relax.Var("x", of)
    bindings, last = [], x
    for k in range(length):
        var = relax.Var(f"v{k}", of)
        bindings.append(relax.VarBinding(var, relax.op.add(last, x)))
        last = var
    body = relax.SeqExpr([relax.BindingBlock(bindings)], last)
    return tvm.IRModule({"main": relax.Function([x], body, of).with_attr("global_symbol", "main")})


@pytest.mark.slow
def test_a_long_chain_of_bindings() -> None:
    module = from_tvm(chain(MANY))
    assert sum(isinstance(n, Let) for n in post_order(module.main)) == MANY
    (got,) = graph.run(module, {"x": np.ones(2, np.float32)}).values()
    assert got.tolist() == [MANY + 1, MANY + 1]


def nest(depth: int) -> Any:
    """Branches inside branches: each returns what the one inside it does, and one more."""
    of = relax.TensorType((2,), "float32")
    x, c = relax.Var("x", of), relax.Var("c", relax.TensorType((), "bool"))
    body = relax.SeqExpr([], x)
    for k in range(depth):
        chosen, more = relax.Var(f"v{k}", of), relax.Var(f"w{k}", of)
        bindings = [
            relax.VarBinding(chosen, relax.If(c, body, relax.SeqExpr([], x))),
            relax.VarBinding(more, relax.op.add(chosen, x)),
        ]
        body = relax.SeqExpr([relax.BindingBlock(bindings)], more)
    return tvm.IRModule({"main": relax.Function([x, c], body, of)})


def test_a_deep_nest_of_branches() -> None:
    module = from_tvm(nest(3_000))
    (got,) = graph.run(module, {"x": np.ones(2, np.float32), "c": np.array(True)}).values()
    assert got.tolist() == [3_001, 3_001]
    (got,) = graph.run(module, {"x": np.ones(2, np.float32), "c": np.array(False)}).values()
    assert got.tolist() == [2, 2]


# --- what is refused -----------------------------------------------------------------------------------------------


@I.ir_module
class Unknown:
    @R.function
    def main(x: R.Tensor("float32")) -> R.Tensor("float32"):
        y = R.add(x, x)
        return y


@I.ir_module
class Sorted:
    @R.function
    def main(x: R.Tensor((4,), "float32")) -> R.Tensor((4,), "float32"):
        y = R.sort(x)
        return y


@I.ir_module
class Text:
    @R.function(pure=False)
    def main(x: R.Tensor((4,), "float32")) -> R.Tensor((4,), "float32"):
        y = R.call_packed("an.extern", x, R.str("how"), ty_args=R.Tensor((4,), "float32"))
        return y


@pytest.mark.parametrize(
    ("mod", "passes", "message"),
    [
        (Unknown, (), "function main.*unknown rank"),
        (Sorted, (), "main, y: the operator R.sort is not handled"),
        (Text, (), "main, y: the extern function an.extern, with what is no tensor"),
    ],
)
def test_what_is_not_handled_is_refused_by_name(mod: Any, passes: tuple[str, ...], message: str) -> None:
    with pytest.raises(Unsupported, match=message):
        from_tvm(after(mod, *passes))


def test_a_packed_function_is_an_extern_that_the_caller_gives() -> None:
    module = from_tvm(after(Sorted, "DispatchSortScan", "LegalizeOps"))
    inputs = {"x": np.array([3, 1, 2, 0], np.float32)}

    def sort(given: Any, out: Any, axis: Any, ascending: Any) -> None:
        assert (int(axis), bool(ascending)) == (-1, True)
        out[...] = np.sort(given)

    with pytest.raises(Invalid, match=r"tvm\.contrib\.sort\.sort"):
        run(module, inputs)
    assert run(module, inputs, externs={"tvm.contrib.sort.sort": sort})["output_0"].tolist() == [0, 1, 2, 3]


def test_only_a_module_is_imported() -> None:
    with pytest.raises(Invalid, match=r"an IRModule expected, this is a relax.expr.Function \[tvm\.C17\]"):
        from_tvm(Branch["main"])
