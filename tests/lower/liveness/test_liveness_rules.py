"""Single rules of liveness: edges and what dies on them, sizes and names through calls, copies, planning again
(specs/lower.md, "liveness")."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from assay.lower.anf import to_anf
from assay.lower.legalize import legalize
from assay.lower.liveness import find_lives, kills, problem, reading
from assay.lower.liveness.kills import edges
from assay.lower.pool import Memory, plan_pools
from assay.semantics.devices import VirtualDevice
from assay.semantics.dtypes import FLOAT32
from assay.semantics.errors import Unsupported
from assay.semantics.graph import (
    Call,
    Expr,
    Function,
    GlobalVar,
    call,
    call_tir,
    constant,
    extern,
    function,
    get,
    if_,
    let,
    tuple_of,
    var,
)
from assay.semantics.module import Branch, ConstantInfo, Module, Program, Step
from assay.semantics.scalar import Var as Symbol
from assay.semantics.tensor import Buffer, PrimFunc, loops, store
from assay.semantics.types import FuncType, TensorType, TupleType
from tests.lower.liveness.liveness_programs import F4, B, Random, call_function, kernel, live, lowered

X, Y, C = var("x", F4), var("y", F4), var("c", B)
EXP = function([X], call("exp", X))


def chain(bound: Sequence[tuple[Any, Expr]], body: Expr) -> Expr:
    for v, value in reversed(bound):
        body = let(v, value, body)
    return body


def program(body: Expr, *params: Expr, **functions: Function) -> Program:
    return live(Module({"main": function(params, body), **functions}), whole=True)


def workspace(of: Program) -> list[str]:
    return [str(s.type) for s in of.placed("workspace")]


# --- edges, and what dies on them ------------------------------------------------------------------------------------


def walked(of: Program) -> set[tuple[int, int]]:
    """The edges, by going through the arms of each choice as a run does."""
    found: set[tuple[int, int]] = set()

    def through(low: int, high: int, leaves: set[int]) -> set[int]:
        while low < high:
            step, positions = of.steps[low], range(of.positions[low], of.positions[low + 1])
            for p in positions:
                found.update((q, p) for q in leaves)
                leaves = {p}
            low += 1
            if isinstance(step, Branch):
                leaves = through(low, step.then, leaves) | through(step.then, step.end, leaves)
                low = step.end
        return leaves

    found.update((q, of.positions[-1]) for q in through(0, len(of.steps), set()))
    return found


@pytest.mark.row("U18")
def test_the_edges_are_those_of_a_walk_through_all_arms() -> None:
    """Nobody reads what some arms compute, so that others have no step: at the end of an arm, too."""
    e, r, t, D = var("e", F4), var("r", F4), var("t", F4), var("d", B)

    def idle(test: Expr, first: bool, then: Expr, inside: Expr | None = None) -> Expr:
        work = let(e, call("exp", X), Y) if inside is None else inside
        return let(r, if_(test, *((work, Y) if first else (Y, work))), then)

    empty = 0
    for first in (True, False):
        for second in (True, False):
            nested = idle(C, first, let(t, call("tanh", X), t), idle(D, second, Y))
            last = if_(C, let(t, call("tanh", X), idle(D, second, t)), let(t, call("exp", X), idle(D, first, t)))
            for body in (idle(C, first, let(t, call("tanh", X), t)), nested, last):
                of = program(body, C, D, X, Y)
                assert set(edges(of)) == walked(of) and len(list(edges(of))) == len(walked(of))
                empty += sum(
                    isinstance(s, Branch) and (i + 1 == s.then or s.then == s.end) for i, s in enumerate(of.steps)
                )
    assert empty >= 4 + 8 + 8
    for seed in range(40):
        of = find_lives(lowered(Random(seed).module())).program
        assert set(edges(of)) == walked(of) and [p for p, _ in edges(of)] == sorted(p for p, _ in edges(of))


@pytest.mark.row("U18")
def test_what_dies_on_an_edge_is_told_in_the_order_of_the_table() -> None:
    """Eight values of which one arm reads all: they die on the edge into the other one."""
    early, late = [var(f"e{k}", F4) for k in range(26)], [var(f"l{k}", F4) for k in range(8)]
    steps = [(b, call("exp", a)) for a, b in zip([X, *early], early, strict=False)]
    steps += [(v, call("tanh", X)) for v in late]
    total: Expr = X
    for v in late:
        total = call("add", total, v)
    found = program(chain(steps, if_(C, total, call("exp", X))), C, X)
    names = [s.name for s in found.slots.values()]
    (dead,) = [d for d in kills(found).values() if len(d) > 2]
    assert len(dead) == 8 and list(dead) == sorted(dead, key=names.index)


def test_what_dies_is_looked_for_among_few(monkeypatch: pytest.MonkeyPatch) -> None:
    """From a position to the next one, only what ends there is looked at, however much is live."""
    many = [var(f"v{k}", F4) for k in range(60)]
    total: Expr = X
    for v in many:
        total = call("add", total, v)
    found = program(chain([(v, call("tanh", X)) for v in many], total), X)
    module, asked = sys.modules["assay.lower.liveness.kills"], list[int]()
    stays = module._stays

    def counted(slot: Any, position: int, exit_: int) -> bool:
        asked.append(position)
        return bool(stays(slot, position, exit_))

    monkeypatch.setattr(module, "_stays", counted)
    dead = kills(found)
    ends = sum(len(s.live) for s in found.slots.values())
    assert sum(map(len, dead.values())) == len(found.placed("workspace")) and len(asked) <= ends


@pytest.mark.row("U18")
def test_a_choice_may_choose_what_another_is_chosen_by() -> None:
    D = var("d", B)
    found = program(if_(if_(C, D, call("logical_not", D)), call("exp", X), call("tanh", X)), C, D, X)
    assert [s.kernel if isinstance(s, Step) else "if" for s in found.steps] == [
        "if",
        "copy0",
        "logical_not",
        "if",
        "exp",
        "tanh",
    ]
    (flag,) = found.placed("workspace")
    assert isinstance(found.steps[3], Branch) and found.steps[3].condition == flag.name and flag.live == ((1, 4),)


# --- functions and sizes ---------------------------------------------------------------------------------------------


def test_just_so_many_calls_are_written_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reading, "MOST", 3)
    assert len(program(call("exp", call("exp", call("exp", X))), X).steps) == 3
    with pytest.raises(Unsupported) as wrong:
        program(call("exp", call("exp", call("exp", call("exp", X)))), X)
    assert wrong.value.label == "liveness.C5"


@pytest.mark.row("U7")
def test_a_function_is_called_by_whatever_name_it_has() -> None:
    """A variable that names it, a parameter that it is handed to, and a parameter handed on."""
    kind = EXP.type
    assert isinstance(kind, FuncType)
    name, again, f, g = var("name", kind), var("again", kind), var("f", kind), var("g", kind)
    inner = function([f, X], Call(F4, f, (X,)))
    outer = function([g, X], call_function("inner", inner, g, call_function("inner", inner, g, X)))
    h = GlobalVar(kind, "h")
    body = chain(
        [(name, h), (again, name), (Y, Call(F4, again, (X,)))],
        call_function("outer", outer, name, call_function("outer", outer, h, Y)),
    )
    found = find_lives(
        legalize(to_anf(Module({"main": function([X], body), "h": EXP, "inner": inner, "outer": outer})))
    ).program
    assert [s.kernel for s in found.calls] == ["exp"] * 5


def test_what_is_no_function_of_the_module_is_not_called() -> None:
    a = var("a", F4)
    body = let(a, Call(F4, GlobalVar(FuncType((F4,), F4), "k"), (X,)), a)
    with pytest.raises(Unsupported) as wrong:
        find_lives(Module({"main": function([X], body), "k": kernel("k", (16, 16))}))
    assert wrong.value.label == "liveness.C2"
    kind = EXP.type
    assert isinstance(kind, FuncType)
    p, h = var("p", kind), GlobalVar(kind, "h")
    inner = function([p, X], Call(F4, p, (X,)))
    with pytest.raises(Unsupported, match=r"test\.f.* in p: ") as wrong:
        find_lives(
            Module(
                {
                    "main": function([X], let(a, call_function("inner", inner, extern("test.f", (F4,), F4), X), a)),
                    "inner": inner,
                }
            )
        )
    assert wrong.value.label == "liveness.C2"
    for value in (tuple_of(h, X), if_(C, h, h)):
        v = var("v", value.type)
        with pytest.raises(Unsupported, match="h.* as a value: ") as wrong:
            find_lives(Module({"main": function([C, X], let(v, value, let(a, call_tir("k", (X,), F4), a))), "h": EXP}))
        assert wrong.value.label == "liveness.C2"


@pytest.mark.row("U7", "U23")
def test_a_called_function_has_the_sizes_of_its_call() -> None:
    n, m = Symbol("n"), Symbol("m")
    p, x = var("p", TensorType((n, 2), FLOAT32)), var("x", TensorType((m, 2), FLOAT32))
    y = var("y", TensorType((3, 2), FLOAT32))
    f = function([p], call("tanh", call("exp", call("exp", p))))

    def called(v: Any) -> Expr:
        return Call(v.type, GlobalVar(f.type, "f"), (v,))

    main = function([x, y], tuple_of(called(x), called(y)))
    found = find_lives(legalize(to_anf(Module({"main": main, "f": f})))).program
    assert workspace(found) == [str(x.type)] * 2 + [str(y.type)] * 2
    assert [str(found.slots[o].type) for o in found.outputs] == [str(x.type), str(y.type)]
    assert all(isinstance(d, int) for d in found.placed("workspace")[-1].type.shape)


def test_a_step_says_the_sizes_of_its_operands_but_not_its_scalars() -> None:
    n, k, m = Symbol("n"), Symbol("k"), Symbol("m")
    a, out = Buffer("a", (n, k), FLOAT32), Buffer("out", (n, k), FLOAT32)
    copy = PrimFunc("copy", (a, out), 1, loops("i j", (n, k), lambda i, j: store(out, (i, j), a[i, j])), scalars=(k,))
    x = var("x", TensorType((m, 4), FLOAT32))
    v = var("v", x.type)
    main = function([x], let(v, call_tir("copy", (x,), x.type, scalars=(4,)), v))
    (step,) = find_lives(Module({"main": main, "copy": copy})).program.calls
    assert step.dims == ((n, m),) and step.scalars == (4,)


@pytest.mark.row("U8")
def test_variables_of_one_name_are_two() -> None:
    a, b, r = var("a", F4), var("a", F4), var("r", F4)
    kernels = lowered(
        Module({"main": function([X], tuple_of(call("exp", X), call("tanh", X), call("add", X, X)))})
    ).kernels
    exp, tanh = (call_tir(n, (X,), F4) for n in ("exp", "tanh"))
    both = chain([(a, exp), (b, tanh), (r, call_tir("add", (a, b), F4))], r)
    found = find_lives(Module({"main": function([X], both), **kernels})).program
    assert len(set(found.calls[2].reads)) == 2 == len(found.placed("workspace"))
    arms = let(r, if_(C, let(a, exp, a), let(b, tanh, b)), r)
    found = find_lives(Module({"main": function([C, X], arms), **kernels})).program
    assert [s.kernel if isinstance(s, Step) else "if" for s in found.steps] == ["if", "exp", "tanh"]


def test_slots_are_called_as_what_they_hold() -> None:
    z = var("z", TensorType((8,), FLOAT32))
    p, q, r = var("p", TupleType((F4, F4))), var("q", TupleType((F4, F4))), var("r", F4)
    choice = if_(C, tuple_of(call("exp", get(p, 0)), get(p, 1)), tuple_of(get(p, 1), call("tanh", get(p, 0))))
    single = if_(C, call("exp", get(q, 0)), call("tanh", get(q, 1)))
    body = chain(
        [(p, call("split", z, sections=(4, 4), axis=0)), (q, choice), (r, single)],
        call("add", call("add", r, get(q, 0)), get(q, 1)),
    )
    found = program(body, C, z)
    names = [s.name for s in found.placed("workspace")]
    assert {"p.0", "p.1", "q.0", "q.1", "r"} <= set(names)


def test_what_a_kernel_allocates_is_looked_up_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """However often it is called."""
    asked, plain = list[str](), PrimFunc.allocations.fget  # type: ignore[attr-defined]

    def counted(of: PrimFunc) -> Any:
        asked.append(of.name)
        return plain(of)

    body: Expr = X
    for _ in range(20):
        body = call("tanh", body)
    source = lowered(Module({"main": function([X], body)}))
    monkeypatch.setattr(PrimFunc, "allocations", property(counted))
    assert len(find_lives(source, whole=True).program.steps) == 20 and asked == ["tanh"]


# --- copies ----------------------------------------------------------------------------------------------------------


@pytest.mark.row("A13", "U23")
def test_one_kernel_copies_every_symbolic_size_and_one_each_static_size() -> None:
    n, m = Symbol("n"), Symbol("m")
    params = [var(f"p{k}", TensorType(shape, FLOAT32)) for k, shape in enumerate([(4,), (4,), (6,), (n,), (m,)])]
    found = find_lives(lowered(Module({"main": function(params, tuple_of(*params))})))
    assert [s.kernel for s in found.program.calls] == ["copy0", "copy0", "copy1", "copy2", "copy2"]
    shapes = [found.kernels[f"copy{k}"].inputs[0].shape for k in range(3)]
    assert {b.scope for b in found.kernels["copy0"].params} == {"global"}
    assert shapes[:2] == [(4,), (6,)] and isinstance(shapes[2][0], Symbol)
    assert [[d for _, d in s.dims] for s in found.program.calls] == [[], [], [], [n], [m]]


def test_results_have_the_names_that_main_gives_them() -> None:
    results = tuple_of(call("exp", X), call("tanh", X), call("exp", Y))
    main = replace(function([X, Y], results), attrs={"outputs": ("first", "x")})
    assert find_lives(lowered(Module({"main": main}))).program.outputs == ("first", "x_1", "output_2")


def test_a_copy_is_made_in_the_memory_where_its_value_is() -> None:
    texture = VirtualDevice("cuda", 0, scope="global.texture")
    x = replace(X, device=texture)
    found = find_lives(lowered(Module({"main": function([x], tuple_of(x))})))
    assert {b.scope for b in found.kernels["copy0"].params} == {"global.texture"}
    assert found.program.slots[found.program.outputs[0]].device == texture


def test_a_constant_has_the_alignment_and_the_place_that_the_table_says() -> None:
    source = lowered(Module({"main": function([X], call("add", X, constant(np.ones(4, np.float32))))}))
    (name,) = source.constants
    source = replace(source, infos={name: ConstantInfo(alignment=256)}, offsets={name: 512})
    slot = find_lives(source).program.slots[name]
    assert (slot.alignment, slot.offset) == (256, 512)


def test_a_copy_takes_a_name_that_is_free() -> None:
    source = lowered(Module({"main": function([X], X), "copy0": function([X], call("exp", X)), "copy0_": EXP}))
    assert [s.kernel for s in find_lives(source).program.calls] == ["copy0__"]


# --- the problem -----------------------------------------------------------------------------------------------------


@pytest.mark.row("U1")
def test_planning_again_keeps_what_lies_in_pools_and_plans_the_workspace_anew() -> None:
    source = find_lives(lowered(Module({"main": function([X], call("tanh", call("exp", X)))})))
    done = plan_pools(source, Memory(io=True)).program
    again = {b.name: b for b in problem(done, done.inputs).buffers}
    for name, slot in done.slots.items():
        if slot.place == "constant":
            continue
        assert slot.offset is not None and again[name].pools == (slot.pool,)
        assert again[name].offset == (None if slot.place == "workspace" else slot.offset)
    moved = replace(done, slots={n: replace(s, offset=None, pool="") for n, s in done.slots.items()})
    assert all(b.offset is None and b.pools == () for b in problem(moved, moved.inputs).buffers)
