"""Compiled C and its runs (specs/verify.md, "Compiled")."""
