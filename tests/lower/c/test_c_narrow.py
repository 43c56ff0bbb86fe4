"""Floats of 8 bits and less and integers of less than 8 in C, beside the scalar table (specs/lower.md, "c")."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

from assay.lower.c import CSource, emit
from assay.lower.c.narrow import NARROW, SMALL, key_of
from assay.lower.interfaces import Interface
from assay.semantics.dtypes import DTYPES, DType
from assay.semantics.errors import Trap, Unsupported
from assay.semantics.scalar import Var, apply, cast, evaluate
from assay.verify.c.compiled import compile_c
from assay.verify.c.tools import STRICT
from assay.verify.trials.helpers import HelperTrials
from tests.lower.c.test_c_scalars import combinations, program, typed
from tests.lower.memory.planned import Array, alone, differing, interpreted, lanes, same_bits
from tests.verify.app.test_cli import assay

EVERY = {**NARROW, **SMALL}
BESIDE = [DTYPES[n] for n in ("bool", "int8", "int64", "uint64", "float16", "bfloat16", "float32", "float64")]


def numbers(of: DType) -> Array:
    """Every number of a narrow dtype; of another what lies at and beside the ties of narrow floats, and extremes."""
    if of.name in EVERY:
        return np.arange(1 << of.bits, dtype=np.uint8).view(of.numpy)
    if not of.is_float:
        whole = [0, 1, 7, 8, 15, 16, 127, 128, 240, 448, 464, 2**53 + 1, 2**62 + 2**54 + 1, 3 * 2**61 + 1, -1, -8, -9]
        return np.array([n for n in whole if int(of.min) <= n <= int(of.max)]).astype(of.numpy)
    found = [np.array([np.nan, -np.nan, np.inf, -np.inf, 0.0, -0.0, 1e30, 1e-30])]
    for narrow in NARROW.values():
        every = numbers(narrow).astype(np.float64)
        every = np.unique(every[np.isfinite(every)])
        tie = np.concatenate([(every[1:] + every[:-1]) / 2, every[-1:] * 1.25])
        found += [tie, *(np.nextafter(tie.astype(np.float32), np.float32(end)) for end in (-np.inf, np.inf))]
    with np.errstate(all="ignore"):
        return np.concatenate(found).astype(of.numpy)


def test_every_cast_from_and_to_narrow_elements() -> None:
    kernels, wanted = [], {}
    for source, to in [(a, b) for n in EVERY.values() for o in (*BESIDE, n) for a, b in ((n, o), (o, n))]:
        x = numbers(source)
        if source.is_float and to.is_integer:
            whole = np.trunc(x.astype(np.float64))
            with np.errstate(invalid="ignore"):
                x = x[(whole >= float(to.min)) & (whole < float(int(to.max) + 1))]
        name = f"{source}_to_{to}"
        if len(x) and f"{name}_out" not in wanted:
            kernels.append((lanes(name, [source], to, len(x), lambda v, to=to: cast(v, to)), (x,)))
            v = Var("v", source)
            wanted[f"{name}_out"] = np.asarray(evaluate(cast(v, to), {v: x}))
    assert len(wanted) > 200
    module, values = program(kernels)
    got = compile_c(emit(module, "casts"), reproducible=True, flags=(*STRICT, "-O2")).run(values)
    assert not {n: differing(got[n], w) for n, w in wanted.items() if not same_bits(got[n], w)}


EXACT = "add sub mul div neg abs min max lt eq select sqrt exp bits_of bitand bitxor shl shr floordiv truncmod".split()


def test_operations_on_narrow_elements() -> None:
    """Each rounds or wraps its result; all pairs of the special values of each dtype."""
    kernels, wanted = [], {}
    for op, of in [(op, of) for op in EXACT for of in EVERY.values()]:
        dtypes = typed(op, of)
        if dtypes is None:
            continue
        operands = combinations(dtypes)
        if op in ("shl", "shr"):
            operands = tuple(a[(operands[1] >= 0) & (operands[1] < of.bits)] for a in operands)
        elif op in ("floordiv", "truncmod"):
            operands = tuple(a[operands[1] != 0] for a in operands)
        variables = [Var(f"v{i}", d) for i, d in enumerate(dtypes)]
        expr = apply(op, *variables)
        kernel = lanes(f"{op}_{of}", dtypes, expr.dtype, len(operands[0]), lambda *x, op=op: apply(op, *x))
        kernels.append((kernel, operands))
        wanted[f"{kernel.name}_out"] = np.asarray(evaluate(expr, dict(zip(variables, operands, strict=True))))
    assert len(wanted) > 150
    module, values = program(kernels)
    got = compile_c(emit(module, "ops"), reproducible=True, flags=(*STRICT, "-O1")).run(values)
    assert not {n: differing(got[n], w) for n, w in wanted.items() if not same_bits(got[n], w)}


def test_a_shift_by_the_width_traps() -> None:
    for of in SMALL.values():
        kernel = lanes("f", [of, of], of, 1, lambda a, b: apply("shl", a, b))
        one, width = np.array([1]).astype(of.numpy), np.array([of.bits]).astype(of.numpy)
        if int(width[0]) != of.bits:
            continue  # of two bits there is no such number
        found = interpreted(kernel, (one, width))
        assert isinstance(found, Trap) and found.kind == "shift"
        module, values = program([(kernel, (one, width))])
        with pytest.raises(Trap, match="shift"):
            compile_c(emit(module, "f"), reproducible=True).run(values)


def test_the_sign_of_a_float_of_four_bits_is_in_its_bits() -> None:
    x = Var("x", DTYPES["float4_e2m1fn"])
    found = np.asarray(evaluate(apply("bits_of", x), {x: numbers(x.dtype)}))
    assert found.dtype == DTYPES["int4"].numpy and found.astype(int).tolist() == [*range(8), *range(-8, 0)]


def trials(source: CSource) -> str | None:
    """Which helper of a C text is wrong."""
    known = HelperTrials(source)
    assert not known.unknown
    return known.run(compile_c(source, reproducible=True, beside=known.text()).loaded)


def narrow_source(of: DType) -> CSource:
    """C that reads, writes and rounds elements of a dtype."""
    return emit(alone(lanes("twice", [of], of, 4, lambda v: apply("add", v, v))), "m")


@pytest.mark.parametrize("of", ["float8_e4m3fn", "float4_e2m1fn", "int4"])
def test_a_fault_in_a_helper_is_found(of: str) -> None:
    source = narrow_source(DTYPES[of])
    key = key_of(DTYPES[of])
    assert trials(source) is None
    faults = {
        "float8_e4m3fn": [
            ("0x43e80001u", "0x43e80000u"),  # the last border: 464 is rounded to 448, and what is above to NaN
            ("borders[middle] <= magnitude", "borders[middle] < magnitude"),
            ("return negative ? 255 : 127", "return negative ? 255 : 126"),
        ],
        "float4_e2m1fn": [("bits & 15u", "bits & 7u"), ("negative = (bits >> 31) != 0u", "negative = 0")],
        "int4": [("^ 8u) - 8", "^ 8u) - 7"), ("value & 15u)", "value & 31u)")],
    }[of]  # fmt: skip
    for old, new in faults:
        assert old in source.source, old
        said = trials(replace(source, source=source.source.replace(old, new, 1)))
        assert said is not None and re.search(rf"helper m_(load|store|round|wrap)_{key}", said), (old, said)


def test_packed_functions_take_what_dlpack_has() -> None:
    for of in EVERY.values():
        kernel = alone(lanes("id", [of], of, 2, lambda v: v))
        if of.bits == 8:
            emit(kernel, "m", interface=Interface.PACKED)
        else:
            with pytest.raises(Unsupported, match=f"several {of} in a byte") as caught:
                emit(kernel, "m", interface=Interface.PACKED)
            assert caught.value.label == "c.C1"


@pytest.mark.slow
@pytest.mark.parametrize(("of", "zero"), [("INT4", 1), ("FLOAT8E4M3FN", 0)])
def test_a_quantised_model_is_lowered_to_c(
    of: str, zero: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Weights of 4 bits, as large language models have them, and activations of 8, through every line of `check`."""
    kind = getattr(TensorProto, of)
    weights = np.random.default_rng(0).integers(-8, 8, 32).tolist()
    made = [
        helper.make_tensor("w", kind, [8, 4], weights),
        helper.make_tensor("s", TensorProto.FLOAT, [], [0.25]),
        helper.make_tensor("z", kind, [], [zero]),
    ]
    nodes = [
        helper.make_node("DequantizeLinear", ["w", "s", "z"], ["d"]),
        helper.make_node("MatMul", ["x", "d"], ["h"]),
        helper.make_node("QuantizeLinear", ["h", "s", "z"], ["q"]),
        helper.make_node("DequantizeLinear", ["q", "s", "z"], ["y"]),
    ]
    x, y = (helper.make_tensor_value_info(n, TensorProto.FLOAT, s) for n, s in (("x", [3, 8]), ("y", [3, 4])))
    graph = helper.make_graph(nodes, "g", [x], [y], made)
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 23)], ir_version=11), tmp_path / "m.onnx")
    assert assay(monkeypatch, "check", tmp_path / "m.onnx", "--quiet") == 0
    assert "all 11 lines hold" in capsys.readouterr().out.replace("\n", " ")
