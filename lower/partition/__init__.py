"""Parts of the graph for an external engine (row R29; specs/lower.md, "Engines").

    x, w, b = anything(), anything(), constant()
    table = [Composite("npu.linear", op("add")(op("matmul")(x, w), b)), Composite("npu.relu", op("nn.relu"))]
    module = partition(to_anf(module), "npu", table)

What the table finds becomes functions of the module with the attributes `compiler` and `global_symbol`. Inside, each
composite is a function of its own, with the attribute `composite`, and a call of it. Constants go along; `constants_of`
gives them to a compiler by name. What the module
means is the same; `assay.interp.graph.engines` runs it with an engine.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from heapq import heappop, heappush
from typing import Any

from assay.lower.chains import Chain, Chains
from assay.lower.constants.constant_table import Array, ConstantTable
from assay.lower.fuse.calls import renamed
from assay.lower.partition.composites import Composite, CompositeMatch, find, operands
from assay.lower.partition.merge import regions
from assay.semantics import graph
from assay.semantics.errors import Invalid
from assay.semantics.graph import function
from assay.semantics.graph.effects import can_fail, is_opaque
from assay.semantics.module import ConstantInfo, Definition, Module
from assay.semantics.scalar import Dim, Expr as Scalar, Var as Symbol, substitute
from assay.semantics.types import symbols
from assay.semantics.walk import post_order

__all__ = ["Composite", "constants_of", "partition"]


def partition(module: Module, compiler: str, table: Sequence[Composite], *, merge: bool = True) -> Module:
    """The module, in A-normal form, with what `table` finds as functions for `compiler`.

    With `merge` neighbouring composites are one function where that makes no cycle, else each is one. Invalid where two
    rows have one name.
    """
    names = [c.name for c in table]
    if len(set(names)) < len(names):
        raise Invalid(f"two composites are called {min(n for n in names if names.count(n) > 1)}", label="partition.C1")
    made = _Made(compiler, dict(module.definitions))
    for name, d in module.definitions.items():
        if isinstance(d, graph.Function) and not is_opaque(d):
            chains = Chains(d)

            def new(chain: Chain, chains: Chains = chains) -> list[tuple[graph.Let, graph.Expr]]:
                return _Parted(chain, chains, table, module, made, merge).lets()

            made.definitions[name] = chains.changed(new)
    return replace(module, definitions=made.definitions)


def constants_of(module: Module, name: str) -> dict[str, Array]:
    """The constants of the function of that name, at every depth, by names that are unique in the module and the same
    in every run (row C12): those of its table, and for a constant that stands in the function the name by content that
    it has there once it is extracted. Invalid where the module has no such graph function (`partition.C2`)."""
    function = module.definitions.get(name)
    if not isinstance(function, graph.Function):
        raise Invalid(f"the module has no graph function {name}", label="partition.C2")
    table = ConstantTable(module)
    found: dict[str, Array] = {}
    for node in post_order(function):
        if isinstance(node, graph.Constant):
            own = table.add(node.data, ConstantInfo(device=node.device))
            found[own] = table.arrays[own]
        elif isinstance(node, graph.GlobalVar) and node.name in module.constants:
            found[node.name] = module.constants[node.name]
    return found


@dataclass(eq=False)
class _Made:
    """The definitions so far."""

    compiler: str
    definitions: dict[str, Definition]
    count: int = 0

    def add(self, region: graph.Function) -> graph.GlobalVar:
        name = f"{self.compiler}_{self.count}"
        while name in self.definitions:
            self.count += 1
            name = f"{self.compiler}_{self.count}"
        self.definitions[name] = replace(region, attrs={"compiler": self.compiler, "global_symbol": name})
        return graph.GlobalVar(region.type, name)


@dataclass(eq=False)
class _Parted:
    """One chain: its units are the composites and every other binding."""

    chain: Chain
    chains: Chains
    table: Sequence[Composite]
    module: Module
    made: _Made
    merge: bool
    units: list[CompositeMatch | int] = field(default_factory=list)
    values: dict[graph.Var, graph.Expr] = field(default_factory=dict)
    readers: dict[graph.Var, list[int]] = field(default_factory=dict)
    """Which lets of the chain read a variable."""

    def __post_init__(self) -> None:
        for i, n in enumerate(self.chain.lets):
            self.values[n.var] = n.value
            for v in _inside(n.value):
                self.readers.setdefault(v, []).append(i)

    def lets(self) -> list[tuple[graph.Let, graph.Expr]]:
        """The lets in their new order."""
        lets = self.chain.lets
        found = find(self.chain, self.chains.escaping.__contains__, self.table, self.module)
        if not found:
            return [(n, n.value) for n in lets]
        inside = {m for match in found for m in match.members}
        self.units = sorted([*found, *(i for i in range(len(lets)) if i not in inside)], key=_last)
        reads = self.reads()
        groups = [[i] for i, u in enumerate(self.units) if isinstance(u, CompositeMatch)]
        if self.merge:
            groups = regions(reads, [isinstance(u, CompositeMatch) for u in self.units])
        whole = {i: g for g in groups for i in g}
        parts = [*groups, *([i] for i in range(len(self.units)) if i not in whole)]
        result: list[tuple[graph.Let, graph.Expr]] = []
        for part in _ordered(parts, reads):
            matches = [u for u in (self.units[i] for i in part) if isinstance(u, CompositeMatch)]
            if matches:
                result += self.called(matches)
            else:
                (i,) = (u for u in (self.units[i] for i in part) if isinstance(u, int))
                result.append((lets[i], lets[i].value))
        return _used(result, self.chains.escaping)

    def reads(self) -> list[list[int]]:
        """For each unit those that come before it: what it reads, but for constants, and what acts or may fail in the
        order in which it did."""
        lets = self.chain.lets
        maker = {lets[i].var: k for k, u in enumerate(self.units) for i in _members(u)}
        found: list[list[int]] = []
        last: int | None = None
        for k, u in enumerate(self.units):
            read = [maker[v] for v in self.taken(u) if v in maker and maker[v] != k]
            if isinstance(u, int) and (graph.acts(lets[u].value) or can_fail(lets[u].value, self.module)):
                read += [] if last is None else [last]
                last = k
            found.append(list(dict.fromkeys(read)))
        return found

    def taken(self, unit: CompositeMatch | int) -> list[graph.Var]:
        """What a unit reads; constants go along and are not counted."""
        if isinstance(unit, CompositeMatch):
            return [v for v in operands(self.chain, unit.members) if not self.is_constant(v)]
        value = self.chain.lets[unit].value
        plain = all(isinstance(c, graph.Var) or not c.children for c in value.children)
        return [c for c in value.children if isinstance(c, graph.Var)] if plain else list(_inside(value))

    def is_constant(self, v: graph.Var) -> bool:
        return isinstance(self.values.get(v), (graph.Constant, graph.GlobalVar))

    # --- a region ----------------------------------------------------------------------------------------------------

    def called(self, matches: Sequence[CompositeMatch]) -> Iterator[tuple[graph.Let, graph.Expr]]:
        """The lets that call a region and name its results."""
        lets = self.chain.lets
        members = [m for match in matches for m in match.members]
        args = [v for v in operands(self.chain, members) if not self.is_constant(v)]
        outputs = [lets[m.root] for m in matches if self.is_output(lets[m.root].var, set(members))]
        callee = self.made.add(self.region(matches, args, [n.var for n in outputs]))
        first = outputs[0]
        if len(outputs) == 1:
            value = graph.Call(
                first.value.type, callee, tuple(args), {}, span=first.value.span, device=first.value.device
            )
            yield first, value
            return
        kind = graph.tuple_of(*(n.var for n in outputs)).type
        whole = graph.var(f"{callee.name}_results", kind)
        yield replace(first, var=whole), graph.Call(kind, callee, tuple(args), {}, span=first.value.span)
        for i, n in enumerate(outputs):
            yield n, replace(graph.get(whole, i, n.value.span), device=n.value.device)

    def is_output(self, v: graph.Var, members: set[int]) -> bool:
        return v in self.chains.escaping or not members.issuperset(self.readers.get(v, ()))

    def region(
        self, matches: Sequence[CompositeMatch], args: Sequence[graph.Var], outputs: Sequence[graph.Var]
    ) -> graph.Function:
        """The function of a region: each composite as a function that is called."""
        fresh: dict[Symbol, Dim] = {s: Symbol(s.name) for a in args for s in symbols(a.type)}
        params = {a: graph.var(f"x{i}", renamed(a.type, fresh)) for i, a in enumerate(args)}
        holds: dict[graph.Var, graph.Expr] = dict(params)
        body: list[tuple[graph.Var, graph.Expr]] = []
        for i, match in enumerate(matches):
            inputs = [v for v in operands(self.chain, match.members) if not self.is_constant(v)]
            part = self.composite(match, inputs)
            name = graph.var(f"f{i}", part.type)
            made = graph.var(self.chain.lets[match.root].var.name, renamed(self.chain.lets[match.root].var.type, fresh))
            body.append((name, part))
            body.append((made, replace(graph.call(name, *(holds[v] for v in inputs)), type=made.type)))
            holds[self.chain.lets[match.root].var] = made
        results = [holds[v] for v in outputs]
        result: graph.Expr = results[0]
        if len(results) > 1:
            whole = graph.tuple_of(*results)
            body.append((graph.var("results", whole.type), whole))
            result = body[-1][0]
        for name, value in reversed(body):
            result = graph.let(name, value, result)
        return function(list(params.values()), result)

    def composite(self, match: CompositeMatch, inputs: Sequence[graph.Var]) -> graph.Function:
        fresh: dict[Symbol, Dim] = {s: Symbol(s.name) for v in inputs for s in symbols(v.type)}
        holds: dict[graph.Expr, graph.Expr] = {
            v: graph.var(f"p{i}", renamed(v.type, fresh)) for i, v in enumerate(inputs)
        }
        params = [p for p in holds.values() if isinstance(p, graph.Var)]
        body: list[tuple[graph.Var, graph.Expr]] = []
        for m in match.members:
            old = self.chain.lets[m]
            for v in (c for c in old.value.children if isinstance(c, graph.Var)):
                if v not in holds:
                    holds[v] = graph.var(v.name, v.type)
                    body.append((graph.var(v.name, v.type), self.values[v]))
                    holds[v] = body[-1][0]
            value = old.value.with_children([holds.get(c, c) for c in old.value.children])
            value = replace(value, type=renamed(value.type, fresh))
            if isinstance(value, graph.Call):
                value = replace(value, attrs={k: _renamed_attr(a, fresh) for k, a in value.attrs.items()})
            body.append((graph.var(old.var.name, value.type), value))
            holds[old.var] = body[-1][0]
        result: graph.Expr = body[-1][0]
        for name, value in reversed(body):
            result = graph.let(name, value, result)
        return function(params, result, composite=match.composite.name)


def _members(unit: CompositeMatch | int) -> Sequence[int]:
    return unit.members if isinstance(unit, CompositeMatch) else (unit,)


def _last(unit: CompositeMatch | int) -> int:
    return unit.root if isinstance(unit, CompositeMatch) else unit


def _inside(value: graph.Expr) -> Iterator[graph.Var]:
    """The variables that are used anywhere in a value."""
    return (n for n in post_order(value) if isinstance(n, graph.Var))


def _ordered(parts: Sequence[Sequence[int]], reads: Sequence[Sequence[int]]) -> Iterator[Sequence[int]]:
    """Parts in an order in which each comes after what it reads, as early as its last unit stood."""
    home = {i: k for k, part in enumerate(parts) for i in part}
    needs = [{home[j] for i in part for j in reads[i]} - {k} for k, part in enumerate(parts)]
    users: list[list[int]] = [[] for _ in parts]
    for k, some in enumerate(needs):
        for n in some:
            users[n].append(k)
    left = [len(n) for n in needs]
    ready: list[tuple[int, int]] = []
    for k, n in enumerate(left):
        if not n:
            heappush(ready, (max(parts[k]), k))
    while ready:
        _, k = heappop(ready)
        yield parts[k]
        for user in users[k]:
            left[user] -= 1
            if not left[user]:
                heappush(ready, (max(parts[user]), user))


def _used(lets: Sequence[tuple[graph.Let, graph.Expr]], escaping: set[graph.Var]) -> list[tuple[graph.Let, graph.Expr]]:
    """The lets without constants that only regions used."""
    read = {v for _, value in lets for v in _inside(value)} | escaping
    return [(n, value) for n, value in lets if not isinstance(value, graph.Constant) or n.var in read]


def _renamed_attr(value: Any, by: Mapping[Symbol, Dim]) -> Any:
    if isinstance(value, Scalar):
        return substitute(value, by)
    return tuple(_renamed_attr(v, by) for v in value) if isinstance(value, tuple) else value
