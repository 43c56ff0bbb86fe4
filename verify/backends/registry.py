"""Backends by name: our own and those of other packages (specs/verify.md, "Backends")."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, MutableMapping
from functools import partial
from importlib.metadata import EntryPoint, entry_points

from assay.semantics.errors import Invalid
from assay.verify.app.foreign import python_object
from assay.verify.backends.apache_tvm import Tvm
from assay.verify.backends.catalogue import split_place
from assay.verify.backends.functions import as_backend, loading
from assay.verify.backends.gpu import CUDA, ON_CUDA
from assay.verify.backends.ort import OnnxRuntime
from assay.verify.backends.protocol import Backend
from assay.verify.backends.reference import Reference

GROUP = "assay.backends"
"""The group of entry points by which a package registers backends: each has the backend's name, and stands for an
object that is a `Backend`, for a class or function without arguments that gives one, or for a function of a model and
its inputs."""


class BuiltIn(MutableMapping[str, Backend]):
    """Backends by name, each made when it is first asked for: some need much of this package, and a process in which
    another one runs does without it."""

    def __init__(self, makers: Mapping[str, Callable[[], Backend]]) -> None:
        self._makers = dict(makers)
        self._made: dict[str, Backend] = {}

    def __getitem__(self, name: str) -> Backend:
        if name not in self._made:
            self._made[name] = self._makers[name]()
        return self._made[name]

    def __setitem__(self, name: str, backend: Backend) -> None:
        self._makers[name] = lambda: backend
        self._made[name] = backend

    def __delitem__(self, name: str) -> None:
        del self._makers[name]
        self._made.pop(name, None)

    def __iter__(self) -> Iterator[str]:
        return iter(self._makers)

    def __len__(self) -> int:
        return len(self._makers)


def _adversarial() -> Backend:
    from assay.verify.oracle.adversarial import Adversary

    return Adversary()


TORCH = (
    "torch", "torch:core", "torch:eager", "torch:compile", "torch:aot_eager", "torch:aot", "torch:cuda",
    "torch:compile:cuda",
)  # fmt: skip


def _torch(name: str) -> Backend:
    from assay.verify.backends.pytorch import MODES, Torch

    return Torch(name, **MODES[name])


ONNX_TOOLS = ("openvino", "tract", "opencv", "mnn", "tinygrad", "iree", "emx-onnx-cgen")
"""Those that `assay.verify.backends.onnx_runners` compiles for."""


def _onnx_tool(name: str) -> Backend:
    from assay.verify.backends.onnx_runners import RUNNERS

    return next(b for b in RUNNERS if b.name == name)


def _xla(name: str) -> Backend:
    from assay.verify.backends.xla import ON_CPU, ON_GPU, Xla

    return Xla(name, *(ON_GPU if name.endswith(CUDA) else ON_CPU))


def _own(name: str) -> Backend:
    from assay.verify.backends.ours import NUMPY, C

    return next(b for b in (*NUMPY, *C) if b.name == name)


BACKENDS: MutableMapping[str, Backend] = BuiltIn(
    {
        "onnxruntime": lambda: OnnxRuntime("onnxruntime"),
        "onnxruntime:none": lambda: OnnxRuntime("onnxruntime:none", "ORT_DISABLE_ALL"),
        "onnxruntime:basic": lambda: OnnxRuntime("onnxruntime:basic", "ORT_ENABLE_BASIC"),
        "onnxruntime:cuda": lambda: OnnxRuntime("onnxruntime:cuda", provider="CUDAExecutionProvider", accepts=ON_CUDA),
        "reference": Reference,
        "adversarial": _adversarial,
        **{name: partial(_torch, name) for name in TORCH},
        **{name: partial(_xla, name) for name in ("xla", "xla:cuda")},
        "tvm": lambda: Tvm("tvm"),
        "tvm:cpu": lambda: Tvm.named("tvm:cpu", "cpu"),
        **{name: partial(_onnx_tool, name) for name in ONNX_TOOLS},
        **{name: partial(_own, name) for name in ("numpy", "numpy:wide", "numpy:reversed", "c", "c:O0", "c:contract")},
    }
)
FAMILIES: dict[str, Callable[[str, str], Backend]] = {"tvm": Tvm.named}
"""Backends of ours that take what stands behind their name and a colon: what makes one of the whole name and that."""


def of_ours(name: str) -> Backend | None:
    """The backend of ours of that name, if it is one, here or at an address. Invalid (backend.C3): what stands behind
    the colon is not of its form."""
    name, _ = split_place(name)
    family, colon, variant = name.partition(":")
    if name in BACKENDS or not colon or family not in FAMILIES:
        return BACKENDS.get(name)
    return FAMILIES[family](name, variant)


def registered() -> dict[str, list[EntryPoint]]:
    """What other packages register under names that are not ours."""
    found: dict[str, list[EntryPoint]] = {}
    for entry in entry_points(group=GROUP):
        if entry.name not in BACKENDS:
            found.setdefault(entry.name, []).append(entry)
    return found


def packages_of(name: str) -> list[tuple[str, str]]:
    """The packages that register a backend of this name, each with its version."""
    return sorted({(e.dist.name, e.dist.version) if e.dist is not None else ("?", "") for e in registered()[name]})


def names() -> list[str]:
    """The names of all backends, whether their tools are installed or not; ours first."""
    return [*BACKENDS, *sorted(registered())]


def is_place(name: str) -> bool:
    """Whether a name is MODULE:NAME, a Python object, and none of ours, such as `onnxruntime:none`."""
    return PLACE.fullmatch(name) is not None and name.partition(":")[0] not in BACKENDS


PLACE = re.compile(r"[^\W\d][\w.]*:[^\W\d][\w.]*")


def require_known(name: str) -> None:
    """Invalid (backend.C3): nothing has this name. Whether a package gives a backend, and what is at MODULE:NAME, is
    not looked at: that would run its code. Of another machine nothing is known."""
    if split_place(name)[1]:
        require_address(name)
    elif of_ours(name) is None and not is_place(name) and name not in registered():
        raise Invalid(
            f"no backend {name!r}; there are {', '.join(names())}; tvm:PASS,PASS,...; or MODULE:NAME, a Python object;"
            " each of them @tcp://HOST:8786, through a Dask scheduler there",
            label="backend.C3",
        )


ADDRESS = re.compile(r"(tcp|tls|ws|wss)://[^\s/@]+:[0-9]{1,5}/?")


def require_address(name: str) -> None:
    """Invalid (backend.C3): what stands behind the @ of a name is no address of a scheduler."""
    if not ADDRESS.fullmatch(split_place(name)[1]):
        raise Invalid(
            f"no backend {name!r}: behind @ the address of a Dask scheduler is due, such as tcp://host:8786",
            label="backend.C3",
        )


def backend(name: str) -> Backend:
    """The backend of that name, or what is at MODULE:NAME, its module imported as Python would from the working
    directory. Invalid where there is none (backend.C3), or where who registers it does not give one (backend.C4)."""
    ours = of_ours(name)
    if ours is not None:
        return ours
    require_known(name)
    entries = registered().get(name)
    if not entries:
        where = f"the backend {name}"
        try:
            found = python_object(where, name)
        except Invalid as wrong:
            raise Invalid(wrong.message, label="backend.C4") from wrong
        return as_backend(found, where, name)
    packages = [name for name, _ in packages_of(name)]
    if len(entries) > 1:
        raise Invalid(
            f"the backend {name} is registered {len(entries)} times, by {', '.join(packages)}", label="backend.C4"
        )
    where = f"the backend {name}, {entries[0].value} of {packages[0]},"
    with loading(where):
        return as_backend(entries[0].load(), where, name)
