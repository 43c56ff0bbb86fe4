"""What is known of the rules by which ONNX's operators are imported (specs/verify.md, "Import").

The standard says of some operators what they mean in terms of others, their body. A case of such an operator comes
twice with the onnx package: as the operator, and with its body in its place. Both are imported, and shown to be the
same function of their inputs by terms (`assay.verify.operator_terms.graphs`). Of the other operators, what speaks for
a rule is that it gives the stored results of the standard's cases.
"""

from __future__ import annotations

import csv
import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from importlib.resources import files

import onnx
from onnx import ModelProto

from assay.lower.frontends.onnx.reading import domain_of
from assay.lower.frontends.onnx.schema import schema_of
from assay.semantics.errors import AssayError, Invalid
from assay.semantics.walk import Worklist
from assay.verify.conform.cases import NotJudged
from assay.verify.conform.onnx_cases import OnnxCase, onnx_cases
from assay.verify.equivalence import UNKNOWN
from assay.verify.operator_terms import KernelProof
from assay.verify.operator_terms.graphs import prove_functions

TABLE = "onnx_rules.csv"
EXPANDED = re.compile(r"(?P<case>.*)_expanded(_ver\d+)?(?P<rest>_cpu)?$")


@dataclass(frozen=True)
class RuleProof:
    """One case of an operator, and what is proved of it and its body."""

    operator: str
    case: str
    proof: KernelProof


@dataclass(frozen=True)
class RuleRow:
    """A line of the table: of one version of an operator, how many cases with a body there are and of how many the rule
    is proved to be the body, in which notion at least, and how many cases the standard has of it."""

    operator: str
    bodies: int
    proved: int
    notion: int
    cases: int
    reason: str = ""


def operator_key(domain: str, name: str, version: int) -> str:
    """How an operator's version is named: Softmax-13, ai.onnx.ml.Scaler-1."""
    return f"{domain}.{name}-{version}" if domain else f"{name}-{version}"


def operators_of(model: ModelProto) -> dict[str, int]:
    """The versions of ONNX's own operators that a model uses, in subgraphs and its functions too, and how often."""
    found: dict[str, int] = {}
    graphs = [(model.graph.node, {domain_of(o.domain): o.version for o in model.opset_import})]
    graphs += [(f.node, {domain_of(o.domain): o.version for o in f.opset_import}) for f in model.functions]
    own = {(domain_of(f.domain), f.name) for f in model.functions}
    for nodes, opsets in graphs:
        work = Worklist(nodes)
        for node in work:
            work.add(n for a in node.attribute for g in (a.g, *a.graphs) for n in g.node)
            domain = domain_of(node.domain)
            if (domain, node.op_type) in own or not onnx.defs.has(node.op_type, domain) or domain not in opsets:
                continue
            key = operator_key(domain, node.op_type, schema_of(node.op_type, domain, opsets[domain]).version)
            found[key] = found.get(key, 0) + 1
    return found


def case_operator(case: OnnxCase) -> str:
    """The operator and version that a case is of; "" where there is no model."""
    if not case.model:
        return ""
    uses = operators_of(onnx.load_model_from_string(case.model))
    return next((key for key in uses if key.rpartition("-")[0].rpartition(".")[2] == case.operator), "")


def prove_rules(name: str = "") -> Iterator[RuleProof]:
    """What is proved of the cases of an operator that come with its body too, of all operators where none is named.
    Invalid (prove.C3) where ONNX has no case with a body of it."""
    cases = {c.name: c for c in onnx_cases("^node/")}
    found = False
    for expanded, body in cases.items():
        parts = EXPANDED.match(expanded)
        whole = cases.get(parts["case"] + (parts["rest"] or "")) if parts else None
        if whole is None or name not in ("", whole.operator):
            continue
        found = True
        yield RuleProof(case_operator(whole), expanded.removeprefix("node/"), _proved(whole, body))
    if not found:
        raise Invalid(
            f"ONNX has no case of {name!r} with a body: its operators have names as Softmax, and most have no body",
            label="prove.C3",
        )


def _proved(whole: OnnxCase, body: OnnxCase) -> KernelProof:
    try:
        source, target = (c.posed()[0].subject.module.main for c in (whole, body))
    except (AssayError, NotJudged) as wrong:
        return KernelProof(UNKNOWN, str(wrong))
    return prove_functions(source, target)


@cache
def known_rules() -> dict[str, RuleRow]:
    """The table that the package contains, by operator and version."""
    text = files("assay.verify.frontends").joinpath(TABLE).read_text(encoding="utf-8")
    return {
        r["operator"]: RuleRow(
            r["operator"], int(r["bodies"]), int(r["proved"]), int(r["notion"]), int(r["cases"]), r["reason"]
        )
        for r in csv.DictReader(text.splitlines())
    }


def is_proved(row: RuleRow | None) -> bool:
    """Whether the rule is proved to be the standard's body, in all cases with one."""
    return row is not None and 0 < row.bodies == row.proved
