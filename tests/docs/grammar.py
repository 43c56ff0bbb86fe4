"""The grammar of the text, `specs/grammar.md`: tables of the parser, and productions with an example each
(specs/verify.md, "Generated pages").

The tables are those that the parser reads. The productions are written here; a test parses every example, and demands
that each word that the parser's sources compare something with stands on the page.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from assay.semantics.dtypes import DTYPES
from assay.semantics.scalar.intrinsics import INTRINSICS
from assay.semantics.text.graph.scope import ALIASES
from assay.semantics.text.graph.values import OPERATORS
from assay.semantics.text.relax.build import MISSING
from assay.semantics.text.relax.ops import ROWS, UNREAD
from assay.semantics.text.scalars import _TYPED as TYPED
from assay.semantics.text.scalars.operations import BINARY, FUNCTIONS
from assay.semantics.text.tensor.blocks import AXES, LOOPS
from tests.docs.grammar_parts import PRODUCTIONS, REMARKS

PAGE = "specs/grammar.md"

HEAD = """# Grammar

The texts that Assay reads and prints: graph functions and tensor functions in the words of TVMScript, and `A.` for what
it lacks. What they mean is in [semantics, "Text"](semantics.md#text). A text is Python, which is read by Python's own
parser and never run: what a name, a number, a call or a line is, Python says. Below `NAME` is a name, `?` behind a part
means that it may be missing, `...` that there may be more of it, `|` is a choice, and `expr` is any expression.

This page is generated: the tables from those of the parser, the productions from
`tests/docs/grammar_parts.py`, which are written by hand. Every example is read by a test, and another demands that the
parser knows no word that is missing here.
"""

SIGNS = {
    "Add": "+", "Sub": "-", "Mult": "*", "Div": "/", "FloorDiv": "//", "Mod": "%", "Pow": "**", "MatMult": "@",
    "BitAnd": "&", "BitOr": "|", "BitXor": "^", "LShift": "<<", "RShift": ">>", "Eq": "==", "NotEq": "!=", "Lt": "<",
    "LtE": "<=", "Gt": ">", "GtE": ">=", "USub": "-x",
}  # fmt: skip
"""How Python writes an operator."""


def grammar_page() -> str:
    """The text of the page."""
    parts = [HEAD]
    for section, productions in PRODUCTIONS.items():
        parts.append(f"\n## {section}\n")
        if section in REMARKS:
            parts.append(f"\n{REMARKS[section]}\n")
        for p in productions:
            parts.append(f"\n### {p.name}\n\n```text\n{p.rule.strip()}\n```\n\n```python\n{p.example.strip()}\n```\n")
    parts += ["\n## Tables\n", *_tables()]
    return "".join(parts)


def _tables() -> Iterable[str]:
    yield "\n### Modules\n\nThe names that a text may use without importing them, and what each is:\n\n"
    yield _table(("name", "is"), [(f"`{n}`", f"`{of}`") for n, of in ALIASES.items()])
    yield "\n### Element types\n\n" + _listed(DTYPES) + ", and lanes of them, such as `float32x4`.\n"
    yield "\n### Python's operators\n\nOn tensors the operator of Relax of this name, on scalars the operation:\n\n"
    rows = {kind.__name__: [name, ""] for kind, name in OPERATORS.items()}
    for kind, name in BINARY.items():
        rows.setdefault(kind.__name__, ["", ""])[1] = name
    yield _table(("", "tensors", "scalars"), [(f"`{SIGNS[k]}`".replace("|", "\\|"), *v) for k, v in rows.items()])
    yield "\n### Functions of scalars\n\n`T.NAME(...)`, and the operation that it is:\n\n"
    yield _table(("name", "is"), [(f"`T.{n}`", f"`{of}`".replace("|", "\\|")) for n, of in FUNCTIONS.items()])
    yield "\nWith an element type first: " + ", ".join(f"`T.{n}` (it{rest or ' alone'})" for n, rest in TYPED.items())
    yield '.\nOperations of scalars are defined in [semantics, "Intrinsics"](semantics.md#intrinsics): '
    yield _listed(INTRINSICS) + ".\n"
    yield "\n### Loops and axes\n\n"
    yield _table(("loop", "kind"), [(f"`{n}`" if n == "range" else f"`T.{n}`", kind) for n, kind in LOOPS.items()])
    yield "\n" + _table(("axis", "kind"), [(f"`T.axis.{n}`", kind) for n, kind in AXES.items()])
    yield "\n### Operators of Relax\n\n`R.NAME(...)`: operands, and behind `;` attributes, with their defaults.\n\n"
    yield "".join(f"- `R.{n}({_signature(r.operands, r.attrs)})`\n" for n, r in sorted(ROWS.items()))
    yield "\nRefused, with the reason:\n\n"
    yield "".join(f"- {', '.join(f'`R.{n}`' for n in names)}: {why}\n" for names, why in UNREAD.items())


def _signature(operands: Mapping[str, Any], attrs: Mapping[str, Any]) -> str:
    def each(given: Mapping[str, Any]) -> str:
        return ", ".join(n if d is MISSING else f"{n}={d!r}" for n, d in given.items())

    return each(operands) + (f"; {each(attrs)}" if attrs else "")


def _listed(names: Iterable[str]) -> str:
    return ", ".join(f"`{n}`" for n in names)


def _table(head: tuple[str, ...], rows: Iterable[tuple[str, ...]]) -> str:
    lines = [head, tuple("---" for _ in head), *rows]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


# --- the words of the parser --------------------------------------------------------------------------------------

FOLDERS = ("semantics/text", "semantics/text/graph", "semantics/text/tensor", "semantics/text/scalars")


def words_of(root: Path) -> dict[str, str]:
    """The words that the parser's sources compare something with, match it with, or look up as a path; each with its
    file."""
    found: dict[str, str] = {}
    for path in (p for folder in FOLDERS for p in sorted((root / folder).glob("*.py"))):
        if "printer" in path.name:
            continue
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            for value in _compared(node):
                if isinstance(value, ast.Constant) and isinstance(value.value, str) and value.value.isidentifier():
                    found.setdefault(value.value, path.name)
    return found


def _compared(node: ast.AST) -> list[ast.expr]:
    def flat(part: ast.expr) -> list[ast.expr]:
        return part.elts if isinstance(part, ast.Tuple | ast.Set) else [part]

    match node:
        case ast.MatchValue(value=value):
            return [value]
        case ast.Compare(left=left, comparators=others):
            return [e for n in (left, *others) for e in flat(n)]
        case ast.Call(func=ast.Name(id="Path"), args=args):
            return [e for n in args for e in flat(n)]
    return []


def missing_words(root: Path, page: str, inner: Iterable[str]) -> list[str]:
    """Words of the parser that a page does not say, but those of its `inner` workings; and of these, those that are
    gone."""
    words, said = words_of(root), set(re.findall(r"\w+", page))
    missing = [f"{file}: {word}" for word, file in words.items() if word not in said and word not in inner]
    return missing + [f"no word of the parser: {word}" for word in inner if word not in words or word in said]
