"""The functions of the file that take and give numbers alone, as terms (specs/verify.md, "c").

The body of such a function is followed with terms for its parameters: every path, each statement under the condition
that it is reached. What comes out stands for a call. Where a function is shown to be one operation of ours for all
values of its parameters, that operation stands for it instead.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property

from assay.semantics.scalar.transcendental import ROUTINES
from assay.semantics.walk import Worklist
from assay.verify.c.reading.arith import Arithmetic
from assay.verify.c.reading.contents import content_key, element_bytes
from assay.verify.c.reading.facts import Facts
from assay.verify.c.reading.parse import CFile, CFunction, c_type
from assay.verify.c.reading.preprocess import NotRead
from assay.verify.c.reading.recognised import Recognised
from assay.verify.c.reading.terms import Term, TermTable
from assay.verify.c.reading.values import FLOATS, INTEGERS, CNode, CValue, Evaluator, c_limits, function_of_math

MOST_CALLS = 12
"""How deeply functions may call one another."""


@dataclass
class Functions:
    """The functions of one file."""

    file: CFile
    table: TermTable
    recognised: Recognised
    meanings: dict[str, tuple[tuple[Term, ...], Term, str]] = field(default_factory=dict)
    """Of each function that was followed: its parameters, what it gives, and the operation that it is, or ""."""
    depth: int = 0

    @cached_property
    def contents(self) -> Mapping[str, str]:
        """What names the contents of each table of numbers."""
        numbers = {n: t for n, t in self.file.tables.items() if t[0] in FLOATS or t[0] in INTEGERS}
        return {n: content_key(of, element_bytes(of, count, text)) for n, (of, count, text) in numbers.items()}

    def caller(self, math: Arithmetic, name: str, args: Sequence[CValue]) -> CValue:
        """What a call gives."""
        function = self.file.functions.get(name)
        platform = function_of_math(name, ROUTINES)
        if platform is not None and function is None:
            return self.of_platform(math, *platform, args)
        if function is None:
            raise NotRead(f"the function {name} is not known")
        if len(args) != len(function.params):
            raise NotRead(f"{name} is called with {len(args)} arguments")
        evaluator = Evaluator(math, self.file.constants, lambda n, a: self.caller(math, n, a))
        given = [evaluator.converted(a, t) for a, (_, t, _) in zip(args, function.params, strict=True)]
        operation = self.operation(function)
        if operation:
            return CValue(function.result, self.recognised.apply(operation, math, [g.term for g in given]))
        if self.depth > MOST_CALLS:
            raise NotRead(f"{name} is called too deeply")
        self.depth += 1
        try:
            return CValue(function.result, self.followed(function, math, given))
        finally:
            self.depth -= 1

    def of_platform(self, math: Arithmetic, plain: str, of: str, args: Sequence[CValue]) -> CValue:
        """A function of <math.h> that is rounded as the platform likes: the operation itself, but where the shared
        routines are wanted."""
        op = f"the platform's {plain}" if self.recognised.reproducible else plain
        evaluator = Evaluator(math, self.file.constants, lambda n, a: self.caller(math, n, a))
        return CValue(of, math.real_operation(op, FLOATS[of], *(evaluator.converted(a, of).term for a in args)))

    def operation(self, function: CFunction) -> str:
        """The operation that a function is shown to be for all values; "" for none."""
        if function.name not in self.meanings:
            if self.depth > MOST_CALLS:
                raise NotRead(f"{function.name} is called too deeply")
            math = Arithmetic(self.table, Facts(), self.recognised.lemmas)
            params = [CValue(t, self.unknown(n, t)) for n, t, _ in function.params]
            self.depth += 1
            try:
                given = tuple(p.term for p in params)
                name = ""
                for candidate in self.recognised.candidates(function, given):
                    facts = Arithmetic(self.table, Facts(), self.recognised.lemmas)
                    for condition in candidate.needs(facts, given):
                        facts.assume(condition)
                    try:
                        made = self.followed(function, facts, params)
                    except NotRead:
                        continue
                    if self.recognised.holds(candidate, facts, given, made):
                        name = candidate.name
                        break
                self.meanings[function.name] = (given, math.whole(0), name)
            finally:
                self.depth -= 1
        return self.meanings[function.name][2]

    def unknown(self, name: str, of: str) -> Term:
        """A parameter of which nothing is known but its type."""
        if of in FLOATS:
            return self.table.fresh(name, FLOATS[of])
        if of in INTEGERS:
            return self.table.fresh(name, "int", c_limits(of))
        raise NotRead(f"a parameter of type {of}")

    def followed(self, function: CFunction, math: Arithmetic, args: Sequence[CValue]) -> Term:
        """What a function gives for some arguments."""
        run = _Run(self, math, function)
        for (name, _, _), value in zip(function.params, args, strict=True):
            run.env[name] = value
        return run.result()


@dataclass
class _Run:
    """One function that is followed. A variable without a value is None."""

    functions: Functions
    math: Arithmetic
    function: CFunction
    env: dict[str, CValue | None] = field(default_factory=dict)
    types: dict[str, str] = field(default_factory=dict)
    unset: dict[str, Term] = field(default_factory=dict)
    """When a variable has no value, of those that have none on some path."""
    returned: Term | None = None
    given: Term | None = None

    def result(self) -> Term:
        """The term of what is returned. Every path has to return."""
        math = self.math
        self.returned = math.truth(False)
        self.types |= {n: t for n, t, _ in self.function.params}
        work: Worklist[tuple[CNode, Term]] = Worklist([(self.function.tree.body, math.truth(True))])
        for node, guard in work:
            work.add(self.statement(node, guard))
        if self.given is None or not math.facts.proves(self.returned):
            raise NotRead(f"{self.function.name} does not return on every path")
        return self.given

    def evaluator(self, guard: Term) -> Evaluator:
        """Expressions here, under a condition."""
        math = self.math
        if guard.op != "truth":
            math = Arithmetic(self.math.table, self.math.facts.copy(), self.math.lemmas)
            math.assume(guard)
        found = Evaluator(math, self.functions.file.constants, lambda n, a: self.functions.caller(math, n, a))
        found.scope.values = {n: v for n, v in self.env.items() if v is not None and self.is_set(n, math)}
        return found

    def is_set(self, name: str, math: Arithmetic) -> bool:
        """Whether a variable is shown to have a value here."""
        return name not in self.unset or math.facts.proves(math.negation(self.unset[name]))

    def statement(self, node: CNode, guard: Term) -> list[tuple[CNode, Term]]:
        """Follow a statement where `guard` holds and nothing has been returned; what is to be followed next."""
        assert self.returned is not None
        math = self.math
        here = math.both(guard, math.negation(self.returned))
        match type(node).__name__:
            case "Compound":
                return [(s, guard) for s in node.block_items or ()]
            case "If":
                condition = self.evaluator(here).condition(node.cond)
                parts = [(node.iftrue, math.both(guard, condition))]
                return parts + ([(node.iffalse, math.both(guard, math.negation(condition)))] if node.iffalse else [])
            case "Decl":
                if node.name in self.types:
                    raise NotRead(f"the variable {node.name} of {self.function.name} hides another")
                self.types[node.name] = c_type(node.type)
                self.env[node.name] = None
                if node.init is not None:
                    self.assign(node.name, self.evaluator(here).value(node.init), math.truth(True), here)
            case "Assignment":
                self.assignment(node, here)
            case "FuncCall" if node.name.name == "memcpy":
                self.copy(node, here)
            case "Return":
                evaluator = self.evaluator(here)
                value = evaluator.converted(evaluator.value(node.expr), self.function.result).term
                self.given = value if self.given is None else math.choice(self.returned, self.given, value)
                self.returned = math.either(self.returned, here)
            case other:
                raise NotRead(f"{self.function.name} has a statement that is not read: {other}")
        return []

    def assignment(self, node: CNode, guard: Term) -> None:
        """A variable gets a value."""
        if type(node.lvalue).__name__ != "ID" or node.lvalue.name not in self.types:
            raise NotRead(f"{self.function.name} writes to something else than a variable of its own")
        evaluator, name = self.evaluator(guard), node.lvalue.name
        if node.op == "=":
            value = evaluator.value(node.rvalue)
        else:
            from pycparser import c_ast

            value = evaluator.value(c_ast.BinaryOp(node.op[:-1], node.lvalue, node.rvalue))
        self.assign(name, value, guard, guard)

    def assign(self, name: str, value: CValue, guard: Term, here: Term) -> None:
        """A variable has a value now where `guard` holds."""
        value = self.evaluator(here).converted(value, self.types[name])
        before = self.env[name]
        if before is None and guard.op != "truth":
            self.unset[name] = self.math.negation(guard)
        elif name in self.unset:
            self.unset[name] = self.math.both(self.unset[name], self.math.negation(guard))
        if before is not None and guard.op != "truth":
            value = CValue(value.type, self.math.choice(guard, value.term, before.term))
        self.env[name] = value

    def copy(self, node: CNode, guard: Term) -> None:
        """memcpy of the whole of one variable to another: its bits."""
        to, source, size = node.args.exprs
        names = []
        for part in (to, source):
            if type(part).__name__ != "UnaryOp" or part.op != "&" or type(part.expr).__name__ != "ID":
                raise NotRead(f"{self.function.name} copies something else than a variable")
            names.append(part.expr.name)
        if type(size).__name__ != "UnaryOp" or size.op != "sizeof" or size.expr.name not in names:
            raise NotRead(f"{self.function.name} copies something else than all of a variable")
        value, of = self.evaluator(guard).scope.values.get(names[1]), self.types[names[0]]
        if value is None or _bits(value.type) != _bits(of):
            raise NotRead(f"{self.function.name} copies a variable without a value, or to one of another size")
        self.assign(names[0], CValue(of, _reinterpreted(self.math, value, of)), guard, guard)


def _bits(of: str) -> int:
    return {"float": 32, "double": 64}.get(of) or INTEGERS[of][1]


def _reinterpreted(math: Arithmetic, value: CValue, of: str) -> Term:
    """The bits of a value as one of another type."""
    if value.type in FLOATS:
        bits = math.bits_of(value.term)
    else:
        bits = math.wrap(value.term, 0, INTEGERS[value.type][1])
    if of in FLOATS:
        return math.of_bits(FLOATS[of], bits)
    signed, width = INTEGERS[of]
    return math.wrap(bits, -(1 << (width - 1)) if signed else 0, width)


def same_text(files: Mapping[str, CFile], name: str) -> bool:
    """Whether a function is written alike in every configuration."""
    from pycparser import c_generator

    texts = {c_generator.CGenerator().visit(f.functions[name].tree) for f in files.values() if name in f.functions}
    return len(texts) == 1 and all(name in f.functions for f in files.values())
