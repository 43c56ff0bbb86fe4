"""The sizes for which bytecode was built (specs/interp.md; specs/vm.md, "Runs")."""

from __future__ import annotations

from collections.abc import Mapping

from assay.semantics.bytecode import BytecodeFunction
from assay.semantics.bytecode.listing import told_limit
from assay.semantics.errors import Invalid
from assay.semantics.scalar import Var as Size


def check_limits(function: BytecodeFunction, sizes: Mapping[Size, int]) -> None:
    """Invalid (vm.C12) where a size is none for which the function was built."""
    for size, least, most in function.limits:
        n = sizes.get(size)
        if n is not None and (n < least or (most is not None and n > most)):
            what = f"{size.name} is {n}, and {function.name} was built for {told_limit(size, least, most)}"
            raise Invalid(f"{what} alone: its source says so, or --bound did", label="vm.C12")
