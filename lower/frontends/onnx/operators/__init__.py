"""Translation rules from ONNX operators to ours, one for each operator and all its versions (specs/lower.md, "Import").

A rule is a function of a `Node`: operands, attributes, version. Adding one is one entry in the table of its file.
"""

from __future__ import annotations

from assay.lower.frontends.onnx import casts
from assay.lower.frontends.onnx.node import Rule
from assay.lower.frontends.onnx.operators import (
    activations,
    contraction,
    creation,
    draws,
    einsum,
    elementwise,
    images,
    losses,
    ml,
    movement,
    ngrams,
    normalization,
    pooling,
    quantization,
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
    suppression,
    training,
)

RULES: dict[str, Rule] = {
    name: rule
    for table in (
        activations.TABLE,
        casts.TABLE,
        contraction.TABLE,
        creation.TABLE,
        draws.TABLE,
        einsum.TABLE,
        elementwise.TABLE,
        images.TABLE,
        losses.TABLE,
        movement.TABLE,
        ngrams.TABLE,
        normalization.TABLE,
        pooling.TABLE,
        quantization.TABLE,
        recurrent.TABLE,
        reduction.TABLE,
        regions.TABLE,
        resizing.TABLE,
        sampling.TABLE,
        scattering.TABLE,
        selection.TABLE,
        sequences.TABLE,
        signal.TABLE,
        slicing.TABLE,
        suppression.TABLE,
    )
    for name, rule in table.items()
}
"""By the operator's name in the domain ai.onnx."""

DOMAINS: dict[str, dict[str, Rule]] = {
    "": RULES,
    "ai.onnx.ml": ml.TABLE,
    "ai.onnx.preview.training": training.TABLE,
}
"""The tables of all domains; ai.onnx is the one without a name."""
