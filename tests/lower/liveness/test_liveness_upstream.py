"""The programs of TVM's and Relax's tests of liveness, rebuilt from their sizes (specs/lower.md, "liveness").

The upstream tests ask only that no conflict is reported beside those listed, so one that is lost passes. Here the
relation is written down whole: for each phase what is live in it, which is who conflicts with whom.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest

from assay.lower.liveness import find_lives, kills
from assay.semantics.dtypes import BOOL, FLOAT32, INT32
from assay.semantics.graph import Expr, Var, call, call_tir, constant, function, get, if_, let, tuple_of, var
from assay.semantics.memory import overlap
from assay.semantics.module import Branch, Module, Program
from assay.semantics.tensor import LoopKind, PrimFunc, Stmt, seq
from assay.semantics.types import TensorType, TupleType
from tests.lower.liveness.liveness_programs import (
    B,
    as_pairs,
    buffer,
    call_function,
    calls,
    dense,
    fill,
    kernel,
    live,
    of_size,
    padded,
    pairs,
    peak,
    rows,
    softmax,
    through,
    within,
)

# --- TIR (test_tir_usmp_analysis_extract_bufferinfo.py) --------------------------------------------------------------


@pytest.mark.row("U1", "U10", "U14")
def test_linear() -> None:
    steps = [
        ("sid_9", kernel("cast_subtract", (150528, 301056)), "input"),
        (
            "sid_8",
            kernel("conv", (301056, 18816, 802816), padded(("PaddedInput_7", 314646), ("Conv2dOutput_7", 256))),
            "sid_9 p1",
        ),
        ("out", kernel("pool", (802816, 401408), through("tensor_2", 200704)), "sid_8"),
    ]
    found = calls({"input": 150528, "p1": 18816}, steps, "out")
    assert pairs(found) == as_pairs("sid_9 PaddedInput_7", "PaddedInput_7 Conv2dOutput_7 sid_8", "sid_8 tensor_2")
    assert peak(found) == 1117718


@pytest.mark.row("U9", "U14")
@pytest.mark.parametrize("kind", ["serial", "parallel"])
def test_parallel_and_serial_loops(kind: LoopKind) -> None:
    """Upstream leaves what begins in the parallel loop alone, and plans what begins in a serial loop inside it as if it
    were one thread's. Here both are planned, and live all over the parallel loop."""
    pad, dummy, sums = buffer("PaddedInput_8", 430592), buffer("dummy_allocate", 4), buffer("Conv2dOutput_8", 256)

    def body(x: object, w: object, out: object) -> Stmt:
        inner = rows(within(sums, body=seq(fill(sums, pad, w), fill(out, sums))))  # type: ignore[arg-type]
        return within(pad, body=seq(fill(pad, x), rows(within(dummy, body=inner), kind)))  # type: ignore[arg-type]

    found = calls(
        {"input": 401408, "p5": 221184}, [("out", kernel("conv", (401408, 221184, 602112), body), "input p5")], "out"
    )
    if kind == "serial":
        # the dummy is not used: it is there where it begins, before the sums do
        assert pairs(found) == as_pairs("PaddedInput_8 dummy_allocate", "PaddedInput_8 Conv2dOutput_8")
        assert peak(found) == 430848
    else:
        assert pairs(found) == as_pairs("PaddedInput_8 dummy_allocate Conv2dOutput_8")
        assert peak(found) == 430848 + 4


def conv(name: str, sizes: tuple[int, int], number: str, pad: int, sums: int) -> PrimFunc:
    return kernel(name, sizes, padded((f"PaddedInput{number}", pad), (f"Conv2dOutput{number}", sums)))


def inception(times: int = 1) -> Program:
    """`times` is the width of the tensors between calls: Relax has them as int32 where TIR has bytes."""
    n = {k: v * times for k, v in {
        "sid_9": 301056, "sid_8": 802816, "sid_7": 401408, "sid_6": 401408, "sid_5": 602112, "sid_4": 150528,
            "sid_3": 301056,
        "sid_2": 50176, "sid_20": 150528, "sid_19": 100352, "sid_26": 25088, "sid_25": 25088, "sid_32": 301056,
            "sid_31": 25088,
    }.items()}  # fmt: skip
    out = 200704
    return calls(
        {"input": 150528},
        [
            ("sid_9", kernel("cast_subtract", (150528, n["sid_9"])), "input"),
            ("sid_8", conv("conv_7", (n["sid_9"], n["sid_8"]), "_7", 314646, 256), "sid_9"),
            ("sid_7", kernel("pool_cast", (n["sid_8"], n["sid_7"]), through("tensor_2", 200704)), "sid_8"),
            ("sid_6", conv("conv", (n["sid_7"], n["sid_6"]), "", 401408, 256), "sid_7"),
            ("sid_5", conv("conv_8", (n["sid_6"], n["sid_5"]), "_8", 430592, 256), "sid_6"),
            ("sid_4", kernel("pool", (n["sid_5"], n["sid_4"])), "sid_5"),
            ("sid_3", kernel("cast", (n["sid_4"], n["sid_3"])), "sid_4"),
            ("sid_2", conv("conv_2", (n["sid_3"], n["sid_2"]), "_2", 301056, 256), "sid_3"),
            ("sid_20", conv("conv_1", (n["sid_3"], n["sid_20"]), "_1", 301056, 4), "sid_3"),
            ("sid_19", conv("conv_6", (n["sid_20"], n["sid_19"]), "_6", 172800, 256), "sid_20"),
            ("sid_26", conv("conv_4", (n["sid_3"], n["sid_26"]), "_4", 301056, 4), "sid_3"),
            ("sid_25", conv("conv_5", (n["sid_26"], n["sid_25"]), "_5", 28800, 4), "sid_26"),
            ("sid_32", kernel("pool_cast_1", (n["sid_4"], n["sid_32"]), through("tensor_3", 150528)), "sid_4"),
            ("sid_31", conv("conv_3", (n["sid_32"], n["sid_31"]), "_3", 301056, 4), "sid_32"),
            (
                "out",
                kernel("concat", (n["sid_2"], n["sid_19"], n["sid_25"], n["sid_31"], out)),
                "sid_2 sid_19 sid_25 sid_31",
            ),
        ],
        "out",
    )


INCEPTION = as_pairs(
    "sid_9 PaddedInput_7", "PaddedInput_7 Conv2dOutput_7 sid_8", "sid_8 tensor_2", "tensor_2 sid_7",
        "sid_7 PaddedInput",
    "PaddedInput Conv2dOutput sid_6", "sid_6 PaddedInput_8", "PaddedInput_8 Conv2dOutput_8 sid_5", "sid_5 sid_4",
        "sid_4 sid_3",
    "sid_4 sid_3 PaddedInput_2", "sid_4 sid_3 PaddedInput_2 Conv2dOutput_2 sid_2",
    "sid_4 sid_3 sid_2 PaddedInput_1", "sid_4 sid_3 sid_2 PaddedInput_1 Conv2dOutput_1 sid_20",
    "sid_4 sid_3 sid_2 sid_20 PaddedInput_6", "sid_4 sid_3 sid_2 PaddedInput_6 Conv2dOutput_6 sid_19",
    "sid_4 sid_3 sid_2 sid_19 PaddedInput_4", "sid_4 sid_2 sid_19 PaddedInput_4 Conv2dOutput_4 sid_26",
    "sid_4 sid_2 sid_19 sid_26 PaddedInput_5", "sid_4 sid_2 sid_19 PaddedInput_5 Conv2dOutput_5 sid_25",
    "sid_4 sid_2 sid_19 sid_25 tensor_3", "sid_2 sid_19 sid_25 tensor_3 sid_32",
    "sid_2 sid_19 sid_25 sid_32 PaddedInput_3", "sid_2 sid_19 sid_25 PaddedInput_3 Conv2dOutput_3 sid_31",
)  # fmt: skip


@pytest.mark.row("U1", "U10", "U14")
def test_inception() -> None:
    """Upstream lists fewer: sid_2 lives until the concatenation, but not beside sid_3, sid_20, sid_26 and what is
    inside the calls between. Its helper cannot see what is missing."""
    found = inception()
    assert pairs(found) == INCEPTION
    assert peak(found) == 1117718
    assert as_pairs("sid_2 sid_3", "sid_2 sid_20", "sid_2 sid_26", "sid_2 PaddedInput_6", "sid_4 sid_20") <= INCEPTION


def attention(size: int, dummies: bool = False) -> Program:
    """Kernels that are called twice each; with dummies, dense reads one byte that another call makes."""
    one = size
    plain = {n: kernel(n, (one, one)) for n in ("layout_1", "layout", "reshape_1", "reshape")}
    conv_ = kernel("conv", (one, 324, one), padded(("data_pad", 4368), ("conv2d_global", 144)))
    sizes = (one, 1, one) if dummies else (one, one)
    dense_ = kernel("dense", sizes, dense())
    byte = kernel("byte", (1,))
    steps: list[tuple[str, PrimFunc, str]] = [
        ("sid_8", plain["layout_1"], "data"),
        ("sid_7", conv_, "sid_8 p0"),
        ("sid_6", plain["layout"], "sid_7"),
        ("sid_12", plain["reshape_1"], "data"),
        *([("byte_1", byte, "")] if dummies else []),
        ("sid_11", dense_, "sid_12" + " byte_1" * dummies),
        ("sid_10", plain["reshape"], "sid_11"),
        ("sid_5", kernel("softmax_add_add", (one, one, one), softmax()), "sid_6 sid_10"),
        ("sid_4", plain["layout_1"], "sid_5"),
        ("sid_3", conv_, "sid_4 p0"),
        ("sid_2", plain["layout"], "sid_3"),
        ("sid_20", plain["reshape_1"], "sid_5"),
        *([("byte_2", byte, "")] if dummies else []),
        ("sid_19", dense_, "sid_20" + " byte_2" * dummies),
        ("sid_18", plain["reshape"], "sid_19"),
        ("out", kernel("softmax_add", (one, one, one), softmax("2")), "sid_2 sid_18"),
    ]
    return calls({"data": one, "p0": 324}, steps, "out")


@pytest.mark.row("U7", "U10", "U14")
def test_many_calls_of_one_kernel() -> None:
    """Upstream has one buffer for both calls of a kernel in its table, and has everything that a loop touches live all
    over the loop, such as the maximum beside the sum."""
    found = attention(3456)
    expected = as_pairs(
        "sid_8 data_pad", "data_pad conv2d_global sid_7", "sid_7 sid_6", "sid_6 sid_12",
            "sid_6 sid_12 compute_global sid_11",
        "sid_6 sid_12 compute compute_global sid_11", "sid_6 sid_11 sid_10", "sid_6 sid_10 sid_5 maxelem exp",
        "sid_6 sid_10 sid_5 exp expsum norm", "sid_5 sid_4", "sid_5 sid_4 data_pad",
            "sid_5 data_pad conv2d_global sid_3",
        "sid_5 sid_3 sid_2", "sid_5 sid_2 sid_20", "sid_2 sid_20 compute compute_global sid_19", "sid_2 sid_19 sid_18",
        "sid_2 sid_18 maxelem2 exp2", "sid_2 sid_18 exp2 expsum2 norm2",
    )  # fmt: skip
    assert pairs(found) == expected
    assert peak(found) == 11424
    pads = [s for s in found.slots.values() if s.name.endswith("data_pad")]
    assert len(pads) == 2 and pads[0].stop <= pads[1].start


# --- Relax with TIR (tlc-pack/relax 250) -----------------------------------------------------------------------------


@pytest.mark.row("U1", "U8", "U14")
def test_relax_linear() -> None:
    """Upstream's three bytes are never written, and live from where they are read. Here somebody writes them first."""
    byte = kernel("byte", (1,))
    steps = [
        ("tsid_10", byte, ""),
        ("alloc", kernel("cast_subtract", (256, 1, 1204224)), "input tsid_10"),
        ("tsid_11", byte, ""),
        ("tsid_12", byte, ""),
        ("alloc1", kernel("conv", (1204224, 1, 1, 3211264),
            padded(("PaddedInput_7", 314646), ("Conv2dOutput_7", 256))), "alloc tsid_11 tsid_12"),
        ("alloc2", kernel("pool", (3211264, 1024), through("tensor_2", 200704)), "alloc1"),
    ]  # fmt: skip
    found = calls({"input": 256}, steps, "alloc2")
    cliques = ["tsid_10 alloc", "alloc tsid_11", "alloc tsid_11 tsid_12 PaddedInput_7",
               "tsid_11 tsid_12 PaddedInput_7 Conv2dOutput_7 alloc1", "alloc1 tensor_2"]  # fmt: skip
    assert pairs(found) == as_pairs(*cliques)
    assert peak(found) == 3526168
    assert pairs(found, "output_0") == as_pairs(*cliques, "tensor_2 output_0")


@pytest.mark.row("U9", "U14")
@pytest.mark.parametrize(("kind", "more"), [("serial", 0), ("parallel", 4)])
def test_relax_parallel_and_serial_loops(kind: LoopKind, more: int) -> None:
    """The result counts upstream. What begins in the parallel loop does not; here it does."""
    pad, dummy, sums = buffer("PaddedInput_8", 430592), buffer("dummy", 4), buffer("Conv2dOutput_8", 256)

    def body(x: object, w: object, b: object, out: object) -> Stmt:
        inner = rows(within(sums, body=seq(fill(sums, pad, w), fill(out, sums, b))))  # type: ignore[arg-type]
        return within(pad, body=seq(fill(pad, x), rows(within(dummy, body=inner), kind)))  # type: ignore[arg-type]

    byte = kernel("byte", (1,))
    steps = [
        ("tsid_10", byte, ""),
        ("tsid_11", byte, ""),
        ("out", kernel("conv", (512, 1, 1, 1048576), body), "input tsid_10 tsid_11"),
    ]
    found = calls({"input": 512}, steps, "out")
    assert peak(found, "output_0") == 1479426 + more


@pytest.mark.row("U7", "U10")
def test_relax_inception_and_many_calls() -> None:
    assert pairs(inception(4)) == INCEPTION
    # two bytes of weights upstream, which are the caller's here
    assert peak(inception(4)) == 3526168 - 2
    assert peak(attention(13824, dummies=True)) == 41857


# --- Relax's planner of blocks (test_transform_static_plan_block_memory.py) ------------------------------------------


def chain(*bound: Expr) -> Expr:
    """Names for values: var, value, ..., result."""
    *pairs_, body = bound
    for v, value in reversed(list(zip(pairs_[::2], pairs_[1::2], strict=True))):
        assert isinstance(v, Var)
        body = let(v, value, body)
    return body


def tensor(*shape: int, of: object = FLOAT32) -> TensorType:
    return TensorType(shape, of)  # type: ignore[arg-type]


def sizes(found: Program) -> list[int]:
    return [s.nbytes for s in found.placed("workspace")]


def main(params: Sequence[Var], body: Expr, **others: object) -> Program:
    return live(Module({"main": function(params, body), **others}))  # type: ignore[dict-item]


@pytest.mark.row("U19", "U20")
def test_static_plan_basic() -> None:
    """Two storages of 32 and 40 bytes upstream; the least that any plan needs here. A view is no storage of its own."""
    x = var("x", tensor(2, 4))
    flat = call("reshape", call("exp", x), shape=(8,))
    more = call(
        "concat", call("add", call("nn.relu", flat), constant(np.float32(1))), constant(np.zeros(2, np.float32)), axis=0
    )
    found = main([x], call("log", more))
    assert sizes(found) == [32, 32, 32, 40] and peak(found) == 32 + 40
    one, two, three, four = (s.name for s in found.placed("workspace"))
    assert pairs(found) == as_pairs(f"{one} {two}", f"{two} {three}", f"{three} {four}")
    assert kills(found) == {(1, 2): (one,), (2, 3): (two,), (3, 4): (three,), (4, 5): (four,)}


@pytest.mark.row("U19")
def test_static_plan_of_several_dtypes() -> None:
    """Upstream shares nothing between dtypes; bytes are bytes here. Nobody reads the results: each lives at its
    step."""
    for a, b in ((FLOAT32, INT32), (FLOAT32, FLOAT32), (BOOL, BOOL)):
        x, y = var("x", tensor(2, 3, of=a)), var("y", tensor(2, 3, of=b))
        op = "logical_and" if a is BOOL else "add"
        g, h = call(op, x, x), call(op, y, y)
        found = main([x, y], chain(var("g", g.type), g, var("h", h.type), h, x))
        assert not pairs(found) and peak(found) == 6 * max(a.itemsize, b.itemsize)


@pytest.mark.row("U18", "U19")
def test_static_plan_leaves_no_choice_unplanned() -> None:
    """Conditions, results of branches and what another block uses are not planned upstream; here they are."""
    x = var("x", tensor(2, 3))
    test = call("less", call("sum", x, axis=(0, 1), keepdims=False), constant(np.float32(0)))
    found = main([x], if_(test, call("add", x, x), call("multiply", x, x)))  # if_cond
    assert [s.type.dtype for s in found.placed("workspace")][-1] is BOOL and isinstance(found.steps[2], Branch)
    c, a, r = var("c", B), var("a", x.type), var("r", x.type)
    body = chain(a, call("add", x, x), r, if_(c, call("add", a, a), call("multiply", a, a)), call("exp", r))
    found = main([c, x], body)  # if_then_else and cross_block_use
    before, result = found.placed("workspace")
    assert (before.live, result.live) == (((0, 4),), ((2, 5),))
    assert pairs(found) == as_pairs(f"{before.name} {result.name}") and peak(found) == 48


@pytest.mark.row("U19")
def test_static_plan_of_a_call_of_a_function() -> None:
    """Upstream plans nothing that goes to a function; here the function's calls are part of the plan."""
    p, x, a = var("p", tensor(2, 3)), var("x", tensor(2, 3)), var("a", tensor(2, 3))
    other = function([p], call("exp", call("exp", p)))
    found = main([x], chain(a, call("add", x, x), call("log", call_function("other", other, a))), other=other)
    assert sizes(found) == [24, 24, 24] and peak(found) == 48


@pytest.mark.row("U19")
def test_static_plan_of_nested_tuples() -> None:
    """What is in a tuple lives until the last use of any projection that it is in; four storages upstream."""
    x = var("x", tensor(2, 4))
    a, b, c, d, e = (var(n, x.type) for n in "abcde")
    t, u = var("t", TupleType((x.type, x.type))), var("u", TupleType((TupleType((x.type, x.type)), x.type)))
    body = chain(
        a,
        call("exp", x),
        b,
        call("exp", a),
        c,
        call("exp", b),
        t,
        tuple_of(a, b),
        u,
        tuple_of(t, c),
        # fmt: skip
        d,
        call("add", get(get(u, 0), 0), get(get(u, 0), 1)),
        e,
        call("add", d, get(u, 1)),
        call("log", e),
    )
    found = main([x], body)
    one, two, three, four, five = (s.name for s in found.placed("workspace"))
    assert pairs(found) == as_pairs(f"{one} {two} {three} {four}", f"{three} {four} {five}")
    assert peak(found) == 4 * 32


@pytest.mark.row("U15", "U19")
def test_static_plan_of_what_is_never_used() -> None:
    """A tensor without a reader has storage of its own upstream, for ever; here it lives at the step that makes it."""
    x, a, b = var("x", tensor(2, 4)), var("a", tensor(2, 4)), var("b", tensor(2, 4))
    found = main([x], chain(a, call("exp", x), b, call("log", x), call("exp", b)))
    assert [s.live for s in found.placed("workspace")] == [((0, 1),), ((1, 3),)] and peak(found) == 32


@pytest.mark.row("U8", "U19")
def test_static_plan_of_a_reshaped_parameter() -> None:
    x, y = var("x", tensor(2, 25, 2)), var("y", tensor(2, 25, 2))
    found = main([x, y], call("add", call("reshape", x, shape=(2, 50)), call("reshape", y, shape=(2, 50))))
    assert not found.placed("workspace") and len(found.steps) == 1


# --- where memory is killed (tlc-pack/relax 275) ---------------------------------------------------------------------

S = tensor(2, 3)


@pytest.mark.row("U18", "U20")
def test_kills_in_a_row() -> None:
    i, s = var("i", tensor()), var("s", S)
    a, b, new_i, new_s = (var(n, S) for n in ("a", "b", "new_i", "new_s"))
    body = chain(
        a,
        call("exp", s),
        b,
        call("log", s),
        new_i,
        call("add", i, b),
        new_s,
        call("add", s, a),
        call("add", new_i, new_s),
    )
    found = main([i, s], body)
    w = [n.name for n in found.placed("workspace")]
    assert kills(found) == {(2, 3): (w[1],), (3, 4): (w[0],), (4, 5): (w[2], w[3])}


@pytest.mark.row("U18", "U20")
def test_kills_in_a_choice() -> None:
    """On the way into the branch that does not read it, a tensor dies at once: upstream marks that as missing."""
    i, s, x, c = var("i", tensor()), var("s", S), var("x", S), var("c", B)
    names = [var(n, S) for n in ("t1", "t3", "t5", "t2", "new_i", "new_s1", "new_s", "out")]
    t1, t3, t5, t2, new_i, new_s1, new_s, out = names
    then = chain(t2, call("exp", x), new_i, call("add", i, t2), new_s1, call("add", s, x), call("add", new_i, new_s1))
    otherwise = chain(new_s, call("add", s, x), call("add", t1, new_s))
    body = chain(t1, call("exp", s), t3, call("log", s), t5, call("add", t3, t1), out, if_(c, then, otherwise), out)
    found = main([i, s, x, c], body)
    w = [n.name for n in found.placed("workspace")]  # t1, t3, t5, t2, new_i, new_s1, new_s
    assert found.steps[3] == Branch("c", 8, 10)
    assert kills(found) == {
        (2, 3): (w[1], w[2]),  # t3, and t5, which nobody uses
        (3, 4): (w[0],),  # t1, which only the other branch reads
        (5, 6): (w[3],),
        (7, 10): (w[4], w[5]),
        (9, 10): (w[0], w[6]),
    }


@pytest.mark.row("U18", "U20")
def test_kills_in_nested_choices() -> None:
    s, x, c, d = var("s", S), var("x", S), var("c", B), var("d", B)
    t3, new_s1, t4, t5, t1, inner = (var(n, S) for n in ("t3", "new_s1", "t4", "t5", "t1", "inner"))
    one = chain(t3, call("exp", x), new_s1, call("add", s, t3), call("add", s, new_s1))
    two = chain(t4, call("exp", x), t5, call("log", x), call("add", t5, t4))
    body = if_(c, chain(inner, if_(d, one, two), inner), chain(t1, call("exp", s), call("add", t1, x)))
    found = main([s, x, c, d], body)
    w = [n.name for n in found.placed("workspace")]  # t3, new_s1, t4, t5, t1
    assert found.steps[:2] == (Branch("c", 8, 10), Branch("d", 5, 8))
    assert kills(found) == {(3, 4): (w[0],), (4, 10): (w[1],), (7, 10): (w[2], w[3]), (9, 10): (w[4],)}


@pytest.mark.row("U16")
def test_temporaries_are_lifted_out_of_their_tensor_function() -> None:
    """They are slots of the program, which its steps hand over. With whole steps that is all, and two temporaries of
    one call never share; with phases they keep the lives that they had inside."""
    a, b = buffer("a", 40), buffer("b", 50)
    apart = kernel(
        "k",
        (40, 50),
        lambda x, out: seq(
            within(a, body=seq(fill(a, x), fill(out, a))), within(b, body=seq(fill(b, x), fill(out, b)))
        ),
    )
    x = var("x", of_size(40))
    y = var("y", of_size(50))
    main = function([x], let(y, call_tir("k", [x], y.type), y))
    for whole, shared in ((True, False), (False, True)):
        program = find_lives(Module({"main": main, "k": apart}), whole=whole).program
        (step,) = program.calls
        one, two = (program.slots[n] for n in step.scratch)
        assert (one.place, two.place) == ("workspace", "workspace") and (one.nbytes, two.nbytes) == (40, 50)
        assert shared == (not overlap(one.live, two.live))
        assert step.phases > 1 or whole
