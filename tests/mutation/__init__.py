"""Mutants of Assay's own code, and whether its tests and checks notice them (specs/verify.md, "Mutants")."""
