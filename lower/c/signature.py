"""What a kernel is as a C function: its parameters, what it returns, its text (specs/lower.md, "c")."""

from __future__ import annotations

from collections.abc import Container, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Literal

from assay.lower.c.names import comment
from assay.semantics.scalar import Var

TRAPS = {
    "assertion": ("ASSERT", "an assertion does not hold"),
    "division by zero": ("DIVISION_BY_ZERO", "a kernel divides an integer by zero"),
    "shift": ("SHIFT", "a kernel shifts by less than 0, or by the width of the integer or more"),
    "cast": ("CAST", "a kernel casts a number to an integer that cannot hold it"),
    "out of bounds": ("OUT_OF_BOUNDS", "an index of a kernel is outside of its buffer"),
    "shape": ("SHAPE", "a buffer in a kernel has another size than is asked for"),
    "store to constant": ("STORE_TO_CONSTANT", "a kernel stores to what is read-only"),
    "undeclared access": ("UNDECLARED_ACCESS", "a kernel touches what it does not declare"),
    "misaligned": ("MISALIGNED_VIEW", "a buffer in a kernel does not begin where it must"),
    "wrong scope": ("WRONG_SCOPE", "a kernel uses memory of another scope"),
}
"""Kinds of trap that generated code reports: the end of the name of the status, and what it means."""

Role = Literal["input", "output", "scratch", "constant"]
READ_ONLY: tuple[Role, ...] = ("input", "constant")


@dataclass(frozen=True)
class KernelParameter:
    """A parameter of the C function: which buffer of the kernel it is, by role and number; a constant by its number
    among those that the kernel holds."""

    role: Role
    index: int
    name: str
    type: str


@dataclass(frozen=True)
class KernelSize:
    """A symbol of a kernel, which is a parameter of the C function: its name there, and its type."""

    symbol: Var
    name: str
    type: str


@dataclass(frozen=True)
class CKernel:
    """The C of one kernel; `parameters` are those that the body names, and so are `sizes`, which come next."""

    name: str
    source: str
    parameters: tuple[KernelParameter, ...]
    tables: tuple[str, ...]
    body: tuple[str, ...]
    held: tuple[str, ...] = ()
    """The constants of the module's table that it holds and is handed, for they are not in the source."""
    last: str = ""
    """One more parameter, behind the sizes: a resource handle, or where the message of a trap goes."""
    sizes: tuple[KernelSize, ...] = ()
    symbols: Mapping[Var, tuple[int, int]] = field(default_factory=dict)
    """All symbols and scalars of the kernel, and where they may lie."""

    def signature(self, restrict: Container[KernelParameter] = ()) -> str:
        """Name and parameters; `restrict` has the pointers that share no byte that is written."""
        words = []
        for p in self.parameters:
            const = "const " if p.role in READ_ONLY else ""
            words.append(f"{const}{p.type} *{'restrict ' if p in restrict else ''}{p.name}")
        words += [f"{s.type} {s.name}" for s in self.sizes]
        words += [self.last] if self.last else []
        return f"{self.name}({', '.join(words) or 'void'})"

    def text(self, restrict: Container[KernelParameter], before: str = "") -> Iterator[str]:
        """The definition; `before` stands before its type."""
        yield from self.tables
        yield f"\n/* {comment(self.source)} */\nstatic {before}int {self.signature(restrict)}\n{{\n"
        yield from self.body
        yield "}\n"


@dataclass(frozen=True)
class KernelStyle:
    """What a kernel takes besides its buffers."""

    handle: bool = False
    """A resource handle, for which generated code has no use."""
    messages: bool = False
    """Where to say what has trapped, if it can."""
