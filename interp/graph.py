"""The evaluator of the graph IR: call by need, by rules M1 to M4 (specs/interp.md, "Graph").

A node is evaluated when it is first demanded, at most once in its scope; operands left to right; a let's value before
its body; only the taken branch of an If. The evaluator keeps its own stack, so depth costs memory and nothing else.
One operator is one NumPy evaluation of its `value`. With `bounds=True` the same walk carries intervals that every
correct backend must hit (rule M9).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, Protocol

import numpy as np

from assay.interp import vector
from assay.interp.boundary import bind, given
from assay.interp.patterns import matching_clause
from assay.interp.values import (
    Cell,
    Closure,
    Data,
    Event,
    External,
    Externs,
    Frame,
    Maker,
    Shape,
    Value,
    copied,
    render,
)
from assay.semantics.bounds import Bounded
from assay.semantics.dtypes import dtype
from assay.semantics.errors import Crash, Invalid, Trap
from assay.semantics.graph import (
    AssertOp,
    Call,
    CallTIR,
    Constant,
    Constructor,
    Expr,
    ExternFunc,
    Function,
    GlobalVar,
    If,
    Let,
    Match,
    MatchCast,
    Print,
    RefCreate,
    RefRead,
    RefWrite,
    ShapeExpr,
    ShapeOf,
    Tuple,
    TupleGetItem,
    Var,
    acts,
    function,
    show_head,
)
from assay.semantics.graph.scopes import Scopes, function_scopes
from assay.semantics.module import Module
from assay.semantics.operator import Operator
from assay.semantics.scalar import Dim, Expr as Scalar, Var as Symbol, evaluate_dim, show, variables
from assay.semantics.tensor import PrimFunc
from assay.semantics.types import TensorType, TupleType, Type, flatten, symbols
from assay.semantics.walk import post_order

Observe = Callable[[Expr, Value], Value | None]


class Kernel(Protocol):
    """How a tensor function runs: `interp.vector.run`, or `interp.tensor.run`, the definition."""

    def __call__(self, func: PrimFunc, inputs: Sequence[Value], *, scalars: Sequence[Any] = ()) -> Sequence[Value]: ...


def run(
    module: Module,
    inputs: Mapping[str, Any],
    *,
    bounds: bool = False,
    kernel: Kernel = vector.run,
    observe: Observe | None = None,
    externs: Externs | None = None,
    trace: list[Event] | None = None,
) -> dict[str, Value]:
    """The outputs of `main` by name, on inputs by name: arrays, tuples of them, or sequences of sizes for shapes.

    With `bounds` each floating-point output is a `Bounded`. `kernel` runs tensor functions. `observe` is told every
    evaluated operator and tensor call (the node and its value); what it returns, unless None, is used in the value's
    place. `externs` are the functions outside the language, by name; effects are appended to `trace`, in order. Inputs
    and externs that are missing, unknown or of the wrong type are Invalid.
    """
    main = module.main
    check_inputs(main, inputs)
    machine = _Evaluator(module, bounds, kernel, observe, externs, trace)
    args = [given(inputs[p.name], p.type, f"input {p.name!r}", machine.lift) for p in main.params]
    result = machine.call(main, args)
    names: Sequence[str] = main.attrs.get("outputs", ())
    if names and len(names) != (len(result) if isinstance(result, tuple) else 1):
        raise Invalid(f"main has {len(names)} names for its results, {', '.join(names)}", label="module.C5")
    if not isinstance(result, tuple):
        return {names[0] if names else "output_0": result}
    return dict(zip(names or [f"output_{i}" for i in range(len(result))], result, strict=True))


def evaluate(expr: Expr, module: Module | None = None) -> Value:
    """The value of a closed expression."""
    machine = _Evaluator(module or Module({}), False, vector.run, None)
    return machine.call(function([], expr), [])


def check_inputs(main: Function, inputs: Mapping[str, Any]) -> dict[Symbol, int]:
    """The values of the symbolic dims; Invalid, naming the input, where `inputs` are not what `main` takes."""
    expected = {p.name: p for p in main.params}
    for name in inputs:
        if name not in expected:
            raise Invalid(f"unknown input {name!r}; the inputs are {', '.join(expected) or 'none'}", label="input.C1")
    for name, p in expected.items():
        if name not in inputs:
            raise Invalid(f"missing input {name!r}: {p.type}", label="input.C2")
    symbols: dict[Symbol, int] = {}
    what = {n: f"input {n!r}" for n in expected}
    bind([(p.type, given(inputs[n], p.type, what[n]), what[n]) for n, p in expected.items()], symbols, {})
    return symbols


class _Evaluator:
    def __init__(
        self,
        module: Module,
        bounds: bool,
        kernel: Kernel,
        observe: Observe | None,
        externs: Externs | None = None,
        trace: list[Event] | None = None,
    ) -> None:
        self.module = module
        self.bounds = bounds
        self.kernel = kernel
        self.observe = observe
        self.externs = externs or {}
        self.trace = [] if trace is None else trace
        self.scopes: dict[int, Scopes] = {}
        self.opened: dict[PrimFunc, PrimFunc] = {}
        for d in module.definitions.values():
            if isinstance(d, Function):
                self.check_externs(d)

    def check_externs(self, function: Function) -> None:
        for node in post_order(function):
            if isinstance(node, ExternFunc) and node.name not in self.externs:
                raise Invalid(f"no function was given for the extern {node.name}", where=node.span, label="extern.C1")

    def lift(self, value: Value) -> Value:
        """A value as this walk carries it: floating-point arrays are exact intervals where bounds are asked for."""
        if self.bounds and isinstance(value, np.ndarray) and dtype(value.dtype).is_float:
            return Bounded.exact(value)
        return tuple(map(self.lift, value)) if isinstance(value, tuple) else value

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
        result = root.values[id(function.body)]
        self.check_result(root, result)
        return result

    def enter(self, closure: Closure, args: Sequence[Value]) -> Frame:
        """A fresh activation, its parameters and their symbolic dims bound."""
        function, parent = closure.function, closure.frame
        if parent is None:
            scopes = self.scopes.get(id(function)) or self.scopes.setdefault(id(function), function_scopes(function))
        else:
            scopes = parent.scopes
        symbols = dict(parent.symbols) if parent else {}
        places = dict(parent.places) if parent else {}
        if len(args) != len(function.params):
            raise Crash(f"{len(args)} arguments for {len(function.params)} parameters")
        met = [(p.type, a, f"parameter {p.name!r}") for p, a in zip(function.params, args, strict=True)]
        try:
            bind(met, symbols, places)
        except Invalid as wrong:
            raise Trap("shape", wrong.message, where=function.span, label="func.T2") from None
        frame = Frame(function, parent, symbols, places, scopes)
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

    def missing(self, nodes: Sequence[Expr], frame: Frame, of: Expr | None = None) -> tuple[Expr, Frame] | None:
        """The first of `nodes` that has no value yet, left to right (rule M3). Operands `of` a node that were found to
        have one are not asked again."""
        start = frame.progress.get(id(of), 0) if of is not None else 0
        for i in range(start, len(nodes)):
            at = self.owner(nodes[i], frame)
            if id(nodes[i]) not in at.values:
                if of is not None and i:
                    frame.progress[id(of)] = i
                return nodes[i], at
        return None

    def name(self, node: Let, frame: Frame) -> None:
        """The variable of a let gets the value; the sizes in its type get theirs, in the let's own activation."""
        value = self.value(node.value, frame)
        at = self.owner(node.var, frame)
        at.values[id(node.var)] = value
        if symbols(node.var.type):
            self.meet(node, value, at, node.var.type)
        self.drop(node.value, frame)

    def step(self, node: Expr, frame: Frame) -> tuple[Expr, Frame] | None:
        """Give `node` its value, or say which node must have one first."""
        match node:
            case Let():
                if id(node) not in frame.progress:
                    if (demand := self.missing([node.value], frame)) is not None:
                        return demand
                    self.name(node, frame)
                    frame.progress[id(node)] = 1
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
                self.meet(node, result, frame)
            case Match():
                if (demand := self.missing([node.value], frame)) is not None:
                    return demand
                branch = self.chosen(node, frame)
                if (demand := self.missing([branch], frame)) is not None:
                    return demand
                result = self.value(branch, frame)
                self.meet(node, result, frame)
            case Function():
                result = Closure(node, frame)
            case Call() if isinstance(node.op, Expr):
                if (demand := self.missing(node.children, frame, node)) is not None:
                    return demand
                closure = self.value(node.op, frame)
                if isinstance(closure, Closure):
                    inner = frame.calls.get(id(node))
                    if inner is None:
                        inner = self.enter(closure, [self.value(a, frame) for a in node.args])
                        frame.calls[id(node)] = inner
                    body = inner.function.body
                    if id(body) not in (at := self.owner(body, inner)).values:
                        return body, at
                    result = at.values[id(body)]
                    self.check_result(inner, result)
                    del frame.calls[id(node)]
                else:
                    result = self.apply(node, closure, [self.value(a, frame) for a in node.args])
                self.meet(node, result, frame)
            case _:
                if (demand := self.missing(node.children, frame, node)) is not None:
                    return demand
                result = self.compute(node, [self.value(c, frame) for c in node.children], frame)
        frame.values[id(node)] = result
        self.release(node, frame)
        return None

    def release(self, node: Expr, frame: Frame) -> None:
        """Drop operands whose last use this was, so that a long chain does not hold every value."""
        frame.progress.pop(id(node), None)
        for child in node.children if not isinstance(node, Let) else (node.body,):
            self.drop(child, frame)

    def drop(self, child: Expr, frame: Frame) -> None:
        """One use of a value is done."""
        left = frame.pending.get(id(child), frame.scopes.uses.get(id(child), 0)) - 1
        frame.pending[id(child)] = left
        if left == 0 and id(child) in frame.scopes.local and not isinstance(child, Constant):
            frame.values.pop(id(child), None)

    def decide(self, node: If, frame: Frame) -> bool:
        return bool(self.value(node.condition, frame))

    def chosen(self, node: Match, frame: Frame) -> Expr:
        """The body of the clause that the value meets, its pattern's variables bound."""
        found = matching_clause(node, self.value(node.value, frame))
        if found is None:
            raise Trap("match", "no clause matches", where=node.span, label="match.T1")
        clause, bound = found
        for v, value in bound.items():
            frame.values[id(v)] = value
            if symbols(v.type):
                self.meet(node, value, frame, v.type)
        return clause.body

    def apply(self, node: Call, callee: External | Maker, args: list[Value]) -> Value:
        """A call of what has no body here: a constructor or an extern function."""
        if isinstance(callee, Maker):
            return Data(callee.node.data, callee.node.name, tuple(args))
        seen = copied(tuple(args))
        if acts(node):
            self.trace.append(Event("extern", callee.node.name, seen))
        try:
            return given(callee.act(*seen), node.type, f"the result of {callee.node.name}", self.lift)
        except Invalid as wrong:
            raise Trap("shape", wrong.message, where=node.span, label="call.T1") from None

    def compute(self, node: Expr, args: list[Value], frame: Frame) -> Value:
        """The value of a node whose operands have theirs."""
        match node:
            case Constant():
                return self.lift(node.data)
            case GlobalVar():
                return self.global_value(node)
            case ExternFunc():
                return External(node, self.externs[node.name])
            case Constructor():
                return Maker(node)
            case Var():
                raise Invalid(f"unbound variable {node.name}", where=node.span, label="graph.C1")
            case Tuple():
                return tuple(args)
            case TupleGetItem():
                return args[0][node.index]
            case RefCreate():
                return Cell(args[0])
            case RefRead():
                return args[0].value
            case RefWrite():
                args[0].value = args[1]
                return ()
            case Print():
                self.trace.append(Event("print", node.format, copied(tuple(args))))
                return ()
            case AssertOp():
                if not bool(args[0]):
                    message = render(node.format, args[1:]) or "the condition does not hold"
                    raise Trap("assertion", message, where=node.span, label="assert_op.T1")
                return ()
            case MatchCast():
                self.meet(node, args[0], frame)
                return args[0]
            case ShapeExpr():
                return Shape(tuple(self.sizes(node, node.dims, frame)))
            case ShapeOf():
                return Shape(tuple(args[0].shape))
            case CallTIR():
                result: Value = self.fill(node, args, frame)
                self.meet(node, result, frame)
            case Call() if isinstance(node.op, Operator):
                try:
                    attrs = {k: _at(v, frame.symbols) for k, v in node.attrs.items()}
                    self.check_sizes(node, frame)
                    result = self.lift(node.op.value(attrs, *args))
                except Trap as trap:
                    raise trap.at(node.span) from None
            case _:
                raise Crash(f"no rule for {type(node).__name__}")
        try:
            bind([(node.type, result, "the value")], frame.symbols, frame.places)
        except Invalid as wrong:
            # the operator's type rule says otherwise: a fault of its record, not of the program
            raise Crash(f"{show_head(node)}: {wrong.message}", where=node.span) from None
        if self.observe is not None:
            instead = self.observe(node, result)
            if instead is not None:
                result = self.lift(instead)
        return result

    def sizes(self, node: Expr, found: Sequence[Dim], frame: Frame) -> Iterator[int]:
        """Sizes as numbers. One that is negative is a trap."""
        for d in found:
            try:
                n = evaluate_dim(d, frame.symbols)
            except Trap as trap:
                raise trap.at(node.span) from None
            if n < 0:
                raise Trap("shape", f"{show_head(node)}: the size {show(d)} is {n}", where=node.span, label="size.T1")
            yield n

    def check_sizes(self, node: Expr, frame: Frame) -> None:
        """No size of the result that is known before the result is negative."""
        if isinstance(node.type, TensorType) and not node.type.is_static:
            known = [d for d in node.type.shape if isinstance(d, Scalar) and all(v in frame.symbols for v in variables(d))]
            list(self.sizes(node, known, frame))

    def fill(self, node: CallTIR, args: list[Value], frame: Frame) -> Value:
        """The results of a tensor function. Sizes of results that no operand tells are those of the node's type."""
        func = self.module.kernel(node.func)
        arrays = _flat(args)
        scalars = [evaluate_dim(d, frame.symbols) for d in node.scalars]
        hidden = _hidden(func)
        if hidden:
            made = flatten(node.type)
            sizes: dict[Symbol, int] = {}
            for b, t in zip(func.outputs, made, strict=True):
                sizes |= {d: evaluate_dim(n, frame.symbols) for d, n in zip(b.shape, t.shape, strict=True) if d in hidden}
            func = self.opened.setdefault(func, replace(func, scalars=(*func.scalars, *hidden)))
            scalars += [sizes[s] for s in hidden]
        try:
            out = tuple(self.kernel(func, arrays, scalars=scalars))
        except Trap as trap:
            raise trap.at(node.span) from None
        except Invalid as wrong:  # the sizes of this run are not those that the function takes
            raise Trap("shape", wrong.message, where=node.span, label="call.T2") from None
        return out if isinstance(node.type, TupleType) else out[0]

    def global_value(self, node: GlobalVar) -> Value:
        if node.name in self.module.constants:
            return self.lift(self.module.constants[node.name])
        target = self.module.definitions.get(node.name)
        if not isinstance(target, Function):
            raise Invalid(f"the module has no function or constant {node.name}", where=node.span, label="graph.C2")
        return Closure(target, None)

    def meet(self, node: Expr, result: Value, frame: Frame, of: Type | None = None) -> None:
        """The value has the node's type: sizes that only the run can tell get their values, or agree (rule M4)."""
        try:
            bind([(of or node.type, result, "the value")], frame.symbols, frame.places)
        except Invalid as wrong:
            label = "match_cast.T1" if isinstance(node, MatchCast) else "call.T1"
            raise Trap("shape", f"{show_head(node)}: {wrong.message}", where=node.span, label=label) from None

    def check_result(self, frame: Frame, result: Value) -> None:
        """A declared result holds on return (rule M4)."""
        try:
            bind([(frame.function.result_type, result, "result")], dict(frame.symbols), dict(frame.places))
        except Invalid as wrong:
            raise Trap("shape", wrong.message, where=frame.function.span, label="func.T1") from None


def _at(value: Any, symbols: Mapping[Symbol, int]) -> Any:
    """An attribute with its symbolic dims as numbers."""
    if isinstance(value, Scalar):
        return evaluate_dim(value, symbols)
    if isinstance(value, tuple):
        return tuple(_at(v, symbols) for v in value)
    return value


def _flat(values: Sequence[Value]) -> list[Value]:
    """The arrays in nested tuples, left to right."""
    found: list[Value] = []
    work = list(reversed(values))
    while work:
        value = work.pop()
        if isinstance(value, tuple):
            work += reversed(value)
        else:
            found.append(value)
    return found


def _hidden(func: PrimFunc) -> tuple[Symbol, ...]:
    """The symbols that are dims of results only."""
    told = {v for b in func.inputs for d in b.shape if isinstance(d, Scalar) for v in variables(d)} | set(func.scalars)
    found = dict.fromkeys(d for b in func.outputs for d in b.shape if isinstance(d, Symbol))
    return tuple(s for s in found if s not in told)
