"""What it is: syntax trees, types, scalar and operator meaning, static rules. Chapter: specs/semantics.md."""

from assay.semantics.scalar import (
    derived as derived,  # both fill their part of the table of scalar operations
    transcendental as transcendental,
)
