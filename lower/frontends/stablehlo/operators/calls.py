"""Constants, calls, tuples and tokens (specs/lower.md, "StableHLO")."""

from __future__ import annotations

import re
from typing import Any

from assay.lower.frontends.stablehlo.node import HloNode, HloRule
from assay.lower.frontends.stablehlo.operators.checks import CALLED
from assay.lower.frontends.stablehlo.operators.lapack import LAPACK
from assay.lower.frontends.stablehlo.operators.windows import dynamic_reduce_window
from assay.lower.frontends.stablehlo.syntax import Dense, Symbolic
from assay.semantics import graph
from assay.semantics.errors import Unsupported
from assay.semantics.graph import Expr
from assay.semantics.tasks import Task

_NUMBERED = re.compile(r"\{(\d{1,4})\}", re.ASCII)


def constant(node: HloNode) -> Expr:
    """The elements as they are written."""
    value = node.attr("value")
    if not isinstance(value, Dense):
        raise node.wrong("the value is dense<...>")
    return graph.constant(node.array(value, value.type or node.op.types[0]), span=node.builder.span)


def name_of(node: HloNode, *names: str) -> str:
    """The name of a function or of a custom call, by the first attribute that is there."""
    for name in names:
        found = node.op.attrs.get(name)
        if isinstance(found, (str, Symbolic)):
            return found.name if isinstance(found, Symbolic) else found
    raise node.wrong(f"the attribute {names[0]} is missing")


def call(node: HloNode) -> Task[list[Expr]]:
    """The results of a function of the module."""
    return node.function(name_of(node, "callee"), node.args)


def composite(node: HloNode) -> Task[list[Expr]]:
    """What its decomposition gives: the specification says that both are the same."""
    return node.function(name_of(node, "decomposition"), node.args)


def custom_call(node: HloNode) -> Any:
    """A comparison of StableHLO's own tests, a routine of LAPACK, windows whose sizes operands say, or a note. Another
    is implementation-defined, and refused by name."""
    target = name_of(node, "call_target_name", "callee")
    if target not in CUSTOM:
        raise Unsupported(f"the custom call @{target} is not handled", label="stablehlo.C3")
    return CUSTOM[target](node)


def shape_assertion(node: HloNode) -> list[Expr]:
    """What JAX says of sizes that are not written: a run in which it does not hold traps. Its message names the values
    by their numbers, {0} and so on."""
    if not node.args:
        raise node.wrong("a bool is wanted")
    text = node.op.attrs.get("error_message", "")
    message = text if isinstance(text, str) else ""
    condition, *values = node.args
    named = [int(n) for n in _NUMBERED.findall(message)]
    if named and all(n < len(values) for n in named):
        message, values = _NUMBERED.sub("{}", message), [values[n] for n in named]
    node.builder.named(graph.assert_op(condition, *values, format=message, span=node.builder.span), "asserted")
    return []


def placed(node: HloNode) -> Expr:
    """The operand: which devices hold its parts changes none of its elements."""
    node.operands(1)
    return node.args[0]


def tuple_(node: HloNode) -> Expr:
    """The operands as one value."""
    return node.builder.named(graph.tuple_of(*node.args))


def get_tuple_element(node: HloNode) -> Expr:
    """A field of a tuple."""
    if len(node.args) != 1:
        raise node.wrong("one operand is wanted")
    return node.builder.named(graph.get(node.args[0], node.number("index")))


def token(node: HloNode) -> Expr:
    """A token: lets are in the order of the text, so there is nothing in it."""
    return node.builder.named(graph.tuple_of(), "token")


def noted(node: HloNode) -> list[Expr]:
    """The operands: the call only says where they live."""
    return list(node.args)


CUSTOM: dict[str, HloRule] = {
    **CALLED,
    **LAPACK,
    "Sharding": noted,
    "annotate_device_placement": noted,
    "shape_assertion": shape_assertion,
    "stablehlo.dynamic_reduce_window": dynamic_reduce_window,
}
"""By the name of what is called."""

TABLE: dict[str, HloRule] = {
    "func.call": call,
    "sdy.reshard": placed,
    "sdy.sharding_constraint": placed,
    "stablehlo.after_all": token,
    "stablehlo.composite": composite,
    "stablehlo.constant": constant,
    "stablehlo.create_token": token,
    "stablehlo.custom_call": custom_call,
    "stablehlo.get_tuple_element": get_tuple_element,
    "stablehlo.tuple": tuple_,
}
