"""`assay run MODEL.onnx`: a model on named arrays, by the definition of its operators (specs/verify.md, "Command
line")."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import onnx

from assay.interp import graph
from assay.interp.values import Value
from assay.lower.frontends.onnx.interface import declared_inputs
from assay.lower.frontends.onnx.string_table import Strings, text_names
from assay.semantics.errors import Invalid, Trap
from assay.semantics.module import Module
from assay.semantics.scalar import Var as Symbol
from assay.semantics.types import symbols
from assay.verify.app.program_run import ProgramRun, first_run
from assay.verify.app.size_choice import SizeChoice, drawn
from assay.verify.border.inputs import NamedBounds, complete, import_with, narrowed_bounds, require_named
from assay.verify.border.values import from_value
from assay.verify.trials.sizes import Sizes, declared_bounds

Array = np.ndarray[Any, Any]


@dataclass(frozen=True)
class _Imported:
    """A model imported for one run: its inputs as numbers, and the table of its strings."""

    module: Module
    given: Mapping[str, Array]
    strings: Strings

    def run(self, model: onnx.ModelProto, seed: int) -> ProgramRun:
        """A run on inputs that are given or drawn."""
        inputs = complete(self.module.main, self.given, seed)
        results: dict[str, Value] = {}
        trap: Trap | None = None
        try:
            results = graph.run(self.module, inputs)
        except Trap as ended:
            trap = ended
        for values, declared in ((inputs, model.graph.input), (results, model.graph.output)):
            values |= {n: self.strings.texts(values[n]) for n in text_names(declared) if n in values}
        return ProgramRun(self.module, "main", inputs, results=results, trap=trap, seed=seed)


@dataclass(frozen=True)
class ModelRun:
    """A model, and what is given for it: inputs as named arrays, sizes by name."""

    model: onnx.ModelProto
    given: Mapping[str, Array]
    dims: Mapping[str, int]
    source: str = ""

    def run(self, seed: int, bounds: NamedBounds | None = None) -> ProgramRun:
        """The run; inputs that are not given are random. Sizes that nothing gives are the first of those that `check`
        tries, within `bounds`, at which the model runs. Raises what the import and the forms of values raise, and
        Invalid (input.C6, values.C4) for strings that are missing, or are none."""
        self._require_strings()
        refused: Invalid | None = None
        imported: _Imported | None = None
        try:
            imported = self.imported({})
        except Invalid as wrong:  # it may be one with numbers alone
            refused = wrong
        free, names = self._free(imported, refused)
        require_named([*names.values(), *self.dims], bounds or {}, "the model")
        declared = declared_bounds(imported.module.main) if imported is not None else {}
        within = narrowed_bounds(
            names, declared, bounds or {}, {s: self.dims[n] for s, n in names.items() if n in self.dims}
        )
        if imported is not None and not free:
            return replace(imported.run(self.model, seed), sizes=self.dims)

        def at(sizes: Sizes) -> tuple[ProgramRun, Trap | None]:
            chosen = {names[s]: n for s, n in sizes.items()}
            there = self.imported(chosen)

            def attempt(seed: int) -> tuple[ProgramRun, Trap | None]:
                done = there.run(self.model, seed)
                return done, done.trap

            some_missing = set(there.given) < {p.name for p in there.module.main.params}
            done, drawn_at, trap = drawn(attempt, seed, some_missing)
            return replace(done, sizes={**self.dims, **chosen}, chosen=chosen, redrawn=drawn_at != seed), trap

        module = imported.module if imported is not None else None
        types = declared_inputs(self.model.graph)[0].values()
        return first_run(SizeChoice(free, within, at, module, without=refused), list(types))

    def imported(self, sizes: Mapping[str, int]) -> _Imported:
        """The model at some more sizes."""
        strings = Strings()
        names = text_names(self.model.graph.input)
        numbers = {n: strings.numbers(a) if n in names else a for n, a in self.given.items()}
        how = {"model": self.model, "evaluate": graph.evaluate, "source": self.source, "strings": strings}
        return _Imported(import_with(self.given, dims={**self.dims, **sizes}, **how), numbers, strings)

    def _free(self, imported: _Imported | None, refused: Invalid | None) -> tuple[list[Symbol], dict[Symbol, str]]:
        """The symbols that have no number, and what all that there are are called in options."""
        try:
            types, names = declared_inputs(self.model.graph)
        except Invalid:
            types, names = {}, {}
        if imported is None:
            free = [s for t in types.values() for s in symbols(t) if names[s] not in self.dims]
            if not free and refused is not None:
                raise refused
            return list(dict.fromkeys(free)), names
        called = {s.name: name for s, name in names.items()}
        found = dict.fromkeys(s for p in imported.module.main.params for s in symbols(p.type))
        given = {s: name for s, name in names.items() if name in self.dims}
        return list(found), {**given, **{s: called.get(s.name, s.name) for s in found}}

    def _require_strings(self) -> None:
        """Invalid where an input of strings is not given (input.C6), or what is given for it is none (values.C4)."""
        stored = {t.name for t in self.model.graph.initializer}
        for name in text_names(self.model.graph.input):
            if name in self.given:
                require_strings(name, self.given[name])
            elif name not in stored:
                raise Invalid(
                    f"input {name!r} is of strings: give it with --inputs, as an array of dtype str", label="input.C6"
                )


def run_values(
    model: onnx.ModelProto, given: Mapping[str, Array], dims: Mapping[str, int], seed: int, source: str
) -> dict[str, Any]:
    """The outputs by name, as Python has them. Raises what `ModelRun` raises, and Trap where the run does."""
    done = ModelRun(model, given, dims, source).run(seed)
    if done.trap is not None:
        raise done.trap
    return {n: from_value(v, done.module, f"output {n!r}") for n, v in done.results.items()}


def strings_met(
    model: onnx.ModelProto, given: Mapping[str, Array], dims: Mapping[str, int], source: str
) -> Sequence[str]:
    """The strings that are given for a model, it has itself, or its operators make of those. Raises what the import
    raises."""
    strings = ModelRun(model, given, dims, source).imported({}).strings
    return list(map(str, strings.texts(range(len(strings)))))


def require_strings(name: str, given: Array) -> None:
    """Invalid (values.C4): what is given for an input of strings is none."""
    if given.dtype.kind != "U":
        raise Invalid(
            f"input {name!r} is {given.dtype}; strings are wanted, as an array of dtype str", label="values.C4"
        )
    for s in given.reshape(-1):
        try:
            s.encode()
        except UnicodeEncodeError as wrong:
            raise Invalid(
                f"input {name!r} has {str(s)!r}, which is no text in UTF-8: {wrong.reason}", label="values.C4"
            ) from None
