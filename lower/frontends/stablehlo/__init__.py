"""StableHLO, the portable language of JAX and XLA, as text (specs/lower.md, "StableHLO").

    module = parse_stablehlo(text, "model.mlir")

The text is what `jax.jit(f).lower(x).as_text()` prints, or what StableHLO's tests hold: the short and the generic form,
read without the libraries of MLIR.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import partial

from assay.semantics.errors import Invalid
from assay.semantics.module import Module

__all__ = ["is_stablehlo", "parse_stablehlo", "stablehlo_modules"]

_HEAD = re.compile(r'(?:[\s\ufeff]|//[^\n]*|#loc[^\n]*)*(?:module\b|"?builtin\.module\b|"?func\.func\b)')


def stablehlo_modules(text: str, source: str = "<string>") -> list[tuple[str, Callable[[], Module]]]:
    """The modules of a text, which lines of `// -----` divide: the name of each, and what makes it."""
    # what reads a file of another kind asks here how one begins, and needs none of this
    from assay.lower.frontends.places import Places
    from assay.lower.frontends.stablehlo.reader import module_texts
    from assay.lower.frontends.stablehlo.translate import to_module
    from assay.semantics.text.source import Source

    places = Places(Source.of(text, source))
    found = module_texts(places)
    return [(m.name or str(k + 1), partial(to_module, m, places)) for k, m in enumerate(found)]


def parse_stablehlo(text: str, source: str = "<string>", name: str | None = None) -> Module:
    """The module that a text holds: `name` is its name or its number, from 1, where there are several. Invalid or
    Unsupported, with the place and its line, where it is none."""
    found = stablehlo_modules(text, source)
    if name is None and len(found) == 1:
        return found[0][1]()
    wanted = [made for k, (own, made) in enumerate(found) if name in (own, str(k + 1))]
    if not wanted:
        names = f"1 to {len(found)}" if len(found) > 1 else found[0][0]
        raise Invalid(f"{source} has the modules {names}; say which by --module", label="stablehlo.C5")
    return wanted[0]()


def is_stablehlo(text: str) -> bool:
    """Whether a text begins as StableHLO does: with a module or a function, after comments."""
    return _HEAD.match(text) is not None
