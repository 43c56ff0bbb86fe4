"""Patterns over graph expressions, for passes that look for shapes of calls (specs/lower.md, "Patterns").

    x, w = anything(), anything()
    p = op("nn.relu")(op("add")(op("nn.conv2d")(x, w) | op("matmul")(x, w), constant()))
    found = match(p, node, lets)          # {pattern: expression}, or None

A pattern looks through variables: a let-bound variable is as good as its value. One pattern object at two places wants
one expression there. Matching goes as deep as the pattern, whatever the size of the program.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

from assay.semantics.graph import Call, CallTIR, Constant, Expr, Tuple, TupleGetItem, Var
from assay.semantics.operator import Operator
from assay.semantics.types import Type, same_type

Lets: TypeAlias = Callable[[Var], Expr | None]
"""The value of a let-bound variable; None for what is not bound by a let."""
Found: TypeAlias = Mapping["Pattern", Expr]
"""What each pattern met, as it stands in the program: a variable stays a variable, but for `constant()`, which
gives the constant itself, with its data."""


@dataclass(frozen=True, eq=False)
class Pattern:
    """Base of patterns; compared by identity."""

    def __or__(self, other: Pattern) -> Pattern:
        """What the first matches, else what the second does."""
        return Either(self, other)

    def __call__(self, *args: Pattern) -> Pattern:
        """A call of what this matches, with exactly these arguments."""
        return Applied(self, args)

    def where(self, holds: Callable[[Expr], bool]) -> Pattern:
        """What this matches, if `holds` of it."""
        return Where(self, holds)

    def with_attrs(self, **attrs: Any) -> Pattern:
        """A call that this matches, if it has these attributes."""
        return Where(self, lambda e: isinstance(e, Call) and all(e.attrs.get(k) == v for k, v in attrs.items()))

    def of_type(self, type: Type) -> Pattern:
        """What this matches, if it has this type."""
        return Where(self, lambda e: same_type(e.type, type))


@dataclass(frozen=True, eq=False)
class Anything(Pattern):
    """Matches every expression."""


@dataclass(frozen=True, eq=False)
class ConstantPattern(Pattern):
    """Matches every constant, and meets the constant itself where a variable names it."""


@dataclass(frozen=True, eq=False)
class Op(Pattern):
    """As the callee: one of these operators, or tensor functions. Alone: a call of one, whatever its arguments."""

    names: tuple[str, ...]


@dataclass(frozen=True, eq=False)
class Applied(Pattern):
    """Matches a call whose callee and arguments match."""

    op: Pattern
    args: tuple[Pattern, ...]


@dataclass(frozen=True, eq=False)
class Fields(Pattern):
    """Matches a tuple whose fields match, one by one."""

    fields: tuple[Pattern, ...]


@dataclass(frozen=True, eq=False)
class Field(Pattern):
    """Matches a projection of a value that matches, at `index` or (None) at any."""

    value: Pattern
    index: int | None


@dataclass(frozen=True, eq=False)
class Either(Pattern):
    """What one of two patterns matches."""

    first: Pattern
    second: Pattern


@dataclass(frozen=True, eq=False)
class Where(Pattern):
    """What a pattern matches, under a condition."""

    pattern: Pattern
    holds: Callable[[Expr], bool]


def anything() -> Pattern:
    """A pattern that matches every expression."""
    return Anything()


def op(*names: str) -> Pattern:
    """Operators of the table or tensor functions of the module, by name."""
    return Op(names)


def constant() -> Pattern:
    """A pattern that matches every constant, and meets it itself (`found[c].data`), though a variable names it."""
    return ConstantPattern()


def fields(*patterns: Pattern) -> Pattern:
    """A pattern that matches a tuple whose fields match these patterns."""
    return Fields(patterns)


def field(value: Pattern, index: int | None = None) -> Pattern:
    """A projection of what `value` matches; of any field if `index` is None."""
    return Field(value, index)


def match(pattern: Pattern, expr: Expr, lets: Lets = lambda v: None) -> Found | None:
    """What each pattern met, if `expr` matches."""
    return _match(pattern, expr, lets, {})


def behind_lets(expr: Expr, lets: Lets) -> Expr:
    """What an expression is, its let-bound variables looked through."""
    while isinstance(expr, Var) and (value := lets(expr)) is not None:
        expr = value
    return expr


def _match(p: Pattern, at: Expr, lets: Lets, found: Found) -> Found | None:
    expr = behind_lets(at, lets)
    if p in found:
        return found if behind_lets(found[p], lets) is expr else None
    inside: Found | None = None
    match p:
        case Anything():
            inside = found
        case ConstantPattern() if isinstance(expr, Constant):
            inside, at = found, expr
        case Op():
            inside = found if _callee(expr) in p.names else None
        case Applied(op=Op(names)) if _callee(expr) in names and isinstance(expr, (Call, CallTIR)):
            inside = _match_all(p.args, expr.args, lets, found)
        case Applied() if isinstance(expr, Call) and isinstance(expr.op, Expr):
            inside = _match_all((p.op, *p.args), (expr.op, *expr.args), lets, found)
        case Fields() if isinstance(expr, Tuple):
            inside = _match_all(p.fields, expr.fields, lets, found)
        case Field() if isinstance(expr, TupleGetItem) and p.index in (None, expr.index):
            inside = _match(p.value, expr.value, lets, found)
        case Either():
            inside = _match(p.first, at, lets, found) or _match(p.second, at, lets, found)
        case Where():
            inside = _match(p.pattern, at, lets, found)
            inside = inside if inside is not None and p.holds(expr) else None
        case _:
            pass
    return None if inside is None else {**inside, p: at}


def _match_all(patterns: tuple[Pattern, ...], exprs: tuple[Expr, ...], lets: Lets, found: Found) -> Found | None:
    if len(patterns) != len(exprs):
        return None
    inside: Found | None = found
    for p, e in zip(patterns, exprs, strict=True):
        inside = None if inside is None else _match(p, e, lets, inside)
    return inside


def _callee(expr: Expr) -> str | None:
    match expr:
        case Call() if isinstance(expr.op, Operator):
            return expr.op.name
        case CallTIR():
            return expr.func
        case _:
            return None


def is_leaf(p: Pattern) -> bool:
    """Whether a pattern takes anything, under whatever conditions."""
    while isinstance(p, Where):
        p = p.pattern
    return isinstance(p, (Anything, ConstantPattern))
