"""Weights that are too large to be copied: mapped by C from their file, beside the text, and lowered in little more
memory than their own (specs/lower.md, "c"; specs/semantics.md, "Text")."""

from __future__ import annotations

import ctypes
import json
import os
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from assay.lower.c import emit
from assay.semantics.analyses.equality import structural_equal
from assay.semantics.bits import same_bits
from assay.semantics.builder import Builder, tensor
from assay.semantics.dtypes import FLOAT32
from assay.semantics.errors import Crash, Invalid, Unsupported
from assay.semantics.module import Module
from assay.semantics.tensor import AllocateConst, Buffer, PrimFunc, loops, store
from assay.semantics.text.external_data import LARGEST
from assay.semantics.text.module_text import parse, read_module, show, write_module
from assay.verify.app.cli import main
from assay.verify.c.compiled import Compiled, compile_c
from assay.verify.c.tools import STRICT, status_name
from tests.lower.constants.constant_programs import X, adding, constants, total
from tests.places import ROOT
from tests.verify.whole import big_module

# --- a blob, mapped by C ------------------------------------------------------------------------------------------


class Weights(ctypes.Structure):
    _fields_ = [("data", ctypes.c_void_p), ("bytes", ctypes.c_size_t), ("memory", ctypes.c_void_p)]


MAPPED, READ = STRICT, (*STRICT, "-DM_NO_MMAP")


@pytest.fixture(scope="module", params=[MAPPED, READ], ids=["mapped", "read"])
def compiled(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Compiled:
    source = emit(adding(constants(3)), "m", inline_limit=0)
    return compile_c(source, reproducible=True, flags=request.param, directory=tmp_path_factory.mktemp("blob"))


def opened(compiled: Compiled, path: Path) -> tuple[str, Weights]:
    """What the generated loader says of a file, and what it hands out."""
    found = Weights()
    call = compiled.loaded.m_open_weights
    call.argtypes, call.restype = [ctypes.c_void_p, ctypes.c_char_p], ctypes.c_int
    status = call(ctypes.byref(found), bytes(path))
    return status_name(status), found


def closed(compiled: Compiled, weights: Weights) -> None:
    call = compiled.loaded.m_close_weights
    call.argtypes, call.restype = [ctypes.c_void_p], None
    call(ctypes.byref(weights))


@pytest.mark.row("C9")
def test_weights_are_mapped_and_run(compiled: Compiled) -> None:
    """What the loader hands out is what the entry takes; on POSIX it is the file itself, and cannot be written."""
    path = compiled.library.with_name("m.weights")
    status, found = opened(compiled, path)
    assert status == "OK" and found.bytes == path.stat().st_size and found.data % 64 == 0
    x, y, work = np.zeros(72, np.float32), np.zeros(72, np.float32), np.zeros(4096, np.uint8)
    at = [a.ctypes.data + -a.ctypes.data % 64 for a in (x, y, work)]
    ctypes.memmove(at[0], X.ctypes.data, X.nbytes)
    assert compiled.call(*at, found.data) == "OK"
    got = np.frombuffer(ctypes.string_at(at[1], X.nbytes), np.float32)
    assert same_bits(got, total(list(constants(3).values())))
    maps = Path("/proc/self/maps")
    for line in maps.read_text().splitlines() if maps.is_file() else ():
        assert str(path) not in line or line.split()[1].startswith("r--")
    closed(compiled, found)
    assert not found.data and not found.memory
    closed(compiled, found)  # twice is once


def test_the_two_ways_differ() -> None:
    """One maps the file, the other does not: the test above tests both."""
    source = emit(adding(constants(3)), "m", inline_limit=0)
    for flags, mapped in ((MAPPED, True), (READ, False)):
        c = compile_c(source, reproducible=True, flags=flags)
        path = c.library.with_name("m.weights")
        _, found = opened(c, path)
        maps = Path("/proc/self/maps")
        if not maps.is_file():
            pytest.skip("this system does not list what is mapped")
        assert (str(path) in maps.read_text()) == mapped
        closed(c, found)
        assert str(path) not in maps.read_text()


def cut(path: Path) -> None:
    os.truncate(path, path.stat().st_size - 1)


def longer(path: Path) -> None:
    path.write_bytes(path.read_bytes() + b"\0")


def changed(path: Path) -> None:
    data = bytearray(path.read_bytes())
    data[40] ^= 1
    path.write_bytes(data)


def stale(path: Path) -> None:
    """That of the model before: the same size, other numbers."""
    old = emit(adding({n: a + 1 for n, a in constants(3).items()}), "m", inline_limit=0)
    assert old.weights is not None
    old.weights.write(path)


def folder(path: Path) -> None:
    path.unlink()
    path.mkdir()


@pytest.mark.row("C9")
@pytest.mark.parametrize(
    ("spoil", "status"),
    [(cut, "BAD_WEIGHTS"), (longer, "BAD_WEIGHTS"), (changed, "BAD_WEIGHTS"), (stale, "BAD_WEIGHTS"),
     (Path.unlink, "NO_WEIGHTS"), (folder, "NO_WEIGHTS"), (lambda p: p.write_bytes(b""), "BAD_WEIGHTS")],
)  # fmt: skip
def test_wrong_weights_are_an_error(
    compiled: Compiled, tmp_path: Path, spoil: Callable[[Path], Any], status: str
) -> None:
    path = tmp_path / "m.weights"
    path.write_bytes(compiled.library.with_name("m.weights").read_bytes())
    assert opened(compiled, path)[0] == "OK"
    spoil(path)
    said, found = opened(compiled, path)
    assert said == status or (spoil is folder and said == "BAD_WEIGHTS")
    assert not found.data and not found.memory


def test_more_bytes_than_addresses_are_refused_by_the_compiler() -> None:
    """The check of the size is no empty one: it fails where a size_t cannot count the bytes and their alignment."""
    source = emit(adding(constants(3)), "m", inline_limit=0)
    assert source.weights is not None
    for size, fits in (("18446744073709551551ull", True), ("18446744073709551552ull", False)):
        header = source.header.replace(f"M_WEIGHTS_BYTES {source.weights.nbytes}u", f"M_WEIGHTS_BYTES {size}")
        if fits:
            compile_c(replace(source, header=header), reproducible=True, flags=("-std=c99",))
        else:
            with pytest.raises(Crash, match="negative"):
                compile_c(replace(source, header=header), reproducible=True, flags=("-std=c99",))


# --- beside the text ----------------------------------------------------------------------------------------------


def two_large() -> Module:
    """One in the table, one where it is used, each just too large for a text; and one that is not."""
    rng = np.random.default_rng(0)
    side = 129
    b = Builder()
    table = b.table("table", rng.standard_normal((side, side)).astype(np.float32))
    with b.function("main", x=tensor(2, side)) as f:
        y = b.matmul(b.matmul(f.x, table), rng.standard_normal((side, side)).astype(np.float32))
        b.result(b.add(y, rng.standard_normal(side).astype(np.float32)))
    assert side * side * 4 > LARGEST
    return b.module()


@pytest.mark.row("C10", "R30")
def test_large_constants_are_beside_the_text(tmp_path: Path) -> None:
    module, path = two_large(), tmp_path / "m.py"
    write_module(module, path)
    assert path.stat().st_size < 4096 and (tmp_path / "m.py.tensors").stat().st_size > 2 * LARGEST
    assert path.read_text().count("A.stored(") == 2
    back = read_module(path)
    assert structural_equal(module, back) and not back.constants["table"].flags.writeable
    assert structural_equal(parse(path.read_text(), folder=tmp_path), module)
    maps = Path("/proc/self/maps")
    if maps.is_file():
        assert "m.py.tensors" in maps.read_text()
    write_module(back, path)  # over the file that it is mapped from
    assert structural_equal(read_module(path), back)
    small = Builder()
    with small.function("main", x=tensor(2)) as f:
        small.result(f.x)
    write_module(small.module(), path)
    assert sorted(p.name for p in tmp_path.iterdir()) == ["m.py"]


@pytest.mark.row("R30")
def test_a_text_without_a_file_can_be_read_by_people_only() -> None:
    text = show(two_large())
    assert len(text) < 4096 and 'A.stored("float32", (129, 129), None, "' in text
    with pytest.raises(Invalid, match="was left out when this text was printed") as wrong:
        parse(text)
    assert wrong.value.label == "text.C34"


@pytest.mark.row("R30")
@pytest.mark.parametrize(
    ("spoil", "label", "said"),
    [(Path.unlink, "text.C33", "cannot be read"), (cut, "text.C33", "the text was written beside one of"),
     (longer, "text.C33", "the text was written beside one of"), (changed, "store.C2", "do not have their digest")],
)  # fmt: skip
def test_another_file_beside_the_text_is_refused(
    tmp_path: Path, spoil: Callable[[Path], Any], label: str, said: str
) -> None:
    path = tmp_path / "m.py"
    write_module(two_large(), path)
    spoil(tmp_path / "m.py.tensors")
    with pytest.raises(Invalid, match=said) as wrong:
        read_module(path)
    assert wrong.value.label == label and "m.py" in str(wrong.value)


@pytest.mark.parametrize(
    ("old", "new", "label"),
    [
        ("A.beside(", "A.names({}) if 0 else A.beside(", "text.C13"),
        ("'m.py.tensors'", "'../m.py.tensors'", "text.C33"),
        (", 133120)", ")", "text.C6"),
        ("(129, 129), 0,", "(129, 129000), 0,", "store.C1"),
        ("(129, 129), 0,", "(129, 129), -64,", "store.C1"),
        ("(129, 129), 0,", "(129, -1), 0,", "text.C6"),
        ("(129, 129), 0,", "(129, 129), 64,", "store.C2"),
    ],
)
def test_a_text_that_names_something_else_is_refused(tmp_path: Path, old: str, new: str, label: str) -> None:
    path = tmp_path / "m.py"
    write_module(two_large(), path)
    text = path.read_text()
    if "133120" in old:
        old = text[text.index("tensors'") + 8 : text.index("\n", text.index("tensors'"))]
    assert old in text
    with pytest.raises(Invalid) as wrong:
        parse(text.replace(old, new), folder=tmp_path)
    assert wrong.value.label == label


def test_a_text_that_does_not_say_where_asks() -> None:
    with pytest.raises(Invalid, match="in which folder"):
        parse('class Module:\n    A.beside("w", 1)\n'.replace("class", "@I.ir_module\nclass"))


def test_a_large_constant_inside_a_tensor_function_belongs_into_the_table() -> None:
    data = np.zeros(LARGEST, np.float32)
    c, out = Buffer("c", (LARGEST,), FLOAT32), Buffer("out", (LARGEST,), FLOAT32)
    body = AllocateConst(c, data, loops("i", (LARGEST,), lambda i: store(out, i, c[i])))
    with pytest.raises(Unsupported, match="in the module's table") as wrong:
        show(Module({"f": PrimFunc("f", (out,), 1, body)}))
    assert wrong.value.label == "text.C35"


def test_the_command_line_reads_and_writes_both(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_module(two_large(), tmp_path / "m.py")
    monkeypatch.setattr(
        sys, "argv", ["assay", "run", str(tmp_path / "m.py"), "--text", "-o", str(tmp_path / "again.py")]
    )
    with pytest.raises(SystemExit) as done:
        main()
    assert not done.value.code
    assert structural_equal(read_module(tmp_path / "again.py"), two_large())


# --- memory -------------------------------------------------------------------------------------------------------


def measured(megabytes: int, directory: Path, *more: str) -> dict[str, int]:
    root = ROOT
    env = {**os.environ, "PYTHONPATH": os.pathsep.join([str(root / ".src"), str(root)])}
    command = [sys.executable, "-m", big_module.__name__, str(megabytes), str(directory), *more]
    done = subprocess.run(command, env=env, cwd=root, check=True, capture_output=True, text=True)
    found: dict[str, int] = json.loads(done.stdout)
    return found


@pytest.mark.row("C9", "C10")
def test_a_module_lowers_within_twice_its_weights(tmp_path: Path) -> None:
    """All stages, the C, its blob, and the stored module, at 96 megabytes. Three of the sixteen weights are one."""
    found = measured(96, tmp_path)
    assert 0 <= found["blob"] - found["weights"] * 14 // 16 < 64 * 16
    assert found["lowered"] - found["before"] < 2 * found["weights"]


@pytest.mark.campaign
@pytest.mark.row("C9", "C10")
@pytest.mark.parametrize("checked", [(), ("check",)])
def test_a_gigabyte_lowers_within_twice_its_weights(tmp_path: Path, checked: tuple[str, ...]) -> None:
    """With every check of every stage too, and a run of the machine."""
    found = measured(1024, tmp_path, *checked)
    assert found["peak"] < 2 * found["weights"]


@pytest.mark.row("C3")
def test_large_modules_are_compared_by_identity_first() -> None:
    """Two modules with the same arrays are equal at once; with others, as far as the first piece that differs, and
    nothing is made into text or copied (apache/tvm#13091, #16301)."""
    a = np.zeros(1 << 24, np.float32)
    looked: list[int] = []

    class Watched(np.ndarray[Any, Any]):
        def tobytes(self, *args: Any) -> bytes:
            looked.append(1)
            return super().tobytes(*args)

    watched = a.view(Watched)
    assert structural_equal(Module({}, {"w": watched}), Module({}, {"w": watched}))
    assert not structural_equal(Module({}, {"w": watched}), Module({}, {"w": watched + 1}))
    assert not looked
