"""Executables of bytecode as files: what is written is read, and nothing else; damaged ones are refused."""

from __future__ import annotations

import hashlib
import os
import struct
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from assay.interp.graph.session import Session
from assay.interp.vm import run as vm_run
from assay.semantics import bytecode as vm
from assay.semantics.bytecode.code_form import Companion
from assay.semantics.bytecode.decode import decode_bytecode
from assay.semantics.bytecode.encode import encode_bytecode, number_bytes
from assay.semantics.dtypes import FLOAT32, INT32
from assay.semantics.errors import Invalid
from assay.semantics.module import Module
from assay.semantics.rules import broken, check
from assay.semantics.scalar import Var
from assay.semantics.store import ArrayWriter
from assay.semantics.types import DataType, TensorType, TupleType, TypeVar
from assay.verify.api.check import build, verify
from assay.verify.app import executable
from assay.verify.app.certificate import MANIFEST
from assay.verify.app.packed import HEAD, MAGIC, Packed, pack_folder
from tests.inputs import read_npz
from tests.verify.app.executable_mutants import Seed, campaign, resealed

GROWING = """n = TypeVar("n")
@I.ir_module
class Module:
    @R.function
    def down(i: R.Tensor((), "int64"), x: R.Tensor((n, 2), "float32")) -> R.Tensor((n, 2), "float32"):
        if R.greater(i, R.const(0, "int64")):
            r = Module.down(R.subtract(i, R.const(1, "int64")), R.add(x, x))
        else:
            r = x
        return r
    @R.function
    def main(i: R.Tensor((), "int64"), x: R.Tensor((n, 2), "float32")):
        y = Module.down(i, x)
        return R.concat((y, R.matmul(y, R.const([[1.,2.],[3.,4.]], "float32"))), axis=0)
"""
CLOSURE = """#[version = "0.0.5"]
type Pair[A] { Both(A, A), }
def @main(%x: Tensor[(3), float32], %y: Tensor[(3), float32]) {
  let %f = fn (%z: Tensor[(3), float32]) { add(%z, %x) };
  let %p = Both(%f(%y), %y);
  match (%p) { Both(%a, %b) => (%f(%a), %b), }
}
"""
TREES = """#[version = "0.0.5"]
type Tree[A] { Leaf(A), Node(Tree[A], (A, A), Tree[A]), }
def @map[A, B](%f: fn (A) -> B, %t: Tree[A]) -> Tree[B] {
  match (%t) {
    Leaf(%a) => Leaf(%f(%a)),
    Node(%l, (%a, %b), %r) => Node(@map(%f, %l), (%f(%a), %f(%b)), @map(%f, %r)),
  }
}
def @first[A](%t: Tree[A]) -> A {
  match (%t) { Leaf(%a) => %a, Node(Leaf(%a), _, _) => %a, Node(_, (%a, _), _) => %a, }
}
def @main(%x: Tensor[(3), float32], %n: int32) {
  let %c = ref(%x);
  let %add = fn (%a: Tensor[(3), float32]) {
    let %old = ref_read(%c);
    let %u = ref_write(%c, add(%old, %a));
    (%old, (add(%a, %x), %n))
  };
  let %t = Node(Leaf(%x), (%x, %x), Node(Leaf(%x), (%x, %x), Leaf(%x)));
  let %m = @map(%add, %t);
  let %p = @first(%m);
  if (less(%n, 0)) { (%p.0, %p.1.0, ref_read(%c)) } else { (%p.1.0, %p.0, ref_read(%c)) }
}
"""


@pytest.fixture(scope="module")
def seeds(tmp_path_factory: pytest.TempPathFactory) -> list[Seed]:
    place = tmp_path_factory.mktemp("executables")
    x = np.float32([[1, 2], [3, 4]])
    found = []
    for name, text, inputs in (
        ("grow.py", GROWING, {"i": np.int64(2), "x": x}),
        ("closure.relay", CLOSURE, {"x": x[0].repeat(2)[:3], "y": x[1].repeat(2)[1:]}),
        ("trees.relay", TREES, {"x": x[0].repeat(2)[:3], "n": np.int32(1)}),
    ):
        (place / name).write_text(text, "utf-8")
        out = (place / name).with_suffix(".assay")
        assert build(place / name, out, vm=True).holds
        found.append(Seed(out, inputs))
    return found


def test_what_is_written_is_read(seeds: list[Seed], tmp_path: Path) -> None:
    for seed in seeds:
        assert verify(seed.path).holds
        executable.save_executable(seed.module, tmp_path / "a.assay")
        executable.save_executable(executable.load(tmp_path / "a.assay"), tmp_path / "b.assay")
        assert (tmp_path / "a.assay").read_bytes() == (tmp_path / "b.assay").read_bytes()


def test_damaged_files(seeds: list[Seed], tmp_path: Path) -> None:
    ends, wrong = campaign(seeds, 80, 0, tmp_path)
    assert wrong == []
    assert sum(n for e, n in ends.items() if e.startswith("refused bytecode")) > 8
    assert sum(n for e, n in ends.items() if e.startswith("refused store")) > 2
    assert ends["refused packed.C3"] > 5 and sum(n for e, n in ends.items() if e.startswith("ran")) > 5


@pytest.mark.campaign
def test_many_damaged_files(seeds: list[Seed], tmp_path: Path) -> None:
    ends, wrong = campaign(seeds, 10_000, 1_000, tmp_path)
    print(ends)
    assert wrong == []


# --- the container ------------------------------------------------------------------------------------------------


def place_of(path: Path, data: bytes) -> Path:
    path.write_bytes(data)
    return path


@pytest.mark.parametrize(
    ("label", "word", "change"),
    [
        ("packed.C2", "no file that", lambda d: b"" + d[1:]),
        ("packed.C2", "version 7", lambda d: d[: len(MAGIC)] + struct.pack("<I", 7) + d[len(MAGIC) + 4 :]),
        ("packed.C3", "has changed", lambda d: d[:-1] + bytes([d[-1] ^ 1])),
        ("packed.C4", "inside of its head", lambda d: d[: HEAD - 1]),
        ("packed.C4", "inside of its table", lambda d: resealed(d[: HEAD + 5])),
        ("packed.C4", "members, and 1000", lambda d: resealed(d[:HEAD] + b"\xff\xff\xff\xff" + d[HEAD + 4 :])),
        ("packed.C4", "the members end here", lambda d: resealed(d + b"\0")),
        ("packed.C4", "would end at byte", lambda d: resealed(d[:-1])),
        ("packed.C4", "not in order", lambda d: resealed(d.replace(b"bytecode.bin", b"zytecode.bin", 1))),
        ("packed.C4", "no name", lambda d: resealed(d.replace(b"bytecode.bin", b"byte\xffode.bin", 1))),
        ("packed.C4", "has no", lambda d: resealed(d.replace(b"bytecode.bin", b"bytecode.bim", 1))),
    ],
)
def test_a_file_that_is_none(
    seeds: list[Seed], tmp_path: Path, label: str, word: str, change: Callable[[bytes], bytes]
) -> None:
    with pytest.raises(Invalid, match=word) as caught:
        executable.load(place_of(tmp_path / "m.assay", change(seeds[0].data)))
    assert caught.value.label == label


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(Invalid, match=r"no such file \[packed.C1\]"):
        Packed(tmp_path / "m.assay")


def test_padding_is_of_zeros(tmp_path: Path) -> None:
    (tmp_path / "d").mkdir()
    (tmp_path / "d" / "a").write_bytes(b"1")
    pack_folder(tmp_path / "d", tmp_path / "m.assay")
    data = bytearray((tmp_path / "m.assay").read_bytes())
    data[-2] = 1
    with pytest.raises(Invalid, match=r"not 0 \[packed.C4\]"):
        Packed(place_of(tmp_path / "m.assay", resealed(bytes(data))))


# --- the bytes of the code ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("label", "word", "change"),
    [
        ("bytecode.C1", "no bytecode", lambda d: b"X" + d[1:]),
        ("bytecode.C1", "version 9", lambda d: d[:4] + b"\x09" + d[5:]),
        ("bytecode.C2", "ends inside", lambda d: d[:-1]),
        ("bytecode.C2", "more than the code", lambda d: d + b"\0"),
        ("bytecode.C3", "more bytes than it needs", lambda d: d[:4] + b"\x81\x00" + d[5:]),
        ("bytecode.C3", "more than 10 bytes", lambda d: d[:5] + b"\xff" * 10 + b"\1"),
        ("bytecode.C3", "a list of", lambda d: d[:5] + number_bytes(1 << 40) + d[6:]),
        ("bytecode.C4", "no UTF-8", lambda d: d[:7] + b"\xff" + d[8:]),
        ("bytecode.C4", "twice", lambda d: d[:5] + b"\x02\x01a\x01a\0\0\0\0\0\0"),
        ("bytecode.C5", "text 9", lambda d: d[:5] + b"\x01\x01a\x01\x09"),
        ("bytecode.C5", "row 99", lambda d: d[:5] + b"\x01\x01a\x01\x00\x01\x63"),
        ("bytecode.C5", "and no Type", lambda d: d[:5] + b"\x01\x01a\x01\x00\x01\x01"),
    ],
)
def test_bytes_that_are_no_code(seeds: list[Seed], label: str, word: str, change: Callable[[bytes], bytes]) -> None:
    code, beside = encode_bytecode(seeds[0].module)
    rows = (TensorType((), INT32), Var("n")) if label == "bytecode.C5" else beside.rows
    with pytest.raises(Invalid, match=word) as caught:
        decode_bytecode(change(code), Companion(beside.module, rows))
    assert caught.value.label == label


def test_code_that_is_written_otherwise(seeds: list[Seed]) -> None:
    code, beside = encode_bytecode(seeds[0].module)
    with pytest.raises(Invalid, match=r"rows are not just those.*bytecode\.C6"):
        decode_bytecode(code, Companion(beside.module, (*beside.rows, Var("n"))))
    with pytest.raises(Invalid, match=r"not as it would be written.*bytecode\.C6"):
        decode_bytecode(_with_text_at_end(code), beside)


def _with_text_at_end(code: bytes) -> bytes:
    """The code with a text in its table that nothing names."""
    at = 6
    for _ in range(code[5]):
        at += 1 + code[at]
    return code[:5] + number_bytes(code[5] + 1) + code[6:at] + b"\x06nobody" + code[at:]


# --- well-formed --------------------------------------------------------------------------------------------------


def edited(module: Module, kind: type[vm.Instruction], **fields: object) -> Module:
    """The module with other fields in the first instruction of a kind."""
    code = module.bytecode
    for f in code.functions.values():
        for k, i in enumerate(f.body):
            if isinstance(i, kind):
                body = (*f.body[:k], replace(i, **fields), *f.body[k + 1 :])
                return with_function(module, replace(f, body=body))
    raise AssertionError(kind)


def with_function(module: Module, function: vm.BytecodeFunction) -> Module:
    """The module with another function of a name."""
    code = module.bytecode
    return module.with_(main=replace(code, functions={**code.functions, function.name: function}))


def with_code(module: Module, **fields: object) -> Module:
    """The module with other fields of its executable."""
    return module.with_(main=replace(module.bytecode, **fields))


def with_main(module: Module, **fields: object) -> Module:
    """The module with other fields of the function main."""
    return with_function(module, replace(module.bytecode.main, **fields))


N = Var("stranger")
RULES: list[tuple[str, str, int, Callable[[Module], Module]]] = [
    ("bytecode.C7", "no function main", 0, lambda m: with_code(m, functions={})),
    ("bytecode.C7", "inputs have names", 0, lambda m: with_code(m, inputs=("x",))),
    ("bytecode.C7", "two inputs have one name", 0, lambda m: with_code(m, inputs=("x", "x"))),
    ("bytecode.C7", "two outputs have one name", 1, lambda m: with_code(m, outputs=("x", "x"))),
    ("bytecode.C7", "is no input", 0, lambda m: with_code(m, devices={"z": m.bytecode.host})),
    ("bytecode.C7", "filled by a closure", 0, lambda m: with_main(m, captured=1)),
    ("bytecode.C8", "and is there", 0, lambda m: with_code(m, late={next(iter(m.constants)): TensorType((), FLOAT32)})),
    ("bytecode.C8", "of no shape", 0, lambda m: with_code(m, late={"w": TensorType((N,), FLOAT32)})),
    ("bytecode.C9", "in 1 registers", 0, lambda m: with_main(m, registers=1)),
    ("bytecode.C9", "inherited", 0, lambda m: with_main(m, inherited=9)),
    ("bytecode.C9", "has a name", 0, lambda m: with_main(m, names={999: "x"})),
    ("bytecode.C10", "register 999", 0, lambda m: edited(m, vm.MatchType, of=999)),
    ("bytecode.C10", "register 999", 0, lambda m: edited(m, vm.Kill, registers=(999,))),
    ("bytecode.C10", "register 999", 0, lambda m: edited(m, vm.LoadConstant, to=999)),
    ("bytecode.C11", "a jump to 0", 0, lambda m: edited(m, vm.JumpUnless, target=0)),
    ("bytecode.C11", "a jump to 999", 0, lambda m: edited(m, vm.JumpUnless, target=999)),
    ("bytecode.C12", "neither returns", 0, lambda m: with_main(m, body=m.bytecode.main.body[:-1])),
    ("bytecode.C12", "no instructions", 0, lambda m: with_main(m, body=())),
    ("bytecode.C13", "constant other", 0, lambda m: edited(m, vm.LoadConstant, name="other")),
    ("bytecode.C13", "function other", 0, lambda m: edited(m, vm.InvokeFunction, function="other")),
    ("bytecode.C13", "function other", 1, lambda m: edited(m, vm.MakeClosure, function="other")),
    ("bytecode.C13", "tensor function other", 0, lambda m: edited(m, vm.InvokeKernel, kernel="other")),
    ("bytecode.C13", "constructor other", 1, lambda m: edited(m, vm.MakeData, constructor="other")),
    ("bytecode.C13", "constructor other", 1, lambda m: edited(m, vm.JumpUnlessMade, constructor="other")),
    ("bytecode.C14", "no size of the function", 0, lambda m: edited(m, vm.MatchType, binds=(N,))),
    ("bytecode.C14", "below 0", 0, lambda m: edited(m, vm.AllocateTensor, type=TensorType((-1,), FLOAT32))),
    ("bytecode.C14", "more than 64 bits", 0, lambda m: edited(m, vm.AllocateStorage, nbytes=1 << 70)),
    ("bytecode.C14", "var of float32 in a size", 0, lambda m: edited(m, vm.AllocateStorage, nbytes=Var("s", FLOAT32))),
    ("bytecode.C14", "no data type other", 0, lambda m: edited(m, vm.InvokeFunction, type=DataType("other"))),
    ("bytecode.C14", "no type parameter", 0, lambda m: edited(m, vm.InvokeFunction, type=TupleType((TypeVar("A"),)))),
    ("bytecode.C14", "A is no type here", 0, lambda m: edited(m, vm.InvokeFunction, type=TypeVar("A"))),
    ("bytecode.C15", "no alignment", 0, lambda m: edited(m, vm.AllocateStorage, alignment=3)),
    ("bytecode.C16", "the size stranger", 0, lambda m: edited(m, vm.AllocateStorage, nbytes=N)),
    ("bytecode.C16", "holds nothing", 0, lambda m: edited(m, vm.InvokeFunction, arguments=(5, 6))),
    ("bytecode.C17", "2 arguments, and 1", 0, lambda m: edited(m, vm.InvokeFunction, arguments=(0,))),
    ("bytecode.C17", "captured values", 1, lambda m: edited(m, vm.MakeClosure, captured=())),
    ("bytecode.C17", "outputs", 0, lambda m: edited(m, vm.InvokeKernel, writes=())),
    ("bytecode.C17", "fields", 1, lambda m: edited(m, vm.MakeData, fields=(0,))),
]


@pytest.mark.parametrize(("label", "word", "which", "change"), RULES, ids=[f"{r[0]}-{r[1]}" for r in RULES])
def test_code_that_is_ill_formed(
    seeds: list[Seed], label: str, word: str, which: int, change: Callable[[Module], Module]
) -> None:
    module = seeds[which].module
    check(module)
    found = [w for w in broken(change(module)) if w.label == label and word in str(w)]
    assert found, [str(w) for w in broken(change(module))]


# --- sessions and late constants ----------------------------------------------------------------------------------


@pytest.mark.row("R27", "J21")
def test_a_session_over_bytecode(seeds: list[Seed], tmp_path: Path) -> None:
    session = Session(seeds[0].module)
    x = np.float32([[1, 2]])
    session.set_input(0, np.int64(1))
    session.set_input("x", x)
    session.invoke()
    assert session.output().tolist() == [[2, 4], [14, 20]] and session.input_index("x") == 1
    with pytest.raises(Invalid, match=r"unknown input 'z'; the inputs are i, x \[input.C1\]"):
        session.set_input("z", x)
    with pytest.raises(Invalid, match="no output 'z'; the outputs are output_0"):
        session.output("z")
    session.save_function("warm", "main", x=x)
    session.save_function("done", "warm", np.int64(0))
    x[:] = 9
    check(session.module)
    executable.save_executable(session.module, tmp_path / "m.assay")
    again = Session(executable.load(tmp_path / "m.assay"))
    again.invoke("warm", i=np.int64(1))
    assert again.output(0).tolist() == [[2, 4], [14, 20]]
    again.invoke("done")
    assert again.output(0).tolist() == [[1, 2], [7, 10]]
    with pytest.raises(Invalid, match=r"has main, down, warm, done \[vm.C11\]"):
        again.invoke("other", 1)
    with pytest.raises(Invalid, match=r"session\.C4"):
        session.save_function("down")


@pytest.mark.row("J20")
def test_constants_that_are_bound_late(seeds: list[Seed], tmp_path: Path) -> None:
    source, out, late = seeds[0].path.with_suffix(".py"), tmp_path / "m.assay", tmp_path / "late.npz"
    assert build(source, out, vm=True, late_constants=late).holds
    module = executable.load(out)
    given = read_npz(late)
    assert list(module.bytecode.late) == list(given) and not module.constants
    other = {n: a + a.dtype.type(1) for n, a in given.items()}
    for wrong, label in (({}, "vm.C8"), ({**given, "z": other}, "vm.C9")):
        with pytest.raises(Invalid) as caught:
            executable.bound(module, wrong)
        assert caught.value.label == label
    name, array = next(iter(given.items()))
    with pytest.raises(Invalid, match=r"vm\.C10"):
        executable.bound(module, {**given, name: array.astype(np.int16)})
    session = Session(executable.bound(module, other))
    session.invoke("main", np.int64(1), np.float32([[1, 2]]))
    assert session.output().shape == (2, 2)
    assert verify(out, constants=given).holds
    with pytest.raises(Invalid, match=r"another than the one.*certificate\.C3"):
        verify(out, constants=other)
    with pytest.raises(Invalid, match=r"vm\.C8"):
        verify(out)


def forged(path: Path, folder: Path, module: Module) -> Path:
    """The file with other bytecode, and with all digests made again."""
    files = Packed(path)
    made = folder / "forged"
    with open(os.devnull, "wb") as nowhere:  # the tensors are those of the file
        new = dict(executable.written(module, ArrayWriter(nowhere)))
    text = files.text(MANIFEST)
    for name in files.names:
        (made / name).parent.mkdir(parents=True, exist_ok=True)
        (made / name).write_bytes(new.get(name) or files.read(name))
        text = text.replace(files.digest(name), hashlib.sha256(new[name]).hexdigest()) if name in new else text
    (made / MANIFEST).write_text(text, "utf-8")
    pack_folder(made, folder / "forged.assay")
    return folder / "forged.assay"


@pytest.mark.row("R11")
def test_a_legal_other_program_is_refused_by_verify(seeds: list[Seed], tmp_path: Path) -> None:
    module = seeds[0].module
    (call,) = [i for i in module.bytecode.main.body if isinstance(i, vm.InvokeKernel) and i.kernel == "concat"]
    other = with_main(
        module, body=tuple(replace(i, reads=i.reads[::-1]) if i is call else i for i in module.bytecode.main.body)
    )
    path = forged(seeds[0].path, tmp_path, other)
    assert vm_run(executable.load(path), seeds[0].inputs)["output_0"].tolist() != seeds[0].wanted["output_0"]
    found = verify(path)
    assert found.holds is False and found.lines[-1].stage == "vm"
    assert verify(forged(seeds[0].path, tmp_path / "same", module)).holds
