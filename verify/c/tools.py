"""What every way to run generated C needs: the compiler, statuses, inputs and outputs (specs/verify.md, "c")."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from assay.lower.c import CSource
from assay.lower.c.header import FOREIGN, PACKED_STATUSES, STATUSES
from assay.lower.c.layout import Argument
from assay.lower.c.signature import TRAPS
from assay.semantics.budget import patience
from assay.semantics.dtypes import BOOL, dtype
from assay.semantics.errors import AssayError, BudgetSpent, Crash, EnvironmentFailure, Invalid, Trap
from assay.verify import children

Array = np.ndarray[Any, Any]

STANDARD = ("-std=c99", "-ffp-contract=off", "-fno-strict-aliasing")
"""What the generated C needs to keep its meaning."""
FLAGS = (*STANDARD, "-Wall", "-Wextra", "-Wpedantic", "-Werror", "-O3")
OURS = (*FLAGS[:-1], "-O2")
"""For builds that are run here alone: they take half as long, and run hardly longer."""
COMPILING = 600.0
"""Seconds that a compiler may take where nobody says how long the run may."""
STRICT = (*FLAGS[:-1], "-Wconversion", "-Wshadow", "-Wcast-qual", "-Wmissing-prototypes")
"""All the warnings that generated C is free of; the level of optimisation is not among these."""

WRONG_HOOKS = -4242
"""What `assay_call` returns where hooks were called out of order (`assay.verify.c.calls`)."""

_NAMES = ("OK", *STATUSES, *PACKED_STATUSES)


def find_compiler() -> tuple[str, ...]:
    """The command of a C compiler: $CC, else cc, gcc or clang; EnvironmentFailure where there is none."""
    chosen = os.environ.get("CC", "")
    for command in (chosen,) if chosen else ("cc", "gcc", "clang"):
        try:
            words = shlex.split(command)
        except ValueError as wrong:
            message = f"CC is {command!r}, which is no command: {str(wrong).lower()}"
            raise EnvironmentFailure(message, label="compiled.C1") from None
        if words and shutil.which(words[0]):
            return tuple(words)
    what = f"the compiler {chosen!r} that CC names" if chosen else "a C compiler: none of cc, gcc, clang is there"
    raise EnvironmentFailure(
        f"cannot find {what}; install one (Debian: apt install gcc) or set CC", label="compiled.C1"
    )


def status_name(status: int) -> str:
    """A status without the model's prefix, such as OK or TRAP_CAST."""
    if not 0 <= status < len(_NAMES):
        raise Crash(f"the generated code returned {status}, which is no status")
    return _NAMES[status]


class SizesRefused(Invalid):
    """The generated code does not take the sizes of its arguments, or those that it has measured."""


def status_error(source: CSource, status: int, message: str = "") -> AssayError | None:
    """What a status means here; None for OK. `message` is what the code said of it."""
    if status == WRONG_HOOKS:
        return Trap("hooks", f"{source.name}_run does not call the hooks of its devices in order", label="compiled.T7")
    if source.externs and (status < 0 or status >= FOREIGN):
        said = f": {message}" if message else ""
        return Trap("extern", f"an extern of {source.name} returned {status}{said}", label="compiled.T8")
    name = status_name(status)
    if name == "OK":
        return None
    said = f": {message}" if message else ""
    for kind, (word, _) in TRAPS.items():
        if name == f"TRAP_{word}":
            return Trap(kind, f"{source.name}_run returned {source.macro}_{name}{said}", label="compiled.T1")
    of = SizesRefused if name == "BAD_SIZE" else Invalid
    return of(f"{source.name} returned {source.macro}_{name}{said}", label="compiled.C2")


def check_names(source: CSource, inputs: Mapping[str, Array]) -> None:
    """Invalid unless these are just the inputs of the C function."""
    unknown = sorted(set(inputs) - {a.slot for a in source.inputs})
    if unknown:
        known = ", ".join(a.slot for a in source.inputs) or "none"
        raise Invalid(f"no input {unknown[0]!r}; the inputs are: {known}", label="compiled.C3")
    for a in source.inputs:
        if a.slot not in inputs:
            raise Invalid(f"input {a.slot!r} is missing", label="compiled.C3")


def check_inputs(source: CSource, inputs: Mapping[str, Array]) -> list[Array]:
    """The inputs in the order of the C function; Invalid unless they are just those, of the right types."""
    check_names(source, inputs)
    arrays = []
    for a in source.inputs:
        array = np.asarray(inputs[a.slot])
        if array.shape != a.type.static_shape or dtype(array.dtype) is not a.type.dtype:
            raise Invalid(
                f"input {a.slot!r} is Tensor({array.shape}, {array.dtype}), expected {a.type}", label="compiled.C4"
            )
        arrays.append(np.ascontiguousarray(array))
    return arrays


def defines(source: CSource, reproducible: bool) -> list[str]:
    """The compiler's options that choose the reproducible mode of a source, or none."""
    return [f"-D{source.macro}_REPRODUCIBLE"] if reproducible else []


def run_compiler(words: Sequence[str], output: Path, place: Path) -> None:
    """Run the compiler in `place`; Crash with its first error, for generated C is always accepted. EnvironmentFailure
    where it is the compiler that does not work: it refuses a program that means nothing too, or says nothing of the
    source.
    """
    begin_compiler(words, output, place)()


def begin_compiler(words: Sequence[str], output: Path, place: Path) -> BegunCompiler:
    """Begin what `run_compiler` does, beside this process."""
    child = _begun([*words, "-o", str(output.resolve()), "-lm"], place)
    return BegunCompiler(child, words, output, place)


@dataclass(frozen=True, eq=False)
class BegunCompiler:
    """A compiler that runs beside this process; calling it waits for its end."""

    child: subprocess.Popen[bytes]
    words: Sequence[str]
    output: Path
    place: Path

    def end(self) -> None:
        """End it, whatever it has done."""
        children.end(self.child)

    def __call__(self) -> None:
        """Wait for its end, which is that of `run_compiler`."""
        done = _finished(self.child)
        if done.returncode != 0:
            require_working(self.words, self.place)
            if not speaks_of_source(done):
                raise EnvironmentFailure(f"the C compiler {command()} failed: {first_error(done)}", label="compiled.C7")
            raise Crash(f"the C compiler refused generated code: {first_error(done)}")
        if not self.output.is_file():
            raise EnvironmentFailure(
                f"the C compiler {command()} says that all went well, and has made nothing", label="compiled.C7"
            )


def compiler(words: Sequence[str], place: Path) -> subprocess.CompletedProcess[bytes]:
    """One run of the C compiler in `place`. EnvironmentFailure where it cannot be run, or is ended by a signal."""
    return _finished(_begun(words, place))


def _begun(words: Sequence[str], place: Path) -> subprocess.Popen[bytes]:
    with _can_be_run():
        return children.begin_child([*find_compiler(), *words], cwd=place)


def _finished(child: subprocess.Popen[bytes]) -> subprocess.CompletedProcess[bytes]:
    with _can_be_run():
        seconds = patience(COMPILING)
        try:
            done = children.finish_child(child, (), seconds=seconds)
        except subprocess.TimeoutExpired:
            message = (
                f"the C compiler {command()} was waited for {seconds:.3g} seconds, and was ended; --timeout raises that"
            )
            raise BudgetSpent(message, label="budget.C2") from None
    if done.returncode < 0:
        raise EnvironmentFailure(
            f"the C compiler {command()} was ended by signal {-done.returncode}", label="compiled.C7"
        )
    return done


@contextmanager
def _can_be_run() -> Iterator[None]:
    try:
        yield
    except (OSError, ValueError) as wrong:
        why = wrong.strerror if isinstance(wrong, OSError) else wrong
        raise EnvironmentFailure(f"the C compiler {command()} cannot be run: {why}", label="compiled.C7") from None


def command() -> str:
    """The compiler's command, quoted for a shell."""
    return shlex.join(find_compiler())


def version(place: Path) -> str:
    """What the compiler says of itself, in one line."""
    lines = compiler(["--version"], place).stdout.decode("ascii", errors="replace").splitlines() or ["unknown"]
    return "".join(c if c.isprintable() else "?" for c in lines[0])[:200]


def first_error(done: subprocess.CompletedProcess[bytes], *words: str) -> str:
    """The first line of what a compiler said that has one of the words, or "error", in it."""
    lines = done.stderr.decode(errors="replace").splitlines()
    errors = [x for x in lines if any(w in x for w in (*words, "error"))] or lines or [f"exit code {done.returncode}"]
    return errors[0].strip()


_DIAGNOSTIC = re.compile(
    r"[^\n:]+\.[ch]:\d+(:\d+)?:.*error|undefined reference to|undefined symbol|multiple definition of|duplicate symbol"
)
_SURROUNDINGS = re.compile(
    r"[Nn]o space left|error writing|error closing|[Kk]illed|terminated (with|by) signal|memory exhausted|out of memory"
)
"""What compilers and linkers say that were stopped from outside, at a place in the source or without one."""


def speaks_of_source(done: subprocess.CompletedProcess[bytes]) -> bool:
    """Whether a compiler that failed says what is wrong with a place in a source, or with a name."""
    lines = done.stderr.decode(errors="replace").splitlines()
    return any(_DIAGNOSTIC.search(x) for x in lines) and not any(_SURROUNDINGS.search(x) for x in lines)


def require_working(words: Sequence[str], place: Path) -> None:
    """EnvironmentFailure where the compiler refuses a program that means nothing, with the same flags: then what it
    says of another program says nothing about that."""
    (place / "nothing.c").write_text("int nothing(void);\nint nothing(void)\n{\n    return 0;\n}\n", encoding="ascii")
    flags = [w for w in words if w.startswith("-") and w != "-shared"]
    done = compiler([*flags, "-c", "nothing.c", "-o", "nothing.o"], place)
    if done.returncode != 0 or not (place / "nothing.o").is_file():
        raise EnvironmentFailure(f"the C compiler {command()} does not work: {first_error(done)}", label="compiled.C7")


def add_externs(source: CSource, text: str, flags: Sequence[str], place: Path) -> tuple[str, ...]:
    """The user's C, compiled by itself to see that it is accepted and defines what is called; the names of files to
    link."""
    missing = [c for c in source.externs if not re.search(rf"\b{c}\b", text)]
    if missing:
        message = (
            f"{source.name} calls {', '.join(missing)}, which nobody defines: give the C of its externs, compile_c(...,"
            " externs=TEXT). check and build compile no C of yours: --stop-after pool ends before it, and assay run"
            " --extern runs a Python function"
        )
        raise Invalid(message, label="compiled.C5")
    if not text:
        return ()
    include = f'#include "{source.name}.h"\n'
    (place / "externs.c").write_text(include + text, encoding="utf-8")
    uses = "".join(f"    f = (void (*)(void)){c};\n" for c in source.externs)
    (place / "uses.c").write_text(
        f"{include}int main(void)\n{{\n    void (*volatile f)(void) = 0;\n{uses}    return f != 0;\n}}\n"
    )
    plain = [f for f in flags if not f.startswith("-W")]
    for words in (
        [*flags, "-fPIC", "-c", "externs.c", "-o", "externs.o"],
        [*plain, "uses.c", "externs.o", "-o", "uses", "-lm"],
    ):
        done = compiler(words, place)
        if done.returncode != 0:
            require_working(plain, place)
            raise Invalid(
                f"the C compiler refused the C of the externs: {first_error(done, 'undefined')}", label="compiled.C6"
            )
    return ("externs.o",)


def raw(array: Array) -> Array:
    """The bytes of an array as a vector of uint8."""
    return array.reshape(-1).view(np.uint8) if array.size else np.empty(0, np.uint8)


def output_array(argument: Argument, data: bytes) -> Array:
    """The bytes of an output as an array."""
    of = argument.type.dtype
    flat = np.frombuffer(bytearray(data), np.uint8 if of is BOOL else of.numpy)
    if of is BOOL:
        if flat.size and flat.max() > 1:
            raise Trap(
                "unwritten output", f"output {argument.slot!r} holds a byte that is no bool", label="compiled.T6"
            )
        flat = flat.view(np.bool_)
    return flat.reshape(argument.type.static_shape)
