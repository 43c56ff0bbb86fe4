"""Tests about the repository itself: the import rules of the rooms, the lists that must agree, the house rules.

Each rule is a function from a folder to a list of faults, so that a test can plant a fault in a copy and see it found.
"""

from __future__ import annotations

import ast
import re
import shutil
import subprocess
import sys
import tomllib
from collections import Counter
from collections.abc import Collection, Iterator
from pathlib import Path

import pytest

from tests.places import ROOT
from tests.trees import nodes, parsed

ROOMS = {
    "semantics": {"semantics"},
    "interp": {"semantics", "interp"},
    "lower": {"semantics", "lower"},
    "verify": {"semantics", "interp", "lower", "verify"},
}
"""The rooms, and the rooms that each may import."""
TEXTS = "verify/conform/programs"
"""Programs in TVMScript: their files have the names of Python, and nothing imports them."""
MOST_LINES = 500
MOST_FILES = 40


def sources(root: Path, *folders: str) -> Iterator[tuple[str, Path]]:
    """Python files below some folders of `root`, each with its folder."""
    for folder in folders:
        for path in sorted((root / folder).rglob("*.py")):
            if not path.is_relative_to(root / TEXTS):
                yield folder, path


def tree_of(path: Path) -> ast.Module:
    return parsed(path.read_text(encoding="utf-8"))


# --- imports ------------------------------------------------------------------------------------------------------


def imported(tree: ast.Module) -> Iterator[tuple[int, str]]:
    """Every import of a file, inside functions and under TYPE_CHECKING too: its line and what it names.

    A relative import is named with its dots, a computed one is `?`.
    """
    for node in nodes(tree):
        match node:
            case ast.Import():
                yield from ((node.lineno, alias.name) for alias in node.names)
            case ast.ImportFrom(level=0):
                yield from ((node.lineno, f"{node.module}.{alias.name}") for alias in node.names)
            case ast.ImportFrom():
                yield node.lineno, "." * node.level + (node.module or "")
            case ast.Call(func=ast.Name(id="import_module" | "__import__") | ast.Attribute(attr="import_module")):
                first = node.args[0] if node.args else None
                yield node.lineno, first.value if isinstance(first, ast.Constant) else "?"


def import_faults(root: Path) -> list[str]:
    """Imports that go upwards or across, that are relative, or that miss the name `assay`."""
    faults: list[str] = []
    for room, path in sources(root, *ROOMS, "tests"):
        for line, name in imported(tree_of(path)):
            at = f"{path.relative_to(root).as_posix()}:{line}"
            parts = name.split(".")
            if name.startswith("."):
                faults.append(f"{at}: relative import {name}")
            elif parts[0] in ROOMS:
                faults.append(f"{at}: import {name} without assay")
            elif name == "?" and room in ROOMS:
                faults.append(f"{at}: computed import")
            elif room in ROOMS and not allowed(parts, ROOMS[room]):
                faults.append(f"{at}: {room} imports {name}")
    return faults


def allowed(parts: list[str], rooms: set[str]) -> bool:
    """Whether a room that may import `rooms` may import the module that `parts` name."""
    if parts[0] == "assay":
        return len(parts) > 1 and parts[1] in rooms
    return parts[0] != "tests"


def test_rooms_import_only_from_below() -> None:
    assert import_faults(ROOT) == []


@pytest.mark.parametrize(
    ("room", "line"),
    [
        ("semantics", "import assay.interp.graph"),
        ("semantics", "from assay import verify"),
        ("interp", "from assay.lower import anf"),
        ("interp", "def f():\n    from assay.lower.anf import to_anf"),
        ("lower", "from assay.interp import graph"),
        ("lower", "if TYPE_CHECKING:\n    from assay.interp.graph import run"),
        ("lower", "import assay.verify.app.cli as c"),
        ("lower", "import assay"),
        ("lower", "importlib.import_module('assay.interp.graph')"),
        ("lower", "import_module(name)"),
        ("verify", "from . import cli"),
        ("verify", "import semantics.graph"),
        ("verify", "from tests.models import mlp"),
        ("tests", "from interp import graph"),
    ],
)
def test_a_planted_import_is_found(tmp_path: Path, room: str, line: str) -> None:
    for folder in (*ROOMS, "tests"):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "good.py").write_text("import numpy\nfrom assay.semantics.graph import call\n")
    assert import_faults(tmp_path) == []
    (tmp_path / room / "bad.py").write_text(line + "\n")
    (fault,) = import_faults(tmp_path)
    assert fault.startswith(f"{room}/bad.py:")


# --- circles ------------------------------------------------------------------------------------------------------


def module_imports(root: Path) -> dict[str, set[str]]:
    """The modules of the rooms, and which of them each imports: anywhere in its file, under TYPE_CHECKING too."""
    trees: dict[str, ast.Module] = {}
    for _, path in sources(root, *ROOMS):
        parts = path.relative_to(root).with_suffix("").parts
        trees[".".join(("assay", *(parts[:-1] if parts[-1] == "__init__" else parts)))] = tree_of(path)
    found: dict[str, set[str]] = {}
    for module, tree in trees.items():
        names = {name for _, name in imported(tree)}
        modules = {name if name in trees else name.rpartition(".")[0] for name in names}
        found[module] = (modules & set(trees)) - {module}
    return found


def circle_faults(root: Path) -> list[str]:
    """Modules that import each other, directly or through others: those of one circle in a line."""
    above = module_imports(root)
    reached = {m: {*above[m]} for m in above}
    for through in above:
        for m in above:
            if through in reached[m]:
                reached[m] |= reached[through]
    circles = {tuple(sorted(n for n in reached[m] if m in reached[n])) for m in above if m in reached[m]}
    return [", ".join(c) for c in sorted(circles)]


def test_no_modules_import_each_other() -> None:
    assert circle_faults(ROOT) == []


@pytest.mark.parametrize(
    "line",
    [
        "import assay.semantics.a",
        "from assay.semantics.a import f",
        "from assay.semantics import a",
        "def g():\n    from assay.semantics.a import f",
        "if TYPE_CHECKING:\n    from assay.semantics.a import f",
    ],
)
def test_a_planted_circle_is_found(tmp_path: Path, line: str) -> None:
    (tmp_path / "semantics").mkdir()
    for name, text in {"__init__": "", "a": "from assay.semantics.b import f\n", "b": "", "c": line + "\n"}.items():
        (tmp_path / "semantics" / f"{name}.py").write_text(text)
    assert circle_faults(tmp_path) == []
    (tmp_path / "semantics" / "b.py").write_text("from assay.semantics.c import f\n")
    assert circle_faults(tmp_path) == ["assay.semantics.a, assay.semantics.b, assay.semantics.c"]


# --- packages -----------------------------------------------------------------------------------------------------


def package_faults(root: Path) -> list[str]:
    """Differences between the packages that pyproject.toml lists and the folders that hold Python files."""
    listed = set(pyproject(root)["tool"]["setuptools"]["packages"])
    there = {"assay", "assay.specs"}  # the chapters: texts, which `assay explain` shows
    faults: list[str] = []
    for _, path in sources(root, *ROOMS):
        folder = path.parent
        there.add("assay." + ".".join(folder.relative_to(root).parts))
        if not (folder / "__init__.py").is_file():
            faults.append(f"{folder.relative_to(root)} has no __init__.py")
    faults += [f"{p} is not listed in pyproject.toml" for p in sorted(there - listed)]
    faults += [f"{p} is listed in pyproject.toml, but there is no such folder" for p in sorted(listed - there)]
    return sorted(set(faults))


def pyproject(root: Path) -> dict[str, dict[str, dict[str, list[str]]]]:
    return tomllib.loads((root / "pyproject.toml").read_text(encoding="utf-8"))


def test_the_listed_packages_are_the_folders() -> None:
    assert package_faults(ROOT) == []


def test_a_planted_package_is_found(tmp_path: Path) -> None:
    shutil.copy(ROOT / "pyproject.toml", tmp_path)
    for package in pyproject(ROOT)["tool"]["setuptools"]["packages"]:
        folder = tmp_path.joinpath(*package.split(".")[1:])
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "__init__.py").touch()
    assert package_faults(tmp_path) == []
    (tmp_path / "lower" / "fresh").mkdir()
    (tmp_path / "lower" / "fresh" / "new.py").touch()
    faults = package_faults(tmp_path)
    assert "assay.lower.fresh is not listed in pyproject.toml" in faults
    assert len(faults) == 2


def test_the_links_for_tools_lead_to_the_rooms() -> None:
    for room in ROOMS:
        assert (ROOT / ".src" / "assay" / room).resolve() == ROOT / room


# --- chapters -----------------------------------------------------------------------------------------------------

SECTION = re.compile(r'specs/(\w+)\.md(?:, ("[^"]+"(?:(?:, | and )"[^"]+")*))?')


def chapter_faults(root: Path) -> list[str]:
    """Modules whose docstring does not name the chapter of their room, or names a section that is not there."""
    faults: list[str] = []
    for room, path in sources(root, *ROOMS):
        at = path.relative_to(root).as_posix()
        doc = " ".join((ast.get_docstring(tree_of(path)) or "").split())
        named = [(m.group(1), re.findall(r'"([^"]+)"', m.group(2) or "")) for m in SECTION.finditer(doc)]
        if room not in [chapter for chapter, _ in named]:
            faults.append(f"{at}: the docstring does not name its chapter, specs/{room}.md")
        for chapter, sections in named:
            headings = headings_of(root / "specs" / f"{chapter}.md")
            faults += [f'{at}: specs/{chapter}.md has no section "{s}"' for s in sections if s not in headings]
    return faults


def headings_of(page: Path) -> set[str]:
    """The headings of a page, as they stand and without a leading number such as M5."""
    if not page.is_file():
        return set()
    found = set(re.findall(r"^#+ (.+?)\s*$", page.read_text(encoding="utf-8"), re.MULTILINE))
    return found | {re.sub(r"^[A-Z]\d+ ", "", h) for h in found}


def test_every_module_names_its_chapter() -> None:
    assert chapter_faults(ROOT) == []


def test_a_planted_docstring_is_found(tmp_path: Path) -> None:
    (tmp_path / "specs").mkdir()
    (tmp_path / "specs" / "interp.md").write_text("# Run it\n\n## M7 Memory\n")
    (tmp_path / "interp").mkdir()
    module = tmp_path / "interp" / "machine.py"
    module.write_text('"""Runs a plan (specs/interp.md,\n"Memory")."""\n')
    assert chapter_faults(tmp_path) == []
    module.write_text('"""Runs a plan (specs/interp.md, "Memory" and "Speed")."""\n')
    assert chapter_faults(tmp_path) == ['interp/machine.py: specs/interp.md has no section "Speed"']
    module.write_text('"""Runs a plan (specs/lower.md)."""\n')
    assert chapter_faults(tmp_path) == ["interp/machine.py: the docstring does not name its chapter, specs/interp.md"]
    module.write_text("x = 1\n")
    assert len(chapter_faults(tmp_path)) == 1


@pytest.mark.parametrize("room", ROOMS)
def test_every_room_has_a_chapter(room: str) -> None:
    assert (ROOT / "specs" / f"{room}.md").is_file()


# --- walks --------------------------------------------------------------------------------------------------------

STACKS = {
    "semantics/walk.py:Worklist.__iter__": "the walk itself",
    "semantics/walk.py:post_order": "the walk itself",
    "semantics/walk.py:occurrences": "the walk itself",
    "semantics/walk.py:components": "Tarjan's algorithm",
    "semantics/tasks.py:run_task": "functions that call one another",
    "semantics/analyses/structure.py:_split": "for speed: each node of every comparison comes here",
    "semantics/scalar/evaluation.py:needed": "lazy: what a node needs depends on values that come on the way",
    "semantics/steps.py:flow": "the arms that end at a step",
    "semantics/steps.py:walk": "the arms that are running",
    "interp/graph/__init__.py:_Evaluator.call": "for speed; lazy, over activations of functions",
    "interp/tensor.py:_Run.execute": "for speed: each statement of a run comes here; loops are iterators",
    "lower/frontends/relay/infer.py:TypeInference.__init__": "a queue that what is taken out of it fills",
    "lower/schedule/__init__.py:reordered": "a queue: what is ready in turn",
    "lower/schedule/blocks.py:Blocks.contract": "a queue up to a fixpoint, in which a block may stand again",
    "verify/app/report/pictures.py:_arms": "the arms that end at a step",
    "verify/side_by_side.py:_Shared.run": "what is left to do, and who is free to do it",
}
"""The loops over stacks and queues of their own that there are beside the walks of `semantics/walk.py`, and why."""


def stacks(tree: ast.AST, within: str = "") -> Iterator[str]:
    """The functions with a loop that goes on while a list has items, and takes items out of it."""
    for node in ast.iter_child_nodes(tree):
        name = f"{within}.{node.name}".lstrip(".") if isinstance(node, (ast.FunctionDef, ast.ClassDef)) else within
        if isinstance(node, ast.While):
            tests = node.test.values if isinstance(node.test, ast.BoolOp) else [node.test]
            lists = {ast.unparse(t) for t in tests}
            if any(f"{of}.{method}()" in ast.unparse(node) for of in lists for method in ("pop", "popleft")):
                yield name
        yield from stacks(node, name)


def stack_faults(root: Path, listed: Collection[str]) -> list[str]:
    """Stacks by hand that are not listed, and what is listed and is none."""
    found = {
        f"{path.relative_to(root).as_posix()}:{name}": None
        for _, path in sources(root, *ROOMS)
        for name in stacks(tree_of(path))
    }
    return [
        *(f"{n}: a stack by hand; use semantics/walk.py, or list it with its reason" for n in found if n not in listed),
        *(f"{n}: listed, but no stack" for n in listed if n not in found),
    ]


def test_walks_are_those_of_the_house() -> None:
    assert stack_faults(ROOT, STACKS) == []


def test_a_planted_stack_is_found(tmp_path: Path) -> None:
    (tmp_path / "lower").mkdir()
    file = tmp_path / "lower" / "walk.py"
    file.write_text("def free(root):\n    for node in post_order(root):\n        print(node)\n")
    assert stack_faults(tmp_path, ()) == []
    walk = "work = [root]\n        while work and limit:\n            node = {}\n            work += node.children\n"
    for take in ("work.pop()", "work.popleft()"):
        file.write_text(f"class C:\n    def free(self, root, limit):\n        {walk.format(take)}")
        fault = "lower/walk.py:C.free: a stack by hand; use semantics/walk.py, or list it with its reason"
        assert stack_faults(tmp_path, ()) == [fault]
        assert stack_faults(tmp_path, ("lower/walk.py:C.free",)) == []
    assert len(stack_faults(tmp_path, ("lower/walk.py:C.free", "lower/walk.py:D.free"))) == 1


# --- size and words -----------------------------------------------------------------------------------------------


def size_faults(root: Path) -> list[str]:
    """Python files of more lines than a person reads at once."""
    counts = {p: len(p.read_text(encoding="utf-8").splitlines()) for _, p in sources(root, *ROOMS, "tests")}
    return [f"{p.relative_to(root).as_posix()}: {n} lines" for p, n in counts.items() if n > MOST_LINES]


def test_files_are_small() -> None:
    assert size_faults(ROOT) == []


def crowd_faults(root: Path) -> list[str]:
    """Folders with more Python files than a person looks through."""
    folders = Counter(p.parent.relative_to(root).as_posix() for _, p in sources(root, *ROOMS, "tests"))
    return [f"{folder}: {n} files" for folder, n in folders.items() if n > MOST_FILES]


def test_no_folder_is_crowded(tmp_path: Path) -> None:
    assert crowd_faults(ROOT) == []
    (tmp_path / "lower").mkdir()
    for i in range(MOST_FILES):
        (tmp_path / "lower" / f"f{i}.py").touch()
    assert crowd_faults(tmp_path) == []
    (tmp_path / "lower" / "more.py").touch()
    assert crowd_faults(tmp_path) == ["lower: 41 files"]


def test_a_planted_long_file_is_found(tmp_path: Path) -> None:
    (tmp_path / "lower").mkdir()
    (tmp_path / "lower" / "long.py").write_text("x = 1\n" * MOST_LINES)
    assert size_faults(tmp_path) == []
    (tmp_path / "lower" / "long.py").write_text("x = 1\n" * (MOST_LINES + 1))
    assert size_faults(tmp_path) == ["lower/long.py: 501 lines"]


# Written in two parts, so that this file does not match itself.
MACHINE = re.compile("/" + r"(?:work|root|home/\w+|Users/\w+|tmp/\w*venv)\b" + "(?!/?[*])")
TEXT = {".py", ".md", ".toml", ".csv", ".c", ".h", ".smt2", ".json", ".yml", ".txt", ""}


def text_files(root: Path) -> Iterator[Path]:
    """The files of the repository that hold text."""
    tops = [p for p in root.iterdir() if p.is_file()]
    below = [p for f in (*ROOMS, "tests", "specs", ".ci", ".src") for p in (root / f).rglob("*") if p.is_file()]
    yield from (p for p in tops + below if p.suffix in TEXT and "__pycache__" not in p.parts)


def path_faults(root: Path) -> list[str]:
    """Lines that hold a path of somebody's machine."""
    return [
        f"{path.relative_to(root).as_posix()}:{number}: {line.strip()}"
        for path in text_files(root)
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), start=1)
        if MACHINE.search(line)
    ]


def test_no_path_of_a_machine() -> None:
    assert path_faults(ROOT) == []


def test_a_planted_path_is_found(tmp_path: Path) -> None:
    (tmp_path / "Makefile").write_text("x:\n\techo /ro" + "ot/model.onnx\n")
    assert len(path_faults(tmp_path)) == 1


# --- types --------------------------------------------------------------------------------------------------------

PROBE = """
from assay.semantics.graph import call, var
from assay.semantics.types import TensorType
from assay.semantics.dtypes import FLOAT32

x = var("x", TensorType((2, 3), FLOAT32))
number: int = call("nn.relu", x)
name: float = x.name
"""


@pytest.mark.slow
def test_the_type_checker_sees_our_types(tmp_path: Path) -> None:
    """If `assay` could not be resolved its names would be Any, and nothing would be flagged at all."""
    probe = tmp_path / "probe.py"
    probe.write_text(PROBE)
    command = [sys.executable, "-m", "mypy", "--config-file", str(ROOT / "pyproject.toml"), str(probe)]
    done = subprocess.run(command, check=False, cwd=ROOT, capture_output=True, text=True, timeout=300)
    flagged = [line for line in done.stdout.splitlines() if "probe.py" in line and "error" in line]
    assert len(flagged) == 2, done.stdout
    assert 'has type "Call", variable has type "int"' in flagged[0] or 'expression has type "Call"' in flagged[0]
    assert '"str"' in flagged[1]
