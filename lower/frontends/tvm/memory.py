"""Memory that a lowered TVM module allocates, taken back to values (specs/lower.md, "tvm").

After TVM's CallTIRRewrite a tensor is allocated, handed to a kernel that fills it, and read; after its memory planner
several tensors lie in one storage. A storage here knows which tensor was written there last. Reading another one is
refused: so what is imported has the same values in shared memory as in separate memory, and a plan that overlaps live
tensors is found here, by the names of both.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

from assay.semantics.errors import Invalid
from assay.semantics.graph import Expr, tuple_of
from assay.semantics.scalar import Dim
from assay.semantics.types import TensorType
from assay.semantics.walk import fold_scoped, occurrences


@dataclass(eq=False)
class Storage:
    """Bytes that tensors share: `nbytes` of them, None for memory of one tensor alone."""

    name: str
    nbytes: Dim | None = None
    owner: Cell | None = None
    """Whose contents it has. None: nobody's, or not known which."""


@dataclass(eq=False)
class Cell:
    """A tensor in a storage: nothing, or the value that was written last."""

    name: str
    type: TensorType
    storage: Storage
    depth: int
    """How many branches and functions were around its allocation."""
    value: Expr | None = None
    version: int = 0


@dataclass(frozen=True, eq=False)
class Held:
    """A value, and the tensors whose memory it is, each as it was then."""

    expr: Expr
    cells: tuple[tuple[Cell, int], ...] = ()


@dataclass(frozen=True, eq=False)
class Group:
    """A tuple, of which each field may lie in memory."""

    fields: tuple[Value, ...]


@dataclass(eq=False)
class Heap:
    """The sizes that a lowered function keeps, by slot."""

    sizes: dict[int, Dim] = field(default_factory=dict)


Value: TypeAlias = Held | Cell | Storage | Group | Heap
"""What a variable of a lowered function stands for."""


def held(expr: Expr, parts: Iterable[Value] = ()) -> Held:
    """`expr`, whose memory may be that of any of `parts`."""
    return Held(expr, tuple(dict.fromkeys(c for p in parts for c in cells_of(p))))


def cells_of(value: Value) -> Iterator[tuple[Cell, int]]:
    """The tensors whose memory a value is, as they were."""
    for part in occurrences(value, _fields):
        if isinstance(part, Held):
            yield from part.cells
        elif isinstance(part, Cell):
            yield part, part.version


def _fields(value: Value) -> Sequence[Value]:
    return value.fields if isinstance(value, Group) else ()


def current_value(value: Value, where: str, *, view: bool = False) -> Expr:
    """The value now; Invalid where its memory has other contents. A `view` reads nothing yet: what was written is
    enough."""
    for cell, version in cells_of(value):
        if not view or cell.value is None:
            check(cell, version, where)

    def made(part: Value, fields: list[Expr]) -> Expr:
        match part:
            case Held():
                return part.expr
            case Cell():
                assert part.value is not None
                return part.value
            case Group():
                return tuple_of(*fields)
            case Storage() | Heap():
                raise Invalid("memory without a shape is used as a tensor", where=where, label="tvm.P1")

    return fold_scoped(value, _fields, made)


def check(cell: Cell, version: int, where: str) -> None:
    """Invalid unless the memory of `cell` holds what was written there at `version`."""
    if cell.value is None:
        raise Invalid(f"{cell.name} is read before anything was written to it", where=where, label="tvm.P3")
    owner = cell.storage.owner
    if owner is not cell or cell.version != version:
        by = "perhaps overwritten, in a branch," if owner is None else f"overwritten by {owner.name}"
        if owner is cell:
            raise Invalid(
                f"what {cell.name} was is read after {cell.name} was changed in place", where=where, label="tvm.P4"
            )
        raise Invalid(
            f"{cell.name} is read after its memory, {cell.storage.name}, was {by}: live tensors overlap",
            where=where,
            label="tvm.P4",
        )


@dataclass
class Owners:
    """The storages of a function, and who owns each."""

    storages: list[Storage] = field(default_factory=list)

    def new(self, name: str, nbytes: Dim | None = None) -> Storage:
        """Add a storage, of unknown size without `nbytes`."""
        made = Storage(name, nbytes)
        self.storages.append(made)
        return made

    def own(self, name: str, value: Expr, depth: int) -> Held:
        """A value in memory of its own."""
        if not isinstance(value.type, TensorType):
            return Held(value)
        cell = Cell(name, value.type, self.new(name), depth, value, 1)
        cell.storage.owner = cell
        return Held(value, ((cell, 1),))

    def change(self, value: Value) -> tuple[tuple[Cell, int], ...]:
        """The memory of `value`, which now holds something else: it is not to be read any more."""
        found = list(dict.fromkeys(cell for cell, _ in cells_of(value)))
        for cell in found:
            cell.version += 1
        return tuple((cell, cell.version) for cell in found)

    def write(self, cell: Cell, value: Expr, where: str, depth: int) -> None:
        """`cell` holds `value` from now on, and no other tensor of its storage holds anything."""
        if cell.depth != depth:
            raise Invalid(
                f"{cell.name} is written in a branch or function and allocated outside of it",
                where=where,
                label="tvm.P5",
            )
        cell.value = value
        cell.version += 1
        cell.storage.owner = cell

    def snapshot(self) -> dict[Storage, Cell | None]:
        """The owner of each storage at this place."""
        return {s: s.owner for s in self.storages}

    def restore(self, state: dict[Storage, Cell | None]) -> None:
        """Give the storages back the owners of a snapshot."""
        for s, owner in state.items():
            s.owner = owner

    def join(self, other: dict[Storage, Cell | None]) -> None:
        """Both ways of a branch have been gone: what they did not leave alike is not known."""
        for s, owner in other.items():
            if s.owner is not owner:
                s.owner = None

    def either(self, known: tuple[Cell, int], value: Expr) -> tuple[Cell, int]:
        """The memory that a branch's result may have, where the branch took `known`: nothing else may write it."""
        storage = known[0].storage
        owner = storage.owner
        if owner is None:
            owner = storage.owner = Cell(
                f"the result in {storage.name}", known[0].type, storage, known[0].depth, value, 1
            )
        return owner, owner.version
