"""Scalar expressions as z3 terms: the one translation (specs/semantics.md, "Scalars").

Integers become unbounded ones. What an operation does comes from the table of `assay.semantics.scalar` where Python's
operators say it on z3 terms too; `OVERRIDES` has the rest. An operation that may leave its dtype is wrapped, exactly,
unless it was shown to stay inside. Floats are values of which nothing is known but that equal operations on equal
operands are equal.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol, TypeAlias

import z3

from assay.semantics.dtypes import BOOL, DType
from assay.semantics.errors import Crash
from assay.semantics.scalar import OPERATIONS, Apply, Cast, Choice, Const, Expr, Load, Var, operation
from assay.semantics.scalar.arithmetic import FLOAT_OF
from assay.semantics.walk import post_order

Term: TypeAlias = Any
"""A z3 term: an Int for integers, a Bool for bool, a value of the sort Value for floats."""

VALUE = z3.DeclareSort("Value")


class SmtContext(Protocol):
    """What an expression is translated in: its variables, its loads, and which steps are known not to wrap."""

    @property
    def env(self) -> Mapping[Var, Term]:
        """The term of each variable in scope."""

    def load(self, node: Load, indices: Sequence[Term]) -> Term:
        """The term of an element of a buffer at `indices`."""

    def exact(self, node: Expr) -> bool:
        """Whether this step is known to stay inside its dtype, so that its term needs no wrapping."""


@dataclass(frozen=True)
class Unwrapped:
    """A context in which nothing wraps, and no memory is there: of sizes, and of witnesses."""

    env: Mapping[Var, Term]

    def load(self, node: Load, indices: Sequence[Term]) -> Term:
        """Crash: nothing here depends on memory."""
        raise Crash(f"{node} where nothing can depend on memory")

    def exact(self, node: Expr) -> bool:
        """True: nothing wraps here."""
        return True


@dataclass(eq=False)
class Terms:
    """The terms of one query, and what is known of those that it made up (`known`; satisfiable whatever they stand
    for)."""

    known: list[Term] = field(default_factory=list)
    names: dict[str, int] = field(default_factory=dict)
    made: dict[tuple[Any, ...], Any] = field(default_factory=dict)
    alive: list[Any] = field(default_factory=list)

    def fresh(self, name: str, of: DType | None = None) -> Term:
        """A new unknown of its sort; an integer where no dtype is given."""
        count = self.names.get(name, 0)
        self.names[name] = count + 1
        whole = f"{name}!{count}" if count else name
        return z3.Const(whole, z3.IntSort() if of is None else sort(of))

    def divided(self, a: Term, b: Term) -> tuple[Term, Term]:
        """Quotient and remainder of the division that rounds down, as unknowns that their equation fixes.

        Nothing is known of them where the divisor is 0. That dividing twice is dividing by the product is said at once:
        z3 takes long to find it.
        """
        constant = b.as_long() if z3.is_int_value(b) else None
        if constant == 1:
            return a, z3.IntVal(0)
        b = z3.simplify(b)
        key = ("div", a.get_id(), b.get_id())
        if key not in self.made:
            q, r = self.fresh("q"), self.fresh("r")
            below = z3.And(a == b * q + r, 0 <= r, r < b)
            above = z3.And(a == b * q + r, b < r, r <= 0)
            if constant is not None:
                self.known += [below] if constant > 0 else [above] if constant < 0 else []
            else:
                self.known += [z3.Implies(b > 0, below), z3.Implies(b < 0, above)]
            self.made[key] = q, r
            self.made["quotient", q.get_id()] = a, b
            self.alive += [a, b]
            if ("quotient", a.get_id()) in self.made:
                whole, before = self.made["quotient", a.get_id()]
                at_once, _ = self.divided(whole, before * b)
                self.known.append(z3.Implies(z3.And(before > 0, b > 0), q == at_once))
        found: tuple[Term, Term] = self.made[key]
        return found

    def wrapped(self, value: Term, of: DType) -> Term:
        """The number of a dtype that is `value` up to a multiple of 2 to its width."""
        key = ("wrap", value.get_id(), of.name)
        if key not in self.made:
            result, turns = self.fresh("w"), self.fresh("turns")
            self.known += [result == value - turns * (1 << of.bits), inside(result, of)]
            self.made[key] = result
            self.alive.append(value)
        return self.made[key]

    def function(self, name: str, args: Sequence[Term], of: DType) -> Term:
        """An unknown function of its arguments: equal where they are equal; an integer is one of its dtype."""
        function = z3.Function(name, *(a.sort() for a in args), sort(of)) if args else None
        result = function(*args) if function is not None else z3.Const(name, sort(of))
        key = ("range", result.get_id())
        if of.is_integer and key not in self.made:
            self.made[key] = True
            self.alive.append(result)
            self.known.append(inside(result, of))
        return result

    def value(self, expr: Expr, scope: SmtContext, memo: dict[int, Term]) -> Term:
        """The term of an expression in a scope; `memo` holds those of its parts by identity."""
        for node in post_order(expr, lambda n: () if id(n) in memo else n.children):
            if id(node) not in memo:
                memo[id(node)] = self._node(node, [memo[id(c)] for c in node.children], scope)
        return memo[id(expr)]

    def _node(self, node: Expr, args: list[Term], scope: SmtContext) -> Term:
        match node:
            case Const():
                return self._literal(node)
            case Var():
                return scope.env[node]
            case Load():
                return scope.load(node, args)
            case Choice():
                return z3.If(*args)
            case _:
                result = self.exactly(node, args)
                return self.wrapped(result, node.dtype) if may_overflow(node) and not scope.exact(node) else result

    def exactly(self, node: Expr, args: Sequence[Term]) -> Term:
        """What a step gives, not wrapped."""
        match node:
            case Cast():
                return self.converted(args[0], node)
            case Apply():
                return self.applied(node, args)
            case _:
                raise Crash(f"no such scalar node: {type(node).__name__}")

    def _literal(self, node: Const) -> Term:
        if node.dtype is BOOL:
            return z3.BoolVal(bool(node.value))
        if node.dtype.is_integer:
            return z3.IntVal(int(node.value))
        return z3.Const(f"{node.dtype.name} {node.value.tobytes().hex()}", VALUE)

    def applied(self, node: Apply, args: Sequence[Term]) -> Term:
        """The term of an operation, not wrapped; an unknown function of the operands where there is no better one."""
        known = node.args[-1].dtype
        if known.is_float and node.op != "select":
            return self.function(f"{node.op} {known.name}", args, node.dtype)
        override = OVERRIDES.get(node.op)
        found = operation(node.op).meaning(*args) if override is None else override(self, node, args)
        if found is None:
            return self.function(f"{node.op} {known.name}", args, node.dtype)
        return found

    def converted(self, value: Term, node: Cast) -> Term:
        """The term of a conversion, not wrapped; one from or to a float dtype is an unknown function of the value."""
        of, to = node.arg.dtype, node.dtype
        if of.is_float or to.is_float:
            return self.function(f"cast {of.name} {to.name}", [value], to)
        if of is BOOL:
            return z3.If(value, z3.IntVal(1), z3.IntVal(0))
        return value != 0 if to is BOOL else value


def sort(of: DType) -> Any:
    """The z3 sort of a dtype: Bool, Int for every integer dtype, or the sort of floats, which are opaque."""
    return z3.BoolSort() if of is BOOL else z3.IntSort() if of.is_integer else VALUE


def inside(value: Term, of: DType) -> Term:
    """The condition that an integer is a number of the dtype."""
    return z3.And(int(of.min) <= value, value <= int(of.max))


def may_overflow(node: Expr) -> bool:
    """Whether the exact result of an integer step may be outside of its dtype."""
    if not node.dtype.is_integer:
        return False
    match node:
        case Cast(arg=arg):
            return arg.dtype.is_integer and not (node.dtype.min <= arg.dtype.min and arg.dtype.max <= node.dtype.max)
        case Apply(op="floordiv" | "truncdiv", args=(_, Const() as divisor)):
            return int(divisor.value) < 0
        case Apply(op="shl", args=(_, Const())):
            return True
        case Apply(op="shl"):
            return False
        case Apply():
            return operation(node.op).has("wraps")
        case _:
            return False


def conditions(roots: Iterable[Expr], value: Callable[[Expr], Term]) -> dict[int, Term | None]:
    """When each node of expressions is evaluated, by identity; None: always. Only a `Choice` leaves parts out."""
    order: dict[int, Expr] = {}
    wanted: dict[int, list[Term] | None] = {}
    for root in roots:
        for node in post_order(root, lambda n: () if id(n) in order else n.children):
            order.setdefault(id(node), node)
        wanted[id(root)] = None
    result: dict[int, Term | None] = {}
    for node in reversed(order.values()):
        ways = wanted[id(node)]
        here = result[id(node)] = None if ways is None else z3.Or(*ways) if len(ways) > 1 else ways[0]
        for part in node.children:
            when = here
            if isinstance(node, Choice) and part is not node.condition:
                test = value(node.condition)
                sides = ([test] if part is node.then else []) + ([z3.Not(test)] if part is node.otherwise else [])
                side = z3.Or(*sides)
                when = side if here is None else z3.And(here, side)
            if when is None:
                wanted[id(part)] = None
            elif wanted.get(id(part), ()) is not None:
                wanted[id(part)] = [*(wanted.get(id(part)) or ()), when]
    return result


# --- the operations that Python's operators do not say on z3 terms ------------------------------------------------


def _truncated(terms: Terms, a: Term, b: Term) -> tuple[Term, Term]:
    q, r = terms.divided(a, b)
    up = z3.And(r != 0, (a < 0) != (b < 0))
    quotient = z3.If(up, q + 1, q)
    return quotient, z3.If(up, r - b, r)


def _smaller(terms: Terms, node: Apply, args: Sequence[Term]) -> Term:
    return z3.And(*args) if node.dtype is BOOL else z3.If(args[0] <= args[1], *args)


def _larger(terms: Terms, node: Apply, args: Sequence[Term]) -> Term:
    return z3.Or(*args) if node.dtype is BOOL else z3.If(args[0] >= args[1], *args)


def _number(term: Term) -> Term:
    return z3.If(term, z3.IntVal(1), z3.IntVal(0)) if z3.is_bool(term) else term


def _compared(terms: Terms, node: Apply, args: Sequence[Term]) -> Term:
    return operation(node.op).meaning(*map(_number, args))


def _masked(terms: Terms, node: Apply, args: Sequence[Term]) -> Term | None:
    for mask, other in (node.args, node.args[::-1]):
        if isinstance(mask, Const) and int(mask.value) >= 0 and (int(mask.value) + 1) & int(mask.value) == 0:
            value = args[0] if node.args[0] is other else args[1]
            return terms.divided(value, z3.IntVal(int(mask.value) + 1))[1]
    return None


def _shifted(terms: Terms, node: Apply, args: Sequence[Term]) -> Term | None:
    by = node.args[1]
    if not isinstance(by, Const) or not 0 <= int(by.value) < node.dtype.bits:
        return None
    factor = z3.IntVal(1 << int(by.value))
    return args[0] * factor if node.op == "shl" else terms.divided(args[0], factor)[0]


def _unknown(terms: Terms, node: Apply, args: Sequence[Term]) -> None:
    return None


Rule: TypeAlias = Callable[[Terms, Apply, Sequence[Term]], Term | None]

OVERRIDES: dict[str, Rule] = {
    "floordiv": lambda terms, node, args: terms.divided(*args)[0],
    "floormod": lambda terms, node, args: terms.divided(*args)[1],
    "truncdiv": lambda terms, node, args: _truncated(terms, *args)[0],
    "truncmod": lambda terms, node, args: _truncated(terms, *args)[1],
    "abs": lambda terms, node, args: z3.If(args[0] >= 0, args[0], -args[0]),
    "min": _smaller,
    "max": _larger,
    **dict.fromkeys((o.name for o in OPERATIONS.values() if o.has("compares")), _compared),
    "and": lambda terms, node, args: z3.And(*args),
    "or": lambda terms, node, args: z3.Or(*args),
    "not": lambda terms, node, args: z3.Not(*args),
    "select": lambda terms, node, args: z3.If(*args),
    "bitand": _masked,
    "bitor": _unknown,
    "bitxor": _unknown,
    "shl": _shifted,
    "shr": _shifted,
    **dict.fromkeys(FLOAT_OF, _unknown),
}
"""None: an unknown function. Operations on floats are unknown functions all."""
