"""A certificate comes from a stranger: every claim is held to what is found, it is of one model, and nothing outside of
its directory is opened."""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
import zipfile
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest

from assay.verify.app import bound as binding
from assay.verify.border.inputs import load_npz, save
from tests.models import model
from tests.verify.app.test_cli import assay

TEXT = """
@R.function
def main(x: R.Tensor((2, 3), "float32")) -> R.Tensor((2, 3), "float32"):
    y = R.nn.relu(x)
    return R.add(y, R.const([[1, 2, 3]], "float32"))
"""


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A directory with relu.py and what was built of it."""
    folder = tmp_path_factory.mktemp("made")
    (folder / "relu.py").write_text(TEXT)
    with pytest.MonkeyPatch.context() as patch:
        assert assay(patch, "build", folder / "relu.py", "-o", folder / "out") == 0
    return folder


@pytest.fixture
def out(made: Path, tmp_path: Path) -> Path:
    """A copy, to be changed."""
    shutil.copytree(made / "out", tmp_path / "out")
    return tmp_path / "out"


def manifest(out: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((out / "certificate" / "manifest.json").read_text())
    return found


def seal(out: Path, listed: dict[str, Any]) -> None:
    """Write a manifest as a forger would: canonical, with the digests of what is there."""
    files = {
        str(p.relative_to(out)): p
        for p in out.rglob("*")
        if p.is_file() and p.name not in ("manifest.json", "manifest.sig")
    }
    listed["files"] = {n: hashlib.sha256(files[n].read_bytes()).hexdigest() for n in sorted(files)}
    (out / "certificate" / "manifest.json").write_text(json.dumps(listed, indent=1) + "\n")


def said(capsys: pytest.CaptureFixture[str]) -> str:
    found = capsys.readouterr()
    return " ".join(f"{found.out} {found.err}".split())


def rewritten_lines(listed: dict[str, Any]) -> None:
    for line in listed["lines"]:
        line["how"] = "proved"


def another_detail(listed: dict[str, Any]) -> None:
    listed["lines"][-1]["detail"] = "bit for bit what every backend gives, for all inputs"


def another_number(listed: dict[str, Any]) -> None:
    listed["lines"][0]["data"]["nodes"] += 1


def one_more(listed: dict[str, Any]) -> None:
    listed["lines"].append({"stage": "onnxruntime", "did": "", "how": "tested", "holds": True, "detail": "right"})
    listed["about"]["seconds"].append(0.0)


def an_unknown(listed: dict[str, Any]) -> None:
    listed["lines"][8]["holds"] = None


def one_for_true(listed: dict[str, Any]) -> None:
    for line in listed["lines"]:
        line["holds"] = 1


def a_line_of_nothing(listed: dict[str, Any]) -> None:
    listed["lines"].append(None)
    listed["about"]["seconds"].append(0.0)


def another_module(listed: dict[str, Any]) -> None:
    listed["model"]["module"] = "0" * 64


FORGED: list[Callable[[dict[str, Any]], None]] = [
    rewritten_lines,
    another_detail,
    another_number,
    one_more,
    an_unknown,
    one_for_true,
    a_line_of_nothing,
    another_module,
]


@pytest.mark.parametrize("change", FORGED)
def test_a_claim_that_is_not_what_is_found(
    change: Any, out: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    listed = manifest(out)
    change(listed)
    seal(out, listed)
    assert assay(monkeypatch, "verify", out) == 1
    assert "certificate FAILS" in (words := said(capsys)) and "the manifest says of" in words
    ((theirs, mine),) = re.findall(r"the manifest says of \w+: (.*); found: (.*)", words)
    assert theirs != mine and (change is not one_for_true or ('"holds": 1' in theirs and '"holds": true' in mine))


def test_how_long_it_took_and_with_what_is_no_claim(out: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    listed = manifest(out)
    assert set(listed["about"]) == {"seconds", "compiler", "libm"} and not any(
        "seconds" in line for line in listed["lines"]
    )
    listed["about"] = {"seconds": [9.5] * len(listed["lines"]), "compiler": "another", "libm": "another"}
    seal(out, listed)
    assert assay(monkeypatch, "verify", out) == 0


def test_stored_c_is_never_run(out: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """It is compared with what the plan makes; compiling it before would run what a stranger wrote."""
    text = (out / "relu.c").read_text()
    start = text.index("{", text.index("int relu_run("))
    forged = (
        f"extern int puts(const char *);\nextern int system(const char *);\n{text[: start + 1]}\n   "
        f' (void)system("touch {out}/trace");\n{text[start + 1 :]}'
    )
    (out / "relu.c").write_text(forged)
    seal(out, manifest(out))
    assert assay(monkeypatch, "verify", out) == 1
    assert "not the one that the stored plan makes" in said(capsys) and not (out / "trace").exists()


def test_arrays_are_written_in_one_way(
    out: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    path = out / "certificate" / "inputs.npz"
    arrays = load_npz(path)
    np.savez_compressed(path, **arrays)
    seal(out, manifest(out))
    assert assay(monkeypatch, "verify", out) == 1
    assert "inputs.npz is not what would be written" in said(capsys)
    save(path, arrays)
    stored = out / "certificate" / "3-anf.json"
    stored.write_text(stored.read_text().replace(": ", ":  ", 1))
    seal(out, manifest(out))
    assert assay(monkeypatch, "verify", out) == 1
    assert "3-anf.json is not what would be written" in said(capsys)


def test_another_python_writes_the_same_bytes(made: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What `zipfile` and NumPy say of versions and leave room for is settled by theirs."""
    monkeypatch.setattr(zipfile, "ZIP64_VERSION", 46)
    monkeypatch.setattr(zipfile, "DEFAULT_VERSION", 21)
    monkeypatch.setattr(np.lib.format, "write_array", None)
    assert assay(monkeypatch, "verify", made / "out") == 0


# --- refused before anything runs ----------------------------------------------------------------------------------


Refused = Callable[..., str]


@pytest.fixture
def refused(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Refused:
    """What `assay verify` says where it takes a directory for no certificate, with one of these labels."""

    def command(out: Path, *labels: str) -> str:
        assert assay(monkeypatch, "verify", out) == 2
        words = said(capsys)
        assert any(f"[{label}]" in words for label in labels), words
        return words

    return command


def test_a_stored_module_that_is_ill_formed(
    out: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """What is no program refutes nothing: the line import does not fail, and the code is that of bad input."""
    path = out / "certificate" / "1-import.json"
    text = path.read_text().replace('"attrs": {"map": []}, "type_args"', '"attrs": {"map": [["odd", 1]]}, "type_args"')
    assert text != path.read_text()
    path.write_text(text)
    seal(out, manifest(out))
    assert assay(monkeypatch, "verify", out) == 2
    assert "FAILS" not in (words := said(capsys)) and "odd" in words


def test_files_that_are_not_listed(
    out: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for name in ("certificate/extra.smt2", "Makefile", ".hidden"):
        (out / name).write_text("all:\n\techo\n")
        assert assay(monkeypatch, "verify", out) == 2
        assert "is no file of the certificate [certificate.C5]" in said(capsys)
        (out / name).unlink()
    listed = manifest(out)
    (out / "certificate" / "extra.smt2").write_text("(check-sat)\n")
    seal(out, listed)
    assert assay(monkeypatch, "verify", out) == 1, "and listing them does not help"
    assert "extra.smt2 is not the query" in said(capsys)


@pytest.mark.parametrize(
    "name", ["../outside", "/etc/hostname", "certificate/../../outside", "certificate/sub/x", "", "\0", "x\udcff"]
)
def test_paths_that_lead_elsewhere(name: str, out: Path, refused: Refused) -> None:
    (out.parent / "outside").write_text("secret")
    listed = manifest(out)
    listed["files"][name] = hashlib.sha256(b"secret").hexdigest()
    (out / "certificate" / "manifest.json").write_text(json.dumps(listed, indent=1) + "\n")
    refused(out, "certificate.C2")


def test_links_and_fifos_and_folders(out: Path, refused: Refused) -> None:
    target = out / "relu.h"
    text = target.read_text()
    (out.parent / "elsewhere.h").write_text(text)
    kinds: list[Callable[[], object]] = [
        lambda: target.symlink_to(out.parent / "elsewhere.h"),
        lambda: target.symlink_to(target.name),
        lambda: os.mkfifo(target),
        lambda: target.mkdir(),
    ]
    for make in kinds:
        target.unlink(missing_ok=True)
        make()
        assert "a certificate has regular files alone" in refused(out, "certificate.C4")
    target.rmdir()
    target.write_text(text)
    (out / "certificate").rename(out.parent / "moved")
    (out / "certificate").symlink_to(out.parent / "moved")
    refused(out, "certificate.C4")
    (out / "loop").symlink_to(out / "loop")
    refused(out / "loop", "certificate.C4")


def test_nothing_outside_is_opened(out: Path, made: Path) -> None:
    """In a process of its own, which tells every file that it opens from the first line of the check on."""
    code = """
import sys
from pathlib import Path
from assay.verify.app import bound as binding, certificate
seen = []
def hook(event, args):
    if event == "open" and isinstance(args[0], (str, bytes)): seen.append(str(args[0]))
sys.addaudithook(hook)
stored = certificate.Stored(Path(sys.argv[1]))
for s in certificate.with_passes(stored.passes): stored.module(s.name, None)
stored.inputs()
print("\\n".join(seen))
"""
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(p or os.getcwd() for p in sys.path)}
    done = subprocess.run([sys.executable, "-c", code, str(out)], capture_output=True, text=True, check=True, env=env)
    names = {p.name for p in out.rglob("*")} | {str(out)}
    assert {n for n in done.stdout.split() if not n.endswith((".py", ".pyc"))} <= names


@pytest.mark.parametrize(
    "change",
    [
        lambda text: text.replace('"seed": 0', '"seed": 0,\n "seed": 0'),
        lambda text: text.replace("assay-certificate-10", "assay-certificate-9"),
        lambda text: text.replace('"seed": 0', '"seed": false'),
        lambda text: text.replace('"seed": 0', '"seed": 0.0'),
        lambda text: text.replace('"seed": 0', f'"seed": {"9" * 5000}'),
        lambda text: text.replace('"seed": 0', '"seed": 0,\n "more": 0'),
        lambda text: text.replace("\n", "\n\n", 1),
        lambda text: text + "\n",
        lambda text: text.replace('"relu"', '"r\\u0065lu"'),
        lambda text: text.replace('"compiler": "', '"compiler": "' + "x" * 1000),
        lambda text: text.replace('"libm": "', '"libm": 7, "x": "'),
        lambda text: text.replace('"compiler": "', '"compiler": "\\u001b[2J'),
        lambda text: text.replace('"dims": {}', '"dims": {"n": "3"}'),
        lambda text: text.replace('"bounds": {}', '"bounds": {"n": [0, "3"]}'),
        lambda text: text.replace('"file": "', '"file": "x'),
        lambda text: "[" * 100_000,
        lambda text: text.encode("utf-16").decode("latin-1"),
    ],
)
def test_a_manifest_is_written_in_one_way(change: Callable[[str], str], out: Path, refused: Refused) -> None:
    path = out / "certificate" / "manifest.json"
    text = path.read_text()
    assert change(text) != text
    path.write_bytes(change(text).encode("latin-1"))
    refused(out, "certificate.C1", "certificate.C4")


def test_what_nothing_else_hangs_on_is_held_by_the_c_text(
    out: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    path = out / "certificate" / "manifest.json"
    text = path.read_text()
    path.write_text(text.replace('"seed": 0', f'"seed": {2**70}'))
    assert path.read_text() != text and assay(monkeypatch, "verify", out) == 1
    assert "the C text is not the one that the stored plan makes" in " ".join(capsys.readouterr().out.split())
    bound = binding.Bound("f", {"w": "b"}, {"n": 3})
    others = (bound, replace(bound, file="g"), replace(bound, beside={}), replace(bound, dims={"n": 4}))
    assert len({binding.header_digest("m", b, seed) for b in others for seed in (0, 1)}) == 8


def test_what_is_no_utf8(out: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    for name in ("manifest.json", "1-import.json"):
        path = out / "certificate" / name
        kept = path.read_bytes()
        path.write_bytes(b"\xff" + kept)
        if name != "manifest.json":
            seal(out, manifest(out))
        assert assay(monkeypatch, "verify", out) == 2
        assert "is no UTF-8" in said(capsys)
        path.write_bytes(kept)


# --- the model ------------------------------------------------------------------------------------------------------


def test_a_certificate_is_of_one_model(
    made: Path, out: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    listed = manifest(out)
    digest = hashlib.sha256((made / "relu.py").read_bytes()).hexdigest()
    assert (
        listed["model"]["file"] == digest
        and digest in (out / "relu.h").read_text()
        and listed["model"]["module"] in (out / "relu.h").read_text()
    )
    other = tmp_path / "renamed.py"
    other.write_text(TEXT)
    assert assay(monkeypatch, "verify", out, "--model", other) == 0, "the name of the file is no part of it"
    assert "model checked" in said(capsys)
    other.write_text(TEXT.replace("[1, 2, 3]", "[1, 2, 4]"))
    assert assay(monkeypatch, "verify", out, "--model", other) == 1
    assert "model FAILS" in (words := said(capsys)) and "of another file" in words
    listed["model"]["file"] = hashlib.sha256(other.read_bytes()).hexdigest()
    seal(out, listed)
    assert assay(monkeypatch, "verify", out, "--model", other) == 1, "a true digest of another model does not help"
    assert "not the one that the import makes of the file" in said(capsys)


def test_external_data_are_a_part_of_the_model(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    node = onnx.helper.make_node("Add", ["x", "w"], ["y"])
    whole = model([node], {"x": (np.float32, ["n"])}, {"y": (np.float32, ["n"])}, {"w": np.arange(4, dtype=np.float32)})
    path, out = tmp_path / "m.onnx", tmp_path / "out"
    onnx.save(whole, path, save_as_external_data=True, location="m.data", size_threshold=0)
    assert assay(monkeypatch, "build", path, "-o", out, "--dim", "n=4") == 0
    listed = manifest(out)["model"]
    assert listed["beside"] == {"m.data": hashlib.sha256((tmp_path / "m.data").read_bytes()).hexdigest()} and listed[
        "dims"
    ] == {"n": 4}
    assert assay(monkeypatch, "verify", out, "--model", path) == 0
    (tmp_path / "m.data").write_bytes(np.arange(1, 5, dtype=np.float32).tobytes())
    capsys.readouterr()
    assert assay(monkeypatch, "verify", out, "--model", path) == 1
    assert "the certificate is of another m.data" in said(capsys)


# --- signatures -----------------------------------------------------------------------------------------------------


def test_signatures(
    made: Path, out: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("cryptography")
    from cryptography.hazmat.primitives import serialization as s
    from cryptography.hazmat.primitives.asymmetric import ec, ed25519

    def write(name: str, key: Any) -> None:
        (tmp_path / f"{name}.pem").write_bytes(
            key.private_bytes(s.Encoding.PEM, s.PrivateFormat.PKCS8, s.NoEncryption())
        )
        (tmp_path / f"{name}.pub").write_bytes(
            key.public_key().public_bytes(s.Encoding.PEM, s.PublicFormat.SubjectPublicKeyInfo)
        )

    for name in ("mine", "other"):
        write(name, ed25519.Ed25519PrivateKey.generate())
    write("curve", ec.generate_private_key(ec.SECP256R1()))
    signed = tmp_path / "signed"
    assert assay(monkeypatch, "build", made / "relu.py", "-o", signed, "--sign", tmp_path / "mine.pem") == 0
    assert assay(monkeypatch, "verify", signed, "--key", tmp_path / "mine.pub") == 0
    assert "signature checked" in said(capsys)
    for directory, key, why in ((signed, "other", "not one of this manifest"), (out, "mine", "not signed")):
        assert assay(monkeypatch, "verify", directory, "--key", tmp_path / f"{key}.pub") == 1
        assert "signature FAILS" in (words := said(capsys)) and why in words
    os.mkfifo(tmp_path / "fifo")
    assert assay(monkeypatch, "verify", signed, "--key", tmp_path / "fifo") == 2
    assert "[certificate.C6]" in said(capsys)
    signature = signed / "certificate" / "manifest.sig"
    kept = signature.read_bytes()
    for damaged in (b"", kept[:-1], kept + b"\0", bytes([kept[0] ^ 1]) + kept[1:], bytes(64)):
        signature.write_bytes(damaged)
        assert assay(monkeypatch, "verify", signed, "--key", tmp_path / "mine.pub") == 1
        assert "not one of this manifest" in said(capsys)
    signature.write_bytes(kept)
    listed = manifest(signed)
    listed["about"]["compiler"] = "mine"
    seal(signed, listed)
    assert assay(monkeypatch, "verify", signed, "--key", tmp_path / "mine.pub") == 1
    assert "signature FAILS" in said(capsys), "it covers all that the manifest says"
    assert assay(monkeypatch, "verify", signed) == 0, "without a key nobody asks"
    for option, wrong in (("--key", "mine.pem"), ("--key", "curve.pub"), ("--key", "missing"), ("--key", "relu.h")):
        (tmp_path / "relu.h").write_text("no key\x1b")
        assert assay(monkeypatch, "verify", signed, option, tmp_path / wrong) == 2
        assert "[certificate.C6]" in said(capsys)
    assert assay(monkeypatch, "build", made / "relu.py", "-o", tmp_path / "x", "--sign", tmp_path / "curve.pem") == 2
    assert "an Ed25519 key is wanted" in said(capsys) and not (tmp_path / "x").exists()


def test_without_the_package_for_signatures(
    made: Path, out: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(sys.modules, "cryptography.hazmat.primitives.serialization", None)
    for args in (["verify", out, "--key", "key.pem"], ["build", made / "relu.py", "-o", out, "--sign", "key.pem"]):
        assert assay(monkeypatch, *args) == 2
        assert "pip install 'assay[sign]'" in said(capsys)


@pytest.mark.parametrize(("answer", "code", "word"), [("unsat", 0, "cvc5 proved"), ("sat", 1, "cvc5 FAILS")])
def test_a_second_solver_decides_the_proofs(
    answer: str,
    code: int,
    word: str,
    out: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr("assay.verify.api.check.cvc5_module", lambda: None)
    monkeypatch.setattr("assay.verify.memory.second.recheck_questions", lambda text: [answer])
    assert assay(monkeypatch, "verify", out, "--second-opinion") == code
    assert word in said(capsys)


def test_a_second_solver_that_is_not_there_is_said_at_once(
    out: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(sys.modules, "cvc5", None)
    assert assay(monkeypatch, "verify", out, "--second-opinion") == 2
    assert "[smt.C1]" in said(capsys)
