"""Models as exporters write them, lowered and compiled once, at sizes that Hypothesis draws: 0, 1, primes and larger
ones. At each the machine, the tensor interpreter and the C agree bit for bit, the graph's bounds hold them, and ONNX
Runtime is judged."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

import onnx
import pytest
from hypothesis import HealthCheck, Phase, given, settings, strategies as st

from assay.interp import graph
from assay.lower.c import CSource, emit
from assay.lower.frontends.onnx.model import import_onnx
from assay.verify.app.check import Lowering
from assay.verify.backends.isolated import Isolated
from tests.exported.at_sizes import AtSizes
from tests.exported.loops import MODELS
from tests.exported.test_exported import STORED
from tests.exported.test_exported_check import exports

pytestmark = pytest.mark.row("J11")

NUMBERS = (0, 1, 2, 3, 5, 7, 8, 13, 16)
"""What a size is drawn from."""
SMALL = NUMBERS[:6]
"""What it is drawn from in the default suite."""


@pytest.fixture(scope="module")
def runtime() -> Iterator[Isolated]:
    """ONNX Runtime in a process of its own, which may die."""
    pytest.importorskip("onnxruntime", reason="onnxruntime is not installed")
    with Isolated("onnxruntime", 100.0) as backend:
        yield backend


def at_drawn_sizes(lowering: Lowering, runtime: Isolated, examples: int, numbers: Sequence[int] = NUMBERS) -> AtSizes:
    """Compared at so many choices of sizes, the first all 0, all 1, and each 0 by itself."""
    at = AtSizes(lowering, most=12 if numbers is SMALL else 64)
    names = [s.name for s in at.free]

    def compare(wanted: dict[str, int]) -> None:
        sizes = at.fitting(wanted)
        if sizes is not None:
            at.compare(sizes, backend=runtime)

    for row in [dict.fromkeys(names, 0), dict.fromkeys(names, 1), *({**dict.fromkeys(names, 3), n: 0} for n in names)]:
        compare(row)
    drawn = given(st.fixed_dictionaries({n: st.sampled_from(numbers) for n in names}))(compare)
    if examples:
        settings(max_examples=examples, phases=[Phase.generate], suppress_health_check=list(HealthCheck))(drawn)()
    assert at.outcomes.keys() & {"right", "open"}, at.outcomes
    return at


@pytest.mark.parametrize("name", ["scanning", "gru_two_ways_traced_17"])
def test_a_few_in_the_default_suite(name: str, runtime: Isolated) -> None:
    at_drawn_sizes(Lowering(stored()[name], name), runtime, 2, SMALL)


@pytest.mark.campaign
@pytest.mark.parametrize("name", [*MODELS, *(p.stem for p in STORED)])
def test_stored_models(name: str, runtime: Isolated) -> None:
    at_drawn_sizes(Lowering(stored()[name], name), runtime, examples=20)


@pytest.mark.campaign
def test_what_pytorch_exports(runtime: Isolated) -> None:
    for extra in ("torch", "transformers"):
        pytest.importorskip(extra, reason=f"{extra} is not installed")
    for name, model in exports():
        print(name, at_drawn_sizes(Lowering(model, name), runtime, examples=10).told())


def stored() -> dict[str, onnx.ModelProto]:
    """The small models, by name."""
    return {**{n: make() for n, make in MODELS.items()}, **{p.stem: onnx.load(p) for p in STORED}}


def stops_early(*args: Any, **named: Any) -> CSource:
    """C whose loop ends after one iteration where there are six or more."""
    made = emit(*args, **named)
    assert "again[0] = 1u;" in made.source
    return replace(made, source=made.source.replace("again[0] = 1u;", "again[0] = time < 6;"))


def test_c_that_is_wrong_at_large_sizes_is_found(runtime: Isolated) -> None:
    with pytest.raises(AssertionError, match="the C gives"):
        at_drawn_sizes(Lowering(MODELS["scanning"](), "scanning", emitter=stops_early), runtime, 10, SMALL)


def test_a_lowering_of_another_model_is_found(runtime: Isolated) -> None:
    """What the machine and the C agree about is not what the graph is: a sum that was taken for a product."""
    other = MODELS["scanning"]()
    body = next(n for n in other.graph.node if n.op_type == "Scan").attribute[-1].g
    next(n for n in body.node if n.op_type == "Add").op_type = "Mul"
    taken = import_onnx(other, evaluate=graph.evaluate)
    planted = Lowering(MODELS["scanning"](), "scanning", changed={"import": lambda module: taken})
    with pytest.raises(AssertionError, match="outside of the graph's bounds"):
        at_drawn_sizes(planted, runtime, 0, SMALL)
