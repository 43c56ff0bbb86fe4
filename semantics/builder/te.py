"""Tensor functions from formulas over indices, as TVM's tensor expressions (row R14; specs/semantics.md, "Builder").

    def scaled(a, b):
        doubled = compute(a.shape, lambda i, j: a[i, j] + a[i, j])
        return reduce("sum", (a.shape[0],), (a.shape[1],), lambda i, j: doubled[i, j] * b[j])

    kernel = tensor_function("scaled", scaled, [tensor type of a, tensor type of b])

What is computed on the way is workspace of the function; what is returned, alone or in a tuple, are its outputs.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from contextvars import ContextVar
from dataclasses import dataclass, field, replace
from typing import Any, Literal

from assay.semantics.errors import Invalid
from assay.semantics.names import unused
from assay.semantics.scalar import Dim, Expr, Load, Number, Var, apply, const, neutral
from assay.semantics.tensor import Allocate, Buffer, PrimFunc, Stmt, loads, loops, program_order, seq, store
from assay.semantics.types import TensorType
from assay.semantics.walk import needed_first

Reduction = Literal["sum", "prod", "max", "min"]
_STEP = {"sum": "add", "prod": "mul", "max": "max", "min": "min"}


@dataclass(frozen=True, eq=False)
class Computed:
    """A tensor given by a formula: the buffer that holds it, and the loops that fill the buffer."""

    buffer: Buffer
    body: Stmt

    @property
    def shape(self) -> tuple[Dim, ...]:
        """One dim for each index of the formula."""
        return self.buffer.shape

    def __getitem__(self, indices: Number | tuple[Number, ...]) -> Load:
        return self.buffer[indices]


@dataclass(eq=False)
class _Reading:
    """A description that is being read: what fills each buffer (formulas refer to buffers), and the names so far."""

    taken: set[str]
    computed: dict[Buffer, Computed] = field(default_factory=dict)

    def known(self, made: Computed) -> Computed:
        self.computed[made.buffer] = made
        return made

    def fresh(self, name: str) -> str:
        """The name, or with a number: buffers are told apart by their names in text and in C."""
        new = unused(name, self.taken)
        self.taken.add(new)
        return new


_READING: ContextVar[_Reading | None] = ContextVar("reading", default=None)


def _reading() -> _Reading:
    found = _READING.get()
    if found is None:
        raise Invalid("compute and reduce stand inside the description of a tensor function", label="te.C5")
    return found


def compute(shape: Sequence[Dim], formula: Callable[..., Number], name: str = "computed") -> Computed:
    """The tensor whose element at i, j, ... is `formula(i, j, ...)`."""
    names = _index_names(formula, len(shape))
    probe = _expr(formula(*map(Var, names)))
    reading = _reading()
    buffer = Buffer(reading.fresh(name), tuple(shape), probe.dtype)
    body = loops(" ".join(names), shape, lambda *at: store(buffer, at, formula(*at)))
    return reading.known(Computed(buffer, body))


def reduce(
    kind: Reduction, shape: Sequence[Dim], over: Sequence[Dim], formula: Callable[..., Number], name: str = "reduced"
) -> Computed:
    """The tensor whose element at i, j, ... is the sum (product, ...) of `formula(i, j, ..., k, l, ...)` for k, l, ...
    below the dims `over`, in the order of the loops. Of nothing, the sum is 0, the product 1, the maximum the least.
    """
    names = _index_names(formula, len(shape) + len(over))
    probe = _expr(formula(*map(Var, names)))
    reading = _reading()
    buffer = Buffer(reading.fresh(name), tuple(shape), probe.dtype)
    start = neutral(_STEP[kind], probe.dtype)
    inner = names[len(shape) :]

    def element(*at: Var) -> Stmt:
        def step(*k: Var) -> Stmt:
            return store(buffer, at, apply(_STEP[kind], buffer[at], formula(*at, *k)))

        return seq(store(buffer, at, start), loops(" ".join(inner), over, step))

    return reading.known(Computed(buffer, loops(" ".join(names[: len(shape)]), shape, element)))


def tensor_function(name: str, formula: Callable[..., Any], inputs: Sequence[TensorType]) -> PrimFunc:
    """The tensor function that `formula` describes: it takes a buffer for each input, and gives what it computes."""
    symbols: dict[Var, Var] = {}  # a tensor function has its own symbols: they are bound by its buffers

    def own(d: Dim) -> Dim:
        return symbols.setdefault(d, Var(d.name)) if isinstance(d, Var) else d

    names = parameter_names(formula, len(inputs))
    buffers = [Buffer(n, tuple(map(own, t.shape)), t.dtype) for n, t in zip(names, inputs, strict=True)]
    reading = _Reading(set(names))
    token = _READING.set(reading)
    try:
        made = formula(*buffers)
    finally:
        _READING.reset(token)
    outputs = list(made) if isinstance(made, (tuple, list)) else [made]
    for o in outputs:
        if not isinstance(o, Computed):
            raise Invalid(f"{name} gives a {type(o).__name__}, expected what compute or reduce make", label="te.C1")
    if len({o.buffer for o in outputs}) != len(outputs):
        raise Invalid(f"{name} gives one tensor twice: compute a copy", label="te.C2")
    order = _in_order(outputs, reading.computed)
    body: Stmt = seq(*(c.body for c in order))
    for c in reversed(order):
        if not any(c is o for o in outputs):
            body = Allocate(c.buffer, body)
    return PrimFunc(name, (*buffers, *(o.buffer for o in outputs)), len(outputs), body)


def parameter_names(of: Callable[..., Any], count: int) -> list[str]:
    """The names of a Python function's parameters, for `count` arguments. Those with a default may be left out."""
    names: list[str] = []
    for p in inspect.signature(of).parameters.values():
        if p.kind is p.VAR_POSITIONAL:
            names += [f"{p.name}{i}" for i in range(count - len(names))]
        elif p.kind is not p.KEYWORD_ONLY and (p.default is p.empty or len(names) < count):
            names.append(p.name)
    if len(names) != count:
        raise Invalid(f"the description takes {len(names)} tensors, {count} given", label="te.C3")
    return names


def _index_names(formula: Callable[..., Any], count: int) -> list[str]:
    try:
        return parameter_names(formula, count)
    except Invalid:
        raise Invalid(f"the formula must take {count} indices, one for each dim", label="te.C4") from None


def _expr(value: Number) -> Expr:
    return value if isinstance(value, Expr) else const(value, "float32" if isinstance(value, float) else "int64")


def _in_order(outputs: Sequence[Computed], computed: Mapping[Buffer, Computed]) -> list[Computed]:
    """All that is computed, what is read before what reads it."""

    def reads(c: Computed) -> list[Computed]:
        found = {ld.buffer: None for s in program_order(c.body) for e in s.expressions for ld in loads(e)}
        return [computed[b] for b in found if b in computed and b is not c.buffer]

    return needed_first(outputs, reads)


def renamed(kernel: PrimFunc, name: str) -> PrimFunc:
    """The same tensor function under another name."""
    return kernel if kernel.name == name else replace(kernel, name=name)
