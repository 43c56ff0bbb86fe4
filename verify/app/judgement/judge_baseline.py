"""What is new since an earlier judgement (specs/verify.md, "judge")."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

from assay.semantics.errors import Invalid
from assay.verify.app.read_answers import read_answer
from assay.verify.exits import OF_OUTCOME, Exit, gravest
from assay.verify.judge.outcome import GOOD, SAYS_NOTHING


class Finding(NamedTuple):
    """Something that is not right: of which backend, on which kind of data, in which piece or output ("" where it has
    no place), and the verdict."""

    backend: str
    kind: str
    place: str
    outcome: str

    def __str__(self) -> str:
        on = f" on {self.kind}" if self.kind else ""
        return f"{self.backend} is {self.outcome}{on}{f': {self.place}' if self.place else ''}"


@dataclass(frozen=True)
class Compared:
    """What is not right now, and was not then: each finding is `new`, `known` or `mended`."""

    new: list[Finding] = field(default_factory=list)
    known: list[Finding] = field(default_factory=list)
    mended: list[Finding] = field(default_factory=list)

    @property
    def exit(self) -> Exit:
        """The exit code, to which only what is new counts."""
        return gravest(OF_OUTCOME[f.outcome] for f in self.new)

    def lines(self) -> list[str]:
        """The comparison for people."""
        told = [f"new since the baseline: {f}" for f in self.new] + [f"mended: {f}" for f in self.mended]
        told += [f"known: {f}" for f in self.known]
        return [*told, f"{len(self.new)} new, {len(self.known)} known, {len(self.mended)} mended"]

    def as_data(self) -> dict[str, list[dict[str, str]]]:
        """The comparison for machines."""
        return {n: [f._asdict() for f in getattr(self, n)] for n in ("new", "known", "mended")}


def findings(backends: Iterable[Mapping[str, Any]]) -> dict[Finding, None]:
    """What is not right, of backends as `--json` has them. ValueError: a verdict that there is not."""
    found: dict[Finding, None] = {}
    for b in backends:
        for word in (b["outcome"], *(s["outcome"] for s in b["samples"])):
            if word not in OF_OUTCOME:
                raise ValueError(f"{word!r} is no verdict")
        if b["outcome"] in GOOD:
            continue
        if not b["samples"]:
            found[Finding(b["name"], "", "", b["outcome"])] = None
        for s in b["samples"]:
            outcome = s["outcome"]
            if outcome in GOOD or (outcome in SAYS_NOTHING and outcome != b["outcome"]):
                continue
            places = [p["title"] for p in s["pieces"] if p["verdict"]["outcome"] == "wrong"]
            places = places or [o["tensor"] for o in s["outputs"] if o["outcome"] == outcome] or [""]
            found.update((Finding(b["name"], kind_of(s["sample"]), p, outcome), None) for p in places)
    return found


def kind_of(sample: str) -> str:
    """A kind of data, of whichever run."""
    kind, space, run = sample.rpartition(" ")
    return kind if space and run.isdecimal() else sample


@dataclass(frozen=True)
class Baseline:
    """An earlier judgement, as `--json` wrote it."""

    path: Path
    digest: str
    found: Mapping[Finding, None]

    def require_same(self, digest: str) -> None:
        """Invalid (judge.C4): it is of another model."""
        if digest != self.digest:
            raise Invalid(
                "is of another model: its digest is not that of this one; judge this one with --json, and keep that",
                where=str(self.path), label="judge.C4",
            )  # fmt: skip

    def compared(self, backends: Iterable[Mapping[str, Any]]) -> Compared:
        """What of a judgement is new, known, or mended: was not right and is, where it was judged again."""
        several = list(backends)
        now = findings(several)
        again = {(b["name"], k) for b in several for k in ("", *(kind_of(s["sample"]) for s in b["samples"]))}
        return Compared(
            [f for f in now if f not in self.found],
            [f for f in now if f in self.found],
            [f for f in self.found if f not in now and (f.backend, f.kind) in again],
        )


def read_baseline(path: Path) -> Baseline:
    """The baseline in a file. Invalid (judge.C4): it cannot be read, or is none."""

    def made(data: Any) -> Baseline:
        return Baseline(path, str(data["digest"]), findings(data["backends"]))

    return read_answer(path, made, "no baseline, which is what assay judge --json writes", "judge.C4")
