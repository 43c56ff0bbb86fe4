"""Faults of the compiler, planted in what it makes: each is caught by the run's own watch, or by the comparison with
the graph interpreter."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pytest

from assay.lower.vm import to_bytecode
from assay.lower.vm.kills import moved
from assay.semantics.bytecode import (
    AllocateStorage,
    AllocateTensor,
    BytecodeFunction,
    GetField,
    Instruction,
    InvokeKernel,
    JumpUnless,
    JumpUnlessMade,
    Kill,
    MakeClosure,
    MatchType,
    Move,
    ReturnCallClosure,
    reads,
)
from assay.semantics.module import Module
from assay.semantics.types import TensorType
from tests.interp.vm.vm_runs import changed, difference, text, trap_of

PROGRAM = """
    @R.function
    def main(c: R.Tensor((), "bool"), x: R.Tensor(("n", 3), "float32"), w: R.Tensor((3,), "float32")):
        n = T.int64()
        p = R.multiply(w, w)
        @R.function
        def scaled(y: R.Tensor((3,), "float32")) -> R.Tensor((3,), "float32"):
            return R.subtract(R.multiply(w, y), p)
        @R.function
        def loop(i: R.Tensor((), "int32"), s: R.Tensor((3,), "float32")) -> R.Tensor((3,), "float32"):
            if R.less(i, R.const(1, "int32")):
                r = s
            else:
                r = loop(R.subtract(i, R.const(1, "int32")), scaled(s))
            return r
        a = A.cumsum(x, axis=0)
        b = R.matmul(x, R.permute_dims(x))
        d = R.matmul(b, a)
        e = A.cumsum(d, axis=0)
        if c:
            h = R.sum(e, axis=[0])
        else:
            h = R.negative(R.sum(d, axis=[0]))
        return (loop(R.const(3, "int32"), h), h, R.add(R.sum(a), R.sum(e)))
"""
X = np.arange(6, dtype=np.float32).reshape(2, 3) / 4
INPUTS = [{"c": np.array(c), "x": X, "w": np.float32([1, 0.5, -1])} for c in (True, False)]


@pytest.fixture(scope="module")
def low() -> Module:
    return text(PROGRAM)


def everywhere(change: Callable[[BytecodeFunction], BytecodeFunction]) -> Callable[[Module], Module]:
    def made(module: Module) -> Module:
        for name in module.bytecode.functions:
            module = changed(module, name, change)
        return module

    return made


def each(change: Callable[[Instruction], Instruction]) -> Callable[[Module], Module]:
    return everywhere(lambda f: replace(f, body=tuple(map(change, f.body))))


def inserted(f: BytecodeFunction, number: int, new: Instruction) -> BytecodeFunction:
    places = [n + (n > number) for n in range(len(f.body))]
    return replace(f, body=tuple(moved([*f.body[:number], new, *f.body[number:]], places)))


def a_kill_too_early(f: BytecodeFunction) -> BytecodeFunction:
    """The first operand of each function's last tensor call is killed before it."""
    found = [n for n, i in enumerate(f.body) if isinstance(i, InvokeKernel) and i.reads]
    return inserted(f, found[-1], Kill(f.body[found[-1]].reads[:1])) if found else f  # type: ignore[attr-defined]


def a_storage_that_is_used_while_it_is_live(f: BytecodeFunction) -> BytecodeFunction:
    """All tensors of main lie in its first storage that is large enough for all."""
    tensors = [i for i in f.body if isinstance(i, AllocateTensor)]
    if f.name != "main":
        return f
    first = next(i for i in f.body if isinstance(i, AllocateStorage))
    body = [replace(i, nbytes=1 << 12) if i is first else i for i in f.body]
    body = [replace(i, storage=first.to) if i in tensors else i for i in body]
    kept = [Kill(tuple(r for r in i.registers if r != first.to) or (99,)) if isinstance(i, Kill) else i for i in body]
    return replace(f, body=tuple(kept))


def a_jump_to_the_wrong_arm(f: BytecodeFunction) -> BytecodeFunction:
    return replace(
        f, body=tuple(replace(i, target=n + 1) if isinstance(i, JumpUnless) else i for n, i in enumerate(f.body))
    )


def captured_values_exchanged(i: Instruction) -> Instruction:
    return replace(i, captured=i.captured[::-1]) if isinstance(i, MakeClosure) and i.itself is None else i


def a_tail_call_that_keeps_an_old_argument(f: BytecodeFunction) -> BytecodeFunction:
    """The call gets the second parameter as it came in, which is not killed before."""
    call = next((i for i in f.body if isinstance(i, ReturnCallClosure)), None)
    if call is None or not f.captured or len(call.arguments) != 2:
        return f
    old = f.captured + 1
    calls = [replace(i, arguments=(i.arguments[0], old)) if i is call else i for i in f.body]
    return replace(
        f,
        body=tuple(
            Kill(tuple(r for r in i.registers if r != old) or (99,)) if isinstance(i, Kill) else i for i in calls
        ),
    )


def an_arm_that_does_not_say_where_its_value_is(f: BytecodeFunction) -> BytecodeFunction:
    return replace(f, body=tuple(Kill((i.of,)) if isinstance(i, Move) else i for i in f.body))


def a_tensor_of_another_size(i: Instruction) -> Instruction:
    if isinstance(i, AllocateTensor) and len(i.type.shape) == 2:
        return replace(i, type=TensorType((i.type.shape[0], 1), i.type.dtype))
    return i


def operands_exchanged(i: Instruction) -> Instruction:
    return replace(i, reads=i.reads[::-1]) if isinstance(i, InvokeKernel) and i.kernel.startswith("fused") else i


@dataclass(frozen=True)
class Fault:
    """What is planted, and the kind of the trap that catches it; "" where the comparison does."""

    plant: Callable[[Module], Module]
    trap: str = ""


FAULTS = {
    "a kill too early": Fault(everywhere(a_kill_too_early), "unwritten read"),
    "a storage that is used while it is live": Fault(everywhere(a_storage_that_is_used_while_it_is_live), "clobbered"),
    "a jump to the wrong arm": Fault(everywhere(a_jump_to_the_wrong_arm)),
    "captured values exchanged": Fault(each(captured_values_exchanged)),
    "a tail call that keeps an old argument": Fault(everywhere(a_tail_call_that_keeps_an_old_argument)),
    "an arm that does not say where its value is": Fault(
        everywhere(an_arm_that_does_not_say_where_its_value_is), "unwritten read"
    ),
    "a tensor of another size": Fault(each(a_tensor_of_another_size), "shape"),
    "operands exchanged": Fault(each(operands_exchanged)),
}


def test_the_program_is_right(low: Module) -> None:
    assert [difference(low, inputs) for inputs in INPUTS] == ["", ""]


@pytest.mark.parametrize("name", FAULTS)
def test_a_fault_is_caught(low: Module, name: str) -> None:
    fault = FAULTS[name]
    code = to_bytecode(low)
    wrong = fault.plant(code)
    assert wrong.bytecode != code.bytecode
    assert any(difference(low, inputs, code=wrong) for inputs in INPUTS)
    if fault.trap:
        traps = [trap_of(wrong, **inputs) for inputs in INPUTS]
        assert fault.trap in [t.kind for t in traps if t is not None]


LISTS = """
    @A.data
    class Pair:
        none = ()
        pair = (R.Tensor((), "int32"), R.Tensor((), "int32"))
    @R.function
    def main(x: R.Tensor((), "int32"), y: R.Tensor((), "int32")):
        p = Pair.pair(x, y)
        match p:
            case Pair.none():
                r = R.const(0, "int32")
            case Pair.pair(a, b):
                r = R.subtract(a, b)
        return r
"""


def another_field(i: Instruction) -> Instruction:
    return replace(i, index=1 - i.index) if isinstance(i, GetField) else i


def another_constructor(i: Instruction) -> Instruction:
    return replace(i, constructor="pair") if isinstance(i, JumpUnlessMade) else i


@pytest.mark.parametrize("plant", [another_field, another_constructor])
def test_faults_of_matches(plant: Any) -> None:
    low = text(LISTS)
    inputs = {"x": np.int32(7), "y": np.int32(3)}
    code = to_bytecode(low)
    assert difference(low, inputs, code=code) == ""
    assert difference(low, inputs, code=each(plant)(code)) != ""


CASTS = """
    @R.function
    def main(x: R.Tensor(("n",), "float32")):
        n = T.int64()
        y: R.Tensor((3,), "float32") = R.match_cast(x, R.Tensor((3,), "float32"))
        return R.exp(y)
"""


def without_matches(f: BytecodeFunction) -> BytecodeFunction:
    return replace(f, body=tuple(Kill((99,)) if isinstance(i, MatchType) and not i.binds else i for i in f.body))


def test_a_check_that_is_left_out_is_seen() -> None:
    low = text(CASTS)
    code = to_bytecode(low)
    bad, good = {"x": np.zeros(4, np.float32)}, {"x": np.zeros(3, np.float32)}
    assert [difference(low, i, code=code) for i in (bad, good)] == ["", ""]
    wrong = everywhere(without_matches)(code)
    assert difference(low, bad, code=wrong) != ""


def test_kills_are_read_by_nobody(low: Module) -> None:
    """In the text itself: no path reads what is killed on it, and no register is left alive for nothing."""
    for f in to_bytecode(low).bytecode.functions.values():
        for n, i in enumerate(f.body):
            if isinstance(i, Kill):
                behind = [reads(j) for j in f.body[n + 1 :]]
                killed = set(i.registers)
                for j, used in zip(f.body[n + 1 :], behind, strict=True):
                    if isinstance(j, (JumpUnless, JumpUnlessMade)) or type(j).__name__ in ("Jump", "Return"):
                        break
                    assert not killed & set(used)
