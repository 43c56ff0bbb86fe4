"""What was read is well-formed (specs/verify.md, "Import")."""

from __future__ import annotations

from assay.semantics.analyses.variables import reachable
from assay.semantics.errors import Invalid
from assay.semantics.graph import Call, Function
from assay.semantics.graph.bindings import sizes_of_arms
from assay.semantics.module import Module
from assay.semantics.operator import Operator
from assay.semantics.rules import check as check_rules
from assay.semantics.tensor import PrimFunc
from assay.semantics.walk import post_order
from assay.verify.evidence import Context, Did, Evidence, checked, listed, plural


def check(before: Module, after: Module, context: Context) -> Evidence:
    """Invalid: the module is not well-formed. That refutes no step of ours: there is no program that one could take."""
    check_rules(after)
    for name, function in after.graphs.items():
        for wrong in sizes_of_arms(function):
            raise Invalid(wrong.message, where=wrong.where or name, label=wrong.label)
    return checked("well-formed, every type derived anew")


def describe(before: Module, after: Module) -> Did:
    """How many calls of operators main has, and what it does not reach."""
    calls = [n.op.name for n in post_order(after.main) if isinstance(n, Call) and isinstance(n.op, Operator)]
    kinds = len(set(calls))
    reached = set(reachable(after))
    left = [n for n, d in after.definitions.items() if isinstance(d, (Function, PrimFunc)) and n not in reached]
    beside = f"; not lowered, for main does not reach it: {listed(left)}" if left else ""
    said = f"{plural(len(calls), 'node')} of {plural(kinds, 'operator')}{beside}"
    return said, {"nodes": len(calls), "operators": kinds, **({"unreached": len(left)} if left else {})}
