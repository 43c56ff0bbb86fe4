"""Faults of what writes programs: in the words that are written, and with special values in mind (specs/verify.md,
"Mutants").

C stands in strings of the emitter, and the names of scalar operations in strings of kernels, so strings are changed
here: a comparison, a sign, a shift, a bound, a type, a zero, arms that are exchanged, a line left out. In the code
around them the dtype of an accumulator, the arms of a select and the order of operands are.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass

from tests.mutation.mutants import Change, SetPart, usual_changes

TWINS = {
    "add": "sub", "sub": "add", "mul": "add", "max": "min", "min": "max", "lt": "le", "le": "lt", "gt": "ge",
    "ge": "gt", "eq": "ne", "ne": "eq", "and": "or", "or": "and", "floordiv": "truncdiv", "truncdiv": "floordiv",
    "floormod": "truncmod", "truncmod": "floormod", "shl": "shr", "shr": "shl", "floor": "ceil", "ceil": "floor",
}  # fmt: skip
"""Scalar operations that are easily taken for each other."""
DTYPES = {"FLOAT64": "FLOAT32", "FLOAT32": "FLOAT64", "INT64": "INT32", "INT32": "INT64"}
DROPPED = r"(?m)^ +(?!(?:static|const|unsigned|int|size_t|double|float|[TU]) |u?int\d)[^\n#/*{}]*;$"
"""A line that is a statement, and declares nothing."""
SPELLED = (
    (r"<=", "<"), (r"(?<![<-])<(?![<=])", "<="), (r">=", ">"), (r"(?<![->])>(?![>=])", ">="), (r"==", "!="),
    (r"!=", "=="), (r"&&", "||"), (r"\|\|", "&&"), (r"<<", ">>"), (r">>", "<<"), (r"\|=", "&="), (r"&=", "|="),
    (r" \+ ", " - "), (r" - ", " + "), (r" \* ", " / "), (r" & ", " | "), (r" \| ", " & "),
    (r"(?<=[(= ])-(?=[\w(])", ""),
    (r"~", ""), (r"!(?=[\w(])", ""), (r"\bdouble\b", "float"), (r"\bfloat\b", "double"), (r"\bint64_t\b", "int32_t"),
    (r"\bint32_t\b", "int64_t"), (r"\buint(?=\d)", "int"), (r"\bsize_t\b", "int"), (r"\brestrict ", ""),
    (r"(?<![\w.])0\.0f\b", "-0.0f"), (r"(?<![\w.])0u\b", "1u"), (r"\bINFINITY\b", "FLT_MAX"), (r"\bNAN\b", "0.0"),
    (r"\(int64_t\)", ""), (r"\((?:float|double|u?int\d+_t|size_t)\)", ""), (DROPPED, ""),
)  # fmt: skip
"""What may stand in C, and what stands there instead."""
ARMS = re.compile(r"\? ([^?:;]+) : ([^?:;]+?)(?=[;)]|$)")
NUMBER = re.compile(r"(?<![\w.#])\d+(?=[uU]?\b(?![.x]))")
SIGN = re.compile(r"[-+*/<>=!&|?~]|\b(?:u?int\d+_t|float|double|size_t|restrict)\b|;$|TRAP", re.MULTILINE)
"""What a string of C has."""


def changes_of_writers(tree: ast.Module) -> Iterator[tuple[ast.AST, str, Change]]:
    """The usual changes, those of strings and those of special values."""
    yield from usual_changes(tree)
    for node in _computing(tree):
        for kind, change in _special(node):
            yield node, kind, change


def _computing(tree: ast.Module) -> Iterator[ast.AST]:
    """The nodes of a module, in order, but for documentation, types and what is raised."""
    work: list[ast.AST] = [tree]
    while work:
        node = work.pop()
        match node:
            case ast.Raise() | ast.Assert() | ast.Import() | ast.ImportFrom() | ast.Expr(value=ast.Constant()):
                continue
            case ast.Call(func=ast.Name(id="Crash" | "Invalid" | "Unsupported" | "Trap")):
                continue
            case ast.AnnAssign():
                work += [node.value] if node.value is not None else []
                continue
            case ast.FunctionDef() | ast.ClassDef():
                work += reversed(node.body)
                continue
            case ast.arguments():
                continue
        yield node
        work += [c for c in reversed(list(ast.iter_child_nodes(node))) if not isinstance(c, ast.pattern)]


def _special(node: ast.AST) -> Iterator[tuple[str, Change]]:
    match node:
        case ast.Name(id=name, ctx=ast.Load()) if name in DTYPES:
            yield "dtype", SetPart(node, "id", DTYPES[name])
        case ast.Call(func=ast.Name(id="select"), args=[c, a, b]):
            yield "arms", SetPart(node, "args", [c, b, a])
        case ast.Call(func=ast.Name(id="apply"), args=[ast.Constant() as op, a, b]):
            yield "operands", SetPart(node, "args", [op, b, a])
        case ast.Call(func=ast.Name(id="apply"), args=[ast.Constant(value="select") as op, c, a, b]):
            yield "arms", SetPart(node, "args", [op, c, b, a])
        case ast.BinOp(op=ast.Sub() | ast.Div() | ast.FloorDiv() | ast.Mod(), left=ast.expr(), right=ast.expr()):
            yield "operands", _Exchange(node)
        case ast.Constant(value=str(text)) if text in TWINS:
            yield "operation", SetPart(node, "value", TWINS[text])
        case ast.Constant(value=str(text)) if SIGN.search(text):
            for kind, other in _written(text):
                yield kind, SetPart(node, "value", other)


def _written(text: str) -> Iterator[tuple[str, str]]:
    """The texts with one fault, each once."""
    seen = {text}
    for spelled, instead in SPELLED:
        for found in re.finditer(spelled, text):
            other = text[: found.start()] + instead + text[found.end() :]
            if other not in seen:
                seen.add(other)
                yield "C", other
    for found in ARMS.finditer(text):
        yield "C arms", f"{text[: found.start()]}? {found[2]} : {found[1]}{text[found.end() :]}"
    for found in NUMBER.finditer(text):
        yield "C number", f"{text[: found.start()]}{int(found[0]) + 1}{text[found.end() :]}"


@dataclass
class _Exchange:
    """The operands of an operation change places."""

    node: ast.BinOp

    def __call__(self) -> None:
        self.node.left, self.node.right = self.node.right, self.node.left
