"""Kernels for sizes that are unknown before a run (specs/verify.md, "Kernels for unknown sizes")."""
