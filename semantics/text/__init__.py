"""The text format: TVMScript, read and written (specs/semantics.md, "Text")."""
