"""Operators of other languages as several of ours, where two readers share them (specs/semantics.md, "Text")."""
