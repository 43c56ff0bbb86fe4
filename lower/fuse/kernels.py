"""The calls of a primitive function become one tensor function (row R23; specs/lower.md, "fuse").

What passes from call to call lives inside. The tensor function says by its attribute `group` which function it
computes; that function stays in the module, for the checks.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from assay.lower.anf.names import FreshNames
from assay.lower.fuse.instance import Held, InstanceBody, instantiate_body
from assay.lower.fuse.nests import merge_nests, touched
from assay.semantics.alias import bindings, result
from assay.semantics.devices import GLOBAL
from assay.semantics.errors import Invalid
from assay.semantics.graph import Call, CallTIR, Expr, Function, GlobalVar, call_tir
from assay.semantics.graph.effects import is_opaque
from assay.semantics.graph.functions import rewrite_function
from assay.semantics.module import GROUP, Definition, Module
from assay.semantics.names import unused
from assay.semantics.scalar import Dim, Expr as Scalar, Var as Symbol, same, simplify, variables
from assay.semantics.tensor import Allocate, Buffer, PrimFunc, Stmt, seq
from assay.semantics.types import TensorType, flatten


def fuse_kernels(module: Module) -> Module:
    """The module with one tensor function for each primitive function of calls of tensor functions that is called."""
    definitions: dict[str, Definition] = dict(module.definitions)
    made: dict[str, str] = {}

    def change(node: Expr) -> Expr:
        if not (isinstance(node, Call) and isinstance(node.op, GlobalVar)):
            return node
        name = node.op.name
        group = module.definitions.get(name)
        if not isinstance(group, Function) or "primitive" not in group.attrs or not is_group(group):
            return node
        if name not in made:
            made[name] = unused("fused_" + name.removeprefix("group_"), definitions)
            definitions[made[name]] = merged(made[name], name, group, module)
        return replace(call_tir(made[name], node.args, node.type, node.span), device=node.device)

    for name, d in module.graphs.items():
        if not is_opaque(d):
            definitions[name] = rewrite_function(d, change)
    return replace(module, definitions=definitions) if made else module


def is_group(function: Function) -> bool:
    """Whether a function is nothing but calls of tensor functions on its parameters, the last one its result."""
    known: set[Expr] = set(function.params)
    last: Expr | None = None
    for var, value in bindings(function):
        if not isinstance(value, CallTIR) or not all(a in known for a in value.args):
            return False
        if not all(isinstance(a.type, TensorType) for a in value.args):
            return False
        known.add(var)
        last = var
    return last is not None and result(function) is last


def merged(name: str, group_name: str, group: Function, module: Module) -> PrimFunc:
    """The calls of `group` as one tensor function."""
    names = FreshNames()
    buffers: dict[Expr, tuple[Buffer, ...]] = {}
    chain = list(bindings(group))
    scopes = _scopes(chain, module)
    for p in group.params:
        assert isinstance(p.type, TensorType)
        buffers[p] = (Buffer(names.claim(p.name), p.type.shape, p.type.dtype, scopes.get(p, GLOBAL)),)
    body = InstanceBody()
    for var, value in chain:
        assert isinstance(value, CallTIR)
        kernel = module.kernel(value.func)
        hint = "out" if var is chain[-1][0] else var.name
        types = zip(flatten(value.type), kernel.outputs, strict=True)
        buffers[var] = tuple(Buffer(names.claim(hint), t.shape, t.dtype, b.scope) for t, b in types)
        given = [b for a in value.args for b in buffers[a]] + list(buffers[var])
        part = instantiate_body(kernel, given, sizes(kernel, given, value.scalars))
        body.statements += part.statements
        body.held += part.held
    outputs = buffers[chain[-1][0]]
    internal = [b for var, _ in chain[:-1] for b in buffers[var]]
    statements = merge_nests(body.statements, internal, set(outputs))
    inputs = [b for p in group.params for b in buffers[p]]
    whole = _held(statements, [*body.held, *((b, None) for b in internal)])
    return PrimFunc(name, (*inputs, *outputs), len(outputs), whole, {GROUP: group_name})


def _scopes(chain: Sequence[tuple[Expr, Expr]], module: Module) -> dict[Expr, str]:
    """The storage scope in which the calls of a chain take each value."""
    found: dict[Expr, str] = {}
    for _, value in chain:
        assert isinstance(value, CallTIR)
        for a, b in zip(value.args, module.kernel(value.func).inputs, strict=True):
            found.setdefault(a, b.scope)
    return found


def _held(statements: Sequence[Stmt], held: Sequence[Held]) -> Stmt:
    """The statements within the buffers that they use."""
    used = {b for s in statements for some in touched(s) for b in some}
    body = seq(*statements)
    for buffer, constant in reversed(held):
        if buffer in used:
            body = Allocate(buffer, body) if constant is None else replace(constant, body=body)
    return body


def sizes(kernel: PrimFunc, given: Sequence[Buffer], scalars: Sequence[Dim]) -> Mapping[Symbol, Dim]:
    """What the symbols of a tensor function stand for where it is called with `given` buffers; Invalid where two places
    do not agree."""
    found: dict[Symbol, Dim] = dict(zip(kernel.scalars, scalars, strict=True))
    for wanted, buffer in zip(kernel.params, given, strict=True):
        for d, n in zip(wanted.shape, buffer.shape, strict=True):
            if isinstance(d, Symbol) and not same(simplify(found.setdefault(d, n)), simplify(n)):
                raise Invalid(f"{kernel.name}: {d.name} is {found[d]} and {n}", label="fuse.C1")
    needed = {v for b in kernel.params for d in b.shape if isinstance(d, Scalar) for v in variables(d)}
    lost = [v.name for v in needed if v not in found]
    if lost:
        raise Invalid(f"{kernel.name}: no operand tells the size {lost[0]}", label="fuse.C2")
    return found
