"""A module that is called step by step: inputs set by name or position, then a call, then outputs one by one; and calls
that are saved as functions (rows R27 and J21; specs/interp.md, "Session")."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from assay.interp.graph import run
from assay.interp.graph.boundary import bind, given
from assay.interp.graph.contents import check_contents
from assay.interp.values import Event, Externs, Shape, Value
from assay.semantics import graph
from assay.semantics.errors import Invalid
from assay.semantics.graph import Expr, Function, GlobalVar, ShapeExpr, Var
from assay.semantics.graph.matching import instantiate
from assay.semantics.module import Module
from assay.semantics.scalar import Var as Symbol
from assay.semantics.types import ShapeType, open_symbols, symbols
from assay.semantics.walk import fold_scoped


class Session:
    """Inputs stay set between calls. A wrong one is Invalid when it is set, not when it is used."""

    def __init__(self, module: Module, externs: Externs | None = None) -> None:
        self.module = module.resolved()
        self.externs = externs
        self.params = {p.name: p for p in module.main.params}
        self.inputs: dict[str, Value] = {}
        self.outputs: Mapping[str, Value] | None = None
        self.trace: list[Event] = []

    def input_index(self, name: str) -> int:
        """The position of an input among the parameters; Invalid (input.C1) where none has that name."""
        if name not in self.params:
            raise Invalid(
                f"unknown input {name!r}; the inputs are {', '.join(self.params) or 'none'}", label="input.C1"
            )
        return list(self.params).index(name)

    def set_input(self, which: str | int, value: Any) -> None:
        """Set one input, by name or position."""
        if isinstance(which, int):
            if not 0 <= which < len(self.params):
                raise Invalid(f"no input {which}; there are {len(self.params)}", label="input.C1")
            which = list(self.params)[which]
        self.input_index(which)
        made = given(value, self.params[which].type, f"input {which!r}")
        known = {**self.inputs, which: made}
        types = [(p.type, n) for n, p in self.params.items() if n in known]
        plain = {s for t, _ in types for s in open_symbols(t)}
        # a size that needs an input which is not set yet is asked when the module is invoked
        ready = [(t, known[n], f"input {n!r}") for t, n in types if plain.issuperset(symbols(t))]
        bind(ready, {}, {})
        check_contents([(self.params[which].type, made, f"input {which!r}")], {}, self.module, self.externs or {})
        self.inputs[which] = made

    def invoke(self, function: str = "main", *values: Any, **named: Any) -> None:
        """Run the module on the inputs that are set; or another of its functions, on these."""
        if function == "main" and not values and not named:
            self.outputs = run(self.module, self.inputs, externs=self.externs, trace=self.trace)
            return
        target = self.function(function)
        inputs = self.by_name(target, function, values, named)
        self.outputs = run(self.module, inputs, externs=self.externs, trace=self.trace, entry=target)

    def function(self, name: str) -> Function:
        """The module's graph function of that name; Invalid (session.C3) where there is none."""
        found = self.module.definitions.get(name)
        if not isinstance(found, Function):
            there = ", ".join(n for n, d in self.module.definitions.items() if isinstance(d, Function))
            raise Invalid(f"the module has no graph function {name}; there are {there}", label="session.C3")
        return found

    @staticmethod
    def by_name(target: Function, function: str, values: tuple[Any, ...], named: Mapping[str, Any]) -> dict[str, Any]:
        """Arguments by the names of the parameters."""
        names = [p.name for p in target.params]
        if len(values) > len(names):
            raise Invalid(f"{function} takes {len(names)} inputs, {len(values)} are given", label="input.C1")
        found = dict(zip(names, values, strict=False))
        for name, value in named.items():
            if name not in names or name in found:
                what = "is given twice" if name in found else f"is unknown; the inputs are {', '.join(names) or 'none'}"
                raise Invalid(f"input {name!r} of {function} {what}", label="input.C1")
            found[name] = value
        return found

    def save_function(self, saved: str, function: str = "main", *values: Any, **named: Any) -> None:
        """Save a call of a function as the function `saved` of the module: it takes what is not given here, and calls
        the function on that and on these values. They are kept as they are now, whatever becomes of the caller's
        arrays.

        So `module` can be written as text, and `assay run FILE.py --function SAVED` does the call again. Invalid: the
        name is taken (session.C4); a value that no module can hold, such as a closure or a reference (session.C5).
        """
        if saved in self.module.definitions or saved in self.module.constants or not saved:
            raise Invalid(f"the module has a {saved!r} already; save the call under another name", label="session.C4")
        target = self.function(function)
        there = self.by_name(target, function, values, named)
        made = {p: given(there[p.name], p.type, f"input {p.name!r}") for p in target.params if p.name in there}
        plain = {s for p in made for s in open_symbols(p.type)}
        sizes: dict[Symbol, int] = {}
        bind(
            [(p.type, v, f"input {p.name!r}") for p, v in made.items() if plain.issuperset(symbols(p.type))], sizes, {}
        )
        left = {p: Var(instantiate(p.type, dict(sizes.items())), p.name) for p in target.params if p not in made}
        args = [_literal(made[p], p.name) if p in made else left[p] for p in target.params]
        body = graph.call(GlobalVar(target.type, function), *args)
        self.module = self.module.with_(
            **{saved: graph.function(list(left.values()), body, pure=target.func_type.pure)}
        )

    def output(self, which: str | int = 0) -> Value:
        """A result of the last call, by name or position."""
        if self.outputs is None:
            raise Invalid("nothing has been invoked yet", label="session.C1")
        names = list(self.outputs)
        if isinstance(which, int) and 0 <= which < len(names):
            which = names[which]
        if not isinstance(which, str) or which not in self.outputs:
            raise Invalid(f"no output {which!r}; the outputs are {', '.join(names)}", label="session.C2")
        return self.outputs[which]


def _literal(value: Value, name: str) -> Expr:
    """An expression that has a value, without a reference to the caller's memory."""

    def made(value: Value, fields: list[Expr]) -> Expr:
        match value:
            case tuple():
                return graph.tuple_of(*fields)
            case Shape():
                return ShapeExpr(ShapeType(value.dims), value.dims)
            case np.ndarray():
                return graph.constant(value.copy())
            case _:
                raise Invalid(
                    f"input {name!r} holds {type(value).__name__}, which a module cannot hold", label="session.C5"
                )

    return fold_scoped(value, lambda v: v if isinstance(v, tuple) else (), made)
