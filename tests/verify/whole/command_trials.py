"""Small valid programs through the command `check`, and what may come of them (specs/verify.md, "Small programs").

    python -m tests.verify.whole.command_trials --first 0 --count 1000 [--kept DIR]

Programs are of the whole text language, on one device and on several, and of ONNX with loops, tuples, recursion,
sequences and recurrent operators. A valid program is never *FAILS*, never a fault of ours, never without an end. Where
a stage cannot take it yet the command says so with a label of `REFUSALS`. Each number is one program: what fails is
made again by it.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import re
import signal
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from random import Random
from types import FrameType
from unittest.mock import patch

import onnx

from assay.semantics.module import Module
from assay.semantics.text.module_printer import write_module
from assay.semantics.types import symbols
from assay.verify.app import cli
from assay.verify.strategies.choosing import by_random
from assay.verify.strategies.devices import CONFIGS
from assay.verify.strategies.features import DATAFLOW, EVERYTHING, LANGUAGE, static_operators
from assay.verify.strategies.graphs import a_module
from tests.verify.whole.onnx_programs import a_model

SECONDS = 120
"""After so long a command is taken to hang."""

REFUSALS = {
    "liveness.C2": "functions that only a run tells, references, matches, prints and assertions have no plan yet",
    "liveness.C3": "recursion of main, and functions that come with no way to end, have no plan yet",
    "recursion.C1": "functions that call themselves from inside of others have no frames",
    "recursion.C2": "sizes that a run tells have no place in a frame",
    "recursion.C4": "references and data have no place in a frame",
    "recursion.C7": "frames are on one device",
    "alias.C3": "sizes that only a run can tell have no plan yet",
    "c.C6": "inputs and outputs lie in pools beside sizes that are not known",
    "devices.C1": "annotations that are sprinkled over a program may contradict one another",
    "input.C7": "the program itself traps on these inputs",
}
"""What a valid program may be refused for, by label, and why."""

QUIET = replace(LANGUAGE, effects=False, traps=False)
FEATURES = (
    replace(DATAFLOW, branches=True, names=True, named_constants=True, kernels=True, empty=True),
    QUIET,
    replace(EVERYTHING, traps=False, effects=False, operators=static_operators()),
    EVERYTHING,
    LANGUAGE,
)
FORMS = ("onnx", "onnx", "judged", *range(len(FEATURES)), "devices", "devices")
"""One after another: ONNX, ONNX with a backend judged, text of these features, text on several devices."""


@dataclass(frozen=True)
class Trial:
    """One command and what came of it."""

    number: int
    args: tuple[str, ...]
    code: int
    out: str
    err: str
    seconds: float

    @property
    def label(self) -> str:
        """The label of the message that ended the command."""
        found = re.findall(r"\[([\w.]+\.[A-Z]\w*)\]", self.err)
        return found[-1] if found else ""

    @property
    def wrong(self) -> str:
        """Why this may not be; "" where all is well."""
        if self.code in (0, 5):
            return "a line FAILS, and the command says that nothing does" if "FAILS" in self.out else ""
        if self.code == 2 and self.label in REFUSALS:
            return ""
        said = [line for line in self.out.splitlines() if "FAILS" in line] or self.err.strip().splitlines()[-1:]
        return f"exit {self.code}: {said[0] if said else 'without a word'}"


class Hangs(BaseException):
    """The alarm: nothing in a command may catch it."""


@contextlib.contextmanager
def limited(seconds: int) -> Iterator[None]:
    """Hangs is raised in here after so many seconds."""

    def ring(number: int, frame: FrameType | None) -> None:
        raise Hangs

    before = signal.signal(signal.SIGALRM, ring)
    signal.alarm(seconds)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)


def command(number: int, args: tuple[str, ...], seconds: int = SECONDS) -> Trial:
    """Run a command in this process."""
    out, err, code = io.StringIO(), io.StringIO(), 0
    start = time.monotonic()
    with (
        patch.object(sys, "argv", ["assay", *args]),
        patch.dict("os.environ", COLUMNS="2000"),
        contextlib.redirect_stdout(out),
        contextlib.redirect_stderr(err),
    ):
        try:
            with limited(seconds):
                cli.main()
        except SystemExit as done:
            code = int(done.code or 0)
        except Hangs:
            code = -1
            err.write(f"no end after {seconds} s")
    return Trial(number, args, code, out.getvalue(), err.getvalue(), time.monotonic() - start)


def program(number: int, folder: Path) -> tuple[str, ...]:
    """Write program `number` to a file; the arguments of the command that checks it."""
    random = Random(number)
    pick = by_random(random)
    form = FORMS[number % len(FORMS)]
    size = 2 + random.randrange(14)
    path = folder / f"p{number}.{'onnx' if form in ('onnx', 'judged') else 'py'}"
    if path.suffix == ".onnx":
        onnx.save(a_model(pick, size), path)
        return ("check", str(path), *(("--backend", "onnxruntime") if form == "judged" else ()))
    if isinstance(form, int):
        return "check", str(path), *written(a_module(pick, size, FEATURES[form]), path)
    config = CONFIGS[random.randrange(len(CONFIGS))]
    features = replace((FEATURES[0], QUIET)[random.randrange(2)], devices=config)
    dims = written(a_module(pick, size, features), path)
    devices = sorted(config.devices, key=lambda d: d != config.default)
    on = [arg for d in devices for arg in ("--on", f"{d.type}:{d.id}")]
    host = f"{config.host.type}:{config.host.id}"
    return "check", str(path), *dims, *on, "--host", host


SIZES = {"n": 3}
"""The size of a symbol whose value programs rely on."""


def written(module: Module, path: Path) -> list[str]:
    """Write a module; the options that say its sizes."""
    write_module(module, path)
    names = dict.fromkeys(s.name for p in module.main.params for s in symbols(p.type))
    return [arg for i, name in enumerate(names) for arg in ("--dim", f"{name}={SIZES.get(name, 2 + 3 * i)}")]


def trial(number: int, folder: Path) -> Trial:
    """Program `number`, checked."""
    return command(number, program(number, folder))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--count", type=int, default=1000)
    parser.add_argument("--kept", type=Path, help="where programs go that fail")
    options = parser.parse_args()
    seen: Counter[str] = Counter()
    failed = 0
    with tempfile.TemporaryDirectory() as temporary:
        for number in range(options.first, options.first + options.count):
            done = trial(number, Path(temporary))
            seen[f"exit {done.code} {done.label}"] += 1
            if done.wrong:
                failed += 1
                print(f"{number} {' '.join(done.args)}: {done.wrong[:300]}", flush=True)
                if options.kept is not None:
                    options.kept.mkdir(parents=True, exist_ok=True)
                    for file in Path(temporary).glob(f"p{number}.*"):
                        (options.kept / file.name).write_bytes(file.read_bytes())
    print(", ".join(f"{what}: {count}" for what, count in seen.most_common()), f"; {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
