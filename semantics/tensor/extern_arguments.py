"""What an extern is handed of a buffer, as memory that C can point at (rule M6.13; specs/semantics.md, "Blocks")."""

from __future__ import annotations

from collections.abc import Mapping

from assay.semantics.errors import Unsupported
from assay.semantics.scalar import as_expr, same
from assay.semantics.scalar.expression import Buffer
from assay.semantics.tensor.places import dense_strides, first_element, strides_of
from assay.semantics.tensor.statements import Call
from assay.semantics.tensor.views import View


def window(buffer: Buffer, views: Mapping[Buffer, View], call: Call) -> View | None:
    """A view of the memory itself that has the elements of `buffer` in their order; None where it is the memory.

    Unsupported where they do not lie side by side.
    """
    if buffer not in views:
        return None
    view, constant, at = views[buffer], False, buffer
    while at in views:
        inner = views[at]
        if not is_dense(inner):
            what = (
                f"{call.function} is handed {buffer.name}, whose elements do not lie side by side in"
                f" {inner.source.name}"
            )
            raise Unsupported(f"{what}: hand over a copy", where=call.span, label="tensor.C20")
        constant |= inner.constant
        at = inner.source
    first = first_element(view, views)
    made = Buffer(buffer.name, buffer.shape, buffer.dtype, buffer.scope)
    return View(made, at, first, dense_strides(buffer.shape), constant=constant)


def is_dense(view: View) -> bool:
    """Whether the elements of a view lie side by side in its source, in their order."""
    steps = strides_of(view.buffer.shape)
    return all(d == 1 or same(s, as_expr(n)) for d, s, n in zip(view.buffer.shape, view.strides, steps, strict=True))


def is_read_only(buffer: Buffer, views: Mapping[Buffer, View], fixed: set[Buffer]) -> bool:
    """Whether stores to a buffer are not allowed; `fixed` are inputs and constants."""
    while buffer in views:
        if views[buffer].constant:
            return True
        buffer = views[buffer].source
    return buffer in fixed
