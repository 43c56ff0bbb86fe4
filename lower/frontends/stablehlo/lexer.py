"""The words of a StableHLO text (specs/lower.md, "StableHLO")."""

from __future__ import annotations

import re

from assay.lower.frontends.places import Places, Token
from assay.semantics.digits import MOST
from assay.semantics.errors import Invalid

MOST_WORDS = 1 << 22
"""A text of more words is refused; the numbers of a `dense<...>` are one word."""

_WORDS = re.compile(
    r"""
    (?P<split>//[ ]-----[^\n]*)
  | (?P<space>(?:[ \t\r\n\ufeff]+ | //(?![ ]-----)[^\n]*)+)
  | (?P<dense>dense<(?:"[^"\n]*"|[^"<>]*)>)
  | (?P<tensor>tensor<(?:\*x|(?:(?:\?|[0-9]+)x)*))
  | (?P<value>%[A-Za-z0-9_$.-]+(?:\#[0-9]+)?)
  | (?P<symbol>@(?:[A-Za-z0-9_$.-]+|"(?:[^"\\\n]|\\.)*"))
  | (?P<block>\^[A-Za-z0-9_$.-]+)
  | (?P<attribute>\#[A-Za-z_][\w$.-]*)
  | (?P<alias>![A-Za-z_][\w$.-]*)
  | (?P<text>"(?:[^"\\\n]|\\.)*")
  | (?P<number>-?(?:0x[0-9A-Fa-f]+|[0-9]+(?:\.[0-9]*(?:[eE][+-]?[0-9]+)?)?))
  | (?P<name>[A-Za-z_][\w$.]*)
  | (?P<sign>->|::|[-+*/?|=,:;<>()\[\]{}])
    """,
    re.VERBOSE,
)
_LONG = re.compile(rf"-?[0-9]{{{MOST}}}|[%\#@\w.]*\#[0-9]{{{MOST}}}")


def hlo_words(places: Places) -> list[Token]:
    """The words of a text, then one of kind `end`. Invalid (`stablehlo.C1`) where it is none of the language."""
    text, tokens, at = places.text, [], 0
    while at < len(text):
        found = _WORDS.match(text, at)
        if found is None or found.lastgroup is None:
            shown = text[at]
            message = f"{shown!r} is no part of StableHLO"
            if shown == '"' or text.startswith("dense<", at):
                message = "a text or dense<...> has no end on its line"
            raise places.failure(Invalid, at, at + 1, message, "stablehlo.C1")
        kind, start, at = found.lastgroup, at, found.end()
        if kind == "space":
            continue
        if kind in ("number", "value", "tensor") and at - start >= MOST and _LONG.search(text, start, at):
            raise places.failure(Invalid, start, at, f"a number of more than {MOST} digits", "stablehlo.C1")
        tokens.append(Token(kind, found.group(), start, at))
        if len(tokens) > MOST_WORDS:
            raise places.failure(Invalid, start, at, f"a text of more than {MOST_WORDS:,} words", "stablehlo.C2")
    tokens.append(Token("end", "the end of the text", max(len(text.rstrip()), 0), len(text)))
    return tokens
