"""Executables of bytecode through commands: what a run shows is the source's, bounds are kept, kinds are known."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from assay.interp import graph
from assay.interp.values import Cell
from assay.lower.frontends.relay import parse_relay
from assay.semantics import bytecode as vm
from assay.semantics.bytecode import Bytecode, Instruction
from assay.semantics.devices import VirtualDevice
from assay.semantics.errors import Span
from assay.semantics.module import Module
from assay.semantics.scalar import Var
from assay.semantics.types import with_dims
from assay.verify.api.check import build
from assay.verify.api.programs import load
from assay.verify.app import certificate, executable
from assay.verify.border.formless import arrays_of
from assay.verify.oracle import Expected
from tests.verify.app.test_cli import assay
from tests.verify.app.test_executable import CLOSURE, GROWING, TREES, forged
from tests.verify.vm.bytecode_programs import HEAD, edited, made_of, without_kills
from tests.verify.vm.test_vm_check import ready

SOURCE = (
    HEAD
    + """
    @A.data
    class Box:
        one = (R.Tensor((), "float32"),)
        two = (R.Tensor((), "float32"), R.Tensor((), "float32"))

    @R.function
    def less(v: Box) -> R.Tensor((), "float32"):
        match v:
            case Box.one(a):
                return R.exp(a)
            case Box.two(a, b):
                return R.subtract(a, b)

    @R.function
    def main(x: R.Tensor((n,), "float32"), y: R.Tensor((n,), "float32"), s: R.Tensor((), "float32")):
        @R.function
        def f(z: R.Tensor((n,), "float32")) -> R.Tensor((n,), "float32"):
            return R.add(z, x)
        return (f(R.match_cast(y, R.Tensor((n,), "float32"))), less(Box.two(s, s)))
"""
)
N = Var("other")
ELSEWHERE = VirtualDevice("cuda", 0, "cuda")


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The file of an executable."""
    place = tmp_path_factory.mktemp("front")
    (place / "m.py").write_text(SOURCE, "utf-8")
    assert build(place / "m.py", place / "m.assay", vm=True).holds
    return place / "m.assay"


def command(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], *args: object) -> tuple[int, str]:
    """What a command exits with, and what it prints, spaces counted as one."""
    monkeypatch.setenv("COLUMNS", "300")
    capsys.readouterr()
    code = assay(monkeypatch, *args)
    got = capsys.readouterr()
    return code, " ".join((got.out + got.err).split())


# --- all that a run can show ---


def one(
    kind: type[Instruction], which: int = 0, function: str = "main", **fields: Any
) -> Callable[[Bytecode], Bytecode]:
    """One instruction of a kind with other fields."""
    return edited(kind, lambda i: replace(i, **fields), which, function)


def of_function(name: str, **fields: Any) -> Callable[[Bytecode], Bytecode]:
    """A function with other fields."""
    return lambda c: replace(c, functions={**c.functions, name: replace(c.functions[name], **fields)})


def renamed(code: Bytecode) -> Bytecode:
    """A closure by another name."""
    own = code.functions["main.f"]
    functions = {("main.g" if n == "main.f" else n): f for n, f in code.functions.items()}
    code = replace(code, functions={**functions, "main.g": replace(own, name="main.g")})
    return edited(vm.MakeClosure, lambda i: replace(i, function="main.g"))(code)


def another_size(code: Bytecode) -> Bytecode:
    """Main calls its size otherwise."""
    main = code.functions["main"]

    def change(d: Any) -> Any:
        return N if d in main.sizes else d

    body = [replace(i, type=with_dims(i.type, change)) if hasattr(i, "type") else i for i in main.body]
    body = [replace(i, binds=tuple(map(change, i.binds))) if isinstance(i, vm.MatchType) else i for i in body]
    body = [replace(i, sizes=(N,)) if isinstance(i, vm.MakeClosure) else i for i in body]
    fields = {"parameters": tuple(with_dims(t, change) for t in main.parameters), "sizes": (N,), "body": tuple(body)}
    return of_function("main", **fields, result=with_dims(main.result, change))(code)


SHOWN: dict[str, tuple[Callable[[Bytecode], Bytecode], str]] = {
    "the message of a trap": (
        one(vm.Fail, 0, "less", message="all is well"),
        "(match.T1), 'all is well' unless v being two where the source",
    ),
    "what a value is called": (
        one(vm.MatchType, 1, what="parameter 'z'"),
        "looks at it as the value (call.T1) or parameter 'y' (func.T2)",
    ),
    "the label of a parameter": (one(vm.MatchType, 0, label="func.T1"), "looks at parameter 'x' (func.T1)"),
    "the device of a storage": (
        one(vm.AllocateStorage, 0, "main.f", device=ELSEWHERE),
        "fills a tensor that is said to be on cuda:0, and the call is on anywhere",
    ),
    "the device that decides": (partial(replace, host=ELSEWHERE), "the device that decides is cuda:0"),
    "the place of a call": (one(vm.InvokeClosure, 0, span=Span("no.py")), "does what the source does at"),
    "the place of what never fails": (one(vm.Return, 0, span=Span("no.py")), "is at no place of the source's function"),
    "what a parameter is called": (of_function("less", names={0: "w"}), "less calls its parameter v w"),
    "what a register is called": (of_function("main", names={0: "x", 1: "y", 2: "s", 5: "q"}), "calls register 5 q"),
    "the name of a closure": (renamed, "the source makes no function of that name"),
    "the name of a size": (another_size, "calls a size other that the source gives no value by parameter 'x'"),
    "bounds": (
        lambda c: of_function("main", limits=((c.main.sizes[0], 0, 3),))(c),
        "main is for n from 0 to 3, and the source for all sizes",
    ),
}


@pytest.mark.row("R11")
@pytest.mark.parametrize("name", SHOWN)
def test_whatever_a_run_can_show_is_the_sources(
    name: str, made: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    change, words = SHOWN[name]
    module = executable.load(made)
    other = module.with_(main=change(module.bytecode))
    code, said = command(monkeypatch, capsys, "verify", forged(made, tmp_path, other))
    assert code == 1 and words in said, said


# --- arms, generic functions, results without a form in files ---

RELAY = '#[version = "0.0.5"]\n'
SAID: dict[str, tuple[str, tuple[str, ...]]] = {
    "arms that never run": (
        """def @main(%x: Tensor[(2), float32], %n: int32) { let %f = fn () {
  if (less(%n, 90)) { exp(%x) } else { ref_read(ref(%x)) } }; %f() }""",
        ("1 of 2 arms never ran, first where the condition does not hold at m.relay:3:3",),
    ),
    "a function that nothing calls": (
        "def @main(%x: Tensor[(2), float32]) { let %r = ref(fn () { exp(%x) }); %x }",
        ("1 function never called, first main.",),
    ),
    "a generic function that does not call itself": (
        "def @id[A](%x: A) -> A { %x }\ndef @main(%x: Tensor[(2), float32]) { @id(%x) }",
        (
            "no plan can have it: m.relay:3:39: id has type parameters, A",
            "[liveness.C2]",
            "vm proved",
            "compare tested",
        ),
    ),
    "a reference": (
        "def @main(%x: Tensor[(2), float32]) { ref(%x) }",
        ("compare tested", "1 output; 0 runs"),
    ),
    "a function": (
        "def @main(%x: Tensor[(2), float32]) { fn (%y: Tensor[(2), float32]) { add(%x, %y) } }",
        ("compare tested", "output_0: what functions do is not run"),
    ),
    "a data value": (
        "type L[A] { Nl, Cn(A, L[A]), }\ndef @main(%x: Tensor[(2), float32]) { Cn(exp(%x), Nl) }",
        ("compare tested", "1 output; 1 run of tensor functions"),
    ),
}


@pytest.mark.parametrize("name", SAID)
def test_what_check_says(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    text, words = SAID[name]
    monkeypatch.chdir(tmp_path)
    Path("m.relay").write_text(RELAY + text, "utf-8")
    code, said = command(monkeypatch, capsys, "check", "m.relay")
    assert code == 0 and all(w in said for w in words), said


@pytest.mark.row("R11")
@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("a reference", "output_0: a reference holds Tensor"),
        ("a function", "output_0: a function"),
        ("a data value", "Cn"),
    ],
)
def test_results_that_no_file_holds_are_built_verified_and_shown(
    name: str, words: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("m.relay").write_text(RELAY + SAID[name][0], "utf-8")
    assert command(monkeypatch, capsys, "build", "--vm", "m.relay", "-o", "m.assay")[0] == 0
    assert command(monkeypatch, capsys, "verify", "m.assay")[0] == 0
    code, said = command(monkeypatch, capsys, "run", "m.assay")
    assert code == 0 and words in said, said


@pytest.mark.parametrize(
    ("change", "word"),
    [
        (lambda v: type(v)(v.type, "Nl", ()), "output_0.constructor"),
        (lambda v: type(v)(v.type, v.constructor, (v.fields[0] + 1, v.fields[1])), "output_0.0"),
    ],
)
def test_a_data_value_that_is_another_is_wrong(change: Any, word: str) -> None:
    """What judges data values is awake: another constructor, and another number inside."""
    module = parse_relay(RELAY + SAID["a data value"][0], "m.relay")
    expected = Expected(module, {"x": np.float32([1, 2])})
    (value,) = graph.run(module, {"x": np.float32([1, 2])}).values()
    assert not any(f.wrong for f in expected.findings({"output_0": value}).values())
    found = expected.findings({"output_0": change(value)})
    assert found[word].wrong
    same, other = (arrays_of({"output_0": v}, module) for v in (value, change(value)))
    assert any(n not in other or not np.array_equal(other[n], a) for n, a in same.items())


def test_references_are_told_apart_by_which_they_are() -> None:
    """One reference twice is not two that hold the same; one that holds itself ends."""
    one, x = Cell(np.float32(1)), np.float32(1)
    knot: Any = Cell(None)
    knot.value = (x, knot)
    module = Module({})
    forms = [arrays_of({"r": v}, module)["r.form"].tolist() for v in ((one, one), (Cell(x), Cell(x)), knot)]
    assert forms[0] != forms[1] and len(forms[2]) == 8


# --- bounds, positions, late constants ---


@pytest.fixture(scope="module")
def bounded(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A directory with the file of an executable that was built for some sizes, and inputs."""
    place = tmp_path_factory.mktemp("bounded")
    (place / "m.py").write_text(GROWING, "utf-8")
    assert build(place / "m.py", place / "m.assay", vm=True, bounds={"n": (1, 4)}).holds
    np.savez(place / "first.npz", np.int64(2))
    np.savez(place / "large.npz", np.int64(2), np.ones((9, 2), np.float32))
    return place


@pytest.mark.row("R11", "R27")
def test_an_executable_keeps_its_bounds(
    bounded: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    run = partial(command, monkeypatch, capsys, "run", bounded / "m.assay")
    assert "float32) n from 1 to 4 0 match" in run("--text")[1]
    assert run("--dim", "n=4")[0] == 0
    refused = "n is 9, and main was built for n from 1 to 4 alone"
    code, said = run("--inputs", bounded / "large.npz")
    assert code == 2 and refused in said and "[vm.C12]" in said
    code, said = run("--inputs", bounded / "large.npz", "--save", "warm", "-o", tmp_path / "w.assay")
    assert code == 2 and refused in said
    # a saved call, its inputs by position, keeps them too
    assert run("--inputs", bounded / "first.npz", "--save", "warm", "-o", tmp_path / "w.assay") == (0, "")
    warm = partial(command, monkeypatch, capsys, "run", tmp_path / "w.assay", "--function", "warm", "--dim")
    assert warm("n=3")[0] == 0 and "warm was built for n from 1 to 4" in warm("n=5")[1]
    code, said = command(
        monkeypatch, capsys, "build", "--vm", bounded / "m.py", "--bound", "k=0..3", "-o", tmp_path / "b.assay"
    )
    assert code == 2 and "k is no size of the inputs, and bytecode has room for any" in said


def test_the_line_says_the_bounds(
    bounded: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    code, said = command(monkeypatch, capsys, "verify", bounded / "m.assay")
    assert code == 0 and "registers; for n from 1 to 4 alone" in said and "at n = 1, 2, 4;" in said


def test_late_constants_and_the_file_are_both_written_or_neither(
    bounded: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    words = ("build", "--vm", bounded / "m.py", "--late-constants", tmp_path / "w.npz", "-o")
    monkeypatch.setattr(certificate, "pack_folder", full)
    code, said = command(monkeypatch, capsys, *words, tmp_path / "m.assay")
    assert code != 0 and "No space left" in said and list(tmp_path.iterdir()) == []
    monkeypatch.undo()
    code, said = command(monkeypatch, capsys, *words, tmp_path / "w.npz")
    assert code == 2 and "are one file" in said


# --- messages ---


def test_messages(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.chdir(tmp_path)
    Path("same.py").write_text(HEAD + SAME, "utf-8")
    code, said = command(monkeypatch, capsys, "check", "same.py")
    assert code == 2 and "n against n' in axis 0 (n and n': sizes of one name" in said and "[broadcast.C1]" in said
    Path("calls.py").write_text(HEAD + CALLS, "utf-8")
    code, said = command(monkeypatch, capsys, "check", "calls.py")
    assert "Tensor((n'), float32) for x, Tensor((n), float32)" in said and "[recursion.C2]" in said, said
    Path("hd.relay").write_text(RELAY + "def @main(%x: float32) { @hd(@tl(Cons(%x, Nil()))) }", "utf-8")
    for command_ in ("check", "run"):
        code, said = command(monkeypatch, capsys, command_, "hd.relay")
        assert "trap (match): the prelude (hd): no clause matches [match.T1]" in said
    Path("named.py").write_text(HEAD + NAMED, "utf-8")
    code, said = command(monkeypatch, capsys, "check", "--vm", "--passes", "shapes", "named.py")
    assert code == 4 and "vm unknown" in said and "without the pass shapes" in said, said


SAME = """
    @R.function
    def f(x: R.Tensor((m,), "float32")) -> R.Tensor((n,), "float32"):
        return R.match_cast(x, R.Tensor((n,), "float32"))
    @R.function
    def main(x: R.Tensor((n,), "float32")):
        return R.add(x, f(x))
"""
CALLS = """
    @R.function
    def g(x: R.Tensor((m,), "float32")) -> R.Tensor((n,), "float32"):
        return R.match_cast(x, R.Tensor((n,), "float32"))
    @R.function
    def f(i: R.Tensor((), "int32"), x: R.Tensor((n,), "float32")) -> R.Tensor((), "float32"):
        if R.less(i, R.const(1, "int32")):
            r = R.sum(x)
        else:
            r = R.exp(f(R.subtract(i, R.const(1, "int32")), g(x)))
        return r
    @R.function
    def main(x: R.Tensor((n,), "float32"), i: R.Tensor((), "int32")):
        return f(i, x)
"""
NAMED = """
    @R.function
    def main(x: R.Tensor((n,), "float32"), y: R.Tensor((n,), "float32")):
        return R.add(x, y)
"""


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")  # of a signal that comes again
def test_a_size_at_which_a_run_does_not_end_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "m.py").write_text(HEAD + ENDLESS, "utf-8")
    code, said = command(monkeypatch, capsys, "check", "--timeout", "4", tmp_path / "m.py")
    assert code == 6 and "the 4 seconds that it may, at n = 2; --timeout raises that [budget.C2]" in said, said


ENDLESS = """
    @R.function
    def loop(i: R.Tensor((), "int32")) -> R.Tensor((), "int32"):
        return loop(i)
    @R.function
    def main(x: R.Tensor((n,), "float32")):
        return loop(R.const(0, "int32"))
"""


# --- kinds of registers ---


def each_way(code: Bytecode) -> Bytecode:
    """What is returned is a tensor on one way, and a shape on the other."""
    body = list(code.functions["down"].body)
    to = code.functions["down"].registers
    at = next(k for k, i in enumerate(body) if isinstance(i, vm.JumpUnless))
    kind = body[at]
    assert isinstance(kind, vm.JumpUnless)
    made = [
        *body[:at],
        replace(kind, target=at + 3),
        vm.Move(to, 1),
        vm.Jump(at + 4),
        vm.MakeShape(to, ()),
        vm.Return(to),
    ]
    return of_function("down", body=tuple(made), registers=to + 1)(code)


def a_storage(code: Bytecode) -> Bytecode:
    """A tensor function reads a storage."""
    to = next(i.to for i in code.main.body if isinstance(i, vm.AllocateStorage))
    return edited(vm.InvokeKernel, lambda i: replace(i, reads=(to, *i.reads[1:])))(code)


KINDS: dict[str, tuple[str, Callable[[Bytecode], Bytecode], str]] = {
    "a field of a tensor": (
        "trees",
        edited(vm.GetField, lambda i: replace(i, of=0)),
        "register %0 (x) is a tensor of float32 and 1 axes, and no tuple",
    ),
    "a field that a tuple does not have": (
        "trees",
        edited(vm.GetField, lambda i: replace(i, index=7)),
        "has 2 fields, and no field 7",
    ),
    "a field of who knows what": (
        "trees",
        edited(vm.JumpUnlessMade, lambda i: vm.Move(i.of, i.of), 0, "first"),
        "nothing says here what has made it",
    ),
    "a call of a tensor": (
        "closure",
        edited(vm.InvokeClosure, lambda i: replace(i, closure=0)),
        "register %0 (x) is a tensor of float32 and 1 axes, and no function",
    ),
    "a branch by a number": (
        "trees",
        edited(vm.JumpUnless, lambda i: replace(i, condition=1)),
        "register %1 (n) is a tensor of int32 and 0 axes, and no boolean",
    ),
    "a reference that is none": ("trees", edited(vm.ReadReference, lambda i: replace(i, of=0)), "and no reference"),
    "another thing in a reference": (
        "trees",
        edited(vm.WriteReference, lambda i: replace(i, value=i.of), 0, "main.add"),
        "the reference takes a tensor",
    ),
    "a data value of another thing": (
        "closure",
        edited(vm.MakeData, lambda i: replace(i, fields=(i.fields[0], 2))),
        "Both takes a tensor",
    ),
    "a storage for a tensor": ("grow", a_storage, "is a storage, and no value"),
    "a tensor of another kind of number": (
        "grow",
        edited(vm.InvokeKernel, lambda i: replace(i, reads=(0, *i.reads[1:]))),
        "register %0 (i) is a tensor of int64 and 0 axes, and no tensor of float32",
    ),
    "an argument of another kind": (
        "grow",
        edited(vm.InvokeFunction, lambda i: replace(i, arguments=(1, 0))),
        "and down takes a tensor of int64 and 0 axes",
    ),
    "a result of another kind": (
        "grow",
        edited(vm.Return, lambda i: replace(i, of=0)),
        "main gives a tensor of int64 and 0 axes, and is said to give a tensor of float32",
    ),
    "a result that is said to be another": (
        "grow",
        edited(vm.InvokeFunction, lambda i: replace(i, type=i.type.__class__((), i.type.dtype))),
        "down gives a tensor of float32 and 2 axes, and is said to give",
    ),
    "a match of what it is not": (
        "grow",
        edited(vm.MatchType, lambda i: replace(i, of=1)),
        "register %1 (x) is a tensor of float32 and 2 axes, and never a tensor of int64",
    ),
    "something else on each way": ("grow", each_way, "one thing on one way to here and another on another"),
}


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """The files of three executables."""
    place = tmp_path_factory.mktemp("kinds")
    found = {}
    for name, text in (("grow.py", GROWING), ("closure.relay", CLOSURE), ("trees.relay", TREES)):
        (place / name).write_text(text, "utf-8")
        found[name.partition(".")[0]] = place / f"{name}.assay"
        executable.save_executable(made_of(ready(load(place / name))), place / f"{name}.assay")
    return found


@pytest.mark.row("R11")
@pytest.mark.parametrize("name", KINDS)
def test_what_a_register_cannot_hold_is_said_before_a_run(
    name: str,
    built: dict[str, Path],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    which, change, words = KINDS[name]
    module = executable.load(built[which])
    executable.save_executable(module.with_(main=change(without_kills(module.bytecode))), tmp_path / "m.assay")
    code, said = command(monkeypatch, capsys, "run", tmp_path / "m.assay", "--text")
    assert code == 2 and words in said and "[bytecode.C18]" in said, said
