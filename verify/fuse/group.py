"""What a fused tensor function and its group are at given sizes, each as one tensor function (specs/verify.md, "fuse").

A group's calls are written out one after another, each with memory of its own for what it gives: nothing is merged,
moved or simplified. So both can be compared by `assay.verify.equivalence`.
"""

from __future__ import annotations

from collections.abc import Sequence

from assay.semantics.alias import bindings
from assay.semantics.graph import CallTIR, Expr, Function
from assay.semantics.instance import replaced, sizes_of_operands
from assay.semantics.module import Module
from assay.semantics.scalar import Dim, Var as Symbol, as_expr, evaluate_dim
from assay.semantics.tensor import Allocate, Buffer, PrimFunc, Stmt, seq
from assay.semantics.tensor.blocks import without_blocks
from assay.semantics.tensor.mapping import Mapper, bound_buffers, bound_vars
from assay.semantics.types import TensorType, Type, flatten
from assay.verify.trials.sizes import Sizes, body_at


def written_out(group: Function, module: Module, sizes: Sizes) -> PrimFunc:
    """The calls of a group as one tensor function; `sizes` are numbers for its symbols."""
    buffers: dict[Expr, list[Buffer]] = {p: _buffers(p.name, p.type, sizes) for p in group.params}
    calls = list(bindings(group))
    body: list[Stmt] = []
    for var, value in calls:
        assert isinstance(value, CallTIR)
        buffers[var] = _buffers(var.name, value.type, sizes)
        given = [b for a in value.args for b in buffers[a]] + buffers[var]
        body.append(_placed(module.kernel(value.func), given, [evaluate_dim(d, sizes) for d in value.scalars]))
    inputs = [b for p in group.params for b in buffers[p]]
    outputs = buffers[calls[-1][0]]
    whole = seq(*body)
    for b in (b for var, _ in calls[:-1] for b in buffers[var]):
        whole = Allocate(b, whole)
    return PrimFunc("the calls", (*inputs, *outputs), len(outputs), whole)


def at_sizes(kernel: PrimFunc, group: Function, sizes: Sizes) -> PrimFunc:
    """A tensor function with the parameters of `group`, at the same sizes."""
    inputs = [b for p in group.params for b in _buffers(p.name, p.type, sizes)]
    outputs = _buffers("out", group.result_type, sizes)
    body = _placed(kernel, [*inputs, *outputs], [sizes[s] for s in kernel.scalars])
    return PrimFunc(kernel.name, (*inputs, *outputs), len(outputs), body)


def for_any_size(kernel: PrimFunc, group: Function, module: Module) -> tuple[PrimFunc, PrimFunc]:
    """The calls of a group as one tensor function, and the fused one, over the very same buffers, with symbols."""
    buffers: dict[Expr, list[Buffer]] = {p: _symbolic(p.name, p.type) for p in group.params}
    calls = list(bindings(group))
    body: list[Stmt] = []
    for var, value in calls:
        assert isinstance(value, CallTIR)
        buffers[var] = _symbolic(var.name, value.type)
        given = [b for a in value.args for b in buffers[a]] + buffers[var]
        body.append(_inlined(module.kernel(value.func), given, value.scalars))
    inputs = [b for p in group.params for b in buffers[p]]
    outputs = buffers[calls[-1][0]]
    whole = seq(*body)
    for b in (b for var, _ in calls[:-1] for b in buffers[var]):
        whole = Allocate(b, whole)
    params = (*inputs, *outputs)
    fused = _inlined(kernel, params, kernel.scalars)
    one, two = (PrimFunc("group", params, len(outputs), s, scalars=kernel.scalars) for s in (whole, fused))
    return one, two


def _inlined(kernel: PrimFunc, given: Sequence[Buffer], scalars: Sequence[Dim]) -> Stmt:
    """The body of a tensor function with `given` as its parameters, and their sizes; all other names in it are new."""
    plain = without_blocks(kernel)
    found = sizes_of_operands(plain, scalars, [TensorType(b.shape, b.dtype) for b in given])
    new = Mapper({v: as_expr(d) for v, d in found.items()}, dict(zip(plain.params, given, strict=True)))
    for var in bound_vars(plain):
        new.vars.setdefault(var, Symbol(var.name, var.dtype))
    for b in bound_buffers(plain.body):
        new.buffers[b] = Buffer(b.name, tuple(replaced(d, found) for d in b.shape), b.dtype, b.scope, b.notes)
    return new.run(plain.body)


def _symbolic(name: str, of: Type) -> list[Buffer]:
    return [Buffer(name, t.shape, t.dtype) for t in flatten(of)]


def _buffers(name: str, of: Type, sizes: Sizes) -> list[Buffer]:
    return [Buffer(name, tuple(evaluate_dim(d, sizes) for d in t.shape), t.dtype) for t in flatten(of)]


def _placed(kernel: PrimFunc, given: Sequence[Buffer], scalars: Sequence[int]) -> Stmt:
    """The body of a tensor function with `given` as its parameters; all other names in it are new."""
    found = sizes_of_operands(kernel, scalars, [TensorType(b.shape, b.dtype) for b in given])
    return body_at(kernel, given, {s: evaluate_dim(n, {}) for s, n in found.items()})
