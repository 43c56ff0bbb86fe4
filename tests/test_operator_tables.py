"""Every table about operators has each of them, or stands beside the reason why it has not (CONTRIBUTING.md, "Adding an
operator")."""

from __future__ import annotations

import sys
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, replace
from importlib import import_module
from importlib.util import find_spec
from unittest.mock import MagicMock, patch

import pytest

from assay.lower.frontends.onnx import contents
from assay.lower.frontends.onnx.operators import gradient
from assay.lower.frontends.relay import operators as relay
from assay.lower.legalize.kernels import KERNELS, elementwise, functions
from assay.lower.legalize.kernels.elementwise import ScalarRule
from assay.lower.onnx_export import RULES, UNSAID
from assay.lower.stablehlo_export import RULES as HLO_RULES, UNSAID as HLO_UNSAID
from assay.semantics.dtypes import FLOAT32, dtype
from assay.semantics.errors import Invalid
from assay.semantics.left_open.entries import ELEMENTARY
from assay.semantics.operator import Operator, Reasons
from assay.semantics.ops import OPERATORS
from assay.semantics.scalar import TRANSCENDENTAL, Apply, Var
from assay.semantics.text.relax import ops as relax
from assay.semantics.types import TensorType
from assay.semantics.walk import post_order
from assay.verify import backends
from assay.verify.oracle import dot, scaled_integers
from assay.verify.oracle.layers import DECIDES


def torch_table() -> tuple[Mapping[str, object], Reasons]:
    """PyTorch's table, whose names can be read where PyTorch is not installed."""
    missing = {} if find_spec("torch") else {"torch": MagicMock(), "torch.nn": MagicMock()}
    with patch.dict(sys.modules, missing):
        found = import_module("assay.verify.backends.torch_table")
    if missing:
        del backends.torch_table  # type: ignore[attr-defined]
    return found.TABLE, found.UNSAID


def takes_whole_numbers(op: Operator) -> bool:
    for e in op.examples:
        types = tuple(TensorType(s, dtype("int64" if d != "bool" else d)) for s, d in e.operands)
        try:
            op.type_rule(op.check_attrs(e.attrs), types)
        except Invalid:
            continue
        return True
    return False


@dataclass(frozen=True)
class Table:
    """A table about operators: whose it has, why it has not the others, which ones it is about, and one of those that
    is in no group of a reason."""

    entries: Collection[str]
    reasons: Reasons
    like: str = "nn.gelu"
    about: Callable[[Operator], bool] = lambda op: True


TABLES: dict[str, Table] = {
    "kernels": Table(KERNELS, {("reshape", "squeeze", "expand_dims"): "a view has no code"}),
    "ONNX export": Table(RULES, {(name,): why for name, why in UNSAID.items()}),
    "StableHLO export": Table(HLO_RULES, {(name,): why for name, why in HLO_UNSAID.items()}),
    "PyTorch": Table(*torch_table()),
    "Relax": Table(relax.WRITERS, relax.UNWRITTEN),
    "Relay": Table(OPERATORS.keys() & relay.ROWS.keys(), relay.UNREAD),
    "contents of sizes": Table(contents.RULES, contents.UNFOLLOWED, "add", takes_whole_numbers),
    "gradients": Table(gradient.RULES, gradient.REFUSED),
    "whole tensors": Table(scaled_integers.RULES, scaled_integers.ROUNDING),
    "dot products": Table(dot.TERMS, dot.OTHERS, "sum"),
}


def gaps(table: Table, operators: Mapping[str, Operator]) -> list[str]:
    """What is wrong with a table: an operator is missing, or is there in spite of a reason; a reason is about none."""
    named = {name: why for group, why in table.reasons.items() for name in group}
    found = [f"{n} is no operator" for n in table.entries if n not in operators]
    families = {op.family for op in operators.values()}
    found += [f"{n} is neither an operator nor a family" for n in named if n not in operators and n not in families]
    for name, op in operators.items():
        if name in table.entries and name in named:
            found.append(f"{name} is in the table, and has a reason not to be")
        elif name not in table.entries and table.about(op) and not (named.get(name) or named.get(op.family)):
            found.append(f"{name} is missing")
    return found


@pytest.mark.parametrize("name", TABLES)
def test_a_table_has_every_operator_or_a_reason(name: str) -> None:
    assert gaps(TABLES[name], OPERATORS) == []


@pytest.mark.parametrize("name", TABLES)
def test_a_planted_operator_without_entries_is_found(name: str) -> None:
    planted = replace(OPERATORS[TABLES[name].like], name="nn.planted")
    more = set(gaps(TABLES[name], {**OPERATORS, planted.name: planted})) - set(gaps(TABLES[name], OPERATORS))
    assert more == {"nn.planted is missing"}


@pytest.mark.parametrize("name", TABLES)
def test_a_planted_reason_is_found(name: str) -> None:
    entry = next(n for n in OPERATORS if n in TABLES[name].entries)
    both = replace(TABLES[name], reasons={**TABLES[name].reasons, (entry,): "none", ("nn.planted",): "none"})
    assert len(gaps(both, OPERATORS)) == len(gaps(TABLES[name], OPERATORS)) + 2


def with_a_step(scalars: Mapping[str, ScalarRule], steps: Collection[str]) -> set[str]:
    """The elementwise operators of floats of whose scalar expression a step is one of these operations."""
    found = set()
    for name, rule in scalars.items():
        op = OPERATORS[name]
        if all(d == "float32" for e in op.examples for _, d in e.operands):
            result = rule(op.check_attrs(op.examples[0].attrs), *(Var("x", FLOAT32) for _ in op.operands))
            if any(isinstance(n, Apply) and n.op in steps for n in post_order(result)):
                found.add(name)
    return found


@pytest.mark.parametrize(
    ("steps", "table", "like"),
    [(TRANSCENDENTAL, ELEMENTARY, "exp"), (("floor", "ceil", "rint", "round", "trunc"), DECIDES - {"where"}, "floor")],
    ids=["elementary", "jumps"],
)
def test_what_the_steps_of_an_operator_are(steps: Collection[str], table: Collection[str], like: str) -> None:
    scalars = {**elementwise.SCALARS, **functions.SCALARS}
    assert with_a_step(scalars, steps) == set(table)
    assert with_a_step({**scalars, "sqrt": elementwise.SCALARS[like]}, steps) != set(table)
