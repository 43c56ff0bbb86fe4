"""A rule of the house, beside those of `tests/test_repository.py`: no class is cut into a chain of bases."""

from __future__ import annotations

import ast
from collections import Counter, defaultdict
from collections.abc import Collection, Iterator
from pathlib import Path

from tests.places import ROOT
from tests.test_repository import ROOMS, sources, tree_of
from tests.trees import nodes

CUT = {
    "semantics/builder/bindings.py:Bindings": "its methods are a part of what a builder offers to its users",
    "interp/vector/emit_value.py:Values": "to be composed",
    "lower/frontends/relay/expressions.py:Expressions": "to be composed",
    "lower/frontends/relay/reader.py:TokenReader": "to be composed",
    "lower/frontends/stablehlo/words.py:WordReader": "to be composed",
    "verify/strategies/kernels.py:Kernels": "to be composed: only its heir's kernels are made now",
    "verify/strategies/language.py:Language": "to be composed",
}
"""Classes that only a class of another file inherits from, and that nothing else names; and why each is a base."""


def base_faults(root: Path, listed: Collection[str]) -> list[str]:
    """Classes of the rooms that are one class in several files: only a class of another file inherits from the first
    part, and nothing else names it. A part is held by what it is a part of. A base that is bound in an `if` pretends.
    """
    faults: list[str] = []
    own: list[str] = []
    heirs: dict[str, list[str]] = defaultdict(list)
    uses: Counter[str] = Counter()
    for _, path in sources(root, *ROOMS):
        file, tree = path.relative_to(root).as_posix(), tree_of(path)
        every = nodes(tree)
        classes = [n for n in every if isinstance(n, ast.ClassDef)]
        meant = {n.name: f"{file}:{n.name}" for n in classes}
        own += meant.values()
        for node in every:
            if isinstance(node, ast.ImportFrom):
                home = "/".join((node.module or "").split(".")[1:])
                for a in node.names:
                    for at in (f"{home}.py", f"{home}/__init__.py"):
                        if (root / at).is_file():
                            meant[a.asname or a.name] = f"{at}:{a.name}"
        bases = [(n.name, b.value if isinstance(b, ast.Subscript) else b) for n in classes for b in n.bases]
        conditional = {name for i in tree.body if isinstance(i, ast.If) for name in bound(i)}
        for heir, base in bases:
            name = ast.unparse(base)
            heirs[meant.get(name, name)].append(file)
            if name in conditional:
                faults.append(f"{file}:{heir}: its base {name} is bound in an if")
        places = {id(b) for _, b in bases}
        uses.update(meant[n.id] for n in every if isinstance(n, ast.Name) and n.id in meant and id(n) not in places)
    halves = [c for c in own if len(heirs[c]) == 1 and heirs[c] != [c.partition(":")[0]] and not uses[c]]
    faults += [f"{c}: half of a class; what inherits from it can hold it" for c in halves if c not in listed]
    return [*faults, *(f"{c}: listed, but no half of a class" for c in listed if c not in halves)]


def bound(tree: ast.AST) -> Iterator[str]:
    """The names of classes, imports and variables that some statements bind."""
    for node in ast.walk(tree):
        match node:
            case ast.ClassDef(name=name) | ast.Name(id=name, ctx=ast.Store()):
                yield name
            case ast.ImportFrom():
                yield from (alias.asname or alias.name for alias in node.names)


def test_no_class_is_cut_into_bases() -> None:
    assert base_faults(ROOT, CUT) == []


def test_a_planted_chain_of_bases_is_found(tmp_path: Path) -> None:
    (tmp_path / "lower").mkdir()
    first, second, third = (tmp_path / "lower" / name for name in ("first.py", "second.py", "third.py"))
    imported = "from assay.lower.first import Lines\n"
    first.write_text("class Lines:\n    def line(self): ...\n")
    second.write_text(f"{imported}class Reader(Lines):\n    def read(self): return self.line()\n")
    fault = "lower/first.py:Lines: half of a class; what inherits from it can hold it"
    assert base_faults(tmp_path, ()) == [fault]
    assert base_faults(tmp_path, ("lower/first.py:Lines",)) == []
    for more in ("class Other(Lines): ...\n", "lines = Lines()\n", "def read(of: Lines): ...\n"):  # it is a class
        third.write_text(imported + more)
        assert base_faults(tmp_path, ()) == []
        third.write_text(more.replace("Lines", "Pages"))
        assert base_faults(tmp_path, ()) == [fault]
    second.write_text(f"if TYPE_CHECKING:\n    {imported}    Around = Lines\nclass Reader(Around): ...\n")
    assert base_faults(tmp_path, ()) == ["lower/second.py:Reader: its base Around is bound in an if"]
    assert len(base_faults(tmp_path, ("lower/first.py:Lines",))) == 2
