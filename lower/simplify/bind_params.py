"""Parameters of a function bound to constants (row R18; specs/lower.md, "simplify").

A symbol that a bound parameter has as a dim gets the number that its array says, everywhere in the function.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from assay.semantics import graph
from assay.semantics.analyses.variables import called
from assay.semantics.errors import Invalid
from assay.semantics.graph import (
    Call,
    CallTIR,
    Clause,
    Constructor,
    Expr,
    ExternFunc,
    Function,
    GlobalVar,
    If,
    Let,
    Match,
    ShapeExpr,
    Var,
)
from assay.semantics.graph.limits import LOWER, UPPER, declared_limits
from assay.semantics.graph.matching import Bound, instantiate, instantiate_dim, join, match_types
from assay.semantics.graph.patterns import with_variables
from assay.semantics.module import Module
from assay.semantics.scalar import Expr as Scalar, Var as Symbol, evaluate_dim, variables
from assay.semantics.types import Type, dims
from assay.semantics.walk import post_order


def bind_params(module: Module, values: Mapping[str, np.ndarray[Any, Any]], function: str = "main") -> Module:
    """The module with parameters of `function` bound by name; the others stay, in their order."""
    target = module.definitions.get(function)
    if not isinstance(target, Function):
        raise Invalid(f"the module has no graph function {function}", label="bind_params.C1")
    for name, d in module.definitions.items():
        if isinstance(d, Function) and function in called(d).functions:
            raise Invalid(f"{name} calls {function}, whose parameters are to be bound", label="bind_params.C4")
    return module.with_(**{function: _bound(target, values)})


def with_sizes(function: Function, sizes: Bound) -> Function:
    """The function with other dims for symbols, in its parameters, body, result and attributes."""
    return _rewritten(function, {}, sizes)


def _bound(function: Function, values: Mapping[str, np.ndarray[Any, Any]]) -> Function:
    by_name = {p.name: p for p in function.params}
    symbols: Bound = {}
    constants: dict[Var, Expr] = {}
    for name, array in values.items():
        if name not in by_name:
            raise Invalid(f"no parameter {name}; there are {', '.join(by_name) or 'none'}", label="bind_params.C2")
        constants[by_name[name]] = graph.constant(array)
    wanted = [p.type for p in constants]
    try:
        match_types(wanted, [c.type for c in constants.values()], symbols)
    except Invalid as wrong:
        raise Invalid(f"{', '.join(values)}: {wrong.message}", label="bind_params.C3") from None
    _check_dims(constants, symbols)
    return _rewritten(function, constants, symbols)


def _check_dims(constants: Mapping[Var, Expr], symbols: Bound) -> None:
    """Each dim of a bound parameter is the number that its array has."""
    known: dict[Symbol, int] = {s: d for s, d in symbols.items() if isinstance(s, Symbol) and isinstance(d, int)}
    for p, c in constants.items():
        for d, n in zip(dims(p.type), dims(c.type), strict=True):
            if isinstance(d, Scalar) and set(variables(d)) <= set(known) and evaluate_dim(d, known) != n:
                raise Invalid(f"{p.name} is {c.type}, expected {instantiate(p.type, symbols)}", label="bind_params.C3")


def _rewritten(function: Function, constants: Mapping[Var, Expr], symbols: Bound) -> Function:
    """The function with constants for parameters, and numbers for symbols in every type, attribute and shape."""
    vars: dict[Var, Var] = {}

    def var(v: Var) -> Var:
        if symbols and v not in vars:
            vars[v] = replace(v, type=instantiate(v.type, symbols))
        return vars.get(v, v)

    new: dict[int, Expr] = {}
    for node in post_order(function.body):
        made = node.with_children([new[id(c)] for c in node.children])
        if isinstance(made, Var):
            made = constants.get(made) or var(made)
        elif symbols:
            made = _with_symbols(made, symbols, var)
        new[id(node)] = made
    left = tuple(var(p) for p in function.params if p not in constants)
    of = function.func_type
    type_ = replace(of, params=tuple(p.type for p in left), result=instantiate(of.result, symbols))
    return replace(function, type=type_, params=left, body=new[id(function.body)], attrs=_attrs(function, symbols))


def _attrs(function: Function, symbols: Bound) -> Mapping[str, Any]:
    """The attributes, without the limits of symbols that are numbers now. Invalid: a number is outside of them."""
    told = {s: n for s, n in symbols.items() if isinstance(n, int)}
    if not told or not {UPPER, LOWER} & set(function.attrs):
        return function.attrs
    attrs = dict(function.attrs)
    for s, low, high in declared_limits(function):
        if s in told:
            if told[s] < low or (high is not None and told[s] > high):
                said = f"at least {low}" + ("" if high is None else f" and at most {high}")
                raise Invalid(f"{s.name} would be {told[s]}; it is declared to be {said}", label="bind_params.C5")
            for name in (UPPER, LOWER):
                attrs[name] = {n: k for n, k in attrs.get(name, {}).items() if n != s.name}
    return {k: v for k, v in attrs.items() if k not in (UPPER, LOWER) or v}


def _with_symbols(node: Expr, symbols: Bound, var: Callable[[Var], Var]) -> Expr:
    """A node whose parts are rewritten, with numbers for symbols. Names of the module keep their own symbols."""
    of = instantiate(node.type, symbols)
    match node:
        case GlobalVar() | ExternFunc() | Constructor():
            return node
        case Let():
            return replace(node, type=of, var=var(node.var))
        case Function():
            return replace(node, type=of, params=tuple(map(var, node.params)))
        case Match():
            return replace(
                node, type=of, clauses=tuple(Clause(with_variables(c.pattern, var), c.body) for c in node.clauses)
            )
        case ShapeExpr():
            return replace(node, type=of, dims=numbers(node.dims, symbols))
        case If():
            return replace(node, type=of, then=_beside(node.then, node.otherwise.type))
        case CallTIR():
            return replace(node, type=of, scalars=numbers(node.scalars, symbols))
        case Call():
            return replace(node, type=of, attrs={k: numbers(v, symbols) for k, v in node.attrs.items()})
        case _:
            return replace(node, type=of)


def _beside(then: Expr, otherwise: Type) -> Expr:
    """One arm of a choice beside another: what it gives is of sizes that only a run tells where they are known by now
    to be others than the other's."""
    try:
        join([then.type, otherwise])
    except Invalid:
        return graph.match_cast(then, join([then.type, otherwise], opens=True), then.span)
    return then


def numbers(value: Any, symbols: Bound) -> Any:
    """A dim, or a tuple of them, at the values of the symbols."""
    if isinstance(value, tuple):
        return tuple(numbers(v, symbols) for v in value)
    return instantiate_dim(value, symbols) if isinstance(value, Scalar) else value
