"""Run tests on mutants, each in a process of its own that begins as a copy of this one (specs/verify.md, "Mutants")."""

from __future__ import annotations

import hashlib
import importlib.abc
import importlib.machinery
import importlib.util
import json
import os
import resource
import signal
import sys
import traceback
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from types import CodeType, ModuleType
from typing import Any, Literal, TypeAlias

from tests.mutation.groups import ROOT, Group
from tests.mutation.mutants import Mutant, mutants

Key: TypeAlias = tuple[str, str, str, int]
"""The file of a mutant, its kind, what it says, and which of those that say the same it is."""


class Fails(Exception):
    """The tests of a group do not pass without a mutant."""


MEMORY = 8 << 30
"""Bytes of address space that a mutant may take: more is taken for growth without end."""


@dataclass(frozen=True)
class Outcome:
    """What became of one mutant."""

    group: str
    file: str
    line: int
    kind: str
    said: str
    nth: int
    end: Literal["killed", "survived", "time"]
    """`time`: it did not end within ten times what the tests take, which counts as noticed."""

    @property
    def key(self) -> Key:
        return self.file, self.kind, self.said, self.nth


class _Loader(importlib.machinery.SourceFileLoader):
    def __init__(self, name: str, path: str, code: CodeType) -> None:
        super().__init__(name, path)
        self.code = code

    def get_code(self, fullname: str) -> CodeType:
        return self.code


class MutantFinder(importlib.abc.MetaPathFinder):
    """Finds the mutant where its module is asked for."""

    def __init__(self, file: Path, source: str) -> None:
        parts = file.relative_to(ROOT).with_suffix("").parts
        self.package = parts[-1] == "__init__"
        self.name = ".".join(("assay", *(parts[:-1] if self.package else parts)))
        self.file = str(file)
        self.code = compile(source, self.file, "exec", dont_inherit=True)

    def find_spec(self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None) -> Any:
        if fullname != self.name or path is None:
            return None
        inside = [os.path.join(next(iter(path)), fullname.rpartition(".")[2])] if self.package else None
        loader = _Loader(fullname, self.file, self.code)
        return importlib.util.spec_from_file_location(
            fullname, self.file, loader=loader, submodule_search_locations=inside
        )


def _tests(files: Sequence[Path], finder: MutantFinder | None, seconds: int) -> int:
    """Run tests here and end the process: 0 if all pass. It never returns."""
    code = 1
    try:
        resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
        resource.setrlimit(resource.RLIMIT_CPU, (seconds, seconds))
        signal.alarm(6 * seconds)  # for what waits and does not count
        quiet = os.open(os.devnull, os.O_WRONLY)
        os.dup2(quiet, 1)
        os.dup2(quiet, 2)
        if finder is not None:
            sys.meta_path.insert(0, finder)
        import pytest

        chosen = [
            "-x",
            "-q",
            "--assert=plain",
            "-p",
            "no:cacheprovider",
            "-p",
            "no:xdist",
            "-m",
            "not slow and not campaign and not bench",
        ]
        code = int(pytest.main([*chosen, "--rootdir", str(ROOT), *map(str, files)]))
    except BaseException:
        traceback.print_exc()
        raise
    finally:
        os._exit(code)


def preload() -> None:
    """What tests import and is not ours: copied with the process, not imported for each mutant again."""
    import hypothesis  # noqa: F401
    import ml_dtypes  # noqa: F401
    import numpy  # noqa: F401
    import onnx.helper  # noqa: F401
    import pytest  # noqa: F401
    import typer  # noqa: F401
    import z3  # noqa: F401

    if any(name == "assay" or name.startswith("assay.") for name in sys.modules):
        raise RuntimeError("assay is imported already: a mutant of it would not be seen")


def _fork(files: Sequence[Path], finder: MutantFinder | None, seconds: int) -> int:
    sys.stdout.flush()
    sys.stderr.flush()
    child = os.fork()
    if child == 0:
        _tests(files, finder, seconds)
    return child


def baseline(group: Group) -> int:
    """The CPU seconds that a group's tests may take on a mutant: ten times what they take now. Fails where they do not
    pass."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    _, status = os.waitpid(_fork(group.test_files, None, 3600), 0)
    if status != 0:
        raise Fails(group.name)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return 20 + 10 * int(after.ru_utime - before.ru_utime)


def all_of(group: Group) -> list[tuple[Path, Mutant]]:
    """Every mutant of a group's files."""
    return [(file, m) for file in group.files for m in mutants(file.read_text())]


def key_of(file: Path, m: Mutant) -> Key:
    return str(file.relative_to(ROOT)), m.kind, m.said, m.nth


def chosen(found: Sequence[tuple[Path, Mutant]], count: int, seed: int) -> list[tuple[Path, Mutant]]:
    """`count` mutants at random: the same ones for the same seed, but for those whose own text has changed."""

    def order(one: tuple[Path, Mutant]) -> bytes:
        return hashlib.sha256(f"{seed} {key_of(*one)}".encode()).digest()

    return sorted(found, key=order)[:count]


def run(
    group: Group, count: int, seed: int, jobs: int, known: Mapping[Key, Outcome], again: bool = False
) -> Iterator[Outcome]:
    """The outcomes of mutants that are not known yet, as they come; with `again` also of those that survived."""
    found = all_of(group)
    survived = {key for key, o in known.items() if o.end == "survived"} if again else set()
    first = [one for one in chosen(found, count, seed) if key_of(*one) not in known]
    waiting = first + [one for one in found if key_of(*one) in survived]
    if not waiting:
        return
    seconds = baseline(group)
    running: dict[int, tuple[Path, Mutant]] = {}
    while waiting or running:
        while waiting and len(running) < jobs:
            file, m = waiting.pop(0)
            running[_fork(group.test_files, MutantFinder(file, m.source), seconds)] = (file, m)
        child, status = os.wait()
        file, m = running.pop(child)
        end: Literal["killed", "survived", "time"] = "survived" if status == 0 else "killed"
        if os.WIFSIGNALED(status) and os.WTERMSIG(status) in (signal.SIGXCPU, signal.SIGKILL, signal.SIGALRM):
            end = "time"
        yield Outcome(group.name, str(file.relative_to(ROOT)), m.line, m.kind, m.said, m.nth, end)


def read(results: Path) -> list[Outcome]:
    """The outcomes of earlier runs, the last of each mutant."""
    if not results.exists():
        return []
    lines = [
        line for line in results.read_text().splitlines() if line.endswith("}")
    ]  # an interrupted run can end in a half
    return list({o.key: o for o in (Outcome(**json.loads(line)) for line in lines)}.values())


def append(results: Path, outcome: Outcome) -> None:
    with results.open("a") as out:
        out.write(json.dumps(asdict(outcome)) + "\n")
