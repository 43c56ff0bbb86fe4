"""Every case of onnx.backend.test on the CPU through `assay.verify.onnx_backend`, with ONNX's own comparison.

    python -m tests.verify.onnx_suite [--write] [REGEX]

prints counts, and with --write replaces specs/onnx_cases.csv: the cases that are not passed, each with its reason.
"""

from __future__ import annotations

import csv
import re
import sys
import unittest
import warnings
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import onnx.backend.test

from assay.verify import onnx_backend

LISTED = Path(__file__).resolve().parents[2] / "specs" / "onnx_cases.csv"
LONGEST = 160


def cases() -> Iterator[tuple[str, unittest.TestCase]]:
    """Names and tests."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        classes = onnx.backend.test.BackendTest(onnx_backend, __name__).test_cases
    for kind in classes.values():
        for name in sorted(vars(kind)):
            if name.startswith("test_") and name.endswith("_cpu"):
                yield name, kind(name)


def outcome(case: unittest.TestCase) -> str:
    """"" where the case passes, else what went wrong in one line."""
    result = unittest.TestResult()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        case.run(result)
    if result.skipped:
        return f"skipped: {result.skipped[0][1]}"
    for _, text in (*result.failures, *result.errors):
        return _said(text)
    return ""


def _said(text: str) -> str:
    """The message at the end of a traceback, its first line and without the case's name."""
    lines = text.strip().splitlines()
    kinds = re.compile(r"[\w.]+(Error|Invalid|Unsupported|Trap|Crash|Exception)\b")
    at = max((i for i, line in enumerate(lines) if kinds.match(line)), default=-1)
    words = " ".join(" ".join(lines[at:]).split())
    words = re.sub(r"^[\w.]*\.(\w+): ", r"\1: ", words)
    return re.sub(r"test_\w+ \([^)]*\): ", "", words)[:LONGEST]


def run(pattern: str = "") -> dict[str, str]:
    """What came of each case whose name has `pattern` in it."""
    return {name: outcome(case) for name, case in cases() if re.search(pattern, name)}


def listed() -> dict[str, str]:
    """The cases that are known not to pass."""
    with LISTED.open(newline="") as file:
        return {row["case"]: row["reason"] for row in csv.DictReader(file)}


def write(found: dict[str, str]) -> None:
    with LISTED.open("w", newline="") as file:
        table = csv.writer(file, lineterminator="\n")
        table.writerow(["case", "reason"])
        table.writerows(sorted((n, r) for n, r in found.items() if r))


def main(args: list[str]) -> None:
    patterns = [a for a in args if a != "--write"]
    found = run(patterns[0] if patterns else "")
    wrong = {n: r for n, r in found.items() if r}
    for reason, count in Counter(r for r in wrong.values()).most_common(40):
        print(f"{count:5} {reason}")
    print(f"{len(found) - len(wrong)} of {len(found)} cases pass")
    if "--write" in args:
        write(found if not patterns else {**listed(), **found})


if __name__ == "__main__":
    main(sys.argv[1:])
