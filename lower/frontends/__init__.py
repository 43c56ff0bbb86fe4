"""Readers of other people's programs: ONNX, Relay, live modules of TVM (specs/lower.md, "Import")."""
