"""Kernels that are shown to be their operators for all sizes, and planted ones that are not (specs/verify.md, "For all
sizes")."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import pytest

from assay.interp.tensor import Unfinished
from assay.lower.legalize.kernels.common import Kernel, kernel, nest
from assay.semantics.dtypes import FLOAT16, FLOAT32, INT64
from assay.semantics.indexed import MEANINGS
from assay.semantics.indexed.fold import summed
from assay.semantics.indexed.meaning import Meaning
from assay.semantics.ops import OPERATORS
from assay.semantics.scalar import Expr, apply, cast, const, evaluate_dim, select
from assay.semantics.tensor import Allocate, Assert, Buffer, PrimFunc, Stmt, program_order, seq, store, when
from assay.verify.all_sizes import prove_for_all_sizes
from assay.verify.all_sizes.for_operator import notation_text
from assay.verify.all_sizes.small import prove_small
from assay.verify.all_sizes.symbols import SymbolicUse, symbolic_use
from assay.verify.equivalence import BIT_EXACT, REAL, REASSOCIATED
from tests.verify.all_sizes.kernel_mutants import mutated, outcome
from tests.verify.all_sizes.planted_kernels import (
    ADD,
    BITS,
    CONV,
    COPY,
    GATHER,
    GROUPS,
    LEAKY,
    MAX,
    NORM,
    OPEN,
    PAD,
    POOL,
    RELU,
    ROWS,
    SLICE,
    TAKE,
    TOTAL,
    WHOLE,
    copied,
    filled,
    from_before,
    gathered,
    layer_norm,
    one,
    pooled,
    row_sums,
    running,
    slicing,
    taken,
    twice,
    use_at,
    whole_sums,
    windows,
)

SHOWN: dict[str, tuple[SymbolicUse, object, str]] = {
    "relu": (use_at("nn.relu", (2, 3)), BIT_EXACT, "out[i, j] = max(x[i, j], 0)"),
    "add": (use_at("add", (4, 1, 3), (2, 1)), BIT_EXACT, "out[i, j, a] = a[i, 0, a] + b[j, 0]"),
    "astype": (use_at("astype", (3,), dtype="int8"), BIT_EXACT, "out[i] = int8(x[i])"),
    "permute_dims": (use_at("permute_dims", (2, 3, 5), axes=(1, 2, 0)), BIT_EXACT, "out[i, j, a] = x[a, i, j]"),
    "concat": (
        use_at("concat", (4, 3), (2, 3)), BIT_EXACT, "out[i, j] = xs0[i, j] if (i < N) else xs1[i - N, j]"
    ),
    "matmul": (use_at("matmul", (2, 3), (3, 5)), REASSOCIATED, "out[i, j] = sum(k < M: a[i, k] * b[k, j])"),
    "max": (use_at("max", (2, 3), axis=(1,)), BIT_EXACT, "out[i] = max(k < N: x[i, k])"),
    "conv1d in groups": (
        use_at("nn.conv1d", (2, 10, 7), (6, 5, 3), groups=2), REASSOCIATED,
        "out[i, j, a] = sum(c < Q, k < M: x[i, ((j // P) * Q) + c, a + k] * w[j, c, k])",
    ),
    "max_pool1d": (
        use_at("nn.max_pool1d", (2, 3, 11), pool_size=(3,), strides=(2,), padding=(0, 1)), BIT_EXACT,
        "out[i, j, a] = max(k < 3: x[i, j, (a * 2) + k] if ((((a * 2) + k) >= 0) and (((a * 2) + k) < N)) else -inf)",
    ),
    "softmax": (
        use_at("nn.softmax", (2, 5)), REAL,
        "out[i, j] = exp(x[i, j] - max(k < N: x[i, k])) / sum(k < N: exp(x[i, k] - max(k < N: x[i, k])))",
    ),
}  # fmt: skip


LONG = (
    "conv1d in groups",
    "no dilation",
    "the channels of a group by another divisor",
    "padding of ones by the right kernel",
)
"""What takes many seconds: that no product of sizes wraps."""


def each(table: Mapping[str, Any]) -> list[Any]:
    return [pytest.param(n, marks=pytest.mark.campaign) if n in LONG else n for n in table]


@pytest.mark.parametrize("name", each(SHOWN))
def test_what_is_shown_for_all_sizes(name: str) -> None:
    use, notion, said = SHOWN[name]
    assert notation_text(use) == [said]
    assert prove_for_all_sizes(use.kernel(), use.op, use.attrs).reason == ""
    small = prove_small(use, 16)
    assert small.proof.notion == notion and small.shown >= 3, small


# --- planted kernels ----------------------------------------------------------------------------------------------


PLANTED: dict[str, tuple[SymbolicUse, Kernel]] = {
    "another place at one size alone": (
        COPY, copied(lambda x, i: (select(apply("and", apply("eq", x.shape[0], 7), i > 0), i - 1, i),))
    ),
    "strides exchanged for square planes": (SLICE, kernel("x", slicing)),
    "arms of a select exchanged": (LEAKY, one(lambda x: select(x >= 0, x * 0.01, x))),
    "a comparison that takes NaN for a small number": (RELU, one(lambda x: select(x > 0, x, const(0.0, FLOAT32)))),
    "an accumulator too narrow": (ROWS, row_sums(of=FLOAT16)),
    "the last iteration dropped": (ROWS, row_sums(count=lambda n: apply("max", n - 1, 0))),
    "one iteration more where there are several": (
        ROWS, row_sums(count=lambda n: n + select(n > 3, const(1), const(0)))
    ),
    "additions from the end on": (ROWS, row_sums(place=lambda n, k: n - 1 - k)),
    "a total that is doubled and halved": (WHOLE, whole_sums(lambda t, x: t * 2 // 2 + x)),
    "the larger of a total and one less": (WHOLE, whole_sums(lambda t, x: apply("max", t, t - 1) + x)),
    "a total that is dropped where one more is less": (
        WHOLE, whole_sums(lambda t, x: select(t + 1 > t, t, t * 0) + x)
    ),
    "a sum from 1": (ROWS, row_sums(start=1.0)),
    "a sum from -0": (ROWS, row_sums(start=-0.0)),
    "a maximum from 0": (MAX, row_sums("max", 0.0)),
    "no rule of sizes": (MAX, row_sums("max", float("-inf"))),
    "another axis that is stretched": (
        ADD,
        kernel("a b", lambda n, t, a, b, out: nest("i", out.shape, lambda i, j: store(out, (i, j), a[i, j] + b[i]))),
    ),
    "another fill": (PAD, filled(0.0)),
    "a fill of 0 under a maximum": (POOL, pooled(0.0)),
    "no dilation": (CONV, windows(lambda x, w, o, c, i, k: (c, i + k), before=1)),
    "padding of ones": (CONV, windows(lambda x, w, o, c, i, k: (c, i + k * 2), 1.0, before=1)),
    "the channels of the first group": (GROUPS, windows(lambda x, w, o, c, i, k: (c, i + k))),
    "the channels of a group by another divisor": (
        GROUPS, windows(lambda x, w, o, c, i, k: (o % 2 * w.shape[1] + c, i + k))
    ),
    "an index of 32 bits": (COPY, copied(lambda x, i: (cast(cast(i, "int32"), INT64),))),
    "an unsigned index of 32 bits": (COPY, copied(lambda x, i: (cast(cast(i, "uint32"), INT64),))),
    "an element that is not written": (
        RELU,
        kernel("x", lambda name, attrs, x, out: nest(
            "i j", (x.shape[0], apply("max", x.shape[1] - 1, 1)), lambda *i: store(out, i, apply("max", x[i], 0.0))
        )),
    ),
    "another write afterwards": (RELU, kernel("x", twice)),
    "what the iteration before has stored": (RELU, kernel("x", from_before)),
    "places that are not asserted": (TAKE, taken(None)),
    "places asserted but for the last": (
        TAKE, taken(lambda i, n: apply("and", i >= apply("sub", 0, n), i < n - 1))
    ),
    "places asserted from one side": (TAKE, taken(lambda i, n: i < n)),
    "places asserted but where there are none": (
        TAKE, taken(lambda i, n: apply("or", apply("eq", n, 0), apply("and", i >= apply("sub", 0, n), i < n)))
    ),
    "pairs of places in another order": (GATHER, gathered(lambda x, a, b: (b, a))),
    "places that count from the end of another axis": (
        GATHER, gathered(lambda x, a, b: (a, select(b < 0, b + x.shape[0] - x.shape[1], b)))
    ),
    "a running total from the element before the last": (
        TOTAL, running(lambda k: k + 1, lambda k: apply("max", k - 1, 0), lambda k: k + 1)
    ),
    "a running total that is stored in one place": (
        TOTAL, running(lambda k: apply("min", k + 1, 1), lambda k: apply("min", k, 0), lambda k: k + 1)
    ),
    "a running total that is stored in a circle": (
        TOTAL, running(lambda k: (k + 1) % 2, lambda k: k % 2, lambda k: k + 1)
    ),
    "a running total that begins late": (
        TOTAL, running(lambda k: k + 1, lambda k: k, lambda k: k + 1, among=lambda k: k > 0)
    ),
    "a running total of the element before": (TOTAL, running(lambda k: k + 1, lambda k: k, lambda k: k)),
    "a running total that begins anew": (
        TOTAL, running(lambda k: k + 1, lambda k: k, lambda k: k + 1, lambda k, t: select(apply("eq", k, 5), 0.0, t))
    ),
    "a running total of the total's double": (
        TOTAL, running(lambda k: k + 1, lambda k: k, lambda k: k + 1, lambda k, t: t + t)
    ),
    "a running total in parallel": (
        TOTAL, running(lambda k: k + 1, lambda k: k, lambda k: k + 1, kind="parallel")
    ),
    "a running total of another axis": (
        TOTAL, kernel("x", lambda name, attrs, x, out: seq(
            nest("i", x.shape[:1], lambda i: store(out, (i, 0), x[i, 0])),
            nest("i k", (x.shape[0], x.shape[1] - 1), lambda i, k: store(out, (i, k + 1), x[i, k + 1])),
        ))
    ),
    "bits that are taken for a number": (BITS, one(lambda x: cast(x, FLOAT32))),
    "an open cast that may trap": (OPEN, one(lambda x: cast(x, "int8"))),
    "an open cast of one number too many": (
        OPEN, one(lambda x: cast(select(apply("and", x >= -128.0, x <= 128.0), x, const(0.0, FLOAT32)), "int8"))
    ),
    "the cosine": (use_at("sin", (2, 3)), one(lambda x: apply("cos", x))),
    "a variance by one less": (NORM, layer_norm(lambda n: apply("max", n - 1, 1))),
}  # fmt: skip


def planted_kernel(use: SymbolicUse, made: Kernel) -> PrimFunc:
    return made("kernel", use.op.check_attrs(use.attrs), use.operands, use.result)


@pytest.mark.parametrize("name", [*PLANTED])
def test_a_planted_kernel_is_not_shown(name: str) -> None:
    use, made = PLANTED[name]
    found = prove_for_all_sizes(planted_kernel(use, made), use.op, use.attrs)
    assert not found.holds and found.reason


RIGHT: dict[str, tuple[SymbolicUse, Kernel]] = {
    "a total that is doubled and halved": (WHOLE, whole_sums(lambda t, x: t + x)),
    "another place at one size alone": (COPY, copied(lambda x, i: (i,))),
    "an accumulator too narrow": (ROWS, row_sums()),
    "another fill": (PAD, filled(1.5)),
    "a fill of 0 under a maximum": (POOL, pooled(float("-inf"))),
    "no dilation": (CONV, windows(lambda x, w, o, c, i, k: (c, i + k * 2), before=1)),
    "the channels of a group by another divisor": (
        GROUPS, windows(lambda x, w, o, c, i, k: (o // (w.shape[0] // 2) * w.shape[1] + c, i + k)),
    ),
    "places asserted but for the last": (
        TAKE, taken(lambda i, n: apply("and", i >= apply("sub", 0, n), i < n))
    ),
    "pairs of places in another order": (GATHER, gathered(lambda x, a, b: (a, b))),
    "a running total from the element before the last": (
        TOTAL, running(lambda k: k + 1, lambda k: k, lambda k: k + 1)
    ),
    "a variance by one less": (NORM, layer_norm(lambda n: n)),
}  # fmt: skip


@pytest.mark.parametrize("name", each(RIGHT))
def test_the_same_kernel_without_the_fault_is_shown(name: str) -> None:
    """So it is the fault that is refused. Kernels whose sizes ask for something get the assertions of the real one."""
    use, made = RIGHT[name]
    func, real = planted_kernel(use, made), use.kernel()
    asserts = [s for s in program_order(real.body) if isinstance(s, Assert) and s.kind == "shape"]
    func = replace(func, body=seq(*asserts, func.body) if asserts else func.body, scalars=real.scalars)
    assert prove_for_all_sizes(func, use.op, use.attrs).reason == ""


def test_more_that_is_asked_of_sizes_is_refused() -> None:
    real = RELU.kernel()
    n = RELU.operands[0].shape[0]
    assert isinstance(n, Expr)
    func = replace(real, body=seq(Assert(n <= 1 << 40, "too large", "shape"), real.body))
    assert "asks" in prove_for_all_sizes(func, RELU.op, RELU.attrs).reason


def read_for_nothing(name: str) -> tuple[SymbolicUse, PrimFunc]:
    """A kernel that is right but for a read of what nothing has written, whose value goes nowhere."""
    use = use_at("nn.relu", (2, 3))
    right = use.kernel()
    x, out = right.params
    u, t = Buffer("u", (1,), FLOAT32), Buffer("t", (1,), FLOAT32)

    def twice(i: Expr, j: Expr) -> Stmt:
        real = store(out, (i, j), apply("max", x[i, j], const(0.0, FLOAT32)))
        return seq(store(out, (i, j), u[0]), real, store(u, 0, 1.0))

    bodies = {
        "nowhere": Allocate(u, Allocate(t, seq(store(t, 0, u[0]), right.body))),
        "overwritten": Allocate(u, seq(nest("i j", x.shape, lambda i, j: store(out, (i, j), u[0])), right.body)),
        "overwritten at once": Allocate(u, nest("i j", x.shape, twice, "serial")),
        "a condition": Allocate(u, Allocate(t, seq(when(u[0] > 0, store(t, 0, 1.0)), right.body))),
        "counted": Allocate(t, seq(nest("i", x.shape[:1], lambda i: store(t, 0, t[0] + 1.0), "serial"), right.body)),
    }
    return use, replace(right, body=bodies[name])


@pytest.mark.parametrize("name", ["nowhere", "overwritten", "overwritten at once", "a condition", "counted"])
def test_a_kernel_that_traps_for_nothing_is_not_shown(name: str) -> None:
    """No element of the output is another one, but a run traps."""
    use, func = read_for_nothing(name)
    found = prove_for_all_sizes(func, use.op, use.attrs)
    assert not found.holds and ("nothing has written" in found.reason or "read for nothing" in found.reason)
    assert outcome(func, use.own, 1) == "unwritten read"


# --- planted notations --------------------------------------------------------------------------------------------

WRONG: Mapping[str, tuple[SymbolicUse, Callable[..., Expr]]] = {
    "a running total without the element itself": (
        TOTAL, lambda u, i, j: summed("m", [j], lambda m: u.x[i, m], FLOAT32)
    ),
    "places that nothing asks for": (TAKE, MEANINGS["take"].element),
    "the tangent": (use_at("sin", (2, 3)), lambda u, i, j: apply("tan", u.x[i, j])),

    "matmul by columns": (
        use_at("matmul", (2, 3), (3, 5)),
        lambda u, i, j: summed(
            "k", u.x.shape[1:], lambda k: u.x[i, k] * u.operands[1][k, select(j > 2, j - 1, j)], FLOAT32
        ),
    ),
    "a sum without its last element": (
        ROWS, lambda u, i: summed("k", [u.x.shape[1] - 1], lambda k: u.x[i, k], FLOAT32)
    ),
    "relu by a comparison": (RELU, lambda u, i, j: select(u.x[i, j] > 0, u.x[i, j], const(0.0, FLOAT32))),
}  # fmt: skip


@pytest.mark.parametrize("name", WRONG)
def test_a_notation_that_is_not_the_definition_is_not_shown(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    use, element = WRONG[name]
    monkeypatch.setitem(MEANINGS, use.op.name, Meaning(element))
    assert not prove_small(use, 16).proof.holds


@pytest.mark.parametrize(
    ("needs", "said"),
    [(lambda u: (), "value traps"), (lambda u: [u.x.shape[0] >= 2, u.x.shape[1] >= 1], "asks more of sizes")],
)
def test_what_a_notation_asks_of_sizes_is_compared(needs: Any, said: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(MEANINGS, "max", replace(MEANINGS["max"], needs=needs))
    found = prove_small(MAX, 16).proof
    assert not found.holds and (said in found.reason or "reduction of nothing" in found.reason)


WIDE = use_at("nn.avg_pool2d", (1, 2, 9, 8), pool_size=(7, 7))


def test_a_window_larger_than_the_small_sizes_has_sizes_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    """The notation of an average over 7 by 7 is compared at 7 and 8; one that is wrong for it alone is found."""
    found = prove_small(WIDE, 16)
    assert found.proof.notion is REASSOCIATED and found.shown > 1
    right = MEANINGS["nn.avg_pool2d"].element

    def fewer(use: Any, *i: Expr) -> Expr:
        return right(use, *i) * const(49 / 48 if use.attrs["pool_size"] == (7, 7) else 1, FLOAT32)

    monkeypatch.setitem(MEANINGS, "nn.avg_pool2d", replace(MEANINGS["nn.avg_pool2d"], element=fewer))
    assert not prove_small(WIDE, 16).proof.holds
    assert prove_small(use_at("nn.avg_pool2d", (1, 2, 5, 4), pool_size=(2, 2)), 16).proof.holds


def test_an_operator_that_is_large_at_its_smallest_is_compared_at_some_sizes(monkeypatch: pytest.MonkeyPatch) -> None:
    """A convolution of 1,500 groups has as many channels at each size."""
    wide = use_at("nn.conv1d", (1, 1500, 7), (1500, 1, 3), groups=1500, padding=(1, 1))
    found = prove_small(wide, 16)
    assert found.proof.notion is REASSOCIATED and found.shown >= 4
    right = MEANINGS["nn.conv1d"].element

    def first(use: Any, *i: Expr) -> Expr:
        return right(use, i[0], apply("min", i[1], const(1498)), i[2])

    monkeypatch.setitem(MEANINGS, "nn.conv1d", replace(MEANINGS["nn.conv1d"], element=first))
    assert not prove_small(wide, 16).proof.holds


# --- random changes -----------------------------------------------------------------------------------------------


def changed_kernels(seed: int, count: int, names: list[str]) -> int:
    """How many of some changed kernels are shown; each of these must do as the kernel does."""
    rng, shown = random.Random(seed), 0
    for _ in range(count):
        op = OPERATORS[rng.choice(names)]
        use = symbolic_use(op, rng.choice(op.examples))
        right = use.kernel()
        other = mutated(right, rng)
        if other is None or not prove_for_all_sizes(other, op, use.attrs).holds:
            continue
        shown += 1
        for k in range(20):
            sizes = {v: rng.randrange(6) for v in use.own} if k else use.own
            if any(evaluate_dim(d, sizes) < 0 for b in right.params for d in b.shape):
                continue
            try:
                assert outcome(right, sizes, k) == outcome(other, sizes, k), f"{op.name} at {sizes}:\n{other}"
            except Unfinished:
                continue
    return shown


def test_a_changed_kernel_that_is_shown_does_the_same() -> None:
    changed_kernels(5, 25, ["add", "nn.relu", "sum", "max", "concat", "matmul", "nn.pad", "nn.layer_norm", "take"])


@pytest.mark.campaign
def test_many_changed_kernels() -> None:
    assert changed_kernels(int.from_bytes(random.randbytes(4)), 2_000, list(MEANINGS)) > 0
