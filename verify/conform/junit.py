"""Scoreboards as JUnit's XML, which continuous integration shows (specs/verify.md, "Conformance").

A suite is a backend, a test is a case: *wrong* is a failure, *died* and *late* are errors, what is refused, not judged,
undecided or unpredictable is skipped, with the reason.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from xml.etree.ElementTree import Element, SubElement, indent, tostring

from assay.verify.conform.cases import CaseResult
from assay.verify.conform.scoreboard import Scoreboard

_KINDS = {"wrong": "failure", "implausible": "failure", "died": "error", "late": "error"}
_PASSED = ("right", "open")
_UNSAID = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
"""Characters that XML cannot hold."""


def junit(boards: Sequence[Scoreboard], refuted: Mapping[str, str], judged: Sequence[str] = ()) -> str:
    """The text of the file. `refuted` says which expectations of the programs our own definition does not meet, and
    `judged` names all that were held to it: they are a suite of their own."""
    root = Element("testsuites", name="assay conform")
    if judged:
        suite = SubElement(root, "testsuite", name="assay.definition")
        for name in judged:
            test = SubElement(suite, "testcase", classname=_class(name), name=_sayable(name), time="0.000")
            if name in refuted:
                _say(test, "failure", "refuted", refuted[name])
        _count(suite)
    for board in boards:
        suite = SubElement(root, "testsuite", name=f"assay.{board.backend}")
        for result in board.results:
            _case(suite, result)
        _count(suite)
    for what in ("tests", "failures", "errors", "skipped"):
        root.set(what, str(sum(int(s.get(what, "0")) for s in root)))
    root.set("time", f"{sum(float(s.get('time', '0')) for s in root):.3f}")
    indent(root)
    return '<?xml version="1.0" encoding="utf-8"?>\n' + tostring(root, encoding="unicode") + "\n"


def _case(suite: Element, result: CaseResult) -> None:
    test = SubElement(
        suite, "testcase", classname=f"{result.suite}.{_class(result.case)}", name=_sayable(result.case),
        time=f"{result.seconds:.3f}",
    )  # fmt: skip
    said = "; ".join(part for part in (result.reason, result.detail) if part)
    if result.verdict not in _PASSED:
        more = f"; the first operator that is wrong is {result.culprit}" if result.culprit else ""
        _say(test, _KINDS.get(result.verdict, "skipped"), result.verdict, said + more)
    if result.stored:
        SubElement(test, "system-out").text = _sayable(f"the stored results: {result.stored}")


def _class(name: str) -> str:
    return _sayable(name.rpartition("/")[0].replace("/", ".") or "cases")


def _say(test: Element, kind: str, verdict: str, said: str) -> None:
    text = _sayable(f"{verdict}: {said}")
    made = SubElement(test, kind, message=text)
    if kind != "skipped":
        made.set("type", verdict)
        made.text = text


def _sayable(text: str) -> str:
    return _UNSAID.sub(lambda m: m[0].encode("unicode_escape").decode(), text)


def _count(suite: Element) -> None:
    tests = suite.findall("testcase")
    suite.set("tests", str(len(tests)))
    for what, kind in (("failures", "failure"), ("errors", "error"), ("skipped", "skipped")):
        suite.set(what, str(sum(t.find(kind) is not None for t in tests)))
    suite.set("time", f"{sum(float(t.get('time', '0')) for t in tests):.3f}")
