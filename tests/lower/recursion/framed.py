"""Recursive programs in A-normal form, and with frames; and inputs for their runs."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from assay.lower.anf import to_anf
from assay.lower.recursion import frame_recursion
from assay.semantics.dtypes import INT64
from assay.semantics.module import Module
from assay.semantics.text.module_text import parse
from assay.semantics.types import TensorType
from tests.lower.recursion.programs import Recursive


def normal(text: str) -> Module:
    return to_anf(parse(text))


def framed(program: Recursive, depth: int | str = "") -> tuple[Module, Module]:
    """The program before the pass and after it."""
    before = normal(program.text)
    return before, frame_recursion(before, str(depth))


def runs(program: Recursive, module: Module) -> Iterator[dict[str, Any]]:
    """Inputs for each run of the program."""
    rng = np.random.default_rng(1)
    for numbers in program.runs:
        left = list(numbers)
        given: dict[str, Any] = {}
        for p in module.main.params:
            assert isinstance(p.type, TensorType)
            shape = [d if isinstance(d, int) else 2 for d in p.type.shape]
            given[p.name] = np.int64(left.pop(0)) if p.type.dtype is INT64 else rng.random(shape, np.float32)
        yield given
