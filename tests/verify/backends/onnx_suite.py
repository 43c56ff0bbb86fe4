"""Every case of onnx.backend.test on the CPU through `assay.verify.plugins.onnx_backend`, with ONNX's own comparison.

    python -m tests.verify.backends.onnx_suite [--write] [REGEX]

prints counts, and with --write replaces specs/onnx_cases.csv: the cases that are not passed, each with its reason.
"""

from __future__ import annotations

import csv
import re
import sys
import unittest
import warnings
from collections import Counter
from collections.abc import Iterable
from functools import cache

import onnx.backend.test

from assay.verify.plugins import onnx_backend
from tests.places import SPECS

LISTED = SPECS / "onnx_cases.csv"
LONGEST = 160
WHY = {
    "test_bernoulli": (
        "ONNX leaves the random numbers open; the case wants those of one generator, which no backend has"
    ),
    "test_loop16_seq_none_cpu": (
        "the runner asks each element of a sequence for its length, which a scalar does not have"
    ),
}
"""Reasons that the message does not tell, by the beginning of the case's name."""


@cache
def cases() -> dict[str, unittest.TestCase]:
    """The tests by name."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        classes = onnx.backend.test.BackendTest(onnx_backend, __name__).test_cases
    found = {name: kind for kind in classes.values() for name in vars(kind)}
    return {n: found[n](n) for n in sorted(found) if n.startswith("test_") and n.endswith("_cpu")}


def outcome(case: unittest.TestCase) -> str:
    """ "" where the case passes, else what went wrong in one line."""
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


def run(names: Iterable[str]) -> dict[str, str]:
    """What came of each case."""
    return {name: outcome(cases()[name]) for name in names}


def faults(found: dict[str, str], known: dict[str, str]) -> list[str]:
    """Where what came of cases is not what the list of those that do not pass says."""
    wrong = [f"{n} does not pass and is not listed: {r}" for n, r in found.items() if r and n not in known]
    return wrong + [f"{n} passes: take it out of the list" for n, r in found.items() if not r and n in known]


def listed() -> dict[str, str]:
    """The cases that are known not to pass."""
    with LISTED.open(newline="") as file:
        return {row["case"]: row["reason"] for row in csv.DictReader(file)}


def write(found: dict[str, str]) -> None:
    with LISTED.open("w", newline="") as file:
        table = csv.writer(file, lineterminator="\n")
        table.writerow(["case", "reason"])
        table.writerows(sorted((n, _reason(n, r)) for n, r in found.items() if r))


def _reason(name: str, said: str) -> str:
    return next((why for start, why in WHY.items() if name.startswith(start)), said)


def main(args: list[str]) -> None:
    patterns = [a for a in args if a != "--write"]
    found = run(n for n in cases() if not patterns or re.search(patterns[0], n))
    wrong = {n: r for n, r in found.items() if r}
    for reason, count in Counter(r for r in wrong.values()).most_common(40):
        print(f"{count:5} {reason}")
    print(f"{len(found) - len(wrong)} of {len(found)} cases pass")
    if "--write" in args:
        write(found if not patterns else {**listed(), **found})


if __name__ == "__main__":
    main(sys.argv[1:])
