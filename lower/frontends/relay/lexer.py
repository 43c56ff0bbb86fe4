"""The words of a Relay text (specs/lower.md, "Relay")."""

from __future__ import annotations

import re
from typing import NoReturn

from assay.lower.frontends.places import Places, Token
from assay.semantics.digits import MOST
from assay.semantics.errors import Invalid, Unsupported

_NAME = r"[A-Za-z_]\w*(?:/\w+)*"
_WORDS = re.compile(
    rf"""
    (?P<space>[ \t\r\n]+ | //[^\n]*)
  | (?P<comment>/\*)
  | (?P<attribute>\#\[)
  | (?P<local>%{_NAME}(?:\.\w+)*)
  | (?P<graph>%[0-9]+)
  | (?P<global>@[A-Za-z_][\w.]*(?:/\w+)*)
  | (?P<meta>meta\[\s*[\w.]+\s*\]\s*\[\s*[0-9]+\s*\])
  | (?P<float>(?:[0-9]+\.?[0-9]*(?:[eE][+-]?[0-9]+)?|inf|nan)f(?:[0-9]+)?(?!\w)
            | [0-9]+(?:\.[0-9]*(?:[eE][+-]?[0-9]+)?|[eE][+-]?[0-9]+)(?!\w))
  | (?P<int>[0-9]+(?:i[0-9]*)?(?!\w))
  | (?P<field>\.[0-9]+(?!\w))
  | (?P<name>match\? | {_NAME})
  | (?P<text>"(?:[^"\\\n]|\\.)*")
  | (?P<sign>->|=>|==|!=|<=|>=|[-+*/<>=,;:()\[\]{{}}?.])
    """,
    re.VERBOSE,
)
_LONG = re.compile(rf"[%.]?(?:[0-9]{{1,{MOST}}}\.)?[0-9]{{{MOST}}}|meta\[[^\]]{{0,100}}\]\[\s*[0-9]{{{MOST}}}")
_MARK = re.compile(r"/\*|\*/")

VERSIONS = ("0.0.4", "0.0.5")


def tokenized(places: Places) -> tuple[list[Token], str | None]:
    """The words of a text, closed by one of kind "end", and its section `metadata`, as JSON text."""
    tokens: list[Token] = []
    text = places.text
    at = _old_version(places)
    while at < len(text):
        if (long := _LONG.match(text, at)) is not None:  # before the words, which try each of its digits as its end
            raise places.failure(Invalid, at, long.end(), f"a number of more than {MOST} digits", "relay.C1")
        found = _WORDS.match(text, at)
        kind = found.lastgroup if found is not None else None
        if found is None or kind is None:
            _unknown(places, at)
        start, at = at, found.end()
        if kind == "comment":
            closed = _comment_end(text, start)
            if closed is None:
                message = "a comment has no end: */ is missing"
                raise places.failure(Invalid, start, start + 2, message, "relay.C1")
            at = closed
        elif kind == "attribute":
            end = text.find("]", at)
            said = text[at:end].strip() if end >= 0 else ""
            if said == "metadata":
                tokens.append(Token("end", "the end of the text", start, start))
                return tokens, text[end + 1 :]
            _version(places, start, max(end, at), said)
            at = end + 1
        elif kind != "space":
            tokens.append(Token(kind, found.group(), start, at))
    tokens.append(Token("end", "the end of the text", max(len(text.rstrip()), 0), len(text)))
    return tokens, None


def _old_version(places: Places) -> int:
    """Where the text goes on after a version as it was written first, such as v0.0.4."""
    found = re.match(r"\ufeff?\s*v([0-9]+\.[0-9]+\.[0-9]+)", places.text)
    if found is None:
        return int(places.text.startswith("\ufeff"))
    _require_version(places, found.group(1), found.start(1), found.end())
    return found.end()


def _require_version(places: Places, version: str, start: int, end: int) -> None:
    if version not in VERSIONS:
        message = f"version {version} of the text format; {' and '.join(VERSIONS)} are read"
        raise places.failure(Unsupported, start, end, message, "relay.C2")


def _unknown(places: Places, at: int) -> NoReturn:
    shown = places.text[at]
    message = "a text has no end: a quotation mark is missing" if shown == '"' else f"{shown!r} is no part of Relay"
    raise places.failure(Invalid, at, at + 1, message, "relay.C1")


def _comment_end(text: str, start: int) -> int | None:
    """Where a comment ends; they nest. None where it does not."""
    depth = 0
    for mark in _MARK.finditer(text, start):
        depth += 1 if mark.group() == "/*" else -1
        if depth == 0:
            return mark.end()
    return None


def first_word(text: str) -> int:
    """Where a text goes on after spaces and comments; its end where there is nothing else."""
    at = 0
    while found := re.compile(r"[\s\ufeff]+|//[^\n]*|/\*").match(text, at):
        at = (_comment_end(text, at) or len(text)) if found.group() == "/*" else found.end()
    return at


def _version(places: Places, start: int, end: int, said: str) -> None:
    found = re.fullmatch(r'version\s*=\s*"([^"]*)"', said)
    if found is None:
        message = f'#[{said}] is not known; #[version = "0.0.5"] and #[metadata] are'
        raise places.failure(Invalid, start, end + 1, message, "relay.C1")
    _require_version(places, found.group(1), start, end + 1)
