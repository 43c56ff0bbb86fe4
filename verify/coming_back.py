"""Whether what was exported means what the module does: it is read again, and compared (specs/verify.md, "export").

It is the same by proof, or what it gives on inputs of several kinds lies within the module's bounds. Where sizes are
symbols a proof is for all of them, and inputs are of several sizes: of those that the module's own casts allow, some
that are all different, ones, a 0, and odd ones.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import islice
from typing import Any

import numpy as np

from assay.interp import graph
from assay.lower.simplify.bind_params import with_sizes
from assay.lower.simplify.size_checks import SizeChecks
from assay.semantics.errors import Invalid, Trap, Unpredictable
from assay.semantics.graph import AssertOp, Function, MatchCast, free_variables, let as graph_let, let_chain
from assay.semantics.graph.matching import Bound, compatible, match_types
from assay.semantics.module import Module
from assay.semantics.scalar import Var as Symbol
from assay.semantics.types import same_type, symbols
from assay.verify.evidence import Evidence, of_outcome, plural
from assay.verify.judge.samples import Sample, input_sets
from assay.verify.oracle import Oracle
from assay.verify.oracle.data import Kind
from assay.verify.simplify import differs
from assay.verify.trials.fitting import facts_of, fitting_sizes

KINDS: tuple[Kind, ...] = ("random", "integers", "specials", "ties")
"""What inputs are made of where a proof is not found."""

ORDINARY = (2, 3, 4, 5)
"""What the first symbols are, beside sizes that are all different; the others are as the last one here."""


def came_back(module: Module, back: Module, seed: int = 0, kinds: Sequence[Kind] = KINDS) -> Evidence:
    """The verdict on `back`, which was read from what `module` was exported as: parameters and results by their
    places."""
    back = _sized_alike(module, back)
    wrong = _unlike(module, back)
    if wrong:
        return Evidence("checked", False, wrong)
    why = differs(module.main, module, back.main, back)
    if not why:
        return Evidence("proved", True, "the same for every input")
    oracle, tried = Oracle(module), _Tried()
    for sample in _samples(module, kinds, seed):
        sizes = _sizes_text(module, sample.inputs)
        where = f"on {sample.kind} inputs{sizes and f' at {sizes}'}"
        try:
            expected = oracle.expected(sample.inputs)
            names = list(graph.run(module, sample.inputs))
        except (Trap, Unpredictable) as trap:
            tried.trapped = trap.message
            tried.failing[sizes] = None
            continue
        try:
            made = _given_by(back, [sample.inputs[p.name] for p in module.main.params])
        except Unpredictable as why_not:
            tried.trapped = why_not.message
            continue
        except (Trap, Invalid) as failed:
            return Evidence("tested", False, f"{where} it fails, where the program does not: {failed.message}")
        verdict = oracle.judge(expected, dict(zip(names, made, strict=True)))
        if verdict.outcome not in ("right", "open", "undecided"):
            return of_outcome(verdict.outcome, f"{where}: {verdict}")
        tried.add(verdict.outcome, sizes, made)
    return tried.evidence(why)


def _given_by(module: Module, arrays: Sequence[Any]) -> list[Any]:
    """The results of a module, whose parameters are given by their places."""
    inputs = {p.name: a for p, a in zip(module.main.params, arrays, strict=True)}
    return list(graph.run(module, inputs).values())


@dataclass(eq=False)
class _Tried:
    """What runs have shown so far."""

    compared: int = 0
    open: int = 0
    sizes: dict[str, None] = field(default_factory=dict)
    has_elements: bool = False
    """Whether there were elements to compare: where a size is 0 there may be none."""
    trapped: str = ""
    failing: dict[str, None] = field(default_factory=dict)
    """Sizes at which the program itself gave nothing to compare with."""

    def add(self, outcome: str, sizes: str, made: Sequence[Any]) -> None:
        """A run of which nothing is wrong."""
        if outcome == "undecided":
            return
        self.compared += 1
        self.open += outcome == "open"
        self.has_elements |= any(np.size(v) for v in made)
        if sizes:
            self.sizes[sizes] = None

    def evidence(self, why: str) -> Evidence:
        """What they come to; `why` there is no proof."""
        if not self.compared or (self.sizes and not self.has_elements):
            said = f"nothing could be compared{self.trapped and ': '}{self.trapped}"
            return Evidence("tested", None, said, outcome="undecided")
        said = f"within the bounds on {plural(self.compared, 'set')} of inputs"
        if self.sizes:
            said += f", of sizes {'; '.join(self.sizes)}"
            failing = [s for s in self.failing if s and s not in self.sizes]
            said += f"; at {'; '.join(failing)} the program itself gives nothing" if failing else ""
        if self.open:
            said += f", on {self.open} of them but for what the definition leaves open"
        return Evidence("tested", True, f"{said}; not proved: {why}")


def _samples(module: Module, kinds: Sequence[Kind], seed: int) -> Iterator[Sample]:
    """Inputs of all kinds, of sizes that are all different where they are symbols, and some of other sizes."""
    yield from input_sets(module, {}, kinds, 1, seed)
    free = tuple(dict.fromkeys(s for p in module.main.params for s in symbols(p.type)))
    for wanted in _more_sizes(free):
        sizes = _fitting(module, wanted)
        try:
            sized = module.with_(main=with_sizes(module.main, dict(sizes.items())))
        except Invalid:
            continue  # outside of what is declared
        yield from islice(input_sets(sized, {}, kinds, 1, seed), 1)


def _more_sizes(free: Sequence[Symbol]) -> Iterator[dict[Symbol, int]]:
    """Sizes that are all 1, one of the first that is 0 beside ordinary ones, all 0, and ordinary ones."""
    if free:
        ordinary = {s: ORDINARY[min(k, len(ORDINARY) - 1)] for k, s in enumerate(free)}
        yield dict.fromkeys(free, 1)
        if len(free) > 1:
            yield from ({**ordinary, s: 0} for s in free[: len(ORDINARY)])
        yield dict.fromkeys(free, 0)
        yield ordinary


def _fitting(module: Module, wanted: Mapping[Symbol, int]) -> dict[Symbol, int]:
    """Sizes that the module's casts allow, as many of them as wanted as there can be."""
    free = tuple(wanted)
    if all(f.holds(dict(wanted)) for f in facts_of(module, free)):
        return dict(wanted)
    for some in reversed(range(len(free))):
        for found in fitting_sizes(module, free, 1, dict(list(wanted.items())[:some])):
            return found
    return dict(wanted)


def _sizes_text(module: Module, inputs: Mapping[str, Any]) -> str:
    """What the symbols are in a run, such as "N=2 M=3"; "" where there are none."""
    return " ".join(f"{s.name}={n}" for s, n in graph.check_inputs(module.main, inputs).items())


def _sized_alike(module: Module, back: Module) -> Module:
    """`back` with the symbols of `module` for its own, where these stand for one another."""
    found: Bound = {}
    if len(back.main.params) != len(module.main.params):
        return back
    try:
        match_types([p.type for p in back.main.params], [p.type for p in module.main.params], found)
    except Invalid:
        return back  # what is not alike is said of the types
    return back.with_(main=_without_shown(with_sizes(back.main, found)))


def _without_shown(function: Function) -> Function:
    """The function without what it asserts and computes of sizes that its own types say. A size has less than 2^31
    elements: StableHLO has them as int32, and what is computed to make that of one is not taken for a failure."""
    lets, last = let_chain(function.body)
    checks = SizeChecks(lets)
    body, used = last, set(free_variables(last))
    for let in reversed(lets):
        value = let.value
        if isinstance(value, AssertOp) and checks.hold(value):
            continue
        if let.var not in used and checks.known.contents(let.var) is not None:
            continue
        if isinstance(value, MatchCast) and same_type(value.type, value.value.type):
            value = value.value
        used.update(free_variables(value))
        body = graph_let(let.var, value, body, span=let.span)
    return replace(function, body=body)


def _unlike(module: Module, back: Module) -> str:
    """What of the interface is not the same; "" where all is."""
    one, two = module.main.func_type, back.main.func_type
    pairs = zip((*one.params, one.result), (*two.params, two.result), strict=False)
    if len(one.params) != len(two.params):
        return f"it has {len(two.params)} parameters, not {len(one.params)}"
    odd = next(((a, b) for a, b in pairs if not compatible(a, b, one.params)), None)
    return "" if odd is None else f"a parameter or result is {odd[1]}, not {odd[0]}"
