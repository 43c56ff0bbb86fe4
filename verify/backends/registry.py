"""Backends by name: our own and those of other packages (specs/verify.md, "Backends")."""

from __future__ import annotations

import re
from collections.abc import Callable
from importlib.metadata import EntryPoint, entry_points

from assay.semantics.errors import Invalid
from assay.verify.app.foreign import python_object
from assay.verify.backends.apache_tvm import Tvm
from assay.verify.backends.functions import as_backend, loading
from assay.verify.backends.ort import OnnxRuntime
from assay.verify.backends.ours import NUMPY, C
from assay.verify.backends.protocol import Backend
from assay.verify.backends.pytorch import Torch
from assay.verify.backends.reference import Reference
from assay.verify.oracle.adversarial import Adversary

GROUP = "assay.backends"
"""The group of entry points by which a package registers backends: each has the backend's name, and stands for an
object that is a `Backend`, for a class or function without arguments that gives one, or for a function of a model and
its inputs."""

BUILT_IN: tuple[Backend, ...] = (
    OnnxRuntime("onnxruntime"),
    OnnxRuntime("onnxruntime:none", "ORT_DISABLE_ALL"),
    OnnxRuntime("onnxruntime:basic", "ORT_ENABLE_BASIC"),
    Reference(),
    Adversary(),
    Torch("torch"),
    Torch("torch:core", core=True),
    Tvm("tvm"),
    Tvm.named("tvm:cpu", "cpu"),
    *NUMPY,
    *C,
)
BACKENDS: dict[str, Backend] = {b.name: b for b in BUILT_IN}
FAMILIES: dict[str, Callable[[str, str], Backend]] = {"tvm": Tvm.named}
"""Backends of ours that take what stands behind their name and a colon: what makes one of the whole name and that."""


def of_ours(name: str) -> Backend | None:
    """The backend of ours of that name, if it is one. Invalid (backend.C3): what stands behind the colon is not of its
    form."""
    family, colon, variant = name.partition(":")
    if name in BACKENDS or not colon or family not in FAMILIES:
        return BACKENDS.get(name)
    return FAMILIES[family](name, variant)


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


def is_place(name: str) -> bool:
    """Whether a name is MODULE:NAME, a Python object, and none of ours, such as `onnxruntime:none`."""
    return PLACE.fullmatch(name) is not None and name.partition(":")[0] not in BACKENDS


PLACE = re.compile(r"[^\W\d][\w.]*:[^\W\d][\w.]*")


def require_known(name: str) -> None:
    """Invalid (backend.C3): nothing has this name. Whether a package gives a backend, and what is at MODULE:NAME, is
    not looked at: that would run its code."""
    if of_ours(name) is None and not is_place(name) and name not in _registered():
        raise Invalid(
            f"no backend {name!r}; there are {', '.join(names())}; tvm:PASS,PASS,...; or MODULE:NAME, a Python object",
            label="backend.C3",
        )


def backend(name: str) -> Backend:
    """The backend of that name, or what is at MODULE:NAME, its module imported as Python would from the working
    directory. Invalid where there is none (backend.C3), or where who registers it does not give one (backend.C4)."""
    ours = of_ours(name)
    if ours is not None:
        return ours
    require_known(name)
    entries = _registered().get(name)
    if not entries:
        where = f"the backend {name}"
        try:
            found = python_object(where, name)
        except Invalid as wrong:
            raise Invalid(wrong.message, label="backend.C4") from wrong
        return as_backend(found, where, name)
    packages = sorted({e.dist.name if e.dist is not None else "?" for e in entries})
    if len(entries) > 1:
        raise Invalid(
            f"the backend {name} is registered {len(entries)} times, by {', '.join(packages)}", label="backend.C4"
        )
    where = f"the backend {name}, {entries[0].value} of {packages[0]},"
    with loading(where):
        return as_backend(entries[0].load(), where, name)
