"""Values and what happens, as numbers that the graph function and its bytecode share (specs/verify.md, "vm").

A value is a term over the parameters. What happens on the way to a place is a chain of events, and has a number too:
two ways of one number have the same actions, the same checks and the same calls, in one order. The sizes of a value
are symbols of their own, or expressions over those of others.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from assay.semantics import graph
from assay.semantics.devices import ANYWHERE, VirtualDevice
from assay.semantics.dtypes import dtype
from assay.semantics.instance import replaced
from assay.semantics.module import Module
from assay.semantics.ops.sizes import never_negative
from assay.semantics.scalar import Dim, Var as Symbol, provably_equal, show, simplify, variables
from assay.semantics.size_facts import SizeFacts
from assay.semantics.tasks import Task, run_task
from assay.semantics.types import DataType, ObjectType, ShapeType, TensorType, TupleType, Type, TypeVar, dims
from assay.semantics.walk import Worklist
from assay.verify.value_numbering.terms import Table, dim_text, type_text
from assay.verify.vm.alike import numbered
from assay.verify.vm.wrong import NotThere, Unsound

Pair = tuple[Dim, Dim]
CLOSED = ("constant", "late", "global", "extern", "constructor")
"""What a number means wherever it stands: in a function and in those inside of it."""


@dataclass
class Trail:
    """What has happened on the way to a place, and what is known there of sizes."""

    events: int
    facts: SizeFacts = field(default_factory=SizeFacts)
    natural: tuple[Dim, ...] = ()
    """Sizes that were found to be no less than 0."""

    def copy(self) -> Trail:
        """The same way, for one of several that go on from here."""
        return replace(self)


@dataclass
class ValueTerms(Table):
    """The numbers of one proof, with the types of values. Each size in such a type has a value wherever the number
    has one."""

    typed: dict[int, Type] = field(default_factory=dict)
    callees: dict[int, graph.Function] = field(default_factory=dict)
    """The function that a value is, where that is known."""
    devices: dict[int, VirtualDevice] = field(default_factory=dict)
    """Where a tensor lives."""
    late: frozenset[str] = frozenset()
    """The constants whose contents are bound when the program is loaded."""
    wholes: dict[int, int] = field(default_factory=dict)

    # --- types ---------------------------------------------------------------------------------------------------

    def type_of(self, number: int) -> Type:
        """The type of a value; Unsound for one that the source does not have."""
        found = self.typed.get(number)
        if found is None and self.keys[number][0] == "field":
            _, whole, index = self.keys[number]
            of = self.typed.get(whole)
            if isinstance(of, TupleType) and index < len(of.fields):
                found = self.typed[number] = of.fields[index]
        if found is None:
            raise NotThere("takes a value that the source does not compute")
        return found

    def give(self, number: int, of: Type) -> int:
        """A number, with a type if it has none yet."""
        self.typed.setdefault(number, of)
        return number

    def unknown(self, number: int, of: Type, known: Mapping[Symbol, Dim] | None = None) -> int:
        """A value of a type of which sizes are not believed: each is a symbol of its own, but those that are
        expressions over what is `known`."""
        if number not in self.typed:
            places = iter(range(1 << 30))
            self.typed[number] = opened(of, lambda d: self._own(number, next(places), d, known))
        return self.whole(number)

    def whole(self, number: int) -> int:
        """A value; a tuple as that of its fields, so that each has one number."""
        if number not in self.wholes:
            self.wholes[number] = run_task(self._whole(number))
        return self.wholes[number]

    def _whole(self, number: int) -> Task[int]:
        try:
            of = self.type_of(number)
        except Unsound:  # nothing that the source has: whoever needs its type says so
            return number
        if not isinstance(of, TupleType) or self.keys[number][0] == "tuple":
            return number
        fields: list[int] = []
        for i in range(len(of.fields)):
            fields.append((yield self._whole(self.number("field", number, i))))
        return self.tuple_of(fields)

    def _own(self, number: int, place: int, dim: Dim, known: Mapping[Symbol, Dim] | None) -> Dim:
        if known is not None and (found := in_sizes(dim, known)) is not None:
            return found
        return self.size(number, place)

    def size(self, number: int, place: int) -> Symbol:
        """The symbol for one of the sizes of a value."""
        return self.sizes.setdefault((number, place), Symbol(f"size_{len(self.sizes)}"))

    # --- values --------------------------------------------------------------------------------------------------

    def array(self, data: object) -> int:
        """The number of a constant."""
        number = self.constant(data)  # type: ignore[arg-type]
        held = self.constants[number]
        return self.give(number, TensorType(held.shape, dtype(held.dtype)))

    def named_constant(self, module: Module, name: str) -> int:
        """The number of a constant of the table: that of its contents, unless these are bound late."""
        number = self.array(module.constants[name])
        if name in self.late:
            number = self.give(self.number("late", name), self.typed[number])
        return self.on(number, module.info(name).device)

    def tuple_of(self, fields: Sequence[int]) -> int:
        """The number of a tuple."""
        number = self.number("tuple", tuple(fields))
        if number not in self.typed and all(f in self.typed for f in fields):
            self.typed[number] = TupleType(tuple(self.typed[f] for f in fields))
        return number

    def part(self, value: int, index: int) -> int:
        """The number of a field of a tuple."""
        key = self.keys[value]
        if key[0] != "tuple":
            return self.number("field", value, index)
        if not 0 <= index < len(key[1]):
            raise Unsound(f"takes field {index} of a tuple that has {len(key[1])}")
        return int(key[1][index])

    def made_of(self, value: int, constructor: str, index: int) -> int:
        """The number of a field of a data value that a constructor has made."""
        key = self.keys[value]
        if key[0] == "data" and key[2] == constructor and 0 <= index < len(key[3]):
            return int(key[3][index])
        return self.number("field of", value, constructor, index)

    def view(self, value: int, of: TensorType, way: Trail) -> int:
        """The number of the elements of a tensor under another shape."""
        key = self.keys[value]
        base = key[1] if key[0] == "view" else value
        held = self.type_of(base)
        if isinstance(held, TensorType) and held.dtype is of.dtype and self.same_shape(held.shape, of.shape, way):
            return int(base)
        if not isinstance(held, TensorType) or held.dtype is not of.dtype:
            raise Unsound(f"views a {held} as a {of}")
        of = self.written(of, way)
        number = self.number("view", base, *map(self.text_of, of.shape))
        if not way.facts.same_size(held.shape, of.shape):
            self.event(way, "view", number)
        if value in self.devices:
            self.devices.setdefault(number, self.devices[value])
        return self.give(number, of)

    def shape(self, dims: Sequence[Dim], way: Trail) -> int:
        """The number of a shape as a value."""
        known = tuple(map(way.facts.rewritten, dims))
        return self.give(self.number("shape", *map(self.text_of, known)), ShapeType(known))

    def choice(self, condition: int, then: tuple[int, Trail], otherwise: tuple[int, Trail]) -> int:
        """What a choice gives of the values that its ways leave: the one value where both give it; of tuples a choice
        for each field."""
        (a, first), (b, second) = then, otherwise
        return run_task(self._choice(condition, a, b, (first.facts, second.facts)))

    def _choice(self, condition: int, then: int, otherwise: int, facts: tuple[SizeFacts, SizeFacts]) -> Task[int]:
        if then == otherwise:
            return then
        one, other = self.keys[then], self.keys[otherwise]
        if one[0] == other[0] == "tuple" and len(one[1]) == len(other[1]):
            fields: list[int] = []
            for a, b in zip(one[1], other[1], strict=True):
                fields.append((yield self._choice(condition, a, b, facts)))
            return self.tuple_of(fields)
        of: Type | None = None
        if then in self.typed and otherwise in self.typed:
            of = self._joined(condition, self.typed[then], self.typed[otherwise], facts)
        # sizes are written by what is known on these ways: where other things are known it is another number
        sizes = tuple(map(self.text_of, open_sizes(of))) if of is not None else ()
        number = self.number("if", condition, then, otherwise, sizes)
        if of is not None:
            self.give(number, of)
        if then in self.devices and self.devices.get(otherwise) == self.devices[then]:
            self.devices[number] = self.devices[then]
        return number

    def _joined(self, condition: int, then: Type, otherwise: Type, facts: tuple[SizeFacts, SizeFacts]) -> Type:
        """The type of a choice: a size is that of both, or a choice between the two."""
        sizes = [open_sizes(t) for t in (then, otherwise)]
        if len(sizes[0]) != len(sizes[1]):
            raise Unsound(f"the two ways to a choice give {then} and {otherwise}")
        chosen = iter([self._chosen(condition, a, b, facts) for a, b in zip(*sizes, strict=True)])
        return opened(then, lambda d: next(chosen))

    def chosen(self, condition: int, then: tuple[Dim, Trail], otherwise: tuple[Dim, Trail]) -> Dim:
        """What stands for a size that is one on one way, and another on the other."""
        return self._chosen(condition, then[0], otherwise[0], (then[1].facts, otherwise[1].facts))

    def _chosen(self, condition: int, then: Dim, otherwise: Dim, facts: tuple[SizeFacts, SizeFacts]) -> Dim:
        if provably_equal(then, otherwise):
            return then
        then, otherwise = (f.rewritten(d) for d, f in zip((then, otherwise), facts, strict=True))
        if provably_equal(then, otherwise):
            return then
        return self.size(self.number("size", condition, *(self.text_of(d) for d in (then, otherwise))), 0)

    # --- sizes ---------------------------------------------------------------------------------------------------

    def text_of(self, dim: Dim) -> str:
        """A size as text, the same for the same."""
        return dim_text(simplify(dim), lambda s: f"@{self.symbol(s)}")

    def written(self, of: TensorType, way: Trail) -> TensorType:
        """A type in the form that its sizes have by what is known on a way. Numbers are told apart by it, so that a
        type is right wherever its number is met."""
        return TensorType(tuple(map(way.facts.rewritten, of.shape)), of.dtype)

    def sized_texts(self, dims: Iterable[Dim], way: Trail) -> tuple[str, ...]:
        """Sizes as texts, in the form that they have by what is known on a way."""
        return tuple(self.text_of(way.facts.rewritten(d)) for d in dims)

    def type_as_seen(self, of: Type, sizes: Mapping[Symbol, Dim], way: Trail) -> str:
        """A type as text, in the sizes of values; each that has no value is numbered as it comes."""
        unknown: dict[Symbol, Dim] = {}

        def text(dim: Dim) -> str:
            for v in variables(dim):
                if v not in sizes and v not in unknown:
                    unknown[v] = Symbol(f"?{len(unknown)}")
            known = in_sizes(dim, {**sizes, **unknown})
            assert known is not None
            names = {v for v in unknown.values() if isinstance(v, Symbol)}
            told = simplify(way.facts.rewritten(known))
            return dim_text(told, lambda s: s.name if s in names else f"@{self.symbol(s)}")

        return type_text(numbered(of), text, self)

    def same_shape(self, a: Sequence[Dim], b: Sequence[Dim], way: Trail) -> bool:
        """Whether two shapes are equal, as far as is known on a way."""
        return len(a) == len(b) and all(way.facts.equal(x, y) for x, y in zip(a, b, strict=True))

    def on(self, value: int, device: VirtualDevice) -> int:
        """The number of a tensor on a device: the same bits on two devices are two values."""
        if device == ANYWHERE:
            return value
        number = self.number("on", value, repr(device))
        self.devices[number] = device
        if value in self.typed:
            self.typed.setdefault(number, self.typed[value])
        return number

    def tensors(self, value: int, of: Type) -> list[int]:
        """The numbers of the tensors in a value, left to right."""
        found: list[int] = []
        work = Worklist([(value, of)])
        for number, kind in work:
            if isinstance(kind, TupleType):
                work.add((self.part(number, i), t) for i, t in enumerate(kind.fields))
            else:
                found.append(number)
        return found

    def bind(self, wanted: Type, value: int, sizes: dict[Symbol, Dim]) -> list[Pair]:
        """Symbols of a type that have no value get theirs from a value, in `sizes`; what the other sizes have to be:
        pairs of the size of the value and the dim."""
        later: list[Pair] = []
        work = Worklist[tuple[Type, Type]]([(wanted, self.type_of(value))])
        for want, have in work:
            if isinstance(want, TupleType):
                if not isinstance(have, TupleType) or len(have.fields) != len(want.fields):
                    raise Unsound(f"a value of type {have} is taken as {want}")
                work.add(zip(want.fields, have.fields, strict=True))
                continue
            if not isinstance(want, TensorType | ShapeType):
                if not _alike(want, have):
                    raise Unsound(f"a value of type {have} is taken as {want}")
                continue
            if not _alike(want, have):
                raise Unsound(f"a value of type {have} is taken as {want}")
            for d, n in zip(dims(want), dims(have), strict=True):
                if isinstance(d, Symbol) and d not in sizes:
                    sizes[d] = n
                else:
                    later.append((n, d))
        return later

    def meet(self, wanted: Type, value: int, sizes: dict[Symbol, Dim], where: str) -> list[Pair]:
        """A value is to have a type (rule M4): symbols without a value get theirs, in `sizes`; the pairs of sizes that
        have to be equal for the others, that of the value first."""
        return self.paired(self.bind(wanted, value, sizes), sizes, where)

    def paired(self, later: Iterable[Pair], sizes: Mapping[Symbol, Dim], where: str) -> list[Pair]:
        """Pairs of a size and a dim, with the values of symbols for them in the dim."""
        found: list[Pair] = []
        for n, d in later:
            known = in_sizes(d, sizes)
            if known is None:
                raise Unsound(f"{where}: the size {show(d)} has no value there")
            found.append((n, known))
        return found

    # --- what happens ----------------------------------------------------------------------------------------------

    def event(self, way: Trail, *what: object) -> int:
        """Something happens; the number of what has happened up to then."""
        way.events = self.number("after", way.events, what)
        return way.events

    def result(self, way: Trail) -> int:
        """The number of what the last event gave."""
        return self.number("result", way.events)

    def require(self, way: Trail, pairs: Iterable[Pair], label: str) -> None:
        """Pairs of sizes have to be equal here; nothing where that is known. Checks that stand together are one."""
        asked: list[str] = []
        for a, b in pairs:
            if way.facts.equal(a, b):
                continue
            asked.append(" = ".join(sorted(self.sized_texts((a, b), way))))
            way.facts = way.facts.and_([(b, a) if isinstance(a, int) else (a, b)])  # a number stands for a symbol
        if not asked:
            return
        key = self.keys[way.events]
        if key[0] == "after" and key[2][:2] == ("sizes", label):
            way.events, asked = key[1], [*key[2][2], *asked]
        self.event(way, "sizes", label, tuple(sorted(set(asked))))

    def naturals(self, way: Trail, dims: Iterable[Dim]) -> None:
        """Sizes have to be no less than 0 here; nothing where that is known."""
        for d in dims:
            told = way.facts.rewritten(d)
            if not never_negative(told) and not any(provably_equal(told, n) for n in way.natural):
                way.natural = (*way.natural, told)
                self.event(way, "natural", self.text_of(told))

    def branch(self, base: Trail, condition: int, then: Trail, otherwise: Trail) -> Trail:
        """The way behind a choice whose two ways meet: nothing has happened if nothing did on either."""
        way = base.copy()
        if then.events != otherwise.events:
            self.event(way, "branch", condition, then.events, otherwise.events)
        return way

    def ends(self, way: Trail, condition: int, holds: bool, how: int) -> None:
        """The run ends here, after what `how` says, if a condition holds, or if it does not."""
        self.event(way, "ends", condition, holds, how)


def _alike(want: Type, have: Type) -> bool:
    """Whether a value of one type may be one of another, as far as that does not depend on sizes."""
    match want, have:
        case TensorType(), TensorType():
            return want.dtype is have.dtype and want.ndim == have.ndim
        case ShapeType(), ShapeType():
            return len(want.dims) == len(have.dims)
        case DataType(), DataType():
            return want.name == have.name
        case (TypeVar() | ObjectType(), _) | (_, TypeVar() | ObjectType()):
            return True
        case _:
            return type(want) is type(have)


def opened(of: Type, change: Callable[[Dim], Dim]) -> Type:
    """A type with other sizes for those that a value of it tells, left to right: of tensors and shapes, in tuples or
    not."""
    return run_task(_opened(of, change))


def _opened(of: Type, change: Callable[[Dim], Dim]) -> Task[Type]:
    match of:
        case TensorType():
            return TensorType(tuple(map(change, of.shape)), of.dtype)
        case ShapeType():
            return ShapeType(tuple(map(change, of.dims)))
        case TupleType():
            fields: list[Type] = []
            for t in of.fields:
                fields.append((yield _opened(t, change)))
            return TupleType(tuple(fields))
        case _:
            return of


def open_sizes(of: Type) -> list[Dim]:
    """The sizes that a value of a type tells, in the order of `opened`."""
    found: list[Dim] = []
    opened(of, lambda d: found.append(d) or d)  # type: ignore[func-returns-value]
    return found


def in_sizes(dim: Dim, sizes: Mapping[Symbol, Dim]) -> Dim | None:
    """A size with the values of its symbols for them; None where one has none."""
    if isinstance(dim, int):
        return dim
    if any(v not in sizes for v in variables(dim)):
        return None
    return replaced(dim, sizes)
