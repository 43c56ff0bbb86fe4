"""Graph modules become ONNX models (specs/lower.md, "Export").

    model = export_onnx(module)

`import_onnx` of the model gives the same values. The operator set is the newest that ONNX Runtime takes.
"""

from __future__ import annotations

import onnx

from assay.lower.onnx_export.program import RULES, UNSAID, Export
from assay.lower.onnx_export.writer import IR_VERSION, OPSET, DataBeside
from assay.semantics.graph import Expr
from assay.semantics.module import Module

__all__ = ["IR_VERSION", "OPSET", "RULES", "UNSAID", "DataBeside", "export_onnx"]


def export_onnx(
    module: Module, tensors: dict[str, Expr] | None = None, beside: DataBeside | None = None
) -> onnx.ModelProto:
    """The module's main as an ONNX model with the same inputs and outputs, by name.

    A tensor that a let names has that name, with a number where it is taken; without names (attribute `outputs`) the
    results are output_0, output_1 and so on. Functions are written where they are called, tensor functions as the
    operator or group that they claim to be; a symbolic size is a dim_param, and measured where it is used. Checks of
    sizes at run time are not written: where the module traps, the model may go on. `tensors`, where given, is filled
    with the graph's tensors by name, as nodes of `module.main`. Large constants are written into the file `beside` the
    model, where there is one: no model itself holds 2 GiB.

    Unsupported: onnx_export.C1 for what ONNX has no word for, onnx_export.C2 for an operator, or a form or element type
    of one, that it has not, onnx_export.C3 for an element type, onnx_export.C4 for a size that cannot be computed,
    onnx_export.C5 for parameters and results that no model can have, onnx_export.C6 for a model that is too large.
    """
    return Export(module, beside).model(tensors)
