"""In which versions of a tool a finding was seen: `specs/findings/seen.csv` (specs/verify.md, "Findings").

    python -m tests.docs.seen              # run all findings with what is installed, and say what comes of them
    python -m tests.docs.seen --record     # and write that down

A finding *shows*, is *mended*, or is *refused*: the tool raises, or refuses the program. One that hangs on the
processor *shows with* certain instructions or *without* them, by the names of /proc/cpuinfo: that is written by hand,
and `--record` keeps it where it agrees.
"""

from __future__ import annotations

import csv
import re
import runpy
import subprocess
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import numpy as np

from assay.semantics.dtypes import dtype
from tests.places import ROOT, SPECS

FINDINGS = SPECS / "findings"
TABLE = FINDINGS / "seen.csv"
TOOLS = {
    "onnxruntime-1.31": "onnxruntime",
    "onnx-reference-1.23": "onnx",
    "tvm-0.27": "apache-tvm",
    "openvino-2026.4": "openvino",
    "tract-0.23": "tract",
    "opencv-5.0": "opencv-python-headless",
    "mnn-3.6": "mnn",
    "iree-3.13": "iree-base-compiler",
    "tinygrad-0.14": "tinygrad",
    "emx-onnx-cgen-1.4": "emx-onnx-cgen",
    "torch-2.14": "torch",
    "xla-0.10": "jaxlib",
}
"""The package in which the findings of each folder were made."""
PROGRAMS = ("tvm-0.27", "torch-2.14")
"""Folders whose findings are programs that end with 0 while they show, and with 1 when they are mended."""
OUTCOMES = ("shows", "mended", "refused")
ON_SOME = re.compile(r"shows (with|without) (\w+(?: or \w+)*)")
"""The outcome of a finding that hangs on the processor, such as "shows without avx_vnni or avx512_vnni"; elsewhere it
is as if it were mended."""
PROCESSOR = Path("/proc/cpuinfo")
HEAD = "## Versions"


@dataclass(frozen=True)
class Seen:
    """What came of a finding with one version of its tool."""

    finding: str
    tool: str
    version: str
    outcome: str


def findings(folder: str) -> list[Path]:
    """The findings of a folder, by their names."""
    return sorted((FINDINGS / folder).glob("*.py"))


def installed(folder: str) -> str | None:
    """The version of the tool that is installed; None: it is not."""
    try:
        return version(TOOLS[folder])
    except PackageNotFoundError:
        return None


def outcome(path: Path) -> str:
    """Run one finding with what is installed."""
    if path.parent.name in PROGRAMS:
        ended = subprocess.run([sys.executable, str(path)], capture_output=True, text=True, check=False, timeout=300)
        said = ("TVM:" in ended.stdout or "PyTorch:" in ended.stdout) and "right:" in ended.stdout
        return OUTCOMES[ended.returncode] if ended.returncode in (0, 1) and said else "refused"
    case = runpy.run_path(str(path))
    try:
        given = case["given"]()
    except Exception:  # noqa: BLE001  each tool has classes of its own for what it refuses
        return "refused"
    return "shows" if differ(given, case["RIGHT"], case["WITHIN"]) else "mended"


def differ(a: Any, b: Any, within: float) -> bool:
    """Whether two arrays are not the same but for a relative error; the sign of a zero counts."""
    if a.shape != b.shape or a.dtype != b.dtype:
        return True
    if not dtype(a.dtype).is_float:
        return bool((a != b).any())
    if (np.isnan(a) != np.isnan(b)).any() or (np.isinf(a) != np.isinf(b)).any():
        return True
    finite = np.isfinite(a)
    off = np.abs(a[finite].astype(np.float64) - b[finite].astype(np.float64))
    return bool(
        (off > within * np.abs(b[finite].astype(np.float64))).any()
        or (np.signbit(a) != np.signbit(b))[~np.isnan(a)].any()
    )


def is_outcome(said: str) -> bool:
    """Whether this is a word for what comes of a finding."""
    return said in OUTCOMES or ON_SOME.fullmatch(said) is not None


def instructions() -> frozenset[str]:
    """The names of what this processor can do; none where nothing tells them."""
    said = PROCESSOR.read_text("utf-8") if PROCESSOR.is_file() else ""
    found = re.search(r"^flags\s*:(.*)$", said, re.MULTILINE)
    return frozenset(found[1].split()) if found else frozenset()


def here(recorded: str) -> str | None:
    """What a recorded outcome comes to on this processor; None where it hangs on what nothing tells."""
    condition = ON_SOME.fullmatch(recorded)
    if condition is None:
        return recorded
    has = instructions()
    if not has:
        return None
    some = not has.isdisjoint(condition[2].split(" or "))
    return "shows" if some == (condition[1] == "with") else "mended"


def table(path: Path = TABLE) -> dict[tuple[str, str, str], str]:
    """What was seen, by finding, tool and version."""
    with path.open(encoding="utf-8", newline="") as file:
        return {(r["finding"], r["tool"], r["version"]): r["outcome"] for r in csv.DictReader(file)}


def judged(path: Path, there: str, found: str, known: dict[tuple[str, str, str], str]) -> tuple[bool | None, str]:
    """Whether a finding behaves as the table says with this version, None where that says nothing; and the line."""
    folder = path.parent.name
    recorded = known.get((f"{folder}/{path.stem}", TOOLS[folder], there))
    if recorded is None:
        how = "`python -m tests.docs.seen --record` records it"
        return None, f"not known yet for {TOOLS[folder]} {there}: {found}; {how}"
    expected = here(recorded)
    line = f"{TOOLS[folder]} {there}: {found}, recorded is {recorded}"
    if expected is None:
        return None, f"{line}, and nothing tells what this processor can do"
    return found == expected, line


def run_all() -> Iterator[tuple[Seen, str]]:
    """Every finding whose tool is installed, with what comes of it and the line that says so."""
    known = table()
    for folder, tool in TOOLS.items():
        if (there := installed(folder)) is None:
            continue
        for path in findings(folder):
            found = outcome(path)
            _, line = judged(path, there, found, known)
            yield Seen(f"{folder}/{path.stem}", tool, there, found), line


def record(seen: Sequence[Seen], path: Path = TABLE) -> None:
    """Write down what was seen, beside what was seen with other versions. What is said to hang on the processor stays
    where it agrees with what was seen, and where nothing tells what this one can do."""
    rows = table(path)
    for s in seen:
        key = (s.finding, s.tool, s.version)
        if key not in rows or here(rows[key]) not in (s.outcome, None):
            rows[key] = s.outcome
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(["finding", "tool", "version", "outcome"])
        writer.writerows([*key, said] for key, said in sorted(rows.items()))


def with_versions(page: str, folder: str, before: str) -> str:
    """A page with its section of versions made anew: in front of the heading `before`, or at the end."""
    start = page.find(f"{HEAD}\n")
    if start >= 0:
        end = page.find("\n## ", start)
        page = page[:start] + (page[end + 1 :] if end >= 0 else "")
    at = page.find(f"{before}\n") if before else -1
    section = "\n".join(_section(folder)) + "\n"
    return f"{page.rstrip()}\n\n{section}" if at < 0 else f"{page[:at]}{section}\n{page[at:]}"


def _numbers(version: str) -> list[tuple[int, str]]:
    """A version to sort by: numbers as numbers, and what is none behind them."""
    return [(int(p), "") if p.isdigit() else (0, p) for p in re.split(r"[.+]", version)]


def _section(folder: str) -> Iterator[str]:
    rows = {k: v for k, v in table().items() if k[0].startswith(f"{folder}/")}
    versions = sorted({v for _, _, v in rows}, key=_numbers)
    yield HEAD
    yield ""
    yield f"What comes of each case with each version of {TOOLS[folder]} that it was run with: this part is generated"
    yield "from `specs/findings/seen.csv`, which `python -m tests.docs.seen --record` writes."
    yield ""
    yield f"| case | {' | '.join(versions)} |"
    yield "|---" * (1 + len(versions)) + "|"
    for path in findings(folder):
        name = f"{folder}/{path.stem}"
        yield f"| {path.stem} | {' | '.join(rows.get((name, TOOLS[folder], v), '') for v in versions)} |"


def main(arguments: Sequence[str]) -> int:
    """The command: 1 where something recorded does not behave as recorded."""
    found = list(run_all())
    for seen, line in found:
        print(f"{seen.finding}: {line}")
    if "--record" in arguments:
        record([seen for seen, _ in found])
        print(f"written: {TABLE.relative_to(ROOT)}; `make docs` writes the pages")
        return 0
    known = table()
    recorded = ((s, known.get((s.finding, s.tool, s.version))) for s, _ in found)
    return int(any(said is not None and here(said) not in (s.outcome, None) for s, said in recorded))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
