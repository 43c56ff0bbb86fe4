"""Modules: what every pass takes and gives; and the planned program, the last form before C (specs/semantics.md).

A module maps names to graph functions, tensor functions, data types, planned programs and bytecode, and has a table of
constants that they share. Modules are values: a pass returns a new one.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from html import escape
from itertools import accumulate
from typing import Literal, TypeAlias
from weakref import WeakKeyDictionary

from assay.semantics.bits import Array, same_bits
from assay.semantics.bytecode import Bytecode
from assay.semantics.devices import ANYWHERE, VirtualDevice
from assay.semantics.dtypes import dtype
from assay.semantics.errors import Invalid
from assay.semantics.graph import Function
from assay.semantics.memory import Bounds, Interval, Plan, Pool
from assay.semantics.readable import Readable, readable_text
from assay.semantics.scalar import Dim, Var
from assay.semantics.steps import (
    Assertion as Assertion,
    Branch as Branch,
    Continue as Continue,
    Event as Event,
    Item as Item,
    Loop as Loop,
    Measure as Measure,
    PrintValues as PrintValues,
    Require as Require,
    Step as Step,
    flow as flow,
    title as title,
    walk as walk,
)
from assay.semantics.tensor import AllocateConst, PrimFunc, Stmt, program_order
from assay.semantics.types import DataDef, TensorType
from assay.semantics.walk import rewrite

GROUP = "group"
"""The attribute of a tensor function that is several calls in one: the name of the graph function that it computes."""


@dataclass(frozen=True)
class Slot:
    """A logical buffer of a planned program: bytes with one name, one meaning and one life.

    `live` are the positions at which it is live, as intervals (`assay.semantics.memory`). `place` says what it is for:
    the caller's "input" or "output", a "constant" of the read-only table, or "workspace". `offset` is its place in the
    table, or in the pool that `pool` names (empty: the program's first), None before that is decided. An input or
    output without an offset is memory of the caller. `producer` names what fills it, for messages.
    """

    name: str
    type: TensorType
    place: Literal["input", "output", "constant", "workspace"]
    live: tuple[Interval, ...]
    alignment: int
    offset: int | None = None
    producer: str = ""
    pool: str = ""
    device: VirtualDevice = ANYWHERE
    """In which memory it is: that of a device, in a scope (rule M8). Open: any."""
    room: Dim | None = None
    """The bytes that are kept for it, where its type has sizes that the run measures: the most that it can take."""

    @property
    def start(self) -> int:
        """The first position at which it is live."""
        return self.live[0][0] if self.live else 0

    @property
    def stop(self) -> int:
        """The position after the last one at which it is live."""
        return self.live[-1][1] if self.live else 0

    @property
    def nbytes(self) -> int:
        """The bytes that are kept for it, where that is a number."""
        return self.room if isinstance(self.room, int) else self.type.nbytes

    @property
    def is_pooled(self) -> bool:
        """Whether it lies in a pool of the program: neither in memory of the caller nor in the constant table."""
        match self.place:
            case "workspace":
                return True
            case "constant":
                return bool(self.pool)
            case "input" | "output":
                return self.offset is not None

    def is_live(self, position: int) -> bool:
        """Whether it is live at a position."""
        return any(start <= position < stop for start, stop in self.live)


@dataclass(frozen=True)
class Program:
    """Steps over slots: what runs, in which order, in which memory. Interpreted by `assay.interp.machine`.

    `pools` are the memories in which slots are placed, `sizes` their bytes once that is decided. Where sizes are
    expressions over symbols, so are the places: `plan` has them all, `limits` the least and greatest values of symbols.
    `assay.semantics.instance` gives the program in numbers.
    """

    slots: Mapping[str, Slot]
    steps: tuple[Item, ...]
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    pools: tuple[Pool, ...] = (Pool("workspace"),)
    sizes: Mapping[str, int] = field(default_factory=dict)
    plan: Plan | None = None
    limits: tuple[tuple[Var, int, int | None], ...] = ()
    host: VirtualDevice = ANYWHERE
    """The device that reads the conditions of branches (rule M8). Open: any."""

    @property
    def bounds(self) -> Bounds:
        """What is known of symbols in sizes: the least and the greatest value."""
        return {v: (low, high) for v, low, high in self.limits}

    @property
    def calls(self) -> list[Step]:
        """The steps that call something."""
        return [s for s in self.steps if isinstance(s, Step)]

    @property
    def positions(self) -> list[int]:
        """The first position of each step, and behind them the number of positions."""
        return [0, *accumulate(s.phases for s in self.steps)]

    @property
    def workspace_bytes(self) -> int:
        """Bytes of all pools together; 0 before a plan is made."""
        return sum(self.sizes.values())

    @property
    def alignment(self) -> int:
        """Bytes to which the pools are aligned."""
        return max((p.alignment for p in self.pools), default=1)

    def pool_of(self, slot: Slot) -> Pool:
        """The pool of a slot that has an offset in one; the first where it names none."""
        if not slot.pool:
            return self.pools[0]
        found = next((p for p in self.pools if p.name == slot.pool), None)
        if found is None:
            raise Invalid(
                f"slot {slot.name} lies in the pool {slot.pool}, which the program does not have", label="program.C6"
            )
        return found

    def placed(self, place: str) -> list[Slot]:
        """The slots of one place, in the order of the table."""
        return [s for s in self.slots.values() if s.place == place]

    @property
    def pooled(self) -> list[Slot]:
        """The slots that lie in its pools, in the order of the table."""
        planned = self.plan.places if self.plan is not None else {}
        return [s for s in self.slots.values() if s.is_pooled or s.name in planned]


Definition: TypeAlias = Function | PrimFunc | Program | Bytecode | DataDef


@dataclass(frozen=True)
class ConstantInfo:
    """How a constant of a module's table is to be stored: its alignment in bytes, a power of two; the section of the
    object file, "" for the usual one; and the memory in which it is (rule M8), open for any."""

    alignment: int = 64
    section: str = ""
    device: VirtualDevice = ANYWHERE


PLAIN = ConstantInfo()


def constant_entry(node: AllocateConst, constants: Mapping[str, Array]) -> Array:
    """The constant of a table that a node names; Invalid where it is not there, or has another dtype or shape."""
    found = constants.get(node.index)
    if found is None:
        what = (
            f"{node.buffer.name} is the constant {node.index or 'without a name'}, which is not in the module's table"
        )
        raise Invalid(what, where=node.span, label="module.C7")
    if found.shape != node.buffer.shape or dtype(found.dtype) is not node.buffer.dtype:
        got = TensorType(found.shape, dtype(found.dtype))
        raise Invalid(
            f"{node.buffer!r} is the constant {node.index} of the table, which is {got}",
            where=node.span,
            label="module.C8",
        )
    return found


def with_contents(function: PrimFunc, contents: Callable[[AllocateConst], Array | None]) -> PrimFunc:
    """A tensor function with other contents in its constants, at every depth; itself where all are the same arrays."""

    def change(node: Stmt) -> Stmt:
        if not isinstance(node, AllocateConst):
            return node
        data = contents(node)
        return node if data is node.data else replace(node, data=data)

    body = rewrite(function.body, change)
    return function if body is function.body else replace(function, body=body)


def by_name(function: PrimFunc, constants: Mapping[str, Array]) -> PrimFunc:
    """A tensor function without contents in its constants where a table has them under the name that they give: what
    `Module.resolved` undoes."""

    def contents(node: AllocateConst) -> Array | None:
        there = node.index in constants and node.data is not None and same_bits(node.data, constants[node.index])
        return None if there else node.data

    return with_contents(function, contents)


def _unresolved(function: PrimFunc) -> bool:
    """Whether a tensor function has a constant without contents."""
    if function not in _open:
        _open[function] = any(isinstance(s, AllocateConst) and s.data is None for s in program_order(function.body))
    return _open[function]


_open: WeakKeyDictionary[PrimFunc, bool] = WeakKeyDictionary()


@dataclass(frozen=True, repr=False)
class Module(Readable):
    """Definitions by name, and the constants they refer to by name. `main` is the entry.

    Graph functions name a constant of the table by a GlobalVar, tensor functions by the `index` of an AllocateConst.

    >>> module = assay.load("model.onnx")
    >>> [(p.name, p.type) for p in module.main.params]
    [('x', Tensor((N, 3), float32))]
    """

    definitions: Mapping[str, Definition]
    constants: Mapping[str, Array] = field(default_factory=dict)
    offsets: Mapping[str, int] = field(default_factory=dict)
    """Where each constant lies in the read-only table, in bytes, once that is decided."""
    infos: Mapping[str, ConstantInfo] = field(default_factory=dict)
    """How constants are to be stored; one that is not named here has nothing special."""

    def __repr__(self) -> str:
        """The module as text, of bounded length."""
        return readable_text(self)

    def _repr_html_(self) -> str:
        """The same in a notebook, where a long one is scrolled."""
        return f'<pre style="max-height: 30em; overflow: auto">{escape(readable_text(self))}</pre>'

    def info(self, name: str) -> ConstantInfo:
        """How the constant of that name is to be stored, the usual way where nothing is said."""
        return self.infos.get(name, PLAIN)

    def resolved(self) -> Module:
        """This module with the contents of every constant in its tensor functions: those that have only the name of a
        constant of the table get that array itself. Itself where all have theirs.

        Invalid where the table has no such constant, or it has another dtype or shape (`module.C7`, `module.C8`).
        """
        changed = {n: d for n, d in self.kernels.items() if _unresolved(d)}
        if not changed:
            return self
        made: dict[str, Definition] = {
            n: with_contents(d, lambda s: constant_entry(s, self.constants) if s.data is None else s.data)
            for n, d in changed.items()
        }
        return replace(self, definitions={**self.definitions, **made})

    @property
    def main(self) -> Function:
        """The entry as a graph function."""
        entry = self.definitions.get("main")
        if not isinstance(entry, Function):
            raise Invalid("the module has no graph function main", label="module.C1")
        return entry

    @property
    def program(self) -> Program:
        """The entry as a planned program."""
        entry = self.definitions.get("main")
        if not isinstance(entry, Program):
            raise Invalid("the module has no planned program main", label="module.C2")
        return entry

    @property
    def is_bytecode(self) -> bool:
        """Whether the entry is bytecode."""
        return isinstance(self.definitions.get("main"), Bytecode)

    @property
    def bytecode(self) -> Bytecode:
        """The entry as bytecode."""
        entry = self.definitions.get("main")
        if not isinstance(entry, Bytecode):
            raise Invalid("the module has no bytecode main", label="module.C13")
        return entry

    @property
    def graphs(self) -> dict[str, Function]:
        """The graph functions, by name."""
        return {n: d for n, d in self.definitions.items() if isinstance(d, Function)}

    @property
    def kernels(self) -> dict[str, PrimFunc]:
        """The tensor functions, by name."""
        return {n: d for n, d in self.definitions.items() if isinstance(d, PrimFunc)}

    def data(self, name: str) -> DataDef:
        """The data type of that name; Invalid (module.C4) where there is none."""
        found = self.definitions.get(name)
        if not isinstance(found, DataDef):
            raise Invalid(f"the module has no data type {name}", label="module.C4")
        return found

    def kernel(self, name: str) -> PrimFunc:
        """The tensor function of that name; Invalid (module.C3) where there is none."""
        found = self.definitions.get(name)
        if not isinstance(found, PrimFunc):
            raise Invalid(f"the module has no tensor function {name}", label="module.C3")
        return found

    def group(self, kernel: PrimFunc) -> Function | None:
        """The function whose calls a fused tensor function does, by its attribute `group`; None if it says none."""
        if GROUP not in kernel.attrs:
            return None
        found = self.definitions.get(kernel.attrs[GROUP])
        if not isinstance(found, Function):
            raise Invalid(
                f"the module has no function {kernel.attrs[GROUP]}, the group of {kernel.name}", label="module.C6"
            )
        return found

    def with_(self, /, **definitions: Definition) -> Module:
        """This module with definitions added or replaced."""
        return replace(self, definitions={**self.definitions, **definitions})
