"""Mutants of a Python module: its text with one small fault each (specs/verify.md, "Mutants").

The faults are those that passes, kernels and checkers have had: another operator, an index or a bound off by one, a
condition turned or always true, an order reversed, an interval's end exchanged, a step left out. Messages, docstrings,
annotations and what raises are left alone: no test should depend on the words.
"""

from __future__ import annotations

import ast
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Protocol, TypeAlias

OPERATORS: dict[type[ast.operator], type[ast.operator]] = {
    ast.Add: ast.Sub,
    ast.Sub: ast.Add,
    ast.Mult: ast.FloorDiv,
    ast.FloorDiv: ast.Mult,
    ast.Div: ast.Mult,
    ast.Mod: ast.FloorDiv,
    ast.BitAnd: ast.BitOr,
    ast.BitOr: ast.BitAnd,
    ast.LShift: ast.RShift,
    ast.RShift: ast.LShift,
}
COMPARISONS: dict[type[ast.cmpop], type[ast.cmpop]] = {
    ast.Lt: ast.LtE,
    ast.LtE: ast.Lt,
    ast.Gt: ast.GtE,
    ast.GtE: ast.Gt,
    ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq,
    ast.Is: ast.IsNot,
    ast.IsNot: ast.Is,
    ast.In: ast.NotIn,
    ast.NotIn: ast.In,
}
NAMES = {"min": "max", "max": "min", "any": "all", "all": "any", "minimum": "maximum", "maximum": "minimum"}
"""Functions with a twin that is easily taken for them."""
ORDERS = ("sorted", "reversed")
"""Functions that only order: the mutant takes things as they come."""


WIDTH = 70
"""Characters of a text that are shown."""


@dataclass(frozen=True)
class Mutant:
    """The text of a module with one fault."""

    line: int
    kind: str
    said: str
    """What was there, and what is there now."""
    nth: int
    """Of those of the module that are of this kind and say the same."""
    number: int
    original: str
    ways: Ways

    @property
    def source(self) -> str:
        tree = ast.parse(self.original)
        _, _, change = next(c for k, c in enumerate(self.ways(tree)) if k == self.number)
        change()
        return ast.unparse(ast.fix_missing_locations(tree))


def mutants(source: str, ways: Ways | None = None) -> list[Mutant]:
    """Every mutant of a module's text, in its order; `ways` are the changes to make, if not the usual ones."""
    found: list[Mutant] = []
    seen: Counter[tuple[str, str]] = Counter()
    ways = ways or usual_changes
    for number, (place, kind, change) in enumerate(ways(ast.parse(source))):
        before, kept = _text(place), (change.node.__class__, dict(change.node.__dict__))
        change()
        said = _said(before, _text(place))
        found.append(Mutant(getattr(change.node, "lineno", 0), kind, said, seen[kind, said], number, source, ways))
        seen[kind, said] += 1
        change.node.__class__ = kept[0]
        change.node.__dict__.clear()
        change.node.__dict__.update(kept[1])
    return found


def _text(node: ast.AST) -> str:
    return " ".join(ast.unparse(node).split())


def _said(before: str, after: str) -> str:
    """Both texts; of long ones what is around the first difference."""
    same = next((i for i, (a, b) in enumerate(zip(before, after, strict=False)) if a != b), 0)
    start = max(0, same - WIDTH // 2) if max(len(before), len(after)) > WIDTH else 0
    shown = [
        ("..." if start else "") + t[start : start + WIDTH] + ("..." if len(t) > start + WIDTH else "")
        for t in (before, after)
    ]
    return " -> ".join(shown)


def usual_changes(tree: ast.Module) -> Iterator[tuple[ast.AST, str, Change]]:
    """Each place that can change: what shows it, the kind, and what makes the change. A number is shown in what it is
    part of."""
    for node, around in _places(tree):
        for kind, change in _ways(node):
            yield around if isinstance(node, ast.Constant) else node, kind, change


def _places(tree: ast.Module) -> Iterator[tuple[ast.expr | ast.stmt, ast.AST]]:
    """The expressions and statements of a module that compute, in order, and what each is part of."""
    work: list[tuple[ast.AST, ast.AST]] = [(tree, tree)]
    while work:
        node, around = work.pop()
        match node:
            case (
                ast.Raise()
                | ast.Assert()
                | ast.Import()
                | ast.ImportFrom()
                | ast.JoinedStr()
                | ast.Global()
                | ast.Nonlocal()
            ):
                continue
            case ast.Call(func=ast.Name(id="Example")) | ast.FunctionDef(name="_examples"):
                continue  # what tests try
            case ast.keyword(arg="strict"):
                continue  # zip(..., strict=True) says what holds, it computes nothing
            case ast.FunctionDef() | ast.AsyncFunctionDef() | ast.ClassDef():
                work += [(c, node) for c in reversed(node.body)]
                continue
            case ast.AnnAssign():
                if node.value is not None:
                    work.append((node.value, node))
                continue
            case ast.Expr(value=ast.Constant()):
                continue
            case ast.expr() | ast.stmt():
                yield node, around
        work += [(c, node) for c in reversed(list(ast.iter_child_nodes(node))) if not isinstance(c, ast.pattern)]


def _ways(node: ast.AST) -> Iterator[tuple[str, Change]]:
    """The faults that a node can have: kind, and what makes it."""
    match node:
        case ast.BinOp(op=op) if type(op) in OPERATORS and not _texts(node):
            yield "operator", SetPart(node, "op", OPERATORS[type(op)]())
        case ast.AugAssign(op=op) if type(op) in OPERATORS and not _texts(node.value):
            yield "operator", SetPart(node, "op", OPERATORS[type(op)]())
        case ast.Compare(ops=[op, *rest]) if type(op) in COMPARISONS:
            kind = "bound" if isinstance(op, (ast.Lt, ast.LtE, ast.Gt, ast.GtE)) else "condition"
            yield kind, SetPart(node, "ops", [COMPARISONS[type(op)](), *rest])
        case ast.BoolOp(op=op, values=values):
            yield "condition", SetPart(node, "op", ast.Or() if isinstance(op, ast.And) else ast.And())
            yield "condition", SetPart(node, "values", values[:-1])
        case ast.UnaryOp(op=ast.Not(), operand=operand):
            yield "condition", _Become(node, operand)
        case ast.UnaryOp(op=ast.USub(), operand=operand) if not isinstance(operand, ast.Constant):
            yield "operator", _Become(node, operand)
        case ast.If(body=[ast.Raise(exc=ast.Call(func=ast.Name(id="Crash")))], orelse=[]):
            return  # it is there for faults of our own
        case ast.If(test=test) | ast.IfExp(test=test) if not isinstance(test, ast.Constant):
            yield "condition", SetPart(node, "test", ast.Constant(True))
            yield "condition", SetPart(node, "test", ast.Constant(False))
        case ast.Constant(value=bool(value)):
            yield "condition", SetPart(node, "value", not value)
        case ast.Constant(value=int(value)):
            yield "index", SetPart(node, "value", value + 1)
        case ast.Call(func=ast.Name(id=name) as func) if name in NAMES:
            yield "interval", SetPart(func, "id", NAMES[name])
        case ast.Call(func=ast.Attribute(attr=name) as func) if name in NAMES:
            yield "interval", SetPart(func, "attr", NAMES[name])
        case ast.Call(func=ast.Name(id=name), args=[first, *_]) if name in ORDERS:
            yield "order", _Become(node, ast.Call(ast.Name("list", ast.Load()), [first], []))
        case ast.Slice(lower=None, upper=None):
            return
        case ast.Expr(value=ast.Call()) | ast.AugAssign():
            yield "step", _Drop(node)
        case ast.Continue():
            yield "step", _Drop(node)
        case _:
            return


def _texts(node: ast.AST) -> bool:
    """Whether strings are put together here."""
    return any(
        isinstance(n, ast.JoinedStr) or isinstance(n, ast.Constant) and isinstance(n.value, str) for n in ast.walk(node)
    )


class Change(Protocol):
    """What changes one node of a tree, and nothing else."""

    @property
    def node(self) -> ast.AST: ...

    def __call__(self) -> None: ...


@dataclass
class SetPart:
    """A part of a node is another."""

    node: ast.AST
    name: str
    value: object

    def __call__(self) -> None:
        setattr(self.node, self.name, self.value)


@dataclass
class _Become:
    """A node is another, in its place."""

    node: ast.expr
    other: ast.expr

    def __call__(self) -> None:
        at = {"lineno": self.node.lineno, "col_offset": self.node.col_offset}
        self.node.__class__ = self.other.__class__
        self.node.__dict__.clear()
        self.node.__dict__.update({**self.other.__dict__, **at})


Ways: TypeAlias = Callable[[ast.Module], Iterator[tuple[ast.AST, str, Change]]]
"""Each place of a module that can change: what shows it, the kind of fault, and what makes the change."""


@dataclass
class _Drop:
    """A statement is left out."""

    node: ast.stmt

    def __call__(self) -> None:
        at = {"lineno": self.node.lineno, "col_offset": self.node.col_offset}
        self.node.__class__ = ast.Pass
        self.node.__dict__.clear()
        self.node.__dict__.update(at)
