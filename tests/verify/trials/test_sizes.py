"""Which sizes checks try where sizes are unknown."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pytest

from assay.interp import vector
from assay.lower.anf import to_anf
from assay.lower.fuse import fuse
from assay.lower.legalize import legalize
from assay.semantics.builder import tensor
from assay.semantics.graph import call, function, var
from assay.semantics.memory import Bounds
from assay.semantics.module import Module
from assay.semantics.scalar import Var as Symbol, apply, cast, const
from assay.semantics.tensor import Buffer, PrimFunc, Store, loops, program_order, seq, store
from assay.verify.fuse import check_fuse
from assay.verify.trials.sizes import declared_bounds, kernel_at, sizes_to_try, told_by_reason, told_point, told_sizes

pytestmark = pytest.mark.row("R10")

n, m = Symbol("n"), Symbol("m")


@pytest.mark.parametrize(
    ("bounds", "told"),
    [
        ({}, "n = 0, 1, 2, 7"),
        ({n: (1, 64)}, "n = 1, 2, 7, 64"),
        ({n: (16, None)}, "n = 16, 23"),
        ({n: (0, 1)}, "n = 0, 1"),
        ({n: (4, 4)}, "n = 4"),
    ],
)
def test_the_sizes_of_one_symbol(bounds: Bounds, told: str) -> None:
    found = sizes_to_try([n], bounds)
    assert told_sizes(found.points) == told
    assert not found.excluded


def test_two_symbols_are_0_and_1_by_themselves_and_never_alike_otherwise() -> None:
    found = sizes_to_try([n, m])
    assert [told_point(p) for p in found.points] == [
        "n = 2, m = 7",
        "n = 7, m = 2",
        "n = 0, m = 7",
        "n = 1, m = 7",
        "n = 2, m = 0",
        "n = 2, m = 1",
    ]
    assert sizes_to_try([n, m], most=2).points == found.points[:2]


def test_no_symbols_are_one_point() -> None:
    assert sizes_to_try([]).points == ({},)


def test_where_small_sizes_are_excluded_larger_ones_are_found_and_what_is_excluded_is_named() -> None:
    def window(sizes: Mapping[Symbol, int]) -> str | None:
        return "a window of 30" if sizes[n] < 30 else None

    found = sizes_to_try([n, m], excluded=window)
    assert told_sizes(found.points) == "n = 32, 37; m = 0, 1, 16, 67"
    assert [(told_point(p), why) for p, why in found.excluded] == [
        ("n = 0", "a window of 30"),
        ("n = 1", "a window of 30"),
    ]


def test_sizes_that_must_be_multiples_or_equal_are_found() -> None:
    halves = sizes_to_try([n, m], excluded=lambda s: None if all(s[v] % 32 == 0 for v in s) and s[n] else "halves")
    assert "n = 32, m = 64" in map(told_point, halves.points)
    square = sizes_to_try([n, m], excluded=lambda s: None if s[n] == s[m] else "not square")
    assert "n = 2, m = 2" in map(told_point, square.points)
    assert "n = 0, m = 0" in map(told_point, square.points)
    k = Symbol("k")
    sums = sizes_to_try([n, m, k], excluded=lambda s: None if s[n] == s[m] + s[k] else "not the sum")
    rows = [p for p in sums.points if min(p.values()) > 1]
    assert len(rows) > 1 and len({p[n] for p in rows}) > 1, "no symbol has the same number in all of them"
    nothing = sizes_to_try([n], excluded=lambda s: "never")
    assert nothing.points == ()
    assert all(why == "never" for _, why in nothing.excluded)


def test_the_ends_of_bounds_are_tried_together_or_one_by_one() -> None:
    bounds = {n: (2, 100), m: (2, 100)}
    assert "n = 100, m = 100" in map(told_point, sizes_to_try([n, m], bounds).points)
    found = sizes_to_try([n, m], bounds, lambda s: "too large" if s[n] * s[m] > 1000 else None)
    assert {"n = 100, m = 7", "n = 2, m = 100"} <= set(map(told_point, found.points))


def test_bounds_are_those_that_a_function_declares() -> None:
    x = var("x", tensor(n))
    f = function([x], x, tir_var_upper_bound={"n": 64}, tir_var_lower_bound={"n": 2})
    assert declared_bounds(f) == {n: (2, 64)}


def test_a_tensor_function_at_a_size_does_the_same() -> None:
    k = Symbol("k")
    x, out = Buffer("x", (n,), tensor().dtype), Buffer("out", (n + k,), tensor().dtype)
    body = seq(
        loops("i", (n + k,), lambda i: store(out, i, const(7, x.dtype))),
        loops("i", (n,), lambda i: store(out, i + k, x[i])),
    )
    kernel = PrimFunc("shift", (x, out), 1, body, scalars=(k,))
    fixed = kernel_at(kernel, {n: 3, k: 2})
    assert [b.static_shape for b in fixed.params] == [(3,), (5,)]
    assert not fixed.scalars
    given = [np.arange(3, dtype=np.float32)]
    assert np.array_equal(vector.run(fixed, given)[0], vector.run(kernel, given, scalars=[2])[0])
    assert kernel_at(kernel, {}) is kernel


@pytest.mark.parametrize("wrong_at", [0, 1, 2, 7])
def test_a_fused_kernel_that_is_wrong_at_one_size_is_seen(wrong_at: int) -> None:
    x, y = var("x", tensor(n, 3)), var("y", tensor(3))
    body = call("add", call("sum", call("exp", x), axis=(0,)), y)
    before = legalize(to_anf(Module({"main": function([x, y], body)})))
    after = fuse(before)
    found = check_fuse(before, after)
    assert found.holds
    assert "where sizes are unknown at 4 (n = 0, 1, 2, 7)" in found.detail
    (fused,) = [k for name, k in after.kernels.items() if name not in before.definitions]
    last = [s for s in program_order(fused.body) if isinstance(s, Store)][-1]
    (out,) = fused.outputs
    assert last.buffer is out
    symbol = fused.inputs[0].shape[0]
    assert isinstance(symbol, Symbol)
    spoilt = loops("i", (3,), lambda i: store(out, i, out[i] + cast(apply("eq", symbol, wrong_at), "float32")))
    faulty = after.with_(**{fused.name: PrimFunc(fused.name, fused.params, 1, seq(fused.body, spoilt), fused.attrs)})
    assert not check_fuse(before, faulty).holds


def test_sizes_that_are_left_out_for_one_reason_are_told_together() -> None:
    left_out: list[tuple[Mapping[Symbol, int], str]] = [({n: 0}, "none"), ({n: 9, m: 1}, "large"), ({m: 0}, "none")]
    assert [*told_by_reason(left_out)] == [("n = 0 or m = 0", "none"), ("n = 9, m = 1", "large")]
