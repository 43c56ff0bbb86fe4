"""The kernels of the light models: every access of every one is proved, or the reason is told."""

from __future__ import annotations

from collections import Counter

import onnx
import pytest
from rich.console import Console
from rich.table import Table

from assay.interp import graph
from assay.lower.anf import to_anf
from assay.lower.frontends.onnx.model import import_onnx
from assay.lower.legalize import legalize
from assay.semantics.tensor import PrimFunc
from assay.verify.symbolic import prove_accesses
from tests.models import light_models


def kernels(names: tuple[str, ...] = ()) -> dict[str, tuple[str, PrimFunc]]:
    """A kernel of each text, by that text, with its operator."""
    found: dict[str, tuple[str, PrimFunc]] = {}
    for model in light_models():
        if names and model.name not in names:
            continue
        module = legalize(to_anf(import_onnx(onnx.load(model.path), evaluate=graph.evaluate)))
        for func in module.definitions.values():
            if isinstance(func, PrimFunc):
                text = repr(func).split("(", 1)[1]
                found.setdefault(text, (str(func.attrs.get("operator", func.name)), func))
    return found


def verdicts(found: dict[str, tuple[str, PrimFunc]]) -> tuple[Counter[tuple[str, str]], Counter[str]]:
    """How many kernels of each operator got which verdict, and why goals are open."""
    seen: Counter[tuple[str, str]] = Counter()
    why: Counter[str] = Counter()
    for operator, func in found.values():
        report = prove_accesses(func)
        seen[operator, report.verdict] += 1
        for goal in report.goals:
            if goal.verdict != "proved":
                why[f"{operator}, {goal.verdict}: {goal.kind}: {goal.detail[:100]}"] += 1
    return seen, why


def shown(seen: Counter[tuple[str, str]], why: Counter[str]) -> None:
    table = Table("operator", "proved", "unknown", "refuted", title="kernels of the light models, for all accesses")
    for operator in sorted({o for o, _ in seen}):
        table.add_row(operator, *(str(seen[operator, v]) for v in ("proved", "unknown", "refuted")))
    Console(width=100).print(table)
    for reason, count in why.most_common():
        print(count, reason)


def test_the_kernels_of_a_small_model_are_proved() -> None:
    found = kernels(("squeezenet",))
    chosen = {operator: (text, func) for text, (operator, func) in found.items()}
    seen, why = verdicts({text: (operator, func) for operator, (text, func) in chosen.items()})
    assert len(seen) > 4 and all(v == "proved" for _, v in seen), why


@pytest.mark.bench
def test_the_kernels_of_the_light_models_are_proved() -> None:
    seen, why = verdicts(kernels())
    shown(seen, why)
    assert sum(seen.values()) > 100
    assert not [key for key in seen if key[1] == "refuted"], why
    assert sum(count for (_, verdict), count in seen.items() if verdict == "unknown") == 0, why
