"""Generated graph modules: valid by construction, each switch has an effect, every operator is reached, minima are
small."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import cache
from random import Random
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, find, given, settings
from hypothesis.strategies import SearchStrategy

from assay.interp import graph
from assay.lower.devices import plan_devices
from assay.lower.memory.problem import check_rules
from assay.semantics.analyses.equality import first_difference
from assay.semantics.compilation import CompilationConfig
from assay.semantics.dtypes import DTYPES, INT32, dtype
from assay.semantics.errors import Invalid, Trap, Unpredictable
from assay.semantics.graph import (
    Call,
    CallTIR,
    Constant,
    Expr,
    Function,
    GlobalVar,
    If,
    Let,
    Match,
    MatchCast,
    Print,
    RefWrite,
    TupleGetItem,
    Var,
    var,
)
from assay.semantics.module import Module
from assay.semantics.operator import Operator
from assay.semantics.ops import OPERATORS
from assay.semantics.rules import check
from assay.semantics.scalar import Var as Symbol
from assay.semantics.tensor.rules import check_prim_func
from assay.semantics.types import TensorType, TupleType, symbols
from assay.semantics.walk import post_order
from assay.verify import strategies as made
from assay.verify.strategies.choosing import Tape, by_random
from assay.verify.strategies.features import DATAFLOW, EVERYTHING, LANGUAGE, Features, static_operators
from assay.verify.strategies.graphs import Maker, a_module
from assay.verify.strategies.kinds import special
from assay.verify.strategies.values import picked_inputs

CPUS = CompilationConfig.read(["cpu", "cuda"], default="cpu")
KINDS: dict[str, Features] = {
    "dataflow": DATAFLOW,
    "branches": Features(branches=True, names=True),
    "symbolic": Features(operators=static_operators(), symbolic=True),
    "no sharing": Features(sharing=False),
    "functions": Features(functions=True, branches=True, names=True),
    "language": LANGUAGE,
    "language, no traps": replace(LANGUAGE, traps=False),
    "everything": EVERYTHING,
    "everything, no traps": replace(EVERYTHING, traps=False),
    "tensor functions": Features(operators=("add",), kernels=True),
    "named constants": Features(named_constants=True),
    "empty": Features(operators=("add", "concat", "sum", "full"), empty=True),
}


@cache
def drawn(kind: str, count: int = 100) -> tuple[tuple[Module, dict[str, Any]], ...]:
    """Modules of a kind, with inputs."""
    found = []
    for seed in range(count):
        pick = by_random(Random(seed))
        module = a_module(pick, 12, KINDS[kind])
        found.append((module, picked_inputs(pick, module)))
    return tuple(found)


def nodes(module: Module) -> list[Expr]:
    return [n for d in module.definitions.values() if isinstance(d, Function) for n in post_order(d)]


def called(module: Module) -> set[str]:
    return {n.op.name for n in nodes(module) if isinstance(n, Call) and isinstance(n.op, Operator)}


@pytest.mark.parametrize("kind", KINDS)
def test_modules_are_valid_and_run(kind: str) -> None:
    """Every module is well-formed and takes its inputs; it fails only where failures are wanted."""
    seen: Counter[str] = Counter()
    few = kind in ("tensor functions", "everything", "everything, no traps")
    for module, inputs in drawn(kind, 50 if few else 100):
        check(module)
        try:
            graph.run(module, inputs)
            seen["value"] += 1
        except Trap:
            seen["trap"] += 1
        except Unpredictable:
            seen["unpredictable"] += 1
    assert seen["value"] > (25 if few else 50)
    assert (seen["trap"] > 0) == KINDS[kind].traps


SHOWS: dict[str, Callable[[Module], bool]] = {
    "branches": lambda m: any(isinstance(n, If) for n in nodes(m)),
    "names": lambda m: any(isinstance(n, Let) for n in nodes(m)),
    "functions": lambda m: any(isinstance(n, Call) and isinstance(n.op, Function) for n in nodes(m)),
    "recursion": lambda m: (
        "helper" in m.definitions and any(isinstance(n, GlobalVar) and n.name == "helper" for n in post_order(m.main))
    ),
    "effects": lambda m: any(isinstance(n, (Print, RefWrite)) for n in nodes(m)),
    "data": lambda m: any(isinstance(n, Match) for n in nodes(m)),
    "casts": lambda m: any(isinstance(n, MatchCast) for n in nodes(m)),
    "symbolic": lambda m: any(symbols(p.type) for p in m.main.params),
    "constants": lambda m: any(isinstance(n, Constant) for n in nodes(m)),
    "named_constants": lambda m: bool(m.constants),
    "kernels": lambda m: any(isinstance(n, CallTIR) for n in nodes(m)),
}


@pytest.mark.parametrize("switch", SHOWS)
def test_each_switch_has_an_effect(switch: str) -> None:
    """What a switch stands for appears with it, and does not without it."""
    few = ("add", "matmul", "nn.relu", "concat", "reshape")
    base = Features(operators=few, constants=False)
    for on in (True, False):
        features = replace(base, **{switch: on})
        found = [SHOWS[switch](a_module(by_random(Random(s)), 20, features)) for s in range(80)]
        assert any(found) if on else not any(found)


def test_no_inner_function_takes_the_size_of_a_cast() -> None:
    """Whether its size had a value before would be left to chance (graph.C12)."""
    n, seen = Symbol("n"), 0
    for way in range(40):
        maker = Maker(by_random(Random(way)), 60, EVERYTHING)
        maker.pool["Z"] = [maker.add(var("z", TensorType((n,), INT32)), 0)]
        maker.cast()
        kind, *_ = (k for k, t in maker.types.items() if set(symbols(t)) & maker.cast_sizes)
        ways = maker.all_ways(kind)
        taken = ways[way % len(ways)]()
        functions = [f for e in (taken, *maker.keep) for f in post_order(e) if isinstance(f, Function)]
        assert maker.cast_sizes.isdisjoint(s for f in functions for p in f.params for s in symbols(p.type))
        seen += bool(functions)
    assert seen > 3


def test_sharing_is_a_switch() -> None:
    """Without sharing nothing but inputs and constants is used twice."""
    for kind in ("no sharing", "dataflow"):
        twice = 0
        for module, _ in drawn(kind):
            edges = Counter(id(c) for n in post_order(module.main) for c in n.children)
            kept = [n for n in post_order(module.main) if edges[id(n)] > 1 and not isinstance(n, (Var, Constant))]
            # the parts of a tuple all read it
            twice += any(not isinstance(n.type, TupleType) and not isinstance(n, TupleGetItem) for n in kept)
        assert (twice == 0) == (kind == "no sharing")


def test_every_operator_is_reached_and_only_those_chosen() -> None:
    seen: set[str] = set()
    for seed in range(600):
        seen |= called(a_module(by_random(Random(seed)), 12, DATAFLOW))
    assert seen == set(OPERATORS)
    only = [called(a_module(by_random(Random(s)), 12, Features(operators=("nn.softmax", "matmul")))) for s in range(50)]
    assert set().union(*only) == {"nn.softmax", "matmul"}


def test_values_that_are_used_are_not_results_too() -> None:
    """What a module gives is what nobody else in it has read, four values at most; so all of it is observed."""
    for module, _ in drawn("dataflow"):
        body = module.main.body
        results = body.children if isinstance(body.type, TupleType) else [body]
        assert 1 <= len(results) <= 4


def test_devices_are_words_on_values() -> None:
    """Modules with devices are well-formed; most can be planned, the others say two things of one value."""
    seen: Counter[str] = Counter()
    features = Features(operators=("add", "multiply", "negative"), devices=CPUS)
    for seed in range(60):
        module = a_module(by_random(Random(seed)), 25, features)
        check(module)
        try:
            planned = plan_devices(module, CPUS)
            seen["two"] += len({n.device.place for n in nodes(planned)}) > 1
        except Invalid as wrong:
            assert wrong.label == "devices.C1"
            seen["refused"] += 1
    assert seen["two"] > 5 and seen["refused"] < 30


def test_inputs_have_special_values() -> None:
    """Zeros of both signs, infinities, NaN, subnormals, and extreme integers come in inputs and constants."""
    found: set[str] = set()
    for module, inputs in drawn("dataflow"):
        data = [*inputs.values(), *(n.data for n in nodes(module) if isinstance(n, Constant))]
        for a in data:
            of = dtype(a.dtype)
            if of.is_float:
                wide = a.astype(np.float64)
                found |= {"nan"} if np.isnan(wide).any() else set()
                found |= {"inf"} if np.isposinf(wide).any() else set()
                found |= {"-inf"} if np.isneginf(wide).any() else set()
                found |= {"-0"} if (np.signbit(wide) & (wide == 0)).any() else set()
                found |= {"subnormal"} if ((wide != 0) & (np.abs(wide) < of.smallest_normal)).any() else set()
            elif of.is_integer:
                found |= {"most"} if (a == of.max).any() else set()
                found |= {"least"} if (a == of.min).any() and of.kind == "int" else set()
    assert found == {"nan", "inf", "-inf", "-0", "subnormal", "most", "least"}


@pytest.mark.parametrize("name", DTYPES)
def test_special_values_are_those_of_the_type(name: str) -> None:
    of = DTYPES[name]
    for number in special(of):
        back = of.numpy.type(number).astype(np.float64) if of.is_float else int(of.numpy.type(number))
        assert back == number or number != number


# --- under Hypothesis ------------------------------------------------------------------------------------------------

QUICK = settings(
    max_examples=1500, deadline=None, derandomize=True, database=None, suppress_health_check=list(HealthCheck)
)


def smallest(of: SearchStrategy[Module], wanted: Callable[[Module], bool]) -> Module:
    return find(of, wanted, settings=QUICK)


def test_minima_are_small() -> None:
    """What is left of a module is what was asked for, on small tensors."""
    product = smallest(made.modules(["add", "matmul", "nn.relu"]), lambda m: "matmul" in called(m))
    assert called(product) == {"matmul"}
    assert sum(isinstance(n, Call) for n in nodes(product)) == 1
    assert all(max(p.type.static_shape, default=1) <= 3 for p in product.main.params if isinstance(p.type, TensorType))

    def both(m: Module) -> bool:
        return {"nn.softmax", "take"} <= called(m)

    chain = smallest(made.modules(["add", "nn.softmax", "take"]), both)
    assert sum(isinstance(n, Call) for n in nodes(chain)) <= 3

    branch = smallest(made.modules(["add", "negative"], branches=True), SHOWS["branches"])
    assert len(nodes(branch)) <= 8


@settings(max_examples=25, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large])
@given(made.modules_with_inputs(branches=True, symbolic=True))
def test_strategy_of_modules(case: tuple[Module, dict[str, Any]]) -> None:
    module, inputs = case
    check(module)
    assert set(inputs) == {p.name for p in module.main.params}


@settings(max_examples=40, suppress_health_check=[HealthCheck.too_slow])
@given(
    made.tensor_functions(),
    made.loop_nests(),
    made.memory_problems(limits=True),
    made.types(),
    made.shapes(),
    made.scalars("float16"),
)
def test_other_strategies(func: Any, nest: Any, problem: Any, of: Any, shape: Any, scalar: Any) -> None:
    """Functions and problems are well-formed, and dims differ pairwise."""
    check_prim_func(func)
    check_prim_func(nest)
    check_rules(problem)
    assert str(of)
    large = [d for d in shape if d > 1]
    assert len(set(large)) == len(large)
    assert scalar.dtype == np.float16


def test_arguments_are_checked() -> None:
    for wrong, label in (
        (lambda: made.modules(["nonsense"]), "call.C8"),
        (lambda: made.modules(["nonsense.*"]), "call.C8"),
        (lambda: made.modules(colours=True), "strategies.C2"),
        (lambda: made.dtypes(["nonsense"]), "dtype.C1"),
        (lambda: made.operator_calls("nonsense"), "call.C8"),
    ):
        with pytest.raises(Invalid) as said:
            wrong()
        assert said.value.label == label


# --- choices ---------------------------------------------------------------------------------------------------------


def test_a_tape_makes_the_same_again() -> None:
    """The choices that made a module make it again; choices that are missing are the simplest."""
    for seed in range(20):
        tape = Tape(more=by_random(Random(seed)))
        module = a_module(tape, 12, EVERYTHING)
        assert first_difference(module, a_module(Tape(tape.taken), 12, EVERYTHING)) is None
    assert len(nodes(a_module(Tape(), 12, DATAFLOW))) <= 5


def test_choices_are_reduced() -> None:
    """What is left still shows what was wanted, and not much else."""
    features = Features(operators=("add", "nn.relu", "matmul"))

    def still(picks: Sequence[int]) -> Sequence[int] | None:
        tape = Tape(picks)
        return tape.taken if "matmul" in called(a_module(tape, 12, features)) else None

    sizes = []
    for seed in range(20):
        tape = Tape(more=by_random(Random(seed)))
        if "matmul" in called(a_module(tape, 12, features)):
            best = made.reduce_picks(tape.taken, still, tries=1000)
            assert still(best) is not None
            assert len(best) <= len(tape.taken)
            sizes.append(len(nodes(a_module(Tape(best), 12, features))))
    assert len(sizes) > 5
    assert max(sizes) <= 8
