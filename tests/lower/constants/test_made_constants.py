"""Constants made by compilation: transposed, packed, quantised. Each is what makes it; its users do what they did."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from assay.interp import vector
from assay.interp.graph import evaluate, run
from assay.lower.anf import to_anf
from assay.lower.constants.made import (
    LAYS,
    for_tiles,
    laid,
    make_constants,
    pack,
    packing,
    transposed,
)
from assay.lower.legalize import legalize
from assay.lower.loops.layout import Layout
from assay.semantics import graph
from assay.semantics.bits import same_bits
from assay.semantics.builder import tensor
from assay.semantics.dtypes import FLOAT32
from assay.semantics.errors import Invalid
from assay.semantics.graph import Call, Constant, Expr, GlobalVar, Var
from assay.semantics.module import ConstantInfo, Module
from assay.semantics.rules import check
from assay.semantics.tensor import Buffer, PrimFunc, loops, program_order, store
from assay.semantics.types import TensorType
from assay.semantics.walk import post_order, rewrite
from assay.verify.constants.made import check_made, laid_places, unpacked
from assay.verify.simplify import check_simplified
from tests.lower.loops.strategies import tiled
from tests.museum.catalogue import is_caught, planted
from tests.museum.faults.made_constant_faults import module, other_contents, packed_product, product, weight
from tests.museum.planted import PlantedFault

pytestmark = pytest.mark.row("C6")


def convolution() -> Module:
    def body(x: Var, w: Expr) -> Expr:
        return graph.call("nn.conv2d", x, w, strides=(1, 1), padding=(1, 1, 1, 1), dilation=(1, 1), groups=1)

    return module(body, (1, 3, 6, 7), weight(6, 3, 3, 3))


def same_runs(one: Module, two: Module) -> None:
    for p in one.main.params:
        assert isinstance(p.type, TensorType)
    inputs = {p.name: weight(*p.type.static_shape) for p in one.main.params if isinstance(p.type, TensorType)}
    a, b = run(one, inputs), run(two, inputs)
    assert all(same_bits(np.asarray(a[k]), np.asarray(b[k])) for k in a)


# --- transposed ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("in_graph", [False, True])
def test_a_transposed_weight(in_graph: bool) -> None:
    """The graph asks for it: the transpose is made once, the original goes."""
    source = product(transposes=True)
    if in_graph:
        data = graph.constant(source.constants["w"])
        main: Expr = source.main
        made_main = rewrite(main, lambda n: data if isinstance(n, GlobalVar) else n)
        assert isinstance(made_main, graph.Function)
        source = Module({"main": made_main})
    result, made = make_constants(source, evaluate)
    check(result)
    ((name, how),) = made.items()
    assert set(result.constants) == {name} and result.constants[name].shape == (7, 37)
    assert how.names == ("" if in_graph else "w",)
    evidence = check_made(source, result, made)
    assert evidence.holds, evidence.detail
    same_runs(source, result)


def test_a_weight_that_is_still_used_stays() -> None:
    source = module(
        lambda x, w: graph.call(
            "add",
            graph.call("matmul", x, graph.call("permute_dims", w)),
            graph.call("sum", w, axis=None, keepdims=False),
        ),
        (2, 7),
        weight(7, 7),
    )
    both = module(
        lambda x, w: graph.call("matmul", graph.call("add", x, w), graph.call("permute_dims", w)), (7, 7), weight(7, 7)
    )
    for m, left in ((source, 2), (both, 2)):
        result, made = make_constants(m, evaluate)
        assert check_made(m, result, made).holds and len(result.constants) == left
    assert "w" in make_constants(both, evaluate)[0].constants


def test_how_it_is_stored_is_inherited() -> None:
    info = ConstantInfo(alignment=256, section=".weights")
    source = replace(product(transposes=True), infos={"w": info})
    result, _ = make_constants(source, evaluate)
    (name,) = result.constants
    assert result.info(name) == info and result.offsets == {name: 0}


# --- packed ----------------------------------------------------------------------------------------------------------

STRATEGIES = {"plain": lambda call, name: None, "tiled": tiled}


@pytest.mark.parametrize("strategy", STRATEGIES)
@pytest.mark.parametrize("make", [product, convolution], ids=["product", "convolution"])
@pytest.mark.parametrize("choose", [for_tiles, transposed], ids=["tiles", "transposed"])
@pytest.mark.parametrize("anf", [False, True])
def test_packed_weights(strategy: str, make: Callable[[], Module], choose: Any, anf: bool) -> None:
    source = legalize(to_anf(make()) if anf else make(), STRATEGIES[strategy])
    laid_out, packed = pack(source, choose)
    if choose is transposed and make is convolution:
        assert not packed
        return
    result, made = make_constants(laid_out, evaluate)
    check(result)
    (how,) = packed.values()
    assert how.kernel not in result.kernels and "w" not in result.constants
    evidence = check_made(source, result, made, packed)
    assert evidence.holds, evidence.detail
    same_runs(source, result)


def test_each_user_reads_its_own_layout() -> None:
    """A weight that is packed for one user, and read as it is by another, stays for that one."""
    w = weight(40, 40)
    source = legalize(
        module(lambda x, c: graph.call("add", graph.call("matmul", x, c), graph.call("multiply", x, c)), (40, 40), w)
    )
    laid_out, packed = pack(source, for_tiles)
    result, made = make_constants(laid_out, evaluate)
    assert check_made(source, result, made, packed).holds
    assert "w" in result.constants and len(result.constants) == 2
    same_runs(source, result)


def test_what_is_no_constant_is_not_packed() -> None:
    x, y = graph.var("x", tensor(5, 7)), graph.var("y", tensor(7, 40))
    source = legalize(Module({"main": graph.function([x, y], graph.call("matmul", x, y))}))
    result, packed = pack(source, for_tiles)
    assert not packed and result.definitions == source.definitions


@pytest.mark.parametrize("layout", [Layout((1, 0)), Layout((0, 1), ((0, 4),)), Layout((1, 0), ((1, 4), (0, 3)))])
def test_a_layout_is_its_operators(layout: Layout) -> None:
    data = weight(7, 10)
    of = laid(TensorType((7, 10), FLOAT32), layout)
    assert same_bits(np.asarray(evaluate(Call(of.result_type, of, (graph.constant(data),)))), layout.apply(data))
    places = laid_places(of)
    assert same_bits(np.append(np.float32(0), data.reshape(-1))[places], layout.apply(data))


@pytest.mark.parametrize("layout", [Layout((1, 0)), Layout((0, 1), ((0, 4),)), Layout((1, 0), ((1, 4), (0, 3)))])
def test_an_operand_is_laid_out_before_it_is_read(layout: Layout) -> None:
    """What the check compares with the original reads the operand as the layout has it, with zeros where it is
    padded."""
    data = weight(7, 10)
    places = laid_places(laid(TensorType((7, 10), FLOAT32), layout))
    w, out = Buffer("w", places.shape, FLOAT32), Buffer("out", places.shape, FLOAT32)
    names = " ".join(f"i{a}" for a in range(places.ndim))
    copies = PrimFunc("copies", (w, out), 1, loops(names, places.shape, lambda *i: store(out, i, w[i])))
    given = unpacked(copies, 0, Buffer("w", (7, 10), FLOAT32), places)
    assert same_bits(vector.run(given, [data])[0], layout.apply(data))


# --- quantised -------------------------------------------------------------------------------------------------------


def rounded_weight(weight: Expr, axis: int | None) -> Expr:
    """A weight rounded to int8 and back, in operators: the scale, the int8 elements, their product."""
    others = tuple(a for a in range(weight.type.ndim) if a != axis)  # type: ignore[attr-defined]
    greatest = graph.call("max", graph.call("abs", weight), axis=None if axis is None else others, keepdims=True)
    step = graph.call("divide", greatest, graph.constant(np.float32(127)))
    scale = graph.call("maximum", step, graph.constant(np.float32(2.0**-100)))
    steps = graph.call("clip", graph.call("round", graph.call("divide", weight, scale)), min=-127, max=127)
    int8 = graph.call("astype", steps, dtype="int8")
    return graph.call("multiply", graph.call("astype", int8, dtype="float32"), scale)


def largest_error(scale: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """How far an element can be from its rounded one: half a step, and what two roundings to float32 add."""
    return scale.astype("float64") * (0.5 + 2.0**-16)


@pytest.mark.parametrize("axis", [None, 0, 1])
def test_quantised_weights(axis: int | None) -> None:
    w = weight(7, 37)
    w[2] = 0
    source = module(lambda x, c: graph.call("matmul", x, c), (5, 7), w)
    rounded = module(lambda x, c: graph.call("matmul", x, rounded_weight(c, axis)), (5, 7), w)
    result, made = make_constants(rounded, evaluate)
    check(result)
    assert check_made(rounded, result, made).holds
    same_runs(rounded, result)
    kinds = sorted(str(a.dtype) for a in result.constants.values())
    assert kinds == ["float32", "int8"] and sum(a.nbytes for a in result.constants.values()) < w.nbytes / 2
    q, s = (next(a for a in result.constants.values() if str(a.dtype) == of) for of in ("int8", "float32"))
    assert s.size == (1 if axis is None else w.shape[axis])
    error = np.abs(w.astype("float64") - q.astype("float64") * s)
    assert (error <= largest_error(s)).all()
    assert not check_simplified(source, rounded).holds, "it is another program, and says so"


def test_small_and_subnormal_weights() -> None:
    w = np.array([[1e-45, -1e-42], [1e-38, 0.0]], "float32")
    source = module(lambda x, c: graph.call("matmul", x, rounded_weight(c, 0)), (2, 2), w)
    result, made = make_constants(source, evaluate)
    (s,) = [a for a in result.constants.values() if str(a.dtype) == "float32"]
    values = next(a for a in result.constants.values() if str(a.dtype) == "int8").astype("float64") * s
    assert made and (np.abs(values - w) <= largest_error(s)).all()


# --- faults ----------------------------------------------------------------------------------------------------------


def test_what_is_right_is_accepted() -> None:
    right = check_made(*packed_product())
    assert right.holds and "1 constants bit for bit what makes them; 1 packed kernels bit-exact" in right.detail


@planted("made_constant_faults")
def test_faults_are_caught(fault: PlantedFault) -> None:
    is_caught(fault)


def test_an_operand_of_another_shape_is_refused() -> None:
    source, result, made, packed = packed_product()
    other = laid(TensorType((7, 37), FLOAT32), Layout((1, 0), ((1, 16),)))
    wrong = check_made(source, result, made, {n: replace(p, definition=other) for n, p in packed.items()})
    assert not wrong.holds and "its operand is laid out as (" in wrong.detail


def test_a_constant_that_stays_keeps_its_contents() -> None:
    source = module(
        lambda x, w: graph.call("matmul", graph.call("add", x, w), graph.call("permute_dims", w)), (7, 7), weight(7, 7)
    )
    result, made = make_constants(source, evaluate)
    assert check_made(source, result, made).holds
    wrong = replace(result, constants={**result.constants, "w": other_contents(result.constants["w"])})
    assert "constant w has other contents" in check_made(source, wrong, made).detail


def test_a_rounded_weight_is_not_the_weight() -> None:
    """Quantising where nobody asked for it: each constant is what makes it, and the program is another."""
    source = product()
    rounded = rewrite(source.main, lambda n: rounded_weight(n, None) if isinstance(n, GlobalVar) else n)
    result, made = make_constants(source.with_(main=rounded), evaluate)
    assert not check_made(source, result, made).holds


def test_a_definition_is_in_operators() -> None:
    source, result, made, _ = packed_product()
    (how,) = made.values()
    assert LAYS in how.definition.attrs
    assert [n.op.name for n in post_order(how.definition) if isinstance(n, Call)] == [
        "nn.pad",
        "reshape",
        "permute_dims",
    ]  # type: ignore[union-attr]
    assert not any(isinstance(n, Constant) for n in post_order(result.main)) and list(
        program_order(result.kernel(next(iter(result.kernels))).body)
    )
    assert source.constants["w"].shape == (7, 37)


def test_a_layout_that_there_is_not_is_refused() -> None:
    with pytest.raises(Invalid, match=r"a layout is transposed or tiles, not 'rows' \[made\.C4\]"):
        packing(Module({}), evaluate, "rows")
