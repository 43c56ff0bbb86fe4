"""What it is: syntax trees, types, scalar and operator meaning, static rules. Chapter: specs/semantics.md."""

from assay.semantics import transcendental as transcendental  # fills its part of the table of scalar operations
