"""Scalar expressions of tensor functions as terms (rule M5; specs/verify.md, "c").

What may trap is an obligation: the kind of the trap, and the condition under which it happens, in the order of
evaluation. One that is shown never to happen is none.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from assay.semantics.dtypes import BOOL, DType
from assay.semantics.scalar import TRANSCENDENTAL, Apply, Cast, Const, Dim, Expr, Load, Var, operation
from assay.semantics.scalar.arithmetic import FLOAT_OF
from assay.semantics.scalar.expression import Buffer
from assay.semantics.scalar.transcendental import ROUTINES
from assay.semantics.walk import post_order
from assay.verify.c.reading.arith import Arithmetic
from assay.verify.c.reading.preprocess import NotRead
from assay.verify.c.reading.terms import Term
from assay.verify.c.reading.values import Memory, loaded, range_condition

SORTS = {"float32": "f32", "float64": "f64"}
FLOAT_OPERATIONS = {
    **{op: op for op in ("add", "sub", "mul", "div", "neg", "sqrt", "rint", "floor", "ceil", "fmod", "fma")},
    "abs": "fabs",
    "min": "fmin",
    "max": "fmax",
}
BITWISE = {"bitand": "band", "bitor": "bor", "bitxor": "bxor"}

Obligation = tuple[str, Term]


def sort_of(of: DType) -> str:
    """The sort of the terms of a dtype."""
    if of is BOOL:
        return "bool"
    if of.is_integer and of.bits >= 8:
        return "int"
    if of.name in SORTS:
        return SORTS[of.name]
    raise NotRead(f"numbers of {of} are not read")


def storage_of(of: DType) -> str:
    """The C type of an element in memory."""
    sort_of(of)
    return {"bool": "uint8_t", "float32": "float", "float64": "double"}.get(of.name, f"{of.name}_t")


@dataclass
class ScalarTerms:
    """Gives the terms of expressions. `place` says what array a buffer is."""

    math: Arithmetic
    place: Callable[[Buffer], Memory]
    env: dict[Var, Term] = field(default_factory=dict)
    state: Term | None = None
    obligations: list[Obligation] = field(default_factory=list)
    inside: set[tuple[str, Term]] = field(default_factory=set)
    """Elements that were shown to lie inside of their arrays since memory was last written."""

    def value(self, root: Expr) -> Term:
        """The term of an expression; its obligations are added, and hold from here on."""
        found: dict[int, Term] = {}
        for node in post_order(root):
            found[id(node)] = self._value(node, [found[id(c)] for c in node.children])
        return found[id(root)]

    def trap(self, kind: str, parts: Sequence[Term]) -> None:
        """A trap happens where one of some conditions holds; those that are shown not to are left out."""
        math = self.math
        left = [p for p in parts if not math.facts.proves(math.negation(p))]
        if not left:
            return
        whole = left[0]
        for p in left[1:]:
            whole = math.either(whole, p)
        self.obligations.append((kind, whole))
        math.assume(math.negation(whole))

    def dim(self, dim: Dim) -> Term:
        """The size of a dim."""
        return self.value(dim) if isinstance(dim, Expr) else self.math.whole(dim)

    def element(self, buffer: Buffer, indices: Sequence[Term]) -> tuple[Memory, tuple[Term, ...]]:
        """The array of a buffer, and the place of an element in it; a trap where that is outside."""
        math, memory = self.math, self.place(buffer)
        flat = math.whole(0)
        for index, dim in zip(indices, buffer.shape, strict=True):
            size = self.dim(dim)
            self.trap("out of bounds", [math.compare("lt", index, math.whole(0)), math.compare("ge", index, size)])
            flat = math.add(math.mul(flat, size), index)
        if not self.obligations:  # what is known only behind a trap, the text has to have checked first
            self.inside.add((memory.key, flat))
        return memory, () if memory.declared else (flat,)

    def _value(self, node: Expr, args: list[Term]) -> Term:
        match node:
            case Const():
                return self.literal(node)
            case Var():
                if node not in self.env:
                    raise NotRead(f"the variable {node.name} is not known")
                return self.env[node]
            case Load():
                memory, index = self.element(node.buffer, args)
                sort_of(node.dtype)
                found = loaded(self.math, memory, index, self.state)
                return self.math.is_true(found) if node.dtype is BOOL else found
            case Cast():
                return self.cast(args[0], node.arg.dtype, node.dtype)
            case Apply():
                return self.applied(node, args)
            case _:
                raise NotRead(f"an expression of a tensor function is not read: {type(node).__name__}")

    def literal(self, node: Const) -> Term:
        """The term of a constant."""
        sort = sort_of(node.dtype)
        if sort == "bool":
            return self.math.truth(bool(node.value))
        if sort == "int":
            return self.math.whole(int(node.value))
        bits = np.asarray(node.value, node.dtype.numpy).view(f"u{node.dtype.itemsize}")
        return self.math.real_of_bits(sort, int(bits))

    def wrapped(self, term: Term, of: DType) -> Term:
        """A whole number wrapped into a dtype."""
        return self.math.wrap(term, int(of.min), of.bits)

    def cast(self, value: Term, source: DType, to: DType) -> Term:
        """A conversion of value."""
        math, sort = self.math, sort_of(to)
        if to is BOOL:
            return value if source is BOOL else math.is_true(value)
        if source is BOOL:
            value = math.number(value)
        if sort != "int":
            return math.real_of(sort, value)
        if not source.is_float:
            return self.wrapped(value, to)
        self.trap("cast", [math.negation(range_condition(math, value, int(to.min), int(to.max)))])
        return math.truncated(value)

    def applied(self, node: Apply, args: list[Term]) -> Term:
        """The term of an operation."""
        op, of, math = node.op, node.args[-1].dtype, self.math
        if op == "select":
            return math.choice(*args)
        if operation(op).has("compares"):
            return self.compared(op, of, args)
        if op == "bits_of":
            return self.wrapped(math.bits_of(args[0]), node.dtype)
        if op in FLOAT_OF:
            return math.of_bits(sort_of(node.dtype), math.wrap(args[0], 0, of.bits))
        if of is BOOL:
            match op:
                case "and" | "min":
                    return math.both(*args)
                case "or" | "max":
                    return math.either(*args)
                case "not":
                    return math.negation(args[0])
        elif of.is_integer:
            return self.whole(node, args)
        elif op in FLOAT_OPERATIONS or op in TRANSCENDENTAL:
            return math.real_operation(FLOAT_OPERATIONS.get(op, op), sort_of(node.dtype), *args)
        raise NotRead(f"the operation {op} on {of} is not read")

    def compared(self, op: str, of: DType, args: list[Term]) -> Term:
        """A comparison."""
        math = self.math
        if of.is_float:
            return math.compare_floats(op, *args)
        if of is not BOOL:
            return math.compare(op, *args)
        a, b = args if op in ("lt", "le", "eq", "ne") else args[::-1]
        if op in ("lt", "gt"):
            return math.both(math.negation(a), b)
        if op in ("le", "ge"):
            return math.either(math.negation(a), b)
        return math.compare(op, math.number(a), math.number(b))

    def whole(self, node: Apply, args: list[Term]) -> Term:
        """An operation on whole numbers, which wraps."""
        op, of, math = node.op, node.dtype, self.math
        first, last = args[0], args[-1]
        row = operation(op)
        if row.has("divides"):
            self.trap("division by zero", [math.eq0(last)])
            made = {"floordiv": math.fdiv, "floormod": math.fmod, "truncdiv": math.tdiv, "truncmod": math.tmod}[op]
            return self.wrapped(made(first, last), of)
        if row.has("shifts"):
            size = math.whole(of.bits)
            self.trap("shift", [math.compare("lt", last, math.whole(0)), math.compare("ge", last, size)])
            power = math.power(last)
            return self.wrapped(math.mul(first, power), of) if op == "shl" else math.fdiv(first, power)
        match op:
            case "add":
                return self.wrapped(math.add(first, last), of)
            case "sub":
                return self.wrapped(math.sub(first, last), of)
            case "mul":
                return self.wrapped(math.mul(first, last), of)
            case "neg":
                return self.wrapped(math.mul(first, math.whole(-1)), of)
            case "abs":
                minus = self.wrapped(math.mul(first, math.whole(-1)), of)
                return math.choice(math.ge0(first), first, minus)
            case "min":
                return math.imin(first, last)
            case "max":
                return math.imax(first, last)
            case _ if op in BITWISE:
                return self.wrapped(math.bitwise(BITWISE[op], first, last), of)
        raise NotRead(f"the operation {op} on {of} is not read")


def routine_term(op: str, math: Arithmetic, args: Sequence[Term]) -> Term:
    """The term of a shared routine over double."""
    routine = ROUTINES[op]
    env: Mapping[Var, Term] = dict(zip(routine.params, args, strict=True))
    terms = ScalarTerms(math, nowhere, dict(env))
    for var, bound in routine.lets:
        terms.env[var] = terms.value(bound)
    made = terms.value(routine.result)
    if terms.obligations:
        raise NotRead(f"the routine of {op} may trap")
    return made


def nowhere(buffer: Buffer) -> Memory:
    """No memory is read: NotRead."""
    raise NotRead(f"{buffer.name} in a routine")
