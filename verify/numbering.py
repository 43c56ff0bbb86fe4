"""Value numbering: two programs compute the same if their results get the same number (specs/verify.md, "Bisimulation").

A number stands for a value as a term over the parameters: the operation and the numbers of its operands. Lets, tuples
and projections vanish; a tensor function has the operation that its attributes claim (which the legalize check holds it
to); a constant is its dtype, shape and bytes. Source and target are numbered in one table, so equal numbers mean equal
terms, for every input. This file shares no code with the passes that it judges.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from assay.semantics.errors import Crash, Invalid
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
    show_head,
)
from assay.semantics.module import Module
from assay.semantics.operator import Operator
from assay.semantics.ops import operator
from assay.semantics.tensor import PrimFunc
from assay.semantics.types import TensorType, TupleType, Type, flatten
from assay.semantics.walk import post_order

Array = np.ndarray[Any, Any]
Key = tuple[Any, ...]


def constant_key(array: Array) -> Key:
    """Two constants are one exactly if dtype, shape and bytes are equal."""
    bytes_ = np.ascontiguousarray(array).reshape(-1).view(np.uint8)
    return ("constant", str(array.dtype), array.shape, hashlib.sha256(bytes_.data).hexdigest())


@dataclass
class Table:
    """Numbers of terms, shared by the programs that are compared."""

    numbers: dict[Key, int] = field(default_factory=dict)
    keys: list[Key] = field(default_factory=list)
    constants: dict[int, Array] = field(default_factory=dict)

    def number(self, *key: Any) -> int:
        found = self.numbers.get(key)
        if found is None:
            found = self.numbers[key] = len(self.keys)
            self.keys.append(key)
        return found

    def constant(self, array: Array) -> int:
        number = self.number(*constant_key(array))
        self.constants.setdefault(number, array)
        return number

    def field_of(self, value: int, index: int) -> int:
        """The number of a projection: that of the field where the tuple is known."""
        key = self.keys[value]
        return int(key[1][index]) if key[0] == "tuple" else self.number("field", value, index)


Fold = Callable[[Expr, Sequence[Array]], Sequence[Array] | None]
"""Gives the values of a call whose operands are all constant, or None to leave it a term."""


def _claim(kernel: PrimFunc) -> Key:
    """What a tensor function says it computes; the legalize check holds it to that."""
    if "operator" in kernel.attrs:
        return ("operator", kernel.attrs["operator"], attrs_key(kernel.attrs["attrs"]))
    return ("kernel", kernel.name)


def step_results(kernel: PrimFunc, args: Sequence[int], table: Table) -> list[int]:
    """The numbers of what a tensor function writes, given those of what it reads."""
    types = [str(TensorType(b.shape, b.dtype)) for b in kernel.params]
    read = len(kernel.inputs)
    return _results(_claim(kernel), types[:read], types[read:], args, table)


def _results(claim: Key, operands: list[str], results: list[str], args: Sequence[int], table: Table) -> list[int]:
    if claim[:2] == ("operator", "astype") and operands == results:
        return list(args)  # a copy: the same value
    call = table.number(*claim, tuple(operands), tuple(results), *args)
    return [table.number("result", call, i) for i in range(len(results))]


def tensors(value: int, of: Type, table: Table) -> list[int]:
    """The numbers of the tensors inside a value, left to right."""
    if not isinstance(of, TupleType):
        return [value]
    return [n for i, t in enumerate(of.fields) for n in tensors(table.field_of(value, i), t, table)]


def attrs_key(attrs: Mapping[str, Any]) -> str:
    """Attributes as text: equal exactly if each has the same type and value, the sign of zero and NaN included."""
    return repr(sorted((k, _attr_key(v)) for k, v in attrs.items()))


def _attr_key(value: Any) -> str:
    if isinstance(value, tuple):
        return f"({','.join(map(_attr_key, value))})"
    return f"{type(value).__name__} {value.hex() if isinstance(value, float) else value}"


@dataclass
class Numbered:
    """The numbers of a function's nodes, by identity, and of its result."""

    function: Function
    result: int
    of: dict[int, int]
    order: list[Expr]
    recursive: list[int]


def number_function(function: Function, module: Module, table: Table, fold: Fold | None = None) -> Numbered:
    """Number every node of a top-level function. With `fold`, calls on constants become constants."""
    root: Expr = function
    order = list(post_order(root))
    of: dict[int, int] = {}
    depth: dict[int, int] = {id(function): 0}
    recursive: list[Function] = []
    for i, p in enumerate(function.params):
        of[id(p)] = table.number("parameter", i)
    for node in reversed(order):  # users first: nesting is known before the body
        below = depth.setdefault(id(node), 0) + isinstance(node, Function)
        for child in node.children:
            depth[id(child)] = max(depth.get(id(child), 0), below)
        if isinstance(node, Function) and node is not function:
            for i, p in enumerate(node.params):
                of[id(p)] = table.number("bound", below, i, str(p.type))
    lets = {node.var: node for node in order if isinstance(node, Let)}
    for node in order:
        if id(node) in of:
            continue
        args = [of[id(c)] for c in node.children if id(c) in of]
        match node:
            case Var():
                let = lets.get(node)
                if let is not None and id(let.value) in of:
                    number = of[id(let.value)]
                elif let is not None and isinstance(let.value, Function):
                    # inside its own value: two recursive functions are one if their bodies agree under this assumption
                    number = table.number("recursive", len(recursive))
                    recursive.append(let.value)
                else:
                    raise Invalid(f"variable {node.name} is used before it is bound", where=node.span, label="graph.C1")
            case Constant():
                number = table.constant(node.data)
            case GlobalVar() if node.name in module.constants:
                number = table.constant(module.constants[node.name])
            case GlobalVar():
                number = table.number("global", node.name)
            case Let():
                number = args[-1]
            case Tuple():
                number = table.number("tuple", tuple(args))
            case TupleGetItem():
                number = table.field_of(args[0], node.index)
            case If():
                number = table.number("if", *args)
            case Function():
                number = table.number("function", str([str(p.type) for p in node.params]), args[0])
            case Call() if isinstance(node.op, Expr):
                number = table.number("apply", *args)
            case _:
                number = _number_call(node, args, module, table, fold)
        of[id(node)] = number
    return Numbered(function, of[id(function.body)], of, order, [of[id(value)] for value in recursive])


def _number_call(node: Expr, args: list[int], module: Module, table: Table, fold: Fold | None) -> int:
    """The number of an operator's or a tensor function's call. A view is its operand's bytes: it has their number."""
    if fold is not None and all(a in table.constants for a in args):
        values = fold(node, [table.constants[a] for a in args])
        if values is not None:
            numbers = [table.constant(v) for v in values]
            return numbers[0] if isinstance(node.type, TensorType) else table.number("tuple", tuple(numbers))
    match node:
        case Call() if isinstance(node.op, Operator):
            if node.op.view:
                return args[0]
            claim: Key = ("operator", node.op.name, attrs_key(node.attrs))
        case CallTIR():
            claim = _claim(module.kernel(node.func))
        case _:
            raise Crash(f"no operation in {show_head(node)}")
    operands = [str(c.type) for c in node.children]
    numbers = _results(claim, operands, [str(t) for t in flatten(node.type)], args, table)
    return numbers[0] if isinstance(node.type, TensorType) else table.number("tuple", tuple(numbers))


def failures(program: Numbered, module: Module, table: Table) -> list[int]:
    """The calls that may trap, in the order of an ANF function, but for those whose value is a constant (rule M3)."""
    found: list[int] = []
    body = program.function.body
    while isinstance(body, Let):
        value = body.value
        if isinstance(value, CallTIR) and can_trap(module.kernel(value.func)):
            numbers = tensors(program.of[id(value)], value.type, table)
            if not all(n in table.constants for n in numbers):
                found.append(numbers[0])
        body = body.body
    return found


def can_trap(kernel: PrimFunc) -> bool:
    """Whether the operator that a tensor function claims to be may trap; one that claims none may."""
    claim = kernel.attrs.get("operator")
    if claim == "astype" and kernel.params[0].dtype is kernel.params[1].dtype:
        return False  # a copy
    return claim is None or operator(claim).can_trap


def first_unmatched(source: Numbered, target: Numbered) -> Expr | None:
    """The first evaluated node of `source`, operands first, whose value `target` never computes."""
    known = set(target.of.values())
    for node in source.order:
        if source.of.get(id(node)) not in known and isinstance(node, (Call, CallTIR, Constant, If, Tuple)):
            return node
    return None
