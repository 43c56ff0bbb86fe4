"""Functions on several devices (row V21), and tensor functions in planned modules (rows V12 to V15; specs/lower.md,
"devices")."""

from __future__ import annotations

import random
from dataclasses import replace

import numpy as np
import pytest

from assay.interp import graph
from assay.lower.anf import to_anf
from assay.lower.devices import plan_devices, plan_once
from assay.lower.devices.instances import copies
from assay.lower.legalize import legalize
from assay.semantics.analyses.equality import first_difference
from assay.semantics.compilation import CompilationConfig
from assay.semantics.devices import VirtualDevice
from assay.semantics.graph import Function
from assay.semantics.module import Module
from assay.semantics.rules import check
from assay.verify.devices import check_devices
from assay.verify.devices.erase import erase
from assay.verify.devices.scopes_check import check_scopes
from tests.lower.devices.scope_programs import DOUBLE, TAKES, buffer, function, functions

CPU, CUDA = VirtualDevice("cpu", 0, "llvm"), VirtualDevice("cuda", 0, "cuda")
CONFIG = CompilationConfig((CPU, CUDA), CPU, CUDA)

F = """
    @R.function
    def f(x: R.Tensor((4,), "float32")):
        return R.add(R.exp(x), x)
"""

MAIN = """
    @R.function(pure=False)
    def main(a: A.on(R.Tensor((4,), "float32"), "cpu"), b: A.on(R.Tensor((4,), "float32"), "cuda")):
        u = Module.f(a)
        v = Module.f(b)
        p = A.on_device(R.tanh(u), "cpu", constrain_body=True, constrain_result=True)
        q = A.on_device(R.tanh(v), "cuda", constrain_body=True, constrain_result=True)
        R.print(p, format="")
        return q
"""


def module_of(*texts: str) -> Module:
    module = functions(*texts)
    check(module)
    return module


def planned(module: Module) -> Module:
    """Planned; well-formed, the same but for devices, its own plan, and no copy more than without instances."""
    alone = plan_once(module, CONFIG)
    made = plan_devices(module, CONFIG)
    check(made)
    assert first_difference(plan_devices(made, CONFIG), made) is None
    assert first_difference(erase(made), erase(module)) is None
    for d in made.definitions.values():
        if isinstance(d, Function) and "instance_of" in d.attrs:
            attrs = {k: v for k, v in d.attrs.items() if k != "instance_of"}
            bare = erase(made.with_(bare=replace(d, attrs=attrs))).definitions
            assert first_difference(bare["bare"], bare[d.attrs["instance_of"]]) is None
    assert copies(made) <= copies(alone)
    return made


def graph_functions(module: Module) -> set[str]:
    return {n for n, d in module.definitions.items() if isinstance(d, Function)}


@pytest.mark.row("V21")
def test_one_function_on_two_devices() -> None:
    module = module_of(F, MAIN)
    assert copies(plan_once(module, CONFIG)) == 2
    made = planned(module)
    assert copies(made) == 0 and graph_functions(made) == {"f", "main", "f_cpu", "f_cuda"}
    of = made.definitions["f_cpu"]
    assert isinstance(of, Function) and of.attrs["instance_of"] == "f"
    assert of.params[0].device.type == of.body.device.type == "cpu"
    given = {"a": np.arange(4, dtype=np.float32), "b": np.ones(4, np.float32)}
    assert [v.tolist() for v in graph.run(module, given).values()] == [
        v.tolist() for v in graph.run(made, given).values()
    ]


@pytest.mark.row("V21")
def test_a_function_that_says_something_has_one_place() -> None:
    """An annotation inside, or in what it calls, or a constant of the table that has a place."""
    inside = F.replace("R.exp(x)", 'A.on_device(R.exp(x), "cuda", constrain_body=True, constrain_result=True)')
    module = module_of(inside, MAIN)
    assert graph_functions(planned(module)) == {"f", "main"} and copies(planned(module)) == 2
    outer = F.replace("def f", "def h").replace("R.exp(x)", "Module.f(x)")
    assert graph_functions(planned(module_of(inside, outer, MAIN.replace("Module.f", "Module.h")))) == {
        "f",
        "h",
        "main",
    }


@pytest.mark.row("V20", "V21")
def test_instances_of_what_instances_call() -> None:
    """Two calls for each function in a chain of functions: as many instances as signatures, not as paths (2 ** 40)."""
    texts = [F.replace("def f", "def f0")]
    for k in range(40):
        body = f"R.add(Module.f{k}(x), Module.f{k}(R.exp(x)))"
        texts.append(F.replace("def f", f"def f{k + 1}").replace("R.add(R.exp(x), x)", body))
    made = planned(module_of(*texts, MAIN.replace("Module.f", "Module.f40")))
    assert copies(made) == 0
    assert len(graph_functions(made)) == 1 + 3 * 41


RECURSION = """
    @R.function
    def even(x: R.Tensor((4,), "float32"), c: R.Tensor((), "bool")) -> R.Tensor((4,), "float32"):
        if c:
            r = Module.odd(R.exp(x), c)
        else:
            r = x
        return r
    @R.function
    def odd(x: R.Tensor((4,), "float32"), c: R.Tensor((), "bool")) -> R.Tensor((4,), "float32"):
        return Module.even(R.negative(x), R.logical_not(c))
"""


@pytest.mark.row("V21")
def test_functions_that_call_one_another_are_one_unit() -> None:
    """Each instance is one of both, and calls only itself: inside, recursion has one domain."""
    text = (
        MAIN.replace("Module.f(a)", "Module.even(a, c)")
        .replace("Module.f(b)", "Module.even(b, c)")
        .replace('"cuda")):', '"cuda"), c: R.Tensor((), "bool")):')
    )
    module = module_of(RECURSION, text)
    made = planned(module)
    assert copies(made) < copies(plan_once(module, CONFIG))
    of = [d.attrs.get("instance_of") for d in made.definitions.values() if isinstance(d, Function)]
    assert [of.count(n) for n in ("even", "odd")] == [2, 2]
    given = {"a": np.arange(4, dtype=np.float32), "b": np.ones(4, np.float32), "c": np.array(True)}
    assert graph.run(made, given)["output_0"].tolist() == graph.run(module, given)["output_0"].tolist()


PRIMITIVE = """
    @R.function
    def f(x: R.Tensor((4,), "float32")):
        R.func_attr({"primitive": 1})
        return R.add(R.exp(x), x)
"""


@pytest.mark.row("V15", "V21")
def test_a_primitive_function() -> None:
    """It is not entered, and has instances; what it says of textures and of a device without a target is honoured."""
    made = planned(module_of(PRIMITIVE, MAIN))
    assert copies(made) == 0 and graph_functions(made) == {"f", "main", "f_cpu", "f_cuda"}
    said = PRIMITIVE.replace(
        'x: R.Tensor((4,), "float32")', 'x: A.on(R.Tensor((4,), "float32"), "cuda", -1, "", "global.texture")'
    )
    said = said.replace("R.add(R.exp(x), x)", 'A.on(R.add(R.exp(x), x), "cuda", -1, "", "global.texture")')
    made = planned(module_of(said, MAIN))
    assert graph_functions(made) == {"f", "main"} and copies(made) > 0
    f = made.definitions["f"]
    assert isinstance(f, Function) and f.params[0].device == f.device == replace(CUDA, scope="global.texture")


LOWERED = """
    @T.prim_func(private=True)
    def lowered(x: T.Buffer((4,), "float32", scope="A"), y: T.Buffer((4,), "float32", scope=""), z: T.Buffer((4,), \
"float32", scope="A"), o: T.Buffer((4,), "float32", scope="A")):
        for i in range(4):
            o[i] = x[i] + y[i] * z[i]
"""


def graph_of(body: str, *params: tuple[str, str]) -> str:
    """A main of tensors on cuda in those scopes; "" says nothing."""
    texts = [f'{n}: A.on(R.Tensor((4,), "float32"), "cuda", -1, "", "{s}")' for n, s in params]
    lines = "\n".join(f"        {line}" for line in body.strip().split("\n"))
    return f"    @R.function\n    def main({', '.join(texts)}):\n{lines}\n"


CALL = 'u = R.call_tir(Module.{}, ({},), out_ty=R.Tensor((4,), "float32"))\n'
RESULT = 'return A.on_device(u, "cuda", -1, "", "B", constrain_body=False, constrain_result=True)'


@pytest.mark.row("V12", "V13", "V14")
def test_scopes_between_graph_and_tensor_function() -> None:
    """What says nothing takes the parameter's scope; an open parameter takes the operand's; copies where both are
    said."""
    module = module_of(LOWERED, graph_of(CALL.format("lowered", "x, y, z") + RESULT, ("x", ""), ("y", "B"), ("z", "B")))
    made = planned(module)
    assert [p.device.scope for p in made.main.params] == ["A", "B", "B"]
    assert copies(made) == 2  # of z, and of the result
    assert [b.scope for b in made.kernel("lowered_B").params] == ["A", "B", "A", "A"]
    assert check_scopes(module, made).holds
    again = plan_devices(legalize(made), CONFIG)  # the second run, which TVM had to switch off (P#11662)
    check(again)
    assert first_difference(again, legalize(made)) is None
    given = {n: np.arange(4, dtype=np.float32) + k for k, n in enumerate("xyz")}
    assert [v.tolist() for v in graph.run(module, given).values()] == [
        v.tolist() for v in graph.run(made, given).values()
    ]


@pytest.mark.row("V12")
def test_a_scope_flows_out_of_a_nested_function() -> None:
    nested = 'f = T.decl_buffer((4,), "float32", data=x.data)\nModule.takes(f.data, y.data)'
    module = module_of(
        TAKES,
        function("outer", [buffer("x"), buffer("y")], nested),
        graph_of(CALL.format("outer", "x") + "return u", ("x", "")),
    )
    made = planned(module)
    assert [p.device.scope for p in made.main.params] == ["A"] and copies(made) == 0
    assert sorted(made.kernels) == ["outer", "outer_A_global", "takes", "takes_global"]
    assert check_scopes(module, made).holds


@pytest.mark.row("V13", "V21")
@pytest.mark.parametrize("seed", range(24))
def test_random_programs(seed: int) -> None:
    """Functions that call functions, tensor functions with open scopes, annotations: planned, the same, and checked; as
    a graph and in A-normal form."""
    module = random_program(random.Random(seed))
    module = to_anf(module) if seed % 2 else module
    made = planned(module)
    for evidence in (check_scopes(module, made), check_devices(module, made, CONFIG)):
        assert evidence.holds, evidence.detail
    given = {"a": np.arange(4, dtype=np.float32) / 4, "b": np.ones(4, np.float32)}
    assert [v.tobytes() for v in graph.run(module, given).values()] == [
        v.tobytes() for v in graph.run(made, given).values()
    ]


def random_program(rng: random.Random) -> Module:
    texts = [DOUBLE, LOWERED]
    names: list[str] = []
    for k in range(rng.randint(1, 4)):
        lines = [f'    @R.function\n    def f{k}(a: R.Tensor((4,), "float32"), b: R.Tensor((4,), "float32")):']
        texts.append("\n".join([*lines, *body_of(rng, names, rng.random() < 0.2)]))
        names.append(f"f{k}")
    scopes = [rng.choice(["", "global", "A"]) for _ in "ab"]
    devices = [rng.choice(["cpu", "cuda"]) for _ in "ab"]
    params = ", ".join(
        f'{n}: A.on(R.Tensor((4,), "float32"), "{d}", -1, "", "{s}")'
        for n, d, s in zip("ab", devices, scopes, strict=True)
    )
    texts.append("\n".join([f"    @R.function\n    def main({params}):", *body_of(rng, names, True)]))
    return module_of(*texts)


def body_of(rng: random.Random, names: list[str], says: bool) -> list[str]:
    made = ["a", "b"]
    lines = []
    for k in range(rng.randint(2, 5)):
        x, y = rng.choice(made), rng.choice(made)
        ways = [
            f"R.add({x}, {y})",
            f"R.negative({x})",
            f'R.call_tir(Module.double, ({x},), out_ty=R.Tensor((4,), "float32"))',
        ]
        ways += [f"Module.{n}({x}, {y})" for n in names] * 2
        if says:
            ways.append(f'A.on_device(R.negative({x}), "{rng.choice(["cpu", "cuda"])}")')
            ways.append(f'R.call_tir(Module.lowered, ({x}, {y}, {x}), out_ty=R.Tensor((4,), "float32"))')
        lines.append(f"        v{k} = {rng.choice(ways)}")
        made.append(f"v{k}")
    return [*lines, f"        return R.add({made[-1]}, {made[-2]})"]
