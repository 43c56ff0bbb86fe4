"""`assay.load`, and what the other functions take for a program (specs/verify.md, "From Python")."""

from __future__ import annotations

import warnings
import weakref
from collections.abc import Mapping, Sequence
from dataclasses import replace
from importlib import import_module
from io import BytesIO
from pathlib import Path
from typing import Any, Protocol, TypeAlias, TypeVar, runtime_checkable

import numpy as np
import onnx

from assay.interp.graph import evaluate
from assay.lower.constants.binding import with_given_constants
from assay.lower.frontends.onnx.data_files import DataFile
from assay.lower.frontends.onnx.model import import_onnx, load_model
from assay.lower.frontends.onnx.outside import with_data_outside
from assay.lower.frontends.onnx.reading import read_model
from assay.lower.frontends.torch_export import parse_torch_export, plain_program
from assay.lower.frontends.torch_export.operators import DECOMPOSED
from assay.lower.frontends.torch_export.signature import own_name
from assay.semantics.errors import Invalid, Unsupported, placed
from assay.semantics.files import on_disk
from assay.semantics.module import Module
from assay.verify import children
from assay.verify.app.text_run import TORCH_EXPORT, export_bytes, is_text, load_either, load_text
from assay.verify.border.inputs import all_dims, load_npz as load_arrays, sized
from assay.verify.border.map_inputs import with_rows
from assay.verify.border.onnx_containers import with_tensors_only
from assay.verify.border.onnx_defaults import with_given_defaults
from assay.verify.border.onnx_words import with_numbers_only

Array = np.ndarray[Any, Any]


@runtime_checkable
class Exported(Protocol):
    """A program of `torch.export`, an `ExportedProgram`: what it has is only asked for by PyTorch."""

    def run_decompositions(self) -> Any:
        """The same program in fewer operators."""
        ...

    @property
    def graph_signature(self) -> Any:
        """Which inputs and outputs are whose."""
        ...


Program: TypeAlias = str | Path | onnx.ModelProto | Module | Exported
"""A file (MODEL.onnx; FILE.py, TVMScript; FILE.relay; FILE.mlir, StableHLO; FILE.pt2, torch.export), an ONNX model, a
module, or an exported program of PyTorch."""
Inputs: TypeAlias = Mapping[str, Any] | str | Path | None
"""Arrays by name, or an .npz file of them. A value that is no tensor is named by its parts, as in a file."""
Model = TypeVar("Model", onnx.ModelProto, Module)


def load(path: str | Path | Exported, *, dims: Mapping[str, int] | None = None, name: str | None = None) -> Module:
    """The module in a file: an ONNX model imported, or a text read and checked against the static rules; or that of an
    exported program of PyTorch.

    `dims` gives symbolic dims of its main a number, by name; `name` says which module is meant where a text has
    several. Invalid: the file cannot be read, is ill-formed, or has no such dim. Unsupported: an operator is not known.

    >>> assay.load("model.onnx", dims={"N": 2}).main.result_type
    Tensor((2, 2), float32)
    """
    if not isinstance(path, (str, Path)):
        return sized(of_exported(path)[0], dims or {})
    path = Path(path)
    if is_text(path):
        return sized(load_text(path, name), dims or {})
    model, _ = with_rows(load_model(path), {})
    return import_onnx(model, evaluate=evaluate, dims=dims or {}, source=path.name)


def at_sizes(module: Module, sizes: Mapping[str, int], archive: bytes) -> Module:
    """A module with numbers for symbolic sizes. One of an archive is read anew with these: what PyTorch computes of
    sizes when it runs, such as the places of a resized image, is known then. Raises what `sized` does."""
    made = sized(module, sizes)
    if not archive or not sizes:
        return made
    try:
        return parse_torch_export(archive, sizes=sizes)
    except Unsupported as wrong:
        if wrong.label != "torch_export.C4":  # else the module was read of the program in core operators
            raise
        return made


def opened(program: Program) -> tuple[onnx.ModelProto | Module, str]:
    """A program that is not yet lowered, and the name of its file, "" if it has none."""
    if isinstance(program, str | Path):
        return load_either(Path(program)), Path(program).name
    if isinstance(program, (onnx.ModelProto, Module)):
        return program, ""
    return of_exported(program)[0], ""


def of_exported(program: Exported) -> tuple[Module, bytes]:
    """The module of an exported program, and its archive. Where an operator of it is not known, the module is that of
    the program in PyTorch's core operators. Invalid (torch_export.C9): it is no exported program."""
    home = type(program).__module__
    if type(program).__name__ != "ExportedProgram" or not home.startswith("torch.export."):
        message = f"a {home}.{type(program).__name__} is no program; a file, a model, a module or an ExportedProgram is"
        raise Invalid(message, label="torch_export.C9")
    archive = archive_of(program)
    try:
        return parse_torch_export(archive, "the exported program"), archive
    except Unsupported as wrong:
        if wrong.label != "torch_export.C4":
            raise
        return _in_core_operators(program, wrong), archive


def _in_core_operators(program: Any, refused: Unsupported) -> Module:
    """The module of a program in PyTorch's core operators, whose results have the names that they have in the program.
    Unsupported: as the program is, where PyTorch cannot decompose it."""
    first = refused.message.removesuffix(DECOMPOSED)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            core = program.run_decompositions()
    except (AssertionError, RuntimeError, TypeError, ValueError) as failed:
        said = f"{first}; PyTorch's own run_decompositions() fails: {_innermost(failed)}"
        raise Unsupported(said, where=refused.where, label=refused.label) from None
    try:
        module = parse_torch_export(archive_of(core), "the exported program")
    except Unsupported as left:
        message = first if left.message == refused.message else f"{first}; after run_decompositions(): {left.message}"
        raise Unsupported(message.removesuffix(DECOMPOSED), where=refused.where, label=refused.label) from None
    pairs = zip(core.graph_signature.user_outputs, program.graph_signature.user_outputs, strict=True)
    names = {own_name(str(a)): own_name(str(b)) for a, b in pairs}
    outputs = tuple(names.get(o, o) for o in module.main.attrs["outputs"])
    if len(set(outputs)) < len(outputs):
        return module
    return module.with_(main=replace(module.main, attrs={**module.main.attrs, "outputs": outputs}))


def _innermost(failed: BaseException) -> str:
    """The first line of what an error was raised of."""
    while failed.__cause__ is not None:
        failed = failed.__cause__
    return f"{type(failed).__name__}: {str(failed).strip().partition(chr(10))[0]}"


def archive_of(program: Any) -> bytes:
    """The archive that PyTorch writes of a program, without the inputs that it was made with. Unsupported
    (torch_export.C2): it writes none of this one."""
    torch: Any = import_module("torch")
    out = BytesIO()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            torch.export.save(program, out)
        except NotImplementedError as wrong:
            first = str(wrong).partition("\n")[0]
            hint = "what it takes and gives should be tensors, tuples, lists and dicts, such as tuple(torch.topk(x, 3))"
            raise Unsupported(f"PyTorch cannot save this program: {first} {hint}", label="torch_export.C2") from None
        except torch._export.serde.serialize.SerializeError as wrong:
            hint = "a tensor that a branch or a loop reads from outside is to be one of its operands"
            message = f"PyTorch cannot save this program: {_innermost(wrong)}; {hint}"
            raise Unsupported(message, label="torch_export.C2") from None
    return out.getvalue()


def with_original(program: Program) -> tuple[Program, bytes]:
    """A program whose backends are judged, and what PyTorch is given of it. Where it is one of torch.export, a file or
    an exported program, these are its module and an archive: that of a file is written anew, with nothing in it but
    what was read. Any other is given back, with b""."""
    if isinstance(program, (onnx.ModelProto, Module)):
        return program, b""
    if isinstance(program, (str, Path)):
        path = Path(program)
        return plain_program(export_bytes(path), str(path)) if path.suffix in TORCH_EXPORT else (program, b"")
    return of_exported(program)


def file_name(program: Program) -> str:
    """The name of a program's file, "" if it has none."""
    return Path(program).name if isinstance(program, str | Path) else ""


def opened_outside(program: Program) -> tuple[onnx.ModelProto | Module, str, tuple[DataFile, ...]]:
    """What `opened` gives, with the large tensors of an ONNX model in files, and these files: to be held while the
    model is used. Those that are written for it are removed when nobody holds them. Raises what `with_data_outside`
    does."""
    folder: Path | None = None
    match program:
        case Module():
            return program, "", ()
        case onnx.ModelProto():
            name, model = "", program
        case Exported() if not isinstance(program, (str, Path)):
            return *opened(program), ()
        case _:
            if is_text(Path(program)):
                return *opened(program), ()
            source = read_model(program)
            name, model, folder = source.name, source.model, source.folder
    written: list[Path] = []

    def new_folder() -> Path:
        written.append(children.new_folder())
        return written[-1]

    try:
        with on_disk(), placed(name):
            light, files = with_data_outside(model, folder, new_folder)
    except BaseException:
        for place in written:
            children.remove_folder(place)
        raise
    for place in written:
        own = next(f for f in files if f.path.parent == place.resolve())
        weakref.finalize(own, children.remove_folder, place)
    return light, name, files


def input_arrays(inputs: Inputs) -> dict[str, Any]:
    """Inputs by name, from wherever they are. Invalid (input.C5): the file cannot be read."""
    return load_arrays(Path(inputs)) if isinstance(inputs, str | Path) else dict(inputs or {})


def output_arrays(outputs: Inputs) -> dict[str, Array]:
    """What somebody gave, by name, from wherever it is. Invalid (input.C5): the file cannot be read; (values.C1): what
    is given is no array."""
    found = input_arrays(outputs)
    for name, value in found.items():
        if not isinstance(value, (np.ndarray, np.generic)):
            raise Invalid(f"output {name!r} is {type(value).__name__}; an array is wanted", label="values.C1")
    return found


def with_inputs(
    model: Model, given: dict[str, Any], dims: Mapping[str, int], seed: int, name: str, strings: Sequence[str] = ()
) -> tuple[Model, dict[str, Any], dict[str, Any], dict[str, int]]:
    """A model with what is given for it: that in place of defaults, or of constants of a module's table, stands in it,
    as do sequences and optional values; the rest; what stands in place of those; and its sizes, those that the inputs
    have among them. `strings` is the table of another model, whose numbers for strings are to be those of this one."""
    if isinstance(model, onnx.ModelProto):
        found = with_given_defaults(model, given, dims)
        defaults = found.defaults
        words = with_numbers_only(found.model, found.inputs, strings, all_dims(found.model, found.inputs, dims), name)
        model, given = with_tensors_only(words.model, words.given, dims, seed, name)
    else:
        model, given, defaults = with_given_constants(model, given)
    return model, given, defaults, all_dims(model, given, dims)
