"""Every operator with every size symbolic that its type rule lets be: the kernel gives, at each of some numbers, the
bits of the operator's kernel at these numbers."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import pytest

from assay.interp import tensor as definition, vector
from assay.lower.legalize import legalize
from assay.lower.legalize.kernels import KERNELS, build
from assay.lower.legalize.kernels.common import divided
from assay.semantics.dtypes import dtype
from assay.semantics.errors import Invalid, Trap
from assay.semantics.graph import CallTIR, call, function, var
from assay.semantics.module import Module
from assay.semantics.operator import Example, Operator
from assay.semantics.ops import OPERATORS
from assay.semantics.scalar import Dim, Expr, Var as Symbol, evaluate_dim
from assay.semantics.tensor import Buffer, PrimFunc, store
from assay.semantics.types import TensorType
from assay.semantics.walk import post_order
from tests.lower.legalize.kernel_check import Array, data, same_bits

pytestmark = pytest.mark.row("R10")

SIZES = (5, 2, 7, 1, 3, 0)
Attrs = Mapping[str, Any]


class Use:
    """An example of an operator with symbols for sizes: one for all sizes of one number, where the type rule has it so,
    else for as many as it lets be symbolic."""

    def __init__(self, op: Operator, example: Example) -> None:
        self.op = op
        self.types = tuple(TensorType(shape, dtype(of)) for shape, of in example.operands)
        self.attrs: Attrs = example.attrs
        self.symbols: dict[Symbol, int] = {}
        for n in sorted({n for t in self.types for n in t.static_shape} | set(_numbers(example.attrs))):
            self.introduce(n)

    def introduce(self, n: int) -> None:
        places = [(i, a) for i, t in enumerate(self.types) for a, d in enumerate(t.shape) if d == n]
        symbol = Symbol(f"s{n}")
        for attrs in (_replaced(self.attrs, n, symbol), self.attrs):
            if attrs is not None and self.accepts(places, attrs, symbol):
                return
        for place in places:
            self.accepts([place], self.attrs, Symbol(f"s{n}_{place[0]}_{place[1]}"))

    def accepts(self, places: Sequence[tuple[int, int]], attrs: Attrs, symbol: Symbol) -> bool:
        types = tuple(
            TensorType(tuple(symbol if (i, a) in places else d for a, d in enumerate(t.shape)), t.dtype)
            for i, t in enumerate(self.types)
        )
        if not places and attrs is self.attrs:
            return True
        try:
            self.op.type_rule(self.op.check_attrs(attrs), types)
        except Invalid:
            return False
        self.symbols[symbol] = int(symbol.name[1:].split("_")[0])
        self.types, self.attrs = types, attrs
        return True

    def points(self) -> Iterator[dict[Symbol, int]]:
        yield dict(self.symbols)
        for turn in range(len(SIZES)):
            yield {s: SIZES[(turn + k) % len(SIZES)] for k, s in enumerate(self.symbols)}
        for s in self.symbols:
            yield {**self.symbols, s: 0}
            yield {**self.symbols, s: 1}

    def kernel(self) -> tuple[PrimFunc, Sequence[Dim]]:
        told = [var(f"told{k}", TensorType((s,), dtype("int8"))) for k, s in enumerate(self.symbols)]
        operands = [var(f"p{i}", t) for i, t in enumerate(self.types)]
        made = call(self.op.name, *operands, **self.attrs)
        target = legalize(Module({"main": function([*told, *operands], made)}))
        root: Any = target.main
        (use,) = [n for n in post_order(root) if isinstance(n, CallTIR)]
        return target.kernel(use.func), use.scalars

    def fixed(self, sizes: Mapping[Symbol, int]) -> tuple[PrimFunc, tuple[TensorType, ...]] | None:
        """The operator's kernel at numbers, and the types of its operands; None where the type rule refuses them."""
        types = tuple(TensorType(tuple(evaluate_dim(d, sizes) for d in t.shape), t.dtype) for t in self.types)
        attrs = {k: _at(v, sizes) for k, v in self.attrs.items()}
        try:
            attrs = self.op.check_attrs(attrs)
            return build(self.op.name, attrs, types, self.op.type_rule(attrs, types), "fixed"), types
        except Invalid:
            return None


def _numbers(attrs: Attrs) -> Iterator[int]:
    for v in attrs.values():
        yield from (n for n in (v if isinstance(v, tuple) else (v,)) if type(n) is int and n >= 0)


def _replaced(attrs: Attrs, n: int, by: Symbol) -> Attrs | None:
    """The attributes with a symbol for a number; None where it does not occur."""
    new: Attrs = {
        k: tuple(by if type(d) is int and d == n else d for d in v)
        if isinstance(v, tuple)
        else (by if type(v) is int and v == n else v)
        for k, v in attrs.items()
    }
    return None if str(new) == str(attrs) else new


def _at(value: Any, sizes: Mapping[Symbol, int]) -> Any:
    if isinstance(value, tuple):
        return tuple(_at(v, sizes) for v in value)
    return evaluate_dim(value, sizes) if isinstance(value, Expr) else value


def operands(types: Sequence[TensorType], example: Example, seed: int) -> list[Array]:
    found = []
    for k, t in enumerate(types):
        if k in example.ranges:
            most = max(1, min(types[0].static_shape, default=1)) if k else 2
            low = -most if example.ranges[k][0] < 0 else 0
            found.append(np.random.default_rng(seed).integers(low, most, t.static_shape).astype(t.dtype.numpy))
        else:
            found.append(data(t.static_shape, str(t.dtype), seed + k))
    return found


def outcome(kernel: PrimFunc, given: Sequence[Array], scalars: Sequence[int] = (), *, slow: bool = False) -> Any:
    run = definition.run if slow else vector.run
    try:
        with np.errstate(all="ignore"):
            return run(kernel, given, scalars=scalars)
    except Trap as trap:
        return trap.kind


def uses(name: str) -> Iterator[tuple[Example, Use]]:
    op = OPERATORS[name]
    for example in op.examples[: 2 if op.family == "elementwise" else None]:
        yield example, Use(op, example)


NUMBERS_ONLY: dict[str, str] = {}
"""Operators of which no size can be symbolic, and why."""


@pytest.mark.parametrize("name", KERNELS)
def test_a_kernel_with_symbols_is_the_kernel_at_each_size(name: str) -> None:
    symbolic = compared = 0
    for example, use in uses(name):
        symbolic += bool(use.symbols)
        kernel, scalars = use.kernel()
        for seed, sizes in enumerate(use.points()):
            at = use.fixed(sizes)
            if at is None:
                continue
            fixed, types = at
            given = operands(types, example, seed)
            numbers = [evaluate_dim(d, sizes) for d in scalars]
            small = seed % 4 == 1 and sum(x.size for x in given) < 60
            wanted, got = outcome(fixed, given), outcome(kernel, given, numbers, slow=small)
            if isinstance(wanted, str) or isinstance(got, str):
                assert isinstance(wanted, str) and isinstance(got, str) and wanted == got, (sizes, wanted, got)
                continue
            for w, g in zip(wanted, got, strict=True):
                assert same_bits(w, g), (sizes, example)
            compared += len(sizes) > 0
    assert (symbolic == 0) == (name in NUMBERS_ONLY)
    assert not symbolic or compared >= 3 * symbolic


def test_the_examples_have_a_symbol_wherever_a_size_may_be_one() -> None:
    """The test above is only as good as what it makes symbolic: some of what it must have found."""
    found = {name: [[str(t) for t in use.types] for _, use in uses(name)] for name in ("nn.conv2d", "matmul", "dft")}
    assert found["nn.conv2d"][0] == ["Tensor((s2, s5, s6, s7), float32)", "Tensor((s6, s5, s3, s2), float32)"]
    assert found["matmul"][1] == ["Tensor((s7, s2, s3), float32)", "Tensor((s3, s5), float32)"]
    assert found["dft"][0] == ["Tensor((s3, 5, 2), float32)"]
    attrs = [use.attrs for _, use in uses("strided_slice")]
    assert str(attrs[0]["end"]) == "(s4, s7)"


@pytest.mark.parametrize(
    ("of", "counts"),
    [
        ("float16", (3, 65504, 65505, 70000)),
        ("float8_e4m3fn", (0, 5, 448, 449, 1000)),
        ("float8_e5m2", (17, 60000)),
        ("float4_e2m1fn", (6, 7, 100)),
        ("bfloat16", (300,)),
        ("float64", (7,)),
    ],
)
def test_a_count_that_the_dtype_does_not_hold_is_divided_by_in_the_same_steps(of: str, counts: tuple[int, ...]) -> None:
    n = Symbol("n")
    x = Buffer("x", (), dtype(of))
    out = Buffer("out", (), dtype(of))
    told = Buffer("told", (n,), dtype("int8"))
    kernel = PrimFunc("f", (told, x, out), 1, store(out, (), divided(x[()], n)))
    for count in counts:
        fixed = PrimFunc("f", (x, out), 1, store(out, (), divided(x[()], count)))
        for number in (1.0, 6.0, -3.0, 0.0, float(dtype(of).max)):
            given = np.asarray(number).astype(dtype(of).numpy)
            (wanted,), (got,) = outcome(fixed, [given]), outcome(kernel, [np.zeros(count, np.int8), given])
            assert same_bits(wanted.astype(np.float64), got.astype(np.float64)), (count, number)


def test_windows_of_more_elements_than_the_dtype_holds_are_divided_alike() -> None:
    """A window of 25 in a type that ends at 6: where windows are cut and where they are not."""
    op, of = OPERATORS["nn.avg_pool2d"], "float4_e2m1fn"
    attrs = {"pool_size": (5, 5), "strides": (3, 3), "padding": (0, 0, 2, 1)}
    use = Use(op, Example((((2, 1, 11, 7), of),), attrs))
    assert len(use.symbols) == 4
    kernel, _ = use.kernel()
    for size in ((2, 1, 5, 5), (1, 1, 6, 8), (1, 2, 11, 7), (1, 1, 3, 4)):
        sizes = dict(zip((d for d in use.types[0].shape if isinstance(d, Symbol)), size, strict=True))
        at = use.fixed(sizes)
        assert at is not None
        x = data(size, "float32").astype(dtype(of).numpy)
        (wanted,), (got,) = outcome(at[0], [x]), outcome(kernel, [x])
        assert same_bits(wanted.astype(np.float64), got.astype(np.float64))
