"""Functions that the user writes and a model calls (specs/lower.md, "c").

An extern of the model is one C function with one prototype, which the header declares and describes. It takes a pointer
for each buffer, a number for each scalar, a text for each string, and where the model wants a number back, a pointer
for that; it returns a status.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from assay.lower.c.names import RESERVED, ScopeNames, comment, quote
from assay.semantics.errors import Invalid, Span, Unsupported


@dataclass(frozen=True)
class ExternParameter:
    """A parameter of an extern: its C type, a name like it, and what is handed over, for the header."""

    type: str
    name: str
    about: str

    @property
    def declaration(self) -> str:
        """The C declaration of the parameter, type and name."""
        return f"{self.type}{'' if self.type.endswith('*') else ' '}{self.name}"


@dataclass
class Extern:
    """A function of the user's: its names in the model and in C, and what each call of it in the text hands over."""

    name: str
    c: str
    parameters: tuple[ExternParameter, ...]
    uses: dict[str, None] = field(default_factory=dict)

    @property
    def prototype(self) -> str:
        """The C prototype of the function, which returns an int status."""
        return f"int {self.c}({', '.join(p.declaration for p in self.parameters) or 'void'});"


@dataclass
class Externs:
    """The externs of a model, in the order of their first call. `given` are names in C that the user has chosen."""

    prefix: str
    given: Mapping[str, str] = field(default_factory=dict)
    found: dict[str, Extern] = field(default_factory=dict)
    names: ScopeNames = field(default_factory=ScopeNames)

    def use(self, name: str, parameters: Sequence[ExternParameter], kernel: str, at: Span | None) -> str:
        """The C function of an extern that a kernel calls. Unsupported where another call hands over other C types."""
        known = self.found.get(name)
        if known is None:
            known = self.found[name] = Extern(name, self.choose(name), tuple(parameters))
        wanted, got = ([p.type for p in ps] for ps in (known.parameters, parameters))
        if wanted != got:
            raise Unsupported(
                f"{kernel} hands ({', '.join(got)}) to the extern {name}, another call ({', '.join(wanted)}): a"
                " function of C has one list of types; use two names, or hand over copies",
                where=at,
                label="c.C21",
            )
        known.uses[f"{kernel}: {', '.join(p.about for p in parameters) or 'nothing'}"] = None
        return known.c

    def choose(self, name: str) -> str:
        """The C name of an extern: the user's if one is given, else a fresh one. Invalid (`c.C22`) for a bad name."""
        if name not in self.given:
            return f"{self.prefix}_{self.names.fresh(f'extern_{name}')}"
        c = self.given[name]
        if not re.fullmatch(r"[A-Za-z]\w*", c, re.ASCII) or c in RESERVED or c.startswith(f"{self.prefix}_"):
            message = (
                f"{c!r} cannot be the C function of the extern {name}: an identifier without the prefix"
                f" {self.prefix}_ is"
            )
            raise Invalid(message, label="c.C22")
        return c

    def header(self, foreign: int) -> Iterator[str]:
        """The prototypes, with comments; `foreign` is the least status of the user's own."""
        if not self.found:
            return
        yield f"""
/* Externs, for you to write. Each is called where the model calls it, in the model's order. It returns 0, or a status
 * (of {foreign} or above, or below 0), which ends the run. A tensor is dense and row-major; bool is 0 or 1 in a byte;
 * what C has no numbers of is its bits. What is not const may be changed, and all of it counts as written afterwards;
 * what nobody wrote before has any contents. No pointer is good after the return, and none may be kept. */
"""
        for e in self.found.values():
            yield f"/* {quote(e.name)}\n"
            for use in e.uses:
                yield f" * {comment(use)}\n"
            yield f" */\n{e.prototype}\n"

    def listing(self) -> Iterator[str]:
        """The lines of the header's first comment."""
        if self.found:
            yield " * Externs:\n"
            for e in self.found.values():
                yield f" *   {e.c}: called {quote(e.name)}\n"


EXTERN = r' \*   (\w+): called (".*")'
"""The line of an extern there."""
