"""Whether what was exported means what the module does: it is read again, and compared (specs/verify.md, "export").

It is the same by proof, or what it gives on inputs of several kinds lies within the module's bounds.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from assay.interp import graph
from assay.lower.simplify.bind_params import with_sizes
from assay.semantics.errors import Invalid, Trap, Unpredictable
from assay.semantics.graph.matching import Bound, match_types
from assay.semantics.module import Module
from assay.semantics.types import same_type
from assay.verify.evidence import Evidence, of_outcome, plural
from assay.verify.judge.samples import input_sets
from assay.verify.oracle import Oracle
from assay.verify.oracle.data import Kind
from assay.verify.simplify import differs

KINDS: tuple[Kind, ...] = ("random", "integers", "specials", "ties")
"""What inputs are made of where a proof is not found."""


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
    oracle, compared, open_, trapped = Oracle(module), 0, 0, ""
    for sample in input_sets(module, {}, kinds, 1, seed):
        try:
            expected = oracle.expected(sample.inputs)
            names = list(graph.run(module, sample.inputs))
            given = [sample.inputs[p.name] for p in module.main.params]
            inputs = {p.name: a for p, a in zip(back.main.params, given, strict=True)}
            made: list[Any] = list(graph.run(back, inputs).values())
        except (Trap, Unpredictable) as trap:
            trapped = trap.message
            continue
        verdict = oracle.judge(expected, dict(zip(names, made, strict=True)))
        if verdict.outcome not in ("right", "open", "undecided"):
            return of_outcome(verdict.outcome, f"on {sample.kind} inputs: {verdict}")
        compared += verdict.outcome != "undecided"
        open_ += verdict.outcome == "open"
    if not compared:
        return Evidence("tested", None, f"nothing could be compared{trapped and ': '}{trapped}", outcome="undecided")
    said = f"within the bounds on {plural(compared, 'set')} of inputs"
    if open_:
        said += f", on {open_} of them but for what the definition leaves open"
    return Evidence("tested", True, f"{said}; not proved: {why}")


def _sized_alike(module: Module, back: Module) -> Module:
    """`back` with the symbols of `module` for its own, where these stand for one another."""
    found: Bound = {}
    if len(back.main.params) != len(module.main.params):
        return back
    try:
        match_types([p.type for p in back.main.params], [p.type for p in module.main.params], found)
    except Invalid:
        return back  # what is not alike is said of the types
    return back.with_(main=with_sizes(back.main, found))


def _unlike(module: Module, back: Module) -> str:
    """What of the interface is not the same; "" where all is."""
    one, two = module.main.func_type, back.main.func_type
    pairs = zip((*one.params, one.result), (*two.params, two.result), strict=False)
    if len(one.params) != len(two.params):
        return f"it has {len(two.params)} parameters, not {len(one.params)}"
    odd = next(((a, b) for a, b in pairs if not same_type(a, b)), None)
    return "" if odd is None else f"a parameter or result is {odd[1]}, not {odd[0]}"
