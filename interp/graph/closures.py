"""Functions among a run's results, called after it (specs/interp.md, "Graph")."""

from __future__ import annotations

from collections.abc import Sequence

from assay.interp import vector
from assay.interp.graph import _Evaluator
from assay.interp.values import Closure, Value
from assay.semantics.module import Module


def call_closure(module: Module, closure: Closure, args: Sequence[Value] = ()) -> Value:
    """The result of a function that a run of `module` gave; it has the values that it had there."""
    return _Evaluator(module, False, vector.run, None).call(closure, args)
