"""What the command line says of kernels that are proved (specs/verify.md, "legalize")."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from assay.verify.app.cli import main

MODEL = """
from tvm.script import ir as I
from tvm.script import relax as R

@I.ir_module
class Module:
    @R.function
    def main(x: R.Tensor(({n}, 5), dtype="float32"), w: R.Tensor((5, 4), dtype="float32")):
        with R.dataflow():
            a = R.nn.relu(R.add(x, x))
            b = {last}
            R.output(b)
        return b
"""


def command(monkeypatch: pytest.MonkeyPatch, *args: str) -> int:
    monkeypatch.setattr("sys.argv", ["assay", *args])
    with pytest.raises(SystemExit) as stopped:
        main()
    return int(stopped.value.code or 0)


@pytest.mark.parametrize(
    ("n", "last", "how", "said"),
    [
        (
            "3",
            "R.matmul(a, w)",
            "proved",
            "3 of 3 proved equal for every input, 1 of them up to the order of additions",
        ),
        ('"n"', "R.matmul(a, w)", "proved", "1 of them up to the order of additions; 3 of 3 for all sizes"),
        ('"n"', "A.topk(a, k=1)[0]", "tested", "at up to 4 sizes; 2 of 3 for all sizes"),
        ("3", "A.topk(a, k=1)[0]", "tested", "2 of 3 proved equal for every input;"),
        (
            "3",
            "A.sinh(a)",
            "proved",
            "3 of 3 proved equal for every input, 1 but for the last bits of elementary functions",
        ),
    ],
)
def test_check_says_how_many_kernels_are_proved(
    n: str,
    last: str,
    how: str,
    said: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    path = tmp_path / "model.py"
    path.write_text(MODEL.format(n=n, last=last), "utf-8")
    assert command(monkeypatch, "check", str(path), "--stop-after", "legalize", "--json") == 0
    (line,) = [s for s in json.loads(capsys.readouterr().out)["lines"] if s["stage"] == "legalize"]
    assert line["how"] == how and said in line["detail"], line


@pytest.mark.parametrize(
    ("name", "code", "said"),
    [
        ("matmul", 0, "out[i, j] = sum(k < M: a[i, k] * b[k, j])"),
        ("nn.relu", 0, "nn.relu: proved for all sizes, every input, bit for bit"),
        ("add", 0, "for all sizes, bit for bit"),
        ("topk", 4, "argsort has no rule for terms"),
        ("reshape", 0, "is a view"),
    ],
)
def test_prove_shows_an_operator(
    name: str, code: int, said: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert command(monkeypatch, "prove", "--operator", name) == code
    assert said in " ".join(capsys.readouterr().out.split())


@pytest.mark.parametrize(
    ("args", "label"),
    [(("--operator", "nn.rely"), "prove.C2"), ((), "prove.C1"), (("f.py", "--operator", "add"), "prove.C1")],
)
def test_what_is_to_be_proved_is_said_once(
    args: tuple[str, ...], label: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert command(monkeypatch, "prove", *args) == 2
    assert label in capsys.readouterr().err
