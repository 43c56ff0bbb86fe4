"""What was judged, as a file, so that a run that was interrupted goes on (specs/verify.md, "Conformance").

The first line of `conform.jsonl` says who was judged on what, each other line is one result. A line that was cut off is
passed over.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import IO, Any

from assay.semantics import strict_json
from assay.semantics.errors import Invalid
from assay.semantics.files import cannot_write, directory_at, read_text
from assay.semantics.strict_json import typed
from assay.verify.border.files import replace_text
from assay.verify.conform.cases import VERDICTS, CaseResult

FORMAT = "assay-conform-1"


class KeptResults:
    """A directory with what was judged. Invalid (conform.C2): it cannot be used, or is of other versions."""

    def __init__(self, directory: Path, versions: Mapping[str, str]) -> None:
        self.path = directory / "conform.jsonl"
        self.head = {"format": FORMAT, "versions": dict(versions)}
        self.file: IO[str] | None = None
        try:
            directory_at(directory)
        except OSError as wrong:
            raise Invalid(
                f"cannot make the directory: {wrong.strerror}", where=str(directory), label="conform.C2"
            ) from None
        self.results = self._read() if self.path.exists() else []

    def _read(self) -> list[tuple[str, CaseResult]]:
        """What is there, each with the digest of its case."""
        try:
            lines = read_text(self.path).split("\n")
            head = typed(dict, strict_json.parse_json(lines[0]))
        except (OSError, ValueError) as wrong:
            raise self._unusable(f"not a file of assay conform: {wrong}") from None
        if head.get("format") != FORMAT:
            raise self._unusable(f"not of the format {FORMAT}")
        if head != self.head:
            raise self._unusable(
                f"holds results of {_said(head.get('versions'))}, and these are {_said(self.head['versions'])}: give"
                " another directory"
            )
        try:
            return [_result(line) for line in lines[1:-1]]  # behind the last line end is nothing, or what was cut off
        except (ValueError, KeyError, TypeError) as wrong:
            raise self._unusable(f"not a file of assay conform: {wrong}") from None

    def _unusable(self, why: str) -> Invalid:
        return Invalid(why, where=str(self.path), label="conform.C2")

    def add(self, digest: str, results: Iterable[CaseResult]) -> None:
        """Keep results of a case with this digest."""
        try:
            if self.file is None:
                self.file = self._opened()
            for result in results:
                self.file.write(_line(digest, result) + "\n")
            self.file.flush()
        except OSError as wrong:
            raise cannot_write(wrong, self.path) from None

    def _opened(self) -> IO[str]:
        """The file with what is known, to which results are added."""
        lines = [json.dumps(self.head), *(_line(d, r) for d, r in self.results)]
        replace_text(self.path, "\n".join(lines) + "\n")
        return self.path.open("a", encoding="utf-8")

    def close(self) -> None:
        """Close the file."""
        if self.file is not None:
            self.file.close()


def _line(digest: str, result: CaseResult) -> str:
    return json.dumps({**result.as_data(), "digest": digest})


def _said(versions: Any) -> str:
    return ", ".join(f"{n} {v}" for n, v in versions.items()) if isinstance(versions, dict) else "?"


def _result(line: str) -> tuple[str, CaseResult]:
    data = typed(dict, strict_json.parse_json(line, fractions=True))
    digest = typed(str, data.pop("digest"))
    data["worst"] = typed(dict, data.get("worst", {}))
    for name, value in data.items():
        typed({"worst": dict, "seconds": float}.get(name, str), value)
    if data["verdict"] not in VERDICTS:
        raise ValueError(f"{data['verdict']!r} is no verdict")
    return digest, CaseResult(**data)
