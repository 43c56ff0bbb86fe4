"""What was found in other runtimes still shows in the versions in which it was found, and what is said to be right is right."""

from __future__ import annotations

import ast
import re
import runpy
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import numpy as np
import onnx.defs
import onnx.parser
import pytest

from assay.semantics.dtypes import dtype
from assay.semantics.errors import Unsupported
from assay.verify.backends import backend, subject_of_model
from assay.verify.oracle import oracle_of

ROOT = Path(__file__).parents[2] / "specs" / "findings"
FOUND_IN = {"onnxruntime-1.31": ("onnxruntime", "1.31."), "onnx-reference-1.23": ("onnx", "1.23.")}
CASES = [path for name in FOUND_IN for path in sorted((ROOT / name).glob("*.py"))]


def differ(a: Any, b: Any, within: float) -> bool:
    """Whether two arrays are not the same but for a relative error; the sign of a zero counts."""
    if a.shape != b.shape or a.dtype != b.dtype:
        return True
    if not dtype(a.dtype).is_float:
        return bool((a != b).any())
    if (np.isnan(a) != np.isnan(b)).any() or (np.isinf(a) != np.isinf(b)).any():
        return True
    finite = np.isfinite(a)
    off = np.abs(a[finite].astype(np.float64) - b[finite].astype(np.float64))
    return bool((off > within * np.abs(b[finite].astype(np.float64))).any() or (np.signbit(a) != np.signbit(b))[~np.isnan(a)].any())


@pytest.mark.peer
@pytest.mark.parametrize("path", CASES, ids=lambda p: f"{p.parent.name}-{p.stem}")
def test_it_shows(path: Path) -> None:
    package, wanted = FOUND_IN[path.parent.name]
    try:
        there = version(package)
    except PackageNotFoundError:
        pytest.skip(f"{package} is not installed")
    if not there.startswith(wanted):
        pytest.skip(f"{package} {there} is installed, this was found in {wanted}x")
    case = runpy.run_path(str(path))
    assert differ(case["given"](), case["RIGHT"], case["WITHIN"]), f"{package} {there} is right: the finding is out of date"


def plain(text: str) -> str:
    return re.sub(r"[\s`$*\\]+", " ", text).casefold()


@pytest.mark.parametrize("path", CASES, ids=lambda p: f"{p.parent.name}-{p.stem}")
def test_what_is_quoted_is_in_the_text_of_the_standard(path: Path) -> None:
    """A quotation, OPERATOR: '...' or OPERATOR-VERSION: '...', is from the operator's documentation in the onnx package."""
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
    pytest.importorskip(FOUND_IN[path.parent.name][0])
    case = runpy.run_path(str(path))
    right, inputs = case["RIGHT"], case["INPUTS"]
    subject = subject_of_model(onnx.parser.parse_model(case["MODEL"]), dims=DIMS.get(path.stem))
    (name,) = subject.outputs
    try:
        ours = backend("numpy").prepare(subject, [name])(inputs)[name]
    except Unsupported as why:
        assert "division overflow" in why.message  # which is a trap here: no value is right
        return
    assert not differ(ours, right, case["WITHIN"] or 1e-6), ours
    assert oracle_of(subject).judge(inputs, {name: right}).outcome in ("right", "undecided")


DIMS: dict[str, dict[str, int]] = {}


@pytest.mark.parametrize("name", FOUND_IN)
def test_every_case_is_in_the_list(name: str) -> None:
    text = (ROOT / f"{name}.md").read_text()
    assert [p.name for p in sorted((ROOT / name).glob("*.py")) if f"({name}/{p.name})" not in text] == []


def test_a_case_that_no_longer_shows_is_noticed() -> None:
    right = np.array([1.0, np.nan, -0.0])
    assert not differ(right, right, 0.0) and not differ(right * (1 + 1e-9), right, 1e-6)
    for wrong in ([1.1, np.nan, -0.0], [1.0, 1.0, -0.0], [1.0, np.nan, 0.0], [np.inf, np.nan, -0.0], [1.0]):
        assert differ(np.array(wrong), right, 1e-3)
