"""Relax operators as TVM prints them (specs/semantics.md, "Text")."""
