"""The definition of the tensor IR: one scalar operation after another (rule M6; specs/interp.md, "Tensor").

Slow and obviously right. Every other way to run a tensor function, `assay.interp.vector` and the C alike, is compared
with this one bit for bit (rule M10). What an operation does to numbers stands in the one table of
`assay.semantics.scalar`. The walk keeps its own stack, so a nest may be any number of loops deep. The comments E1, E2,
... name the rules of the chapter.

    (c,) = run(matmul, [a, b])
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from assay.interp import reports
from assay.interp.binding import Array, bind_dims, bind_scalars, shape_at
from assay.interp.memory import Memory, from_bytes, to_bytes
from assay.interp.values import Event, Externs, render
from assay.interp.watching import Boxes, Declared, DeclaredBox, LaneWatch, Race
from assay.interp.windows import Element, Window, as_bits, check_alignment, check_scope, names_of, names_of_byte
from assay.semantics import tensor
from assay.semantics.dtypes import DTYPES
from assay.semantics.errors import Crash, Invalid, Trap
from assay.semantics.scalar import Apply, Cast, Choice, Const, Expr, Load, Var, convert, evaluate, operation
from assay.semantics.tensor.calls import DEEPEST, activation, callee
from assay.semantics.tensor.places import first_byte, is_placed, is_private
from assay.semantics.tensor.recast import is_bytewise
from assay.semantics.tensor.regions import concerned, is_checked, matching
from assay.semantics.walk import post_order

NUMBERS = frozenset(d.numpy for d in DTYPES.values())


class Unfinished(Exception):
    """The run was given up after the number of statements that the caller allowed."""


def run(
    func: tensor.PrimFunc,
    inputs: Sequence[Array],
    *,
    scalars: Sequence[Any] = (),
    memory: Memory | None = None,
    limit: int | None = None,
    functions: Mapping[str, tensor.PrimFunc] | None = None,
    externs: Externs | None = None,
    trace: list[Event] | None = None,
) -> tuple[Array, ...]:
    """The outputs of `func` on `inputs`, arrays of the shapes and dtypes of its input parameters, and on `scalars`.

    Invalid where the inputs do not fit. Trap, with buffer, index and iteration, for: out of bounds, unwritten read,
    unwritten output, store to constant, use outside lifetime, assertion, shape, race, carried dependence, undeclared
    access, misaligned, wrong scope, recursion, and what scalar operations trap on. `memory` holds the buffers, fresh
    arrays if not given. `functions` and `externs` are what calls may name; effects are appended to `trace`, in order.
    More than `limit` statements raise `Unfinished`.
    """
    dims = bind_dims(func, inputs, scalars)  # E0
    memory = Memory() if memory is None else memory
    walk = _Run(func, memory, limit, functions or {}, externs or {}, trace)
    for buffer, array in zip(func.inputs, inputs, strict=True):
        memory.begin(buffer, tuple(array.shape), array)
    for buffer in func.outputs:
        memory.begin(buffer, shape_at(buffer, dims))
    walk.env.update((v, v.dtype.numpy.type(n)) for v, n in dims.items())
    walk.env.update(bind_scalars(func, scalars))
    with np.errstate(all="ignore"):
        try:
            for buffer in func.params:
                check_alignment(buffer, memory.address(buffer))
        except Trap as trap:
            raise trap.at(func.name) from None
        walk.execute(func.body)
        try:
            return tuple(memory.result(b) for b in func.outputs)
        except Trap as trap:
            raise trap.at(func.name) from None


class _Run:
    """One run of a tensor function."""

    def __init__(
        self,
        func: tensor.PrimFunc,
        memory: Memory,
        limit: int | None,
        functions: Mapping[str, tensor.PrimFunc],
        externs: Externs,
        trace: list[Event] | None,
    ) -> None:
        self.func = func
        self.memory = memory
        self.left = limit
        self.functions = functions
        self.externs = externs
        self.trace = trace
        self.env: dict[Var, Any] = {}
        self.loops: dict[Var, None] = {}
        self.races: list[tuple[Race | LaneWatch, int]] = []
        """The loops that claim something of their iterations, and how many statements were around each body."""
        self.declared: list[Declared] = []
        self.born: dict[tensor.Buffer, tuple[int, int]] = {}
        """How many races and blocks were watched when a buffer began: to younger ones it is private."""
        self.movable: set[tensor.Buffer] = set()
        """Buffers that blocks allocate, or did: the lowering puts them where they are used, maybe inside a loop."""
        self.views: dict[tensor.Buffer, Window] = {}
        self.bytewise = is_bytewise(func, functions)
        """Whether some memory is seen in elements of several sizes: then all of it is looked at byte by byte."""
        self.depth = 0
        self.activations: dict[tuple[int, int], tuple[tensor.Call, tensor.Stmt]] = {}
        """What calls mean, by the call and how deep it is: those that are active at once have names of their own."""
        self.positions: list[int] = []
        """Which part of each statement on the stack runs now."""
        self.code: dict[int, tuple[Expr, Callable[[], Any]]] = {}

    def execute(self, body: tensor.Stmt) -> None:
        """Run a statement. A composite one is an iterator over the statements it runs, kept on the stack
        (rule M6.2)."""
        whole = tensor.Seq((body,))
        stack: list[tuple[tensor.Stmt, Iterator[tensor.Stmt]]] = [(whole, self.parts(whole))]
        self.positions = [0]
        at: tensor.Stmt = body
        try:
            while stack:  # by hand, for speed: each statement of a run comes here
                at, rest = stack[-1]
                for at in rest:
                    self.positions[-1] += 1
                    if isinstance(at, (tensor.Store, tensor.Assert, tensor.Evaluate)):
                        self.perform(at)
                        at = stack[-1][0]
                    else:
                        stack.append((at, self.parts(at)))
                        self.positions.append(0)
                        break
                else:
                    stack.pop()
                    self.positions.pop()
        except Trap as trap:  # E26
            iteration = tuple((v.name, int(self.env[v])) for v in self.loops)
            raise trap.but(iteration=iteration, where=at.span or self.func.name) from None

    def parts(self, node: tensor.Stmt) -> Iterator[tensor.Stmt]:
        """The statements that `node` runs, in order; the environment is set as each of them is asked for."""
        match node:
            case tensor.Seq():  # E1
                yield from node.body
            case tensor.For():  # E3
                yield from self.iterations(node)
            case tensor.While():  # E6
                while self.value(node.condition):
                    yield node.body
                    self.positions[-1] += 1
            case tensor.If():  # E7
                if self.value(node.condition):
                    yield node.then
                elif node.otherwise is not None:
                    self.positions[-1] += 1  # lanes that go this way come after those that go the other
                    yield node.otherwise
            case tensor.LetStmt():  # E8
                self.env[node.var] = self.value(node.value)
                yield node.body
                self.env.pop(node.var, None)  # gone already if a let inside names the same variable
            case tensor.Allocate():  # E9
                self.allocate(node.buffer)
                if node.movable:
                    self.movable.add(node.buffer)
                yield node.body
                self.memory.end(node.buffer)
            case tensor.AllocateConst():  # E10
                self.memory.begin(node.buffer, tuple(node.contents.shape), node.contents)
                self.born[node.buffer] = len(self.races), len(self.declared)
                yield node.body
                self.memory.end(node.buffer)
            case tensor.Alias():  # E11
                self.view(node.view)
                yield node.body
                del self.views[node.view.buffer]
            case tensor.Pragma():  # E12
                yield node.body
            case tensor.Block():  # E13
                yield from self.block(node)
            case tensor.Call(extern=False):  # E15
                yield from self.call(node)
            case tensor.Call():  # E16
                self.outside(node)
            case _:
                raise Crash(f"no such statement: {type(node).__name__}")

    def iterations(self, node: tensor.For) -> Iterator[tensor.Stmt]:
        """The body of a loop, once for each number from its start on, upwards; never where the extent is 0 or less
        (rules M6.3, M6.6, M6.7)."""
        watch = LaneWatch(node.var) if node.kind == "vectorized" else Race(node.var)  # E4, E5
        number = node.var.dtype.numpy.type
        start = None if node.start is None else convert(self.value(node.start), node.var.dtype)
        extent = int(self.value(node.extent))
        if node.kind in tensor.INDEPENDENT:
            self.races.append((watch, len(self.positions)))
        for i in range(extent):
            count = number(i) if i <= node.var.dtype.max else convert(np.int64(i), node.var.dtype)
            self.env[node.var] = count if start is None else start + count
            self.loops[node.var] = None
            watch.now = i
            yield node.body
        self.env.pop(node.var, None)
        self.loops.pop(node.var, None)
        if node.kind in tensor.INDEPENDENT:
            self.races.pop()

    def block(self, node: tensor.Block) -> Iterator[tensor.Stmt]:
        """One run of a block: its predicate, its iterators, its buffers, then `init` if it is the first run, and the
        body (rules M6.9, M6.10)."""
        if node.predicate is not None and not self.value(node.predicate):
            return
        values, domains = [], []
        for i in node.iterators:
            start = 0 if i.start is None else self.value(i.start)
            domains.append(range(int(start), int(start) + int(self.value(i.extent))))
            values.append(self.value(i.value))
        for i, value, domain in zip(node.iterators, values, domains, strict=True):
            if int(value) not in domain:
                raise reports.outside_domain(node, i, value, domain)
            self.env[i.var] = value
        if checked := is_checked(node, outermost=not self.declared):  # E14
            self.declared.append(Declared(node, self.boxes(node.reads), self.boxes(node.writes)))
        for b in node.allocated:
            self.allocate(b)
            self.movable.add(b)
        for v in node.views:
            self.view(v)
        reduced = [(v, d) for i, v, d in zip(node.iterators, values, domains, strict=True) if i.kind == "reduce"]
        if node.init is not None and all(int(v) == d.start for v, d in reduced):
            yield node.init
        yield node.body
        for v in node.views:
            del self.views[v.buffer]
        for b in node.allocated:
            self.memory.end(b)
        if checked:
            self.declared.pop()
        for i in node.iterators:
            del self.env[i.var]

    def boxes(self, regions: Sequence[tensor.Region] | None) -> Boxes | None:
        """Declared regions as numbers."""
        if regions is None:
            return None
        found: dict[tensor.Buffer, list[DeclaredBox]] = {}
        for r in regions:
            bounds: list[tuple[int, int] | None] = []
            for ends in concerned(r):
                numbers = None if ends is None else [int(self.value(e)) for e in ends]
                bounds.append(
                    None if numbers is None else (numbers[0], numbers[1] if len(numbers) > 1 else numbers[0] + 1)
                )
            found.setdefault(r.buffer, []).append(DeclaredBox(tuple(bounds)))
        return found

    def call(self, node: tensor.Call) -> Iterator[tensor.Stmt]:
        """The body of a function, its parameters views of the arguments (rule M6.13)."""
        self.depth += 1
        if self.depth > DEEPEST:
            raise reports.too_deep(node)
        key = id(node), self.depth
        if key not in self.activations:
            self.activations[key] = node, activation(node, callee(node, self.functions))
        yield self.activations[key][1]
        self.depth -= 1

    def outside(self, node: tensor.Call) -> None:
        """A function outside the language gets the elements of its buffers, and may change those that are not
        constant (rule M6.19)."""
        if node.function not in self.externs:
            raise Invalid(f"the extern function {node.function!r} is not given", where=node.span, label="extern.C1")
        handed = {k: self.handed(a) for k, a in enumerate(node.args) if isinstance(a, tensor.Buffer)}
        args = [
            handed[k] if k in handed else self.value(a) if isinstance(a, Expr) else a for k, a in enumerate(node.args)
        ]
        if self.trace is not None:
            self.trace.append(
                Event("extern", node.function, tuple(np.array(a) if k in handed else a for k, a in enumerate(args)))
            )
        at = None if node.result is None else tuple(self.value(i) for i in node.result.indices)
        given = self.externs[node.function](*args)
        for buffer, array in zip(node.buffers, handed.values(), strict=True):
            for index in np.ndindex(array.shape) if array.flags.writeable else ():
                self.store(buffer, index, array[index])
        if node.result is not None and at is not None:
            number = np.asarray(given)
            if number.shape or number.dtype.kind not in "biuf" and number.dtype not in NUMBERS:
                raise reports.no_number(node)
            self.store(node.result.buffer, at, convert(number[()], node.result.dtype))

    def handed(self, buffer: tensor.Buffer) -> Array:
        """A buffer as an extern sees it: a copy, in which what was not written is 0."""
        shape = self.views[buffer].shape if buffer in self.views else self.memory.shape(buffer)
        array = np.zeros(shape, buffer.dtype.numpy)
        places = {index: self.places(buffer, index) for index in np.ndindex(shape)}
        for index, parts in places.items():
            if all(self.is_written(*names[-1], byte) for names, byte in parts):
                array[index] = self.load(buffer, index)
        array.flags.writeable = not self.is_constant(buffer)
        return array

    def is_written(self, buffer: tensor.Buffer, index: tuple[Any, ...], byte: int | None) -> bool:
        """Whether an element of memory, or a byte of it, was written."""
        return (
            self.memory.is_written(buffer, index) if byte is None else self.memory.is_byte_written(buffer, index, byte)
        )

    def is_constant(self, buffer: tensor.Buffer) -> bool:
        while buffer in self.views:
            window = self.views[buffer].view
            if window.constant:
                return True
            buffer = window.source
        return self.memory.is_constant(buffer)

    # --- buffers -------------------------------------------------------------------------------------------------

    def allocate(self, buffer: tensor.Buffer) -> None:
        self.memory.begin(buffer, self.shape(buffer))
        self.born[buffer] = len(self.races), len(self.declared)
        check_alignment(buffer, self.memory.address(buffer))

    def shape(self, buffer: tensor.Buffer) -> tuple[int, ...]:
        """The shape of a buffer that begins now."""
        return shape_at(buffer, {v: int(n) for v, n in self.env.items() if v.dtype.is_integer})

    def view(self, view: tensor.View) -> None:
        """A view begins: its sizes, and where in its source it lies."""
        check_scope(view, self.views)
        for claim in matching(view):
            low, high = int(self.value(claim.low)), int(self.value(claim.high))
            if low > high:
                raise reports.unmatched(view, claim.kind, claim.message, low, high)
        outer = self.views.get(view.source)
        shape = outer.shape if outer is not None else self.memory.shape(view.source)
        strides = tuple(int(self.value(s)) for s in view.strides)
        window = Window(view, self.shape(view.buffer), shape, int(self.value(view.offset)), strides)
        if is_placed(view.buffer):
            between = []
            root = view.source
            while root in self.views:
                w = self.views[root]
                between.append((w.shape, w.offset, w.strides, w.buffer.dtype.itemsize))
                root = w.view.source
            width = view.buffer.dtype.itemsize
            first = first_byte(window.offset * width, between)
            check_alignment(view.buffer, self.memory.address(root) + first, first // width)
        self.views[view.buffer] = window

    def places(self, buffer: tensor.Buffer, index: tuple[Any, ...]) -> list[tuple[list[Element], int | None]]:
        """The element that is touched, under each of its names; where bytes count, that for each byte, lowest first."""
        if self.bytewise:
            return [names_of_byte(self.views, buffer, index, k) for k in range(buffer.dtype.itemsize)]
        return [(names_of(self.views, buffer, index), None)]

    def perform(self, node: tensor.Store | tensor.Assert | tensor.Evaluate) -> None:
        """A statement without parts."""
        if self.left is not None:
            self.left -= 1
            if self.left < 0:
                raise Unfinished
        match node:
            case tensor.Store():  # E2
                index = None
                try:
                    index = tuple(self.value(i) for i in node.indices)
                    value = self.value(node.value)
                except Trap as trap:
                    raise reports.for_element(trap, node.buffer, index) from None
                self.store(node.buffer, index, value)
            case tensor.Assert():  # E17
                if not self.value(node.condition):
                    values = [self.value(v) for v in node.values]
                    message = render(node.message, values) if values else node.message
                    raise reports.failed(node.kind, message, node.condition)
            case tensor.Evaluate():  # E18
                self.value(node.value)

    @property
    def is_plain(self) -> bool:
        """Whether every buffer is its own memory and no watcher is told of accesses."""
        return not (self.views or self.races or self.declared)

    def store(self, buffer: tensor.Buffer, index: tuple[Any, ...], value: Any) -> None:
        if self.is_plain:
            self.memory.store(buffer, index, value)
            return
        parts = self.places(buffer, index)
        for name, place in parts[0][0][:-1]:
            if self.views[name].view.constant:
                raise reports.read_only(name, place)
        given = to_bytes(value) if self.bytewise else b""
        for k, (names, byte) in enumerate(parts):
            root, at = names[-1]
            if byte is None:
                self.memory.store(root, at, value if len(names) == 1 else as_bits(value, root.dtype))
            else:
                self.memory.store_byte(root, at, byte, given[k])
            self.touch(names, byte, write=True)

    def load(self, buffer: tensor.Buffer, index: tuple[Any, ...]) -> Any:
        if self.is_plain:
            return self.memory.load(buffer, index)
        found = []
        for names, byte in self.places(buffer, index):
            found.append(self.memory.load(*names[-1]) if byte is None else self.memory.load_byte(*names[-1], byte))
            self.touch(names, byte, write=False)
        if self.bytewise:
            return from_bytes(bytes(found), buffer, index)
        return as_bits(found[0], buffer.dtype)

    def touch(self, names: Sequence[Element], byte: int | None, write: bool) -> None:
        """Tell an access to all that watch."""
        place = (*names[-1], byte)
        root = place[0]
        races, blocks = self.born.get(root, (0, 0))
        for declared in self.declared[blocks:]:
            declared.touch(names, write)
        for watch, around in self.races[races:]:
            if isinstance(watch, LaneWatch):
                watch.touch(place, write, tuple(self.positions[around:]))
                continue
            if write and root.scope != "global" and is_private(root) and root not in self.movable:
                raise reports.wrong_thread(names, watch.var)
            watch.touch(place, write)

    def value(self, expr: Expr) -> Any:
        """The value of an expression now."""
        known = self.code.get(id(expr))
        if known is None:
            known = self.code[id(expr)] = (expr, self.compile(expr))
        return known[1]()

    def compile(self, expr: Expr) -> Callable[[], Any]:
        """`expr` as straight-line code, operands before operations, left to right: `scalar.evaluate`, made once."""
        nodes = list(post_order(expr))  # E19
        if any(isinstance(n, Choice) for n in nodes):  # E24
            return lambda: evaluate(expr, self.env, self.load)
        slot = {id(n): k for k, n in enumerate(nodes)}
        values: list[Any] = [n.value if isinstance(n, Const) else None for n in nodes]  # E25
        steps = [
            (k, self.rule(n), tuple(slot[id(c)] for c in n.children))
            for k, n in enumerate(nodes)
            if not isinstance(n, Const)
        ]

        def straight() -> Any:
            for k, rule, args in steps:
                values[k] = rule(*[values[a] for a in args])
            return values[-1]

        return straight

    def rule(self, node: Expr) -> Callable[..., Any]:
        """What a node of an expression does to the values of its parts."""
        env, load = self.env, self.load
        match node:
            case Var():  # E20

                def variable() -> Any:
                    try:
                        return env[node]
                    except KeyError:
                        raise Invalid(f"unbound scalar variable {node.name}", label="scalar.C7") from None

                return variable
            case Apply():  # E21
                return operation(node.op).meaning
            case Cast():  # E22
                to = node.dtype
                return lambda value: convert(value, to)
            case Load():  # E23
                buffer = node.buffer
                return lambda *index: load(buffer, index)
            case _:
                raise Crash(f"no such scalar node: {type(node).__name__}")
