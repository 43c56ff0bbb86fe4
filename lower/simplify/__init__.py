"""Passes that take away what is not needed, or move it (specs/lower.md, "simplify")."""
