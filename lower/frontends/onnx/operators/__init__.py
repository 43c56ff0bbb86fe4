"""Translation rules from ONNX operators to ours, one for each operator and all its versions (specs/lower.md, "Import").

A rule is a function of a `Node`: operands, attributes, version. Adding one is one entry in the table of its file.
"""

from __future__ import annotations

from assay.lower.frontends.onnx import contrib
from assay.lower.frontends.onnx.node import Rule
from assay.lower.frontends.onnx.operators import (
    activations,
    attention,
    casts,
    contraction,
    creation,
    draws,
    einsum,
    elementwise,
    fused,
    images,
    linear_models,
    losses,
    ml,
    movement,
    ngrams,
    normalization,
    padding,
    pooling,
    quantization,
    quantized,
    recurrent,
    reduction,
    regions,
    resizing,
    sampling,
    scattering,
    selection,
    sequences,
    signal,
    slicing,
    strings,
    suppression,
    training,
    trees,
    vector_machines,
)

_FILES = (
    activations, casts, contraction, creation, draws, einsum, elementwise, images, losses, movement, ngrams,
    normalization, padding, pooling, quantization, recurrent, reduction, regions, resizing, sampling, scattering,
    selection, sequences, signal, slicing, suppression,
)  # fmt: skip

RULES: dict[str, Rule] = {name: rule for file in _FILES for name, rule in file.TABLE.items()} | fused.STANDARD
"""By the operator's name in the domain ai.onnx."""

DOMAINS: dict[str, dict[str, Rule]] = {
    "": RULES,
    "ai.onnx.ml": {**ml.TABLE, **linear_models.TABLE, **trees.TABLE, **vector_machines.TABLE},
    "ai.onnx.preview.training": training.TABLE,
    contrib.DOMAIN: {**fused.TABLE, **attention.TABLE, **quantized.TABLE},
}
"""The tables of all domains; ai.onnx is the one without a name."""


def is_foreign(domain: str, name: str) -> bool:
    """Whether an operator is none of the standard's domains, nor one that is known of com.microsoft: a package may say
    what it means."""
    known = domain != contrib.DOMAIN or name in DOMAINS[domain] or (domain, name) in strings.TABLE
    return domain not in DOMAINS or not known
