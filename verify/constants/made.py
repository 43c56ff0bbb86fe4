"""Whether constants made by compilation are what they are said to be (specs/verify.md, "constants made").

Each made constant is computed again, by its definition from what it is made of, and compared bit for bit; what it is
made of must be the constant of the source that it is said to be. A tensor function that reads a constant in another
layout is shown equal to the original: the definition, run on the places of the elements instead of the elements, says
where each of them has gone; a function that lays the operand so and then does what the new one does is compared with
the original for every input. With the originals back in their places the module is the source, simplified.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from assay.interp.graph import evaluate
from assay.lower.constants.made import Made, Packed, packing
from assay.lower.loops.rewriting import changed
from assay.semantics.bits import same_bits
from assay.semantics.dtypes import INT64
from assay.semantics.graph import Call, CallTIR, Expr, Function, GlobalVar, constant, function, var
from assay.semantics.graph.functions import rewrite_function
from assay.semantics.module import Module
from assay.semantics.scalar import Expr as Scalar, Load, const
from assay.semantics.tensor import Allocate, AllocateConst, Buffer, If, PrimFunc, Stmt, loops, seq, store
from assay.semantics.types import TensorType
from assay.semantics.walk import rewrite
from assay.verify.equivalence import BIT_EXACT, equivalent
from assay.verify.evidence import Context, Evidence, proved, refuted
from assay.verify.simplify import check_simplified

Array = np.ndarray[Any, Any]


def check(before: Module, after: Module, context: Context) -> Evidence:
    """Whether weights were packed, and nothing else has changed. The pass is asked for what it claims of each constant
    and tensor function; `check_made` trusts none of it."""
    _, made, packed = packing(before, evaluate, **context.options)
    return check_made(before, after, made, packed)


def check_made(
    before: Module, after: Module, made: Mapping[str, Made], packed: Mapping[str, Packed] | None = None
) -> Evidence:
    """Whether `after` is `before` with constants made, by `make_constants` and before it by `pack`."""
    packed = packed or {}
    for name, array in after.constants.items():
        if name in before.constants:
            if not same_bits(array, before.constants[name]):
                return refuted("proved", f"constant {name} has other contents")
        elif name not in made:
            return refuted("proved", f"constant {name} comes from nowhere")
    for name, how in made.items():
        wrong = _made_otherwise(name, how, before, after)
        if wrong:
            return refuted("proved", wrong)
    for name, what in packed.items():
        wrong = _packed_otherwise(name, what, before, after)
        if wrong:
            return refuted("proved", wrong)
    restored = _restored(before, after, made, packed)
    if isinstance(restored, str):
        return refuted("proved", restored)
    evidence = check_simplified(before, restored)
    if not evidence.holds:
        return evidence
    return proved(
        f"{len(made)} constants bit for bit what makes them; {len(packed)} packed kernels bit-exact; {evidence.detail}"
    )


def _made_otherwise(name: str, how: Made, before: Module, after: Module) -> str | None:
    if name not in after.constants:
        return f"{name} is said to be made, and is not there"
    for operand, array in zip(how.names, how.operands, strict=True):
        if operand and not (operand in before.constants and same_bits(before.constants[operand], array)):
            return f"{name} is made of what is not the constant {operand}"
    value = _run(how.definition, *how.operands, module=before)
    return None if same_bits(np.asarray(value), after.constants[name]) else f"{name} is not what makes it"


def _run(definition: Function, *operands: Array, module: Module | None = None) -> Array:
    body = Call(definition.result_type, definition, tuple(map(constant, operands)))
    return np.asarray(evaluate(body, module))


def _restored(before: Module, after: Module, made: Mapping[str, Made], packed: Mapping[str, Packed]) -> Module | str:
    """The module with the original tensor functions, and what they read as it was."""
    wrong: list[str] = []

    def function_(of: Function) -> Expr:
        def change(node: Expr) -> Expr:
            if not isinstance(node, CallTIR) or node.func not in packed:
                return node
            what = packed[node.func]
            arg = node.args[what.param]
            how = made.get(arg.name) if isinstance(arg, GlobalVar) else None
            if how is None or how.definition is not what.definition:
                wrong.append(f"{node.func} reads an operand that is not laid out as it wants")
                return node
            args = list(node.args)
            args[what.param] = replace(constant(how.operands[0]), device=arg.device)
            return replace(node, func=what.kernel, args=tuple(args))

        return rewrite_function(of, change)

    definitions: dict[str, Any] = dict(before.kernels)
    for n, d in after.definitions.items():
        if isinstance(d, Function):
            definitions[n] = function_(d)
        elif n not in packed:
            definitions[n] = d
    return (
        wrong[0]
        if wrong
        else replace(after, definitions=definitions, constants={**before.constants, **after.constants})
    )


# --- layouts ---------------------------------------------------------------------------------------------------------


def _packed_otherwise(name: str, what: Packed, before: Module, after: Module) -> str | None:
    original, new = before.kernel(what.kernel), after.kernel(name)
    places = laid_places(what.definition)
    if new.params[what.param].shape != places.shape:
        return f"{name} reads {new.params[what.param]}, its operand is laid out as {places.shape}"
    verdict = equivalent(original, unpacked(new, what.param, original.params[what.param], places), weakest=BIT_EXACT)
    return None if verdict.holds(BIT_EXACT) else f"{name} is not {what.kernel} on the laid out operand: {verdict}"


def laid_places(definition: Function) -> Array:
    """For each element of the result of a function that only moves elements the place of the element that it is, in
    row-major order from 1; 0 for a zero that was added."""
    (param,) = definition.params
    assert isinstance(param.type, TensorType)
    shape = param.type.static_shape
    places = var(param.name, TensorType(shape, INT64))

    def change(node: Expr) -> Expr:
        if node is param:
            return places
        assert isinstance(node, Call) and isinstance(node.type, TensorType)
        return replace(node, type=TensorType(node.type.shape, INT64))

    body = rewrite(definition.body, change)
    return _run(function([places], body), np.arange(1, 1 + int(np.prod(shape)), dtype=np.int64).reshape(shape))


def unpacked(new: PrimFunc, param: int, original: Buffer, places: Array) -> PrimFunc:
    """A function with the original's parameters that lays one of them out by `places` and goes on as `new`."""
    given = Buffer(original.name, original.shape, original.dtype, original.scope)
    laid = replace(new.params[param], scope="global")
    shape = original.shape
    table = [Buffer(f"{original.name}_at{a}", places.shape, INT64) for a in range(len(shape))]
    there = Buffer(f"{original.name}_is", places.shape, INT64)
    sizes = tuple(n for n in shape if isinstance(n, int))
    where = np.unravel_index(np.maximum(places - 1, 0), sizes) if sizes else ()

    def fill(*i: Scalar) -> Stmt:
        zero = const(0, original.dtype)
        read = Load(original.dtype, given, tuple(b[i] for b in table))
        return If(there[i] > 0, store(laid, i, read), store(laid, i, zero))

    names = " ".join(f"p{a}" for a in range(places.ndim))
    old = new.params[param]

    def load(node: Scalar) -> Scalar:
        return Load(node.dtype, laid, node.indices) if isinstance(node, Load) and node.buffer is old else node

    def statement(stmt: Stmt) -> Stmt:
        return changed(stmt, stmt.children, lambda e: rewrite(e, load))

    body: Stmt = Allocate(laid, seq(loops(names, places.shape, fill), rewrite(new.body, statement)))
    for b, data in zip(table, where, strict=True):
        body = AllocateConst(b, np.ascontiguousarray(data, np.int64), body)
    body = AllocateConst(there, (places > 0).astype(np.int64), body)
    params = tuple(given if k == param else b for k, b in enumerate(new.params))
    return replace(new, params=params, body=body)
