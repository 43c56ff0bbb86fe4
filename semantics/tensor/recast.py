"""Memory that is seen as numbers of several dtypes (rule M6.22; specs/semantics.md, "Tensor IR").

`in_units(func)` writes a function so that each memory has one dtype: where all who look at it have one width that is
the memory's own, and they convert bits; else the memory is made of units, unsigned integers of the least width, and a
number is put together from some of them, the lowest first. So the order in which a machine keeps bytes
does not matter, and every byte is written, read and raced for by itself.

An allocation of units takes the place of the one that was asked for; a parameter is copied into one, and an output out
of it. With `pointers` the unit is a byte, and memory stays where it is: a byte view of it is left, for C to point at.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from weakref import WeakKeyDictionary

import numpy as np

from assay.semantics import tensor
from assay.semantics.dtypes import BOOL, DTYPES, FLOAT32, INT64, DType
from assay.semantics.errors import Unsupported
from assay.semantics.scalar import Const, Expr, Load, Var, apply, cast, const, reinterpret
from assay.semantics.scalar.expression import Buffer
from assay.semantics.tensor.calls import size_of
from assay.semantics.tensor.mapping import Mapper
from assay.semantics.tensor.places import declared_number, dense_strides
from assay.semantics.tensor.views import Region, View
from assay.semantics.walk import fold, post_order, pre_order, rewrite

_looks: WeakKeyDictionary[tensor.PrimFunc, tuple[bool, frozenset[str]]] = WeakKeyDictionary()


def views_of(stmt: tensor.Stmt) -> Sequence[View]:
    """The views that begin with a statement."""
    return (stmt.view,) if isinstance(stmt, tensor.Alias) else stmt.views if isinstance(stmt, tensor.Block) else ()


def is_bytewise(func: tensor.PrimFunc, functions: Mapping[str, tensor.PrimFunc]) -> bool:
    """Whether a function, or one that it calls, sees some memory in numbers of several widths, or as bools and
    others."""
    for at in pre_order(func, lambda f: [functions[n] for n in _looks[f][1] if n in functions]):
        if at not in _looks:
            calls = frozenset(
                s.function for s in tensor.program_order(at.body) if isinstance(s, tensor.Call) and not s.extern
            )
            _looks[at] = any(_differs(v) for s in tensor.program_order(at.body) for v in views_of(s)), calls
        if _looks[at][0]:
            return True
    return False


def _differs(view: View) -> bool:
    a, b = view.buffer.dtype, view.source.dtype
    return a is not b and (a.itemsize != b.itemsize or BOOL in (a, b))


def in_units(func: tensor.PrimFunc, *, pointers: bool = False) -> tensor.PrimFunc:
    """`func` with one dtype for each memory; `func` itself where each has one already.

    Unsupported where a call is handed memory that is seen as another dtype.
    """
    views = {v.buffer: v for s in tensor.program_order(func.body) for v in views_of(s)}
    if all(v.buffer.dtype is v.source.dtype for v in views.values()):
        return func
    return _Units(func, views, pointers).run()


@dataclass(frozen=True, eq=False)
class Memory:
    """One memory: its buffer, the dtype of a unit, and what its buffer and its views become."""

    root: Buffer
    unit: DType
    buffers: Mapping[Buffer, Buffer]
    whole: Buffer
    """The memory in units, one after another: the root itself where that is made of units."""
    sources: Mapping[Buffer, Buffer]
    """Of what each becomes a view."""

    def units(self, buffer: Buffer) -> int:
        """How many units a number of a buffer is."""
        return buffer.dtype.itemsize // self.unit.itemsize

    def around(self, body: tensor.Stmt) -> tensor.Stmt:
        """`body`, in which the root is a view of its units."""
        return body if self.whole is self.buffers[self.root] else tensor.Alias(self.root_view, body)

    @property
    def root_view(self) -> View:
        """All of the memory as one dense view, in elements of its own buffer."""
        root = self.buffers[self.root]
        return View(root, self.whole, const(0), dense_strides(root.shape))


@dataclass(eq=False)
class _Units:
    func: tensor.PrimFunc
    views: Mapping[Buffer, View]
    pointers: bool
    memories: dict[Buffer, Memory] = field(default_factory=dict)
    """The memory of each buffer that is concerned."""
    fresh: int = 0
    blocks: bool = field(init=False)

    def __post_init__(self) -> None:
        self.blocks = any(isinstance(s, tensor.Block) for s in tensor.program_order(self.func.body))

    def run(self) -> tensor.PrimFunc:
        together: dict[Buffer, list[Buffer]] = {}
        for v in self.views:
            root = v
            while root in self.views:
                root = self.views[root].source
            together.setdefault(root, [root]).append(v)
        for root, buffers in together.items():
            if len({b.dtype for b in buffers}) > 1:
                memory = self.memory(root, buffers)
                self.memories.update(dict.fromkeys(buffers, memory))
        body = fold(self.func.body, self.statement)
        for k, p in enumerate(self.func.params):
            memory_ = self.memories.get(p)
            if memory_ is not None and memory_.whole is not p:
                body = self.parameter(memory_, body, is_input=k < len(self.func.inputs))
        return replace(self.func, body=body)

    def memory(self, root: Buffer, buffers: Sequence[Buffer]) -> Memory:
        dtypes = {b.dtype for b in buffers}
        least = min(d.itemsize for d in dtypes)
        if self.pointers and len({d.itemsize for d in dtypes}) > 1:
            least = 1
        unit = root.dtype if root.dtype.itemsize == least else DTYPES[f"uint{8 * least}"]
        made: dict[Buffer, Buffer] = {}
        for b in buffers:
            count = b.dtype.itemsize // least
            notes = {k: n for k, n in b.notes.items() if k != "dims"}
            factor = declared_number(b, "offset_factor")
            if factor is not None:
                notes["offset_factor"] = str(factor * count)
            shape = (*b.shape, count) if count > 1 else b.shape
            made[b] = b if b.dtype is unit else Buffer(b.name, shape, unit, b.scope, notes)
        whole = made[root]
        if whole is not root and len(whole.shape) > 1:
            notes = {k: n for k, n in root.notes.items() if k == "align"}
            whole = Buffer(f"{root.name}_units", (size_of(whole.shape),), unit, root.scope, notes)
        # where blocks say what they touch of the root, a view of it must be known as one
        first = made[root] if self.blocks else whole
        sources = {b: first if self.views[b].source is root else made[self.views[b].source] for b in buffers[1:]}
        return Memory(root, unit, made, whole, sources)

    def parameter(self, memory: Memory, body: tensor.Stmt, is_input: bool) -> tensor.Stmt:
        p, whole = memory.root, memory.buffers[memory.root]
        if self.pointers:
            return tensor.Alias(as_units(memory), memory.around(body))
        index = tuple(Var(f"i{k}") for k in range(len(p.shape)))
        copy: tensor.Stmt
        if is_input:
            bits = _bits(p[index], p.dtype)
            copy = tensor.Seq(
                tuple(
                    tensor.Store(whole, (*index, const(k)), _unit(bits, k, memory.unit)) for k in range(memory.units(p))
                )
            )
        else:
            copy = tensor.Store(p, index, self.value(memory, p, index))
        for var, d in zip(reversed(index), reversed(p.shape), strict=True):
            copy = tensor.For(var, d if isinstance(d, Expr) else const(d), copy)
        return tensor.Allocate(memory.whole, memory.around(tensor.Seq((copy, body) if is_input else (body, copy))))

    # --- statements ----------------------------------------------------------------------------------------------

    def statement(self, stmt: tensor.Stmt, parts: list[tensor.Stmt]) -> tensor.Stmt:
        changed = self.own(stmt.with_children(parts))
        match changed:
            case tensor.Allocate(buffer=b) if b in self.memories and self.memories[b].whole is not b:
                memory = self.memories[b]
                inner = memory.around(changed.body)
                if self.pointers:
                    return replace(changed, body=tensor.Alias(as_units(memory), inner))
                return replace(changed, buffer=memory.whole, body=inner)
            case tensor.AllocateConst(buffer=b) if b in self.memories and self.memories[b].whole is not b:
                memory = self.memories[b]
                if self.pointers:  # it may be an entry of the module's table, in its own dtype
                    return replace(changed, body=tensor.Alias(as_units(memory), memory.around(changed.body)))
                data = np.ascontiguousarray(changed.data).reshape(-1).view(memory.unit.numpy)
                data.flags.writeable = False
                return replace(changed, buffer=memory.whole, data=data, body=memory.around(changed.body))
            case tensor.Store(buffer=b) if b in self.memories:
                return self.store(changed)
            case tensor.Alias(view=v) if v.buffer in self.memories:
                return replace(changed, view=self.view(v))
            case tensor.Block():
                return self.block(changed)
            case tensor.Call():
                seen = [b for b in self.handed(changed) if b in self.memories]
                # with pointers, the memory itself may be handed over under its own name
                if any(not self.pointers or b is not self.memories[b].root for b in seen):
                    what = f"{changed.function} is handed {seen[0]!r}, which is seen as other numbers too"
                    raise Unsupported(
                        f"{self.func.name}: {what}: hand over a copy", where=stmt.span, label="tensor.C18"
                    )
                return changed
            case _:
                return changed

    @staticmethod
    def handed(call: tensor.Call) -> Iterator[Buffer]:
        yield from call.buffers
        if call.result is not None:
            yield call.result.buffer

    def own(self, stmt: tensor.Stmt) -> tensor.Stmt:
        """A statement whose expressions read units."""

        def change(node: Expr) -> Expr:
            if isinstance(node, Load) and node.buffer in self.memories:
                return self.value(self.memories[node.buffer], node.buffer, node.indices)
            return node

        exprs = (*stmt.expressions, *(stmt.inner_expressions if isinstance(stmt, tensor.Block) else ()))
        if not any(isinstance(n, Load) and n.buffer in self.memories for e in exprs for n in post_order(e)):
            return stmt
        return _Reading(change).own(stmt)

    def store(self, stmt: tensor.Store) -> tensor.Stmt:
        """A number stored unit by unit; its indices and its value are known before the first."""
        b, memory = stmt.buffer, self.memories[stmt.buffer]
        target, bits = memory.buffers[b], _bits(stmt.value, b.dtype)
        if memory.units(b) == 1:
            return self.guarded(memory, replace(stmt, buffer=target, value=_number(bits, memory.unit, stmt.value)))
        lets: list[tuple[Var, Expr]] = []

        def named(e: Expr) -> Expr:
            if isinstance(e, (Const, Var)):
                return e
            self.fresh += 1
            lets.append((Var(f"{b.name}_{self.fresh}", e.dtype), e))
            return lets[-1][0]

        index, bits = tuple(map(named, stmt.indices)), named(bits)
        body: tensor.Stmt = tensor.Seq(
            tuple(
                replace(stmt, buffer=target, indices=(*index, const(k)), value=_unit(bits, k, memory.unit))
                for k in range(memory.units(b))
            )
        )
        for var, value in reversed(lets):
            body = tensor.LetStmt(var, value, body, span=stmt.span)
        return self.guarded(memory, body)

    def guarded(self, memory: Memory, body: tensor.Stmt) -> tensor.Stmt:
        """A store; into an input that was copied it is none."""
        if self.pointers or memory.whole is memory.root or memory.root not in self.func.inputs:
            return body
        return tensor.Seq(
            (tensor.Assert(const(False, BOOL), f"{memory.root.name} is read-only", "store to constant"), body)
        )

    def view(self, view: View) -> View:
        memory = self.memories[view.buffer]
        count = memory.units(view.buffer)
        strides = tuple(cast(s, INT64) * count for s in view.strides)
        return View(
            memory.buffers[view.buffer],
            memory.sources[view.buffer],
            cast(view.offset, INT64) * count,
            (*strides, const(1)) if count > 1 else strides,
            None if view.region is None else self.region(view.region),
            view.constant,
        )

    def region(self, r: Region) -> Region:
        memory = self.memories.get(r.buffer)
        if memory is None:
            return r
        count = memory.units(r.buffer)
        more = ((const(0),), (const(count),)) if count > 1 else ((), ())
        return Region(memory.buffers[r.buffer], (*r.starts, *more[0]), (*r.stops, *more[1]))

    def block(self, block: tensor.Block) -> tensor.Block:
        held = [self.memories[b] for b in block.allocated if b in self.memories and self.memories[b].whole is not b]
        views = tuple(self.view(v) if v.buffer in self.memories else v for v in block.views)
        allocated = block.allocated
        views = (*(m.root_view for m in held if m.whole is not m.buffers[m.root]), *views)
        if self.pointers:
            views = (*map(as_units, held), *views)
        else:
            allocated = tuple(self.memories[b].whole if b in self.memories else b for b in allocated)
        return replace(
            block,
            reads=None if block.reads is None else tuple(map(self.region, block.reads)),
            writes=None if block.writes is None else tuple(map(self.region, block.writes)),
            allocated=allocated,
            views=views,
        )

    def value(self, memory: Memory, b: Buffer, indices: tuple[Expr, ...]) -> Expr:
        """A number of a buffer, put together from units."""
        target, count = memory.buffers[b], memory.units(b)
        if count == 1:
            one = Load(memory.unit, target, indices)
            return _number(_bits(one, memory.unit), b.dtype, one)
        width = memory.unit.itemsize * 8
        wide = DTYPES[f"uint{b.dtype.itemsize * 8}"]
        found: Expr | None = None
        for k in range(count):
            unit = _bits(Load(memory.unit, target, (*indices, const(k))), memory.unit)
            part = cast(unit, wide)
            part = part if k == 0 else apply("shl", part, const(k * width, wide))
            found = part if found is None else apply("bitor", found, part)
        assert found is not None
        return _number(found, b.dtype, found)


class _Reading(Mapper):
    """Changes the nodes of expressions."""

    def __init__(self, change: Callable[[Expr], Expr]) -> None:
        super().__init__()
        self.change = change

    def expr(self, of: Expr) -> Expr:
        return rewrite(of, self.change)


def as_units(memory: Memory) -> View:
    """The memory in units, as a view of it."""
    return View(memory.whole, memory.root, const(0), (const(1),))


def _bits(value: Expr, of: DType) -> Expr:
    """The bits of a number as an unsigned integer."""
    to = DTYPES[f"uint{of.itemsize * 8}"]
    return cast(value, to) if of is BOOL else reinterpret(value, to)


def _number(bits: Expr, of: DType, like: Expr) -> Expr:
    """The number with these bits; `like` is what they are of, which is it already if it has that dtype."""
    if like.dtype is of:
        return like
    if of is not BOOL:
        return reinterpret(bits, of)
    # 0, 127, or what no int8 can hold: the cast traps, as it must where a byte is no bool
    return apply("ne", cast(cast(bits, FLOAT32) * const(127.0, FLOAT32), "int8"), const(0, "int8"))


def _unit(bits: Expr, k: int, unit: DType) -> Expr:
    """Unit number `k` of a number, as a number of a unit's dtype."""
    width = unit.itemsize * 8
    moved = bits if k == 0 else apply("shr", bits, const(k * width, bits.dtype))
    part = cast(moved, f"uint{width}")
    return _number(part, unit, part)
