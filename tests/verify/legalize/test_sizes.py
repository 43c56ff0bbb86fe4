"""The check of legalize where sizes are unknown: at which sizes, what is left out, and faults at one size only."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from assay.lower.anf import to_anf
from assay.lower.legalize import legalize
from assay.semantics.builder import tensor
from assay.semantics.graph import Call, call, function, var
from assay.semantics.module import Module
from assay.semantics.ops import OPERATORS
from assay.semantics.scalar import Expr, Var as Symbol, apply, cast
from assay.semantics.tensor import PrimFunc, Store, loops, program_order, seq, store
from assay.semantics.walk import rewrite
from assay.verify.evidence import Evidence
from assay.verify.legalize import check_claim, check_legalize
from assay.verify.legalize.uses import KernelUse

pytestmark = pytest.mark.row("R10")

n, m = Symbol("n"), Symbol("m")
WINDOW = {"pool_size": (3, 3), "strides": (2, 2), "padding": (1, 1, 1, 1)}


def module(op: str, *shapes: tuple[Any, ...], limits: Any = None, **attrs: Any) -> Module:
    operands = [var(f"p{i}", tensor(*s)) for i, s in enumerate(shapes)]
    return to_anf(Module({"main": function(operands, call(op, *operands, **attrs), **(limits or {}))}))


def checked(source: Module, change: Callable[[PrimFunc], PrimFunc] | None = None) -> Evidence:
    target = legalize(source)
    assert change is None or check_legalize(source, target).holds
    (name,) = target.kernels
    return check_legalize(source, target if change is None else target.with_(**{name: change(target.kernel(name))}))


@pytest.mark.parametrize(
    ("source", "said"),
    [
        (module("nn.softmax", (n, 3)), "all at 4 sizes (n = 0, 1, 2, 7)"),
        (module("matmul", (n, m), (m, 3)), "all at 6 sizes (n = 0, 1, 2, 7; m = 0, 1, 2, 7)"),
        (
            module("add", (n, 3), (n, 3), limits={"tir_var_upper_bound": {"n": 16}, "tir_var_lower_bound": {"n": 2}}),
            "all at 3 sizes (n = 2, 7, 16)",
        ),
        (
            module("max", (n, 3), axis=(0,)),
            "all at 3 sizes (n = 1, 2, 7); max not at n = 0: max: axes [0] of Tensor((0, 3), float32) have size 0",
        ),
        (
            module("nn.max_pool2d", (1, 1, n, 5), pool_size=(3, 3)),
            "all at 2 sizes (n = 4, 7); nn_max_pool2d not at n = 0: nn.max_pool2d: axis 2: no window of span 3 fits",
        ),
        (module("topk", (n,), k=4), "all at 2 sizes (n = 4, 7); topk not at n = 0: topk: k is 4, but axis 0"),
        (
            module("exp", (n,), limits={"tir_var_upper_bound": {"n": 2**30}}),
            "all at 4 sizes (n = 0, 1, 2, 7); exp not at n = 1073741824: too large to be tried",
        ),
        (
            module("matmul", (n, m), (m, 3), limits={"tir_var_upper_bound": {"n": 2**30, "m": 2**30}}),
            "matmul not at n = 1073741824, matmul not at m = 1073741824: too large to be tried",
        ),
    ],
)
def test_the_line_says_at_which_sizes_and_what_is_left_out(source: Module, said: str) -> None:
    found = checked(source)
    assert found.holds
    assert said in found.detail


def wrong_at(size: int, symbol: int = 0) -> Callable[[PrimFunc], PrimFunc]:
    """The kernel adds one to every element where a symbol of its first operand has that size."""

    def change(kernel: PrimFunc) -> PrimFunc:
        dim, out = kernel.inputs[0].shape[symbol], kernel.outputs[0]
        assert isinstance(dim, Symbol)
        names = " ".join(f"w{k}" for k in range(len(out.shape)))
        more = cast(apply("eq", dim, size), out.dtype)
        spoilt = loops(names, out.shape, lambda *i: store(out, i, out[i] + more))
        return replace(kernel, body=seq(kernel.body, spoilt))

    return change


@pytest.mark.parametrize("size", [0, 1, 2, 7])
def test_a_kernel_that_is_wrong_at_one_size_is_seen(size: int) -> None:
    found = checked(module("sum", (n, 3), axis=(0,)), wrong_at(size))
    assert not found.holds
    assert f"for n = {size}: " in found.detail


@pytest.mark.parametrize("size", [0, 1])
def test_one_symbol_of_two_is_enough(size: int) -> None:
    found = checked(module("matmul", (n, m), (m, 3)), wrong_at(size, symbol=1))
    assert not found.holds
    assert f"m = {size}: " in found.detail


def test_the_ends_of_what_is_declared_are_tried() -> None:
    limits = {"tir_var_upper_bound": {"n": 30}, "tir_var_lower_bound": {"n": 3}}
    for size in (3, 30):
        found = checked(module("exp", (n,), limits=limits), wrong_at(size))
        assert not found.holds
        if size == 30:
            assert "for n = 30: " in found.detail


def changed_index(change: Callable[[Expr], Expr], which: int) -> Callable[[PrimFunc], PrimFunc]:
    """The kernel stores elsewhere: the spatial index of one of its stores, in program order."""

    def run(kernel: PrimFunc) -> PrimFunc:
        at = [s for s in program_order(kernel.body) if isinstance(s, Store)][which]
        new = replace(at, indices=(*at.indices[:2], change(at.indices[2]), *at.indices[3:]))
        return replace(kernel, body=rewrite(kernel.body, lambda s: new if s is at else s))

    return run


def test_padding_that_is_wrong_where_the_height_is_odd_is_seen() -> None:
    """What is copied into the padded workspace lies one row higher where the height is odd."""

    def higher(kernel: PrimFunc) -> PrimFunc:
        height = kernel.inputs[0].shape[2]
        assert isinstance(height, Symbol)
        return changed_index(lambda i: i - height % 2, 1)(kernel)

    source = module("nn.max_pool2d", (1, 1, n, m), **WINDOW)
    found = checked(source, higher)
    assert not found.holds
    assert "n = 7, m = 2" in found.detail or "n = 1" in found.detail
    for op, shapes in (("nn.conv2d", ((1, 2, n, m), (3, 2, 3, 3))), ("nn.avg_pool2d", ((1, 1, n, m),))):
        attrs = WINDOW if "pool" in op else {"strides": (2, 2), "padding": (1, 1, 1, 1)}
        assert not checked(module(op, *shapes, **attrs), higher).holds


def test_a_kernel_that_takes_other_sizes_than_its_operator_is_seen() -> None:

    def longer(kernel: PrimFunc) -> PrimFunc:
        (out,) = kernel.outputs
        return replace(kernel, params=(*kernel.inputs, replace(out, shape=(n + 1,))))

    found = checked(module("exp", (n,)), longer)
    assert not found.holds
    assert "for n = 2: it takes and gives Tensor((2), float32), Tensor((3), float32); its operator" in found.detail


def test_sizes_that_no_run_has_are_no_evidence() -> None:
    """A window that fits at no size that is declared."""
    limits = {"tir_var_upper_bound": {"n": 2}}
    found = checked(module("nn.max_pool1d", (1, 1, n), pool_size=(5,), limits=limits))
    assert not found.holds
    assert "no sizes are found at which" in found.detail


def test_a_claim_of_a_kernel_that_comes_with_the_source_is_checked_at_sizes() -> None:
    target = legalize(module("strided_slice", (n, 3), axes=(0,), begin=(0,), end=(m,), strides=(1,)))
    kernel = target.kernel("strided_slice")
    assert kernel.scalars
    assert check_claim(kernel, 0).holds
    exp = legalize(module("exp", (n,))).kernel("exp")
    assert check_claim(exp, 0).holds
    found = check_claim(wrong_at(7)(exp), 0)
    assert not found.holds
    assert "for n = 7: " in found.detail


def test_what_is_too_large_at_numbers_is_no_choice() -> None:
    """Sizes that are numbers are those of the program, however large."""
    big = module("exp", (1 << 23,))
    kernel = legalize(big).kernel("exp")
    use = call("exp", var("x", tensor(1 << 23)))
    assert isinstance(use, Call)
    assert KernelUse(use).sizes_to_try(kernel).points == ({},)
    symbolic = call("exp", var("x", tensor(n)))
    assert isinstance(symbolic, Call)
    bounds = {n: (1 << 23, None)}
    assert not KernelUse(symbolic, bounds=bounds).sizes_to_try(legalize(module("exp", (n,))).kernel("exp")).points


@pytest.mark.parametrize(("op", "bad"), [("left_shift", -1), ("right_shift", 8), ("floor_divide", 0)])
def test_no_element_is_divided_or_shifted_where_there_is_none(op: str, bad: int) -> None:
    """A divisor of 0 that is stretched to no element traps neither in the operator nor in the kernel."""
    operands = [var("a", tensor(n, 3, of="int8")), var("b", tensor(3, of="int8"))]
    source = to_anf(Module({"main": function(operands, call(op, *operands))}))
    found = checked(source)
    assert found.holds, found.detail
    given = np.zeros((0, 3), np.int8), np.full((3,), bad, np.int8)
    assert OPERATORS[op].value(OPERATORS[op].check_attrs({}), *given).shape == (0, 3)
