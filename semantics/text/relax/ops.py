"""Relax operators and ours: one table, read in both directions (specs/semantics.md, "Text").

    from_relax("nn.softmax", [x], {"axis": -1})               # an expression of our operators
    to_relax(call)                                            # the Relax call that means just this one, or None

An operator of Relax that we lack is composed from ours, or refused by name. Operands are expressions, a tuple of them
where Relax takes a tuple, and plain numbers or dims where it takes scalars; a shape is a `ShapeExpr`, an expression of
shape type or a tuple of dims. Attributes have Relax's names; those that are missing take Relax's defaults.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from assay.semantics.errors import Invalid, Span, Unsupported
from assay.semantics.graph import Call, Expr
from assay.semantics.operator import Operator, Reasons
from assay.semantics.scalar import Const
from assay.semantics.text.relax import (
    elementwise as relax_elementwise,
    images,
    movement as relax_movement,
    nn as relax_nn,
    order,
    selection,
    several,
)
from assay.semantics.text.relax.build import (
    MISFITS,
    MISSING as MISSING,
    Build,
    RelaxCall as RelaxCall,
    Row as Row,
    attribute,
    misfit,
    plain,
)

ROWS: dict[str, Row] = {
    **relax_elementwise.ROWS,
    **relax_movement.ROWS,
    **relax_nn.ROWS,
    **selection.ROWS,
    **order.ROWS,
    **several.ROWS,
    **images.ROWS,
}
"""The operators of Relax that have a meaning here, by name without `R.` or `relax.`."""

WRITERS = {
    **relax_elementwise.WRITERS,
    **relax_movement.WRITERS,
    **relax_nn.WRITERS,
    **selection.WRITERS,
    **order.WRITERS,
}
"""For an operator of ours, what gives the Relax call of the same meaning."""

UNWRITTEN: Reasons = {
    ("reciprocal", "reinterpret", "det", "dft", "nn.lrn", "suppress"): "Relax has none",
    ("fmod",): "Relax's mod of floats is not read",
    ("arange", "nonzero", "unique", "shape_of", "device_copy"): (
        "what Relax has has other operands or attributes, and is not read as just this"
    ),
}
"""Our operators that are printed under our own names, and why."""

_HEADER = ("ndim", "dtype_code", "dtype_bits", "dtype_lanes", "shape_i", "stride_i", "byte_offset", "elem_offset")

UNREAD: Reasons = {
    ("image.grid_sample", "vision.roi_align", "vision.roi_pool"): "ONNX's GridSample, RoiAlign and MaxRoiPool are read",
    ("vision.all_class_non_max_suppression", "vision.non_max_suppression", "vision.get_valid_counts"): (
        "TVM's text leaves open which boxes come first; ONNX's NonMaxSuppression is read"
    ),
    ("vision.multibox_transform_loc",): "its result is laid out as one runtime wants it",
    ("nn.attention_var_len",): "a product of ragged rows, which TVM gives to a library alone",
    ("layout_transform",): "its attribute is a function of indices, written in TensorIR",
    ("null_value",): "the place of an operand that is not given",
    ("call_inplace_packed", "call_py_func"): "a foreign function that may change its operands",
    ("grad.nll_loss_backward", "grad.avg_pool2d_backward", "grad.max_pool2d_backward", "grad.take_backward"): (
        "a gradient that TVM's own pass writes"
    ),
    tuple(f"inspect.tensor_{part}" for part in _HEADER): "the header of a tensor in memory, of which a value has none",
    ("make_closure",): "TVM's pass LambdaLift writes it; a function within a function is read",
}
"""Operators of Relax that are refused, and why; the others that are have a later stage's names (`LOWERED`)."""

LOWERED = ("vm.", "memory.", "builtin.", "dist.", "ccl.")
"""What only stands in modules of TVM's later stages, by the beginning of its name."""


def row(name: str) -> Row:
    """The row of a Relax operator; Unsupported, by name, where there is none."""
    found = ROWS.get(name)
    if found is not None:
        return found
    if name.startswith(LOWERED) or name == "call_builtin_with_ctx":
        message = f"R.{name} belongs to a later stage of TVM; give the module before it is lowered to explicit memory"
        raise Unsupported(message, label="relax.C1")
    why = next((f": {why}" for names, why in UNREAD.items() if name in names), "")
    raise Unsupported(f"the operator R.{name} is not handled{why}", label="relax.C1")


def from_relax(name: str, operands: Sequence[Any], attrs: Mapping[str, Any], span: Span | None = None) -> Expr:
    """The expression that a Relax call means. `name` is that of the operator without `relax.`."""
    found = row(name)
    args, given = found.filled(f"R.{name}", operands, attrs, "relax.C2", attribute)
    try:
        return found.make(Build(name, span), [a if isinstance(a, (Expr, Const)) else plain(a) for a in args], given)
    except Invalid as wrong:
        raise wrong.at(span) from None
    except MISFITS:
        raise Invalid(misfit(f"R.{name}", args, given), where=span, label="relax.C3") from None


def bind_arguments(name: str, args: Sequence[Any], kwargs: Mapping[str, Any]) -> tuple[list[Any], dict[str, Any]]:
    """Operands and attributes of a call that is written as in Python: by place or by name, as TVM's function takes
    them."""
    found = row(name)
    order = (*found.operands, *found.attrs)
    if len(args) > len(order):
        raise Invalid(f"R.{name} takes {len(order)} arguments, {len(args)} given", label="relax.C2")
    bound: dict[str, Any] = dict(zip(order, args, strict=False))
    for key, value in kwargs.items():
        if key in bound:
            raise Invalid(f"R.{name} is given {key} twice", label="relax.C2")
        if key not in found.operands and key not in found.attrs:
            known = ", ".join(order)
            raise Invalid(f"R.{name} has no argument {key}; it has {known}", label="relax.C2")
        bound[key] = value
    operands = [bound.pop(param, default) for param, default in found.operands.items()]
    return operands, bound


def to_relax(node: Call) -> RelaxCall | None:
    """The Relax call that `from_relax` turns into just this call; None where there is none."""
    if not isinstance(node.op, Operator) or node.op.name not in WRITERS:
        return None
    return WRITERS[node.op.name](node)
