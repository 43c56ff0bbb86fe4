"""python -m tests.mutation.proofs [--count N] [--seed S] [--part PART] [--results FILE] [--jobs N]

Random changes of the emitter, of the C that stands in it, and of kernels, as many of each; whether a proof refuses
each one, or it is shown to mean the same (specs/verify.md, "Mutants"). It goes on until N changes have altered the
text of something that a proof takes; a run that was ended goes on from FILE.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import resource
import signal
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from tests.mutation.mutants import Mutant, mutants
from tests.mutation.run import MutantFinder, key_of, preload
from tests.mutation.written import changes_of_writers
from tests.places import ROOT

PARTS = ("emitter", "words of C", "kernels")
UNREAD = ("packed.py", "packed_abi.py", "loader.py", "narrow.py", "externs.py", "effects.py", "convention.py")
"""Files of the emitter that write what a proof says nothing of: packed conventions, what loads weights, floats
of 16 bits and less, externs and devices (rule R9)."""
SECONDS = 120
"""CPU seconds for one change."""
LATE = "late"
"""What did not end within them: nothing is said of it."""


@dataclass(frozen=True)
class Found:
    """What became of one change."""

    part: str
    file: str
    line: int
    kind: str
    said: str
    nth: int
    end: str
    claim: str = ""
    proof: str = ""
    run: str = ""

    @property
    def key(self) -> tuple[str, str, str, int]:
        return self.file, self.kind, self.said, self.nth


def changes(part: str) -> list[tuple[Path, Mutant]]:
    """All changes of a part."""
    pattern = "lower/legalize/kernels/*.py" if part == "kernels" else "lower/c/*.py"
    found = [
        (file, m)
        for file in sorted(ROOT.glob(pattern))
        if file.name not in UNREAD
        for m in mutants(file.read_text(), changes_of_writers)
    ]
    return found if part == "kernels" else [c for c in found if (c[1].kind[:1] == "C") == (part == "words of C")]


def drawn(part: str, seed: int) -> list[tuple[Path, Mutant]]:
    """The same in the order of a seed: but for what has changed the same ones for the same seed. Of kernels one from
    each file in turn, of words of C one from each text, so that long ones do not crowd out short ones."""

    def order(one: tuple[Path, Mutant]) -> bytes:
        return hashlib.sha256(f"{seed} {key_of(*one)}".encode()).digest()

    turn: Counter[Any] = Counter()
    placed = []
    for file, m in sorted(changes(part), key=order):
        place = {"kernels": file, "words of C": (file, m.line)}.get(part)
        placed.append((turn[place], order((file, m)), file, m))
        turn[place] += place is not None
    return [(file, m) for _, _, file, m in sorted(placed, key=lambda p: p[:2])]


def save(place: Path, told: dict[str, Any]) -> None:
    """Write what is known by now."""
    place.write_text(json.dumps(told))


def in_child(work: Any, place: Path) -> int:
    """Run `work` in a process of its own, which writes what it finds to `place`."""
    sys.stdout.flush()
    child = os.fork()
    if child:
        return child
    code = 1
    try:
        resource.setrlimit(resource.RLIMIT_CPU, (SECONDS, SECONDS))
        resource.setrlimit(resource.RLIMIT_AS, (6 << 30, 6 << 30))
        signal.alarm(4 * SECONDS)
        quiet = os.open(os.devnull, os.O_WRONLY)
        os.dup2(quiet, 1)
        os.dup2(quiet, 2)
        save(place, work())
        code = 0
    except BaseException as wrong:  # noqa: BLE001  (a change may fail in any way, also where it is imported)
        save(place, {"end": "unmade", "run": f"{type(wrong).__name__}: {wrong}"[:300]})
        code = 0
    finally:
        os._exit(code)


def without_change(part: str) -> dict[str, str]:
    """The digest of each claim's text."""
    from tests.mutation.judged import before_change

    return before_change(part)


def with_change(file: Path, m: Mutant, part: str, before: dict[str, str], place: Path) -> dict[str, Any]:
    """What becomes of a change: for a process that ends then. What is known so far is written to `place`."""
    sys.meta_path.insert(0, MutantFinder(file, m.source))
    from tests.mutation.judged import judged

    return asdict(judged(part, before, lambda said: save(place, asdict(said)), m.said))


def found_of(place: Path, child: int) -> dict[str, Any]:
    """What a process has left."""
    _, status = os.waitpid(child, 0)
    text = place.read_text() if place.exists() else ""
    told = json.loads(text) if text else {"end": LATE}
    if os.WIFSIGNALED(status) and os.WTERMSIG(status) not in (signal.SIGXCPU, signal.SIGKILL, signal.SIGALRM):
        told["run"] = f"signal {os.WTERMSIG(status)}"
    return told


def run(
    count: int, seed: int, parts: tuple[str, ...], known: dict[Any, Found], jobs: int, texts: Path
) -> Iterator[Found]:
    """The changes that are new, as they are found, until `count` of all have altered a text. `texts` has the digests of
    the texts without a change, where an earlier run has found them."""
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder)
        before: dict[str, dict[str, str]] = json.loads(texts.read_text()) if texts.exists() else {}
        for number, part in enumerate(parts):
            wanted = count // len(parts) + (number < count % len(parts))
            own = "kernels" if part == "kernels" else "C"
            running: dict[int, tuple[Path, Mutant, Path]] = {}
            reached = 0
            for file, m in drawn(part, seed):
                if reached >= wanted:
                    break
                one = known.get(key_of(file, m))
                if one is None:
                    if own not in before:
                        at = place / f"before {own}.json"
                        before[own] = found_of(at, in_child(lambda o=own: without_change(o), at))  # type: ignore[misc]
                        save(texts, before)
                    at = place / f"{len(os.listdir(folder))}.json"
                    child = in_child(lambda f=file, c=m, o=own, a=at: with_change(f, c, o, before[o], a), at)  # type: ignore[misc]

                    running[child] = file, m, at
                    if len(running) < jobs:
                        continue
                    one = _next(part, running)
                    yield one
                reached += counts(one)
            while running:
                yield _next(part, running)


def _next(part: str, running: dict[int, tuple[Path, Mutant, Path]]) -> Found:
    """The oldest of those that run, when it has ended."""
    child = next(iter(running))
    file, m, at = running.pop(child)
    told = found_of(at, child)
    return Found(part, str(file.relative_to(ROOT)), m.line, m.kind, m.said, m.nth, **told)


def counts(one: Found) -> bool:
    """Whether C was made, and a text altered that a proof takes."""
    return one.end not in ("unreached", "unmade", LATE)


def read(results: Path) -> dict[Any, Found]:
    """What earlier runs found."""
    lines = results.read_text().splitlines() if results.exists() else []
    return {f.key: f for f in (Found(**json.loads(line)) for line in lines if line.endswith("}"))}


def summary(found: list[Found]) -> str:
    """The numbers, by part."""
    rows = ["part: drawn, not reached, C not made, late | altered: refused (a run differs too), same, wrong, not run"]
    for part in (*PARTS, "all"):
        mine = [f for f in found if part in (f.part, "all")]
        ends = Counter(f.end for f in mine)
        both = sum(f.end == "refused" and f.run != "" for f in mine)
        rows.append(
            f"{part}: {len(mine)}, {ends['unreached']}, {ends['unmade']}, {ends[LATE]} | {sum(map(counts, mine))}: "
            f"{ends['refused']} ({both}), {ends['same']}, {ends['wrong']}, {ends['unrun']}"
        )
    return "\n".join(rows)


def _code() -> str:
    """A digest of what is changed, and of what proves it."""
    files = [f for room in ("semantics", "interp", "lower", "verify") for f in sorted(ROOT.glob(f"{room}/**/*.py"))]
    return hashlib.sha256(b"".join(f.read_bytes() for f in files)).hexdigest()[:12]


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.mutation.proofs")
    parser.add_argument("--count", type=int, default=200)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--part", choices=PARTS, action="append")
    parser.add_argument("--results", type=Path, default=ROOT / ".mutants_of_proofs.jsonl")
    parser.add_argument("--jobs", type=int, default=1)
    given = parser.parse_args()
    known, began = read(given.results), time.monotonic()
    preload()
    import assay.interp.machine  # what is not changed: copied with the process
    import assay.interp.vector
    import assay.semantics.ops  # noqa: F401

    parts = tuple(given.part or PARTS)
    texts = given.results.with_name(f"{given.results.name}.{_code()}")
    for one in run(given.count, given.seed, parts, known, given.jobs, texts):
        with given.results.open("a") as out:
            out.write(json.dumps(asdict(one)) + "\n")
        known[one.key] = one
        if one.end != "unreached":
            print(
                f"{one.end:8} {one.file}:{one.line} {one.kind}: {one.said} | {one.claim} | {one.proof or one.run}",
                flush=True,
            )
    print(summary(list(known.values())))
    print(f"{time.monotonic() - began:.0f} seconds")
    sys.exit(1 if any(f.end == "wrong" for f in known.values()) else 0)


if __name__ == "__main__":
    main()
