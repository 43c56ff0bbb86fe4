"""Results as JUnit's XML, which continuous integration shows (specs/verify.md, "judge")."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Literal
from xml.etree.ElementTree import Element, SubElement, indent, tostring

from assay.verify.border.files import replace_text

_UNSAID = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
"""Characters that XML cannot hold."""
KINDS: dict[str, Literal["failure", "error", "skipped"]] = {
    "wrong": "failure", "implausible": "failure", "died": "error", "late": "error", "refused": "skipped",
    "undecided": "skipped", "unpredictable": "skipped", "not judged": "skipped", "refuted": "failure",
}  # fmt: skip
"""What a verdict is to JUnit; others have passed."""


@dataclass(frozen=True)
class TestCase:
    """One test: what was tried, and the verdict with its reason. `group` is the class that it is shown in, the suite by
    default; `note` is what else is said of it."""

    __test__ = False  # none of pytest's

    suite: str
    name: str
    outcome: str
    said: str = ""
    seconds: float = 0.0
    group: str = ""
    note: str = ""


def junit(title: str, cases: Iterable[TestCase]) -> str:
    """The text of a file of these tests, in the suites that they name."""
    root = Element("testsuites", name=_sayable(title))
    suites: dict[str, Element] = {}
    for case in cases:
        if case.suite not in suites:
            suites[case.suite] = SubElement(root, "testsuite", name=_sayable(case.suite))
        test = SubElement(
            suites[case.suite], "testcase", classname=_sayable(case.group or case.suite), name=_sayable(case.name),
            time=f"{case.seconds:.3f}",
        )  # fmt: skip
        kind = KINDS.get(case.outcome)
        if kind is not None:
            text = _sayable(f"{case.outcome}: {case.said}")
            told = SubElement(test, kind, message=text)
            if kind != "skipped":
                told.set("type", case.outcome)
                told.text = text
        if case.note:
            SubElement(test, "system-out").text = _sayable(case.note)
    for suite in suites.values():
        tests = suite.findall("testcase")
        _count(suite, len(tests), {k: sum(t.find(k) is not None for t in tests) for k in _PLURAL})
    found = {k: sum(int(s.get(_PLURAL[k], "0")) for s in suites.values()) for k in _PLURAL}
    _count(root, sum(int(s.get("tests", "0")) for s in suites.values()), found)
    indent(root)
    return '<?xml version="1.0" encoding="utf-8"?>\n' + tostring(root, encoding="unicode") + "\n"


_PLURAL = {"failure": "failures", "error": "errors", "skipped": "skipped"}


def _count(of: Element, tests: int, kinds: dict[str, int]) -> None:
    of.set("tests", str(tests))
    for kind, count in kinds.items():
        of.set(_PLURAL[kind], str(count))


def _sayable(text: str) -> str:
    return _UNSAID.sub(lambda m: m[0].encode("unicode_escape").decode(), text)


def write_junit(path: Path, title: str, cases: Iterable[TestCase]) -> None:
    """Write the file whole or not at all. Invalid (output.C1): it cannot be written."""
    replace_text(path, junit(title, cases))
