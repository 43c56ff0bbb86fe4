"""Statements of tensor functions out of live TVM objects (specs/lower.md, "tvm").

`Bind`, `AllocBuffer` and `DeclBuffer` have no body in TVM: they hold for the rest of the sequence around them. A
declared buffer whose data are those of another one is a view of it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from assay.lower.frontends.tvm.accesses import inner
from assay.lower.frontends.tvm.invocations import Before, invocation, is_invocation
from assay.lower.frontends.tvm.objects import (
    Object,
    handle,
    lanes_of,
    op_name,
    plain_value,
    prim_dtype,
    type_key,
    unique_name,
)
from assay.lower.frontends.tvm.scalars import Scalars, VariableTable, compact, condition
from assay.semantics import tensor
from assay.semantics.dtypes import INT64
from assay.semantics.errors import Invalid, Unsupported, placed
from assay.semantics.scalar import Dim, Expr, Var, apply, as_expr, cast, const, provably_equal
from assay.semantics.tensor.places import has_bytes, same_width
from assay.semantics.walk import Worklist

LOOPS: dict[int, tensor.LoopKind] = {0: "serial", 1: "parallel", 2: "vectorized", 3: "unrolled"}
ITERATORS: dict[int, tensor.IterKind] = {0: "spatial", 2: "reduce", 3: "scan", 4: "opaque"}
DEFAULT_ALIGNMENT = 64
"""Bytes that TVM takes every buffer to be aligned to; its text does not say them."""


@dataclass
class Statements:
    """Reads the statements of one function, which messages name by `where`."""

    symbols: VariableTable
    where: str
    callee: Callable[[str], tuple[str, Sequence[int]]]
    """The name that a tensor function has here where it is called, and the order in which it takes TVM's arguments."""
    scalars: Scalars = field(init=False)
    before: Before = field(init=False)
    given: dict[int, tensor.Buffer] = field(default_factory=dict)
    """The buffers of declarations that say what a pointer that is a parameter points to."""
    buffers: dict[int, tensor.Buffer] = field(default_factory=dict)
    roots: dict[int, tuple[tensor.Buffer, Expr]] = field(default_factory=dict)
    """For a view: the buffer whose memory it is, and its offset there."""
    windows: list[tensor.View] = field(default_factory=list)
    """Parameters that are views of memory that is handed over flat."""
    names: set[str] = field(default_factory=set)

    def __post_init__(self) -> None:
        self.scalars = Scalars(self.symbols, self.where, self.buffer)
        self.before = self.scalars.external = Before(self)

    def unsupported(self, what: str) -> Unsupported:
        """The failure (`tvm.C7`) for a statement that is not handled."""
        return Unsupported(f"{what} is not handled", where=self.where, label="tvm.C7")

    # --- buffers -------------------------------------------------------------------------------------------------

    def buffer(self, o: Object) -> tensor.Buffer:
        """The buffer of a TVM buffer variable that was declared before."""
        found = self.buffers.get(handle(o))
        if found is None:
            raise Invalid(f"the buffer {o.name} is used where it is not declared", where=self.where, label="tvm.C8")
        return found

    def buffer_of(self, o: Object, shape: tuple[Dim, ...]) -> tensor.Buffer:
        """A new buffer for a TVM buffer variable. Names are made unique: TVM's need not be.

        Where elements are vectors, their lanes are one more dimension (rule M6.21).
        """
        name = unique_name(str(o.name), self.names)
        if not is_row_major(o.ty.layout, shape, self.scalars):
            raise self.unsupported(f"the layout of {o.name}")
        scope = str(o.ty.storage_scope) or "global"
        lanes = lanes_of(o.ty.dtype)[1]
        claims = {"align": int(o.ty.data_alignment), "offset_factor": int(o.ty.offset_factor) * lanes}
        notes = {k: str(n) for k, n in claims.items() if n not in (0, 1, DEFAULT_ALIGNMENT)}
        of = prim_dtype(o.ty.dtype, self.where, lanes)
        made = self.buffers[handle(o)] = tensor.Buffer(name, (*shape, lanes) if lanes > 1 else shape, of, scope, notes)
        if lanes > 1:
            self.scalars.packed[made] = lanes
        return made

    def allocated(self, o: Object) -> tensor.Buffer:
        """A buffer with memory of its own."""
        shape = tuple(self.scalars.dim(d) for d in o.ty.shape)
        strides = [self.scalars.dim(s) for s in o.ty.strides]
        if strides and not all(map(provably_equal, strides, compact(shape))):
            raise self.unsupported(f"the allocation {o.name} with strides that are not dense")
        return self.buffer_of(o, shape)

    def view(self, o: Object, data: Object) -> tensor.View:
        """The view that a declared buffer is of the buffer whose data it has."""
        if type_key(data) == "ir.Var":
            of = data
        elif type_key(data) == "ir.Call" and op_name(data.op) == "tirx.buffer_data":
            (of,) = data.args
        else:
            raise self.unsupported(f"{o.name}, declared over {type_key(data)},")
        source, base = self.roots.get(handle(of), (self.buffer(of), const(0)))
        shape = tuple(self.scalars.dim(d) for d in o.ty.shape)
        strides = [self.scalars.dim(s) for s in o.ty.strides] or compact(shape)
        made = self.buffer_of(o, shape)
        if not has_bytes(made.dtype, source.dtype):
            raise self.unsupported(f"the view {made!r} of {source!r}, of another dtype,")
        # `elem_offset` counts from the data, wherever the source itself begins
        offset: Expr = const(0) if o.ty.elem_offset is None else self.scalars.index(o.ty.elem_offset)
        lanes = self.scalars.packed.get(made, 1)
        self.roots[handle(o)] = source, base
        own, other = made.dtype.itemsize, source.dtype.itemsize
        if own != other and not provably_zero(base):
            if other % own:
                raise self.unsupported(
                    f"{o.name}, which is wider than the elements of {source.name}, a part of a buffer,"
                )
            base = base * (other // own)
        steps = [as_expr(s) * lanes for s in strides] + ([const(1)] if lanes > 1 else [])
        return tensor.View(made, source, base + offset * lanes, tuple(steps))

    # --- statements ----------------------------------------------------------------------------------------------

    def body(self, root: Object) -> tensor.Stmt:
        """The statement of a TVM statement. Declarations are read before what may use them."""
        done: dict[int, tensor.Stmt] = {}
        before: dict[int, object] = {}
        work = Worklist([(root, False)])
        for o, ready in work:
            with placed(self.where):
                if ready:
                    done[handle(o)] = self.before.around(self.build(o, done, before), o)
                elif handle(o) not in done:
                    before[handle(o)] = self.enter(o)
                    work.add([*((s, False) for s in inner(o)), (o, True)])
        return done[handle(root)]

    def enter(self, o: Object) -> object:
        """What must be known before the parts of a statement are read."""
        match type_key(o):
            case "tirx.Bind" if lanes_of(o.var.ty)[1] > 1:
                return self.scalars.name_lanes(o.var)
            case "tirx.AllocBuffer":
                return self.allocated(o.buffer)
            case "tirx.DeclBuffer" if handle(o) in self.given:
                return None
            case "tirx.DeclBuffer":
                return self.view(o.buffer, o.data)
            case "s_tir.SBlockRealize":
                block = o.block
                allocated = tuple(self.allocated(b) for b in block.alloc_buffers)
                return allocated, tuple(self.matched(m) for m in block.match_buffers)
            case _:
                return None

    def build(self, o: Object, done: dict[int, tensor.Stmt], before: dict[int, object]) -> tensor.Stmt:
        """One statement, its parts made."""
        expr = self.scalars.expr
        match type_key(o):
            case "tirx.SeqStmt":
                return self.sequence(list(o.seq), done, before)
            case "tirx.Bind" | "tirx.AllocBuffer" | "tirx.DeclBuffer":
                return self.sequence([o], done, before)
            case "tirx.For":
                return self.loop(o, done[handle(o.body)])
            case "tirx.While":
                return tensor.While(condition(expr(o.condition)), done[handle(o.body)])
            case "tirx.IfThenElse":
                otherwise = None if o.else_case is None else done[handle(o.else_case)]
                return tensor.If(condition(expr(o.condition)), done[handle(o.then_case)], otherwise)
            case "tirx.BufferStore":
                return self.store(o)
            case "tirx.AttrStmt":
                key = str(o.attr_key)
                if not key.startswith("pragma_"):
                    raise self.unsupported(f"the attribute {key}")
                return tensor.Pragma(key, plain_value(o.value), done[handle(o.body)])
            case "tirx.AssertStmt":
                message = "".join(str(plain_value(part)) for part in o.message_parts)
                return tensor.Assert(condition(expr(o.condition)), message)
            case "tirx.Evaluate":
                if type_key(o.value) == "ir.IntImm":
                    return tensor.Seq(())
                if is_invocation(o.value):
                    return invocation(self, o.value)
                each = self.scalars.each_lane(o.value, [], lanes_of(o.value.ty)[1])
                return tensor.seq(*(tensor.Evaluate(lane) for lane, _ in each))
            case "s_tir.SBlockRealize":
                return self.block(o, done, before[handle(o)])
            case key:
                raise self.unsupported(key)

    def sequence(self, stmts: Sequence[Object], done: dict[int, tensor.Stmt], before: dict[int, object]) -> tensor.Stmt:
        """Statements one after another, each declaration around those that follow it."""
        made: list[tensor.Stmt] = []  # last first
        for o in reversed(stmts):
            rest = made[0] if len(made) == 1 else tensor.Seq(tuple(reversed(made)))
            match type_key(o):
                case "tirx.Bind" if isinstance(names := before[handle(o)], tuple):
                    each = self.scalars.each_lane(o.value, [], len(names))
                    for name, (lane, _) in reversed(list(zip(names, each, strict=True))):
                        rest = tensor.LetStmt(name, lane, rest)
                    made = [rest]
                case "tirx.Bind":
                    value = self.scalars.expr(o.value)
                    made = [self.before.around(tensor.LetStmt(self.symbols.var(o.var, self.where), value, rest), o)]
                case "tirx.AllocBuffer":
                    buffer = before[handle(o)]
                    assert isinstance(buffer, tensor.Buffer)
                    made = [tensor.Allocate(buffer, rest)]
                case "tirx.DeclBuffer" if handle(o) in self.given:
                    made = [rest]
                case "tirx.DeclBuffer":
                    view = before[handle(o)]
                    assert isinstance(view, tensor.View)
                    made = [tensor.Alias(view, rest)]
                case _:
                    made.append(done[handle(o)])
        return made[0] if len(made) == 1 else tensor.Seq(tuple(reversed(made)))

    def loop(self, o: Object, body: tensor.Stmt) -> tensor.Stmt:
        """A loop. One with a step counts its iterations, and its variable is bound to what that makes."""
        if int(o.kind) not in LOOPS or o.thread_binding is not None:
            raise self.unsupported(f"the loop over {o.loop_var.name}, bound to threads,")
        kind = LOOPS[int(o.kind)]
        var = self.symbols.var(o.loop_var, self.where)
        start = cast(self.scalars.expr(o.min), var.dtype)
        extent = cast(self.scalars.expr(o.extent), var.dtype)
        notes = annotations_of(o.annotations)
        first = None if provably_zero(start) else start
        step = None if o.step is None else cast(self.scalars.expr(o.step), var.dtype)
        if step is None or provably_equal(cast(step, INT64), 1):
            return tensor.For(var, extent, body, kind, start=first, annotations=notes)
        count = Var(f"{var.name}_count", var.dtype)
        value = count * step if first is None else first + count * step
        trips = apply("floordiv", extent + step - 1, step)
        return tensor.For(count, trips, tensor.LetStmt(var, value, body), kind, annotations=notes)

    def store(self, o: Object) -> tensor.Stmt:
        """Read a store; one of several lanes becomes a store for each lane."""
        buffer = self.buffer(o.buffer)
        lanes = lanes_of(o.value.ty)[1]
        if lanes == 1:
            return self.store_one(buffer, self.scalars.element(buffer, list(o.indices)), self.scalars.expr(o.value))
        stores = []
        for lane in range(lanes):
            with self.scalars.reading(lane, lanes):
                value = self.scalars.expr(o.value)
                stores.append(self.store_one(buffer, self.scalars.element(buffer, list(o.indices)), value))
        return tensor.store_lanes(stores)

    def store_one(self, buffer: tensor.Buffer, indices: tuple[Expr, ...], value: Expr) -> tensor.Store:
        """A store of one element; Unsupported if the dtypes differ."""
        if value.dtype is not buffer.dtype:
            raise self.unsupported(f"a store of {value.dtype} into {buffer!r}")
        return tensor.Store(buffer, indices, value)

    # --- blocks --------------------------------------------------------------------------------------------------

    def block(self, o: Object, done: dict[int, tensor.Stmt], inside: object) -> tensor.Stmt:
        """Read a block with its iterators and their values, around statements that are `done`."""
        block = o.block
        iterators = []
        for given, value in zip(block.iter_vars, o.iter_values, strict=True):
            var = self.symbols.var(given.var, self.where)
            kind = ITERATORS.get(int(given.iter_type))
            if kind is None:
                raise self.unsupported(f"the iterator {var.name} of kind {given.iter_type}")
            start = self.scalars.expr(given.dom.min)
            first = None if provably_zero(start) else cast(start, var.dtype)
            extent, at = (cast(self.scalars.expr(e), var.dtype) for e in (given.dom.extent, value))
            iterators.append(tensor.IterVar(var, kind, extent, at, first))
        predicate = condition(self.scalars.expr(o.predicate))
        assert isinstance(inside, tuple)
        allocated, views = inside
        return tensor.Block(
            str(block.name_hint),
            tuple(iterators),
            done[handle(block.body)],
            None if block.init is None else done[handle(block.init)],
            None if type_key(o.predicate) == "ir.IntImm" and bool(o.predicate.value) else predicate,
            tuple(self.region(r) for r in block.reads),
            tuple(self.region(r) for r in block.writes),
            allocated,
            views,
            annotations_of(block.annotations),
        )

    def region(self, o: Object) -> tensor.Region:
        """A part of a buffer that a block touches."""
        starts = [self.scalars.index(r.min) for r in o.region]
        extents = [self.scalars.index(r.extent) for r in o.region]
        stops = [None if provably_equal(n, 1) else s + n for s, n in zip(starts, extents, strict=True)]
        source = self.buffer(o.source)
        if source in self.scalars.packed:
            starts, stops = [*starts, const(0)], [*stops, const(self.scalars.packed[source])]
        return tensor.Region(source, tuple(starts), tuple(stops))

    def matched(self, o: Object) -> tensor.View:
        """A buffer that stands for a region of another: its first dimensions run over whatever is longer than one."""
        region = o.source
        source = self.buffer(region.source)
        base = self.roots.get(handle(region.source))
        if base is not None:
            raise self.unsupported(f"{o.buffer.name}, matched with a region of the view {source.name},")
        shape = tuple(self.scalars.dim(d) for d in o.buffer.ty.shape)
        if source in self.scalars.packed or lanes_of(o.buffer.ty.dtype)[1] > 1:
            raise self.unsupported(f"{o.buffer.name}, a region of vectors,")
        steps = [as_expr(s) for s in compact(source.shape)]
        offset: Expr = const(0)
        for r, step in zip(region.region, steps, strict=True):
            offset = offset + self.scalars.index(r.min) * step
        skipped = len(source.shape) - len(shape)
        if skipped < 0:
            raise self.unsupported(f"{o.buffer.name}, matched with a region of lower rank,")
        strides = steps[skipped:]
        for given, step in zip(o.buffer.ty.strides, strides, strict=len(o.buffer.ty.strides) > 0):
            if type_key(given) == "ir.Var":
                self.scalars.given[handle(given)] = cast(step, prim_dtype(given.ty, self.where))
            elif not provably_equal(self.scalars.dim(given), step):
                raise self.unsupported(f"{o.buffer.name}, whose strides are not those of {source.name},")
        start = o.buffer.ty.elem_offset
        if start is not None and type_key(start) == "ir.Var":
            self.scalars.given[handle(start)] = cast(offset, prim_dtype(start.ty, self.where))
        made = self.buffer_of(o.buffer, shape)
        if not same_width(made.dtype, source.dtype):
            raise self.unsupported(f"the view {made!r} of {source!r}, of another width,")
        self.roots[handle(o.buffer)] = source, offset
        return tensor.View(made, source, offset, tuple(strides), self.region(region))


def is_row_major(layout: Object, shape: Sequence[Dim], scalars: Scalars) -> bool:
    """Whether a layout, if there is one, is the usual one."""
    if layout is None:
        return True
    if type_key(layout) != "tirx.TileLayout" or layout.replica or layout.offset:
        return False
    tiles = [(scalars.dim(i.extent), scalars.dim(i.stride)) for i in layout.shard]
    wanted = [(d, s) for d, s in zip(shape, compact(shape), strict=True) if d != 1]
    tiles = [t for t in tiles if t[0] != 1]
    return len(tiles) == len(wanted) and all(
        provably_equal(a, b) for t, w in zip(tiles, wanted, strict=True) for a, b in zip(t, w, strict=True)
    )


def provably_zero(value: Expr) -> bool:
    """Whether a value is shown to be 0 for all sizes."""
    return provably_equal(cast(value, INT64), 0)


def annotations_of(annotations: Object) -> dict[str, object]:
    """Annotations that are plain values."""
    if annotations is None:
        return {}
    found = {str(k): plain_value(v) for k, v in annotations.items()}
    return {k: v for k, v in found.items() if isinstance(v, (str, int, float, bool, tuple))}
