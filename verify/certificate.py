"""Certificates: everything that is needed to check a lowering again (specs/verify.md, "Certificate").

`write` leaves a directory: the C text and its weights; under `certificate/` each stage's module, the tensors, the
inputs and outputs of the run, the queries that z3 answered, and a manifest with the SHA-256 of every file. `Stored`
gives the artefacts back to `assay.verify.check`, which checks them as if they had just been made. Nothing outside the
directory is read.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from assay.lower.c import CSource, Interface, emit
from assay.lower.c.names import identifier as c_identifier
from assay.semantics.compilation import CompilationConfig
from assay.semantics.devices import VirtualDevice
from assay.semantics.errors import Invalid
from assay.semantics.graph import Expr
from assay.semantics.module import Module
from assay.semantics.store import ArrayReader, ArrayWriter, decode, encode
from assay.verify.check import Check, Line
from assay.verify.evidence import Evidence, checked, plural, refuted
from assay.verify.inputs import load, save
from assay.verify.stages import STAGES

FORMAT = "assay-certificate-2"
FOLDER = "certificate"


def write(directory: Path, check: Check, lines: list[Line], name: str) -> None:
    """Write the artefacts of a check that holds. The directory appears whole or not at all; what was there goes."""
    require_writable(directory)
    try:
        parent = directory.absolute().parent
        parent.mkdir(parents=True, exist_ok=True)
        temporary = Path(tempfile.mkdtemp(prefix=f".{directory.name}.", dir=parent))
    except OSError as wrong:
        raise Invalid(f"cannot write: {wrong.strerror}", where=str(directory), label="output.C1") from None
    try:
        _fill(temporary, check, lines, name)
        temporary.chmod(0o755)
        old = None
        if directory.exists():
            old = Path(tempfile.mkdtemp(prefix=f".{directory.name}.", dir=parent))
            os.replace(directory, old)
        os.replace(temporary, directory)
        if old is not None:
            shutil.rmtree(old)
    except OSError as wrong:
        raise Invalid(f"cannot write: {wrong.strerror}", where=str(directory), label="output.C1") from None
    finally:
        shutil.rmtree(temporary, ignore_errors=True)


def require_writable(directory: Path) -> None:
    """Invalid where `write` could not write later: long work should not end in a path that was never good."""
    if directory.exists() and not is_ours(directory):
        raise Invalid("is not empty, and not a directory that assay build made", where=str(directory), label="output.C2")
    parent = next(p for p in (directory.absolute().parent, *directory.absolute().parents) if p.exists())
    if not parent.is_dir() or not os.access(parent, os.W_OK | os.X_OK):
        raise Invalid("cannot write here", where=str(directory), label="output.C1")


def is_ours(directory: Path) -> bool:
    """Whether a directory may be replaced: it is empty, or one that `write` made."""
    return directory.is_dir() and ((directory / FOLDER / "manifest.json").is_file() or not any(directory.iterdir()))


def _fill(directory: Path, check: Check, lines: list[Line], name: str) -> None:
    assert check.source is not None
    check.source.write(directory)
    folder = directory / FOLDER
    folder.mkdir()
    with (folder / "tensors.bin").open("wb") as file:
        arrays = ArrayWriter(file)
        for i, stage in enumerate(STAGES):
            text = encode(check.modules[stage.name], arrays)
            (folder / f"{i + 1}-{stage.name}.json").write_text(text, "utf-8")
    for about, query in check.queries.items():
        (folder / f"{about}.smt2").write_text(query, "utf-8")
    save(folder / "inputs.npz", check.inputs)
    save(folder / "outputs.npz", check.outputs)
    manifest = {
        "format": FORMAT,
        "name": name,
        "seed": check.seed,
        "interface": check.source.interface,
        "device": check.source.device,
        "devices": None if check.origin.config is None else _devices_as_data(check.origin.config),
        "lines": [line.as_data() for line in lines],
        "files": {str(p.relative_to(directory)): _digest(p) for p in sorted(directory.rglob("*")) if p.is_file()},
    }
    (folder / "manifest.json").write_text(json.dumps(manifest, indent=1) + "\n", "utf-8")


def _digest(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _devices_as_data(config: CompilationConfig) -> dict[str, Any]:
    """The devices that there are, and which of them, by number, are the host and the default."""
    devices = config.devices
    there = [[d.type, d.id, d.target] for d in devices]
    return {"there": there, "host": devices.index(config.host), "default": devices.index(config.default)}


def _devices_of(data: Any) -> CompilationConfig:
    if any([type(part) for part in row] != [str, int, str] for row in data["there"]):
        raise ValueError("a device is a type, an id and a target")
    there = tuple(VirtualDevice(kind, number, target) for kind, number, target in data["there"])
    config = CompilationConfig(there, there[data["host"]], there[data["default"]])
    known = CompilationConfig.make(there, config.host, config.default)
    if known != config or json.dumps(_devices_as_data(config)) != json.dumps(data):
        raise ValueError("the devices are not written as they are")
    return config


class Stored:
    """The artefacts of a certificate; an `Origin` of `assay.verify.check`."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        path = directory / FOLDER / "manifest.json"
        try:
            self.manifest: dict[str, Any] = json.loads(path.read_text("utf-8"))
            files = self.manifest["files"]
            if self.manifest["format"] != FORMAT or not isinstance(files, dict):
                raise ValueError("unknown format")
            self.name, self.seed = str(self.manifest["name"]), int(self.manifest["seed"])
            self.interface, self.device = Interface(self.manifest["interface"]), str(self.manifest["device"])
            devices = self.manifest["devices"]
            self.config = None if devices is None else _devices_of(devices)
            if self.seed < 0 or c_identifier(self.name) != self.name:
                raise ValueError("the seed or the name cannot be")
            missing = required(self.name) - set(files)
            if missing:
                raise ValueError(f"no digest of {min(missing)}")
        except FileNotFoundError:
            raise Invalid("no certificate here; assay build makes one", where=str(directory), label="certificate.C1") from None
        except (OSError, ValueError, KeyError, TypeError, IndexError, RecursionError, Invalid) as wrong:
            raise Invalid(f"not a certificate: {wrong}", where=str(path), label="certificate.C1") from None
        for name, digest in files.items():
            file = directory / name
            if not file.is_file():
                raise Invalid("a file of the certificate is missing", where=str(file), label="certificate.C2")
            if _digest(file) != digest:
                raise Invalid("has changed since the certificate was made", where=str(file), label="certificate.C3")
        self.tensors: dict[str, Expr] = {}
        self.arrays = ArrayReader(directory / FOLDER / "tensors.bin")

    def module(self, stage: str, before: Module | None) -> Module:
        index = next(i for i, s in enumerate(STAGES) if s.name == stage)
        path = self.directory / FOLDER / f"{index + 1}-{stage}.json"
        return decode(path.read_text("utf-8"), self.arrays, str(path))

    def c_source(self, module: Module) -> CSource:
        """The stored text and weights, as they are; `_claims` compares them with what the stored plan makes."""
        return CSource.read(self.directory, self.name)

    def inputs(self) -> dict[str, np.ndarray[Any, Any]]:
        return load(self.directory / FOLDER / "inputs.npz")

    def outputs(self) -> dict[str, np.ndarray[Any, Any]]:
        return load(self.directory / FOLDER / "outputs.npz")

    def query(self, about: str) -> str:
        path = self.directory / FOLDER / f"{about}.smt2"
        return path.read_text("utf-8") if path.is_file() else ""


def required(name: str) -> set[str]:
    """The files that every certificate has."""
    inside = [f"{i + 1}-{stage.name}.json" for i, stage in enumerate(STAGES)]
    inside += ["tensors.bin", "inputs.npz", "outputs.npz", "pool.smt2", "constants.smt2"]
    return {f"{name}.c", f"{name}.h", *(f"{FOLDER}/{n}" for n in inside)}


def lines(stored: Stored, check: Check) -> Iterator[Line]:
    """The lines of a check of stored artefacts, and one that holds the certificate's own claims to what was found."""
    holds = True
    for line in check.lines():
        holds = holds and line.evidence.holds
        yield line
    if holds:
        start = time.perf_counter()
        yield Line("certificate", plural(len(stored.manifest["files"]), "file"), _claims(stored, check), time.perf_counter() - start)


def _claims(stored: Stored, check: Check) -> Evidence:
    assert check.source is not None
    made = emit(check.modules["pool"], stored.name, interface=stored.interface, device=stored.device)
    stored_text = check.source.source, check.source.header, check.source.weights_digest, check.source.loader
    if (made.source, made.header, made.weights_digest, made.loader) != stored_text:
        return refuted("checked", "the C text is not the one that the stored plan makes")
    for about, text in check.queries.items():
        if stored.query(about) != text:
            return refuted("checked", f"{about}.smt2 is not the query that the stored plan makes")
    outputs = stored.outputs()
    if outputs.keys() != check.outputs.keys():
        return refuted("checked", "outputs.npz has other outputs than the program")
    for name, array in check.outputs.items():
        if array.tobytes() != outputs[name].tobytes():
            return refuted("checked", f"output {name} is not bit for bit what the program computes")
    return checked("digests, queries and outputs are as found again")
