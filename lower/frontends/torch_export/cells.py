"""Values that share memory: views, and tensors that are written (specs/lower.md, "torch.export").

A program of torch.export may write to a tensor (`add_`, `copy_`), and to a part of one by a view of it. Here a tensor
has a cell. A view is a cell that knows how it is read from the tensor that it is a view of, and how it is written back.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass, field

from assay.semantics.errors import Unsupported
from assay.semantics.graph import Expr

Read = Callable[[Expr], Expr]
"""What a view is of its whole."""
Write = Callable[[Expr, Expr], Expr]
"""The whole with a view replaced: of the whole and the view's new value."""


@dataclass(eq=False)
class TensorCell:
    """A tensor that may be written."""

    value: Expr
    whole: TensorCell | None = None
    read: Read | None = None
    """None where it may be a copy."""
    back: Write | None = None
    version: int = 0
    seen: int = 0
    """The version of the whole that `value` was read from."""
    written: bool = field(default=False)
    sharing: Collection[str] = ()
    """Tensors of the program that lie in the same memory, of which this knows no more."""
    in_order: bool = False
    """Whether its elements lie one after another in row-major order, from the start of its memory."""
    offset: int | None = None
    """Where in its memory it begins, in elements; None where that is not known."""

    def chain(self) -> list[TensorCell]:
        """This cell, what it is a view of, and so on."""
        found = [self]
        while (above := found[-1].whole) is not None:
            found.append(above)
        return found

    def memory(self) -> TensorCell:
        """The cell that this is a view of for certain, and that is none of another."""
        return next(c for c in self.chain() if c.whole is None or c.read is None)

    def get(self) -> Expr:
        """The value as it is now."""
        for cell in reversed(self.chain()[:-1]):
            assert cell.whole is not None
            if cell.seen != cell.whole.version:
                if cell.read is None:
                    message = "a tensor is written of which this may be a view or a copy, as its strides are"
                    raise Unsupported(message, label="torch_export.C7")
                cell.value = cell.read(cell.whole.value)
                cell.seen = cell.whole.version
                cell.version += 1
        return self.value

    def put(self, value: Expr) -> None:
        """Write a value, and with it what this is a view of."""
        self.get()
        new = value
        cells = self.chain()
        if cells[-1].sharing:
            others = ", ".join(sorted(cells[-1].sharing))
            raise Unsupported(f"a write to memory that {others} lies in too is not handled", label="torch_export.C7")
        for cell in cells:
            if cell.whole is not None and cell.back is None:
                raise Unsupported("a write to a view of this kind is not handled", label="torch_export.C7")
            cell.value = new
            cell.version += 1
            cell.written = True
            if cell.whole is not None and cell.back is not None:
                new = cell.back(cell.whole.value, new)
        for cell in cells[:-1]:
            assert cell.whole is not None
            cell.seen = cell.whole.version
