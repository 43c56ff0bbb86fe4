"""Strings for inputs whose characters a model reads (specs/verify.md, "judge").

What a model computes of the characters of strings is known at import, for strings that are given. So where nobody gives
some, they are chosen before the model is read: sentences of the words that the model itself has, or numerals.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from math import prod
from typing import Any

import numpy as np
from onnx import ModelProto

from assay.lower.frontends.onnx.interface import declared_inputs
from assay.lower.frontends.onnx.operators.strings import reads_characters
from assay.lower.frontends.onnx.string_table import text_names
from assay.semantics.errors import Invalid
from assay.semantics.scalar import Var
from assay.semantics.types import TensorType
from assay.verify.border.inputs import all_dims
from assay.verify.border.onnx_words import own_strings

Array = np.ndarray[Any, Any]
ROWS = ((8,), (1, 8))
"""Sizes of symbolic dims of strings, the last for all that follow: some operators take one row only."""
FALLBACK = ("word", "another")
"""Words where the model has none."""


def drawn_texts(
    model: ModelProto, names: Sequence[str], given: Mapping[str, Any], dims: Mapping[str, int], seed: int
) -> Iterator[dict[str, Array]]:
    """Strings for inputs of these names, beside those that are given: what may be tried, in order. Nothing where no
    name is."""
    if not names:
        return
    try:
        types, called = declared_inputs(model.graph)
        sizes = all_dims(model, given, dims)
    except Invalid:
        return  # the import says what is wrong
    words = tuple(dict.fromkeys(w for text in own_strings(model) for w in text.split())) or FALLBACK
    for row in ROWS:
        for texts in (_sentences(words, seed), _numerals(seed)):
            made: dict[str, Array] = {}
            chosen = dict(sizes)
            for name in names:
                of = types[name]
                assert isinstance(of, TensorType)
                free = dict.fromkeys(called[d] for d in of.shape if isinstance(d, Var) and called[d] not in chosen)
                chosen |= {n: row[min(i, len(row) - 1)] for i, n in enumerate(free)}
                shape = [d if isinstance(d, int) else chosen[called[d]] for d in of.shape if isinstance(d, int | Var)]
                made[name] = np.array([next(texts) for _ in range(prod(shape))], np.str_).reshape(shape)
            yield made


def inputs_read(model: ModelProto) -> list[str]:
    """The inputs of strings without a default whose characters a node reads."""
    stored = {t.name for t in model.graph.initializer}
    return [n for n in text_names(model.graph.input) if n not in stored and reads_characters(model, n)]


def _sentences(words: Sequence[str], seed: int) -> Iterator[str]:
    """One word; several with what stands between words, in either case, twice, beside words that the model has not;
    nothing; one letter; letters that are not ASCII."""
    rng = np.random.default_rng([seed, 3])

    def some(most: int) -> list[str]:
        return [words[i] for i in rng.integers(0, len(words), most)]

    while True:
        yield some(1)[0]
        yield " ".join(some(4))
        yield ", ".join([*some(2), "unknown", *some(1)]).upper()
        yield ""
        yield f"{some(1)[0].capitalize()}-{some(1)[0]}.  {some(1)[0]}s!"
        yield "a"
        yield f"\u00e9t\u00e9 {some(1)[0]} 3.5"
        yield " ".join([some(1)[0]] * 3)


def _numerals(seed: int) -> Iterator[str]:
    rng = np.random.default_rng([seed, 4])
    while True:
        yield str(rng.integers(-9, 10))
