"""What a campaign learns from refusals: which uses of operators a target does not take (specs/verify.md, Z8).

Each example gives evidence: the traits of what was taken or refused. Of an example that was refused each use is tried
alone, and beside usual ones, so that the evidence names what it is that was refused.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from random import Random
from typing import Any

import onnx

from assay.semantics.dtypes import DTYPES
from assay.semantics.graph import Call, Constant, Expr, GlobalVar, Var, call, function, var
from assay.semantics.module import Module
from assay.semantics.operator import Operator
from assay.semantics.ops import operator
from assay.semantics.walk import post_order
from assay.verify.fuzz.cases import CONSTRUCTS, FuzzCase
from assay.verify.fuzz.targets import Result, Target, judged
from assay.verify.strategies.avoiding import traits, traits_of_call
from assay.verify.strategies.choosing import by_random
from assay.verify.strategies.operators import from_example
from assay.verify.strategies.recipes import fresh_use
from assay.verify.strategies.values import picked_inputs

REFUSALS = ("refused", "unsaid")
TAKEN = ("right", "open", "undecided", "unpredictable", "wrong", "implausible")
MOST_TRIED = 12
"""So many uses of one refused example are tried alone."""
MOST_USUAL = 3
"""So many examples of an operator are tried where a use of it is refused."""
WINDOW = 20
"""What is avoided is decided by the last so many that were met; one that was taken lifts it."""
LEAST = {"construct": 3, "dtype": 4, "narrow": 4}
"""So many refusals, and no other outcome among the last, say it; of an operator 2."""
Evidence = tuple[tuple[str, ...], bool]
"""Traits that were met together, and whether they were refused."""


def evidence_of(of: Target, case: FuzzCase, result: Result) -> list[Evidence]:
    """What one example says."""
    if case.model is not None:
        return _of_model(case.model, result)
    calls = distinct_calls(case.module)
    if result.kind in TAKEN:
        said = [(traits_of_call(c), False) for c in calls]
        return [*said, (case.constructs, False)] if case.constructs else said
    if result.kind not in REFUSALS:
        return []
    found: list[Evidence] = []
    for node in calls[:MOST_TRIED]:
        found += _tried(of, case.module, node)
    if case.constructs and not any(refused for _, refused in found):
        found.append((case.constructs, True))
    return found


def _of_model(model: onnx.ModelProto, result: Result) -> list[Evidence]:
    """What an example of one operator of ONNX says: of the operator with its element type, and with its attributes."""
    if result.kind not in (*TAKEN, *REFUSALS):
        return []
    (node,) = model.graph.node
    types = {i.type.tensor_type.elem_type for i in model.graph.input}
    said = [f"{node.op_type} in {np_name(of)}" for of in sorted(types)]
    said += [f"{node.op_type} with {a.name}" for a in node.attribute]
    return [(tuple(said), result.kind in REFUSALS)]


def np_name(of: int) -> str:
    """The name of an element type of ONNX."""
    return str(onnx.helper.tensor_dtype_to_np_dtype(of))


def _tried(of: Target, module: Module, node: Call) -> list[Evidence]:
    """What one use says, alone. Where it is refused usual ones say what to put that down to: the operator, or what one
    that is taken has not."""
    own = traits_of_call(node)
    refused = _refused(of, alone(module, node))
    if not refused:
        return [] if refused is None else [(own, False)]
    outcomes = []
    for made, plain in usual_uses(own[0]):
        outcomes.append(_refused(of, made))
        if outcomes[-1] is False:
            return [(plain, False), (tuple(t for t in own if t not in plain), True)]
    return [((own[0],), True)] * (1 + outcomes.count(True))


def distinct_calls(module: Module) -> list[Call]:
    """The operator calls of a module's graph functions, one for each set of traits."""
    found: dict[tuple[str, ...], Call] = {}
    for f in module.graphs.values():
        for node in post_order(f):
            if isinstance(node, Call) and isinstance(node.op, Operator):
                found.setdefault(traits_of_call(node), node)
    return list(found.values())


def alone(module: Module, node: Call) -> Module:
    """One operator call as a program: what it is applied to are inputs, but for constants."""
    params: list[Var] = []
    args: list[Expr] = []
    for a in node.args:
        named = isinstance(a, GlobalVar) and a.name in module.constants
        if isinstance(a, Constant) or named:
            args.append(a)
        else:
            params.append(var(f"p{len(params)}", a.type))
            args.append(params[-1])
    constants = {a.name: module.constants[a.name] for a in args if isinstance(a, GlobalVar)}
    return Module({"main": function(params, call(node.op, *args, **node.attrs))}, constants)


def usual_uses(name: str) -> Iterator[tuple[Module, tuple[str, ...]]]:
    """Uses of an operator as programs, with their traits: the simplest one, and the first examples of its record. Those
    of the same traits are one."""
    op = operator(name)
    seen: set[tuple[str, ...]] = set()
    for use in (fresh_use(name, lambda n: 0), *(from_example(op, e) for e in op.examples[:MOST_USUAL])):
        said = traits(op, use.operands, use.attrs)
        if said not in seen:
            seen.add(said)
            params = [var(f"p{k}", t) for k, t in enumerate(use.operands)]
            yield Module({"main": function(params, call(op, *params, **use.attrs))}), said


def _refused(of: Target, module: Module) -> bool | None:
    """Whether a program is refused; None where that is not said."""
    kind = judged(of, module, picked_inputs(by_random(Random(0)), module)).kind
    return True if kind in REFUSALS else False if kind in TAKEN else None


@dataclass(frozen=True)
class Seen:
    """How often a trait was met and refused, and the last outcomes: r for refused, t for taken."""

    refused: int = 0
    met: int = 0
    last: str = ""

    def after(self, refused: bool) -> Seen:
        """With one more outcome."""
        return Seen(self.refused + refused, self.met + 1, (self.last + ("r" if refused else "t"))[-WINDOW:])

    def as_data(self) -> dict[str, int]:
        """How often, for JSON."""
        return {"refused": self.refused, "met": self.met}

    def all_refused(self, least: int) -> bool:
        """Whether the last outcomes, at least so many, were refusals."""
        return len(self.last) >= least and "t" not in self.last


@dataclass
class Learnt:
    """What is known of traits."""

    seen: dict[str, Seen] = field(default_factory=dict)

    def add(self, found: Iterable[Evidence]) -> None:
        """Count evidence. What is known to be refused explains a refusal, and nothing beside it is blamed."""
        known = set(self.avoided)
        for said, refused in found:
            explained = known.intersection(said) if refused else ()
            for trait in explained or said:
                self.seen[trait] = self.seen.get(trait, Seen()).after(refused)

    @property
    def avoided(self) -> tuple[str, ...]:
        """The traits that are avoided, the widest that say it: operators that were refused in every use; element types
        that every operator was refused in; else an operator in an element type, of a rank, or with an attribute."""
        known = [t for t, s in self.seen.items() if s.all_refused(LEAST.get(_kind(t), 2))]
        wide = {t for t in known if _kind(t) != "narrow"}
        narrow = (t for t in known if _kind(t) == "narrow" and wide.isdisjoint(_parts(t)))
        return tuple(sorted({*wide, *narrow}))

    def lines(self) -> list[str]:
        """What is not drawn any more, in words, what was refused most often first."""
        found = [(self.seen[t], t) for t in self.avoided]
        found.sort(key=lambda pair: (-pair[0].refused, pair[1]))
        return [f"{t} (refused {s.refused} of {s.met} times)" for s, t in found]

    def as_data(self) -> dict[str, list[Any]]:
        """Plain data, for JSON."""
        return {t: [s.refused, s.met, s.last] for t, s in sorted(self.seen.items())}

    @classmethod
    def from_data(cls, data: Mapping[str, Any]) -> Learnt:
        """What `as_data` said. ValueError, TypeError: it is of another form."""
        made = {}
        for trait, row in data.items():
            refused, met, last = row
            if type(refused) is not int or type(met) is not int or not set(str(last)) <= {"r", "t"}:
                raise ValueError(
                    f"{trait} is {row}; how often refused, how often met, and the last outcomes are wanted"
                )
            made[trait] = Seen(refused, met, str(last)[-WINDOW:])
        return cls(made)


def _kind(trait: str) -> str:
    if trait in CONSTRUCTS:
        return "construct"
    return "dtype" if trait in DTYPES else "operator" if " " not in trait else "narrow"


def _parts(trait: str) -> tuple[str, str]:
    """The operator and what is said of it."""
    name, _, rest = trait.partition(" ")
    return name, rest.rpartition(" ")[2]
