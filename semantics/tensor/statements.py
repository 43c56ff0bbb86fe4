"""The nodes of the tensor IR (rule M6; specs/semantics.md, "Tensor IR"); `assay.semantics.tensor` has what makes them.

A `PrimFunc` takes buffers and writes into the last `num_outputs` of them (destination passing). Its meaning is one
iteration after another, as `assay.interp.tensor` spells out.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal, TypeAlias

import numpy as np

from assay.semantics.errors import Invalid, Span
from assay.semantics.readable import Readable
from assay.semantics.scalar import Expr, Load, Var, show
from assay.semantics.scalar.expression import Buffer
from assay.semantics.tensor.views import Region, View
from assay.semantics.walk import TreeNode, Worklist, occurrences, post_order


@dataclass(frozen=True, eq=False, repr=False)
class Stmt(TreeNode["Stmt"]):
    """Base of statements."""

    span: Span | None = field(default=None, kw_only=True)

    @property
    def expressions(self) -> Sequence[Expr]:
        """The scalar expressions that stand in this statement itself."""
        return ()

    def shown(self) -> Sequence[Shown]:
        """The lines of this statement and its parts in the order of the text."""
        raise NotImplementedError

    def __repr__(self) -> str:
        return show_stmt(self)


Shown: TypeAlias = tuple[Stmt | str, int]
"""A part of a statement or a line of its own, and how much further inside it stands."""


def show_stmt(body: Stmt, depth: int = 0) -> str:
    """The statement as messages show it, one line for each; `assay.semantics.text` has the text to be read."""
    lines: list[str] = []
    work = Worklist[Shown]([(body, depth)])
    for part, at in work:
        if isinstance(part, str):
            lines.append("    " * at + part)
        else:
            work.add((p, at + more) for p, more in part.shown())
    return "\n".join(lines)


class Around(Stmt):
    """Base of statements around one other, their `body`."""

    parts = "body"
    body: Stmt


LoopKind = Literal["serial", "parallel", "vectorized", "unrolled"]
INDEPENDENT = ("parallel", "vectorized")
"""The kinds of loops that assert independent iterations (M6): no two touch an element that one of them writes."""


@dataclass(frozen=True, eq=False, repr=False)
class For(Around):
    """`body` for `var` = `start`, `start` + 1, ..., `extent` times; no `start` is 0.

    An unrolled loop is a serial one; the other kinds assert that iterations are independent. `annotations` are advice.
    """

    var: Var
    extent: Expr
    body: Stmt
    kind: LoopKind = "serial"
    start: Expr | None = None
    annotations: Mapping[str, Any] = field(default_factory=dict)

    @property
    def expressions(self) -> Sequence[Expr]:
        """The start, if it is said, and the extent."""
        return (self.extent,) if self.start is None else (self.start, self.extent)

    def shown(self) -> Sequence[Shown]:
        start = "" if self.start is None else f", from {show(self.start)}"
        return (f"for {self.var.name} in T.{self.kind}({show(self.extent)}{start}):", 0), (self.body, 1)


@dataclass(frozen=True, eq=False, repr=False)
class While(Around):
    """`body` as long as `condition` holds."""

    condition: Expr
    body: Stmt

    @property
    def expressions(self) -> Sequence[Expr]:
        """The condition."""
        return (self.condition,)

    def shown(self) -> Sequence[Shown]:
        return (f"while {show(self.condition)}:", 0), (self.body, 1)


@dataclass(frozen=True, eq=False, repr=False)
class Seq(Stmt):
    """Statements one after another."""

    parts = "*body"
    body: tuple[Stmt, ...]

    def shown(self) -> Sequence[Shown]:
        return [(s, 0) for s in self.body]


@dataclass(frozen=True, eq=False, repr=False)
class If(Stmt):
    """`then` where `condition` holds, else `otherwise`."""

    condition: Expr
    then: Stmt
    otherwise: Stmt | None = None

    @property
    def children(self) -> Sequence[Stmt]:
        """The branches that are there."""
        return (self.then,) if self.otherwise is None else (self.then, self.otherwise)

    def rebuilt(self, children: Sequence[Stmt]) -> Stmt:
        """The same condition before other branches."""
        then, *rest = children
        return replace(self, then=then, otherwise=rest[0] if rest else None)

    @property
    def expressions(self) -> Sequence[Expr]:
        """The condition."""
        return (self.condition,)

    def shown(self) -> Sequence[Shown]:
        otherwise: Sequence[Shown] = () if self.otherwise is None else (("else:", 0), (self.otherwise, 1))
        return (f"if {show(self.condition)}:", 0), (self.then, 1), *otherwise


@dataclass(frozen=True, eq=False, repr=False)
class LetStmt(Around):
    """`var` names the value that `value` has now, within `body`."""

    var: Var
    value: Expr
    body: Stmt

    @property
    def expressions(self) -> Sequence[Expr]:
        """The value."""
        return (self.value,)

    def shown(self) -> Sequence[Shown]:
        return (f"{self.var.name} = {show(self.value)}", 0), (self.body, 0)


def _allocation(buffer: Buffer, what: str) -> str:
    return f'{buffer.name} = T.{what}(({", ".join(map(show, buffer.shape))}), "{buffer.dtype}", "{buffer.scope}")'


@dataclass(frozen=True, eq=False, repr=False)
class Allocate(Around):
    """`buffer` exists, unwritten, within `body`: workspace of the function.

    One that is `movable` was a block's own, which leaves open where it begins (rule M6.15).
    """

    buffer: Buffer
    body: Stmt
    movable: bool = False

    def shown(self) -> Sequence[Shown]:
        return (_allocation(self.buffer, "alloc_buffer"), 0), (self.body, 0)


@dataclass(frozen=True, eq=False, repr=False)
class AllocateConst(Around):
    """`buffer` exists within `body` with the contents `data`, read-only.

    `index` is the name of the same contents in the module's table of constants, "" if they are not there. Where `data`
    is None they are only there: `assay.semantics.module.Module.resolved` fetches them. `annotations` are advice.
    """

    buffer: Buffer
    data: np.ndarray[Any, Any] | None
    body: Stmt
    index: str = ""
    annotations: Mapping[str, Any] = field(default_factory=dict)

    @property
    def contents(self) -> np.ndarray[Any, Any]:
        """The data; Invalid (tensor.C22) where they have not been fetched from a table."""
        if self.data is None:
            raise Invalid(
                f"the contents of {self.buffer.name} are the constant {self.index} of a module's table, and were not"
                " fetched from one: Module.resolved() does",
                where=self.span,
                label="tensor.C22",
            )
        return self.data

    def shown(self) -> Sequence[Shown]:
        return (_allocation(self.buffer, "allocate_const"), 0), (self.body, 0)


@dataclass(frozen=True, eq=False, repr=False)
class Store(Stmt):
    """The element of `buffer` at `indices` becomes `value`."""

    buffer: Buffer
    indices: tuple[Expr, ...]
    value: Expr

    @property
    def expressions(self) -> Sequence[Expr]:
        """The indices, then the value."""
        return (*self.indices, self.value)

    def shown(self) -> Sequence[Shown]:
        return ((f"{self.buffer.name}[{', '.join(map(show, self.indices))}] = {show(self.value)}", 0),)


@dataclass(frozen=True, eq=False, repr=False)
class Assert(Stmt):
    """Traps with `message` unless `condition` holds; `kind` is the trap's. Each {} of the message is one of
    `values`."""

    condition: Expr
    message: str
    kind: str = "assertion"
    values: tuple[Expr, ...] = ()

    @property
    def expressions(self) -> Sequence[Expr]:
        """The condition, then the values of the message."""
        return (self.condition, *self.values)

    def shown(self) -> Sequence[Shown]:
        return ((f"assert {show(self.condition)}, {self.message!r}", 0),)


@dataclass(frozen=True, eq=False, repr=False)
class Evaluate(Stmt):
    """`value` is computed and dropped (it may trap)."""

    value: Expr

    @property
    def expressions(self) -> Sequence[Expr]:
        """The value."""
        return (self.value,)

    def shown(self) -> Sequence[Shown]:
        return ((f"T.evaluate({show(self.value)})", 0),)


@dataclass(frozen=True, eq=False, repr=False)
class Call(Stmt):
    """A function is run on `args`, in the order of its parameters: buffers, numbers, and for an extern strings too.

    `function` names a tensor function of the module, or with `extern` one that the caller of the program gives.
    """

    function: str
    args: tuple[Buffer | Expr | str, ...]
    extern: bool = False
    result: Load | None = None
    """Where the number goes that an extern returns, if it is wanted."""

    @property
    def buffers(self) -> tuple[Buffer, ...]:
        """The buffers among the arguments."""
        return tuple(a for a in self.args if isinstance(a, Buffer))

    @property
    def expressions(self) -> Sequence[Expr]:
        """The numbers that are handed over."""
        return tuple(a for a in self.args if isinstance(a, Expr))

    def shown(self) -> Sequence[Shown]:
        args = (a.name if isinstance(a, Buffer) else repr(a) if isinstance(a, str) else show(a) for a in self.args)
        to = "" if self.result is None else f"{show(self.result)} = "
        return ((f"{to}{'T.call_packed' if self.extern else 'cls'} {self.function}({', '.join(args)})", 0),)


@dataclass(frozen=True, eq=False, repr=False)
class Alias(Around):
    """The buffer of `view` exists within `body`."""

    view: View
    body: Stmt

    @property
    def expressions(self) -> Sequence[Expr]:
        """The offset and strides of the view."""
        return self.view.expressions

    def shown(self) -> Sequence[Shown]:
        return (self.view.line(), 0), (self.body, 0)


@dataclass(frozen=True, eq=False, repr=False)
class Pragma(Around):
    """`body`, with advice to a compiler that has no meaning (rule M6.8)."""

    key: str
    value: Any
    body: Stmt

    def shown(self) -> Sequence[Shown]:
        return (f"with T.attr({{{self.key!r}: {self.value}}}):", 0), (self.body, 1)


IterKind = Literal["spatial", "reduce", "scan", "opaque"]


@dataclass(frozen=True, eq=False)
class IterVar:
    """A variable of a block: which `value` it has in this run of the block, and the numbers that it may have."""

    var: Var
    kind: IterKind
    extent: Expr
    value: Expr
    start: Expr | None = None

    @property
    def expressions(self) -> Sequence[Expr]:
        """The start of the domain, if it is said, its extent, and the value."""
        return (self.extent, self.value) if self.start is None else (self.start, self.extent, self.value)

    def line(self) -> str:
        """The line by which messages show it."""
        start = "" if self.start is None else f"{show(self.start)}, "
        return f"{self.var.name} = T.axis.{self.kind}({start}{show(self.extent)}, {show(self.value)})"


@dataclass(frozen=True, eq=False, repr=False)
class Block(Stmt):
    """One computation of a nest (TVM's SBlock with its realisation): `body`, where `predicate` holds.

    Outside the block, the predicate is evaluated and, where it holds, the iterators' domains and values, in their
    order; a value outside its iterator's domain traps. Then `allocated` buffers and `views` exist, and `init` runs
    first if every reduce iterator is at the start of its domain. Regions say what the block touches (None: not said);
    `annotations` are advice.
    """

    name: str
    iterators: tuple[IterVar, ...]
    body: Stmt
    init: Stmt | None = None
    predicate: Expr | None = None
    reads: tuple[Region, ...] | None = None
    writes: tuple[Region, ...] | None = None
    allocated: tuple[Buffer, ...] = ()
    views: tuple[View, ...] = ()
    annotations: Mapping[str, Any] = field(default_factory=dict)

    @property
    def children(self) -> Sequence[Stmt]:
        """The statement that comes first in a reduction, if there is one, and the body."""
        return (self.body,) if self.init is None else (self.init, self.body)

    def rebuilt(self, children: Sequence[Stmt]) -> Stmt:
        """The same block around other statements."""
        *init, body = children
        return replace(self, body=body, init=init[0] if init else None)

    @property
    def expressions(self) -> Sequence[Expr]:
        """Those that are evaluated outside the block; its `inner_expressions` may name its iterators."""
        own = tuple(e for i in self.iterators for e in i.expressions)
        return own if self.predicate is None else (self.predicate, *own)

    @property
    def inner_expressions(self) -> Sequence[Expr]:
        """The expressions that are evaluated inside the block: those of its views and declared regions."""
        places = tuple(e for v in self.views for e in v.expressions)
        return (*places, *(e for r in (*(self.reads or ()), *(self.writes or ())) for e in r.expressions))

    def shown(self) -> Sequence[Shown]:
        head = [i.line() for i in self.iterators]
        head += [] if self.predicate is None else [f"T.where({show(self.predicate)})"]
        head += [_allocation(b, "sblock_alloc_buffer") for b in self.allocated]
        head += [v.line() for v in self.views]
        init: Sequence[Shown] = () if self.init is None else (("with T.init():", 1), (self.init, 2))
        return (f'with T.sblock("{self.name}"):', 0), *((line, 1) for line in head), *init, (self.body, 1)


@dataclass(frozen=True, eq=False, repr=False)
class PrimFunc(Readable):
    """A function of the tensor IR. `params` are buffers, the last `num_outputs` written, the others read.

    `scalars` are parameters too, handed over by value after the buffers.
    """

    name: str
    params: tuple[Buffer, ...]
    num_outputs: int
    body: Stmt
    attrs: Mapping[str, Any] = field(default_factory=dict)
    scalars: tuple[Var, ...] = ()

    @property
    def inputs(self) -> tuple[Buffer, ...]:
        """The parameters that are read."""
        return self.params[: len(self.params) - self.num_outputs]

    @property
    def outputs(self) -> tuple[Buffer, ...]:
        """The parameters that are written."""
        return self.params[len(self.params) - self.num_outputs :]

    @property
    def allocations(self) -> tuple[Buffer, ...]:
        """The buffers that the body allocates, in program order: the workspace it needs."""
        return tuple(b for s in program_order(self.body) for b in allocated(s))

    def __repr__(self) -> str:
        params = ", ".join([*map(repr, self.params), *(f"{v.name}: T.{v.dtype}" for v in self.scalars)])
        return f"def {self.name}({params}):\n{show_stmt(self.body, 1)}"


# --- reading -----------------------------------------------------------------------------------------------------


def program_order(body: Stmt) -> Iterator[Stmt]:
    """Every statement in the order of the text, wholes before parts."""
    return occurrences(body)


def loads(expr: Expr) -> list[Load]:
    """The buffer elements that an expression reads."""
    return [n for n in post_order(expr) if isinstance(n, Load)]


def allocated(stmt: Stmt) -> tuple[Buffer, ...]:
    """The buffers that this statement itself allocates, those within its parts not counted."""
    match stmt:
        case Allocate():
            return (stmt.buffer,)
        case Block():
            return stmt.allocated
        case _:
            return ()
