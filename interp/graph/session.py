"""A module that is called step by step: inputs set by name or position, then a call, then outputs one by one (rows R27
and J21; specs/interp.md, "Session")."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from assay.interp.graph import run
from assay.interp.graph.boundary import bind, given
from assay.interp.graph.contents import check_contents
from assay.interp.values import Event, Externs, Value
from assay.semantics.errors import Invalid
from assay.semantics.module import Module
from assay.semantics.types import open_symbols, symbols


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
        """The position of an input."""
        if name not in self.params:
            raise Invalid(f"unknown input {name!r}; the inputs are {', '.join(self.params) or 'none'}", label="input.C1")
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

    def set_inputs(self, *values: Any, **named: Any) -> None:
        """Set inputs from the first position on, and by name."""
        for i, value in enumerate(values):
            self.set_input(i, value)
        for name, value in named.items():
            self.set_input(name, value)

    def invoke(self) -> None:
        """Run the module on the inputs that are set."""
        self.outputs = run(self.module, self.inputs, externs=self.externs, trace=self.trace)

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
