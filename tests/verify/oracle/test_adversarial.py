"""Right and nasty runs: the oracle accepts every one of them, a seed replays exactly, and faults still show."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from assay.interp import vector
from assay.lower.legalize import legalize
from assay.semantics.builder import Builder, tensor
from assay.semantics.dtypes import dtype
from assay.semantics.errors import Trap
from assay.semantics.graph import call, function, var
from assay.semantics.module import Module
from assay.semantics.ops import OPERATORS
from assay.semantics.scalar import Var, const
from assay.semantics.tensor import For, PrimFunc, Seq, program_order
from assay.semantics.tensor.statements import Store
from assay.semantics.types import TensorType
from assay.verify.backends import Subject, backend, subject_of_model
from assay.verify.oracle import Accepts, Oracle, judge_backend
from assay.verify.oracle.adversarial import Adversary, Attempt
from assay.verify.oracle.disturbed import poisoned, shuffled
from tests.models import small_cnn, transformer_block
from tests.verify.oracle import numeric_operators as operators

KINDS: tuple[Any, ...] = ("integers", "random", "cancelling", "large", "specials")


def block(b: Builder, x: Any, w: Any, v: Any) -> Any:
    y = b.nn.relu(b.add(b.matmul(x, w), v))
    return b.nn.softmax(b.divide(y, b.sqrt(b.add(b.sum(b.multiply(y, y), axis=(1,), keepdims=True), 1.0))))


PROGRAMS: dict[str, Module] = {
    **{name: case.module for name, case in operators.CASES.items()},
    "block": operators.one(block, x=tensor(30, 64), w=tensor(64, 48), v=tensor(48)),
    "half": operators.one(
        lambda b, x, w: b.tanh(b.matmul(x, w)), x=tensor(40, 20, of="float16"), w=tensor(20, 40, of="float16")
    ),
    "kernels": legalize(operators.one(lambda b, x, w: b.nn.softmax(b.matmul(x, w)), x=tensor(9, 7), w=tensor(7, 11))),
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_no_false_alarm(name: str) -> None:
    module = PROGRAMS[name]
    oracle = Oracle(module, accepts=Accepts(flushes=True))
    for seed in range(3):
        for kind in KINDS:
            inputs = oracle.inputs(kind, seed)
            outputs = Attempt(module, np.random.default_rng(seed)).run(inputs)
            verdict = oracle.judge(inputs, outputs)
            assert verdict.outcome in ("right", "undecided"), f"{kind}, seed {seed}: {verdict}"


@pytest.mark.parametrize("made", [small_cnn, lambda: transformer_block(erf=True)], ids=["cnn", "transformer"])
def test_as_a_backend(made: Callable[[], Any]) -> None:
    """Every operator is right on the adversary's own operands, and so is the whole."""
    subject = subject_of_model(made())
    inputs = Oracle(subject.module).inputs("random")
    for seed in range(3):
        verdict = judge_backend(subject, Adversary(seed), inputs)
        assert verdict.outcome == "right", str(verdict)
        assert verdict.judged > 5


def test_a_seed_replays_and_another_differs() -> None:
    module = PROGRAMS["block"]
    inputs = Oracle(module).inputs("random")
    first, again, other = (Attempt(module, np.random.default_rng(s)).run(inputs)["output_0"] for s in (1, 1, 2))
    assert np.array_equal(first, again)
    assert not np.array_equal(first, other)


def test_flushing_must_be_declared_and_is_for_each_element_to_do() -> None:
    module = operators.one(lambda b, x: b.multiply(x, 0.5), x=tensor(1000))
    inputs = {"x": np.full(1000, 1.5e-38, np.float32)}
    kept = Attempt(module, np.random.default_rng(0), flush=False).run(inputs)
    flushed = Attempt(module, np.random.default_rng(0), flush=True).run(inputs)
    some = {"output_0": np.where(np.arange(1000) % 2 == 0, kept["output_0"], np.float32(0))}
    assert not flushed["output_0"].any() and kept["output_0"].all()
    declared = Oracle(module, accepts=Accepts(flushes=True))
    assert declared.judge(inputs, kept).outcome == declared.judge(inputs, flushed).outcome == "right"
    assert Oracle(module).judge(inputs, flushed).outcome == "wrong"
    assert declared.judge(inputs, some).outcome == "right" and Oracle(module).judge(inputs, some).outcome == "wrong"
    other = {"output_0": np.where(np.arange(1000) % 2 == 0, kept["output_0"] * 2, np.float32(0))}
    assert declared.judge(inputs, other).outcome == "wrong"


def test_what_is_expected_already_serves_who_accepts_the_same_of_the_same_module() -> None:
    module = operators.one(lambda b, x: b.multiply(x, 0.5), x=tensor(4))
    inputs = {"x": np.full(4, 1.5e-38, np.float32)}
    known = Oracle(module).expected(inputs)
    assert Oracle(module).expected(known) is known
    declared = Oracle(module, accepts=Accepts(flushes=True))
    for other in (declared.expected(known), declared.expected(declared.expected(known), True)):
        assert other.accepts == declared.accepts and other.inputs is inputs
    assert declared.expected(known, True).flushing and not declared.expected(known).flushing
    other_module = operators.one(lambda b, x: b.multiply(x, 0.25), x=tensor(4))
    assert Oracle(other_module).expected(known).module is other_module


def prefix_sums(kind: Any) -> PrimFunc:
    """Each element is the sum of those before it: not independent, whatever the loop says."""
    kernel = next(iter(legalize(operators.one(lambda b, x: b.nn.relu(x), x=tensor(7))).kernels.values()))
    (x,), (out,) = kernel.inputs, kernel.outputs
    i = Var("i")
    loop = For(i, const(6), Store(out, (i + 1,), out[i] + x[i]), kind)
    return replace(kernel, body=Seq((Store(out, (const(0),), const(0.0, "float32")), loop)))


def test_a_loop_that_is_not_parallel_shows() -> None:
    x = np.arange(7, dtype=np.float32)
    wrong, right = prefix_sums("parallel"), prefix_sums("serial")
    rng = np.random.default_rng(0)
    want = vector.run(right, [x])[0]
    assert np.array_equal(vector.run(poisoned(shuffled(right, rng)), [x])[0], want)
    found = [vector.run(poisoned(shuffled(wrong, rng)), [x])[0] for _ in range(4)]
    assert not all(np.array_equal(f, want) for f in found), "what is read before it is written is garbage"


def test_every_parallel_loop_is_in_another_order() -> None:
    for kernel in PROGRAMS["kernels"].kernels.values():
        made = shuffled(kernel, np.random.default_rng(0))
        assert not any(isinstance(s, For) and s.kind == "parallel" for s in program_order(made.body))
        assert any(isinstance(s, For) and s.kind == "parallel" for s in program_order(kernel.body))


def test_it_is_among_the_backends() -> None:
    subject = subject_of_model(small_cnn())
    assert isinstance(subject, Subject)
    inputs = Oracle(subject.module).inputs("integers")
    assert judge_backend(subject, backend("adversarial"), inputs).outcome == "right"


def of_operator(name: str, place: int) -> Module:
    """An operator's own example as a module."""
    example = OPERATORS[name].examples[place]
    params = [var(f"p{i}", TensorType(s, dtype(d))) for i, (s, d) in enumerate(example.operands)]
    return Module({"main": function(params, call(name, *params, **example.attrs))})


def judged_examples(seeds: range) -> int:
    """How many runs of every operator's examples on all kinds of data were judged; none is wrong."""
    count = 0
    for name, op in OPERATORS.items():
        for place in range(len(op.examples)):
            oracle = Oracle(of_operator(name, place), accepts=Accepts(flushes=True))
            for seed in seeds:
                for kind in KINDS:
                    inputs = oracle.inputs(kind, seed)
                    try:
                        outputs = Attempt(oracle.module, np.random.default_rng(seed)).run(inputs)
                    except Trap:
                        continue
                    verdict = oracle.judge(inputs, outputs)
                    assert verdict.outcome in (
                        "right",
                        "undecided",
                    ), f"{name} {place} on {kind}, seed {seed}: {verdict}"
                    count += 1
    return count


def test_every_operator() -> None:
    assert judged_examples(range(1)) > 1500


@pytest.mark.campaign
def test_ten_thousand_runs() -> None:
    assert judged_examples(range(1, 8)) > 10_000
