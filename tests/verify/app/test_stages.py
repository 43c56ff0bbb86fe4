"""Each line of `assay check` has its pass, its check, its tests, its page and its planted faults under its name."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from pathlib import Path
from pkgutil import resolve_name

import pytest

from assay.verify.app.stages import LINES, SKIPPABLE, STAGES, Stage
from tests.places import ROOT

FOLDERS = {"import": "frontends"}
"""Where a stage is, if not under its own name: `import` is a word of Python."""
PLANTED = {
    "import": "verify/frontends/test_frontends_check.py",
    "devices": "museum/faults/device_faults.py",
    "anf": "museum/faults/anf_faults.py",
    "legalize": "museum/faults/kernel_faults.py",
    "fuse": "museum/faults/fuse_faults.py",
    "constants": "museum/faults/constant_faults.py",
    "schedule": "verify/schedule/test_schedule_check.py",
    "liveness": "museum/faults/liveness_faults.py",
    "pool": "museum/faults/memory_faults.py",
    "c": "museum/faults/aot_faults.py",
    "compare": "verify/compare/test_compare.py",
}
"""The file with planted faults of each stage, below tests/."""


def stage_faults(root: Path, names: tuple[str, ...] = LINES) -> list[str]:
    """What is missing of a stage."""
    found = []
    for name in names:
        folder = FOLDERS.get(name, name)
        rooms = ["verify"] if name == "compare" else ["lower", "verify"]
        wanted = {room: [f"{room}/{folder}"] for room in rooms}
        wanted["tests"] = [f"tests/lower/{folder}", f"tests/verify/{folder}"]
        for places in wanted.values():
            if not any((root / p).is_dir() or (root / f"{p}.py").is_file() for p in places):
                found.append(f"{name}: no {' or '.join(places)}")
        if name not in PLANTED or not (root / "tests" / PLANTED[name]).is_file():
            found.append(f"{name}: no planted fault")
        for room in rooms:
            text = (root / "specs" / f"{room}.md").read_text("utf-8")
            if not re.search(rf"^##+ {name}$", text, re.M | re.I):
                found.append(f"{name}: no section in specs/{room}.md")
            if not re.search(rf"^\| {name} \|", text, re.M):
                found.append(f"{name}: no line in the table of stages of specs/{room}.md")
    return found


def test_each_stage_is_found_by_its_name() -> None:
    assert stage_faults(ROOT) == []


def test_a_stage_without_its_parts_is_found(tmp_path: Path) -> None:
    shutil.copytree(ROOT / "specs", tmp_path / "specs", ignore=shutil.ignore_patterns("findings", "*.csv"))
    for place in ("lower/anf", "verify/anf", "tests/verify/anf"):
        (tmp_path / place).mkdir(parents=True)
    assert stage_faults(tmp_path, ("anf",)) == ["anf: no planted fault"]
    (tmp_path / "tests/museum/faults").mkdir(parents=True)
    (tmp_path / "tests/museum/faults/anf_faults.py").touch()
    assert stage_faults(tmp_path, ("anf",)) == []
    (tmp_path / "tests/verify/anf").rmdir()
    chapter = tmp_path / "specs/verify.md"
    chapter.write_text(chapter.read_text("utf-8").replace("## anf", "## normal form"), "utf-8")
    assert stage_faults(tmp_path, ("anf", "new")) == [
        "anf: no tests/lower/anf or tests/verify/anf",
        "anf: no section in specs/verify.md",
        "new: no lower/new",
        "new: no verify/new",
        "new: no tests/lower/new or tests/verify/new",
        "new: no planted fault",
        "new: no section in specs/lower.md",
        "new: no line in the table of stages of specs/lower.md",
        "new: no section in specs/verify.md",
        "new: no line in the table of stages of specs/verify.md",
    ]


@pytest.mark.parametrize("stage", STAGES, ids=lambda s: s.name)
def test_what_the_table_names_is_there(stage: Stage) -> None:
    folder = FOLDERS.get(stage.name, stage.name)
    assert stage.verify == f"assay.verify.{folder}"
    assert all(callable(resolve_name(f"{stage.verify}:{what}")) for what in ("check", "describe"))
    if stage.lower:
        assert stage.lower.startswith(f"assay.lower.{folder}:") and callable(resolve_name(stage.lower))


def test_the_table_of_names_is_cheap() -> None:
    """What the options of the command line need loads no library of ours or of others."""
    heavy = "import sys, assay.verify.app.stages; print([m for m in ('numpy', 'z3', 'onnx') if m in sys.modules])"
    assert said_by(heavy) == "[]" and SKIPPABLE == ("fuse", "schedule")


def test_the_process_of_a_backend_is_cheap() -> None:
    """It loads what hands over models and arrays: no interpreter, nothing of the lowering but what reads the files of
    models, and no oracle."""
    rooms = ("assay.interp.", "assay.lower.c", "assay.lower.anf", "assay.semantics.graph", "assay.verify.oracle.judge")
    loaded = f"import sys, assay.verify.backends.child; print([m for m in sys.modules if m.startswith({rooms})])"
    assert said_by(loaded) == "[]"


def said_by(program: str) -> str:
    """What a program prints in a process of its own."""
    return subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout.strip()
