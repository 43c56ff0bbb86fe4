"""The syntax tree as text, for people who look for what a program really is (row R34; specs/semantics.md, "Dump").

One line for each node, indented below the node that it is a part of: how it is reached, its class, what it says
itself, its type. A node that is reached several times is written once, with a number, and is that number elsewhere.
"""

from __future__ import annotations

from collections import Counter
from typing import Any

from assay.semantics.analyses.structure import NAMES, Node, labelled
from assay.semantics.devices import ANYWHERE, VirtualDevice
from assay.semantics.graph import Expr
from assay.semantics.graph.nodes import Constant
from assay.semantics.module import Module, Program
from assay.semantics.scalar import Expr as Scalar, show
from assay.semantics.tensor import AllocateConst, Buffer, PrimFunc
from assay.semantics.types import DataDef, TensorType, TypeVar, show_type
from assay.semantics.walk import Worklist, pre_order

DEEPEST = 60
"""Levels that are shown by indentation; deeper ones by their number, so that a long chain takes linear space."""


def dump(root: Node | Module, types: bool = True) -> str:
    """The tree below a node, a definition or a module; with the type of each expression."""
    lines: list[str] = []
    if isinstance(root, Module):
        for name, d in root.definitions.items():
            lines.append(f"{name} =")
            lines += _Dump(d, types).lines(1)
        for name, data in root.constants.items():
            lines.append(f"{name} = constant {data.dtype}{data.shape}")
        return "\n".join(lines)
    return "\n".join(_Dump(root, types).lines(0))


class _Dump:
    def __init__(self, root: Node, types: bool) -> None:
        self.root = root
        self.types = types
        self.names: dict[int, str] = {}
        """By identity, what names are called here: two of one name are told apart."""
        self.taken: dict[str, int] = {}

    def parts(self, node: Node) -> list[tuple[str, Node]]:
        """What is shown below a node: not types and dims, which are text."""
        return [(p, n) for p, n in labelled(node) if not _is_type(n) and not isinstance(n, (Scalar, VirtualDevice))]

    def lines(self, depth: int) -> list[str]:
        inside = {id(n): self.parts(n) for n in pre_order(self.root, lambda n: [p for _, p in self.parts(n)])}
        uses = Counter(id(n) for parts in inside.values() for _, n in parts)
        out: list[str] = []
        number: dict[int, int] = {}
        work = Worklist([("", self.root, depth)])
        for path, node, level in work:
            pad = "  " * level if level <= DEEPEST else "  " * DEEPEST + f"[{level}] "
            label = f"{path}: " if path else ""
            if id(node) in number:
                out.append(f"{pad}{label}#{number[id(node)]}")
                continue
            mark = ""
            if uses[id(node)] > 1 and not isinstance(node, NAMES):
                number[id(node)] = len(number) + 1
                mark = f"#{number[id(node)]} "
            out.append(f"{pad}{label}{mark}{self.head(node)}")
            work.add((p, n, level + 1) for p, n in inside[id(node)])
        return out

    def head(self, node: Node) -> str:
        """A node in one line, without the nodes that it refers to."""
        if isinstance(node, Program):
            return f"Program of {len(node.steps)} steps over {len(node.slots)} slots"
        if _is_type(node) or isinstance(node, Scalar):
            return _text(node)
        words = [type(node).__name__]
        if isinstance(node, NAMES):
            words.append(self.name(node))
        elif isinstance(node, PrimFunc):
            words.append(node.name)
        words += [w for w in self.said(node) if w]
        if isinstance(node, Buffer):
            words.append(f"({', '.join(map(show, node.shape))}) {node.dtype} {node.scope}")
        if isinstance(node, Expr):
            if self.types:
                words.append(f": {show_type(node.type)}")
            if node.device != ANYWHERE:
                words.append(f"on {_device(node.device)}")
            if node.span is not None:
                words.append(f"at {node.span}")
        return " ".join(words)

    def said(self, node: Node) -> list[str]:
        """The fields that are plain values, and those that are types or scalars."""
        if isinstance(node, NAMES):
            return []
        if isinstance(node, (Constant, AllocateConst)):
            data = node.data
            if data is None:
                return [f"constant {node.index}" if isinstance(node, AllocateConst) else ""]
            return [str(data.tolist()) if data.size <= 8 else f"{data.size} elements"]
        if isinstance(node, DataDef):
            fields = {c: ", ".join(map(_text, ts)) for c, ts in node.constructors.items()}
            return [node.name, *(f"{c}({ts})" for c, ts in fields.items())]
        out: list[str] = []
        hidden = {"type", "device", "span", "data", "result"} | ({"name"} if isinstance(node, PrimFunc) else set())
        for name, value in vars(node).items():
            if name not in hidden and (text := _plain(value)) is not None:
                out.append(f"{name}={text}")
        return out

    def name(self, node: Node) -> str:
        """The name of a variable; with a number where another one has it too."""
        if id(node) not in self.names:
            base = getattr(node, "name", "") or type(node).__name__.lower()
            count = self.taken[base] = self.taken.get(base, 0) + 1
            self.names[id(node)] = base if count == 1 else f"{base}'{count}"
        return self.names[id(node)]


def _plain(value: Any) -> str | None:
    """A field as text, or None where it is shown below, or empty."""
    match value:
        case None | "" | ():
            return None
        case VirtualDevice():
            return _device(value) or None
        case Scalar() | TensorType() | TypeVar():
            return _text(value)
        case str():
            return repr(value)
        case tuple() | list():
            parts = [_plain(v) for v in value]
            return None if None in parts else f"({', '.join(p for p in parts if p)})"
        case _ if isinstance(value, dict):
            shown = {k: _plain(v) for k, v in value.items()}
            return "{" + ", ".join(f"{k}: {v}" for k, v in shown.items()) + "}" if shown else None
        case _ if hasattr(value, "__dataclass_fields__") and not hasattr(value, "type_rule"):
            return _text(value) if _is_type(value) else None
        case _:
            return str(value)


def _is_type(node: Node) -> bool:
    return type(node).__module__.endswith("semantics.types") and not isinstance(node, (DataDef, VirtualDevice))


def _text(node: Any) -> str:
    return show(node) if isinstance(node, Scalar) else show_type(node)


def _device(device: VirtualDevice) -> str:
    parts = [device.type, str(device.id) if device.id >= 0 else "", device.target, device.scope]
    return ":".join(p for p in parts if p)
