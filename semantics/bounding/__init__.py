"""Intervals for every number of a program: the parts behind `assay.semantics.bounds` (specs/semantics.md, "Numbers")."""
