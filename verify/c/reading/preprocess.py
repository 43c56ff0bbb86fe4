"""The text of a C file under one configuration of its macros (specs/verify.md, "c").

A preprocessor for what generated files use: conditions, macros with and without parameters, pragmas, includes. What
it does not know it refuses. Headers of the system are not read: the reader has its own meaning for the names that are
used.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import lru_cache

from assay.semantics.walk import Worklist

KNOWN_HEADERS = frozenset({"stddef.h", "stdint.h", "string.h", "math.h"})
MOST_EXPANSIONS = 20
"""How often one line is expanded again; more is refused."""

_COMMENT = re.compile(r'/\*.*?\*/|//[^\n]*|"(?:[^"\\\n]|\\.)*"', re.DOTALL)
_WORD = re.compile(r'"(?:[^"\\]|\\.)*"|(?<![\w.])[A-Za-z_]\w*')
_DIRECTIVE = re.compile(r"\s*#\s*(\w+)\s*(.*)")
_DEFINE = re.compile(r"(\w+)(\(([\w\s,]*)\))?\s*(.*)")
_DEFINED = re.compile(r"defined\s*\(\s*(\w+)\s*\)|defined\s+(\w+)")
_NOT = re.compile(r"!\s*(\d+)")
_CONDITION = re.compile(r"(?:\d+|and|or|[<>=!]=|[<>()\s])*")


class NotRead(Exception):
    """What the reader of C does not take, or what it found to be otherwise; nothing is shown of it."""


class Differs(NotRead):
    """What the text is certain to do otherwise than the program: another place, or another constant."""


class NoConfiguration(NotRead):
    """The file itself refuses a configuration of macros: #error."""


@dataclass(frozen=True)
class _Macro:
    body: str
    params: tuple[str, ...] | None = None


@dataclass
class Preprocessor:
    """Reads one file. `files` are the headers beside it, by name; `macros` those that are defined before."""

    files: Mapping[str, str]
    macros: dict[str, _Macro] = field(default_factory=dict)
    pragmas: list[tuple[int, str]] = field(default_factory=list)
    """The pragmas, each with the number of lines of text before it."""
    asked: set[str] = field(default_factory=set)
    """The names that conditions were about."""

    def define(self, name: str, value: str = "1") -> None:
        """Define a macro, as an option of a compiler does."""
        self.macros[name] = _Macro(value)

    def run(self, text: str) -> str:
        """The text with every directive followed and every macro put in."""
        made: list[str] = []
        taken: list[list[bool]] = []
        """Of each condition around: whether this part of it is read, and whether one was."""
        pending = Worklist(_lines(text))
        for line in pending:
            found = _DIRECTIVE.fullmatch(line) if "#" in line else None
            if found is not None and self.condition(found[1], found[2], taken):
                continue
            if taken and not all(part[0] for part in taken):
                continue
            if found is not None:
                pending.add(self.directive(found[1], found[2], len(made)))
            elif line.strip():
                made.append(self.expanded(line))
        if taken:
            raise NotRead("a condition of the preprocessor does not end")
        return "\n".join(made) + "\n"

    def condition(self, word: str, rest: str, taken: list[list[bool]]) -> bool:
        """Follow a directive of a condition; False: it is none."""
        around = all(part[0] for part in taken)
        match word:
            case "if" | "ifdef" | "ifndef":
                holds = around and (self.holds(rest) if word == "if" else self.is_defined(rest) == (word == "ifdef"))
                taken.append([holds, holds])
            case "elif":
                outside = all(part[0] for part in taken[:-1])
                now = outside and not taken[-1][1] and self.holds(rest)
                taken[-1] = [now, taken[-1][1] or now]
            case "else":
                taken[-1] = [not taken[-1][1], True]
            case "endif":
                taken.pop()
            case _:
                return False
        return True

    def is_defined(self, name: str) -> bool:
        """Whether a macro is defined."""
        self.asked.add(name.strip())
        return name.strip() in self.macros

    def holds(self, text: str) -> bool:
        """Whether the condition of an #if holds."""
        text = _DEFINED.sub(lambda m: "1" if self.is_defined(m[1] or m[2]) else "0", text)
        self.asked.update(m[0] for m in _WORD.finditer(text))
        text = re.sub(r"\b(\d+)[uUlL]+\b", r"\1", self.expanded(text))
        text = re.sub(r"(?<![\w.])[A-Za-z_]\w*", "0", text)
        text = _NOT.sub(lambda m: "0" if int(m[1]) else "1", text)
        text = text.replace("&&", " and ").replace("||", " or ").strip()
        if _CONDITION.fullmatch(text) is None:
            raise NotRead(f"a condition of the preprocessor is not read: {text[:80]}")
        try:
            return bool(eval(text, {"__builtins__": {}}))  # numbers, comparisons, and, or: nothing else got here
        except SyntaxError:
            raise NotRead(f"a condition of the preprocessor is not read: {text[:80]}") from None

    def directive(self, word: str, rest: str, at: int) -> tuple[str, ...]:
        """Follow a directive; the lines that stand for it."""
        match word:
            case "define":
                found = _DEFINE.fullmatch(rest)
                if found is None or found[1] in self.macros and self.macros[found[1]].body != found[4]:
                    raise NotRead(f"a macro is not read: {rest[:80]}")
                params = None if found[2] is None else tuple(p.strip() for p in found[3].split(",") if p.strip())
                self.macros[found[1]] = _Macro(found[4].strip(), params)
            case "include":
                name = rest.strip()
                if name[1:-1] in self.files and name.startswith('"'):
                    return _lines(self.files[name[1:-1]])
                if name[1:-1] not in KNOWN_HEADERS or not name.startswith("<"):
                    raise NotRead(f"the header {name} is not known")
            case "pragma":
                self.pragmas.append((at, rest.strip()))
            case "error":
                raise NoConfiguration(f"this configuration is refused by the file: {rest}")
            case _:
                raise NotRead(f"the directive #{word} is not read")
        return ()

    def expanded(self, line: str) -> str:
        """A line with every macro put in."""
        for _ in range(MOST_EXPANSIONS):
            changed = self.once(line)
            if changed == line:
                return line
            line = changed
        raise NotRead(f"a macro names itself: {line[:80]}")

    def once(self, line: str) -> str:
        """A line with each macro that it names put in once."""
        if self.macros.keys().isdisjoint(_WORD.findall(line)):
            return line  # as nearly every one is
        made: list[str] = []
        at = 0
        for found in _WORD.finditer(line):
            macro = self.macros.get(found[0])
            if macro is None or found.start() < at:
                continue
            end, body = found.end(), macro.body
            if macro.params is not None:
                args, end = _arguments(line, end)
                if args is None:
                    continue
                given = dict(zip(macro.params, args, strict=True)) if macro.params else {}
                body = _WORD.sub(lambda m, g=given: g.get(m[0], m[0]), body)  # type: ignore[misc]
            made += [line[at : found.start()], body]
            at = end
        return "".join([*made, line[at:]])


@lru_cache(maxsize=4)  # one text is read under many configurations, one after another
def _lines(text: str) -> tuple[str, ...]:
    """The lines without comments; what stands in several lines is one."""
    text = text.replace("\\\n", "")
    plain = _COMMENT.sub(lambda m: m[0] if m[0].startswith('"') else re.sub(r"[^\n]+", " ", m[0]), text)
    return tuple(plain.split("\n"))


def _arguments(line: str, at: int) -> tuple[list[str] | None, int]:
    """The arguments of a macro behind its name, and where they end; None: there are none."""
    rest = line[at:]
    if not rest.lstrip().startswith("("):
        return None, at
    start = at + len(rest) - len(rest.lstrip()) + 1
    depth, args, last = 1, [], start
    for i in range(start, len(line)):
        depth += {"(": 1, ")": -1}.get(line[i], 0)
        if depth == 0 or (depth == 1 and line[i] == ","):
            args.append(line[last:i].strip())
            last = i + 1
        if depth == 0:
            return args, i + 1
    raise NotRead(f"the arguments of a macro do not end in their line: {line[:80]}")
