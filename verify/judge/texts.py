"""Strings in the verdicts on a model that has them (specs/verify.md, "judge").

A model is judged with numbers in place of its strings. So what is said of a number is told in strings; and where the
standard leaves open what a string is, such as how a float is written, what differs from ours is not called wrong.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from assay.lower.frontends.onnx.model import OPEN_TEXTS
from assay.semantics.module import Module
from assay.verify.border.onnx_words import OTHER
from assay.verify.evidence import listed
from assay.verify.judge.outcome import BackendVerdict, SampleVerdict
from assay.verify.oracle import Worst

Array = np.ndarray[Any, Any]


def told_in_strings(verdict: BackendVerdict, module: Module, texts: Collection[str]) -> BackendVerdict:
    """A verdict on a backend in the strings of the model's table. `texts` are the tensors that stand for strings."""
    table, left_open = (module.main.attrs.get(key, ()) for key in ("strings", OPEN_TEXTS))
    if table or left_open:
        verdict.samples = [_told(s, table, left_open, texts) for s in verdict.samples]
    return verdict


def strings_of(module: Module, numbers: Array) -> Array:
    """The strings that numbers stand for in the table of a module."""
    table = [*module.main.attrs.get("strings", ()), OTHER]
    return np.array([table[min(int(n), len(table) - 1)] for n in numbers.reshape(-1)], np.str_).reshape(numbers.shape)


def numbers_of(module: Module, strings: Array) -> Array:
    """The numbers of strings in the table of a module; those that are not in it have the one behind."""
    table = {s: i for i, s in enumerate(module.main.attrs.get("strings", ()))}
    codes = [table.get(str(s), len(table)) for s in strings.reshape(-1)]
    return np.array(codes, np.int64).reshape(strings.shape)


def _told(s: SampleVerdict, table: Sequence[str], left_open: Sequence[str], texts: Collection[str]) -> SampleVerdict:
    detail = s.detail
    if s.worst is not None and s.worst.tensor in texts:
        detail = detail.replace(str(s.worst), _of_strings(s.worst, table))
    if s.outcome != "wrong" or not left_open:
        return replace(s, detail=detail)
    said = f"{detail}; the standard leaves open, in {listed(left_open)}"
    return replace(s, outcome="undecided", detail=said, rule="")


def _of_strings(worst: Worst, table: Sequence[str]) -> str:
    def text(number: Any) -> str:
        return repr(table[number]) if 0 <= number < len(table) else "another string"

    return f"{worst.tensor} element {worst.index} is {text(worst.got)}, allowed is {text(worst.least)}"
