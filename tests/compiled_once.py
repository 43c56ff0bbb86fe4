"""How the C compiler is run while the tests run: once for one text, and at -O3 where C is what is tested.

Many tests go through the whole lowering of the same few programs. What a run of the compiler makes depends on its
command, its options and the files beside it, and all of these are in the key. What is kept is what the compiler has
made, and only where it had nothing to say; a test that names a compiler of its own, with CC or PATH, runs that.

That the C is right when it is optimised as far as it goes is what the folders of `OPTIMISED` show, of every kernel and
every construct, and every test in a campaign. Elsewhere C is made on the way to something else, and -O1 does, which
warns of the same and takes half the time. A benchmark's compiler runs each time: what it takes is measured.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
from collections.abc import Callable, Sequence
from pathlib import Path

from assay.verify.c import tools

Compiler = Callable[[Sequence[str], Path], "subprocess.CompletedProcess[bytes]"]
READ = {".c", ".h", ".o"}
"""The files that a run of the compiler may read in its folder."""
OPTIMISED = tuple(
    Path(__file__).parent / folder for folder in ("bench", "lower/c", "lower/legalize", "verify/c", "verify/compare")
)
"""The folders of the tests of C: what they compile is optimised as the command does it."""


def surroundings() -> tuple[str | None, str | None]:
    """What chooses the compiler."""
    return os.environ.get("CC"), os.environ.get("PATH")


def key(words: Sequence[str], place: Path, output: Path) -> str:
    """A name for what the compiler makes of these words in this folder: two that are alike in it make the same."""
    found = hashlib.sha256(repr((tools.find_compiler(), [*words])).encode())
    for file in sorted(place.iterdir()):
        if file.suffix in READ and file != output:
            data = file.read_bytes()
            found.update(f"\n{file.name} {len(data)}\n".encode())
            found.update(data)
    return found.hexdigest()


MEASURED = Path(__file__).parent / "bench"
LOWERED = {tools.FLAGS[-1], tools.OURS[-1]}
"""The levels at which the product compiles."""


class Level:
    """How far the compiler optimises: as it is told, or no further than -O1; and whether what it makes is kept."""

    full = True
    keeps = True

    def of(self, words: Sequence[str]) -> list[str]:
        """The words with this level."""
        return [*words] if self.full else ["-O1" if w in LOWERED else w for w in words]

    def choose(self, test: Path, campaign: bool) -> None:
        """The level for the tests of a file."""
        self.full = campaign or any(folder in test.parents for folder in OPTIMISED)
        self.keeps = MEASURED not in test.parents


def keeping(real: Compiler, kept: Path, level: Level) -> Compiler:
    """`real` at that level, with what it has made in the folder `kept`, which processes may share."""
    at_first = surroundings()

    def compiler(words: Sequence[str], place: Path) -> subprocess.CompletedProcess[bytes]:
        if "-o" not in words or surroundings() != at_first or not level.keeps:
            return real(words, place)
        words = level.of(words)
        at = words.index("-o") + 1
        output = place / words[at]
        here = [*words[:at], output.name, *words[at + 1 :]]
        if any("/" in w for w in here):  # it reads what lies elsewhere
            return real(words, place)
        path = kept / key(here, place, output)
        if path.exists():
            shutil.copy(path, output)  # a copy: a library that is loaded twice under one name shares its variables
            return subprocess.CompletedProcess([*words], 0, b"", b"")
        done = real(words, place)
        if done.returncode == 0 and not done.stdout and not done.stderr and output.is_file():
            part = path.with_suffix(f".{os.getpid()}")
            shutil.copy(output, part)
            part.replace(path)
        return done

    return compiler
