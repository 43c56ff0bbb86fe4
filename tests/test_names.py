"""A rule of the house, beside those of `tests/test_repository.py`: two public things of one room have two names."""

from __future__ import annotations

import ast
from collections import defaultdict
from collections.abc import Mapping
from pathlib import Path

from tests.places import ROOT
from tests.test_repository import ROOMS, sources, tree_of

OPERATORS = (
    "lower/frontends/onnx/operators/",
    "lower/frontends/stablehlo/operators/",
    "lower/onnx_export/",
    "lower/stablehlo_export/",
    "semantics/bounding/",
    "semantics/ops/",
)
"""Their functions have the names of the operators that they are about, of ours, of ONNX's, of StableHLO's or of
NumPy's."""

INTERFACE = ("check", "describe")
"""What a stage's module offers under just this name (`verify/app/stages.py`)."""

COMMANDS = ("verify/app/commands/", "verify/api/")
"""A command has the name of what it does, and so has the function of the surface."""

TWICE = {
    "semantics": {
        "Call": "a node of each of the two IRs, as TVM has them",
        "If": "a node of each of the two IRs, as TVM has them",
        "Expr": "of the graph IR and of scalars, as TVM has Expr and PrimExpr",
        "Var": "of the graph IR and of scalars, as TVM has relax.Var and tirx.Var",
        "meet": "of sets of positions and of ranges: the same operation",
        "union": "of sets of positions and of ranges: the same operation",
        "show": "the text of a module, and of a scalar expression",
    },
    "interp": {"run": "each evaluator's"},
    "lower": {"schedule": "the stage, and the maker of a loop schedule"},
    "verify": {
        "main": "of two programs",
    },
}


def name_faults(root: Path, listed: Mapping[str, Mapping[str, str]]) -> list[str]:
    """Public functions and classes of one room that have one name and no reason for it; and reasons without need."""
    faults: list[str] = []
    for room in ROOMS:
        found: dict[str, list[str]] = defaultdict(list)
        for _, path in sources(root, room):
            file = path.relative_to(root).as_posix()
            if file.startswith((*OPERATORS, *COMMANDS)):
                continue
            for node in tree_of(path).body:
                if isinstance(node, ast.FunctionDef | ast.ClassDef) and not node.name.startswith("_"):
                    found[node.name].append(file)
        twice = {n: files for n, files in found.items() if len(set(files)) > 1 and n not in INTERFACE}
        known = listed.get(room, {})
        faults += [f"{room}: {n} stands in {' and '.join(files)}" for n, files in twice.items() if n not in known]
        faults += [f"{room}: {n} is listed and stands once" for n in known if n not in twice]
    return faults


def bound_twice(root: Path) -> list[str]:
    """Names that a module of a room binds twice at its top: who reads the first thing gets the second."""
    faults: list[str] = []
    for room in ROOMS:
        for _, path in sources(root, room):
            met: set[str] = set()
            for name in (n for node in tree_of(path).body for n in _bound_by(node)):
                if name in met:
                    faults.append(f"{path.relative_to(root).as_posix()}: {name}")
                met.add(name)
    return faults


def _bound_by(node: ast.stmt) -> list[str]:
    match node:
        case ast.FunctionDef(name=name) | ast.ClassDef(name=name):
            return [name]
        case ast.Assign(targets=targets):
            return [t.id for t in targets if isinstance(t, ast.Name)]
        case ast.AnnAssign(target=ast.Name(id=name), value=ast.expr()):
            return [name]
        case _:
            return []


def test_a_module_binds_a_name_once(tmp_path: Path) -> None:
    (tmp_path / "lower").mkdir()
    (tmp_path / "lower" / "two.py").write_text("_A = 1\nB: int\nB = 2\ndef f(): return _A\n_A = 3\ndef f(): ...\n")
    assert bound_twice(tmp_path) == ["lower/two.py: _A", "lower/two.py: f"]
    assert bound_twice(ROOT) == []


def test_two_things_of_a_room_have_two_names() -> None:
    assert name_faults(ROOT, TWICE) == []


def test_a_second_thing_of_one_name_is_found(tmp_path: Path) -> None:
    for file, text in {
        "first": "class Use: ...\ndef _own(): ...\n",
        "second": "def Use(): ...\ndef _own(): ...\n",
    }.items():
        (tmp_path / "lower").mkdir(exist_ok=True)
        (tmp_path / "lower" / f"{file}.py").write_text(text)
    assert name_faults(tmp_path, {}) == ["lower: Use stands in lower/first.py and lower/second.py"]
    assert name_faults(tmp_path, {"lower": {"Use": "a reason"}}) == []
    assert name_faults(tmp_path, {"lower": {"Use": "", "Gone": ""}}) == ["lower: Gone is listed and stands once"]
