"""Backends on a GPU (specs/verify.md, "On a GPU"): what is needed for one, and what one is allowed.

What they declare is what their documentation says of their defaults; it was not measured here, for there was no GPU.
"""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path

from assay.semantics.errors import Invalid
from assay.verify.oracle.declarations import Accepts

CUDA = "cuda"
ON_CUDA = Accepts(tf32=True)
"""What a backend is allowed by default on a GPU of NVIDIA. That atomics add in any order needs no word: M9 lets sums be
in any order, and in another one in each run."""


def require_cuda(name: str, is_there: bool, why: str) -> None:
    """Invalid (backend.C1): the tool of a backend finds no such device, or was built without; why."""
    if not is_there:
        raise Invalid(f"the backend {name} needs a GPU with CUDA: {why}", label="backend.C1")


def xla_plugin(name: str) -> Path:
    """The library by which jaxlib reaches a GPU, which comes in a package of its own. Invalid (backend.C1): none is
    installed."""
    for package in ("jax_plugins.xla_cuda13", "jax_plugins.xla_cuda12"):
        try:
            found = find_spec(package)
        except ImportError:
            continue
        if found is not None and found.origin:
            return Path(found.origin).parent / "xla_cuda_plugin.so"
    raise Invalid(
        f"the backend {name} needs a GPU with CUDA: there is no plugin for jaxlib; pip install 'jax[cuda13]'",
        label="backend.C1",
    )
