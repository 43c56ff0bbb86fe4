"""Graph modules become StableHLO, the language of XLA, as text (specs/lower.md, "Export").

    text = export_stablehlo(module)

`parse_stablehlo` of the text gives the same values, within the bounds of what is composed.
"""

from __future__ import annotations

from assay.lower.stablehlo_export.program import RULES, UNSAID, HloExport
from assay.semantics.module import Module

__all__ = ["RULES", "UNSAID", "export_stablehlo"]


def export_stablehlo(module: Module) -> str:
    """The module's main as the function `main` of a StableHLO text, its parameters in their order; its results are the
    tensors of main's result, left to right.

    A size that is no number is `?`, and measured where it is needed; what the types of main's parameters say of such
    sizes is asserted, by the custom call shape_assertion. Functions of the module are private functions, tensor
    functions the operator or group that they claim to be; a function that calls itself as the last thing that it does
    is a while. Where an operator traps (an index outside, a division by 0, a conversion out of range) the text goes on
    with some value.

    Unsupported: stablehlo_export.C1 for what StableHLO has no word for, stablehlo_export.C2 for an operator, or a form
    of one, that is not said, stablehlo_export.C3 for a size that is not known or, where a number is wanted, none,
    stablehlo_export.C4 for parameters and results that no text can have, stablehlo_export.C5 for a text that is too
    large.
    """
    return HloExport(module).text()
