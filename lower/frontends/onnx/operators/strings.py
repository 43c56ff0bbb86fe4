"""Strings of ONNX as numbers (specs/lower.md, "Import").

The language has no strings. A caller that hands in `Strings`, a table of numbers for strings, gets a module in which a
tensor of strings is one of int64: equal strings have equal numbers. So what moves strings, compares them or looks them
up is translated for all strings. What reads their characters is computed at import, for the strings that the caller
says the inputs hold; the module asserts that they do.
"""

from __future__ import annotations

import re
import string
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
from onnx import GraphProto, ModelProto, NodeProto, TensorProto

from assay.lower.frontends.onnx.contrib import DOMAIN
from assay.lower.frontends.onnx.control import reads
from assay.lower.frontends.onnx.dynamic_shapes import MOST_TEXTS
from assay.lower.frontends.onnx.inner_nodes import nodes_of, nodes_of_model
from assay.lower.frontends.onnx.node import Node, Refused, Result, Rule
from assay.lower.frontends.onnx.reading import domain_of
from assay.semantics.graph import Expr

Array = np.ndarray[Any, Any]

# --- what moves strings -------------------------------------------------------------------------------------------

MOVES = frozenset(
    "ArrayFeatureExtractor Compress Concat DepthToSpace Expand Flatten Gather GatherElements GatherND Identity OneHot"
    " Reshape ReverseSequence Scatter ScatterElements ScatterND Slice SpaceToDepth Split Squeeze Tile Transpose"
    " Unsqueeze Where".split()
)
"""Operators that give elements of their operands: the rule for numbers serves."""

READS = frozenset("CategoryMapper Equal LabelEncoder OneHotEncoder Shape Size TfIdfVectorizer".split())
"""Operators that give no strings, but may be given some: the rule for numbers serves."""


# --- what reads their characters ----------------------------------------------------------------------------------


STRINGS = "which strings there are"
FLOAT = re.compile(r"[+-]?(([0-9]+([.][0-9]*)?|[.][0-9]+)(e[+-]?[0-9]+)?|inf)|nan", re.ASCII | re.IGNORECASE)
INTEGER = re.compile(r"[+-]?[0-9]+", re.ASCII)
"""Numerals that the standard says a Cast takes."""


def _known(node: Node, index: int) -> Array:
    return node.strings.texts(node.known(index, MOST_TEXTS, decides=STRINGS))


def _elementwise(of: Any, f: Callable[[str], Any], x: Array) -> Array:
    return np.array([f(s) for s in x.reshape(-1)], of).reshape(x.shape)


def cast_from(node: Node) -> Expr:
    """A number in plain or scientific representation, or INF, +INF, -INF or NaN in any case: of anything else the
    standard says nothing."""
    if node.attrs["to"] == TensorProto.STRING:
        return node.text(node[0])
    of = node.dtype("to")
    kind, number, numeral = (np.float64, float, FLOAT) if of.is_float else (object, int, INTEGER)
    x = _known(node, 0)
    for s in x.reshape(-1):
        if not numeral.fullmatch(s):
            raise node.wrong(f"{s!r} is no {'number' if of.is_float else 'whole number'} in plain representation")
    return node.constant(_elementwise(kind, number, x), of)


def concat(node: Node) -> Expr:
    """Translate StringConcat of known strings, which broadcast. Invalid if their shapes do not."""
    try:
        joined = np.asarray(_known(node, 0) + _known(node, 1), object)
    except ValueError as wrong:
        raise node.wrong(str(wrong)) from None
    return node.text(node.constant(node.strings.numbers(joined)))


def split(node: Node) -> Sequence[Expr]:
    """The parts, filled up with empty strings to as many as the longest has, and how many each has. Without a delimiter
    whitespace at either end is left out, of the part that is not split any further too."""
    x, most, delimiter = _known(node, 0), node.attrs["maxsplit"], node.attrs["delimiter"] or None
    whole = [s if delimiter else s.strip() for s in x.reshape(-1)]
    if delimiter and "" in whole:
        node.leaves_open("how many parts an empty string has")
    if not delimiter and (odd := {c for s in x.reshape(-1) for c in s if c.isspace() and c not in string.whitespace}):
        node.leaves_open(f"whether {min(odd)!r} is whitespace")
    parts = [s.split(delimiter, -1 if most is None else most) for s in whole]
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
    if action != "NONE" or same is not str:
        _leave_case_open(node, [*x.reshape(-1), *(node.attrs["stopwords"] or ())])
    kept = [cases[action](s) for s in x.reshape(-1) if same(s) not in stops] or [""]
    return node.text(node.constant(node.strings.numbers(np.array(kept, object).reshape((1,) * (x.ndim - 1) + (-1,)))))


def _leave_case_open(node: Node, texts: Sequence[str]) -> None:
    """By what locale the case changes the environment decides: of a letter that has another number of letters in the
    other case, or another at the end of a word or in Turkish, the standard does not say what it becomes."""
    turkish = (node.attrs["locale"] or "").lower()[:2] in ("tr", "az", "lt")
    for c in sorted({c for text in texts for c in text}):
        if c in SIGMA or len(c.lower()) != 1 or len(c.upper()) != 1 or (turkish and c in "Ii"):
            node.leaves_open(f"what {c!r} is in the other case")
            return


SIGMA = "\u03a3\u03c2"


def regular(node: Node, attribute: str, pattern: str, longest: bool = False) -> Any:
    """A regular expression of RE2, which finds the first match that Perl would find, or the longest one."""
    try:
        import re2
    except ImportError:
        what = "google-re2, whose regular expressions these are, is not installed; pip install 'assay[strings]'"
        raise node.unsupported(what) from None
    options = re2.Options()
    options.longest_match, options.log_errors = longest, False
    try:
        return re2.compile(pattern, options)
    except re2.error as wrong:
        said = wrong.args[0]
        said = said.decode(errors="replace") if isinstance(said, bytes) else said
        raise node.wrong(f"{attribute} is {pattern!r}, no regular expression of RE2: {said}") from None


def full_match(node: Node) -> Expr:
    """Whether a regular expression of RE2 matches the whole of a string."""
    pattern = regular(node, "pattern", node.attrs["pattern"] or "")
    return node.constant(_elementwise(np.bool_, lambda s: pattern.fullmatch(s) is not None, _known(node, 0)))


START, END = "\x02", "\x03"
"""What marks the first and the last token of a string."""


def tokenize(node: Node) -> Expr:
    """Translate Tokenizer: the tokens of each string, filled up behind with pad_value to as many as the longest has.
    Where there is none in any string there are no marks either, and what has no elements stays as it is."""
    x = _known(node, 0)
    if x.ndim not in (1, 2):
        raise node.wrong(f"X has the shape {x.shape}; a vector or rows are wanted")
    tokens_of = _tokens(node)
    found = [list(tokens_of(s)) for s in x.reshape(-1)]
    if not x.size:
        return node.text(node.constant(node.strings.numbers(x)))
    if node.attrs["mark"] and any(found):
        found = [[START, *tokens, END] for tokens in found]
    width = max(map(len, found))
    filled = [tokens + [node.attrs["pad_value"]] * (width - len(tokens)) for tokens in found]
    return node.text(node.constant(node.strings.numbers(np.array(filled, object).reshape(*x.shape, width))))


def _tokens(node: Node) -> Callable[[str], Iterator[str]]:
    """What gives the tokens of a string: its characters; what an expression matches, as much as it can, one match
    behind the other; or what lies between separators, of which each divides what those before it have left. No token
    has fewer characters than mincharnum, and none is empty."""
    separators, wanted, least = (node.attrs[a] for a in ("separators", "tokenexp", "mincharnum"))
    if (separators is None) == (wanted is None):
        raise node.wrong("one of separators and tokenexp is wanted, and not both")
    if least < 1 or wanted == "":
        raise node.wrong("mincharnum is to be at least 1, and tokenexp is not to be empty")
    if wanted == "." or list(separators or ()) == [""]:
        if least > 1:
            raise node.wrong(f"mincharnum is {least}, and each token is one character")
        return iter
    if wanted is not None:
        pattern = regular(node, "tokenexp", wanted, longest=True)
        return lambda s: (s[i:j] for i, j in _matches(pattern, s, 0, len(s)) if j - i >= least)
    dividers = [regular(node, "separators", p, longest=True) for p in separators]
    if empty := [p for p, d in zip(separators, dividers, strict=True) if d.fullmatch("")]:
        raise node.unsupported(f"the separator {empty[0]!r}, which matches the empty string")

    def divided(s: str) -> Iterator[str]:
        spans = [(0, len(s))]
        for divider in dividers:
            cuts = [(i, [*_matches(divider, s, i, j)], j) for i, j in spans]
            edges = [[i, *(e for cut in found for e in cut), j] for i, found, j in cuts]
            spans = [span for e in edges for span in zip(e[::2], e[1::2], strict=True) if span[1] - span[0] >= least]
        return (s[i:j] for i, j in spans)

    return divided


def _matches(pattern: Any, s: str, start: int, end: int) -> Iterator[tuple[int, int]]:
    """Where an expression matches, from left to right, without the matches that are empty."""
    while found := pattern.search(s, start, end):
        i, j = found.span()
        if j > i:
            yield i, j
        if (start := max(j, i + 1)) > end:
            return


def strings_rule(domain: str, name: str, rule: Rule | None) -> Rule | None:
    """The rule for a node of which an operand is strings; `rule` is the one for numbers."""
    if (domain, name) in TABLE:
        return TABLE[domain, name]
    if name in READS:
        return rule

    def moved(node: Node) -> Result | Sequence[Result]:
        moves = domain in ("", "ai.onnx.ml") and name in MOVES and node.attrs.get("reduction", "none") == "none"
        if rule is None or not moves:
            raise node.unsupported("strings are only moved, compared, looked up, split, joined, cleaned and matched")
        given = rule(node)
        for made in [given] if isinstance(given, (Expr, Refused)) else given:
            if isinstance(made, Expr):
                node.text(made)
        return given

    return moved


TABLE: dict[tuple[str, str], Rule] = {
    ("", "Cast"): cast_from,
    ("", "RegexFullMatch"): full_match,
    ("", "StringConcat"): concat,
    ("", "StringNormalizer"): normalize,
    ("", "StringSplit"): split,
    (DOMAIN, "Tokenizer"): tokenize,
}
"""The rules for operands that are strings, by domain and name."""
GIVE_NUMBERS = {("", "Cast"), ("", "RegexFullMatch")}
"""Those of them whose results are no strings."""


def makes_strings(model: ModelProto) -> bool:
    """Whether a node may make strings that are neither the model's nor given."""
    made = TABLE.keys() - GIVE_NUMBERS
    return any(_key(n) in made or _casts_to_strings(n) for n in nodes_of_model(model))


def _casts_to_strings(node: NodeProto) -> bool:
    return node.op_type == "Cast" and any(a.name == "to" and a.i == TensorProto.STRING for a in node.attribute)


def reads_characters(model: ModelProto, name: str) -> bool:
    """Whether a node reads the characters of strings that go in under this name: of a graph or a function inside it is
    enough that one is there."""
    held = {name}
    functions = {(domain_of(f.domain), f.name): f for f in model.functions}
    for node in model.graph.node:
        if held.isdisjoint(reads(node)):
            continue
        inner = [n for n in nodes_of(GraphProto(node=[node])) if n is not node]
        if any(_key(n) in TABLE for n in [node, *inner]):
            return True
        local = [f for n in [node, *inner] if (f := functions.get(_key(n)))]
        if any(_key(n) in TABLE for f in (local and model.functions) for n in nodes_of(GraphProto(node=f.node))):
            return True
        if inner or local or node.op_type in MOVES:
            held.update(node.output)
    return False


def _key(node: NodeProto) -> tuple[str, str]:
    return domain_of(node.domain), node.op_type
