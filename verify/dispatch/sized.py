"""A tensor function with numbers for some of its symbols and scalars (specs/verify.md, "Kernels for unknown sizes")."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from assay.semantics.instance import replaced
from assay.semantics.scalar import Var, const
from assay.semantics.tensor import Buffer, PrimFunc
from assay.semantics.tensor.blocks import without_blocks
from assay.semantics.tensor.mapping import Mapper, bound_buffers


def with_numbers(func: PrimFunc, values: Mapping[Var, int]) -> PrimFunc:
    """The function with these values, as plain nodes. Scalars that have one are no parameters any more."""
    plain = without_blocks(func)
    made = Mapper({v: const(n, v.dtype) for v, n in values.items()})
    for b in (*plain.params, *bound_buffers(plain.body)):
        made.buffers[b] = Buffer(b.name, tuple(replaced(d, dict(values)) for d in b.shape), b.dtype, b.scope, b.notes)
    params = tuple(made.buffers[b] for b in plain.params)
    scalars = tuple(s for s in plain.scalars if s not in values)
    return replace(plain, params=params, body=made.run(plain.body), scalars=scalars)
