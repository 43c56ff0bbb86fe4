"""The check of bytecode: what is right is proved, what is changed at random is refused or runs alike, and who may lie
where (specs/verify.md, "vm"). The faults that are planted one by one stand in the museum."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from random import Random
from typing import Any

import pytest

from assay.semantics import bytecode as vm
from assay.semantics.bytecode import Bytecode, BytecodeFunction, Instruction
from assay.semantics.dtypes import dtype
from assay.semantics.errors import AssayError
from assay.semantics.module import Module
from assay.semantics.types import TensorType
from assay.verify.api.programs import load
from assay.verify.app.stages import lowering_passes
from assay.verify.evidence import Context
from assay.verify.strategies.choosing import by_random
from assay.verify.strategies.features import EVERYTHING, LANGUAGE
from assay.verify.strategies.graphs import a_module
from assay.verify.strategies.values import picked_inputs
from assay.verify.vm import check, describe
from assay.verify.vm.aliases import Aliases
from assay.verify.vm.flow import flow_of
from assay.verify.vm.storage import check_storage
from assay.verify.vm.wrong import Unsound
from tests.verify.vm.bytecode_mutants import mutants, seen
from tests.verify.vm.bytecode_programs import PROGRAMS, compiled, edited, made_of, places, program
from tests.verify.whole.size_programs import Sized, programs

# --- what is right ----------------------------------------------------------------------------------------------------

SAMPLE = (
    "list_nth",
    "list_sum and list_filter",
    "closure",
    "loop_free_var",
    "sum_loop of tensors of any size",
    "recursive_concat",
    "simple_if of two sizes",
    "any_topk",
    "all_class_nms without boxes",
    "vm_reshape_tensor",
)


def ready(module: Module) -> Module:
    """A module as the stage vm gets it."""
    for name, run in lowering_passes().items():
        if name == "liveness":
            break
        module = run(module)
    return module


@pytest.mark.row("R11")
@pytest.mark.parametrize("name", PROGRAMS)
def test_what_the_compiler_makes_is_proved(name: str) -> None:
    found = check(program(name), compiled(name), Context())
    assert (found.how, found.holds) == ("proved", True), found.detail
    said, data = describe(program(name), compiled(name))
    assert "instructions" in said and data["functions"] >= 1


@pytest.mark.row("R11", "J15", "J18")
@pytest.mark.parametrize(
    "subject",
    [pytest.param(p, id=p.name, marks=[] if p.name in SAMPLE else [pytest.mark.campaign]) for p in programs()],
)
def test_programs_of_unknown_sizes_are_proved(subject: Sized, tmp_path: Path) -> None:
    try:
        low = ready(load(subject.write(tmp_path)))
    except AssayError as refused:
        assert refused.label.startswith(subject.says) or subject.says != "0"
        return
    found = check(low, made_of(low), Context())
    assert found.holds, found.detail


# --- what is changed at random ----------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Subject:
    """A program with its bytecode, and inputs."""

    name: str
    source: Module
    made: Module
    inputs: list[dict[str, Any]]


def random_subjects(first: int, count: int) -> Iterator[Subject]:
    """Random programs of the whole language."""
    for seed in range(first, first + count):
        low = ready(a_module(by_random(Random(seed)), 14, EVERYTHING if seed % 2 else LANGUAGE))
        pick = by_random(Random(seed))
        yield Subject(f"seed {seed}", low, made_of(low), [picked_inputs(pick, low) for _ in range(4)])


def sized_subjects(folder: Path) -> Iterator[Subject]:
    """The programs of unknown sizes, with the inputs of their runs."""
    for p in programs():
        try:
            low = ready(load(p.write(folder)))
        except AssayError:
            continue
        yield Subject(p.name, low, made_of(low), [dict(r.inputs) for r in p.runs])


def survivors(of: Subject, count: int) -> list[str]:
    """Changes that the check does not refuse and that a run shows. Each may trap otherwise, or give something else."""
    if not check(of.source, of.made, Context()).holds:
        return []  # a size that has a value on some ways only is not decided
    wanted = [seen(of.made, i) for i in of.inputs]
    found = []
    for code, what in mutants(of.made.bytecode, Random(of.name), count):
        made = of.made.with_(main=code)
        if check(of.source, made, Context()).holds and [seen(made, i) for i in of.inputs] != wanted:
            found.append(f"{of.name}, {what}")
    return found


@pytest.mark.row("R11", "J20")
def test_changed_bytecode_is_refused_or_runs_alike() -> None:
    assert [s for of in random_subjects(0, 10) for s in survivors(of, 10)] == []


@pytest.mark.campaign
def test_changed_bytecode_is_refused_or_runs_alike_many_times(tmp_path: Path) -> None:
    assert [s for of in random_subjects(100, 150) for s in survivors(of, 20)] == []
    assert [s for of in sized_subjects(tmp_path) for s in survivors(of, 20)] == []


def test_a_constant_that_is_not_there_is_refused() -> None:
    of = next(random_subjects(3, 1))
    code = of.made.bytecode
    name, function = next((n, f) for n, f in code.functions.items() if any(map(vm.written, f.body)))
    at = next(k for k, i in enumerate(function.body) if vm.written(i) is not None)
    body = list(function.body)
    body[at] = vm.LoadConstant(vm.written(body[at]), "other")
    changed = replace(code, functions={**code.functions, name: replace(function, body=tuple(body))})
    found = check(of.source, of.made.with_(main=changed), Context())
    assert not found.holds and "there is no constant other" in found.detail


def test_a_change_that_runs_another_way_is_seen() -> None:
    """The judge of the test above is awake: a check that believes everything is found out."""
    of = next(random_subjects(3, 1))
    wanted = [seen(of.made, i) for i in of.inputs]
    changed = (of.made.with_(main=code) for code, _ in mutants(of.made.bytecode, Random(0), 60))
    assert any([seen(made, i) for i in of.inputs] != wanted for made in changed)


# --- who may lie where ------------------------------------------------------------------------------------------------

F4 = TensorType((4,), dtype("float32"))
KERNEL = "exp"


def function(*body: Instruction, name: str = "main", parameters: int = 1) -> BytecodeFunction:
    """A function of tensors, of which only registers and storages count."""
    return BytecodeFunction(name, (F4,) * parameters, F4, 20, body)


def laid(*between: Instruction, then: tuple[Instruction, ...]) -> tuple[Instruction, ...]:
    """A tensor in register 2 of the storage in register 1, and one in 3, in the same bytes, which is filled after what
    is done with the first."""
    return (
        vm.AllocateStorage(1, 16, 64),
        vm.AllocateTensor(2, 1, 0, F4),
        vm.InvokeKernel(KERNEL, (0,), (2,)),
        *between,
        vm.AllocateTensor(3, 1, 0, F4),
        vm.InvokeKernel(KERNEL, (0,), (3,)),
        *then,
    )


def said(*functions: BytecodeFunction) -> str | None:
    return check_storage({f.name: flow_of(f) for f in functions})


GIVES = function(vm.Return(1), name="second", parameters=2)
FRESH = function(
    vm.AllocateStorage(2, 16, 64),
    vm.AllocateTensor(3, 2, 0, F4),
    vm.InvokeKernel(KERNEL, (0,), (3,)),
    vm.Return(3),
    name="fresh",
    parameters=2,
)
ALIASES = {
    "a move": (vm.Move(4, 2),),
    "a view": (vm.ViewTensor(4, 2, TensorType((2, 2), dtype("float32"))),),
    "a tuple": (vm.MakeTuple(4, (0, 2)),),
    "a field": (vm.MakeTuple(5, (0, 2)), vm.GetField(4, 5, 1)),
    "a closure": (vm.MakeClosure(4, "fresh", (2,)),),
    "what a closure gives": (vm.MakeClosure(5, "fresh", (2,)), vm.InvokeClosure(4, 5, (0,), F4)),
    "what a function gives that gives its argument": (vm.InvokeFunction(4, "second", (0, 2), F4),),
    "what a reference holds": (vm.MakeReference(5, 0), vm.WriteReference(5, 2), vm.ReadReference(4, 5)),
    "what a function outside gives": (vm.InvokeExtern(4, "outside", (2,), F4),),
}


@pytest.mark.parametrize("way", ALIASES)
def test_a_value_is_followed_to_whatever_is_read(way: str) -> None:
    found = said(function(*laid(*ALIASES[way], then=(vm.Return(4),))), GIVES, FRESH)
    assert found is not None and "writes register 3 over register 4, which is read behind it" in found


def test_what_nothing_reads_may_be_written_over() -> None:
    assert said(function(*laid(vm.MakeTuple(4, (2,)), then=(vm.Return(3),))), GIVES, FRESH) is None


def test_what_a_reference_holds_may_be_read_at_any_time() -> None:
    body = laid(vm.MakeReference(5, 0), vm.WriteReference(5, 2), then=(vm.Return(3),))
    found = said(function(*body))
    assert found is not None and "over what a reference may hold" in found


def test_a_function_that_gives_no_argument_lets_go_of_it() -> None:
    """What a call gives lies in an argument only if its function may give that one."""
    used = function(*laid(vm.InvokeFunction(4, "fresh", (0, 2), F4), then=(vm.Return(4),)))
    assert said(used, GIVES, FRESH) is None
    first = function(*laid(vm.InvokeFunction(4, "second", (2, 0), F4), then=(vm.Return(4),)))
    assert said(first, GIVES, FRESH) is None


def test_functions_that_call_one_another_give_what_any_of_them_gives() -> None:
    odd = function(vm.ReturnCall("even", (1, 0), F4), name="odd", parameters=2)
    even = function(vm.JumpUnless(0, 2), vm.Return(0), vm.ReturnCall("odd", (0, 1), F4), name="even", parameters=2)
    found = Aliases({f.name: flow_of(f) for f in (odd, even)})
    assert found.summaries["even"].gives == found.summaries["odd"].gives == {0, 1}


def test_a_tensor_may_be_live_on_one_way_only() -> None:
    """Where one way reads a tensor and the other writes over it, neither loses anything."""

    def body(behind: vm.Register) -> BytecodeFunction:
        return function(
            vm.AllocateStorage(1, 16, 64),
            vm.AllocateTensor(2, 1, 0, F4),
            vm.InvokeKernel(KERNEL, (0,), (2,)),
            vm.JumpUnless(0, 5),
            vm.Return(2),
            vm.AllocateTensor(3, 1, 0, F4),
            vm.InvokeKernel(KERNEL, (0,), (3,)),
            vm.Return(behind),
        )

    assert said(body(3)) is None
    assert said(body(2)) is not None


def test_tensors_beside_one_another_share_a_storage() -> None:
    def body(offset: int) -> BytecodeFunction:
        return function(
            vm.AllocateStorage(1, 32, 64),
            vm.AllocateTensor(2, 1, 0, F4),
            vm.InvokeKernel(KERNEL, (0,), (2,)),
            vm.AllocateTensor(3, 1, offset, F4),
            vm.InvokeKernel(KERNEL, (2,), (3,)),
            vm.Return(3),
        )

    assert said(body(16)) is None
    found = said(body(12))
    assert found is not None and "over register 2, which it reads" in found


@pytest.mark.parametrize(
    ("body", "words"),
    [
        ((vm.Jump(1), vm.Jump(0)), "leads back to instruction 0"),
        ((vm.Jump(7),), "jumps to 7, where nothing is"),
        ((vm.Move(1, 0),), "runs on behind the last instruction"),
        ((), "has no instructions"),
    ],
)
def test_control_stays_inside_and_goes_forwards(body: tuple[Instruction, ...], words: str) -> None:
    with pytest.raises(Unsound, match=words):
        flow_of(function(*body))


def test_ways_meet_where_every_one_of_them_goes() -> None:
    flow = flow_of(
        function(
            vm.JumpUnless(0, 4),
            vm.JumpUnless(0, 3),
            vm.Jump(5),
            vm.Jump(5),
            vm.Fail("match", "match.T1", "no clause matches"),
            vm.Return(0),
        )
    )
    assert flow.meets[1] == 5 and flow.meets[0] == 1 and 4 not in flow.meets


def test_what_is_checked_on_one_way_is_not_known_on_another() -> None:
    """The same choice between the same values has a known size where its value was cast, and not where it was not."""
    source, made = program("ways"), compiled("ways")
    casts = [
        k for k, i in enumerate(made.bytecode.main.body) if isinstance(i, vm.MatchType) and i.label == "match_cast.T1"
    ]
    kinds = places(made.bytecode, "main", vm.MatchType)
    last = edited(vm.MatchType, lambda i: [], kinds.index(casts[-1]))
    found = check(source, made.with_(main=last(made.bytecode)), Context())
    assert found.holds is False and "where the source checks sizes (match_cast.T1" in found.detail


@pytest.mark.parametrize("name", ["itself", "choice"])
def test_a_main_that_is_called_compares_its_arguments(name: str) -> None:
    """Who runs a program has compared the inputs of main with their types. A call of main from inside has not."""
    made = compiled(name)
    code = edited(vm.MatchType, lambda i: [], 2)(made.bytecode)
    found = check(program(name), made.with_(main=code), Context())
    assert found.holds is (name == "choice")
    assert found.holds or "where the source checks sizes (func.T2" in found.detail


def test_the_interface_is_that_of_the_source() -> None:
    source, made = program("choice"), compiled("choice")
    code = made.bytecode
    for changed in (
        replace(code, outputs=("other",)),
        replace(code, inputs=code.inputs[::-1]),
        _with_main(code, parameters=code.main.parameters[::-1]),
        _with_main(code, result=code.main.parameters[0]),
    ):
        assert check(source, made.with_(main=changed), Context()).holds is False


def _with_main(code: Bytecode, **new: Any) -> Bytecode:
    return replace(code, functions={**code.functions, "main": replace(code.main, **new)})


def test_a_tensor_function_or_a_constant_that_is_another_is_refused() -> None:
    source, made = program("calls"), compiled("calls")
    name, held = next(iter(made.constants.items()))
    other = replace(made, constants={**made.constants, name: held + 1})
    assert f"the constant {name} is not what it is" in check(source, other, Context()).detail
    exp, tanh = made.kernel("exp"), made.kernel("tanh")
    assert "exp is not what it is in the source" in check(source, made.with_(exp=tanh), Context()).detail
    assert check(source, made.with_(exp=exp), Context()).holds
