"""ONNX models as modules of the graph IR (specs/lower.md, "Import")."""
