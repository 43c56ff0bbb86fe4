"""Constants made by compilation: transposed, packed, quantised. Each is what makes it; its users do what they did."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from assay.interp import vector
from assay.interp.graph import evaluate, run
from assay.lower.anf import to_anf
from assay.lower.constants.made import (
    LAYS,
    Made,
    Packed,
    for_tiles,
    laid,
    largest_error,
    make_constants,
    pack,
    quantise_weights,
    transposed,
)
from assay.lower.legalize import legalize
from assay.lower.loops.layout import Layout
from assay.lower.loops.tiles import tiled
from assay.semantics import graph
from assay.semantics.bits import same_bits
from assay.semantics.builder import tensor
from assay.semantics.dtypes import FLOAT32
from assay.semantics.errors import Invalid
from assay.semantics.graph import Call, Constant, Expr, GlobalVar, Var
from assay.semantics.module import ConstantInfo, Module
from assay.semantics.rules import check
from assay.semantics.scalar import Load
from assay.semantics.tensor import Buffer, For, PrimFunc, Stmt, Store, loops, program_order, store
from assay.semantics.types import TensorType
from assay.semantics.walk import post_order, rewrite
from assay.verify.constants.made import check_made, laid_places, unpacked
from assay.verify.simplify import check_simplified

pytestmark = pytest.mark.row("C6")
RNG = np.random.default_rng(6)


def weight(*shape: int) -> np.ndarray[Any, Any]:
    return RNG.standard_normal(shape).astype("float32")


def module(
    body: Callable[[Var, Expr], Expr], x: tuple[int, ...], w: np.ndarray[Any, Any], **infos: ConstantInfo
) -> Module:
    v = graph.var("x", tensor(*x))
    named = GlobalVar(TensorType(w.shape, FLOAT32), "w")
    return Module({"main": graph.function([v], body(v, named))}, {"w": w}, infos=infos)


def product(transposes: bool = False) -> Module:
    def body(x: Var, w: Expr) -> Expr:
        return graph.call("matmul", x, graph.call("permute_dims", w) if transposes else w)

    return module(body, (5, 7), weight(37, 7) if transposes else weight(7, 37))


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


@pytest.mark.parametrize("axis", [None, 0, 1])
def test_quantised_weights(axis: int | None) -> None:
    w = weight(7, 37)
    w[2] = 0
    source = module(lambda x, c: graph.call("matmul", x, c), (5, 7), w)
    rounded = quantise_weights(source, {"w": axis})
    result, made = make_constants(rounded, evaluate)
    check(result)
    assert check_made(rounded, result, made).holds
    same_runs(rounded, result)
    kinds = sorted(str(a.dtype) for a in result.constants.values())
    assert kinds == ["float32", "int8"] and sum(a.nbytes for a in result.constants.values()) < w.nbytes / 2
    q, s = (next(a for a in result.constants.values() if str(a.dtype) == of) for of in ("int8", "float32"))
    assert s.size == (1 if axis is None else w.shape[axis])
    error = np.abs(w.astype("float64") - q.astype("float64") * s)
    assert (error <= np.vectorize(largest_error)(s.astype("float64"))).all()
    assert not check_simplified(source, rounded).holds, "it is another program, and says so"


@pytest.mark.parametrize(
    ("w", "names", "label"),
    [
        (weight(2, 2), {"v": None}, "C1"),
        (weight(2, 2), {"w": 2}, "C1"),
        (np.array([[np.inf]], "float32"), {"w": None}, "C2"),
        (np.array([[np.nan]], "float32"), {"w": None}, "C2"),
        (np.ones((2, 2), "float64"), {"w": None}, "C2"),
    ],
)
def test_what_cannot_be_quantised(w: Any, names: Mapping[str, int | None], label: str) -> None:
    with pytest.raises(Invalid, match=rf"made\.{label}"):
        quantise_weights(Module({}, {"w": w}), names)


def test_small_and_subnormal_weights() -> None:
    w = np.array([[1e-45, -1e-42], [1e-38, 0.0]], "float32")
    source = module(lambda x, c: graph.call("matmul", x, c), (2, 2), w)
    result, made = make_constants(quantise_weights(source, {"w": 0}), evaluate)
    (s,) = [a for a in result.constants.values() if str(a.dtype) == "float32"]
    values = next(a for a in result.constants.values() if str(a.dtype) == "int8").astype("float64") * s
    assert made and (np.abs(values - w) <= np.vectorize(largest_error)(s.astype("float64"))).all()


# --- faults ----------------------------------------------------------------------------------------------------------


def packed_product() -> tuple[Module, Module, dict[str, Made], dict[str, Packed]]:
    source = legalize(product())
    laid_out, packed = pack(source, for_tiles)
    result, made = make_constants(laid_out, evaluate)
    return source, result, made, packed


def other_contents(a: Any) -> Any:
    changed = a.copy()
    changed.reshape(-1)[3] = np.nextafter(changed.reshape(-1)[3], np.float32(9))
    return changed


def with_kernel(m: Module, change: Callable[[Stmt], Stmt]) -> Module:
    (name,) = m.kernels
    kernel = m.kernel(name)
    return m.with_(**{name: replace(kernel, body=rewrite(kernel.body, change))})


def swapped_blocks(s: Stmt) -> Stmt:
    """The place inside a block and the block itself change roles."""

    def load(n: Any) -> Any:
        if isinstance(n, Load) and len(n.indices) == 3:
            j, k, i = n.indices
            return Load(n.dtype, n.buffer, (j, k, (i + 1) % 32))
        return n

    return replace(s, value=rewrite(s.value, load)) if isinstance(s, Store) else s


FAULTS: dict[str, tuple[Callable[[Module, dict[str, Made]], tuple[Module, dict[str, Made]]], str]] = {
    "a bit of the contents": (
        lambda m, d: (replace(m, constants={n: other_contents(a) for n, a in m.constants.items()}), d), "is not what makes it",
    ),
    "made of another constant": (
        lambda m, d: (m, {n: replace(h, operands=tuple(map(other_contents, h.operands))) for n, h in d.items()}),
        "is made of what is not the constant w",
    ),
    "made of a constant that is not there": (lambda m, d: (m, {n: replace(h, names=("v",)) for n, h in d.items()}), "not the constant v"),
    "nobody says where it comes from": (lambda m, d: (m, {}), "comes from nowhere"),
    "it is not there": (lambda m, d: (m, {**d, "more": next(iter(d.values()))}), "more is said to be made, and is not there"),
    "made by another function": (
        lambda m, d: (m, {n: replace(h, definition=laid(TensorType((7, 37), FLOAT32), Layout((1, 0), ((1, 16),)))) for n, h in d.items()}),
        "is not what makes it",
    ),
    "not laid out for its user": (
        lambda m, d: (m, {n: replace(h, definition=replace(h.definition)) for n, h in d.items()}), "that is not laid out as it wants",
    ),
    "read in another order": (lambda m, d: (with_kernel(m, swapped_blocks), d), "on the laid out operand"),
    "the kernel stops early": (
        lambda m, d: (with_kernel(m, lambda s: replace(s, extent=s.extent - 1) if isinstance(s, For) and s.var.name == "k" else s), d),
        "on the laid out operand",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", FAULTS)
def test_faults_are_caught(name: str) -> None:
    source, result, made, packed = packed_product()
    right = check_made(source, result, made, packed)
    assert right.holds and "1 constants bit for bit what makes them; 1 packed kernels bit-exact" in right.detail
    damage, said = FAULTS[name]
    wrong = check_made(source, *damage(result, made), packed)
    assert not wrong.holds and said in wrong.detail, wrong.detail


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
    result, made = make_constants(quantise_weights(source, {"w": None}), evaluate)
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
