"""Which operators of a model have a meaning here (specs/lower.md, "Import")."""

from __future__ import annotations

from collections.abc import Mapping

import onnx.defs
from onnx import ModelProto, NodeProto

from assay.lower.frontends.onnx.control import CONTROL
from assay.lower.frontends.onnx.operators import DOMAINS, is_foreign, strings
from assay.lower.frontends.onnx.reading import domain_of
from assay.lower.frontends.onnx.registered import registered
from assay.lower.frontends.onnx.schema import schema_of
from assay.semantics.errors import Invalid


def without_meaning(model: ModelProto) -> list[int]:
    """The places of those nodes of the main graph whose operator has no meaning here: it is of a domain that is not the
    standard's, and neither the model nor a package says what it is; or it is one of the standard that is not supported.
    What is misspelt or misses its operator set is not among them: such a model is ill-formed, which its import says.
    Raises what `registered` does."""
    opsets = {domain_of(o.domain): o.version for o in model.opset_import}
    local = {(domain_of(f.domain), f.name, f.overload) for f in model.functions}
    return [i for i, node in enumerate(model.graph.node) if not _is_known(node, opsets, local)]


def _is_known(node: NodeProto, opsets: Mapping[str, int], local: set[tuple[str, str, str]]) -> bool:
    name, domain = node.op_type, domain_of(node.domain)
    if (domain, name, node.overload) in local or domain not in opsets or (domain, name) in strings.TABLE:
        return True
    if is_foreign(domain, name):
        return registered(domain, name) is not None
    if not onnx.defs.has(name, domain):
        return True
    if name in DOMAINS.get(domain, {}) or (domain == "" and name in CONTROL):
        return True
    try:
        return schema_of(name, domain, opsets[domain]).has_body
    except Invalid:  # it is not there in this operator set, which the import says
        return True
