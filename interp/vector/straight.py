"""A tensor function as straight-line Python: one operation after another, without lanes (specs/interp.md, "Vector").

For what lanes cannot run or would run badly: loops that carry values, control that depends on data, few iterations.
Loops are Python's, elements are in lists, None where nothing was written. A matmul becomes in essence

    for i in range(64):
        p = i * 64
        for j in range(64):
            q = p + j
            c[q] = zero
            for k in range(64):
                c[q] = c[q] + a[p + k] * b[k * 64 + j]

Every check that was not shown to hold is made. Loops that claim to be parallel and were not shown independent are
watched as the definition watches them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from assay.interp.binding import Array
from assay.interp.reports import failed, outside, unwritten, unwritten_output
from assay.interp.vector.blocks import (
    Bind,
    Block,
    Blocks,
    Branch,
    Check,
    Drop,
    Fresh,
    Item,
    Loop,
    Repeat,
    Unplanned,
    Write,
)
from assay.interp.vector.regions import Regions, VectorAccess
from assay.interp.vector.straight_value import StraightValues, located
from assay.interp.vector.text import Text
from assay.interp.watching import LaneWatch, Race
from assay.semantics.dtypes import DType, dtype
from assay.semantics.errors import Crash, Span, Trap
from assay.semantics.integers.affine import Affine
from assay.semantics.scalar import Load, Var
from assay.semantics.tensor import INDEPENDENT, Buffer

MOST_PYTHON_LOOPS = 18
"""Python allows 20 nested loops in a function."""
LISTED = 1 << 20
"""Read-only buffers of more elements stay arrays: a list takes ten times the memory and the time to make it."""


def compile_straight(blocks: Blocks, regions: Regions) -> tuple[Callable[..., None], str]:
    """The function `kernel(inputs, outputs, scratch)` that runs the blocks, and its source.

    An entry of `scratch` is None or memory for what that allocation holds in the end.
    Raises `Unplanned` for what it cannot say: loops that are nested too deep, too many steps.
    """
    text = Text()
    with text.inside("def kernel(inputs, outputs, scratch):"):
        _Emitter(text, blocks, regions).function_body()
    return text.compiled("kernel", f"{blocks.name!a}"), str(text)


@dataclass(frozen=True)
class Watch:
    """A loop whose iterations are watched: the name of its watcher, and how many steps are around its body."""

    name: str
    lanes: bool
    around: int


class _Emitter(StraightValues):
    """Emits blocks, which are nested no deeper than `assay.interp.vector.blocks` allows."""

    def __init__(self, text: Text, blocks: Blocks, regions: Regions) -> None:
        super().__init__(text, blocks.ranges)
        self.blocks = blocks
        self.regions = regions
        self.arrays: dict[Buffer, str] = {}
        self.unlisted: set[Buffer] = set()
        self.loops: list[tuple[Var, str]] = []
        self.python_loops = 0
        self.watches: list[Watch] = []
        self.born: dict[Buffer, int] = {}
        """How many loops were watched when a buffer began: those do not concern it."""
        self.span: Span | None = None
        """The place in the source of what is being emitted."""
        self.path: list[str] = []
        """Where in the iteration we are: which item of each block, and which iteration of each loop."""

    def function_body(self) -> None:
        for k, b in enumerate(self.blocks.inputs):
            self.arrays[b] = name = self.text.name("a")
            self.born[b] = 0
            if self.stays_array(b):
                self.text.add(f"{name} = inputs[{k}].reshape(-1)")
            else:
                self.text.add(f"{name} = {self.text.shared(elements)}(inputs[{k}], {self.element_type(b.dtype)})")
        for b in self.blocks.outputs:
            self.begin(b)
        self.block(self.blocks.body)
        for k, b in enumerate(self.blocks.outputs):
            self.text.add(f"{self.text.shared(deliver, 'deliver')}({self.buffer(b)}, {self.arrays[b]}, outputs[{k}])")

    # --- buffers -------------------------------------------------------------------------------------------------

    def element_type(self, of: DType) -> str:
        return self.text.shared(of, f"to_{of.name}")

    def buffer(self, buffer: Buffer) -> str:
        return self.text.known(buffer, "b")

    def stays_array(self, buffer: Buffer) -> bool:
        if buffer.nbytes // buffer.dtype.itemsize > LISTED:
            self.unlisted.add(buffer)
        return buffer in self.unlisted

    def begin(self, buffer: Buffer) -> None:
        self.arrays[buffer] = name = self.text.name("a")
        self.born[buffer] = len(self.watches)
        self.text.add(f"{name} = [None] * {buffer.nbytes // buffer.dtype.itemsize}")

    def fresh(self, item: Fresh) -> None:
        b = item.buffer
        if item.data is None:
            self.begin(b)
            return
        self.born[b] = len(self.watches)
        data = np.array(item.data, order="C").reshape(-1) if self.stays_array(b) else elements(item.data, b.dtype)
        self.arrays[b] = self.text.known(data, "c")

    # --- accesses ------------------------------------------------------------------------------------------------

    def element(self, node: Load, indices: Sequence[str | None]) -> str:
        access = self.regions.accesses[id(node)]
        place, index = self.place(access, indices)
        array = self.arrays[node.buffer]
        if node.buffer in self.unlisted:
            value = self.step(f"{array}[{place}]" if node.dtype.is_float else f"{array}.item({place})")
        else:
            value = self.step(f"{array}[{place}]")
        if not access.ready:
            self.check_written(value, access, index)
        self.touch(node.buffer, index, write=False)
        return value

    def check_written(self, value: str, access: VectorAccess, index: Sequence[str]) -> None:
        stop = self.text.shared(unread)
        self.text.add(f"if {value} is None: raise {stop}({self.site(access.buffer, index)})")

    def place(self, access: VectorAccess, indices: Sequence[str | None]) -> tuple[str, list[str]]:
        """An element's place in row-major order and its index, checked where it was not shown to be inside."""
        whole, stride, others, index = Affine({}), 1, list[str](), list[str]()
        named = not (access.inside and (access.ready or access.write)) or self.watched(access.buffer)
        shape = access.buffer.static_shape
        for form, text, n in zip(reversed(access.forms), reversed(indices), reversed(shape), strict=True):
            if form is not None:
                whole = whole.plus(form, stride)
                index.append(self.number(form) if named else "0")
            else:
                assert text is not None
                others.append(f"{text} * {stride}" if stride != 1 else text)
                index.append(text)
            stride *= n
        index.reverse()
        if not access.inside:
            self.check_inside(access, index)
        if whole.terms or whole.constant or not others:
            others.append(self.number(whole))
        return " + ".join(others), index

    def check_inside(self, access: VectorAccess, index: Sequence[str]) -> None:
        for axis, (form, text, n) in enumerate(zip(access.forms, index, access.buffer.static_shape, strict=True)):
            within = None if form is None else form.interval(self.ranges)
            if within is None or within[0] < 0 or within[1] >= n:
                stop = self.text.shared(beyond)
                self.text.add(f"if not 0 <= {text} < {n}: raise {stop}({axis}, {n}, {self.site(access.buffer, index)})")

    def site(self, buffer: Buffer, index: Sequence[str]) -> str:
        return f"{self.buffer(buffer)}, ({''.join(f'{i}, ' for i in index)}){self.failure()}"

    def failure(self) -> str:
        names = tuple(v.name for v, _ in self.loops)
        span = "" if self.span is None else f", {self.text.known(self.span, 'at')}"
        return f", {names}, ({''.join(f'{i}, ' for _, i in self.loops)}){span}"

    def watched(self, buffer: Buffer) -> bool:
        return len(self.watches) > self.born[buffer]

    def touch(self, buffer: Buffer, index: Sequence[str], write: bool) -> None:
        """Tell an access to the loops that are watched and began after the buffer."""
        for w in self.watches[self.born[buffer] :]:
            place = f"({self.buffer(buffer)}, ({''.join(f'{i}, ' for i in index)}))"
            position = f", ({''.join(f'{p}, ' for p in self.path[w.around :])})" if w.lanes else ""
            with self.watched_over():
                self.text.add(f"{w.name}.touch({place}, {write}{position})")

    # --- statements ----------------------------------------------------------------------------------------------

    def block(self, block: Block) -> None:
        frames = len(self.frames)
        for k, item in enumerate(block):
            self.path.append(str(k))
            self.item(item)
            self.path.pop()
        for item in block:
            if isinstance(item, Fresh) and item.data is None:
                memory = f"scratch[{item.number}]"
                keep = self.text.shared(fill)
                self.text.add(f"if {memory} is not None: {keep}({self.arrays[item.buffer]}, {memory})")
        self.forget(frames)

    def item(self, item: Item) -> None:
        if not isinstance(item, Fresh):
            self.span = item.span
        match item:
            case Loop():
                self.loop(item)
            case Repeat():
                self.repeat(item)
            case Branch():
                self.branch(item)
            case Bind():
                name = self.text.name("v")
                self.text.add(f"{name} = {self.value(item.value)}")
                self.declare(item.var, name)
            case Fresh():
                self.fresh(item)
            case Write():
                self.write(item)
            case Check():
                condition = self.value(item.condition)
                self.text.add(f"if not {condition}: raise {self.stop(failed(item.kind, item.message, item.condition))}")
            case Drop():
                self.value(item.value)
            case _:
                raise Crash(f"no such item: {type(item).__name__}")

    def enter_loop(self, head: str) -> Any:
        self.python_loops += 1
        if self.python_loops > MOST_PYTHON_LOOPS:
            raise Unplanned(f"more than {MOST_PYTHON_LOOPS} nested loops")
        return self.text.inside(head)

    def loop(self, item: Loop) -> None:
        extent = self.value(item.extent)
        watched = item.kind in INDEPENDENT and not item.independent
        watcher = self.text.name("w")
        if watched:
            made = self.text.shared(LaneWatch if item.kind == "vectorized" else Race)
            self.text.add(f"{watcher} = {made}({self.text.known(item.var, 'v')})")
        name, frames = self.text.name("i"), len(self.frames)
        with self.enter_loop(f"for {name} in range({extent}):"):
            self.declare(item.var, name)
            self.loops.append((item.var, name))
            self.path.append(name)
            if watched:
                self.text.add(f"{watcher}.now = {name}")
                self.watches.append(Watch(watcher, item.kind == "vectorized", len(self.path)))
            self.block(item.body)
            if watched:
                self.watches.pop()
            self.path.pop()
            self.loops.pop()
            self.forget(frames)
        self.python_loops -= 1

    def repeat(self, item: Repeat) -> None:
        count = self.text.name("n")
        self.text.add(f"{count} = 0")
        with self.enter_loop("while True:"):
            self.text.add(f"{count} += 1")
            self.path.append(f"2 * {count}")
            condition = self.value(item.condition)
            self.text.add(f"if not {condition}: break")
            self.path[-1] = f"2 * {count} + 1"
            self.block(item.body)
            self.path.pop()
        self.python_loops -= 1

    def branch(self, item: Branch) -> None:
        condition = self.value(item.condition)
        for way, (head, part) in enumerate(((f"if {condition}:", item.then), ("else:", item.otherwise))):
            with self.text.inside(head):
                self.path.append(str(way))
                self.block(part)
                self.path.pop()

    def write(self, item: Write) -> None:
        if item.value.dtype is not item.buffer.dtype:
            raise Unplanned(f"a {item.value.dtype} is stored to {item.buffer!r}")
        access = self.regions.accesses[id(item)]
        indices = [None if f is not None else self.value(i) for f, i in zip(access.forms, item.indices, strict=True)]
        value = self.value(item.value)
        place, index = self.place(access, indices)
        self.text.add(f"{self.arrays[item.buffer]}[{place}] = {value}")
        self.touch(item.buffer, index, write=True)


# --- what generated code calls -----------------------------------------------------------------------------------


def elements(array: Array, of: DType) -> list[Any]:
    """The elements of an array in row-major order: Python's numbers for integers and bool, NumPy's for floats."""
    flat = np.asarray(array).reshape(-1)
    if of.is_float:
        return list(flat)
    found: list[Any] = (flat.astype(np.int8) if of.is_integer and of.bits < 8 else flat).tolist()
    return found


def deliver(buffer: Buffer, found: list[Any], to: Array) -> None:
    """Fill an output. Traps where an element was never written."""
    missing = fill(found, to)
    if missing is not None:
        raise unwritten_output(buffer, ~missing.reshape(to.shape))


def fill(found: list[Any], to: Array) -> Array | None:
    """Copy the elements that were written; which were not, where there are any."""
    of = dtype(to.dtype)
    hold = np.dtype(np.int8) if of.is_integer and of.bits < 8 else of.numpy
    missing = np.array([x is None for x in found], bool)
    if not missing.any():
        to.reshape(-1)[...] = np.array(found, hold).astype(of.numpy)
        return None
    to.reshape(-1)[~missing] = np.array([x for x in found if x is not None], hold).astype(of.numpy)
    return missing


def unread(buffer: Buffer, index: Sequence[int], *here: Any) -> Trap:
    """The trap of a load that finds an element unwritten; `here` is the site and the iteration."""
    return located(unwritten(buffer, index), *here)


def beyond(axis: int, size: int, buffer: Buffer, index: Sequence[int], *here: Any) -> Trap:
    """The trap of an index outside dimension `axis`; `here` is the site and the iteration."""
    return located(outside(buffer, index, axis, size), *here)
