"""Assay inside other tools: pytest, and ONNX's own test runner (specs/verify.md, "pytest")."""
