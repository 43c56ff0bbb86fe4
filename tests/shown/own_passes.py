"""Passes of one's own, as `--passes own[run=tests.shown.own_passes:NAME]` takes them, and a table for an engine."""

from __future__ import annotations

import numpy as np

from assay.lower.passes import function_pass
from assay.lower.rewriting import rewrite_matches
from assay.lower.rewriting.pattern import anything, op
from assay.semantics.graph import call, constant
from tests.lower.engines import TABLE

__all__ = ["TABLE", "twice", "wrong"]

X = anything()
twice = function_pass(
    lambda f: rewrite_matches(f, op("add")(X, X), lambda found, at: call("multiply", found[X], constant(np.float32(2))))
)
"""x + x is x * 2."""
wrong = function_pass(lambda f: rewrite_matches(f, op("exp")(X), lambda found, at: call("tanh", found[X])))
"""exp is taken for tanh."""
