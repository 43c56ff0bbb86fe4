"""Intervals for the numbers of a program: the parts behind `assay.semantics.bounds` (specs/semantics.md, "Numbers")."""
