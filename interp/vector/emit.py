"""Python source for a planned function: loops over blocks and views, NumPy calls inside (specs/interp.md, "Vector").

A matmul of 64 by 64, whose loops over rows and columns are lanes, becomes in essence

    copyto(c, zero)
    for k, a_k, b_k in zip(range(64), a, b):    # a is a view of shape (64, 1, 64, 1), b one of (64, 1, 1, 64)
        multiply(a_k, b_k, out=t)
        add(c, t, out=c)
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from math import prod

import numpy as np

from assay.interp.binding import Array
from assay.interp.reports import unwritten_output
from assay.interp.vector import runtime
from assay.interp.vector.blocks import Bind, Block, Branch, Check, Drop, Fresh, Item, Loop, Repeat, Write
from assay.interp.vector.emit_value import Lane, Value, Values
from assay.interp.vector.lanes import Scattered
from assay.interp.vector.plan import Plan, View
from assay.semantics.errors import Crash, Span
from assay.semantics.integers.affine import Affine
from assay.semantics.scalar import Expr, Load, Var
from assay.semantics.tensor import Buffer

Kernel = Callable[..., None]


def compile_plan(plan: Plan) -> tuple[Kernel, str]:
    """The function `kernel(inputs, outputs, scratch)` that runs a plan, and its source.

    It takes sequences of C-contiguous arrays and fills the outputs; an entry of `scratch` is None or memory for that
    allocation.
    """
    emitter = Emitter(plan)
    emitter.function_body()
    return emitter.text.compiled("kernel", f"{plan.blocks.name!a}"), str(emitter.text)


class Emitter(Values):
    """Emits blocks as Python source, and all that the generated source refers to."""

    def __init__(self, plan: Plan) -> None:
        super().__init__(plan)
        self.arrays: dict[Buffer, str] = {}
        self.records: dict[Buffer, str] = {}
        self.current: dict[View, str] = {}
        self.serial: list[Var] = []
        self.span: Span | None = None
        """The place in the source of what is being emitted."""

    def function_body(self) -> None:
        """Emits the function `kernel(inputs, outputs, scratch)`, and the check that its outputs are fully written."""
        blocks = self.plan.blocks
        with self.text.inside("def kernel(inputs, outputs, scratch):"):
            for what, buffers in (("inputs", blocks.inputs), ("outputs", blocks.outputs)):
                for k, b in enumerate(buffers):
                    self.arrays[b] = name = self.text.name("a")
                    self.text.add(f"{name} = {what}[{k}]")
            self.prologue = self.text.spot()
            for b in (*blocks.inputs, *blocks.outputs):
                self.begin(b)
            self.block(blocks.body)
            for b in blocks.outputs:
                if b in self.records:
                    trap = f"{self.text.shared(unwritten_output)}({self.text.known(b, 'b')}"
                    self.text.add(f"if not {self.records[b]}.all(): raise {trap}, {self.records[b]})")

    # --- buffers and views ---------------------------------------------------------------------------------------

    def begin(self, buffer: Buffer) -> None:
        """The record of what is written, and every view on a buffer that begins to exist here."""
        lead = [lane for lane in self.lanes if lane.var in self.plan.private[buffer]]
        shape = (*(lane.limit for lane in lead), *buffer.static_shape)
        if buffer in self.plan.regions.shadowed:
            self.records[buffer] = self.text.name("w")
            self.text.add(f"{self.records[buffer]} = np.zeros({shape}, bool)")
        raw: dict[bool, str] = {}
        for view in self.plan.rooted[buffer]:
            if view.shadow not in raw:
                raw[view.shadow] = self.text.name("r")
                array = self.records[buffer] if view.shadow else self.arrays[buffer]
                self.text.add(f"{raw[view.shadow]} = {array}.reshape(-1).view(np.uint8)")
            self.root(view, raw[view.shadow], {v.var: prod(shape[k + 1 :]) for k, v in enumerate(lead)})

    def root(self, view: View, raw: str, lead: dict[Var, int]) -> None:
        """Make a view: an axis for each Python loop still to come that it depends on, and for each lane loop."""
        width = 1 if view.shadow else view.buffer.dtype.itemsize
        active = {lane.var: lane for lane in self.lanes}
        offset = [str(view.flat.constant * width)]
        sizes: list[str] = []
        strides: list[int] = []
        steps: dict[Var, int] = {}
        for var, n in view.serial:
            factor = view.flat.terms[var]
            if var in self.numbers:
                offset.append(f"{factor * width} * {self.numbers[var]}")
            else:
                sizes.append(str(n))
                strides.append(factor * width)
        sizes.append("1")
        strides.append(0)
        for var in view.lanes:
            factor = view.flat.terms.get(var, 0)
            steps[var] = factor + lead.get(var, 0)
            if var in active:
                if factor and active[var].start != "0":
                    offset.append(f"{factor * width} * {active[var].start}")
                sizes.append(active[var].size if var in view.axes else "1")
            else:
                sizes.append(str(self.extent(var)) if var in view.axes else "1")
            strides.append(steps[var] * width)
        name = self.text.name("p")
        of = "d_bool" if view.shadow else self.dtype_name(view.buffer.dtype)
        self.text.shared(np.dtype(bool), "d_bool")
        shape = f"({', '.join(sizes)},)"
        self.text.add(f"{name} = np.ndarray({shape}, {of}, {raw}, {' + '.join(offset)}, {tuple(strides)})")
        self.current[view] = name
        self.strides[view] = steps

    def extent(self, var: Var) -> int:
        """The most iterations that the loop over `var` can have."""
        return self.plan.blocks.ranges[var][1] + 1

    def at(self) -> str:
        """Where the run is, for messages."""
        loops = "".join(f"{self.numbers[v]}, " for v in self.serial)
        starts = "".join(f"{lane.start}, " for lane in self.lanes)
        return f"(({loops}), ({starts}))"

    def site(self, buffer: Buffer | None, indices: Iterable[Expr]) -> str:
        """The name of the `Site` that a message about an access at `indices` needs: loops, lanes and span around it."""
        site = runtime.Site(
            buffer, tuple(indices), tuple(self.serial), tuple(lane.var for lane in self.lanes), self.span
        )
        return self.text.known(site, "s")

    def load(self, node: Load, index: list[Value]) -> Value:
        """The value of a load: its strided view if it has one, else a gather by index; checks what may be unwritten."""
        view = self.plan.views.get(id(node))
        if view is None:
            return self.irregular(node, index)
        shadow = self.plan.shadows.get(id(node))
        if shadow is not None:
            trap = f"{self.text.shared(runtime.unready)}({self.site(node.buffer, node.indices)}"
            mask = self.current[shadow]
            self.text.add(f"if not {mask}.all(): raise {trap}, {mask}, {self.at()})")
        return Value(self.current[view], view.axes, self.rank, view=view)

    def irregular(self, node: Load | Write, index: list[Value], value: str = "") -> Value:
        """A load or write lane by lane, its indices checked on the run."""
        lead = [(k, lane) for k, lane in enumerate(self.lanes) if lane.var in self.plan.private[node.buffer]]
        places = [Value(self.vector(k, lane, offset=False), frozenset({lane.var}), self.rank) for k, lane in lead]
        where = places + index
        texts = "".join(f", {self.aligned(i)}" for i in where)
        name = "scatter" if value else "gather"
        call = self.text.shared(getattr(runtime, name), name)
        site = self.site(node.buffer, node.indices)
        record = self.records.get(node.buffer, "None")
        value = f", {value}" if value else ""
        text = f"{call}({site}, {self.arrays[node.buffer]}, {record}, {self.at()}{value}{texts})"
        if value:
            self.text.add(text)
            return Value("", frozenset(), None)
        return self.plain(text, where)

    # --- blocks --------------------------------------------------------------------------------------------------

    def block(self, block: Block) -> None:
        """Emits the items of a block; the names that they bind are out of force after it."""
        held: list[Value] = []
        before = dict(self.bound), dict(self.arrays), dict(self.records)
        for item in block:
            self.item(item, held)
        self.bound, self.arrays, self.records = before
        for value in held:
            self.release(value.temp)

    def item(self, item: Item, held: list[Value]) -> None:
        """Emits one item, or a call of `assay.interp.vector.lanes` where the plan runs it by index."""
        if item in self.plan.scattered:
            self.scattered(item)
            return
        if not isinstance(item, Fresh):
            self.span = item.span
        match item:
            case Write():
                self.write(item)
            case Loop():
                self.loop(item)
            case Fresh():
                self.fresh(item)
            case Bind():
                value = self.bound[item.var] = self.settled(self.value(item.value))
                held.append(value)
            case Check():
                holds = self.value(item.condition)
                told = f"{item.kind!r}, {item.message!r}, {self.text.known(item.condition, 'e')}"
                trap = f"{self.text.shared(runtime.failing)}({self.site(None, ())}, {told}"
                text = self.aligned(holds)
                self.text.add(f"if not {text}.all(): raise {trap}, {text}, {self.at()})")
                self.release(holds.temp)
            case Drop():
                self.release(self.value(item.value).temp)
            case Branch():
                condition = self.value(item.condition)
                self.release(condition.temp)
                with self.text.inside(f"if {self.aligned(condition)}:"):
                    self.block(item.then)
                with self.text.inside("else:"):
                    self.block(item.otherwise)
            case Repeat():
                with self.text.inside("while True:"):
                    condition = self.value(item.condition)
                    self.release(condition.temp)
                    self.text.add(f"if not {self.aligned(condition)}: break")
                    self.block(item.body)
            case _:
                raise Crash(f"no such item: {type(item).__name__}")

    def settled(self, value: Value) -> Value:
        """A value that later stores do not change."""
        if value.view is None:
            return value
        if value.view.buffer in self.plan.blocks.inputs or value.view.buffer in self.plan.blocks.constants:
            return value
        return self.plain(f"array({value.text})", [value])

    def write(self, item: Write) -> None:
        """Emits a store: into the item's strided view if it has one, else a scatter by index; marks the elements as
        written."""
        view = self.plan.views.get(id(item))
        if view is None:
            index = [self.value(i) for i in item.indices]
            value = self.value(item.value)
            self.irregular(item, index, self.aligned(value))
            for v in (*index, value):
                self.release(v.temp)
            return
        target = self.current[view]
        value = self.value(item.value, target if view.axes == self.all_axes else None)
        if value.text != target:
            self.text.add(f"copyto({target}, {self.aligned(value)})")
        self.release(value.temp)
        shadow = self.plan.shadows.get(id(item))
        if shadow is not None:
            self.text.add(f"{self.current[shadow]}.fill(True)")

    def fresh(self, item: Fresh) -> None:
        """Emits an allocation: `scratch` where the caller gives some, else a new array, with a copy for each lane."""
        buffer = item.buffer
        name = self.arrays[buffer] = self.text.name("a")
        if item.data is not None:
            data: Array = np.array(item.data, order="C")
            data.flags.writeable = False
            self.text.add(f"{name} = {self.text.known(data, 'k')}")
        else:
            lead = tuple(lane.limit for lane in self.lanes)
            own = f"empty({(*lead, *buffer.static_shape)}, {self.dtype_name(buffer.dtype)})"
            given = f"scratch[{item.number}]"
            self.text.add(f"{name} = {own}" if lead else f"{name} = {own} if {given} is None else {given}")
        self.begin(buffer)

    # --- loops ---------------------------------------------------------------------------------------------------

    def loop(self, loop: Loop) -> None:
        """Emits a loop, as lanes where the plan says so, else as a loop of Python."""
        views, vectors = dict(self.current), dict(self.vectors)
        if loop in self.plan.lane:
            self.lane_loop(loop)
        else:
            self.python_loop(loop)
        self.current, self.vectors = views, vectors

    def ready_views(self, loop: Loop) -> list[View]:
        """The views used in a loop that exist already and depend on its variable."""
        return [v for v in self.plan.within[loop] if v in self.current and loop.var in v.flat.terms]

    def python_loop(self, loop: Loop) -> None:
        """Emits a `for` over the iterations and over the views that move with them."""
        number = self.text.name("i")
        if loop.trip is not None:
            count = str(loop.trip)
        elif loop.form is not None and loop.form.is_linear and loop.form.variables <= set(self.numbers):
            count = self.linear(loop.form)
        else:
            extent = self.value(loop.extent)
            count = f"int({extent.text}.item())"
            self.release(extent.temp)
        views = self.ready_views(loop)
        names = [self.text.name("p") for _ in views]
        sources = ", ".join([f"range({count})", *(self.current[v] for v in views)])
        head = f"for {', '.join([number, *names])} in zip({sources}):" if views else f"for {number} in range({count}):"
        self.current.update(zip(views, names, strict=True))
        self.numbers[loop.var] = number
        self.serial.append(loop.var)
        with self.text.inside(head):
            self.block(loop.body)
        self.serial.pop()
        del self.numbers[loop.var]

    def lane_loop(self, loop: Loop) -> None:
        """Emits a loop as an axis of lanes, at most as many at once as the plan allows."""
        assert loop.most is not None
        cut = self.plan.lane[loop]
        if loop.trip is None:
            assert loop.form is not None
            size = self.text.name("n")
            self.text.add(f"{size} = {self.linear(loop.form)}")
            with self.text.inside(f"if {size} > 0:"):
                self.lanes_inside(loop, "0", size, False, f":{size}")
        elif cut == loop.most:
            self.lanes_inside(loop, "0", str(cut), True, "")
        else:
            first, size = self.text.name("o"), str(cut)
            with self.text.inside(f"for {first} in range(0, {loop.most}, {cut}):"):
                even = loop.most % cut == 0
                if not even:
                    size = self.text.name("n")
                    self.text.add(f"{size} = min({cut}, {loop.most} - {first})")
                self.lanes_inside(loop, first, size, even, f"{first}:{first} + {cut}")

    def lanes_inside(self, loop: Loop, start: str, size: str, fixed: bool, cut: str) -> None:
        """The body of a lane loop, over one block of lanes."""
        if cut:
            for view in self.ready_views(loop):
                place = sum(v not in self.numbers for v, _ in view.serial) + 1 + view.lanes.index(loop.var)
                name = self.text.name("p")
                self.text.add(f"{name} = {self.current[view]}[{':, ' * place}{cut}]")
                self.current[view] = name
        lane = Lane(loop.var, start, size, fixed, self.plan.lane[loop], self.text.spot())
        self.lanes.append(lane)
        self.block(loop.body)
        self.lanes.pop()

    def linear(self, form: Affine) -> str:
        """A linear form of Python loop variables as Python arithmetic."""
        terms = [f"{k} * {self.numbers[v]}" for v, k in form.terms.items() if isinstance(v, Var)]
        return " + ".join([str(form.constant), *terms])

    def scattered(self, item: Item) -> None:
        """Hand an item to the evaluator that runs lane by index."""
        buffers = list(self.arrays)
        bound = list(self.bound)
        lanes = tuple(lane.var for lane in self.lanes)
        region = Scattered(item, lanes, tuple(self.serial), tuple(bound), tuple(buffers), dict(self.plan.private))
        sizes = "".join(f"{lane.size}, " for lane in self.lanes)
        values = "".join(f"{self.aligned(self.bound[v])}, " for v in bound)
        arrays = "".join(f"({self.arrays[b]}, {self.records.get(b, 'None')}), " for b in buffers)
        self.text.add(f"{self.text.known(region, 'run')}({self.at()}, ({sizes}), ({values}), ({arrays}))")
