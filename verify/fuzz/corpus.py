"""Failures as files that can be replayed (specs/verify.md, "Fuzzing").

One failure is files of one name: `.json` says what failed and which choices made it, `.npz` has the inputs, `.py` is
the program as text, `.onnx` the same as ONNX where that can say it; and `test_NAME.py` is a test that fails while the
fault is there. Replaying needs inputs and program alone, so it does not depend on the generator. What was done
is kept in `campaign.json`, so that a campaign goes on where it ended.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

from assay.lower.frontends.onnx.model import load_model
from assay.semantics import strict_json
from assay.semantics.errors import Invalid
from assay.semantics.files import directory_at, read_text
from assay.semantics.strict_json import typed
from assay.semantics.text.module_text import write_module
from assay.verify.app.text_run import load_text
from assay.verify.border.files import replace_file, replace_text
from assay.verify.border.inputs import load_npz, save
from assay.verify.fuzz.cases import FuzzCase, Recipe, as_model
from assay.verify.fuzz.learning import Learnt
from assay.verify.fuzz.targets import Program, Result, plain
from assay.verify.reduce.standalone import Failed, write_failure_test

COUNTERS = ("kinds", "operators", "constructs", "layers")
"""What the state of a campaign counts, by name."""

T = TypeVar("T")


@dataclass(frozen=True)
class StoredFailure:
    """A failure of the corpus."""

    path: Path
    target: str
    result: Result
    operators: tuple[str, ...]
    is_model: bool = False
    """Whether it was judged as a model of ONNX."""

    def program(self) -> tuple[Program, dict[str, Any]]:
        """The program as it was judged, a model or a module, and the inputs, read from their files."""
        model, text = file_beside(self.path, ".onnx"), file_beside(self.path, ".py")
        return load_model(model) if self.is_model else load_text(text), load_npz(file_beside(self.path, ".npz"))


class Corpus:
    """A directory of failures. Invalid (fuzz.C2): it cannot be used."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        try:
            directory_at(directory)
        except OSError as wrong:
            raise Invalid(
                f"cannot make the directory: {wrong.strerror}", where=str(directory), label="fuzz.C2"
            ) from None

    def add(self, target: str, result: Result, case: FuzzCase, recipe: Recipe, seed: int, number: int) -> Path | None:
        """Store a failure; its path, or None where one like it is there: of the same target, kind, layer and
        operators."""
        name = name_of(target, result, case.operators)
        path = self.directory / f"{name}.json"
        if path.exists():
            return None
        data = {
            "target": target, **result.as_data(), "operators": list(case.operators), "seed": seed, "number": number,
            "picks": list(case.picks), "recipe": recipe.as_data(), "avoided": list(recipe.avoided),
            "program": "text" if case.model is None else "onnx",
        }  # fmt: skip
        write_module(case.module, file_beside(path, ".py"))
        inputs = plain(case.inputs)
        save(file_beside(path, ".npz"), inputs)
        model = as_model(case)
        if model is not None:
            replace_file(file_beside(path, ".onnx"), lambda at: at.write_bytes(model.SerializeToString()))
        write_failure_test(self.directory, name, target, Failed(result.kind, result.detail), model, inputs)
        replace_text(path, json.dumps(data, indent=1) + "\n")  # last: with it the failure is there
        return path

    def failures(self) -> Iterator[StoredFailure]:
        """All failures, by their names."""
        for path in sorted(self.directory.glob("*.json")):
            if path.name.startswith(("campaign-", "learnt-")):
                continue
            yield _read(path, partial(_failure, path))

    def state(self, targets: Sequence[str]) -> dict[str, Any]:
        """What a campaign against these targets has done so far; nothing yet: empty."""
        path = self._state(targets)
        return _read(path, partial(_state, targets)) if path.exists() else {}

    def keep(self, state: Mapping[str, Any], learnt: Mapping[str, Learnt]) -> None:
        """Say what a campaign has done, and what it has learnt of each target."""
        replace_text(self._state(state["targets"]), json.dumps(state, indent=1) + "\n")
        for target, known in learnt.items():
            if known.seen:
                replace_text(self._learnt(target), json.dumps(known.as_data(), indent=1) + "\n")

    def learnt(self, target: str) -> Learnt:
        """What campaigns against a target have learnt of refusals."""
        path = self._learnt(target)
        return _read(path, Learnt.from_data) if path.exists() else Learnt()

    def forget(self, targets: Sequence[str]) -> None:
        """Forget what was learnt against these targets, in the round of their campaign that is not over too."""
        for target in targets:
            self._learnt(target).unlink(missing_ok=True)
        if state := self.state(targets):
            of = {name: {**each, "avoided": [], "pending": []} for name, each in state["of"].items()}
            self.keep({**state, "of": of}, {})

    def _state(self, targets: Sequence[str]) -> Path:
        """A campaign against one target is named by it, one against several by how many and a digest of their names."""
        said = targets[0] if len(targets) == 1 else f"{len(targets)}-{_digest(list(targets))}"
        return self.directory / f"campaign-{_plain(said)}.json"

    def _learnt(self, target: str) -> Path:
        return self.directory / f"learnt-{_plain(target)}.json"


def name_of(target: str, result: Result, operators: tuple[str, ...]) -> str:
    """The name of a failure: what it is, for people, and a digest of all that tells it from others."""
    by = result.culprit or "-".join(operators[:3]) or "nothing"
    key = [target, *result.key, *([] if result.culprit else operators)]
    return _plain(f"{target}-{result.kind}-{by}") + "-" + _digest(key)


def file_beside(path: Path, ending: str) -> Path:
    """The file of a failure with another ending; a dot in its name is no ending."""
    return path.with_name(path.name.removesuffix(".json") + ending)


def _digest(words: Sequence[str]) -> str:
    return hashlib.sha256(json.dumps(words).encode()).hexdigest()[:8]


def _plain(text: str) -> str:
    return re.sub(r"[^A-Za-z0-9.-]+", "_", text)


def _read(path: Path, of: Callable[[dict[str, Any]], T]) -> T:
    """What a file of a corpus says. Invalid (fuzz.C2): it does not say it, or cannot be read."""
    try:
        return of(typed(dict, strict_json.parse_json(read_text(path))))
    except KeyError as missing:
        raise Invalid(f"not a file of a corpus: it has no {missing}", where=str(path), label="fuzz.C2") from None
    except (OSError, ValueError) as wrong:
        raise Invalid(f"not a file of a corpus: {wrong}", where=str(path), label="fuzz.C2") from None


def _failure(path: Path, data: dict[str, Any]) -> StoredFailure:
    target, *result = (typed(str, data[key]) for key in ("target", "kind", "where", "culprit", "detail"))
    return StoredFailure(
        path,
        target,
        Result(*result),
        tuple(typed(str, name) for name in typed(list, data["operators"])),
        data.get("program") == "onnx",
    )


def _state(targets: Sequence[str], data: dict[str, Any]) -> dict[str, Any]:
    typed(dict, data["recipe"])
    of = typed(
        dict, data.get("of", {data["target"]: data} if "target" in data else {})
    )  # as that of one target was kept
    data["of"] = {name: _standing(typed(dict, of[name])) for name in targets}
    data.setdefault("seconds", 0)  # as it was kept without
    for number in (data["seed"], data["next"], data["examples"], data["seconds"], *typed(list, data["open"])):
        typed(int, number)
    return data


def _standing(data: dict[str, Any]) -> dict[str, Any]:
    """What is kept of one target."""
    made = {name: typed(dict, data[name]) for name in COUNTERS}
    for count in (n for counted in made.values() for n in counted.values()):
        typed(int, count)
    for name in typed(list, data.setdefault("avoided", [])):
        typed(str, name)
    for number, found in typed(list, data.setdefault("pending", [])):
        typed(int, number)
        for traits, refused in typed(list, found):
            typed(bool, refused)
            for trait in typed(list, traits):
                typed(str, trait)
    return {**made, "avoided": data["avoided"], "pending": data["pending"]}
