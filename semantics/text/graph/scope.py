"""What names stand for while a graph function is read (specs/semantics.md, "Text")."""

from __future__ import annotations

import ast
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from assay.semantics.devices import VirtualDevice
from assay.semantics.scalar import Expr as Scalar
from assay.semantics.text.external_data import TensorReader
from assay.semantics.text.scope import Scope
from assay.semantics.text.source import Source
from assay.semantics.types import DataDef, Type

HOUSE = "A"
"""The prefix of what TVMScript lacks."""

ALIASES: dict[str, str] = {
    "R": "R", "relax": "R", "T": "T", "tir": "T", "tirx": "T", "I": "I", "ir": "I", "tvm": "tvm", HOUSE: HOUSE,
    "np": "np", "numpy": "np",
}  # fmt: skip
"""The modules that a text may name without importing them."""


class DataflowLocal:
    """What a name stands for behind the dataflow block of which it is no output: nothing."""


class Scalars(Mapping[str, Scalar]):
    """The symbols among the names of a scope."""

    def __init__(self, scope: Scope[Any]) -> None:
        self.scope = scope

    def __getitem__(self, name: str) -> Scalar:
        found = self.scope.get(name)
        if not isinstance(found, Scalar):
            raise KeyError(name)
        return found

    def __iter__(self) -> Iterator[str]:
        return (n for n, v in self.scope.items() if isinstance(v, Scalar))

    def __len__(self) -> int:
        return sum(1 for _ in self)


@dataclass(frozen=True)
class Kernel:
    """A tensor function of the module, by its name in the module."""

    name: str


@dataclass(frozen=True)
class Path:
    """A name with dots whose first part is one of the known modules."""

    parts: tuple[str, ...]

    def __str__(self) -> str:
        return ".".join(self.parts)


@dataclass
class ModuleNames:
    """What the text says before and around its functions."""

    source: Source
    aliases: dict[str, str] = field(default_factory=lambda: dict(ALIASES))
    module_names: set[str] = field(default_factory=lambda: {"cls", "Module"})
    exact: dict[str, str] = field(default_factory=dict)
    """Names of definitions that Python cannot say, by what stands in the text for them."""
    globals: dict[str, Type] = field(default_factory=dict)
    kernels: set[str] = field(default_factory=set)
    data: dict[str, DataDef] = field(default_factory=dict)
    """Data types by their names in the text."""
    metadata: list[np.ndarray[Any, Any]] = field(default_factory=list)
    devices: list[VirtualDevice] = field(default_factory=list)
    """TVM's, in their order."""
    named_devices: dict[str, VirtualDevice] = field(default_factory=dict)
    tensors: TensorReader | None = None
    """The file beside the text, in which large constants are."""

    def path(self, node: ast.expr, scope: Collection[str] = ()) -> Path | None:
        """`R.nn.relu` as a path, where R is a module that no variable hides; also `cls.f` and `List.Cons`."""
        parts: list[str] = []
        while isinstance(node, ast.Attribute):
            parts.append(node.attr)
            node = node.value
        if not isinstance(node, ast.Name) or node.id in scope:
            return None
        if node.id in self.data:
            return Path(("data", node.id, *reversed(parts)))
        if node.id in self.module_names:
            return Path(("module", *reversed(parts)))
        root = self.aliases.get(node.id)
        if root is None:
            return None
        if root == "tvm" and len(parts) > 1 and parts[-1] in ("relax", "tir", "tirx"):
            root = self.aliases.get(parts.pop(), "tvm")
        if root == "tvm" and len(parts) > 2 and parts[-1] == "script" and parts[-2] in ("relax", "tir", "tirx", "ir"):
            parts.pop()
            root = self.aliases[parts.pop()]
        if root == "R" and len(parts) > 1 and parts[-1] == "op":
            parts.pop()  # relax.op.add is R.add
        return Path((root, *reversed(parts)))
