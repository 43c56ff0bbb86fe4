"""Passages for several words that are the name of nothing (specs/verify.md, "explain").

A word finds words that begin as it does, or with which it begins (`infinity` finds `inf`). Rare words count more than
frequent ones, words of a name more than those of a text, and short texts more than long ones.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache, cached_property
from math import log

from assay.semantics.ops import OPERATORS
from assay.verify.explain.chapters import page_text, passages

SMALL = frozenset("""
    a an and are as at be by can do does for from happens how if in into is it its mean means of on or out than that the
    to what when where which who why with
""".split())  # fmt: skip
"""Words that say nothing of what is looked for."""
MOST_FOUND = 5
ENOUGH = 0.5
"""How much of the weight of all words that are asked for must be found in a passage."""
NAMED, EXACT = 2.0, 4.0
"""How much more a word of a name counts, and one that is the whole word that is asked for."""
NUMBERED = re.compile(r"[\w.]*\.?[A-Z]\d+(\.\d+)?[a-z]?")
"""The name of a rule or of a label; one that is none, such as M7.99, is not looked for by its parts."""
SHORTEST = 3
"""Letters of a beginning that is taken for the word."""
SAME = {
    "empty": ("elements",), "range": ("bounds",), "precision": ("wider", "accuracy", "bound"), "bfloat16": ("bits",),
    "uninitialized": ("undefined", "written"), "gather": ("take",), "order": ("ties",), "ties": ("order", "equal"),
    "accumulate": ("sum", "order"), "float": ("rounds",), "negative": ("sign",),
}  # fmt: skip
"""Words of people for which others stand in the chapters."""
TOLD_OF_OPERATORS = ("Special values", "Errors", "Accuracy", "Restrictions")


@dataclass(frozen=True)
class Searched:
    """What may be found: its kind, its name, its place and its text; `called` are further names."""

    kind: str
    name: str
    where: str
    text: str
    called: str = ""

    @cached_property
    def names(self) -> frozenset[str]:
        """The words of its names."""
        return frozenset(_words(f"{self.name} {self.called}"))

    @cached_property
    def words(self) -> frozenset[str]:
        """All its words."""
        return self.names | frozenset(_words(self.text))


def search(asked: str) -> list[Searched]:
    """The passages that have most of several words, the best first; of a single word `_called`;
    none for a rule's number."""
    wanted = [w for w in dict.fromkeys(_words(asked)) if w not in SMALL]
    if not wanted or NUMBERED.fullmatch(asked.strip()):
        return []
    if len(wanted) == 1:
        return _called(wanted[0], asked)
    every = _all()
    weights = {w: log(len(every) / (1 + sum(_has(p.words, w) for p in every))) for w in wanted}
    least = ENOUGH * sum(weights.values())
    scored = [(score, p) for p in every if (score := _score(p, weights, least)) > 0]
    best: dict[tuple[str, str], Searched] = {}  # a row stands under each of its names
    for _, p in sorted(scored, key=lambda s: -s[0]):
        best.setdefault((p.where, p.text), p)
    return list(best.values())[:MOST_FOUND]


def _called(wanted: str, asked: str) -> list[Searched]:
    """The passages with a name that has a word, or one of its forms, the shortest names first; where there is none,
    those with such a text."""
    if not asked.strip().isalpha() or len(wanted) <= SHORTEST:
        return []
    stem = _stem(wanted)

    def has(words: frozenset[str]) -> bool:
        return any(w.startswith(stem) for w in words)

    found = [p for p in _all() if has(p.names)] or [p for p in _all() if has(p.words)]
    best: dict[tuple[str, str], Searched] = {}
    for p in sorted(found, key=lambda p: (wanted not in p.names, len(p.name))):
        best.setdefault((p.where, p.text), p)
    return list(best.values())[:MOST_FOUND]


def _score(p: Searched, weights: dict[str, float], least: float) -> float:
    found = {w: v for w, v in weights.items() if _has(p.words, w)}
    if sum(found.values()) < least:
        return 0.0
    worth = sum(v * (EXACT if w in p.names else NAMED if _has(p.names, w) else 1.0) for w, v in found.items())
    return worth / log(40 + len(p.words))


@cache
def _all() -> Sequence[Searched]:
    kinds = {"row": "word"}
    found = [Searched(kinds.get(p.kind, p.kind), p.name, p.where, p.text) for p in passages()]
    return [*_operators(), *(p for p in found if p.kind != "section" or len(p.text) < 3000)]


def _operators() -> Iterator[Searched]:
    """What the page of each operator says of special values, errors and accuracy."""
    for op in OPERATORS.values():
        page = page_text(f"operators/{op.name}.md")
        parts = re.split(r"^(?=## )", page, flags=re.MULTILINE)
        told = [p.strip() for p in parts[1:] if p.startswith(tuple(f"## {t}" for t in TOLD_OF_OPERATORS))]
        text = "\n\n".join([op.doc, *told])
        yield Searched("operator", op.name, f"specs/operators/{op.name}.md", text, f"{op.onnx} {op.relax}")


def _words(text: str) -> list[str]:
    return re.findall(r"[a-z]+|\d+", re.sub(r"(?<=[a-z])(?=[A-Z])", " ", text.replace("NaN", "nan")).lower())


def _has(words: frozenset[str], wanted: str) -> bool:
    return not words.isdisjoint(_alike(wanted))


@cache
def _alike(wanted: str) -> frozenset[str]:
    """The words of all passages that are taken for a word; one look through them serves every passage."""
    stem, same = _stem(wanted), (wanted, *SAME.get(wanted, ()))
    return frozenset(w for w in _vocabulary() if w in same or w.startswith(stem) or _begins(wanted, w))


@cache
def _vocabulary() -> frozenset[str]:
    return frozenset().union(*(p.words for p in _all()))


def _begins(wanted: str, word: str) -> bool:
    return len(word) >= SHORTEST and word not in SMALL and wanted.startswith(word)


def _stem(word: str) -> str:
    """A word without its ending, so that `rounding` finds `rounds`."""
    return re.sub(r"(ing|ed|es|s)$", "", word) if len(word) > 5 else word
