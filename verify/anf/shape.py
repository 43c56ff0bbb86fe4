"""Whether a function has the shape of A-normal form (specs/verify.md, "anf").

Every compound expression is the value of one let, every operand is a name, every name is bound once and before its
use, symbols are used under what binds them, and dataflow blocks hold together. This reads the target alone.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from assay.semantics.graph import Dataflow, Expr, Function, If, Let, Match, Var, free_variables, let_chain, show_head
from assay.semantics.graph.effects import acts, is_opaque
from assay.semantics.scalar import Var as Symbol
from assay.semantics.tasks import Task, run_task
from assay.semantics.types import same_type
from assay.semantics.walk import post_order
from assay.verify.value_numbering.nesting import is_atom, plain_symbols, used_symbols


def node_title(node: Expr) -> str:
    """A node for a message: what it is, and where."""
    return show_head(node) + (f" at {node.span}" if node.span else "")


class _Wrong(Exception):
    pass


class _Shape:
    def __init__(self, function: Function) -> None:
        self.function = function
        self.names: Counter[str] = Counter()
        self.scope: set[Var] = set()
        self.symbols: Counter[Symbol] = Counter()
        self.bound: dict[int, Var] = {}
        self.finished: set[int] = set()
        self.block: Dataflow | None = None

    def run(self) -> str | None:
        self.enter(self.function.params, self.function)
        try:
            run_task(self.chain(self.function.body))
        except _Wrong as wrong:
            return str(wrong)
        return None

    def enter(self, vars: Iterable[Var], binder: Expr) -> None:
        for v in vars:
            self.names[v.name] += 1
            if self.names[v.name] > 1:
                raise _Wrong(f"the name {v.name} is bound more than once, the second time by {node_title(binder)}")
            self.scope.add(v)
            self.symbols.update(plain_symbols(v.type))

    def leave(self, vars: Iterable[Var]) -> None:
        for v in vars:
            self.scope.discard(v)
            self.symbols.subtract(plain_symbols(v.type))

    def chain(self, body: Expr) -> Task[None]:
        """A let chain, and its result. Each let is done before the next is looked at."""
        block, self.block = self.block, None
        lets, result = let_chain(body)
        for let in lets:
            self.mark(let)
            if isinstance(let.value, Function):  # it may name itself; nothing else may
                self.enter([let.var], let.value)
            yield self.value(let)
            if not isinstance(let.value, Function):
                self.enter([let.var], let.value)
        if not is_atom(result):
            raise _Wrong(f"the result {node_title(result)} is not atomic: it has no binding")
        self.use(result, result)
        self.leave([let.var for let in lets])
        self.block = block

    def mark(self, let: Let) -> None:
        """A dataflow block is one run of lets, and nothing in it acts."""
        if let.dataflow is not self.block:
            if self.block is not None:
                self.finished.add(id(self.block))
            self.block = let.dataflow
            if let.dataflow is not None and id(let.dataflow) in self.finished:
                raise _Wrong(f"the dataflow block of {let.var.name} is broken: other bindings stand inside it")
        if let.dataflow is not None:
            inside = post_order(let.value, lambda n: () if isinstance(n, Function) else n.children)
            doer = next((n for n in inside if acts(n)), None)
            if doer is not None:
                raise _Wrong(f"{node_title(doer)} acts inside a dataflow block")

    def value(self, let: Let) -> Task[None]:
        node = let.value
        if not same_type(let.var.type, node.type):
            raise _Wrong(f"{let.var.name} is {let.var.type}, its value is {node_title(node)}")
        if is_atom(node):
            self.use(node, node)
            return
        other = self.bound.setdefault(id(node), let.var)
        # what fails may be bound in each of two branches; one object for both is as good as a copy
        whole = isinstance(node, (If, Match, Function)) or acts(node)
        if other is not let.var and (whole or other in self.scope):
            raise _Wrong(f"{node_title(node)} is bound twice, by {other.name} and by {let.var.name}")
        for s in used_symbols(node):
            if self.symbols[s] <= 0:
                raise _Wrong(f"symbol {s.name} is used by {node_title(node)} before anything binds it")
        match node:
            case Let():
                raise _Wrong(f"a let as an operand: the value of {let.var.name} binds {node.var.name}")
            case If():
                self.use(node.condition, node)
                yield self.chain(node.then)
                yield self.chain(node.otherwise)
            case Match():
                self.use(node.value, node)
                for c in node.clauses:
                    yield self.within(c.vars, c.body, node)
            case Function() if is_opaque(node):
                for v in free_variables(node):
                    if v not in self.scope:
                        raise _Wrong(f"variable {v.name} is used before it is bound, by {node_title(node)}")
            case Function():
                yield self.within(node.params, node.body, node)
            case _:
                for operand in node.children:
                    self.use(operand, node)

    def within(self, vars: Iterable[Var], body: Expr, binder: Expr) -> Task[None]:
        own = list(vars)
        self.enter(own, binder)
        yield self.chain(body)
        self.leave(own)

    def use(self, operand: Expr, user: Expr) -> None:
        if not is_atom(operand):
            raise _Wrong(f"operand {node_title(operand)} of {node_title(user)} is not atomic")
        if isinstance(operand, Var) and operand not in self.scope:
            by = "as a result" if operand is user else f"by {node_title(user)}"
            raise _Wrong(f"variable {operand.name} is used before it is bound, {by}")


def shape_fault(function: Function) -> str | None:
    """What is not A-normal about a function, if anything."""
    return _Shape(function).run()
