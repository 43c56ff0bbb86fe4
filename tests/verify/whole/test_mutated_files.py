"""Damaged files of every format: refused or judged, never a fault of ours; each of these failed once."""

from __future__ import annotations

import json
import re
import shutil
from collections import Counter
from pathlib import Path

import numpy as np
import onnx
import pytest

from assay import verify as assay_verify
from tests.models import model
from tests.verify.app.test_cli import assay
from tests.verify.whole import mutated_files as m

F = np.float32


@pytest.fixture(scope="module")
def seeds(tmp_path_factory: pytest.TempPathFactory) -> m.Seeds:
    m.watch()
    return m.Seeds(tmp_path_factory.mktemp("seeds"))


def test_a_sample(seeds: m.Seeds, tmp_path: Path) -> None:
    codes: Counter[int] = Counter()
    for number in range(30):
        to = tmp_path / f"{number}" / "case"
        to.mkdir(parents=True)
        case, code, wrong = m.trial(seeds, 7, number, to)
        assert not wrong, f"{number} {case}: {wrong}"
        codes[code] += 1
        shutil.rmtree(to.parent)
    assert codes[0] > 0 and codes[2] > 12, "some of them can still be used, most cannot"


@pytest.mark.campaign
def test_in_process(tmp_path: Path) -> None:
    assert m.campaign(tmp_path, 10_000, 0, commands=False) == {}


@pytest.mark.campaign
def test_as_commands(tmp_path: Path) -> None:
    assert m.campaign(tmp_path, 500, 1, commands=True) == {}


def test_nothing_outside_is_written(seeds: m.Seeds, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "case").mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    place = tmp_path.parent / f"{tmp_path.name}-outside"

    def write(_: list[str]) -> tuple[int, str]:
        with pytest.raises(PermissionError, match="may not write"):
            place.write_text("x")
        return 2, ""

    assert m.trial(seeds, 0, 0, tmp_path / "case", write)[2] == "" and not place.exists()
    assert all("/" not in p or not p.startswith(("/", "..")) for p in m.PLACES)


def test_what_is_wrong_is_seen(seeds: m.Seeds, tmp_path: Path) -> None:
    """The harness itself: a fault of ours, a hang, a file that was not given."""
    said = []

    def reads(_: list[str]) -> tuple[int, str]:
        return 0, Path("/etc/passwd").read_text()[:0]

    for number, run in enumerate(
        [lambda _: (3, "x"), lambda _: (-1, "no end"), lambda _: (1, "Traceback (most"), reads, lambda _: (2, "")]
    ):
        (tmp_path / str(number) / "case").mkdir(parents=True)
        said.append(m.trial(seeds, 0, 0, tmp_path / str(number) / "case", run)[2].partition(":")[0])
    assert said == ["exit 3", "exit -1", "a traceback", "opened /etc/passwd", ""]


def fails(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], *args: object) -> str:
    assert assay(monkeypatch, *args) == 2
    err = capsys.readouterr().err
    assert err.startswith("assay: ") and len(err) < 4_000
    return err


LONG = "9" * 5000


@pytest.mark.parametrize("number", [LONG, "0x" + "f" * 5000])
def test_numbers_of_5000_digits(
    number: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    text = tmp_path / "m.py"
    for old in ("(2, ", "axis=-1"):
        text.write_text(m.PY.replace(old, old.replace("2", number).replace("-1", number), 1))
        fails(monkeypatch, capsys, "run", text)
    text.write_text(m.PY.replace('"n"', f'"n + {number}"', 1))
    fails(monkeypatch, capsys, "run", text)
    text.write_text(m.PY)
    for args in (
        ["run", text, "--dim", f"n={number}"],
        ["prove", text, "--bound", f"n={number}.."],
        ["check", text, "--pools", f"a={number}"],
        ["check", text, "--on", f"cpu:{number}"],
    ):
        fails(monkeypatch, capsys, *args)
    relay = tmp_path / "m.relay"
    for old in ("(2, 3)", "units=4", "1f"):
        relay.write_text(m.RELAY.replace(old, old.replace("3", number).replace("4", number).replace("1", number), 1))
        fails(monkeypatch, capsys, "run", relay)
    csv = tmp_path / "b.csv"
    csv.write_text(m.CSV.replace(",64,", f",{number},"))
    fails(monkeypatch, capsys, "plan", csv)


def test_a_dim_is_given_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "m.py").write_text(m.PY)
    assert "is given twice" in fails(monkeypatch, capsys, "run", tmp_path / "m.py", "--dim", "n=2", "--dim", "n=3")


def test_large_sizes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    for shape in ([0, 2**62], [2**62, 0], [2**63 - 1], [0, 2**62, 2**62]):
        made = model([onnx.helper.make_node("Relu", ["x"], ["y"])], {"x": (F, shape)}, {"y": (F, shape)})
        onnx.save(made, tmp_path / "m.onnx")
        assert assay(monkeypatch, "run", tmp_path / "m.onnx", "-o", tmp_path / "o.npz") in (1, 2, 6)
        assert assay(monkeypatch, "check", tmp_path / "m.onnx") in (1, 2, 6)
        assert "fault" not in capsys.readouterr().err
    (tmp_path / "b.csv").write_text(m.CSV)
    fails(monkeypatch, capsys, "plan", tmp_path / "b.csv", "--pools", f"a={2**64}")


def test_an_npz_with_what_is_no_array(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    import zipfile

    (tmp_path / "m.py").write_text(m.PY)
    for members in ({"x": b"text"}, {"x.npy": b"\x93NUMPY"}, {"../x.npy": b""}):
        with zipfile.ZipFile(tmp_path / "in.npz", "w") as file:
            for name, data in members.items():
                file.writestr(name, data)
        assert "not an .npz of arrays" in fails(
            monkeypatch, capsys, "run", tmp_path / "m.py", "--inputs", tmp_path / "in.npz"
        )


def test_external_data_in_odd_places(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    node = onnx.helper.make_node("Add", ["x", "w"], ["y"])
    made = model([node], {"x": (F, [4])}, {"y": (F, [4])}, {"w": np.ones(4, F)})
    path = tmp_path / "m.onnx"
    onnx.save(made, path, save_as_external_data=True, location="m.data", size_threshold=0)
    whole = path.read_bytes()
    (tmp_path / "loop.d").symlink_to(tmp_path / "loop.d")
    for place in (b"loop.d", b"\xff.data", b"../..d", b"/dev/0", b"\0.data"):
        path.write_bytes(whole.replace(b"m.data", place))
        assert "[onnx.C1" in fails(monkeypatch, capsys, "run", path, "-o", tmp_path / "o.npz")


DEEP = "[" * 200_000


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("{}", "it has no 'target'"), (m.FAILURE.replace('"[0]"', "[0]"), "where a str is wanted"),
            (m.FAILURE.replace('["add"]', '"add"', 1), "where a list is wanted"),
        ("[]", "where a dict is wanted"), (f'{{"number": {LONG}}}', "5000 digits"), (DEEP, "too deep"),
            (m.FAILURE * 2, "Extra data"),
    ],
    ids=["empty", "no text", "no list", "no object", "digits", "deep", "twice"],
)  # fmt: skip
def test_a_corpus_that_is_none(
    text: str, said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "a.json").write_text(text)
    err = fails(monkeypatch, capsys, "fuzz", "--backend", "values", "--corpus", tmp_path, "--replay")
    assert "a.json: not a file of a corpus: " in err and said in err and "[fuzz.C2]" in err


def test_the_state_of_a_campaign(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Read again and checked; what was begun and is not ended stays so where a run ends before it."""
    path = tmp_path / "campaign-values.json"
    args = (
        "fuzz",
        "--backend",
        "values",
        "--corpus",
        tmp_path,
        "--operators",
        "add",
        "--features",
        "",
        "--size",
        2,
        "--examples",
        0,
        "--jobs",
        1,
    )
    path.write_text(m.CAMPAIGN)
    assert assay(monkeypatch, *args) == 0
    before = json.loads(m.CAMPAIGN)  # as it was written when a campaign had one backend
    own = {key: before.pop(key) for key in ("kinds", "operators", "constructs", "layers")}
    of = {before.pop("target"): {**own, "avoided": [], "pending": []}}
    found = json.loads(path.read_text())
    assert found.pop("seconds") < 60  # which was not kept then
    assert found == {**before, "targets": [*of], "of": of}
    for old, new in (
        ('"next": 4', '"next": "4"'),
        ('"open": [2]', '"open": 2'),
        ('"right": 3', '"right": null'),
        ('"seed": 0,', ""),
    ):
        path.write_text(m.CAMPAIGN.replace(old, new))
        assert "[fuzz.C2]" in fails(monkeypatch, capsys, *args)


@pytest.mark.parametrize(
    "option",
    ["--seconds=nan", "--seconds=-1", "--patience=nan", "--patience=-1", "--examples=-1", "--jobs=1001", "--jobs=0"],
)
def test_numbers_of_a_campaign(
    option: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    name, _, number = option.partition("=")
    assert f"{name} is {number}" in fails(monkeypatch, capsys, "fuzz", "--backend", "values", option)


@pytest.mark.parametrize("limit", ["inf", "1e400", "1e300"])
def test_a_time_without_end(limit: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "b.csv").write_text(m.CSV)
    assert assay(monkeypatch, "plan", tmp_path / "b.csv", "--time-limit", limit) == 0


def test_a_section_of_metadata_that_is_too_deep(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for name, text in (
        ("m.relay", m.RELAY_STORED.replace('{"root": 1', f'{{"root": {DEEP}')),
        ("m.py", m.PY_STORED.replace('"nodes": [', f'"nodes": {DEEP}')),
    ):
        (tmp_path / name).write_text(text)
        assert "the section metadata is not of the form" in fails(monkeypatch, capsys, "run", tmp_path / name)


def test_a_place_is_said_as_it_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """`:100:` names an emoji where a terminal is told by rich."""
    (tmp_path / "m.relay").write_text(m.RELAY.replace("\n", "\n" * 99, 1).replace("nn.dense", "$"))
    assert "m.relay:101:8: '$' is no part" in fails(monkeypatch, capsys, "run", tmp_path / "m.relay")
    (tmp_path / "m.relay").write_text(m.RELAY.replace("\n", "\n" * 98, 1).replace("nn.dense", "$"))
    assert "m.relay:100:8: '$' is no part" in fails(monkeypatch, capsys, "run", tmp_path / "m.relay")


def test_all_is_said_by_one_console() -> None:
    rooms = Path(assay_verify.__file__).parent
    assert {
        p.name for p in rooms.rglob("*.py") if re.search(r"import .*\bConsole\b|Console\(", p.read_text("utf-8"))
    } == {"terminal.py"}


WIDE = '@R.function\ndef main(x: R.Tensor((1,), "float32")) -> R.Tensor((), "float32"):\n    return R.sum({})\n'


@pytest.mark.parametrize(
    ("value", "run", "check", "label"),
    [
        (f"R.reshape(x, {(1,) * 63})", 0, 0, ""),
        (f"R.reshape(x, {(1,) * 64})", 0, 2, "check.C2"),
        # ends the process in NumPy
        (f"R.take(R.reshape(x, {(1,) * 40}), R.zeros({(1,) * 40}, 'int64'), axis=0)", 6, 2, "check.C2"),
        (f"A.tensor('float32', {(1,) * 65}, 'AAAAAA==')", 2, 2, "text.C6"),
        (f"A.tensor('float32', (0, {2**62}, 4), '')", 2, 2, "text.C6"),
        (f"R.zeros((0, {2**58}), 'float32')", 0, 2, "check.C2"),
    ],
    ids=["63 axes", "64 axes", "taken", "a constant", "an empty one", "empty"],
)  # fmt: skip
def test_more_axes_than_an_array_has(
    value: str,
    run: int,
    check: int,
    label: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    (tmp_path / "m.py").write_text(WIDE.format(value))
    assert assay(monkeypatch, "run", tmp_path / "m.py") == run
    capsys.readouterr()
    assert assay(monkeypatch, "check", tmp_path / "m.py") == check
    assert label in capsys.readouterr().err


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ('"data": "0"', '"data": 1e400'),
        ('"device_type_int": "1"', '"device_type_int": Infinity'),
        ('"target": "0"', '"target": NaN'),
        ('"repr_str": ""', '"repr_str": 5'),
        ('"repr_str": ""', '"repr_str": [1]'),
    ],
)
def test_metadata_of_other_types(
    old: str, new: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "m.relay").write_text(m.RELAY_STORED.replace(old, new))
    assert "[relay.C4]" in fails(monkeypatch, capsys, "check", tmp_path / "m.relay")


@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_a_command_in_a_child(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its exit code and what it says are those of a process; a traceback is seen."""
    (tmp_path / "case").mkdir()
    monkeypatch.chdir(tmp_path / "case")
    code, said = m.run_forked(["run", "nothing.py"])
    assert code == 2 and said.startswith("assay: nothing.py: ")

    def broken() -> None:
        raise RuntimeError("planted")

    monkeypatch.setattr("assay.verify.app.cli.main", broken)
    code, said = m.run_forked(["run", "nothing.py"])
    assert code == 1 and "Traceback" in said and "planted" in said


@pytest.mark.parametrize("doubling", [False, True])
def test_sizes_may_be_made_in_many_steps(
    doubling: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """One concatenation of another, deep; and each of the one before twice, which is 2^42 sizes."""
    lines, count = [], 42 if doubling else 1500
    for i in range(0, 2 * count, 2):
        lines += [f"  %{i + 1} = ({', '.join([f'%{i}'] * (1 + doubling))},);", f"  %{i + 2} = concatenate(%{i + 1});"]
    text = [
        '#[version = "0.0.5"]',
        "def @main(%x: Tensor[(2), float32]) {",
        '  %0 = shape_of(%x, dtype="int64");',
        *lines,
    ]
    (tmp_path / "m.relay").write_text("\n".join([*text, f"  dyn.reshape(%x, %{2 * count}, newshape=[])", "}"]))
    assert assay(monkeypatch, "run", tmp_path / "m.relay", "--text") == (2 if doubling else 0)
    assert (
        "4,398,046,511,104 sizes; 64 are the most" in capsys.readouterr().err
        if doubling
        else "R.reshape(x, R.shape([2]))" in capsys.readouterr().out
    )
