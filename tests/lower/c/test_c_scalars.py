"""Every scalar operation on every dtype: the C gives the bits of the scalar table, and the same traps."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from itertools import product
from typing import Any

import numpy as np
import pytest

from assay.lower.c import emit
from assay.lower.c.narrow import NARROW, SMALL
from assay.lower.c.tables import STORAGE
from assay.semantics.dtypes import BOOL, DTYPES, DType, dtype
from assay.semantics.errors import Trap
from assay.semantics.scalar import OPERATIONS, TRANSCENDENTAL, Var, apply, cast, const, evaluate, select
from assay.semantics.scalar.arithmetic import FLOAT_OF
from assay.semantics.tensor import PrimFunc
from assay.semantics.types import TensorType
from assay.verify.c.compiled import Compiled, compile_c
from assay.verify.c.tools import STRICT
from tests.lower.c.sanitized import run_sanitized
from tests.lower.memory.planned import Array, choosing, differing, interpreted, lanes, planned, same_bits

SUPPORTED = [DTYPES[name] for name in STORAGE if name not in {**NARROW, **SMALL}]
"""Those of which an element is a C number, or 16 bits; test_c_narrow.py has the others."""


@cache
def special(of: DType) -> Array:
    """Values where things go wrong: extremes, neighbours of powers of two, zeros of both signs, subnormals, NaN."""
    if of is BOOL:
        return np.array([False, True])
    if of.is_integer:
        low, high = int(of.min), int(of.max)
        near = [0, 1, 2, 3, 7, of.bits - 1, of.bits, high // 3, high - 1, high]
        near += [-1, -2, -3, -7, low + 1, low] if low < 0 else []
        return np.array(sorted({v for v in near if low <= v <= high}), of.numpy)
    tiny, small, big = of.smallest_subnormal, of.smallest_normal, float(of.max)
    up = 1 + 2 * of.unit_roundoff
    numbers = [0.0, tiny, 3 * tiny, small, small - tiny, 0.5, 1.0, up, 1.5, 2.5, 3.0, 100.5, big / 2, big, np.inf]
    return np.array([*numbers, *(-x for x in numbers), np.nan]).astype(of.numpy)


def combinations(of: tuple[DType, ...]) -> tuple[Array, ...]:
    """Every combination of special values, one lane each; three operands take a stride through them."""
    grids = np.meshgrid(*(special(d) for d in of), indexing="ij")
    flat = [g.reshape(-1) for g in grids]
    step = max(1, flat[0].size // 2500)
    return tuple(np.ascontiguousarray(f[::step]) for f in flat)


def typed(op: str, of: DType) -> tuple[DType, ...] | None:
    """Operand dtypes of `op` on `of`; None where it is not defined or has no meaning."""
    row = {**OPERATIONS, **TRANSCENDENTAL}[op]
    if of.kind not in row.kinds or (op in FLOAT_OF and (of.bits != FLOAT_OF[op].bits or FLOAT_OF[op] not in SUPPORTED)):
        return None
    return (BOOL, of, of) if op == "select" else (of,) * row.arity


def cases() -> Iterator[tuple[str, DType, tuple[DType, ...]]]:
    for op in (*OPERATIONS, *TRANSCENDENTAL):
        for of in SUPPORTED:
            operands = typed(op, of)
            if operands is not None:
                yield op, of, operands


def without_traps(op: str, of: DType, operands: tuple[Array, ...]) -> tuple[Array, ...]:
    """The lanes on which the operation does not trap."""
    if "div" in op and of.is_integer or "mod" in op:
        return tuple(a[operands[1] != 0] for a in operands)
    if op in ("shl", "shr"):
        inside = (operands[1] >= 0) & (operands[1] < 8 * of.itemsize)
        return tuple(a[inside] for a in operands)
    return operands


def program(kernels: list[tuple[PrimFunc, tuple[Array, ...]]]) -> tuple[Any, dict[str, Array]]:
    """Kernels side by side, and their inputs."""
    steps, types, values = [], {}, {}
    for kernel, operands in kernels:
        names = [f"{kernel.name}_{b.name}" for b in kernel.inputs]
        for name, b, a in zip(names, kernel.inputs, operands, strict=True):
            types[name], values[name] = TensorType(b.static_shape, b.dtype), a
        steps.append((kernel, names, [f"{kernel.name}_out"]))
    return planned(steps, types, [s[2][0] for s in steps]), values


@pytest.mark.parametrize("level", ["-O0", "-O3"])
def test_every_operation_on_every_dtype(level: str) -> None:
    kernels, wanted = [], {}
    for op, of, dtypes in cases():
        operands = without_traps(op, of, combinations(dtypes))
        variables = [Var(f"v{i}", d) for i, d in enumerate(dtypes)]
        expr = apply(op, *variables)
        kernel = lanes(f"{op}_{of}", dtypes, expr.dtype, len(operands[0]), lambda *x, op=op: apply(op, *x))
        kernels.append((kernel, operands))
        wanted[f"{kernel.name}_out"] = np.asarray(evaluate(expr, dict(zip(variables, operands, strict=True))))
    module, values = program(kernels)
    got = compile_c(emit(module, "ops"), reproducible=True, flags=(*STRICT, level)).run(values)
    assert len(wanted) > 250
    wrong = {n: differing(got[n], w) for n, w in wanted.items() if not same_bits(got[n], w)}
    assert not wrong


def test_no_operation_has_undefined_behaviour() -> None:
    """Integers under the sanitizers; and the routines, which compute with the bits of floats."""
    kernels = []
    for op, of, dtypes in cases():
        if of.is_float and (op not in TRANSCENDENTAL or of.bits == 16):
            continue
        operands = without_traps(op, of, combinations(dtypes))
        few = tuple(a[:: max(1, len(a) // 60)] for a in operands)
        result = apply(op, *(Var("v", d) for d in dtypes)).dtype
        kernels.append((lanes(f"{op}_{of}", dtypes, result, len(few[0]), lambda *x, op=op: apply(op, *x)), few))
    module, values = program(kernels)
    source = emit(module, "ops")
    plain = compile_c(source, reproducible=True, flags=(*STRICT, "-O0")).run(values)
    checked = run_sanitized(source, values, reproducible=True)
    assert not {n: differing(checked[n], w) for n, w in plain.items() if not same_bits(checked[n], w)}


def test_every_operation_against_the_tensor_interpreter() -> None:
    """The same on a few lanes, but with the definition of the tensor IR as the reference."""
    kernels, wanted = [], {}
    for op, of, dtypes in cases():
        operands = without_traps(op, of, combinations(dtypes))
        few = tuple(a[:: max(1, len(a) // 7)] for a in operands)
        kernel = lanes(f"{op}_{of}", dtypes, apply(op, *(Var("v", d) for d in dtypes)).dtype, len(few[0]),
                       lambda *x, op=op: apply(op, *x))  # fmt: skip
        kernels.append((kernel, few))
        result = interpreted(kernel, few)
        assert not isinstance(result, Trap)
        wanted[f"{kernel.name}_out"] = result[0]
    module, values = program(kernels)
    got = compile_c(emit(module, "ops"), reproducible=True, flags=(*STRICT, "-O0")).run(values)
    assert not {n: differing(got[n], w) for n, w in wanted.items() if not same_bits(got[n], w)}


def test_every_cast() -> None:
    """Casts round once, to nearest even; float to integer truncates what is in range."""
    kernels, wanted = [], {}
    for source in SUPPORTED:
        for to in SUPPORTED:
            x = special(source)
            if source.is_float:  # what lies in the ranges, and ties of narrower floats
                ties = np.array([1 + 2.0**-8 + 2.0**-40, 1 + 2.0**-11, 65519.9, 65520.0, 2.0**-25, 3 * 2.0**-26, 127.9])
                with np.errstate(over="ignore"):
                    x = np.concatenate([x, ties.astype(source.numpy), -ties.astype(source.numpy)])
            elif source.bits == 64:
                x = np.concatenate([x, np.array([2**40 + 2**32 + 1, 2**62 + 2**54 + 1, 2**53 + 1], source.numpy)])
            if source.is_float and to.is_integer:
                whole = np.trunc(x.astype(np.float64))
                with np.errstate(invalid="ignore"):
                    x = x[(whole >= float(to.min)) & (whole < float(int(to.max) + 1))]
            kernel = lanes(f"{source}_to_{to}", [source], to, len(x), lambda v, to=to: cast(v, to))
            kernels.append((kernel, (x,)))
            v = Var("v", source)
            wanted[f"{kernel.name}_out"] = np.asarray(evaluate(cast(v, to), {v: x}))
    module, values = program(kernels)
    got = compile_c(emit(module, "casts"), reproducible=True, flags=(*STRICT, "-O2")).run(values)
    assert not {n: differing(got[n], w) for n, w in wanted.items() if not same_bits(got[n], w)}


def constants(of: DType) -> list[Any]:
    if of is BOOL:
        return [False, True]
    if of.is_integer:
        return sorted({int(of.min), int(of.max), 0, 1, max(int(of.min), -1)})
    return [0.0, -0.0, 1.5, 0.1, of.smallest_subnormal, -float(of.max), np.inf, -np.inf, np.nan]


@pytest.mark.parametrize(("ops", "level"), [(("min", "max"), "-O2"), (("add", "lt", "eq"), "-O0")])
def test_constants_on_one_side(ops: tuple[str, ...], level: str) -> None:
    """A constant operand is printed exactly, and the short forms of min and max keep NaN and the zeros."""
    kernels, wanted = [], {}
    for op, of in ((op, of) for op in ops for of in SUPPORTED if typed(op, of)):
        for k, c in enumerate(constants(of)):
            for side in (0, 1):
                v, literal = Var("v", of), const(c, of)

                def value(x: Any, op: str = op, c: Any = literal, side: int = side) -> Any:
                    return apply(op, *((c, x) if side == 0 else (x, c)))

                name, x = f"{op}_{of}_{k}_{side}", special(of)
                kernels.append((lanes(name, [of], value(v).dtype, len(x), value), (x,)))
                want = np.broadcast_to(np.asarray(evaluate(value(v), {v: x})), x.shape)
                wanted[f"{name}_out"] = np.ascontiguousarray(want)
    module, values = program(kernels)
    got = compile_c(emit(module, "consts"), reproducible=True, flags=(*STRICT, level)).run(values)
    assert not {n: differing(got[n], w) for n, w in wanted.items() if not same_bits(got[n], w)}


@pytest.mark.parametrize("level", ["-O0", "-O1", "-O3"])
def test_zero_minus_a_number_that_is_never_minus_zero(level: str) -> None:
    """gcc 12 takes 0.0 - x for -x there, which has the other sign for x = 0.0."""
    kernels, wanted = [], {}
    data = {d: np.array([0, 1, 2]).astype(DTYPES[d].numpy) for d in ("int32", "bool", "float32", "uint64", "float16")}
    forms = {
        "cast": lambda x, of: cast(x, of),
        "abs": lambda x, of: apply("abs", cast(x, of)),
        "choice": lambda x, of: select(apply("eq", cast(x, BOOL), False), const(0.0, of), const(1.0, of)),
        "product": lambda x, of: cast(x, of) * cast(x, of),
    }
    for (d, x), (form, make), of in product(data.items(), forms.items(), ("float32", "float64", "float16")):
        for zero, hidden in ((0.0, False), (-0.0, False), (0.0, True)):

            def value(v: Any, of: str = of, make: Any = make, zero: float = zero, hidden: bool = hidden) -> Any:
                first = const(zero, of) * const(1.0, of) if hidden else const(zero, of)
                return first - make(v, of)

            kernel = lanes(f"{form}_{d}_{of}_{len(kernels)}", [DTYPES[d]], DTYPES[of], 3, value)
            kernels.append((kernel, (x,)))
            v = Var("v", DTYPES[d])
            wanted[f"{kernel.name}_out"] = np.asarray(evaluate(value(v), {v: x}))
    module, values = program(kernels)
    got = compile_c(emit(module, "zero"), reproducible=True, flags=(*STRICT, level)).run(values)
    assert not {n: differing(got[n], w) for n, w in wanted.items() if not same_bits(got[n], w)}


QUOTIENTS = ("floordiv", "floormod", "truncdiv", "truncmod")
TRAPPING = [
    (op, d, [(1, 0)], "division by zero")
    for op, d in product(QUOTIENTS, ("int8", "uint8", "int32", "uint32", "int64", "uint64"))
]
TRAPPING += [
    (op, d, [(1, 8 * dtype(d).itemsize), (1, -1)], "shift")
    for op, d in product(("shl", "shr"), ("int8", "int32", "int64"))
]
TRAPPING += [(op, d, [(1, 8 * dtype(d).itemsize)], "shift") for op, d in product(("shl", "shr"), ("uint8", "uint64"))]
CASTING = [
    ("float32", "int8", [128.0, -129.0, np.nan, np.inf, -np.inf]),
    ("float32", "int32", [2.0**31, -(2.0**31) - 256, np.nan]),
    ("float64", "int32", [2.0**31, -(2.0**31) - 1, np.nan]),
    ("float64", "int64", [2.0**63, -(2.0**63) - 2048, np.inf]),
    ("float64", "uint64", [2.0**64, -1.0, np.nan]),
    ("float16", "uint8", [256.0, -1.0, np.inf]),
    ("bfloat16", "int16", [32768.0, -33000.0]),
]
IN_RANGE = [
    ("float64", "int32", [2.0**31 - 0.5, -(2.0**31) - 0.5]),
    ("float64", "uint8", [255.9, -0.9]),
    ("float32", "int64", [-(2.0**63), 2.0**63 - 2.0**39]),
    ("float64", "uint64", [2.0**64 - 2048, -0.99]),
]


@pytest.fixture(scope="module")
def trapping() -> Compiled:
    """One kernel for each case; the input `which` chooses the one that runs."""
    kernels = [
        lanes(f"{op}_{d}", [dtype(d)] * 2, dtype(d), 1, lambda a, b, op=op: apply(op, a, b)) for op, d, _, _ in TRAPPING
    ]
    kernels += [
        lanes(f"{s}_{t}", [dtype(s)], dtype(t), 1, lambda a, t=t: cast(a, t)) for s, t, _ in (*CASTING, *IN_RANGE)
    ]
    return compile_c(emit(choosing(kernels), "traps"), reproducible=True, flags=(*STRICT, "-O2"))


def _choose(compiled: Compiled, at: int, operands: tuple[Any, ...]) -> Any:
    inputs = {a.slot: np.ones(a.type.static_shape, a.type.dtype.numpy) for a in compiled.source.inputs}
    inputs["which"] = np.asarray(at, np.int64)
    for k, value in enumerate(operands):
        inputs[f"k{at}_x{k}"] = np.asarray([value]).astype(inputs[f"k{at}_x{k}"].dtype)
    return compiled.run(inputs, fill=0)[f"k{at}_out"]


def test_traps_are_statuses(trapping: Compiled) -> None:
    for at, (op, d, pairs, kind) in enumerate(TRAPPING):
        for pair in pairs:
            with pytest.raises(Trap) as caught:
                _choose(trapping, at, pair)
            assert caught.value.kind == kind, (op, d, pair)
        if kind == "shift":
            _choose(trapping, at, (1, 8 * dtype(d).itemsize - 1))


def test_casts_trap_just_outside_the_range(trapping: Compiled) -> None:
    for at, (source, to, values) in enumerate(CASTING, start=len(TRAPPING)):
        for value in values:
            with pytest.raises(Trap) as caught:
                _choose(trapping, at, (value,))
            assert caught.value.kind == "cast", (source, to, value)
    for at, (source, to, values) in enumerate(IN_RANGE, start=len(TRAPPING) + len(CASTING)):
        for value in values:
            x = np.asarray([value]).astype(dtype(source).numpy)
            v = Var("v", dtype(source))
            want = np.asarray(evaluate(cast(v, to), {v: x}))
            assert same_bits(_choose(trapping, at, (value,)), want), (source, to, value)


def test_default_mode_uses_libm_and_stays_close() -> None:
    """Without the macro, exp and its like are the platform's, within a few units in the last place."""
    kernels = []
    for op in TRANSCENDENTAL:
        for of in (d for d in SUPPORTED if d.is_float):
            dtypes = typed(op, of)
            assert dtypes is not None
            operands = combinations(dtypes)
            kernels.append(
                (lanes(f"{op}_{of}", dtypes, of, len(operands[0]), lambda *x, op=op: apply(op, *x)), operands)
            )
    module, values = program(kernels)
    source = emit(module, "libm")
    assert "expf(" in source.source and "#ifdef LIBM_REPRODUCIBLE" in source.source
    exact = compile_c(source, reproducible=True).run(values)
    quick = compile_c(source, reproducible=False).run(values)
    for name, e in exact.items():
        q = quick[name].astype(np.float64)
        w = e.astype(np.float64)
        unit = dtype(e.dtype).unit_roundoff
        finite = np.isfinite(w) & np.isfinite(q)
        assert np.array_equal(np.isnan(q), np.isnan(w)), name
        error = np.abs(q[finite] - w[finite])
        assert np.all(error <= 8 * unit * np.abs(w[finite]) + 2 * dtype(e.dtype).smallest_subnormal), name
