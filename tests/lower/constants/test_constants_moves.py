"""Constants bound, taken out, linked and moved: to every place that has them, and nowhere else (rules K10, K12 to K14,
K18, K19; specs/lower.md, "constants")."""

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
    extract_params,
    link_params,
    merge_modules,
    transfer,
    unlink_params,
)
from assay.lower.constants.made import for_tiles, largest_error, make_constants, pack, quantise_weights, transposed
from assay.lower.fuse import fuse
from assay.lower.legalize import legalize
from assay.lower.liveness import find_lives
from assay.lower.pool import plan_pools
from assay.semantics.analyses.equality import first_difference
from assay.semantics.devices import VirtualDevice
from assay.semantics.dtypes import FLOAT32
from assay.semantics.errors import Invalid, Unsupported
from assay.semantics.graph import (
    CallTIR,
    Expr,
    Function,
    GlobalVar,
    call,
    call_tir,
    constant,
    function,
    let,
    tuple_of,
    var,
)
from assay.semantics.module import ConstantInfo, Definition, Module
from assay.semantics.rules import check
from assay.semantics.scalar import const
from assay.semantics.tensor import (
    Allocate,
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
    both, _ = merge_modules(module, extract_constants(program(call("add", x, named(name)), {name: TWO})))
    assert {n: a.tolist() for n, a in both.constants.items()} == {name: ONE.tolist(), f"{name}_1": TWO.tolist()}


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


# --- taken out ----------------------------------------------------------------------------------------------------


@pytest.mark.row("C4")
@pytest.mark.parametrize("planned", [False, True])
def test_every_constant_is_a_parameter_and_none_is_left(planned: bool) -> None:
    """One that main names, one that a tensor function holds; a function that nobody calls keeps its own."""
    value = call_tir("g", [call_tir("f", [x], V), named("w")], V)
    source = extract_constants(to_anf(program(value, {"w": ONE}, f=holding("f", TWO), g=plus("g"))))
    alone = source if planned else extract_constants(source.with_(h=holding("h", TWO)))
    wanted = result(source)
    open_, arrays = extract_params(plan_pools(find_lives(source)) if planned else alone)
    check(open_)
    assert sorted(a.tolist() for a in arrays.values()) == [ONE.tolist(), TWO.tolist()] and not open_.constants
    assert {n: some for n, some in held(open_).items() if some} == ({} if planned else {"h": [""]})
    assert result(open_, **arrays) == wanted
    assert result(open_, **{n: np.zeros(3, np.float32) for n in arrays}) == [X.tolist()], "nothing else is added"
    if planned:
        assert {s.name for s in open_.program.placed("input")} == {"x", *arrays} and not open_.program.placed(
            "constant"
        )


def test_a_function_without_its_constants_claims_nothing() -> None:
    f = replace(holding("f", TWO), attrs={"operator": "negative", "attrs": {}, "noalias": 1})
    open_, _ = extract_params(extract_constants(program(call_tir("f", [x], V), f=f)))
    assert open_.kernel("f").attrs == {"noalias": 1}


def test_what_has_no_main_has_no_parameters() -> None:
    with pytest.raises(Invalid, match=r"no graph function main.*module\.C1"):
        extract_params(extract_constants(Module({"f": holding("f", ONE)})))


def test_a_planned_function_that_holds_what_has_no_slot_is_refused() -> None:
    planned = plan_pools(find_lives(program(call_tir("f", [x], V), f=holding("f", ONE))))
    with pytest.raises(Unsupported, match=r"f holds the constant c, which has no slot.*bind\.C3"):
        extract_params(planned)


def two_constants(phased: bool) -> Module:
    """out = p + c, then out = out + d: each constant is used in one of two nests. Before that p is copied, if
    `phased`."""
    p, own, out, c, d = (Buffer(n, (3,), FLOAT32) for n in ("p", "own", "out", "c", "d"))
    of = own if phased else p
    body = seq(
        *([loops("i", (3,), lambda i: store(own, i, p[i]))] if phased else []),
        loops("i", (3,), lambda i: store(out, i, of[i] + c[i])),
        loops("i", (3,), lambda i: store(out, i, out[i] + d[i] + of[i] - of[i])),
    )
    if phased:
        body = Allocate(own, body)
    kernel = PrimFunc("f", (p, out), 1, AllocateConst(c, ONE, AllocateConst(d, TWO, body)))
    return plan_pools(find_lives(extract_constants(to_anf(program(call_tir("f", [x], V), f=kernel)))))


@pytest.mark.parametrize("phases", [1, 2])
def test_a_planned_function_runs_in_its_phases_without_its_constants(phases: int) -> None:
    planned = two_constants(phases == 2)
    assert [s.phases for s in planned.program.calls] == [phases]
    open_, arrays = extract_params(planned)
    check(open_)
    assert result(open_, **arrays) == result(planned)


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


# --- to another module --------------------------------------------------------------------------------------------


@pytest.mark.row("C5")
def test_what_is_named_moves_into_an_empty_module() -> None:
    """Constants of main and of what it calls, functions that call functions, a group and a linked function by name."""
    value = call_tir("f", [call("add", call_tir("g", [x, constant(TWO)], V), named("w"))], V)
    source = extract_constants(
        program(value, {"w": ONE, "unused": X}, f=holding("f", X, "", "k"), g=plus("g"), k=holding("k", TWO))
    )
    made, called = transfer(["main"], source, Module({}))
    check(made)
    assert called == {n: n for n in ("main", "f", "g", "k")} and "unused" not in made.constants
    assert {n: a.tolist() for n, a in made.constants.items()} == {
        n: source.constants[n].tolist() for n in made.constants
    }
    assert set(made.constants) == {n for n in source.constants if n != "unused"}


def test_names_inside_follow_where_a_name_is_taken() -> None:
    """Every function is another one in the target: calls of tensor functions, groups, linked functions, symbols."""
    value = call("exp", call("negative", call("add", x, constant(ONE))))
    source = link_params(fuse(legalize(to_anf(Module({"main": function([x], value)})))))
    source = source.with_(main=replace(source.main, attrs={"global_symbol": "main"}), h=plus("h", "i"), i=plus("i"))
    taken: dict[str, Definition] = {n: replace(plus(n), attrs={"other": 1}) for n in source.definitions}
    made, called = merge_modules(Module(taken), source)
    assert all(called[n] == f"{n}_1" for n in source.definitions)
    main = made.definitions[called["main"]]
    assert isinstance(main, Function) and main.attrs["global_symbol"] == "main_1"
    (use,) = (n for n in post_order(main) if isinstance(n, CallTIR))
    kernel = made.kernel(use.func)
    assert use.func in called.values() and made.group(kernel) is made.definitions[kernel.attrs["group"]]
    assert kernel.attrs["group"] in called.values() and kernel.attrs["linked"]["function"] == use.func
    (inner,) = (s for s in program_order(made.kernel("h_1").body) if isinstance(s, Call))
    assert inner.function == "i_1"


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


def test_a_function_of_another_compiler_is_not_quantised_and_each_function_has_its_own_nodes() -> None:
    y = var("y", V)
    whole = function([y], call("add", y, named("w")), None, primitive=1)
    other = function([y], call("multiply", y, named("w")))
    module = Module({"main": function([x], call("add", x, named("w"))), "other": other, "whole": whole}, {"w": ONE})
    made = quantise_weights(module, {"w": None})
    assert made.definitions["whole"] is whole
    first, second = ({id(n) for n in post_order(made.definitions[n].body)} for n in ("main", "other"))  # type: ignore[union-attr]
    assert not first & second
    rounded, _ = make_constants(made, graph.evaluate)
    assert {a.dtype.name for n, a in rounded.constants.items() if n != "w"} == {"int8", "float32"}


def test_how_far_a_rounded_element_can_be() -> None:
    """Half a step, and what two roundings to float32 add."""
    assert largest_error(2.0) == 1 + 2.0**-15


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
