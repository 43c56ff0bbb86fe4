"""The tensor IR: loops over buffers (rule M6; specs/semantics.md, "Tensor IR").

A `PrimFunc` takes buffers and writes into the last `num_outputs` of them (destination passing). Its meaning is one
iteration after another, as `assay.interp.tensor` spells out.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np

from assay.semantics.dtypes import BOOL, INT64, DType, size_in_bytes
from assay.semantics.errors import Invalid, Span
from assay.semantics.scalar import Dim, Expr, Load, Number, Var, cast, const, show
from assay.semantics.walk import post_order


@dataclass(frozen=True, eq=False)
class Buffer:
    """A dense row-major array in memory; compared by identity. `scope` is its storage scope."""

    name: str
    shape: tuple[Dim, ...]
    dtype: DType
    scope: str = "global"

    def __getitem__(self, indices: Number | tuple[Number, ...]) -> Load:
        return Load(self.dtype, self, as_indices(self, indices))

    @property
    def static_shape(self) -> tuple[int, ...]:
        shape = tuple(d for d in self.shape if isinstance(d, int))
        if len(shape) != len(self.shape):
            raise Invalid(f"buffer {self.name} has symbolic dims", label="tensor.C1")
        return shape

    @property
    def nbytes(self) -> int:
        return size_in_bytes(self.static_shape, self.dtype)

    def __repr__(self) -> str:
        return f"{self.name}: Buffer(({', '.join(map(show, self.shape))}), {self.dtype})"


def as_indices(buffer: Buffer, indices: Number | tuple[Number, ...]) -> tuple[Expr, ...]:
    """Indices as int64 expressions; Invalid unless there is one for each dimension."""
    given = indices if isinstance(indices, tuple) else (indices,)
    if len(given) != len(buffer.shape):
        raise Invalid(
            f"buffer {buffer.name} has {len(buffer.shape)} dimensions, {len(given)} indices given",
            label="tensor.C2",
        )
    return tuple(cast(i, INT64) if isinstance(i, Expr) else const(i) for i in given)


@dataclass(frozen=True, eq=False, repr=False)
class Stmt:
    """Base of statements."""

    span: Span | None = field(default=None, kw_only=True)

    @property
    def children(self) -> Sequence[Stmt]:
        return ()

    @property
    def expressions(self) -> Sequence[Expr]:
        """The scalar expressions that stand in this statement itself."""
        return ()

    def __repr__(self) -> str:
        return show_stmt(self)


LoopKind = Literal["serial", "parallel", "vectorized", "unrolled"]


@dataclass(frozen=True, eq=False, repr=False)
class For(Stmt):
    """`body` for `var` = 0, 1, ... below `extent`. Other kinds than serial assert independent iterations (M6)."""

    var: Var
    extent: Expr
    body: Stmt
    kind: LoopKind = "serial"

    @property
    def children(self) -> Sequence[Stmt]:
        return (self.body,)

    @property
    def expressions(self) -> Sequence[Expr]:
        return (self.extent,)


@dataclass(frozen=True, eq=False, repr=False)
class While(Stmt):
    """`body` as long as `condition` holds."""

    condition: Expr
    body: Stmt

    @property
    def children(self) -> Sequence[Stmt]:
        return (self.body,)

    @property
    def expressions(self) -> Sequence[Expr]:
        return (self.condition,)


@dataclass(frozen=True, eq=False, repr=False)
class Seq(Stmt):
    """Statements one after another."""

    body: tuple[Stmt, ...]

    @property
    def children(self) -> Sequence[Stmt]:
        return self.body


@dataclass(frozen=True, eq=False, repr=False)
class If(Stmt):
    """`then` where `condition` holds, else `otherwise`."""

    condition: Expr
    then: Stmt
    otherwise: Stmt | None = None

    @property
    def children(self) -> Sequence[Stmt]:
        return (self.then,) if self.otherwise is None else (self.then, self.otherwise)

    @property
    def expressions(self) -> Sequence[Expr]:
        return (self.condition,)


@dataclass(frozen=True, eq=False, repr=False)
class LetStmt(Stmt):
    """`var` names the value that `value` has now, within `body`."""

    var: Var
    value: Expr
    body: Stmt

    @property
    def children(self) -> Sequence[Stmt]:
        return (self.body,)

    @property
    def expressions(self) -> Sequence[Expr]:
        return (self.value,)


@dataclass(frozen=True, eq=False, repr=False)
class Allocate(Stmt):
    """`buffer` exists, unwritten, within `body`: workspace of the function."""

    buffer: Buffer
    body: Stmt

    @property
    def children(self) -> Sequence[Stmt]:
        return (self.body,)


@dataclass(frozen=True, eq=False, repr=False)
class AllocateConst(Stmt):
    """`buffer` exists within `body` with the contents `data`, read-only."""

    buffer: Buffer
    data: np.ndarray[Any, Any]
    body: Stmt

    @property
    def children(self) -> Sequence[Stmt]:
        return (self.body,)


@dataclass(frozen=True, eq=False, repr=False)
class Store(Stmt):
    """The element of `buffer` at `indices` becomes `value`."""

    buffer: Buffer
    indices: tuple[Expr, ...]
    value: Expr

    @property
    def expressions(self) -> Sequence[Expr]:
        return (*self.indices, self.value)


@dataclass(frozen=True, eq=False, repr=False)
class Assert(Stmt):
    """Traps with `message` unless `condition` holds; `kind` is the trap's."""

    condition: Expr
    message: str
    kind: str = "assertion"

    @property
    def expressions(self) -> Sequence[Expr]:
        return (self.condition,)


@dataclass(frozen=True, eq=False, repr=False)
class Evaluate(Stmt):
    """`value` is computed and dropped (it may trap)."""

    value: Expr

    @property
    def expressions(self) -> Sequence[Expr]:
        return (self.value,)


@dataclass(frozen=True, eq=False, repr=False)
class PrimFunc:
    """A function of the tensor IR. `params` are buffers, the last `num_outputs` written, the others read."""

    name: str
    params: tuple[Buffer, ...]
    num_outputs: int
    body: Stmt
    attrs: Mapping[str, Any] = field(default_factory=dict)

    @property
    def inputs(self) -> tuple[Buffer, ...]:
        return self.params[: len(self.params) - self.num_outputs]

    @property
    def outputs(self) -> tuple[Buffer, ...]:
        return self.params[len(self.params) - self.num_outputs :]

    @property
    def allocations(self) -> tuple[Buffer, ...]:
        """The buffers that the body allocates, in program order: the workspace it needs."""
        return tuple(s.buffer for s in program_order(self.body) if isinstance(s, Allocate))

    def __repr__(self) -> str:
        params = ", ".join(map(repr, self.params))
        return f"def {self.name}({params}):\n{show_stmt(self.body, 1)}"


# --- construction ------------------------------------------------------------------------------------------------


def store(buffer: Buffer, indices: Number | tuple[Number, ...], value: Number) -> Store:
    """`buffer[indices] = value`, checked: the value has the buffer's dtype."""
    value = value if isinstance(value, Expr) else const(value, buffer.dtype)
    if value.dtype is not buffer.dtype:
        raise Invalid(
            f"store of {value.dtype} into {buffer.name}, which holds {buffer.dtype}",
            label="tensor.C3",
        )
    return Store(buffer, as_indices(buffer, indices), value)


def seq(*body: Stmt) -> Stmt:
    """Statements one after another; a single one stands for itself."""
    return body[0] if len(body) == 1 else Seq(body)


def loops(
    names: str, extents: Sequence[Dim], body: Callable[..., Stmt], kind: LoopKind = "serial"
) -> Stmt:
    """A nest of loops, outermost first. `names` has one word for each extent; `body` gets the loop variables.

    loops("i j", (n, m), lambda i, j: store(out, (i, j), a[i, j] + b[j]))
    """
    words = names.split()
    if len(words) != len(extents):
        raise Invalid(f"{len(extents)} loops need as many names, got {names!r}", label="tensor.C4")
    vars = [Var(w) for w in words]
    stmt = body(*vars)
    for var, extent in zip(reversed(vars), reversed(extents), strict=True):
        stmt = For(var, extent if isinstance(extent, Expr) else const(extent), stmt, kind)
    return stmt


def when(condition: Expr, then: Stmt, otherwise: Stmt | None = None) -> If:
    if condition.dtype is not BOOL:
        raise Invalid(f"a condition is bool, not {condition.dtype}", label="tensor.C5")
    return If(condition, then, otherwise)


# --- reading -----------------------------------------------------------------------------------------------------


def program_order(body: Stmt) -> Iterator[Stmt]:
    """Every statement in the order of the text, wholes before parts."""
    stack = [body]
    while stack:
        node = stack.pop()
        yield node
        stack.extend(reversed(node.children))


def loads(expr: Expr) -> list[Load]:
    """The buffer elements that an expression reads."""
    return [n for n in post_order(expr) if isinstance(n, Load)]


def show_stmt(body: Stmt, depth: int = 0) -> str:
    """The statement as TVMScript writes it, one line for each."""
    lines: list[str] = []
    stack: list[tuple[Stmt | str, int]] = [(body, depth)]
    while stack:
        node, d = stack.pop()
        pad = "    " * d
        match node:
            case str():
                lines.append(pad + node)
            case For():
                lines.append(f"{pad}for {node.var.name} in T.{node.kind}({show(node.extent)}):")
                stack.append((node.body, d + 1))
            case While():
                lines.append(f"{pad}while {show(node.condition)}:")
                stack.append((node.body, d + 1))
            case Seq():
                stack.extend((s, d) for s in reversed(node.body))
            case If():
                lines.append(f"{pad}if {show(node.condition)}:")
                if node.otherwise is not None:
                    stack += [(node.otherwise, d + 1), ("else:", d)]
                stack.append((node.then, d + 1))
            case LetStmt():
                lines.append(f"{pad}{node.var.name} = {show(node.value)}")
                stack.append((node.body, d))
            case Allocate() | AllocateConst():
                what = "alloc_buffer" if isinstance(node, Allocate) else "allocate_const"
                b = node.buffer
                shape = ", ".join(map(show, b.shape))
                lines.append(f'{pad}{b.name} = T.{what}(({shape}), "{b.dtype}", "{b.scope}")')
                stack.append((node.body, d))
            case Store():
                where = ", ".join(map(show, node.indices))
                lines.append(f"{pad}{node.buffer.name}[{where}] = {show(node.value)}")
            case Assert():
                lines.append(f"{pad}assert {show(node.condition)}, {node.message!r}")
            case Evaluate():
                lines.append(f"{pad}T.evaluate({show(node.value)})")
    return "\n".join(lines)
