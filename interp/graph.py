"""The evaluator of the graph IR: call by need, by rules M1 to M4 (specs/interp.md, "Graph").

A node is evaluated when it is first demanded, at most once in its scope; operands left to right; a let's value before
its body; only the taken branch of an If. The evaluator keeps its own stack, so depth costs memory and nothing else.
One operator is one NumPy evaluation of its `value`. With `bounds=True` the same walk carries intervals that every
correct backend must hit (rule M9).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from assay.interp import vector
from assay.semantics.bounds import Bounded
from assay.semantics.dtypes import dtype
from assay.semantics.errors import Crash, Invalid, Trap
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
    dims_at,
    show_head,
)
from assay.semantics.module import Module
from assay.semantics.operator import Operator
from assay.semantics.scalar import Expr as Scalar, Var as Symbol, evaluate_dim, show
from assay.semantics.scopes import Scopes, function_scopes
from assay.semantics.tensor import PrimFunc
from assay.semantics.types import TensorType, TupleType, Type

Value = Any
"""A NumPy array (or `Bounded`), a Python tuple of values, or a `Closure`."""

Kernel = Callable[[PrimFunc, Sequence[Value]], Sequence[Value]]
Observe = Callable[[Expr, Value], Value | None]


@dataclass(frozen=True, eq=False)
class Closure:
    """A function and the activation in which its free variables have their values."""

    function: Function
    frame: Frame | None


@dataclass(eq=False)
class Frame:
    """One activation of a function: what its nodes and variables have evaluated to, by identity."""

    function: Function
    parent: Frame | None
    symbols: dict[Symbol, int]
    scopes: Scopes
    values: dict[int, Value] = field(default_factory=dict)
    calls: dict[int, Frame] = field(default_factory=dict)
    pending: dict[int, int] = field(default_factory=dict)
    """How many uses of a value are still to come, where that is known: it is dropped after the last."""


def run(
    module: Module,
    inputs: Mapping[str, np.ndarray[Any, Any]],
    *,
    bounds: bool = False,
    kernel: Kernel = vector.run,
    observe: Observe | None = None,
) -> dict[str, Value]:
    """The outputs of `main` by name, on inputs by name.

    With `bounds` each floating-point output is a `Bounded`. `kernel` runs tensor functions. `observe` is told every
    evaluated operator and tensor call (the node and its value); what it returns, unless None, is used in the value's
    place. Inputs that are missing, unknown or of the wrong type are Invalid.
    """
    main = module.main
    check_inputs(main, inputs)
    machine = _Evaluator(module, bounds, kernel, observe)
    args = [machine.lift(np.asarray(inputs[p.name])) for p in main.params]
    result = machine.call(main, args)
    names: Sequence[str] = main.attrs.get("outputs", ())
    if not isinstance(result, tuple):
        return {names[0] if names else "output_0": result}
    return dict(zip(names or [f"output_{i}" for i in range(len(result))], result, strict=True))


def evaluate(expr: Expr, module: Module | None = None) -> Value:
    """The value of a closed expression."""
    machine = _Evaluator(module or Module({}), False, vector.run, None)
    return machine.call(Function(expr.type, (), expr), [])


def check_inputs(main: Function, inputs: Mapping[str, np.ndarray[Any, Any]]) -> dict[Symbol, int]:
    """The values of the symbolic dims; Invalid, naming the input, where `inputs` are not what `main` takes."""
    expected = {p.name: p for p in main.params}
    for name in inputs:
        if name not in expected:
            raise Invalid(f"unknown input {name!r}; the inputs are {', '.join(expected) or 'none'}", label="input.C1")
    symbols: dict[Symbol, int] = {}
    places: dict[Symbol, str] = {}
    for name, p in expected.items():
        if name not in inputs:
            raise Invalid(f"missing input {name!r}: {p.type}", label="input.C2")
        bind(p.type, np.asarray(inputs[name]), f"input {name!r}", symbols, places)
    return symbols


def bind(want: Type, value: Value, what: str, symbols: dict[Symbol, int], places: dict[Symbol, str]) -> None:
    """Bind the symbols of `want` to the dims of `value` (rule M4); Invalid where they do not agree."""
    if isinstance(want, TupleType):
        if not isinstance(value, tuple) or len(value) != len(want.fields):
            raise Invalid(f"{what} is not {want}", label="input.C3")
        for i, (t, v) in enumerate(zip(want.fields, value, strict=True)):
            bind(t, v, f"{what}.{i}", symbols, places)
    if not isinstance(want, TensorType):
        return
    if dtype(value.dtype) is not want.dtype or value.ndim != want.ndim:
        got = f"Tensor({tuple(value.shape)}, {value.dtype})"
        raise Invalid(f"{what} is {got}, expected {want}", label="input.C3")
    for axis, (d, n) in enumerate(zip(want.shape, value.shape, strict=True)):
        if isinstance(d, Symbol) and d not in symbols:
            symbols[d], places[d] = int(n), f"axis {axis} of {what}"
        elif evaluate_dim(d, symbols) != n:
            raise Invalid(
                f"axis {axis} of {what} is {n}, expected {_expected(d, symbols, places)}", label="input.C4"
            )


def _expected(d: Scalar | int, symbols: Mapping[Symbol, int], places: Mapping[Symbol, str]) -> str:
    number = evaluate_dim(d, symbols)
    if isinstance(d, Symbol):
        return f"{number}, the value of {d.name} by {places[d]}"
    return str(number) if isinstance(d, int) else f"{number} = {show(d)}"


class _Evaluator:
    def __init__(
        self,
        module: Module,
        bounds: bool,
        kernel: Kernel,
        observe: Observe | None,
    ) -> None:
        self.module = module
        self.bounds = bounds
        self.kernel = kernel
        self.observe = observe
        self.scopes: dict[int, Scopes] = {}

    def lift(self, value: Value) -> Value:
        """An array as this walk carries it: an exact interval where bounds are asked for."""
        if self.bounds and isinstance(value, np.ndarray) and dtype(value.dtype).is_float:
            return Bounded.exact(value)
        return value

    def call(self, function: Function, args: Sequence[Value]) -> Value:
        """The result of a top-level function."""
        root = self.enter(Closure(function, None), args)
        stack = [(function.body, root)]
        with np.errstate(all="ignore"):
            while stack:
                node, at = stack[-1]
                frame = self.owner(node, at)
                if id(node) in frame.values:
                    stack.pop()
                    continue
                demand = self.step(node, frame)
                if demand is not None:
                    stack.append(demand)
        return root.values[id(function.body)]

    def enter(self, closure: Closure, args: Sequence[Value]) -> Frame:
        """A fresh activation, its parameters and their symbolic dims bound."""
        function, parent = closure.function, closure.frame
        if parent is None:
            scopes = self.scopes.setdefault(id(function), function_scopes(function))
        else:
            scopes = parent.scopes
        symbols = dict(parent.symbols) if parent else {}
        places: dict[Symbol, str] = {}
        if len(args) != len(function.params):
            raise Crash(f"{len(args)} arguments for {len(function.params)} parameters")
        for p, a in zip(function.params, args, strict=True):
            bind(p.type, a, f"parameter {p.name!r}", symbols, places)
        frame = Frame(function, parent, symbols, scopes)
        frame.values.update((id(p), a) for p, a in zip(function.params, args, strict=True))
        return frame

    def owner(self, node: Expr, frame: Frame) -> Frame:
        """The activation that holds the node's value: that of the innermost function around all its uses."""
        home = frame.scopes.owner.get(id(node))
        while home is not None and frame.function is not home:
            if frame.parent is None:
                raise Crash(f"no activation of the scope of {show_head(node)}")
            frame = frame.parent
        return frame

    def value(self, node: Expr, frame: Frame) -> Value:
        return self.owner(node, frame).values[id(node)]

    def missing(self, nodes: Sequence[Expr], frame: Frame) -> tuple[Expr, Frame] | None:
        """The first of `nodes` that has no value yet, left to right (rule M3)."""
        for n in nodes:
            at = self.owner(n, frame)
            if id(n) not in at.values:
                return n, at
        return None

    def step(self, node: Expr, frame: Frame) -> tuple[Expr, Frame] | None:
        """Give `node` its value, or say which node must have one first."""
        match node:
            case Constant():
                result = self.lift(node.data)
            case GlobalVar():
                result = self.global_value(node)
            case Var():
                raise Invalid(f"unbound variable {node.name}", where=node.span, label="graph.C1")
            case Function():
                result = Closure(node, frame)
            case Let():
                if (demand := self.missing([node.value], frame)) is not None:
                    return demand
                self.owner(node.var, frame).values.setdefault(id(node.var), self.value(node.value, frame))
                if (demand := self.missing([node.body], frame)) is not None:
                    return demand
                result = self.value(node.body, frame)
            case If():
                if (demand := self.missing([node.condition], frame)) is not None:
                    return demand
                branch = node.then if self.decide(node, frame) else node.otherwise
                if (demand := self.missing([branch], frame)) is not None:
                    return demand
                result = self.value(branch, frame)
            case Call() if isinstance(node.op, Expr):
                if (demand := self.missing(node.children, frame)) is not None:
                    return demand
                inner = frame.calls.get(id(node))
                if inner is None:
                    closure = self.value(node.op, frame)
                    inner = self.enter(closure, [self.value(a, frame) for a in node.args])
                    frame.calls[id(node)] = inner
                body = inner.function.body
                if id(body) not in (at := self.owner(body, inner)).values:
                    return body, at
                result = at.values[id(body)]
                self.check_result(inner, result)
                del frame.calls[id(node)]
            case _:
                if (demand := self.missing(node.children, frame)) is not None:
                    return demand
                result = self.compute(node, [self.value(c, frame) for c in node.children], frame)
        frame.values[id(node)] = result
        self.release(node, frame)
        return None

    def release(self, node: Expr, frame: Frame) -> None:
        """Drop operands whose last use this was, so that a long chain does not hold every value."""
        for child in node.children:
            left = frame.pending.get(id(child), frame.scopes.uses.get(id(child), 0)) - 1
            frame.pending[id(child)] = left
            if left == 0 and id(child) in frame.scopes.local and not isinstance(child, Constant):
                frame.values.pop(id(child), None)

    def global_value(self, node: GlobalVar) -> Value:
        if node.name in self.module.constants:
            return self.lift(self.module.constants[node.name])
        target = self.module.definitions.get(node.name)
        if not isinstance(target, Function):
            raise Invalid(f"the module has no function or constant {node.name}", where=node.span, label="graph.C2")
        return Closure(target, None)

    def decide(self, node: If, frame: Frame) -> bool:
        return bool(self.value(node.condition, frame))

    def compute(self, node: Expr, args: list[Value], frame: Frame) -> Value:
        """The value of a node whose operands have theirs."""
        match node:
            case Tuple():
                return tuple(args)
            case TupleGetItem():
                result: Value = args[0][node.index]
            case CallTIR():
                out = tuple(self.kernel(self.module.kernel(node.func), args))
                result = out if isinstance(node.type, TupleType) else out[0]
            case Call() if isinstance(node.op, Operator):
                attrs = {k: _at(v, frame.symbols) for k, v in node.attrs.items()}
                try:
                    result = node.op.value(attrs, *args)
                except Trap as trap:
                    raise trap.at(node.span) from None
                if isinstance(result, tuple):
                    result = tuple(map(self.lift, result))
                else:
                    result = self.lift(result)
            case _:
                raise Crash(f"no rule for {type(node).__name__}")
        _check_type(node, dims_at(node.type, frame.symbols), result)
        if self.observe is not None:
            instead = self.observe(node, result)
            if instead is not None:
                result = tuple(map(self.lift, instead)) if isinstance(instead, tuple) else self.lift(instead)
        return result

    def check_result(self, frame: Frame, result: Value) -> None:
        """A declared result holds on return (rule M4)."""
        declared = frame.function.result_type
        if not isinstance(result, Closure):
            try:
                bind(declared, result, "result", dict(frame.symbols), {})
            except Invalid as wrong:
                raise Trap("shape", wrong.message, where=frame.function.span, label="func.T1") from None


def _at(value: Any, symbols: Mapping[Symbol, int]) -> Any:
    """An attribute with its symbolic dims as numbers."""
    if isinstance(value, Scalar):
        return evaluate_dim(value, symbols)
    if isinstance(value, tuple):
        return tuple(_at(v, symbols) for v in value)
    return value


def _check_type(node: Expr, want: Type, got: Value) -> None:
    """An operator's value has the type that its type rule says: anything else is a fault of the operator's record."""
    if isinstance(want, TupleType):
        for t, v in zip(want.fields, got, strict=True):
            _check_type(node, t, v)
    elif isinstance(want, TensorType) and (got.shape != want.shape or dtype(got.dtype) is not want.dtype):
        raise Crash(f"{show_head(node)}: the value is Tensor({got.shape}, {got.dtype})", where=node.span)
