"""ONNX's own cases, as the onnx package brings them (specs/verify.md, "Conformance").

Nothing is downloaded: the models called *real* are those of the package, whose weights their nodes make. The cases of
single nodes are made by the package's own code when they are asked for.
"""

from __future__ import annotations

import re
import warnings
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import ModelProto, TypeProto, numpy_helper

from assay.interp.graph import evaluate
from assay.lower.frontends.onnx.model import import_onnx
from assay.lower.frontends.onnx.string_table import Strings, text_names, without_strings
from assay.semantics.errors import Invalid
from assay.verify.backends import Subject
from assay.verify.border.inputs import all_dims
from assay.verify.border.onnx_containers import with_tensors_only
from assay.verify.border.onnx_defaults import with_given_defaults
from assay.verify.border.values import to_arrays
from assay.verify.conform.cases import SEVERAL, NotJudged, Posed

KINDS = ("node", "simple", "pytorch-operator", "pytorch-converted", "real")
RANDOM = "the standard leaves its random numbers open"
LIGHT = "onnx/backend/test/data/light/"
"""Where the real models are that the package has."""

Values = Sequence[Any]


@dataclass(frozen=True)
class OnnxCase:
    """One of ONNX's cases: a model, and one or more sets of inputs with the outputs that the package has stored for
    them. `folder` is where they are, where they are not at hand; `missing` why there is no model."""

    name: str
    operator: str
    model: bytes = b""
    sets: tuple[tuple[Values, Values], ...] = ()
    folder: str = ""
    missing: str = ""
    suite: str = "onnx"
    digest: str = ""

    def posed(self) -> list[Posed]:
        """Its runs, one for each set of data."""
        if self.missing:
            raise NotJudged("the model's file is missing", self.missing)
        model, sets = self._loaded()
        if not sets:
            raise NotJudged("the case has no data", f"{self.name} has no set of inputs and outputs")
        return [pose(model, inputs, outputs, self.name) for inputs, outputs in sets]

    def _loaded(self) -> tuple[ModelProto, Sequence[tuple[Values, Values]]]:
        if not self.folder:
            return onnx.load_model_from_string(self.model), self.sets
        place = Path(self.folder)
        if place.suffix == ".onnx":
            model = onnx.load(place)
            return model, [_dummy_set(model, place)]
        model = onnx.load(place / "model.onnx")
        return model, [_stored_set(model, at) for at in sorted(place.glob("test_data_set*"))]


def onnx_cases(pattern: str = "") -> list[OnnxCase]:
    """The cases whose name holds `pattern`, a regular expression, in the order of their kinds and names."""
    wanted = re.compile(pattern)
    found: list[OnnxCase] = []
    for kind in KINDS:
        made = [c for c in _of_kind(kind) if wanted.search(c.name)]
        found += sorted(made, key=lambda c: c.name)
    return found


def _of_kind(kind: str) -> Iterator[OnnxCase]:
    from onnx.backend.test.loader import load_model_tests

    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")  # of the code that makes the cases
        cases = load_model_tests(kind=kind)
    operators = {c.name: _operator(c.model) for c in cases if c.model is not None}
    for c in cases:
        name = f"{kind}/{c.name}"
        if c.model is not None and c.model_dir is None:
            # the body of a function is a case of that function
            whole = re.sub(r"_expanded(_ver\d+)?$", "", c.name)
            sets = tuple((tuple(map(_plain, i)), tuple(map(_plain, o))) for i, o in c.data_sets or ())
            yield OnnxCase(name, operators.get(whole, operators[c.name]), c.model.SerializeToString(), sets)
            continue
        place = _place(c.url, c.model_dir)
        there = place is not None and (place if place.suffix == ".onnx" else place / "model.onnx").is_file()
        if place is None or not there:
            yield OnnxCase(name, SEVERAL, missing=f"{c.url or place} is not in the onnx package")
        else:
            yield OnnxCase(name, _operator_of_file(place), folder=str(place))


def _place(url: str | None, folder: str | None) -> Path | None:
    if folder is not None:
        return Path(folder)
    if url is not None and url.startswith(LIGHT):
        return Path(onnx.__file__).parent.parent / url
    return None


def _operator(model: ModelProto) -> str:
    names = {n.op_type for n in model.graph.node} - {"Constant", "Identity"}
    return next(iter(names)) if len(names) == 1 else SEVERAL if names else "Identity"


def _operator_of_file(place: Path) -> str:
    return SEVERAL if place.suffix == ".onnx" else _operator(onnx.load(place / "model.onnx"))


# --- data -------------------------------------------------------------------------------------------------------------


def _plain(value: Any) -> Any:
    """A value of a case as arrays, lists and None."""
    match value:
        case onnx.TensorProto():
            return numpy_helper.to_array(value)
        case onnx.SequenceProto():
            return numpy_helper.to_list(value)
        case onnx.OptionalProto():
            return _plain(numpy_helper.to_optional(value))
        case list() | tuple():
            return [_plain(v) for v in value]
        case None:
            return None
        case _:
            return np.asarray(value)


def _stored_set(model: ModelProto, folder: Path) -> tuple[Values, Values]:
    """The inputs and outputs in a folder of the package."""

    def read(what: str, infos: Sequence[onnx.ValueInfoProto]) -> list[Any]:
        count = len(list(folder.glob(f"{what}_*.pb")))
        return [_proto((folder / f"{what}_{i}.pb").read_bytes(), infos[i].type) for i in range(count)]

    return read("input", model.graph.input), read("output", model.graph.output)


def _proto(data: bytes, of: TypeProto) -> Any:
    kinds = {
        "sequence_type": onnx.SequenceProto, "optional_type": onnx.OptionalProto, "tensor_type": onnx.TensorProto,
    }  # fmt: skip
    made = kinds[of.WhichOneof("value")]()
    made.ParseFromString(data)
    return _plain(made)


def _dummy_set(model: ModelProto, place: Path) -> tuple[Values, Values]:
    """What ONNX's own runner gives a model of the folder light, and the outputs that are stored for that."""
    from onnx.backend.test.runner import Runner

    initialized = {t.name for t in model.graph.initializer}
    inputs = [Runner.generate_dummy_data(i) for i in model.graph.input if i.name not in initialized]
    files = [place.with_name(f"{place.stem}_output_{i}.pb") for i in range(len(model.graph.output))]
    outputs = [_proto(f.read_bytes(), o.type) for f, o in zip(files, model.graph.output, strict=True)]
    return inputs, outputs


# --- as a subject -----------------------------------------------------------------------------------------------------


def pose(model: ModelProto, inputs: Values, outputs: Values, source: str) -> Posed:
    """A model on inputs by position, with the outputs that are stored. Raises what the import raises, and NotJudged
    where a result is random."""
    names = [i.name for i in model.graph.input]
    free = [n for n in names if n not in {t.name for t in model.graph.initializer}]
    whole = dict(zip(free if len(inputs) <= len(free) else names, inputs, strict=False))
    given = to_arrays({n: _text(v) for n, v in whole.items()})
    results = zip((o.name for o in model.graph.output), outputs, strict=False)
    stored = to_arrays({n: _text(v) for n, v in results})
    taken = with_given_defaults(model, given, {})
    made, given = with_tensors_only(taken.model, taken.inputs, {}, 0, source, all_given=True)
    strings = Strings()
    texts = [*text_names(made.graph.input), *text_names(made.graph.output)]
    numbers = {n: strings.numbers(a) if n in texts else a for n, a in given.items()}
    subject, numbers = _subject(made, numbers, strings, source)
    stored = {n: strings.numbers(a) if n in texts else a for n, a in stored.items()}
    same = subject.model is model
    return Posed(subject, numbers, stored, strings if texts else None, None if same else (model, whole))


def _text(value: Any) -> Any:
    """Strings as NumPy's own, which is what files have."""
    return value.astype(np.str_) if isinstance(value, np.ndarray) and value.dtype.kind in "OS" else value


def _subject(
    model: ModelProto, given: Mapping[str, Any], strings: Strings, source: str
) -> tuple[Subject, dict[str, Any]]:
    """The model with the definition of it. Where types depend on what inputs hold, as few of these as that takes stand
    in the model as their defaults; the other inputs."""
    dims = all_dims(_without_texts(model), given, {})

    def imported(of: ModelProto) -> Subject:
        tensors: dict[str, Any] = {}
        module = import_onnx(of, evaluate=evaluate, dims=dims, source=source, strings=strings, tensors=tensors)
        return Subject(module, of, tensors, dims)

    try:
        return imported(model), dict(given)
    except Invalid as wrong:
        first = wrong
    deciding = list(given)
    try:
        found = imported(_with_defaults(model, given, strings))
    except Invalid:
        if _is_random(model, dims, strings, source):
            raise NotJudged(RANDOM, first.message) from None
        raise first from None
    for name in given:
        fewer = {n: given[n] for n in deciding if n != name}
        try:
            found = imported(_with_defaults(model, fewer, strings))
        except Invalid:
            continue
        deciding = list(fewer)
    return found, {n: a for n, a in given.items() if n not in deciding}


def _is_random(model: ModelProto, dims: Mapping[str, int], strings: Strings, source: str) -> bool:
    """Whether nothing but a random result keeps a model from being imported."""
    try:
        import_onnx(model, evaluate=evaluate, dims=dims, source=source, strings=strings, draws=0)
    except Invalid:
        return False
    return True


def _with_defaults(model: ModelProto, values: Mapping[str, Any], strings: Strings) -> ModelProto:
    """The model in which these inputs have these values as defaults, and need not be given."""
    made = onnx.ModelProto()
    made.CopyFrom(model)
    texts = text_names(model.graph.input)
    for name, value in values.items():
        value = strings.texts(value) if name in texts else value
        made.graph.initializer.append(numpy_helper.from_array(value, name))
    return made


def _without_texts(model: ModelProto) -> ModelProto:
    """The model with numbers where it declares strings."""
    if not text_names(model.graph.input):
        return model
    made = onnx.ModelProto()
    made.CopyFrom(model)
    for info in made.graph.input:
        info.type.CopyFrom(without_strings(info.type))
    return made
