"""A C file as a tree, with what is large taken out of it (specs/verify.md, "c").

Tables of constants are cut out of the text before it is parsed, and read by themselves. Names of types of the system
are declared as types, whose meaning `values.py` has.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import Any

from assay.semantics.scalar.transcendental import ROUTINES
from assay.verify.c.reading.preprocess import NotRead, Preprocessor

EXACT = frozenset({"sqrt", "rint", "floor", "ceil", "fabs", "fmod", "fma"})
"""Functions of <math.h> that are exact or rounded once (Annex F), for double, and with f behind for float."""
SYSTEM = "".join(
    f"typedef int {name};\n"
    for name in ("int8_t int16_t int32_t int64_t uint8_t uint16_t uint32_t uint64_t size_t uintptr_t".split())
)
_TABLE = re.compile(r"^ {0,3}static const (\w+) (\w+)\[(\d+)\] = \{\n(.*?)^\};$", re.DOTALL | re.MULTILINE)


_FUNCTION = re.compile(r"^(\w[^;{}=#()\n]*\([^;{}=#()]*\))\n\{\n.*?^\}$", re.DOTALL | re.MULTILINE)
"""A function as the file lays it out: its heading, and its body between braces that begin a line."""


@dataclass(frozen=True)
class CFunction:
    """One function: its tree, and its text without layout, which two configurations are compared by."""

    name: str
    tree: Any
    params: tuple[tuple[str, str, bool], ...]
    """Name, type and whether it is restrict, of each parameter."""
    result: str
    static: bool


@dataclass
class CFile:
    """What a file has under one configuration."""

    functions: dict[str, CFunction] = field(default_factory=dict)
    constants: dict[str, int] = field(default_factory=dict)
    """The enumerators."""
    tables: dict[str, tuple[str, int, str]] = field(default_factory=dict)
    """The tables at the top of the file: type, number of elements, and the text of the elements."""
    pragmas: list[str] = field(default_factory=list)
    """Those that stand before the first function."""
    structs: dict[str, dict[str, str]] = field(default_factory=dict)
    """The members of structures and their types, in their order."""
    numbers: dict[str, int] = field(default_factory=dict)
    """Macros of the file that are whole numbers."""


def read_file(header_name: str, header: str, text: str, macros: Mapping[str, str]) -> CFile:
    """Parse a file under some macros. NotRead where it is no C that is known here."""
    from pycparser import c_ast  # heavy, and used here alone

    reader = Preprocessor({header_name: header})
    for name, value in macros.items():
        reader.define(name, value)
    plain = reader.run(text)
    found = CFile()
    at = next((i for i, line in enumerate(plain.split("\n")) if line.startswith("{")), 0)
    own = {n: m.body for n, m in reader.macros.items() if n not in macros}
    found.numbers = {n: int(body.rstrip("uU")) for n, body in own.items() if re.fullmatch(r"\d+[uU]?", body)}
    found.pragmas = [p for line, p in reader.pragmas if line < at]
    plain = _TABLE.sub(lambda m: _cut(m, found), plain)
    tree, bodies = _parsed_in_parts(plain)
    for node in tree.ext:
        match node:
            case c_ast.FuncDef():
                one = bodies.whole(_function(node))
                if one.name in found.functions or is_of_system(one.name):
                    raise NotRead(f"{one.name} is defined again")
                found.functions[one.name] = one
            case c_ast.Decl(type=c_ast.Enum()):
                _enumerators(node.type, found)
            case c_ast.Decl(type=c_ast.Struct()) if node.type.decls:
                found.structs[node.type.name] = {d.name: c_type(d.type) for d in node.type.decls}
            case c_ast.Decl() if isinstance(node.type, c_ast.FuncDecl) or node.init is None:
                pass  # a prototype, or a table that was cut out
            case c_ast.Typedef() | c_ast.Pragma():
                pass
            case _:
                raise NotRead(f"something at the top of the file is not read: {type(node).__name__}")
    bodies.require_all()
    return found


def _parsed(text: str) -> Any:
    """The tree of a text."""
    import pycparser

    try:
        return pycparser.CParser().parse(SYSTEM + text)
    except (pycparser.c_parser.ParseError, RecursionError) as wrong:
        raise NotRead(f"it is not parsed: {str(wrong)[:200]}") from None


@lru_cache(maxsize=1024)
def parsed_alone(text: str) -> tuple[Any, ...]:
    """What a text has at its top, parsed by itself; whoever reads these trees leaves them as they are. What several
    configurations have in common, and the helpers that stand in every file, are parsed once in a process."""
    return tuple(_parsed(text).ext[SYSTEM.count("\n") :])


@dataclass
class _Bodies:
    """The functions of a file whose bodies were left out, which are parsed by themselves. A body is one statement,
    whatever is in it: the file is C with it where it is C with an empty one. And its tree hangs on nothing of the file
    but the names of types."""

    texts: dict[int, str] = field(default_factory=dict)
    """The function with its body, by the line where it begins."""

    def whole(self, function: CFunction) -> CFunction:
        """A function of the file with its body."""
        text = self.texts.pop(function.tree.coord.line, None)
        if text is None:
            return function
        match parsed_alone(text):
            case [node] if type(node).__name__ == "FuncDef":
                made = _function(node)
                if replace(made, tree=function.tree) == function:
                    return made
        raise NotRead(f"the function {function.name} is not parsed by itself")

    def require_all(self) -> None:
        """Each was the body of a function at the top of the file."""
        if self.texts:
            raise NotRead("a body is that of no function")


def _parsed_in_parts(text: str) -> tuple[Any, _Bodies]:
    """The tree of a text in which functions have empty bodies, and these functions; where one of them may name a type
    of the file, all of the text."""
    found = _Bodies()
    made: list[str] = []
    line, at = SYSTEM.count("\n") + 1, 0
    for match in _FUNCTION.finditer(text):
        before = text[at : match.start()]
        line += before.count("\n")
        found.texts[line] = match[0]
        line += match[1].count("\n") + 1
        made += [before, match[1], "\n{}"]
        at = match.end()
    tree = _parsed("".join([*made, text[at:]]))
    types = {n.name for n in tree.ext[SYSTEM.count("\n") :] if type(n).__name__ == "Typedef"}
    if any(types & set(re.findall(r"\w+", one)) for one in found.texts.values()):
        return _parsed(text), _Bodies()
    return tree, found


def is_of_system(name: str) -> bool:
    """Whether a name belongs to a function of the headers of the system that has a meaning here."""
    plain = {*EXACT, *ROUTINES, "memcpy"}
    return name in plain or (name.endswith("f") and name[:-1] in plain)


def _cut(match: re.Match[str], found: CFile) -> str:
    if match[2] in found.tables:
        raise NotRead(f"the table {match[2]} is defined twice")
    found.tables[match[2]] = (match[1], int(match[3]), match[4])
    return f"extern const {match[1]} {match[2]}[{match[3]}];"


def _enumerators(node: Any, found: CFile) -> None:
    last = -1
    for one in node.values.enumerators if node.values else ():
        last = last + 1 if one.value is None else int(one.value.value.rstrip("uU"), 0)
        found.constants[one.name] = last


def _function(node: Any) -> CFunction:
    decl = node.decl
    params = []
    for p in decl.type.args.params if decl.type.args else ():
        if c_type(p.type) != "void":
            params.append((p.name, c_type(p.type), "restrict" in getattr(p.type, "quals", ())))
    return CFunction(decl.name, node, tuple(params), c_type(decl.type.type), "static" in decl.storage)


def c_type(node: Any) -> str:
    """The type of a declaration as text, const left out: float, float*, struct s*, const void*."""
    stars = ""
    while True:
        match type(node).__name__:
            case "TypeDecl" | "Typename":
                node = node.type
            case "PtrDecl":
                stars += "*"
                node = node.type
            case "ArrayDecl":
                stars += "[]"
                node = node.type
            case "IdentifierType":
                return " ".join(node.names) + stars
            case "Enum":
                return "int" + stars
            case "Struct":
                return f"struct {node.name}{stars}"
            case other:
                raise NotRead(f"a type is not read: {other}")


def points_to_const(node: Any) -> bool:
    """Whether what a pointer points to is const."""
    inner = node.type.type if type(node.type).__name__ == "PtrDecl" else node.type
    return "const" in getattr(inner, "quals", ())
