"""Constants bound, linked and made: to every place that has them, and nowhere else (rules K10, K12,
K13, K18; specs/lower.md, "constants")."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from assay.interp import graph, machine
from assay.lower.anf import to_anf
from assay.lower.constants import (
    bind_constants,
    extract_constants,
    link_params,
    unlink_params,
)
from assay.lower.constants.made import for_tiles, make_constants, pack, transposed
from assay.lower.legalize import legalize
from assay.semantics.analyses.equality import first_difference
from assay.semantics.devices import VirtualDevice
from assay.semantics.dtypes import FLOAT32
from assay.semantics.errors import Invalid
from assay.semantics.graph import (
    CallTIR,
    Expr,
    Function,
    GlobalVar,
    call,
    call_tir,
    function,
    let,
    tuple_of,
    var,
)
from assay.semantics.module import ConstantInfo, Definition, Module
from assay.semantics.scalar import const
from assay.semantics.tensor import (
    AllocateConst,
    Buffer,
    Call,
    PrimFunc,
    Stmt,
    loops,
    program_order,
    seq,
    store,
)
from assay.semantics.types import TensorType
from assay.semantics.walk import post_order

Array = np.ndarray[Any, Any]
V = TensorType((3,), FLOAT32)
ONE, TWO, X = (np.arange(k, k + 3).astype(np.float32) for k in (1, 10, 100))
CPU, CUDA, OTHER = VirtualDevice("cpu", 0), VirtualDevice("cuda", 0), VirtualDevice("cuda", 1)
x = var("x", V)


def plus(name: str, *called: str) -> PrimFunc:
    """out = p + w, then what others make of p and w in its place."""
    p, w, out = (Buffer(n, (3,), FLOAT32) for n in ("p", "w", "out"))
    body: Stmt = loops("i", (3,), lambda i: store(out, i, p[i] + w[i]))
    return PrimFunc(name, (p, w, out), 1, seq(body, *(Call(f, (p, w, out)) for f in called)))


def holding(name: str, data: Array, index: str = "", *called: str) -> PrimFunc:
    """out = p + a constant that it holds; and calls of others."""
    p, out, c = (Buffer(n, (3,), FLOAT32) for n in ("p", "out", "c"))
    body: Stmt = loops("i", (3,), lambda i: store(out, i, p[i] + c[i]))
    return PrimFunc(name, (p, out), 1, AllocateConst(c, data, seq(body, *(Call(f, (p, out)) for f in called)), index))


def program(value: Expr, constants: Mapping[str, Array] | None = None, **others: Definition) -> Module:
    v = var("v", value.type)
    return Module({"main": function([x], let(v, value, v)), **others}, constants or {})


def named(name: str, device: VirtualDevice | None = None) -> GlobalVar:
    return GlobalVar(V, name, device=device or VirtualDevice())


def held(module: Module) -> dict[str, list[str]]:
    """The constants inside each tensor function, by name."""
    return {
        n: [s.index for s in program_order(k.body) if isinstance(s, AllocateConst)] for n, k in module.kernels.items()
    }


def result(module: Module, **more: Array) -> list[list[float]]:
    run = machine.run if not isinstance(module.definitions["main"], Function) else graph.run
    return [np.asarray(a).tolist() for a in run(module, {"x": X, **more}).values()]


# --- on devices ---------------------------------------------------------------------------------------------------


def on_devices(*devices: VirtualDevice) -> Module:
    """w, used on each of the devices."""
    values = [replace(call("negative", named("w", d)), device=d) for d in devices]
    return Module({"main": function([], tuple_of(*values))}, {"w": ONE})


@pytest.mark.row("C14")
def test_a_constant_of_several_devices_is_bound_on_all_of_them() -> None:
    module = extract_constants(on_devices(CPU, CUDA, OTHER, CUDA))
    assert [(n, module.info(n).device) for n in module.constants] == [
        ("w", CPU),
        (f"w@{CUDA}", CUDA),
        (f"w@{OTHER}", OTHER),
    ]
    names = [n.name for n in post_order(module.main) if isinstance(n, GlobalVar)]
    assert sorted(set(names)) == sorted(module.constants)
    assert all(module.info(n.name).device == n.device for n in post_order(module.main) if isinstance(n, GlobalVar))
    wider = replace(module, constants={**module.constants, "w2": X})
    bound = bind_constants(wider, {"w": TWO})
    assert {n: a.tolist() for n, a in bound.constants.items()} == {
        **dict.fromkeys(module.constants, TWO.tolist()),
        "w2": X.tolist(),
    }
    assert first_difference(extract_constants(module), module) is None


@pytest.mark.row("C14")
@pytest.mark.parametrize("names", ["abc", "cba", "bca"])
def test_a_constant_is_where_the_functions_that_reach_it_run(names: str) -> None:
    """main calls the first, that the second, that the third, which holds the constant; in any order of names."""
    one, two, three = names
    functions = {one: holding(one, TWO, "", two), two: holding(two, TWO, "", three), three: holding(three, ONE, "w")}
    value = replace(call_tir(one, [x], V), device=CUDA)
    module = extract_constants(program(value, {"w": ONE}, **functions))
    assert module.info("w").device.place == CUDA.place and held(module)[three] == ["w"]
    again = extract_constants(module)
    assert all(again.kernel(n) is module.kernel(n) for n in names), "doing it again changes nothing"


def test_functions_that_call_one_another_have_their_constants_too() -> None:
    module = Module({"a": holding("a", ONE, "", "b"), "b": holding("b", TWO, "", "a")})
    assert sorted(len(v) for v in held(extract_constants(module)).values()) == [1, 1]


def test_a_name_that_looks_like_one_by_content_and_is_not_stays() -> None:
    name = "constant_0123abcd"
    module = extract_constants(program(call("add", x, named(name)), {name: ONE}))
    assert list(module.constants) == [name] and held(module) == {}


# --- linked -------------------------------------------------------------------------------------------------------


@pytest.mark.row("C4")
def test_a_constant_of_the_table_is_linked_by_its_name_and_unlinked_to_it() -> None:
    """Where it is an argument itself, and where a let names it."""
    v, out = var("v", V), var("out", V)
    body = let(v, named("w"), let(out, call_tir("f", [call_tir("f", [x, named("w")], V), v], V), out))
    module = extract_constants(Module({"main": function([x], body), "f": plus("f")}, {"w": ONE}))
    linked = link_params(module)
    assert held(linked) == {"f": ["w"]} and not any(
        isinstance(n, GlobalVar) and n.name == "w" for n in post_order(linked.main)
    )
    assert result(bind_constants(linked, {"w": TWO})) == [(X + TWO + TWO).tolist()]
    again = unlink_params(linked)
    (args,) = {
        tuple(getattr(a, "name", "") for a in n.args[1:]) for n in post_order(again.main) if isinstance(n, CallTIR)
    }
    assert args == ("w",) and held(again) == {"f": []}, "whoever binds w later binds it here, too"


def test_only_what_is_asked_for_is_linked() -> None:
    module = program(
        call_tir("g", [call_tir("f", [x, named("w")], V), named("w")], V), {"w": ONE}, f=plus("f"), g=plus("g")
    )
    assert held(link_params(module, only={"g"})) == {"f": [], "g": ["w"]}


@pytest.mark.row("C4")
def test_a_parameter_that_is_handed_to_where_it_is_written_is_refused() -> None:
    """Through two functions; what is only read there is linked."""
    p, w, out = (Buffer(n, (3,), FLOAT32) for n in ("p", "w", "out"))
    inner = {"inner": plus("inner")}
    reads = PrimFunc("f", (p, w, out), 1, Call("inner", (p, w, out)))
    assert held(link_params(program(call_tir("f", [x, named("w")], V), {"w": ONE}, f=reads, **inner)))["f"] == ["w"]
    middle = PrimFunc("middle", (p, w, out), 1, Call("inner", (p, p, w)))
    writes = PrimFunc("f", (p, w, out), 1, Call("middle", (p, w, out)))
    with pytest.raises(Invalid, match=r"f writes its parameter w.*link\.C1"):
        link_params(program(call_tir("f", [x, named("w")], V), {"w": ONE}, f=writes, middle=middle, **inner))
    stores = PrimFunc("middle", (p, w, out), 1, store(w, 0, const(1, FLOAT32)))
    with pytest.raises(Invalid, match=r"f writes its parameter w.*link\.C1"):
        link_params(program(call_tir("f", [x, named("w")], V), {"w": ONE}, f=writes, middle=stores, **inner))


def test_only_the_held_constants_of_that_name_are_bound() -> None:
    """A function may say that its own contents have a name; the table's are bound where they are the table's."""
    module = extract_constants(
        program(call_tir("f", [x], V), {"w": ONE}, f=holding("f", ONE, "w"), g=holding("g", TWO, ""))
    )
    bound = bind_constants(module.with_(h=holding("h", ONE)), {"w": X})
    contents = {
        n: s.contents.tolist()
        for n, k in bound.kernels.items()
        for s in program_order(k.body)
        if isinstance(s, AllocateConst)
    }
    assert contents == {"f": X.tolist(), "g": TWO.tolist(), "h": ONE.tolist()}


# --- made ---------------------------------------------------------------------------------------------------------


def product(columns: int) -> Module:
    a = var("a", TensorType((2, 3), FLOAT32))
    weight: Array = np.arange(3 * columns).reshape(3, columns).astype(np.float32)
    w = GlobalVar(TensorType((3, columns), FLOAT32), "w")
    return legalize(to_anf(Module({"main": function([a], call("matmul", a, w))}, {"w": weight})))


def convolution(features: int) -> Module:
    a, shape = var("a", TensorType((1, 2, 4), FLOAT32)), (features, 2, 3)
    weight: Array = np.arange(np.prod(shape)).reshape(shape).astype(np.float32)
    w = GlobalVar(TensorType(shape, FLOAT32), "w")
    return legalize(to_anf(Module({"main": function([a], call("nn.conv1d", a, w))}, {"w": weight})))


@pytest.mark.row("C6")
@pytest.mark.parametrize(
    ("module", "choose", "laid"),
    [
        (product(31), for_tiles, None), (product(32), for_tiles, (1, 3, 32)), (product(33), for_tiles, (2, 3, 32)),
        (convolution(3), for_tiles, None), (convolution(4), for_tiles, (1, 2, 3, 4)),
            (convolution(5), for_tiles, (2, 2, 3, 4)),
        (product(5), transposed, (5, 3)), (convolution(4), transposed, None),
    ],
)  # fmt: skip
def test_which_layout_is_chosen(module: Module, choose: Any, laid: tuple[int, ...] | None) -> None:
    """What one tile reads lies together; what is smaller than one tile stays."""
    packed, made = pack(module, choose)
    if laid is None:
        assert not made and packed.main.body is module.main.body
        return
    ((name, how),) = made.items()
    assert packed.kernel(name).params[1].shape == laid and name == f"{how.kernel}_packed"
    assert "operator" not in packed.kernel(name).attrs, "the operator has its operand as it was"
    assert how.kernel not in packed.kernels


def test_a_packed_function_is_one_for_all_that_read_it_so_and_keeps_what_else_is_said_of_it() -> None:
    a, w = var("a", TensorType((3, 3), FLOAT32)), GlobalVar(TensorType((3, 3), FLOAT32), "w")
    body = call("matmul", call("matmul", a, w), w)
    module = legalize(
        to_anf(Module({"main": function([a], body)}, {"w": np.arange(9, dtype=np.float32).reshape(3, 3)}))
    )
    said = module.with_(matmul=replace(module.kernel("matmul"), attrs={**module.kernel("matmul").attrs, "noalias": 1}))
    packed, made = pack(said, transposed)
    assert len(made) == 1 and packed.kernel("matmul_packed").attrs == {"noalias": 1}


@pytest.mark.row("C6")
def test_a_made_constant_is_stored_as_what_it_is_made_of() -> None:
    """Where those are stored in one way: at the greatest alignment; else in no special way."""

    def stored(first: ConstantInfo, second: ConstantInfo) -> ConstantInfo:
        value = call("add", x, call("add", named("v"), named("w")))
        source = Module({"main": function([x], value)}, {"v": ONE, "w": TWO}, infos={"v": first, "w": second})
        result, made = make_constants(source, graph.evaluate)
        (name,) = made
        return result.info(name)

    placed = replace(call("negative", named("w", CPU)), device=CPU)
    _, made = make_constants(Module({"main": function([x], call("add", x, placed))}, {"w": ONE}), graph.evaluate)
    (how,) = made.values()
    assert {n.device for n in post_order(how.definition.body)} == {VirtualDevice()}, "what it is, not where"
    assert stored(ConstantInfo(256, ".a"), ConstantInfo(128, ".a")) == ConstantInfo(256, ".a")
    assert stored(ConstantInfo(128, ".a"), ConstantInfo(256, ".a")) == ConstantInfo(256, ".a")
    assert stored(ConstantInfo(256, ".a"), ConstantInfo(256, ".b")) == ConstantInfo()
