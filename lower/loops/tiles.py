"""For C: products and convolutions whose results are added up in small tiles (specs/lower.md, "loops").

Each element's additions stay in their order, so the results are those of the plain kernels, bit for bit (rule M10). It
is worth most where the C compiler may use wide vectors, such as with `-march=native`.
"""

from __future__ import annotations

from assay.lower.loops import Schedule, schedule
from assay.semantics.errors import Invalid
from assay.semantics.module import Module
from assay.semantics.tensor import PrimFunc
from assay.semantics.types import TensorType

ROWS, COLUMNS, FEATURES = 4, 32, 4
"""What one tile holds of a product, and how many feature planes a row of a convolution is added up for at a time."""


def tile_kernels(module: Module) -> Module:
    """The module with the tensor functions of products and convolutions in tiles, where they are large enough."""
    found = {n: tiled(k, str(k.attrs["operator"])) for n, k in module.kernels.items() if "operator" in k.attrs}
    return module.with_(**{n: k for n, k in found.items() if k is not None})


def tiled(func: PrimFunc, operator: str) -> PrimFunc | None:
    """The kernel of an operator in tiles, if it is that of a product or convolution that is large enough."""
    operands = tuple(TensorType(b.shape, b.dtype) for b in func.inputs)
    try:
        if operator == "matmul":
            made = _matmul(schedule(func), operands)
        elif operator.startswith("nn.conv"):
            made = _conv(schedule(func), len(operands[0].shape) - 2)
        else:
            made = None
    except Invalid:  # its loops do not have that form: grouped, strided over a single row, and the like
        return None
    return made.func if made is not None else None


def _matmul(s: Schedule, operands: tuple[TensorType, ...]) -> Schedule | None:
    a, b = (t.static_shape for t in operands)
    if len(a) < 2 or len(b) < 2 or a[-2] < ROWS or b[-1] < COLUMNS:
        return None
    row = f"i{max(len(a), len(b)) - 2}"
    s = s.fission(row).split(f"{row}#1", ROWS, ("io", "ii")).split("j0#1", COLUMNS, ("jo", "ji"))
    return s.reorder("io", "jo", "k", "ii", "ji").cache_write("out", "jo")


def _conv(s: Schedule, rank: int) -> Schedule:
    *rows, row = (f"i{d}#1" for d in range(rank))
    s = s.fission("o")
    if "i0#2" in s.loops:  # a bias is added after
        s = s.fission("o#1")
    s = s.split("o#1", FEATURES, ("oo", "oi"))
    s = s.reorder("oo", *rows, "c", *(f"k{d}" for d in range(rank)), "oi", row)
    return s.cache_write("out", rows[-1] if rows else "oo")
