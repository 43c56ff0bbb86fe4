"""Operator calls become calls of tensor functions (specs/lower.md, "legalize").

Calls of one operator with equal attributes, operand types and storage scopes share one kernel. Views (reshape and its
like) stay: they are names for bytes, not work. A kernel takes symbolic sizes from its buffers, and those
that no operand tells as scalars.

A tensor function that graph functions call has no calls afterwards: what it calls is written out where it is called, so
that every stage from here on sees all memory that a step needs. Calls of externs stay; one that calls itself is
Unsupported.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, TypeAlias

from assay.lower.devices.scopes import with_scopes
from assay.lower.legalize.kernels import build
from assay.lower.legalize.size_rules import with_size_rules
from assay.lower.simplify.dead_code import remove_unreachable
from assay.semantics.devices import GLOBAL
from assay.semantics.graph import Call, CallTIR, Expr, Function, call_tir
from assay.semantics.graph.effects import is_opaque
from assay.semantics.graph.functions import rewrite_function
from assay.semantics.graph.matching import Bound, instantiate, instantiate_dim
from assay.semantics.graph.sizes import dims_in, sizes_in
from assay.semantics.module import Definition, Module
from assay.semantics.names import unused
from assay.semantics.operator import Operator
from assay.semantics.scalar import Expr as Scalar, Interner, Var as Symbol
from assay.semantics.tensor import PrimFunc
from assay.semantics.tensor.calls import without_calls
from assay.semantics.types import TensorType, flatten, symbols
from assay.semantics.walk import post_order

Strategy: TypeAlias = Callable[[Call, str], PrimFunc | None]
"""A kernel of the given name for an operator's call, or None for the usual one. The check holds it to the operator."""


def legalize_reachable(module: Module) -> Module:
    """What main reaches without operators; what it does not reach is gone."""
    return legalize(remove_unreachable(module))


def legalize(module: Module, strategy: Strategy = lambda call, name: None) -> Module:
    """The module without operators: each is a tensor function of its own, called by name. Functions that are marked as
    primitive or for another compiler stay.

    `strategy` may choose another lowering than `assay.lower.legalize.kernels` has (row R39). Sizes that are not numbers
    stay symbols.
    """
    definitions: dict[str, Definition] = dict(module.definitions)
    known: dict[tuple[Any, ...], PrimFunc] = {}
    number = Interner()

    def change(node: Expr) -> Expr:
        if not (isinstance(node, Call) and isinstance(node.op, Operator)) or node.op.view:
            return node
        operands = tuple(a.type for a in node.args if isinstance(a.type, TensorType))
        types = (*operands, *flatten(node.type))
        scalars = _untold(node, operands)
        # two symbols may have one name
        dims = tuple(map(number, dims_in([*(t.shape for t in types), *node.attrs.values()])))
        scopes = _scopes(node)
        key = (node.op.name, str(sorted(node.attrs.items())), str(operands), str(node.type), dims, scopes)
        if key not in known:
            name = unused(re.sub(r"\W", "_", node.op.name), definitions, sign="")
            kernel = strategy(node, name) or _built(node, operands, scalars, name)
            kernel = with_scopes(kernel, name, dict(enumerate(scopes)))
            known[key] = kernel = replace(kernel, attrs={**kernel.attrs, **origin(node)})
            definitions[name] = kernel
        made = call_tir(known[key].name, node.args, node.type, node.span, scalars)
        return replace(made, device=node.device)

    for name, d in module.graphs.items():
        if not is_opaque(d):
            definitions[name] = rewrite_function(d, change)
    kernels = {n: d for n, d in definitions.items() if isinstance(d, PrimFunc)}
    for name in _used(definitions):
        definitions[name] = without_calls(kernels[name], kernels)
    return replace(module, definitions=definitions)


def _scopes(node: Call) -> tuple[str, ...]:
    """The storage scope of each parameter of a call's kernel: that of the operand, and that of the result. Main memory
    where nothing is said."""
    operands = [a.device.scope or GLOBAL for a in node.args if isinstance(a.type, TensorType)]
    return (*operands, *(node.device.scope or GLOBAL for _ in flatten(node.type)))


def _used(definitions: Mapping[str, Definition]) -> list[str]:
    """The tensor functions that graph functions call."""
    nodes = (n for d in definitions.values() if isinstance(d, Function) for n in post_order(d))
    called = dict.fromkeys(n.func for n in nodes if isinstance(n, CallTIR))
    return [n for n in called if isinstance(definitions.get(n), PrimFunc)]


def _untold(node: Call, operands: Sequence[TensorType]) -> tuple[Symbol, ...]:
    """The sizes that are a whole dim of no operand: a kernel cannot find them in its buffers."""
    told = {d for t in operands for d in t.shape if isinstance(d, Symbol)}
    sizes = [*(s for t in (*operands, node.type) for s in symbols(t)), *sizes_in(node.attrs.values())]
    return tuple(s for s in dict.fromkeys(sizes) if s not in told)


def _built(node: Call, operands: tuple[TensorType, ...], scalars: tuple[Symbol, ...], name: str) -> PrimFunc:
    """The operator's kernel, with `scalars` as parameters; their names differ from those of its buffers."""
    assert isinstance(node.op, Operator)
    kernel = build(node.op.name, node.attrs, operands, node.type, name)
    if not scalars:
        return with_size_rules(kernel, node.op, node.attrs, operands, node.type)
    taken = {b.name for b in kernel.params}
    own: Bound = {}
    for s in scalars:
        free = unused(s.name, taken)
        taken.add(free)
        own[s] = Symbol(free)
    types = tuple(_renamed(t, own) for t in operands)
    attrs = {k: _at(v, own) for k, v in node.attrs.items()}
    result = instantiate(node.type, own)
    kernel = build(node.op.name, attrs, types, result, name)
    kernel = with_size_rules(kernel, node.op, attrs, types, result)
    return replace(kernel, scalars=tuple(s for s in own.values() if isinstance(s, Symbol)))


def _renamed(of: TensorType, own: Bound) -> TensorType:
    new = instantiate(of, own)
    assert isinstance(new, TensorType)
    return new


def _at(value: Any, own: Bound) -> Any:
    """An attribute in other symbols."""
    if isinstance(value, tuple):
        return tuple(_at(v, own) for v in value)
    return instantiate_dim(value, own) if isinstance(value, Scalar) else value


def origin(node: Call) -> Mapping[str, Any]:
    """What a kernel says it computes: the operator's name and attributes. The checker holds the kernel to it."""
    assert isinstance(node.op, Operator)
    return {"operator": node.op.name, "attrs": dict(node.attrs)}
