"""Text of graph functions (specs/semantics.md, "Text")."""
