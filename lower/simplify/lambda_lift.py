"""Local functions become functions of the module (row R16; specs/lower.md, "simplify").

What a local function uses from around it becomes parameters before its own. Where it is only ever called, its calls
hand them over; where it is used as a value, a small function remains that calls the lifted one. A function whose
parameters or result speak of a size of the function around it stays: the check at its boundary would be lost. So does
one that uses such a size and no variable that has it, one whose types speak of a type parameter from around it, and one
that shares an evaluation with the function around it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from assay.semantics import graph
from assay.semantics.analyses.variables import symbols_used
from assay.semantics.graph import Call, Expr, Function, GlobalVar, Let, Match, Var, free_variables
from assay.semantics.graph.effects import is_opaque
from assay.semantics.graph.functions import as_function, open_nodes
from assay.semantics.graph.scopes import function_scopes
from assay.semantics.module import Definition, Module
from assay.semantics.names import unused
from assay.semantics.scalar import Var as Symbol
from assay.semantics.types import Type, TypeVar, dims, free_type_vars, symbols
from assay.semantics.walk import post_order, rewrite


def lift_functions(module: Module) -> Module:
    """The module with its local functions lifted, where that changes nothing."""
    definitions: dict[str, Definition] = dict(module.definitions)
    for name, d in module.graphs.items():
        definitions[name] = Lifter(name, d, definitions).run()
    return replace(module, definitions=definitions)


@dataclass(eq=False)
class Lifter:
    """Lifts the local functions of one top-level function. What stays is a method: so tests can plant faults."""

    name: str
    root: Function
    definitions: dict[str, Definition]
    lifted: dict[Var, tuple[GlobalVar, list[Var]]] = field(default_factory=dict)
    """For the variable of a local function that is gone: what is called instead, and what it gets first."""

    def run(self) -> Function:
        """The top-level function without its local functions; those that are lifted become definitions."""
        if is_opaque(self.root):
            return self.root
        order = open_nodes(self.root)
        owner = function_scopes(self.root).owner
        values: set[Var] = set()
        for node in order:
            parts = node.args if isinstance(node, Call) else node.children
            values.update(c for c in parts if isinstance(c, Var))
        bound_to = {id(n.value): n.var for n in order if isinstance(n, Let)}
        stays = self.sharing(order, owner)
        outer = {s for n in order for v in _bound(n, self.root) for s in symbols(v.type)}
        new: dict[int, Expr] = {}
        for node in order:
            made = node.with_children([new.get(id(c), c) for c in node.children])
            if isinstance(made, Call) and isinstance(made.op, Var) and made.op in self.lifted:
                target, captured = self.lifted[made.op]
                made = replace(made, op=target, args=(*captured, *made.args))
                values.update(captured)
            elif isinstance(made, Let) and made.var in self.lifted:
                made = made.body
            elif isinstance(made, Function) and node is not self.root and id(node) not in stays:
                made = self.lift(made, bound_to.get(id(node)), values, outer)
            new[id(node)] = made
        return as_function(new[id(self.root)])

    def sharing(self, order: Sequence[Expr], owner: dict[int, Function]) -> set[int]:
        """The local functions that share an evaluation, and those marked as whole."""
        return sharing(order, owner) | {id(n) for n in order if is_opaque(n)}

    def lift(self, function: Function, var: Var | None, values: set[Var], outer: set[Symbol]) -> Expr:
        """What stands where the function stood: a name of the module, or a small function, or itself."""
        captured = [v for v in free_variables(function) if v is not var]
        if self.stays(function, captured, outer):
            return function
        body = function.body
        if isinstance(body, Let) and body.body is body.var:
            body = body.value
        if isinstance(body, Call) and isinstance(body.op, GlobalVar):
            if body.args[len(body.args) - len(function.params) :] == function.params:
                return function  # the small function that an earlier run left
        of = function.func_type
        fresh = [graph.var(v.name, v.type) for v in captured]
        type_ = replace(of, params=(*(v.type for v in captured), *of.params))
        target = GlobalVar(type_, self.unique(var.name if var is not None else "function"))
        alone = var is not None and (not captured or var not in values)
        stands_for = dict(zip(captured, fresh, strict=True))

        def change(node: Expr) -> Expr:
            if isinstance(node, Call) and node.op is var:
                return replace(node, op=target, args=(*fresh, *node.args))
            if node is var and (not captured):
                return target
            return stands_for.get(node, node) if isinstance(node, Var) else node

        if var is not None and not alone and var in free_variables(function):
            return function  # it hands itself on, with what it has from around it
        inner = rewrite(function.body, change)
        self.definitions[target.name] = replace(function, type=type_, params=(*fresh, *function.params), body=inner)
        if not captured:
            return target
        if alone and var is not None:
            self.lifted[var] = (target, captured)
            return function
        params = [graph.var(p.name, p.type) for p in function.params]
        result = graph.var("result", of.result)
        called = Call(of.result, target, (*captured, *params))
        return replace(function, params=tuple(params), body=graph.let(result, called, result))

    def stays(self, function: Function, captured: Sequence[Var], outer: set[Symbol]) -> bool:
        """Whether a function needs something from around it that cannot be handed over."""
        boundary = {s for p in function.params for s in symbols(p.type)} | set(symbols(function.result_type))
        given = {d for v in captured for t in post_order(v.type) for d in dims(t) if isinstance(d, Symbol)}
        used = set(symbols_used(function))
        return bool(boundary & outer or used & outer - given) or _foreign(function, captured)

    def unique(self, name: str) -> str:
        """A name for a lifted function that no definition of the module has."""
        return unused(f"{self.name}_{name}", self.definitions)


def sharing(order: Sequence[Expr], owner: dict[int, Function]) -> set[int]:
    """The local functions that hold a node that a function further out evaluates. `order` is all nodes of a top-level
    function, `owner` the function of each (`assay.semantics.graph.scopes`)."""
    parent = {id(f): owner.get(id(f)) for f in order if isinstance(f, Function)}
    found: set[int] = set()
    for f in order:
        for c in f.children:
            if not c.children:
                continue
            home: Function | None = f if isinstance(f, Function) else owner.get(id(f))
            while home is not None and home is not owner.get(id(c)):
                found.add(id(home))
                home = parent.get(id(home))
    return found


def _bound(node: Expr, root: Function) -> Sequence[Var]:
    """The variables of lets, patterns and functions: their types have the sizes of the functions that bind them."""
    match node:
        case Let():
            return (node.var,)
        case Function():
            return node.params if node is root else ()
        case Match():
            return [v for c in node.clauses for v in c.vars]
        case _:
            return ()


def _foreign(function: Function, captured: Sequence[Var]) -> bool:
    """Whether the types of a function speak of a type parameter that is not its own."""
    own: set[TypeVar] = set()
    types: list[Type] = [v.type for v in captured]
    for node in post_order(function):
        types.append(node.type)
        types += node.type_args if isinstance(node, Call) else ()
        own.update(node.func_type.type_params if isinstance(node, Function) else ())
    return any(t not in own for of in types for t in free_type_vars(of))
