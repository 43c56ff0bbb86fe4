"""Faults that ordinary inputs do not show, each planted in a stage or in the C and found by the main job
(specs/verify.md, "Trials")."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import ModelProto, TensorProto, helper

from assay.interp import vector
from assay.lower.c import CSource, emit
from assay.lower.c.helpers import HELPERS as ALL, Library
from assay.lower.legalize.kernels import KERNELS as KERNELS_OF
from assay.lower.legalize.kernels.elementwise import elementwise
from assay.semantics.dtypes import FLOAT32
from assay.semantics.graph import call_tir, function, var
from assay.semantics.module import GROUP, Module
from assay.semantics.scalar import Expr, Load, apply, const, select
from assay.semantics.tensor import Buffer, PrimFunc, Store, loops, program_order, store
from assay.semantics.types import TensorType
from assay.semantics.walk import post_order, rewrite
from assay.verify.app import check
from assay.verify.app.check import CheckRun, Line, Lowering
from assay.verify.app.stages import lowering_passes
from assay.verify.trials import helpers
from tests.models import model
from tests.verify.app.test_cli import assay

F, D, H, I8, I32, U8 = np.float32, np.float64, np.float16, np.int8, np.int32, np.uint8
B = np.bool_


def lines(given: ModelProto, **more: Any) -> list[Line]:
    return list(CheckRun(Lowering(given, "m", **more)).lines())


def caught(given: ModelProto, stage: str, *words: str, **more: Any) -> str:
    """What the line says that fails; it is that of the stage. Without the fault all lines hold."""
    for line in CheckRun(Lowering(given, "m")).lines():
        assert line.evidence.holds
        if line.stage == stage:
            break
    found = lines(given, **more)[-1]
    assert found.stage == stage and found.evidence.holds is False, found
    for word in words:
        assert word in found.evidence.detail
    return found.evidence.detail


def one(op: str, *of: Any, shape: tuple[int, ...] = (2, 3), out: Any = None, **attrs: Any) -> ModelProto:
    names = [f"x{i}" for i in range(len(of))]
    node = helper.make_node(op, names, ["y"], **attrs)
    return model([node], {n: (t, shape) for n, t in zip(names, of, strict=True)}, {"y": (out or of[0], None)}, opset=18)


Change = Callable[[Expr], Expr]


def stored(name: str, change: Change) -> Callable[[Module], Module]:
    """What a tensor function stores at last becomes something else."""

    def run(module: Module) -> Module:
        kernel = module.kernel(name)
        last = [s for s in _stores(kernel) if s.buffer in kernel.outputs][-1]
        body = rewrite(kernel.body, lambda s: replace(s, value=change(s.value)) if s is last else s)
        return module.with_(**{name: replace(kernel, body=body)})

    return run


def _stores(kernel: PrimFunc) -> list[Store]:
    return [s for s in program_order(kernel.body) if isinstance(s, Store)]


def after(stage: str, change: Callable[[Module], Module]) -> dict[str, Callable[[Module], Module]]:
    """A stage that does its work, and then something wrong."""
    plain = lowering_passes(vector.run)[stage]
    return {stage: lambda m: change(plain(m))}


def operand(of: Expr, k: int = 0) -> Expr:
    """An element of an operand that a value is made of."""
    return [n for n in post_order(of) if isinstance(n, Load)][k]


def number(value: Any, like: Expr) -> Expr:
    return const(value, like.dtype)


KERNELS: dict[str, tuple[ModelProto, str, Change, str]] = {
    "relu gives 0 for NaN": (one("Relu", F), "nn_relu", lambda v: select(operand(v) > 0, operand(v), number(0, v)),
        "nan"),
    "max takes the other operand for NaN": (
        one("Max", F, F), "maximum", lambda v: select(operand(v) > operand(v, 1), operand(v), operand(v, 1)), "nan",
    ),
    "the sign of zero is lost": (one("Neg", F), "negative", lambda v: 0 - operand(v), "element"),
    "an infinity is cut off": (one("Neg", D), "negative", lambda v: apply("max", v, number(-1e308, v)), "special"),
    "a subnormal number is flushed": (
        one("Abs", F), "abs", lambda v: select(v < 2.0**-126, number(0, v), v), "element",
    ),
    "int8 -128 * -128": (
        one("Mul", I8, I8), "multiply",
        lambda v: select(apply("and", operand(v) < -127, operand(v, 1) < -127), number(1, v), v), "",
    ),
    "one number of float16": (one("Relu", H), "nn_relu", lambda v: select(v < 2.0**-23, number(0, v), v), ""),
    "one pair of uint8": (
        one("Add", U8, U8), "add",
        lambda v: select(
            apply("and", apply("eq", v, number(22, v)), apply("eq", operand(v) - operand(v, 1), number(124, v))),
            number(0, v), v),
        "on all values of operands 0 and 1",
    ),
    "the other side of a select": (one("Relu", F), "nn_relu", lambda v: select(v > 1e6, number(1e6, v), v), ""),
    "a tie is rounded away from zero": (one("Round", F), "round", lambda v: apply("floor", operand(v) + 0.5), ""),
    "the least integer": (one("Abs", I32), "abs", lambda v: apply("max", v, number(0, v)), "element"),
    "a shift of the top bit": (
        one("BitShift", U8, U8, direction="RIGHT"), "right_shift",
        lambda v: select(apply("and", operand(v) > 254, operand(v, 1) > 6), number(0, v), v),
        "",
    ),
}  # fmt: skip


@pytest.mark.parametrize("fault", KERNELS)
def test_a_tensor_function_that_is_wrong_off_the_ordinary(fault: str) -> None:
    given, name, change, words = KERNELS[fault]
    caught(given, "legalize", name, words, changed=after("legalize", stored(name, change)))


def test_an_arm_that_no_input_takes_is_wrong_in_a_pass() -> None:
    caught(choosing(), "legalize", "negative", changed=after("legalize", stored("negative", lambda v: operand(v))))


def chain(shape: tuple[int, ...] = (2, 3), of: Any = F) -> ModelProto:
    nodes = [
        helper.make_node("Neg", ["x"], ["a"]),
        helper.make_node("Relu", ["a"], ["b"]),
        helper.make_node("Neg", ["b"], ["y"]),
    ]
    return model(nodes, {"x": (of, shape)}, {"y": (of, shape)}, opset=18)


@pytest.mark.parametrize("shape", [(2, 3), (400, 300)])
def test_a_fused_function_that_is_wrong_at_ties(shape: tuple[int, ...]) -> None:
    """Also where it is too long to be compared over terms."""

    def tied(module: Module) -> Module:
        name = next(n for n, k in module.kernels.items() if GROUP in k.attrs)
        return stored(name, lambda v: select(apply("eq", v, number(-0.5, v)), number(0, v), v))(module)

    caught(chain(shape), "fuse", changed=after("fuse", tied))


def test_a_fused_function_of_float16_on_all_its_numbers() -> None:
    def odd(module: Module) -> Module:
        name = next(n for n, k in module.kernels.items() if GROUP in k.attrs)
        return stored(name, lambda v: select(apply("eq", v, number(-1.2021484375, v)), number(0, v), v))(module)

    caught(chain((3, 50), H), "fuse", "must be -1.202", changed=after("fuse", odd))


# --- the C -----------------------------------------------------------------------------------------------------------


def text(old: str, new: str) -> Callable[..., CSource]:
    """An emitter that writes something else."""

    def run(module: Module, name: str, **more: Any) -> CSource:
        made = emit(module, name, **more)
        assert old in made.source, made.source
        return replace(made, source=made.source.replace(old, new))

    return run


HELPERS: dict[str, tuple[ModelProto, str, str, str]] = {
    "the magnitude of the least integer": (one("Abs", I32),
        "return (a < 0) ? (int32_t)((uint32_t)0 - (uint32_t)a) : a;",
        "return (a < -2147483647) ? 2147483647 : (a < 0) ? -a : a;", "m_abs_i32"),
    "NaN in a maximum": (one("Max", F, F), "(a != a) ? a : one", "(a != a) ? b : one", "m_max_f32"),
    "the zeros in a maximum": (one("Max", F, F), "p &= q;", "p |= q;", "m_max_f32"),
    "float16: subnormal numbers read": (one("Abs", H), "(float)magnitude * 0x1p-24f;", "0.0f * (float)magnitude;",
        "m_load_f16"),
    "float16: ties written": (one("Add", H, H), " + ((magnitude >> 13) & 1u)", "", "m_store_f16"),
    "float16: subnormal numbers written": (one("Add", H, H), "m_bits_f32(m_f32(magnitude) + 0.5f) - 0x3f000000u",
        "0u * magnitude", "m_store_f16"),
    "a cast that cuts off": (one("Cast", F, to=TensorProto.INT8, out=I8), "return (int8_t)value;",
        "return (int8_t)((value > 126.0f) ? 126.0f : value);",
        "m_i8_of_f32"),
    "the sign of a shift": (one("BitShift", np.uint32, np.uint32, direction="RIGHT"), "return a >> b;",
        "return (b > 30u) ? 0u : a >> b;", "m_shr_u32"),
    "libm beyond its bound": (one("Exp", F), "return expf(x);", "return (x > 80.0f) ? expf(x) * 1.0001f : expf(x);",
        "with the platform's libm"),
    "a routine on infinity": (one("Tanh", F), "return (float)m_tanh((double)x);",
        "return (x > 1e30f) ? 0.5f : (float)m_tanh((double)x);", ""),
}  # fmt: skip


@pytest.mark.parametrize("fault", HELPERS)
def test_a_helper_of_the_c_that_is_wrong(fault: str) -> None:
    given, old, new, word = HELPERS[fault]
    caught(given, "compare", word, emitter=text(old, new))


DIVISIONS = {
    "floordiv": (
        "return (r != 0 && (r < 0) != (b < 0)) ? q - 1 : q;",
        "return (r != 0 && r < 0 && b > 0) ? q - 1 : q;",
    ),
    "truncdiv": (
        "return (b == -1) ? (int32_t)((uint32_t)0 - (uint32_t)a) : a / b;",
        "return (b == -1) ? (a < -2147483647 ? 0 : -a) : a / b;",
    ),
}


@pytest.mark.parametrize("which", DIVISIONS)
def test_a_division_of_the_c_that_is_wrong(which: str) -> None:
    op, attrs = ("Mod", {"fmod": 0}) if which == "floordiv" else ("Div", {})
    given = one(op, I32, I32, **attrs)
    inputs = {"x0": np.full((2, 3), 7, I32), "x1": np.full((2, 3), 3, I32)}
    for emitter in (emit, text(*DIVISIONS[which])):
        found = list(CheckRun(Lowering(given, "m", emitter=emitter), inputs).lines())[-1]
        assert found.stage == "compare" and found.evidence.holds is (emitter is emit), found.evidence.detail
    assert f"helper m_{which}_i32: of " in found.evidence.detail


def choosing() -> ModelProto:
    """A choice whose second arm ordinary inputs do not take."""
    first = helper.make_graph(
        [helper.make_node("Relu", ["x"], ["a"])],
        "first",
        [],
        [helper.make_tensor_value_info("a", TensorProto.FLOAT, (2, 3))],
    )
    second = helper.make_graph(
        [helper.make_node("Neg", ["x"], ["b"])],
        "second",
        [],
        [helper.make_tensor_value_info("b", TensorProto.FLOAT, (2, 3))],
    )
    nodes = [
        helper.make_node("ReduceSum", ["x"], ["s"], keepdims=0),
        helper.make_node("Less", ["s", "far"], ["c"]),
        helper.make_node("If", ["c"], ["d"], then_branch=first, else_branch=second),
        helper.make_node("Abs", ["d"], ["y"]),
    ]
    return model(nodes, {"x": (F, (2, 3))}, {"y": (F, (2, 3))}, {"far": np.array(1000, F)}, opset=18)


def test_every_arm_of_the_c_runs() -> None:
    said = lines(choosing())[-1].evidence.detail
    assert "every arm taken" in said and "not taken" not in said
    caught(choosing(), "compare", "written by step 4 (negative", emitter=text("= -x[", "= 2.0f * x["))


def test_an_arm_that_cannot_run_is_named() -> None:
    given = choosing()
    del given.graph.node[:2]
    given.graph.initializer.pop()
    given.graph.initializer.append(helper.make_tensor("c", TensorProto.BOOL, (), [True]))
    said = lines(given)[-1].evidence.detail
    if "if" in said or "arm" in said:  # constants may have decided it before
        assert "not taken: the second arm of the choice by c" in said


def test_a_kernel_of_the_c_that_is_wrong_for_what_reaches_it_never() -> None:
    """Behind a product of a Relu with itself no operand is negative: no input of the model shows what is done to
    these."""
    nodes = [
        helper.make_node("Relu", ["x"], ["a"]),
        helper.make_node("MatMul", ["a", "a"], ["b"]),
        helper.make_node("LeakyRelu", ["b"], ["y"]),
    ]
    given = model(nodes, {"x": (F, (3, 3))}, {"y": (F, (3, 3))}, opset=18)
    caught(given, "compare", "handed to each step", emitter=text("0x1.47ae14p-7f", "0x1.47ae16p-7f"))


def test_a_trap_on_special_operands_is_no_fault_but_must_be_the_same() -> None:
    given = one("Cast", F, to=TensorProto.INT8, out=I8)
    assert "traps alike" in lines(given)[-1].evidence.detail or all(line.evidence.holds for line in lines(given))


def test_every_helper_that_there_is_has_a_meaning() -> None:
    library = Library("m", "M")
    for name in ALL:
        library.use(name)
    made = replace(emit(_planned(one("Relu", F)), "m"), source="".join(library.text()))
    known = helpers.HelperTrials(made)
    assert not known.unknown and len(known.all) + len(known.apart) >= len(ALL)


def _planned(given: ModelProto) -> Module:
    check = CheckRun(Lowering(given, "m"))
    list(check.lines())
    return check.modules["pool"]


# --- conditions ------------------------------------------------------------------------------------------------------


def chosen(condition: Callable[[Expr], Expr]) -> Module:
    """A tensor function of one's own that chooses by an element."""
    a, out = Buffer("a", (2, 3), FLOAT32), Buffer("out", (2, 3), FLOAT32)
    body = loops(
        "i j", (2, 3), lambda i, j: store(out, (i, j), select(condition(a[i, j]), const(7.0, FLOAT32), a[i, j]))
    )
    x = var("x", TensorType((2, 3), FLOAT32))
    return Module({"main": function([x], call_tir("f", [x], x.type)), "f": PrimFunc("f", (a, out), 1, body)})


def test_a_select_goes_both_ways_by_the_numbers_next_to_its_constant() -> None:
    far = chosen(lambda a: a > 123456.0)
    said = list(CheckRun(Lowering(far, "m")).lines())[-1].evidence
    assert said.holds and "every condition in them both ways" in said.detail
    found = list(CheckRun(Lowering(far, "m", emitter=text("7.0f", "8.0f"))).lines())[-1]
    assert found.stage == "compare" and found.evidence.holds is False and "is 8.0, must be 7.0" in found.evidence.detail


def test_a_side_that_nothing_takes_is_named() -> None:
    said = list(CheckRun(Lowering(chosen(lambda a: a * a < 0.0), "m")).lines())[-1].evidence
    assert said.holds and "one way only: " in said.detail and "in f" in said.detail and "was never true" in said.detail


def test_a_product_of_the_c_that_is_wrong_for_one_pair() -> None:
    a, b = "a[i0 * 3 + i1]", "b[i0 * 3 + i1]"
    wrong = text(f"(uint32_t){a} * (uint32_t){b}", f"({a} < -127 && {b} < -127) ? 1u : (uint32_t){a} * (uint32_t){b}")
    caught(one("Mul", I8, I8), "compare", "handed to each step", "must be 0", emitter=wrong)


# --- ties ------------------------------------------------------------------------------------------------------------


def by_constant(
    of: Any, k: Any, op: str = "Greater", before: tuple[str, ...] = (), shape: tuple[int, ...] = (2,)
) -> ModelProto:
    """Elements, or what is made of them first, compared with a constant of the model."""
    names = ["x", *(f"t{i}" for i in range(len(before)))]
    nodes = [
        helper.make_node(
            b, [names[i]] * (1 + (b == "Mul")), [names[i + 1]], **({"keepdims": 0} if b.startswith("Reduce") else {})
        )
        for i, b in enumerate(before)
    ]
    return model(
        [*nodes, helper.make_node(op, [names[-1], "k"], ["y"])],
        {"x": (of, shape)},
        {"y": (B, None)},
        {"k": np.array(k, of)},
        opset=18,
    )


TIES: dict[str, tuple[ModelProto, str, str]] = {
    "what a step leaves, and a constant": (by_constant(F, 1e30, before=("ReduceMax",)), "a[0] > b[0]", "a[0] >= b[0]"),
    "an input and a constant": (by_constant(F, 1e30, shape=()), "a[0] > b[0]", "a[0] >= b[0]"),
    "an input and a constant that is broadcast": (
        by_constant(F, [[123.5], [-7e5]], "Less", shape=(2, 3)),
        "] < b[",
        "] <= b[",
    ),
    "whole numbers": (by_constant(I32, [123456, -98765], "Greater"), "] > b[", "] >= b["),
    "two inputs": (one("Greater", F, F, shape=(), out=B), "a[0] > b[0]", "a[0] >= b[0]"),
}


def ordered(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], folder: Path, given: ModelProto, **more: Any
) -> tuple[int, str]:
    """What `assay check` ends with and says of a model, with a planted fault if it is given."""
    onnx.save(given, folder / "m.onnx")
    with monkeypatch.context() as patch:
        patch.setattr(check, "Lowering", partial(Lowering, **more))
        code = assay(patch, "check", folder / "m.onnx", "--json")
    return code, json.loads(capsys.readouterr().out)["lines"][-1]["detail"]


@pytest.mark.parametrize("what", TIES)
def test_a_comparison_of_the_c_that_is_wrong_at_a_tie(
    what: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    given, old, new = TIES[what]
    code, said = ordered(monkeypatch, capsys, tmp_path, given, emitter=text(old, new))
    assert code == 1 and ", handed to each step: C differs from the machine in buffer" in said, said


def test_a_comparison_that_meets_no_tie_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A square is not a third: what stands between in a fused function is nothing that can be handed to it."""
    code, said = ordered(monkeypatch, capsys, tmp_path, by_constant(F, 1 / 3, before=("Mul",)))
    assert code == 0 and "; never with equal sides: ((x0[i0] * x0[i0]) > x1[]) in fused_multiply_greater" in said, said
    code, said = ordered(monkeypatch, capsys, tmp_path, by_constant(F, 0.25, before=("Mul",)))
    assert code == 0 and "ties" in said and "equal sides" not in said, said


# --- the command -----------------------------------------------------------------------------------------------------


def test_the_command_says_what_was_tried_and_what_is_wrong(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    onnx.save(one("Relu", F), tmp_path / "relu.onnx")
    assert assay(monkeypatch, "check", tmp_path / "relu.onnx") == 0
    said = " ".join(capsys.readouterr().out.split())
    assert "1 on special values, ties and extremes" in said and "handed to each" in said
    monkeypatch.setitem(KERNELS_OF, "nn.relu", elementwise(lambda attrs, x: select(x > 0, x, const(0, x.dtype))))
    assert assay(monkeypatch, "check", tmp_path / "relu.onnx") == 1
    said = " ".join(capsys.readouterr().out.split())
    assert "legalize FAILS" in said and "must be nan" in said


PLANTED: dict[str, tuple[ModelProto, str, str, str]] = {
    "in the arm that is not taken": (choosing(), "= -x[", "= 2.0f * x[", "(negative"),
    "in a fused function": (chain(), "(t <= 0.0f)", "(t <= 0x1p-149f)", "fused_negative_nn_relu_negative"),
}


@pytest.mark.parametrize("where", PLANTED)
def test_the_command_finds_a_fault_of_the_c(
    where: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    given, old, new, word = PLANTED[where]
    code, said = ordered(monkeypatch, capsys, tmp_path, given, emitter=text(old, new))
    assert code == 1 and "C differs from the machine in buffer" in said and word in said, said


def test_a_certificate_agrees_with_what_is_tried_anew(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    onnx.save(choosing(), tmp_path / "m.onnx")
    assert assay(monkeypatch, "build", tmp_path / "m.onnx", "-o", tmp_path / "built") == 0
    assert assay(monkeypatch, "verify", tmp_path / "built") == 0
    assert "every arm taken" in " ".join(capsys.readouterr().out.split())
