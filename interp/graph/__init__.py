"""The evaluator of the graph IR: call by need, by rules M1 to M4 (specs/interp.md, "Graph").

A node is evaluated when it is first demanded, at most once in its scope; operands left to right; a let's value before
its body; only the taken branch of an If. The evaluator keeps its own stack, so depth costs memory and nothing else.
One operator is one NumPy evaluation of its `value`. With `bounds=True` the same walk carries intervals that every
correct backend must hit (rule M9).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np

from assay.interp import vector
from assay.interp.binding import check_names
from assay.interp.graph.boundary import bind, given, unsized
from assay.interp.graph.contents import check_contents
from assay.interp.graph.counting import require_time
from assay.interp.graph.kernel_calls import Filler, Kernel, flat
from assay.interp.graph.memory_limits import memory_traps, require_budget, too_large
from assay.interp.graph.named_sizes import Sizes, as_shape
from assay.interp.graph.patterns import matching_clause
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
    is_open,
    render,
)
from assay.semantics import graph
from assay.semantics.bounding.core import plain_if_exact
from assay.semantics.bounds import Bounded
from assay.semantics.dtypes import dtype
from assay.semantics.errors import Crash, Invalid, Span, Trap, Unpredictable
from assay.semantics.graph import function
from assay.semantics.graph.scopes import Scopes, function_scopes
from assay.semantics.graph.sizes import has_explicit_shapes
from assay.semantics.leaves import result_names
from assay.semantics.module import Module
from assay.semantics.operator import Operator
from assay.semantics.scalar import Dim, Var as Symbol, show, variables
from assay.semantics.tensor import PrimFunc
from assay.semantics.tensor.calls import calls_of
from assay.semantics.types import ShapeType, TensorType, TupleType, Type, symbols
from assay.semantics.walk import post_order

Observe = Callable[[graph.Expr, Value], Value | None]
Apply = Callable[[graph.Call | graph.CallTIR, Mapping[str, Any], Sequence[Value], Callable[..., Value]], Value]
"""What stands in the place of operators: of a call, its attributes and operands, and what gives the ordinary value of
such operands, it makes the value. So other kinds of values run through the same walk."""


def run(
    module: Module,
    inputs: Mapping[str, Any],
    *,
    bounds: bool = False,
    kernel: Kernel = vector.run,
    observe: Observe | None = None,
    externs: Externs | None = None,
    trace: list[Event] | None = None,
    apply: Apply | None = None,
    entry: graph.Function | None = None,
    known: Mapping[int, Value] | None = None,
    first: Sequence[graph.Expr] = (),
) -> dict[str, Value]:
    """The outputs of `main` by name, on inputs by name: arrays, tuples of them, or sequences of sizes for shapes.
    `entry` is another function of the module that is to be run instead.

    With `bounds` each floating-point output is a `Bounded`. `kernel` runs tensor functions. `observe` is told every
    evaluated operator and tensor call (the node and its value); what it returns, unless None, is used in the value's
    place. `externs` are the functions outside the language, by name; effects are appended to `trace`, in order
    (rule M1.2). `apply` is asked for the value of every operator and tensor call instead of their own definitions.
    `known` are values of expressions of main, by identity: these are not evaluated, nor is what they alone read. What
    stands `first`, in an
    order in which main may evaluate it, is evaluated in any case, before the outputs. Inputs and externs that are
    missing, unknown or of the wrong type are Invalid.
    """
    main = entry or module.main
    sizes = check_inputs(main, inputs)
    machine = _Evaluator(module, bounds, kernel, observe, externs, trace, apply)
    args = [given(inputs[p.name], p.type, f"input {p.name!r}", machine.lift) for p in main.params]
    types = [unsized(p.type) if has_explicit_shapes(main) else p.type for p in main.params]
    what = [f"input {p.name!r}" for p in main.params]
    check_contents(list(zip(types, args, what, strict=True)), sizes, module, machine.externs)
    result = machine.call(main, args, known or {}, first)
    results = result if isinstance(result, tuple) else (result,)
    return dict(zip(result_names(main, len(results)), results, strict=True))


def evaluate(expr: graph.Expr, module: Module | None = None) -> Value:
    """The value of a closed expression."""
    machine = _Evaluator(module or Module({}), False, vector.run, None)
    return machine.call(function([], expr), [])


def call_closure(module: Module, closure: Closure, args: Sequence[Value] = ()) -> Value:
    """The result of a function that a run of `module` gave; it has the values that it had there."""
    return _Evaluator(module, False, vector.run, None).call(closure, args)


def check_inputs(main: graph.Function, inputs: Mapping[str, Any]) -> dict[Symbol, int]:
    """The values of the symbolic dims; Invalid, naming the input, where `inputs` are not what `main` takes."""
    expected = {p.name: p.type for p in main.params}
    check_names(expected, inputs)
    symbols: dict[Symbol, int] = {}
    what = {n: f"input {n!r}" for n in expected}
    types = {n: unsized(t) if has_explicit_shapes(main) else t for n, t in expected.items()}
    bind([(t, given(inputs[n], t, what[n]), what[n]) for n, t in types.items()], symbols, {})
    return symbols


def _externs(module: Module) -> Iterator[tuple[str, Span | None]]:
    """The functions outside of the language that a module names, and where."""
    for d in module.definitions.values():
        if isinstance(d, graph.Function):
            yield from ((n.name, n.span) for n in post_order(d) if isinstance(n, graph.ExternFunc))
        elif isinstance(d, PrimFunc):
            yield from ((c.function, c.span) for c in calls_of(d) if c.extern)


class _Evaluator:
    def __init__(
        self,
        module: Module,
        bounds: bool,
        kernel: Kernel,
        observe: Observe | None,
        externs: Externs | None = None,
        trace: list[Event] | None = None,
        apply: Apply | None = None,
    ) -> None:
        self.applied: Apply = apply or (lambda node, attrs, operands, ordinary: ordinary(*operands))
        self.module = module = module.resolved()
        self.bounds = bounds
        self.observe = observe
        self.externs = externs or {}
        self.trace = [] if trace is None else trace
        self.scopes: dict[int, Scopes] = {}
        self.known = Sizes()
        self.filler = Filler(module, kernel, self.known, bounds, self.externs, self.trace)
        for name, at in _externs(module):
            if name not in self.externs:
                raise Invalid(f"no function was given for the extern {name}", where=at, label="extern.C1")

    def lift(self, value: Value) -> Value:
        """A value as this walk carries it: floating-point arrays are exact intervals where bounds are asked for."""
        if self.bounds and isinstance(value, (np.ndarray, np.generic)) and dtype(value.dtype).is_float:
            return Bounded.exact(value)
        if isinstance(value, Bounded):
            return plain_if_exact(value)
        return tuple(map(self.lift, value)) if isinstance(value, tuple) else value

    def call(
        self,
        function: graph.Function | Closure,
        args: Sequence[Value],
        known: Mapping[int, Value] | None = None,
        first: Sequence[graph.Expr] = (),
    ) -> Value:
        """The result of a top-level function, or of a closure that a run gave; `known` are values in its activation, in
        which what stands `first` is evaluated before the body."""
        if isinstance(function, graph.Function):
            require_time(function, self.module)
        root = self.enter(function if isinstance(function, Closure) else Closure(function, None), args)
        root.values.update(known or {})
        root.pending.update((id(n), root.scopes.uses.get(id(n), 0) + 1) for n in first)  # kept till the end
        body = root.function.body
        stack = [(body, root), *((node, root) for node in reversed(first))]
        try:
            with np.errstate(all="ignore"):
                while stack:  # by hand, for speed; over activations, not only nodes
                    node, at = stack[-1]
                    frame = self.owner(node, at)
                    if id(node) in frame.values:
                        stack.pop()
                        continue
                    demand = self.step(node, frame)
                    if demand is not None:
                        stack.append(demand)
        except Trap as trap:  # in what stands nowhere it is where that is called
            trap.where = trap.where or next((n.span for n, _ in reversed(stack) if n.span is not None), None)
            raise
        result = self.value(body, root)
        self.check_result(root, result)
        return result

    def enter(self, closure: Closure, args: Sequence[Value]) -> Frame:
        """A fresh activation, its parameters and their symbolic dims bound."""
        function, parent = closure.function, closure.frame
        if parent is None:
            scopes = self.scopes.get(id(function)) or self.scopes.setdefault(id(function), function_scopes(function))
        else:
            scopes = parent.scopes
        explicit = has_explicit_shapes(function)
        symbols = dict(parent.symbols) if parent and not explicit else {}
        places = dict(parent.places) if parent and not explicit else {}
        if len(args) != len(function.params):
            raise Crash(f"{len(args)} arguments for {len(function.params)} parameters")
        met = [(p.type, a, f"parameter {p.name!r}") for p, a in zip(function.params, args, strict=True)]
        try:
            bind(met if not explicit else [], symbols, places)
        except Invalid as wrong:
            raise Trap("shape", wrong.message, where=function.span, label="func.T2") from None
        frame = Frame(function, parent, symbols, places, scopes)
        frame.values.update((id(p), a) for p, a in zip(function.params, args, strict=True))
        return frame

    def owner(self, node: graph.Expr, frame: Frame) -> Frame:
        """The activation that holds the node's value: that of the innermost function around all its uses
        (rule M2.3)."""
        at = frame.outwards(frame.scopes.depth.get(id(node), frame.depth))
        if at.function is not frame.scopes.owner.get(id(node), at.function):
            raise Crash(f"no activation of the scope of {graph.show_head(node)}")
        return at

    def value(self, node: graph.Expr, frame: Frame) -> Value:
        return self.owner(node, frame).values[id(node)]

    def missing(
        self, nodes: Sequence[graph.Expr], frame: Frame, of: graph.Expr | None = None
    ) -> tuple[graph.Expr, Frame] | None:
        """The first of `nodes` that has no value yet, left to right (rule M3). Operands `of` a node that were found to
        have one are not asked again (rule M3.1)."""
        start = frame.progress.get(id(of), 0) if of is not None else 0
        for i in range(start, len(nodes)):
            at = self.owner(nodes[i], frame)
            if id(nodes[i]) not in at.values:
                if of is not None and i:
                    frame.progress[id(of)] = i
                return nodes[i], at
        return None

    def name(self, node: graph.Let, frame: Frame) -> None:
        """The variable of a let gets the value; the sizes in its type get theirs, in the let's own activation."""
        value = self.value(node.value, frame)
        at = self.owner(node.var, frame)
        at.values[id(node.var)] = value
        if symbols(node.var.type):
            self.meet(node, value, at, node.var.type)
        self.drop(node.value, frame)

    def step(self, node: graph.Expr, frame: Frame) -> tuple[graph.Expr, Frame] | None:
        """Give `node` its value, or say which node must have one first."""
        match node:
            case graph.Let():
                if id(node) not in frame.progress:
                    if (demand := self.missing([node.value], frame)) is not None:
                        return demand
                    self.name(node, frame)
                    frame.progress[id(node)] = 1
                if (demand := self.missing([node.body], frame)) is not None:
                    return demand
                result = self.value(node.body, frame)
            case graph.If() | graph.Match():
                if (demand := self.missing(node.children[:1], frame)) is not None:
                    return demand
                branch = self.chosen(node, frame)
                if (demand := self.missing([branch], frame)) is not None:
                    return demand
                result = self.value(branch, frame)
                if symbols(node.type):  # else the branch's value has met the type
                    self.meet(node, result, frame)
            case graph.Function():
                result = Closure(node, frame)
            case graph.Call() if isinstance(node.op, graph.Expr):
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
                    result = self.apply(node, closure, [self.value(a, frame) for a in node.args], frame)
                self.meet(node, result, frame)
            case _:
                if (demand := self.missing(node.children, frame, node)) is not None:
                    return demand
                result = self.compute(node, [self.value(c, frame) for c in node.children], frame)
        frame.values[id(node)] = result
        self.release(node, frame)
        return None

    def release(self, node: graph.Expr, frame: Frame) -> None:
        """Drop operands whose last use this was, so that a long chain does not hold every value."""
        frame.progress.pop(id(node), None)
        for child in node.children if not isinstance(node, graph.Let) else (node.body,):
            self.drop(child, frame)

    def drop(self, child: graph.Expr, frame: Frame) -> None:
        """One use of a value is done."""
        left = frame.pending.get(id(child), frame.scopes.uses.get(id(child), 0)) - 1
        frame.pending[id(child)] = left
        if left == 0 and id(child) in frame.scopes.local:
            frame.values.pop(id(child), None)

    def holds(self, condition: Value, node: graph.Expr) -> bool:
        try:
            return bool(condition)
        except Unpredictable as why:
            raise why.at(node.span) from None

    def chosen(self, node: graph.If | graph.Match, frame: Frame) -> graph.Expr:
        """The branch that is taken; of a match the body of the clause that the value meets, its pattern's variables
        bound (rule M2.4)."""
        if isinstance(node, graph.If):
            return node.then if self.holds(self.value(node.condition, frame), node) else node.otherwise
        found = matching_clause(node, self.value(node.value, frame))
        if found is None:
            raise Trap("match", "no clause matches", where=node.span, label="match.T1")
        clause, bound = found
        for v, value in bound.items():
            frame.values[id(v)] = value
            if symbols(v.type):
                self.meet(node, value, frame, v.type)
        return clause.body

    def apply(self, node: graph.Call, callee: External | Maker, args: list[Value], frame: Frame) -> Value:
        """A call of what has no body here: a constructor or an extern function."""
        if isinstance(callee, Maker):
            return Data(callee.node.data, callee.node.name, tuple(args))
        if is_open(tuple(args)):
            raise Unpredictable(
                f"the extern {callee.node.name} is given values that the bounds leave open",
                where=node.span,
                label="bounds.C2",
            )
        seen = copied(tuple(args))
        if graph.acts(node):
            self.trace.append(Event("extern", callee.node.name, seen))
        try:
            result = given(callee.act(*seen), node.type, f"the result of {callee.node.name}", self.lift)
            if frame.explicit:  # sizes are its statements' to check; what else the value is, is not
                bind([(unsized(node.type), result, "the value")], {}, {})
            of = unsized(node.type) if frame.explicit else node.type
            check_contents(
                [(of, result, f"the result of {callee.node.name}")], frame.symbols, self.module, self.externs
            )
            return result
        except Invalid as wrong:
            raise Trap("shape", wrong.message, where=node.span, label="call.T1") from None

    def compute(self, node: graph.Expr, args: list[Value], frame: Frame) -> Value:  # noqa: C901  (a case for each kind of node)
        """The value of a node whose operands have theirs."""
        match node:
            case graph.Constant():
                return self.lift(node.data)
            case graph.GlobalVar():
                return self.global_value(node)
            case graph.ExternFunc():
                return External(node, self.externs[node.name])
            case graph.Constructor():
                return Maker(node)
            case graph.Var():
                raise Invalid(f"unbound variable {node.name}", where=node.span, label="graph.C1")
            case graph.Tuple():
                return tuple(args)
            case graph.TupleGetItem():
                return args[0][node.index]
            case graph.RefCreate():
                return Cell(args[0])
            case graph.RefRead():
                return args[0].value
            case graph.RefWrite():
                args[0].value = args[1]
                return ()
            case graph.Print():
                self.trace.append(Event("print", node.format, copied(tuple(args))))
                return ()
            case graph.AssertOp():
                if not self.holds(args[0], node):
                    message = render(node.format, args[1:]) or "the condition does not hold"
                    raise Trap("assertion", message, where=node.span, label="assert_op.T1")
                return ()
            case graph.MatchCast():
                result = args[0]
                if isinstance(node.type, ShapeType) and not isinstance(result, Shape):
                    result = as_shape(node, result, frame)
                if frame.explicit:
                    self.known.put(node, result, frame)
                else:
                    self.meet(node, result, frame)
                return result
            case graph.OnDevice():
                return args[0]
            case graph.ShapeExpr():
                return Shape(tuple(self.sizes(node, node.dims, frame)))
            case graph.ShapeOf():
                return Shape(tuple(args[0].shape))
            case graph.CallTIR():
                operands = [self.lift(a) for a in flat(args)]
                result = self.lift(self.applied(node, {}, operands, lambda *a: self.filler.fill(node, a, frame)))
                self.meet(node, result, frame)
            case graph.Call() if isinstance(node.op, Operator):
                try:
                    attrs = {k: self.known.attribute(v, frame) for k, v in node.attrs.items()}
                    if not frame.explicit:
                        self.check_sizes(node, frame)
                    # what a reference, a data value or a closure held was not lifted where it came from
                    with memory_traps(partial(graph.show_head, node), node.span):
                        operands = [self.lift(a) for a in args]
                        result = self.lift(self.applied(node, attrs, operands, partial(node.op.value, attrs)))
                    if not frame.explicit:
                        bind([(node.type, result, "the value")], frame.symbols, frame.places)
                except (Trap, Unpredictable) as wrong:
                    raise wrong.at(node.span) from None
                except Invalid as wrong:
                    # the operator's type rule says otherwise: a fault of its record, not of the program
                    raise Crash(f"{graph.show_head(node)}: {wrong.message}", where=node.span) from None
            case _:
                raise Crash(f"no rule for {type(node).__name__}")
        if self.observe is not None:
            instead = self.observe(node, result)
            if instead is not None:
                result = self.lift(instead)
        return result

    def sizes(self, node: graph.Expr, found: Sequence[Dim], frame: Frame) -> Iterator[int]:
        """Sizes as numbers. One that is negative is a trap."""
        for d in found:
            try:
                n = self.known.value(d, frame)
            except Trap as trap:
                raise trap.at(node.span) from None
            if n < 0 and not frame.explicit:
                raise Trap(
                    "shape", f"{graph.show_head(node)}: the size {show(d)} is {n}", where=node.span, label="size.T1"
                )
            yield n

    def check_sizes(self, node: graph.Expr, frame: Frame) -> None:
        """No size of the result that is known before the result is negative, and there is room for it."""
        for t in node.type.fields if isinstance(node.type, TupleType) else (node.type,):
            if isinstance(t, TensorType):
                known = [d for d in t.shape if isinstance(d, int) or all(v in frame.symbols for v in variables(d))]
                shape = t.static_shape if t.is_static else list(self.sizes(node, known, frame))
                require_budget(shape, t.dtype, partial(graph.show_head, node), node.span)
                wrong = too_large(shape, t.dtype)
                if wrong is not None:
                    raise Trap(
                        "memory", f"{graph.show_head(node)} would take {wrong}", where=node.span, label="memory.T1"
                    )

    def global_value(self, node: graph.GlobalVar) -> Value:
        if node.name in self.module.constants:
            return self.lift(self.module.constants[node.name])
        target = self.module.definitions.get(node.name)
        if not isinstance(target, graph.Function):
            raise Invalid(f"the module has no function or constant {node.name}", where=node.span, label="graph.C2")
        return Closure(target, None)

    def meet(self, node: graph.Expr, result: Value, frame: Frame, of: Type | None = None) -> None:
        """The value has the node's type: sizes that only the run can tell get their values, or agree (rule M4.6)."""
        if frame.explicit:
            return
        try:
            bind([(of or node.type, result, "the value")], frame.symbols, frame.places)
        except Invalid as wrong:
            label = "match_cast.T1" if isinstance(node, graph.MatchCast) else "call.T1"
            raise Trap("shape", f"{graph.show_head(node)}: {wrong.message}", where=node.span, label=label) from None

    def check_result(self, frame: Frame, result: Value) -> None:
        """A declared result holds on return (rule M4)."""
        if frame.explicit:
            return
        try:
            bind([(frame.function.result_type, result, "result")], dict(frame.symbols), dict(frame.places))
        except Invalid as wrong:
            raise Trap("shape", wrong.message, where=frame.function.span, label="func.T1") from None
