"""One function of bytecode while it is written: its registers, sizes and instructions (specs/lower.md, "vm")."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import TypeAlias

from assay.semantics import bytecode as vm, graph
from assay.semantics.errors import Crash, Span, Unsupported
from assay.semantics.graph.limits import declared_limits
from assay.semantics.graph.sizes import has_explicit_shapes
from assay.semantics.names import unused
from assay.semantics.scalar import Dim, Expr as Scalar, Interner, Var as Symbol, show, substitute, variables
from assay.semantics.types import FuncType, ShapeType, TensorType, TupleType, Type, dims, open_symbols, with_dims
from assay.semantics.walk import Worklist

Held: TypeAlias = "vm.Register | tuple[Held, ...] | graph.Expr"
"""Where a value is: in a register; in parts, of a tuple that no instruction has made; or in a name of the module, which
is loaded where it is used. Captured values are in registers below 0 while a function is written."""


NAMED = ": with explicit shapes a size is what a statement has named, and bytecode takes memory by it"
"""Why a size is wanting in a function of which statements check and name the sizes."""


@dataclass(frozen=True)
class Label(vm.Instruction):
    """A place in the text to which jumps go by its number."""

    number: int


@dataclass(eq=False)
class Routine:
    """A function that is being written. `outer` is the one in which it stands, `itself` the variable that it is."""

    name: str
    function: graph.Function
    outer: Routine | None = None
    itself: graph.Var | None = None
    number: Interner = field(default_factory=Interner)
    """Numbers for sizes by structure, the same in all functions."""
    body: list[vm.Instruction] = field(default_factory=list)
    count: int = 0
    labels: int = 0
    names: dict[vm.Register, str] = field(default_factory=dict)
    held: dict[graph.Expr, Held] = field(default_factory=dict)
    captured: dict[vm.Register, tuple[Held | None, Type]] = field(default_factory=dict)
    """Of each captured register what it is outside (None: the closure itself), and its type."""
    sizes: dict[Symbol, Symbol] = field(default_factory=dict)
    """The sizes that have values here, by symbol; those of functions around are added when they are used."""
    inherited: dict[Symbol, Dim] = field(default_factory=dict)
    """Of each size that is taken from outside what it is there."""
    bound: dict[Symbol, None] = field(default_factory=dict)
    """All sizes that instructions bind, in order."""
    log: list[Symbol] = field(default_factory=list)
    slots: dict[int, Symbol] = field(default_factory=dict)
    """With explicit shapes the names of sizes that are larger expressions, by structure."""
    size_names: set[str] = field(default_factory=set)
    signature: list[Type] = field(default_factory=list)
    """The types of captured values, of parameters and of the result, once all is written."""

    @property
    def explicit(self) -> bool:
        """Whether statements check and name the sizes (rule M4.7)."""
        return has_explicit_shapes(self.function)

    # --- registers ----------------------------------------------------------------------------------------------------

    def add(self, instruction: vm.Instruction) -> None:
        """The next instruction."""
        self.body.append(instruction)

    def fresh(self, name: str = "") -> vm.Register:
        """A new register."""
        self.count += 1
        if name:
            self.names[self.count - 1] = name
        return self.count - 1

    def label(self) -> int:
        """A new number for a place."""
        self.labels += 1
        return self.labels - 1

    def look(self, node: graph.Expr) -> Held:
        """Where an operand is."""
        if not isinstance(node, graph.Var):
            return node
        path: list[Routine] = []
        at: Routine | None = self
        while at is not None and node not in at.held and node is not at.itself:
            path.append(at)
            at = at.outer
        if at is None:
            raise Crash(f"unbound variable {node.name}", where=node.span)
        if node not in at.held:
            at.held[node] = at.capture(None, node.type, node.name)
        found = at.held[node]
        for inner in reversed(path):
            found = inner.held[node] = inner.captures(found, node.type, node.name)
        return found

    def captures(self, outside: Held, of: Type, name: str) -> Held:
        """Where in this function what is held outside is."""
        if isinstance(outside, tuple):
            fields = of.fields if isinstance(of, TupleType) else (of,) * len(outside)
            return tuple(self.captures(h, t, name) for h, t in zip(outside, fields, strict=True))
        return self.capture(outside, of, name) if isinstance(outside, int) else outside

    def capture(self, outside: Held | None, of: Type, name: str) -> vm.Register:
        """A register that the closure fills."""
        found = -1 - len(self.captured)
        self.captured[found] = outside, of
        self.names[found] = name
        return found

    def register(self, held: Held, span: Span | None = None, name: str = "") -> vm.Register:
        """The register that holds a value, which is made one if it is in parts or in a name."""
        return held if isinstance(held, int) else self.load(held, self.fresh(name), span)

    def load(self, held: Held, to: vm.Register, span: Span | None = None) -> vm.Register:
        """`to` holds the value."""
        match held:
            case int():
                self.add(vm.Move(to, held, span=span))
            case tuple():
                self.add(vm.MakeTuple(to, tuple(self.register(h, span) for h in held), span=span))
            case graph.GlobalVar() if isinstance(held.type, FuncType):
                self.add(vm.MakeClosure(to, held.name, span=span))
            case graph.GlobalVar():
                self.add(vm.LoadConstant(to, held.name, span=span))
            case graph.ExternFunc():
                assert isinstance(held.type, FuncType)
                self.add(vm.LoadExtern(to, held.name, held.type, span=span))
            case graph.Constructor():
                self.add(vm.LoadConstructor(to, held.data, held.name, span=span))
            case _:
                raise Crash(f"{graph.show_head(held)} is no operand", where=held.span)
        return to

    def part(self, held: Held, index: int, span: Span | None = None) -> Held:
        """A field of a tuple or data value."""
        if isinstance(held, tuple):
            return held[index]
        to = self.fresh()
        self.add(vm.GetField(to, self.register(held, span), index, span=span))
        return to

    def leaves(self, held: Held, of: Type, span: Span | None = None) -> list[vm.Register]:
        """The registers of the tensors in a value, left to right."""
        out: list[vm.Register] = []
        work = Worklist[tuple[Held, Type]]([(held, of)])
        for h, t in work:
            if isinstance(t, TupleType):
                work.add([(self.part(h, i, span), f) for i, f in enumerate(t.fields)])
            else:
                out.append(self.register(h, span))
        return out

    def call(self, held: Held, name: str) -> None:
        """What the source calls a value."""
        if isinstance(held, int):
            self.names.setdefault(held, name)
        elif isinstance(held, tuple):
            for i, part in enumerate(held):
                self.call(part, f"{name}.{i}")

    # --- sizes --------------------------------------------------------------------------------------------------------

    def size(self, symbol: Symbol) -> Symbol | None:
        """The size that a symbol is here; None where it has no value."""
        path: list[Routine] = []
        at: Routine | None = self
        while at is not None and symbol not in at.sizes:
            path.append(at)
            at = at.outer
        if at is None:
            return None
        found = at.sizes[symbol]
        for inner in reversed(path):
            own = inner.named(symbol)
            inner.inherited[own] = found
            found = inner.sizes[symbol] = own
        return found

    def named(self, symbol: Symbol) -> Symbol:
        """The symbol, or a new one where its name is taken."""
        name = unused(symbol.name, self.size_names)
        self.size_names.add(name)
        return symbol if name == symbol.name else Symbol(name)

    def bind(self, symbol: Symbol) -> Symbol:
        """A symbol gets a value here."""
        own = self.named(symbol)
        self.bound[own] = None
        self.sizes[symbol] = own
        self.log.append(symbol)
        return own

    def mark(self) -> int:
        """A place to go back to with `forget`."""
        return len(self.log)

    def forget(self, mark: int) -> None:
        """The sizes that were bound since have no values any more."""
        while len(self.log) > mark:
            self.sizes.pop(self.log.pop(), None)

    def dim(self, d: Dim, where: Span | None = None) -> Dim:
        """A dim over the sizes of this function. Unsupported (vm.C2) where one has no value."""
        if not isinstance(d, Scalar):
            return d
        if self.explicit and not isinstance(d, Symbol):
            slot = self.slot(self.number(d))
            if slot is None:
                raise Unsupported(f"the size {show(d)} has no name here{NAMED}", where=where, label="vm.C2")
            return self.dim(slot, where)
        change: dict[Symbol, Dim] = {}
        for v in variables(d):
            own = self.size(v)
            if own is None:
                why = NAMED if self.explicit else ""
                raise Unsupported(
                    f"the size {v.name} of {show(d)} has no value before it is used{why}", where=where, label="vm.C2"
                )
            if own is not v:
                change[v] = own
        return substitute(d, change) if change else d

    def is_told(self, d: Dim) -> bool:
        """Whether a dim has a value here."""
        if self.explicit and isinstance(d, Scalar) and not isinstance(d, Symbol):
            return self.slot(self.number(d)) is not None
        return all(self.size(v) is not None for v in variables(d))

    def slot(self, number: int) -> Symbol | None:
        """The name of a size that is a larger expression."""
        at: Routine | None = self
        while at is not None and number not in at.slots:
            at = at.outer
        return None if at is None else at.slots[number]

    def is_own(self, symbol: Symbol) -> bool:
        """Whether a symbol has got its value in this function."""
        return symbol in self.sizes and self.sizes[symbol] not in self.inherited

    def type(self, of: Type) -> Type:
        """A type over the sizes of this function; what has no value stays."""

        def change(d: Dim) -> Dim:
            if not isinstance(d, Scalar):
                return d
            other: dict[Symbol, Dim] = {}
            for v in variables(d):
                own = self.size(v)
                if own is not None and own is not v:
                    other[v] = own
            return substitute(d, other) if other else d

        return with_dims(of, change)

    def tensor(self, of: TensorType, where: Span | None = None) -> TensorType:
        """A tensor type of which every size has a value."""
        return TensorType(tuple(self.dim(d, where) for d in of.shape), of.dtype)

    # --- what is checked ----------------------------------------------------------------------------------------------

    def meet(self, pairs: Sequence[tuple[Held, Type, str]], label: str, span: Span | None = None) -> None:
        """Values have types, which bind the sizes that have none (rule M4). A dim over a size that a later one of the
        values binds is compared last."""
        if self.explicit:
            return
        parts = [p for p in _flat(pairs) if _tells(p[1])]
        for held, of, what in parts:
            if [v for v in _missing(of, self) if v not in open_symbols(of)]:
                loose = with_dims(of, lambda d: d if isinstance(d, Symbol) else Symbol("_"))
                self.match(held, loose, label, what, span)
            else:
                self.match(held, of, label, what, span)
        for held, of, what in parts:
            if any(isinstance(d, Scalar) and not isinstance(d, Symbol) for d in _all_dims(of)):
                self.match(held, of, label, what, span)

    def match(self, held: Held, of: Type, label: str, what: str, span: Span | None) -> None:
        """One value has a type."""
        binds = tuple(self.bind(v) for v in open_symbols(of) if self.size(v) is None)
        missing = _missing(of, self)
        if missing:
            raise Unsupported(
                f"{what} is {of}, and {missing[0].name} has no value before it is used", where=span, label="vm.C2"
            )
        self.add(vm.MatchType(self.register(held, span), self.type(of), binds, label, what, span=span))

    def match_shape(self, held: Held, sizes: Sequence[Symbol], span: Span | None) -> None:
        """The sizes of a shape get names."""
        of = ShapeType(tuple(sizes))
        self.add(vm.MatchType(self.register(held, span), of, tuple(sizes), "match_cast.T1", span=span))

    # --- the end ------------------------------------------------------------------------------------------------------

    def seal(self) -> None:
        """All is written: what the function takes, from outside too, is settled with the types of its parameters."""
        own: list[Type] = [*(p.type for p in self.function.params), self.function.result_type]
        if self.explicit:
            own = [_unsized(t) for t in own]
        self.signature = [self.type(t) for t in [*(t for _, t in self.captured.values()), *own]]

    def finished(self) -> vm.BytecodeFunction:
        """The function, its registers numbered and its jumps set."""
        count = len(self.captured)
        places: dict[int, int] = {}
        text: list[vm.Instruction] = []
        for i in self.body:
            if isinstance(i, Label):
                places[i.number] = len(text)
            else:
                text.append(i)

        def new(r: vm.Register) -> vm.Register:
            return -1 - r if r < 0 else r + count

        def done(i: vm.Instruction) -> vm.Instruction:
            if isinstance(i, (vm.Jump, vm.JumpUnless, vm.JumpUnlessMade)):
                i = replace(i, target=places[i.target])
            return vm.renumbered(i, new)

        *parameters, result = self.signature
        return vm.BytecodeFunction(
            self.name,
            tuple(parameters),
            result,
            self.count + count,
            tuple(map(done, text)),
            count,
            (*self.inherited, *self.bound),
            len(self.inherited),
            self.function.func_type.type_params,
            {new(r): n for r, n in sorted(self.names.items(), key=lambda pair: new(pair[0]))},
            tuple((self.sizes[s], least, most) for s, least, most in declared_limits(self.function)),
        )

    def closure(self, to: vm.Register, inner: Routine, span: Span | None) -> None:
        """`to` holds the function `inner`, which stands here and is done."""
        itself = None
        captured: list[vm.Register] = []
        for k, (outside, _) in enumerate(inner.captured.values()):
            if outside is None:
                itself = k
            else:
                captured.append(self.register(outside, span))
        self.add(vm.MakeClosure(to, inner.name, tuple(captured), tuple(inner.inherited.values()), itself, span=span))


def _flat(pairs: Iterable[tuple[Held, Type, str]]) -> Iterator[tuple[Held, Type, str]]:
    """Values in parts, part by part."""
    work = Worklist[tuple[Held, Type, str]](pairs)
    for held, of, what in work:
        if isinstance(held, tuple) and isinstance(of, TupleType):
            work.add([(h, t, f"{what}.{i}") for i, (h, t) in enumerate(zip(held, of.fields, strict=True))])
        else:
            yield held, of, what


def _tells(of: Type) -> bool:
    """Whether a value of the type has sizes that can be asked."""
    return any(isinstance(t, (TensorType, ShapeType)) for t in _looked_at(of))


def _looked_at(of: Type) -> Iterator[Type]:
    work = Worklist[Type]([of])
    for t in work:
        if isinstance(t, TupleType):
            work.add(t.fields)
        yield t


def _all_dims(of: Type) -> Iterator[Dim]:
    return (d for t in _looked_at(of) for d in dims(t))


def _missing(of: Type, routine: Routine) -> list[Symbol]:
    """The sizes in the dims of a type that have no value."""
    found = dict.fromkeys(v for d in _all_dims(of) if isinstance(d, Scalar) for v in variables(d))
    return [v for v in found if routine.size(v) is None]


def _unsized(of: Type) -> Type:
    return with_dims(of, lambda d: Symbol("_"))
