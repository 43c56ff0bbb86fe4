"""Constants: folded, gathered in the module's table, linked into tensor functions and bound late (specs/lower.md,
"constants").

    module = lift_constants(module, evaluate)          # folded, in the table, with offsets
    module = link_params(module)                       # constants of calls move into the tensor functions
    module = unlink_params(module)                     # and out of them again
    module = bind_constants(module, {"w": array})      # other contents for what a user has named

Two constants are one if their dtype, shape and bits are equal, so the sign of zero and NaN payloads stay, and if they
are to be stored alike. No array is copied: the table, graph and tensor functions hold the same one.
"""

from __future__ import annotations

from dataclasses import replace

from assay.lower.constants.binding import bind_constants
from assay.lower.constants.constant_table import constant_offsets
from assay.lower.constants.extract import extract_constants, trimmed
from assay.lower.constants.fold import Evaluate, fold_function
from assay.lower.constants.link import link_params, unlink_params
from assay.semantics.analyses.variables import reachable
from assay.semantics.module import Module
from assay.semantics.tensor import PrimFunc

__all__ = [
    "Evaluate",
    "bind_constants",
    "extract_constants",
    "fold_function",
    "constant_offsets",
    "lift_constants",
    "link_params",
    "unlink_params",
]


def lift_constants(module: Module, run_kernel: Evaluate) -> Module:
    """The module with its graph functions folded and all constants in its table; tensor functions that no graph
    function reaches any more are gone. Errors are those of `extract_constants`."""
    module = module.resolved()
    folded = {n: fold_function(d, module, run_kernel) for n, d in module.graphs.items()}
    return trimmed(_reached(extract_constants(module.with_(**folded))))


def _reached(module: Module) -> Module:
    """The module without tensor functions that graph functions do not reach; all of it where there are none of
    these."""
    graphs = list(module.graphs)
    used = set(reachable(module, graphs))
    if not graphs:
        return module
    return replace(
        module, definitions={n: d for n, d in module.definitions.items() if n in used or not isinstance(d, PrimFunc)}
    )
