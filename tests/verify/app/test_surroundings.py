"""What surrounds a command fails: exit code 6, one line, and no verdict on the program."""

from __future__ import annotations

import contextlib
import errno
import io
import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import onnx
import pytest

from assay.verify.app.terminal import LONGEST, Stream, printable
from tests.models import model
from tests.verify.app.test_cli import assay

TEXT = """
@R.function
def main(x: R.Tensor((2,), "float32")) -> R.Tensor((2,), "float32"):
    return R.nn.relu(x)
"""


@pytest.fixture
def relu(tmp_path: Path) -> Path:
    path = tmp_path / "relu.py"
    path.write_text(TEXT)
    return path


def command(*args: object, **more: object) -> subprocess.CompletedProcess[bytes]:
    """The command in a process of its own."""
    line = [sys.executable, "-m", "assay", *map(str, args)]
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(p or os.getcwd() for p in sys.path)}
    return subprocess.run(line, stderr=subprocess.PIPE, check=False, env=env, **more)  # type: ignore[call-overload, no-any-return]


CC: dict[str, tuple[str, str]] = {
    "missing": ("no-such-compiler", "cannot find the compiler 'no-such-compiler'"),
    "quote": ("gcc 'a", "is no command: no closing quotation"),
    "makes nothing": ("true", "has made nothing"),
    "fails": ("false", "does not work: exit code 1"),
    "refuses all": ("gcc --no-such-option", "does not work: "),
    "no program": ("{tmp}/text", "cannot be run: "),
    "is killed": ("{tmp}/killed", "was ended by signal 9"),
    "makes no library": ("{tmp}/copies", "cannot be loaded: "),
    "a part of it is killed": ("{tmp}/part", "failed: gcc: fatal error: Killed signal terminated program cc1"),
    "the disk fills": ("{tmp}/disk", "failed: relu.c:9:1: fatal error: error writing to x.s: No space left on device"),
    "the linker fails": ("{tmp}/linker", "failed: collect2: error: ld returned 1 exit status"),
}
LATE = '#!/bin/sh\ncase "$*" in *nothing.c*) exec gcc "$@";; esac\necho \'%s\' >&2\nexit 1\n'
"""A compiler that fails on larger programs only, with these words."""


@pytest.mark.parametrize("kind", CC)
def test_a_broken_compiler_refutes_nothing(
    kind: str, relu: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    scripts = {
        "text": "int\x00",
        "killed": "#!/bin/sh\nkill -9 $$\n",
        "copies": '#!/bin/sh\nwhile [ "$1" != -o ]; do shift; done\necho no >"$2"\n',
    }
    late = {
        name: said.removeprefix("failed: ")
        for name, said in ((k.removeprefix("{tmp}/"), w) for k, w in CC.values())
        if said.startswith("failed: ")
    }
    for name, script in (scripts | {name: LATE % said for name, said in late.items()}).items():
        (tmp_path / name).write_text(script)
        (tmp_path / name).chmod(0o755)
    cc, says = CC[kind]
    monkeypatch.setenv("CC", cc.format(tmp=tmp_path))
    assert assay(monkeypatch, "check", relu) == 6
    out, err = capsys.readouterr()
    label = "compiled.C1" if kind in ("missing", "quote") else "compiled.C7"
    assert says in err and f"[{label}]" in err and "FAILS" not in out and "fault" not in err and err.count("\n") == 1


def test_generated_c_that_a_working_compiler_refuses_is_still_our_fault(
    relu: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "cc").write_text(
        '#!/bin/sh\ncase "$*" in *nothing.c*) exec gcc "$@";; esac\necho \'relu.c:1: error: oops\' >&2\nexit 1\n'
    )
    (tmp_path / "cc").chmod(0o755)
    monkeypatch.setenv("CC", str(tmp_path / "cc"))
    assert assay(monkeypatch, "check", relu) == 1
    assert "refused generated code: relu.c:1: error: oops" in " ".join(capsys.readouterr().out.split())


def test_no_place_for_temporary_files(
    relu: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    import tempfile

    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "missing"))
    assert assay(monkeypatch, "check", relu) == 6
    assert "cannot work with temporary files" in capsys.readouterr().err


def test_a_full_place_for_temporary_files(
    relu: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A file of ours is begun, and there is no room for what it holds."""

    def full(path: Path, text: str, *more: object, **options: object) -> int:
        path.touch()
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(path))

    monkeypatch.setattr(Path, "write_text", full)
    assert assay(monkeypatch, "check", relu) == 6
    words = capsys.readouterr().err
    assert (
        "cannot work with temporary files" in words
        and "No space left on device; TMPDIR says where they go [output.C5]" in words
    )


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="there is no device that is full")
def test_a_full_standard_output(
    relu: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for args in (["run", relu], ["run", relu, "--text"], ["check", relu, "--json"], ["--help"]):
        with (
            monkeypatch.context() as patch,
            contextlib.suppress(OSError),
            open("/dev/full", "w", encoding="ascii") as full,
        ):
            patch.setattr(sys, "stdout", full)
            assert assay(patch, *args) == 6
        assert (
            capsys.readouterr().err
            == "assay: cannot write to the standard output: No space left on device [output.C6]\n"
        )


def test_a_closed_standard_output(relu: Path) -> None:
    """In processes of their own: nothing may fail when Python ends, and no file may take the place of the stream."""
    read, write = os.pipe()
    os.close(read)
    done = command("run", relu, stdout=write)
    os.close(write)
    assert done.returncode == 6
    assert done.stderr == b"assay: cannot write to the standard output: nobody reads it any more [output.C6]\n"
    done = command("run", relu, preexec_fn=lambda: os.close(1))
    assert done.returncode == 6
    assert done.stderr == b"assay: cannot write to the standard output: it is closed [output.C6]\n"


def test_an_output_on_a_full_disk(
    relu: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "replace", full)
    assert assay(monkeypatch, "run", relu, "--output", tmp_path / "out.npz") == 6
    assert "cannot write: No space left on device" in capsys.readouterr().err


def test_a_terminal_that_is_not_utf8(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """What cannot be shown is shown as its escape; a module is never written wrong."""
    named = tmp_path / "größe_\udcff.py"
    named.write_text(TEXT.replace("x", "größe"))

    def plain(*args: object) -> tuple[int, bytes]:
        kept = io.BytesIO()
        with monkeypatch.context() as patch:
            patch.setattr(sys, "stdout", io.TextIOWrapper(kept, encoding="ascii", errors="strict", write_through=True))
            return assay(patch, *args), kept.getvalue()

    code, out = plain("run", named)
    assert code == 0 and b"gr\\xf6\\xdfe = Tensor" in out
    code, out = plain("run", named, "--text")
    assert code == 6 and not out and "give --output OUT.py" in capsys.readouterr().err
    code, out = plain("--help")
    assert code == 0 and out.isascii() and b"verify" in out
    code, out = plain("check", tmp_path / "fehlt_größe.py")
    assert code == 2 and not out


@pytest.mark.parametrize("columns", ["0", "1", "9" * 5000, "1000000000"])
def test_a_width_that_cannot_be(
    columns: str, relu: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    from assay.verify.app import cli

    monkeypatch.setenv("COLUMNS", columns)
    for args in (["run", str(relu)], ["--help"]):
        monkeypatch.setattr(sys, "argv", ["assay", *args])
        with pytest.raises(SystemExit) as done:
            cli.main()
        out = capsys.readouterr().out
        assert done.value.code == 0 and ("Tensor" in out or "verify" in out) and len(out) < 20_000


def test_what_strangers_wrote_is_cut(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    long = "x" * 10_000_000 + "\x1b[2J"
    made = model(
        [onnx.helper.make_node("Relu", [long], ["y"])], {long: (np.float32, ["n"])}, {"y": (np.float32, ["n"])}
    )
    onnx.save(made, tmp_path / "m.onnx")
    np.savez(tmp_path / "in.npz", other=np.zeros(1, np.float32))
    assert assay(monkeypatch, "check", tmp_path / "m.onnx", "--inputs", tmp_path / "in.npz") == 2
    err = capsys.readouterr().err
    assert len(err) < 2 * LONGEST and "characters more" in err and "\x1b" not in err and "[input.C1]" in err


def test_shown() -> None:
    assert printable("plain größe\nline") == "plain größe\nline"
    assert printable("\x1b[31m\udcff\u202e\0") == "\\x1b[31m\\udcff\\u202e\\x00"
    assert len(printable("y" * 10**6, 100)) < 150


def test_a_stream_fails_once_and_a_silent_one_never(monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[Callable[[], object]] = []

    class Full:
        closed, encoding, errors = False, "ascii", "strict"

        def write(self, text: str) -> int:
            calls.append(self.flush)
            raise OSError(28, "No space left on device")

        def flush(self) -> None:
            raise OSError(28, "No space left on device")

    from assay.semantics.errors import EnvironmentFailure

    stream = Stream(Full())  # type: ignore[arg-type]
    with pytest.raises(EnvironmentFailure):
        stream.write("x")
    assert stream.write("y") == 1 and len(calls) == 1
    Stream(Full(), silent=True).write("x")  # type: ignore[arg-type]
    assert json.dumps("x") and not stream.encodes("ö")
