"""Calls of small functions, and of functions that are called once, become their bodies (specs/lower.md, "simplify").

The parameters are bound to the arguments around a copy of the body, so the order of evaluation stays: arguments first,
left to right, then the body (rule M3). What the body computes stays on the devices on which the function has it: a call
is opened only where each argument and the result are where the function says. A function stays if it is recursive,
polymorphic in types, marked (primitive, compiler), or where it gives a size its value or checks one: the types of the
arguments must say all sizes. What is annotated is not placed yet: such a function stays until devices are
planned.

A module in A-normal form may need `to_anf` again, which keeps the names. Definitions that are not needed are for
`remove_unreachable`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace

from assay.lower.anf.copying import fresh_copy
from assay.lower.simplify.bind_params import with_sizes
from assay.lower.simplify.lambda_lift import sharing
from assay.lower.simplify.value_device import device_of_value
from assay.semantics.analyses.variables import called, symbols_bound
from assay.semantics.errors import Invalid
from assay.semantics.graph import Call, Expr, Function, GlobalVar, Let, OnDevice, Var, free_variables
from assay.semantics.graph.effects import is_opaque
from assay.semantics.graph.functions import as_function, open_nodes
from assay.semantics.graph.matching import Bound, match_types
from assay.semantics.graph.scopes import function_scopes
from assay.semantics.module import GROUP, Module
from assay.semantics.types import same_type
from assay.semantics.walk import components, needed_first, post_order

SMALL = 8
"""A function of at most so many nodes is copied to each of its calls."""


def inline(module: Module, entries: Sequence[str] = ("main",)) -> Module:
    """Every graph function with the calls of small functions opened. `entries` are called from outside."""
    return Inlining(module, entries).run()


class Inlining:
    """Opens calls. What is opened, and how, are methods: so tests can plant faults."""

    def __init__(self, module: Module, entries: Sequence[str] = ("main",)) -> None:
        self.module = module
        self.done: dict[str, Function] = {}
        functions = {n: d for n, d in module.graphs.items() if not is_opaque(d)}
        groups = {d.attrs[GROUP] for d in module.kernels.values() if GROUP in d.attrs}
        self.functions = functions
        self.calls = {n: [c for c in called(f).functions if c in functions] for n, f in functions.items()}
        mentioned: Counter[str] = Counter(entries)
        for d in module.graphs.values():
            for node in post_order(d):
                mentioned.update(c.name for c in node.children if isinstance(c, GlobalVar))
        self.once = {n for n, count in mentioned.items() if count == 1} - groups - set(entries)
        self.recursive = {n for c in components(self.calls) for n in c if len(c) > 1 or n in self.calls[n]}

    def run(self) -> Module:
        """Open calls in each function, callees before their callers."""
        for name in needed_first(self.calls, self.calls.__getitem__):
            self.done[name] = self.function(self.functions[name])
        return self.module.with_(**self.done)

    def function(self, function: Function) -> Function:
        """A function with calls opened, of global functions and of those that a let binds."""
        order = open_nodes(function)
        if any(isinstance(n, OnDevice) for n in order):
            return function
        local = self.local(function, order)
        bound = {id(f): v for v, f in local.items()}
        new: dict[int, Expr] = {}
        for node in order:
            made = node if is_opaque(node) else node.with_children([new[id(c)] for c in node.children])
            if isinstance(made, Call):
                target = self.target(made, local)
                made = made if target is None else self.opened(made, target)
            elif id(node) in bound:
                local[bound[id(node)]] = as_function(made)
            new[id(node)] = made
        return as_function(new[id(function)])

    # --- the rules ---------------------------------------------------------------------------------------------------

    def local(self, function: Function, order: Sequence[Expr]) -> dict[Var, Function]:
        """The functions that lets bind and that may be opened: not recursive, and evaluating only what is their own."""
        shared = sharing(order, function_scopes(function).owner)
        lets = [n for n in order if isinstance(n, Let) and isinstance(n.value, Function)]
        uses = Counter(c for n in order for c in n.children if isinstance(c, Var))
        found: dict[Var, Function] = {}
        for let in lets:
            of = let.value
            assert isinstance(of, Function)
            if is_opaque(of) or id(of) in shared or let.var in free_variables(of):
                continue
            if uses[let.var] == 1 or self.size(of) <= SMALL:
                found[let.var] = of
        return found

    def target(self, call: Call, local: dict[Var, Function]) -> Function | None:
        """The function that a call opens, if it is one that may be."""
        match call.op:
            case GlobalVar(name=name) if name in self.done and name not in self.recursive:
                found = self.done[name]
                if name not in self.once and self.size(found) > SMALL:
                    return None
            case Var() if call.op in local:
                found = local[call.op]
            case _:
                return None
        return self.at(call, found)

    def size(self, function: Function) -> int:
        """The size of a function's body: its nodes but variables and names of functions."""
        return sum(1 for n in post_order(function.body) if not isinstance(n, (Var, GlobalVar)))

    def at(self, call: Call, function: Function) -> Function | None:
        """The function in the sizes of a call. None where it checks a size that the types do not show, or a value is
        elsewhere than the call has it."""
        of = function.func_type
        if (
            of.type_params
            or any(isinstance(n, OnDevice) for n in post_order(function))
            or not self.placed(call, function)
        ):
            return None
        sizes: Bound = {}
        try:
            match_types(of.params, [a.type for a in call.args], sizes)
        except Invalid:
            return None
        if any(s not in sizes for s in symbols_bound(function)):
            return None
        if any(s is not d for s, d in sizes.items()):
            function = with_sizes(function, sizes)
        pairs = [*zip((p.type for p in function.params), (a.type for a in call.args), strict=True)]
        pairs += [(function.body.type, function.result_type), (function.body.type, call.type)]
        return function if all(same_type(t, u) for t, u in pairs) else None

    def placed(self, call: Call, function: Function) -> bool:
        """Whether no value would have to be elsewhere than it is."""
        inside = all(p.device == device_of_value(a) for p, a in zip(function.params, call.args, strict=True))
        return inside and device_of_value(function.body) == call.device

    def opened(self, call: Call, function: Function) -> Expr:
        """The body in place of the call, its parameters bound to the arguments."""
        params = {p: replace(p) for p in function.params}
        body = fresh_copy(function.body, params)
        for p, a in zip(reversed(function.params), reversed(call.args), strict=True):
            body = Let(body.type, params[p], a, body, device=call.device, span=call.span)
        return body
