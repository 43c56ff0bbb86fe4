"""What was found in other runtimes still shows in the versions in which it was found, and what is said to be right is
right."""

from __future__ import annotations

import ast
import re
import runpy
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnx.defs
import onnx.helper
import onnx.parser
import pytest

from assay.semantics.errors import Unsupported
from assay.semantics.left_open.entries import BY_NAME
from assay.verify.backends import backend, subject_of_model
from assay.verify.oracle import judge_backend, oracle_of
from tests.docs import seen
from tests.docs.findings import PAGES, findings_page, shown
from tests.docs.left_open_cases import CASES as LEFT_OPEN, GIVES, RAN, Case
from tests.docs.seen import (
    PROGRAMS,
    TOOLS,
    differ,
    findings,
    installed,
    is_outcome,
    judged,
    outcome,
    table,
    with_versions,
)
from tests.places import SPECS
from tests.verify.app.ladder import run

ROOT = SPECS / "findings"
CASES = [path for name in TOOLS if name not in PROGRAMS for path in findings(name)]


@pytest.mark.peer
@pytest.mark.parametrize("path", CASES, ids=lambda p: f"{p.parent.name}-{p.stem}")
def test_it_is_as_recorded(path: Path) -> None:
    """Run with whatever is installed. Of a version that nobody has recorded it is said what comes of it."""
    there = installed(path.parent.name)
    if there is None:
        pytest.skip(f"{TOOLS[path.parent.name]} is not installed")
    holds, line = judged(path, there, outcome(path), table())
    if holds is None:
        pytest.skip(line)
    assert holds, line


def test_a_finding_that_does_not_behave_as_recorded_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Planted findings of a tool, in three versions: one that shows, one that is mended, one that is refused."""
    folder = tmp_path / "planted-1.0"
    folder.mkdir()
    values = {"1_shows": "np.array([2.0])", "2_mended": "np.array([1.0])", "3_refused": "1 / 0"}
    for name, value in values.items():
        (folder / f"{name}.py").write_text(
            f"import numpy as np\nRIGHT = np.array([1.0])\nWITHIN = 0.0\ndef given():\n    return {value}\n"
        )
    csv = tmp_path / "seen.csv"
    csv.write_text("finding,tool,version,outcome\nplanted-1.0/2_mended,planted,1.0,shows\n")
    monkeypatch.setattr(seen, "FINDINGS", tmp_path)
    monkeypatch.setattr(seen, "TABLE", csv)
    monkeypatch.setattr(seen, "TOOLS", {"planted-1.0": "planted"})
    monkeypatch.setattr(seen.table, "__defaults__", (csv,))
    monkeypatch.setattr(seen.record, "__defaults__", (csv,))
    monkeypatch.setattr(seen, "ROOT", tmp_path)
    monkeypatch.setattr(seen, "version", lambda tool: "2.0")
    assert [o for p in findings("planted-1.0") for o in [outcome(p)]] == ["shows", "mended", "refused"]
    assert seen.main([]) == 0, "nothing is recorded of 2.0"
    assert "2_mended: not known yet for planted 2.0: mended" in capsys.readouterr().out
    assert seen.main(["--record"]) == 0 and len(table(csv)) == 4
    page = with_versions("# A page\n\n## Differences\n\nkept\n", "planted-1.0", "## Differences")
    assert "| case | 1.0 | 2.0 |" in page and "| 2_mended | shows | mended |" in page and page.endswith("kept\n")
    assert with_versions(page, "planted-1.0", "## Differences") == page
    assert with_versions(with_versions("# B\n", "planted-1.0", ""), "planted-1.0", "").count("## Versions") == 1
    (folder / "1_shows.py").write_text((folder / "2_mended.py").read_text())
    assert seen.main([]) == 1
    assert "1_shows: planted 2.0: mended, recorded is shows" in capsys.readouterr().out
    assert judged(folder / "1_shows.py", "2.0", "mended", table(csv))[0] is False


@pytest.mark.parametrize(
    ("flags", "found", "holds"),
    [("fma avx2", "shows", True), ("fma avx2", "mended", False), ("avx2 avx_vnni", "mended", True),
     ("avx2 avx512_vnni", "shows", False), (None, "shows", None), (None, "mended", None),
     ("fma avx2", "refused", False)],
)  # fmt: skip
def test_a_finding_may_hang_on_the_processor(
    flags: str | None, found: str, holds: bool | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The instructions of a processor decide whether it shows; `--record` keeps the word where it agrees."""
    said = "shows without avx_vnni or avx512_vnni"
    assert is_outcome(said) and is_outcome("shows with avx512f")
    assert not any(map(is_outcome, ("shows with", "shows on avx2", "mended with avx2", "shows with avx2 or")))
    cpu, csv = tmp_path / "cpuinfo", tmp_path / "seen.csv"
    if flags is not None:
        cpu.write_text(f"processor\t: 0\nflags\t\t: {flags}\nbugs\t\t: x\n")
    monkeypatch.setattr(seen, "PROCESSOR", cpu)
    path = ROOT / "onnxruntime-1.31" / "24_two_products_saturate.py"
    name = f"onnxruntime-1.31/{path.stem}"
    known = {(name, "onnxruntime", "1.0"): said}
    assert judged(path, "1.0", found, known)[0] is holds
    csv.write_text(f"finding,tool,version,outcome\n{name},onnxruntime,1.0,{said}\n")
    seen.record([seen.Seen(name, "onnxruntime", "1.0", found)], csv)
    assert table(csv)[name, "onnxruntime", "1.0"] == (found if holds is False else said)


def test_the_table_names_findings_that_there_are() -> None:
    names = {f"{folder}/{path.stem}" for folder in TOOLS for path in findings(folder)}
    rows = table()
    assert {finding for finding, _, _ in rows} <= names and all(map(is_outcome, rows.values()))
    assert all(TOOLS[finding.partition("/")[0]] == tool for finding, tool, _ in rows)


def plain(text: str) -> str:
    return re.sub(r"[\s`$*\\]+", " ", text).casefold()


@pytest.mark.parametrize("path", CASES, ids=lambda p: f"{p.parent.name}-{p.stem}")
def test_what_is_quoted_is_in_the_text_of_the_standard(path: Path) -> None:
    """A quotation, OPERATOR: '...' or OPERATOR-VERSION: '...', is from the operator's documentation in the onnx
    package."""
    said = plain(ast.get_docstring(ast.parse(path.read_text("utf-8"))) or "")
    schemas = {s.name.casefold(): s for s in onnx.defs.get_all_schemas() if s.domain == ""}
    for name, since, quoted in re.findall(r"(\w+?)(?:-(\d+))?: '([^']+)'", said):
        if name in schemas:
            schema = onnx.defs.get_schema(schemas[name].name, int(since)) if since else schemas[name]
            parts = [schema.doc, *(f"{k}: {a.description}" for k, a in schema.attributes.items())]
            parts += [p.description for p in (*schema.inputs, *schema.outputs)]
            assert quoted.rstrip(".") in plain(" ".join(parts)), quoted


@pytest.mark.parametrize("path", CASES, ids=lambda p: f"{p.parent.name}-{p.stem}")
def test_what_is_right_is_right(path: Path) -> None:
    """By the definition: its own values, and the oracle's verdict on what the case says is right."""
    try:
        case = runpy.run_path(str(path))
    except ModuleNotFoundError as absent:
        pytest.skip(str(absent))
    right, inputs = case["RIGHT"], case["INPUTS"]
    subject = subject_of_model(onnx.parser.parse_model(case["MODEL"]), dims=DIMS.get(path.stem))
    name = subject.outputs[0]
    try:
        all_ours = backend("numpy").prepare(subject, subject.outputs)(inputs)
        ours = all_ours[name]
    except Unsupported as why:
        assert "division overflow" in why.message  # which is a trap here: no value is right
        return
    assert not differ(ours, right, case["WITHIN"] or 1e-6), ours
    assert oracle_of(subject).judge(inputs, {**all_ours, name: right}).outcome in ("right", "undecided", "open")


DIMS: dict[str, dict[str, int]] = {"35_div_of_int8_is_rounded": {"n": 1}}


@pytest.mark.parametrize("name", TOOLS)
def test_every_case_is_in_the_list(name: str) -> None:
    text = (ROOT / f"{name}.md").read_text()
    assert [p.name for p in sorted((ROOT / name).glob("*.py")) if f"({name}/{p.name})" not in text] == []


def test_a_case_that_no_longer_shows_is_noticed() -> None:
    right = np.array([1.0, np.nan, -0.0])
    assert not differ(right, right, 0.0) and not differ(right * (1 + 1e-9), right, 1e-6)
    for wrong in ([1.1, np.nan, -0.0], [1.0, 1.0, -0.0], [1.0, np.nan, 0.0], [np.inf, np.nan, -0.0], [1.0]):
        assert differ(np.array(wrong), right, 1e-3)


# --- what the standard leaves open --------------------------------------------------------------------------------

RUNS = [(case, who) for case in LEFT_OPEN for who in case.verdicts]


def given_to(case: Case, model: onnx.ModelProto) -> dict[str, Any]:
    kinds = {i.name: onnx.helper.tensor_dtype_to_np_dtype(i.type.tensor_type.elem_type) for i in model.graph.input}
    return {name: np.array(case.inputs[name], kind) for name, kind in kinds.items()}


@pytest.mark.peer
@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize(("case", "who"), RUNS, ids=lambda x: x if isinstance(x, str) else x.name.replace(" ", "_"))
def test_a_case_of_the_table_has_its_verdict(case: Case, who: str) -> None:
    """It is run by the backend, and named by its entry; and the page says what the backend gives."""
    pytest.importorskip({"reference": "onnx"}.get(who, who))
    model = onnx.parser.parse_model(case.text)
    subject, inputs = subject_of_model(model), given_to(case, model)
    if case.verdicts[who] == "refused":
        with pytest.raises(Unsupported, match=r"backend\.C(2|11)\]"):
            judge_backend(subject, backend(who), inputs)
        return
    verdict = judge_backend(subject, backend(who), inputs)
    assert verdict.outcome == case.verdicts[who], str(verdict)
    assert verdict.outcome != "open" or f"{case.entry}: " in verdict.detail
    if version({"reference": "onnx"}.get(who, who)).startswith(RAN[who]):
        run = backend(who).prepare(subject, subject.outputs)
        if GIVES[case.name][who] == "an error":
            with pytest.raises(Unsupported, match=r"backend\.C11\]"):
                run(inputs)
            return
        assert shown(run(inputs)[subject.outputs[0]]) == GIVES[case.name][who]


def test_every_entry_has_a_case_or_its_test() -> None:
    """The entries that no backend here differs by are tried in tests/semantics/test_left_open.py alone."""
    there = {case.entry for case in LEFT_OPEN if case.entry}
    assert there <= set(BY_NAME)
    assert set(BY_NAME) - there == {
        "nan.two", "nan.bounds", "nan.order", "topk.ties", "shift", "det.one", "softmax.infinite", "loss.mean",
        "zero.made", "mod.steps",
    }  # fmt: skip


@pytest.mark.parametrize("name", PAGES)
def test_a_page_of_findings_is_made_of_the_table(name: str) -> None:
    assert findings_page(ROOT / name) == (ROOT / name).read_text("utf-8"), "run `make docs`"


@pytest.mark.peer
def test_the_command_says_so_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("onnxruntime")
    case = next(c for c in LEFT_OPEN if c.name == "ReduceMax")
    model = onnx.parser.parse_model(case.text)
    onnx.save(model, tmp_path / "m.onnx")
    np.savez(tmp_path / "in.npz", **given_to(case, model))
    assert (
        run(monkeypatch, "check", tmp_path / "m.onnx", "--inputs", tmp_path / "in.npz", "--backend", "onnxruntime") == 0
    )
    said = " ".join(capsys.readouterr().out.split())
    assert "onnxruntime open" in said and "nan.window: one of the numbers is NaN (ONNX ReduceMax is silent)" in said
