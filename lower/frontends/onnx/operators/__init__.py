"""Translation rules from ONNX operators to ours, one for each operator and all its versions (specs/lower.md, "Import").

A rule is a function of a `Node`: operands, attributes, version. Adding one is one entry in the table of its file; the
tables of all files are found by their name, `TABLE`.
"""

from __future__ import annotations

import pkgutil
from importlib import import_module

from assay.lower.frontends.onnx import casts
from assay.lower.frontends.onnx.node import Rule
from assay.lower.frontends.onnx.operators import ml, training

_ELSEWHERE = ("gradient", "ml", "strings", "training")
"""Files whose tables are of other domains, or of operators on strings."""
_FILES = [import_module(f"{__name__}.{f.name}") for f in pkgutil.iter_modules(__path__) if f.name not in _ELSEWHERE]

RULES: dict[str, Rule] = {name: rule for file in (casts, *_FILES) for name, rule in getattr(file, "TABLE", {}).items()}
"""By the operator's name in the domain ai.onnx."""

DOMAINS: dict[str, dict[str, Rule]] = {
    "": RULES,
    "ai.onnx.ml": ml.TABLE,
    "ai.onnx.preview.training": training.TABLE,
}
"""The tables of all domains; ai.onnx is the one without a name."""
