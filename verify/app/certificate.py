"""Certificates: everything that is needed to check a lowering again (specs/verify.md, "Certificate").

`write` leaves a directory: the C text and its weights; under `certificate/` each stage's module, the tensors, the
inputs and outputs of the run, the queries that z3 answered, and a manifest with the SHA-256 of every file. `Stored`
gives the artefacts back to `assay.verify.app.check`, which checks them as if they had just been made; `lines` then
writes all of it once more, and compares. Nothing of it is trusted, and nothing outside the directory is opened.
"""

from __future__ import annotations

import hashlib
import json
import os
import platform
import shutil
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import replace
from functools import partial
from math import inf
from pathlib import Path
from typing import Any

import numpy as np

from assay.lower.c import CSource, Interface, emit
from assay.lower.c.names import identifier as c_identifier
from assay.lower.constants.binding import with_given_constants
from assay.semantics import strict_json
from assay.semantics.bits import frozen
from assay.semantics.errors import Invalid
from assay.semantics.files import cannot_write, directory_at
from assay.semantics.graph import Expr
from assay.semantics.module import Module
from assay.semantics.store import ArrayWriter, decode, encode
from assay.semantics.strict_json import typed
from assay.verify import children
from assay.verify.app import executable
from assay.verify.app.bound import (
    Bound,
    digests_of,
    digests_of_arrays,
    file_digest,
    header_digest,
    load_bound,
    module_digest,
    stored_bound,
)
from assay.verify.app.check import CheckRun, Line, Lowering, program_at
from assay.verify.app.claims import misstated, proof_lines
from assay.verify.app.device_list import devices_as_data, devices_from
from assay.verify.app.packed import Packed, is_packed, pack_folder
from assay.verify.app.passes import with_passes
from assay.verify.app.sealed import Sealed
from assay.verify.border import npz
from assay.verify.border.files import replace_file
from assay.verify.border.inputs import as_members, load_opened, save
from assay.verify.border.onnx_containers import with_tensors_only
from assay.verify.border.onnx_defaults import with_given_defaults
from assay.verify.border.onnx_words import with_numbers_only
from assay.verify.c.tools import version
from assay.verify.evidence import Evidence, checked, plural, refuted
from assay.verify.memory import second_opinion

FORMAT = "assay-certificate-10"
VM_FORMAT = "assay-executable-2"
FOLDER = "certificate"
MANIFEST = f"{FOLDER}/manifest.json"
TENSORS = f"{FOLDER}/tensors.bin"
SIGNATURE = "manifest.sig"
KEYS = {
    FORMAT: [
        "format",
        "name",
        "seed",
        "interface",
        "device",
        "devices",
        "passes",
        "prove",
        "model",
        "lines",
        "about",
        "files",
    ],
    VM_FORMAT: ["format", "name", "seed", "late", "devices", "passes", "prove", "model", "lines", "about", "files"],
}


def write(
    directory: Path, check: CheckRun, lines: list[Line], bound: Bound, sign: Callable[[bytes], bytes] | None = None
) -> None:
    """Write the artefacts of a check that holds. The directory appears whole or not at all; what was there goes."""
    require_writable(directory)
    real = Path(os.path.realpath(directory))
    old = None
    try:
        parent = directory_at(real.parent)
        temporary = children.new_folder(f".{real.name}.", parent)
    except OSError as wrong:
        raise cannot_write(wrong, directory) from None
    try:
        _fill(temporary, check, lines, bound, sign)
        temporary.chmod(0o755)
        if real.exists():
            old = Path(tempfile.mkdtemp(prefix=f".{real.name}.", dir=parent))
            os.replace(real, old)
        os.replace(temporary, real)
        if old is not None:
            shutil.rmtree(old)
    except OSError as wrong:
        if old is not None:  # what was there is there again
            with suppress(OSError):
                old.rmdir() if real.exists() else os.replace(old, real)
        raise cannot_write(wrong, directory) from None
    finally:
        children.remove_folder(temporary)


def write_packed(
    path: Path, check: CheckRun, lines: list[Line], bound: Bound, sign: Callable[[bytes], bytes] | None = None
) -> None:
    """Write the artefacts of a check of bytecode that holds, as one file. It appears whole or not at all."""

    def packed(temporary: Path) -> None:
        with children.folder() as place:
            _fill(place, check, lines, bound, sign)
            pack_folder(place, temporary)

    replace_file(path, packed)


def require_writable(directory: Path) -> None:
    """Invalid where `write` could not write later: long work should not end in a path that was never good."""
    real = Path(os.path.realpath(directory))
    if real.is_symlink():
        raise Invalid("is a link that leads to itself; a directory is wanted", where=str(directory), label="output.C2")
    if real.exists() and not real.is_dir():
        raise Invalid("is no directory, and one is wanted", where=str(directory), label="output.C2")
    parent = next(p for p in real.parents if p.exists())
    if not parent.is_dir() or not os.access(parent, os.W_OK | os.X_OK):
        raise Invalid(f"cannot write in {parent}", where=str(directory), label="output.C1")
    try:
        ours = not real.exists() or (real / MANIFEST).is_file() or not any(real.iterdir())
    except OSError as wrong:
        raise cannot_write(wrong, directory) from None
    if not ours:
        raise Invalid(
            "is not empty, and not a directory that assay build made", where=str(directory), label="output.C2"
        )


def _fill(
    directory: Path, check: CheckRun, lines: list[Line], bound: Bound, sign: Callable[[bytes], bytes] | None
) -> None:
    if check.source is not None:
        check.source.write(directory)
    folder = directory / FOLDER
    folder.mkdir()
    with (folder / "tensors.bin").open("wb") as file:
        for name, data in _modules(check, ArrayWriter(file, set(check.late.values()))):
            (directory / name).write_bytes(data)
    for about, query in check.queries.items():
        (folder / f"{about}.smt2").write_text(query, "utf-8")
    save(folder / "inputs.npz", _inputs(check))
    save(folder / "outputs.npz", check.outputs)
    files = {str(p.relative_to(directory)): file_digest(p) for p in directory.rglob("*") if p.is_file()}
    making = {
        "seconds": [round(line.seconds, 3) for line in lines],
        "compiler": version(directory),
        "libm": " ".join(platform.libc_ver()),
    }
    manifest = _manifest(check, lines, bound, dict(sorted(files.items())), making).encode("utf-8")
    (folder / "manifest.json").write_bytes(manifest)
    if sign is not None:
        (folder / SIGNATURE).write_bytes(sign(manifest))


def _inputs(check: CheckRun) -> dict[str, np.ndarray[Any, Any]]:
    """All that was given to the model: what its program takes, and what stands in place of defaults."""
    return {**check.defaults, **check.inputs}


def _modules(check: CheckRun, arrays: ArrayWriter) -> Iterator[tuple[str, bytes]]:
    """The name and the bytes of each stage's module; their tensors go to `arrays`. An executable comes first: who runs
    it needs no other module."""
    if check.origin.vm:
        yield from executable.written(executable.without_late(check.modules["vm"], check.late), arrays)
    for stage, name in _module_files(check.origin.passes, check.origin.vm).items():
        yield name, encode(check.modules[stage], arrays).encode("utf-8")


def _module_files(passes: str, vm: bool) -> dict[str, str]:
    """The file of each stage's module, by stage name, in order; but for that of bytecode."""
    stages = enumerate(with_passes(passes, vm), 1)
    return {stage.name: f"{FOLDER}/{i}-{stage.name}.json" for i, stage in stages if stage.name != "vm"}


def _manifest(
    check: CheckRun, lines: list[Line], bound: Bound, files: Mapping[str, str], about: Mapping[str, Any]
) -> str:
    """The one way to write the manifest. All of it is claimed, but for `about`, which is about the machine that made
    it."""
    source = check.source
    if source is not None:
        head = {"format": FORMAT, "name": source.name, "seed": check.seed}
        head |= {"interface": source.interface, "device": source.device}
    else:
        head = {"format": VM_FORMAT, "name": check.origin.name, "seed": check.seed, "late": dict(check.late)}
    manifest = {
        **head,
        "devices": None if check.origin.config is None else devices_as_data(check.origin.config),
        "passes": check.origin.passes,
        "prove": check.thorough,
        "model": {
            **replace(bound, defaults=digests_of_arrays(check.defaults)).as_data(),
            "module": module_digest(check.modules["import"]),
        },
        "lines": [_claim(line) for line in lines],
        "about": about,
        "files": files,
    }
    return json.dumps(manifest, indent=1) + "\n"


def _claim(line: Line) -> dict[str, Any]:
    """What a line says, without how long it took."""
    return {key: value for key, value in line.as_data().items() if key != "seconds"}


class Stored:
    """The artefacts of a certificate, an `Origin` of `assay.verify.app.check`; only its directory is read, or the file
    of an executable, with the constants that are bound late."""

    def __init__(self, directory: Path, constants: Mapping[str, np.ndarray[Any, Any]] | None = None) -> None:
        self.directory = directory
        self.sealed = Packed(directory) if is_packed(directory) else Sealed(directory, FOLDER)
        self.vm = isinstance(self.sealed, Packed)
        path = directory / MANIFEST
        if MANIFEST not in self.sealed.names:
            raise Invalid("no certificate here; assay build makes one", where=str(directory), label="certificate.C1")
        self.text = self.sealed.text(MANIFEST)
        try:
            self.manifest: dict[str, Any] = strict_json.parse_json(self.text, fractions=True)
            wanted = VM_FORMAT if self.vm else FORMAT
            if self.manifest["format"] != wanted:
                raise ValueError(
                    f"its format is {str(self.manifest['format'])[:40]!r}, and {wanted} is read: build it again"
                )
            if list(self.manifest) != KEYS[wanted] or json.dumps(self.manifest, indent=1) + "\n" != self.text:
                raise ValueError("it is not written as assay build writes it")
            self.name, self.seed = typed(str, self.manifest["name"]), typed(int, self.manifest["seed"])
            self.late = digests_of(self.manifest["late"]) if self.vm else {}
            if not self.vm:
                self.interface, self.device = Interface(self.manifest["interface"]), typed(str, self.manifest["device"])
            devices = self.manifest["devices"]
            self.config = None if devices is None else devices_from(devices)
            self.passes = typed(str, self.manifest["passes"])
            self.prove = typed(bool, self.manifest["prove"])
            if self.seed < 0 or c_identifier(self.name) != self.name:
                raise ValueError("the seed or the name cannot be")
            self.bound = stored_bound(self.manifest["model"])
            self.about = _about_of(self.manifest["about"], typed(list, self.manifest["lines"]))
            files = digests_of(self.manifest["files"])
            missing = required(self.name, self.passes, self.vm) - set(files)
            if missing:
                raise ValueError(f"no digest of {min(missing)}")
        except (ValueError, KeyError, TypeError, IndexError, RecursionError, Invalid) as wrong:
            raise Invalid(f"not a certificate: {wrong}", where=str(path), label="certificate.C1") from None
        there = self.sealed.names - {MANIFEST, f"{FOLDER}/{SIGNATURE}"}
        for name in sorted(set(files) ^ there):
            if name in files:
                raise Invalid(
                    "a file of the certificate is missing", where=str(directory / name), label="certificate.C2"
                )
            raise Invalid("is no file of the certificate", where=str(directory / name), label="certificate.C5")
        for name, digest in files.items():
            if self.sealed.digest(name) != digest:
                raise Invalid(
                    "has changed since the certificate was made", where=str(directory / name), label="certificate.C3"
                )
        self.tensors: dict[str, Expr] = {}
        self.modules: dict[str, Module] = {}
        self.arrays = self.sealed.arrays(TENSORS)
        self.constants = self._given_late(constants or {})
        self.arrays.elsewhere = {self.late[n]: a for n, a in self.constants.items()}

    def _given_late(self, constants: Mapping[str, np.ndarray[Any, Any]]) -> Mapping[str, np.ndarray[Any, Any]]:
        """Constants that are bound late, which are those with which it was built."""
        where = str(self.directory)
        for name in constants:
            if name not in self.late:
                known = ", ".join(self.late) or "none"
                what = f"no constant {name!r} is bound late; those that are: {known}"
                raise Invalid(what, where=where, label="vm.C9")
        for name, digest in executable.digests(constants).items():
            if self.late[name] != digest:
                what = f"the constant {name} is another than the one with which it was built"
                raise Invalid(what, where=where, label="certificate.C3")
        if missing := [n for n in self.late if n not in constants]:
            what = f"the constant {missing[0]} is bound late: give all with --constants"
            raise Invalid(what, where=where, label="vm.C8")
        return {n: frozen(a) for n, a in constants.items()}

    def module(self, stage: str, before: Module | None) -> Module:
        """The module after `stage`, decoded from the certificate on first use."""
        if stage not in self.modules and stage == "vm":
            made = executable.read(self.sealed, self.arrays, str(self.directory))
            self.modules[stage] = executable.bound(made, self.constants)
        elif stage not in self.modules:
            name = _module_files(self.passes, self.vm)[stage]
            self.modules[stage] = decode(self.sealed.text(name), self.arrays, str(self.directory / name))
        return self.modules[stage]

    sized = staticmethod(program_at)

    def c_source(self, module: Module) -> CSource:
        """The C text that the stored plan makes: what a stranger has stored is compared with it, and never compiled."""
        digest = header_digest(module_digest(self.module("import", None)), self.bound, self.seed)
        return emit(module, self.name, digest=digest, interface=self.interface, device=self.device)

    def inputs(self) -> dict[str, np.ndarray[Any, Any]]:
        """What the program took, given or drawn."""
        return {n: a for n, a in self._arrays("inputs").items() if n not in self.bound.defaults}

    def given(self) -> dict[str, np.ndarray[Any, Any]]:
        """What was given to the program."""
        return {n: a for n, a in self.inputs().items() if n in self.bound.given}

    def defaults(self) -> dict[str, np.ndarray[Any, Any]]:
        """What was given in place of defaults of the model."""
        return {n: a for n, a in sorted(self._arrays("inputs").items()) if n in self.bound.defaults}

    def _arrays(self, name: str) -> dict[str, np.ndarray[Any, Any]]:
        with self.sealed.open(f"{FOLDER}/{name}.npz") as file:
            return load_opened(file, self.directory / FOLDER / f"{name}.npz")

    def signature(self, holds: Callable[[bytes, bytes], bool]) -> Evidence:
        """Whether the manifest, which has the digests of all else, was signed with a key."""
        name = f"{FOLDER}/{SIGNATURE}"
        if name not in self.sealed.names:
            return refuted("checked", "the certificate is not signed")
        if not holds(self.sealed.read(name), self.text.encode("utf-8")):
            return refuted("checked", "the signature is not one of this manifest with this key")
        return checked("the manifest was signed with this key")


def _about_of(data: Any, lines: list[Any]) -> dict[str, Any]:
    if list(typed(dict, data)) != ["seconds", "compiler", "libm"] or len(typed(list, data["seconds"])) != len(lines):
        raise ValueError("what is said about its making is not as it is written")
    if any(len(typed(str, data[key])) > 200 or not data[key].isprintable() for key in ("compiler", "libm")):
        raise ValueError("what is said about its making is no text of one line")
    if not all(0 <= typed(float, s) < inf for s in data["seconds"]):
        raise ValueError("what is said about its making cannot be")
    return dict(data)


def required(name: str, passes: str, vm: bool) -> set[str]:
    """The files that every certificate of a lowering with these passes has."""
    inside = ("tensors.bin", "inputs.npz", "outputs.npz", "constants.smt2", *(() if vm else ("pool.smt2",)))
    made = (executable.CODE, executable.BESIDE) if vm else (f"{name}.c", f"{name}.h")
    return {*made, *_module_files(passes, vm).values(), *(f"{FOLDER}/{n}" for n in inside)}


def lines(
    stored: Stored,
    check: CheckRun,
    key: Callable[[bytes, bytes], bool] | None = None,
    model: Path | None = None,
    second: bool = False,
    prove: bool = False,
) -> Iterator[Line]:
    """The lines of a check of stored artefacts, and one that holds the certificate's own claims to what was found.
    Before them, with a `key` one about its signature, with a `model` one about what it is bound to; behind them, where
    all else holds, what more can be proved of kernels, if that is to be and is not claimed, and a `second` solver's
    opinion of the proofs."""
    first = [("signature", partial(stored.signature, key))] if key is not None else []
    first += [("model", partial(_of_model, stored, model))] if model is not None else []
    for stage, look in first:
        line = _timed(stage, "", look)
        yield line
        if not line.evidence.holds:
            return
    found: list[Line] = []
    for line in check.lines():
        found.append(line)
        yield line
    if all(line.evidence.holds is not False for line in found):
        files = plural(len(stored.manifest["files"]), "file")
        yield _timed("certificate", files, partial(_claims, stored, check, found))
        if prove and not stored.prove:
            yield from proof_lines(check)
        if second:
            yield _timed("cvc5", "", partial(second_opinion, check.queries))


def _timed(stage: str, did: str, look: Callable[[], Evidence]) -> Line:
    """A line of what a look finds, with the time that it takes."""
    start = time.perf_counter()
    return Line(stage, did, look(), time.perf_counter() - start)


def _of_model(stored: Stored, path: Path) -> Evidence:
    """Whether the certificate is of the model in a file: of its bytes, and of what the import makes of them."""
    model, bound = load_bound(path)
    if bound.file != stored.bound.file:
        return refuted("checked", "the certificate is of another file")
    for name in sorted({*bound.beside, *stored.bound.beside}):
        if bound.beside.get(name) != stored.bound.beside.get(name):
            return refuted("checked", f"the certificate is of another {name} beside the file")
    defaults = stored.defaults()
    if isinstance(model, Module):
        model, defaults, _ = with_given_constants(model, defaults)
    else:
        taken = with_given_defaults(model, defaults, stored.bound.dims)
        model, defaults = taken.model, taken.inputs
        known = stored.module("import", None).main.attrs.get("strings", ())
        words = with_numbers_only(model, stored.inputs(), known)
        model, _ = with_tensors_only(
            words.model, words.given, stored.bound.dims, stored.seed, path.name, all_given=True
        )
    if defaults:
        return refuted("checked", f"the certificate gives {min(defaults)} in place of a default, and the file has none")
    lowering = Lowering(
        model, stored.name, stored.bound.dims, source=path.name, inputs=stored.given(), bounds=stored.bound.bounds,
        vm=stored.vm,
    )  # fmt: skip
    imported = lowering.module("import", None)
    if module_digest(imported) != module_digest(stored.module("import", None)):
        return refuted("checked", "the stored module is not the one that the import makes of the file")
    return checked("the file, and the module that the import makes of it, are those of the certificate")


def _claims(stored: Stored, check: CheckRun, found: list[Line]) -> Evidence:
    """Whether every file is, byte for byte, what would be written of what was found."""
    made = check.source
    if made is None and not stored.vm:
        return refuted("checked", "the check has ended before the C text")
    both = sorted({*check.defaults, *stored.bound.defaults} & {*check.inputs})
    if both:
        return refuted("checked", f"{both[0]} is an input of the program, and no default")
    files: dict[str, str] = {}

    def add(name: str, data: bytes) -> None:
        files[name] = hashlib.sha256(data).hexdigest()

    if made is not None:
        add(f"{made.name}.c", made.source.encode("ascii"))
        add(f"{made.name}.h", made.header.encode("ascii"))
    if made is not None and made.weights is not None:
        add(f"{made.name}_weights.c", made.loader.encode("ascii"))
        files[f"{made.name}.weights"] = made.weights_digest
    tensors = _Hashed()
    for name, data in _modules(check, ArrayWriter(tensors, set(check.late.values()))):  # type: ignore[arg-type]
        add(name, data)
    files[TENSORS] = tensors.sha256.hexdigest()
    for about, query in check.queries.items():
        add(f"{FOLDER}/{about}.smt2", query.encode("utf-8"))
    for name, arrays in (("inputs", _inputs(check)), ("outputs", check.outputs)):
        kept = _Hashed()
        npz.write_npz(kept, as_members(arrays))
        files[f"{FOLDER}/{name}.npz"] = kept.sha256.hexdigest()
    stated = stored.manifest["files"]
    for name in sorted({*files, *stated}):
        if files.get(name) != stated.get(name):
            return refuted("checked", _differs(name))
    again = _manifest(check, found, stored.bound, dict(sorted(files.items())), stored.about)
    if again != stored.text:
        return refuted("checked", misstated(json.loads(again), stored.manifest))
    return checked("every file and every line is as found again")


class _Hashed:
    """A file that is only hashed."""

    def __init__(self) -> None:
        self.sha256 = hashlib.sha256()

    def write(self, data: Any) -> None:
        self.sha256.update(data)


def _differs(name: str) -> str:
    """What is wrong with a file that is not as it would be written."""
    last = name.removeprefix(f"{FOLDER}/")
    if last == name:
        if last in (executable.CODE, executable.BESIDE):
            return f"{last} is not what would be written of what it holds"
        return "the C text is not the one that the stored plan makes"
    if last.endswith(".smt2"):
        return f"{last} is not the query that the stored plan makes"
    if last == "outputs.npz":
        return "the outputs in outputs.npz are not bit for bit what the program computes"
    return f"{last} is not what would be written of what it holds"
