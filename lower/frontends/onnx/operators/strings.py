"""Strings of ONNX as numbers (specs/lower.md, "Import").

The language has no strings. A caller that hands in `Strings`, a table of numbers for strings, gets a module in which a
tensor of strings is one of int64: equal strings have equal numbers. So what moves strings, compares them or looks them
up is translated for all strings. What reads their characters is computed at import, for the strings that the caller
says the inputs hold; the module asserts that they do.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from onnx import TensorProto

from assay.lower.frontends.onnx.node import Node, Refused, Result, Rule
from assay.semantics.graph import Expr

Array = np.ndarray[Any, Any]

# --- what moves strings -------------------------------------------------------------------------------------------

MOVES = frozenset(
    "Compress Concat DepthToSpace Expand Flatten Gather GatherElements GatherND Identity Reshape ReverseSequence"
    " Scatter ScatterElements ScatterND Slice SpaceToDepth Split Squeeze Tile Transpose Unsqueeze Where".split()
)
"""Operators that give elements of their operands: the rule for numbers serves."""

READS = frozenset("CategoryMapper Equal LabelEncoder OneHotEncoder Shape Size TfIdfVectorizer".split())
"""Operators that give no strings, but may be given some: the rule for numbers serves."""


# --- what reads their characters ----------------------------------------------------------------------------------


STRINGS = "which strings there are"


def _known(node: Node, index: int) -> Array:
    return node.strings.texts(node.known(index, decides=STRINGS))


def _elementwise(of: Any, f: Callable[[str], Any], x: Array) -> Array:
    return np.array([f(s) for s in x.reshape(-1)], of).reshape(x.shape)


def cast_from(node: Node) -> Expr:
    """A number as Python reads it, INF and NaN in any case included."""
    if node.attrs["to"] == TensorProto.STRING:
        return node.text(node[0])
    of = node.dtype("to")
    try:
        kind, number = (np.float64, float) if of.is_float else (object, int)
        return node.constant(_elementwise(kind, number, _known(node, 0)), of)
    except ValueError as wrong:
        raise node.wrong(f"a string is no number: {wrong}") from None


def concat(node: Node) -> Expr:
    """Translate StringConcat of known strings, which broadcast. Invalid if their shapes do not."""
    try:
        joined = np.asarray(_known(node, 0) + _known(node, 1), object)
    except ValueError as wrong:
        raise node.wrong(str(wrong)) from None
    return node.text(node.constant(node.strings.numbers(joined)))


def split(node: Node) -> Sequence[Expr]:
    """The parts, filled up with empty strings to as many as the longest has, and how many each has."""
    x, most = _known(node, 0), node.attrs["maxsplit"]
    parts = [s.split(node.attrs["delimiter"] or None, -1 if most is None else most) for s in x.reshape(-1)]
    width = max(map(len, parts), default=0)
    filled = np.array([p + [""] * (width - len(p)) for p in parts], object).reshape(*x.shape, width)
    counts = np.array([len(p) for p in parts], np.int64).reshape(x.shape)
    return [node.text(node.constant(node.strings.numbers(filled))), node.constant(counts)]


def normalize(node: Node) -> Expr:
    """The elements that are no stop words, in lower or upper case by Unicode's rules whatever the locale; one empty
    string where none is left."""
    x = _known(node, 0)
    if x.ndim not in (1, 2) or (x.ndim == 2 and x.shape[0] != 1):
        raise node.wrong(f"X has the shape {x.shape}; a vector or one row is wanted")
    cases: Mapping[str, Callable[[str], str]] = {"NONE": str, "LOWER": str.lower, "UPPER": str.upper}
    action = node.attrs["case_change_action"]
    if action not in cases:
        raise node.wrong(f"case_change_action is {action!r}; one of {', '.join(cases)} is wanted")
    same = str if node.attrs["is_case_sensitive"] else str.lower
    stops = {same(s) for s in node.attrs["stopwords"] or ()}
    kept = [cases[action](s) for s in x.reshape(-1) if same(s) not in stops] or [""]
    return node.text(node.constant(node.strings.numbers(np.array(kept, object).reshape((1,) * (x.ndim - 1) + (-1,)))))


def full_match(node: Node) -> Expr:
    """By Python's regular expressions over ASCII classes, which agree with RE2 where both have a form."""
    try:
        pattern = re.compile(node.attrs["pattern"] or "", re.ASCII)
    except re.error as wrong:
        raise node.unsupported(f"the pattern {node.attrs['pattern']!r}: {wrong}") from None
    return node.constant(_elementwise(np.bool_, lambda s: pattern.fullmatch(s) is not None, _known(node, 0)))


def strings_rule(domain: str, name: str, rule: Rule | None) -> Rule | None:
    """The rule for a node of which an operand is strings; `rule` is the one for numbers."""
    if domain == "" and name in TABLE:
        return TABLE[name]
    if name in READS:
        return rule

    def moved(node: Node) -> Result | Sequence[Result]:
        if rule is None or domain or name not in MOVES or node.attrs.get("reduction", "none") != "none":
            raise node.unsupported("strings are only moved, compared, looked up, split, joined, cleaned and matched")
        given = rule(node)
        for made in [given] if isinstance(given, (Expr, Refused)) else given:
            if isinstance(made, Expr):
                node.text(made)
        return given

    return moved


TABLE: dict[str, Rule] = {
    "Cast": cast_from,
    "RegexFullMatch": full_match,
    "StringConcat": concat,
    "StringNormalizer": normalize,
    "StringSplit": split,
}
"""The rules for operands that are strings."""
