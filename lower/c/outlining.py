"""The text of the entry in functions of bounded size (specs/lower.md, "c").

A compiler takes more than twice the time for a function of twice the size. Where the entry has more than LARGEST steps,
stretches of it are functions of their own, `NAME_part_0` and on, which are handed what they use in one structure; what
is nested deeper than NESTED is one too.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

LARGEST = 64
"""Steps, or calls of parts, in one function."""
NESTED = 60
"""Blocks inside one another, all of which a C99 compiler takes."""

_NO_CODE = re.compile(r'/\*.*?\*/|"(?:[^"\\]|\\.)*"', re.DOTALL)


@dataclass(frozen=True)
class Piece:
    """Lines that stay together: how many steps or calls of parts, and how many blocks inside one another."""

    text: str
    steps: int = 1
    depth: int = 0


@dataclass
class OutlinedFunctions:
    """The parts of one entry. `locals` are the names that the entry knows, with their C types."""

    name: str
    macro: str
    locals: Mapping[str, str]
    functions: list[str] = field(default_factory=list)
    used: dict[str, None] = field(default_factory=dict)
    """The locals that some part uses: the members of the structure."""

    def joined(self, pieces: Iterable[Piece]) -> Piece:
        """The pieces one after another, as parts where they are too many for one function."""
        left = list(pieces)
        while sum(p.steps for p in left) > LARGEST:
            groups: list[list[Piece]] = [[]]
            for piece in left:
                if groups[-1] and sum(p.steps for p in groups[-1]) + piece.steps > LARGEST:
                    groups.append([])
                groups[-1].append(piece)
            left = [self.part(group) for group in groups]
        return Piece("".join(p.text for p in left), sum(p.steps for p in left), max((p.depth for p in left), default=0))

    def inside(self, head: str, pieces: Iterable[Piece], tail: str) -> Piece:
        """The pieces in a block of their own, between two lines."""
        body = self.joined(pieces)
        if body.depth >= NESTED:
            body = self.part([body])
        return Piece(head + indented(body.text) + tail, body.steps + 1, body.depth + 1)

    def part(self, pieces: Iterable[Piece]) -> Piece:
        """A call of a function with these pieces."""
        text = "".join(p.text for p in pieces)
        words = self.mentioned(text)
        self.used.update(dict.fromkeys(words))
        name = f"{self.name}_part_{len(self.functions)}"
        known = "".join(f"    {spelled(self.locals[w], w)} = state->{w};\n" for w in words)
        known += "" if words else "    (void)state;\n"
        head = f"static {self.macro}_APART int {name}(const struct {self.name}_state *state)\n{{\n"
        self.functions.append(f"\n{head}{known}    int status = {self.macro}_OK;\n{text}    return status;\n}}\n")
        return Piece(f"    if (status == {self.macro}_OK) {{\n        status = {name}(state);\n    }}\n")

    def mentioned(self, text: str) -> list[str]:
        """The locals that a text uses, in their order."""
        found = set(re.findall(r"\w+", _NO_CODE.sub(" ", text)))
        return [w for w in self.locals if w in found]

    def state(self) -> str:
        """The structure that the parts are handed."""
        members = "".join(f"    {spelled(self.locals[w], w)};\n" for w in self.locals if w in self.used)
        empty = "    char nothing;\n"
        return f"\nstruct {self.name}_state {{\n{members or empty}}};\n"

    def handed(self) -> str:
        """The entry's lines that fill the structure; empty where there are no parts."""
        if not self.functions:
            return ""
        values = ", ".join(w for w in self.locals if w in self.used) or "0"
        made = f"    const struct {self.name}_state all = {{{values}}};\n"
        return f"{made}    const struct {self.name}_state *const state = &all;\n"


def spelled(type_: str, name: str) -> str:
    """A declaration of a name that does not change, of a pointer type."""
    return f"{type_}const {name}"


def indented(text: str) -> str:
    """The lines one block further inside."""
    return "".join(f"    {line}\n" if line else "\n" for line in text.splitlines())


def noinline(macro: str) -> str:
    """The macro before functions that stay by themselves."""
    return f"""
/* Functions that stay by themselves: in one, they would be too much for a compiler. */
#ifndef {macro}_APART
#if defined(__GNUC__)
#define {macro}_APART __attribute__((noinline))
#elif defined(_MSC_VER)
#define {macro}_APART __declspec(noinline)
#else
#define {macro}_APART
#endif
#endif
"""
