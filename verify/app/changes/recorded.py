"""A report as it was written, read again (specs/verify.md, "Two reports").

Taken are `report.json` of `--report`, its directory, and what `--json` wrote, of `assay check` and of `assay judge`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from typing import Any

from assay.verify.app.judgement.judge_baseline import Finding, findings
from assay.verify.app.read_answers import read_answer
from assay.verify.app.report.write import DATA
from assay.verify.exits import OF_OUTCOME


@dataclass(frozen=True)
class RecordedLine:
    """A line of `assay check`: the word that it says, whether it holds, what it says beside, and of somebody who was
    judged the verdict."""

    word: str
    holds: bool | None
    says: str
    outcome: str


@dataclass(frozen=True)
class RecordedTensor:
    """What is said of one tensor of one backend on one set of inputs."""

    outcome: str
    error: float | None


@dataclass(frozen=True)
class RecordedSample:
    """What is said of one backend on one set of inputs: the verdict, and the operator that it names."""

    outcome: str
    culprit: str


@dataclass(frozen=True)
class Recorded:
    """What two reports are compared by. None: this kind of file says nothing of it."""

    command: str
    about: Mapping[str, str]
    """The model, the seed, and others on which all the rest depends."""
    lines: Mapping[str, RecordedLine]
    kernels: Mapping[str, str] | None
    """How each kernel is known: as it is proved, or "tested" with the reason."""
    pools: Mapping[str, str] | None
    buffers: Mapping[str, str] | None
    """Where each buffer lies, and how many bytes it has."""
    steps: Sequence[str] | None
    """The kernels that are called, in order."""
    verdicts: Mapping[str, str] | None
    tensors: Mapping[tuple[str, str, str], RecordedTensor] = field(default_factory=dict)
    """By backend, set of inputs and name."""
    findings: Mapping[Finding, None] = field(default_factory=dict)
    judged: frozenset[tuple[str, str]] = frozenset()
    """The backends with the sets of inputs on which they were judged; "" stands for any."""
    samples: Mapping[tuple[str, str], RecordedSample] = field(default_factory=dict)
    """What is said of a backend on a set of inputs."""


def read_report(path: Path) -> Recorded:
    """The report in a file or a directory. Invalid (diff.C1): it cannot be read, or is none."""
    file = path / DATA if path.is_dir() else path
    return read_answer(
        file, _recorded, "no report, which is what check and judge write with --report or --json", "diff.C1"
    )


def _recorded(data: Mapping[str, Any]) -> Recorded:
    if "error" in data:
        raise ValueError(f"an error ended that run: {str(data['error'])[:100]}")
    if "backends" in data:
        about = {"model": Path(str(data["model"])).name, "digest": str(data["digest"]), "seed": str(data["seed"])}
        about["sizes"] = ", ".join(f"{n} = {v}" for n, v in data["sizes"].items())
        about["sets of inputs"] = ", ".join(map(str, data["samples"]))
        return Recorded("judge", about, {}, None, None, None, None, **_judged(data["backends"]))
    whole = "stages" in data
    rows = [({**s, "stage": s["name"]} if whole else s) for s in data["stages" if whole else "lines"]]
    rows = _numbered(rows, "stage")
    about = {"model": Path(str(data["model"])).name, "seed": str(data["seed"])}
    lines = {str(r["stage"]): _line(r) for r in rows}
    made: Mapping[str, Any] = next((r.get("data", {}) for r in rows if r["stage"] == "legalize"), {})
    kernels = {str(k): str(v) for k, v in made.get("how", {}).items()}
    kernels |= {str(k): f"tested: {v}" for k, v in made.get("not_proved", {}).items()}
    told = _judged(data["judged"]) if data.get("judged") else {"verdicts": _outcomes(lines)}
    if not whole or not data["steps"]:
        return Recorded("check", about, lines, kernels, None, None, None, **told)
    about["shown at"] = ", ".join(f"{n} = {v}" for n, v in data["at"].items())
    return Recorded("check", about, lines, kernels, *_plan(data), **told)


def _plan(data: Mapping[str, Any]) -> tuple[dict[str, str], dict[str, str], list[str]]:
    """Of a report with a program: its pools, its buffers, its steps."""
    pools = {
        str(p["name"]): f"{_bytes(p['nbytes'])}, at least {_bytes(p['bound'])}"
        for p in data["pools"]
    }  # fmt: skip
    buffers = {
        str(b["name"]): f"{_bytes(b['nbytes'])} in {b['pool'] or b['kind']}"
        + ("" if b["offset"] is None else f" at {int(b['offset']):,}")
        for b in data["buffers"]
    }
    return pools, buffers, [str(s["kernel"]) for s in data["steps"]]


def _bytes(count: int | None) -> str:
    return "no size" if count is None else f"{int(count):,} bytes"


def _line(row: Mapping[str, Any]) -> RecordedLine:
    holds, outcome = row["holds"], str(row.get("outcome", ""))
    if holds not in (True, False, None) or (outcome and outcome not in OF_OUTCOME):
        raise ValueError(f"{row['stage']} holds {holds!r}, with the verdict {outcome!r}")
    says = "; ".join(str(row[k]) for k in ("did", "detail") if row[k])
    return RecordedLine(str(row["how"]), holds, says, outcome)


def _outcomes(lines: Mapping[str, RecordedLine]) -> dict[str, str]:
    return {name: line.outcome for name, line in lines.items() if line.outcome}


def _judged(backends: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    backends = _numbered(backends, "name")
    tensors = dict(_tensors(backends))
    verdicts = {str(b["name"]): str(b["outcome"]) for b in backends}
    for word in (*verdicts.values(), *(t.outcome for t in tensors.values())):
        if word not in OF_OUTCOME:
            raise ValueError(f"{word!r} is no verdict")
    samples = {
        (str(b["name"]), str(s["sample"])): RecordedSample(str(s["outcome"]), str(s["culprit"]))
        for b in backends
        for s in b["samples"]
    }
    judged = frozenset((*samples, *((name, "") for name in verdicts)))
    return {
        "verdicts": verdicts, "tensors": tensors, "findings": findings(backends), "judged": judged, "samples": samples,
    }  # fmt: skip


def _numbered(rows: Iterable[Mapping[str, Any]], key: str) -> list[dict[str, Any]]:
    """Rows with a name each: the second of one name is NAME-2, as that of a pass is, so none hides another."""
    found: dict[str, dict[str, Any]] = {}
    for row in rows:
        name = str(row[key])
        if name in found:
            name = next(n for k in count(2) if (n := f"{name}-{k}") not in found)
        found[name] = {**row, key: name}
    return list(found.values())


def _tensors(backends: Iterable[Mapping[str, Any]]) -> Iterator[tuple[tuple[str, str, str], RecordedTensor]]:
    for b in backends:
        for s in b["samples"]:
            rows = [(t["tensor"], t["outcome"], t["error"]) for t in s["tensors"]]
            rows += [(o["tensor"], o["outcome"], o) for o in s["outputs"]]  # what is said of an output counts
            for name, outcome, error in rows:
                far = None if error is None else float(error["error"])
                yield (str(b["name"]), str(s["sample"]), str(name)), RecordedTensor(str(outcome), far)


def calls_of_each(steps: Sequence[str]) -> dict[str, str]:
    """How often each kernel is called."""
    return {kernel: f"{n} {'call' if n == 1 else 'calls'}" for kernel, n in Counter(steps).items()}
