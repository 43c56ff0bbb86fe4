"""Slots for origins, and steps for items (specs/lower.md, "liveness").

A result is made in the caller's memory where it can be, and what a branch gives where the choice's result is wanted;
what cannot be is copied there.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from assay.lower.devices.scopes import with_scopes
from assay.lower.legalize.kernels import build
from assay.lower.liveness.items import (
    Again,
    Assert,
    Begin,
    Choose,
    Close,
    Effect,
    End,
    Leave,
    Measured,
    Otherwise,
    Resized,
    Run,
    Text,
)
from assay.lower.liveness.rooms import ends_of, greater, most_of, room_of
from assay.semantics.alias import Origin
from assay.semantics.devices import ANYWHERE, GLOBAL, VirtualDevice
from assay.semantics.dtypes import dtype
from assay.semantics.errors import Invalid, Span, Unsupported
from assay.semantics.graph.limits import Limits, declared_rooms
from assay.semantics.instance import replaced
from assay.semantics.module import Module
from assay.semantics.names import unused
from assay.semantics.ops.sizes import same_size
from assay.semantics.scalar import Const, Dim, Expr, Var, substitute, variables
from assay.semantics.steps import Assertion, Branch, Continue, Item, Loop, Measure, PrintValues, Require, Step
from assay.semantics.tensor import Buffer, PrimFunc
from assay.semantics.tensor.phases import phases
from assay.semantics.types import TensorType, symbols

ROOM = 1024
"""How much greater than at first a size can be of which nothing says how great it can be."""
Place = Literal["input", "output", "constant", "workspace"]


@dataclass(frozen=True)
class SlotRow:
    """A slot in the making."""

    type: TensorType
    place: Place
    producer: str
    device: VirtualDevice = ANYWHERE
    room: Dim | None = None
    """The most bytes that it can take, where its type has sizes that a run measures."""


class Homes:
    """Slots by name and steps, made from a text."""

    def __init__(self, module: Module, text: Text, whole: bool) -> None:
        self.module = module
        self.text = text
        self.whole = whole
        self.rows: dict[str, SlotRow] = {}
        self.home: dict[Origin, str] = {}
        self.steps: list[Item] = []
        self.outputs: list[str] = []
        self.copies: dict[str, PrimFunc] = {}
        self.copies_of: dict[tuple[object, ...], PrimFunc] = {}
        """Kernels that copy, by dims (None: any), dtype and scope."""
        self.inside: dict[PrimFunc, tuple[Buffer, ...]] = {}
        """What a tensor function allocates."""
        self.late: dict[Choose | None, tuple[list[tuple[Origin, str]], list[tuple[Origin, str]]]] = {None: ([], [])}
        """What is to be copied where, at the end of each branch of a choice; None: at the end of all."""
        self.most: dict[Var, Dim] = {}
        """The greatest values of the sizes that were measured so far."""
        self.open: dict[Var, Dim] = {}
        """The greatest values of sizes of which nothing in the text says how great they can be."""
        self.arms: dict[Choose, list[Dim | None]] = {}
        """Of choices of which one arm has told its sizes, how great these can be."""

    def run(self) -> None:
        """Make slots for parameters, constants and outputs, then a step for each item of the text."""
        main = self.module.main
        for p in main.params:
            assert isinstance(p.type, TensorType)
            self.home[Origin(p.name, 0, p.type, "parameter")] = self.add(
                p.name, p.type, "input", "the caller", p.device
            )
        for name, array in self.module.constants.items():
            of = TensorType(array.shape, dtype(array.dtype))
            self.rows[name] = SlotRow(of, "constant", "the constant table", self.module.info(name).device)
        given = main.attrs.get("outputs", ())
        for i, (origin, type_) in enumerate(zip(self.text.result, self.text.types, strict=True)):
            name = self.add(given[i] if i < len(given) else f"output_{i}", type_, "output", "", origin.device)
            self.outputs.append(name)
            if same_size(origin.type.shape, type_.shape):
                self.settle(origin, name, None, 0)
            else:  # what was made before a cast said its size does not lie in memory of the size that it says
                self.late[None][0].append((origin, name))
        used = self.used()
        open_: list[int] = []
        for i, item in enumerate(self.text.items):
            match item:
                case Run():
                    self.call(item)
                case Measured():
                    self.bound(item.symbols, most_of(self.text.items, i, self.most, self.module))
                    self.steps.append(Measure(self.slot(item.vector), item.symbols, (), item.span))
                case Resized():
                    self.resize(item)
                case Effect():
                    self.steps.append(self.effect(item))
                case Assert():
                    self.steps.append(Assertion(item.sizes, item.span))
                case Choose():
                    self.choose(item, used)
                    at = len(self.steps)
                    open_.append(at)
                    self.steps.append(Branch(self.slot(item.condition), at, at, item.span))
                case Close(of=choice, side=side):
                    self.copy_all(self.late[choice][side])
                case Otherwise(of=choice):
                    at = open_[-1]
                    self.steps[at] = Branch(self.slot(choice.condition), len(self.steps), at, choice.span)
                case End():
                    at = open_.pop()
                    branch = self.steps[at]
                    assert isinstance(branch, Branch)
                    self.steps[at] = replace(branch, end=len(self.steps))
                    if len(self.steps) == at + 1:
                        self.steps.pop()  # it has nothing to choose between
                case Begin():
                    open_.append(self.begin(item))
                case Again():
                    self.move([(v, self.home[c]) for c, v in zip(item.of.carried, item.values, strict=True) if c])
                    self.steps.append(Continue(item.span))
                case Leave():
                    at = open_.pop()
                    loop = self.steps[at]
                    assert isinstance(loop, Loop)
                    self.steps[at] = replace(loop, end=len(self.steps))
        self.copy_all(self.late[None][0])
        if self.most:
            self.keep_room()

    def keep_room(self) -> None:
        """Say how great measured sizes can be, and how many bytes the slots take for that."""
        for name, row in self.rows.items():
            self.rows[name] = replace(row, room=room_of(row.type, self.most))
        for i, step in enumerate(self.steps):
            if isinstance(step, Measure):
                self.steps[i] = replace(step, most=tuple(self.most[v] for v in step.symbols))

    def effect(self, item: Effect) -> Item:
        """What is asserted of values, or printed."""
        shown = tuple(map(self.slot, item.shown))
        if item.condition is None:
            return PrintValues(shown, item.format, item.span)
        return Require(self.slot(item.condition), shown, item.format, item.span)

    def bound(self, symbols: Sequence[Var], most: Sequence[Dim | None]) -> None:
        """How great sizes can be; where that is not known, as great as `main` declares, else ROOM."""
        for v, greatest in zip(symbols, most, strict=True):
            self.most[v] = greatest if greatest is not None else self.make_room(v, 0)

    def make_room(self, size: Var, first: Dim) -> Dim:
        """The greatest value of a size that begins at `first`, and of which the text says no more."""
        declared = declared_rooms(self.module.main).get(self.called(size))
        self.open[size] = first + ROOM if declared is None else declared
        return self.open[size]

    def called(self, size: Var) -> str:
        """What a measured size is called in the program."""
        return self.text.names.get(size, size).name

    def limits(self) -> Limits:
        """The limits of sizes that the text does not bound. Invalid (limits.C5): there is no size of a name that `main`
        declares."""
        names = [self.called(v) for v in self.open]
        for name in declared_rooms(self.module.main):
            if name not in names:
                given = [s.name for p in self.module.main.params for s in symbols(p.type)]
                what = f"there is no size {name}: the inputs have {', '.join(given) or 'none'}"
                what += f", and a run tells {', '.join(names)} without a greatest value" if names else ""
                raise Invalid(what, label="limits.C5")
        return tuple((v, 0, most if isinstance(most, int) else None) for v, most in self.open.items())

    def resize(self, item: Resized) -> None:
        """Sizes become dims: those of a choice are at most what they are in an arm."""
        ends = [ends_of(d, self.most) for d in item.values]
        most = [None if e is None else e[1] for e in ends]
        if item.among is not None and item.among in self.arms:
            first = self.arms.pop(item.among)
            both = zip(first, most, strict=True)
            self.bound(item.symbols, [None if a is None or b is None else greater(a, b) for a, b in both])
        elif item.among is not None:
            self.arms[item.among] = most
        elif any(v not in self.most for v in item.symbols):  # before a loop that changes them
            for v, n in zip(item.symbols, most, strict=True):
                self.most[v] = self.make_room(v, 0 if n is None else n)
        self.steps.append(Measure("", item.symbols, (), item.span, item.values))

    def used(self) -> set[Origin]:
        """The origins that are read; a branch's, if the choice's result is read."""
        found = set(self.text.result)
        for item in reversed(self.text.items):
            match item:
                case Run() | Effect():
                    found.update(item.reads)
                case End(of=choice):
                    for arm in choice.arms:
                        found.update(a for a, r in zip(arm, choice.results, strict=True) if r in found)
                case Choose():
                    found.add(item.condition)
                case Measured():
                    found.add(item.vector)
                case Again():
                    found.update(item.values)
                case Begin():
                    found.update(item.initial)
        return found

    def begin(self, item: Begin) -> int:
        """A loop begins: each of its variables has memory of its own, filled before with what the call hands over. The
        number of its step."""
        carried: list[str] = []
        for own, initial in zip(item.carried, item.initial, strict=True):
            if own is not None:
                self.home[own] = self.add(own.name, own.type, "workspace", f"the loop at {item.span}", own.device)
                self.copy(initial, self.home[own])
            carried.append("" if own is None else self.home[own])
        index = len(self.steps)
        self.steps.append(Loop(index, tuple(carried), item.span))
        if item.sizes:
            _, ahead, here = zip(*item.sizes, strict=True)
            self.bound(here, [self.most[v] for v in ahead])
            self.steps.append(Measure("", here, (), item.span, ahead))
        for handed, own in item.taken:
            self.home[own] = self.add(own.name, own.type, "workspace", f"the loop at {item.span}", own.device)
            self.copy(handed, self.home[own])
        return index

    def move(self, moves: Iterable[tuple[Origin, str]]) -> None:
        """Copy origins to slots as if at once: none is overwritten before it is read."""
        left = {name: origin for origin, name in moves if self.slot(origin) != name}
        while left:
            wanted = {self.slot(origin) for origin in left.values()}
            free = next((name for name in left if name not in wanted), None)
            if free is not None:
                self.copy(left.pop(free), free)
                continue
            name, origin = next(iter(left.items()))  # they go round: one of them is kept aside
            aside = replace(origin, name=f"{name}.aside", kind="call")
            self.home[aside] = self.add(aside.name, origin.type, "workspace", "", origin.device)
            self.copy(origin, self.home[aside])
            left[name] = aside

    def settle(self, origin: Origin, name: str, choice: Choose | None, side: int) -> None:
        """`name` gets the bytes of `origin` at the end of a branch: by being its home, or else by a copy."""
        arm = None if choice is None else (choice, side)
        if origin.kind in ("call", "choice") and origin not in self.home and self.text.arm_of[origin] == arm:
            self.home[origin] = name
        else:
            self.late[choice][side].append((origin, name))

    def choose(self, item: Choose, used: set[Origin]) -> None:
        """Homes for the results of a choice, and for what its branches give for them."""
        self.late[item] = [], []
        for result, then, otherwise in zip(item.results, *item.arms, strict=True):
            if result.kind != "choice" or then == otherwise or result not in used:
                continue
            producer = f"a choice at {item.span}" if item.span else f"a choice by {item.condition.name}"
            name = self.made(
                result, result.name if len(item.results) == 1 else f"{result.name}.{result.index}", producer
            )
            for side, given in enumerate((then, otherwise)):
                if same_size(given.type.shape, [replaced(d, item.told[side]) for d in result.type.shape]):
                    self.settle(given, name, item, side)
                else:  # its size is told at the end of the arm
                    self.late[item][side].append((given, name))

    def made(self, origin: Origin, name: str, producer: str) -> str:
        """The slot in which an origin is made: its home where it has one already, else new workspace."""
        if origin not in self.home:
            self.home[origin] = self.add(name, origin.type, "workspace", producer, origin.device)
        else:
            home = self.home[origin]
            both = self.one_device(origin, origin.device, home)
            self.rows[home] = replace(self.rows[home], producer=producer, device=both)
        return self.home[origin]

    def one_device(self, origin: Origin, device: VirtualDevice, name: str) -> VirtualDevice:
        """What `device`, on which an origin is, and that of the slot in which it is wanted say together."""
        wanted = self.rows[name].device
        both = wanted.join(device)
        if both is None:
            raise Invalid(
                f"{origin.name} is on {device}, and is wanted in {name} on {wanted}: only a device_copy crosses, and"
                " the pass devices (assay.lower.devices) puts it there",
                label="liveness.C8",
            )
        return both

    def slot(self, origin: Origin) -> str:
        """The name of the slot in which an origin lies."""
        return origin.name if origin.kind == "constant" else self.home[origin]

    def call(self, item: Run) -> None:
        """Make a step from the call of a kernel, with slots for what it makes. Unsupported (`liveness.C9`) without a
        result."""
        kernel = self.module.kernel(item.kernel)
        producer = f"{item.kernel} at {item.span}" if item.span else item.kernel
        if not item.makes:
            raise Unsupported(
                f"{item.kernel} gives no tensor, and each step writes one", where=item.span, label="liveness.C9"
            )
        name = item.makes[0].name
        writes = tuple(
            self.made(o, name if len(item.makes) == 1 else f"{name}.{o.index}", producer) for o in item.makes
        )
        reads = tuple(map(self.slot, item.reads))
        if kernel not in self.inside:
            self.inside[kernel] = kernel.allocations
        dims = _dims(kernel, item)
        sizes: dict[Var, Dim] = {**dict(zip(kernel.scalars, item.scalars, strict=True)), **dict(dims)}
        scratch = tuple(
            self.add(
                f"{name}.{b.name}",
                _allocated(kernel, b, sizes, item.span),
                "workspace",
                producer,
                _memory(item.device, b.scope),
            )
            for b in self.inside[kernel]
        )
        step = Step(kernel.name, reads, writes, scratch, item.span, item.device, self.phases(kernel))
        self.steps.append(replace(step, scalars=item.scalars, dims=dims))

    def phases(self, kernel: PrimFunc) -> int:
        """How many positions a step of this kernel takes."""
        return 1 if self.whole else phases(kernel).count

    def add(self, name: str, type: TensorType, place: Place, producer: str, device: VirtualDevice) -> str:
        """A new slot; its name is made unique."""
        unique = unused(name, self.rows, self.module.constants)
        self.rows[unique] = SlotRow(type, place, producer, device)
        return unique

    def copy_all(self, late: Iterable[tuple[Origin, str]]) -> None:
        """Make a step that copies each of these origins to its slot."""
        for origin, name in late:
            self.copy(origin, name)

    def copy(self, origin: Origin, name: str) -> None:
        """A step that copies what could not be made where it is wanted."""
        of, source = origin.type, self.slot(origin)
        device = self.one_device(origin, self.rows[source].device, name)
        scope = device.scope or GLOBAL
        shape = tuple(d if isinstance(d, int) else None for d in of.shape)
        kernel = self.copies_of.get((shape, of.dtype, scope))
        if kernel is None:
            fresh = f"copy{len(self.copies)}"
            while fresh in self.module.definitions:
                fresh += "_"
            attrs = {"dtype": of.dtype.name}
            # one kernel for all symbolic sizes: its own symbols are dims by themselves, so its buffers tell them
            general = TensorType(tuple(Var(f"d{i}") if d is None else d for i, d in enumerate(shape)), of.dtype)
            kernel = build("astype", attrs, (general,), general, fresh)
            kernel = replace(kernel, attrs={**kernel.attrs, "operator": "astype", "attrs": attrs})
            kernel = with_scopes(kernel, fresh, {0: scope, 1: scope})
            self.copies[fresh] = self.copies_of[shape, of.dtype, scope] = kernel
        row = self.rows[name]
        self.rows[name] = replace(
            row, producer=f"copy of {origin.name}" if row.place == "output" else row.producer, device=device
        )
        dims = tuple((d, n) for d, n in zip(kernel.inputs[0].shape, of.shape, strict=True) if isinstance(d, Var))
        step = Step(kernel.name, (source,), (name,), device=device, phases=self.phases(kernel), dims=dims)
        self.steps.append(step)


def _memory(device: VirtualDevice, scope: str) -> VirtualDevice:
    """The memory in which a step on a device has what it allocates in a scope; open where nothing says a device."""
    return ANYWHERE if device.place == ANYWHERE else replace(device, scope=scope)


def _dims(kernel: PrimFunc, item: Run) -> tuple[tuple[Var, Dim], ...]:
    """What the symbols in the shapes of a tensor function's parameters are in a call, but for its scalars."""
    found: dict[Var, Dim] = {}
    for b, t in zip(kernel.params, item.types, strict=True):
        for d, n in zip(b.shape, t.shape, strict=False):
            if isinstance(d, Var) and d not in kernel.scalars:
                found.setdefault(d, n)
    return tuple(found.items())


def _allocated(kernel: PrimFunc, buffer: Buffer, sizes: dict[Var, Dim], span: Span | None) -> TensorType:
    """The type of an allocation in a call."""
    shape: list[Dim] = []
    for d in buffer.shape:
        if isinstance(d, Expr):
            unknown = [v.name for v in variables(d) if v not in sizes]
            if unknown:
                raise Unsupported(
                    f"{kernel.name} allocates {buffer!r}: a size that is computed during the call, such as"
                    f" {unknown[0]}, cannot be planned; those of the parameters and the scalars can",
                    where=span,
                    label="liveness.C6",
                )
            d = substitute(d, sizes)
            d = int(d.value) if isinstance(d, Const) else d
        shape.append(d)
    return TensorType(tuple(shape), buffer.dtype)
