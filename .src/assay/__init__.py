"""Assay: what a tensor program means, its lowering to C, and the proof of each step.

Four rooms, one above the other: `assay.semantics` (what it is), `assay.interp` (run it), `assay.lower` (make it
concrete), `assay.verify` (is it right?).
"""
