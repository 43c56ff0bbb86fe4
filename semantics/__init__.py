"""What it is: syntax trees, types, scalar and operator meaning, static rules. Chapter: specs/semantics.md."""
