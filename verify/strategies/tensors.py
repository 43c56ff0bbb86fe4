"""Valid tensor functions: in bounds, written before read, race-free and sound in their arithmetic (specs/verify.md,
"Programs").

Every program is a chain of fills. A fill writes every element of one buffer, each by one iteration, from elements of
buffers that are whole. How it goes about that is chosen: loops of all kinds, tiled or fused, guards, triangles,
reductions, permutations, blocks with regions, views, workspace inside of loops, while loops, calls.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import gcd, prod
from typing import Any

import numpy as np

from assay.semantics import tensor
from assay.semantics.dtypes import BOOL, DTYPES, INT32, INT64, DType
from assay.semantics.scalar import Choice, Dim, Expr, Load, Var, apply, both, cast, choice, const
from assay.semantics.tensor.places import strides_of
from assay.semantics.walk import post_order
from assay.verify.strategies.choosing import Pick
from assay.verify.strategies.kernels import DATA, Kernels

KINDS: tuple[tensor.LoopKind, ...] = ("serial", "parallel", "vectorized", "unrolled")


class ValidMaker(Kernels):
    """Makes one function. Its expressions are those of `Kernels`, kept from failing."""

    valid = True

    def __init__(self, choose: Pick, name: str = "f", *, static: bool = False) -> None:
        super().__init__(choose, name)
        self.n: Dim = Var("n") if not static and choose(4) == 3 else 1 + choose(5)
        shapes: list[tuple[Dim, ...]] = [
            (self.n, 1 + choose(4)),
            (1 + choose(5),),
            (),
            (1 + choose(3), 2, 1 + choose(3)),
        ]
        self.inputs = [tensor.Buffer(f"x{k}", s, DTYPES[self.pick(DATA)]) for k, s in enumerate(shapes)]
        self.inputs.append(tensor.Buffer("index", (1 + choose(6),), self.pick((INT64, INT32))))
        self.readable = list(self.inputs)
        self.kinds = KINDS
        self.ranges: dict[Var, int] = {}
        """Variables, each from 0 to below a number; of symbolic extents nothing is said."""

    def whole(self) -> tensor.PrimFunc:
        """Make the function: one or two outputs, each filled."""
        outputs = []
        body: list[tensor.Stmt] = []
        for k in range(1 + self.choose(2)):
            out = tensor.Buffer(f"out{k}", self.shape(), DTYPES[self.pick(DATA)])
            body.append(self.fill(out, 2))
            self.readable.append(out)
            outputs.append(out)
            if self.choose(3) == 0:
                body.append(self.again(out))
        return tensor.PrimFunc(self.name, (*self.inputs, *outputs), len(outputs), tensor.seq(*body))

    def shape(self) -> tuple[Dim, ...]:
        """A shape of rank 0 to 3, maybe with the symbol n."""
        rank = self.pick((1, 2, 2, 3, 0))
        return tuple(self.n if self.choose(6) == 0 else 1 + self.choose(5) for _ in range(rank))

    # --- expressions that cannot fail ----------------------------------------------------------------------------

    def index(self, extent: Dim, depth: int) -> Expr:
        """An index that is within the extent."""
        size = extent if isinstance(extent, int) else None
        known = [v for v, n in self.ranges.items() if size is not None and n <= size]
        match self.choose(6):
            case 0 | 1 if known:
                return self.pick(known)
            case 2 if known and size is not None:
                v = self.pick(known)
                return v + self.choose(size - self.ranges[v] + 1)
            case 3 if size is not None:
                return const(self.choose(size))
            case 4 if depth:
                e = self.expr(INT64, depth - 1)
                return apply("min", apply("max", e, 0), extent - 1)
            case _:
                ints = [cast(v, INT64) for v in self.ranges]
                e = self.pick(ints) + self.choose(7) if ints and self.choose(3) else self.gathered()
                return apply("floormod", e, extent)

    def gathered(self) -> Expr:
        """An index that is read from the table among the inputs, int64."""
        table = self.inputs[-1]
        return cast(table[self.choose(table.static_shape[0])], INT64)

    def expr(self, of: DType, depth: int) -> Expr:
        """As for `Kernels`, and choices by data and padding, whose sides are evaluated only where they hold."""
        if depth and not self.choose(8):
            return choice(self.expr(BOOL, depth - 1), self.expr(of, depth - 1), self.expr(of, depth - 1))
        if depth and not self.choose(10):
            # padding: the element is there where it is asked for
            b = self.pick([b for b in self.inputs if b.shape])
            at = [self.pick([*map(_int64, self.ranges), const(0)]) + (self.choose(5) - 2) for _ in b.shape]
            inside: Expr = const(True, BOOL)
            for i, n in zip(at, b.shape, strict=True):
                inside = both(both(inside, i >= 0), i < n)
            return choice(inside, self.convert(b[tuple(at)], of), self.literal(of))
        return super().expr(of, depth)

    # --- fills ---------------------------------------------------------------------------------------------------

    def fill(self, target: tensor.Buffer, depth: int) -> tensor.Stmt:
        """Every element of `target` is written, by one iteration each."""
        ways = [self.nest, self.nest, self.reduction, self.twice]
        if depth:
            ways += [self.with_workspace, self.through_view, self.with_table]
        if len(target.shape) == 1:
            ways += [self.permuted, self.by_while]
        if len(target.shape) == 2:
            ways.append(self.triangle)
        return self.pick(ways)(target, depth)

    def nest(self, target: tensor.Buffer, depth: int) -> tensor.Stmt:
        """A nest of loops that writes each element of `target`."""
        return self.loops(target.shape, lambda index: self.element(target, index, depth))

    def element(self, target: tensor.Buffer, index: Sequence[Expr], depth: int) -> tensor.Stmt:
        """`target[index]` is written, maybe by a block, in a branch, or with a let."""
        match self.choose(9 if depth else 4):
            case 1:
                condition = self.expr(BOOL, 1)
                return tensor.If(condition, self.plain(target, index), self.plain(target, index))
            case 2:
                var = self.named(DTYPES[self.pick(DATA)])
                value = self.expr(var.dtype, 1)
                self.scalars.append(var)
                body = self.plain(target, index)
                self.scalars.pop()
                return tensor.LetStmt(var, value, body)
            case 3:
                return tensor.Pragma(
                    "pragma_unroll", 1, tensor.seq(tensor.Evaluate(self.expr(INT64, 1)), self.plain(target, index))
                )
            case 4 | 5:
                return self.inside_block(target, index)
            case 6:
                # workspace of this iteration, whole before it is read
                own = self.fresh_buffer((1 + self.choose(3),))
                outer, self.kinds = self.kinds, ("serial", "unrolled") if own.scope == "local" else self.kinds
                first = self.fill(own, 0)
                self.kinds = outer
                self.readable.append(own)
                body = self.plain(target, index)
                self.readable.pop()
                return tensor.Allocate(own, tensor.seq(first, body))
            case _:
                return self.plain(target, index)

    def plain(self, target: tensor.Buffer, index: Sequence[Expr]) -> tensor.Stmt:
        """One store to `target[index]`."""
        return tensor.store(target, tuple(index), self.expr(target.dtype, 1 + self.choose(2)))

    def loops(self, shape: Sequence[Dim], body: Any) -> tensor.Stmt:
        """A nest whose body gets an index for each dimension: each combination once."""
        order = list(range(len(shape)))
        for k in range(len(order)):
            other = k + self.choose(len(order) - k)
            order[k], order[other] = order[other], order[k]
        index: list[Expr] = [const(0)] * len(shape)
        wraps: list[Any] = []
        added: list[Var] = []
        if len(shape) > 1 and all(isinstance(d, int) for d in shape) and self.choose(4) == 0:
            var = self.loop_var(prod(d for d in shape if isinstance(d, int)), added)
            wraps.append((var, const(self.ranges[var]), self.pick(self.kinds)))
            for k, (d, step) in enumerate(zip(shape, strides_of(shape), strict=True)):
                index[k] = var // step % d
        else:
            for k in order:
                d = shape[k]
                if isinstance(d, int) and d > 1 and self.choose(3) == 0:
                    tile = 1 + self.choose(d)
                    outer, inner = self.loop_var(-(-d // tile), added), self.loop_var(tile, added)
                    wraps.append((outer, const(self.ranges[outer]), self.pick(self.kinds)))
                    wraps.append((inner, const(tile), self.pick(self.kinds)))
                    index[k] = outer * tile + inner
                    if d % tile:
                        wraps.append((index[k] < d, None, None))
                else:
                    var = self.loop_var(d, added)
                    wraps.append((var, d if isinstance(d, Expr) else const(d), self.pick(self.kinds)))
                    index[k] = var
        stmt: tensor.Stmt = body(index)
        for first, extent, kind in reversed(wraps):
            stmt = tensor.If(first, stmt) if extent is None else tensor.For(first, extent, stmt, kind)
        for var in added:
            self.forget(var)
        return stmt

    def loop_var(self, extent: Dim, added: list[Var]) -> Var:
        """A new loop variable in scope, with its extent if that is static; noted in `added`."""
        var = self.named(INT64)
        self.scalars.append(var)
        added.append(var)
        if isinstance(extent, int):
            self.ranges[var] = extent
        return var

    def forget(self, var: Var) -> None:
        """Take a variable out of scope."""
        self.scalars.remove(var)
        self.ranges.pop(var, None)

    def named(self, of: DType) -> Var:
        """A variable with a new name."""
        self.count += 1
        return Var(f"v{self.count}", of)

    def fresh_buffer(self, shape: tuple[Dim, ...]) -> tensor.Buffer:
        """Workspace with a new name, in some memory scope."""
        self.count += 1
        scope = self.pick(("global", "global", "local", "shared"))
        return tensor.Buffer(f"tmp{self.count}", shape, DTYPES[self.pick(DATA)], scope)

    def inside_block(self, target: tensor.Buffer, index: Sequence[Expr]) -> tensor.Stmt:
        """A block that follows its loops and says what it touches."""
        iterators = []
        for e, d in zip(index, target.shape, strict=True):
            var = self.named(e.dtype)
            iterators.append(tensor.IterVar(var, "spatial", d if isinstance(d, Expr) else const(d), e))
            self.scalars.append(var)
            if isinstance(d, int):
                self.ranges[var] = d
        own = tuple(i.var for i in iterators)
        body = self.plain(target, own)
        for var in own:
            self.forget(var)
        said = self.choose(3)
        reads = tuple(
            self.region(n.buffer, n.indices) for e in body.expressions for n in post_order(e) if isinstance(n, Load)
        )
        writes = (self.region(target, own),)
        predicate = const(True, BOOL) if self.choose(4) == 0 else None
        return tensor.Block(
            "block", tuple(iterators), body, None, predicate, reads if said else None, writes if said > 1 else None
        )

    def region(self, buffer: tensor.Buffer, index: Sequence[Expr]) -> tensor.Region:
        """A box around an element, exact or wider."""
        starts: list[Expr] = []
        stops: list[Expr | None] = []
        for i, d in zip(index, buffer.shape, strict=True):
            exact = not any(isinstance(n, (Load, Choice)) for n in post_order(i))
            if exact and self.choose(3):
                starts.append(i)
                stops.append(None if self.choose(2) else i + 1)
            else:
                starts.append(const(0))
                stops.append(d if isinstance(d, Expr) else const(d))
        return tensor.Region(buffer, tuple(starts), tuple(stops))

    def reduction(self, target: tensor.Buffer, depth: int) -> tensor.Stmt:
        """Each element is begun and then added to, by a block with init or by plain loops."""
        extent = self.choose(4) + 1
        self.count += 1
        k = Var(f"k{self.count}")
        zero = self.literal(target.dtype)

        def summed(index: Sequence[Expr]) -> tensor.Stmt:
            at = tuple(index)
            own = tuple(self.named(INT64) for _ in at) if as_block else at
            inner = Var(f"r{self.count}") if as_block else k
            self.ranges[inner] = extent
            value = self.combined(target, own)
            del self.ranges[inner]
            update = tensor.store(target, own, value)
            if not as_block:
                return tensor.seq(tensor.store(target, at, zero), tensor.For(k, const(extent), update))
            sizes = [d if isinstance(d, Expr) else const(d) for d in target.shape]
            axes = [tensor.IterVar(v, "spatial", d, e) for v, d, e in zip(own, sizes, at, strict=True)]  # type: ignore[arg-type]
            axes.append(tensor.IterVar(inner, "reduce", const(extent), k))
            reads = None
            if self.choose(2):
                loads = [n for n in post_order(value) if isinstance(n, Load) and n.buffer is not target]
                reads = tuple(self.region(n.buffer, n.indices) for n in loads)
            block = tensor.Block(
                "sum", tuple(axes), update, tensor.store(target, own, zero), None, reads, (self.region(target, own),)
            )
            return tensor.For(k, const(extent), block)

        as_block = bool(self.choose(2)) and bool(target.shape)
        return self.loops(target.shape, summed)

    def combined(self, target: tensor.Buffer, at: tuple[Expr, ...]) -> Expr:
        """An element of `target`, by a binary operation with another value."""
        return self.binary(target.dtype, target[at], self.expr(target.dtype, 1))

    def twice(self, target: tensor.Buffer, depth: int) -> tensor.Stmt:
        """A fill, and then each element from what it was."""
        first = self.nest(target, 0)
        again = self.loops(
            target.shape, lambda index: tensor.store(target, tuple(index), self.combined(target, tuple(index)))
        )
        return tensor.seq(first, again)

    def again(self, out: tensor.Buffer) -> tensor.Stmt:
        """Lanes that read what later lanes write, which is the same at once and one after another."""
        if len(out.shape) != 1:
            return tensor.Assert(apply("ge", self.gathered() * 0, 0), "holds")
        (n,) = out.shape
        v = self.named(INT64)
        extent = n if isinstance(n, Expr) else const(n)
        return tensor.For(
            v, extent, tensor.store(out, v, out[apply("min", v + 1, extent - 1)]), self.pick(("serial", "vectorized"))
        )

    def with_workspace(self, target: tensor.Buffer, depth: int) -> tensor.Stmt:
        """Fill workspace, then `target`, which may read it."""
        own = self.fresh_buffer(self.shape())
        if own.scope == "local":
            own = tensor.Buffer(own.name, own.shape, own.dtype, "global")  # its fill may be parallel
        first = self.fill(own, depth - 1)
        self.readable.append(own)
        rest = self.fill(target, depth - 1)
        self.readable.pop()
        return tensor.Allocate(own, tensor.seq(first, rest))

    def with_table(self, target: tensor.Buffer, depth: int) -> tensor.Stmt:
        """Fill `target`, which may read a linked constant of three elements."""
        of = DTYPES[self.pick(DATA)]
        table = tensor.Buffer(f"table{self.count}", (3,), of)
        self.count += 1
        data = np.array([0, 1, 2]) if of.kind != "float" else np.array([np.inf, -0.5, np.nan])
        self.readable.append(table)
        body = self.fill(target, depth - 1)
        self.readable.pop()
        return tensor.AllocateConst(table, data.astype(of.numpy), body)

    def through_view(self, target: tensor.Buffer, depth: int) -> tensor.Stmt:
        """The same memory under another name: flat, transposed, or itself."""
        shape = target.shape
        dense = tuple(s if isinstance(s, Expr) else const(s) for s in strides_of(shape))
        offset: Expr = const(0)
        new: tuple[Dim, ...]
        strides: tuple[Expr, ...]
        if len(shape) == 2 and self.choose(2):
            new, strides = (shape[1], shape[0]), (dense[1], dense[0])
        elif all(isinstance(d, int) for d in shape) and self.choose(2):
            count = prod(d for d in shape if isinstance(d, int))
            new, strides = (count,), (const(1),)
            if self.choose(2):  # from its end
                offset, strides = const(count - 1), (const(-1),)
        else:
            new, strides = shape, dense
        self.count += 1
        notes = {"align": str(target.dtype.itemsize)} if self.choose(2) else {"offset_factor": "1"}
        view = tensor.Buffer(f"view{self.count}", new, target.dtype, target.scope, notes)
        return tensor.Alias(tensor.View(view, target, offset, strides), self.fill(view, depth - 1))

    def permuted(self, target: tensor.Buffer, depth: int) -> tensor.Stmt:
        """Fill a vector in a permuted order, by a step that is coprime to its length."""
        (n,) = target.shape
        if not isinstance(n, int):
            return self.nest(target, depth)
        step = self.pick([k for k in range(1, n + 1) if gcd(k, n) == 1])
        return self.loops(
            (n,), lambda index: self.plain(target, (apply("floormod", index[0] * step + self.choose(9), n),))
        )

    def by_while(self, target: tensor.Buffer, depth: int) -> tensor.Stmt:
        """Fill a vector in a while loop with a counter in memory."""
        (n,) = target.shape
        self.count += 1
        counter = tensor.Buffer(f"count{self.count}", (1,), INT64, "local")
        step = tensor.store(counter, 0, counter[0] + 1)
        body = tensor.seq(self.plain(target, (counter[0],)), step)
        return tensor.Allocate(counter, tensor.seq(tensor.store(counter, 0, 0), tensor.While(counter[0] < n, body)))

    def triangle(self, target: tensor.Buffer, depth: int) -> tensor.Stmt:
        """All elements, then those up to the diagonal once more."""
        n, m = target.shape
        i, j = self.named(INT64), self.named(INT64)
        width = apply("min", i + 1, m)
        inner = tensor.For(j, width, tensor.store(target, (i, j), self.combined(target, (i, j))), self.pick(self.kinds))
        return tensor.seq(
            self.nest(target, 0), tensor.For(i, n if isinstance(n, Expr) else const(n), inner, self.pick(self.kinds))
        )


def _int64(v: Var) -> Expr:
    return cast(v, INT64)


def a_tensor_function(pick: Pick, name: str = "f", *, static: bool = False) -> tensor.PrimFunc:
    """A valid tensor function of tensors: no scalars among its parameters. `static`: without symbolic sizes."""
    return ValidMaker(pick, name, static=static).whole()
