"""Text of tensor functions (specs/semantics.md, "Text")."""
