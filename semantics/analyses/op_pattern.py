"""The pattern class of a tensor function, from what its body reads and writes (row R23; specs/semantics.md,
"Analyses").

The classes and their order are those of TVM: the higher, the less may be fused with it.

    elementwise  out[i, j] = f(x[i, j], y[j], ...): some operand at the very element, others broadcast
    broadcast    operands at some of the result's indices, in their order, as y[j]
    injective    operands at any function of the result's indices: transpose, concat, slice
    reduction    sums and the like over whole axes
    anchor       what elementwise calls can follow at each element: products, convolutions, windows, softmax
    opaque       everything else, and whatever may trap
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import IntEnum
from typing import Any, TypeAlias
from weakref import WeakKeyDictionary

from assay.semantics.errors import Invalid
from assay.semantics.graph import Call
from assay.semantics.operator import Operator
from assay.semantics.scalar import Apply, Cast, Const, Expr, Load, Var, same, substitute, variables
from assay.semantics.tasks import Task, run_task
from assay.semantics.tensor import Allocate, Buffer, For, If, LetStmt, PrimFunc, Seq, Stmt, Store
from assay.semantics.tensor.blocks import without_blocks
from assay.semantics.types import TensorType, Type
from assay.semantics.walk import post_order


class OpPattern(IntEnum):
    """A class, by TVM's number: what its attribute `op_pattern` says."""

    ELEMENTWISE = 0
    BROADCAST = 1
    INJECTIVE = 2
    REDUCTION = 3
    ANCHOR = 4
    TUPLE = 7
    OPAQUE = 8


@dataclass(frozen=True)
class Patterns:
    """The class of a tensor function, and how it reads each of its inputs."""

    whole: OpPattern
    operands: tuple[OpPattern, ...]


_known: WeakKeyDictionary[PrimFunc, Patterns] = WeakKeyDictionary()


def patterns(func: PrimFunc) -> Patterns:
    """The classes of `func`. The attribute `op_pattern`, one of TVM's numbers, wins; Invalid where it is none."""
    found = _known.get(func)
    if found is None:
        found = _known[func] = _given(func) if "op_pattern" in func.attrs else _Reader(without_blocks(func)).patterns()
    return found


def operator_pattern(use: Call) -> OpPattern:
    """The class of an operator's call, from its family: at least what the body of its usual kernel gives."""
    op = use.op
    if not isinstance(op, Operator) or (op.can_trap and op.family == "movement"):
        return OpPattern.OPAQUE
    match op.family:
        case "selection" | "stepwise":
            return OpPattern.OPAQUE
        case "elementwise" if use.args and all(_smaller(a.type, use.type) for a in use.args):
            return OpPattern.BROADCAST
        case "elementwise" | "creation":
            return OpPattern.ELEMENTWISE
        case "movement":
            return OpPattern.INJECTIVE
        case "reduction" | "contraction" | "pooling" | "normalization":
            return OpPattern.ANCHOR


def _smaller(operand: Type, result: Type) -> bool:
    """Whether a tensor is broadcast to a result, of whatever dtypes."""
    if not (isinstance(operand, TensorType) and isinstance(result, TensorType)):
        return False
    return len(operand.shape) != len(result.shape) or not all(map(same, operand.shape, result.shape))


def _given(func: PrimFunc) -> Patterns:
    number = func.attrs["op_pattern"]
    if type(number) is bool or number not in list(OpPattern):
        known = ", ".join(f"{int(p)} ({p.name.lower()})" for p in OpPattern)
        raise Invalid(f"{func.name}: op_pattern is {number!r}; it can be {known}", label="op_pattern.C1")
    whole = OpPattern(number)
    if whole is not OpPattern.ELEMENTWISE:
        return Patterns(whole, (whole,) * len(func.inputs))
    shape = func.outputs[0].shape
    full = [len(b.shape) == len(shape) and all(map(same, b.shape, shape)) for b in func.inputs]
    return Patterns(whole, tuple(whole if f else OpPattern.BROADCAST for f in full))


# --- from the body -----------------------------------------------------------------------------------------------

Env: TypeAlias = dict[Var, Expr]


@dataclass(eq=False)
class _Write:
    """A store as the analysis sees it: where, and every element that it reads."""

    buffer: Buffer
    indices: tuple[Expr, ...]
    value: Expr
    loops: tuple[Var, ...]
    guarded: bool

    @property
    def reduces(self) -> list[Var]:
        """The loops around it that do not say which element is written."""
        used = {v for i in self.indices for v in variables(i)}
        return [v for v in self.loops if v not in used]


@dataclass(eq=False)
class _Reader:
    func: PrimFunc
    writes: list[_Write] = field(default_factory=list)
    env: Env = field(default_factory=dict)
    regular: bool = True

    def patterns(self) -> Patterns:
        run_task(self.read(self.func.body, (), False))
        whole = self.whole() if self.regular else OpPattern.OPAQUE
        if whole > OpPattern.BROADCAST:
            return Patterns(whole, (whole,) * len(self.func.inputs))
        use = self.uses()
        return Patterns(whole, tuple(use.get(b, OpPattern.ELEMENTWISE) for b in self.func.inputs))

    def read(self, stmt: Stmt, loops: tuple[Var, ...], guarded: bool) -> Task[None]:
        """Collect the stores of a statement; whatever is not loops around stores makes the function opaque."""
        match stmt:
            case Seq():
                for part in stmt.body:
                    yield self.read(part, loops, guarded)
            case Allocate():
                yield self.read(stmt.body, loops, guarded)
            case For():
                yield self.read(stmt.body, (*loops, stmt.var), guarded)
            case LetStmt():
                self.env[stmt.var] = self.plain(stmt.value)
                yield self.read(stmt.body, loops, guarded)
            case If() if not _loads(stmt.condition):
                for part in stmt.children:
                    yield self.read(part, loops, True)
            case Store():
                indices = tuple(self.plain(i) for i in stmt.indices)
                self.writes.append(_Write(stmt.buffer, indices, self.plain(stmt.value), loops, guarded))
            case _:
                self.regular = False

    def plain(self, expr: Expr) -> Expr:
        return substitute(expr, self.env) if self.env else expr

    def whole(self) -> OpPattern:
        found = OpPattern.ELEMENTWISE
        for write in self.writes:
            kind = _kind(write)
            if found is OpPattern.REDUCTION and kind <= OpPattern.INJECTIVE and _loads(write.value):
                kind = OpPattern.ANCHOR  # softmax, a mean: what follows a reduction at each of its elements
            found = max(found, kind)
        return found

    def uses(self) -> dict[Buffer, OpPattern]:
        """How each buffer is read, its way through others to a result included."""
        use: dict[Buffer, OpPattern] = {}
        for _ in self.writes:
            before = dict(use)
            for w in self.writes:
                beyond = use.get(w.buffer, OpPattern.ELEMENTWISE)
                for load in _loads(w.value):
                    if load.buffer is not w.buffer:
                        use[load.buffer] = max(use.get(load.buffer, OpPattern.ELEMENTWISE), _access(w, load), beyond)
            if use == before:
                break
        return use


def _loads(root: Expr) -> list[Load]:
    return [n for n in post_order(root) if isinstance(n, Load)]


def _kind(write: _Write) -> OpPattern:
    """The class of one store."""
    found = _loads(write.value)
    if any(_loads(i) for i in (*write.indices, *(i for x in found for i in x.indices))):
        return OpPattern.OPAQUE
    own = [x for x in found if x.buffer is write.buffer]
    if not all(same_place(write.buffer, x.indices, write.indices) for x in own):
        return OpPattern.OPAQUE
    others = [x for x in found if x.buffer is not write.buffer]
    if write.reduces and own:
        return _reduced(write, others)
    kinds = [_access(write, x) for x in others]
    kind = max(kinds, default=OpPattern.ELEMENTWISE)
    if kind is OpPattern.BROADCAST and (own or OpPattern.ELEMENTWISE in kinds):
        kind = OpPattern.ELEMENTWISE
    if not _distinct(write) and found:
        kind = max(kind, OpPattern.INJECTIVE)
    return kind


def _reduced(write: _Write, others: Sequence[Load]) -> OpPattern:
    """The class of an accumulation."""
    value = write.value
    if not (isinstance(value, Apply) and any(isinstance(a, Load) and a.buffer is write.buffer for a in value.args)):
        return OpPattern.OPAQUE
    product = next((_product(a) for a in value.args if _product(a) is not None), None)
    if value.op == "add" and product is not None and len({x.buffer for x in _loads(product)}) > 1:
        return OpPattern.ANCHOR
    over = set(write.reduces)
    mixed = any(over & {*variables(i)} and {*variables(i)} - over for x in others for i in x.indices)
    return OpPattern.ANCHOR if mixed else OpPattern.REDUCTION


def _product(e: Expr) -> Expr | None:
    while isinstance(e, Cast):
        e = e.arg
    return e if isinstance(e, Apply) and e.op == "mul" else None


def _access(write: _Write, load: Load) -> OpPattern:
    """How a store reads one element."""
    if write.reduces and set(write.reduces) & {v for i in load.indices for v in variables(i)}:
        return OpPattern.OPAQUE
    if _is_full(load, write):
        return OpPattern.ELEMENTWISE
    at = 0
    for i in load.indices:
        if isinstance(i, Const):
            if int(i.value) != 0:
                return OpPattern.INJECTIVE
            continue
        place = next((k for k in range(at, len(write.indices)) if write.indices[k] is i), None)
        if place is None:
            return OpPattern.INJECTIVE
        at = place + 1
    return OpPattern.BROADCAST


def _is_full(load: Load, write: _Write) -> bool:
    sizes: tuple[Any, Any] = load.buffer.shape, write.buffer.shape
    if len(load.indices) != len(write.indices) or not all(map(same, *sizes)):
        return False
    return same_place(write.buffer, load.indices, write.indices)


def same_place(buffer: Buffer, a: Sequence[Expr], b: Sequence[Expr]) -> bool:
    """Whether two lists of indices within `buffer` are surely one element; where an axis has only one, any are."""
    return all(same(i, j) or d == 1 for i, j, d in zip(a, b, buffer.shape, strict=True))


def _distinct(write: _Write) -> bool:
    """Whether an element is written at plain loop variables, or at 0 where there is only one."""
    plain = [i for i in write.indices if isinstance(i, Var)]
    rest = [d for i, d in zip(write.indices, write.buffer.shape, strict=True) if not isinstance(i, Var)]
    return len(set(plain)) == len(plain) and all(isinstance(d, int) and d == 1 for d in rest) and not write.guarded
