"""Conformance: what a backend makes of cases with known results, as a scoreboard (specs/verify.md, "Conformance").

assay conform --backend onnxruntime
"""
