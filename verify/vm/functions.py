"""Which graph function each function of bytecode is (specs/verify.md, "vm").

One of the module is found by its name. A local one is matched where it is made: with a function that the source makes
there, if each value that it captures is what a free variable of that function holds, and each size that it inherits is
one that stands in it. That the two do the same, whatever is captured, is a proof of its own.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from assay.semantics import bytecode as vm, graph
from assay.semantics.instance import replaced
from assay.semantics.module import Module
from assay.semantics.scalar import Dim, Var as Symbol
from assay.semantics.tasks import Task, run_task
from assay.semantics.types import Type
from assay.semantics.walk import Worklist
from assay.verify.vm.said import names_alike
from assay.verify.vm.source import CallSite
from assay.verify.vm.terms import CLOSED, Trail, ValueTerms, in_sizes, open_sizes, opened
from assay.verify.vm.wrong import Unsound

ITSELF = -1
"""What stands for the function itself among what it captures."""
UNKNOWN = Symbol("unknown")
"""What stands for a size of which nothing is known inside of a function."""


@dataclass(frozen=True, eq=False)
class Pair:
    """A function of bytecode, and the graph function that it has to be.

    `captured` are the values of its first parameters, `free` those of the free variables; `inherited` the values of its
    first sizes, `sizes` those of the sizes around the graph function. All are over symbols of this pair alone.
    """

    number: int
    function: vm.BytecodeFunction
    node: graph.Function
    captured: Sequence[int] = ()
    free: Mapping[graph.Expr, int] = field(default_factory=dict)
    inherited: Sequence[Dim] = ()
    sizes: Mapping[Symbol, Dim] = field(default_factory=dict)
    missing: frozenset[Symbol] = frozenset()
    """Sizes around the graph function that stand in it and were not handed over."""


class Pairs:
    """The pairs that are to be proved, each once."""

    def __init__(self, before: Module, bytecode: vm.Bytecode, terms: ValueTerms) -> None:
        self.module, self.bytecode, self.terms = before, bytecode, terms
        self.open: list[Pair] = []
        self.known: dict[int, Pair] = {}
        self.places: list[Symbol] = []
        for name, function in bytecode.functions.items():
            node = before.definitions.get(name)
            if isinstance(node, graph.Function):
                self.add(Pair(terms.number("pair", name), function, node))

    def __iter__(self) -> Iterator[Pair]:
        while self.open:
            yield self.open.pop(0)

    def add(self, pair: Pair) -> None:
        """Note a pair that has to be proved."""
        if pair.number not in self.known:
            self.known[pair.number] = pair
            self.open.append(pair)

    def place(self, index: int) -> Symbol:
        """What stands for the size that a function inherits at a place, while it is not known which pair it is of."""
        while len(self.places) <= index:
            self.places.append(Symbol(f"inherited_{len(self.places)}"))
        return self.places[index]


class Closures:
    """The functions that are made in one function, as the source makes them and as its bytecode does."""

    def __init__(self, pairs: Pairs, sites: Sequence[CallSite], inside: str) -> None:
        self.pairs, self.sites, self.terms, self.inside = pairs, sites, pairs.terms, inside
        self.taken: dict[int, str] = {}
        """By the number of what the source makes the function of bytecode that was found to make it."""

    def made(self, of: vm.MakeClosure, captured: Sequence[int], sizes: Sequence[Dim], way: Trail) -> int:
        """The number of the function that an instruction makes; Unsound for one that the source does not make there."""
        if isinstance(self.pairs.module.definitions.get(of.function), graph.Function):
            return self.terms.number("global", of.function)
        function = self.pairs.bytecode.functions[of.function]
        given = list(captured)
        if of.itself is not None:
            given.insert(of.itself, ITSELF)

        def rank(site: CallSite) -> tuple[bool, int]:
            by = self.taken.get(site.number)
            return not self.is_called(of.function, site), 0 if by == of.function else 1 if by is None else 2

        for site in sorted(self.sites, key=rank):
            pair = self.pair(function, site, given, sizes, way)
            if pair is not None and self.is_called(of.function, site):
                self.taken[site.number] = of.function
                self.pairs.add(pair)
                return site.number
        raise Unsound(
            f"makes {of.function}, and the source makes no function of that name here that captures these values and"
            " sizes"
        )

    def is_called(self, function: str, site: CallSite) -> bool:
        """Whether a function of bytecode has the name of one that the source makes at a place."""
        return names_alike(function, f"{self.inside}.{site.name}")

    def pair(
        self, function: vm.BytecodeFunction, site: CallSite, given: Sequence[int], sizes: Sequence[Dim], way: Trail
    ) -> Pair | None:
        """The pair of a function with what the source makes at a place; None where that cannot be it."""
        node, terms = site.node, self.terms
        if len(function.parameters) != len(given) + len(node.params) or (ITSELF in given) != (site.own is not None):
            return None
        first = {n: i for i, n in reversed(list(enumerate(given)))}
        leaves = [n for n in site.free.values() for n in self.parts(n, first)]
        if any(n not in first and terms.keys[n][0] not in CLOSED for n in leaves):
            return None
        inside = _Inside(self.pairs, sizes, way)
        told = [inside.description(n) for n in given]
        around = {s: inside.size(d) for s, d in site.sizes.items()}
        key = [
            tuple(first[n] for n in given),
            tuple(first[n] if terms.keys[n][0] not in CLOSED else ("closed", n) for n in leaves),
            tuple(told),
            tuple(terms.text_of(d) for d in around.values()),
            tuple(terms.text_of(inside.size(d)) for d in sizes),
        ]
        number = terms.number("pair", function.name, id(node), *key)
        if number in self.pairs.known:
            return self.pairs.known[number]
        own = {self.pairs.place(j): terms.size(number, j) for j in range(len(sizes))}

        def inner(n: int) -> int:
            return n if n != ITSELF and terms.keys[n][0] in CLOSED else inside.number(n, number, first[n], node, own)

        def whole(n: int) -> Task[int]:
            if n in first or terms.keys[n][0] != "tuple":
                return terms.whole(inner(n))
            fields: list[int] = []
            for f in terms.keys[n][1]:
                fields.append((yield whole(f)))
            return terms.tuple_of(fields)

        free: dict[graph.Expr, int] = {v: run_task(whole(n)) for v, n in site.free.items()}
        if site.own is not None:
            free[site.own] = inner(ITSELF)
        inherited = [replaced(inside.size(d), own) for d in sizes]
        known = {s: replaced(d, own) for s, d in around.items() if d is not UNKNOWN}
        missing = frozenset(around) - frozenset(known)
        return Pair(number, function, node, [terms.whole(inner(n)) for n in given], free, inherited, known, missing)

    def parts(self, number: int, captured: Mapping[int, int]) -> Iterator[int]:
        """A value, or the parts of a tuple that is not captured whole."""
        work = Worklist([number])
        for part in work:
            key = self.terms.keys[part]
            if part in captured or key[0] != "tuple":
                yield part
            else:
                work.add(key[1])


class _Inside:
    """What is known inside of a function of what it captures: sizes over those that it inherits."""

    def __init__(self, pairs: Pairs, sizes: Sequence[Dim], way: Trail) -> None:
        self.pairs, self.terms, self.way = pairs, pairs.terms, way
        self.whole: dict[str, Symbol] = {}
        self.single: dict[Symbol, Dim] = {}
        for j, d in enumerate(sizes):
            d = way.facts.rewritten(d)
            if not isinstance(d, int):
                self.whole.setdefault(self.terms.text_of(d), pairs.place(j))
            if isinstance(d, Symbol):
                self.single.setdefault(d, pairs.place(j))

    def size(self, dim: Dim) -> Dim:
        """A size of the outside as one of the inside; UNKNOWN where it is none."""
        dim = self.way.facts.rewritten(dim)
        if isinstance(dim, int):
            return dim
        found = self.whole.get(self.terms.text_of(dim))
        if found is not None:
            return found
        inner = in_sizes(dim, self.single)
        return UNKNOWN if inner is None else inner

    def type_of(self, number: int) -> Type:
        """The type of a value, in sizes of the inside."""
        return opened(self.terms.type_of(number), self.size)

    def description(self, number: int) -> object:
        """What is known inside of a value that is captured."""
        terms = self.terms
        if number == ITSELF:
            return ITSELF
        if terms.keys[number][0] in CLOSED:
            return ("closed", number)
        sizes = tuple(terms.text_of(d) for d in open_sizes(self.type_of(number)))
        callee = terms.callees.get(number)
        return (sizes, id(callee), repr(terms.devices.get(number)))

    def number(self, outer: int, pair: int, index: int, node: graph.Function, own: Mapping[Symbol, Dim]) -> int:
        """The number that a captured value has inside."""
        terms = self.terms
        if outer == ITSELF:
            number = terms.give(terms.number("itself", pair), node.type)
            terms.callees[number] = node
            return number
        number = terms.number("captured", pair, index)
        places = iter(range(len(own), 1 << 30))

        def size(dim: Dim) -> Dim:
            place = next(places)
            return terms.size(number, place) if dim is UNKNOWN else replaced(dim, own)

        terms.give(number, opened(self.type_of(outer), size))
        if outer in terms.callees:
            terms.callees[number] = terms.callees[outer]
        if outer in terms.devices:
            terms.devices[number] = terms.devices[outer]
        return number
