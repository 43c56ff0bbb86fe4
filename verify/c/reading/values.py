"""What expressions of C mean (ISO C99 and C11, 6.3 and 6.5; specs/verify.md, "c").

An expression becomes a term of its value, with its type. Every conversion is made as the standard says: promotions,
the usual arithmetic conversions, unsigned numbers that wrap. What is undefined must be shown not to happen: signed
overflow, a shift by the width or of a negative number, a division by zero or of the least number by -1, a float that
no number of the type has, an element outside of its array. `int` has 32 bits, `size_t` and `uintptr_t` have 64.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any, TypeAlias

from assay.semantics.walk import post_order, pre_order
from assay.verify.c.reading.arith import Arithmetic
from assay.verify.c.reading.parse import EXACT, c_type
from assay.verify.c.reading.preprocess import NotRead
from assay.verify.c.reading.terms import Term

CNode: TypeAlias = Any
"""A node of the tree of C."""
CType: TypeAlias = str

INTEGERS: dict[str, tuple[bool, int]] = {
    **{f"int{b}_t": (True, b) for b in (8, 16, 32, 64)},
    **{f"uint{b}_t": (False, b) for b in (8, 16, 32, 64)},
    "int": (True, 32),
    "unsigned int": (False, 32),
    "unsigned char": (False, 8),
    "char": (True, 8),
    "size_t": (False, 64),
    "uintptr_t": (False, 64),
}
"""The whole types: whether signed, and their bits."""
SYSTEM: dict[str, tuple[CType, int]] = {
    "INT32_MIN": ("int32_t", -(2**31)),
    "INT32_MAX": ("int32_t", 2**31 - 1),
    "INT64_MIN": ("int64_t", -(2**63)),
    "INT64_MAX": ("int64_t", 2**63 - 1),
}
"""Macros of <stdint.h>."""
FLOATS = {"float": "f32", "double": "f64"}
LITERALS = {"INT64_C": "int64_t", "UINT64_C": "uint64_t"}
ARITHMETIC = {"+": "add", "-": "sub", "*": "mul", "/": "div"}
COMPARED = {"<": "lt", "<=": "le", ">": "gt", ">=": "ge", "==": "eq", "!=": "ne"}
BITWISE = {"&": "band", "|": "bor", "^": "bxor"}


@dataclass(frozen=True)
class CValue:
    """A value and its type."""

    type: CType
    term: Term


@dataclass(frozen=True, eq=False)
class Memory:
    """An array: what stands for it in terms, the type of its elements, and how many it has."""

    key: str
    element: CType
    count: Term
    written: bool = True
    declared: CType = ""
    """The type of a variable that stands for an array of one element."""


@dataclass
class Scope:
    """What names mean: values, arrays, and cells that change."""

    values: dict[str, CValue] = field(default_factory=dict)
    arrays: dict[str, Memory] = field(default_factory=dict)
    members: dict[tuple[str, str], CValue] = field(default_factory=dict)
    """Of what pointers lead to, by the name of the pointer and that of the member."""


Caller: TypeAlias = Callable[[str, Sequence[CValue]], CValue]


@dataclass
class Evaluator:
    """Gives the values of expressions. `call` is for functions of the file; `state` tells apart what memory holds at
    different times."""

    math: Arithmetic
    constants: Mapping[str, int]
    call: Caller
    scope: Scope = field(default_factory=Scope)
    state: Term | None = None
    guards: dict[int, list[tuple[CNode, bool]]] = field(default_factory=dict)
    inside: set[tuple[str, Term]] = field(default_factory=set)
    """Elements that are known to lie inside of their arrays here."""

    def value(self, root: CNode) -> CValue:
        """The value of an expression."""
        self.guards = _guards(root)
        found: dict[int, CValue] = {}
        for node in post_order(root, _operands):
            if id(node) not in found:
                found[id(node)] = self._value(node, found)
        return found[id(root)]

    def condition(self, root: CNode) -> Term:
        """Whether an expression is not 0."""
        return self.math.is_true(self.value(root).term)

    def _value(self, node: CNode, found: Mapping[int, CValue]) -> CValue:
        match type(node).__name__:
            case "Constant":
                return self.constant(node)
            case "ID":
                return self.named(node.name)
            case "Cast":
                return self.converted(found[id(node.expr)], c_type(node.to_type))
            case "UnaryOp":
                return self.unary(node, found)
            case "BinaryOp":
                return self.binary(node, found[id(node.left)], found[id(node.right)], found)
            case "TernaryOp":
                return self.ternary(node, found)
            case "ArrayRef":
                return self.element(node, found)
            case "StructRef":
                return self.member(node)
            case "FuncCall" if node.name.name in LITERALS:
                return self.typed(node)
            case "FuncCall":
                args = [found[id(a)] for a in _operands(node)]
                return self.function(node.name.name, args)
            case other:
                raise NotRead(f"an expression is not read: {other}")

    def require(self, condition: Term, node: CNode, found: Mapping[int, CValue], what: str) -> None:
        """A condition has to hold wherever the node is evaluated, or C does not say what happens."""
        if self.math.facts.proves(condition):
            return
        around = self.guards.get(id(node), [])
        if around:
            here = Arithmetic(self.math.table, self.math.facts.copy(), self.math.lemmas)
            for guard, holds in around:
                truth = here.is_true(found[id(guard)].term)
                here.assume(truth if holds else here.negation(truth))
            if here.facts.proves(condition):
                return
        raise NotRead(f"{what} is not shown never to happen: {condition!r}")

    # --- leaves --------------------------------------------------------------------------------------------------

    def constant(self, node: CNode) -> CValue:
        """A literal."""
        text = node.value
        if node.type in ("float", "double", "long double"):
            kind = "float" if text[-1] in "fF" else "double"
            if text[-1] in "lL":
                raise NotRead(f"the literal {text} is a long double")
            plain = text.rstrip("fF") if not text.lower().startswith("0x") or kind == "float" else text
            number = float.fromhex(plain) if plain.lower().startswith("0x") else float(plain)
            exact = self.math.real(FLOATS[kind], number)
            is_decimal = not plain.lower().startswith("0x")
            if self.math.number_of(exact) != number or (is_decimal and Decimal(plain) != Decimal(number)):
                raise NotRead(f"the literal {text} is no number of {kind}")  # how it is rounded is left open
            return CValue(kind, exact)
        if node.type == "char":
            raise NotRead("a character")
        digits = text.rstrip("uUlL")
        suffix = text[len(digits) :].lower()
        number = int(digits, 0)
        of = literal_type(number, suffix, digits.lower().startswith("0x"))
        return CValue(of, self.math.whole(number))

    def typed(self, node: CNode) -> CValue:
        """INT64_C and UINT64_C, which give a literal a type."""
        (literal,) = node.args.exprs
        of = LITERALS[node.name.name]
        number = int(literal.value, 0) if type(literal).__name__ == "Constant" and literal.type == "int" else -1
        if not 0 <= number <= c_limits(of)[1]:
            raise NotRead(f"{node.name.name} of something else than a literal of {of}")
        return CValue(of, self.math.whole(number))

    def named(self, name: str) -> CValue:
        """A variable or an enumerator."""
        if name in self.scope.values:
            return self.scope.values[name]
        if name in self.scope.arrays:
            memory = self.scope.arrays[name]
            if memory.declared:
                return self.load(memory, ())
        if name in SYSTEM:
            return CValue(SYSTEM[name][0], self.math.whole(SYSTEM[name][1]))
        if name in self.constants:
            return CValue("int", self.math.whole(self.constants[name]))
        raise NotRead(f"{name} has no value here")

    def member(self, node: CNode) -> CValue:
        """A member of what a pointer leads to."""
        key = (getattr(node.name, "name", ""), node.field.name)
        if node.type != "->" or key not in self.scope.members:
            raise NotRead(f"the member {node.field.name} has no value here")
        return self.scope.members[key]

    def load(self, memory: Memory, index: tuple[Term, ...]) -> CValue:
        """What memory holds now."""
        return CValue(memory.declared or memory.element, loaded(self.math, memory, index, self.state))

    def element(self, node: CNode, found: Mapping[int, CValue]) -> CValue:
        """An element of an array."""
        memory, index = self.place(node, found)
        return self.load(memory, (index,))

    def place(self, node: CNode, found: Mapping[int, CValue]) -> tuple[Memory, Term]:
        """The array and the index of an element, which is shown to lie inside."""
        name = node.name
        if type(name).__name__ != "ID" or name.name not in self.scope.arrays:
            raise NotRead("an element of something else than a parameter or a table")
        memory, index = self.scope.arrays[name.name], found[id(node.subscript)]
        if index.type not in INTEGERS:
            raise NotRead(f"an index of {name.name} is no whole number")
        math = self.math
        if (memory.key, index.term) in self.inside:
            return memory, index.term
        self.require(math.ge0(index.term), node, found, f"an index of {name.name} below 0")
        self.require(math.compare("lt", index.term, memory.count), node, found, f"an index behind {name.name}")
        return memory, index.term

    # --- conversions ---------------------------------------------------------------------------------------------

    def converted(self, value: CValue, to: CType) -> CValue:
        """The value in another type (6.3.1)."""
        if to == value.type:
            return value
        if to in FLOATS and (value.type in INTEGERS or value.type in FLOATS):
            return CValue(to, self.math.real_of(FLOATS[to], value.term))
        if to in INTEGERS and value.type in INTEGERS:
            return CValue(to, self.wrapped(value.term, to))
        if to in INTEGERS and value.type in FLOATS:
            whole = self.math.truncated(value.term)
            low, high = c_limits(to)
            if not self.is_held(value.term, to):
                raise NotRead(f"a float that {to} cannot hold is not shown never to be: {value.term!r}")
            self.math.assume(self.math.ge0(self.math.sub(whole, self.math.whole(int(low)))))
            self.math.assume(self.math.ge0(self.math.sub(self.math.whole(int(high)), whole)))
            return CValue(to, whole)
        raise NotRead(f"no conversion of {value.type} to {to} is read")

    def is_held(self, real: Term, to: CType) -> bool:
        """Whether a float is shown to be a number of a whole type, once it is cut behind the point."""
        if real.op == "float":
            low, high = c_limits(to)
            number = float(self.math.number_of(real))
            return number == number and low - 1 < number < high + 1
        return self.math.facts.proves(self.holds_float(real, to))

    def holds_float(self, real: Term, to: CType) -> Term:
        """The condition that a whole type has a number for a float, once it is cut behind the point."""
        low, high = (int(x) for x in c_limits(to))
        return range_condition(self.math, real, low, high)

    def wrapped(self, term: Term, to: CType) -> Term:
        """A number as one of a whole type, by what wraps (6.3.1.3; to a signed type as all compilers that are known do,
        which the file itself asserts)."""
        signed, bits = INTEGERS[to]
        return self.math.wrap(term, -(1 << (bits - 1)) if signed else 0, bits)

    def promoted(self, value: CValue) -> CValue:
        """The integer promotions (6.3.1.1)."""
        signed, bits = INTEGERS.get(value.type, (True, 64))
        return self.converted(value, "int") if value.type in INTEGERS and bits < 32 else value

    def usual(self, a: CValue, b: CValue) -> tuple[CValue, CValue]:
        """The usual arithmetic conversions (6.3.1.8)."""
        for real in ("double", "float"):
            if real in (a.type, b.type):
                return self.converted(a, real), self.converted(b, real)
        a, b = self.promoted(a), self.promoted(b)
        (s, m), (t, n) = INTEGERS[a.type], INTEGERS[b.type]
        bits = max(m, n)
        signed = (s or m < bits) and (t or n < bits)
        to = f"{'' if signed else 'u'}int{bits}_t"
        return CValue(to, self.converted(a, to).term), CValue(to, self.converted(b, to).term)

    # --- operators -----------------------------------------------------------------------------------------------

    def unary(self, node: CNode, found: Mapping[int, CValue]) -> CValue:
        """An operator with one operand."""
        if node.op == "sizeof":
            raise NotRead("a size is asked for")
        value = found[id(node.expr)]
        match node.op:
            case "!":
                return CValue("int", self.math.number(self.math.negation(self.math.is_true(value.term))))
            case "-" if value.type in FLOATS:
                return CValue(value.type, self.math.real_operation("neg", FLOATS[value.type], value.term))
            case "-":
                value = self.promoted(value)
                return self.exact(self.math.mul(value.term, self.math.whole(-1)), value.type, node, found)
            case "~":
                value = self.promoted(value)
                return CValue(value.type, self.wrapped(self.math.sub(self.math.whole(-1), value.term), value.type))
            case "+":
                return self.promoted(value)
            case other:
                raise NotRead(f"the operator {other} is not read")

    def exact(self, term: Term, of: CType, node: CNode, found: Mapping[int, CValue]) -> CValue:
        """A result of arithmetic: an unsigned one wraps, a signed one has to be in its type."""
        low, high = c_limits(of)
        if not INTEGERS[of][0]:
            return CValue(of, self.wrapped(term, of))
        least, most = self.math.facts.interval(term)
        if least < low or most > high:
            math = self.math
            inside = math.both(
                math.ge0(math.sub(term, math.whole(int(low)))), math.ge0(math.sub(math.whole(int(high)), term))
            )
            self.require(inside, node, found, f"an overflow of {of}")
        return CValue(of, term)

    def binary(self, node: CNode, a: CValue, b: CValue, found: Mapping[int, CValue]) -> CValue:
        """An operator with two operands."""
        op, math = node.op, self.math
        if op in ("&&", "||"):
            one, other = math.is_true(a.term), math.is_true(b.term)
            return CValue("int", math.number(math.both(one, other) if op == "&&" else math.either(one, other)))
        if op in ("<<", ">>"):
            return self.shifted(node, self.promoted(a), self.promoted(b), found)
        if a.type not in INTEGERS and a.type not in FLOATS or b.type not in INTEGERS and b.type not in FLOATS:
            raise NotRead(f"{op} of {a.type} and {b.type} is not read")
        a, b = self.usual(a, b)
        if op in COMPARED:
            compare = math.compare_floats if a.type in FLOATS else math.compare
            return CValue("int", math.number(compare(COMPARED[op], a.term, b.term)))
        if a.type in FLOATS:
            if op not in ARITHMETIC:
                raise NotRead(f"{op} of floats")
            return CValue(a.type, math.real_operation(ARITHMETIC[op], FLOATS[a.type], a.term, b.term))
        if op in BITWISE:
            return CValue(a.type, self.wrapped(math.bitwise(BITWISE[op], a.term, b.term), a.type))
        if op in ("/", "%"):
            return self.divided(node, a, b, found)
        if op in ARITHMETIC:
            made = {"+": math.add, "-": math.sub, "*": math.mul}[op](a.term, b.term)
            return self.exact(made, a.type, node, found)
        raise NotRead(f"the operator {op} is not read")

    def divided(self, node: CNode, a: CValue, b: CValue, found: Mapping[int, CValue]) -> CValue:
        """A quotient or a remainder, to zero (6.5.5)."""
        math = self.math
        self.require(math.negation(math.eq0(b.term)), node, found, "a division by zero")
        signed, bits = INTEGERS[a.type]
        if signed:
            least = math.eq0(math.add(a.term, math.whole(1 << (bits - 1))))
            minus = math.eq0(math.add(b.term, math.whole(1)))
            self.require(math.negation(math.both(least, minus)), node, found, f"the least {a.type} by -1")
        return CValue(a.type, math.tdiv(a.term, b.term) if node.op == "/" else math.tmod(a.term, b.term))

    def shifted(self, node: CNode, a: CValue, b: CValue, found: Mapping[int, CValue]) -> CValue:
        """A shift (6.5.7); to the right of what is not negative alone."""
        math, (_, bits) = self.math, INTEGERS[a.type]
        self.require(math.ge0(b.term), node, found, "a shift by less than 0")
        self.require(math.compare("lt", b.term, math.whole(bits)), node, found, "a shift by the width")
        self.require(math.ge0(a.term), node, found, "a shift of a negative number")
        if node.op == ">>":
            return CValue(a.type, math.fdiv(a.term, math.power(b.term)))
        return self.exact(math.mul(a.term, math.power(b.term)), a.type, node, found)

    def ternary(self, node: CNode, found: Mapping[int, CValue]) -> CValue:
        """A choice; the other arm is not evaluated."""
        a, b = found[id(node.iftrue)], found[id(node.iffalse)]
        if a.type != b.type:
            a, b = self.usual(a, b)
        elif a.type in INTEGERS:
            a, b = self.promoted(a), self.promoted(b)
        return CValue(a.type, self.math.choice(self.math.is_true(found[id(node.cond)].term), a.term, b.term))

    def function(self, name: str, args: Sequence[CValue]) -> CValue:
        """A call of a function of <math.h> or of the file."""
        found = function_of_math(name, EXACT)
        if found is None:
            return self.call(name, args)
        plain, of = found
        terms = [self.converted(a, of).term for a in args]
        return CValue(of, self.math.real_operation(plain, FLOATS[of], *terms))


def function_of_math(name: str, known: Collection[str]) -> tuple[str, CType] | None:
    """The function for double that a name of <math.h> belongs to, and the type that it is for; None: it is none of
    `known`."""
    if name in known:
        return name, "double"
    return (name[:-1], "float") if name.endswith("f") and name[:-1] in known else None


def loaded(math: Arithmetic, memory: Memory, index: tuple[Term, ...], state: Term | None) -> Term:
    """What an element holds in a state of memory; what is never written to holds the same in all."""
    sort = FLOATS.get(memory.element, "int")
    within = c_limits(memory.element) if sort == "int" else (float("-inf"), float("inf"))
    args = (memory.key, *index, *([state] if memory.written and state is not None else []))
    return math.table.term("load", args, sort, within)


def range_condition(math: Arithmetic, real: Term, low: int, high: int) -> Term:
    """That cutting a float behind its point gives a number from `low` to `high`: it is above low - 1 and below
    high + 1. Where double does not have low - 1, no double lies between it and low."""
    wide = math.real_of("f64", real)
    below = low - 1
    if float(below) == low - 1 and int(float(below)) == below:
        above = math.compare_floats("gt", wide, math.real("f64", float(below)))
    else:
        above = math.compare_floats("ge", wide, math.real("f64", float(low)))
    return math.both(above, math.compare_floats("lt", wide, math.real("f64", float(high + 1))))


def c_limits(of: CType) -> tuple[float, float]:
    """The least and the greatest number of a whole type."""
    signed, bits = INTEGERS[of]
    return (-(1 << (bits - 1)), (1 << (bits - 1)) - 1) if signed else (0, (1 << bits) - 1)


def literal_type(number: int, suffix: str, is_hex: bool) -> CType:
    """The type of a whole literal (6.4.4.1), where int has 32 bits and long, or long long, 64."""
    unsigned, long = "u" in suffix, "l" in suffix
    for bits in (32, 64):
        if long and bits == 32:
            continue
        if not unsigned and number < 1 << (bits - 1):
            return "int" if bits == 32 else "int64_t"
        if (unsigned or is_hex) and number < 1 << bits:
            return f"uint{bits}_t"
    raise NotRead(f"the literal {number} is too large")


def _operands(node: CNode) -> Sequence[CNode]:
    match type(node).__name__:
        case "Cast":
            return (node.expr,)
        case "UnaryOp":
            return () if node.op == "sizeof" else (node.expr,)
        case "BinaryOp":
            return (node.left, node.right)
        case "TernaryOp":
            return (node.cond, node.iftrue, node.iffalse)
        case "ArrayRef":
            return (node.subscript,)
        case "FuncCall":
            return tuple(node.args.exprs) if node.args and node.name.name not in LITERALS else ()
        case _:
            return ()


def _guards(root: CNode) -> dict[int, list[tuple[CNode, bool]]]:
    """The conditions under which each part of an expression is evaluated; only of parts that have some."""
    found: dict[int, list[tuple[CNode, bool]]] = {}
    for node in pre_order(root, _operands):
        here = found.get(id(node), [])
        kind = type(node).__name__
        for part in _operands(node):
            more: list[tuple[CNode, bool]] = []
            if kind == "TernaryOp" and part is not node.cond:
                more = [(node.cond, part is node.iftrue)]
            elif kind == "BinaryOp" and node.op in ("&&", "||") and part is node.right:
                more = [(node.left, node.op == "&&")]
            if here or more:
                found[id(part)] = [*here, *more]
    return found
