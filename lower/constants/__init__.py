"""Constants folded, lifted into the module's table, merged and given offsets (specs/lower.md, "constants").

A call whose arguments are all constant is replaced by its value, computed by the evaluator that the caller hands in:
folding runs the interpreter, there is no second truth. A call that traps is left where it is, for the run to trap.
Two constants are one if their dtype, shape and bytes are equal, so the sign of zero and NaN payloads stay.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from assay.semantics.errors import Trap
from assay.semantics.graph import (
    Call,
    CallTIR,
    Constant,
    Expr,
    Function,
    GlobalVar,
    If,
    Let,
    Tuple,
    TupleGetItem,
    Var,
    let,
)
from assay.semantics.module import Definition, Module
from assay.semantics.operator import Operator
from assay.semantics.tensor import PrimFunc
from assay.semantics.tensor.calls import calls_extern
from assay.semantics.types import TensorType, flatten
from assay.semantics.walk import post_order, rewrite

Array = np.ndarray[Any, Any]
Evaluate = Callable[[PrimFunc, Sequence[Array]], Sequence[Array]]

ALIGNMENT = 64
"""Bytes to which constants are aligned in the table."""


def lift_constants(module: Module, evaluate: Evaluate) -> Module:
    """Fold what is constant in `main`, and move every constant into the module's table."""
    table = _Table(dict(module.constants))
    definitions: dict[str, Definition] = {}
    for name, d in module.definitions.items():
        definitions[name] = _fold(d, module, evaluate, table) if isinstance(d, Function) else d
    used = _reached(definitions)
    constants = {n: a for n, a in table.arrays.items() if n in used}
    kept = {n: d for n, d in definitions.items() if not isinstance(d, PrimFunc) or n in used}
    return replace(module, definitions=kept, constants=constants, offsets=layout(constants))


def layout(constants: dict[str, Array]) -> dict[str, int]:
    """Offsets in the read-only table: one after another, each aligned."""
    offsets: dict[str, int] = {}
    end = 0
    for name, array in constants.items():
        offsets[name] = end
        end += -(-array.nbytes // ALIGNMENT) * ALIGNMENT
    return offsets


class _Table:
    """Constants by content."""

    def __init__(self, arrays: dict[str, Array]) -> None:
        self.arrays = arrays
        self.names = {self.key(a): n for n, a in arrays.items()}

    @staticmethod
    def key(array: Array) -> tuple[str, tuple[int, ...], bytes]:
        data = np.ascontiguousarray(array)
        return str(array.dtype), array.shape, hashlib.sha256(data.view(np.uint8).reshape(-1).data if data.size else b"").digest()

    def add(self, array: Array) -> str:
        key = self.key(array)
        if key not in self.names:
            name = f"constant_{len(self.names)}"
            while name in self.arrays:
                name += "_"
            self.names[key] = name
            data = np.ascontiguousarray(array).reshape(array.shape)  # NumPy makes a vector of a scalar
            data.flags.writeable = False
            self.arrays[name] = data
        return self.names[key]


def _fold(function: Function, module: Module, evaluate: Evaluate, table: _Table) -> Function:
    """The function without bindings that have a constant value; what is left uses the table."""
    uses = Counter(c for node in post_order(function) for c in node.children if isinstance(c, Var))
    known: dict[Expr, Any] = {}
    tuples: dict[Expr, Expr] = {}

    def lift(node: Expr) -> Expr:
        data = node.data if isinstance(node, Constant) else known.get(node)
        if isinstance(data, tuple):
            fields = zip(flatten(node.type), data, strict=True)
            tuples[node] = Tuple(node.type, tuple(GlobalVar(t, table.add(d)) for t, d in fields), span=node.span)
            return node
        return node if data is None else GlobalVar(node.type, table.add(data), device=node.device, span=node.span)

    kept: list[tuple[Var, Expr | None]] = []
    body: Expr = function.body
    while isinstance(body, Let):
        var, bound = body.var, body.value
        data = _value(bound, known, module, evaluate)
        if data is None:
            kept.append((var, rewrite(bound, lift)))
        else:
            known[var] = data
            if isinstance(data, tuple):
                kept.append((var, None))  # a tuple of constants is no constant: it is bound where one is still used
        for child in bound.children:
            # a folded operand is let go after its last use: a weight and its transpose need not both stay
            if isinstance(child, Var):
                uses[child] -= 1
                if not uses[child]:
                    known.pop(child, None)
        body = body.body
    result = rewrite(body, lift)
    for var, value in reversed(kept):
        value = value or tuples.get(var)
        result = result if value is None else let(var, value, result)
    return replace(function, body=result)


def _value(bound: Expr, known: Mapping[Expr, Any], module: Module, evaluate: Evaluate) -> Any:
    """The constant value of a binding: an array or a tuple of arrays; None if it has none."""
    if isinstance(bound, Constant):
        return bound.data
    if isinstance(bound, GlobalVar):
        return module.constants.get(bound.name)
    if isinstance(bound, Var):
        return known.get(bound)
    if isinstance(bound, (Function, If, Let)):
        return None
    args: list[Any] = []
    for c in bound.children:
        found = module.constants.get(c.name) if isinstance(c, GlobalVar) else known.get(c)
        if found is None:
            return None
        args.append(found)
    match bound:
        case Tuple():
            return None if any(isinstance(a, tuple) for a in args) else tuple(args)
        case TupleGetItem():
            return args[0][bound.index]
        case Call() if isinstance(bound.op, Operator):
            return bound.op.value(bound.attrs, *args)
        case CallTIR() if not calls_extern(module.kernel(bound.func)):
            try:
                out = tuple(evaluate(module.kernel(bound.func), args))
            except Trap:
                return None
            return out[0] if isinstance(bound.type, TensorType) else out
    return None


def _reached(definitions: Mapping[str, Definition]) -> set[str]:
    """Names of constants and tensor functions that graph functions still use."""
    names: set[str] = set()
    for d in definitions.values():
        for node in post_order(d) if isinstance(d, Function) else ():
            if isinstance(node, GlobalVar):
                names.add(node.name)
            elif isinstance(node, CallTIR):
                names.add(node.func)
    return names
