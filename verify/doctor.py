"""`assay doctor`: what is there for Assay to work with, and what each thing that is not would add (specs/verify.md,
"Command line"). No tool of a backend is imported."""

from __future__ import annotations

import re
import shlex
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from importlib.metadata import PackageNotFoundError, distribution, version
from pathlib import Path
from typing import Any

from assay.semantics.errors import EnvironmentFailure
from assay.verify import children
from assay.verify.app.spending import SECONDS, default_memory
from assay.verify.backends.catalogue import family_of
from assay.verify.backends.listing import listed_backends
from assay.verify.c.tools import STRICT, find_compiler
from assay.verify.evidence import size
from assay.verify.exits import Exit

WITHOUT_C = "judge, run, prove, plan and explain work without one; check past its stage pool, build and verify do not"
ADDS: Mapping[str, str] = {
    "cvc5": "a second solver for the kept texts of proofs: verify --second-opinion",
    "judge": "the backend onnxruntime",
    "images": "ONNX's ImageDecoder",
    "strings": "regular expressions of ONNX's RegexFullMatch and of Tokenizer",
    "torch": "the backend torch, and programs of torch.export",
    "tvm": "the backend tvm, and what its passes do: check --backend tvm --per-pass",
    "openvino": "the backend openvino",
    "tract": "the backend tract",
    "opencv": "the backend opencv",
    "mnn": "the backend mnn",
    "tinygrad": "the backend tinygrad, which needs clang too",
    "iree": "the backend iree",
    "emx-onnx-cgen": "the backend emx-onnx-cgen",
    "hypothesis": "the strategies of assay.strategies",
    "cluster": "fuzz --cluster, over machines",
    "sign": "signed certificates: build --sign, verify --key",
    "jax": "the backend xla, and StableHLO as bytecode",
    "docs": "the site of the documents: make site",
    "bench": "peers in the benchmarks of this project",
    "test": "the tests of this project",
    "dev": "the linter and the type checker of this project",
}
"""What each extra of the package adds."""
SMALL = "double twice(double x);\ndouble twice(double x)\n{\n    return 2.0 * x;\n}\n"
PATIENCE = 20.0
"""Seconds that a compiler may take for a small program."""


@dataclass(frozen=True)
class FoundPart:
    """A part of the surroundings: whether it works, what is found of it, what it would add, and what installs it."""

    group: str
    name: str
    works: bool
    says: str
    adds: str = ""
    install: str = ""

    def line(self) -> str:
        """What a person is told of it."""
        more = f"; it adds {self.adds}" if self.adds and not self.works else ""
        return f"{self.says}{more}{f': {self.install}' if self.install and not self.works else ''}"


@dataclass(frozen=True)
class Diagnosis:
    """All parts, and what they come to."""

    parts: tuple[FoundPart, ...]

    @property
    def exit(self) -> Exit:
        """HOLDS where the core works."""
        return Exit.HOLDS if all(p.works for p in self.parts if p.group == "core") else Exit.ENVIRONMENT

    @property
    def said(self) -> str:
        """The last line."""
        missing = [p.name for p in self.parts if p.group == "core" and not p.works]
        if not missing:
            return "the core works: every command can run"
        rest = f"; {WITHOUT_C}" if missing == ["C compiler"] else ""
        return f"{', '.join(missing)}: not working{rest}"

    def as_data(self) -> dict[str, Any]:
        """The same for machines."""
        return {
            "holds": self.exit is Exit.HOLDS, "exit": self.exit, "said": self.said,
            "rows": [asdict(p) for p in self.parts],
        }  # fmt: skip


def diagnose() -> Diagnosis:
    """Look at everything."""
    core = tuple(_core())
    compiles = all(p.works for p in core if p.name == "C compiler")
    return Diagnosis((*core, *_solvers(), *_backends(compiles), *_extras(), *_surroundings()))


# --- the core ------------------------------------------------------------------------------------------------------


def _core() -> Iterator[FoundPart]:
    yield FoundPart("core", "Python", True, f"{sys.version.split()[0]}, Assay {version('assay')}")
    place = _temporary()
    yield place
    yield _compiler() if place.works else FoundPart("core", "C compiler", False, "not tried: no place for its files")
    yield _z3()


def _temporary() -> FoundPart:
    try:
        with tempfile.TemporaryDirectory() as made:
            Path(made, "tried").write_bytes(b"0" * 4096)
            free = shutil.disk_usage(made).free
    except OSError as wrong:
        return FoundPart("core", "temporary files", False, wrong.strerror or str(wrong), install="set TMPDIR")
    return FoundPart("core", "temporary files", True, f"{tempfile.gettempdir()}, {size(free)} free")


def _compiler() -> FoundPart:
    """The compiler that is used, and the others that there are."""
    try:
        chosen = find_compiler()
    except EnvironmentFailure as wrong:
        return FoundPart("core", "C compiler", False, wrong.message)
    works, says = tried_compiler(chosen)
    others = [n for n in ("cc", "gcc", "clang") if n != chosen[0] and shutil.which(n)]
    also = f"; also there: {', '.join(others)}; CC=NAME chooses" if others else ""
    return FoundPart("core", "C compiler", works, f"{shlex.join(chosen)}: {says}{also}")


def tried_compiler(words: tuple[str, ...]) -> tuple[bool, str]:
    """Whether a compiler makes a library of a small program as strict C99, and its version, or what is wrong."""
    try:
        with tempfile.TemporaryDirectory() as made:
            place = Path(made)
            (place / "small.c").write_text(SMALL, encoding="ascii")
            told = children.run_child([*words, "--version"], cwd=place, seconds=PATIENCE)
            first = (told.stdout.decode(errors="replace").splitlines() or ["of an unknown version"])[0]
            options = [*STRICT, "-O3", "-shared", "-fPIC", "small.c", "-o", "small.so", "-lm"]
            done = children.run_child([*words, *options], cwd=place, seconds=PATIENCE)
            if done.returncode == 0 and (place / "small.so").is_file():
                return True, first
            why = (done.stderr.decode(errors="replace").splitlines() or [f"exit code {done.returncode}"])[0]
            return False, f"refuses a small program: {why}"
    except subprocess.TimeoutExpired:
        return False, f"no answer within {PATIENCE:.0f} seconds"
    except (OSError, ValueError) as wrong:
        return False, f"cannot be run: {wrong}"


def _z3() -> FoundPart:
    try:
        import z3

        solver = z3.Solver()
        solver.add(z3.Int("x") > z3.Int("x"))
        works = solver.check() == z3.unsat
    except Exception as wrong:  # noqa: BLE001  (whatever keeps it from working is what is asked for)
        return FoundPart("core", "z3", False, f"{type(wrong).__name__}: {wrong}", install="pip install z3-solver")
    return FoundPart("core", "z3", works, z3.get_version_string() if works else "gives a wrong answer")


# --- what may be there ---------------------------------------------------------------------------------------------


def _solvers() -> Iterator[FoundPart]:
    found = _version("cvc5")
    yield FoundPart("solvers", "cvc5", bool(found), found or "not installed", ADDS["cvc5"], _how("cvc5"))


def _backends(compiles: bool) -> Iterator[FoundPart]:
    for row in listed_backends():
        if family_of(row.name) == "c" and not compiles:
            yield FoundPart("backends", row.name, False, "it needs a C compiler that works")
            continue
        says = f"{row.tool} {row.version}" if row.installed else f"not installed: {row.missing}"
        yield FoundPart("backends", row.name, row.installed, says, "", row.install)


def _extras() -> Iterator[FoundPart]:
    """Each extra that this installation declares; `dev`, which takes another one in, by the packages of its own."""
    wants: dict[str, list[str]] = {}
    for line in distribution("assay").requires or ():
        parts = re.fullmatch(r"([A-Za-z0-9_.-]+)[^;]*;.*extra *== *['\"]([^'\"]+)['\"].*", line)
        if parts and parts[1] != "assay":
            wants.setdefault(parts[2], []).append(parts[1])
    for extra, packages in wants.items():
        missing = [p for p in packages if not _version(p)]
        says = f"not there: {', '.join(missing)}" if missing else "there"
        yield FoundPart("extras", extra, not missing, says, ADDS.get(extra, ""), _how(extra))


def _version(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:
        return ""


def _how(extra: str) -> str:
    return f"pip install 'assay[{extra}]'"


# --- the surroundings ----------------------------------------------------------------------------------------------


def _surroundings() -> Iterator[FoundPart]:
    memory = default_memory()
    said = f"{size(memory)}, unless --memory says another" if memory else "none is set: how much there is is not told"
    yield FoundPart("surroundings", "memory limit", True, said)
    yield FoundPart(
        "surroundings", "time limit", True, f"{SECONDS:.0f} s, unless --timeout says another; fuzz has none"
    )
    yield FoundPart("surroundings", "cores", True, str(children.cores()))
    encoding = getattr(sys.stdout, "encoding", None) or "unknown"
    wide = encoding.lower().replace("-", "") == "utf8"
    says = encoding if wide else f"{encoding}: characters that it has not are shown as escapes"
    yield FoundPart(
        "surroundings", "terminal encoding", wide, says, install="" if wide else "set PYTHONIOENCODING=utf-8"
    )
