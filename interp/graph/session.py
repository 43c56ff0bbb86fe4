"""A module that is called step by step: inputs set by name or position, then a call, then outputs one by one; and calls
that are saved as functions (rows R27 and J21; specs/interp.md, "Session")."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from assay.interp import vm
from assay.interp.graph import run
from assay.interp.graph.boundary import bind, given
from assay.interp.graph.contents import check_contents
from assay.interp.values import Event, Externs, Shape, Value
from assay.interp.vm.saving import with_saved_call
from assay.semantics import graph
from assay.semantics.errors import Invalid
from assay.semantics.graph import Expr, Function, GlobalVar, ShapeExpr, Var
from assay.semantics.graph.matching import instantiate
from assay.semantics.module import Module
from assay.semantics.scalar import Var as Symbol
from assay.semantics.types import ShapeType, Type, open_symbols, symbols
from assay.semantics.walk import fold_scoped


class Session:
    """Inputs stay set between calls. A wrong one is Invalid when it is set, not when it is used."""

    def __init__(self, module: Module, externs: Externs | None = None) -> None:
        self.module = module.resolved()
        self.externs = externs
        self.types = types_of_entry(module, "main")
        self.inputs: dict[str, Value] = {}
        self.outputs: Mapping[str, Value] | None = None
        self.trace: list[Event] = []

    def input_index(self, name: str) -> int:
        """The position of an input among the parameters; Invalid (input.C1) where none has that name."""
        if name not in self.types:
            raise Invalid(f"unknown input {name!r}; the inputs are {', '.join(self.types) or 'none'}", label="input.C1")
        return list(self.types).index(name)

    def set_input(self, which: str | int, value: Any) -> None:
        """Set one input, by name or position."""
        if isinstance(which, int):
            if not 0 <= which < len(self.types):
                raise Invalid(f"no input {which}; there are {len(self.types)}", label="input.C1")
            which = list(self.types)[which]
        self.input_index(which)
        made = given(value, self.types[which], f"input {which!r}")
        known = {**self.inputs, which: made}
        types = [(t, n) for n, t in self.types.items() if n in known]
        plain = {s for t, _ in types for s in open_symbols(t)}
        # a size that needs an input which is not set yet is asked when the module is invoked
        ready = [(t, known[n], f"input {n!r}") for t, n in types if plain.issuperset(symbols(t))]
        bind(ready, {}, {})
        check_contents([(self.types[which], made, f"input {which!r}")], {}, self.module, self.externs or {})
        self.inputs[which] = made

    def invoke(self, function: str = "main", *values: Any, **named: Any) -> None:
        """Run the module on the inputs that are set; or another of its functions, on these."""
        inputs: Mapping[str, Any] = self.inputs
        if function != "main" or values or named:
            inputs = self.by_name(list(types_of_entry(self.module, function)), function, values, named)
        if self.module.is_bytecode:
            self.outputs = vm.run(self.module, inputs, externs=self.externs, trace=self.trace, entry=function)
        else:
            target = self.function(function)
            self.outputs = run(self.module, inputs, externs=self.externs, trace=self.trace, entry=target)

    def function(self, name: str) -> Function:
        """The module's graph function of that name; Invalid (session.C3) where there is none."""
        return function_of(self.module, name)

    @staticmethod
    def by_name(names: list[str], function: str, values: tuple[Any, ...], named: Mapping[str, Any]) -> dict[str, Any]:
        """Arguments by the names of the parameters."""
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

        So `module` can be written as text, and `assay run FILE.py --function SAVED` does the call again; bytecode as a
        file, which is run so. Invalid: the
        name is taken (session.C4); a value that no module can hold, such as a closure or a reference (session.C5).
        """
        taken = {*self.module.definitions, *self.module.constants}
        taken |= {*self.module.bytecode.functions} if self.module.is_bytecode else set()
        if saved in taken or not saved:
            raise Invalid(f"the module has a {saved!r} already; save the call under another name", label="session.C4")
        types = types_of_entry(self.module, function)
        there = self.by_name(list(types), function, values, named)
        made = {n: given(there[n], t, f"input {n!r}") for n, t in types.items() if n in there}
        plain = {s for n in made for s in open_symbols(types[n])}
        sizes: dict[Symbol, int] = {}
        bind([(types[n], v, f"input {n!r}") for n, v in made.items() if plain.issuperset(symbols(types[n]))], sizes, {})
        if self.module.is_bytecode:
            self.module = with_saved_call(self.module, saved, function, made, sizes)
            return
        target = self.function(function)
        left = {n: Var(instantiate(t, dict(sizes.items())), n) for n, t in types.items() if n not in made}
        args = [_literal(made[n], n) if n in made else left[n] for n in types]
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


def function_of(module: Module, name: str) -> Function:
    """The module's graph function of that name; Invalid (session.C3) where there is none."""
    found = module.definitions.get(name)
    if not isinstance(found, Function):
        there = ", ".join(n for n, d in module.definitions.items() if isinstance(d, Function))
        raise Invalid(f"the module has no graph function {name}; there are {there}", label="session.C3")
    return found


def types_of_entry(module: Module, name: str) -> dict[str, Type]:
    """The types of what a function takes, by name. Invalid: there is none of that name that can be called from
    outside."""
    if module.is_bytecode:
        return dict(module.bytecode.entry(name).inputs)
    return {p.name: p.type for p in function_of(module, name).params}


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
