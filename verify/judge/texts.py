"""Strings in the verdicts on a model that has them (specs/verify.md, "judge").

A model is judged with numbers in place of its strings. So what is said of a number is told in strings; and where the
standard leaves open what a string is, such as how a float is written, what differs from ours is not called wrong.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, TypeVar

from onnx import ModelProto

from assay.lower.frontends.onnx.model import OPEN_TEXTS
from assay.semantics.module import Module
from assay.verify.backends import Subject
from assay.verify.border.onnx_words import text_tensors
from assay.verify.evidence import listed
from assay.verify.judge.outcome import BackendVerdict, SampleVerdict
from assay.verify.oracle import Verdict, Worst

T = TypeVar("T", SampleVerdict, Verdict)


def told_in_strings(verdict: BackendVerdict, subject: Subject) -> BackendVerdict:
    """A verdict on a backend in the strings of the model's table."""
    verdict.samples = [told_as_strings(s, subject.module, subject.model) for s in verdict.samples]
    return verdict


def told_as_strings(found: T, module: Module, model: ModelProto | None) -> T:
    """A verdict on one set of inputs: the same in strings, undecided where it would be wrong and the standard leaves a
    string open."""
    table, left_open = (module.main.attrs.get(key, ()) for key in ("strings", OPEN_TEXTS))
    detail, worst = found.detail, found.worst
    if worst is not None and table and model is not None and worst.tensor in text_tensors(model):
        detail = detail.replace(str(worst), _of_strings(worst, table))
    if found.outcome == "wrong" and left_open:
        said = f"{detail}; the standard leaves open, in {listed(left_open)}"
        found = replace(found, outcome="undecided", detail=said)
        return replace(found, rule="") if isinstance(found, SampleVerdict) else found
    return replace(found, detail=detail) if detail != found.detail else found


def _of_strings(worst: Worst, table: Sequence[str]) -> str:
    def text(number: Any) -> str:
        return repr(table[number]) if 0 <= number < len(table) else "another string"

    return f"{worst.tensor} element {worst.index} is {text(worst.got)}, allowed is {text(worst.least)}"
