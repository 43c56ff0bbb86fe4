"""Backends by name: our own and those of other packages (specs/verify.md, "Backends")."""

from __future__ import annotations

from importlib.metadata import EntryPoint, entry_points
from typing import Any

from assay.semantics.errors import Invalid
from assay.verify.backends.apache_tvm import Tvm
from assay.verify.backends.ort import OnnxRuntime
from assay.verify.backends.ours import NUMPY, C
from assay.verify.backends.protocol import Backend
from assay.verify.backends.pytorch import Torch
from assay.verify.backends.reference import Reference
from assay.verify.oracle.adversarial import Adversary

GROUP = "assay.backends"
"""The group of entry points by which a package registers backends: each has the backend's name, and stands for an
object that is a `Backend`, or for a class or function without arguments that gives one."""

BUILT_IN: tuple[Backend, ...] = (
    OnnxRuntime("onnxruntime"),
    OnnxRuntime("onnxruntime:none", "ORT_DISABLE_ALL"),
    OnnxRuntime("onnxruntime:basic", "ORT_ENABLE_BASIC"),
    Reference(),
    Adversary(),
    Torch("torch"),
    Torch("torch:core", core=True),
    Tvm("tvm"),
    Tvm("tvm:cpu", of_target=True),
    *NUMPY,
    *C,
)
BACKENDS: dict[str, Backend] = {b.name: b for b in BUILT_IN}


def _registered() -> dict[str, list[EntryPoint]]:
    """What other packages register under names that are not ours."""
    found: dict[str, list[EntryPoint]] = {}
    for entry in entry_points(group=GROUP):
        if entry.name not in BACKENDS:
            found.setdefault(entry.name, []).append(entry)
    return found


def names() -> list[str]:
    """The names of all backends, whether their tools are installed or not; ours first."""
    return [*BACKENDS, *sorted(_registered())]


def backend(name: str) -> Backend:
    """The backend of that name. Invalid where there is none (backend.C3), or where the package that registers it does
    not give one (backend.C4)."""
    if name in BACKENDS:
        return BACKENDS[name]
    entries = _registered().get(name)
    if not entries:
        raise Invalid(f"no backend {name!r}; there are {', '.join(names())}", label="backend.C3")
    packages = sorted({e.dist.name if e.dist is not None else "?" for e in entries})
    if len(entries) > 1:
        raise Invalid(
            f"the backend {name} is registered {len(entries)} times, by {', '.join(packages)}", label="backend.C4"
        )
    where = f"the backend {name}, {entries[0].value} of {packages[0]},"
    try:
        made = entries[0].load()
        if not isinstance(made, Backend) or isinstance(made, type):
            made = made()
    except Exception as wrong:
        raise Invalid(f"{where} does not load: {type(wrong).__name__}: {wrong}", label="backend.C4") from wrong
    return require_backend(made, where)


def require_backend(made: Any, where: str) -> Backend:
    """The object, which is a backend. Invalid (backend.C4): it is none."""
    if isinstance(made, type) or not isinstance(made, Backend) or not isinstance(made.name, str):
        what = f"the class {made.__name__}" if isinstance(made, type) else f"a {type(made).__name__}"
        raise Invalid(
            f"{where} is {what}; an object with `name` and `prepare(subject, wanted)` is wanted", label="backend.C4"
        )
    return made
