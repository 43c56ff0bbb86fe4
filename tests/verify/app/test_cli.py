"""The command line as a person meets it: exit codes, one clear line for bad input, no traceback, nothing half
written."""

from __future__ import annotations

import json
import re
import shutil
import sys
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

from assay.verify.app.cli import main
from tests.inputs import read_npz
from tests.models import model, small_cnn


def assay(monkeypatch: pytest.MonkeyPatch, *args: object) -> int:
    """The exit code of the command."""
    monkeypatch.setattr(sys, "argv", ["assay", *map(str, args)])
    monkeypatch.setenv("COLUMNS", "200")
    with pytest.raises(SystemExit) as done:
        main()
    return int(done.value.code or 0)


@pytest.fixture
def cnn(tmp_path: Path) -> Path:
    path = tmp_path / "small.cnn.onnx"
    onnx.save(small_cnn(), path)
    return path


@pytest.fixture(scope="module")
def build(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A directory that `assay build` has made, to be copied."""
    place = tmp_path_factory.mktemp("build")
    onnx.save(small_cnn(), place / "small.cnn.onnx")
    with pytest.MonkeyPatch.context() as monkeypatch:
        assert assay(monkeypatch, "build", place / "small.cnn.onnx", "-o", place / "built") == 0
    return place / "built"


def test_check_prints_a_line_a_stage(
    cnn: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert assay(monkeypatch, "check", cnn) == 0
    out = capsys.readouterr().out
    stages = [
        "import",
        "devices",
        "anf",
        "legalize",
        "fuse",
        "constants",
        "schedule",
        "liveness",
        "pool",
        "c",
        "compare",
    ]
    assert re.findall(r"^(\w+) .* s  ", out, re.MULTILINE) == stages
    assert out.splitlines()[-1].startswith("all 11 lines hold; proved for every input")
    assert re.search(r"pool +proved +[\d.]+ s +\d+ to \d+ bytes; bound \d+, ratio \d\.\d+", out)


def test_check_as_json(cnn: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    assert assay(monkeypatch, "check", cnn, "--json", "--seed", 3) == 0
    data = json.loads(capsys.readouterr().out)
    assert data["holds"] is True and data["seed"] == 3
    pool = next(line for line in data["lines"] if line["stage"] == "pool")
    assert pool["data"]["pool_bytes"] >= pool["data"]["lower_bound"] > 0


def test_seed_fixes_the_inputs(cnn: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, seed in (("a", 1), ("b", 1), ("c", 2)):
        assert assay(monkeypatch, "run", cnn, "--seed", seed, "-o", tmp_path / f"{name}.npz") == 0
    a, b, c = (read_npz(tmp_path / f"{n}.npz") for n in "abc")
    assert all(a[n].tobytes() == b[n].tobytes() for n in a)
    assert any(a[n].tobytes() != c[n].tobytes() for n in a)


def test_wrong_expected_output_is_exit_1(
    cnn: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assay(monkeypatch, "run", cnn, "-o", tmp_path / "out.npz")
    capsys.readouterr()
    assert assay(monkeypatch, "check", cnn, "--stop-after", "import", "--expected", tmp_path / "out.npz") == 0
    wrong = {n: a + np.float32(0.01) for n, a in read_npz(tmp_path / "out.npz").items()}
    np.savez(tmp_path / "wrong.npz", **wrong)
    assert assay(monkeypatch, "check", cnn, "--stop-after", "import", "--expected", tmp_path / "wrong.npz") == 1
    assert "expected     FAILS" in capsys.readouterr().out


def test_build_then_verify(
    build: Path, cnn: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    out = Path(shutil.copytree(build, tmp_path / "built"))
    assert {p.name for p in out.iterdir()} == {"small_cnn.c", "small_cnn.h", "certificate"}
    capsys.readouterr()
    assert assay(monkeypatch, "verify", out) == 0
    assert "certificate  checked" in capsys.readouterr().out
    assert assay(monkeypatch, "build", cnn, "-o", out) == 0, "a build may be built again"


@pytest.mark.row("A15", "A16")
def test_a_build_in_another_convention(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """It is checked through that convention, and the certificate says which one it is."""
    out = tmp_path / "built"
    path = saved(tmp_path, [helper.make_node("Softmax", ["x"], ["s"]), helper.make_node("Add", ["s", "x"], ["y"])])
    assert assay(monkeypatch, "build", path, "-o", out, "--interface", "packed", "--device", "npu") == 0
    header = (out / "m.h").read_text()
    assert "m_functions[]" in header and "m_device_npu_open(" in header
    assert assay(monkeypatch, "verify", out) == 0
    manifest = out / "certificate" / "manifest.json"
    listed = json.loads(manifest.read_text())
    assert (listed["interface"], listed["device"]) == ("packed", "npu")
    for change in ({"interface": "c-packed"}, {"device": ""}):
        manifest.write_text(json.dumps({**listed, **change}, indent=1) + "\n")
        capsys.readouterr()
        assert assay(monkeypatch, "verify", out) == 1
        assert "not the one that the stored plan makes" in " ".join(capsys.readouterr().out.split())
    manifest.write_text(json.dumps({**listed, "interface": "other"}, indent=1) + "\n")
    assert "not a certificate" in fails(monkeypatch, capsys, "verify", out)


@pytest.mark.parametrize(
    "name", ["small_cnn.c", "certificate/8-liveness.json", "certificate/tensors.bin", "certificate/pool.smt2"]
)
def test_tampering_is_found(
    name: str, build: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """First with the old digests, then with digests made to match: the checks themselves must find it."""
    import hashlib

    out = Path(shutil.copytree(build, tmp_path / "built"))
    data = (out / name).read_bytes()
    match name:
        case "small_cnn.c":
            start = data.index(b"nn_conv2d")
            changed = data[:start] + data[start:].replace(b" < 3;", b" < 2;", 1)
        case "certificate/8-liveness.json":
            changed = re.sub(
                rb'("workspace", "live": \[\[\d+, )(\d+)', lambda m: m[1] + b"%d" % (int(m[2]) - 1), data, count=1
            )
        case "certificate/tensors.bin":
            changed = bytes([data[0] ^ 1]) + data[1:]
        case _:
            changed = data.replace(b"(assert (or", b"(assert (and false", 1)
    assert changed != data
    (out / name).write_bytes(changed)
    capsys.readouterr()
    assert assay(monkeypatch, "verify", out) == 2
    assert "has changed since the certificate was made [certificate.C3]" in capsys.readouterr().err
    manifest = out / "certificate" / "manifest.json"
    listed = json.loads(manifest.read_text())
    listed["files"][name] = hashlib.sha256(changed).hexdigest()
    manifest.write_text(json.dumps(listed, indent=1) + "\n")
    assert assay(monkeypatch, "verify", out) in (1, 2)
    said = capsys.readouterr()
    assert "FAILS" in said.out or "assay: " in said.err


# --- bad input: one line, exit 2 ---------------------------------------------------------------------------------


def fails(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], *args: object, code: int = 2) -> str:
    """The one line of a command that must end with exit code 2, or another."""
    capsys.readouterr()
    assert assay(monkeypatch, *args) == code
    err = capsys.readouterr().err
    assert "Traceback" not in err
    lines = err.strip().splitlines()
    assert len(lines) == 1 and lines[0].startswith("assay: "), err
    return lines[0]


@pytest.mark.parametrize(
    "contents", [None, b"", b"hello, this is no model", b"\x08\x03\x12"], ids=["missing", "empty", "text", "short"]
)
def test_not_a_model(
    contents: bytes | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "bad.onnx"
    if contents is not None:
        path.write_bytes(contents)
    for command in (["check"], ["run", "-o", tmp_path / "o.npz"], ["build", "-o", tmp_path / "d"]):
        assert "bad.onnx" in fails(monkeypatch, capsys, *command, path)
    assert sorted(p.name for p in tmp_path.iterdir()) == ([] if contents is None else ["bad.onnx"])


def test_truncated_at_every_part(
    cnn: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    data = cnn.read_bytes()
    for part in (0.1, 0.5, 0.9, 0.99):
        (tmp_path / "short.onnx").write_bytes(data[: int(len(data) * part)])
        fails(monkeypatch, capsys, "check", tmp_path / "short.onnx")


def saved(tmp_path: Path, nodes: list[onnx.NodeProto], inputs: dict | None = None, **more: object) -> Path:
    made = model(nodes, inputs or {"x": (np.float32, [2, 3])}, {"y": (np.float32, None)}, **more)  # type: ignore[arg-type]
    path = tmp_path / "m.onnx"
    onnx.save(made, path)
    return path


def test_unknown_operator(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    line = fails(
        monkeypatch, capsys, "check", saved(tmp_path, [helper.make_node("Frobnicate", ["x"], ["y"], "nodename")])
    )
    assert all(word in line for word in ("Frobnicate", "nodename", "17"))


def test_unsupported_dtype(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    path = saved(tmp_path, [helper.make_node("Identity", ["x"], ["y"])], {"x": (TensorProto.STRING, [2])})
    assert "STRING" in fails(monkeypatch, capsys, "check", path).upper()


def test_cycle_and_double_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    cycle = [
        helper.make_node("Add", ["x", "b"], ["a"]),
        helper.make_node("Relu", ["a"], ["b"]),
        helper.make_node("Relu", ["b"], ["y"]),
    ]
    assert "cycl" in fails(monkeypatch, capsys, "check", saved(tmp_path, cycle))
    double = [helper.make_node("Relu", ["x"], ["y"]), helper.make_node("Exp", ["x"], ["y"])]
    assert "twice" in fails(monkeypatch, capsys, "check", saved(tmp_path, double))


def test_inputs(cnn: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    given = tmp_path / "in.npz"
    for arrays, word in (
        ({"wrong": np.zeros(3, np.float32)}, "unknown input"),
        ({"x": np.zeros((1, 2), np.float32)}, "expected"),
        ({"x": np.zeros((1, 3, 32, 32), np.float64)}, "expected"),
    ):
        arrays = {("x" if n == "x" else n): a for n, a in arrays.items()}
        name = small_cnn().graph.input[0].name
        np.savez(given, **{(name if n == "x" else n): a for n, a in arrays.items()})
        assert word in fails(monkeypatch, capsys, "check", cnn, "--inputs", given)
    given.write_bytes(b"PK\x03\x04 not a zip")
    fails(monkeypatch, capsys, "run", cnn, "--inputs", given, "-o", tmp_path / "o.npz")
    fails(monkeypatch, capsys, "run", cnn, "--inputs", tmp_path / "none.npz", "-o", tmp_path / "o.npz")
    assert not (tmp_path / "o.npz").exists()


def test_names_that_mean_something_to_others(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Names of tensors are data: an argument of NumPy's functions, a dtype behind a colon, a word of C."""
    nodes = [helper.make_node("Relu", ["x:float32"], ["file"]), helper.make_node("Neg", ["int"], ["allow_pickle"])]
    shape = (np.float32, [2, 3])
    made = model(nodes, {"x:float32": shape, "int": shape}, {"file": shape, "allow_pickle": shape})
    path = tmp_path / "names.onnx"
    onnx.save(made, path)
    assert assay(monkeypatch, "run", path, "-o", tmp_path / "o.npz") == 0
    assert sorted(read_npz(tmp_path / "o.npz")) == ["allow_pickle", "file"]
    assert assay(monkeypatch, "build", path, "-o", tmp_path / "d") == 0
    assert assay(monkeypatch, "verify", tmp_path / "d") == 0


def test_exotic_dtypes_travel(tmp_path: Path) -> None:
    import ml_dtypes

    from assay.verify.border.inputs import load_npz, save

    arrays = {
        "a": np.arange(3).astype(ml_dtypes.bfloat16),
        "b:int8": np.arange(4, dtype=np.int8).astype(ml_dtypes.int4),
    }
    save(tmp_path / "a.npz", arrays)
    again = load_npz(tmp_path / "a.npz")
    assert {n: (a.dtype, a.tobytes()) for n, a in again.items()} == {
        n: (a.dtype, a.tobytes()) for n, a in arrays.items()
    }


def test_a_certificate_with_less(
    cnn: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "built"
    assay(monkeypatch, "build", cnn, "-o", out)
    manifest = out / "certificate" / "manifest.json"
    whole = json.loads(manifest.read_text())
    for changed in ({**whole, "files": {}}, {**whole, "seed": -1}, {**whole, "name": "../x"}):
        manifest.write_text(json.dumps(changed, indent=1) + "\n")
        assert "not a certificate" in fails(monkeypatch, capsys, "verify", out)
    manifest.write_text("[" * 100_000)
    assert "not a certificate" in fails(monkeypatch, capsys, "verify", out)


def test_symbolic_input_needs_no_size(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    path = saved(tmp_path, [helper.make_node("Relu", ["x"], ["y"])], {"x": (np.float32, ["N", 3])})
    assert assay(monkeypatch, "check", path) == 0
    assert "at N = 0, 1, 2, 7" in " ".join(capsys.readouterr().out.split())
    assert assay(monkeypatch, "check", path, "--dim", "N=4") == 0
    said = fails(monkeypatch, capsys, "check", path, "--dim", "N")
    assert "NAME=N" in said and "[cli.C1]" in said


def test_paths_that_cannot_be_written(
    cnn: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "file").write_text("mine")
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "mine").write_text("mine")
    fails(monkeypatch, capsys, "run", cnn, "-o", tmp_path / "file" / "o.npz")
    fails(monkeypatch, capsys, "run", cnn, "-o", tmp_path / "no" / "such" / "o.npz")
    fails(monkeypatch, capsys, "build", cnn, "-o", tmp_path / "file" / "d")
    said = fails(monkeypatch, capsys, "build", cnn, "-o", tmp_path / "full")
    assert "not empty" in said and "[output.C2]" in said
    fails(monkeypatch, capsys, "build", cnn, "-o", tmp_path / "file")
    assert (tmp_path / "file").read_text() == "mine" and (tmp_path / "full" / "mine").read_text() == "mine"


def test_no_c_compiler(
    cnn: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("CC", "no-such-compiler")
    assert "no-such-compiler" in fails(monkeypatch, capsys, "check", cnn, code=6)
    assert "compiler" in fails(monkeypatch, capsys, "build", cnn, "-o", tmp_path / "d", code=6)
    assert not (tmp_path / "d").exists()


def test_other_mistakes(
    cnn: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert "onnxruntime" in fails(monkeypatch, capsys, "check", cnn, "--backend", "magic")
    assert "no certificate" in fails(monkeypatch, capsys, "verify", tmp_path)
    assert "no certificate" in fails(monkeypatch, capsys, "verify", tmp_path / "none")
    (tmp_path / "certificate").mkdir()
    (tmp_path / "certificate" / "manifest.json").write_text("[1]")
    assert "not a certificate" in fails(monkeypatch, capsys, "verify", tmp_path)
