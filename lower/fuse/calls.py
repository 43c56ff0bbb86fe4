"""Groups of calls become functions of their own, marked as primitive (row R23; specs/lower.md, "fuse").

Every let chain is looked at by itself, in branches and inner functions too. A group's function holds its calls as they
were; the call of it stands where the group's last call stood, so nothing that acts or may trap is passed by but what is
pure and total. Groups of one form share one function.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from assay.lower.chains import Chain, Chains
from assay.lower.fuse.groups import Binding, Limits, groups
from assay.semantics import graph
from assay.semantics.alias import device_of
from assay.semantics.graph import var
from assay.semantics.graph.effects import is_opaque
from assay.semantics.graph.sizes import sizes_in
from assay.semantics.module import Definition, Module
from assay.semantics.names import unused
from assay.semantics.scalar import Dim, Expr as Scalar, Var as Symbol, substitute
from assay.semantics.types import Type, dims, flatten, symbols, with_dims

LONGEST = 48
"""Characters of the calls' names in the name of a group."""


def fuse_calls(module: Module, limits: Limits | None = None) -> Module:
    """The module with each group of calls of tensor functions as a call of a primitive function."""
    made = _Made(dict(module.definitions), module, limits or Limits())
    for name, d in module.graphs.items():
        if not is_opaque(d):
            made.definitions[name] = _fused(d, made)
    return (
        module
        if all(made.definitions[n] is d for n, d in module.definitions.items())
        else replace(module, definitions=made.definitions)
    )


@dataclass(eq=False)
class _Made:
    """The definitions so far, and the group functions by their form."""

    definitions: dict[str, Definition]
    module: Module
    limits: Limits
    known: dict[tuple[Any, ...], str] = field(default_factory=dict)

    def group(self, members: Sequence[Binding]) -> tuple[graph.GlobalVar, list[graph.Expr]] | None:
        """The function of a group and what it is called with; None where it could not tell its sizes."""
        own: dict[graph.Expr, int] = {v: i for i, (v, _) in enumerate(members)}
        outside: dict[graph.Expr, int] = {}
        for _, value in members:
            for a in value.children:
                if a not in own:
                    outside.setdefault(a, len(outside))
        bound = {d for a in outside for d in _dims(a.type) if isinstance(d, Symbol)}
        needed = {s for v, c in members for t in (v.type, *(a.type for a in c.children)) for s in symbols(t)}
        needed |= {s for _, c in members if isinstance(c, graph.CallTIR) for s in sizes_in(c.scalars)}
        if not needed <= bound:
            return None
        fresh = {s: Symbol(s.name) for a in outside for s in _dims(a.type) if isinstance(s, Symbol)}
        params = [replace(var(f"x{i}", renamed(a.type, fresh)), device=a.device) for a, i in outside.items()]
        key = _form(members, own, outside, fresh)
        if key not in self.known:
            self.known[key] = name = self.name([c.func for _, c in members if isinstance(c, graph.CallTIR)])
            self.definitions[name] = _function(members, dict(zip(outside, params, strict=True)), fresh)
        made = self.definitions[self.known[key]]
        assert isinstance(made, graph.Function)
        return graph.GlobalVar(made.type, self.known[key], device=made.device), list(outside)

    def name(self, kernels: Sequence[str]) -> str:
        return unused("_".join(["group", *kernels])[:LONGEST].rstrip("_"), self.definitions)


def _dims(of: Type) -> Iterator[Dim]:
    for t in flatten(of):
        yield from dims(t)


def renamed(of: Type, by: Mapping[Symbol, Dim]) -> Type:
    """A type with its symbols replaced."""
    return with_dims(of, lambda d: _renamed_dim(d, by))


def _renamed_dim(dim: Dim, by: Mapping[Symbol, Dim]) -> Dim:
    return substitute(dim, by) if isinstance(dim, Scalar) else dim


def _form(
    members: Sequence[Binding],
    own: Mapping[graph.Expr, int],
    outside: Mapping[graph.Expr, int],
    fresh: Mapping[Symbol, Symbol],
) -> tuple[Any, ...]:
    """What two groups that are one function agree in."""
    names = {s: Symbol(f"s{i}") for i, s in enumerate(fresh)}
    calls = [
        (
            value.func,
            tuple(own[a] if a in own else -1 - outside[a] for a in value.args),
            str(renamed(value.type, names)),
            tuple(str(_renamed_dim(d, names)) for d in value.scalars),
            (var.device, value.device),
        )
        for var, value in members
        if isinstance(value, graph.CallTIR)
    ]
    return (tuple(calls), tuple((str(renamed(a.type, names)), a.device) for a in outside))


def _function(
    members: Sequence[Binding], params: Mapping[graph.Expr, graph.Var], fresh: Mapping[Symbol, Symbol]
) -> graph.Function:
    """The calls of a group as a function of what they take from outside."""
    new: dict[graph.Expr, graph.Expr] = dict(params)
    body: list[tuple[graph.Var, graph.Expr]] = []
    for v, value in members:
        assert isinstance(value, graph.CallTIR)
        made = replace(
            value,
            type=renamed(value.type, fresh),
            args=tuple(new[a] for a in value.args),
            scalars=tuple(_renamed_dim(d, fresh) for d in value.scalars),
        )
        name = replace(var(v.name, made.type), device=v.device)
        new[v] = name
        body.append((name, made))
    result: graph.Expr = body[-1][0]
    device = device_of(*members[-1])
    for name, bound in reversed(body):
        result = replace(graph.let(name, bound, result), device=device)
    return replace(graph.function(list(params.values()), result, primitive=1), device=device)


def _fused(root: graph.Function, made: _Made) -> graph.Function:
    """A function with its groups as calls."""
    chains = Chains(root)
    fixed: set[graph.Var] = set()

    def new(chain: Chain) -> list[tuple[graph.Let, graph.Expr]]:
        pairs = [(n.var, n.value) for n in chain.lets]
        instead: dict[int, graph.Expr | None] = {}
        for members in groups(pairs, chains.escaping.__contains__, fixed, made.module, made.limits):
            group = made.group([pairs[i] for i in members])
            if group is not None:
                last = pairs[members[-1]][1]
                instead.update(dict.fromkeys(members, None))
                instead[members[-1]] = graph.Call(
                    last.type, group[0], tuple(group[1]), {}, span=last.span, device=last.device
                )
        values = ((n, instead.get(i, n.value)) for i, n in enumerate(chain.lets))
        return [(n, value) for n, value in values if value is not None]

    return chains.changed(new)
