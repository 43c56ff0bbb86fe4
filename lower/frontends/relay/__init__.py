"""Relay, the older graph language of TVM, as text (row R26; specs/lower.md, "Relay").

    module = parse_relay(text, "bug.relay")

The text is what `mod.astext()` printed up to TVM 0.19, or what its tests write by hand. It means here what Relay's
operators mean; what has no meaning here is refused by name. A dim `?` is a size that a run tells, and two of them are
never taken for equal: where Relay wants equal sizes, the run checks them.
"""

from __future__ import annotations

from assay.lower.frontends.relay.lexer import first_word
from assay.lower.frontends.relay.parser import syntax_tree
from assay.lower.frontends.relay.translate import translate
from assay.semantics.module import Module
from assay.semantics.text.source import Source

__all__ = ["is_relay", "parse_relay"]


def parse_relay(text: str, source: str = "<string>") -> Module:
    """The module that a Relay text holds; Invalid or Unsupported, with the place and its line, where it is none.

    An expression or a function that stands alone becomes `main`; what it uses of the prelude is added.
    """
    place = Source.of(text, source)
    return translate(syntax_tree(place), place)


def is_relay(text: str) -> bool:
    """Whether a text begins as Relay does: with its version, a definition or a function, after comments."""
    starts = ("#[version", "v0.0.", "def @", "fn (", "fn(", "fn [", "free_var %", "type ", "extern type")
    return text.startswith(starts, first_word(text))
