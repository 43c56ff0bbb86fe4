"""How the vector interpreter runs a function: which loops are lanes, and the views that accesses read and write.

A lane loop runs all its iterations at once, as an axis of NumPy arrays; one that was not shown independent stays a
Python loop. Lanes are cut into blocks that a core's cache holds. An access with linear indices that is shown to be in
bounds is a strided view: an axis for each Python loop around it that its index depends on, then one for each lane
loop (specs/interp.md, "Vector").
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TypeAlias

from assay.interp.vector.blocks import (
    Bind,
    Block,
    Blocks,
    Branch,
    Fresh,
    Item,
    Loop,
    Repeat,
    Unplanned,
    Write,
    expressions,
    inner,
    walk,
)
from assay.interp.vector.regions import Regions
from assay.semantics.integers.affine import Affine
from assay.semantics.scalar import Expr, Load, Var
from assay.semantics.tensor import INDEPENDENT, Buffer, loads
from assay.semantics.walk import Worklist, post_order

LANE_BYTES = 1 << 18
"""How many bytes of one operand are in flight at once: a few such arrays fit a core's second-level cache."""
MOST_PYTHON_LOOPS = 18
"""Python allows 20 nested loops in a function."""

Axes: TypeAlias = frozenset[Var]
"""Lane loops, by variable, on which a value depends."""


@dataclass(eq=False)
class View:
    """A strided window on a buffer (or on its record of what was written, if `shadow`).

    `flat` is the element's place as a linear form of loop variables. `serial` are the Python loops that it has an axis
    for, outermost first, with their sizes; `lanes` all lane loops around it.
    """

    buffer: Buffer
    flat: Affine
    serial: tuple[tuple[Var, int], ...]
    lanes: tuple[Var, ...]
    axes: Axes
    shadow: bool


@dataclass(eq=False)
class Plan:
    """The decisions for one function: which loops are lanes, how many at once, and the view of each access."""

    blocks: Blocks
    regions: Regions
    lane: dict[Loop, int] = field(default_factory=dict)
    """Loops that are lanes, and how many lanes a block of them has."""
    scattered: set[Item] = field(default_factory=set)
    """Items that run lane by index, because control inside them differs between lanes."""
    private: dict[Buffer, tuple[Var, ...]] = field(default_factory=dict)
    """The lane loops around an allocation: each of their lanes has a buffer of its own."""
    views: dict[int, View] = field(default_factory=dict)
    """The view of a load or write, by identity."""
    shadows: dict[int, View] = field(default_factory=dict)
    rooted: dict[Buffer, list[View]] = field(default_factory=dict)
    """The views on a buffer, made where it begins."""
    within: dict[Loop, list[View]] = field(default_factory=dict)
    """The views used inside a loop."""
    depends: dict[Var, Axes] = field(default_factory=dict)
    """What lane variables and scalar bindings depend on."""

    def axes(self, expr: Expr) -> Axes:
        """The lanes on which the value of an expression depends."""
        found: set[Var] = set()
        for node in post_order(expr):
            if isinstance(node, Var):
                found |= self.depends.get(node, frozenset())
            elif isinstance(node, Load):
                found |= set(self.private.get(node.buffer, ()))
        return frozenset(found)


def make_plan(blocks: Blocks, regions: Regions) -> Plan:
    """The plan of a function. Raises `Unplanned` where a parallel loop was not shown independent, or loops are deep."""
    plan = Plan(blocks, regions)
    for item in walk(blocks.body):
        if isinstance(item, Loop) and item.kind in INDEPENDENT and not item.independent:
            raise Unplanned(f"the {item.kind} loop over {item.var.name} was not shown to be free of races")
    _choose_lanes(plan)
    _Planner(plan).block(blocks.body, (), ())
    return plan


def _choose_lanes(plan: Plan) -> None:
    loops = {i.var: i for i in walk(plan.blocks.body) if isinstance(i, Loop)}
    lane = {
        loop
        for loop in loops.values()
        if loop.independent and loop.most is not None and loop.form is not None and loop.form.is_linear
    }
    for loop in list(lane):
        # the trip count of lanes must not differ between lanes: what it depends on stays a Python loop
        lane -= {loops[v] for v in loop.form.variables} if loop.form is not None else set()
    widest = max((b.dtype.itemsize for b in _buffers(plan)), default=1)
    _cut(plan, plan.blocks.body, lane, max(1, LANE_BYTES // widest))


CALL, LANE, SCALAR = 1200.0, 1.5, 100.0
"""What a step costs in nanoseconds, about: a NumPy call, each lane in it, and straight-line Python."""
SCATTERED = 8
"""How many times as much a step costs whose lanes go by index."""
UNKNOWN = 16
"""How often a loop is taken to run whose trip count is not known."""


def lanes_pay(plan: Plan) -> bool:
    """Whether lanes are likely faster than one operation after another: not where there are few of them."""
    lanes, straight = 0.0, 0.0
    work = Worklist([(plan.blocks.body, 1.0, 1.0, False)])
    for block, calls, width, scattered in work:
        for item in block:
            slow = scattered or item in plan.scattered
            steps = sum(1 for e in expressions(item) for _ in post_order(e)) + 1
            lanes += steps * calls * (CALL + LANE * width) * (SCATTERED if slow else 1)
            straight += steps * calls * width * SCALAR
            for part in inner(item):
                trips = 1.0
                if isinstance(item, (Loop, Repeat)):
                    trips = float(item.most if isinstance(item, Loop) and item.most is not None else UNKNOWN)
                at_once = trips if slow and isinstance(item, Loop) and item.independent else 1.0
                if isinstance(item, Loop) and item in plan.lane and not slow:
                    at_once = min(trips, float(plan.lane[item]))
                work.add([(part, calls * trips / max(1.0, at_once), width * at_once, slow)])
    return lanes <= straight


def _buffers(plan: Plan) -> set[Buffer]:
    return {a.buffer for a in plan.regions.accesses.values()}


def _cut(plan: Plan, block: Block, lane: set[Loop], room: int) -> int:
    """Choose the lanes of `block`, innermost first, so that about `room` run at once; how many do."""
    most = 1
    for item in block:
        count = max((_cut(plan, part, lane, room) for part in inner(item)), default=1)
        if isinstance(item, Fresh) and item.data is None:
            # it is multiplied by the lanes around it
            count = max(1, min(room, item.buffer.nbytes // item.buffer.dtype.itemsize))
        if isinstance(item, Loop) and item in lane and item.most is not None and count < room:
            cut = item.most if item.trip is None else _block(item.most, max(1, room // count))
            plan.lane[item] = cut
            count *= cut
        most = max(most, count)
    return most


def _block(trip: int, most: int) -> int:
    """How many of `trip` lanes to take at once, at most `most`: a divisor if there is a good one, else even blocks."""
    if trip <= most:
        return trip
    for size in range(most, most // 2, -1):
        if trip % size == 0:
            return size
    blocks = -(-trip // most)
    return -(-trip // blocks)


class _Planner:
    """Goes through the blocks as the run will, knowing the Python loops and the lanes around each item."""

    def __init__(self, plan: Plan) -> None:
        self.plan = plan
        self.loops: list[Loop] = []
        self.python_loops = 0
        self.known: dict[tuple[object, ...], View] = {}
        for b in (*plan.blocks.inputs, *plan.blocks.outputs):
            plan.private[b] = ()
            plan.rooted[b] = []

    def block(self, block: Block, serial: tuple[tuple[Var, int], ...], lanes: tuple[Var, ...]) -> None:
        for item in block:
            self.item(item, serial, lanes)

    def item(self, item: Item, serial: tuple[tuple[Var, int], ...], lanes: tuple[Var, ...]) -> None:
        plan = self.plan
        if lanes and self.is_scattered(item):
            plan.scattered.add(item)
            return
        for expr in expressions(item):
            for load in loads(expr):
                self.access(load, serial, lanes)
        match item:
            case Fresh():
                plan.private[item.buffer] = lanes if item.data is None else ()
                plan.rooted[item.buffer] = []
            case Bind():
                plan.depends[item.var] = plan.axes(item.value)
            case Write():
                self.access(item, serial, lanes)
            case Loop():
                really = (
                    item not in plan.lane or plan.lane[item] != item.most
                )  # lanes in parts need a loop over the parts
                self.enter_python_loop(really)
                plan.within[item] = []
                self.loops.append(item)
                if item in plan.lane:
                    plan.depends[item.var] = frozenset({item.var})
                    self.block(item.body, serial, (*lanes, item.var))
                else:
                    more = () if item.most is None else ((item.var, item.most),)
                    self.block(item.body, (*serial, *more), lanes)
                self.loops.pop()
                self.python_loops -= really
            case Repeat():
                self.enter_python_loop(True)
                self.block(item.body, serial, lanes)
                self.python_loops -= 1
            case _:
                for part in inner(item):
                    self.block(part, serial, lanes)

    def enter_python_loop(self, really: bool) -> None:
        self.python_loops += really
        if self.python_loops > MOST_PYTHON_LOOPS:
            raise Unplanned(f"more than {MOST_PYTHON_LOOPS} nested loops that are not lanes")

    def is_scattered(self, item: Item) -> bool:
        """Whether the lanes around an item take different ways through it."""
        match item:
            case Branch() | Loop():
                return bool(self.plan.axes(expressions(item)[0]))
            case Repeat():
                return True
            case _:
                return False

    def access(self, node: Load | Write, serial: tuple[tuple[Var, int], ...], lanes: tuple[Var, ...]) -> None:
        """Give an access its view, if it is regular."""
        plan = self.plan
        a = plan.regions.accesses[id(node)]
        if not a.inside or not all(f is not None and f.is_linear for f in a.forms):
            return
        flat, stride = Affine({}), 1
        for form, n in zip(reversed(a.forms), reversed(a.buffer.static_shape), strict=True):
            assert form is not None
            flat, stride = flat.plus(form, stride), stride * n
        used = tuple((v, n) for v, n in serial if v in flat.terms)
        plan.views[id(node)] = self.view(a.buffer, flat, used, lanes, False)
        if a.buffer in plan.regions.shadowed and (a.write or not a.ready):
            plan.shadows[id(node)] = self.view(a.buffer, flat, used, lanes, True)

    def view(
        self, buffer: Buffer, flat: Affine, serial: tuple[tuple[Var, int], ...], lanes: tuple[Var, ...], shadow: bool
    ) -> View:
        key = (buffer, flat, serial, lanes, shadow)
        found = self.known.get(key)
        if found is None:
            axes = frozenset(v for v in lanes if v in flat.terms or v in self.plan.private[buffer])
            found = self.known[key] = View(buffer, flat, serial, lanes, axes, shadow)
            self.plan.rooted[buffer].append(found)
        for loop in self.loops:
            if found not in self.plan.within[loop]:
                self.plan.within[loop].append(found)
        return found
