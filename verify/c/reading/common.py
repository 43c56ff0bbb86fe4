"""What two configurations of a file have in common, so that it is read once (specs/verify.md, "c")."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace

from assay.semantics.walk import Worklist
from assay.verify.c.reading.parse import CFile
from assay.verify.c.reading.values import CNode

PARTS = ("run", "sizes", "find_plan", "check", "overlap")
"""The functions of which an entry consists, with all that they call."""
OF_SYSTEM = ("memcpy",)
"""Functions of the headers that an entry may call, which no macro of the file changes."""


def same_entry(one: CFile, other: CFile, prefix: str, kernels: Collection[str]) -> bool:
    """Whether two configurations have one entry: the same trees of all its functions but the kernels, which have the
    same headings, and the same tables, structures and numbers. What is said of one is so of the other."""
    alike = (one.constants, one.tables, one.structs, one.numbers) == (
        other.constants, other.tables, other.structs, other.numbers
    )  # fmt: skip
    first, second = (_parts(f, prefix, kernels) for f in (one, other))
    return alike and first is not None and first == second


def _parts(file: CFile, prefix: str, kernels: Collection[str]) -> dict[str, object] | None:
    """What an entry hangs on, by name: a tree by its identity, the heading of a kernel by what it says. None where a
    function is not known."""
    found: dict[str, object] = {}
    start = [f"{prefix}_{part}" for part in PARTS if f"{prefix}_{part}" in file.functions]
    work = Worklist(start, key=lambda name: name)
    for name in work:
        if name in OF_SYSTEM:
            continue
        function = file.functions.get(name)
        if function is None:
            return None
        if name in kernels:
            found[name] = replace(function, tree=None)
            continue
        found[name] = id(function.tree)
        work.add(_used(file, function.tree))
    return found


def _used(file: CFile, tree: CNode) -> list[str]:
    """The functions that a tree names, and those that it calls which the file does not have."""
    names: dict[str, None] = {}
    work = Worklist([tree], key=id)
    for node in work:
        match type(node).__name__:
            case "FuncCall":
                names[getattr(node.name, "name", "")] = None
            case "ID" if node.name in file.functions:
                names[node.name] = None
        work.add(child for _, child in node.children())
    return list(names)
