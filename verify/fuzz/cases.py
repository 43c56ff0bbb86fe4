"""One example of a campaign: a module and inputs, made by choices (specs/verify.md, "Fuzzing").

An example is named by the campaign's seed and its number; the choices that made it are kept, so it can be made again
and made simpler.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from random import Random
from typing import Any

import onnx

from assay.semantics.errors import Unsupported
from assay.semantics.graph import Call, CallTIR, If
from assay.semantics.module import Module
from assay.semantics.operator import Operator
from assay.semantics.types import symbols
from assay.semantics.walk import post_order
from assay.verify.backends import subject_of_module
from assay.verify.fuzz.onnx_names import OnnxExample, imported, varied_example
from assay.verify.strategies.avoiding import others
from assay.verify.strategies.choosing import Tape, by_random
from assay.verify.strategies.features import Features, static_operators
from assay.verify.strategies.graphs import a_module
from assay.verify.strategies.values import picked_inputs

EXPORTED = ("branches", "names", "symbolic", "functions", "named_constants")
"""Features that an example has or has not, by its first choices: what an ONNX model can say."""
SWITCHES = (*EXPORTED, "recursion")
"""The same, and what no model can say."""

CONSTRUCTS = ("if", "call", "symbolic dim", "named constant", "tensor function")
"""What a program has besides operators, as `FuzzCase.constructs` names it."""
_ALWAYS = ("call", "less", "logical_not", "floor_divide", "clip", "take")
NEEDED = {
    "branches": ("if",), "functions": _ALWAYS, "recursion": _ALWAYS, "symbolic": ("symbolic dim", "clip"),
    "named_constants": ("named constant",),
}  # fmt: skip
"""What a feature brings into programs, by itself."""
_LANGUAGE = (
    "add", "clip", "floor_divide", "less", "logical_not", "maximum", "multiply", "subtract", "sum", "take",
)  # fmt: skip
OWN = {"functions": _LANGUAGE, "recursion": (*_LANGUAGE, "less_equal", "minimum")}
"""The operators that a feature calls by itself. Where operators are chosen, it is used if these are among them, or if
somebody asks for it."""
EXPLORES = 12
"""One example of so many is made as if nothing were avoided."""


@dataclass(frozen=True)
class Recipe:
    """What examples are made of. A feature in `switches` is on in some examples. What has one of the traits in
    `avoided` (`assay.verify.strategies.avoiding`), or is such a construct, is in few."""

    operators: tuple[str, ...] = field(default_factory=static_operators)
    size: int = 10
    switches: tuple[str, ...] = EXPORTED
    avoided: tuple[str, ...] = ()
    examples: tuple[tuple[str, tuple[OnnxExample, ...]], ...] = ()
    """ONNX's own examples of operators of ONNX that none of ours is: each is the program of some examples."""

    @property
    def names(self) -> tuple[str, ...]:
        """The operators, ours and ONNX's."""
        return (*self.operators, *(name for name, _ in self.examples))

    def as_data(self) -> dict[str, Any]:
        """The recipe as plain data, for JSON: without what is avoided, which is learnt on the way."""
        onnx = [name for name, _ in self.examples]
        named = {"onnx": onnx} if onnx else {}
        return {"operators": list(self.operators), "size": self.size, "switches": list(self.switches)} | named


def fitting(switches: Iterable[str], operators: Collection[str]) -> tuple[str, ...]:
    """The features that call no operator by themselves but these."""
    return tuple(n for n in switches if set(OWN.get(n, ())) <= set(operators))


@dataclass(frozen=True, eq=False)
class FuzzCase:
    """A module, inputs for it, and the choices that made both. `model`: an ONNX model of which the module was
    imported."""

    module: Module
    inputs: Mapping[str, Any]
    picks: tuple[int, ...]
    model: onnx.ModelProto | None = None

    @property
    def program(self) -> Module | onnx.ModelProto:
        """What is judged."""
        return self.module if self.model is None else self.model

    @property
    def operators(self) -> tuple[str, ...]:
        """The operators that the program calls, in order of their names: ours, or those of the model."""
        if self.model is not None:
            return tuple(sorted({n.op_type for n in self.model.graph.node}))
        found = {n.op.name for n in self.nodes if isinstance(n, Call) and isinstance(n.op, Operator)}
        return tuple(sorted(found))

    @property
    def nodes(self) -> list[Any]:
        """All nodes of main."""
        return list(post_order(self.module.main))

    @property
    def constructs(self) -> tuple[str, ...]:
        """What else there is in the module."""
        nodes = self.nodes
        said = {
            "if": any(isinstance(n, If) for n in nodes),
            "call": any(isinstance(n, Call) and not isinstance(n.op, Operator) for n in nodes),
            "tensor function": any(isinstance(n, CallTIR) for n in nodes),
            "symbolic dim": any(symbols(p.type) for p in self.module.main.params),
            "named constant": bool(self.module.constants),
        }
        return tuple(n for n, there in said.items() if there)


def made(recipe: Recipe, tape: Tape) -> FuzzCase:
    """The example that the choices on a tape make."""
    whole = len(recipe.examples) + bool(recipe.operators)
    if recipe.examples and (which := tape(whole) - bool(recipe.operators)) >= 0:
        return _of_onnx(recipe.examples[which][1], tape)
    avoided = frozenset(recipe.avoided) if recipe.avoided and tape(EXPLORES) < EXPLORES - 1 else frozenset()
    on: dict[str, Any] = {n: tape(3) == 2 and avoided.isdisjoint(NEEDED.get(n, ())) for n in recipe.switches}
    usual = Features(operators=recipe.operators, avoided=avoided)
    features = replace(usual, dtypes=others(usual.dtypes, avoided), **on)
    module = a_module(tape, 2 + tape(recipe.size), features)
    return FuzzCase(module, picked_inputs(tape, module), tuple(tape.taken))


def _of_onnx(examples: Sequence[OnnxExample], tape: Tape) -> FuzzCase:
    """An example that is one of ONNX's own, varied_example."""
    made = varied_example(tape, examples)
    module = imported(made.model)
    assert module is not None, "what cannot be imported is no example"
    return FuzzCase(module, made.inputs, tuple(tape.taken), made.model)


def campaign_example(recipe: Recipe, seed: int, number: int) -> FuzzCase:
    """An example of a campaign, by its number."""
    return made(recipe, Tape(more=by_random(Random(f"{seed} {number}"))))


def as_model(case: FuzzCase) -> onnx.ModelProto | None:
    """The program as ONNX; None where that cannot say it."""
    if case.model is not None:
        return case.model
    try:
        return subject_of_module(case.module).model
    except Unsupported:
        return None


def of_model(model: onnx.ModelProto, inputs: Mapping[str, Any], picks: Sequence[int]) -> FuzzCase:
    """A model as an example that choices once made."""
    module = imported(model)
    assert module is not None, "it was judged"
    return FuzzCase(module, inputs, tuple(picks), model)


def again(recipe: Recipe, picks: Sequence[int]) -> FuzzCase:
    """The example of these choices; choices that are missing are the simplest."""
    return made(recipe, Tape(picks))
