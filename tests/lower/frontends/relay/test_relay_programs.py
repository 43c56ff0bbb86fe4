"""Relay programs with their expectation: each file of `tests/lower/frontends/relay/programs` is one (row R26).

A line `//@ in NAME = LITERAL` gives an input; `//@ out = LITERAL` is the result, a tuple for a tuple; `//@ trap KIND` a
run that fails, `//@ fails LABEL` inputs or a text that are refused.
"""

from __future__ import annotations

import ast
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from assay.interp.graph import run
from assay.lower.anf import to_anf
from assay.lower.frontends.relay import is_relay, parse_relay
from assay.semantics.analyses.equality import first_difference
from assay.semantics.errors import Invalid, Trap
from assay.semantics.module import Module
from assay.semantics.rules import check
from assay.semantics.text.module_text import parse, show
from assay.semantics.types import TensorType
from assay.verify.anf import check_anf
from tests.places import ROOT

pytestmark = pytest.mark.row("R26")

PROGRAMS = sorted(Path(__file__).with_name("programs").glob("*.relay"))


class Case:
    def __init__(self, path: Path) -> None:
        self.text = path.read_text(encoding="utf-8")
        self.inputs: dict[str, Any] = {}
        self.out: Any = None
        self.trap = self.fails = ""
        for line in self.text.splitlines():
            if line.startswith("//@ in "):
                name, value = line.removeprefix("//@ in ").split(" = ")
                self.inputs[name] = ast.literal_eval(value)
            elif line.startswith("//@ out = "):
                self.out = ast.literal_eval(line.removeprefix("//@ out = "))
            elif line.startswith("//@ trap "):
                self.trap = line.removeprefix("//@ trap ")
            elif line.startswith("//@ fails "):
                self.fails = line.removeprefix("//@ fails ")

    def given(self, module: Module) -> dict[str, Any]:
        found = {}
        for p in module.main.params:
            assert isinstance(p.type, TensorType)
            found[p.name] = np.asarray(self.inputs[p.name], p.type.dtype.numpy)
        return found


def same(value: Any, wanted: Any) -> bool:
    """Whether a value is the expected one: a tuple for a tuple, else numbers of one shape."""
    if isinstance(wanted, tuple):
        return isinstance(value, tuple) and len(value) == len(wanted) and all(map(same, value, wanted))
    want = np.asarray(wanted)
    return value.shape == want.shape and bool(np.all(value == want.astype(value.dtype)))


def holds(case: Case, module: Module) -> None:
    """The module does what the file says."""
    if case.trap:
        with pytest.raises(Trap) as trapped:
            run(module, case.given(module))
        assert trapped.value.kind == case.trap
    elif case.fails:
        with pytest.raises(Invalid) as refused:
            run(module, case.given(module))
        assert refused.value.label == case.fails
    else:
        results = run(module, case.given(module))
        value: Any = tuple(results.values())
        assert same(value if isinstance(case.out, tuple) else value[0], case.out), results


@pytest.mark.parametrize("path", PROGRAMS, ids=lambda p: p.stem)
def test_a_program_means_what_its_file_says(path: Path) -> None:
    case = Case(path)
    assert is_relay(case.text)
    module = parse_relay(case.text, path.name)
    holds(case, module)
    text = show(module)  # and so does its translation, as text
    back = parse(text)
    check(back)
    assert first_difference(module, back) is None
    normal = to_anf(module)
    check(normal)
    assert check_anf(module, normal).holds
    holds(case, normal)


def test_there_are_programs_for_every_construct() -> None:
    words = "\n".join(p.read_text(encoding="utf-8") for p in PROGRAMS)
    for construct in (
        "def @", "fn (", "fn [", "let %", "%0 = ", "if (", "else if", "match (", "match? (", "ref(", "ref_read(",
            "ref_write(",
        "type ", "extern type", "free_var", "meta[relay.Constant]", "meta[VirtualDevice]", "#[metadata]", "#[version",
            "/*",
        "//", "?", "True", ".0", "Primitive=1", "inff", ": _ =", "(_, %", "=>", "->", "==", "[A, B]",
    ):  # fmt: skip
        assert construct in words, construct


def test_the_module_is_the_same_in_every_process() -> None:
    """The functions of the prelude that a text uses come in one order, whatever the seed of Python's hashes."""
    code = (
        "import sys; from assay.lower.frontends.relay import parse_relay; from assay.semantics.text.module_text import"
        " show; print(show(parse_relay(sys.stdin.read())))"
    )
    text = next(p for p in PROGRAMS if p.name == "prelude.relay").read_text(encoding="utf-8")
    seen = {
        subprocess.run(
            [sys.executable, "-c", code],
            env={**os.environ, "PYTHONHASHSEED": seed, "PYTHONPATH": str(ROOT / ".src")},
            check=True,
            capture_output=True,
            input=text,
            encoding="utf-8",
        ).stdout
        for seed in ("1", "2", "3", "4")
    }
    assert len(seen) == 1 and "map_accumr" in seen.pop()
