"""`--json` of every command, and its schema (specs/verify.md, "Command line")."""

from __future__ import annotations

import json
from pathlib import Path

import onnx
import pytest
from onnx import parser
from typer.main import get_command

from assay.verify.app.cli import app
from tests.published import SCHEMA, complaints, schema
from tests.verify.app.test_cli import assay


def test_the_schema_is_one() -> None:
    from jsonschema import Draft202012Validator

    Draft202012Validator.check_schema(schema())
    assert SCHEMA.parent.name == "specs"


def test_every_command_has_a_format_and_the_option() -> None:
    commands = get_command(app).commands  # type: ignore[attr-defined]
    assert {f"assay-{name}-1" for name in (*commands, "error")} == set(schema()["properties"]["format"]["enum"])
    for name, command in commands.items():
        assert any("--json" in p.opts for p in command.params), name


RELU = parser.parse_model(
    '<ir_version: 8, opset_import: ["" : 18]> g (float[n, 4] x) => (float[n, 4] y) { y = Relu(x) }'
)
GOOD = {"format": "assay-check-1", "model": "m", "seed": 0, "holds": True, "lines": [], "summary": "all 0 lines hold"}
LINE = {"stage": "anf", "did": "", "how": "proved", "holds": True, "detail": "", "seconds": 0.1}


@pytest.mark.parametrize(
    "planted",
    [
        {"holds": "yes"},
        {"extra": 1},
        {"seed": None},
        {"lines": [{**LINE, "how": "guessed"}]},
        {"lines": [{**LINE, "outcome": "fine"}]},
        {"lines": [{"stage": "anf"}]},
        {"error": "no", "holds": True, "exit": 2},
        {"error": "no", "holds": None},
        {"error": "no", "holds": None, "exit": 7},
        {"format": "assay-nothing-1"},
    ],
    ids=str,
)
def test_a_wrong_answer_is_refused(planted: dict[str, object]) -> None:
    assert not complaints(GOOD) and not complaints({**GOOD, "lines": [LINE]})
    assert complaints({**GOOD, **planted})


def test_a_number_that_json_has_not_is_refused() -> None:
    with pytest.raises(ValueError, match="JSON"):
        complaints({**GOOD, "seed": float("nan")})


@pytest.mark.parametrize(
    ("words", "code", "says"),
    [
        (["prov"], 2, {"format": "assay-error-1", "holds": None}),
        (["prove", "--bogus"], 2, {"format": "assay-prove-1", "holds": None}),
        (["prove", "--operator", "nn.relu"], 0, {"format": "assay-prove-1", "operator": "nn.relu", "holds": True}),
        (["prove", "--operator", "nn.rely"], 2, {"format": "assay-prove-1", "holds": None}),
        (["prove", "MODEL", "--rules"], 0, {"format": "assay-prove-1", "holds": True}),
        (["reduce", "MODEL", "--backend", "numpy", "-o", "OUT"], 0, {"format": "assay-reduce-1", "holds": True}),
        (["reduce", "MODEL", "-o", "OUT"], 2, {"format": "assay-reduce-1", "holds": None, "cases": []}),
        (["operators", "nn.relu"], 0, {"format": "assay-operators-1"}),
        (["build", "MODEL", "-o", "B", "--stop"], 2, {"format": "assay-build-1", "holds": None}),
    ],
    ids=lambda v: " ".join(v) if isinstance(v, list) else "",
)
def test_what_commands_write(
    words: list[str], code: int, says: dict[str, object], place: Path, monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    monkeypatch.chdir(place)
    capsys.readouterr()
    assert assay(monkeypatch, *words, "--json") == code
    found = json.loads(capsys.readouterr().out)
    assert next(iter(found)) == "format" and found.items() >= says.items()
    assert found.get("exit", code) == code


def test_proofs_and_the_directory_that_keeps_them(
    place: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    found = []
    for words in ([place / "MODEL", "--out", place / "DIR"], [place / "DIR"]):
        capsys.readouterr()
        assert assay(monkeypatch, "prove", *words, "--json") == 0
        found.append(json.loads(capsys.readouterr().out))
    assert found[0]["verdict"] == "proved" and found[0]["sizes"] == "for every n in 0.."
    assert [f["function"] for f in found[0]["functions"]] == ["nn_relu"]
    assert found[1]["holds"] is True and found[1]["differs"] == []


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a model, MODEL, in which the commands run one after another."""
    made = tmp_path_factory.mktemp("answers")
    onnx.save(RELU, made / "MODEL")
    return made
