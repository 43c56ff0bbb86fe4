"""What the oracle judges on the way: outputs in tuples, kinds of data, kernels in another order."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from assay.interp import vector
from assay.interp.values import Shape
from assay.lower.legalize import legalize
from assay.semantics.dtypes import FLOAT32, INT32, dtype
from assay.semantics.errors import Invalid
from assay.semantics.graph import CallTIR, call, constant, function, get, let, read, shape, tuple_of, var
from assay.semantics.module import Module
from assay.semantics.scalar import Var as Symbol, const
from assay.semantics.tensor import Buffer, For, PrimFunc, Store
from assay.semantics.types import RefType, ShapeType, TensorType
from assay.verify.oracle import Accepts, Oracle
from assay.verify.oracle.claims import call_title, meant
from assay.verify.oracle.data import _random, _tensor
from assay.verify.oracle.disturbed import shuffled
from assay.verify.oracle.scaled_integers import ScaledIntegers, run_scaled_integers
from assay.verify.oracle.walk import places

F = np.float32
Array = np.ndarray[Any, Any]


# --- whole verdicts -------------------------------------------------------------------------------------------------


def test_outputs_in_tuples_are_called_by_their_place() -> None:
    x = var("x", TensorType((2,), FLOAT32))
    inner = tuple_of(call("negative", x), x)
    module = Module({"main": replace(function([x], tuple_of(inner, shape(2, 3))), attrs={"outputs": ("pair", "dims")})})
    given = np.array([1.0, 2.0], F)
    oracle = Oracle(module)

    def said(pair: Any, dims: Any = None) -> str:
        return str(oracle.judge({"x": given}, {"pair": pair, "dims": Shape((2, 3)) if dims is None else dims}))

    assert said((-given, given)).startswith("right (bitwise)")
    assert (
        said((-given, -given))
        == "wrong (bitwise): output pair.1 element (1,) is -2.0, allowed is 2.0, 1.68e+07 ulp outside"
    )
    assert "output pair.0 element (1,)" in said((given, -given)), "the first one is named"
    assert "output pair.0 is missing" in said(None) and "output pair.0 is missing" in said((given,))
    assert "output pair.0" in said((given, given), Shape((2, 4)))
    assert "output dims is" in said((-given, given), Shape((2, 4))) and "must be" in said(
        (-given, given), Shape((2, 4))
    )


def test_sums_of_whole_numbers_behind_a_rounding_operator_are_judged_bit_for_bit() -> None:
    """The layer that says so is told; where only intervals tell, one neighbour is right too."""
    x = var("x", TensorType((4, 6), FLOAT32))
    total = call("sum", call("multiply", x, x), axis=(1,))
    given = {"x": np.arange(24, dtype=F).reshape(4, 6)}
    want = (given["x"] ** 2).sum(1)
    module = Module({"main": replace(function([x], total), attrs={"outputs": ("y",)})})
    assert Oracle(module).judge(given, {"y": want}).layer == "integers"
    off = Oracle(module).judge(given, {"y": np.nextafter(want, F(np.inf))})
    assert (off.outcome, off.layer) == ("wrong", "integers")
    reals = {"x": np.random.default_rng(0).standard_normal((4, 6)).astype(F)}
    right = (reals["x"] ** 2).sum(1)
    for y in (right, np.nextafter(right, F(np.inf))):
        verdict = Oracle(module).judge(reals, {"y": y})
        assert (verdict.outcome, verdict.layer) == ("right", "graph")


def chain() -> tuple[Module, dict[str, Any]]:
    """A sum that cancels, and its exponential: of the whole nothing is known, of each operator much."""
    x = var("x", TensorType((2, 3), FLOAT32))
    total = call("sum", x, axis=(1,))
    y = call("exp", call("multiply", total, constant(F([20, 20]))))
    module = Module({"main": replace(function([x], y), attrs={"outputs": ("y",)})})
    return module, {"total": total, "scaled": y.args[0], "y": y}


def test_operators_that_are_each_right_make_a_right_whole() -> None:
    module, tensors = chain()
    given = {"x": np.array([[1e8, 1, -1e8], [1, 0, 0]], F)}
    total = np.array([1, 1], F)
    theirs = {"total": total, "scaled": total * F(20), "y": np.exp(total * F(20))}
    oracle = Oracle(module, tensors)
    alone = oracle.judge(given, {"y": theirs["y"]})
    assert alone.outcome == "undecided" and "nothing is known of 1 of 2 elements" in alone.detail
    verdict = oracle.judge(given, {"y": theirs["y"]}, theirs)
    assert (verdict.outcome, verdict.layer, verdict.judged) == ("right", "rebased", 3), str(verdict)
    assert "3 tensors right on the backend's own operands" in verdict.detail
    other = np.nextafter(theirs["y"], F(np.inf))
    assert oracle.judge(given, {"y": other}, theirs).outcome == "undecided", "the output is no tensor that was judged"
    some = {n: theirs[n] for n in ("total", "scaled")}
    assert oracle.judge(given, {"y": theirs["y"]}, some).outcome == "undecided"
    wrong = {**theirs, "scaled": total * F(21), "y": np.exp(total * F(21))}
    verdict = oracle.judge(given, {"y": wrong["y"]}, wrong)
    assert (
        verdict.outcome == "wrong"
        and verdict.culprit == "multiply, tensor scaled"
        and "; output y element (1,)" in verdict.detail
    )
    right = oracle.judge(given, {"y": theirs["y"]}, {**theirs, "scaled": total * F(21)})
    assert right.outcome == "wrong" and "; output" not in right.detail, "that output is within its interval"
    named = Oracle(module, tensors, makers={"scaled": "Mul node_3"}).judge(given, {"y": wrong["y"]}, wrong)
    assert named.culprit == "Mul node_3, tensor scaled"


def test_whole_numbers_on_the_backends_own_operands_have_one_right_sum() -> None:
    module, tensors = chain()
    given = {"x": np.array([[1, 2, 3], [1, 0, 0]], F)}
    total = np.array([6, 1], F)
    off = np.nextafter(total, F(9))
    verdict = Oracle(module, tensors).judge(given, {"y": np.exp(total * F(-20))}, {"total": off})
    assert (verdict.outcome, verdict.layer, verdict.culprit) == ("wrong", "integers", "sum, tensor total"), str(verdict)
    assert Oracle(module, tensors, accepts=Accepts(splits=True)).judge(given, {}, {"total": off}).culprit is None


def test_a_field_of_a_result_keeps_the_signs_of_zeros() -> None:
    x = var("x", TensorType((4,), FLOAT32))
    module = Module(
        {"main": replace(function([x], get(call("split", x, sections=(2, 2), axis=0), 1)), attrs={"outputs": ("y",)})}
    )
    given = {"x": np.array([1, 2, -0.0, 0.0], F)}
    assert Oracle(module).judge(given, {"y": given["x"][2:]}).outcome == "right"
    assert Oracle(module).judge(given, {"y": -given["x"][2:]}).outcome == "wrong"


def test_which_calls_make_the_tensors_that_are_asked_for() -> None:
    x = var("x", TensorType((4,), FLOAT32))
    top, v, w = call("topk", x, k=2), var("v", TensorType((2,), FLOAT32)), var("w", TensorType((2,), FLOAT32))
    first, low = get(top, 0), call("negative", v)
    body = let(v, first, let(w, low, tuple_of(w, get(top, 1))))
    module = Module({"main": function([x], body)})
    found = places(module, {"values": v, "places": get(top, 1), "w": w, "x": x, "one": constant(F([1])), "all": top})
    assert found == {id(top): [("values", 0), ("places", 1), ("all", None)], id(low): [("w", None)]}
    assert places(module, {}) == {}


def test_a_tensor_that_is_a_field_is_judged_as_one() -> None:
    x = var("x", TensorType((4,), FLOAT32))
    top = call("topk", x, k=2)
    module = Module({"main": replace(function([x], get(top, 0)), attrs={"outputs": ("y",)})})
    given, values, places_ = {"x": np.array([3, 1, 2, 0], F)}, np.array([3, 2], F), np.array([0, 2])
    oracle = Oracle(module, {"y": get(top, 0), "at": get(top, 1), "both": top})
    verdict = oracle.judge(given, {"y": values}, {"y": values, "at": places_, "both": values})
    assert (verdict.outcome, verdict.judged) == ("right", 2)
    verdict = oracle.judge(given, {"y": values}, {"y": values, "at": places_[::-1]})
    assert verdict.outcome == "wrong" and verdict.culprit == "topk, tensor at"


@pytest.mark.parametrize("of", ["float32", "float64"])
def test_factors_that_are_split_are_those_of_float32(of: Any) -> None:
    a, b = var("a", TensorType((4, 8), dtype(of))), var("b", TensorType((8, 4), dtype(of)))
    module = Module({"main": replace(function([a, b], call("matmul", a, b)), attrs={"outputs": ("y",)})})
    rng = np.random.default_rng(0)
    for exact in (True, False):
        made = [rng.integers(-8, 9, s) if exact else rng.uniform(1, 2, s) for s in ((4, 8), (8, 4))]
        given = {n: x.astype(of) for n, x in zip("ab", made, strict=True)}
        off = {"y": (given["a"] @ given["b"]) + np.asarray(2.0**-16, of) * (np.abs(given["a"]) @ np.abs(given["b"]))}
        assert Oracle(module).judge(given, off).outcome == "wrong"
        assert Oracle(module, accepts=Accepts(splits=True)).judge(given, off).outcome == (
            "right" if of == "float32" else "wrong"
        )


def test_a_tensor_function_is_the_operator_that_it_says() -> None:
    x = var("x", TensorType((3,), FLOAT32))
    module = legalize(Module({"main": function([x], call("nn.relu", call("add", x, x)))}))
    node = module.main.body
    assert isinstance(node, CallTIR)
    found = meant(node, {}, module)
    assert found is not None and found[0].name == "nn.relu"
    kernel = module.kernel(node.func)
    for attrs in ({}, {"operator": "nn.relu"}, {"attrs": {}}, {"operator": "nn.relu", "attrs": {"axis": Symbol("n")}}):
        silent = replace(module, definitions={**module.definitions, node.func: replace(kernel, attrs=attrs)})
        assert meant(node, {}, silent) is None
        whole_ = run_scaled_integers(silent, {"x": np.array([1, -2, 3], F)})
        assert not isinstance(whole_, str)
        (result,) = whole_.values()
        assert isinstance(result, ScaledIntegers) and result.lost == "a tensor function that claims no operator"
        assert result.value.tolist() == [2, 0, 6]
    assert call_title(node) == f"{node.func} at {node.span}" if node.span else call_title(node) == node.func


def test_numbers_that_are_not_whole_beside_integers() -> None:
    x, i = var("x", TensorType((3,), FLOAT32)), var("i", TensorType((3,), INT32))
    module = Module({"main": function([x, i], call("multiply", x, call("astype", i, dtype="float32")))})
    found = run_scaled_integers(module, {"x": np.array([0.1, 0.2, 0.3], F), "i": np.array([1, 2, 3], np.int32)})
    assert found == "no input is a small multiple of a power of two"
    assert not isinstance(
        run_scaled_integers(module, {"x": np.array([1, 2, 3], F), "i": np.array([1, 2, 3], np.int32)}), str
    )


def test_one_input_of_whole_numbers_is_enough_for_what_is_made_of_it() -> None:
    x, y = var("x", TensorType((3,), FLOAT32)), var("y", TensorType((3,), FLOAT32))
    main = replace(
        function([x, y], tuple_of(call("add", x, x), call("add", x, y))), attrs={"outputs": ("of_x", "of_both")}
    )
    found = run_scaled_integers(
        Module({"main": main}), {"x": np.array([1, 2, 3], F), "y": np.array([0.1, 0.2, 0.3], F)}
    )
    assert not isinstance(found, str)
    of_x, of_both = found.values()
    assert isinstance(of_x, ScaledIntegers) and not of_x.lost and of_x.value.tolist() == [2, 4, 6]
    assert isinstance(of_both, ScaledIntegers) and of_both.lost


# --- data -----------------------------------------------------------------------------------------------------------


def made(kind: Any, *shapes: tuple[int, ...], of: str = "float32", body: Any = None) -> list[Array]:
    params = [var(f"p{i}", TensorType(s, dtype(of))) for i, s in enumerate(shapes)]
    module = Module({"main": function(params, body(*params) if body else tuple_of(*params))})
    return list(Oracle(module).inputs(kind).values())


@pytest.mark.parametrize("of", ["float32", "float16"])
def test_each_kind_of_data_is_what_it_says(of: str) -> None:
    info = dtype(of)
    (x,) = made("cancelling", (64, 33), of=of)
    pairs = x.astype(np.float64).reshape(-1)[: x.size // 2 * 2].reshape(-1, 2)
    sizes = np.abs(pairs[:, 0])
    assert (
        np.abs(pairs.sum(1))
        < 64 * info.unit_roundoff * np.maximum(sizes, info.smallest_normal) + info.smallest_subnormal
    ).all()
    assert (pairs.sum(1) != 0).any(), "not all of them cancel to nothing"
    assert np.median(sizes[::8]) > 100 * np.median(sizes[1::8])
    (x,) = made("large", (64, 32), of=of)
    squares = x.astype(np.float64) ** 2
    assert (squares < float(info.max) / 64).all() and (squares > info.smallest_normal * 4).all()
    assert squares.max() > float(info.max) / 2.0**9 and squares.min() < info.smallest_normal * 2.0**5, (
        "most of the range"
    )
    assert (x > 0).any() and (x < 0).any()
    (x,) = made("specials", (64, 64), of=of)
    wide = x.astype(np.float64)
    some = [
        np.inf,
        -np.inf,
        info.smallest_subnormal,
        -info.smallest_subnormal,
        info.smallest_normal,
        info.smallest_normal / 2,
    ]
    some += [float(info.max), -float(info.max), 0.0, 1.0]
    assert np.isnan(x).any() and all((wide == s).any() for s in some) and np.signbit(wide[wide == 0]).any()
    ordinary = ((np.abs(wide) < 8) & ~np.isin(np.abs(wide), [0, 1, 0.5, 2]) & (np.abs(wide) > 1e-3)).mean(1)
    assert (ordinary > 0.9).any() and (ordinary < 0.7).any(), "rows with few of them, and with many"
    (x,) = made("random", (64, 64), of=of)
    assert abs(x.astype(np.float64).mean()) < 0.1 and 0.9 < x.astype(np.float64).std() < 1.1


def test_whole_numbers_are_as_large_as_sums_allow() -> None:
    (x,) = made("integers", (40, 40))
    assert np.array_equal(np.unique(x), np.arange(-8, 9))
    small = made("integers", (8, 512), (512, 8), of="float16", body=lambda a, b: call("matmul", a, b))
    assert 1 <= max(np.abs(a).max() for a in small) < 8
    sparse = made("integers", (4, 600), (600, 4), of="bfloat16", body=lambda a, b: call("matmul", a, b))
    assert max(np.abs(a.astype(F)).max() for a in sparse) == 1 and all((a == 0).mean() > 0.6 for a in sparse)
    rounds = made("integers", (40, 40), body=lambda a: call("exp", a))
    assert np.array_equal(np.unique(rounds[0]), np.arange(-8, 9)), "smaller numbers would not help"


def test_integers_are_indices_and_a_trap_makes_for_others() -> None:
    (x,) = made("random", (500,), of="int32")
    assert np.array_equal(np.unique(x), [0, 1])
    x, y = made("random", (50,), (50,), of="int32", body=lambda a, b: call("truncate_divide", a, b))
    assert (y == 1).all(), "the first try divides by zero"
    (b,) = made("random", (500,), of="bool")
    assert b.dtype == np.bool_ and np.array_equal(np.unique(b), [False, True])


def test_integers_are_other_ones_in_each_attempt() -> None:
    rng = np.random.default_rng(0)
    found = [np.unique(_tensor(INT32, (500,), rng, _random, k)).tolist() for k in range(5)]
    assert found == [[0, 1], [1], [1, 2, 3], [0], [0, 1]]


def test_where_nothing_is_exact_the_largest_numbers_are_kept() -> None:
    (x,) = made("integers", (1, 20_000), of="bfloat16", body=lambda a: call("sum", a, axis=(1,)))
    assert np.abs(x.astype(F)).max() == 8


def test_sizes_of_given_inputs_hold_for_the_others() -> None:
    n, m = Symbol("n"), Symbol("m")
    params = [var("x", TensorType((n, m), FLOAT32)), var("y", TensorType((m, n), FLOAT32)), var("s", ShapeType((m, n)))]
    oracle = Oracle(Module({"main": function(params, tuple_of(*params))}))
    given = oracle.inputs("random", given={"y": np.ones((4, 9), F)})
    assert given["x"].shape == (9, 4) and given["y"].all() and given["s"] == Shape((4, 9))
    assert oracle.inputs("random")["x"].shape == (5, 7)
    cell = var("r", RefType(TensorType((), FLOAT32)))
    with pytest.raises(Invalid, match="input 'r' is .*input.C6"):
        Oracle(Module({"main": function([cell], read(cell))})).inputs("random")


# --- disturbed kernels ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("start", "extent"), [(0, 1), (0, 7), (3, 7), (2, 40000)])
def test_a_loop_in_another_order_takes_each_step_once(start: int, extent: int) -> None:
    """Also from a start on, and where the extent is so large that it is only reversed."""
    x = Buffer("x", (start + extent,), INT32)
    out = Buffer("y", (extent,), INT32)
    i = Symbol("i")
    body = Store(out, (i - start,), x[i] + const(1, "int32"))
    loop = For(i, const(extent), body, "parallel", start=const(start) if start else None)
    new = shuffled(PrimFunc("f", (x, out), 1, loop), np.random.default_rng(3))
    assert isinstance(new.body, For) and new.body.kind == "serial" and new.body.start is None
    got = vector.run(new, [np.arange(start + extent, dtype=np.int32)])[0]
    assert np.array_equal(np.asarray(got), np.arange(start, start + extent) + 1)


def test_the_type_of_an_output_is_told_once() -> None:
    module, tensors = chain()
    oracle = Oracle(module, tensors)
    given = dict(oracle.inputs("random"))
    theirs = dict.fromkeys(tensors, np.zeros(1, F))
    verdict = oracle.judge(given, {"y": theirs["y"]}, {"y": theirs["y"]})
    assert verdict.outcome == "wrong" and verdict.detail.count("instead of") == 1
