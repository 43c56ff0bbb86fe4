"""What binds a certificate to its model: digests, sizes, and what was given in place of defaults (specs/verify.md,
"Certificate")."""

from __future__ import annotations

import hashlib
import json
import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import onnx

from assay.semantics.files import recording
from assay.semantics.module import Module
from assay.semantics.store import contents
from assay.semantics.strict_json import typed
from assay.verify.app.text_run import load_either
from assay.verify.symbolic import Bounds


def digests_of_arrays(arrays: Mapping[str, np.ndarray[Any, Any]]) -> dict[str, str]:
    """SHA-256 of element type, shape and elements of each array."""
    return {n: hashlib.sha256(f"{a.dtype} {a.shape} ".encode() + a.tobytes()).hexdigest() for n, a in arrays.items()}


def file_digest(path: Path) -> str:
    """SHA-256 of a file."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


@dataclass(frozen=True)
class Bound:
    """The model that a certificate is of: SHA-256 of its file and of those that it names, by their place beside it, the
    sizes and bounds that were given for its symbolic dims, SHA-256 of what was given in place of its defaults, and the
    inputs that were given: others are drawn."""

    file: str = ""
    beside: Mapping[str, str] = field(default_factory=dict)
    dims: Mapping[str, int] = field(default_factory=dict)
    defaults: Mapping[str, str] = field(default_factory=dict)
    bounds: Bounds = field(default_factory=dict)
    given: tuple[str, ...] = ()

    def as_data(self) -> dict[str, Any]:
        """As plain data."""
        return {
            "file": self.file,
            "beside": dict(self.beside),
            "dims": dict(self.dims),
            "bounds": {name: list(ends) for name, ends in self.bounds.items()},
            "defaults": dict(self.defaults),
            "given": list(self.given),
        }


def load_bound(path: Path) -> tuple[onnx.ModelProto | Module, Bound]:
    """A model, and what binds a certificate to it, but for sizes."""
    with recording() as names:
        model = load_either(path)
    beside = {os.path.relpath(n, path.parent): file_digest(Path(n)) for n in names if Path(n) != path}
    return model, Bound(file_digest(path), dict(sorted(beside.items())))


def module_digest(module: Module) -> str:
    """SHA-256 of a module, whatever the file was called that it was read from."""
    return hashlib.sha256(_PLACE.sub(r'\1""', contents(module)).encode("utf-8")).hexdigest()


_PLACE = re.compile(r'(\["errors\.Span", \{"source": )"(?:[^"\\]|\\.)*"')


def digests_of(data: Any) -> dict[str, str]:
    """A mapping of SHA-256 digests, as it is stored. ValueError: it is none."""
    if any(not isinstance(d, str) or re.fullmatch("[0-9a-f]{64}", d) is None for d in typed(dict, data).values()):
        raise ValueError("a digest that is no SHA-256")
    return dict(data)


def stored_bound(data: Any) -> Bound:
    """What binds a certificate, as it is stored. ValueError: it is not written so."""
    if list(typed(dict, data)) != ["file", "beside", "dims", "bounds", "defaults", "given", "module"]:
        raise ValueError("the model is not written as it is")
    digests_of({"file": data["file"], "module": data["module"]})
    return Bound(
        data["file"],
        digests_of(data["beside"]),
        {typed(str, k): typed(int, v) for k, v in typed(dict, data["dims"]).items()},
        digests_of(data["defaults"]),
        {typed(str, k): _ends(v) for k, v in typed(dict, data["bounds"]).items()},
        tuple(typed(str, name) for name in typed(list, data["given"])),
    )


def _ends(data: Any) -> tuple[int | None, int | None]:
    low, high = (None if n is None else typed(int, n) for n in typed(list, data))
    return low, high


def header_digest(module: str, bound: Bound, seed: int) -> str:
    """What the C header says of where it comes from: all that the manifest says of it, so that the one holds the
    other."""
    data = bound.as_data()
    rest = json.dumps([*(data[k] for k in data if k != "file"), seed]).encode()
    said = (
        f"SHA-256 {module}, of a model whose file has SHA-256 {bound.file}; what is beside it, its sizes, what is given"
        " for its defaults, and the seed:"
    )
    return f"{said} SHA-256 {hashlib.sha256(rest).hexdigest()}"
