"""Sizes that are symbols, from a graph function to a run: by upper bound where one is declared, else as expressions.

The cases of TVM's StaticPlanBlockMemory with symbolic sizes are here by their names, with what comes out for us.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from assay.interp import machine
from assay.lower.c import Interface, emit
from assay.lower.c.sizes import bounds_taken
from assay.lower.liveness import find_lives
from assay.lower.pool import Memory
from assay.lower.simplify.bind_params import bind_params
from assay.semantics.builder import Builder, tensor
from assay.semantics.dtypes import FLOAT32, INT64
from assay.semantics.errors import Invalid, Unsupported
from assay.semantics.graph import call, call_tir, function, let, tuple_of, var
from assay.semantics.graph.limits import declared_limits
from assay.semantics.instance import at
from assay.semantics.memory import Pool
from assay.semantics.module import Module
from assay.semantics.rules import check
from assay.semantics.scalar import Expr, Var, apply, show
from assay.semantics.store import ArrayReader, ArrayWriter, decode, encode
from assay.semantics.tensor import Allocate, Buffer, PrimFunc, loops, seq, store
from assay.semantics.text.module_printer import show as text
from assay.semantics.text.module_text import parse
from assay.semantics.types import TensorType
from tests.lower.memory.dynamic_programs import holding, inputs, lowered, places, planned, pool, proof, runs_alike

pytestmark = pytest.mark.row("U21")

UPPER, LOWER = "tir_var_upper_bound", "tir_var_lower_bound"
FAST = (Pool("fast", limit=1024), Pool("slow"))


def chain(size: int | str = "n", **attrs: Mapping[str, int]) -> Module:
    """exp, a view, relu, add, pad, log: upstream's program."""
    b = Builder()
    with b.function("main", x=tensor(2, size), attrs=attrs) as f:
        assert isinstance(f.x.type, TensorType)
        n = f.x.type.shape[1]
        h = b.nn.relu(b.reshape(b.exp(f.x), shape=(n * 2,)))
        b.result(b.log(b.nn.pad(b.add(h, h), pad_width=(1, 1), pad_value=1.0)))
    return b.module()


def bounded(**attrs: Mapping[str, int]) -> Module:
    """`chain`, with the attributes as given."""
    return chain(**attrs)


# --- upstream's cases ------------------------------------------------------------------------------------------------


def test_tir_var_upper_bound() -> None:
    """Every size is that at the bound: the plan is the one of the program of that size."""
    made = planned(bounded(**{UPPER: {"n": 40}}))
    assert all(isinstance(o, int) for o in places(made.program).values())
    assert pool(made.program) == planned(chain(40)).program.sizes["workspace"]
    assert "n in 0 to 40" in proof(made).detail
    runs_alike(lowered(chain()), made, {"n": 0}, {"n": 1}, {"n": 17}, {"n": 40})


def test_tir_var_lower_bound_only() -> None:
    """A lower bound alone makes no size a number: a run may be larger (apache/tvm#18663)."""
    made = planned(bounded(**{LOWER: {"n": 4}}))
    assert isinstance(pool(made.program), Expr) and any(isinstance(o, Expr) for o in places(made.program).values())
    assert "n >= 4" in proof(made).detail
    runs_alike(lowered(chain()), made, {"n": 4}, {"n": 5}, {"n": 300})


def test_tir_var_upper_and_lower_bounds() -> None:
    """The pool is that of the upper bound; sizes outside of either are refused before anything runs."""
    source = bounded(**{UPPER: {"n": 40}, LOWER: {"n": 4}})
    made = planned(source)
    assert pool(made.program) == planned(chain(40)).program.sizes["workspace"]
    runs_alike(lowered(chain()), made, {"n": 4}, {"n": 40})
    for n in (3, 41):
        with pytest.raises(Invalid, match=f"n is {n}; the program is planned for at least 4 and at most 40") as caught:
            machine.run(made, inputs(source, {"n": n}))
        assert caught.value.label == "instance.C1"


@pytest.mark.parametrize(
    ("attrs", "label", "said"),
    [
        ({UPPER: {"n": [4]}}, "limits.C1", r"'n': \[4\]"),
        ({UPPER: {"n": "4"}}, "limits.C1", "'n': '4'"),
        ({UPPER: {"n": -1}}, "limits.C1", "'n': -1"),
        ({UPPER: {"n": True}}, "limits.C1", "'n': True"),
        ({LOWER: {"n": 1.5}}, "limits.C1", "'n': 1.5"),
        ({UPPER: {4: 4}}, "limits.C1", "4: 4"),
        ({UPPER: 4}, "limits.C1", "has 4; it is a dict"),
        ({UPPER: {"k": 4}}, "limits.C2", "none is called k; there are n"),
        ({UPPER: {"n": 4}, LOWER: {"n": 5}}, "limits.C3", "at least 5 and at most 4"),
    ],
)
def test_invalid_bounds(attrs: Any, label: str, said: str) -> None:
    with pytest.raises(Invalid, match=said) as caught:
        find_lives(lowered(bounded(**attrs)))
    assert caught.value.label == label


def test_a_bound_of_a_name_that_two_symbols_have() -> None:
    x, y = var("x", tensor(Var("n"))), var("y", tensor(Var("n")))
    with pytest.raises(Invalid, match="two of them are called n") as caught:
        find_lives(
            lowered(Module({"main": function([x, y], tuple_of(call("exp", x), call("exp", y)), **{UPPER: {"n": 4}})}))
        )
    assert caught.value.label == "limits.C2"


def test_decreasing_monotone() -> None:
    """A size that falls as a symbol grows: the largest over the box, 20 * 10 * 10; both at their greatest is not it."""
    n, m = Var("n"), Var("m")
    x = var("x", tensor(n, m, apply("max", 20 - m, 1)))
    source = Module({"main": function([x], call("exp", call("nn.relu", x)), **{UPPER: {"n": 20, "m": 15}})})
    made = planned(source)
    assert pool(made.program) == 4 * 20 * 10 * 10
    proof(made)
    runs_alike(lowered(source), made, {"n": 1, "m": 15}, {"n": 3, "m": 1})


def full() -> PrimFunc:
    """A tensor whose size only a scalar tells."""
    k = Var("k")
    out = Buffer("out", (k,), INT64)
    return PrimFunc("full", (out,), 1, loops("i", [k], lambda i: store(out, (i,), i * k)), scalars=(k,))


def twice() -> PrimFunc:
    d = Var("d")
    x, y = Buffer("x", (d,), INT64), Buffer("y", (d,), INT64)
    return PrimFunc("twice", (x, y), 1, loops("i", [d], lambda i: store(y, (i,), x[i] + x[i])))


def told(of: Mapping[str, int] | None = None, by: str = UPPER) -> Module:
    """A tensor of n + 1 elements that a scalar makes, twice as much of it, and again."""
    n = Var("n")
    t = TensorType((n + 1,), INT64)
    s, a, b, c = var("s", TensorType((n,), FLOAT32)), var("a", t), var("b", t), var("c", t)
    rest = let(b, call_tir("twice", (a,), t), let(c, call_tir("twice", (b,), t), c))
    body = let(a, call_tir("full", (), t, scalars=[n + 1]), rest)
    return Module({"main": function([s], body, **({by: of} if of else {})), "full": full(), "twice": twice()})


def test_call_tir_dyn() -> None:
    """Sizes come as scalars, computed from a symbol; the bound is on the symbol."""
    made = planned(told({"n": 20}), ready=True)
    first, *_ = made.program.calls
    assert [show(d) for d in first.scalars] == ["(n + 1)"]
    assert pool(made.program) == 192 + 168  # two of 21 int64, the lower one up to the next multiple of 64
    proof(made)
    runs_alike(told(), made, {"n": 0}, {"n": 1}, {"n": 20})


def test_call_tir_dyn_plan_dynamic_func_output() -> None:
    """Results of a dynamic size lie in the pool too if the caller wants that; inputs live all the time."""
    made = planned(told({"n": 20}), Memory(io=True), ready=True)
    assert set(places(made.program)) == {"s", "a", "b", "output_0"}
    assert pool(made.program) == 192 + 192 + 80  # a and the result lie in the same bytes, the input is 20 floats
    proof(made)
    runs_alike(told(), made, {"n": 0}, {"n": 20})
    open_ = planned(told(), Memory(io=True), ready=True)
    assert isinstance(pool(open_.program), Expr)
    proof(open_)
    runs_alike(told(), open_, {"n": 0}, {"n": 100})


def partly(**attrs: Mapping[str, int]) -> Module:
    b = Builder()
    with b.function("main", x=tensor("n", "m"), y=tensor("n", 3), attrs=attrs) as f:
        h = b.exp(b.nn.relu(b.exp(f.x)))
        b.result(b.tuple(b.sum(h, axis=(1,)), b.exp(b.exp(f.y))))
    return b.module()


def test_call_tir_dyn_plan_partially_dynamic() -> None:
    """One symbol has a bound and the other none: what has both is placed by an expression (upstream takes the bound of
    the one it knows, which is more), what has only the first by its bound."""
    made = planned(partly(**{UPPER: {"n": 20}}))
    assert "n * m" in show(pool(made.program))
    assert "n in 0 to 20, m >= 0" in proof(made).detail
    runs_alike(lowered(partly()), made, {"n": 20, "m": 1}, {"n": 1, "m": 50})
    fast = planned(partly(**{UPPER: {"n": 20}}), Memory(FAST))
    assert fast.program.plan is not None and fast.program.plan.places["exp_2"].pool == "fast"
    assert pool(fast.program, "fast") == 240 and isinstance(pool(fast.program, "slow"), Expr)
    proof(fast)
    with pytest.raises(Invalid, match="no greatest value is known of m") as caught:
        planned(partly(**{UPPER: {"n": 20}}), Memory(FAST[:1]))
    assert caught.value.label == "memory.C8"


# --- more than upstream has -------------------------------------------------------------------------------------------


def test_by_bound_is_a_choice() -> None:
    """Exact places may be wanted under a bound: a small run then needs little."""
    made = planned(bounded(**{UPPER: {"n": 40}}), Memory(by_bound=False))
    assert isinstance(pool(made.program), Expr)
    assert "n in 0 to 40" in proof(made).detail
    runs_alike(lowered(chain()), made, {"n": 40})


def test_provably_equal_sizes_share() -> None:
    """n * m and m * n are one size: no maximum of the two."""
    b = Builder()
    with b.function("main", x=tensor("n", "m")) as f:
        t = b.exp(b.permute_dims(b.exp(f.x), axes=(1, 0)))
        b.result(b.nn.relu(b.permute_dims(t, axes=(1, 0))))
    made = planned(b.module())
    assert show(pool(made.program)).count("max") == 0
    holding(b.module(), [None, Memory(io=True)], {"n": 1, "m": 1}, {"n": 7, "m": 3})


def everything() -> Module:
    """Views of another rank, a choice, a call of a function with symbols of its own, scratch, an input as a result."""
    b = Builder()
    with b.function("norm", a=tensor("p", "q")) as g:
        b.result(b.nn.softmax(b.exp(g.a)))
    with b.function("main", x=tensor("n", 2, 3), c=tensor(of="bool")) as f:
        assert isinstance(f.x.type, TensorType)
        n = f.x.type.shape[0]
        rows = b.reshape(b.exp(f.x), shape=(n, 6))
        with b.if_(f.c) as branch:
            with branch.then():
                b.result(b.emit(call(g.value, rows)))
            with branch.otherwise():
                b.result(rows)
        flat = b.exp(b.reshape(branch.value, shape=(n * 6,)))
        b.result(b.tuple(b.reshape(flat, shape=(3, n, 2)), f.x, b.concat(flat, flat, axis=0)))
    return b.module()


def test_views_choices_functions_and_copies() -> None:
    memories = [None, Memory(io=True), Memory((Pool("a"), Pool("b")), planner="greedy-size")]
    holding(everything(), memories, {"n": 1}, {"n": 4})


def test_scratch_of_a_view_has_the_size_of_the_view() -> None:
    """What a kernel allocates is as large as the operand is for it, not as the tensor was before the view."""
    a, b = Var("a"), Var("b")
    x, y, t = Buffer("x", (a, b), INT64), Buffer("y", (a, b), INT64), Buffer("t", (a,), INT64)
    body = loops(
        "i", [a], lambda i: seq(store(t, (i,), x[i, 0]), loops("j", [b], lambda j: store(y, (i, j), x[i, j] + t[i])))
    )
    kernel = PrimFunc("row", (x, y), 1, Allocate(t, body))
    n = Var("n")
    r = TensorType((6, n), INT64)
    p, v, out = var("p", TensorType((n, 6), INT64)), var("v", r), var("out", r)
    root = let(v, call("reshape", p, shape=(6, n)), let(out, call_tir("row", (v,), r), out))
    source = Module({"main": function([p], root), "row": kernel})
    made = planned(source, ready=True)
    (slot,) = made.program.placed("workspace")
    assert slot.type.shape == (6,)
    runs_alike(source, made, {"n": 1}, {"n": 5})


def test_sizes_of_no_run() -> None:
    """A symbol without a value, and a dim below 0."""
    n = Var("n")
    x = var("x", tensor(n, n - 2))
    program = planned(Module({"main": function([x], call("exp", call("exp", x)), **{LOWER: {"n": 2}})})).program
    for values, said, label in (
        ({}, "n in .* has no value", "instance.C2"),
        ({n: 1}, "n is 1; .* at least 2", "instance.C1"),
    ):
        with pytest.raises(Invalid, match=said) as caught:
            at(program, values)
        assert caught.value.label == label
    with pytest.raises(
        Invalid, match=r"x is Tensor\(\(n, .*\), float32\), which has a negative dim with n = 1.*instance\.C3"
    ):
        at(replace(program, limits=()), {n: 1})


def test_inputs_whose_sizes_do_not_agree() -> None:
    b = Builder()
    with b.function("main", x=tensor("n", 2), y=tensor("n", 2)) as f:
        b.result(b.exp(b.add(f.x, f.y)))
    made = planned(b.module())
    with pytest.raises(
        Invalid, match=r"'y' has the shape \(4, 2\), expected Tensor\(\(n, 2\), float32\) with n = 3"
    ) as caught:
        machine.run(made, {"x": np.zeros((3, 2), np.float32), "y": np.zeros((4, 2), np.float32)})
    assert caught.value.label == "input.C3"


def test_bounds_as_text() -> None:
    source = bounded(**{UPPER: {"n": 40}, LOWER: {"n": 4}})
    again = parse(text(source))
    assert text(again) == text(source)
    ((symbol, low, high),) = declared_limits(again.main)
    assert (symbol.name, low, high) == ("n", 4, 40)
    assert pool(planned(again).program) == pool(planned(source).program)


def test_a_plan_that_is_stored(tmp_path: Path) -> None:
    made = planned(everything(), Memory(by_bound=False))
    with (tmp_path / "tensors").open("wb") as file:
        stored = encode(made, ArrayWriter(file))
    again = decode(stored, ArrayReader(tmp_path / "tensors"))
    check(again)
    proof(again)
    runs_alike(lowered(everything()), again, {"n": 3})
    with (tmp_path / "more").open("wb") as file:
        assert encode(again, ArrayWriter(file)) == stored


def test_a_bound_symbol_that_becomes_a_number() -> None:
    source = bounded(**{UPPER: {"n": 4}})
    made = bind_params(source, {"x": np.ones((2, 3), np.float32)})
    assert UPPER not in made.main.attrs
    with pytest.raises(Invalid, match="n would be 5; it is declared to be at least 0 and at most 4") as caught:
        bind_params(source, {"x": np.ones((2, 5), np.float32)})
    assert caught.value.label == "bind_params.C5"


def test_c_takes_sizes() -> None:
    source = emit(planned(chain()), "m")
    assert [(s.size, s.low) for s in source.sizes] == [("n", 0)]
    assert [s.size for s in emit(planned(chain()), "m", interface=Interface.C_PACKED).sizes] == ["n"]


def test_numbers_and_symbols_in_one_program() -> None:
    """Tensors of known size still lie in place of their operands; all is one plan."""
    b = Builder()
    with b.function("main", x=tensor("n"), y=tensor(8, 8)) as f:
        b.result(b.tuple(b.exp(b.exp(f.x)), b.exp(b.nn.relu(b.exp(f.y)))))
    made = planned(b.module())
    assert any(s.in_place for s in made.program.calls)
    proof(made)
    runs_alike(lowered(b.module()), made, {"n": 1}, {"n": 33})


def test_sizes_that_no_c_takes() -> None:
    made = planned(chain())
    hidden = made.program.slots[made.program.outputs[0]]
    other = replace(hidden, type=TensorType((Var("m"),), FLOAT32))
    changed = replace(made.program, slots={**made.program.slots, hidden.name: other})
    with pytest.raises(Unsupported, match="no input has a dim that is m") as caught:
        bounds_taken(changed)
    assert caught.value.label == "c.C23"
    (symbol,) = bounds_taken(made.program)
    large = replace(made.program, limits=((symbol, 0, 2**62),))
    with pytest.raises(Unsupported, match="leave 64 bits within the bounds of n") as caught:
        bounds_taken(large)
    assert caught.value.label == "c.C25"
    low, high = bounds_taken(made.program)[symbol]
    assert low == 0 and high == 2**31 - 1
