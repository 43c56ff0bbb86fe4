"""The machine of bytecode: functions of all kinds, memory that is watched, and what is no bytecode."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from assay.interp import vector, vm
from assay.interp.values import Cell, CodeClosure, Event
from assay.lower.vm import to_bytecode
from assay.semantics import budget
from assay.semantics.bytecode import (
    AllocateStorage,
    AllocateTensor,
    Bytecode,
    BytecodeFunction,
    GetField,
    Instruction,
    InvokeFunction,
    InvokeKernel,
    Jump,
    Kill,
    LoadConstant,
    MakeClosure,
    MakeData,
    MakeTuple,
    MatchType,
    Return,
    ReturnCall,
    ReturnCallClosure,
    ViewTensor,
)
from assay.semantics.dtypes import FLOAT32
from assay.semantics.errors import BudgetSpent, Invalid
from assay.semantics.module import Module
from assay.semantics.scalar import Var as Size
from assay.semantics.types import DataType, TensorType, Type
from tests.interp.vm.vm_runs import changed, difference, results, text, trap_of

FUNCTIONS = """
    @R.function
    def fib(i: R.Tensor((), "int32")) -> R.Tensor((), "int32"):
        if R.less(i, R.const(2, "int32")):
            r = i
        else:
            r = R.add(Module.fib(R.subtract(i, R.const(1, "int32"))), Module.fib(R.subtract(i, R.const(2, "int32"))))
        return r
    @R.function
    def even(i: R.Tensor((), "int32")) -> R.Tensor((), "bool"):
        if R.equal(i, R.const(0, "int32")):
            r = R.const(True, "bool")
        else:
            r = Module.odd(R.subtract(i, R.const(1, "int32")))
        return r
    @R.function
    def odd(i: R.Tensor((), "int32")) -> R.Tensor((), "bool"):
        if R.equal(i, R.const(0, "int32")):
            r = R.const(False, "bool")
        else:
            r = Module.even(R.subtract(i, R.const(1, "int32")))
        return r
    @R.function
    def main(i: R.Tensor((), "int32")):
        y = R.const(10, "int32")
        @R.function
        def add_y(q: R.Tensor((), "int32")) -> R.Tensor((), "int32"):
            return R.add(q, y)
        @R.function
        def twice(f: R.Callable((R.Tensor((), "int32"),), R.Tensor((), "int32")), p: R.Tensor((), "int32")) -> \
R.Tensor((), "int32"):
            return f(f(p))
        @R.function
        def down(k: R.Tensor((), "int32")) -> R.Tensor((), "int32"):
            if R.equal(k, R.const(0, "int32")):
                r = i
            else:
                r = R.add(k, down(R.subtract(k, R.const(1, "int32"))))
            return r
        return (Module.fib(i), Module.even(i), twice(add_y, i), down(i))
"""


@pytest.mark.row("J15", "J18")
def test_closures_recursion_and_functions_as_values() -> None:
    low = text(FUNCTIONS)
    for i in range(9):
        assert difference(low, {"i": np.int32(i)}) == ""
    fib, even, twice, down = results(to_bytecode(low), i=np.int32(8))
    assert (fib, even, twice, down) == (21, True, 28, 44)


def test_what_calls_last_leaves_no_activation_behind() -> None:
    """With a stack of some depth, 40,000 turns would be seen in the deepest of it."""
    code = to_bytecode(text(FUNCTIONS))
    deepest = 0

    def watched(func: Any, inputs: Any, **more: Any) -> Any:
        nonlocal deepest
        deepest = max(deepest, len(machine.stack))
        return vector.run(func, inputs, **more)

    from assay.interp.vm.machine import Machine

    machine = Machine(code, watched, {}, [], None, 0)
    (given,) = [machine.border.inward(np.asarray(300, np.int32), "i")]
    assert machine.border.close(machine.run("even", [given])) == np.True_
    assert deepest == 1


GROWS = """
    @R.function
    def grow(i: R.Tensor((), "int32"), s: R.Tensor(("n",), "float32")) -> R.Tensor(("m",), "float32"):
        n = T.int64()
        m = T.int64()
        if R.less(i, R.const(1, "int32")):
            r = s
        else:
            r = Module.grow(R.subtract(i, R.const(1, "int32")), R.concat((s, R.const([2.0], "float32"))))
        return r
    @R.function
    def main(i: R.Tensor((), "int32"), x: R.Tensor(("k",), "float32")):
        return Module.grow(i, x)
"""


@pytest.mark.row("J15")
def test_a_state_that_grows() -> None:
    low = text(GROWS)
    code = to_bytecode(low)
    assert any(isinstance(i, ReturnCall) for i in code.bytecode.functions["grow"].body)
    for i, k in ((0, 0), (10, 1), (3, 4)):
        assert difference(low, {"i": np.int32(i), "x": np.ones(k, np.float32)}, code=code) == ""
    assert results(code, i=np.int32(10), x=np.ones(1, np.float32))[0].shape == (11,)


SPEAKS = """
    @R.function(pure=False)
    def main(x: R.Tensor((2,), "float32")):
        cell = A.ref(x)
        _ = R.print(x, format="x is {}")
        y = R.multiply(x, A.read(cell))
        _1 = A.write(cell, y)
        far = R.call_packed("far", y, ty_args=(R.Tensor((2,), "float32"),))
        near = R.call_pure_packed("near", far, ty_args=R.Tensor((2,), "float32"))
        _2 = R.assert_op(R.less(R.sum(y), R.const(5.0, "float32")), x, format="sum of {} is too large")
        return (A.read(cell), near)
"""


def test_effects_are_in_the_trace_in_order() -> None:
    low = text(SPEAKS)
    externs = {"far": lambda x: x + 1, "near": lambda x: x * 2}
    for x in ([1, 1], [5, 5]):
        assert difference(low, {"x": np.float32(x)}, externs=externs) == ""
    trace: list[Event] = []
    cell, near = vm.run(to_bytecode(low), {"x": np.float32([1, 1])}, externs=externs, trace=trace).values()
    assert [(e.kind, e.name) for e in trace] == [("print", "x is {}"), ("extern", "far")]
    assert cell.tolist() == [1, 1] and near.tolist() == [4, 4]
    with pytest.raises(Invalid) as wrong:
        vm.run(to_bytecode(low), {"x": np.float32([1, 1])}, externs={"near": externs["near"]})
    assert wrong.value.label == "extern.C1"


def test_an_extern_that_gives_another_size() -> None:
    low = text(SPEAKS)
    for wrong in (lambda x: x[:1], lambda x: x.astype(np.int32), lambda x: (x, x)):
        assert difference(low, {"x": np.float32([1, 1])}, externs={"far": wrong, "near": wrong}) == ""


# --- what comes in and goes out ----------------------------------------------------------------------------------


CELLS = """
    @R.function(pure=False)
    def main(c: A.Ref(R.Tensor((2,), "float32")), x: R.Tensor((2,), "float32")):
        _ = A.write(c, R.add(x, A.read(c)))
        return c
"""


def test_a_reference_of_the_caller_is_the_one_that_is_written() -> None:
    low = text(CELLS)
    cell = Cell(np.float32([1, 2]))
    (out,) = vm.run(to_bytecode(low), {"c": cell, "x": np.float32([10, 10])}).values()
    assert out is cell and cell.value.tolist() == [11, 12]


def test_a_function_that_is_a_result_is_one() -> None:
    low = text(
        """
    @R.function
    def main(x: R.Tensor((2,), "float32")):
        @R.function
        def plus(y: R.Tensor((2,), "float32")) -> R.Tensor((2,), "float32"):
            return R.add(x, y)
        return plus
"""
    )
    assert difference(low, {"x": np.float32([1, 2])}) == ""
    (plus,) = results(to_bytecode(low), x=np.float32([1, 2]))
    assert isinstance(plus, CodeClosure) and plus.function == "main.plus"


@pytest.mark.parametrize(
    "inputs", [{}, {"x": 1.0, "y": 2}, {"x": np.zeros(3, np.float32)}, {"x": np.zeros(2, np.int32)}, {"x": "two"}]
)
def test_inputs_are_refused_as_by_the_graph(inputs: dict[str, Any]) -> None:
    low = text(
        """
    @R.function
    def main(x: R.Tensor((2,), "float32")):
        return R.exp(x)
"""
    )
    assert difference(low, inputs) == ""
    with pytest.raises(Invalid):
        vm.run(to_bytecode(low), inputs)


def test_a_late_constant_is_wanted() -> None:
    code = to_bytecode(text("    @R.function\n    def main():\n        return R.const([1.0, 2.0], 'float32')\n"))
    (name,) = code.constants
    late = replace(code.bytecode, late={name: TensorType((2,), FLOAT32)})
    module = replace(code.with_(main=late), constants={}, offsets={})
    with pytest.raises(Invalid) as wrong:
        vm.run(module, {})
    assert wrong.value.label == "vm.C8"
    assert results(replace(module, constants={name: np.float32([3, 4])}))[0].tolist() == [3, 4]


@pytest.mark.row("J19")
def test_devices() -> None:
    low = text(
        """
    @R.function
    def main(x: R.Tensor((3,), "float32")):
        y = A.on_device(R.add(x, R.const([0.5, 2.0, 3.0], "float32")), "cuda", constrain_body=True, \
constrain_result=True)
        return A.on_device(R.negative(y), "cpu", constrain_body=True, constrain_result=True)
"""
    )
    code = to_bytecode(low)
    body = code.bytecode.main.body
    places = {i.device.type for i in body if isinstance(i, AllocateStorage)}
    assert {"cpu", "cuda"} <= places
    assert difference(low, {"x": np.float32([1, 2, 3])}, code=code) == ""

    def elsewhere(f: BytecodeFunction) -> BytecodeFunction:
        calls = (replace(i, device=body_device("cpu")) if isinstance(i, InvokeKernel) else i for i in f.body)
        return replace(f, body=tuple(calls))

    def body_device(type_: str) -> Any:
        return next(i.device for i in body if isinstance(i, AllocateStorage) and i.device.type == type_)

    trap = trap_of(changed(code, "main", elsewhere), x=np.float32([1, 2, 3]))
    assert trap is not None and trap.kind == "wrong device"


# --- what is wrong with bytecode ---------------------------------------------------------------------------------


F2: Type = TensorType((2,), FLOAT32)
N = Size("n")


def program(*body: Instruction, registers: int = 9, **more: Any) -> Module:
    main = BytecodeFunction("main", (F2,), F2, registers, body, **more)
    exp = SIMPLE.kernels
    return Module({**exp, "main": Bytecode({"main": main}, ("x",), ("y",))})


SIMPLE = text("    @R.function\n    def main(x: R.Tensor((2,), 'float32')):\n        return R.exp(x)\n")
ALLOCATE = AllocateStorage(1, 8, 64)
WRONG: dict[str, tuple[tuple[Instruction, ...], str]] = {
    "a register is read that holds nothing": ((Return(3),), "unwritten read"),
    "a register is read that was killed": ((Kill((0,)), Return(0)), "unwritten read"),
    "a tensor is given back that nothing wrote": (
        (ALLOCATE, AllocateTensor(2, 1, 0, F2), Return(2)),
        "unwritten read",
    ),
    "a tensor lies outside of its storage": ((ALLOCATE, AllocateTensor(2, 1, 4, F2), Return(2)), "out of bounds"),
    "a tensor begins between two elements": (
        (AllocateStorage(1, 16, 64), AllocateTensor(2, 1, 2, F2), Return(2)),
        "misaligned",
    ),
    "a tensor is viewed as a larger one": ((ViewTensor(1, 0, TensorType((3,), FLOAT32)), Return(1)), "shape"),
    "an input is written": ((InvokeKernel("exp", (0,), (0,)), Return(0)), "store to constant"),
    "a result is of another size": (
        (ALLOCATE, AllocateTensor(2, 1, 0, TensorType((1,), FLOAT32)), InvokeKernel("exp", (0,), (2,)), Return(2)),
        "shape",
    ),
    "a storage of negative size": (
        (MatchType(0, TensorType((N,), FLOAT32), (N,), "call.T1"), AllocateStorage(1, 1 - N, 64), Return(0)),
        "shape",
    ),
    "a storage that no machine has": ((AllocateStorage(1, 1 << 60, 64), Return(0)), "memory"),
    "an operand is overwritten": (
        (
            ALLOCATE,
            AllocateTensor(2, 1, 0, F2),
            InvokeKernel("exp", (0,), (2,)),
            AllocateTensor(3, 1, 0, F2),
            InvokeKernel("exp", (2,), (3,)),
            Return(3),
        ),
        "clobbered",
    ),
    "a jump backwards": ((Jump(0),), "vm.C4"),
    "a jump to nowhere": ((Jump(7),), "vm.C4"),
    "no return": ((Kill((0,)),), "vm.C4"),
    "no such function": ((InvokeFunction(1, "f", (0,), F2), Return(1)), "vm.C4"),
    "no such tensor function": ((InvokeKernel("nobody", (0,), ()), Return(0)), "module.C3"),
    "no such constant": ((LoadConstant(1, "nothing"), Return(1)), "vm.C4"),
    "too few operands": ((InvokeKernel("exp", (), (0,)), Return(0)), "vm.C7"),
    "a field of a tensor": ((GetField(1, 0, 0), Return(1)), "vm.C4"),
    "a field that is not there": ((MakeTuple(1, (0,)), GetField(2, 1, 1), Return(2)), "vm.C4"),
    "a storage that is none": ((AllocateTensor(1, 0, 0, F2), Return(1)), "vm.C4"),
    "a call of a tensor": ((ReturnCallClosure(0, (0,), F2),), "vm.C4"),
    "a closure that captures too much": ((MakeClosure(1, "main", (0, 0)), Return(1)), "vm.C4"),
    "a data type that is none": ((MakeData(1, DataType("List"), "nil", ()), Return(1)), "module.C4"),
    "a size without a value": ((AllocateStorage(1, 4 * N, 64), Return(0)), "vm.C4"),
    "an alignment that is none": ((AllocateStorage(1, 8, 3), Return(0)), "vm.C5"),
    "a match that binds what it does not say": (
        (MatchType(0, TensorType((N,), FLOAT32), (), "call.T1"), Return(0)),
        "vm.C4",
    ),
}


@pytest.mark.parametrize("what", WRONG)
def test_wrong_bytecode_is_caught_on_the_run(what: str) -> None:
    body, said = WRONG[what]
    module = program(*body)
    x = np.float32([1, 2])
    try:
        trap = trap_of(module, x=x)
    except Invalid as wrong:
        assert wrong.label == said
    else:
        assert trap is not None and trap.kind == said, trap


def test_right_bytecode_runs() -> None:
    call = (ALLOCATE, AllocateTensor(2, 1, 0, F2), InvokeKernel("exp", (0,), (2,)), Return(2))
    x = np.float32([1, 2])
    assert np.allclose(results(program(*call), x=x)[0], np.exp(x))
    (exact,) = vm.run(program(*call), {"x": x}, execute="definition").values()
    assert np.array_equal(results(program(*call), x=x)[0], exact)


def test_a_run_without_end_is_ended() -> None:
    """Of calls that take the place of the caller time is counted, of others memory."""
    with budget.of(budget.Budget(seconds=0.2)), pytest.raises(BudgetSpent) as late:
        vm.run(program(ReturnCall("main", (0,), F2)), {"x": np.float32([1, 2])})
    assert late.value.label == "budget.C2"
    with budget.of(budget.Budget(memory=64 << 20)), pytest.raises(BudgetSpent) as full:
        vm.run(program(InvokeFunction(1, "main", (0,), F2), Return(1)), {"x": np.float32([1, 2])})
    assert full.value.label == "budget.C1"
